"""The benchmarks of a GPU, without one: all that the host does in them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import gpu, gpu_cases, gpu_sections
from benchmarks.gpu import Part
from benchmarks.gpu_replay import replayed
from benchmarks.gpu_sections import EAGER, OURS, Row, Setup
from penstock.runtime.cuda import driver_real as cuda_driver_real
from penstock.runtime.cuda.driver import Handle, Launch
from penstock.runtime.cuda.libraries import registry as cuda_libraries
from penstock.runtime.cuda.libraries.problems import Convolution, Product, Sum
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.reports.benchmark_figures import read_measurements


class Tensor:
    """The part of PyTorch's tensors that benchmarks use, around an array."""

    def __init__(self, array: Any):
        self.numbers = np.asarray(array)
        self.shape = self.numbers.shape

    def to(self, device: str, dtype: Any = None) -> Tensor:
        return self if dtype is None else Tensor(self.numbers.astype(dtype))

    def detach(self) -> Tensor:
        return self

    cpu = detach

    def float(self) -> Tensor:
        return Tensor(self.numbers.astype(np.float32))

    def numpy(self) -> Any:
        return self.numbers


def softmax(x: Tensor, axis: int) -> Tensor:
    """The part of `torch.softmax` that benchmarks use."""
    return Tensor(gpu_cases.shares(x.numbers.astype(np.float64)))


def mm(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """The part of `torch.mm` that benchmarks use."""
    wide = a.numbers.astype(np.float32) @ b.numbers.astype(np.float32)
    return Tensor(wide.astype(a.numbers.dtype))


def compiled(function: Any, mode: str) -> Any:
    """The part of `torch.compile` that benchmarks use."""
    return function


def fake_torch(**changes: Any) -> Any:
    """The part of PyTorch that benchmarks use, by NumPy."""
    flags = SimpleNamespace(matmul=SimpleNamespace())
    made: dict[str, Any] = {
        "backends": SimpleNamespace(cuda=flags, cudnn=SimpleNamespace()),
        "bfloat16": np.float32,
        "compile": compiled,
        "empty_like": copy,
        "from_numpy": Tensor,
        "inference_mode": nullcontext,
        "mm": mm,
        "softmax": softmax,
        **changes,
    }
    return SimpleNamespace(**made)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A double of PyTorch."""
    made = fake_torch()
    monkeypatch.setattr(gpu_sections, "torch_here", lambda: made)
    return made


@pytest.fixture
def setup() -> Setup:
    """Tiny cases on a driver that computes with NumPy, for as short as can be."""
    driver = RecordedDriver()
    driver.open(0)
    peers = (EAGER, gpu_sections.COMPILED, gpu_sections.TRITON)
    return Setup(driver, "cpu", True, 1, 1e-9, peers[:2], peers[:2])


@pytest.fixture
def idle(setup: Setup) -> Setup:
    """The same, where the driver computes nothing."""
    driver = RecordedDriver(executes=False)
    driver.open(0)
    return replace(setup, driver=driver)


def one_product(n: int) -> list[gpu_cases.Case]:
    return [gpu_cases.product(n, n, n)]


# Sections


def test_what_a_run_launches_can_be_launched_again(setup: Setup):
    case = gpu_cases.product(20, 24, 16)
    inputs, driver = case.inputs(), setup.driver
    assert isinstance(driver, RecordedDriver)
    with replayed(case.text, inputs, driver) as replay:
        assert gpu_sections.error_of(replay.outputs["o"], case.meaning(inputs)) < 1e-6
        assert len(replay.launched) == 1
        before = len([entry for entry in driver.log if entry.call == "launch"])
        assert replay.turn(3) > 0
        launches = [entry for entry in driver.log if entry.call == "launch"]
        assert len(launches) - before == 3
        assert {entry.stream for entry in launches[before:]} == {replay.stream}
    assert "destroy_stream" in {entry.call for entry in driver.log}


def test_graphs_are_launched_again_too(idle: Setup):
    driver = idle.driver
    assert isinstance(driver, RecordedDriver)
    inputs = {"x": np.eye(16, dtype=np.float32)}
    with replayed(gpu_sections.chain(3), inputs, driver) as replay:
        assert len(replay.launched) == 1
        count = [entry.call for entry in driver.log].count("launch_graph")
        replay.turn(2)
        calls = [entry.call for entry in driver.log]
        assert calls.count("launch_graph") == count + 2


def test_all_kinds_of_kernels_are_checked():
    names = {case.name.split()[0] for case in gpu_cases.checked_cases()}
    assert names == {
        *("attention", "bf16", "bias,", "convolution", "f32", "layer", "softmax"),
        "sums",
    }


def test_meanings_agree_with_kernels(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [
        gpu_cases.softmax(3, 70),
        gpu_cases.layer_norm(3, 40),
        gpu_cases.column_sums(30, 8),
        gpu_cases.product(4, 6, 8, "bf16"),
    ]
    monkeypatch.setattr(gpu_cases, "checked_cases", lambda: cases)
    rows = [*gpu_sections.check(setup)]
    assert [row.case for row in rows] == [case.name for case in cases]
    assert not any(row.is_problem for row in rows), rows
    assert all(row.figure.startswith("differs by ") for row in rows)


def test_wrong_results_are_told(idle: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_cases, "checked_cases", lambda: one_product(8))
    (row,) = gpu_sections.check(idle)
    assert row.is_problem


def test_a_case_that_fails_leaves_the_others(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = replace(one_product(8)[0], text="job.job @oops")
    monkeypatch.setattr(gpu_cases, "checked_cases", lambda: [bad, *one_product(4)])
    first, second = gpu_sections.check(setup)
    assert (first.is_problem, second.is_problem) == (True, False)
    assert first.note.startswith("Rejected: ")


def test_peers_take_turns_with_us(setup: Setup, torch: Any) -> None:
    some = [gpu_cases.softmax(3, 70), gpu_cases.product(4, 6, 8, "bf16")]
    rows = [*gpu_sections.cases(setup, some)]
    assert [(row.case, row.who) for row in rows] == [
        (case.name, who)
        for case in some
        for who in (OURS, EAGER, gpu_sections.COMPILED)
    ]
    assert not any(row.is_problem or row.note for row in rows), rows
    assert [row.ratio is None for row in rows] == [True, False, False] * 2
    assert all(row.microseconds for row in rows)
    assert rows[0].figure.endswith(" GB/s")
    assert rows[3].figure.endswith(" TFLOP/s")
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.backends.cudnn.allow_tf32 is False


def test_peers_that_differ_or_fail_take_no_part(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(a: Tensor, b: Tensor) -> Tensor:
        raise RuntimeError("no kernel image")

    def differing(a: Tensor, b: Tensor) -> Tensor:
        return a

    notes: dict[Callable[..., Tensor], str] = {
        differing: "differs from ours by ",
        failing: "RuntimeError: no kernel image",
    }
    for wrong, note in notes.items():
        made = fake_torch(mm=wrong)
        monkeypatch.setattr(gpu_sections, "torch_here", lambda made=made: made)
        ours, eager, _ = gpu_sections.cases(setup, one_product(4))
        assert (ours.who, ours.note, eager.who) == (OURS, "", EAGER)
        assert eager.note.startswith(note)


@dataclass
class NoLibrary:
    """Something in place of a library, which computes nothing."""

    kinds: tuple[type[Sum], ...] = (Product, Convolution)
    is_capturable: bool = True
    launched: int = 0

    def open(self, device: int) -> None:
        """There is nothing to be made."""

    def forget(self, device: int) -> None:
        """There is nothing to be forgotten."""

    def room(self, wanted: Sum, device: int) -> int:
        return 8

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        assert len(words) == 4

        def launch(stream: Handle) -> None:
            self.launched += 1

        return launch


def test_libraries_take_turns_with_us(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_libraries, "OPENERS", {})
    monkeypatch.setattr(cuda_libraries, "_opened", {})
    rows = [*gpu_sections.libraries(setup)]
    names = ["cublas", "cublas", "cudnn"]
    assert [row.who for row in rows] == names
    assert all(row.note.startswith("there is no library '") for row in rows)
    library = NoLibrary()
    for name in names:
        cuda_libraries.register_library(name, lambda: library)
    rows = [*gpu_sections.libraries(setup)]
    assert [row.who for row in rows] == [who for name in names for who in (OURS, name)]
    assert library.launched >= 2 * 3
    # What it leaves as it was is not what we compute.
    assert [row.is_problem for row in rows] == [False, True] * 3
    assert all(row.microseconds for row in rows)


def test_peers_need_not_be_there(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_sections, "torch_here", lambda: None)
    ours, eager = gpu_sections.cases(setup, one_product(4))
    assert ours.microseconds
    assert (eager.who, eager.note) == (EAGER, "not installed")
    (row,) = gpu_sections.resnet(setup)
    assert row.note == "needs PyTorch, which writes the model"


def test_sections_run_without_computing(idle: Setup, torch: Any) -> None:
    found = {row.case: row for row in gpu_sections.probe(idle)}
    assert found["copy"].figure.endswith(" GB/s")
    assert not any(row.is_problem for row in found.values()), found
    launches = [*gpu_sections.launches(idle)]
    assert [(row.case, row.who) for row in launches] == [
        ("launch, host", OURS),
        ("launch of a graph, host", OURS),
        ("iteration of a stream", OURS),
        ("run by itself", OURS),
        ("launch, host", EAGER),
    ], launches
    assert all(row.microseconds for row in launches)


def test_models_are_timed_on_the_device_and_as_runs(
    idle: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_sections, "torch_here", lambda: None)
    rows = [*gpu_sections.layer(idle)]
    assert [row.case for row in rows] == [
        *["BERT layer, 128 tokens"] * 2,
        "BERT layer, 128 tokens, a run",
    ]
    assert rows[2].note.endswith(" launches of kernels and graphs")
    assert all(row.figure.endswith(" TFLOP/s") for row in rows if row.who == OURS)


def test_sizes_for_a_gpu_and_for_tests_are_of_the_same_kinds():
    for make in (
        gpu_cases.row_cases,
        gpu_cases.product_cases,
        gpu_cases.attention_cases,
    ):
        kinds = [{c.name.split()[0] for c in make(small=s)} for s in (True, False)]
        assert kinds[0] == kinds[1]
        assert all(c.flops or c.bytes for c in make(small=False))


# The command


def python(script: str, seconds: float = 60, *, is_pytest: bool = False) -> Part:
    command = [sys.executable, "-c", script, "{rows}"]
    return Part("A section", command, seconds, is_pytest)


ONE_ROW = f"""
import json, sys, time
file = open(sys.argv[1], "a")
print(json.dumps({Row("a | b", microseconds=1.5, figure="2 GB/s").data()!r}), file=file)
file.flush()
"""


@pytest.fixture(autouse=True)
def _with_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.01)


class Ended(subprocess.Popen[bytes]):
    """A child that has used up a limit of one second once it has written a row."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout != 1:
            return super().wait(timeout)
        assert isinstance(self.args, list)
        rows = Path(str(self.args[-1]))
        while self.poll() is None and not rows.read_text(encoding="utf-8"):
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(self.args, timeout)


def test_sections_that_fail_or_take_too_long_leave_rows_and_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gpu.subprocess, "Popen", Ended)
    parts = {
        "good": python(ONE_ROW),
        "bad": python(f"{ONE_ROW}print('oh no'); sys.exit(3)"),
        "slow": python(f"{ONE_ROW}time.sleep(60)", 1.0),
        "missing": Part("Missing", ["?"], 60, needs="no-such-program"),
    }
    assert gpu.run_all(parts, 1, tmp_path) == 2
    data = json.loads((tmp_path / "gpu.json").read_text())["sections"]
    assert [*data] == [*parts]
    counts = [len(found["rows"]) for found in data.values()]
    assert counts == [1, 1, 1, 1]
    assert [found["problems"] for found in data.values()] == [
        [],
        ["ended with code 3"],
        ["stopped after 1 s"],
        [],
    ]
    text = (tmp_path / "gpu.md").read_text()
    assert "| a / b | Penstock | 1.50 | 2 GB/s |" in text
    assert "```\noh no\n```" in text
    assert "not installed" in text
    assert gpu.run_all({"good": parts["good"]}, 1, tmp_path) == 0


def test_times_are_added_to_the_figures_of_all_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gpu_sections, "gpu_name", lambda: "NVIDIA X1, 550.1, 80 GiB")
    part = replace(python(ONE_ROW), limit="bandwidth of memory")
    figures = tmp_path / "figures"
    assert gpu.run_all({"rows": part}, 1, tmp_path, figures, "0a590d1") == 0
    (found,) = read_measurements(figures)
    assert (found.section, found.processor) == ("gpurows", "NVIDIA X1")
    assert found.notes == ["NVIDIA X1, 550.1, 80 GiB."]
    assert found.tables[0].cases[0].limit == "bandwidth of memory"


def test_without_time_a_section_is_left_out(tmp_path: Path):
    assert gpu.run_all({"late": python(ONE_ROW)}, 0.0, tmp_path) == 2
    assert "* left out: no time was left" in (tmp_path / "gpu.md").read_text()


def test_results_of_tests_are_counted():
    alone = "t.py::a PASSED [ 50%]\nt.py::b[x-1] FAILED [100%]\n"
    several = "[gw0] [ 50%] PASSED t.py::a\n[gw1] [100%] FAILED t.py::b[x-1] \n"
    summary = "FAILED t.py::b[x-1] - AssertionError: PASSED\n"
    for text in (alone, several, alone + summary):
        total, bad = gpu.test_rows(text)
        assert total["note"] == "1 failed, 1 passed"
        assert (bad["case"], bad["is_problem"]) == ("t.py::b[x-1]", True)
    (none,) = gpu.test_rows("ERROR: usage\n")
    assert none["note"] == "none ran"


def test_each_section_has_a_command():
    parts = gpu.parts_of_all()
    named = {part.command[-3] for part in parts.values() if "--rows" in part.command}
    assert named == {*gpu_sections.SECTIONS}
    assert parts["memcheck"].command[1:3] == ["--tool", "memcheck"]
    files = [Path(word).stem for word in parts["tests"].command if word.endswith(".py")]
    assert "test_cuda_driver" in files
    assert "test_cuda_gpu" not in files
    assert parts["device tests"].command[-1].endswith("test_cuda_gpu.py")


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.runtime.cuda.simulator.gpu_count", lambda: 0)
    monkeypatch.setattr(gpu, "NEEDED", ("penstock",))
    assert gpu.main([]) == 1
    assert capsys.readouterr().err == f"{gpu.NO_GPU}\n"
    monkeypatch.setattr(gpu, "NEEDED", ("penstock", "no-such-package"))
    assert gpu.main([]) == 1
    assert capsys.readouterr().err.startswith("not installed: no-such-package. Try ")


def test_a_section_writes_its_rows(
    idle: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cuda_driver_real, "open_driver", lambda: idle.driver)

    def rows(setup: Setup) -> Iterator[Row]:
        assert setup.driver is idle.driver
        yield Row("a", figure="b")

    monkeypatch.setitem(gpu_sections.SECTIONS, "rows", rows)
    path = tmp_path / "rows.jsonl"
    monkeypatch.setattr(gpu, "NEEDED", ())
    assert gpu.main(["--section", "rows", "--rows", str(path)]) == 0
    assert json.loads(path.read_text()) == Row("a", figure="b").data()
