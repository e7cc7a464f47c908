"""
Packed layouts: the order in which matmul micro-kernels read the elements of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import ArrayAttr, IntAttr, UnitAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.launch.schedules.cpu_matmul import GROUP
from penstock.dialects.utils.hints import isa

PANELS = "panels"
"""The attribute of a kernel with the panels of each argument, or `unit`."""


@irdl_attr_definition
class PanelsAttr(ParametrizedAttribute):
    """
    A packed layout: elements lie in panels, in the order in which micro-kernels read
    them.

    The elements, seen row-major as matrices [G, R, C], are cut along `axis` 1 or 2 into
    panels that are `width` wide, and along the other one into blocks of `depth`, the
    last ones smaller where need be. A panel of a block has, for each place along the
    other axis, its elements one after the other. Panels of a block are contiguous, then
    come the next block and the next matrix. With a `group` of 2 (`bf16`) or 4 (int8)
    places along the other axis, a panel has for these so many elements of each line,
    one after the other.

    ```mlir
    #launch.panels<[1, 512, 2048], axis 1, width 8, depth 256>
    #launch.panels<[1, 768, 768], axis 2, width 32, depth 768, group 4>
    ```
    """

    name = "launch.panels"

    matrices: IntAttr = param_def(converter=IntAttr.get)
    rows: IntAttr = param_def(converter=IntAttr.get)
    columns: IntAttr = param_def(converter=IntAttr.get)
    axis: IntAttr = param_def(converter=IntAttr.get)
    width: IntAttr = param_def(converter=IntAttr.get)
    depth: IntAttr = param_def(converter=IntAttr.get)
    group: IntAttr = param_def(converter=IntAttr.get)

    def __init__(
        self,
        shape: Sequence[int],
        axis: int,
        width: int,
        depth: int,
        group: int = 1,
    ):
        super().__init__(*map(IntAttr, (*shape, axis, width, depth, group)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Matrices, rows and columns."""
        return self.matrices.data, self.rows.data, self.columns.data

    def verify(self) -> None:
        axis = self.axis.data
        if min(self.shape) < 1:
            raise VerifyException(f"panels need elements, got shape {[*self.shape]}")
        if axis not in (1, 2):
            raise VerifyException(f"panels are cut along axis 1 or 2, got {axis}")
        for name, number, extent in (
            ("width", self.width.data, self.shape[axis]),
            ("depth", self.depth.data, self.shape[3 - axis]),
        ):
            if not 1 <= number <= extent:
                raise VerifyException(
                    f"the {name} of panels is 1 to {extent}, got {number}"
                )
        group, places = self.group.data, (self.depth.data, self.shape[3 - axis])
        if group not in (1, 2, GROUP):
            raise VerifyException(f"a group has 1, 2 or {GROUP} places, got {group}")
        if any(place % group for place in places):
            raise VerifyException(
                f"panels of groups have {group} places at once, "
                f"got depth {places[0]} of {places[1]}"
            )

    def verify_shape(self, shape: Sequence[int]) -> None:
        """Raise `VerifyException` unless an array of a shape has as many elements."""
        if prod(shape) != prod(self.shape):
            raise VerifyException(
                f"{self} has {prod(self.shape)} elements, not the {prod(shape)} of "
                f"shape {[*shape]}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            place = parser.pos
            shape = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(shape) != 3:
                parser.raise_error(
                    f"panels are of 3 dimensions, got {len(shape)}", place
                )
            numbers = [*shape]
            for keyword in ("axis", "width", "depth"):
                parser.parse_punctuation(",")
                parser.parse_keyword(keyword)
                numbers.append(parser.parse_integer())
            numbers.append(1)
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("group")
                numbers[-1] = parser.parse_integer()
        return [*map(IntAttr, numbers)]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            group = f", group {self.group.data}" if self.group.data > 1 else ""
            printer.print_string(
                f"{[*self.shape]}, axis {self.axis.data}, width {self.width.data}, "
                f"depth {self.depth.data}{group}"
            )


def panels_in(attribute: Attribute | None, count: int) -> list[PanelsAttr | None]:
    """
    The panels of each of `count` arguments, as the attribute `panels` of a kernel says.
    Raises `VerifyException` if it does not.
    """
    if attribute is None:
        return [None] * count
    if not isa(attribute, ArrayAttr[PanelsAttr | UnitAttr]) or len(attribute) != count:
        raise VerifyException(
            f"a kernel tells panels or unit for each of {count} arguments, "
            f"got {attribute}"
        )
    return [panels if isinstance(panels, PanelsAttr) else None for panels in attribute]
