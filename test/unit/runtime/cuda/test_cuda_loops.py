"""Loops and conditions of actors on CUDA devices, which the host drives."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.cuda.simulator import SIMULATOR, gpu_count

HELPERS = Path(__file__).parents[3] / "helpers"
SIMULATED = {
    **os.environ,
    **({} if gpu_count() else {SIMULATOR: "1"}),
    "PYTHONPATH": os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")]),
}

SCRIPT = '''
import numpy as np
from loaded_programs import load_program
from loop_programs import KERNELS, checked
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.executor import Executor
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.loading import open_devices

V, N = "memref<2xf64>", "memref<i64>"
IN = {"xs": "memref<4x2xf64>", "h0": V, "n": N, "e": N, "one": N}
OUT = {"ys": "memref<4x2xf64>", "h": V, "i": N, "m": N, "r": N}
OWN = {"b": "memref<64xi8>"}

def both(names, chunk, end):
    at = 0
    for name, type in names.items():
        yield f"launch.register @{name}{end} in @{chunk} at {at} slots 2 : {type}"
        at += 1024

def listed(names, end=""):
    return ", ".join(f"@{name}{end}" for name in names)

def actor(name, device, reads, writes, body, says=""):
    return (f"launch.actor @{name} on <0, {device}:0> stream 0 {says}reads [{reads}] "
        f"writes [{writes}] {{ {body} }}")

BODY = f"""
  launch.copy @h0_d to @h_d
  launch.loop 4 backward {{
    launch.subview @x of @xs_d at 0 step 16 : {V}
    launch.subview @y of @ys_d at 0 step 16 : {V}
    launch.carry @p to @q in [@h_d at 0, @b_d at 0] : {V}
    launch.call @step [@x, @p, @q]
    launch.copy @q to @y
  }}
  launch.subview @t of @b_d at 16 : memref<i1>
  launch.call @add [@n_d, @one_d, @i_d]
  launch.call @less [@i_d, @e_d, @t]
  launch.loop up to 9 while @c made @m_d {{
    launch.carry @j to @k in [@i_d at 0, @b_d at 32] : {N}
    launch.carry @c to @d in [@b_d at 16, @b_d at 48] : memref<i1>
    launch.call @add [@j, @one_d, @k]
    launch.call @less [@k, @e_d, @d]
  }}
  launch.copy @one_d to @r_d
  launch.loop up to 9 count @n_d {{
    launch.subview @s of @b_d at 0 : {N}
    launch.number @s
    launch.call @add_over [@s, @r_d]
  }}
"""
lines = [
    "launch.chunk @host on <0, host> size 16384",
    "launch.chunk @device on <0, device cuda:0> size 16384",
    *both({**IN, **OUT}, "host", ""),
    *both({**IN, **OUT, **OWN}, "device", "_d"),
    *(actor(f"{x}_in", "cpu", "", f"@{x}", f'launch.feed "{x}" to @{x}') for x in IN),
    actor("up", "cuda", listed(IN), listed(IN, "_d"),
        "\\n".join(f"launch.copy @{x} to @{x}_d" for x in IN)),
    actor("a", "cuda", listed(IN, "_d"), listed({**OUT, **OWN}, "_d"), BODY,
        "can_fail "),
    actor("down", "cuda", listed(OUT, "_d"), listed(OUT),
        "\\n".join(f"launch.copy @{x}_d to @{x}" for x in OUT)),
    *(actor(f"{x}_out", "cpu", f"@{x}", "", f'launch.fetch "{x}" from @{x}')
        for x in OUT),
]
op = checked(KERNELS.replace('"cpu"', '"cuda"') + "\\n".join(lines))
sources = kernel_sources(op, ["cuda"])
loaded = load_program(op, sources, devices=open_devices(["cuda"]))

def number(value):
    return np.array(value, np.int64)

rng = np.random.default_rng()
with Executor(loaded) as executor:
    for n, e in ((0, 0), (3, 7), (3, 8), (9, 2)):
        xs, h = rng.random((4, 2)), rng.random(2)
        given = {"xs": xs, "h0": h, "n": number(n), "e": number(e), "one": number(1)}
        found = executor.run(given)
        rows = []
        for x in xs[::-1]:
            h = 0.5 * h + x
            rows.append(h)
        np.testing.assert_allclose(found["ys"], rows[::-1], rtol=1e-15)
        np.testing.assert_allclose(found["h"], rows[-1], rtol=1e-15)
        assert found["i"] == max(n + 1, e), (found["i"], n, e)
        assert found["m"] == max(0, e - n - 1), (found["m"], n, e)
        assert found["r"] == 1 + sum(range(n)), (found["r"], n)
    try:
        executor.run({**given, "n": number(10)})
    except TaskError as error:
        assert error.reason.endswith("a loop of at most 9 iterations was to make 10")
    else:
        raise AssertionError("the count is too large")
'''


@pytest.mark.slow
def test_loops_run_on_the_simulated_device():
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=SIMULATED,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr


JOB = """
job.job @nested placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %h0 = job.input "h" : tensor<4xf32>
  %xs = job.input "xs" : tensor<10x4xf32>
  %yes = op.constant dense<true> : tensor<i1>
  %c, %h, %ys, %made = op.loop up to 10 count(%n) while(%yes)
      carries(%h0 : tensor<4xf32>) slices(%xs : tensor<10x4xf32>) made
      -> tensor<i1>, tensor<4xf32>, tensor<10x4xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %going: tensor<i1>, %g: tensor<4xf32>, %x: tensor<4xf32>):
    %s = op.add %g, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %most = op.reduce_max %s axes [0] : tensor<4xf32> -> tensor<f32>
    %zero = op.constant dense<0.0> : tensor<f32>
    %any = op.greater %most, %zero : tensor<f32>, tensor<f32> -> tensor<i1>
    %y = op.if %any reads(%s : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %t = op.loop 3 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%j: tensor<i64>, %e: tensor<4xf32>):
        %u = op.tanh %e : tensor<4xf32> -> tensor<4xf32>
        op.yield %u : tensor<4xf32>
      }
      op.yield %t : tensor<4xf32>
    } else {
    ^bb0(%b: tensor<4xf32>):
      op.yield %b : tensor<4xf32>
    }
    op.yield %going, %y, %s : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  job.output "h", %h : tensor<4xf32>
  job.output "ys", %ys : tensor<10x4xf32>
  job.output "made", %made : tensor<i64>
}
"""


@pytest.mark.slow
def test_loops_of_a_job_run_on_the_simulated_device(tmp_path: Path):
    (tmp_path / "job.mlir").write_text(JOB, encoding="utf-8")
    random = np.random.default_rng()
    count = np.asarray(random.integers(1, 11))
    state = random.standard_normal(4).astype(np.float32)
    slices = random.standard_normal((10, 4)).astype(np.float32)
    np.savez(tmp_path / "given.npz", n=count, h=state, xs=slices)
    # Both branches of so little work would be computed, and one selected.
    options = ["--skip", "op-select-branches", "--device", "cuda", "--check", "numpy"]
    command = [sys.executable, "-m", "penstock.tools.cli.run", "job.mlir"]
    process = subprocess.run(
        [*command, *options, "--inputs", "given.npz"],
        env=SIMULATED,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, f"{count} {state}\n{slices}\n{process.stderr}"
