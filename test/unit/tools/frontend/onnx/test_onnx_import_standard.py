"""
Ops of which ONNX Runtime, ONNX's reference and others make different things: what the
text of the standard says, written down here on its own, and whoever follows it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnxruntime
import pytest
from draws import fresh_seed
from numpy.typing import NDArray
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import ImportedModel, import_for

Array: TypeAlias = NDArray[np.generic]
Doubles: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]


def doubles(array: Array) -> Doubles:
    """Numbers of any kind as `float64`."""
    return array.astype(np.float64)


def of_runtime(model: ModelProto, inputs: Arrays) -> list[Array]:
    """The results of ONNX Runtime for a model."""
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, dict(inputs))


def of_reference(model: ModelProto, inputs: Arrays) -> list[Array]:
    """The results of ONNX's reference for a model."""
    evaluator: Any = ReferenceEvaluator(model)
    return evaluator.run(None, dict(inputs))


# Recurrent layers that clip ----------------------------------------------------------


class Lstm(NamedTuple):
    """The operands of a layer of 5 elements, 3 of them given, for 2 sequences."""

    x: Array
    w: Array
    r: Array
    b: Array
    h0: Array
    c0: Array
    p: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Lstm:
        shapes = (4, 2, 3), (1, 20, 3), (1, 20, 5), (1, 40), (1, 2, 5), (1, 2, 5)
        drawn = (1.5 * rng.standard_normal(s) for s in (*shapes, (1, 15)))
        return cls(*(array.astype(np.float32) for array in drawn))

    def model(self, make_model: MakeModel, clip: float | None) -> ModelProto:
        facts: dict[str, Any] = {} if clip is None else {"clip": clip}
        node = helper.make_node(
            "LSTM",
            ["x", "w", "r", "b", "", "h0", "c0", "p"],
            ["y", "h", "c"],
            hidden_size=5,
            **facts,
        )
        return make_model([node], self._asdict(), ("y", "h", "c"), opset=14)

    def meaning(self, clip: float) -> tuple[list[Doubles], float]:
        """The outputs: inputs of all activations are clipped; the largest cell."""
        x, w, r, b, hidden, cell, p = map(doubles, self)
        given, own = np.split(b[0], 2)
        hidden, cell, largest = hidden[0], cell[0], 0.0
        outputs: list[Doubles] = []

        def sigmoid(value: Doubles) -> Doubles:
            return 1 / (1 + np.exp(-np.clip(value, -clip, clip)))

        def tanh(value: Doubles) -> Doubles:
            return np.tanh(np.clip(value, -clip, clip))

        for step in x:
            whole = step @ w[0].T + hidden @ r[0].T + given + own
            enter, leave, forget, fresh = np.split(whole, 4, -1)
            p_enter, p_leave, p_forget = np.split(p[0], 3)
            enter = sigmoid(enter + p_enter * cell)
            forget = sigmoid(forget + p_forget * cell)
            cell = forget * cell + enter * tanh(fresh)
            hidden = sigmoid(leave + p_leave * cell) * tanh(cell)
            largest = max(largest, float(np.abs(cell).max()))
            outputs.append(hidden)
        return [np.stack(outputs)[:, None], hidden[None], cell[None]], largest


@pytest.mark.parametrize("clip", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_lstm_clips_the_inputs_of_all_activations(
    make_model: MakeModel, evaluate: Evaluate, clip: float, seed: int
) -> None:
    layer = Lstm.drawn(np.random.default_rng(seed))
    model, (wanted, largest) = layer.model(make_model, clip), layer.meaning(clip)
    inputs = layer._asdict()
    found = evaluate(import_for(model, "lstm", inputs), inputs)
    for array, expected in zip(found.values(), wanted, strict=True):
        np.testing.assert_allclose(doubles(array), expected, rtol=1e-5, atol=1e-6)
    runtime = of_runtime(model, inputs)
    # It does not clip the cell that the last activation is of.
    follows = all(map(_is_close, runtime, wanted))
    assert follows == (largest <= clip)
    # The reference does not clip at all.
    assert not all(map(_is_close, of_reference(model, inputs), wanted))


def _is_close(one: Array, other: Doubles) -> bool:
    return np.allclose(doubles(one), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "gates"), [("GRU", 3), ("RNN", 1)])
def test_other_recurrent_layers_clip_like_onnx_runtime(
    make_model: MakeModel, evaluate: Evaluate, op: str, gates: int
) -> None:
    rng = np.random.default_rng(gates)
    shapes = {"x": (4, 2, 3), "w": (1, gates * 5, 3), "r": (1, gates * 5, 5)}
    inputs = {
        name: (1.5 * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
    node = helper.make_node(op, [*inputs], ["y"], hidden_size=5, clip=0.5)
    model = make_model([node], inputs, opset=14)
    found = evaluate(import_for(model, "layer", inputs), inputs)
    wanted = doubles(of_runtime(model, inputs)[0])
    np.testing.assert_allclose(doubles(found["y"]), wanted, atol=1e-6)


# Resizing ----------------------------------------------------------------------------

CROP = "tf_crop_and_resize"
MODES = (
    *("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric"),
    *("pytorch_half_pixel", CROP),
)
NEAREST: Mapping[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda place: ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: floor(place + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}
OUTSIDE = 99.0


class Resizing(NamedTuple):
    """A resize of a line of elements: by a scale or to a size."""

    length: int
    mode: str
    transformation: str
    nearest: str = "round_prefer_floor"
    scale: float | None = None
    size: int | None = None
    start: float = 0.0
    end: float = 1.0

    @property
    def result(self) -> int:
        """The extent: `floor(input_dimension * (roi_end - roi_start) * scale)`."""
        if self.size is not None:
            return self.size
        share = Fraction(1)
        if self.transformation == CROP:
            share = _exact(self.end) - _exact(self.start)
        return floor(self.length * share * _exact(self.scale or 0))

    @property
    def ratio(self) -> Fraction:
        """The scale, exactly."""
        if self.size is not None:
            return Fraction(self.size, self.length)
        return _exact(self.scale or 0)

    def place(self, x: int) -> Fraction:
        """`x_original`, as the attribute `coordinate_transformation_mode` has it."""
        length, result, scale = self.length, self.result, self.ratio
        half, width = Fraction(1, 2), self.ratio * self.length
        start, end = _exact(self.start), _exact(self.end)
        match self.transformation:
            case "align_corners":
                return x * (length - 1) / (width - 1) if width != 1 else Fraction(0)
            case "asymmetric":
                return x / scale
            case "half_pixel":
                return (x + half) / scale - half
            case "half_pixel_symmetric":
                offset = Fraction(length, 2) * (1 - result / width)
                return offset + (x + half) / scale - half
            case "pytorch_half_pixel":
                return (x + half) / scale - half if result > 1 else Fraction(0)
            case _:
                if result == 1:
                    return half * (start + end) * (length - 1)
                step = (end - start) * (length - 1) / (result - 1)
                return start * (length - 1) + x * step

    def meaning(self, array: Array) -> Doubles:
        """The result of a line."""
        line: list[float] = doubles(array).tolist()
        found: list[float] = []
        for x in range(self.result):
            place, last = self.place(x), self.length - 1
            if self.transformation == CROP and not 0 <= place <= last:
                found.append(OUTSIDE)
            elif self.mode == "nearest":
                index = NEAREST[self.nearest](place)
                found.append(line[min(max(index, 0), last)])
            else:
                low = floor(place)
                ends = (line[min(max(i, 0), last)] for i in (low, low + 1))
                a, b = ends
                found.append(a + float(place - low) * (b - a))
        return np.array(found)

    def model(self, make_model: MakeModel, line: Array) -> ModelProto:
        known: dict[str, Array] = {
            "roi": np.array([self.start, self.end], np.float32),
        }
        if self.size is None:
            known["by"] = np.array([self.scale], np.float32)
        else:
            known["by"] = np.array([self.size], np.int64)
        names = ["x", "roi", "by"] if self.size is None else ["x", "roi", "", "by"]
        facts: dict[str, Any] = {"axes": [0]} if self.transformation == CROP else {}
        node = helper.make_node(
            "Resize",
            names,
            ["y"],
            mode=self.mode,
            coordinate_transformation_mode=self.transformation,
            nearest_mode=self.nearest,
            extrapolation_value=OUTSIDE,
            **facts,
        )
        return make_model([node], {"x": line}, known=known, opset=19)


def _exact(number: float) -> Fraction:
    """A number as a file has it."""
    return Fraction(float(np.float32(number)))


def drawn(rng: random.Random) -> Resizing:
    """A random resize of a line, also where places lie in the middle of two."""
    length = rng.randint(1, 12)
    facts = (
        *(length, rng.choice(["nearest", "linear"]), rng.choice(MODES)),
        rng.choice([*NEAREST]),
    )
    ends = sorted(rng.choice([0.0, 0.1, 0.25, 0.7, 1.0]) for _ in range(2))
    if rng.random() < 0.5:
        return Resizing(*facts, size=rng.randint(1, 16), start=ends[0], end=ends[1])
    scale = rng.choice([0.2, 0.5, 0.6, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.3])
    return Resizing(*facts, scale=scale, start=ends[0], end=ends[1])


def line_of(length: int) -> Array:
    return np.arange(1, length + 1, dtype=np.float32) ** 2


def resized(make_model: MakeModel, evaluate: Evaluate, case: Resizing) -> Doubles:
    line = line_of(case.length)
    model = case.model(make_model, line)
    found = evaluate(import_for(model, "resize", {"x": line}), {"x": line})
    return doubles(found["y"])


def test_resizing_is_that_of_the_text(
    make_model: MakeModel, evaluate: Evaluate
) -> None:
    rng, count = random.Random(fresh_seed()), 0
    while count < 100:
        if (case := drawn(rng)).result < 1:
            continue
        count += 1
        found = resized(make_model, evaluate, case)
        wanted = case.meaning(line_of(case.length))
        np.testing.assert_allclose(
            found, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{case}"
        )


RUNTIME, REFERENCE = "ONNX Runtime", "the reference"
EITHER = {RUNTIME, REFERENCE}
PEERS: Mapping[str, Callable[[ModelProto, Arrays], list[Array]]] = {
    RUNTIME: of_runtime,
    REFERENCE: of_reference,
}
FOLLOWED: Mapping[str, tuple[Resizing, set[str]]] = {
    "a part to a size": (
        Resizing(9, "nearest", CROP, size=5, start=0.25, end=0.75),
        EITHER,
    ),
    "a part that is larger than the input": (
        Resizing(9, "nearest", CROP, size=6, start=-0.25, end=1.25),
        EITHER,
    ),
    "a part to one element": (
        Resizing(9, "nearest", CROP, size=1, start=0.25, end=0.75),
        EITHER,
    ),
    "a part by a scale": (
        Resizing(9, "nearest", CROP, scale=1.5, start=0.25, end=0.75),
        set(),
    ),
    "all as a part by a scale": (
        Resizing(9, "nearest", CROP, scale=0.6),
        {RUNTIME},
    ),
    "one element of several by a scale": (
        Resizing(5, "nearest", "pytorch_half_pixel", scale=0.2),
        {RUNTIME},
    ),
    "corners by a scale that leaves a fraction": (
        Resizing(7, "nearest", "align_corners", "floor", scale=0.5),
        {REFERENCE},
    ),
    "by a scale that is less than it says": (
        Resizing(10, "nearest", "half_pixel", "floor", scale=0.7),
        {REFERENCE},
    ),
    "half down": (Resizing(10, "nearest", "half_pixel", size=5), EITHER),
    "half up": (
        Resizing(10, "nearest", "half_pixel", "round_prefer_ceil", size=5),
        EITHER,
    ),
    "up at an element": (
        Resizing(11, "nearest", "half_pixel", "ceil", size=13),
        {REFERENCE},
    ),
    "beside an element": (
        Resizing(10, "nearest", "pytorch_half_pixel", "round_prefer_ceil", size=14),
        {RUNTIME},
    ),
    "about the center": (
        Resizing(9, "nearest", "half_pixel_symmetric", "floor", scale=0.5),
        {RUNTIME},
    ),
}


@pytest.mark.parametrize(("case", "followers"), FOLLOWED.values(), ids=FOLLOWED)
def test_those_who_follow_the_text_of_resizing(
    make_model: MakeModel, evaluate: Evaluate, case: Resizing, followers: set[str]
) -> None:
    line = line_of(case.length)
    model, wanted = case.model(make_model, line), case.meaning(line)
    np.testing.assert_array_equal(resized(make_model, evaluate, case), wanted)
    found = {
        name for name, run in PEERS.items() if _equal(run(model, {"x": line}), wanted)
    }
    assert found == followers


def _equal(found: list[Array], wanted: Doubles) -> bool:
    return np.array_equal(found[0], wanted)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Resizing(9, "nearest", CROP, scale=-1.0), "scales should be greater than 0"),
        (
            Resizing(9, "nearest", CROP, scale=1.0, start=1.0, end=0.5),
            "a part of the input ends before it begins",
        ),
        (
            Resizing(9, "nearest", CROP, size=4, end=float("nan")),
            "resized by numbers that are not finite",
        ),
    ],
)
def test_resizing_by_what_is_no_scale_is_refused(
    make_model: MakeModel, case: Resizing, message: str
) -> None:
    line = line_of(case.length)
    with pytest.raises(Rejected, match=message):
        import_for(case.model(make_model, line), "resize", {"x": line})
