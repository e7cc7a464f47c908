"""`op.conv2d`: convolution of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.finish_builder import Finish, build_contract
from penstock.dialects.kernel.loops import Nest, access_of, extents_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import Window, are_multiplied, window_view
from penstock.dialects.op.axes import I64Attr, I64List, int_list
from penstock.dialects.op.linear import element_of_sums, unsigned_of, widened
from penstock.dialects.op.sbp import PARTIAL, Entry, Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import ContractionOp, Ending
from penstock.dialects.op.verify import (
    check_rank,
    check_shape,
)
from penstock.dialects.op.windows.depthwise import build_depthwise
from penstock.dialects.op.windows.filter_layout import filter_gradient
from penstock.dialects.op.windows.transposed_convolution import (
    images_convolved,
    transposed,
)
from penstock.dialects.op.windows.window_numbers import windows_of
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

T = TypeVar("T")


@irdl_op_definition
class Conv2dOp(ContractionOp):
    """
    The cross-correlation of images [n, channels, h, w] with weights [out channels,
    channels / groups, taps down, taps across], plus a bias [out channels] if there is
    one. `pads` are zeros at the top, left, bottom and right; sums may leave out their
    products, which shows where weights are infinite or NaN. With `input_last` the
    channels are the last dimension of the images, [n, h, w, channels], with
    `result_last` those of the result: `op-assign-layouts` chooses that.

    Sums are in the element type, so that the error of a float grows with the number
    of its terms (weights of one out channel): at most like it, about like its square
    root for random terms. With `wide` images and weights are bytes, `i8` or `ui8`, and
    the bias and the sums `i32`, or `bf16` and `f32`.

    ```mlir
    %y = op.conv2d %x, %w strides [2, 2] pads [1, 1, 0, 0] groups 2
      : tensor<1x4x8x8xf32>, tensor<6x2x3x3xf32> -> tensor<1x6x4x4xf32>
    %z = op.conv2d %y, %v result_last
      : tensor<1x6x4x4xf32>, tensor<9x6x1x1xf32> -> tensor<1x4x4x9xf32>
    ```
    """

    name = "op.conv2d"

    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    dilations = prop_def(I64List, default_value=int_list([1, 1]))
    groups = prop_def(I64Attr, default_value=IntegerAttr(1, i64))
    input_last = opt_prop_def(UnitAttr)
    result_last = opt_prop_def(UnitAttr)
    wide = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $weights (`,` $bias^)? (`strides` $strides^)? (`pads` $pads^)? "
        "(`dilations` $dilations^)? (`groups` $groups^)? "
        "(`input_last` $input_last^)? (`result_last` $result_last^)? (`wide` $wide^)? "
        "attr-dict `:` type($input) `,` type($weights) (`,` type($bias)^)? "
        "`->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows of the weights down and across an image."""
        kernel = tensor_type(self.weights).get_shape()[2:]
        return windows_of(kernel, self.strides, self.pads, self.dilations)

    @property
    def image_shape(self) -> list[int]:
        """The shape of the images as [n, channels, h, w], wherever channels are."""
        return first(tensor_type(self.input).get_shape(), self.input_last is not None)

    @property
    def is_depthwise(self) -> bool:
        """
        Whether each out channel depends on one channel, and the kernel multiplies whole
        windows: so that pads cost little. False if shapes are not known, or sums wide.
        """
        input, weights = tensor_type(self.input), tensor_type(self.weights)
        if not (input.has_static_shape() and weights.has_static_shape()):
            return False
        others = self.input_last, self.result_last, self.wide
        if any(flag is not None for flag in others):
            return False
        _, channels, *extents = self.image_shape
        is_alone = channels == self.groups.value.data > 1
        return is_alone and are_multiplied(self.windows, extents)

    def infer_types(self) -> Sequence[TensorType]:
        input, weights = tensor_type(self.input), tensor_type(self.weights)
        element = element_of_sums([self.input, self.weights], self.wide is not None)
        check_rank("the input", input, 4)
        check_rank("the weights", weights, 4)
        images, channels, *extents = self.image_shape
        outputs, group_channels, *_ = weights.get_shape()
        self._check_channels(channels, group_channels, outputs)
        if self.bias is not None:
            bias = tensor_type(self.bias)
            if bias.element_type != element:
                raise VerifyException(
                    f"the bias of sums of {element} should be so, got {bias}"
                )
            check_shape("the bias", bias, [outputs])
        counts = [w.count(e) for w, e in zip(self.windows, extents, strict=True)]
        shape = placed([images, outputs], counts, self.result_last is not None)
        return (TensorType(element, shape),)

    def _check_channels(self, channels: int, group_channels: int, outputs: int) -> None:
        groups = self.groups.value.data
        if groups < 1:
            raise VerifyException(f"groups should be at least 1, got {groups}")
        unknown = DYNAMIC_INDEX in (channels, group_channels)
        if not unknown and channels != group_channels * groups:
            raise VerifyException(
                f"an input of {channels} channels does not fit weights of "
                f"{group_channels} channels in {groups} groups"
            )
        if outputs != DYNAMIC_INDEX and outputs % groups:
            raise VerifyException(
                f"{outputs} out channels do not divide into {groups} groups"
            )

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        def with_bias(
            operands: list[int | None], bias: int | Entry | None, result: int | Entry
        ) -> SbpSignature:
            own = [] if self.bias is None else [bias]
            return signature([*operands, *own], [result])

        groups = self.groups.value.data
        channels = 1 if self.input_last is None else 3
        outputs = 1 if self.result_last is None else 3
        found = [with_bias([0, None], None, 0)]
        if groups == 1:
            found.append(with_bias([None, 0], 0, outputs))
            found.append(with_bias([channels, 1], PARTIAL, PARTIAL))
        elif groups % devices == 0:
            found.append(with_bias([channels, 0], 0, outputs))
        return found

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> Conv2dOp:
        # Channels of several groups are cut between groups.
        shape = tensor_type(operands[0]).get_shape()
        channels = first(shape, self.input_last is not None)[1]
        of_group = tensor_type(operands[1]).get_shape()[1]
        groups = IntegerAttr(channels // max(1, of_group), i64)
        if self.groups.value.data == 1 or not of_group:
            groups = self.groups
        return self.remade(operands, parts, {**self.properties, "groups": groups})

    def flops(self) -> int:
        images, _, *extents = self.image_shape
        outputs, channels, *_ = tensor_type(self.weights).get_shape()
        rows, columns = (
            window.count_taps(extent)
            for window, extent in zip(self.windows, extents, strict=True)
        )
        products = images * outputs * channels * rows * columns
        return 2 * products + (self.bias is not None) * element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, weights, *bias = operands
        if self.wide is not None:
            input, weights = widened(input), widened(weights)
        if self.input_last is not None:
            input = np.moveaxis(input, -1, 1)
        patches = window_view(input, self.windows, 0)
        images, channels, rows, columns, *taps = patches.shape
        groups = self.groups.value.data
        terms = channels // groups * taps[0] * taps[1]
        patches = patches.reshape(
            images, groups, channels // groups, rows, columns, *taps
        )
        patches = patches.transpose(0, 1, 2, 5, 6, 3, 4)
        result = np.matmul(
            weights.reshape(groups, len(weights) // groups, terms),
            patches.reshape(images, groups, terms, rows * columns),
        ).reshape(images, len(weights), rows, columns)
        for addend in bias:
            result = np.add(result, addend[:, None, None])
        return (result if self.result_last is None else np.moveaxis(result, 1, -1),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        g, x, weights = only(grads), self.input, self.weights
        if self.wide is not None:
            x, weights = (o.cast(value, o.element(g)) for value in (x, weights))
        to_first, to_last = [0, 3, 1, 2], [0, 2, 3, 1]
        if self.result_last is not None:
            g = o.transpose(g, to_first)
        if self.input_last is not None:
            x = o.transpose(x, to_first)
        groups, (n, c, *extents) = self.groups.value.data, self.image_shape
        if 0 in (n, c, *extents, *o.shape(self.weights)):
            found = [o.zeros(self.input), o.zeros(self.weights)]
        else:
            of_x = transposed(
                o, g, weights, self.windows, extents, groups, images_convolved(o)
            )
            if self.input_last is not None:
                of_x = o.transpose(of_x, to_last)
            of_w = filter_gradient(o, x, g, self.windows, groups)
            element = o.element(self.input)
            found = [o.cast(value, element) for value in (of_x, of_w)]
        return [*found, *([] if self.bias is None else [o.sum(g, [0, 2, 3])])]

    @property
    def can_start(self) -> bool:
        return self.groups.value.data == 1

    def build_sums(
        self,
        k: KernelBuilder,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        ending: Ending,
    ) -> None:
        if self.is_depthwise and ending.body is None:
            input, weights, *bias = ins
            bias = bias[0] if bias else None
            build_depthwise(k, self.windows, input, weights, bias, outs[0])
            return
        self._build_dense(k, self._group_views(k, ins, outs), ending)

    def _group_views(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> _Views:
        """The memrefs with a dimension for the groups, if there are several."""
        input, weights, *rest = ins
        bias = rest[0] if rest else None
        groups = self.groups.value.data
        is_last = self.input_last is not None, self.result_last is not None
        if groups == 1:
            return _Views(input, weights, bias, outs)

        def split(value: SSAValue, axis: int) -> SSAValue:
            shape = list(memref_type(value).get_shape())
            shape[axis : axis + 1] = groups, shape[axis] // groups
            return k.view(value, shape)

        bias = split(bias, 0) if bias is not None else None
        of_input, of_out = (3 if last else 1 for last in is_last)
        images, filters = split(input, of_input), split(weights, 0)
        results = [split(out, of_out) for out in outs]
        return _Views(images, filters, bias, results)

    def _build_dense(self, k: KernelBuilder, views: _Views, ending: Ending) -> None:
        """
        All sums in one stage. They start from the bias, unless they have to start from
        a tensor: then it is added to them.
        """
        type = memref_type(views.outs[0])
        of_input, of_weights, of_bias, of_out, result = self._maps(type.get_num_dims())
        bias = None if views.bias is None else (views.bias, of_bias)
        start = None if ending.start is None else (ending.start, result)
        finish = Finish(type.element_type)
        if start is not None and bias is not None:
            finish.then([bias], lambda k, scalars: [k.add(*scalars)])
        ending.build(finish, result)
        build_contract(
            k,
            ((self._padded(k, views), of_input), (views.weights, of_weights)),
            [(out, of_out) for out in views.outs],
            start or bias,
            finish,
            unsigned_of((views.input, views.weights), self.wide is not None),
        )

    def _maps(self, rank: int) -> Sequence[AffineMap]:
        """
        The maps of the images, with their pads, the weights, the bias, and the result
        with so many dimensions, and without one for groups.
        """
        image, *group, output, row, column = dimensions(range(rank))
        channel, *taps = dimensions(range(rank, rank + 3))
        place = row, column
        positions = [
            start * window.stride + tap * window.dilation
            for start, tap, window in zip(place, taps, self.windows, strict=True)
        ]
        is_last = self.input_last is not None, self.result_last is not None
        return [
            AffineMap(rank + 3, 0, tuple(exprs))
            for exprs in (
                placed([image, *group, channel], positions, is_last[0]),
                [*group, output, channel, *taps],
                [*group, output],
                placed([image, *group, output], place, is_last[1]),
                placed([image, self._channel(group, output)], place, is_last[1]),
            )
        ]

    def nest(self, *, has_pads: bool = True) -> Nest:
        """
        The loops of the sums of one group, whose extents are known, with the accesses
        to the images, the weights and the result. Without `has_pads` its pads are
        elements of the images.
        """
        assert self.groups.value.data == 1, "there is one group"
        shapes = [
            tensor_type(value).get_shape()
            for value in (self.input, self.weights, self.result)
        ]
        of_input, of_weights, _, of_out, _ = self._maps(len(shapes[2]))
        maps = [of_input, of_weights, of_out]
        top, left, bottom, right = self.pads.get_values()
        sides = [(0, 0), (0, 0)], [(top, bottom), (left, right)]
        pads = placed(*sides, self.input_last is not None)
        whole = [
            low + extent + high
            for (low, high), extent in zip(pads, shapes[0], strict=True)
        ]
        extents = extents_of(maps, [whole, *shapes[1:]])
        images = access_of(of_input, shapes[0], pads)
        if not has_pads:
            images = access_of(of_input, whole)
        others = map(access_of, maps[1:], shapes[1:])
        accesses = [access for access in (images, *others) if access is not None]
        kept = of_out.used_dims()
        return Nest(
            tuple(extents),
            tuple(loop not in kept for loop in range(len(extents))),
            tuple(accesses),
        )

    def _channel(self, group: Sequence[AffineExpr], output: AffineExpr) -> AffineExpr:
        """The out channel by its group, if there are several, and in this."""
        if not group:
            return output
        outputs = tensor_type(self.weights).get_shape()[0]
        return group[0] * (outputs // self.groups.value.data) + output

    def _padded(self, k: KernelBuilder, views: _Views) -> SSAValue:
        """The images, with the pads around them."""
        if not any(self.pads.iter_values()):
            return views.input
        top, left, bottom, right = self.pads.get_values()
        others = [0] * (memref_type(views.input).get_num_dims() - 2)
        low, high = (
            placed(others, pads, self.input_last is not None)
            for pads in ([top, left], [bottom, right])
        )
        return k.insert(PaddedOp(views.input, low, high))


class _Views(NamedTuple):
    """The memrefs of a kernel, with a dimension for the groups if there are several."""

    input: SSAValue
    weights: SSAValue
    bias: SSAValue | None
    outs: Sequence[SSAValue]


def placed(channels: Sequence[T], place: Sequence[T], is_last: bool) -> list[T]:
    """
    The attributes of the dimensions of images, in their order: of the image and its
    channels (and their groups), and of lines and columns.
    """
    if not is_last:
        return [*channels, *place]
    return [channels[0], *place, *channels[1:]]


def first(dimensions: Sequence[T], is_last: bool) -> list[T]:
    """The attributes of the dimensions of images, with channels before lines."""
    image, *rest = dimensions
    return [image, *rest[2:], *rest[:2]] if is_last else [*dimensions]


def dimensions(loops: range) -> list[AffineExpr]:
    """Loops as affine expressions."""
    return [AffineExpr.dimension(loop) for loop in loops]
