"""Several jobs of one program: one memory, results, and which of them run together."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from loaded_programs import load_program

from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.jobs import JobFacts, uses_of
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.memory import allocation_count
from penstock.runtime.observe.observers import Event, Observer
from penstock.runtime.program.executable import image_from_json
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.program_export import image_of
from penstock.tools.session.session import Model, Session

Start: TypeAlias = Callable[..., "Future[Any]"]

TWO = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x8xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 7> : tensor<8x4xf32>
  %h = op.matmul %x, %w : tensor<16x8xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %s = op.reduce_sum %h axes [1] : tensor<16x4xf32> -> tensor<16xf32>
  job.output "loss", %s : tensor<16xf32>
}
job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x8xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 7> : tensor<8x4xf32>
  %h = op.matmul %x, %w : tensor<16x8xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %r = op.relu %h : tensor<16x4xf32> -> tensor<16x4xf32>
  job.output "y", %r : tensor<16x4xf32>
}
job.job @apart placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
  job.output "e", %e : tensor<4xf32>
}
"""

PICKED = """
job.job @encode placement <cpu, [0:0]> {
  %i = job.input "i" : tensor<4xi64>
  %t = job.variable "t" init <normal, seed = 3, mean = 9.0, std = 1.0> : tensor<6xf32>
  %h = op.gather %t[%i] axis 0 : tensor<6xf32>, tensor<4xi64> -> tensor<4xf32>
  job.output "h", %h : tensor<4xf32>
}
job.job @decode placement <cpu, [0:0]> {
  %h = job.input "h" : tensor<4xf32>
  %z = op.sqrt %h : tensor<4xf32> -> tensor<4xf32>
  job.output "z", %z : tensor<4xf32>
}
"""


def opened(
    text: str,
    *,
    threads: int = 1,
    engine: str = "actors",
    simulate_ranks: bool = False,
) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "jobs.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    return Session(
        model,
        threads=threads,
        engine=engine,
        simulate_ranks=simulate_ranks,
        compiler=compiler,
    )


@pytest.fixture(scope="module")
def two() -> Iterator[Session]:
    with opened(TWO) as session:
        yield session


def some(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((16, 8)).astype(np.float32)


def expected(job: str, x: Array, w: Array) -> dict[str, Array]:
    h = x.astype(np.float64) @ w.astype(np.float64)
    return {"loss": h.sum(1)} if job == "train" else {"y": np.maximum(h, 0)}


def check(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        close(found[name], array)


def close(found: Array, wanted: Array) -> None:
    got, other = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(got, other, rtol=1e-4, atol=1e-5)


def address_of(session: Session, job: str, interface: str) -> int:
    """Where the register of an interface is, as the actors of a job are told."""
    program = session.executor_of(job).program
    names = {q.name for q in program.image.queues if q.interface == interface}
    (found,) = [x.address for x in program.tables.registers if x.name in names]
    return found


# Results and memory ------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
@pytest.mark.parametrize("threads", [1, 2])
def test_jobs_mean_what_they_mean_alone(threads: int, engine: str):
    with opened(TWO, threads=threads, engine=engine) as session:
        w = session.state()["w"]
        for seed, job in enumerate(["train", "eval", "eval", "train"]):
            x = some(seed)
            check(session.run({"x": x}, job), expected(job, x, w))
        pieces = [{"x": some(seed)} for seed in range(3)]
        results = session.run_many(pieces, "eval")
        for piece, found in zip(pieces, results, strict=True):
            check(found, expected("eval", piece["x"], w))
        a = np.arange(4, dtype=np.float32)
        for found in session.run_many([{"a": a}, {"a": a + 1}], "apart"):
            assert found.keys() == {"e"}
        close(session.run({"a": a}, "apart")["e"], np.exp(a))


def test_memory_is_allocated_once_for_all_jobs(two: Session):
    before = allocation_count()
    with opened(TWO) as session:
        program = session.executor_of("train").program
        assert allocation_count() - before == len(program.chunks)
        assert session.executor_of("eval").program.chunks is program.chunks
        start = allocation_count()
        session.run({"x": some(0)}, "train")
        session.run({"x": some(0)}, "eval")
        assert allocation_count() == start


def test_variables_are_one_for_all_jobs():
    with opened(TWO) as session:
        w = np.random.default_rng(5).standard_normal((8, 4)).astype(np.float32)
        session.load_state({"w": w})
        for job in ("train", "eval"):
            check(session.run({"x": some(1)}, job), expected(job, some(1), w))


def test_what_is_pushed_lies_where_it_is_used(two: Session):
    """The job that feeds an input writes the bytes that other jobs read."""
    places = {address_of(two, job, "x") for job in ("System-Push-x", "train", "eval")}
    assert len(places) == 1
    feeds = two.executor_of("System-Push-x").program.inputs
    assert list(feeds) == ["ForeignInput-System-Push-x"]
    for job in ("train", "eval"):
        assert dict(two.executor_of(job).program.inputs) == {}


def test_one_job_makes_what_another_takes():
    with opened(PICKED) as session:
        t = session.state()["t"]
        jobs = ("encode", "decode", "System-Pull-h")
        assert len({address_of(session, job, "h") for job in jobs}) == 1
        assert list(session.inputs("decode")) == []
        for seed in range(3):
            i = np.random.default_rng(seed).integers(0, 6, 4)
            made = session.run({"i": i}, "encode")
            np.testing.assert_array_equal(made["h"], t[i])
            taken = session.run({}, "decode")
            close(taken["z"], np.sqrt(t[i].astype(np.float64)))


def test_jobs_on_several_ranks_hand_on_what_is_put_together_on_one():
    rows = "{sbp = #job.sbp<S(0)>} : tensor<8x4xf32>"
    text = f"""
    job.job @a placement <cpu, [0:0, 1:0]> {{
      %x = job.input "x" : tensor<8x4xf32>
      %y = op.relu %x {rows} -> tensor<8x4xf32>
      job.output "y", %y : tensor<8x4xf32>
    }}
    job.job @b placement <cpu, [0:0, 1:0]> {{
      %y = job.input "y" : tensor<8x4xf32>
      %z = op.neg %y {rows} -> tensor<8x4xf32>
      job.output "z", %z : tensor<8x4xf32>
    }}
    """
    with opened(text, simulate_ranks=True) as session:
        for seed in range(2):
            x = some(seed)[:8, :4].astype(np.float32)
            made = session.run({"x": x}, "a")["y"]
            np.testing.assert_array_equal(made, np.maximum(x, 0))
            taken = session.run({}, "b")["z"]
            np.testing.assert_array_equal(taken, np.minimum(-x, 0))


def test_image_of_several_jobs_is_kept_as_text(two: Session):
    image = image_of(two.program)
    assert image.jobs[:3] == ("train", "eval", "apart")
    assert image.exclusive == (("train", "eval"),)
    assert image_from_json(image.to_json()) == image


def test_saved_plan_of_several_jobs(two: Session, tmp_path: Path):
    two.save(tmp_path / "two.penstock")
    with Session.open(tmp_path / "two.penstock") as session:
        assert session.jobs == ("train", "eval", "apart")
        for job in ("train", "eval"):
            wanted = expected(job, some(2), two.state()["w"])
            check(session.run({"x": some(2)}, job), wanted)


def test_job_of_the_system_can_be_run_alone(two: Session):
    two.run({"ForeignInput-System-Push-x": some(3)}, "System-Push-x")
    found = two.executor_of("eval").run({})
    check(found, expected("eval", some(3), two.state()["w"]))
    with opened(PICKED) as session:
        made = session.run({"i": np.arange(4)}, "encode")["h"]
        found = session.run({}, "System-Pull-h")
        check(found, {"ForeignOutput-System-Pull-h": made})


# Refusals ----------------------------------------------------------------------------


def test_jobs_are_named(two: Session):
    with pytest.raises(PenstockError) as caught:
        two.run({"x": some(0)}, "test")
    message = "there is no job 'test', the program has train, eval, apart"
    assert str(caught.value) == message
    for ask in (lambda: two.run({"x": some(0)}), lambda: two.executor):
        with pytest.raises(PenstockError) as caught:
            ask()
        message = "the program has several jobs, name one of train, eval, apart"
        assert str(caught.value) == message


def test_program_of_several_jobs_is_not_loaded_as_one(two: Session):
    with pytest.raises(PenstockError) as caught:
        load_program(two.program, kernel_sources(two.program))
    assert str(caught.value).startswith("the program has several jobs: train, eval, ")


def test_nothing_is_pushed_unless_all_arrays_fit(two: Session):
    two.run({"x": some(4)}, "eval")
    with pytest.raises(PenstockError) as caught:
        two.run({"x": some(5)[:3]}, "eval")
    assert str(caught.value) == (
        "input 'x' has shape (16, 8), got an array of shape (3, 8)"
    )
    with pytest.raises(PenstockError) as caught:
        two.run_many([{"x": some(5)}, {}], "eval")
    assert str(caught.value) == "no arrays are given for inputs x"
    found = two.executor_of("eval").run({})
    check(found, expected("eval", some(4), two.state()["w"]))


def test_what_is_taken_has_been_made():
    with opened(PICKED) as session:
        message = "job 'decode' takes h, which no job has made yet"
        with pytest.raises(PenstockError, match=message):
            session.run({}, "decode")
        session.run({"i": np.zeros(4, np.int64)}, "encode")
        first = session.run({}, "decode")["z"]
        # A run that fails leaves half of it.
        with pytest.raises(TaskError):
            session.run({"i": np.array([0, 1, 2, 99])}, "encode")
        with pytest.raises(PenstockError, match=message):
            session.run({}, "decode")
        session.run({"i": np.zeros(4, np.int64)}, "encode")
        np.testing.assert_array_equal(session.run({}, "decode")["z"], first)


def test_closed_session_runs_no_job():
    session = opened(TWO)
    session.close()
    for job in ("train", "apart"):
        with pytest.raises(PenstockError, match="the executor is closed"):
            session.run({"x": some(0)} if job == "train" else {"a": ones(4)}, job)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


# At the same time --------------------------------------------------------------------


class Spans(Observer):
    """When each run of a job began and ended."""

    def __init__(self, spans: list[tuple[str, int, int]]):
        self._spans = spans

    def stop(self, event: Event) -> None:
        self._spans.append((event.name, event.start, event.end))


class Meets(Observer):
    """Waits in each run until all others are in one, too."""

    def __init__(self, barrier: threading.Barrier):
        self._barrier = barrier

    def start(self, event: Event) -> None:
        self._barrier.wait(300)


@pytest.mark.slow
def test_jobs_that_share_nothing_run_at_the_same_time(start: Start):
    with opened(TWO) as session:
        barrier = threading.Barrier(2)
        for job in ("train", "apart"):
            observers = session.executor_of(job).observers
            observers.attach(Meets(barrier), levels=["run"])
        apart = start(session.run, {"a": ones(4)}, "apart")
        session.run({"x": some(0)}, "train")
        apart.result(300)
        assert not barrier.broken


def test_jobs_that_share_memory_never_overlap():
    """Each of several threads gets its own results, whoever else runs."""
    with opened(TWO) as session:
        spans: list[tuple[str, int, int]] = []
        for job in ("train", "eval", "System-Push-x"):
            observers = session.executor_of(job).observers
            observers.attach(Spans(spans), levels=["run"])
        w, wrong = session.state()["w"], list[BaseException]()

        def work(number: int) -> None:
            rng = np.random.default_rng(number)
            try:
                for i in range(25):
                    x, job = some(100 * number + i), str(rng.choice(["train", "eval"]))
                    check(session.run({"x": x}, job), expected(job, x, w))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert wrong == []
        assert len(spans) == 3 * 25 * 2
    for (job, _, end), (other, start, _) in combinations(
        sorted(spans, key=lambda span: span[1]), 2
    ):
        if job == other or {job, other} == {"train", "eval"}:
            assert end <= start


SQUARE = "tensor<512x512xf32>"
SLOW = f"""
job.job @slow placement <cpu, [0:0]> {{
  %v0 = job.input "x" : {SQUARE}
  PRODUCTS
  job.output "y", %v10 : {SQUARE}
}}
job.job @other placement <cpu, [0:0]> {{
  %x = job.input "x" : {SQUARE}
  %n = op.neg %x : {SQUARE} -> {SQUARE}
  job.output "n", %n : {SQUARE}
}}
""".replace(
    "PRODUCTS",
    "\n".join(
        f"%v{i + 1} = op.matmul %v{i}, %v{i} : {SQUARE}, {SQUARE} -> {SQUARE}"
        for i in range(10)
    ),
)


def test_next_push_overlaps_the_current_compute(start: Start):
    """It waits for the last use of the input only."""
    with opened(SLOW) as session:
        spans: list[tuple[str, int, int]] = []
        began = threading.Event()
        for job in ("slow", "System-Push-x"):
            observers = session.executor_of(job).observers
            observers.attach(Spans(spans), levels=["run"])

        class Begins(Observer):
            def start(self, event: Event) -> None:
                began.set()

        session.executor_of("slow").observers.attach(Begins(), levels=["run"])
        x = np.full((512, 512), 1 / 512, np.float32)
        # After the last use of the input, and the next push.
        gate = Gate()
        late = KernelFault("slow/v10", act=0, gate=gate)
        with inject(session.executor_of("slow"), late):
            run = start(session.run, {"x": x}, "slow")
            assert began.wait(300)
            session.run({"ForeignInput-System-Push-x": x * 2}, "System-Push-x")
            gate.open()
            run.result(300)
    first, slow, second = sorted(spans, key=lambda span: span[1])
    assert [first[0], slow[0], second[0]] == ["System-Push-x", "slow", "System-Push-x"]
    assert first[2] <= slow[1] < second[1] < second[2] < slow[2]


def test_jobs_use_what_they_write_and_what_others_change():
    none: frozenset[str] = frozenset()
    facts = {
        "train": JobFacts(frozenset("xh"), frozenset("y"), frozenset("x")),
        "push": JobFacts(none, frozenset("x"), none),
        "alone": JobFacts(none, none, none),
        "save": JobFacts(none, none, none, used=frozenset("wv")),
        "load": JobFacts(none, none, none, used=frozenset("w"), written=frozenset("w")),
    }
    found = uses_of(facts, [["train", "eval"]])
    assert {
        job: (use.writes - {f"job {job}"}, use.reads) for job, use in found.items()
    } == {
        "train": ({"interface y", "group 0"}, {"interface h", "interface x"}),
        "push": ({"interface x"}, set()),
        "alone": (set(), set()),
        # Nobody writes v.
        "save": (set(), {"variable w"}),
        "load": ({"variable w"}, set()),
    }
    # Runs of one job never overlap.
    assert all(f"job {job}" in use.writes for job, use in found.items())
