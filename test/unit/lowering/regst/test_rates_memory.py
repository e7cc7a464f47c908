"""
Plans with rates: registers share bytes where the acts of a launch prove it.

Passes and verifiers are compared with acts that are unrolled one by one, over three
launches, from the text of the plan alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import gcd, lcm
from pathlib import Path

import numpy as np
import pytest
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

from penstock.dialects import get_all_dialects
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import BlockOp, ChunkOp, DataType, RegisterOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering import get_all_passes
from penstock.lowering.verify.plan import findings_in
from penstock.tools.driver.pass_pipeline import parse_passes
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

LAUNCHES = 3
"""Acts of one launch and the next meet in all ways within these."""

TO_REGISTERS = (
    "convert-job-to-plan,plan-order-tasks{in-place=true},"
    "plan-assign-streams{streams=%d},plan-create-registers"
)


@cache
def context() -> Context:
    found = Context()
    found.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        found.register_dialect(name, factory)
    return found


def run(module: ModuleOp, passes: str) -> PlanOp:
    PassPipeline(parse_passes(get_all_passes(), passes)).apply(context(), module)
    return next(op for op in module.walk() if isinstance(op, PlanOp))


def random_job(seed: int, length: int) -> str:
    """A job of loops: ops on values of so many rows that come so often in a launch."""
    draw = random.Random(seed)
    kind = "tensor<4x4xf32>"
    lines = [
        f'%v0 = job.input "x" : {kind}',
        f"%v1 = op.acc %v0 every 2 : {kind} -> {kind}",
    ]
    known = [("%v0", 4, 4), ("%v1", 4, 2)]
    used = {"%v0"}
    for index in range(2, length):
        source, rows, pieces = draw.choice(known[-4:])
        name, n = f"%v{index}", draw.choice((2, 4))
        others = [x for x, r, p in known[-6:] if (r, p) == (rows, pieces)]
        kind = f"tensor<{rows}x4xf32>"
        other = draw.choice(others)
        op, made = f"op.add {source}, {other} : {kind}, {kind} ->", (rows, pieces)
        match draw.randrange(9):
            case 0 if pieces % n == 0:
                op, made = f"op.acc {source} every {n} : {kind} ->", (rows, pieces // n)
            case 1 if pieces * n <= 8:
                op, made = (
                    f"op.repeat {source} times {n} : {kind} ->",
                    (rows, pieces * n),
                )
            case 2 if pieces % n == 0 and rows * n <= 16:
                op, made = (
                    f"op.pack {source} by {n} : {kind} ->",
                    (rows * n, pieces // n),
                )
            case 3 if rows % n == 0 and pieces * n <= 8:
                op, made = (
                    f"op.unpack {source} by {n} : {kind} ->",
                    (rows // n, pieces * n),
                )
            case _:
                used.add(other)
        used.add(source)
        lines.append(f"{name} = {op} tensor<{made[0]}x4xf32>")
        known.append((name, *made))
    lines += [
        f'job.output "y{name[2:]}", {name} : tensor<{rows}x4xf32>'
        for name, rows, _ in known
        if name not in used
    ]
    body = "\n".join(lines)
    return f"job.job @j placement <cpu, [0:0]> {{\n{body}\n}}"


def parsed(text: str) -> ModuleOp:
    return Parser(context(), text).parse_module()


################################################################################
# Acts, one by one                                                             #
################################################################################


class Unrolled:
    """All acts of some launches, and which of them are over before others begin."""

    def __init__(self, plan: PlanOp) -> None:
        self.tasks = [task for task in plan.tasks if task.kind != "variable"]
        self.writer = {v: t for t in self.tasks for v in (*t.outs, *t.signals)}
        self.turns = self._balance()
        self._first: dict[TaskOp, int] = {}
        count = 0
        for task in self.tasks:
            self._first[task] = count
            count += LAUNCHES * self.turns[task]
        waits: list[set[int]] = [set() for _ in range(count)]
        for before, after in self._orders():
            waits[after].add(before)
        self.before = closed(waits)

    def _balance(self) -> dict[TaskOp, int]:
        """The number of acts of each task in a launch, from data alone."""
        near: dict[TaskOp, list[tuple[TaskOp, Fraction]]] = {t: [] for t in self.tasks}
        for task in self.tasks:
            for value in task.ins:
                if (writer := self.writer.get(value)) is not None:
                    ratio = Fraction(taken(task), made(writer))
                    near[writer].append((task, ratio))
                    near[task].append((writer, 1 / ratio))
        found: dict[TaskOp, Fraction] = {}
        for root in self.tasks:
            if root in found:
                continue
            found[root], group = Fraction(1), [root]
            for task in group:
                for other, ratio in near[task]:
                    if other not in found:
                        found[other] = found[task] * ratio
                        group.append(other)
            rounds = {t: found[t] / (made(t) * taken(t)) for t in group}
            scale = Fraction(
                lcm(*(x.denominator for x in rounds.values())),
                gcd(*(x.numerator for x in rounds.values())),
            )
            found.update({t: found[t] * scale for t in group})
        return {task: int(count) for task, count in found.items()}

    def pieces(self, value: SSAValue) -> dict[TaskOp, int]:
        """The acts of each task that uses a register for one piece of it."""
        writer, register = self.writer[value], value.owner
        assert isinstance(register, RegisterOp)
        readers = [t for t in self.tasks if value in t.ins or value in t.waits]
        count = self.turns[writer] // made(writer)
        if not isinstance(value.type, DataType):
            count = gcd(*(self.turns[t] for t in (writer, *readers)))
        if isinstance(said := register.attributes.get("pieces"), IntegerAttr):
            count = said.value.data
        # Who reads what lies on it holds it, too.
        views = [use.operation for use in value.uses]
        names = [x.register for x in views if isinstance(x, RegisterOp)]
        readers += [t for t in self.tasks if any(name in t.ins for name in names)]
        return {t: self.turns[t] // count for t in (writer, *readers)}

    def _orders(self) -> Iterator[tuple[int, int]]:
        for task in self.tasks:
            acts = LAUNCHES * self.turns[task]
            yield from (
                (self.act(task, i), self.act(task, i + 1)) for i in range(acts - 1)
            )
        for value, writer in self.writer.items():
            register = value.owner
            assert isinstance(register, RegisterOp)
            full = 0 if register.initial is None else register.initial.value.data
            free = register.slots.value.data - full
            acts = self.pieces(value)
            for reader in acts:
                if reader is not writer:
                    yield from self._waits(writer, reader, acts, full)
                    yield from self._waits(reader, writer, acts, free)

    def _waits(
        self, one: TaskOp, other: TaskOp, acts: dict[TaskOp, int], spare: int
    ) -> Iterator[tuple[int, int]]:
        for act in range(LAUNCHES * self.turns[other]):
            last = (act // acts[other] + 1 - spare) * acts[one] - 1
            if last >= 0:
                yield self.act(one, last), self.act(other, act)

    def act(self, task: TaskOp, number: int) -> int:
        assert number < LAUNCHES * self.turns[task]
        return self._first[task] + number

    def meet(self, a: RegisterOp, b: RegisterOp) -> bool:
        """Whether any pieces of two registers may be there at the same time."""
        return any(
            not self._is_over(p, q) and not self._is_over(q, p)
            for p in self._uses(a)
            for q in self._uses(b)
        )

    def _uses(self, register: RegisterOp) -> Iterator[tuple[int, list[int]]]:
        """The act that begins to write each piece, and all that use it."""
        acts = self.pieces(register.register)
        writer = self.writer[register.register]
        for piece in range(LAUNCHES * self.turns[writer] // acts[writer]):
            yield (
                self.act(writer, piece * acts[writer]),
                [
                    self.act(task, piece * n + i)
                    for task, n in acts.items()
                    for i in range(n)
                ],
            )

    def _is_over(
        self, one: tuple[int, list[int]], other: tuple[int, list[int]]
    ) -> bool:
        return all(self.before[other[0]] >> act & 1 for act in one[1])


def made(task: TaskOp) -> int:
    return task.op.made if isinstance(task.op, RateOp) else 1


def taken(task: TaskOp) -> int:
    return task.op.taken if isinstance(task.op, RateOp) else 1


def closed(waits: list[set[int]]) -> list[int]:
    """For each act the set of all that come before it, as bits."""
    missing = [len(found) for found in waits]
    after: list[list[int]] = [[] for _ in waits]
    for act, found in enumerate(waits):
        for other in found:
            after[other].append(act)
    before = [0] * len(waits)
    ready = [act for act, count in enumerate(missing) if not count]
    for act in ready:
        for other in after[act]:
            before[other] |= before[act] | 1 << act
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    assert len(ready) == len(waits), "acts wait for each other"
    return before


################################################################################
# Plans                                                                        #
################################################################################


def places(plan: PlanOp) -> dict[RegisterOp, range]:
    """The bytes of each register in the one chunk."""
    found: dict[RegisterOp, range] = {}
    for register in plan.registers:
        if register.block is not None and register.offset is not None:
            block = register.block.owner
            assert isinstance(block, BlockOp)
            start = block.offset.value.data + register.offset.value.data
            found[register] = range(start, start + register.size)
    return found


def overlaps(plan: PlanOp) -> Iterator[tuple[RegisterOp, RegisterOp]]:
    spots = list(places(plan).items())
    for i, (b, there) in enumerate(spots):
        for a, here in spots[:i]:
            if here.start < there.stop and there.start < here.stop:
                yield a, b


def share_text(a: RegisterOp, b: RegisterOp) -> str:
    return f"'{a.register_name.data}' and '{b.register_name.data}' share"


def size_of(plan: PlanOp) -> int:
    return sum(
        op.size.value.data for op in plan.body.block.ops if isinstance(op, ChunkOp)
    )


@pytest.mark.parametrize("seed", range(draws(9)))
def test_verify_plan_says_what_unrolled_acts_say(seed: int) -> None:
    draw = random.Random(seed)
    module = parsed(random_job(seed, 6 + seed % 9))
    guard = draw.choice(("stream", "stream", "all", "none"))
    passes = TO_REGISTERS % draw.choice((1, 2))
    passes += ",regst-alias-registers" * draw.randrange(2)
    plan = run(module, f"{passes},regst-plan-memory{{guard={guard}}}")
    acts = Unrolled(plan)
    assert not [pair for pair in overlaps(plan) if acts.meet(*pair)]
    assert not list(findings_in(plan))
    movable = [r for r, spot in places(plan).items() if spot]
    home = {register: register.offset for register in movable}
    blocks = [op for op in plan.body.block.ops if isinstance(op, BlockOp)]
    largest = max(blocks, key=lambda block: block.size.value.data)
    for _ in range(20):
        register = draw.choice(movable)
        room = largest.size.value.data - register.size
        if room < 0:
            continue
        kept = register.block
        register.operands[0] = largest.block
        register.offset = IntegerAttr(draw.randrange(room // 64 + 1) * 64, i64)
        expected = {share_text(*pair) for pair in overlaps(plan) if acts.meet(*pair)}
        found = {text.partition(" ")[2] for _, text in findings_in(plan)}
        assert {text[: text.index(" share") + 6] for text in found} == expected
        assert kept is not None
        register.operands[0], register.offset = kept, home[register]


def side_by_side(plan: PlanOp) -> None:
    """Give each register bytes of its own."""
    (chunk,) = (op for op in plan.body.block.ops if isinstance(op, ChunkOp))
    blocks = [op for op in plan.body.block.ops if isinstance(op, BlockOp)]
    end = 0
    for register in places(plan):
        register.operands[0] = blocks[0].block
        register.offset = IntegerAttr(end, i64)
        end += -(-register.size // 64) * 64
    for op in (chunk, *blocks):
        op.size = IntegerAttr(end, i64)
    for block in blocks:
        block.offset = IntegerAttr(0, i64)


def results_of(module: ModuleOp, x: np.ndarray, threads: int) -> dict[str, np.ndarray]:
    with Session(Model(module, {}, Path()), threads=threads) as session:
        session.run({"x": x})
        found = session.run({"x": x})
    return {name: np.asarray(value, np.float64) for name, value in found.items()}


def test_random_plans_share_bytes() -> None:
    shared = apart = 0
    for seed in range(6):
        passes = f"{TO_REGISTERS % (1 + seed % 2)},regst-plan-memory"
        plan = run(parsed(random_job(200 + seed, 20)), passes)
        shared += size_of(plan)
        side_by_side(plan)
        apart += size_of(plan)
    assert shared < 0.75 * apart


def test_sharing_bytes_changes_no_results() -> None:
    for seed in range(3):
        text, threads = random_job(100 + seed, 12), 1 + seed % 2
        passes = f"{TO_REGISTERS % threads},regst-alias-registers,regst-plan-memory"
        one, other = parsed(text), parsed(text)
        run(one, passes)
        plan = run(other, passes)
        side_by_side(plan)
        acts = Unrolled(plan)
        (count,) = (n for t, n in acts.turns.items() if t.kind == "input")
        rng = np.random.default_rng(seed)
        x = rng.random((count, 4, 4)[count == 1 :], dtype=np.float32)
        expected = evaluate_model(Model(parsed(text), {}, Path()), {"x": x})
        alone = results_of(other, x, threads)
        for name, value in results_of(one, x, threads).items():
            np.testing.assert_array_equal(value, alone[name])
            numpy = np.asarray(expected[name], np.float64)
            np.testing.assert_allclose(value, numpy, rtol=1e-5)


GRADIENTS = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x16xf32>
  %a = op.relu %x : tensor<16x16xf32> -> tensor<16x16xf32>
  %b = op.matmul %a, %a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %c = op.matmul %b, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %s = op.acc %c every 4 : tensor<16x16xf32> -> tensor<16x16xf32>
  %d = op.matmul %c, %c : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %e = op.matmul %d, %d : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %t = op.acc %e every 4 : tensor<16x16xf32> -> tensor<16x16xf32>
  %u = op.add %s, %t : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  job.output "u", %u : tensor<16x16xf32>
}
"""


def test_the_values_of_a_loop_lie_on_each_other() -> None:
    plan = run(parsed(GRADIENTS), f"{TO_REGISTERS % 1},regst-plan-memory")
    # Two sums, and two values of 1 KiB at any time in the loop.
    assert size_of(plan) == 4 * 1024


def test_a_planted_overlap_is_an_error() -> None:
    module = parsed(GRADIENTS)
    plan = run(module, f"{TO_REGISTERS % 1},regst-plan-memory")
    named = {r.register_name.data: r for r in plan.registers}
    named["t/out"].offset = named["s/out"].offset
    named["t/out"].operands[0] = named["s/out"].operands[0]
    with pytest.raises(
        LocatedPassFailure, match="'s/out' and 't/out' share 1024 bytes"
    ):
        run(module, "verify-plan")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("merge", ["", ",plan-merge-jobs"])
def test_no_memory_is_below_its_bound(seed: int, merge: str):
    text = random_job(seed, 8)
    if merge:
        other = random_job(seed + 100, 6).replace("@j", "@k")
        text += other.replace('"x"', '"x2"').replace('"y', '"z')
    module = Parser(context(), text).parse_module()
    passes = f"{TO_REGISTERS % 1},regst-alias-registers,regst-plan-memory{merge}"
    plan = run(module, passes)
    said = [op for op in plan.body.block.ops if isinstance(op, BlockOp) and op.bound]
    assert said
    for block in said:
        assert block.bound is not None
        assert 0 < block.bound.value.data <= block.size.value.data
