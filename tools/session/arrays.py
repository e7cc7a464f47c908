"""Arrays in files: `.npz`, by name."""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.tools.driver.drafts import draft_of, drafting
from penstock.tools.driver.errors import FileError, UsageError, explain_os_error

if TYPE_CHECKING:
    import numpy as np

    from penstock.dialects.utils.tensors import Array


class Shaped(Protocol):
    """An array, or what says how one looks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""
        ...


def read_arrays(path: Path) -> dict[str, Array]:
    """
    The arrays of an `.npz` file by name. Raises UsageError if it cannot be opened, and
    FileError if it is none.
    """
    from penstock.runtime.loading.npz import NPZ_ERRORS, NpzArrays, explain_npz_error

    try:
        with NpzArrays(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except NPZ_ERRORS as error:
        text = f"cannot read {path}: {explain_npz_error(error)}"
        is_found = not isinstance(error, OSError)
        raise (FileError if is_found else UsageError)(text) from error


def check_writable(path: Path) -> None:
    """
    Raise UsageError if no file can be written to `path`, as far as that can be known
    without touching what is there.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not target.exists() or target.is_file():
            draft = draft_of(target)
            draft.touch()
            draft.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """
    Write an `.npz` file that no reader ever sees half of. A device is written directly.
    Raises UsageError if that fails.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            # Pipes and devices cannot seek, which a zip file needs.
            whole = BytesIO()
            _write(whole, arrays)
            target.write_bytes(whole.getvalue())
        else:
            with drafting(target) as draft:
                _write(draft, arrays)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def _write(target: Path | BytesIO, arrays: Mapping[str, Array]) -> None:
    """Write arrays of any names: `numpy.savez` takes some for options of its own."""
    from numpy.lib.format import write_array

    with zipfile.ZipFile(target, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, array, allow_pickle=False)


def random_arrays(ports: Mapping[str, Shaped], seed: int) -> dict[str, Array]:
    """
    An array for each port: standard normal floats, integers from 0 to 9, or booleans.
    """
    import numpy as np

    from penstock.runtime.loading.arrays import is_float

    generator = np.random.default_rng(seed)

    def array(port: Shaped) -> Array:
        if is_float(port.dtype):
            return generator.standard_normal(port.shape).astype(port.dtype)
        limit = 2 if port.dtype.kind == "b" else 10
        return generator.integers(0, limit, port.shape).astype(port.dtype)

    return {name: array(port) for name, port in sorted(ports.items())}
