"""`op.loop`: ops that run several times, each time on what the last one has made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AtLeast,
    AttrSizedOperandSegments,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, RecursivelySpeculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import FlowOp, verify_members, yield_of
from penstock.dialects.op.group_form import evaluate_block
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import may_equal
from penstock.dialects.utils.tensors import are_compatible, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

INDEX = TensorType(i64, [])
"""The type of the number of an iteration."""


@irdl_op_definition
class LoopOp(FlowOp):
    """
    Ops that run a number of `times`, each time on what they have made before.

    The arguments of the body are the number of the iteration; the values that it
    `carries`, which are the operands at first and what it yields after that; the
    elements of the tensors that it `slices` at that number on their first axis; and
    the values that it `reads` each time. It yields those that it carries, and then any
    number of others. The results are what it carries in the end, and the others of all
    iterations, stacked on a new first axis.

    ```mlir
    %h, %ys = op.loop 3 carries(%h0 : tensor<2xf32>) slices(%xs : tensor<3x2xf32>)
        reads(%w : tensor<2xf32>) -> tensor<2xf32>, tensor<3x2xf32> {
    ^bb0(%i: tensor<i64>, %h: tensor<2xf32>, %x: tensor<2xf32>, %v: tensor<2xf32>):
      %p = op.mul %h, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %n = op.add %p, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      %y = op.tanh %n : tensor<2xf32> -> tensor<2xf32>
      op.yield %n, %y : tensor<2xf32>, tensor<2xf32>
    }
    ```

    A loop that goes `backward` has the last number first: it takes slices, and stacks
    what it yields, from the end.
    """

    name = "op.loop"

    times = prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    backward = opt_prop_def(UnitAttr)
    carries = var_operand_def(TensorType)
    slices = var_operand_def(TensorType)
    reads = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "$times (`backward` $backward^)? "
        "(`carries` `(` $carries^ `:` type($carries) `)`)? "
        "(`slices` `(` $slices^ `:` type($slices) `)`)? "
        "(`reads` `(` $reads^ `:` type($reads) `)`)? "
        "(`->` type($outs)^)? attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        times: int,
        carries: Sequence[SSAValue | Operation],
        slices: Sequence[SSAValue | Operation],
        reads: Sequence[SSAValue | Operation],
        body: Region,
        *,
        backward: bool = False,
    ):
        yielded = [tensor_type(x) for x in yield_of(body.block).values]
        kept = len(carries)
        stacked = [_stacked(type, times) for type in yielded[kept:]]
        super().__init__(
            operands=[carries, slices, reads],
            result_types=[[*yielded[:kept], *stacked]],
            properties={
                "times": IntegerAttr(times, i64),
                "backward": UnitAttr() if backward else None,
            },
            regions=[body],
        )

    @property
    def count(self) -> int:
        """The number of iterations."""
        return self.times.value.data

    @property
    def order(self) -> range:
        """The numbers of the iterations, in the order in which they run."""
        numbers = range(self.count)
        return numbers if self.backward is None else numbers[::-1]

    @property
    def members(self) -> list[TensorOp]:
        """The ops of an iteration, in order."""
        return [op for op in self.body.block.ops if isinstance(op, TensorOp)]

    def argument_types(self) -> Sequence[TensorType]:
        taken = [_taken(tensor_type(value), self.count) for value in self.slices]
        kept, read = (map(tensor_type, each) for each in (self.carries, self.reads))
        return [INDEX, *kept, *taken, *read]

    def infer_types(self) -> Sequence[TensorType]:
        block = self.body.block
        verify_members(block, "of an iteration")
        wanted, given = self.argument_types(), [*map(tensor_type, block.args)]
        if len(wanted) != len(given) or not all(map(are_compatible, wanted, given)):
            texts = (", ".join(map(str, types)) for types in (wanted, given))
            raise VerifyException(
                "the body's arguments should be {}, got {}".format(*texts)
            )
        yielded = [tensor_type(value) for value in yield_of(block).values]
        kept = [tensor_type(value) for value in self.carries]
        if len(yielded) < len(kept):
            raise VerifyException(
                f"the loop carries {len(kept)} values, the body yields {len(yielded)}"
            )
        for number, (before, after) in enumerate(zip(kept, yielded, strict=False)):
            if not are_compatible(before, after):
                raise VerifyException(
                    f"carried value {number} is {before} before an iteration, "
                    f"{after} after it"
                )
        return [*kept, *(_stacked(type, self.count) for type in yielded[len(kept) :])]

    def flops(self) -> int:
        return self.count * sum(member.flops() for member in self.members)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        kept, taken = len(self.carries), len(self.slices)
        state = [*operands[:kept]]
        slices, read = operands[kept : kept + taken], operands[kept + taken :]
        rows: dict[int, Sequence[Array]] = {}
        for number in self.order:
            given = [np.asarray(number), *state, *(x[number] for x in slices), *read]
            block = self.body.block
            values = evaluate_block(block, dict(zip(block.args, given, strict=True)))
            made = [values[value] for value in yield_of(block).values]
            state, rows[number] = made[:kept], made[kept:]
        if not rows:
            return [*state, *map(_nothing, self.outs[kept:])]
        columns = zip(*(rows[number] for number in range(self.count)), strict=True)
        return [*state, *map(np.stack, columns)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a loop has no kernel of its own: op-unroll-loops comes before"
        )


def _taken(type: TensorType, times: int) -> TensorType:
    """The type of a slice of a tensor along its first axis."""
    shape = type.get_shape()
    if not shape or not may_equal(shape[0], times):
        raise VerifyException(f"there are no {times} slices of {type}")
    return TensorType(type.element_type, shape[1:])


def _stacked(type: TensorType, times: int) -> TensorType:
    return TensorType(type.element_type, [times, *type.get_shape()])


def _nothing(value: SSAValue) -> Array:
    """No slices of a tensor, whose other extents are those of its type."""
    import numpy as np

    from penstock.dialects.utils.numpy_types import dtype_of

    type = tensor_type(value)
    assert DYNAMIC_INDEX not in type.get_shape(), "it is run with all extents known"
    return np.empty(type.get_shape(), dtype_of(type.element_type))
