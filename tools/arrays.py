"""Arrays in files: `.npz`, by name."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.tools.diagnostics import UsageError
from penstock.tools.files import explain_os_error

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an `.npz` file by name. Raises UsageError if it cannot be read."""
    import numpy as np
    from numpy.lib.npyio import NpzFile

    try:
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, NpzFile):
            raise ValueError("not an .npz file")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except (EOFError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """
    Write an `.npz` file that no reader ever sees half of. Raises UsageError if that
    fails.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write(draft, arrays)
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error
    finally:
        draft.unlink(missing_ok=True)


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays of any names: `numpy.savez` takes some for options of its own."""
    from numpy.lib.format import write_array

    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, array, allow_pickle=False)
