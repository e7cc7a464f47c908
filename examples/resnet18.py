"""
Train a ResNet-18 from random weights on random images, beside PyTorch if it is there:

    python examples/resnet18.py [STEPS]

Variables have the names and shapes of torchvision's model, so that weights go from one
to the other. Losses differ by rounding alone.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any
from zlib import crc32

import numpy as np

import penstock
from penstock import Session, Tensor, ops, optim

BATCH, SIZE, CLASSES, RATE = 8, 64, 10, 1e-3
Images = Annotated[Tensor, (BATCH, 3, SIZE, SIZE), "f32"]
Labels = Annotated[Tensor, (BATCH,), "i64"]


def blocks(width: int = 64) -> Iterator[tuple[str, int, int, int]]:
    """The names of the eight blocks, with the channels they take and make, strides."""
    channels = width
    for layer in range(4):
        for number in range(2):
            made = width << layer
            stride = 2 if layer and not number else 1
            yield f"layer{layer + 1}.{number}", channels, made, stride
            channels = made


def shapes(width: int = 64, classes: int = CLASSES) -> dict[str, tuple[int, ...]]:
    """The shape of each variable by its name."""
    found: dict[str, tuple[int, ...]] = {}

    def add(convolution: str, norm: str, made: int, taken: int, taps: int) -> None:
        found[f"{convolution}.weight"] = made, taken, taps, taps
        found[f"{norm}.weight"] = found[f"{norm}.bias"] = (made,)

    add("conv1", "bn1", width, 3, 7)
    for name, taken, made, _ in blocks(width):
        add(f"{name}.conv1", f"{name}.bn1", made, taken, 3)
        add(f"{name}.conv2", f"{name}.bn2", made, made, 3)
        if taken != made:
            add(f"{name}.downsample.0", f"{name}.downsample.1", made, taken, 1)
    found["fc.weight"], found["fc.bias"] = (classes, width * 8), (classes,)
    return found


def normal(w: Mapping[str, Any], h: Any, name: str) -> Any:
    """Batch normalization as in training, by the statistics of the batch."""
    mean, variance = ops.batch_norm_statistics(h)
    return ops.batch_norm(h, w[f"{name}.weight"], w[f"{name}.bias"], mean, variance)


def scores(w: Mapping[str, Any], x: Any) -> Any:
    """A score of each class, for each image."""

    def convolved(h: Any, name: str, stride: int, pad: int) -> Any:
        filters = w[f"{name}.weight"]
        return ops.conv2d(h, filters, strides=[stride] * 2, pads=[pad] * 4)

    h = np.maximum(normal(w, convolved(x, "conv1", 2, 3), "bn1"), 0)
    h = ops.max_pool2d(h, kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, taken, made, stride in blocks(w["conv1.weight"].shape[0]):
        y = normal(w, convolved(h, f"{name}.conv1", stride, 1), f"{name}.bn1")
        y = convolved(np.maximum(y, 0), f"{name}.conv2", 1, 1)
        y = normal(w, y, f"{name}.bn2")
        if taken != made:
            h = convolved(h, f"{name}.downsample.0", stride, 0)
            h = normal(w, h, f"{name}.downsample.1")
        h = np.maximum(y + h, 0)
    h = ops.global_average_pool(h).reshape(h.shape[0], -1)
    return h @ np.transpose(w["fc.weight"], (1, 0)) + w["fc.bias"]


def torch_scores(w: Mapping[str, Any], x: Any) -> Any:
    """The same in PyTorch."""
    torch: Any = import_module("torch")
    f: Any = torch.nn.functional

    def normal(h: Any, name: str) -> Any:
        factors = w[f"{name}.weight"], w[f"{name}.bias"]
        return f.batch_norm(h, None, None, *factors, training=True)

    h = f.conv2d(x, w["conv1.weight"], stride=2, padding=3)
    h = f.max_pool2d(torch.relu(normal(h, "bn1")), 3, 2, 1)
    for name, taken, made, stride in blocks(len(w["conv1.weight"])):
        y = f.conv2d(h, w[f"{name}.conv1.weight"], stride=stride, padding=1)
        y = torch.relu(normal(y, f"{name}.bn1"))
        y = f.conv2d(y, w[f"{name}.conv2.weight"], padding=1)
        if taken != made:
            h = f.conv2d(h, w[f"{name}.downsample.0.weight"], stride=stride)
            h = normal(h, f"{name}.downsample.1")
        h = torch.relu(normal(y, f"{name}.bn2") + h)
    return h.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]


@penstock.job
def step(x: Images, y: Labels) -> Tensor:
    """A step of gradient descent with momentum; the loss before it."""
    w = {name: variable(name, shape) for name, shape in shapes().items()}
    loss, gradients = penstock.value_and_grad(
        lambda: ops.cross_entropy(scores(w, x), y)
    )()
    optim.Momentum(RATE).update(gradients)
    return loss


def variable(name: str, shape: tuple[int, ...]) -> Tensor:
    """A variable of the model: filters are random, factors of norms one."""
    if len(shape) > 1:
        return penstock.variable(
            name, shape, init="he_normal", seed=crc32(name.encode())
        )
    init = "ones" if name.endswith("weight") else "zeros"
    return penstock.variable(name, shape, init=init)


def torch_step(start: Mapping[str, Any]) -> Callable[[Any, Any], float]:
    """The step in PyTorch, from the same weights."""
    torch: Any = import_module("torch")

    w = {name: torch.tensor(value, requires_grad=True) for name, value in start.items()}
    optimizer = torch.optim.SGD(w.values(), lr=RATE, momentum=0.9)

    def run(x: Any, y: Any) -> float:
        scores = torch_scores(w, torch.tensor(x))
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def main(steps: int = 10) -> list[float]:
    """Train for some steps; print the losses, beside PyTorch's, and return ours."""
    random = np.random.default_rng(18)
    images = random.normal(size=(BATCH, 3, SIZE, SIZE)).astype(np.float32)
    labels = random.integers(CLASSES, size=BATCH)
    losses: list[float] = []
    with Session() as session:
        session.add(step)
        start = session.read_variables()
        try:
            theirs = torch_step({name: np.array(start[name]) for name in shapes()})
        except ImportError:
            theirs = None
        for number in range(steps):
            losses.append(float(step(images, labels)))
            beside = f", PyTorch's {theirs(images, labels):.6f}" if theirs else ""
            print(f"step {number}: loss {losses[-1]:.6f}{beside}")
    return losses


if __name__ == "__main__":
    _ = main(*map(int, sys.argv[1:]))
