"""
The dynamic scale of a loss whose gradients are computed in `f16`, against its rule in
NumPy in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from optimizer_formulas import State, Wide, adam, sgd

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Arrays: TypeAlias = dict[str, NDArray[np.generic]]

STEPS = 20
SEED = 20261127
AMP = "set job-cast-amp.type=f16"
OWN = "train/loss_scale", "train/good_steps"
"""The variables of the scale."""
LARGEST = float(np.finfo(np.float32).max)


def opened(text: str, edits: Sequence[str] = ()) -> Session:
    """A session of a job's text."""
    compiler = installed_compiler()
    module = compiler[0].parse(text.encode(), "scale.mlir")
    compiler[0].verify(module)
    model = Model(module, {}, Path())
    if not edits:
        return Session(model, compiler=compiler)
    return Session(model, edits=edits)


# Gradients are those inputs: none is computed in f16, so that they are known exactly.
GIVEN = """
job.job @train placement <cpu, [0:0]> {
  %c = job.input "c" : tensor<4x3xf32>
  %d = job.input "d" : tensor<5xf32>
  %w = job.variable "w" init <normal, seed = 1, mean = 0.0, std = 1.0> : tensor<4x3xf32>
  %b = job.variable "b" init <normal, seed = 2, mean = 0.0, std = 1.0> : tensor<5xf32>
  %p = op.mul %w, %c : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  %q = op.mul %b, %d : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
  %s = op.reduce_sum %p axes [0, 1] : tensor<4x3xf32> -> tensor<f32>
  %t = op.reduce_sum %q axes [0] : tensor<5xf32> -> tensor<f32>
  %loss = op.add %s, %t : tensor<f32>, tensor<f32> -> tensor<f32>
  %g, %h = job.gradients of %loss by %w, %b
    : tensor<f32>, tensor<4x3xf32>, tensor<5xf32>
  job.update %w by %g with <adamw, rate = 0.1, clip_norm = 1.0> : tensor<4x3xf32>
  job.update %b by %h with <sgd, rate = 0.1, clip_norm = 1.0> : tensor<5xf32>
  job.output "g", %g : tensor<4x3xf32>
}
"""
HUGE = {4: 1e37, 5: 1e36, 13: np.inf, 17: np.nan}
"""An element at some steps; the first two overflow by the scale alone."""

GREAT = {9: 1e17}
"""Another element: its square overflows, but not its product with the scale."""


def clipped(gradients: Sequence[Wide]) -> list[Wide]:
    """Gradients, cut to a norm of 1 together."""
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    return [g * min(1.0, 1 / (norm + 1e-6)) for g in gradients]


def test_the_scale_follows_its_rule_and_skipped_steps_change_no_bit() -> None:
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    edits = [AMP, "set job-cast-amp.interval=3", "set job-cast-amp.growth=4"]
    scale, good, updates = 65536.0, 0, 0
    steps = adam(0.1, decay=0.01, apart=True), sgd(0.1)
    with opened(GIVEN, edits) as session:
        before = session.state()
        assert (before[OWN[0]], before[OWN[1]]) == (scale, good)
        states: list[State] = [{"w": before[x].astype(np.float64)} for x in ("w", "b")]
        for t in range(STEPS):
            c = random.normal(size=(4, 3)).astype(np.float32)
            d = random.normal(size=5).astype(np.float32)
            if t in HUGE:
                (c if t % 2 else d).flat[t % 5] = HUGE[t]
            c.flat[0] = GREAT.get(t, c.flat[0])
            found = session.run({"c": c, "d": d})
            wide = [c.astype(np.float64), d.astype(np.float64)]
            after = session.state()
            with np.errstate(invalid="ignore"):
                is_good = all((np.abs(g * scale) <= LARGEST).all() for g in wide)
            assert is_good == (t not in HUGE)
            if is_good:
                updates, good = updates + 1, good + 1
                for state, step, g in zip(states, steps, clipped(wide), strict=True):
                    step(state, g, updates)
                if good == 3:
                    scale, good = scale * 4, 0
                np.testing.assert_allclose(found["g"].astype(np.float64), wide[0], 1e-6)
            else:
                scale, good = scale / 2, 0
                for name in before.keys() - {*OWN}:
                    assert after[name].tobytes() == before[name].tobytes(), name
            assert (after[OWN[0]], after[OWN[1]]) == (scale, good), t
            assert after["train/step"] == updates
            for name, state in zip(("w", "b"), states, strict=True):
                np.testing.assert_allclose(
                    after[name].astype(np.float64), state["w"], 1e-5, 1e-6
                )
            before = after
    assert updates == STEPS - len(HUGE)


def test_a_run_goes_on_from_its_state_with_the_same_bits() -> None:
    random = np.random.default_rng(SEED)
    feeds: list[Arrays] = []
    for t in range(10):
        c = random.normal(size=(4, 3)).astype(np.float32)
        c.flat[0] = HUGE.get(t, 1)
        feeds.append({"c": c, "d": random.normal(size=5).astype(np.float32)})
    edits = [AMP, "set job-cast-amp.interval=2"]
    with opened(GIVEN, edits) as session:
        for each in feeds[:6]:
            session.run(each)
        kept = session.state()
        for each in feeds[6:]:
            session.run(each)
        wanted = session.state()
    assert kept[OWN[0]] == 65536.0
    with opened(GIVEN, edits) as session:
        session.load_state(kept)
        for each in feeds[6:]:
            session.run(each)
        found = session.state()
    assert {x: a.tobytes() for x, a in found.items()} == {
        x: a.tobytes() for x, a in wanted.items()
    }


def perceptron(share: str) -> str:
    """A job that trains two layers by a small part of a loss."""
    return f"""
job.job @train placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<32x8xf32>
  %y = job.input "y" : tensor<32x4xf32>
  %v = job.variable "v" init <normal, seed = 1, mean = 0.0, std = 0.3>
    : tensor<8x16xf32>
  %w = job.variable "w" init <normal, seed = 2, mean = 0.0, std = 0.3>
    : tensor<16x4xf32>
  %h = op.matmul %x, %v : tensor<32x8xf32>, tensor<8x16xf32> -> tensor<32x16xf32>
  %r = op.tanh %h : tensor<32x16xf32> -> tensor<32x16xf32>
  %p = op.matmul %r, %w : tensor<32x16xf32>, tensor<16x4xf32> -> tensor<32x4xf32>
  %d = op.sub %p, %y : tensor<32x4xf32>, tensor<32x4xf32> -> tensor<32x4xf32>
  %q = op.mul %d, %d : tensor<32x4xf32>, tensor<32x4xf32> -> tensor<32x4xf32>
  %m = op.reduce_mean %q axes [0, 1] : tensor<32x4xf32> -> tensor<f32>
  %share = op.constant dense<{share}> : tensor<f32>
  %loss = op.mul %m, %share : tensor<f32>, tensor<f32> -> tensor<f32>
  %g, %k = job.gradients of %loss by %v, %w
    : tensor<f32>, tensor<8x16xf32>, tensor<16x4xf32>
  job.update %v by %g with <adam, rate = 0.01, eps = 1.0e-16> : tensor<8x16xf32>
  job.update %w by %k with <adam, rate = 0.01, eps = 1.0e-16> : tensor<16x4xf32>
  job.output "loss", %m : tensor<f32>
}}
"""


def losses(text: str, edits: Sequence[str]) -> tuple[Wide, Arrays]:
    """The losses of some steps, and the variables at the end."""
    random = np.random.default_rng(SEED)
    found: list[float] = []
    with opened(text, edits) as session:
        for _ in range(STEPS):
            x = random.normal(size=(32, 8)).astype(np.float32)
            y = np.sin(x[:, :4] + x[:, 4:])
            found.append(float(session.run({"x": x, "y": y})["loss"].astype(float)))
        return np.array(found), session.state()


@pytest.mark.slow
def test_training_in_f16_follows_that_in_f32() -> None:
    # Parts of the gradients are about 1e-9, which f16 does not have.
    text = perceptron("1.0e-6")
    wanted, _ = losses(text, [])
    found, state = losses(text, [AMP])
    distance = np.abs(found - wanted).max() / wanted.max()
    print(f"seed {SEED}: {distance:.2g}")
    assert state["train/good_steps"] == STEPS
    assert distance <= 4 * 2.0**-10
    unscaled, _ = losses(text, [AMP, "set job-cast-amp.loss-scale=1"])
    assert np.abs(unscaled - wanted).max() / wanted.max() > 16 * 2.0**-10


@pytest.mark.slow
def test_gradients_that_overflow_f16_shrink_the_scale_until_they_do_not() -> None:
    text = perceptron("1.0e3")
    wanted, _ = losses(text, [])
    found, state = losses(text, [AMP])
    scale, good = (float(state[name].astype(float)) for name in OWN)
    skipped = STEPS - int(good)
    assert (scale, state["train/step"]) == (65536.0 / 2**skipped, good)
    assert 0 < skipped < STEPS // 2
    assert found[-1] < wanted[0]


@pytest.mark.slow
def test_one_bad_micro_batch_skips_the_update_of_all() -> None:
    random = np.random.default_rng(SEED)
    edits = [AMP, "set job-accumulate.count=2"]
    with opened(GIVEN, edits) as session:
        before = session.state()
        states: list[State] = [{"w": before[x].astype(np.float64)} for x in ("w", "b")]
        steps = adam(0.1, decay=0.01, apart=True), sgd(0.1)
        for t, bad in enumerate([False, True, False]):
            c = random.normal(size=(2, 4, 3)).astype(np.float32)
            d = random.normal(size=(2, 5)).astype(np.float32)
            if bad:
                c[1, 2, 2] = 1e37
            session.run({"c": c, "d": d})
            after = session.state()
            assert after[OWN[0]] == 65536.0 / (1 + (t > 0))
            if bad:
                for name in before.keys() - {*OWN}:
                    assert after[name].tobytes() == before[name].tobytes(), name
            else:
                means = clipped([x.astype(np.float64).mean(0) for x in (c, d)])
                for state, step, g in zip(states, steps, means, strict=True):
                    step(state, g, int(after["train/step"].astype(int)))
            for name, state in zip(("w", "b"), states, strict=True):
                np.testing.assert_allclose(
                    after[name].astype(np.float64), state["w"], 1e-5, 1e-6
                )
            before = after
        assert before["train/step"] == 2


@pytest.mark.parametrize("limit", ["grows", "shrinks"])
def test_the_scale_stays_a_number_that_divides(limit: str) -> None:
    start = 2.0**126 if limit == "grows" else 2.0**-125
    edits = [AMP, "set job-cast-amp.interval=1", f"set job-cast-amp.loss-scale={start}"]
    tiny = np.full((4, 3), 2.0**-20, np.float32)
    with opened(GIVEN, edits) as session:
        found: list[float] = []
        for _ in range(3):
            c = tiny if limit == "grows" else tiny * np.float32(np.nan)
            session.run({"c": c, "d": np.full(5, 2.0**-20, np.float32)})
            found.append(float(session.state()[OWN[0]].astype(float)))
    ends = 2.0**127 if limit == "grows" else 2.0**-126
    assert found == [ends] * 3
