"""A kernel form: what one point of a moving average is made of, and in which loops."""

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, MemRefType, TensorType, f64
from xdsl.ir import Dialect
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import element_count, tensor_type
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@irdl_op_definition
class MovingOp(StructuredOp):
    """Rows `y[i] = decay * y[i - 1] + (1 - decay) * x[i]`, with `y[0] = x[0]`."""

    name = "my.moving"

    x = operand_def(MemRefType)
    y = operand_def(MemRefType)
    decay = prop_def(FloatAttr.constr(eq(f64)))

    assembly_format = (
        "`decay` $decay `ins` `(` $x `:` type($x) `)` `outs` `(` $y `:` type($y) `)` "
        "attr-dict-with-keyword"
    )

    def maps(self):
        return [AffineMap.identity(2)] * 2

    def outs_at(self):
        return range(1, 2)

    def roles(self):
        return {"row": [0], "time": [1]}

    def work(self):
        rows, times = self.x.type.get_shape()
        return 3 * rows * times

    def evaluate(self, *operands):
        return (averages(operands[0], self.decay.value.data),)

    def build_loops(self, k):
        element = self.x.type.element_type
        rows, times = self.x.type.get_shape()
        if times == 0:
            return

        def row(k, place):
            decay = k.constant(self.decay.value.data, element)
            rest = k.constant(1 - self.decay.value.data, element)

            def step(k, i, carried):
                new = k.mul(rest, k.load(self.x, [*place, i]))
                value = k.add(k.mul(decay, carried[0]), new)
                k.store(value, self.y, [*place, i])
                return [value]

            first = k.load(self.x, [*place, k.index(0)])
            k.store(first, self.y, [*place, k.index(0)])
            k.loop(k.index(1), k.index(times), [first], step)

        k.parallel([rows], row)


def averages(x, decay):
    """The moving averages of rows in NumPy."""
    import numpy as np

    y = np.array(x)
    for i in range(1, x.shape[1]):
        y[:, i] = decay * y[:, i - 1] + (1 - decay) * x[:, i]
    return y


@irdl_op_definition
class AverageOp(TensorOp):
    """The moving average of each row of a tensor."""

    name = "my.average"
    NO_GRADIENT: ClassVar = "averages show how training goes"

    x = operand_def(TensorType)
    decay = prop_def(FloatAttr.constr(eq(f64)))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$x `decay` $decay attr-dict `:` type($x) `->` type($result)"

    def infer_types(self):
        return (tensor_type(self.x),)

    def flops(self):
        return 3 * element_count(self.result.type)

    def evaluate(self, x):
        return (averages(x, self.decay.value.data),)

    def build_kernel(self, k, ins, outs):
        k.effect(MovingOp(operands=[*ins, *outs], properties={"decay": self.decay}))


register("dialect", "my")(Dialect("my", [AverageOp, MovingOp]))
register("kernel-form", MovingOp.name)(MovingOp)
