"""
`.safetensors` files, whose header is checked against the file before any array is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

Json: TypeAlias = dict[str, Any]

SIZES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
}
"""The bytes of an element of each dtype."""
NUMPY_NAMES = {
    **{"BOOL": "bool", "BF16": "bfloat16", "C64": "complex64"},
    **{
        f"{kind}{8 * size}": f"{name}{8 * size}"
        for kind, name, size in (
            *(("I", "int", size) for size in (1, 2, 4, 8)),
            *(("U", "uint", size) for size in (1, 2, 4, 8)),
            *(("F", "float", size) for size in (2, 4, 8)),
        )
    },
}
"""The names of NumPy for dtypes that it knows, or can be taught."""
WORD = 8
"""The bytes in front of the header, which say how long it is."""
METADATA = "__metadata__"


def read_safetensors(path: Path) -> dict[str, Array]:
    """
    The arrays of a file by name. Raises OSError if it cannot be read, ValueError with
    what is wrong with it, and ImportError without the package `safetensors`.
    """
    from safetensors import SafetensorError
    from safetensors import numpy as safetensors

    check_header(path)
    try:
        return cast("Any", safetensors).load_file(path)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def mapped_arrays(path: Path) -> dict[str, Array]:
    """
    The arrays of a file by name, which are read where they lie when elements are asked
    for. Raises OSError if it cannot be read, ValueError with what is wrong with it, and
    PenstockError for `bf16` without the package `ml_dtypes`.
    """
    import numpy as np

    from penstock.runtime.loading.arrays import numpy_dtype

    header, start = check_header(path)
    data = np.memmap(path, np.uint8, "r") if header else None
    found: dict[str, Array] = {}
    for name, entry in header.items():
        if (dtype := NUMPY_NAMES.get(entry["dtype"])) is None:
            raise ValueError(f"'{name}' has the dtype {entry['dtype']}")
        begin, end = entry["data_offsets"]
        assert data is not None, "there is an array"
        part = data[start + begin : start + end].view(np.ndarray)
        found[name] = part.view(numpy_dtype(dtype)).reshape(entry["shape"])
    return found


def check_header(path: Path) -> tuple[Mapping[str, Json], int]:
    """
    The facts of the arrays of a file by name, and where their bytes begin. Raises
    ValueError unless the arrays lie apart in the file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(WORD), "little")
        if size < WORD or length > size - WORD:
            raise ValueError(f"its header claims {length} bytes, the file has {size}")
        header = _parsed(file.read(length))
    header.pop(METADATA, None)
    room = size - WORD - length
    spans = [_span(name, entry, room) for name, entry in header.items()]
    for (_, end, one), (begin, _, other) in pairwise(sorted(spans)):
        if begin < end:
            raise ValueError(f"'{one}' and '{other}' overlap")
    return header, WORD + length


def _parsed(data: bytes) -> Json:
    try:
        found: object = json.loads(data.decode(), object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("its header nests too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("its header is no table of arrays")
    return cast("Json", found)


def _unique(pairs: Sequence[tuple[str, Any]]) -> Json:
    found: Json = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has two arrays '{name}'")
        found[name] = value
    return found


def _span(name: str, entry: object, size: int) -> tuple[int, int, str]:
    """From where to where an array lies in so many bytes, and its name."""
    facts = cast("Json", entry) if isinstance(entry, dict) else {}
    if (dtype := facts.get("dtype")) not in SIZES:
        raise ValueError(f"'{name}' has the unknown dtype {dtype!r}")
    shape, place = _counts(facts.get("shape")), _counts(facts.get("data_offsets"))
    if shape is None or place is None or len(place) != 2:
        where = f"{facts.get('shape')} at {facts.get('data_offsets')}"
        raise ValueError(f"'{name}' has shape {where}")
    begin, end = place
    if end > size or prod(shape) * SIZES[str(dtype)] != end - begin:
        raise ValueError(
            f"'{name}' has bytes {begin} to {end} of {size} for a {dtype} array of "
            f"shape {shape}"
        )
    return begin, end, name


def _counts(given: object) -> list[int] | None:
    """A list of whole numbers that are not negative, or None if it is none."""
    if not isinstance(given, list):
        return None
    numbers = cast("list[object]", given)
    found = [n for n in numbers if type(n) is int and n >= 0]
    return found if len(found) == len(numbers) else None
