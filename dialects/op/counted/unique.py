"""The differing rows of a tensor, with their places and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, prod
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, TensorType, UnitAttr, i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.counted.compaction import COUNT, once, zeros_from
from penstock.dialects.op.counted.heap_sort import (
    PlaceLine,
    sort_places,
    to_i64,
    within,
)
from penstock.dialects.op.counted.radix_sort import (
    DIGITS,
    RadixSort,
    key_bytes,
    key_of,
)
from penstock.dialects.op.elementwise import ANY_ELEMENTS
from penstock.dialects.op.row_ops import Line
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class UniqueOp(TensorOp):
    """
    The rows along the first axis that differ, by rising elements if they are `sorted`,
    else as they come; for each the place of its first one and the number of those that
    equal it; for each row of the operand its place among the differing ones; and the
    number of these. Zeros stand behind the last one. All NaN are equal, and come after
    all numbers.

    ```mlir
    %rows, %first, %place, %times, %count = op.unique %a sorted
      : tensor<9xf32>
      -> tensor<9xf32>, tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>
    ```
    """

    name = "op.unique"

    operand = operand_def(TensorType)
    sorted = opt_prop_def(UnitAttr)
    rows = result_def(TensorType)
    first = result_def(TensorType)
    place = result_def(TensorType)
    times = result_def(TensorType)
    count = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$operand (`sorted` $sorted^)? attr-dict `:` type($operand) `->` type($rows) "
        "`,` type($first) `,` type($place) `,` type($times) `,` type($count)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        ANY_ELEMENTS.verify(type)
        if not type.get_num_dims():
            raise VerifyException("a scalar has no rows")
        places = TensorType(i64, type.get_shape()[:1])
        return type, places, places, places, COUNT

    def flops(self) -> int:
        # At most, a heap is gone through twice from top to bottom for each row.
        rows = tensor_type(self.operand).get_shape()[0]
        return int(4 * element_count(self.operand.type) * log2(rows + 1))

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        (array,) = operands
        length = len(array)
        lines = array.reshape(length, prod(array.shape[1:]))
        first, place, times = found = differing(lines)
        count = len(first)
        if self.sorted is None:
            order = np.argsort(first)
            first, times = first[order], times[order]
            place = np.argsort(order)[place]
            found = first, place, times
        rows = np.zeros_like(array)
        rows[:count] = array[first]
        columns = [np.zeros(length, np.int64) for _ in found]
        for column, values in zip(columns, found, strict=True):
            column[: len(values)] = values
        return rows, *columns, np.asarray(count)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        length, *rest = memref_type(ins[0]).get_shape()
        if not length:
            once(k, lambda k: k.store(k.constant(0, i64), outs[4], []))
            return
        shape = [length, prod(rest)]
        data, rows = k.view(ins[0], shape), k.view(outs[0], shape)
        first, place, times = (PlaceLine(Line(out, [])) for out in outs[1:4])
        built = _Rows(data, rows, first, place, times)
        once(k, lambda k: built.build(k, outs[4], in_order=self.sorted is not None))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """Each row that is the first one of those that equal it has its gradient."""
        g = grads[0]
        if g is None:
            return [None]
        count, *row = o.shape(g)
        ones = o.filled(1, [count], self.place)
        numbers = o.one("op.cum_sum", ones, axis=0, exclusive=True)
        first = o.one("op.gather", self.first, self.place, axis=0)
        is_first = o.reshape(o.equal(first, numbers), [count, *(1 for _ in row)])
        return [o.where(is_first, o.one("op.gather", g, self.place, axis=0), 0)]


class _Rows(NamedTuple):
    """The memory of a kernel: rows by the places that they have."""

    data: SSAValue
    rows: SSAValue
    first: PlaceLine
    place: PlaceLine
    times: PlaceLine

    def build(self, k: KernelBuilder, count: SSAValue, *, in_order: bool) -> None:
        """Sort the places, number rows that differ, and number them as they come."""
        length = self.first.line.extent

        def fill(
            k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            self.first.store(k, index, index)
            return ()

        k.loop(k.index(0), k.index(length), (), fill)
        self._sort(k)
        found = self._number(k, in_order=in_order)
        if not in_order:
            found = self._as_they_come(k)
        k.store(to_i64(k, found), count, [])
        self._blank(k, found)

    def _sort(self, k: KernelBuilder) -> None:
        """Sort the places, by bytes where there are fewer of these than steps down."""
        length, width = memref_type(self.data).get_shape()
        size = key_bytes(memref_type(self.data).element_type)
        if length < DIGITS or width * size > 2 * log2(length):
            sort_places(k, self.first, k.index(length), self._before)
            return
        sort = RadixSort(self.first, self.place, self.times)

        def by_column(k: KernelBuilder, number: SSAValue) -> None:
            column = k.sub(k.index(width - 1), number)

            def key(k: KernelBuilder, row: SSAValue) -> SSAValue:
                at = [within(k, row, length), column]
                return key_of(k, k.load(self.data, at))

            sort.build(k, key, size)

        k.each(width, by_column)

    def _before(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        order = self._order(k, a, b)
        zero = k.index(0)
        earlier = k.insert(
            arith.AndIOp(k.compare("eq", order, zero), k.compare("lt", a, b))
        )
        return k.insert(arith.OrIOp(k.compare("lt", order, zero), earlier))

    def _order(self, k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
        """Below 0 if the row at `a` comes before that at `b`, 0 if they are equal."""
        length, width = memref_type(self.data).get_shape()
        rows = within(k, a, length), within(k, b, length)

        def step(
            k: KernelBuilder, column: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            x, y = (k.load(self.data, [row, column]) for row in rows)
            below, above = is_below(k, x, y), is_below(k, y, x)
            one = k.index(1)
            here = k.select(below, k.index(-1), k.select(above, one, k.index(0)))
            is_open = k.compare("eq", carried[0], k.index(0))
            return [k.select(is_open, here, carried[0])]

        return k.loop(k.index(0), k.index(width), [k.index(0)], step)[0]

    def _number(self, k: KernelBuilder, *, in_order: bool) -> SSAValue:
        """
        Number the rows in their order, which is the line of first places, and let only
        the first of equal ones stay there. Where their order is not the one that is
        asked for, each row gets the place of the first one that is equal.
        """
        zero, one = k.index(0), k.index(1)

        def step(
            k: KernelBuilder, rank: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            count, before = carried
            row = self.first.load(k, rank)
            differs = k.compare("ne", self._order(k, before, row), zero)
            is_new = k.insert(arith.OrIOp(k.compare("eq", rank, zero), differs))
            after = k.select(is_new, k.add(count, one), count)
            number = k.sub(after, one)
            k.when(is_new, lambda k: self._begin(k, row, number))
            kept = number if in_order else self.first.load(k, number)
            self.place.store(k, kept, row)
            self._count_one(k, number)
            return [after, row]

        length = k.index(self.first.line.extent)
        return k.loop(zero, length, [zero, zero], step)[0]

    def _as_they_come(self, k: KernelBuilder) -> SSAValue:
        """Number the rows once more; each has the place of the first equal one."""

        def step(
            k: KernelBuilder, row: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            (count,) = carried
            first = self.place.load(k, row)
            is_new = k.compare("eq", first, row)
            k.when(is_new, lambda k: self._begin(k, row, count))
            # All rows before this one have their new numbers.
            number = k.select(is_new, count, self.place.load(k, first))
            self.place.store(k, number, row)
            self._count_one(k, number)
            return [k.select(is_new, k.add(count, k.index(1)), count)]

        length = k.index(self.first.line.extent)
        return k.loop(k.index(0), length, [k.index(0)], step)[0]

    def _begin(self, k: KernelBuilder, row: SSAValue, number: SSAValue) -> None:
        """Let a row be the first one of a number."""
        length, width = memref_type(self.data).get_shape()
        source, target = within(k, row, length), within(k, number, length)
        k.each(
            width,
            lambda k, i: k.store(
                k.load(self.data, [source, i]), self.rows, [target, i]
            ),
        )
        self.first.store(k, row, number)
        self.times.store(k, k.index(0), number)

    def _count_one(self, k: KernelBuilder, number: SSAValue) -> None:
        times = k.add(self.times.load(k, number), k.index(1))
        self.times.store(k, times, number)

    def _blank(self, k: KernelBuilder, found: SSAValue) -> None:
        _, width = memref_type(self.data).get_shape()
        for places in (self.first, self.times):
            zeros_from(k, places.line, found, k.constant(0, i64))
        zero = k.constant(0, memref_type(self.rows).element_type)
        k.each(width, lambda k, i: zeros_from(k, Line(self.rows, [], [i]), found, zero))


def is_below(k: KernelBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    """Whether one element comes before another one, where a NaN comes last."""
    if a.type == i1:
        true = k.constant(1, i1)
        return k.insert(arith.AndIOp(k.insert(arith.XOrIOp(a, true)), b))
    below = k.compare("lt", a, b)
    if not isinstance(a.type, AnyFloat):
        return below
    only_b = k.insert(arith.AndIOp(k.compare("eq", a, a), k.compare("ne", b, b)))
    return k.insert(arith.OrIOp(below, only_b))


if TYPE_CHECKING:
    Places = NDArray[np.int64]


def differing(rows: Array) -> tuple[Places, Places, Places]:
    """The first places of sorted differing rows, the places of all, and the times."""
    import numpy as np

    # Ranks of elements stand for them: all NaN have the last one.
    ranks = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
    width = rows.shape[1]
    if not width:
        ranks = np.zeros((len(rows), 1), np.int64)
    _, first, place, times = np.unique(
        ranks, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    return first, place.reshape(-1), times
