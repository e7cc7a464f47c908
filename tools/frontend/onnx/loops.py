"""The builder of `op.loop` from values of a graph, for layers, scans and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import YieldOp, isolate, values_outside
from penstock.dialects.op.loop import INDEX, LoopOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.graph import JobBuilder
from penstock.tools.frontend.onnx.ops import Value


class Iteration(NamedTuple):
    """The values that the body of a loop is given."""

    number: SSAValue
    state: list[Value]
    slices: list[Value]


class Made(NamedTuple):
    """
    The values of an iteration, those that it carries on and others that are stacked; or
    of a loop, its last state and what it has stacked.
    """

    state: Sequence[Value]
    rows: Sequence[Value]


Body: TypeAlias = Callable[[Iteration], Made]


def add_loop(
    builder: JobBuilder,
    count: int,
    state: Sequence[Value],
    slices: Sequence[Value],
    body: Body,
    *,
    backward: bool = False,
) -> Made:
    """
    Add a loop of `count` iterations, whose body is read once; the last state, and what
    its iterations have stacked along a new first axis. Raises `VerifyException` where
    an iteration changes the type of its state.
    """
    carries, taken = ([*map(builder.as_tensor, each)] for each in (state, slices))
    with builder.body() as block:

        def argument(type: TensorType) -> SSAValue:
            return block.insert_arg(type, len(block.args))

        given = Iteration(
            argument(INDEX),
            [argument(tensor_type(value)) for value in carries],
            [argument(_slice_type(value)) for value in taken],
        )
        made = body(given)
        block.add_op(YieldOp(*map(builder.as_tensor, (*made.state, *made.rows))))
    reads = values_outside([block])
    isolate(block, reads)
    op = LoopOp(count, carries, taken, reads, Region(block), backward=backward)
    try:
        op.infer_types()
    except VerifyException:
        op.erase()
        raise
    results = builder.insert(op)
    return Made(results[: len(carries)], results[len(carries) :])


def _slice_type(value: SSAValue) -> TensorType:
    type = tensor_type(value)
    return TensorType(type.element_type, type.get_shape()[1:])
