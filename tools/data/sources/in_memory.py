"""Sources of arrays in memory, whose first axes have the samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.runtime.loading.npz import NPZ_ERRORS, NpzArrays, explain_npz_error
from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Array, Batch, Numbers, Source


class Arrays(Source):
    """Samples along the first axes of arrays, which have as many each."""

    def __init__(self, found: Mapping[str, Array]):
        self._arrays = dict(found)
        if not self._arrays:
            raise DataError("a source needs at least one array")
        counts = {name: x.shape[0] if x.shape else None for name, x in found.items()}
        if len(set(counts.values())) > 1 or None in counts.values():
            told = ", ".join(f"'{name}' {x.shape}" for name, x in found.items())
            raise DataError(f"arrays have different numbers of samples: {told}")
        self._samples = next(iter(self._arrays.values())).shape[0]

    def __len__(self) -> int:
        return self._samples

    def read(self, numbers: Numbers) -> Batch:
        return {name: array[numbers] for name, array in self._arrays.items()}


def arrays(
    found: Mapping[str, npt.ArrayLike] | None = None, /, **named: npt.ArrayLike
) -> Source:
    """
    A source of arrays by name, given as a mapping `found` or as arguments `named`.

    Their first axes have the samples. Views, and arrays that lie in files
    (`numpy.load(path, mmap_mode="r")`), are read when a batch is made, and not copied
    before.

    **Raises** DataError unless all have as many samples.
    """
    given = {**(found or {}), **named}
    return Arrays({name: np.asarray(array) for name, array in given.items()})


def npz(path: str | Path, *names: str) -> Source:
    """
    A source of the arrays of the `.npz` file at `path`, or of those of these `names`.

    **Raises** DataError if the file cannot be read, has no array of a name, or arrays
    of different numbers of samples.
    """
    try:
        with NpzArrays(Path(path)) as file:
            if missing := [name for name in names if name not in file]:
                raise DataError(f"it has no array {', '.join(missing)}")
            return Arrays({name: file[name] for name in names or file.files})
    except NPZ_ERRORS as error:
        reason = explain_npz_error(error)
        raise DataError(f"cannot read {path}: {reason}") from error
    except DataError as error:
        raise DataError(f"cannot read {path}: {error}") from error
