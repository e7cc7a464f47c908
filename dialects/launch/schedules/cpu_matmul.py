"""
Schedules of contractions on the CPU: tiles in vector registers, blocks and packing.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil, prod
from types import MappingProxyType

from penstock.dialects.launch.schedules.contraction import ContractionSchedule
from penstock.dialects.launch.schedules.fields import (
    choice,
    flag,
    number,
    numbers,
    refuse,
    word,
)
from penstock.dialects.launch.schedules.schedule import schedule_definition

MAX_ACCUMULATORS = 32
MAX_LANES = 64
MAX_PANEL_ELEMENTS = 1 << 15
"""The most elements of a panel; in `f64` they take 256 KiB."""
MAX_COPIED_ELEMENTS = 1 << 17
"""The most elements of a copy of rows; in `f64` they take a MiB."""
SIDE = 16
"""The rows of AMX tile registers, and their groups of four or accumulators."""
GROUP = 4
"""The bytes of a group of terms, which are multiplied and added at once."""


@schedule_definition
class ContractionAttr(ContractionSchedule):
    """
    The CPU schedule of a contraction `o[m, n] += a[m, k] * b[k, n]`, in tiles whose
    accumulators stay in vector registers.

    `tile [R, V, L]` is a tile of R rows. In the form `outer` it has V vectors of L
    columns, and elements of `a` are multiplied with vectors of `b`; in the form `inner`
    it has V columns, and vectors of L terms of both are multiplied. `block [R, K]` is
    the work between two loads of an address: tiles of one column run down R rows, and K
    terms are added before the next tile. With `packed`, the K rows of the columns of
    `b` are copied to a panel on the stack before; without it windows are read where
    they lie, line by line. `prefetch` says how many rows of `b` ahead are fetched, in
    the form `outer`.

    The form `upright` is `outer` transposed (direct convolution): a tile is R columns
    and V vectors of L rows, elements of `b` are multiplied with vectors of `a`, and the
    sums are transposed in registers. It reads windows where they lie, and needs `panels
    a`, as wide as a tile has rows. Its blocks have R columns, and all terms.

    With `panels a` or `panels b` that operand is an argument which lies in panels
    (`#launch.panels`) as wide as a tile has rows or columns, in the form `inner` as
    wide as one column, so that tiles read contiguous elements and nothing is copied. An
    `edge` is columns that a tile has besides its vectors, whose sums are in vectors
    along its rows: so that 49 columns need not take 4 vectors of 16. It needs `panels
    a`.

    With `reuse P` the rows of a block are copied to the stack before, in the order in
    which tiles read them, and P panels of columns are computed with the copy.

    With `group 4` it is an int8 matmul with `i32` accumulators, with `group 2` one of
    `bf16` with `f32` accumulators, and vectors have L groups of so many terms of a
    column. A group of `a` and one of each column are multiplied and added at once. Rows
    are copied (`reuse`), and columns packed or in panels. With `matrices` that is done
    in AMX tile registers of 16 rows of 16 groups of four, one or two of which a tile
    has down and across.

    Extents are arguments of the kernel, and so are strides but 0 and 1; those of the
    loops in `fixed` are in the code. In the form `upright` and with groups all are.

    ```mlir
    #launch.contraction<outer, tile [6, 4, 16], block [512, 256], packed>
    #launch.contraction<outer, tile [8, 3, 16], block [64, 9], packed, edge 1, panels a>
    #launch.contraction<upright, tile [14, 2, 16], block [28, 9], panels a>
    #launch.contraction<outer, tile [14, 2, 16], block [112, 256], reuse 24, panels b>
    #launch.contraction<outer, tile [9, 2, 16], block [9, 64], group 4, packed, reuse 9>
    #launch.contraction<outer, tile [6, 4, 16], block [64, 64], fixed [2]>
    ```
    """

    name = "launch.contraction"
    FORMER = MappingProxyType(
        {**ContractionSchedule.FORMER, "quads": "groups of four terms are group 4"}
    )

    form: str = choice("inner", "outer", "upright")
    tile: tuple[int, int, int] = numbers(3)
    block: tuple[int, int] = numbers(2)
    group: int = number(most=GROUP, power=True, default=1)
    matrices: bool = flag(default=False)
    packed: bool = flag(default=False)
    prefetch: int = number(least=0, default=0)
    edge: int = number(least=0, default=0)
    reuse: int = number(least=0, default=0)
    panels: str = word("a", "b", default="")
    fixed: tuple[int, ...] = numbers(None, least=0, default=())

    def loops_in_code(self, count: int) -> Collection[int]:
        if self.is_grouped or self.is_transposed:
            return range(count)
        return self.fixed

    @property
    def is_outer(self) -> bool:
        """Whether vectors run along columns."""
        return self.form == "outer"

    @property
    def is_inner(self) -> bool:
        """Whether vectors run along terms."""
        return self.form == "inner"

    @property
    def is_transposed(self) -> bool:
        """Whether vectors run along rows."""
        return self.form == "upright"

    @property
    def terms_at_once(self) -> int:
        """The terms of a group."""
        return GROUP if self.matrices else self.group

    @property
    def is_grouped(self) -> bool:
        """Whether several terms are multiplied and added at once."""
        return self.terms_at_once > 1

    @property
    def columns(self) -> int:
        """The columns of a tile, but its rows if it is upright."""
        _, vectors, lanes = self.tile
        return vectors if self.is_inner else vectors * lanes + self.edge

    @property
    def panel_columns(self) -> int:
        """The columns of a panel on the stack, in which the last ones fill vectors."""
        lanes = self.tile[2]
        return max(self.columns, ceil((self.columns - 1) / lanes) * lanes)

    def verify(self) -> None:
        (rows, vectors, lanes), (height, _) = self.tile, self.block
        refuse(
            rows * vectors > MAX_ACCUMULATORS and not self.matrices,
            f"{rows} x {vectors} vectors of sums do not fit into {MAX_ACCUMULATORS} "
            "registers",
        )
        refuse(
            rows * vectors + self.edge > MAX_ACCUMULATORS and self.edge > 0,
            f"{rows} x {vectors} vectors of sums and an edge of {self.edge} do not fit "
            f"into {MAX_ACCUMULATORS} registers",
        )
        verify_lanes(lanes)
        refuse(
            height % rows != 0 and not self.is_transposed,
            f"a block should have whole tiles of {rows} rows, got {height} rows",
        )
        if self.packed:
            self._verify_packing()
        self._verify_panels()
        if self.reuse:
            self._verify_reuse()
        if self.is_grouped:
            self._verify_groups()

    def _verify_packing(self) -> None:
        depth = self.block[1]
        refuse(not self.is_outer, "only the form outer reads panels")
        refuse(
            self.panel_columns * depth
            > (most := MAX_PANEL_ELEMENTS * self.terms_at_once),
            f"a panel of {depth} x {self.panel_columns} elements is larger than the "
            f"stack allows: {most}",
        )

    def _verify_panels(self) -> None:
        if self.is_transposed:
            refuse(
                self.panels != "a" or self.edge > 0 or self.prefetch > 0,
                "upright tiles take panels a, and nothing else",
            )
            return
        refuse(self.prefetch > 0 and self.is_inner, "the form inner prefetches no rows")
        reads_a = self.panels == "a"
        refuse(reads_a and self.is_inner, "the form inner reads no panels of a")
        is_twice = self.panels == "b" and self.packed
        refuse(is_twice, "what lies in panels is not packed")
        refuse(self.edge > 0 and not reads_a, "an edge needs panels a")

    def _verify_reuse(self) -> None:
        refuse(
            not self.is_outer or self.panels == "a" or self.prefetch > 0,
            "rows are reused by the form outer, without panels a or prefetch",
        )
        height, depth = self.block
        refuse(
            height * depth > (most := MAX_COPIED_ELEMENTS * self.terms_at_once),
            f"{height} rows of {depth} terms are more to reuse than the stack allows: "
            f"{most} elements",
        )

    def _verify_groups(self) -> None:
        (rows, vectors, lanes), depth = self.tile, self.block[1]
        refuse(
            self.group > 1 and self.matrices, "matrices are of groups, too: name one"
        )
        refuse(
            not self.reuse or not (self.packed or self.panels == "b"),
            "groups are of rows to reuse and columns in panels",
        )
        refuse(
            depth % self.terms_at_once != 0,
            f"a block has whole groups of {self.terms_at_once} terms, got {depth} "
            "terms",
        )
        is_whole = depth % (GROUP * SIDE) == 0
        sides = rows in (SIDE, 2 * SIDE), vectors in (1, 2), lanes == SIDE
        refuse(
            self.matrices and not (is_whole and all(sides)),
            f"matrices have {SIDE} or {2 * SIDE} rows, one or two vectors of {SIDE} "
            f"and whole chunks of {GROUP * SIDE} terms, got tile {[*self.tile]} and "
            f"{depth} terms",
        )


def verify_lanes(lanes: int) -> None:
    """Raise `VerifyException` unless vectors may have so many lanes."""
    refuse(
        lanes > MAX_LANES or bool(lanes & (lanes - 1)),
        f"the lanes of a vector should be a power of 2 up to {MAX_LANES}, got {lanes}",
    )


def panel_bytes(schedule: ContractionAttr, element_bytes: int) -> int:
    """The bytes of the panel that a schedule needs, 0 without one."""
    if not schedule.packed:
        return 0
    return schedule.panel_columns * schedule.block[1] * element_bytes


def reused_bytes(schedule: ContractionAttr, element_bytes: int) -> int:
    """The bytes of the copy of rows that a schedule needs, 0 without one."""
    return prod(schedule.block) * element_bytes if schedule.reuse else 0
