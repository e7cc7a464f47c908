"""The first pass and the first task that are wrong: faults at each level are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from penstock.dialects.op import NegOp, ReluOp, SubOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import RegisterOp
from penstock.lowering.codegen.cpu.attention import AttentionPrinter
from penstock.lowering.pipelines import PIPELINES
from penstock.runtime.errors import PenstockError
from penstock.tools.cli.bisect import jobs_to_run
from penstock.tools.cli.run import run_tool
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pass_pipeline import make_passes
from penstock.tools.session.bisection import Bisection, WrongTask, first_wrong_task
from penstock.tools.session.model import Model, program_of
from penstock.tools.session.placed_oracle import PlacedEvaluation
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %h = op.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %r = op.softmax %h axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
  %y = op.matmul %r, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z = op.relu %y : tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "z", %z : tensor<4x4xf32>
}
"""
X, W = np.random.default_rng(1).standard_normal((2, 4, 4)).astype(np.float32)
INPUTS = {"x": X, "w": W}


class Search(Protocol):
    """Runs the pipeline with a fault, and gives what was found."""

    def __call__(
        self,
        fault: Callable[[ModuleOp], None] | None = None,
        after: str = "",
        without: Sequence[str] = (),
    ) -> tuple[Bisection, Model]: ...


def expected() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The output by NumPy alone, in f64."""
    h = X.astype(np.float64) @ W
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return np.maximum(e / e.sum(axis=1, keepdims=True) @ X, 0)


def negate(module: ModuleOp) -> None:
    """Put a negation in the place of a relu, in a job or in a task."""
    from xdsl.rewriter import Rewriter

    for op in list(module.walk()):
        if isinstance(op, ReluOp):
            made = NegOp.create(operands=op.operands, result_types=[op.results[0].type])
            made.results[0].name_hint = op.results[0].name_hint
            Rewriter.replace_op(op, made)


def overlap(module: ModuleOp) -> None:
    """Put the register of the first product where that of the input lies."""
    registers = {
        op.register_name.data: op for op in module.walk() if isinstance(op, RegisterOp)
    }
    x, h = registers["x/out"], registers["h/out"]
    assert x.offset is not None
    h.properties["offset"] = IntegerAttr(x.offset.value.data, i64)


def multiply(module: ModuleOp) -> None:
    """Put products in the place of quotients in kernels, which softmax has."""
    from xdsl.rewriter import Rewriter

    for op in list(module.walk()):
        if isinstance(op, arith.DivfOp):
            Rewriter.replace_op(op, arith.MulfOp(op.lhs, op.rhs))


@dataclass(frozen=True)
class Fault(ModulePass):
    """A pass that plants a fault."""

    name = "plant-fault"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        FAULTS[-1](op)


FAULTS: list[Callable[[ModuleOp], None]] = []


@pytest.fixture
def search() -> Search:
    """Run the pipeline with a fault behind a pass, and give what was found."""

    def run(
        fault: Callable[[ModuleOp], None] | None = None,
        after: str = "",
        without: Sequence[str] = (),
    ) -> tuple[Bisection, Model]:
        compiler, table = installed_compiler()
        model = Model(compiler.parse(JOB.encode(), "net.mlir"), {}, Path())
        reference = {"z": expected().astype(np.float32)}
        bisection = Bisection(model, INPUTS, reference, 1e-5)
        bisection.check_start()
        compiler.instrumentations.append(bisection)
        passes = [
            each
            for each in make_passes(table, PIPELINES["cpu"])
            if each.name not in without
        ]
        if fault is not None:
            FAULTS.append(fault)
            (place,) = [i for i, each in enumerate(passes) if each.name == after]
            passes.insert(place + 1, Fault())
        compiler.apply(model.module, passes)
        return bisection, model

    return run


def task_of(bisection: Bisection, model: Model) -> WrongTask | None:
    # It is not lowered again, which would check it.
    executable = ExportedProgram(program_of(model), {}, Path())
    with Session.of(executable, 1, "sequential", allow_source=True) as session:
        return first_wrong_task(session, INPUTS, bisection.values, 1e-5)


def test_nothing_is_found_where_nothing_is_wrong(search: Search):
    bisection, model = search()
    found = bisection.found
    assert (found.wrong, found.skipped) == (None, {})
    levels = "convert-job-to-plan", "regst-plan-memory", "convert-plan-to-launch"
    assert set(levels) <= set(found.checked)
    assert {"x/out", "h/out", "r/out"} <= bisection.values.keys()
    assert task_of(bisection, model) is None


@pytest.mark.parametrize("after", ["op-infer-shapes", "plan-assign-streams"])
def test_a_pass_that_changes_the_meaning_is_found(search: Search, after: str):
    bisection, model = search(negate, after)
    wrong = bisection.found.wrong
    assert wrong is not None
    assert (wrong.pass_name, wrong.output) == ("plant-fault", "z")
    task = task_of(bisection, model)
    assert task is not None
    assert task.task == "z"
    assert task.place is not None
    assert "net.mlir:" in task.place


def test_a_pass_that_lets_registers_overlap_is_found(search: Search):
    bisection, model = search(
        overlap, "regst-plan-memory", ("verify-plan", "verify-program")
    )
    wrong = bisection.found.wrong
    assert wrong is not None
    assert wrong.pass_name == "plant-fault"
    assert bisection.found.checked[-1] == "plant-fault"
    task = task_of(bisection, model)
    assert task is not None
    # Either the product overwrites its own operand, or what is read later.
    assert task.read or task.task == "h"


def test_a_pass_that_changes_kernels_is_found(search: Search):
    bisection, model = search(multiply, "cse")
    wrong = bisection.found.wrong
    assert wrong is not None
    assert wrong.pass_name == "plant-fault"
    task = task_of(bisection, model)
    assert task is not None
    assert (task.task, task.register) == ("r", "r/out")


def test_a_reference_that_differs_from_the_start_is_told():
    compiler, _ = installed_compiler()
    model = Model(compiler.parse(JOB.encode(), "net.mlir"), {}, Path())
    bisection = Bisection(model, INPUTS, {"z": X}, 1e-5)
    message = "the model differs from the reference before any pass: z differs by "
    with pytest.raises(PenstockError, match=message):
        bisection.check_start()


def test_plans_with_memory_are_evaluated_in_the_order_of_events():
    compiler, table = installed_compiler()
    model = Model(compiler.parse(JOB.encode(), "net.mlir"), {}, Path())
    passes = make_passes(table, PIPELINES["cpu"])
    end = [each.name for each in passes].index("convert-plan-to-launch")
    compiler.apply(model.module, passes[:end])
    evaluation = PlacedEvaluation(model, INPUTS)
    evaluation.run_entry(model.entry)
    found = evaluation.outputs["z"].astype(np.float64)
    np.testing.assert_allclose(found, expected(), rtol=1e-5)
    assert isinstance(plan := model.entry, PlanOp)
    assert len(list(plan.tasks)) == len(evaluation.tasks_of([plan]))


def test_an_output_that_the_reference_lacks_is_told():
    compiler, _ = installed_compiler()
    model = Model(compiler.parse(JOB.encode(), "net.mlir"), {}, Path())
    with pytest.raises(PenstockError, match="any pass: z is no output of the refer"):
        Bisection(model, INPUTS, {}, 1e-5).check_start()


CHAIN = """
!t = tensor<4x4xf32>
job.job @one placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %m = op.matmul %x, %w : !t, !t -> !t
  %y = op.relu %m : !t -> !t
  job.output "y", %y : !t
}
job.job @two placement <cpu, [0:0]> {
  %y = job.input "y" : !t
  %x = job.input "x" : !t
  %w = job.variable "w" init <ones> : !t
  %m = op.matmul %x, %w : !t, !t -> !t
  %e = op.exp %y : !t -> !t
  %z = op.sub %m, %e : !t, !t -> !t
  job.output "z", %z : !t
}
"""


def chain_outputs() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """The outputs of both jobs by NumPy alone, computed in f64."""
    m = X.astype(np.float64) @ np.ones((4, 4))
    y = np.maximum(m, 0)
    return {"y": y.astype(np.float32), "z": (m - np.exp(y)).astype(np.float32)}


def search_in_chain(
    jobs: Sequence[str], fault: Callable[[ModuleOp], None] | None = None
) -> tuple[Bisection, WrongTask | None]:
    """The findings about the last of some jobs, with a fault behind their merging."""
    compiler, table = installed_compiler()
    model = Model(compiler.parse(CHAIN.encode(), "two.mlir"), {}, Path())
    output = "y" if jobs[-1] == "one" else "z"
    reference = {output: chain_outputs()[output]}
    bisection = Bisection(model, {"x": X}, reference, 1e-5, jobs)
    bisection.check_start()
    compiler.instrumentations.append(bisection)
    passes = list(make_passes(table, PIPELINES["jobs"]))
    if fault is not None:
        FAULTS.append(fault)
        passes = [each for each in passes if not each.name.startswith("verify-")]
        place = [each.name for each in passes].index("plan-merge-jobs")
        passes.insert(place + 1, Fault())
    compiler.apply(model.module, passes)
    executable = ExportedProgram(program_of(model), {}, Path())
    with Session.of(executable, 1, "sequential", allow_source=True) as session:
        task = first_wrong_task(session, {"x": X}, bisection.values, 1e-5, jobs)
    return bisection, task


@pytest.mark.parametrize("jobs", [["one"], ["one", "two"]])
def test_jobs_of_a_merged_plan_are_run_behind_those_that_make_what_they_take(
    jobs: list[str],
):
    bisection, task = search_in_chain(jobs)
    found = bisection.found
    assert (found.wrong, found.skipped, task) == (None, {}, None)
    assert {"plan-merge-jobs", "convert-plan-to-launch"} <= set(found.checked)
    # Registers of the merged plan are compared with the program's.
    assert {f"{job}/x/out" for job in jobs} <= bisection.values.keys()


def swap(module: ModuleOp) -> None:
    """Exchange the operands of the difference in the second job."""
    for op in module.walk():
        if isinstance(op, SubOp):
            op.operands = tuple(reversed(op.operands))


def overlap_jobs(module: ModuleOp) -> None:
    """Put an input of the second job where the first one has its result."""
    registers = {
        op.register_name.data: op for op in module.walk() if isinstance(op, RegisterOp)
    }
    made, other = registers["two/y/out"], registers["two/x/out"]
    assert made.offset is not None
    assert other.block is not None
    other.operands = tuple(made.operands)
    other.properties["offset"] = IntegerAttr(made.offset.value.data, i64)


def test_a_pass_that_changes_one_job_of_a_merged_plan_is_found():
    bisection, task = search_in_chain(["one", "two"], swap)
    assert bisection.found.wrong is not None
    assert bisection.found.wrong.pass_name == "plant-fault"
    assert task is not None
    assert (task.task, task.register) == ("two/z", "two/z/out")
    # The first job is right all the same.
    assert search_in_chain(["one"], swap)[0].found.wrong is None


def test_a_pass_that_lets_registers_of_two_jobs_overlap_is_found():
    bisection, task = search_in_chain(["one", "two"], overlap_jobs)
    assert bisection.found.wrong is not None
    assert bisection.found.wrong.pass_name == "plant-fault"
    assert task is not None
    assert task.task.startswith("two/")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('job.output "y"', 'job.assign %y to %w : !t\n  job.output "y"'),
            "job 'one', which 'two' needs, assigns variables: what comes after it "
            "depends on its runs",
        ),
        (
            ('job.input "x"', 'job.input "z"'),
            "jobs take what they make: two -> one -> two",
        ),
        (
            ("@two", "@three"),
            "there is no job 'two', the module has one, three",
        ),
    ],
)
def test_jobs_that_cannot_run_in_a_row_are_refused(
    change: tuple[str, str], message: str
):
    compiler, _ = installed_compiler()
    text = CHAIN.replace(*change, 1)
    model = Model(compiler.parse(text.encode(), "two.mlir"), {}, Path())
    with pytest.raises(UsageError, match=f"^{message}$"):
        jobs_to_run(model, "two")


def test_several_jobs_are_searched_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "two.mlir"
    path.write_text(CHAIN, encoding="utf-8")
    words = [str(path), "--bisect", "--job", "two"]
    assert run_tool([*words, "--random-inputs", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "no pass makes the outputs wrong",
        "no task differs from the reference",
    ]
    assert run_tool([*words, "--inputs", "q=4xf32=1"]) == 1
    assert run_tool([*words[:2], "--random-inputs", "3"]) == 2
    assert capsys.readouterr().err == (
        "penstock-run: error: no arrays are given for inputs x\n"
        "penstock-run: error: the module has several jobs: give --job, one of one, two"
        "\n"
    )


WAITING = """
plan.plan @waiting {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %l = regst.register "l" slots 1 on <0, host> : !regst.control
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins()
      waits(%k : !regst.control)
      signals(%l : !regst.control) {
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins()
      waits(%l : !regst.control)
      signals(%k : !regst.control) {
    plan.yield
  }
}
"""


def test_tasks_that_wait_for_each_other_are_told():
    compiler, _ = installed_compiler()
    model = Model(compiler.parse(WAITING.encode(), "w.mlir"), {}, Path())
    message = "^tasks wait for each other: (a -> b -> a|b -> a -> b)$"
    with pytest.raises(UsageError, match=message):
        PlacedEvaluation(model, {}).run_entry(model.entry)


ATTENTION = """
job.job @net placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<40x16xf32>
  %k = job.input "k" : tensor<33x16xf32>
  %y = op.attention %q, %k, %k
    : tensor<40x16xf32>, tensor<33x16xf32>, tensor<33x16xf32> -> tensor<40x16xf32>
  job.output "y", %y : tensor<40x16xf32>
}
"""


def test_a_schedule_that_is_wrong_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    definitions = AttentionPrinter.definitions

    def moved(printer: AttentionPrinter) -> list[str]:
        """The definitions, in which scores have their sums added once more."""
        lines = definitions(printer)
        return [line.replace("    return ", "    return s + ") for line in lines]

    monkeypatch.setattr(AttentionPrinter, "definitions", moved)
    path = tmp_path / "net.mlir"
    path.write_text(ATTENTION)
    line = ["--random-inputs", "3", "--check", "numpy", "--bisect"]
    assert run_tool([str(path), *line]) == 1
    told = capsys.readouterr().out
    assert "runs wrong: launch-schedule-attention (number" in told
    schedule = "attention_0: kernel.attention by #launch.attention<columns, "
    assert f"  it is right as plain loops, not as {schedule}" in told


LOOP = """
job.job @net placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<4x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %y, %zs = op.loop 5 backward carries(%x : tensor<4x4xf32>)
      reads(%w : tensor<4x4xf32>) -> tensor<4x4xf32>, tensor<5x4x4xf32> {{
  ^bb0(%i: tensor<i64>, %s: tensor<4x4xf32>, %v: tensor<4x4xf32>):
    %p = op.matmul %s, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %three = op.constant dense<3> : tensor<i64>
    %c = op.less %i, %three : tensor<i64>, tensor<i64> -> tensor<i1>
    %z = op.if %c reads(%p : tensor<4x4xf32>) -> tensor<4x4xf32> {{
    ^bb0(%e: tensor<4x4xf32>):
      %f = op.relu %e : tensor<4x4xf32> -> tensor<4x4xf32>
      op.yield %f : tensor<4x4xf32>
    }} else {{
    ^bb0(%h: tensor<4x4xf32>):
      op.yield %h : tensor<4x4xf32>
    }}
    {last} -> tensor<4x4xf32>
    op.yield %k, %p : tensor<4x4xf32>, tensor<4x4xf32>
  }}
  job.output "y", %y : tensor<4x4xf32>
  job.output "zs", %zs : tensor<5x4x4xf32>
}}
"""

NEGATE = """
from penstock.dialects.op import NegOp, ReluOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

class Negate(ModulePass):
    "Negate in the place of each relu."

    name = "my-negate"

    def apply(self, ctx, op):
        for relu in [x for x in op.walk() if isinstance(x, ReluOp)]:
            types = [relu.results[0].type]
            made = NegOp.create(operands=relu.operands, result_types=types)
            Rewriter.replace_op(relu, made)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("last", "value"),
    [
        # It is one kernel with the value that is carried on.
        ("%k = op.sin %z : tensor<4x4xf32>", "k"),
        # It has a place of its own.
        ("%k = op.matmul %z, %v : tensor<4x4xf32>, tensor<4x4xf32>", "z"),
    ],
)
def test_the_first_wrong_value_of_an_iteration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], last: str, value: str
):
    path, negate = tmp_path / "net.mlir", tmp_path / "negate.py"
    path.write_text(LOOP.format(last=last))
    negate.write_text(NEGATE)
    words = [str(path), "--random-inputs", "3", "--bisect", "--load", str(negate)]
    assert run_tool(words) == 0
    assert run_tool([*words, "--insert-after", "op-infer-shapes=my-negate"]) == 1
    told = capsys.readouterr().out
    assert re.search(
        rf"\n  in its body in iteration 2, {value} differs by .* first", told
    )
