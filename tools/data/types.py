"""The two kinds of sources: samples by their numbers, and samples in one order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Numbers: TypeAlias = npt.NDArray[np.int64]

Sample: TypeAlias = Mapping[str, npt.ArrayLike]
"""The arrays of one sample by name."""

Batch: TypeAlias = dict[str, Array]
"""The arrays of several samples by name, stacked along a first axis."""

Change: TypeAlias = Callable[[Batch, np.random.Generator], Batch]
"""A function that makes another batch of a batch, with random numbers of its own."""


def listed(numbers: Numbers) -> list[int]:
    """Numbers of samples as a list."""
    return cast("list[int]", numbers.tolist())


class Source(ABC):
    """Samples that are read by their numbers, which count from 0."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of samples."""

    @abstractmethod
    def read(self, numbers: Numbers) -> Batch:
        """
        The samples of these `numbers`, in this order, in arrays of their own.

        **Raises** DataError for a file that cannot be read.
        """


class Samples(ABC):
    """Samples that come one after the other, in the same order in each epoch."""

    @abstractmethod
    def since(self, start: int) -> Iterator[Sample]:
        """
        The samples of an epoch but for the first `start` ones.

        **Raises** DataError if there is no way back to them.
        """
