"""
Small models whose losses PyTorch has computed, as `benchmarks/torch_figures.py` writes
them: their weights and data are sines, and depend on no generator of random numbers.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Wide: TypeAlias = NDArray[np.float64]

RESNET: Any = runpy.run_path(str(Path(__file__).parents[2] / "examples/resnet18.py"))
"""The names of the example, its networks among them."""

STEPS = 20
RESNET_STEPS = 6
"""Those of the largest model."""
FIGURES = Path(__file__).parents[1] / "unit/lowering/job/torch_figures.json"

MODELS: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"w1": (8, 16), "b1": (16,), "w2": (16, 4), "b2": (4,)},
    "cnn": {
        "c1": (6, 3, 3, 3),
        "scale": (6,),
        "shift": (6,),
        "c2": (8, 6, 3, 3),
        "f": (32, 5),
        "fb": (5,),
    },
    "gpt": {
        "table": (8, 8),
        "places": (8, 8),
        **{
            f"{layer}{name}": shape
            for layer in "ab"
            for name, shape in {
                "s1": (8,),
                "h1": (8,),
                "q": (8, 8),
                "k": (8, 8),
                "v": (8, 8),
                "o": (8, 8),
                "s2": (8,),
                "h2": (8,),
                "up": (8, 8),
                "upb": (8,),
                "down": (8, 8),
            }.items()
        },
    },
    "lstm": {
        "by_input": (7, 32),
        "by_state": (8, 32),
        "bias": (32,),
        "out": (8, 7),
    },
    "resnet18": RESNET["shapes"](4, 5),
}
"""The variables of each model, with their shapes."""

INPUTS: dict[str, tuple[tuple[int, ...], int | None, tuple[int, ...], int]] = {
    "mlp": ((16, 8), None, (16,), 4),
    "cnn": ((4, 3, 8, 8), None, (4,), 5),
    "gpt": ((2, 8), 8, (2, 8), 8),
    "lstm": ((6, 4), 7, (6, 4), 7),
    "resnet18": ((4, 3, 32, 32), None, (4,), 5),
}
"""The shapes of inputs and labels, each with the number of its classes."""


def wave(shape: tuple[int, ...], phase: float, scale: float = 1.0) -> Wide:
    """Numbers of a tensor that look like random ones."""
    count = int(np.prod(shape))
    return scale * np.sin(1.7 * np.arange(count) ** 1.5 + phase).reshape(shape)


def classes(shape: tuple[int, ...], phase: float, count: int) -> NDArray[np.int64]:
    """Classes that look like random ones."""
    return np.floor((wave(shape, phase) * 0.5 + 0.5) * (count - 1e-3)).astype(np.int64)


def weights_of(model: str) -> dict[str, Wide]:
    """The variables of a model before its first step."""
    made: dict[str, Wide] = {}
    for number, (name, shape) in enumerate(MODELS[model].items()):
        made[name] = wave(shape, number, 0.4)
        if name[-2:] in ("le", "s1", "s2", "ht") and len(shape) == 1:
            # The factors of norms.
            made[name] = 1 + made[name] / 4
    return made


def batch_of(
    model: str, step: int
) -> tuple[Wide | NDArray[np.int64], NDArray[np.int64]]:
    """The input and the labels of a step."""
    shape, kinds, labels, count = INPUTS[model]
    phase = 10.0 * step + 0.5
    x = wave(shape, phase) if kinds is None else classes(shape, phase, kinds)
    return x, classes(labels, phase + 5, count)


def gradient(step: int) -> Wide:
    """The gradient that all optimizers get at a step, from 1 on."""
    return wave((12,), 3.0 * step) * (1 + step % 3)


START = wave((12,), 0.25)
"""The variable of all optimizers."""

TABLE = START.reshape(6, 2)
"""The variable of all optimizers that are given gradients of rows."""


def rows_of(step: int) -> tuple[NDArray[np.int64], Wide]:
    """The indices of rows, some of them equal, and a gradient of each."""
    return classes((3,), 2.0 * step, 6), wave((3, 2), 7.0 * step)
