"""
Updates of variables over steps, against formulas in NumPy in f64.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from optimizer_formulas import CASES, adam

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Wide: TypeAlias = NDArray[np.float64]

STEPS = 20
SHAPE = (7, 33)
SEED = 20261123


def opened(text: str, threads: int = 1) -> Session:
    """A session of a job's text."""
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "updates.mlir")
    compiler[0].verify(module)
    return Session(Model(module, {}, Path()), threads=threads, compiler=compiler)


def wide(array: NDArray[np.generic]) -> Wide:
    """Numbers of a session in f64."""
    return array.astype(np.float64)


def job_of(type: str) -> str:
    """A job that updates a variable by each optimizer."""
    lines = [f'%grad = job.input "grad" : {type}']
    for name, (optimizer, _) in CASES.items():
        lines += [
            f'%{name} = job.variable "{name}" '
            f"init <normal, seed = {ord(name)}, mean = 0.0, std = 1.0> : {type}",
            f"job.update %{name} by %grad with <{optimizer}> : {type}",
        ]
    return "job.job @train placement <cpu, [0:0]> {\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize(("element", "error"), [("f32", 1e-6), ("f64", 1e-12)])
def test_optimizers_follow_their_formulas(element: str, error: float) -> None:
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    dtype = np.float32 if element == "f32" else np.float64
    type = f"tensor<{'x'.join(map(str, SHAPE))}x{element}>"
    with opened(job_of(type)) as session:
        begin = session.state()
        states = {name: {"w": begin[name].astype(np.float64)} for name in CASES}
        for t in range(1, STEPS + 1):
            gradient = random.normal(size=SHAPE).astype(dtype)
            session.run({"grad": gradient})
            for name, (_, step) in CASES.items():
                step(states[name], gradient.astype(np.float64), t)
        found = session.state()
    assert found["train/step"] == STEPS
    for name, (text, _) in CASES.items():
        optimizer = text.partition(",")[0]
        for state, wanted in states[name].items():
            key = name if state == "w" else f"{name}/{optimizer}/{state}"
            distance = np.abs(wide(found[key]) - wanted).max() / np.abs(wanted).max()
            assert distance <= error, f"{text}: {key} is {distance:.2g} off"


def test_norms_of_zero_leave_the_rate_as_it_is() -> None:
    """The first step is one of zeros, the second one by zeros."""
    random = np.random.default_rng(SEED)
    text = """
job.job @train placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<9xf64>
  %o = job.variable "o" init <zeros> : tensor<9xf64>
  job.update %o by %g with <lamb, rate = 0.1> : tensor<9xf64>
  %p = job.variable "p" init <zeros> : tensor<9xf64>
  job.update %p by %g with <lars, rate = 10, weight_decay = 0.01> : tensor<9xf64>
}"""
    states: dict[str, dict[str, Wide]] = {x: {"w": np.zeros(9)} for x in "op"}
    with opened(text) as session:
        for t, gradient in enumerate(random.normal(size=(3, 9)), 1):
            if t == 2:
                gradient[:] = 0
            session.run({"g": gradient})
            for name, state in states.items():
                CASES[name][1](state, gradient, t)
        found = session.state()
    for name, state in states.items():
        np.testing.assert_allclose(wide(found[name]), state["w"], 1e-12)


def rates(t: int) -> Mapping[str, float]:
    """The rates of the schedules below, by step."""
    late = max(t - 4, 0)
    warm = (t + 1) / 4
    return {
        "constant, base = 0.5": 0.5,
        "step, base = 1.0, every = 3, gamma = 0.5": 0.5 ** (t // 3),
        "multistep, base = 2.0, milestones = [3, 7]": 2.0
        * 0.1 ** ((t >= 3) + (t >= 7)),
        "exponential, base = 3.0, gamma = 0.9": 3.0 * 0.9**t,
        "cosine, base = 1.0, total = 12, minimum = 0.25": 0.25
        + 0.75 * (1 + cos(pi * min(t, 12) / 12)) / 2,
        "polynomial, base = 2.0, total = 10, power = 2.0": 2.0
        * (1 - min(t, 10) / 10) ** 2,
        "linear, base = 2.0, total = 6, start = 0.5": 2.0 * (0.5 + 0.5 * min(t, 6) / 6),
        "cosine, base = 1.0, total = 14, warmup = 4": warm
        if t < 4
        else (1 + cos(pi * min(late, 10) / 10)) / 2,
        "step, base = 1.0, every = 3, warmup = 4": warm
        if t < 4
        else 0.1 ** (late // 3),
        "multistep, base = 1.0, milestones = [7], warmup = 4": warm
        if t < 4
        else 0.1 ** (t >= 7),
    }


def test_schedules_follow_their_formulas() -> None:
    lines = ['%t = job.input "t" : tensor<i64>']
    for number, schedule in enumerate(rates(0)):
        lines += [
            f"%r{number} = job.schedule <{schedule}> at %t "
            ": tensor<i64> -> tensor<f64>",
            f'job.output "{number}", %r{number} : tensor<f64>',
        ]
    text = "job.job @rates placement <cpu, [0:0]> {\n" + "\n".join(lines) + "\n}"
    with opened(text) as session:
        for t in range(18):
            found = session.run({"t": np.array(t, np.int64)})
            for number, (schedule, wanted) in enumerate(rates(t).items()):
                rate = float(wide(found[str(number)]))
                assert abs(rate - wanted) <= 1e-14 * 4, (schedule, t, rate, wanted)


CLIPPED = """
!t = tensor<5x3xf32>
job.job @train placement <cpu, [0:0]> {
  %d = job.input "d" : !t
  %e = job.input "e" : tensor<4xf32>
  %scale = job.input "scale" : tensor<f32>
  %over = job.input "over" : tensor<i1>
  %step = job.variable "step" init <zeros> : tensor<i64>
  %rate = job.schedule <exponential, base = 1.0, gamma = 0.5> at %step
    : tensor<i64> -> tensor<f32>
  %a = job.variable "a" init <zeros> : !t
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %c = job.variable "c" init <zeros> : !t
  job.update %a by %d with <sgd, clip_norm = 2.0> rate %rate scale %scale skip %over
    : !t
  job.update %b by %e with <sgd, clip_norm = 2.0> rate %rate scale %scale skip %over
    : tensor<4xf32>
  job.update %c by %d with <sgd, clip_value = 0.25> rate %rate scale %scale skip %over
    : !t
}
"""


def test_gradients_are_unscaled_and_clipped_and_updates_skipped() -> None:
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    a, b, c = np.zeros((5, 3)), np.zeros(4), np.zeros((5, 3))
    t = 0
    with opened(CLIPPED) as session:
        for over, size in [(0, 1), (0, 1e-3), (1, np.inf), (0, 4), (1, 1), (0, 1)]:
            d, e = (size * random.normal(size=s) for s in ((5, 3), 4))
            feeds = {
                "d": (d * 1024).astype(np.float32),
                "e": (e * 1024).astype(np.float32),
                "scale": np.array(1024, np.float32),
                "over": np.array(bool(over)),
            }
            session.run(feeds)
            if not over:
                norm = np.sqrt((d**2).sum() + (e**2).sum())
                factor = min(1, 2.0 / (norm + 1e-6))
                a, b = a - 0.5**t * factor * d, b - 0.5**t * factor * e
                c = c - 0.5**t * np.clip(d, -0.25, 0.25)
                t += 1
            found = session.state()
            assert found["step"] == t
            for name, wanted in {"a": a, "b": b, "c": c}.items():
                np.testing.assert_allclose(wide(found[name]), wanted, 1e-5, 1e-6)


def test_floats_of_16_bits_are_computed_in_f32() -> None:
    text = """
job.job @train placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<64xf16>
  %w = job.variable "w" init <ones> : tensor<64xf16>
  job.update %w by %g with <adamw, rate = 0.01, eps = 1.0e-8> : tensor<64xf16>
}"""
    gradient = np.linspace(-0.02, 0.02, 64).astype(np.float16)
    state: dict[str, Wide] = {"w": np.ones(64)}
    adam(0.01, decay=0.01, apart=True)(state, gradient.astype(np.float64), 1)
    with opened(text) as session:
        session.run({"g": gradient})
        found = session.state()["w"].astype(np.float64)
    assert np.abs(found - state["w"]).max() <= 2.0**-11
