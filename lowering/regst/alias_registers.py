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
alias with fewer slots than what it lies on gets as many. Memory of one host that is
pinned for a device, or registered for transfers, serves as such that is not: what lies
on common bytes lies in memory that serves as that of all.

*Hints* on an op (`in_place`, see `#op.hint`) choose among its pairs: of a result that
may lie over some operands only these count, what must lie over one does or is an error,
and what is never to lie over one does not, under whatever name. *Aliases that are there
already*, written by hand, stay: they are an error where a rule keeps them from lying
there, and others are found around them. A register that says `no_alias` already is made
none. For what must, and for what is an alias already, also tasks of other streams that
read the bytes and are listed before are made to come before.

What keeps a pair from being used is said by the attribute `no_alias` of the result's
register, as `<rule>: <why>`. A result that lies over one operand and is hinted over
others, too, says why it is not over these: `rejected`, as `over <operand>: <rule>:
<why>`.

* `kernel`: a hint names a pair that the op cannot do in place;
* `never`, `may`: hints keep the result off the operand, or name others;
* `no_alias`, `given`: the register says that it is none, or is one already elsewhere;
* `source`: what is an alias already lies on something that its task does not read;
* `variable`: variables are never written over, nor moved into something else;
* `interface`: what several jobs share (`regst-mark-interfaces`) has bytes of its own,
  which only views lie on;
* `memory`, `slots`: no kind of memory serves as those of both, or the result has more
  slots, or slots of another size, or other slots than what lies on it already;
* `type`: only tensors of one type are overwritten;
* `dynamic`: what has its shape in a header lies alone;
* `alignment`: a part of something starts at one of its elements, on a device at a
  multiple of 16 bytes;
* `operand`: the op reads the bytes as another operand too, which cannot work in place;
* `reader`: another task may read the bytes later, under whatever name;
* `input`: an input of one slot is read where the caller of a run has it, and would have
  to be copied if something were written over it; a hint that asks for it has its way;
* `must`: another task has to write over the bytes;
* `part`: an operand is only a part of what it lies on, or lies in another result;
* `twice`: two operands lie on the same bytes, or the result lies on another operand;
* `peak`: the bytes in use at once, in the kinds of memory concerned together, would be
  more, as what is used only in part is kept for longer; what lies there already, or has
  to, may. Views for which one alone takes more are judged together with all others of
  the same bytes, since one keeps these bytes as long as all do.

A pair that must be used and cannot is an error. Plans that have blocks are left alone.

In a plan with rates only results of `op.repeat` and `op.unpack` become aliases, of all
of what is read: n slots in each of its slots, which are the whole piece or its parts,
act after act. The rules are `no_alias`, `given`, `never`, `variable`, `interface`,
`memory` and `alignment` as above, and

* `source`: what is read lies on something else itself, or is listed later;
* `slots`: readers hold what is read for longer then, and its slots do not let tasks act
  as often as their rates want.

Example: `test/lowering/regst/regst-alias-registers-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i32,
    i64,
)
from xdsl.passes import ModulePass

from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import RegisterOp, alias_place
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.in_place_pairs import Pairs, Refusal
from penstock.lowering.analysis.plan_waits import PlanWaits, complaints_about_waits
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.regst.alias_decisions import (
    Aliasing,
    Finding,
    bad_hints,
    orders_wanted,
)
from penstock.lowering.regst.alias_forest import Timeline
from penstock.lowering.regst.alias_frames import show_frames
from penstock.lowering.regst.alias_rules import NO_ALIAS, REJECTED, quoted

ALIAS = DenseArrayBase.from_list(i32, [0, 1])
"""The operand segments of an alias."""

APART = DenseArrayBase.from_list(i32, [0, 0])
"""Those of a register that is none, and has no place."""

################################################################################
# Writing it down                                                              #
################################################################################


def place_of(register: RegisterOp, aliasing: Aliasing) -> tuple[RegisterOp, int] | None:
    """The register that one lies on, and from which byte on; None if on none."""
    value, offset = register.register, 0
    if value not in aliasing.forest:
        # What no task uses lies on what it did.
        value, offset = alias_place(value)
        if value not in aliasing.forest:
            return None
    tree, start, _ = aliasing.forest.spot(value)
    return None if tree.root is register else (tree.root, start + offset)


def write_aliases(plan: PlanOp, aliasing: Aliasing) -> None:
    """Make registers aliases, or note why they are none."""
    places = {register: place_of(register, aliasing) for register in plan.registers}
    for root, _ in filter(None, places.values()):
        root.memory_case = aliasing.forest.spot(root.register).tree.case
    listed: set[RegisterOp] = set()
    """The registers that are listed already, and are no aliases."""
    for register, place in places.items():
        if place is None:
            if register not in listed:
                listed.add(register)
                lay_apart(register)
            refusals = aliasing.refusals.get(register.register)
            write_reasons(register, NO_ALIAS, refusals)
            continue
        root, start = place
        # What an alias names is listed before it.
        if root not in listed:
            root.detach()
            plan.body.block.insert_op_before(root, register)
            listed.add(root)
            lay_apart(root)
        rejections = aliasing.rejections.get(register.register)
        write_reasons(register, REJECTED, rejections)
        lay_on(register, root, start)


def write_reasons(
    register: RegisterOp, attribute: str, reasons: list[Refusal] | None
) -> None:
    """Note why a register does not lie somewhere, unless it says so already."""
    if reasons and attribute not in register.attributes:
        register.attributes[attribute] = StringAttr("; ".join(dict.fromkeys(reasons)))


def lay_on(register: RegisterOp, root: RegisterOp, start: int) -> None:
    """Make a register an alias of another one, from one of its bytes on."""
    register.attributes.pop(NO_ALIAS, None)
    register.operands = [root.register]
    register.properties["operandSegmentSizes"] = ALIAS
    register.slots, register.memory_case = root.slots, root.memory_case
    register.offset = IntegerAttr(start, i64) if start else None


def lay_apart(register: RegisterOp) -> None:
    """Make a register none that is an alias, if it is one."""
    if register.target is not None:
        register.operands = []
        register.properties["operandSegmentSizes"] = APART
        register.offset = None


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
        cycles = list(complaints_about_waits(plan, PlanWaits.of(plan)))
        yield from cycles or unordered_tasks(plan)
    else:
        yield from bad_hints(plan)


def unordered_tasks(plan: PlanOp) -> Iterator[Finding]:
    """The tasks without an `order` on streams where others have one."""
    acting = [task for task in plan.tasks if task.kind != "variable"]
    ordered = {(x.device, x.stream) for x in acting if x.order is not None}
    for task in acting:
        if task.order is None and (task.device, task.stream) in ordered:
            name = quoted(task.task_name.data)
            yield task, f"task {name} has no order, but others of its stream have one"


def decided(plan: PlanOp, timeline: Timeline) -> Aliasing:
    """What becomes of the registers of a plan."""
    pairs = {task: Pairs.of(task) for task in timeline.tasks}
    if orders := orders_wanted(timeline, pairs):
        timeline = Timeline(plan, orders)
    aliasing = Aliasing(plan, timeline, pairs, orders)
    aliasing.decide()
    return aliasing


def alias_anew(plan: PlanOp) -> None:
    """Make registers of a plan aliases whatever they were, if nothing forbids that."""
    for register in plan.registers:
        lay_apart(register)
        for reason in NO_ALIAS, REJECTED:
            register.attributes.pop(reason, None)
    timeline = Timeline(plan)
    if not timeline.stuck:
        write_decided(plan, decided(plan, timeline))


def write_decided(plan: PlanOp, aliasing: Aliasing) -> None:
    """Make registers of a plan aliases, and order tasks for that."""
    edges = list(missing_edges(aliasing))
    write_aliases(plan, aliasing)
    write_control_edges(plan, edges)


@dataclass(frozen=True)
class RegstAliasRegistersPass(ModulePass):
    """
    Let registers lie on others, where ops can work in place or need to move nothing.
    """

    name = "regst-alias-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = outermost(op, PlanOp)
        plans = [plan for plan in plans if not plan.has_places]
        rated = [plan for plan in plans if rates_of(plan).is_rated]
        for plan in rated:
            show_frames(plan)
        # Who is last to use what is not the same in each act.
        plans = [plan for plan in plans if plan not in rated]
        timelines = {plan: Timeline(plan) for plan in plans}
        fail_if_any(x for pair in timelines.items() for x in complaints_about(*pair))
        found = {plan: decided(plan, line) for plan, line in timelines.items()}
        fail_if_any(x for aliasing in found.values() for x in aliasing.failures)
        for plan, aliasing in found.items():
            write_decided(plan, aliasing)
