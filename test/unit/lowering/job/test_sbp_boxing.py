"""Boxings as tasks, in NumPy: every device gets its part, from any layout in any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.job import (
    BoxingOp,
    CopyOp,
    DeviceAttr,
    Entry,
    InputOp,
    JobOp,
    PartialAttr,
    PlacementAttr,
    SplitAttr,
    sbp_entry_text,
)
from penstock.dialects.op.elementwise import NegOp
from penstock.dialects.op.reduction import ReduceSumOp
from penstock.dialects.op.sbp import (
    BROADCAST,
    PARTIAL,
    Layout,
    devices_of,
    places_of,
    sbp_of,
    split,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.algorithms.boxing_policies import TWO_STEPS, BoxingRequest
from penstock.lowering.analysis.op_devices import zone_of
from penstock.lowering.convert.boxing import collective_of
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.plugins import forget, register

Array: TypeAlias = NDArray[np.float64]

ENTRIES: tuple[Entry, ...] = (split(0), split(1), BROADCAST, PARTIAL)


def layout(
    *entries: Entry,
    first: int = 0,
    kind: str = "cpu",
    ranks: Sequence[int] = (0,),
    shape: Sequence[int] = (2,),
) -> Layout:
    """A layout on devices from one on, spread over ranks."""
    count = int(np.prod(shape)) // len(ranks)
    pairs = [(rank, first + index) for rank in ranks for index in range(count)]
    return Layout(PlacementAttr(kind, pairs, shape), sbp_of(*entries))


def on_one(kind: str = "cpu", index: int = 0) -> Layout:
    """Whole on one device."""
    return layout(BROADCAST, first=index, kind=kind, shape=(1,))


def name_of(value: object) -> str:
    """The name of a test by its layouts."""
    return str(value).replace("#job.", "") if isinstance(value, Layout) else ""


def entries_before_sum(source: Layout) -> list[Entry]:
    """
    The layout of terms along a new first axis, so that sums along it lie in `source`.
    """
    return [
        split(0)
        if isinstance(entry, PartialAttr)
        else split(entry.axis.data + 1)
        if isinstance(entry, SplitAttr)
        else entry
        for entry in source.entries
    ]


def boxed(
    shape: Sequence[int], source: Layout, target: Layout, boxing: str = TWO_STEPS
) -> PlanOp:
    """
    A plan that adds terms, so that the sum lies as `source` says, boxes it, and negates
    what each device of `target` then has.
    """
    host = on_one()
    terms = InputOp("x", TensorType(f64, [12, *shape]))
    before = Layout(source.placement, sbp_of(*entries_before_sum(source)))
    fed = BoxingOp(terms, host.sbp, host.placement, before.sbp, before.placement)
    axes = DenseArrayBase.from_list(i64, [0])
    summed = ReduceSumOp.inferred([fed], {"axes": axes})
    summed.attributes = {"sbp": source.sbp, "placement": source.placement}
    box = BoxingOp(summed, source.sbp, source.placement, target.sbp, target.placement)
    box.result.name_hint = "b"
    negated = NegOp(box)
    negated.attributes = {"sbp": target.sbp, "placement": target.placement}
    negated.result.name_hint = "n"
    ops = [terms, fed, summed, box, negated]
    module = ModuleOp([JobOp("j", host.placement, Region(Block(ops)))])
    module.verify()
    ConvertJobToPlanPass(boxing).apply(Context(), module)
    module.verify()
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    return plan


class Run:
    """The tasks of a plan, run in NumPy; each works in the memory of its device."""

    def __init__(self, plan: PlanOp, x: Array):
        self.values: dict[SSAValue, Array] = {}
        self.zones: dict[SSAValue, DeviceAttr] = {}
        self.by_name: dict[str, Array] = {}
        self.copies: list[tuple[SSAValue, DeviceAttr]] = []
        for task in plan.tasks:
            self._run(task, x)

    def _run(self, task: TaskOp, x: Array) -> None:
        op, device = task.op, task.device
        match op:
            case InputOp():
                results = [x]
            case CopyOp():
                results = [self.values[task.ins[0]]]
                device = op.device
                self.copies.append((task.ins[0], device))
            case TensorOp():
                assert {self.zones[value] for value in task.ins} <= {zone_of(device)}
                pairs = zip(task.body.block.args, task.ins, strict=True)
                inside: dict[SSAValue, SSAValue] = dict(pairs)
                operands = [self.values[inside[value]] for value in op.operands]
                results = [np.asarray(r, np.float64) for r in op.evaluate(*operands)]
            case _:
                raise AssertionError(op.name)
        for value, result in zip(task.results_, results, strict=True):
            self.values[value] = result
            self.zones[value] = zone_of(device)
            self.by_name[task.task_name.data] = result


def check(
    shape: Sequence[int], source: Layout, target: Layout, boxing: str = TWO_STEPS
) -> None:
    """Box random numbers, and compare what each device has with its part of them."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((12, *shape))
    run = Run(boxed(shape, source, target, boxing), x)
    assert len(set(run.copies)) == len(run.copies)
    sums: dict[tuple[int, ...], Array] = {}
    parts = dict(zip(places_of(target.hierarchy), target.parts_of(shape), strict=True))
    for device, place in zip(
        devices_of(target.placement), places_of(target.hierarchy), strict=True
    ):
        suffix = "" if target.is_single else f"@{device.rank.data}."
        suffix += "" if target.is_single else f"{device.kind.data}.{device.index.data}"
        key = tuple(
            0 if isinstance(entry, PartialAttr) else index
            for entry, index in zip(target.entries, place, strict=True)
        )
        sums[key] = sums.get(key, np.zeros(())) - run.by_name[f"n{suffix}"]
    for place, total in sums.items():
        part = parts[place]
        index = tuple(map(slice, part.offsets, part.ends))
        np.testing.assert_allclose(total, x.sum(0)[index], 1e-12, 1e-12)


ROWS = [
    on_one(),
    *(layout(entry) for entry in ENTRIES),
    *(layout(entry, first=1, shape=(3,)) for entry in ENTRIES),
]
"""Whole on one device, in halves, and in thirds on other devices."""


@pytest.mark.parametrize("shape", [(7, 5), (6, 6)], ids=["uneven", "even"])
@pytest.mark.parametrize("source", ROWS, ids=name_of)
def test_every_pair_of_layouts_in_one_row(source: Layout, shape: Sequence[int]):
    for target in ROWS:
        check(shape, source, target)


MESHES = [layout(*entries, shape=(2, 2)) for entries in product(ENTRIES, repeat=2)]


@pytest.mark.parametrize("source", MESHES, ids=name_of)
def test_every_pair_of_layouts_on_a_mesh(source: Layout):
    for target in MESHES:
        check((5, 7), source, target)


@pytest.mark.parametrize("target", MESHES, ids=name_of)
def test_between_rows_and_meshes(target: Layout):
    for entry in ENTRIES:
        check((7, 5), layout(entry, shape=(3,)), target)
        check((7, 5), target, layout(entry, shape=(3,)))


FAR = [
    on_one("cuda", 1),
    *(layout(entry, kind="cuda") for entry in ENTRIES),
    *(layout(entry, ranks=(0, 1)) for entry in ENTRIES),
    *(layout(entry, kind="cuda", ranks=(1, 2), shape=(4,)) for entry in ENTRIES[1::2]),
    layout(PARTIAL, split(0), kind="cuda", ranks=(0, 1), shape=(2, 2)),
]
"""On devices with a memory of their own, and on several ranks."""


@pytest.mark.parametrize("source", FAR, ids=name_of)
def test_every_pair_of_layouts_in_several_memories(source: Layout):
    for target in (*FAR, *ROWS[:3]):
        check((7, 5), source, target)


def random_way(
    request: BoxingRequest, rng: np.random.Generator
) -> list[tuple[str, ...]]:
    """Up to four layouts in which the tensor can lie, each behind the one before."""
    way = [request.have]
    entries = [*map(sbp_entry_text, ENTRIES)]
    for _ in range(int(rng.integers(5))):
        trial = tuple(str(rng.choice(entries)) for _ in request.hierarchy)
        pairs = zip(way[-1], trial, strict=True)
        sums = all(entry != "P" or before == "P" for before, entry in pairs)
        if sums and request.misfit(trial) is None and trial not in way:
            way.append(trial)
    return way[1:]


def test_random_ways_lead_to_the_same_parts() -> None:
    rng = fresh()
    lengths: list[int] = []

    def wander(request: BoxingRequest) -> list[tuple[str, ...]]:
        way = random_way(request, rng)
        lengths.append(len(way))
        return way

    register("boxing", "wander")(wander)
    try:
        for _ in range(60):
            hierarchy = ((4,), (2, 2), (3,))[int(rng.integers(3))]
            ranks = (0, 1) if hierarchy != (3,) and rng.integers(2) else (0,)
            entries = [
                [ENTRIES[int(i)] for i in rng.integers(4, size=len(hierarchy))]
                for _ in range(2)
            ]
            source, target = (
                layout(*each, ranks=ranks, shape=hierarchy) for each in entries
            )
            print(source, target)
            check((8, 9), source, target, "wander")
    finally:
        forget(__name__)
    assert max(lengths) > 1


def tasks_of(source: Layout, target: Layout, shape: Sequence[int] = (6, 6)):
    """The names of the tasks of a boxing, and of the copies."""
    plan = boxed(shape, source, target)
    names = [task.task_name.data for task in plan.tasks]
    return [name for name in names if name.partition(".")[0].partition("@")[0] == "b"]


def test_what_lies_in_the_same_memory_is_read_there():
    assert not tasks_of(on_one(), layout(BROADCAST, shape=(3,)))
    assert not tasks_of(layout(BROADCAST), on_one())
    assert not tasks_of(layout(BROADCAST), layout(BROADCAST, first=2))
    assert not tasks_of(layout(split(0)), layout(split(0), first=2))


def test_devices_of_one_memory_share_what_all_need():
    assert tasks_of(layout(split(0)), layout(BROADCAST)) == ["b@0.cpu.0"]


def test_only_what_is_needed_is_copied_and_only_once():
    cuda = layout(split(0), kind="cuda")
    assert tasks_of(on_one(), cuda) == [
        "b.slice@0.cpu.0",
        "b@0.cuda.0",
        "b.slice@0.cpu.0_1",
        "b@0.cuda.1",
    ]


def test_the_nearest_copy_is_read():
    """Each device cuts its own: nothing goes from one to the other."""
    cuda = [layout(entry, kind="cuda") for entry in (BROADCAST, split(0))]
    assert tasks_of(*cuda, shape=(6, 6)) == ["b@0.cuda.0", "b@0.cuda.1"]
    near = layout(BROADCAST, ranks=(0, 1))
    assert tasks_of(near, on_one("cuda")) == ["b"]
    far = PlacementAttr("cpu", [(1, 0), (3, 0)])
    assert not tasks_of(
        Layout(far, near.sbp), layout(BROADCAST, ranks=(3,), shape=(1,))
    )


def test_devices_copy_by_way_of_their_hosts():
    far = layout(BROADCAST, first=3, kind="cuda", ranks=(1,))
    assert tasks_of(on_one("cuda"), far) == [
        "b.copy@0.cpu.0",
        "b.copy@1.cpu.0",
        "b@1.cuda.3",
        "b@1.cuda.4",
    ]


def test_sums_for_many_memories_are_made_part_by_part():
    """Each device adds a fourth of the terms; 4 x 3 terms and 4 x 3 sums travel."""
    cuda = [layout(entry, kind="cuda", shape=(4,)) for entry in (PARTIAL, BROADCAST)]
    for shape in ((7, 5), (1, 6)):
        check(shape, cuda[0], cuda[1])
    names = tasks_of(*cuda, shape=(8, 2))
    assert sum(".add@" in name or ".sum@" in name for name in names) == 4 * 3
    assert [name for name in names if name.startswith("b@")] == [
        f"b@0.cuda.{index}" for index in range(4)
    ]
    # By way of the host, where each part of a term, and each sum, comes once.
    assert sum(".copy@0.cpu" in name for name in names) == 4 * 3 + 4
    assert sum(".copy@0.cuda" in name for name in names) == 4 * 3 + 4 * 3


def test_sums_of_scalars_have_no_parts():
    cuda = [layout(entry, kind="cuda", shape=(3,)) for entry in (PARTIAL, BROADCAST)]
    check((), cuda[0], cuda[1])
    check((2, 2), cuda[0], cuda[1])


def test_terms_of_equal_hierarchies_stay_apart():
    """Term by term to the other devices, without a sum."""
    names = tasks_of(layout(PARTIAL), layout(PARTIAL, kind="cuda"))
    assert names == ["b@0.cuda.0", "b@0.cuda.1"]


COLLECTIVES = [
    (layout(PARTIAL), layout(BROADCAST), "all_reduce"),
    (layout(PARTIAL), layout(split(1)), "reduce_scatter"),
    (layout(split(1)), layout(BROADCAST), "all_gather"),
    (layout(split(1)), layout(split(0)), "all_to_all"),
    (on_one(), layout(split(0)), "scatter"),
    (on_one(), layout(BROADCAST), "broadcast"),
    (layout(split(0)), on_one(index=1), "gather"),
    (layout(PARTIAL), on_one(), "reduce"),
    (
        layout(split(0), PARTIAL, shape=(2, 2)),
        layout(split(0), BROADCAST, shape=(2, 2)),
        "all_reduce",
    ),
    (layout(BROADCAST), layout(split(0)), None),
    (layout(split(0)), on_one(index=2), None),
    (layout(split(0)), layout(split(0), first=2), None),
    (on_one(), on_one(index=1), None),
    (
        layout(split(0), PARTIAL, shape=(2, 2)),
        layout(BROADCAST, BROADCAST, shape=(2, 2)),
        None,
    ),
    (
        layout(split(1), split(1), shape=(2, 2)),
        layout(split(1), BROADCAST, shape=(2, 2)),
        "all_gather",
    ),
    (
        layout(split(1), split(1), shape=(2, 2)),
        layout(BROADCAST, split(1), shape=(2, 2)),
        None,
    ),
    (
        layout(PARTIAL, split(1), shape=(2, 2)),
        layout(split(1), split(1), shape=(2, 2)),
        None,
    ),
]


@pytest.mark.parametrize(("source", "target", "name"), COLLECTIVES, ids=name_of)
def test_collectives(source: Layout, target: Layout, name: str | None):
    found = collective_of((4, 8), source, target)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (layout(PARTIAL), layout(split(0))),
        (layout(split(0)), layout(BROADCAST)),
        (layout(split(1)), layout(split(0))),
    ],
    ids=name_of,
)
def test_uneven_parts_are_no_collective(source: Layout, target: Layout):
    assert collective_of((5, 4), source, target) is None


def test_collectives_and_their_groups_are_marked():
    """On a mesh each row of devices is a group of its own."""
    mesh = [layout(split(0), entry, shape=(2, 2)) for entry in (split(1), split(0))]
    plan = boxed((8, 8), mesh[0], mesh[1])
    marks = {
        task.task_name.data: (
            task.attributes.get("collective"),
            task.attributes.get("group"),
        )
        for task in plan.tasks
        if task.task_name.data.startswith("b@")
    }
    first, second = (PlacementAttr("cpu", [(0, i), (0, i + 1)]) for i in (0, 2))
    name = StringAttr("all_to_all")
    assert marks == {
        "b@0.cpu.0": (name, first),
        "b@0.cpu.1": (name, first),
        "b@0.cpu.2": (name, second),
        "b@0.cpu.3": (name, second),
    }
