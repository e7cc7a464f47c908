"""
A double of CUDA that keeps a log of all calls, and needs neither a card nor Numba.

It can do what it is asked for: copies, and kernels by NumPy (`cuda_lockstep_emulator`).
Work waits until somebody waits for it, and is then done in an order of chance among
those that streams and events allow; so what depends on an order that nothing ensures
goes wrong. Memory of devices is the host's, and has guard zones
(`penstock.runtime.cuda.host_memory`).
"""

from __future__ import annotations

import builtins
import ctypes
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, cast

import numpy as np

from penstock.runtime.cuda.driver import (
    CaptureError,
    CudaError,
    Function,
    Handle,
    Launch,
    Span,
)
from penstock.runtime.cuda.host_memory import GuardedMemory
from penstock.runtime.cuda.launches import check_aligned
from penstock.runtime.cuda.libraries.registry import Bound, with_calls
from penstock.runtime.errors import OutOfMemory
from penstock.runtime.kernels.cuda.stages import MOST_BLOCKS, Stage, stages_in
from penstock.runtime.loading.memory import host_bytes

SUPPORT = "penstock.runtime.kernels.cuda.support"


class Entry(NamedTuple):
    """
    A call: of the function `call` of a driver, by a thread, for a device. Streams,
    events and graphs have numbers.
    """

    call: str
    thread: int
    device: int
    stream: int | None = None
    event: int | None = None
    graph: int | None = None
    spans: tuple[Span, ...] = ()
    """The memory that is read or written; or that is new or released."""
    name: str = ""
    """
    The kernel that is launched and its stage, or which is loaded and how many it has;
    or what a note says.
    """


@dataclass
class _Work:
    """Something that a stream was asked for, and what has to be done before."""

    run: Callable[[], None]
    before: list[_Work]
    is_done: bool = False


@dataclass
class _Graph:
    """A captured graph: each step, the numbers of those before it; and its streams."""

    origin: int
    steps: list[tuple[Callable[[], None], list[int]]] = field(
        default_factory=list[tuple[Callable[[], None], list[int]]]
    )
    tails: dict[int, int | None] = field(default_factory=dict[int, int | None])
    """Stream: its last step; a stream that takes part has an entry."""
    events: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Event that was recorded: the steps that it stands for."""
    thread: int = 0


class RecordedDriver:
    """
    A `Driver` with a log. Kernels run only if it `executes`; `memory` is the bytes of
    each device, `captures` whether there are graphs.
    """

    is_simulated = True

    def __init__(
        self,
        *,
        executes: bool = True,
        seed: int = 0,
        devices: int = 8,
        memory: int = 1 << 30,
        captures: bool = True,
    ):
        self.count = devices
        self.log: list[Entry] = []
        self.executes = executes
        self._captures = captures
        self._random = Random(seed)
        self._chosen = threading.local()
        self._lock = threading.RLock()
        self._free = dict.fromkeys(range(devices), memory)
        self._memory = GuardedMemory()
        self._devices: dict[int, int] = {}
        """Address: the device that has the memory, or -1 for the host."""
        self._numbers = 0
        self._graphs: dict[int, _Graph] = {}
        self._tails: dict[int, _Work] = {}
        self._events: dict[int, _Work | None] = {}
        self._pending: list[_Work] = []
        self._capturing: list[_Graph] = []
        self._kernels: dict[tuple[str, str], tuple[Function, ...]] = {}

    def note(self, name: str, spans: Sequence[Span] = ()) -> None:
        """Leave an entry of the caller's own in the log."""
        self._log("note", name=name, spans=tuple(spans))

    def _log(
        self,
        call: str,
        stream: Handle = None,
        event: Handle = None,
        graph: Handle = None,
        spans: tuple[Span, ...] = (),
        name: str = "",
    ) -> None:
        handles = tuple(cast("int | None", x) for x in (stream, event, graph))
        with self._lock:
            device = cast("int", getattr(self._chosen, "device", -1))
            thread = threading.get_ident()
            stream, event, graph = handles
            entry = Entry(call, thread, device, stream, event, graph, spans, name)
            self.log.append(entry)

    def _number(self) -> int:
        with self._lock:
            self._numbers += 1
            return self._numbers

    # Devices

    def open(self, device: int) -> None:
        """Let calls of this thread refer to a device."""
        self.use(device)

    def use(self, device: int) -> None:
        """Let calls of this thread refer to a device from now on."""
        self._chosen.device = device

    def synchronize(self) -> None:
        """Do all that any device has been asked for."""
        with self._lock:
            self._log("synchronize")
            self._do(list(self._pending))

    # Memory

    def allocate(self, size: int) -> int:
        """The address of new memory on the device."""
        device = cast("int", self._chosen.device)
        with self._lock:
            if size > self._free[device]:
                free = self._free[device]
                raise OutOfMemory(size, f"CUDA device {device}", free, device)
            return self._own("allocate", size, device)

    def allocate_host(self, size: int) -> int:
        """The address of new memory of the host."""
        with self._lock:
            return self._own("allocate_host", size, -1)

    def _own(self, call: str, size: int, device: int) -> int:
        address = self._memory.allocate(size, is_poisoned=True)
        self._devices[address] = device
        if device >= 0:
            self._free[device] -= size
        self._log(call, spans=(Span(address, size, True),))
        return address

    def free(self, address: int) -> None:
        """Give back memory of a device. Work that uses it then goes wrong."""
        self._give_back("free", address)

    def free_host(self, address: int) -> None:
        """Give back memory of the host."""
        self._give_back("free_host", address)

    def _give_back(self, call: str, address: int) -> None:
        with self._lock:
            size, device = self._memory.free(address), self._devices.pop(address)
            if device >= 0:
                self._free[device] += size
            self._log(call, spans=(Span(address, size, True),))

    # Streams and events

    def stream(self) -> Handle:
        """A new stream."""
        number = self._number()
        self._log("create_stream", stream=number)
        return number

    def event(self) -> Handle:
        """A new event."""
        number = self._number()
        self._log("create_event", event=number)
        return number

    def destroy_stream(self, stream: Handle) -> None:
        """Give back a stream."""
        self._log("destroy_stream", stream)

    def destroy_event(self, event: Handle) -> None:
        """Give back an event."""
        self._log("destroy_event", event=event)

    def record(self, event: Handle, stream: Handle) -> None:
        """Let an event stand for all that the stream has been asked for so far."""
        number, source = cast("int", event), cast("int", stream)
        with self._lock:
            self._log("record", stream, event)
            if (graph := self._capture_of(source)) is not None:
                tail = graph.tails[source]
                graph.events[number] = [] if tail is None else [tail]
            else:
                self._events[number] = self._tails.get(source)

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let all that follows on a stream come after what an event stands for now."""
        number, target = cast("int", event), cast("int", stream)
        with self._lock:
            self._log("wait", stream, event)
            for graph in self._capturing:
                if number in graph.events:
                    graph.tails.setdefault(target, None)
                    self._step(graph, target, _nothing, graph.events[number])
                    return
            if self._capture_of(target) is not None:
                raise CudaError("a capture waits for an event from outside of it")
            work = self._events.get(number)
            self._add(target, _nothing, [work] if work is not None else [])

    def synchronize_event(self, event: Handle) -> None:
        """Do what an event stands for, and perhaps more."""
        with self._lock:
            self._log("synchronize_event", event=event)
            work = self._events.get(cast("int", event))
            self._do([] if work is None else [work])

    def synchronize_stream(self, stream: Handle) -> None:
        """Do all that a stream has been asked for, and perhaps more."""
        with self._lock:
            self._log("synchronize_stream", stream)
            work = self._tails.get(cast("int", stream))
            self._do([] if work is None else [work])

    # Work

    def _capture_of(self, stream: int) -> _Graph | None:
        """The graph that a stream is captured for."""
        return next((x for x in self._capturing if stream in x.tails), None)

    def _ask(self, stream: Handle, run: Callable[[], None]) -> None:
        """Let a stream do something some time, or a capture note it."""
        number = cast("int", stream)
        if (graph := self._capture_of(number)) is not None:
            self._step(graph, number, run, [])
        else:
            self._add(number, run, [])

    @staticmethod
    def _step(
        graph: _Graph, stream: int, run: Callable[[], None], before: Sequence[int]
    ) -> None:
        tail = graph.tails[stream]
        graph.steps.append((run, [*before, *([] if tail is None else [tail])]))
        graph.tails[stream] = len(graph.steps) - 1

    def _add(
        self, stream: int, run: Callable[[], None], before: Sequence[_Work]
    ) -> _Work:
        last = self._tails.get(stream)
        work = _Work(run, [*before, *([] if last is None else [last])])
        self._tails[stream] = work
        self._pending.append(work)
        return work

    def _do(self, wanted: Sequence[_Work]) -> None:
        """Do some work, what has to come before it, and by chance other work."""
        needed: set[int] = set()
        pending = list(wanted)
        while pending:
            work = pending.pop()
            if id(work) not in needed and not work.is_done:
                needed.add(id(work))
                pending += work.before
        while needed:
            ready = [x for x in self._pending if all(y.is_done for y in x.before)]
            chosen = ready[self._random.randrange(len(ready))]
            if id(chosen) not in needed and self._random.random() < 0.5:
                continue
            chosen.run()
            self._memory.check()
            chosen.is_done, chosen.before = True, []
            self._pending.remove(chosen)
            needed.discard(id(chosen))

    def copy(self, target: int, source: int, size: int, stream: Handle) -> None:
        """Copy bytes some time."""
        spans = Span(source, size, False), Span(target, size, True)
        with self._lock:
            self._log("copy", stream, spans=spans)
            self._ask(stream, _moving(target, source, size))

    def clear(self, address: int, size: int, stream: Handle) -> None:
        """Let bytes be 0 some time."""
        with self._lock:
            self._log("clear", stream, spans=(Span(address, size, True),))
            self._ask(stream, lambda: _clear(address, size))

    def prepare(self, sources: Mapping[str, str]) -> None:
        """Nothing is compiled."""

    def load(self, name: str, source: str) -> tuple[Function, ...]:
        """The stages of a kernel that have work, each before its fallback."""
        key = name, source
        if key not in self._kernels:
            own = [entry.function for entry in _stages_of(source)]
            device = cast("int", self._chosen.device)
            found = with_calls(name, source, own, device)
            made = tuple(x._replace(name=f"{name}.{x.name}") for x in found)
            self._kernels[key] = made
            count = sum(not function.is_fallback for function in made)
            self._log("load", name=f"{name} {count}")
        return self._kernels[key]

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch with addresses as arguments."""
        assert list(words) == [span.address for span in spans], "in their order"
        entry, uses = function.handle, tuple(spans)
        if isinstance(entry, _Loaded) and entry.stage.fallback is not None:
            check_aligned(function.name, words)

        def launch(stream: Handle) -> None:
            with self._lock:
                self._log("launch", stream, spans=uses, name=function.name)
                run = _run_of(entry, uses, stream) if self.executes else _nothing
                self._ask(stream, run)

        return launch

    # Graphs

    def begin_capture(self, stream: Handle) -> None:
        """Note what a stream, and those that wait for it, are asked for, only."""
        if not self._captures:
            raise CaptureError("this driver captures no graphs")
        number = cast("int", stream)
        with self._lock:
            self._log("begin_capture", stream)
            self._capturing.append(_Graph(number, tails={number: None}))

    def end_capture(self, stream: Handle) -> Handle:
        """
        The graph of what was captured. Raises CaptureError if a stream took part whose
        end nobody has waited for.
        """
        with self._lock:
            graph = next(x for x in self._capturing if x.origin == stream)
            self._capturing.remove(graph)
            number = self._number()
            self._log("end_capture", stream, graph=number)
            if len(_ancestors(graph)) < len(graph.steps):
                raise CaptureError("a captured stream was not joined")
            self._graphs[number] = graph
            return number

    def launch_graph(self, graph: Handle, stream: Handle) -> None:
        """Do on a stream some time all that a graph is of."""
        with self._lock:
            self._log("launch_graph", stream, graph=graph)
            number = cast("int", stream)
            first = self._add(number, _nothing, [])
            made: list[_Work] = []
            for run, before in self._graphs[cast("int", graph)].steps:
                made.append(_Work(run, [first, *(made[x] for x in before)]))
            self._pending += made
            self._add(number, _nothing, made)

    def destroy_graph(self, graph: Handle) -> None:
        """Give back a graph."""
        with self._lock:
            self._log("destroy_graph", graph=graph)
            del self._graphs[cast("int", graph)]


def _ancestors(graph: _Graph) -> set[int]:
    """The steps of a graph that come before the end of its first stream."""
    tail = graph.tails[graph.origin]
    pending = [] if tail is None else [tail]
    found: set[int] = set()
    while pending:
        if (step := pending.pop()) not in found:
            found.add(step)
            pending += graph.steps[step][1]
    return found


def _nothing() -> None:
    """Do nothing: a step for the order of others only."""


def _moving(target: int, source: int, size: int) -> Callable[[], None]:
    return lambda: cast("None", ctypes.memmove(target, source, size))


def _clear(address: int, size: int) -> None:
    ctypes.memset(address, 0, size)


# Kernels


@dataclass(frozen=True)
class _Loaded:
    """A stage, and the dtypes of its arguments."""

    stage: Stage
    is_fallback: bool
    dtypes: tuple[np.dtype[np.generic], ...]

    @property
    def function(self) -> Function:
        """The properties of the function."""
        stage = self.stage
        what = stage.function.__name__, self, stage.items, stage.threads
        kind = stage.blockwise, self.is_fallback, MOST_BLOCKS
        return Function(*what, *kind, stage.dynamic_shared, stage.cooperative)

    def on(self, spans: Sequence[Span]) -> Callable[[], None]:
        """A function that runs it on these bytes."""
        pairs = list(zip(spans, self.dtypes, strict=True))

        def run() -> None:
            from penstock.runtime.testing.cuda_lockstep_emulator import (
                Buffer,
                run_stage,
            )

            arrays = [host_bytes(x.address, x.size).view(dtype) for x, dtype in pairs]
            with np.errstate(all="ignore"):
                run_stage(self.stage, [Buffer(array) for array in arrays])

        return run


def _run_of(entry: Handle, uses: Sequence[Span], stream: Handle) -> Callable[[], None]:
    """A function that runs a stage on these bytes."""
    if isinstance(entry, Bound):
        launch = entry.bind([span.address for span in uses])
        return lambda: launch(stream)
    return cast("_Loaded", entry).on(uses)


def _stages_of(source: str) -> list[_Loaded]:
    """
    The stages that have work of the text of a kernel, each before its fallback, whose
    functions are for NumPy.
    """
    namespace: dict[str, object] = {
        "__builtins__": {**vars(builtins), "__import__": _import}
    }
    exec(compile(source, "<kernel>", "exec"), namespace)
    names = cast("Sequence[str]", namespace["PARAMETERS"])
    dtypes = *map(np.dtype, names), np.dtype(np.int32)
    found: list[_Loaded] = []
    for stage in stages_in(namespace):
        found.append(_Loaded(stage, False, dtypes))
        if stage.fallback is not None:
            found.append(_Loaded(stage.fallback, True, dtypes))
    return [entry for entry in found if entry.stage.items]


def _import(name: str, *arguments: object) -> object:
    """Import a module; what kernels are written in is that of lanes."""
    from penstock.runtime.testing import cuda_lockstep_emulator as cuda_lanes

    if name == SUPPORT:
        return sys.modules[cuda_lanes.__name__]
    return builtins.__import__(name, *arguments)  # pyright: ignore[reportArgumentType]
