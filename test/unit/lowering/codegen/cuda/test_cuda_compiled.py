"""CUDA kernels compiled without a device: what becomes of each class of them."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import onnx
import pytest
from xdsl.utils.exceptions import DiagnosticException

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[5]))

from benchmarks.cubins import cubins as compiled_models
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.errors import PenstockError, how_to_install
from penstock.runtime.jit import cache_files as kept_files
from penstock.runtime.jit import cubin as cubins
from penstock.runtime.jit.cubin import CompiledStage, capability_of, compile_kernels
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.onnx.model import import_file
from penstock.tools.reports.cuda_targets import disassembled
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Model, lower, program_of

pytestmark = pytest.mark.slow

needs_compiler = pytest.mark.skipif(
    find_spec("numba_cuda") is None,
    reason="kernels for CUDA cannot be compiled: numba-cuda is not installed",
)

JOBS = {
    "fused": """
      %x = job.input "x" : tensor<64x1024xf32>
      %r = job.input "r" : tensor<64x1024xf32>
      %b = job.variable "b" init <zeros> : tensor<1024xf32>
      %s = op.add %x, %b : tensor<64x1024xf32>, tensor<1024xf32> -> tensor<64x1024xf32>
      %g = op.gelu %s : tensor<64x1024xf32> -> tensor<64x1024xf32>
      %y = op.add %g, %r
        : tensor<64x1024xf32>, tensor<64x1024xf32> -> tensor<64x1024xf32>
      job.output "y", %y : tensor<64x1024xf32>
    """,
    "half": """
      %x = job.input "x" : tensor<1000xf16>
      %r = job.input "r" : tensor<1000xf16>
      %y = op.mul %x, %r : tensor<1000xf16>, tensor<1000xf16> -> tensor<1000xf16>
      job.output "y", %y : tensor<1000xf16>
    """,
    "chosen": """
      %x = job.input "x" : tensor<16x99xf32>
      %r = job.input "r" : tensor<16x99xf32>
      %m = job.input "m" : tensor<16x99xi1>
      %y = op.where %m, %x, %r : tensor<16x99xi1>, tensor<16x99xf32>, tensor<16x99xf32>
        -> tensor<16x99xf32>
      %n = op.less %x, %r : tensor<16x99xf32>, tensor<16x99xf32> -> tensor<16x99xi1>
      job.output "n", %n : tensor<16x99xi1>
      job.output "y", %y : tensor<16x99xf32>
    """,
    "softmax": """
      %x = job.input "x" : tensor<64x512xf32>
      %y = op.softmax %x axis 1 : tensor<64x512xf32> -> tensor<64x512xf32>
      job.output "y", %y : tensor<64x512xf32>
    """,
    "long": """
      %x = job.input "x" : tensor<64x4096xf32>
      %y = op.softmax %x axis 1 : tensor<64x4096xf32> -> tensor<64x4096xf32>
      job.output "y", %y : tensor<64x4096xf32>
    """,
    "largest": """
      %x = job.input "x" : tensor<64x32768xf32>
      %y = op.softmax %x axis 1 : tensor<64x32768xf32> -> tensor<64x32768xf32>
      job.output "y", %y : tensor<64x32768xf32>
    """,
    "norm": """
      %x = job.input "x" : tensor<50x768xf32>
      %r = job.input "r" : tensor<50x768xf32>
      %g = job.variable "g" init <zeros> : tensor<768xf32>
      %b = job.variable "b" init <zeros> : tensor<768xf32>
      %s = op.add %x, %r : tensor<50x768xf32>, tensor<50x768xf32> -> tensor<50x768xf32>
      %y = op.layer_norm %s, %g, %b
        : tensor<50x768xf32>, tensor<768xf32>, tensor<768xf32> -> tensor<50x768xf32>
      job.output "y", %y : tensor<50x768xf32>
    """,
    "groups": """
      %x = job.input "x" : tensor<2x64x56x56xf32>
      %g = job.variable "g" init <ones> : tensor<64xf32>
      %y = op.group_norm %x, %g groups 32
        : tensor<2x64x56x56xf32>, tensor<64xf32> -> tensor<2x64x56x56xf32>
      job.output "y", %y : tensor<2x64x56x56xf32>
    """,
    "product": """
      %x = job.input "x" : tensor<2048x512xf32>
      %w = job.variable "w" init <zeros> : tensor<512x2048xf32>
      %b = job.variable "b" init <zeros> : tensor<2048xf32>
      %p = op.matmul %x, %w
        : tensor<2048x512xf32>, tensor<512x2048xf32> -> tensor<2048x2048xf32>
      %s = op.add %p, %b
        : tensor<2048x2048xf32>, tensor<2048xf32> -> tensor<2048x2048xf32>
      %y = op.relu %s : tensor<2048x2048xf32> -> tensor<2048x2048xf32>
      job.output "y", %y : tensor<2048x2048xf32>
    """,
    "convolution": """
      %x = job.input "x" : tensor<1x64x58x58xf32>
      %w = job.variable "w" init <zeros> : tensor<64x64x3x3xf32>
      %y = op.conv2d %x, %w
        : tensor<1x64x58x58xf32>, tensor<64x64x3x3xf32> -> tensor<1x64x56x56xf32>
      job.output "y", %y : tensor<1x64x56x56xf32>
    """,
    "vector": """
      %x = job.input "x" : tensor<1x4096xf32>
      %w = job.variable "w" init <zeros> : tensor<1000x4096xf32>
      %y = op.matmul %x, %w transpose_b
        : tensor<1x4096xf32>, tensor<1000x4096xf32> -> tensor<1x1000xf32>
      job.output "y", %y : tensor<1x1000xf32>
    """,
    "tensor": """
      %x = job.input "x" : tensor<2048x512xbf16>
      %w = job.variable "w" init <zeros> : tensor<512x2048xbf16>
      %b = job.variable "b" init <zeros> : tensor<2048xbf16>
      %p = op.matmul %x, %w
        : tensor<2048x512xbf16>, tensor<512x2048xbf16> -> tensor<2048x2048xbf16>
      %y = op.add %p, %b
        : tensor<2048x2048xbf16>, tensor<2048xbf16> -> tensor<2048x2048xbf16>
      job.output "y", %y : tensor<2048x2048xbf16>
    """,
    "finished": """
      %x = job.input "x" : tensor<2048x512xf32>
      %w = job.variable "w" init <zeros> : tensor<512x2048xf32>
      %p = op.matmul %x, %w
        : tensor<2048x512xf32>, tensor<512x2048xf32> -> tensor<2048x2048xf32>
      %y = op.gelu %p : tensor<2048x2048xf32> -> tensor<2048x2048xf32>
      job.output "y", %y : tensor<2048x2048xf32>
    """,
    "finished halves": """
      %x = job.input "x" : tensor<2048x512xbf16>
      %w = job.variable "w" init <zeros> : tensor<512x2048xbf16>
      %p = op.matmul %x, %w
        : tensor<2048x512xbf16>, tensor<512x2048xbf16> -> tensor<2048x2048xbf16>
      %y = op.gelu %p : tensor<2048x2048xbf16> -> tensor<2048x2048xbf16>
      job.output "y", %y : tensor<2048x2048xbf16>
    """,
    "windows": """
      %x = job.input "x" : tensor<1x32x18x18xf16>
      %w = job.variable "w" init <zeros> : tensor<32x32x3x3xf16>
      %y = op.conv2d %x, %w
        : tensor<1x32x18x18xf16>, tensor<32x32x3x3xf16> -> tensor<1x32x16x16xf16>
      job.output "y", %y : tensor<1x32x16x16xf16>
    """,
    "doubles": """
      %x = job.input "x" : tensor<1024x256xf64>
      %w = job.variable "w" init <zeros> : tensor<256x1024xf64>
      %y = op.matmul %x, %w
        : tensor<1024x256xf64>, tensor<256x1024xf64> -> tensor<1024x1024xf64>
      job.output "y", %y : tensor<1024x1024xf64>
    """,
    "mixed": """
      %q = job.input "q" : tensor<12x128x64xf32>
      %k = job.input "k" : tensor<12x128x64xf32>
      %v = job.input "v" : tensor<12x128x64xf32>
      %y = op.attention %q, %k, %v scale 0.125
        : tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>
        -> tensor<12x128x64xf32>
      job.output "y", %y : tensor<12x128x64xf32>
    """,
    "causal": """
      %q = job.input "q" : tensor<12x128x64xf32>
      %k = job.input "k" : tensor<12x160x64xf32>
      %v = job.input "v" : tensor<12x160x64xf32>
      %y = op.attention %q, %k, %v causal 32 scale 0.125
        : tensor<12x128x64xf32>, tensor<12x160x64xf32>, tensor<12x160x64xf32>
        -> tensor<12x128x64xf32>
      job.output "y", %y : tensor<12x128x64xf32>
    """,
    "gradients": """
      %q = job.input "q" : tensor<12x128x64xf32>
      %k = job.input "k" : tensor<12x128x64xf32>
      %v = job.input "v" : tensor<12x128x64xf32>
      %g = job.input "g" : tensor<12x128x64xf32>
      %l = job.input "l" : tensor<12x128xf32>
      %d = job.input "d" : tensor<12x128xf32>
      %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d causal 0 scale 0.125
        : tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>,
          tensor<12x128x64xf32>, tensor<12x128xf32>, tensor<12x128xf32>
        -> tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>
      job.output "x", %x : tensor<12x128x64xf32>
      job.output "y", %y : tensor<12x128x64xf32>
      job.output "z", %z : tensor<12x128x64xf32>
    """,
    "mixed small": """
      %q = job.input "q" : tensor<12x32x8xf32>
      %k = job.input "k" : tensor<12x32x8xf32>
      %v = job.input "v" : tensor<12x32x8xf32>
      %y = op.attention %q, %k, %v scale 0.125
        : tensor<12x32x8xf32>, tensor<12x32x8xf32>, tensor<12x32x8xf32>
        -> tensor<12x32x8xf32>
      job.output "y", %y : tensor<12x32x8xf32>
    """,
    "mixed halves": """
      %q = job.input "q" : tensor<12x128x64xbf16>
      %k = job.input "k" : tensor<12x128x64xbf16>
      %v = job.input "v" : tensor<12x128x64xbf16>
      %y = op.attention %q, %k, %v scale 0.125
        : tensor<12x128x64xbf16>, tensor<12x128x64xbf16>, tensor<12x128x64xbf16>
        -> tensor<12x128x64xbf16>
      job.output "y", %y : tensor<12x128x64xbf16>
    """,
    "decoded": """
      %q = job.input "q" : tensor<12x1x64xf32>
      %k = job.input "k" : tensor<12x500x64xf32>
      %v = job.input "v" : tensor<12x500x64xf32>
      %y = op.attention %q, %k, %v
        : tensor<12x1x64xf32>, tensor<12x500x64xf32>, tensor<12x500x64xf32>
        -> tensor<12x1x64xf32>
      job.output "y", %y : tensor<12x1x64xf32>
    """,
    "thin": """
      %x = job.input "x" : tensor<8x3072xf32>
      %w = job.variable "w" init <zeros> : tensor<3072x768xf32>
      %y = op.matmul %x, %w
        : tensor<8x3072xf32>, tensor<3072x768xf32> -> tensor<8x768xf32>
      job.output "y", %y : tensor<8x768xf32>
    """,
    "pool": """
      %x = job.input "x" : tensor<1x64x112x112xf32>
      %y = op.max_pool2d %x kernel [3, 3] strides [2, 2] pads [1, 1, 1, 1]
        : tensor<1x64x112x112xf32> -> tensor<1x64x56x56xf32>
      job.output "y", %y : tensor<1x64x56x56xf32>
    """,
    "depthwise": """
      %x = job.input "x" : tensor<1x64x56x56xf32>
      %w = job.variable "w" init <zeros> : tensor<64x1x3x3xf32>
      %c = job.variable "c" init <zeros> : tensor<64xf32>
      %y = op.conv2d %x, %w, %c pads [1, 1, 1, 1] groups 64
        : tensor<1x64x56x56xf32>, tensor<64x1x3x3xf32>, tensor<64xf32>
        -> tensor<1x64x56x56xf32>
      job.output "y", %y : tensor<1x64x56x56xf32>
    """,
    "mean": """
      %x = job.input "x" : tensor<1000x49xf32>
      %y = op.reduce_mean %x axes [1] : tensor<1000x49xf32> -> tensor<1000xf32>
      job.output "y", %y : tensor<1000xf32>
    """,
}


OF_BOTH = ("fused", "mixed", "mixed halves", "tensor", "pool", "depthwise")
"""The kernels that are compiled for the older architecture, too."""

WITHOUT_FALLBACKS = """
STAGES = [stage._replace(fallback=None) for stage in STAGES]
"""
"""Text behind a kernel's, so that its stages for unaligned buffers are not compiled."""

Compiled: TypeAlias = Callable[[str, str], list[CompiledStage]]


@pytest.fixture(scope="session")
def stages_of(device_kernels: Callable[[str], list[KernelOp]]) -> Compiled:
    """
    The stages of the kernels of a job that has a name, for an architecture, without
    fallbacks. All jobs are compiled at once, as a compiler takes a second to start.
    """

    @cache
    def compiled(architecture: str) -> dict[str, tuple[CompiledStage, ...]]:
        sources = {
            f"{name}.{op.sym_name.data}": kernel_source(op) + WITHOUT_FALLBACKS
            for name, body in {**JOBS, **SCALARS}.items()
            if architecture == "sm_90" or name in OF_BOTH
            for op in device_kernels(body)
        }
        return compile_kernels(sources, capability_of(architecture))

    def stages(job: str, architecture: str) -> list[CompiledStage]:
        return [
            stage
            for kernel, stages in compiled(architecture).items()
            if kernel.startswith(f"{job}.")
            for stage in stages
        ]

    return stages


def assert_lean(stage: CompiledStage) -> None:
    """Nothing of a stage is kept in local memory."""
    assert (stage.spill_stores, stage.spill_loads, stage.stack) == (0, 0, 0), stage


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_fused_elementwise_ops_move_vectors(
    stages_of: Compiled, architecture: str
) -> None:
    (stage,) = stages_of("fused", architecture)
    assert_lean(stage)
    ptx = stage.ptx
    assert f".target {architecture}\n" in ptx
    assert ptx.count("ld.global.v4.f32") == 3
    assert ptx.count("st.global.v4.f32") == 1
    assert "ld.global.f32" not in ptx
    assert ".f64" not in ptx
    assert stage.registers <= 64
    assert stage.items == 64 * 1024 / 4
    # The result lies over an operand.
    assert stage.parameters == ("u64",) * 4


@needs_compiler
def test_halves_are_moved_eight_at_once(stages_of: Compiled) -> None:
    (stage,) = stages_of("half", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("ld.global.v4") == 2
    assert ptx.count("st.global.v4") == 1
    assert "cvt.f32.f16" in ptx
    assert ".f64" not in ptx


@needs_compiler
def test_booleans_are_moved_with_the_elements_they_choose_between(
    stages_of: Compiled,
) -> None:
    stages = stages_of("chosen", "sm_90")
    texts = [stage.ptx for stage in stages]
    for stage in stages:
        assert_lean(stage)
    assert ["st.global.v4.u8" in text for text in texts] == [False, True]
    assert ["ld.global.v4.u8" in text for text in texts] == [True, False]


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("name", "loads"), [("pool", 9), ("depthwise", 9 + 9 + 1)])
def test_each_element_of_windows_has_a_thread(
    stages_of: Compiled, architecture: str, name: str, loads: int
) -> None:
    (stage,) = stages_of(name, architecture)
    assert_lean(stage)
    # Each tap is loaded once, and so is a weight for it.
    assert len(re.findall(r"ld\.global\S*\.f32", stage.ptx)) == loads
    assert stage.items == 64 * 56 * 56
    assert stage.registers <= 48


# How many vectors are read and written in a thread's turns at one row, how many threads
# and registers there are.
ROWS = {
    "softmax": (4, 4, 256, 64),
    "long": (4, 4, 256, 64),
    "norm": (24, 6, 256, 96),
}


@needs_compiler
@pytest.mark.parametrize("job", ROWS)
def test_rows_are_read_and_written_once(stages_of: Compiled, job: str) -> None:
    (stage,) = stages_of(job, "sm_90")
    loads, stores, threads, registers = ROWS[job]
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("ld.global.v4.f32") == loads
    assert ptx.count("st.global.v4.f32") == stores
    assert "ld.global.f32" not in ptx
    assert "shfl.sync.bfly.b32" in ptx
    assert ("bar.sync" in ptx) == (job == "long")
    assert ".f64" not in ptx
    assert stage.threads == threads
    assert stage.registers <= registers


@needs_compiler
def test_rows_of_two_loops_are_read_and_written_in_vectors(stages_of: Compiled) -> None:
    (stage,) = stages_of("groups", "sm_90")
    assert_lean(stage)
    assert stage.ptx.count("ld.global.v4.f32") == stage.ptx.count("st.global.v4.f32")
    assert (stage.threads, stage.registers <= 80) == (512, True)


@needs_compiler
def test_rows_that_do_not_fit_into_registers_are_read_again(
    stages_of: Compiled,
) -> None:
    (stage,) = stages_of("largest", "sm_90")
    assert_lean(stage)
    assert stage.threads == 1024
    assert stage.registers <= 64


@needs_compiler
def test_reductions_are_shared_by_a_warp(stages_of: Compiled) -> None:
    (stage,) = stages_of("mean", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("shfl.sync.bfly.b32") == 5
    assert ptx.count("ld.global.f32") == 2
    assert ".f64" not in ptx
    assert stage.items == 1000 / 8


@needs_compiler
def test_products_are_tiled_in_shared_memory_and_registers(
    stages_of: Compiled,
) -> None:
    (stage,) = stages_of("product", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("fma.rn.f32") == 8 * 8
    assert ptx.count("ld.shared.v4.f32") == 4
    assert "ld.shared.f32" not in ptx
    assert ptx.count("ld.global.v4.f32") >= 2 * 2
    assert ptx.count("st.global.v4.f32") == 2 * 8
    assert ".f64" not in ptx
    # Two blocks of 256 threads are on a processor at once.
    assert (stage.threads, stage.items) == (256, 256)
    assert stage.registers <= 128
    assert 2 * stage.shared <= 228 * 1024


@needs_compiler
def test_products_with_few_rows_are_shared_by_warps(stages_of: Compiled) -> None:
    _, stage = stages_of("vector", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("shfl.sync.bfly.b32") == 5
    assert ptx.count("ld.global.v4.f32") >= 2
    assert ".f64" not in ptx
    assert stage.items == 1000 / 8


@needs_compiler
def test_convolutions_are_products_of_windows(stages_of: Compiled) -> None:
    (stage,) = stages_of("convolution", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert "bar.sync" in ptx
    assert "ld.shared.v4.f32" in ptx
    assert "div." not in ptx
    assert "rem." not in ptx
    assert ".f64" not in ptx


def opcodes(stage: CompiledStage) -> Counter[str]:
    """
    The number of times that each instruction is in the machine code, without its
    suffixes.
    """
    text = disassembled(stage.cubin)
    found = re.findall(
        r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z0-9]+)", text, re.M
    )
    return Counter(found)


ARCHITECTURES = ("sm_80", "sm_90")


@needs_compiler
@pytest.mark.parametrize(
    ("job", "architecture"),
    [("tensor", "sm_80"), ("tensor", "sm_90"), ("windows", "sm_90")],
)
def test_floats_of_16_bits_are_multiplied_on_tensor_cores(
    stages_of: Compiled, job: str, architecture: str
) -> None:
    (stage,) = stages_of(job, architecture)
    assert_lean(stage)
    ptx, found = stage.ptx, opcodes(stage)
    assert found["HMMA"] >= 4
    assert found["LDSM"] >= 4
    assert found["LDGSTS"] >= 2
    assert found["FFMA"] == 0
    assert ".f64" not in ptx
    if job == "tensor":
        # Four matrices by four, and twice as many terms as one has.
        assert found["HMMA"] == 4 * 4 * 2
        # Four stages of 128 rows and columns; eight results are stored at once.
        assert stage.dynamic_shared == 4 * 2 * (128 * 40 + 32 * 136)
        assert ptx.count("st.global") == ptx.count("st.global.v4.u32") == 8
        assert found["STG"] == 8
        assert (stage.threads, stage.items) == (256, 256)
        # Two blocks are on a processor at once.
        assert stage.registers <= 65536 // (2 * 256)
        room = {"sm_80": 164, "sm_90": 228}[architecture]
        assert 2 * (stage.dynamic_shared + 1024) <= room * 1024


@needs_compiler
@pytest.mark.parametrize(
    ("job", "registers"), [("finished", 128), ("finished halves", 168)]
)
def test_sums_stay_in_registers_while_long_functions_finish_them(
    stages_of: Compiled, job: str, registers: int
) -> None:
    (stage,) = stages_of(job, "sm_90")
    # With room for two blocks, those on tensor cores would be spilled.
    assert_lean(stage)
    assert (stage.threads, stage.items) == (256, 256)
    assert stage.registers <= registers


@needs_compiler
@pytest.mark.parametrize(
    ("job", "architecture"),
    [*(("mixed", name) for name in ARCHITECTURES), ("causal", "sm_90")],
)
def test_attention_stays_in_registers_and_shared_memory(
    stages_of: Compiled, job: str, architecture: str
) -> None:
    (stage,) = stages_of(job, architecture)
    assert_lean(stage)
    ptx = stage.ptx
    assert "ld.global.v4.f32" in ptx
    assert "ld.shared.v4.f32" in ptx
    assert ".f64" not in ptx
    assert (stage.threads, stage.items) == (256, 12 * 2)
    assert stage.registers <= 128


@needs_compiler
def test_gradients_of_attention_stay_in_registers_and_shared_memory(
    stages_of: Compiled,
) -> None:
    queries, keys = stages_of("gradients", "sm_90")
    for stage in (queries, keys):
        assert_lean(stage)
        assert ".f64" not in stage.ptx
        # Nothing is added to memory by several blocks.
        assert "atom." not in stage.ptx
        assert "red.global" not in stage.ptx
        assert (stage.threads, stage.items) == (256, 12 * 4)
        assert stage.registers <= 128


@needs_compiler
def test_attention_of_small_heads_loads_vectors_within_its_operands(
    stages_of: Compiled,
) -> None:
    (stage,) = stages_of("mixed small", "sm_90")
    assert_lean(stage)
    # 64 pieces of queries, keys and values each are fewer than the threads.
    assert stage.ptx.count("ld.global.v4.f32") >= 3
    assert stage.threads == 256


@needs_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_attention_of_16_bits_is_computed_on_tensor_cores(
    stages_of: Compiled, architecture: str
) -> None:
    (stage,) = stages_of("mixed halves", architecture)
    assert_lean(stage)
    found = opcodes(stage)
    # 64 keys by 64 terms, and as many of values.
    assert found["HMMA"] >= 2 * 8 * 4
    assert found["LDSM"] >= 4
    assert found["LDGSTS"] >= 4
    assert found["DADD"] + found["DMUL"] + found["DFMA"] == 0


@needs_compiler
@pytest.mark.parametrize("job", ["decoded", "thin"])
def test_few_rows_are_shared_by_the_threads_of_blocks(
    stages_of: Compiled, job: str
) -> None:
    *_, stage = stages_of(job, "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert "bar.sync" in ptx
    assert ".f64" not in ptx
    assert stage.threads >= 256
    assert stage.items == {"decoded": 12, "thin": 768 / 32}[job]


@needs_compiler
def test_products_of_doubles_are_tiled(stages_of: Compiled) -> None:
    (stage,) = stages_of("doubles", "sm_90")
    assert_lean(stage)
    ptx = stage.ptx
    assert ptx.count("fma.rn.f64") % (4 * 4) == 0
    assert "ld.shared.v2.f64" in ptx
    assert "ld.global.v2.f64" in ptx
    assert stage.registers <= 128


@needs_compiler
@pytest.mark.slow
def test_kernels_of_a_model_keep_nothing_in_local_memory() -> None:
    # `benchmarks/cubins.py` compiles all models, which takes many minutes.
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    imported = import_file(light / "light_zfnet512.onnx", random_weights=1)
    model = Model(imported.module, imported.weights, Path())
    compiler, passes = installed_compiler()
    lower(compiler, passes, model, CompileOptions("cuda"))
    sources = kernel_sources(program_of(model), ("cuda",))
    compiled = compile_kernels(sources, (8, 0))
    stages = [stage for stages in compiled.values() for stage in stages]
    assert len(stages) >= len(sources) > 10
    for stage in stages:
        assert_lean(stage)
        assert ".f64" not in stage.ptx


ONE_OPERAND = {
    "f32": [
        *("absf", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil"),
        *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10"),
        *("log1p", "log2", "round", "roundeven", "rsqrt", "sin", "sinh", "sqrt"),
        *("tan", "tanh", "trunc"),
    ],
    "i32": ["absi"],
}
TWO_OPERANDS = {
    "f32": [
        *("addf", "divf", "maximumf", "maxnumf", "minimumf", "minnumf", "mulf", "subf"),
        *("llvm.frem", "math.atan2", "math.copysign", "math.powf"),
    ],
    "i32": [
        *("addi", "andi", "ceildivsi", "ceildivui", "divsi", "divui", "floordivsi"),
        *("maxsi", "maxui", "minsi", "minui", "muli", "ori", "remsi", "remui", "shli"),
        *("shrsi", "shrui", "subi", "xori"),
    ],
}


def all_scalars(type: str) -> str:
    """A kernel that stores what each op makes of the elements of its arguments."""
    lines: list[str] = []
    for dialect, names, operands in (
        ("math", ONE_OPERAND, "%x"),
        ("arith", TWO_OPERANDS, "%x, %y"),
    ):
        for name in names[type]:
            name = name if "." in name else f"{dialect}.{name}"
            lines.append(f"%r{len(lines)} = {name} {operands} : {type}")
            lines.append(f"memref.store %r{len(lines) - 1}, %o[%i] : memref<64x{type}>")
    body = "\n".join(lines)
    return f"""
    launch.kernel @k_{type} target "cuda" (
        %a: memref<64x{type}>, %b: memref<64x{type}>, %o: memref<64x{type}>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      "scf.parallel"(%c0, %c64, %c1)
        <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%i: index):
        %x = memref.load %a[%i] : memref<64x{type}>
        %y = memref.load %b[%i] : memref<64x{type}>
        {body}
        scf.reduce
      }}) : (index, index, index) -> ()
    }}"""


SCALARS = {f"all of {type}": all_scalars(type) for type in ONE_OPERAND}


@needs_compiler
@pytest.mark.parametrize("job", SCALARS)
def test_scalar_ops_have_no_more_bits_than_their_type(
    stages_of: Compiled, job: str
) -> None:
    (stage,) = stages_of(job, "sm_90")
    assert ".f64" not in stage.ptx
    assert_lean(stage)


def copying(count: int) -> str:
    """The source of a kernel that copies elements."""
    return f"""
from penstock.runtime.kernels.cuda.support import Stage, first_item


def stage_0(a, o, status):
    e = first_item()
    if e < {count}:
        o[e] = a[e]


PARAMETERS = ["float32", "float32"]
STAGES = [Stage(stage_0, {count}, 128)]
"""


@needs_compiler
def test_what_is_in_the_cache_is_not_compiled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flip_a_bit: Callable[[Path], None],
) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    sources = {f"k{n}": copying(n) for n in (3, 4, 5)}
    # A kernel without elements has nothing to compile, which is kept as well.
    sources["empty"] = "PARAMETERS = []\nSTAGES = []\n"
    done: list[str] = []
    first = compile_kernels(sources, (8, 0), processes=2, done=done.append)
    assert done == ["k3", "k4", "k5", "empty"]
    assert first["empty"] == ()
    (stage,) = first["k4"]
    assert (stage.name, stage.items, stage.threads) == ("stage_0", 4, 128)
    assert stage.parameters == ("u64", "u64", "u64")
    assert stage.cubin[:4] == b"\x7fELF"
    assert len([*tmp_path.glob("*/kernel.cubins")]) == 4

    def fail(*args: object, **options: object) -> None:
        raise PenstockError("a process was started")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", fail)
        assert compile_kernels(sources, (8, 0)) == first
    damaged, lost, *_ = tmp_path.glob("*/kernel.cubins")
    flip_a_bit(damaged)
    shutil.rmtree(lost.parent)
    lost.parent.write_text("no folder")
    assert compile_kernels(sources, (8, 0)) == first
    monkeypatch.setattr(subprocess, "Popen", fail)
    assert compile_kernels(sources, (8, 0)) == first


@needs_compiler
def test_kernels_that_cannot_be_kept_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept_files, "write_atomically", full)
    (stage,) = compile_kernels({"k": copying(8)}, (8, 0))["k"]
    assert stage.cubin[:4] == b"\x7fELF"
    assert not [*tmp_path.glob("*/kernel.cubins")]


@needs_compiler
def test_figures_of_kernels_are_told() -> None:
    section = compiled_models([("tiny", {"k": copying(3)})], ["sm_90"])
    (cells,) = section.tables[0].rows
    assert cells[:4] == ["tiny", "sm_90", "1", "1"]
    assert cells[6:8] == ["0", "0"]
    assert not section.problems


@needs_compiler
def test_machine_code_does_not_depend_on_what_was_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[bytes] = []
    for order in ((3, 4), (4, 3)):
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / f"first_{order[0]}"))
        sources = {f"k{n}": copying(n) for n in order}
        (stage,) = compile_kernels(sources, (8, 0), processes=1)["k3"]
        codes.append(stage.cubin)
    assert codes[0] == codes[1]


@needs_compiler
def test_kernels_that_do_not_compile_are_named() -> None:
    good, bad = copying(6), copying(7).replace("a[e]", "a.nothing")
    with pytest.raises(PenstockError) as caught:
        compile_kernels({"good": good, "bad": bad, "worse": "?"}, (9, 0))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("kernel @bad: TypingError: ")
    assert lines[-1].startswith("kernel @worse: SyntaxError: invalid syntax")
    assert "@good" not in str(caught.value)


def test_compiler_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> None:
        return None

    monkeypatch.setattr(cubins, "find_spec", not_found)
    with pytest.raises(PenstockError) as caught:
        compile_kernels({"kernel": "no source of any kernel"}, (9, 0))
    command = how_to_install("cuda")
    text = f"kernels for CUDA are compiled by packages: {command}"
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sm_75", "kernels need at least sm_80, got sm_75"),
        ("90", "an architecture is sm_ and a number, as sm_90, got '90'"),
        ("sm_x", "an architecture is sm_ and a number, as sm_90, got 'sm_x'"),
    ],
)
def test_architectures_are_checked(name: str, message: str) -> None:
    with pytest.raises(PenstockError) as caught:
        capability_of(name)
    assert str(caught.value) == message


def test_architectures_have_a_major_and_a_minor_number() -> None:
    assert capability_of("sm_80") == (8, 0)
    assert capability_of("sm_100") == (10, 0)


def test_disassembler_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(DiagnosticException) as caught:
        disassembled(b"any")
    expected = "there is no disassembler: pip install nvidia-cuda-nvdisasm"
    assert str(caught.value) == expected


@needs_compiler
def test_machine_code_is_disassembled(stages_of: Compiled) -> None:
    (stage,) = stages_of("fused", "sm_90")
    assert disassembled(stage.cubin).count("LDG.E.128") == 3
    with pytest.raises(DiagnosticException, match=r"^nvdisasm failed: "):
        disassembled(b"no machine code")
