"""
Aliases: random jobs with and without them against NumPy, and random plans against a
simulation that knows of each byte who wrote it. So with random hints, and with aliases
that are there before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from draws import draws
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.hints import isa

from penstock.dialects import launch
from penstock.dialects.job import InputOp
from penstock.dialects.op.in_place import HintAttr, hints_of
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import DataType, Place, RegisterOp, alias_place
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.aliases import (
    does_nothing,
    lies_as_paired,
    operand_register,
    pairs_of,
)
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.convert.plan_to_launch import ConvertPlanToLaunchPass
from penstock.lowering.plan.assign_streams import PlanAssignStreamsPass
from penstock.lowering.plan.create_registers import PlanCreateRegistersPass
from penstock.lowering.regst.alias_registers import RegstAliasRegistersPass
from penstock.lowering.regst.plan_memory import RegstPlanMemoryPass
from penstock.lowering.verify.plan import VerifyPlanPass
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

Tags: TypeAlias = NDArray[np.int64]

################################################################################
# Random jobs                                                                  #
################################################################################


class Jobs:
    """Writes a job of ops that can work in place or are views, and a few others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.unused: set[int] = set()

    def text(self, length: int) -> str:
        """The job; values that nothing else uses are outputs, and others at times."""
        for index, shape in enumerate([(4, 4), (2, 4), (1, 4)]):
            self.add(f'job.input "x{index}"', (), shape, is_op=False)
        self.add('job.variable "w" init <ones>', (), (2, 4), is_op=False)
        while len(self.shapes) < length:
            self.op()
        for index in range(len(self.shapes)):
            if index in self.unused or self.random.random() < 0.05:
                port = f'job.output "y{index}", %v{index}'
                self.lines.append(f"{port} : {type_of(self.shapes[index])}")
        body = "\n".join(self.lines)
        return f"job.job @random placement <cpu, [0:0]> {{\n{body}\n}}"

    def add(
        self,
        op: str,
        operands: Sequence[int],
        *results: tuple[int, ...],
        is_op: bool = True,
    ) -> None:
        """Add an op; `$` in its text stands for its operands."""
        first = len(self.shapes)
        names = ", ".join(f"%v{first + i}" for i in range(len(results)))
        values = ", ".join(f"%v{index}" for index in operands)
        types = ", ".join(type_of(self.shapes[index]) for index in operands)
        made = ", ".join(map(type_of, results))
        types = f"{types} -> {made}" if is_op else made
        self.lines.append(f"{names} = {op.replace('$', values)} : {types}")
        self.shapes += results
        self.unused -= set(operands)
        self.unused |= set(range(first, len(self.shapes)))

    def value(self) -> int:
        """A value, more likely a recent one."""
        age = min(int(self.random.expovariate(1 / 4)), len(self.shapes) - 1)
        return len(self.shapes) - 1 - age

    def op(self) -> None:
        """Add any op to one of the values that fits."""
        kinds = [self.unary, self.unary, self.binary, self.binary, self.reshape]
        kinds += [self.slice, self.split, self.concat, self.concat, self.softmax]
        self.random.choice([*kinds, self.matmul])(self.value())

    def unary(self, a: int) -> None:
        kind = self.random.choice(["relu", "neg", "tanh"])
        self.add(f"op.{kind} $", [a], self.shapes[a])

    def binary(self, a: int) -> None:
        fits = [i for i, s in enumerate(self.shapes) if s in (self.shapes[a], (1, 4))]
        fits = [i for i in fits if len(self.shapes[a]) == 2 or len(self.shapes[i]) == 1]
        operands = [a, self.random.choice(fits or [a])]
        self.random.shuffle(operands)
        self.add("op.add $", operands, self.shapes[a])

    def reshape(self, a: int) -> None:
        shape = self.shapes[a]
        count = int(np.prod(shape))
        new = (count,) if len(shape) == 2 else (count // 4, 4)
        self.add(f"op.reshape $ to {list(new)}", [a], new)

    def slice(self, a: int) -> None:
        rows, *rest = self.shapes[a]
        start = self.random.randrange(rows)
        end = self.random.randrange(start, rows) + 1
        if not rest:
            start, end = 4 * (start // 4), min(4 * (start // 4) + 4, rows)
        ends, zeros, ones = [end, *rest], [0] * len(rest), [1] * (1 + len(rest))
        text = f"op.slice $ from {[start, *zeros]} to {ends} by {ones}"
        self.add(text, [a], (end - start, *rest))

    def split(self, a: int) -> None:
        rows, *rest = self.shapes[a]
        unit = 1 if rest else 4
        if rows < 2 * unit:
            return self.unary(a)
        first = unit * self.random.randrange(1, rows // unit)
        sizes = [first, rows - first]
        text = f"op.split $ axis 0 sizes {sizes}"
        return self.add(text, [a], *((size, *rest) for size in sizes))

    def concat(self, a: int) -> None:
        rank = len(self.shapes[a])
        fits = [i for i, s in enumerate(self.shapes) if len(s) == rank][-6:]
        operands = [a, self.random.choice(fits)]
        self.random.shuffle(operands)
        rows = sum(self.shapes[i][0] for i in operands)
        if rows * 4 ** (rank - 1) > 64:
            return self.unary(a)
        shape = (rows, *self.shapes[a][1:])
        return self.add("op.concat $ axis 0", operands, shape)

    def softmax(self, a: int) -> None:
        self.add("op.softmax $", [a], self.shapes[a])

    def matmul(self, a: int) -> None:
        fits = [i for i, s in enumerate(self.shapes) if s == (4, 4)]
        if len(self.shapes[a]) == 1:
            return self.unary(a)
        b = self.random.choice(fits)
        return self.add("op.matmul $", [a, b], self.shapes[a])


def type_of(shape: Sequence[int]) -> str:
    """The text of the type of f32 tensors of a shape."""
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def parse(text: str) -> ModuleOp:
    compiler = installed_compiler()[0]
    module = compiler.parse(text.encode(), "job.mlir")
    compiler.verify(module)
    return module


def plan_of(module: ModuleOp) -> PlanOp:
    return next(op for op in module.walk() if isinstance(op, PlanOp))


def planned(seed: int, length: int, streams: int, *, alias: bool = True) -> ModuleOp:
    """A plan of a random job with places; some of its tasks have several slots."""
    return _planned(seed, length, streams, alias).clone()


@cache
def _planned(seed: int, length: int, streams: int, alias: bool) -> ModuleOp:
    module = parse(Jobs(seed).text(length))
    rng = random.Random(seed)
    run_pipeline(*installed_compiler(), module, "canonicalize")
    ConvertJobToPlanPass().apply(Context(), module)
    PlanAssignStreamsPass(streams).apply(Context(), module)
    for task in plan_of(module).tasks:
        hands_on = task.kind not in ("variable", "output")
        if hands_on and rng.random() < 0.2 and seed % 2:
            task.attributes["slots"] = IntegerAttr(rng.choice([2, 3]), i64)
    aliasing = (RegstAliasRegistersPass(),) if alias else ()
    passes = (PlanCreateRegistersPass(), *aliasing, RegstPlanMemoryPass())
    PassPipeline(passes).apply(Context(), module)
    installed_compiler()[0].verify(module)
    return module


def registered(seed: int, length: int, streams: int) -> ModuleOp:
    """A plan of a random job whose registers lie nowhere yet."""
    return _registered(seed, length, streams).clone()


@cache
def _registered(seed: int, length: int, streams: int) -> ModuleOp:
    module = parse(Jobs(seed).text(length))
    run_pipeline(*installed_compiler(), module, "canonicalize")
    ConvertJobToPlanPass().apply(Context(), module)
    PlanAssignStreamsPass(streams).apply(Context(), module)
    PlanCreateRegistersPass().apply(Context(), module)
    return module


def messages_about(module: ModuleOp, check: ModulePass | None = None) -> list[str]:
    """The messages of `verify-plan`, or of another pass."""
    try:
        (check or VerifyPlanPass()).apply(Context(), module)
    except LocatedPassFailure as failure:
        return [message for _, message in failure.findings]
    return []


################################################################################
# A simulation of bytes                                                        #
################################################################################


@dataclass
class Simulation:
    """
    Runs the tasks of a plan in a random order that the registers of its program allow.
    Each write of each task has a tag, which all bytes it writes then have. A task that
    writes nothing hands on the bytes that lie there. Raises `AssertionError` if bytes
    that a task reads are not those that its register had when it was written.
    """

    plan: PlanOp
    program: launch.ProgramOp
    acts: dict[str, int] = field(default_factory=dict[str, int])
    memory: dict[str, Tags] = field(default_factory=dict[str, Tags])
    written: dict[tuple[str, int], Tags] = field(
        default_factory=dict[tuple[str, int], Tags]
    )
    """The bytes of a register when they were written in some act."""

    def __post_init__(self) -> None:
        self.table = self.program.symbol_table()
        self.tasks = [task for task in self.plan.tasks if task.kind != "variable"]
        self.actors: dict[str, launch.ActorOp] = {}
        for name, op in self.table.items():
            if isinstance(op, launch.ChunkOp):
                self.memory[name] = np.full(op.size.value.data, -1)
            if isinstance(op, launch.ActorOp):
                self.actors[name] = op
                self.acts[name] = 0
        self.reads = {n: launch.names_of(a.reads) for n, a in self.actors.items()}
        self.writes = {n: launch.names_of(a.writes) for n, a in self.actors.items()}
        self.producer = {r: n for n, rs in self.writes.items() for r in rs}
        self.waits = {name: [*self._waits(name)] for name in self.actors}
        self.place = {name_of_task(task): i for i, task in enumerate(self.tasks)}
        self.variables = [
            op for op in self.table.values() if isinstance(op, launch.VariableOp)
        ]
        for op in self.variables:
            self._bytes(op, 0)[:] = -2

    def _waits(self, name: str) -> Iterator[tuple[str, int]]:
        """Whom an actor waits for, and how many acts it may be ahead of them."""
        for register in self.reads[name]:
            yield self.producer[register], self._slots(register)[1]
        for register in self.writes[name]:
            slots, initial = self._slots(register)
            for reader, registers in self.reads.items():
                if register in registers:
                    yield reader, slots - initial

    def run(self, acts: int, rng: random.Random) -> None:
        """Let every task act this often."""
        names = [*self.place]
        while waiting := [name for name in names if self.acts[name] < acts]:
            ready = [name for name in waiting if self._can_act(name)]
            assert ready, "a deadlock"
            self._act(self.tasks[self.place[rng.choice(ready)]])
        assert all((self._bytes(op, 0) == -2).all() for op in self.variables)

    def _can_act(self, name: str) -> bool:
        done = self.acts[name]
        return all(done < self.acts[other] + ahead for other, ahead in self.waits[name])

    def _slots(self, register: str) -> tuple[int, int]:
        op = self.table[register]
        assert isinstance(op, launch.RegisterOp | launch.ControlOp)
        initial = op.initial_slots if isinstance(op, launch.ControlOp) else 0
        return op.slots.value.data, initial

    def _act(self, task: TaskOp) -> None:
        name = name_of_task(task)
        act = self.acts[name]
        for register in task.ins:
            if (key := (name_of(register), act)) in self.written:
                found = self._bytes(self.table[key[0]], act)
                assert (found == self.written[key]).all(), "other bytes were read"
        works = bool(self.actors[name].body.block.ops)
        assert works != does_nothing(task)
        for index, register in enumerate(task.outs):
            there = self._bytes(self.table[name_of(register)], act)
            if works:
                there[:] = (act * len(self.tasks) + self.place[name]) * 8 + index
            self.written[name_of(register), act] = there.copy()
        if not works:
            self._check_views(task, act)
        self.acts[name] += 1

    def _check_views(self, task: TaskOp, act: int) -> None:
        for pair in pairs_of(task):
            source = name_of(operand_register(task, pair.operand))
            result = self.written[name_of(task.outs[pair.result]), act]
            start, begin = max(pair.offset, 0), max(-pair.offset, 0)
            origin = self.written.get((source, act))
            if origin is None:
                origin = np.full(start + len(result), -2)
            count = min(len(origin) - start, len(result) - begin)
            shown = result[begin : begin + count]
            assert (shown == origin[start : start + count]).all()

    def _bytes(self, op: object, act: int) -> Tags:
        assert isinstance(op, launch.RegisterOp | launch.VariableOp)
        chunk = op.chunk.root_reference.data
        start, size = op.offset.value.data, launch.memref_bytes(op.type)
        if isinstance(op, launch.RegisterOp):
            owner = self.table[chunk]
            assert isinstance(owner, launch.ChunkOp)
            stride = op.stride(owner.memory_case.alignment)
            start += act % op.slots.value.data * stride
        return self.memory[chunk][start : start + size]


def name_of_task(task: TaskOp) -> str:
    return task.task_name.data


def simulate(module: ModuleOp, orders: int) -> None:
    """Run a plan several times, in random orders."""
    lowered = module.clone()
    ConvertPlanToLaunchPass().apply(Context(), lowered)
    installed_compiler()[0].verify(lowered)
    program = next(op for op in lowered.walk() if isinstance(op, launch.ProgramOp))
    for order in range(orders):
        Simulation(plan_of(module), program).run(4, random.Random(order))


@pytest.mark.parametrize("streams", [1, 2, 3])
@pytest.mark.parametrize("seed", range(draws(2)))
def test_bytes_are_those_that_were_written_for_their_readers(seed: int, streams: int):
    module = planned(seed, 40, streams)
    assert messages_about(module) == []
    simulate(module, 4)


def test_random_plans_have_aliases_of_each_kind():
    """The tests here see parts at an offset, views, and kernels that work in place."""
    kinds = {"part": 0, "view": 0, "in place": 0, "wide": 0}
    for seed in range(6):
        plan = plan_of(planned(seed, 40, 2))
        for task in plan.tasks:
            for register in task.outs:
                root, offset = alias_place(register)
                owner = register.owner
                assert isinstance(owner, RegisterOp)
                is_alias = root is not register
                kinds["part"] += is_alias and offset > 0
                kinds["view"] += does_nothing(task)
                kinds["in place"] += is_alias and not does_nothing(task)
                kinds["wide"] += is_alias and owner.slots.value.data > 1
    assert min(kinds.values()) >= 3


@pytest.mark.parametrize("seed", range(draws(4)))
def test_aliases_take_no_more_memory(seed: int):
    module, plain = planned(2 * seed, 40, 1), planned(2 * seed, 40, 1, alias=False)
    assert live_bytes(plan_of(module)) <= live_bytes(plan_of(plain))


def live_bytes(plan: PlanOp) -> int:
    """The bytes in use at the fullest moment, if tasks act as they are listed."""
    tasks = [task for task in plan.tasks if task.kind != "variable"]
    users: dict[SSAValue, list[int]] = {}
    for index, task in enumerate(tasks):
        for register in (*task.ins, *task.outs):
            users.setdefault(alias_place(register).root, []).append(index)
    live = [0] * len(tasks)
    for task in plan.tasks:
        if task.kind == "variable":
            users = {r: steps for r, steps in users.items() if r not in task.outs}
    for register, steps in users.items():
        for step in range(min(steps), max(steps) + 1):
            live[step] += -(-register_type(register).size // 64) * 64
    return max(live)


################################################################################
# Planted errors                                                               #
################################################################################


def plant(plan: PlanOp, rng: random.Random) -> None:
    """Make a register an alias of another one, or move an alias."""
    registers = [
        r
        for r in plan.registers
        if isinstance(r.register.type, DataType) and list(r.register.uses)
    ]
    for _ in range(100):
        alias, target = rng.sample(registers, 2)
        room = target.size - alias.size
        free = all(
            not isinstance(use.operation, RegisterOp) for use in alias.register.uses
        )
        same = alias.slots == target.slots and alias.slots.value.data == 1
        is_earlier = registers.index(target) < registers.index(alias)
        if room >= 0 and free and same and is_earlier:
            replant(alias, target, 4 * rng.randrange(room // 4 + 1))
            return


def replant(alias: RegisterOp, target: RegisterOp, offset: int) -> None:
    """Replace a register by an alias."""
    made = RegisterOp(
        alias.register_name.data,
        alias.memory_case,
        register_type(alias.register),
        target=target.register,
        offset=offset or None,
    )
    block = alias.parent_block()
    assert block is not None
    block.insert_op_before(made, alias)
    alias.register.replace_all_uses_with(made.register)
    alias.detach()
    alias.erase()


def register_type(register: SSAValue) -> DataType:
    assert isinstance(register.type, DataType)
    return register.type


@pytest.mark.slow
def test_what_the_check_passes_goes_well_and_most_that_is_planted_does_not():
    found = failed = 0
    for seed in range(24):
        module = planned(2 * seed, 24, 1 + seed % 3)
        plant(plan_of(module), random.Random(seed))
        if messages_about(module):
            found += 1
            continue
        simulate(module, 3)
        failed += 1
    assert found > 10
    assert failed > 0


@pytest.mark.slow
def test_what_goes_wrong_is_found():
    """The other way round: where the simulation fails, there is a message."""
    wrong = 0
    for seed in range(10):
        module = planned(2 * seed, 24, 1 + seed % 3)
        plant(plan_of(module), random.Random(seed))
        messages = messages_about(module)
        if any("cycle" in message for message in messages):
            continue
        try:
            simulate(module, 2)
        except AssertionError:
            assert messages
            wrong += 1
    assert wrong > 2


################################################################################
# Hints                                                                        #
################################################################################


def shares(a: SSAValue, b: SSAValue) -> bool:
    """Whether two registers have bytes in common because of aliases."""
    (root, start), (other, begin) = alias_place(a), alias_place(b)
    ends = start + register_type(a).size, begin + register_type(b).size
    return root is other and start < ends[1] and begin < ends[0]


def hint(plan: PlanOp, rng: random.Random, musts: set[tuple[str, int, int]]) -> None:
    """
    Write hints on the ops of a plan: that results must lie over operands as they are
    known to be able to, and that others may lie over some operands, or never.
    """
    for task in plan.tasks:
        operands, hints = range(len(task.op.operands)), list[HintAttr]()
        # The results of an op may be views all or none.
        word = rng.choice(["may", "never", "must", "none"])
        for result in range(len(task.op.results) if operands else 0):
            known = [o for t, o, r in musts if (t, r) == (name_of_task(task), result)]
            if word == "must" and known:
                hints.append(HintAttr("must", rng.choice(sorted(known)), result))
            if word in ("may", "never"):
                named = rng.sample(operands, rng.randint(1, len(operands)))
                hints += [HintAttr(word, operand, result) for operand in named]
        if hints and task.kind == "compute":
            task.op.attributes["in_place"] = ArrayAttr(hints)


def pairs_used(plan: PlanOp) -> set[tuple[str, int, int]]:
    """The pairs of operand and result of tasks that lie as they may."""
    return {
        (name_of_task(task), pair.operand, pair.result)
        for task in plan.tasks
        for pair in pairs_of(task)
        if lies_as_paired(task, pair)
    }


def broken_hints(plan: PlanOp) -> list[str]:
    """The hints that a plan does not keep."""
    used, broken = pairs_used(plan), list[str]()
    for task in plan.tasks:
        hints = task.op.attributes.get("in_place", ArrayAttr([]))
        assert isa(hints, ArrayAttr[HintAttr])
        named = {
            (operand_register(task, h.over or 0), h.result.data)
            for h in hints
            if h.word.data == "may"
        }
        may = {result for _, result in named}
        for operand in range(len(task.op.operands)):
            for result, register in enumerate(task.outs):
                words = {
                    h.word.data
                    for h in hints
                    if (h.over, h.result.data) == (operand, result)
                }
                is_used = (name_of_task(task), operand, result) in used
                over = shares(operand_register(task, operand), register)
                wrong = ("must" in words and not is_used) or ("never" in words and over)
                source = operand_register(task, operand)
                # All operands of a concatenation lie in it, or none.
                is_stray = is_used and (source, result) not in named
                is_stray &= result in may and task.op.name != "op.concat"
                if wrong or is_stray:
                    broken.append(f"{task.op.name}: {words} {operand} {result}")
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize("seed", range(draws(2)))
def test_hints_are_kept_and_plans_with_them_are_sound(seed: int, streams: int):
    plain = registered(seed, 40, streams)
    RegstAliasRegistersPass().apply(Context(), plain)
    module, rng = registered(seed, 40, streams), random.Random(seed)
    hint(plan_of(module), rng, pairs_used(plan_of(plain)))
    installed_compiler()[0].verify(module)
    assert messages_about(module, RegstAliasRegistersPass()) == []
    assert broken_hints(plan_of(module)) == []
    RegstPlanMemoryPass().apply(Context(), module)
    assert messages_about(module) == []
    simulate(module, 3)


def test_random_hints_have_each_word_and_change_plans():
    words, changed = dict.fromkeys(["may", "must", "never"], 0), 0
    for seed in range(6):
        plain, module = registered(seed, 40, 1), registered(seed, 40, 1)
        RegstAliasRegistersPass().apply(Context(), plain)
        used = pairs_used(plan_of(plain))
        hint(plan_of(module), random.Random(seed), used)
        for task in plan_of(module).tasks:
            for each in hints_of(task.op):
                words[each.word.data] += 1
        RegstAliasRegistersPass().apply(Context(), module)
        changed += pairs_used(plan_of(module)) != used
    assert min(words.values()) > 5
    assert changed > 3


@pytest.mark.parametrize("seed", range(5))
def test_broken_hints_are_found(seed: int):
    """Hints that come once all has its place are kept or not: the check knows."""
    module, rng = planned(2 * seed, 40, 1), random.Random(seed)
    plan = plan_of(module)
    for task in plan.tasks:
        if operands := range(len(task.op.operands)):
            word, operand = rng.choice(["must", "never"]), rng.choice(operands)
            if task.kind == "compute":
                task.op.attributes["in_place"] = ArrayAttr([HintAttr(word, operand)])
    broken = broken_hints(plan)
    assert broken
    assert len(messages_about(module)) == len(broken)


def run_with_hints(module: ModuleOp, seed: int) -> None:
    """The whole pipeline, with `verify-plan`; the numbers are those of NumPy."""
    piece = inputs_of(module, seed)
    wanted = evaluate_model(Model(module.clone(), {}, Path()), piece)
    with Session(Model(module, {}, Path()), threads=1) as session:
        given = session.run_many([piece])[0]
    for name, array in wanted.items():
        values = given[name].astype(np.float32), array.astype(np.float32)
        np.testing.assert_allclose(*values, 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(1)))
def test_jobs_with_hints_give_what_numpy_gives(seed: int):
    module, rng = parse(Jobs(seed).text(30)), random.Random(seed)
    for op in module.walk():
        if isinstance(op, TensorOp) and rng.random() < 0.5:
            word = rng.choice(["may", "never"])
            operand = rng.randrange(len(op.operands))
            op.attributes["in_place"] = ArrayAttr([HintAttr(word, operand)])
    run_with_hints(module, seed)


def overwritable(module: ModuleOp) -> Iterator[tuple[TensorOp, int]]:
    """
    The operands of elementwise ops that nothing reads later, in the order of the job,
    and that are neither variables nor near anything that moves bytes.
    """
    ops = [op for op in module.walk() if op.operands or op.results]
    place = {op: index for index, op in enumerate(ops)}
    movers = ("op.reshape", "op.slice", "op.split", "op.concat", "job.variable")
    for op in ops:
        if not isinstance(op, ElementwiseOp):
            continue
        for number, value in enumerate(op.operands):
            users = [use.operation for use in value.uses]
            near = (value.owner, *users)
            is_last = all(place[user] <= place[op] for user in users)
            moved = any(isinstance(x, Operation) and x.name in movers for x in near)
            if is_last and not moved and value.type == op.results[0].type:
                yield op, number


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(1)))
def test_what_can_write_over_an_operand_does_through_all_passes(seed: int):
    """However passes fuse and order ops."""
    module, rng = parse(Jobs(seed).text(60)), random.Random(seed)
    run_pipeline(*installed_compiler(), module, "job-clean")
    free = dict(overwritable(module))
    assert len(free) > 1
    for op in rng.sample(list(free), -(-len(free) * 2 // 3)):
        op.attributes["in_place"] = ArrayAttr([HintAttr("must", free[op])])
    run_with_hints(module, seed)


################################################################################
# Aliases that are there before                                                #
################################################################################


def forget(plan: PlanOp, rng: random.Random, share: float) -> dict[str, Place]:
    """
    Make some aliases of a plan registers of their own, all of what lies over them or
    shows them being kept, and drop all reasons; return where the others lie.
    """
    for register in plan.registers:
        register.attributes.pop("no_alias", None)
        if register.target is None or rng.random() >= share:
            continue
        made = RegisterOp(
            register.register_name.data,
            register.memory_case,
            register_type(register.register),
        )
        block = register.parent_block()
        assert block is not None
        block.insert_op_before(made, register)
        register.register.replace_all_uses_with(made.register)
        register.detach()
        register.erase()
    return {
        register.register_name.data: alias_place(register.register)
        for register in plan.registers
        if register.target is not None
    }


def stays(plan: PlanOp, name: str, root: str, offset: int) -> bool:
    """Whether one register lies so many bytes after another one."""
    places = {name_of(r.register): alias_place(r.register) for r in plan.registers}
    a, b = places[name], places[root]
    return a.root is b.root and a.offset == b.offset + offset


@pytest.mark.slow
def test_some_aliases_by_hand_stay_and_the_rest_is_found():
    sound = found = 0
    for seed in range(20, 34):
        module, rng = registered(seed, 30, 1 + seed % 3), random.Random(seed)
        RegstAliasRegistersPass().apply(Context(), module)
        plan = plan_of(module)
        given = {
            name: (name_of(place.root), place.offset)
            for name, place in forget(plan, rng, rng.choice([0, 0.1, 0.3])).items()
        }
        installed_compiler()[0].verify(module)
        if messages_about(module, RegstAliasRegistersPass()):
            found += 1
            continue
        sound += 1
        assert all(stays(plan, name, *place) for name, place in given.items())
        RegstPlanMemoryPass().apply(Context(), module)
        assert messages_about(module) == []
        simulate(module, 2)
    assert sound > 5
    assert found > 0


@pytest.mark.parametrize("seed", range(draws(6)))
def test_what_is_planted_before_is_refused_or_sound(seed: int):
    module = registered(2 * seed, 24, 1 + seed % 3)
    plant(plan_of(module), random.Random(seed))
    installed_compiler()[0].verify(module)
    if not messages_about(module, RegstAliasRegistersPass()):
        RegstPlanMemoryPass().apply(Context(), module)
        assert messages_about(module) == []
        simulate(module, 3)


@pytest.mark.parametrize("seed", range(draws(6)))
def test_aliasing_again_changes_nothing(seed: int):
    module = registered(seed, 40, 1 + seed % 3)
    if seed % 2:
        hint(plan_of(module), random.Random(seed), set())
    RegstAliasRegistersPass().apply(Context(), module)
    before = str(module)
    RegstAliasRegistersPass().apply(Context(), module)
    assert str(module) == before


################################################################################
# Numbers                                                                      #
################################################################################


def inputs_of(module: ModuleOp, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    ops = [op for op in module.walk() if isinstance(op, InputOp)]
    shapes = {op.port.data: tensor_type(op.result).get_shape() for op in ops}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(draws(1)))
def test_numbers_are_those_of_numpy_and_of_plans_without_aliases(
    seed: int, threads: int
):
    module = planned(seed, 30, threads)
    plain = planned(seed, 30, threads, alias=False)
    model = Model(module, {}, Path())
    pieces = [inputs_of(module, seed + i) for i in range(5)]
    expected = [evaluate_model(model, piece) for piece in pieces]
    results: list[Sequence[dict[str, Array]]] = []
    for plan in (module, plain):
        with Session(Model(plan, {}, Path()), threads=threads) as session:
            results.append(session.run_many(pieces))
    for given, bare, wanted in zip(*results, expected, strict=True):
        assert set(given) == set(wanted)
        for name, array in given.items():
            np.testing.assert_array_equal(array, bare[name])
            np.testing.assert_allclose(array, wanted[name], 1e-4, 1e-5)
