"""
Train a small convolutional network on scikit-learn's handwritten digits, the 1797
images of `digits.npz`, each 8x8 with levels from 0 to 16:

    python examples/train_digits_cnn.py [EPOCHS]

It is tested with every fifth image, which it is not trained on.
"""

import sys
from pathlib import Path
from typing import Annotated
from zlib import crc32

import numpy as np
import numpy.typing as npt

import penstock
from penstock import Session, Tensor, data, ops, optim

EPOCHS = 30
BATCH = 64
Images = Annotated[Tensor, ("n", 1, 8, 8), "f32"]
Labels = Annotated[Tensor, ("n",), "i64"]


def weights(name: str, *shape: int) -> Tensor:
    """A variable that starts from random numbers."""
    return penstock.variable(name, shape, init="he_normal", seed=crc32(name.encode()))


def convolved(x: Tensor, name: str, channels: int) -> Tensor:
    """A convolution of 3x3 taps, with a bias and a rectifier."""
    w = weights(f"{name}/w", channels, x.shape[1], 3, 3)
    bias = penstock.variable(f"{name}/bias", (channels,))
    return ops.relu(ops.conv2d(x, w, bias, pads=(1, 1, 1, 1)))


def scores(x: Tensor) -> Tensor:
    """A score of each digit, for each image."""
    x = convolved(x, "conv1", 16)
    x = convolved(x, "conv2", 32)
    x = ops.max_pool2d(x, (2, 2), strides=(2, 2))
    x = convolved(x, "conv3", 64)
    x = ops.max_pool2d(x, (2, 2), strides=(2, 2)).reshape(x.shape[0], -1)
    return x @ weights("out/w", x.shape[1], 10) + penstock.variable("out/bias", (10,))


def train(images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], epochs: int):
    """Train the variables of the current session."""
    source = data.arrays(x=images, y=labels)
    loader = data.Loader(source, BATCH, shuffle=True, seed=1, last="drop")
    steps = epochs * len(loader)
    rate = optim.cosine(3e-3, total=steps, warmup=min(20, steps // 4))
    adamw = optim.AdamW(rate, weight_decay=0.05, groups={"*bias": {"weight_decay": 0}})

    @penstock.job
    def step(x: Images, y: Labels) -> Tensor:
        loss, gradients = penstock.value_and_grad(
            lambda: ops.cross_entropy(scores(x), y, smoothing=0.1)
        )()
        adamw.update(gradients)
        return loss

    shown = data.progress(loader, epochs)
    for batch in shown:
        shown.show(loss=step(**batch))


@penstock.job
def classify(x: Images) -> Tensor:
    """The digit with the highest score, for each image."""
    return ops.arg_max(scores(x), 1)[:, 0]


def main(epochs: int = EPOCHS) -> float:
    """Train, print and return the share of test images that are read right."""
    with np.load(Path(__file__).parent / "digits.npz") as arrays:
        images = (arrays["image"][:, None] / 16).astype(np.float32)
        labels = arrays["label"].astype(np.int64)
    test = np.arange(len(images)) % 5 == 0
    with Session():
        train(images[~test], labels[~test], epochs)
        right = float((classify(images[test]) == labels[test]).mean())
    print(f"{right:.2%} of {test.sum()} test images are right")
    return right


if __name__ == "__main__":
    _ = main(*map(int, sys.argv[1:]))
