"""
Plug-in points: the table of decisions that others may make, and of those who make them.

A *kind* of plug-in is one row of `KINDS` and one page, `docs/plugins/<kind>.md`. Each
plug-in has a kind and a name, and comes from one of three places:

    BUILT_IN of the module that the row names             penstock itself
    an entry point of the row's group                     an installed package
    @register(kind, name), in a file given to `--load`    a loaded file, or a program

    option of a pass, attribute, file name ...            says a name
        |  plugin_of(kind, name)                          finds and loads it
        v
    PlugIn.call(plain data)                               runs it
        |  the caller checks what comes back
        v
    PlugIn.refuse(reason)                                 for rubbish: names the plug-in

Plug-ins of most kinds are functions of plain data (numbers, tuples), so that neither
IR nor a library is needed to write or to test one. A result is checked by the caller,
in one line that names the plug-in and its place, and what is made of it by the verifier
of its level, which knows of no plug-in.

A module states the interface that it was written for, `PENSTOCK_INTERFACE = "0.2"`,
which is read before it runs; without it that is 0.1. `docs/plugin-api.md` says which
names are stable.

This module stands below all rooms, and imports Python alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points, version
from importlib.util import find_spec
from inspect import currentframe
from operator import index
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import NamedTuple, NoReturn, TypeVar, cast

T = TypeVar("T")

INTERFACE = "0.2"
"""The interface of plug-ins that this version has."""

ACCEPTED = ("0.1", INTERFACE)
"""The interfaces that plug-ins may be written for."""

STATED = "PENSTOCK_INTERFACE"
"""The name by which a module states its interface."""


class PluginError(Exception):
    """
    There is no such plug-in, it cannot be loaded, or it fails or returns rubbish. Its
    own exception is the cause.
    """


@dataclass(frozen=True)
class Kind:
    """A kind of plug-ins: a row of the table."""

    name: str
    """As `register` and `--list` say it: `task-order`."""
    group: str
    """The entry points of installed ones."""
    decides: str
    """The decision, in a few words."""
    chosen: str
    """The option, or other text, that says a name."""
    ours: str = ""
    """The mapping of our own by their names, as `module:name`."""
    is_a: str = ""
    """The class of each, as `module:name`; without it, each is a function."""
    is_class: bool = False
    """Whether each is a class derived from `is_a`, not an object of it."""

    is_suffix: bool = False
    """Whether each is named by the suffix of files, in lower case, without the dot."""

    @property
    def noun(self) -> str:
        """The kind in a sentence."""
        return self.name.replace("-", " ").replace("sbp", "SBP")

    @property
    def page(self) -> str:
        """The page about it."""
        return f"docs/plugins/{self.name}.md"

    def built_in(self) -> Mapping[str, object]:
        """Our own, by their names. Imports the module that has them."""
        if not self.ours:
            return {}
        module, _, name = self.ours.partition(":")
        return getattr(import_module(module), name)

    def takes(self, thing: object) -> bool:
        """Whether something can be a plug-in of the kind."""
        if not self.is_a:
            return callable(thing)
        module, _, name = self.is_a.partition(":")
        # An object of a class exists only where its module has been imported.
        base: object = getattr(sys.modules.get(module), name, None)
        if not isinstance(base, type):
            return False
        if self.is_class:
            return isinstance(thing, type) and issubclass(thing, base)
        return isinstance(thing, base)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "actor-kind",
            "penstock.actor_kind",
            "when an actor acts, and what it takes and makes then",
            "kind of a launch.actor",
            "penstock.runtime.program.actor_kinds:BUILT_IN",
        ),
        Kind(
            "alias-policy",
            "penstock.alias_policy",
            "the registers that lie on others",
            "regst-alias-registers{policy=NAME}",
            "penstock.lowering.algorithms.alias_policies:BUILT_IN",
        ),
        Kind(
            "boxing",
            "penstock.boxing",
            "the layouts that a tensor goes through between devices",
            "convert-job-to-plan{boxing=NAME}",
            "penstock.lowering.algorithms.boxing_policies:BUILT_IN",
        ),
        Kind(
            "code-generator",
            "penstock.code_generator",
            "the source of kernels for a kind of device",
            "by the kind of device, which is its name",
            "penstock.lowering.codegen.target:BUILT_IN",
        ),
        Kind(
            "data-source",
            "penstock.data_source",
            "where the samples of a data loader come from",
            "penstock.data.source(NAME, ...)",
            "penstock.tools.data.sources:BUILT_IN",
        ),
        Kind(
            "device",
            "penstock.device",
            "where the tasks of another kind of device run",
            "placement <NAME, ...> of a job or an op",
            "penstock.runtime.loading.devices:BUILT_IN",
        ),
        Kind(
            "dialect",
            "xdsl.universe",
            "ops, with their types, meaning in NumPy and kernels",
            "by its ops, in IR",
            is_a="xdsl.ir:Dialect",
        ),
        Kind(
            "gradient",
            "penstock.gradient",
            "the gradient of an op, in ops of the same level",
            "job-add-gradients{rules=NAME}",
            "penstock.dialects.op.training.gradient_rules:BUILT_IN",
        ),
        Kind(
            "importer",
            "penstock.importer",
            "how a file of another format becomes a job",
            "by the suffix of a file",
            "penstock.tools.driver.importers:BUILT_IN",
            is_suffix=True,
        ),
        Kind(
            "initialiser",
            "penstock.initialiser",
            "the numbers that a variable starts from",
            "#job.init<NAME, PARAMETERS> of a variable",
            "penstock.runtime.loading.initializers:BUILT_IN",
        ),
        Kind(
            "kernel",
            "penstock.kernels",
            "how a kernel is computed",
            "launch-select-kernels, by priority or by measured times",
            "penstock.lowering.launch.autotune.registry:OURS",
            is_a="penstock.lowering.launch.autotune.alternatives:Alternative",
        ),
        Kind(
            "kernel-form",
            "penstock.kernel_form",
            "a stage of kernels: its loops, roles and meaning in NumPy",
            "by its op, in kernels",
            "penstock.dialects.kernel:FORMS",
            is_a="penstock.dialects.kernel.interface:StructuredOp",
            is_class=True,
        ),
        Kind(
            "kernel-schedule",
            "penstock.kernel_schedule",
            "the source of a kernel form as an attribute schedules it",
            "attribute schedule of a stage, which it gives to stages of its form",
            "penstock.lowering.codegen.printers:BUILT_IN",
            is_a="penstock.lowering.codegen.body.printer_table:StagePrinter",
            is_class=True,
        ),
        Kind(
            "memory-planner",
            "penstock.packing",
            "the offsets of buffers, wherever two or more may share bytes",
            "regst-plan-memory{algorithm=NAME}",
            "penstock.lowering.algorithms.packing.registry:BUILT_IN",
        ),
        Kind(
            "onnx-op",
            "penstock.onnx_op",
            "the ops that a node of an ONNX model becomes",
            "by the op type of a node, behind its domain: my.domain.Op",
            "penstock.tools.frontend.onnx.converters:CONVERTERS",
        ),
        Kind(
            "optimizer",
            "penstock.optimizer",
            "what a variable becomes by its gradient",
            "job.update ... with <NAME, PARAMETERS>",
            "penstock.dialects.op.training.optimizers:OPTIMIZERS",
            is_a="penstock.dialects.op.training.optimizers:Optimizer",
            is_class=True,
        ),
        Kind(
            "pass",
            "xdsl.universe",
            "a step from IR to IR",
            "-p NAME",
            is_a="xdsl.passes:ModulePass",
            is_class=True,
        ),
        Kind(
            "pipeline",
            "penstock.pipeline",
            "which passes run, with which options",
            "--pipeline NAME{OPTIONS}",
            "penstock.lowering.pipelines:STANDARD",
            is_a="penstock.lowering.pipelines:Pipeline",
            is_class=True,
        ),
        Kind(
            "sbp-candidates",
            "penstock.sbp_candidates",
            "the SBP signatures that an op may have",
            "job-infer-sbp{candidates=NAME}",
            "penstock.lowering.algorithms.sbp_policies:CANDIDATES_BUILT_IN",
        ),
        Kind(
            "sbp-cost",
            "penstock.sbp_cost",
            "what it costs to bring a tensor to another SBP",
            "job-infer-sbp{cost=NAME}",
            "penstock.lowering.algorithms.sbp_policies:COST_BUILT_IN",
        ),
        Kind(
            "schedule",
            "penstock.schedule",
            "the way of a rate from step to step",
            "job.schedule <NAME, PARAMETERS>",
            "penstock.dialects.op.training.schedules:SCHEDULES",
            is_a="penstock.dialects.op.training.schedules:Schedule",
            is_class=True,
        ),
        Kind(
            "slot-choice",
            "penstock.slot_choice",
            "the number of slots of each register",
            "regst-choose-slots{policy=NAME}",
            "penstock.lowering.algorithms.slot_policies:BUILT_IN",
        ),
        Kind(
            "stream-policy",
            "penstock.stream_policy",
            "the streams of tasks, and their order there",
            "plan-assign-streams{policy=NAME streams=N}",
            "penstock.lowering.algorithms.stream_policies:BUILT_IN",
        ),
        Kind(
            "target",
            "xdsl.universe",
            "the text that a module is printed as",
            "-t NAME",
            is_a="xdsl.utils.target:Target",
            is_class=True,
        ),
        Kind(
            "task-order",
            "penstock.task_order",
            "the order in which tasks are listed",
            "plan-order-tasks{policy=NAME}",
            "penstock.lowering.algorithms.ordering.policies:BUILT_IN",
        ),
        Kind(
            "transport",
            "penstock.transport",
            "how the processes of several ranks exchange messages",
            "PENSTOCK_TRANSPORT=NAME in the environment of each",
            "penstock.runtime.transport.join:BUILT_IN",
        ),
    )
}
"""All kinds, by their names. A new one is a row here and a page."""

UNIVERSES = "xdsl.universe"
"""The group of entry points that offer several things at once, as xDSL's tools ask."""


@dataclass(frozen=True)
class PlugIn:
    """A plug-in that is loaded."""

    kind: Kind
    name: str
    origin: str
    """`acme 1.0` for an installed package, `acme.py:12` for a file."""
    thing: object
    module: str = ""
    """The module that registered it; none for others."""
    place: str = field(default="", compare=False)
    """The file and line of its definition, as far as they are known."""

    @property
    def function(self) -> Callable[..., object]:
        """The function that it is, if its kind has functions."""
        return cast("Callable[..., object]", self.thing)

    def call(self, *arguments: object, **options: object) -> object:
        """Its result. Raises PluginError where it raises anything."""
        try:
            return self.function(*arguments, **options)
        except Exception as error:
            # An error of the call itself, such as a wrong signature, is of no line.
            where = None if line_of_plugin(error) else self.place
            place = f" ({where})" if where else ""
            raise PluginError(f"{self} fails: {told(error)}{place}") from error

    def refuse(self, reason: str) -> NoReturn:
        """Raise PluginError: what came back is no good."""
        where = f" ({self.place})" if self.place else ""
        raise PluginError(f"{self} {reason}{where}")

    def integers(self, found: object) -> list[int]:
        """The result, if it is a sequence of integers."""
        try:
            return [index(number) for number in cast("Iterable[int]", found)]
        except TypeError as error:
            self.refuse(f"returns no list of integers: {error}")

    def __str__(self) -> str:
        return f"{self.kind.noun} '{self.name}'"


class Offer(NamedTuple):
    """A plug-in as a list shows it."""

    name: str
    origin: str
    text: str
    """Its first sentence, or why it cannot be loaded."""


################################################################################
# Registering                                                                  #
################################################################################


_registered: dict[tuple[str, str], PlugIn] = {}


def register(kind: str, name: str) -> Callable[[T], T]:
    """
    A decorator that adds a plug-in to those of this process.

        @register("task-order", "backwards")
        def backwards(problem): ...

    A class or object is added by a call: `register("pass", "my-pass")(MyPass)`. Raises
    PluginError for an unknown kind, and for a name that is taken.
    """
    return registering(kind, name, _caller())


def registering(kind: str, name: str, frame: FrameType | None) -> Callable[[T], T]:
    """`register`, on behalf of the code that runs in a frame."""

    def add(thing: T) -> T:
        _add(kind_of(kind), name, thing, frame)
        return thing

    return add


def _caller() -> FrameType | None:
    """The code that called the function that asks."""
    here = currentframe()
    asking = None if here is None else here.f_back
    return None if asking is None else asking.f_back


def _add(kind: Kind, name: str, thing: object, frame: FrameType | None) -> None:
    globals_of = {} if frame is None else frame.f_globals
    module = str(globals_of.get("__name__", ""))
    place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    origin = shown(place)
    check_interface(globals_of.get(STATED), origin)
    if not name:
        raise PluginError(f"{_with_article(kind.noun)} needs a name ({origin})")
    if kind.is_suffix and name != (suffix := name.lstrip(".").lower()):
        raise PluginError(
            f"{_with_article(kind.noun)} is named by a suffix in lower case, without "
            f"its dot: '{suffix}', not '{name}' ({origin})"
        )
    if not kind.takes(thing):
        raise PluginError(f"{kind.noun} '{name}' {_wrong_type(kind, thing)} ({origin})")
    known = _registered.get((kind.name, name))
    taken = f"there already is {_with_article(kind.noun)} '{name}'"
    # Cells of a notebook are run again.
    if known is not None and not module == known.module == "__main__":
        raise PluginError(f"{taken} ({known.origin})")
    entry = _installed(kind).get(name)
    if entry is not None and entry.module == module:
        # The entry point names what its module registers, too.
        origin = origin_of(entry)
    elif known is None and (entry is not None or name in kind.built_in()):
        raise PluginError(taken)
    place = place_of(thing) or place
    _registered[kind.name, name] = PlugIn(kind, name, origin, thing, module, place)


def _with_article(noun: str) -> str:
    """A noun with the article that its first sound takes: an importer, an SBP cost."""
    return f"{'an' if noun.startswith(('a', 'i', 'o', 'SBP')) else 'a'} {noun}"


def _wrong_type(kind: Kind, thing: object) -> str:
    if not kind.is_a:
        return f"is no function but of {type(thing).__name__}"
    expected = kind.is_a.partition(":")[2]
    if isinstance(thing, type):
        return f"is no {expected} but the class {thing.__name__}"
    return f"is no {expected} but of {type(thing).__name__}"


def registered(kind: str, module: str | None = None) -> list[PlugIn]:
    """Those that were registered, all or by one module, in order of their names."""
    found = [
        plugin
        for plugin in _registered.values()
        if plugin.kind.name == kind and module in (None, plugin.module)
    ]
    return sorted(found, key=lambda plugin: plugin.name)


def forget(module: str) -> None:
    """Take back all that a module has registered."""
    for key, plugin in list(_registered.items()):
        if plugin.module == module:
            del _registered[key]


def registering_modules() -> set[str]:
    """The modules that have registered something."""
    return {plugin.module for plugin in _registered.values()}


def files_of_registered() -> list[str]:
    """The files of modules that have registered something, each once."""
    modules = [sys.modules.get(name) for name in sorted(registering_modules())]
    files = [getattr(module, "__file__", None) for module in modules]
    return sorted({file for file in files if file and os.path.isfile(file)})


################################################################################
# Finding                                                                      #
################################################################################


def kind_of(name: str) -> Kind:
    """The kind of a name. Raises PluginError if there is none."""
    if name not in KINDS:
        raise PluginError(
            f"no kind of plug-in '{name}'{nearest(name, KINDS)} (penstock-opt --list "
            "names them)"
        )
    return KINDS[name]


def plugin_of(kind: str, name: str) -> PlugIn:
    """
    The plug-in of a name, loaded; those of this process come before installed ones.

    Raises PluginError if there is none, or if it cannot be loaded.
    """
    row = kind_of(kind)
    if (known := _registered.get((kind, name))) is not None:
        return known
    if (entry := _entries(row.group).get(name)) is not None:
        return _loaded(row, entry)
    known_names = sorted({*row.built_in(), *names_of(kind)})
    raise PluginError(
        f"no {row.noun} '{name}'{nearest(name, known_names)} (penstock-opt --list "
        f"{row.name} names them)"
    )


def names_of(kind: str) -> list[str]:
    """The names of all plug-ins of a kind but our own, in alphabetical order."""
    row = kind_of(kind)
    own = [name for of, name in _registered if of == kind]
    return sorted({*own, *_installed(row)})


def plugins_of(kind: str) -> list[PlugIn]:
    """All plug-ins of a kind but our own. Raises PluginError if one fails to load."""
    return [plugin_of(kind, name) for name in names_of(kind)]


def offers_of(kind: str) -> Iterator[Offer]:
    """All plug-ins of a kind as a list shows them: ours, then those of others."""
    row = kind_of(kind)
    ours = f"penstock {version('penstock')}"
    for name, thing in sorted(row.built_in().items()):
        yield Offer(name, ours, sentence_of(thing))
    for name in names_of(kind):
        try:
            found = plugin_of(kind, name)
        except PluginError as error:
            yield Offer(name, origin_of(_entries(row.group)[name]), str(error))
        else:
            yield Offer(name, found.origin, sentence_of(found.thing))


def _installed(kind: Kind) -> Mapping[str, EntryPoint]:
    return {} if kind.group == UNIVERSES else _entries(kind.group)


def installed_entries(group: str) -> EntryPoints:
    """The entry points of all packages that are of a group."""
    return _all_entries().select(group=group)


@cache
def _all_entries():
    """The entry points of all packages, by group: they are looked up once."""
    # The type is another one in Python 3.11 than later, and deprecated there.
    return entry_points()


@cache
def _entries(group: str) -> Mapping[str, EntryPoint]:
    found = installed_entries(group)
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def look_again() -> None:
    """Look for installed packages anew, when they are asked for next."""
    _all_entries.cache_clear()
    _entries.cache_clear()


def _loaded(kind: Kind, entry: EntryPoint) -> PlugIn:
    what = f"{kind.noun} '{entry.name}'"
    origin = origin_of(entry)
    try:
        check_entry(entry)
        thing: object = entry.load()
    except PluginError:
        raise
    except Exception as error:
        text = f"{what} of {origin} cannot be loaded: {told(error)}"
        raise PluginError(text) from error
    if not kind.takes(thing):
        raise PluginError(f"{what} of {origin} {_wrong_type(kind, thing)}")
    return PlugIn(kind, entry.name, origin, thing, place=place_of(thing) or origin)


def origin_of(entry: EntryPoint) -> str:
    """The package and version that an entry point is from."""
    dist = entry.dist
    return entry.value if dist is None else f"{dist.name} {dist.version}"


################################################################################
# Interfaces                                                                   #
################################################################################


def check_interface(stated: object, who: str) -> None:
    """Raise PluginError unless plug-ins of an interface, 0.1 if it is None, run."""
    if stated is not None and stated not in ACCEPTED:
        if not isinstance(stated, str):
            raise PluginError(
                f'{who} states no interface: {STATED} is a text such as "{INTERFACE}"'
            )
        raise PluginError(
            f"{who} is written for interface {stated} of plug-ins; this version has "
            f"{' and '.join(ACCEPTED)}"
        )


def stated_interface(text: str) -> object:
    """The interface that the text of a module states; None if it states none."""
    if STATED not in text:
        return None
    import ast

    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    for node in body:
        match node:
            case ast.Assign([ast.Name(id=name)], ast.Constant(value)) if name == STATED:
                return value
            case _:
                pass
    return None


def check_entry(entry: EntryPoint) -> None:
    """Raise PluginError if the modules of an entry point state another interface."""
    for path in _files_of(entry.value.partition(":")[0].strip()):
        text = path.read_text("utf-8", "replace")
        check_interface(stated_interface(text), origin_of(entry))


def _files_of(module: str) -> Iterator[Path]:
    """The file of a module and that of its package, neither of which is imported."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return
    if spec is None or not spec.has_location or spec.origin is None:
        return
    yield Path(spec.origin)
    if rest:
        inner = Path(spec.origin).parent.joinpath(*rest)
        found = inner.with_suffix(".py"), inner / "__init__.py"
        yield from (path for path in found if path.is_file())


################################################################################
# Texts                                                                        #
################################################################################

OURS = frozenset({"penstock", "xdsl", "numpy", "numba", "llvmlite", "onnx"})
"""The packages whose lines tell a user nothing."""


def told(error: BaseException) -> str:
    """
    The text of an exception, with the line of a plug-in that it came through last.
    """
    text = f"{type(error).__name__}: {error}"
    place = line_of_plugin(error)
    return text if place is None else f"{text} ({place[0]}:{place[1]})"


def line_of_plugin(error: BaseException) -> tuple[str, int, int] | None:
    """
    The file, line and column of a plug-in that an exception came through last: of code
    that belongs neither to Penstock, nor to its libraries, nor to Python.
    """
    found: tuple[str, int, int] | None = None
    for frame, line in walk_tb(error.__traceback__):
        if _is_of_users(frame):
            found = frame.f_code.co_filename, line, 1
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        found = error.filename, error.lineno, error.offset or 1
    return found


def _is_of_users(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in OURS and _is_no_part_of_python(frame.f_code)


def _is_no_part_of_python(code: CodeType) -> bool:
    file = code.co_filename
    below = file.removeprefix(os.path.dirname(os.__file__) + os.sep)
    is_installed = "site-packages" in below or "dist-packages" in below
    return not file.startswith("<") and (below == file or is_installed)


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` for the name nearest to one, if there is one."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f", did you mean '{close[0]}'?" if close else ""


def sentence_of(thing: object) -> str:
    """The first sentence of the docstring of a function, a class or an object."""
    if isinstance(thing, str):
        return thing
    text = getattr(thing, "__doc__", None) or ""
    # A dataclass without a docstring gets its signature for one.
    if not isinstance(text, str) or text.startswith(f"{_name_of(thing)}("):
        return ""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _name_of(thing: object) -> str:
    owner = thing if isinstance(thing, type) else type(thing)
    return owner.__name__


def place_of(thing: object) -> str:
    """The file and line of a function, or of the class of an object; else nothing."""
    code: object = getattr(thing, "__code__", None)
    if isinstance(code, CodeType):
        return f"{code.co_filename}:{code.co_firstlineno}"
    from inspect import getsourcefile, getsourcelines

    owner = thing if isinstance(thing, type) else type(thing)
    try:
        return f"{getsourcefile(owner)}:{getsourcelines(owner)[1]}"
    except (OSError, TypeError):
        return ""


def shown(place: str) -> str:
    """A place with its path from the current folder, if it is below."""
    below = os.getcwd() + os.sep
    return place.removeprefix(below)
