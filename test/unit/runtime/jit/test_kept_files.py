"""
Files in the cache folder, which are used only if they are ours and as they were
written.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.jit import cache
from penstock.runtime.jit import cache_files as kept_files
from penstock.runtime.jit import cpu as jit
from penstock.runtime.jit.cache import cache_dir
from penstock.runtime.jit.cache_files import keep, keep_text, read_kept
from penstock.runtime.jit.cpu import compile_cpu, key_of

KEY = "0123456789abcdef" * 2

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32


@c_kernel
def kernel(args, part, parts):
    o = buffer_f32(args, 0, 1)
    o[0] = f32(o[0] + f32({number}))
    return 0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of an entry of a cache folder, that holds `what was kept`."""
    path = tmp_path / KEY / "kernel.o"
    assert keep(path, b"what was\nkept")
    return path


def full(*_: object) -> None:
    """Stands for what writes a file, where the disk is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


# Files --------------------------------------------------------------------------------


def test_what_was_kept_is_found(path: Path) -> None:
    assert read_kept(path) == b"what was\nkept"
    modes = [file.stat().st_mode & 0o777 for file in (path.parent, path)]
    assert modes == [0o700, 0o600]
    assert keep(path, b"")
    assert read_kept(path) == b""


def test_every_flipped_bit_counts_as_missing(path: Path) -> None:
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert read_kept(path) is None
    path.write_bytes(data[:-1])
    assert read_kept(path) is None
    path.write_bytes(b"")
    assert read_kept(path) is None


def test_a_file_under_another_name_counts_as_missing(path: Path) -> None:
    data = path.read_bytes()
    for other in (path.with_name("core.o"), path.parents[1] / KEY[::-1] / path.name):
        assert keep(other, b"")
        other.write_bytes(data)
        assert read_kept(other) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_counts_as_missing(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert read_kept(path) is None


def test_a_file_of_another_user_counts_as_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files.os, "geteuid", lambda: os.getuid() + 1)
    assert read_kept(path) is None


def test_a_folder_in_place_of_a_file_counts_as_missing(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("")
    assert read_kept(path) is None
    assert keep(path, b"again")
    assert read_kept(path) == b"again"


def test_a_file_in_place_of_a_folder_counts_as_missing(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")
    assert read_kept(path) is None
    assert keep(path, b"again")
    assert read_kept(path) == b"again"


def test_a_pipe_in_place_of_a_file_is_not_waited_for(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
    assert read_kept(path) is None
    assert keep(path, b"again")
    assert read_kept(path) == b"again"


def test_what_cannot_be_written_is_not_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "write_atomically", full)
    assert not keep(path, b"more")
    assert not keep_text(path.with_suffix(".py"), b"more")
    assert read_kept(path) == b"what was\nkept"


# Folders ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder that the environment names, which is not there yet."""
    folder = tmp_path / "deep" / "cache"
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(folder))
    return folder


def test_a_new_folder_is_for_its_user_alone(folder: Path) -> None:
    assert cache_dir() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_only_read_is_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_dir() == folder


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    text = (
        f"compiled anew in each process, as the cache folder {folder} "
        rf"can be written to by others \(its mode is {mode:03o}\)$"
    )
    with pytest.warns(RuntimeWarning, match=text):
        private = cache_dir()
    assert private != folder
    assert private.stat().st_mode & 0o777 == 0o700
    assert not any(folder.iterdir())


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(kept_files.os, "geteuid", lambda: os.getuid() + 1)
        text = f"{folder} belongs to another user, of id {os.getuid()}$"
        with pytest.warns(RuntimeWarning, match=text):
            assert cache_dir() != folder


# Kernels ------------------------------------------------------------------------------


def loaded(number: int) -> tuple[float, bool]:
    """The result of a kernel for 1, in place of a new process; whether it was kept."""
    jit._compiled.clear()  # pyright: ignore[reportPrivateUsage]
    kernel = compile_cpu(SOURCE.format(number=number), "k")
    out = np.ones(1, np.float32)
    row = np.array([out.ctypes.data], np.int64)
    assert kernel(row.ctypes.data) == 0
    return float(out[0]), kernel.from_cache


def file_of(number: int) -> Path:
    return cache.cache_dir() / key_of(SOURCE.format(number=number)) / "kernel.o"


def test_a_damaged_kernel_is_compiled_again(
    folder: Path, flip_a_bit: Callable[[Path], None]
) -> None:
    assert loaded(2) == (3, False)
    assert loaded(2) == (3, True)
    flip_a_bit(file_of(2))
    assert loaded(2) == (3, False)
    assert loaded(2) == (3, True)


def test_a_kernel_that_another_user_wrote_is_compiled_again(folder: Path) -> None:
    assert loaded(3) == (4, False)
    file_of(3).chmod(0o666)
    assert loaded(3) == (4, False)
    assert loaded(3) == (4, True)


def test_kernels_are_compiled_on_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "write_atomically", full)
    assert loaded(4) == (5, False)
    assert loaded(4) == (5, False)


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from penstock.tools.cli.entry import run
run()
"""
"""A command that cannot make a file of more than 1000 bytes."""


@pytest.mark.slow
def test_a_command_runs_where_no_file_can_be_written_whole(cold_cache: Path) -> None:
    digits = Path(__file__).parents[4] / "examples" / "digits.mlir"
    words = [sys.executable, "-P", "-c", LIMITED, str(digits), "--random-inputs", "1"]
    done = subprocess.run(
        [*words, "--check", "numpy"],
        env={**os.environ, "PENSTOCK_CACHE_DIR": str(cold_cache)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not [*cold_cache.glob("*/kernel.o")]
