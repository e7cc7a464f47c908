"""
The repetition vector: the number of acts of each op of a job, and of each task of a
plan, in one launch.

All act once, but for what `op.acc`, `op.repeat`, `op.pack` and `op.unpack` change, on
this rank or on others, of which messages tell. Ops
at different rates have no common acts to compare, so no order and no sharing of bytes
follows from the values that go from the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from heapq import heappop, heappush
from math import gcd
from typing import NamedTuple, TypeVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import MESSAGES, AfterOp, AssignOp, JobOp, StateOp
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.plan import PlanOp, TaskOp, kind_of_task, name_of
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.repetitions import (
    Flow,
    RateError,
    TimesError,
    TooManyActs,
    repetition_vector,
)
from penstock.lowering.analysis.aliases import Holds

PIECES = "pieces"
"""The attribute of a control register that says how many there are in a launch."""

Node = TypeVar("Node", bound=Hashable)


class Link(NamedTuple):
    """
    A value that goes from a node to another, by numbers, and the pieces of it that wait
    at first.
    """

    value: SSAValue
    flow: Flow
    initial: int = 0


def is_part(count: int, whole: int) -> bool:
    """Whether a number divides another one."""
    return count > 0 and whole % count == 0


def is_rated(ops: Iterable[Operation]) -> bool:
    """Whether some of these change how often values come."""
    return any(changes_rates(type(op)) for op in ops)


@cache
def changes_rates(kind: type[Operation]) -> bool:
    """Whether ops of a class change how often values come."""
    return issubclass(kind, RateOp)


def job_repetitions(job: JobOp) -> dict[Operation, int]:
    """
    The number of acts of each op of a job. Raises `VerifyException` if the rates of two
    do not suit each other.
    """
    ops = [op for op in job.body.block.ops if not is_variable(op)]
    if not is_rated(ops):
        return dict.fromkeys(ops, 1)
    number = {op: i for i, op in enumerate(ops)}
    links = [
        Link(value, Flow(number[value.owner], i, made(value.owner), taken(op)))
        for i, op in enumerate(ops)
        # `job.after` orders launches, not acts, so only its value has a rate.
        for value in dict.fromkeys(op.operands[:1] if is_after(op) else op.operands)
        if isinstance(value.owner, Operation) and value.owner in number
    ]
    links += [
        Link(op.result, Flow(number[update], number[user], 1, taken(user)))
        for op in job.body.block.ops
        if isinstance(op, StateOp) and (update := update_of(op)) is not None
        for user in (use.operation for use in op.result.uses)
        if user is not update
    ]
    return balanced(ops, links, lambda op: op.name, made, taken)


def update_of(state: StateOp) -> AssignOp | None:
    """The op that takes a value to the next act by a state."""
    users = (use.operation for use in state.result.uses)
    return next((x for x in users if isinstance(x, AssignOp)), None)


def is_variable(op: Operation) -> bool:
    """Whether an op is there for every act of others, and never acts."""
    names = ("job.variable", "job.state", "op.constant")
    return not op.operands and op.name in names


def is_after(op: Operation) -> bool:
    """Whether an op passes on its first operand when there are the others."""
    return isinstance(op, AfterOp)


def made(op: Operation) -> int:
    """The acts of an op for one piece of what it makes."""
    return op.made if isinstance(op, RateOp) else 1


def taken(op: Operation) -> int:
    """The acts of an op for one piece of what it reads."""
    return op.taken if isinstance(op, RateOp) else 1


def balanced(
    nodes: Sequence[Node],
    links: Sequence[Link],
    name: Callable[[Node], str],
    made: Callable[[Node], int],
    taken: Callable[[Node], int],
    times: Mapping[int, int] | None = None,
) -> dict[Node, int]:
    """
    The number of acts of each node, some of which say how many `times` they act. Raises
    `VerifyException`.
    """
    flows, rounds = [link.flow for link in links], [made(x) * taken(x) for x in nodes]
    try:
        found = repetition_vector(flows, rounds, times)
    except TimesError as error:
        raise VerifyException(
            f"{name(nodes[error.index])} has a message {error.times} times in a "
            "launch, which does not suit the rates of its plan"
        ) from None
    except RateError as error:
        flow = links[error.index].flow
        source, target = name(nodes[flow.source]), name(nodes[flow.target])
        raise VerifyException(
            f"{source} and {target} act {error.acts} and {error.others} times in a "
            f"launch, but what goes from the one to the other wants {flow.made} and "
            f"{flow.taken}"
        ) from None
    except TooManyActs as error:
        raise VerifyException(
            f"{name(nodes[error.index])} acts in a launch {error.reason}"
        ) from None
    return dict(zip(nodes, found, strict=True))


def times_of(ops: Sequence[Operation]) -> dict[int, int]:
    """The acts in a launch of the tasks of ops by number, where a message says them."""
    return {
        i: op.times.value.data
        for i, op in enumerate(ops)
        # Few ops have it, and to ask for their class takes longer.
        if "times" in op.properties
        and isinstance(op, MESSAGES)
        and op.times is not None
    }


class PlanRates:
    """
    The numbers of acts of the tasks of a plan, and the values between tasks. Raises
    `VerifyException` if the rates of two tasks do not suit each other.
    """

    def __init__(self, plan: PlanOp) -> None:
        self._plan = plan
        acting = [(x, op) for x in plan.tasks if kind_of_task(op := x.op) != "variable"]
        self.tasks = [task for task, _ in acting]
        ops = [op for _, op in acting]
        times = times_of(ops)
        self.is_rated = bool(times) or is_rated(ops)
        self.links: list[Link] = []
        self._writer: dict[SSAValue, TaskOp] = {}
        self._flows: list[Flow] = []
        if not self.is_rated:
            self.repetitions = dict.fromkeys(self.tasks, 1)
            return
        # Those of a main job need less than all of their registers, so order nothing.
        acting = [(i, task) for i, task in enumerate(self.tasks) if task.kind != "main"]
        number = {task: i for i, task in acting}
        self._writer = {
            value: task
            for _, task in acting
            for value in (*task.outs, *task.signals, *task.results_)
        }
        data = [
            Link(value, Flow(number[source], i, made(source.op), taken(task.op)))
            for i, task in acting
            for value in task.ins
            if (source := self._writer.get(value)) is not None
        ]
        self._flows = [link.flow for link in data]
        self.repetitions = balanced(
            self.tasks,
            [*data, *self._by_states(number)],
            lambda task: f"task '{task.task_name.data}'",
            lambda task: made(task.op),
            lambda task: taken(task.op),
            times,
        )
        waits = [
            self._control(value, number[source], i)
            for i, task in acting
            for value in task.waits
            if (source := self._writer.get(value)) is not None
        ]
        self.links = [*data, *waits, *self._held(number)]

    def _by_states(self, number: Mapping[TaskOp, int]) -> Iterator[Link]:
        """
        The states through which tasks take values to their next acts: all that use one
        act equally often.
        """
        states = (task for task in self._plan.tasks if isinstance(task.op, StateOp))
        values = {x for task in states for x in (*task.outs, *task.results_)}
        users: dict[SSAValue, list[TaskOp]] = {}
        for task in number if values else ():
            for value in values.intersection(task.ins):
                users.setdefault(value, []).append(task)
        for value, tasks in users.items():
            update = next((x for x in tasks if isinstance(x.op, AssignOp)), None)
            for user in tasks:
                if update is not None and user is not update:
                    ends = number[update], number[user]
                    yield Link(value, Flow(*ends, 1, taken(user.op)))

    def _held(self, number: dict[TaskOp, int]) -> Iterator[Link]:
        """
        The registers that tasks hold besides those that they read: the sources of
        views.
        """
        holds = Holds(self._plan)
        for task in number:
            held = dict.fromkeys(x for value in task.ins for x in holds.of(value))
            for value in held:
                if value not in task.ins and (source := self._writer.get(value)):
                    pieces, acts = self.pieces(value), self.repetitions[task]
                    # Else it reads what is made of several pieces, not the bytes.
                    if acts % pieces == 0:
                        ends = number[source], number[task], made(source.op)
                        yield Link(value, Flow(*ends, acts // pieces))

    def _control(self, value: SSAValue, source: int, target: int) -> Link:
        """
        A control register, of which there are as many pieces in a launch as it says, or
        else as both tasks can count. Raises `VerifyException` if they cannot.
        """
        owner, initial, said = value.owner, 0, None
        if isinstance(owner, RegisterOp):
            said = owner.attributes.get(PIECES)
            initial = 0 if owner.initial is None else owner.initial.value.data
        acts = [self.repetitions[self.tasks[i]] for i in (source, target)]
        pieces = gcd(*acts)
        if said is not None:
            if not isinstance(said, IntegerAttr) or not is_part(
                said.value.data, pieces
            ):
                raise VerifyException(
                    f"control register '{name_of(value)}' should have a number of "
                    f"pieces in a launch that divides {pieces}, got {said}"
                )
            pieces = said.value.data
        flow = Flow(source, target, *(n // pieces for n in acts))
        return Link(value, flow, initial)

    @cached_property
    def rate_changes(self) -> dict[TaskOp, int]:
        """The largest number of changes of rate on the way to each task."""
        missing = [0] * len(self.tasks)
        after: list[list[Flow]] = [[] for _ in self.tasks]
        for flow in self._flows:
            after[flow.source].append(flow)
            missing[flow.target] += 1
        changes = [0] * len(self.tasks)
        ready = [task for task, count in enumerate(missing) if not count]
        for task in ready:
            for flow in after[task]:
                number = changes[task] + (flow.made != 1 or flow.taken != 1)
                changes[flow.target] = max(changes[flow.target], number)
                missing[flow.target] -= 1
                if not missing[flow.target]:
                    ready.append(flow.target)
        return dict(zip(self.tasks, changes, strict=True))

    def every(self, task: TaskOp) -> dict[SSAValue, int]:
        """
        The number of acts of a task that a piece lasts for, where that is not one.
        """
        return self._every.get(task, {})

    @cached_property
    def _every(self) -> dict[TaskOp, dict[SSAValue, int]]:
        found: dict[TaskOp, dict[SSAValue, int]] = {}
        for task in self.tasks if self.is_rated else ():
            if made(task.op) > 1:
                found[task] = dict.fromkeys(task.outs, made(task.op))
        for link in self.links:
            flow = link.flow
            for task, acts in ((flow.source, flow.made), (flow.target, flow.taken)):
                if acts > 1:
                    found.setdefault(self.tasks[task], {})[link.value] = int(acts)
        return found

    def tokens(self, value: SSAValue, full: int, free: int) -> tuple[int, int]:
        """
        The tokens that full and free slots at the start are between all acts of the
        writer in a launch and all of a reader: with p pieces in a launch, the last of
        one launch comes before the first of so many launches later.
        """
        pieces = self.pieces(value)
        return -(-(pieces - 1 + full) // pieces), -(-(pieces - 1 + free) // pieces)

    def pieces(self, value: SSAValue) -> int:
        """The number of pieces of a value in a launch."""
        if not self.is_rated or (writer := self._writer.get(value)) is None:
            return 1
        if value in writer.outs:
            return self.repetitions[writer] // made(writer.op)
        return self.repetitions[writer] // self.every(writer).get(value, 1)

    def slots_needed(self) -> dict[SSAValue, int]:
        """Slots of each value with which a launch comes to its end, if that matters."""
        if not self.is_rated:
            return {}
        most = dict.fromkeys((link.value for link in self.links), 1)
        done = [0] * len(self.tasks)
        near: list[list[Link]] = [[] for _ in done]
        for link in self.links:
            near[link.flow.target].append(link)
        readers: dict[int, list[Link]] = {}
        for link in self.links:
            readers.setdefault(link.flow.source, []).append(link)

        def held(link: Link) -> int:
            """The slots in use while the source is about to act, or has acted."""
            flow = link.flow
            begun = -(-(done[flow.source] + 1) // flow.made)
            return link.initial + begun - done[flow.target] // flow.taken

        def can_act(task: int) -> bool:
            return done[task] < self.repetitions[self.tasks[task]] and all(
                link.initial + done[link.flow.source] // link.flow.made
                > done[task] // link.flow.taken
                for link in near[task]
            )

        # The last task in the list goes on first, so that little is on its way. A task
        # that can act stays so until it does, as others only add pieces.
        ready: list[int] = []
        is_listed = [False] * len(done)
        changed = set(range(len(done)))
        while True:
            for task in changed:
                if not is_listed[task] and can_act(task):
                    is_listed[task] = True
                    heappush(ready, -task)
            if not ready:
                return most
            task = -heappop(ready)
            is_listed[task] = False
            for link in readers.get(task, ()):
                most[link.value] = max(most[link.value], held(link))
            done[task] += 1
            changed = {task, *(link.flow.target for link in readers.get(task, ()))}

    def stuck(self, slots: Callable[[SSAValue], int]) -> list[TaskOp]:
        """The tasks that do not come to the end of a launch with these slots."""
        done = [0] * len(self.tasks)
        near: list[list[Link]] = [[] for _ in done]
        for link in self.links:
            for end in {link.flow.source, link.flow.target}:
                near[end].append(link)

        def can_act(task: int) -> bool:
            for link in near[task]:
                flow = link.flow
                full = (
                    link.initial
                    + done[flow.source] // flow.made
                    - done[flow.target] // flow.taken
                )
                if flow.target == task and full < 1:
                    return False
                if flow.source == task and full >= slots(link.value):
                    return False
            return done[task] < self.repetitions[self.tasks[task]]

        is_moving = True
        while is_moving:
            is_moving = False
            for task in range(len(done)):
                while can_act(task):
                    done[task] += 1
                    is_moving = True
        return [
            task
            for task, count in zip(self.tasks, done, strict=True)
            if count < self.repetitions[task]
        ]


def grouped(
    order: Sequence[int],
    before: Sequence[Sequence[int]],
    kinds: Sequence[tuple[int, int]],
) -> list[int]:
    """
    Numbers in an order in which those of one kind follow each other as long as can be,
    each behind those `before` it; else they stay in this order.
    """
    place = {number: i for i, number in enumerate(order)}
    missing = [len(set(earlier)) for earlier in before]
    after: list[list[int]] = [[] for _ in before]
    for number, earlier in enumerate(before):
        for other in set(earlier):
            after[other].append(number)
    ready: dict[tuple[int, int], list[int]] = {kind: [] for kind in kinds}
    for number, count in enumerate(missing):
        if not count:
            heappush(ready[kinds[number]], place[number])
    found: list[int] = []
    while heads := [(places[0], kind) for kind, places in ready.items() if places]:
        near = ready[min(heads)[1]]
        while near:
            number = order[heappop(near)]
            found.append(number)
            for other in after[number]:
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready[kinds[other]], place[other])
    return found


def rates_of(plan: PlanOp) -> PlanRates:
    """The numbers of acts of the tasks of a plan. Raises `LocatedPassFailure`."""
    try:
        return PlanRates(plan)
    except VerifyException as error:
        fail_if_any([(plan, str(error))])
        raise
