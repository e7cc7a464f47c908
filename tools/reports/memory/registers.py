"""
The registers of a report, with the reasons why their bytes are used for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from penstock.dialects.plan import name_of
from penstock.dialects.regst import DataType, RegisterOp, alias_place
from penstock.tools.reports.memory.counting import Counting, Tree
from penstock.tools.reports.memory.model import Register
from penstock.tools.reports.memory.steps import stream_text

SAID = {
    "no_alias": "no alias",
    "rejected": "hint rejected",
    "kept": "kept apart",
}
"""
The attributes of passes with reasons: why a register is no alias, or not one of all
that hints name, or why it lies alone.
"""


def registers_of(
    counting: Counting, trees: Sequence[Tree], peak: int | None
) -> Iterator[Register]:
    """The registers of a block and their aliases, as they are listed."""
    inside: set[SSAValue] = {tree.root.register for tree in trees}
    for register in counting.data:
        if alias_place(register.register).root in inside:
            yield register_of(counting, register, peak or 0)


def register_of(counting: Counting, register: RegisterOp, peak: int) -> Register:
    """The report of a register with a place."""
    root, shift = alias_place(register.register)
    tree = counting.trees[root]
    assert tree.root.offset is not None, "roots are placed"
    is_alias = register.target is not None
    steps, always = counting.users[register.register], tree.always
    if is_alias and steps:
        first, last, always = steps[0], steps[-1], False
    else:
        first, last = counting.life(tree)
    task = counting.producer.get(register.register)
    readers = counting.readers[register.register]
    return Register(
        register.register_name.data,
        payload_text(register),
        register.size,
        register.slots.value.data,
        tree.root.offset.value.data + shift,
        tree.address + shift,
        None if task is None else task.task_name.data,
        None if task is None else task.op.name,
        tree.job,
        [reader.task_name.data for reader in readers],
        first,
        last,
        always,
        first <= peak <= last,
        name_of(root) if is_alias else None,
        shift,
        tree.shares,
        tree.rivals,
        list(reasons_of(counting, register, tree, peak)),
    )


def payload_text(register: RegisterOp) -> str:
    """The type of one slot of a register, such as `tensor<4xf32>`."""
    type = register.register.type
    return str(type.payload) if isinstance(type, DataType) else str(type)


def reasons_of(
    counting: Counting, register: RegisterOp, tree: Tree, peak: int
) -> Iterator[str]:
    """The reasons why the bytes of a register are used for nothing else."""
    if register.target is not None:
        _, shift = alias_place(register.register)
        at = f" at byte {shift}" if shift else ""
        yield f"alias of {name_of(tree.root.register)}{at}"
    else:
        found = list(reasons_of_root(counting, tree, peak))
        yield from found or ([] if tree.shares else ["nothing else was laid there"])
    for attribute, words in SAID.items():
        said = register.attributes.get(attribute)
        if isinstance(said, StringAttr):
            yield f"{words}: {said.data}"


def reasons_of_root(counting: Counting, tree: Tree, peak: int) -> Iterator[str]:
    """The reasons of a register that is no alias, from counts alone."""
    if tree.lasts is not None:
        yield tree.lasts
        return
    if (slots := tree.root.slots.value.data) > 1:
        yield f"{slots} slots"
    if len(tree.streams) > 1:
        *others, last = map(stream_text, tree.streams)
        yield f"tasks of {', '.join(others)} and {last} use it"
    if tree.rival is not None:
        more = f" and {tree.rivals - 1} more" if tree.rivals > 1 else ""
        yield f"{tree.rival.root.register_name.data}{more} may be in use with it"
    if not tree.always and counting.lives_at(tree, peak):
        yield "alive at the peak"
