"""What callers choose by name or say as a number, and what is wrong with it if so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from penstock.runtime.errors import PenstockError

ENGINES = ("actors", "sequential", "sim")
"""What runs a program: see `penstock.runtime.executor.Executor`."""

DEVICES = ("cpu", "cuda")
"""The kinds of devices that kernels are compiled for."""


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


def check_options(device: object, threads: object, engine: object) -> None:
    """
    Raise PenstockError unless these are a kind of device, or None for what a job says
    itself, a number of threads, and an engine.
    """
    if device is not None:
        check_name("device", device, DEVICES)
    check_count("threads", threads)
    check_name("engine", engine, ENGINES)
