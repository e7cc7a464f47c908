"""
CUDA in Numba's simulator: kernels run as Python, one thread of a block after the other.

Memory of the device is the host's, and all is done when a call returns. Indices of
kernels are checked at both ends of each buffer, and all memory has guard zones. It
works in processes that were told by NUMBA_ENABLE_CUDASIM=1, before Numba was imported.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence

from penstock.runtime.cuda.driver import (
    CaptureError,
    Function,
    Handle,
    Launch,
    Span,
)
from penstock.runtime.cuda.host_memory import GuardedMemory
from penstock.runtime.cuda.launches import check_aligned
from penstock.runtime.cuda.libraries.registry import Bound, with_calls
from penstock.runtime.cuda.simulator import (
    SimulatedStage,
    simulate,
    simulated_geometry,
    simulated_stages,
)
from penstock.runtime.errors import OutOfMemory
from penstock.runtime.loading.kernel_failures import compiling
from penstock.runtime.loading.memory import host_bytes

DEVICES = 64
"""As many as needed."""


class SimulatedDriver:
    """The driver in Numba's simulator, with as many devices as needed."""

    is_simulated = True
    count = DEVICES

    def __init__(self) -> None:
        self._memory = GuardedMemory()
        self._kernels: dict[str, tuple[Function, ...]] = {}
        # Numba simulates one launch at a time.
        self._lock = threading.Lock()

    # Devices

    def open(self, device: int) -> None:
        """A device is always ready."""

    def use(self, device: int) -> None:
        """All devices are one."""

    def synchronize(self) -> None:
        """Nothing is ever under way."""

    # Memory

    def allocate(self, size: int) -> int:
        """The address of new memory, from a page boundary on."""
        try:
            return self._memory.allocate(size, is_poisoned=False)
        except (MemoryError, ValueError) as error:
            raise OutOfMemory(size, "a simulated CUDA device") from error

    def free(self, address: int) -> None:
        """Give back memory."""
        self._memory.free(address)

    def allocate_host(self, size: int) -> int:
        """The address of new memory, from a page boundary on."""
        return self.allocate(size)

    def free_host(self, address: int) -> None:
        """Give back memory."""
        self.free(address)

    # Streams and events

    def stream(self) -> Handle:
        """One that is like any other."""
        return 0

    event = stream

    def destroy_stream(self, stream: Handle) -> None:
        """There is nothing to give back."""

    def destroy_event(self, event: Handle) -> None:
        """There is nothing to give back."""

    def record(self, event: Handle, stream: Handle) -> None:
        """All is done already."""

    def wait(self, stream: Handle, event: Handle) -> None:
        """All is done already."""

    def synchronize_event(self, event: Handle) -> None:
        """All is done already."""

    def synchronize_stream(self, stream: Handle) -> None:
        """All is done already."""

    # Work

    def copy(self, target: int, source: int, size: int, stream: Handle) -> None:
        """Copy bytes."""
        ctypes.memmove(target, source, size)
        self._memory.check()

    def clear(self, address: int, size: int, stream: Handle) -> None:
        """Let bytes be 0."""
        ctypes.memset(address, 0, size)
        self._memory.check()

    def prepare(self, sources: Mapping[str, str]) -> None:
        """Nothing is compiled."""

    def load(self, name: str, source: str) -> tuple[Function, ...]:
        """The stages of a kernel that have work, each before its fallback."""
        if source not in self._kernels:
            with compiling(name):
                functions = _functions(source)
            self._kernels[source] = with_calls(name, source, functions, 0)
        return self._kernels[source]

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch with addresses as arguments, of which `spans` say the sizes."""
        entry = function.handle
        if isinstance(entry, Bound):
            return self._guarded(entry.bind(words))
        assert isinstance(entry, SimulatedStage), "it is a function of this driver"
        if entry.fallback is not None:
            check_aligned(function.name, words)
        arrays = [
            host_bytes(span.address, span.size).view(dtype)
            for span, dtype in zip(spans, entry.dtypes, strict=True)
        ]

        def launch(stream: Handle) -> None:
            with self._lock:
                simulate(entry, arrays)

        return self._guarded(launch)

    def _guarded(self, launch: Launch) -> Launch:
        """A launch after which the ends of all memory are looked at."""

        def launch_and_check(stream: Handle) -> None:
            launch(stream)
            self._memory.check()

        return launch_and_check

    # Graphs

    def begin_capture(self, stream: Handle) -> None:
        """Raise CaptureError: nothing is left for later."""
        raise CaptureError("the simulator captures no graphs")

    def end_capture(self, stream: Handle) -> Handle:
        """Nothing is ever captured."""
        raise CaptureError("the simulator captures no graphs")

    def launch_graph(self, graph: Handle, stream: Handle) -> None:
        """There are no graphs."""

    def destroy_graph(self, graph: Handle) -> None:
        """There are no graphs."""


def _functions(source: str) -> tuple[Function, ...]:
    found: list[Function] = []
    for entry in simulated_stages(source):
        found.append(_function(entry, is_fallback=False))
        if entry.fallback is not None:
            found.append(_function(entry.fallback, is_fallback=True))
    return tuple(function for function in found if function.items)


def _function(entry: SimulatedStage, *, is_fallback: bool) -> Function:
    """The facts about a stage."""
    stage = entry.stage
    blocks, threads = simulated_geometry(stage)
    what = stage.function.__name__, entry, stage.items, threads, stage.blockwise
    return Function(*what, is_fallback, max(blocks, 1), stage.dynamic_shared)
