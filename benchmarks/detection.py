"""
Detection as exporters write it: separable convolutions, boxes around anchors, the best
of each class, all classes in one suppression, and those that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Opener, Run, race
from benchmarks.recurrent import model_of
from benchmarks.report import Section
from benchmarks.sessions import imported_model, runtime_session
from benchmarks.speed import flops_of, race_section

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from penstock.runtime.loading.initializers import Array

TEXT = """\
Milliseconds of two images (the median and the extremes of all rounds) and the ratio of
the peer's time to ours: above 1, we are faster. A detector like SSDLite: separable
convolutions, scores and boxes of anchors on three grids, of each class the boxes above
a threshold and the best 100 of these, suppression of all classes at once, the best 100
of what stays. How many there are follows from data, and differs from image to image;
each contender compiles once. The target is 0.8."""


@dataclass(frozen=True)
class Detector:
    """The sizes of a detector."""

    side: int
    """Pixels; the grids have a sixteenth of it, and half of that, twice."""
    channels: int
    classes: int
    """Without the background."""
    blocks: int = 2
    """Separable convolutions at each extent of an image."""
    anchors: int = 6
    best: int = 100
    least: float = 0.06


CASES: Mapping[str, Detector] = {
    "SSDLite, 320 pixels, 20 classes": Detector(320, 16, 20)
}


@dataclass
class Writer:
    """The nodes and weights of a model."""

    seed: int
    nodes: list[NodeProto] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)

    def node(self, op: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or of each of several."""
        from onnx import helper

        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, [*inputs], names, **attributes))
        return names[0] if count == 1 else names

    def known(self, value: Any, dtype: str = "int64") -> str:
        """Add an array of no name of its own."""
        import numpy as np

        name = f"known_{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def normal(self, *shape: int) -> str:
        """Add normal numbers that keep the size of what passes through."""
        import numpy as np

        random = np.random.default_rng([self.seed, len(self.weights)])
        spread = (2 / prod(shape[1:])) ** 0.5
        return self.known(random.normal(0, spread, shape), "float32")


def detector(sizes: Detector, seed: int = 2026) -> ModelProto:
    """The model of a detector."""
    from onnx import TensorProto, helper

    w = Writer(seed)
    boxes, scores = heads(w, sizes, grids(w, sizes))
    kept = suppressed(w, sizes, *best_of_classes(w, sizes, boxes, scores))
    for name, value in zip(("boxes", "scores", "labels"), kept, strict=True):
        w.nodes.append(helper.make_node("Identity", [value], [name]))
    kinds = TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64
    shapes = [None, 4], [None], [None]
    outputs = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in zip(
            ("boxes", "scores", "labels"), kinds, shapes, strict=True
        )
    ]
    return model_of(w.nodes, {"image": image(sizes, 0)}, w.weights, outputs)


def image(sizes: Detector, number: int) -> Array:
    """One of several random images."""
    import numpy as np

    random = np.random.default_rng([2026, number])
    shape = 1, 3, sizes.side, sizes.side
    return random.normal(0, 1 + number, shape).astype(np.float32)


def relu6(w: Writer, value: str) -> str:
    """Elements between 0 and 6."""
    return w.node("Clip", value, w.known(0, "float32"), w.known(6, "float32"))


def separable(w: Writer, value: str, inner: int, outer: int, stride: int = 1) -> str:
    """A convolution of each channel apart, and one of all at each pixel."""
    pads = [1, 1, 1, 1]
    each = w.node(
        "Conv",
        value,
        w.normal(inner, 1, 3, 3),
        group=inner,
        pads=pads,
        strides=[stride] * 2,
    )
    return w.node("Conv", relu6(w, each), w.normal(outer, inner, 1, 1))


def grids(w: Writer, sizes: Detector) -> Sequence[tuple[str, int, int]]:
    """The last three maps of features, their channels and their extents."""
    channels, side = sizes.channels, sizes.side // 2
    first = w.normal(channels, 3, 3, 3)
    value = w.node("Conv", "image", first, pads=[1, 1, 1, 1], strides=[2, 2])
    found: list[tuple[str, int, int]] = []
    for stage in range(5):
        inner, channels, side = channels, 2 * channels, (side + 1) // 2
        value = separable(w, relu6(w, value), inner, channels, 2)
        for _ in range(sizes.blocks - 1):
            value = separable(w, relu6(w, value), channels, channels)
        if stage > 1:
            found.append((value, channels, side))
    return found


def heads(
    w: Writer, sizes: Detector, maps: Sequence[tuple[str, int, int]]
) -> tuple[str, str]:
    """The corners of all boxes, and their scores, one row each."""
    import numpy as np

    columns = 1 + sizes.classes
    rows: Sequence[tuple[int, list[str]]] = (4, []), (columns, [])
    centers: list[Array] = []
    for value, channels, side in maps:
        for width, parts in rows:
            head = separable(w, relu6(w, value), channels, sizes.anchors * width)
            last = w.node("Transpose", head, perm=[0, 2, 3, 1])
            parts.append(w.node("Reshape", last, w.known([1, -1, width])))
        line = (np.arange(side) + 0.5) / side
        grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 1, 2)
        extents = np.linspace(0.8, 2, sizes.anchors)[:, None] / side * [[1, 1]]
        shape = side * side, sizes.anchors, 2
        pairs = np.broadcast_to(grid, shape), np.broadcast_to(extents, shape)
        centers.append(np.concatenate(pairs, -1).reshape(-1, 4))
    deltas, logits = (w.node("Concat", *parts, axis=1) for _, parts in rows)
    scores = w.node("Softmax", logits, axis=-1)
    one = w.known([0])
    anchors = np.concatenate(centers)
    low, high = corners(w, w.node("Squeeze", deltas, one), anchors)
    boxes = w.node("Concat", low, high, axis=1)
    inside = w.node("Clip", boxes, w.known(0, "float32"), w.known(1, "float32"))
    return inside, w.node("Squeeze", scores, one)


def corners(w: Writer, deltas: str, anchors: Array) -> tuple[str, str]:
    """The corners of boxes that lie around anchors, centers and extents."""
    shift, size = w.node("Split", deltas, axis=1, num_outputs=2, count=2)
    place, extent = (w.known(anchors[:, i : i + 2], "float32") for i in (0, 2))
    tenth, fifth = w.known(0.1, "float32"), w.known(0.2, "float32")
    moved = w.node("Mul", w.node("Mul", shift, tenth), extent)
    center = w.node("Add", moved, place)
    whole = w.node("Mul", w.node("Exp", w.node("Mul", size, fifth)), extent)
    half = w.node("Mul", whole, w.known(0.5, "float32"))
    return w.node("Sub", center, half), w.node("Add", center, half)


def best_of_classes(
    w: Writer, sizes: Detector, boxes: str, scores: str
) -> tuple[str, str, str]:
    """Boxes, scores and labels of the best of each class, one class after the other."""
    parts: list[tuple[str, str, str]] = []
    zero = w.known([0])
    for label in range(1, 1 + sizes.classes):
        column = w.node("Gather", scores, w.known(label), axis=1)
        above = w.node("Greater", column, w.known(sizes.least, "float32"))
        places = w.node("Squeeze", w.node("NonZero", above), zero)
        score = w.node("Gather", column, places, axis=0)
        box = w.node("Gather", boxes, places, axis=0)
        # As torchvision traces `min(k, len(score))`.
        length = w.node("Gather", w.node("Shape", score), w.known(0))
        length = w.node("Unsqueeze", length, zero)
        sizes_of = w.node("Concat", w.known([sizes.best]), length, axis=0)
        most = w.node("ReduceMin", sizes_of, keepdims=0)
        count = w.node("Reshape", most, w.known([-1]))
        best, order = w.node("TopK", score, count, axis=0, count=2)
        shape = w.node("Shape", best)
        labels = w.node("Expand", w.known([label]), shape)
        parts.append((w.node("Gather", box, order, axis=0), best, labels))
    first, second, third = zip(*parts, strict=True)
    joined = [w.node("Concat", *each, axis=0) for each in (first, second, third)]
    return joined[0], joined[1], joined[2]


def suppressed(
    w: Writer, sizes: Detector, boxes: str, scores: str, labels: str
) -> tuple[str, str, str]:
    """Those that no better one of their class overlaps, best ones first."""
    # Boxes of classes are moved apart, so that one suppression does.
    from onnx import TensorProto

    zero, first = w.known([0]), w.known([1])
    shift = w.node("Cast", labels, to=TensorProto.FLOAT)
    end = w.node("ReduceMax", boxes, keepdims=0)
    step = w.node("Mul", shift, w.node("Add", end, w.known(1, "float32")))
    apart = w.node("Add", boxes, w.node("Unsqueeze", step, first))
    found = w.node(
        "NonMaxSuppression",
        w.node("Unsqueeze", apart, zero),
        w.node("Unsqueeze", scores, w.known([0, 1])),
        w.known([2**31 - 1]),
        w.known([0.55], "float32"),
    )
    places = w.node("Slice", found, w.known([2]), w.known([3]), first)
    line = w.node("Squeeze", places, first)
    kept = w.node("Slice", line, zero, w.known([sizes.best]), zero)
    chosen = [w.node("Gather", each, kept, axis=0) for each in (boxes, scores, labels)]
    return chosen[0], chosen[1], chosen[2]


################################################################################
# Contenders                                                                   #
################################################################################


def open_penstock(sizes: Detector, threads: int) -> Run:
    """A session on the model, which is compiled for the shape of images."""
    from penstock.tools.session.session import Session

    session = Session(imported_model(detector(sizes)), threads=threads)
    return in_turn(sizes, lambda given: [*session.run(given).values()])


def open_onnxruntime(sizes: Detector, threads: int) -> Run:
    """A session of ONNX Runtime on the model."""
    session = runtime_session(detector(sizes), threads)
    return in_turn(sizes, lambda given: session.run(None, given))


def in_turn(
    sizes: Detector, run: Callable[[Mapping[str, Array]], Sequence[Array]]
) -> Run:
    """A run on each of two images, of which other numbers of boxes are above."""
    images = [{"image": image(sizes, number)} for number in range(2)]
    return lambda: [array for each in images for array in run(each)]


def openers(sizes: Detector, threads: int) -> Mapping[str, Opener]:
    """The opener of each contender on a detector, ours first."""
    return {
        "Penstock": partial(open_penstock, sizes, threads),
        "ONNX Runtime": partial(open_onnxruntime, sizes, threads),
    }


def detection(
    threads: Sequence[int], rounds: int, cases: Mapping[str, Detector] = CASES
) -> Section:
    """Time detectors with each number of threads."""
    races = {
        (name, count): race(openers(sizes, count), rounds)
        for name, sizes in cases.items()
        for count in threads
    }
    # A run is on two images.
    flops = {
        name: 2 * flops_of(imported_model(detector(sizes)))
        for name, sizes in cases.items()
    }
    return race_section("Detection", TEXT, "case", races, flops, rounds)
