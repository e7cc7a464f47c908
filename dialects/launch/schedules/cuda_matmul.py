"""Schedules of contractions on GPUs: tiles of thread blocks, threads and warps."""

from __future__ import annotations

from penstock.dialects.launch.schedules.contraction import ContractionSchedule
from penstock.dialects.launch.schedules.fields import number, numbers, refuse
from penstock.dialects.launch.schedules.schedule import schedule_definition

WARP = 32
MAX_THREADS = 1024
MAX_SUMS = 64
MAX_SHARED_ELEMENTS = 12288
"""The `f32` elements in 48 KiB of shared memory."""
PADDING = 4
"""The elements after each line of a tile that keep lines in different banks."""
MAX_WARP_SUMS = 128
"""The sums of a thread on tensor cores: registers hold little else."""
NARROW_PADDING = 8
"""The same for `f16` and `bf16`, whose lines begin at multiples of 16 bytes."""
STAGES = (2, 4)
MAX_SHARED_BYTES = 160 * 1024
"""
The shared memory, in bytes, that a block may ask of any GPU with tensor cores for
`bf16`.
"""
MATRIX = 16
"""The rows, columns and terms that a warp multiplies at once, or half as many."""


@schedule_definition
class TilesAttr(ContractionSchedule):
    """
    The GPU schedule of a contraction `o[m, n] += a[m, k] * b[k, n]`, by thread blocks:
    each takes a tile of the result, and the threads of the block a smaller tile each.

    `block [M, N, K]` is a tile of M rows and N columns, for which K terms at once are
    brought to shared memory, twice, so that the next ones are on their way meanwhile.
    `thread [R, C]` are the rows and columns of a thread, whose sums are in registers.
    `warp [R, C]` in its place says that a warp computes so many rows and columns on
    tensor cores, for `f16` and `bf16`: accumulators are `f32`, and rounded when they
    are stored. There K terms are brought `stages` times, all but one of them on their
    way.

    ```mlir
    #launch.tiles<block [128, 128, 8], thread [8, 8]>
    #launch.tiles<block [128, 128, 32], warp [64, 32], stages 4>
    ```
    """

    name = "launch.tiles"

    block: tuple[int, int, int] = numbers(3, power=True)
    thread: tuple[int, int] = numbers(2, power=True, default=(0, 0))
    warp: tuple[int, int] = numbers(2, power=True, default=(0, 0))
    stages: int = number(default=0)

    @property
    def has_warps(self) -> bool:
        """Whether tiles are of warps, on tensor cores."""
        return self.warp != (0, 0)

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and columns of a thread, or of a warp on tensor cores."""
        return self.warp if self.has_warps else self.thread

    @property
    def threads(self) -> int:
        """The threads of a block."""
        rows, columns, _ = self.block
        tiles = (rows // self.tile[0]) * (columns // self.tile[1])
        return tiles * WARP if self.has_warps else tiles

    @property
    def shared_elements(self) -> int:
        """The elements in shared memory."""
        rows, columns, terms = self.block
        return 2 * terms * (rows + columns + 2 * PADDING)

    @property
    def shared_bytes(self) -> int:
        """The most that tensor cores need of shared memory."""
        rows, columns, terms = self.block
        lines = terms * (rows + NARROW_PADDING) + terms * (columns + NARROW_PADDING)
        turned = (rows + columns) * (terms + NARROW_PADDING)
        return 2 * self.stages * max(lines, turned)

    def verify(self) -> None:
        refuse(
            self.has_warps == (self.thread != (0, 0)),
            "a block has tiles of threads, or of warps",
        )
        rows, columns, terms = self.block
        kind = "warp" if self.has_warps else "thread"
        refuse(
            self.tile[0] > rows or self.tile[1] > columns,
            f"a {kind}'s tile {[*self.tile]} is larger than that of its block, "
            f"{[rows, columns]}",
        )
        refuse(
            not WARP <= self.threads <= MAX_THREADS,
            f"a block has {WARP} to {MAX_THREADS} threads, got {self.threads}",
        )
        if self.has_warps:
            self._verify_tensor_cores()
        else:
            self._verify_threads()
        refuse(
            min(rows, columns) * terms < self.threads,
            f"{self.threads} threads bring more than {terms} terms of {rows} rows "
            f"and {columns} columns",
        )

    def _verify_threads(self) -> None:
        rows, columns = self.thread
        refuse(self.stages != 0, "tiles of threads have no stages")
        refuse(
            rows * columns > MAX_SUMS,
            f"{rows} x {columns} sums do not fit into the registers of a thread",
        )
        refuse(
            self.shared_elements > MAX_SHARED_ELEMENTS,
            f"{self.shared_elements} elements do not fit into shared memory, which has "
            f"room for {MAX_SHARED_ELEMENTS}",
        )

    def _verify_tensor_cores(self) -> None:
        rows, columns = self.warp
        refuse(
            any(side % MATRIX for side in (rows, columns, self.block[2])),
            f"tensor cores multiply {MATRIX} rows, columns and terms, got warps of "
            f"{[rows, columns]} and {self.block[2]} terms",
        )
        refuse(
            self.stages not in STAGES,
            f"terms have {', '.join(map(str, STAGES))} stages, got {self.stages}",
        )
        refuse(
            rows * columns > MAX_WARP_SUMS * WARP,
            f"{rows} x {columns} sums do not fit into the registers of a warp",
        )
        refuse(
            self.shared_bytes > MAX_SHARED_BYTES,
            f"{self.shared_bytes} bytes do not fit into shared memory, which has room "
            f"for {MAX_SHARED_BYTES}",
        )
