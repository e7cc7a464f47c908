"""
A source of a folder of `.safetensors` files, or of one file.

Each file has the same arrays, whose first axes have the samples; those of all files, in
the order of their names, are one behind the other. Files are mapped into memory, so a
batch reads only its own samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError
from penstock.tools.data.errors import DataError
from penstock.tools.data.sources.in_memory import Arrays
from penstock.tools.data.types import Array, Batch, Numbers, Source, listed
from penstock.tools.driver.files import explain_os_error
from penstock.tools.session.safetensors_files import mapped_arrays

SUFFIX = ".safetensors"


class Files(Source):
    """The samples of several sources, one behind the other."""

    def __init__(self, parts: Sequence[Source]):
        self._parts = parts
        self._ends: npt.NDArray[np.int64] = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, numbers: Numbers) -> Batch:
        owners = np.searchsorted(self._ends, numbers, side="right")
        batch: Batch = {}
        for owner in sorted({*listed(owners)}):
            chosen, part = owners == owner, self._parts[owner]
            start = int(self._ends[owner]) - len(part)
            for name, rows in part.read(numbers[chosen] - start).items():
                if name not in batch:
                    batch[name] = np.empty((len(numbers), *rows.shape[1:]), rows.dtype)
                batch[name][chosen] = rows
        return batch


def safetensors(path: str | Path) -> Source:
    """
    A source of the `.safetensors` files in the folder at `path`, or of one file.

    Their arrays have the samples along their first axes; all files have the same names,
    and the same shapes and dtypes but for the number of samples. Samples are read when
    a batch is made.

    **Raises** DataError if there is no file, one cannot be read, or they differ.
    """
    given = Path(path)
    files = sorted(given.glob(f"*{SUFFIX}")) if given.is_dir() else [given]
    if not files:
        raise DataError(f"there is no {SUFFIX} file in {given}")
    found = [_mapped(file) for file in files]
    for file, arrays in zip(files, found, strict=True):
        if _kinds(arrays) != _kinds(found[0]):
            raise DataError(
                f"{file} has {_told(arrays)}, but {files[0]} has {_told(found[0])}"
            )
    return Files([_source(*one) for one in zip(files, found, strict=True)])


def _mapped(file: Path) -> dict[str, Array]:
    try:
        return mapped_arrays(file)
    except OSError as error:
        raise DataError(f"cannot read {file}: {explain_os_error(error)}") from error
    except (ValueError, PenstockError) as error:
        raise DataError(f"cannot read {file}: {error}") from error


def _source(file: Path, arrays: Mapping[str, Array]) -> Source:
    try:
        return Arrays(arrays)
    except DataError as error:
        raise DataError(f"{file}: {error}") from error


def _kinds(arrays: Mapping[str, Array]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (x.dtype.name, x.shape[1:]) for name, x in arrays.items()}


def _told(arrays: Mapping[str, Array]) -> str:
    """The arrays of a file by name, with the shapes of samples."""
    return ", ".join(
        f"'{name}' {dtype} {shape}" for name, (dtype, shape) in _kinds(arrays).items()
    )
