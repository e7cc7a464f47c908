"""
The protocol of a CUDA driver: memory, streams, events, launches, graphs.

Streams, events, functions and graphs are handles that only their driver understands.
There are three drivers: `driver_real` on a GPU, `driver_simulated` in Numba's
simulator, and `penstock.runtime.testing.cuda_recording_driver`, which keeps a log of
all calls and needs neither. Calls refer to the device that the calling thread has
chosen by `use`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from penstock.runtime.errors import PenstockError

Handle: TypeAlias = object
"""A stream, event, function or graph of some driver."""

Launch: TypeAlias = Callable[[Handle], None]
"""Launches something whose parameters are packed already, on a stream."""


class CudaError(PenstockError):
    """A call of the driver failed; `is_lost` if the device cannot be used any more."""

    def __init__(self, text: str, *, is_lost: bool = False):
        super().__init__(text)
        self.is_lost = is_lost


class CaptureError(CudaError):
    """A driver cannot make a graph of a capture."""


class Function(NamedTuple):
    """A stage of a kernel that is loaded on a device."""

    name: str
    handle: Handle
    items: int
    """Work: of a thread each, or of a block if it is `blockwise`."""
    threads: int
    """The threads of a block."""
    blockwise: bool
    is_fallback: bool
    """Whether it stands in for the one before where buffers are not aligned."""
    resident: int
    """The blocks that the device runs at a time."""
    shared: int = 0
    """The bytes of shared memory that a launch has to ask for."""
    cooperative: bool = False
    """Whether all blocks of a launch have to run at a time."""
    is_capturable: bool = True
    """Whether a launch may become part of a graph."""
    room: int = 0
    """
    The bytes of memory, besides its arguments, that nothing else uses while it is under
    way: their address comes last among the words of `bind`.
    """

    @property
    def blocks(self) -> int:
        """The blocks of a launch, which take further work with its stride."""
        per_block = 1 if self.blockwise else self.threads
        return max(1, min(-(-self.items // per_block), self.resident))


class Span(NamedTuple):
    """Bytes that something reads, or writes."""

    address: int
    size: int
    is_written: bool


class Driver(Protocol):
    """
    A CUDA driver. Failures raise CudaError, or OutOfMemory. All methods but
    `synchronize...` return before their work on the device is done.
    """

    is_simulated: bool
    """Whether kernels are run by something that only stands in for a device."""

    # Devices

    @property
    def count(self) -> int:
        """The number of devices."""
        ...

    def open(self, device: int) -> None:
        """Make a device ready for use, also again after it was lost."""
        ...

    def use(self, device: int) -> None:
        """Let calls of this thread refer to a device from now on."""
        ...

    def synchronize(self) -> None:
        """Wait for all that the device has been asked for."""
        ...

    # Memory

    def allocate(self, size: int) -> int:
        """The address of new memory on the device, not cleared."""
        ...

    def free(self, address: int) -> None:
        """Give back memory of the device, which nothing uses any more."""
        ...

    def allocate_host(self, size: int) -> int:
        """The address of new memory of the host that all devices may copy from."""
        ...

    def free_host(self, address: int) -> None:
        """Give back memory of the host."""
        ...

    # Streams and events

    def stream(self) -> Handle:
        """A new stream, which waits for no other one of itself."""
        ...

    def event(self) -> Handle:
        """A new event, which keeps no times."""
        ...

    def destroy_stream(self, stream: Handle) -> None:
        """Give back a stream on which nothing is under way."""
        ...

    def destroy_event(self, event: Handle) -> None:
        """Give back an event."""
        ...

    def record(self, event: Handle, stream: Handle) -> None:
        """Let an event stand for all that the stream has been asked for so far."""
        ...

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let later work on a stream wait for the work that an event now marks."""
        ...

    def synchronize_event(self, event: Handle) -> None:
        """Wait, without the GIL, for the work that an event marks."""
        ...

    def synchronize_stream(self, stream: Handle) -> None:
        """Wait, without the GIL, for all that a stream has been asked for."""
        ...

    # Work

    def copy(self, target: int, source: int, size: int, stream: Handle) -> None:
        """Copy bytes between any two memories."""
        ...

    def clear(self, address: int, size: int, stream: Handle) -> None:
        """Let bytes of a device be 0."""
        ...

    def prepare(self, sources: Mapping[str, str]) -> None:
        """Compile kernels, by name, several at once: `load` is quick for them."""
        ...

    def load(self, name: str, source: str) -> tuple[Function, ...]:
        """The stages of a kernel that have work, each before its fallback."""
        ...

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """
        A launch with addresses as arguments. `spans` give the bytes of each, and
        whether these may be written.
        """
        ...

    # Graphs

    def begin_capture(self, stream: Handle) -> None:
        """Capture the work of a stream, and of those that wait for it, undone."""
        ...

    def end_capture(self, stream: Handle) -> Handle:
        """
        The graph of a capture, ready to be launched. Raises CaptureError if there can
        be none; the capture has ended in any case.
        """
        ...

    def launch_graph(self, graph: Handle, stream: Handle) -> None:
        """Do on a stream all that a graph is of."""
        ...

    def destroy_graph(self, graph: Handle) -> None:
        """Give back a graph that is not under way."""
        ...
