"""The reference implementation of a model: its ops evaluated one by one in NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, ClassVar

from xdsl.context import Context
from xdsl.ir import Block, Operation, SSAValue

from penstock.dialects.job import (
    AfterOp,
    AssignOp,
    BoxingOp,
    CollectiveOp,
    CopyOp,
    GradientsOp,
    InputOp,
    JobOp,
    OutputOp,
    ReceiveOp,
    ScheduleOp,
    SendOp,
    SinkTickOp,
    SourceTickOp,
    UpdateOp,
    VariableOp,
)
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.plan import YieldOp as PlanYieldOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering import pass_of
from penstock.lowering.analysis.repetitions import PlanRates, job_repetitions, made
from penstock.runtime.program.output_cuts import OutputCut, cut_outputs
from penstock.tools.driver.diagnostics import FileError, UsageError
from penstock.tools.session.rank_oracle import Exchange, Needs

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.body_bisection import Flows
    from penstock.tools.session.session import Model


def made_of(value: SSAValue) -> int:
    """The acts for one piece of a value."""
    owner = value.owner
    return made(owner) if isinstance(owner, Operation) else 1


def has_numpy_meaning(entry: Operation) -> bool:
    """
    Whether an op by itself says what it means: jobs and plans do, programs do not, and
    a plan of several jobs says it of each.
    """
    return isinstance(entry, JobOp) or (
        isinstance(entry, PlanOp) and len(entry.jobs) < 2
    )


def evaluate_model(
    model: Model, inputs: Mapping[str, Array], jobs: Sequence[str] = ()
) -> dict[str, Array]:
    """
    The outputs of a model of a job or plan by name, computed by NumPy; or those of the
    last one of some of its jobs, run in this order.

    Raises UsageError for a launch program, which no longer says what it means, for ops
    without a meaning in NumPy, and if an input is missing; PenstockError if a variable
    has no value.
    """
    import numpy as np

    evaluation = Evaluation(with_steps(model), inputs)
    # Infinities and NaNs are results like any other.
    with np.errstate(all="ignore"):
        if jobs:
            evaluation.run_jobs(evaluation.model.entries, jobs)
        else:
            evaluation.run_entry(evaluation.model.entry)
    return evaluation.results


def with_steps(model: Model) -> Model:
    """The model with ops in place of what a training step asks for."""
    asked = GradientsOp | UpdateOp | ScheduleOp
    if not any(isinstance(op, asked) for op in model.module.walk()):
        return model
    module = model.module.clone()
    for name in ("op-infer-shapes", "job-add-gradients", "job-add-updates"):
        pass_of(name)().apply(Context(), module)
    return replace(model, module=module)


def written_by(task: TaskOp) -> Sequence[SSAValue]:
    """The registers that a task writes, or the values that it results in."""
    return task.outs or task.results_


class Evaluation:
    """The values of a job or plan, by the op of each, and its outputs by name."""

    CYCLE: ClassVar = "read from"
    """The verb of the error about tasks that come in a cycle."""

    def __init__(self, model: Model, inputs: Mapping[str, Array]):
        self.model = model
        self._inputs = inputs
        self._values: dict[SSAValue, Array] = {}
        self._repetitions: dict[SSAValue, int] = {}
        """
        The number of pieces of each value that comes several times, along a first axis.
        """
        self.outputs: dict[str, Array] = {}
        self.cuts: list[OutputCut] = []
        """The outputs that are cut to counts, as a caller gets them."""
        self._flows: dict[str, tuple[FlowOp, Sequence[Array]]] = {}
        self._exchange = Exchange(self._operand_of)
        self._made: set[str] = set()
        """The inputs that earlier jobs have made."""

    @property
    def results(self) -> dict[str, Array]:
        """The outputs with the extents that counts give them, as a caller gets them."""
        return cut_outputs(self.outputs, self.cuts)

    def read(self, value: SSAValue) -> Array:
        """The array that a task reads."""
        return self._values[value]

    def write(self, value: SSAValue, array: Array) -> None:
        """Keep an array that a task has made."""
        self._values[value] = array

    def needs_of(self, plan: PlanOp) -> Needs:
        """The tasks of a plan, and those whose data each of them reads."""
        tasks = list(plan.tasks)
        producers = {value: task for task in tasks for value in written_by(task)}
        return {
            task: [producers[value] for value in task.ins if value in producers]
            for task in tasks
        }

    def tasks_of(self, plans: Sequence[PlanOp]) -> Sequence[TaskOp]:
        """
        The tasks of plans, of whichever ranks, in an order in which they may run.
        Raises FileError if there is none.
        """
        needs: Needs = {}
        for plan in plans:
            needs |= self.needs_of(plan)
        self._exchange.connect(needs)
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            names = " -> ".join(task.task_name.data for task in error.args[1])
            raise FileError(f"tasks {self.CYCLE} each other: {names}") from error

    def named(self) -> dict[str, Array]:
        """
        The arrays by the names of registers that have them, or are going to: `y/out`
        for a value `%y` of a job.
        """
        found: dict[str, Array] = {}
        for value, array in self._values.items():
            owner = value.owner
            if isinstance(owner, RegisterOp):
                found[owner.register_name.data] = array
            elif value.name_hint is not None and self._repetitions.get(value, 1) == 1:
                found[f"{value.name_hint}/out"] = array
        return found

    def flows(self) -> Flows:
        """The loops and conditions as they are now, with what they were given."""
        return {f"{name}/out": given for name, given in self._flows.items()}

    def run_jobs(self, entries: Sequence[Operation], jobs: Sequence[str]) -> None:
        """
        Evaluate jobs one after the other: each is an entry, or a part of a plan of
        several jobs. Outputs of one are inputs of the next ones; those of the last one
        are kept.
        """
        for job in jobs:
            self._made |= self.outputs.keys()
            self._inputs = {**self._inputs, **self.outputs}
            self.outputs = {}
            self.run_entry(_entry_of(entries, job), job)

    def run_entry(self, entry: Operation, job: str | None = None) -> None:
        """Evaluate a job or a plan, or one job of a plan of several."""
        match entry:
            case JobOp():
                for op, count in job_repetitions(entry).items():
                    self._repetitions.update(dict.fromkeys(op.results, count))
                self._repetitions = {
                    x: n // made_of(x) for x, n in self._repetitions.items()
                }
                self.run(entry.body.block.ops)
            case PlanOp():
                several = len(entry.jobs) > 1
                self.run_plans([entry], job if several else None)
            case _:
                raise UsageError(f"a {entry.name} cannot be checked against NumPy")

    def run_plans(self, plans: Sequence[PlanOp], job: str | None = None) -> None:
        """Evaluate the plans of all ranks, or what they have of one job."""
        if any(PlanRates(plan).is_rated for plan in plans):
            raise UsageError("a plan with rates has no meaning in NumPy")
        for task in self.tasks_of(plans):
            # Variables of several jobs say none.
            if job is None or task.job is None or task.job.data == job:
                self.run_task(task)

    def run(self, ops: Iterable[Operation]) -> None:
        """Evaluate ops in their order."""
        for op in ops:
            self._run_op(op)

    def _operand_of(self, task: TaskOp) -> Array | None:
        """The first tensor that a task reads, if it reads one."""
        return self.read(task.ins[0]) if task.ins else None

    def run_task(self, task: TaskOp) -> None:
        """Evaluate the ops of a task."""
        block = task.body.block
        for argument, value in zip(block.args, task.ins, strict=True):
            self._values[argument] = self.read(value)
        self.run(block.ops)
        assert isinstance(block.last_op, PlanYieldOp), "checked by the verifier"
        results = [self._values[value] for value in block.last_op.values]
        # The memory of bodies is the last register, and no result.
        for value, array in zip(written_by(task), results, strict=False):
            self.write(value, array)

    def _run_op(self, op: Operation) -> None:
        match op:
            case InputOp(port=port):
                if port.data not in self._inputs:
                    raise UsageError(f"no array is given for input '{port.data}'")
                self._values[op.result] = self._inputs[port.data]
            case VariableOp():
                self._values[op.result] = variable_value(op, self.model)
            case CopyOp() | BoxingOp():
                self._values[op.result] = self._values[op.source]
            case SendOp():
                self._exchange.send(op, self._values[op.value])
            case ReceiveOp():
                self._values[op.result] = self._exchange.receive(op)
            case CollectiveOp():
                array = self._exchange.collect(op)
                for result in op.targets:
                    shape = tensor_type(result).get_shape()
                    self._values[result] = array.reshape(shape)
            case AfterOp():
                self._values[op.result] = self._values[op.value]
            case OutputOp():
                self.outputs[op.port.data] = self._values[op.value]
                for cut in op.cuts or ():
                    name, axis = cut.count.data, cut.axis.value.data
                    self.cuts.append(OutputCut(op.port.data, name, axis))
            case RateOp():
                self._values[op.result] = self._rated(op)
            case TensorOp():
                results = self._evaluated(op)
                self._values.update(zip(op.results, results, strict=True))
            case PlanYieldOp() | AssignOp() | SourceTickOp() | SinkTickOp():
                # Nothing in the run reads new values of variables.
                pass
            case _:
                raise UsageError(f"{op.name} has no meaning in NumPy")

    def _rated(self, op: RateOp) -> Array:
        """All pieces of the result; the axis is left out where there is but one."""
        (results,) = op.evaluate(self._pieces(op))
        return results if self._repetitions[op.result] > 1 else results[0]

    def _pieces(self, op: RateOp) -> Array:
        """All pieces of an operand; a variable is each piece that the op takes."""
        import numpy as np

        array, count = self._values[op.source], self._repetitions.get(op.source)
        if count is None:
            acts = self._repetitions[op.result] * op.made
            return np.broadcast_to(array, (acts // op.taken, *array.shape))
        return array[np.newaxis] if count == 1 else array

    def _evaluated(self, op: TensorOp) -> Sequence[Array]:
        """The results of an op, which acts on one piece of each operand at a time."""
        import numpy as np

        count = max((self._repetitions.get(x, 1) for x in op.results), default=1)
        operands = [self._values[operand] for operand in op.operands]
        if count == 1:
            if isinstance(op, FlowOp):
                names = (x.name_hint for x in op.results if x.name_hint)
                self._flows |= dict.fromkeys(names, (apart(op), operands))
            return op.meaning(*operands)
        several = [self._repetitions.get(operand, 1) > 1 for operand in op.operands]
        acts = [
            op.meaning(
                *(x[i] if y else x for x, y in zip(operands, several, strict=True))
            )
            for i in range(count)
        ]
        return [np.stack(pieces) for pieces in zip(*acts, strict=True)]


def apart(op: FlowOp) -> FlowOp:
    """A copy of an op that reads none of the values of its job."""
    types = [value.type for value in op.operands]
    args = Block(arg_types=types).args
    return op.clone(dict(zip(op.operands, args, strict=True)))


def _entry_of(entries: Sequence[Operation], job: str) -> Operation:
    """The entry with the name of a job, or the one plan that has its tasks."""
    for entry in entries:
        if isinstance(entry, JobOp | PlanOp) and entry.sym_name.data == job:
            return entry
    for entry in entries:
        if isinstance(entry, PlanOp) and job in entry.jobs:
            return entry
    raise UsageError(f"there is no job '{job}'")


def variable_value(op: VariableOp, model: Model) -> Array:
    """The value that a variable starts from."""
    from penstock.runtime.loading.weight_layout import winograd_weights

    value = _part_of_weights(op, model)
    return value if op.winograd is None else winograd_weights(value)


def _part_of_weights(op: VariableOp, model: Model) -> Array:
    """The part of what goes by the name of a variable that it is, or is made of."""
    from penstock.runtime.loading.initializers import WeightFiles, initial_value
    from penstock.tools.session.program_export import initializer_of

    init = initializer_of(op.init)
    name, type = op.port.data, tensor_type(op.result)
    if (given := model.weights.get(name)) is not None:
        return given[(*op.place, ...)]
    dtype = dtype_of(type.element_type)
    with WeightFiles(model.directory) as files:
        value = initial_value(init, name, op.whole_shape, dtype, files)
    return value[(*op.place, ...)]
