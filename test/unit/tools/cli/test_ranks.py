"""Models on several ranks, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from draws import fresh
from forked_tool import ForkedCommands
from onnx import TensorProto, helper, numpy_helper

from penstock.tools.cli.run import run_tool
from penstock.tools.session.session import Session


class Run(Protocol):
    """A function that runs the command in processes, and asks for its exit code."""

    def __call__(
        self, *words: object, check: int = 0
    ) -> subprocess.CompletedProcess[str]: ...


class RunHere(Protocol):
    """A function that runs the command: what it prints on both streams."""

    def __call__(self, *words: object, check: int = 0) -> tuple[str, str]: ...


TRAIN = """
job.job @train placement <cpu, [{devices}]> {{
  %x = job.input "x" : tensor<8x16xf32>
  %t = job.input "t" : tensor<8x4xf32>
  %w = job.variable "w" init <normal, seed = 1> {{sbp = #job.sbp<B>}} : tensor<16x4xf32>
  %s = op.relu %x {{sbp = #job.sbp<S(0)>}} : tensor<8x16xf32> -> tensor<8x16xf32>
  %y = op.matmul %s, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %d = op.sub %y, %t : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %q = op.mul %d, %d : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %loss = op.reduce_mean %q axes [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %r = op.constant dense<0.01> : tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<16x4xf32>
  job.update %w by %g with <sgd> rate %r : tensor<16x4xf32>
  job.output "loss", %loss : tensor<f32>
}}
"""
"""A step of data parallel training."""

FAILS = """
!t = tensor<4xf32>

job.job @fails placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" : !t
  %i = job.input "i" : tensor<2xi64>
  %far = op.relu %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %g = op.gather %far[%i] axis 0 {placement = #job.placement<cpu, [1:0]>}
    : !t, tensor<2xi64> -> tensor<2xf32>
  job.output "y", %g : tensor<2xf32>
}
"""
"""Rank 1 gathers by indices that may be out of range."""


SUMS = """
!t = tensor<4xf32>

job.job @sums placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %p = op.repeat %x times 4 : !t -> !t
  %r = op.tanh %p : !t -> !t
  %far = op.exp %r {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %sum = op.acc %far every 4 {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %b = op.repeat %sum times 4 : !t -> !t
  %s = op.add %b, %r : !t, !t -> !t
  %z = op.acc %s every 4 : !t -> !t
  job.output "y", %z : !t
}
"""
"""Rank 0 keeps four pieces until rank 1 has sent the sum of them back."""


MIDDLE = """
!t = tensor<4xf32>
!rows = tensor<8x4xf32>

job.job @middle placement <cpu, [0:0]> {
  %xs = job.input "x" : !rows
  %x = op.unpack %xs by 4 : !rows -> tensor<2x4xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<2x4xf32>
  %v = op.repeat %w times 4 : tensor<2x4xf32> -> tensor<2x4xf32>
  %there = op.mul %x, %v {placement = #job.placement<cpu, [1:0]>}
    : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %far = op.tanh %there {placement = #job.placement<cpu, [1:0]>}
    : tensor<2x4xf32> -> tensor<2x4xf32>
  %once = op.exp %w {placement = #job.placement<cpu, [1:0]>}
    : tensor<2x4xf32> -> tensor<2x4xf32>
  %back = op.pack %far by 4 : tensor<2x4xf32> -> !rows
  %sum = op.reduce_sum %back axes [0] : !rows -> !t
  %other = op.reduce_sum %once axes [0] : tensor<2x4xf32> -> !t
  %y = op.add %sum, %other : !t, !t -> !t
  job.output "y", %y : !t
}
"""
"""Rank 1 has tasks that act four times and tasks that act once: only rank 0 says so."""


LOOP = """
!t = tensor<8xf32>

job.job @loop placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %n = job.input "n" : tensor<i64>
  %y = op.loop up to 9 count(%n) carries(%x : !t) reads(%x : !t) -> !t {
  ^bb0(%i: tensor<i64>, %s: !t, %v: !t):
    %zero = op.constant dense<0.0> : tensor<f32>
    %sum = op.reduce_sum %s axes [0] {placement = #job.placement<cpu, [1:0]>}
      : !t -> tensor<f32>
    %is = op.less %zero, %sum {placement = #job.placement<cpu, [1:0]>}
      : tensor<f32>, tensor<f32> -> tensor<i1>
    %r = op.if %is reads(%s, %v : !t, !t) -> !t {
    ^bb0(%a: !t, %b: !t):
      %far = op.tanh %a {placement = #job.placement<cpu, [1:0]>} : !t -> !t
      %z = op.add %far, %b : !t, !t -> !t
      op.yield %z : !t
    } else {
    ^bb0(%a: !t, %b: !t):
      %e = op.exp %b : !t -> !t
      %z = op.sub %a, %e {placement = #job.placement<cpu, [1:0]>} : !t, !t -> !t
      op.yield %z : !t
    }
    op.yield %r : !t
  }
  job.output "y", %y : !t
}
"""
"""Rank 0 has the count, rank 1 the condition, and each of them some ops of the body."""


LOGS = """
job.job @logs placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %far = op.log %x {placement = #job.placement<cpu, [1:0]>}
    : tensor<4xf32> -> tensor<4xf32>
  %y = op.add %far, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
"""
"""Rank 1 makes NaN of negative numbers."""

NEGATE = """
from penstock.dialects.op import LogOp, NegOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

class Negate(ModulePass):
    "Negate in the place of each logarithm."

    name = "my-negate"

    def apply(self, ctx, op):
        for log in [x for x in op.walk() if isinstance(x, LogOp)]:
            types = [log.results[0].type]
            kept = log.attributes
            made = NegOp.create(
                operands=log.operands, result_types=types, attributes=kept
            )
            made.results[0].name_hint = log.results[0].name_hint
            Rewriter.replace_op(log, made)
"""
"""A pass that makes results wrong."""


OPENED = "from penstock.tools.session.session import Session"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A step on two ranks."""
    return written(tmp_path, 2)


def written(folder: Path, ranks: int) -> Path:
    devices = ", ".join(f"{rank}:0" for rank in range(ranks))
    path = folder / f"train{ranks}.mlir"
    path.write_text(TRAIN.format(devices=devices))
    return path


@pytest.fixture(scope="module")
def run(forked: ForkedCommands, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the command, and its ranks, in forks of one process."""
    folder = tmp_path_factory.mktemp("run")

    def run(*words: object, check: int = 0) -> subprocess.CompletedProcess[str]:
        files = folder / "output", folder / "errors"
        command = ["penstock-run", *map(str, words)]
        code = forked.run(command, folder, os.environ, *files)
        output, errors = (file.read_text(encoding="utf-8") for file in files)
        assert code == check, errors
        return subprocess.CompletedProcess(command, code, output, errors)

    return run


@pytest.fixture
def run_here(capsys: pytest.CaptureFixture[str]) -> RunHere:
    """Run the command in this process, which starts no others: what it prints."""

    def run_here(*words: object, check: int = 0) -> tuple[str, str]:
        code = run_tool([*map(str, words)])
        printed = capsys.readouterr()
        assert code == check, printed.err
        return printed.out, printed.err

    return run_here


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_model_runs_on_processes(
    tmp_path: Path, ranks: int, run_here: RunHere, run: Run
) -> None:
    path = written(tmp_path, ranks)
    options = ("--ranks", ranks, "--random-inputs", 1, "--repeat", 5)
    trace = tmp_path / "trace.json"
    done = run(path, *options, "--outputs", tmp_path / "there.npz", "--trace", trace)
    assert done.stderr == ""
    assert f"wrote {trace}" in done.stdout
    check_trace(json.loads(trace.read_text()), ranks, runs=5)
    # The copies between ranks keep the order of sums: the same bits.
    there = tmp_path / "there.npz"
    out, _ = run_here(path, "--simulate-ranks", *options[2:], "--check", there)
    assert "loss differs by 0.00e+00" in out


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_sum_by_a_ring(
    tmp_path: Path, ranks: int, run_here: RunHere, run: Run
) -> None:
    path, trace = written(tmp_path, ranks), tmp_path / "trace.json"
    options = ("--random-inputs", 1, "--repeat", 3)
    there = tmp_path / "there.npz"
    files = "--outputs", there, "--trace", trace
    run(path, "--ranks", ranks, *options, "--collectives", "ring", *files)
    # Several steps, whose sums have another order than those of one process.
    out, _ = run_here(path, "--simulate-ranks", *options, "--check", there)
    assert "loss differs by" in out
    events = json.loads(trace.read_text())["traceEvents"]
    found = [x for x in events if x.get("args", {}).get("op") == "collective"]
    # All are of one kind, and each is one event of each rank.
    assert {x["args"]["message"].split("/")[1] for x in found} == {"ring"}
    pairs = Counter((x["pid"], x["args"]["message"]) for x in found)
    messages = {message for _, message in pairs}
    assert pairs == {(p + 1, m): 3 for p in range(ranks) for m in messages}


def test_mpi_does_no_collectives_over_sockets(model: Path, run: Run) -> None:
    options = ("--ranks", 2, "--random-inputs", 1, "--collectives", "mpi")
    done = run(model, *options, check=1)
    assert "is to be done by 'mpi', which moves no messages here" in done.stderr


def check_trace(trace: dict[str, Any], ranks: int, runs: int) -> None:
    """All ranks are on one line of time, with a flow for each message."""
    events = trace["traceEvents"]
    whole = [x for x in events if x.get("cat") == "run"]
    assert Counter(x["pid"] for x in whole) == dict.fromkeys(range(1, ranks + 1), runs)
    messages = [x for x in events if x.get("cat") == "message"]
    sent = [x for x in messages if x["ph"] == "X" and x["args"]["op"] == "send"]
    got = [x for x in messages if x["ph"] == "X" and x["args"]["op"] == "receive"]
    starts = {x["id"]: x for x in messages if x["ph"] == "s"}
    ends = {x["id"]: x for x in messages if x["ph"] == "f"}
    assert len(sent) == len(got) == len(starts) > 0
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert start["pid"] != ends[number]["pid"]
    # A message comes while the sender is in the same run, on the same clock.
    spans = {(x["pid"], x["args"]["run"]): (x["ts"], x["ts"] + x["dur"]) for x in whole}
    for event in got:
        sender = int(event["args"]["message"].split("/")[0]) + 1
        assert event["ts"] + event["dur"] > spans[sender, event["args"]["run"]][0]


def test_a_step_on_processes_equals_numpy(model: Path) -> None:
    """In new processes, as users have them."""
    options = ("--ranks", "2", "--random-inputs", "1", "--check", "numpy", "--profile")
    command = [sys.executable, "-P", "-m", "penstock.tools.cli.run"]
    done = subprocess.run([*command, model, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("check against numpy") == 1
    _, first, second = re.split("^rank [01]:$", done.stdout, flags=re.MULTILINE)
    for found in (first, second):
        assert "send" in found
        assert "op.matmul" in found


def test_pieces_wait_for_a_sum_on_another_rank(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "sums.mlir"
    path.write_text(SUMS)
    options = ("--random-inputs", 1, "--check", "numpy")
    done = run(path, "--ranks", 2, *options, "--repeat", 3)
    assert done.stdout.count("check against numpy") == 1


@pytest.mark.slow
def test_loops_and_conditions_go_over_ranks(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "loop.mlir"
    path.write_text(LOOP)
    x = fresh().standard_normal(8).astype(np.float32)
    for count in (0, 7):
        np.savez(tmp_path / "given.npz", x=x, n=np.int64(count))
        wanted = x.astype(np.float64)
        for _ in range(count):
            wanted = np.tanh(wanted) + x if wanted.sum() > 0 else wanted - np.exp(x)
        np.savez(tmp_path / "wanted.npz", y=wanted.astype(np.float32))
        files = "--inputs", tmp_path / "given.npz", "--check", tmp_path / "wanted.npz"
        done = run(path, "--ranks", 2, *files, "--repeat", 2)
        assert "y differs by" in done.stdout


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_the_rates_of_a_rank_are_those_of_its_messages(
    tmp_path: Path, engine: str, run: Run
) -> None:
    path = tmp_path / "middle.mlir"
    path.write_text(MIDDLE)
    options = ("--random-inputs", 1, "--check", "numpy", "--executor", engine)
    done = run(path, "--ranks", 2, *options, "--repeat", 3)
    (line,) = [x for x in done.stdout.splitlines() if x.startswith("check against")]
    assert float(line.split()[-1]) < 1e-5


def test_plans_of_ranks_are_saved_and_run(model: Path, run: Run) -> None:
    options = ("--ranks", 2, "--random-inputs", 1, "--repeat", 3)
    there, plan = model.with_name("there.npz"), model.with_name("plan.penstock")
    done = run(model, *options, "--outputs", there, "--save-plan", plan)
    parts = [plan.with_name(f"plan-{rank}.penstock") for rank in range(2)]
    for part in parts:
        assert f"wrote {part}\n" in done.stdout
    # The engine is another one, and looks at each act.
    done = run(plan, *options, "--check", there, "--check-finite")
    assert "loss differs by 0.00e+00" in done.stdout
    done = run(parts[1], "--random-inputs", 1, check=2)
    assert "the plan is that of rank 1: start 2 processes" in done.stderr
    parts[0].rename(plan.with_name("other-1.penstock"))
    parts[1].rename(plan.with_name("other-0.penstock"))
    done = run(plan.with_name("other.penstock"), *options, check=2)
    assert done.stderr == "penstock-run: error: rank 0 has the plan of rank 1\n"


def test_the_rank_and_task_that_make_a_nan_are_named(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "logs.mlir"
    path.write_text(LOGS)
    given = ("--inputs", "x=4xf32=1,2,-1,4")
    done = run(path, "--ranks", 2, *given, "--check-finite", check=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"penstock-run: rank 1: {path}:4:3: error: task 'far' ")
    assert line.endswith("writes NaN at [2] to 'far/out'")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["copies", "ring", "mpi"])
def test_bisection_of_ranks_runs_all_passes(model: Path, way: str, run: Run) -> None:
    options = ("--random-inputs", 1, "--collectives", way, "--bisect")
    if way == "mpi":
        done = run_by_mpi("-m", "penstock.tools.cli.run", model, *options)
        assert done.returncode == 0, done.stderr
    else:
        done = run(model, "--ranks", 2, *options)
    assert re.match(r"ran the IR after \d\d passes that change it\n", done.stdout)
    assert done.stdout.endswith(
        "no pass makes the outputs wrong\nno task differs from the reference\n"
    )


PLACE = """
from penstock.dialects.op import ReluOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass

class Place(ModulePass):
    "Place activations on rank 1."

    name = "my-place"

    def apply(self, ctx, op):
        text = "#job.placement<cpu, [1:0]>"
        for relu in [x for x in op.walk() if isinstance(x, ReluOp)]:
            relu.attributes["placement"] = Parser(ctx, text).parse_attribute()
"""
"""A pass that places a model of ONNX."""


@pytest.mark.slow
def test_an_onnx_model_runs_on_ranks_and_is_bisected(tmp_path: Path, run: Run) -> None:
    path, place = tmp_path / "net.onnx", tmp_path / "place.py"
    w = fresh().standard_normal((8, 3)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, width])
        for name, width in (("x", 8), ("y", 3))
    )
    weights = [numpy_helper.from_array(w, "w")]
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    opset = helper.make_opsetid("", 17)
    made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path.write_bytes(made.SerializeToString())
    place.write_text(PLACE)
    options = ("--ranks", 2, "--random-inputs", 1)
    done = run(path, *options, check=2)
    text = "the model is placed on rank 0, but there are 2 processes"
    assert done.stderr == f"penstock-run: error: {text}\n"
    placed = ("--load", place, "--insert-before", "op-infer-shapes=my-place")
    done = run(path, *options, *placed, "--check", "onnxruntime")
    assert "y differs by" in done.stdout
    # Only rank 0 has the weights.
    done = run(path, *options, *placed, "--bisect")
    assert done.stdout.endswith("no task differs from the reference\n")


@pytest.mark.slow
@pytest.mark.parametrize("after", ["op-infer-shapes", "regst-plan-memory"])
def test_bisection_of_ranks_names_the_wrong_pass(
    tmp_path: Path, after: str, run: Run
) -> None:
    path, negate = tmp_path / "logs.mlir", tmp_path / "negate.py"
    path.write_text(LOGS)
    negate.write_text(NEGATE)
    options = ("--ranks", 2, "--random-inputs", 1, "--load", negate)
    added = ("--insert-after", f"{after}=my-negate")
    done = run(path, *options, *added, "--bisect", check=1)
    assert "first pass whose output runs wrong: my-negate (number" in done.stdout
    # It is a task of the other rank, which has sent what is wrong.
    assert "first task that differs from the reference: far at" in done.stdout


def run_by_mpi(
    *words: object, first: int = 2, **more: str
) -> subprocess.CompletedProcess[str]:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside this Python: the extra mpi is not installed")
    command = [mpiexec, "-n", first, sys.executable, "-P", *words]
    return subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, **more},
    )


def test_mpi_starts_ranks_as_well(model: Path) -> None:
    tool = ("-m", "penstock.tools.cli.run")
    done = run_by_mpi(*tool, model, "--random-inputs", 1, "--check", "numpy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("check against numpy") == 1


def test_ranks_sum_by_mpi(model: Path, run_here: RunHere) -> None:
    tool, there = ("-m", "penstock.tools.cli.run"), model.with_name("there.npz")
    options = ("--random-inputs", 1, "--repeat", 3)
    words = (model, *options, "--collectives", "mpi", "--outputs", there)
    done = run_by_mpi(*tool, *words)
    assert done.returncode == 0, done.stderr
    # Two terms have one sum.
    out, _ = run_here(model, "--simulate-ranks", *options, "--check", there)
    assert "loss differs by 0.00e+00" in out


ENDS = """
import sys
import numpy as np
from penstock.tools.session.session import Session

model, way, error, waits = sys.argv[1:]
with Session.open(model, ranks=2, collectives=way) as session:
    if session.ranks.transport.rank == 1:
        raise {"ValueError": ValueError, "SystemExit": SystemExit}[error]("planted")
    ports = session.inputs().items()
    given = {x: np.ones(port.shape, port.dtype) for x, port in ports}
    session.run(given) if waits == "run" else session.state()
"""
"""A program that each rank runs, of which one ends while the other waits for it."""


@pytest.mark.parametrize(
    ("way", "error", "waits", "message"),
    [
        ("copies", "ValueError", "run", "rank 1 failed: planted"),
        *(
            pytest.param(
                way,
                "SystemExit",
                waits,
                "rank 0 failed: rank 1 has ended",
                marks=pytest.mark.slow,
            )
            for way, waits in (("copies", "run"), ("mpi", "run"), ("copies", "state"))
        ),
    ],
)
def test_a_rank_that_ends_before_others_ends_all_of_mpi(
    model: Path, way: str, error: str, waits: str, message: str
) -> None:
    script = model.with_name("ends.py")
    script.write_text(ENDS)
    done = run_by_mpi(script, model, way, error, waits)
    assert done.returncode != 0
    assert message in done.stderr


def test_there_is_a_process_for_each_rank(model: Path, run: Run) -> None:
    text = "the model is placed on ranks 0, 1, but there are 3 processes"
    done = run(model, "--ranks", 3, "--random-inputs", 1, check=2)
    assert done.stderr == f"penstock-run: error: {text}\n"


def test_rank_0_alone_stops_at_a_level(model: Path, run: Run) -> None:
    logs = model.with_name("logs")
    done = run(model, "--ranks", 2, "--compile-to", "plan", "--log-ranks", logs)
    assert done.stdout == Session.lower(model, "plan")
    assert (logs / "rank-1.txt").read_text() == ""


def test_rank_0_alone_prints_ir_of_passes(model: Path, run: Run) -> None:
    logs = model.with_name("logs")
    options = ("--random-inputs", 1, "--print-ir-after", "plan-split-ranks")
    done = run(model, "--ranks", 2, *options, "--log-ranks", logs)
    assert done.stderr.count("plan.plan @train_") == 2
    assert done.stdout.startswith("train_0: ")
    said = (logs / "rank-1.txt").read_text()
    assert said.startswith("train_1: ")
    assert "plan.plan" not in said


def test_an_error_of_the_compiler_is_told_once(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "wrong.mlir"
    path.write_text(SUMS.replace("every 4", "every 3", 1))
    done = run(path, "--ranks", 2, "--random-inputs", 1, check=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{path}:4:1: error: convert-job-to-plan: ")


@pytest.mark.slow
def test_wrong_input_is_told_once_by_processes_of_mpi(tmp_path: Path) -> None:
    tool = ("-m", "penstock.tools.cli.run")
    done = run_by_mpi(*tool, written(tmp_path, 4), "--random-inputs", 1)
    text = "the model is placed on ranks 0, 1, 2, 3, but there are 2 processes"
    assert (done.returncode, done.stderr) == (2, f"penstock-run: error: {text}\n")
    nowhere = str(tmp_path / "libmpi.so")
    done = run_by_mpi(*tool, tmp_path / "none.mlir", MPI4PY_LIBMPI=nowhere)
    (line,) = done.stderr.splitlines()
    message = "processes that an MPI has started need mpi4py"
    assert message in line
    script = tmp_path / "opens.py"
    script.write_text(f"{OPENED}; Session.open('none.mlir', ranks=2)")
    done = run_by_mpi(script, MPI4PY_LIBMPI=nowhere)
    assert done.stderr.count(f"PenstockError: {message}") == 1


@pytest.mark.slow
@pytest.mark.parametrize("by_mpi", [False, True])
def test_a_plugin_that_fails_is_told_once(
    model: Path, run: Run, *, by_mpi: bool
) -> None:
    wrong = model.with_name("wrong.py")
    wrong.write_text("raise ValueError('planted')\n")
    words = (model, "--random-inputs", 1, "--load", wrong)
    if by_mpi:
        done = run_by_mpi("-m", "penstock.tools.cli.run", *words)
    else:
        done = run(*words, "--ranks", 2, check=1)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "planted" in line


def test_a_failure_on_one_rank_is_told_once(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "fails.mlir"
    path.write_text(FAILS)
    options = ("--inputs", "x=4xf32=1,2,3,4", "--inputs", "i=2xi64=0,9")
    done = run(path, "--ranks", 2, *options, check=1)
    (line,) = done.stderr.splitlines()
    assert line.startswith("penstock-run: rank 1: ")
    assert "index" in line


@pytest.mark.parametrize("level", ["plan", "memory", "launch"])
def test_programs_that_do_not_fit_start_no_process(
    model: Path,
    level: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> int:
        raise AssertionError("a process is started")

    monkeypatch.setattr("penstock.tools.cli.run.start_ranks", refuse)
    text = Session.lower(model, level)
    path = model.with_name("damaged.mlir")
    path.write_text(re.sub(r"(receive.* )tag 0", r"\1tag 9", text, count=1))
    assert run_tool([str(path), "--ranks", "2", "--random-inputs", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}:")
    assert "of rank 0 sends message 0 to rank 1, where " in line
    assert line.endswith(" waits for message 9")


def test_a_rank_has_one_program(model: Path, run: Run) -> None:
    """Two jobs that are compiled apart have a program each on each rank."""
    text = Session.lower(model, "launch")
    other = text.replace("@train_", "@test_")
    path = model.with_name("both.mlir")
    path.write_text("\n".join(x.split("\n", 1)[1][:-2] for x in (text, other)))
    done = run(path, "--ranks", 2, "--random-inputs", 1, check=2)
    message = "a rank runs one program, but @train_0 and @test_0 are of 0"
    assert done.stderr == f"penstock-run: error: {message}\n"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """The outputs of a step on two ranks."""
    folder = tmp_path_factory.mktemp("expected")
    found = folder / "there.npz"
    run(written(folder, 2), "--ranks", 2, "--random-inputs", 1, "--outputs", found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("level", ["plan", "memory", "launch"])
def test_plans_and_programs_of_ranks_run(
    model: Path, level: str, expected: Path, run_here: RunHere, run: Run
) -> None:
    path = model.with_name("split.mlir")
    path.write_text(Session.lower(model, level))
    done = run(path, "--ranks", 2, "--random-inputs", 1, "--check", expected)
    assert "loss differs by 0.00e+00" in done.stdout
    text = "what is of several ranks cannot be checked against NumPy"
    done = run(path, "--ranks", 2, "--random-inputs", 1, "--check", "numpy", check=2)
    assert done.stderr == f"penstock-run: error: {text}\n"
    _, errors = run_here(path, "--random-inputs", 1, check=2)
    assert "the model is placed on ranks 0, 1: start as many" in errors
    _, errors = run_here(path, "--random-inputs", 1, "--simulate-ranks", check=2)
    assert "plans and programs of ranks are not simulated: start as many" in errors


def test_a_file_that_is_not_there_is_told_by_the_ranks(
    tmp_path: Path, run: Run
) -> None:
    done = run(tmp_path / "none.mlir", "--ranks", 2, check=2)
    assert "cannot read" in done.stderr


@pytest.mark.parametrize("by_mpi", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_logs_of_ranks_are_kept_and_their_warnings_given_once(
    model: Path, monkeypatch: pytest.MonkeyPatch, run: Run, *, by_mpi: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_KERNELS", str(model))
    logs = model.with_name("logs")
    words = (model, "--random-inputs", 1, "--log-ranks", logs)
    if by_mpi:
        done = run_by_mpi("-m", "penstock.tools.cli.run", *words)
    else:
        done = run(*words, "--ranks", 2)
    assert re.findall(r"train_\d", done.stdout) == ["train_0"]
    assert [path.name for path in logs.iterdir()] == ["rank-1.txt"]
    start = "penstock-run: warning: rank 0: nothing counts as measured: "
    (line,) = done.stderr.splitlines()
    assert line.startswith(start)
    kept = (logs / "rank-1.txt").read_text()
    assert kept.startswith("train_1: ")
    assert "warning" not in kept


def test_an_error_of_a_rank_with_a_log_is_told(tmp_path: Path, run: Run) -> None:
    path, logs = tmp_path / "fails.mlir", tmp_path / "logs"
    path.write_text(FAILS)
    options = ("--inputs", "x=4xf32=1,2,3,4", "--inputs", "i=2xi64=0,9")
    done = run(path, "--ranks", 2, *options, "--log-ranks", logs, check=1)
    (line,) = done.stderr.splitlines()
    assert line == f"penstock-run: rank 1: {(logs / 'rank-1.txt').read_text().strip()}"
    done = run(path, "--ranks", 2, *options, "--log-ranks", path, check=2)
    assert "error: rank 1: cannot write" in done.stderr


@pytest.mark.slow
def test_ranks_of_mpi_that_are_asked_for_other_things_are_refused(model: Path) -> None:
    tool = (sys.executable, "-P", "-m", "penstock.tools.cli.run", model)
    options = ("--random-inputs", 1, "--trace", model.with_name("trace.json"))
    plan = ("--save-plan", model.with_name("plan.penstock"))
    both = (*tool[2:], *options, *plan, ":", "-n", 1, *tool, *options)
    done = run_by_mpi(*both, first=1)
    text = "rank 1 has other options than rank 0: all processes need the same model"
    assert done.stderr.startswith(f"penstock-run: error: {text}")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.slow
def test_a_wrong_command_line_is_told_once_by_processes_of_mpi(model: Path) -> None:
    tool = ("-m", "penstock.tools.cli.run")
    done = run_by_mpi(*tool, model, "--random-inputs", "one")
    (line,) = done.stderr.splitlines()
    assert line.startswith("penstock-run: error: argument --random-inputs: ")
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--log-ranks", "logs"), "--log-ranks is for --ranks"),
        (("--ranks", "2", "--tune"), "--tune is for one process"),
    ],
)
def test_flags_that_do_not_go_together(
    model: Path, words: tuple[str, ...], message: str, run: Run
) -> None:
    done = run(model, "--random-inputs", 1, *words, check=2)
    assert message in done.stderr


@pytest.mark.parametrize("words", [(), ("--ranks", 2)])
def test_processes_of_slurm_without_mpi_start_no_others(
    model: Path,
    words: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    run_here: RunHere,
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for number in range(2):
        monkeypatch.setenv("SLURM_PROCID", str(number))
        _, errors = run_here(model, *words, "--random-inputs", 1, check=1)
        text = "penstock-run: error: Slurm has started 2 processes without MPI: srun"
        assert errors.startswith(text) == (number == 0)
        assert len(errors.splitlines()) == (number == 0)


def test_ranks_read_a_file(run_here: RunHere) -> None:
    _, errors = run_here("-", "--ranks", 2, check=2)
    assert "not the standard input" in errors


def test_a_session_alone_is_no_rank(model: Path) -> None:
    code = f"{OPENED}; Session.open({str(model)!r}, ranks=2)"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_R")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env=clean,
    )
    assert "this process was started alone" in done.stderr
