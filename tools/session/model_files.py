"""
The arrays of a model as a file: `.npz`, or `.safetensors` if that is installed.

All variables of a session are in it by their names: also those of optimizers, such as
`w/adamw/m` for the mean of the gradients of `w`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock.tools.driver.drafts import drafting
from penstock.tools.driver.errors import FileError, UsageError, explain_os_error
from penstock.tools.session.arrays import read_arrays, write_arrays
from penstock.tools.session.safetensors_files import read_safetensors

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

SUFFIXES = (".npz", ".safetensors")


def read_state(path: str | Path) -> dict[str, Array]:
    """
    The arrays by name of the `.npz` or `.safetensors` file, or of the checkpoint, at
    `path`.

    **Raises** UsageError for a file of no known kind, or that cannot be opened,
    FileError for one that is damaged, and CheckpointError for a folder that is no whole
    checkpoint.
    """
    from penstock.tools.session.checkpoint import Checkpoint

    found = Path(path)
    return Checkpoint(found, 0).state() if found.is_dir() else read_model_file(found)


def write_state(path: str | Path, state: Mapping[str, Array]) -> None:
    """
    Write the arrays of a `state` by name to an `.npz` or `.safetensors` file at `path`,
    of which no reader ever sees half.

    **Raises** UsageError for a file of no known kind, or that cannot be written.
    """
    write_model_file(Path(path), state)


def read_model_file(path: Path) -> dict[str, Array]:
    """
    The arrays of a file by name. Raises UsageError for a file of no known kind, or that
    cannot be opened, and FileError for one that is damaged.
    """
    if _suffix_of(path) == ".npz":
        return read_arrays(path)
    try:
        return read_safetensors(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except ValueError as error:
        raise FileError(f"cannot read {path}: {error}") from error


def write_model_file(path: Path, arrays: Mapping[str, Array]) -> None:
    """
    Write arrays to a file that no reader ever sees half of. Raises UsageError if it is
    none of a kind that is known, or cannot be written.
    """
    if _suffix_of(path) == ".npz":
        write_arrays(path, arrays)
        return
    import numpy as np
    from safetensors import numpy as safetensors

    target = Path(os.path.realpath(path))
    dense = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        data = cast("bytes", cast("Any", safetensors).save(dense))
        with drafting(target) as draft:
            draft.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {explain_os_error(error)}") from error


def _suffix_of(path: Path) -> str:
    """The suffix of a file. Raises UsageError if that cannot be read and written."""
    if path.suffix not in SUFFIXES:
        known = " or ".join(SUFFIXES)
        raise UsageError(f"the file of a model ends in {known}, got {path}")
    if path.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise UsageError(f"{path} needs a package: pip install safetensors")
    return path.suffix
