"""
Folding of per-channel factors and addends into convolutions.

Weights and bias of a convolution absorb a factor of its result, channel by channel, and
its bias absorbs an addend: so a batch normalisation after a convolution costs nothing
(what ONNX Runtime calls the fusions of `Conv` with `BatchNormalization`, `Mul` and
`Add`). Both have to be known, nothing else may use the result, the weights or the bias,
and the new values are computed in `f64`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import VariableOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp, MulOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.numpy_types import array_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.graph import JobBuilder
from penstock.tools.frontend.onnx.ops import Array


def fold_channels(builder: JobBuilder) -> None:
    """Fold what can be into the convolutions of a job that is being made."""
    for op in tuple(builder.block.ops):
        if isinstance(op, MulOp | AddOp):
            _fold(builder, op)


def _fold(builder: JobBuilder, op: MulOp | AddOp) -> None:
    """Fold an op into the convolution before it, if there is one."""
    for value, other in (op.operands, reversed(op.operands)):
        conv = value.owner
        if not isinstance(conv, Conv2dOp) or not value.has_one_use():
            continue
        numbers = _by_channel(builder, other, conv)
        if numbers is None or value.type != op.result.type:
            continue
        found = [_known(builder, each) for each in conv.operands[1:]]
        arrays = [array for array in found if array is not None]
        is_shared = any(not each.has_one_use() for each in conv.operands[1:])
        if is_shared or len(arrays) < len(found):
            continue
        weights, *bias = (array.astype(np.float64) for array in arrays)
        if isinstance(op, MulOp):
            factors = numbers.reshape(-1, 1, 1, 1)
            new = [weights * factors, *(each * numbers for each in bias)]
        else:
            new = [weights, bias[0] + numbers if bias else numbers]
        dtype = arrays[0].dtype
        _replace(builder, op, conv, [array.astype(dtype) for array in new])
        return


def _known(builder: JobBuilder, value: SSAValue) -> Array | None:
    """The elements of a constant or a variable."""
    match value.owner:
        case ConstantOp() as constant:
            return array_of(constant.value)
        case VariableOp() as variable:
            return builder.weights[variable.port.data]
        case _:
            return None


def _by_channel(
    builder: JobBuilder, value: SSAValue, conv: Conv2dOp
) -> NDArray[np.float64] | None:
    """An `f64` for each out channel of a convolution of floats."""
    type, array = tensor_type(conv.result), _known(builder, value)
    if array is None or not isinstance(type.element_type, AnyFloat):
        return None
    channels = type.get_shape()[1]
    shape = (1,) * (4 - array.ndim) + array.shape
    if array.size != 1 and shape != (1, channels, 1, 1):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def _replace(
    builder: JobBuilder, op: Operation, conv: Conv2dOp, arrays: Sequence[Array]
) -> None:
    """Replace an op and the convolution before it by one with new constants."""
    old = dict.fromkeys((*conv.operands[1:], *op.operands))
    place = InsertPoint.before(conv)
    operands = [conv.input]
    for array in arrays:
        operands.append(value := builder.new_tensor(array))
        made = value.owner
        assert isinstance(made, Operation), "values are made by ops"
        made.detach()
        Rewriter.insert_op(made, place)
    new = Conv2dOp.inferred(operands, conv.properties)
    new.location = op.location
    Rewriter.insert_op(new, place)
    new.result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [new.result])
    Rewriter.erase_op(conv)
    for value in old:
        made = value.owner
        if isinstance(made, VariableOp | ConstantOp) and not value.uses:
            if isinstance(made, VariableOp):
                del builder.weights[made.port.data]
            Rewriter.erase_op(made)
