"""
Max, average and global average pooling: ops of the `op` dialect, and their kernels.

The ONNX importer makes these ops. `kernel_body` calls `build_kernel`, which unrolls the
windows of a row where that pays and loops over taps elsewhere; the CPU code generator
reads the attribute `windows` of the stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.dialects.scf import ParallelOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.launch.stages import WINDOWS
from penstock.dialects.op.axes import I64List, int_list
from penstock.dialects.op.elementwise import ANY_ELEMENTS, FLOATS, UNARY_SUM
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.sbp import SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_rank, lowest
from penstock.dialects.op.windows import (
    Taps,
    Window,
    are_lines,
    outside,
    window_view,
    windows_attribute,
    windows_of,
)
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array


class PoolOp(TensorOp, ABC):
    """
    An op that combines the elements of each window of images [n, channels, h, w].

    `kernel` is the window's taps down and across, `pads` are at the top, left, bottom
    and right. With `ceil_mode` the last windows may end behind the pads, as long as
    they do not start behind the image.
    """

    input = operand_def(TensorType)
    kernel = prop_def(I64List)
    strides = prop_def(I64List, default_value=int_list([1, 1]))
    pads = prop_def(I64List, default_value=int_list([0, 0, 0, 0]))
    ceil_mode = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    MAY_REPEAT: ClassVar[bool]
    """Whether `combine` is idempotent: then taps in padding repeat others."""

    @property
    @abstractmethod
    def windows(self) -> tuple[Window, Window]:
        """The windows down and across an image."""

    @abstractmethod
    def combine(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        """Build the scalar op that combines two elements."""

    @abstractmethod
    def neutral(self, element: Attribute) -> float:
        """The number that changes no element of this type it is combined with."""

    @property
    def counted(self) -> Sequence[tuple[int, int]]:
        """
        The zeros of the pads that count, at the top and the bottom, and at the left and
        the right; nothing if elements are not counted.
        """
        return ()

    def build_divisor(
        self, k: KernelBuilder, taps: Sequence[Taps], float: Attribute
    ) -> SSAValue | None:
        """The divisor of the combined elements of a window, if there is one."""
        return None

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.input)
        check_rank("the input", type, 4)
        images, channels, *extents = type.get_shape()
        for window in self.windows:
            if max(window.before, window.after) >= window.taps:
                raise VerifyException(
                    f"pads {window.before} and {window.after} should be less than the "
                    f"window's {window.taps} taps"
                )
        counts = [w.count(e) for w, e in zip(self.windows, extents, strict=True)]
        return (TensorType(type.element_type, [images, channels, *counts]),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([axis], [axis]) for axis in range(2)]

    def flops(self) -> int:
        images, channels, *extents = tensor_type(self.input).get_shape()
        taps = (
            window.count_taps(extent)
            for window, extent in zip(self.windows, extents, strict=True)
        )
        return images * channels * prod(taps)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        has_lines = self._has_lines(memref_type(ins[0]).get_shape()[2:])
        build = self._build_lines if has_lines else self._build_each
        build(k, ins[0], outs[0]).attributes[WINDOWS] = windows_attribute(
            self.windows, with_taps=True, counted=self.counted
        )

    def _build_each(
        self, k: KernelBuilder, input: SSAValue, out: SSAValue
    ) -> ParallelOp:
        """Each window on its own, with loops over those taps that are not padding."""
        type = memref_type(input)
        extents = type.get_shape()[2:]

        def body(k: KernelBuilder, indices: Sequence[SSAValue]) -> None:
            taps = tuple(
                window.build_taps(k, index, extent)
                for window, index, extent in zip(
                    self.windows, indices[2:], extents, strict=True
                )
            )
            init = k.constant(self.neutral(type.element_type), type.element_type)
            combined = self._build_loops(k, input, indices[:2], taps, init)
            divisor = self.build_divisor(k, taps, type.element_type)
            k.store(_divided(k, combined, divisor), out, indices)

        return k.parallel(memref_type(out).get_shape(), body)

    def _has_lines(self, extents: Sequence[int]) -> bool:
        """Whether most windows of a row have all their taps, and these are few."""
        has_nearest = all(window.dilation == 1 for window in self.windows)
        return has_nearest and are_lines(self.windows, extents)

    def _build_lines(
        self, k: KernelBuilder, input: SSAValue, out: SSAValue
    ) -> ParallelOp:
        """The windows of a row in a loop, but for those at its ends."""
        images, channels, *extents = memref_type(input).get_shape()
        rows, columns = memref_type(out).get_shape()[2:]
        planes = images * channels
        source = k.view(input, [planes, *extents])
        target = k.view(out, [planes, rows, columns])
        across = self.windows[1]
        whole = across.whole(extents[1])

        def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
            row = self._build_row(k, source, place)

            def write(k: KernelBuilder, column: SSAValue, first: int) -> None:
                k.store(row(k, column, first), target, [*place, column])

            k.each_in(whole, lambda k, column: write(k, column, whole.start))
            for column in outside(whole, columns):
                write(k, k.index(column), column)

        return k.parallel([planes, rows], body)

    def _build_row(
        self, k: KernelBuilder, source: SSAValue, place: Sequence[SSAValue]
    ) -> Callable[[KernelBuilder, SSAValue, int], SSAValue]:
        """
        A function that builds the result of a window of a row of a plane, given its
        column, and the number of some column that has the same taps.

        Taps above and below the image are the nearest ones inside, or count as 0.
        """
        type = memref_type(source)
        _, height, width = type.get_shape()
        plane, row = place
        down, across = self.windows
        kind = None if self.MAY_REPEAT else type.element_type
        lines = [down.build_tap(k, row, tap, height, kind) for tap in range(down.taps)]
        rows = down.build_taps(k, row, height)
        divisors = {
            column: self.build_divisor(
                k,
                (rows, across.build_taps(k, k.index(column), width)),
                type.element_type,
            )
            for column in across.kinds(width)
        }

        def result(k: KernelBuilder, column: SSAValue, like: int) -> SSAValue:
            start = k.mul(column, k.index(across.stride))
            inside = across.inside(like, width)
            columns = [k.add(start, k.index(tap - across.before)) for tap in inside]
            terms = (
                line.build_term(k, k.load(source, [plane, line.position, column]))
                for line in lines
                for column in columns
            )
            return _divided(k, reduce(partial(self.combine, k), terms), divisors[like])

        return result

    def _build_loops(
        self,
        k: KernelBuilder,
        input: SSAValue,
        image: Sequence[SSAValue],
        taps: Sequence[Taps],
        init: SSAValue,
    ) -> SSAValue:
        """Loops over the elements of one window."""

        def body(
            k: KernelBuilder, indices: Sequence[SSAValue], combined: SSAValue
        ) -> SSAValue:
            position = (
                window.build_position(k, tap.start, index)
                for window, tap, index in zip(self.windows, taps, indices, strict=True)
            )
            return self.combine(k, combined, k.load(input, [*image, *position]))

        return k.accumulate([(tap.lower, tap.upper) for tap in taps], init, body)


@irdl_op_definition
class MaxPool2dOp(PoolOp):
    """
    The largest element of each window of images [n, channels, h, w]; a NaN where there
    is one, and the lowest number of the element type where all taps are padding. Of 0.0
    and -0.0 either may be the largest.

    `kernel` is the window's taps down and across, `dilations` apart; `pads` are at the
    top, left, bottom and right. With `ceil_mode` the last windows may end behind the
    pads, as long as they do not start behind the image.

    ```mlir
    %y = op.max_pool2d %x kernel [3, 3] strides [2, 2] ceil_mode
      : tensor<1x8x16x16xf32> -> tensor<1x8x8x8xf32>
    ```
    """

    name = "op.max_pool2d"
    MAY_REPEAT: ClassVar[bool] = True

    dilations = prop_def(I64List, default_value=int_list([1, 1]))

    traits = traits_def(Pure())

    assembly_format = (
        "$input `kernel` $kernel (`strides` $strides^)? (`pads` $pads^)? "
        "(`dilations` $dilations^)? (`ceil_mode` $ceil_mode^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            self.dilations,
            self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        ANY_ELEMENTS.verify(tensor_type(self.input))
        return super().infer_types()

    def combine(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return k.maximum(a, b)

    def neutral(self, element: Attribute) -> float:
        return lowest(element)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        padding = lowest(tensor_type(self.input).element_type)
        view = window_view(operands[0], self.windows, padding)
        return (np.max(view, axis=(-2, -1)),)


@irdl_op_definition
class AveragePool2dOp(PoolOp):
    """
    The mean of each window of images [n, channels, h, w] of floats.

    `kernel` is the window's taps down and across, `pads` are at the top, left, bottom
    and right. A mean is that of the elements inside the image; with
    `count_include_pad` that of these elements and zeros in the pads. With `ceil_mode`
    the last windows may end behind the pads, as long as they do not start behind the
    image. Sums are in the element type, over the few taps of a window.

    ```mlir
    %y = op.average_pool2d %x kernel [2, 2] strides [2, 2] pads [1, 1, 1, 1]
      count_include_pad : tensor<1x8x6x6xf32> -> tensor<1x8x4x4xf32>
    ```
    """

    name = "op.average_pool2d"
    MAY_REPEAT: ClassVar[bool] = False

    count_include_pad = opt_prop_def(UnitAttr)

    traits = traits_def(Pure())

    assembly_format = (
        "$input `kernel` $kernel (`strides` $strides^)? (`pads` $pads^)? "
        "(`ceil_mode` $ceil_mode^)? (`count_include_pad` $count_include_pad^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    @property
    def windows(self) -> tuple[Window, Window]:
        return windows_of(
            self.kernel.get_values(),
            self.strides,
            self.pads,
            ceil=self.ceil_mode is not None,
        )

    def infer_types(self) -> Sequence[TensorType]:
        FLOATS.verify(tensor_type(self.input))
        return super().infer_types()

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*super().sbp_signatures(devices), UNARY_SUM)

    def flops(self) -> int:
        return super().flops() + element_count(self.result.type)

    def combine(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        return k.add(a, b)

    def neutral(self, element: Attribute) -> float:
        return 0

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        down, across = self._counts()
        sums = np.add.reduce(
            window_view(array, self.windows, 0), axis=(-2, -1), dtype=array.dtype
        )
        counts = np.multiply.outer(down, across).astype(array.dtype)
        with np.errstate(invalid="ignore"):
            return (np.divide(sums, counts),)

    @property
    def counted(self) -> Sequence[tuple[int, int]]:
        has_pads = self.count_include_pad is not None
        return [(w.before, w.after) if has_pads else (0, 0) for w in self.windows]

    def _counts(self) -> tuple[list[int], list[int]]:
        """The number of taps of each window that count, for both dimensions."""
        include_pad = self.count_include_pad is not None
        down, across = (
            window.taps_inside(extent, include_pad)
            for window, extent in zip(self.windows, self._extents, strict=True)
        )
        return down, across

    @property
    def _extents(self) -> Sequence[int]:
        return tensor_type(self.input).get_shape()[2:]

    def build_divisor(
        self, k: KernelBuilder, taps: Sequence[Taps], float: Attribute
    ) -> SSAValue | None:
        down, across = (
            k.sub(tap.upper, tap.lower)
            if self.count_include_pad is None
            else window.build_taps_with_pads(k, tap.start, extent)
            for window, tap, extent in zip(
                self.windows, taps, self._extents, strict=True
            )
        )
        return k.index_to_float(k.mul(down, across), float)


def _divided(
    k: KernelBuilder, combined: SSAValue, divisor: SSAValue | None
) -> SSAValue:
    return combined if divisor is None else k.div(combined, divisor)


@irdl_op_definition
class GlobalAveragePoolOp(TensorOp):
    """
    The mean of each channel of floats [n, channels, ...]; all other extents become 1.

    Sums are in the element type, so that the error grows with the number of terms: at
    most like it, about like its square root for random terms.

    ```mlir
    %y = op.global_average_pool %x : tensor<1x8x6x6xf32> -> tensor<1x8x1x1xf32>
    ```
    """

    name = "op.global_average_pool"

    input = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.input)
        FLOATS.verify(type)
        if type.get_num_dims() < 3:
            raise VerifyException(
                f"the input should have at least 3 dimensions, got {type}"
            )
        images, channels, *extents = type.get_shape()
        shape = [images, channels, *[1] * len(extents)]
        return (TensorType(type.element_type, shape),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return (*(signature([axis], [axis]) for axis in range(2)), UNARY_SUM)

    def flops(self) -> int:
        return element_count(self.input.type) + element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        axes = tuple(range(2, array.ndim))
        sums = np.add.reduce(array, axis=axes, dtype=array.dtype, keepdims=True)
        count = array.dtype.type(prod(array.shape[2:]))
        with np.errstate(invalid="ignore"):
            return (np.divide(sums, count),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        type = memref_type(ins[0])
        images, channels, *extents = type.get_shape()
        shape = [images, channels, prod(extents)]
        input, out = k.view(ins[0], shape), k.view(outs[0], shape[:2])

        def body(k: KernelBuilder, channel: Sequence[SSAValue]) -> None:
            total = Line(input, channel).fold(k, 0, KernelBuilder.add_term)
            count = k.constant(shape[2], type.element_type)
            k.store(k.div(total, count), out, channel)

        k.parallel(shape[:2], body)
