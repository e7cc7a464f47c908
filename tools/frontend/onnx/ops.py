"""
The op dialect as functions on values, for converters that make several ops of one.

Results of known values alone are computed at once, and are known values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.op_builder import op_of
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import dtype_of, element_type_of
from penstock.dialects.utils.op_functions import OpFunctions, OpName
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = npt.NDArray[np.generic]
Value: TypeAlias = SSAValue | Array
Operand: TypeAlias = Value | float | int


Given: TypeAlias = Value | Sequence[Value] | None
"""An operand of a call: one value, a list of them, or none."""

Tensors: TypeAlias = SSAValue | Sequence[SSAValue] | None
"""An operand of a call whose values are tensors of the job."""


def flat(operands: Iterable[Given]) -> Iterator[Value]:
    """The values of all operands of a call."""
    for operand in operands:
        if isinstance(operand, SSAValue | np.ndarray | np.generic):
            yield operand
        else:
            yield from operand or ()


def mapped(
    operands: Iterable[Given], change: Callable[[Value], SSAValue]
) -> list[list[SSAValue]]:
    """The operands of a call, each of whose values is changed to a tensor."""
    return [[change(value) for value in flat([operand])] for operand in operands]


class Adder(Protocol):
    """The protocol of builders that add ops to a job."""

    def as_tensor(self, value: Value) -> SSAValue: ...
    def add(
        self, op: type[TensorOp], *operands: Tensors, **values: object
    ) -> Sequence[SSAValue]: ...


class Ops(OpFunctions[Value]):
    """The functions of the op dialect on values of a job and on known arrays."""

    def __init__(self, adder: Adder):
        self._adder = adder

    def shape(self, value: Value) -> list[int]:
        if isinstance(value, SSAValue):
            return list(tensor_type(value).get_shape())
        return list(value.shape)

    def element(self, value: Value) -> AnyFloat | IntegerType:
        if not isinstance(value, SSAValue):
            return element_type_of(value.dtype)
        element = tensor_type(value).element_type
        assert isinstance(element, AnyFloat) or isa(element, IntegerType)
        return element

    def filled(self, number: float, shape: Sequence[int], like: Value) -> Value:
        return np.full(shape, number, dtype_of(self.element(like)))

    def results(
        self, op: OpName, *operands: Given, **values: object
    ) -> Sequence[Value]:
        made = op_of(op)
        if not any(isinstance(value, SSAValue) for value in flat(operands)):
            return computed(made, operands, values)
        return self._adder.add(made, *mapped(operands, self._adder.as_tensor), **values)


def computed(
    op: type[TensorOp], operands: Sequence[Given], values: Mapping[str, object]
) -> Sequence[Array]:
    """The results of an op on arrays."""
    arrays: list[Array] = []

    def stand_in(array: Value) -> SSAValue:
        assert not isinstance(array, SSAValue), "all values are known"
        arrays.append(array)
        return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))

    made = op.of(*mapped(operands, stand_in), **values)
    return made.meaning(*arrays)
