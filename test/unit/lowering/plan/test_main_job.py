"""Jobs that are linked to a main job, and launched by putting their numbers."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from draws import draws
from loaded_programs import load_program, load_program_jobs
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64

from penstock.dialects.job import ReentrantLockOp
from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PIPELINES, text_of
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import Stream
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.session.session import Session

Array = npt.NDArray[np.float32]

ENGINES = [("actors", 1), ("actors", 2), ("actors", 3), ("sequential", 1), ("sim", 1)]
engines = pytest.mark.parametrize(("engine", "threads"), ENGINES)

JOBS = """
!x = tensor<4xf32>
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <ones> : !x
  %d = op.mul %w, %x : !x, !x -> !x
  %n = op.sub %w, %d : !x, !x -> !x
  job.assign %n to %w : !x
  job.output "step", %d : !x
}
job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <ones> : !x
  %e = op.mul %x, %w : !x, !x -> !x
  job.output "y", %e : !x
}
job.job @alone placement <cpu, [0:0]> {
  %a = job.input "a" : !x
  %e = op.exp %a : !x -> !x
  %f = op.exp %e : !x -> !x
  job.output "b", %f : !x
}
"""

TRAIN, EVAL, ALONE, PUSH = range(4)
"""The jobs by number; what is pushed is `x`, which two of them read."""


Inputs = dict[str, list[np.ndarray]]


@cache
def compiled(linked: bool = True) -> tuple[ProgramOp, Mapping[str, str]]:
    """The program of all jobs, and the sources of its kernels."""
    compiler, known = installed_compiler()
    module = compiler.parse(JOBS.encode(), "jobs.mlir")
    # `d` and `n` stay tasks of their own: what is pushed is free once `d` has acted.
    standard = PIPELINES["main" if linked else "jobs"]
    passes = tuple(x for x in standard if x.name != "op-fuse-elementwise")
    run_pipeline(compiler, known, module, passes)
    (program,) = (op for op in module.body.block.ops if isinstance(op, ProgramOp))
    kernels = (x for x in program.body.block.ops if isinstance(x, KernelOp))
    return program, {x.sym_name.data: kernel_source(x) for x in kernels}


@contextmanager
def streaming(
    engine: str, threads: int = 1, times: Mapping[str, int] | None = None
) -> Generator[Stream]:
    program = load_program(*compiled(), threads=threads)
    names = [actor.name for actor in program.tables.actors]
    with Executor(program, engine):
        lengths = [(times or {}).get(name, 1) for name in names]
        with Stream(program, engine, 4, lengths) as stream:
            yield stream


def launches(jobs: Sequence[int], seed: int) -> Inputs:
    """The inputs to put for the jobs of these numbers to be launched."""
    random = np.random.default_rng(seed)

    def draw(job: int) -> list[np.ndarray]:
        return [random.random(4, np.float32) for x in jobs if x == job]

    return {
        "System-Launch": [np.array(job, np.int64) for job in jobs],
        "ForeignInput-System-Push-x": draw(PUSH),
        "a": draw(ALONE),
    }


def expected(jobs: Sequence[int], inputs: Inputs) -> dict[str, list[Array]]:
    """The outputs if jobs run one after the other, as NumPy has them."""
    pushed, alone = iter(inputs["ForeignInput-System-Push-x"]), iter(inputs["a"])
    w, x = np.ones(4, np.float32), np.zeros(4, np.float32)
    out: dict[str, list[Array]] = {"step": [], "y": [], "b": []}
    for job in jobs:
        if job == PUSH:
            x = next(pushed)
        elif job == TRAIN:
            out["step"].append(w * x)
            w = w - w * x
        elif job == EVAL:
            out["y"].append(x * w)
        else:
            out["b"].append(np.exp(np.exp(next(alone))))
    return out


def assert_equal(found: Sequence[np.ndarray], wanted: Sequence[Array]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.astype(np.float32), other, rtol=1e-5)


@engines
@pytest.mark.parametrize("seed", range(draws(1)))
def test_a_job_is_launched_by_its_number(engine: str, threads: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = [PUSH, *(int(x) for x in random.integers(0, 4, 60))]
    inputs = launches(jobs, seed)
    with streaming(engine, threads) as stream:
        ending = stream.run(inputs)
    assert ending.left_over == {}
    finished = [int(number) for number in ending.outputs["System-Finished"]]
    assert sorted(finished) == sorted(jobs)
    for name, pieces in expected(jobs, inputs).items():
        assert_equal(ending.outputs[name], pieces)


@engines
def test_the_caller_is_told_when_a_job_has_ended(engine: str, threads: int) -> None:
    with streaming(engine, threads) as stream:
        for job in (ALONE, ALONE, ALONE):
            stream.put("a", np.zeros(4, np.float32), 300)
            stream.put("System-Launch", np.array(job, np.int64), 300)
            assert int(stream.take("System-Finished", 300)) == ALONE
            assert_equal([stream.take("b", 300)], [np.full(4, np.e, np.float32)])
        assert stream.finish(300).left_over == {}


@engines
def test_a_number_that_no_job_has_is_refused(engine: str, threads: int) -> None:
    def launch(stream: Stream) -> None:
        stream.put("System-Launch", np.array(4, np.int64), 300)
        stream.finish(300)

    with streaming(engine, threads) as stream:
        with pytest.raises(TaskError) as raised:
            launch(stream)
        assert "got number 4, but there are 4 lists" in str(raised.value)


def spans_of(jobs: Sequence[int]) -> dict[str, list[tuple[int, int]]]:
    """
    When each launch of each job does something, from the first to the last act with
    steps, on a clock on which its kernels take long.
    """
    program, _ = compiled()
    steps = {x.sym_name.data for x in program.actors if x.body.block.first_op}
    times = {x.sym_name.data: 40 for x in program.actors if "/" in x.sym_name.data}
    inputs = launches(jobs, 0)
    with streaming("sim", times={name: times[name] for name in steps}) as stream:
        stream.run(inputs)
        simulation = stream.simulation
    assert simulation is not None
    names = [actor.name for actor in simulation.tables.actors]
    found: dict[str, list[tuple[int, int]]] = {}
    counts: dict[str, int] = {}
    for act in sorted(simulation.acts, key=lambda act: act.start):
        name = names[act.actor]
        if name not in steps:
            continue
        number = counts[name] = counts.get(name, -1) + 1
        spans = found.setdefault(name.partition("/")[0], [])
        if number == len(spans):
            spans.append((act.start, act.end))
        first, last = spans[number]
        spans[number] = min(first, act.start), max(last, act.end)
    return found


def test_jobs_that_share_never_overlap_and_others_do() -> None:
    spans = spans_of([PUSH, TRAIN, EVAL, ALONE, PUSH, ALONE, TRAIN, EVAL, TRAIN] * 4)

    def meet(one: str, other: str) -> bool:
        return any(a < d and c < b for a, b in spans[one] for c, d in spans[other])

    assert not meet("train", "eval")
    assert not meet("System-Push-x", "train")
    assert not meet("System-Push-x", "eval")
    assert meet("alone", "train")


def test_a_job_that_nobody_keeps_goes_on_while_it_runs() -> None:
    spans = spans_of([ALONE] * 6)["alone"]
    assert any(next[0] < last[1] for last, next in pairwise(spans))


def test_jobs_that_are_not_linked_are_no_stream() -> None:
    program, sources = compiled(linked=False)
    with pytest.raises(PenstockError) as raised:
        load_program(program, sources)
    listed = "train, eval, alone, System-Push-x"
    assert str(raised.value) == f"the program has several jobs: {listed}"


def test_a_linked_program_is_one_job_of_its_name() -> None:
    jobs = load_program_jobs(*compiled())
    assert list(jobs) == ["main"]
    pieces = launches([PUSH, ALONE], 0)
    inputs = {name: some[0] for name, some in pieces.items()}
    with Executor(jobs["main"]) as runner, pytest.raises(PenstockError) as raised:
        runner.run(inputs)
    assert "so it runs as a stream" in str(raised.value)


def test_a_session_of_a_linked_program_is_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "main.mlir"
    program, _ = compiled()
    path.write_text(str(program))
    jobs = [PUSH, TRAIN, EVAL, PUSH, TRAIN, ALONE, EVAL]
    inputs = launches(jobs, 9)
    with Session.open(path) as session, session.stream() as stream:
        outputs = stream.run(inputs).outputs
    for name, pieces in expected(jobs, inputs).items():
        assert_equal(outputs[name], pieces)


def test_a_lock_that_keeps_nobody_apart_is_found_in_plan_and_program() -> None:
    compiler, known = installed_compiler()
    module = compiler.parse(JOBS.encode(), "jobs.mlir")
    # Up to the plan on which verify-plan runs.
    passes = text_of(PIPELINES["main"]).partition(",verify-plan")[0]
    run_pipeline(compiler, known, module, passes)
    (lock,) = (op for op in module.walk() if isinstance(op, ReentrantLockOp))
    lock.lists = ArrayAttr([DenseArrayBase.from_list(i64, []) for _ in lock.lists])
    shared = {
        ("train", "eval"): {"the same bytes", "variable {}"},
        ("train", "System-Push-x"): {"interface 'x'"},
        ("eval", "System-Push-x"): {"interface 'x'"},
    }
    for passes, w in (
        ("verify-plan", "'w/out'"),
        ("convert-plan-to-launch,verify-program", "@w"),
    ):
        with pytest.raises(Rejected) as raised:
            run_pipeline(compiler, known, module, passes)
        found = {x.message.partition(" lets ")[2] for x in raised.value.diagnoses}
        assert found == {
            f"jobs '{one}' and '{other}' use {what.format(w)} at the same time"
            for (one, other), things in shared.items()
            for what in things
        }


@engines
@pytest.mark.parametrize("counts", [(1, 0), (6, 0), (6, 4)])
def test_a_job_whose_own_input_ends_too_early_is_named(
    engine: str, threads: int, counts: tuple[int, int]
) -> None:
    launched, fed = counts
    inputs = launches([PUSH, TRAIN, *[ALONE] * launched, EVAL], 2)
    inputs["a"] = inputs["a"][:fed]
    if not fed:
        del inputs["a"]
    with (
        streaming(engine, threads) as stream,
        pytest.raises(DeadlockError) as raised,
    ):
        stream.run(inputs)
    line = f"job 'alone' needs {launched - fed} more of input 'a', which ended"
    assert raised.value.stuck[0] == line
    assert not [x for x in raised.value.stuck[1:] if " needs " in x]


@engines
def test_a_job_that_cannot_run_does_not_keep_who_launches_waiting(
    engine: str, threads: int
) -> None:
    # The first launch has all that others need, so there is no room for so many.
    many = [np.array(job, np.int64) for job in (PUSH, *[TRAIN] * 400)]
    with (
        streaming(engine, threads) as stream,
        pytest.raises(DeadlockError) as raised,
    ):
        stream.run({"System-Launch": many})
    port = "ForeignInput-System-Push-x"
    line = f"job 'System-Push-x' needs 1 more of input '{port}', which ended"
    assert raised.value.stuck[0] == line
