"""Random jobs on several devices give what they give on one, whatever they ask for."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from counted_work import LINEAR, steps_of
from draws import draws
from forked_tool import ForkedCommands
from numpy.typing import NDArray
from random_sbp_jobs import RandomJob
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    ModuleOp,
    TensorType,
    f64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.parser import Parser
from xdsl.passes import ModulePass

from penstock.dialects import get_all_dialects
from penstock.dialects import op as ops
from penstock.dialects.job import (
    BoxingOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
)
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.launch import ChunkOp
from penstock.dialects.op.sbp import BROADCAST, sbp_of, split
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass
from penstock.lowering.job.infer_sbp import JobInferSbpPass
from penstock.lowering.job.insert_boxing import JobInsertBoxingPass
from penstock.lowering.job.place import JobPlacePass
from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass
from penstock.runtime.transport.sockets import SocketTransport
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.model import programs_of
from penstock.tools.session.options import DEFAULTS, CompileOptions
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
@pytest.mark.parametrize("seed", range(draws(2)))
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
@pytest.mark.parametrize("seed", range(draws(2)))
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


@pytest.mark.parametrize("seed", range(draws(2)))
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
@pytest.mark.parametrize("seed", range(draws(1)))
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


def run_on_ranks(
    module: ModuleOp, pieces: int, options: CompileOptions = DEFAULTS
) -> list[dict[str, Array]]:
    """The outputs of each piece on ranks that exchange messages, here by threads."""
    model, front = Model(module.clone(), {}, Path()), installed_compiler()
    lower(*front, model, options)
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
@pytest.mark.parametrize("seed", range(draws(2)))
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
@pytest.mark.parametrize(
    ("count", "hierarchy", "seed"),
    [(2, (), 3), (3, (), 0), (4, (2, 2), 0), (4, (2, 2), 1)],
)
def test_ranks_with_collectives_equal_the_job(
    count: int, hierarchy: Sequence[int], seed: int
) -> None:
    place = PlacementAttr("cpu", [(rank, 0) for rank in range(count)], hierarchy)
    module = RandomJob(seed, 10, place).module()
    wanted = evaluate(module)
    for got in run_on_ranks(module, 2, CompileOptions(collectives="ring")):
        compare(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(1)))
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
def test_devices_with_a_memory_of_their_own(
    forked_simulator: ForkedCommands, tmp_path: Path
) -> None:
    """Two CUDA devices, in Numba's simulator."""
    words = ["python", "-c", CUDA, str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = forked_simulator.outcome(words, tmp_path, environment)
    assert done.returncode == 0, done.stderr


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
