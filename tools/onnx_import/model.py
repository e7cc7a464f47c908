"""Reading ONNX models: from a file to a job and its weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, numpy_helper
from onnx.inliner import inline_local_functions, inline_selected_functions
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
from penstock.tools.diagnostics import Diagnosis, Rejected, UsageError, suggest
from penstock.tools.files import explain_os_error
from penstock.tools.onnx_import.converters import CONVERTERS
from penstock.tools.onnx_import.graph import (
    Array,
    JobBuilder,
    Node,
    NotKnown,
    Unsupported,
    element_type_of_onnx,
    hint,
)
from penstock.tools.onnx_import.random_weights import with_random_weights

OLDEST_OPSET = 13
"""The oldest version that the converters read."""

TARGET_OPSET = 18
"""The version that older models are brought to."""

DEEPEST_FUNCTIONS = 4
"""How often functions are written out that are defined by functions."""

RANDOM_OPS = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Ops whose results do not follow from their operands."""

EVALUATED_OPS = frozenset({"Constant", "ConstantOfShape", "Range"})
"""Ops that are not converted, but have known results where their operands are known."""


@dataclass(frozen=True)
class ImportedModel:
    """
    A module with one job, the values of its variables by port, and the model that was
    imported, with the random weights and the further outputs that were asked for.
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    proto: ModelProto


def import_file(
    path: Path,
    *,
    random_weights: int | None = None,
    weights_file: str = "weights.npz",
    extra_outputs: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
) -> ImportedModel:
    """
    Import a file, with its weights replaced by random ones if a seed is given; see
    `import_model`.
    """
    model = read_onnx(path)
    if random_weights is not None:
        model = with_random_weights(model, random_weights)
    return import_model(model, str(path), weights_file, extra_outputs, dims=dims)


def read_onnx(path: Path) -> ModelProto:
    """Read and check a model. Raises UsageError if it is none."""
    try:
        model = cast(_Onnx, onnx).load(str(path))
        cast(_Onnx, onnx).checker.check_model(model)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except Exception as error:
        # Protocol buffers, the checker and external data each raise their own.
        raise UsageError(f"{path} is no ONNX model: {first_line(error)}") from error
    return model


class _Checker(Protocol):
    def check_model(self, model: ModelProto) -> None: ...


class _Onnx(Protocol):
    """Of the package `onnx`, what its own annotations leave partly open."""

    checker: _Checker

    def load(self, f: str) -> ModelProto: ...


class _Schema(Protocol):
    """Of the definition of an op, what `onnx` leaves without annotations."""

    has_function: bool
    has_context_dependent_function: bool


class _Evaluator(Protocol):
    """Of ONNX's evaluator, what its own annotations leave open."""

    def run(
        self, output_names: None, feed_inputs: dict[str, Array]
    ) -> Sequence[object]: ...


def first_line(error: Exception) -> str:
    """What an exception says first, or what it is."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def import_model(
    model: ModelProto,
    name: str,
    weights_file: str = "weights.npz",
    extra_outputs: Sequence[str] = (),
    known: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
) -> ImportedModel:
    """
    The job that a model stands for; its variables start from `weights_file`.

    `dims` are the extents that names in the shapes of inputs stand for.

    `extra_outputs` names values of the graph that become outputs beside those it has.
    A node that no output depends on is left out. Inputs whose values are `known` are
    no inputs of the job, which is made for these values alone. Raises `Rejected` with
    everything in the model that cannot be imported (`NeedsInputs` if it could be, were
    more inputs known), and UsageError if it cannot be brought to a newer version:
    `name` is what messages call it.
    """
    builder, complaints = JobBuilder(weights_file), _Complaints()
    check_dims(model, dims or {})
    modern = modernized(model, name)
    reader = _Reader(modern, builder, complaints, known or {}, dims or {})
    given = [output.name for output in model.graph.output]
    outputs = list(dict.fromkeys([*given, *extra_outputs]))
    reader.read(outputs, names_of(model.graph))
    reader.complaints.raise_if_any()
    symbol = hint(model.graph.name or Path(name).stem) or "main"
    region = Region(reader.builder.block)
    job = JobOp(symbol, PlacementAttr("cpu", [(0, 0)]), region)
    location = FileLineColLoc(StringAttr(name), IntAttr(1), IntAttr(1))
    for op in job.walk():
        op.location = location
    proto = with_outputs(model, outputs)
    return ImportedModel(ModuleOp([job]), reader.builder.weights, proto)


def check_dims(model: ModelProto, dims: Mapping[str, int]) -> None:
    """Raise UsageError for a dimension that no input of a model has."""
    names = {
        dim.dim_param
        for value in model.graph.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    for name in dims:
        if name not in names:
            like = suggest(name, names)
            raise UsageError(f"no input has a dimension '{name}'{like}")


def import_for(
    model: ModelProto, name: str, inputs: Mapping[str, Array]
) -> ImportedModel:
    """
    The job that a model stands for where some inputs have these values: those that it
    cannot be imported without, such as shapes. See `import_model`.
    """
    known: dict[str, Array] = {}
    while True:
        try:
            return import_model(model, name, known=known)
        except NeedsInputs as error:
            missing = error.inputs & inputs.keys() - known.keys()
            if not missing:
                raise
            known |= {input: inputs[input] for input in sorted(missing)}


def modernized(model: ModelProto, name: str) -> ModelProto:
    """
    The model in a version that the converters read, with the functions that it defines
    written out. Raises UsageError if it cannot be brought there.
    """
    versions = {
        entry.domain or "ai.onnx": entry.version for entry in model.opset_import
    }
    version = versions.get("ai.onnx", OLDEST_OPSET)
    try:
        if model.functions:
            model = inline_local_functions(model)
        if version < OLDEST_OPSET:
            model = onnx.version_converter.convert_version(model, TARGET_OPSET)
        return with_functions_inlined(model)
    except Exception as error:
        # Both are C++ and say what is wrong only in the text.
        raise UsageError(
            f"{name} cannot be brought from opset {version} to {TARGET_OPSET}: "
            f"{first_line(error)}"
        ) from error


def with_functions_inlined(model: ModelProto) -> ModelProto:
    """The model in which ops are written out that ONNX defines by ops we convert."""
    for depth in range(DEEPEST_FUNCTIONS):
        used = {proto.op_type for proto in model.graph.node if is_standard(proto)}
        unknown = used - CONVERTERS.keys() - EVALUATED_OPS - RANDOM_OPS
        found = [("", op) for op in sorted(unknown) if has_function(op)]
        if not found:
            break
        if depth > 0:
            # What a function is may depend on types, which new values lack.
            model = onnx.shape_inference.infer_shapes(model)
        model = inline_selected_functions(model, found, False, True)
    return model


def has_function(op: str) -> bool:
    """Whether ONNX defines an op by other ops."""
    if not onnx.defs.has(op):
        return False
    schema = cast(_Schema, onnx.defs.get_schema(op))
    return schema.has_function or schema.has_context_dependent_function


def with_outputs(model: ModelProto, outputs: Iterable[str]) -> ModelProto:
    """The model with further outputs; it is copied only if it lacks one."""
    given = {output.name for output in model.graph.output}
    missing = [name for name in outputs if name not in given]
    if not missing:
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.graph.output.extend(ValueInfoProto(name=name) for name in missing)
    return changed


class NeedsInputs(Rejected):
    """A model that cannot be imported unless the values of these inputs are known."""

    def __init__(self, diagnoses: Sequence[Diagnosis], inputs: frozenset[str]):
        super().__init__(diagnoses)
        self.inputs = inputs


class _Complaints:
    """What is wrong with a model, with the nodes concerned."""

    def __init__(self):
        self.inputs: set[str] = set()
        """Those that would have to be known."""
        self._unknown: dict[str, list[str]] = defaultdict(list)
        self._others: list[str] = []

    def add_unknown(self, proto: NodeProto, name: str) -> None:
        self._unknown[f"{proto.domain}.{proto.op_type}".lstrip(".")].append(name)

    def add(self, text: str) -> None:
        self._others.append(text)

    def raise_if_any(self) -> None:
        notes = [
            f"  op {op} is not known: {len(nodes)} node{'s' * (len(nodes) > 1)} "
            f"({', '.join(nodes)})"
            for op, nodes in sorted(self._unknown.items())
        ]
        notes += [f"  {text}" for text in self._others]
        if notes:
            message = "the model cannot be imported:"
            diagnoses = [Diagnosis(None, message, tuple(notes))]
            if self.inputs:
                raise NeedsInputs(diagnoses, frozenset(self.inputs))
            raise Rejected(diagnoses)


@dataclass
class _Reader:
    """Reads a graph into a job, and goes on after what cannot be read."""

    model: ModelProto
    builder: JobBuilder
    complaints: _Complaints
    known: Mapping[str, Array]
    dims: Mapping[str, int]

    def read(self, outputs: Sequence[str], known: Sequence[str]) -> None:
        """
        Read the graph, whose values of these names are the outputs. Only values that
        are `known` to who asks for them can be.
        """
        graph = self.model.graph
        self._read_inputs(graph)
        needed = needed_values(graph, outputs)
        for index, proto in enumerate(graph.node):
            if needed.intersection(proto.output):
                self._read_node(proto, name_of(proto, index), needed)
        present = set(names_of(graph))
        for name in outputs:
            self._read_output(name, [each for each in known if each in present])

    def _read_inputs(self, graph: GraphProto) -> None:
        values, complain = self.builder.values, self.complaints.add
        for tensor in graph.initializer:
            values[tensor.name] = numpy_helper.to_array(tensor)
        for sparse in graph.sparse_initializer:
            complain(f"initializer '{sparse.values.name}': it is sparse")
        for value in graph.input:
            if value.name in values:
                continue
            if value.name in self.known:
                values[value.name] = self.known[value.name]
                continue
            try:
                self.builder.add_input(value.name, input_type(value, self.dims))
            except (Unsupported, VerifyException) as error:
                complain(f"input '{value.name}': {error}")

    def _read_node(self, proto: NodeProto, name: str, needed: set[str]) -> None:
        operands = [name for name in proto.input if name]
        present = all(name in self.builder.values for name in operands)
        is_known = present and not any(
            isinstance(self.builder.values[name], SSAValue) for name in operands
        )
        try:
            if is_known and is_evaluable(proto):
                self._evaluate(proto, operands)
            elif is_standard(proto) and proto.op_type in CONVERTERS:
                if present:  # Else what it needs is already complained about.
                    self._convert(proto, needed)
            elif is_standard(proto) and proto.op_type in EVALUATED_OPS:
                if present:
                    message = "its operands are only known at run time"
                    raise NotKnown(message, proto.output[0])
            else:
                self.complaints.add_unknown(proto, name)
        except (Unsupported, VerifyException) as error:
            self.complaints.add(f"{proto.op_type} '{name}': {error}")
            if isinstance(error, NotKnown):
                self.complaints.inputs |= self._inputs_of(error.value)

    def _inputs_of(self, name: str) -> set[str]:
        """The inputs that a value depends on."""
        needed = needed_values(self.model.graph, [name])
        given = {value.name for value in self.model.graph.input}
        return needed & given - self.known.keys()

    def _evaluate(self, proto: NodeProto, operands: Sequence[str]) -> None:
        arrays = {
            name: value
            for name in operands
            if not isinstance(value := self.builder.values[name], SSAValue)
        }
        results = evaluate_node(self.model, proto, arrays)
        self.builder.values.update(results)

    def _convert(self, proto: NodeProto, needed: set[str]) -> None:
        CONVERTERS[proto.op_type](Node(proto, self.builder))
        for output in needed.intersection(proto.output):
            if output not in self.builder.values:
                raise Unsupported(f"its output '{output}' is not computed")

    def _read_output(self, name: str, known: Iterable[str]) -> None:
        if name not in known:
            like = suggest(name, known)
            self.complaints.add(f"output '{name}': there is no such value{like}")
        if name not in self.builder.values:
            return  # What it needs is already complained about.
        try:
            self.builder.add_output(name)
        except VerifyException as error:
            self.complaints.add(f"output '{name}': {error}")


def needed_values(graph: GraphProto, outputs: Iterable[str]) -> set[str]:
    """The names of the values that the outputs depend on."""
    needed = set(outputs)
    for proto in reversed(graph.node):
        if needed.intersection(proto.output):
            needed.update(proto.input)
    needed.discard("")
    return needed


def names_of(graph: GraphProto) -> list[str]:
    """The names of all values of a graph."""
    names = [value.name for value in graph.input]
    names += [tensor.name for tensor in graph.initializer]
    names += [tensor.values.name for tensor in graph.sparse_initializer]
    names += [output for proto in graph.node for output in proto.output if output]
    return list(dict.fromkeys(names))


def name_of(node: NodeProto, index: int) -> str:
    """What messages call a node: its name, else its first output, else its number."""
    return node.name or next(filter(None, node.output), f"#{index}")


def is_standard(proto: NodeProto) -> bool:
    """Whether an op is one of ONNX's own."""
    return proto.domain in ("", "ai.onnx")


def is_evaluable(proto: NodeProto) -> bool:
    """Whether the results of a node follow from the operands it names."""
    has_graph = any(
        attribute.HasField("g") or attribute.graphs for attribute in proto.attribute
    )
    return is_standard(proto) and not has_graph and proto.op_type not in RANDOM_OPS


def input_type(value: ValueInfoProto, dims: Mapping[str, int]) -> TensorType:
    """
    The type of an input, some of whose extents may have names. Raises `Unsupported` unless it is a tensor whose shape is
    known, and `VerifyException` if the op dialect has no tensors of its element type.
    """
    if not value.type.HasField("tensor_type"):
        raise Unsupported("it is no tensor")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise Unsupported("its shape is not known")
    extents = [
        dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, -1)
        for dim in tensor.shape.dim
    ]
    unknown = [
        f"'{dim.dim_param}'" if dim.dim_param else "?"
        for dim, extent in zip(tensor.shape.dim, extents, strict=True)
        if extent < 0
    ]
    if unknown:
        raise Unsupported(f"extents {', '.join(unknown)} of its shape are not known")
    return TensorType(element_type_of_onnx(tensor.elem_type), extents)


def evaluate_node(
    model: ModelProto, proto: NodeProto, operands: Mapping[str, Array]
) -> dict[str, Array]:
    """
    The results of a node of a model whose operands are known, by ONNX's own reference.

    Raises `Unsupported` where that fails or gives no tensors.
    """
    names = [name for name in proto.output if name]
    inputs = [ValueInfoProto(name=name) for name in operands]
    outputs = [ValueInfoProto(name=name) for name in names]
    graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
    single = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    try:
        evaluator = cast(_Evaluator, ReferenceEvaluator(single))
        results = evaluator.run(None, dict(operands))
    except Exception as error:
        # Each op of the reference raises what it likes.
        raise Unsupported(f"it cannot be evaluated: {first_line(error)}") from error
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        raise Unsupported("its results are no tensors")
    arrays = [np.asarray(cast(Array, result)) for result in results]
    return dict(zip(names, arrays, strict=True))


# The other side of a check


def run_onnxruntime(
    model: ModelProto, inputs: Mapping[str, Array], threads: int = 1
) -> dict[str, Array]:
    """
    The outputs of a model by name, computed by ONNX Runtime.

    Raises UsageError if ONNX Runtime is not installed or cannot run the model.
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
    options.log_severity_level = 4  # What goes wrong is raised as well.
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))
    except Exception as error:
        # Its exceptions have no base of their own.
        reason = first_line(error)
        raise UsageError(f"ONNX Runtime cannot run the model: {reason}") from error
