"""A saved plan, and machines that have not seen it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.jit import cache
from penstock.runtime.loading.initializers import Array
from penstock.tools.session.session import Session

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %w = job.variable "w" init <he_normal, seed = 3> : tensor<8x3xf32>
  %b = job.variable "b/../b" init <normal, seed = 4> : tensor<3xf32>
  %t = op.constant dense<[[1.0, 2.0, -3.0]]> : tensor<1x3xf32>
  %m = op.matmul %x, %w : tensor<4x8xf32>, tensor<8x3xf32> -> tensor<4x3xf32>
  %s = op.add %m, %b : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>
  %p = op.mul %s, %t : tensor<4x3xf32>, tensor<1x3xf32> -> tensor<4x3xf32>
  job.output "y", %p : tensor<4x3xf32>
}
"""


@pytest.fixture(scope="session")
def job() -> str:
    """The job of the plan."""
    return JOB


@pytest.fixture(scope="session")
def piece() -> dict[str, Array]:
    """Inputs of the job."""
    random = np.random.default_rng(1)
    return {"x": random.standard_normal((4, 8)).astype(np.float32)}


@pytest.fixture(scope="session")
def saved(
    piece: dict[str, Array], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Array]]:
    """A plan, and what the session that saved it made of `piece`."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "net.mlir").write_text(JOB)
    with Session.open(folder / "net.mlir") as session:
        session.save(folder / "net.penstock")
        return folder / "net.penstock", session.run(piece)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has not seen any plan."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"
