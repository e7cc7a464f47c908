"""Ops of ONNX that read at computed places, and their like, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper

from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_model,
    run_onnxruntime,
)

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]
Attribute: TypeAlias = int | float | str | Sequence[int]

rng = np.random.default_rng(20261122)


def floats(*shape: int, scale: float = 1.0) -> Array:
    """Normal numbers."""
    return np.asarray(rng.normal(0.0, scale, shape), np.float32)


def ints(*values: int) -> Array:
    """A list of integers as an operand."""
    return np.array(values, np.int64)


class Case(NamedTuple):
    """A node of a version: its inputs, of which some are known, and attributes."""

    op: str
    inputs: Sequence[Array]
    attributes: Mapping[str, Attribute] = {}
    known: Sequence[int] = ()
    outputs: int = 1
    opset: int = 18


IMAGES = floats(2, 3, 5, 4)
GRID = floats(2, 3, 7, 2, scale=1.5)
VOLUMES, PLACES = floats(1, 2, 3, 4, 5), floats(1, 2, 3, 2, 3)
REGIONS = np.array(
    [[0, 0, 3, 3], [0.4, 1.2, 2.2, 4], [-2, -3, 1, 1.5], [3, 4, 3.2, 9]], np.float32
)
ROI_INPUTS = [IMAGES, REGIONS, ints(0, 1, 1, 0)]
BINS = {"output_height": 3, "output_width": 2, "sampling_ratio": 2}

CASES: dict[str, Case] = {
    **{
        f"grid sample, {mode}, {padding}, {aligned}": Case(
            "GridSample",
            [IMAGES, GRID],
            {"mode": mode, "padding_mode": padding, "align_corners": aligned},
            opset=16,
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    },
    "grid sample of volumes": Case("GridSample", [VOLUMES, PLACES], opset=20),
    "grid sample of one element": Case(
        "GridSample",
        [floats(1, 1, 1, 1), GRID[:1]],
        {"padding_mode": "reflection", "align_corners": 1},
        opset=16,
    ),
    "regions, mean": Case("RoiAlign", ROI_INPUTS, BINS),
    "regions, maximum": Case("RoiAlign", ROI_INPUTS, {**BINS, "mode": "max"}),
    "regions at a scale": Case("RoiAlign", ROI_INPUTS, {**BINS, "spatial_scale": 0.5}),
    "regions that begin at their corner": Case(
        "RoiAlign",
        ROI_INPUTS,
        {**BINS, "coordinate_transformation_mode": "output_half_pixel"},
    ),
    "regions of an older version": Case("RoiAlign", ROI_INPUTS, BINS, opset=13),
    "regions of the oldest version": Case("RoiAlign", ROI_INPUTS, BINS, opset=10),
    "moved taps": Case(
        "DeformConv",
        [floats(2, 4, 5, 6), floats(6, 2, 3, 2), floats(2, 24, 3, 3), floats(6)],
        {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 1], "strides": [2, 2]},
        opset=19,
    ),
    "moved taps with a mask": Case(
        "DeformConv",
        [
            *(floats(1, 2, 6, 5), floats(3, 2, 2, 2), floats(1, 8, 5, 3)),
            *(floats(3), floats(1, 4, 5, 3)),
        ],
        {"dilations": [1, 2]},
        opset=19,
    ),
    "columns": Case("Col2Im", [floats(2, 12, 9), ints(4, 5), ints(2, 3)], {}, [1, 2]),
    "columns with steps": Case(
        "Col2Im",
        [floats(1, 12, 9), ints(5, 6), ints(2, 3)],
        {"strides": [2, 2], "dilations": [2, 1], "pads": [1, 0, 1, 1]},
        [1, 2],
    ),
    "determinant": Case("Det", [floats(3, 2, 5, 5)]),
    "determinant of a matrix without pivots": Case(
        "Det", [np.array([[0, 2, 1], [0, 0, 3], [4, 1, 1]], np.float32)]
    ),
    "determinant of zeros": Case("Det", [np.zeros((2, 3, 3), np.float32)]),
    "places of the largest": Case(
        "MaxPool",
        [floats(2, 3, 7, 6)],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        outputs=2,
    ),
    "places of the largest in ceil mode": Case(
        "MaxPool",
        [floats(1, 2, 6)],
        {"kernel_shape": [3], "strides": [2], "ceil_mode": 1},
        outputs=2,
    ),
    "places of the largest, the first axis the fastest": Case(
        "MaxPool",
        [floats(1, 2, 5, 6)],
        {"kernel_shape": [2, 2], "dilations": [2, 3], "storage_order": 1},
        outputs=2,
    ),
    "places of the largest where all are equal": Case(
        "MaxPool",
        [np.full((1, 1, 3, 4), -np.inf, np.float32)],
        {"kernel_shape": [2, 2]},
        outputs=2,
    ),
}


def model_of(case: Case, make_model: MakeModel) -> tuple[ModelProto, dict[str, Array]]:
    """A model of one node, and its inputs that are not known."""
    names = [f"x{index}" for index in range(len(case.inputs))]
    arrays = dict(zip(names, case.inputs, strict=True))
    known = {names[index]: arrays.pop(names[index]) for index in case.known}
    outputs = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs)
    node.attribute.extend(
        helper.make_attribute(name, value) for name, value in case.attributes.items()
    )
    return make_model([node], arrays, outputs, known, case.opset), arrays


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_op_is_what_onnx_runtime_computes(
    case: Case, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    model, arrays = model_of(case, make_model)
    got = evaluate(import_model(model, case.op), arrays)
    assert_close(got, run_onnxruntime(model, arrays), 2e-5)


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_places_that_are_no_numbers_read_nothing_outside(
    padding: str, make_model: MakeModel, evaluate: Evaluate
):
    numbers = np.array([np.nan, np.inf, -np.inf, 1e30], np.float32)
    grid = np.stack([numbers, np.zeros_like(numbers)], -1)[None, None]
    attributes = {"padding_mode": padding}
    case = Case("GridSample", [IMAGES[:1], grid], attributes, opset=16)
    model, arrays = model_of(case, make_model)
    result = evaluate(import_model(model, case.op), arrays)["y0"][0, :, 0]
    row = IMAGES[0, :, 2]
    wanted = np.stack([row[:, 0], row[:, -1], row[:, 0], row[:, -1]], -1)
    if padding == "zeros":
        # What lies far outside is zero; the weights of what lies nowhere are NaN.
        wanted = np.broadcast_to([np.nan, np.nan, np.nan, 0.0], (3, 4))
    np.testing.assert_array_equal(result, wanted)


REFUSED: dict[str, tuple[Case, str]] = {
    "modes": (
        Case("GridSample", [IMAGES, GRID], {"mode": "spline"}, opset=16),
        "GridSample 'y0': the mode 'spline' with 'zeros' is not known",
    ),
    "integers between others": (
        Case("GridSample", [IMAGES.astype(np.int32), GRID], opset=16),
        "GridSample 'y0': i32 cannot lie between others",
    ),
    "samples that follow from regions": (
        Case("RoiAlign", ROI_INPUTS),
        "RoiAlign 'y0': the number of samples follows from the regions",
    ),
    "modes of regions": (
        Case("RoiAlign", ROI_INPUTS, {**BINS, "mode": "sum"}),
        "RoiAlign 'y0': the mode 'sum' is not known",
    ),
    "moved taps of volumes": (
        Case("DeformConv", [VOLUMES, VOLUMES, VOLUMES], opset=19),
        "DeformConv 'y0': the image should have 4 axes, got 5",
    ),
}


@pytest.mark.parametrize(("case", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_said_is_refused(
    case: Case, text: str, make_model: MakeModel
) -> None:
    model, _ = model_of(case, make_model)
    with pytest.raises(Rejected) as caught:
        import_model(model, case.op)
    assert [note.strip() for note in caught.value.diagnoses[0].notes] == [text]


def test_the_mode_of_momentum_is_one_of_two(make_model: MakeModel) -> None:
    node = helper.make_node(
        "Momentum",
        ["r", "t", "x", "g", "v"],
        ["a", "b"],
        domain="ai.onnx.preview.training",
        mode="other",
    )
    inputs = {"r": floats(), "t": ints(1)[0], "x": floats(3)}
    inputs |= {"g": floats(3), "v": floats(3)}
    model = make_model([node], inputs, ["a", "b"])
    model.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    with pytest.raises(Rejected) as caught:
        import_model(model, "momentum")
    (note,) = caught.value.diagnoses[0].notes
    assert note.strip() == "Momentum 'a': the mode 'other' is not known"
