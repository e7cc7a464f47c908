"""
The NumPy meaning of regions of structured ops: scalar ops as functions of arrays.

Each value of a region is an array that is broadcast over the loops of the op, of the
dtype of its type; an index is `int64`. Floats are computed in their own type, so that a
result is that of a kernel but for the order of sums and the last bits of functions.
"""

from __future__ import annotations

import math as scalars
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from penstock.dialects.kernel.body_ops import IndexOp
from penstock.dialects.kernel.loops import access_of
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import dtype_of

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array

Values: TypeAlias = "Mapping[SSAValue, Array]"
Special: TypeAlias = "Callable[[Operation, Sequence[Array]], Sequence[Array] | None]"
"""Computes an op of the region that only its parent knows; None for any other."""

UFUNCS: Mapping[str, str] = {
    "arith.addf": "add",
    "arith.addi": "add",
    "arith.andi": "bitwise_and",
    "arith.divf": "divide",
    "arith.maximumf": "maximum",
    "arith.maxnumf": "fmax",
    "arith.maxsi": "maximum",
    "arith.minimumf": "minimum",
    "arith.minnumf": "fmin",
    "arith.minsi": "minimum",
    "arith.mulf": "multiply",
    "arith.muli": "multiply",
    "arith.negf": "negative",
    "arith.ori": "bitwise_or",
    "arith.shli": "left_shift",
    "arith.shrsi": "right_shift",
    "arith.subf": "subtract",
    "arith.subi": "subtract",
    "arith.xori": "bitwise_xor",
    "llvm.frem": "fmod",
    "math.absf": "absolute",
    "math.absi": "absolute",
    "math.acos": "arccos",
    "math.acosh": "arccosh",
    "math.asin": "arcsin",
    "math.asinh": "arcsinh",
    "math.atan": "arctan",
    "math.atan2": "arctan2",
    "math.atanh": "arctanh",
    "math.cbrt": "cbrt",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.cos": "cos",
    "math.cosh": "cosh",
    "math.exp": "exp",
    "math.exp2": "exp2",
    "math.expm1": "expm1",
    "math.floor": "floor",
    "math.log": "log",
    "math.log10": "log10",
    "math.log1p": "log1p",
    "math.log2": "log2",
    "math.powf": "power",
    "math.roundeven": "rint",
    "math.sin": "sin",
    "math.sinh": "sinh",
    "math.sqrt": "sqrt",
    "math.tan": "tan",
    "math.tanh": "tanh",
    "math.trunc": "trunc",
}
"""The function of NumPy for each scalar op that is one."""

UNSIGNED: Mapping[str, str] = {
    "arith.divui": "floor_divide",
    "arith.maxui": "maximum",
    "arith.minui": "minimum",
    "arith.remui": "remainder",
    "arith.shrui": "right_shift",
}
"""The functions of operands that are taken as unsigned."""

CASTS = frozenset(
    f"arith.{name}"
    for name in ("extf", "extsi", "fptosi", "index_cast", "sitofp", "truncf", "trunci")
)
"""The casts of numbers that are taken as they are."""

UNSIGNED_CASTS = frozenset(f"arith.{name}" for name in ("extui", "fptoui", "uitofp"))

ORDERED = {1: "equal", 2: "greater", 3: "greater_equal", 4: "less", 5: "less_equal"}
"""The predicates of `arith.cmpf` from `oeq` to `ole`; a NaN fulfils none of them."""

INTEGERS = {
    **{0: "equal", 1: "not_equal", 2: "less", 3: "less_equal"},
    **{4: "greater", 5: "greater_equal"},
    **{6: "less", 7: "less_equal", 8: "greater", 9: "greater_equal"},
}
"""The predicates of `arith.cmpi`; those from 6 on are of unsigned numbers."""


def evaluate_block(
    block: Block, arguments: Sequence[Array], special: Special | None = None
) -> list[Array]:
    """The values that end a block, for arrays as its arguments."""
    import numpy as np

    known: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [known[value] for value in op.operands]
        if op is block.last_op:
            return operands
        found = None if special is None else special(op, operands)
        if found is None:
            with np.errstate(all="ignore"):
                found = [evaluate_op(op, operands)]
        known.update(zip(op.results, found, strict=True))
    raise AssertionError("a region ends in a terminator")


def evaluate_op(op: Operation, operands: Sequence[Array]) -> Array:
    """The result of a scalar op. Raises `NotImplementedError` for an unknown one."""
    import numpy as np

    if isinstance(op, arith.ConstantOp):
        return _constant(op.value)
    dtype = dtype_of_scalar(op.results[0].type)
    none: Array = np.asarray([]).astype(dtype)
    if (name := UFUNCS.get(op.name)) is not None:
        return np.asarray(getattr(np, name)(*operands)).astype(dtype)
    if (name := UNSIGNED.get(op.name)) is not None:
        found = getattr(np, name)(*map(unsigned, operands))
        return np.asarray(found).astype(unsigned(none).dtype).view(dtype)
    if op.name in CASTS:
        return np.asarray(operands[0]).astype(dtype)
    if op.name in UNSIGNED_CASTS:
        source = unsigned(operands[0])
        to = unsigned(none).dtype
        return source.astype(to).view(dtype) if to.kind == "u" else source.astype(dtype)
    if (build := OTHERS.get(op.name)) is not None:
        return np.asarray(build(op, operands)).astype(dtype)
    raise NotImplementedError(f"{op.name} has no meaning in NumPy")


def _constant(value: Attribute) -> Array:
    import numpy as np

    match value:
        case FloatAttr():
            return np.asarray(value.value.data, dtype_of_scalar(value.type))
        case IntegerAttr():
            type = dtype_of_scalar(value.type)
            return np.asarray(value.value.data).astype(type)
        case _:
            raise NotImplementedError(f"{value} has no meaning in NumPy")


def dtype_of_scalar(type: Attribute) -> Any:
    """The dtype of a scalar of a kernel; an index is `int64`."""
    import numpy as np

    return np.dtype("int64") if isinstance(type, IndexType) else dtype_of(type)


def unsigned(array: Array) -> Array:
    """The same bits as numbers without a sign; anything but integers as it is."""
    import numpy as np

    array = np.asarray(array)
    if array.dtype.kind != "i":
        return array
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _compare_floats(op: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    assert isinstance(op, arith.CmpfOp), "asked by its name"
    number = op.predicate.value.data
    either = np.isnan(operands[0]) | np.isnan(operands[1])
    if number in (0, 15):
        return np.full(either.shape, number == 15)
    if number in (7, 14):
        return ~either if number == 7 else either
    if number in (6, 13):
        differ = np.not_equal(*operands)
        return differ & ~either if number == 6 else differ
    if number in ORDERED:
        return getattr(np, ORDERED[number])(*operands) & ~either
    # The unordered predicates come in the same order, from `ueq` on.
    return getattr(np, ORDERED[number - 7])(*operands) | either


def _compare_integers(op: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    assert isinstance(op, arith.CmpiOp), "asked by its name"
    number = op.predicate.value.data
    given = map(unsigned, operands) if number > 5 else operands
    return getattr(np, INTEGERS[number])(*given)


def _divide(op: Operation, operands: Sequence[Array]) -> Array:
    """The quotient of integers, rounded toward zero, and what is left over."""
    import numpy as np

    a, b = np.broadcast_arrays(*operands)
    safe = np.where(b == 0, 1, b)
    rest = np.fmod(a, safe)
    return rest if op.name == "arith.remsi" else (a - rest) // safe


def _erf(_: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    array = np.asarray(operands[0])
    return np.vectorize(scalars.erf, otypes=["float64"])(array.astype("float64"))


def _round_away(_: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    array = np.asarray(operands[0])
    whole = np.trunc(array)
    return whole + np.where(np.abs(array - whole) >= 0.5, np.sign(array), 0)


def _bitcast(op: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    return np.asarray(operands[0]).view(dtype_of_scalar(op.results[0].type))


def _select(_: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    return np.where(*operands)


def _formula(op: Operation, operands: Sequence[Array]) -> Array:
    import numpy as np

    arrays: Any = [*map(np.asarray, operands)]
    a, *rest = arrays
    match op.name:
        case "arith.ceildivsi":
            return -((-a) // rest[0])
        case "arith.floordivsi":
            return a // rest[0]
        case "math.fma":
            return a * rest[0] + rest[1]
        case _:
            return 1 / a**0.5


OTHERS: Mapping[str, Callable[[Operation, Sequence[Array]], Array]] = {
    "arith.bitcast": _bitcast,
    "arith.ceildivsi": _formula,
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.divsi": _divide,
    "arith.floordivsi": _formula,
    "arith.remsi": _divide,
    "arith.select": _select,
    "math.erf": _erf,
    "math.fma": _formula,
    "math.round": _round_away,
    "math.rsqrt": _formula,
}
"""The ops that NumPy has no function of one name for."""


def view_over_loops(
    array: Array, map: AffineMap, extents: Sequence[int], writeable: bool = False
) -> Array:
    """
    The elements of an array that a linear map picks in each turn of loops: a view of
    the shape of the loops. `array` is contiguous; a scalar is an array of rank 0.
    """
    import numpy as np
    from numpy.lib.stride_tricks import as_strided

    access = access_of(map, array.shape)
    assert access is not None, "checked by the verifier"
    if 0 in extents:
        return np.empty(tuple(extents), array.dtype)
    size = array.dtype.itemsize
    strides = tuple(size * step for step in access.strides)
    flat = array.reshape(-1)[access.offset :]
    return as_strided(flat, tuple(extents), strides, writeable=writeable)


def over_loops(array: Array, map: AffineMap, extents: Sequence[int]) -> Array:
    """
    The elements that a map picks, with an axis for each loop: of one element, where
    the map does not have the loop.
    """
    return view_over_loops(array, map, kept_extents(map, extents))


def kept_extents(map: AffineMap, extents: Sequence[int]) -> list[int]:
    """The extents of loops, 1 for those that a map does not have."""
    used = map.used_dims()
    return [extent if loop in used else 1 for loop, extent in enumerate(extents)]


def evaluate_region(
    block: Block,
    arguments: Sequence[Array],
    extents: Sequence[int],
    special: Special | None = None,
) -> list[Array]:
    """
    The values that a region of a structured op yields, for arrays with an axis for each
    loop; an op of the kernel dialect other than `kernel.index` is left to `special`.
    """
    import numpy as np

    def known(op: Operation, operands: Sequence[Array]) -> Sequence[Array] | None:
        if not isinstance(op, IndexOp):
            return None if special is None else special(op, operands)
        loop = op.loop.value.data
        shape = [1] * len(extents)
        shape[loop] = extents[loop]
        return [np.arange(extents[loop], dtype=np.int64).reshape(shape)]

    return evaluate_block(block, arguments, known)


def element_dtype(value: SSAValue) -> Any:
    """The dtype of the elements of a memref, or of a scalar."""
    type = value.type
    is_buffer = isa(type, MemRefType)
    return dtype_of_scalar(type.element_type if is_buffer else type)
