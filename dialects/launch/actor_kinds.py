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

from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.repetitions import MOST_ACTS
from penstock.plugins import names_of as plugins

_ONE, _TWO, _SOME = range(1, 2), range(2, 3), range(1, 1 << 30)
ACTOR_KINDS: Mapping[str, tuple[range | None, range | None]] = {
    "plain": (None, None),
    "case": (_ONE, _SOME),
    "esac": (_SOME, _ONE),
    "input_wise": (_SOME, _SOME),
    "lock": (_TWO, _ONE),
    "send_ids": (_ONE, _ONE),
    "cyclic": (None, None),
}
"""The numbers of registers that actors of each kind read and write."""

PLAIN, CYCLIC = "plain", "cyclic"
STATIC = (PLAIN, CYCLIC)
"""The kinds whose acts use registers in an order that no data decides."""

WITHOUT_STEPS = ("case", "esac", "lock", "send_ids")
"""The kinds of actors that do no steps."""
NUMBERED: Mapping[str, Sequence[str]] = {
    "case": ("reads",),
    "esac": ("writes",),
    "lock": ("reads", "writes"),
    "send_ids": ("reads", "writes"),
}
"""The registers of actors of each kind that hold numbers."""
WITH_LISTS = ("lock", "send_ids", "cyclic")
"""The kinds of actors that know lists by number."""
KIND = "actor-kind"
"""The kind of plug-ins that say the cycle of an actor, by the name of its kind."""


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
        verify_plugin(kind)
        return
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
    if kind == CYCLIC:
        verify_cycle([*reads, *writes], lists)


def verify_plugin(kind: str) -> None:
    """Raise `VerifyException` unless a plug-in has an actor kind of this name."""
    names = plugins(KIND)
    if kind not in names:
        known = ", ".join((*ACTOR_KINDS, *names))
        raise VerifyException(f"unknown kind '{kind}', expected one of {known}")


def verify_cycle(registers: Sequence[str], acts: Sequence[Sequence[int]]) -> None:
    """
    Raise `VerifyException` unless each act of a cycle lists registers, by their places
    among those that are read and then written, and each of these is in some act.
    """
    if len(acts) > MOST_ACTS:
        raise VerifyException(
            f"a cycle has {len(acts)} acts, which may be {MOST_ACTS} at most"
        )
    for number, used in enumerate(acts):
        if not used:
            raise VerifyException(f"act {number} of the cycle uses no register")
        if [*used] != sorted({*used}):
            raise VerifyException(
                f"act {number} of the cycle lists registers in ascending order, each "
                f"once, got {[*used]}"
            )
        if not 0 <= used[0] <= used[-1] < len(registers):
            raise VerifyException(
                f"act {number} of the cycle lists register "
                f"{used[0] if used[0] < 0 else used[-1]}, but there are "
                f"{len(registers)}"
            )
    for place, name in enumerate(registers):
        if not any(place in used for used in acts):
            raise VerifyException(f"no act of the cycle uses @{name}")


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
