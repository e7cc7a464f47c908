"""
Inputs of networks around which gradients do not jump, as they do where a number that is
rectified changes its sign, or another one of a window becomes the largest.

Of 1,000 random numbers of `f32` one has a sign of its own in some 1,000 runs, where the
last bits of sums differ: its gradient is then not that of `f64`, nor is a difference of
losses across the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

STEP = 2.0**-15
"""The share that each number is moved by: rounding to `f32` moves sums less."""
DIRECTIONS = 2


def smooth_inputs(
    draw: Callable[[], Arrays], meaning: Callable[[Arrays], Arrays], bound: float
) -> tuple[Arrays, Arrays]:
    """
    Inputs that are drawn, and their gradients, near which these have no jump of a
    `bound`, as a share of the largest element of each: all are drawn anew until then.
    """
    while True:
        inputs = draw()
        gradients = meaning(inputs)
        if all(
            jump_at(inputs, gradients, meaning, n) <= bound for n in range(DIRECTIONS)
        ):
            return inputs, gradients


def jump_at(
    inputs: Arrays,
    gradients: Arrays,
    meaning: Callable[[Arrays], Arrays],
    direction: int,
) -> float:
    """
    The most that means of gradients, a step to both sides, are off those in the middle:
    nearly nothing unless one of them is across an edge.
    """
    rng = np.random.default_rng(direction)
    steps = {
        name: STEP * x * rng.choice([-1, 1], x.shape)
        for name, x in inputs.items()
        if x.dtype.kind == "f"
    }
    ends = [
        meaning(
            {**inputs, **{name: inputs[name] + sign * steps[name] for name in steps}}
        )
        for sign in (-1, 1)
    ]
    return max(
        float(np.abs((ends[0][name] + ends[1][name]) / 2 - x).max() / scale)
        for name, x in gradients.items()
        # Gradients by what a norm takes away are 0 but for rounding.
        if (scale := float(np.abs(x).max())) > 1e-9
    )
