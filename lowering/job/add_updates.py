"""
Replace what a job says of updates and schedules by ops.

A `job.schedule` becomes scalar ops on its step. The gradient of a `job.update` is
divided by its `scale`, scaled down where the norm of all gradients with this
`clip_norm` and `clip_group` is larger, and cut to `clip_value`. The optimizer makes new
values of the variable and of its states, in one `op.fused` of several results, and each
is assigned. Scalars that follow from the rate and the number of the step are made once,
in f64, for all variables that are updated alike.

A state is a variable `"<variable>/<optimizer>/<state>"` of the variable's type, part
and placement, and of its `sbp` unless the update has one of its own: then the states,
and what is computed of them, lie so. The number of steps is a variable `"<job>/step"`,
an `i64` that counts from 0, as jobs that are compiled apart may share variables; or
`"step"`, where the only job with updates has a variable of this name, but none of the
other. It is there if the job has it already, or an optimizer counts, and the job adds 1
to it unless the job assigns to it already. Where an update is skipped its variable and
states keep their values, and so does the number where all are.

New ops stand at the end of the job, say `pass = "update"`, and have the location of
what they replace. The gradient of a variable is scaled, cut and used where the variable
is placed; scalars that several updates share are made where the job is.

Example: `test/lowering/job/job-add-updates-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, StringAttr, TensorType, f64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import (
    STEP,
    AssignOp,
    InitAttr,
    JobOp,
    OptimizerAttr,
    ScheduleOp,
    UpdateOp,
    VariableOp,
    made_of,
    placement_of,
)
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.training.optimizers import Optimizer
from penstock.dialects.op.training.schedules import Schedule
from penstock.dialects.op.training.update_builder import (
    RowUpdateBuilder,
    UpdateBuilder,
    compute_type,
    sum_of_squares,
    widened,
)
from penstock.dialects.utils.attributes import OF_VALUES, carry, replace_op
from penstock.dialects.utils.diagnostics import (
    Finding,
    LocatedPassFailure,
    fail_if_any,
)
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import place_like
from penstock.lowering.job.sparse_gradients import (
    Rows,
    sparse_count,
    sparse_gradient,
)

PASS, UPDATE = "pass", StringAttr("update")
"""The attribute that names the part of a training step of an op, and its value."""

EPSILON = 1e-6
"""The number that is added to a norm before it divides, as PyTorch adds it."""


def made_optimizer(attr: OptimizerAttr) -> Optimizer:
    """The optimizer that an attribute names."""
    made = made_of("optimizer", attr)
    assert isinstance(made, Optimizer), "plug-ins of the kind are"
    return made


def findings_about(job: JobOp) -> Iterator[Finding]:
    """The updates of what is no variable, or a variable that is written twice."""
    if not has_updates(job):
        return
    seen: set[str] = set()
    for op in job.body.block.ops:
        if not isinstance(op, UpdateOp | AssignOp):
            continue
        owner = op.target.owner
        if not isinstance(owner, VariableOp):
            if isinstance(op, UpdateOp):
                yield op, "only variables are updated, and this is none"
            continue
        if (name := owner.port.data) in seen:
            yield op, f"variable '{name}' is updated or assigned to twice"
        seen.add(name)
        if isinstance(op, UpdateOp):
            optimizer, kind = made_optimizer(op.optimizer), op.optimizer.kind.data
            if optimizer.gradients == "sparse" and sparse_count(op.gradient) is None:
                got = name_of_op(op.gradient)
                yield op, f"optimizer '{kind}' takes gradients of op.gather, got {got}"


def name_of_op(value: SSAValue) -> str:
    """The noun for the op that makes a value."""
    owner = value.owner
    return f"one of {owner.name}" if isinstance(owner, Operation) else "an argument"


def takes_rows(job: JobOp, op: UpdateOp, optimizer: Optimizer) -> bool:
    """
    Whether an update is one of rows: where the optimizer wants them, or may have them
    and they are less than half of the table, on one device.
    """
    if optimizer.gradients == "dense":
        return False
    if optimizer.gradients == "sparse":
        return True
    count = sparse_count(op.gradient)
    is_whole = placement_of(variable_of(op), job).single_device() is not None
    rows = tensor_type(op.target).get_shape()[:1]
    return is_whole and count is not None and 2 * count <= prod(rows)


class Writer:
    """Puts new ops into a job, with the location of the op that they replace."""

    def __init__(self, job: JobOp) -> None:
        self._block: Block = job.body.block
        self.source: Operation = job
        """The op that is being replaced."""
        self.place: Operation | None = None
        """The variable that is being updated, which says where."""
        self.o = OpBuilder(self.add)
        self._made: dict[Hashable, SSAValue] = {}

    def mark(self, op: Operation) -> None:
        """Note what an op is made for."""
        op.location = self.source.location
        op.attributes[PASS] = UPDATE
        if isinstance(op, AssignOp):
            carry(self.source, op)

    def add(self, op: Operation) -> None:
        """Put an op at the end of the job."""
        self._mark_and_place(op)
        self._block.add_op(op)

    def behind(self, value: SSAValue) -> Callable[[Operation], None]:
        """A function that puts ops behind the one that makes a value, in order."""
        assert isinstance(value.owner, Operation), "jobs have no arguments"
        last = value.owner

        def put(op: Operation) -> None:
            nonlocal last
            self._mark_and_place(op)
            Rewriter.insert_op(op, InsertPoint.after(last))
            last = op

        return put

    def _mark_and_place(self, op: Operation) -> None:
        self.mark(op)
        if self.place is not None and not isinstance(op, AssignOp):
            place_like(op, self.place)

    def once(self, key: Hashable, make: Callable[[], SSAValue]) -> SSAValue:
        """A value that is made when it is asked for first."""
        if key not in self._made:
            with self.placed(None):
                self._made[key] = make()
        return self._made[key]

    @contextmanager
    def placed(self, variable: Operation | None) -> Generator[None]:
        """Place the ops that are put into the job where a variable is placed."""
        before, self.place = self.place, variable
        try:
            yield
        finally:
            self.place = before

    def cast(self, value: SSAValue, element: AnyFloat) -> SSAValue:
        """A scalar in another type, made once."""
        if self.o.element(value) == element:
            return value
        return self.once(("cast", value, element), lambda: self.o.cast(value, element))


def replace_schedule(writer: Writer, op: ScheduleOp) -> None:
    """Replace a schedule by scalar ops, where it stands."""
    made = made_of("schedule", op.schedule)
    assert isinstance(made, Schedule), "plug-ins of the kind are"
    writer.source = op

    def insert(new: Operation) -> None:
        writer.mark(new)
        Rewriter.insert_op(new, InsertPoint.before(op))

    o = OpBuilder(insert)
    rate = made.at(o, o.cast(op.step, f64))
    if rate.type != op.result.type:
        rate = o.cast(rate, o.element(op.result))
    rate.name_hint = op.result.name_hint
    replace_op(op, [], [rate])


@dataclass
class Updates:
    """Replaces the updates of one job."""

    job: JobOp
    step_name: str
    """The name of the variable that counts steps."""

    def __post_init__(self) -> None:
        ops = list(self.job.body.block.ops)
        self._updates = [op for op in ops if isinstance(op, UpdateOp)]
        self._made = {op: made_optimizer(op.optimizer) for op in self._updates}
        variables = [op for op in ops if isinstance(op, VariableOp)]
        self._variables = {op.port.data: op for op in reversed(variables)}
        self._assigned = {
            op.target.owner for op in ops if isinstance(op, AssignOp | UpdateOp)
        }
        self._known: dict[Hashable, Sequence[SSAValue]] = {}
        """The scalars of updates that are alike."""
        self._sparse: dict[SSAValue, Rows] = {}
        self._writer = Writer(self.job)
        self._o = self._writer.o

    def run(self) -> None:
        """Replace them all."""
        if not self._updates:
            return
        self._writer.source = self._updates[0]
        step = self._step()
        number = None
        if step is not None:
            number = self._o.add(self._o.cast(step.result, f64), 1)
        self._gradients = {op: self._gradient(op) for op in self._updates}
        factors = [self._factor(op) for op in self._updates]
        for op, factor in zip(self._updates, factors, strict=True):
            self._writer.source = op
            self._update(op, factor, number)
        if step is not None and step not in self._assigned:
            self._count(step)
        for op in self._updates:
            Rewriter.erase_op(op)

    # The number of the step

    def _step(self) -> VariableOp | None:
        """The variable that counts steps, if there is one."""
        if (known := self._variables.get(self.step_name)) is not None:
            self._expect(known, STEP, "as it counts steps")
            return known
        if not any(optimizer.counts for optimizer in self._made.values()):
            return None
        step = VariableOp(self.step_name, InitAttr("zeros"), STEP)
        step.result.name_hint = "step"
        self._writer.add(step)
        return step

    def _count(self, step: VariableOp) -> None:
        """Add 1 to the number of steps, unless all updates are skipped."""
        self._writer.source = self._updates[-1]
        new = self._o.add(step.result, 1)
        skips = list(dict.fromkeys(op.skip for op in self._updates))
        given = [skip for skip in skips if skip is not None]
        if len(given) == len(skips):
            new = self._o.where(reduce(self._o.both, given), step.result, new)
        new.name_hint = "step_next"
        self._writer.add(AssignOp(new, step.result))

    # Gradients

    def _gradient(self, op: UpdateOp) -> tuple[SSAValue, SSAValue | None]:
        """
        The gradient of an update; or the rows of one that is sparse, and their indices.
        """
        value = op.gradient
        if not takes_rows(self.job, op, self._made[op]):
            return value, None
        if value not in self._sparse:
            self._writer.source = op
            with self._writer.placed(variable_of(op)):
                put = self._writer.behind(value)
                self._sparse[value] = sparse_gradient(value, put)
        return self._sparse[value]

    def _factor(self, op: UpdateOp) -> SSAValue | None:
        """The scalar that the gradient of an update is multiplied by, if by any."""
        self._writer.source = op
        o, element = self._o, compute_type(self._o, op.target)
        clip = self._clip(op) if self._made[op].clip_norm else None
        if op.scale is None:
            return None if clip is None else self._writer.cast(clip, element)
        scale = self._writer.cast(op.scale, f64)
        over = 1 if clip is None else clip
        factor = self._writer.once((clip, scale), lambda: o.div(over, scale))
        return self._writer.cast(factor, element)

    def _clip(self, op: UpdateOp) -> SSAValue:
        """
        The factor of all gradients whose norm is cut with this one's, an f64 scalar.
        """
        most, group = self._made[op].clip_norm, self._made[op].clip_group

        def clip() -> SSAValue:
            together = [
                self._squares(other)
                for other, made in self._made.items()
                if (made.clip_norm, made.clip_group) == (most, group)
            ]
            norm = self._o.sqrt(tree_sum(self._o, together))
            quotient = self._o.div(most, self._o.add(norm, EPSILON))
            return self._o.minimum(quotient, 1)

        return self._writer.once((most, group), clip)

    def _squares(self, op: UpdateOp) -> SSAValue:
        """The sum of the squares of a gradient's elements, an f64 scalar."""
        o, scale = self._o, op.scale
        with self._writer.placed(variable_of(op)):
            gradient = widened(o, self._gradients[op][0])
            if scale is not None:
                # Squares of the gradients of a scaled loss may be infinite.
                gradient = o.div(gradient, scale)
            return sum_of_squares(o, gradient)

    # Optimizers

    def _update(
        self, op: UpdateOp, factor: SSAValue | None, step: SSAValue | None
    ) -> None:
        """Assign what an optimizer makes of a variable and of its states."""
        variable, sbp = variable_of(op), op.attributes.get("sbp")
        optimizer, prefix = (
            self._made[op],
            f"{variable.port.data}/{op.optimizer.kind.data}",
        )
        gradient, indices = self._gradients[op]
        rows = partial(RowUpdateBuilder, indices=indices) if indices else None
        builder = (rows or UpdateBuilder)(
            self._writer.add,
            gradient,
            factor=factor,
            limit=optimizer.clip_value,
            skip=op.skip,
        )
        states = [
            self._state(op, f"{prefix}/{name}", name, start).result
            for name, start in optimizer.states().items()
        ]
        scalars = self._scalars(op, step)
        with self._writer.placed(variable):
            made = optimizer.update(builder, op.target, gradient, states, scalars)
        types = [value.type for value in (op.target, *states)]
        if [value.type for value in made] != types:
            names = f"optimizer '{op.optimizer.kind.data}' should make"
            wanted, got = (
                ", ".join(map(str, x)) for x in (types, [v.type for v in made])
            )
            raise LocatedPassFailure([(op, f"{names} {wanted}, got {got}")])
        for old, new in zip((op.target, *states), made, strict=True):
            hint = old.name_hint
            new.name_hint = None if hint is None else f"{hint}_next"
            # Rows may be of any part, so they are computed whole.
            if sbp and not indices and isinstance(maker := new.owner, Operation):
                maker.attributes["sbp"] = sbp
            self._writer.add(AssignOp(new, old))

    def _scalars(self, op: UpdateOp, step: SSAValue | None) -> Sequence[SSAValue]:
        """The scalars that the rule of an optimizer needs, made once."""
        optimizer, element = self._made[op], compute_type(self._o, op.target)
        key = op.optimizer, op.rate, element
        if key not in self._known:
            if op.rate is None:
                rate = self._o.constant(optimizer.rate, TensorType(f64, []))
            else:
                rate = self._writer.cast(op.rate, f64)
            found = optimizer.scalars(self._o, rate, step)
            self._known[key] = [self._writer.cast(x, element) for x in found]
        return self._known[key]

    def _state(self, op: UpdateOp, name: str, state: str, start: float) -> VariableOp:
        """The variable of a state of the optimizer of an update."""
        variable, sbp = variable_of(op), op.attributes.get("sbp")
        if (known := self._variables.get(name)) is not None:
            type = tensor_type(variable.result)
            self._expect(known, type, f"as the state of '{variable.port.data}'")
            if sbp is not None:
                known.attributes.setdefault("sbp", sbp)
            return known
        init = InitAttr("constant", {"value": start}) if start else InitAttr("zeros")
        made = VariableOp(name, init, tensor_type(variable.result))
        made.offsets, made.whole = variable.offsets, variable.whole
        for key in OF_VALUES:
            if key in variable.attributes:
                made.attributes[key] = variable.attributes[key]
        if sbp is not None:
            made.attributes["sbp"] = sbp
        hint = variable.result.name_hint
        made.result.name_hint = f"{hint}_{state}" if hint else state
        self._writer.add(made)
        return made

    def _expect(self, known: VariableOp, type: TensorType, why: str) -> None:
        """Raise LocatedPassFailure unless a variable of the job has a type."""
        if known.result.type != type:
            got = f"should be {type}, {why}, got {known.result.type}"
            found = f"variable '{known.port.data}' {got}"
            raise LocatedPassFailure([(self._writer.source, found)])


def variable_of(op: UpdateOp) -> VariableOp:
    """The variable that is updated."""
    variable = op.target.owner
    assert isinstance(variable, VariableOp), "has been verified"
    return variable


def tree_sum(o: OpBuilder, terms: Sequence[SSAValue]) -> SSAValue:
    """The sum of some scalars in pairs, whose rounding grows with their logarithm."""
    while len(terms) > 1:
        pairs = [o.add(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
    return terms[0]


@dataclass(frozen=True)
class JobAddUpdatesPass(ModulePass):
    """
    Replace what a job says of updates and schedules by ops.
    """

    name = "job-add-updates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = list(outermost(op, JobOp))
        fail_if_any(finding for job in jobs for finding in findings_about(job))
        updating = [job for job in jobs if has_updates(job)]
        for job in jobs:
            writer = Writer(job)
            for schedule in [
                x for x in job.body.block.ops if isinstance(x, ScheduleOp)
            ]:
                replace_schedule(writer, schedule)
        for job in updating:
            Updates(job, step_name(job, alone=len(updating) == 1)).run()


def step_name(job: JobOp, *, alone: bool) -> str:
    """
    The name of the variable that counts the steps of a job, which may be `alone` in
    having updates.
    """
    own = f"{job.sym_name.data}/step"
    ops = job.body.block.ops
    names = {op.port.data for op in ops if isinstance(op, VariableOp)}
    return "step" if alone and "step" in names and own not in names else own


def has_updates(job: JobOp) -> bool:
    """Whether a job says how variables are updated."""
    return any(isinstance(op, UpdateOp) for op in job.body.block.ops)
