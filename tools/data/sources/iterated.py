"""
A source of any iterator, whose state is how many samples were taken.

`iterator` makes one of any Python iterator that a training loop is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Sample, Samples


class Iterated(Samples):
    """The samples of an iterable, or of what a function returns anew each time."""

    def __init__(
        self,
        samples: Iterable[Any] | Callable[[], Iterable[Any]],
        names: Sequence[str],
    ):
        self._made = samples
        self._names = tuple(names)
        self._has_begun = False

    def since(self, start: int) -> Iterator[Sample]:
        for item in islice(self._begin(), start, None):
            yield self._named(item)

    def _begin(self) -> Iterable[Any]:
        if callable(self._made):
            return self._made()
        if isinstance(self._made, Iterator):
            if self._has_begun:
                raise DataError(
                    "an iterator cannot begin again: give a function that returns a "
                    "new one"
                )
            self._has_begun = True
        return self._made

    def _named(self, item: object) -> Sample:
        if isinstance(item, Mapping):
            return cast("Sample", item)
        is_several = isinstance(item, tuple)
        values: tuple[Any, ...] = cast("Any", item) if is_several else (item,)
        if len(values) != len(self._names):
            raise DataError(
                f"a sample has {len(values)} arrays for names {', '.join(self._names)}"
            )
        return dict(zip(self._names, values, strict=True))


def iterator(
    samples: Iterable[Any] | Callable[[], Iterable[Any]],
    names: Sequence[str] = ("x",),
) -> Samples:
    """
    A source of all that can be iterated: `samples`, or a function that returns them.

    A sample is a dictionary of arrays, or a tuple of arrays with these `names`, or one
    array. A loader that is restored skips as many as were taken. A function is called,
    and a list iterated, anew for each epoch; an iterator, such as a generator, has one
    epoch.

    **Raises** DataError if neither can be iterated nor called.
    """
    if not callable(samples) and not isinstance(cast("object", samples), Iterable):
        kind = type(samples).__name__
        raise DataError(f"{kind} is neither an iterable nor a function of one")
    return Iterated(samples, names)
