"""Fourier transforms against those of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import ImportedModel, import_model

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

RANDOM = np.random.default_rng(12)


def floats(*shape: int) -> NDArray[np.float32]:
    return RANDOM.normal(size=shape).astype(np.float32)


def node(op: str, *inputs: str, **attributes: int) -> NodeProto:
    proto = helper.make_node(op, inputs, ["y"])
    proto.attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    return proto


def parts_of(numbers: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.stack([numbers.real, numbers.imag], -1)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", [None, 5, 7, 12])
@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("inverse", [0, 1])
def test_transforms(
    make_model: MakeModel,
    evaluate: Evaluate,
    parts: int,
    length: int | None,
    axis: int,
    inverse: int,
) -> None:
    x = floats(2, 7, 4, parts)
    known = {"axis": np.array(axis)}
    if length is not None:
        known["n"] = np.array(length)
    operands = ["x", "n" if length is not None else "", "axis"]
    nodes = [node("DFT", *operands, inverse=inverse)]
    model = make_model(nodes, {"x": x}, ["y"], known, opset=20)
    got = evaluate(import_model(model, "m"), {"x": x})["y"]
    numbers = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    function = np.fft.ifft if inverse else np.fft.fft
    wanted = parts_of(function(numbers, length, 2 if axis == -2 else 1))
    np.testing.assert_allclose(np.asarray(got, "f8"), wanted, 1e-5, 1e-5)
    assert got.dtype == np.float32


@pytest.mark.parametrize("length", [1, 2, 6, 7])
def test_half_of_a_transform_and_back(
    make_model: MakeModel, evaluate: Evaluate, length: int
) -> None:
    x, known = floats(3, length, 1), {"n": np.array(length), "axis": np.array(1)}
    there = [node("DFT", "x", "", "axis", onesided=1)]
    model = make_model(there, {"x": x}, ["y"], known, opset=20)
    half = np.asarray(evaluate(import_model(model, "m"), {"x": x})["y"], "f4")
    wanted = parts_of(np.fft.rfft(x[..., 0], axis=1))
    np.testing.assert_allclose(half.astype("f8"), wanted, 1e-5, 1e-5)
    back = [node("DFT", "x", "n", "axis", onesided=1, inverse=1)]
    model = make_model(back, {"x": half}, ["y"], known, opset=20)
    got = evaluate(import_model(model, "m"), {"x": half})["y"]
    np.testing.assert_allclose(np.asarray(got, "f8"), x, 1e-5, 1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_of_a_signal(
    make_model: MakeModel, evaluate: Evaluate, onesided: int
) -> None:
    x, window = floats(2, 50, 1), np.hanning(16).astype(np.float32)
    known = {"step": np.array(5), "w": window, "n": np.array(16)}
    nodes = [node("STFT", "x", "step", "w", "n", onesided=onesided)]
    model = make_model(nodes, {"x": x}, ["y"], known)
    got = evaluate(import_model(model, "m"), {"x": x})["y"]
    frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], 16, 1)[:, ::5]
    windowed = frames.astype(np.float64) * window
    wanted = parts_of((np.fft.rfft if onesided else np.fft.fft)(windowed))
    np.testing.assert_allclose(np.asarray(got, "f8"), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((2, 7, 3), "numbers have one part or two, got 3")],
)
def test_numbers_of_other_parts(
    make_model: MakeModel, shape: tuple[int, ...], message: str
) -> None:
    model = make_model([node("DFT", "x")], {"x": floats(*shape)}, ["y"], opset=20)
    with pytest.raises(Rejected) as caught:
        import_model(model, "m")
    assert message in str(caught.value.diagnoses)


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        (["x", "s"], "frames have neither a window nor a length"),
        (["x", "s", "", "n"], "a signal of 7 has no frames of 9"),
    ],
)
def test_signals_without_frames(
    make_model: MakeModel, operands: list[str], message: str
) -> None:
    known = {"s": np.array(1), "n": np.array(9)}
    model = make_model([node("STFT", *operands)], {"x": floats(1, 7, 1)}, ["y"], known)
    with pytest.raises(Rejected) as caught:
        import_model(model, "m")
    assert message in str(caught.value.diagnoses)
