"""
Batches of a source: order, shard, batches, prefetching, and the cursor that a
checkpoint keeps.

The cursor moves when the caller takes a batch, whatever a thread has made ahead. So a
loader that is restored goes on with the batch after the last one that was taken.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, TypeGuard, cast
from weakref import ref

from penstock.runtime.options import Closing, is_integer
from penstock.tools.data.errors import DataError
from penstock.tools.data.order import (
    Cursor,
    checked_seed,
    checked_shard,
    generator_at,
    order_of,
)
from penstock.tools.data.prefetch import Prefetched
from penstock.tools.data.stacking import checked_batch, stacked
from penstock.tools.data.types import Batch, Change, Samples, Source

KEPT, DROPPED = "keep", "drop"
"""Whether the last batch of an epoch comes if it has fewer samples."""


class Loader(Closing, Iterable[Batch]):
    """
    The batches of a `source`, each of `batch_size` samples, epoch by epoch.

    ```python
    import numpy as np

    from penstock import data

    source = data.arrays(x=np.arange(5), y=np.arange(5) ** 2)
    train = data.Loader(source, 2, shuffle=True, seed=3)
    for batch in train.epochs(2):
        assert (batch["x"] ** 2 == batch["y"]).all()
    ```

    A `for` over the loader takes the batches that are left of an epoch; the next one
    begins the next epoch. A batch is a dictionary of arrays, whose first axis has the
    samples.

    * `shuffle`: in each epoch another order, which depends on `seed` and epoch alone.
    * `shard`: the number of a part, from 0, and of all parts: of `n` parts each gets
      one of `n` samples of the order in turn.
    * `last`: `keep`, or `drop` for a last batch of fewer samples; then all shards have
      as many batches.
    * `prefetch`: the number of batches that a thread makes ahead; with 0 there is none.
    * `change`: a function of a batch and a random generator, which returns a batch. It
      is called where batches are made; the generator depends on the seed and the place
      in the data alone.

    A loop that is left, or an error in it, ends the thread, as `close` does.

    **Raises** DataError for options that do not fit the source.
    """

    def __init__(
        self,
        source: Source | Samples,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        last: str = KEPT,
        prefetch: int = 0,
        change: Change | None = None,
    ):
        if not isinstance(cast("object", source), Source | Samples):
            kind = type(source).__name__
            raise DataError(f"a loader reads a Source or Samples, got {kind}")
        if not is_integer(batch_size) or batch_size < 1:
            raise DataError(f"a batch has at least one sample, got {batch_size!r}")
        if last not in (KEPT, DROPPED):
            raise DataError(f"the last batch is '{KEPT}' or '{DROPPED}', got {last!r}")
        if not is_integer(prefetch) or prefetch < 0:
            raise DataError(f"the batches ahead are none or more, got {prefetch!r}")
        if shuffle and isinstance(source, Samples):
            raise DataError(
                f"samples of {type(source).__name__} have no numbers: they cannot be "
                "shuffled"
            )
        self._source = source
        self._size = int(batch_size)
        self._shuffle = bool(shuffle)
        self._seed = checked_seed(seed)
        self._shard = checked_shard(shard)
        self._drops = last == DROPPED
        self._ahead = int(prefetch)
        self._change = change
        self._cursor = Cursor()
        # A loop that is left drops its batches, which ends their thread.
        self._current: ref[Generator[Batch]] | None = None
        if isinstance(source, Source) and len(self) == 0:
            index, count = self._shard
            raise DataError(
                f"{len(source)} samples give shard {index} of {count} no batch of "
                f"{batch_size}"
            )

    def __len__(self) -> int:
        """
        The number of batches of an epoch.

        **Raises** DataError for a source that does not know how many samples it has.
        """
        count = self._count()
        return count // self._size if self._drops else -(-count // self._size)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the epoch."""
        return self.epochs(self.epoch + 1)

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next batch is of, from 0."""
        return self._cursor.epoch

    @property
    def position(self) -> int:
        """The number of samples that were taken in this epoch."""
        return self._cursor.position

    @property
    def batch_size(self) -> int:
        """The number of samples of a batch, but maybe the last one."""
        return self._size

    def batches_of_epoch(self) -> int | None:
        """The number of batches of an epoch; None for a source that knows no number."""
        return len(self) if isinstance(self._source, Source) else None

    def batches_taken(self) -> int:
        """The number of batches that were taken in this epoch."""
        return -(-self._cursor.position // self._size)

    def epochs(self, count: int | None = None) -> Iterator[Batch]:
        """
        The batches that are left until there were `count` epochs in all; without end
        if that is None.

        **Raises** DataError, when a batch is taken, for a file that cannot be read, and
        the errors of an iterator and of `change`, also if a thread calls them.
        """
        self.close()
        taken = self._taken(count)
        self._current = ref(taken)
        return taken

    def close(self) -> None:
        """End the thread of the loop that is under way; its batches end there."""
        current = None if self._current is None else self._current()
        if current is not None:
            current.close()
        self._current = None

    def state(self) -> dict[str, Any]:
        """
        The cursor after the batch that was taken last, and the facts that the order
        depends on: numbers and booleans, which JSON can hold.
        """
        return {**self._facts(), **self._cursor._asdict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """
        Go on where another loader was when it returned `state`.

        Batches are the same, bit by bit, if the data are.

        **Raises** DataError, and changes nothing, for a state of other data: of another
        number of samples, order, seed or shard.
        """
        facts = self._facts()
        given = _plain(state)
        if differing := [name for name in facts if given.get(name) != facts[name]]:
            told = ", ".join(
                f"{name} {given.get(name)} in place of {facts[name]}"
                for name in differing
            )
            raise DataError(f"the state is of other data: {told}")
        epoch, position = (given.get(name) for name in Cursor._fields)
        if not _is_count(epoch) or not _is_count(position):
            raise DataError(
                f"the state has no place in the data: epoch {epoch}, position "
                f"{position}"
            )
        self.close()
        self._cursor = Cursor(epoch, position)

    def _facts(self) -> dict[str, Any]:
        source = self._source
        return {
            "samples": len(source) if isinstance(source, Source) else None,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "shard": list(self._shard),
        }

    def _count(self) -> int:
        """The number of samples of an epoch that come."""
        if not isinstance(self._source, Source):
            kind = type(self._source).__name__
            raise DataError(f"{kind} does not know how many samples it has")
        index, count = self._shard
        samples = len(self._source)
        if self._drops:
            return samples // count // self._size * self._size
        return len(range(index, samples, count))

    def _taken(self, until: int | None) -> Generator[Batch]:
        """The batches; each moves the cursor behind it."""
        made = self._made(until)
        with closing(Prefetched(made, self._ahead) if self._ahead else made) as items:
            for batch, cursor in items:
                self._cursor = cursor
                if batch is not None:
                    yield batch

    def _made(self, until: int | None) -> Generator[tuple[Batch | None, Cursor]]:
        """The batches and ends of epochs, each with the cursor behind it."""
        cursor = self._cursor
        while until is None or cursor.epoch < until:
            start = cursor.position
            for batch, count in self._rest_of_epoch(cursor):
                if self._change is not None:
                    generator = generator_at(self._seed, cursor)
                    batch = checked_batch(self._change(batch, generator), "change")
                cursor = cursor._replace(position=cursor.position + count)
                yield batch, cursor
            if start == 0 == cursor.position and until is None:
                raise DataError("an epoch has no batch, so there is no end of them")
            cursor = Cursor(cursor.epoch + 1)
            yield None, cursor

    def _rest_of_epoch(self, cursor: Cursor) -> Iterator[tuple[Batch, int]]:
        """The batches behind a cursor, each with its number of samples."""
        if isinstance(self._source, Samples):
            return self._next_batches(self._source, cursor.position)
        return self._numbered_batches(self._source, cursor)

    def _numbered_batches(
        self, source: Source, cursor: Cursor
    ) -> Iterator[tuple[Batch, int]]:
        seed = self._seed if self._shuffle else None
        order = order_of(len(source), seed, cursor.epoch, self._shard)
        order = order[: self._count()]
        what = f"a source of {type(source).__name__}"
        for start in range(cursor.position, len(order), self._size):
            numbers = order[start : start + self._size]
            yield checked_batch(source.read(numbers), what, len(numbers)), len(numbers)

    def _next_batches(
        self, source: Samples, position: int
    ) -> Iterator[tuple[Batch, int]]:
        index, count = self._shard
        samples = source.since(index + position * count)
        own = islice(samples, 0, None, count)
        while found := list(islice(own, self._size)):
            if len(found) < self._size and self._drops:
                return
            yield stacked(found), len(found)


def _plain(state: object) -> Mapping[str, Any]:
    """A state. Raises DataError for anything but a mapping."""
    if not isinstance(state, Mapping):
        raise DataError(f"a state is a mapping of names, got {type(state).__name__}")
    found = cast("Mapping[str, Any]", state)
    return dict(found)


def _is_count(given: object) -> TypeGuard[int]:
    return is_integer(given) and given >= 0
