"""
Registers that lie on variables: the new values that tasks write over the old ones, as
assignments say (`in_place`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import ControlType, DataType, RegisterOp, alias_place
from penstock.lowering.analysis.aliases import joined_case
from penstock.lowering.analysis.in_place_pairs import Refusal
from penstock.lowering.analysis.in_place_updates import Update, marked_updates
from penstock.lowering.analysis.variable_uses import names_of, readers_of
from penstock.lowering.regst.alias_rules import (
    NO_ALIAS,
    has_aliases,
    quoted,
    register_of,
)


@dataclass
class UpdatesInPlace:
    """The updates in place of a plan with registers, and those that cannot be."""

    plan: PlanOp
    found: dict[SSAValue, Update] = field(default_factory=dict[SSAValue, Update])
    """Those that can, by the register of the new value."""
    refusals: dict[SSAValue, Refusal] = field(default_factory=dict[SSAValue, Refusal])
    """Why others cannot."""

    def __post_init__(self) -> None:
        self._tasks = [task for task in self.plan.tasks if task.kind != "variable"]
        updates = [x for x in marked_updates(self._tasks) if x.writer.outs]
        if not updates:
            return
        variables = {
            value
            for task in self.plan.tasks
            if task.kind == "variable"
            for value in task.outs
        }
        self._readers: dict[SSAValue, list[TaskOp]] = {}
        for task in self._tasks:
            for value in dict.fromkeys(task.ins):
                self._readers.setdefault(value, []).append(task)
        self._controls = set(strict_controls(self._tasks))
        self._place = {op: i for i, op in enumerate(self.plan.registers)}
        written: set[SSAValue] = set()
        for update in updates:
            if update.variable not in variables:
                continue
            refusal = next(self._rules(update, written), None)
            if refusal is None:
                written.add(update.variable)
                self.found[update.value] = update
            else:
                self.refusals[update.value] = refusal

    def _rules(self, update: Update, written: set[SSAValue]) -> Iterator[Refusal]:
        """The reasons that keep a new value from lying on its variable."""
        writer, value, variable = update.writer, update.value, update.variable
        result, source = register_of(value), register_of(variable)
        if variable in written:
            yield "update: another task writes there already"
        if NO_ALIAS in result.attributes:
            yield f"no_alias: {quoted(name_of(value))} says so already"
        if result.target is not None and alias_place(value) != alias_place(variable):
            yield f"given: {quoted(name_of(value))} lies elsewhere by hand"
        if result.interface is not None:
            yield f"interface: {quoted(name_of(value))} has bytes of its own"
        if joined_case([result.memory_case, source.memory_case]) is None:
            yield f"memory: {quoted(name_of(variable))} lies in another one"
        if result.slots.value.data > 1 or has_aliases(result):
            yield "slots: others lie on it, or it has several"
        if value.type != variable.type:
            yield "type: it is not that of the operand"
        elif isinstance(value.type, DataType) and value.type.is_dynamic:
            yield f"dynamic: {quoted(name_of(value))} has its shape in a header"
        if self._place[source] > self._place[result]:
            yield f"source: {quoted(name_of(variable))} is listed later"
        if writer.is_uncertain:
            yield f"update: {quoted(writer.task_name.data)} can fail"
        yield from self._reader_rules(update)

    def _reader_rules(self, update: Update) -> Iterator[Refusal]:
        """The tasks that may read what the variable held when it is overwritten."""
        writer, variable = update.writer, update.variable
        names = names_of(variable, self._readers)
        if any(x in names and x is not variable for x in writer.ins):
            yield "operand: it is read under another name, too"
        for reader in readers_of(variable, self._readers):
            if reader in (writer, update.assign) or reader.job != writer.job:
                continue
            if (reader, writer) not in self._controls:
                name = quoted(reader.task_name.data)
                yield f"reader: no control lets {name} read it before that, each time"


def strict_controls(tasks: Sequence[TaskOp]) -> Iterator[tuple[TaskOp, TaskOp]]:
    """
    The pairs of tasks that act by turns because of a control register: one slot, which
    is free at first.
    """
    signallers = {value: task for task in tasks for value in task.signals}
    for task in tasks:
        for value in task.waits:
            register = value.owner
            if value not in signallers or not isinstance(register, RegisterOp):
                continue
            if not isinstance(value.type, ControlType) or register.initial is not None:
                continue
            if register.slots.value.data == 1:
                yield signallers[value], task
