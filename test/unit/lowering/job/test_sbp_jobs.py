"""Random jobs on several devices give what they give on one, whatever they ask for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from counted_work import LINEAR, steps_of
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from penstock.dialects import get_all_dialects
from penstock.dialects import op as ops
from penstock.dialects.job import (
    BoxingOp,
    Entry,
    InitAttr,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    VariableOp,
    misfit,
)
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.launch import ChunkOp
from penstock.dialects.op.sbp import BROADCAST, sbp_of, split
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.sbp_candidates import candidates_for
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.job.infer_sbp import JobInferSbpPass
from penstock.lowering.job.insert_boxing import JobInsertBoxingPass
from penstock.lowering.job.place import JobPlacePass
from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass
from penstock.runtime.transport.sockets import SocketTransport
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.model import programs_of
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Model, Session, lower

Array: TypeAlias = NDArray[np.generic]

TOLERANCE = 1e-9
"""Relative and absolute, of f64: sums are only made in another order."""

PLACEMENTS = {
    "2": PlacementAttr("cpu", [(0, i) for i in range(2)]),
    "3": PlacementAttr("cpu", [(0, i) for i in range(3)]),
    "4": PlacementAttr("cpu", [(0, i) for i in range(4)]),
    "2x2": PlacementAttr("cpu", [(0, i) for i in range(4)], [2, 2]),
}

OTHERS = [
    PlacementAttr("cpu", [(0, 1)]),
    PlacementAttr("cpu", [(0, 1), (0, 2), (0, 3)]),
    PlacementAttr("cuda", [(0, 0), (0, 1)]),
    PlacementAttr("cuda", [(0, 2)]),
    PlacementAttr("cuda", [(1, 0), (0, 0)]),
]
"""Where some ops run instead, in jobs that are not compiled to their end."""


def ints(*numbers: int) -> DenseArrayBase:
    """A list of integers as a property."""
    return DenseArrayBase.from_list(i64, numbers)


class RandomJob:
    """A job of random ops, which ask at random for SBPs that they can have."""

    def __init__(
        self,
        seed: int,
        length: int,
        placement: PlacementAttr,
        others: Sequence[PlacementAttr] = (),
    ):
        self.rng = np.random.default_rng(seed)
        self.placement = placement
        self.others = others
        self.ops: list[Operation] = []
        self.matrices: list[SSAValue] = []
        """Tensors with two axes, of small extents."""
        self.matrices.append(self.add(InputOp("x", TensorType(f64, [6, 8]))))
        for _ in range(length):
            self.matrices.append(self.step())
        for index, value in enumerate(self.matrices[-3:]):
            self.ops.append(OutputOp(f"y{index}", value))

    def module(self) -> ModuleOp:
        """The job in a module of its own."""
        return ModuleOp([JobOp("random", self.placement, Region(Block(self.ops)))])

    def add(self, op: Operation) -> SSAValue:
        """The result of an op at the end of the job."""
        self.ops.append(op)
        if self.others and self.rng.random() < 0.2:
            other = self.others[int(self.rng.integers(len(self.others)))]
            op.attributes["placement"] = other
        if self.rng.random() < 0.5 and (sbp := self.hint(op)) is not None:
            op.attributes["sbp"] = sbp
        return op.results[0]

    def hint(self, op: Operation) -> Attribute | None:
        """The SBP of the results of an op, chosen among its signatures."""
        placement = op.attributes.get("placement", self.placement)
        assert isinstance(placement, PlacementAttr)
        values = (*op.operands, *op.results)
        if isinstance(op, ops.ConstantOp):
            return None
        entries: list[tuple[Entry, ...]] = [() for _ in values]
        for _ in placement.shape:
            candidates = candidates_for(op, len(placement.pairs))
            for index in self.rng.permutation(len(candidates)):
                chosen = candidates[int(index)]
                longer: list[tuple[Entry, ...]] = [
                    (*known, entry)
                    for known, entry in zip(
                        entries, (*chosen.operands, *chosen.results), strict=True
                    )
                ]
                if all(
                    misfit(tensor_type(value), found, placement.shape) is None
                    for value, found in zip(values, longer, strict=True)
                ):
                    entries = longer
                    break
        return sbp_of(*entries[len(op.operands)])

    def variable(self, *shape: int) -> SSAValue:
        """A variable of random values."""
        name, seed = f"w{len(self.ops)}", len(self.ops)
        init = InitAttr("uniform", {"seed": seed, "low": -0.5, "high": 0.5})
        return self.add(VariableOp(name, init, TensorType(f64, shape)))

    def step(self) -> SSAValue:
        """A tensor with two axes that random ops make of others."""
        recent = self.matrices[-3:]
        x = recent[self.rng.integers(len(recent))]
        steps: list[Callable[[SSAValue], SSAValue]] = [
            self.unary,
            self.binary,
            self.bias,
            self.scaled,
            self.product,
            self.reduced,
            self.softmax,
            self.normalized,
            self.transposed,
            self.reshaped,
            self.joined,
            self.cut,
            self.gathered,
            self.convolved,
        ]
        return steps[self.rng.integers(len(steps))](x)

    def shape(self, x: SSAValue) -> tuple[int, int]:
        """The extents of a tensor with two axes."""
        rows, columns = tensor_type(x).get_shape()
        return rows, columns

    def unary(self, x: SSAValue) -> SSAValue:
        kind = (ops.ReluOp, ops.NegOp, ops.TanhOp)[self.rng.integers(3)]
        return self.add(kind(x))

    def binary(self, x: SSAValue) -> SSAValue:
        same = [value for value in self.matrices if value.type == x.type]
        y = same[self.rng.integers(len(same))]
        kind = (ops.AddOp, ops.SubOp, ops.MaximumOp)[self.rng.integers(3)]
        return self.add(kind.inferred([x, y]))

    def bias(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        shape = ((columns,), (rows, 1))[self.rng.integers(2)]
        return self.add(ops.AddOp.inferred([x, self.variable(*shape)]))

    def scaled(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        shape = ([], [rows, columns])[self.rng.integers(2)]
        numbers = self.rng.uniform(-1, 1, int(np.prod(shape, dtype=int))).tolist()
        value = DenseIntOrFPElementsAttr.from_list(TensorType(f64, shape), numbers)
        return self.add(ops.MulOp.inferred([x, self.add(ops.ConstantOp(value))]))

    def product(self, x: SSAValue) -> SSAValue:
        _, inner = self.shape(x)
        columns = (4, 6, 8)[self.rng.integers(3)]
        if self.rng.random() < 0.5:
            w = self.variable(inner, columns)
            return self.add(ops.MatmulOp.inferred([x, w]))
        w, b = self.variable(columns, inner), self.variable(columns)
        return self.add(ops.GemmOp.inferred([x, w, b], {"transpose_b": UnitAttr()}))

    def reduced(self, x: SSAValue) -> SSAValue:
        kind = (ops.ReduceSumOp, ops.ReduceMaxOp, ops.ReduceMeanOp)[
            self.rng.integers(3)
        ]
        axes = ints(int(self.rng.integers(2)))
        total = self.add(kind.inferred([x], {"axes": axes, "keepdims": UnitAttr()}))
        return self.add(ops.SubOp.inferred([x, total]))

    def softmax(self, x: SSAValue) -> SSAValue:
        axis = IntegerAttr(int(self.rng.integers(2)), i64)
        return self.add(ops.SoftmaxOp.inferred([x], {"axis": axis}))

    def normalized(self, x: SSAValue) -> SSAValue:
        _, columns = self.shape(x)
        scale, bias = self.variable(columns), self.variable(columns)
        return self.add(ops.LayerNormOp.inferred([x, scale, bias]))

    def transposed(self, x: SSAValue) -> SSAValue:
        return self.add(ops.TransposeOp(x, [1, 0]))

    def reshaped(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        middle = ([rows * columns], [rows, 2, columns // 2])[self.rng.integers(2)]
        if columns % 2:
            middle = [rows * columns]
        flat = self.add(ops.ReshapeOp(x, middle))
        # A scale between them, so that the two are not one.
        same = self.add(ops.TanhOp(flat))
        return self.add(ops.ReshapeOp(same, [rows, columns]))

    def joined(self, x: SSAValue) -> SSAValue:
        axis = int(self.rng.integers(2))
        both = self.add(ops.ConcatOp([x, self.unary(x)], axis))
        starts, ends = [0, 0], list(self.shape(both))
        starts[axis] = 1
        ends[axis] = 1 + self.shape(x)[axis]
        return self.add(ops.SliceOp(both, starts, ends, [1, 1]))

    def cut(self, x: SSAValue) -> SSAValue:
        padded = self.add(ops.PadOp(x, [0, 1], [0, 1]))
        rows, columns = self.shape(padded)
        return self.add(ops.SliceOp(padded, [0, 0], [rows, columns - 2], [1, 1]))

    def gathered(self, x: SSAValue) -> SSAValue:
        rows, _ = self.shape(x)
        numbers = self.rng.integers(0, rows, 6).tolist()
        value = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [6]), numbers)
        indices = self.add(ops.ConstantOp(value))
        return self.add(ops.GatherOp(x, indices, 0))

    def convolved(self, x: SSAValue) -> SSAValue:
        rows, columns = self.shape(x)
        if columns % 2 or rows < 2:
            return self.unary(x)
        image = self.add(ops.ReshapeOp(x, [1, 2, rows, columns // 2]))
        operands = [image, self.variable(4, 2, 1, 1), self.variable(4)]
        image = self.add(ops.Conv2dOp.inferred(operands))
        pooled = self.add(ops.MaxPool2dOp.inferred([image], {"kernel": ints(2, 1)}))
        return self.add(ops.ReshapeOp(pooled, [4, (rows - 1) * (columns // 2)]))


def inputs() -> dict[str, Array]:
    """The inputs of the jobs."""
    return {"x": np.random.default_rng(1).uniform(-1, 1, (6, 8))}


def evaluate(module: ModuleOp) -> dict[str, Array]:
    """The outputs of a job or plan in NumPy."""
    return evaluate_model(Model(module, {}, Path()), inputs())


def compare(got: dict[str, Array], expected: dict[str, Array]) -> None:
    """Fail unless all outputs are the same."""
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        wanted = np.asarray(array, np.float64)
        given = np.asarray(got[name], np.float64)
        np.testing.assert_allclose(given, wanted, TOLERANCE, TOLERANCE)


SPLIT: tuple[ModulePass, ...] = (
    JobPlacePass(),
    JobInferSbpPass(),
    JobInsertBoxingPass(),
)


def apply(module: ModuleOp, *passes: ModulePass) -> None:
    """Run passes, verifying after each."""
    for each in passes:
        each.apply(Context(), module)
        module.verify()


@pytest.mark.parametrize("fuse", [False, True], ids=["", "fused"])
@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("seed", range(6))
def test_plans_give_what_jobs_give(seed: int, name: str, fuse: bool):
    """In NumPy, with some ops on other groups of devices."""
    others = OTHERS if seed % 2 else ()
    job = RandomJob(seed, 14, PLACEMENTS[name], others)
    module = job.module()
    module.verify()
    expected = evaluate(module)
    fusion = [OpFuseElementwisePass()] if fuse else []
    apply(module, *SPLIT, *fusion, ConvertJobToPlanPass())
    assert isinstance(module.body.block.first_op, PlanOp)
    compare(evaluate(module), expected)


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("seed", range(6))
def test_jobs_are_left_alone_once_they_are_split(seed: int, name: str):
    module = RandomJob(seed, 14, PLACEMENTS[name], OTHERS).module()
    apply(module, *SPLIT)
    text = str(module)
    apply(module, *SPLIT)
    assert str(module) == text


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACEMENTS)
def test_texts_between_passes_can_be_read_and_resumed(name: str):
    straight = read(str(RandomJob(7, 14, PLACEMENTS[name], OTHERS).module()))
    dumped = straight.clone()
    passes = (*SPLIT, OpFuseElementwisePass(), ConvertJobToPlanPass())
    for index, each in enumerate(passes):
        apply(straight, each)
        # What an earlier pass is given again it leaves as it is.
        apply(dumped, *passes[: index + 1])
        dumped = read(str(dumped))
        assert str(dumped) == str(straight)


def read(text: str) -> ModuleOp:
    """The module that a text is."""
    context = Context()
    context.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Parser(context, text).parse_module()


@pytest.mark.parametrize("seed", range(6))
def test_each_value_is_boxed_once_to_a_layout(seed: int):
    module = RandomJob(seed, 14, PLACEMENTS["2"], OTHERS).module()
    apply(module, *SPLIT)
    boxings = [op for op in module.walk() if isinstance(op, BoxingOp)]
    assert boxings
    keys = [(op.source, op.target_sbp, op.target_placement) for op in boxings]
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), list(zip(PLACEMENTS, range(4), strict=True)))
def test_sessions_give_what_jobs_give(name: str, seed: int):
    """Through the whole pipeline, compiled; all devices in one process."""
    expected = evaluate(RandomJob(seed, 6, PLACEMENTS[name]).module())
    model = Model(RandomJob(seed, 6, PLACEMENTS[name]).module(), {}, Path())
    with Session(model, threads=2) as session:
        for _ in range(2):
            compare(session.run(inputs()), expected)


RANKS = {
    "2 ranks": PlacementAttr("cpu", [(r, i) for r in range(2) for i in range(2)]),
    "2 ranks, 2x2": PlacementAttr(
        "cpu", [(r, i) for r in range(2) for i in range(2)], [2, 2]
    ),
    "uneven ranks": PlacementAttr("cpu", [(0, 0), (2, 0), (2, 1)]),
}

ELSEWHERE = [PlacementAttr("cpu", [(1, 1)]), PlacementAttr("cpu", [(0, 0), (3, 0)])]
"""Where some ops run instead, also on ranks that have no other."""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", RANKS)
@pytest.mark.parametrize("seed", range(2))
def test_simulated_ranks_give_what_jobs_give(seed: int, name: str, threads: int):
    """Through the whole pipeline, compiled; all ranks in one process."""
    expected = evaluate(RandomJob(seed, 6, RANKS[name], ELSEWHERE).module())
    model = Model(RandomJob(seed, 6, RANKS[name], ELSEWHERE).module(), {}, Path())
    with Session(model, threads=threads, simulate_ranks=True) as session:
        chunks = [op for op in session.program.walk() if isinstance(op, ChunkOp)]
        assert len({chunk.memory_case.rank for chunk in chunks}) > 1
        for _ in range(2):
            compare(session.run(inputs()), expected)


@pytest.mark.slow
def test_ranks_share_nothing_without_being_simulated(tmp_path: Path):
    file = tmp_path / "ranks.mlir"
    module = RandomJob(0, 6, RANKS["2 ranks"]).module()
    file.write_text(str(module))
    with pytest.raises(UsageError, match="the model is placed on ranks 0, 1: start as"):
        Session.open(file)
    with Session.open(file, simulate_ranks=True) as session:
        compare(session.run(inputs()), evaluate(module))


def run_on_ranks(module: ModuleOp, pieces: int) -> list[dict[str, Array]]:
    """The outputs of each piece on ranks that exchange messages, here by threads."""
    model, front = Model(module.clone(), {}, Path()), installed_compiler()
    lower(*front, model)
    programs = {x.rank.value.data: x for x in programs_of(model)}
    ends: dict[tuple[int, int], socket.socket] = {}
    for first, second in combinations(programs, 2):
        ends[first, second], ends[second, first] = socket.socketpair()
    transports = {
        rank: SocketTransport(rank, {y: ends[rank, y] for y in programs if y != rank})
        for rank in programs
    }

    def run(rank: int) -> list[dict[str, Array]]:
        with Session.of(ExportedProgram(programs[rank])) as session:
            session.executor.connect(transports[rank])
            fed = {name: inputs()[name] for name in session.inputs()}
            once = [session.run(fed)]
            return once + session.run_many([fed] * (pieces - 1))

    with ThreadPoolExecutor(len(programs)) as pool:
        found = list(pool.map(run, programs))
    for transport in transports.values():
        transport.close()
    return [
        {name: array for own in piece for name, array in own.items()}
        for piece in zip(*found, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("placement", [x for x in RANKS if x != "uneven ranks"])
@pytest.mark.parametrize("seed", range(6))
def test_ranks_that_exchange_messages_equal_simulated_ones(
    placement: str, seed: int
) -> None:
    job = RandomJob(seed, 8, RANKS[placement], ELSEWHERE)
    module = job.module()
    with Session(Model(module.clone(), {}, Path()), simulate_ranks=True) as session:
        wanted = session.run(inputs())
    compare(wanted, evaluate(module))
    for got in run_on_ranks(module, 4):
        assert got.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(got[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_acts_of_simulated_ranks_may_overlap(seed: int):
    """Several pieces on their way at once, each with inputs of its own."""
    job = RandomJob(seed, 8, RANKS["2 ranks"], ELSEWHERE)
    module = job.module()
    generator = np.random.default_rng(seed)
    pieces = [{"x": generator.uniform(-1, 1, (6, 8))} for _ in range(5)]
    expected = [evaluate_model(Model(module, {}, Path()), piece) for piece in pieces]
    with Session(
        Model(module.clone(), {}, Path()), threads=3, simulate_ranks=True
    ) as session:
        for got, wanted in zip(session.run_many(pieces), expected, strict=True):
            compare(got, wanted)


def steps_of_passes(count: int) -> list[int]:
    """
    The steps of each pass for so many ops on two devices; every tenth one asks for
    another split.
    """
    type = TensorType(f64, [4, 4])
    chain: list[Operation] = [InputOp("x", type)]
    for index in range(count):
        op = ops.TanhOp(chain[-1].results[0])
        if index % 10 == 0:
            op.attributes["sbp"] = sbp_of(split(index // 10 % 2))
        chain.append(op)
    chain.append(OutputOp("y", chain[-1].results[0]))
    module = ModuleOp([JobOp("chain", PLACEMENTS["2"], Region(Block(chain)))])
    found: list[int] = []
    for each in (*SPLIT, ConvertJobToPlanPass()):
        found.append(steps_of(each.apply, Context(), module))
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    assert len(plan.tasks) > 2 * count
    return found


def test_long_jobs_take_linear_time():
    """Ten times as many ops; a quadratic pass would take a hundred times as long."""
    # The first time, modules are imported and caches filled.
    few = [steps_of_passes(20) for _ in range(2)][1]
    for short, long in zip(few, steps_of_passes(200), strict=True):
        assert long < LINEAR * short


@irdl_op_definition
class FlipOp(TensorOp):
    """An op of someone else, that says nothing of how it may be split."""

    name = "test.flip"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def infer_types(self) -> Sequence[TensorType]:
        return (tensor_type(self.operand),)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (np.flip(operands[0]),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise AssertionError("only planned")


def test_ops_that_say_nothing_run_whole_on_each_device():
    x = InputOp("x", TensorType(f64, [6, 8]))
    flip = FlipOp.inferred([x])
    job = [x, flip, OutputOp("y", flip)]
    module = ModuleOp([JobOp("j", PLACEMENTS["3"], Region(Block(job)))])
    apply(module, *SPLIT)
    assert flip.attributes == {"sbp": sbp_of(BROADCAST)}
    apply(module, ConvertJobToPlanPass())
    compare(evaluate(module), {"y": np.flip(inputs()["x"])})


CUDA = """
import sys
sys.path.insert(0, sys.argv[1])
from test_sbp_jobs import *
placement = PlacementAttr("cuda", [(0, 0), (0, 1)])
expected = evaluate(RandomJob(5, 4, placement).module())
model = Model(RandomJob(5, 4, placement).module(), {}, Path())
with Session(model) as session:
    compare(session.run(inputs()), expected)
"""


@pytest.mark.slow
def test_devices_with_a_memory_of_their_own():
    """Two CUDA devices, in Numba's simulator."""
    result = subprocess.run(
        [sys.executable, "-c", CUDA, str(Path(__file__).parent)],
        env={
            **os.environ,
            "NUMBA_ENABLE_CUDASIM": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_inputs_whole_on_each_device_need_no_task():
    """The processors of a rank read the host's memory where it lies."""
    x = InputOp("x", TensorType(f64, [4, 4]))
    x.attributes["sbp"] = sbp_of(BROADCAST)
    y = ops.TanhOp(x.result)
    y.attributes["sbp"] = sbp_of(BROADCAST)
    job = [x, y, OutputOp("y", y)]
    module = ModuleOp([JobOp("j", PLACEMENTS["2"], Region(Block(job)))])
    apply(module, *SPLIT, ConvertJobToPlanPass())
    plan = module.body.block.first_op
    assert isinstance(plan, PlanOp)
    names = [task.task_name.data for task in plan.tasks]
    assert names == ["x", "tanh@0.cpu.0", "tanh@0.cpu.1", "y"]
