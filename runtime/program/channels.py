"""Messages between the programs of several ranks, as the executors see them."""

from __future__ import annotations

from typing import NamedTuple


class Channel(NamedTuple):
    """
    The messages of one actor: `size` bytes with each of its acts, to or from the rank
    `peer` under a `tag`. Its calls move nothing: a transport does, from when the actor
    could act but for the register `done`, of which it fills a slot with each message.
    The bytes are those of the `data` register, or for a variable at `address`.
    """

    actor: int
    name: str
    is_send: bool
    peer: int
    tag: int
    size: int
    done: int
    data: int | None
    address: int

    def __str__(self) -> str:
        way = f"to rank {self.peer}" if self.is_send else f"of rank {self.peer}"
        return f"message {self.tag} {way} (task '{self.name}')"
