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
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.runtime.errors import PeerError
from penstock.runtime.program.channels import Channel
from penstock.runtime.transport.protocol import Sign

HEADER = struct.Struct("<qqq")
"""The kind of a frame, its tag, and the bytes behind this header."""
DATA, CREDIT, CONTROL, ABORT, ALIVE, LEFT = range(6)
WAIT_SECONDS = 0.0002
"""The time between looks at what other ranks say outside of runs."""
LAST_SECONDS = 1.0
"""The longest time to tell others why this rank ends."""


class Frame(NamedTuple):
    """Bytes to be written, and the channel whose message ends with the last of them."""

    rest: memoryview
    handle: int | None


class Peer:
    """The connection to one rank: what is to be written, and what is being read."""

    def __init__(self, rank: int, connection: socket.socket):
        connection.setblocking(False)
        self.rank = rank
        self.socket = connection
        self.outgoing: deque[Frame] = deque()
        self.messages: deque[bytes] = deque()
        """The bytes that the rank has given to an exchange."""
        self.sign = Sign.SILENT
        """The last sign of life since somebody has asked."""
        self.has_left = self.is_gone = False
        """Whether it ends as it should, and whether it has ended."""
        self._header = bytearray(HEADER.size)
        self.begin()

    def begin(self) -> None:
        """Begin to read a header."""
        self.kind, self.tag = -1, 0
        self.target = memoryview(self._header)
        self.body = bytearray()

    @property
    def header(self) -> tuple[int, int, int]:
        """The header that has been read."""
        return HEADER.unpack(self._header)

    def send(
        self, kind: int, tag: int, data: bytes | memoryview, handle: int | None = None
    ) -> None:
        """Queue a frame."""
        last = handle if not len(data) else None
        header = memoryview(HEADER.pack(kind, tag, len(data)))
        self.outgoing.append(Frame(header, last))
        if len(data):
            self.outgoing.append(Frame(memoryview(data), handle))


class SocketTransport:
    """The transport of a rank that has a connected socket to each other one."""

    def __init__(self, rank: int, sockets: Mapping[int, socket.socket]):
        self._rank = rank
        self._peers = {other: Peer(other, x) for other, x in sorted(sockets.items())}
        self._channels: list[Channel] = []
        self._waiting: list[deque[memoryview]] = []
        """The places of messages of each channel that were started."""
        self._credits: list[int] = []
        self._early: dict[tuple[int, int], int] = {}
        """Credits for channels that are not open yet, by rank and tag."""
        self._handles: dict[tuple[bool, int, int], int] = {}
        self._ended: deque[int] = deque()
        self._error: PeerError | None = None
        """The error after which no message can be moved any more."""
        self._lock = threading.RLock()

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self._peers) + 1

    def open(self, channel: Channel) -> int:
        """The handle of a channel."""
        with self._lock:
            handle = len(self._channels)
            self._channels.append(channel)
            self._waiting.append(deque())
            key = channel.is_send, channel.peer, channel.tag
            early = self._early.pop(key[1:], 0) if channel.is_send else 0
            if (before := self._handles.get(key)) is not None:
                # The peer may have opened its end anew already.
                early, self._credits[before] = early + self._credits[before], 0
            self._credits.append(early)
            self._handles[key] = handle
            return handle

    def start(self, handle: int, address: int, size: int) -> None:
        """Begin with the next message of a channel."""
        channel = self._channels[handle]
        place = (ctypes.c_char * size).from_address(address)
        with self._lock:
            self._waiting[handle].append(memoryview(place).cast("B"))
            if not channel.is_send:
                self._peers[channel.peer].send(CREDIT, channel.tag, b"")
            self._fill(handle)
            self._move(reads=False)

    def poll(self) -> Sequence[int]:
        """The handle of each message that has ended since the last look."""
        with self._lock:
            self._move()
            found = list(self._ended)
            self._ended.clear()
            return found

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gives, by rank."""
        with self._lock:
            for peer in self._peers.values():
                peer.send(CONTROL, 0, data)
        found = {self._rank: data}
        while len(found) < self.size:
            with self._lock:
                self._move()
                for peer in self._peers.values():
                    if peer.rank not in found and peer.messages:
                        found[peer.rank] = peer.messages.popleft()
                    elif peer.rank not in found and peer.is_gone:
                        raise PeerError(peer.rank, "has ended")
            if len(found) < self.size:
                time.sleep(WAIT_SECONDS)
        with self._lock:
            while any(peer.outgoing for peer in self._peers.values()):
                self._move(reads=False)
        return [found[rank] for rank in sorted(found)]

    def abort(self, reason: str) -> None:
        """Let all other ranks end, as far as they can still be told."""
        end = time.monotonic() + LAST_SECONDS
        with self._lock:
            for peer in self._peers.values():
                with suppress(OSError):
                    peer.socket.settimeout(max(0.0, end - time.monotonic()))
                    for frame in peer.outgoing:
                        peer.socket.sendall(frame.rest)
                    text = reason.encode()
                    peer.socket.sendall(HEADER.pack(ABORT, 0, len(text)) + text)
            self.close()

    def pulse(self) -> Sign:
        """Give the next rank a sign of life; that of the rank before this one."""
        with self._lock:
            after = self._peers[(self._rank + 1) % self.size]
            before = self._peers[(self._rank - 1) % self.size]
            if not after.outgoing:
                after.send(ALIVE, 0, b"")
            self._move()
            sign, before.sign = before.sign, Sign.SILENT
            return sign

    def leave(self) -> None:
        """Tell all ranks that this one ends."""
        with self._lock, suppress(PeerError):
            for peer in self._peers.values():
                peer.send(LEFT, 0, b"")
            self._move(reads=False)

    def close(self) -> None:
        """Close all sockets."""
        with self._lock:
            for peer in self._peers.values():
                peer.socket.close()

    # Frames

    def _fill(self, handle: int) -> None:
        """Queue the messages of a channel that the other rank is ready for."""
        channel = self._channels[handle]
        while channel.is_send and self._credits[handle] and self._waiting[handle]:
            self._credits[handle] -= 1
            data = self._waiting[handle].popleft()
            self._peers[channel.peer].send(DATA, channel.tag, data, handle)

    def _move(self, *, reads: bool = True) -> None:
        """
        Write and read what goes without a wait. Raises PeerError, at each call from
        then on, once another rank is missing.
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
        for peer in self._peers.values():
            while peer.outgoing:
                rest, handle = peer.outgoing[0]
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
                    peer.outgoing[0] = Frame(rest[count:], handle)
                    continue
                peer.outgoing.popleft()
                if handle is not None:
                    self._ended.append(handle)

    def _read(self) -> None:
        for peer in self._peers.values():
            self._read_from(peer)

    def _refuse_waits(self) -> None:
        """Raise PeerError if a message of a rank that has ended is waited for."""
        gone = {peer.rank for peer in self._peers.values() if peer.is_gone}
        if not gone:
            return
        for channel, waiting in zip(self._channels, self._waiting, strict=True):
            if channel.peer in gone and waiting:
                raise PeerError(channel.peer, "has ended")

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
                if peer.kind < 0:
                    self._begin_frame(peer)
                else:
                    self._end_frame(peer)

    def _begin_frame(self, peer: Peer) -> None:
        """Go on behind a header."""
        peer.kind, peer.tag, size = peer.header
        if peer.kind == DATA:
            handle = self._handles[False, peer.rank, peer.tag]
            peer.target = self._waiting[handle].popleft()
        else:
            peer.body = bytearray(size)
            peer.target = memoryview(peer.body)

    def _end_frame(self, peer: Peer) -> None:
        """Act on a frame that has been read."""
        kind, tag, body = peer.kind, peer.tag, peer.body
        if kind == DATA:
            self._ended.append(self._handles[False, peer.rank, tag])
        elif kind == CONTROL:
            peer.messages.append(bytes(body))
        elif kind in (ALIVE, LEFT):
            peer.sign = Sign.ALIVE if kind == ALIVE else Sign.LEFT
            peer.has_left = kind == LEFT
        elif kind == ABORT:
            raise PeerError(peer.rank, f"failed: {body.decode()}")
        elif (handle := self._handles.get((True, peer.rank, tag))) is None:
            key = peer.rank, tag
            self._early[key] = self._early.get(key, 0) + 1
        else:
            self._credits[handle] += 1
            self._fill(handle)
        peer.begin()
