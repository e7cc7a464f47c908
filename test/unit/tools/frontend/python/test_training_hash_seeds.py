"""Training under other hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
from hashlib import sha256
from typing import Annotated

import numpy as np
import penstock
from penstock import Tensor, ops, optim

optimizer = optim.AdamW(0.1, weight_decay=0.1, groups={"scale*": {"weight_decay": 0}})

def loss_of(x, y):
    h = x
    for layer in range(3):
        w = penstock.variable(f"w{layer}", (40, 40), init="normal", seed=layer)
        scale = penstock.variable(f"scale{layer}", (40,), init="zeros")
        h = h + ops.gelu(ops.layer_norm(h @ w, scale + 1))
    return ops.cross_entropy(h, y)

@penstock.job
def step(x: Annotated[Tensor, (24, 40), "f32"], y: Annotated[Tensor, (24,), "i64"]):
    loss, gradients = penstock.value_and_grad(loss_of)(x, y)
    optimizer.update(gradients)
    return loss

random = np.random.default_rng(5)
x, y = random.normal(size=(24, 40)).astype(np.float32), random.integers(40, size=24)
with penstock.Session(threads=2) as session:
    session.add(step)
    losses = [float(step(x, y)) for _ in range(3)]
    for name, array in sorted(session.read_variables().items()):
        print(name, sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
print(losses)
"""


@pytest.mark.slow
def test_training_has_the_same_bits_under_any_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            timeout=300,
        ).stdout
        for seed in ("0", "77")
    }
    (text,) = outputs
    assert "scale2/adamw/m" in text
    losses = [float(x) for x in text.splitlines()[-1].strip("[]").split(",")]
    assert losses[0] > losses[1] > losses[2]
