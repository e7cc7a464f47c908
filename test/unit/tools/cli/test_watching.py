"""`penstock-run --trace` and `--profile`, and the line that shows progress."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from forked_tool import ForkedCommands

from penstock.runtime.observe.chrome_trace import Trace
from penstock.runtime.observe.metrics import Expense, Times
from penstock.runtime.observe.observers import Event
from penstock.tools.cli.run import run_tool
from penstock.tools.cli.run_observers import profile_lines
from penstock.tools.driver import progress
from penstock.tools.driver.progress import Progress, polled_progress

EXAMPLES = Path(__file__).parents[4] / "examples"
DIGITS = str(EXAMPLES / "digits.mlir")
GATHER = """
job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x2xf32>
  %i = job.input "i" : tensor<3xi64>
  %y = op.gather %x[%i] axis 0 : tensor<4x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  job.output "y", %y : tensor<3x2xf32>
}
"""


def test_a_trace_has_the_tasks_of_each_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "trace.json"
    arguments = [DIGITS, "--random-inputs", "1", "--repeat", "3", "--trace", str(path)]
    assert run_tool(arguments) == 0
    assert f"wrote {path}\n" in capsys.readouterr().out
    trace = json.loads(path.read_text())
    assert trace["otherData"]["program"] == "digits"
    tasks = [e for e in trace["traceEvents"] if e.get("cat") in ("task", "edge")]
    assert {e["args"]["run"] for e in tasks} == {0, 1, 2}
    for run in range(3):
        # What the summary says: 12 ops, 7 tasks.
        assert sum(e["args"]["run"] == run for e in tasks) > 2
    products = [e for e in tasks if "flops" in e["args"] and e["args"]["flops"]]
    assert all(e["args"]["GFLOP/s"] > 0 for e in products)
    assert [e["name"] for e in tasks if e["args"]["op"] == "fetch"]


def test_the_time_of_runs_leaves_out_who_looks_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    clock = [1_000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock[0])
    stop = Trace.stop

    def slow(self: Trace, event: Event) -> None:
        clock[0] += 3_600_000_000_000
        stop(self, event)

    monkeypatch.setattr(Trace, "stop", slow)
    path = tmp_path / "trace.json"
    arguments = [DIGITS, "--random-inputs", "1", "--executor", "sequential"]
    assert run_tool([*arguments, "--repeat", "3", "--trace", str(path)]) == 0
    assert clock[0] > 3_600_000_000_000
    assert ", run 0.000 ms (median of 3)\n" in capsys.readouterr().out


def test_a_trace_of_a_failed_run_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    job, path = tmp_path / "job.mlir", tmp_path / "trace.json"
    job.write_text(GATHER)
    inputs = tmp_path / "in.npz"
    np.savez(inputs, x=np.zeros((4, 2), np.float32), i=np.array([0, 9, 1]))
    assert run_tool([str(job), "--inputs", str(inputs), "--trace", str(path)]) == 1
    assert "task 'y' failed" in capsys.readouterr().err
    failed = [
        event["name"]
        for event in json.loads(path.read_text())["traceEvents"]
        if "error" in event.get("args", {})
    ]
    assert failed == ["rows", "y"]


def test_a_trace_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "none" / "trace.json"
    assert run_tool([DIGITS, "--random-inputs", "1", "--trace", str(path)]) == 2
    out, err = capsys.readouterr()
    message = f"penstock-run: error: cannot write {path}: no such file or directory\n"
    assert (out, err) == ("", message)


def test_a_profile_is_a_table_of_all_ops(capsys: pytest.CaptureFixture[str]):
    assert run_tool([DIGITS, "--random-inputs", "1", "--repeat", "4", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("task "))
    rows = [line.split() for line in lines[head + 1 :]]
    assert " ".join(lines[head].split()) == "task op calls total ms % GFLOP/s GB/s"
    *ops, whole = rows
    assert whole[0] == "all"
    assert {row[2] for row in ops} == {"4"}
    assert int(whole[1]) == 4 * len(ops)
    totals = [float(row[3]) for row in ops]
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) == pytest.approx(float(whole[2]), abs=0.001 * len(ops))
    assert sum(float(row[4]) for row in ops) == pytest.approx(100, abs=0.1 * len(ops))


def test_rates_of_a_table_are_per_second():
    # 6 GFLOP and 3 GB in 2 s, and something of which nothing is known.
    known = Expense("a", "op.a", Times(2, 2 * 10**9), 6 * 10**9, 3 * 10**9, 2)
    unknown = Expense("b", "k", Times(1, 10**9), None, None, 1)
    assert profile_lines([known, unknown])[1:] == [
        "a     op.a      2  2000.000   66.7     3.00  1.50",
        "b     k         1  1000.000   33.3        -     -",
        "all             3  3000.000  100.0",
    ]


def test_a_table_of_nothing_is_empty():
    (head, whole) = profile_lines([])
    assert whole.split() == ["all", "0", "0.000", "100.0"]
    assert head.split()[0] == "task"


CUDA = """
job.job @small placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<2x3xf32>
  %y = op.exp %x : tensor<2x3xf32> -> tensor<2x3xf32>
  job.output "y", %y : tensor<2x3xf32>
}
"""


@pytest.mark.slow
def test_a_trace_of_a_device_has_streams_and_copies(
    tmp_path: Path, forked_simulator: ForkedCommands
) -> None:
    job, path = tmp_path / "job.mlir", tmp_path / "trace.json"
    job.write_text(CUDA)
    words = ["penstock-run", str(job), "--random-inputs", "1", "--trace", str(path)]
    done = forked_simulator.outcome(words, tmp_path)
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    tracks = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert tracks[0] == "runs"
    assert {re.sub(r".*\((\w+)\).*", r"\1", x) for x in tracks[1:]} == {"cpu", "cuda"}
    kinds = "edge", "copy", "task", "wait"
    order = [e["cat"] for e in events if e.get("cat") in kinds]
    assert [kind for kind in order if kind != "wait"] == [
        *("edge", "copy", "task", "copy", "edge")
    ]
    # The host waits for both copies: its memory is used again, and the result fetched.
    assert order.count("wait") == 2
    waits = [e["args"]["task"] for e in events if e.get("cat") == "idle"]
    assert "y" in waits


# Progress ----------------------------------------------------------------------------


class Terminal(io.StringIO):
    """The text of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all progress be drawn at once."""
    monkeypatch.setattr(progress, "QUIET", 0)
    monkeypatch.setattr(progress, "BETWEEN", 0)


@pytest.mark.usefixtures("eager")
def test_a_terminal_shows_how_far_work_is_and_then_nothing():
    terminal = Terminal()
    with Progress("kernels", 4, terminal) as shown:
        for _ in range(4):
            shown.advance()
    drawn = [text for text in terminal.getvalue().split("\r") if text.strip()]
    bars = [6, 12, 18, 24]
    assert [text.rstrip() for text in drawn] == [
        f"kernels {i}/4 [{'#' * n}{'.' * (24 - n)}]" for i, n in enumerate(bars, 1)
    ]
    assert terminal.getvalue().endswith("\r")
    last = terminal.getvalue().split("\r")[-2]
    assert last == " " * len(drawn[-1])


@pytest.mark.usefixtures("eager")
def test_what_is_no_terminal_shows_nothing():
    stream = io.StringIO()
    with Progress("kernels", 3, stream) as shown:
        shown.advance()
    before = threading.active_count()
    with polled_progress("tasks", 3, lambda: 1, stream):
        assert threading.active_count() == before
    assert stream.getvalue() == ""


def test_short_work_shows_nothing():
    terminal = Terminal()
    with Progress("kernels", 1, terminal) as shown:
        shown.advance()
    with polled_progress("tasks", 3, lambda: 1, terminal):
        pass
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("eager")
def test_work_without_a_known_end_is_counted():
    terminal = Terminal()
    with Progress("pieces", None, terminal) as shown:
        shown.advance()
        shown.advance()
    assert [t.strip() for t in terminal.getvalue().split("\r") if t.strip()] == [
        "pieces 1",
        "pieces 2",
    ]


@pytest.mark.usefixtures("eager")
def test_work_is_asked_how_far_it_is():
    terminal = Terminal()
    counts = iter([100, 101, 103])
    asked = threading.Event()

    def done() -> int:
        if (count := next(counts, None)) is None:
            asked.set()
            return 103
        return count

    with polled_progress("tasks", 4, done, terminal):
        assert asked.wait(300)
    drawn = [t.strip() for t in terminal.getvalue().split("\r") if t.strip()]
    assert [text.split(" [")[0] for text in drawn[:2]] == ["tasks 1/4", "tasks 3/4"]
    names = [thread.name for thread in threading.enumerate()]
    assert "penstock-progress" not in names


@pytest.mark.usefixtures("eager")
def test_the_line_is_removed_when_work_fails():
    terminal = Terminal()

    def work() -> None:
        with Progress("kernels", 2, terminal) as shown:
            shown.advance()
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        work()
    assert terminal.getvalue().endswith("\r")


@pytest.mark.usefixtures("eager")
def test_compiling_and_a_long_run_show_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    terminal, job = Terminal(), tmp_path / "job.mlir"
    square = "tensor<1536x1536xf32>"
    job.write_text(f"""
job.job @long placement <cpu, [0:0]> {{
  %x = job.input "x" : {square}
  %y = op.matmul %x, %x : {square}, {square} -> {square}
  job.output "y", %y : {square}
}}
""")
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run_tool([str(job), "--random-inputs", "1", "--repeat", "2"]) == 0
    drawn = [text.rstrip() for text in terminal.getvalue().split("\r")]
    shown = list(dict.fromkeys(text for text in drawn if text))
    assert shown[0] == f"compiling kernels 1/1 [{'#' * 24}]"
    # Each run has three tasks, of which the second takes long.
    assert f"running tasks 1/6 [{'#' * 4}{'.' * 20}]" in shown
    assert f"running tasks 4/6 [{'#' * 16}{'.' * 8}]" in shown
