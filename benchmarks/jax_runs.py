"""
The workloads in JAX: the nodes of ONNX of a workload as one compiled function.

JAX has no setting for the number of threads of XLA: its pools are as large as there are
CPUs that the process may use, so these are limited before JAX starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from benchmarks.harness import Run
    from penstock.runtime.loading.initializers import Array

Values: TypeAlias = "Sequence[Array]"
"""Operands of a node: JAX's arrays, which have the operators of NumPy's."""

Settings: TypeAlias = Mapping[str, object]
"""The attributes of a node by name."""

Meaning: TypeAlias = "Callable[[ModuleType, Values, Settings], Array]"


def start_jax(threads: int) -> ModuleType:
    """JAX on so many of the processors that this process may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    if threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    return import_module("jax")


def model_run(
    model: ModelProto, inputs: Mapping[str, Array], threads: int, *, fixed: bool = False
) -> Run:
    """
    A function that computes a model, compiled. Inputs are taken from NumPy at each run,
    or lie where JAX wants them if they are `fixed`; weights always do.
    """
    jax = start_jax(threads)
    from onnx import numpy_helper

    tensors = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    # Shapes are known when a function is compiled.
    static = {name: x for name, x in tensors.items() if x.dtype.kind == "i"}
    weights = {name: x for name, x in tensors.items() if name not in static}
    nodes, outputs = list(model.graph.node), [x.name for x in model.graph.output]
    # Before version 13 the axis of a softmax is another one, if none is given.
    axis = -1 if max(x.version for x in model.opset_import) >= 13 else 1

    def forward(
        weights: Mapping[str, Array], given: Mapping[str, Array]
    ) -> Sequence[Array]:
        values = {**static, **weights, **given}
        for node in nodes:
            values[node.output[0]] = value_of(jax, node, values, axis)
        return [values[name] for name in outputs]

    compiled = jax.jit(forward)
    placed = jax.device_put(weights)
    given = jax.device_put(dict(inputs)) if fixed else dict(inputs)

    def run() -> Sequence[Array]:
        return jax.device_get(jax.block_until_ready(compiled(placed, given)))

    return run


def value_of(
    jax: ModuleType, node: NodeProto, values: Mapping[str, Array], axis: int
) -> Array:
    """
    The result of a node, along an axis where it names none. Raises
    `NotImplementedError` for one of another kind.
    """
    from onnx import helper

    settings: dict[str, object] = {"axis": axis}
    settings |= {x.name: helper.get_attribute_value(x) for x in node.attribute}
    if (meaning := MEANINGS.get(node.op_type)) is None:
        raise NotImplementedError(f"no function of JAX for {node.op_type}")
    return meaning(jax, [values[name] for name in node.input if name], settings)


def _gemm(jax: ModuleType, values: Values, settings: Settings) -> Array:
    a, b, *rest = values
    product = jax.numpy.matmul(a, b.T if settings.get("transB") else b)
    return product + rest[0] if rest else product


def _layer_norm(jax: ModuleType, values: Values, settings: Settings) -> Array:
    x, scale, *bias = values
    centered = x - jax.numpy.mean(x, -1, keepdims=True)
    spread = jax.numpy.mean(centered * centered, -1, keepdims=True)
    found = centered * jax.lax.rsqrt(spread + 1e-5) * scale
    return found + bias[0] if bias else found


def _convolution(jax: ModuleType, values: Values, settings: Settings) -> Array:
    x, weights, *bias = values
    found = jax.lax.conv_general_dilated(
        x, weights, settings.get("strides", (1, 1)), _pads(settings)
    )
    return found + bias[0].reshape(1, -1, 1, 1) if bias else found


def _pads(settings: Settings) -> list[tuple[int, int]]:
    """The pads of both dimensions of an image."""
    top, left, bottom, right = cast("list[int]", settings.get("pads", [0] * 4))
    return [(top, bottom), (left, right)]


def _largest(jax: ModuleType, values: Values, settings: Settings) -> Array:
    window = cast("list[int]", settings["kernel_shape"])
    steps = cast("list[int]", settings.get("strides", [1, 1]))
    pads = [(0, 0), (0, 0), *_pads(settings)]
    lax = jax.lax
    return lax.reduce_window(
        values[0], -float("inf"), lax.max, (1, 1, *window), (1, 1, *steps), pads
    )


def _gelu(jax: ModuleType, values: Values, settings: Settings) -> Array:
    approximate = settings.get("approximate") == b"tanh"
    return jax.nn.gelu(values[0], approximate=approximate)


MEANINGS: Mapping[str, Meaning] = {
    "Add": lambda jax, v, s: jax.numpy.add(*v),
    "Concat": lambda jax, v, s: jax.numpy.concatenate(v, s["axis"]),
    "Conv": _convolution,
    "Dropout": lambda jax, v, s: v[0],
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda jax, v, s: v[0].mean((2, 3), keepdims=True),
    "LayerNormalization": _layer_norm,
    "MatMul": lambda jax, v, s: jax.numpy.matmul(*v),
    "MaxPool": _largest,
    "Mul": lambda jax, v, s: jax.numpy.multiply(*v),
    "Relu": lambda jax, v, s: jax.nn.relu(v[0]),
    "Reshape": lambda jax, v, s: v[0].reshape(v[1].tolist()),
    "Sigmoid": lambda jax, v, s: jax.nn.sigmoid(v[0]),
    "Softmax": lambda jax, v, s: jax.nn.softmax(v[0], s["axis"]),
    "Tanh": lambda jax, v, s: jax.numpy.tanh(v[0]),
    "Transpose": lambda jax, v, s: jax.numpy.transpose(v[0], s["perm"]),
}
"""The meaning of nodes in JAX, as far as the workloads have them."""
