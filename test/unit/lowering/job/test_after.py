"""
Values of random jobs that wait for others: what comes out is what NumPy says, and no
task begins before all that its operands wait for are over.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.transforms.canonicalize import CanonicalizePass

from penstock.dialects.job import (
    AfterOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    VariableOp,
    origin_of,
)
from penstock.dialects.op.activation import ReluOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import NegOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.lowering.analysis.ordering_tokens import needed_orders
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.runtime.executors.simulator import Act
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Model, Session

sys.path.insert(0, str(Path(__file__).parent))

from test_sbp_jobs import (
    ELSEWHERE,
    OTHERS,
    PLACEMENTS,
    RANKS,
    SPLIT,
    RandomJob,
    apply,
    compare,
    evaluate,
    inputs,
)

ONE = PlacementAttr("cpu", [(0, 0)])

TO_PLAN = (
    "job-place,job-infer-sbp,job-insert-boxing,convert-job-to-plan,"
    "plan-order-tasks{{in_place=true budget=1000}},"
    "plan-assign-streams{{streams=3 policy={}}},"
    "plan-create-registers,regst-alias-registers,regst-plan-memory{{steps=100000}},"
    "plan-reduce-events,verify-plan"
)
"""The passes that make a plan of a job in which each op has tasks of its own."""

TO_PROGRAM = "convert-plan-to-launch{simulate-ranks=true},verify-program"


class WaitingJob(RandomJob):
    """A random job, many of whose values wait for some that were made before."""

    def step(self) -> SSAValue:
        value = super().step()
        if self.rng.random() < 0.5:
            return value
        makers = [op for op in self.ops if not isinstance(op, VariableOp)]
        others: list[SSAValue] = [x for op in makers for x in op.results]
        count = int(self.rng.integers(1, 4))
        chosen = self.rng.permutation(len(others))[:count].tolist()
        after = AfterOp(value, [others[int(i)] for i in chosen])
        self.ops.append(after)
        return after.result

    def module(self) -> ModuleOp:
        """The job, in which each value has a name."""
        for number, op in enumerate(self.ops):
            for result in op.results:
                result.name_hint = f"op{number}"
        return super().module()


def waits_in(job: JobOp) -> list[tuple[str, str]]:
    """The names of ops that run before others because of `job.after`."""
    waits: dict[SSAValue, dict[str, None]] = {}
    found: list[tuple[str, str]] = []
    for op in job.body.block.ops:
        own = {name: None for value in op.operands for name in waits.get(value, ())}
        if isinstance(op, AfterOp):
            for value in op.others:
                maker = origin_of(value)
                if not isinstance(maker.owner, VariableOp | ConstantOp):
                    own[str(maker.name_hint)] = None
            waits[op.result] = own
        elif op.results:
            found.extend((first, str(op.results[0].name_hint)) for first in own)
    return found


def tasks_named(name: str, names: Sequence[str]) -> list[str]:
    """The tasks of an op: one, or one on each device."""
    return [x for x in names if x == name or x.startswith(f"{name}@")]


def waiting_job(seed: int, name: str) -> WaitingJob:
    """A job on the devices of this name, and sometimes on others."""
    return WaitingJob(seed, 7, WHERE[name], ELSEWHERE if name in RANKS else ())


def waits_of(job: WaitingJob) -> list[tuple[str, str]]:
    """The names of ops of a job that run before others, which are some."""
    found = job.module().body.block.first_op
    assert isinstance(found, JobOp)
    waits = waits_in(found)
    assert waits
    return waits


def lower(module: ModuleOp, passes: str) -> None:
    """Run passes over a job."""
    module.verify()
    compiler, known = installed_compiler()
    run_pipeline(compiler, known, module, passes)


WHERE = {"1": ONE, **PLACEMENTS, **RANKS}


@pytest.mark.parametrize(("seed", "policy"), [(0, "naive"), (1, "critical-path")])
@pytest.mark.parametrize("name", WHERE)
def test_plans_say_that_what_waits_comes_later(seed: int, name: str, policy: str):
    """As a marked graph: there is a path from each task without a token on it."""
    module = waiting_job(seed, name).module()
    lower(module, TO_PLAN.format(policy))
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    found = PlanGraph(plan)
    names = [task.task_name.data for task in found.tasks]
    after = found.graph.after([1 << task for task in range(len(names))])
    checked = 0
    for one, other in waits_of(waiting_job(seed, name)):
        for first, second in product(
            tasks_named(one, names), tasks_named(other, names)
        ):
            assert after[names.index(first)] >> names.index(second) & 1
            checked += 1
    assert checked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy"),
    [("1", "naive"), ("2x2", "critical-path"), ("uneven ranks", "naive")],
)
def test_programs_run_what_waits_later(name: str, policy: str):
    """Tasks take random times; and the results are those of NumPy."""
    waits = waits_of(waiting_job(0, name))
    module = waiting_job(0, name).module()
    expected = evaluate(module)
    lower(module, f"{TO_PLAN.format(policy)},{TO_PROGRAM}")
    rng = random.Random(name)
    model = Model(module, {}, Path())
    with Session(model, threads=8, simulate_ranks=True) as session:
        names = [actor.name for actor in session.executor.program.tables.actors]
        compare(session.run(inputs()), expected)
        for _ in range(6):
            times = {actor: rng.choice((1, 10, 1000)) for actor in names}
            got, found = session.executor.simulate([inputs()], times)
            compare(got[0], expected)
            check_order(waits, {names[act.actor]: act for act in found.acts})


def check_order(waits: Sequence[tuple[str, str]], acts: Mapping[str, Act]) -> None:
    """Fail if the tasks of one op begin before those of one that it waits for end."""
    checked = 0
    for first, second in waits:
        for a, b in product(
            tasks_named(first, list(acts)), tasks_named(second, list(acts))
        ):
            assert acts[a].end <= acts[b].start, (a, b)
            checked += 1
    assert checked >= len(waits)


@pytest.mark.parametrize("name", WHERE)
@pytest.mark.parametrize("seed", range(draws(2)))
def test_waits_survive_what_jobs_are_cleaned_by(seed: int, name: str):
    """`canonicalize` drops only waits that others, and what values need, imply."""
    module = WaitingJob(seed, 12, WHERE[name]).module()
    job = module.body.block.first_op
    assert isinstance(job, JobOp)
    expected, before = evaluate(module), closure_of(job)
    count = sum(len(op.others) for op in job.walk() if isinstance(op, AfterOp))
    # What nobody uses goes, and its waits with it.
    CanonicalizePass().apply(Context(), module)
    module.verify()
    after = closure_of(job)
    kept = {name for pair in after for name in pair}
    assert {(a, b) for a, b in before if a in kept and b in kept} == after
    assert sum(len(op.others) for op in job.walk() if isinstance(op, AfterOp)) < count
    compare(evaluate(module), expected)


def closure_of(job: JobOp) -> set[tuple[str, str]]:
    """The pairs of ops of which the first runs before the second, by their names."""
    needs: dict[SSAValue, frozenset[str]] = {}
    pairs: set[tuple[str, str]] = set()
    for op in job.body.block.ops:
        own = frozenset[str]().union(*(needs[value] for value in op.operands))
        for value in op.results:
            name = str(value.name_hint)
            needs[value] = own
            if not isinstance(op, AfterOp | VariableOp | ConstantOp):
                needs[value] = own | {name}
                pairs |= {(first, name) for first in own}
    return pairs


@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("name", PLACEMENTS)
def test_plans_on_devices_of_several_kinds_give_what_jobs_give(seed: int, name: str):
    module = WaitingJob(seed, 14, PLACEMENTS[name], OTHERS).module()
    expected = evaluate(module)
    apply(module, *SPLIT)
    text = str(module)
    apply(module, *SPLIT)
    assert str(module) == text, "what is split already stays"
    apply(module, ConvertJobToPlanPass())
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    assert plan.registers
    for task in plan.tasks:
        for control in (*task.waits, *task.signals):
            users = {use.operation for use in control.uses}
            ranks = {x.device.rank.data for x in users if isinstance(x, TaskOp)}
            assert len(ranks) == 1, "no control register is between ranks"
    compare(evaluate(module), expected)


def closure(size: int, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """The transitive closure of pairs of tasks: the tasks that follow each one."""
    follows = np.zeros((size, size), np.bool_)
    for first, second in pairs:
        follows[first, second] = True
    for middle in range(size):
        follows |= np.outer(follows[:, middle], follows[middle])
    return follows


@pytest.mark.parametrize("seed", range(draws(20)))
def test_needed_orders_are_the_fewest_that_imply_all(seed: int):
    rng = random.Random(seed)
    size = rng.randrange(2, 14)
    # All edges go from tasks to later ones of a hidden order.
    order = rng.sample(range(size), size)
    all_pairs = [(order[i], order[j]) for j in range(size) for i in range(j)]
    values = [pair for pair in all_pairs if rng.random() < 0.2]
    controls = [pair for pair in all_pairs if rng.random() < 0.4] * 2
    needed = needed_orders(size, values, controls)
    whole = closure(size, [*values, *controls])
    assert set(needed) <= set(controls)
    np.testing.assert_array_equal(closure(size, [*values, *needed]), whole)
    for left_out in needed:
        others = [pair for pair in needed if pair != left_out]
        assert not np.array_equal(closure(size, [*values, *others]), whole)


def ladder(size: int) -> ModuleOp:
    """Two chains of so many values that wait for each other in turn: an edge a wait."""
    type = TensorType(f64, [2])
    x = InputOp("x", type)
    ops: list[Operation] = [x]
    last = other = x.result
    for _ in range(size):
        step = ReluOp(last)
        after = AfterOp(other, [step])
        side = NegOp(after)
        back = AfterOp(step, [side])
        ops += [step, after, side, back]
        last, other = back.result, side.result
    ops += [OutputOp("a", last), OutputOp("b", other)]
    return ModuleOp([JobOp("ladder", ONE, Region(Block(ops)))])


def test_many_waits_take_linear_time():
    def converted(size: int) -> Callable[[], object]:
        module = ladder(size)

        def convert() -> None:
            apply(module, CanonicalizePass(), ConvertJobToPlanPass())
            plan = module.body.block.first_op
            assert isinstance(plan, PlanOp)
            assert len(plan.registers) == 2 * size

        return convert

    assert growth_of(converted, 10) < LINEAR
