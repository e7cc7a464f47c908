"""
Optimizers in NumPy: by the formulas of PyTorch's pages, and of the papers on LAMB (You
and others, arXiv:1904.00962, algorithm 2, with the identity for phi) and LARS (You and
others, arXiv:1708.03888, algorithm 1; its rate, which is constant here, is taken out of
the momentum, as PyTorch's SGD has it).

A norm of 0, of which the papers say nothing, leaves the rate as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Wide: TypeAlias = NDArray[np.float64]
State: TypeAlias = dict[str, Wide]
Formula: TypeAlias = Callable[[State, Wide, int], None]
"""A step by a gradient: it changes a state, at the number of the step from 1 on."""


def zeros(s: State, *names: str) -> None:
    """States that begin with zeros."""
    for name in names:
        s.setdefault(name, np.zeros_like(s["w"]))


def sgd(rate: float = 1e-3, decay: float = 0.0) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        s["w"] = s["w"] - rate * (g + decay * s["w"])

    return step


def momentum(
    rate: float = 1e-3,
    mu: float = 0.9,
    dampening: float = 0.0,
    nesterov: bool = False,
    decay: float = 0.0,
) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        g = g + decay * s["w"]
        first = t == 1
        s["buffer"] = g if first else mu * s["buffer"] + (1 - dampening) * g
        s["w"] = s["w"] - rate * (g + mu * s["buffer"] if nesterov else s["buffer"])

    return step


def adam(
    rate: float = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
    apart: bool = False,
    amsgrad: bool = False,
) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        zeros(s, "m", "v", *(["v_max"] if amsgrad else []))
        if apart:
            s["w"] = s["w"] - rate * decay * s["w"]
        else:
            g = g + decay * s["w"]
        s["m"] = b1 * s["m"] + (1 - b1) * g
        s["v"] = b2 * s["v"] + (1 - b2) * g**2
        largest = s["v"]
        if amsgrad:
            s["v_max"] = largest = np.maximum(s["v_max"], s["v"])
        m = s["m"] / (1 - b1**t)
        s["w"] = s["w"] - rate * m / (np.sqrt(largest / (1 - b2**t)) + eps)

    return step


def rmsprop(
    rate: float = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    mu: float = 0.0,
    centered: bool = False,
) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        zeros(s, "v", *(["mean"] if centered else []), *(["buffer"] if mu else []))
        s["v"] = alpha * s["v"] + (1 - alpha) * g**2
        size = s["v"]
        if centered:
            s["mean"] = alpha * s["mean"] + (1 - alpha) * g
            size = size - s["mean"] ** 2
        way = g / (np.sqrt(size) + eps)
        if mu:
            s["buffer"] = way = mu * s["buffer"] + way
        s["w"] = s["w"] - rate * way

    return step


def adagrad(
    rate: float = 1e-2, slower: float = 0.0, initial: float = 0.0, eps: float = 1e-10
) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        s.setdefault("sum", np.full_like(g, initial))
        s["sum"] = s["sum"] + g**2
        now = rate / (1 + (t - 1) * slower)
        s["w"] = s["w"] - now * g / (np.sqrt(s["sum"]) + eps)

    return step


def lamb(rate: float = 1e-3, decay: float = 1e-2, eps: float = 1e-6) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        zeros(s, "m", "v")
        s["m"] = 0.9 * s["m"] + 0.1 * g
        s["v"] = 0.999 * s["v"] + 0.001 * g**2
        m, v = s["m"] / (1 - 0.9**t), s["v"] / (1 - 0.999**t)
        r = m / (np.sqrt(v) + eps) + decay * s["w"]
        size, length = np.linalg.norm(s["w"]), np.linalg.norm(r)
        ratio = size / length if size and length else 1
        s["w"] = s["w"] - rate * ratio * r

    return step


def lars(rate: float = 1e-3, decay: float = 0.0, trust: float = 1e-3) -> Formula:
    def step(s: State, g: Wide, t: int) -> None:
        zeros(s, "buffer")
        size, slope = np.linalg.norm(s["w"]), np.linalg.norm(g)
        ratio = trust * size / (slope + decay * size + 1e-8) if size and slope else 1
        s["buffer"] = 0.9 * s["buffer"] + ratio * (g + decay * s["w"])
        s["w"] = s["w"] - rate * s["buffer"]

    return step


CASES: Mapping[str, tuple[str, Formula]] = {
    "a": ("sgd", sgd()),
    "b": ("sgd, rate = 0.1, weight_decay = 0.1", sgd(0.1, 0.1)),
    "c": ("momentum, rate = 0.05", momentum(0.05)),
    "d": (
        "momentum, momentum = 0.8, dampening = 0.5, weight_decay = 0.2",
        momentum(mu=0.8, dampening=0.5, decay=0.2),
    ),
    "e": ("momentum, nesterov = true", momentum(nesterov=True)),
    "f": ("adam, rate = 0.01", adam(0.01)),
    "g": ("adam, weight_decay = 0.1, eps = 1.0e-4", adam(decay=0.1, eps=1e-4)),
    "h": ("adam, amsgrad = true, beta2 = 0.5", adam(amsgrad=True, b2=0.5)),
    "i": ("adamw", adam(decay=0.01, apart=True)),
    "j": (
        "adamw, beta1 = 0.8, beta2 = 0.9, weight_decay = 0.3",
        adam(b1=0.8, b2=0.9, decay=0.3, apart=True),
    ),
    "k": ("rmsprop", rmsprop()),
    "l": (
        "rmsprop, momentum = 0.5, centered = true, alpha = 0.9, eps = 0.01",
        rmsprop(alpha=0.9, eps=0.01, mu=0.5, centered=True),
    ),
    "m": ("adagrad", adagrad()),
    "n": (
        "adagrad, rate_decay = 0.1, initial = 0.5",
        adagrad(slower=0.1, initial=0.5),
    ),
    "o": ("lamb, rate = 0.1", lamb(0.1)),
    "p": ("lars, rate = 10, weight_decay = 0.01", lars(10.0, 0.01)),
}
"""Optimizers as a job says them, each with its formula, by the name of a variable."""
