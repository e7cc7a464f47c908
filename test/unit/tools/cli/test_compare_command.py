"""`penstock-compare`: variants, subjects, and what is wrong with them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from onnx import TensorProto, helper

from penstock.tools.cli.compare_variants import run_tool
from penstock.tools.driver.plugins import unload
from penstock.tools.reports.compare import exported

JOB = """
!t = tensor<8x8xf32>
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.tanh %a : !t -> !t
  %c = op.matmul %b, %b : !t, !t -> !t
  job.output "y", %c : !t
}
"""

PASS = """
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from penstock.dialects import op
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("pass", "my-swap")
class MySwap(ModulePass):
    name = "my-swap"

    def apply(self, ctx, module: ModuleOp) -> None:
        for each in list(module.walk()):
            if each.name == "op.tanh":
                NEW
"""

REPLACE = """from xdsl.rewriter import Rewriter
                Rewriter.replace_op(each, op.ReluOp(each.operands[0]))"""

QUICK = "--rounds", "1", "--seconds", "0.001"


class Outcome(NamedTuple):
    code: int
    out: str
    error: str

    @property
    def subjects(self) -> Mapping[str, Mapping[str, list[float | None]]]:
        return json.loads(self.out)["subjects"]


class Runner:
    """Runs the command in a folder with a job, `small.mlir`."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]):
        self._capsys = capsys
        (folder / "small.mlir").write_text(JOB)

    def __call__(self, *arguments: str) -> Outcome:
        try:
            code = run_tool(arguments)
        except SystemExit as ended:
            code = int(str(ended.code))
        out, error = self._capsys.readouterr()
        return Outcome(code, out, error)


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Runner:
    monkeypatch.chdir(tmp_path)
    return Runner(tmp_path, capsys)


# Jobs


def test_an_edit_shows_in_the_numbers(run: Runner) -> None:
    apart = "apart: cpu --skip op-fuse-elementwise --skip op-fuse-epilogues"
    metrics = "--metric", "tasks,kernels,memory,bound,weights,bytes-moved"
    found = run("cpu", apart, "--on", "small.mlir", *metrics, "--json")
    assert found.code == 0, found.error
    rows = found.subjects["small"]
    # An input, an output, and a task for the ops together or for each.
    assert rows["kernels"] == [2, 3]
    tasks = rows["tasks"]
    assert tasks[0] is not None
    assert tasks[1] == tasks[0] + 1
    assert rows["weights"] == [0, 0]
    # Each op apart reads and writes 256 bytes once more.
    moved = rows["bytes-moved"]
    assert moved[0] is not None
    assert moved[1] == moved[0] + 512


def test_a_file_is_loaded_as_it_was_in_a_revision(run: Runner, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = "-c", "user.name=x", "-c", "user.email=x@example.com"
        subprocess.run(["git", *who, *words], check=True, capture_output=True)

    file = tmp_path / "mine.py"
    file.write_text(PASS.replace("NEW", "pass"))
    git("init", "-q")
    git("add", "mine.py")
    git("commit", "-q", "-m", "first")
    file.write_text(PASS.replace("NEW", REPLACE))
    edit = "--insert-before op-infer-shapes=my-swap"
    old = f"old: cpu --load mine.py@HEAD {edit}"
    new = f"new: cpu --load mine.py {edit}"
    found = run(old, new, "--on", "small.mlir", "--metric", "time,tasks", *QUICK)
    assert found.code == 0, found.error
    head, _, row = found.out.partition("\n")
    assert head.split() == ["time", "old", "new", "ratio"]
    assert row.split()[0] == "small"
    # A relu in the place of tanh computes something else.
    note = r"small: outputs of new differ by [\d.]+ from those of old\n"
    assert re.search(note, found.error)


def test_a_variant_that_fails_is_told_and_the_others_are_measured(
    run: Runner, tmp_path: Path
) -> None:
    (tmp_path / "ends.py").write_text("import os\n\nos._exit(3)\n")
    found = run(
        "cpu",
        "none: cpu --skip op-no-such",
        "gone: cpu --load ends.py",
        *("--on", "small.mlir", "--metric", "tasks"),
    )
    assert found.code == 1
    assert found.out.splitlines()[1].split()[2:] == ["failed", "failed"]
    none, gone = found.error.splitlines()
    assert none.startswith("penstock-compare: error: small, none: skip op-no-such: ")
    assert gone == (
        "penstock-compare: error: small, gone: its process ended with code 3"
    )


# Planners


def test_planners_of_a_file_are_compared_on_lifetimes(
    run: Runner, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text("id,lower,upper,size\n0,0,1,4\n1,0,2,2\n2,1,2,4\n")
    (tmp_path / "mine.py").write_text(
        "from penstock.plugins import register\n"
        'PENSTOCK_INTERFACE = "0.2"\n\n'
        '@register("memory-planner", "acme-apart")\n'
        "def apart(problem, budget):\n"
        "    return [10 * i for i in range(len(problem.sizes))]\n"
    )
    planners = "--planners", "best,acme-apart", "--load", "mine.py"
    found = run(*planners, "--on", "p.csv", "--json", "--page", "out.html")
    assert found.code == 0, found.error
    bound, best, apart = found.subjects["p"]["memory"]
    assert (bound, best) == (6, 6)
    assert apart in (22, 24)
    assert "acme-apart" in (tmp_path / "out.html").read_text()


def test_planners_are_compared_by_one_metric(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("id,lower,upper,size\n0,0,1,4\n")
    words = "--planners", "size-first", "--on", "p.csv", "--metric"
    found = run(*words, "memory", "--json")
    assert found.code == 0, found.error
    assert set(found.subjects["p"]) == {"memory"}
    found = run(*words, "memory,tasks")
    text = "unknown metric of planners 'tasks' (known: memory, compile-time)"
    assert (found.code, found.error) == (2, f"penstock-compare: error: {text}\n")


@pytest.mark.slow
def test_files_that_a_plug_in_imports_are_compared(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "net.toy").write_text((tmp_path / "small.mlir").read_text())
    (tmp_path / "toy.py").write_text(
        "from penstock.plugins import register\n\n"
        '@register("importer", "toy")\n'
        "def read(path):\n"
        "    return path.read_text()\n"
    )
    words = "cpu", "b: cpu", "--on", "net.toy", "--metric", "tasks", "--json"
    found = run(*words, "--load", "toy.py")
    assert found.code == 0, found.error
    first, second = found.subjects["net"]["tasks"]
    assert first is not None
    assert second is not None
    assert first == second > 0
    unload()
    found = run(*words)
    text = "net.toy is neither .mlir, .onnx nor .csv"
    assert (found.code, found.error) == (2, f"penstock-compare: error: {text}\n")


# Bad command lines


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cpu", "gpu"], "nothing to compile: give --on FILE or --suite NAME"),
        (["cpu", "--on", "small.mlir"], "two variants at least"),
        (["cpu", "cpu", "--on", "small.mlir"], "two variants are called cpu"),
        (["cpu", "cuda", "--on", "none.mlir"], "cannot read none.mlir: no such file"),
        (["cpu", "cuda", "--on", "x.txt"], "x.txt is neither .mlir, .onnx nor .csv"),
        (
            ["cpu", "cuda", "--metric", "tims"],
            "unknown metric 'tims', did you mean 'time'? (known: memory, bound,",
        ),
        (
            ["cpu", "cuda", "--suite", "lite"],
            "unknown suite 'lite', did you mean 'light'? (known: light, generated,",
        ),
        (
            ["--planners", "bestt", "--suite", "minimalloc"],
            "unknown memory planner 'bestt', did you mean 'best'? (known: ",
        ),
        (
            ["cpu", "--suite", "minimalloc"],
            "lifetimes are for --planners alone, which compile no job",
        ),
        (
            ["--planners", "best", "--suite", "minimalloc", "--on", "small.mlir"],
            "lifetimes and jobs are compared one after the other",
        ),
        (
            ["--each", "regst-plan-memory", "--on", "small.mlir"],
            "--each wants PASS.OPTION=A,B, got 'regst-plan-memory'",
        ),
        (["a: 'cpu", "cpu", "--on", "small.mlir"], "variant 'a': No closing quotation"),
        (
            ["a: cpu --skip", "cpu", "--on", "small.mlir"],
            "penstock-compare: variant: error: argument --skip: expected one argument",
        ),
        (["--seconds", "0"], "wants seconds from more than 0 to 3600, got '0'"),
        (
            ["a: --load none.py@HEAD", "cpu", "--on", "small.mlir"],
            "--load none.py@HEAD: fatal: ",
        ),
    ],
)
def test_a_bad_command_line_is_told_in_a_line(
    run: Runner, tmp_path: Path, arguments: list[str], text: str
) -> None:
    (tmp_path / "x.txt").write_text("")
    found = run(*arguments)
    assert found.code == 2
    assert text in found.error
    assert found.error.count("\n") == 1
    assert found.out == ""


class FakeExporter:
    """Exports a model of one op."""

    MODELS: Mapping[str, object] = {"relu": None, "tanh": None}

    def export(self, name: str, path: Path, *, small: bool) -> object:
        shape = [4, 8 if small else 16]
        ends = [
            helper.make_tensor_value_info(port, TensorProto.FLOAT, shape)
            for port in ("x", "y")
        ]
        node = helper.make_node(name.capitalize(), ["x"], ["y"])
        graph = helper.make_graph([node], name, ends[:1], ends[1:])
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        path.write_bytes(model.SerializeToString())
        return None


@pytest.mark.parametrize("suite", ["exported", "exported-small"])
def test_exported_models_are_a_suite(
    run: Runner, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "exporter", FakeExporter)
    words = "cpu", "two: cpu{threads=2}", "--suite", suite, "--metric", "bytes-moved"
    outcome = run(*words, "--json")
    is_small = suite == "exported-small"
    elements = 4 * (8 if is_small else 16)
    assert outcome.code == 0
    assert outcome.subjects.keys() == {
        f"{name}-small" if is_small else name for name in FakeExporter.MODELS
    }
    for metrics in outcome.subjects.values():
        # The kernel reads and writes them, and so do copies of the ends.
        bytes_moved = metrics["bytes-moved"][0]
        assert bytes_moved is not None
        assert bytes_moved % (4 * elements) == 0 < bytes_moved


def test_without_pytorch_exports_are_refused_in_a_line(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_no_torch(name: str) -> object:
        assert name == "torch"
        return None

    monkeypatch.setattr(exported, "find_spec", find_no_torch)
    outcome = run("cpu", "two: cpu{threads=2}", "--suite", "exported")
    assert (outcome.code, outcome.out, outcome.error) == (
        2,
        "",
        "penstock-compare: error: the suites exported and exported-small are exported "
        "by PyTorch, which is not installed: pip install torch onnxscript\n",
    )


def test_the_exporter_has_models_and_writes_them() -> None:
    pytest.importorskip("torch", reason="PyTorch, which exports, is not installed")
    assert {"bert", "resnet"} <= exported.exporter().MODELS.keys()
