"""Gradients of loops, conditions, groups and waves, in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from central_differences import check_gradients, gradient_job, outputs_of
from draws import fresh
from xdsl.context import Context
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.op import (
    FusedOp,
    IfOp,
    LoopOp,
    MatmulOp,
    WaveOp,
    YieldOp,
    YieldWaveOp,
)
from penstock.dialects.op.body import yield_of
from penstock.dialects.op.loop import INDEX
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering import pass_of


def lstm(o: OpBuilder, ins: Sequence[SSAValue], form: str) -> list[SSAValue]:
    """
    The states of an LSTM after all steps, and the outputs of each. Of a form with
    `count` or `while` the last operand is the number of steps, which a condition
    compares with that of the next one.
    """
    h0, c0, xs, w, u, *steps = ins
    x = o.pick(xs, 0, 0)
    going = [o.equal(n, n) for n in steps if "while" in form]
    block = Block(
        arg_types=[INDEX, *(v.type for v in (*going, h0, c0, x, w, u, *steps))]
    )
    inner = OpBuilder(block.add_op)
    number, *args = block.args
    h, c, x, v, r = args[len(going) : len(args) - len(steps)]
    gates = inner.add(inner.matmul(x, v), inner.matmul(h, r))
    i, f, g, e = inner.results("op.split", gates, axis=1, sizes=[3] * 4)
    kept = inner.mul(inner.sigmoid(f), c)
    c = inner.add(kept, inner.mul(inner.sigmoid(i), inner.tanh(g)))
    h = inner.mul(inner.sigmoid(e), inner.tanh(c))
    again = [inner.greater(args[-1], inner.add(number, 1)) for _ in going]
    block.add_op(YieldOp(*again, h, c, h))
    loop = LoopOp(
        tensor_type(xs).get_shape()[0],
        [h0, c0],
        [xs],
        [w, u, *steps],
        Region(block),
        backward="backward" in form,
        trips=steps[0] if "count" in form else None,
        going=going[0] if going else None,
        made="made" in form,
    )
    o.insert(loop)
    return [*loop.outs]


LSTM = (2, 3), (2, 3), (5, 2, 2), (2, 12), (3, 12)


@pytest.mark.parametrize("form", ["", "backward"])
def test_an_lstm_of_a_loop(form: str) -> None:
    rng = fresh()
    operands = [rng.normal(size=shape) for shape in LSTM]
    check_gradients(lambda o, ins: lstm(o, ins, form), operands)


@pytest.mark.parametrize(
    "form", ["count", "count backward", "while", "count while made"]
)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_loop_whose_count_is_known_when_it_runs(form: str, rows: int) -> None:
    """
    Slices beyond the count are not read, be they NaN. Gradients of matrices are sums
    that are carried, and with one row products after the loop.
    """
    rng, count = fresh(), 3
    shapes = (rows, 3), (rows, 3), (5, rows, 2), (2, 12), (3, 12)
    operands = [rng.normal(size=shape) for shape in shapes]
    operands[2][count:] = np.nan
    operands.append(np.asarray(count))
    check_gradients(lambda o, ins: lstm(o, ins, form), operands)


def test_an_lstm_has_the_gradients_that_pytorch_gives() -> None:
    torch: Any = pytest.importorskip("torch")
    rng = fresh()
    operands = [rng.normal(size=shape) for shape in LSTM]
    module = gradient_job(lambda o, ins: lstm(o, ins, ""), operands, range(5))
    pass_of("job-add-gradients")().apply(Context(), module)
    inputs = {f"x{i}": x for i, x in enumerate(operands)}
    weights = [rng.normal(size=x) for x in ((2, 3), (2, 3), (5, 2, 3))]
    inputs |= {f"r{i}": x for i, x in enumerate(weights)}
    found = outputs_of(module, inputs)
    layer = torch.nn.LSTM(2, 3, bias=False, dtype=torch.float64)
    h, c, xs, w, u = (torch.tensor(x, requires_grad=True) for x in operands)
    given = {"weight_ih_l0": w.T, "weight_hh_l0": u.T}
    ys, (h_n, c_n) = torch.func.functional_call(layer, given, (xs, (h[None], c[None])))
    ends: list[Any] = [h_n[0], c_n[0], ys]
    loss: Any = 0
    for value, weight in zip(ends, weights, strict=True):
        loss = loss + (value * torch.tensor(weight)).sum()
    loss.backward()
    for i, value in enumerate((h, c, xs, w, u)):
        np.testing.assert_allclose(found[f"g{i}"], value.grad, rtol=1e-10, atol=1e-12)


def test_no_iteration_of_a_loop() -> None:
    rng = fresh()
    operands = [rng.normal(size=shape) for shape in LSTM]
    operands.append(np.asarray(0))
    check_gradients(lambda o, ins: lstm(o, ins, "count"), operands)


def test_only_values_that_gradients_need_are_stacked() -> None:
    """A sum whose gradient is itself is not."""

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
        block = Block(arg_types=[INDEX, *(value.type for value in ins)])
        inner = OpBuilder(block.add_op)
        _, a, b = block.args
        block.add_op(YieldOp(inner.tanh(a), inner.add(b, a)))
        loop = LoopOp(4, ins, [], [], Region(block))
        o.insert(loop)
        return [*loop.outs]

    rng = fresh()
    operands = [rng.normal(size=3) for _ in range(2)]
    check_gradients(build, operands)
    module = gradient_job(build, operands, range(2))
    pass_of("job-add-gradients")().apply(Context(), module)
    forward, back = (op for op in module.walk() if isinstance(op, LoopOp))
    assert (len(forward.stacks), len(back.slices)) == (1, 1)


def test_products_of_a_loop_are_not_made_again() -> None:
    """Gates are stacked, which take as much as the sum that they are parts of."""
    operands = [fresh().normal(size=shape) for shape in LSTM]
    module = gradient_job(lambda o, ins: lstm(o, ins, ""), operands, range(5))
    pass_of("job-add-gradients")().apply(Context(), module)
    forward, back = (op for op in module.walk() if isinstance(op, LoopOp))
    products = [op for op in back.members if isinstance(op, MatmulOp)]
    assert [op.transpose_b is None for op in products] == [False, False]
    made = [value.owner for value in yield_of(forward.body.block).values]
    names = sorted(op.name for op in made if isinstance(op, TensorOp))
    # Two states and an output, and four gates.
    gates = ["op.sigmoid"] * 3 + ["op.tanh"]
    assert names == sorted(["op.mul", "op.add", "op.mul", *gates])


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


@pytest.mark.parametrize(("rows", "carried"), [(1, 1), (2, 2)])
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
