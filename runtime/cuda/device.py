"""
CUDA as a device of the executor, on GPUs or on doubles of them.

A chunk is one allocation on its device; those of the host that are copied to or from a
device are pinned. The rest happens when a program is wired: its actors get streams,
events and graphs (`penstock.runtime.cuda.program`), and waiters where the host has to
wait for a device (`penstock.runtime.cuda.host_actors`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.runtime.cuda.driver import CudaError, Driver, Handle, Span
from penstock.runtime.cuda.host_actors import wire
from penstock.runtime.cuda.launch_units import Flow
from penstock.runtime.cuda.launches import (
    WORD,
    Copying,
    Launching,
    Work,
    chosen,
    launches_of,
    room_of,
)
from penstock.runtime.cuda.program import CudaProgram
from penstock.runtime.cuda.simulator import SIMULATOR, is_simulator_wanted
from penstock.runtime.loading.devices import Place, Wired
from penstock.runtime.loading.memory import count_allocation, host_bytes
from penstock.runtime.program.actors import Actor, Argument, Call, Register
from penstock.runtime.program.executable import Kernel

if TYPE_CHECKING:
    Array: TypeAlias = npt.NDArray[np.generic]


def open_cuda() -> Cuda:
    """
    CUDA on the cards of this machine, or simulated if NUMBA_ENABLE_CUDASIM=1 is set.

    Raises PenstockError if there is no card, or if Numba was imported before it was
    told to simulate one.
    """
    if is_simulator_wanted():
        return Cuda(_simulated())
    from penstock.runtime.cuda.driver_real import open_driver

    try:
        return Cuda(open_driver())
    except CudaError as error:
        raise CudaError(f"{error}; {SIMULATOR}=1 simulates one, slowly") from error


def device_name(driver: Driver) -> str:
    """The name of the first device of a driver, and the libraries for it."""
    describe: Callable[[], str] | None = getattr(driver, "describe", None)
    return "a device that only stands in for one" if describe is None else describe()


@cache
def _simulated() -> Driver:
    from penstock.runtime.cuda.driver_simulated import SimulatedDriver

    return SimulatedDriver()


class CudaChunk:
    """
    `size` bytes from `address` on, of a device or, pinned, of the host, for as long as
    this lives.
    """

    def __init__(self, owner: Cuda, number: int, size: int, *, is_pinned: bool):
        driver = owner.driver
        allocate = driver.allocate_host if is_pinned else driver.allocate
        self.is_pinned = is_pinned
        self.address = allocate(max(size, 1))
        count_allocation()
        self._owner, self._number = owner, number
        function = driver.free_host if is_pinned else driver.free
        weakref.finalize(self, _free, driver, number, function, self.address)

    def write(self, offset: int, array: npt.NDArray[np.generic]) -> None:
        """Copy an array of the host to the bytes from `offset` on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if self.is_pinned:
            host_bytes(self.address + offset, data.size)[:] = data
        elif data.size:
            self._move(self.address + offset, data.ctypes.data, data.size)

    def read(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of `size` bytes in the memory of the host."""
        if self.is_pinned:
            return host_bytes(self.address + offset, size).copy()
        found = np.empty(size, np.uint8)
        if size:
            self._move(found.ctypes.data, self.address + offset, size)
        return found

    def clear(self, size: int) -> None:
        """Let the first bytes be 0."""
        if self.is_pinned:
            host_bytes(self.address, size)[:] = 0
        else:
            self._owner.finish(
                self._number,
                lambda driver, stream: driver.clear(self.address, size, stream),
            )

    def _move(self, target: int, source: int, size: int) -> None:
        self._owner.finish(
            self._number,
            lambda driver, stream: driver.copy(target, source, size, stream),
        )


def _free(
    driver: Driver, number: int, function: Callable[[int], None], address: int
) -> None:
    """Give back a chunk when nothing uses it any more."""
    # The memory of a device that is lost went with it.
    with suppress(CudaError):
        driver.use(number)
        driver.synchronize()
        function(address)


def _give_back_stream(driver: Driver, number: int, stream: Handle) -> None:
    """Give back a stream; nothing is under way on it."""
    with suppress(CudaError):
        driver.use(number)
        driver.destroy_stream(stream)


class Cuda:
    """CUDA devices, by their numbers, as `driver` drives them."""

    def __init__(self, driver: Driver):
        self.driver = driver
        self.is_simulated = driver.is_simulated
        self._works: list[Work] = []
        self._streams: dict[int, Handle] = {}
        """Device: the stream of copies while no program runs."""
        self._lock = threading.Lock()

    def allocate(self, size: int, number: int = 0) -> CudaChunk:
        """Memory for `size` bytes on a device, all zero."""
        self._open(number)
        return self._cleared(CudaChunk(self, number, size, is_pinned=False), size)

    def allocate_pinned(self, size: int, number: int = 0) -> CudaChunk:
        """Memory of the host, all zero, which is copied to and from a device."""
        self._open(number)
        return self._cleared(CudaChunk(self, number, size, is_pinned=True), size)

    @staticmethod
    def _cleared(chunk: CudaChunk, size: int) -> CudaChunk:
        chunk.clear(size)
        return chunk

    def _open(self, number: int) -> None:
        """Let calls refer to a device. Raises CudaError if there is none."""
        count = self.driver.count
        if number >= count:
            those = "there is one" if count == 1 else f"there are {count}"
            raise CudaError(f"the program needs CUDA device {number}, {those}")
        if number not in self._streams:
            self.driver.open(number)
            stream = self._streams[number] = self.driver.stream()
            weakref.finalize(self, _give_back_stream, self.driver, number, stream)
        self.driver.use(number)

    def finish(self, number: int, work: Callable[[Driver, Handle], None]) -> None:
        """Ask a device for something, and wait for it."""
        with self._lock:
            self._open(number)
            work(self.driver, self._streams[number])
            self.driver.synchronize_stream(self._streams[number])

    def run_kernel(self, source: str, arrays: Sequence[Array]) -> int:
        """
        Run the kernel of a module text on flat arrays, one an argument, which are
        written in place; booleans are `uint8`. The code of the assertion that failed,
        or 0.
        """
        chunks = [self.allocate(array.nbytes) for array in arrays]
        for chunk, array in zip(chunks, arrays, strict=True):
            chunk.write(0, array)
        status = self.allocate(WORD)
        sizes = [*(array.nbytes for array in arrays), WORD]
        spans = [
            Span(chunk.address, size, True)
            for chunk, size in zip((*chunks, status), sizes, strict=True)
        ]
        words = [chunk.address for chunk in chunks]
        functions = chosen(self.driver.load("kernel", source), words)
        room = self.allocate(room_of(functions))

        def launch(driver: Driver, stream: Handle) -> None:
            for each in launches_of(driver, functions, spans, room.address):
                each(stream)

        self.finish(0, launch)
        for chunk, array in zip(chunks, arrays, strict=True):
            array[...] = chunk.read(0, array.nbytes).view(array.dtype)
        return int(status.read(0, WORD).view(np.int32)[0])

    # Programs

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The placeholder of the launch of a kernel until the program is wired."""
        return self._stand_in(Launching(kernel, source), args)

    def copy(self, size: int, source: Argument, target: Argument) -> Call:
        """The placeholder of a copy until the program is wired."""
        return self._stand_in(Copying(size), (source, target))

    def _stand_in(self, work: Work, args: Sequence[Argument]) -> Call:
        self._works.append(work)
        # No kernel is there.
        return Call(-len(self._works), tuple(args))

    def _work_of(self, call: Call) -> Work:
        return self._works[-call.kernel - 1]

    def wire(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        places: Sequence[Place | None],
        worker: int,
    ) -> Wired:
        """
        The program with calls in place of their placeholders. Launches are made on one
        worker; waiters have those after it.
        """
        if not any(places):
            return Wired(registers, actors)
        for number in {place.device for place in places if place is not None}:
            self._open(number)
            self.driver.prepare(self._sources(actors, places, number))
        flow = Flow(registers, actors, places)
        return wire(CudaProgram(self.driver, flow, self._work_of), flow, worker)

    def _sources(
        self, actors: Sequence[Actor], places: Sequence[Place | None], number: int
    ) -> dict[str, str]:
        """The sources of the kernels that a device has to run, by name."""
        works = [
            self._work_of(call)
            for actor, place in zip(actors, places, strict=True)
            if place is not None and place.device == number
            for call in actor.calls
        ]
        return {x.kernel.name: x.source for x in works if isinstance(x, Launching)}
