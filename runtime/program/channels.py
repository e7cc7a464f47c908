"""Messages between the programs of several ranks, as the executors see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Bytes(NamedTuple):
    """The bytes of each slot of a `register`, or of a variable at an `address`."""

    register: int | None
    address: int
    size: int


class Channel(NamedTuple):
    """
    The messages of one actor: at most `size` bytes with each of its acts, to or from
    the rank `peer` under a `tag`. Its calls move nothing: a transport does, from when
    the actor could act but for the register `done`, of which it fills a slot with each
    message. The bytes are those of `data`.
    """

    actor: int
    name: str
    is_send: bool
    peer: int
    tag: int
    size: int
    done: int
    data: Bytes

    def __str__(self) -> str:
        way = f"to rank {self.peer}" if self.is_send else f"of rank {self.peer}"
        return f"message {self.tag} {way} (task '{self.name}')"


class Collective(NamedTuple):
    """
    The exchanges of one actor with those of all `ranks` of a group, one with each of
    its acts, as `job.collective` says: it reads one of `data` at most, and writes the
    others, with elements of a `dtype`. As with messages, `done` is filled with each.
    """

    actor: int
    name: str
    kind: str
    algorithm: str
    ranks: tuple[int, ...]
    tag: int
    dtype: str
    done: int
    sources: Sequence[Bytes]
    targets: Sequence[Bytes]

    def __str__(self) -> str:
        ranks = ", ".join(map(str, self.ranks))
        return f"{self.kind} {self.tag} of ranks {ranks} (task '{self.name}')"
