"""
The behaviour of each kind of actor, in plain Python: see
`penstock.runtime.program.actor_kinds`.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Protocol

from penstock.runtime.errors import TaskError
from penstock.runtime.program.actor_kinds import WAITING, choices, not_held, refusal
from penstock.runtime.program.tables import PLAIN, Call, Tables


class Run(Protocol):
    """The pieces of a program on their way: `penstock.runtime.executors.reference`."""

    tables: Tables
    done: list[int]
    made: list[int]
    used: dict[tuple[int, int], int]

    def has_piece(self, register: int, reader: int) -> bool:
        """Whether there is something to read."""
        ...

    def has_ended(self, register: int, reader: int) -> bool:
        """Whether there is nothing to read, and never will be."""
        ...

    def has_free_slot(self, register: int) -> bool:
        """Whether all readers of a register are done with one of its slots."""
        ...


class Behaviour:
    """The behaviour of an actor that reads and writes all of its registers."""

    def __init__(self, run: Run, index: int):
        self.run = run
        self.index = index
        self.actor = run.tables.actors[index]

    def is_ready(self) -> bool:
        """Whether the inputs and slots of the next act are there."""
        return all(map(self.has, self.actor.reads)) and all(
            map(self.run.has_free_slot, self.actor.writes)
        )

    def is_finished(self) -> bool:
        """Whether it never can act again, if it cannot now."""
        return any(map(self.is_over, self.actor.reads))

    def calls(self) -> list[tuple[int, Call]]:
        """The calls of the next act."""
        made = self.actor.calls_in(self.run.done[self.index])
        return [(place, self.actor.calls[place]) for place in made]

    def finish(self) -> None:
        """Produce and release the pieces that end with this act."""
        done = self.run.done[self.index] + 1
        for register in self.actor.writes:
            if done % self.actor.acts_for(register) == 0:
                self.run.made[register] += 1
        for register in self.actor.reads:
            if done % self.actor.acts_for(register) == 0:
                self.give_back(register)

    # For all kinds

    def has(self, register: int) -> bool:
        """Whether there is something to read."""
        return self.run.has_piece(register, self.index)

    def is_over(self, register: int) -> bool:
        """Whether there will be nothing more to read."""
        return self.run.has_ended(register, self.index)

    def give_back(self, register: int) -> None:
        """Be done with a piece."""
        self.run.used[register, self.index] += 1

    def failure(self, act: int, code: int, message: str) -> TaskError:
        """The error of an act that cannot be made."""
        error = TaskError(self.actor.name, act, code, message)
        return self.run.tables.placed(error)

    def number_in(self, register: int) -> int:
        """The number that the next piece is. Raises TaskError if nothing has it."""
        place = self.run.tables.registers[register]
        address = place.address_of(self.run.used[register, self.index])
        number = ctypes.c_int64.from_address(address).value
        if not 0 <= number < choices(self.actor):
            act, message = self.run.done[self.index], refusal(self.actor, number)
            raise self.failure(act, number, message)
        return number

    def take_number(self, register: int) -> int:
        """The number that a piece is, which is given back. Raises TaskError."""
        number = self.number_in(register)
        self.give_back(register)
        return number

    def send_number(self, number: int) -> None:
        """Hand a number on."""
        (register,) = self.actor.writes
        place = self.run.tables.registers[register]
        address = place.address_of(self.run.made[register])
        ctypes.c_int64.from_address(address).value = number
        self.run.made[register] += 1


class Case(Behaviour):
    """Hands a piece on to the register whose number it was given."""

    def __init__(self, run: Run, index: int):
        super().__init__(run, index)
        self.pending = dict.fromkeys(self.actor.writes, 0)

    def _free_branch(self) -> int | None:
        for register, count in self.pending.items():
            if count > 0 and self.run.has_free_slot(register):
                return register
        return None

    def is_ready(self) -> bool:
        """Whether there is a number, or a branch that has room for a piece."""
        return self.has(self.actor.reads[0]) or self._free_branch() is not None

    def is_finished(self) -> bool:
        """Whether no branch waits for a piece, and none will."""
        return self.is_over(self.actor.reads[0]) and not any(self.pending.values())

    def finish(self) -> None:
        """Take a number if there is one, and produce one piece where there is room."""
        if self.has(self.actor.reads[0]):
            number = self.take_number(self.actor.reads[0])
            self.pending[self.actor.writes[number]] += 1
        if (branch := self._free_branch()) is not None:
            self.pending[branch] -= 1
            self.run.made[branch] += 1


class Esac(Behaviour):
    """Says which of its registers has a piece."""

    def __init__(self, run: Run, index: int):
        super().__init__(run, index)
        self.turn = 0

    def _next_input(self) -> int | None:
        reads = self.actor.reads
        order = range(self.turn, self.turn + len(reads))
        found = (i % len(reads) for i in order if self.has(reads[i % len(reads)]))
        return next(found, None)

    def is_ready(self) -> bool:
        """Whether any register has a piece, and there is room for its number."""
        (target,) = self.actor.writes
        return self._next_input() is not None and self.run.has_free_slot(target)

    def is_finished(self) -> bool:
        """Whether there will be no more of any."""
        return all(map(self.is_over, self.actor.reads))

    def finish(self) -> None:
        """Take a piece and say from where."""
        number = self._next_input()
        assert number is not None, "it was ready"
        self.turn = (number + 1) % len(self.actor.reads)
        self.give_back(self.actor.reads[number])
        self.send_number(number)


class InputWise(Behaviour):
    """Takes one piece from each of its registers, in any order."""

    def __init__(self, run: Run, index: int):
        super().__init__(run, index)
        self.turn = 0
        self.seen: set[int] = set()
        self.chosen = 0
        """The piece that the calls of the act under way are for."""

    def _next_input(self) -> int | None:
        reads = self.actor.reads
        for i in range(self.turn, self.turn + len(reads)):
            number = i % len(reads)
            if number not in self.seen and self.has(reads[number]):
                return number
        return None

    def is_ready(self) -> bool:
        """Whether there is a piece that it has not seen, and room for the result."""
        has_room = all(map(self.run.has_free_slot, self.actor.writes))
        return has_room and self._next_input() is not None

    def is_finished(self) -> bool:
        """Whether one piece of these will never come."""
        reads = enumerate(self.actor.reads)
        return any(i not in self.seen and self.is_over(x) for i, x in reads)

    def calls(self) -> list[tuple[int, Call]]:
        """The calls for the next piece."""
        number = self._next_input()
        assert number is not None, "it is ready"
        self.chosen = number
        register, is_first = self.actor.reads[number], not self.seen
        return [
            (place, call)
            for place, call in enumerate(self.actor.calls)
            if call.on in (None, register)
            and (call.when == "always" or (call.when == "first") == is_first)
        ]

    def finish(self) -> None:
        """Release the piece, and produce the result after the last one."""
        number, reads = self.chosen, self.actor.reads
        self.turn = (number + 1) % len(reads)
        self.seen.add(number)
        self.give_back(reads[number])
        if len(self.seen) == len(reads):
            self.seen.clear()
            for register in self.actor.writes:
                self.run.made[register] += 1


class Lock(Behaviour):
    """Grants sections that exclude each other."""

    def __init__(self, run: Run, index: int):
        super().__init__(run, index)
        self.held = [0] * len(self.actor.lists)
        self.waiting: list[int] = []
        self.granted: deque[int] = deque()

    def is_ready(self) -> bool:
        """Whether a section is asked for or given back, or can be granted."""
        wanted, returned = self.actor.reads
        (target,) = self.actor.writes
        if self.has(returned) or (self.granted and self.run.has_free_slot(target)):
            return True
        return self._takes_more() and self.has(wanted)

    def _takes_more(self) -> bool:
        return len(self.waiting) + len(self.granted) < WAITING

    def is_finished(self) -> bool:
        """Whether all have been given back, or never will be."""
        wanted, returned = self.actor.reads
        if self.granted:
            return False
        if self.is_over(returned):
            return True
        return self.is_over(wanted) and not self.waiting and not any(self.held)

    def finish(self) -> None:
        """Take a section given back and a request, and produce one section granted."""
        wanted, returned = self.actor.reads
        (target,) = self.actor.writes
        if self.has(returned):
            self._take_back(self.number_in(returned))
            self.give_back(returned)
            self._grant()
        if self._takes_more() and self.has(wanted):
            self.waiting.append(self.take_number(wanted))
            self._grant()
        if self.granted and self.run.has_free_slot(target):
            self.send_number(self.granted.popleft())

    def _take_back(self, section: int) -> None:
        if not self.held[section]:
            act = self.run.done[self.index]
            raise self.failure(act, section, not_held(section))
        self.held[section] -= 1

    def _grant(self) -> None:
        kept: list[int] = []
        for section in self.waiting:
            rivals = self.actor.lists[section]
            is_held = any(self.held[rival] for rival in rivals)
            if is_held or section in kept or set(rivals) & set(kept):
                kept.append(section)
            else:
                self.held[section] += 1
                self.granted.append(section)
        self.waiting = kept


class SendIds(Behaviour):
    """Hands on the numbers of a list, one in each act."""

    def __init__(self, run: Run, index: int):
        super().__init__(run, index)
        self.rest: deque[int] = deque()

    def is_ready(self) -> bool:
        """Whether there is a number to produce, and room for it."""
        (target,) = self.actor.writes
        if not self.run.has_free_slot(target):
            return False
        return bool(self.rest) or self.has(self.actor.reads[0])

    def is_finished(self) -> bool:
        """Whether all lists have been produced that were asked for."""
        return not self.rest and self.is_over(self.actor.reads[0])

    def finish(self) -> None:
        """Hand on the next number of a list."""
        (source,) = self.actor.reads
        if not self.rest:
            self.rest.extend(self.actor.lists[self.number_in(source)])
        if self.rest:
            self.send_number(self.rest.popleft())
        if not self.rest:
            self.give_back(source)


class Cyclic(Behaviour):
    """Takes and produces pieces of those registers that the list of an act has."""

    def _used(self) -> set[int]:
        registers = (*self.actor.reads, *self.actor.writes)
        act = self.run.done[self.index] % len(self.actor.lists)
        return {registers[place] for place in self.actor.lists[act]}

    def is_ready(self) -> bool:
        """Whether the pieces and slots of the next act are there."""
        used = self._used()
        return all(self.has(x) for x in self.actor.reads if x in used) and all(
            self.run.has_free_slot(x) for x in self.actor.writes if x in used
        )

    def is_finished(self) -> bool:
        """Whether a piece that the next act takes will never come."""
        used = self._used()
        return any(self.is_over(x) for x in self.actor.reads if x in used)

    def calls(self) -> list[tuple[int, Call]]:
        """The calls on a register of the next act, and those on none."""
        used = self._used()
        return [
            (place, call)
            for place, call in enumerate(self.actor.calls)
            if call.on is None or call.on in used
        ]

    def finish(self) -> None:
        """Produce and release the pieces of the act."""
        used = self._used()
        for register in self.actor.writes:
            self.run.made[register] += register in used
        for register in self.actor.reads:
            if register in used:
                self.give_back(register)


_KINDS: dict[str, type[Behaviour]] = {
    PLAIN: Behaviour,
    "case": Case,
    "esac": Esac,
    "input_wise": InputWise,
    "lock": Lock,
    "send_ids": SendIds,
    "cyclic": Cyclic,
}


def behaviour_of(run: Run, index: int) -> Behaviour:
    """The behaviour of an actor of a run."""
    return _KINDS[run.tables.actors[index].kind](run, index)
