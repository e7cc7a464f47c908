"""The phases of a CUDA kernel, as the source of the kernel lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

BLOCK_THREADS = 256
MOST_BLOCKS = 2048
"""Blocks of a launch; each goes on with further work with the stride of the grid."""


class Phase(NamedTuple):
    """
    A function that a device runs, in as many threads as there are items of work, or if
    it is `blockwise`, in as many blocks, whose threads work together.
    """

    function: Callable[..., None]
    items: int
    threads: int = BLOCK_THREADS
    """The threads of a block."""
    blockwise: bool = False
    fallback: Phase | None = None
    """What computes the same for buffers at any address, if this asks for multiples of
    16 bytes."""

    @property
    def blocks(self) -> int:
        """The blocks of a launch on a device; 0 if there is no work."""
        per_block = 1 if self.blockwise else self.threads
        return min(-(-self.items // per_block), MOST_BLOCKS)
