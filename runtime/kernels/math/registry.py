"""
The registry of our own elementary functions, for numbers and for vectors of a type.
"""

# llvmlite carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping

from llvmlite import ir

from penstock.runtime.kernels.math import f32 as vector_math
from penstock.runtime.kernels.math import f64 as wide_math
from penstock.runtime.kernels.math import hyperbolic_f32 as inverse_math
from penstock.runtime.kernels.math import trig_f32 as circular_math
from penstock.runtime.kernels.math import trig_f64 as wide_angles
from penstock.runtime.kernels.math.f32 import DOUBLE, FLOAT, Floats, scalar_of

FUNCTIONS: Mapping[ir.Type, Mapping[str, Callable[..., Floats]]] = {
    FLOAT: {
        **vector_math.FUNCTIONS,
        **circular_math.FUNCTIONS,
        **inverse_math.FUNCTIONS,
    },
    DOUBLE: {**wide_math.FUNCTIONS, **wide_angles.FUNCTIONS},
}
"""All functions by the type of their numbers, and their name."""


def own_function(name: str, type: ir.Type) -> Callable[..., Floats] | None:
    """
    The function `name` for numbers or vectors of a type, given as `Floats`; None where
    that of the C library has to do.
    """
    return FUNCTIONS[scalar_of(type)].get(name)
