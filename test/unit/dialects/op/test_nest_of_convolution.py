"""The loops of a convolution that level 1 asks for, against those of its kernel."""

from __future__ import annotations

from random import Random

import pytest
from draws import fresh_seed
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.contract import FACTORS, ContractOp
from penstock.dialects.op import Conv2dOp
from penstock.lowering.op.split_pads import insert_pad, without_pads


def convolution(random: Random) -> Conv2dOp:
    """A convolution of one group with random settings, in either layout."""
    channels, outputs = random.randint(1, 5), random.randint(2, 6)
    kernel = [random.randint(1, 3) for _ in range(2)]
    pads = [random.randint(0, 2) for _ in range(4)]
    is_last = random.random() < 0.4, random.random() < 0.4
    size = [random.randint(7, 12) for _ in range(2)]
    images = [2, *size, channels] if is_last[0] else [2, channels, *size]
    block = Block(
        arg_types=[
            TensorType(f32, images),
            TensorType(f32, [outputs, channels, *kernel]),
            TensorType(f32, [outputs]),
        ]
    )
    return Conv2dOp.of(
        *block.args,
        pads=pads,
        strides=[random.randint(1, 2) for _ in range(2)],
        dilations=[random.randint(1, 2) for _ in range(2)],
        input_last=is_last[0],
        result_last=is_last[1],
    )


@pytest.mark.parametrize("number", range(20))
def test_it_is_that_of_the_kernel(number: int) -> None:
    seed = fresh_seed()
    op = convolution(Random(seed + number))
    block = op.input.owner
    assert isinstance(block, Block)
    block.add_op(op)
    padded = without_pads(op, insert_pad(op))
    for made, has_pads in ((op, True), (padded, False)):
        (stage,) = (
            each for each in kernel_body(made).block.ops if isinstance(each, ContractOp)
        )
        wanted = stage.nest([*range(FACTORS), stage.held_at])
        assert op.nest(has_pads=has_pads) == wanted
