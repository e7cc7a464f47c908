"""The ends of commands: exit codes, and their messages on standard error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.dialects.utils.diagnostics import Place
from penstock.runtime.errors import PenstockError
from penstock.tools.cli import import_model as importer
from penstock.tools.cli import run
from penstock.tools.cli import view as command
from penstock.tools.cli.exit_codes import exit_code_of
from penstock.tools.driver.diagnostics import Diagnosis, Rejected
from penstock.tools.driver.errors import FileError, InternalError, UsageError

Commands = list[tuple[str, object, Callable[[list[str]], int], list[str]]]


def raising(error: BaseException, cause: BaseException | None = None):
    def fail(*args: object) -> NoReturn:
        raise error from cause

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("no such job"), 2, "tool: error: no such job\n"),
        (FileError("no model"), 1, "tool: error: no model\n"),
        (PenstockError("stuck"), 1, "tool: error: stuck\n"),
        (MemoryError(), 1, "tool: error: out of memory\n"),
        (MemoryError("5 bytes"), 1, "tool: error: out of memory: 5 bytes\n"),
        (KeyboardInterrupt(), 130, "tool: error: interrupted\n"),
        (
            Rejected([Diagnosis(Place("a.mlir", 2, 1), "one"), Diagnosis(None, "two")]),
            1,
            "a.mlir:2:1: error: one\nin.mlir: error: two\n",
        ),
        (
            KeyError("w"),
            70,
            "tool: error: internal error: KeyError: 'w'; please report it (--debug "
            "shows the traceback)\n",
        ),
        (PenstockError("a\x1b[1m"), 1, "tool: error: a\\x1b[1m\n"),
    ],
)
def test_each_kind_of_error_has_its_exit_code_and_words(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(raising(error), "tool", Path("in.mlir"), debug=False) == code
    assert capsys.readouterr() == ("", text)


def test_defects_of_passes_are_told_with_where_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = raising(InternalError("pass cse"), KeyError("x"))
    assert exit_code_of(run, "tool", Path("a"), debug=False) == 70
    assert capsys.readouterr().err == (
        "tool: error: internal error in pass cse: KeyError: 'x'; please report it "
        "(--debug shows the traceback)\n"
    )
    assert exit_code_of(run, "tool", Path("a"), debug=True) == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "KeyError: 'x'"
    assert lines[-1] == (
        "tool: error: internal error in pass cse: KeyError: 'x'; please report it"
    )


@pytest.mark.parametrize("flags", [[], ["--debug"]])
def test_no_command_ends_with_a_bare_traceback(
    flags: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands: Commands = [
        ("penstock-run", run, run.run_tool, []),
        ("penstock-view", command, command.run_tool, ["-o", str(tmp_path / "a.html")]),
        ("penstock-import", importer, importer.run_tool, []),
    ]
    monkeypatch.chdir(tmp_path)
    Path("model").touch()
    for name, module, tool, more in commands:
        inside = "_import" if module is importer else "_run"
        monkeypatch.setattr(module, inside, raising(ValueError("a defect")))
        assert tool(["model", *more, *flags]) == 70
        out, err = capsys.readouterr()
        assert out == ""
        assert ("Traceback" in err) == bool(flags)
        hint = "" if flags else " (--debug shows the traceback)"
        assert err.endswith(
            f"{name}: error: internal error: ValueError: a defect; please report it"
            f"{hint}\n"
        )
