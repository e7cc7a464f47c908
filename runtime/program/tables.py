"""
A program as the executors see it: registers, actors, and flat tables made from them.

An actor acts when every register it reads has a piece for it and every register it
writes has a free slot. Both are one rule over counters, each with a single writer: the
producer of a register counts what it `produced`, each reader what it `consumed`.

    a reader may act:    produced - consumed > 0
    a producer may act:  consumed + slots - produced > 0, for every reader
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.program.actor_kinds import CYCLIC, DYNAMIC, check_kind
from penstock.runtime.program.actors import CALLER as CALLER
from penstock.runtime.program.actors import PLAIN as PLAIN
from penstock.runtime.program.actors import Actor as Actor
from penstock.runtime.program.actors import Argument as Argument
from penstock.runtime.program.actors import Call as Call
from penstock.runtime.program.actors import Cell as Cell
from penstock.runtime.program.actors import Fixed as Fixed
from penstock.runtime.program.actors import Register as Register
from penstock.runtime.program.actors import Slot as Slot
from penstock.runtime.program.control_words import (
    FRAME_WORDS,
    ControlPlaces,
    control_words,
)

Words: TypeAlias = npt.NDArray[np.int64]
"""A flat, contiguous array of 64-bit words."""

CACHE_LINE = 8
"""Words in a cache line."""

ACTOR_WORDS = 4
"""Words of an actor: acts, whether it is in the ring, next condition, phase."""


class Layout(NamedTuple):
    """
    The tables that workers only read. `x_start[i]` to `x_start[i + 1]` are the entries
    of i in x.

    A condition of an actor holds if `counter[watched] + credits - counter[own] > 0`.
    """

    member_start: Words
    members: Words
    """Worker: its actors."""
    ring_start: Words
    """Worker: its words of the rings, a power of two of them."""
    free: Words
    """Worker: 1 if any thread may run it, 0 if one thread has to."""
    boundary_start: Words
    boundary: Words
    """Worker: its actors that actors of other workers can make ready."""
    place: Words
    """Actor: the first of its `ACTOR_WORDS` words."""
    crosses: Words
    """Actor: 1 if an act of it can make actors of other workers ready."""
    condition_start: Words
    watched: Words
    own: Words
    credits: Words
    """Actor: its conditions."""
    owned_start: Words
    owned: Words
    """Actor: the counters that an act of it moves on by one."""
    neighbour_start: Words
    neighbours: Words
    """Actor: those of the same worker that an act of it can make ready."""
    call_start: Words
    kernel: Words
    row: Words
    parts: Words
    summed: Words
    """
    Actor: its calls, the kernel's address, the row's first word, most parts, the first
    of two words for the time of all of its calls in an act, -1 if each has a row.
    """
    rotation_start: Words
    rotating: Words
    stride: Words
    first: Words
    limit: Words
    """Actor: words of its rows that step through slots, from `first` up to `limit`."""
    log_rows: Words
    """Actor: the rows of an act in a log at most."""
    code_start: Words
    code: Words
    """Actor: the words of its loops and conditions, see `control_words`."""


class ForwardedCounter(NamedTuple):
    """
    The counter of an actor as others see it: the word at `place`, which is moved on
    with the counter but for some `changes`, moves by another number than one, given by
    their numbers from the first move on.
    """

    actor: int
    counter: int
    place: int
    changes: Mapping[int, int]


class Bound(NamedTuple):
    """
    A register that lies elsewhere in a run of one act: `shift` bytes after the address
    that is then in the word at `pointer`, if that is a multiple of `alignment`, a power
    of two.
    """

    register: int
    pointer: int
    shift: int
    alignment: int


class PythonKernel(Protocol):
    """A kernel at `address` that is a Python callable."""

    address: int
    on_reset: Callable[[], None] | None
    """Called when actors go back to before their first acts."""

    def take_error(self) -> BaseException | None:
        """The last exception that was raised since the last call of this."""
        ...


class Tables:
    """
    A checked program and the flat tables that the compiled executor runs.

    `callbacks` are the Python kernels that calls refer to by address, `bound_ports` are
    the registers that are bound to the caller's arrays in a run of one act. Raises
    PenstockError if the program is not sound.
    """

    def __init__(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        callbacks: Iterable[PythonKernel] = (),
        bound_ports: Iterable[Bound] = (),
    ):
        self.registers = tuple(registers)
        self.actors = tuple(actors)
        self._bound_ports = {x.register: x for x in bound_ports}
        self.bound_words: list[tuple[int, Bound]] = []
        """The words of argument rows that are addresses of bound registers."""
        self.callbacks = {callback.address: callback for callback in callbacks}
        for register in self.registers:
            self._check_register(register)
        for index in range(len(self.actors)):
            self._check_actor(index)
        self._check_writers()

        self.edges = [
            (r, a) for a, actor in enumerate(self.actors) for r in actor.reads
        ]
        """Every (register, reader), in the order of the actors and of their reads."""
        self.edges += [(r, CALLER) for r, x in enumerate(self.registers) if x.is_taken]
        self.repetitions = repetitions_of(self.registers, self.actors, self.edges)
        """The repetition vector: acts of each actor in an iteration."""
        self.needs_dataflow = any(
            register.producer == CALLER or register.is_taken or register.parts > 1
            for register in self.registers
        ) or any(
            actor.kind != PLAIN or actor.every or count > 1
            for actor, count in zip(self.actors, self.repetitions, strict=True)
        )
        """Whether only the dynamic dataflow scheduler runs it."""
        self.assigns = any(actor.assigns for actor in self.actors)
        """Whether some actor writes a variable, so that iterations end as a whole."""
        self.is_dynamic = any(actor.kind in DYNAMIC for actor in self.actors)
        """Whether numbers say how often actors act, so that only a stream runs it."""
        self.workers = 1 + max((actor.worker for actor in self.actors), default=0)
        # Two workers never write to the same cache line.
        self._spacing = CACHE_LINE if self.workers > 1 else 1
        self.bound = self._bound()
        """The workers that one thread has to run, as they call Python."""
        self.control_places: list[ControlPlaces | None] = []
        """Actor: the words of rows that its loops and conditions use, if it has any."""
        self.rows = np.zeros(0, np.int64)
        """The argument rows of all calls as they are before the first act."""
        self.layout = self._lay_out()

    def placed(self, error: TaskError) -> TaskError:
        """An error of a task, which says where that was written."""
        places = (actor.place for actor in self.actors if actor.name == error.task)
        error.place = next(places, None)
        return error

    def go_back(self) -> None:
        """Tell callbacks that all actors are as before their first acts."""
        for callback in self.callbacks.values():
            if callback.on_reset is not None:
                callback.on_reset()

    # Counters ------------------------------------------------------------------------

    forwarded: Sequence[ForwardedCounter] = ()
    """In place of which counters others see something else."""

    def seen(self, counter: int) -> int:
        """The index at which others than its owner see a counter."""
        return counter

    def produced_at(self, register: int) -> int:
        """The index of the counter of the producer of a register."""
        return register * self._spacing

    def consumed_at(self, edge: int) -> int:
        """The index of the counter of a reader, given its place in `edges`."""
        return (len(self.registers) + edge) * self._spacing

    def ended_at(self, register: int) -> int:
        """The index of the word that says that a register gets no more pieces."""
        return self.consumed_at(len(self.edges) + register)

    def counters(self) -> Words:
        """All counters as they are before the first act."""
        counters = np.zeros(self.ended_at(len(self.registers)), np.int64)
        for index, register in enumerate(self.registers):
            counters[self.produced_at(index)] = register.initial
        return counters

    def waits(self, counters: Words) -> dict[int, list[str]]:
        """The waits of each actor that cannot act, with the actor it waits for."""
        missing: dict[int, list[str]] = defaultdict(list)
        for edge, (index, reader) in enumerate(self.edges):
            register = self.registers[index]
            full = counters[self.produced_at(index)] - counters[self.consumed_at(edge)]
            if full <= 0:
                missing[reader].append(
                    f"no piece in register '{register.name}'"
                    f" from {self._who(register.producer)}"
                )
            if full >= register.slots:
                missing[register.producer].append(
                    f"no free slot in register '{register.name}'"
                    f", held by {self._who(reader)}"
                )
        missing.pop(CALLER, None)
        return missing

    def _who(self, actor: int) -> str:
        return "the caller" if actor == CALLER else f"'{self.actors[actor].name}'"

    def at_act(self, actor: int, act: int) -> str:
        """The start of a line on an actor: where it was written, its name, its act."""
        place = self.actors[actor].place
        where = "" if place is None else f"{place}: "
        return f"{where}'{self.actors[actor].name}' at act {act}"

    def stuck(self, counters: Words, done: Sequence[int], acts: int) -> list[str]:
        """
        A line for each actor that cannot act though it has `done` fewer iterations than
        `acts`.
        """
        return [
            f"{self.at_act(index, done[index])}: " + "; ".join(reasons)
            for index, reasons in sorted(self.waits(counters).items())
            if done[index] < acts * self.repetitions[index]
        ]

    # Checks --------------------------------------------------------------------------

    def _check_register(self, register: Register) -> None:
        what = f"register '{register.name}'"
        is_known = 0 <= register.producer < len(self.actors)
        if not is_known and register.producer != CALLER:
            raise PenstockError(
                f"{what} is produced by actor {register.producer}"
                f", but there are {len(self.actors)}"
            )
        if register.slots < 1:
            raise PenstockError(f"{what} needs a slot, got {register.slots}")
        if not 0 <= register.initial <= register.slots:
            raise PenstockError(
                f"{what} starts with {register.initial} of {register.slots} slots full"
            )
        if register.parts < 1 or register.slots % register.parts:
            raise PenstockError(
                f"{what} has {register.slots} slots, not a multiple of its "
                f"{register.parts} parts"
            )

    def _check_actor(self, index: int) -> None:
        actor = self.actors[index]
        if actor.worker < 0:
            raise PenstockError(f"actor '{actor.name}' is on worker {actor.worker}")
        for verb, indices in (("reads", actor.reads), ("writes", actor.writes)):
            for register in indices:
                if not 0 <= register < len(self.registers):
                    raise PenstockError(
                        f"actor '{actor.name}' {verb} register {register}"
                        f", but there are {len(self.registers)}"
                    )
                if indices.count(register) > 1:
                    name = self.registers[register].name
                    raise PenstockError(
                        f"actor '{actor.name}' {verb} register '{name}' twice"
                    )
        for register, count in actor.every:
            if count < 1 or register not in (*actor.reads, *actor.writes):
                raise PenstockError(
                    f"actor '{actor.name}' has a piece of register {register} every "
                    f"{count} acts, which it does not use"
                )
        if len({*actor.rounds} - {1}) > 1:
            raise PenstockError(f"actor '{actor.name}' has rounds of different lengths")
        check_kind(actor, self.registers)
        for call in actor.calls:
            self._check_call(actor, call)
        for root in actor.roots:
            self._check_argument(actor, root)

    def _check_call(self, actor: Actor, call: Call) -> None:
        if call.kernel == 0:
            raise PenstockError(f"a call of actor '{actor.name}' has no kernel")
        if call.parts < 1:
            raise PenstockError(
                f"a call of actor '{actor.name}' has {call.parts} parts"
            )
        for arg in call.args:
            self._check_argument(actor, arg)

    def _check_argument(self, actor: Actor, arg: Argument) -> None:
        if isinstance(arg, Cell) and actor.control is None:
            raise PenstockError(
                f"a call of actor '{actor.name}' is given a cell, but it has no loops"
            )
        if not isinstance(arg, Slot):
            return
        uses = (actor.reads + actor.writes).count(arg.register)
        if uses != 1:
            how = "neither reads nor writes" if uses == 0 else "reads and writes"
            raise PenstockError(
                f"a call of actor '{actor.name}' is given register"
                f" {arg.register}, which the actor {how}"
            )
        if self.registers[arg.register].address == 0:
            raise PenstockError(
                f"a call of actor '{actor.name}' is given register"
                f" '{self.registers[arg.register].name}', which has no memory"
            )

    def _check_writers(self) -> None:
        written = {(r, a) for a, actor in enumerate(self.actors) for r in actor.writes}
        produced = {
            (r, x.producer)
            for r, x in enumerate(self.registers)
            if x.producer != CALLER
        }
        for register, actor in sorted(written ^ produced):
            verb = "does not write" if (register, actor) in produced else "writes"
            producer = self.registers[register].producer
            raise PenstockError(
                f"actor '{self.actors[actor].name}' {verb} register"
                f" '{self.registers[register].name}', which is produced by"
                f" {self._who(producer)}"
            )

    # Flat tables ---------------------------------------------------------------------

    def _lay_out(self) -> Layout:
        count = len(self.actors)
        conditions: list[list[tuple[int, int, int]]] = [[] for _ in range(count)]
        owned = [[self.produced_at(r) for r in actor.writes] for actor in self.actors]
        neighbours = [[actor] for actor in range(count)]
        boundary: set[int] = set()

        for edge, (index, reader) in enumerate(self.edges):
            register = self.registers[index]
            producer = register.producer
            produced, consumed = self.produced_at(index), self.consumed_at(edge)
            if reader != CALLER:
                conditions[reader].append((produced, consumed, 0))
                owned[reader].append(consumed)
            if producer != CALLER:
                conditions[producer].append((consumed, produced, register.slots))
            if CALLER in (producer, reader):
                boundary |= {producer, reader} - {CALLER}
            elif self.actors[producer].worker == self.actors[reader].worker:
                neighbours[producer].append(reader)
                neighbours[reader].append(producer)
            else:
                boundary |= {producer, reader}

        members = self._by_worker(range(count))
        entries = [
            *columns(members, 1),
            self._ring_start(members),
            np.array([w not in self.bound for w in range(self.workers)], np.int64),
            *columns(self._by_worker(sorted(boundary)), 1),
            self._places(members),
            np.array([actor in boundary for actor in range(count)], np.int64),
            *columns(conditions, 3),
            *columns([[(x,) for x in counters] for counters in owned], 1),
            *columns([[(x,) for x in dict.fromkeys(xs)] for xs in neighbours], 1),
            *self._lay_out_calls(),
        ]
        return Layout(*entries)

    def _by_worker(self, actors: Iterable[int]) -> list[list[tuple[int]]]:
        groups: list[list[tuple[int]]] = [[] for _ in range(self.workers)]
        for actor in actors:
            groups[self.actors[actor].worker].append((actor,))
        return groups

    def _bound(self) -> frozenset[int]:
        return frozenset(
            actor.worker
            for actor in self.actors
            if any(call.kernel in self.callbacks for call in actor.calls)
        )

    def _ring_start(self, members: Sequence[Sequence[object]]) -> Words:
        sizes = [max(CACHE_LINE, 1 << len(actors).bit_length()) for actors in members]
        return np.cumsum([0, *sizes], dtype=np.int64)

    def _places(self, members: Sequence[Sequence[tuple[int]]]) -> Words:
        places = np.zeros(len(self.actors), np.int64)
        end = 0
        for actors in members:
            end += -end % CACHE_LINE
            for (actor,) in actors:
                places[actor] = end
                end += ACTOR_WORDS
        return places

    def _lay_out_calls(self) -> list[Words]:
        rows: list[int] = []
        calls: list[list[tuple[int, int, int, int]]] = []
        rotations: list[list[tuple[int, int, int, int]]] = []
        code: list[list[tuple[int]]] = []
        end = 0
        for actor in self.actors:
            number = sum(map(len, calls))
            calls.append([])
            rotations.append([])
            cells: dict[int, list[int]] = {}
            for index, call in enumerate(actor.calls):
                rows += [0] * (-len(rows) % self._spacing)
                first = len(rows)
                for arg in call.args:
                    if isinstance(arg, Cell):
                        cells.setdefault(arg.number, []).append(len(rows))
                    self._lay_out_argument(actor, arg, rows, rotations[-1])
                summed = -1
                if actor.is_summed(index):
                    summed = len(rows)
                    rows += [0, 0]
                calls[-1].append((call.kernel, first, call.parts, summed))
            words = self._lay_out_control(actor, rows, rotations[-1])
            self.control_places.append(words)
            code.append([])
            if actor.control is not None and words is not None:
                made = control_words(actor.control, words, cells, number, end)
                code[-1] = [(word,) for word in made]
                end += len(made)
        self.rows = np.array(rows, np.int64)
        log_rows = np.array([actor.log_rows for actor in self.actors], np.int64)
        tables = [*columns(calls, 4), *columns(rotations, 4), log_rows]
        return [*tables, *columns(code, 1)]

    def _lay_out_argument(
        self,
        actor: Actor,
        arg: Argument,
        rows: list[int],
        rotations: list[tuple[int, int, int, int]],
    ) -> None:
        if isinstance(arg, Slot):
            rotations += self._rotation(arg.register, len(rows))
            if (bound := self._bound_ports.get(arg.register)) is not None:
                self.bound_words.append((len(rows), bound))
        rows.append(self._first_address(actor, arg))

    def _lay_out_control(
        self,
        actor: Actor,
        rows: list[int],
        rotations: list[tuple[int, int, int, int]],
    ) -> ControlPlaces | None:
        if (control := actor.control) is None:
            return None
        rows += [0] * (-len(rows) % self._spacing)
        cells = len(rows)
        for root in actor.roots:
            self._lay_out_argument(actor, root, rows, rotations)
        rows += [0] * (control.cells - len(actor.roots))
        frames = len(rows)
        rows += [0] * (FRAME_WORDS * len(control.loops))
        return ControlPlaces(cells, frames)

    def _first_address(self, actor: Actor, arg: Argument) -> int:
        if isinstance(arg, Fixed):
            return arg.address
        if isinstance(arg, Cell):
            return 0
        register = self.registers[arg.register]
        return register.address_of(
            register.initial if arg.register in actor.writes else 0
        )

    def _rotation(self, index: int, word: int) -> list[tuple[int, int, int, int]]:
        register = self.registers[index]
        if self.needs_dataflow or register.slots == 1 or register.stride == 0:
            return []
        limit = register.address + register.slots * register.stride
        return [(word, register.stride, register.address, limit)]


def mean_acts_for(actor: Actor, register: int) -> Fraction:
    """The acts of an actor for each piece of a register, in the mean of a cycle."""
    if actor.kind != CYCLIC:
        return Fraction(actor.acts_for(register))
    place = (*actor.reads, *actor.writes).index(register)
    return Fraction(len(actor.lists), sum(place in act for act in actor.lists))


def repetitions_of(
    registers: Sequence[Register],
    actors: Sequence[Actor],
    edges: Sequence[tuple[int, int]],
) -> list[int]:
    """
    The repetition vector: acts of each actor in an iteration. Raises PenstockError if
    there is none, as the rates of two actors do not suit each other.
    """
    times = {i: x.times for i, x in enumerate(actors) if x.times is not None}
    if not times and not any(x.every or x.kind == CYCLIC for x in actors):
        return [1] * len(actors)
    from penstock.dialects.utils.repetitions import (
        Flow,
        RateError,
        TimesError,
        TooManyActs,
        repetition_vector,
    )

    flows: list[Flow] = []
    used: list[str] = []
    for index, reader in edges:
        producer = registers[index].producer
        if CALLER in (producer, reader):
            continue
        if {actors[producer].kind, actors[reader].kind} & set(DYNAMIC):
            continue
        used.append(registers[index].name)
        made = mean_acts_for(actors[producer], index)
        flows.append(Flow(producer, reader, made, mean_acts_for(actors[reader], index)))
    try:
        return repetition_vector(
            flows,
            [
                len(x.lists) if x.kind == CYCLIC else lcm(*(n for _, n in x.every))
                for x in actors
            ],
            times,
        )
    except TimesError as error:
        raise PenstockError(
            f"actor '{actors[error.index].name}' has a message {error.times} times in "
            "an iteration, which does not suit the rates of its program"
        ) from None
    except RateError as error:
        flow = flows[error.index]
        raise PenstockError(
            f"actors '{actors[flow.source].name}' and '{actors[flow.target].name}' "
            f"hand on register '{used[error.index]}' every {flow.made} and every "
            f"{flow.taken} acts, but act {error.acts} and {error.others} times in "
            "an iteration"
        ) from None
    except TooManyActs as error:
        name = actors[error.index].name
        raise PenstockError(
            f"actor '{name}' acts in an iteration {error.reason}"
        ) from None


def columns(rows: Sequence[Sequence[tuple[int, ...]]], width: int) -> list[Words]:
    """The start of each row's entries, then the entries one column at a time."""
    start = np.zeros(len(rows) + 1, np.int64)
    start[1:] = np.cumsum([len(row) for row in rows])
    entries = [entry for row in rows for entry in row]
    table = np.array(entries, np.int64).reshape(len(entries), width)
    return [start, *(np.ascontiguousarray(table[:, i]) for i in range(width))]
