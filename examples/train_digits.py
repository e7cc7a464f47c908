"""
Train the network of `digits.mlir` on scikit-learn's handwritten digits and write

    digits-weights.npz   w1 [64, 32], b1 [32], w2 [32, 10], b2 [10], float32
    digits-test.npz      x [180, 64]: images that were not trained on, pixels in 0..1
    digits-labels.npz    label [180]: which digit each of them shows

Run it in this folder; the files it wrote are part of the repository.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HIDDEN = 32
TEST_IMAGES = 180


def main() -> None:
    """Train, print the accuracy on the test images, and write the files."""
    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data / 16.0,
        digits.target,
        test_size=TEST_IMAGES,
        random_state=0,
        stratify=digits.target,
    )
    network = MLPClassifier((HIDDEN,), max_iter=400, alpha=1e-3, random_state=0)
    network.fit(train_x, train_y)
    print(f"test accuracy {network.score(test_x, test_y):.3f}")

    folder = Path(__file__).parent
    (w1, w2), (b1, b2) = network.coefs_, network.intercepts_
    weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    np.savez(
        folder / "digits-weights.npz",
        **{name: array.astype(np.float32) for name, array in weights.items()},
    )
    np.savez(folder / "digits-test.npz", x=test_x.astype(np.float32))
    np.savez(folder / "digits-labels.npz", label=test_y.astype(np.int64))


if __name__ == "__main__":
    main()
