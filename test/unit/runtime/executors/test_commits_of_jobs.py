"""
All variables of a piece are assigned to, or none: jobs in which a gather fails, on all
engines, on devices and ranks that are simulated, and in programs of several jobs.
"""

import ctypes
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from loaded_programs import load_program

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PIPELINES
from penstock.runtime.cuda import device as cuda
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.shared_variables import SharedVariables
from penstock.runtime.loading.variables import read_variables
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.runtime.testing.fault_injection import KernelFault, inject
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Model, Session

TRAIN = """
job.job @train placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  job.assign %n to %a : tensor<4xf32>
  job.assign %g to %b : tensor<4xf32>
  job.output "e", %e : tensor<4xf32>
}
"""
LOOK = """
job.job @look placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %d = op.sub %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "d", %d : tensor<4xf32>
}
"""
RANKS = """
#one = #job.placement<cpu, [1:0]>
job.job @train placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> {placement = #one} : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 {placement = #one}
    : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %n to %a : tensor<4xf32>
  job.assign %g to %b : tensor<4xf32>
}
"""


def in_place(text: str) -> str:
    """A job whose new values can be written over the old ones."""
    for value, variable in (("n", "a"), ("g", "b")):
        where = " {placement = #one}" if "#one" in text and variable == "b" else ""
        types = "tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>"
        text = text.replace(
            f"job.assign %{value} to",
            f"""%{variable}_0 = op.sub %{variable}, %{variable}{where} : {types}
  %{variable}_1 = op.add %{variable}_0, %{value}{where} : {types}
  job.assign %{variable}_1 to""",
        )
    return text


def opened(
    text: str,
    engine: str = "actors",
    threads: int = 1,
    *,
    simulate_ranks: bool = False,
    variables: SharedVariables | None = None,
) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "job.mlir")
    compiler[0].verify(module)
    return Session(
        Model(module, {}, Path()),
        threads=threads,
        engine=engine,
        simulate_ranks=simulate_ranks,
        compiler=compiler,
        variables=variables,
    )


@contextmanager
def session_of(kind: str) -> Generator[Session]:
    """
    A session of a kind, such as `actors 2`, `ranks sequential 1` or `cuda sim 1`, and
    `over actors 2` with new values over the old ones.
    """
    *where, engine, threads = kind.removeprefix("over ").split()
    text = RANKS if where == ["ranks"] else TRAIN
    text = in_place(text) if kind.startswith("over ") else text
    if where == ["cuda"]:
        with pytest.MonkeyPatch.context() as patch:
            driver = RecordedDriver(captures=threads == "1")
            patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
            made = opened(text.replace("<cpu", "<cuda"), engine, int(threads))
    else:
        made = opened(text, engine, int(threads), simulate_ranks=bool(where))
    with made as session:
        if kind.startswith("over "):
            updated = [x for actor in session.program.actors for x in actor.update_list]
            assert {update.names[0] for update in updated} == {"a", "b"}
        yield session


KINDS = [
    "actors 1",
    "actors 2",
    "sequential 1",
    "sim 1",
    "ranks actors 1",
    "ranks actors 2",
    "ranks sequential 1",
    "cuda actors 1",
    "cuda actors 2",
    "cuda sequential 1",
    "over actors 1",
    "over actors 2",
    "over sequential 1",
    "over sim 1",
    "over ranks actors 2",
    "over cuda actors 1",
    "over cuda actors 2",
    "over cuda sequential 1",
]
kinds = pytest.mark.parametrize("kind", KINDS)
GOOD, BAD = np.arange(4)[::-1].copy(), np.array([0, 1, 2, 9])


def piece(number: int, *, is_bad: bool = False) -> dict[str, npt.NDArray[np.generic]]:
    return {"n": numbers(number), "i": BAD if is_bad else GOOD}


def numbers(number: int) -> npt.NDArray[np.float32]:
    return np.arange(4, dtype=np.float32) + 10 * number


def agree(state: Mapping[str, Array], number: int | None) -> None:
    """Whether variables have the values of a piece, or those that they start with."""
    wanted = np.zeros(4, np.float32) if number is None else numbers(number)
    np.testing.assert_array_equal(state["a"], wanted)
    np.testing.assert_array_equal(state["b"], wanted[GOOD])


IN_A_ROW = """
job.job @train placement <cuda, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %j = job.input "j" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %h = op.gather %g[%j] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %h to %a : tensor<4xf32>
}
"""
"""The plan only lets a commit wait for `h`, which comes after `g`."""


@pytest.mark.parametrize("captures", [True, False])
def test_a_commit_waits_for_all_units_of_a_device_that_are_checked(
    captures: bool, monkeypatch: pytest.MonkeyPatch
):
    driver = RecordedDriver(captures=captures)
    monkeypatch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
    with opened(IN_A_ROW) as session:
        program = session.executor.program
        tables = program.tables
        (commit,) = (actor for actor in tables.actors if actor.commits)
        waits = [tables.registers[number].name for number in commit.reads]
        units = ["graph g..h"] if captures else ["g", "h"]
        assert [x for x in waits if "checked" in x] == [f"{x}, checked" for x in units]
        for i, j in ((BAD, GOOD), (GOOD, BAD)):
            with pytest.raises(TaskError, match="out of range"):
                session.run({"n": numbers(1), "i": i, "j": j})
            assert not read_variables(program)["a"].any()
        session.run({"n": numbers(1), "i": GOOD, "j": GOOD})
        assert read_variables(program)["a"].tolist() == numbers(1).tolist()


@kinds
def test_a_piece_that_fails_leaves_all_variables(kind: str):
    with session_of(kind) as session:
        for _ in range(3):
            with pytest.raises(TaskError, match="out of range"):
                session.run(piece(1, is_bad=True))
            agree(session.state(), None)
        session.run(piece(2))
        agree(session.state(), 2)
        with pytest.raises(TaskError) as caught:
            session.executor.run_many([piece(k, is_bad=k == 3) for k in range(6)])
        assert caught.value.act == 3
        agree(session.state(), 2)
        # Here pieces do not overlap.
        with pytest.raises(TaskError) as caught:
            session.run_many([piece(k, is_bad=k == 4) for k in range(6)])
        assert caught.value.act == 4
        agree(session.state(), 3)


@kinds
@pytest.mark.parametrize("bad", [0, 2])
def test_a_stream_assigns_up_to_the_piece_that_fails(kind: str, bad: int):
    def given() -> Iterator[dict[str, npt.NDArray[np.generic]]]:
        yield from (piece(number, is_bad=number == bad) for number in range(bad + 9))

    with session_of(kind) as session:
        pieces = {name: [one[name] for one in given()] for name in ("n", "i")}
        with session.stream() as stream, pytest.raises(TaskError) as caught:
            stream.run(pieces)
        assert caught.value.act == bad
        agree(session.state(), bad - 1 if bad else None)


@kinds
def test_a_stream_that_is_closed_assigns_whole_pieces(kind: str):
    with session_of(kind) as session:
        with session.stream() as stream:
            for number in range(2):
                for name, array in piece(number).items():
                    stream.put(name, array)
            # Of the next piece one input never comes, and nobody takes what there is.
            stream.put("n", numbers(7))
        state = session.state()
        assert (state["a"][GOOD] == state["b"]).all()
        assert float(state["a"][0]) in (0, 10)
        session.run(piece(5))
        agree(session.state(), 5)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_faults_that_nobody_knew_of_are_told(kind: str):
    with session_of(kind) as session:
        fault = KernelFault("assign_1", 0, 7)
        with inject(session.executor, fault), pytest.raises(TaskError) as caught:
            session.run(piece(1))
        assert caught.value.task == "assign_1"
        note = "other variables were assigned to, but not by 'assign_1'"
        assert caught.value.__notes__ == [note]
        session.run(piece(2))
        agree(session.state(), 2)


@pytest.mark.parametrize("text", [TRAIN, in_place(TRAIN)], ids=["copied", "over"])
@pytest.mark.parametrize(("engine", "threads"), [("actors", 1), ("actors", 2)])
def test_jobs_that_share_variables_see_whole_pieces(
    text: str, engine: str, threads: int
):
    with opened(text + LOOK, engine, threads) as session:
        calls: list[Future[dict[str, Array]]] = []
        looks: list[Future[dict[str, Array]]] = []
        for number in range(1, 30):
            bad = number % 3 == 0
            given = {"n": np.full(4, number, np.float32), "i": BAD if bad else GOOD}
            calls.append(session.submit(given, "train"))
            looks.append(session.submit({}, "look"))
        for number, call in enumerate(calls, 1):
            error = call.exception(300)
            assert isinstance(error, TaskError) == (number % 3 == 0)
        for look in looks:
            assert not look.result(300)["d"].any()
        assert (session.state()["a"] == 29).all()


@pytest.mark.parametrize(("engine", "threads"), [("actors", 2), ("sequential", 1)])
@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize("text", [TRAIN, in_place(TRAIN)], ids=["copied", "over"])
def test_jobs_that_a_main_job_launches_assign_whole_pieces(
    engine: str, threads: int, bad: int, text: str
):
    compiler, known = installed_compiler()
    module = compiler.parse((text + LOOK).encode(), "jobs.mlir")
    run_pipeline(compiler, known, module, PIPELINES["main"])
    (made,) = (op for op in module.body.block.ops if isinstance(op, ProgramOp))
    kernels = (op for op in made.body.block.ops if isinstance(op, KernelOp))
    sources = {kernel.sym_name.data: kernel_source(kernel) for kernel in kernels}
    program = load_program(made, sources, threads=threads)
    numbers_of_jobs = [0, 1, 0, 1, 0, 0]
    pieces = [piece(number, is_bad=number == bad) for number in range(4)]
    inputs: dict[str, list[npt.NDArray[np.generic]]] = {
        "System-Launch": [np.array(number) for number in numbers_of_jobs],
        **{name: [one[name] for one in pieces] for name in ("n", "i")},
    }
    with Executor(program, engine) as executor:
        with executor.stream(4) as stream, pytest.raises(TaskError) as caught:
            stream.run(inputs)
        assert (caught.value.task, caught.value.act) == ("train/g", bad)
        agree(read_variables(program), bad - 1 if bad else None)


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_what_is_fed_may_lie_in_a_variable(engine: str):
    more = """%s = job.input "s" : tensor<4xf32>
  job.output "t", %s : tensor<4xf32>
  %n = job.input"""
    text = TRAIN.replace("%n = job.input", more)
    shared = SharedVariables()
    with opened(text, engine, variables=shared) as session:
        session.run({**piece(1), "s": numbers(0)})
        (place,) = shared.addresses("a")
        alias = np.ctypeslib.as_array((ctypes.c_float * 4).from_address(place))
        np.testing.assert_array_equal(alias, numbers(1))
        found = session.run({**piece(2), "s": alias})
        np.testing.assert_array_equal(found["t"], numbers(1))
        many = session.executor.run_many([{**piece(k), "s": alias} for k in (3, 4)])
        for result in many:
            np.testing.assert_array_equal(result["t"], numbers(2))
        np.testing.assert_array_equal(alias, numbers(4))


@pytest.mark.parametrize("kind", ["cuda", "ranks"])
def test_variables_are_exchanged_where_they_are(kind: str):
    text = """
job.job @exchange placement <KIND, [0:0]> {
  %a = job.variable "a" init <ones> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  job.assign %a to %b : tensor<4xf32>
  job.assign %b to %a : tensor<4xf32>
}
"""
    if kind == "ranks":
        text = text.replace("<ones>", "<ones> {placement = #job.placement<cpu, [1:0]>}")
    text = text.replace("KIND", "cpu" if kind == "ranks" else "cuda")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(RecordedDriver()))
        made = opened(text, simulate_ranks=kind == "ranks")
    with made as session:
        for turn in range(3):
            state = session.state()
            assert (state["a"] == (turn + 1) % 2).all()
            assert (state["b"] == turn % 2).all()
            session.run({})
