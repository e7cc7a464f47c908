"""`penstock-run`: what it prints, writes and refuses."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from warnings import catch_warnings, simplefilter

import ml_dtypes
import numpy as np
import pytest
from forked_tool import ForkedCommands
from watched_runs import Clock

from penstock.dialects.launch import ProgramOp
from penstock.runtime.core import watchdog
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.cuda.simulator import gpu_count
from penstock.runtime.errors import how_to_install
from penstock.runtime.executors.executor import Executor
from penstock.runtime.loading.initializers import Array
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.cli.compare import report_errors
from penstock.tools.cli.opt import run_tool as opt_tool
from penstock.tools.cli.run import run_tool
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.differences import relative_error
from penstock.tools.session.report import size_text, summary

Until: TypeAlias = Callable[[Callable[[], bool]], None]
Tool: TypeAlias = "Callable[..., Outcome]"

EXAMPLES = Path(__file__).parents[4] / "examples"
DIGITS, PLAN = str(EXAMPLES / "digits.mlir"), str(EXAMPLES / "plan.mlir")
PROGRAM, ENCODER = str(EXAMPLES / "program.mlir"), str(EXAMPLES / "encoder.mlir")
IMAGES = str(EXAMPLES / "digits-test.npz")

JOB = """
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %y = op.exp %x : tensor<2xf32> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
"""

ROWS = """
job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1000xf32>
  %y, %rows = op.loop 1000000000000 carries(%x : tensor<1000xf32>)
      -> tensor<1000xf32>, tensor<1000000000000x1000xf32> {
  ^bb0(%i: tensor<i64>, %z: tensor<1000xf32>):
    %next = op.tanh %z : tensor<1000xf32> -> tensor<1000xf32>
    op.yield %next, %next : tensor<1000xf32>, tensor<1000xf32>
  }
  job.output "y", %y : tensor<1000xf32>
  job.output "rows", %rows : tensor<1000000000000x1000xf32>
}
"""

START = """from penstock.runtime.kernels.cpu.support import c_kernel
@c_kernel
def kernel(args, part, parts):
    """
"""The start of a kernel's own source."""

DIVISION = """job.job @divide placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xi32>
  %b = job.input "b" : tensor<4xi32>
  %q = op.div %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  job.output "q", %q : tensor<4xi32>
}
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run of the tool."""

    code: int
    out: str
    err: str


def _exit_code_of(arguments: Sequence[str]) -> int:
    try:
        return run_tool(arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1


class Runner:
    """Runs `penstock-run` in this process."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def file(self, name: str, data: str | bytes = JOB) -> str:
        """Write a file of the folder and return its path."""
        path = self.folder / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def npz(self, name: str, **arrays: Array) -> str:
        """Write arrays to a file of the folder and return its path."""
        path = self.folder / name
        np.savez(path, allow_pickle=False, **arrays)
        return str(path)

    def __call__(self, *arguments: str) -> Outcome:
        self._capture.readouterr()
        code = _exit_code_of(arguments)
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)

    def refuses(self, message: str, code: int, *arguments: str) -> None:
        """Check that the tool prints exactly one error, and nothing to stdout."""
        text = f"penstock-run: error: {message}\n"
        assert self(*arguments) == Outcome(code, "", text)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(tmp_path, capsys)


@pytest.fixture
def run_on_cuda(forked_cuda: ForkedCommands, tmp_path: Path) -> Tool:
    """Run `penstock-run` in a process with a GPU, or with one that is simulated."""

    def run_on_cuda(*arguments: str) -> Outcome:
        done = forked_cuda.outcome(["penstock-run", *arguments], tmp_path)
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run_on_cuda


def arrays_of(path: str | Path) -> dict[str, Array]:
    with np.load(path) as arrays:
        return dict(arrays)


def shape_of(text: str) -> str:
    """The printed text, with a letter for each time and for each error."""
    # Where the executor was not in the cache yet.
    text = re.sub(r" \(\d+\.\d+ s of it for parts of penstock[^)]*\)", "", text)
    text = re.sub(r"\d+\.\d+ s", "T s", text)
    text = re.sub(r"\d+\.\d+ ms", "T ms", text)
    return re.sub(r"\d\.\d\de-\d\d", "E", text)


# What is printed ---------------------------------------------------------------------


def test_summary_of_a_job(run: Runner):
    outcome = run(DIGITS, "--inputs", IMAGES, "--check", "numpy")
    assert (outcome.code, outcome.err) == (0, "")
    lines = shape_of(outcome.out).splitlines()
    assert lines[0] == "digits: 12 ops, 5 tasks, 3 kernels on cpu, 1 thread"
    assert re.fullmatch(
        r"host memory: activations peak \d+\.\d KiB \(\d\.\d{3} x the bound of \d+\.\d "
        r"KiB\), \d+\.\d KiB unshared; weights 9\.4 KiB",
        lines[1],
    )
    assert lines[2:] == [
        "compile and load T s, run T ms",
        "check against numpy: probabilities differs by E",
    ]


@pytest.mark.parametrize(
    ("file", "head"),
    [
        (PLAN, "by_hand: 4 tasks, 2 kernels on cpu, 2 threads"),
        (PROGRAM, "squares: 3 tasks, 1 kernel on cpu, 2 threads"),
    ],
)
def test_summary_of_a_plan_or_program(run: Runner, file: str, head: str):
    outcome = run(file, "--random-inputs", "1", "--threads", "2", "--repeat", "3")
    assert (outcome.code, outcome.err) == (0, "")
    lines = shape_of(outcome.out).splitlines()
    assert lines[0] == head
    assert lines[-1] == "compile and load T s, run T ms (median of 3)"


@pytest.mark.parametrize("threads", ["1", "2"])
def test_encoder_layer_passes_its_check(run: Runner, threads: str):
    arguments = (ENCODER, "--random-inputs", "7", "--check", "numpy")
    outcome = run(*arguments, "--threads", threads, "--tolerance", "1e-5")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1].startswith("check against numpy: z differs")


@pytest.mark.parametrize("executor", ["sequential", "sim"])
def test_other_executors_pass_the_check_of_a_model(run: Runner, executor: str):
    arguments = (ENCODER, "--random-inputs", "7", "--check", "numpy")
    outcome = run(*arguments, "--executor", executor, "--tolerance", "1e-5")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1].startswith("check against numpy: z differs")


def test_a_training_step_is_checked(run: Runner, tmp_path: Path):
    path = tmp_path / "step.mlir"
    path.write_text("""job.job @step placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<6x4xf32>
      %n = job.variable "step" init <zeros> : tensor<i64>
      %w = job.variable "w" init <normal, seed = 1> : tensor<4xf32>
      %rate = job.schedule <constant, base = 0.1> at %n : tensor<i64> -> tensor<f32>
      %y = op.mul %x, %w : tensor<6x4xf32>, tensor<4xf32> -> tensor<6x4xf32>
      %s = op.mul %y, %y : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<6x4xf32>
      %loss = op.reduce_mean %s axes [0, 1] : tensor<6x4xf32> -> tensor<f32>
      %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
      job.update %w by %g with <adamw> rate %rate : tensor<4xf32>
      job.output "loss", %loss : tensor<f32>
    }""")
    arguments = (str(path), "--random-inputs", "7", "--check", "numpy")
    outcome = run(*arguments, "--tolerance", "1e-5")
    assert (outcome.code, outcome.err) == (0, "")
    assert "check against numpy: loss differs by" in outcome.out


def test_stages_without_a_schedule_are_told_with_the_reason(
    run: Runner, tmp_path: Path
):
    path = tmp_path / "turned.mlir"
    path.write_text("""job.job @turned placement <cpu, [0:0]> {
      %q = job.input "q" : tensor<3x4xf32>
      %k = job.input "k" : tensor<5x4xf32>
      %v = job.input "v" : tensor<6x5xf32>
      %y = op.attention %q, %k, %v v_by [1, 0]
        : tensor<3x4xf32>, tensor<5x4xf32>, tensor<6x5xf32> -> tensor<3x6xf32>
      job.output "y", %y : tensor<3x6xf32>
    }""")
    arguments = [str(path), "--random-inputs", "2", "--check", "numpy"]
    reason = "kernel.attention: the elements of values do not follow each other"
    line = f"\n1 kernel as plain loops: attention_0 ({reason})\n"
    done = run(*arguments)
    assert (done.code, line in done.out) == (0, True), done
    facts = json.loads(run(*arguments, "--json").out)
    assert facts["plain_loops"] == [f"attention_0 ({reason})"], facts
    assert facts["given_up"] == []
    # All kernels are, if asked: none for want of a schedule.
    asked = run(*arguments, "--plain-loops")
    assert (asked.code, "as plain loops" in asked.out) == (0, False), asked


def test_an_unknown_executor_is_refused(run: Runner):
    outcome = run(PLAN, "--random-inputs", "1", "--executor", "turbo")
    assert outcome.code == 2
    assert "argument --executor: unknown value 'turbo'" in outcome.err


def test_memory_of_a_plan_without_bounds_is_its_size(run: Runner):
    out = run(PLAN, "--random-inputs", "1").out
    assert out.splitlines()[1] == "host memory: 384 B"


def test_memories_of_one_kind_are_told_apart():
    compiler, _ = installed_compiler()
    chunks = ("host", "device cuda:0", "device cuda:1", "pinned cuda:1")
    body = "".join(
        f"launch.chunk @c{i} on <0, {case}> size 64\n" for i, case in enumerate(chunks)
    )
    text = f"launch.program @p rank 0 {{\n{body}}}"
    program = compiler.parse(text.encode(), "p.mlir").body.block.first_op
    assert isinstance(program, ProgramOp)
    assert summary(program, program, 1).splitlines()[1:] == [
        "host memory: 64 B",
        "device memory of cuda:0: 64 B",
        "device memory of cuda:1: 64 B",
        "pinned memory: 64 B",
    ]


def test_chunks_of_one_memory_are_told_together():
    compiler, _ = installed_compiler()
    chunk = "launch.chunk @{} on <0, host> size 64 {{memory = {}}}\n"
    report = "{{bound = {}, peak = {}, sum = {}, variables = {}}}".format
    texts = chunk.format("a", report(0, 0, 0, 8)), chunk.format("b", report(5, 6, 7, 0))
    text = f"launch.program @p rank 0 {{\n{''.join(texts)}}}"
    program = compiler.parse(text.encode(), "p.mlir").body.block.first_op
    assert isinstance(program, ProgramOp)
    assert summary(program, program, 1).splitlines()[1:] == [
        "host memory: activations peak 6 B (1.200 x the bound of 5 B), 7 B unshared; "
        "weights 8 B",
    ]


RANKS = """
job.job @halves placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %y = op.relu %x {sbp = #job.sbp<S(0)>} : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "y", %y : tensor<8x4xf32>
}
"""


def test_ranks_run_in_one_process_if_asked(run: Runner):
    file = run.file("ranks.mlir", RANKS)
    alone = run(file, "--random-inputs", "1")
    assert alone.code == 2
    assert "the model is placed on ranks 0, 1: start as many processes" in alone.err
    done = run(file, "--random-inputs", "1", "--simulate-ranks", "--check", "numpy")
    assert done.code == 0
    assert "memory of rank 0: " in done.out
    assert "memory of rank 1: " in done.out
    assert "y differs by 0.00e+00" in done.out


@pytest.mark.slow
def test_devices_of_ranks_run_in_one_process(run: Runner, run_on_cuda: Tool):
    file = run.file("ranks.mlir", RANKS)
    options = ("--simulate-ranks", "--device", "cuda", "--check", "numpy")
    done = run_on_cuda(file, "--random-inputs", "1", *options)
    assert (done.code, done.err) == (0, "")
    assert "device memory of cuda:0 of rank 0: " in done.out
    assert "device memory of cuda:0 of rank 1: " in done.out
    # From the caller over rank 0 to rank 1, and to the device there.
    assert "pinned network memory of cuda:0 of rank 1: " in done.out
    assert "y differs by 0.00e+00" in done.out


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (3 * 2**40, "3.0 TiB"),
        (2**60, "1048576.0 TiB"),
    ],
)
def test_sizes_are_read_by_people(size: int, text: str):
    assert size_text(size) == text


def test_help_names_every_flag(run: Runner):
    out = run("--help").out
    flags = (
        "--inputs --random-inputs --random-weights --outputs --check --tolerance "
        "--device --threads --executor --simulate-ranks --repeat --watchdog --debug"
    )
    assert set(flags.split()) <= set(re.findall(r"--[a-z-]+", out))


# Inputs and outputs ------------------------------------------------------------------


def test_outputs_are_written_and_are_a_reference(run: Runner):
    path = str(run.folder / "out.npz")
    outcome = run(DIGITS, "--inputs", IMAGES, "--outputs", path)
    assert outcome.code == 0
    assert outcome.out.endswith(f"wrote {path}\n")
    assert [p.name for p in run.folder.iterdir()] == ["out.npz"]
    probabilities = arrays_of(path)["probabilities"]
    assert probabilities.shape == (180, 10)
    outcome = run(DIGITS, "--inputs", IMAGES, "--check", path, "--tolerance", "0")
    assert outcome.code == 0
    assert f"check against {path}: probabilities differs by 0.00e+00" in outcome.out


def test_random_inputs_follow_their_seed(run: Runner):
    def output(seed: str) -> list[float]:
        path = run.folder / "out.npz"
        assert run(PROGRAM, "--random-inputs", seed, "--outputs", str(path)).code == 0
        return arrays_of(path)["y"].tolist()

    assert output("1") == output("1")
    assert output("1") != output("2")


def test_random_inputs_suit_their_types(run: Runner):
    types = ("f64", "i8", "i1")
    body = "".join(
        f'%{t} = job.input "{t}" : tensor<100x{t}>\n'
        f'job.output "{t}", %{t} : tensor<100x{t}>\n'
        for t in types
    )
    file = run.file("a.mlir", f"job.job @a placement <cpu, [0:0]> {{\n{body}}}\n")
    path = run.folder / "out.npz"
    assert run(file, "--random-inputs", "3", "--outputs", str(path)).code == 0
    outputs = arrays_of(path)
    assert [outputs[t].dtype.name for t in types] == ["float64", "int8", "bool"]
    assert abs(outputs["f64"].astype(np.float64).std() - 1) < 0.3
    assert set(outputs["i8"].tolist()) == set(range(10))
    assert set(outputs["i1"].tolist()) == {False, True}


def test_outputs_may_have_any_name(run: Runner):
    names = ("file", "allow_pickle", "a/b", "arr 0")
    body = "".join(f'job.output "{name}", %x : tensor<1xf32>\n' for name in names)
    text = '%x = job.variable "x" init <ones> : tensor<1xf32>\n' + body
    file = run.file("a.mlir", f"job.job @a placement <cpu, [0:0]> {{\n{text}}}\n")
    path = run.folder / "out.npz"
    assert run(file, "--outputs", str(path), "--check", "numpy").code == 0
    assert {name: x.tolist() for name, x in arrays_of(path).items()} == {
        name: [1] for name in names
    }


def test_device_files_stay_what_they_are(run: Runner):
    outcome = run(PROGRAM, "--random-inputs", "1", "--outputs", "/dev/null")
    assert outcome.code == 0
    assert Path("/dev/null").is_char_device()


def test_links_are_followed(run: Runner):
    link, target = run.folder / "link.npz", run.folder / "target.npz"
    link.symlink_to(target)
    assert run(PROGRAM, "--random-inputs", "1", "--outputs", str(link)).code == 0
    assert link.is_symlink()
    assert arrays_of(target)["y"].shape == (4,)


def test_outputs_that_cannot_be_written(run: Runner):
    for path, reason in (
        (run.folder / "none" / "out.npz", "no such file or directory"),
        (run.folder, "is a directory"),
        (Path(PROGRAM) / "out.npz", "not a directory"),
    ):
        # Before anything is compiled and printed.
        arguments = (PROGRAM, "--random-inputs", "1", "--outputs", str(path))
        run.refuses(f"cannot write {path}: {reason}", 2, *arguments)
    assert list(run.folder.iterdir()) == []


def test_inputs_that_cannot_be_read(run: Runner):
    (run.folder / "folder.npz").mkdir()
    whole = Path(run.npz("whole.npz", x=np.zeros((180, 64), np.float32))).read_bytes()
    for path, reason, code in (
        (str(run.folder / "none.npz"), "no such file or directory", 2),
        (str(run.folder / "folder.npz"), "is a directory", 2),
        (run.file("empty.npz", ""), "it is no .npz file", 1),
        (run.file("text.npz", "hello"), "it is no .npz file", 1),
        (run.file("cut.npz", whole[:-30]), "it is no .npz file", 1),
    ):
        run.refuses(f"cannot read {path}: {reason}", code, DIGITS, "--inputs", path)
        # The same words for a reference, before anything is compiled.
        arguments = (DIGITS, "--inputs", IMAGES, "--check", path)
        run.refuses(f"cannot read {path}: {reason}", code, *arguments)


def test_inputs_that_do_not_fit_are_refused_before_anything_is_compiled(
    run: Runner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("penstock.tools.cli.run.Session", None)
    run.refuses(
        "the model has inputs x: give --inputs IN.npz or --random-inputs SEED",
        2,
        DIGITS,
    )
    for array, message in (
        ({"y": np.ones(3)}, "no arrays are given for inputs x"),
        (
            {"x": np.ones((180, 64))},
            "input 'x' has dtype float32, got an array of dtype float64",
        ),
        (
            {"x": np.ones((64, 180), np.float32)},
            "input 'x' has shape (180, 64), got an array of shape (64, 180)",
        ),
    ):
        run.refuses(message, 1, DIGITS, "--inputs", run.npz("in.npz", **array))


def test_inputs_of_a_plan_that_do_not_fit(run: Runner):
    message = "the model has inputs x: give --inputs IN.npz or --random-inputs SEED"
    run.refuses(message, 2, PLAN)
    message = "no arrays are given for inputs x"
    run.refuses(message, 1, PLAN, "--inputs", run.npz("in.npz", y=np.ones(3)))


# Models that cannot be run -----------------------------------------------------------


def test_files_that_are_no_models(run: Runner):
    missing = str(run.folder / "none.mlir")
    run.refuses(f"cannot read {missing}: no such file or directory", 2, missing)
    folder = str(run.folder)
    run.refuses(f"cannot read {folder}: is a directory", 2, folder)
    expected = "error: the module should hold one job, plan or program, got"
    path = run.file("empty.mlir", "")
    assert run(path) == Outcome(1, "", f"{path}:1:1: {expected} 0\n")
    path = run.file("two.mlir", JOB + "launch.program @other rank 0 { ^bb0: }")
    assert run(path).err.endswith(f":1: {expected} 2\n")


def test_one_of_several_jobs_is_run(run: Runner):
    text = JOB + JOB.replace("@small", "@other").replace("op.exp", "op.sqrt")
    two = run.file("two.mlir", text)
    given = ["--random-inputs", "1", "--check", "numpy"]
    known = "give --job, one of small, other"
    run.refuses(f"the module has several jobs: {known}", 2, two, *given)
    unknown = "there is no job 'third', the module has small, other"
    run.refuses(unknown, 2, two, *given, "--job", "third")
    for job in ("small", "other"):
        outcome = run(two, *given, "--job", job)
        assert (outcome.code, outcome.err) == (0, "")
        assert "check against numpy: y differs by" in outcome.out


@pytest.mark.slow
def test_one_of_several_jobs_is_run_on_a_simulated_device(
    run: Runner, run_on_cuda: Tool
):
    """An interface lies in memory that the device copies from."""
    then = JOB.replace("@small", "@other").replace("op.exp", "op.neg")
    two = run.file("two.mlir", JOB + then.replace('"y"', '"z"'))
    given = ["--random-inputs", "1", "--check", "numpy", "--device", "cuda"]
    done = run_on_cuda(two, *given, "--job", "other")
    assert (done.code, done.err) == (0, "")
    assert "pinned memory: " in done.out
    assert "check against numpy: z differs by 0.00e+00" in done.out


def test_one_of_several_jobs_of_a_saved_plan_is_run(run: Runner):
    two = run.file("two.mlir", JOB + JOB.replace("@small", "@other"))
    plan = str(run.folder / "two.penstock")
    given = ["--random-inputs", "1"]
    saved = run(two, *given, "--job", "other", "--save-plan", plan)
    assert (saved.code, saved.err) == (0, "")
    assert run(plan, *given, "--job", "small").code == 0
    several = "the program has several jobs, name one of small, other"
    run.refuses(several, 1, plan, *given)
    unknown = "there is no job 'third', the program has small, other"
    run.refuses(unknown, 1, plan, *given, "--job", "third")


def test_bad_ir_is_located(run: Runner):
    file = run.file("bad.mlir", JOB.replace("op.exp", "op.expp"))
    outcome = run(file)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"{file}:4:3: error: ")
    assert "op.expp" in outcome.err
    assert "Traceback" not in outcome.err

    unused = "%z = op.exp %x : tensor<2xf32> -> tensor<3xf32>\n  job.output"
    file = run.file("bad.mlir", JOB.replace("job.output", unused))
    assert run(file) == Outcome(
        1,
        "",
        f"{file}:5:3: error: op.exp: the result's type should be tensor<2xf32>, "
        "got tensor<3xf32>\n",
    )


def test_bytes_that_are_no_text(run: Runner):
    file = run.file("bad.mlir", b"\xff\xfe")
    expected = f"{file}:1:1: error: not UTF-8 text: byte 0xff\n"
    assert run(file) == Outcome(1, "", expected)


def test_kernels_without_a_source_are_located(run: Runner):
    kernels = "".join(
        f'launch.kernel @k{i} target "cpu" () {{\n'
        "%m = memref.alloc() : memref<4xf32>\n}\n"
        for i in range(2)
    )
    file = run.file("kernels.mlir", f"launch.program @p rank 0 {{\n{kernels}}}\n")
    outcome = run(file)
    assert (outcome.code, outcome.out) == (1, "")
    lines = outcome.err.splitlines()
    assert [line.split(" error: ")[0] for line in lines] == [
        f"{file}:3:1:",
        f"{file}:6:1:",
    ]


def test_device_that_there_is_no_executor_for(run: Runner):
    placed = "op.exp %x {placement = #job.placement<sim, [0:0]>} :"
    file = run.file("sim.mlir", JOB.replace("op.exp %x :", placed))
    outcome = run(file, "--random-inputs", "1")
    text = "launch-select-kernels: there are no kernels for 'sim', only for cpu, cuda"
    assert outcome == Outcome(1, "", f"{file}:4:3: error: {text}\n")


def test_a_placement_that_there_are_no_kernels_for_is_one_error(run: Runner):
    text = Path(DIGITS).read_text(encoding="utf-8")
    file = run.file("gpu.mlir", text.replace("placement <cpu,", "placement <gpu,"))
    outcome = run(file, "--random-inputs", "1")
    text = "launch-select-kernels: there are no kernels for 'gpu', only for cpu, cuda"
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"{file}:")
    assert outcome.err.endswith(f": error: {text}\n")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            f"{START}return gone\n",
            "NameError: name 'gone' is not defined",
        ),
        (
            f"{START}return args['a']\n",
            "No implementation of function Function(<built-in function getitem>) found "
            "for signature: (line 4 of it)",
        ),
        (
            "import nothing_such\n",
            "ModuleNotFoundError: No module named 'nothing_such' (line 1 of it)",
        ),
        ("def kernel(:\n", "SyntaxError: invalid syntax (line 1 of it)"),
        ("x = 1\n", "AttributeError: it defines no function 'kernel'"),
    ],
)
def test_a_kernel_whose_own_source_fails_is_named(
    run: Runner, source: str, reason: str
):
    quoted = source.replace("\n", "\\n")
    start = "%y: memref<4xf32>) {\n    %zero"
    text = Path(PROGRAM).read_text(encoding="utf-8")
    own = start.replace(" {", f' attributes {{source = "{quoted}"}} {{')
    place = "@sum on <0, cpu:0> stream 0"
    text = text.replace(place, f"{place} can_fail")
    file = run.file("own.mlir", text.replace(start, own))
    line = 1 + text.partition("launch.kernel")[0].count("\n")
    failed = f"error: kernel @sum_of_squares: its source fails: {reason}\n"
    outcome = run(file, "--random-inputs", "1", "--allow-source")
    assert outcome == Outcome(1, "", f"{file}:{line}:3: {failed}")


def test_program_larger_than_the_machine(run: Runner):
    file = run.file("huge.mlir", JOB.replace("2xf32", "4294967296x1000000xf32"))
    outcome = run(file, "--random-inputs", "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert re.fullmatch(
        r"penstock-run: error: there is no memory for \d{17} bytes on the host, which "
        r"has \d+; most of it is for 'x/out' .*\n",
        outcome.err,
    )


SCAN = """
job.job @scan placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %xs = job.input "xs" : tensor<COUNTx8xf32>
  %y = op.loop COUNT carries(%x : tensor<8xf32>) slices(%xs : tensor<COUNTx8xf32>)
      -> tensor<8xf32> {
  ^bb0(%i: tensor<i64>, %z: tensor<8xf32>, %a: tensor<8xf32>):
    %c = op.cum_sum %z axis 0 : tensor<8xf32> -> tensor<8xf32>
    %next = op.mul %c, %a : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
    op.yield %next : tensor<8xf32>
  }
  job.output "y", %y : tensor<8xf32>
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("count", "rows"), [(5, 5), (100, 1)])
def test_iterations_have_slices_of_their_own_or_one_of_all(
    run: Runner, tmp_path: Path, count: int, rows: int
):
    file, trace = run.file("scan.mlir", SCAN.replace("COUNT", f"{count}")), "t.json"
    asked = ["--random-inputs", "1", "--trace", str(tmp_path / trace), "--profile"]
    outcome = run(file, *asked)
    assert outcome.code == 0, outcome.err
    for op in ("cum_sum", "mul"):
        (row,) = re.findall(rf"y +op\.{op} +(\d+) ", outcome.out)
        assert int(row) == count
    events = json.loads((tmp_path / trace).read_text(encoding="utf-8"))["traceEvents"]
    slices = [event for event in events if event.get("cat") == "op"]
    (task,) = [x for x in events if x.get("cat") == "task" and x["name"] == "y"]
    for kernel in ("cum_sum_0", "mul_0"):
        own = [event for event in slices if event["name"] == kernel]
        assert len(own) == rows
        assert sum(event["args"].get("calls", 1) for event in own) == count
        assert sum(event["args"]["flops"] for event in own) == 8 * count
        for event in own:
            assert task["ts"] <= event["ts"] + 1e-6
            assert event["ts"] + event["dur"] <= task["ts"] + task["dur"] + 1e-6


def test_rows_of_a_loop_larger_than_the_machine(run: Runner):
    file = run.file("rows.mlir", ROWS)
    outcome = run(file, "--random-inputs", "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert re.fullmatch(
        r"penstock-run: error: there is no memory for \d{16} bytes on the host, which "
        r"has \d+; most of it is for 'y/out_1' 4000000000000000 \(task 'y' at "
        r".*rows\.mlir:4:3\), .*\n",
        outcome.err,
    )


def test_outputs_of_bf16_are_compared_with_numpy_and_with_files(run: Runner):
    text = JOB.replace("tensor<2xf32>", "tensor<64xbf16>")
    file, path = run.file("bf16.mlir", text), str(run.folder / "out.npz")
    seed = ["--random-inputs", "3"]
    outcome = run(file, *seed, "--check", "numpy", "--outputs", path)
    assert outcome.code == 0, outcome.err
    found = arrays_of(path)["y"].view(ml_dtypes.bfloat16).astype(np.float32)
    given = np.random.default_rng(3).standard_normal(64).astype(ml_dtypes.bfloat16)
    np.testing.assert_allclose(found, np.exp(given.astype(np.float64)), rtol=2**-8)
    assert "y differs by 0.00e+00" in run(file, *seed, "--check", path).out
    # What a run has written can be what another one reads.
    outcome = run(file, "--inputs", run.npz("in.npz", x=arrays_of(path)["y"]))
    assert outcome.code == 0, outcome.err
    wrong = arrays_of(path)["y"].view(np.uint16) ^ (np.arange(64) == 5)
    other = run.npz("wrong.npz", y=wrong.astype(np.uint16).view("V2"))
    outcome = run(file, *seed, "--check", other)
    assert outcome.code == 1
    assert "the outputs differ by " in outcome.err
    assert "inf" not in outcome.err
    infinite = run.npz("inf.npz", y=np.full(64, 0x7F80, np.uint16).view("V2"))
    assert "differ by inf" in run(file, *seed, "--check", infinite).err


def test_task_that_fails_is_named(run: Runner):
    file = run.file(
        "divide.mlir",
        """
        job.job @a placement <cpu, [0:0]> {
          %a = job.input "a" : tensor<4xi32>
          %b = job.variable "b" init <zeros> : tensor<4xi32>
          %q = op.div %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
          job.output "q", %q : tensor<4xi32>
        }
        """,
    )
    failed = "error: task 'q' failed at act 0 with code 1: integer division by zero\n"
    for more in ([], ["--executor", "sequential"], ["--threads", "2"]):
        outcome = run(file, "--random-inputs", "1", *more)
        assert outcome == Outcome(1, "", f"{file}:5:11: {failed}")


def test_task_of_a_saved_plan_that_fails_has_the_place_of_the_source(run: Runner):
    file = run.file("divide.mlir", DIVISION)
    plan = str(run.folder / "divide.penstock")
    good = run.npz("good.npz", a=np.ones(4, np.int32), b=np.ones(4, np.int32))
    bad = run.npz("bad.npz", a=np.ones(4, np.int32), b=np.zeros(4, np.int32))
    assert run(file, "--inputs", good, "--save-plan", plan).code == 0
    failed = "error: task 'q' failed at act 0 with code 1: integer division by zero\n"
    assert run(plan, "--inputs", bad) == Outcome(1, "", f"divide.mlir:4:3: {failed}")


def test_task_of_a_program_that_fails_has_its_own_place(run: Runner):
    file = run.file("divide.mlir", DIVISION)
    lowered = str(run.folder / "lowered.mlir")
    assert opt_tool([file, "--pipeline", "cpu", "-o", lowered]) == 0
    lines = Path(lowered).read_text(encoding="utf-8").splitlines()
    line = next(n for n, x in enumerate(lines, 1) if "launch.actor @q" in x)
    bad = run.npz("bad.npz", a=np.ones(4, np.int32), b=np.zeros(4, np.int32))
    failed = "error: task 'q' failed at act 0 with code 1: integer division by zero\n"
    assert run(lowered, "--inputs", bad) == Outcome(
        1, "", f"{lowered}:{line}:5: {failed}"
    )


# Command lines -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: FILE"),
        (
            (DIGITS, "--random-inputs", "-1"),
            "argument --random-inputs: expected an integer from 0 on, got '-1'",
        ),
        (
            (DIGITS, "--random-weights", "x"),
            "argument --random-weights: expected an integer from 0 on, got 'x'",
        ),
        (
            (DIGITS, "--threads", "0"),
            "argument --threads: expected an integer from 1 on, got '0'",
        ),
        (
            (DIGITS, "--repeat", "1.5"),
            "argument --repeat: expected an integer from 1 on, got '1.5'",
        ),
        (
            (DIGITS, "--tolerance", "nan"),
            "argument --tolerance: expected a number from 0 on, got 'nan'",
        ),
        (
            (DIGITS, "--tolerance", "tight"),
            "argument --tolerance: expected a number from 0 on, got 'tight'",
        ),
        (
            (DIGITS, "--watchdog", "0"),
            "argument --watchdog: expected seconds above 0, got '0'",
        ),
        (
            (DIGITS, "--watchdog", "soon"),
            "argument --watchdog: expected seconds above 0, got 'soon'",
        ),
        (
            (DIGITS, "--device", "tpu"),
            "unknown device 'tpu', did you mean 'cpu'? (penstock-opt --list device "
            "names them)",
        ),
        (
            (DIGITS, "--inputs", "a.npz", "--random-inputs", "1"),
            "argument --random-inputs: not allowed with argument --inputs",
        ),
    ],
)
def test_bad_command_lines(run: Runner, arguments: tuple[str, ...], message: str):
    outcome = run(*arguments)
    assert outcome == Outcome(2, "", f"penstock-run: error: {message}\n")


def test_requests_that_do_not_suit_the_model(run: Runner):
    arguments = (DIGITS, "--random-inputs", "1")
    expected = "--check onnxruntime is for ONNX models"
    run.refuses(expected, 2, *arguments, "--check", "onnxruntime")
    expected = "--random-weights is for ONNX models"
    run.refuses(expected, 2, *arguments, "--random-weights", "1")
    expected = "--dim is for ONNX models"
    run.refuses(expected, 2, *arguments, "--dim", "batch=4")
    expected = "--max is for ONNX models"
    run.refuses(expected, 2, *arguments, "--max", "loop=4")
    arguments = (PROGRAM, "--random-inputs", "1", "--check", "numpy")
    run.refuses("a launch.program cannot be checked against NumPy", 2, *arguments)


# Watchdog ----------------------------------------------------------------------------


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> str:
    """The argument of a watchdog whose time passes while task `y` is in its kernel."""
    clock, gate = Clock(), Gate()
    run: Callable[..., object] = Executor.run

    def stall(executor: Executor, *arguments: Any) -> object:
        with inject(executor, KernelFault("y", act=0, gate=gate)):
            return run(executor, *arguments)

    monkeypatch.setattr(watchdog, "Watchdog", partial(Watchdog, clock=clock))
    monkeypatch.setattr(Executor, "run", stall)
    clock.jump(0.4, lambda: gate.is_reached)
    return "0.3"


def test_watchdog_that_has_nothing_to_report(run: Runner):
    arguments = run.file("job.mlir"), "--random-inputs", "1", "--watchdog", "600"
    outcome = run(*arguments)
    assert (outcome.code, outcome.err) == (0, "")


def test_watchdog_reports_what_takes_long_and_fails(run: Runner, stalled: str):
    path = run.folder / "long.mlir"
    square = "tensor<16x16xf32>"
    path.write_text(f"""
job.job @long placement <cpu, [0:0]> {{
  %x = job.input "x" : {square}
  %y = op.matmul %x, %x : {square}, {square} -> {square}
  job.output "y", %y : {square}
}}
""")
    outcome = run(str(path), "--random-inputs", "1", "--watchdog", stalled)
    assert (outcome.code, outcome.out) == (1, "")
    report, _, error = outcome.err.partition("penstock-run: error: ")
    assert report.startswith("penstock: no progress for 0.4 s\n  ")
    assert error == "the run made no progress for 0.3 s\n"
    line = r"long\.mlir:4:3: 'y' at act 0: is in kernel matmul_0, for 0\.4 s"
    assert re.search(line, report)


# Checks ------------------------------------------------------------------------------


def test_check_that_fails(run: Runner):
    reference = run.npz("ref.npz", y=np.array([1, 4], np.float32))
    inputs = run.npz("in.npz", x=np.log([1, 3]).astype(np.float32))
    arguments = (run.file("job.mlir"), "--inputs", inputs, "--check", reference)
    outcome = run(*arguments)
    assert outcome.code == 1
    # Largest difference over largest reference value: (4 - 3) / 4.
    assert outcome.out.endswith(f"check against {reference}: y differs by 2.50e-01\n")
    expected = "the outputs differ by 2.50e-01, more than 1e-04"
    assert outcome.err == f"penstock-run: error: {expected}\n"
    assert run(*arguments, "--tolerance", "0.26").code == 0


def test_references_that_do_not_fit(run: Runner, capsys: pytest.CaptureFixture[str]):
    arguments = (run.file("job.mlir"), "--random-inputs", "1", "--check")
    path = run.npz("ref.npz", z=np.ones(2))
    outcome = run(*arguments, path)
    assert outcome.code == 1
    assert outcome.err == f"penstock-run: error: {path} has no outputs y\n"
    for array, text in (
        (np.ones(3), "has shape (2,), not (3,)"),
        (np.array(["a", "b"]), "is compared with str32"),
    ):
        assert report_errors({"y": np.ones(2)}, {"y": array}, "ref", 1e-4) == 1
        assert capsys.readouterr().out == f"check against ref: y {text}\n"


def test_references_without_finite_values_prove_nothing(
    run: Runner, capsys: pytest.CaptureFixture[str]
):
    arguments = (run.file("log.mlir", JOB.replace("op.exp", "op.log")), "--inputs")
    inputs = run.npz("in.npz", x=-np.ones(2, np.float32))
    outcome = run(*arguments, inputs, "--check", "numpy")
    assert outcome.code == 1
    said = "y has no finite values to compare\n"
    assert outcome.out.endswith(f"check against numpy: {said}")
    assert outcome.err == f"penstock-run: error: {said}"
    # An output with the wrong values of these is wrong, not unproven.
    infinite = np.array([np.inf])
    assert report_errors({"y": -infinite}, {"y": infinite}, "ref", 1e-4) == 1
    assert capsys.readouterr().out == "check against ref: y differs by inf\n"
    assert report_errors({"y": np.ones(0)}, {"y": np.ones(0)}, "ref", 1e-4) == 0


@pytest.mark.parametrize(
    ("output", "reference", "error"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([0.0, 0.25], [0.0, 0.0], 0.25),
        ([], [], 0),
        ([np.nan, 1.0], [np.nan, 1.0], 0),
        ([np.inf, 1.0], [np.inf, 2.0], 0.5),
        ([np.inf], [-np.inf], np.inf),
        ([np.nan], [1.0], np.inf),
        ([1.0], [np.nan], np.inf),
        ([np.nan], [np.nan], 0),
        ([1e308], [-1e308], np.inf),
    ],
)
def test_relative_error(output: list[float], reference: list[float], error: float):
    assert relative_error(np.array(output), np.array(reference)) == error


def test_numpy_warns_of_nothing_that_a_check_evaluates(run: Runner):
    product = "op.matmul %x, %x : tensor<2xf32>, tensor<2xf32>"
    job = JOB.replace("op.exp %x : tensor<2xf32>", product)
    file = run.file("square.mlir", job.replace("2xf32", "2x2xf32"))
    inputs = run.npz("in.npz", x=np.diag([1e30, 1]).astype(np.float32))
    with catch_warnings():
        simplefilter("error")
        outcome = run(file, "--inputs", inputs, "--check", "numpy")
    assert (outcome.code, outcome.err) == (0, "")


# Processes ---------------------------------------------------------------------------


def started(*arguments: str) -> subprocess.Popen[str]:
    """A process of the tool."""
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.tools.cli.run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def busiest_thread(process: subprocess.Popen[str]) -> float:
    """The seconds of processor time of the busiest thread but the main one."""
    ticks = [0]
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        if task.name != str(process.pid):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks.append(int(fields[11]) + int(fields[12]))
    return max(ticks) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_interrupt_ends_a_long_run(until: Until):
    # Ten million runs would take minutes.
    long = "--random-inputs", "1", "--threads", "2", "--repeat", "10000000"
    process = started(ENCODER, *long)
    try:
        # Only a thread of the executor has much to do beside the main thread.
        until(lambda: process.poll() is not None or busiest_thread(process) >= 0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err == "penstock-run: error: interrupted\n"


@pytest.mark.slow
def test_reader_that_goes_away_is_no_error():
    process = started(PROGRAM, "--random-inputs", "1")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(300) == 1


@pytest.mark.slow
def test_digits_on_cuda(run: Runner, run_on_cuda: Tool):
    """A few of the images: where there is no GPU, Python stands in for one."""
    text = Path(DIGITS).read_text(encoding="utf-8").replace("tensor<180x", "tensor<20x")
    job = run.file("digits.mlir", text)
    run.file("digits-weights.npz", (EXAMPLES / "digits-weights.npz").read_bytes())
    images = run.npz("images.npz", x=arrays_of(IMAGES)["x"][:20])
    path = run.folder / "cuda.npz"
    arguments = ("--inputs", images, "--device", "cuda", "--check", "numpy")
    done = run_on_cuda(job, *arguments, "--outputs", str(path))
    assert (done.code, done.err) == (0, "")
    head = r"digits: 12 ops, 7 tasks, 3 kernels on cuda( \(simulated\))?, 1 thread\n"
    assert re.match(head, done.out)
    expected = run.folder / "cpu.npz"
    assert run(job, "--inputs", images, "--outputs", str(expected)).code == 0
    np.testing.assert_allclose(
        arrays_of(path)["probabilities"].astype(np.float64),
        arrays_of(expected)["probabilities"].astype(np.float64),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.slow
@pytest.mark.skipif(gpu_count() > 0, reason="this machine has a CUDA device")
def test_no_device_is_said_in_a_line(run: Runner, forked: ForkedCommands):
    words = run.file("job.mlir"), "--random-inputs", "1", "--device", "cuda"
    done = forked.outcome(["penstock-run", *words], run.folder)
    assert (done.returncode, done.stdout) == (1, "")
    reasons = (
        "there is no CUDA device: the library of the driver cannot be loaded; "
        "NUMBA_ENABLE_CUDASIM=1 simulates one, slowly",
        f"devices for CUDA are driven by a package: {how_to_install('cuda')}; "
        "NUMBA_ENABLE_CUDASIM=1 simulates one, slowly",
    )
    assert done.stderr in [f"penstock-run: error: {reason}\n" for reason in reasons]


@pytest.mark.skipif(gpu_count() > 0, reason="this machine has a CUDA device")
def test_no_device_is_said_before_anything_is_compiled(
    run: Runner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("penstock.tools.cli.run.Session", None)
    arguments = "--random-inputs", "1", "--device", "cuda"
    outcome = run(run.file("job.mlir"), *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert re.match(r"penstock-run: error: (there is no|devices for) ", outcome.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "device"),
    [((), r"cuda( \(simulated\))?"), (("--device", "cpu"), "cpu")],
)
def test_a_job_runs_where_it_says_unless_told_otherwise(
    run: Runner, run_on_cuda: Tool, arguments: tuple[str, ...], device: str
):
    path = run.folder / "placed.mlir"
    path.write_text(
        "job.job @placed placement <cuda, [0:0]> {\n"
        '  %x = job.input "x" : tensor<3xf32>\n'
        "  %y = op.relu %x : tensor<3xf32> -> tensor<3xf32>\n"
        '  job.output "y", %y : tensor<3xf32>\n'
        "}\n"
    )
    fixed = ("--random-inputs", "1", "--check", "numpy")
    done = run_on_cuda(str(path), *fixed, *arguments)
    assert (done.code, done.err) == (0, "")
    assert re.match(
        rf"placed: 3 ops, \d tasks, 1 kernel on {device}, 1 thread\n", done.out
    )


def test_archive_is_one_that_numpy_would_write(run: Runner):
    path = run.folder / "out.npz"
    assert run(PROGRAM, "--random-inputs", "1", "--outputs", str(path)).code == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["y.npy"]
        assert archive.testzip() is None
