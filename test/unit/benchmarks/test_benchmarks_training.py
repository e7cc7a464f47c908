"""The benchmark of training: its networks, the losses of steps, and its section."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import training
from benchmarks.figures import tables_of
from benchmarks.harness import TOLERANCE, Race, Result
from benchmarks.networks import SMALL, TRAININGS, Gpt
from benchmarks.trainers import OPENERS, STEP, STEPS, peak_of, training_of
from penstock.runtime.observe.metrics import Expense, Times


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("MLP 784-512-512-10, b128", 669_706),
        ("ResNet-18, b8", 11_689_512),
        ("ResNet-50, b2", 25_557_032),
        ("MobileNetV2, b4", 3_504_872),
    ],
)
def test_networks_have_as_many_weights_as_those_that_are_published(
    name: str, count: int
) -> None:
    shapes = TRAININGS[name]().shapes
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == count


def test_the_largest_model_of_language_is_gpt2() -> None:
    shapes = Gpt(12, 768, 1, length=1024, words=50257).shapes()
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 124_439_808


def losses_by_numpy() -> Sequence[float]:
    """The losses of steps of SGD on the small MLP, in f64."""
    of = training_of("small MLP")
    weights = {k: w.astype(np.float64) for k, w in of.weights().items()}
    x, labels = of.drawn_batch()
    x, rows = x.astype(np.float64), np.arange(len(labels))
    found: list[float] = []
    for _ in range(STEPS):
        w, b, v, c = (weights[f"layer{n}/{part}"] for n in (0, 1) for part in "wb")
        hidden = np.maximum(x @ w + b, 0)
        scores = hidden @ v + c
        shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        found.append(float(-np.log(shares[rows, labels]).mean()))
        shares[rows, labels] -= 1
        shares /= len(rows)
        back = (shares @ v.T) * (hidden > 0)
        gradients = x.T @ back, back.sum(0), hidden.T @ shares, shares.sum(0)
        for array, gradient in zip((w, b, v, c), gradients, strict=True):
            array -= of.rule.rate * gradient
    return found


@pytest.mark.parametrize("contender", OPENERS)
def test_losses_of_steps_are_those_of_f64(contender: str) -> None:
    if contender == "torch.compile" or not is_installed(contender):
        pytest.skip("takes long, or is not installed")
    losses = losses_of(contender, "small MLP")
    assert losses == pytest.approx(losses_by_numpy(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_contenders_make_the_same_steps(name: str) -> None:
    ours = losses_of("Penstock", name)
    assert all(b < a * (1 - TOLERANCE) for a, b in pairwise(ours))
    if is_installed("PyTorch eager"):
        theirs = losses_of("PyTorch eager", name)
        assert ours == pytest.approx(theirs, rel=1e-5)


def losses_of(contender: str, name: str) -> Sequence[float]:
    """The losses of the first steps."""
    (losses,) = OPENERS[contender](name, STEP, 1)()
    return [float(loss) for loss in losses]


def is_installed(contender: str) -> bool:
    """Whether a contender can be imported."""
    package = {"Penstock": "penstock", "JAX": "jax"}.get(contender, "torch")
    return find_spec(package) is not None


def test_a_peak_counts_what_was_there_before_and_went() -> None:
    assert peak_of([4, 8, -4, -8]) == 12
    assert peak_of([-5, 4, 8, -12]) == 12
    assert peak_of([]) == 0


def raced(openers: Mapping[str, object], rounds: int) -> Race:
    """The times of a machine that is slow."""
    seconds = {"PyTorch eager": 2.0, "torch.compile": 0.9}
    results = [Result(name, (seconds.get(name, 1.0),) * rounds) for name in openers]
    return Race(tuple(results), 0)


def test_a_training_that_misses_its_target_is_taken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def expenses(name: str) -> Sequence[Expense]:
        times = Times()
        times.add(20_000_000)
        return [Expense("r1", "op.matmul", times, 40_000_000, None)]

    def no_peak(function: Any, name: str) -> int:
        return 0

    monkeypatch.setattr(training, "race", raced)
    monkeypatch.setattr(training, "apart", no_peak)
    monkeypatch.setattr(training, "expenses_of", expenses)
    found = training.training([1], 1, ["small MLP"])
    steps, best, updates, memory, parts, slowest = found.tables
    assert [row[2] for row in steps.rows] == [*OPENERS]
    assert best.rows[0][-1] == "0.90"
    assert updates.rows[-1][2] == "PyTorch copy"
    assert memory.rows[0][2:] == ("not installed", "")
    names = [f"small MLP: {part}" for part in ("forward", "with backward")]
    assert [row[0] for row in parts.rows] == [names[0]] * 2 + [names[1]] * 2
    assert slowest.rows[0] == ("`r1`", "`op.matmul`", "4.000", "100.0%", "2.0")
    assert len(tables_of(found.tables)) == 5


def test_the_target_of_convolutions_is_against_pytorch() -> None:
    results = [Result("Penstock", (1.0,)), Result("PyTorch eager", (1.1,))]
    race = Race((*results, Result("JAX", (0.5,))), 0)
    assert not training.misses("ResNet-18, b8", race)
    assert training.misses("LSTM(256), 35 steps, b20", race)
