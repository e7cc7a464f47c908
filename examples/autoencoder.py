"""
An autoencoder of handwritten digits with an optimizer for each half: the encoder learns
by AdamW, the decoder by RMSprop, in one job with one loss.

    python examples/autoencoder.py [EPOCHS]
"""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np

import penstock
from penstock import Session, Tensor, data, ops, optim

EPOCHS = 30
CODE = 8
Images = Annotated[Tensor, (64, 64), "f32"]


def layer(x: Tensor, name: str, width: int) -> Tensor:
    """A matrix and a bias."""
    shape = x.shape[1], width
    w = penstock.variable(f"{name}/w", shape, init="xavier_uniform", seed=width)
    return x @ w + penstock.variable(f"{name}/bias", (width,))


def decoded(x: Tensor) -> Tensor:
    """The images, as 8 numbers each tell them."""
    code = layer(ops.tanh(layer(x, "encoder/1", 32)), "encoder/2", CODE)
    return layer(ops.tanh(layer(code, "decoder/1", 32)), "decoder/2", 64)


@penstock.job
def step(x: Images) -> Tensor:
    """Make a step; the mean squared error before it."""
    loss, gradients = penstock.value_and_grad(
        lambda: ops.squared_error(decoded(x), x)
    )()
    for part, optimizer in OPTIMIZERS.items():
        optimizer.update({k: v for k, v in gradients.items() if k.startswith(part)})
    return loss


OPTIMIZERS = {
    "encoder": optim.AdamW(3e-3, groups={"*bias": {"weight_decay": 0}}),
    "decoder": optim.RMSprop(1e-3),
}


def main(epochs: int = EPOCHS) -> float:
    """Train, print and return the mean error of the last epoch."""
    with np.load(Path(__file__).parent / "digits.npz") as arrays:
        images = arrays["image"].reshape(-1, 64) / np.float32(16)
    loader = data.Loader(data.arrays(x=images), 64, shuffle=True, seed=1, last="drop")
    losses: list[float] = []
    with Session():
        for batch in loader.epochs(epochs):
            losses.append(float(step(**batch)))
    before = float(images.var(axis=0).mean())
    error = float(np.mean(losses[-len(loader) :]))
    print(f"mean squared error {error:.4f}, that of the mean image is {before:.4f}")
    return error


if __name__ == "__main__":
    _ = main(*map(int, sys.argv[1:]))
