"""Each signature of each op: the parts make up what the whole op gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from penstock.dialects import op as ops
from penstock.dialects.job import PartialAttr, SplitAttr
from penstock.dialects.op.sbp import (
    Entry,
    Part,
    SbpSignature,
    part_of,
    part_type,
    places_of,
    sbp_of,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training.cross_entropy import (
    SoftmaxCrossEntropyGradientOp,
    SoftmaxCrossEntropyOp,
)
from penstock.dialects.op.training.embedding_gradient import EmbeddingGradientOp
from penstock.dialects.op.training.row_gradients import (
    LayerNormGradientOp,
    SoftmaxGradientOp,
)
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = NDArray[np.generic]


def values(*types: TensorType) -> list[SSAValue]:
    """Values of these types."""
    return list(TestOp(result_types=types).results)


def tensors(*shapes: Sequence[int], element: Attribute = f64) -> list[SSAValue]:
    """Values of tensors with these shapes."""
    return values(*(TensorType(element, shape) for shape in shapes))


def tensor(shape: Sequence[int], element: Attribute = f64) -> SSAValue:
    """A value of a tensor with this shape."""
    return tensors(shape, element=element)[0]


def ints(*numbers: int) -> DenseArrayBase:
    """A list of integers as a property."""
    return DenseArrayBase.from_list(i64, numbers)


def number(value: int) -> IntegerAttr:
    """An integer as a property."""
    return IntegerAttr(value, i64)


def fused() -> TensorOp:
    """A bias, a constant along the last axis and one number, in one op."""
    outside = tensors([6, 5], [5])
    body = Block(arg_types=[value.type for value in outside])
    row = DenseIntOrFPElementsAttr.from_list(TensorType(f64, [6, 1]), [2.0])
    constants = (
        ops.ConstantOp(row),
        ops.ConstantOp(DenseIntOrFPElementsAttr.from_list(TensorType(f64, []), [3.0])),
    )
    total = ops.AddOp.inferred(body.args)
    scaled = ops.MulOp.inferred([total, constants[0]])
    last = ops.MaximumOp.inferred([scaled, constants[1]])
    body.add_ops([*constants, total, scaled, last, ops.YieldOp(last)])
    return ops.FusedOp(outside, Region(body))


def constant() -> TensorOp:
    """A constant with different elements."""
    type = TensorType(f64, [6, 4])
    numbers = [float(i) for i in range(24)]
    return ops.ConstantOp(DenseIntOrFPElementsAttr.from_list(type, numbers))


IMAGE = [4, 8, 6, 6]

OPS: dict[str, TensorOp] = {
    "add": ops.AddOp.inferred(tensors([6, 5], [5])),
    "add of a column": ops.AddOp.inferred(tensors([6, 1], [2, 6, 5])),
    "sub": ops.SubOp.inferred(tensors([6, 5], [6, 5])),
    "mul": ops.MulOp.inferred(tensors([6, 5], [])),
    "div": ops.DivOp.inferred(tensors([6, 5], [6, 1])),
    "neg": ops.NegOp(tensor([7])),
    "relu": ops.ReluOp(tensor([7, 4])),
    "cast": ops.CastOp(tensor([5, 6]), f32),
    "cast to integers": ops.CastOp(tensor([5, 6]), i32),
    "where": ops.WhereOp.inferred([tensor([6, 1], element=i1), *tensors([6, 4], [4])]),
    "less": ops.LessOp.inferred(tensors([6, 5], [6, 5])),
    "fused": fused(),
    "constant": constant(),
    "matmul": ops.MatmulOp.inferred(tensors([5, 4], [4, 6])),
    "matmul transposed": ops.MatmulOp.inferred(
        tensors([3, 4, 5], [1, 6, 4]),
        {"transpose_a": UnitAttr(), "transpose_b": UnitAttr()},
    ),
    "matmul of a row": ops.MatmulOp.inferred(tensors([4], [5, 4, 6])),
    "matmul of a column": ops.MatmulOp.inferred(tensors([5, 7, 4], [4])),
    "matmul of two lines": ops.MatmulOp.inferred(tensors([5], [5])),
    "gemm": ops.GemmOp.inferred(
        tensors([4, 5], [4, 6], [6]),
        {
            "transpose_a": UnitAttr(),
            "alpha": FloatAttr(0.5, f64),
            "beta": FloatAttr(2.0, f64),
        },
    ),
    "gemm with a column": ops.GemmOp.inferred(
        tensors([5, 4], [6, 4], [5, 1]), {"transpose_b": UnitAttr()}
    ),
    "gemm without C": ops.GemmOp.inferred(tensors([5, 4], [4, 6])),
    "conv2d": ops.Conv2dOp.inferred(
        tensors(IMAGE, [6, 8, 3, 3], [6]), {"pads": ints(1, 1, 1, 1)}
    ),
    "conv2d without bias": ops.Conv2dOp.inferred(
        tensors(IMAGE, [6, 8, 3, 3]), {"strides": ints(2, 2)}
    ),
    "conv2d by channel": ops.Conv2dOp.inferred(
        tensors(IMAGE, [16, 1, 3, 3], [16]), {"groups": number(8)}
    ),
    "conv2d with channels last": ops.Conv2dOp.inferred(
        tensors([4, 6, 6, 8], [6, 8, 3, 3], [6]),
        {"input_last": UnitAttr(), "result_last": UnitAttr()},
    ),
    "conv2d by channel, last": ops.Conv2dOp.inferred(
        tensors(IMAGE, [16, 1, 3, 3]),
        {"groups": number(8), "result_last": UnitAttr()},
    ),
    "conv2d in two groups": ops.Conv2dOp.inferred(
        tensors(IMAGE, [4, 4, 3, 3]), {"groups": number(2)}
    ),
    "max_pool2d": ops.MaxPool2dOp.inferred(tensors(IMAGE), {"kernel": ints(2, 2)}),
    "average_pool2d": ops.AveragePool2dOp.inferred(
        tensors(IMAGE), {"kernel": ints(2, 2), "pads": ints(1, 1, 1, 1)}
    ),
    "global_average_pool": ops.GlobalAveragePoolOp.inferred(tensors(IMAGE)),
    "softmax": ops.SoftmaxOp.inferred(tensors([5, 4, 6]), {"axis": number(1)}),
    "log_softmax": ops.LogSoftmaxOp.inferred(tensors([5, 4, 6])),
    "layer_norm": ops.LayerNormOp.inferred(
        tensors([5, 4, 6], [4, 6], [4, 6]), {"axis": number(-2)}
    ),
    "batch_norm": ops.BatchNormOp.inferred(tensors([4, 5, 6], [5], [5], [5], [5])),
    "group_norm": ops.GroupNormOp.inferred(
        tensors([4, 6, 5], [6], [6]), {"groups": number(3)}
    ),
    "local_response_norm": ops.LocalResponseNormOp.inferred(
        tensors(IMAGE), {"size": number(3)}
    ),
    "softmax_gradient": SoftmaxGradientOp.inferred(
        tensors([5, 4, 6], [5, 4, 6]), {"axis": number(1)}
    ),
    "layer_norm_gradient": LayerNormGradientOp.inferred(
        tensors([5, 4, 6], [5, 4, 6], [4, 6]), {"axis": number(-2)}
    ),
    "softmax_cross_entropy": SoftmaxCrossEntropyOp.inferred(
        [tensor([5, 4, 6]), tensor([5, 6], element=i64)], {"axis": number(1)}
    ),
    "embedding_gradient": EmbeddingGradientOp.inferred(
        [tensor([5, 4, 6]), tensor([5, 4], element=i64)], {"rows": number(3)}
    ),
    "softmax_cross_entropy_gradient": SoftmaxCrossEntropyGradientOp.inferred(
        [tensor([5, 4, 6]), tensor([5, 6], element=i64), tensor([5, 6])],
        {"axis": number(1)},
    ),
    "reduce_sum": ops.ReduceSumOp.inferred(
        tensors([4, 5, 6]), {"axes": ints(-2), "keepdims": UnitAttr()}
    ),
    "reduce_sum of all": ops.ReduceSumOp.inferred(tensors([4, 5])),
    "reduce_mean": ops.ReduceMeanOp.inferred(tensors([4, 5, 6]), {"axes": ints(0)}),
    "reduce_max": ops.ReduceMaxOp.inferred(tensors([4, 5, 6]), {"axes": ints(1)}),
    "reshape": ops.ReshapeOp(tensor([12, 2, 5, 4]), [4, 6, 20]),
    "reshape of ones": ops.ReshapeOp(tensor([1, 5, 6]), [5, 1, 2, 3]),
    "transpose": ops.TransposeOp(tensor([4, 5, 6]), [2, 0, 1]),
    "expand": ops.ExpandOp(tensor([5, 1]), [4, 5, 6]),
    "gather": ops.GatherOp(tensor([4, 3, 6]), tensor([5, 4], element=i64), axis=1),
    "pad": ops.PadOp(tensor([4, 5, 6]), [0, 1, 0], [0, 2, 0]),
    "pad with ones": ops.PadOp(tensor([4, 5]), [0, 1], [0, 2], value=1.0),
    "concat": ops.ConcatOp(tensors([4, 2, 6], [4, 3, 6]), 1),
    "split": ops.SplitOp(tensor([4, 5, 6]), 1, [2, 3]),
    "slice": ops.SliceOp(tensor([4, 5, 6]), [-9, 1, 5], [9, 3, -9], [1, 1, -1]),
}
"""One op of each family, of extents that parts divide and that they do not."""

SUMS = {
    "add": "(P, P) -> (P)",
    "mul": "(P, B) -> (P)",
    "matmul": "(S(1), S(0)) -> (P)",
    "matmul transposed": "(S(1), S(2)) -> (P)",
    "matmul of two lines": "(S(0), S(0)) -> (P)",
    "gemm": "(S(0), S(0), P) -> (P)",
    "conv2d": "(S(1), S(1), P) -> (P)",
    "conv2d with channels last": "(S(3), S(1), P) -> (P)",
    "embedding_gradient": "(S(1), S(1)) -> (P)",
    "reduce_sum": "(S(1)) -> (P)",
    "reduce_mean": "(S(0)) -> (P)",
    "reshape": "(P) -> (P)",
    "where": "(B, P, P) -> (P)",
    "concat": "(P, P) -> (P)",
}
"""Signatures that give terms of a sum."""

SPLITS = {
    "conv2d": "(B, S(0), S(0)) -> (S(1))",
    "conv2d by channel": "(S(1), S(0), S(0)) -> (S(1))",
    "conv2d with channels last": "(B, S(0), S(0)) -> (S(3))",
    "conv2d by channel, last": "(S(1), S(0)) -> (S(3))",
    "batch_norm": "(S(1), S(0), S(0), S(0), S(0)) -> (S(1))",
    "gather": "(B, S(1)) -> (S(2))",
    "group_norm": "(S(0), B, B) -> (S(0))",
    "local_response_norm": "(S(2)) -> (S(2))",
    "reduce_max": "(S(2)) -> (S(1))",
    "reshape": "(S(0)) -> (S(0))",
    "transpose": "(S(0)) -> (S(1))",
    "slice": "(S(0)) -> (S(0))",
    "split": "(S(2)) -> (S(2), S(2))",
    "softmax": "(S(2)) -> (S(2))",
    "softmax_gradient": "(S(2), S(2)) -> (S(2))",
    "embedding_gradient": "(S(2), B) -> (S(1))",
    "layer_norm_gradient": "(S(0), S(0), B) -> (S(0))",
    "softmax_cross_entropy": "(S(2), S(1)) -> (S(1))",
    "softmax_cross_entropy_gradient": "(S(2), S(1), S(1)) -> (S(2))",
    "constant": "() -> (S(1))",
}
"""Signatures that cut axes."""

NEVER = {
    "relu": "(P) -> (P)",
    "cast to integers": "(P) -> (P)",
    "mul": "(P, P) -> (P)",
    "add": "(P, B) -> (P)",
    "pad with ones": "(P) -> (P)",
    "reduce_max": "(S(1)) -> (P)",
    "softmax": "(S(1)) -> (S(1))",
    "softmax_gradient": "(S(1), S(1)) -> (S(1))",
    "softmax_cross_entropy": "(S(1), B) -> (B)",
    "group_norm": "(S(1), S(0), S(0)) -> (S(1))",
    "layer_norm": "(S(1), B, B) -> (S(1))",
    "local_response_norm": "(S(1)) -> (S(1))",
    "slice": "(S(2)) -> (S(2))",
    "pad": "(S(1)) -> (S(1))",
    "conv2d in two groups": "(S(1), S(1)) -> (P)",
}
"""Combinations that are no signatures."""


def random_array(type: TensorType, rng: np.random.Generator) -> Array:
    """Elements that are good as numbers, conditions and indices."""
    shape = type.get_shape()
    if type.element_type in (i1, i64):
        return rng.integers(0, 2, shape).astype(dtype_of(type.element_type))
    return rng.uniform(0.5, 1.5, shape).astype(dtype_of(type.element_type))


def floats(arrays: Sequence[Array]) -> list[NDArray[np.float64]]:
    """The same numbers, all of one dtype."""
    return [np.asarray(array, np.float64) for array in arrays]


def lay(
    array: Array, entry: Entry, devices: int, rng: np.random.Generator
) -> tuple[list[Part], list[Array]]:
    """The parts of an array that devices hold, and their elements."""
    parts = [
        part_of(array.shape, sbp_of(entry), [devices], place)
        for place in places_of((devices,))
    ]
    held = [array[slices_of(part)].copy() for part in parts]
    if isinstance(entry, PartialAttr):
        shares = rng.dirichlet(np.ones(devices))
        held = [np.asarray(np.multiply(array, share), array.dtype) for share in shares]
    return parts, held


def slices_of(part: Part) -> tuple[slice, ...]:
    """The part as an index of arrays."""
    return tuple(map(slice, part.offsets, part.ends))


def fits(signature: SbpSignature, op: TensorOp, devices: int) -> bool:
    """Whether all axes that are cut have an element for each device."""
    shapes = [tensor_type(v).get_shape() for v in (*op.operands, *op.results)]
    entries = (*signature.operands, *signature.results)
    return all(
        not isinstance(entry, SplitAttr) or shape[entry.axis.data] >= devices
        for entry, shape in zip(entries, shapes, strict=True)
    )


@pytest.mark.parametrize("devices", [2, 3, 4])
@pytest.mark.parametrize("name", OPS)
def test_parts_make_up_the_whole(name: str, devices: int):
    op, rng = OPS[name], np.random.default_rng([devices, len(name)])
    arrays = [random_array(tensor_type(value), rng) for value in op.operands]
    expected = floats(op.evaluate(*arrays))
    for signature in op.sbp_signatures(devices):
        if not fits(signature, op, devices):
            continue
        laid = [
            lay(array, entry, devices, rng)
            for array, entry in zip(arrays, signature.operands, strict=True)
        ]
        got = [np.zeros(array.shape) for array in expected]
        for device in range(devices):
            places = [
                part_of(array.shape, sbp_of(entry), [devices], (device,))
                for array, entry in zip(expected, signature.results, strict=True)
            ]
            operands = values(
                *(
                    part_type(tensor_type(value), parts[device])
                    for value, (parts, _) in zip(op.operands, laid, strict=True)
                )
            )
            part = op.part(operands, places)
            part.verify()
            results = floats(part.evaluate(*(held[device] for _, held in laid)))
            for whole, entry, place, result in zip(
                got, signature.results, places, results, strict=True
            ):
                if isinstance(entry, PartialAttr):
                    whole += result
                else:
                    whole[slices_of(place)] = result
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-6, 1e-6, err_msg=str(signature))


@pytest.mark.parametrize(
    ("name", "text"), [*SUMS.items(), *SPLITS.items()], ids=lambda text: text
)
def test_signature_is_offered(name: str, text: str):
    assert text in [str(found) for found in OPS[name].sbp_signatures(2)]


@pytest.mark.parametrize(("name", "text"), NEVER.items(), ids=lambda text: text)
def test_signature_is_not_offered(name: str, text: str):
    assert text not in [str(found) for found in OPS[name].sbp_signatures(2)]


@pytest.mark.parametrize(
    ("source", "target", "devices", "axes"),
    [
        ([4, 6], [24], 2, ["(S(0)) -> (S(0))"]),
        ([4, 6], [24], 3, []),
        ([4, 6], [4, 3, 2], 3, ["(S(0)) -> (S(0))", "(S(1)) -> (S(1))"]),
        ([4, 6], [4, 3, 2], 2, ["(S(0)) -> (S(0))"]),
        ([6], [1, 6], 4, ["(S(0)) -> (S(1))"]),
        ([2, 3, 4], [6, 4], 2, ["(S(0)) -> (S(0))", "(S(2)) -> (S(1))"]),
        ([0, 4], [0], 2, []),
    ],
)
def test_reshape_keeps_cuts_of_leading_axes(
    source: Sequence[int], target: Sequence[int], devices: int, axes: Sequence[str]
):
    """Parts have to end at the same elements: thirds of 4 rows of 6 are none of 24."""
    op = ops.ReshapeOp(tensor(source), target)
    assert [str(s) for s in op.sbp_signatures(devices)] == [*axes, "(P) -> (P)"]


def test_integers_have_no_sums_of_quotients():
    (a, b) = tensors([4], [4], element=i32)
    found = ops.DivOp.inferred([a, b]).sbp_signatures(2)
    assert [str(s) for s in found] == ["(S(0), S(0)) -> (S(0))"]


def test_sums_of_bytes_are_not_multiplied_by_their_terms():
    """They are cut to bytes, which their terms were not."""
    operands = tensors([4, 6], [6, 8], element=i8)
    narrow, wide = (
        ops.MatmulOp.inferred(operands, {"wide": flag}).sbp_signatures(2)
        for flag in (None, UnitAttr())
    )
    assert [str(s) for s in narrow if s not in wide] == [
        "(P, B) -> (P)",
        "(B, P) -> (P)",
    ]


RATES = {
    "acc": ops.AccOp(tensor([4, 6]), 2, TensorType(f64, [4, 6])),
    "repeat": ops.RepeatOp(tensor([4, 6]), 2, TensorType(f64, [4, 6])),
    "pack": ops.PackOp(tensor([4, 6]), 2, TensorType(f64, [8, 6])),
    "unpack": ops.UnpackOp(tensor([4, 6]), 2, TensorType(f64, [2, 6])),
}


@pytest.mark.parametrize("name", RATES)
def test_parts_of_pieces_make_up_whole_pieces(name: str):
    """An axis that is made longer or shorter by the number of pieces is never cut."""
    op, rng = RATES[name], np.random.default_rng(5)
    pieces = rng.normal(size=(6, 4, 6))
    (expected,) = floats(op.evaluate(pieces))
    axes = {0, 1} if name in ("acc", "repeat") else {1}
    found: set[int] = set()
    for (source,), (result,) in op.sbp_signatures(2):
        if isinstance(source, SplitAttr):
            assert source == result
            axis = source.axis.data
            found.add(axis)
            parts = np.split(pieces, 2, axis + 1)
            made = [op.evaluate(part)[0] for part in parts]
            np.testing.assert_array_equal(np.concatenate(made, axis + 1), expected)
        else:
            assert source == result == PartialAttr()
            (half,) = floats(op.evaluate(pieces / 2))
            np.testing.assert_allclose(half + half, expected)
    assert found == axes
