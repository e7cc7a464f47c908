"""
CUDA on a card: kernels, programs, graphs, and what is left after errors.

All of this is skipped where there is no card. Each test that breaks something, or
chooses what `run_kernel` is, runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from penstock.runtime.cuda import device as cuda
from penstock.runtime.cuda.simulator import gpu_count
from penstock.runtime.errors import TaskError
from penstock.runtime.testing.cuda_guarded_driver import guarded
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

pytestmark = pytest.mark.skipif(gpu_count() == 0, reason="no CUDA device")

UNIT = Path(__file__).parents[2]
Array: TypeAlias = npt.NDArray[Any]

NET = """
job.job @net placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<64x96xf32>
  %y = job.input "y" : tensor<64x32xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 7> : tensor<96x32xf32>
  %p = op.matmul %x, %w : tensor<64x96xf32>, tensor<96x32xf32> -> tensor<64x32xf32>
  %s = op.softmax %p : tensor<64x32xf32> -> tensor<64x32xf32>
  %t = op.softmax %y : tensor<64x32xf32> -> tensor<64x32xf32>
  %d = op.sub %s, %t : tensor<64x32xf32>, tensor<64x32xf32> -> tensor<64x32xf32>
  job.output "d", %d : tensor<64x32xf32>
  job.output "t", %t : tensor<64x32xf32>
}
"""
PICK = """
job.job @pick placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  %i = job.input "i" : tensor<2xi64>
  %v = op.gather %x[%i] axis 0 : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %s = op.softmax %v : tensor<2xf32> -> tensor<2xf32>
  job.output "s", %s : tensor<2xf32>
}
"""


@pytest.fixture(autouse=True)
def _guards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let memory of the card have guard zones, and look at them after each test."""
    driver, guards = guarded(cuda.open_cuda().driver)
    monkeypatch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
    yield
    guards.check()


def opened(text: str, engine: str = "actors", threads: int = 1) -> Session:
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())
    return Session(model, threads=threads, engine=engine, compiler=front)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def agree(found: npt.ArrayLike, wanted: Array) -> None:
    array = np.asarray(found, np.float64)
    np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)


def in_process(script: str) -> None:
    """
    Run a script behind OPEN in a process of its own; it fails by an exception, or by
    what was written outside of memory.
    """
    result = subprocess.run(
        [sys.executable, "-c", f"{OPEN}{textwrap.dedent(script)}\nguards.check()"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_pieces_that_overlap_are_those_of_numpy(engine: str, threads: int):
    random = np.random.default_rng(threads)
    with opened(NET, engine, threads) as session:
        assert not session.is_simulated
        names = [actor.name for actor in session.executor.program.tables.actors]
        assert any(name.startswith("graph ") for name in names)
        w = np.asarray(session.state()["w"], np.float32)
        pieces = [
            {
                "x": random.standard_normal((64, 96)).astype(np.float32),
                "y": random.standard_normal((64, 32)).astype(np.float32),
            }
            for _ in range(20)
        ]
        for piece, found in zip(pieces, session.run_many(pieces), strict=True):
            s, t = softmax(piece["x"] @ w), softmax(piece["y"])
            agree(found["d"], s - t)
            agree(found["t"], t)


def test_an_assertion_is_the_error_of_its_act_and_over_then():
    x = np.arange(5, dtype=np.float32)
    good = {"x": x, "i": np.array([-1, 1])}
    with opened(PICK) as session:
        for bad in (2, 0):
            pieces = [*[good] * bad, {"x": x, "i": np.array([0, 5])}, *[good] * 5]
            with pytest.raises(TaskError) as caught:
                session.run_many(pieces)
            message = "with code 1: gather index out of range"
            assert caught.value.reason == f"task 'v' failed at act {bad} {message}"
            for found in session.run_many([good] * 3):
                agree(found["s"], softmax(np.array([4.0, 1.0])))


COPY = """
from penstock.runtime.kernels.cuda.support import Stage, first_item, i32, item_step


def stage_0(a, b, status):
    e = first_item()
    while e < 1000:
        b[e] = a[e]
        e = i32(e + item_step())


PARAMETERS = ["float32", "float32"]
STAGES = [Stage(stage_0, 1000)]
"""
OPEN = f"""
import numpy as np
from penstock.runtime.cuda.device import Cuda, open_cuda
from penstock.runtime.cuda.driver import CudaError, Span
from penstock.runtime.cuda.host_memory import GUARD_BYTES
from penstock.runtime.errors import OutOfMemory
from penstock.runtime.testing.cuda_guarded_driver import guarded

def opened():
    driver, guards = guarded(open_cuda().driver)
    return Cuda(driver), guards

(cuda, guards), source = opened(), {COPY!r}

def copied():
    a, b = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    assert cuda.run_kernel(source, [a, b]) == 0
    assert (a == b).all()
"""


def test_a_device_that_is_lost_can_be_opened_again():
    in_process("""
    copied()
    def wrong(driver, stream):
        (function,) = driver.load("kernel", source)
        words = [1 << 20, 1 << 21, 1 << 22]
        driver.bind(function, words, [Span(x, 4, True) for x in words])(stream)
    lost = "CUDA device 0 is lost: open a new session"
    for work in (wrong, lambda driver, stream: None):
        try:
            cuda.finish(0, work)
        except CudaError as error:
            assert error.is_lost and str(error).endswith(lost), error
        else:
            raise AssertionError("nothing failed")
    cuda, guards = opened()
    copied()
    """)


def test_no_memory_is_an_error_and_others_go_on():
    in_process("""
    try:
        cuda.allocate(1 << 50)
    except OutOfMemory as error:
        size = (1 << 50) + 2 * GUARD_BYTES
        text = f"there is no memory for {size} bytes on CUDA device 0, "
        assert str(error).startswith(text), error
    else:
        raise AssertionError("there is that much")
    copied()
    """)


def test_a_device_that_is_not_there():
    in_process("""
    try:
        cuda.allocate(1, 1000)
    except CudaError as error:
        text = "the program needs CUDA device 1000, there "
        assert str(error).startswith(text), error
    else:
        raise AssertionError("there are that many")
    """)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "numba_target",
        "numba_target_loops",
        "numba_target_scalars",
        "ops_elementwise",
        "ops_heavy",
        "ops_indexing",
        "ops_movement",
        "ops_halves",
    ],
)
def test_kernels_agree_with_numpy(file: str):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, str(next(UNIT.rglob(f"test_{file}.py")))],
        env={**os.environ, "PENSTOCK_TEST_TARGET": "cuda"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


@pytest.mark.parametrize(
    "arguments",
    [("examples/digits.mlir", "--inputs", "examples/digits-test.npz")],
)
def test_models_of_the_examples(arguments: tuple[str, ...]):
    command = [sys.executable, "-m", "penstock.tools.cli.run", *arguments]
    result = subprocess.run(
        [*command, "--device", "cuda", "--check", "numpy"],
        cwd=UNIT.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert " on cuda, " in result.stdout
