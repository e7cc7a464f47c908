"""
CUDA as a device of the executor: on a card, or in Numba's simulator without one.

Whether CUDA is simulated is decided when Numba is imported, so that each test runs in
another process.
"""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from forked_tool import ForkedCommands

from penstock.runtime.cuda.simulator import SIMULATOR, gpu_count

Check: TypeAlias = Callable[[str], None]

START = """
from pathlib import Path
import numpy as np
from penstock.runtime.errors import PenstockError, TaskError
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

compiler = installed_compiler()

def open_text(text, device="cuda", engine="actors", threads=1):
    module = compiler[0].parse(text.encode(), "test.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    return Session(
        model, device=device, engine=engine, threads=threads, compiler=compiler
    )

MIXED = '''
job.job @mixed placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %m = job.input "m" : tensor<3xi1>
  %w = job.variable "w" init <constant, value = 2> : tensor<3x3xf32>
  %c = op.constant dense<[1, -2, 3]> : tensor<3xi64>
  %f = op.cast %c to f32 : tensor<3xi64> -> tensor<3xf32>
  %p = op.matmul %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %s = op.where %m, %p, %f
    : tensor<3xi1>, tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %n = op.logical_not %m : tensor<3xi1> -> tensor<3xi1>
  job.output "s", %s : tensor<2x3xf32>
  job.output "n", %n : tensor<3xi1>
  job.output "w", %w : tensor<3x3xf32>
}
'''
PICK = '''
job.job @pick placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  %i = job.input "i" : tensor<2xi64>
  %v = op.gather %x[%i] axis 0 : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  job.output "v", %v : tensor<2xf32>
}
'''
"""


@pytest.fixture
def check(forked_cuda: ForkedCommands, tmp_path: Path) -> Check:
    """Run a script behind START, which fails by an exception."""

    def check(script: str) -> None:
        text = START + textwrap.dedent(script)
        done = forked_cuda.outcome(["python", "-c", text], tmp_path)
        assert (done.returncode, done.stderr) == (0, "")

    return check


@pytest.mark.slow
def test_results_are_those_of_the_processor(check: Check) -> None:
    check("""
        m = np.array([True, False, True])
        rng = np.random.default_rng(1)
        pieces = [
            {"x": rng.standard_normal((2, 3)).astype(np.float32), "m": m ^ bool(i % 2)}
            for i in range(5)
        ]
        results = []
        for engine, threads in (("actors", 1), ("actors", 2), ("sequential", 1)):
            with open_text(MIXED, engine=engine, threads=threads) as session:
                results.append(session.run_many(pieces))
        with open_text(MIXED, device="cpu") as session:
            assert not session.is_simulated
            expected = session.run_many(pieces)
        for given in results:
            for a, b in zip(given, expected, strict=True):
                assert sorted(a) == sorted(b) == ["n", "s", "w"]
                assert a["n"].dtype == np.bool_
                for name in a:
                    np.testing.assert_allclose(a[name], b[name], rtol=1e-6)
    """)


@pytest.mark.slow
def test_failed_assertion_names_the_task_and_is_over(
    check: Check,
) -> None:
    check("""
        x = np.arange(5, dtype=np.float32)
        with open_text(PICK) as session:
            for _ in range(2):
                try:
                    session.run({"x": x, "i": np.array([0, 5])})
                except TaskError as error:
                    expected = (
                        "task 'v' failed at act 0 with code 1: "
                        "gather index out of range"
                    )
                    assert error.reason == expected, error
                else:
                    raise AssertionError("nothing failed")
                good = session.run({"x": x, "i": np.array([-1, 1])})
                assert good["v"].tolist() == [4, 1]
    """)


@pytest.mark.slow
def test_a_piece_that_fails_leaves_variables_and_others_exchange_them(
    check: Check,
) -> None:
    check("""
        TEXT = PICK.replace("pick", "train").replace("job.output", '''
          %a = job.variable "a" init <zeros> : tensor<5xf32>
          %b = job.variable "b" init <zeros> : tensor<2xf32>
          %c = job.variable "c" init <ones> : tensor<2xf32>
          %d = job.variable "d" init <zeros> : tensor<2xf32>
          %w = op.gather %v[%i] axis 0 : tensor<2xf32>, tensor<2xi64> -> tensor<2xf32>
          job.assign %x to %a : tensor<5xf32>
          job.assign %v to %b : tensor<2xf32>
          job.assign %c to %d : tensor<2xf32>
          job.assign %d to %c : tensor<2xf32>
          job.output "w", %w : tensor<2xf32>
          job.output''')
        x = np.arange(5, dtype=np.float32)
        for engine in ("actors", "sequential"):
            with open_text(TEXT, engine=engine) as session:
                for number in range(4):
                    bad = number % 2 == 1
                    given = {"x": x + number, "i": np.array([1, 2 if bad else 0])}
                    try:
                        session.run(given)
                    except TaskError as error:
                        assert bad and error.task == "w", error
                    state = session.state()
                    last = number - bad
                    assert (state["a"] == x + last).all()
                    assert (state["b"] == (x + last)[[1, 0]]).all()
                    assert (state["c"] == last // 2).all()
                    assert (state["d"] == 1 - last // 2).all()
    """)


@pytest.mark.slow
def test_weights_and_chunks_of_the_device(check: Check) -> None:
    check("""
        from penstock.runtime.loading.memory import allocation_count

        session = open_text(MIXED)
        program = session.executor.program
        far, pinned = sorted(program.chunks.values(), key=lambda x: x.is_pinned)
        assert (far.is_pinned, pinned.is_pinned) == (False, True)
        (variable,) = program.variables
        data = far.read(variable.offset, 36).view(np.float32)
        assert data.tolist() == [2] * 9
        far.write(variable.offset, np.array([1, 2], np.float32))
        data = far.read(variable.offset, 36).view(np.float32)
        assert data.tolist() == [1] + [2] * 8
        before = allocation_count()
        piece = {"x": np.ones((2, 3), np.float32), "m": np.zeros(3, np.bool_)}
        session.run_many([piece] * 3)
        assert allocation_count() == before
        session.close()
    """)


@pytest.mark.slow
def test_programs_share_variables_and_what_one_assigns_the_others_read(
    check: Check,
) -> None:
    check("""
        from typing import Annotated
        import penstock
        from penstock import Tensor

        rng = np.random.default_rng(3)
        first = rng.normal(size=(5, 7)).astype(np.float32)

        def weight():
            return penstock.variable("w", (5, 7), init=first)

        @penstock.job
        def forth(x: Annotated[Tensor, (2, 5), "f32"]):
            return x @ weight()

        @penstock.job
        def back(x: Annotated[Tensor, (2, 7), "f32"]):
            return x @ weight().T

        @penstock.job
        def step(d: Annotated[Tensor, (5, 7), "f32"]):
            w = weight()
            penstock.assign(w, w + d)
            return w.max()

        def agree(w):
            x, y = rng.normal(size=(2, 5)), rng.normal(size=(2, 7))
            x, y = x.astype(np.float32), y.astype(np.float32)
            np.testing.assert_allclose(forth(x), x @ w, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(back(y), y @ w.T, rtol=1e-5, atol=1e-5)

        with penstock.Session(device="cuda") as session:
            w = first
            agree(w)
            for _ in range(2):
                d = rng.normal(size=(5, 7)).astype(np.float32)
                assert step(d) == w.max()
                w = w + d
                agree(w)
            assert len(session.variables.addresses("w")) == 1
            np.testing.assert_array_equal(session.read_variables()["w"], w)
            session.write_variables({"w": first})
            agree(first)
    """)


@pytest.mark.slow
def test_device_may_be_asked_for_first_where_nothing_is_compiled_yet(tmp_path: Path):
    script = """
        from typing import Annotated
        import numpy as np
        import penstock

        @penstock.job
        def shifted(x: Annotated[penstock.Tensor, (2,), "f32"]):
            return x + 1

        with penstock.Session(device="cuda"):
            assert shifted(np.ones(2, np.float32)).tolist() == [2, 2]
    """
    simulated = {} if gpu_count() else {SIMULATOR: "1"}
    cold = {**os.environ, **simulated, "PENSTOCK_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    process = subprocess.run(
        command, env=cold, capture_output=True, text=True, timeout=300, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
