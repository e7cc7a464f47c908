"""
The use of memory at each step: which registers need which bytes, counted from a plan
alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
    alias_place,
)
from penstock.lowering.analysis.acting_order import Stream, streams_of
from penstock.lowering.analysis.memory_bound import Liveness
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.tools.reports.memory.conflicts import (
    Span,
    apart,
    conflicts_of,
    without_common_bytes,
)

if TYPE_CHECKING:
    from penstock.tools.reports.memory.conflicts import Table

Group: TypeAlias = tuple[MemoryCaseAttr, str | None]
"""A kind of memory and a job."""


@dataclass(eq=False)
class Tree:
    """A register that is no alias, and the tasks that use it under any name."""

    root: RegisterOp
    address: int
    job: str | None
    """The job of the task that writes it; None where tasks say no jobs."""
    lasts: str | None
    """The reason why it is in use all the time, if it is."""
    is_counted: bool = True
    """Whether it is not the same interface as a larger register of another job."""
    steps: list[int] = field(default_factory=list[int])
    streams: dict[Stream, None] = field(default_factory=dict[Stream, None])
    """The streams of its users, in the order of their tasks."""
    writers: list[TaskOp] = field(default_factory=list[TaskOp])
    """The tasks that write it before any other one does."""
    shares: int = 0
    rivals: int = 0
    """
    The number of registers that may be in use together with it, though at other steps.
    """
    rival: Tree | None = None
    """The largest of these registers."""

    @property
    def always(self) -> bool:
        """Whether it is alive at each step."""
        return self.lasts is not None

    @property
    def bytes(self) -> int:
        """The bytes of all slots."""
        return self.root.size

    @property
    def group(self) -> Group:
        """The memory and the job whose bytes it could share."""
        return self.root.memory_case, self.job


class Counting:
    """The facts of a plan that its report is made from."""

    def __init__(self, plan: PlanOp) -> None:
        self.plan = plan
        acting = [task for task in plan.tasks if task.kind != "variable"]
        self.streams = streams_of(acting)
        self.liveness = Liveness(plan)
        self.tasks = self.liveness.tasks
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
        self._join_interfaces()
        self._count_shares()
        self._find_rivals()

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

    def life(self, tree: Tree) -> tuple[int, int]:
        """The first and the last step at which a register is alive."""
        if tree.always:
            return 0, max(0, len(self.tasks) - 1)
        return tree.steps[0], tree.steps[-1]

    def lives_at(self, tree: Tree, step: int) -> bool:
        """Whether a register is alive at a step."""
        first, last = self.life(tree)
        return first <= step <= last

    def _tree(self, register: RegisterOp) -> Tree:
        assert register.offset is not None, "checked with the block"
        assert register.block is not None, "only placed registers have a tree"
        block = register.block.owner
        start = block.offset.value.data if isinstance(block, BlockOp) else 0
        task = self.producer.get(register.register)
        job = None if task is None or task.job is None else task.job.data
        address = start + register.offset.value.data
        return Tree(register, address, job, self.liveness.why_it_stays(register))

    def _join_aliases(self) -> None:
        for register in self.data:
            root = alias_place(register.register).root
            if (tree := self.trees.get(root)) is None:
                continue
            tree.steps += self.users[register.register]
            task = self.producer.get(register.register)
            if task is not None and not any(
                alias_place(r).root is root for r in task.ins
            ):
                tree.writers.append(task)
        for tree in self.trees.values():
            tree.steps.sort()
            for step in tree.steps:
                task = self.tasks[step]
                tree.streams[task.device, task.stream] = None

    def _join_interfaces(self) -> None:
        same: dict[tuple[MemoryCaseAttr, str], Tree] = {}
        for tree in sorted(self.trees.values(), key=lambda tree: -tree.bytes):
            if (interface := tree.root.interface) is not None:
                key = tree.root.memory_case, interface.data
                tree.is_counted = same.setdefault(key, tree) is tree

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

    def _find_rivals(self) -> None:
        groups: dict[Group, list[Tree]] = defaultdict(list)
        for tree in self.trees.values():
            if tree.bytes and tree.lasts is None:
                groups[tree.group].append(tree)
        self.index = {
            tree: i for trees in groups.values() for i, tree in enumerate(trees)
        }
        """The row of each register in the table of its group."""
        graph = PlanGraph(self.plan).graph
        self.conflicts = {
            group: without_common_bytes(
                conflicts_of(graph, self._spans(trees)), places_of(trees)
            )
            for group, trees in groups.items()
        }
        """The table of conflicts of each group."""
        for group, trees in groups.items():
            note_rivals(trees, self.conflicts[group])

    def _spans(self, trees: Sequence[Tree]) -> list[Span]:
        acting = (task for task in self.plan.tasks if task.kind != "variable")
        numbers = {task: i for i, task in enumerate(acting)}
        return [
            Span(
                list(dict.fromkeys(numbers[self.tasks[step]] for step in tree.steps)),
                [numbers[task] for task in tree.writers],
            )
            for tree in trees
        ]


def note_rivals(trees: Sequence[Tree], conflicts: Table) -> None:
    """Note the rivals of each register of a group."""
    pairs = apart(conflicts, [(tree.steps[0], tree.steps[-1]) for tree in trees])
    for i, tree in enumerate(trees):
        rivals = [trees[int(j)] for j in pairs[i].nonzero()[0]]
        tree.rivals = len(rivals)
        tree.rival = max(rivals, key=lambda rival: rival.bytes, default=None)


def chunk_of(tree: Tree) -> SSAValue | None:
    """The chunk that a register lies in."""
    assert tree.root.block is not None, "only placed registers have a tree"
    block = tree.root.block.owner
    return block.chunk if isinstance(block, BlockOp) else None


def places_of(trees: Sequence[Tree]) -> list[tuple[int, int, int]]:
    """
    The number of the chunk of each register, and its first byte and its end there.
    """
    chunks: dict[SSAValue | None, int] = {}
    return [
        (
            chunks.setdefault(chunk_of(tree), len(chunks)),
            tree.address,
            tree.address + tree.bytes,
        )
        for tree in trees
    ]


def names_of(trees: Sequence[Tree]) -> list[str]:
    """The names of registers."""
    return [tree.root.register_name.data for tree in trees]
