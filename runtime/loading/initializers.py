"""
Initialisers of variables: constants, random distributions, He and Xavier, `.npz` files.

A session calls `initial_value` when a program is loaded, for each variable without a
given value (`penstock.tools.session.program_export`), and so does its NumPy oracle
(`penstock.tools.session.oracle`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from math import prod, sqrt
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.plugins import PluginError, plugin_of
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.arrays import numpy_dtype, reread
from penstock.runtime.loading.npz import NPZ_ERRORS, NpzArrays, explain_npz_error

Array: TypeAlias = npt.NDArray[np.generic]


BUILT_IN: Mapping[str, str] = {
    "constant": "The number `value`.",
    "he_normal": "Normal numbers of variance 2 / fan in.",
    "he_uniform": "Uniform numbers of variance 2 / fan in.",
    "normal": "Normal numbers of `mean` and `std`.",
    "npz": "The array `name` of a `file`.",
    "ones": "Ones.",
    "uniform": "Uniform numbers from `low` to `high`.",
    "xavier_normal": "Normal numbers of variance 2 / (fan in + fan out).",
    "xavier_uniform": "Uniform numbers of variance 2 / (fan in + fan out).",
    "zeros": "Zeros.",
}
"""The initialisers that need no plug-in."""


class Initializer(NamedTuple):
    """The kind of an initialiser and its parameters, as `#job.init` says them."""

    kind: str
    parameters: Mapping[str, int | float | str]


def initial_value(
    init: Initializer,
    name: str,
    shape: Sequence[int],
    dtype: np.dtype[np.generic],
    files: WeightFiles,
) -> Array:
    """
    The array of this shape and dtype that an initialiser stands for.

    Random values depend on the seed and the variable's `name` alone; for integers they
    are rounded toward zero. Raises PenstockError if a file or an array in it is missing
    or does not fit, or if a constant is none of the dtype.
    """
    kind = init.kind
    if kind not in BUILT_IN:
        return _by_plugin(init, name, shape, dtype)
    if kind == "npz":
        file = str(init.parameters.get("file", ""))
        key = str(init.parameters.get("name", name))
        return files.read(file, key, shape, dtype, name)
    if kind in ("constant", "ones", "zeros"):
        fill = {"constant": _number(init, "value", 0), "ones": 1, "zeros": 0}[kind]
        return _filled(fill, name, shape, dtype)
    return _random(init, name, shape).astype(dtype)


def _by_plugin(
    init: Initializer, name: str, shape: Sequence[int], dtype: np.dtype[np.generic]
) -> Array:
    """
    The array of a plug-in of the kind `initialiser`: a function of a shape, a random
    generator and the parameters, which returns numbers of that shape.
    """
    parameters = {key: x for key, x in init.parameters.items() if key != "seed"}
    try:
        plugin = plugin_of("initialiser", init.kind)
        made = plugin.call(tuple(shape), _generator(init, name), **parameters)
        array = np.asarray(made)
        if array.shape != tuple(shape):
            plugin.refuse(f"returns shape {array.shape} for '{name}' of {tuple(shape)}")
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            plugin.refuse(f"returns {array.dtype.name} for '{name}'")
        if not np.isfinite(array.astype(np.float64)).all():
            plugin.refuse(f"returns numbers for '{name}' that are not finite")
    except PluginError as error:
        raise PenstockError(str(error)) from error
    return array.astype(dtype)


def _generator(init: Initializer, name: str) -> np.random.Generator:
    """Random numbers that depend on the seed and the variable's name alone."""
    seed = _number(init, "seed", 0)
    return np.random.default_rng([int(seed), zlib.crc32(name.encode())])


def _filled(
    fill: float, name: str, shape: Sequence[int], dtype: np.dtype[np.generic]
) -> Array:
    with np.errstate(over="ignore"):
        value = np.asarray(fill).astype(dtype)
    is_float = dtype.kind == "f" or dtype.name == "bfloat16"
    if is_float and not np.isfinite(value.astype(np.float64)):
        raise PenstockError(f"variable '{name}' of {dtype.name} cannot hold {fill}")
    if not is_float and value != fill:
        raise PenstockError(f"variable '{name}' of {dtype.name} cannot hold {fill}")
    return np.full(shape, value)


def _random(init: Initializer, name: str, shape: Sequence[int]) -> Array:
    generator = _generator(init, name)
    match init.kind:
        case "uniform":
            low, high = _number(init, "low", 0.0), _number(init, "high", 1.0)
            return generator.uniform(low, high, shape)
        case "normal":
            mean, std = _number(init, "mean", 0.0), _number(init, "std", 1.0)
            return generator.normal(mean, std, shape)
        case kind:
            family, _, distribution = kind.partition("_")
            variance = _variance(family, *fans(shape))
            if distribution == "normal":
                return generator.normal(0.0, sqrt(variance), shape)
            limit = sqrt(3 * variance)
            return generator.uniform(-limit, limit, shape)


def _variance(family: str, fan_in: int, fan_out: int) -> float:
    """He et al. 2015 for rectifiers; Glorot and Bengio 2010 (Xavier) for the rest."""
    return 2 / fan_in if family == "he" else 2 / (fan_in + fan_out)


def _number(init: Initializer, key: str, default: float) -> int | float:
    value = init.parameters.get(key, default)
    assert not isinstance(value, str), "checked by the attribute's verifier"
    return value


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """
    The inputs that an output depends on, and the other way round: for a vector or a
    scalar its size, for a matrix `[in, out]`, for convolutions `[out, in, ...]`.
    """
    if len(shape) < 2:
        size = max(1, prod(shape))
        return size, size
    if len(shape) == 2:
        return max(1, shape[0]), max(1, shape[1])
    window = prod(shape[2:])
    return max(1, shape[1] * window), max(1, shape[0] * window)


class WeightFiles:
    """
    The `.npz` files of a directory, each opened once; arrays are read when asked for.

    Use it in a `with` statement, which closes the files.
    """

    def __init__(self, directory: Path):
        self._directory = directory
        self._open: dict[Path, NpzArrays] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read(
        self,
        file: str,
        key: str,
        shape: Sequence[int],
        dtype: np.dtype[np.generic],
        name: str,
    ) -> Array:
        """
        The array `key` of a file as this dtype, which the variable `name` starts from.

        Raises PenstockError if there is no such file or array, it has another shape, or
        its dtype is of another kind (floats for integers).
        """
        path = self._directory / file
        array = reread(self._array(path, key, name), dtype)
        if array.shape != tuple(shape):
            raise PenstockError(
                f"array '{key}' of {path} has shape {array.shape}, "
                f"but '{name}' has {tuple(shape)}"
            )
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise PenstockError(
                f"array '{key}' of {path} has dtype {array.dtype.name}, "
                f"but '{name}' has {dtype.name}"
            )
        return array.astype(dtype, copy=False)

    def checksum(self, file: str, key: str) -> tuple[int, int] | None:
        """
        The bytes of the array `key` of a file and their checksum, which equal arrays of
        NumPy have; None if there is no such file or array.
        """
        try:
            arrays = self._opened(self._directory / file)
        except NPZ_ERRORS:
            return None
        return arrays.checksum(key) if key in arrays else None

    def _array(self, path: Path, key: str, name: str) -> Array:
        try:
            arrays = self._opened(path)
            if key in arrays:
                return arrays[key]
        except NPZ_ERRORS as error:
            raise PenstockError(
                f"cannot read weights from {path}: {explain_npz_error(error)}"
            ) from error
        raise PenstockError(f"{path} has no array '{key}', which '{name}' starts from")

    def _opened(self, path: Path) -> NpzArrays:
        if path not in self._open:
            self._open[path] = NpzArrays(path)
        return self._open[path]


class Start(NamedTuple):
    """The start of a variable: an initialiser, and the shape and dtype of the whole."""

    init: Initializer
    shape: tuple[int, ...]
    dtype: str


class InitialValues(Mapping[str, Array]):
    """
    The whole arrays that variables start from, by the names that these are given by:
    given ones, and those of `starts`, which are made when they are asked for.
    """

    def __init__(
        self,
        given: Mapping[str, Array],
        starts: Mapping[str, Start],
        files: WeightFiles,
    ):
        self._given, self._starts, self._files = given, starts, files

    def __getitem__(self, name: str) -> Array:
        if name in self._given:
            return self._given[name]
        init, shape, dtype = self._starts[name]
        return initial_value(init, name, shape, numpy_dtype(dtype), self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._starts, *self._given]))

    def __len__(self) -> int:
        return len(self._starts.keys() | self._given.keys())
