"""In-place pairs of tasks: operands that results may overwrite, by ops and hints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from penstock.dialects.op.in_place import MAY, MUST, NEVER, HintAttr, hints_of
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.plan import TaskOp
from penstock.lowering.analysis.aliases import (
    bytes_of,
    lies_as_paired,
    made_by,
    operand_register,
    pairs_of,
)
from penstock.lowering.analysis.in_place_hints import wanted_pairs

Refusal: TypeAlias = str
"""Why a pair is not used: `<rule>: <why>`."""


def is_part(pair: InPlacePair, task: TaskOp) -> bool:
    """Whether the result of a pair is a part of its operand, or all of it."""
    rest = bytes_of(operand_register(task, pair.operand)) - pair.offset
    return pair.offset >= 0 and bytes_of(task.outs[pair.result]) <= rest


@dataclass(frozen=True)
class Pairs:
    """The in-place pairs of a task, and the hints of its op."""

    task: TaskOp
    known: Sequence[InPlacePair]
    """The pairs that its kernel can work in place on."""
    wanted: Sequence[InPlacePair]
    """Those of them that hints leave."""
    views: Sequence[InPlacePair]
    """The views that the kernel knows; none if they do not tell all that it does."""
    hints: Sequence[HintAttr]

    @classmethod
    def of(cls, task: TaskOp) -> Pairs:
        """The pairs of a task's op."""
        known, hints = pairs_of(task), hints_of(task.op)
        wanted = wanted_pairs(task.op, known)
        must = {(p.operand, p.result) for p in wanted if p.must}
        views = [
            pair._replace(must=(pair.operand, pair.result) in must)
            for pair in known
            if pair.view
        ]
        covered = {pair.result for pair in views} == set(range(len(made_by(task))))
        return cls(task, known, wanted, views if covered else (), hints)

    @property
    def takes_parts(self) -> bool:
        """Whether the results of the task are each a view of one operand, or a part."""
        one_each = bool(self.views) and len(self.views) == len(self.task.outs)
        return one_each and all(is_part(pair, self.task) for pair in self.views)

    @property
    def is_gathered(self) -> bool:
        """Whether the only result of the task has its operands as parts."""
        return bool(self.views) and len(self.task.outs) == 1 and not self.takes_parts

    @property
    def is_fixed(self) -> bool:
        """Whether registers lie by hand as a view says that they may, or have to."""
        return any(p.must or lies_as_paired(self.task, p) for p in self.views)

    def is_hinted(self, pair: InPlacePair) -> bool:
        """Whether a hint says that a result may lie over an operand."""
        return any(
            (hint.over, hint.result.data) == (pair.operand, pair.result)
            and hint.word.data == MAY
            for hint in self.hints
        )

    def nevers(self, result: int) -> list[int]:
        """The operands that a result is never to lie over."""
        own = [h for h in self.hints if h.result.data == result and is_never(h)]
        if any(hint.over is None for hint in own):
            return list(range(len(self.task.op.operands)))
        return [hint.over for hint in own if hint.over is not None]

    @property
    def _used(self) -> Sequence[InPlacePair]:
        """The pairs that the pass looks at, whatever hints say."""
        if self.takes_parts or self.is_gathered:
            return self.views
        return [pair for pair in self.known if not pair.view]

    def rejected_hints(self) -> Iterator[tuple[InPlacePair, Refusal]]:
        """The hints that the kernel cannot follow, and the pairs that hints forbid."""
        used = {(pair.operand, pair.result) for pair in self._used}
        for hint in self.hints:
            over, result = hint.over, hint.result.data
            if is_never(hint) or over is None or (over, result) in used:
                continue
            pair = InPlacePair(over, result, must=hint.word.data == MUST)
            what = f"{self.task.op.name} cannot write result {result} over it"
            yield pair, f"kernel: operand {over}: {what}"
        left = {(pair.operand, pair.result) for pair in self.wanted}
        for pair in () if self.views else self._used:
            is_left = (pair.operand, pair.result) in left
            if not is_left and pair.operand in self.nevers(pair.result):
                yield pair, kept_off(pair.operand)


def kept_off(operand: int) -> Refusal:
    """That a hint keeps a result off an operand."""
    return f"never: it is to be kept off operand {operand}"


def is_never(hint: HintAttr) -> bool:
    """Whether a hint keeps a result from lying over operands."""
    return hint.word.data == NEVER


def earlier_readers(
    tasks: Sequence[TaskOp], pairs: Mapping[TaskOp, Pairs]
) -> list[tuple[int, int]]:
    """
    The tasks, by their places, that read what a later one has to write over, or does by
    hand, each with that one.
    """
    fixed = [
        (index, operand_register(task, pair.operand))
        for index, task in enumerate(tasks)
        for pair in pairs[task].wanted
        if not pair.view and (pair.must or is_given(task, pair))
    ]
    groups = Groups(tasks, pairs) if fixed else None
    found: dict[tuple[int, int], None] = {}
    for index, register in fixed:
        for reader in groups.readers(register) if groups else ():
            if reader < index:
                found[reader, index] = None
    return list(found)


def is_given(task: TaskOp, pair: InPlacePair) -> bool:
    """Whether a result lies over an operand by hand."""
    return bool(task.outs) and lies_as_paired(task, pair)


class Groups:
    """
    The groups of values that view each other's bytes, and the readers of each group, by
    their places.
    """

    def __init__(self, tasks: Sequence[TaskOp], pairs: Mapping[TaskOp, Pairs]) -> None:
        self._leader: dict[SSAValue, SSAValue] = {}
        self._readers: dict[SSAValue, dict[int, None]] = {}
        for task in tasks:
            views, made = pairs[task].views, made_by(task)
            for pair in views if len(views) == len(made) else ():
                # Of registers only those show bytes that lie there.
                if not task.outs or lies_as_paired(task, pair):
                    source = self._find(operand_register(task, pair.operand))
                    self._leader[self._find(made[pair.result])] = source
        for index, task in enumerate(tasks):
            for register in task.ins:
                self._readers.setdefault(self._find(register), {})[index] = None

    def _find(self, register: SSAValue) -> SSAValue:
        path: list[SSAValue] = []
        while (leader := self._leader.get(register, register)) is not register:
            path.append(register)
            register = leader
        self._leader.update((value, register) for value in path)
        return register

    def readers(self, register: SSAValue) -> Sequence[int]:
        """The tasks that read the bytes of a register, under whatever name."""
        return list(self._readers.get(self._find(register), ()))
