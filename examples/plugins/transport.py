"""A transport: that of `penstock-run --ranks`, which counts what it sends."""

import atexit
import os

from penstock.plugins import register
from penstock.runtime.program.channels import Channel
from penstock.runtime.transport.join import transport_of
from penstock.runtime.transport.protocol import Communicator, Transport

PENSTOCK_INTERFACE = "0.2"


class Counted:
    """Connections of another transport, with the number and bytes of messages."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.rank, self.size = inner.rank, inner.size
        self.abort, self.close = inner.abort, inner.close
        self.bytes = self.messages = 0

    def communicator(self) -> Communicator:
        return CountedMessages(self, self._inner.communicator())

    def tell(self) -> None:
        print(f"rank {self.rank} sent {self.messages} messages, {self.bytes} bytes")


class CountedMessages:
    """Messages of one program, which it counts."""

    def __init__(self, whole: Counted, inner: Communicator) -> None:
        self._whole, self._inner = whole, inner
        self._sends = set[int]()
        self.rank, self.size = inner.rank, inner.size
        self.poll, self.exchange = inner.poll, inner.exchange
        self.close = inner.close

    def open(self, channel: Channel) -> int:
        handle = self._inner.open(channel)
        if channel.is_send:
            self._sends.add(handle)
        return handle

    def start(self, handle: int, address: int, size: int) -> None:
        if handle in self._sends:
            self._whole.bytes += size
            self._whole.messages += 1
        self._inner.start(handle, address, size)


@register("transport", "counted")
def counted() -> Counted:
    """Messages over sockets or MPI, whose number each rank prints at its end."""
    made = Counted(transport_of("sockets" if "PENSTOCK_RANK" in os.environ else "mpi"))
    atexit.register(made.tell)
    return made
