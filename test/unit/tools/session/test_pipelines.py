"""Pipelines and edits in sessions, jobs and commands: their effect, and errors."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import penstock
from penstock import Tensor
from penstock.runtime.errors import PenstockError
from penstock.tools.cli.opt import run_tool as opt_tool
from penstock.tools.cli.run import run_tool
from penstock.tools.cli.view import run_tool as view_tool
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.plugins import unload
from penstock.tools.session.model import Model
from penstock.tools.session.session import Session

X = np.array([-2, -1, 1, 2], np.float32)

JOB = """
job.job @chain placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %a = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  %y = op.neg %a : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""

PASS = '''
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from penstock.dialects.op import ReluOp

@dataclass(frozen=True)
class DropReluPass(ModulePass):
    """Replace every `op.relu` by its operand."""
    name = "drop-relu"
    most: int = 100
    def apply(self, ctx, op):
        for relu in [x for x in op.walk() if isinstance(x, ReluOp)][: self.most]:
            Rewriter.replace_op(relu, [], [relu.operand])
'''
"""A pass that changes what is computed."""


@pytest.fixture
def drop(tmp_path: Path) -> Path:
    """The file of a pass."""
    path = tmp_path / "drop.py"
    path.write_text(PASS, encoding="utf-8")
    return path


def model() -> Model:
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    return Model(module, {}, Path())


def result(**keywords: Any) -> tuple[list[float], int, int]:
    """The output of the job, its kernels, and the threads that run it."""
    with Session(model(), **keywords) as session:
        (y,) = session.run({"x": X}).values()
        kernels = len(session.executable.sources)
        return y.astype(float).tolist(), kernels, session.executor.program.threads


RELU = np.negative(np.maximum(X, 0)).astype(float).tolist()
WITHOUT = np.negative(X).astype(float).tolist()


def test_a_session_has_the_options_of_its_pipeline():
    assert result() == (RELU, 1, 1)
    assert result(pipeline="cpu{threads=2}") == (RELU, 1, 2)
    assert result(pipeline="cpu", threads=2) == (RELU, 1, 2)
    assert result(pipeline="cpu{threads=2}", threads=2) == (RELU, 1, 2)


def test_the_effect_of_edits_is_seen_in_the_run(drop: Path):
    skip = ["skip op-fuse-elementwise"]
    assert result(edits=skip) == (RELU, 2, 1)
    assert result(edits=skip, pipeline="cpu{threads=2}") == (RELU, 2, 2)
    insert = "insert-before op-fuse-elementwise=drop-relu"
    assert result(edits=[insert], load=[drop]) == (WITHOUT, 1, 1)
    none = [insert, "set drop-relu.most=0"]
    assert result(edits=none, load=[str(drop)]) == (RELU, 1, 1)
    assert result(pipeline="drop-relu,cpu", load=[drop]) == (WITHOUT, 1, 1)


def test_a_file_runs_as_it_is_now(drop: Path):
    options = {"pipeline": "drop-relu,cpu", "load": [drop]}
    assert result(**options)[0] == WITHOUT
    text = PASS.replace("most: int = 100", "most: int = 0")
    drop.write_text(text, encoding="utf-8")
    assert result(**options)[0] == RELU


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        (
            {"pipeline": "cpu{threads=2}", "threads": 3},
            "pipeline 'cpu' has threads=2, but threads=3 is asked for",
        ),
        (
            {"pipeline": "cuda", "device": "cpu"},
            'pipeline \'cuda\' has device="cuda", but device="cpu" is asked for',
        ),
        (
            {"pipeline": "cse", "guard": "none"},
            "guard is asked for, but 'cse' names no pipeline that has this option",
        ),
        (
            {"pipeline": "cpu{winograd=true}", "model_jobs": True},
            "weights for Winograd are not loaded and saved by jobs",
        ),
        (
            {"pipeline": "cpu{threads=0}"},
            "threads must be at least 1, got 0",
        ),
        ({"edits": ["skip csee"]}, "skip csee: the pipeline has no pass 'csee', did"),
        ({"edits": ["skp cse"]}, "unknown edit 'skp', did you mean 'skip'? (known:"),
        ({"edits": "skip cse"}, "edits are a list of texts, got 'skip cse'"),
        ({"edits": [3]}, "edits are a list of texts, got 3"),
        ({"pipeline": 3}, "a pipeline is a text, got 3"),
        ({"load": ["nowhere.py"]}, "cannot load nowhere.py: no such file"),
        (
            {"edits": ["set regst-plan-memory.algorithm=bets"]},
            "regst-plan-memory: no ",
        ),
        (
            {"edits": ["skip convert-plan-to-launch"]},
            "job.mlir:2:1: plan.plan was not lowered to a launch program",
        ),
    ],
)
def test_errors_are_told_in_a_line(keywords: dict[str, Any], message: str):
    with pytest.raises(PenstockError) as caught:
        result(**keywords)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_merged_jobs_are_compiled_by_a_pipeline_for_one():
    text = JOB + JOB.replace("@chain", "@other").replace('"y"', '"z"')
    module = installed_compiler()[0].parse(text.encode(), "job.mlir")
    with Session(Model(module, {}, Path()), pipeline="cpu{threads=2}") as session:
        assert session.jobs == ("chain", "other")


def test_a_file_is_lowered_to_each_level(tmp_path: Path, drop: Path):
    path = tmp_path / "job.mlir"
    path.write_text(JOB, encoding="utf-8")
    marks = {"job": "op.neg", "plan": "plan.task", "memory": "chunk", "launch": "actor"}
    for level, mark in marks.items():
        assert mark in Session.lower(path, level)
    assert "def body_0" in Session.lower(str(path), "source")
    skip = ["skip op-fuse-elementwise"]
    text = Session.lower(path, "job", load=[drop], edits=skip, pipeline="drop-relu,cpu")
    assert "op.neg" in text
    assert "op.relu" not in text
    with pytest.raises(UsageError, match="unknown level 'lunch', did you mean"):
        Session.lower(path, "lunch")


# Plug-ins ----------------------------------------------------------------------------

PIPELINE = '''
from dataclasses import dataclass
from penstock.lowering.pipelines import CpuPipeline, Pipeline, call
from penstock.plugins import register

@register("pipeline", "acme")
@dataclass(frozen=True)
class Acme(Pipeline):
    """The passes of `cpu`, none of which fuses."""
    name = "acme"
    threads: int = 1
    fuse: bool = False
    def passes(self):
        found = CpuPipeline(threads=self.threads).passes()
        return [x for x in found if self.fuse or not x.name.startswith("op-fuse")]
'''


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[Path]:
    """The file of a pipeline."""
    path = tmp_path / "acme.py"
    path.write_text(PIPELINE, encoding="utf-8")
    yield path
    unload()


def test_plug_ins_add_pipelines(acme: Path):
    assert result(pipeline="acme", load=[acme]) == (RELU, 2, 1)
    assert result(pipeline="acme{fuse=true}", load=[acme], threads=2) == (RELU, 1, 2)
    edits = ["insert-before job-place=op-fuse-elementwise"]
    assert result(pipeline="acme", load=[acme], edits=edits) == (RELU, 1, 1)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("found = ", "found = 1 / 0 ", "fails: ZeroDivisionError: division by zero"),
        ("return [", "return 5 or [", "returns no passes but what is of int"),
        (
            "return [",
            "return ['cse'] or [",
            "has a pass that is no `call` but 'cse'",
        ),
    ],
)
def test_pipelines_of_plug_ins_are_not_trusted(
    acme: Path, before: str, after: str, message: str
):
    text = PIPELINE.replace(before, after).replace("1 / 0 Cpu", "1 / 0 or Cpu")
    acme.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        result(pipeline="acme", load=[acme])
    assert str(caught.value) == f"pipeline 'acme' ({acme}:6:1) {message}"


def test_a_pipeline_of_a_plug_in_has_only_its_options(acme: Path):
    message = "guard is asked for, but 'acme' names no pipeline that has this option"
    with pytest.raises(UsageError, match=message):
        result(pipeline="acme", load=[acme], guard="none")
    message = "pipeline 'acme' has no option 'fus', did you mean 'fuse'"
    with pytest.raises(UsageError, match=message):
        result(pipeline="acme{fus=true}", load=[acme])


# Jobs in Python ----------------------------------------------------------------------


Four = Annotated[Tensor, (4,), "f32"]


def test_jobs_in_python_have_the_pipeline_of_their_session(drop: Path):
    with penstock.Session(pipeline="drop-relu,cpu", load=[drop]):

        @penstock.job
        def chain(x: Four):
            return -penstock.ops.relu(x)

        assert chain(X).tolist() == WITHOUT
    with penstock.Session(edits=["skip op-fuse-elementwise"]) as session:
        session.add(chain)
        assert chain(X).tolist() == RELU
        assert "penstock" in chain.trace().lower(level="source")


def test_a_job_in_python_has_edits_of_its_own(drop: Path):
    with penstock.Session(edits=["insert-before job-place=drop-relu"], load=[drop]):

        @penstock.job(edits=["set drop-relu.most=0"])
        def none(x: Four):
            return -penstock.ops.relu(x)

        @penstock.job()
        def chain(x: Four):
            return -penstock.ops.relu(x)

        assert none(X).tolist() == RELU
        assert chain(X).tolist() == WITHOUT


def test_a_job_in_python_is_printed_at_each_level(drop: Path):
    with penstock.Session():

        @penstock.job(pipeline="cpu,drop-relu", load=[drop])
        def chain(x: Four):
            return -penstock.ops.relu(x)

    traced = chain.trace()
    starts = {level: traced.lower(level=level) for level in ("job", "plan", "memory")}
    for level, mark in zip(starts, ("job.job", "plan.task", "chunk"), strict=True):
        assert mark in starts[level]
    assert "launch.program" in traced.lower()
    assert "def body_0" in traced.lower(level="source")
    fused = traced.lower(level="job", edits=["skip op-fuse-elementwise"])
    assert "op.fused" not in fused
    with pytest.raises(UsageError, match="unknown level 'plann', did you mean 'plan'"):
        traced.lower(level="plann")


def test_a_decorator_refuses_what_is_no_edit():
    with pytest.raises(UsageError, match="unknown edit 'skp'"):
        penstock.job(edits=["skp cse"])


def test_variables_that_are_shared_are_not_packed():
    size = 256

    def layer(x: Annotated[Tensor, (128, size), "f32"]):
        return x @ penstock.variable("w", init=np.ones((size, size), np.float32))

    ones = np.ones((128, size), np.float32)
    with penstock.Session(pipeline="cpu"):
        assert (penstock.job(layer)(ones) == size).all()
    kernels = "set launch-schedule-contractions"
    packed = [f"{kernels}.{text}" for text in ("panels=true", "vector-bytes=32")]
    refused = pytest.raises(PenstockError, match="packs w: give its")
    with penstock.Session(edits=packed), refused:
        penstock.job(layer)(ones)


# Commands ----------------------------------------------------------------------------


class Commands:
    """Runs commands in this process."""

    def __init__(
        self,
        folder: Path,
        capture: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
    ):
        self.folder = folder
        self._capture = capture
        self._patch = patch
        np.savez(folder / "x.npz", x=X)
        self.job = str(folder / "job.mlir")
        Path(self.job).write_text(JOB, encoding="utf-8")
        self.inputs = "--inputs", str(folder / "x.npz")

    def __call__(self, tool: Any, *arguments: str, stdin: bytes = b"") -> str:
        """The output of a command, which has to succeed."""
        code, out, err = self.outcome(tool, *arguments, stdin=stdin)
        assert (code, err) == (0, ""), err
        return out

    def outcome(
        self, tool: Any, *arguments: str, stdin: bytes = b""
    ) -> tuple[int, str, str]:
        stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        self._patch.setattr(sys, "stdin", stream)
        self._capture.readouterr()
        try:
            code = tool(arguments)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 1
        out, err = self._capture.readouterr()
        return code, out, err

    def run(self, *arguments: str, stdin: bytes = b"") -> list[float]:
        """The output of a run."""
        outputs = str(self.folder / "y.npz")
        self(run_tool, *arguments, *self.inputs, "--outputs", outputs, stdin=stdin)
        with np.load(outputs) as arrays:
            return arrays["y"].astype(float).tolist()


@pytest.fixture
def commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)


def test_a_run_goes_on_from_each_level(commands: Commands, drop: Path):
    whole = commands.run(commands.job)
    for level in ("job", "plan", "memory", "launch"):
        text = commands(run_tool, commands.job, "--compile-to", level)
        asked = "--pipeline", "cpu", "--compile-to", level
        assert commands(opt_tool, commands.job, *asked).rstrip() == text.rstrip()
        assert commands.run("-", stdin=text.encode()) == whole
    source = commands(run_tool, commands.job, "--compile-to", "source")
    asked = "--pipeline", "cpu", "-t", "numba"
    assert commands(opt_tool, commands.job, *asked).rstrip() == source.rstrip()


def test_a_run_takes_plans_and_models_on_the_standard_input(commands: Commands):
    plan = commands.folder / "job.penstock"
    commands(run_tool, commands.job, *commands.inputs, "--save-plan", str(plan))
    assert commands.run("-", stdin=plan.read_bytes()) == RELU
    code, out, err = commands.outcome(run_tool, "-", *commands.inputs, stdin=b"x y")
    assert (code, out) == (1, "")
    assert err.startswith("<stdin>:1:1: error: ")


def test_the_flags_of_a_run_edit_its_pipeline(commands: Commands, drop: Path):
    insert = "--load", str(drop), "--insert-before", "op-fuse-elementwise=drop-relu"
    assert commands.run(commands.job) == RELU
    assert commands.run(commands.job, *insert) == WITHOUT
    assert commands.run(commands.job, *insert, "--set", "drop-relu.most=0") == RELU
    printed = commands(run_tool, commands.job, *insert, "--dump-pipeline")
    assert "drop-relu{most=100},\nop-fuse-elementwise{max-ops=64}" in printed
    same = "--pipeline", printed, *insert[:2]
    assert commands.run(commands.job, *same) == WITHOUT
    assert commands(run_tool, commands.job, *same, "--dump-pipeline") == printed


def test_a_plan_tells_its_origin(commands: Commands, drop: Path):
    plan = str(commands.folder / "job.penstock")
    asked = (
        *("--pipeline", "cpu{threads=2}", "--load", str(drop)),
        *("--insert-before", "op-fuse-elementwise=drop-relu"),
    )
    saved = *commands.inputs, "--save-plan", plan
    commands(run_tool, commands.job, *asked, *saved)
    lines = commands(run_tool, plan, "--show-origin").splitlines()
    assert lines[0] == (
        "asked for: --pipeline 'cpu{threads=2}' --insert-before "
        "op-fuse-elementwise=drop-relu --load drop.py"
    )
    files = [line for line in lines if line.startswith("  drop.py (sha256 ")]
    assert len(files) == 1
    text = "\n".join(lines[lines.index("pipeline:") + 1 :])
    dumped = commands(run_tool, commands.job, *asked, "--dump-pipeline")
    assert text + "\n" == dumped
    # It is passed on to copies.
    copy = str(commands.folder / "copy.penstock")
    commands(run_tool, plan, *commands.inputs, "--save-plan", copy)
    assert commands(run_tool, copy, "--show-origin").splitlines() == lines
    # The contents of a file count as they are now.
    drop.write_text(PASS + "# changed\n", encoding="utf-8")
    commands(run_tool, commands.job, *asked, *saved)
    now = commands(run_tool, plan, "--show-origin").splitlines()
    assert [a == b for a, b in zip(lines, now, strict=True)].count(False) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--skip", "cse"], "--skip is for what is compiled"),
        (["--pipeline", "cpu"], "--pipeline is for what is compiled"),
        (
            ["--dump-pipeline"],
            "--compile-to and --dump-pipeline are for what is compiled",
        ),
        (
            ["--compile-to", "plan"],
            "--compile-to and --dump-pipeline are for what is compiled",
        ),
    ],
)
def test_a_plan_is_not_compiled(
    commands: Commands, arguments: Sequence[str], message: str
):
    plan = str(commands.folder / "job.penstock")
    commands(run_tool, commands.job, *commands.inputs, "--save-plan", plan)
    outcome = commands.outcome(run_tool, plan, *commands.inputs, *arguments)
    assert outcome == (2, "", f"penstock-run: error: {message}\n")


@pytest.mark.parametrize(
    ("keywords", "flag"),
    [
        ({"edits": ["skip cse"]}, "--skip"),
        ({"pipeline": "cpu"}, "--pipeline"),
        ({"load": ["a.py"]}, "--load"),
    ],
)
def test_a_session_of_a_plan_is_not_compiled(
    tmp_path: Path, keywords: dict[str, Any], flag: str
):
    with Session(model()) as session:
        session.save(tmp_path / "job.penstock")
    with pytest.raises(UsageError, match=f"{flag} is for what is compiled"):
        Session.open(tmp_path / "job.penstock", **keywords)


def test_only_plans_have_an_origin(commands: Commands):
    message = (
        "penstock-run: error: --show-origin is for saved plans; --dump-pipeline prints "
        "the passes that would compile a model\n"
    )
    outcome = commands.outcome(run_tool, commands.job, "--show-origin")
    assert outcome == (2, "", message)


def test_a_page_shows_what_an_edited_pipeline_makes(commands: Commands, drop: Path):
    dot = commands.job, "--to-dot", "-"
    tasks = [
        commands(view_tool, *dot, *more).count("label=")
        for more in ((), ("--skip", "op-fuse-elementwise"))
    ]
    assert tasks[0] < tasks[1]
    insert = "--load", str(drop), "--pipeline", "drop-relu,cpu{threads=2}"
    assert "relu" not in commands(view_tool, *dot, *insert).lower()
    plan = str(commands.folder / "job.penstock")
    commands(run_tool, commands.job, *commands.inputs, "--save-plan", plan)
    for flags in (("--skip", "cse"), ("--pipeline", "cpu"), ("--load", str(drop))):
        outcome = commands.outcome(view_tool, plan, "--to-dot", "-", *flags)
        more = (
            f", and for devices of plug-ins, of which {plan} needs none"
            if flags[0] == "--load"
            else ""
        )
        message = f"penstock-view: error: {flags[0]} is for what is compiled{more}\n"
        assert outcome == (2, "", message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--pipeline", "cqu"],
            "unknown pipeline 'cqu', did you mean 'cpu'? "
            "(penstock-opt --list pipeline names them)",
        ),
        (["--skip", "a=b"], "skip wants PASS, got 'a=b'"),
        (
            ["--replace", "cse=canonicalise"],
            "unknown pass 'canonicalise', did you mean 'canonicalize'? "
            "(penstock-opt --list pass names them)",
        ),
    ],
)
def test_mistakes_in_flags_are_told_in_a_line(
    commands: Commands, arguments: Sequence[str], message: str
):
    outcome = commands.outcome(run_tool, commands.job, *commands.inputs, *arguments)
    assert outcome == (2, "", f"penstock-run: error: {message}\n")
