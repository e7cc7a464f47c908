"""`plan-assign-streams{policy=critical-path}` on random plans."""

from __future__ import annotations

import random

import pytest
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DictionaryAttr, IntegerAttr
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects import get_all_dialects
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.analysis.task_times import ACCELERATOR, Machine, Rates, time_of
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass

MACHINE = Machine()


def random_plan(seed: int, streams: int, policy: str) -> PlanOp:
    """A plan of matrix products, with streams."""
    rng = random.Random(seed)
    lines = ["job.job @random placement <cpu, [0:0]> {", '%v0 = job.input "x" : !t']
    lines.append('%v1 = job.variable "w" init <zeros> : !t')
    for index in range(2, 20):
        a, b = (rng.randrange(max(0, index - 6), index) for _ in "ab")
        op = rng.choice(["add", "matmul"])
        lines.append(f"%v{index} = op.{op} %v{a}, %v{b} : !t, !t -> !t")
    lines.append('job.output "y", %v19 : !t')
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    text = "\n".join(["!t = tensor<64x64xf32>", *lines, "}"])
    module = Parser(context, text).parse_module()
    ConvertJobToPlanPass().apply(context, module)
    PlanAssignStreamsPass(streams, policy).apply(context, module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, PlanOp))


def makespan_of(plan: PlanOp) -> int:
    """When the last task ends, from what the IR says."""
    tasks = [task for task in plan.tasks if task.kind != "variable"]
    end: dict[TaskOp, int] = {}
    last: dict[object, TaskOp] = {}
    for task in tasks:
        start = 0
        if (before := last.get((task.device, task.stream))) is not None:
            start = end[before]
        for value in task.ins:
            owner = value.owner
            if isinstance(owner, TaskOp) and owner in end:
                same = owner.stream == task.stream
                start = max(start, end[owner] + (0 if same else 2000))
        end[task] = start + time_of(task, MACHINE)
        last[task.device, task.stream] = task
    return max(end.values())


def report_of(plan: PlanOp) -> dict[str, int]:
    report = plan.attributes["makespan_ns"]
    assert isinstance(report, DictionaryAttr)
    values: dict[str, int] = {}
    for key, value in report.data.items():
        assert isinstance(value, IntegerAttr)
        values[key] = value.value.data
    return values


@pytest.mark.parametrize("seed", range(draws(6)))
def test_the_report_is_what_the_plan_takes(seed: int):
    plan = random_plan(seed, 3, "critical-path")
    report = report_of(plan)
    assert report["scheduled"] == makespan_of(plan)
    assert report["naive"] == makespan_of(random_plan(seed, 3, "naive"))
    assert report["lower_limit"] <= report["scheduled"] <= report["naive"]


@pytest.mark.parametrize("seed", range(draws(6)))
def test_tasks_are_numbered_as_they_are_listed(seed: int):
    plan = random_plan(seed, 3, "critical-path")
    count: dict[object, int] = {}
    made: set[object] = set()
    for task in plan.tasks:
        assert all(value.owner in made for value in task.ins)
        made.add(task)
        if task.kind == "variable":
            assert task.order is None
            continue
        assert task.order is not None
        assert task.order.value.data == count.get(task.stream, 0)
        count[task.stream] = task.order.value.data + 1


def test_schedules_are_better_than_naive_ones():
    """On 20 random plans by a tenth at least, summed up."""
    reports = [report_of(random_plan(seed, 3, "critical-path")) for seed in range(20)]
    scheduled = sum(report["scheduled"] for report in reports)
    assert scheduled <= 0.9 * sum(report["naive"] for report in reports)


def test_one_stream_keeps_the_order():
    plan, other = (random_plan(3, 1, policy) for policy in ("critical-path", "naive"))
    assert [t.task_name for t in plan.tasks] == [t.task_name for t in other.tasks]


def test_rates_change_what_they_name():
    machine = Machine.parse(["cuda gflops=60000 task_ns=0", "cpu gbytes=2.5"])
    assert machine.of("cpu") == Rates(gbytes=2.5)
    assert machine.of("cuda").gflops == 60_000
    assert machine.of("cuda").task_ns == 0
    assert machine.of("cuda").gbytes == ACCELERATOR.gbytes
    assert machine.of("other") == ACCELERATOR


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("cuda", "expected a kind of device and its rates, got 'cuda'"),
        ("", "expected a kind of device and its rates, got ''"),
        (
            "cuda tflops=3",
            "expected one of gflops, gbytes, link_gbytes, task_ns, switch_ns, "
            "got 'tflops'",
        ),
        ("cuda gflops=0", "gflops must be a number above 0, got '0'"),
        ("cuda gbytes=fast", "gbytes must be a number above 0, got 'fast'"),
        ("cuda gflops=inf", "gflops must be a number above 0, got 'inf'"),
        ("cuda task_ns=-1", "task_ns must be a number of at least 0, got '-1'"),
        ("cuda task_ns", "task_ns must be a number of at least 0, got ''"),
    ],
)
def test_rates_that_are_none(entry: str, message: str):
    with pytest.raises(PassFailedException) as caught:
        Machine.parse([entry])
    assert str(caught.value) == f"machine: {message}"
