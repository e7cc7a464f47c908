"""The largest shapes of values against all that NumPy makes of smaller inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    ModuleOp,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.op import (
    AddOp,
    ConcatOp,
    MatmulOp,
    PadOp,
    ReduceSumOp,
    ReluOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.largest_shapes import JobMaxima
from penstock.lowering.convert.job_to_plan import ConvertJobToPlanPass

MOST = 9
"""The extent that inputs have at most."""


class OpenJob:
    """A job of random ops on tensors of two axes, whose first input has open rows."""

    def __init__(self, seed: int, length: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.input = InputOp("x", TensorType(f64, [DYNAMIC_INDEX, 3]))
        self.input.attributes["max_shape"] = DenseArrayBase.from_list(i64, [MOST, 3])
        self.ops: list[Operation] = [self.input]
        values: list[SSAValue] = [self.input.result]
        steps = (self.cut, self.cut, self.joined, self.changed, self.product)
        while len(values) < length:
            recent = values[-int(self.rng.integers(1, min(4, len(values) + 1)))]
            try:
                op = steps[int(self.rng.integers(len(steps)))](recent)
            except VerifyException:
                continue
            self.ops.append(op)
            values.append(op.results[0])
        self.ops.append(OutputOp("y", values[-1]))
        self.job = JobOp(
            "open", PlacementAttr("cpu", [(0, 0)]), Region(Block(self.ops))
        )

    def cut(self, x: SSAValue) -> TensorOp:
        starts, ends = self.rng.integers(-MOST - 2, MOST + 2, (2, 2)).tolist()
        steps = self.rng.choice([-3, -2, -1, 1, 1, 2, 3], 2).tolist()
        return SliceOp(x, starts, ends, steps)

    def joined(self, x: SSAValue) -> TensorOp:
        return ConcatOp([x, x], int(self.rng.integers(2)))

    def changed(self, x: SSAValue) -> TensorOp:
        makers: list[Callable[[], TensorOp]] = [
            lambda: ReluOp(x),
            lambda: TransposeOp(x, [1, 0]),
            lambda: PadOp(x, [1, 0], [0, 2]),
            lambda: AddOp.inferred([x, x]),
            lambda: ReduceSumOp.inferred(
                [x],
                {
                    "axes": DenseArrayBase.from_list(i64, [1]),
                    "keepdims": UnitAttr(),
                },
            ),
            lambda: ReshapeOp(x, [-1, 1]),
        ]
        return makers[int(self.rng.integers(len(makers)))]()

    def product(self, x: SSAValue) -> TensorOp:
        turned = TransposeOp(x, [1, 0])
        self.ops.append(turned)
        return MatmulOp.inferred([x, turned])


def shapes_made(ops: list[Operation], rows: int) -> Mapping[SSAValue, tuple[int, ...]]:
    """The shapes that NumPy makes of so many rows; without those it cannot make."""
    values: dict[SSAValue, NDArray[np.generic]] = {}
    for op in ops:
        if isinstance(op, InputOp):
            values[op.result] = np.zeros((rows, 3))
        elif isinstance(op, TensorOp) and all(x in values for x in op.operands):
            with np.errstate(all="ignore"):
                (values[op.results[0]],) = op.evaluate(
                    *(values[x] for x in op.operands)
                )
    return {value: array.shape for value, array in values.items()}


def largest_made(ops: list[Operation]) -> Mapping[SSAValue, tuple[int, ...]]:
    """The largest extents that each value has for any number of rows that may be."""
    largest: dict[SSAValue, tuple[int, ...]] = {}
    for rows in range(MOST + 1):
        for value, shape in shapes_made(ops, rows).items():
            known = largest.get(value, shape)
            largest[value] = tuple(map(max, known, shape))
    return largest


@pytest.mark.parametrize("seed", range(draws(66)))
def test_maxima_are_those_of_all_inputs(seed: int):
    """And an op that is refused makes more of fewer rows than of the most."""
    made = OpenJob(seed, 6)
    maxima = JobMaxima(made.job)
    found = list(maxima.findings())
    at_most, largest = shapes_made(made.ops, MOST), largest_made(made.ops)
    for op, _ in found:
        assert largest[op.results[0]] != at_most[op.results[0]]
    if found:
        return
    for value in largest:
        if not tensor_type(value).has_static_shape():
            assert maxima.shapes[value] == largest[value]


@pytest.mark.slow
def test_some_jobs_are_refused_and_others_are_not():
    refused = [any(JobMaxima(OpenJob(seed, 6).job).findings()) for seed in range(200)]
    assert 10 < sum(refused) < 190


def converted_slices(size: int) -> Callable[[], object]:
    """The conversion of so many slices, each of all elements but the first."""
    ops: list[Operation] = [InputOp("x", TensorType(f64, [DYNAMIC_INDEX, 3]))]
    ops[0].attributes["max_shape"] = DenseArrayBase.from_list(i64, [10_000, 3])
    for _ in range(size):
        ops.append(SliceOp(ops[-1].results[0], [1, 0], [1 << 40, 3], [1, 1]))
    ops.append(OutputOp("y", ops[-1].results[0]))
    place = PlacementAttr("cpu", [(0, 0)])
    module = ModuleOp([JobOp("slices", place, Region(Block(ops)))])

    def convert() -> None:
        ConvertJobToPlanPass().apply(Context(), module)
        assert f"max_shape = array<i64: {10_000 - size}, 3>" in str(module)

    return convert


def test_long_jobs_take_linear_time():
    """Each op is tried at a few extents only."""
    assert growth_of(converted_slices, 10) < LINEAR
