"""`op.loop`: ops that run several times, each time on what the last one has made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.interfaces import ConditionallySpeculatableInterface
from xdsl.ir import SSAValue
from xdsl.irdl import AttrSizedOperandSegments, irdl_op_definition, traits_def
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import BodyRun, yield_of
from penstock.dialects.op.canonicalization import CanonicalOp
from penstock.dialects.op.groups.group_form import evaluate_block
from penstock.dialects.op.loop.canonicalization import (
    InvariantOps,
    KnownCount,
    NoIteration,
    OneIteration,
    ProductsOfSlices,
    StackedSlices,
    UnchangedValues,
    UnreadResults,
    UnreadValues,
)
from penstock.dialects.op.loop.form import LoopForm
from penstock.dialects.op.loop.gradient import BackwardLoop
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.tensors import tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class LoopOp(LoopForm, ConditionallySpeculatableInterface, CanonicalOp):
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

    A loop `up to` a maximum has a `count`, which is given at run time, a condition, or
    both. The condition after `while` is the first of the values that are carried: it is
    tested before each iteration, also the first one. The last result, if asked for, is
    the number of iterations that were `made`. Stacked results have the extent of the
    maximum; what lies beyond the iterations that were made is zeros.

    ```mlir
    %c, %h, %ys, %made = op.loop up to 100 count(%n) while(%c0)
        carries(%h0 : tensor<f32>) made
        -> tensor<i1>, tensor<f32>, tensor<100xf32>, tensor<i64> {
    ^bb0(%i: tensor<i64>, %going: tensor<i1>, %h: tensor<f32>):
      %y = op.sqrt %h : tensor<f32> -> tensor<f32>
      %again = op.greater %h, %y : tensor<f32>, tensor<f32> -> tensor<i1>
      op.yield %again, %y, %y : tensor<i1>, tensor<f32>, tensor<f32>
    }
    ```

    A count that is negative or greater than the maximum is an error when the op runs,
    and so is a condition that, without a count, still holds after the maximum.
    """

    name = "op.loop"
    PATTERNS: ClassVar = (
        NoIteration,
        OneIteration,
        KnownCount,
        UnchangedValues,
        StackedSlices,
        UnreadResults,
        UnreadValues,
        InvariantOps,
        ProductsOfSlices,
    )

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        KnownAttributes("no_unroll"), IsolatedFromAbove(), NoMemoryEffect()
    )

    assembly_format = (
        "(`up` `to` $up_to^)? $times (`count` `(` $trips^ `)`)? "
        "(`while` `(` $going^ `)`)? (`backward` $backward^)? "
        "(`carries` `(` $carries^ `:` type($carries) `)`)? "
        "(`slices` `(` $slices^ `:` type($slices) `)`)? "
        "(`reads` `(` $reads^ `:` type($reads) `)`)? "
        "(`made` $made^)? (`->` type($outs)^)? attr-dict-with-keyword $body"
    )

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        """A carried value may lie where its first value did, which is read first."""
        first = 0 if self.trips is None else 1
        return [
            InPlacePair(first + number, number)
            for number, (before, after) in enumerate(
                zip(self.carried, self.ends, strict=True)
            )
            if before.type == after.type
        ]

    def flops(self) -> int:
        """Those of all iterations, or of the maximum of them."""
        return self.count * sum(member.flops() for member in self.members)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        """Raises `ValueError` where the maximum is not enough."""
        import numpy as np

        kept = len(self.carried)
        state = operands[self.trips is not None :][:kept]
        rows: dict[int, Sequence[Array]] = {}
        for (number,), block, values in self.runs(*operands):
            made = [values[value] for value in yield_of(block).values]
            state, rows[number] = made[:kept], made[kept:]
        number = [np.asarray(len(rows))] * (self.made is not None)
        return [*state, *self._in_stacks(rows), *number]

    def runs(self, *operands: Array) -> Iterator[BodyRun]:
        import numpy as np

        block = self.body.block
        count = self.count if self.trips is None else self._allowed(operands[0])
        rest = operands[self.trips is not None :]
        kept, taken = len(self.carried), len(self.slices)
        state, slices = [*rest[:kept]], rest[kept : kept + taken]
        for number in self.order_of(count):
            if self.going is not None and not state[0]:
                return
            parts = (value[number] for value in slices)
            given = [np.asarray(number), *state, *parts, *rest[kept + taken :]]
            values = evaluate_block(block, dict(zip(block.args, given, strict=True)))
            yield BodyRun((number,), block, values)
            state = [values[value] for value in yield_of(block).values[:kept]]
        if self.going is not None and self.trips is None and state[0]:
            raise ValueError(self.too_long)

    def _allowed(self, count: Array) -> int:
        """The number of iterations to make. Raises `ValueError` for a bad one."""
        if not 0 <= (number := int(count)) <= self.count:
            raise ValueError(f"{self.too_many}, {number}")
        return number

    def _in_stacks(self, rows: Mapping[int, Sequence[Array]]) -> Sequence[Array]:
        """The parts that iterations have made, side by side, on zeros."""
        import numpy as np

        if not rows:
            return [_zeros(value) for value in self.stacks]
        stacks = [
            np.zeros((self.count, *row.shape), row.dtype)
            for row in next(iter(rows.values()))
        ]
        for number, each in rows.items():
            for stack, row in zip(stacks, each, strict=True):
                stack[number] = row
        return stacks

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """
        A loop in the other order, of as many iterations, which carries the gradients of
        what this one carries. Each iteration computes its ops anew, from what they were
        given. The gradients of what all iterations read are sums over them: where these
        are of products of matrices, one product after the loop; else they are carried.
        """
        return BackwardLoop(o, self, grads).gradients()

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a loop has no kernel of its own: op-unroll-loops comes before"
        )


def _zeros(value: SSAValue) -> Array:
    """Zeros of the type of a tensor."""
    import numpy as np

    from penstock.dialects.utils.numpy_types import dtype_of

    type = tensor_type(value)
    assert DYNAMIC_INDEX not in type.get_shape(), "it is run with all extents known"
    return np.zeros(type.get_shape(), dtype_of(type.element_type))
