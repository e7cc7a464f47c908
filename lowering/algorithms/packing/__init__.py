"""
Packing: giving buffers offsets such that those needed together share no bytes.

`pack` runs an algorithm by its name. An algorithm is a function that takes a `Problem`
and a `Budget` and returns one offset for each buffer. Besides those of this package
there are those of installed packages, which name them as entry points of the group
`penstock.packing`, and of files, which call `register_packing`.
"""

from penstock.lowering.algorithms.packing.budget import Budget
from penstock.lowering.algorithms.packing.problem import Lifetime, Problem
from penstock.lowering.algorithms.packing.registry import (
    DEFAULT_STEPS,
    Packer,
    PackingError,
    pack,
    packer_of,
    packing_names,
    register_packing,
)

__all__ = [
    "DEFAULT_STEPS",
    "Budget",
    "Lifetime",
    "Packer",
    "PackingError",
    "Problem",
    "pack",
    "packer_of",
    "packing_names",
    "register_packing",
]
