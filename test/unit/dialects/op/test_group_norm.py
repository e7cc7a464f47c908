"""`op.group_norm` on both targets, against NumPy and ONNX's reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.launch import KernelOp
from penstock.dialects.op import GroupNormOp
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Array: TypeAlias = Any
Floats: TypeAlias = NDArray[np.float64]
RunOp: TypeAlias = Callable[..., list[Array]]

TOLERANCES = {np.float16: 2e-3, np.float32: 4e-6, np.float64: 1e-14}
"""Of a difference, over the largest result: a few units of the last place."""


def group_norm(
    x: Floats, scale: Floats, bias: Floats | None, groups: int, epsilon: float = 1e-5
) -> Floats:
    """The formula of ONNX, in float64."""
    rows = x.reshape(x.shape[0], groups, -1)
    mean = rows.mean(2, keepdims=True)
    variance = ((rows - mean) ** 2).mean(2, keepdims=True)
    result = ((rows - mean) / np.sqrt(variance + epsilon)).reshape(x.shape)
    each = scale.shape[0], *[1] * (x.ndim - 2)
    result = result * scale.reshape(each)
    return np.asarray(result if bias is None else result + bias.reshape(each))


def operands(
    shape: Sequence[int], dtype: type[np.floating] = np.float32, bias: bool = True
) -> list[Array]:
    """Random operands, whose mean is not 0."""
    random = np.random.default_rng(41)
    sizes = [shape, shape[1:2], *[shape[1:2]] * bias]
    return [random.normal(1, 2, size).astype(dtype) for size in sizes]


def made(arrays: Sequence[Array], groups: int, **options: float) -> GroupNormOp:
    """The op on tensors of the types of arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = GroupNormOp.of(*map(create_ssa_value, types), groups=groups, **options)
    op.verify()
    return op


def evaluated(op: GroupNormOp, arrays: Sequence[Array]) -> Array:
    """The result in terms of NumPy."""
    (found,) = op.evaluate(*arrays)
    return found


def agree(found: Array, expected: Floats) -> None:
    """Compare a result with that of float64."""
    most = np.nanmax(np.abs(expected), initial=0) * TOLERANCES[found.dtype.type]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=most)


CASES: Sequence[tuple[tuple[int, ...], int, type[np.floating], bool]] = [
    ((2, 12, 6, 6), 3, np.float32, True),
    ((2, 12, 7, 7), 12, np.float32, True),
    ((3, 8, 5), 1, np.float32, False),
    ((4, 48), 4, np.float32, True),
    ((4, 6), 6, np.float32, True),
    ((2, 6, 3, 4, 5), 2, np.float64, True),
    ((1, 6, 4, 8), 3, np.float16, True),
    ((0, 4, 3), 2, np.float32, True),
    ((1, 4, 0), 2, np.float32, True),
]


@pytest.mark.parametrize(("shape", "groups", "dtype", "bias"), CASES)
def test_results_on_cpu(
    shape: tuple[int, ...],
    groups: int,
    dtype: type[np.floating],
    bias: bool,
    run_op: RunOp,
) -> None:
    arrays = operands(shape, dtype, bias)
    if 0 not in shape:
        arrays[0].flat[-1] = np.nan if groups > 1 else 5
    op = made(arrays, groups)
    wide = [array.astype(np.float64) for array in arrays]
    expected = (
        group_norm(wide[0], wide[1], wide[2] if bias else None, groups)
        if 0 not in shape
        else wide[0]
    )
    for (found,) in (op.meaning(*arrays), run_op(op, *arrays)):
        assert (found.shape, found.dtype) == (shape, dtype)
        agree(found, expected)


JOB = """
  %x = job.input "x" : tensor<{x}x{type}>
  %s = job.input "s" : tensor<{channels}x{type}>
  %b = job.input "b" : tensor<{channels}x{type}>
  %y = op.group_norm %x, %s, %b groups {groups}
    : tensor<{x}x{type}>, tensor<{channels}x{type}>, tensor<{channels}x{type}>
    -> tensor<{x}x{type}>
  job.output "y", %y : tensor<{x}x{type}>
"""


@pytest.mark.parametrize(
    ("shape", "groups", "dtype"),
    [
        ((2, 12, 6, 6), 3, np.float32),
        ((1, 8, 5, 5), 8, np.float32),
        ((2, 96), 2, np.float16),
    ],
)
def test_results_of_threads_that_share_groups(
    shape: tuple[int, ...],
    groups: int,
    dtype: type[np.floating],
    device_kernels: Callable[[str], list[KernelOp]],
) -> None:
    facts = {
        "x": "x".join(map(str, shape)),
        "channels": shape[1],
        "groups": groups,
        "type": f"f{np.dtype(dtype).itemsize * 8}",
    }
    (kernel,) = device_kernels(JOB.format(**facts))
    source = kernel_source(kernel)
    is_shared = np.prod(shape[1:]) // groups >= 32
    assert ("blockwise=True" in source) == is_shared
    x, scale, bias = operands(shape, dtype)
    wide = [array.astype(np.float64) for array in (x, scale, bias)]
    expected = group_norm(wide[0], wide[1], wide[2], groups)
    # The result lies over the input.
    assert run_lanes(source, [array.reshape(-1) for array in (scale, bias, x)]) == 0
    agree(x, expected)


@pytest.mark.parametrize(("groups", "epsilon"), [(1, 0.25), (2, 0.5), (6, 2**-10)])
def test_the_meaning_is_that_of_onnx(groups: int, epsilon: float) -> None:
    arrays = operands((2, 6, 4, 3), np.float64)
    found = evaluated(made(arrays, groups, epsilon=epsilon), arrays)
    shapes = [array.shape for array in arrays]
    node = onnx.helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"])
    attributes: dict[str, Any] = {
        "num_groups": groups,
        "epsilon": epsilon,
        "stash_type": onnx.TensorProto.DOUBLE,
    }
    node.attribute.extend(
        onnx.helper.make_attribute(name, value) for name, value in attributes.items()
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [
            onnx.helper.make_tensor_value_info(n, onnx.TensorProto.DOUBLE, shape)
            for n, shape in zip("xsb", shapes, strict=True)
        ],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, shapes[0])],
    )
    opset = [onnx.helper.make_opsetid("", 21)]
    model = onnx.helper.make_model(graph, opset_imports=opset)
    reference: Any = ReferenceEvaluator(model)
    expected: Array = reference.run(None, dict(zip("xsb", arrays, strict=True)))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_group_a_channel_is_an_instance_normalization() -> None:
    arrays = operands((2, 5, 4, 3), np.float64)
    x, scale, bias = arrays
    mean, deviation = x.mean((2, 3), keepdims=True), x.std((2, 3), keepdims=True)
    expected = (x - mean) / np.hypot(deviation, np.sqrt(1e-5))
    expected = expected * scale[:, None, None] + bias[:, None, None]
    found = evaluated(made(arrays, 5), arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_facts() -> None:
    op = made(operands((4, 6, 3)), 2)
    assert [str(each) for each in op.sbp_signatures(2)] == ["(S(0), B, B) -> (S(0))"]
    # 5 for each group of an image, 8 for each element
    assert op.flops() == 5 * 8 + 8 * 72
    assert made(operands((4, 6, 3), bias=False), 2).flops() == 5 * 8 + 7 * 72
    assert [*op.in_place_pairs()] == [InPlacePair(0, 0)]
