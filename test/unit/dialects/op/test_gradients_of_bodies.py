"""Gradients of loops, conditions, groups and waves, in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from central_differences import check_gradients, gradient_job
from xdsl.context import Context
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.op import FusedOp, IfOp, LoopOp, WaveOp, YieldOp, YieldWaveOp
from penstock.dialects.op.loop import INDEX
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering import pass_of


def fresh() -> np.random.Generator:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def lstm(o: OpBuilder, ins: Sequence[SSAValue], backward: bool) -> list[SSAValue]:
    """The states of an LSTM after all steps, and the outputs of each."""
    h0, c0, xs, w, u = ins
    x = o.pick(xs, 0, 0)
    types = [INDEX, h0.type, c0.type, x.type, w.type, u.type]
    block = Block(arg_types=types)
    inner = OpBuilder(block.add_op)
    _, h, c, x, v, r = block.args
    gates = inner.add(inner.matmul(x, v), inner.matmul(h, r))
    i, f, g, e = inner.results("op.split", gates, axis=1, sizes=[3] * 4)
    kept = inner.mul(inner.sigmoid(f), c)
    c = inner.add(kept, inner.mul(inner.sigmoid(i), inner.tanh(g)))
    h = inner.mul(inner.sigmoid(e), inner.tanh(c))
    block.add_op(YieldOp(h, c, h))
    count = tensor_type(xs).get_shape()[0]
    loop = LoopOp(count, [h0, c0], [xs], [w, u], Region(block), backward=backward)
    o.insert(loop)
    return [*loop.outs]


@pytest.mark.parametrize("backward", [False, True])
def test_an_lstm_of_a_loop(backward: bool) -> None:
    rng = fresh()
    shapes = (2, 3), (2, 3), (5, 2, 2), (2, 12), (3, 12)
    operands = [rng.normal(size=shape) for shape in shapes]
    check_gradients(lambda o, ins: lstm(o, ins, backward), operands)


def layer(o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
    """
    The last state of a recurrent layer whose body multiplies by a matrix twice, adds a
    bias, and scales by a row: sums of two products, of rows, and of products by number.
    """
    h0, xs, w, bias, row = ins
    x = o.pick(xs, 0, 0)
    block = Block(arg_types=[INDEX, *(v.type for v in (h0, x, w, bias, row))])
    inner = OpBuilder(block.add_op)
    _, h, x, w_1, bias_1, row_1 = block.args
    twice = inner.matmul(inner.tanh(inner.matmul(h, w_1)), w_1)
    total = inner.one("op.gemm", h, w_1, bias_1)
    h = inner.tanh(inner.mul(inner.add(inner.add(twice, total), x), row_1))
    block.add_op(YieldOp(h))
    loop = LoopOp(4, [h0], [xs], [w, bias, row], Region(block))
    o.insert(loop)
    return [*loop.outs]


@pytest.mark.parametrize(("rows", "carried"), [(1, 1), (2, 3)])
def test_gradients_of_what_a_loop_reads_are_products_after_it(
    rows: int, carried: int
) -> None:
    """
    The state's gradient is carried; so are sums that are smaller than the factors of
    all iterations which would have to be kept.
    """
    rng = fresh()
    shapes = (rows, 3), (4, rows, 3), (3, 3), (3,), (3,)
    operands = [rng.normal(size=shape) for shape in shapes]
    check_gradients(layer, operands)
    module = gradient_job(layer, operands, range(5))
    pass_of("job-add-gradients")().apply(Context(), module)
    loops = [op for op in module.walk() if isinstance(op, LoopOp)]
    (back,) = (op for op in loops if op.backward is not None)
    assert len(back.carries) == carried


@pytest.mark.parametrize("truth", [False, True])
def test_a_condition(truth: bool) -> None:
    x = fresh().normal(size=(3, 4))

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
        regions: list[Region] = []
        for name in ("exp", "tanh"):
            block = Block(arg_types=[ins[1].type])
            result = OpBuilder(block.add_op).one(f"op.{name}", block.args[0])
            block.add_op(YieldOp(result))
            regions.append(Region(block))
        op = IfOp.create(operands=ins, result_types=[ins[1].type], regions=regions)
        o.insert(op)
        return [*op.results]

    check_gradients(build, [np.asarray(truth), x])


@pytest.mark.parametrize("is_wave", [False, True])
def test_groups(is_wave: bool) -> None:
    rng = fresh()

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
        block = Block(arg_types=[value.type for value in ins])
        inner = OpBuilder(block.add_op)
        a, b = block.args
        first = inner.exp(a)
        second = inner.tanh(b) if is_wave else inner.mul(first, b)
        if is_wave:
            block.add_op(YieldWaveOp([first, second]))
            op = WaveOp(ins, Region(block))
        else:
            block.add_op(YieldOp(first, second))
            op = FusedOp(ins, Region(block))
        o.insert(op)
        return [*op.results]

    check_gradients(build, [rng.normal(size=(3, 4)), rng.normal(size=(3, 4))])
