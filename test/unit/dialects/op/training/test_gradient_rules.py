"""Gradients by rules of plug-ins, in jobs and in the bodies of loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from central_differences import check_gradients, gradient_job, outputs_of
from draws import fresh
from xdsl.context import Context
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.op import LoopOp, YieldOp
from penstock.dialects.op.loop import INDEX
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.gradients import Gradients, NoGradient
from penstock.lowering.job.add_gradients import JobAddGradientsPass
from penstock.plugins import PluginError, forget, register
from penstock.tools.driver.plugins import load_plugins, unload


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)
    unload()


def repeated(name: str, o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
    """An op on a carried value times a weight, three times by a loop."""
    x, w = ins
    block = Block(arg_types=[INDEX, x.type, w.type])
    inner = OpBuilder(block.add_op)
    _, carried, weight = block.args
    block.add_op(YieldOp(inner.one(name, inner.mul(carried, weight))))
    loop = LoopOp(3, [x], [], [w], Region(block))
    o.insert(loop)
    return [*loop.outs]


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_rule_is_asked_before_the_op(in_loop: bool) -> None:
    asked: list[str] = []

    def by_cosines(
        op: Operation, o: OpBuilder, grads: Sequence[SSAValue | None]
    ) -> Gradients | None:
        asked.append(op.name)
        if op.name != "op.sin" or grads[0] is None:
            return None
        return [o.mul(grads[0], o.one("op.cos", op.operands[0]))]

    register("gradient", "by-cosines")(by_cosines)

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> list[SSAValue]:
        if in_loop:
            return repeated("op.sin", o, ins)
        return [o.one("op.sin", o.mul(*ins))]

    rng = fresh()
    operands = [rng.normal(size=(2, 3)), rng.normal(size=(2, 3))]
    check_gradients(build, operands, rules=["by-cosines", "own"])
    assert "op.sin" in asked
    assert "op.mul" in asked


def test_the_example_lets_gradients_through_rounding() -> None:
    """The gradient of three times `round(x * w)` is that of three products."""
    load_plugins(["examples/plugins/gradient.py"])
    rng = fresh()
    x, w, r = (rng.normal(size=(2, 3)) * 4 for _ in range(3))
    module = gradient_job(
        lambda o, ins: repeated("op.round", o, ins), [x, w], by=[0, 1]
    )
    JobAddGradientsPass(rules=("straight-through",)).apply(Context(), module)
    found = outputs_of(module, {"x0": x, "x1": w, "r0": r})
    once = np.round(x * w)
    twice = np.round(once * w)
    np.testing.assert_allclose(found["g0"], r * w**3, rtol=1e-13)
    expected = r * (twice + w * (once + w * x))
    np.testing.assert_allclose(found["g1"], expected, rtol=1e-12, atol=1e-12)


def test_a_value_of_another_type_is_refused() -> None:
    def wrong_type(
        op: Operation, o: OpBuilder, grads: Sequence[SSAValue | None]
    ) -> Gradients:
        return [o.filled(0.5, [], like) for like in op.operands]

    register("gradient", "wrong-type")(wrong_type)
    module = gradient_job(
        lambda o, ins: [o.one("op.sin", ins[0])], [np.ones(3)], by=[0]
    )
    with pytest.raises(PluginError, match="returns a tensor<f64> as the grad"):
        JobAddGradientsPass(rules=("wrong-type",)).apply(Context(), module)


def test_a_rule_says_why_there_is_no_gradient() -> None:
    def none_of_sines(
        op: Operation, o: OpBuilder, grads: Sequence[SSAValue | None]
    ) -> Gradients | None:
        if op.name == "op.sin":
            raise NoGradient("I do not like them")
        return None

    register("gradient", "none-of-sines")(none_of_sines)
    module = gradient_job(
        lambda o, ins: [o.one("op.sin", ins[0])], [np.ones(3)], by=[0]
    )
    with pytest.raises(
        LocatedPassFailure,
        match=r"'op.sin' has no gradient: I do not like them \(gradient 'none-of-s",
    ):
        JobAddGradientsPass(rules=("none-of-sines",)).apply(Context(), module)
