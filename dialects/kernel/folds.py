"""
Folds of rows: the neutral number, the scalar op and the NumPy meaning of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.body_ops import Fold
from penstock.dialects.kernel.evaluation import unsigned
from penstock.dialects.utils.hints import isa

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder, ScalarOp
    from penstock.dialects.utils.tensors import Array

SCALARS: Mapping[Fold, ScalarOp] = {
    Fold.MAXNUMF: arith.MaxnumfOp,
    Fold.MINNUMF: arith.MinnumfOp,
    Fold.MAXIMUMF: arith.MaximumfOp,
    Fold.MINIMUMF: arith.MinimumfOp,
    Fold.MAXSI: arith.MaxSIOp,
    Fold.MINSI: arith.MinSIOp,
    Fold.MAXUI: arith.MaxUIOp,
    Fold.MINUI: arith.MinUIOp,
    Fold.ANDI: arith.AndIOp,
    Fold.ORI: arith.OrIOp,
}
"""The scalar op of each kind but sums and products."""

UFUNCS: Mapping[Fold, str] = {
    Fold.ADD: "add",
    Fold.MUL: "multiply",
    Fold.MAXNUMF: "fmax",
    Fold.MINNUMF: "fmin",
    Fold.MAXIMUMF: "maximum",
    Fold.MINIMUMF: "minimum",
    Fold.MAXSI: "maximum",
    Fold.MINSI: "minimum",
    Fold.MAXUI: "maximum",
    Fold.MINUI: "minimum",
    Fold.ANDI: "bitwise_and",
    Fold.ORI: "bitwise_or",
}

LARGEST = frozenset((Fold.MAXNUMF, Fold.MAXIMUMF))
SMALLEST = frozenset((Fold.MINNUMF, Fold.MINIMUMF))
OF_ONES = frozenset((Fold.ANDI, Fold.MINUI))
"""The kinds whose neutral number has all bits set."""


def neutral(kind: Fold, type: Attribute) -> float:
    """The number that changes no number of a type that it is folded with."""
    if kind in LARGEST | SMALLEST:
        return -inf if kind in LARGEST else inf
    if kind is Fold.MUL:
        return 1
    assert isa(type, IntegerType | AnyFloat), "checked by the verifier"
    if not isinstance(type, IntegerType):
        return 0
    if kind in OF_ONES:
        return 1 if type == i1 else -1
    half = 1 << type.width.data - 1
    return {Fold.MAXSI: -half, Fold.MINSI: half - 1}.get(kind, 0)


def folded(
    k: KernelBuilder,
    kind: Fold,
    so_far: SSAValue,
    value: SSAValue,
    *,
    in_order: bool = False,
) -> SSAValue:
    """
    Build the op that takes in one more value; floats are added and multiplied in any
    order, unless `in_order`.
    """
    is_free = isinstance(value.type, AnyFloat) and not in_order
    if kind is Fold.ADD:
        return (k.add_term if is_free else k.add)(so_far, value)
    if kind is Fold.MUL:
        return (k.mul_factor if is_free else k.mul)(so_far, value)
    return k.apply(SCALARS[kind], so_far, value)


def fold_array(kind: Fold, type: Attribute, array: Array, axes: list[int]) -> Array:
    """The fold of an array along axes, which stay with an extent of 1."""
    import numpy as np

    dtype = array.dtype
    first = np.asarray(neutral(kind, type)).astype(dtype)
    if kind in (Fold.MAXUI, Fold.MINUI):
        array, first = unsigned(array), unsigned(first)
    with np.errstate(all="ignore"):
        ufunc: np.ufunc = getattr(np, UFUNCS[kind])
        found = ufunc.reduce(
            array, tuple(axes), array.dtype, keepdims=True, initial=first
        )
    return np.asarray(found).astype(dtype)
