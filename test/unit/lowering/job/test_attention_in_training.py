"""A training step of a transformer has no matrix of scores in memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest
from training_steps import StepBuilder, linear, norm, squares
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType, f32
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.kernel import AttentionGradientOp, AttentionOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

ROWS, TOKENS, HEADS, WIDTH = 3, 80, 4, 32
"""No other extent of the model is that of tokens."""


def attention(o: StepBuilder, x: SSAValue, name: str) -> SSAValue:
    """Causal attention of several heads, as products around a softmax."""
    q, k, v = (
        o.transpose(
            o.reshape(
                linear(o, x, f"{name}.{part}", WIDTH),
                [ROWS, TOKENS, HEADS, WIDTH // HEADS],
            ),
            [0, 2, 1, 3],
        )
        for part in "qkv"
    )
    scores = o.mul(o.matmul(q, k, transpose_b=True), (WIDTH // HEADS) ** -0.5)
    ends = o.scalar(0, scores), o.scalar(-inf, scores)
    hidden = o.one("op.triangle", *ends, shape=[TOKENS, TOKENS], offset=0)
    mixed = o.matmul(o.one("op.softmax", o.add(scores, hidden)), v)
    return o.reshape(o.transpose(mixed, [0, 2, 1, 3]), [ROWS, TOKENS, WIDTH])


def step() -> ModuleOp:
    o = StepBuilder(f32)
    x = o.input("x", ROWS, TOKENS, WIDTH)
    for layer in range(2):
        mixed = attention(o, norm(o, x, f"{layer}.norm"), f"{layer}.attention")
        x = o.add(x, linear(o, mixed, f"{layer}.out", WIDTH))
    return o.step(squares(o, x))


def shapes_in(module: ModuleOp) -> Iterator[tuple[int, ...]]:
    """The shapes of all tensors and memrefs of a module."""
    for op in module.walk():
        args = (arg for region in op.regions for arg in region.block.args)
        for value in (*op.operands, *op.results, *args):
            if isa(value.type, TensorType) or isa(value.type, MemRefType):
                yield value.type.get_shape()


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_no_buffer_is_as_large_as_scores(target: str) -> None:
    module = step()
    compiler, passes = installed_compiler()
    run_pipeline(compiler, passes, module, pipeline(PipelineOptions(device=target)))
    shapes = {*shapes_in(module)}
    assert any(TOKENS in shape for shape in shapes)
    assert not [shape for shape in shapes if shape.count(TOKENS) > 1]
    ops = [*module.walk()]
    forward = [op for op in ops if isinstance(op, AttentionOp)]
    backward = [op for op in ops if isinstance(op, AttentionGradientOp)]
    assert forward
    assert backward
    assert all(op.lse is not None for op in forward)
    assert all(SCHEDULE in op.attributes for op in (*forward, *backward))
