"""
The protocol of a transport, by which the programs of several ranks exchange data.

A transport is that of a process. Each program, and each session for what it says
outside of runs, has a communicator of it, whose messages are apart from those of all
others: several may be under way at once, under the same tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable

from penstock.runtime.program.channels import Channel, Collective


class Communicator(Protocol):
    """
    The messages of one program to those of the same program on other ranks. One thread
    uses it at a time, and other communicators are used meanwhile. `start`, `poll` and
    `exchange` raise PeerError if another rank has ended.
    """

    @property
    def rank(self) -> int:
        """The rank of this process."""
        ...

    @property
    def size(self) -> int:
        """The number of ranks."""
        ...

    def open(self, channel: Channel) -> int:
        """
        The handle of a channel, before its first message; no other one between the same
        ranks in the same direction has its tag.
        """
        ...

    def start(self, handle: int, address: int, size: int) -> None:
        """
        Begin with the next message of a channel, of so many bytes, which both ends
        know. They lie at an address of this process, and are neither written nor, if
        they come, read until it has ended. A send ends only once the other rank has
        begun to receive.
        """
        ...

    def poll(self) -> Sequence[int]:
        """
        The handle of each message that has ended since the last look. Those of one
        channel end in the order in which they were started.
        """
        ...

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gives, by rank: all of them call this at once."""
        ...

    def close(self) -> None:
        """End it: bytes of messages that are on their way are not touched any more."""
        ...


class Transport(Protocol):
    """The connections of one process to those of the other ranks, for any thread."""

    @property
    def rank(self) -> int:
        """The rank of this process."""
        ...

    @property
    def size(self) -> int:
        """The number of ranks."""
        ...

    def communicator(self) -> Communicator:
        """
        A new communicator, which all ranks make: the first of one is that of the first
        of another, and so on.
        """
        ...

    def abort(self, reason: str) -> None:
        """Let all other ranks end, which are told why."""
        ...

    def close(self) -> None:
        """End it, once no message is on its way."""
        ...


class Functions(NamedTuple):
    """
    The addresses of the functions of C by which compiled code moves messages.

    `start(request)` begins with the next message of a place, `test(request, &ended,
    status)` sets an `int` to whether it has ended. Both get the address of a request
    and return 0, or a code. Any thread calls them, also at once for two requests.
    """

    start: int
    test: int
    status: int
    """The address of bytes that the latter may write."""


@runtime_checkable
class CompiledCommunicator(Communicator, Protocol):
    """A communicator of a library whose messages compiled code may move."""

    @property
    def functions(self) -> Functions | None:
        """The functions for that, unless they cannot be found."""
        ...

    def requests(self, channel: Channel, places: Sequence[int]) -> Sequence[int]:
        """
        The address of the request of each place that the messages of a channel lie at,
        in turn, until it is closed.
        """
        ...

    def error_text(self, code: int) -> str:
        """The error that a code of a function says."""
        ...

    @property
    def ended(self) -> Sequence[int]:
        """The ranks that have ended, and all of whose messages have come."""
        ...


@runtime_checkable
class CollectiveCommunicator(Communicator, Protocol):
    """A communicator of a library that does collectives of its own."""

    def open_collective(self, collective: Collective) -> int:
        """
        The handle of a collective, as of a channel: all ranks of its group call this at
        once, and each in the order of tags.
        """
        ...

    def start_collective(self, handle: int, addresses: Sequence[int]) -> None:
        """Begin with the next exchange, from and to the bytes at these addresses."""
        ...


class Sign(Enum):
    """A sign of life that a rank has given since another one has listened last."""

    SILENT = auto()
    ALIVE = auto()
    LEFT = auto()
    """It gives no more signs, as it ends."""


@runtime_checkable
class LivelyTransport(Transport, Protocol):
    """A transport that tells whether the processes of ranks run at all."""

    def pulse(self) -> Sign:
        """
        Give the next rank a sign of life, unless one is on its way to it; the sign that
        the rank before this one has given. It waits for neither of them.
        """
        ...

    def leave(self) -> None:
        """Give the last sign: this rank ends, and is not to be missed."""
        ...
