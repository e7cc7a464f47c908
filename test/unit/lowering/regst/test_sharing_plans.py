"""Random plans over streams, slots and devices: their places are right and few."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import pytest
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from penstock.dialects import get_all_dialects
from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.regst import (
    ChunkOp,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_root,
)
from penstock.lowering.algorithms.packing import Lifetime, Problem, pack
from penstock.lowering.algorithms.packing.problem import align, side_by_side, sum_of
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.job.place import JobPlacePass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass
from penstock.lowering.plan.create_registers import PlanCreateRegistersPass
from penstock.lowering.regst.alias_registers import RegstAliasRegistersPass
from penstock.lowering.regst.plan_memory import GUARDS, RegstPlanMemoryPass
from penstock.lowering.verify.plan import VerifyPlanPass

PLACES = ("", "", "", "cpu, [0:1]", "cuda, [0:0]")


def random_job(rng: random.Random, length: int) -> str:
    """A job of sums, relus, reshapes and concatenations on up to three devices."""
    lines = ["job.job @random placement <cpu, [0:0]> {"]
    rows = [rng.randrange(1, 5) for _ in range(3)]
    for index, count in enumerate(rows):
        lines.append(f'%v{index} = job.input "x{index}" : tensor<{count}x16xf32>')
    lines.append('%v3 = job.variable "w" init <zeros> : tensor<1x16xf32>')
    rows.append(1)
    for index in range(4, length):
        a, b = (rng.randrange(max(0, index - 8), index) for _ in "ab")
        text, count = random_op(rng, (a, rows[a]), (b, rows[b]))
        lines.append(f"%v{index} = {text} -> tensor<{count}x16xf32>")
        rows.append(count)
    for index in (length - 2, length - 1):
        type = f"tensor<{rows[index]}x16xf32>"
        lines.append(f'job.output "y{index}", %v{index} : {type}')
    return "\n".join([*lines, "}"])


def random_op(
    rng: random.Random, first: tuple[int, int], second: tuple[int, int]
) -> tuple[str, int]:
    """An op on values of so many rows, and the rows of its result."""
    (a, rows), (b, others) = first, second
    place = rng.choice(PLACES)
    where = f" {{placement = #job.placement<{place}>}}" if place else ""
    types = f"tensor<{rows}x16xf32>, tensor<{others}x16xf32>"
    if rng.random() < 0.2 and rows + others < 12:
        return f"op.concat %v{a}, %v{b} axis 0{where} : {types}", rows + others
    if rows == others or others == 1:
        return f"op.add %v{a}, %v{b}{where} : {types}", rows
    return f"op.relu %v{a}{where} : tensor<{rows}x16xf32>", rows


def random_plan(seed: int, *, aliases: bool) -> tuple[ModuleOp, PlanOp]:
    """A plan on up to three streams of each device, some of whose slots are several."""
    module = _random_plan(seed, aliases).clone()
    return module, next(op for op in module.walk() if isinstance(op, PlanOp))


@cache
def _random_plan(seed: int, aliases: bool) -> ModuleOp:
    rng = random.Random(seed)
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    module = Parser(context, random_job(rng, rng.randrange(8, 40))).parse_module()
    passes = (
        JobPlacePass(),
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(rng.randrange(1, 4)),
        PlanCreateRegistersPass(),
    )
    PassPipeline(passes).apply(Context(), module)
    plan = next(op for op in module.walk() if isinstance(op, PlanOp))
    variables = {r for task in plan.tasks if task.kind == "variable" for r in task.outs}
    for register in plan.registers:
        if register.register not in variables and rng.random() < 0.2:
            register.slots = IntegerAttr(rng.randrange(1, 4), i64)
    if aliases:
        RegstAliasRegistersPass().apply(Context(), module)
    return module


def bytes_of(plan: PlanOp) -> dict[MemoryCaseAttr, int]:
    """The sizes of the chunks of a plan."""
    chunks = (op for op in plan.body.block.ops if isinstance(op, ChunkOp))
    return {chunk.memory_case: chunk.size.value.data for chunk in chunks}


################################################################################
# The rule of before: one block for each stream                                #
################################################################################

Stream = tuple[DeviceAttr, StreamAttr]


def bytes_by_stream(plan: PlanOp, algorithm: str) -> dict[MemoryCaseAttr, int]:
    """
    The bytes of registers if those of one slot share bytes with others that the same
    stream alone uses, and all others with none.
    """
    steps: dict[Stream, int] = defaultdict(int)
    used: dict[SSAValue, list[tuple[Stream, int]]] = defaultdict(list)
    for task in ordered(plan.tasks):
        stream = task.device, task.stream
        for register in (*task.ins, *task.outs):
            used[alias_root(register)].append((stream, steps[stream]))
        steps[stream] += 1
    memories: dict[MemoryCaseAttr, list[RegisterOp]] = defaultdict(list)
    for register in plan.registers:
        if register.target is None and isinstance(register.register.type, DataType):
            memories[register.memory_case].append(register)
    variables = {r for task in plan.tasks if task.kind == "variable" for r in task.outs}
    return {
        case: size_by_stream(
            [r for r in registers if r.register in variables],
            [r for r in registers if r.register not in variables],
            used,
            algorithm,
        )
        for case, registers in memories.items()
    }


def ordered(tasks: Sequence[TaskOp]) -> list[TaskOp]:
    """The tasks that act, those of each stream in order."""
    acting = [task for task in tasks if task.kind != "variable"]
    return sorted(acting, key=lambda t: 0 if t.order is None else t.order.value.data)


def size_by_stream(
    variables: Sequence[RegisterOp],
    others: Sequence[RegisterOp],
    used: dict[SSAValue, list[tuple[Stream, int]]],
    algorithm: str,
) -> int:
    """The bytes of a memory."""
    alignment = (*variables, *others)[0].memory_case.alignment
    lives: dict[Stream, list[Lifetime]] = defaultdict(list)
    kept: list[int] = []
    for register in others:
        streams = {stream for stream, _ in used[register.register]}
        steps = [step for _, step in used[register.register]]
        if len(streams) > 1 or register.slots.value.data > 1:
            kept.append(register.size)
            continue
        lives[streams.pop()].append(Lifetime(min(steps), max(steps), register.size))
    sizes = [sum(align(register.size, alignment) for register in variables)]
    if not others and variables:
        own = [register.size for register in variables]
        return side_by_side(own, alignment)[-1] + own[-1]
    if kept:
        sizes.append(sum_of(kept, alignment))
    for found in lives.values():
        problem = Problem(found, alignment)
        sizes.append(problem.peak(pack(problem, algorithm)))
    return side_by_side(sizes, alignment)[-1] + sizes[-1]


################################################################################
# Tests                                                                        #
################################################################################


def planned_bytes(
    seed: int, guard: str, algorithm: str, *, aliases: bool = False
) -> dict[MemoryCaseAttr, int]:
    """The bytes that a random plan takes."""
    module, plan = random_plan(seed, aliases=aliases)
    RegstPlanMemoryPass(guard=guard, algorithm=algorithm).apply(Context(), module)
    return bytes_of(plan)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("aliases", [False, True])
@pytest.mark.parametrize("seed", range(draws(4)))
def test_plans_are_right(seed: int, aliases: bool, guard: str):
    module, _ = random_plan(seed, aliases=aliases)
    RegstPlanMemoryPass(guard=guard, algorithm="size-first").apply(Context(), module)
    module.verify()
    VerifyPlanPass().apply(Context(), module)


@pytest.mark.parametrize("guard", ["stream", "all"])
@pytest.mark.parametrize("aliases", [False, True])
@pytest.mark.parametrize("seed", range(draws(4)))
def test_no_plan_takes_more_than_by_stream(seed: int, aliases: bool, guard: str):
    _, plan = random_plan(seed, aliases=aliases)
    before = bytes_by_stream(plan, "size-first")
    found = planned_bytes(seed, guard, "size-first", aliases=aliases)
    assert found.keys() == before.keys()
    assert all(found[case] <= size for case, size in before.items())


@pytest.mark.parametrize("seed", range(5))
def test_more_order_needs_no_more_bytes(seed: int):
    none, stream, everything = (
        planned_bytes(seed, guard, "best") for guard in ("none", "stream", "all")
    )
    for case in none:
        assert everything[case] <= stream[case] <= none[case]


@pytest.mark.slow
def test_plans_take_less_than_by_stream():
    """The tests above see plans that make use of more order, by default too."""
    sums: dict[str, int] = defaultdict(int)
    for seed in range(15):
        _, plan = random_plan(seed, aliases=False)
        sums["before"] += sum(bytes_by_stream(plan, "size-first").values())
        for guard in GUARDS:
            sums[guard] += sum(planned_bytes(seed, guard, "size-first").values())
    assert sums["all"] < 0.9 * sums["stream"]
    assert sums["stream"] < 0.9 * sums["before"]
    assert sums["before"] < sums["none"]
