"""Verification of a whole module that reports every bad operation."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, NoReturn, TypeAlias

from xdsl.ir import ErasedSSAValue, IRNode, Operation, SSAValue
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import DiagnosticException

from penstock.dialects.utils.diagnostics import Finding, LocatedVerifyException
from penstock.tools.driver.dominance import dominance_errors

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


class _OpFacts(NamedTuple):
    """The parts of an op that verifiers can see."""

    operands: tuple[SSAValue, ...]
    own: list[object]
    inside: list[Operation]
    """The ops right inside of it."""


Facts: TypeAlias = Mapping[Operation, _OpFacts]
"""The ops of a module, and the parts of each that verifiers can see."""


def module_errors(
    module: Operation, only: Collection[Operation] | None = None
) -> list[Finding]:
    """
    The bad operations of a module, each with its message, inner operations first:
    errors of verifiers, and of the dominance of values. If `only` some ops are given,
    the verifiers of no others are asked.

    Operations around one that is wrong by itself are not listed for that alone. Raises
    `VerifierCrash` for an exception that is no diagnostic, unless an error found before
    may be its reason.
    """
    unavailable = dominance_errors(module)
    errors: list[Finding] = []
    for op in module.walk(region_first=True):
        if only is not None and op not in only:
            continue
        try:
            _verify_alone(op)
        except LocatedVerifyException as error:
            found = {op for op, _ in errors}
            errors += [(x, _of(x, t)) for x, t in error.findings if x not in found]
        except DiagnosticException as error:
            errors.append((op, f"{op.name}: {error}"))
        except Exception as error:
            if not errors and not unavailable:
                raise VerifierCrash(op) from error
    if unavailable:
        errors = [(op, text) for op, text in errors if _ISOLATION not in text]
    return errors + [(op, f"{op.name}: {message}") for op, message in unavailable]


def facts_of(module: Operation) -> Facts:
    """
    The parts of each op of a module that its verifier can see, to be compared with
    those of before.

    Ops and values are held themselves, not as copies, so that none is taken for another
    one that has gone.
    """
    return {op: _facts_of(op) for op in module.walk()}


def _facts_of(op: Operation) -> _OpFacts:
    operands = tuple(op.operands)
    own: list[object] = [op.parent, op.next_op is None, *op.successors]
    own += [value.type for value in (*operands, *op.results)]
    for table in (op.properties, op.attributes):
        own += (len(table), *table.items())
    inside: list[Operation] = []
    for region in op.regions:
        own.append(region)
        for block in region.blocks:
            own += (block, *(argument.type for argument in block.args))
            inside += block.ops
    return _OpFacts(operands, own, inside)


def seen_otherwise(before: Facts, now: Facts) -> set[Operation]:
    """
    The ops whose verifiers may see anything else than before: those that changed, all
    around these, and those next to them, which are the ops of their operands, the
    readers of their results, and the ops right inside of them.

    So a verifier may look at all that is in its op, and one step beyond.
    """
    found: set[Operation] = set()
    for op, facts in now.items():
        old = before.get(op)
        if old == facts:
            continue
        found.update(_around(op))
        if old is None or (old.operands, old.own) != (facts.operands, facts.own):
            found.update(facts.inside)
            found.update(use.operation for value in op.results for use in value.uses)
            found.update(_owners(facts, now))
        if old is not None:
            found.update(_owners(old, now))
    for op, facts in before.items():
        if op not in now:
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
    for value in facts.operands:
        if isinstance(owner := value.owner, Operation) and owner in now:
            yield owner


def _of(op: Operation, text: str) -> str:
    """The message about an operation, with its name."""
    return text if text.startswith(f"{op.name} ") else f"{op.name}: {text}"


def _verify_alone(op: Operation) -> None:
    if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
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

        culprits = self

        def raise_plainly(
            self: Diagnostic, ir: IRNode, underlying_error: Exception
        ) -> NoReturn:
            if culprits.of(underlying_error) is None and isinstance(ir, Operation):
                culprits._last = (underlying_error, ir)
            raise underlying_error

        original = Diagnostic.raise_exception
        Diagnostic.raise_exception = raise_plainly
        try:
            yield
        finally:
            Diagnostic.raise_exception = original
