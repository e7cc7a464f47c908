"""The memory that the process of each rank takes, beside what its plan says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from forked_tool import ForkedCommands

MIB = 1 << 20

JOB = """
!w = tensor<4096x16384xf32>

job.job @large placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x4096xf32>
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [1:0]>} : !w
  %m = op.matmul %x, %w {placement = #job.placement<cpu, [1:0]>}
    : tensor<1x4096xf32>, !w -> tensor<1x16384xf32>
  %y = op.reduce_sum %m axes [0, 1] {placement = #job.placement<cpu, [1:0]>}
    : tensor<1x16384xf32> -> tensor<f32>
  job.output "y", %y : tensor<f32>
}
"""
"""Rank 1 has a variable of 256 MiB."""

RANK = """
import sys
from pathlib import Path
from penstock.runtime.transport.join import join
from penstock.tools.cli.run import run_tool
from penstock.tools.session.session import Session

run = Session.run

def run_and_tell(self, *given):
    found = run(self, *given)
    plan = sum(chunk.size for chunk in self.executable.image.chunks)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    file = Path(__file__).with_name(f"memory-{join().rank}")
    file.write_text(f"{plan} {pages * 4096}")
    return found

Session.run = run_and_tell
sys.exit(run_tool(sys.argv[1:]))
"""
"""`penstock-run`, which keeps the bytes of its plan and those that are resident."""

START = """
import sys
from penstock.tools.cli.start_ranks import start_ranks
sys.exit(start_ranks("large_rank", sys.argv[1:], 2))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what is resident")
def test_a_rank_takes_the_memory_of_its_own_plan(
    tmp_path: Path, forked: ForkedCommands
) -> None:
    (tmp_path / "large.mlir").write_text(JOB)
    (tmp_path / "large_rank.py").write_text(RANK)
    words = [str(tmp_path / "large.mlir"), "--random-inputs", "1"]
    # In the first run one of the ranks compiles the kernels, which takes memory, too.
    for _ in range(2):
        done = forked.outcome(["python", "-c", START, *words], tmp_path)
        assert done.returncode == 0, done.stderr
    found = [(tmp_path / f"memory-{rank}").read_text().split() for rank in range(2)]
    (plan, resident), (large_plan, large_resident) = [
        [int(word) for word in each] for each in found
    ]
    assert plan < MIB
    assert 256 * MIB < large_plan < 257 * MIB
    # Both have the same code; the second one has its plan beside that, once.
    more = large_resident - resident
    assert 0.9 * large_plan < more < 1.5 * large_plan
