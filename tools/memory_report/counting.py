"""Who owns which bytes at which step, counted from a plan alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import BlockOp, DataType, RegisterOp, alias_place
from penstock.tools.memory_report.model import OWNERS, Register, Usage
from penstock.tools.memory_report.steps import (
    Stream,
    acting_order,
    stream_text,
    streams_of,
)

NO_ALIAS = "no_alias"
"""What passes call the attribute in which they say why a register is no alias."""


@dataclass
class Tree:
    """A register that is no alias, and what uses it under any name."""

    root: RegisterOp
    address: int
    steps: list[int]
    streams: dict[Stream, None]
    """In the order of their tasks."""
    shares: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of all slots."""
        return self.root.size


class Counting:
    """What a report of a plan is made from."""

    def __init__(self, plan: PlanOp) -> None:
        self.plan = plan
        acting = [task for task in plan.tasks if task.kind != "variable"]
        self.streams = streams_of(acting)
        self.tasks = [acting[i] for i in acting_order(acting, self.streams)]
        self.producer = {r: task for task in plan.tasks for r in task.outs}
        self.readers: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        self.users: dict[SSAValue, list[int]] = defaultdict(list)
        for step, task in enumerate(self.tasks):
            for register in dict.fromkeys(task.ins):
                self.readers[register].append(task)
            for register in dict.fromkeys((*task.ins, *task.outs)):
                self.users[register].append(step)
        self.data = [r for r in plan.registers if isinstance(r.register.type, DataType)]
        self.trees: dict[SSAValue, Tree] = {
            register.register: self._tree(register)
            for register in self.data
            if register.block is not None
        }
        self._join_aliases()
        self._count_shares()

    @cached_property
    def in_stream(self) -> dict[TaskOp, int]:
        """The place of each task among those of its stream."""
        seen: Counter[Stream] = Counter()
        places: dict[TaskOp, int] = {}
        for task in self.tasks:
            stream = task.device, task.stream
            places[task] = seen[stream]
            seen[stream] += 1
        return places

    def _tree(self, register: RegisterOp) -> Tree:
        assert register.offset is not None, "checked with the block"
        assert register.block is not None, "only placed registers have a tree"
        block = register.block.owner
        start = block.offset.value.data if isinstance(block, BlockOp) else 0
        return Tree(register, start + register.offset.value.data, [], {})

    def _join_aliases(self) -> None:
        for register in self.data:
            tree = self.trees.get(alias_place(register.register).root)
            if tree is not None:
                tree.steps += self.users[register.register]
        for tree in self.trees.values():
            tree.steps.sort()
            for step in tree.steps:
                task = self.tasks[step]
                tree.streams[task.device, task.stream] = None

    def _count_shares(self) -> None:
        chunks: dict[SSAValue | None, list[Tree]] = defaultdict(list)
        for tree in self.trees.values():
            if tree.bytes:
                chunks[chunk_of(tree)].append(tree)
        for trees in chunks.values():
            starts = sorted(tree.address for tree in trees)
            ends = sorted(tree.address + tree.bytes for tree in trees)
            for tree in trees:
                below = bisect_right(ends, tree.address)
                begun = bisect_left(starts, tree.address + tree.bytes)
                tree.shares = begun - below - 1

    def is_variable(self, tree: Tree) -> bool:
        """Whether a register is filled before the job starts."""
        task = self.producer.get(tree.root.register)
        return task is not None and task.kind == "variable"

    def is_always_alive(self, tree: Tree) -> bool:
        """Whether a register counts as alive at each step."""
        if self.is_variable(tree) or not tree.steps:
            return True
        kept = tree.root.slots.value.data > 1 or len(tree.streams) > 1
        return kept and not tree.shares

    def life(self, tree: Tree) -> tuple[int, int]:
        """The first and the last step at which a register is alive."""
        if self.is_always_alive(tree):
            return 0, max(0, len(self.tasks) - 1)
        return tree.steps[0], tree.steps[-1]

    def usage(self, trees: Sequence[Tree], size: int, alignment: int) -> Usage:
        """The bytes of some registers that have `size` bytes in all."""
        change = [0] * (max(1, len(self.tasks)) + 1)
        for tree in trees:
            first, last = self.life(tree)
            change[first] += tree.bytes
            change[last + 1] -= tree.bytes
        live = list(accumulate(change[:-1]))
        bound = max(live)
        peak = live.index(bound)
        alive = [tree for tree in trees if self._lives_at(tree, peak)]
        alive.sort(key=lambda tree: -tree.bytes)
        return Usage(
            size,
            side_by_side([tree.bytes for tree in trees], alignment),
            bound,
            round(size / bound, 6) if bound else None,
            live,
            peak if self.tasks else None,
            [name_of(tree.root.register) for tree in alive[:OWNERS]],
        )

    def _lives_at(self, tree: Tree, step: int) -> bool:
        first, last = self.life(tree)
        return first <= step <= last

    # Registers

    def registers(self, trees: Sequence[Tree], peak: int | None) -> Iterator[Register]:
        """The registers of a block and their aliases, as they are listed."""
        inside: set[SSAValue] = {tree.root.register for tree in trees}
        for register in self.data:
            if alias_place(register.register).root in inside:
                yield self._register(register, peak or 0)

    def _register(self, register: RegisterOp, peak: int) -> Register:
        root, shift = alias_place(register.register)
        tree = self.trees[root]
        assert tree.root.offset is not None, "roots are placed"
        is_alias = register.target is not None
        steps, always = self.users[register.register], self.is_always_alive(tree)
        if is_alias and steps:
            first, last, always = steps[0], steps[-1], False
        else:
            first, last = self.life(tree)
        task = self.producer.get(register.register)
        return Register(
            register.register_name.data,
            payload_text(register),
            register.size,
            register.slots.value.data,
            tree.root.offset.value.data + shift,
            tree.address + shift,
            None if task is None else task.task_name.data,
            None if task is None else task.op.name,
            [reader.task_name.data for reader in self.readers[register.register]],
            first,
            last,
            always,
            first <= peak <= last,
            name_of(root) if is_alias else None,
            shift,
            tree.shares,
            list(self._reasons(register, tree, shift, peak)),
        )

    def _reasons(
        self, register: RegisterOp, tree: Tree, shift: int, peak: int
    ) -> Iterator[str]:
        if register.target is not None:
            at = f" at byte {shift}" if shift else ""
            yield f"alias of {name_of(tree.root.register)}{at}"
            return
        found = list(self._reasons_of_root(tree, peak))
        yield from found or ([] if tree.shares else ["nothing else was laid there"])
        refusal = register.attributes.get(NO_ALIAS)
        if isinstance(refusal, StringAttr):
            yield f"no alias: {refusal.data}"

    def _reasons_of_root(self, tree: Tree, peak: int) -> Iterator[str]:
        if self.is_variable(tree):
            yield "variable"
            return
        if not tree.steps:
            yield "header" if tree.root.header is not None else "no task uses it"
            return
        if (slots := tree.root.slots.value.data) > 1:
            yield f"{slots} slots"
        if len(tree.streams) > 1:
            *others, last = map(stream_text, tree.streams)
            yield f"tasks of {', '.join(others)} and {last} use it"
        if not self.is_always_alive(tree) and self._lives_at(tree, peak):
            yield "alive at the peak"


def chunk_of(tree: Tree) -> SSAValue | None:
    """The chunk that a register lies in."""
    assert tree.root.block is not None, "only placed registers have a tree"
    block = tree.root.block.owner
    return block.chunk if isinstance(block, BlockOp) else None


def payload_text(register: RegisterOp) -> str:
    """The type of what one slot of a register holds, such as `tensor<4xf32>`."""
    type = register.register.type
    return str(type.payload) if isinstance(type, DataType) else str(type)


def side_by_side(sizes: Sequence[int], alignment: int) -> int:
    """The bytes from the first to the last of things that share none."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    # The smallest one lies last, where nothing has to be aligned behind it.
    least = min(sizes, default=0)
    return sum(padded) - min(padded, default=0) + least
