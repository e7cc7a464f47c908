"""
The kinds of actors, and how many acts a piece of a register lasts for: rules that the
verifiers of `launch.actor` and `launch.program` ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

_ONE, _TWO, _SOME = range(1, 2), range(2, 3), range(1, 1 << 30)
ACTOR_KINDS: Mapping[str, tuple[range | None, range | None]] = {
    "plain": (None, None),
    "case": (_ONE, _SOME),
    "esac": (_SOME, _ONE),
    "input_wise": (_SOME, _SOME),
    "lock": (_TWO, _ONE),
    "send_ids": (_ONE, _ONE),
}
"""The numbers of registers that actors of each kind read and write."""

WITH_STEPS = ("plain", "input_wise")
"""The kinds of actors that do steps."""
NUMBERED: Mapping[str, Sequence[str]] = {
    "case": ("reads",),
    "esac": ("writes",),
    "lock": ("reads", "writes"),
    "send_ids": ("reads", "writes"),
}
"""The registers of actors of each kind that hold numbers."""
WITH_LISTS = ("lock", "send_ids")
"""The kinds of actors that know lists by number."""


@irdl_custom_directive
class Every(CustomDirective):
    """The acts that pieces of registers last for: `every [@sum = 4]`, or nothing."""

    every: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        if not parser.parse_optional_keyword("every"):
            return
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_pair(parser)
        )
        self.every.set(state, DictionaryAttr(dict(pairs)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        every = self.every.get(op)
        if not isinstance(every, DictionaryAttr):
            return
        state.print_whitespace(printer)
        printer.print_string("every ")
        with printer.in_square_brackets():
            printer.print_list(
                every.data.items(), lambda pair: _print_pair(printer, *pair)
            )
        state.should_emit_space = True


def _parse_pair(parser: Parser) -> tuple[str, Attribute]:
    name = parser.parse_symbol_name().data
    parser.parse_punctuation("=")
    return name, IntegerAttr(parser.parse_integer(allow_negative=False), i64)


def _print_pair(printer: Printer, name: str, count: Attribute) -> None:
    printer.print_symbol_name(name)
    assert isa(count, IntegerAttr[IntegerType]), "checked by the verifier"
    printer.print_string(f" = {count.value.data}")


def verify_kind(
    kind: str,
    reads: Sequence[str],
    writes: Sequence[str],
    lists: Sequence[Sequence[int]],
) -> None:
    """Raise `VerifyException` unless an actor has what its kind needs."""
    if kind not in ACTOR_KINDS:
        known = ", ".join(ACTOR_KINDS)
        raise VerifyException(f"unknown kind '{kind}', expected one of {known}")
    counts, found = ACTOR_KINDS[kind], (len(reads), len(writes))
    for verb, count, number in zip(("reads", "writes"), counts, found, strict=True):
        if count is not None and number not in count:
            expected = "at least one" if len(count) > 1 else str(count.start)
            registers = "register" if number == 1 else "registers"
            raise VerifyException(
                f"an actor of kind '{kind}' {verb} {number} {registers}, not {expected}"
            )
    if bool(lists) != (kind in WITH_LISTS):
        has = "needs lists" if not lists else "has no lists"
        raise VerifyException(f"an actor of kind '{kind}' {has}")
    if kind == "lock":
        verify_rivals(lists)


def verify_rivals(lists: Sequence[Sequence[int]]) -> None:
    """
    Raise `VerifyException` unless sections of a lock list each other. One that passed
    by another one that waits for it could be asked for again and again before that.
    """
    for section, rivals in enumerate(lists):
        for rival in rivals:
            if not 0 <= rival < len(lists):
                raise VerifyException(
                    f"the lock lists section {rival}, but there are {len(lists)}"
                )
            if section not in lists[rival]:
                raise VerifyException(
                    f"section {section} of the lock lists {rival}, which does not list "
                    "it"
                )


def verify_rates(
    kind: str,
    reads: Sequence[str],
    writes: Sequence[str],
    rates: Mapping[str, int],
    rounds: Collection[int],
) -> None:
    """
    Raise `VerifyException` unless pieces may last for as many acts as they do, those
    that steps write for as many as `rounds` say.
    """
    for name, count in rates.items():
        if name not in (*reads, *writes):
            raise VerifyException(
                f"a piece of @{name} lasts for {count} acts of an actor that does not "
                "use it"
            )
        if count < 1:
            raise VerifyException(
                f"a piece of @{name} lasts for at least one act, got {count}"
            )
    if rates and kind != "plain":
        raise VerifyException(f"a piece lasts for one act of kind '{kind}'")
    if len({*rounds} - {1}) > 1:
        raise VerifyException("what an actor writes has rounds of different lengths")
