"""Stages of a CUDA kernel, as its source lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

BLOCK_THREADS = 256
MOST_BLOCKS = 2048
"""Blocks of a launch; each goes on with further work with the stride of the grid."""


class Stage(NamedTuple):
    """
    A function that a device runs, in as many threads as there are items of work, or if
    it is `blockwise`, in as many blocks, whose threads work together.
    """

    function: Callable[..., None]
    items: int
    threads: int = BLOCK_THREADS
    """The threads of a block."""
    blockwise: bool = False
    fallback: Stage | None = None
    """
    A stage that computes the same for buffers at any address, if this one needs an
    alignment of 16 bytes.
    """
    dynamic_shared: int = 0
    """The bytes of shared memory that a launch has to ask for, besides what the
    function declares; devices allow more than 48 KiB only if they are told before."""
    least_blocks: int = 1
    """
    The number of blocks that a multiprocessor should have room for at once: registers
    are shared out so, unless they would be spilled.
    """
    cooperative: bool = False
    """Whether all blocks have to run at a time, as they wait for each other."""

    @property
    def blocks(self) -> int:
        """The blocks of a launch on a device; 0 if there is no work."""
        per_block = 1 if self.blockwise else self.threads
        return min(-(-self.items // per_block), MOST_BLOCKS)


Phase = Stage
"""The name that a stage had in 0.1, by which sources of plug-ins may import it."""


def stages_in(names: Mapping[str, object]) -> Sequence[Stage]:
    """The stages that the text of a module lists: `STAGES` or, as in 0.1, `PHASES`."""
    return cast("Sequence[Stage]", names["STAGES" if "STAGES" in names else "PHASES"])
