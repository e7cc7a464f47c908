"""`op.max_pool2d_gradient`: where the gradient of a largest element goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from xdsl.dialects.builtin import TensorType, UnitAttr, i1
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.windows import (
    MAX_UNROLLED,
    Window,
    window_view,
)
from penstock.dialects.op.axes import I64List, int_list
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_shape, same_element_type
from penstock.dialects.op.windows.window_numbers import (
    pooled_shape,
    pooled_taps,
    windows_of,
)
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class MaxPool2dGradientOp(TensorOp):
    """
    The gradient of `op.max_pool2d` by its images [n, channels, h, w], given these, the
    largest element of each window and its gradient. It goes to the first tap of the
    window, row by row, that is equal to the largest element; to the first NaN where
    this is one. A window of padding alone has none.

    Sums are in the element type, over the few windows that an element is part of.

    ```mlir
    %d = op.max_pool2d_gradient %x, %y, %g kernel [3, 3] strides [2, 2] ceil_mode
      : tensor<1x8x16x16xf32>, tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>
      -> tensor<1x8x16x16xf32>
    ```
    """

    name = "op.max_pool2d_gradient"
    NO_GRADIENT: ClassVar[str] = "there are no second derivatives of pools"

    input = operand_def(TensorType)
    largest = operand_def(TensorType)
    grad = operand_def(TensorType)
    kernel = prop_def(I64List)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    dilations = prop_def(I64List, default_value=int_list([1, 1]))
    ceil_mode = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `,` $largest `,` $grad `kernel` $kernel (`strides` $strides^)? "
        "(`pads` $pads^)? (`dilations` $dilations^)? (`ceil_mode` $ceil_mode^)? "
        "attr-dict `:` type($input) `,` type($largest) `,` type($grad) "
        "`->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows down and across an image."""
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            self.dilations,
            self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        same_element_type(self.operands)
        type = tensor_type(self.input)
        FLOATS.verify(type)
        shape = pooled_shape(type, self.windows)
        check_shape("the result of the pool", tensor_type(self.largest), shape)
        check_shape("the gradient", tensor_type(self.grad), shape)
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([axis] * 3, [axis]) for axis in range(2)]

    def flops(self) -> int:
        return pooled_taps(tensor_type(self.input), self.windows)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        input, largest, grad = operands
        down, across = self.windows
        # Padding is no tap: no element is equal to a NaN, and 0 says it is none itself.
        taps = window_view(input, self.windows, 0)
        inside = window_view(np.ones_like(input, np.bool_), self.windows, 0)
        wanted = largest[..., None, None]
        hits = inside & ((taps == wanted) | np.isnan(taps))
        hits = hits.reshape(*grad.shape, down.taps * across.taps)
        tap = np.argmax(hits, -1)
        found = np.take_along_axis(hits, tap[..., None], -1)[..., 0]
        image, channel, row, column = np.nonzero(found)
        at = tap[image, channel, row, column]
        rows = row * down.stride - down.before + at // across.taps * down.dilation
        columns = (
            column * across.stride - across.before + at % across.taps * across.dilation
        )
        result = np.zeros_like(input)
        np.add.at(result, (image, channel, rows, columns), grad[found])
        return (result,)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        type = memref_type(ins[0])
        images, channels, height, width = type.get_shape()
        *_, rows, columns = memref_type(ins[1]).get_shape()
        planes = images * channels
        input, out = (
            k.view(value, [planes, height * width]) for value in (ins[0], outs[0])
        )
        largest, grad = (k.view(value, [planes, rows, columns]) for value in ins[1:])

        zero = k.constant(0, type.element_type)
        arrays = _Arrays(input, largest, grad, out, (height, width))
        parts = self._parts([height, width], [rows, columns])

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            (plane,) = place
            k.each(height * width, lambda k, at: k.store(zero, out, [plane, at]))
            for build, indices in parts:
                each_of(
                    k,
                    indices,
                    lambda k, at, build=build: build(k, arrays, [plane, *at]),
                )

        k.parallel([planes], body)

    def _parts(
        self, extents: Sequence[int], counts: Sequence[int]
    ) -> Sequence[tuple[_Builder, tuple[range, range]]]:
        """
        The windows of an image, row by row, where none is left out: those that have all
        their taps inside, if these are few, and those around them.
        """
        down, across = self.windows
        rows, columns = map(range, counts)
        if 0 in extents or down.taps * across.taps > MAX_UNROLLED:
            return [(self._build_window, (rows, columns))]
        tall, wide = (w.whole(e) for w, e in zip(self.windows, extents, strict=True))
        edge, whole = self._build_window, self._build_whole
        return [
            (edge, (rows[: tall.start], columns)),
            (edge, (tall, columns[: wide.start])),
            (whole, (tall, wide)),
            (edge, (tall, columns[wide.stop :])),
            (edge, (rows[tall.stop :], columns)),
        ]

    def _build_whole(
        self, k: KernelBuilder, arrays: _Arrays, place: Sequence[SSAValue]
    ) -> None:
        """
        Add the gradient of a window that has all its taps, and no loop over these: the
        last of them that is found, going backwards, is the first.
        """
        plane, *index = place
        largest, grad = k.load(arrays.largest, place), k.load(arrays.grad, place)
        down, across = self.windows
        row, column = (
            w.build_start(k, i) for w, i in zip(self.windows, index, strict=True)
        )
        width = arrays.extents[1]
        start = k.add(k.mul(row, k.index(width)), column)
        none = offset = k.index(-1)
        for y, x in reversed([*product(range(down.taps), range(across.taps))]):
            own = k.index(y * down.dilation * width + x * across.dilation)
            value = k.load(arrays.input, [plane, k.add(start, own)])
            offset = k.select(_is_found(k, value, largest), own, offset)

        def give(k: KernelBuilder) -> None:
            at = [plane, k.add(start, offset)]
            k.store(k.add(k.load(arrays.out, at), grad), arrays.out, at)

        k.when(k.compare("ne", offset, none), give)

    def _build_window(
        self, k: KernelBuilder, arrays: _Arrays, place: Sequence[SSAValue]
    ) -> None:
        """Add the gradient of a window to the first of its taps that is the largest."""
        plane, *index = place
        bounds = [
            window.build_taps(k, at, extent)
            for window, at, extent in zip(
                self.windows, index, arrays.extents, strict=True
            )
        ]
        largest, grad = k.load(arrays.largest, place), k.load(arrays.grad, place)

        def tap(k: KernelBuilder, at: Sequence[SSAValue], found: SSAValue) -> SSAValue:
            row, column = (
                window.build_position(k, taps.start, own)
                for window, taps, own in zip(self.windows, bounds, at, strict=True)
            )
            line = k.mul(row, k.index(arrays.extents[1]))
            position = [plane, k.add(line, column)]
            value = k.load(arrays.input, position)
            hit = _is_found(k, value, largest)

            def give(k: KernelBuilder) -> None:
                total = k.add(k.load(arrays.out, position), grad)
                k.store(total, arrays.out, position)

            k.when(k.select(found, k.constant(0, i1), hit), give)
            return k.maximum(found, hit)

        ranges = [(taps.lower, taps.upper) for taps in bounds]
        k.accumulate(ranges, k.constant(0, i1), tap)


class _Arrays(NamedTuple):
    """The memrefs of a kernel: planes of elements, and planes of lines of windows."""

    input: SSAValue
    largest: SSAValue
    grad: SSAValue
    out: SSAValue
    extents: tuple[int, int]
    """The lines of a plane of elements, and the elements of each."""


_Builder: TypeAlias = "Callable[[KernelBuilder, _Arrays, Sequence[SSAValue]], None]"
"""A function that adds the gradient of a window of a plane, a row and a column."""


def _is_found(k: KernelBuilder, value: SSAValue, largest: SSAValue) -> SSAValue:
    """Whether a tap has the largest element of its window, or is a NaN."""
    is_nan = k.compare("ne", value, value)
    return k.maximum(k.compare("eq", value, largest), is_nan)


def each_of(
    k: KernelBuilder,
    indices: tuple[range, range],
    body: Callable[[KernelBuilder, Sequence[SSAValue]], None],
) -> None:
    """Two sequential loops, one in the other; none where one has no turn."""
    rows, columns = indices
    if rows and columns:
        k.each_in(rows, lambda k, y: k.each_in(columns, lambda k, x: body(k, [y, x])))
