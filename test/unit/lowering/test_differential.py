"""
Random jobs: what passes and the executor make of them against their meaning in NumPy.

Integers and booleans must be equal. Floats may differ by the last bits of what `exp`
and its like return, and by the order of sums: relative to the largest element by at
most 1e-5 for 32 bits and 1e-12 for 64.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from draws import draws
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    UnitAttr,
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import InitAttr, InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.job import VariableOp as JobVariableOp
from penstock.dialects.op import activation, comparison, elementwise
from penstock.dialects.op import unary_math as functions
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.normalization import SoftmaxOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import dense_of, dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.pipelines import Passes, PipelineOptions, pipeline
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.pass_pipeline import make_passes, parse_passes
from penstock.tools.session.oracle import evaluate_model, has_numpy_meaning
from penstock.tools.session.session import Model, Session

Random: TypeAlias = np.random.Generator
Types: TypeAlias = Sequence[AnyFloat | IntegerType]

TYPES = (f32, f64, i32, i64, i1)
WITH_HALVES = (f16, f32, i1)
SHAPES = ((), (3,), (2, 1), (2, 3))
NARROW, WIDE = 1e-5, 1e-12
"""The relative error of results with and without numbers of 32 bits on the way."""

UNARY: tuple[type[TensorOp], ...] = (
    activation.ReluOp,
    activation.SigmoidOp,
    activation.TanhOp,
    comparison.LogicalNotOp,
    elementwise.AbsOp,
    elementwise.NegOp,
    functions.ErfOp,
    functions.FloorOp,
)
BINARY: tuple[type[TensorOp], ...] = (
    comparison.EqualOp,
    comparison.LessOp,
    comparison.LogicalAndOp,
    elementwise.AddOp,
    elementwise.MaximumOp,
    elementwise.MinimumOp,
    elementwise.MulOp,
    elementwise.SubOp,
)


class Jobs:
    """Makes a random job: a block that grows op by op."""

    def __init__(self, seed: int, types: Types = TYPES):
        self.random = np.random.default_rng(seed)
        self.types = types
        self.block = Block()
        self.values: list[SSAValue] = []
        makers: list[Callable[[], Operation]] = [
            self.unary,
            self.unary,
            self.binary,
            self.binary,
            self.binary,
            self.where,
            self.cast,
            self.constant,
            self.matmul,
            self.reduce,
            self.softmax,
            self.transpose,
            self.flatten,
            self.pad,
            self.slice,
            self.split,
            self.concat,
            self.gather,
        ]
        self.makers = makers

    def job(self, length: int) -> JobOp:
        """A job of so many ops, whose unused values and a few others are outputs."""
        for number, element in enumerate(self.types):
            for shape in SHAPES[:: 1 if element == f32 else 3]:
                name, type = f"x{number}_{len(shape)}", TensorType(element, shape)
                self.add(InputOp(f"{name}_{len(self.values)}", type))
        init = InitAttr("normal", {"seed": int(self.random.integers(100))})
        self.add(JobVariableOp("w", init, TensorType(f32, (3, 3))))
        inputs = len(self.values)
        while len(self.values) < inputs + length:
            self.add(self.op())
        for number, value in enumerate(self.values):
            wanted = not value.uses if number >= inputs else self.random.random() < 0.1
            if wanted or self.random.random() < 0.1:
                self.block.add_op(OutputOp(f"y{number}", value))
        return JobOp("random", PlacementAttr("cpu", [(0, 0)]), Region(self.block))

    def add(self, op: Operation) -> None:
        self.block.add_op(op)
        self.values.extend(op.results)

    def op(self) -> Operation:
        """An op on some of the values; what does not fit together is tried again."""
        while True:
            try:
                return self.makers[self.random.integers(len(self.makers))]()
            except VerifyException:
                continue

    def value(self) -> SSAValue:
        """A value, more likely a recent one."""
        age = min(int(self.random.exponential(8)), len(self.values) - 1)
        return self.values[-1 - age]

    def element(self) -> AnyFloat | IntegerType:
        return self.types[int(self.random.integers(len(self.types)))]

    def values_of_one_type(self, count: int) -> list[SSAValue]:
        first = self.value()
        element = tensor_type(first).element_type
        same = [v for v in self.values if tensor_type(v).element_type == element]
        return [first, *(same[self.random.integers(len(same))] for _ in range(count))]

    def axis(self, value: SSAValue) -> int:
        rank = tensor_type(value).get_num_dims()
        if rank == 0:
            raise VerifyException("a scalar has no axis")
        return int(self.random.integers(rank))

    # Ops

    def unary(self) -> Operation:
        return UNARY[self.random.integers(len(UNARY))].inferred([self.value()])

    def binary(self) -> Operation:
        kind = BINARY[self.random.integers(len(BINARY))]
        return kind.inferred(self.values_of_one_type(1))

    def where(self) -> Operation:
        masks = [v for v in self.values if tensor_type(v).element_type == i1]
        mask = masks[self.random.integers(len(masks))]
        return comparison.WhereOp.inferred([mask, *self.values_of_one_type(1)])

    def cast(self) -> Operation:
        value, to = self.value(), self.element()
        # The last bit of a float decides on the integer it is cut to.
        element = tensor_type(value).element_type
        if isinstance(element, AnyFloat) and not (to == i1 or isinstance(to, AnyFloat)):
            raise VerifyException("not from floats to integers")
        return CastOp(value, to)

    def constant(self) -> Operation:
        array = self.random.integers(-3, 4, SHAPES[self.random.integers(len(SHAPES))])
        if self.random.random() < 0.5:
            array = np.full_like(array, array.flat[0])
        element = self.element()
        return ConstantOp(dense_of(array.astype(dtype_of(element))))

    def matmul(self) -> Operation:
        flag = UnitAttr() if self.random.random() < 0.5 else None
        return MatmulOp.inferred(self.values_of_one_type(1), {"transpose_b": flag})

    def reduce(self) -> Operation:
        value = self.value()
        kinds = (ReduceSumOp, ReduceMaxOp, ReduceMeanOp)
        properties: dict[str, Attribute | None] = {
            "axes": int_list([self.axis(value)]),
            "keepdims": UnitAttr() if self.random.random() < 0.5 else None,
        }
        return kinds[self.random.integers(len(kinds))].inferred([value], properties)

    def softmax(self) -> Operation:
        value = self.value()
        axis = IntegerAttr(self.axis(value), i64)
        return SoftmaxOp.inferred([value], {"axis": axis})

    def transpose(self) -> Operation:
        value = self.value()
        rank = tensor_type(value).get_num_dims()
        return TransposeOp(value, self.random.permutation(rank).tolist())

    def flatten(self) -> Operation:
        return ReshapeOp(self.value(), [-1])

    def pad(self) -> Operation:
        value = self.value()
        rank = tensor_type(value).get_num_dims()
        self.check_size(value)
        return PadOp(value, [1] * rank, [0] * rank)

    def slice(self) -> Operation:
        value = self.value()
        shape = tensor_type(value).get_shape()
        self.check_size(value)
        starts = [int(self.random.integers(extent)) for extent in shape]
        return SliceOp(value, starts, shape, [1] * len(shape))

    def split(self) -> Operation:
        value = self.value()
        axis = self.axis(value)
        extent = tensor_type(value).get_shape()[axis]
        return SplitOp(value, axis, [1, extent - 1])

    def concat(self) -> Operation:
        values = self.values_of_one_type(1)
        self.check_size(values[0])
        return ConcatOp(values, self.axis(values[0]))

    def gather(self) -> Operation:
        data = self.value()
        axis = self.axis(data)
        extent = tensor_type(data).get_shape()[axis]
        self.check_size(data)
        indices = self.random.integers(-extent, extent, 2)
        self.block.add_op(made := ConstantOp(dense_of(indices)))
        return GatherOp(data, made.result, axis)

    def check_size(self, value: SSAValue) -> None:
        if not 0 < tensor_type(value).element_count() <= 50:
            raise VerifyException("without elements, or large enough")


def random_model(seed: int, length: int, types: Types = TYPES) -> Model:
    module = ModuleOp([Jobs(seed, types).job(length)])
    module.verify()
    return Model(module, {}, Path())


def copy_of(model: Model) -> Model:
    return Model(model.module.clone(), model.weights, model.directory)


def inputs_of(model: Model, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)

    def array(op: InputOp) -> Array:
        type = tensor_type(op.result)
        dtype, shape = dtype_of(type.element_type), type.get_shape()
        if dtype.kind == "f":
            return random.standard_normal(shape).astype(dtype)
        low, high = (0, 2) if dtype.kind == "b" else (-5, 6)
        return random.integers(low, high, shape).astype(dtype)

    ops = [op for op in model.module.walk() if isinstance(op, InputOp)]
    return {op.port.data: array(op) for op in ops}


def check_equal(given: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert set(given) == set(expected)
    for name, array in given.items():
        assert array.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(array, expected[name], name)


def tolerance_of(model: Model) -> float:
    """The relative error that results of a model may have."""
    values = (value for op in model.module.walk() for value in op.results)
    types = {tensor_type(value).element_type for value in values}
    return NARROW if f32 in types else WIDE


def check_close(
    given: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float
) -> None:
    assert set(given) == set(expected)
    for name, array in given.items():
        wanted = expected[name]
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype), name
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, wanted, name)
            continue
        ours, theirs = array.astype(np.float64), wanted.astype(np.float64)
        scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
        np.testing.assert_allclose(ours, theirs, 0, tolerance * scale, err_msg=name)


# Passes ------------------------------------------------------------------------------

ON_JOBS = (
    "op-infer-shapes",
    "canonicalize",
    "cse",
    "dce",
    "op-fold-constants",
    "op-split-pads",
    "op-widen-sums",
    'job-place{device="cuda"}',
    "op-fuse-elementwise",
    "op-fuse-elementwise{max-ops=2}",
)


@pytest.mark.parametrize("passes", ON_JOBS)
def test_every_pass_alone_keeps_the_meaning_of_jobs(passes: str):
    compiler, table = installed_compiler()
    changed = 0
    for seed in range(draws(4)):
        types = WITH_HALVES if passes == "op-widen-sums" else TYPES
        model = random_model(seed, 40, types)
        inputs, before = inputs_of(model, seed), str(model.module)
        expected = evaluate_model(model, inputs)
        compiler.apply(model.module, parse_passes(table, passes))
        check_equal(evaluate_model(model, inputs), expected)
        changed += str(model.module) != before
    # Shapes are known, and there are no convolutions to split a pad off.
    assert changed or passes in ("op-infer-shapes", "op-split-pads")


@pytest.mark.slow
@pytest.mark.parametrize(("device", "streams"), [("cpu", 2), ("cuda", 1)])
def test_meaning_stays_down_to_plans_in_memory(device: str, streams: int):
    for seed in range(draws(1)):
        model = random_model(seed, 30)
        inputs = inputs_of(model, seed)
        expected = evaluate_model(model, inputs)
        levels = 0
        for _ in applied(model, pipeline(PipelineOptions(device, streams))):
            if has_numpy_meaning(model.entry):
                check_equal(evaluate_model(model, inputs), expected)
                levels += 1
        assert levels >= 12


def applied(model: Model, passes: Passes) -> Iterator[None]:
    """Apply passes one after the other, with time for a look after each."""
    compiler, table = installed_compiler()
    for module_pass in make_passes(table, passes):
        compiler.apply(model.module, [module_pass])
        yield


# Execution ---------------------------------------------------------------------------


def check_runs(seed: int, length: int) -> None:
    model = random_model(seed, length)
    pieces = [inputs_of(model, seed + i) for i in range(3)]
    expected = [evaluate_model(model, piece) for piece in pieces]
    compiler = installed_compiler()
    results: list[Sequence[Mapping[str, Array]]] = []
    for threads, engine in ((1, "actors"), (2, "actors"), (2, "sequential")):
        with Session(
            copy_of(model), threads=threads, engine=engine, compiler=compiler
        ) as session:
            results.append(session.run_many(pieces))
    for given, wanted in zip(results[0], expected, strict=True):
        check_close(given, wanted, tolerance_of(model))
    for other in results[1:]:
        for given, wanted in zip(other, results[0], strict=True):
            check_equal(given, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(2)))
def test_random_jobs_run_as_numpy_says(seed: int):
    check_runs(seed, 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 100 + draws(1)))
def test_larger_random_jobs_run_as_numpy_says(seed: int):
    check_runs(seed, 40)
