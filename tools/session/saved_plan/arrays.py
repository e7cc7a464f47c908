"""Arrays as members of an archive: NumPy's own format, without Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from math import prod
from tokenize import TokenError
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from penstock.tools.session.saved_plan.archive import ALIGNMENT, Archive, Json

Array: TypeAlias = npt.NDArray[np.generic]

MAX_HEADER = 10_000


def array_members(
    folder: str, arrays: Mapping[str, Array]
) -> tuple[Json, dict[str, list[bytes | memoryview]]]:
    """
    The members for arrays by name, and which member is which array. Names may be any
    text, so members have numbers.
    """
    index: Json = {}
    members: dict[str, list[bytes | memoryview]] = {}
    for number, (name, array) in enumerate(arrays.items()):
        index[name] = f"{folder}/{number}.npy"
        members[index[name]] = _npy(array)
    return index, members


def _npy(array: Array) -> list[bytes | memoryview]:
    data = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    head = BytesIO()
    npy.write_array_header_1_0(head, npy.header_data_from_array_1_0(data))
    assert len(head.getvalue()) % ALIGNMENT == 0, "NumPy pads headers"
    return [head.getvalue(), data.reshape(-1).view(np.uint8).data]


def read_array(archive: Archive, name: str) -> Array:
    """
    The array that a member holds, where it lies in the file: it cannot be written to.
    Raises PlanError if it holds none, or one of Python objects.
    """
    data = archive[name]
    head = BytesIO(data[: MAX_HEADER + 16])
    try:
        if npy.read_magic(head) != (1, 0):
            raise ValueError("the version is not 1.0")
        shape, fortran, dtype = npy.read_array_header_1_0(head, MAX_HEADER)
    except (ValueError, OverflowError, SyntaxError, TokenError) as error:
        raise archive.error(f"'{name}' is no .npy file: {error}") from error
    if dtype.hasobject:
        raise archive.error(f"'{name}' holds Python objects")
    size = len(data) - head.tell()
    if fortran or prod(shape) * dtype.itemsize != size:
        raise archive.error(
            f"'{name}' has {size} bytes for a {dtype.name} array of shape {shape}"
        )
    return np.frombuffer(data[head.tell() :], dtype).reshape(shape)
