"""Ranks as threads of one process, with a socket between each two."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from penstock.runtime.transport.sockets import SocketCommunicator, SocketTransport


@contextmanager
def connected(count: int) -> Generator[list[SocketTransport]]:
    """Transports of so many ranks, with a socket between each two."""
    ends: dict[tuple[int, int], socket.socket] = {}
    for first in range(count):
        for second in range(first):
            ends[first, second], ends[second, first] = socket.socketpair()
    made = [
        SocketTransport(r, {peer: x for (own, peer), x in ends.items() if own == r})
        for r in range(count)
    ]
    try:
        yield made
    finally:
        for transport in made:
            transport.close()


@contextmanager
def communicating(count: int) -> Generator[list[SocketCommunicator]]:
    """The first communicator of each of so many ranks."""
    with connected(count) as transports:
        yield [transport.communicator() for transport in transports]


def in_threads(functions: Sequence[Callable[[], object]]) -> list[object]:
    """The results of functions that run at the same time."""
    found: list[object] = [None] * len(functions)

    def run(number: int) -> None:
        found[number] = functions[number]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
