"""
Attention alone, and a step of a decoder that keeps keys and values: ours and peers.

All inputs come at run time, masks too, but those that are causal. Peers compute a case
as they are asked to: ONNX Runtime from the same model, PyTorch by
`scaled_dot_product_attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import sqrt
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.harness import Opener, Run, race
from benchmarks.report import Section
from benchmarks.sessions import imported_model, penstock_run, runtime_run
from benchmarks.speed import flops_of, race_section

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto
    from torch import Tensor

    from penstock.runtime.loading.initializers import Array

    Tensors: TypeAlias = Mapping[str, Tensor]
    Forward: TypeAlias = Callable[[Tensors], Sequence[Tensor]]

TEXT = """\
Milliseconds of a run (the median and the extremes of all rounds) and the ratio of a
peer's time to ours: above 1, we are faster. A case is named by its heads, its queries
and, where there are others, its keys, and by the width of a head; `mask` adds a number
to each score; `causal` hides what comes after a query, of PyTorch by `is_causal`, of
others by a constant that is added; `step` is a layer of GPT-2 for one token after many,
whose keys and values it reads and writes with its own."""

WIDTH, HEADS, HIDDEN, PAST = 768, 12, 3072, 1023
"""The sizes of a layer of GPT-2, and the tokens before."""

CASES = (
    *("12x128x64", "12x1024x64", "12x1024x64-mask", "12x1024x64-causal"),
    *("12x1:1024x64", "step"),
)
"""Names of cases."""


@dataclass(frozen=True)
class Case:
    """A model of attention, with its inputs and weights."""

    model: ModelProto
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]
    forward: Forward
    """The computation in PyTorch, on inputs and weights."""


def case_of(name: str) -> Case:
    """The case of a name."""
    return step() if name == "step" else attention_alone(name)


def attention_alone(name: str) -> Case:
    """Softmax of scaled products of queries and keys, times values."""
    import numpy as np
    from onnx import helper

    text, _, masked = name.partition("-")
    heads, rows, width = text.split("x")
    queries, _, keys = rows.partition(":")
    keys = keys or queries
    shapes = {"q": queries, "k": keys, "v": keys}
    inputs = {
        name: normal(1, int(heads), int(extent), int(width))
        for name, extent in shapes.items()
    }
    nodes = list(mixing("q", "k", "v", "y", "m" if masked else None))
    weights: dict[str, Array] = {"scale": np.array(1 / sqrt(64), np.float32)}
    is_causal = masked == "causal"
    if is_causal:
        seen = np.tri(int(queries), int(keys), dtype=np.bool_)
        weights["m"] = np.where(seen, np.float32(0), np.float32(-np.inf))
    elif masked:
        inputs["m"] = normal(int(queries), int(keys))

    def forward(given: Tensors) -> Sequence[Tensor]:
        from torch.nn import functional

        q, k, v = (given[name] for name in "qkv")
        mask = None if is_causal else given.get("m")
        return [
            functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=is_causal, scale=1 / sqrt(64)
            )
        ]

    outputs = [helper.make_tensor_value_info("y", 1, inputs["q"].shape)]
    model = model_of(nodes, inputs, weights, outputs)
    return Case(model, inputs, weights, forward)


def mixing(q: str, k: str, v: str, y: str, mask: str | None) -> Sequence[NodeProto]:
    """The nodes of attention."""
    from onnx import helper

    make = helper.make_node
    scores = "scores" if mask is None else "masked"
    masking = [] if mask is None else [make("Add", ["scores", mask], [scores])]
    return [
        make("Transpose", [k], ["turned"], perm=[0, 1, 3, 2]),
        make("MatMul", [q, "turned"], ["products"]),
        make("Mul", ["products", "scale"], ["scores"]),
        *masking,
        make("Softmax", [scores], ["shares"], axis=-1),
        make("MatMul", ["shares", v], [y]),
    ]


def step() -> Case:
    """One token goes through a layer of GPT-2."""
    from onnx import helper

    make = helper.make_node
    weights = step_weights()
    inputs = {"x": normal(1, 1, WIDTH)}
    inputs |= {name: normal(1, HEADS, PAST, 64) for name in ("past_k", "past_v")}
    nodes = [make("LayerNormalization", ["x", "g1", "n1"], ["a"], axis=-1)]
    for name in "qkv":
        nodes += linear("a", name, name)
        nodes.append(make("Reshape", [name, "split"], [f"{name}_split"]))
        perm = [0, 2, 1, 3]
        nodes.append(make("Transpose", [f"{name}_split"], [f"{name}_own"], perm=perm))
    for name in "kv":
        parts = [f"past_{name}", f"{name}_own"]
        nodes.append(make("Concat", parts, [f"{name}_all"], axis=2))
    nodes += mixing("q_own", "k_all", "v_all", "mixed", None)
    nodes.append(make("Transpose", ["mixed"], ["joined"], perm=[0, 2, 1, 3]))
    nodes.append(make("Reshape", ["joined", "flat"], ["attended"]))
    nodes += [
        *linear("attended", "o", "projected"),
        make("Add", ["x", "projected"], ["s"]),
    ]
    nodes.append(make("LayerNormalization", ["s", "g2", "n2"], ["b"], axis=-1))
    nodes += [*linear("b", "f", "wide"), make("Gelu", ["wide"], ["active"])]
    nodes += [*linear("active", "w", "narrow"), make("Add", ["s", "narrow"], ["y"])]
    outputs = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (
            ("y", (1, 1, WIDTH)),
            ("k_all", (1, HEADS, PAST + 1, 64)),
            ("v_all", (1, HEADS, PAST + 1, 64)),
        )
    ]
    model = model_of(nodes, inputs, weights, outputs)
    return Case(model, inputs, weights, step_forward)


def linear(source: str, name: str, target: str) -> list[NodeProto]:
    """The nodes of a linear layer."""
    from onnx import helper

    return [
        helper.make_node("MatMul", [source, f"{name}_w"], [f"{name}_product"]),
        helper.make_node("Add", [f"{name}_product", f"{name}_b"], [target]),
    ]


def step_weights() -> dict[str, Array]:
    """Weights of a layer, and numbers that nodes take."""
    import numpy as np

    weights: dict[str, Array] = {
        "split": np.array([1, 1, HEADS, 64], np.int64),
        "flat": np.array([1, 1, WIDTH], np.int64),
        "scale": np.array(1 / sqrt(64), np.float32),
    }
    sizes = {name: (WIDTH, WIDTH) for name in "qkvo"}
    sizes |= {"f": (WIDTH, HIDDEN), "w": (HIDDEN, WIDTH)}
    for name, (rows, columns) in sizes.items():
        weights[f"{name}_w"] = normal(rows, columns, scale=1 / sqrt(rows))
        weights[f"{name}_b"] = normal(columns, scale=0.1)
    for name in "12":
        weights[f"g{name}"] = normal(WIDTH, scale=0.1)
        weights[f"n{name}"] = normal(WIDTH, scale=0.1)
    return weights


def step_forward(given: Tensors) -> Sequence[Tensor]:
    """The same layer in PyTorch."""
    import torch
    from torch.nn import functional

    def apply(name: str, x: Tensor) -> Tensor:
        return functional.linear(x, given[f"{name}_w"].t(), given[f"{name}_b"])

    def norm(name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, (WIDTH,), given[f"g{name}"], given[f"n{name}"])

    def heads(name: str, x: Tensor) -> Tensor:
        return apply(name, x).view(1, 1, HEADS, -1).transpose(1, 2)

    x = given["x"]
    a = norm("1", x)
    k, v = (torch.cat([given[f"past_{name}"], heads(name, a)], 2) for name in "kv")
    mixed = functional.scaled_dot_product_attention(heads("q", a), k, v)
    s = x + apply("o", mixed.transpose(1, 2).reshape(1, 1, WIDTH))
    return [s + apply("w", functional.gelu(apply("f", norm("2", s)))), k, v]


def normal(*shape: int, scale: float = 1.0) -> Array:
    """Normal f32 numbers that depend on the shape alone."""
    import numpy as np

    random = np.random.default_rng([5, *shape])
    return random.normal(0, scale, shape).astype(np.float32)


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array],
    outputs: Sequence[ValueInfoProto],
) -> ModelProto:
    """A model of nodes."""
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(name, 1, value.shape)
            for name, value in inputs.items()
        ],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model


def open_penstock(name: str, threads: int) -> Run:
    """A session on the model."""
    case = case_of(name)
    return penstock_run(imported_model(case.model), case.inputs, threads)


def open_onnxruntime(name: str, threads: int) -> Run:
    """A session on the model."""
    case = case_of(name)
    return runtime_run(case.model, case.inputs, threads)


def open_torch(name: str, threads: int, compiled: bool = False) -> Run:
    """PyTorch's function, compiled or operation by operation."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    case = case_of(name)
    arrays = {**case.inputs, **case.weights}
    given = {name: torch.from_numpy(value) for name, value in arrays.items()}
    forward = torch.compile(case.forward) if compiled else case.forward

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            return [value.numpy() for value in forward(given)]

    return run


def open_jax(name: str, threads: int) -> Run:
    """The nodes of the model as one function that JAX compiles."""
    from benchmarks.jax_runs import model_run

    case = case_of(name)
    return model_run(case.model, case.inputs, threads)


OPENERS: Mapping[str, Callable[[str, int], Run]] = {
    "Penstock": open_penstock,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
    "PyTorch compiled": partial(open_torch, compiled=True),
    "JAX": open_jax,
}
"""All contenders, ours first."""


def attention(
    threads: Sequence[int], rounds: int, names: Sequence[str] = CASES
) -> Section:
    """Time cases with each number of threads."""
    races = {
        (name, count): race(openers(name, count), rounds)
        for name in names
        for count in threads
    }
    flops = {name: flops_of(imported_model(case_of(name).model)) for name in names}
    return race_section("Attention", TEXT, "case", races, flops, rounds)


def openers(name: str, threads: int) -> Mapping[str, Opener]:
    """The opener of each contender on a case, ours first."""
    return {
        contender: partial(opener, name, threads)
        for contender, opener in OPENERS.items()
    }
