"""Placement, fusion, conversion and streams of long and of random jobs."""

from __future__ import annotations

import numpy as np
import pytest
from counted_work import LINEAR, steps_of
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    Builtin,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from penstock.dialects import get_all_dialects
from penstock.dialects.job import (
    CopyOp,
    InitAttr,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    VariableOp,
)
from penstock.dialects.op.activation import ReluOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.plan import PlanOp
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.job.place import JobPlacePass
from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass

TYPE = TensorType(f32, [4])
PLACEMENTS = [
    PlacementAttr("cpu", [(0, 0)]),
    PlacementAttr("cuda", [(0, 0)]),
    PlacementAttr("cuda", [(0, 1)]),
]


def random_job(seed: int, length: int) -> JobOp:
    """A job whose ops are placed at random on three devices."""
    rng = np.random.default_rng(seed)
    weight = VariableOp("w", InitAttr("zeros", {}), TYPE)
    ops: list[Operation] = [InputOp("x", TYPE), weight]
    values: list[SSAValue] = [op.results[0] for op in ops]
    for _ in range(length):
        a, b = (values[rng.integers(len(values))] for _ in "ab")
        op = AddOp.inferred([a, b])
        if rng.random() < 0.5:
            op.attributes["placement"] = PLACEMENTS[rng.integers(3)]
        values.append(op.result)
        ops.append(op)
    ops.append(OutputOp("y", values[-1]))
    return JobOp("random", PLACEMENTS[seed % 3], Region(Block(ops)))


def apply(module: ModuleOp, *passes: ModulePass) -> None:
    """Run passes, verifying after each."""
    for each in passes:
        each.apply(Context(), module)
        module.verify()


@pytest.mark.parametrize("seed", range(draws(6)))
def test_each_value_is_copied_once_to_a_device(seed: int):
    job = random_job(seed, length=40)
    apply(ModuleOp([job]), JobPlacePass())
    copies = [op for op in job.body.block.ops if isinstance(op, CopyOp)]
    assert copies
    assert len({(copy.source, copy.device) for copy in copies}) == len(copies)


@pytest.mark.parametrize("seed", range(draws(6)))
def test_placed_jobs_stay_as_they_are(seed: int):
    module = ModuleOp([random_job(seed, length=40)])
    apply(module, JobPlacePass())
    text = str(module)
    apply(module, JobPlacePass())
    assert str(module) == text


@pytest.mark.parametrize("seed", range(draws(6)))
def test_placed_jobs_can_be_converted(seed: int):
    """The conversion refuses values that are used where they do not lie."""
    module = ModuleOp([random_job(seed, length=40)])
    apply(module, JobPlacePass(), ConvertJobToPlanPass())
    assert isinstance(module.body.block.first_op, PlanOp)


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_orders_number_each_stream_without_gaps(streams: int):
    module = ModuleOp([random_job(1, length=60)])
    apply(
        module, JobPlacePass(), ConvertJobToPlanPass(), PlanAssignStreamsPass(streams)
    )
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    orders: dict[object, list[int]] = {}
    for task in plan.tasks:
        if task.kind == "variable":
            assert task.order is None
        else:
            assert task.order is not None
            key = (task.device, task.stream)
            orders.setdefault(key, []).append(task.order.value.data)
    assert all(numbers == list(range(len(numbers))) for numbers in orders.values())
    compute = {task.stream.index.data for task in plan.tasks if task.kind == "compute"}
    assert compute == set(range(streams))


def read(text: str) -> ModuleOp:
    """The module that a text is."""
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Parser(context, text).parse_module()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(2)))
def test_texts_between_passes_can_be_read_and_resumed(seed: int):
    passes = (
        JobPlacePass(),
        OpFuseElementwisePass(),
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(streams=2),
    )
    straight = read(str(ModuleOp([random_job(seed, length=30)])))
    dumped = straight.clone()
    for each in passes:
        apply(straight, each)
        # What an earlier pass is given again it leaves as it is.
        apply(dumped, *passes[: passes.index(each) + 1])
        dumped = read(str(dumped))
        assert str(dumped) == str(straight)


def located(op: Operation, line: int) -> Operation:
    """The op, said to be written on this line."""
    op.location = FileLineColLoc(StringAttr("a.mlir"), IntAttr(line), IntAttr(1))
    return op


def test_locations_are_carried_on():
    """Fused ops have those of all members, a copy of the result that of the last."""
    x = located(InputOp("x", TYPE), 1)
    a = located(ReluOp(x), 2)
    b = located(ReluOp(a), 3)
    y = located(OutputOp("y", b), 4)
    job = JobOp("located", PLACEMENTS[1], Region(Block([x, a, b, y])))
    module = ModuleOp([located(job, 9)])
    apply(module, JobPlacePass(), OpFuseElementwisePass())
    fused = next(op for op in job.body.block.ops if isinstance(op, FusedOp))
    assert [lines_of(op) for op in fused.members] == [2, 3]
    apply(module, ConvertJobToPlanPass(), PlanAssignStreamsPass())
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    assert lines_of(plan) == 9
    # Input, its copy, the two ops as one, its copy, output.
    x_task, x_copy, both, both_copy, y_task = plan.tasks
    tasks = x_task, x_copy, both_copy, y_task
    assert [lines_of(task) for task in tasks] == [1, 1, 3, 4]
    assert isinstance(both.location, FusedLoc)
    members = both.location.locations
    assert isa(members, ArrayAttr[Attribute])
    places = [x for x in members if isinstance(x, FileLineColLoc)]
    assert [place.line.data for place in places] == [3, 2]


def lines_of(op: Operation) -> int:
    """The line that an op is said to be written on."""
    assert isinstance(op.location, FileLineColLoc)
    return op.location.line.data


def steps_of_passes(count: int) -> list[int]:
    """The steps of each pass for a chain of so many ops."""
    ops: list[Operation] = [InputOp("x", TYPE)]
    for _ in range(count):
        ops.append(ReluOp.create(operands=ops[-1].results, result_types=[TYPE]))
    ops.append(OutputOp("y", ops[-1]))
    module = ModuleOp([JobOp("chain", PLACEMENTS[1], Region(Block(ops)))])
    found: list[int] = []
    for each in (
        JobPlacePass(),
        OpFuseElementwisePass(max_ops=1),
        OpFuseElementwisePass(max_ops=2),
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(streams=2),
    ):
        found.append(steps_of(each.apply, Context(), module))
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    # Pairs, the input and the output, and their copies.
    assert len(plan.tasks) == count // 2 + 4
    return found


def test_long_chains_take_linear_time():
    """Ten times as many ops; a quadratic pass would take a hundred times as long."""
    # The first time, modules are imported and caches filled.
    few = [steps_of_passes(40) for _ in range(2)][1]
    for short, long in zip(few, steps_of_passes(400), strict=True):
        assert long < LINEAR * short
