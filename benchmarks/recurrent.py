"""
Recurrent layers and a decoder: loops, ours and peers.

Run as a module, it is a process that compiles a case with an empty cache:
`python -m benchmarks.recurrent CASE` prints the seconds that this takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Opener, Run, race
from benchmarks.report import Json, Section, Table
from benchmarks.sessions import imported_model, penstock_run, runtime_run
from benchmarks.speed import flops_of, race_section

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from penstock.runtime.loading.initializers import Array

TEXT = """\
Milliseconds of a run (the median and the extremes of all rounds) and the ratio of a
peer's time to ours: above 1, we are faster. A layer is named by the width of its inputs
and of its state; batches are of one sequence. The decoder makes 64 tokens, each the
likeliest one after those before, with a layer of attention of width 128 that keeps its
keys and values; PyTorch has no such loop of its own. The target is 1.0 against ONNX
Runtime, and 1.5 against PyTorch for two layers of LSTM(32, 64)."""

MEMORY = """\
Compiling from an empty cache, in a process of its own, from the model to a session
that is loaded; below 3 s is the target for LSTM(512) x 400. Memory of activations as it
is planned, and what no plan for this order of tasks can go below."""

GATES = {"LSTM": 4, "GRU": 3}
TOKENS, WORDS, WIDTH, HIDDEN = 64, 256, 128, 512
"""The sizes of the decoder."""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Layers:
    """Recurrent layers, each on the states of the one before."""

    op: str
    features: int
    size: int
    layers: int
    steps: int


CASES: Mapping[str, Layers | None] = {
    "LSTM(32, 64) x 2, 20 steps": Layers("LSTM", 32, 64, 2, 20),
    "LSTM(32, 64) x 2, 400 steps": Layers("LSTM", 32, 64, 2, 400),
    "GRU(256), 100 steps": Layers("GRU", 256, 256, 1, 100),
    "LSTM(512), 400 steps": Layers("LSTM", 512, 512, 1, 400),
    f"decoder, {TOKENS} tokens": None,
}
"""All cases by name; the one without layers is the decoder."""


@dataclass(frozen=True)
class Case:
    """A model, its inputs and its weights."""

    model: ModelProto
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]


def case_of(name: str) -> Case:
    """The case of a name."""
    layers = CASES[name]
    return decoder_case() if layers is None else layers_case(layers)


################################################################################
# Models                                                                       #
################################################################################


Numbers = Callable[..., "Array"]
"""A function of extents and a scale that gives other numbers at each call."""


def seeded() -> Numbers:
    """Normal numbers: each array has its own, a case the same each time."""
    import numpy as np

    random = np.random.default_rng(7)

    def numbers(*shape: int, scale: float) -> Array:
        return random.normal(0, scale, shape).astype(np.float32)

    return numbers


def layers_case(layers: Layers) -> Case:
    """The outputs of all steps of the last layer."""
    import numpy as np
    from onnx import TensorProto, helper

    numbers, gates, size = seeded(), GATES[layers.op], layers.size
    weights: dict[str, Array] = {"order": np.array([layers.steps, 1, size])}
    nodes: list[NodeProto] = []
    value, width = "x", layers.features
    for number in range(layers.layers):
        own = {
            f"w{number}": numbers(1, gates * size, width, scale=width**-0.5),
            f"r{number}": numbers(1, gates * size, size, scale=size**-0.5),
            f"b{number}": numbers(1, 2 * gates * size, scale=0.1),
        }
        weights |= own
        # PyTorch's GRU has this form alone.
        facts: dict[str, Any] = {"linear_before_reset": 1} if gates == 3 else {}
        out = f"y{number}"
        node = helper.make_node(layers.op, [value, *own], [out], hidden_size=size)
        node.attribute.extend(helper.make_attribute(*fact) for fact in facts.items())
        nodes += [node, helper.make_node("Reshape", [out, "order"], [f"h{number}"])]
        value, width = f"h{number}", size
    inputs = {"x": numbers(layers.steps, 1, layers.features, scale=1.0)}
    outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)]
    return Case(model_of(nodes, inputs, weights, outputs), inputs, weights)


def decoder_case() -> Case:
    """A loop that makes tokens: their numbers, and what each was chosen by."""
    import numpy as np
    from onnx import TensorProto, helper

    numbers = seeded()
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH)}
    shapes |= {"o": (WIDTH, WIDTH), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    weights = {
        f"w_{name}": numbers(*shape, scale=shape[0] ** -0.5)
        for name, shape in shapes.items()
    }
    weights |= {
        "words": numbers(WORDS, WIDTH, scale=1.0),
        "scores_of": numbers(WIDTH, WORDS, scale=WIDTH**-0.5),
        "steps": np.array(TOKENS),
        "yes": np.array(True),
        "empty": np.zeros((TOKENS, WIDTH), np.float32),
        "places": np.arange(TOKENS)[:, None],
        "row": np.arange(TOKENS)[None],
        "least": np.array(-1e9, np.float32),
        "root": np.array(WIDTH**-0.5, np.float32),
    }
    make, info = helper.make_node, helper.make_tensor_value_info
    body = [
        make("Gather", ["words", "token"], ["x"]),
        *(make("MatMul", ["x", f"w_{name}"], [name]) for name in "qkv"),
        make("Equal", ["places", "i"], ["now"]),
        make("Where", ["now", "k", "keys"], ["new_keys"]),
        make("Where", ["now", "v", "values"], ["new_values"]),
        make("Transpose", ["new_keys"], ["turned"], perm=[1, 0]),
        make("MatMul", ["q", "turned"], ["raw"]),
        make("Mul", ["raw", "root"], ["scaled"]),
        make("LessOrEqual", ["row", "i"], ["seen"]),
        make("Where", ["seen", "scaled", "least"], ["masked"]),
        make("Softmax", ["masked"], ["shares"], axis=-1),
        make("MatMul", ["shares", "new_values"], ["mixed"]),
        make("MatMul", ["mixed", "w_o"], ["projected"]),
        make("Add", ["x", "projected"], ["h"]),
        make("MatMul", ["h", "w_up"], ["wide"]),
        make("Relu", ["wide"], ["active"]),
        make("MatMul", ["active", "w_down"], ["narrow"]),
        make("Add", ["h", "narrow"], ["out"]),
        make("MatMul", ["out", "scores_of"], ["scores"]),
        make("ArgMax", ["scores"], ["next"], axis=1, keepdims=0),
        make("Identity", ["going"], ["still"]),
    ]
    whole, real = TensorProto.INT64, TensorProto.FLOAT
    kept = [TOKENS, WIDTH]
    graph = helper.make_graph(
        body,
        "step",
        [info("i", whole, []), info("going", TensorProto.BOOL, [])]
        + [info("token", whole, [1])]
        + [info(name, real, kept) for name in ("keys", "values")],
        [info("still", TensorProto.BOOL, []), info("next", whole, [1])]
        + [info(name, real, kept) for name in ("new_keys", "new_values")]
        + [info("scores", real, [1, WORDS])],
    )
    state = ["first", "empty", "empty"]
    outputs = ["last", "all_keys", "all_values", "all_scores"]
    loop = make("Loop", ["steps", "yes", *state], outputs, body=graph)
    inputs = {"first": np.array([3])}
    ports = [info("all_scores", real, [TOKENS, 1, WORDS])]
    return Case(model_of([loop], inputs, weights, ports), inputs, weights)


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array],
    outputs: Sequence[Any],
) -> ModelProto:
    """A model of nodes."""
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "recurrent",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in inputs.items()
        ],
        outputs,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    return model


################################################################################
# Contenders                                                                   #
################################################################################


def open_penstock(name: str, threads: int) -> Run:
    """A session on the model."""
    case = case_of(name)
    return penstock_run(imported_model(case.model), case.inputs, threads)


def open_onnxruntime(name: str, threads: int) -> Run:
    """A session of ONNX Runtime on the model."""
    case = case_of(name)
    return runtime_run(case.model, case.inputs, threads)


def open_torch(name: str, threads: int) -> Run:
    """PyTorch's layers with the same weights."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    case, layers = case_of(name), CASES[name]
    assert layers is not None, "it has no decoder"
    made = getattr(torch.nn, layers.op)
    module = made(layers.features, layers.size, layers.layers).eval()
    for key, value in torch_weights(case.weights, layers).items():
        getattr(module, key).data = torch.from_numpy(value)
    x = torch.from_numpy(case.inputs["x"])

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            return [module(x)[0].numpy()]

    return run


def torch_weights(weights: Mapping[str, Array], layers: Layers) -> dict[str, Array]:
    """The weights by PyTorch's names, with gates in its order."""
    import numpy as np

    # i, o, f, c is i, f, g, o there; z, r, h is r, z, n.
    order = [0, 2, 3, 1] if layers.op == "LSTM" else [1, 0, 2]

    def sorted_gates(array: Array) -> Array:
        parts = np.split(array, len(order))
        return np.concatenate([parts[place] for place in order])

    found: dict[str, Array] = {}
    for number in range(layers.layers):
        biases = np.split(weights[f"b{number}"][0], 2)
        found |= {
            f"weight_ih_l{number}": sorted_gates(weights[f"w{number}"][0]),
            f"weight_hh_l{number}": sorted_gates(weights[f"r{number}"][0]),
            f"bias_ih_l{number}": sorted_gates(biases[0]),
            f"bias_hh_l{number}": sorted_gates(biases[1]),
        }
    return found


OPENERS: Mapping[str, Callable[[str, int], Run]] = {
    "Penstock": open_penstock,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
}
"""All contenders, ours first."""


def openers(name: str, threads: int) -> Mapping[str, Opener]:
    """The opener of each contender on a case, ours first."""
    return {
        contender: partial(opener, name, threads)
        for contender, opener in OPENERS.items()
        if CASES[name] is not None or opener is not open_torch
    }


################################################################################
# The section                                                                  #
################################################################################


def recurrent(
    threads: Sequence[int], rounds: int, names: Sequence[str] | None = None
) -> Section:
    """Time cases with each number of threads; compile them, and plan their memory."""
    from benchmarks.memory import planned_memory

    chosen = [*CASES] if names is None else names
    races = {
        (name, count): race(openers(name, count), rounds)
        for name in chosen
        for count in threads
    }
    models = {name: imported_model(case_of(name).model) for name in chosen}
    flops = {name: flops_of(model) for name, model in models.items()}
    found = race_section("Recurrent layers", TEXT, "case", races, flops, rounds)
    facts = {
        name: (cold_seconds(name), planned_memory(model.module))
        for name, model in models.items()
    }
    header = "case", "cold s", "peak", "bound", "peak / bound", "sum", "weights"
    data: Json = [
        {"case": name, "cold": seconds, **sizes}
        for name, (seconds, sizes) in facts.items()
    ]
    rows = [cells(name, *row) for name, row in facts.items()]
    return replace(
        found,
        text=f"{found.text}\n\n{MEMORY}",
        tables=[*found.tables, Table(header, rows)],
        data={"races": found.data, "compiled": data},
    )


def cells(name: str, seconds: float | None, sizes: Mapping[str, int]) -> list[str]:
    """A line of the table of what was compiled."""
    from benchmarks.memory import sizes_cells

    cold = "no result" if seconds is None else f"{seconds:.2f}"
    return [name, cold, *sizes_cells(sizes)]


def cold_seconds(name: str) -> float | None:
    """The seconds of compiling a case with an empty cache; None if that fails."""
    command = [sys.executable, "-m", "benchmarks.recurrent", name]
    with tempfile.TemporaryDirectory(prefix="penstock-cold-") as folder:
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": folder}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    return float(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> None:
    """Be the process that compiles a case."""
    from penstock.tools.session.session import Session

    case = case_of(sys.argv[1])
    start = time.perf_counter()
    with Session(imported_model(case.model)):
        print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
