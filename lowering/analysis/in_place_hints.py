"""
The effect of hints in the text of a job or plan (`dialects/op/in_place.py`) on passes.

Passes that compute ops together keep the values that hints are about. An op with a
`must` keeps its result and the operand it names: it is the last one of its group, and
the op that makes the operand is not in it; nor do ops that read the operand before it
move behind it. Hints `may` and `never` go on to the group where the result and the
operand are still there. Bytes that are not there lie over nothing, so that hints about
them go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from penstock.dialects.op.in_place import IN_PLACE, MAY, MUST, NEVER, HintAttr, hints_of
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp


def wanted_pairs(
    op: Operation, known: Sequence[InPlacePair] | None = None
) -> Sequence[InPlacePair]:
    """
    The in-place pairs of an op that its hints leave, of all or of those `known`: where
    a result must lie over an operand, this one only; where it may lie over some, only
    these; none that it is never to lie over. Pairs that the op itself must have are
    always there.
    """
    if not isinstance(op, TensorOp):
        return ()
    pairs = op.in_place_pairs() if known is None else known
    if not (hints := hints_of(op)):
        return pairs
    words: dict[int, dict[int | None, str]] = {pair.result: {} for pair in pairs}
    for hint in hints:
        words.setdefault(hint.result.data, {})[hint.over] = hint.word.data
    wanted = (_wanted(pair, words[pair.result]) for pair in pairs)
    return [pair for pair in wanted if pair is not None]


def _wanted(pair: InPlacePair, words: Mapping[int | None, str]) -> InPlacePair | None:
    """A pair as the hints of its result have it, by operand, if they leave it."""
    word = words.get(pair.operand, words.get(None))
    if word == MUST:
        return pair._replace(must=True)
    others = set(words.values())
    is_left = MUST not in others and (word == MAY or MAY not in others)
    return pair if pair.must or (is_left and word != NEVER) else None


def must_lie_over(op: Operation) -> list[SSAValue]:
    """The operands of an op that hints say a result must lie over."""
    return _named(op, MUST)


def never_over(op: Operation) -> list[SSAValue]:
    """The operands that hints of an op name as those to keep off."""
    return _named(op, NEVER)


def _named(op: Operation, word: str) -> list[SSAValue]:
    if not isinstance(op, TensorOp):
        # Nobody has looked at the numbers yet, and nothing can be written over.
        return []
    return [
        op.operands[hint.over]
        for hint in hints_of(op)
        if hint.word.data == word and hint.over is not None
    ]


STRICTNESS = (MAY, MUST, NEVER)
"""The words of hints, from the weakest to the one that counts most."""


class Overwritten:
    """The values of a job that hints say an op must write over."""

    def __init__(self, ops: Iterable[Operation]) -> None:
        self._by: dict[SSAValue, Operation] = {}
        for op in ops:
            if IN_PLACE in op.attributes:
                self._by.update((value, op) for value in must_lie_over(op))
        pending = list(self._by)
        while pending:
            value = pending.pop()
            for other in _same_bytes(value):
                if other not in self._by:
                    self._by[other] = self._by[value]
                    pending.append(other)

    def keeps_apart(self, op: Operation, last: Operation) -> bool:
        """
        Whether an op cannot be computed as part of what `last` ends: as it has to write
        over something, as its result has to be written over, or as it reads what `last`
        would come too late for, since another op has to overwrite that.
        """
        if not self._by:
            return False
        by = [self._by.get(value) for value in op.operands]
        return (
            bool(must_lie_over(op))
            or any(value in self._by for value in op.results)
            or any(other is not None and other is not last for other in by)
        )

    def rename(self, old: SSAValue, new: SSAValue) -> None:
        """Note that one value is used instead of another one."""
        if (op := self._by.get(old)) is not None:
            self._by[new] = op


def _same_bytes(value: SSAValue) -> list[SSAValue]:
    """The values that views show bytes of a value as, or it those of."""
    found: list[SSAValue] = []
    for use in value.uses:
        found += [
            use.operation.results[pair.result]
            for pair in _views_of(use.operation)
            if use.operation.operands[pair.operand] is value
        ]
    if isinstance(op := value.owner, Operation):
        found += [
            op.operands[pair.operand]
            for pair in _views_of(op)
            if op.results[pair.result] is value
        ]
    return found


def _views_of(op: Operation) -> Sequence[InPlacePair]:
    return op.views() if isinstance(op, TensorOp) else ()


class Member(NamedTuple):
    """An op of a group whose result is one of the group's."""

    op: Operation
    result: int
    """Its number among the group's results."""
    own: int = 0
    """Its number among the op's."""


def carried(members: Sequence[Member], ins: Sequence[SSAValue]) -> ArrayAttr | None:
    """
    The hints of a group that reads `ins`: those of its members about results and
    operands that it still has. If two operands of an op are one value, what is stricter
    counts.
    """
    number = {value: index for index, value in enumerate(ins)}
    words: dict[tuple[int, int | None], str] = {}
    for op, result, own in members:
        for hint in hints_of(op):
            if hint.result.data != own:
                continue
            value = None if hint.over is None else op.operands[hint.over]
            if value is not None and value not in number:
                continue
            key = (result, None if value is None else number[value])
            known = words.setdefault(key, hint.word.data)
            words[key] = max(known, hint.word.data, key=STRICTNESS.index)
    hints = [HintAttr(word, over, result) for (result, over), word in words.items()]
    return ArrayAttr(hints) if hints else None
