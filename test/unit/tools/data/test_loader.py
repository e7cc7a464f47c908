"""Loaders: order, shards, epochs, batches, prefetching, and cursors in checkpoints."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from draws import fresh_seed

from penstock import data
from penstock.tools.data.order import Shard, order_of
from penstock.tools.data.prefetch import Prefetched
from penstock.tools.data.types import Array, Batch, Numbers

MASK = (1 << 64) - 1


def philox(key: tuple[int, int], block: int) -> list[int]:
    """Philox4x64-10 of Salmon et al. (2011), written from the paper."""
    counter, (k0, k1) = [block, 0, 0, 0], key
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * counter[0], 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * counter[2], 1 << 64)
        counter = [high1 ^ counter[1] ^ k0, low1, high0 ^ counter[3] ^ k1, low0]
        k0, k1 = k0 + 0x9E3779B97F4A7C15 & MASK, k1 + 0xBB67AE8584CAA73B & MASK
    return counter


def numbers(count: int = 10) -> data.Source:
    return data.arrays(x=np.arange(count))


def taken(batches: Iterator[Batch] | data.Loader) -> list[list[int]]:
    return [batch["x"].tolist() for batch in batches]


def flat(batches: Iterator[Batch] | data.Loader) -> list[int]:
    return [number for batch in taken(batches) for number in batch]


# Orders ------------------------------------------------------------------------------


def test_the_order_of_an_epoch_sorts_numbers_of_philox() -> None:
    for seed, epoch in ((0, 0), (7, 3), (MASK, 12)):
        # NumPy counts before it makes a block of four.
        keys = [x for block in range(1, 4) for x in philox((seed, epoch), block)][:11]
        expected = sorted(range(11), key=keys.__getitem__)
        assert order_of(11, seed, epoch, Shard()).tolist() == expected


def test_each_epoch_has_each_sample_once_in_an_order_of_its_own() -> None:
    loader = data.Loader(numbers(100), 7, shuffle=True, seed=5)
    epochs = [flat(loader) for _ in range(3)]
    assert all(sorted(order) == list(range(100)) for order in epochs)
    assert len({tuple(order) for order in epochs}) == 3
    again = data.Loader(numbers(100), 7, shuffle=True, seed=5)
    assert flat(again.epochs(3)) == [x for epoch in epochs for x in epoch]
    other = data.Loader(numbers(100), 7, shuffle=True, seed=6)
    assert flat(other) != epochs[0]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("count", [9, 10, 11, 12])
def test_shards_are_parts_of_one_order(count: int, shuffle: bool) -> None:
    def orders(last: str, size: int) -> list[list[list[int]]]:
        options: Any = {"shuffle": shuffle, "seed": 2, "last": last}
        return [
            taken(data.Loader(numbers(count), size, shard=(i, 3), **options))
            for i in range(3)
        ]

    kept = orders("keep", 2)
    assert sorted(x for shard in kept for batch in shard for x in batch) == list(
        range(count)
    )
    # Devices that train together need as many batches.
    dropped = orders("drop", 2)
    assert {len(shard) for shard in dropped} == {count // 3 // 2}
    assert {len(batch) for shard in dropped for batch in shard} == {2}
    if not shuffle:
        assert (
            kept[1]
            == [list(range(1, count, 3))[i : i + 2] for i in (0, 2)][
                : -(-len(range(1, count, 3)) // 2)
            ]
        )


def test_the_last_batch_is_kept_or_dropped() -> None:
    kept, dropped = (data.Loader(numbers(), 4, last=x) for x in ("keep", "drop"))
    assert (len(kept), len(dropped)) == (3, 2)
    assert taken(kept) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert taken(dropped) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_loop_takes_what_is_left_of_an_epoch() -> None:
    loader = data.Loader(numbers(5), 2)
    seen: list[tuple[int, int, list[int]]] = []
    while loader.epoch < 2:
        for batch in loader:
            seen.append((loader.epoch, loader.position, batch["x"].tolist()))
    one = [(0, 2, [0, 1]), (0, 4, [2, 3]), (0, 5, [4])]
    assert seen == one + [(1, *rest) for _, *rest in one]
    assert taken(loader.epochs(2)) == []
    assert len(list(islice(loader.epochs(), 20))) == 20


# Resuming ----------------------------------------------------------------------------


def letters() -> Iterator[int]:
    return iter(range(23))


SOURCES: Sequence[Callable[[], data.Source | data.Samples]] = [
    lambda: numbers(23),
    lambda: data.iterator(letters),
]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("make", SOURCES)
def test_a_loader_that_is_restored_goes_on_with_the_same_bits(
    make: Callable[[], data.Source | data.Samples], prefetch: int
) -> None:
    seed = fresh_seed()

    def noisy(batch: Batch, generator: np.random.Generator) -> Batch:
        return {**batch, "noise": generator.normal(size=len(batch["x"]))}

    def loader() -> data.Loader:
        source = make()
        return data.Loader(
            source,
            4,
            shuffle=isinstance(source, data.Source),
            seed=seed,
            shard=(1, 2),
            prefetch=prefetch,
            change=noisy,
        )

    def bits(batch: Batch) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in batch.items()}

    with loader() as whole:
        expected = [bits(batch) for batch in whole.epochs(4)]
    cut = Random(seed).randrange(len(expected) + 1)
    with loader() as first:
        found = [bits(batch) for batch in islice(first.epochs(4), cut)]
        state = json.loads(json.dumps(first.state()))
    with loader() as second:
        second.restore(state)
        assert second.state() == state
        found += [bits(batch) for batch in second.epochs(4)]
    assert found == expected
    assert len({noise["noise"] for noise in expected}) == len(expected)


def test_a_state_goes_into_a_checkpoint_and_comes_back(tmp_path: Path) -> None:
    from penstock.tools.session.checkpoint import Checkpoints

    checkpoints = Checkpoints(tmp_path)
    loader = data.Loader(numbers(), 3, shuffle=True, seed=1)
    next(iter(loader))
    saved = checkpoints.save({"w": np.ones(2)}, 1, {"data": loader.state()})
    other = data.Loader(numbers(), 3, shuffle=True, seed=1)
    other.restore(saved.note()["data"])
    assert taken(other) == taken(loader)


BAD_STATES: list[tuple[Any, str]] = [
    ({"samples": 11}, "the state is of other data: samples 11 in place of 10"),
    (
        {"seed": 3, "shard": [0, 2]},
        "the state is of other data: seed 3 in place of 0, shard [0, 2] in place of "
        "[0, 1]",
    ),
    (
        {"position": -1},
        "the state has no place in the data: epoch 0, position -1",
    ),
    (
        {"epoch": "one"},
        "the state has no place in the data: epoch one, position 0",
    ),
]


@pytest.mark.parametrize(("change", "message"), BAD_STATES)
def test_a_state_of_other_data_is_refused(change: dict[str, Any], message: str) -> None:
    loader = data.Loader(numbers(), 3)
    before = loader.state()
    with pytest.raises(data.DataError) as caught:
        loader.restore({**before, **change})
    assert str(caught.value) == message
    assert loader.state() == before
    broken: Any = [1]
    with pytest.raises(data.DataError, match=r"^a state is a mapping of names, got li"):
        loader.restore(broken)


# Threads -----------------------------------------------------------------------------


def ours() -> list[threading.Thread]:
    return [x for x in threading.enumerate() if x.name == "penstock-data"]


def test_a_thread_makes_a_bounded_number_of_batches_ahead(
    until: Callable[[Callable[[], bool]], None],
) -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    with Prefetched((x for x in items()), 3) as queue:
        # Three wait in the queue, and one to get in there.
        until(lambda: len(made) == 4)
        assert next(queue) == 0
        until(lambda: len(made) == 5)
        assert list(queue) == list(range(1, 100))
        assert len(made) == 100
    assert ours() == []


def test_a_loop_that_is_left_ends_the_thread() -> None:
    loader = data.Loader(numbers(50), 1, prefetch=2)
    for _ in loader:
        break
    gc.collect()
    assert ours() == []

    def fail() -> None:
        for batch in loader:
            print(1 // int(batch["x"][0] - 3))

    with pytest.raises(ZeroDivisionError):
        fail()
    loader.close()
    assert ours() == []
    first = loader.epochs()
    next(first)
    assert len(ours()) == 1
    second = loader.epochs()
    next(second)
    assert len(ours()) == 1
    assert list(first) == []
    loader.close()
    assert (ours(), list(second)) == ([], [])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_of_the_source_is_raised_where_its_batch_is_taken(
    prefetch: int,
) -> None:
    def broken() -> Iterator[int]:
        yield from range(4)
        raise OSError("the disk is gone")

    loader = data.Loader(data.iterator(broken), 2, prefetch=prefetch)
    seen: list[Array] = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(batch["x"] for batch in loader)
    assert [x.tolist() for x in seen] == [[0, 1], [2, 3]]
    assert ours() == []
    assert loader.position == 4


def test_batches_are_made_in_the_thread_while_the_caller_works() -> None:
    waits, goes_on = threading.Event(), threading.Event()

    def slow(batch: Batch, generator: np.random.Generator) -> Batch:
        if batch["x"][0] == 1:
            waits.set()
            assert goes_on.wait(300)
        return batch

    with data.Loader(numbers(3), 1, prefetch=1, change=slow) as loader:
        batches = iter(loader)
        assert next(batches)["x"][0] == 0
        # The second one is being made, and the caller is free.
        assert waits.wait(300)
        goes_on.set()
        assert [int(batch["x"][0]) for batch in batches] == [1, 2]


# Errors ------------------------------------------------------------------------------


class Rubbish(data.Source):
    """A source whose samples are as they were given."""

    def __init__(self, made: Any):
        self._made = made

    def __len__(self) -> int:
        return 4

    def read(self, numbers: Numbers) -> Batch:
        return self._made


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: data.Loader(numbers(), 0), "a batch has at least one sample, got 0"),
    (
        lambda: data.Loader(numbers(), 11, last="drop"),
        "10 samples give shard 0 of 1 no batch of 11",
    ),
    (
        lambda: data.Loader(numbers(2), 1, shard=(2, 3)),
        "2 samples give shard 2 of 3 no batch of 1",
    ),
    (
        lambda: data.Loader(numbers(), 1, shard=(3, 3)),
        "a shard is its number, from 0, and their count, got (3, 3)",
    ),
    (
        lambda: data.Loader(numbers(), 1, seed=-1),
        "a seed is an integer from 0 to 2^64 - 1, got -1",
    ),
    (
        lambda: data.Loader(numbers(), 1, last="pad"),
        "the last batch is 'keep' or 'drop', got 'pad'",
    ),
    (
        lambda: data.Loader(numbers(), 1, prefetch=-1),
        "the batches ahead are none or more, got -1",
    ),
    (
        lambda: data.Loader(data.iterator([1]), 1, shuffle=True),
        "samples of Iterated have no numbers: they cannot be shuffled",
    ),
    (
        lambda: len(data.Loader(data.iterator([1]), 1)),
        "Iterated does not know how many samples it has",
    ),
    (
        lambda: next(iter(data.Loader(data.iterator([]), 1).epochs())),
        "an epoch has no batch, so there is no end of them",
    ),
    (
        lambda: list(data.Loader(Rubbish([1]), 2)),
        "a source of Rubbish returns list, not arrays by name",
    ),
    (
        lambda: list(data.Loader(Rubbish({"x": np.ones(3)}), 2)),
        "a source of Rubbish returns 'x' of shape (3,) for 2 samples",
    ),
    (
        lambda: list(data.Loader(numbers(), 2, change=lambda batch, _: batch["x"])),  # pyright: ignore[reportArgumentType]
        "change returns ndarray, not arrays by name",
    ),
    (
        lambda: data.Loader([1, 2], 1),  # pyright: ignore[reportArgumentType]
        "a loader reads a Source or Samples, got list",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_bad_use_is_told_in_a_line(use: Callable[[], object], message: str) -> None:
    with pytest.raises(data.DataError) as caught:
        use()
    assert str(caught.value) == message
