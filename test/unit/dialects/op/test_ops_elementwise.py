"""
Elementwise ops: what they mean, against Python's and SciPy's functions, and whether
their kernels compute just that.
"""

import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import BroadcastableShapes, mutually_broadcastable_shapes
from numpy.typing import NDArray
from scipy import special
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.traits import Commutative, is_side_effect_free, is_speculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.activation import (
    ClipOp,
    GeluOp,
    LeakyReluOp,
    ReluOp,
    SigmoidOp,
    TanhOp,
)
from penstock.dialects.op.body import YieldOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.comparison import (
    EqualOp,
    GreaterEqualOp,
    GreaterOp,
    LessEqualOp,
    LessOp,
    LogicalAndOp,
    LogicalNotOp,
    LogicalOrOp,
    LogicalXorOp,
    NotEqualOp,
    WhereOp,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import (
    AbsOp,
    AddOp,
    BinaryOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    SubOp,
    UnaryOp,
)
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.op.tensor_op import Cost, ElementwiseOp, InPlacePair
from penstock.dialects.op.unary_math import (
    CeilOp,
    ErfOp,
    ExpOp,
    FloorOp,
    LogOp,
    RsqrtOp,
    SqrtOp,
)
from penstock.dialects.utils import signless
from penstock.dialects.utils.numpy_types import dense_of, dtype_of, element_type_of
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = NDArray[np.generic]
Properties: TypeAlias = Mapping[str, Attribute | None]
RunOp: TypeAlias = Callable[..., list[Array]]

NAN, INF = math.nan, math.inf
FLOATS = ["float16", "float32", "float64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = ["int8", "int16", "int32", "int64", *UNSIGNED]
TANH = {"approximate": StringAttr("tanh")}
ALPHA = {"alpha": FloatAttr(0.1, f64)}
CLIP = {"min": FloatAttr(-1.25, f64), "max": FloatAttr(2.5, f64)}


def operand(element: AnyFloat | IntegerType, shape: Sequence[int]) -> SSAValue:
    """A value that is a tensor."""
    return test.TestOp.create(result_types=[TensorType(element, shape)]).results[0]


def op_on(
    op: type[ElementwiseOp], *arrays: Array, properties: Properties | None = None
) -> ElementwiseOp:
    """An op whose operands have the types of the arrays."""
    operands = [operand(element_type_of(a.dtype), a.shape) for a in arrays]
    built = op.inferred(operands, properties)
    built.verify()
    return built


def evaluated(
    op: type[ElementwiseOp], *arrays: Array, properties: Properties | None = None
) -> Array:
    """The meaning of an op, of the type it should have, found without a warning."""
    built = op_on(op, *arrays, properties=properties)
    before = [array.copy() for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (result,) = built.evaluate(*arrays)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy, "an operand was written to")
    assert_has_type(result, tensor_type(built.results[0]))
    return result


def assert_has_type(array: Array, type: TensorType) -> None:
    """Check that an array is one, of the dtype and shape of a tensor type."""
    assert isinstance(array, np.ndarray)
    assert array.dtype == dtype_of(type.element_type)
    assert array.shape == type.get_shape()


def each(function: Callable[..., float], dtype: str, *arrays: Array) -> Array:
    """A Python function of the elements of arrays of one shape."""
    lists = [array.ravel().tolist() for array in arrays]
    numbers = [function(*row) for row in zip(*lists, strict=True)]
    if dtype in INTEGERS:
        return np.array([int(n) for n in numbers], dtype).reshape(arrays[0].shape)
    with np.errstate(over="ignore"):
        return np.array(numbers).astype(dtype).reshape(arrays[0].shape)


def uniform(
    dtype: str, low: float, high: float, shape: Sequence[int] = (6, 50), seed: int = 1
) -> Array:
    """Random floats."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def any_integers(dtype: str, seed: int = 1) -> Array:
    """Random integers of any size, with the extreme ones and small ones."""
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(seed)
    some = generator.integers(limits.min, limits.max, 60, dtype, endpoint=True)
    small = range(-2 if limits.min < 0 else 0, 3)
    corners = np.array([limits.min, limits.min + 1, *small, limits.max], dtype)
    pairs = np.array(np.meshgrid(corners, corners)).reshape(2, -1)
    return np.concatenate([some, pairs[seed % 2]])


def assert_close(got: Array, expected: Array, ulps: float) -> None:
    """Check floats, each to some units in its last place, and NaNs."""
    assert got.dtype == expected.dtype
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    a, b = got[finite].astype(np.float64), expected[finite].astype(np.float64)
    # The unit just below, as the largest float has none above it.
    below = np.nextafter(np.abs(expected[finite]), np.zeros_like(expected[finite]))
    error = np.abs(a - b) / np.spacing(below).astype(np.float64)
    assert error.max(initial=0) <= ulps


################################################################################
# Meaning: integers                                                            #
################################################################################


def truncated(a: int, b: int) -> int:
    """The quotient of two integers, rounded toward zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def wrapped(value: int, dtype: str) -> int:
    """An integer as its lower bits are read."""
    least, bits = int(np.iinfo(dtype).min), np.iinfo(dtype).bits
    return (value - least) % (1 << bits) + least


OF_ONE_INTEGER: dict[type[ElementwiseOp], Callable[[int], int]] = {
    AbsOp: abs,
    NegOp: lambda a: -a,
    ReluOp: lambda a: max(a, 0),
}
OF_TWO_INTEGERS: dict[type[ElementwiseOp], Callable[[int, int], int]] = {
    AddOp: lambda a, b: a + b,
    DivOp: truncated,
    MaximumOp: max,
    MinimumOp: min,
    MulOp: lambda a, b: a * b,
    SubOp: lambda a, b: a - b,
}
INTEGER_MEANINGS: dict[type[ElementwiseOp], Callable[..., int]] = {
    **OF_ONE_INTEGER,
    **OF_TWO_INTEGERS,
}


def integer_operands(op: type[ElementwiseOp], dtype: str) -> list[Array]:
    """Operands that the op takes, the extreme ones in all combinations."""
    operands = [any_integers(dtype, seed) for seed in (1, 2)]
    if op is DivOp:
        keep = operands[1] != 0
        return [operands[0][keep], operands[1][keep]]
    return operands[: 1 if issubclass(op, UnaryOp) else 2]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_MEANINGS)
def test_integers_wrap(op: type[ElementwiseOp], dtype: str):
    arrays = integer_operands(op, dtype)
    function = INTEGER_MEANINGS[op]

    def meaning(*row: int) -> int:
        return wrapped(function(*row), dtype)

    expected = each(meaning, dtype, *arrays)
    np.testing.assert_array_equal(evaluated(op, *arrays), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_by_zero_has_no_result(dtype: str):
    a, b = np.array([4, 5], dtype), np.array([2, 0], dtype)
    with pytest.raises(ZeroDivisionError, match=r"^integer division by zero$"):
        evaluated(DivOp, a, b)


def test_nothing_is_divided_by_a_zero_that_no_element_meets():
    a, b = np.zeros((0, 1), np.int32), np.zeros((1, 3), np.int32)
    assert evaluated(DivOp, a, b).size == 0


################################################################################
# Meaning: floats                                                              #
################################################################################

EXACT_OF_ONE: dict[type[ElementwiseOp], Callable[[float], float]] = {
    AbsOp: abs,
    CeilOp: math.ceil,
    FloorOp: math.floor,
    NegOp: lambda a: -a,
    ReciprocalOp: lambda a: 1 / a,
    ReluOp: lambda a: max(a, 0.0),
    SqrtOp: lambda a: math.sqrt(a) if a >= 0 else NAN,
}
EXACT_OF_TWO: dict[type[ElementwiseOp], Callable[[float, float], float]] = {
    AddOp: lambda a, b: a + b,
    DivOp: lambda a, b: a / b,
    MaximumOp: max,
    MinimumOp: min,
    MulOp: lambda a, b: a * b,
    SubOp: lambda a, b: a - b,
}
EXACT_MEANINGS: dict[type[ElementwiseOp], Callable[..., float]] = {
    **EXACT_OF_ONE,
    **EXACT_OF_TWO,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", EXACT_MEANINGS)
def test_arithmetic_of_floats_is_rounded_once(op: type[ElementwiseOp], dtype: str):
    # A result of double precision that is rounded again is the rounded exact one.
    arrays = [uniform(dtype, -9, 9, seed=seed) for seed in (1, 2)]
    arrays = arrays[: 1 if issubclass(op, UnaryOp) else 2]
    expected = each(EXACT_MEANINGS[op], dtype, *arrays)
    np.testing.assert_array_equal(evaluated(op, *arrays), expected)


def reciprocal_root(a: float) -> float:
    """One divided by the square root."""
    return 1 / math.sqrt(a)


FUNCTION_MEANINGS: dict[
    type[ElementwiseOp], tuple[Callable[..., float], float, float]
] = {
    ErfOp: (math.erf, -4, 4),
    ExpOp: (math.exp, -9, 9),
    LogOp: (math.log, 1e-3, 100),
    PowOp: (math.pow, 0.01, 5),
    RsqrtOp: (reciprocal_root, 1e-3, 100),
    SigmoidOp: (special.expit, -15, 15),
    TanhOp: (math.tanh, -4, 4),
}
"""The function in double precision, and where it is looked at."""


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FUNCTION_MEANINGS)
def test_functions_of_floats(op: type[ElementwiseOp], dtype: str):
    function, low, high = FUNCTION_MEANINGS[op]
    arrays = [uniform(dtype, low, high, seed=seed) for seed in (1, 2)]
    arrays = arrays[: 1 if issubclass(op, UnaryOp) else 2]
    expected = each(function, dtype, *arrays)
    # NumPy states 4 for its vectorised functions; the sigmoid rounds twice more.
    assert_close(evaluated(op, *arrays), expected, 4)


def gelu(a: float) -> float:
    """The exact gelu: its element times the normal distribution function of it."""
    return a * float(special.ndtr(a))


def gelu_by_tanh(a: float) -> float:
    """The approximate gelu; (1 + tanh(z)) / 2 is the logistic function of 2 z."""
    slope = math.sqrt(8 / math.pi) * (1 + 0.044715 * a**2)
    return a * float(special.expit(a * slope))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("properties", "function"), [(None, gelu), (TANH, gelu_by_tanh)]
)
def test_gelu(properties: Properties, function: Callable[[float], float], dtype: str):
    a = uniform(dtype, -9, 9)
    got = evaluated(GeluOp, a, properties=properties)
    error = np.abs(np.subtract(got, each(function, dtype, a)))
    # 1 + erf cancels for negative elements: half a unit of 1 there and one rounding
    # for each of five (eight) operations, all times the element.
    assert (error <= 4 * np.finfo(dtype).eps * np.abs(a)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_leaky_relu_and_clip(dtype: str):
    a = uniform(dtype, -4, 4)
    slope = float(np.array(0.1, dtype))

    def leaky(x: float) -> float:
        return x if x > 0 else x * slope

    def clipped(x: float) -> float:
        return min(max(x, -1.25), 2.5)

    got = evaluated(LeakyReluOp, a, properties=ALPHA)
    np.testing.assert_array_equal(got, each(leaky, dtype, a))
    got = evaluated(ClipOp, a, properties=CLIP)
    np.testing.assert_array_equal(got, each(clipped, dtype, a))


def test_a_bound_may_be_left_out_or_be_the_wrong_way_round():
    a = np.array([-3, 0, 3], np.float32)
    low, high = FloatAttr(1.0, f64), FloatAttr(-1.0, f64)

    def clipped(properties: Properties) -> object:
        return evaluated(ClipOp, a, properties=properties).tolist()

    assert clipped({"min": low}) == [1, 1, 3]
    assert clipped({"max": high}) == [-3, -1, -1]
    assert clipped({}) == [-3, 0, 3]
    assert clipped({"min": low, "max": high}) == [-1, -1, -1]


SPECIAL: list[tuple[type[ElementwiseOp], Properties, Sequence[float], float]] = [
    *((op, {}, [NAN], NAN) for op in (AbsOp, CeilOp, ErfOp, ExpOp, FloorOp, GeluOp)),
    *((op, {}, [NAN], NAN) for op in (LogOp, NegOp, ReciprocalOp, ReluOp, RsqrtOp)),
    *((op, {}, [NAN], NAN) for op in (SigmoidOp, SqrtOp, TanhOp)),
    (GeluOp, TANH, [NAN], NAN),
    (LeakyReluOp, ALPHA, [NAN], NAN),
    (ClipOp, CLIP, [NAN], NAN),
    (AbsOp, {}, [-INF], INF),
    (AddOp, {}, [INF, -INF], NAN),
    (CeilOp, {}, [-INF], -INF),
    (ClipOp, CLIP, [INF], 2.5),
    (ClipOp, CLIP, [-INF], -1.25),
    (DivOp, {}, [1, 0.0], INF),
    (DivOp, {}, [1, -0.0], -INF),
    (DivOp, {}, [0, 0], NAN),
    (ErfOp, {}, [-INF], -1),
    (ExpOp, {}, [1000], INF),
    (ExpOp, {}, [-1000], 0),
    (ExpOp, {}, [-INF], 0),
    (FloorOp, {}, [INF], INF),
    (GeluOp, {}, [INF], INF),
    (GeluOp, TANH, [INF], INF),
    (GeluOp, {}, [-300], 0),
    (GeluOp, TANH, [-300], 0),
    (GeluOp, {}, [300], 300),
    (GeluOp, TANH, [300], 300),
    (LeakyReluOp, ALPHA, [-INF], -INF),
    (LogOp, {}, [0], -INF),
    (LogOp, {}, [-1], NAN),
    (LogOp, {}, [INF], INF),
    (MaximumOp, {}, [NAN, 1], NAN),
    (MaximumOp, {}, [1, NAN], NAN),
    (MinimumOp, {}, [NAN, 1], NAN),
    (MinimumOp, {}, [1, NAN], NAN),
    (MulOp, {}, [0, INF], NAN),
    (PowOp, {}, [0, 0], 1),
    (PowOp, {}, [0, -1], INF),
    (PowOp, {}, [-8, 3], -512),
    (PowOp, {}, [-8, 0.5], NAN),
    (PowOp, {}, [NAN, 0], 1),
    (ReciprocalOp, {}, [-0.0], -INF),
    (ReluOp, {}, [-INF], 0),
    (RsqrtOp, {}, [0], INF),
    (RsqrtOp, {}, [-1], NAN),
    (SigmoidOp, {}, [-1000], 0),
    (SigmoidOp, {}, [1000], 1),
    (SigmoidOp, {}, [-INF], 0),
    (SqrtOp, {}, [-1], NAN),
    (SubOp, {}, [INF, INF], NAN),
    (TanhOp, {}, [-1000], -1),
    (TanhOp, {}, [INF], 1),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "properties", "operands", "expected"), SPECIAL)
def test_special_floats(
    op: type[ElementwiseOp],
    properties: Properties,
    operands: Sequence[float],
    expected: float,
    dtype: str,
):
    arrays = [np.array(number, dtype) for number in operands]
    result = evaluated(op, *arrays, properties=properties)
    np.testing.assert_array_equal(result, np.array(expected, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("number", [0.0, -0.0])
def test_signs_of_zero(number: float, dtype: str):
    a = np.array([number], dtype)
    negative = bool(np.signbit(a[0]))
    assert bool(np.signbit(evaluated(NegOp, a)[0])) is not negative
    assert not np.signbit(evaluated(AbsOp, a)[0])
    for op in (FloorOp, CeilOp, SqrtOp, TanhOp, ErfOp):
        assert bool(np.signbit(evaluated(op, a)[0])) is negative


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_least_floats_are_not_flushed(dtype: str):
    a = np.array([np.finfo(dtype).smallest_subnormal], dtype)
    assert (evaluated(AddOp, a, a) == 2 * a).all()
    assert (evaluated(MulOp, a, np.ones_like(a)) == a).all()
    assert (evaluated(MaximumOp, a, np.zeros_like(a)) == a).all()


################################################################################
# Meaning: booleans and casts                                                  #
################################################################################

RELATIONS: dict[type[ElementwiseOp], Callable[..., bool]] = {
    EqualOp: operator.eq,
    GreaterEqualOp: operator.ge,
    GreaterOp: operator.gt,
    LessEqualOp: operator.le,
    LessOp: operator.lt,
    NotEqualOp: operator.ne,
}

LOGIC_OF_TWO: dict[type[ElementwiseOp], Callable[[bool, bool], bool]] = {
    LogicalAndOp: lambda a, b: a and b,
    LogicalOrOp: lambda a, b: a or b,
    LogicalXorOp: lambda a, b: a is not b,
}
LOGIC: dict[type[ElementwiseOp], Callable[..., bool]] = {
    LogicalNotOp: operator.not_,
    **LOGIC_OF_TWO,
}

PAIRS_OF_BOOLEANS = [
    np.array([False, False, True, True]),
    np.array([False, True, False, True]),
]


def corner_pairs(dtype: str) -> list[Array]:
    """All pairs of some numbers: two operands."""
    corners = {
        "b": [False, True],
        "i": [-128, -1, 0, 1, 127],
        "u": [0, 1, 127, 128, 255],
        "f": [NAN, -INF, -1.5, -0.0, 0.0, 1.5, INF],
    }[np.dtype(dtype).kind]
    grid = np.meshgrid(corners, corners)
    return [axis.ravel().astype(dtype) for axis in grid]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("op", RELATIONS)
def test_relations(op: type[ElementwiseOp], dtype: str):
    pairs = corner_pairs(dtype)
    expected = each(RELATIONS[op], "bool", *pairs)
    np.testing.assert_array_equal(evaluated(op, *pairs), expected)


@pytest.mark.parametrize("op", LOGIC)
def test_logic(op: type[ElementwiseOp]):
    pairs = PAIRS_OF_BOOLEANS[: 1 if issubclass(op, UnaryOp) else 2]
    expected = each(LOGIC[op], "bool", *pairs)
    np.testing.assert_array_equal(evaluated(op, *pairs), expected)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_where_chooses_between_broadcast_operands(dtype: str):
    condition = np.array([[True], [False]])
    a, b = np.array([0, 1, 1], dtype), np.array(1, dtype)
    expected = np.array([[0, 1, 1], [1, 1, 1]], dtype)
    np.testing.assert_array_equal(evaluated(WhereOp, condition, a, b), expected)


ELEMENTS = [f16, f32, f64, i1, i8, i16, i32, i64, *signless.UNSIGNED]


def cast_number(number: float, target: str) -> float:
    """A number as one of another type, in Python's terms."""
    if target == "bool":
        return number != 0
    return wrapped(int(number), target) if target in INTEGERS else float(number)


@pytest.mark.parametrize("target", ELEMENTS)
@pytest.mark.parametrize("source", ELEMENTS)
def test_casts(source: AnyFloat | IntegerType, target: AnyFloat | IntegerType):
    dtypes = dtype_of(source).name, dtype_of(target).name
    a = cast_operand(*dtypes)

    def meaning(number: float) -> float:
        return cast_number(number, dtypes[1])

    expected = each(meaning, dtypes[1], a)
    got = evaluated(CastOp, a, properties={"to": target})
    np.testing.assert_array_equal(got, expected)


def cast_operand(dtype: str, target: str) -> Array:
    """Numbers that every such type but the boolean one can hold the whole part of."""
    if dtype in INTEGERS:
        # Their lower bits are taken where there are too many.
        return any_integers(dtype)[:60]
    numbers = np.array([-127.9, -1.5, -0.5, -0.0, 0, 0.5, 0.999, 1, 1.5, 126.7], dtype)
    return numbers[numbers > -1] if target in UNSIGNED else numbers


def test_small_results_of_the_sigmoid_are_not_lost():
    a = uniform("float32", -103, -80)
    # 4 units of NumPy's exp, where most results are subnormal.
    assert_close(evaluated(SigmoidOp, a), each(special.expit, "float32", a), 4)


def test_a_nan_is_true():
    a = np.array([NAN, INF, -0.0], np.float32)
    got = evaluated(CastOp, a, properties={"to": i1})
    assert got.tolist() == [True, True, False]


################################################################################
# Broadcasting, cost and what else follows from types                          #
################################################################################


@settings(max_examples=60, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4))
def test_two_operands_are_broadcast(shapes: BroadcastableShapes):
    a, b = (uniform("float32", -9, 9, shape) for shape in shapes.input_shapes)
    result = evaluated(SubOp, a, b)
    assert result.shape == shapes.result_shape
    for index in np.ndindex(result.shape):
        assert result[index] == element(a, index) - element(b, index)


@settings(max_examples=30, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_dims=4))
def test_three_operands_are_broadcast(shapes: BroadcastableShapes):
    c, a, b = (uniform("float32", -9, 9, shape) for shape in shapes.input_shapes)
    result = evaluated(WhereOp, np.greater(c, 0), a, b)
    assert result.shape == shapes.result_shape
    for index in np.ndindex(result.shape):
        chosen = a if element(c, index) > 0 else b
        assert result[index] == element(chosen, index)


def element(array: Array, index: Sequence[int]) -> np.float32:
    """The element that broadcasting puts at an index of the result."""
    last = index[len(index) - array.ndim :]
    own = tuple(
        0 if extent == 1 else i for i, extent in zip(last, array.shape, strict=True)
    )
    return np.float32(array[own])


@given(st.sampled_from([0, 1]), st.sampled_from(["float32", "int64"]))
@settings(deadline=None)
def test_commutative_ops_are_those_whose_operands_can_be_swapped(seed: int, dtype: str):
    a, b = (uniform(dtype, 1, 90, seed=2 * seed + i) for i in (0, 1))
    for op in (AddOp, DivOp, MaximumOp, MinimumOp, MulOp, SubOp, *RELATIONS):
        same = np.array_equal(evaluated(op, a, b), evaluated(op, b, a))
        assert op.has_trait(Commutative) == same


@pytest.mark.parametrize("op", [LogicalAndOp, LogicalOrOp, LogicalXorOp])
def test_logic_is_commutative(op: type[ElementwiseOp]):
    assert op.has_trait(Commutative)


@pytest.mark.parametrize(
    ("op", "properties", "flops"),
    [
        (ExpOp, {}, 1),
        (RsqrtOp, {}, 2),
        (LeakyReluOp, ALPHA, 3),
        (ClipOp, CLIP, 2),
        (ClipOp, {"max": FloatAttr(1.0, f64)}, 1),
        (SigmoidOp, {}, 7),
        (GeluOp, {}, 5),
        (GeluOp, TANH, 8),
    ],
)
def test_scalar_operations_per_element(
    op: type[ElementwiseOp], properties: Properties, flops: int
):
    built = op.inferred([operand(f32, [2, 3])], properties)
    assert built.cost() == Cost(6 * flops, 48)


def test_the_cost_of_a_broadcast_counts_the_result():
    built = AddOp.inferred([operand(f64, [4, 1]), operand(f64, [3])])
    assert built.cost() == Cost(12, 8 * (4 + 3 + 12))


def test_a_value_that_is_read_twice_is_moved_once():
    a = operand(f32, [5])
    assert MulOp.inferred([a, a]).cost() == Cost(5, 4 * (5 + 5))


def test_in_place_pairs_are_operands_of_the_size_of_the_result():
    whole, row, condition = operand(f32, [4, 3]), operand(f32, [3]), operand(i1, [4, 3])
    assert AddOp.inferred([whole, row]).in_place_pairs() == (InPlacePair(0, 0),)
    assert AddOp.inferred([row, whole]).in_place_pairs() == (InPlacePair(1, 0),)
    assert AddOp.inferred([row, operand(f32, [4, 1])]).in_place_pairs() == ()
    where = WhereOp.inferred([condition, row, whole])
    assert where.in_place_pairs() == (InPlacePair(2, 0),)
    assert LessOp.inferred([whole, whole]).in_place_pairs() == ()
    assert CastOp(whole, i32).in_place_pairs() == (InPlacePair(0, 0),)
    assert CastOp(whole, f64).in_place_pairs() == ()
    assert CastOp(condition, i8).in_place_pairs() == (InPlacePair(0, 0),)


def test_ops_are_built_from_python_values():
    a = operand(f32, [4])
    for op in (
        ExpOp(a),
        GeluOp(a),
        GeluOp(a, "tanh"),
        LeakyReluOp(a),
        ClipOp(a, max=6),
    ):
        op.verify()
        assert op.results[0].type == a.type
    assert GeluOp(a).approximate.data == "none"
    assert LeakyReluOp(a).alpha.value.data == 0.01
    assert ClipOp(a, -1, 6.5).min == FloatAttr(-1.0, f64)
    cast = CastOp(a, i8)
    cast.verify()
    assert cast.result.type == TensorType(i8, [4])


def test_only_a_division_that_may_fail_must_not_be_moved():
    a, b = operand(i32, [2]), operand(f32, [2])
    sure = ConstantOp(dense_of(np.array([1, -1], np.int32)))
    unsure = ConstantOp(dense_of(np.array([1, 0], np.int32)))
    assert is_speculatable(AddOp.inferred([a, a]))
    assert is_speculatable(DivOp.inferred([b, b]))
    assert is_speculatable(DivOp.inferred([a, sure]))
    for divisor in (a, unsure):
        op = DivOp.inferred([a, divisor])
        assert is_side_effect_free(op)
        assert not is_speculatable(op)
        assert not is_speculatable(fused([a, SSAValue.get(divisor)], DivOp))
    assert is_speculatable(fused([a, a], AddOp))


################################################################################
# Fused ops                                                                    #
################################################################################


def fused(operands: Sequence[SSAValue], op: type[BinaryOp]) -> FusedOp:
    """A group of one op on two operands."""
    block = Block(arg_types=[value.type for value in operands])
    inner = op.inferred(block.args)
    block.add_ops([inner, YieldOp(inner)])
    return FusedOp(operands, Region(block))


def scaled_gate(x: SSAValue, gate: SSAValue) -> FusedOp:
    """where(gate > 0.5, 2.0, -x) * exp(gate): an operand, a constant, a relation."""
    block = Block(arg_types=[x.type, gate.type])
    half = ConstantOp(dense_of(np.array(0.5, np.float32)))
    two = ConstantOp(dense_of(np.full((3, 1), 2, np.float32)))
    chosen = GreaterOp.inferred([block.args[1], half])
    negated = NegOp(block.args[0])
    value = WhereOp.inferred([chosen, two, negated])
    exp = ExpOp(block.args[1])
    product = MulOp.inferred([value, exp])
    block.add_ops([half, two, chosen, negated, value, exp, product, YieldOp(product)])
    return FusedOp([x, gate], Region(block))


def gate_operands() -> list[Array]:
    """Operands of `scaled_gate`, which has a result of another shape than both."""
    return [uniform("float32", -2, 2, (3, 1)), uniform("float32", 0, 1, (4,), seed=2)]


def test_a_group_means_what_its_ops_mean_one_after_the_other():
    x, gate = gate_operands()
    op = scaled_gate(operand(f32, x.shape), operand(f32, gate.shape))
    op.verify()
    (result,) = op.evaluate(x, gate)
    assert_has_type(result, TensorType(f32, [3, 4]))
    chosen = np.where(np.greater(gate, 0.5), np.float32(2), np.negative(x))
    expected = np.multiply(chosen, np.exp(gate))
    np.testing.assert_array_equal(result, expected)


def test_a_group_computes_every_op_for_each_element_of_its_result():
    op = scaled_gate(operand(f32, [3, 1]), operand(f32, [4]))
    # A comparison, a negation, a choice, exp and a product.
    assert op.cost() == Cost(5 * 12, 4 * (3 + 4 + 12))
    assert op.in_place_pairs() == ()


def test_a_group_of_no_elements_takes_no_operations():
    op = scaled_gate(operand(f32, [3, 1]), operand(f32, [0]))
    assert op.flops() == 0


def test_an_empty_constant_can_be_part_of_a_group():
    block = Block(arg_types=[TensorType(f32, [0])])
    empty = ConstantOp(dense_of(np.zeros(0, np.float32)))
    total = AddOp.inferred([block.args[0], empty])
    block.add_ops([empty, total, YieldOp(total)])
    FusedOp([operand(f32, [0])], Region(block)).verify()


def test_an_operand_must_reach_the_result():
    block = Block(arg_types=[TensorType(f32, [3]), TensorType(f32, [])])
    block.add_op(YieldOp(block.args[1]))
    op = FusedOp([operand(f32, [3]), operand(f32, [])], Region(block))
    with pytest.raises(
        VerifyException,
        match=r"^an operand of shape 3 does not broadcast to the result's scalar$",
    ):
        op.infer_types()


################################################################################
# Kernels                                                                      #
################################################################################


def corner_floats(dtype: str, seed: int = 1) -> Array:
    """Random floats of some sizes, with special ones in all combinations."""
    info = np.finfo(dtype)
    corners = np.array(
        [
            *(NAN, -INF, INF, 0.0, -0.0, 1, -1, 100, -100, info.max, info.min),
            *(info.smallest_subnormal, info.smallest_normal, -info.smallest_normal),
        ],
        dtype,
    )
    pairs = np.array(np.meshgrid(corners, corners)).reshape(2, -1)[seed % 2]
    return np.concatenate([pairs, uniform(dtype, -9, 9, (60,), seed)]).reshape(4, -1)


def check_kernel(
    run_op: RunOp,
    op: type[ElementwiseOp],
    *arrays: Array,
    properties: Properties | None = None,
    ulps: float = 0,
) -> None:
    """Compare the kernel of an op with its meaning."""
    built = op_on(op, *arrays, properties=properties)
    # Kernels round floats of 16 bits once.
    (expected,) = built.meaning(*arrays)
    (result,) = run_op(built, *arrays)
    if expected.dtype.kind == "f":
        assert_close(result, expected, ulps)
    else:
        np.testing.assert_array_equal(result, expected)


FLOAT_KERNELS: list[tuple[type[ElementwiseOp], Properties, float]] = [
    *((op, {}, 0) for op in EXACT_MEANINGS),
    *((op, {}, 0) for op in RELATIONS),
    (ClipOp, CLIP, 0),
    (LeakyReluOp, ALPHA, 0),
    (RsqrtOp, {}, 0),
    # NumPy's float32 functions are within 4 units, those of the C library within 1;
    # a sigmoid has an exp of that error in it.
    *((op, {}, 5) for op in (ErfOp, ExpOp, LogOp, PowOp, SigmoidOp, TanhOp)),
]


@pytest.mark.parametrize(("op", "properties", "ulps"), FLOAT_KERNELS)
def test_kernels_of_floats(
    run_op: RunOp, op: type[ElementwiseOp], properties: Properties, ulps: float
):
    arrays = [corner_floats("float32", seed) for seed in (1, 2)]
    arrays = arrays[: 1 if issubclass(op, UnaryOp) else 2]
    check_kernel(run_op, op, *arrays, properties=properties, ulps=ulps)


@pytest.mark.parametrize("properties", [{}, TANH])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_of_gelu(run_op: RunOp, properties: Properties, dtype: str):
    a = corner_floats(dtype)
    expected = evaluated(GeluOp, a, properties=properties)
    (result,) = run_op(op_on(GeluOp, a, properties=properties), a)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    error = np.abs(np.subtract(result[finite], expected[finite]))
    # 1 + erf cancels where the element is negative: units of 1 times the element.
    assert (error <= 4 * np.finfo(dtype).eps * np.abs(a[finite])).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(("op", "properties", "ulps"), FLOAT_KERNELS)
def test_kernels_of_wide_and_narrow_floats(
    run_op: RunOp,
    op: type[ElementwiseOp],
    properties: Properties,
    ulps: float,
    dtype: str,
):
    arrays = [corner_floats(dtype, seed) for seed in (1, 2)]
    arrays = arrays[: 1 if issubclass(op, UnaryOp) else 2]
    check_kernel(run_op, op, *arrays, properties=properties, ulps=ulps)


INTEGER_KERNELS = [
    (AbsOp, "int16"),
    (AddOp, "int8"),
    (DivOp, "int8"),
    (DivOp, "int64"),
    (MaximumOp, "int64"),
    (MulOp, "int32"),
    (NegOp, "int8"),
    (ReluOp, "int32"),
    (SubOp, "int64"),
]


@pytest.mark.parametrize(("op", "dtype"), INTEGER_KERNELS)
def test_kernels_of_integers(run_op: RunOp, op: type[ElementwiseOp], dtype: str):
    check_kernel(run_op, op, *integer_operands(op, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_MEANINGS)
def test_kernels_of_all_integers(run_op: RunOp, op: type[ElementwiseOp], dtype: str):
    check_kernel(run_op, op, *integer_operands(op, dtype))


def test_a_kernel_stops_where_an_integer_is_divided_by_zero(run_op: RunOp):
    a, b = np.arange(6, dtype=np.int32).reshape(2, 3), np.array([1, 0, 2], np.int32)
    with pytest.raises(RuntimeError, match=r"^integer division by zero$"):
        run_op(op_on(DivOp, a, b), a, b)


def test_a_fused_kernel_stops_where_an_integer_is_divided_by_zero(run_op: RunOp):
    a, b = np.array([4, 5], np.int64), np.array([1, 0], np.int64)
    op = fused([operand(i64, [2]), operand(i64, [2])], DivOp)
    with pytest.raises(RuntimeError, match=r"^integer division by zero$"):
        run_op(op, a, b)


@pytest.mark.parametrize("op", LOGIC)
def test_kernels_of_logic(run_op: RunOp, op: type[ElementwiseOp]):
    check_kernel(run_op, op, *PAIRS_OF_BOOLEANS[: 1 if op is LogicalNotOp else 2])


@pytest.mark.parametrize(
    ("op", "dtype"),
    [(EqualOp, "bool"), (GreaterEqualOp, "bool"), (LessOp, "bool"), (LessOp, "int8")],
)
def test_kernels_of_relations(run_op: RunOp, op: type[ElementwiseOp], dtype: str):
    check_kernel(run_op, op, *corner_pairs(dtype))


CASTS = [
    *((f32, target) for target in (f16, f64, i1, i8, i64)),
    (f64, f32),
    (i1, f32),
    (i1, i32),
    (i8, i64),
    (i32, f32),
    (i64, i8),
]


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_kernels_of_casts(
    run_op: RunOp, source: AnyFloat | IntegerType, target: AnyFloat | IntegerType
):
    a = cast_operand(dtype_of(source).name, dtype_of(target).name)
    check_kernel(run_op, CastOp, a, properties={"to": target})


ALL_CASTS = [(a, b) for a in ELEMENTS for b in ELEMENTS]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), ALL_CASTS)
def test_kernels_of_all_casts(
    run_op: RunOp, source: AnyFloat | IntegerType, target: AnyFloat | IntegerType
):
    a = cast_operand(dtype_of(source).name, dtype_of(target).name)
    check_kernel(run_op, CastOp, a, properties={"to": target})


@pytest.mark.parametrize(
    "shapes",
    [
        ((), ()),
        ((), (3,)),
        ((1,), (1, 1, 1)),
        ((4, 1), (3,)),
        ((2, 1, 3, 1), (5, 1, 2)),
        ((0, 3), (1, 3)),
    ],
)
def test_kernels_broadcast(run_op: RunOp, shapes: tuple[Sequence[int], Sequence[int]]):
    a, b = (uniform("float32", -9, 9, shape) for shape in shapes)
    check_kernel(run_op, SubOp, a, b)


def test_a_kernel_chooses_between_broadcast_operands(run_op: RunOp):
    condition = np.array([[True, False, True]])
    a, b = np.array([[1], [NAN]], np.float32), np.array(-0.0, np.float32)
    check_kernel(run_op, WhereOp, condition, a, b)


def test_the_kernel_of_a_group(run_op: RunOp):
    x, gate = gate_operands()
    op = scaled_gate(operand(f32, x.shape), operand(f32, gate.shape))
    (result,) = run_op(op, x, gate)
    # Of all members only exp is not exact.
    assert_close(result, op.evaluate(x, gate)[0], 6)


def test_the_kernel_of_a_constant(run_op: RunOp):
    for array in (np.full((2, 3), -INF, np.float32), np.array([True, True])):
        (result,) = run_op(ConstantOp(dense_of(array)))
        np.testing.assert_array_equal(result, array)
