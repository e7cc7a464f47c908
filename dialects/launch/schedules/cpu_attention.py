"""Schedules of attention on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.launch.schedules.cpu_matmul import (
    MAX_ACCUMULATORS,
    MAX_LANES,
    MAX_PANEL_ELEMENTS,
)

FORMS = ("columns", "rows")


@irdl_attr_definition
class AttentionAttr(ParametrizedAttribute):
    """
    The CPU schedule of attention (`op.attention`): in blocks of `keys`, whose scores
    are on the stack of the thread, for one block of queries at a time.

    In the form `columns`, scores are made in tiles of R keys and V vectors of L
    queries, which are all the queries of a block, copied to a panel on the stack
    before. In the form `rows` there is one block of all queries, and the scores of one
    at a time are sums of vectors of L terms, R keys at a time (V is 1). `mix [R, V]`
    says the rows and vectors of the tiles in which values are added to the result.

    ```mlir
    #launch.attention<columns, tile [6, 4, 16], mix [4, 4], keys 126>
    ```
    """

    name = "launch.attention"

    form: StringAttr = param_def(converter=StringAttr.get)
    tile_keys: IntAttr = param_def(converter=IntAttr.get)
    vectors: IntAttr = param_def(converter=IntAttr.get)
    lanes: IntAttr = param_def(converter=IntAttr.get)
    mix_rows: IntAttr = param_def(converter=IntAttr.get)
    mix_vectors: IntAttr = param_def(converter=IntAttr.get)
    block: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, form: str, tile: Sequence[int], mix: Sequence[int], keys: int):
        super().__init__(StringAttr(form), *map(IntAttr, (*tile, *mix, keys)))

    @property
    def tile(self) -> tuple[int, int, int]:
        """Keys, vectors and lanes of the tiles of scores."""
        return self.tile_keys.data, self.vectors.data, self.lanes.data

    @property
    def mix(self) -> tuple[int, int]:
        """Rows and vectors of the tiles of the result."""
        return self.mix_rows.data, self.mix_vectors.data

    @property
    def keys(self) -> int:
        """The keys of a block."""
        return self.block.data

    @property
    def is_columns(self) -> bool:
        """Whether vectors of scores are along queries."""
        return self.form.data == "columns"

    def verify(self) -> None:
        if self.form.data not in FORMS:
            raise VerifyException(
                f"unknown form '{self.form.data}', expected one of {', '.join(FORMS)}"
            )
        (keys, vectors, lanes), mix = self.tile, self.mix
        if min(*self.tile, *mix, self.keys) < 1:
            raise VerifyException(
                f"tiles and blocks have at least one element a side, got tile "
                f"{[*self.tile]}, mix {[*mix]} and keys {self.keys}"
            )
        for rows, columns in ((keys, vectors), mix):
            if rows * columns > MAX_ACCUMULATORS:
                raise VerifyException(
                    f"{rows} x {columns} vectors of sums do not fit into "
                    f"{MAX_ACCUMULATORS} registers"
                )
        if lanes > MAX_LANES or lanes & (lanes - 1):
            raise VerifyException(
                f"the lanes of a vector should be a power of 2 up to {MAX_LANES}, "
                f"got {lanes}"
            )
        if not self.is_columns and vectors != 1:
            raise VerifyException(
                f"the form rows has one vector of scores, got {vectors}"
            )
        self._verify_block()

    def _verify_block(self) -> None:
        keys, vectors, lanes = self.tile
        if self.keys % keys:
            raise VerifyException(
                f"a block should have whole tiles of {keys} keys, got {self.keys} keys"
            )
        width = vectors * lanes if self.is_columns else 1
        if self.keys * width > MAX_PANEL_ELEMENTS:
            raise VerifyException(
                f"{self.keys} x {width} scores are more than the stack allows: "
                f"{MAX_PANEL_ELEMENTS}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def numbers(keyword: str, count: int) -> list[int]:
            parser.parse_punctuation(",")
            parser.parse_keyword(keyword)
            place = parser.pos
            found = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(found) != count:
                parser.raise_error(
                    f"{keyword} takes {count} numbers, got {len(found)}", place
                )
            return found

        with parser.in_angle_brackets():
            form = parser.parse_identifier()
            values = [*numbers("tile", 3), *numbers("mix", 2)]
            parser.parse_punctuation(",")
            parser.parse_keyword("keys")
            values.append(parser.parse_integer())
        return [StringAttr(form), *map(IntAttr, values)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                f"{self.form.data}, tile {[*self.tile]}, mix {[*self.mix]}, "
                f"keys {self.keys}"
            )
