"""
Logs of scalars: files of JSON lines, `{"step": 10, "loss": 0.31}`, one for each step.

A run that is resumed goes on in the same file: a step that comes again takes the place
of what was written from there on. `penstock-view` draws a log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from penstock.runtime.options import is_integer, is_real
from penstock.tools.data.errors import DataError
from penstock.tools.driver.files import explain_os_error

STEP = "step"


class Row(NamedTuple):
    """The scalars of a step, by name."""

    step: int
    scalars: Mapping[str, float]


class ScalarLog:
    """
    The log at `path` of scalars, such as the loss of each step; `penstock-view` draws
    it.

    ```python
    from tempfile import mkdtemp

    from penstock import data

    log = data.ScalarLog(f"{mkdtemp()}/run.jsonl")
    log.add(1, loss=0.5)
    log.add(2, loss=0.25, accuracy=0.9)
    assert log.read() == [(1, {"loss": 0.5}), (2, {"loss": 0.25, "accuracy": 0.9})]
    ```
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def add(self, step: int, **scalars: Any) -> None:
        """
        Write the `scalars` of a `step`, numbers or arrays of one element, by name.

        **Raises** DataError for what is no number, and if the file cannot be written.
        """
        row = {STEP: int(step), **as_numbers(scalars)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")
        except OSError as error:
            reason = explain_os_error(error)
            raise DataError(f"cannot write {self.path}: {reason}") from error

    def read(self) -> list[Row]:
        """
        The scalars of each step, in order.

        **Raises** DataError, with the line, for a file that is no such log. A last line
        that a killed process has left unfinished is left out.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            reason = explain_os_error(error)
            raise DataError(f"cannot read {self.path}: {reason}") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path} is no text: {error.reason}") from error
        rows: list[Row] = []
        for number, line in enumerate(text.split("\n")[:-1], 1):
            row = self._row(number, line)
            while rows and rows[-1].step >= row.step:
                rows.pop()
            rows.append(row)
        return rows

    def _row(self, number: int, line: str) -> Row:
        try:
            given: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self.path}:{number} is no JSON: {error}") from error
        found = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        step = found.pop(STEP, None)
        if not is_integer(step) or not all(map(is_real, found.values())):
            raise DataError(f"{self.path}:{number} is no step with numbers")
        return Row(step, {name: float(value) for name, value in found.items()})


def as_numbers(scalars: Mapping[str, Any]) -> dict[str, float]:
    """Scalars as numbers of Python. Raises DataError for what is none."""
    found: dict[str, float] = {}
    for name, value in scalars.items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError) as error:
            kind = type(value).__name__
            raise DataError(f"'{name}' is no number but {kind}") from error
    return found
