"""Batches of samples that came one by one, and the check of batches of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Array, Batch, Sample


def stacked(samples: Sequence[Sample]) -> Batch:
    """
    The arrays of some samples, stacked. Raises DataError unless all samples have the
    same names, shapes and dtypes.
    """
    names = list(samples[0])
    for sample in samples:
        if set(sample) != set(names):
            raise DataError(
                f"samples have different names: {', '.join(names)} and "
                f"{', '.join(sample)}"
            )
    return {name: _stacked(name, [x[name] for x in samples]) for name in names}


def _stacked(name: str, values: Sequence[Any]) -> Array:
    arrays: list[Array] = [np.asarray(value) for value in values]
    first = arrays[0]
    for array in arrays:
        # Texts are as long as the longest one.
        is_same = array.dtype == first.dtype or array.dtype.kind == "U"
        if array.shape != first.shape or not is_same:
            raise DataError(
                f"'{name}' is {_kind(first)} in one sample and {_kind(array)} in "
                "another"
            )
    return np.stack(arrays)


def _kind(array: Array) -> str:
    return f"{array.dtype.name} of shape {array.shape}"


def checked_batch(given: object, who: str, samples: int | None = None) -> Batch:
    """
    A batch that was made elsewhere. Raises DataError unless it is arrays by name, each
    of so many samples if that is known.
    """
    if not isinstance(given, Mapping):
        raise DataError(f"{who} returns {type(given).__name__}, not arrays by name")
    found = cast("Mapping[str, Any]", given)
    batch: Batch = {name: np.asarray(value) for name, value in found.items()}
    for name, array in batch.items():
        if samples is not None and array.shape[:1] != (samples,):
            raise DataError(
                f"{who} returns '{name}' of shape {array.shape} for {samples} samples"
            )
    return batch
