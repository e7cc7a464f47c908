"""
The passes over a row (`kernel.row`): which folds each of them computes, what it loads,
keeps and writes.

A fold is computed by the pass that comes after those of all folds that it depends on,
so that folds which do not need each other are of one pass. Results that have an element
for each point are written by the last pass that any of them needs, but for values that
are kept: these lie in the row of a result from the pass that computes them first.
Values that all points of a row share are computed between passes, once a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import AllReduceOp, IndexOp, KeepOp, YieldOp
from penstock.dialects.kernel.interface import Loops, element_of
from penstock.dialects.utils.half_precision import is_half


class RowStage(Protocol):
    """The facts of a `kernel.row` that passes follow from."""

    @property
    def body(self) -> Region: ...
    @property
    def ins(self) -> Sequence[SSAValue]: ...
    @property
    def outs(self) -> Sequence[SSAValue]: ...
    @property
    def kept_passes(self) -> KeptPasses: ...
    @property
    def along_loops(self) -> Sequence[int]: ...
    def maps(self) -> Sequence[AffineMap]: ...
    def loops(self) -> Loops: ...
    def has_points(self, result: int) -> bool: ...


class Store(NamedTuple):
    """A value that is written to a result, by its number."""

    value: SSAValue
    result: int


@dataclass(frozen=True)
class RowPass:
    """A loop over the points of a row."""

    folds: Sequence[AllReduceOp]
    loads: Sequence[SSAValue]
    """
    The values of the body that it reads from memory, in order: arguments, and values
    that an earlier pass has kept.
    """
    ops: Sequence[Operation]
    """The ops that it computes at each point, in order."""
    kept: Sequence[Store]
    """The values that it keeps, each as soon as it is computed."""
    results: Sequence[Store]
    """The results that it writes at the end of each point."""

    @property
    def stores(self) -> Sequence[Store]:
        """All that it writes."""
        return [*self.kept, *self.results]


@dataclass(frozen=True)
class RowPasses:
    """The way in which a row is computed."""

    passes: Sequence[RowPass]
    shared: Sequence[Sequence[Operation]]
    """
    The ops on what all points of a row share: those before each pass, and after all.
    """
    loads: Sequence[SSAValue]
    """The arguments of the body that all points of a row share."""
    stores: Sequence[Store]
    """The results that all points of a row share."""
    homes: Mapping[KeepOp, int]
    """The number of the result in whose row each value lies that is kept."""


class KeptPasses:
    """
    The passes of a row as they were found last, for as long as its body and operands
    stay as they were.
    """

    def __init__(self) -> None:
        self._found: tuple[list[object], RowPasses] | None = None

    def of(self, row: RowStage) -> RowPasses:
        """
        The passes of a row. Raises `VerifyException` where no result has room for a
        value that is kept.
        """
        facts = _facts_of(row)
        if self._found is None or self._found[0] != facts:
            self._found = facts, _Analysis(row).found()
        return self._found[1]


def _facts_of(row: RowStage) -> list[object]:
    """All that the passes of a row depend on."""
    block = row.body.block
    facts: list[object] = [*row.along_loops, *row.maps(), *block.args]
    facts += (value.type for value in row.outs)
    for op in block.ops:
        facts += (op, *op.operands, None, *op.properties.values())
        facts += (value.type for value in op.results)
    return facts


def passes_of(row: RowStage) -> RowPasses:
    """
    The passes of an op. Raises `VerifyException` where no result has room for a value
    that is kept.
    """
    return row.kept_passes.of(row)


def is_read_again(row: RowStage) -> bool:
    """Whether a row has several passes."""
    return _Analysis(row).count > 1


def read_late(passes: Sequence[RowPass], result: int) -> set[SSAValue]:
    """The arguments that passes read after the first one that writes a result."""
    writers = (
        number
        for number, each in enumerate(passes)
        if any(store.result == result for store in each.stores)
    )
    first = next(writers, len(passes))
    return {arg for each in passes[first + 1 :] for arg in each.loads}


def shared_values(row: RowStage) -> set[SSAValue]:
    """The values of the body that are the same at all points of a row."""
    along, maps = set(row.along_loops), row.maps()
    shared: set[SSAValue] = {
        arg
        for arg, map in zip(row.body.block.args, maps, strict=False)
        if not along & map.used_dims()
    }
    for op in row.body.block.ops:
        is_fold = isinstance(op, AllReduceOp)
        if isinstance(op, IndexOp) and op.loop.value.data in along:
            continue
        if is_fold or all(value in shared for value in op.operands):
            shared.update(op.results)
    return shared


class _Analysis:
    """The derivation of passes."""

    def __init__(self, row: RowStage):
        self._row = row
        self._shared = shared_values(row)
        last = row.body.block.last_op
        assert isinstance(last, YieldOp), "checked by the verifier"
        self._yielded = last.values
        self._ops = [*self._needed(self._yielded)]
        self._position = {op: n for n, op in enumerate(row.body.block.ops)}
        self._level = self._levels()
        self._results = [
            Store(value, number)
            for number, value in enumerate(self._yielded)
            if row.has_points(number)
        ]
        self._homes = self._homes_of(self._results)
        self._made: dict[KeepOp, int] = {}
        self._last_read: dict[KeepOp, int] = {}

    def _needed(self, values: Iterable[SSAValue]) -> list[Operation]:
        """The ops that make values, in their order."""
        pending, found = [*values], set[Operation]()
        while pending:
            owner = pending.pop().owner
            if isinstance(owner, Operation) and owner not in found:
                found.add(owner)
                pending += owner.operands
        return [op for op in self._row.body.block.ops if op in found]

    def _levels(self) -> dict[SSAValue, int]:
        """The number of passes that come before each value is known."""
        level: dict[SSAValue, int] = dict.fromkeys(self._row.body.block.args, 0)
        for op in self._ops:
            before = max((level[value] for value in op.operands), default=0)
            for result in op.results:
                level[result] = before + isinstance(op, AllReduceOp)
        return level

    @property
    def _folds(self) -> list[AllReduceOp]:
        return [op for op in self._ops if isinstance(op, AllReduceOp)]

    @property
    def count(self) -> int:
        """The number of passes."""
        ends = (self._level[value] + 1 for value, _ in self._results)
        folds = (self._level[fold.result] for fold in self._folds)
        return max((*ends, *folds), default=0)

    def found(self) -> RowPasses:
        folds, homes, count = self._folds, self._homes, self.count
        numbers = {fold: self._level[fold.result] - 1 for fold in folds}
        kept = [*homes]
        written = [x for x in self._results if homes.get(x.value) != x.result]
        last = max((self._level[value] for value, _ in written), default=-1)
        needs = [
            (
                [fold for fold in folds if numbers[fold] == number],
                written if number == last else [],
            )
            for number in range(count)
        ]
        closures = [
            self._closure(number, of_pass, stores, kept)
            for number, (of_pass, stores) in enumerate(needs)
        ]
        rooms = self._rooms(homes)
        passes = [
            self._pass(number, of_pass, stores, closures[number], rooms)
            for number, (of_pass, stores) in enumerate(needs)
        ]
        return RowPasses(
            passes, self._between(count), self._loads(), self._uniform(), rooms
        )

    def _closure(
        self,
        number: int,
        folds: Sequence[AllReduceOp],
        stores: Sequence[Store],
        kept: Sequence[SSAValue],
    ) -> set[SSAValue]:
        """The values that a pass has at each point."""
        pending = [value for fold in folds for value in fold.values]
        pending += [value for value, _ in stores]
        pending += [value for value in kept if self._level[value] == number]
        found: set[SSAValue] = set()
        while pending:
            value = pending.pop()
            if value in found or value in self._shared:
                continue
            found.add(value)
            owner = value.owner
            if isinstance(owner, Block):
                continue
            if isinstance(owner, KeepOp):
                self._last_read[owner] = number
                if self._made.setdefault(owner, number) != number:
                    continue
            pending += owner.operands
        return found

    def _homes_of(self, results: Sequence[Store]) -> dict[SSAValue, int]:
        """The values that are kept as results, and the first result of each."""
        homes: dict[SSAValue, int] = {}
        for value, number in results:
            if isinstance(value.owner, KeepOp) and value not in self._shared:
                homes.setdefault(value, number)
        return homes

    def _rooms(self, results: Mapping[SSAValue, int]) -> dict[KeepOp, int]:
        """The result in whose row each value lies that is kept."""
        busy = dict.fromkeys(results.values(), len(self._position))
        """The last pass that reads what is kept in the row of each result."""
        rooms: dict[KeepOp, int] = {}
        for op in sorted(self._made, key=lambda op: self._made[op]):
            if (home := results.get(op.result)) is not None:
                rooms[op] = home
            elif self._last_read[op] != self._made[op]:
                rooms[op] = self._room(op, busy)
                busy[rooms[op]] = self._last_read[op]
        return rooms

    def _room(self, op: KeepOp, busy: Mapping[int, int]) -> int:
        for number, out in enumerate(self._row.outs):
            is_free = busy.get(number, -1) <= self._made[op]
            fits = computed_in(element_of(out)) == computed_in(op.result.type)
            if is_free and fits and self._row.has_points(number):
                return number
        raise VerifyException(
            f"no result has a row in which a value of {op.result.type} can be kept"
        )

    def _pass(
        self,
        number: int,
        folds: Sequence[AllReduceOp],
        stores: Sequence[Store],
        values: set[SSAValue],
        homes: Mapping[KeepOp, int],
    ) -> RowPass:
        kept = [op for op in homes if op.result in values and self._made[op] < number]
        ops = [
            op
            for op in self._ops
            if any(result in values for result in op.results) and op not in kept
        ]
        of_keeps = (op for op in ops if isinstance(op, KeepOp) and op in homes)
        made = [Store(op.result, homes[op]) for op in of_keeps]
        loads = self._loads_of(values, kept, ops)
        return RowPass(folds, loads, ops, made, stores)

    def _loads_of(
        self,
        values: set[SSAValue],
        kept: Sequence[KeepOp],
        ops: Sequence[Operation],
    ) -> list[SSAValue]:
        """
        The values that a pass reads: kept results first, then elements that all rows
        share, then others in the order of their use.
        """
        row, along = self._row, {*self._row.along_loops}
        args = [arg for arg in row.body.block.args if arg in values]
        read = [*args, *(op.result for op in kept)]
        used = [value for op in ops for value in op.operands if value in read]
        maps: dict[SSAValue, AffineMap] = dict(
            zip(row.body.block.args, row.maps(), strict=False)
        )

        def rank(value: SSAValue) -> int:
            map = maps.get(value)
            is_shared = map is not None and map.used_dims() <= along
            return 0 if value in self._yielded else 1 if is_shared else 2

        return sorted(dict.fromkeys((*used, *read)), key=rank)

    def _between(self, count: int) -> list[list[Operation]]:
        shared = [
            op
            for op in self._ops
            if op.results
            and all(result in self._shared for result in op.results)
            and not isinstance(op, AllReduceOp)
        ]
        return [
            [op for op in shared if self._level[op.results[0]] == number]
            for number in range(count + 1)
        ]

    def _loads(self) -> list[SSAValue]:
        used = {value for op in self._ops for value in op.operands} | {*self._yielded}
        args = self._row.body.block.args
        return [arg for arg in args if arg in used and arg in self._shared]

    def _uniform(self) -> list[Store]:
        return [
            Store(value, number)
            for number, value in enumerate(self._yielded)
            if not self._row.has_points(number)
        ]


def computed_in(type: Attribute) -> Attribute:
    """The type that a kernel computes in with elements of a type."""
    return f32 if isinstance(type, AnyFloat) and is_half(type) else type
