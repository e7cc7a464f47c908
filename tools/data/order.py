"""
The order in which samples come: a permutation for each epoch, of which each shard takes
every n-th one.

The permutation sorts 64-bit numbers of Philox, whose key is the seed and the epoch. So
it depends on nothing else, and is the same in all versions of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import numpy as np

from penstock.runtime.options import is_integer
from penstock.tools.data.errors import DataError
from penstock.tools.data.types import Numbers

MOST_SEED = (1 << 64) - 1


class Shard(NamedTuple):
    """One of several equal parts of the samples, which count from 0."""

    number: int = 0
    of: int = 1


class Cursor(NamedTuple):
    """A place in the data: an epoch, and the samples of the shard taken in it."""

    epoch: int = 0
    position: int = 0


def order_of(samples: int, seed: int | None, epoch: int, shard: Shard) -> Numbers:
    """The numbers of a shard's samples in an epoch; without a seed in their order."""
    if seed is None:
        return np.arange(shard.number, samples, shard.of, dtype=np.int64)
    keys = _bits(seed, epoch).random_raw(samples)
    order = np.argsort(keys, kind="stable").astype(np.int64)
    return order[shard.number :: shard.of]


def generator_at(seed: int, cursor: Cursor) -> np.random.Generator:
    """Random numbers that depend on the seed and the place in the data alone."""
    bits = np.random.Philox(
        key=np.array([seed, cursor.epoch], np.uint64),
        # Each batch has a part of the sequence that permutations do not reach.
        counter=np.array([0, cursor.position, 0, 1], np.uint64),
    )
    return np.random.Generator(bits)


def _bits(seed: int, epoch: int) -> np.random.Philox:
    return np.random.Philox(key=np.array([seed, epoch], np.uint64))


def checked_seed(seed: object) -> int:
    """A seed. Raises DataError unless it is an integer of 64 bits without sign."""
    if not is_integer(seed) or not 0 <= seed <= MOST_SEED:
        raise DataError(f"a seed is an integer from 0 to 2^64 - 1, got {seed!r}")
    return int(seed)


def checked_shard(given: object) -> Shard:
    """A shard. Raises DataError unless it is one of a number of shards."""
    pair = list(cast("Iterable[object]", given) if isinstance(given, Iterable) else ())
    numbers = [int(x) for x in pair if is_integer(x)]
    if len(pair) == len(numbers) == 2 and 0 <= numbers[0] < numbers[1]:
        return Shard(*numbers)
    raise DataError(f"a shard is its number, from 0, and their count, got {given!r}")
