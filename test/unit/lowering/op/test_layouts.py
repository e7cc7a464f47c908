"""
Layouts that `op-assign-layouts` chooses: what they take, and that nothing else changes.

The oracles are the job as it was, in NumPy, a search of all choices, and ONNX Runtime.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.job import JobOp
from penstock.dialects.op import Conv2dOp, TransposeOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.op import assign_layouts as op_assign_layouts
from penstock.lowering.op.assign_layouts import Layouts, assign_layouts
from penstock.lowering.pipelines import PIPELINES
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.frontend.onnx.model import import_model
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

EXTENT = 6


def random_job(seed: int, length: int) -> ModuleOp:
    """Convolutions of single pixels, elementwise ops and pools of random values."""
    random = np.random.default_rng(seed)
    lines = ["job.job @random placement <cpu, [0:0]> {"]
    images = {"x": int(random.choice([8, 24]))}
    used: set[str] = set()

    def type_of(channels: int) -> str:
        return f"tensor<1x{channels}x{EXTENT}x{EXTENT}xf32>"

    lines.append(f'%x = job.input "x" : {type_of(images["x"])}')
    for index in range(length):
        source = str(random.choice([*images]))
        channels = images[source]
        here, name = type_of(channels), f"v{index}"
        kind = random.choice(["conv2d", "conv2d", "relu", "add", "max_pool2d"])
        used.add(source)
        if kind == "conv2d":
            outputs = int(random.choice([8, 24]))
            weights = f"tensor<{outputs}x{channels}x1x1xf32>"
            start = f"init <normal, seed = {index}>"
            lines.append(f'%w{index} = job.variable "w{index}" {start} : {weights}')
            types = f"{here}, {weights} -> {type_of(outputs)}"
            lines.append(f"%{name} = op.conv2d %{source}, %w{index} : {types}")
            images[name] = outputs
            continue
        operands, types = f"%{source}", here
        if kind == "add":
            other = str(random.choice([n for n, c in images.items() if c == channels]))
            used.add(other)
            operands, types = f"{operands}, %{other}", f"{here}, {here}"
        if kind == "max_pool2d":
            operands += " kernel [1, 1]"
        lines.append(f"%{name} = op.{kind} {operands} : {types} -> {here}")
        images[name] = channels
    for name, channels in images.items():
        if name not in used:
            lines.append(f'job.output "{name}", %{name} : {type_of(channels)}')
    compiler, _ = installed_compiler()
    return compiler.parse("\n".join([*lines, "}"]).encode(), "random.mlir")


def assert_close(found: NDArray[np.generic], expected: NDArray[np.generic]) -> None:
    """Both are the same, to 1e-5 of the largest number."""
    ours, theirs = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(ours, theirs, 0, 1e-5 * float(np.abs(theirs).max()))


def job_of(module: ModuleOp) -> JobOp:
    """The one job of a module."""
    (job,) = module.body.block.ops
    assert isinstance(job, JobOp)
    return job


def products_of(module: ModuleOp, sizes: Layouts) -> float:
    """
    The products of all convolutions and conversions of a job; these have no strides.
    """
    by_shape = {
        (found.outputs, found.channels): found for found in sizes.convolutions.values()
    }
    total = 0.0
    for op in module.walk():
        if isinstance(op, Conv2dOp):
            outputs, channels, *_ = tensor_type(op.weights).get_shape()
            sides = op.input_last is not None, op.result_last is not None
            total += by_shape[outputs, channels].products(*sides)
        if isinstance(op, TransposeOp):
            is_last = op.permutation.get_values() == (0, 2, 3, 1)
            each = op_assign_layouts.TO_LAST if is_last else op_assign_layouts.TO_FIRST
            total += each * tensor_type(op.result).element_count()
    return total


@pytest.fixture
def where_all_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small images be as those that are large, and conversions be cheap."""
    for name, value in (("FAR_BYTES", 0), ("PAGE", 0), ("TO_LAST", 1), ("TO_FIRST", 1)):
        monkeypatch.setattr(op_assign_layouts, name, value)


@pytest.mark.usefixtures("where_all_is_far")
def test_jobs_compute_what_they_did_in_less():
    changed = converted = 0
    for seed in range(20):
        module = random_job(seed, 12)
        first = module.clone()
        sizes = Layouts(job_of(first))
        assign_layouts(job_of(module))
        module.verify()
        x = tensor_type(next(iter(job_of(module).body.block.ops)).results[0])
        inputs = {
            "x": np.random.default_rng(seed).normal(size=x.get_shape()).astype("f4")
        }
        expected = evaluate_model(Model(first, {}, Path()), inputs)
        found = evaluate_model(Model(module, {}, Path()), inputs)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            assert_close(found[name], array)
        transposes = sum(isinstance(op, TransposeOp) for op in module.walk())
        before, after = products_of(first, sizes), products_of(module, sizes)
        is_changed = "_last" in str(module)
        assert after < before if is_changed else after == before
        changed += is_changed
        converted += transposes > 0
    assert changed > 10
    assert converted > 2


@pytest.mark.usefixtures("where_all_is_far")
def test_no_single_change_pays_any_more():
    """Of all choices, what is chosen has no neighbour that takes 2 % less of itself."""
    best = 0
    for seed in range(10):
        module = random_job(seed, 6)
        layouts = Layouts(job_of(module))
        layouts.choose()
        groups = [*dict.fromkeys(layouts.groups.values())]
        chosen = [group.is_last for group in groups]
        totals: dict[tuple[bool, ...], float] = {}
        for choice in product((False, True), repeat=len(groups)):
            copy = module.clone()
            own = Layouts(job_of(copy))
            for group, is_last in zip(
                dict.fromkeys(own.groups.values()), choice, strict=True
            ):
                group.is_last = is_last
            op_assign_layouts.Rewrite(own).run()
            totals[choice] = products_of(copy, layouts)
        total = totals[tuple(chosen)]
        for index in range(len(groups)):
            other = [is_last != (i == index) for i, is_last in enumerate(chosen)]
            assert totals[tuple(other)] >= (1 - op_assign_layouts.LEAST_GAIN) * total
        best += total == min(totals.values())
    assert best > 5


def bottleneck() -> onnx.ModelProto:
    """Two wide values of 1.2 MiB, a sum of them, and what reads it by strides."""
    random = np.random.default_rng(7)
    weights: dict[str, NDArray[np.float32]] = {}

    def conv(
        source: str, target: str, channels: tuple[int, int], stride: int = 1
    ) -> onnx.NodeProto:
        w = random.normal(size=(*channels, 1, 1)) / np.sqrt(channels[1])
        weights[f"w_{target}"] = w.astype(np.float32)
        weights[f"b_{target}"] = random.normal(size=channels[0]).astype(np.float32)
        names = [source, f"w_{target}", f"b_{target}"]
        node = helper.make_node("Conv", names, [target])
        node.attribute.append(helper.make_attribute("strides", [stride, stride]))
        return node

    nodes = [
        conv("x", "a", (192, 24)),
        helper.make_node("Relu", ["a"], ["r"]),
        conv("r", "b", (24, 192)),
        conv("b", "d", (192, 24)),
        helper.make_node("Add", ["d", "r"], ["s"]),
        helper.make_node("Relu", ["s"], ["t"]),
        conv("t", "y", (40, 192), 2),
    ]
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "bottleneck",
        [port("x", onnx.TensorProto.FLOAT, [1, 24, 40, 40])],
        [port("y", onnx.TensorProto.FLOAT, [1, 40, 20, 20])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )


@pytest.mark.slow
def test_a_bottleneck_runs_with_channels_last():
    model = bottleneck()
    x = np.random.default_rng(3).normal(size=(1, 24, 40, 40)).astype(np.float32)
    peer: Any = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = peer.run(None, {"x": x})
    imported = import_model(model, "bottleneck")
    compiler, table = installed_compiler()
    module = imported.module.clone()
    run_pipeline(compiler, table, module, PIPELINES["cpu"])
    text = str(module)
    assert "memref<1x40x40x192xf32>" in text
    assert "op.transpose" not in text
    with Session(Model(imported.module, imported.weights, Path())) as session:
        (found,) = session.run({"x": x}).values()
    assert_close(found, expected)
