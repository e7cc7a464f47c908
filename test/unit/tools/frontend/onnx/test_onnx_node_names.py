"""Names of ONNX nodes: they are kept from the import to the actors of a program."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper
from xdsl.ir import Operation

from penstock.dialects.launch import ProgramOp
from penstock.dialects.utils.diagnostics import nodes_of, place_of
from penstock.tools.cli.import_model import run_tool as run_import
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.onnx.model import import_model
from penstock.tools.frontend.onnx.printing import NodePrinter
from penstock.tools.session.model import Model, compile_model
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.saved_plan.plan import read_plan, save_plan

SCOPE = "/layers.0/mlp"


def model_of_a_layer() -> ModelProto:
    """Two products with a bias and an activation, and what is done by rows."""
    generator = np.random.default_rng(5)
    shapes = {"w": (8, 8), "b": (8,), "v": (8, 8)}
    known = [
        onnx.numpy_helper.from_array(
            generator.standard_normal(shape).astype(np.float32), name
        )
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], f"{SCOPE}/up/MatMul"),
        helper.make_node("Add", ["h", "b"], ["i"], f"{SCOPE}/up/Add"),
        helper.make_node("Sigmoid", ["i"], ["s"], f"{SCOPE}/act/Sigmoid"),
        helper.make_node("Mul", ["i", "s"], ["j"], f"{SCOPE}/act/Mul"),
        helper.make_node("MatMul", ["j", "v"], ["k"], f"{SCOPE}/down/MatMul"),
        helper.make_node("Softmax", ["k"], ["y"], "/head/Softmax"),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8])
        for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "layer", ports[:1], ports[1:], known)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def names_in(op: Operation) -> set[str]:
    return {name for inner in op.walk() for name in nodes_of(inner)}


ALL = {node.name for node in model_of_a_layer().graph.node}


def test_each_op_has_the_name_of_its_node_and_the_place_of_its_model():
    (job,) = import_model(model_of_a_layer(), "layer.onnx").module.ops
    assert names_in(job) == ALL
    assert {str(place_of(op)) for op in job.walk()} == {"layer.onnx:1:1"}


def test_a_node_without_a_name_goes_by_its_first_output():
    model = model_of_a_layer()
    for node in model.graph.node:
        node.name = ""
    (job,) = import_model(model, "layer.onnx").module.ops
    assert names_in(job) == set("hisjky")


def test_a_conversion_to_a_newer_version_names_no_node():
    model = model_of_a_layer()
    model.opset_import[0].version = 11
    for node in model.graph.node[1:]:
        node.name = ""
    (job,) = import_model(model, "layer.onnx").module.ops
    assert names_in(job) == {f"{SCOPE}/up/MatMul", *"isjk"} | {"y"}


def test_names_outlive_text_fusion_and_a_saved_plan(tmp_path: Path):
    imported = import_model(model_of_a_layer(), "layer.onnx")
    text = StringIO()
    NodePrinter(text).print_op(imported.module)
    front = installed_compiler()
    module = front[0].parse(text.getvalue().encode(), "layer.mlir")
    assert names_in(module) == ALL
    executable = compile_model(
        Model(module, imported.weights, tmp_path), CompileOptions(), front
    )
    program = executable.program
    assert names_of_actors(program) == ALL
    with executable.opened_weights() as weights:
        save_plan(tmp_path / "layer.plan", executable, weights)
    saved = read_plan(tmp_path / "layer.plan").program
    assert names_of_actors(saved) == ALL
    assert [str(place_of(actor)) for actor in saved.actors] == [
        str(place_of(actor)) for actor in program.actors
    ]


def names_of_actors(program: ProgramOp) -> set[str]:
    return {name for actor in program.actors for name in nodes_of(actor)}


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("['', 'blocks.2', 'blocks.2.mlp', 'linear_8']", "/blocks.2/mlp/h"),
        ("['', 'net', 'net.0', 'net.0.act', 'x']", "/net/0/act/h"),
        ("['', 'linear']", "h"),
        ("['', 3, 'linear']", "h"),
        ("'', oops[", "h"),
    ],
)
def test_modules_that_an_exporter_says_are_scopes(said: str, name: str):
    model = model_of_a_layer()
    first = model.graph.node[0]
    first.name = ""
    first.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=said)
    model.graph.node[1].metadata_props.add(
        key="pkg.torch.onnx.name_scopes", value="['', 'other', 'x']"
    )
    (job,) = import_model(model, "layer.onnx").module.ops
    assert names_in(job) == {name, *(node.name for node in model.graph.node[1:])}


def test_a_mere_name_gets_the_line_that_it_stands_in():
    text = """job.job @p placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<1xf32> loc("n")
      job.output "y", %x : tensor<1xf32>
    }"""
    module = installed_compiler()[0].parse(text.encode(), "p.mlir")
    (op,) = (op for op in module.walk() if op.name == "job.input")
    assert nodes_of(op) == ("n",)
    assert str(place_of(op)) == "p.mlir:2:7"


def test_the_command_writes_names(tmp_path: Path):
    path = tmp_path / "layer.onnx"
    path.write_bytes(model_of_a_layer().SerializeToString())
    assert run_import([str(path)]) == 0
    text = (tmp_path / "layer.mlir").read_text(encoding="utf-8")
    assert 'loc("/layers.0/mlp/up/MatMul")' in text
    module = installed_compiler()[0].parse(text.encode(), "layer.mlir")
    assert names_in(module) == ALL
