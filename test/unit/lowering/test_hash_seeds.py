"""
The output of the optional passes on plans and memory, which does not depend on hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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

TO_PLAN = "op-infer-shapes,job-place,job-infer-sbp,job-insert-boxing,job-clean"
TO_TASKS = "convert-job-to-plan,plan-order-updates,plan-order-tasks{in-place=true}"
TO_PLACES = "regst-alias-registers,regst-choose-slots,regst-plan-memory"

PIPELINES = {
    "ranks": (
        RANKS,
        f"{TO_PLAN},{TO_TASKS},"
        "plan-assign-streams{streams=3 policy=critical-path},plan-form-chains,"
        f"plan-create-registers,{TO_PLACES},plan-reduce-events,"
        "verify-plan,verify-deadlock",
    ),
    "jobs": (
        JOBS,
        f"job-add-push-pull,job-add-sections,verify-jobs,{TO_PLAN},{TO_TASKS},"
        "plan-assign-streams,plan-create-registers,regst-mark-interfaces,"
        f"plan-add-ticks,verify-ticks,{TO_PLACES},plan-reduce-events,"
        "plan-merge-jobs{strategy=writers},plan-link-main,verify-plan",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_passes_write_the_same_under_any_hash_seed(name: str, tmp_path: Path):
    text, passes = PIPELINES[name]
    source = tmp_path / "jobs.mlir"
    source.write_text(text)
    command = [
        sys.executable,
        "-m",
        "penstock.tools.cli.opt",
        str(source),
        "-p",
        passes,
    ]
    written = {
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            stdout=subprocess.PIPE,
            timeout=300,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(written) == 1
    assert b"regst.block" in written.pop()
