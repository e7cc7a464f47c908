"""Each pass over jobs and plans with bodies keeps what they mean, or says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.walk import outermost
from penstock.lowering import get_all_passes
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.levels import Level, level_of
from penstock.lowering.analysis.task_times import MEASURED
from penstock.lowering.kernel_times.database import KernelDatabase, Time
from penstock.lowering.kernel_times.keys import (
    WHOLE,
    Key,
    key_of_task,
    machine_here,
    task_key,
)
from penstock.lowering.op.group_parts import splits_of
from penstock.runtime.cuda import device as cuda
from penstock.runtime.loading.initializers import Array
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session

# A condition in a loop in a condition, in two jobs.
JOBS = """
job.job @{name} placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<2x4xi64>
  %w = job.input "w" : tensor<4x4xi64>
  %c = job.input "c" : tensor<i1>
  %n = job.input "n" : tensor<i64>
  %y = op.if %c reads(%x, %w, %n : tensor<2x4xi64>, tensor<4x4xi64>, tensor<i64>)
      -> tensor<2x4xi64> {{
  ^bb0(%a: tensor<2x4xi64>, %v: tensor<4x4xi64>, %m: tensor<i64>):
    %b, %rows = op.loop {loop} carries(%a : tensor<2x4xi64>)
        reads(%v, %m : tensor<4x4xi64>, tensor<i64>)
        -> tensor<2x4xi64>, tensor<3x2x4xi64> {{
    ^bb0(%i: tensor<i64>, %d: tensor<2x4xi64>, %u: tensor<4x4xi64>, %k: tensor<i64>):
      %p = op.matmul %d, %u : tensor<2x4xi64>, tensor<4x4xi64> -> tensor<2x4xi64>
      %q = op.add %p, %i : tensor<2x4xi64>, tensor<i64> -> tensor<2x4xi64>
      %late = op.less %i, %k : tensor<i64>, tensor<i64> -> tensor<i1>
      %r = op.if %late reads(%q : tensor<2x4xi64>) -> tensor<2x4xi64> {{
      ^bb0(%e: tensor<2x4xi64>):
        %f = op.neg %e : tensor<2x4xi64> -> tensor<2x4xi64>
        op.yield %f : tensor<2x4xi64>
      }} else {{
      ^bb0(%g: tensor<2x4xi64>):
        op.yield %g : tensor<2x4xi64>
      }}
      op.yield %r, %q : tensor<2x4xi64>, tensor<2x4xi64>
    }}
    %s = op.reduce_sum %rows axes [0] : tensor<3x2x4xi64> -> tensor<2x4xi64>
    %t = op.add %b, %s : tensor<2x4xi64>, tensor<2x4xi64> -> tensor<2x4xi64>
    op.yield %t : tensor<2x4xi64>
  }} else {{
  ^bb0(%h: tensor<2x4xi64>, %v_1: tensor<4x4xi64>, %m_1: tensor<i64>):
    op.yield %h : tensor<2x4xi64>
  }}
  job.output "{name}", %y : tensor<2x4xi64>
}}"""

FORMS = {"known": "3", "counted": "up to 3 count(%m)"}

TEXT = "\n".join(JOBS.format(name=name, loop=form) for name, form in FORMS.items())

KNOWN = JOBS.format(name="known", loop=FORMS["known"])
EXACT = KNOWN.replace("x4xi64>", "x4xf32>").replace(
    "%q = op.add %p, %i : tensor<2x4xf32>, tensor<i64>",
    "%j = op.cast %i to f32 : tensor<i64> -> tensor<f32>\n"
    "%q = op.add %p, %j : tensor<2x4xf32>, tensor<f32>",
)
"""One of the jobs on floats, which are whole numbers below 2 ** 24."""

PLACED = "job-place,job-infer-sbp"
PLANNED = f"{PLACED},convert-job-to-plan,plan-order-tasks,plan-assign-streams"
REGISTERED = f"{PLANNED},plan-create-registers,regst-plan-memory"

FUSED = f"{PLACED},op-fuse-elementwise,op-fuse-epilogues"
MERGED = (
    f"{PLANNED},plan-create-registers,regst-mark-interfaces,regst-plan-memory,"
    "plan-merge-jobs"
)

STAGES: Mapping[Level | None, Sequence[str]] = {
    Level.JOB: [PLACED],
    Level.PLAN: [PLANNED, REGISTERED],
}

WITH_OPTIONS = "op-split-groups", "plan-select-job", "plan-write-times", "verify-memory"
"""The passes that need an option, with tests of their own."""


def cases() -> list[tuple[str, str]]:
    """Each pass with a pipeline before it that ends at its level."""
    found: list[tuple[str, str]] = []
    for name in get_all_passes():
        if name not in WITH_OPTIONS:
            stages = STAGES.get(level_of(name), [REGISTERED])
            found += [(stage, name) for stage in stages]
    return found


CASES = cases()


@cache
def inputs() -> dict[str, Array]:
    random = fresh()
    return {
        "x": random.integers(-5, 6, (2, 4)),
        "w": random.integers(-5, 6, (4, 4)),
        "c": np.asarray(random.random() < 0.7),
        "n": np.asarray(random.integers(0, 4)),
    }


def floats() -> dict[str, Array]:
    """The inputs of the job on floats."""
    given = {name: inputs()[name].astype("f4") for name in ("x", "w")}
    return given | {name: inputs()[name] for name in ("c", "n")}


@cache
def staged(pipeline: str, text: str = TEXT) -> ModuleOp:
    """The jobs after some passes."""
    compiler, passes = installed_compiler()
    module = compiler.parse(text.encode(), "jobs.mlir")
    run_pipeline(compiler, passes, module, pipeline)
    return module


def expected(name: str) -> NDArray[np.int64]:
    """The output of a job, by NumPy."""
    state, weights = (inputs()[name].astype(np.int64) for name in ("x", "w"))
    if not inputs()["c"]:
        return state
    total, limit = np.zeros_like(state), int(inputs()["n"])
    for number in range(limit if name == "counted" else 3):
        row = state @ weights + number
        state, total = -row if number < limit else row, total + row
    return state + total


@pytest.mark.parametrize(
    ("stage", "name"), CASES, ids=[f"{x.count('-')}:{y}" for x, y in CASES]
)
def test_each_pass_keeps_what_bodies_mean_or_says_why_not(stage: str, name: str):
    module = staged(stage).clone()
    with suppress(Rejected):
        run_pipeline(*installed_compiler(), module, name)
        compared_jobs(module)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Times that nobody measured: of all tasks, and of groups longer than of parts."""
    times: dict[Key, float] = {}
    for op in staged(REGISTERED).walk():
        if isinstance(op, TaskOp):
            times[key_of_task(op, 1)] = 700
    for op in list(staged(FUSED, EXACT).clone().walk()):
        if isinstance(op, FusedOp):
            times[task_key(op, "cpu", machine_here())] = 90000
            for split in splits_of(op, "cpu"):
                for part in split.parts:
                    times[task_key(part, "cpu", machine_here())] = 700
                split.drop()
    path = tmp_path_factory.mktemp("times") / "times.db"
    with KernelDatabase(path, write=True) as written:
        for key, time in times.items():
            row = Time(time, time, 3, "2026-01-01T00:00:00+00:00", "penstock")
            written.record(key, {WHOLE: row})
    return path


def test_times_are_written_on_tasks_with_bodies_and_in_them(database: Path):
    module = staged(REGISTERED).clone()
    given = f'plan-write-times{{database="{database}"}}'
    run_pipeline(*installed_compiler(), module, given)
    tasks = [x for plan in outermost(module, PlanOp) for x in plan.tasks]
    timed = [x.op.name for x in tasks if MEASURED in x.attributes]
    assert timed.count("op.if") == len(FORMS)
    within = [x for plan in plans_and_bodies(module) for x in plan.tasks]
    computing = [x for x in within if x.kind == "compute"]
    assert len(computing) > len(timed)
    assert all(MEASURED in x.attributes for x in computing)
    assert compared_jobs(module) == list(FORMS)


def test_groups_in_bodies_are_split(database: Path):
    module = staged(FUSED, EXACT).clone()
    assert any(isinstance(x, FusedOp) for x in module.walk())
    given = f'op-split-groups{{database="{database}"}}'
    run_pipeline(*installed_compiler(), module, given)
    assert not any(isinstance(x, FusedOp) for x in module.walk())
    assert compared_jobs(module, floats()) == ["known"]


@pytest.mark.parametrize("job", FORMS)
def test_one_job_with_bodies_is_selected(job: str):
    module = staged(MERGED).clone()
    run_pipeline(*installed_compiler(), module, f"plan-select-job{{job={job}}}")
    assert [plan.sym_name.data for plan in outermost(module, PlanOp)] == [job]
    assert compared_jobs(module) == [job]


def test_memory_of_bodies_has_a_limit():
    module = staged(REGISTERED).clone()
    run_pipeline(*installed_compiler(), module, 'verify-memory{limits="host=1M"}')
    assert compared_jobs(module) == list(FORMS)
    with pytest.raises(Rejected, match=r"'y/memory' \d+ \(task 'y'\)"):
        run_pipeline(*installed_compiler(), module, 'verify-memory{limits="host=64"}')


def compared_jobs(
    module: ModuleOp, given: Mapping[str, Array] | None = None
) -> list[str]:
    """Jobs whose outputs can be computed, once they are found to be those of NumPy."""
    names: list[str] = []
    for job in FORMS:
        found = outputs(Model(module, {}, Path()), job, given or inputs())
        if job in found:
            np.testing.assert_array_equal(found[job], expected(job))
            names.append(job)
    return names


def outputs(model: Model, job: str, given: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a job; none where a program, or a part of it, has no meaning."""
    try:
        return evaluate_model(model, given, [job])
    except UsageError as error:
        reasons = "NumPy", "no array is given", "there is no job"
        if any(reason in str(error) for reason in reasons):
            return {}
        raise AssertionError(str(error)) from error


# Programs ---------------------------------------------------------------------------

PROGRAMMED = (
    f"{PLACED},job-insert-boxing,convert-job-to-plan,plan-order-tasks,"
    "plan-assign-streams,plan-create-registers,regst-mark-interfaces,"
    "regst-alias-registers,regst-plan-memory,plan-reduce-events,convert-plan-to-launch"
)
OF_PROGRAMS = [name for name in get_all_passes() if level_of(name) is Level.PROGRAM]


@cache
def programmed(device: str) -> ModuleOp:
    """The launch program of a job, whose loop and conditions are steps."""
    compiler, passes = installed_compiler()
    text = EXACT.replace("<cpu,", f"<{device},")
    module = compiler.parse(text.encode(), "jobs.mlir")
    run_pipeline(compiler, passes, module, PROGRAMMED)
    names = [op.name for op in module.walk()]
    assert names.count("launch.loop") == 1
    assert names.count("launch.if") == 2
    return module


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_pass_over_programs_keeps_what_loops_do(
    device: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(RecordedDriver()))
    front = installed_compiler()
    before, changed = str(programmed(device)), set[str]()
    for name in OF_PROGRAMS:
        module = programmed(device).clone()
        run_pipeline(*front, module, name)
        if str(module) == before:
            continue
        changed.add(name)
        model = Model(module, {}, Path())
        with Session(model, engine="sequential", compiler=front) as session:
            found = session.run(floats())["known"]
        np.testing.assert_array_equal(found, expected("known"), name)
    schedules = {"cpu": "launch-schedule-contractions", "cuda": "launch-schedule-tiles"}
    assert changed >= {"convert-kernel-to-loops", "launch-select-kernels"}
    assert schedules[device] in changed


# Gradients ----------------------------------------------------------------------------

TRAINING = """
job.job @{name} placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<2x4xf64>
  %w = job.input "w" : tensor<4x4xf64>
  %n = job.input "n" : tensor<i64>
  %b, %rows = op.loop {loop} carries(%x : tensor<2x4xf64>)
      reads(%w, %n : tensor<4x4xf64>, tensor<i64>)
      -> tensor<2x4xf64>, tensor<3x2x4xf64> {{
  ^bb0(%i: tensor<i64>, %d: tensor<2x4xf64>, %u: tensor<4x4xf64>, %k: tensor<i64>):
    %p = op.matmul %d, %u : tensor<2x4xf64>, tensor<4x4xf64> -> tensor<2x4xf64>
    %one = op.constant dense<1> : tensor<i64>
    %early = op.less %i, %one : tensor<i64>, tensor<i64> -> tensor<i1>
    %r = op.if %early reads(%p : tensor<2x4xf64>) -> tensor<2x4xf64> {{
    ^bb0(%e: tensor<2x4xf64>):
      %f = op.neg %e : tensor<2x4xf64> -> tensor<2x4xf64>
      op.yield %f : tensor<2x4xf64>
    }} else {{
    ^bb0(%g: tensor<2x4xf64>):
      op.yield %g : tensor<2x4xf64>
    }}
    op.yield %r, %p : tensor<2x4xf64>, tensor<2x4xf64>
  }}
  %s = op.reduce_sum %rows axes [0] : tensor<3x2x4xf64> -> tensor<2x4xf64>
  %t = op.add %b, %s : tensor<2x4xf64>, tensor<2x4xf64> -> tensor<2x4xf64>
  %loss = op.reduce_sum %t axes [0, 1] : tensor<2x4xf64> -> tensor<f64>
  %gx, %gw = job.gradients of %loss by %x, %w
    : tensor<f64>, tensor<2x4xf64>, tensor<4x4xf64>
  job.output "gx", %gx : tensor<2x4xf64>
  job.output "gw", %gw : tensor<4x4xf64>
}}"""

OF_JOBS = [name for name in get_all_passes() if level_of(name) is Level.JOB]


Floats: TypeAlias = NDArray[np.float64]


def gradients(x: Floats, w: Floats, count: int) -> dict[str, Floats]:
    """The gradients of a job by NumPy; all numbers are integers."""
    states = [x]
    for number in range(count):
        states.append(states[-1] @ w * (-1 if number < 1 else 1))
    back, total = np.ones_like(x), np.zeros_like(w)
    for number in reversed(range(count)):
        back = back * (-1 if number < 1 else 1) + 1
        total += states[number].T @ back
        back = back @ w.T
    return {"gx": back, "gw": total}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "job-add-gradients"])
def test_each_pass_over_jobs_keeps_gradients_of_bodies(form: str, before: str):
    compiler, passes = installed_compiler()
    loop = FORMS[form].replace("%m", "%n")
    text = TRAINING.format(name=form, loop=loop).encode()
    parsed = compiler.parse(text, "training.mlir")
    run_pipeline(compiler, passes, parsed, before)
    given = {name: inputs()[name].astype(np.float64) for name in ("x", "w")}
    count = int(inputs()["n"]) if form == "counted" else 3
    wanted, compared = gradients(**given, count=count), set[str]()
    for name in OF_JOBS:
        module = parsed.clone()
        with suppress(Rejected, UsageError):
            run_pipeline(compiler, passes, module, name)
            found = outputs(
                Model(module, {}, Path()), form, {**given, "n": inputs()["n"]}
            )
            for port in found.keys() & wanted.keys():
                np.testing.assert_array_equal(found[port], wanted[port], name)
                compared.add(name)
    assert compared >= {"job-add-gradients", "job-clean", "op-unroll-loops"}
