"""Several sessions of one process on several ranks, and runs after one that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from draws import fresh
from forked_tool import ForkedCommands
from numpy.typing import NDArray
from rank_threads import connected, in_threads

from penstock.runtime.errors import PeerError, PenstockError, TaskError
from penstock.runtime.loading.initializers import Array
from penstock.runtime.transport.sockets import SocketTransport
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower, programs_of
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

JOB = """
!t = tensor<16xf32>

job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %far = op.tanh %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %y = op.add %far, %x : !t, !t -> !t
  job.output "y", %y : !t
}
"""

PICKS = """
!t = tensor<16xf32>

job.job @picks placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %i = job.input "i" : tensor<2xi64>
  %far = op.tanh %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %y = op.gather %far[%i] axis 0 {placement = #job.placement<cpu, [1:0]>}
    : !t, tensor<2xi64> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
"""
"""Rank 1 gathers by indices that may be out of range."""

EACH_GIVES_ONE = """
!t = tensor<6x6xf32>

job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %z = job.input "z" {placement = #job.placement<cpu, [1:0]>} : !t
  %h = op.neg %x : !t -> !t
  %y = op.add %h, %z {placement = #job.placement<cpu, [1:0]>} : !t, !t -> !t
  job.output "y", %y {placement = #job.placement<cpu, [1:0]>} : !t
}
"""
"""Callers on two ranks give an array each."""

RUN = """
import sys, threading, time
import numpy as np
from penstock.tools.session.session import Session

path, given, result = sys.argv[1:]
first, second = np.load(given)
with Session.open(path, ranks=2) as kept, Session.open(path, ranks=2) as other:
    if kept.ranks.is_first:
        found = []
        run = threading.Thread(target=lambda: found.append(kept.run({"x": first})))
        run.start()
        while not kept.executor.acts_made():
            time.sleep(0)
        # The other rank takes part in that run after these.
        seen = [other.run({"x": second})["y"] for _ in range(3)]
        other.close()
        assert not found
        kept.ranks.values(None)
        run.join()
        np.save(result, [found[0]["y"], *seen])
    else:
        for _ in range(3):
            other.run({})
        other.close()
        kept.ranks.values(None)
        kept.run({})
"""
"""A program that each rank runs: one session runs and ends while a run is under way."""

JOBS = """
!x = tensor<8x4xf32>
!w = tensor<4xf32>

job.job @train placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : !x
  %w = job.variable "w" init <ones> {sbp = #job.sbp<B>} : !w
  %p = op.mul %x, %w : !x, !w -> !x
  %q = op.mul %p, %p : !x, !x -> !x
  %loss = op.reduce_sum %q axes [0, 1] : !x -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, !w
  %rate = op.constant dense<0.01> : tensor<f32>
  job.update %w by %g with <sgd> rate %rate : !w
  job.output "loss", %loss : tensor<f32>
}
job.job @look placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : !x
  %w = job.variable "w" init <ones> {sbp = #job.sbp<B>} : !w
  %y = op.mul %x, %w : !x, !w -> !x
  job.output "y", %y : !x
}
job.job @far placement <cpu, [1:0]> {
  %z = job.input "z" : !w
  %t = op.tanh %z : !w -> !w
  job.output "t", %t : !w
}
"""
"""Jobs that share a variable and an input, and one that rank 0 has no part in."""

RUN_JOBS = """
import sys
import numpy as np
from penstock.tools.session.session import Session

path, given, result, file = sys.argv[1:]
with np.load(given) as arrays:
    own = dict(arrays)
with Session.open(path, ranks=2, model_jobs=True) as session:
    ranks = session.ranks
    ports = {"train": "x", "look": "x", "far": "z"}
    fed = lambda job: {
        name: own[name] for name in session.inputs(job) if name == ports[job]
    }
    # All of them are asked for before the first one has ended.
    asked = [session.submit(fed(job), job) for job in (*ports, *ports)]
    found = [ranks.union(each.result()) for each in asked]
    state = session.state()
    session.save_model(file)
    session.init_model()
    found.append(ranks.union(session.run(fed("look"), "look")))
    session.load_model(file)
    found.append(ranks.union(session.run(fed("look"), "look")))
    if ranks.is_first:
        assert session.jobs == tuple(ports)
        arrays = {f"{i}_{n}": x for i, f in enumerate(found) for n, x in f.items()}
        np.savez(result, w=state["w"], **arrays)
"""
"""A program that each rank runs: jobs that wait for each other, and for the model."""

START = """
import sys
from penstock.tools.cli.start_ranks import start_ranks
sys.exit(start_ranks(sys.argv[1], sys.argv[2:], 2))
"""


def random_inputs(*shape: int) -> NDArray[np.float32]:
    return fresh().standard_normal(shape).astype(np.float32)


def expected(x: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = x.astype(np.float64)
    return np.tanh(wide) + wide


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sockets", "mpi"])
def test_a_session_runs_and_ends_while_another_one_runs(
    tmp_path: Path, way: str, forked: ForkedCommands
) -> None:
    program, given = tmp_path / "two_sessions.py", tmp_path / "given.npy"
    program.write_text(RUN)
    (tmp_path / "net.mlir").write_text(JOB)
    np.save(given, inputs := random_inputs(2, 16))
    words = [str(tmp_path / x) for x in ("net.mlir", "given.npy", "found.npy")]
    if way == "mpi":
        done = by_mpiexec(program, *words)
    else:
        start = "python", "-c", START, "two_sessions"
        done = forked.outcome([*start, *words], tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npy")
    wanted = expected(inputs[[0, 1, 1, 1]])
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def by_mpiexec(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A program on two ranks that MPI starts."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside this Python: the extra mpi is not installed")
    return subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, "-P", str(program), *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.slow
def test_jobs_of_one_module_run_on_ranks(
    tmp_path: Path, forked: ForkedCommands
) -> None:
    (tmp_path / "many_jobs.py").write_text(RUN_JOBS)
    (tmp_path / "jobs.mlir").write_text(JOBS)
    x, z = random_inputs(8, 4), random_inputs(4)
    np.savez(tmp_path / "given.npz", x=x, z=z)
    files = (
        tmp_path / name for name in ("jobs.mlir", "given.npz", "found.npz", "w.npz")
    )
    words = "python", "-c", START, "many_jobs", *map(str, files)
    done = forked.outcome(words, tmp_path)
    assert done.returncode == 0, done.stderr
    w, squares = np.ones(4), (x.astype(np.float64) ** 2).sum(0)
    with np.load(tmp_path / "found.npz") as found:
        for first in (0, 3):
            assert_close(found[f"{first}_loss"], (squares * w**2).sum())
            w = w - 0.02 * squares * w
            assert_close(found[f"{first + 1}_y"], x * w)
            assert_close(found[f"{first + 2}_t"], np.tanh(z))
        assert_close(found["w"], w)
        np.testing.assert_array_equal(found["6_y"], x)
        assert_close(found["7_y"], x * w)


def assert_close(got: NDArray[np.float32], wanted: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def programs(text: str) -> list[ExportedProgram]:
    """The programs of both ranks of a job."""
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "net.mlir"), {}, Path())
    lower(*front, model)
    return [ExportedProgram(program) for program in programs_of(model)]


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_no_run_follows_one_that_failed(engine: str) -> None:
    """Messages on their way then are no pieces of another run, which would wait."""
    both, x = programs(PICKS), random_inputs(16)
    given: Sequence[dict[str, Array]] = ({"x": x, "i": np.array([0, 16])}, {})
    found: dict[int, list[PenstockError]] = {0: [], 1: []}

    def errors(transport: SocketTransport) -> Callable[[], None]:
        def work() -> None:
            rank = transport.rank
            with Session.of(both[rank], engine=engine) as session:
                session.executor.connect(transport)
                for _ in range(2):
                    with pytest.raises(PenstockError) as caught:
                        session.run(given[rank])
                    found[rank].append(caught.value)

        return work

    with connected(2) as transports:
        in_threads([errors(transport) for transport in transports])
    (missed, after_that), (failure, after) = found[0], found[1]
    assert isinstance(failure, TaskError)
    assert isinstance(missed, PeerError)
    start = "a run has failed before, and what ranks sent in it is lost: "
    assert str(after) == f"{start}{failure}"
    assert str(after_that) == f"{start}{missed}"


def test_ranks_agree_on_places_of_elements_whatever_the_order_of_axes() -> None:
    both = programs(EACH_GIVES_ONE)
    x, z = random_inputs(6, 6).T, random_inputs(6, 6)
    given = {"x": x}, {"z": z}

    def run(transport: SocketTransport) -> dict[str, Array]:
        with Session.of(both[transport.rank]) as session:
            session.executor.connect(transport)
            return session.run(given[transport.rank])

    with connected(2) as transports:
        _, found = in_threads([partial(run, each) for each in transports])
    np.testing.assert_array_equal(cast("dict[str, Array]", found)["y"], z - x)


def test_streams_are_of_one_process() -> None:
    with connected(2) as (first, _), Session.of(programs(JOB)[0]) as session:
        session.executor.connect(first)
        with pytest.raises(PenstockError, match="a stream has the messages of one"):
            session.stream()
