"""The protocol of a transport, by which the programs of several ranks exchange data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.runtime.program.channels import Channel


class Transport(Protocol):
    """
    The messages of one process to those of the other ranks. `start`, `poll` and
    `exchange` may be called from different threads; each raises PeerError if another
    rank has ended.
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
        """The handle of a channel, before its first message."""
        ...

    def start(self, handle: int, address: int) -> None:
        """
        Begin with the next message of a channel. Its bytes lie at an address of this
        process, and are neither written nor, if they come, read until it has ended. A
        send ends only once the other rank has begun to receive.
        """
        ...

    def poll(self) -> Sequence[int]:
        """The handle of each message that has ended since the last look, in order."""
        ...

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gives, by rank: all of them call this at once."""
        ...

    def abort(self, reason: str) -> None:
        """Let all other ranks end, which are told why."""
        ...

    def close(self) -> None:
        """End it, once no message is on its way."""
        ...
