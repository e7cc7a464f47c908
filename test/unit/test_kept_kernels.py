"""The files of a cache folder that go from one run of the tests to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kernels import keep_new, link_kept

KERNEL, DEVICE, PLAN = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A cache folder with a kernel for each target, a plan and measured times."""
    folder = tmp_path / "used"
    files = f"{KERNEL}/kernel.o", f"{DEVICE}/kernel.cubins", f"{PLAN}/plan.zip"
    for name in (*files, f"{KERNEL}/kernel.py", "kernels.db"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def test_machine_code_alone_is_kept(used: Path, kept: Path) -> None:
    keep_new(used, kept)
    files = {path.relative_to(kept) for path in kept.rglob("*") if path.is_file()}
    wanted = {Path(KERNEL, "kernel.o"), Path(DEVICE, "kernel.cubins")}
    assert files == wanted
    assert (kept / KERNEL / "kernel.o").read_text() == f"{KERNEL}/kernel.o"


def test_another_run_finds_what_was_kept(
    used: Path, kept: Path, tmp_path: Path
) -> None:
    keep_new(used, kept)
    cache = tmp_path / "cache"
    cache.mkdir()
    link_kept(cache, kept)
    link_kept(cache, kept)
    assert (cache / KERNEL / "kernel.o").read_text() == f"{KERNEL}/kernel.o"


def test_an_entry_that_is_there_stays(used: Path, kept: Path) -> None:
    (kept / KERNEL).mkdir()
    (kept / KERNEL / "kernel.o").write_text("former")
    keep_new(used, kept)
    link_kept(used, kept)
    assert (kept / KERNEL / "kernel.o").read_text() == "former"
    assert (used / KERNEL / "kernel.o").read_text() == f"{KERNEL}/kernel.o"
    assert {path.name for path in kept.iterdir()} == {KERNEL, DEVICE}
