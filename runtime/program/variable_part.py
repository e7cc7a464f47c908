"""Parts of variables, of which several processes may have different ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Part(NamedTuple):
    """
    A part of a variable: its array, from `offsets` on of what has the shape `whole`.
    """

    name: str
    offsets: tuple[int, ...]
    whole: tuple[int, ...]
    array: NDArray[np.generic]

    @property
    def place(self) -> tuple[slice, ...]:
        """Where it lies in the whole."""
        pairs = zip(self.offsets, self.array.shape, strict=True)
        return tuple(slice(start, start + size) for start, size in pairs)
