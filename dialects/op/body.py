"""`BodyOp`, an op on tensors with regions of such ops, and `op.yield`, their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    AssignOp,
    CallbackNotifyOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    SinkTickOp,
    SourceTickOp,
    VariableOp,
)
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.diagnostics import LocatedVerifyException

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array


class InBody(OpTrait):
    """An op stands directly in a region of an op on tensors with bodies."""

    def verify(self, op: Operation) -> None:
        """Raise a `VerifyException` for another parent."""
        parent = op.parent_op()
        if parent is not None and not isinstance(parent, BodyOp):
            raise VerifyException(
                f"it ends a body of ops on tensors, not one of {parent.name}"
            )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The values that a body of ops on tensors has in the end: of `op.fused` and `op.if`
    their results, of `op.loop` those that are carried on, and those that are stacked.

    ```mlir
    op.yield %r, %s : tensor<4xf32>, tensor<4xf32>
    ```
    """

    name = "op.yield"

    values = var_operand_def(TensorType)

    traits = traits_def(KnownAttributes(), InBody(), IsTerminator(), Pure())

    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[values])


class BodyOp(TensorOp, ABC):
    """An op on tensors with regions, of one block each, that end in `op.yield`."""

    @abstractmethod
    def argument_types(self) -> Sequence[TensorType]:
        """The types of the arguments of each region, as the operands say."""


SEGMENTS = "operandSegmentSizes"
"""The property of the numbers of operands of each kind."""


class BodyRun(NamedTuple):
    """
    A run of a body: the number of the iteration in a loop, the body, and its values.
    """

    iteration: tuple[int, ...]
    block: Block
    values: Mapping[SSAValue, Array]


class FlowOp(BodyOp, ABC):
    """
    An op on tensors with bodies that run several times, or perhaps not at all. The
    values that they read are its last operands.
    """

    @property
    @abstractmethod
    def read_values(self) -> Sequence[SSAValue]:
        """The values that the bodies read; their arguments are the last ones."""

    @abstractmethod
    def runs(self, *operands: Array) -> Iterator[BodyRun]:
        """
        The runs of its bodies, one after the other, in terms of NumPy. Raises
        `ValueError` where a maximum of them is not enough.
        """

    def read_also(self, values: Sequence[SSAValue]) -> None:
        """
        Read more values: further arguments of each region, which take the place of
        these values in it.
        """
        for region in self.regions:
            isolate(region.block, values)
        self.operands = [*self.operands, *values]
        sizes = self.properties.get(SEGMENTS)
        if isinstance(sizes, DenseArrayBase):
            # The values that it reads are the last operands.
            *others, reads = sizes.get_values()
            numbers = [*map(int, others), int(reads) + len(values)]
            self.properties[SEGMENTS] = DenseArrayBase.from_list(i32, numbers)


def yield_of(block: Block) -> YieldOp:
    """The end of a body. Raises `VerifyException` where there is none."""
    if not isinstance(last := block.last_op, YieldOp):
        raise VerifyException("the body should end in op.yield of its results")
    return last


def values_outside(blocks: Iterable[Block]) -> list[SSAValue]:
    """The values that ops of blocks read and that none of these makes, each once."""
    own = [*blocks]
    found = dict.fromkeys(
        value for block in own for op in block.ops for value in op.operands
    )
    return [value for value in found if _block_of(value) not in own]


def _block_of(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent_block()


def isolate(block: Block, values: Sequence[SSAValue]) -> None:
    """Let ops of a block read values from outside as new arguments of it, in order."""
    known = {value: block.insert_arg(value.type, len(block.args)) for value in values}
    for op in block.ops:
        op.operands = [known.get(value, value) for value in op.operands]


REFUSED: Mapping[type[Operation] | tuple[type[Operation], ...], str] = {
    AssignOp: "carry the value out, assign after",
    (InputOp, VariableOp): "let the body read its value",
    OutputOp: "carry the value out, it is an output after",
    (ForeignInputOp, ForeignOutputOp): "callbacks take part once in a run of the job",
    (SourceTickOp, SinkTickOp): "ticks are of the whole job",
    CallbackNotifyOp: "callbacks take part once in a run of the job",
    RateOp: "all ops of a body act once each time it runs",
}
"""Why ops of jobs, and those of other rates, are no part of a body."""


def verify_members(block: Block, where: str) -> None:
    """
    Raise `VerifyException` for an op of a body that is none on tensors, or that acts at
    another rate than the job.
    """
    end = yield_of(block)
    for op in block.ops:
        if op is end or (isinstance(op, TensorOp) and not has_rate(op)):
            continue
        text = f"{op.name} cannot be part {where}"
        reason = next((x for kinds, x in REFUSED.items() if isinstance(op, kinds)), "")
        raise LocatedVerifyException([(op, f"{text}: {reason}" if reason else text)])


def has_rate(op: Operation) -> bool:
    """Whether an op, or one in a body of it, acts at another rate than its job."""
    return any(isinstance(inner, RateOp) for inner in op.walk())


def clone_body(
    block: Block, known: dict[SSAValue, SSAValue], made: list[Operation]
) -> Sequence[SSAValue]:
    """
    Add clones of the ops of a body to a list, given the values of its arguments that
    are read; the values that the clones yield.
    """
    end = yield_of(block)
    made += [op.clone(known) for op in block.ops if op is not end]
    return [known[value] for value in end.values]
