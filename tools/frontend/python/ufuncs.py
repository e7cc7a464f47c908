"""
NumPy's operators and elementwise functions on tensors.

A function of NumPy is the op of the same name, but for the names below. Operands are
converted to the dtypes that NumPy computes in (`ufunc.resolve_dtypes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.tools.frontend.python.calls import as_tensor, functions_of
from penstock.tools.frontend.python.dtypes import DType, short_name
from penstock.tools.frontend.python.errors import refuse, refusing
from penstock.tools.frontend.python.functions import cast
from penstock.tools.frontend.python.guards import is_array
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace

NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "bitwise_and": "bit_and",
    "bitwise_or": "bit_or",
    "bitwise_xor": "bit_xor",
    "divide": "div",
    "fabs": "abs",
    "fmod": "rem",
    "multiply": "mul",
    "negative": "neg",
    "power": "pow",
    "rint": "round",
    "subtract": "sub",
}
"""The ops whose names are not NumPy's."""

BOOLEAN_NAMES = {
    "add": "logical_or",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
    "maximum": "logical_or",
    "minimum": "logical_and",
    "multiply": "logical_and",
}
"""The functions that NumPy's ones are on booleans."""

UNCHANGED = {"absolute": "bu", "ceil": "biu", "floor": "biu", "positive": "biuf"}
"""The kinds of elements that functions leave unchanged."""


def apply_ufunc(
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[object],
    options: Mapping[str, object],
) -> Tensor:
    """
    The implementation of `__array_ufunc__`. Raises TraceError if there is no op for it.
    """
    what = f"numpy.{ufunc.__name__}"
    trace = current_trace(what)
    if method != "__call__" or options:
        extra = f".{method}" if method != "__call__" else f" with {', '.join(options)}"
        raise refuse(f"{what}{extra} cannot be traced")
    if ufunc is np.square:
        return apply_ufunc(np.multiply, method, (inputs[0], inputs[0]), {})
    loop = _loop_of(ufunc, inputs, what)
    operands = _operands(trace, inputs, loop, what)
    return _call(ufunc.__name__, operands, loop[0])


def _loop_of(ufunc: np.ufunc, inputs: Sequence[object], what: str) -> tuple[DType, ...]:
    """The dtypes of operands and result that NumPy would compute with."""
    given = [_dtype_of(value, what) for value in inputs]
    with refusing(what):
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    if ufunc.__name__.startswith("logical_"):
        return (np.dtype("bool"),) * len(found)
    return found


def _dtype_of(value: object, what: str) -> DType | type:
    """The dtype of an operand, or of a number of Python its type."""
    if isinstance(value, Tensor) or is_array(value):
        return value.dtype
    if isinstance(value, bool):
        return np.dtype("bool")
    if isinstance(value, int | float):
        return type(value)
    raise refuse(
        f"{what} takes tensors, arrays and numbers, got {type(value).__name__}"
    )


def _operands(
    trace: Trace, inputs: Sequence[object], loop: Sequence[DType], what: str
) -> list[Tensor]:
    dtypes = loop[: len(inputs)]
    return [
        cast(as_tensor(trace, value, dtype, what), dtype)
        for value, dtype in zip(inputs, dtypes, strict=True)
    ]


def _call(name: str, operands: Sequence[Tensor], dtype: DType) -> Tensor:
    if dtype.kind in UNCHANGED.get(name, ""):
        return operands[0]
    known = functions_of("op")
    found = NAMES.get(name, name)
    if dtype.kind == "b":
        found = BOOLEAN_NAMES.get(name, found)
    if found not in known:
        of = short_name(dtype)
        raise refuse(f"numpy.{name} of {of} cannot be traced: there is no op for it")
    result: Tensor = known[found](*operands)
    return result
