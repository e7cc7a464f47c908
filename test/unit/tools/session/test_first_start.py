"""Functions of this package that are compiled once, kept in the cache, and told of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from numba import njit, types

from penstock.lowering.algorithms.packing import compiled_greedy as insertion
from penstock.lowering.algorithms.packing import compiled_search as search
from penstock.lowering.algorithms.packing.compiled import (
    SearchFunction,
    use_machine_code,
)
from penstock.runtime.core.object_key import packing_folder
from penstock.runtime.jit import cache_files as kept_files
from penstock.runtime.jit import first_start as first_start_module
from penstock.runtime.jit.cached_functions import keep_function
from penstock.runtime.jit.first_start import FirstStart, first_start
from penstock.tools.cli import run
from penstock.tools.driver import progress

ROOT = Path(__file__).parents[4]
Compiled = Callable[[int], int]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The reports about functions that are compiled."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(first_start, "functions", 0)

    def listen(what: str, functions: int) -> None:
        found.append((what, functions))

    monkeypatch.setattr(first_start, "listener", listen)
    return found


def adder(folder: Path, number: int) -> Compiled:
    """A compiled function that adds a number, as another process makes it."""

    def add(x: int) -> int:
        return x + number

    made: Any = cast("Any", njit)(add)
    keep_function(made, folder)
    made.compile((types.int64,))
    return cast("Compiled", made)


# Keeping ------------------------------------------------------------------------------


def test_a_function_is_compiled_once(tmp_path: Path, told: list[object]) -> None:
    for _ in range(2):
        assert adder(tmp_path / "kept", 3)(4) == 7
    name = "adder.<locals>.add"
    assert told == [(name, 1), ("", 1)]
    # Its machine code has the number in it.
    assert adder(tmp_path / "kept", 5)(4) == 9
    assert told[2:] == [(name, 2), ("", 2)]
    assert len([*tmp_path.glob("kept/adder.locals.add-*.nbc")]) == 2


def test_a_damaged_function_is_compiled_again(
    tmp_path: Path, told: list[object], flip_a_bit: Callable[[Path], None]
) -> None:
    folder = tmp_path / "kept"
    assert adder(folder, 3)(4) == 7
    (file,) = folder.iterdir()
    flip_a_bit(file)
    assert adder(folder, 3)(4) == 7
    file.chmod(0o666)
    assert adder(folder, 3)(4) == 7
    assert len(told) == 6


def test_a_function_that_cannot_be_kept_is_compiled(
    tmp_path: Path, told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(kept_files, "write_atomically", full)
    for _ in range(2):
        assert adder(tmp_path, 3)(4) == 7
    assert len(told) == 4


@pytest.mark.parametrize("function", [insertion.place_in_order, search.run])
def test_searches_are_kept_in_the_cache(function: SearchFunction[..., object]) -> None:
    use_machine_code()
    kept = cast("Any", function.machine_code).stats.cache_path
    assert Path(kept).name == packing_folder().name


def test_nothing_is_compiled_into_the_folder_of_the_package() -> None:
    modules = (
        path
        for folder in ("dialects", "lowering", "runtime", "tools")
        for path in (ROOT / folder).rglob("*.py")
    )
    words = re.compile(r"cache=True|\"cache\": True|enable_caching|NUMBA_CACHE_DIR")
    assert [path.name for path in modules if words.search(path.read_text())] == []


def test_imports_compile_nothing(tmp_path: Path) -> None:
    # Else it would take long before anything can be said of it.
    code = (
        "import penstock.tools.cli.run, penstock.tools.frontend.onnx.session;"
        "import penstock.runtime.executors.jobs;"
        "import penstock.runtime.core.watchdog, penstock.runtime.loading.devices, sys;"
        "from penstock.runtime.jit.first_start import first_start;"
        "print(first_start.functions, 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PENSTOCK_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout == "0 False\n"


# Telling ------------------------------------------------------------------------------


def test_the_time_of_functions_inside_others_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([1.0, 2.0, 8.0, 10.0, 13.0])  # The inner end looks at no clock.
    monkeypatch.setattr(first_start_module.time, "perf_counter", lambda: next(times))
    counted = FirstStart()
    for step in ("outer", "inner", "", "", "other", ""):
        counted.begin(step) if step else counted.end()
    assert (counted.functions, counted.seconds) == (3, 7.0 + 3.0)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_many_functions_were_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys, "stderr", terminal := Terminal())
    progress._first_start_line.cache_clear()  # pyright: ignore[reportPrivateUsage]
    for number in (1, 2):
        progress.show_first_start("core", number)
        now[0] += 1
    progress.show_first_start("", 2)
    progress._first_start_line.cache_clear()  # pyright: ignore[reportPrivateUsage]
    text = "compiling parts of penstock, once in this environment: 2"
    assert terminal.getvalue() == f"\r{text}\r{' ' * len(text)}\r"


def test_the_report_counts_what_is_compiled_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: Any) -> None:
        monkeypatch.setattr(first_start, "seconds", first_start.seconds + 12.345)
        original(*arguments)

    def report() -> str:
        assert run.run_tool([digits, "--random-inputs", "1"]) == 0
        return capsys.readouterr().out

    digits = str(ROOT / "examples" / "digits.mlir")
    text = (
        r" s \(12\.3\d s of it for parts of penstock, once in this environment\), run "
    )
    original = run._check_request  # pyright: ignore[reportPrivateUsage]
    # What this process has compiled before is no part of it.
    assert "penstock" not in report()
    monkeypatch.setattr(run, "_check_request", slow)
    assert re.search(text, report())
    assert re.search(text, report())
