"""Initializers of variables."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from math import isfinite
from typing import cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.parameters import (
    NO_PARAMETERS,
    KindAttr,
    Parameters,
    parameter_of,
)
from penstock.plugins import PluginError, plugin_of

INITIALIZERS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "constant": (frozenset({"value"}), frozenset()),
    "he_normal": (frozenset({"seed"}), frozenset()),
    "he_uniform": (frozenset({"seed"}), frozenset()),
    "normal": (frozenset({"seed"}), frozenset({"mean", "std"})),
    "npz": (frozenset({"file"}), frozenset({"name"})),
    "ones": (frozenset(), frozenset()),
    "uniform": (frozenset({"seed"}), frozenset({"low", "high"})),
    "xavier_normal": (frozenset({"seed"}), frozenset()),
    "xavier_uniform": (frozenset({"seed"}), frozenset()),
    "zeros": (frozenset(), frozenset()),
}
"""The required and the optional parameters of each initialiser."""


@irdl_attr_definition
class InitAttr(KindAttr):
    """
    The initializer of a variable, such as `#job.init<xavier_uniform, seed = 7>` or
    `#job.init<npz, file = "weights.npz", name = "w1">`.

    Random values depend on the seed and the variable's name alone. The fans of
    `xavier_*` and `he_*` are those of a matrix `[in, out]` or of a convolution's
    weights `[out, in, h, w]`. A file is looked up beside the file of the IR; `name` is
    the variable's own where it is left out.
    """

    name = "job.init"

    def __init__(self, kind: str, parameters: Parameters = NO_PARAMETERS):
        super().__init__(kind, parameters)

    def verify(self) -> None:
        required, optional = parameters_of(self.kind.data)
        given = set(self.options.data)
        if missing := sorted(required - given):
            raise VerifyException(
                f"initialiser '{self.kind.data}' needs {', '.join(missing)}"
            )
        if extra := sorted(given - required - optional):
            raise VerifyException(
                f"initialiser '{self.kind.data}' does not take {', '.join(extra)}"
            )
        for key, value in self.options.data.items():
            verify_init_parameter(key, value)
        self._verify_distribution()

    def _verify_distribution(self) -> None:
        if (std := self._number("std", 1.0)) < 0:
            raise VerifyException(f"'std' must not be negative, got {std}")
        low, high = self._number("low", 0.0), self._number("high", 1.0)
        if self.kind.data == "uniform" and low > high:
            raise VerifyException(f"'low' must not be above 'high', got {low} > {high}")

    def _number(self, key: str, default: float) -> float:
        value = self.value(key, default)
        assert not isinstance(value, str), "checked with the parameter"
        return value

    def value(self, key: str, default: float | str) -> int | float | str:
        """The Python value of a parameter, or `default` where it is left out."""
        match self.options.data.get(key):
            case IntegerAttr(value=value) | FloatAttr(value=value):
                return value.data
            case StringAttr(data=text):
                return text
            case _:
                return default


def parameters_of(kind: str) -> tuple[frozenset[str], frozenset[str]]:
    """
    The required and the optional parameters of an initialiser. Those of a plug-in are
    the arguments of its function behind the shape and the generator, and `seed`.
    """
    if kind in INITIALIZERS:
        return INITIALIZERS[kind]
    try:
        plugin = plugin_of("initialiser", kind)
        arguments = list(signature(plugin.function).parameters.values())[2:]
    except (PluginError, ValueError) as error:
        raise VerifyException(str(error)) from error
    required = {x.name for x in arguments if x.default is x.empty}
    optional = {x.name for x in arguments} - required
    return frozenset(required - {"seed"}), frozenset(optional | {"seed"})


def verify_init_parameter(key: str, value: Attribute) -> None:
    """Raise `VerifyException` unless the value has the type that `key` asks for."""
    if key in ("file", "name"):
        if not isinstance(value, StringAttr):
            raise VerifyException(f"'{key}' must be a string, got {value}")
    elif key == "seed":
        if not isinstance(value, IntegerAttr) or value.value.data < 0:
            raise VerifyException(f"'seed' must be an integer from 0 on, got {value}")
    elif type(number := parameter_of(value)) not in (int, float):
        raise VerifyException(f"'{key}' must be a number, got {value}")
    elif not isfinite(cast("float", number)):
        raise VerifyException(f"'{key}' must be finite, got {number}")
