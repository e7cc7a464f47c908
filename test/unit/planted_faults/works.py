"""The kernels of programs in terms of NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    StringAttr,
)
from xdsl.utils.hints import isa

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    IfOp,
    LoopOp,
    ProgramOp,
    names_of,
    steps_within,
)
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.loop import LoopOp as TensorLoopOp
from penstock.dialects.op.multirate import AccOp, RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.wave import WaveOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.aliases import does_nothing
from penstock.lowering.convert.boxing_tasks import zeros
from penstock.lowering.convert.kernel_bodies import overwritten_by
from penstock.lowering.convert.task_steps import in_order
from penstock.tools.session.program_export import image_of
from planted_faults.machine import (
    Array,
    Work,
    Works,
    place_of,
)


@dataclass(frozen=True)
class OpWork:
    """The work of the kernel of an op: operands, but for those under results, first."""

    op: TensorOp
    over: Mapping[int, int]
    """The operands that lie where a result does, with that result."""

    @property
    def kept(self) -> int:
        return len(self.op.operands) - len(self.over)

    @property
    def writes(self) -> frozenset[int]:
        return frozenset(range(self.kept, self.kept + len(self.op.results)))

    @property
    def reads(self) -> frozenset[int]:
        hidden = {self.kept + result for result in self.over.values()}
        return frozenset(range(self.kept)) | hidden

    def __call__(self, args: Sequence[Array]) -> Mapping[int, Array]:
        given = iter(args[: self.kept])
        ins = [
            args[self.kept + self.over[i]] if i in self.over else next(given)
            for i in range(len(self.op.operands))
        ]
        outs = self.op.meaning(*ins)
        return {self.kept + i: np.asarray(out) for i, out in enumerate(outs)}


@dataclass(frozen=True)
class AccWork:
    """The work of a kernel that adds to a sum."""

    reads = frozenset({0, 1})
    writes = frozenset({1})

    def __call__(self, args: Sequence[Array]) -> Mapping[int, Array]:
        return {1: np.add(args[0], args[1])}


@dataclass(frozen=True)
class JoinedWork:
    """The works of several kernels in turn, each on some arguments of one of all."""

    members: Sequence[tuple[Work, Sequence[int]]]

    @property
    def writes(self) -> frozenset[int]:
        return frozenset(args[i] for work, args in self.members for i in work.writes)

    @property
    def reads(self) -> frozenset[int]:
        found: set[int] = set()
        made: set[int] = set()
        for work, args in self.members:
            found |= {args[i] for i in work.reads} - made
            made |= {args[i] for i in work.writes}
        return frozenset(found)

    def __call__(self, args: Sequence[Array]) -> Mapping[int, Array]:
        values, made = list(args), dict[int, Array]()
        for work, places in self.members:
            for i, array in work([values[j] for j in places]).items():
                values[places[i]] = made[places[i]] = array
        return made


def works_of(plan: PlanOp) -> dict[str, Sequence[Work]]:
    """The works of the calls of the actors that tasks become, by their names."""
    return {
        task.task_name.data: works
        for task in plan.tasks
        if (works := [*works_of_task(task)])
    }


def works_of_task(task: TaskOp) -> Iterator[Work]:
    """The works of the calls of a task, those in its bodies in their order."""
    match task.op:
        case AccOp():
            yield AccWork()
        case RateOp():
            pass
        case WaveOp() as op:
            yield from (OpWork(member, {}) for member in op.members)
        case FlowOp() as op:
            if isinstance(op, TensorLoopOp) and op.is_bounded:
                # Rows of iterations that are not made are zeros.
                stacks = op.outs[len(op.ends) : len(op.ends) + len(op.stacks)]
                yield from (OpWork(zeros(tensor_type(x)), {}) for x in stacks)
            for body in task.bodies:
                for inner in in_order(body):
                    if not does_nothing(inner):
                        yield from works_of_task(inner)
        case TensorOp() as op if task.kind == "compute":
            yield OpWork(op, dict(overwritten_by(task)))
        case _:
            pass


def has_bodies(actor: ActorOp) -> bool:
    """Whether an actor has loops or conditions."""
    return any(isinstance(step, IfOp | LoopOp) for step in actor.body.block.ops)


def works_by_kernel(program: ProgramOp, works: Works) -> Works:
    """The same works, with those of the kernels that loops and conditions call."""
    found = dict(works)
    for actor in program.actors:
        if has_bodies(actor):
            steps = steps_within(actor.body.block)
            calls = [step for step in steps if isinstance(step, CallOp)]
            own = works.get(actor.sym_name.data, ())
            for call, work in zip(calls, own, strict=True):
                found[call.kernel.string_value()] = [work]
    return found


def chained_works(before: ProgramOp, after: ProgramOp, works: Works) -> Works:
    """The works of the actors of a program some of which have become chains."""
    image = image_of(before)
    calls = {a.name: a.steps[0].arguments for a in image.actors if a.steps}
    places = {x.name: place_of(x) for x in (*image.queues, *image.variables) if x.kind}
    found = dict(works)
    for actor in after.actors:
        members = actor.attributes.get("chain")
        if not isa(members, ArrayAttr[StringAttr]):
            continue
        call = actor.body.block.first_op
        assert isinstance(call, CallOp), "they are made so"
        at = [places[name] for name in names_of(call.arguments)]
        listed: list[tuple[Work, Sequence[int]]] = []
        for name in (member.data for member in members):
            (work,) = works[name]
            listed.append((work, [at.index(places[x]) for x in calls[name]]))
        found[actor.sym_name.data] = [JoinedWork(listed)]
    return found


def waves_as_printed(before: ProgramOp, after: ProgramOp, works: Works) -> Works:
    """The works of a program the calls of whose waves have become one each."""
    calls = {actor.sym_name.data: calls_of(actor) for actor in before.actors}
    found = dict(works)
    for actor in after.actors:
        name = actor.sym_name.data
        if len(works.get(name, ())) < 2 or has_bodies(actor):
            continue
        apart = list(zip(calls[name], works[name], strict=True))
        found[name] = [joined_work(arguments, apart) for arguments in calls_of(actor)]
    return found


def calls_of(actor: ActorOp) -> list[list[str]]:
    """The arguments of the calls of an actor."""
    calls = [op for op in actor.body.block.ops if isinstance(op, CallOp)]
    return [list(names_of(call.arguments)) for call in calls]


def joined_work(
    arguments: Sequence[str], apart: list[tuple[list[str], Work]]
) -> JoinedWork:
    """The work of a call with the arguments of some others, which are left out then."""
    listed: list[tuple[Work, Sequence[int]]] = []
    end = 0
    while end < len(arguments):
        member = next(x for x in apart if x[0] == arguments[end:][: len(x[0])])
        apart.remove(member)
        listed.append((member[1], range(end, end + len(member[0]))))
        end += len(member[0])
    return JoinedWork(listed)
