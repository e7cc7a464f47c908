"""`kernel.pool`: the largest element of each window on a buffer, or the mean of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import auto
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerType,
    MemRefType,
    UnitAttr,
    f32,
    i1,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from penstock.dialects.job import I64List
from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.interface import (
    Effect,
    How,
    StructuredOp,
    element_of,
    shape_of,
)
from penstock.dialects.kernel.pool_loops import PoolLoops
from penstock.dialects.kernel.views import PaddedOp, root_of
from penstock.dialects.kernel.windows import Window, check_pads, window_view
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import shape_text

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

Numbers: TypeAlias = DenseArrayBase[IntegerType]


class Pool(StrEnum):
    """The kind of a pool: the number that it makes of a window."""

    MAX = auto()
    MEAN = auto()


@irdl_attr_definition
class PoolAttr(EnumAttribute[Pool], SpacedOpaqueSyntaxAttribute):
    """The kind of a pool, as a keyword: `max` or `mean`."""

    name = "kernel.pool_kind"


@irdl_op_definition
class PoolOp(StructuredOp):
    """
    The largest element of each window, or the mean of its elements. Windows move along
    `dims`; each list has a number for each of these.

    A window has so many taps, `dilations` apart; windows are `strides` apart, and the
    first one starts in the `pads`, which are given before all dimensions and then
    behind them. There are as many windows as end in the pads, or one more that ends
    behind them, if the result has room for it and it starts on an element or before.

    The largest element is a NaN where there is one, and the lowest number of the type
    in a window of pads alone; of 0.0 and -0.0 it is either. Integers have a sign,
    unless they are `unsigned`. A mean is that of the elements in the buffer; with
    `counted` the pads are zeros that count. Elements are added in any order, halves in
    `f32`.

    ```mlir
    kernel.pool mean window [3, 2] strides [2, 2] pads [1, 0, 1, 0] counted dims [2, 3]
      ins(%x : memref<1x8x9x6xf32>) outs(%y : memref<1x8x5x3xf32>)
    ```
    """

    name = "kernel.pool"

    kind = prop_def(PoolAttr)
    window = prop_def(I64List)
    strides = opt_prop_def(I64List)
    dilations = opt_prop_def(I64List)
    pads = opt_prop_def(I64List)
    counted = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(UnitAttr)
    dims = prop_def(I64List)
    input = operand_def(MemRefType)
    out = operand_def(MemRefType)

    assembly_format = (
        "$kind `window` $window (`strides` $strides^)? (`dilations` $dilations^)? "
        "(`pads` $pads^)? (`counted` $counted^)? (`unsigned` $unsigned^)? `dims` $dims "
        "`ins` `(` $input `:` type($input) `)` `outs` `(` $out `:` type($out) `)` "
        "attr-dict-with-keyword"
    )

    def __init__(
        self,
        kind: Pool,
        input: SSAValue,
        out: SSAValue,
        windows: Sequence[Window],
        dims: Sequence[int],
        *,
        counted: bool = False,
        unsigned: bool = False,
    ) -> None:
        def listed(numbers: Sequence[int], usual: int) -> Numbers | None:
            is_usual = all(number == usual for number in numbers)
            return None if is_usual else DenseArrayBase.from_list(i64, numbers)

        before, after = ([w.before for w in windows], [w.after for w in windows])
        super().__init__(
            operands=[input, out],
            properties={
                "kind": PoolAttr(kind),
                "window": DenseArrayBase.from_list(i64, [w.taps for w in windows]),
                "strides": listed([w.stride for w in windows], 1),
                "dilations": listed([w.dilation for w in windows], 1),
                "pads": listed([*before, *after], 0),
                "counted": UnitAttr() if counted else None,
                "unsigned": UnitAttr() if unsigned else None,
                "dims": DenseArrayBase.from_list(i64, dims),
            },
        )

    # Where the input is read depends on the place: no map says it.
    def accessed(self) -> Sequence[SSAValue]:
        return (self.out,)

    def maps(self) -> Sequence[AffineMap]:
        return (AffineMap.identity(len(shape_of(self.out))),)

    def outs_at(self) -> range:
        return range(1)

    def roles(self) -> Mapping[str, Sequence[int]]:
        """The loops over windows, and over the buffers of these that are alike."""
        dims = self.dims.get_values()
        loops = range(len(shape_of(self.out)))
        return {"window": dims, "plane": [loop for loop in loops if loop not in dims]}

    @property
    def windows(self) -> Sequence[Window]:
        """The windows along each of `dims`."""
        shape, result = shape_of(self.input), shape_of(self.out)
        found: list[Window] = []
        for dim, window in zip(self.dims.get_values(), self._windows(), strict=True):
            ceiled = window._replace(ceil=True)
            has_room = ceiled.count(shape[dim]) == result[dim]
            found.append(ceiled if has_room else window)
        return found

    def _windows(self) -> Sequence[Window]:
        """The windows, none of which ends behind the pads."""
        rank = len(self.window)
        one, zero = (1,) * rank, (0,) * rank
        pads = self._numbers(self.pads, zero * 2)
        return [
            Window(*numbers)
            for numbers in zip(
                self.window.get_values(),
                self._numbers(self.strides, one),
                pads[:rank],
                pads[rank:],
                self._numbers(self.dilations, one),
                strict=True,
            )
        ]

    @staticmethod
    def _numbers(given: Numbers | None, usual: Sequence[int]) -> Sequence[int]:
        return usual if given is None else given.get_values()

    @property
    def fold(self) -> Fold:
        """The fold of the elements of a window."""
        if self.kind.data is Pool.MEAN:
            return Fold.ADD
        element = element_of(self.out)
        if isinstance(element, AnyFloat):
            return Fold.MAXIMUMF
        if element == i1:
            return Fold.ORI
        return Fold.MAXSI if self.unsigned is None else Fold.MAXUI

    def work(self) -> int:
        shape, result = shape_of(self.input), shape_of(self.out)
        loops = self.roles()
        pairs = zip(loops["window"], self.windows, strict=True)
        taps = prod(window.count_taps(shape[dim]) for dim, window in pairs)
        divided = prod(result) if self.kind.data is Pool.MEAN else 0
        return prod(result[loop] for loop in loops["plane"]) * taps + divided

    def effects(self) -> Iterator[Effect]:
        yield Effect(self.input, How.READ)
        yield from super().effects()

    # Rules

    def verify_structure(self) -> None:
        self._verify_types()
        self._verify_lists()
        self._verify_shape()
        if isinstance(self.input.owner, PaddedOp):
            raise VerifyException(f"no operand is padded, got {self.input.type}")
        if root_of(self.input) is root_of(self.out):
            raise VerifyException(
                "the input must not lie where the result does, which is written before "
                "all of it is read"
            )

    def _verify_types(self) -> None:
        element, is_mean = element_of(self.input), self.kind.data is Pool.MEAN
        if element_of(self.out) != element:
            raise VerifyException(
                f"elements of the result are {element}, got {element_of(self.out)}"
            )
        if is_mean and not isinstance(element, AnyFloat):
            raise VerifyException(f"means are of floats, got {element}")
        if self.counted is not None and not is_mean:
            raise VerifyException("zeros are counted for a mean only")
        if self.unsigned is not None and not isinstance(element, IntegerType):
            raise VerifyException(f"only integers may have no sign, got {element}")

    def _verify_lists(self) -> None:
        dims = [*self.dims.get_values()]
        rank = len(shape_of(self.input))
        if not dims or dims != sorted({*dims}) or dims[0] < 0 or dims[-1] >= rank:
            raise VerifyException(
                f"dims are dimensions of {self.input.type} in their order, got {dims}"
            )
        lists = {
            "the window": (self.window, 1, 1),
            "strides": (self.strides, 1, 1),
            "dilations": (self.dilations, 1, 1),
            "pads": (self.pads, 2, 0),
        }
        for name, (given, times, least) in lists.items():
            numbers = [] if given is None else [*given.get_values()]
            count = times * len(dims)
            fits = len(numbers) == count and min(numbers) >= least
            if given is not None and not fits:
                raise VerifyException(
                    f"{name} should be {count} numbers of at least {least}, got "
                    f"{numbers}"
                )
        check_pads(self._windows())

    def _verify_shape(self) -> None:
        shape, found = [*shape_of(self.input)], shape_of(self.out)
        fits, most = [*shape], [*shape]
        for dim, window in zip(self.dims.get_values(), self._windows(), strict=True):
            most[dim] = window._replace(ceil=True).count(shape[dim])
            # One window may be too long for an extent that it may end behind.
            least = most[dim] if _is_too_long(window, shape[dim]) else 0
            fits[dim] = least or window.count(shape[dim])
        pairs = zip(fits, most, found, strict=False)
        if len(found) != len(shape) or any(x not in ends for *ends, x in pairs):
            wanted = " or ".join(dict.fromkeys((shape_text(fits), shape_text(most))))
            raise VerifyException(
                f"there are {wanted} windows, got a result of {shape_text(found)}"
            )

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import dtype_of_scalar
        from penstock.dialects.kernel.folds import fold_array, neutral

        array, element = operands[0], element_of(self.out)
        type = f32 if is_half(element) else element
        dims, windows = self.dims.get_values(), self.windows
        wide = array.astype(dtype_of_scalar(type))
        # The lowest number has no sign as the others have none, where it is 0.
        view = window_view(wide, windows, neutral(self.fold, type), dims)
        taps = [*range(array.ndim, view.ndim)]
        found = fold_array(self.fold, type, view, taps)
        found = found.reshape(view.shape[: array.ndim])
        if self.kind.data is Pool.MEAN:
            with np.errstate(all="ignore"):
                found = np.divide(found, self._counts().astype(found.dtype))
        return (found.astype(array.dtype),)

    def _counts(self) -> Array:
        """The elements of each window that count, with an axis for each dimension."""
        import numpy as np

        rank, shape = len(shape_of(self.input)), shape_of(self.input)
        counts = np.ones((1,) * rank, np.int64)
        for dim, window in zip(self.dims.get_values(), self.windows, strict=True):
            own = np.array(window.taps_inside(shape[dim], self.counted is not None))
            counts = counts * own.reshape(
                [-1 if at == dim else 1 for at in range(rank)]
            )
        return counts

    def build_loops(self, k: KernelBuilder) -> None:
        self._loops.build(k, self.input, self.out)

    def build_windows(self, k: KernelBuilder, is_unrolled: bool) -> None:
        """
        Build a stage with a turn for each window, whose taps follow each other in the
        code if they are unrolled, or are in loops.
        """
        if is_unrolled:
            self._loops.build_taps(k, self.input, self.out)
        else:
            self._loops.build_each(k, self.input, self.out)

    @property
    def _loops(self) -> PoolLoops:
        return PoolLoops(
            self.fold,
            self.windows,
            self.dims.get_values(),
            self.kind.data is Pool.MEAN,
            self.counted is not None,
        )


def _is_too_long(window: Window, extent: int) -> bool:
    """Whether not even one window ends in the pads of a dimension."""
    return window.before + extent + window.after < window.span
