"""Nodes of foreign domains, converted by plug-ins to ops of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from penstock.dialects.op import NegOp
from penstock.plugins import PluginError, forget, register
from penstock.tools.driver.errors import Rejected
from penstock.tools.driver.plugins import unload
from penstock.tools.frontend.onnx.graph import Node
from penstock.tools.frontend.onnx.model import import_file
from penstock.tools.frontend.onnx.session import OnnxSession

EXAMPLE = Path(__file__).parents[5] / "examples" / "plugins" / "onnx_op.py"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    unload()
    yield
    forget(__name__)
    unload()


def model_in(folder: Path, op: str = "SquareSum", domain: str = "acme") -> Path:
    """A model of a node of a foreign domain, and one of ONNX's own behind it."""
    node = helper.make_node(op, ["x"], ["s"], name="mine", domain=domain, axis=1)
    last = helper.make_node("Sqrt", ["s"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node, last], "norms", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    path = folder / "norms.onnx"
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_a_node_runs_by_an_op_of_a_loaded_file(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
    with OnnxSession(model_in(tmp_path), load=[str(EXAMPLE)]) as session:
        found = np.asarray(session.run({"x": x})["y"], np.float32)
    np.testing.assert_allclose(found, np.linalg.norm(x, axis=1), rtol=1e-5)


def test_without_it_the_page_is_named(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        import_file(model_in(tmp_path))
    assert str(caught.value).splitlines()[1:] == [
        "  op acme.SquareSum is not known: 1 node (mine)",
        "  (a plug-in can convert an op: docs/plugins/onnx-op.md)",
    ]


def fail(node: Node) -> None:
    raise ValueError("no luck")


def give_rubbish(node: Node) -> None:
    node.builder.values[node.outputs[0]] = "text"  # pyright: ignore[reportArgumentType]


def give_nothing(node: Node) -> None:
    pass


def give_without_operands(node: Node) -> None:
    node.give(NegOp)


def ask_for_a_value(node: Node) -> None:
    node.known(0, "the size")


def negate(node: Node) -> None:
    node.give(NegOp, node.tensor())


BAD: list[tuple[Callable[..., object], str]] = [
    (fail, r"onnx op 'acme.Op' fails: ValueError: no luck \(.*ops.py:\d+\)"),
    (lambda: None, r"onnx op 'acme.Op' fails: TypeError: .* \(.*ops.py:\d+\)"),
    (give_nothing, "its output 's' is not computed"),
    (give_rubbish, r"onnx op 'acme.Op' gives output 's' of type str \(.*:\d+\)"),
    (give_without_operands, "op.neg"),
    (ask_for_a_value, "the size is only known at run time"),
]


@pytest.mark.parametrize(("converter", "message"), BAD)
def test_a_bad_one_is_named_with_the_node(
    tmp_path: Path, converter: Callable[..., object], message: str
) -> None:
    register("onnx-op", "acme.Op")(converter)
    with pytest.raises(Rejected) as caught:
        import_file(model_in(tmp_path, "Op"))
    (_, line) = str(caught.value).splitlines()
    assert re.match(f"  Op 'mine': .*{message}", line), line


def test_ops_that_penstock_converts_are_taken() -> None:
    with pytest.raises(PluginError, match="there already is an onnx op 'Relu'"):
        register("onnx-op", "Relu")(fail)


def test_an_op_of_onnx_that_is_not_known_can_be_added(tmp_path: Path) -> None:
    register("onnx-op", "Bernoulli")(negate)
    node = helper.make_node("Bernoulli", ["x"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    model = helper.make_model(
        helper.make_graph([node], "g", [x], [y]),
        opset_imports=[helper.make_opsetid("", 15)],
        ir_version=8,
    )
    (tmp_path / "g.onnx").write_bytes(model.SerializeToString())
    assert "op.neg" in str(import_file(tmp_path / "g.onnx").module)
