"""Drafts of files: what a killed process leaves is removed by the next save."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.tools.driver.drafts import draft_of, drafting
from penstock.tools.driver.files import write_whole
from penstock.tools.session.arrays import write_arrays
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.model_files import write_model_file
from penstock.tools.session.saved_plan.archive import write_archive

ARRAYS = {"w": np.arange(3)}
SAVES: dict[str, Callable[[Path], None]] = {
    "text.txt": lambda path: write_whole(str(path), "text"),
    "arrays.npz": lambda path: write_arrays(path, ARRAYS),
    "model.safetensors": lambda path: write_model_file(path, ARRAYS),
    "plan.plan": lambda path: write_archive(path, {}, {"a": [b"b"]}),
}

KILLED = """
import os, signal, sys
from pathlib import Path
from penstock.tools.driver.drafts import drafting
drafts = [drafting(Path(target)) for target in sys.argv[1:]]
for draft in drafts:
    draft.__enter__().write_text("half")
os.kill(os.getpid(), signal.SIGKILL)
"""

needs_signals = pytest.mark.skipif(
    os.name == "nt", reason="processes are not killed by signals here"
)


@needs_signals
def test_a_draft_of_a_killed_process_is_gone_after_the_next_save(
    tmp_path: Path,
) -> None:
    targets = [tmp_path / name for name in SAVES]
    command = [sys.executable, "-c", KILLED, *map(str, targets)]
    ended = subprocess.run(command, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len([*tmp_path.iterdir()]) == len(SAVES)
    for target in targets:
        SAVES[target.name](target)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(SAVES)


def test_drafts_of_others_stay(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    machine = draft_of(target).name.split(".")[-3]
    alive = tmp_path / f".a.txt.{machine}.{os.getppid()}.tmp"
    elsewhere = tmp_path / ".a.txt.0badcafe.999999999.tmp"
    other = tmp_path / f".b.txt.{machine}.999999999.tmp"
    for path in (alive, elsewhere, other):
        path.write_text("half", encoding="utf-8")
    write_whole(str(target), "text")
    assert {*tmp_path.iterdir()} == {target, alive, elsewhere, other}


def test_a_draft_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    (target := tmp_path / "a.txt").write_text("before", encoding="utf-8")

    def fail() -> None:
        with drafting(target) as draft:
            draft.write_text("half", encoding="utf-8")
            raise ValueError("midway")

    with pytest.raises(ValueError, match="midway"):
        fail()
    assert target.read_text(encoding="utf-8") == "before"
    assert [*tmp_path.iterdir()] == [target]


def test_a_half_written_checkpoint_is_gone_after_the_next_one(tmp_path: Path) -> None:
    (left := tmp_path / ".step-0000000001.tmp").mkdir()
    (left / "state.npz").write_bytes(b"half")
    saved = Checkpoints(tmp_path).save(ARRAYS, 1)
    assert [*tmp_path.iterdir()] == [saved.path]
