"""`penstock-run --bisect`, `--json`, and inputs as text."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pytest

from penstock.tools.cli.bisect import lines_of
from penstock.tools.cli.opt import run_tool as opt_tool
from penstock.tools.cli.run import run_tool
from penstock.tools.cli.view import run_tool as view_tool
from penstock.tools.session.bisection import Findings

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %y = op.relu %x : tensor<2x3xf32> -> tensor<2x3xf32>
  job.output "y", %y : tensor<2x3xf32>
}
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "net.mlir"
    path.write_text(JOB, encoding="utf-8")
    return str(path)


def test_inputs_are_values_and_files(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.npz"
    assert run_tool([job, "--inputs", "x=2x3xf32=-1,2,3", "--outputs", str(out)]) == 0
    with np.load(out) as arrays:
        assert arrays["y"].tolist() == [[0, 2, 3], [0, 2, 3]]
    twice = [job, "--inputs", "x=2x3xf32", "--inputs", "x=2x3xf32"]
    capsys.readouterr()
    assert run_tool(twice) == 2
    message = "penstock-run: error: input 'x' is given twice\n"
    assert capsys.readouterr().err == message


def test_reports_are_one_object_of_json(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "out.npz"
    words = "--random-inputs 1 --check numpy --profile --repeat 2 --json --outputs"
    assert run_tool([job, *words.split(), str(out)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["program"], found["devices"]) == ("net", "cpu")
    assert found["memory"][0]["size"] >= 24
    assert len(found["run_seconds"]) == 2
    assert {row["task"] for row in found["profile"]} >= {"y"}
    (check,) = found["check"]
    assert (check["output"], check["against"], check["error"]) == ("y", "numpy", 0.0)
    assert found["wrote"] == [str(out)]


def test_passes_of_a_run_are_shown(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    again = tmp_path / "again.mlir"
    words = "--random-inputs 1 --print-ir-after=convert-job-to-plan --json --timing"
    reproducer = f"--generate-reproducer={again}"
    assert run_tool([job, *words.split(), "--pass-statistics", reproducer]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["program"] == "net"
    heading, *dump, report = err.splitlines()
    assert heading == "// -----// IR Dump After convert-job-to-plan //----- //"
    assert any(line.startswith("  plan.plan @net") for line in dump)
    found = json.loads(report)
    assert "verify-plan" in [row["name"] for row in found["timing"]]
    assert "verify-plan" in [row["pass"] for row in found["pass-statistics"]]
    assert opt_tool([str(again), "-o", str(tmp_path / "program.mlir")]) == 0
    assert "launch.program @net" in (tmp_path / "program.mlir").read_text()


def test_unknown_passes_of_dumps_are_told(job: str, capsys: pytest.CaptureFixture[str]):
    assert run_tool([job, "--random-inputs", "1", "--print-ir-after=job-klean"]) == 2
    message = "unknown pass 'job-klean', did you mean 'job-clean'? "
    hint = "(penstock-opt --list pass names them)"
    assert capsys.readouterr().err == f"penstock-run: error: {message}{hint}\n"


def test_a_search_that_finds_nothing(job: str, capsys: pytest.CaptureFixture[str]):
    assert run_tool([job, "--random-inputs", "1", "--bisect"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("ran the IR after ")
    assert others == [
        "no pass makes the outputs wrong",
        "no task differs from the reference",
    ]


def test_a_search_against_a_wrong_reference(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, y=np.full((2, 3), 7, np.float32))
    words = "--inputs", "x=2x3xf32=1", "--bisect", "--check", str(wrong)
    assert run_tool([job, *words]) == 1
    message = (
        "penstock-run: error: the model differs from the reference before any pass: "
        "y differs by 8.57e-01\n"
    )
    assert capsys.readouterr().err == message


def test_a_search_is_for_what_is_compiled(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan = tmp_path / "net.penstock"
    assert run_tool([job, "--random-inputs", "1", "--save-plan", str(plan)]) == 0
    capsys.readouterr()
    assert run_tool([str(plan), "--random-inputs", "1", "--bisect"]) == 2
    message = "a saved plan cannot be bisected: its passes have run"
    assert capsys.readouterr().err == f"penstock-run: error: {message}\n"


def test_the_origin_of_a_plan_is_json_if_that_is_asked_for(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan = str(tmp_path / "net.penstock")
    assert run_tool([job, "--random-inputs", "1", "--save-plan", plan]) == 0
    capsys.readouterr()
    assert run_tool([plan, "--show-origin", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["origin"]
    assert found["pipeline"].startswith("op-infer-shapes")
    assert found["plugins"] == []


def test_a_view_of_the_standard_input(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    def read(*arguments: str) -> tuple[str, str]:
        stdin = TextIOWrapper(BytesIO(JOB.encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)
        assert view_tool(["-", *arguments]) == 0
        return capsys.readouterr()

    page = str(tmp_path / "net.html")
    assert read("-o", page) == (f"wrote {page}\n", "")
    assert json.loads(read("-o", page, "--json")[0]) == {"wrote": [page]}
    out, err = read("-o", page, "--to-dot", "-")
    assert out.startswith('digraph "net" {')
    assert err == f"wrote {page}\n"


BREAKING = '''
from dataclasses import dataclass

from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from penstock.dialects.op import NegOp, ReluOp


@dataclass(frozen=True)
class Break(ModulePass):
    """Negate in the place of a relu."""

    name = "acme-break"

    def apply(self, ctx, op):
        for relu in [x for x in op.walk() if isinstance(x, ReluOp)]:
            types = [relu.results[0].type]
            made = NegOp.create(operands=relu.operands, result_types=types)
            made.results[0].name_hint = relu.results[0].name_hint
            made.location = relu.location
            Rewriter.replace_op(relu, made)
'''


def test_a_pass_of_a_plug_in_that_is_wrong_is_found(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plugin = tmp_path / "breaking.py"
    plugin.write_text(BREAKING, encoding="utf-8")
    edit = "--load", str(plugin), "--insert-after", "op-infer-shapes=acme-break"
    words = "--inputs", "x=2x3xf32=1", "--bisect"
    assert run_tool([job, *edit, *words]) == 1
    _, first, second = capsys.readouterr().out.splitlines()
    name = "acme-break (number 2 of the pipeline)"
    text = f"first pass whose output runs wrong: {name}: y differs by 2.00e+00"
    assert first == text
    place = f"{job}:4:3"
    assert second == (
        f"first task that differs from the reference: y at {place}: "
        "writes y/out, which differs by 2.00e+00"
    )
    assert run_tool([job, *edit, *words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["bisect"]
    assert found["wrong"]["pass_name"] == "acme-break"
    assert (found["task"]["task"], found["task"]["read"]) == ("y", False)


OVERLAPPING = '''
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.passes import ModulePass

from penstock.dialects.regst import RegisterOp


@dataclass(frozen=True)
class Overlap(ModulePass):
    """Put all registers at the first byte."""

    name = "acme-overlap"

    def apply(self, ctx, op):
        for register in [x for x in op.walk() if isinstance(x, RegisterOp)]:
            if register.offset is not None:
                register.properties["offset"] = IntegerAttr(0, i64)
'''
CHAIN = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %a = op.softmax %x axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
  %y = op.matmul %a, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "y", %y : tensor<4x4xf32>
}
"""


def test_a_wrong_pass_is_named_also_where_a_check_ends_the_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job, plugin = tmp_path / "net.mlir", tmp_path / "overlap.py"
    job.write_text(CHAIN, encoding="utf-8")
    plugin.write_text(OVERLAPPING, encoding="utf-8")
    edit = "--load", str(plugin), "--insert-after", "regst-plan-memory=acme-overlap"
    assert run_tool([str(job), *edit, "--random-inputs", "1", "--bisect"]) == 1
    _, first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("first pass whose output runs wrong: acme-overlap (number ")
    assert others[0].startswith("tasks were not compared: ")
    assert "verify-plan: " in others[0]


def test_an_executor_that_is_wrong_is_told():
    *_, last = lines_of(Findings(engine="y differs by 1.00e+00"), "actors")
    assert last == "the executor 'actors' gives wrong outputs: y differs by 1.00e+00"


@pytest.mark.parametrize("asked", ["--save-plan", "--outputs", "--check"])
@pytest.mark.parametrize("shown", ["--dump-pipeline", "--compile-to=plan"])
def test_what_is_only_shown_has_no_run(
    job: str, asked: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = "numpy" if asked == "--check" else str(tmp_path / "out")
    assert run_tool([job, shown, asked, given]) == 2
    flag = shown.partition("=")[0]
    told = f"penstock-run: error: {flag} runs nothing: leave out {asked}\n"
    assert capsys.readouterr() == ("", told)
    assert not (tmp_path / "out").exists()


def test_passes_that_do_not_run_are_not_shown(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plan = str(tmp_path / "net.penstock")
    words = job, "--random-inputs", "1", "--save-plan", plan, "--print-ir-after=cse"
    assert run_tool([*words, "--skip", "cse"]) == 0
    text = "--print-ir-after: the pipeline has no pass 'cse'"
    hint = "(--dump-pipeline prints its passes)"
    assert capsys.readouterr().err == f"penstock-run: warning: {text} {hint}\n"
    for flag in ("--print-ir-after=cse", "--timing", "--pass-statistics"):
        assert run_tool([plan, "--random-inputs", "1", flag]) == 2
        message = "options that look at passes are for what is compiled"
        assert capsys.readouterr() == ("", f"penstock-run: error: {message}\n")
