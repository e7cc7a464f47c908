"""`op.local_response_norm` against ONNX's reference, ONNX Runtime and sums by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f64, i64
from xdsl.ir import Attribute, Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.response_norm import LocalResponseNormOp
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.utils.numpy_types import element_type_of

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]


class Case(NamedTuple):
    """The shape of an input and the properties of an op on it."""

    shape: Sequence[int]
    size: int
    numbers: dict[str, float]
    dtype: str = "float32"

    def input(self) -> Array:
        """Random numbers, large enough for the squares to matter."""
        rng = np.random.default_rng([len(self.shape), *self.shape, self.size])
        return (4 * rng.standard_normal(self.shape)).astype(self.dtype)

    def op(self, input: Array) -> LocalResponseNormOp:
        """The op on an operand like the array."""
        type = TensorType(element_type_of(input.dtype), input.shape)
        properties: dict[str, Attribute] = {"size": IntegerAttr(self.size, i64)}
        properties |= {name: FloatAttr(v, f64) for name, v in self.numbers.items()}
        op = LocalResponseNormOp.inferred(Block(arg_types=[type]).args, properties)
        op.verify()
        return op

    def model(self, input: Array) -> bytes:
        """The same as a model of ONNX."""
        element = helper.np_dtype_to_tensor_dtype(input.dtype)
        node = helper.make_node("LRN", ["x"], ["y"], size=self.size)
        node.attribute.extend(
            helper.make_attribute(name, value) for name, value in self.numbers.items()
        )
        x = helper.make_tensor_value_info("x", element, input.shape)
        y = helper.make_tensor_value_info("y", element, input.shape)
        graph = helper.make_graph([node], "graph", [x], [y])
        opsets = [helper.make_opsetid("", 19)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return model.SerializeToString()


STRONG = {"alpha": 0.5, "beta": 0.6, "bias": 2.0}

ODD = [
    Case((1, 1, 3, 2), 1, STRONG),
    Case((2, 9, 4, 5), 5, STRONG),
    Case((2, 9, 4, 5), 5, {}),
    Case((1, 3, 2, 2), 9, STRONG),
]
EVEN = [Case((2, 7, 3, 4), 4, STRONG), Case((1, 4, 2, 2), 2, {"beta": 0.5})]
OTHERS = [
    Case((3, 8), 3, STRONG),
    Case((2, 6, 5), 3, STRONG),
    Case((1, 5, 2, 1, 2), 3, STRONG, "float64"),
    Case((2, 3, 0), 3, STRONG),
]

SQUARE = [
    Case((5, 5, 4, 3), 3, STRONG),
    Case((5, 5, 2, 2), 5, {}),
    Case((6, 6, 2, 3), 4, STRONG),
]
"""The reference sums up for no more channels than there are images."""


def assert_close(got: Array, wanted: Array) -> None:
    """Compare floats that went through a power."""
    assert got.dtype == wanted.dtype
    wide = (array.astype("float64") for array in (got, wanted))
    np.testing.assert_allclose(*wide, rtol=3e-6)


def by_hand(case: Case, x: Array) -> Array:
    """The definition, one channel after the other, in float64."""
    numbers = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0, **case.numbers}
    wide, result = x.astype("float64"), np.zeros(x.shape)
    for channel in range(x.shape[1]):
        first = max(0, channel - (case.size - 1) // 2)
        last = channel + case.size // 2
        squares = (wide[:, first : last + 1] ** 2).sum(1)
        scale = numbers["bias"] + numbers["alpha"] / case.size * squares
        result[:, channel] = wide[:, channel] / scale ** numbers["beta"]
    return result.astype(x.dtype)


@pytest.mark.parametrize("case", [*ODD, *EVEN, *OTHERS], ids=str)
def test_elements_are_scaled_by_their_neighbours(case: Case) -> None:
    x = case.input()
    (got,) = case.op(x).evaluate(x)
    assert_close(got, by_hand(case, x))


@pytest.mark.parametrize("case", SQUARE, ids=str)
def test_it_is_lrn_of_the_reference(case: Case) -> None:
    x = case.input()
    reference: Any = ReferenceEvaluator(case.model(x))
    (wanted,) = reference.run(None, {"x": x})
    (got,) = case.op(x).evaluate(x)
    assert_close(got, wanted)


@pytest.mark.parametrize("case", ODD, ids=str)
def test_it_is_lrn_of_onnx_runtime(case: Case) -> None:
    x = case.input()
    session: Any = InferenceSession(case.model(x))
    (wanted,) = session.run(None, {"x": x})
    (got,) = case.op(x).evaluate(x)
    assert_close(got, wanted)


@pytest.mark.parametrize("case", [ODD[1], EVEN[0], OTHERS[0], OTHERS[2]], ids=str)
def test_the_kernel_computes_the_same(case: Case, run_op: RunOp) -> None:
    x = case.input()
    op = case.op(x)
    (got,) = run_op(op, x)
    assert_close(got, op.evaluate(x)[0])


IN_PLACE = [
    *(ODD[1], EVEN[0], OTHERS[0], OTHERS[2]),
    Case((2, 3, 5), 9, STRONG),
    Case((1, 1, 70), 5, STRONG),
    Case((1, 20, 9, 13), 16, STRONG),
]


@pytest.mark.parametrize("case", IN_PLACE, ids=str)
def test_the_result_may_lie_over_the_input(case: Case, run_kernel: RunKernel) -> None:
    x = case.input()
    op = case.op(x)
    assert op.in_place_pairs() == (InPlacePair(0, 0),)
    body = kernel_body(op)
    source, result = body.block.args
    result.replace_all_uses_with(source)
    body.block.erase_arg(result)
    got = x.copy()
    run_kernel(KernelOp("k", "cpu", body), [got])
    assert_close(got, by_hand(case, x))


def test_a_wide_window_is_not_carried_along(run_op: RunOp) -> None:
    case = Case((1, 20, 9, 13), 17, STRONG)
    x = case.input()
    op = case.op(x)
    assert not op.in_place_pairs()
    (got,) = run_op(op, x)
    assert_close(got, by_hand(case, x))


def test_what_is_no_number_stays_among_its_neighbours(run_op: RunOp) -> None:
    case = Case((1, 5, 2), 3, STRONG)
    x = case.input()
    x[0, 0, 1], x[0, 4, 0] = np.nan, np.inf
    op = case.op(x)
    with np.errstate(all="raise"):
        (wanted,) = op.evaluate(x)
    (got,) = run_op(op, x)
    assert_close(got, wanted)
    assert np.isnan(wanted[0, :2, 1]).all()
    assert np.isnan(wanted[0, 4, 0])
    assert wanted[0, 3, 0] == 0
    assert np.isfinite(wanted[0, 2]).all()


def test_flops_count_the_channels_that_are_there() -> None:
    case = Case((2, 3, 4), 3, {})
    # 2 + 3 + 2 squares of 2 operations at 8 places, and 4 more for 24 elements
    assert case.op(case.input()).flops() == 2 * 7 * 8 + 4 * 24


def test_it_is_cut_along_all_axes_but_the_channels() -> None:
    case = Case((4, 6, 5, 5), 3, {})
    cuts = [str(s) for s in case.op(case.input()).sbp_signatures(2)]
    assert cuts == [f"(S({axis})) -> (S({axis}))" for axis in (0, 2, 3)]
