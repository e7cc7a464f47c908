"""
Rules of `verify-program` about loops and conditions of an actor.

A local name stands for bytes. Bytes that a step reads under one name were written
under it, under the name of bytes that it is of or that are of it, or as the value that
a loop carries to it; nothing else was written over them since. So it is with a register
that the actor hands on to others, at the end. Of two names of typed bytes, as of rows
of one register, either may be read as the other was written; places of carried values
are none of these. Workspaces have bytes of the type `i8` alone, and hold many values.

The first two iterations of a loop are walked, so the cost does not grow with their
number. Rows that later ones write count as written where they lie side by side and the
second one has written all of its own, and else as perhaps written. Rows that later ones
read hold what the loop finds there, unless a name that moves alike has written them. A
name whose bytes move from iteration to iteration and that is written may share no
bytes, of any iteration, with another one that the loop or a loop within it uses, and
none with itself in other iterations. A loop with a count or a condition may make no
iteration.

Each iteration hands on all carried values, whether the next one reads them or not. A
step writes no bytes that it is given under another name, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CarryOp,
    CopyOp,
    IfOp,
    LoopOp,
    RegisterOp,
    SubviewOp,
    VariableOp,
    local_names,
    loop_around,
    memref_bytes,
    names_of,
    sources_of,
    steps_within,
)
from penstock.dialects.launch.control_flow import NAMING
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_spans import Span
from penstock.lowering.verify.program_rules.graph import names_in

Effects = Callable[[Operation], tuple[Sequence[str], Sequence[str]]]
"""The names that a step needs, and those that it writes."""

UNWRITTEN = ""
"""The name of bytes that nobody has written."""


class Piece(NamedTuple):
    """Bytes from `start` up to `end`, and the names that they may be written under."""

    start: int
    end: int
    names: frozenset[str]


@dataclass
class Bytes:
    """The names that bytes were last written under."""

    pieces: list[Piece] = field(default_factory=list[Piece])

    def write(self, start: int, end: int, names: frozenset[str]) -> None:
        """Note what some bytes were written under."""
        kept = [x for p in self.pieces for x in _around(p, start, end)]
        self.pieces = sorted([*kept, Piece(start, end, names)])

    def within(self, start: int, end: int) -> Iterator[Piece]:
        """The pieces of some bytes."""
        at = start
        for piece in self.pieces:
            if piece.end <= start or piece.start >= end:
                continue
            if at < piece.start:
                yield Piece(at, piece.start, frozenset({UNWRITTEN}))
            at = min(piece.end, end)
            yield Piece(max(piece.start, start), at, piece.names)
        if at < end:
            yield Piece(at, end, frozenset({UNWRITTEN}))

    def copy(self) -> Bytes:
        """The same."""
        return Bytes([*self.pieces])

    def joined(self, other: Bytes) -> Bytes:
        """The names after one or the other."""
        edges = {x for p in (*self.pieces, *other.pieces) for x in (p.start, p.end)}
        joined = Bytes()
        for start, end in pairwise(sorted(edges)):
            names = frozenset[str]()
            for side in (self, other):
                for piece in side.within(start, end):
                    names |= piece.names
            if names != frozenset({UNWRITTEN}):
                joined.pieces.append(Piece(start, end, names))
        return joined


def _around(piece: Piece, start: int, end: int) -> Iterator[Piece]:
    if piece.end <= start or piece.start >= end:
        yield piece
        return
    if piece.start < start:
        yield piece._replace(end=start)
    if piece.end > end:
        yield piece._replace(start=end)


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two runs of bytes have some in common."""
    return one[0] < other[1] and other[0] < one[1]


class Local(NamedTuple):
    """A local name: the step that declares it, its type, and where it lies."""

    step: Operation
    type: MemRefType
    at: int


class Reach(NamedTuple):
    """
    Where a name may start in iteration 0 of a loop, in all iterations of those within
    it: from `first` to `last`, and in each next iteration `moves` bytes further on. It
    is a part of the names that it lies `within`, and one of these itself.
    """

    first: int
    last: int
    moves: int
    within: frozenset[str]

    def part(self, name: str, first: int, last: int, moves: int) -> Reach:
        """That of a name for bytes from `first` to `last` on in this one."""
        return Reach(
            self.first + first,
            self.last + last,
            self.moves + moves,
            self.within | {name},
        )

    def is_same(self, other: Reach) -> bool:
        """Whether two names of one size have the same bytes in each iteration."""
        return self[:3] == other[:3]

    def hull(self, loop: LoopOp, size: int) -> tuple[int, int]:
        """The bytes of a name of some size in all iterations."""
        on = self.moves * (loop.times.value.data - 1)
        return self.first + min(0, on), self.last + max(0, on) + size


def bad_loops(
    actor: ActorOp,
    table: Mapping[str, Operation],
    spans: Mapping[str, Span],
    known: Sequence[str],
    handed: Sequence[str],
    effects: Effects,
) -> Iterator[Finding]:
    """
    All that is wrong within the loops and conditions of an actor. `known` are the
    registers that hold something before it acts, `spans` where each of them lies.
    Other actors read those that are `handed` on.
    """
    if any(isinstance(step, IfOp | LoopOp | NAMING) for step in actor.body.block.ops):
        walk = _Walk(actor, table, spans, effects)
        walk.known.update(known)
        for name in known:
            span = spans[name]
            walk.bytes.write(span.start, span.start + span.size, frozenset({name}))
        walk.steps(actor.body.block)
        for name in handed:
            walk.read(actor, name, "hands on")
        yield from walk.findings


class _Walk:
    def __init__(
        self,
        actor: ActorOp,
        table: Mapping[str, Operation],
        spans: Mapping[str, Span],
        effects: Effects,
    ):
        self.actor = actor
        self.table = table
        self.spans = spans
        self.effects = effects
        self.bytes = Bytes()
        self.local: dict[str, Local] = {}
        self.known: set[str] = set()
        """The registers that hold something before the actor acts."""
        self.number = 0
        """The number of the iteration of the innermost loop."""
        self.second: list[LoopOp] = []
        """The loops that are in the last iteration that is walked, of several."""
        self.ended: set[str] = set()
        """The names of last values of loops that are over."""
        self.findings: dict[Finding, None] = {}

    # Names

    def start(self, name: str) -> int:
        return self.local[name].at if name in self.local else self.spans[name].start

    def type(self, name: str) -> MemRefType:
        if name in self.local:
            return self.local[name].type
        op = self.table[name]
        assert isinstance(op, RegisterOp | VariableOp), "checked by the verifier"
        return op.type

    def range(self, name: str) -> tuple[int, int]:
        start = self.start(name)
        return start, start + memref_bytes(self.type(name))

    def chain(self, name: str) -> set[str]:
        """A name, and those of the bytes that it may lie in."""
        found = {name}
        if name in self.local:
            step = self.local[name].step
            found.update(local_names(step))
            found.update(*(self.chain(source) for source in sources_of(step)))
        return found

    def views(self, name: str) -> set[str]:
        """
        A name, and those of the values that it is a part of. The place of a carried
        value is no part of anything before the last iteration.
        """
        found = {name}
        if (local := self.local.get(name)) is None:
            return found
        step = local.step
        if isinstance(step, SubviewOp):
            found |= self.views(step.source.string_value())
        elif isinstance(step, CarryOp) and name in self.ended:
            found |= self.views(step.places.data[0].source.string_value())
        return found

    def found_in(self, name: str) -> str | None:
        """The value that an iteration finds where it writes one that it hands on."""
        step = self.local[name].step if name in self.local else None
        if isinstance(step, CarryOp) and step.after.data == name:
            return step.before.data
        return None

    def is_related(self, name: str, other: str, *, is_new: bool = False) -> bool:
        """
        Whether what was written under the other name may be read under a name: if that
        has to be a new value, not as the one of the iteration before.
        """
        own, others = self.views(name), self.views(other)
        if name in others or other in own:
            return True
        if not is_new and any(self.found_in(x) in others for x in own):
            return True
        # Registers that hold something in the same bytes before the actor are views.
        if other in self.known and not own.isdisjoint(self.known):
            return True
        shared = own & others
        return any(self.is_typed(common, name, other) for common in shared)

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names stand for the same bytes as the same type."""
        return (self.range(name), self.type(name)) == (
            self.range(other),
            self.type(other),
        )

    def is_typed(self, common: str, *names: str) -> bool:
        """Whether names are of elements of what they have in common."""
        element = self.type(common).element_type
        return all(self.type(name).element_type == element for name in names)

    # Steps

    def steps(self, block: Block) -> None:
        for step in block.ops:
            match step:
                case SubviewOp():
                    at = self.start(step.source.string_value()) + step.offset.value.data
                    at += self.number * step.bytes_per_number
                    self.local[step.sym_name.data] = Local(step, step.type, at)
                case CarryOp():
                    pass
                case LoopOp():
                    self.loop(step)
                case IfOp():
                    self.branch(step)
                case _:
                    self.step(step)

    def step(self, step: Operation) -> None:
        needed, written = self.effects(step)
        for name in needed:
            self.read(step, name, is_new=name not in written)
        self.at_once(step, written)
        for name in written:
            self.write(name)

    def at_once(self, step: Operation, written: Sequence[str]) -> None:
        """
        Look at bytes that a step is given under two names and writes: it may have
        written some before it reads the others.
        """
        names = names_in(step) if isinstance(step, CallOp | CopyOp) else ()
        unchanged = step.unchanged if isinstance(step, CallOp) else ()
        for name in dict.fromkeys(written):
            for other in names:
                if other == name or not self.meet(name, other):
                    continue
                if other not in unchanged or not self.is_related(other, name):
                    text = f"writes @{name} over bytes of @{other} in one step"
                    self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None

    def meet(self, name: str, other: str) -> bool:
        """Whether two names stand for some bytes both."""
        return overlap(self.range(name), self.range(other))

    def write(self, name: str) -> None:
        self.bytes.write(*self.range(name), frozenset({name}))

    def read(
        self, step: Operation, name: str, verb: str = "reads", *, is_new: bool = False
    ) -> None:
        """
        Look at the names that bytes were last written under. A carried value stands for
        the one that was there before it only to a step that writes it.
        """
        for piece in self.bytes.within(*self.range(name)):
            size, wrong = piece.end - piece.start, False
            for other in sorted(piece.names):
                if self.is_readable(name, other, is_new=is_new):
                    continue
                wrong = True
                state = "not written" if other == UNWRITTEN else f"@{other} by then"
                text = f"{verb} @{name}, but {size} of its bytes are {state}"
                self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            if not wrong:
                self.read_on(step, name, verb, piece.names, is_new=is_new)

    def is_readable(self, name: str, other: str, *, is_new: bool) -> bool:
        """Whether bytes that were written under another name may be read as one."""
        return other != UNWRITTEN and self.is_related(name, other, is_new=is_new)

    def read_on(
        self,
        step: Operation,
        name: str,
        verb: str,
        found: Collection[str],
        *,
        is_new: bool,
    ) -> None:
        """
        Look at the bytes that a name has in iterations that are not walked, where it is
        read as other names, which do not move as it does.
        """
        start, end = here = self.range(name)
        for loop in self.second:
            moves = self.moves(loop, name)
            if any(self.moves(loop, other) != moves for other in found):
                left = loop.times.value.data - 2
                turned = -left if loop.backward is not None else left
                start += min(0, *(turned * x for x in moves))
                end += max(0, *(turned * x for x in moves))
        if (start, end) == here:
            return
        names = {x for piece in self.bytes.within(start, end) for x in piece.names}
        for other in sorted(names):
            if self.is_readable(name, other, is_new=is_new):
                continue
            state = "not written" if other == UNWRITTEN else f"@{other}"
            text = f"{verb} @{name}, but bytes of it are {state} in some iteration"
            self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None

    def branch(self, step: IfOp) -> None:
        self.read(step, step.condition.string_value())
        before = self.bytes
        self.bytes = before.copy()
        self.steps(step.then.block)
        after, self.bytes = self.bytes, before
        self.steps(step.otherwise.block)
        self.bytes = after.joined(self.bytes)

    # Loops

    def loop(self, loop: LoopOp) -> None:
        times, outer = loop.times.value.data, self.number
        before = self.bytes.copy()
        if loop.count is not None:
            self.read(loop, loop.count.string_value())
        for made in range(min(times, 2)):
            self.number = times - 1 - made if loop.backward is not None else made
            parity = made if loop.is_bounded else times - made
            self.carry(loop, parity)
            if made == 0:
                self.apart(loop)
                self.enter(loop, parity)
            if loop.condition is not None:
                self.read(loop, loop.condition.string_value())
            if made == 1:
                self.second.append(loop)
            self.steps(loop.body.block)
            for step in loop.carried:
                self.read(step, step.after.data, "hands on")
        self.number = outer
        if times > 1:
            self.second.pop()
        if times:
            self.end(loop)
        if loop.is_bounded:
            # Perhaps no iteration is made.
            self.bytes = self.bytes.joined(before)
        if loop.made is not None:
            self.write(loop.made.string_value())

    def carry(self, loop: LoopOp, parity: int) -> None:
        for step in loop.carried:
            names = step.before.data, step.after.data
            for name, turn in zip(names, (parity, parity + 1), strict=True):
                place = step.places.data[turn % len(step.places)]
                at = self.start(place.source.string_value()) + place.offset.data
                self.local[name] = Local(step, step.type, at)
            self.ended.discard(names[1])
            self.hand_on(*names)

    def apart(self, loop: LoopOp) -> None:
        """
        Look at the places of carried values: where the number of iterations is not
        known, the last values may lie in the second ones, and are copied at the end.
        """
        taken: list[tuple[str, int, int]] = []
        for step in loop.carried if loop.is_bounded else ():
            own: list[tuple[str, int, int]] = []
            name, size = step.after.data, memref_bytes(step.type)
            for place in step.places:
                start = self.start(place.source.string_value()) + place.offset.data
                own.append((name, start, start + size))
                for other, first, last in taken:
                    if first < start + size and start < last:
                        text = f"carries @{name} and @{other} in one place"
                        self.findings[step, f"@{self.actor.sym_name.data} {text}"] = (
                            None
                        )
            taken += own

    def hand_on(self, before: str, after: str) -> None:
        """Let a value that an iteration has made be one that the next one finds."""
        for piece in [*self.bytes.within(*self.range(before))]:
            if made := {x for x in piece.names if after in self.views(x)}:
                names = piece.names - made | {before}
                self.bytes.write(piece.start, piece.end, names)

    def enter(self, loop: LoopOp, parity: int) -> None:
        """Let initial values be carried ones, as what their places may be read as."""
        for step in loop.carried:
            before = step.before.data
            source = step.places.data[parity % len(step.places)].source.string_value()
            names = {x for p in self.bytes.within(*self.range(before)) for x in p.names}
            if UNWRITTEN not in names and all(
                self.is_related(before, x) or self.is_initial(before, source, x)
                for x in names
            ):
                self.bytes.write(*self.range(before), frozenset({before}))

    def is_initial(self, before: str, source: str, name: str) -> bool:
        """
        Whether what was written under a name may be the initial value of a carried one,
        given the source of its place: in a workspace, only as a whole.
        """
        is_whole = self.is_typed(source, before) or self.is_same(before, name)
        return is_whole and self.is_related(source, name)

    def end(self, loop: LoopOp) -> None:
        """Note what is written in iterations that are not walked."""
        for step in loop.carried:
            place = step.places.data[0]
            at = self.start(place.source.string_value()) + place.offset.data
            self.local[step.after.data] = Local(step, step.type, at)
            self.ended.add(step.after.data)
            size = memref_bytes(step.type)
            for index, place in enumerate(step.places):
                start = self.start(place.source.string_value()) + place.offset.data
                name = UNWRITTEN if index else step.after.data
                self.bytes.write(start, start + size, frozenset({name}))
        self.moving(loop)

    def moving(self, loop: LoopOp) -> None:
        """Look at names whose bytes move with the iterations."""
        used, written = self.uses(loop.body.block)
        hulls = {name: self.hulls(loop, name) for name in used}
        whole = {x for name in written for x in self.chain(name)}
        for step in self.parts_of(loop):
            name, size = step.sym_name.data, memref_bytes(step.type)
            own = self.hulls(loop, name)
            apart = {abs(reach.moves) for reach, _, _ in own}
            if apart == {0} or name not in whole:
                continue
            if min(apart) < size and loop.times.value.data > 1:
                text = f"writes @{name} over bytes of it in other iterations"
                self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            for other, found in hulls.items():
                met = any(
                    name not in x[0].within and overlap(x[1:], y[1:])
                    for x in found
                    for y in own
                )
                if met and not self.moves_along(name, own, other, found):
                    text = f"writes @{name} over bytes of @{other} in some iteration"
                    self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            self.write_on(name, [x[1:] for x in own], apart == {size})

    def write_on(
        self, name: str, hulls: Sequence[tuple[int, int]], is_dense: bool
    ) -> None:
        """Note that all iterations write a name, which lies in some bytes in these."""
        after = self.bytes.copy()
        for start, end in hulls:
            after.write(start, end, frozenset({name}))
        if len(hulls) > 1 or not is_dense or not self.is_whole(name):
            after = after.joined(self.bytes)
        self.bytes = after

    def parts_of(self, loop: LoopOp) -> Iterator[SubviewOp]:
        """The names that stand for other bytes in each iteration of a loop itself."""
        for step in steps_within(loop.body.block):
            if (
                isinstance(step, SubviewOp)
                and step.bytes_per_number
                and loop_around(step) is loop
            ):
                yield step

    def hulls(self, loop: LoopOp, name: str) -> list[tuple[Reach, int, int]]:
        """The bytes that a name may stand for, each with those of all iterations."""
        size = memref_bytes(self.type(name))
        return [(x, *x.hull(loop, size)) for x in self.reaches(loop, name)]

    def moves_along(
        self,
        name: str,
        own: Sequence[tuple[Reach, int, int]],
        other: str,
        found: Sequence[tuple[Reach, int, int]],
    ) -> bool:
        """
        Whether a name is of another one, or both have the same bytes as the same type
        in each iteration.
        """
        if other in self.chain(name):
            return True
        if len(own) > 1 or len(found) > 1 or self.type(name) != self.type(other):
            return False
        return own[0][0].is_same(found[0][0])

    def reaches(self, loop: LoopOp, name: str) -> Iterator[Reach]:
        """The bytes that a name may stand for in a loop and in those within it."""
        step = self.local[name].step if name in self.local else None
        if step is None or not loop.is_ancestor(step):
            start = self.start(name)
            yield Reach(start, start, 0, frozenset(self.chain(name)))
        elif isinstance(step, SubviewOp):
            around, moves = loop_around(step), step.bytes_per_number
            assert around is not None, "it is within the loop"
            last = moves * (around.times.value.data - 1) if around is not loop else 0
            for reach in self.reaches(loop, step.source.string_value()):
                yield reach.part(
                    name,
                    step.offset.value.data + min(0, last),
                    step.offset.value.data + max(0, last),
                    moves if around is loop else 0,
                )
        elif isinstance(step, CarryOp):
            for place in step.places:
                offset = place.offset.data
                for reach in self.reaches(loop, place.source.string_value()):
                    yield reach.part(name, offset, offset, 0)

    def is_whole(self, name: str) -> bool:
        """Whether all bytes of a name are written, under names that it is read as."""
        names = {x for p in self.bytes.within(*self.range(name)) for x in p.names}
        return all(x != UNWRITTEN and self.is_related(name, x) for x in names)

    def moves(self, loop: LoopOp, name: str) -> set[int]:
        """The bytes from where a name may lie to where the next number has it."""
        if name not in self.local:
            return {0}
        return {reach.moves for reach in self.reaches(loop, name)}

    def uses(self, block: Block) -> tuple[list[str], set[str]]:
        """The names that the steps of a block use, and those that they write."""
        used: dict[str, None] = {}
        written: set[str] = set()
        for step in block.ops:
            if isinstance(step, CarryOp):
                used.update(dict.fromkeys(local_names(step)))
            needs, writes = self.effects(step)
            used.update(dict.fromkeys([*needs, *writes]))
            written.update(writes)
            never = isinstance(step, LoopOp) and not step.times.value.data
            for region in () if never else step.regions:
                inner, also = self.uses(region.block)
                used.update(dict.fromkeys(inner))
                written |= also
        return list(used), written


def known_before(actor: ActorOp, shown: Sequence[str]) -> list[str]:
    """The registers that an actor reads or shows, which hold something before it."""
    views = [view.names[1] for view in actor.view_list]
    return list(dict.fromkeys([*names_of(actor.reads), *views, *shown]))
