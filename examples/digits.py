"""
The network of `digits.mlir` as a function in Python, on images that it was not trained
on:

    python examples/digits.py
"""

from pathlib import Path
from typing import Annotated

import numpy as np

import penstock
from penstock import Tensor

EXAMPLES = Path(__file__).parent
WEIGHTS = np.load(EXAMPLES / "digits-weights.npz")


@penstock.job
def probabilities(images: Annotated[Tensor, ("images", 64), "f32"]) -> Tensor:
    """The probability of each digit, for each image."""
    hidden = np.maximum(images @ weights("w1") + weights("b1"), 0)
    return penstock.ops.softmax(hidden @ weights("w2") + weights("b2"))


def weights(name: str) -> Tensor:
    """A variable that starts from what was learnt."""
    return penstock.variable(name, init=WEIGHTS[name])


def main() -> None:
    """Classify all images, then the first ones alone."""
    images = np.load(EXAMPLES / "digits-test.npz")["x"]
    labels = np.load(EXAMPLES / "digits-labels.npz")["label"]
    found = np.argmax(probabilities(images), axis=1)
    right = int(np.sum(found == labels))
    print(f"{right} of {len(labels)} digits are right")
    print("first:", *np.argmax(probabilities(images[:8]), axis=1))


if __name__ == "__main__":
    main()
