"""
Bytes that one rank gives another outside of runs, of a size that only the sender knows
before: a message with that size, and the bytes in as many messages as they need, since
an MPI may count the bytes of one by an `int`.
"""

from __future__ import annotations

import ctypes

from penstock.runtime.program.channels import Bytes, Channel
from penstock.runtime.transport.naps import nap
from penstock.runtime.transport.protocol import Communicator

SIZE_TAG, DATA_TAG = 0, 1
SIZE_BYTES = 8
LARGEST = 1 << 30
"""The most bytes of a message."""


def send(messages: Communicator, peer: int, data: bytes) -> None:
    """Give another rank bytes, which are one at least, and wait until it has them."""
    head = len(data).to_bytes(SIZE_BYTES, "little")
    for tag, sent in ((SIZE_TAG, head), (DATA_TAG, data)):
        address = ctypes.cast(ctypes.c_char_p(sent), ctypes.c_void_p).value
        _move(messages, _channel(peer, tag, len(sent), is_send=True), address or 0)


def receive(messages: Communicator, peer: int) -> bytearray:
    """Wait for the bytes that another rank gives this one."""
    head = _taken(messages, peer, SIZE_TAG, SIZE_BYTES)
    return _taken(messages, peer, DATA_TAG, int.from_bytes(head, "little"))


def _taken(messages: Communicator, peer: int, tag: int, size: int) -> bytearray:
    taken = bytearray(size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(taken))
    _move(messages, _channel(peer, tag, size, is_send=False), address)
    return taken


def _channel(peer: int, tag: int, size: int, *, is_send: bool) -> Channel:
    name = "to start" if is_send else "to be started"
    return Channel(0, name, is_send, peer, tag, size, 0, Bytes(None, 0, size))


def _move(messages: Communicator, channel: Channel, address: int) -> None:
    """Wait for the messages of a channel, which have its bytes one after the other."""
    handle = messages.open(channel)
    for start in range(0, channel.size, LARGEST):
        size = min(LARGEST, channel.size - start)
        messages.start(handle, address + start, size)
        looks = 0
        while handle not in messages.poll():
            nap(looks)
            looks += 1
