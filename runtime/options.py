"""
Options of callers: engines, devices and numbers, the checks of them; and the base of
what callers close.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self, TypeGuard, cast

import numpy as np

from penstock.runtime.errors import PenstockError

ENGINES = ("actors", "sequential", "sim")
"""
The engines that run a program: see `penstock.runtime.executors.executor.Executor`.
"""

DEVICES = ("cpu", "cuda")
"""The kinds of devices that need no plug-in."""

MOST_EACH = 4
"""The threads for each processor beyond which there is a warning."""

MOST_THREADS = 4096
"""More than any machine has processors: a mistake would occupy it for minutes."""


def check_named(inputs: object) -> None:
    """Raise PenstockError unless these are arrays by name."""
    if not isinstance(inputs, Mapping):
        kind = type(inputs).__name__
        raise PenstockError(f"inputs are arrays by name, got {kind}")


def check_pieces(pieces: object) -> None:
    """Raise PenstockError unless these are pieces, of arrays by name each."""
    if not isinstance(pieces, Sequence) or isinstance(pieces, str):
        kind = type(cast("object", pieces)).__name__
        raise PenstockError(f"pieces are a list of arrays by name each, got {kind}")


def check_name(what: str, name: object, known: Sequence[str]) -> None:
    """Raise PenstockError for what is none of the names that are known."""
    if not isinstance(name, str) or name not in known:
        raise PenstockError(
            f"unknown {what} '{name}', expected one of {', '.join(known)}"
        )


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or NumPy, and no boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is a number on a line, of Python or NumPy, and no boolean."""
    return is_integer(value) or isinstance(value, float | np.floating)


def check_count(name: str, count: object) -> None:
    """Raise PenstockError for what is no number of at least one thing."""
    if not is_integer(count) or count < 1:
        raise PenstockError(f"{name} must be at least 1, got {count!r}")


def check_threads(threads: object) -> None:
    """Raise PenstockError for what is no number of threads, or too large a one."""
    check_count("threads", threads)
    assert is_integer(threads), "it is a count"
    if threads > MOST_THREADS:
        raise PenstockError(f"threads must be at most {MOST_THREADS}, got {threads}")


def processors() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def warn_of_threads(threads: int) -> None:
    """Warn of threads that take CPUs from each other for most of the time."""
    if threads > MOST_EACH * (count := processors()):
        those = "one CPU" if count == 1 else f"{count} CPUs"
        warnings.warn(
            f"{threads} threads on {those} wait for each other: as many threads as "
            "CPUs are fastest",
            RuntimeWarning,
            stacklevel=2,
        )


class Closing(ABC):
    """Something that has to be closed, of itself or by a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """End it. Closing it again changes nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
