"""What a model means: its ops evaluated one by one in NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from penstock.dialects.interfaces import TensorOp, tensor_type
from penstock.dialects.job import CopyOp, InputOp, JobOp, OutputOp, VariableOp
from penstock.dialects.numpy_types import dtype_of
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.plan import YieldOp as PlanYieldOp
from penstock.tools.diagnostics import UsageError

if TYPE_CHECKING:
    from penstock.runtime.initializers import Array
    from penstock.tools.session import Model


def evaluate_model(model: Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """
    The outputs of a model of a job or plan by name, computed by NumPy.

    Raises UsageError for a launch program, which no longer says what it means, and for
    ops without a meaning in NumPy.
    """
    entry = model.entry
    evaluation = _Evaluation(model, inputs)
    match entry:
        case JobOp():
            evaluation.run(entry.body.block.ops)
        case PlanOp():
            for task in entry.tasks:
                evaluation.run_task(task)
        case _:
            raise UsageError("only jobs and plans can be checked against NumPy")
    return evaluation.outputs


class _Evaluation:
    def __init__(self, model: Model, inputs: Mapping[str, Array]):
        self._model = model
        self._inputs = inputs
        self._values: dict[SSAValue, Array] = {}
        self.outputs: dict[str, Array] = {}

    def run(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self._run_op(op)

    def run_task(self, task: TaskOp) -> None:
        block = task.body.block
        for argument, value in zip(block.args, task.ins, strict=True):
            self._values[argument] = self._values[value]
        self.run(block.ops)
        assert isinstance(block.last_op, PlanYieldOp), "checked by the verifier"
        written = task.outs or task.results_
        for target, value in zip(written, block.last_op.values, strict=True):
            self._values[target] = self._values[value]

    def _run_op(self, op: Operation) -> None:
        match op:
            case InputOp():
                self._values[op.result] = self._inputs[op.port.data]
            case VariableOp():
                self._values[op.result] = variable_value(op, self._model)
            case CopyOp():
                self._values[op.result] = self._values[op.source]
            case OutputOp():
                self.outputs[op.port.data] = self._values[op.value]
            case TensorOp():
                operands = [self._values[operand] for operand in op.operands]
                results = op.evaluate(*operands)
                self._values.update(zip(op.results, results, strict=True))
            case PlanYieldOp():
                pass
            case _:
                raise UsageError(f"{op.name} has no meaning in NumPy")


def variable_value(op: VariableOp, model: Model) -> Array:
    """The value that a variable starts from."""
    from penstock.runtime.initializers import WeightFiles, initial_value

    name, type = op.port.data, tensor_type(op.result)
    if (given := model.weights.get(name)) is not None:
        return given
    dtype = dtype_of(type.element_type)
    with WeightFiles(model.directory) as files:
        return initial_value(op.init, name, type.get_shape(), dtype, files)
