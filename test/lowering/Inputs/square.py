"""A dialect of another package: an elementwise op, alone or with a region."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_region_def,
)
from xdsl.traits import Pure
from xdsl.universe import Universe

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.utils.tensors import tensor_type


@irdl_op_definition
class SquareOp(ElementwiseOp):
    """Each element times itself."""

    name = "third.square"

    operand = operand_def(TensorType)
    result = result_def(TensorType)
    body = var_region_def()

    traits = traits_def(Pure())

    def infer_types(self) -> Sequence[TensorType]:
        return (tensor_type(self.operand),)

    def scalar(self, k: KernelBuilder, operands: Sequence[SSAValue]) -> SSAValue:
        return k.mul(operands[0], operands[0])

    def evaluate(self, *operands: NDArray[np.generic]) -> Sequence[NDArray[np.generic]]:
        return (np.square(operands[0]),)


UNIVERSE = Universe(all_dialects={"third": lambda: Dialect("third", [SquareOp], [])})
