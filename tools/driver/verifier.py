"""Verification of a whole module that reports every bad operation."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import NoReturn, TypeAlias

from xdsl.ir import ErasedSSAValue, IRNode, Operation, SSAValue
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import DiagnosticException

from penstock.dialects.utils.diagnostics import Finding, LocatedVerifyException
from penstock.tools.driver.dominance import dominance_errors
from penstock.tools.driver.known_forms import KnownForms

_ISOLATION = "Operation using value defined out of its IsolatedFromAbove parent"
"""
The message of xDSL for an isolated operation; the dominance check has one for its uses.
"""


class VerifierCrash(Exception):
    """
    A failure of the verifier of `op` itself, with the exception that caused this one.
    """

    def __init__(self, op: Operation) -> None:
        super().__init__(f"the verifier of {op.name}")
        self.op = op


_OpFacts: TypeAlias = tuple[
    Operation,
    tuple[SSAValue, ...],
    tuple[object, ...],
    list[object],
    list[Operation],
]
"""
The parts of an op that verifiers can see: the op itself, its operands, what else it has
of its own, its regions, and the ops right inside of these.
"""

Facts: TypeAlias = Mapping[int, _OpFacts]
"""The parts of each op of a module that verifiers can see, by the op's identity."""

# All ops are asked after each pass, and each property of these would be a call.
_parts_of = attrgetter(
    *("_operands", "parent", "_next_op", "_successors"),
    *("properties", "attributes", "results", "regions"),
)
_ends_of = attrgetter("_first_op", "_next_block", "_args")
_type_of = attrgetter("_type")


def module_errors(
    module: Operation,
    only: Collection[Operation] | None = None,
    known: KnownForms | None = None,
) -> list[Finding]:
    """
    The bad operations of a module, each with its message, inner operations first:
    errors of verifiers, and of the dominance of values. If `only` some ops are given,
    the verifiers of no others are asked; nor are definitions, about forms that are
    `known`.

    Operations around one that is wrong by itself are not listed for that alone. Raises
    `VerifierCrash` for an exception that is no diagnostic, unless an error found before
    may be its reason.
    """
    unavailable = dominance_errors(module)
    with (known or KnownForms()).asked_first():
        errors = _errors_of_verifiers(module, only, bool(unavailable))
    if unavailable:
        errors = [(op, text) for op, text in errors if _ISOLATION not in text]
    return errors + [(op, f"{op.name}: {message}") for op, message in unavailable]


def _errors_of_verifiers(
    module: Operation, only: Collection[Operation] | None, is_undefined: bool
) -> list[Finding]:
    """The errors of verifiers; `is_undefined` tells that some values are not there."""
    errors: list[Finding] = []
    for op in module.walk(region_first=True):
        if only is not None and op not in only:
            continue
        try:
            _verify_alone(op, is_undefined)
        except LocatedVerifyException as error:
            found = {op for op, _ in errors}
            errors += [(x, _of(x, t)) for x, t in error.findings if x not in found]
        except DiagnosticException as error:
            errors.append((op, f"{op.name}: {error}"))
        except Exception as error:
            if not errors and not is_undefined:
                raise VerifierCrash(op) from error
    return errors


def facts_of(module: Operation) -> Facts:
    """
    The parts of each op of a module that its verifier can see, to be compared with
    those of before.

    Ops and values are held themselves, not as copies, so that none is taken for another
    one that has gone.
    """
    found: dict[int, _OpFacts] = {}
    pending: list[Operation] = []
    _note(module, found, pending)
    for op in pending:
        _, _, _, around, inside = found[id(op)]
        for region in op.regions:
            around.append(region)
            block = region.first_block
            while block is not None:
                child, after, arguments = _ends_of(block)
                around += (block, *map(_type_of, arguments))
                while child is not None:
                    inside.append(child)
                    child = _note(child, found, pending)
                block = after
    return found


def _note(
    op: Operation, found: dict[int, _OpFacts], pending: list[Operation]
) -> Operation | None:
    """Note the facts of an op, and that its regions come later; the op after it."""
    operands, parent, after, successors, properties, attributes, results, regions = (
        _parts_of(op)
    )
    own = (
        parent,
        after is None,
        *successors,
        *map(_type_of, operands),
        *map(_type_of, results),
        len(properties),
        *properties,
        *properties.values(),
        *attributes,
        *attributes.values(),
    )
    if regions:
        pending.append(op)
        found[id(op)] = op, operands, own, [], []
    else:
        found[id(op)] = op, operands, own, _NO_REGIONS, _NO_OPS
    return after


_NO_REGIONS: list[object] = []
_NO_OPS: list[Operation] = []
"""The regions of an op that has none, and the ops inside of them."""


def seen_otherwise(before: Facts, now: Facts) -> set[Operation]:
    """
    The ops whose verifiers may see anything else than before: those that changed, all
    around these, and those next to them, which are the ops of their operands, the
    readers of their results, and the ops right inside of them.

    So a verifier may look at all that is in its op, and one step beyond.
    """
    found: set[Operation] = set()
    for key, facts in now.items():
        old = before.get(key)
        if old == facts:
            continue
        op, *parts, inside = facts
        found.update(_around(op))
        if old is None or [*old[1:-1]] != parts:
            found.update(inside)
            found.update(use.operation for value in op.results for use in value.uses)
            found.update(_owners(facts, now))
        if old is not None:
            found.update(_owners(old, now))
    for key, facts in before.items():
        if key not in now:
            found.update(_owners(facts, now))
    return found


def _around(op: Operation) -> Iterator[Operation]:
    """An op, and all ops around it."""
    at: Operation | None = op
    while at is not None:
        yield at
        at = at.parent_op()


def _owners(facts: _OpFacts, now: Facts) -> Iterator[Operation]:
    """The ops of a module that operands are results of."""
    _, operands, *_ = facts
    for value in operands:
        if isinstance(owner := value.owner, Operation) and id(owner) in now:
            yield owner


def _of(op: Operation, text: str) -> str:
    """The message about an operation, with its name."""
    return text if text.startswith(f"{op.name} ") else f"{op.name}: {text}"


def _verify_alone(op: Operation, is_undefined: bool) -> None:
    if is_undefined and any(isinstance(x, ErasedSSAValue) for x in op.operands):
        return  # which the dominance check reports
    op.verify(verify_nested_ops=False)
    for region in op.regions:
        for block in region.blocks:
            if block.first_op is None:
                block.verify()


class Culprits:
    """The operation that an exception was raised for, while `recording` is active."""

    def __init__(self) -> None:
        self._last: tuple[Exception, Operation] | None = None

    def of(self, error: BaseException) -> Operation | None:
        """The operation that `error` was emitted on, if that is known."""
        if self._last is None or self._last[0] is not error:
            return None
        return self._last[1]

    @contextmanager
    def recording(self) -> Generator[None]:
        """
        A context in which `emit_error` records the operation instead of printing its
        whole module, which takes seconds for large modules.
        """
        before = _recording.set(self)
        try:
            yield
        finally:
            _recording.reset(before)

    def note(self, error: Exception, ir: IRNode) -> None:
        """Note the operation that an error is raised for first."""
        if self.of(error) is None and isinstance(ir, Operation):
            self._last = (error, ir)


_recording: ContextVar[Culprits | None] = ContextVar("culprits", default=None)
"""The culprits that are recorded: each thread has its own, as several may compile."""
_raise_with_module = Diagnostic.raise_exception


def _raise(self: Diagnostic, ir: IRNode, underlying_error: Exception) -> NoReturn:
    if (culprits := _recording.get()) is None:
        _raise_with_module(self, ir, underlying_error)
    culprits.note(underlying_error, ir)
    raise underlying_error


Diagnostic.raise_exception = _raise
