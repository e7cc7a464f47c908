"""The benchmark of recurrent layers: its models and weights; none is timed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import recurrent
from benchmarks.harness import Race, Result
from benchmarks.recurrent import Case, Layers
from benchmarks.sessions import imported_model, runtime_run
from benchmarks.speed import flops_of
from penstock.dialects.op import LoopOp
from penstock.tools.session.oracle import evaluate_model

Array: TypeAlias = NDArray[np.generic]
Doubles: TypeAlias = NDArray[np.float64]

DECODER = next(name for name, case in recurrent.CASES.items() if case is None)
SMALL = {
    "LSTM": Layers("LSTM", 3, 5, 2, 4),
    "GRU": Layers("GRU", 3, 5, 1, 4),
}


def doubles(value: Array) -> Doubles:
    return value.astype(np.float64)


def check(case: Case, loops: int) -> None:
    """Compare a case with ONNX Runtime, and count its loops."""
    model = imported_model(case.model)
    found = [op for op in model.module.walk() if isinstance(op, LoopOp)]
    assert len(found) == loops
    (got,) = evaluate_model(model, case.inputs).values()
    (wanted,) = runtime_run(case.model, case.inputs, 1)()
    np.testing.assert_allclose(doubles(got), doubles(wanted), 1e-4, 1e-4)


def test_layers_are_a_loop_each() -> None:
    for layers in SMALL.values():
        check(recurrent.layers_case(layers), layers.layers)


def test_the_decoder_is_one_loop() -> None:
    check(recurrent.case_of(DECODER), 1)


def test_arithmetic_of_a_body_counts_once_an_iteration() -> None:
    few, many = (Layers("LSTM", 3, 5, 1, steps) for steps in (4, 8))
    counts = [
        flops_of(imported_model(recurrent.layers_case(layers).model))
        for layers in (few, many)
    ]
    # All steps are alike, but for the sum of both biases of 20 elements.
    assert counts[1] == 2 * counts[0]


def test_pytorch_has_no_decoder() -> None:
    assert [*recurrent.openers(DECODER, 1)] == ["Penstock", "ONNX Runtime"]
    assert [*recurrent.openers("GRU(256), 100 steps", 1)] == [*recurrent.OPENERS]


def sigmoid(value: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-value))


@pytest.mark.parametrize("op", SMALL)
def test_weights_of_pytorch_are_in_its_order(op: str) -> None:
    """The formulas of its pages for a layer, on these weights."""
    layers = SMALL[op]
    case = recurrent.layers_case(layers)
    found = recurrent.torch_weights(case.weights, layers)
    weights = {name: doubles(value) for name, value in found.items()}
    rows = doubles(case.inputs["x"])[:, 0]
    for number in range(layers.layers):
        w, r, b, c = (
            weights[f"{name}_l{number}"]
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        hidden, cell = np.zeros(layers.size), np.zeros(layers.size)
        outputs: list[Doubles] = []
        for row in rows:
            given, own = w @ row + b, r @ hidden + c
            if op == "LSTM":
                i, f, g, o = np.split(given + own, 4)
                cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
                hidden = sigmoid(o) * np.tanh(cell)
            else:
                (a, d, e), (x, y, z) = np.split(given, 3), np.split(own, 3)
                reset, update = sigmoid(a + x), sigmoid(d + y)
                hidden = (1 - update) * np.tanh(e + reset * z) + update * hidden
            outputs.append(hidden)
        rows = np.stack(outputs)
    (wanted,) = runtime_run(case.model, case.inputs, 1)()
    np.testing.assert_allclose(rows, doubles(wanted)[:, 0], 1e-4, 1e-5)


def test_cases_are_raced_compiled_and_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "CASES", {"small": SMALL["GRU"]})

    def seconds(name: str) -> float:
        return 1.5

    def raced(opened: object, rounds: int) -> Race:
        return Race((Result("Penstock", (0.1,)), Result("ONNX Runtime", (0.2,))), 0)

    monkeypatch.setattr(recurrent, "cold_seconds", seconds)
    monkeypatch.setattr(recurrent, "race", raced)
    section = recurrent.recurrent((1,), 2, ["small"])
    times, compiled = section.tables
    assert [row[2] for row in times.rows] == ["Penstock", "ONNX Runtime"]
    assert compiled.rows[0][:2] == ["small", "1.50"]
