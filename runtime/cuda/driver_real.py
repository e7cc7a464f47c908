"""
CUDA on a card, by way of `cuda.bindings`: the one module that imports its driver.

Each device has its primary context, which is shared with other libraries of the
process. It is lost when a kernel breaks something; `open` makes it anew then, without
its memory.
"""

# cuda.bindings carries few types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, cast

from penstock.runtime.cuda.driver import (
    CaptureError,
    CudaError,
    Function,
    Handle,
    Launch,
    Span,
)
from penstock.runtime.cuda.libraries.registry import Bound, forget, with_calls
from penstock.runtime.errors import OutOfMemory, PenstockError, how_to_install
from penstock.runtime.jit.cubin import CompiledStage, compile_kernels

LOST = (
    "ASSERT",
    "CONTEXT_IS_DESTROYED",
    "ECC_UNCORRECTABLE",
    "HARDWARE_STACK_ERROR",
    "ILLEGAL_ADDRESS",
    "ILLEGAL_INSTRUCTION",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "LAUNCH_FAILED",
    "LAUNCH_TIMEOUT",
    "MISALIGNED_ADDRESS",
    "UNKNOWN",
)
"""Errors after which a context is of no use, without CUDA_ERROR_ before them."""
STATIC_LIMIT = 48 * 1024
"""Bytes of shared memory that a launch gets without being allowed more."""
NO_DEVICE = "there is no CUDA device"


@cache
def open_driver() -> RealDriver:
    """The driver of this process. Raises CudaError if there is no device."""
    return RealDriver(_bindings())


def _bindings() -> Any:
    try:
        return import_module("cuda.bindings.driver")
    except ImportError as error:
        raise CudaError(
            f"devices for CUDA are driven by a package: {how_to_install('cuda')}"
        ) from error


class RealDriver:
    """
    The driver of the CUDA devices of this machine. `api` is the module
    `cuda.bindings.driver`. Raises CudaError if there is no device.
    """

    is_simulated = False

    def __init__(self, api: Any):
        self._api = api
        self._lost: set[int] = set()
        self._contexts: dict[int, object] = {}
        self._modules: dict[tuple[int, bytes], object] = {}
        self._kernels: dict[tuple[int, str], tuple[Function, ...]] = {}
        self._chosen = threading.local()
        self._lock = threading.Lock()
        self._fatal = {
            value
            for name in LOST
            if (value := getattr(api.CUresult, f"CUDA_ERROR_{name}", None)) is not None
        }
        self.count: int = self._count_devices()

    def _count_devices(self) -> int:
        api = self._api
        try:
            (code,) = api.cuInit(0)
        except Exception as error:
            # The bindings look for the library of the driver in the first call.
            raise CudaError(
                f"{NO_DEVICE}: the library of the driver cannot be loaded"
            ) from error
        if code:
            raise CudaError(f"{NO_DEVICE}: {self._text_of(code)}")
        count = cast("int", self._call("cuDeviceGetCount"))
        if not count:
            raise CudaError(NO_DEVICE)
        return count

    # Errors

    def _call(self, name: str, *args: object) -> Any:
        """The results of a function of the driver besides its code."""
        code, *found = getattr(self._api, name)(*args)
        if code:
            self._fail(name, code)
        return found[0] if found else None

    def _fail(self, name: str, code: Any) -> None:
        """Raise CudaError for the code that a function returned."""
        text = f"{name} failed: {self._text_of(code)}"
        device = getattr(self._chosen, "device", None)
        if code not in self._fatal or device is None:
            raise CudaError(text)
        with self._lock:
            self._lost.add(device)
        raise CudaError(f"{text}; {_lost(device)}", is_lost=True)

    def _text_of(self, code: Any) -> str:
        """The name and the meaning of a code."""
        words: list[str] = []
        for function in (self._api.cuGetErrorName, self._api.cuGetErrorString):
            failed, text = function(code)
            words.append(f"error {int(code)}" if failed else text.decode())
        return ": ".join(dict.fromkeys(words))

    # Devices

    def open(self, device: int) -> None:
        """Make a device ready for use, also again after it was lost."""
        with self._lock:
            handle = self._call("cuDeviceGet", device)
            if device in self._lost:
                self._forget(device)
                self._call("cuDevicePrimaryCtxReset", handle)
            if device not in self._contexts:
                context = self._call("cuDevicePrimaryCtxRetain", handle)
                self._contexts[device] = context
        self.use(device)

    def _forget(self, device: int) -> None:
        """Forget the objects of a device that was lost."""
        self._lost.discard(device)
        self._modules = {x: m for x, m in self._modules.items() if x[0] != device}
        self._kernels = {x: k for x, k in self._kernels.items() if x[0] != device}
        self._contexts.pop(device, None)
        forget(device)
        # Contexts that threads have chosen are no more.
        self._chosen = threading.local()

    def use(self, device: int) -> None:
        """Let calls of this thread refer to a device from now on."""
        if device in self._lost:
            raise CudaError(_lost(device), is_lost=True)
        if getattr(self._chosen, "device", None) != device:
            self._call("cuCtxSetCurrent", self._contexts[device])
            self._chosen.device = device

    def synchronize(self) -> None:
        """Wait for all that the device has been asked for."""
        self._call("cuCtxSynchronize")

    def attribute(self, name: str) -> int:
        """A number that the device says of itself, by its name in the driver's API."""
        names = self._api.CUdevice_attribute
        kind = getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}")
        handle = self._call("cuDeviceGet", self._chosen.device)
        return int(self._call("cuDeviceGetAttribute", kind, handle))

    def describe(self) -> str:
        """The name of the first device, its capability, and its driver."""
        handle = self._call("cuDeviceGet", 0)
        name = self._call("cuDeviceGetName", 64, handle).split(b"\0")[0].decode()
        self.open(0)
        major, minor = self._capability()
        version = self._call("cuDriverGetVersion")
        return f"{name}, sm_{major}{minor}, driver {version}"

    # Memory

    def allocate(self, size: int) -> int:
        """The address of new memory on the device, not cleared."""
        code, address = self._api.cuMemAlloc(size)
        if code == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, _ = self._api.cuMemGetInfo()[1:]
            device = self._chosen.device
            raise OutOfMemory(size, f"CUDA device {device}", int(free), device)
        if code:
            self._fail("cuMemAlloc", code)
        return int(address)

    def free(self, address: int) -> None:
        """Give back memory of the device, which nothing uses any more."""
        self._call("cuMemFree", address)

    def allocate_host(self, size: int) -> int:
        """The address of new memory of the host that all devices may copy from."""
        portable = self._api.CU_MEMHOSTALLOC_PORTABLE
        code, address = self._api.cuMemHostAlloc(size, portable)
        if code == self._api.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(size, "the host, pinned for CUDA")
        if code:
            self._fail("cuMemHostAlloc", code)
        return int(address)

    def free_host(self, address: int) -> None:
        """Give back memory of the host."""
        self._call("cuMemFreeHost", address)

    # Streams and events

    def stream(self) -> Handle:
        """A new stream, which waits for no other one of itself."""
        flag = self._api.CUstream_flags.CU_STREAM_NON_BLOCKING
        return self._call("cuStreamCreate", int(flag))

    def event(self) -> Handle:
        """A new event, which keeps no times."""
        flag = self._api.CUevent_flags.CU_EVENT_DISABLE_TIMING
        return self._call("cuEventCreate", int(flag))

    def destroy_stream(self, stream: Handle) -> None:
        """Give back a stream on which nothing is under way."""
        self._call("cuStreamDestroy", stream)

    def destroy_event(self, event: Handle) -> None:
        """Give back an event."""
        self._call("cuEventDestroy", event)

    def record(self, event: Handle, stream: Handle) -> None:
        """Let an event stand for all that the stream has been asked for so far."""
        (code,) = self._api.cuEventRecord(event, stream)
        if code:
            self._fail("cuEventRecord", code)

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let later work on a stream wait for the work that an event now marks."""
        (code,) = self._api.cuStreamWaitEvent(stream, event, 0)
        if code:
            self._fail("cuStreamWaitEvent", code)

    def synchronize_event(self, event: Handle) -> None:
        """Wait, without the GIL, for the work that an event marks."""
        self._call("cuEventSynchronize", event)

    def synchronize_stream(self, stream: Handle) -> None:
        """Wait, without the GIL, for all that a stream has been asked for."""
        self._call("cuStreamSynchronize", stream)

    # Work

    def copy(self, target: int, source: int, size: int, stream: Handle) -> None:
        """Copy bytes between any two memories."""
        (code,) = self._api.cuMemcpyAsync(target, source, size, stream)
        if code:
            self._fail("cuMemcpyAsync", code)

    def clear(self, address: int, size: int, stream: Handle) -> None:
        """Let bytes of a device be 0."""
        self._call("cuMemsetD8Async", address, 0, size, stream)

    def prepare(self, sources: Mapping[str, str]) -> None:
        """Compile kernels, by name, several at once: `load` is quick for them."""
        compile_kernels(sources, self._capability())

    def load(self, name: str, source: str) -> tuple[Function, ...]:
        """The stages of a kernel that have work, each before its fallback."""
        key = self._chosen.device, source
        if key not in self._kernels:
            stages = compile_kernels({name: source}, self._capability())[name]
            functions = [*map(self._function, stages)]
            made = with_calls(name, source, functions, self._chosen.device)
            for function in made:
                self._warm_up(function)
            self._kernels[key] = made
        return self._kernels[key]

    def _warm_up(self, function: Function) -> None:
        """
        Let a library compute something of the same size, so that nothing is left to be
        loaded or allocated when its work is captured.
        """
        if not isinstance(bound := function.handle, Bound):
            return
        # Where there is no room for that, capturing shows whether it is needed.
        stream, made = self.stream(), list[int]()
        try:
            with suppress(OutOfMemory):
                own = [function.room] if function.room else []
                for size in (*bound.call.wanted.sizes, *own):
                    made.append(self.allocate(size))
                bound.library.bind(bound.call.wanted, made, bound.device)(stream)
                self.synchronize_stream(stream)
        finally:
            for address in made:
                self.free(address)
            self.destroy_stream(stream)

    def _capability(self) -> tuple[int, int]:
        major = self.attribute("COMPUTE_CAPABILITY_MAJOR")
        return major, self.attribute("COMPUTE_CAPABILITY_MINOR")

    def _function(self, stage: CompiledStage) -> Function:
        handle = self._call(
            "cuModuleGetFunction", self._module(stage), stage.name.encode()
        )
        if stage.dynamic_shared + stage.shared > STATIC_LIMIT:
            self._allow_shared(handle, stage)
        per_processor = self._call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            handle,
            stage.threads,
            stage.dynamic_shared,
        )
        resident = int(per_processor) * self.attribute("MULTIPROCESSOR_COUNT")
        if not resident:
            raise PenstockError(f"the device cannot run a block of '{stage.name}'")
        what = stage.name, handle, stage.items, stage.threads, stage.blockwise
        shared, cooperative = stage.dynamic_shared, stage.cooperative
        return Function(*what, stage.is_fallback, resident, shared, cooperative)

    def _allow_shared(self, handle: object, stage: CompiledStage) -> None:
        """Let launches of a function have more shared memory than is usual."""
        names = self._api.CUfunction_attribute
        kind = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        most = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        if (needed := stage.dynamic_shared + stage.shared) > most:
            raise PenstockError(
                f"'{stage.name}' needs {needed} bytes of shared memory, "
                f"the device has {most}"
            )
        self._call("cuFuncSetAttribute", handle, kind, stage.dynamic_shared)

    def _module(self, stage: CompiledStage) -> object:
        key = self._chosen.device, stage.cubin
        if (found := self._modules.get(key)) is None:
            found = self._modules[key] = self._call("cuModuleLoadData", stage.cubin)
        return found

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch with addresses as arguments."""
        if isinstance(function.handle, Bound):
            return function.handle.bind(words)
        cells = (ctypes.c_uint64 * len(words))(*words)
        first, step = ctypes.addressof(cells), ctypes.sizeof(ctypes.c_uint64)
        places = (ctypes.c_void_p * len(words))(
            *(first + step * index for index in range(len(words)))
        )
        geometry = function.blocks, 1, 1, function.threads, 1, 1, function.shared
        packed = ctypes.addressof(places)
        if function.cooperative:
            return self._together(function.handle, geometry, packed, (cells, places))
        start: Callable[..., tuple[Any]] = self._api.cuLaunchKernel
        handle = function.handle

        # The arrays have to live as long as the function that uses them.
        def launch(stream: Handle, _kept: object = (cells, places)) -> None:
            (code,) = start(handle, *geometry, stream, packed, 0)
            if code:
                self._fail("cuLaunchKernel", code)

        return launch

    def _together(
        self, handle: Handle, geometry: tuple[int, ...], packed: int, kept: object
    ) -> Launch:
        """A launch all of whose blocks run at a time."""

        def launch(stream: Handle, _kept: object = kept) -> None:
            self._call("cuLaunchCooperativeKernel", handle, *geometry, stream, packed)

        return launch

    # Graphs

    def begin_capture(self, stream: Handle) -> None:
        """Capture the work of a stream, and of those that wait for it, undone."""
        modes = self._api.CUstreamCaptureMode
        mode = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        try:
            self._call("cuStreamBeginCapture", stream, mode)
        except CudaError as error:
            raise CaptureError(str(error), is_lost=error.is_lost) from error

    def end_capture(self, stream: Handle) -> Handle:
        """The graph of a capture. Raises CaptureError if there can be none."""
        try:
            graph = self._call("cuStreamEndCapture", stream)
            try:
                made = self._call("cuGraphInstantiate", graph, 0)
            finally:
                self._call("cuGraphDestroy", graph)
            self._call("cuGraphUpload", made, stream)
            self._call("cuStreamSynchronize", stream)
        except CudaError as error:
            raise CaptureError(str(error), is_lost=error.is_lost) from error
        return made

    def launch_graph(self, graph: Handle, stream: Handle) -> None:
        """Do on a stream all that a graph is of."""
        (code,) = self._api.cuGraphLaunch(graph, stream)
        if code:
            self._fail("cuGraphLaunch", code)

    def destroy_graph(self, graph: Handle) -> None:
        """Give back a graph that is not under way."""
        self._call("cuGraphExecDestroy", graph)


def _lost(device: int) -> str:
    return f"CUDA device {device} is lost: open a new session"
