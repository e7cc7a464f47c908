"""
The compiler of all tools: it parses, verifies and transforms modules.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.utils.exceptions import DiagnosticException, ParseError, ShrinkException

from penstock.dialects.utils.cleaning import canonicalize
from penstock.dialects.utils.diagnostics import (
    LocatedPassFailure,
    Place,
    definition_of,
    listening,
    place_of,
    user_place,
)
from penstock.dialects.utils.pass_events import around_nested
from penstock.plugins import PluginError
from penstock.runtime.errors import PenstockError
from penstock.tools.driver import plugins
from penstock.tools.driver.diagnostics import (
    Diagnosis,
    InternalError,
    Rejected,
    diagnose_parse_error,
    reject,
    reject_if_any,
)
from penstock.tools.driver.edited_pipeline import PipelineTable
from penstock.tools.driver.files import explain_os_error
from penstock.tools.driver.instrumentation import PassInstrumentation, Step
from penstock.tools.driver.known_forms import KnownForms
from penstock.tools.driver.locating_parser import LocatingParser, UndefinedNames
from penstock.tools.driver.pass_pipeline import (
    PassTable,
    make_passes,
    parse_passes,
)
from penstock.tools.driver.pass_timing import PassTimes
from penstock.tools.driver.plugin_digest import PlugInCode, codes_of_files
from penstock.tools.driver.reproducer import Resources, naming_files
from penstock.tools.driver.verifier import (
    Culprits,
    Facts,
    VerifierCrash,
    facts_of,
    module_errors,
    seen_otherwise,
)

if TYPE_CHECKING:
    from penstock.lowering.pipelines import Passes


def _apply_canonicalize(self: CanonicalizePass, ctx: Context, op: ModuleOp) -> None:
    canonicalize(ctx, op.body)


CanonicalizePass.apply = _apply_canonicalize

GC_THRESHOLDS = (500_000, 1_000, 100)
"""Thresholds of Python's garbage collector, as `gc.set_threshold` takes them."""


@dataclass
class Compiler:
    """
    The compiler: it reads text into modules and runs passes over them.

    Errors in the input are raised as `Rejected`, defects of passes and verifiers as
    `InternalError`. Warnings of passes and targets go to `on_warning`, or become
    warnings of Python without it. The instrumentations are told of each pass, in their
    order. While `shrinking`, a pass may raise `ShrinkException` to say that the input
    still shows the behaviour looked for.
    """

    ctx: Context
    times: PassTimes = field(default_factory=PassTimes)
    culprits: Culprits = field(default_factory=Culprits)
    verify_each: bool = True
    disable_verify: bool = False
    instrumentations: list[PassInstrumentation] = field(
        default_factory=list[PassInstrumentation]
    )
    on_warning: Callable[[Diagnosis], None] | None = None
    shrinking: bool = False
    _verified: Facts | None = field(default=None, init=False)
    """The ops of the module that was verified last, as they were then."""
    _is_whole: bool = field(default=True, init=False)
    """Whether all ops of it were after each pass of a pipeline."""
    _known: KnownForms = field(default_factory=KnownForms, init=False)
    """The forms of ops that were found right in a pipeline."""
    pipelines: PipelineTable = field(default_factory=plugins.known_pipelines)
    loaded: tuple[PlugInCode, ...] = ()
    """The code of files that were loaded into it, or have registered something."""

    def parse(
        self, data: bytes, name: str, line_offset: int = 0, *, implicit: bool = True
    ) -> ModuleOp:
        """
        The module in the bytes of a file, or in the part of it that is `line_offset`
        lines down; unless `implicit`, the text holds the module op itself.
        """
        return self.parse_all(data, name, line_offset, implicit=implicit)[0]

    def parse_all(
        self, data: bytes, name: str, line_offset: int = 0, *, implicit: bool = True
    ) -> tuple[ModuleOp, Resources]:
        """The module of `parse`, and the external resources behind it."""
        with (
            naming_files(data, plugins.loaded_files()),
            self.diagnosing(data, name, line_offset),
        ):
            parser = LocatingParser(self.ctx, data.decode(), name, line_offset)
            return parser.parse_module(implicit), parser.resources

    @contextmanager
    def diagnosing(self, data: bytes, name: str, line_offset: int) -> Generator[None]:
        """A context in which parse errors of `data` are raised as `Rejected`."""
        try:
            yield
            return
        except UndefinedNames as error:
            found = [diagnose_parse_error(each, line_offset) for each in error.errors]
            raise Rejected(found, while_parsing=True) from None
        except ParseError as error:
            diagnosis, cause = diagnose_parse_error(error, line_offset), error.__cause__
        except UnicodeDecodeError as error:
            line = line_offset + 1 + data.count(b"\n", 0, error.start)
            byte = data[error.start]
            text = f"not UTF-8 text: byte 0x{byte:02x}"
            diagnosis, cause = Diagnosis(Place(name, line, 1), text), error
        except RecursionError as error:
            place = Place(name, line_offset + 1, 1)
            text = "regions nest too deeply to be parsed"
            diagnosis, cause = Diagnosis(place, text), error
        raise Rejected([diagnosis], while_parsing=True) from cause

    def verify(
        self,
        module: ModuleOp,
        prefix: str = "",
        position: int = -1,
        only: Collection[Operation] | None = None,
    ) -> None:
        """
        Raise `Rejected` with every bad operation, or those of `only` some, its message
        behind `prefix`. The time is that of verification at a `position` of a pipeline.
        """
        if self.disable_verify:
            return
        try:
            with self.times.measure("verify", position), self.culprits.recording():
                errors = module_errors(module, only, self._known)
        except VerifierCrash as crash:
            cause, author = crash.__cause__ or crash, definition_of(type(crash.op))
            place = place_of(crash.op)
            notes = () if place is None else (f"{place}: note: this is verified",)
            raise self._defect(str(crash), author, cause, notes) from cause
        reject_if_any(errors, prefix)
        if position < 0 and self.verify_each:
            self._verified = facts_of(module)

    def apply(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        """
        Apply passes in order, verifying after each (or only after the last one), unless
        it left all as the one before did. After passes in between, the verifiers are
        asked that may see anything else than before.
        """
        with rare_collections():
            self._apply(module, passes)

    def _apply(self, module: ModuleOp, passes: Sequence[ModulePass]) -> None:
        self._is_whole, self._known = True, KnownForms()
        for each in self.instrumentations:
            each.before_pipeline(passes, module)
        for position, module_pass in enumerate(passes):
            step = Step(position, module_pass, position + 1 == len(passes))
            for each in self.instrumentations:
                each.before_pass(step, module)
            try:
                self._run(step, module)
            except (PenstockError, OSError):
                for each in self.instrumentations:
                    each.after_failure(step, module)
                raise
            for each in self.instrumentations:
                each.after_pass(step, module)

    def _run(self, step: Step, module: ModuleOp) -> None:
        """Apply a pass, and verify what it left unless that is for a later one."""
        name, author = step.name, definition_of(type(step.module_pass))
        with (
            self.times.measure(name, step.position),
            around_nested(self.times.measure),
            self.blaming("pass", name, author),
        ):
            start = perf_counter()
            step.module_pass.apply(self.ctx, module)
            # The logger is that of the pass's own module.
            taken = (perf_counter() - start) * 1e3
            log = logging.getLogger(type(step.module_pass).__module__)
            log.debug("%s: %.2f ms", step.module_pass.pipeline_pass_spec(), taken)
        if self.disable_verify:
            return
        if self.verify_each:
            self._verify_after(step, module)
        elif step.is_last:
            # Without checks in between, the pass to blame is not known.
            self.verify(module, "the pipeline left bad IR: ", step.position)

    def _verify_after(self, step: Step, module: ModuleOp) -> None:
        """Verify what a pass changed, and after the last one all."""
        with self.times.measure("verify", step.position):
            now, before = facts_of(module), self._verified
            seen = None if before is None else seen_otherwise(before, now)
        if seen or seen is None:
            self.verify(module, f"{step.name} left bad IR: ", step.position, seen)
            self._is_whole &= seen is None
        if step.is_last and not self._is_whole:
            self.verify(module, "the pipeline left bad IR: ", step.position)
        self._verified = now

    @contextmanager
    def blaming(
        self, kind: str, name: str, author: Place | None = None
    ) -> Generator[None]:
        """
        A context in which errors of a pass or target are raised with its name; `author`
        is the place where it is defined, if it is not ours.
        """
        prefix = f"{name}: " if kind == "pass" else f"{kind} {name}: "
        try:
            with self.culprits.recording(), self._hearing(prefix):
                yield
        except LocatedPassFailure as error:
            reject_if_any(error.findings, prefix)
        except PluginError as error:
            reject(f"{prefix}{error}")
        except DiagnosticException as error:
            culprit = self.culprits.of(error)
            place = None if culprit is None else place_of(culprit)
            reject(f"{prefix}{error}", place)
        except ParseError as error:
            diagnosis = diagnose_parse_error(error, 0)
            raise Rejected(
                [replace(diagnosis, message=prefix + diagnosis.message)]
            ) from error
        except OSError as error:
            file = f" ({error.filename})" if error.filename else ""
            reject(f"{prefix}{explain_os_error(error)}{file}")
        except (Exception, SystemExit) as error:
            if isinstance(error, ShrinkException) and self.shrinking:
                raise
            raise self._defect(f"{kind} {name}", author, error) from error

    def _defect(
        self,
        where: str,
        author: Place | None,
        error: BaseException,
        notes: tuple[str, ...] = (),
    ) -> PenstockError:
        """
        The error of a plug-in that raised an exception, or that of a defect of ours.
        """
        place = user_place(error) or author
        if place is None:
            return InternalError(where)
        text = f"{where} fails: {type(error).__name__}: {error}"
        return Rejected([Diagnosis(place, text, notes)])

    @contextmanager
    def _hearing(self, prefix: str) -> Generator[None]:
        """A context in which warnings go to `on_warning`, if there is one."""
        tell = self.on_warning
        if tell is None:
            yield
            return

        def listener(op: Operation, message: str) -> None:
            tell(Diagnosis(place_of(op), prefix + message, severity="warning"))

        with listening(listener):
            yield


@contextmanager
def rare_collections() -> Generator[None]:
    """
    A context with rare garbage collections. IR is made of cycles that live on: a
    collection finds nothing, and takes longer the more IR there is.
    """
    _rare.begin()
    try:
        yield
    finally:
        _rare.end()


class _RareCollections:
    """The thresholds of the process, for as long as any thread has them rare."""

    def __init__(self) -> None:
        self._lock, self._count, self._before = Lock(), 0, gc.get_threshold()

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._before = gc.get_threshold()
                gc.set_threshold(*GC_THRESHOLDS)
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                gc.set_threshold(*self._before)


_rare = _RareCollections()


def installed_compiler(files: Sequence[str] = ()) -> tuple[Compiler, PassTable]:
    """
    A compiler that knows the dialects of every installed package and of some files, and
    their passes.

    Raises `UsageError` if a plug-in cannot be loaded.
    """
    universes = plugins.universes_of(files)
    loaded = codes_of_files(files)
    ctx = Context()
    dialects = plugins.merge(universes, lambda u: u.all_dialects, "dialect")
    for name, factory in dialects.items():
        ctx.register_dialect(name, factory)
    passes = plugins.merge(universes, lambda u: u.all_passes, "pass")
    # The driver is there to find which pass leaves bad IR; here the end is enough.
    return Compiler(ctx, verify_each=False, loaded=loaded), passes


def run_pipeline(
    compiler: Compiler, passes: PassTable, module: ModuleOp, pipeline: str | Passes
) -> None:
    """Run the passes of a pipeline, or of the text of one, over a module."""
    is_text = isinstance(pipeline, str)
    made = parse_passes(passes, pipeline) if is_text else make_passes(passes, pipeline)
    compiler.apply(module, made)
