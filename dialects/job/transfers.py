"""Both ends of a tensor's way from one process to another."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.ops import MOVED_LATER
from penstock.dialects.job.placements import DeviceAttr
from penstock.dialects.job.ports import AnyTensor
from penstock.dialects.utils.attributes import OF_VALUES, KnownAttributes
from penstock.dialects.utils.counts import Count
from penstock.dialects.utils.gradients import Differentiable


def verify_tag(tag: IntegerAttr) -> None:
    """Raise `VerifyException` if the number of a message is negative."""
    if tag.value.data < 0:
        raise VerifyException(f"a tag is not negative, got {tag.value.data}")


@irdl_op_definition
class SendOp(IRDLOperation, Differentiable):
    """
    A message with a tensor to the process of another device; it ends when the receiver
    has taken it. Messages of one tag between two ranks come in their order. It comes as
    often in an iteration as the rates of its own rank say, or so many `times`.

    ```mlir
    job.send %x to <1, cpu:0> tag 3 : tensor<4xf32>
    job.send %x to <1, cpu:0> tag 4 times 2 : tensor<4xf32>
    ```
    """

    name = "job.send"
    NO_GRADIENT: ClassVar = MOVED_LATER

    value = operand_def(AnyTensor)
    device = prop_def(DeviceAttr)
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)

    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$value `to` $device `tag` $tag (`times` $times^)? attr-dict `:` type($value)"
    )

    def __init__(self, value: SSAValue | Operation, device: DeviceAttr, tag: int):
        super().__init__(
            operands=[SSAValue.get(value)],
            properties={"device": device, "tag": IntegerAttr(tag, i64)},
        )

    def verify_(self) -> None:
        verify_tag(self.tag)


@irdl_op_definition
class ReceiveOp(IRDLOperation, Differentiable):
    """
    The tensor of a message from the process of another device, which comes as often as
    `job.send` says.

    ```mlir
    %y = job.receive from <0, cpu:0> tag 3 : tensor<4xf32>
    %z = job.receive from <0, cpu:0> tag 4 times 2 : tensor<4xf32>
    ```
    """

    name = "job.receive"
    NO_GRADIENT: ClassVar = MOVED_LATER

    device = prop_def(DeviceAttr)
    tag = prop_def(IntegerAttr.constr(i64))
    times = opt_prop_def(Count)
    result = result_def(AnyTensor)

    traits = traits_def(
        KnownAttributes(*OF_VALUES), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "`from` $device `tag` $tag (`times` $times^)? attr-dict `:` type($result)"
    )

    def __init__(self, device: DeviceAttr, tag: int, type: TensorType):
        super().__init__(
            properties={"device": device, "tag": IntegerAttr(tag, i64)},
            result_types=[type],
        )

    def verify_(self) -> None:
        verify_tag(self.tag)
