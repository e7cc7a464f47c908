"""Verification of a whole module that reports every bad operation."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from xdsl.ir import ErasedSSAValue, IRNode, Operation
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


def module_errors(module: Operation) -> list[Finding]:
    """
    The bad operations of a module, each with its message, inner operations first:
    errors of verifiers, and of the dominance of values.

    Operations around one that is wrong by itself are not listed for that alone. Raises
    `VerifierCrash` for an exception that is no diagnostic, unless an error found before
    may be its reason.
    """
    unavailable = dominance_errors(module)
    errors: list[Finding] = []
    for op in module.walk(region_first=True):
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


def contents(module: Operation) -> list[object]:
    """
    The parts of a module that verifiers can see, to be compared with those of before.

    Ops and values are held themselves, not as copies, so that none is taken for another
    one that has gone.
    """
    found: list[object] = []
    for op in module.walk():
        found += (op, op.parent, *op.operands, *op.successors)
        found += (result.type for result in op.results)
        for table in (op.properties, op.attributes):
            found += (len(table), *table.items())
        for region in op.regions:
            found.append(region)
            for block in region.blocks:
                found += (block, *(argument.type for argument in block.args))
    return found


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
