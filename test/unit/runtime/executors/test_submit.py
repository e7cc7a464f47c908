"""Runs of jobs that are submitted: results, order, and who runs beside whom."""

import gc
import random
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from itertools import combinations, pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from penstock.dialects.launch import ActorOp
from penstock.lowering.algorithms.exclusion_groups import exclusive_by_writing
from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.jobs import JobFacts, facts_of, uses_of
from penstock.runtime.loading.initializers import Array
from penstock.runtime.observe.observers import Event, Observer
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Model, Session

Until: TypeAlias = Callable[[Callable[[], bool]], None]

JOBS = """
!t = tensor<4xf32>
job.job @sum placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %s = op.add %w, %x : !t, !t -> !t
  job.assign %s to %w : !t
  job.output "s", %s : !t
}
job.job @look placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : !t
  %n = op.neg %w : !t -> !t
  job.output "n", %n : !t
}
job.job @apart placement <cpu, [0:0]> {
  %a = job.input "a" : !t
  %i = job.input "i" : tensor<1xi64>
  %g = op.gather %a[%i] axis 0 : !t, tensor<1xi64> -> tensor<1xf32>
  job.output "g", %g : tensor<1xf32>
}
job.job @make placement <cpu, [0:0]> {
  %p = job.input "p" : !t
  %e = op.exp %p : !t -> !t
  job.output "m", %e : !t
}
job.job @take placement <cpu, [0:0]> {
  %m = job.input "m" : !t
  %r = op.neg %m : !t -> !t
  job.output "t1", %r : !t
}
job.job @see placement <cpu, [0:0]> {
  %m = job.input "m" : !t
  %r = op.abs %m : !t -> !t
  job.output "t2", %r : !t
}
"""


def opened(
    threads: int = 1, strategy: str = "parallelism", *, text: str = JOBS
) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "jobs.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    return Session(model, threads=threads, strategy=strategy, compiler=compiler)


def some(seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(4).astype(np.float32)


def close(found: Array, wanted: npt.NDArray[np.floating]) -> None:
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-5)


def picking(index: int) -> dict[str, Array]:
    """The inputs of `apart`, for the element of `some(index)` at an index."""
    return {"a": some(index), "i": np.array([index % 4])}


class Spans(Observer):
    """When each run of a job began and ended."""

    def __init__(self, spans: list[tuple[str, int, int]]):
        self._spans = spans

    def stop(self, event: Event) -> None:
        self._spans.append((event.name, event.start, event.end))


class Opens(Observer):
    """Opens a gate at the end of a run, which is told as a number."""

    def __init__(self, gate: Gate, number: int) -> None:
        self._gate, self._left = gate, number

    def stop(self, event: Event) -> None:
        self._left -= 1
        if self._left == 0:
            self._gate.open()


class Waits(Observer):
    """Says that a run has begun, and keeps it there until it may go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def start(self, event: Event) -> None:
        self.begun.set()
        assert self.go_on.wait(300)


class Meets(Observer):
    """Waits in each run until all others are in one, too."""

    def __init__(self, barrier: threading.Barrier):
        self._barrier = barrier

    def start(self, event: Event) -> None:
        self._barrier.wait(300)


def observe(session: Session, job: str, observer: Observer) -> None:
    session.executor_of(job).observers.attach(observer, levels=["run"])


# Results and order -------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_of_a_job_are_made_in_the_order_they_were_asked_for(threads: int):
    """Each run sees the state that those before it left, with other runs under way."""
    rng = random.Random(threads)
    with opened(threads) as session:
        held = np.zeros(4, np.float32)
        asked: list[tuple[Future[dict[str, Array]], str, Array]] = []
        for seed in range(120):
            match rng.choice(["sum", "look", "apart"]):
                case "sum":
                    held = held + some(seed)
                    future = session.submit({"x": some(seed)}, "sum")
                    asked.append((future, "s", held))
                case "look":
                    asked.append((session.submit({}, "look"), "n", -held))
                case _:
                    future = session.submit(picking(seed), "apart")
                    asked.append((future, "g", some(seed)[[seed % 4]]))
        for future, name, wanted in asked:
            found = future.result(300)
            assert list(found) == [name]
            np.testing.assert_array_equal(found[name], wanted)
        np.testing.assert_array_equal(session.run({}, "look")["n"], -held)


def test_call_comes_after_what_was_submitted_before():
    with opened() as session:
        waits = Waits()
        observe(session, "apart", waits)
        first = session.submit(picking(1), "apart")
        assert waits.begun.wait(300)
        waits.go_on.set()
        found = session.run(picking(2), "apart")["g"]
        assert first.done()
        np.testing.assert_array_equal(found, some(2)[[2]])


def test_output_is_written_again_when_it_has_been_pulled():
    """Each run hands out what it made, though the next one makes it anew."""
    with opened(2) as session:
        spans: list[tuple[str, int, int]] = []
        for job in ("make", "System-Pull-m"):
            observe(session, job, Spans(spans))
        calls = [session.submit({"p": some(i)}, "make") for i in range(40)]
        for i, call in enumerate(calls):
            close(call.result(300)["m"], np.exp(some(i)))
    spans.sort(key=lambda span: span[1])
    assert [job for job, _, _ in spans] == ["make", "System-Pull-m"] * 40
    for (_, _, end), (_, start, _) in pairwise(spans):
        assert end <= start


# At the same time --------------------------------------------------------------------


def test_runs_that_share_nothing_are_made_at_the_same_time():
    with opened() as session:
        barrier = threading.Barrier(2)
        for job in ("sum", "apart"):
            observe(session, job, Meets(barrier))
        first = session.submit({"x": some(0)}, "sum")
        second = session.submit(picking(0), "apart")
        assert first.result(300).keys() == {"s"}
        assert second.result(300).keys() == {"g"}
        assert not barrier.broken


def test_jobs_that_read_one_interface_run_at_the_same_time_on_memory_of_their_own():
    with opened(strategy="writers") as session:
        session.run({"p": some(1)}, "make")
        barrier = threading.Barrier(2)
        for job in ("take", "see"):
            observe(session, job, Meets(barrier))
        calls = [session.submit({}, job) for job in ("take", "see")]
        found = [call.result(300) for call in calls]
        assert not barrier.broken
        close(found[0]["t1"], -np.exp(some(1)))
        close(found[1]["t2"], np.exp(some(1)))


@pytest.mark.parametrize("strategy", ["parallelism", "writers", "memory"])
def test_runs_that_share_something_never_overlap(strategy: str):
    rng = random.Random(3)
    groups = {
        "parallelism": [{"sum", "look"}, {"make", "take", "see"}],
        # What `see` reads it gives back before it ends.
        "writers": [{"sum", "look"}, {"make", "take"}],
        "memory": [{"sum", "look", "apart", "make", "take", "see"}],
    }[strategy]
    given = {"sum": "x", "make": "p"}
    with opened(2, strategy) as session:
        session.run({"p": some(0)}, "make")
        spans: list[tuple[str, int, int]] = []
        for job in session.jobs:
            observe(session, job, Spans(spans))
        calls: list[Future[dict[str, Array]]] = []
        made = some(0)
        wanted: list[npt.NDArray[np.float32] | None] = []
        for seed in range(150):
            job = rng.choice(session.jobs)
            if job == "apart":
                calls.append(session.submit(picking(seed), job))
            else:
                name = given.get(job)
                arrays = {} if name is None else {name: some(seed)}
                calls.append(session.submit(arrays, job))
            made = some(seed) if job == "make" else made
            wanted.append(np.exp(made) if job == "see" else None)
        for call, values in zip(calls, wanted, strict=True):
            found = call.result(300)
            if values is not None:
                close(found["t2"], values)
    assert len(spans) == 150
    spans.sort(key=lambda span: span[1])
    for (job, _, end), (other, start, _) in combinations(spans, 2):
        if job == other or any({job, other} <= group for group in groups):
            assert end <= start, (job, other)


@pytest.mark.parametrize("seed", range(20))
def test_jobs_exclude_each_other_if_one_writes_what_the_other_has(seed: int):
    rng = random.Random(seed)
    names = [set(rng.sample("abcdef", rng.randrange(0, 5))) for _ in range(6)]
    written = [{name for name in own if rng.random() < 0.3} for own in names]
    found = exclusive_by_writing(names, written)
    for i, others in enumerate(found):
        assert others == {
            j
            for j in range(len(names))
            if j != i and (written[i] & names[j] or written[j] & names[i])
        }


# What goes wrong ---------------------------------------------------------------------


def test_what_does_not_fit_is_refused_before_anything_is_asked_for():
    with opened() as session:
        message = "no arrays are given for inputs x"
        with pytest.raises(PenstockError, match=message):
            session.submit({}, "sum")
        with pytest.raises(PenstockError, match="there is no job 'none'"):
            session.submit({}, "none")
        np.testing.assert_array_equal(session.run({}, "look")["n"], np.zeros(4))


def test_run_that_fails_tells_its_future_alone():
    with opened() as session:
        bad = session.submit({"a": some(1), "i": np.array([9])}, "apart")
        missing = session.submit({}, "take")
        good = session.submit(picking(2), "apart")
        with pytest.raises(TaskError):
            bad.result(300)
        message = "job 'take' takes m, which no job has made yet"
        with pytest.raises(PenstockError, match=message):
            missing.result(300)
        np.testing.assert_array_equal(good.result(300)["g"], some(2)[[2]])


def test_run_that_is_cancelled_keeps_nobody_waiting():
    with opened() as session:
        waits = Waits()
        observe(session, "apart", waits)
        running = [session.submit(picking(i), "apart") for i in range(9)]
        assert waits.begun.wait(300)
        # All threads wait for their turn in `apart`, so that this cannot begin.
        late = session.submit({"x": some(0)}, "sum")
        assert late.cancel()
        look = session.submit({}, "look")
        waits.go_on.set()
        np.testing.assert_array_equal(look.result(300)["n"], np.zeros(4))
        for call in running:
            call.result(300)
        with pytest.raises(CancelledError):
            late.result(0)


def test_closing_ends_what_has_begun_and_cancels_the_rest():
    before = threading.active_count()
    session = opened()
    waits = Waits()
    observe(session, "apart", waits)
    calls = [session.submit(picking(i), "apart") for i in range(20)]
    assert waits.begun.wait(300)
    closing = threading.Thread(target=session.close)
    closing.start()
    waits.go_on.set()
    closing.join(300)
    assert not closing.is_alive()
    np.testing.assert_array_equal(calls[0].result(0)["g"], some(0)[[0]])
    assert calls[-1].cancelled()
    assert all(call.done() for call in calls)
    assert threading.active_count() == before
    with pytest.raises(PenstockError, match="the executor is closed"):
        session.submit(picking(0), "apart")


def test_session_that_is_dropped_leaves_no_thread_though_its_futures_are_kept(
    until: Until,
):
    before = threading.active_count()
    session = opened()
    futures = [session.submit(picking(i), "apart") for i in range(3)]
    wait(futures)
    del session
    gc.collect()
    until(lambda: threading.active_count() == before)
    np.testing.assert_array_equal(futures[2].result(0)["g"], some(2)[[2]])


SQUARE = "tensor<512x512xf32>"
SLOW = "\n".join(
    (
        "job.job @slow placement <cpu, [0:0]> {",
        f'%v0 = job.input "x" : {SQUARE}',
        *(
            f"%v{i + 1} = op.matmul %v{i}, %v{i} : {SQUARE}, {SQUARE} -> {SQUARE}"
            for i in range(10)
        ),
        f'job.output "y", %v10 : {SQUARE}',
        "}",
        "job.job @other placement <cpu, [0:0]> {",
        f'%x = job.input "x" : {SQUARE}',
        f"%n = op.neg %x : {SQUARE} -> {SQUARE}",
        f'job.output "n", %n : {SQUARE}',
        "}",
    )
)


def test_next_input_is_pushed_while_the_last_run_computes():
    with opened(text=SLOW) as session:
        spans: list[tuple[str, int, int]] = []
        for job in ("slow", "System-Push-x"):
            observe(session, job, Spans(spans))
        # A mean squared ten times over is itself, and its negative the same.
        x = np.full((512, 512), 1 / 512, np.float32)
        # The first run ends after the last use of its input, and the next push.
        gate = Gate()
        observe(session, "System-Push-x", Opens(gate, 2))
        late = KernelFault("slow/v10", act=0, gate=gate)
        with inject(session.executor_of("slow"), late):
            calls = [session.submit({"x": x * factor}, "slow") for factor in (1, -1)]
            for call in calls:
                close(call.result(300)["y"], x.astype(np.float64))
    spans.sort(key=lambda span: span[1])
    push, slow = "System-Push-x", "slow"
    assert [job for job, _, _ in spans] == [push, slow, push, slow]
    (_, _, pushed), (_, begun, ended), (_, again, over), (_, last, _) = spans
    assert pushed <= begun < again < over < ended <= last


# Ticks -------------------------------------------------------------------------------


def with_ticks(text: str) -> str:
    """The standard passes for several jobs, which say sections and add ticks."""
    at_end, behind = "convert-job-to-plan", "regst-mark-interfaces"
    assert at_end in text
    assert behind in text
    text = text.replace(at_end, f"job-add-sections,{at_end}")
    return text.replace(behind, f"{behind},plan-add-ticks,verify-ticks")


@pytest.mark.parametrize("threads", [1, 2])
def test_ticks_that_nobody_is_linked_to_change_nothing(threads: int):
    compiler, passes = installed_compiler()
    module = compiler.parse(JOBS.encode(), "jobs.mlir")
    options = PipelineOptions(threads=threads, merge=True, model_jobs=True)
    text = text_of(pipeline(options))
    run_pipeline(compiler, passes, module, with_ticks(text))
    names = {op.sym_name.data for op in module.walk() if isinstance(op, ActorOp)}
    assert {"sum/total/source", "System-ModelSave/total/sink"} <= names
    model = Model(module, {}, Path())
    with Session(model, threads=threads, compiler=(compiler, passes)) as session:
        held = np.zeros(4, np.float32)
        for seed in range(5):
            held = held + some(seed)
            found = session.run({"x": some(seed)}, "sum")["s"]
            np.testing.assert_array_equal(found, held)
            made = session.run({"p": some(seed)}, "make")["m"].astype(np.float32)
            np.testing.assert_array_equal(session.run({}, "take")["t1"], -made)
        np.testing.assert_array_equal(session.state()["w"], held)
        session.init_model()
        np.testing.assert_array_equal(session.state()["w"], np.zeros(4))


# What jobs use -----------------------------------------------------------------------


def test_job_uses_a_variable_that_it_sees_through_a_view_alone():
    text = """
    job.job @shape placement <cpu, [0:0]> {
      %u = job.variable "u" init <ones> : tensor<64xf32>
      %w = job.variable "w" init <ones> : tensor<4xf32>
      %v = job.variable "v" init <ones> : tensor<64xf32>
      %r = op.reshape %w to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
      %e = op.exp %r : tensor<2x2xf32> -> tensor<2x2xf32>
      job.output "e", %e : tensor<2x2xf32>
      %s = op.add %u, %v : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
      job.assign %s to %v : tensor<64xf32>
    }
    """
    with opened(text=text) as session:
        image = session.executor.program.image
        named = {x for actor in image.actors for s in actor.steps for x in s.arguments}
        assert "w" not in named
        facts = facts_of(image)
        assert facts.used == {"u", "w", "v"}
        assert facts.written == {"v"}
        use = uses_of({"shape": facts, "other": NOTHING}, [])["shape"]
        assert use.names == {"job shape", "variable v"}
        found = session.submit({}).result(300)["e"]
        close(found, np.full((2, 2), np.e))


NOTHING = JobFacts(frozenset(), frozenset(), frozenset())
