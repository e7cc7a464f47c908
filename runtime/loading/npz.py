"""
`.npz` files, read array by array, and `.npy` files.

NumPy takes as much memory as the header of an array claims before it has looked at the
file. Here all that a header claims is compared with the bytes that are there first.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

Array: TypeAlias = npt.NDArray[np.generic]

NPZ_ERRORS = (
    EOFError,
    MemoryError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""The exceptions of reading files that are missing, damaged or of another kind."""

SUFFIX = ".npy"
MOST_EXPANDED = 1032
"""The bytes that one byte of a compressed file can stand for at most."""


class NpzArrays:
    """
    The arrays of an `.npz` file by name; each is read when it is asked for.

    Use it in a `with` statement, which closes the file, or `close` it. All that is
    asked of it may raise one of NPZ_ERRORS.
    """

    def __init__(self, path: Path):
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no .npz file")
            self._size = os.fstat(file.fileno()).st_size
        self._archive = zipfile.ZipFile(path)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._archive.infolist():
            name = info.filename.removesuffix(SUFFIX)
            if name in self._members:
                self.close()
                raise ValueError(f"it has two arrays '{name}'")
            self._members[name] = info

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    @property
    def files(self) -> list[str]:
        """The names of the arrays, in the order of the file."""
        return [*self._members]

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> Array:
        info = self._members[name]
        if not info.filename.endswith(SUFFIX):
            raise ValueError(f"'{name}' is no array")
        self._check_size(name, info)
        with self._archive.open(info) as file:
            return _read(file, name, info.file_size)

    def checksum(self, name: str) -> tuple[int, int]:
        """The bytes of an array with its header, and their checksum in the file."""
        info = self._members[name]
        return info.file_size, info.CRC

    def _check_size(self, name: str, info: zipfile.ZipInfo) -> None:
        room = self._size - info.header_offset
        most = info.compress_size
        if info.compress_type != zipfile.ZIP_STORED:
            most = most * MOST_EXPANDED + MOST_EXPANDED
        if info.compress_size > room or info.file_size > most:
            raise ValueError(
                f"'{name}' claims {info.file_size} bytes in {info.compress_size}, "
                f"of {room} in the file"
            )


def read_npy(path: Path) -> Array:
    """The array of an `.npy` file. Raises one of NPZ_ERRORS."""
    with path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
            raise ValueError("it is no .npy file")
        file.seek(0)
        return _read(file, path.name, os.fstat(file.fileno()).st_size)


def _read(file: IO[bytes], name: str, size: int) -> Array:
    """The array of a file, or a member of one, of so many bytes."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"'{name}' has version {version} of the .npy format")
    read = npy.read_array_header_1_0
    if version == (2, 0):
        read = npy.read_array_header_2_0
    try:
        shape, is_fortran, dtype = read(file)
    except (SyntaxError, TokenError) as error:
        raise ValueError(f"'{name}' has a header that cannot be parsed") from error
    if dtype.hasobject:
        raise ValueError(f"'{name}' holds Python objects")
    size -= file.tell()
    if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != size:
        raise ValueError(
            f"'{name}' has {size} bytes for a {dtype.name} array of shape {shape}"
        )
    data = np.empty(size, np.uint8)
    left = data.data
    while left:
        if not (count := file.readinto(left)):  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
            raise EOFError(f"'{name}' ends early")
        left = left[count:]
    # At the end of a member its checksum is compared.
    file.read(1)
    flat = data.view(dtype) if size else np.empty(prod(shape), dtype)
    return flat.reshape(shape[::-1]).T if is_fortran else flat.reshape(shape)


def explain_npz_error(error: Exception) -> str:
    """The message of one of NPZ_ERRORS, without the file's name."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
