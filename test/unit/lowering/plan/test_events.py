"""Events between streams and implied registers, against their definitions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Builtin, ModuleOp, StringAttr
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.utils.hints import isa

from penstock.dialects import get_all_dialects
from penstock.dialects.plan import PlanOp
from penstock.lowering.algorithms.deadlock import Register, Waits
from penstock.lowering.algorithms.event_reduction import (
    Order,
    implied_registers,
    needed_events,
)
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass
from penstock.lowering.plan.create_registers import PlanCreateRegistersPass
from penstock.lowering.plan.reduce_events import PlanReduceEventsPass
from penstock.lowering.regst.plan_memory import RegstPlanMemoryPass
from penstock.lowering.verify.plan import VerifyPlanPass

Streams = list[list[int]]

################################################################################
# Events                                                                       #
################################################################################


def closure(count: int, orders: Sequence[Order]) -> set[tuple[int, int]]:
    """All pairs that follow, by the triple loop of Warshall."""
    pairs = {(first, second) for first, second in orders}
    for middle in range(count):
        for first in range(count):
            if (first, middle) in pairs:
                for second in range(count):
                    if (middle, second) in pairs:
                        pairs.add((first, second))
    return pairs


def random_case(rng: random.Random) -> tuple[int, Streams, list[Order]]:
    """Tasks on streams, and orders that fit to these."""
    count = rng.randrange(1, 12)
    streams: Streams = [[] for _ in range(rng.randrange(1, 5))]
    names = rng.sample(range(count), count)
    for name in names:
        rng.choice(streams).append(name)
    orders: list[Order] = []
    for _ in range(rng.randrange(2 * count) if count > 1 else 0):
        a, b = sorted(rng.sample(range(count), 2))
        orders.append(Order(names[a], names[b]))
    return count, streams, orders


@pytest.mark.parametrize("seed", range(draws(100)))
def test_events_cover_all_orders_and_none_can_be_dropped(seed: int):
    count, streams, orders = random_case(random.Random(seed))
    along = [Order(a, b) for tasks in streams for a, b in pairwise(tasks)]
    waits = needed_events(streams, orders)
    events = [Order(a, b) for b, others in enumerate(waits) for a in others]
    stream = {task: i for i, tasks in enumerate(streams) for task in tasks}
    assert set(events) <= set(orders)
    assert all(stream[a] != stream[b] for a, b in events)
    covered = closure(count, [*along, *events])
    assert covered == closure(count, [*along, *orders])
    for event in events:
        others = [other for other in events if other != event]
        assert tuple(event) not in closure(count, [*along, *others])


def test_a_later_event_of_a_stream_covers_an_earlier_one():
    # 0 and 1 on one stream, 2 and 3 on the other.
    orders = [Order(0, 2), Order(1, 2), Order(0, 3), Order(1, 3)]
    assert needed_events([[0, 1], [2, 3]], orders) == [[], [], [1], []]


def test_an_event_is_passed_on_by_a_third_stream():
    orders = [Order(0, 1), Order(1, 2), Order(0, 2)]
    assert needed_events([[0], [1], [2]], orders) == [[], [0], [1]]


def test_many_tasks_on_eight_streams_take_linear_time():
    rng = random.Random(1)

    def problem(size: int) -> Callable[[], object]:
        streams: Streams = [[] for _ in range(8)]
        for task in range(size):
            rng.choice(streams).append(task)
        orders = [
            Order(rng.randrange(max(0, task - 40), task), task)
            for task in range(1, size)
            for _ in range(3)
        ]
        waits = needed_events(streams, orders)
        assert size / 2 < sum(map(len, waits)) < 2 * size
        return lambda: needed_events(streams, orders)

    assert growth_of(problem, 200) < LINEAR


################################################################################
# Implied registers                                                            #
################################################################################


def distances(count: int, registers: Sequence[Register]) -> list[list[int]]:
    """The fewest tokens between each two tasks: what they may be apart."""
    far = 1_000
    least = [[1 if a == b else far for b in range(count)] for a in range(count)]
    for writer, readers, slots, initial in registers:
        for reader in readers:
            least[writer][reader] = min(least[writer][reader], initial)
            least[reader][writer] = min(least[reader][writer], slots - initial)
    for k in range(count):
        for a in range(count):
            for b in range(count):
                least[a][b] = min(least[a][b], least[a][k] + least[k][b])
    return least


def random_registers(
    rng: random.Random, count: int, slots: int, most: int
) -> list[Register]:
    """Registers without a cycle that has no token: tasks can act in some order."""
    position = rng.sample(range(count), count)
    registers: list[Register] = []
    for _ in range(rng.randrange(1, 3 * count)):
        writer, size = rng.randrange(count), rng.randrange(1, slots + 1)
        initial = rng.choice([0, 0, size, rng.randrange(size + 1)])
        later = [a for a in range(count) if position[a] > position[writer]]
        earlier = [a for a in range(count) if position[a] < position[writer]]
        readers = [*later * (initial < size), *earlier * (initial > 0)]
        if 0 < initial < size:
            readers.append(writer)
        if readers:
            some = rng.sample(readers, min(len(readers), rng.randrange(1, most + 1)))
            registers.append(Register(writer, some, size, initial))
    assert Waits(count, registers).cycle() is None
    return registers


@pytest.mark.parametrize("seed", range(draws(100)))
@pytest.mark.parametrize(("slots", "readers"), [(1, 1), (1, 2), (3, 2)])
def test_removing_implied_registers_changes_nothing(
    seed: int, slots: int, readers: int
):
    rng = random.Random(seed)
    count = rng.randrange(1, 7)
    registers = random_registers(rng, count, slots, readers)
    removable = [i for i in range(len(registers)) if rng.random() < 0.7]
    removed = implied_registers(count, registers, removable)
    assert set(removed) <= set(removable)
    left = [r for i, r in enumerate(registers) if i not in removed]
    wanted = distances(count, registers)
    assert distances(count, left) == wanted
    if slots > 1 or readers > 1:
        return
    for index in set(removable) - set(removed):
        fewer = [
            register
            for i, register in enumerate(registers)
            if i not in removed and i != index
        ]
        assert distances(count, fewer) != wanted


def test_of_equal_registers_the_first_stays():
    registers = [Register(0, [1], 2), Register(0, [1]), Register(0, [1])]
    assert implied_registers(2, registers, [0, 1, 2]) == [0, 2]
    # Unless another one that stays anyhow does the same.
    assert implied_registers(2, registers, [0, 1]) == [0, 1]


################################################################################
# Plans                                                                        #
################################################################################


def random_plan(seed: int) -> tuple[Context, ModuleOp, PlanOp]:
    """A plan of sums, with places, on three streams."""
    rng = random.Random(seed)
    lines = ["job.job @random placement <cpu, [0:0]> {", '%v0 = job.input "x" : !t']
    lines.append('%v1 = job.variable "w" init <zeros> : !t')
    for index in range(2, 40):
        a, b = (rng.randrange(max(0, index - 5), index) for _ in "ab")
        lines.append(f"%v{index} = op.add %v{a}, %v{b} : !t, !t -> !t")
    lines.append('job.output "y", %v39 : !t')
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    text = "\n".join(["!t = tensor<16xf32>", *lines, "}"])
    module = Parser(context, text).parse_module()
    passes = (
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(3),
        PlanCreateRegistersPass(),
        RegstPlanMemoryPass(),
    )
    PassPipeline(passes).apply(context, module)
    return context, module, next(op for op in module.walk() if isinstance(op, PlanOp))


@pytest.mark.parametrize("seed", range(draws(4)))
def test_a_plan_without_implied_control_is_sound(seed: int):
    context, module, plan = random_plan(seed)
    PlanReduceEventsPass().apply(context, module)
    module.verify()
    VerifyPlanPass().apply(context, module)
    text = str(module)
    PlanReduceEventsPass().apply(context, module)
    assert str(module) == text
    assert count_of_events(plan) > 0


def count_of_events(plan: PlanOp) -> int:
    count = 0
    for task in plan.tasks:
        names = task.attributes.get("waits_for", ArrayAttr[StringAttr]([]))
        assert isa(names, ArrayAttr[StringAttr])
        count += len(names)
    return count
