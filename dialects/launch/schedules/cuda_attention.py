"""Schedules of attention on GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

FORMS = ("rows", "tiles", "warps")
SIDE = 16
"""The rows and columns of threads in the form `tiles`, and of a matrix in `warps`."""
MAX_QUERIES = 128


@irdl_attr_definition
class QueriesAttr(ParametrizedAttribute):
    """
    The GPU schedule of attention (`op.attention`), by thread blocks: each takes some
    `queries` of one stack, and goes through the keys, so many `keys` at once, whose
    scores are never in memory of the device.

    In the form `tiles`, 16 by 16 threads have a tile of scores, and one of the result,
    in registers. In the form `warps`, for `f16` and `bf16`, a warp has 16 queries on
    tensor cores. In the form `rows` a block has one query, its warps some keys each,
    which they go through alone, and add up in the end.

    ```mlir
    #launch.queries<tiles, queries 64, keys 32>
    ```
    """

    name = "launch.queries"

    form: StringAttr = param_def(converter=StringAttr.get)
    rows: IntAttr = param_def(converter=IntAttr.get)
    columns: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, form: str, queries: int, keys: int):
        super().__init__(StringAttr(form), IntAttr(queries), IntAttr(keys))

    @property
    def queries(self) -> int:
        """The queries of a block."""
        return self.rows.data

    @property
    def keys(self) -> int:
        """The keys that a block, or a warp in the form `rows`, goes through at once."""
        return self.columns.data

    def verify(self) -> None:
        form, queries, keys = self.form.data, self.queries, self.keys
        if form not in FORMS:
            raise VerifyException(
                f"unknown form '{form}', expected one of {', '.join(FORMS)}"
            )
        sizes = (keys,) if form == "rows" else (queries, keys)
        if any(size < 1 or size & (size - 1) for size in sizes):
            raise VerifyException(
                f"blocks should have a power of 2 of queries and keys, got {queries} "
                f"and {keys}"
            )
        if form == "rows" and queries != 1:
            raise VerifyException(
                f"in the form rows a block has one query, got {queries}"
            )
        if form != "rows" and (min(sizes) < SIDE or queries > MAX_QUERIES):
            raise VerifyException(
                f"a block has {SIDE} to {MAX_QUERIES} queries and {SIDE} keys at "
                f"least, got {queries} and {keys}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        numbers: list[int] = []
        with parser.in_angle_brackets():
            form = parser.parse_identifier()
            for keyword in ("queries", "keys"):
                parser.parse_punctuation(",")
                parser.parse_keyword(keyword)
                numbers.append(parser.parse_integer())
        return [StringAttr(form), *map(IntAttr, numbers)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                f"{self.form.data}, queries {self.queries}, keys {self.keys}"
            )
