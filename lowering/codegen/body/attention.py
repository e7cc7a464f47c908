"""
The analysis of attention in a kernel: its stage found in loops, without printing it.

Attention is an `scf.parallel` over rows (the last of its loops) and stacks (the
others). A row has a loop over keys that carries the largest score and the sum of
exponentials so far (`op.attention` builds it), up to the last key or, if it is causal,
up to a key that depends on the row. A score is a dot product of a query row and a key
row, changed by any vector ops (scaled, masked); a row of values is added to the row of
the result, which is rescaled when a score is larger than all before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TypeVar

from xdsl.dialects import arith, math, memref, scf
from xdsl.dialects.builtin import FloatAttr, MemRefType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.kernel.loops import row_major
from penstock.dialects.kernel.views import root_of
from penstock.dialects.op.attention import scores_of
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.body.vector_loop import is_vector_op, number_of

OpT = TypeVar("OpT", bound=Operation)

NO_STEP = 0


@dataclass(frozen=True)
class Operand:
    """A memref, and how far apart its elements are along the loops."""

    memref: SSAValue
    outer: tuple[int, ...]
    row: int = NO_STEP
    key: int = NO_STEP
    column: int = NO_STEP
    """Along the terms of a score, or along a row of values or of the result."""


@dataclass(frozen=True)
class Attention:
    """The loops of attention."""

    element: str
    outer: tuple[int, ...]
    """The trip counts of the loops around rows."""
    rows: int
    keys: int
    terms: int
    """Of a score."""
    depth: int
    """The elements of a row of the result."""
    q: Operand
    k: Operand
    v: Operand
    out: Operand
    score: SSAValue
    """The contraction that a score is made of."""
    changed: SSAValue
    """The score."""
    changes: tuple[Operation, ...]
    """The ops that make the score of the sum, in order."""
    inputs: tuple[tuple[SSAValue, Operand], ...]
    """The values that are loaded for these."""
    offset: int | None = None
    """The number of keys past its own number that a row sees; all of them if None."""

    @property
    def work(self) -> int:
        """About how many scalar operations all of it takes."""
        scores = prod(self.outer) * scores_of(self.rows, self.keys, self.offset)
        return 2 * scores * (self.terms + self.depth + 8)


class _Mismatch(Exception):
    """That loops are not those of attention."""


def attention_of(op: Operation) -> Attention | None:
    """The loops of a phase as attention, or None for any other phase."""
    if not isinstance(op, scf.ParallelOp) or op.initVals:
        return None
    try:
        return _Matcher(op).attention()
    except _Mismatch:
        return None


def _the(type: type[OpT], op: object) -> OpT:
    """An op of a type. Raises `_Mismatch` for any other one."""
    if not isinstance(op, type):
        raise _Mismatch
    return op


def _expect(condition: bool) -> None:
    if not condition:
        raise _Mismatch


def _number(value: SSAValue) -> float | None:
    """The float that a value always is, if there is one."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        return op.value.value.data
    return None


def _pair(values: Sequence[SSAValue], first: SSAValue) -> SSAValue:
    """The other one of two values. Raises `_Mismatch` if the first is none of them."""
    _expect(len(values) == 2 and first in values)
    return values[1] if values[0] is first else values[0]


def _ops(block: Block) -> list[Operation]:
    """The ops of a block but for constants."""
    return [op for op in block.ops if not isinstance(op, arith.ConstantOp)]


@dataclass(frozen=True)
class _Matcher:
    op: scf.ParallelOp

    def attention(self) -> Attention:
        """The loops. Raises `_Mismatch` if they are others."""
        # Sums and minima count the keys of a row: they are matched where they are used.
        ops = [
            op
            for op in _ops(self.op.body.block)
            if not isinstance(op, arith.AddiOp | arith.MinSIOp)
        ]
        _expect([type(op) for op in ops] == self._kinds())
        clearing, keys, finishing = (_the(scf.ForOp, ops[n]) for n in (0, 1, 3))
        share = _the(arith.DivfOp, ops[2])
        out, depth = self._clearing(clearing)
        _expect(len(keys.iter_args) == 2)
        _expect([_number(value) for value in keys.iter_args] == [-inf, 0])
        total = keys.results[1]
        _expect(_number(share.lhs) == 1 and share.rhs is total)
        _expect(not keys.results[0].uses)
        self._finishing(finishing, out, share.result, depth)
        return self._keys(keys, out, depth)

    @staticmethod
    def _kinds() -> list[type[Operation]]:
        return [scf.ForOp, scf.ForOp, arith.DivfOp, scf.ForOp, scf.ReduceOp]

    def _extents(self) -> list[int]:
        op, found = self.op, list[int]()
        for ends in zip(op.lowerBound, op.upperBound, op.step, strict=True):
            lower, upper, step = map(number_of, ends)
            if lower != 0 or step != 1 or upper is None:
                raise _Mismatch
            found.append(upper)
        _expect(bool(found))
        return found

    @staticmethod
    def _extent(loop: scf.ForOp) -> int:
        upper = number_of(loop.ub)
        if number_of(loop.lb) != 0 or number_of(loop.step) != 1 or upper is None:
            raise _Mismatch
        return upper

    def _seen(self, loop: scf.ForOp) -> tuple[int, int | None]:
        """The number of keys, and how far past its own number a row sees them."""
        if number_of(loop.ub) is not None:
            return self._extent(loop), None
        _expect(number_of(loop.lb) == 0 and number_of(loop.step) == 1)
        smaller = _the(arith.MinSIOp, loop.ub.owner)
        keys, end = sorted(smaller.operands, key=lambda v: number_of(v) is None)
        sum, row = _the(arith.AddiOp, end.owner), self.op.body.block.args[-1]
        count, further = number_of(keys), number_of(_pair(sum.operands, row))
        if count is None or further is None or not 0 < further < count:
            raise _Mismatch
        return count, further - 1

    def _operand(
        self, op: memref.LoadOp | memref.StoreOp, inner: Sequence[SSAValue]
    ) -> tuple[Operand, list[int]]:
        """The accessed operand, and its strides along inner loops."""
        type = op.memref.type
        assert isa(type, MemRefType), "checked by the verifier"
        places = self.op.body.block.args
        steps = dict.fromkeys((*places, *inner), 0)
        for index, step in zip(op.indices, row_major(type.get_shape()), strict=True):
            if index in steps:
                steps[index] += step
            elif number_of(index) != 0:
                raise _Mismatch
        *outer, row = (steps[place] for place in places)
        operand = Operand(root_of(op.memref), tuple(outer), row)
        return operand, [steps[index] for index in inner]

    def _of_column(
        self, op: memref.LoadOp | memref.StoreOp, column: SSAValue
    ) -> Operand:
        operand, (step,) = self._operand(op, [column])
        return Operand(operand.memref, operand.outer, operand.row, column=step)

    def _clearing(self, loop: scf.ForOp) -> tuple[Operand, int]:
        """The result, and the elements of its rows: they begin as zeros."""
        _expect(not loop.iter_args)
        store, _ = _ops(loop.body.block)
        store = _the(memref.StoreOp, store)
        _expect(_number(store.value) == 0)
        return self._of_column(store, loop.body.block.args[0]), self._extent(loop)

    def _finishing(
        self, loop: scf.ForOp, out: Operand, share: SSAValue, depth: int
    ) -> None:
        """Check that a row of the result is divided by the sum."""
        ops = _ops(loop.body.block)
        _expect(len(ops) == 4 and self._extent(loop) == depth)
        column = loop.body.block.args[0]
        load, product = _the(memref.LoadOp, ops[0]), _the(arith.MulfOp, ops[1])
        store = _the(memref.StoreOp, ops[2])
        _expect(self._of_column(load, column) == out)
        _expect(self._of_column(store, column) == out)
        _expect(_pair(product.operands, load.res) is share)
        _expect(store.value is product.result)

    def _keys(self, loop: scf.ForOp, out: Operand, depth: int) -> Attention:
        block = loop.body.block
        key, before, total = block.args
        ops = _ops(block)
        dots, mixing, end = ops[0], ops[-4], _the(scf.YieldOp, ops[-1])
        dots, mixing = _the(scf.ForOp, dots), _the(scf.ForOp, mixing)
        decay, power, v = self._mixing(mixing, key, out, depth)
        largest, new_total = end.operands
        sum = _the(arith.AddfOp, new_total.owner)
        scaled = _the(arith.MulfOp, _pair(sum.operands, power).owner)
        _expect(_pair(scaled.operands, total) is decay)
        larger = _the(arith.MaxnumfOp, largest.owner)
        changed = _pair(larger.operands, before)
        base = self._checked_base(largest)
        known: set[Operation] = {dots, mixing, end, sum, scaled, larger}
        for value, whole in ((decay, before), (power, changed)):
            power_op = _the(math.ExpOp, value.owner)
            difference = _the(arith.SubfOp, power_op.operand.owner)
            _expect(difference.lhs is whole and difference.rhs is base)
            known |= {power_op, difference}
        select = _the(arith.SelectOp, base.owner)
        known |= {select, _the(arith.CmpfOp, select.cond.owner)}
        q, k, terms = self._dots(dots, key)
        element = ELEMENTS.get(dots.results[0].type)
        if element is None:
            raise _Mismatch
        changes, inputs = self._changes(
            [op for op in ops if op not in known], element, (key, dots.results[0])
        )
        _expect(
            not any(value in (before, total) for op in changes for value in op.operands)
        )
        *outer, rows = self._extents()
        count, offset = self._seen(loop)
        return Attention(
            element,
            tuple(outer),
            rows,
            count,
            terms,
            depth,
            q,
            k,
            v,
            out,
            dots.results[0],
            changed,
            tuple(changes),
            tuple(inputs),
            offset,
        )

    @staticmethod
    def _checked_base(largest: SSAValue) -> SSAValue:
        """The value subtracted from scores: the largest one, or 0 if that is -inf."""
        uses = (use.operation for use in largest.uses)
        base = next((op for op in uses if isinstance(op, arith.SelectOp)), None)
        select = _the(arith.SelectOp, base)
        compare = _the(arith.CmpfOp, select.cond.owner)
        _expect(compare.predicate.value.data == 1)
        _expect(_number(_pair(compare.operands, largest)) == -inf)
        _expect(_number(select.lhs) == 0 and select.rhs is largest)
        return select.result

    def _mixing(
        self, loop: scf.ForOp, key: SSAValue, out: Operand, depth: int
    ) -> tuple[SSAValue, SSAValue, Operand]:
        """The factors of the row so far and of the values, and the values."""
        ops = _ops(loop.body.block)
        _expect(len(ops) == 7 and self._extent(loop) == depth)
        column = loop.body.block.args[0]
        store = _the(memref.StoreOp, ops[-2])
        _expect(self._of_column(store, column) == out)
        sum = _the(arith.AddfOp, store.value.owner)
        parts = [self._scaled(value) for value in sum.operands]
        loads = [load for load, _ in parts]
        _expect(loads[0].memref is not loads[1].memref)
        if root_of(loads[1].memref) is out.memref:
            parts.reverse()
        (so_far, decay), (value, power) = parts
        _expect(self._of_column(so_far, column) == out)
        found, (step, along) = self._operand(value, [key, column])
        _expect(found.row == 0)
        v = Operand(found.memref, found.outer, 0, step, along)
        return decay, power, v

    @staticmethod
    def _scaled(value: SSAValue) -> tuple[memref.LoadOp, SSAValue]:
        """The load of a product, and its other factor."""
        product = _the(arith.MulfOp, value.owner)
        load = next(
            (v.owner for v in product.operands if isinstance(v.owner, memref.LoadOp)),
            None,
        )
        load = _the(memref.LoadOp, load)
        return load, _pair(product.operands, load.res)

    def _dots(self, loop: scf.ForOp, key: SSAValue) -> tuple[Operand, Operand, int]:
        """Queries and keys whose products are added, and how many there are."""
        _expect(len(loop.iter_args) == 1 and _number(loop.iter_args[0]) == 0)
        term, total = loop.body.block.args
        ops = _ops(loop.body.block)
        _expect(len(ops) == 5)
        sum, end = _the(arith.AddfOp, ops[3]), _the(scf.YieldOp, ops[4])
        product = _the(arith.MulfOp, _pair(sum.operands, total).owner)
        _expect(end.operands[0] is sum.result and product is ops[2])
        found: list[Operand] = []
        for value in product.operands:
            load = _the(memref.LoadOp, value.owner)
            operand, (of_key, of_term) = self._operand(load, [key, term])
            found.append(
                Operand(operand.memref, operand.outer, operand.row, of_key, of_term)
            )
        q, k = found
        if q.key:
            q, k = k, q
        _expect(q.key == 0 and k.row == 0)
        return q, k, self._extent(loop)

    def _changes(
        self,
        ops: Sequence[Operation],
        element: str,
        given: tuple[SSAValue, SSAValue],
    ) -> tuple[list[Operation], list[tuple[SSAValue, Operand]]]:
        """The ops that make scores of sums, and what they load."""
        key, score = given
        changes: list[Operation] = []
        inputs: list[tuple[SSAValue, Operand]] = []
        made = {score}
        for op in ops:
            if isinstance(op, memref.LoadOp):
                _expect(ELEMENTS.get(op.res.type) == element)
                operand, (step,) = self._operand(op, [key])
                operand = Operand(operand.memref, operand.outer, operand.row, step)
                inputs.append((op.res, operand))
            else:
                _expect(is_vector_op(op, element))
                known = (v in made or _number(v) is not None for v in op.operands)
                _expect(all(known))
                changes.append(op)
            made.update(op.results)
        return changes, inputs
