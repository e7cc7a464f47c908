"""CUDA kernels without a GPU, in Numba's simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.runtime.cuda_kernels import SIMULATOR, gpu_count

HERE = Path(__file__).parent


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process, where nothing has been imported."""
    kept = {name: value for name, value in os.environ.items() if name != SIMULATOR}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("file", ["numba_target", "numba_target_scalars"])
def test_kernels_agree_with_numpy_in_the_simulator(file: str) -> None:
    variables = {**os.environ, SIMULATOR: "1", "PENSTOCK_TEST_TARGET": "cuda"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, str(HERE / f"test_{file}.py")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


needs_no_gpu = pytest.mark.skipif(gpu_count() > 0, reason="this machine has a GPU")

CHOOSE = "from penstock.runtime.cuda_kernels import *; "


@needs_no_gpu
def test_simulator_stands_in_for_a_missing_gpu() -> None:
    code = "print(use_simulator_if_no_gpu()); import numba.cuda; print(_is_simulated())"
    code = CHOOSE + "from penstock.runtime.cuda_kernels import _is_simulated; " + code
    assert run_python(code).stdout == "True\nTrue\n"


@needs_no_gpu
def test_simulator_may_be_asked_for_before() -> None:
    code = CHOOSE + "import numba; print(use_simulator_if_no_gpu())"
    assert run_python(code, **{SIMULATOR: "1"}).stdout == "True\n"


@needs_no_gpu
def test_simulator_cannot_be_chosen_after_numba_is_imported() -> None:
    errors = run_python(CHOOSE + "import numba; use_simulator_if_no_gpu()").stderr
    assert errors.endswith(
        "there is no CUDA device, and Numba is imported already: "
        "set NUMBA_ENABLE_CUDASIM=1 before it is\n"
    )


PHASES = """
from penstock.runtime.cuda_kernels import *
use_simulator_if_no_gpu()
import numpy as np
source = '''
from penstock.runtime.cuda_support import Phase, first_item, i32, item_step


def phase_0(a, b, status):
    e = first_item()
    while e < 70:
        b[e] = a[e] + a[e]
        e = i32(e + item_step())


def phase_1(a, b, status):
    e = first_item()
    while e < 70:
        if b[e] > 100:
            status[0] = 3
            return
        a[e] = b[69 - e]
        e = i32(e + item_step())


def phase_1_plain(a, b, status):
    e = first_item()
    while e < 70:
        a[e] = 7
        e = i32(e + item_step())


def phase_2(a, b, status):
    a[0] = 0


PHASES = [
    Phase(phase_0, 70),
    Phase(phase_1, 70, fallback=Phase(phase_1_plain, 70)),
    Phase(phase_2, 0),
]
'''
kernel = compile_cuda(source, "kernel")
chunk = allocate(1024)
a, b = view(chunk, 256, 70, np.float32), view(chunk, 640, 70, np.float32)
numbers = np.arange(70, dtype=np.float32) / 2
a.copy_to_device(numbers)
launch(kernel, [a, b])
"""


def test_phases_run_in_order_on_views_of_a_chunk() -> None:
    code = PHASES + (
        "assert failure_of(kernel) == 0\n"
        "assert (a.copy_to_host() == 2 * numbers[::-1]).all()\n"
        "host = chunk.copy_to_host()\n"
        "assert (host[256:536].view(np.float32) == a.copy_to_host()).all()\n"
        "assert not host[:256].any() and not host[536:640].any()\n"
        "assert view(chunk, 0, 3, np.bool_).copy_to_host().dtype == np.uint8\n"
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_fallbacks_run_on_what_is_not_aligned() -> None:
    code = PHASES + (
        "launch(kernel, [a, b], aligned=False)\nassert (a.copy_to_host() == 7).all()\n"
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_failure_is_reported_once() -> None:
    code = PHASES + (
        "b.copy_to_device(numbers)\n"
        "a.copy_to_device(numbers + 1000)\n"
        "launch(kernel, [a, b])\n"
        "print(failure_of(kernel), failure_of(kernel))\n"
    )
    assert run_python(code).stdout == "3 0\n"


ALL_LANES = """
from penstock.runtime.cuda_kernels import *
use_simulator_if_no_gpu()
import numpy as np
source = '''
from penstock.runtime.cuda_support import Phase, block, i32, load_2, load_if
from penstock.runtime.cuda_support import shuffle_xor, store_2, store_if, thread


def phase_0(a, b, status):
    i = i32(block() * 64 + thread())
    v = load_if(i < 100, a, i, a[0])
    for mask in (16, 8, 4, 2, 1):
        v += shuffle_xor(v, mask)
    store_if(i < 100, b, i, v)


def phase_1(a, b, status):
    i = i32(2 * thread())
    v = load_2(b, i)
    store_2(b, i, (v[1], v[0]))


PHASES = [Phase(phase_0, 2, 64, blockwise=True), Phase(phase_1, 32, 32)]
'''
kernel = compile_cuda(source, "kernel")
chunk = allocate(1024)
a, b = view(chunk, 0, 128, np.float32), view(chunk, 512, 128, np.float32)
numbers = np.random.default_rng(1).integers(0, 1000, 128).astype(np.float32)
a.copy_to_device(numbers)
launch(kernel, [a, b])
numbers[100:] = numbers[0]
sums = np.repeat(numbers.reshape(4, 32).sum(1), 32)
sums[100:] = 0
assert (b.copy_to_host() == sums).all()
"""


def test_threads_of_a_warp_exchange_values() -> None:
    result = run_python(ALL_LANES)
    assert result.returncode == 0, result.stderr
