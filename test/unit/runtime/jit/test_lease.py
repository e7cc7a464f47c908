"""One of several processes makes an entry of the cache, and the others wait for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock.runtime.jit.cpu import compile_cpu, compile_unless_leased, is_kept, key_of
from penstock.runtime.jit.lease import lease
from penstock.runtime.jit.pool import compile_missing

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32


@c_kernel
def kernel(args, part, parts):
    o = buffer_f32(args, 0, 1)
    o[0] = f32(o[0] + f32({number}))
    return 0
"""

HOLD = """
import sys
from pathlib import Path
from penstock.runtime.jit.lease import lease
with lease(Path(sys.argv[1])) as may_make:
    print(may_make, flush=True)
    sys.stdin.readline()
"""

COMPILE = """
import sys
from penstock.runtime.jit.cpu import compile_cpu
print("begins", flush=True)
print(compile_cpu(sys.stdin.read(), "other").from_cache, flush=True)
"""


@contextmanager
def process(program: str, *words: object) -> Generator[subprocess.Popen[str]]:
    """Another process, which is killed in the end."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-P", "-c", program, *map(str, words)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    assert started.stdout is not None
    return started.stdout.readline().strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test."""
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_one_process_has_a_lease_until_it_ends(tmp_path: Path) -> None:
    entry = tmp_path / "entry" / "kernel.o"
    with process(HOLD, entry) as other:
        assert line_of(other) == "True"
        with lease(entry, wait=False) as may_make:
            assert not may_make
        assert [path.name for path in entry.parent.iterdir()] == ["kernel.o.lease"]
    # It was killed.
    with lease(entry, wait=False) as may_make:
        assert may_make
    assert not [*entry.parent.iterdir()]


def test_a_lease_that_is_given_back_goes_to_one_who_waits(tmp_path: Path) -> None:
    entry = tmp_path / "kernel.o"
    with ExitStack() as stack:
        with lease(entry):
            other = stack.enter_context(process(HOLD, entry))
            with lease(entry, wait=False) as may_make:
                assert not may_make
        assert line_of(other) == "True"


def test_without_a_file_each_process_makes_the_entry(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with lease(tmp_path / "file" / "kernel.o", wait=False) as may_make:
        assert may_make


@pytest.mark.slow
def test_a_kernel_that_another_process_compiles_is_waited_for(folder: Path) -> None:
    source = SOURCE.format(number=201)
    path = folder / key_of(source) / "kernel.o"
    with process(COMPILE) as other:
        assert line_of(other) == "begins"
        with lease(path):
            assert not compile_unless_leased(source)
            assert other.stdin is not None
            other.stdin.write(source)
            other.stdin.close()
            # As the process which has the lease would leave it.
            data = made_elsewhere(source, folder.parent / "aside")
            path.write_bytes(data)
            path.chmod(0o600)
        assert line_of(other) == "True"


def made_elsewhere(source: str, folder: Path) -> bytes:
    """The machine code of a source, compiled by a process with another cache."""
    program = (
        "import os, sys\nos.environ['PENSTOCK_CACHE_DIR'] = sys.argv[1]\n" + COMPILE
    )
    command = [sys.executable, "-P", "-c", program, folder]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    (path,) = folder.rglob("kernel.o")
    return path.read_bytes()


def test_ranks_share_what_is_missing(folder: Path) -> None:
    texts = {f"k{n}": SOURCE.format(number=n) for n in (210, 211)}
    held = folder / key_of(texts["k210"]) / "kernel.o"
    told: list[str] = []
    with lease(held):
        compile_missing(texts, ranks=2, processes=1, done=told.append)
        assert told == ["k211"]
        assert not is_kept(texts["k210"])
    compile_missing(texts, ranks=2, processes=1, done=told.append)
    assert told == ["k211", "k211", "k210"]
    assert not compile_cpu(texts["k210"], "k210").from_cache
