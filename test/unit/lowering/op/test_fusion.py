"""Jobs of elementwise ops compute the same after they are fused, and no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from draws import draws
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.job import InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.op.activation import ReluOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp, MaximumOp, MulOp, NegOp, SubOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.groups.group_form import evaluate_block
from penstock.dialects.op.tensor_op import ElementwiseOp, FusibleOp
from penstock.dialects.utils.numpy_types import dense_of
from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass

SHAPES = ((), (5,), (1, 5), (4, 1), (4, 5), (3, 4, 5))
BINARY = (AddOp, MaximumOp, MulOp, SubOp)
UNARY = (NegOp, ReluOp)
CPU = PlacementAttr("cpu", [(0, 0)])
CUDA = PlacementAttr("cuda", [(0, 0)])


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """Numbers of both signs, as float32."""
    return rng.standard_normal(shape).astype(np.float32)


def random_constant(rng: np.random.Generator) -> ConstantOp:
    """A constant of some shape, more often than not with equal elements."""
    array = random_array(rng, SHAPES[rng.integers(len(SHAPES))])
    if rng.random() < 0.7:
        array = np.full_like(array, array.flat[0])
    return ConstantOp(dense_of(array))


def random_op(rng: np.random.Generator, values: Sequence[SSAValue]) -> Operation:
    """An elementwise op on some of the values, or a constant."""
    if rng.random() < 0.15:
        return random_constant(rng)
    # Mostly recent values, so that there are chains.
    recent = [values[-1 - min(int(rng.exponential(4)), len(values) - 1)] for _ in "ab"]
    if rng.random() < 0.3:
        op = UNARY[rng.integers(len(UNARY))].inferred(recent[:1])
    else:
        op = BINARY[rng.integers(len(BINARY))].inferred(recent)
    if rng.random() < 0.05:
        op.attributes["placement"] = CUDA
    return op


def random_job(seed: int, length: int) -> JobOp:
    """A job of inputs, elementwise ops that share values, constants and outputs."""
    rng = np.random.default_rng(seed)
    block = Block()
    values: list[SSAValue] = []
    for index, shape in enumerate(SHAPES):
        block.add_op(made := InputOp(f"x{index}", TensorType(f32, shape)))
        values.append(made.result)
    for _ in range(length):
        block.add_op(op := random_op(rng, values))
        values.append(op.results[0])
        if rng.random() < 0.1:
            block.add_op(OutputOp(f"y{len(values)}", values[-1]))
    block.add_op(OutputOp("last", values[-1]))
    return JobOp("random", CPU, Region(block))


def outputs_of(job: JobOp, seed: int) -> dict[str, NDArray[np.generic]]:
    """The outputs of the job for random inputs, by NumPy."""
    rng = np.random.default_rng(seed)
    block = job.body.block
    values: dict[SSAValue, NDArray[np.generic]] = {}
    for op in block.ops:
        if isinstance(op, InputOp):
            type = op.result.type
            assert isinstance(type, TensorType)
            values[op.result] = random_array(rng, type.get_shape())
    with np.errstate(all="ignore"):
        evaluate_block(block, values)
    return {
        op.port.data: values[op.value] for op in block.ops if isinstance(op, OutputOp)
    }


def elementwise_ops(job: JobOp) -> list[str]:
    """The names of the elementwise ops of a job, fused or not, sorted."""
    return sorted(op.name for op in job.walk() if isinstance(op, ElementwiseOp))


def fuse(job: JobOp, max_ops: int = 64) -> ModuleOp:
    """Run the pass on a module of one job, and verify what it leaves."""
    module = ModuleOp([job])
    OpFuseElementwisePass(max_ops=max_ops).apply(Context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("seed", range(draws(13)))
def test_random_jobs_compute_the_same(seed: int):
    job = random_job(seed, length=40)
    before, ops_before = outputs_of(job, seed), elementwise_ops(job)
    fuse(job, max_ops=(1, 3, 64)[seed % 3])
    after = outputs_of(job, seed)
    assert list(after) == list(before)
    for port, array in before.items():
        assert after[port].dtype == array.dtype
        np.testing.assert_array_equal(after[port], array)
    # Nothing is computed twice or dropped.
    assert elementwise_ops(job) == ops_before


@pytest.mark.parametrize("seed", range(draws(13)))
def test_groups_of_random_jobs_keep_the_rules(seed: int):
    limit = (1, 3, 64)[seed % 3]
    job = random_job(seed, length=40)
    fuse(job, limit)
    groups = [op for op in job.body.block.ops if isinstance(op, FusedOp)]
    assert groups
    for group in groups:
        members = [op for op in group.members if isinstance(op, ElementwiseOp)]
        assert 1 <= len(members) <= limit
        assert {op.results[0].type for op in members} == {group.outs[0].type}
        assert len(set(group.ins)) == len(group.ins)
        for value in group.ins:
            assert not (
                isinstance(c := value.owner, ConstantOp) and c.splat is not None
            )


@pytest.mark.parametrize("seed", range(10))
def test_no_two_ops_are_left_that_could_be_fused(seed: int):
    """An op whose one user could take it was left only for want of the same device."""
    job = random_job(seed, length=40)
    fuse(job, max_ops=1000)
    for op in job.body.block.ops:
        if not isinstance(op, FusibleOp):
            continue
        users = {use.operation for use in op.results[0].uses}
        if len(users) != 1 or not isinstance(user := users.pop(), FusibleOp):
            continue
        same_shape = op.results[0].type == user.results[0].type
        same_device = op.attributes.get("placement") == user.attributes.get("placement")
        assert not (same_shape and same_device)


@pytest.mark.parametrize("seed", range(5))
def test_same_job_gives_same_text(seed: int):
    texts = {str(fuse(random_job(seed, length=60))) for _ in range(2)}
    assert len(texts) == 1
