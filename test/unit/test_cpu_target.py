"""The features of the processor that code is made for, in each part that asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import cpu_target
from penstock.cpu_target import LIMIT_VARIABLE, flat_features, most_vector_bytes, within

HELPERS = Path(__file__).parents[1] / "helpers"
SCRIPT = """
import re
import numpy as np
from kernel_runs import parse_kernel, result_of
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cpu.vector_width import vector_bytes_here
from penstock.lowering.codegen.target import kernel_source
from penstock.cpu_target import flat_features
from penstock.runtime.jit.c_function import assembly_of
from penstock.runtime.kernels.cpu_features import processor_here

kernel = parse_kernel('''launch.kernel @k target "cpu"
  (%a: memref<9x40xf32>, %b: memref<40x70xf32>, %o: memref<9x70xf32>) {
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : memref<9x40xf32>, memref<40x70xf32>) outs(%o : memref<9x70xf32>) {
    ^bb0(%s: f32):
      %e = math.exp %s : f32
      kernel.yield %e : f32
    }
}''')
schedule_kernel(kernel, vector_bytes_here())
names = {}
exec(compile(kernel_source(kernel), "kernel.py", "exec"), names)
code = assembly_of(names["kernel"], 3, 32)
rng = np.random.default_rng(3)
a, b = (rng.normal(size=s).astype(np.float32) for s in ((9, 40), (40, 70)))
wanted = np.exp(a.astype(np.float64) @ b)
error = np.abs(result_of(kernel, [a, b]) / wanted - 1).max()
halves = parse_kernel('''launch.kernel @h target "cpu"
  (%a: memref<50xf16>, %o: memref<50xf16>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
    ins(%a : memref<50xf16>) outs(%o : memref<50xf16>) {
    ^bb0(%s: f16, %z: f16):
      %r = arith.addf %s, %s : f16
      linalg.yield %r : f16
    }
}''')
h = rng.normal(size=50).astype(np.float16)
same = np.array_equal(result_of(halves, [h]), h + h)
print(vector_bytes_here(), processor_here().vector_bytes, error < 1e-4, same)
print(*sorted(set(re.findall("[xyz]mm", code))))
print(flat_features())
"""


def test_features_of_wider_vectors_are_left_out() -> None:
    known = dict.fromkeys(
        (
            *("sse2", "sse4.2", "bmi2", "avx", "avx2", "fma", "f16c", "avxvnni"),
            *("avx512f", "avx512vnni", "avx10.1", "amx-int8", "amx-tile"),
        ),
        True,
    ) | {"avx512fp16": False}
    assert within(known, 64) == {*known} - {"avx512fp16"}
    of_avx2 = {"sse2", "sse4.2", "bmi2", "avx", "avx2", "fma", "f16c", "avxvnni"}
    assert within(known, 32) == of_avx2
    assert within(known, 16) == {"sse2", "sse4.2", "bmi2"}


def test_a_width_that_is_none_is_told_and_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "48")
    with pytest.warns(RuntimeWarning, match="should be one of 16, 32, 64, got '48'"):
        assert most_vector_bytes() == 64


@pytest.mark.slow
@pytest.mark.skipif(
    "avx2" not in cpu_target.features(), reason="asks for code of wider vectors"
)
@pytest.mark.parametrize(
    ("width", "wider", "widest"), [(16, "+avx,", "xmm"), (32, "+avx512f", "ymm")]
)
def test_code_has_no_wider_vectors(width: int, wider: str, widest: str) -> None:
    paths = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {LIMIT_VARIABLE: str(width), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    facts, registers, names = done.stdout.splitlines()
    assert facts == f"{width} {width} True True"
    # Registers of 64 bits and fewer are named as those of vectors.
    assert registers.split()[-1] == widest
    assert wider not in names
    assert names.count(",") == flat_features().count(",")
