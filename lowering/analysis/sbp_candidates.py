"""SBP signatures that an op on several devices may have, the preferred one first."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from penstock.dialects.job import Entry, InputOp, StateOp, VariableOp
from penstock.dialects.op.sbp import BROADCAST, SbpSignature, signature, split
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import tensor_type


def candidates_for(op: Operation, devices: int) -> list[SbpSignature]:
    """The signatures of an op on so many devices, the first one liked best."""
    match op:
        case InputOp():
            return source_signatures(op.result, [split(0), BROADCAST])
        case StateOp() | VariableOp():
            return source_signatures(op.result, [BROADCAST, split(0)])
        case TensorOp():
            whole = signature([None] * len(op.operands), [None] * len(op.results))
            return [*op.sbp_signatures(devices), whole]
        case _:
            return []


def source_signatures(value: SSAValue, first: Sequence[Entry]) -> list[SbpSignature]:
    """The signatures of what has no operands: these entries, then the other axes."""
    others = map(split, range(1, tensor_type(value).get_num_dims()))
    return [SbpSignature((), (entry,)) for entry in (*first, *others)]
