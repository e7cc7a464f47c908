"""Schedules of Winograd transforms on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

MAX_LANES = 64


@irdl_attr_definition
class TransformAttr(ParametrizedAttribute):
    """
    The schedule of a Winograd transform `o[i, j, t] += p[i, k] * q[j, l] * d[k, l, t]`:
    rows first, then columns, of as many tiles t at once as vectors have lanes. `folds
    [1, A]` says that the stage before, which starts the sums, and the A stages after
    are computed with it.

    ```mlir
    #launch.transform<lanes 16, folds [1, 2]>
    ```
    """

    name = "launch.transform"

    lanes: IntAttr = param_def(converter=IntAttr.get)
    before: IntAttr = param_def(converter=IntAttr.get)
    after: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, lanes: int, folds: Sequence[int]):
        super().__init__(*map(IntAttr, (lanes, *folds)))

    @property
    def folds(self) -> tuple[int, int]:
        """The stages before and after that are computed with the transform."""
        return self.before.data, self.after.data

    def verify(self) -> None:
        lanes = self.lanes.data
        if not 4 <= lanes <= MAX_LANES or lanes & (lanes - 1):
            raise VerifyException(
                f"the lanes of a vector should be a power of 2 from 4 to {MAX_LANES}, "
                f"got {lanes}"
            )
        if self.before.data != 1 or self.after.data < 0:
            raise VerifyException(
                "a transform is computed with the stage before and any number after, "
                f"got folds {[*self.folds]}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("lanes")
            lanes = parser.parse_integer()
            parser.parse_punctuation(",")
            parser.parse_keyword("folds")
            place = parser.pos
            folds = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(folds) != 2:
                parser.raise_error(f"folds takes 2 numbers, got {len(folds)}", place)
        return [*map(IntAttr, (lanes, *folds))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            text = f"lanes {self.lanes.data}, folds {[*self.folds]}"
            printer.print_string(text)
