"""
Expansion of boxings (SBP resharding) into tasks: slices, sums, concatenations, copies.

`convert-job-to-plan` calls `BoxingTasks.box` for each `job.boxing`. A *recipe*, from
`penstock.lowering.convert.boxing`, lists the boxes of elements that make the part of
one device; this module turns it into ops. A *zone* is a memory, named by the device
that stands for all that work in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.job import (
    DeviceAttr,
    Entry,
    misfit,
    sbp_entry_text,
)
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.sbp import (
    BROADCAST,
    PARTIAL,
    RECENT,
    Layout,
    Part,
    devices_of,
    part_type,
    sbp_of,
    split,
)
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.utils.attributes import ask_for_slots, carry
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.splat import splat_of
from penstock.lowering.algorithms.boxing_policies import (
    BoxingRequest,
    Policy,
    in_two_steps,
)
from penstock.lowering.analysis.op_devices import zone_of
from penstock.lowering.analysis.task_builder import TaskBuilder, Waits, at
from penstock.lowering.convert.boxing import (
    Collective,
    Piece,
    Recipe,
    collective_of,
    marks_of,
    recipes,
)
from penstock.lowering.convert.collective_tasks import (
    COPIES,
    CollectiveTasks,
    Exchanged,
)


@dataclass
class BoxingTasks:
    """
    The boxings of one plan, with slices that they share. A part needed by several
    devices of one memory is made once, by the first of them.
    """

    builder: TaskBuilder
    policy: Policy = in_two_steps
    """The way that boxings take."""
    collectives: str = COPIES
    """The algorithm of those that are collectives, if they are not copies."""
    slices: dict[tuple[SSAValue, Part, DeviceAttr, Waits], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Part, DeviceAttr, Waits], SSAValue]
    )

    def __post_init__(self) -> None:
        self.of_collectives = CollectiveTasks(self.builder)

    def box(
        self,
        values: Sequence[SSAValue],
        type: TensorType,
        source: Layout,
        target: Layout,
        like: Operation,
        base: str,
    ) -> list[SSAValue]:
        """
        The parts of a tensor in the layout `target`, made from its parts `values` in
        `source`.

        Tasks take their location from the op `like`, and the last ones its `slots`;
        their names start with `base`, a name that is unique in the plan.
        """
        collective = collective_of(type.get_shape(), source, target)
        if collective is not None:
            exchanged = Exchanged(collective, type, source, target)
            algorithm = exchanged.algorithm(self.collectives)
            if algorithm is not None:
                maker = self.of_collectives
                return maker.box(values, exchanged, algorithm, like, base)
        whole = Boxing(self, type, like, base, collective)
        for middle in steps_of(type, source, target, self.policy):
            verb = "sum" if adds(source, middle) else "step"
            values = whole.step(values, source, middle, f"{base}.{verb}")
            source = middle
        return whole.step(values, source, target, base)


@dataclass
class Boxing:
    """Makes the tasks of one boxing, in one or several steps."""

    tasks: BoxingTasks
    type: TensorType
    like: Operation
    base: str
    collective: Collective | None

    def step(
        self, values: Sequence[SSAValue], source: Layout, target: Layout, name: str
    ) -> list[SSAValue]:
        """The parts in the layout `target`; their last tasks have this name."""
        shape = self.type.get_shape()
        made: dict[tuple[DeviceAttr, Recipe], SSAValue] = {}
        parts = source.parts_of(shape)
        results: list[SSAValue] = []
        needs = recipes(shape, source, target)
        for number, device in enumerate(devices_of(target.placement)):
            key = (zone_of(device), needs[number])
            if key not in made:
                marks = marks_of(self.collective, source, target, number)
                last = name
                if not target.is_single:
                    last = self.tasks.builder.name(f"{name}{at(device)}")
                maker = PartTasks(self, values, parts, device, last, marks)
                made[key] = maker.make(needs[number])
            results.append(made[key])
        return results


def adds(source: Layout, target: Layout) -> bool:
    """Whether terms become sums on the way from one layout to another."""
    pairs = zip(source.entries, target.entries, strict=True)
    return any(a == PARTIAL != b for a, b in pairs)


def steps_of(
    type: TensorType, source: Layout, target: Layout, policy: Policy
) -> list[Layout]:
    """The layouts between two on the same devices, as a policy wants them."""
    if source.placement != target.placement:
        return []
    hierarchy = source.hierarchy

    def misfit_of(entries: Sequence[str]) -> str | None:
        read = [entry_of(entry) for entry in entries]
        if None in read:
            return f"'{entries[read.index(None)]}' is none of B, P and S(axis)"
        return misfit(type, [entry for entry in read if entry], hierarchy)

    have, want = (
        tuple(map(sbp_entry_text, layout.entries)) for layout in (source, target)
    )
    memories = {zone_of(device) for device in devices_of(source.placement)}
    request = BoxingRequest(
        type.get_shape(), have, want, hierarchy, len(memories), misfit_of
    )
    found: list[Layout] = []
    for texts in policy(request):
        entries = [entry for text in texts if (entry := entry_of(text))]
        found.append(Layout(source.placement, sbp_of(*entries)))
    return found


_SPLIT = re.compile(r"S\((\d+)\)")


def entry_of(text: str) -> Entry | None:
    """The entry of an SBP that a text is; None if it is none."""
    if (found := _SPLIT.fullmatch(text)) is not None:
        return split(int(found[1]))
    return {"B": BROADCAST, "P": PARTIAL}.get(text)


@dataclass
class PartTasks:
    """Makes the tasks of the part that one device needs."""

    boxing: Boxing
    values: Sequence[SSAValue]
    parts: Sequence[Part]
    """Where the values lie in the tensor."""
    device: DeviceAttr
    name: str
    """The name of the last task."""
    marks: Mapping[str, Attribute]

    @property
    def builder(self) -> TaskBuilder:
        """The builder of the tasks."""
        return self.boxing.tasks.builder

    def make(self, recipe: Recipe) -> SSAValue:
        """The part, on the device or in the memory it works in."""
        tasks = self.builder.tasks
        before = len(tasks)
        if recipe.pieces:
            boxes = [(piece.box, self._piece(piece)) for piece in recipe.pieces]
            value = self._join(boxes, 0)
        else:
            value = self._add(
                zeros(part_type(self.boxing.type, recipe.part)), self.device
            )
        if len(tasks) > before and value.owner is tasks[-1]:
            tasks[-1].task_name = StringAttr(self.name)
            ask_for_slots(self.boxing.like, tasks[-1])
            carry(self.boxing.like, tasks[-1])
        return value

    def _piece(self, piece: Piece) -> SSAValue:
        """The sum of the terms of a piece."""
        total, *terms = [self._fetch(source, piece.box) for source in piece.sources]
        for term in terms:
            total = self._add(AddOp.of(total, term), self.device)
        return total

    def _fetch(self, source: int, box: Part) -> SSAValue:
        """
        The elements of a box from one device. Those that have to be copied are cut out
        before, so that only they are.
        """
        builder, value = self.builder, self.values[source]
        holder = builder.device_of(value)
        if zone_of(holder) == zone_of(self.device):
            holder = self.device
        part = self.parts[source]
        if box != part:
            value = self._slice(value, box, part, holder)
        return builder.bring(value, self.device, self.boxing.base)

    def _slice(
        self, value: SSAValue, box: Part, part: Part, device: DeviceAttr
    ) -> SSAValue:
        key = (value, box, zone_of(device), self.builder.waiting)
        slices = self.boxing.tasks.slices
        if (known := slices.get(key)) is None:
            cut = SliceOp.create(
                operands=[value],
                properties=slice_properties(box, part),
                result_types=[part_type(self.boxing.type, box)],
            )
            known = slices[key] = self._add(cut, device)
        return known

    def _join(self, boxes: Sequence[tuple[Part, SSAValue]], axis: int) -> SSAValue:
        """Put boxes that fill a box together, along one axis and those after it."""
        if len(boxes) == 1:
            return boxes[0][1]
        by_start: dict[int, list[tuple[Part, SSAValue]]] = {}
        for box, value in sorted(boxes, key=lambda pair: pair[0].offsets):
            by_start.setdefault(box.offsets[axis], []).append((box, value))
        joined = [self._join(group, axis + 1) for group in by_start.values()]
        if len(joined) == 1:
            return joined[0]
        return self._add(ConcatOp(joined, axis), self.device)

    def _add(self, op: Operation, device: DeviceAttr) -> SSAValue:
        """A task of its own for an op."""
        like, base = self.boxing.like, self.boxing.base
        op.location = like.location
        op.results[0].name_hint = like.results[0].name_hint
        name = self.builder.name(f"{base}.{op.name.split('.')[1]}{at(device)}")
        return self.builder.add(op, name, device, self.marks).results[0]


@lru_cache(RECENT)
def slice_properties(box: Part, part: Part) -> Mapping[str, Attribute]:
    """The properties of the `op.slice` that cuts a box out of a part that holds it."""
    starts = [a - b for a, b in zip(box.offsets, part.offsets, strict=True)]
    ends = [a - b for a, b in zip(box.ends, part.offsets, strict=True)]
    steps = [1] * len(starts)
    bounds = {"starts": starts, "ends": ends, "steps": steps}
    return {key: int_list(values) for key, values in bounds.items()}


def zeros(type: TensorType) -> ConstantOp:
    """A tensor of zeros."""
    element = type.element_type
    assert isa(element, AnyFloat | IntegerType), "sums are of numbers"
    typed = TensorType(element, type.get_shape())
    return ConstantOp(splat_of(typed, bytes(element.compile_time_size)))
