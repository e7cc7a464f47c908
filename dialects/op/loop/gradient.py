"""The gradient of `op.loop`, a loop in the other order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.op.backward import (
    SumOfAll,
    erase_unused,
    gradients_of_body,
    has_floats,
    source_of,
    sums_of_all,
)
from penstock.dialects.op.body import YieldOp, clone_body
from penstock.dialects.op.loop.form import INDEX, LoopForm, slice_type
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients


class BackwardLoop:
    """The loop that makes the gradients of the operands of a `loop`."""

    def __init__(
        self, o: GradientBuilder, loop: LoopForm, grads: Sequence[SSAValue | None]
    ) -> None:
        self._o, self._loop = o, loop
        values = loop.carried, loop.slices, loop.reads
        self._carried, self._sliced, self._read = (
            [i for i, value in enumerate(x) if has_floats(value)] for x in values
        )
        by_carried, by_stacks = grads[: len(loop.carried)], grads[len(loop.carried) :]
        self._firsts = [
            self._or_zeros(o, loop.carried[i], by_carried[i]) for i in self._carried
        ]
        """The values that it carries at first."""
        given = {i: grad for i, grad in enumerate(by_stacks) if grad is not None}
        self._tensors = [*loop.stack_starts(), *loop.slices, *given.values()]
        """The tensors that it slices."""
        carried = [value.type for value in self._firsts]
        slices = [slice_type(tensor_type(x), loop.count) for x in self._tensors]
        reads = [value.type for value in loop.reads]
        self._body = Block(arg_types=[INDEX, *carried, *slices, *reads])
        self._inner = o.within(self._body)
        self._derive(list(given))

    def _derive(self, given: Sequence[int]) -> None:
        """Make the ops of the body, where some stacked results have gradients."""
        loop, args = self._loop, iter(self._body.args[1:])
        after = [next(args) for _ in self._carried]
        starts, taken, by_stacks = (
            [next(args) for _ in x] for x in (loop.carried, loop.slices, given)
        )
        reads = [*args]
        slices: list[SSAValue] = [*starts, *taken, *by_stacks]
        self._tensor_of = dict(zip(slices, self._tensors, strict=True))
        ends, made = self._forwards([*starts, *taken, *reads])
        seeds = [(ends[i], g) for i, g in zip(self._carried, after, strict=True)]
        stacked = zip(given, by_stacks, strict=True)
        seeds += [(ends[len(starts) + i], g) for i, g in stacked]
        by = [*(starts[i] for i in self._carried), *(taken[i] for i in self._sliced)]
        found = gradients_of_body(
            self._inner, made, [*by, *(reads[i] for i in self._read)], seeds
        )
        self._by_reads = found[len(by) :]
        pairs = zip(by, found[: len(by)], strict=True)
        whole = [self._or_zeros(self._inner, *pair) for pair in pairs]
        self._yielded = whole[: len(self._carried)]
        self._stacked = whole[len(self._carried) :]

    @staticmethod
    def _or_zeros(
        o: GradientBuilder, value: SSAValue, grad: SSAValue | None
    ) -> SSAValue:
        return o.zeros(value) if grad is None else grad

    def _forwards(
        self, given: Sequence[SSAValue]
    ) -> tuple[Sequence[SSAValue], Sequence[Operation]]:
        """The ops of an iteration once more: the values that it yields, and the ops."""
        made = list[Operation]()
        block = self._loop.body.block
        number = self._body.args[0]
        known: dict[SSAValue, SSAValue] = dict(
            zip(block.args, [number, *given], strict=True)
        )
        ends = clone_body(block, known, made)
        for op in made:
            self._inner.insert(op)
        return ends, made

    def gradients(self) -> Gradients:
        """The gradients of the operands of the loop."""
        loop, sums = self._loop, dict[int, int | list[SumOfAll]]()
        for i, grad in zip(self._read, self._by_reads, strict=True):
            if grad is not None:
                sums[i] = self._sum(loop.reads[i], grad)
        self._body.add_op(YieldOp(*self._yielded, *self._stacked))
        erase_unused(self._body)
        made = type(loop)(
            loop.count,
            self._firsts,
            self._tensors,
            loop.reads,
            Region(self._body),
            backward=loop.backward is None,
        )
        self._o.insert(made)
        self._tensor_of.update(zip(self._stacked, made.stacks, strict=True))
        gradients: dict[int, SSAValue] = dict(
            zip(self._carried, made.ends, strict=False)
        )
        first = len(loop.carried)
        gradients |= {
            first + i: x for i, x in zip(self._sliced, made.stacks, strict=False)
        }
        first += len(loop.slices)
        for i, place in sums.items():
            is_carried = isinstance(place, int)
            gradients[first + i] = made.ends[place] if is_carried else self._all(place)
        return [gradients.get(i) for i in range(len(loop.operands))]

    def _sum(self, value: SSAValue, grad: SSAValue) -> int | list[SumOfAll]:
        """
        The sum over iterations of a gradient of what all of them read: the number of
        the carried value that it is, or what it is made of after the loop, where the
        factors that have to be stacked for it are smaller than it is.
        """
        terms = sums_of_all(self._body, grad)
        factors = {source_of(x): None for term in terms or () for x in term.factors}
        new = [
            x for x in factors if x not in self._tensor_of and x not in self._stacked
        ]
        room = element_count(tensor_type(value))
        if terms is None or sum(element_count(tensor_type(x)) for x in new) > room:
            total = self._body.insert_arg(value.type, 1 + len(self._firsts))
            self._firsts.append(self._o.zeros(value))
            self._yielded.append(self._inner.add(total, grad))
            return len(self._firsts) - 1
        self._stacked += new
        return terms

    def _all(self, terms: Sequence[SumOfAll]) -> SSAValue:
        """The sum of all terms of all iterations."""
        made = [
            term.of(self._o, [self._tensor_of[source_of(x)] for x in term.factors])
            for term in terms
        ]
        return reduce(self._o.add, made)
