"""
Inputs as text, in the form of `iree-run-module`: `x=2x3xf32=1,2,3`.

The name of the input comes first, then its extents and element type, then its values.
One value stands for all, and values of the last extents are repeated along the first
ones; without any, all are 0. `@FILE.npy` has an array, or its values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.tools.driver.errors import FileError, UsageError, explain_os_error

if TYPE_CHECKING:
    from numpy import dtype, generic

    from penstock.runtime.loading.initializers import Array

_DTYPES = {
    "i1": "bool",
    "bf16": "bfloat16",
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{s}i{n}": f"int{n}" for n in (8, 16, 32, 64) for s in ("", "s")},
    **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}
_FORM = re.compile(
    rf"(?P<name>.+?)=(?P<shape>(?:[0-9]+x)*)(?P<type>{'|'.join(_DTYPES)})"
    r"(?:=(?P<values>.*))?",
    re.DOTALL,
)
_FILE = re.compile(r"(?P<name>.+?)=@(?P<file>.+)", re.DOTALL)
_OTHER_TYPE = re.compile(r"(?:[0-9]+x)*(?P<type>[A-Za-z]+[0-9]*)(?:=.*)?", re.DOTALL)
"""The form with an element type that is not known."""
_SEPARATORS = re.compile(r"[\s,\[\]]+")
_TRUTH = {"0": False, "1": True, "false": False, "true": True}


def is_value(text: str) -> bool:
    """Whether a text is an input with its value, and not the path of a file."""
    if _FORM.fullmatch(text) or _FILE.fullmatch(text):
        return True
    return "=" in text and not text.endswith(".npz") and not Path(text).exists()


def read_value(text: str) -> tuple[str, Array]:
    """
    The name of an input, and its array. Raises UsageError for values that do not fit
    and for files that cannot be opened, FileError for files of another form.
    """
    if (found := _FORM.fullmatch(text)) is None:
        if (found := _FILE.fullmatch(text)) is None:
            raise UsageError(_finding_about(text))
        return found["name"], _array_in(found["file"])
    name, values = found["name"], found["values"] or ""
    shape = tuple(int(extent) for extent in found["shape"].split("x") if extent)
    try:
        return name, _array(values, shape, _DTYPES[found["type"]])
    except (ValueError, OverflowError) as error:
        raise UsageError(f"input '{name}': {error}") from error


def _finding_about(text: str) -> str:
    """The reason why a text with an equals sign is neither an input nor a file."""
    from penstock.tools.driver.diagnostics import suggest

    name, _, rest = text.partition("=")
    if other := _OTHER_TYPE.fullmatch(rest):
        type, known = other["type"], ", ".join(_DTYPES)
        near = suggest(type, list(_DTYPES))
        return f"input '{name}': unknown element type '{type}'{near} (known: {known})"
    form = "extents and a type such as 2x3xf32=1,2,3, or @FILE.npy"
    return f"input '{name}': expected {form}, got '{rest}'"


def _array(text: str, shape: tuple[int, ...], dtype_name: str) -> Array:
    import numpy as np

    from penstock.runtime.loading.arrays import numpy_dtype

    made = numpy_dtype(dtype_name)
    if text.startswith("@"):
        array = _array_in(text[1:])
        if array.shape != shape or array.dtype != made:
            found = f"{array.dtype.name} of shape {array.shape}"
            raise ValueError(f"{text[1:]} holds {found}, not {made.name} of {shape}")
        return array
    words = [word for word in _SEPARATORS.split(text) if word]
    values = np.array([_number(word, made) for word in words] or [0], made)
    count = int(np.prod(shape, dtype=np.int64))
    if len(words) > 1 and (len(words) > count or not _fits(len(words), shape)):
        whole = "x".join(map(str, shape)) or "one"
        raise ValueError(
            f"expected 1 value, or as many as {whole} or its last extents hold, "
            f"got {len(words)}"
        )
    return np.resize(values, shape)


def _fits(count: int, shape: tuple[int, ...]) -> bool:
    """Whether some last extents hold so many values."""
    size = 1
    for extent in reversed(shape):
        size *= extent
        if size == count:
            return True
    return False


def _number(word: str, made: dtype[generic]) -> float | int | bool:
    from penstock.runtime.loading.arrays import is_float

    if made.kind == "b":
        if word.lower() not in _TRUTH:
            raise ValueError(f"expected true or false, got '{word}'")
        return _TRUTH[word.lower()]
    try:
        return float(word) if is_float(made) else int(word, 0)
    except ValueError as error:
        raise ValueError(f"expected a number of {made.name}, got '{word}'") from error


def _array_in(file: str) -> Array:
    from penstock.runtime.loading.npz import NPZ_ERRORS, explain_npz_error, read_npy

    try:
        return read_npy(Path(file))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {explain_os_error(error)}") from error
    except NPZ_ERRORS as error:
        text = f"cannot read {file}: {explain_npz_error(error)}"
        raise FileError(text) from error
