"""
Fine-tune an ONNX model: one that reads the digits 0 to 4 learns to read 5 to 9.

The first network is trained and written as an ONNX file, as any tool could have done.
Then its file is all that is used: first its last layer alone is trained for the other
digits, then all of it.

    python examples/finetune_onnx.py [FILE.onnx]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import onnx
from onnx import numpy_helper, parser

import penstock
from penstock import Session, Tensor, data, ops, optim

EPOCHS, BATCH, WIDTH = 20, 32, 48
Images = Annotated[Tensor, ("n", 64), "f32"]
Labels = Annotated[Tensor, ("n",), "i64"]

GRAPH = """<ir_version: 8, opset_import: ["" : 17]>
digits (float[n, 64] image) => (float[n, 5] scores) {
  sums = Gemm(image, hidden_w, hidden_b)
  hidden = Relu(sums)
  scores = Gemm(hidden, out_w, out_b)
}"""


def pictures(first):
    """Images of five digits from `first` on, and their labels from 0 on."""
    with np.load(Path(__file__).parent / "digits.npz") as arrays:
        image, label = arrays["image"], arrays["label"].astype(np.int64) - first
    chosen = (label >= 0) & (label < 5)
    image = (image[chosen].reshape(-1, 64) / 16).astype(np.float32)
    test = np.arange(len(image)) % 5 == 0
    return (image[~test], label[chosen][~test]), (image[test], label[chosen][test])


def network(x):
    """A perceptron of one hidden layer."""
    w = penstock.variable("hidden_w", (64, WIDTH), init="he_normal", seed=1)
    h = ops.relu(x @ w + penstock.variable("hidden_b", (WIDTH,)))
    out = penstock.variable("out_w", (WIDTH, 5), init="he_normal", seed=2)
    return h @ out + penstock.variable("out_b", (5,))


def fit(model, images, by, seed):
    """Train the variables of the current session that `by` names."""
    source = data.arrays(x=images[0], y=images[1])
    loader = data.Loader(source, BATCH, shuffle=True, seed=seed, last="drop")
    adam = optim.Adam(3e-3)

    @penstock.job
    def step(x: Images, y: Labels):
        loss, gradients = penstock.value_and_grad(
            lambda: ops.cross_entropy(model(x), y), by=by
        )()
        adam.update(gradients)
        return loss

    for _, batch in zip(range(EPOCHS * len(loader)), loader.epochs(), strict=False):
        step(**batch)


def share_right(model, images):
    """The share of images that are read right."""

    @penstock.job
    def classify(x: Images):
        return ops.arg_max(model(x), 1)[:, 0]

    return float((classify(images[0]) == images[1]).mean())


def train_and_write(path):
    """Train on the digits 0 to 4, write an ONNX file, and return the share right."""
    training, test = pictures(0)
    with Session() as session:
        fit(network, training, "*", seed=1)
        right = share_right(network, test)
        weights = session.read_variables()
    model = parser.parse_model(GRAPH)
    for name in ("hidden_w", "hidden_b", "out_w", "out_b"):
        model.graph.initializer.append(numpy_helper.from_array(weights[name], name))
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return right


def main(path):
    """Train, fine-tune, and return the shares right, with the weights of each."""
    print(f"digits 0 to 4: {train_and_write(path):.1%} of the test images are right")
    model = penstock.OnnxFunction(path)
    training, test = pictures(5)
    found = {}
    with Session() as session:
        for name, by in (("last layer", "out_*"), ("all layers", "*")):
            fit(model, training, by, seed=2)
            found[name] = share_right(model, test), session.read_variables()
            print(f"digits 5 to 9, {name}: {found[name][0]:.1%}")
    return found


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(*(sys.argv[1:] or [f"{folder}/digits.onnx"]))
