"""
The page of the Python API, `docs/api.md`: signatures and docstrings of public names,
grouped by what a program does with them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import cast

import penstock
from penstock.tools.frontend.python.calls import OpFunction, functions_of
from penstock.tools.frontend.python.jobs import Job, TracedJob
from penstock.tools.frontend.python.ops import COMPOSED
from penstock.tools.frontend.python.schedules import Step
from penstock.tools.reports.markdown import HEADING, Lines, table, text_of
from penstock.tools.reports.memory_map.map import MemoryMap
from penstock.tools.session.checkpoint import Checkpoint

_INTRODUCTION = """\
All names can be imported from `penstock`: `from penstock import Session, ops`. [Jobs in
Python](python.md) shows how they are used together."""

_JOBS: Mapping[str, object] = {
    "penstock.job": penstock.job,
    "Job": Job,
    "TracedJob": TracedJob,
    "penstock.variable": penstock.variable,
    "penstock.assign": penstock.assign,
    "penstock.op": penstock.op,
    "penstock.Tensor": penstock.Tensor,
    "penstock.OnnxFunction": penstock.OnnxFunction,
}
_SESSIONS: Mapping[str, object] = {
    "penstock.Session": penstock.Session,
    "penstock.OnnxSession": penstock.OnnxSession,
}
_STATES: Mapping[str, object] = {
    "penstock.Checkpoints": penstock.Checkpoints,
    "Checkpoint": Checkpoint,
    "penstock.read_state": penstock.read_state,
    "penstock.write_state": penstock.write_state,
    "penstock.to_state_dict": penstock.to_state_dict,
    "penstock.from_state_dict": penstock.from_state_dict,
}
_GRADIENTS: Mapping[str, object] = {
    "penstock.value_and_grad": penstock.value_and_grad,
    "penstock.grad": penstock.grad,
}
_PICTURES: Mapping[str, object] = {
    "penstock.memory_map": penstock.memory_map,
    "MemoryMap": MemoryMap,
}
_DATA = """\
[Data for training](data.md) shows how these are used together."""
_OPS = """\
Each op of the [`op` dialect](dialects/op.md) is a function for jobs. Its arguments are
the operands of the op, then its properties; numbers and arrays among the operands
become constants. It returns a tensor, or a tuple of tensors. All raise TraceError for
arguments that do not fit, and outside a function that is traced."""
_SIGNATURE_WIDTH = 88


def api_page() -> str:
    """The page of the Python API."""
    lines = [HEADING, "", "# Python API", "", _INTRODUCTION, ""]
    lines += ["## Jobs", ""]
    lines += _sections(_JOBS)
    lines += ["## Sessions", ""]
    lines += _sections(_SESSIONS)
    lines += ["## States", ""]
    lines += _sections(_STATES)
    lines += ["## Gradients", ""]
    lines += _sections(_GRADIENTS)
    lines += ["## Optimizers: `penstock.optim`", ""]
    lines += _sections(members_of(penstock.optim, "penstock.optim"))
    lines += ["## Data: `penstock.data`", "", _DATA, ""]
    lines += _sections(members_of(penstock.data, "penstock.data"))
    lines += ["## Pictures", ""]
    lines += _sections(_PICTURES)
    lines += ["## Schedules: `penstock.control`", ""]
    lines += _sections({"penstock.Workspace": penstock.Workspace})
    lines += _sections(members_of(penstock.control, "penstock.control"))
    lines += ["## Ops: `penstock.ops`", "", _OPS, ""]
    lines += table(("function", "result"), list(_op_rows()))
    lines += ["Ops with bodies take functions:", ""]
    bodies: dict[str, object] = {"penstock.ops.loop": penstock.ops.loop}
    bodies["penstock.ops.while_loop"] = penstock.ops.while_loop
    bodies["penstock.ops.cond"] = penstock.ops.cond
    composed = {f"penstock.ops.{x}": getattr(penstock.ops, x) for x in COMPOSED}
    lines += _sections({**bodies, **composed})
    lines += ["## Errors: `penstock.errors`", "", text_of(penstock.errors), ""]
    errors = members_of(penstock.errors, "penstock.errors")
    rows = [(f"`{name}`", _sentence(error)) for name, error in errors.items()]
    lines += table(("error", "meaning"), rows)
    return "\n".join(lines).rstrip() + "\n"


def members_of(module: ModuleType, prefix: str) -> dict[str, object]:
    """The public objects of a module by their names with a prefix."""
    names: list[str] = module.__all__
    return {f"{prefix}.{name}": getattr(module, name) for name in names}


def _sections(members: Mapping[str, object]) -> Lines:
    for name, member in members.items():
        if not name.endswith("Error"):
            yield from _section(name, member)


def _section(name: str, member: object) -> Lines:
    """A function, or a class with its methods and properties."""
    yield from (
        f"### `{name}`",
        "",
        "```python",
        signature_text(name, member),
        "```",
        "",
    )
    yield from (_with_errors(text_of(member)), "")
    if isinstance(member, type):
        for title, text in methods_of(member):
            yield from (f"#### `{title}`", "", text, "")


def methods_of(cls: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties of a class by signature or name, with texts."""
    for name, member in public_members(cls):
        title = cls.__name__ + ("" if name == "__call__" else f".{name}")
        if not isinstance(member, property):
            title += signature(cast(Callable[..., object], member))
        yield title, _with_errors(text_of(member))


def public_members(cls: type) -> Iterator[tuple[str, object]]:
    """Documented methods and properties of a class, without those of any `Step`."""
    inherited = set[str]() if cls is Step else {*vars(Step)}
    for name in sorted({n for base in cls.__mro__ for n in vars(base)} - inherited):
        member = inspect.getattr_static(cls, name)
        if isinstance(member, cached_property):
            member = property(cast("cached_property[object]", member).func)
        is_shown = not name.startswith("_") or name == "__call__"
        is_member = isinstance(member, property) or inspect.isfunction(member)
        if is_shown and is_member and text_of(member):
            yield name, member


def signature_text(name: str, member: object) -> str:
    """The signature of a function or class, on as many lines as it takes."""
    function = cast(Callable[..., object], member)
    line = f"{name}{signature(function)}"
    if len(line) <= _SIGNATURE_WIDTH:
        return line
    made = inspect.signature(function)
    rows: list[str] = []
    for parameter in made.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*," not in rows:
            rows.append("*,")
        rows.append(f"{_parameter(parameter)},")
    inside = "\n".join(f"    {row}" for row in rows)
    return f"{name}(\n{inside}\n){_result(made)}"


def signature(function: Callable[..., object]) -> str:
    """The parameters of a function but for `self`, and its result, on one line."""
    made = inspect.signature(function)
    shown: list[str] = []
    is_marked = False
    for parameter in made.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            is_marked = True
        if parameter.kind is parameter.KEYWORD_ONLY and not is_marked:
            shown.append("*")
            is_marked = True
        shown.append(_parameter(parameter))
    return f"({', '.join(shown)}){_result(made)}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    given = parameter.default is not parameter.empty
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
        return f"{text} = {parameter.default!r}" if given else text
    return f"{text}={parameter.default!r}" if given else text


def _result(made: inspect.Signature) -> str:
    # A dataclass is made by a function that says None.
    if made.return_annotation in (made.empty, "None", None):
        return ""
    return f" -> {_annotation(made.return_annotation)}"


def _annotation(annotation: object) -> str:
    return (
        annotation
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation)
    )


_RAISES = re.compile(r"^Raises ", re.MULTILINE)


def _with_errors(text: str) -> str:
    return _RAISES.sub("**Raises** ", text)


def _op_rows() -> Iterator[tuple[str, str]]:
    for name, function in sorted(functions_of("op").items()):
        anchor = f"op{name}"
        link = f"[`{name}`](dialects/op.md#{anchor})"
        yield f"{link} `{_arguments(function)}`", _sentence(function)


def _arguments(function: OpFunction) -> str:
    return str(function.__signature__)


def _sentence(documented: object) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(text_of(documented).split("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9`)\]])\. (?=[A-Z`])", paragraph)[0].rstrip(".") + "."
