"""Extents and windows by the million: what is known of them is counted, not listed."""

from __future__ import annotations

import random

import pytest
from draws import fresh_seed
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.windows import Window, outside
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

WIDTH = 1 << 28
IMAGE = f"tensor<1x3x4x{WIDTH}xf32>"
OPS = {
    "max pool": "op.max_pool2d %x kernel [3, 3] strides [1, 1] pads [1, 1, 1, 1] "
    f": {IMAGE} -> {IMAGE}",
    "average pool": "op.average_pool2d %x kernel [3, 3] strides [1, 1] "
    f"pads [1, 1, 1, 1] : {IMAGE} -> {IMAGE}",
    "convolution": "op.conv2d %x, %w strides [1, 1] pads [1, 1, 1, 1] "
    f": {IMAGE}, tensor<3x3x3x3xf32> -> {IMAGE}",
    "depthwise convolution": "op.conv2d %x, %d strides [1, 1] pads [1, 1, 1, 1] "
    f"groups 3 : {IMAGE}, tensor<3x1x3x3xf32> -> {IMAGE}",
    "softmax": f"op.softmax %x : {IMAGE} -> {IMAGE}",
    "sum": f"op.reduce_sum %x axes [3] : {IMAGE} -> tensor<1x3x4xf32>",
}


@pytest.mark.parametrize("op", OPS)
def test_ops_on_wide_images_go_through_the_pipeline(op: str) -> None:
    compiler, passes = installed_compiler()
    text = f"""
    job.job @net placement <cpu, [0:0]> {{
      %x = job.input "x" : {IMAGE}
      %w = job.variable "w" init <zeros> : tensor<3x3x3x3xf32>
      %d = job.variable "d" init <zeros> : tensor<3x1x3x3xf32>
      %y = {OPS[op]}
      job.output "y", %y : {OPS[op].rpartition(" -> ")[2]}
    }}
    """
    module = compiler.parse(text.encode(), "job.mlir")
    run_pipeline(compiler, passes, module, pipeline(PipelineOptions("cpu")))
    assert "launch.program" in str(module)


def test_taps_and_windows_are_counted_as_they_are_listed() -> None:
    rng, count = random.Random(fresh_seed()), 0
    while count < 2000:
        pads = rng.randint(0, 5), rng.randint(0, 5)
        steps = rng.randint(1, 3), rng.random() < 0.3
        window = Window(rng.randint(1, 7), rng.randint(1, 4), *pads, *steps)
        extent = rng.randint(1, 20)
        try:
            windows = window.count(extent)
        except VerifyException:
            continue
        count += 1
        assert window.count_taps(extent) == sum(window.taps_inside(extent))
        whole = window.whole(extent)
        others = [n for n in range(windows) if n not in whole]
        assert outside(whole, windows) == others
        assert window.kinds(extent) == sorted([*whole[:1], *others])


def test_taps_of_large_windows_on_large_extents_are_counted() -> None:
    taps, extent, pad = 10**12, 3 * 10**12, 10**6
    window = Window(taps, 1, pad, pad)
    # At each end, window number w < pad has pad - w taps outside.
    outside_taps = 2 * (pad * (pad + 1) // 2)
    expected = window.count(extent) * taps - outside_taps
    assert window.count_taps(extent) == expected
    apart = Window(taps, 2, 2 * pad, 2 * pad, 2)
    assert apart.count_taps(2 * extent - 1) == expected
