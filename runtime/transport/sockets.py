"""
Messages over stream sockets, one between each two ranks: for the ranks of one machine
that `penstock-run --ranks` starts, and for tests, without any library.

A receiver tells the sender when it is ready for a message (a *credit*), so no bytes
wait anywhere but where they are to lie: they are written from the register of the
sender and read into that of the receiver.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.runtime.errors import PeerError, PenstockError
from penstock.runtime.program.channels import Channel
from penstock.runtime.transport.naps import nap
from penstock.runtime.transport.protocol import Sign

HEADER = struct.Struct("<qqqq")
"""
The kind of a frame, the number of its communicator, its tag, and the bytes behind this
header.
"""
DATA, CREDIT, CONTROL, ABORT, ALIVE, LEFT = range(6)
NONE = -1
"""The communicator of frames that are of none."""
LAST_SECONDS = 1.0
"""The longest time to tell others why this rank ends."""


class Frame(NamedTuple):
    """
    Bytes to be written for a communicator, and the channel whose message ends with the
    last of them.
    """

    rest: memoryview
    communicator: int
    handle: int | None


class Peer:
    """The connection to one rank: what is to be written, and what is being read."""

    def __init__(self, rank: int, connection: socket.socket):
        connection.setblocking(False)
        self.rank = rank
        self.socket = connection
        self.outgoing: deque[Frame] = deque()
        self.sign = Sign.SILENT
        """The last sign of life since somebody has asked."""
        self.has_left = self.is_gone = False
        """Whether it ends as it should, and whether it has ended."""
        self._header = bytearray(HEADER.size)
        self.begin()

    def begin(self) -> None:
        """Begin to read a header."""
        self.kind, self.communicator, self.tag = NONE, NONE, 0
        self.target = memoryview(self._header)
        self.body = bytearray()

    @property
    def header(self) -> tuple[int, int, int, int]:
        """The header that has been read."""
        return HEADER.unpack(self._header)

    def send(
        self,
        kind: int,
        data: bytes | memoryview = b"",
        communicator: int = NONE,
        tag: int = 0,
        handle: int | None = None,
    ) -> None:
        """Queue a frame."""
        header = memoryview(HEADER.pack(kind, communicator, tag, len(data)))
        last = handle if not len(data) else None
        self.outgoing.append(Frame(header, communicator, last))
        if len(data):
            self.outgoing.append(Frame(memoryview(data), communicator, handle))

    def let_go(self, communicator: int) -> None:
        """
        Touch no bytes of messages of a communicator any more: the rest of a frame still
        goes its way, as others come behind it.
        """
        for i, frame in enumerate(self.outgoing):
            if frame.communicator == communicator:
                self.outgoing[i] = Frame(
                    memoryview(bytes(frame.rest)), communicator, None
                )
        if (self.kind, self.communicator) == (DATA, communicator):
            self.target = memoryview(bytearray(len(self.target)))


class SocketCommunicator:
    """The messages of one program, which its frames name by a number."""

    def __init__(self, transport: SocketTransport, number: int):
        self._transport, self._number = transport, number
        self.rank: int = transport.rank
        """The rank of this process."""
        self.size: int = transport.size
        """The number of ranks."""
        self._channels: list[Channel] = []
        self._waiting: list[deque[memoryview]] = []
        """The places of messages of each channel that were started."""
        self._handles: dict[tuple[bool, int, int], int] = {}
        self._credits: defaultdict[tuple[int, int], int] = defaultdict(int)
        """Messages that a rank is ready for, by its number and their tag."""
        self._given: defaultdict[int, deque[bytes]] = defaultdict(deque)
        """The bytes that each rank has given to exchanges."""
        self._ended: deque[int] = deque()

    def open(self, channel: Channel) -> int:
        """The handle of a channel."""
        with self._transport.lock:
            handle = len(self._channels)
            key = channel.is_send, channel.peer, channel.tag
            assert key not in self._handles, f"there is another {channel}"
            self._channels.append(channel)
            self._waiting.append(deque())
            self._handles[key] = handle
            return handle

    def start(self, handle: int, address: int, size: int) -> None:
        """Begin with the next message of a channel."""
        channel = self._channels[handle]
        place = (ctypes.c_char * size).from_address(address)
        with self._transport.lock:
            self._waiting[handle].append(memoryview(place).cast("B"))
            if channel.is_send:
                self._fill(handle)
            else:
                peer = self._transport.peers[channel.peer]
                peer.send(CREDIT, b"", self._number, channel.tag)
            self._transport.move(reads=False)

    def poll(self) -> Sequence[int]:
        """The handle of each message that has ended since the last look."""
        with self._transport.lock:
            self._transport.move()
            found = list(self._ended)
            self._ended.clear()
            return found

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gives, by rank."""
        peers = self._transport.peers
        with self._transport.lock:
            for peer in peers.values():
                peer.send(CONTROL, data, self._number)
        found, looks = {self.rank: data}, 0
        while True:
            with self._transport.lock:
                self._transport.move()
                for rank, peer in peers.items():
                    if rank not in found and self._given[rank]:
                        found[rank] = self._given[rank].popleft()
                    elif rank not in found and peer.is_gone:
                        raise PeerError(rank, "has ended")
                # Nobody may move frames after this.
                rest = (x for peer in peers.values() for x in peer.outgoing)
                is_out = all(x.communicator != self._number for x in rest)
            if is_out and len(found) == self.size:
                return [found[rank] for rank in sorted(found)]
            nap(looks)
            looks += 1

    def close(self) -> None:
        """Touch no bytes of messages any more."""
        with self._transport.lock:
            self._transport.forget(self._number)

    # Frames, while the transport is locked

    def place_of(self, rank: int, tag: int) -> memoryview:
        """The place of a message that comes, for which there was a credit."""
        return self._waiting[self._handles[False, rank, tag]].popleft()

    def take(self, kind: int, rank: int, tag: int, body: bytes) -> None:
        """Act on a frame that has come."""
        if kind == DATA:
            self._ended.append(self._handles[False, rank, tag])
        elif kind == CONTROL:
            self._given[rank].append(body)
        else:
            self._credits[rank, tag] += 1
            # The channel may not be open yet.
            if (handle := self._handles.get((True, rank, tag))) is not None:
                self._fill(handle)

    def end(self, handle: int) -> None:
        """Take in that a message is written."""
        self._ended.append(handle)

    def is_waiting_for(self, ranks: Collection[int]) -> int | None:
        """The first of some ranks for which a message waits."""
        pairs = zip(self._channels, self._waiting, strict=True)
        return next((x.peer for x, each in pairs if each and x.peer in ranks), None)

    def _fill(self, handle: int) -> None:
        """Queue the messages of a channel that the other rank is ready for."""
        channel, waiting = self._channels[handle], self._waiting[handle]
        key = channel.peer, channel.tag
        while self._credits[key] and waiting:
            self._credits[key] -= 1
            peer = self._transport.peers[channel.peer]
            peer.send(DATA, waiting.popleft(), self._number, channel.tag, handle)


class SocketTransport:
    """The transport of a rank that has a connected socket to each other one."""

    def __init__(self, rank: int, sockets: Mapping[int, socket.socket]):
        self.rank: int = rank
        """The rank of this process."""
        self.size: int = len(sockets) + 1
        """The number of ranks."""
        self.peers = {other: Peer(other, x) for other, x in sorted(sockets.items())}
        """The connections to the other ranks."""
        self.lock = threading.RLock()
        """Held by whoever looks at connections and communicators."""
        self._made = 0
        self._communicators: dict[int, SocketCommunicator] = {}
        self._early: defaultdict[int, list[tuple[int, int, int, bytes]]]
        self._early = defaultdict(list)
        """The frames for communicators that are not made yet."""
        self._error: PenstockError | None = None
        """The error after which no message can be moved any more."""

    def communicator(self) -> SocketCommunicator:
        """A new communicator."""
        with self.lock:
            number = self._made
            self._made += 1
            made = SocketCommunicator(self, number)
            self._communicators[number] = made
            for frame in self._early.pop(number, []):
                made.take(*frame)
            return made

    def forget(self, number: int) -> None:
        """Let the messages of a communicator go nowhere."""
        if self._communicators.pop(number, None) is not None:
            for peer in self.peers.values():
                peer.let_go(number)

    def abort(self, reason: str) -> None:
        """Let all other ranks end, as far as they can still be told."""
        end = time.monotonic() + LAST_SECONDS
        with self.lock:
            if self._error is None:
                self._error = PenstockError(f"this rank has failed: {reason}")
                # The caller tells of it.
                self._error.is_told = self._error.is_shared = True
            text = reason.encode()
            for peer in self.peers.values():
                with suppress(OSError):
                    peer.socket.settimeout(max(0.0, end - time.monotonic()))
                    for frame in peer.outgoing:
                        peer.socket.sendall(frame.rest)
                    head = HEADER.pack(ABORT, NONE, 0, len(text))
                    peer.socket.sendall(head + text)
            self.close()

    def pulse(self) -> Sign:
        """Give the next rank a sign of life; that of the rank before this one."""
        with self.lock:
            after = self.peers[(self.rank + 1) % self.size]
            before = self.peers[(self.rank - 1) % self.size]
            if not after.outgoing:
                after.send(ALIVE)
            self.move()
            sign, before.sign = before.sign, Sign.SILENT
            return sign

    def leave(self) -> None:
        """Tell all ranks that this one ends."""
        with self.lock, suppress(PenstockError):
            for peer in self.peers.values():
                peer.send(LEFT)
            self.move(reads=False)

    def close(self) -> None:
        """Close all sockets."""
        with self.lock:
            for peer in self.peers.values():
                peer.socket.close()

    # Frames

    def move(self, *, reads: bool = True) -> None:
        """
        Write and read what goes without a wait, while it is locked. Raises PeerError,
        at each call from then on, once another rank is missing, and PenstockError once
        this one has failed.
        """
        if self._error is not None:
            raise self._error
        try:
            self._write()
            if reads:
                self._read()
                self._refuse_waits()
        except PeerError as error:
            self._error = error
            raise

    def _write(self) -> None:
        for peer in self.peers.values():
            while peer.outgoing:
                rest, communicator, handle = peer.outgoing[0]
                try:
                    count = peer.socket.send(rest)
                except BlockingIOError:
                    break
                except OSError as error:
                    # The rank may have told why before.
                    self._read_from(peer)
                    if not peer.is_gone or any(
                        x.handle is not None for x in peer.outgoing
                    ):
                        raise PeerError(peer.rank, "has ended") from error
                    peer.outgoing.clear()
                    break
                if count < len(rest):
                    peer.outgoing[0] = Frame(rest[count:], communicator, handle)
                    continue
                peer.outgoing.popleft()
                own = self._communicators.get(communicator)
                if handle is not None and own is not None:
                    own.end(handle)

    def _read(self) -> None:
        for peer in self.peers.values():
            self._read_from(peer)

    def _refuse_waits(self) -> None:
        """Raise PeerError if a message of a rank that has ended is waited for."""
        gone = {peer.rank for peer in self.peers.values() if peer.is_gone}
        for communicator in self._communicators.values() if gone else ():
            if (rank := communicator.is_waiting_for(gone)) is not None:
                raise PeerError(rank, "has ended")

    def _read_from(self, peer: Peer) -> None:
        while not peer.is_gone:
            try:
                count = peer.socket.recv_into(peer.target)
            except BlockingIOError:
                return
            except OSError as error:
                raise PeerError(peer.rank, "has ended") from error
            if count == 0 and not peer.has_left:
                raise PeerError(peer.rank, "has ended")
            if count == 0:
                peer.is_gone = True
                return
            peer.target = peer.target[count:]
            while not len(peer.target):
                if peer.kind == NONE:
                    self._begin_frame(peer)
                else:
                    self._end_frame(peer)

    def _begin_frame(self, peer: Peer) -> None:
        """Go on behind a header."""
        peer.kind, peer.communicator, peer.tag, size = peer.header
        own = self._communicators.get(peer.communicator)
        if peer.kind == DATA and own is not None:
            peer.target = own.place_of(peer.rank, peer.tag)
        else:
            peer.body = bytearray(size)
            peer.target = memoryview(peer.body)

    def _end_frame(self, peer: Peer) -> None:
        """Act on a frame that has been read."""
        kind, number, body = peer.kind, peer.communicator, bytes(peer.body)
        if kind == ABORT:
            raise PeerError(peer.rank, f"failed: {body.decode()}")
        if kind in (ALIVE, LEFT):
            peer.sign = Sign.ALIVE if kind == ALIVE else Sign.LEFT
            peer.has_left = kind == LEFT
        elif (own := self._communicators.get(number)) is not None:
            own.take(kind, peer.rank, peer.tag, body)
        elif number >= self._made:
            self._early[number].append((kind, peer.rank, peer.tag, body))
        peer.begin()
