"""
Differences between outputs and reference values, in numbers and in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

NO_FINITE_VALUES = "has no finite values to compare"


def difference(output: Array, reference: Array) -> tuple[str, float]:
    """The error of an output, in words and as a number."""
    if not _holds_numbers(reference):
        return f"is compared with {reference.dtype.name}", float("inf")
    if output.shape != reference.shape:
        return f"has shape {output.shape}, not {reference.shape}", float("inf")
    error = relative_error(output, reference)
    if error == 0 and proves_nothing(reference):
        return NO_FINITE_VALUES, error
    return f"differs by {error:.2e}", error


def proves_nothing(reference: Array) -> bool:
    """Whether an array has values, but no finite one."""
    import numpy as np

    is_some = _holds_numbers(reference) and reference.size > 0
    return is_some and not np.isfinite(reference).any()


def _holds_numbers(array: Array) -> bool:
    from penstock.runtime.loading.arrays import is_float

    return array.dtype.kind in "biu" or is_float(array.dtype)


def relative_error(output: Array, reference: Array) -> float:
    """
    The largest absolute difference over the largest absolute reference value, of arrays
    of one shape; infinite if only one of them is a NaN or infinite somewhere.
    """
    import numpy as np

    if output.size == 0:
        return 0.0
    ours, theirs = output.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    with np.errstate(over="ignore"):
        difference = np.abs(ours[finite] - theirs[finite]).max()
    scale = np.abs(theirs[finite]).max()
    return float(difference / scale) if scale else float(difference)
