"""
Messages over MPI, the only module that imports mpi4py (the extra `mpi`).

Each slot of a register has a persistent request, which is started whenever the slot is
free or filled: nothing is allocated in a run. Sends are synchronous, so that the slots
of the receiver bound how far the sender gets ahead.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from penstock.runtime.errors import PeerError, PenstockError
from penstock.runtime.program.channels import Channel, Collective
from penstock.runtime.transport.guard import Guarded
from penstock.runtime.transport.naps import nap
from penstock.runtime.transport.protocol import Functions, Sign

EAGER_TESTS = 100
"""Fruitless tests of an exchange after which a process begins to sleep."""
ALIVE, LEFT = 1, 2
"""The tags of a sign of life, and of the last one."""
LAST_SECONDS = 1.0
"""The time in which the last messages of a rank that has ended still come."""


def _mpi() -> Any:
    """The module of mpi4py. Raises PenstockError if it or its MPI is missing."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise PenstockError(
            "processes that an MPI has started need mpi4py, and a libmpi that it finds "
            "(MPI4PY_LIBMPI names one, pip install 'penstock[mpi]' brings one): "
            f"{str(error).partition(chr(10))[0]}"
        ) from error
    return MPI


class GroupCollective:
    """
    A collective of some ranks, in a communicator of its own: there its exchanges begin
    in the same order on all of them, whatever comes between.
    """

    def __init__(self, mpi: Any, group: Any, collective: Collective):
        self._mpi, self._group, self._collective = mpi, group, collective
        self.ranks = collective.ranks
        """The ranks of it."""
        self._sizes = [x.size for x in (*collective.sources, *collective.targets)]
        kinds = {
            "all_gather": group.Iallgather,
            "all_reduce": group.Iallreduce,
            "all_to_all": group.Ialltoall,
            "broadcast": group.Ibcast,
            "reduce_scatter": group.Ireduce_scatter_block,
        }
        self._start = kinds[collective.kind]

    def start(self, addresses: Sequence[int]) -> Any:
        """The request of an exchange between the bytes at these addresses."""
        buffers = [
            self._mpi.buffer.fromaddress(address, size)
            for address, size in zip(addresses, self._sizes, strict=True)
        ]
        if self._collective.kind not in ("all_reduce", "reduce_scatter"):
            return self._start(*([x, self._mpi.BYTE] for x in buffers))
        kind = self._mpi.Datatype.fromcode(np.dtype(self._collective.dtype).char)
        return self._start(*([x, kind] for x in buffers), op=self._mpi.SUM)

    def close(self) -> None:
        """Give its communicator back, when nothing is on its way."""
        self._group.Free()


class Departures:
    """The ranks that have ended, whose messages this one must not wait for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._times: dict[int, float] = {}

    def __contains__(self, rank: int) -> bool:
        return rank in self._times

    def add(self, rank: int) -> None:
        """Take in that a rank has ended."""
        self._times[rank] = self._clock()

    @property
    def ended(self) -> list[int]:
        """The ranks all of whose messages have come by now."""
        if not self._times:
            return []
        latest = self._clock() - LAST_SECONDS
        return [rank for rank, then in [*self._times.items()] if then < latest]

    def refuse(self, ranks: Iterable[int]) -> None:
        """Raise PeerError if one of these ranks has ended, which are waited for."""
        ended = self.ended
        if ended and (gone := [rank for rank in ranks if rank in ended]):
            raise PeerError(gone[0], "has ended")


class Neighbours:
    """
    The signs of life to the next rank and of the one before, a byte each in persistent
    requests of a communicator of their own, and the last ones, which go to all ranks.
    """

    def __init__(self, mpi: Any, world: Any, departures: Departures):
        self._mpi, self._own, self._departures = mpi, world.Dup(), departures
        rank, size = self._own.Get_rank(), self._own.Get_size()
        self._others = [(rank + i) % size for i in range(1, size)]
        self._next, self._before = (rank + 1) % size, (rank - 1) % size
        self._sign = [bytearray(1), 1, mpi.BYTE]
        self._send = self._own.Ssend_init(self._sign, self._next, ALIVE)
        into = [bytearray(1), 1, mpi.BYTE]
        self._receive = self._own.Recv_init(into, self._before, ALIVE)
        self._receive.Start()
        self._status = mpi.Status()

    def give(self) -> bool:
        """Give a sign; False if the last one is on its way."""
        is_free = self._send.Test()
        if is_free:
            self._send.Start()
        return is_free

    def take(self) -> Sign:
        """The sign of the rank before, if there is a new one."""
        while self._own.Iprobe(self._mpi.ANY_SOURCE, LEFT, self._status):
            rank = self._status.Get_source()
            self._own.Recv([bytearray(1), 1, self._mpi.BYTE], rank, LEFT)
            self._departures.add(rank)
        if self._before in self._departures:
            return Sign.LEFT
        if not self._receive.Test():
            return Sign.SILENT
        self._receive.Start()
        return Sign.ALIVE

    def leave(self) -> None:
        """
        Give the last sign to all, and all requests back once they have given theirs, as
        the end of MPI would wait for them, too: no message is left on its way.
        """
        sent = [self._own.Isend(self._sign, rank, LEFT) for rank in self._others]
        looks = 0
        while not self._have_left() or not all(x.Test() for x in (*sent, self._send)):
            nap(looks)
            looks += 1
        self._receive.Cancel()
        self._receive.Wait()
        self._receive.Free()
        self._send.Free()

    def _have_left(self) -> bool:
        """Whether all other ranks have left, whose signs are taken meanwhile."""
        self.take()
        # Of the rank before there may be one more.
        if self._receive.Test():
            self._receive.Start()
        return all(rank in self._departures for rank in self._others)


class MpiCommunicator:
    """The messages of one program, in a communicator of MPI of their own."""

    def __init__(self, mpi: Any, own: Any, departures: Departures):
        self._mpi, self._own, self._departures = mpi, own, departures
        self.rank: int = own.Get_rank()
        """The rank of this process."""
        self.size: int = own.Get_size()
        """The number of ranks."""
        self._channels: list[Channel | GroupCollective] = []
        self._requests: dict[tuple[int, int, int], Any] = {}
        """The persistent request of each place of a channel's messages."""
        self._under_way: list[deque[Any]] = []
        """The requests of each channel that were started, in that order."""
        self._status = ctypes.create_string_buffer(mpi._sizeof(mpi.Status))

    @property
    def functions(self) -> Functions | None:
        """The functions of MPI that compiled code calls, if they are found."""
        try:
            # It is linked with whichever MPI has been chosen.
            library = ctypes.CDLL(self._mpi.__file__)
            found = library.MPI_Start, library.MPI_Test
        except (OSError, AttributeError):
            return None
        start, test = (ctypes.cast(x, ctypes.c_void_p).value or 0 for x in found)
        return Functions(start, test, ctypes.addressof(self._status))

    def open(self, channel: Channel) -> int:
        """The handle of a channel."""
        return self._add(channel)

    def open_collective(self, collective: Collective) -> int:
        """The handle of a collective, with a communicator of its own."""
        group = self._own.Get_group().Incl(collective.ranks)
        own = self._own.Create_group(group, collective.tag)
        return self._add(GroupCollective(self._mpi, own, collective))

    def requests(self, channel: Channel, places: Sequence[int]) -> list[int]:
        """The address of the request of each place of messages of a channel."""
        handle = self._add(channel)
        made = [self._request(handle, place, channel.size) for place in places]
        return [self._mpi._addressof(request) for request in made]

    def error_text(self, code: int) -> str:
        """The error that a code of MPI says."""
        return self._mpi.Get_error_string(code)

    @property
    def ended(self) -> Sequence[int]:
        """The ranks that have ended, and all of whose messages have come."""
        return self._departures.ended

    def _add(self, channel: Channel | GroupCollective) -> int:
        self._channels.append(channel)
        self._under_way.append(deque())
        return len(self._channels) - 1

    def start_collective(self, handle: int, addresses: Sequence[int]) -> None:
        """Begin with the next exchange of a collective."""
        channel = self._channels[handle]
        assert isinstance(channel, GroupCollective), "it was opened as one"
        self._under_way[handle].append(channel.start(addresses))

    def start(self, handle: int, address: int, size: int) -> None:
        """Begin with the next message of a channel."""
        request = self._request(handle, address, size)
        request.Start()
        self._under_way[handle].append(request)

    def _request(self, handle: int, address: int, size: int) -> Any:
        """The persistent request of a place of messages."""
        request = self._requests.get((handle, address, size))
        if request is None:
            channel = self._channels[handle]
            assert isinstance(channel, Channel), "it was opened as one"
            place = self._mpi.buffer.fromaddress(address, size)
            buffer = [place, size, self._mpi.BYTE]
            make = self._own.Ssend_init if channel.is_send else self._own.Recv_init
            request = make(buffer, channel.peer, channel.tag)
            self._requests[handle, address, size] = request
        return request

    def poll(self) -> Sequence[int]:
        """The handle of each message that has ended since the last look."""
        found: list[int] = []
        for handle, requests in enumerate(self._under_way):
            # A later message may be there before, as large ones take several steps.
            while requests and requests[0].Test():
                requests.popleft()
                found.append(handle)
        pairs = zip(self._channels, self._under_way, strict=True)
        self._departures.refuse(
            rank for channel, requests in pairs if requests for rank in _peers(channel)
        )
        return found

    def exchange(self, data: bytes) -> list[bytes]:
        """The bytes that each rank gives, by rank."""
        sizes = np.zeros(self.size, np.int64)
        given = np.array([len(data)], np.int64)
        _wait(self._own.Iallgather(given, sizes), self._departures)
        whole = bytearray(int(sizes.sum()))
        place = [whole, sizes.tolist(), None, self._mpi.BYTE]
        _wait(self._own.Iallgatherv(data, place), self._departures)
        ends = np.cumsum(sizes).tolist()
        starts = [0, *ends[:-1]]
        return [bytes(whole[a:b]) for a, b in zip(starts, ends, strict=True)]

    def close(self) -> None:
        """
        Give all back, or only the receives of a run that has failed: what it sends
        cannot be taken back, and its processes end.
        """
        # One that was given back is none.
        if self._mpi.Is_finalized() or not self._own:
            return
        is_idle = all(x.Test() for requests in self._under_way for x in requests)
        for (handle, *_), request in self._requests.items():
            channel = self._channels[handle]
            assert isinstance(channel, Channel), "requests are of such"
            if request.Test():
                continue
            if channel.is_send:
                is_idle = False
                continue
            request.Cancel()
            request.Wait()
        if is_idle:
            for request in self._requests.values():
                request.Free()
            for channel in self._channels:
                if isinstance(channel, GroupCollective):
                    channel.close()
            self._own.Free()
        self._under_way, self._channels, self._requests = [], [], {}


def _peers(channel: Channel | GroupCollective) -> Sequence[int]:
    """The ranks that a message or a collective needs."""
    return [channel.peer] if isinstance(channel, Channel) else channel.ranks


def _wait(request: Any, departures: Departures) -> None:
    """
    Wait for the end of a collective of all ranks, and let others have the core
    meanwhile. Raises PeerError if a rank has ended.
    """
    tests = 0
    while not request.Test():
        tests += 1
        departures.refuse(departures.ended)
        if tests < EAGER_TESTS:
            time.sleep(0)
        else:
            nap(tests - EAGER_TESTS)


class MpiTransport:
    """
    The transport of a process that `mpiexec` has started; `guarded` as one that a guard
    of its host sees.
    """

    def __init__(self, guarded: Guarded | None = None) -> None:
        self._guarded = guarded
        self._mpi = _mpi()
        if self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:
            raise PenstockError("this MPI may not be called by several threads at once")
        self._world = self._mpi.COMM_WORLD.Dup()
        self._departures = Departures()
        self._neighbours = Neighbours(self._mpi, self._world, self._departures)
        self._lock = threading.Lock()

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self._world.Get_rank()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self._world.Get_size()

    def communicator(self) -> MpiCommunicator:
        """A new communicator, once all ranks ask for it."""
        with self._lock:
            made, request = self._world.Idup()
            _wait(request, self._departures)
        return MpiCommunicator(self._mpi, made, self._departures)

    def pulse(self) -> Sign:
        """Give the next rank a sign of life; that of the rank before this one."""
        self._neighbours.give()
        return self._neighbours.take()

    def leave(self) -> None:
        """Give the last sign to all ranks that listen."""
        self._neighbours.leave()

    def abort(self, reason: str) -> None:
        """End all ranks at once, also this one, which tells why before."""
        if self._guarded is not None:
            self._guarded.end_all()
        print(f"rank {self.rank} failed: {reason}", file=sys.stderr, flush=True)
        self._world.Abort(1)

    def close(self) -> None:
        """Leave all to the end of MPI."""
