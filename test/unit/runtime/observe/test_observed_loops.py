"""
Rows of logs about loops: traces and profiles of each iteration or of all of them, and
the virtual clock.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh

from penstock.runtime.observe.chrome_trace import Trace
from penstock.runtime.observe.metrics import CostObserver
from penstock.runtime.observe.observers import Observer
from penstock.runtime.program.control_flow import ROWS_EACH
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model
from penstock.tools.session.session import Session

Engine: TypeAlias = Literal["actors", "sequential", "sim"]
Inputs: TypeAlias = dict[str, npt.NDArray[np.float32]]
Json: TypeAlias = "dict[str, Any]"
KERNELS = "matmul_0", "softmax_0"
"""The kernels of an iteration."""
PIECES, WIDTH = 2, 40
PRODUCT = 2 * WIDTH * WIDTH
"""The scalar operations of the product of an iteration."""

SCAN = f"""
job.job @scan placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<1x{WIDTH}xf32>
  %w = job.input "w" : tensor<{WIDTH}x{WIDTH}xf32>
  %y = op.loop TIMES carries(%x : tensor<1x{WIDTH}xf32>)
      reads(%w : tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<1x{WIDTH}xf32> {{
  ^bb0(%i: tensor<i64>, %h: tensor<1x{WIDTH}xf32>, %v: tensor<{WIDTH}x{WIDTH}xf32>):
    %p = op.matmul %h, %v : tensor<1x{WIDTH}xf32>, tensor<{WIDTH}x{WIDTH}xf32>
      -> tensor<1x{WIDTH}xf32>
    %s = op.softmax %p axis 1 : tensor<1x{WIDTH}xf32> -> tensor<1x{WIDTH}xf32>
    op.yield %s : tensor<1x{WIDTH}xf32>
  }}
  job.output "y", %y : tensor<1x{WIDTH}xf32>
}}
"""


@contextmanager
def session_of(times: int, engine: Engine) -> Generator[tuple[Session, Inputs]]:
    """A session of a loop of two kernels, and random inputs."""
    compiler, _ = installed_compiler()
    module = compiler.parse(SCAN.replace("TIMES", str(times)).encode(), "scan.mlir")
    random = fresh()
    shapes = {"x": (1, WIDTH), "w": (WIDTH, WIDTH)}
    with Session(Model(module, {}, Path()), engine=engine) as session:
        yield session, {name: random.random(x, "f4") for name, x in shapes.items()}


Kind = TypeVar("Kind", bound=Observer)


def observed(times: int, engine: Engine, observer: Kind) -> Kind:
    """The observer of the pieces of a loop."""
    with session_of(times, engine) as (session, given):
        session.executor.observers.attach(observer)
        for _ in range(PIECES):
            session.run(given)
    return observer


def slices_of(trace: Trace) -> tuple[list[Json], list[Json]]:
    """The slices of the acts of the loop, and those of its calls."""
    events = json.loads(trace.to_json())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    acts = [x for x in slices if x["cat"] == "task" and x["name"] == "y"]
    calls = [x for x in slices if x["cat"] == "op" and x["name"] in KERNELS]
    return acts, calls


@pytest.mark.parametrize("times", [3, ROWS_EACH, ROWS_EACH + 1])
@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
def test_profile_counts_the_calls_and_the_work_of_all_iterations(
    times: int, engine: Engine
):
    costs = observed(times, engine, CostObserver())
    found = {x.op: x for x in costs.expenses() if x.op.startswith("op.")}
    product = found["op.matmul"]
    assert {x.calls for x in found.values()} == {PIECES * times}
    assert product.flops == PIECES * times * PRODUCT
    rows = times if times <= ROWS_EACH else 1
    assert {x.times.count for x in found.values()} == {PIECES * rows}


@pytest.mark.parametrize("times", [3, ROWS_EACH + 1])
@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
def test_trace_has_a_slice_for_each_iteration_or_one_for_all(
    times: int, engine: Engine
):
    acts, calls = slices_of(observed(times, engine, Trace()))
    assert len(acts) == PIECES
    for act in acts:
        start, end = act["ts"], act["ts"] + act["dur"]
        run = [x for x in calls if x["args"]["run"] == act["args"]["run"]]
        own = [x for x in run if start <= x["ts"] < end]
        rows = times if times <= ROWS_EACH else 1
        assert [x["name"] for x in own] == [*KERNELS] * rows


@pytest.mark.parametrize("times", [3, ROWS_EACH + 1])
def test_calls_share_the_time_of_an_act_on_the_virtual_clock(times: int):
    # With an odd number of iterations the value that is carried is copied first.
    trace, time = Trace(), 1000 * (2 * times + 1)
    with session_of(times, "sim") as (session, given):
        executor = session.executor
        executor.observers.attach(trace)
        names = [actor.name for actor in executor.program.tables.actors]
        taken = {name: time if name == "y" else 1 for name in names}
        _, found = executor.simulate([given] * PIECES, taken)
    # One worker: the feeds and the fetch of each piece take 1 ns each.
    assert found.makespan == PIECES * (time + len(names) - 1)
    acts, calls = slices_of(trace)
    assert [x["dur"] for x in acts] == [time / 1000] * PIECES
    each = 1 if times <= ROWS_EACH else times
    assert [x["dur"] for x in calls] == pytest.approx([each] * len(calls))


def test_modelled_time_of_a_loop_is_that_of_all_iterations():
    spans: list[int] = []
    for times in (10, 110, 210):
        with session_of(times, "sim") as (session, given):
            session.run(given)
            found = session.executor.simulation
            assert found is not None
            names = [actor.name for actor in found.tables.actors]
            spans += [x.end - x.start for x in found.acts if names[x.actor] == "y"]
    few, more, most = spans
    # Besides the iterations there is a copy; times are rounded down to nanoseconds.
    assert abs((more - few) - (most - more)) <= 1
    assert 9 * few < more < 11 * few
