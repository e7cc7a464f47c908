"""
The output of the standard pipelines, of the optional passes on plans and memory, and of
those of training, which does not depend on hashes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of

ENCODER = (Path(__file__).parents[3] / "examples" / "encoder.mlir").read_text("utf-8")

RANKS = """
!t = tensor<8x4xf32>
!h = tensor<4x4xf32>
job.job @ranks placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %w = job.variable "w" init <ones> : !t
  %a = op.add %x, %w {in_place = [#op.hint<must over 0>]} : !t, !t -> !t
  %b = op.mul %a, %y {in_place = [#op.hint<may over 0>, #op.hint<may over 1>]} :
    !t, !t -> !t
  %lo = op.slice %b from [0, 0] to [4, 4] by [1, 1] : !t -> !h
  %hi = op.slice %b from [4, 0] to [8, 4] by [1, 1] : !t -> !h
  %c = op.softmax %lo {placement = #job.placement<cpu, [1:0]>} : !h -> !h
  %d = op.softmax %hi {placement = #job.placement<cpu, [2:0]>} : !h -> !h
  %e = op.softmax %hi {placement = #job.placement<cuda, [0:0]>} : !h -> !h
  %f = job.after %c, %e, %d : !h, !h, !h
  %g = op.relu %f : !h -> !h
  %s = op.softmax %b {
    placement = #job.placement<cpu, [0:0, 1:0]>, sbp = #job.sbp<S(0)>
  } : !t -> !t
  job.assign %s to %w : !t
  job.output "d", %d : !h
  job.output "e", %e : !h
  job.output "g", %g : !h
}
"""

JOBS = """
!t = tensor<?x4xf32>
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8, 4>} : !t
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %a = op.add %x, %w : !t, tensor<4xf32> -> !t
  %b = op.concat %a, %x axis 0 : !t, !t -> !t
  %s = op.reduce_sum %b axes [0] : !t -> tensor<4xf32>
  job.assign %s to %w : tensor<4xf32>
  job.output "y", %b : !t
}
job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8, 4>} : !t
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %a = op.mul %x, %w : !t, tensor<4xf32> -> !t
  job.output "v", %x : !t
  job.output "z", %a : !t
}
"""

TRAINING = """
!h = tensor<8x4x16xf32>
!w = tensor<16x16xf32>
!s = tensor<16xf32>
job.job @train placement <cpu, [0:0-1]> {
  %i = job.input "i" : tensor<8x4xi64>
  %y = job.input "y" : tensor<8x4xi64>
  %e = job.variable "e" init <xavier_uniform, seed = 1> : tensor<90x16xf32>
  %a = job.variable "a" init <xavier_uniform, seed = 2> : !w
  %b = job.variable "b" init <xavier_uniform, seed = 3> : !w
  %n = job.variable "n" init <ones> : !s
  %h = op.gather %e[%i] axis 0 : tensor<90x16xf32>, tensor<8x4xi64> -> !h
  %l = op.layer_norm %h, %n axis 2 : !h, !s -> !h
  %p = op.matmul %l, %a : !h, !w -> !h
  %t = op.gelu %p : !h -> !h
  %q = op.matmul %t, %b : !h, !w -> !h
  %r = op.add %h, %q : !h, !h -> !h
  %losses = op.softmax_cross_entropy %r[%y] axis 2
    : !h, tensor<8x4xi64> -> tensor<8x4xf32>
  %loss = op.reduce_mean %losses axes [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %ge, %ga, %gb, %gn = job.gradients of %loss by %e, %a, %b, %n
    : tensor<f32>, tensor<90x16xf32>, !w, !w, !s
  job.update %e by %ge with <sparse_adam, clip_norm = 1.0> : tensor<90x16xf32>
  job.update %a by %ga with <adamw, clip_norm = 1.0> : !w
  job.update %b by %gb with <adamw, clip_norm = 1.0> : !w
  job.update %n by %gn with <lamb> : !s
  job.output "loss", %loss : tensor<f32>
}
"""

TO_PLAN = "op-infer-shapes,job-place,job-infer-sbp,job-insert-boxing,job-clean"
TO_TASKS = "convert-job-to-plan,plan-order-updates,plan-order-tasks{in-place=true}"
TO_PLACES = "regst-alias-registers,regst-choose-slots,regst-plan-memory"

PIPELINES = {
    "ranks": (
        RANKS,
        "-p",
        f"{TO_PLAN},{TO_TASKS},"
        "plan-assign-streams{streams=3 policy=critical-path},plan-form-chains,"
        f"plan-create-registers,{TO_PLACES},plan-reduce-events,"
        "verify-plan,verify-deadlock",
    ),
    "jobs": (
        JOBS,
        "-p",
        f"job-add-push-pull,job-add-sections,verify-jobs,{TO_PLAN},{TO_TASKS},"
        "plan-assign-streams,plan-create-registers,regst-mark-interfaces,"
        f"plan-add-ticks,verify-ticks,{TO_PLACES},plan-reduce-events,"
        "plan-merge-jobs{strategy=writers},plan-link-main,verify-plan",
    ),
    "training": (
        TRAINING,
        "--pipeline",
        "cpu{amp=f16 accumulate=2 shard-states=2 recompute=min-cut threads=2}",
    ),
    "encoder": (ENCODER, "-p", text_of(pipeline(PipelineOptions("cuda", 2)))),
    "source": (ENCODER, "--pipeline", "cpu", "-t", "numba"),
}

RUN = """
import json, sys
from penstock.tools.cli.opt import run_tool

for words in json.loads(sys.argv[1]):
    assert run_tool(words) == 0, words
"""
"""A program that runs several commands."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders with the output of each pipeline under a hash seed."""
    return [write_all(tmp_path_factory.mktemp("seed"), x) for x in ("0", "1", "77")]


def write_all(folder: Path, seed: str) -> Path:
    # One process: the imports take longer than most commands.
    commands: list[list[str]] = []
    for name, (text, *words) in PIPELINES.items():
        source = folder / f"{name}.in.mlir"
        source.write_text(text, encoding="utf-8")
        # The same text is as valid each time, and half of the time goes there.
        options = "--verify-each=false", "-o", str(folder / name)
        commands.append([str(source), *words, *options])
    subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(commands)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        timeout=300,
    )
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_passes_write_the_same_under_any_hash_seed(
    name: str, folders: list[Path]
) -> None:
    (text,) = {(folder / name).read_bytes() for folder in folders}
    assert len(text) > 1000
    marks = b"regst.block", b"launch.kernel", b"def kernel("
    assert any(mark in text for mark in marks)
