"""Variables that jobs assign to, and the jobs that set and hand out all of them."""

import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import draws

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.runtime.observe.observers import Event, Observer
from penstock.runtime.program.actors import Fixed
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

TRAIN = """
!w = tensor<8x4xf32>
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x8xf32>
  %w = job.variable "w" init <normal, seed = 3, std = 0.1> : !w
  %step = job.variable "step" init <zeros> : tensor<1xi64>
  %one = op.constant dense<1> : tensor<1xi64>
  %h = op.matmul %x, %w : tensor<16x8xf32>, !w -> tensor<16x4xf32>
  %t = op.transpose %x by [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  %g = op.matmul %t, %h : tensor<8x16xf32>, tensor<16x4xf32> -> !w
  %rate = op.constant dense<0.01> : !w
  %d = op.mul %g, %rate : !w, !w -> !w
  %next = op.sub %w, %d : !w, !w -> !w
  %more = op.add %step, %one : tensor<1xi64>, tensor<1xi64> -> tensor<1xi64>
  job.assign %next to %w : !w
  job.assign %more to %step : tensor<1xi64>
  job.output "h", %h : tensor<16x4xf32>
}
job.job @eval placement <cpu, [0:0]> {
  %z = job.input "z" : tensor<16x8xf32>
  %w = job.variable "w" init <normal, seed = 3, std = 0.1> : !w
  %h = op.matmul %z, %w : tensor<16x8xf32>, !w -> tensor<16x4xf32>
  job.output "e", %h : tensor<16x4xf32>
}
"""


def opened(
    text: str,
    *,
    threads: int = 1,
    engine: str = "actors",
    simulate_ranks: bool = False,
    model_jobs: bool = True,
    strategy: str = "parallelism",
    weights: dict[str, Array] | None = None,
) -> Session:
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "jobs.mlir")
    compiler[0].verify(module)
    return Session(
        Model(module, weights or {}, Path()),
        threads=threads,
        engine=engine,
        simulate_ranks=simulate_ranks,
        model_jobs=model_jobs,
        strategy=strategy,
        compiler=compiler,
    )


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened(TRAIN) as found:
        yield found


Floats: TypeAlias = npt.NDArray[np.float64]
Named: TypeAlias = dict[str, Array]


def some(seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((16, 8)).astype(np.float32)


def stepped(w: Floats, x: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    """The value of `h`, and that of `w` afterwards."""
    h = x.astype(np.float64) @ w
    return h, w - 0.01 * (x.T.astype(np.float64) @ h)


def close(found: Array, wanted: npt.NDArray[np.floating]) -> None:
    got = found.astype(np.float64)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


# Assignments -------------------------------------------------------------------------


@pytest.mark.parametrize("model_jobs", [False, True])
@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
@pytest.mark.parametrize("threads", [1, 2])
def test_each_run_begins_with_what_the_last_one_assigned(
    threads: int, engine: str, model_jobs: bool
):
    with opened(
        TRAIN, threads=threads, engine=engine, model_jobs=model_jobs
    ) as session:
        w = session.state()["w"].astype(np.float64)
        for seed in range(4):
            h, following = stepped(w, some(seed))
            close(session.run({"x": some(seed)}, "train")["h"], h)
            close(session.run({"z": some(9)}, "eval")["e"], some(9) @ following)
            w = following
        close(session.state()["w"], w)
        assert session.state()["step"] == [4]


JUMP = """
job.job @jump placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.assign %x to %w : tensor<4xf32>
  %r = op.reshape %w to [2, 2] : tensor<4xf32> -> tensor<2x2xf32>
  %e = op.exp %r : tensor<2x2xf32> -> tensor<2x2xf32>
  %f = op.exp %e : tensor<2x2xf32> -> tensor<2x2xf32>
  job.output "old", %w : tensor<4xf32>
  job.output "view", %r : tensor<2x2xf32>
  job.output "f", %f : tensor<2x2xf32>
}
"""


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_stands_behind_an_assignment_reads_what_was_there_before(threads: int):
    """Also through a view of the variable, and when pieces overlap."""
    with opened(JUMP, threads=threads, model_jobs=False) as session:
        rng = np.random.default_rng(threads)
        given = [rng.uniform(-1, 1, 4).astype(np.float32) for _ in range(50)]
        held = [np.ones(4, np.float32), *given]
        found = session.run_many([{"x": x} for x in given])
        for piece, old in zip(found, held[:-1], strict=True):
            np.testing.assert_array_equal(piece["old"], old)
            np.testing.assert_array_equal(piece["view"], old.reshape(2, 2))
            close(piece["f"], np.exp(np.exp(old.reshape(2, 2))))
        np.testing.assert_array_equal(session.state()["w"], held[-1])


@pytest.mark.parametrize("sbp", ["S(0)", "S(1)", "B"])
def test_parts_on_several_devices_are_assigned_to(sbp: str):
    text = f"""
    !t = tensor<4x6xf32>
    job.job @add placement <cpu, [0:0, 1:0]> {{
      %x = job.input "x" : !t
      %w = job.variable "w" init <uniform, seed = 1> {{sbp = #job.sbp<{sbp}>}} : !t
      %n = op.add %w, %x {{sbp = #job.sbp<S(0)>}} : !t, !t -> !t
      job.assign %n to %w : !t
      job.output "n", %n : !t
    }}
    """
    with opened(text, simulate_ranks=True) as session:
        w = session.state()["w"].astype(np.float32)
        x = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
        for count in (1, 2, 3):
            close(session.run({"x": x}, "add")["n"], w + count * x)
        close(session.state()["w"], w + 3 * x)
        session.load_state({"w": x})
        close(session.run({"x": x}, "add")["n"], 2 * x)
        session.init_model()
        np.testing.assert_array_equal(session.state()["w"], w)


# Jobs over the model -----------------------------------------------------------------


def test_model_jobs_are_no_jobs_of_a_person(session: Session):
    assert session.jobs == ("train", "eval")
    assert list(session.inputs("System-ModelLoad")) == [
        "ForeignInput-System-ModelLoad-w",
        "ForeignInput-System-ModelLoad-step",
    ]


def test_model_jobs_work_on_the_bytes_that_jobs_use(session: Session):
    train = session.executor_of("train").program
    for job in ("System-ModelInit", "System-ModelLoad", "System-ModelSave"):
        program = session.executor_of(job).program
        assert program.chunks is train.chunks
        assert program.variables == train.variables
    (fetched, *_) = session.executor_of("System-ModelSave").program.tables.actors
    (call,) = fetched.calls
    (w,) = [x for x in train.variables if x.port == "w"]
    address = train.chunks[w.chunk].address + w.offset
    assert call.args[-1] == Fixed(address)


@pytest.mark.parametrize("name", ["model.npz", "model.safetensors"])
def test_what_is_saved_can_be_loaded(session: Session, tmp_path: Path, name: str):
    session.init_model()
    session.run({"x": some(1)}, "train")
    session.save_model(tmp_path / name)
    saved = session.state()
    first = session.run({"x": some(2)}, "train")["h"]
    session.run({"x": some(3)}, "train")
    session.load_model(tmp_path / name)
    assert session.state().keys() == {"w", "step"}
    for key, array in session.state().items():
        np.testing.assert_array_equal(array, saved[key])
    np.testing.assert_array_equal(session.run({"x": some(2)}, "train")["h"], first)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_variables_start_from_initialisers_weights_or_what_the_plan_holds(
    tmp_path: Path,
):
    w = np.random.default_rng(4).standard_normal((8, 4)).astype(np.float32)
    with opened(TRAIN) as session:
        first = session.state()
        session.run({"x": some(1)}, "train")
        assert not np.array_equal(session.state()["w"], first["w"])
        session.init_model()
        np.testing.assert_array_equal(session.state()["w"], first["w"])
        assert session.state()["step"] == [0]
    with opened(TRAIN, weights={"w": w}) as session:
        session.run({"x": some(1)}, "train")
        session.save(tmp_path / "m.penstock")
        later = session.state()
        session.init_model()
        np.testing.assert_array_equal(session.state()["w"], w)
    with Session.open(tmp_path / "m.penstock") as session:
        session.run({"x": some(2)}, "train")
        session.init_model()
        np.testing.assert_array_equal(session.state()["w"], later["w"])
        assert session.state()["step"] == [1]


def test_checkpoints_hold_the_state_between_two_runs(tmp_path: Path):
    """Saved while another thread trains, each is that after some number of steps."""
    xs = [some(seed) for seed in range(200)]
    with opened(TRAIN, threads=2) as session:
        states = {0: session.state()["w"].astype(np.float64)}
        for step, x in enumerate(xs):
            states[step + 1] = stepped(states[step], x)[1]
        thread = threading.Thread(
            target=lambda: [session.run({"x": x}, "train") for x in xs]
        )
        thread.start()
        checkpoints = Checkpoints(tmp_path, keep=None)
        for number in range(10):
            checkpoints.save(session.state(), number)
        thread.join(300)
        for checkpoint in checkpoints.all():
            state = checkpoint.state()
            close(state["w"], states[int(state["step"][0])])
        last = checkpoints.latest()
        assert last is not None
        session.load_model(last.path)
        np.testing.assert_array_equal(session.state()["w"], last.state()["w"])


class Spans(Observer):
    """When each run of a job began and ended."""

    def __init__(self, spans: list[tuple[str, int, int]]):
        self._spans = spans

    def stop(self, event: Event) -> None:
        self._spans.append((event.name, event.start, event.end))


def test_saving_never_overlaps_training_but_may_overlap_reading():
    facts: dict[str, set[str]] = {"train": set(), "eval": set()}
    with opened(TRAIN, threads=2) as session:
        spans: list[tuple[str, int, int]] = []
        names = ("train", "eval", "System-ModelSave", "System-ModelLoad")
        for job in names:
            observers = session.executor_of(job).observers
            observers.attach(Spans(spans), levels=["run"])
        state = session.state()
        calls = [
            session.submit({"x": some(i)}, "train")
            if i % 3
            else session.submit({"z": some(i)}, "eval")
            for i in range(30)
        ]
        for _ in range(10):
            session.load_state(state | {"step": np.array([7])})
            session.state()
        for call in calls:
            call.result(300)
    writers = {"train", "System-ModelLoad"}
    spans.sort(key=lambda span: span[1])
    assert len(spans) == 30 + 10 + 11
    for i, (job, _, end) in enumerate(spans):
        for other, start, _ in spans[i + 1 :]:
            if start < end:
                facts.setdefault(job, set()).add(other)
    for job, others in facts.items():
        assert not (others and job in writers), (job, others)
        assert not others & writers, (job, others)


# Refusals ----------------------------------------------------------------------------


def test_state_has_an_array_that_fits_for_each_variable(session: Session):
    before = session.state()
    with pytest.raises(PenstockError) as caught:
        session.load_state({"w": np.zeros((8, 4), np.float64), "v": np.zeros(1)})
    assert str(caught.value).splitlines() == [
        "3 things are wrong with the state:",
        "  the state lacks variables step",
        "  the program has no variables v",
        "  jobs.mlir:5:3: variable 'w' has dtype float32, got an array of dtype "
        "float64",
    ]
    for key, array in session.state().items():
        np.testing.assert_array_equal(array, before[key])


def test_files_of_models_are_of_two_kinds(session: Session, tmp_path: Path):
    message = r"the file of a model ends in \.npz or \.safetensors, got .*model\.bin"
    for ask in (session.save_model, session.load_model):
        with pytest.raises(UsageError, match=message):
            ask(tmp_path / "model.bin")
    for name in ("none.npz", "none.safetensors"):
        with pytest.raises(UsageError, match=f"cannot read .*{name}: "):
            session.load_model(tmp_path / name)
        with pytest.raises(UsageError, match=f"cannot write .*{name}: "):
            session.save_model(tmp_path / "none" / name)
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    with pytest.raises(UsageError, match=r"cannot read .*bad\.safetensors: "):
        session.load_model(tmp_path / "bad.safetensors")


def test_kind_of_file_that_is_not_installed_is_named(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def find_none(name: str) -> None:
        return None

    monkeypatch.setattr("penstock.tools.session.model_files.find_spec", find_none)
    with pytest.raises(UsageError, match="needs a package: pip install safetensors"):
        session.save_model(tmp_path / "model.safetensors")


def test_model_jobs_are_there_if_asked_for(tmp_path: Path):
    message = (
        "the program has no job 'System-ModelSave': open the session with "
        "model_jobs=True, of a model with variables"
    )
    plain = """
    job.job @plain placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<4xf32>
      %e = op.exp %x : tensor<4xf32> -> tensor<4xf32>
      job.output "e", %e : tensor<4xf32>
    }
    """
    for text, model_jobs in ((JUMP, False), (plain, True)):
        with opened(text, model_jobs=model_jobs) as session:
            for ask in (
                session.init_model,
                lambda: session.save_model(tmp_path / "model.npz"),
                lambda: session.load_model(tmp_path / "model.npz"),
            ):
                with pytest.raises(PenstockError) as caught:
                    ask()
                assert str(caught.value) == message


# Random jobs -------------------------------------------------------------------------


def random_job(rng: random.Random) -> tuple[str, Callable[[Named, Array], Named]]:
    """
    The text of a job that reads and assigns to some variables, and what one run of it
    does to their values, in place, and hands out, for an input `x`.
    """
    lines = ['%v0 = job.input "x" : !t']
    steps: list[Callable[[Named], None]] = []
    names = [f"w{i}" for i in range(rng.randrange(1, 4))]
    for i, name in enumerate(names):
        lines.append(f'%w{i} = job.variable "{name}" init <uniform, seed = {i}> : !t')
    values = ["%v0", *(f"%{name}" for name in names)]
    outputs: list[tuple[str, str]] = []
    for i in range(1, rng.randrange(3, 12)):
        kind, a, b = rng.choice(["add", "view", "tanh"]), *rng.choices(values, k=2)
        made = f"%v{i}"
        if kind == "add":
            lines.append(f"{made} = op.add {a}, {b} : !t, !t -> !t")
        elif kind == "tanh":
            lines.append(f"{made} = op.tanh {a} : !t -> !t")
        else:
            lines.append(f"{made}r = op.reshape {a} to [6] : !t -> tensor<6xf32>")
            lines.append(f"{made} = op.reshape {made}r to [2, 3] : tensor<6xf32> -> !t")
        steps.append(partial(apply, kind, made, a, b))
        values.append(made)
        if rng.random() < 0.4:
            outputs.append((f"y{i}", rng.choice(values)))
    outputs.append(("last", values[-1]))
    assigned = {name: rng.choice(values) for name in names if rng.random() < 0.8}
    lines += [f'job.output "{name}", {value} : !t' for name, value in outputs]
    lines += [f"job.assign {value} to %{name} : !t" for name, value in assigned.items()]
    tail = lines[1 + len(names) :]
    body = "\n".join((*lines[: 1 + len(names)], *ordered_at_random(rng, tail)))

    def run(state: Named, x: Array) -> Named:
        # A variable that nobody uses is not there.
        known: Named = {"%v0": x, **{f"%{name}": state.get(name, x) for name in names}}
        for step in steps:
            step(known)
        state.update({name: known[value] for name, value in assigned.items()})
        return {name: known[value] for name, value in outputs}

    text = "!t = tensor<2x3xf32>\njob.job @j placement <cpu, [0:0]> {\n"
    return f"{text}{body}\n}}\n", run


def apply(kind: str, made: str, a: str, b: str, known: Named) -> None:
    """Compute the result of one op."""
    if kind == "add":
        known[made] = known[a].astype(np.float32) + known[b].astype(np.float32)
    elif kind == "tanh":
        known[made] = np.tanh(known[a].astype(np.float32))
    else:
        known[made] = known[a]


def ordered_at_random(rng: random.Random, lines: Sequence[str]) -> list[str]:
    """Lines in an order in which each comes after what it reads."""
    left, placed = list(lines), list[str]()
    made = {line.split(" = ")[0] for line in lines if " = " in line}
    while left:
        ready = [line for line in left if not made & set(reads(line))]
        line = rng.choice(ready)
        left.remove(line)
        placed.append(line)
        made.discard(line.split(" = ")[0])
    return placed


def reads(line: str) -> list[str]:
    return re.findall(r"%\w+", line.split(" = ")[-1])


@pytest.mark.parametrize("seed", range(draws(4)))
def test_random_jobs_with_assignments_mean_what_they_say(seed: int):
    rng = random.Random(seed)
    text, run = random_job(rng)
    values = np.random.default_rng(seed)
    with opened(text, threads=1 + seed % 3) as session:
        state = session.state()
        pieces = [values.uniform(-1, 1, (2, 3)).astype(np.float32) for _ in range(12)]
        found = session.run_many([{"x": x} for x in pieces[:8]])
        found += [session.run({"x": x}) for x in pieces[8:]]
        for x, outputs in zip(pieces, found, strict=True):
            for name, array in run(state, x).items():
                close(outputs[name], array.astype(np.float64))
        for name, array in session.state().items():
            close(array, state[name].astype(np.float64))


def test_numpy_says_what_a_run_hands_out():
    compiler = installed_compiler()[0]
    module = compiler.parse(JUMP.encode(), "jump.mlir")
    x = np.arange(4, dtype=np.float32)
    found = evaluate_model(Model(module, {}, Path()), {"x": x})
    assert found.keys() == {"old", "view", "f"}
    np.testing.assert_array_equal(found["old"], np.ones(4))


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path: Path):
    with opened(TRAIN, threads=2) as session:
        for seed in range(6):
            session.run({"x": some(seed)}, "train")
            if seed == 2:
                Checkpoints(tmp_path).save(session.state(), seed)
        wanted = session.state()
    with opened(TRAIN) as session:
        last = Checkpoints(tmp_path).latest()
        assert last is not None
        session.load_model(last.path)
        for seed in range(last.step + 1, 6):
            session.run({"x": some(seed)}, "train")
        for name, array in session.state().items():
            np.testing.assert_array_equal(array, wanted[name])
