"""Ops that are called with Python values, and the attributes that these become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.launch import FeedOp
from penstock.dialects.op import (
    CastOp,
    ClipOp,
    ConcatOp,
    Conv2dOp,
    GatherOp,
    GeluOp,
    MatmulOp,
    PadOp,
    SplitOp,
    TopKOp,
)
from penstock.dialects.op.padding import PadMode
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = NDArray[np.generic]


def value(*shape: int) -> SSAValue:
    return create_ssa_value(TensorType(f32, shape))


def indices(*shape: int) -> SSAValue:
    return create_ssa_value(TensorType(i64, shape))


def shapes(op: TensorOp) -> list[tuple[int, ...]]:
    return [tensor_type(result).get_shape() for result in op.results]


def test_values_become_the_attributes_of_the_definition():
    product = MatmulOp.of(value(3, 2), value(3, 4), transpose_a=True, wide=False)
    assert product.transpose_a is not None
    assert product.wide is None
    assert shapes(product) == [(2, 4)]
    taken = GatherOp.of(value(4, 5), indices(3), axis=np.int32(1))
    assert taken.axis == IntegerAttr(1, i64)
    bounded = ClipOp.of(value(2), min=0, max=np.float32(6.5))
    assert (bounded.min, bounded.max) == (FloatAttr(0.0, f64), FloatAttr(6.5, f64))
    assert GeluOp.of(value(2), approximate="tanh").approximate.data == "tanh"
    assert CastOp.of(value(2), to=i32).to == i32
    for mode in ("edge", PadMode.EDGE):
        padded = PadOp.of(value(2), before=[1], after=(2,), mode=mode)
        assert padded.mode.data == PadMode.EDGE
        assert shapes(padded) == [(5,)]


def test_what_is_left_out_has_its_default():
    for bias in ([], [None]):
        conv = Conv2dOp.of(value(1, 3, 8, 8), value(4, 3, 3, 3), *bias, groups=None)
        assert conv.bias is None
        assert conv.groups == IntegerAttr(1, i64)
        conv.verify()


def test_operands_and_results_of_any_number():
    whole = ConcatOp.of([value(2, 1), value(2, 3)], axis=1)
    assert shapes(whole) == [(2, 4)]
    assert shapes(SplitOp.of(whole, axis=1, sizes=[1, 2, 1])) == [
        (2, 1),
        (2, 2),
        (2, 1),
    ]
    assert shapes(TopKOp.of(whole, count=2, axis=1)) == [(2, 2), (2, 2)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"axis": "one"}, "'axis' should be an integer, got 'one'"),
        ({"axis": 1.0}, "'axis' should be an integer, got 1.0"),
        ({"axis": True}, "'axis' should be an integer, got True"),
        ({"axis": 7}, "axis 7 is out of range"),
    ],
)
def test_values_that_cannot_be(wrong: dict[str, object], message: str):
    x, i = value(4), indices(2)
    with pytest.raises(VerifyException, match=message):
        GatherOp.of(x, i, **wrong)
    # Nothing is left of it.
    assert not [*x.uses, *i.uses]


def test_lists_enumerations_and_types_that_cannot_be():
    with pytest.raises(VerifyException, match="'sizes' should be a list of integers"):
        SplitOp.of(value(4), axis=0, sizes="13")
    with pytest.raises(VerifyException, match="'sizes' should be a list of integers"):
        SplitOp.of(value(4), axis=0, sizes=[1, 2.5])
    with pytest.raises(VerifyException, match=r"'mode' should be one of .*edge"):
        PadOp.of(value(4), before=[1], after=[1], mode="mirror")
    with pytest.raises(VerifyException, match="'to' should be an attribute, got 'f32'"):
        CastOp.of(value(4), to="f32")


def test_a_call_that_does_not_fit_the_definition():
    with pytest.raises(TypeError, match=r"op\.gather has no property 'axs'"):
        GatherOp.of(value(4), indices(2), axs=0)
    with pytest.raises(TypeError, match=r"op\.gather has to be given 'axis'"):
        GatherOp.of(value(4), indices(2))
    with pytest.raises(ValueError, match=r"op\.gather.*'indices'"):
        GatherOp.of(value(4), axis=0)


def test_names_of_symbols():
    feed = FeedOp("x", "y")
    assert feed.target == SymbolRefAttr("y")
    with pytest.raises(
        VerifyException, match="'target' should be the name of a symbol"
    ):
        properties_of(FeedOp, port="x", target=3)


@irdl_op_definition
class MixOp(TensorOp):
    """Two lists of tensors and a number of either kind."""

    name = "test.mix"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    some = var_operand_def(TensorType)
    others = var_operand_def(TensorType)
    weight = prop_def(FloatAttr | IntegerAttr)
    result = result_def(TensorType)

    def infer_types(self) -> Sequence[TensorType]:
        return [TensorType(f32, [len(self.some), len(self.others)])]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return [np.empty(0, np.float32)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None: ...


def test_ops_of_other_packages_with_several_lists():
    op = MixOp.of([value(1)], [value(2), value(3)], weight=2)
    assert shapes(op) == [(1, 2)]
    assert len(op.others) == 2
    # Of the two classes that it may have, an integer is an integer first.
    assert op.weight == IntegerAttr(2, i64)
    assert MixOp.of([], [], weight=0.5).weight == FloatAttr(0.5, f64)
