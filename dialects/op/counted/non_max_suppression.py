"""Non-maximum suppression: the boxes of images that no better one overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.counted.compaction import (
    COUNT,
    CountedOp,
    more,
    once,
    zeros_from,
)
from penstock.dialects.op.counted.heap_sort import (
    PlaceLine,
    build_heap,
    take_root,
    to_i64,
    within,
)
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.verify import check_rank, check_shape, same_element_type
from penstock.dialects.utils.gradients import NO_FLOATS
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

COLUMNS = 3
"""Image, class and box of each that is selected."""


@irdl_op_definition
class NonMaxSuppressionOp(CountedOp):
    """
    The boxes of each image and class, best scores first, that overlap none of those
    before by more than a threshold of intersection over union: at most `most` of a
    class, and only those with scores above the last operand, if there is one. Of equal
    scores the first box comes first; a NaN is no score. Boxes are two corners, or with
    `centers` the center and the size (x, y, width, height).

    The results are image, class and box of each, and their count, and for each class
    the boxes that are kept, with -1 behind the last one. There is room for `most` boxes
    of each class, or for `max` in all; that there are more is an error when it runs.

    ```mlir
    %selected, %count, %kept = op.non_max_suppression %boxes, %scores, %iou, %score
      most 10 : tensor<2x50x4xf32>, tensor<2x3x50xf32>, tensor<f32>, tensor<f32>
      -> tensor<60x3xi64>, tensor<i64>, tensor<2x3x50xi64>
    ```
    """

    name = "op.non_max_suppression"
    NO_GRADIENT: ClassVar = NO_FLOATS

    boxes = operand_def(TensorType)
    scores = operand_def(TensorType)
    iou_threshold = operand_def(TensorType)
    score_threshold = opt_operand_def(TensorType)
    most = prop_def(I64Attr)
    centers = opt_prop_def(UnitAttr)
    selected = result_def(TensorType)
    count = result_def(TensorType)
    kept = result_def(TensorType)

    assembly_format = (
        "$boxes `,` $scores `,` $iou_threshold (`,` $score_threshold^)? `most` $most "
        "(`centers` $centers^)? (`max` $max^)? attr-dict `:` type($boxes) `,` "
        "type($scores) `,` type($iou_threshold) (`,` type($score_threshold)^)? `->` "
        "type($selected) `,` type($count) `,` type($kept)"
    )

    def lines(self) -> int:
        """The most boxes of a class that are kept; `DYNAMIC_INDEX` if unknown."""
        boxes, most = tensor_type(self.scores).get_shape()[2], self.most
        if boxes == DYNAMIC_INDEX:
            return DYNAMIC_INDEX
        return min(boxes, most.value.data)

    def bound(self) -> int:
        extents = [*tensor_type(self.scores).get_shape()[:2], self.lines()]
        if DYNAMIC_INDEX in extents:
            return DYNAMIC_INDEX
        return extents[0] * extents[1] * extents[2]

    def infer_types(self) -> Sequence[TensorType]:
        FLOATS.verify(boxes := tensor_type(self.boxes))
        same_element_type(self.operands)
        scores = tensor_type(self.scores)
        check_rank("the scores", scores, 3)
        images, _, count = scores.get_shape()
        check_shape("the boxes", boxes, [images, count, 4])
        for threshold in self.operands[2:]:
            check_shape("a threshold", tensor_type(threshold), [])
        if (most := self.most.value.data) < 0:
            raise VerifyException(f"there are no {most} boxes of a class")
        room = self.room(self.bound())
        return (
            TensorType(i64, [room, COLUMNS]),
            COUNT,
            TensorType(i64, scores.get_shape()),
        )

    def flops(self) -> int:
        # All are sorted, and compared with those that are kept at the most.
        images, classes, boxes = tensor_type(self.scores).get_shape()
        each = 4 * log2(boxes + 1) + 16 * self.lines()
        return int(images * classes * boxes * each)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        boxes, scores, overlap, *least = operands
        kept = np.full(scores.shape, -1, np.int64)
        found: list[tuple[int, int, int]] = []
        for image, label in np.ndindex(scores.shape[:2]):
            line = scores[image, label]
            is_candidate = np.equal(line, line)
            if least:
                is_candidate &= np.greater(line, least[0])
            candidates = np.flatnonzero(is_candidate)
            worse = np.negative(line[candidates])
            order = candidates[np.argsort(worse, kind="stable")]
            corners = corners_of(boxes[image], centers=self.centers is not None)
            places = suppressed(corners, order, overlap, self.lines())
            kept[image, label, : len(places)] = places
            found += [(image, label, place) for place in places]
        self.refuse_more(len(found))
        selected = np.zeros(tensor_type(self.selected).get_shape(), np.int64)
        selected[: len(found)] = np.array(found, np.int64).reshape(-1, COLUMNS)
        return selected, np.asarray(len(found)), kept

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        boxes, scores, overlap, *least = ins
        selected, count, kept = outs
        images, classes, length = memref_type(scores).get_shape()
        if images * classes * length:

            def suppress(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
                limits = k.load(overlap, []), [k.load(value, []) for value in least]
                of_class = _Class(
                    self, boxes, Line(scores, at), Line(kept, at), *limits
                )
                of_class.build(k)

            k.parallel([images, classes], suppress)
        once(k, lambda k: self._list(k, selected, count, kept))

    def _list(
        self, k: KernelBuilder, selected: SSAValue, count: SSAValue, kept: SSAValue
    ) -> None:
        """Write all that are kept one after the other."""
        images, classes, _ = memref_type(kept).get_shape()
        room = memref_type(selected).get_shape()[0]

        def step(k: KernelBuilder, at: Sequence[SSAValue], found: SSAValue) -> SSAValue:
            place = k.load(kept, at)
            is_kept = k.compare("ge", place, k.constant(0, i64))
            has_room = k.compare("lt", found, k.index(room))
            row = [to_i64(k, at[0]), to_i64(k, at[1]), place]
            if room:
                k.when(
                    k.insert(arith.AndIOp(is_kept, has_room)),
                    lambda k: _write_row(k, selected, row, within(k, found, room)),
                )
            return more(k, found, is_kept)

        zero = k.index(0)
        extents = (images, classes, self.lines())
        found = zero
        if 0 not in extents:
            bounds = [(zero, k.index(extent)) for extent in extents]
            found = k.accumulate(bounds, zero, step)
        self.check_count(k, found)
        k.store(to_i64(k, found), count, [])
        for column in range(COLUMNS):
            line = Line(selected, [], [k.index(column)])
            zeros_from(k, line, found, k.constant(0, i64))


def _write_row(
    k: KernelBuilder, target: SSAValue, row: Sequence[SSAValue], place: SSAValue
) -> None:
    for column, value in enumerate(row):
        k.store(value, target, [place, k.index(column)])


Interval: TypeAlias = "tuple[SSAValue, SSAValue]"
"""The lower and the upper end of a box along an axis."""


class _Class(NamedTuple):
    """The suppression of the boxes of one class of an image."""

    op: NonMaxSuppressionOp
    boxes: SSAValue
    scores: Line
    kept: Line
    overlap: SSAValue
    least: Sequence[SSAValue]

    def build(self, k: KernelBuilder) -> None:
        """
        Take the best candidates from a heap, and let those stay that no better one
        overlaps. The heap lies at the end of the line, and is left by as many places
        as those that stay need at its front.
        """
        kept, heap = PlaceLine(self.kept), PlaceLine(self.kept, reversed=True)
        count = self._candidates(k, heap)
        build_heap(k, heap, count, self._after)
        zero, no, most = k.index(0), k.constant(0, i1), k.index(self.op.lines())

        def step(
            k: KernelBuilder, turn: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            (found,) = carried

            def take(k: KernelBuilder) -> SSAValue:
                end = k.sub(k.sub(count, k.index(1)), turn)
                place = take_root(k, heap, end, self._after)
                stays = k.compare("eq", self._overlaps(k, kept, place, found), no)
                k.when(stays, lambda k: kept.store(k, place, found))
                return more(k, found, stays)

            return [k.either(k.compare("lt", found, most), take, lambda k: found)]

        (found,) = k.loop(zero, count, [zero], step)
        zeros_from(k, self.kept, found, k.constant(-1, i64))

    def _candidates(self, k: KernelBuilder, places: PlaceLine) -> SSAValue:
        """List the boxes whose scores are high enough; the number of them."""

        def step(
            k: KernelBuilder, box: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            score = self.scores.load(k, box)
            is_one = k.compare("eq", score, score)
            for least in self.least:
                is_above = k.compare("gt", score, least)
                is_one = k.insert(arith.AndIOp(is_one, is_above))
            k.when(is_one, lambda k: places.store(k, box, carried[0]))
            return [more(k, carried[0], is_one)]

        zero = k.index(0)
        return k.loop(zero, k.index(self.scores.extent), [zero], step)[0]

    def _after(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        """Whether the score at one place is worse, or equal and the place later."""
        extent = self.scores.extent
        x, y = (self.scores.load(k, within(k, place, extent)) for place in (a, b))
        is_tie = k.insert(arith.AndIOp(k.compare("eq", x, y), k.compare("gt", a, b)))
        return k.insert(arith.OrIOp(k.compare("lt", x, y), is_tie))

    def _overlaps(
        self, k: KernelBuilder, places: PlaceLine, place: SSAValue, count: SSAValue
    ) -> SSAValue:
        """Whether a box overlaps one of the first `count` places too far."""
        box = [self._interval(k, place, axis) for axis in (0, 1)]
        area, no = k.mul(*(_length(k, side) for side in box)), k.constant(0, i1)

        def step(
            k: KernelBuilder, rank: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            (does,) = carried
            # The first one is enough.
            return [
                k.either(
                    does,
                    lambda k: does,
                    lambda k: self._overlap(k, box, area, places.load(k, rank)),
                )
            ]

        return k.loop(k.index(0), count, [no], step)[0]

    def _interval(self, k: KernelBuilder, place: SSAValue, axis: int) -> Interval:
        """The lower and the upper end of a box along an axis."""
        at = [self.scores.before[0], within(k, place, self.scores.extent)]
        first, second = (
            k.load(self.boxes, [*at, k.index(i)]) for i in (axis, axis + 2)
        )
        if self.op.centers is None:
            return _lower(k, first, second), _higher(k, first, second)
        half = k.mul(second, k.constant(0.5, first.type))
        return k.sub(first, half), k.add(first, half)

    def _overlap(
        self,
        k: KernelBuilder,
        box: Sequence[Interval],
        area: SSAValue,
        place: SSAValue,
    ) -> SSAValue:
        """
        Whether intersection over union with the box at a place is above the threshold.
        No branch asks whether boxes have something in common, which is not foreseen.
        """
        others = [self._interval(k, place, axis) for axis in (0, 1)]
        width, height = (
            _length(k, _common(k, own, other))
            for own, other in zip(box, others, strict=True)
        )
        other = k.mul(*(_length(k, side) for side in others))
        found = self._is_too_far(k, area, other, k.mul(width, height))
        for length in (width, height):
            is_there = k.compare("gt", length, k.constant(0, length.type))
            found = k.insert(arith.AndIOp(found, is_there))
        return found

    def _is_too_far(
        self, k: KernelBuilder, area: SSAValue, other: SSAValue, common: SSAValue
    ) -> SSAValue:
        union = k.sub(k.add(area, other), common)
        # The quotient is the one that is compared, as products are rounded otherwise.
        too_far = k.compare("gt", k.div(common, union), self.overlap)
        for size in (area, other, union):
            is_there = k.compare("gt", size, k.constant(0, size.type))
            too_far = k.insert(arith.AndIOp(too_far, is_there))
        return too_far


def _lower(k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    # A box with a NaN has an extent that is not above 0, whichever is chosen.
    return k.select(k.compare("lt", a, b), a, b)


def _higher(k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    return k.select(k.compare("gt", a, b), a, b)


def _common(k: KernelBuilder, a: Interval, b: Interval) -> Interval:
    return _higher(k, a[0], b[0]), _lower(k, a[1], b[1])


def _length(k: KernelBuilder, interval: Interval) -> SSAValue:
    return k.sub(interval[1], interval[0])


def corners_of(boxes: Array, *, centers: bool) -> Array:
    """The lower and the upper corners of boxes, [boxes, 2, 2]."""
    import numpy as np

    first, second = boxes[:, :2], boxes[:, 2:]
    if centers:
        half = np.multiply(second, np.asarray(0.5, second.dtype))
        return np.stack([np.subtract(first, half), np.add(first, half)], 1)
    return np.stack([np.minimum(first, second), np.maximum(first, second)], 1)


def areas_of(low: Array, high: Array) -> Array:
    """The areas of boxes between these corners."""
    import numpy as np

    return np.prod(np.subtract(high, low), -1)


def suppressed(
    corners: Array, order: NDArray[np.int64], threshold: Array, most: int
) -> list[int]:
    """The places of an order that overlap none before them, at most so many."""
    import numpy as np

    left, kept = order, list[int]()
    areas = areas_of(corners[:, 0], corners[:, 1])
    with np.errstate(all="ignore"):
        while len(left) and len(kept) < most:
            best, left = left[0], left[1:]
            kept.append(int(best))
            low = np.maximum(corners[best, 0], corners[left, 0])
            high = np.minimum(corners[best, 1], corners[left, 1])
            common = areas_of(low, high)
            union = np.subtract(np.add(areas[best], areas[left]), common)
            sizes = np.stack([np.broadcast_to(areas[best], left.shape), areas[left]])
            far = np.greater(np.divide(common, union), threshold)
            far &= np.greater(high, low).all(1) & np.greater(sizes, 0).all(0)
            far &= np.greater(union, 0)
            left = left[~far]
    return kept
