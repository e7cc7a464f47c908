"""
Both ends of the buffers of CUDA kernels, in each thing that stands in for a card: an
index outside of a buffer is an error, and what writes outside of memory is found.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from forked_tool import ForkedCommands

from penstock.runtime.cuda.device import Cuda
from penstock.runtime.cuda.driver import CudaError, Span
from penstock.runtime.cuda.driver_simulated import SimulatedDriver
from penstock.runtime.testing.cuda_guarded_driver import guarded
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver

KERNEL = """
from penstock.runtime.kernels.cuda.support import Stage, cuda, f32, i32, take_4, u64


def stage_0(a, b, status):
    kept = cuda.local.array(2, f32)
    shared = cuda.shared.array(4, f32)
    {statement}


PARAMETERS = ["float32", "float32"]
STAGES = [Stage(stage_0, 1, 32, blockwise=True)]
"""
OUTSIDE = {
    "a load before a buffer": "b[0] = a[i32(-1)]",
    "a load past a buffer": "b[0] = a[i32(8)]",
    "a vector past a buffer": "b[0] = take_4(a, i32(8))[3]",
    "a vector before a buffer": "b[0] = take_4(a, i32(-4))[3]",
    "a store before a buffer": "b[i32(-8)] = a[0]",
    "a store past a buffer": "b[i32(8)] = a[0]",
}
OF_THREADS = {
    "a register before those of a thread": "kept[-1] = a[0]",
    "a register past those of a thread": "kept[2] = a[0]",
    "shared memory before that of a block": "b[0] = shared[-1]",
    "shared memory past that of a block": "b[0] = shared[u64(4)]",
}


@pytest.mark.parametrize("statement", [*OUTSIDE.values(), *OF_THREADS.values()])
def test_lanes_stay_inside_of_what_there_is(statement: str) -> None:
    arrays = np.zeros(8, np.float32), np.zeros(8, np.float32)
    with pytest.raises(AssertionError, match="outside of"):
        run_lanes(KERNEL.format(statement=statement), arrays)


SIMULATED = """
import numpy as np
from penstock.runtime.cuda.device import open_cuda
cuda = open_cuda()
for source, elements in {sources!r}:
    try:
        cuda.run_kernel(source, [np.zeros(8, np.float32) for _ in range(2)])
    except IndexError as error:
        assert f"outside of {{elements}} elements" in str(error), error
    else:
        raise AssertionError(source)
"""


@pytest.mark.slow
def test_threads_of_the_simulator_stay_inside_of_what_there_is(
    forked_simulator: ForkedCommands, tmp_path: Path
) -> None:
    statements = [(text, 8) for text in OUTSIDE.values()]
    for text in OF_THREADS.values():
        statements.append((text, 2 if "kept" in text else 4))
    sources = [(KERNEL.format(statement=text), count) for text, count in statements]
    text = SIMULATED.format(sources=sources)
    done = forked_simulator.outcome(["python", "-c", text], tmp_path)
    assert done.returncode == 0, done.stderr


VECTORS = """
from penstock.runtime.kernels.cuda.support import Stage, cuda


def stage_0(a, status):
    a[0] = 1


def stage_0_plain(a, status):
    a[0] = 1


PARAMETERS = ["float32"]
STAGES = [Stage(stage_0, 1, fallback=Stage(stage_0_plain, 1))]
"""


@pytest.mark.parametrize("at", [0, 8])
def test_vectors_of_buffers_that_are_not_aligned_are_found(at: int) -> None:
    driver = RecordedDriver()
    driver.open(0)
    addresses = [driver.allocate(64) + at, driver.allocate(16) + 8]
    spans = [Span(x, 4, True) for x in addresses]
    vectors, plain = driver.load("k", VECTORS)
    driver.bind(plain, addresses, spans)
    if at == 0:
        driver.bind(vectors, addresses, spans)
        return
    message = f"k.stage_0 moves vectors of a buffer at {addresses[0]:#x}"
    with pytest.raises(CudaError, match=message):
        driver.bind(vectors, addresses, spans)


@pytest.mark.parametrize("make", [SimulatedDriver, RecordedDriver])
@pytest.mark.parametrize(("at", "written"), [(-4, 4), (97, 4)])
def test_a_copy_past_an_end_of_memory_is_found(
    make: type[SimulatedDriver | RecordedDriver], at: int, written: int
) -> None:
    driver = make()
    driver.open(0)
    memory, other = driver.allocate(100), driver.allocate(100)
    ctypes.memset(other, 1, 100)
    stream = driver.stream()

    def copy(target: int, size: int) -> None:
        driver.copy(target, other, size, stream)
        driver.synchronize_stream(stream)

    copy(memory, 100)
    message = f"{written} bytes were written outside of the 100 bytes of memory at"
    with pytest.raises(CudaError, match=f"^{message} {memory:#x}$"):
        copy(memory + at, 7)


@pytest.mark.parametrize("at", [-1, 100])
def test_a_write_past_an_end_of_memory_of_a_card_is_found(at: int) -> None:
    inner = RecordedDriver()
    driver, guards = guarded(inner)
    inner.open(0)
    for _ in range(2):
        memory = driver.allocate(100)
        ctypes.memset(memory, 7, 100)
        guards.check()
        driver.free(memory)
    memory, given_back = driver.allocate(100), driver.allocate(100)
    for address in (memory, given_back):
        ctypes.memset(address + at, 7, 1)
    driver.free(given_back)
    with pytest.raises(CudaError, match=r"^2 bytes were written outside of memory$"):
        guards.check()


def test_kernels_run_between_the_guards_of_a_card() -> None:
    driver, guards = guarded(RecordedDriver())
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    source = KERNEL.format(statement="b[7] = a[7]")
    assert Cuda(driver).run_kernel(source, [a, b]) == 0
    guards.check()
    assert b[7] == 7
