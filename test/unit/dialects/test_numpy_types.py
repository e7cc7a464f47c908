"""Arrays as dense attributes, and back, with every bit."""

import sys
from io import StringIO

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    TensorType,
    bf16,
    f32,
    i1,
    i32,
)
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.op import Op
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.utils.numpy_types import (
    DTYPE_NAMES,
    array_of,
    dense_of,
    dtype_name_of,
    dtype_of,
    element_type_of,
)
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.arrays import numpy_dtype

DTYPES = list(DTYPE_NAMES.values())
SHAPES = [(), (1,), (5,), (2, 3), (0,), (2, 0, 3), (40, 3)]


def random_bits(
    dtype: str, shape: tuple[int, ...], seed: int = 1
) -> NDArray[np.generic]:
    """An array of any bits, NaNs with payloads included; booleans are valid ones."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    size = numpy_dtype(dtype).itemsize
    data = generator.bytes(size * int(np.prod(shape)))
    return np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)


def assert_same(a: NDArray[np.generic], b: NDArray[np.generic]) -> None:
    """Check that two arrays are the same down to the bits."""
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


def parsed(text: str) -> ConstantOp:
    """Parse one constant."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Op)
    op = Parser(context, text).parse_op()
    assert isinstance(op, ConstantOp)
    return op


def printed(op: ConstantOp) -> str:
    """The custom form of a constant."""
    stream = StringIO()
    Printer(stream).print_op(op)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types_and_dtypes_are_one_to_one(dtype: str):
    element = element_type_of(numpy_dtype(dtype))
    assert dtype_of(element) == numpy_dtype(dtype)
    assert dtype_name_of(element) == dtype


def test_refuses_what_no_tensor_has():
    with pytest.raises(VerifyException, match=r"^there are no tensors of complex64$"):
        element_type_of(np.dtype("complex64"))
    with pytest.raises(VerifyException, match=r"^there are no tensors of index$"):
        dtype_of(IndexType())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_survives(dtype: str, shape: tuple[int, ...]):
    array = random_bits(dtype, shape)
    assert_same(array_of(dense_of(array)), array)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_survives_as_text(dtype: str, shape: tuple[int, ...]):
    array = random_bits(dtype, shape)
    if array.dtype.kind == "f":
        # A number is printed for a NaN of whatever payload.
        array = np.where(np.isnan(array), np.array(1.5, numpy_dtype(dtype)), array)
    value = dense_of(array)
    again = parsed(printed(ConstantOp(value)))
    assert_same(array_of(again.value), array)
    assert again.value == value


@pytest.mark.parametrize(
    "numbers",
    [
        [np.inf],
        [-np.inf, np.inf],
        [np.nan, np.nan],
        [0.0, -0.0],
        [-0.0],
        [16777216.0],
        [np.nan] * 3 + [1e20],
        [np.finfo(np.float16).max, np.finfo(np.float16).smallest_subnormal],
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_that_are_printed_as_bits_survive_as_text(
    dtype: str, numbers: list[float]
):
    with np.errstate(over="ignore"):
        array = np.array(numbers).astype(numpy_dtype(dtype))
    value = dense_of(array)
    assert parsed(printed(ConstantOp(value))).value == value


@pytest.mark.parametrize("layout", ["strided", "fortran", "big-endian"])
def test_the_layout_of_an_array_does_not_matter(layout: str):
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    same = {
        "strided": np.repeat(array, 2, axis=1)[:, ::2],
        "fortran": np.asfortranarray(array),
        "big-endian": array.astype(">i4"),
    }[layout]
    assert dense_of(same) == dense_of(array)


def test_a_boolean_is_true_whatever_byte_it_is():
    type = TensorType(i1, [3])
    array = array_of(DenseIntOrFPElementsAttr(type, BytesAttr(b"\xff\x00\x01")))
    assert_same(array, np.array([True, False, True]))


def test_an_array_of_an_attribute_can_be_written_to():
    array = array_of(dense_of(np.zeros(3, np.float32)))
    array[0] = np.float32(1)
    assert array.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("array", "splat"),
    [
        (np.full((2, 3), 1.5, np.float32), 1.5),
        (np.array(-2.0), -2.0),
        (np.array([7], np.int8), 7),
        (np.full(3, -(2**63)), -(2**63)),
        (np.array([1, 2], np.int16), None),
        (np.array([True, True]), True),
        (np.array([False]), False),
        (np.array([True, False]), None),
        (np.array([0.0, -0.0]), None),
        (np.full(2, np.inf, np.float16), np.inf),
        (np.zeros((2, 0)), 0),
        (np.zeros((0,), np.bool_), False),
    ],
)
def test_the_one_number_of_a_constant(array: NDArray[np.generic], splat: float | None):
    found = ConstantOp(dense_of(array)).splat
    assert (type(found), found) == (type(splat), splat)


def test_equal_nans_are_one_number():
    splat = ConstantOp(dense_of(np.full(3, np.nan, np.float32))).splat
    assert splat is not None
    assert np.isnan(splat)


def test_a_constant_has_as_many_elements_as_its_type():
    short = DenseIntOrFPElementsAttr(TensorType(i32, [4]), BytesAttr(bytes(8)))
    with pytest.raises(VerifyException, match=r"^tensor<4xi32> has 4 elements, got 2$"):
        ConstantOp(short).infer_types()


def test_a_constant_means_its_elements():
    (result,) = parsed(
        "%c = op.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>"
    ).evaluate()
    assert_same(result, np.array([[1, 2]], np.float32))


def test_a_constant_takes_no_operations():
    assert ConstantOp(dense_of(np.ones(3, np.float32))).cost() == (0, 12)


def test_a_constant_of_several_numbers_has_no_kernel():
    memref = test.TestOp.create(result_types=[MemRefType(f32, [2])]).results[0]
    op = ConstantOp(dense_of(np.array([1, 2], np.float32)))
    with pytest.raises(
        VerifyException,
        match=r"^a constant with different elements is data, not a kernel$",
    ):
        op.build_kernel(KernelBuilder(InsertPoint.at_end(Block())), [], [memref])


def test_what_teaches_numpy_bf16_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    expected = "need a package: pip install ml_dtypes"
    with pytest.raises(VerifyException, match=expected):
        dtype_of(bf16)
    with pytest.raises(PenstockError, match=expected):
        numpy_dtype("bfloat16")
