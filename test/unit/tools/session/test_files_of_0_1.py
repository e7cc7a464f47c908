"""Files that were written before modules moved: they open, and say the same."""

import sqlite3
from pathlib import Path

import numpy as np

from penstock.lowering.kernel_times.database import KernelDatabase
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.session import Session

FILES = Path(__file__).parent / "Inputs" / "0.1"
PLAN = FILES / "shift.penstock"
"""The plan of relu(x + w), where w is a variable."""


def test_a_plan_of_0_1_runs():
    x = np.random.default_rng(5).standard_normal((2, 4), np.float32)
    with np.load(PLAN) as members:
        w = members["weights/0"]
    with Session.open(PLAN) as session:
        y = session.run({"x": x})["y"]
    np.testing.assert_array_equal(y, np.maximum(x + w, 0))


def test_a_checkpoint_of_0_1_is_taken_by_a_session():
    (last,) = Checkpoints(FILES).all()
    assert (last.step, last.note()) == (3, {"p": 3})
    with np.load(PLAN) as members:
        w = members["weights/0"]
    with Session.open(PLAN) as session:
        session.load_state({"w": np.zeros_like(w)})
        session.load_state(last.state())
        np.testing.assert_array_equal(session.state()["w"], w)


def test_a_kernel_database_of_0_1_opens(tmp_path: Path):
    path = tmp_path / "kernels.db"
    with sqlite3.connect(path) as file:
        file.executescript((FILES / "kernels.sql").read_text(encoding="utf-8"))
    file.close()
    with KernelDatabase(path) as database:
        (entry,) = database.entries()
    assert (entry.op, entry.time.median_ns) == ("task", 5.1216)
