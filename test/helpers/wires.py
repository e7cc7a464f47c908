"""A transport whose messages compiled code moves, between ranks of one process."""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict, deque
from collections.abc import Sequence

from penstock.runtime.program.channels import Channel
from penstock.runtime.transport.protocol import Functions

Key = tuple[int, int, int]
"""Sender, receiver and tag."""
FAILURE = 7


class Request:
    """The messages of a place, which a number stands for in memory."""

    def __init__(self, number: int, key: Key, *, is_send: bool, place: int, size: int):
        self.word = ctypes.c_int64(number)
        self.key, self.is_send = key, is_send
        self.place, self.size = place, size
        self.has_ended = True


class Wires:
    """
    The wires between ranks, and the functions of C that use them. The first message of
    channels that are `late` ends after the second one, and later than it is asked for.
    """

    def __init__(self, late: Sequence[Key] = (), *, fails: bool = False):
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._sends: defaultdict[Key, deque[Request]] = defaultdict(deque)
        self._receives: defaultdict[Key, deque[Request]] = defaultdict(deque)
        self._late = [*late]
        self._held: dict[Key, tuple[Request, Request]] = {}
        self._overtaken: set[Key] = set()
        self._fails = fails
        self.is_closed = False
        self.calls_after_close = 0
        self.ended: list[int] = []
        """The ranks that have ended."""
        self.is_asked = threading.Event()
        """Whether a function was called."""
        start = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        test = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
        self._functions = start(self._start), test(self._test)
        begin, ask = (ctypes.cast(x, ctypes.c_void_p).value for x in self._functions)
        self.functions = Functions(begin or 0, ask or 0, 0)

    def request(self, key: Key, *, is_send: bool, place: int, size: int) -> int:
        """The address of a new request."""
        with self._lock:
            number = len(self._requests)
            made = Request(number, key, is_send=is_send, place=place, size=size)
            self._requests.append(made)
            return ctypes.addressof(made.word)

    def _at(self, address: int) -> Request:
        self.is_asked.set()
        self.calls_after_close += self.is_closed
        return self._requests[ctypes.c_int64.from_address(address).value]

    def _start(self, address: int) -> int:
        with self._lock:
            own = self._at(address)
            if self._fails or not own.has_ended:
                return FAILURE
            own.has_ended = False
            sends, receives = self._sends[own.key], self._receives[own.key]
            (sends if own.is_send else receives).append(own)
            if sends and receives:
                self._meet(own.key, (sends.popleft(), receives.popleft()))
            return 0

    def _meet(self, key: Key, pair: tuple[Request, Request]) -> None:
        if key in self._late:
            self._late.remove(key)
            self._held[key] = pair
            return
        if key in self._held:
            self._overtaken.add(key)
        self._end(pair)

    @staticmethod
    def _end(pair: tuple[Request, Request]) -> None:
        sent, got = pair
        ctypes.memmove(got.place, sent.place, sent.size)
        sent.has_ended = got.has_ended = True

    def _test(self, address: int, flag: int, status: int) -> int:
        del status
        with self._lock:
            own = self._at(address)
            ctypes.c_int32.from_address(flag).value = own.has_ended
            if own.key in self._overtaken and own in self._held[own.key]:
                self._overtaken.remove(own.key)
                self._end(self._held.pop(own.key))
            return 0


class WireCommunicator:
    """The communicator of a rank, for channels that compiled code moves."""

    def __init__(self, wires: Wires, rank: int, size: int):
        self._wires = wires
        self.rank, self.size = rank, size
        self.functions = wires.functions
        self.ended = wires.ended

    def requests(self, channel: Channel, places: Sequence[int]) -> list[int]:
        ends = self.rank, channel.peer
        sender, receiver = ends if channel.is_send else ends[::-1]
        key = sender, receiver, channel.tag
        return [
            self._wires.request(
                key, is_send=channel.is_send, place=place, size=channel.size
            )
            for place in places
        ]

    def error_text(self, code: int) -> str:
        return f"code {code}"

    def close(self) -> None:
        self._wires.is_closed = True

    def open(self, channel: Channel) -> int:
        raise AssertionError(channel)

    def start(self, handle: int, address: int, size: int) -> None:
        raise AssertionError(handle, address, size)

    def poll(self) -> Sequence[int]:
        return []

    def exchange(self, data: bytes) -> list[bytes]:
        raise AssertionError(data)


class WireTransport:
    """The transport of a rank on such wires."""

    def __init__(self, wires: Wires, rank: int, size: int):
        self._wires = wires
        self.rank, self.size = rank, size
        self.aborted: list[str] = []

    def communicator(self) -> WireCommunicator:
        return WireCommunicator(self._wires, self.rank, self.size)

    def abort(self, reason: str) -> None:
        self.aborted.append(reason)

    def close(self) -> None: ...
