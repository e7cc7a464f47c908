"""Refinement of open extents: each result takes what its op infers of its operands."""

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import AfterOp, CopyOp, Job
from penstock.dialects.op import YieldOp
from penstock.dialects.op.body import BodyOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import known
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.tensors import are_compatible, tensor_type

JOB_OPS = frozenset(op.name for op in Job.operations)


def met(declared: TensorType, inferred: TensorType) -> TensorType:
    """The type with the extents that one of two compatible types knows."""
    shape = map(known, declared.get_shape(), inferred.get_shape())
    return TensorType(declared.element_type, list(shape), declared.encoding)


def refine(value: SSAValue, inferred: TensorType) -> bool:
    """Give a value the more precise type; False if the types contradict each other."""
    if not are_compatible(value.type, inferred):
        return False
    type = met(tensor_type(value), inferred)
    if type != value.type:
        Rewriter.replace_value_with_new_type(value, type)
    return True


def refine_block(block: Block) -> Iterator[Finding]:
    """Refine the types of a block in order, and yield each op that does not fit."""
    for op in block.ops:
        if isinstance(op, TensorOp):
            yield from refine_tensor_op(op)
        elif isinstance(op, CopyOp):
            refine(op.result, tensor_type(op.source))
        elif isinstance(op, AfterOp):
            refine(op.result, tensor_type(op.value))
        elif isinstance(op, YieldOp) or op.name in JOB_OPS:
            continue
        elif not all(is_static(result.type) for result in op.results):
            yield op, f"op {op.name} has no shape inference"


def is_static(type: Attribute) -> bool:
    """Whether a type leaves no extent open."""
    return not isa(type, TensorType) or type.has_static_shape()


def refine_bodies(op: BodyOp) -> Iterator[Finding]:
    """Refine what lies in an op by its operands, and yield what does not fit."""
    types = op.argument_types()
    for region in op.regions:
        for arg, type in zip(region.block.args, types, strict=False):
            refine(arg, type)
        yield from refine_block(region.block)


def refine_tensor_op(op: TensorOp) -> Iterator[Finding]:
    """Refine the results of an op, and yield what does not fit."""
    try:
        if isinstance(op, BodyOp):
            yield from refine_bodies(op)
        inferred = op.infer_types()
    except VerifyException as error:
        yield op, str(error)
        return
    for result, type in zip(op.results, inferred, strict=True):
        if not refine(result, type):
            yield op, f"the result's type should be {type}, got {result.type}"
