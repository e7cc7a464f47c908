"""A dialect with one op, and its kernel."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@irdl_op_definition
class SquareOp(ElementwiseOp):
    """Each element times itself."""

    name = "my.square"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def infer_types(self):
        return (tensor_type(self.operand),)

    def evaluate(self, x):
        return (x * x,)

    def scalar(self, k, operands):
        (x,) = operands
        return k.mul(x, x)

    def gradient(self, o, *grads):
        (grad,) = grads
        return [o.mul(o.mul(grad, 2), self.operand)]


My = register("dialect", "my")(Dialect("my", [SquareOp]))
