"""A source of the lines of a text file."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Batch, Numbers, Source, listed
from penstock.tools.driver.files import explain_os_error

LINE = "line"


class Lines(Source):
    """The lines of a file in UTF-8, which are read when they are asked for."""

    def __init__(self, path: Path):
        self._path = path
        try:
            with path.open("rb") as file:
                lengths = [len(line) for line in file]
        except OSError as error:
            raise DataError(f"cannot read {path}: {explain_os_error(error)}") from error
        self._ends: npt.NDArray[np.int64] = np.cumsum([0, *lengths], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def read(self, numbers: Numbers) -> Batch:
        try:
            with self._path.open("rb") as file:
                lines = [self._line(file, number) for number in listed(numbers)]
        except OSError as error:
            reason = explain_os_error(error)
            raise DataError(f"cannot read {self._path}: {reason}") from error
        return {LINE: np.array(lines, np.str_)}

    def _line(self, file: IO[bytes], number: int) -> str:
        start, end = int(self._ends[number]), int(self._ends[number + 1])
        file.seek(start)
        try:
            return file.read(end - start).decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            where = f"{self._path}:{number + 1}"
            raise DataError(f"{where} is no UTF-8: {error.reason}") from error


def text(path: str | Path) -> Source:
    """
    A source of the lines of the text file at `path`, without their ends, as `line`.

    A batch has them as an array of texts, which a loader's `change` makes numbers of.

    **Raises** DataError if the file cannot be read, and when a line is read that is no
    UTF-8.
    """
    return Lines(Path(path))
