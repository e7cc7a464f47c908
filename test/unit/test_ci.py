"""The script of CI: it installs a browser where there is none, and demands it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from browser import ENGINES, NEEDED, require_browser

SCRIPT = Path(__file__).parents[2] / ".ci" / "run"

STUB = '#!/bin/bash\necho "$(basename "$0") $* $PENSTOCK_NEEDS_BROWSER" >> {log}\n'


def calls(folder: Path, *extra: str, user: int = 0, fails: str = "") -> list[str]:
    """The commands that the script runs, where only these are installed."""
    log, commands = folder / "log", folder / "bin"
    commands.mkdir()
    for name in ("apt-get", "make", "sudo", *extra):
        text = STUB.format(log=log) + ("exit 1\n" if name == fails else "")
        (commands / name).write_text(text, encoding="utf-8")
    (commands / "id").write_text(f"#!/bin/bash\necho {user}\n", encoding="utf-8")
    for name in commands.iterdir():
        name.chmod(0o755)
    for name in ("bash", "basename", "dirname"):
        (commands / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [commands / "bash", SCRIPT],
        env={**os.environ, "PATH": str(commands), NEEDED: ""},
        check=False,
    )
    assert done.returncode == (1 if fails else 0)
    return log.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("engine", ENGINES)
def test_ci_demands_a_browser_that_is_there(tmp_path: Path, engine: str) -> None:
    assert calls(tmp_path, engine) == ["make test 1"]


def test_ci_installs_a_browser_where_there_is_none(tmp_path: Path) -> None:
    made = calls(tmp_path)
    # Needs of Python are installed beside it.
    made.remove("make .venv/installed ")
    update, install, test = made
    assert re.fullmatch(r"apt-get -qq (-o \S+ )*update ", update)
    assert re.fullmatch(
        r"apt-get -qq (-o \S+ )*install --yes --no-install-recommends "
        r"chromium-headless-shell fonts-dejavu-core ",
        install,
    )
    assert test == "make test 1"


def test_ci_asks_for_the_rights_to_install(tmp_path: Path) -> None:
    made = [x for x in calls(tmp_path, user=1000) if not x.startswith("make ")]
    update, install = made
    assert update.startswith("sudo apt-get ")
    assert install.startswith("sudo apt-get ")


def test_ci_fails_where_no_browser_can_be_installed(tmp_path: Path) -> None:
    made = calls(tmp_path, fails="apt-get")
    assert len([x for x in made if x.startswith("apt-get ")]) == 1
    assert "make test 1" not in made


def test_ci_fails_where_needs_of_python_cannot_be_installed(tmp_path: Path) -> None:
    assert "make test 1" not in calls(tmp_path, fails="make")


def test_a_browser_that_is_demanded_may_not_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(NEEDED, raising=False)
    reason = "no browser: none of chromium-headless-shell, chromium, "
    with pytest.raises(pytest.skip.Exception, match=reason):
        require_browser()
    monkeypatch.setenv(NEEDED, "1")
    with pytest.raises(pytest.fail.Exception, match=f"and {NEEDED} is set"):
        require_browser()
