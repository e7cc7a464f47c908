"""A dialect of another package: ops that have to overwrite operands."""

from abc import ABC
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.universe import Universe

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.tensors import tensor_type


class SumOp(TensorOp, ABC):
    """The sum of two tensors."""

    term = operand_def(TensorType)
    total = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def infer_types(self) -> Sequence[TensorType]:
        return (tensor_type(self.total),)

    def evaluate(self, *operands: NDArray[np.generic]) -> Sequence[NDArray[np.generic]]:
        return (np.add(*operands),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.elementwise(ins, outs[0], lambda k, scalars: k.add(scalars[0], scalars[1]))


@irdl_op_definition
class AccumulateOp(SumOp):
    """A sum that takes the place of what has been summed up."""

    name = "third.accumulate"

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0), InPlacePair(1, 0, must=True))


@irdl_op_definition
class BothOp(SumOp):
    """A sum that takes the place of both of its operands, which cannot be."""

    name = "third.both"

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0, must=True), InPlacePair(1, 0, must=True))


UNIVERSE = Universe(
    all_dialects={"third": lambda: Dialect("third", [AccumulateOp, BothOp], [])}
)
