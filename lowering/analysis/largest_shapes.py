"""
The largest shapes that the values of a job may have.

An input says its own in the attribute `max_shape`, a list of i64. Those of all other
values are what ops infer from the largest shapes of their operands. An op that infers
none is refused, and so is one that makes more of a smaller operand: what it makes is
compared with what it makes of operands whose unknown extents are 0, 1, 4, 16..., and as
much below the largest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    JobOp,
    OutputOp,
    VariableOp,
)
from penstock.dialects.op.sbp import devices_of
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.regst import DataType
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.op_devices import JobDevices
from penstock.lowering.analysis.register_types import MAX_SHAPE, extents_of
from penstock.lowering.analysis.shape_refinement import is_static, refine_block

POWERS = [1 << exponent for exponent in range(0, 63, 2)]


@dataclass
class JobMaxima:
    """The largest shapes of the values of a job whose extents are not all known."""

    job: JobOp
    shapes: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        """Find the largest shapes; what keeps that from being done."""
        found = list(declared_findings(self.job))
        yield from found
        ops = list(self.job.body.block.ops)
        if found or all(is_static(x.type) for op in ops for x in op.results):
            return
        clone = self.job.clone()
        numbers = {op: i for i, op in enumerate(clone.body.block.ops)}
        for op in numbers:
            if isinstance(op, InputOp | ForeignInputOp):
                set_largest(op)
        if found := list(refine_block(clone.body.block)):
            for op, message in found:
                index = numbers[member_of(op, numbers)]
                yield ops[index], f"with the largest shapes, {message}"
            return
        for op, largest in zip(ops, numbers, strict=True):
            yield from self._note(op, largest)

    def _note(self, op: Operation, largest: Operation) -> Iterator[Finding]:
        """Note the largest shapes of the results of an op, which a clone of it has."""
        for value, other in zip(op.results, largest.results, strict=True):
            type = tensor_type(other)
            if is_static(value.type):
                continue
            if not is_static(type):
                yield op, f"{op.name} does not say how large {value.type} may become"
                return
            self.shapes[value] = type.get_shape()
        if (smaller := more_of_less(op, largest)) is not None:
            yield (
                op,
                f"{op.name} may make more of less: {smaller} of smaller operands, "
                f"{largest.results[0].type} of the largest",
            )

    def attributes_of(self, op: Operation) -> dict[str, Attribute]:
        """The attributes of an op's task about the largest shapes of its results."""
        shapes = [self.shapes[value] for value in op.results if value in self.shapes]
        if not shapes:
            return {}
        each = [DenseArrayBase.from_list(i64, shape) for shape in shapes]
        return {MAX_SHAPE: each[0] if len(each) == 1 else ArrayAttr(each)}


def member_of(op: Operation, among: Collection[Operation]) -> Operation:
    """The op, or the one around it, that is among others."""
    while op not in among and (parent := op.parent_op()) is not None:
        op = parent
    return op


def declared_findings(job: JobOp) -> Iterator[Finding]:
    """
    The findings about the largest shapes that ops of a job declare, or fail to declare.
    """
    devices = JobDevices(job)
    for op in job.body.block.ops:
        is_input = isinstance(op, InputOp | ForeignInputOp)
        if not is_input and MAX_SHAPE in op.attributes:
            yield op, f"{MAX_SHAPE} is for inputs, the rest follows from them"
        values = (*op.operands, *op.results)
        if MAX_SHAPE not in op.attributes and all(is_static(x.type) for x in values):
            continue
        places = (devices.of(op), devices.used_on(op))
        if any(len(devices_of(place)) > 1 for place in places):
            yield op, f"{op.name} has unknown extents, and runs on several devices"
        elif is_input:
            yield from input_findings(op)
        elif begins(op):
            yield op, f"{name_in_job(op)} has unknown extents: {op.results[0].type}"


def begins(op: Operation) -> bool:
    """Whether unknown extents begin with an op: all of what it reads is known."""
    return all(is_static(value.type) for value in op.operands) and not isinstance(
        op, OutputOp | ForeignOutputOp
    )


def input_findings(op: InputOp | ForeignInputOp) -> Iterator[Finding]:
    """The findings about the largest shape of an input."""
    type = tensor_type(op.result)
    if (given := op.attributes.get(MAX_SHAPE)) is None:
        yield (
            op,
            f"{name_in_job(op)} has unknown extents and no {MAX_SHAPE}: {type}",
        )
        return
    extents = extents_of(given)
    try:
        if extents is None:
            raise VerifyException(f"{MAX_SHAPE} must be a list of i64, got {given}")
        DataType(type, extents)
    except VerifyException as error:
        yield op, str(error)


def name_in_job(op: Operation) -> str:
    """The name of an op in messages, such as `input 'x'`."""
    match op:
        case InputOp() | VariableOp():
            return f"{op.name.removeprefix('job.')} '{op.port.data}'"
        case ForeignInputOp():
            return f"buffer '{op.buffer.data}'"
        case _:
            return f"a result of {op.name}"


def set_largest(op: InputOp | ForeignInputOp) -> None:
    """Give an input the type that it has at most."""
    type = tensor_type(op.result)
    given = op.attributes.get(MAX_SHAPE)
    if given is not None and (extents := extents_of(given)) is not None:
        largest = TensorType(type.element_type, extents)
        Rewriter.replace_value_with_new_type(op.result, largest)


################################################################################
# More of less                                                                 #
################################################################################


def more_of_less(op: Operation, largest: Operation) -> TensorType | None:
    """
    A type of a result that is larger in some extent than that of the largest operands,
    if there is one. Elementwise ops, also in regions, make no more of less.
    """
    if not isinstance(largest, TensorOp) or isinstance(op, ElementwiseOp) or op.regions:
        return None
    open_types = [tensor_type(value) for value in op.operands]
    types = [tensor_type(value) for value in largest.operands]
    if all(map(is_static, open_types)) or all(is_static(x.type) for x in op.results):
        return None
    ends = [tensor_type(value).get_shape() for value in largest.results]
    probe = largest.clone()
    for most in smaller_extents(open_types, types):
        made = inferred_from(probe, map(capped, open_types, types, [most] * len(types)))
        for type, end in zip(made, ends, strict=False):
            if any(x > y for x, y in zip(type.get_shape(), end, strict=True)):
                return type
    return None


def smaller_extents(
    open_types: Sequence[TensorType], types: Sequence[TensorType]
) -> list[int]:
    """
    Candidates for unknown extents of operands smaller than the largest, in ascending
    order.
    """
    pairs = chain.from_iterable(
        zip(a.get_shape(), b.get_shape(), strict=True)
        for a, b in zip(open_types, types, strict=True)
    )
    top = max(end for extent, end in pairs if extent == DYNAMIC_INDEX)
    powers = list(takewhile(lambda power: power < top, POWERS))
    return sorted({0, *powers, *(top - power for power in powers)})


def capped(open_type: TensorType, type: TensorType, most: int) -> TensorType:
    """A type in which what is unknown in the one is as in the other, up to a number."""
    shape = [
        min(end, most) if extent == DYNAMIC_INDEX else end
        for extent, end in zip(open_type.get_shape(), type.get_shape(), strict=True)
    ]
    return TensorType(type.element_type, shape)


def inferred_from(probe: TensorOp, types: Iterator[TensorType]) -> Sequence[TensorType]:
    """The types that an op makes of such operands; none if it does not take them."""
    probe.operands = Block(arg_types=list(types)).args
    try:
        return probe.infer_types()
    except VerifyException:
        return ()
