"""
Rules of `verify-program` about loops and conditions of an actor.

A local name stands for bytes. Bytes that a step reads under one name were written
under it, under the name of bytes that it is of or that are of it, or as the value that
a loop carries to it; nothing else was written over them since. So it is with a register
that the actor hands on to others, at the end. Of two names of typed bytes, as of rows
of one register, either may be read as the other was written; places of carried values
are none of these. Workspaces have bytes of the type `i8` alone, and hold many values.

The first two iterations of a loop are walked, and what it writes after that counts as
written where its bytes lie side by side, and the second one has written all of them. So
the cost does not grow with the number of iterations. A name whose bytes move from
iteration to iteration and that is written may share no bytes, of any iteration, with
another one that the loop uses, and none with itself in other iterations. A loop with a
count or a condition may make no iteration.

Each iteration hands on all carried values, whether the next one reads them or not. A
step writes no bytes that it is given under another name, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    memref_bytes,
    names_of,
    sources_of,
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


class Local(NamedTuple):
    """A local name: the step that declares it, its type, and where it lies."""

    step: Operation
    type: MemRefType
    at: int


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

    def moves_along(self, loop: LoopOp, name: str, other: str) -> bool:
        """
        Whether one name stands for bytes of the other, or both for the same typed ones
        in each iteration of a loop.
        """
        own, others = self.chain(name), self.chain(other)
        if name in others or other in own:
            return True
        if not self.is_same(name, other):
            return False
        return self.moves(loop, name) == self.moves(loop, other)

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
        (start, end), (first, last) = self.range(name), self.range(other)
        return start < last and first < end

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
            for other in sorted(piece.names):
                size = piece.end - piece.start
                if other == UNWRITTEN:
                    text = f"{verb} @{name}, but {size} of its bytes are not written"
                elif self.is_related(name, other, is_new=is_new):
                    continue
                else:
                    text = (
                        f"{verb} @{name}, but {size} of its bytes are @{other} by then"
                    )
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
            self.steps(loop.body.block)
            for step in loop.carried:
                self.read(step, step.after.data, "hands on")
        self.number = outer
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
        hulls = {name: self.hull(loop, name) for name in used}
        for step in loop.body.block.ops:
            if not isinstance(step, SubviewOp) or not step.bytes_per_number:
                continue
            name = step.sym_name.data
            writes = {x for x in written if name in self.chain(x)}
            if not writes:
                continue
            start, end = self.hull(loop, name)
            apart, size = abs(step.bytes_per_number), memref_bytes(step.type)
            if apart < size and loop.times.value.data > 1:
                text = f"writes @{name} over bytes of it in other iterations"
                self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            for other, (first, last) in hulls.items():
                if (
                    first < end
                    and start < last
                    and not self.moves_along(loop, other, name)
                ):
                    text = f"writes @{name} over bytes of @{other} in some iteration"
                    self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            for after, source, (first, last) in self.carried_places(loop):
                if first < end and start < last and name not in self.chain(source):
                    text = f"writes @{name} over bytes of @{after} in some iteration"
                    self.findings[step, f"@{self.actor.sym_name.data} {text}"] = None
            if apart == size and self.is_whole(name):
                self.bytes.write(start, end, frozenset({name}))

    def carried_places(
        self, loop: LoopOp
    ) -> Iterator[tuple[str, str, tuple[int, int]]]:
        """
        The values that a loop carries, the source of each of their places, and the
        bytes of that in all iterations.
        """
        for step in loop.carried:
            size = memref_bytes(step.type)
            for place in step.places:
                source = place.source.string_value()
                start = self.start(source) + place.offset.data
                yield step.after.data, source, (start, start + size)

    def is_whole(self, name: str) -> bool:
        """Whether all bytes of a name are written, under names that it is read as."""
        names = {x for p in self.bytes.within(*self.range(name)) for x in p.names}
        return all(x != UNWRITTEN and self.is_related(name, x) for x in names)

    def hull(self, loop: LoopOp, name: str) -> tuple[int, int]:
        """The bytes of a name in all iterations of a loop."""
        start, end = self.range(name)
        moves = self.moves(loop, name)
        times = loop.times.value.data
        walked = min(times, 2) - 1
        number = times - 1 - walked if loop.backward is not None else walked
        first, last = start - number * moves, start + (times - 1 - number) * moves
        size = end - start
        return min(first, last), max(first, last) + size

    def moves(self, loop: LoopOp, name: str) -> int:
        """The bytes from where a name lies to where the next iteration has it."""
        moves = 0
        for other in self.chain(name):
            step = self.local[other].step if other in self.local else None
            if isinstance(step, SubviewOp) and step.parent_op() is loop:
                moves += step.bytes_per_number
        return moves

    def uses(self, block: Block) -> tuple[list[str], set[str]]:
        """The names that the steps of a block use, and those that they write."""
        used: dict[str, None] = {}
        written: set[str] = set()
        for step in block.ops:
            if isinstance(step, IfOp | LoopOp):
                for region in step.regions:
                    inner, also = self.uses(region.block)
                    used.update(dict.fromkeys(inner))
                    written |= also
            elif not isinstance(step, NAMING):
                needs, writes = self.effects(step)
                used.update(dict.fromkeys([*needs, *writes]))
                written.update(writes)
        return list(used), written


def known_before(actor: ActorOp, shown: Sequence[str]) -> list[str]:
    """The registers that an actor reads or shows, which hold something before it."""
    views = [view.names[1] for view in actor.view_list]
    return list(dict.fromkeys([*names_of(actor.reads), *views, *shown]))
