"""Messages between ranks, as threads of one process over sockets."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from draws import fresh
from rank_threads import communicating, connected, in_threads

from penstock.runtime.errors import PeerError
from penstock.runtime.program.channels import Bytes, Channel
from penstock.runtime.transport import whole_messages
from penstock.runtime.transport.naps import nap
from penstock.runtime.transport.sockets import SocketCommunicator
from penstock.runtime.transport.whole_messages import receive, send

SIZES = (1, 8, 4096, 1 << 20)
LARGE = 1 << 23
"""More bytes than sockets hold."""


def channel(*, is_send: bool, peer: int, size: int, tag: int = 5) -> Channel:
    return Channel(0, "task", is_send, peer, tag, size, 0, Bytes(None, 0, size))


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; the test's time limit is that of the suite."""
    while not condition():
        time.sleep(0)


@pytest.mark.parametrize("size", SIZES)
def test_a_message_ends_where_it_is_to_lie(size: int) -> None:
    sent = fresh().integers(0, 256, size, np.uint8)
    got = np.zeros_like(sent)
    with communicating(2) as (first, second):
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
    with communicating(2) as (first, second):
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


def test_a_receiver_may_be_ready_before_the_sender_has_opened_anything() -> None:
    sent = fresh().integers(0, 256, 16, np.uint8)
    got = np.zeros_like(sent)
    with connected(2) as (here, there):
        second = there.communicator()
        into = second.open(channel(is_send=False, peer=0, size=16))
        second.start(into, got.ctypes.data, got.nbytes)
        # Its credit is there before the other communicator.
        until(lambda: bool(here.pulse() and not there.peers[0].outgoing))
        here.pulse()
        first = here.communicator()
        out = first.open(channel(is_send=True, peer=1, size=16))
        first.start(out, sent.ctypes.data, sent.nbytes)
        until(lambda: list(first.poll()) == [out])
        until(lambda: list(second.poll()) == [into])
    np.testing.assert_array_equal(got, sent)


def test_communicators_have_messages_of_their_own() -> None:
    """Two programs send under one tag; the one begun first ends last."""
    sent = fresh().integers(0, 256, (2, 16), np.uint8)
    got = np.zeros_like(sent)
    with connected(2) as ranks:
        pairs = [[x.communicator() for x in ranks] for _ in range(2)]
        for (first, second), place in zip(pairs, got, strict=True):
            into = second.open(channel(is_send=False, peer=0, size=16))
            second.start(into, place.ctypes.data, place.nbytes)
            first.open(channel(is_send=True, peer=1, size=16))
        for (first, second), data in reversed([*zip(pairs, sent, strict=True)]):
            first.start(0, data.ctypes.data, data.nbytes)
            until(lambda x=first: list(x.poll()) == [0])
            until(lambda x=second: list(x.poll()) == [0])
    np.testing.assert_array_equal(got, sent)


def test_bytes_of_any_size_are_given_to_one_rank() -> None:
    """Of a size that it does not know before, and the other way, too."""
    there, back = (random_bytes(size) for size in (LARGE, 1))
    with communicating(3) as (first, _, last):

        def give() -> bytes:
            send(first, 2, there)
            return bytes(receive(first, 2))

        def take() -> bytes:
            found = bytes(receive(last, 0))
            send(last, 0, back)
            return found

        assert in_threads([give, take]) == [back, there]


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 200])
def test_bytes_of_more_than_a_message_are_given_in_several(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    start = SocketCommunicator.start

    def start_and_count(
        self: SocketCommunicator, handle: int, address: int, size: int
    ) -> None:
        if self.rank == 0:
            sizes.append(size)
        start(self, handle, address, size)

    monkeypatch.setattr(SocketCommunicator, "start", start_and_count)
    monkeypatch.setattr(whole_messages, "LARGEST", 64)
    given = random_bytes(size)
    with communicating(2) as (first, second):
        _, found = in_threads(
            [lambda: send(first, 1, given), lambda: receive(second, 0)]
        )
    assert found == given
    full, rest = divmod(size, 64)
    assert sizes == [whole_messages.SIZE_BYTES, *[64] * full, *[rest] * (rest > 0)]


def random_bytes(size: int) -> bytes:
    return fresh().integers(0, 256, size, np.uint8).tobytes()


def test_looks_for_a_rank_that_compiles_get_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    for looks in (0, 10, 100, 1000, 10**9):
        nap(looks)
    assert naps[0] == naps[1] < 0.001
    assert naps[1] < naps[2] < naps[3] == naps[4]
    assert 0.01 < naps[4] < 0.1


def test_exchanges_of_communicators_are_apart() -> None:
    with connected(2) as (first, second):
        ours, theirs = ([x.communicator() for _ in range(2)] for x in (first, second))
        # The other rank begins with the second one.
        begun = [
            lambda: ours[0].exchange(b"a0"),
            lambda: ours[1].exchange(b"a1"),
            lambda: [theirs[1].exchange(b"b1"), theirs[0].exchange(b"b0")],
        ]
        found = in_threads(begun)
    of_first, of_second = [b"a0", b"b0"], [b"a1", b"b1"]
    assert found == [of_first, of_second, [of_second, of_first]]


def test_a_communicator_that_is_closed_touches_no_bytes() -> None:
    """One end of each, in the middle of a message, and others go on."""
    sent = fresh().integers(1, 256, LARGE, np.uint8)
    got = np.zeros_like(sent)
    small, come = np.arange(16, dtype=np.uint8), np.zeros(16, np.uint8)
    with connected(2) as ranks:
        (first, second), (other, its_peer) = (
            [x.communicator() for x in ranks] for _ in range(2)
        )
        into = second.open(channel(is_send=False, peer=0, size=LARGE))
        second.start(into, got.ctypes.data, got.nbytes)
        out = first.open(channel(is_send=True, peer=1, size=LARGE))
        first.start(out, sent.ctypes.data, sent.nbytes)
        until(lambda: not first.poll() and not second.poll() and bool(got[0]))
        assert not got[-1]
        second.close()
        kept = got.copy()
        first.close()
        sent[:] = 0
        into = its_peer.open(channel(is_send=False, peer=0, size=16))
        its_peer.start(into, come.ctypes.data, come.nbytes)
        other.start(
            other.open(channel(is_send=True, peer=1, size=16)),
            small.ctypes.data,
            small.nbytes,
        )

        def poll() -> bool:
            other.poll()
            return list(its_peer.poll()) == [into]

        until(poll)
    np.testing.assert_array_equal(come, small)
    np.testing.assert_array_equal(got, kept)


def test_messages_of_several_tags_find_their_places() -> None:
    random = fresh()
    sent = [np.frombuffer(random.bytes(1 + 7 * i), np.uint8) for i in range(20)]
    got = [np.zeros(x.size, np.uint8) for x in sent]
    order: list[int] = random.permutation(len(sent)).tolist()
    with communicating(2) as (first, second):
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
    with communicating(3) as ranks:

        def work(rank: int) -> Callable[[], object]:
            return lambda: ranks[rank].exchange(given[rank])

        assert in_threads([work(rank) for rank in range(3)]) == [given] * 3


def test_a_rank_that_fails_tells_the_others() -> None:
    with connected(2) as (first, second):
        first.abort("the kernel is wrong")
        own = second.communicator()
        with pytest.raises(PeerError, match="rank 0 failed: the kernel is wrong"):
            until(lambda: bool(own.poll()))


def test_a_rank_that_ends_is_missed() -> None:
    with connected(2) as (first, second):
        first.close()
        own = second.communicator()
        with pytest.raises(PeerError, match="rank 0 has ended"):
            until(lambda: bool(own.poll()))
        with pytest.raises(PeerError, match="rank 0 has ended"):
            own.exchange(b"lost")
