"""`OpBuilder`: makes ops of the dialect on values of a job, and puts them somewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from penstock.dialects.op import ConstantOp, Op
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training.gradient_rules import (
    GradientRule,
    check_extents,
    check_own,
    own_gradient,
)
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.op_functions import Given, OpFunctions, OpName
from penstock.dialects.utils.splat import splat_of
from penstock.dialects.utils.tensors import tensor_type


def op_of(op: OpName) -> type[TensorOp]:
    """The class of an op on tensors, by itself or by the name of one of ours."""
    found = op if isinstance(op, type) else _by_name()[op]
    assert issubclass(found, TensorOp), "others are not called on tensors"
    return found


@cache
def _by_name() -> Mapping[str, type[Operation]]:
    return {op.name: op for op in Op.operations}


class OpBuilder(OpFunctions[SSAValue]):
    """
    The functions of the op dialect on values of a job. Each op that they make is given
    to `insert`, which puts it where it belongs. `rules` are asked for the gradients of
    an op before the op itself.
    """

    def __init__(
        self,
        insert: Callable[[Operation], object],
        rules: Sequence[GradientRule] = (),
    ):
        self._insert = insert
        self._rules = rules

    def insert(self, op: Operation) -> None:
        self._insert(op)

    def within(self, block: Block) -> OpBuilder:
        return OpBuilder(block.add_op, self._rules)

    def gradient_of(
        self, op: Operation, grads: Sequence[SSAValue | None]
    ) -> Sequence[SSAValue | None]:
        check_extents(op)
        for rule in (*self._rules, own_gradient):
            if (found := rule(op, self, grads)) is not None:
                return found
        raise AssertionError("an op says its own gradient, or why it has none")

    def refuse_without_gradient(self, op: Operation) -> None:
        check_extents(op)
        # Only a rule itself knows whether it has one.
        if not self._rules:
            check_own(op)

    def shape(self, value: SSAValue) -> list[int]:
        return list(tensor_type(value).get_shape())

    def element(self, value: SSAValue) -> AnyFloat | IntegerType:
        element = tensor_type(value).element_type
        assert isinstance(element, AnyFloat) or isa(element, IntegerType)
        return element

    def filled(self, number: float, shape: Sequence[int], like: SSAValue) -> SSAValue:
        return self.constant(number, TensorType(self.element(like), shape))

    def constant(self, number: float, type: TensorType) -> SSAValue:
        """A number in all places of a tensor of a type."""
        element = type.element_type
        if isinstance(element, AnyFloat):
            packed = element.pack([number])
        else:
            assert isa(element, IntegerType), "tensors are of numbers"
            packed = element.pack([int(number)])
        op = ConstantOp(splat_of(type, packed))
        self._insert(op)
        return op.result

    def results(
        self, op: OpName, *operands: Given[SSAValue], **values: object
    ) -> Sequence[SSAValue]:
        made = op_of(op).of(*operands, **values)
        made.verify()
        self._insert(made)
        return made.results
