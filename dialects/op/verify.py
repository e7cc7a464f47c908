"""Checks of operands that ops share, with the errors they raise."""

from collections.abc import Sequence
from math import inf

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import is_unsigned
from penstock.dialects.utils.tensors import shape_text, tensor_type


def same_element_type(operands: Sequence[SSAValue]) -> Attribute:
    """The element type of all operands."""
    first, *others = (tensor_type(operand).element_type for operand in operands)
    for other in others:
        if other != first:
            raise VerifyException(
                f"operands have different element types {first} and {other}"
            )
    return first


def check_rank(what: str, type: TensorType, rank: int) -> None:
    """Refuse a tensor that has another number of dimensions."""
    if type.get_num_dims() != rank:
        raise VerifyException(f"{what} should have {rank} dimensions, got {type}")


def check_shape(what: str, type: TensorType, shape: Sequence[int]) -> None:
    """Refuse a tensor of another shape. Extents that are not known fit all."""
    got = type.get_shape()
    if len(got) != len(shape) or not all(map(may_equal, got, shape)):
        raise VerifyException(
            f"{what} should have the shape {shape_text(shape)}, got {shape_text(got)}"
        )


def may_equal(a: int, b: int) -> bool:
    """Whether two extents can be the same."""
    return a == b or DYNAMIC_INDEX in (a, b)


def known(a: int, b: int) -> int:
    """The extent that two equal ones have, as far as one of them tells."""
    return b if a == DYNAMIC_INDEX else a


def normal_axis(axis: int, rank: int) -> int:
    """An axis of a tensor, counted from its first; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise VerifyException(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def lowest(element: Attribute) -> float:
    """The number that no element is less than."""
    if isinstance(element, AnyFloat):
        return -inf
    assert isa(element, IntegerType), "tensors hold floats or integers"
    return 0 if is_unsigned(element) else -(1 << element.width.data - 1)


def highest(element: Attribute) -> float:
    """The number that no element is greater than."""
    if isinstance(element, AnyFloat):
        return inf
    assert isa(element, IntegerType), "tensors hold floats or integers"
    return (1 << element.width.data - (not is_unsigned(element))) - 1
