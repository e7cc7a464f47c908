"""Compiling kernels in several processes, and a cache that stays small."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.jit import cache, child
from penstock.runtime.jit import pool as compile_pool
from penstock.runtime.jit.cache import (
    DEFAULT_LIMIT,
    LIMIT_VARIABLE,
    SPARED,
    keep_within,
    size_limit,
)
from penstock.runtime.jit.cache_files import mark_used
from penstock.runtime.jit.cpu import compile_cpu, is_kept
from penstock.runtime.jit.pool import compile_missing
from penstock.runtime.jit.worker import main

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32


@c_kernel
def kernel(args, part, parts):
    o = buffer_f32(args, 0, 1)
    o[0] = f32(o[0] + f32({number}))
    return 0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def sources(count: int, first: int = 0) -> dict[str, str]:
    """Kernels by name, each with a text of its own."""
    return {f"k{n}": SOURCE.format(number=n) for n in range(first, first + count)}


# Processes ----------------------------------------------------------------------------


@pytest.mark.slow
def test_other_processes_compile_what_is_missing(folder: Path) -> None:
    texts = {**sources(8), "twin": SOURCE.format(number=3)}
    told: Counter[str] = Counter()
    compile_missing(texts, processes=2, done=lambda name: told.update([name]))
    assert told == dict.fromkeys(texts, 1)
    assert len([*folder.rglob("kernel.o")]) == 8
    kernel = compile_cpu(texts["k5"], "k5")
    assert kernel.from_cache
    number = np.array([1], np.float32)
    row = np.array([number.ctypes.data])
    assert kernel(row.ctypes.data) == 0
    assert number[0] == 6
    # They are there now, and nothing is compiled, nor any process started.
    again: list[str] = []
    compile_missing(texts, processes=2, done=again.append)
    assert sorted(again) == sorted(texts)


def test_few_kernels_are_left_to_who_loads_them(folder: Path) -> None:
    told: list[str] = []
    texts = sources(7, first=20)
    compile_missing(texts, processes=2, done=told.append)
    assert told == []
    assert not any(is_kept(text) for text in texts.values())


def test_one_processor_starts_no_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_pool, "processors", lambda: 1)
    texts = sources(12, first=40)
    compile_missing(texts)
    assert not any(is_kept(text) for text in texts.values())


@pytest.mark.slow
def test_what_cannot_be_compiled_is_left_to_who_loads_it(folder: Path) -> None:
    texts = {**sources(7, first=60), "broken": "def kernel(args):\n    return what\n"}
    told: list[str] = []
    compile_missing(texts, processes=2, done=told.append)
    assert sorted(told) == sorted(sources(7, first=60))


def test_a_worker_that_ends_leaves_the_rest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child.sys, "executable", "/bin/false")
    told: list[str] = []
    compile_missing(sources(8, first=80), processes=2, done=told.append)
    assert told == []


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_workers_at_once(folder: Path) -> None:
    # Many short sources keep two processes busy for long.
    code = f"""
from penstock.runtime.jit.pool import compile_missing
text = {SOURCE!r}
def done(name):
    print(name, flush=True)
compile_missing({{str(n): text.format(number=n) for n in range(500)}}, processes=2,
    done=done)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    # As at a terminal, all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert len(out.split()) < 500
    assert err.count("Traceback") == 1
    assert err.endswith("KeyboardInterrupt\n")


def test_a_worker_answers_each_source(folder: Path) -> None:
    import json

    lines = [json.dumps(text) + "\n" for text in ("no python", SOURCE.format(number=9))]
    answers = StringIO()
    main(StringIO("".join(lines)), answers)
    assert answers.getvalue() == "false\ntrue\n"
    assert is_kept(SOURCE.format(number=9))


# The size of the cache ----------------------------------------------------------------


def entry(folder: Path, digit: str, size: int, age: float) -> Path:
    """An entry of so many bytes that was used so many seconds ago."""
    inside = folder / (digit * 32)
    inside.mkdir(parents=True)
    file = inside / "kernel.o"
    file.write_bytes(bytes(size))
    then = time.time() - age
    os.utime(file, (then, then))
    os.utime(inside, (then, then))
    return file


def test_what_was_not_used_for_longest_is_deleted_first(tmp_path: Path) -> None:
    old = entry(tmp_path, "a", 30_000, SPARED * 9)
    older = entry(tmp_path, "b", 30_000, SPARED * 10)
    used = entry(tmp_path, "c", 30_000, SPARED * 20)
    mark_used(used)
    written = used.stat().st_mtime
    assert keep_within(1 << 30, tmp_path) == 0
    assert older.exists()
    assert keep_within(80_000, tmp_path) >= 30_000
    assert [file.exists() for file in (old, older, used)] == [True, False, True]
    assert not older.parent.exists()
    keep_within(40_000, tmp_path)
    assert [file.exists() for file in (old, used)] == [False, True]
    assert used.stat().st_mtime == written


def test_what_is_in_use_stays_however_large(tmp_path: Path) -> None:
    fresh = entry(tmp_path, "a", 30_000, 0)
    (tmp_path / ("b" * 32)).mkdir()
    assert keep_within(0, tmp_path) == 0
    assert fresh.exists()
    assert (tmp_path / ("b" * 32)).exists()


def test_files_of_one_hash_are_one_entry_and_others_none(tmp_path: Path) -> None:
    then = time.time() - 2 * SPARED
    for name in ("a" * 32 + ".json", "a" * 32 + ".k.cubin", "kernels.db", "a.txt"):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (then, then))
    assert keep_within(100, tmp_path) == 2000
    assert {path.name for path in tmp_path.iterdir()} == {"kernels.db", "a.txt"}


def test_compiling_keeps_the_cache_within_its_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = entry(folder, "d", 100_000, 2 * SPARED)
    monkeypatch.setenv(LIMIT_VARIABLE, "90000")
    # This process has written nothing yet, as far as it knows.
    monkeypatch.setattr(cache, "_written", None)
    text = SOURCE.format(number=500)
    compile_cpu(text, "k")
    assert not old.exists()
    assert is_kept(text)


def test_the_size_is_looked_at_when_a_share_of_the_limit_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, looks = 100 * cache.LOOKS, [0]

    def look(limit: int, folder: Path) -> None:
        looks.append(0)

    monkeypatch.setattr(cache, "keep_within", look)
    monkeypatch.setattr(cache, "_written", None)
    monkeypatch.setenv(LIMIT_VARIABLE, str(limit))
    for written in (1, 99, 1, 98, 1, 250):
        cache.make_room(written)
        looks[-1] += 1
    # The first file, and those with which there are 100 bytes, begin anew.
    assert looks == [0, 2, 3, 1]


def test_the_limit_is_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    assert size_limit() == DEFAULT_LIMIT
    monkeypatch.setenv(LIMIT_VARIABLE, "123")
    assert size_limit() == 123
    monkeypatch.setenv(LIMIT_VARIABLE, "4G")
    cache._limit_of.cache_clear()  # pyright: ignore[reportPrivateUsage] # it warns once
    text = "PENSTOCK_CACHE_BYTES should be a number of bytes, got '4G'"
    with pytest.warns(RuntimeWarning, match=text):
        assert size_limit() == DEFAULT_LIMIT
