"""Reading ONNX models: from a file to a job and its weights."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path, PureWindowsPath
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
)
from onnx.inliner import inline_local_functions
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Attribute, Region

from penstock.dialects.job import JobOp, PlacementAttr
from penstock.runtime.loading.initializers import WeightFiles
from penstock.tools.driver.diagnostics import FileError, UsageError, suggest
from penstock.tools.driver.errors import reading
from penstock.tools.driver.files import explain_os_error
from penstock.tools.frontend.onnx.batch_scans import without_batch_scans
from penstock.tools.frontend.onnx.channels import fold_channels
from penstock.tools.frontend.onnx.control import loop_names
from penstock.tools.frontend.onnx.counted import BOUNDED
from penstock.tools.frontend.onnx.definitions import (
    UNDEFINED,
    nodes_in,
    undefined_nodes,
)
from penstock.tools.frontend.onnx.graph import JobBuilder, hint
from penstock.tools.frontend.onnx.ops import Array
from penstock.tools.frontend.onnx.ports import inputs_of, tensor_name, with_tensors
from penstock.tools.frontend.onnx.random_weights import (
    FLOAT_TYPES,
    dtype_of,
    with_random_weights,
)
from penstock.tools.frontend.onnx.reader import (
    Findings,
    NeedsInputs,
    Reader,
    first_line,
    name_of,
    names_of,
)
from penstock.tools.frontend.onnx.sampling import COORDINATES
from penstock.tools.session.equal_variables import merge_equal

log = logging.getLogger(__name__)

Part = TypeVar("Part", bound=Message)

OLDEST_OPSET = 13
"""The oldest version that the converters read."""

OPSET_OF_BATCH_SCANS = 8
"""The only version whose scans run over batches."""

OPSET_OF_HALF_PIXELS = 16
"""From here on regions of images begin half an element before their corner."""

TARGET_OPSET = 18
"""The version that older models are brought to."""

LARGEST_KNOWN = 1024
"""
The bytes up to which a tensor of floats may be read by ONNX's converter, as scales are.
"""


@dataclass(frozen=True)
class ImportedModel:
    """
    A module with one job, the values of its variables by port, and the model that was
    imported, with the random weights and the further outputs that were asked for.
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    proto: ModelProto
    known: frozenset[str] = frozenset()
    """The inputs that are none of the job's, as it is made for their values."""


def import_file(
    path: Path,
    *,
    random_weights: int | None = None,
    weights_file: str = "weights.npz",
    extra_outputs: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, Array] | None = None,
    separate_weights: bool = False,
    maxima: Mapping[str, int] | None = None,
) -> ImportedModel:
    """
    Import a file, with its weights replaced by random ones if a seed is given; see
    `import_for`. Extents of inputs that are left open are those of `inputs`.
    """
    model = read_onnx(path)
    log.debug("%s: a graph of %d nodes", path, len(model.graph.node))
    if inputs is not None:
        model = closed(model, inputs, dims or {})
    if random_weights is not None:
        model = with_random_weights(model, random_weights)
    return import_for(
        model,
        str(path),
        inputs or {},
        weights_file,
        extra_outputs,
        dims,
        separate_weights=separate_weights,
        maxima=maxima,
    )


def read_onnx(path: Path) -> ModelProto:
    """Read and check a model. Raises FileError if it is none, or lacks weights."""
    library, model = cast(_Onnx, onnx), _without_data(path)
    _data_files_of(model, path)
    with _reading(path, f"cannot read the weights of {path}"):
        library.load_external_data_for_model(model, str(path.parent))
    with _reading(path, f"{path} is no ONNX model"):
        library.checker.check_model(to_check(model, path))
    return model


def _without_data(path: Path) -> ModelProto:
    """The model in a file, without what lies in others."""
    with _reading(path, f"{path} is no ONNX model"):
        return cast(_Onnx, onnx).load(str(path), load_external_data=False)


@contextmanager
def _reading(path: Path, what: str) -> Generator[None]:
    """Raise UsageError for a file that cannot be read, FileError for a wrong one."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except Exception as error:
        # Protocol buffers, the checker and external data each raise their own; what
        # the checker says of a node goes over several lines.
        reason = " ".join(str(error).partition("\n\n")[0].split())
        raise FileError(f"{what}: {reason}") from error


def data_files(path: Path) -> Sequence[str]:
    """
    The files in which tensors of a model lie, beside its own, as it names them. Raises
    FileError if it is none, or names one outside of its folder.
    """
    return _data_files_of(_without_data(path), path)


def _data_files_of(model: ModelProto, path: Path) -> Sequence[str]:
    places = (
        entry.value
        for tensor in tensors_in(model)
        for entry in tensor.external_data
        if entry.key == "location"
    )
    files = sorted({*places})
    for file in files:
        # As Windows reads a name, on whatever system, there are more of them.
        parts = PureWindowsPath(file)
        if parts.anchor or ".." in parts.parts:
            reason = f"'{file}' lies outside of its folder"
            raise FileError(f"cannot read the weights of {path}: {reason}")
    return files


def tensors_in(message: Message) -> Iterator[TensorProto]:
    """All tensors of a model, or of a part of it."""
    return (part for part in messages_in(message) if isinstance(part, TensorProto))


def messages_in(message: Message) -> Iterator[Message]:
    """A model, or a part of it, and all that it is made of."""
    yield message
    if isinstance(message, TensorProto):
        return
    for _, value in message.ListFields():
        if isinstance(value, Message):
            yield from messages_in(value)
        elif not isinstance(value, (str, bytes, int, float)):
            # Those of a field are of one kind.
            parts = value if value and isinstance(value[0], Message) else ()
            for part in parts:
                yield from messages_in(part)


def to_check(model: ModelProto, path: Path) -> ModelProto | str:
    """
    The input of the checker: the path of a model, since no message of protocol buffers
    has more than 2 GiB. Inputs and outputs without shapes, which it refuses though they
    can be run, are given some in a copy, and ops that it does not know, the first of
    which it would name alone, a domain in which it looks for none.
    """
    ports = (*model.graph.input, *model.graph.output)
    if all(map(has_shape, ports)) and not undefined_nodes(model):
        return str(path)
    copy = ModelProto()
    copy.CopyFrom(model)
    set_undefined_apart(copy)
    for value in copy.graph.output:
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in (*copy.graph.input, *copy.graph.output):
        if not has_shape(value):
            value.type.tensor_type.shape.SetInParent()
    return copy


def set_undefined_apart(model: ModelProto) -> None:
    """Let ops without a definition be of a domain of their own."""
    for proto in undefined_nodes(model):
        proto.domain = UNDEFINED
    model.opset_import.add(domain=UNDEFINED, version=1)


def has_shape(value: ValueInfoProto) -> bool:
    """Whether a value has a shape, if it is a tensor, or may be one."""
    if not value.HasField("type"):
        return False
    is_tensor = value.type.HasField("tensor_type")
    return not is_tensor or value.type.tensor_type.HasField("shape")


def closed(
    model: ModelProto, inputs: Mapping[str, Array], dims: Mapping[str, int]
) -> ModelProto:
    """
    The model with tensors for inputs that are none (`with_tensors`), and with the
    extents of arrays, which are set in place, where it leaves some open.
    """
    model = with_tensors(model, inputs)
    for value in inputs_of(model.graph):
        if value.name in inputs:
            close_extents(value, inputs[value.name].shape, dims)
    return model


def close_extents(
    value: ValueInfoProto, shape: Sequence[int], dims: Mapping[str, int]
) -> None:
    """
    Give an input the extents of an array where it has none of its own, nor a name that
    `dims` knows; nothing if the array has another number of axes.
    """
    type = value.type.tensor_type
    if not has_shape(value):
        type.shape.SetInParent()
        type.shape.dim.extend(TensorShapeProto.Dimension() for _ in shape)
    if len(type.shape.dim) != len(shape):
        return
    for dim, extent in zip(type.shape.dim, shape, strict=True):
        if not dim.HasField("dim_value") and dim.dim_param not in dims:
            dim.dim_value = extent


class _Checker(Protocol):
    def check_model(self, model: ModelProto | str) -> None: ...


class _Onnx(Protocol):
    """Of the package `onnx`, what its own annotations leave partly open."""

    checker: _Checker

    def load(self, f: str, *, load_external_data: bool) -> ModelProto: ...

    def load_external_data_for_model(
        self, model: ModelProto, base_dir: str
    ) -> None: ...


def import_model(
    model: ModelProto,
    name: str,
    weights_file: str = "weights.npz",
    extra_outputs: Sequence[str] = (),
    known: Mapping[str, Array] | None = None,
    dims: Mapping[str, int] | None = None,
    *,
    separate_weights: bool = False,
    maxima: Mapping[str, int] | None = None,
) -> ImportedModel:
    """
    The job that a model stands for; its variables start from `weights_file`.

    `dims` are the extents that names in the shapes of inputs stand for.

    Those that are equal are one, unless with `separate_weights`. `maxima` are the most
    iterations of loops whose number of iterations is only known at run time.

    `extra_outputs` names values of the graph that become outputs beside those it has.
    A node that no output depends on is left out. Inputs whose values are `known` are
    no inputs of the job, which is made for these values alone. Raises `Rejected` with
    everything in the model that cannot be imported (`NeedsInputs` if it could be, were
    more inputs known), and FileError if it cannot be brought to a newer version:
    `name` is what messages call it.
    """
    builder, findings = JobBuilder(weights_file), Findings()
    builder.maxima, builder.names = maxima or {}, frozenset(names_of(model.graph))
    check_dims(model, dims or {})
    check_maxima(model, maxima or {})
    given = [output.name for output in model.graph.output]
    outputs = list(dict.fromkeys([*given, *extra_outputs]))
    with reading(name):
        for index, proto in enumerate(undefined_nodes(model)):
            findings.add_unknown(proto, name_of(proto, index))
        try:
            light, weights = without_weights(model)
            modern = modernized(light, name)
        except FileError:
            # It may be for what is not known.
            findings.raise_if_any()
            raise
        reader = Reader(
            modern, weights, builder, findings, known or {}, dims or {}, maxima or {}
        )
        reader.read(outputs, names_of(model.graph))
        reader.findings.raise_if_any()
    fold_channels(builder)
    symbol = hint(model.graph.name or Path(name).stem) or "main"
    region = Region(reader.builder.block)
    job = JobOp(symbol, PlacementAttr("cpu", [(0, 0)]), region)
    location = FileLineColLoc(StringAttr(name), IntAttr(1), IntAttr(1))
    for op in job.walk():
        op.location = placed(op.location, location)
    proto = with_outputs(model, outputs)
    module, weights = ModuleOp([job]), reader.builder.weights
    if not separate_weights:
        with WeightFiles(Path()) as files:
            weights = merge_equal(module, weights, files)
    return ImportedModel(module, weights, proto, frozenset(known or ()))


def placed(location: Attribute, place: FileLineColLoc) -> NameLoc | FileLineColLoc:
    """A place, with the name of the node if a location has one."""
    return NameLoc(location.desc, place) if isinstance(location, NameLoc) else place


def opset_of(model: ModelProto) -> int:
    """The version of ONNX's own ops that a model has."""
    versions = {
        entry.domain or "ai.onnx": entry.version for entry in model.opset_import
    }
    return versions.get("ai.onnx", OLDEST_OPSET)


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


def check_maxima(model: ModelProto, maxima: Mapping[str, int]) -> None:
    """Raise UsageError for a maximum of what no node of a model has one."""
    if not maxima:
        return
    nodes = (x for x in messages_in(model.graph) if isinstance(x, NodeProto))
    bounded = [node for node in nodes if node.op_type in ("Loop", *BOUNDED)]
    names = {name for node in bounded for name in loop_names(node)}
    for name in maxima:
        if name not in names:
            like = suggest(name, names)
            raise UsageError(f"no node with a maximum has the name '{name}'{like}")


def import_for(
    model: ModelProto,
    name: str,
    inputs: Mapping[str, Array],
    weights_file: str = "weights.npz",
    extra_outputs: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    *,
    separate_weights: bool = False,
    maxima: Mapping[str, int] | None = None,
) -> ImportedModel:
    """
    The job that a model stands for where some inputs have these values: those that it
    cannot be imported without, such as shapes. See `import_model`.
    """
    known: dict[str, Array] = {}
    while True:
        try:
            return import_model(
                model,
                name,
                weights_file,
                extra_outputs,
                known,
                dims,
                separate_weights=separate_weights,
                maxima=maxima,
            )
        except NeedsInputs as error:
            missing = error.inputs & inputs.keys() - known.keys()
            if not missing:
                raise
            known |= {input: inputs[input] for input in sorted(missing)}


def modernized(model: ModelProto, name: str) -> ModelProto:
    """
    The model in a version that the converters read, with the functions that it defines
    written out. Raises FileError if it cannot be brought there.
    """
    version = opset_of(model)
    try:
        if model.functions:
            model = inline_local_functions(model)
        if version == OPSET_OF_BATCH_SCANS and uses_scan(model):
            model = without_batch_scans(model)
        if version < OLDEST_OPSET:
            model = without_new_names(converted(model), model)
        return with_whole_pixels(model) if version < OPSET_OF_HALF_PIXELS else model
    except Exception as error:
        # Errors of ONNX's C++ code differ in their text alone.
        raise FileError(
            f"{name} cannot be brought from opset {version} to {TARGET_OPSET}: "
            f"{first_line(error)}"
        ) from error


def without_new_names(newer: ModelProto, model: ModelProto) -> ModelProto:
    """A converted model without the names that nodes have got by the conversion."""
    given = {node.name for node in model.graph.node}
    for node in newer.graph.node:
        if node.name not in given:
            node.name = ""
    return newer


def without_weights(model: ModelProto) -> tuple[ModelProto, dict[str, TensorProto]]:
    """
    A copy of a model without the elements of its weights, and these by name, which are
    the model's own: each step towards a newer version copies all that it is given, and
    ONNX's converter takes no more than 2 GiB.
    """
    light, weights = without_field(model, "graph"), dict[str, TensorProto]()
    light.graph.MergeFrom(without_field(model.graph, "initializer"))
    for tensor in model.graph.initializer:
        # To ask for the elements themselves would copy them.
        is_float = tensor.data_type in FLOAT_TYPES and tensor.HasField("raw_data")
        if is_float and bytes_of(tensor) > LARGEST_KNOWN:
            weights[tensor.name] = tensor
            light.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
        else:
            light.graph.initializer.add().CopyFrom(tensor)
    return light, weights


def without_field(message: Part, name: str) -> Part:
    """A copy of a message without one of its fields."""
    kept = {field.name: part for field, part in message.ListFields()}
    kept.pop(name, None)
    return type(message)(**kept)


def bytes_of(tensor: TensorProto) -> int:
    """The bytes that the elements of a tensor take by its shape and type."""
    return prod(tensor.dims) * dtype_of(tensor.data_type).itemsize


def converted(model: ModelProto) -> ModelProto:
    """The model, of which nothing is kept, in the version of the converters."""
    # The converter refuses the first op that it does not know; others it leaves alone.
    set_undefined_apart(model)
    return onnx.version_converter.convert_version(model, TARGET_OPSET)


def uses_scan(model: ModelProto) -> bool:
    """Whether a model has scans."""
    return any(node.op_type == "Scan" for node in nodes_in(model.graph.node))


def with_whole_pixels(model: ModelProto) -> ModelProto:
    """The model with regions that begin at their corner, said as newer versions do."""
    if not any(node.op_type == "RoiAlign" for node in model.graph.node):
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    for node in changed.graph.node:
        if node.op_type == "RoiAlign":
            said = onnx.helper.make_attribute(COORDINATES, "output_half_pixel")
            node.attribute.append(said)
    return changed


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


# The other side of a check


def onnxruntime_module() -> Any:
    """ONNX Runtime, of which stubs leave most types open. Raises UsageError without."""
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise UsageError(
            "ONNX Runtime is not installed: pip install onnxruntime"
        ) from error


def run_onnxruntime(
    model: ModelProto, inputs: Mapping[str, Array], threads: int = 1
) -> dict[str, Array]:
    """
    The outputs of a model by name, computed by ONNX Runtime.

    Raises UsageError if ONNX Runtime is not installed, FileError if it cannot run the
    model.
    """
    onnxruntime = onnxruntime_module()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # Errors are raised as well.
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        return flat_results(names, session.run(names, dict(inputs)))
    except Exception as error:
        # Its exceptions have no base of their own.
        reason = first_line(error)
        raise FileError(f"ONNX Runtime cannot run the model: {reason}") from error


def flat_results(
    names: Sequence[str], results: Sequence[Array | Sequence[Array] | None]
) -> dict[str, Array]:
    """Results by name, with a name for each tensor of a sequence."""
    found: dict[str, Array] = {}
    for name, result in zip(names, results, strict=True):
        if isinstance(result, np.ndarray):
            found[name] = result
        else:
            found |= {tensor_name(name, i): each for i, each in enumerate(result or ())}
    return found
