"""
Names full of escape sequences, newlines and markup: none gets out of the place that it
is printed in, on a terminal, in a page or in source.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest

from penstock.runtime.core.watchdog import print_report
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
    WatchdogError,
    printable,
)
from penstock.tools.driver.errors import Diagnosis, InternalError, Rejected, UsageError

ESCAPE = "\x1b]0;owned\x07\x9b31m\r"
ENTRY = "from penstock.tools.cli.entry import opt, run, view"
NAME = r"\1B[31m</script><b>\0Aimport os"
JOB = rf"""
job.job @"n{NAME}" placement <cpu, [0:0]> {{
  %x = job.input "x{NAME}" : tensor<4xf32>
  %y = op.exp %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y{NAME}", %y : tensor<4xf32>
}}
"""
PLANNED = ("-p", "convert-job-to-plan,plan-create-registers,regst-plan-memory")
KERNEL = rf"""
launch.kernel @"k{NAME}" target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {{
  "memref.copy"(%a, %o) : (memref<4xf32>, memref<4xf32>) -> ()
}}
"""


def is_safe(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


def told(code: str, *arguments: str) -> str:
    """The output of a tool, on both streams, in a process of its own."""
    result = subprocess.run(
        [sys.executable, "-c", f"{ENTRY}; {code}()", *arguments],
        capture_output=True,
        timeout=300,
        check=False,
    )
    return (result.stdout + result.stderr).decode()


def test_text_is_as_it_is_but_for_what_orders_a_terminal() -> None:
    plain = "é 日本 \t{}\n%"
    assert printable(plain) is plain
    assert printable(f"a{ESCAPE}") == r"a\x1b]0;owned\x07\x9b31m\x0d"
    assert is_safe(printable("\u202e\u2028\x00\x7f\ud800"))


@pytest.mark.parametrize(
    "error",
    [
        PenstockError(ESCAPE),
        UsageError(ESCAPE),
        InternalError(ESCAPE),
        Rejected([Diagnosis(None, ESCAPE, (ESCAPE,))]),
        TaskError(ESCAPE, 0, 1, ESCAPE),
        DeadlockError([ESCAPE]),
        WatchdogError(1.0, [ESCAPE]),
    ],
)
def test_errors_are_safe_to_print(error: PenstockError) -> None:
    assert is_safe(str(error))
    assert "\\x1b" in str(error)


def test_reports_of_watchdogs_are_safe(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(ESCAPE)
    assert is_safe(capsys.readouterr().err)


def test_warnings_of_tools_are_safe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.tools.cli import entry

    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    entry._tell_warnings_of("penstock-run")  # pyright: ignore[reportPrivateUsage]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", _show)
        warnings.warn(ESCAPE, RuntimeWarning, stacklevel=1)
    assert is_safe(capsys.readouterr().err)


def _show(message: Warning | str, *place: object) -> None:
    text = warnings.formatwarning(str(message), RuntimeWarning, "f", 1)
    print(text, end="", file=sys.stderr)


@pytest.mark.slow
def test_commands_print_no_escape_sequence_of_a_name(tmp_path: Path) -> None:
    (file := tmp_path / "job.mlir").write_text(JOB, encoding="utf-8")
    outputs = str(tmp_path / "out\x1b[31m.npz")
    run = told("run", str(file), "--random-inputs", "1", "--outputs", outputs)
    assert is_safe(run)
    assert r"out\x1b[31m.npz" in run
    missing = told("run", str(tmp_path / "no\x1b[31m.mlir"))
    assert is_safe(missing)
    assert r"no\x1b[31m.mlir" in missing
    shown = told("opt", str(file), "--pipeline", "cpu")
    assert is_safe(shown)
    assert "launch.program" in shown


def test_a_name_stays_in_the_comment_above_its_kernel(tmp_path: Path) -> None:
    (file := tmp_path / "kernel.mlir").write_text(KERNEL, encoding="utf-8")
    source = told("opt", str(file), "-t", "numba")
    compile(source, "kernel", "exec")
    assert r"# kernel k\u001b[31m</script><b>\nimport os" in source.splitlines()


class _Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["view", "map"])
def test_names_are_no_markup_in_pages(tmp_path: Path, kind: str) -> None:
    (file := tmp_path / "job.mlir").write_text(JOB, encoding="utf-8")
    (plain := tmp_path / "plain.mlir").write_text(
        JOB.replace(NAME, "name"), encoding="utf-8"
    )
    pages: list[str] = []
    for model in (file, plain):
        page = tmp_path / f"{model.stem}.html"
        if kind == "view":
            lowered = tmp_path / f"{model.stem}-lowered.mlir"
            told("opt", str(model), "--pipeline", "cpu", "-o", str(lowered))
            told("view", str(lowered), "-o", str(page))
        else:
            told("opt", str(model), *PLANNED, "--memory-map", str(page))
        pages.append(page.read_text(encoding="utf-8"))
    named, unnamed = pages
    assert _Tags(named).found == _Tags(unnamed).found
    assert "&lt;b&gt;" in named
