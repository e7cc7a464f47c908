"""Reading ONNX models: from a file to a job and its weights."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import JobOp, PlacementAttr
from penstock.tools.diagnostics import Diagnosis, Rejected, UsageError
from penstock.tools.files import explain_os_error
from penstock.tools.onnx_import.converters import CONVERTERS
from penstock.tools.onnx_import.graph import (
    Array,
    JobBuilder,
    Node,
    Unsupported,
    element_type_of_onnx,
    hint,
)

OLDEST_OPSET = 13
"""The oldest version that the converters read."""

TARGET_OPSET = 18
"""The version that older models are brought to."""


@dataclass(frozen=True)
class ImportedModel:
    """
    A module with one job, the values of its variables by port, and the model that was
    imported (with random weights, if these were asked for).
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    proto: ModelProto


def read_onnx(path: Path) -> ModelProto:
    """Read and check a model. Raises UsageError if it is none."""
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except Exception as error:
        # Protocol buffers, the checker and external data each raise their own.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(f"{path} is no ONNX model: {reason}") from error
    return model


def import_file(
    path: Path, *, random_weights: int | None = None, weights_file: str = "weights.npz"
) -> ImportedModel:
    """Import a file; see `import_model`."""
    model = read_onnx(path)
    if random_weights is not None:
        model = with_random_weights(model, random_weights)
    return import_model(model, str(path), weights_file)


def import_model(
    model: ModelProto, name: str, weights_file: str = "weights.npz"
) -> ImportedModel:
    """
    The job that a model stands for; its variables start from `weights_file`.

    Raises `Rejected` with everything in the model that cannot be imported: `name` is
    what messages call it.
    """
    model = modernized(model, name)
    builder = JobBuilder(weights_file)
    complaints = _Complaints(name)
    complaints.unknown_ops(model.graph)
    _add_inputs(model.graph, builder, complaints)
    if not complaints:
        _add_nodes(model, builder, complaints)
    complaints.raise_if_any()
    for output in model.graph.output:
        builder.add_output(output.name)
    symbol = hint(model.graph.name or Path(name).stem) or "main"
    job = JobOp(symbol, PlacementAttr("cpu", [(0, 0)]), Region(builder.block))
    location = FileLineColLoc(StringAttr(name), IntAttr(1), IntAttr(1))
    for op in job.walk():
        op.location = location
    return ImportedModel(ModuleOp([job]), builder.weights, model)


def modernized(model: ModelProto, name: str) -> ModelProto:
    """The model in a version that the converters read."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if versions.get("", OLDEST_OPSET) >= OLDEST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, TARGET_OPSET)
    except Exception as error:
        # The converter is C++ and says what is wrong only in the text.
        raise UsageError(
            f"{name} cannot be brought from opset {versions['']} to {TARGET_OPSET}: "
            f"{str(error).strip()}"
        ) from error


class _Complaints:
    """What is wrong with a model, with the nodes concerned."""

    def __init__(self, name: str):
        self._name = name
        self._unknown: dict[str, list[str]] = defaultdict(list)
        self._others: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._unknown or self._others)

    def unknown_ops(self, graph: GraphProto) -> None:
        for index, node in enumerate(graph.node):
            if node.domain not in ("", "ai.onnx") or node.op_type not in KNOWN_OPS:
                title = f"{node.domain}.{node.op_type}".lstrip(".")
                self._unknown[title].append(name_of(node, index))

    def add(self, text: str) -> None:
        self._others.append(text)

    def raise_if_any(self) -> None:
        notes = [
            f"  {op}: {len(nodes)} node{'s' * (len(nodes) > 1)} ({', '.join(nodes)})"
            for op, nodes in sorted(self._unknown.items())
        ]
        notes += [f"  {text}" for text in self._others]
        if not notes:
            return
        count = len(notes)
        what = "1 thing" if count == 1 else f"{count} things"
        message = f"{what} in {self._name} cannot be imported:"
        raise Rejected([Diagnosis(None, message, tuple(notes))])


EVALUATED_OPS = frozenset({"Constant", "ConstantOfShape", "Range"})
"""Ops that are not converted, but have known results where their operands are known."""

KNOWN_OPS = frozenset(CONVERTERS) | EVALUATED_OPS


def name_of(node: NodeProto, index: int) -> str:
    """What messages call a node: its name, else its first output, else its number."""
    return node.name or next(filter(None, node.output), f"#{index}")


def _add_inputs(graph: GraphProto, builder: JobBuilder, wrong: _Complaints) -> None:
    for tensor in graph.initializer:
        builder.values[tensor.name] = numpy_helper.to_array(tensor)
    for value in graph.input:
        if value.name in builder.values:
            continue
        try:
            builder.add_input(value.name, input_type(value))
        except (Unsupported, VerifyException) as error:
            wrong.add(f"input '{value.name}': {error}")


def input_type(value: ValueInfoProto) -> TensorType:
    """
    The type of an input. Raises `Unsupported` unless it is a tensor whose shape is
    known.
    """
    if not value.type.HasField("tensor_type"):
        raise Unsupported("it is no tensor")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise Unsupported("its shape is not known")
    unknown = [dim.dim_param or "?" for dim in tensor.shape.dim if not dim.dim_value]
    if unknown:
        raise Unsupported(f"its extents {', '.join(unknown)} are not known")
    shape = [dim.dim_value for dim in tensor.shape.dim]
    return TensorType(element_type_of_onnx(tensor.elem_type), shape)


def _add_nodes(model: ModelProto, builder: JobBuilder, wrong: _Complaints) -> None:
    for index, proto in enumerate(model.graph.node):
        operands = [name for name in proto.input if name]
        if any(name not in builder.values for name in operands):
            continue  # What it needs is already complained about.
        try:
            add_node(model, proto, builder)
        except (Unsupported, VerifyException) as error:
            wrong.add(f"{proto.op_type} '{name_of(proto, index)}': {error}")


def add_node(model: ModelProto, proto: NodeProto, builder: JobBuilder) -> None:
    """Evaluate a node whose operands are known, and convert any other."""
    known = {
        name: value
        for name in proto.input
        if name and not isinstance(value := builder.values[name], SSAValue)
    }
    if len(known) == len({name for name in proto.input if name}):
        results = evaluate_node(model, proto, known)
        for name, result in zip(proto.output, results, strict=False):
            if name:
                builder.values[name] = result
        return
    if proto.op_type in EVALUATED_OPS:
        raise Unsupported("its operands are only known at run time")
    CONVERTERS[proto.op_type](Node(proto, builder))


def evaluate_node(
    model: ModelProto, proto: NodeProto, operands: Mapping[str, Array]
) -> Sequence[Array]:
    """The results of a node whose operands are known, by ONNX's own reference."""
    inputs = [onnx.ValueInfoProto(name=name) for name in operands]
    outputs = [onnx.ValueInfoProto(name=name) for name in proto.output if name]
    graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    results = ReferenceEvaluator(single).run(None, dict(operands))
    return [np.asarray(result) for result in results]


# Random weights


def with_random_weights(model: ModelProto, seed: int) -> ModelProto:
    """
    The same model with its weights replaced by random ones.

    Weights are float tensors with an axis that are initializers, or that
    `ConstantOfShape` makes. Those of matrices and convolutions are normal with the
    variance 2 / fan-in (He et al. 2015), so that activations neither grow nor vanish
    from layer to layer; other tensors are uniform in 0.5..1.5, so that variances stay
    positive. Each depends on the seed and its name alone.
    """
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    fans = fan_ins(graph)
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims):
            value = random_weight(tensor.name, list(tensor.dims), fans, seed)
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    _replace_filled(graph, fans, seed)
    return changed


def _replace_filled(graph: GraphProto, fans: Mapping[str, int], seed: int) -> None:
    """Turn the float tensors that `ConstantOfShape` makes into random initializers."""
    shapes = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    kept: list[NodeProto] = []
    for node in graph.node:
        shape = shapes.get(node.input[0]) if node.input else None
        if node.op_type != "ConstantOfShape" or shape is None or not shape.size:
            kept.append(node)
            continue
        value = random_weight(node.output[0], shape.tolist(), fans, seed)
        graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)


def random_weight(
    name: str, shape: Sequence[int], fans: Mapping[str, int], seed: int
) -> Array:
    """A float32 weight of a shape; see `with_random_weights`."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name in fans:
        value = generator.normal(0.0, sqrt(2 / fans[name]), shape)
    else:
        value = generator.uniform(0.5, 1.5, shape)
    return value.astype(np.float32)


def fan_ins(graph: GraphProto) -> dict[str, int]:
    """How many products each output is a sum of, for each matrix and convolution."""
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    contents = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
    }
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in contents:
            shapes[node.output[0]] = contents[node.input[0]].tolist()
    fans: dict[str, int] = {}
    for node in graph.node:
        if len(node.input) < 2 or not (shape := shapes.get(node.input[1])):
            continue
        if node.op_type == "Conv":
            fans[node.input[1]] = int(np.prod(shape[1:]))
        elif node.op_type == "MatMul" and len(shape) > 1:
            fans[node.input[1]] = shape[-2]
        elif node.op_type == "Gemm":
            flipped = any(a.name == "transB" and a.i for a in node.attribute)
            fans[node.input[1]] = shape[1] if flipped else shape[0]
    return fans


# The other side of a check


def run_onnxruntime(
    model: ModelProto, inputs: Mapping[str, Array], threads: int = 1
) -> dict[str, Array]:
    """
    The outputs of a model by name, computed by ONNX Runtime.

    Raises UsageError if ONNX Runtime is not installed.
    """
    try:
        # Its stubs leave most types open.
        onnxruntime = import_module("onnxruntime")
    except ImportError as error:
        raise UsageError(
            "ONNX Runtime is not installed: pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
