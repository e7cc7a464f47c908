"""The builder of what starts and ends the sums of a `SumOp`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.builder import (
    KernelBuilder,
    ScalarsBody,
    broadcast_map,
)
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import element_of, shape_of
from penstock.dialects.kernel.sums import Operand


class Finish:
    """
    The end of sums, as stages are added to it: a region whose arguments are a sum and
    an element of each of `operands`.
    """

    def __init__(self, sum_type: Attribute):
        self.block = Block(arg_types=[sum_type])
        self.values: Sequence[SSAValue] = [self.block.args[0]]
        """The elements of the results so far: the sum, until something is added."""
        self.operands: list[Operand] = []

    def argument(self, operand: Operand) -> SSAValue:
        """The argument of the region that is an element of an operand."""
        if operand not in self.operands:
            self.operands.append(operand)
            self.block.insert_arg(element_of(operand[0]), len(self.block.args))
        return self.block.args[1 + self.operands.index(operand)]

    def then(self, operands: Sequence[Operand], body: ScalarsBody) -> None:
        """
        Go on with the values that a function builds, which is given an element of each
        operand, then the values so far.
        """
        scalars = [self.argument(operand) for operand in operands]
        inside = KernelBuilder(InsertPoint.at_end(self.block))
        self.values = body(inside, [*scalars, *self.values])

    def region(self) -> Region | None:
        """The region; none where sums are stored as they are."""
        if [*self.values] == [self.block.args[0]]:
            return None
        self.block.add_op(YieldOp(*self.values))
        return Region(self.block)


def build_contract(
    k: KernelBuilder,
    factors: tuple[Operand, Operand],
    outs: Sequence[Operand],
    start: Operand | None,
    finish: Finish,
    unsigned: tuple[bool, bool] = (False, False),
) -> None:
    """Build a stage that is a contraction."""
    (a, of_a), (b, of_b) = factors
    started = [] if start is None else [start]
    operands = *outs, *started, *finish.operands
    op = ContractOp(
        (a, b),
        [value for value, _ in outs],
        [of_a, of_b, *(map for _, map in operands)],
        start=None if start is None else start[0],
        extra=[value for value, _ in finish.operands],
        finish=finish.region(),
        unsigned=unsigned,
    )
    k.effect(op)


def broadcast_operand(value: SSAValue, result: AffineMap) -> Operand:
    """
    A memref that NumPy broadcasts to a result, whose index is a function of the loops
    of an op.
    """
    own = broadcast_map(shape_of(value), len(result.results))
    exprs: Sequence[AffineExpr] = result.results
    return value, own.replace_dims_and_symbols(exprs, [], result.num_dims, 0)
