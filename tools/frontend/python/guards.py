"""Type guards for Python values, in terms that type checkers can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Number: TypeAlias = "bool | int | float"


def is_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array, or a scalar of NumPy, which can stand for one."""
    return isinstance(value, np.ndarray | np.generic)


def is_plain_array(value: object) -> TypeGuard[Array]:
    """Whether a value is an array, as most arguments are; quicker than `is_array`."""
    return type(value) is np.ndarray


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is one of Python's numbers, which take the dtypes of others."""
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """Whether a value is a tuple."""
    return isinstance(value, tuple)


def is_slice(value: object) -> TypeGuard[slice[Any, Any, Any]]:
    """Whether a value is what `start:stop:step` makes."""
    return isinstance(value, slice)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Whether a value is a dictionary."""
    return isinstance(value, dict)


@cache
def late(module: str) -> Any:
    """A module of this package that imports the one which needs it."""
    return import_module(f"penstock.tools.frontend.python.{module}")
