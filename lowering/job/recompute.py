"""
Compute values of the forward pass again for the backward pass, and do not keep them.

The backward pass is the ops with `pass = "backward"`, and all that depend on them; the
forward pass is all others, but for what updates are made of (`pass = "update"`).
Forward ops whose results the backward pass reads, and that are not kept, are cloned in
front of their first reader, and so are those that their operands need. Clones have
`pass = "recompute"`, and wait by `job.after` for a gradient that their first reader
needs, as in OneFlow, so that they run late: the last one that is not fused into its
readers. That may be the sum that a product ends in, so that it still does.

* `segments` keeps what ops with the attribute `segment`, a name, make for ops of other
  segments. All else that they make is made again. Ops without it are left alone.
* `min-cut` keeps the fewest bytes of which the rest can be made again by cheap ops:
  those on single elements, on rows, batch norms by known statistics, and those that
  move. Contractions, reductions, random bits and bodies are never made again. It is the
  minimum cut between values that have to be kept and the readers, where an edge is a
  value's bytes. Of equal cuts it takes the one that makes the least again.
* `auto`, which is what pipelines do unless told otherwise, is `segments`, and `min-cut`
  for all other ops of a job that runs on one device, if that saves a MiB. On several
  devices, what is made again may have to be exchanged again; and of small jobs, the
  kernels that are compiled besides would cost more than a MiB is worth.
* `budget` asks the planner. It takes the first that `plan-order-tasks` lists within
  `budget` bytes: nothing made again, `min-cut`, and more and more segments made again
  whole, the rest by `min-cut`. Segments are found: the forward pass is cut into 4 to 32
  of about as many bytes, where the fewest bytes go on, and the number with the least
  peak is taken. Those that free the most bytes for a scalar operation come first. A
  budget that none of these meets takes the cheapest choice of all numbers of segments
  that does, and is refused if there is none. A smaller one never makes less again.

Ops that can fail, such as `op.gather`, are never made again: variables would be updated
in place only behind them. Variables and constants are there all the time, and cost
nothing to keep. Statistics tell how many ops were cloned, their scalar operations
(`flops recomputed`), and those of the whole job before (`flops of jobs`). Jobs with
clones are left alone.

Example: `test/lowering/job/job-recompute-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import AfterOp, JobOp, VariableOp, placement_of
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.op.normalization import BatchNormOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.tensor_op import TensorOp, can_fail, is_elementwise
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import byte_count, tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.recomputation import (
    ForwardValue,
    flops_of,
    kept_by_min_cut,
    kept_by_segments,
    kept_by_some,
    kept_bytes,
    made_again,
    nested_choices,
    split_evenly,
)
from penstock.lowering.job.planned_peak import planned_peak

PASS, SEGMENT = "pass", "segment"
"""Attributes: the part of a training step, and the segment of its forward pass."""
BACKWARD, RECOMPUTE = StringAttr("backward"), StringAttr("recompute")
UPDATE = StringAttr("update")

POLICIES = ("auto", "segments", "min-cut", "budget")
LEAST_SAVED = 1 << 20
"""The bytes that are worth the kernels of ops that are made again."""
SEGMENTS = (4, 8, 16, 32)
"""The numbers of segments that a budget tries."""
RANDOM = frozenset({"op.random_bits", "op.dropout"})


@dataclass
class TrainingStep:
    """The forward pass of a job as plain values, and the ops behind it."""

    job: JobOp
    values: list[SSAValue] = field(default_factory=list[SSAValue])
    """The values of the forward pass, in order."""
    backward: dict[Operation, None] = field(default_factory=dict[Operation, None])
    """The ops of the backward pass, and all that depend on them, in order."""

    def __post_init__(self) -> None:
        gradients: set[SSAValue] = set()
        for op in self.job.body.block.ops:
            is_backward = op.attributes.get(PASS) == BACKWARD
            if is_backward or not gradients.isdisjoint(op.operands):
                self.backward[op] = None
                gradients.update(op.results)
            elif op.attributes.get(PASS) != UPDATE:
                self.values += op.results

    @property
    def is_open(self) -> bool:
        """Whether there is a backward pass, and nothing was made again yet."""
        ops = self.job.body.block.ops
        return bool(self.backward) and all(
            op.attributes.get(PASS) != RECOMPUTE for op in ops
        )

    @property
    def is_on_one_device(self) -> bool:
        """Whether all ops run on one device."""
        places = {placement_of(op, self.job) for op in self.job.body.block.ops}
        return len(places) == 1 and places.pop().single_device() is not None

    def forward(self) -> list[ForwardValue]:
        """The values of the forward pass as numbers."""
        number = {value: i for i, value in enumerate(self.values)}
        return [self._forward_of(value, number) for value in self.values]

    def _forward_of(self, value: SSAValue, number: dict[SSAValue, int]) -> ForwardValue:
        op = value.owner
        assert isinstance(op, Operation), "a job has no arguments"
        again = is_repeatable(op)
        is_first = value is op.results[0]
        return ForwardValue(
            byte_count(value.type) if tensor_type(value).has_static_shape() else 0,
            tuple(dict.fromkeys(number[x] for x in op.operands if x in number)),
            op.flops() if again and isinstance(op, TensorOp) and is_first else 0,
            is_free=isinstance(op, VariableOp | ConstantOp),
            is_cheap=again and is_cheap(op),
            is_repeatable=again,
            is_read=any(use.operation in self.backward for use in value.uses),
        )

    def segments(self) -> list[int | None]:
        """The number of the segment that each value's op names."""
        names: dict[str, int] = {}
        found: list[int | None] = []
        for value in self.values:
            assert isinstance(value.owner, Operation), "a job has no arguments"
            name = value.owner.attributes.get(SEGMENT)
            if isinstance(name, StringAttr):
                found.append(names.setdefault(name.data, len(names)))
            else:
                found.append(None)
        return found

    def make_again(self, numbers: Collection[int]) -> int:
        """Clone the ops of forward values, and say how many."""
        values = [self.values[i] for i in numbers]
        clones = Clones(frozenset(values), self.backward)
        for op in self.backward:
            clones.supply(op)
        return clones.count


@dataclass
class Clones:
    """The clones of ops, each made in front of its first reader."""

    values: frozenset[SSAValue]
    """The values that are made again."""
    backward: Collection[Operation]
    count: int = 0
    _made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    _later: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    _gradient: dict[SSAValue, tuple[int, SSAValue]] = field(
        default_factory=dict[SSAValue, tuple[int, SSAValue]]
    )
    """The last gradient, by its number, that each value of the backward pass needs and
    that is a tensor by itself."""

    def supply(self, reader: Operation) -> None:
        """Let an op of the backward pass read what is made again."""
        gradient = self._note(reader)
        for index, operand in enumerate(reader.operands):
            if operand in self.values:
                reader.operands[index] = self._clone_of(operand, reader, gradient)

    def _note(self, reader: Operation) -> SSAValue | None:
        """The gradient that an op waits for anyway."""
        for x in reader.operands:
            if x in self._gradient and is_read_whole(x, reader):
                self._gradient[x] = self._gradient[x][0], x
        known = [self._gradient[x] for x in reader.operands if x in self._gradient]
        last = max(known, key=lambda pair: pair[0], default=None)
        for result in reader.results:
            if is_whole(reader):
                self._gradient[result] = len(self._gradient), result
            elif last is not None:
                self._gradient[result] = last
        return None if last is None else last[1]

    def _clone_of(
        self, value: SSAValue, reader: Operation, gradient: SSAValue | None
    ) -> SSAValue:
        """The clone of a value and, before it, of all that it is made of."""
        needed = [value]
        while needed:
            op = needed[-1].owner
            assert isinstance(op, Operation), "a job has no arguments"
            missing = [
                x for x in op.operands if x in self.values and x not in self._made
            ]
            if needed[-1] not in self._made and not missing:
                self._clone(op, reader, gradient)
            needed += missing
            if not missing:
                needed.pop()
        return self._made[value]

    def _clone(
        self, op: Operation, reader: Operation, gradient: SSAValue | None
    ) -> None:
        place = InsertPoint.before(reader)
        clone = op.clone()
        clone.attributes[PASS] = RECOMPUTE
        clone.attributes.pop(SEGMENT, None)
        clone.operands = [self._made.get(x, x) for x in op.operands]
        if gradient is not None:
            self._hold_back(clone, place, gradient)
        Rewriter.insert_op(clone, place)
        self._made.update(zip(op.results, clone.results, strict=True))
        self.count += 1

    def _hold_back(
        self, clone: Operation, place: InsertPoint, gradient: SSAValue
    ) -> None:
        """Let a clone wait for a gradient, where none of its operands does."""
        own = [*enumerate(clone.operands)]
        kept = [(i, x) for i, x in own if not is_there(x) and not is_clone(x)]
        if not kept and not any(is_clone(x) for _, x in own):
            kept = [(i, x) for i, x in own if not isinstance(x.owner, ConstantOp)][:1]
        for index, value in kept:
            key = value, gradient
            if key not in self._later:
                Rewriter.insert_op(later := AfterOp(value, [gradient]), place)
                later.location = clone.location
                self._later[key] = later.result
            clone.operands[index] = self._later[key]


def is_clone(value: SSAValue) -> bool:
    """Whether a value is made again."""
    op = value.owner
    return isinstance(op, Operation) and op.attributes.get(PASS) == RECOMPUTE


def is_there(value: SSAValue) -> bool:
    """Whether a value is there all the time."""
    return isinstance(value.owner, VariableOp | ConstantOp)


def is_repeatable(op: Operation) -> bool:
    """Whether an op may be cloned at all."""
    return (
        isinstance(op, TensorOp)
        and not isinstance(op, RateOp | ConstantOp)
        and IN_PLACE not in op.attributes
        and not can_fail(op)
        and all(tensor_type(x).has_static_shape() for x in (*op.operands, *op.results))
    )


def is_cheap(op: Operation) -> bool:
    """Whether making the results of an op again costs little more than reading them."""
    if not isinstance(op, TensorOp) or op.regions or op.name in RANDOM:
        return False
    is_on_rows = isinstance(op, RowOp | BatchNormOp)
    return is_on_rows or is_elementwise(op) or op.FLOPS == 0


def is_whole(op: Operation) -> bool:
    """Whether the results of an op are tensors by themselves, fused into no reader."""
    return isinstance(op, TensorOp) and not is_elementwise(op) and op.FLOPS != 0


def is_read_whole(value: SSAValue, reader: Operation) -> bool:
    """
    Whether an op reads a tensor by itself, of which the op on elements that makes it is
    not fused into the reader: then it may end the op in front of it.
    """
    op = value.owner
    is_on_elements = isinstance(op, Operation) and is_elementwise(op)
    return is_on_elements and is_whole(reader) and not isinstance(reader, RowOp)


def flops_of_job(job: JobOp) -> int:
    """The scalar operations of all ops of a job that say theirs."""
    ops = job.body.block.ops
    return sum(op.flops() for op in ops if isinstance(op, TensorOp) and has_sizes(op))


def has_sizes(op: Operation) -> bool:
    """Whether all shapes of an op are known."""
    return all(tensor_type(x).has_static_shape() for x in (*op.operands, *op.results))


class WithinBudget:
    """The search for what to make again so that a plan is within a budget."""

    def __init__(self, step: TrainingStep, ctx: Context, device: str | None):
        self._step = step
        self._ctx, self._device = ctx, device
        self._values = step.forward()
        self._peaks: dict[tuple[int, ...], int] = {}
        """The peaks of the plans that were asked for."""

    def find(self, budget: int) -> tuple[int, ...]:
        """
        The values to make again for a budget of bytes; fails with the least peak found.
        """
        if self.peak(()) <= budget:
            return ()
        choices = self._choices
        if self.peak(choices[-1]) <= budget:
            return self._first(choices, budget)
        # No budget that those meet has made more again than the first of these.
        start = self._flops(self._first(choices, self.peak(choices[-1])))
        for made in sorted({*chain(*self._several)}, key=self._order):
            if self._flops(made) >= start and self.peak(made) <= budget:
                return made
        least = min(self._peaks.values())
        message = (
            f"no plan of the job is within the budget of {budget} bytes: the "
            f"least that was found needs {least}"
        )
        raise LocatedPassFailure([(self._step.job, message)])

    @property
    def least(self) -> int:
        """A budget that is met without trying all choices."""
        return min(self.peak(()), self.peak(self._choices[-1]))

    @cached_property
    def _several(self) -> list[list[tuple[int, ...]]]:
        """
        For each number of segments the choice of `min-cut`, and those that make more
        and more of them again.
        """
        cheap = self._made(kept_by_min_cut(self._values))
        found = [split_evenly(self._values, size) for size in SEGMENTS]
        nested = [nested_choices(self._values, segments) for segments in found]
        return [[cheap, *map(self._made, choices)] for choices in nested]

    @cached_property
    def _choices(self) -> list[tuple[int, ...]]:
        """
        The choices of values, the fewest scalar operations first, up to the one with
        the least peak: that of `min-cut`, or of all segments, for some number of them.
        """
        chosen = min(self._several, key=lambda choices: self.peak(choices[-1]))
        last = min(chosen[0], chosen[-1], key=self.peak)
        cost = self._flops(last)
        fewer = [made for made in chosen if made != last and self._flops(made) <= cost]
        return [*sorted(fewer, key=self._flops), last]

    def _flops(self, made: tuple[int, ...]) -> int:
        return flops_of(self._values, made)

    def _order(self, made: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        return self._flops(made), made

    def _first(
        self, choices: Sequence[tuple[int, ...]], budget: int
    ) -> tuple[int, ...]:
        """
        The first of choices that fits, by halves, of which the last one does. A smaller
        budget fits wherever the search goes on with less, so it never finds an earlier
        one.
        """
        low, high = 0, len(choices) - 1
        while low < high:
            middle = (low + high) // 2
            if self.peak(choices[middle]) <= budget:
                high = middle
            else:
                low = middle + 1
        return choices[high]

    def _made(self, kept: Collection[int]) -> tuple[int, ...]:
        return tuple(made_again(self._values, kept))

    def peak(self, made: tuple[int, ...]) -> int:
        """The bytes of the plan where some values are made again."""
        if made not in self._peaks:
            trial = TrainingStep(self._step.job.clone())
            trial.make_again(made)
            self._peaks[made] = planned_peak(trial.job, self._ctx, self._device)
        return self._peaks[made]


@dataclass(frozen=True)
class JobRecomputePass(ModulePass):
    """
    Compute values of the forward pass again for the backward pass.
    """

    name = "job-recompute"

    policy: str = "auto"
    """`auto`, `segments`, `min-cut` or `budget`."""

    budget: int | None = None
    """The bytes that may be alive at once, as `plan-order-tasks` counts them."""

    device: str | None = None
    """The kind of device that jobs will be placed on, as in `job-place`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._check()
        for job in outermost(op, JobOp):
            step = TrainingStep(job)
            if step.is_open:
                self._recompute(step, ctx)

    def _check(self) -> None:
        if self.policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise PassFailedException(f"no policy '{self.policy}', known are {known}")
        if (self.policy == "budget") != (self.budget is not None):
            raise PassFailedException("policy=budget and budget=<bytes> go together")
        if self.budget is not None and self.budget < 0:
            raise PassFailedException(f"budget must not be negative, got {self.budget}")

    def _recompute(self, step: TrainingStep, ctx: Context) -> None:
        values = step.forward()
        if self.budget is not None:
            made = WithinBudget(step, ctx, self.device).find(self.budget)
        elif self.policy == "min-cut":
            made = made_again(values, kept_by_min_cut(values))
        else:
            segments = step.segments()
            made = made_again(values, kept_by_segments(values, segments))
            if self.policy == "auto" and step.is_on_one_device:
                cut = made_again(values, kept_by_some(values, segments, {*segments}))
                saved = kept_bytes(values, made) - kept_bytes(values, cut)
                made = cut if saved >= LEAST_SAVED else made
        if made:
            count("flops of jobs", flops_of_job(step.job))
            count("flops recomputed", flops_of(values, made))
            count("ops recomputed", step.make_again(made))
