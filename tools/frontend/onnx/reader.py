"""The reader of an ONNX graph, node by node, into a job."""

from __future__ import annotations

from ast import literal_eval
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    numpy_helper,
)
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa
from penstock.tools.driver.diagnostics import Diagnosis, Rejected, suggest
from penstock.tools.frontend.onnx.control import CONTROL
from penstock.tools.frontend.onnx.definitions import is_standard, is_undefined
from penstock.tools.frontend.onnx.expansion import (
    function_of,
    inner_names,
    renamed,
    schema_of,
)
from penstock.tools.frontend.onnx.graph import (
    AlreadyReported,
    Declined,
    Item,
    JobBuilder,
    Node,
    NotKnown,
    Unsupported,
    element_type_of_onnx,
)
from penstock.tools.frontend.onnx.loops import Opsets
from penstock.tools.frontend.onnx.ops import Array, Value
from penstock.tools.frontend.onnx.plugin_ops import converter_of
from penstock.tools.frontend.onnx.ports import tensor_name
from penstock.tools.frontend.onnx.sequences import SEQUENCES, items_of

NOTHING = np.zeros(0)

INSIDE = "//"
"""The mark in the names of values inside of nodes."""

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

EVALUATED_OPS = frozenset(
    {
        "Constant",
        "ConstantOfShape",
        "MelWeightMatrix",
        "NonMaxSuppression",
        "NonZero",
        "Range",
        "Unique",
    }
)
"""Ops that are not converted, but have known results where their operands are known."""


class NeedsInputs(Rejected):
    """A model that cannot be imported unless the values of these inputs are known."""

    def __init__(self, diagnoses: Sequence[Diagnosis], inputs: frozenset[str]):
        super().__init__(diagnoses)
        self.inputs = inputs


class Findings:
    """The diagnostics of a model, with the nodes concerned."""

    def __init__(self):
        self.inputs: set[str] = set()
        """Those that would have to be known."""
        self._unknown: dict[str, list[str]] = defaultdict(list)
        self._others: list[str] = []

    def add_unknown(self, proto: NodeProto, name: str) -> None:
        self._unknown[full_name(proto)].append(name)

    def add(self, text: str) -> None:
        self._others.append(text)

    def raise_if_any(self) -> None:
        notes = [
            f"  op {op} is not known: {len(nodes)} node{'s' * (len(nodes) > 1)} "
            f"({', '.join(nodes)})"
            for op, nodes in sorted(self._unknown.items())
        ]
        notes += [f"  {text}" for text in self._others]
        if any("." in op for op in self._unknown):
            notes.append("  (a plug-in can convert an op: docs/plugins/onnx-op.md)")
        if notes:
            message = "the model cannot be imported:"
            diagnoses = [Diagnosis(None, message, tuple(notes))]
            if self.inputs:
                raise NeedsInputs(diagnoses, frozenset(self.inputs))
            raise Rejected(diagnoses)


class _Evaluator(Protocol):
    """Of ONNX's evaluator, what its own annotations leave open."""

    def run(
        self, output_names: None, feed_inputs: dict[str, Array]
    ) -> Sequence[object]: ...


def first_line(error: Exception) -> str:
    """The first line of an exception, or its type."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


@dataclass
class Reader:
    """Reads a graph into a job, and goes on after what cannot be read."""

    model: ModelProto
    weights: Mapping[str, TensorProto]
    """The initializers that have no elements in the model, with them."""
    builder: JobBuilder
    findings: Findings
    known: Mapping[str, Array]
    dims: Mapping[str, int]
    maxima: Mapping[str, int]
    """The most iterations of loops by their names."""

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
                name = name_of(proto, index)
                self.builder.node = scoped_name(proto, name)
                self._read_node(proto, name, needed, self.model.opset_import)
        self.builder.node = None
        present = set(names_of(graph))
        for name in outputs:
            self._read_output(name, [each for each in known if each in present])

    def _read_inputs(self, graph: GraphProto) -> None:
        values, complain = self.builder.values, self.findings.add
        for tensor in graph.initializer:
            whole = self.weights.get(tensor.name, tensor)
            values[tensor.name] = numpy_helper.to_array(whole)
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

    def _read_node(
        self, proto: NodeProto, name: str, needed: set[str], opsets: Opsets
    ) -> None:
        if is_undefined(proto, opsets):
            return  # It is already complained about.
        if is_standard(proto) and proto.op_type in STACKING:
            proto = with_outputs_of(proto, needed)
        operands = [name for name in proto.input if name]
        values, sequences = self.builder.values, self.builder.sequences
        present = all(name in values or name in sequences for name in operands)
        is_known = present and not any(
            name in sequences or isinstance(values[name], SSAValue) for name in operands
        )
        try:
            if is_standard(proto) and proto.op_type in SEQUENCES:
                if present:
                    self._refuse_counted(operands)
                    SEQUENCES[proto.op_type](Node(proto, self.builder))
            elif present and any(name in sequences for name in operands):
                self._read_with_sequences(proto, name, opsets)
            elif is_known and is_evaluable(proto):
                self._evaluate(proto, name, operands, opsets)
            elif converter_of(full_name(proto)) is not None:
                if present:  # Else what it needs is already complained about.
                    self._convert(proto, name, needed, opsets)
            elif is_standard(proto) and proto.op_type in EVALUATED_OPS:
                if present:
                    message = "its operands are only known at run time"
                    raise NotKnown(message, proto.output[0])
            elif not self._expand(proto, name, present, opsets):
                self.findings.add_unknown(proto, name)
        except AlreadyReported:
            pass
        except (Unsupported, VerifyException) as error:
            self.findings.add(f"{proto.op_type} '{name}': {error}")
            if isinstance(error, NotKnown):
                known = {*error.inputs} or self._inputs_of(error.value)
                self.findings.inputs |= known

    def _refuse_counted(self, operands: Sequence[str]) -> None:
        """Raise `NotKnown` for an operand whose extents are not all known."""
        for name in operands:
            if self.builder.values.get(name, NOTHING) in self.builder.extents:
                raise NotKnown(f"'{name}' has an extent that is a count", name)

    def _read_with_sequences(self, proto: NodeProto, name: str, opsets: Opsets) -> None:
        """Read a node of another op, some of whose operands are sequences."""
        sequences = self.builder.sequences
        match proto.op_type if is_standard(proto) else "":
            case "Identity":
                sequences[proto.output[0]] = sequences[proto.input[0]]
            case "Loop" | "SequenceMap":
                self._expand(proto, name, True, opsets)
            case _:
                found = next(name for name in proto.input if name in sequences)
                inner = found.rpartition(INSIDE)[2]
                raise Unsupported(f"its operand '{inner}' is a sequence")

    def _inputs_of(self, name: str) -> set[str]:
        """The inputs that a value depends on."""
        # Names inside of nodes begin with an output of the node.
        needed = needed_values(self.model.graph, [name, name.partition(INSIDE)[0]])
        given = {value.name for value in self.model.graph.input}
        return needed & given - self.known.keys()

    def _evaluate(
        self, proto: NodeProto, name: str, operands: Sequence[str], opsets: Opsets
    ) -> None:
        arrays = {
            operand: value
            for operand in operands
            if not isinstance(value := self.builder.values[operand], SSAValue)
        }
        try:
            results = evaluate_node(opsets, proto, arrays)
        except Unsupported:
            # The reference lacks some ops in some versions.
            if (convert := converter_of(full_name(proto))) is not None:
                convert(Node(proto, self.builder))
            elif not self._expand(proto, name, True, opsets):
                raise
        else:
            self.builder.values.update(results)

    def _convert(
        self, proto: NodeProto, name: str, needed: set[str], opsets: Opsets
    ) -> None:
        convert = converter_of(full_name(proto))
        assert convert is not None, "asked before"
        values, extents = self.builder.values, self.builder.extents
        self.builder.output, extents.is_settled = proto.output[0], False
        try:
            convert(Node(proto, self.builder))
        except Declined:
            self._expand(proto, name, True, opsets)
            return
        for output in needed.intersection(proto.output):
            if output not in self.builder.values:
                raise Unsupported(f"its output '{output}' is not computed")
        counted = [values[x] for x in proto.input if x and values[x] in extents]
        shapes = [self.builder.ops.shape(value) for value in counted]
        for output in needed.intersection(proto.output) if counted else ():
            # A result of the shape of an operand is as long as that is.
            is_alike = self.builder.ops.shape(values[output]) in shapes
            is_settled = extents.is_settled and not is_alike
            if values[output] not in extents and not is_settled:
                message = "the extent of an operand is only known at run time"
                inputs = self.builder.inputs_of_counts(counted)
                raise NotKnown(message, output, inputs)

    # Nodes that stand for others

    def _expand(
        self, proto: NodeProto, name: str, present: bool, opsets: Opsets
    ) -> bool:
        """Read the expansion of a node; False if it has none."""
        if is_standard(proto) and proto.op_type in CONTROL:
            if present:
                CONTROL[proto.op_type](self, proto, name, opsets)
            return True
        if proto.op_type in RANDOM_OPS:
            return False
        version = next((o.version for o in opsets if o.domain == proto.domain), 1)
        if not present:
            return schema_of(proto, version) is not None
        items = [self.builder.item(name) if name else None for name in proto.input]
        function = function_of(proto, version, items)
        if function is None:
            return False
        inputs = dict(zip(function.input, proto.input, strict=False))
        names = {**dict.fromkeys(function.input, ""), **inputs}
        names |= zip(function.output, proto.output, strict=False)
        own = [*function.opset_import]
        domains = {entry.domain for entry in own}
        own += [entry for entry in opsets if entry.domain not in domains]
        self._read_body(proto, function.node, name, names, own)
        return True

    def _read_body(
        self,
        proto: NodeProto,
        nodes: Sequence[NodeProto],
        name: str,
        names: Mapping[str, str],
        opsets: Opsets,
        prefix: str = "",
    ) -> None:
        """Read the expansion of a node, whose values have these names outside."""
        first = next(filter(None, proto.output))
        inside = {output for node in nodes for output in node.output if output}
        own = {output: f"{first}{INSIDE}{prefix}{output}" for output in inside}
        own |= {
            inner: outer for inner, outer in names.items() if outer or inner not in own
        }
        copies = [renamed(node, lambda name: own.get(name, name)) for node in nodes]
        used = {name for node in copies for name in node.input}
        used |= {x for node in copies for x in inner_names(node)} | {*names.values()}
        for node in copies:
            if used.intersection(node.output):
                self._read_node(node, name, used, opsets)

    def read_graph(
        self,
        proto: NodeProto,
        graph: GraphProto,
        name: str,
        given: Sequence[Item],
        opsets: Opsets,
        prefix: str,
    ) -> list[Item]:
        """The outputs of a graph inside of a node for some inputs."""
        first = next(filter(None, proto.output))
        items = dict(zip((value.name for value in graph.input), given, strict=True))
        items |= {
            tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
        }
        names = {name: f"{first}{INSIDE}{prefix}{name}" for name in items}
        for inner, item in items.items():
            self.builder.give(names[inner], item)
        inside = {output for node in graph.node for output in node.output if output}
        names |= {output: f"{first}{INSIDE}{prefix}{output}" for output in inside}
        self._read_body(proto, graph.node, name, names, opsets, prefix)
        outer = [names.get(value.name, value.name) for value in graph.output]
        values, sequences = self.builder.values, self.builder.sequences
        if any(name not in values and name not in sequences for name in outer):
            raise AlreadyReported
        return [self.builder.item(name) for name in outer]

    @contextmanager
    def trial(self) -> Generator[None]:
        """
        Take back all that has been read, and say nothing of it, where that ends in an
        exception.
        """
        outer, self.findings = self.findings, Findings()
        try:
            with self.builder.trial():
                yield
        finally:
            self.findings = outer

    def _read_output(self, name: str, known: Iterable[str]) -> None:
        if name not in known:
            like = suggest(name, known)
            self.findings.add(f"output '{name}': there is no such value{like}")
        try:
            if name in self.builder.values:
                self.builder.add_output(name)
            elif stacks := self.builder.sequences.get(name):
                self._add_tensors(name, stacks)
        except (Unsupported, VerifyException) as error:
            self.findings.add(f"output '{name}': {error}")
            if isinstance(error, NotKnown):
                self.findings.inputs |= {*error.inputs} or self._inputs_of(name)

    def _add_tensors(self, name: str, stacks: Sequence[Value]) -> None:
        """Let each tensor of a sequence be an output."""
        builder, self.builder.output = self.builder, name
        for index, item in enumerate(items_of(builder.ops, [*stacks])):
            part = tensor_name(name, index)
            if part in builder.names:
                raise Unsupported(f"one of its tensors would be called '{part}', too")
            builder.values[part] = builder.ops.pick(item, 0, 0)
            builder.add_output(part)


STACKING = frozenset({"GRU", "LSTM", "Loop", "RNN", "Scan"})
"""Ops that have less to do if some of their outputs are not read."""


def with_outputs_of(node: NodeProto, names: set[str]) -> NodeProto:
    """A node without the names of outputs that are not among some."""
    if names.issuperset(node.output):
        return node
    copy = NodeProto.FromString(node.SerializeToString())
    copy.output[:] = [name if name in names else "" for name in node.output]
    return copy


def needed_values(graph: GraphProto, outputs: Iterable[str]) -> set[str]:
    """The names of the values that the outputs depend on."""
    needed = set(outputs)
    for proto in reversed(graph.node):
        if needed.intersection(proto.output):
            needed.update(proto.input)
            needed |= inner_names(proto)
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
    """
    The name of a node in messages: its name, else its first output, else its number.
    """
    return node.name or next(filter(None, node.output), f"#{index}")


SCOPES = "pkg.torch.onnx.name_scopes"
"""The metadata in which PyTorch's exporter lists modules, the outermost first."""


def scoped_name(node: NodeProto, name: str) -> str:
    """
    The name of a node with the scopes that it lies in: its own if that is a path, else
    one of the modules that PyTorch's exporter says, such as `/layers.0/attn/node_mul`.
    """
    said = next((x.value for x in node.metadata_props if x.key == SCOPES), "")
    if not said or "/" in name:
        return name
    try:
        scopes: object = literal_eval(said)
    except (SyntaxError, ValueError):
        return name
    if not isa(scopes, list[str]):
        return name
    # The first one is that of the model, the last one that of the node itself.
    path, outer = "", ""
    for scope in scopes[1:-1]:
        path += f"/{scope.removeprefix(f'{outer}.')}"
        outer = scope
    return f"{path}/{name}" if path else name


def full_name(proto: NodeProto) -> str:
    """The name of an op, with its domain unless it is one of ONNX's own."""
    return proto.op_type if is_standard(proto) else f"{proto.domain}.{proto.op_type}"


def is_evaluable(proto: NodeProto) -> bool:
    """Whether the results of a node follow from the operands it names."""
    has_graph = any(
        attribute.HasField("g") or attribute.graphs for attribute in proto.attribute
    )
    return is_standard(proto) and not has_graph and proto.op_type not in RANDOM_OPS


def input_type(value: ValueInfoProto, dims: Mapping[str, int]) -> TensorType:
    """
    The type of an input, some of whose extents may have names. Raises `Unsupported`
    unless it is a tensor whose shape is known, and `VerifyException` if the op dialect
    has no tensors of its element type.
    """
    if not value.type.HasField("tensor_type"):
        named = f"'{tensor_name(value.name, 0)}'"
        raise Unsupported(f"it is no tensor, and no inputs, such as {named}, are given")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise Unsupported("its shape is not known")
    extents = [
        dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, -1)
        for dim in tensor.shape.dim
    ]
    pairs = zip(tensor.shape.dim, extents, strict=True)
    if unknown := [dim.dim_param for dim, extent in pairs if extent < 0]:
        names = ", ".join(f"'{name}'" if name else "?" for name in unknown)
        named = next(filter(None, unknown), None)
        hint = f" (give --dim {named}=N)" if named else ""
        raise Unsupported(f"extents {names} of its shape are not known{hint}")
    return TensorType(element_type_of_onnx(tensor.elem_type), extents)


def evaluate_node(
    opsets: Opsets, proto: NodeProto, operands: Mapping[str, Array]
) -> dict[str, Array]:
    """
    The results of a node of these opsets whose operands are known, by ONNX's own
    reference.

    Raises `Unsupported` where that fails.
    """
    names = [name for name in proto.output if name]
    inputs = [ValueInfoProto(name=name) for name in operands]
    outputs = [ValueInfoProto(name=name) for name in names]
    graph = onnx.helper.make_graph([proto], "node", inputs, outputs)
    single = onnx.helper.make_model(graph, opset_imports=opsets)
    try:
        evaluator = cast(_Evaluator, ReferenceEvaluator(single))
        results = evaluator.run(None, dict(operands))
    except Exception as error:
        # Each op of the reference raises what it likes.
        raise Unsupported(f"it cannot be evaluated: {first_line(error)}") from error
    arrays = [np.asarray(cast(Array, result)) for result in results]
    return dict(zip(names, arrays, strict=True))
