"""Models of quantized numbers, compiled: what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper

from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.frontend.onnx.model import import_model, run_onnxruntime
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Numbers: TypeAlias = NDArray[np.number]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]

RANDOM = np.random.default_rng(77)


def floats(*shape: int, scale: float = 2.0) -> NDArray[np.float32]:
    return RANDOM.normal(0, scale, shape).astype(np.float32)


def bytes_(dtype: str, *shape: int) -> Numbers:
    limits = np.iinfo(dtype)
    found: Numbers = RANDOM.integers(
        limits.min, limits.max, shape, dtype, endpoint=True
    )
    return np.asarray(found)


def scales(*shape: int) -> Numbers:
    return np.asarray(RANDOM.uniform(0.005, 0.02, shape), np.float32)


def compiled(model: ModelProto, inputs: Arrays) -> dict[str, Array]:
    """The results of the kernels of a session for a model."""
    imported = import_model(model, "model.onnx")
    loaded = Model(imported.module, imported.weights, Path())
    with Session(loaded) as session:
        return dict(session.run(dict(inputs)))


def check(
    model: ModelProto, inputs: Arrays, wanted: Arrays, steps: int = 0
) -> dict[str, Array]:
    """Compare integers, up to some steps where a rounding may go both ways."""
    got = compiled(model, inputs)
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype
        a, b = got[name].astype(np.float64), array.astype(np.float64)
        if array.dtype.kind == "f":
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        else:
            assert np.abs(a - b).max(initial=0) <= steps
            assert (a != b).mean() <= 0.02
    return got


def node(
    op: str, inputs: str, outputs: str = "y", **attributes: float | Sequence[int]
) -> NodeProto:
    proto = helper.make_node(op, inputs.split(), outputs.split())
    proto.attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    return proto


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_numbers_become_integers_and_back(make_model: MakeModel, dtype: str) -> None:
    x = np.concatenate(
        [floats(60), np.array([0, -0.0, 1e9, -1e9, np.inf, 1e-42], "f4")]
    )
    # Halves are rounded to even ones.
    x = np.concatenate([x, np.arange(-5, 6, dtype=np.float32) * 0.0078125 * 1.5])
    known = {"s": np.float32(0.0078125), "z": np.array(3, dtype)}
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "y"),
    ]
    model = make_model(nodes, {"x": x}, ["q", "y"], known, opset=21)
    check(model, {"x": x}, run_onnxruntime(model, {"x": x}))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_axis_may_have_its_own_scales(make_model: MakeModel, axis: int) -> None:
    x = floats(3, 4, 5)
    known = {"s": scales(x.shape[axis]), "z": bytes_("uint8", x.shape[axis])}
    nodes = [
        node("QuantizeLinear", "x s z", "q", axis=axis),
        node("DequantizeLinear", "q s z", "y", axis=axis),
    ]
    model = make_model(nodes, {"x": x}, ["q", "y"], known)
    check(model, {"x": x}, run_onnxruntime(model, {"x": x}), steps=1)


@pytest.mark.parametrize("extent", [6, 7])
def test_blocks_may_have_their_own_scales(make_model: MakeModel, extent: int) -> None:
    x, blocks = bytes_("int8", 2, extent, 5), -(-extent // 3)
    known = {"s": scales(2, blocks, 5), "z": bytes_("int8", 2, blocks, 5)}
    nodes = [node("DequantizeLinear", "x s z", axis=1, block_size=3)]
    model = make_model(nodes, {"x": x}, ["y"], known, opset=21)
    spread = [np.repeat(known[name], 3, 1)[:, :extent] for name in "sz"]
    wanted = (x.astype(np.float32) - spread[1].astype(np.float32)) * spread[0]
    check(model, {"x": x}, {"y": wanted})


@pytest.mark.parametrize("values", [floats(5, 7), abs(floats(9)), np.zeros(4, "f4")])
def test_scales_found_at_run_time(make_model: MakeModel, values: Array) -> None:
    nodes = [node("DynamicQuantizeLinear", "x", "y s z")]
    model = make_model(nodes, {"x": values}, ["y", "s", "z"])
    inputs = {"x": values}
    check(model, inputs, run_onnxruntime(model, inputs), steps=1)


@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((2, 5, 7), (7, 3))])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("each", [False, True])
def test_products_of_integers(
    make_model: MakeModel, shapes: Sequence[tuple[int, ...]], right: str, each: bool
) -> None:
    inputs = {"a": bytes_("uint8", *shapes[0]), "b": bytes_(right, *shapes[1])}
    known = {"za": bytes_("uint8"), "zb": bytes_(right, *([3] if each else []))}
    model = make_model([node("MatMulInteger", "a b za zb")], inputs, ["y"], known)
    # Not ONNX Runtime's, whose sums saturate on processors without VNNI.
    a, b, za, zb = (x.astype(np.int32) for x in (*inputs.values(), *known.values()))
    check(model, inputs, {"y": (a - za) @ (b - zb)})


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", [(1, 4, 7, 6), (2, 4, 9)])
def test_convolutions_of_integers(
    make_model: MakeModel, groups: int, shape: tuple[int, ...]
) -> None:
    rank = len(shape) - 2
    x, w = bytes_("uint8", *shape), bytes_("uint8", 6, 4 // groups, *[3] * rank)
    inputs, known = {"x": x}, {"w": w, "zx": bytes_("uint8"), "zw": bytes_("uint8")}
    pads = [1] * 2 * rank
    nodes = [node("ConvInteger", "x w zx zw", group=groups, pads=pads)]
    model = make_model(nodes, inputs, ["y"], known, opset=10)
    check(model, inputs, run_onnxruntime(model, inputs))


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("known", ["", "b", "zb", "b za", "b za zb"])
def test_zero_points_of_products(
    make_model: MakeModel, left: str, right: str, known: str
) -> None:
    """Each may be known or not; weights may hold what they are less theirs or not."""
    arrays = {"a": bytes_(left, 5, 9), "b": bytes_(right, 9, 6)}
    arrays |= {"za": bytes_(left), "zb": bytes_(right)}
    inputs = {name: x for name, x in arrays.items() if name not in known.split()}
    weights = {name: arrays[name] for name in known.split()}
    model = make_model([node("MatMulInteger", "a b za zb")], inputs, ["y"], weights)
    a, b, za, zb = (array.astype(np.int32) for array in arrays.values())
    check(model, inputs, {"y": (a - za) @ (b - zb)})


@pytest.mark.parametrize("zero", [0, 100, 128])
def test_weights_less_their_zero_point(make_model: MakeModel, zero: int) -> None:
    """The differences then fit into a byte, or do not."""
    a, b = bytes_("int8", 3, 8), bytes_("uint8", 8, 4)
    b[0, :2] = 0, 255
    known = {"b": b, "za": np.int8(0), "zb": np.uint8(zero)}
    model = make_model([node("MatMulInteger", "a b za zb")], {"a": a}, ["y"], known)
    imported = import_model(model, "model.onnx")
    assert ("sub" in str(imported.module)) == (zero == 100)
    wanted = a.astype(np.int32) @ (b.astype(np.int32) - zero)
    check(model, {"a": a}, {"y": wanted})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("is_known", [True, False])
def test_convolutions_with_zero_points(
    make_model: MakeModel, dtype: str, is_known: bool
) -> None:
    """The padding is the zero point, whether it is known or not."""
    x, w, zero = bytes_(dtype, 1, 3, 6, 9), bytes_("int8", 8, 3, 3, 3), bytes_(dtype)
    zeros = {"zx": zero}
    known, inputs = {"w": w, **(zeros if is_known else {})}, {"x": x}
    if not is_known:
        inputs |= zeros
    nodes = [node("ConvInteger", "x w zx", pads=[1, 2, 0, 1], strides=[1, 2])]
    model = make_model(nodes, inputs, ["y"], known, opset=10)
    centred = np.pad(x.astype(np.int32) - zero, [(0, 0), (0, 0), (1, 0), (2, 1)])
    windows = sliding_window_view(centred, (3, 3), (2, 3))[:, :, :, ::2]
    wanted = np.einsum("ncyxpq,ocpq->noyx", windows, w.astype(np.int32))
    check(model, inputs, {"y": wanted.astype(np.int32)})


def test_quantized_products(make_model: MakeModel) -> None:
    inputs = {"a": bytes_("uint8", 2, 5, 7), "b": bytes_("uint8", 7, 4)}
    known = {
        **{"sa": scales(), "za": bytes_("uint8"), "sb": scales(4)},
        **{"zb": bytes_("uint8", 4), "sy": np.float32(0.1), "zy": bytes_("uint8")},
    }
    nodes = [node("QLinearMatMul", "a sa za b sb zb sy zy")]
    model = make_model(nodes, inputs, ["y"], known)
    check(model, inputs, run_onnxruntime(model, inputs), steps=1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantized_convolutions(make_model: MakeModel, dtype: str) -> None:
    x, w = bytes_(dtype, 1, 4, 8, 7), bytes_("int8", 6, 4, 3, 3)
    sx, sw, sy = scales(), scales(6), np.float32(0.1)
    bias = RANDOM.integers(-99, 99, 6, np.int32)
    known = {
        **{"sx": sx, "zx": np.array(5, dtype), "w": w, "sw": sw},
        **{"zw": np.zeros(6, np.int8), "sy": sy, "zy": np.array(7, dtype), "b": bias},
    }
    nodes = [
        node("QLinearConv", "x sx zx w sw zw sy zy b", strides=[2, 1], pads=[1] * 4)
    ]
    model = make_model(nodes, {"x": x}, ["y"], known)
    # Not ONNX Runtime's, whose sums saturate on processors without VNNI.
    centred = np.pad(x.astype(np.int32) - 5, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = sliding_window_view(centred, (3, 3), (2, 3))[:, :, ::2]
    sums = np.einsum("ncyxpq,ocpq->noyx", windows, w.astype(np.int32))
    factor = sx.astype(np.float64) * sw.astype(np.float64) / np.float64(sy)
    scaled = (sums + bias[:, None, None]) * factor[:, None, None]
    bounds = np.iinfo(dtype)
    wanted = np.clip(np.rint(scaled) + 7, bounds.min, bounds.max).astype(dtype)
    check(model, {"x": x}, {"y": wanted}, steps=1)


def real(array: Numbers, scale: Numbers, zero: Numbers, axis: int = -1) -> Numbers:
    """The real values of quantized numbers, in `f64`."""
    shape = [1] * array.ndim
    shape[axis] = scale.size
    numbers = array.astype(np.float64) - zero.astype(np.float64).reshape(shape)
    return np.asarray(numbers * scale.astype(np.float64).reshape(shape))


@pytest.mark.parametrize("gemm", [False, True])
@pytest.mark.parametrize("each", [1, 6])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_products_of_what_was_quantized(
    make_model: MakeModel, gemm: bool, each: int, dtype: str
) -> None:
    """Bytes are multiplied, whatever their scales and zero points."""
    a, b = bytes_("uint8", 5, 9), bytes_(dtype, 9, 6)
    sa, sb = scales(1), scales(each)
    za, zb, c = bytes_("uint8", 1), bytes_(dtype, each), floats(6)
    known = {"b": b.T if gemm else b, "sa": sa, "za": za, "sb": sb, "zb": zb, "c": c}
    nodes = [
        node("DequantizeLinear", "a sa za", "x"),
        node("DequantizeLinear", "b sb zb", "w", axis=0 if gemm else 1),
    ]
    wanted = real(a, sa, za) @ real(b, sb, zb)
    if gemm:
        nodes.append(node("Gemm", "x w c", transB=1, alpha=0.5, beta=2.0))
        wanted = 0.5 * wanted + 2 * c
    else:
        nodes.append(node("MatMul", "x w"))
    model = make_model(nodes, {"a": a}, ["y"], known)
    assert "wide" in str(import_model(model, "model.onnx").module)
    got = compiled(model, {"a": a})["y"].astype(np.float64)
    np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("each", [1, 8])
def test_convolutions_of_what_was_quantized(make_model: MakeModel, each: int) -> None:
    x, w = bytes_("uint8", 1, 3, 6, 9), bytes_("int8", 8, 3, 3, 3)
    sx, sw, zx, bias = scales(1), scales(each), bytes_("uint8", 1), floats(8)
    zw = np.zeros(each, np.int8)
    known = {"w": w, "sx": sx, "zx": zx, "sw": sw, "zw": zw, "c": bias}
    nodes = [
        node("DequantizeLinear", "x sx zx", "xd"),
        node("DequantizeLinear", "w sw zw", "wd", axis=0),
        node("Conv", "xd wd c", pads=[1, 2, 0, 1]),
    ]
    model = make_model(nodes, {"x": x}, ["y"], known)
    assert "wide" in str(import_model(model, "model.onnx").module)
    padded = np.pad(real(x, sx, zx), [(0, 0), (0, 0), (1, 0), (2, 1)])
    windows = sliding_window_view(padded, (3, 3), (2, 3))
    wanted = np.einsum("ncyxpq,ocpq->noyx", windows, real(w, sw, zw, 0))
    got = compiled(model, {"x": x})["y"].astype(np.float64)
    np.testing.assert_allclose(got, wanted + bias[:, None, None], 1e-5, 1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_along_terms_are_taken_in_before(
    make_model: MakeModel, axis: int
) -> None:
    """Where scales differ from term to term, sums are of floats."""
    b = bytes_("int8", 4, 4)
    known = {"b": b, "s": scales(1), "sb": scales(4), "zb": bytes_("int8", 4)}
    nodes = [
        node("DequantizeLinear", "a s", "x"),
        node("DequantizeLinear", "b sb zb", "w", axis=axis),
        node("MatMul", "x w"),
    ]
    a = bytes_("uint8", 3, 4)
    model = make_model(nodes, {"a": a}, ["y"], known)
    assert ("wide" in str(import_model(model, "model.onnx").module)) == (axis == 1)
    wanted = real(a, known["s"], np.zeros(1)) @ real(b, known["sb"], known["zb"], axis)
    got = compiled(model, {"a": a})["y"].astype(np.float64)
    np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


@pytest.mark.slow
def test_a_network_of_quantized_layers(make_model: MakeModel) -> None:
    """Weights that are integers in the model, with floats between the layers."""
    x = floats(2, 3, 9, 9, scale=1)
    known = {
        **{"s": np.float32(0.02), "z": np.uint8(128), "sw": scales(8)},
        **{"w": bytes_("int8", 8, 3, 3, 3), "zw": np.zeros(8, np.int8)},
    }
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w sw zw", "wd", axis=0),
        node("Conv", "xd wd", "c", pads=[1] * 4),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("QuantizeLinear", "p s z", "pq"),
        node("DequantizeLinear", "pq s z", "y"),
    ]
    model = make_model(nodes, {"x": x}, ["p", "y"], known)
    wanted = {n: a.astype("f8") for n, a in run_onnxruntime(model, {"x": x}).items()}
    got = {n: a.astype("f8") for n, a in compiled(model, {"x": x}).items()}
    assert 0.05 < np.std(wanted["p"]) < 10
    np.testing.assert_allclose(got["p"], wanted["p"], 1e-4, 1e-5)
    # One step of the scale, where a rounding may go both ways.
    np.testing.assert_allclose(got["y"], wanted["y"], 0, 0.0201)


def test_numbers_are_quantized_to_integers_only(make_model: MakeModel) -> None:
    known = {"s": np.float32(1), "z": np.array(0, np.float16)}
    nodes = [node("QuantizeLinear", "x s z")]
    model = make_model(nodes, {"x": floats(3)}, ["y"], known, opset=21)
    with pytest.raises(Rejected) as caught:
        import_model(model, "model.onnx")
    assert "numbers cannot be quantized to f16" in str(caught.value.diagnoses)
