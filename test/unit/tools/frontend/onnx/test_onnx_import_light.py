"""The nine models that ship with the package `onnx`, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from penstock.dialects.op.response_norm import LocalResponseNormOp
from penstock.tools.frontend.onnx.model import import_file, run_onnxruntime
from penstock.tools.session.differences import relative_error
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Light: TypeAlias = Callable[[str], Path]

LOGITS = {
    "bvlc_alexnet": "r24",
    "densenet121": "fc6_1",
    "inception_v1": "r143",
    "inception_v2": "r507",
    "resnet50": "r174",
    "shufflenet": "r201",
    "squeezenet": "r65",
    "vgg19": "r46",
    "zfnet512": "r20",
}
"""
The operand of the last softmax of each model, as a softmax hides most differences.
"""


def test_these_are_all(light: Light) -> None:
    folder = light("squeezenet").parent
    assert {path.stem for path in folder.glob("*.onnx")} == {
        f"light_{name}" for name in LOGITS
    }


@pytest.mark.parametrize(
    ("name", "count"), [("bvlc_alexnet", 2), ("inception_v1", 2), ("zfnet512", 2)]
)
def test_local_response_norms_are_imported(name: str, count: int, light: Light) -> None:
    nodes = onnx.load(str(light(name))).graph.node  # pyright: ignore[reportUnknownMemberType]
    assert sum(node.op_type == "LRN" for node in nodes) == count
    module = import_file(light(name)).module
    ops = [op for op in module.walk() if isinstance(op, LocalResponseNormOp)]
    assert len(ops) == count


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGITS)
def test_a_model_runs_as_in_onnx_runtime(name: str, light: Light) -> None:
    logits = LOGITS[name]
    extra = [] if name == "densenet121" else [logits]
    imported = import_file(light(name), random_weights=11, extra_outputs=extra)
    generator = np.random.default_rng(12)
    x = generator.standard_normal((1, 3, 224, 224)).astype(np.float32)
    weights = {tensor.name for tensor in imported.proto.graph.initializer}
    (port,) = (i.name for i in imported.proto.graph.input if i.name not in weights)
    wanted = run_onnxruntime(imported.proto, {port: x})
    assert wanted[logits].astype(np.float64).std() > 0.5
    with Session(Model(imported.module, imported.weights, Path())) as session:
        got = session.run({port: x})
    assert got.keys() == wanted.keys()
    for output, array in wanted.items():
        assert relative_error(got[output], array) < 1e-4
