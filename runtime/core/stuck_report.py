"""The report of a stuck stream: what each actor waits for, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.runtime.core import state_layout as w
from penstock.runtime.program.tables import CALLER, Tables, Words


def waits_in(
    tables: Tables, counters: Words, phases: Sequence[int]
) -> dict[int, list[str]]:
    """
    The waits of each actor that cannot act, with the actor it waits for. Actors that
    never will act again wait for the end of their inputs.
    """
    found = tables.waits(counters)
    for index, phase in enumerate(phases):
        if phase == w.DRAINING:
            found[index] = [
                f"the end of register '{tables.registers[register].name}'"
                f" from {_who(tables, tables.registers[register].producer)}"
                for register in tables.actors[index].reads
                if not counters[tables.ended_at(register)]
            ]
    return found


def _who(tables: Tables, actor: int) -> str:
    return "the caller" if actor == CALLER else f"'{tables.actors[actor].name}'"


def stuck_in(
    tables: Tables,
    counters: Words,
    acts: Sequence[int],
    phases: Sequence[int],
    thrown: Mapping[tuple[int, int], int],
) -> list[str]:
    """
    A line for each actor that has not ended, after so many acts, and one for each input
    that has ended too early. `thrown` counts the pieces of a register that an actor
    discarded.
    """
    waits = waits_in(tables, counters, phases)
    nothing = ["what it reads never comes to an end"]
    lines = [
        f"{tables.at_act(index, acts[index])}: "
        + "; ".join(waits.get(index) or nothing)
        for index in range(len(tables.actors))
        if phases[index] != w.ENDED
    ]
    return [*_missing(tables, counters, thrown), *lines]


def _missing(
    tables: Tables, counters: Words, thrown: Mapping[tuple[int, int], int]
) -> list[str]:
    """
    A line for each input that has ended though its actor was to act again: it threw
    away something else that it reads.
    """
    lines: list[str] = []
    for index, actor in enumerate(tables.actors):
        for register in actor.reads:
            if tables.registers[register].producer != CALLER:
                continue
            others = [thrown.get((r, index), 0) for r in actor.reads if r != register]
            count = max(others, default=0)
            if count and counters[tables.ended_at(register)]:
                who = f"job '{actor.job}'" if actor.job else f"'{actor.name}'"
                name = tables.registers[register].name
                lines.append(f"{who} needs {count} more of input '{name}', which ended")
    return lines
