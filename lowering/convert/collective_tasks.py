"""
Tasks of boxings that the ranks of a group do as one collective.

Blocks of a `job.collective` are of consecutive elements. A tensor that is cut along an
axis with others before it is laid anew: its blocks come first before the exchange, or
go back to their axis after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.job import (
    CollectiveOp,
    DeviceAttr,
    PlacementAttr,
    SplitAttr,
    can_add,
)
from penstock.dialects.job.collectives import ALGORITHMS, COLLECTIVES, SUMS
from penstock.dialects.op.movement import ReshapeOp, TransposeOp
from penstock.dialects.op.sbp import Layout, devices_of, part_type
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.task_builder import TaskBuilder, at
from penstock.lowering.convert.boxing import Collective, groups_of, marks_of

COPIES = "copies"
"""The choice of no collectives: boxings are slices, sums and copies."""
CHOICES = (COPIES, *ALGORITHMS)
"""All that `collectives` may be."""


class Exchanged(NamedTuple):
    """A boxing that is a collective: a tensor of a type in another layout."""

    collective: Collective
    type: TensorType
    source: Layout
    target: Layout

    @property
    def groups(self) -> Sequence[PlacementAttr]:
        """The group that each device of the target takes part in."""
        return groups_of(self.collective, self.source, self.target)

    def types(self, layout: Layout) -> list[TensorType]:
        """The types of the parts in a layout."""
        parts = layout.parts_of(self.type.get_shape())
        return [part_type(self.type, part) for part in parts]

    def axis(self, layout: Layout) -> int:
        """The axis that a layout cuts along in the dimension of the collective."""
        entry = layout.entries[self.collective.dim or 0]
        assert isinstance(entry, SplitAttr), "such a collective cuts or joins"
        return entry.axis.data

    def algorithm(self, wanted: str) -> str | None:
        """The algorithm that does it, the wanted one if that can; None if none does."""
        kind = self.collective.name
        is_known = wanted != COPIES and kind in COLLECTIVES
        if not is_known or not prod(self.type.get_shape()):
            return None
        if not all(map(is_of_ranks, self.groups)):
            return None
        if kind not in SUMS:
            return wanted
        able = (x for x in (wanted, "ring") if can_add(self.type.element_type, x))
        return next(able, None)


def is_of_ranks(group: PlacementAttr) -> bool:
    """Whether a group is of several CPUs, each of another process."""
    ranks = {rank for rank, _ in group.pairs}
    return group.kind.data == "cpu" and len(ranks) == len(group.pairs) > 1


@dataclass
class CollectiveTasks:
    """Makes the tasks of the collectives of one plan, which it numbers."""

    builder: TaskBuilder
    new_tag: Callable[[], int] = field(default_factory=lambda: count().__next__)

    def box(
        self,
        values: Sequence[SSAValue],
        boxing: Exchanged,
        algorithm: str,
        like: Operation,
        base: str,
    ) -> list[SSAValue]:
        """The parts in the layout of the target, from those in that of the source."""
        tags = {group: self.new_tag() for group in dict.fromkeys(boxing.groups)}
        made: list[SSAValue] = []
        devices = devices_of(boxing.target.placement)
        for number, device in enumerate(devices):
            group = boxing.groups[number]
            marks = marks_of(boxing.collective, boxing.source, boxing.target, number)
            part = RankTasks(self.builder, boxing, like, base, device, group, marks)
            made.append(part.make(values, number, algorithm, tags[group]))
        return made


@dataclass
class RankTasks:
    """Makes the tasks of one rank of a collective."""

    builder: TaskBuilder
    boxing: Exchanged
    like: Operation
    base: str
    device: DeviceAttr
    group: PlacementAttr
    marks: Mapping[str, Attribute]

    def make(
        self, values: Sequence[SSAValue], number: int, algorithm: str, tag: int
    ) -> SSAValue:
        """The part of this rank, of that number in the target."""
        boxing, kind = self.boxing, self.boxing.collective.name
        result = boxing.types(boxing.target)[number]
        ranks = [rank for rank, _ in self.group.pairs]
        first, targets, axis = values[0], [result], 0
        if kind == "broadcast":
            root = self.builder.device_of(first).rank.data
            # The first of the ranks has the tensor.
            ranks = [root, *(rank for rank in ranks if rank != root)]
            if root == self.device.rank.data:
                self._exchange(kind, algorithm, ranks, tag, [first], [], None)
                return first
            source = []
        else:
            source = [values[number]]
        if kind in ("reduce_scatter", "all_to_all"):
            source = [self._blocks_first(source[0], boxing.axis(boxing.target))]
        if kind in ("all_gather", "all_to_all"):
            axis = boxing.axis(boxing.source)
        block = [*result.get_shape()]
        block[axis : axis + 1] = [x // len(ranks) for x in block[axis : axis + 1]]
        is_laid_out = prod(block[:axis]) == 1
        if not is_laid_out:
            targets = [TensorType(result.element_type, [len(ranks), *block])]
        if (kind, algorithm) == ("reduce_scatter", "ring"):
            targets *= 2
        name = self.base if is_laid_out else None
        got = self._exchange(kind, algorithm, ranks, tag, source, targets, name)
        return got if is_laid_out else self._blocks_back(got, axis, result)

    def _exchange(
        self,
        kind: str,
        algorithm: str,
        ranks: Sequence[int],
        tag: int,
        sources: Sequence[SSAValue],
        targets: Sequence[TensorType],
        name: str | None,
    ) -> SSAValue:
        op = CollectiveOp(kind, algorithm, ranks, tag, sources, targets)
        found = self._add(op, name)
        return found[0] if found else sources[0]

    def _blocks_first(self, value: SSAValue, axis: int) -> SSAValue:
        """The tensor with a block of its axis for each rank, one after the other."""
        shape, ranks = tensor_type(value).get_shape(), len(self.group.pairs)
        if prod(shape[:axis]) == 1:
            return value
        cut = [*shape[:axis], ranks, shape[axis] // ranks, *shape[axis + 1 :]]
        (value,) = self._add(ReshapeOp(value, cut))
        order = [axis, *(x for x in range(len(cut)) if x != axis)]
        (value,) = self._add(TransposeOp(value, order))
        return value

    def _blocks_back(self, value: SSAValue, axis: int, type: TensorType) -> SSAValue:
        """The tensor whose blocks lie behind each other along an axis again."""
        order = [*range(1, axis + 1), 0, *range(axis + 1, type.get_num_dims() + 1)]
        (value,) = self._add(TransposeOp(value, order))
        (value,) = self._add(ReshapeOp(value, type.get_shape()), self.base)
        return value

    def _add(self, op: Operation, last: str | None = None) -> Sequence[SSAValue]:
        """A task of its own for an op, the last one under this name."""
        op.location = self.like.location
        for result in op.results:
            result.name_hint = self.like.results[0].name_hint
        base = f"{self.base}.{op.name.split('.')[1]}" if last is None else last
        name = self.builder.name(f"{base}{at(self.device)}")
        task = self.builder.add(op, name, self.device, self.marks)
        if last is not None:
            if (slots := self.like.attributes.get("slots")) is not None:
                task.attributes["slots"] = slots
            carry(self.like, task)
        return task.results
