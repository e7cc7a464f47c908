"""Aliases as the IR has them: registers on others, reasons against, and new orders."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i32, i64

from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import RegisterOp, alias_place
from penstock.lowering.algorithms.alias_policies import Policy, take_all
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.in_place_pairs import Pairs, Refusal
from penstock.lowering.regst.alias_decisions import Aliasing, orders_wanted
from penstock.lowering.regst.alias_forest import Timeline
from penstock.lowering.regst.alias_rules import NO_ALIAS, REJECTED, register_of
from penstock.lowering.regst.alias_updates import UpdatesInPlace

ALIAS = DenseArrayBase.from_list(i32, [0, 1])
"""The operand segments of an alias."""

APART = DenseArrayBase.from_list(i32, [0, 0])
"""Those of a register that is none, and has no place."""


def place_of(register: RegisterOp, aliasing: Aliasing) -> tuple[RegisterOp, int] | None:
    """The register that one lies on, and from which byte on; None if on none."""
    value, offset = register.register, 0
    if value not in aliasing.forest:
        # The forest knows no register without a task: such a one stays where it lies.
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
        # Values are defined before they are used, so a root moves before its alias.
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


def lay_on_variables(plan: PlanOp) -> None:
    """Let new values lie on their variables, and nothing else on anything."""
    updates = UpdatesInPlace(plan)
    for value, update in updates.found.items():
        lay_on(register_of(value), register_of(update.variable), 0)
    for value, refusal in updates.refusals.items():
        write_reasons(register_of(value), NO_ALIAS, [refusal])


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


def decided(plan: PlanOp, timeline: Timeline, policy: Policy = take_all) -> Aliasing:
    """The aliases of the registers of a plan, as a policy wants them."""
    pairs = {task: Pairs.of(task) for task in timeline.tasks}
    if orders := orders_wanted(timeline, pairs):
        timeline = Timeline(plan, orders)
    aliasing = Aliasing(plan, timeline, pairs, orders, policy)
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
