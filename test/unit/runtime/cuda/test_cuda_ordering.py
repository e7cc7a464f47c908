"""
The order of all that CUDA devices are asked for, proven from a log of it without one.

The log is made by `RecordedDriver`, which also does the work, in an order of chance
among those that streams and events allow; results are compared with NumPy's. The proof
of the order is `penstock.runtime.testing.cuda_order_check`, which knows nothing of the
runtime.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from penstock.dialects.job import PlacementAttr
from penstock.runtime.cuda import device as cuda
from penstock.runtime.cuda.driver import Span
from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.loader import LoadedProgram
from penstock.runtime.testing.cuda_order_check import RAN, RUN, Plan, problems, watched
from penstock.runtime.testing.cuda_recording_driver import Entry, RecordedDriver
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Case:
    """A job, what NumPy makes of its inputs, and the values of its variables."""

    text: str
    expected: Callable[[Arrays], Arrays]
    weights: Arrays = field(default_factory=dict[str, Array])


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


ONE = Case(
    """
job.job @one placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %w = job.variable "w" init <constant, value = 2> : tensor<3x3xf32>
  %p = op.matmul %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %s = op.softmax %p : tensor<2x3xf32> -> tensor<2x3xf32>
  job.output "s", %s : tensor<2x3xf32>
}
""",
    lambda given: {"s": softmax(given["x"] @ np.full((3, 3), 2, np.float32))},
)
BRANCHES = Case(
    """
job.job @branches placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x4xf32>
  %y = job.input "y" : tensor<2x4xf32>
  %a = op.softmax %x : tensor<2x4xf32> -> tensor<2x4xf32>
  %b = op.softmax %y : tensor<2x4xf32> -> tensor<2x4xf32>
  %c = op.reduce_sum %a axes [0] : tensor<2x4xf32> -> tensor<4xf32>
  %d = op.reduce_sum %b axes [0] : tensor<2x4xf32> -> tensor<4xf32>
  %e = op.sub %c, %d : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "a", %a : tensor<2x4xf32>
  job.output "e", %e : tensor<4xf32>
}
""",
    lambda given: {
        "a": softmax(given["x"]),
        "e": softmax(given["x"]).sum(0) - softmax(given["y"]).sum(0),
    },
)
THERE_AND_BACK = Case(
    """
job.job @there_and_back placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x4xf32>
  %a = op.softmax %x : tensor<2x4xf32> -> tensor<2x4xf32>
  %b = op.reduce_sum %a axes [0] {placement = #job.placement<cpu, [0:0]>}
    : tensor<2x4xf32> -> tensor<4xf32>
  %c = op.softmax %b : tensor<4xf32> -> tensor<4xf32>
  %d = op.add %c, %a : tensor<4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  job.output "d", %d : tensor<2x4xf32>
}
""",
    lambda given: {
        "d": softmax(softmax(given["x"]).sum(0)) + softmax(given["x"]),
    },
)
TWO_DEVICES = Case(
    """
job.job @two_devices placement <cuda, [0:0-1]> {
  %x = job.input "x" : tensor<4x6xf32>
  %w = job.variable "w" init <constant, value = 3> {sbp = #job.sbp<S(0)>}
    : tensor<6x4xf32>
  %p = op.matmul %x, %w : tensor<4x6xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
  %s = op.softmax %p : tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "s", %s : tensor<4x4xf32>
}
""",
    lambda given: {"s": softmax(given["x"] @ np.full((6, 4), 3, np.float32))},
)
RATES = Case(
    """
job.job @rates placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x4xf32>
  %b = op.pack %x by 2 : tensor<2x4xf32> -> tensor<4x4xf32>
  %s = op.softmax %b : tensor<4x4xf32> -> tensor<4x4xf32>
  %t = op.acc %s every 3 : tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "t", %t : tensor<4x4xf32>
}
""",
    lambda given: {"t": softmax(given["x"].reshape(3, 4, 4)).sum(0)},
)


LOOP = Case(
    """
job.job @loop placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %xs = job.input "xs" : tensor<5x4xf32>
  %h, %ys = op.loop 5 carries(%x : tensor<4xf32>) slices(%xs : tensor<5x4xf32>)
      -> tensor<4xf32>, tensor<5x4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<4xf32>, %a: tensor<4xf32>):
    %s = op.softmax %g : tensor<4xf32> -> tensor<4xf32>
    %t = op.add %s, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %u = op.cum_sum %t axis 0 : tensor<4xf32> -> tensor<4xf32>
    op.yield %u, %t : tensor<4xf32>, tensor<4xf32>
  }
  %l = op.softmax %h : tensor<4xf32> -> tensor<4xf32>
  job.output "l", %l : tensor<4xf32>
  job.output "ys", %ys : tensor<5x4xf32>
}
""",
    lambda given: looped(given["x"], given["xs"]),
)


def looped(h: Array, xs: Array) -> Arrays:
    ys: list[Array] = []
    for x in xs:
        ys.append(softmax(h) + x)
        h = np.cumsum(ys[-1])
    return {"l": softmax(h), "ys": np.array(ys)}


WEIGHTS = {
    name: np.random.default_rng(n).standard_normal(shape).astype(np.float32)
    for n, (name, shape) in enumerate(
        {"q": (6, 6), "o": (6, 6), "u": (6, 8), "d": (8, 6)}.items()
    )
}


def layer(layouts: Mapping[str, str], last: str = "") -> str:
    """
    A layer of a transformer on two GPUs, with a layout of the input and each weight;
    what it makes in the end may have another placement.
    """
    variables = "\n".join(
        f'  %{name} = job.variable "{name}" init <zeros> {{{layouts.get(name, "")}}} '
        f": tensor<{'x'.join(map(str, array.shape))}xf32>"
        for name, array in WEIGHTS.items()
    )
    return f"""
job.job @layer placement <cuda, [0:0-1]> {{
  %x = job.input "x" {{{layouts.get("x", "")}}} : tensor<4x6xf32>
{variables}
  %xq = op.matmul %x, %q : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %a = op.softmax %xq : tensor<4x6xf32> -> tensor<4x6xf32>
  %ao = op.matmul %a, %o : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %r = op.add %x, %ao : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  %up = op.matmul %r, %u : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  %h = op.relu %up : tensor<4x8xf32> -> tensor<4x8xf32>
  %down = op.matmul %h, %d {{{last}}}
    : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %y = op.add %r, %down {{{last}}}
    : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  job.output "y", %y : tensor<4x6xf32>
}}
"""


def layer_of(given: Arrays) -> Arrays:
    x, w = given["x"], WEIGHTS
    r = x + softmax(x @ w["q"]) @ w["o"]
    return {"y": r + np.maximum(r @ w["u"], 0) @ w["d"]}


BROADCAST = "sbp = #job.sbp<B>"
ROWS, COLUMNS = (f"sbp = #job.sbp<S({axis})>" for axis in range(2))
LAYERS = {
    "data parallel": layer(dict.fromkeys(WEIGHTS, BROADCAST) | {"x": ROWS}),
    "model parallel": layer(
        {"x": BROADCAST, "q": BROADCAST, "o": COLUMNS, "u": COLUMNS, "d": ROWS}
    ),
    "pipeline": layer({}, "placement = #job.placement<cuda, [0:1]>").replace(
        "@layer placement <cuda, [0:0-1]>", "@layer placement <cuda, [0:0]>"
    ),
}
"""The placements of layers of models on two GPUs."""
CASES = [ONE, BRANCHES, THERE_AND_BACK, TWO_DEVICES, RATES, LOOP]
PIECES = 4
LAUNCHING = "copy", "launch", "launch_graph"


def opened(case: Case, driver: RecordedDriver, engine: str = "actors") -> Session:
    """A session whose CUDA devices, of two compute streams each, a driver drives."""
    front = installed_compiler()
    module = front[0].parse(case.text.encode(), "job.mlir")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
        model = Model(module, case.weights, Path())
        return Session(model, threads=2, engine=engine, compiler=front)


def inputs_of(program: LoadedProgram, seed: int) -> list[Arrays]:
    """Some pieces of a program, of random numbers."""
    random = np.random.default_rng(seed)
    return [
        {
            name: random.standard_normal(port.shape).astype(port.dtype)
            for name, port in program.inputs.items()
        }
        for _ in range(PIECES)
    ]


def run(
    case: Case, driver: RecordedDriver, engine: str = "sequential"
) -> tuple[list[str], list[Arrays], list[Arrays]]:
    """
    The problems with the order of some pieces, the results, and the expected ones.
    """
    with opened(case, driver, engine) as session:
        program = watched(session.executor.program, driver)
        pieces, found = inputs_of(program, seed=1), list[Arrays]()
        # The reference executor goes back to the first slots before each run.
        runs = [pieces[:1], pieces[1:]] if engine == "actors" else [pieces]
        with Executor(program, engine) as executor:
            for given in runs:
                driver.note(RUN)
                found += executor.run_many(given)
                driver.note(RAN)
        lines = problems(driver.log, program)
    return lines, found, [case.expected(piece) for piece in pieces]


# Rates need a loop of the core that takes long to compile.
ENGINES = [("sequential", True), ("sequential", False), ("actors", True)]
RUNS = [
    pytest.param(case, *how, id=f"{case.text.split()[1]}-{how[0]}-{how[1]}")
    for case in CASES
    for how in (ENGINES if case is not RATES else ENGINES[:2])
]


@pytest.mark.parametrize(("case", "engine", "captures"), RUNS)
def test_all_is_ordered_and_results_are_those_of_numpy(
    case: Case, engine: str, captures: bool
):
    driver = RecordedDriver(seed=7, captures=captures)
    lines, found, expected = run(case, driver, engine)
    assert lines == []
    for made, wanted in zip(found, expected, strict=True):
        assert made.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_allclose(made[name], array, rtol=1e-4, atol=1e-6)
    graphs = sum(entry.call == "launch_graph" for entry in driver.log)
    assert graphs % PIECES == 0
    assert bool(graphs) == (captures and case is not RATES)


def test_the_order_of_loops_by_data_is_not_told_from_a_log():
    text = LOOP.text.replace("op.loop 5", "op.loop up to 5 count(%n)").replace(
        "  %x =", '  %n = job.input "n" : tensor<i64>\n  %x =', 1
    )
    driver = RecordedDriver(executes=False)
    with opened(Case(text, LOOP.expected), driver) as session:
        plan = Plan(session.executor.program)
    (at,) = [x for x, actor in enumerate(plan.image.actors) if actor.control]
    expected = (
        "actor 'h' has loops or conditions by what it reads: a log does not tell which "
        "of its steps are to be done"
    )
    with pytest.raises(PenstockError, match=expected):
        plan.steps((at, 0))


@pytest.mark.parametrize("how", LAYERS)
@pytest.mark.parametrize("captures", [True, False])
def test_layers_of_models_on_two_gpus(how: str, captures: bool):
    case = Case(LAYERS[how], layer_of, WEIGHTS)
    driver = RecordedDriver(seed=3, captures=captures)
    lines, found, expected = run(case, driver)
    assert lines == []
    for made, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(made["y"], wanted["y"], rtol=1e-4, atol=1e-4)
    assert {x.device for x in driver.log if x.call == "launch"} == {0, 1}


RANDOM_PLACES = [
    (PlacementAttr("cuda", [(0, 0), (0, 1)]), [PlacementAttr("cpu", [(0, 0)])]),
    (
        PlacementAttr("cuda", [(0, 0)]),
        [PlacementAttr("cpu", [(0, 0)]), PlacementAttr("cuda", [(0, 1)])],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "captures"), [(0, True), (1, True), (2, False)])
def test_random_jobs_on_two_devices_and_the_host(
    seed: int, captures: bool, monkeypatch: pytest.MonkeyPatch
):
    jobs_of_tests = Path(__file__).parents[2] / "lowering" / "job"
    monkeypatch.setattr(sys, "path", [str(jobs_of_tests), *sys.path])
    jobs: Any = import_module("test_sbp_jobs")
    make = partial(jobs.RandomJob, seed, 8, *RANDOM_PLACES[seed % 2])
    driver = RecordedDriver(seed=seed, captures=captures)
    monkeypatch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
    model = Model(make().module(), {}, Path())
    front = installed_compiler()
    with Session(model, threads=2, engine="sequential", compiler=front) as session:
        program = watched(session.executor.program, driver)
        with Executor(program, "sequential") as executor:
            driver.note(RUN)
            found = executor.run_many([jobs.inputs()] * 3)
            driver.note(RAN)
        assert problems(driver.log, program) == []
    expected = jobs.evaluate(make().module())
    for outputs in found:
        jobs.compare(outputs, expected)


@dataclass(frozen=True)
class Recorded:
    """A log that is right, where its runs begin and end, and the program."""

    log: list[Entry]
    start: int
    end: int
    program: LoadedProgram

    def places(self, *calls: str) -> list[int]:
        """Where the log of runs has one of these calls."""
        return [x for x in range(self.start, self.end) if self.log[x].call in calls]

    def problems_of(self, log: list[Entry]) -> list[str]:
        """The problems in another log."""
        return problems(log, self.program)


@pytest.fixture(
    scope="module",
    params=[(BRANCHES, True), (BRANCHES, False), (TWO_DEVICES, False)],
    ids=["graphs", "plain", "devices"],
)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    case, captures = request.param
    driver = RecordedDriver(executes=False, captures=captures)
    with opened(case, driver) as session:
        program = watched(session.executor.program, driver)
        start = len(driver.log)
        with Executor(program, "sequential") as executor:
            driver.note(RUN)
            executor.run_many(inputs_of(program, seed=1)[:3])
            driver.note(RAN)
        made = Recorded(list(driver.log), start, len(driver.log), program)
    assert made.problems_of(made.log) == []
    return made


def test_streams_of_the_plan_are_streams_of_the_device(recorded: Recorded):
    """Captured or not, on each stream of each device what the plan has there."""
    streams = {recorded.log[x].stream for x in recorded.places(*LAUNCHING)}
    image = recorded.program.image
    working = [x for x in image.actors if x.device == "cuda" and x.steps]
    planned = {actor.stream for actor in working}
    captured = {x.stream for x in recorded.log if x.call == "launch"}
    assert len(streams | captured) == len(planned) > 3


@pytest.mark.parametrize("call", ["wait", "synchronize_event"])
def test_no_wait_can_be_left_out(recorded: Recorded, call: str):
    places = recorded.places(call)
    if call == "synchronize_event":
        # That an input has been copied is not asked any more in the last act.
        last = {recorded.log[place - 1].name: place for place in places}
        places = [place for place in places if place not in last.values()]
    assert places
    for place in places:
        log = recorded.log[:place] + recorded.log[place + 1 :]
        assert recorded.problems_of(log), recorded.log[place]


def test_events_are_recorded_behind_what_they_stand_for(recorded: Recorded):
    swapped = 0
    for place in recorded.places("record"):
        before, record = recorded.log[place - 1 : place + 1]
        uses = [x for x in recorded.log[place + 1 :] if x.event == record.event]
        if before.call not in LAUNCHING or not uses or uses[0].call != "wait":
            continue
        log = list(recorded.log)
        log[place - 1 : place + 1] = record, before
        assert recorded.problems_of(log), record
        swapped += 1
    assert swapped > 2


def test_waits_come_before_what_they_are_for(recorded: Recorded):
    swapped = 0
    for place in recorded.places("wait"):
        wait, after = recorded.log[place : place + 2]
        if after.call in LAUNCHING:
            log = list(recorded.log)
            log[place : place + 2] = after, wait
            assert recorded.problems_of(log), wait
            swapped += 1
    assert swapped > 2


def test_work_on_another_stream_is_found(recorded: Recorded):
    for place in recorded.places("copy"):
        log = list(recorded.log)
        log[place] = log[place]._replace(stream=1000)
        assert recorded.problems_of(log), recorded.log[place]


@pytest.mark.parametrize("call", LAUNCHING)
def test_work_that_is_left_out_or_done_twice_is_found(recorded: Recorded, call: str):
    for place in recorded.places(call)[:3]:
        entry = recorded.log[place]
        less = recorded.log[:place] + recorded.log[place + 1 :]
        assert recorded.problems_of(less), entry
        more = [*recorded.log[:place], entry, *recorded.log[place:]]
        assert recorded.problems_of(more), entry


def test_memory_that_is_given_back_before_its_last_use_has_ended_is_found(
    recorded: Recorded,
):
    """In the middle of the runs, and by a thread that has not waited for their end."""
    chunks = recorded.program.chunks.values()
    for address in [chunk.address for chunk in chunks]:
        free = Entry("free", 1, 0, spans=(Span(address, 1 << 12, True),))
        middle = recorded.places(*LAUNCHING)[-2]
        found = recorded.problems_of(
            [*recorded.log[:middle], free, *recorded.log[middle:]]
        )
        assert any("given back" in line or "at once" in line for line in found)
        assert recorded.problems_of([*recorded.log, free])


def test_what_is_overwritten_before_it_is_read_is_found(recorded: Recorded):
    """The input is copied over, behind the copy and ahead of its reader."""
    places = recorded.places("wait")
    (place, *_) = [x for x in places if recorded.log[x - 1].name.startswith("begin")]
    entry = recorded.log[place]
    copies = [recorded.log[x] for x in recorded.places("copy") if x < place]
    lost = Span(copies[0].spans[1].address, 4, True)
    log = list(recorded.log)
    log.insert(place + 1, entry._replace(call="copy", event=None, spans=(lost, lost)))
    assert any("wanted by nobody" in line for line in recorded.problems_of(log))


def launched(driver: RecordedDriver) -> dict[int | None, list[tuple[str, list[int]]]]:
    """Stream by stream the kernels that run, and the bytes that they use."""
    graphs: dict[int | None, list[Entry]] = {}
    streams: dict[int | None, list[tuple[str, list[int]]]] = {}
    captured: list[Entry] | None = None
    for entry in driver.log:
        if entry.call == "begin_capture":
            captured = []
        elif entry.call == "end_capture":
            graphs[entry.graph], captured = captured or [], None
        elif entry.call == "launch" and captured is not None:
            captured.append(entry)
        elif entry.call in ("launch", "launch_graph"):
            for each in graphs.get(entry.graph, [entry]):
                row = each.name, [span.size for span in each.spans]
                streams.setdefault(each.stream, []).append(row)
    return streams


@pytest.mark.parametrize("case", [BRANCHES, TWO_DEVICES], ids=["one", "two"])
def test_graphs_run_what_is_launched_without_them_in_the_same_order(case: Case):
    found: list[object] = []
    for captures in (True, False):
        driver = RecordedDriver(executes=False, captures=captures)
        with opened(case, driver, "sequential") as session:
            ports = session.executor.program.inputs.values()
            piece = {port.name: np.zeros(port.shape, port.dtype) for port in ports}
            session.run_many([piece] * 3)
        found.append(launched(driver))
        assert any(x.call == "launch_graph" for x in driver.log) == captures
    assert found[0] == found[1]
