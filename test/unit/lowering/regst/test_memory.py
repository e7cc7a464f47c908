"""Placing lifetimes in memory, and whole plans from job text to launch programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

from penstock.dialects import get_all_dialects, launch
from penstock.dialects.job import DeviceAttr, InputOp, VariableOp
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.dialects.regst import BlockOp, ChunkOp, RegisterOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.packing import Lifetime, Problem, pack
from penstock.lowering.algorithms.packing.problem import (
    end_of,
    fullest,
    live_bytes,
    shares_bytes,
    side_by_side,
    sum_of,
)
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.convert.plan_to_launch import ConvertPlanToLaunchPass
from penstock.lowering.job.place import JobPlacePass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass
from penstock.lowering.plan.create_registers import PlanCreateRegistersPass
from penstock.lowering.regst.plan_memory import GUARDS, RegstPlanMemoryPass
from penstock.lowering.verify.plan import VerifyPlanPass

Array: TypeAlias = NDArray[np.generic]
Tags: TypeAlias = NDArray[np.int64]

HOST = DeviceAttr(0, "cpu", 0)
STREAM = StreamAttr("compute", 0)

################################################################################
# Placing lifetimes                                                            #
################################################################################


def size_first(lifetimes: Sequence[Lifetime], alignment: int) -> list[int]:
    """The layout of the default algorithm of OneFlow."""
    return pack(Problem(lifetimes, alignment), "size-first")


def test_largest_is_placed_first():
    small, large = Lifetime(0, 1, 4), Lifetime(0, 1, 8)
    assert size_first([small, large], alignment=1) == [8, 0]


def test_of_equals_the_first_used_and_then_the_first_listed_is_placed_first():
    lives = [Lifetime(1, 2, 8), Lifetime(0, 2, 8), Lifetime(1, 2, 8)]
    assert size_first(lives, alignment=1) == [8, 0, 16]


def test_the_lowest_gap_that_fits_is_filled():
    lifetimes = [
        Lifetime(0, 9, 8),
        Lifetime(0, 1, 6),
        Lifetime(0, 9, 4),
        Lifetime(2, 9, 6),
    ]
    assert size_first(lifetimes, alignment=1) == [0, 8, 14, 8]


def test_what_ends_and_what_starts_at_one_step_are_both_needed():
    lifetimes = [Lifetime(0, 2, 8), Lifetime(2, 3, 8), Lifetime(3, 3, 8)]
    assert size_first(lifetimes, alignment=1) == [0, 8, 0]


def test_nothing_to_place():
    assert size_first([], alignment=512) == []
    assert (fullest([], 64), sum_of([], 64), end_of([], [])) == ((0, 0), 0, 0)


def test_no_bytes_take_no_room():
    lifetimes = [Lifetime(0, 1, 0), Lifetime(0, 1, 8), Lifetime(0, 1, 0)]
    assert size_first(lifetimes, alignment=64) == [0, 0, 0]
    assert not shares_bytes([0, 0, 0], [0, 8, 0])
    assert shares_bytes([0, 4, 2], [0, 8, 3])


def test_side_by_side_is_aligned_but_for_the_end():
    assert side_by_side([4, 64, 65, 1], alignment=64) == [0, 64, 128, 256]
    # Largest first, so that the least is lost at the end: 128 + 64 + 1.
    assert sum_of([1, 64, 65], alignment=64) == 193


def random_lifetimes(rng: random.Random) -> list[Lifetime]:
    """Up to 30 lifetimes over at most 20 steps, with sizes that often are equal."""
    count, steps = rng.randrange(1, 30), rng.randrange(1, 20)
    sizes = [rng.randrange(0, 300) for _ in range(5)]
    firsts = [rng.randrange(steps) for _ in range(count)]
    return [
        Lifetime(first, first + rng.randrange(6), rng.choice(sizes)) for first in firsts
    ]


@pytest.mark.parametrize("seed", range(draws(66)))
def test_random_layouts_are_sound_and_within_their_bounds(seed: int):
    rng = random.Random(seed)
    lives, alignment = random_lifetimes(rng), rng.choice([1, 8, 64])
    offsets = size_first(lives, alignment)
    sizes = [life.size for life in lives]
    assert all(offset % alignment == 0 for offset in offsets)
    placed = list(zip(lives, offsets, strict=True))
    for (a, x), (b, y) in combinations(placed, 2):
        together = set(range(a.first, a.last + 1)) & set(range(b.first, b.last + 1))
        shared = set(range(x, x + a.size)) & set(range(y, y + b.size))
        assert not (together and shared)
    steps = range(max(life.last for life in lives) + 1)
    bound = max(sum(s for a, b, s in lives if a <= step <= b) for step in steps)
    assert live_bytes(lives) == bound
    assert fullest(lives, 1) == (bound, 0)
    assert bound <= end_of(offsets, sizes) <= sum_of(sizes, alignment)


@pytest.mark.parametrize("seed", range(draws(16)))
def test_each_is_as_low_as_it_can_go(seed: int):
    lives = random_lifetimes(random.Random(seed))
    offsets = size_first(lives, alignment=4)
    order = sorted(range(len(lives)), key=lambda i: (-lives[i].size, lives[i].first))
    for rank, i in enumerate(order):
        taken: set[int] = set()
        for j in order[:rank]:
            if lives[j].first <= lives[i].last and lives[i].first <= lives[j].last:
                taken.update(range(offsets[j], offsets[j] + lives[j].size))
        lower = range(0, offsets[i], 4)
        assert all(not taken.isdisjoint(range(x, x + lives[i].size)) for x in lower)


@pytest.mark.parametrize("span", [10, 10_000])
def test_many_lifetimes_take_linear_time(span: int):
    rng = random.Random(0)

    def problem(size: int) -> Callable[[], object]:
        lives = [
            Lifetime(first, first + rng.randrange(span), rng.randrange(1, 1 << 20))
            for first in range(size)
        ]
        return lambda: size_first(lives, alignment=64)

    assert growth_of(problem, 200) < LINEAR


################################################################################
# Whole plans                                                                  #
################################################################################


def parse(text: str) -> ModuleOp:
    """A module of our dialects."""
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Parser(context, text).parse_module()


def random_job(seed: int, length: int) -> str:
    """A job of sums and relus of vectors of several lengths, some on a GPU."""
    rng = random.Random(seed)
    lengths = [1, *(rng.randrange(2, 60) for _ in range(4))]
    lines = ["job.job @random placement <cpu, [0:0]> {"]
    shapes: list[int] = []
    for index, size in enumerate(lengths):
        lines.append(f'%v{index} = job.input "x{index}" : tensor<{size}xf32>')
        shapes.append(size)
    lines.append('%v5 = job.variable "w" init <zeros> : tensor<1xf32>')
    shapes.append(1)
    for index in range(6, length):
        a = rng.randrange(max(0, index - 8), index)
        b = rng.choice([i for i in range(index) if shapes[i] in (1, shapes[a])])
        size = shapes[a]
        place = " {placement = #job.placement<cuda, [0:0]>}" * (rng.random() < 0.3)
        types = f"tensor<{size}xf32>, tensor<{shapes[b]}xf32> -> tensor<{size}xf32>"
        lines.append(f"%v{index} = op.add %v{a}, %v{b}{place} : {types}")
        shapes.append(size)
    for index in (length - 3, length - 1):
        lines.append(f'job.output "y{index}", %v{index} : tensor<{shapes[index]}xf32>')
    return "\n".join([*lines, "}"])


def compile_plan(text: str, streams: int = 1, guard: str = "stream") -> ModuleOp:
    """The plan of a job with places for its registers."""
    module = parse(text)
    passes = (
        JobPlacePass(),
        ConvertJobToPlanPass(),
        PlanAssignStreamsPass(streams),
        PlanCreateRegistersPass(),
        # A search that goes on does not make layouts of other kinds.
        RegstPlanMemoryPass(guard=guard, steps=1_000_000),
    )
    PassPipeline(passes).apply(Context(), module)
    module.verify()
    return module


def program_of(module: ModuleOp) -> launch.ProgramOp:
    """The launch program of the only plan of a module."""
    ConvertPlanToLaunchPass().apply(Context(), module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, launch.ProgramOp))


@dataclass
class Simulation:
    """
    Runs a program's actors in a random order that their registers allow, and notes for
    each byte which actor wrote it last, and in which act. Raises `AssertionError` if
    bytes that an actor reads are not those that were written for it.
    """

    program: launch.ProgramOp
    memory: dict[str, Tags] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = self.program.symbol_table()
        self.actors = [
            op for op in self.table.values() if isinstance(op, launch.ActorOp)
        ]
        self.reads = {a: launch.names_of(a.reads) for a in self.actors}
        self.writes = {a: launch.names_of(a.writes) for a in self.actors}
        self.writer = {r: a for a in self.actors for r in self.writes[a]}
        self.index = {a: i for i, a in enumerate(self.actors)}
        self.acts = [0] * len(self.actors)
        self.waits = [[*self._waits(actor)] for actor in self.actors]
        for name, op in self.table.items():
            if isinstance(op, launch.ChunkOp):
                self.memory[name] = np.full(op.size.value.data, -1)
            if isinstance(op, launch.VariableOp):
                self._bytes(op, 0)[:] = -2

    def _waits(self, actor: launch.ActorOp) -> Iterator[tuple[int, int]]:
        """Whom an actor waits for, and how many acts it may be ahead of them."""
        for register in self.reads[actor]:
            yield self.index[self.writer[register]], self._slots(register)[1]
        for register in self.writes[actor]:
            slots, initial = self._slots(register)
            for reader in self.actors:
                if register in self.reads[reader]:
                    yield self.index[reader], slots - initial

    def run(self, acts: int, rng: random.Random) -> None:
        """Let every actor act this often."""
        while waiting := [i for i, done in enumerate(self.acts) if done < acts]:
            ready = [index for index in waiting if self._can_act(index)]
            assert ready, "a deadlock"
            self._act(self.actors[rng.choice(ready)])

    def _slots(self, register: str) -> tuple[int, int]:
        op = self.table[register]
        assert isinstance(op, launch.RegisterOp | launch.ControlOp)
        initial = op.initial_slots if isinstance(op, launch.ControlOp) else 0
        return op.slots.value.data, initial

    def _can_act(self, index: int) -> bool:
        done = self.acts[index]
        return all(done < self.acts[i] + ahead for i, ahead in self.waits[index])

    def _act(self, actor: launch.ActorOp) -> None:
        act = self.acts[self.index[actor]]
        for register in self.reads[actor]:
            if isinstance(op := self.table[register], launch.RegisterOp):
                self._check(op, self.writer[register], act)
        for step in actor.body.block.ops:
            for name in arguments_of(step):
                if isinstance(op := self.table[name], launch.VariableOp):
                    assert (self._bytes(op, 0) == -2).all(), "a variable was written"
        for register in self.writes[actor]:
            if isinstance(op := self.table[register], launch.RegisterOp):
                self._bytes(op, act)[:] = self._tag(actor, act)
        self.acts[self.index[actor]] += 1

    def _check(
        self, register: launch.RegisterOp, writer: launch.ActorOp, act: int
    ) -> None:
        found = self._bytes(register, act)
        assert (found == self._tag(writer, act)).all(), "bytes of another act were read"

    def _tag(self, actor: launch.ActorOp, act: int) -> int:
        return act * len(self.actors) + self.index[actor]

    def _bytes(self, op: launch.RegisterOp | launch.VariableOp, act: int) -> Tags:
        chunk = op.chunk.root_reference.data
        start, size = op.offset.value.data, launch.memref_bytes(op.type)
        if isinstance(op, launch.RegisterOp):
            owner = self.table[chunk]
            assert isinstance(owner, launch.ChunkOp)
            stride = op.stride(owner.memory_case.alignment)
            start += act % op.slots.value.data * stride
        return self.memory[chunk][start : start + size]


def arguments_of(step: object) -> list[str]:
    """The registers that a step of an actor works on."""
    match step:
        case launch.CallOp():
            return launch.names_of(step.arguments)
        case launch.CopyOp():
            return [step.source.root_reference.data, step.target.root_reference.data]
        case launch.FeedOp():
            return [step.target.root_reference.data]
        case launch.FetchOp():
            return [step.source.root_reference.data]
        case _:
            return []


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("seed", range(draws(1)))
def test_programs_read_what_was_written_for_them(seed: int, streams: int, guard: str):
    module = compile_plan(random_job(seed, 40), streams, guard)
    VerifyPlanPass().apply(Context(), module)
    program = program_of(module)
    for order in range(4):
        Simulation(program).run(4, random.Random(order))


def drop_guards(plan: PlanOp) -> None:
    """Take all control registers that are full at the start out of a plan."""
    for register in plan.registers:
        if register.initial is None:
            continue
        for use in list(register.register.uses):
            task = use.operation
            assert isinstance(task, TaskOp)
            clone = TaskOp(
                task.task_name.data,
                task.device,
                task.stream,
                task.detach_region(task.body),
                ins=task.ins,
                outs=task.outs,
                waits=[r for r in task.waits if r != register.register],
                signals=[r for r in task.signals if r != register.register],
            )
            plan.body.block.insert_op_before(clone, task)
            task.detach()
            task.erase()
        register.detach()
        register.erase()


def run_often(program: launch.ProgramOp, times: int, rng: random.Random) -> None:
    """Run a program from its start several times."""
    for _ in range(times):
        Simulation(program).run(3, rng)


def test_without_safe_guards_the_next_act_overwrites_what_is_read():
    """OF-64 of docs/sources.md."""
    module = compile_plan(random_job(1, 20))
    plan = next(op for op in module.walk() if isinstance(op, PlanOp))
    drop_guards(plan)
    with pytest.raises(LocatedPassFailure, match=r"has begun to write .* again"):
        VerifyPlanPass().apply(Context(), module)
    program = program_of(module)
    rng = random.Random(0)
    # Whether it goes wrong depends on who acts first, so that one of many runs does.
    with pytest.raises(AssertionError, match="bytes of another act were read"):
        run_often(program, 50, rng)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_say_their_bounds(seed: int):
    plan = next(
        op for op in compile_plan(random_job(seed, 60)).walk() if isinstance(op, PlanOp)
    )
    held: dict[SSAValue, list[RegisterOp]] = {}
    for register in plan.registers:
        if register.block is not None:
            held.setdefault(register.block, []).append(register)
    for block, registers in held.items():
        op = block.owner
        assert isinstance(op, BlockOp)
        assert op.sum is not None
        assert op.bound is not None
        sizes = [register.size for register in registers]
        assert op.bound.value.data <= op.size.value.data <= op.sum.value.data
        assert max(sizes) <= op.bound.value.data
        assert sum(sizes) <= op.sum.value.data


def test_chunks_end_with_their_last_block():
    ops = list(compile_plan(random_job(3, 40)).walk())
    for chunk in ops:
        if isinstance(chunk, ChunkOp):
            own = [
                op for op in ops if isinstance(op, BlockOp) and op.chunk.owner is chunk
            ]
            ends = [op.offset.value.data + op.size.value.data for op in own]
            assert chunk.size.value.data == max(ends)


def test_programs_keep_the_places_of_what_they_are_made_from():
    module = compile_plan(random_job(2, 12))
    sources = [
        op for op in module.walk() if isinstance(op, PlanOp | TaskOp | RegisterOp)
    ]
    for line, op in enumerate(sources):
        op.location = FileLineColLoc(StringAttr("job"), IntAttr(line), IntAttr(1))
    steps = [op.op for op in sources if isinstance(op, TaskOp)]
    for line, op in enumerate(steps):
        op.location = FileLineColLoc(StringAttr("step"), IntAttr(line), IntAttr(1))
    wanted = {op.location for op in sources} | {op.location for op in steps}
    wanted -= {op.location for op in sources if is_variable(op)}
    wanted -= {op.location for op in steps if isinstance(op, VariableOp)}
    program = program_of(module)
    table = program.symbol_table().values()
    actors = [op for op in table if isinstance(op, launch.ActorOp)]
    inner = [step for actor in actors for step in actor.body.block.ops]
    made = [
        op for op in (program, *table, *inner) if not isinstance(op, launch.ChunkOp)
    ]
    assert {op.location for op in made} == wanted


def is_variable(op: Operation) -> bool:
    """Whether an op is the task of a variable."""
    return isinstance(op, TaskOp) and op.kind == "variable"


@irdl_op_definition
class PickyOp(TensorOp):
    """Has no kernel."""

    name = "picky.op"
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def infer_types(self) -> Sequence[TensorType]:
        return (tensor_type(self.operand),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return operands

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException("f32 is too wide")


def picky_task(name: str, source: SSAValue) -> TaskOp:
    """A task that works on what another one hands on."""
    block = Block(arg_types=[source.type])
    picky = PickyOp.inferred(block.args)
    block.add_ops([picky, YieldOp(picky.result)])
    return TaskOp(
        name, HOST, STREAM, Region(block), ins=[source], result_types=[source.type]
    )


def test_ops_that_refuse_a_kernel_are_listed():
    data = InputOp("x", TensorType(f32, [4]))
    body = Region(Block([data, YieldOp(data.result)]))
    first = TaskOp("x", HOST, STREAM, body, result_types=[data.result.type])
    second = picky_task("p", first.results_[0])
    third = picky_task("q", second.results_[0])
    plan = PlanOp("picky", Region(Block([first, second, third])))
    module = ModuleOp([plan])
    passes = PlanCreateRegistersPass(), RegstPlanMemoryPass()
    PassPipeline(passes).apply(Context(), module)
    # The kernel is the same for both, so that it is built and refused once.
    with pytest.raises(LocatedPassFailure) as failure:
        ConvertPlanToLaunchPass().apply(Context(), module)
    messages = [message for _, message in failure.value.findings]
    assert messages == ["picky.op has no kernel: f32 is too wide"]
    assert plan.parent is module.body.block
