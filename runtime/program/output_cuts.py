"""The extents of outputs that are only known at run time: counts, which are outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]


class OutputCut(NamedTuple):
    """An output that has as many elements along an axis as another output says."""

    port: str
    by: str
    axis: int


def cut_outputs(
    outputs: Mapping[str, Array], cuts: Sequence[OutputCut]
) -> dict[str, Array]:
    """
    The outputs by name, cut to their counts, without the counts. An output that is cut
    is a view of what is given if its elements lie one after the other, else a copy.
    """
    found = dict(outputs)
    for port, count, axis in cuts:
        if port in found:
            found[port] = first_of(found[port], int(outputs[count]), axis)
    for cut in cuts:
        found.pop(cut.by, None)
    return found


def first_of(array: Array, count: int, axis: int) -> Array:
    """The first elements of an array along an axis, one after the other."""
    import numpy as np

    cut = array[(slice(None),) * axis + (slice(count),)]
    return cut if cut.flags.c_contiguous else np.ascontiguousarray(cut)
