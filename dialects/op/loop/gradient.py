"""The gradient of `op.loop`, a loop in the other order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from penstock.dialects.op.backward import (
    SumOfAll,
    erase_unused,
    gradients_of_body,
    has_floats,
    needed_ops,
    sums_of_all,
)
from penstock.dialects.op.body import YieldOp, clone_body
from penstock.dialects.op.loop.form import INDEX, LoopForm, slice_type
from penstock.dialects.op.tensor_op import ContractionOp, TensorOp, is_elementwise
from penstock.dialects.utils.gradients import in_f32
from penstock.dialects.utils.tensors import byte_count, element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients


class BackwardLoop:
    """
    The loop that makes the gradients of the operands of a `loop`.

    Its body computes an iteration once more, from the values that were carried into it,
    which the loop stacks as far as they are needed. Products of matrices are not made
    again: the loop stacks them, or what cheap ops make of them. It makes as many
    iterations as the loop has made; what either stacks for the others, up to a maximum,
    is zeros.
    """

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
        self._make_body([*given.values()])
        self._derive([*given])

    def _make_body(self, by_stacks: Sequence[SSAValue]) -> None:
        """Make a body that is given all that may be needed."""
        loop = self._loop
        starts = [value.type for value in loop.carried]
        tensors = [*loop.slices, *by_stacks]
        rows = [slice_type(tensor_type(x), loop.count) for x in tensors]
        firsts, reads = (
            [value.type for value in x] for x in (self._firsts, loop.reads)
        )
        self._body = Block(arg_types=[INDEX, *firsts, *starts, *rows, *reads])
        self._inner = self._o.within(self._body)
        args = iter(self._body.args[1:])
        self._after, self._starts, self._slices, self._by_stacks, self._reads = (
            [next(args) for _ in x]
            for x in (firsts, starts, loop.slices, by_stacks, reads)
        )
        rows_of = [*self._slices, *self._by_stacks]
        self._tensor_of: dict[SSAValue, SSAValue] = dict(
            zip(rows_of, tensors, strict=True)
        )
        """The tensors that values of an iteration are slices of."""

    def _derive(self, given: Sequence[int]) -> None:
        """Make the ops of the body, where some stacked results have gradients."""
        starts, taken, reads = self._starts, self._slices, self._reads
        made = list[Operation]()
        block, number = self._loop.body.block, self._body.args[0]
        values = [number, *starts, *taken, *reads]
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
        ends = clone_body(block, known, made)
        self._original = {new: old for old, new in known.items()}
        """The values of an iteration of the loop, by those that are made again."""
        carried = zip(self._carried, self._after, strict=True)
        seeds: list[tuple[SSAValue, SSAValue]] = [(ends[i], g) for i, g in carried]
        stacked = zip(given, self._by_stacks, strict=True)
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
        self._products = self._take_products()

    def _take_products(self) -> dict[BlockArgument, SSAValue]:
        """
        Give the body slices of what is made of products of matrices; the values of the
        loop that these are slices of, in a stack of each.
        """
        grads = {*self._yielded, *self._stacked, *self._by_reads}
        needed = needed_ops(self._body, grads)
        found: dict[SSAValue, None] = {}
        for op in needed:
            if isinstance(op, ContractionOp) and op.results[0] in self._original:
                found.update(dict.fromkeys(self._ends(op.results[0], needed)))
        taken: dict[BlockArgument, SSAValue] = {}
        for value in found:
            place = 1 + len(self._firsts) + len(self._starts) + len(taken)
            arg = self._body.insert_arg(value.type, place)
            taken[arg] = self._original[value]
            value.replace_all_uses_with(arg)
        return taken

    def _ends(
        self, value: SSAValue, needed: Collection[Operation]
    ) -> Iterator[SSAValue]:
        """
        The values to be stacked in place of one that is made again: those behind it, as
        far as they take no more bytes.
        """
        readers = {use.operation for use in value.uses if use.operation in needed}
        reader = next(iter(readers)) if len(readers) == 1 else None
        if reader is None or not self._is_cheap(reader, byte_count(value.type)):
            yield value
            return
        for result in reader.results:
            if any(use.operation in needed for use in result.uses):
                yield from self._ends(result, needed)

    def _is_cheap(self, op: Operation, most: int) -> bool:
        """Whether an op made again moves up to `most` bytes, or maps their elements."""
        if not isinstance(op, TensorOp) or op.regions:
            return False
        is_again = all(result in self._original for result in op.results)
        size = sum(byte_count(result.type) for result in op.results)
        return is_again and size <= most and (is_elementwise(op) or op.FLOPS == 0)

    @staticmethod
    def _or_zeros(
        o: GradientBuilder, value: SSAValue, grad: SSAValue | None
    ) -> SSAValue:
        return o.zeros(value) if grad is None else grad

    def gradients(self) -> Gradients:
        """The gradients of the operands of the loop."""
        loop, sums = self._loop, dict[int, int | list[SumOfAll]]()
        for i, grad in zip(self._read, self._by_reads, strict=True):
            if grad is not None:
                sums[i] = self._sum(loop.reads[i], grad)
        self._body.add_op(YieldOp(*self._yielded, *self._stacked))
        made = self._insert([x for x in sums.values() if not isinstance(x, int)])
        first = int(loop.trips is not None)
        found: dict[int, SSAValue] = {
            first + i: x for i, x in zip(self._carried, made.ends, strict=False)
        }
        first += len(loop.carried)
        stacks = zip(self._sliced, made.stacks, strict=False)
        found |= {first + i: x for i, x in stacks}
        first += len(loop.slices)
        for i, place in sums.items():
            if isinstance(place, int):
                element = self._o.element(loop.reads[i])
                found[first + i] = self._o.cast(made.ends[place], element)
            else:
                found[first + i] = self._all(place)
        return [found.get(i) for i in range(len(loop.operands))]

    def _sum(self, value: SSAValue, grad: SSAValue) -> int | list[SumOfAll]:
        """
        The sum over iterations of a gradient of what all of them read: the number of
        the carried value that it is, of `f32` at least, or what it is made of after the
        loop, where the factors that have to be stacked for it are smaller than it is.
        """
        terms = sums_of_all(self._body, grad)
        factors = dict.fromkeys(x for term in terms or () for x in term.sources)
        known = {*self._starts, *self._products, *self._stacked}
        if not self._loop.is_bounded:
            # Else others have rows that are not zeros beyond the iterations made.
            known |= self._tensor_of.keys()
        new = [x for x in factors if x not in known]
        room = element_count(tensor_type(value))
        if terms is None or sum(element_count(tensor_type(x)) for x in new) > room:
            term = in_f32(self._inner, grad)
            total = self._body.insert_arg(term.type, 1 + len(self._firsts))
            self._firsts.append(self._o.filled(0, self._o.shape(value), term))
            self._yielded.append(self._inner.add(total, term))
            return len(self._firsts) - 1
        self._stacked += new
        return terms

    def _insert(self, sums: Sequence[Sequence[SumOfAll]]) -> LoopForm:
        """Insert the loop, which is given what its body reads."""
        loop = self._loop
        erase_unused(self._body)
        factors = {x for terms in sums for term in terms for x in term.sources}
        carried = loop.body.block.args[1 : 1 + len(loop.carried)]
        values = {**dict(zip(self._starts, carried, strict=True)), **self._products}
        kept = [arg for arg in values if arg.first_use or arg in factors]
        counts = loop.going is not None
        stacks = loop.keep([values[arg] for arg in kept], made=counts)
        self._tensor_of.update(zip(kept, stacks, strict=True))
        rows = [x for x in (*kept, *self._slices, *self._by_stacks) if x.first_use]
        for arg in (*values, *self._slices, *self._by_stacks):
            if not arg.first_use:
                self._body.erase_arg(arg)
        made = type(loop)(
            loop.count,
            self._firsts,
            [self._tensor_of[arg] for arg in rows],
            loop.reads,
            Region(self._body),
            backward=loop.backward is None,
            trips=loop.outs[-1] if counts else loop.trips,
        )
        self._o.insert(made)
        self._tensor_of.update(zip(self._stacked, made.stacks, strict=True))
        return made

    def _all(self, terms: Sequence[SumOfAll]) -> SSAValue:
        """The sum of all terms of all iterations."""
        made = [
            term.of(self._o, [self._tensor_of[x] for x in term.sources])
            for term in terms
        ]
        return reduce(self._o.add, made)
