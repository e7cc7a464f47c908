"""
`OnnxFunction`: ONNX models as functions on tensors, which other functions call.

The ops of a model become those of the job that is traced, and its weights variables of
the session: so a model can be used beside other ops, derived and trained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from penstock.dialects.job import InputOp, OutputOp, VariableOp
from penstock.runtime.errors import PenstockError
from penstock.tools.driver.errors import needing_onnx
from penstock.tools.frontend.python.errors import refuse
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace, variable

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from penstock.tools.frontend.onnx.model import ImportedModel


Array: TypeAlias = npt.NDArray[np.generic]


class OnnxFunction:
    """
    An ONNX model as a function on tensors, for functions that become jobs.

    * `model`: a file, or a `ModelProto`. Extents of inputs that have a name, or are
      left open, are those of the tensors of a call.
    * `prefix`: a text in front of the names of its weights, such as `"encoder/"`.

    A call takes a tensor for each input, in the order of the model or by name, and
    returns the output, or a dict of several by name. Its weights are variables of their
    names in the model: all calls in a session, of all jobs, have the same ones, and
    `penstock.value_and_grad(..., by="fc*")` derives by those of a pattern. Weights are
    initializers of several floats, but for the statistics of a batch norm; all other
    constants stay as they are.

    Raises UsageError if there is no such model. A call raises TraceError for tensors
    that do not fit, and `Rejected` for a model that cannot be imported for them.

    ```python
    from typing import Annotated

    import numpy as np
    from onnx import parser

    import penstock
    from penstock import Tensor

    model = penstock.OnnxFunction(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]>'
            "double (float[n] x) => (float[n] y)"
            "<float two = {2}> { y = Mul(x, two) }"
        )
    )


    @penstock.job
    def slope(x: Annotated[Tensor, (3,), "f32"]):
        return penstock.grad(lambda x: model(x).sum(), argnums=0)(x)


    assert slope(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    ```
    """

    def __init__(self, model: str | Path | ModelProto, *, prefix: str = ""):
        with needing_onnx():
            from penstock.tools.frontend.onnx.model import read_onnx
            from penstock.tools.frontend.onnx.ports import inputs_of
        self._name = "model"
        if isinstance(model, (str, Path)):
            self._name = str(model)
            model = read_onnx(Path(model))
        self._prefix = prefix
        self._inputs = [value.name for value in inputs_of(model.graph)]
        self._model, self._weights = open_weights(model)

    def __call__(self, *tensors: Tensor, **named: Tensor) -> Any:
        trace = current_trace("a call of an ONNX model")
        given = self._by_input(tensors, named)
        return self._add(trace, self._imported(given), given)

    def _by_input(
        self, tensors: tuple[Tensor, ...], named: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The tensor of each input. Raises TraceError unless there is one for each."""
        names = self._inputs
        given = {**dict(zip(names, tensors, strict=False)), **named}
        count = len(tensors) + len(named)
        if len(given) != count or given.keys() != {*names}:
            got = ", ".join([f"{len(tensors)} in order", *named])
            raise refuse(f"the model takes {', '.join(names)}, each once, got {got}")
        return given

    def _imported(self, given: Mapping[str, Tensor]) -> ImportedModel:
        """The job of the model for tensors of some shapes."""
        from onnx import ModelProto

        from penstock.tools.frontend.onnx.model import import_for
        from penstock.tools.frontend.onnx.ports import inputs_of
        from penstock.tools.frontend.onnx.session import check_shape

        model = ModelProto()
        model.CopyFrom(self._model)
        arrays = {
            name: np.broadcast_to(np.zeros((), tensor.dtype), tensor.shape)
            for name, tensor in given.items()
        }
        extents: dict[str, int] = {}
        for value in inputs_of(model.graph):
            if value.name in self._weights:
                continue
            try:
                type = value.type.tensor_type
                check_shape(value.name, type, arrays, extents)
            except PenstockError as error:
                raise refuse(str(error)) from None
            del type.shape.dim[:]
            for extent in given[value.name].shape:
                type.shape.dim.add().dim_value = extent
        # A weight that a shape depends on is none that can be trained.
        return import_for(model, self._name, self._weights, separate_weights=True)

    def _add(
        self, trace: Trace, imported: ImportedModel, given: Mapping[str, Tensor]
    ) -> Any:
        """The outputs of an imported job, whose ops are added to those of a trace."""
        known: dict[SSAValue, SSAValue] = {}
        outputs: dict[str, Tensor] = {}
        (job,) = imported.module.ops
        for op in job.regions[0].block.ops:
            match op:
                case InputOp() if (name := op.port.data) in self._weights:
                    made = variable(self._prefix + name, init=self._weights[name])
                    known[op.result] = trace.value_of(made)
                case InputOp():
                    tensor = given[op.port.data]
                    known[op.result] = trace.value_of(tensor)
                    if op.result.type != known[op.result].type:
                        name, wanted = op.port.data, op.result.type
                        raise refuse(f"input '{name}' is {wanted}, got {tensor.text}")
                case VariableOp():
                    # A tensor that is no weight: it is the same in all runs.
                    constant = trace.constant(imported.weights[op.port.data])
                    known[op.result] = trace.value_of(constant)
                case OutputOp():
                    outputs[op.port.data] = Tensor(known[op.value], trace)
                case _:
                    trace.insert(op.clone(value_mapper=known))
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def open_weights(model: ModelProto) -> tuple[ModelProto, dict[str, Array]]:
    """A model whose weights are inputs, and their values by name."""
    from onnx import ModelProto, helper, numpy_helper

    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    statistics = {
        name
        for node in graph.node
        if node.op_type == "BatchNormalization"
        for name in node.input[3:]
    }
    kept = [each for each in graph.initializer if not is_weight(each, statistics)]
    weights = {
        each.name: numpy_helper.to_array(each)
        for each in graph.initializer
        if is_weight(each, statistics)
    }
    declared = {value.name for value in graph.input}
    for each in list(graph.initializer):
        if each.name in weights and each.name not in declared:
            value = helper.make_tensor_value_info(each.name, each.data_type, each.dims)
            graph.input.append(value)
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return made, weights


def is_weight(tensor: TensorProto, statistics: Collection[str]) -> bool:
    """Whether an initializer is one of several floats, and no statistics of data."""
    from penstock.tools.frontend.onnx.random_weights import FLOAT_TYPES

    is_several = prod(tensor.dims) > 1 and tensor.data_type in FLOAT_TYPES
    return is_several and tensor.name not in statistics
