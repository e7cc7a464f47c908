"""
Training on several devices of one process, in parts and in micro-batches, against one
device and NumPy in f64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh

from penstock.dialects.job import VariableOp
from penstock.dialects.op.multirate import AccOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.utils.tensors import byte_count, tensor_type
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import read_model
from penstock.tools.session.session import Session

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

BATCH, WIDTHS, STEPS = 8, (8, 16, 4), 3
RATE, DECAY = 0.05, 0.1

MODEL = """
!x = tensor<{batch}x8x{float}>
!h = tensor<{batch}x16x{float}>
!y = tensor<{batch}x4x{float}>
!w1 = tensor<8x16x{float}>
!b1 = tensor<16x{float}>
!w2 = tensor<16x4x{float}>
!loss = tensor<{float}>
job.job @step placement <cpu, [{devices}]{mesh}> {{
  %x = job.input "x" : !x
  %y = job.input "y" : !y
  %w1 = job.variable "w1" init <xavier_uniform, seed = 1> {first} : !w1
  %b1 = job.variable "b1" init <normal, seed = 2> {first} : !b1
  %w2 = job.variable "w2" init <xavier_uniform, seed = 3> {second} : !w2
  %p1 = op.matmul %x, %w1 {first} : !x, !w1 -> !h
  %s1 = op.add %p1, %b1 {first} : !h, !b1 -> !h
  %h = op.tanh %s1 {buffer} : !h -> !h
  %p2 = op.matmul %h, %w2 {second} : !h, !w2 -> !y
  %d = op.sub %p2, %y {second} : !y, !y -> !y
  %q = op.mul %d, %d {second} : !y, !y -> !y
  %loss = op.reduce_mean %q axes [0, 1] {second} : !y -> !loss
  %g1, %gb, %g2 = job.gradients of %loss by %w1, %b1, %w2 : !loss, !w1, !b1, !w2
  job.update %w1 by %g1 with <adamw, rate = 0.05, weight_decay = 0.1> : !w1
  job.update %b1 by %gb with <momentum, rate = 0.05, weight_decay = 0.1> : !b1
  job.update %w2 by %g2 with <adamw, rate = 0.05, weight_decay = 0.1> : !w2
  job.output "loss", %loss : !loss
}}
"""


def text_of(
    devices: str = "0:0",
    mesh: str = "",
    *,
    pieces: int = 1,
    float: str = "f64",
    stages: tuple[str, str] = ("", ""),
    slots: int = 1,
) -> str:
    """
    The job of a step, whose two layers may be placed elsewhere each, with a buffer of
    so many slots between them.
    """
    places = [f"placement = #job.placement<cpu, [{at}]>" if at else "" for at in stages]
    first, second = (f"{{{place}}}" if place else "" for place in places)
    buffer = ", ".join(filter(None, [places[0], f"slots = {slots}" * (slots > 1)]))
    return MODEL.format(
        buffer=f"{{{buffer}}}" if buffer else "",
        batch=BATCH // pieces,
        devices=devices,
        mesh=mesh,
        float=float,
        first=first,
        second=second,
    )


def batches(pieces: int, dtype: type) -> list[Arrays]:
    """The inputs of each step; several pieces have an extent in front."""
    random = np.random.default_rng(7)
    made: list[Arrays] = []
    shape = (pieces, BATCH // pieces) if pieces > 1 else (BATCH,)
    for _ in range(STEPS):
        x, y = (random.normal(size=(*shape, width)) for width in (8, 4))
        made.append({"x": np.asarray(x, dtype), "y": np.asarray(y, dtype)})
    return made


LEAST = ("set job-shard-states.least=1",)


def trained(text: str, path: Path, pipeline: str, pieces: int) -> tuple[Arrays, Arrays]:
    """The variables before all steps on kernels, and behind them with the losses."""
    path.write_text(text, encoding="utf-8")
    dtype = np.float64 if "f64" in text else np.float32
    with Session.open(path, pipeline=pipeline, edits=LEAST) as session:
        begin = {key: np.array(value) for key, value in session.state().items()}
        made: list[Array] = [
            np.asarray(session.run(batch)["loss"], np.float64)
            for batch in batches(pieces, dtype)
        ]
        end = {key: np.array(value) for key, value in session.state().items()}
    losses: Array = np.array(made).reshape(STEPS, -1).mean(1)
    return begin, {**end, "losses": losses}


def in_numpy(state: Arrays) -> Arrays:
    """The same of formulas, from the variables before the first step on."""
    w1, b1, w2 = (state[name].astype(np.float64) for name in ("w1", "b1", "w2"))
    m1, v1, m2, v2, buffer = (np.zeros_like(z) for z in (w1, w1, w2, w2, b1))
    losses: list[float] = []
    for t, batch in enumerate(batches(1, np.float64), 1):
        x, y = batch["x"], batch["y"]
        h = np.tanh(x @ w1 + b1)
        d = h @ w2 - y
        losses.append((d * d).mean())
        dp = 2 * d / d.size
        ds = (dp @ w2.T) * (1 - h * h)
        for w, m, v, g in ((w1, m1, v1, x.T @ ds), (w2, m2, v2, h.T @ dp)):
            w *= 1 - RATE * DECAY
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            ratio = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            w -= RATE * ratio
        g = ds.sum(0) + DECAY * b1
        buffer[:] = g if t == 1 else 0.9 * buffer + g
        b1 -= RATE * buffer
    return {
        "w1": w1,
        "w1/adamw/m": m1,
        "w1/adamw/v": v1,
        "b1": b1,
        "b1/momentum/buffer": buffer,
        "w2": w2,
        "w2/adamw/m": m2,
        "w2/adamw/v": v2,
        "losses": np.array(losses),
    }


CASES = {
    "accumulated": (text_of(pieces=4), "cpu{accumulate=4}", 4),
    "whole": (text_of("0:0-1", pieces=2), "cpu{accumulate=2}", 2),
    "states": (text_of("0:0-1"), "cpu{shard-states=1}", 1),
    "gradients": (
        text_of("0:0-1", pieces=2),
        "cpu{shard-states=2 accumulate=2}",
        2,
    ),
    "variables": (
        text_of("0:0-1", pieces=2),
        "cpu{shard-states=3 accumulate=2}",
        2,
    ),
    "mesh": (text_of("0:0-3", ", hierarchy = [2, 2]"), "cpu{shard-states=3}", 1),
    "pipeline": (
        text_of(pieces=4, stages=("0:0", "0:1"), slots=2),
        "cpu{accumulate=4 threads=2}",
        4,
    ),
    "f32": (
        text_of("0:0-1", pieces=2, float="f32"),
        "cpu{shard-states=3 accumulate=2}",
        2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_numpy(tmp_path: Path, name: str) -> None:
    text, pipeline, pieces = CASES[name]
    begin, found = trained(text, tmp_path / "step.mlir", pipeline, pieces)
    assert found["step/step"] == STEPS
    for key, wanted in in_numpy(begin).items():
        error = np.abs(found[key] - wanted).max() / np.abs(wanted).max()
        assert error <= (1e-6 if name == "f32" else 1e-13), (key, error)


W1, B1, W2 = 8 * 16, 16, 16 * 4
WEIGHTS, STATES = W1 + B1 + W2, 2 * W1 + B1 + 2 * W2
"""The elements of the model: AdamW keeps two a weight, momentum one."""


@pytest.mark.parametrize(
    ("stage", "kept", "summed"),
    [
        (0, WEIGHTS + STATES, WEIGHTS),
        (1, WEIGHTS + STATES / 4, WEIGHTS),
        (2, WEIGHTS + STATES / 4, WEIGHTS / 4),
        (3, (WEIGHTS + STATES) / 4, WEIGHTS / 4),
    ],
)
def test_devices_keep_their_share(
    tmp_path: Path, stage: int, kept: float, summed: float
) -> None:
    path = tmp_path / "step.mlir"
    path.write_text(text_of("0:0-3"))
    pipeline = f"cpu{{shard-states={stage} accumulate=2}}"
    path.write_text(Session.lower(path, "plan", pipeline=pipeline, edits=LEAST))
    module = read_model(installed_compiler()[0], path).module
    variables: dict[int, float] = dict.fromkeys(range(4), 0)
    sums: dict[int, float] = dict.fromkeys(range(4), 0)
    for task in module.walk():
        if not isinstance(task, TaskOp):
            continue
        for op in task.body.block.ops:
            if isinstance(op, VariableOp | AccOp):
                of = variables if isinstance(op, VariableOp) else sums
                size = byte_count(tensor_type(op.result))
                of[task.device.index.data] += size / 8
    # Each device has the number of the step besides.
    assert variables == dict.fromkeys(range(4), kept + 1)
    assert sums == dict.fromkeys(range(4), summed)


TABLE = """
!i = tensor<{batch}xi64>
!r = tensor<{batch}x3xf64>
!w = tensor<30x3xf64>
job.job @step placement <cpu, [{devices}]> {{
  %i = job.input "x" : !i
  %d = job.input "y" : !r
  %w = job.variable "w" init <normal, seed = 1, mean = 0.0, std = 1.0> : !w
  %r = op.gather %w[%i] axis 0 : !w, !i -> !r
  %s = op.gather %w[%i] axis 0 : !w, !i -> !r
  %q = op.mul %r, %s : !r, !r -> !r
  %p = op.mul %q, %d : !r, !r -> !r
  %loss = op.reduce_mean %p axes [0, 1] : !r -> tensor<f64>
  %g = job.gradients of %loss by %w : tensor<f64>, !w
  job.update %w by %g with <sparse_adam, rate = 0.1, clip_norm = 0.01> : !w
  job.output "loss", %loss : tensor<f64>
}}
"""


def rows_in_numpy(w: Array, batches: list[tuple[Array, Array]]) -> Arrays:
    """SparseAdam of the rows that each batch reads."""
    w, m, v = w.copy(), np.zeros_like(w), np.zeros_like(w)
    for t, (indices, factors) in enumerate(batches, 1):
        g = np.zeros_like(w)
        np.add.at(g, indices, 2 * w[indices] * factors / factors.size)
        g *= min(1, 0.01 / (np.linalg.norm(g) + 1e-6))
        rows = np.unique(indices % len(w))
        m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
        v[rows] = 0.999 * v[rows] + 0.001 * g[rows] ** 2
        size = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        w[rows] -= size * m[rows] / (np.sqrt(v[rows]) + 1e-8)
    return {"w": w, "w/sparse_adam/m": m, "w/sparse_adam/v": v}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "pipeline"),
    [("0:0", "cpu{accumulate=2}"), ("0:0-1", "cpu{accumulate=2 shard-states=2}")],
)
def test_rows_of_a_table_are_those_of_numpy(
    tmp_path: Path, devices: str, pipeline: str
) -> None:
    """With rows of two gathers and two pieces, some twice and some from the end."""
    path = tmp_path / "step.mlir"
    path.write_text(TABLE.format(batch=4, devices=devices), encoding="utf-8")
    random = fresh()
    batches = [
        (random.integers(-4, 4, 8), random.normal(size=(8, 3))) for _ in range(STEPS)
    ]
    with Session.open(path, pipeline=pipeline, edits=LEAST) as session:
        begin = np.array(session.state()["w"])
        for x, y in batches:
            session.run({"x": x.reshape(2, 4), "y": y.reshape(2, 4, 3)})
        found = session.state()
    for name, wanted in rows_in_numpy(begin, batches).items():
        ours = np.asarray(found[name], np.float64)
        np.testing.assert_allclose(ours, wanted, 1e-12, 1e-14)
