"""Schedules of depthwise convolutions and of pooling on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

MAX_LANES = 64
MAX_LINES = 64


@irdl_attr_definition
class WindowsAttr(ParametrizedAttribute):
    """
    The CPU schedule of an `scf.parallel` with `windows`
    (`penstock.dialects.op.windows`): in tiles of so many lines of the result, with
    vectors along them. Elements outside of the image are zeros, and the lowest number
    where the largest one is looked for. Vectors of pools run on from one line to the
    next.

    ```mlir
    #launch.windows<lanes 16, lines 8>
    ```
    """

    name = "launch.windows"

    lanes: IntAttr = param_def(converter=IntAttr.get)
    lines: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, lanes: int, lines: int):
        super().__init__(IntAttr(lanes), IntAttr(lines))

    def verify(self) -> None:
        lanes, lines = self.lanes.data, self.lines.data
        if not 1 <= lanes <= MAX_LANES or lanes & (lanes - 1):
            raise VerifyException(
                f"the lanes of a vector should be a power of 2 up to {MAX_LANES}, "
                f"got {lanes}"
            )
        if not 1 <= lines <= MAX_LINES:
            raise VerifyException(f"tiles have 1 to {MAX_LINES} lines, got {lines}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("lanes")
            lanes = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("lines")
            lines = parser.parse_integer()
        return [IntAttr(lanes), IntAttr(lines)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"lanes {self.lanes.data}, lines {self.lines.data}")
