"""
Let registers lie on others, where ops can work in place or need to move nothing.

Ops name pairs of an operand and a result that may share bytes (`in_place_pairs`). Tasks
are looked at in an order in which they can act. The result of a task becomes an `alias`
where one of its pairs allows it; the first one does that can, but pairs that must come
before those that may. Such a task writes over what it reads, or, where all of its pairs
are views, does nothing at all: a reshape, or a slice whose elements follow each other.
Last, operands that lie in their result as views (those of a concatenation along the
first axis that is not 1) become aliases of parts of the result, all or none, so that
their writers write to where they belong.

Aliases name the register whose bytes they are directly, also where that is an alias of
an alias. Where nothing but the order of a stream says that the last reader of some
bytes comes before the task that overwrites them, a control register does so then. An
alias with fewer slots than what it lies on gets as many.

What keeps a pair from being used is said by the attribute `no_alias` of the result's
register, as `<rule>: <why>`:

* `variable`: variables are never written over, nor moved into something else;
* `interface`: what several jobs share (`regst-mark-interfaces`) has bytes of its own,
  which only views lie on;
* `memory`, `slots`: the two do not lie in one kind of memory, or the result has more
  slots, or slots of another size;
* `type`: only tensors of one type are overwritten;
* `dynamic`: what has its shape in a header lies alone;
* `alignment`: a part of something starts at one of its elements, on a device at a
  multiple of 16 bytes;
* `operand`: the op reads the bytes as another operand too, which cannot work in place;
* `reader`: another task may read the bytes later, under whatever name;
* `must`: another task has to write over the bytes;
* `part`: an operand is only a part of what it lies on, or lies in another result;
* `twice`: two operands lie on the same bytes;
* `peak`: the bytes in use at once would be more, as what is used only in part is kept
  for longer.

A pair that must be used and cannot is an error. Plans that have blocks or aliases are
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from penstock.dialects.diagnostics import fail_if_any
from penstock.dialects.interfaces import InPlacePair
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import BlockOp, DataType, RegisterOp
from penstock.lowering import plan_reduce_events
from penstock.lowering.alias_forest import Forest, Spot, Timeline, Tree, Version
from penstock.lowering.aliases import bytes_of, operand_register, pairs_of
from penstock.lowering.control_edges import ControlEdge, write_control_edges
from penstock.lowering.verify_deadlock import PlanWaits

Finding: TypeAlias = tuple[Operation, str]
Refusal: TypeAlias = str
"""Why a pair is not used: `<rule>: <why>`."""

NO_ALIAS = "no_alias"
"""The attribute of a register that says why it is none."""

ALIAS = DenseArrayBase.from_list(i32, [0, 1])
"""The operand segments of an alias."""


def quoted(name: str) -> str:
    """A name in a message."""
    return f"'{name}'"


def register_of(value: SSAValue) -> RegisterOp:
    """The op that makes a register."""
    register = value.owner
    assert isinstance(register, RegisterOp), "has been checked"
    return register


def is_part(pair: InPlacePair, task: TaskOp) -> bool:
    """Whether the result of a pair is a part of its operand, or all of it."""
    rest = bytes_of(operand_register(task, pair.operand)) - pair.offset
    return pair.offset >= 0 and bytes_of(task.outs[pair.result]) <= rest


@dataclass(frozen=True)
class Pairs:
    """The in-place pairs of a task."""

    task: TaskOp
    pairs: Sequence[InPlacePair]
    views: Sequence[InPlacePair]
    """The views among them; none if they do not tell all that the task does."""

    @classmethod
    def of(cls, task: TaskOp) -> Pairs:
        """The pairs of a task's op."""
        pairs = pairs_of(task)
        views = [pair for pair in pairs if pair.view]
        covered = {pair.result for pair in views} == set(range(len(task.outs)))
        return cls(task, pairs, views if covered else ())

    @property
    def takes_parts(self) -> bool:
        """Whether the results of the task are each a view of one operand, or a part."""
        one_each = bool(self.views) and len(self.views) == len(self.task.outs)
        return one_each and all(is_part(pair, self.task) for pair in self.views)

    @property
    def is_gathered(self) -> bool:
        """Whether the only result of the task has its operands as parts."""
        return bool(self.views) and len(self.task.outs) == 1 and not self.takes_parts


################################################################################
# Which registers lie where                                                    #
################################################################################


class Aliasing:
    """Decides which registers of a plan become aliases."""

    def __init__(self, plan: PlanOp, timeline: Timeline) -> None:
        self.timeline = timeline
        self.forest = Forest(plan, timeline)
        self._pairs = {task: Pairs.of(task) for task in timeline.tasks}
        self.refusals: dict[SSAValue, list[Refusal]] = {}
        """Why the pairs of a result are not used."""
        self.orders: dict[tuple[int, int], int] = {}
        """The tasks that have to end before another one begins, and its slots."""
        self.failures: list[Finding] = []
        """The pairs that must be used and cannot."""
        self._note_musts()

    def decide(self) -> None:
        """Look at all tasks."""
        gathered: list[TaskOp] = []
        for index, task in enumerate(self.timeline.tasks):
            if not all(r in self.forest for r in (*task.ins, *task.outs)):
                continue
            if self._pairs[task].takes_parts:
                self._show_results(task)
            elif self._pairs[task].is_gathered:
                gathered.append(task)
            else:
                self._overwrite_operands(index, task)
        for task in gathered:
            self._gather_operands(task)

    def _note_musts(self) -> None:
        for index, task in enumerate(self.timeline.tasks):
            for pair in self._pairs[task].pairs:
                operand = operand_register(task, pair.operand)
                if pair.must and not pair.view and operand in self.forest:
                    for version in self.forest.shown(operand):
                        version.musts.append(index)

    def _refuse(self, task: TaskOp, pair: InPlacePair, refusal: Refusal) -> None:
        result = task.outs[pair.result]
        self.refusals.setdefault(result, []).append(refusal)
        if pair.must:
            operand = name_of(operand_register(task, pair.operand))
            self.failures.append(
                (
                    task.op,
                    f"{task.op.name} must write '{name_of(result)}' over '{operand}', "
                    f"but {refusal}",
                )
            )

    # Rules

    def _name(self, index: int) -> str:
        return quoted(self.timeline.tasks[index].task_name.data)

    def _memory_rules(self, part: SSAValue, spot: Spot) -> Iterator[Refusal]:
        """What keeps a register from lying on these bytes, whoever uses them."""
        register, tree = register_of(part), spot.tree
        if register.interface is not None:
            yield f"interface: {quoted(name_of(part))} has bytes of its own"
        if register.memory_case != tree.case:
            yield f"memory: {quoted(name_of(tree.root.register))} lies in another one"
            return
        if (slots := register.slots.value.data) > tree.slots:
            yield f"slots: {slots} of them do not fit into {tree.slots}"
        elif tree.slots > 1 and register.stride != tree.root.stride:
            yield f"slots: those of {quoted(name_of(tree.root.register))} are larger"
        type = part.type
        assert isinstance(type, DataType), "control lies nowhere"
        if type.is_dynamic:
            yield f"dynamic: {quoted(name_of(part))} has its shape in a header"
        if spot.start % (alignment := type.alignment(tree.case)):
            yield f"alignment: byte {spot.start} is no multiple of {alignment}"

    def _interface_rule(self, tree: Tree) -> Iterator[Refusal]:
        """Whether others may write where a register lies."""
        if tree.root.interface is not None:
            name = quoted(name_of(tree.root.register))
            yield f"interface: only its task writes {name}"

    def _late_user(self, versions: Sequence[Version], index: int) -> int | None:
        """A task that may use one of these versions after a task has begun."""
        for version in versions:
            for user in reversed(version.users):
                if not self.timeline.is_done(user, index):
                    return user
        return None

    def _reader_rule(
        self, versions: Sequence[Version], index: int
    ) -> Iterator[Refusal]:
        late = self._late_user(versions, index)
        if late is not None:
            yield f"reader: {self._name(late)} may read it later"

    def _must_rule(
        self, versions: Sequence[Version], part: Sequence[Version]
    ) -> Iterator[Refusal]:
        """
        What keeps the users of `part` from using the bytes of versions too because a
        task has to overwrite one of them.
        """
        for version, others in (
            *((version, part) for version in versions),
            *((version, versions) for version in part),
        ):
            for must in version.musts:
                fixed = any(other.writer is None for other in others)
                if fixed or self._late_user(others, must) is not None:
                    yield f"must: {self._name(must)} has to write over it"
                    return

    def _peak_rule(self, parts: Sequence[Tree], whole: Tree) -> Iterator[Refusal]:
        if whole.is_variable or all(part.size == whole.size for part in parts):
            return
        before, after = self.forest.peak_if_joined(parts, whole)
        if after > before:
            yield f"peak: {after} bytes would be in use at once instead of {before}"

    # Results that show bytes of operands

    def _show_results(self, task: TaskOp) -> None:
        views = self._pairs[task].views
        refusals = [next(self._view_rules(task, pair), None) for pair in views]
        if not any(refusals):
            parts = [self.forest.spot(task.outs[pair.result]).tree for pair in views]
            source = operand_register(task, views[0].operand)
            refusals = [*self._peak_rule(parts, self.forest.spot(source).tree)]
        if first := next(filter(None, refusals), None):
            for pair in views:
                self._refuse(task, pair, first)
            return
        for pair in views:
            source, result = (
                operand_register(task, pair.operand),
                task.outs[pair.result],
            )
            self._lie_on(source, result, pair.offset)
            self.forest.show(result, source)

    def _view_rules(self, task: TaskOp, pair: InPlacePair) -> Iterator[Refusal]:
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        tree, start, _ = self.forest.spot(source)
        start += pair.offset
        spot = Spot(tree, start, start + bytes_of(result))
        yield from self._memory_rules(result, spot)
        shown = self.forest.shown(source)
        yield from self._must_rule(shown, self.forest.shown(result))

    def _lie_on(self, source: SSAValue, result: SSAValue, offset: int) -> None:
        """Let the tree of a result lie on an operand."""
        tree, start, _ = self.forest.spot(source)
        self.forest.join(self.forest.spot(result).tree, tree, start + offset)

    # Results that are written over operands

    def _overwrite_operands(self, index: int, task: TaskOp) -> None:
        pairs = [pair for pair in self._pairs[task].pairs if not pair.view]
        pairs.sort(
            key=lambda p: (not p.must, -bytes_of(task.outs[p.result]), p.operand)
        )
        done: set[int] = set()
        for pair in pairs:
            if pair.result in done:
                if pair.must:
                    self._refuse(
                        task, pair, "twice: it already lies on another operand"
                    )
                continue
            refusal = next(self._overwrite_rules(index, task, pair), None)
            if refusal is None:
                done.add(pair.result)
                self._overwrite(index, task, pair)
            else:
                self._refuse(task, pair, refusal)

    def _overwrite_rules(
        self, index: int, task: TaskOp, pair: InPlacePair
    ) -> Iterator[Refusal]:
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        if source.type != result.type:
            yield "type: it is not that of the operand"
            return
        spot = self.forest.spot(source)
        if spot.tree.is_variable:
            yield f"variable: {quoted(name_of(spot.tree.root.register))} is one"
        yield from self._interface_rule(spot.tree)
        yield from self._memory_rules(result, spot)
        yield from self._operand_rule(task, pair, spot)
        yield from self._reader_rule(self.forest.overlapping(spot), index)
        yield from self._peak_rule([self.forest.spot(result).tree], spot.tree)

    def _operand_rule(
        self, task: TaskOp, pair: InPlacePair, spot: Spot
    ) -> Iterator[Refusal]:
        """Whether all that the op reads there may be overwritten while it does."""
        pairs = self._pairs[task].pairs
        allowed = {p.operand for p in pairs if p.result == pair.result}
        for operand in range(len(task.op.operands)):
            register = operand_register(task, operand)
            other = self.forest.spot(register)
            apart = other.start >= spot.end or spot.start >= other.end
            if other.tree is not spot.tree or apart:
                continue
            same = other == spot and register.type == task.outs[pair.result].type
            if operand not in allowed or not same:
                yield f"operand: operand {operand} is read there too"

    def _overwrite(self, index: int, task: TaskOp, pair: InPlacePair) -> None:
        source, result = operand_register(task, pair.operand), task.outs[pair.result]
        spot = self.forest.spot(source)
        written = self.forest.shown(result)
        for version in self.forest.overlapping(spot):
            version.overwriters.append(index)
            for user in version.users:
                if user != index:
                    self.orders[user, index] = spot.tree.slots
            if spot.start <= version.start and version.end <= spot.end:
                spot.tree.versions.remove(version)
        self._lie_on(source, result, 0)
        spot.tree.versions += written

    # Operands that are parts of a result

    def _gather_operands(self, task: TaskOp) -> None:
        views = self._pairs[task].views
        refusal = next(self._gather_rules(task, views), None)
        if refusal is not None:
            for pair in views:
                self._refuse(task, pair, refusal)
            return
        whole = self.forest.spot(task.outs[0]).tree
        (own,) = self.forest.shown(task.outs[0])
        for pair in views:
            operand = operand_register(task, pair.operand)
            shown = self.forest.shown(operand)
            self.forest.join(self.forest.spot(operand).tree, whole, -pair.offset)
            self._hand_on(shown, own)
            own.parts += shown

    def _hand_on(self, shown: Sequence[Version], own: Version) -> None:
        """Let the users of a result use the bytes of an operand instead."""
        for version in shown:
            for overwriter in own.overwriters:
                self.orders.update(((user, overwriter), 1) for user in version.users)
            version.overwriters += own.overwriters
            version.users += own.users
            version.musts += own.musts

    def _gather_rules(
        self, task: TaskOp, views: Sequence[InPlacePair]
    ) -> Iterator[Refusal]:
        whole = self.forest.spot(task.outs[0]).tree
        operands = [operand_register(task, pair.operand) for pair in views]
        parts = [self.forest.spot(operand).tree for operand in operands]
        for pair, operand in zip(views, operands, strict=True):
            yield from self._gather_rules_of(task, pair, operand, whole)
        if len(set(parts)) < len(parts):
            yield "twice: two operands lie on the same bytes"
        else:
            yield from self._peak_rule(parts, whole)

    def _gather_rules_of(
        self, task: TaskOp, pair: InPlacePair, operand: SSAValue, whole: Tree
    ) -> Iterator[Refusal]:
        name = quoted(name_of(operand))
        tree, start, _ = self.forest.spot(operand)
        if tree.is_variable:
            yield f"variable: {quoted(name_of(tree.root.register))} is one"
        yield from self._interface_rule(whole)
        if start or tree.size != bytes_of(operand):
            root = quoted(name_of(tree.root.register))
            yield f"part: {name} is a part of {root}"
        if whole.slots > 1 or tree.slots > 1:
            yield f"slots: {max(whole.slots, tree.slots)} of them cannot be parts"
        start = -pair.offset
        yield from self._memory_rules(
            tree.root.register, Spot(whole, start, start - pair.offset)
        )
        shown = self.forest.shown(operand)
        for index in chain.from_iterable(version.overwriters for version in shown):
            yield f"reader: {self._name(index)} writes over {name}"
        for own in self.forest.shown(task.outs[0]):
            yield from self._overwriter_rules(shown, own)
            yield from self._must_rule(shown, [own])

    def _overwriter_rules(
        self, shown: Sequence[Version], own: Version
    ) -> Iterator[Refusal]:
        """Whether an operand may lie where tasks write over the result."""
        for overwriter in own.overwriters:
            if any(overwriter in version.users for version in shown):
                yield f"operand: {self._name(overwriter)} reads it and writes over it"
            yield from self._reader_rule(shown, overwriter)


################################################################################
# Writing it down                                                              #
################################################################################


def write_aliases(plan: PlanOp, aliasing: Aliasing, explain: bool) -> None:
    """Make registers aliases, or note why they are none."""
    spots = {
        register: aliasing.forest.spot(register.register)
        for register in plan.registers
        if register.register in aliasing.forest
    }
    listed: set[RegisterOp] = set()
    for register, (tree, start, _) in spots.items():
        listed.add(register)
        if tree.root is not register:
            # What an alias names is listed before it.
            if tree.root not in listed:
                listed.add(tree.root)
                tree.root.detach()
                plan.body.block.insert_op_before(tree.root, register)
            write_alias(register, tree.root, start)
        elif explain and (refusals := aliasing.refusals.get(register.register)):
            register.attributes[NO_ALIAS] = StringAttr(
                "; ".join(dict.fromkeys(refusals))
            )


def write_alias(register: RegisterOp, root: RegisterOp, start: int) -> None:
    """Replace a register by one that is an alias of another one."""
    properties = {**register.properties, "operandSegmentSizes": ALIAS}
    properties["slots"] = root.slots
    if start:
        properties["offset"] = IntegerAttr(start, i64)
    register.attributes.pop(NO_ALIAS, None)
    alias = RegisterOp.create(
        operands=[root.register],
        properties=properties,
        attributes=register.attributes,
        result_types=[register.register.type],
        location=register.location,
    )
    Rewriter.replace_op(register, alias)


def missing_edges(aliasing: Aliasing) -> Iterator[ControlEdge]:
    """The orders between tasks that nothing but their stream gives so far."""
    timeline, orders = aliasing.timeline, sorted(aliasing.orders)
    marks = {second: 1 << i for i, second in enumerate({s: None for _, s in orders})}
    after = [0] * len(timeline.tasks)
    for task in reversed(range(len(timeline.tasks))):
        reached = after[task] | marks.get(task, 0)
        for source in timeline.sources[task]:
            after[source] |= reached
    for first, second in orders:
        if first != second and not after[first] & marks[second]:
            tasks = timeline.tasks[first], timeline.tasks[second]
            yield ControlEdge(*tasks, aliasing.orders[first, second])


def complaints_about(plan: PlanOp, timeline: Timeline) -> Iterator[Finding]:
    """All that keeps a plan from being looked at."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
    elif timeline.stuck:
        cycles = list(plan_reduce_events.complaints_about(plan, PlanWaits.of(plan)))
        yield from cycles or unordered_tasks(plan)


def unordered_tasks(plan: PlanOp) -> Iterator[Finding]:
    """The tasks without an `order` on streams where others have one."""
    acting = [task for task in plan.tasks if task.kind != "variable"]
    ordered = {(x.device, x.stream) for x in acting if x.order is not None}
    for task in acting:
        if task.order is None and (task.device, task.stream) in ordered:
            name = quoted(task.task_name.data)
            yield task, f"task {name} has no order, but others of its stream have one"


def is_planned(plan: PlanOp) -> bool:
    """Whether registers of a plan have places, or are aliases, already."""
    return any(
        isinstance(op, BlockOp)
        or (isinstance(op, RegisterOp) and op.target is not None)
        for op in plan.body.block.ops
    )


@dataclass(frozen=True)
class RegstAliasRegistersPass(ModulePass):
    """
    Let registers lie on others, where ops can work in place or need to move nothing.
    """

    name = "regst-alias-registers"

    explain: bool = True
    """Whether registers say why they are no aliases."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = [plan for plan in op.walk() if isinstance(plan, PlanOp)]
        plans = [plan for plan in plans if not is_planned(plan)]
        timelines = [Timeline(plan) for plan in plans]
        pairs = list(zip(plans, timelines, strict=True))
        fail_if_any(found for pair in pairs for found in complaints_about(*pair))
        decided = [Aliasing(plan, timeline) for plan, timeline in pairs]
        for aliasing in decided:
            aliasing.decide()
        fail_if_any(found for aliasing in decided for found in aliasing.failures)
        for plan, aliasing in zip(plans, decided, strict=True):
            edges = list(missing_edges(aliasing))
            write_aliases(plan, aliasing, self.explain)
            write_control_edges(plan, edges)
