"""The benchmark of whole models: what it writes, counts and says; none is timed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import run, whole
from benchmarks.harness import Race, Result


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a model of two ops, which lies where the light ones do."""
    value = helper.make_tensor_value_info
    weights = np.random.default_rng(1).normal(size=(8, 4)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["y"]),
        ],
        "small",
        [value("x", 1, [2, 8]), value("w", 1, [8, 4])],
        [value("y", 1, [2, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    (tmp_path / "light_small.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(whole, "LIGHT", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return "light small"


@pytest.mark.slow
def test_a_model_is_raced_and_its_memory_is_compared(light: str) -> None:
    section = whole.models((1,), 2, [light])
    times, means, peaks = section.tables
    assert section.problems == []
    contenders = [row[2] for row in times.rows]
    assert contenders == ["Penstock", "ONNX Runtime"]
    assert all(float(row[3]) > 0 for row in times.rows)
    assert [row[:2] for row in means.rows] == [["1", "1"]]
    # The product is computed in place, as relu changes it.
    assert peaks.rows[0][0] == light


def test_inputs_are_random_and_weights_are_not_asked_for(light: str) -> None:
    with whole.written_cases([light]) as (case,):
        inputs = case.inputs()
        assert {name: x.shape for name, x in inputs.items()} == {"x": (2, 8)}
        assert np.unique(inputs["x"]).size == 16
        peer: Any = onnxruntime.InferenceSession(case.path)
        (expected,) = peer.run(None, dict(inputs))
        (found,) = whole.open_penstock(case, 1)()
    assert abs(np.asarray(found, np.float32) - expected).max() <= 1e-5


def test_only_exports_are_run_by_pytorch() -> None:
    light, export = (whole.Case(name, Path()) for name in ("light vgg19", "bert"))
    assert [*whole.openers(light, 1)] == ["Penstock", whole.WINOGRAD, "ONNX Runtime"]
    assert [*whole.openers(export, 1)] == [
        *("Penstock", "ONNX Runtime", "PyTorch eager", "PyTorch compiled")
    ]


@pytest.mark.parametrize(
    ("peers", "mean"), [([(4.0, 8.0), (1.0, 3.0)], "1.00"), ([(9.0, 18.0)], "4.50")]
)
def test_the_mean_is_that_of_the_best_peers(
    peers: Sequence[tuple[float, ...]], mean: str
) -> None:
    def found(*seconds: float) -> Race:
        results = [Result(f"peer {n}", (time,)) for n, time in enumerate(seconds)]
        ours = Result("Penstock", (2.0,))
        fast = Result(whole.WINOGRAD, (0.1,))
        missing = Result("other", problem="not installed: other")
        return Race((ours, fast, *results, missing), 0)

    races = {(str(n), 1): found(*times) for n, times in enumerate(peers)}
    assert whole.means(races, (1, 2)) == [["1", str(len(peers)), mean]]


def test_memory_grows_from_when_it_is_first_asked(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t  900 kB\nVmRSS:\t  100 kB\n")
    grown = whole.grown_bytes(tmp_path)
    assert grown is not None
    status.write_text("VmHWM:\t  250 kB\nVmRSS:\t  120 kB\n")
    assert grown() == 150 << 10
    assert (tmp_path / "clear_refs").read_text() == "5"
    assert whole.grown_bytes(tmp_path / "nowhere") is None


def test_unknown_memory_is_said() -> None:
    rows = whole.peak_rows({"a": (2_000_000, 0), "b": (2_000_000, 3_000_000)})
    assert rows == [["a", "2.0", "not known", ""], ["b", "2.0", "3.0", "1.50"]]


def test_models_are_a_benchmark_by_name() -> None:
    assert "models" in run.BENCHMARKS
