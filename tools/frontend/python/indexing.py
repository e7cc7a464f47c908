"""`x[...]` of a tensor: slices, places, new axes, and one array of places."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from penstock.runtime.options import is_integer
from penstock.tools.frontend.python.calls import functions_of
from penstock.tools.frontend.python.dtypes import short_name
from penstock.tools.frontend.python.errors import refuse
from penstock.tools.frontend.python.functions import reshape, tensor
from penstock.tools.frontend.python.guards import (
    Array,
    is_array,
    is_sequence,
    is_slice,
    is_tuple,
)
from penstock.tools.frontend.python.tensor import Tensor

Item: TypeAlias = "int | slice | EllipsisType | Tensor | None"

ALL = slice(None)


def indexed(source: Tensor, key: object) -> Tensor:
    """The elements that NumPy finds. Raises TraceError if that cannot be traced."""
    given = key if is_tuple(key) else (key,)
    items = _full([_item(source, item) for item in given], source)
    places = {axis: item for axis, item in enumerate(items) if isinstance(item, Tensor)}
    if not places:
        return _basic(source, items)
    if len(places) > 1 or any(item is None or is_integer(item) for item in items):
        raise refuse("an array of places can be combined with slices only")
    axis, indices = places.popitem()
    items[axis] = ALL
    result: Tensor = functions_of("op")["gather"](_basic(source, items), indices, axis)
    return result


def _item(source: Tensor, item: object) -> Item:
    if is_integer(item):
        return int(item)
    if item is None or isinstance(item, EllipsisType):
        return item
    if is_slice(item):
        return item
    places = _array(item)
    if places is None:
        raise refuse(f"{source.text} cannot be indexed by a {type(item).__name__}")
    if places.dtype.kind != "i":
        raise refuse(
            f"{source.text} cannot be indexed by elements of {short_name(places.dtype)}"
        )
    return tensor(places)


def _array(item: object) -> Tensor | Array | None:
    """An array of places, which may be a list of them."""
    if is_sequence(item):
        return np.asarray(item)
    return item if isinstance(item, Tensor) or is_array(item) else None


def _full(items: list[Item], source: Tensor) -> list[Item]:
    """The items with one for each axis, and without an ellipsis."""
    taken = sum(1 for item in items if not isinstance(item, EllipsisType | None))
    missing = source.ndim - taken
    if missing < 0:
        raise refuse(f"{source.text} has {source.ndim} axes, got {taken} indices")
    dots = [place for place, item in enumerate(items) if isinstance(item, EllipsisType)]
    if len(dots) > 1:
        raise refuse("an index can have only one ellipsis")
    place = dots[0] if dots else len(items)
    return items[:place] + [ALL] * missing + items[place + 1 :]


def _basic(source: Tensor, items: Sequence[Item]) -> Tensor:
    """Slice first, then drop the axes of places and add the new ones."""
    ranges: list[range] = []
    shape: list[int] = []
    for item in items:
        if item is None:
            shape.append(1)
            continue
        found = _range(item, len(ranges), source)
        ranges.append(found)
        if not isinstance(item, int):
            shape.append(len(found))
    return reshape(_sliced(source, ranges), shape)


def _range(item: Item, axis: int, source: Tensor) -> range:
    """The places along an axis."""
    extent = source.shape[axis]
    if isinstance(item, slice):
        try:
            return range(extent)[item]
        except (TypeError, ValueError) as error:
            raise refuse(f"a slice of a tensor needs constants: {error}") from error
    assert isinstance(item, int), "arrays are no basic index"
    if not -extent <= item < extent:
        raise refuse(f"index {item} is out of range for axis {axis} of {source.text}")
    return range(item % extent, item % extent + 1)


def _sliced(source: Tensor, ranges: Sequence[range]) -> Tensor:
    extents = source.shape
    if all(found == range(n) for found, n in zip(ranges, extents, strict=True)):
        return source
    # Below minus the extent an end is before element 0, which a range says by -1.
    ends = [
        found.stop if found.stop >= 0 else -extent - 1
        for found, extent in zip(ranges, extents, strict=True)
    ]
    starts, steps = [r.start for r in ranges], [r.step for r in ranges]
    result: Tensor = functions_of("op")["slice"](source, starts, ends, steps)
    return result
