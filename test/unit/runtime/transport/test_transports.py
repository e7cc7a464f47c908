"""Messages between ranks, as threads of one process over sockets."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from rank_threads import connected, in_threads

from penstock.runtime.errors import PeerError
from penstock.runtime.program.channels import Bytes, Channel

SIZES = (1, 8, 4096, 1 << 20)


def channel(*, is_send: bool, peer: int, size: int, tag: int = 5) -> Channel:
    return Channel(0, "task", is_send, peer, tag, size, 0, Bytes(None, 0, size))


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; the test's time limit is that of the suite."""
    while not condition():
        time.sleep(0)


@pytest.mark.parametrize("size", SIZES)
def test_a_message_ends_where_it_is_to_lie(size: int) -> None:
    sent = np.random.default_rng().integers(0, 256, size, np.uint8)
    got = np.zeros_like(sent)
    with connected(2) as (first, second):
        out = first.open(channel(is_send=True, peer=1, size=size))
        into = second.open(channel(is_send=False, peer=0, size=size))
        first.start(out, sent.ctypes.data, sent.nbytes)
        second.start(into, got.ctypes.data, got.nbytes)
        ended: list[int] = []

        def poll() -> bool:
            first.poll()
            ended.extend(second.poll())
            return ended == [into]

        until(poll)
    np.testing.assert_array_equal(got, sent)


def test_a_send_waits_for_the_receiver() -> None:
    sent = np.arange(16, dtype=np.uint8)
    got = np.zeros_like(sent)
    with connected(2) as (first, second):
        out = first.open(channel(is_send=True, peer=1, size=16))
        first.start(out, sent.ctypes.data, sent.nbytes)
        for _ in range(100):
            assert not first.poll()
            assert not second.poll()
        into = second.open(channel(is_send=False, peer=0, size=16))
        second.start(into, got.ctypes.data, got.nbytes)
        until(lambda: list(first.poll()) == [out])
        until(lambda: list(second.poll()) == [into])
    np.testing.assert_array_equal(got, sent)


def test_a_channel_is_opened_anew_after_the_receiver_is_ready() -> None:
    sent = np.random.default_rng().integers(0, 256, 16, np.uint8)
    got = np.zeros_like(sent)
    ends = (
        channel(is_send=True, peer=1, size=16),
        channel(is_send=False, peer=0, size=16),
    )
    with connected(2) as (first, second):
        first.open(ends[0])
        into = second.open(ends[1])
        second.start(into, got.ctypes.data, got.nbytes)
        # The credit is there before the second end.
        first.poll()
        out = first.open(ends[0])
        first.start(out, sent.ctypes.data, sent.nbytes)
        until(lambda: list(first.poll()) == [out])
        until(lambda: list(second.poll()) == [into])
    np.testing.assert_array_equal(got, sent)


def test_messages_of_several_tags_find_their_places() -> None:
    random = np.random.default_rng()
    sent = [np.frombuffer(random.bytes(1 + 7 * i), np.uint8) for i in range(20)]
    got = [np.zeros(x.size, np.uint8) for x in sent]
    order: list[int] = random.permutation(len(sent)).tolist()
    with connected(2) as (first, second):
        for tag, data in enumerate(sent):
            x = channel(is_send=True, peer=1, size=data.size, tag=tag)
            first.start(first.open(x), data.ctypes.data, data.nbytes)
        for tag in order:
            x = channel(is_send=False, peer=0, size=got[tag].size, tag=tag)
            second.start(second.open(x), got[tag].ctypes.data, got[tag].nbytes)
        ended: set[int] = set()

        def poll() -> bool:
            first.poll()
            ended.update(second.poll())
            return len(ended) == len(sent)

        until(poll)
    for here, there in zip(got, sent, strict=True):
        np.testing.assert_array_equal(here, there)


def test_all_ranks_exchange_what_each_gives() -> None:
    given = [b"", b"one", b"2" * 300_000]
    with connected(3) as ranks:

        def work(rank: int) -> Callable[[], object]:
            return lambda: ranks[rank].exchange(given[rank])

        assert in_threads([work(rank) for rank in range(3)]) == [given] * 3


def test_a_rank_that_fails_tells_the_others() -> None:
    with connected(2) as (first, second):
        first.abort("the kernel is wrong")
        with pytest.raises(PeerError, match="rank 0 failed: the kernel is wrong"):
            until(lambda: bool(second.poll()))


def test_a_rank_that_ends_is_missed() -> None:
    with connected(2) as (first, second):
        first.close()
        with pytest.raises(PeerError, match="rank 0 has ended"):
            until(lambda: bool(second.poll()))
        with pytest.raises(PeerError, match="rank 0 has ended"):
            second.exchange(b"lost")
