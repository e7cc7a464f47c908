"""
Every op of the dialect on fresh random and on edge operands: NaN, infinities, the least
floats, nothing at all, one element, prime extents, broadcasts of every rank.

The oracle of each op is written here in terms of NumPy and SciPy, in 64 bits where
floats are computed. `evaluate` is compared with it, and so are compiled kernels: those
of all ops are part of one job, so that they are compiled together.
"""

# Oracles are lambdas, whose parameters have no types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypedDict

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import special
from xdsl.dialects.builtin import (
    IntegerAttr,
    ModuleOp,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects import op as ops
from penstock.dialects.job import InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import rounding, trigonometry
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.elementwise import BinaryOp, UnaryOp
from penstock.dialects.op.indexing import ScatterMode, ScatterModeAttr
from penstock.dialects.op.multirate import (
    AccOp,
    LastOp,
    PackOp,
    RateOp,
    RepeatOp,
    UnpackOp,
)
from penstock.dialects.op.padding import PadMode, PadModeAttr
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training import OPS as TRAINING
from penstock.dialects.op.wave import YieldWaveOp
from penstock.dialects.utils.numpy_types import dense_of, dtype_of, element_type_of
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.signless import ui8
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import lower
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Wide: TypeAlias = NDArray[np.float64]
Setting: TypeAlias = Attribute | Sequence[int] | str | float
Oracle: TypeAlias = "Callable[..., Array | Sequence[Array]]"
Build: TypeAlias = Callable[[Sequence[SSAValue]], TensorOp]

rng = np.random.default_rng(20261121)
EPSILON = 2.0**-23
EPSILONS = {"float32": EPSILON, "float64": 2.0**-52}


class Absolute(TypedDict):
    """By how much results may differ."""

    absolute: float


class Bounds(Absolute):
    """By how much results may differ, and by how many units in the last place."""

    ulps: float


class Case(NamedTuple):
    """
    An op with operands, and what its results should be. They may differ by so many
    units in the last place, and by an absolute number; integers may not at all.
    """

    op: type[TensorOp]
    operands: Sequence[Array]
    wanted: Oracle
    settings: Mapping[str, Setting] = {}
    ulps: float = 4
    absolute: float = 6e-45
    build: Build | None = None
    is_compiled: bool = True

    def made(self, values: Sequence[SSAValue]) -> TensorOp:
        """The op on some values."""
        if self.build is not None:
            return self.build(values)
        return self.op.inferred(values, properties_of(self.op, **self.settings))

    def types(self) -> list[TensorType]:
        """The types of the operands."""
        return [TensorType(element_type_of(a.dtype), a.shape) for a in self.operands]

    def check(self, results: Sequence[Array]) -> None:
        """Compare results with those of the oracle."""
        wide = [
            a.astype(np.float64) if a.dtype.kind == "f" else a for a in self.operands
        ]
        with np.errstate(all="ignore"):
            found = self.wanted(*wide)
            wanted = [*found] if isinstance(found, list | tuple) else [found]
            assert len(results) == len(wanted)
            for result, exact in zip(results, wanted, strict=True):
                self.check_one(result, np.asarray(exact))

    def check_one(self, result: Array, exact: Array) -> None:
        """Compare a result."""
        assert result.shape == exact.shape
        if result.dtype.kind != "f":
            assert exact.dtype.kind != "f"
            np.testing.assert_array_equal(result, exact)
            return
        rounded = exact.astype(result.dtype).astype(np.float64)
        np.testing.assert_allclose(
            result.astype(np.float64),
            rounded,
            self.ulps * EPSILONS[result.dtype.name],
            self.absolute,
        )


################################################################################
# Operands                                                                     #
################################################################################

EDGES = np.array(
    [
        *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.1e-38, -1.17549435e-38),
        *(3.4028235e38, -3.4028235e38, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 88.8, -104.5),
    ],
    np.float32,
)
INTEGER_EDGES = np.array([0, 1, -1, 2, -7, 127, -128, 2**31 - 1, -(2**31)], np.int32)
SHAPES = ((), (1,), (0, 3), (2, 1, 3))


def floats(*shape: int) -> Array:
    """Normal numbers."""
    return rng.normal(size=shape).astype(np.float32)


def rows(*shape: int) -> Array:
    """
    Normal numbers, but the first rows hold one of: a NaN, an infinity, infinities of
    both signs, only the least floats, only zeros, only -inf.
    """
    array = floats(*shape)
    lines = array.reshape(-1, shape[-1]) if array.size else array.reshape(0, 1)
    edges: list[Sequence[float]] = [[np.nan], [np.inf], [np.inf, -np.inf]]
    edges += [[1e-45] * shape[-1], [0.0] * shape[-1], [-np.inf] * shape[-1]]
    for line, values in zip(lines, edges, strict=False):
        line[: len(values)] = values[: len(line)]
    return array


def edges(count: int = 53) -> Array:
    """All edges, in another order each time, and normal numbers."""
    return rng.permutation(np.concatenate([EDGES, floats(count - EDGES.size)]))


def integers(shape: Sequence[int], low: int = -9, high: int = 10) -> Array:
    """Integers of 64 bits."""
    return rng.integers(low, high, shape)


def filled(array: Array, shape: Sequence[int]) -> Array:
    """As many of an array's elements as a shape has, again and again, in any order."""
    return rng.permutation(np.resize(array, int(np.prod(shape)))).reshape(shape)


PAIRS = cycle(
    (
        *(((53,), (53,)), ((), (19,)), ((5, 1), (7,)), ((2, 3, 5), (1, 5))),
        *(((1,), (2, 1, 13, 1)), ((2, 1, 3, 1, 2), (5, 1, 7, 1)), ((7, 1), (1, 7))),
        *(((3, 1, 2, 1, 5, 1), (2, 2, 1, 3)), ((2, 1, 3), (1, 5, 1)), ((1, 1), ())),
    )
)
"""Shapes that broadcast; each op takes the next ones."""

################################################################################
# Elementwise ops                                                              #
################################################################################


def times_chance(x: Wide) -> Wide:
    """x times the chance that a standard normal variable is below it."""
    return np.asarray(x * special.ndtr(x))


def times_tanh(x: Wide) -> Wide:
    """The approximation of it."""
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def wrapped(function: Callable[[int, int], int]) -> Oracle:
    """A function of Python's integers, cut to 32 bits."""

    def of_arrays(a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
        cut = [(function(x, y) + 2**31) % 2**32 - 2**31 for x, y in pairs]
        return np.array(cut, np.int32).reshape(a.shape)

    return of_arrays


UNARY: Mapping[type[UnaryOp], tuple[Oracle, Mapping[str, Setting]]] = {
    ops.AbsOp: (np.abs, {}),
    ops.CeilOp: (np.ceil, {}),
    ops.ClipOp: (lambda x: np.clip(x, -0.75, 2), {"min": -0.75, "max": 2.0}),
    ops.ErfOp: (special.erf, {}),
    ops.ExpOp: (np.exp, {}),
    ops.FloorOp: (np.floor, {}),
    ops.LeakyReluOp: (lambda x: np.where(x > 0, x, x * 0.125), {"alpha": 0.125}),
    ops.LogOp: (np.log, {}),
    ops.NegOp: (np.negative, {}),
    ops.ReciprocalOp: (lambda x: 1 / x, {}),
    ops.ReluOp: (lambda x: np.maximum(x, 0), {}),
    ops.RsqrtOp: (lambda x: 1 / np.sqrt(x), {}),
    ops.SigmoidOp: (special.expit, {}),
    ops.SqrtOp: (np.sqrt, {}),
    ops.TanhOp: (np.tanh, {}),
    rounding.Log1pOp: (np.log1p, {}),
    rounding.RoundOp: (np.rint, {}),
    trigonometry.AcosOp: (np.arccos, {}),
    trigonometry.AcoshOp: (np.arccosh, {}),
    trigonometry.AsinOp: (np.arcsin, {}),
    trigonometry.AsinhOp: (np.arcsinh, {}),
    trigonometry.AtanOp: (np.arctan, {}),
    trigonometry.AtanhOp: (np.arctanh, {}),
    trigonometry.CosOp: (np.cos, {}),
    trigonometry.CoshOp: (np.cosh, {}),
    trigonometry.SinOp: (np.sin, {}),
    trigonometry.SinhOp: (np.sinh, {}),
    trigonometry.TanOp: (np.tan, {}),
}
BINARY: Mapping[type[BinaryOp], Oracle] = {
    ops.AddOp: np.add,
    ops.DivOp: np.divide,
    ops.MaximumOp: np.maximum,
    ops.MinimumOp: np.minimum,
    ops.MulOp: np.multiply,
    ops.PowOp: np.power,
    ops.RemOp: np.fmod,
    ops.SubOp: np.subtract,
    ops.EqualOp: np.equal,
    ops.GreaterEqualOp: np.greater_equal,
    ops.GreaterOp: np.greater,
    ops.LessEqualOp: np.less_equal,
    ops.LessOp: np.less,
    ops.NotEqualOp: np.not_equal,
}
OF_INTEGERS: Mapping[type[BinaryOp], Callable[[int, int], int]] = {
    ops.AddOp: lambda a, b: a + b,
    ops.BitAndOp: lambda a, b: a & b,
    ops.BitOrOp: lambda a, b: a | b,
    ops.BitXorOp: lambda a, b: a ^ b,
    ops.MaximumOp: max,
    ops.MinimumOp: min,
    ops.MulOp: lambda a, b: a * b,
    ops.ShiftLeftOp: lambda a, b: a << b if 0 <= b < 32 else 0,
    ops.ShiftRightOp: lambda a, b: a >> (b if 0 <= b < 32 else 31),
    ops.SubOp: lambda a, b: a - b,
}
OF_BOOLEANS: Mapping[type[BinaryOp], Oracle] = {
    ops.LogicalAndOp: np.logical_and,
    ops.LogicalOrOp: np.logical_or,
    ops.LogicalXorOp: np.logical_xor,
}


def elementwise() -> Iterator[Case]:
    """The cases of ops on single elements."""
    for op, (wanted, settings) in UNARY.items():
        yield Case(op, [edges()], wanted, settings)
        for shape in SHAPES:
            operand = filled(EDGES, shape)
            yield Case(op, [operand], wanted, settings, is_compiled=False)
    for form, wanted in (("none", times_chance), ("tanh", times_tanh)):
        # It is -inf times 0 that is no number, in both formulas.
        operand = edges()
        operand[operand == -np.inf] = -9.0
        settings = {"approximate": form}
        yield Case(ops.GeluOp, [operand], wanted, settings, absolute=2 * EPSILON)
    for op, wanted in BINARY.items():
        for index, shapes in zip(range(4), PAIRS, strict=False):
            operands = [filled(EDGES, shape) for shape in shapes]
            yield Case(op, operands, wanted, is_compiled=index == 0)
        is_first = op is ops.AddOp
        yield Case(op, [floats(0, 3), floats(1, 3)], wanted, is_compiled=is_first)
        wide = [edges().astype(np.float64) for _ in "ab"]
        yield Case(op, wide, wanted, is_compiled=False)
    for op, function in OF_INTEGERS.items():
        is_shift = op in (ops.ShiftLeftOp, ops.ShiftRightOp)
        right = np.arange(35, dtype=np.int32) if is_shift else INTEGER_EDGES
        pair = zip((INTEGER_EDGES, right), next(PAIRS), strict=True)
        operands = [filled(values, shape) for values, shape in pair]
        yield Case(op, operands, wrapped(function))
    for op, wanted in OF_BOOLEANS.items():
        operands = [rng.random(shape) < 0.5 for shape in next(PAIRS)]
        yield Case(op, operands, wanted)
    yield Case(ops.LogicalNotOp, [rng.random((7, 3)) < 0.5], np.logical_not)
    for shapes in (((5, 1), (7,), (3, 1, 1)), ((), (2, 3), (0, 2, 3)), ((1,), (), ())):
        condition, *others = shapes
        operands = [rng.random(condition) < 0.5, *(filled(EDGES, s) for s in others)]
        yield Case(ops.WhereOp, operands, np.where)
    x, message = edges(), {"message": "it does not hold"}
    yield Case(ops.RequireOp, [np.ones_like(x, "?"), x], lambda _, x: x, message)
    yield Case(ops.CastOp, [edges()], lambda x: x, {"to": f64})
    yield Case(ops.CastOp, [INTEGER_EDGES], lambda x: x.astype(np.uint8), {"to": ui8})
    bits = edges()
    wanted = bits.view(np.int32)
    settings = {"to": element_type_of(np.dtype(np.int32))}
    yield Case(ops.BitcastOp, [bits], lambda _: wanted, settings)
    yield Case(ops.FusedOp, [edges(), floats(2, 53)], fused_wanted, build=fused)
    yield Case(
        ops.FusedOp,
        [floats(5, 1), floats(7)],
        lambda a, b: [a + b, np.maximum(a + b, 0)],
        build=fused_twice,
    )
    yield Case(
        ops.FusedOp,
        [floats(7, 61), floats(7, 61)],
        lambda a, b: np.square(a - b).sum(1),
        build=squares_combined,
        absolute=64 * EPSILON,
    )


def fused(values: Sequence[SSAValue]) -> TensorOp:
    """relu(a + b) * a."""
    block = Block(arg_types=[value.type for value in values])
    total = ops.AddOp.inferred(block.args)
    positive = ops.ReluOp(total)
    product = ops.MulOp.inferred([positive, block.args[0]])
    block.add_ops([total, positive, product, ops.YieldOp(product)])
    return ops.FusedOp(values, Region(block))


def squares_combined(values: Sequence[SSAValue]) -> TensorOp:
    """The sums of the rows of (a - b) * (a - b)."""
    block = Block(arg_types=[value.type for value in values])
    difference = ops.SubOp.inferred(block.args)
    square = ops.MulOp.inferred([difference, difference])
    total = ops.ReduceSumOp.inferred([square], {"axes": int_list([1])})
    block.add_ops([difference, square, total, ops.YieldOp(total)])
    return ops.FusedOp(values, Region(block))


def fused_twice(values: Sequence[SSAValue]) -> TensorOp:
    """a + b, and relu(a + b)."""
    block = Block(arg_types=[value.type for value in values])
    total = ops.AddOp.inferred(block.args)
    positive = ops.ReluOp(total)
    block.add_ops([total, positive, ops.YieldOp(total, positive)])
    return ops.FusedOp(values, Region(block))


def fused_wanted(a: Wide, b: Wide) -> Array:
    """relu(a + b) * a, each step in 32 bits."""
    total = (a + b).astype(np.float32).astype(np.float64)
    return np.maximum(total, 0) * a


################################################################################
# Movement and indices                                                         #
################################################################################


def of_cube(array: Array) -> Iterator[Case]:
    """The cases of ops that move the elements of a tensor with three axes."""
    first, second, third = array.shape
    flat, wide = [third, second * first], [2, *array.shape]
    yield Case(ops.ReshapeOp, [array], lambda x: x.reshape(flat), {"shape": flat})
    order = {"permutation": [2, 0, 1]}
    yield Case(ops.TransposeOp, [array], lambda x: x.transpose(2, 0, 1), order)
    yield Case(
        ops.ExpandOp, [array], lambda x: np.broadcast_to(x, wide), {"shape": wide}
    )
    pads = [(1, 0), (0, 3), (2, 1)]
    constant = {"before": [1, 0, 2], "after": [0, 3, 1], "value": -2.5}
    yield Case(
        ops.PadOp, [array], lambda x: np.pad(x, pads, constant_values=-2.5), constant
    )
    if array.size:
        edge = {**constant, "mode": PadModeAttr(PadMode.EDGE)}
        yield Case(ops.PadOp, [array], lambda x: np.pad(x, pads, "edge"), edge)
    bounds = {"starts": [0, -1, 0], "ends": [99, -99, 1], "steps": [1, -2, 1]}
    yield Case(ops.SliceOp, [array], lambda x: x[:, ::-2, 0:1], bounds)
    parts = [array, array[:, :, :0], array]
    yield Case(ops.ConcatOp, parts, lambda *x: np.concatenate(x, 2), {"axis": 2})
    yield Case(
        ops.SplitOp,
        [array],
        lambda x: np.split(x, [0, second - 1], 1),
        {"axis": 1, "sizes": [0, second - 1, 1]},
    )
    places = integers((2, 3), -third, third)
    yield Case(
        ops.GatherOp,
        [array, places],
        lambda x, i: np.take(x, i, 2, mode="wrap"),
        {"axis": 2},
    )


def movement() -> Iterator[Case]:
    """The cases of ops that move elements, which are those that were there."""
    for array in (filled(EDGES, (3, 7, 5)), floats(0, 7, 5)):
        yield from of_cube(array)
    yield from (c._replace(is_compiled=False) for c in of_cube(floats(1, 1, 1)))
    for shape, offset, inside, outside in (
        ([2, 5, 7], 2, floats(), floats()),
        ([7, 5], -3, np.array(True), np.array(False)),
        ([0, 3], 0, floats(), floats()),
        ([2, 5, 7], -1, floats(2, 5, 7), floats()),
        ([3, 40], 20, integers((3, 40), -9, 9), integers((3, 40), -9, 9)),
    ):
        is_inside = np.broadcast_to(np.tri(shape[-2], shape[-1], offset), shape) > 0
        yield Case(
            ops.TriangleOp,
            [inside, outside],
            lambda a, b, is_inside=is_inside: np.where(is_inside, a, b),
            {"shape": shape, "offset": offset},
        )
    mirrored = {"before": [2, 1], "after": [1, 0], "mode": PadModeAttr(PadMode.REFLECT)}
    pads = [(2, 1), (1, 0)]
    yield Case(
        ops.PadOp, [floats(3, 7)], lambda x: np.pad(x, pads, "reflect"), mirrored
    )
    for array in (filled(EDGES, (3, 7)), floats(0, 2), INTEGER_EDGES):
        yield constant(array)
    yield from indexing()


def constant(array: Array) -> Case:
    """A constant of an array."""
    return Case(ops.ConstantOp, [], lambda: array, {"value": dense_of(array)})


def indexing() -> Iterator[Case]:
    """The cases of ops that read and write by indices."""
    for shape, count in (((5, 7), 4), ((1, 1), 1), ((5, 7), 0)):
        data = filled(EDGES, shape)
        along = integers((shape[0], count), 0, shape[1])
        axis = {"axis": 1}
        yield Case(
            ops.GatherElementsOp,
            [data, along],
            lambda x, i: np.take_along_axis(x, i, 1),
            axis,
        )
        points = np.stack([integers([count], 0, extent) for extent in shape], -1)
        yield Case(
            ops.GatherNdOp,
            [data, points],
            lambda x, i: x[i[:, 0], i[:, 1]],
            {"batch": 0},
        )
        for mode in ScatterMode:
            settings = {"mode": ScatterModeAttr(mode)}
            is_shown = mode in (ScatterMode.ADD, ScatterMode.SET)
            updates = floats(shape[0], count)
            yield Case(
                ops.ScatterElementsOp,
                [data, along, updates],
                lambda x, i, u, mode=mode: scattered(
                    x, [(a, i[a, b]) for a, b in np.ndindex(i.shape)], u.ravel(), mode
                ),
                {**settings, **axis},
                is_compiled=is_shown,
            )
            yield Case(
                ops.ScatterNdOp,
                [data, points, floats(count)],
                lambda x, i, u, mode=mode: scattered(x, [*map(tuple, i)], u, mode),
                settings,
                is_compiled=is_shown,
            )


def scattered(
    data: Wide, places: Sequence[tuple[int, ...]], updates: Wide, mode: ScatterMode
) -> Wide:
    """Updates written one after the other."""
    result = data.copy()
    functions: Mapping[str, np.ufunc] = {
        "add": np.add,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
    }
    for place, update in zip(places, updates, strict=True):
        old = result[place]
        new = update if mode == "set" else functions[mode.value](old, update)
        result[place] = np.float32(new)
    return result


################################################################################
# Lines                                                                        #
################################################################################


def normal(x: Wide, axis: int | tuple[int, ...]) -> Wide:
    """Elements along axes less their mean, over their deviation."""
    centered = x - x.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + 1e-5)


def softmax(x: Wide, axis: int = -1) -> Wide:
    """Powers along an axis over their sum; NaN where there is none."""
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax(x: Wide, axis: int = -1) -> Wide:
    """The logarithm of it."""
    less = x - x.max(axis, keepdims=True, initial=-np.inf)
    return less - np.log(np.exp(less).sum(axis, keepdims=True))


def of_lines(array: Array) -> Iterator[Case]:
    """The cases of ops on the rows of a matrix."""
    near: Absolute = {"absolute": 16 * EPSILON}
    for op, function in (
        (ops.ReduceMaxOp, np.max),
        (ops.ReduceMeanOp, np.mean),
        (ops.ReduceMinOp, np.min),
        (ops.ReduceProdOp, np.prod),
        (ops.ReduceSumOp, np.sum),
    ):
        yield Case(
            op,
            [array],
            lambda x, function=function: function(x, 1),
            {"axes": [1]},
            ulps=16,
            **near,
        )
    for axis in (0, 1):
        if array.shape[axis]:
            along = {"axis": axis}
            of = {"axis": axis}
            yield Case(
                ops.SoftmaxOp,
                [array],
                lambda x, of=of: softmax(x, **of),
                along,
                **near,
            )
            yield Case(
                ops.LogSoftmaxOp,
                [array],
                lambda x, of=of: log_softmax(x, **of),
                along,
                ulps=16,
                **near,
            )
    scale, bias = floats(array.shape[1]), floats(array.shape[1])
    yield Case(
        ops.LayerNormOp,
        [array, scale, bias],
        lambda x, s, b: normal(x, 1) * s + b,
        ulps=16,
        absolute=64 * EPSILON,
    )
    yield Case(
        ops.RmsNormOp,
        [array, scale],
        lambda x, s: x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * s,
        ulps=16,
        **near,
    )
    for op, function in ((ops.CumSumOp, np.cumsum), (ops.CumProdOp, np.cumprod)):
        yield Case(
            op,
            [array],
            lambda x, function=function: function(x, 1),
            {"axis": 1},
            ulps=32,
            absolute=32 * EPSILON,
        )
    for op, function in ((ops.ArgMaxOp, np.argmax), (ops.ArgMinOp, np.argmin)):
        yield Case(
            op,
            [array],
            lambda x, function=function: function(x, 1, keepdims=True),
            {"axis": 1},
        )
    count = min(3, array.shape[1])
    yield Case(
        ops.TopKOp,
        [array],
        lambda x, count=count: largest(x, count),
        {"axis": 1, "count": count},
    )


def finite() -> Iterator[Case]:
    """The cases of whether all elements of tensors are finite."""
    largest = np.array([6.5504e4, -6.5504e4, 6e-8], np.float16)
    for arrays in (
        [floats(7, 13)],
        [floats(7, 13), np.array([1.7e308]), largest, np.array(-0.0, np.float32)],
        [edges()],
        [floats(3), np.array([1.0, -np.inf])],
        [np.array(np.nan, np.float16), floats(5, 2)],
        [np.array([np.inf], np.float32), floats(0, 3)],
        [floats(0), floats(1, 1)],
    ):
        yield Case(
            ops.AllFiniteOp,
            arrays,
            lambda *x: np.array(all(np.isfinite(each).all() for each in x)),
        )


def lines() -> Iterator[Case]:
    """The cases of ops on lines of elements."""
    yield from finite()
    yield from of_lines(rows(7, 13))
    yield from of_lines(floats(0, 13))
    for array in (floats(1, 1), rows(13, 7).T.copy()):
        yield from (case._replace(is_compiled=False) for case in of_lines(array))
    yield Case(
        ops.FusedOp,
        [rows(7, 13), floats(13)],
        lambda x, b: softmax((x + b).astype(np.float32).astype(np.float64)),
        absolute=16 * EPSILON,
        build=softmax_rows,
    )
    yield Case(
        ops.WaveOp,
        [floats(7, 13), floats(5)],
        lambda x, w: [np.abs(x), -w],
        build=two_at_once,
    )


def counted() -> Iterator[Case]:
    """The cases of ops whose results have as many elements as data says."""
    sparse = np.where(rng.random((5, 7)) < 0.4, floats(5, 7), np.float32(0))
    for array in (rows(4, 3), sparse, integers((2, 3, 4), -1, 2), floats(0, 3)):
        yield Case(ops.NonZeroOp, [array], places_of_others)
    yield Case(ops.NonZeroOp, [rng.random(13) < 0.5], places_of_others)
    found = int(np.count_nonzero(sparse))
    yield Case(
        ops.NonZeroOp,
        [sparse],
        lambda x: [np.array(np.nonzero(x)), np.asarray(found)],
        {"max": found},
    )
    for shape, axis, length in (((4, 5, 6), 1, 5), ((7,), 0, 4), ((3, 0), 0, 3)):
        mask = rng.random(length) < 0.5
        array = integers(shape) if axis else rows(*shape)
        wanted = partial(kept_by, axis=axis)
        yield Case(ops.CompressOp, [array, mask], wanted, {"axis": axis})
    for array in (
        rng.choice(rows(4, 3).reshape(-1), 31),
        integers((23,), 0, 5),
        integers((9, 2), 0, 2),
        rng.random(5) < 0.5,
        floats(0),
        floats(3, 0),
    ):
        yield Case(ops.UniqueOp, [array], partial(told_apart, in_order=False))
        in_order = partial(told_apart, in_order=True)
        yield Case(ops.UniqueOp, [array], in_order, {"sorted": True})
    for images, classes, boxes, most, settings in (
        (2, 3, 41, 5, {}),
        (1, 2, 30, 50, {"centers": True}),
        (1, 1, 0, 5, {}),
        (1, 2, 6, 0, {}),
    ):
        corners = rng.random((images, boxes, 4)).astype(np.float32)
        scores = np.round(rng.random((images, classes, boxes)), 1).astype(np.float32)
        scores[..., :1] = np.nan
        limits = [np.asarray(number, np.float32) for number in (0.3, 0.25)]
        for thresholds in (limits, limits[:1]):
            yield Case(
                ops.NonMaxSuppressionOp,
                [corners, scores, *thresholds],
                partial(selected_boxes, most=most, **settings),
                {"most": most, **settings},
            )


def filled_up(found: Array, length: int, axis: int = 0, number: int = 0) -> Array:
    """An array with a number behind its elements along an axis."""
    pads = [(0, 0)] * found.ndim
    pads[axis] = (0, length - found.shape[axis])
    return np.pad(found, pads, constant_values=number)


def places_of_others(x: Wide) -> Sequence[Array]:
    """The places of numbers that are not zero, one a column, and their count."""
    places = np.array([at for at in np.ndindex(x.shape) if x[at] != 0], np.int64)
    found = places.reshape(-1, x.ndim).T
    return filled_up(found, x.size, 1), np.asarray(found.shape[1])


def kept_by(x: Wide, mask: Array, axis: int) -> Sequence[Array]:
    """The slices at which a mask holds, and their count."""
    found = np.take(x, [i for i, keep in enumerate(mask) if keep], axis)
    return filled_up(found, len(mask), axis), np.asarray(found.shape[axis])


def told_apart(x: Wide, *, in_order: bool) -> Sequence[Array]:
    """The differing rows, their first places, the places of all, times and count."""
    lines = [
        tuple(line.tolist()) for line in x.reshape(len(x), int(np.prod(x.shape[1:])))
    ]
    keys = [tuple((v != v, 0 if v != v else v) for v in line) for line in lines]
    order = sorted(set(keys)) if in_order else list(dict.fromkeys(keys))
    first = np.array([keys.index(key) for key in order], np.int64)
    place = np.array([order.index(key) for key in keys], np.int64)
    times = np.array([keys.count(key) for key in order], np.int64)
    found = (filled_up(each, len(x)) for each in (x[first], first))
    return *found, place, filled_up(times, len(x)), np.asarray(len(order))


def selected_boxes(
    boxes: Wide,
    scores: Wide,
    overlap: Wide,
    least: Wide | float = -np.inf,
    *,
    most: int,
    centers: bool = False,
) -> Sequence[Array]:
    """The boxes that stay, image by image and class by class."""
    if centers:
        low, size = boxes[..., :2], boxes[..., 2:]
        boxes = np.concatenate([low - size / 2, low + size / 2], 2)
    kept = np.full(scores.shape, -1, np.int64)
    found: list[tuple[int, ...]] = []
    for at in np.ndindex(scores.shape[:2]):
        line, stay = scores[at], list[int]()
        candidates = [i for i, score in enumerate(line) if score > least]
        for place in sorted(candidates, key=lambda i: (-line[i], i)):
            if len(stay) == most:
                break
            box = boxes[at[0], place]
            if all(shared(box, boxes[at[0], other]) <= overlap for other in stay):
                stay.append(place)
        kept[at][: len(stay)] = stay
        found += [(*at, place) for place in stay]
    room = int(np.prod(scores.shape[:2])) * min(most, scores.shape[2])
    rows = np.array(found, np.int64).reshape(-1, 3)
    return filled_up(rows, room), np.asarray(len(found)), kept


def shared(a: Wide, b: Wide) -> float:
    """Intersection over union of two boxes."""
    corners = [np.sort(box.reshape(2, 2), 0) for box in (a, b)]
    low = np.maximum(corners[0][0], corners[1][0])
    sides = np.maximum(np.minimum(corners[0][1], corners[1][1]) - low, 0)
    areas = sum(float(np.prod(high - low)) for low, high in corners)
    return float(np.prod(sides)) / (areas - float(np.prod(sides)))


def largest(x: Wide, count: int) -> Sequence[Array]:
    """The largest elements of each row, a NaN before all, and their places."""
    keys = np.where(np.isnan(x), np.inf, x)
    order = [
        sorted(range(x.shape[1]), key=lambda i: (not np.isnan(row[i]), -key[i], i))
        for row, key in zip(x, keys, strict=True)
    ]
    places = np.array(order, np.int64).reshape(x.shape)[:, :count]
    return np.take_along_axis(x, places, 1), places


def softmax_rows(values: Sequence[SSAValue]) -> TensorOp:
    """softmax(a + b)."""
    block = Block(arg_types=[value.type for value in values])
    total = ops.AddOp.inferred(block.args)
    shares = ops.SoftmaxOp.inferred([total], {"axis": IntegerAttr(-1, i64)})
    block.add_ops([total, shares, ops.YieldOp(shares)])
    return ops.FusedOp(values, Region(block))


def two_at_once(values: Sequence[SSAValue]) -> TensorOp:
    """|a| and -b."""
    block = Block(arg_types=[value.type for value in values])
    one, two = ops.AbsOp.inferred(block.args[:1]), ops.NegOp.inferred(block.args[1:])
    block.add_ops([one, two, YieldWaveOp([one.results[0], two.results[0]])])
    return ops.WaveOp(values, Region(block))


################################################################################
# Products and images                                                          #
################################################################################


def convolved(x: Wide, w: Wide, stride: int, groups: int) -> Wide:
    """A convolution with a pad of 1 before rows and after columns."""
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)])
    windows = sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    found = [np.einsum("nchwij,ocij->nohw", image, taps) for image, taps in parts]
    return np.concatenate(found, 1)


def pooled(x: Wide, function: Callable[..., Wide], fill: float) -> Wide:
    """Windows of 3 x 2, two rows apart, with a pad of 1 before rows."""
    pads = [(0, 0), (0, 0), (1, 0), (0, 0)]
    padded = np.pad(x, pads, constant_values=fill)
    return function(sliding_window_view(padded, (3, 2), (2, 3))[:, :, ::2], (4, 5))


def scaled(x: Wide) -> Wide:
    """Elements over a power of the squares of three channels."""
    squares = np.pad(x**2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(3))
    return x / (1 + 1e-4 / 3 * total) ** 0.75


def attended(q: Wide, k: Wide, v: Wide, mask: Wide) -> Wide:
    """Attention with a scale of a half."""
    return softmax(q @ k.swapaxes(-1, -2) / 2 + mask) @ v


def attended_before(q: Wide, k: Wide, v: Wide) -> Wide:
    """The same for keys up to the one after a row's number."""
    row, key = np.indices((q.shape[-2], k.shape[-2]))
    return attended(q, k, v, np.where(key > row + 1, -np.inf, 0.0))


def products() -> Iterator[Case]:
    """The cases of sums of products."""
    far: Bounds = {"ulps": 64, "absolute": 64 * EPSILON}
    for a, b in (
        (rows(2, 7, 13), floats(13, 5)),
        (floats(1, 1, 1), floats(1, 1)),
        (floats(2, 0, 3), floats(3, 5)),
        (floats(2, 7, 0), floats(0, 5)),
        (rows(7, 31), floats(31, 17)),
    ):
        yield Case(ops.MatmulOp, [a, b], np.matmul, **far)
    for a, b, c in (
        (rows(7, 11), floats(11, 5), floats(5)),
        (floats(1, 1), floats(1, 1), floats()),
        (floats(7, 0), floats(0, 5), floats(7, 1)),
    ):
        settings = {"alpha": 0.5, "beta": 2.0}
        yield Case(
            ops.GemmOp, [a, b, c], lambda a, b, c: a @ b / 2 + 2 * c, settings, **far
        )
    for x, w, groups in (
        (rows(2, 4, 7, 5), floats(6, 2, 3, 2), 2),
        (floats(1, 1, 2, 1), floats(1, 1, 3, 2), 1),
        (floats(0, 3, 7, 5), floats(2, 3, 3, 2), 1),
        (rows(1, 3, 7, 11), floats(3, 1, 3, 2), 3),
    ):
        settings = {"strides": [2, 1], "pads": [1, 0, 0, 1], "groups": groups}
        yield Case(
            ops.Conv2dOp,
            [x, w],
            lambda x, w, groups=groups: convolved(x, w, 2, groups),
            settings,
            **far,
        )
    yield Case(
        ops.FusedOp,
        [rows(7, 13), floats(13, 5), floats(7, 5)],
        lambda a, b, c: np.maximum(a @ b, c),
        build=epilogue,
        **far,
    )
    yield Case(
        ops.AttentionOp,
        [floats(2, 5, 7), floats(2, 11, 7), floats(2, 11, 3), rows(5, 11)],
        attended,
        {"scale": 0.5},
        **far,
    )
    yield Case(
        ops.AttentionOp,
        [floats(1, 1, 1), floats(1, 1, 1), floats(1, 1, 1), floats(1, 1)],
        attended,
        {"scale": 0.5},
        **far,
    )
    yield Case(
        ops.AttentionOp,
        [floats(2, 5, 7), floats(2, 11, 7), floats(2, 11, 3)],
        attended_before,
        {"scale": 0.5, "causal": 1},
        **far,
    )
    matrix = floats(4, 4)
    yield Case(
        ops.WinogradSplitOp,
        [matrix, rows(2, 3, 7, 6)],
        lambda m, x: np.einsum(
            "ia,nchwab,jb->ijcnhw",
            m,
            sliding_window_view(x, (4, 4), (2, 3))[:, :, ::2, ::2],
            m,
        ),
        {"step": 2},
        **far,
    )
    yield Case(
        ops.WinogradJoinOp,
        [floats(2, 4), floats(4, 4, 3, 1, 2, 5), floats(3)],
        lambda m, x, b: (
            np.einsum("ia,abcnhw,jb->nchiwj", m, x, m).reshape(1, 3, 4, 10)
            + b[:, None, None]
        ),
        **far,
    )


def epilogue(values: Sequence[SSAValue]) -> TensorOp:
    """max(a * b, c)."""
    block = Block(arg_types=[value.type for value in values])
    product = ops.MatmulOp.inferred(block.args[:2])
    bound = ops.MaximumOp.inferred([product, block.args[2]])
    block.add_ops([product, bound, ops.YieldOp(bound)])
    return ops.FusedOp(values, Region(block))


def of_images(x: Array) -> Iterator[Case]:
    """The cases of ops on images."""
    near: Bounds = {"ulps": 16, "absolute": 16 * EPSILON}
    window = {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 0]}
    yield Case(ops.MaxPool2dOp, [x], lambda x: pooled(x, np.max, -np.inf), window)
    counted = {**window, "count_include_pad": True}
    yield Case(
        ops.AveragePool2dOp, [x], lambda x: pooled(x, np.mean, 0), counted, **near
    )
    yield Case(
        ops.GlobalAveragePoolOp,
        [x],
        lambda x: x.mean((2, 3), keepdims=True),
        **near,
    )
    yield Case(ops.LocalResponseNormOp, [x], scaled, {"size": 3}, **near)
    statistics = [floats(x.shape[1]) for _ in range(3)]
    yield Case(
        ops.BatchNormOp,
        [x, *statistics, np.abs(floats(x.shape[1]))],
        lambda x, s, b, m, v: (
            (x - m[:, None, None]) * (s / np.sqrt(v + 1e-5))[:, None, None]
            + b[:, None, None]
        ),
        **near,
    )
    yield Case(
        ops.GroupNormOp,
        [x, *statistics[:2]],
        lambda x, s, b: normal(x, (2, 3)) * s[:, None, None] + b[:, None, None],
        {"groups": x.shape[1]},
        ulps=16,
        absolute=64 * EPSILON,
    )


def images() -> Iterator[Case]:
    """The cases of ops on images."""
    yield from of_images(rows(2, 3, 7, 5))
    yield from of_images(floats(0, 3, 7, 5))
    yield from (c._replace(is_compiled=False) for c in of_images(floats(1, 1, 2, 2)))


################################################################################
# Several pieces in a launch                                                   #
################################################################################

PIECES: Mapping[type[RateOp], int] = dict.fromkeys(
    (AccOp, LastOp, RepeatOp, PackOp, UnpackOp), 4
)
"""The acts of ops for a piece; they are compared by a test of their own."""

ELSEWHERE = PIECES.keys() | {ops.IfOp, ops.LoopOp, *TRAINING}
"""
Ops that no case is of; `test_frontend_loops.py` has those without a kernel, the folder
`training` those for training.
"""


@pytest.mark.parametrize(
    "pieces", [rows(8, 4, 3), floats(4, 4, 1), floats(8, 4, 0), rows(12, 8, 7)]
)
def test_ops_whose_pieces_last_for_several_acts(pieces: Array) -> None:
    value = create_ssa_value(
        TensorType(element_type_of(pieces.dtype), pieces.shape[1:])
    )
    whole = pieces.astype(np.float64)
    groups = np.split(whole, len(whole) // 4)
    parts = [np.split(piece, 4) for piece in whole]
    wanted: Mapping[type[RateOp], Wide] = {
        AccOp: np.stack([group.sum(0) for group in groups]),
        LastOp: np.stack([group[-1] for group in groups]),
        RepeatOp: np.stack([piece for piece in whole for _ in range(4)]),
        PackOp: np.stack([np.concatenate([*group]) for group in groups]),
        UnpackOp: np.stack([part for each in parts for part in each]),
    }
    assert wanted.keys() == PIECES.keys()
    for op, exact in wanted.items():
        made = op.inferred([value], {"count": IntegerAttr(PIECES[op], i64)})
        (found,) = made.evaluate(pieces)
        np.testing.assert_allclose(found.astype(np.float64), exact, 1e-6, 1e-6)
        assert found.shape[1:] == tensor_type(made.results[0]).get_shape()


################################################################################
# All of them                                                                  #
################################################################################

CASES = [
    *(*elementwise(), *movement(), *lines(), *counted()),
    *(*products(), *images()),
]
COMPILED = [case for case in CASES if case.is_compiled]


def identity(case: Case) -> str:
    """The name of a case."""
    shapes = "-".join("x".join(map(str, a.shape)) or "scalar" for a in case.operands)
    return f"{case.op.name}:{shapes}"


def test_every_op_has_a_case() -> None:
    all_ops = {op for op in ops.Op.operations if issubclass(op, TensorOp)}
    assert all_ops == {case.op for case in CASES} | ELSEWHERE
    is_shown = {case.op for case in COMPILED}
    assert all_ops - is_shown == ELSEWHERE


@pytest.mark.parametrize("case", CASES, ids=map(identity, CASES))
def test_meaning_is_what_the_oracle_says(case: Case) -> None:
    made = case.made([create_ssa_value(type) for type in case.types()])
    made.verify()
    with np.errstate(all="ignore"):
        results = made.evaluate(*case.operands)
    types = [tensor_type(value) for value in made.results]
    assert [a.shape for a in results] == [type.get_shape() for type in types]
    assert [a.dtype for a in results] == [dtype_of(type.element_type) for type in types]
    case.check(results)


def job_of(cases: Sequence[Case], device: str) -> tuple[JobOp, dict[str, Array]]:
    """
    All cases as one job on the first device of a kind, with its inputs: operand j of
    case i is called `x<i>_<j>`, its result j `y<i>_<j>`.
    """
    block, arrays = Block(), dict[str, Array]()
    for number, case in enumerate(cases):
        values: list[SSAValue] = []
        for index, (type, array) in enumerate(
            zip(case.types(), case.operands, strict=True)
        ):
            name = f"x{number}_{index}"
            arrays[name] = array
            block.add_op(input := InputOp(name, type))
            values.append(input.result)
        made = case.made(values)
        block.add_op(made)
        for index, result in enumerate(made.results):
            block.add_op(OutputOp(f"y{number}_{index}", result))
    return JobOp("audit", PlacementAttr(device, [(0, 0)]), Region(block)), arrays


class Audit(NamedTuple):
    """The kernels for the CPU of all cases, which are one job, and their results."""

    kernels: Sequence[KernelOp]
    outputs: Mapping[str, Array]


@pytest.fixture(scope="module")
def audit() -> Audit:
    job, arrays = job_of(COMPILED, "cpu")
    model = Model(ModuleOp([job]), {}, Path())
    with Session(model, compiler=installed_compiler()) as session:
        return Audit(kernels_of(session.program), session.run(arrays))


def kernels_of(root: Operation) -> list[KernelOp]:
    return [op for op in root.walk() if isinstance(op, KernelOp)]


def check_accesses(kernels: Sequence[KernelOp]) -> None:
    assert len(kernels) > len(COMPILED) / 2
    for kernel in kernels:
        assert not unproven_accesses(kernel), str(kernel)


@pytest.mark.slow
def test_kernels_are_proven_to_stay_in_their_memory(audit: Audit) -> None:
    check_accesses(audit.kernels)


@pytest.mark.slow
def test_kernels_of_devices_are_proven_to_stay_in_their_memory() -> None:
    model = Model(ModuleOp([job_of(COMPILED, "cuda")[0]]), {}, Path())
    lower(*installed_compiler(), model, CompileOptions("cuda"))
    check_accesses(kernels_of(model.module))


@pytest.mark.parametrize("number", range(len(COMPILED)), ids=map(identity, COMPILED))
def test_kernels_are_what_the_oracle_says(number: int, audit: Audit) -> None:
    found = {
        name: array
        for name, array in audit.outputs.items()
        if name.startswith(f"y{number}_")
    }
    COMPILED[number].check([found[f"y{number}_{i}"] for i in range(len(found))])
