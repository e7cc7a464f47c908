"""CUDA kernels without a GPU, in Numba's simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from forked_tool import ForkedCommands, run_tests_for

from penstock.runtime.cuda.driver import Function
from penstock.runtime.cuda.launches import chosen
from penstock.runtime.cuda.simulator import SIMULATOR

Run: TypeAlias = Callable[[str], None]


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process, where nothing has been imported."""
    kept = {name: value for name, value in os.environ.items() if name != SIMULATOR}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_kernels_agree_with_numpy_in_the_simulator(
    forked_simulator: ForkedCommands,
) -> None:
    names = "numba_target", "numba_target_scalars"
    run_tests_for("cuda", names, forked_simulator)


@pytest.mark.parametrize(
    ("when", "value", "found"),
    [("", None, "False"), ("", "1", "True"), ("import numba; ", "1", "True")],
)
def test_simulator_is_wanted_if_the_environment_says_so(
    when: str, value: str | None, found: str
) -> None:
    module = "penstock.runtime.cuda.simulator"
    code = f"{when}from {module} import *\nprint(is_simulator_wanted())"
    variables = {} if value is None else {SIMULATOR: value}
    assert run_python(code, **variables).stdout == f"{found}\n"


def test_simulator_cannot_be_wanted_after_numba_is_imported() -> None:
    code = (
        "import os, numba\n"
        "from penstock.runtime.cuda.simulator import *\n"
        "os.environ[SIMULATOR] = '1'\n"
        "is_simulator_wanted()"
    )
    assert run_python(code).stderr.endswith(
        "Numba is imported already: "
        "set NUMBA_ENABLE_CUDASIM=1 before the program starts\n"
    )


STAGES = """
from penstock.runtime.cuda.device import open_cuda
import numpy as np
cuda = open_cuda()
source = '''
from penstock.runtime.kernels.cuda.support import Stage, first_item, i32, item_step


def stage_0(a, b, status):
    e = first_item()
    while e < 70:
        b[e] = a[e] + a[e]
        e = i32(e + item_step())


def stage_1(a, b, status):
    e = first_item()
    while e < 70:
        if b[e] > 100:
            status[0] = 3
            return
        a[e] = b[69 - e]
        e = i32(e + item_step())


def stage_1_plain(a, b, status):
    e = first_item()
    while e < 70:
        a[e] = 7
        e = i32(e + item_step())


def stage_2(a, b, status):
    a[0] = 0


PARAMETERS = ["float32", "float32"]
STAGES = [
    Stage(stage_0, 70),
    Stage(stage_1, 70, fallback=Stage(stage_1_plain, 70)),
    Stage(stage_2, 0),
]
'''
numbers = np.arange(70, dtype=np.float32) / 2
a, b = numbers.copy(), np.zeros(70, np.float32)
code = cuda.run_kernel(source, [a, b])
"""


@pytest.fixture
def run_simulated(forked_simulator: ForkedCommands, tmp_path: Path) -> Run:
    """Run code in a process in which CUDA is simulated; it fails by an exception."""

    def run(code: str) -> None:
        result = forked_simulator.outcome(["python", "-c", code], tmp_path)
        assert result.returncode == 0, result.stderr

    return run


@pytest.mark.slow
def test_stages_run_in_order(run_simulated: Run) -> None:
    run_simulated(STAGES + "assert code == 0 and (a == 2 * numbers[::-1]).all()")


def test_failure_is_the_code_of_the_assertion_and_no_state(
    run_simulated: Run,
) -> None:
    run_simulated(
        STAGES
        + "assert cuda.run_kernel(source, [a + 1000, b]) == 3\n"
        + "assert cuda.run_kernel(source, [numbers.copy(), b]) == 0\n"
    )


def test_fallbacks_are_chosen_for_addresses_that_are_not_aligned() -> None:
    def function(name: str, *, is_fallback: bool) -> Function:
        return Function(name, None, 1, 32, False, is_fallback, 1)

    first, second = function("a", is_fallback=False), function("b", is_fallback=False)
    other = function("c", is_fallback=True)
    functions = [first, second, other]
    assert chosen(functions, [32, 160]) == [first, second]
    assert chosen(functions, [32, 164]) == [first, other]


ALL_LANES = """
from penstock.runtime.cuda.device import open_cuda
import numpy as np
cuda = open_cuda()
source = '''
from penstock.runtime.kernels.cuda.support import Stage, block, i32, load_2, load_if
from penstock.runtime.kernels.cuda.support import shuffle_xor, store_2, store_if, thread


def stage_0(a, b, status):
    i = i32(block() * 64 + thread())
    v = load_if(i < 100, a, i, a[0])
    for mask in (16, 8, 4, 2, 1):
        v += shuffle_xor(v, mask)
    store_if(i < 100, b, i, v)


def stage_1(a, b, status):
    i = i32(2 * thread())
    v = load_2(b, i)
    store_2(b, i, (v[1], v[0]))


PARAMETERS = ["float32", "float32"]
STAGES = [Stage(stage_0, 2, 64, blockwise=True), Stage(stage_1, 32, 32)]
'''
numbers = np.random.default_rng(1).integers(0, 1000, 128).astype(np.float32)
b = np.zeros(128, np.float32)
cuda.run_kernel(source, [numbers.copy(), b])
numbers[100:] = numbers[0]
sums = np.repeat(numbers.reshape(4, 32).sum(1), 32)
sums[100:] = 0
assert (b == sums).all()
"""


@pytest.mark.slow
def test_threads_of_a_warp_exchange_values(
    run_simulated: Run,
) -> None:
    run_simulated(ALL_LANES)
