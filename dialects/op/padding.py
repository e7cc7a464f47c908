"""`op.pad`: padding of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    MemRefType,
    TensorType,
    f32,
    f64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import are_rows
from penstock.dialects.op.axes import (
    I64List,
    copy_part,
    dense,
    one_per_axis,
)
from penstock.dialects.op.canonicalization import CanonicalOp, OpPattern
from penstock.dialects.op.elementwise import UNARY_SUM
from penstock.dialects.op.number import Number
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import highest, lowest
from penstock.dialects.utils.attributes import replace_by_value
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


class PadMode(StrEnum):
    """The modes of padding."""

    CONSTANT = "constant"
    """One number."""
    EDGE = "edge"
    """The element at the nearest edge."""
    REFLECT = "reflect"
    """The elements mirrored at the edge, which itself is not repeated."""


@irdl_attr_definition
class PadModeAttr(EnumAttribute[PadMode], SpacedOpaqueSyntaxAttribute):
    """The mode of padding, such as `#op<pad_mode edge>`."""

    name = "op.pad_mode"


class PadByNothing(OpPattern["PadOp"]):
    """
    pad(x) = x if nothing is added on any axis.
    """

    def rewrite(self, op: PadOp, rewriter: PatternRewriter) -> None:
        if any(before or after for before, after in op.pads):
            return
        if op.source.type == op.result.type:
            replace_by_value(op, op.source, rewriter)


@irdl_op_definition
class PadOp(TensorOp, CanonicalOp):
    """
    A tensor with elements added before and after it on each axis: `value` (0 where it
    is left out), or with a mode `edge` or `reflect` its own elements.

    ```mlir
    %r = op.pad %a before [1, 0] after [2, 0] : tensor<4x3xf32> -> tensor<7x3xf32>
    %s = op.pad %a before [1, 0] after [2, 0] value -1.0
      : tensor<4x3xf32> -> tensor<7x3xf32>
    %t = op.pad %a before [1, 1] after [1, 1] mode reflect
      : tensor<4x3xf32> -> tensor<6x5xf32>
    ```
    """

    name = "op.pad"
    PRECISION: ClassVar = "clear"
    FLOPS: ClassVar = 0
    PATTERNS: ClassVar = (PadByNothing,)

    source = operand_def(TensorType)
    before = prop_def(I64List)
    after = prop_def(I64List)
    mode = prop_def(PadModeAttr, default_value=PadModeAttr(PadMode.CONSTANT))
    value = prop_def(FloatAttr.constr(f64), default_value=FloatAttr(0.0, f64))
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `before` $before `after` $after (`mode` $mode^)? "
        "(`value` custom<Number>($value)^)? "
        "attr-dict `:` type($source) `->` type($result)"
    )
    custom_directives = (Number,)

    def __init__(
        self,
        source: SSAValue | Operation,
        before: Sequence[int],
        after: Sequence[int],
        mode: PadMode = PadMode.CONSTANT,
        value: float = 0.0,
    ):
        self.call(source, before=before, after=after, mode=mode, value=value)

    @property
    def pads(self) -> list[tuple[int, int]]:
        """The elements added before and after, one pair an axis."""
        befores, afters = self.before.get_values(), self.after.get_values()
        return list(zip(befores, afters, strict=True))

    def infer_types(self) -> Sequence[TensorType]:
        source = tensor_type(self.source)
        befores, afters = self.before.get_values(), self.after.get_values()
        result = padded(source, befores, afters, self.mode.data)
        verify_element(self.value.value.data, source)
        return (result,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        kept = [axis for axis, pads in enumerate(self.pads) if not any(pads)]
        is_linear = self.mode.data != PadMode.CONSTANT or self.value.value.data == 0
        splits = [signature([axis], [axis]) for axis in kept]
        return [*splits, UNARY_SUM] if is_linear else splits

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        if not self.pads:
            return operands
        if self.mode.data != PadMode.CONSTANT:
            return (dense(np.pad(operands[0], self.pads, self.mode.data.value)),)
        value = operands[0].dtype.type(self.value.value.data)
        return (dense(np.pad(operands[0], self.pads, constant_values=value)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        if memref_type(ins[0]) == memref_type(outs[0]):
            k.copy(ins[0], outs[0])
        elif self._pads_images(memref_type(ins[0])):
            self._build_copy(k, ins[0], outs[0])
        elif self.mode.data == PadMode.CONSTANT:
            befores = self.before.get_values()
            steps = [1] * len(befores)
            k.fill(outs[0], self.value.value.data)
            copy_part(k, ins[0], outs[0], befores, steps, is_target=False)
        else:
            extents = memref_type(outs[0]).get_shape()
            k.parallel(
                extents,
                lambda k, loops: k.store(
                    k.load(ins[0], self._origin(k, ins[0], loops)), outs[0], loops
                ),
            )

    def _pads_images(self, type: MemRefType) -> bool:
        """Whether a number is put around images of floats, few times a row."""
        is_constant = self.mode.data == PadMode.CONSTANT
        is_float = type.element_type in (f32, f64)
        return is_constant and is_float and are_rows(type.get_shape(), self.pads)

    def _build_copy(self, k: KernelBuilder, source: SSAValue, target: SSAValue) -> None:
        """One stage, the copy of a padded view."""
        element = memref_type(source).element_type
        assert isinstance(element, AnyFloat), "has been looked at"
        number = FloatAttr(self.value.value.data, element)
        sides = self.before.get_values(), self.after.get_values()
        view = k.insert(PaddedOp(source, *sides, number))
        identity = AffineMap.identity(len(self.pads))
        kinds = ["parallel"] * identity.num_dims
        k.generic([view], target, [identity] * 2, kinds, lambda _, given: given[0])

    def _origin(
        self, k: KernelBuilder, source: SSAValue, loops: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """The place in the source whose element a place in the result repeats."""
        at = _nearest if self.mode.data == PadMode.EDGE else _mirrored
        extents = memref_type(source).get_shape()
        return [
            at(k, k.sub(loop, k.index(before)), extent) if before or after else loop
            for loop, extent, (before, after) in zip(
                loops, extents, self.pads, strict=True
            )
        ]

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad = only(grads)
        back = {
            PadMode.CONSTANT: _cut,
            PadMode.EDGE: _summed_edges,
            PadMode.REFLECT: _folded,
        }[self.mode.data]
        for axis, pads in enumerate(self.pads):
            if any(pads):
                grad = back(o, grad, axis, *pads)
        return [grad]


def _cut(
    o: GradientBuilder, grad: SSAValue, axis: int, before: int, after: int
) -> SSAValue:
    """The elements that are not padded."""
    return o.slice(grad, axis, before, o.shape(grad)[axis] - after)


def _summed_edges(
    o: GradientBuilder, grad: SSAValue, axis: int, before: int, after: int
) -> SSAValue:
    """The elements that are not padded, with the others added to the edges."""
    extent = o.shape(grad)[axis] - before - after
    if not extent:
        return grad
    if extent == 1:
        return o.sum(grad, [axis], keepdims=True)
    end = before + extent - 1
    first = o.sum(o.slice(grad, axis, 0, before + 1), [axis], keepdims=True)
    last = o.slice(grad, axis, end, end + 1 + after)
    middle = [o.slice(grad, axis, before + 1, end)] * (extent > 2)
    return o.concat([first, *middle, o.sum(last, [axis], keepdims=True)], axis)


def _folded(
    o: GradientBuilder, grad: SSAValue, axis: int, before: int, after: int
) -> SSAValue:
    """The elements that are not padded, with the others added to those they mirror."""
    shape = o.shape(grad)
    extent = shape[axis] - before - after
    total = _cut(o, grad, axis, before, after)
    # The edge itself is not repeated.
    ends = (0, before, 1), (before + extent, after, extent - 1 - after)
    for start, count, place in ends:
        if not count:
            continue
        part = o.reversed(o.slice(grad, axis, start, start + count), axis)
        left, right = [0] * len(shape), [0] * len(shape)
        left[axis], right[axis] = place, extent - place - count
        total = o.add(total, o.pad(part, left, right))
    return total


def _nearest(k: KernelBuilder, place: SSAValue, extent: int) -> SSAValue:
    return k.minimum(k.maximum(place, k.index(0)), k.index(extent - 1))


def _mirrored(k: KernelBuilder, place: SSAValue, extent: int) -> SSAValue:
    zero, last = k.index(0), k.index(extent - 1)
    from_first = k.maximum(place, k.sub(zero, place))
    beyond = k.sub(last, from_first)
    return k.sub(last, k.maximum(beyond, k.sub(zero, beyond)))


def padded(
    source: TensorType, before: Sequence[int], after: Sequence[int], mode: PadMode
) -> TensorType:
    """
    The type of `source` with elements added on each axis.

    Raises `VerifyException` when there are too few of its own elements to add.
    """
    shape = source.get_shape()
    one_per_axis("pads before", before, len(shape))
    one_per_axis("pads after", after, len(shape))
    extents: list[int] = []
    for axis, (extent, *pads) in enumerate(zip(shape, before, after, strict=True)):
        if min(pads) < 0:
            raise VerifyException(f"pads must not be negative, got {min(pads)}")
        if extent == DYNAMIC_INDEX:
            extents.append(DYNAMIC_INDEX)
            continue
        if (most := max(pads)) > _largest_pad(extent, mode, most):
            raise VerifyException(
                f"mode {mode} cannot pad axis {axis} of extent {extent} by {most}"
            )
        extents.append(extent + sum(pads))
    return TensorType(source.element_type, extents)


def _largest_pad(extent: int, mode: PadMode, wanted: int) -> int:
    """The most elements, up to `wanted`, that can be added at one end of an axis."""
    match mode:
        case PadMode.CONSTANT:
            return wanted
        case PadMode.EDGE:
            return wanted if extent else 0
        case PadMode.REFLECT:
            return max(extent - 1, 0)


def verify_element(value: float, type: TensorType) -> None:
    """Raise `VerifyException` unless an element of `type` can be `value`."""
    element = type.element_type
    if isinstance(element, AnyFloat):
        fits = _fits_float(value, element)
    else:
        # The highest i64 is no float: the number after it is one.
        end = float(highest(element) + 1)
        fits = lowest(element) <= value < end and value.is_integer()
    if not fits:
        raise VerifyException(f"an {element} cannot be {value}")


def _fits_float(value: float, element: AnyFloat) -> bool:
    """Whether a number does not overflow."""
    try:
        FloatAttr(value, element)
    except OverflowError:
        return False
    return True
