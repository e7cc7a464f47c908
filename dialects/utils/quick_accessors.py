"""
Quick access to the named operands, results and regions of ops.

xDSL unpacks the sizes of all segments each time that one is asked for, which took a
tenth of the time of planning. Where a name lies depends on few things: on the sizes of
the segments, or on how many operands, results or regions there are. So each place is
looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation
from xdsl.irdl import VarIRConstruct
from xdsl.irdl.operations import BaseAccessor, BaseAttrAccessor

OpT = TypeVar("OpT", bound=Operation)


def quick_accessors(definition: type[OpT]) -> type[OpT]:
    """The definition of an op whose named operands, results and regions are quick."""
    for name, accessor in list(vars(definition).items()):
        if isinstance(accessor, BaseAttrAccessor):
            setattr(definition, name, QuickSegment(accessor))
        elif isinstance(accessor, BaseAccessor):
            setattr(definition, name, QuickPart(accessor))
    return definition


class QuickPart:
    """A name of operands, results or regions whose place their number says."""

    def __init__(self, accessor: BaseAccessor):
        self._accessor = accessor
        self._of = ATTRIBUTES[accessor.construct]
        self._places: dict[int, int | slice | None] = {}

    def __get__(self, op: Operation, kind: type[Operation] | None = None) -> Any:
        items = getattr(op, self._of)
        count = len(items)
        try:
            place = self._places[count]
        except KeyError:
            place = self._places[count] = place_of(self._accessor.index(range(count)))
        return found_at(place, items)

    def __set__(self, op: Operation, value: object) -> NoReturn:
        raise NotImplementedError(READ_ONLY)


class QuickSegment:
    """A name of operands, results or regions whose place an attribute says."""

    def __init__(self, accessor: BaseAttrAccessor):
        self._accessor = accessor
        self._of = ATTRIBUTES[accessor.construct]
        self._container = accessor.option.container
        self._sizes = accessor.option.attribute_name
        self._places: dict[bytes, int | slice | None] = {}

    def __get__(self, op: Operation, kind: type[Operation] | None = None) -> Any:
        sizes = self._container(op)[self._sizes]
        assert isinstance(sizes, DenseArrayBase), "checked by the verifier"
        data = sizes.data.data
        try:
            place = self._places[data]
        except KeyError:
            values = tuple(map(int, sizes.get_values()))
            found = self._accessor.index(values, range(sum(values)))
            place = self._places[data] = place_of(found)
        return found_at(place, getattr(op, self._of))

    def __set__(self, op: Operation, value: object) -> NoReturn:
        raise NotImplementedError(READ_ONLY)


READ_ONLY = "named operands, results and regions of an op are not written"
ATTRIBUTES = {
    VarIRConstruct.OPERAND: "_operands",
    VarIRConstruct.RESULT: "results",
    VarIRConstruct.REGION: "regions",
    VarIRConstruct.SUCCESSOR: "_successors",
}
"""
The attributes of ops that hold all of a kind, as tuples: `operands` makes a view of
them each time.
"""


# Operands and results of xDSL ask in Python which kind of index they are given. The
# items of all tuples are of no known type.
ITEM_OF: Any = tuple.__getitem__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
"""The item of a tuple at an index, or a tuple of those in a slice."""


def found_at(place: int | slice | None, items: Any) -> Any:
    """The item of a tuple at a place, or some side by side; None at none."""
    if place is None:
        return None
    found = ITEM_OF(items, place)
    return type(items)(found) if type(place) is slice else found


def place_of(found: int | Sequence[int] | None) -> int | slice | None:
    """The place of some of all numbers from 0 on that are one, or side by side."""
    if found is None or isinstance(found, int):
        return found
    return slice(found[0], found[-1] + 1) if found else slice(0, 0)
