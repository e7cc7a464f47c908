"""
Schedules of contractions on the CPU: tiles in vector registers, blocks and packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

SCHEDULE = "schedule"
"""The attribute of a stage with its schedule."""

REFUSAL = "no_schedule"
"""The attribute of a contraction with the reason why it has no schedule."""

FORMS = ("inner", "outer", "upright")
MAX_ACCUMULATORS = 32
MAX_LANES = 64
MAX_PANEL_ELEMENTS = 1 << 15
"""The most elements of a panel; in `f64` they take 256 KiB."""
SIDE = 16
"""The rows of AMX tile registers, and their groups of four or accumulators."""
GROUP = 4
"""The bytes of a group of four, which are multiplied and added at once."""


@irdl_attr_definition
class ContractionAttr(ParametrizedAttribute):
    """
    The CPU schedule of a contraction `o[m, n] += a[m, k] * b[k, n]`, in tiles whose
    accumulators stay in vector registers.

    `tile [R, V, L]` is a tile of R rows. In the form `outer` it has V vectors of L
    columns, and elements of `a` are multiplied with vectors of `b`; in the form `inner`
    it has V columns, and vectors of L terms of both are multiplied. `block [R, K]` is
    the work between two loads of an address: tiles of one column run down R rows, and K
    terms are added before the next tile. With `packed`, the K rows of the columns of
    `b` are copied to a panel on the stack before. `prefetch` says how many rows of `b`
    ahead are fetched. `folds [B, A]` says that the B stages before (that start the sum)
    and the A stages after (elementwise, on the same result) are computed in registers
    with it.

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

    With `quads` it is an int8 matmul with `i32` accumulators, and vectors have L groups
    of four terms of a column. A group of `a` and one of each column are multiplied and
    added at once. Rows are copied (`reuse`), and columns packed or in panels. With
    `matrices` that is done in AMX tile registers of 16 rows of 16 groups, one or two of
    which a tile has down and across.

    ```mlir
    #launch.contraction<outer, tile [6, 4, 16], block [512, 256], packed, folds [1, 0]>
    #launch.contraction<outer, tile [8, 3, 16], block [64, 9], packed, edge 1, panels a>
    #launch.contraction<upright, tile [14, 2, 16], block [28, 9], panels a>
    #launch.contraction<outer, tile [14, 2, 16], block [112, 256], reuse 24, panels b>
    #launch.contraction<outer, tile [9, 2, 16], block [9, 768], quads, packed, reuse 9>
    ```
    """

    name = "launch.contraction"

    form: StringAttr = param_def(converter=StringAttr.get)
    rows: IntAttr = param_def(converter=IntAttr.get)
    vectors: IntAttr = param_def(converter=IntAttr.get)
    lanes: IntAttr = param_def(converter=IntAttr.get)
    height: IntAttr = param_def(converter=IntAttr.get)
    depth: IntAttr = param_def(converter=IntAttr.get)
    packed: IntAttr = param_def(converter=IntAttr.get)
    prefetch: IntAttr = param_def(converter=IntAttr.get)
    before: IntAttr = param_def(converter=IntAttr.get)
    after: IntAttr = param_def(converter=IntAttr.get)
    edge: IntAttr = param_def(converter=IntAttr.get)
    reuse: IntAttr = param_def(converter=IntAttr.get)
    quads: IntAttr = param_def(converter=IntAttr.get)
    matrices: IntAttr = param_def(converter=IntAttr.get)
    panels: StringAttr = param_def(converter=StringAttr.get)

    def __init__(
        self,
        form: str,
        tile: Sequence[int],
        block: Sequence[int],
        *,
        packed: bool = False,
        prefetch: int = 0,
        folds: Sequence[int] = (0, 0),
        edge: int = 0,
        reuse: int = 0,
        quads: bool = False,
        matrices: bool = False,
        panels: str = "",
    ):
        of_bytes = int(quads or matrices), int(matrices)
        flags = int(packed), prefetch, *folds, edge, reuse, *of_bytes
        numbers = (*tile, *block, *flags)
        super().__init__(StringAttr(form), *map(IntAttr, numbers), StringAttr(panels))

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, vectors and lanes of a tile."""
        return self.rows.data, self.vectors.data, self.lanes.data

    @property
    def block(self) -> tuple[int, int]:
        """The rows that tiles run down, and the terms they add on the way."""
        return self.height.data, self.depth.data

    @property
    def folds(self) -> tuple[int, int]:
        """The stages before and after that are fused: prologue and epilogue."""
        return self.before.data, self.after.data

    @property
    def is_outer(self) -> bool:
        """Whether vectors run along columns."""
        return self.form.data == "outer"

    @property
    def is_inner(self) -> bool:
        """Whether vectors run along terms."""
        return self.form.data == "inner"

    @property
    def is_transposed(self) -> bool:
        """Whether vectors run along rows."""
        return self.form.data == "upright"

    @property
    def is_packed(self) -> bool:
        """Whether columns of `b` are copied to a panel first."""
        return bool(self.packed.data)

    @property
    def is_int8(self) -> bool:
        """Whether this is an int8 matmul, on groups of four terms."""
        return bool(self.quads.data)

    @property
    def has_matrices(self) -> bool:
        """Whether groups of four are multiplied in AMX tile registers."""
        return bool(self.matrices.data)

    @property
    def most_elements(self) -> int:
        """The elements that panels and copies may have on the stack."""
        return MAX_PANEL_ELEMENTS * (GROUP if self.is_int8 else 1)

    @property
    def columns(self) -> int:
        """The columns of a tile, but its rows if it is upright."""
        _, vectors, lanes = self.tile
        if self.form.data == "inner":
            return vectors
        return vectors * lanes + self.edge.data

    @property
    def stored(self) -> str:
        """The operand that lies in panels, `a` or `b`, or nothing."""
        return self.panels.data

    def verify(self) -> None:
        if self.form.data not in FORMS:
            raise VerifyException(
                f"unknown form '{self.form.data}', expected one of {', '.join(FORMS)}"
            )
        rows, vectors, lanes = self.tile
        if min(*self.tile, *self.block) < 1:
            raise VerifyException(
                f"tiles and blocks have at least one element a side, got tile "
                f"{[*self.tile]} and block {[*self.block]}"
            )
        if rows * vectors > MAX_ACCUMULATORS and not self.has_matrices:
            raise VerifyException(
                f"{rows} x {vectors} vectors of sums do not fit into "
                f"{MAX_ACCUMULATORS} registers"
            )
        if lanes > MAX_LANES or lanes & (lanes - 1):
            raise VerifyException(
                f"the lanes of a vector should be a power of 2 up to {MAX_LANES}, "
                f"got {lanes}"
            )
        if self.height.data % rows and not self.is_transposed:
            raise VerifyException(
                f"a block should have whole tiles of {rows} rows, got "
                f"{self.height.data} rows"
            )
        self._verify_panel()
        counts = self.prefetch.data, self.edge.data, self.reuse.data, *self.folds
        if min(counts) < 0:
            raise VerifyException(
                f"counts must not be negative, got prefetch {self.prefetch.data}, "
                f"folds {[*self.folds]}, edge {self.edge.data} and reuse "
                f"{self.reuse.data}"
            )
        self._verify_stored()
        self._verify_reuse()
        self._verify_int8()

    def _verify_stored(self) -> None:
        if self.stored not in ("", "a", "b"):
            raise VerifyException(f"panels are of a or b, got '{self.stored}'")
        if self.is_transposed:
            if self.stored != "a" or self.edge.data or self.prefetch.data:
                raise VerifyException("upright tiles take panels a, and nothing else")
            return
        if self.stored == "a" and not self.is_outer:
            raise VerifyException("the form inner reads no panels of a")
        if self.stored == "b" and self.is_packed:
            raise VerifyException("what lies in panels is not packed")
        if self.edge.data and self.stored != "a":
            raise VerifyException("an edge needs panels a")

    def _verify_panel(self) -> None:
        if not self.is_packed:
            return
        if not self.is_outer:
            raise VerifyException("only the form outer reads panels")
        if self.columns * self.depth.data > self.most_elements:
            raise VerifyException(
                f"a panel of {self.depth.data} x {self.columns} elements is larger "
                f"than the stack allows: {self.most_elements}"
            )

    def _verify_reuse(self) -> None:
        if not self.reuse.data:
            return
        if not self.is_outer or self.stored == "a" or self.prefetch.data:
            raise VerifyException(
                "rows are reused by the form outer, without panels a or prefetch"
            )
        if prod(self.block) > self.most_elements:
            raise VerifyException(
                f"{self.height.data} rows of {self.depth.data} terms are more to reuse "
                f"than the stack allows: {self.most_elements} elements"
            )

    def _verify_int8(self) -> None:
        if not self.is_int8:
            return
        if not self.reuse.data or not (self.is_packed or self.stored == "b"):
            raise VerifyException("quads are of rows to reuse and columns in panels")
        if self.depth.data % GROUP:
            raise VerifyException(
                f"a block has whole quads of {GROUP} terms, got {self.depth.data} terms"
            )
        rows, vectors, lanes = self.tile
        is_whole = self.depth.data % (GROUP * SIDE) == 0
        sides = rows in (SIDE, 2 * SIDE), vectors in (1, 2), lanes == SIDE
        if self.has_matrices and not (is_whole and all(sides)):
            raise VerifyException(
                f"matrices have {SIDE} or {2 * SIDE} rows, one or two vectors of "
                f"{SIDE} and whole chunks of {GROUP * SIDE} terms, got tile "
                f"{[*self.tile]} and {self.depth.data} terms"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def numbers(keyword: str, count: int) -> list[int]:
            parser.parse_keyword(keyword)
            place = parser.pos
            found = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(found) != count:
                parser.raise_error(
                    f"{keyword} takes {count} numbers, got {len(found)}",
                    place,
                )
            return found

        with parser.in_angle_brackets():
            form = parser.parse_identifier()
            parser.parse_punctuation(",")
            tile = numbers("tile", 3)
            parser.parse_punctuation(",")
            values = [*tile, *numbers("block", 2)]
            packed = prefetch = edge = reuse = quads = matrices = 0
            folds, panels = [0, 0], ""
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("packed"):
                    packed = 1
                elif parser.parse_optional_keyword("quads"):
                    quads = 1
                elif parser.parse_optional_keyword("matrices"):
                    quads = matrices = 1
                elif parser.parse_optional_keyword("prefetch"):
                    prefetch = parser.parse_integer()
                elif parser.parse_optional_keyword("edge"):
                    edge = parser.parse_integer()
                elif parser.parse_optional_keyword("reuse"):
                    reuse = parser.parse_integer()
                elif parser.parse_optional_keyword("panels"):
                    panels = parser.parse_identifier()
                else:
                    folds = numbers("folds", 2)
        values += [packed, prefetch, *folds, edge, reuse, quads, matrices]
        return [StringAttr(form), *map(IntAttr, values), StringAttr(panels)]

    def print_parameters(self, printer: Printer) -> None:
        parts = [
            self.form.data,
            f"tile {[*self.tile]}",
            f"block {[*self.block]}",
        ]
        if self.is_int8:
            parts.append("matrices" if self.has_matrices else "quads")
        if self.is_packed:
            parts.append("packed")
        if self.prefetch.data:
            parts.append(f"prefetch {self.prefetch.data}")
        if any(self.folds):
            parts.append(f"folds {[*self.folds]}")
        if self.edge.data:
            parts.append(f"edge {self.edge.data}")
        if self.reuse.data:
            parts.append(f"reuse {self.reuse.data}")
        if self.stored:
            parts.append(f"panels {self.stored}")
        with printer.in_angle_brackets():
            printer.print_string(", ".join(parts))


def panel_bytes(schedule: ContractionAttr, element_bytes: int) -> int:
    """The bytes of the panel that a schedule needs, 0 without one."""
    if not schedule.is_packed:
        return 0
    return schedule.columns * schedule.depth.data * element_bytes


def reused_bytes(schedule: ContractionAttr, element_bytes: int) -> int:
    """
    The bytes of the copy of rows that a schedule needs, 0 without one. Vectors of all
    lanes are written, also where a tile has fewer rows.
    """
    if not schedule.reuse.data:
        return 0
    spare = schedule.lanes.data * (GROUP if schedule.is_int8 else 1)
    return (prod(schedule.block) + spare) * element_bytes
