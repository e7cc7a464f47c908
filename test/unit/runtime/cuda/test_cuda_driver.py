"""The driver of CUDA cards on a double of `cuda.bindings.driver`, call by call."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runtime.cuda import driver_real as real
from penstock.runtime.cuda.driver import CaptureError, CudaError, Span
from penstock.runtime.cuda.driver_real import RealDriver
from penstock.runtime.errors import OutOfMemory, PenstockError
from penstock.runtime.jit.cubin import CompiledStage

ATTRIBUTES = {
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0,
    "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 132,
    "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
}
CODES = {
    "CUDA_SUCCESS": 0,
    "CUDA_ERROR_OUT_OF_MEMORY": 2,
    "CUDA_ERROR_NO_DEVICE": 100,
    "CUDA_ERROR_ILLEGAL_ADDRESS": 700,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": 901,
}
FOUND: dict[str, tuple[Any, ...]] = {
    "cuDeviceGetCount": (2,),
    "cuDeviceGet": (7,),
    "cuDevicePrimaryCtxRetain": ("context",),
    "cuMemAlloc": (4096,),
    "cuMemGetInfo": (10, 100),
    "cuMemHostAlloc": (8192,),
    "cuStreamCreate": ("stream",),
    "cuEventCreate": ("event",),
    "cuModuleLoadData": ("module",),
    "cuModuleGetFunction": ("function",),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (3,),
    "cuStreamEndCapture": ("graph",),
    "cuGraphInstantiate": ("made",),
}
"""The results of functions after their code."""


class Api:
    """
    The part of the module that a driver uses: it notes all calls, and fails in those
    that `codes` names, once.
    """

    CU_MEMHOSTALLOC_PORTABLE = 1
    CUresult = SimpleNamespace(**CODES)
    CUdevice_attribute = SimpleNamespace(**{name: name for name in ATTRIBUTES})
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, **codes: int):
        self.codes = codes
        self.calls: list[tuple[object, ...]] = []
        self.words: list[list[int]] = []

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in ("cuGetErrorName", "cuGetErrorString"):
                names = {code: text for text, code in CODES.items()}
                return 0, names.get(args[0], "?").encode()
            if name in ("cuLaunchKernel", "cuLaunchCooperativeKernel"):
                self.words.append(unpacked(args[9]))
            if name == "cuDeviceGetAttribute":
                return 0, ATTRIBUTES[args[0]]
            code = self.codes.pop(name, 0)
            return code, *FOUND.get(name, ())

        return call

    def named(self, name: str) -> list[tuple[object, ...]]:
        """The arguments of all calls of a function."""
        return [call[1:] for call in self.calls if call[0] == name]


def unpacked(address: int) -> list[int]:
    """The parameters of a kernel of three, as the driver reads them."""
    places = (ctypes.c_void_p * 3).from_address(address)
    return [ctypes.c_uint64.from_address(place or 0).value for place in places]


def stage(**changes: Any) -> CompiledStage:
    """A stage with some machine code."""
    made = CompiledStage(
        name="stage_0",
        items=1 << 20,
        threads=256,
        blockwise=False,
        is_fallback=False,
        parameters=("u64",) * 3,
        shared=1024,
        ptx="",
        cubin=b"machine code",
        registers=32,
        stack=0,
        spill_stores=0,
        spill_loads=0,
    )
    return made._replace(**changes)


@pytest.fixture
def loading(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[Api, RealDriver]]:
    """An opened driver that finds a stage with some changes as the only one."""

    def make(**changes: Any) -> tuple[Api, RealDriver]:
        stages = {"kernel": (stage(**changes),)}

        def compiled(*_: object) -> dict[str, tuple[CompiledStage, ...]]:
            return stages

        monkeypatch.setattr(real, "compile_kernels", compiled)
        api = Api()
        driver = RealDriver(api)
        driver.open(0)
        return api, driver

    return make


def launched(driver: RealDriver) -> None:
    """Load the kernel and launch it twice."""
    (function,) = driver.load("kernel", "source")
    spans = [Span(address, 4, False) for address in (512, 1024, 2048)]
    launch = driver.bind(function, [512, 1024, 2048], spans)
    launch("stream")
    launch("stream")


def test_parameters_are_packed_once_and_blocks_are_those_that_fit(
    loading: Callable[..., tuple[Api, RealDriver]],
):
    api, driver = loading()
    launched(driver)
    first, second = api.named("cuLaunchKernel")
    assert first[:9] == ("function", 3 * 132, 1, 1, 256, 1, 1, 0, "stream")
    assert (first, first[10]) == (second, 0)
    assert api.words == [[512, 1024, 2048]] * 2
    assert api.named("cuModuleLoadData") == [(b"machine code",)]
    assert api.named("cuModuleGetFunction") == [("module", b"stage_0")]
    assert api.named("cuFuncSetAttribute") == []
    driver.load("kernel", "source")
    assert len(api.named("cuModuleLoadData")) == 1


def test_little_work_has_few_blocks(loading: Callable[..., tuple[Api, RealDriver]]):
    for items, blockwise, blocks in ((257, False, 2), (5, True, 5)):
        api, driver = loading(items=items, blockwise=blockwise)
        launched(driver)
        assert api.named("cuLaunchKernel")[0][1] == blocks


def test_much_shared_memory_is_allowed_before(
    loading: Callable[..., tuple[Api, RealDriver]],
):
    api, driver = loading(dynamic_shared=100_000)
    launched(driver)
    assert api.named("cuFuncSetAttribute") == [("function", 8, 100_000)]
    assert api.named("cuLaunchKernel")[0][7] == 100_000
    _, driver = loading(dynamic_shared=232_000)
    with pytest.raises(PenstockError) as caught:
        launched(driver)
    text = "'stage_0' needs 233024 bytes of shared memory, the device has 232448"
    assert str(caught.value) == text


def test_blocks_that_wait_for_each_other_are_launched_together(
    loading: Callable[..., tuple[Api, RealDriver]],
):
    api, driver = loading(cooperative=True)
    launched(driver)
    first, _ = api.named("cuLaunchCooperativeKernel")
    assert first[:9] == ("function", 3 * 132, 1, 1, 256, 1, 1, 0, "stream")
    assert len(first) == 10
    assert api.words[0] == [512, 1024, 2048]


def test_a_block_that_does_not_fit_is_refused(
    loading: Callable[..., tuple[Api, RealDriver]], monkeypatch: pytest.MonkeyPatch
):
    _, driver = loading()
    monkeypatch.setitem(FOUND, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (0,))
    with pytest.raises(
        PenstockError, match="the device cannot run a block of 'stage_0'"
    ):
        driver.load("kernel", "source")


def test_streams_events_and_copies_wait_for_nothing():
    api = Api()
    driver = RealDriver(api)
    driver.open(1)
    stream, event = driver.stream(), driver.event()
    driver.copy(4096, 8192, 100, stream)
    driver.record(event, stream)
    driver.wait(stream, event)
    driver.clear(4096, 10, stream)
    assert api.named("cuStreamCreate") == [(1,)]
    assert api.named("cuEventCreate") == [(2,)]
    assert api.named("cuMemcpyAsync") == [(4096, 8192, 100, "stream")]
    assert api.named("cuStreamWaitEvent") == [("stream", "event", 0)]
    assert api.named("cuMemsetD8Async") == [(4096, 0, 10, "stream")]
    assert (driver.allocate(5), driver.allocate_host(6)) == (4096, 8192)
    assert api.named("cuMemHostAlloc") == [(6, 1)]
    names = {str(call[0]) for call in api.calls}
    assert not {name for name in names if "Synchronize" in name}


def test_the_context_of_a_device_is_chosen_in_each_thread_once():
    api = Api()
    driver = RealDriver(api)
    for device in (0, 0, 1, 1, 0):
        driver.open(device)
        driver.use(device)
    assert len(api.named("cuDevicePrimaryCtxRetain")) == 2
    assert len(api.named("cuCtxSetCurrent")) == 3


def test_no_memory_says_what_is_free():
    driver = RealDriver(Api(cuMemAlloc=2, cuMemHostAlloc=2))
    driver.open(1)
    with pytest.raises(OutOfMemory) as caught:
        driver.allocate(64)
    text = "there is no memory for 64 bytes on CUDA device 1, 10 are free"
    assert str(caught.value) == text
    with pytest.raises(OutOfMemory) as caught:
        driver.allocate_host(64)
    text = "there is no memory for 64 bytes on the host, pinned for CUDA"
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("api", "text"),
    [
        (Api(cuInit=100), "there is no CUDA device: CUDA_ERROR_NO_DEVICE"),
        (Api(cuDeviceGetCount=100), "cuDeviceGetCount failed: CUDA_ERROR_NO_DEVICE"),
        (Api(cuInit=3), "there is no CUDA device: ?"),
    ],
)
def test_no_device_is_said(api: Api, text: str):
    with pytest.raises(CudaError) as caught:
        RealDriver(api)
    assert str(caught.value) == text


def test_no_device_is_said_where_there_is_only_a_driver(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(FOUND, "cuDeviceGetCount", (0,))
    with pytest.raises(CudaError, match=r"^there is no CUDA device$"):
        RealDriver(Api())


def test_no_library_of_the_driver_is_said():
    def fail(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    api = Api()
    setattr(api, "cuInit", fail)  # noqa: B010
    with pytest.raises(CudaError) as caught:
        RealDriver(api)
    text = "there is no CUDA device: the library of the driver cannot be loaded"
    assert str(caught.value) == text


def test_an_error_that_breaks_the_context_loses_the_device_until_it_is_opened():
    api = Api()
    driver = RealDriver(api)
    driver.open(0)
    api.codes["cuEventSynchronize"] = 700
    lost = "CUDA device 0 is lost: open a new session"
    with pytest.raises(CudaError) as caught:
        driver.synchronize_event("event")
    text = f"cuEventSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS; {lost}"
    assert (str(caught.value), caught.value.is_lost) == (text, True)
    with pytest.raises(CudaError) as caught:
        driver.use(0)
    assert (str(caught.value), caught.value.is_lost) == (lost, True)
    driver.open(1)
    driver.open(0)
    driver.use(0)
    assert api.named("cuDevicePrimaryCtxReset") == [(7,)]
    assert len(api.named("cuDevicePrimaryCtxRetain")) == 3


def test_graphs_are_made_of_what_is_captured():
    api = Api()
    driver = RealDriver(api)
    driver.open(0)
    driver.begin_capture("stream")
    made = driver.end_capture("stream")
    driver.launch_graph(made, "stream")
    driver.destroy_graph(made)
    names = [str(call[0]) for call in api.calls if "Graph" in str(call[0])]
    assert names == [
        "cuGraphInstantiate",
        "cuGraphDestroy",
        "cuGraphUpload",
        "cuGraphLaunch",
        "cuGraphExecDestroy",
    ]
    assert api.named("cuStreamBeginCapture") == [("stream", 1)]
    assert api.named("cuGraphInstantiate") == [("graph", 0)]
    for call in ("cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"):
        api.codes[call] = 901
        with pytest.raises(CaptureError) as caught:
            captured(driver)
        text = f"{call} failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
        assert str(caught.value) == text


def captured(driver: RealDriver) -> object:
    """The graph of nothing."""
    driver.begin_capture("stream")
    return driver.end_capture("stream")


needs_bindings = pytest.mark.skipif(
    find_spec("cuda") is None, reason="cuda.bindings is not installed"
)


@needs_bindings
def test_functions_of_the_bindings_take_what_they_are_given():
    api: Any = import_module("cuda.bindings.driver")
    text = Path(real.__file__).read_text(encoding="utf-8")
    used = set(re.findall(r'"(cu[A-Z]\w+)"|_api\.(cu[A-Z]\w+)\b', text))
    names = {first or second for first, second in used}
    assert len(names) > 30
    arity = {
        "cuLaunchKernel": 11,
        "cuLaunchCooperativeKernel": 10,
        "cuMemcpyAsync": 4,
        "cuMemsetD8Async": 4,
        "cuStreamWaitEvent": 3,
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": 3,
        "cuFuncSetAttribute": 3,
        "cuGraphInstantiate": 2,
        "cuGraphUpload": 2,
        "cuMemHostAlloc": 2,
        "cuStreamBeginCapture": 2,
    }
    for name in names:
        line = getattr(api, name).__doc__.strip().split("\n")[0]
        if name in arity:
            assert line.count(",") + 1 == arity[name], line
    for kind, enumeration in (
        ("ERROR_", api.CUresult),
        ("DEVICE_ATTRIBUTE_", api.CUdevice_attribute),
    ):
        known = [name for name in dir(enumeration) if kind in name]
        assert known
    assert {
        x for x in real.LOST if not hasattr(api.CUresult, f"CUDA_ERROR_{x}")
    } == set()
    assert all(hasattr(api.CUdevice_attribute, name) for name in ATTRIBUTES)


WAITING_LIBRARY = """
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Whoever waits is answered by another thread, or is not in so many milliseconds. */
volatile int waiting, answered, limit = 300000;

int wait_for_answer(void *what) {
  waiting = 1;
  for (int i = 0; i < limit && !answered; i++) usleep(1000);
  return answered ? 0 : 702;
}

static int count(int *number) { *number = 1; return 0; }
static int make(uint64_t *handle) { *handle = 16; return 0; }
static int done(void) { return 0; }

int cuGetProcAddress_v2(
    const char *name, void **found, int version, uint64_t flags, int *status) {
  *found = strstr(name, "Synchronize") ? (void *)wait_for_answer
    : strstr(name, "Create") || strstr(name, "Retain") ? (void *)make
    : strcmp(name, "cuDeviceGetCount") ? (void *)done : (void *)count;
  if (status) *status = 0;
  return 0;
}
"""
"""A driver of one device whose waits end when another thread says so."""
WAIT = """
import ctypes, threading, time
from penstock.runtime.cuda.driver_real import open_driver

name = "libcuda.so.1"
library = ctypes.CDLL(name)
waiting, answered, limit = (
    ctypes.c_int.in_dll(library, name) for name in ("waiting", "answered", "limit")
)

def answer():
    while not waiting.value:
        time.sleep(0.001)
    answered.value = 1

def awaited(wait, *args):
    waiting.value = answered.value = 0
    thread = threading.Thread(target=answer)
    thread.start()
    found = wait(*args)
    thread.join(300)
    return found

driver = open_driver()
driver.open(0)
awaited(driver.synchronize_event, driver.event())
awaited(driver.synchronize_stream, driver.stream())
awaited(driver.synchronize)
# Nobody answers one that keeps the GIL.
limit.value = 50
assert awaited(ctypes.PyDLL(name).wait_for_answer, None) == 702
print("answered")
"""


@needs_bindings
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_other_threads_of_python_run_while_one_waits(tmp_path: Path):
    (tmp_path / "driver.c").write_text(WAITING_LIBRARY)
    name = "libcuda.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", name, "driver.c"],
        cwd=tmp_path,
        check=True,
        timeout=300,
    )
    result = subprocess.run(
        [sys.executable, "-c", WAIT],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.stdout == "answered\n", result.stderr
