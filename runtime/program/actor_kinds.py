"""
The kinds of actors: the inputs, work and results of an act of each.

`plain`       reads and writes all of its registers in every act
`case`        takes a number from its input, and produces a piece in the register of
              that number; one that has no free slot does not keep others from going on
`esac`        takes a piece from any of its inputs, and says from which by number
`input_wise`  takes a piece from each of its inputs, in any order, makes the calls
              that are on that register, and produces its results after all of them
`lock`        takes the numbers of sections that are asked for (first register) and
              given back (second one), and produces those that are granted
`send_ids`    takes a number from its input and produces the numbers in its list of
              that number, one in each act
`cyclic`      takes and produces in each act a piece of those registers that its list of
              that act has, and begins again after the last one; makes the calls that
              are on one of them, and those that are on none

The lists of a lock are for each section those that may not be held at the same time. A
section is granted to the first who asked for it if nobody has one of these, and nobody
who waits for one of these has asked before (OneFlow's reentrant lock).

An actor *has ended* when it can never act again, as there will be no more pieces of
what it needs. Then there will be none of what it writes; what is left over of what it
reads is thrown away and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.actors import Actor, Register, Slot

BUILT_IN: Mapping[str, str] = {
    "plain": "Reads and writes all of its registers in every act.",
    "case": "Produces a piece in the register that a number says.",
    "esac": "Takes a piece from any of its inputs, and says from which.",
    "input_wise": "Takes a piece from each of its inputs, in any order.",
    "lock": "Grants sections that may not be held at the same time.",
    "send_ids": "Produces the numbers in a list that a number says.",
    "cyclic": "Takes and makes pieces of the registers in a list, by turns.",
}

KINDS = tuple(BUILT_IN)
"""The kinds by their numbers in compiled code."""

CYCLIC = "cyclic"
"""The kind with a list of registers for each act."""

DYNAMIC = ("case", "esac", "lock", "send_ids")
"""The kinds that produce pieces as numbers in the data say."""

WHEN = ("always", "first", "rest")
"""The conditions of calls, by number."""

WAITING = 256
"""Requests that a lock knows of at most; it takes no more until some are granted."""

_REGISTERS: dict[str, tuple[int | None, int | None]] = {
    "case": (1, None),
    "esac": (None, 1),
    "input_wise": (None, None),
    "lock": (2, 1),
    "send_ids": (1, 1),
    "cyclic": (None, None),
}
"""The numbers of registers that a kind reads and writes, None for one or more."""


def check_kind(actor: Actor, registers: Sequence[Register]) -> None:
    """Raise PenstockError unless an actor has the registers that its kind needs."""
    what = f"actor '{actor.name}' of kind '{actor.kind}'"
    if actor.kind not in KINDS:
        raise PenstockError(
            f"{what}, which is none of {', '.join(KINDS)}",
        )
    for call in actor.calls:
        _check_call(actor, call.when, call.on)
    if actor.kind == "plain":
        return
    if actor.every:
        raise PenstockError(f"{what} has a piece for several acts")
    if actor.kind == CYCLIC:
        _check_cycle(actor, what)
        return
    for verb, count, found in zip(
        ("reads", "writes"),
        _REGISTERS[actor.kind],
        (len(actor.reads), len(actor.writes)),
        strict=True,
    ):
        if found != (count or max(found, 1)):
            expected = "at least one" if count is None else str(count)
            raise PenstockError(f"{what} {verb} {found} registers, not {expected}")
    if actor.calls and actor.kind != "input_wise":
        raise PenstockError(f"{what} makes calls")
    for register in _numbers(actor):
        if registers[register].address == 0:
            raise PenstockError(
                f"{what} needs numbers in register '{registers[register].name}', "
                "which has no memory"
            )


def _check_cycle(actor: Actor, what: str) -> None:
    registers = (*actor.reads, *actor.writes)
    places = {*range(len(registers))}
    if any(not {*act} <= places or len({*act}) != len(act) for act in actor.lists):
        raise PenstockError(f"{what} lists a register that it has not, or twice")
    if not all(actor.lists) or {x for act in actor.lists for x in act} != places:
        raise PenstockError(f"{what} has an act or a register that is in no list")
    for act in actor.lists:
        used = {registers[place] for place in act}
        for call in actor.calls:
            if call.on is not None and call.on not in used:
                continue
            given = (arg.register for arg in call.args if isinstance(arg, Slot))
            if left := {*given} - used:
                raise PenstockError(
                    f"{what} gives a call register {min(left)}, which is not used in "
                    "an act in which it is made"
                )


def _check_call(actor: Actor, when: str, on: int | None) -> None:
    if actor.kind == CYCLIC:
        if when != WHEN[0] or on not in (None, *actor.reads, *actor.writes):
            raise PenstockError(
                f"a call of actor '{actor.name}' is made '{when}' on register {on}, "
                "which its cycle does not have"
            )
        return
    if when not in WHEN:
        raise PenstockError(
            f"a call of actor '{actor.name}' is made '{when}', not "
            f"{', '.join(WHEN[:-1])} or {WHEN[-1]}"
        )
    if on is not None and (actor.kind != "input_wise" or on not in actor.reads):
        raise PenstockError(
            f"a call of actor '{actor.name}' is on register {on}, which it does not "
            "take alone"
        )


def _numbers(actor: Actor) -> Sequence[int]:
    """The registers of an actor that hold numbers."""
    match actor.kind:
        case "case":
            return actor.reads
        case "esac":
            return actor.writes
        case "lock" | "send_ids":
            return (*actor.reads, *actor.writes)
        case _:
            return ()


def choices(actor: Actor) -> int:
    """The numbers that an actor takes are below this."""
    return len(actor.writes) if actor.kind == "case" else len(actor.lists)


def refusal(actor: Actor, number: int) -> str:
    """The message about a number out of range that an actor has taken."""
    things = {"case": "branches", "lock": "sections"}.get(actor.kind, "lists")
    return f"got number {number}, but there are {choices(actor)} {things}"


def not_held(section: int) -> str:
    """The message about a section that a lock gets back but has not granted."""
    return f"got back section {section}, which nobody has"
