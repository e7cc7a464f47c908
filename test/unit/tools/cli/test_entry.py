"""The installed commands, interrupted before their tools are imported."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"

INTERRUPT = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "xdsl"):
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from penstock.tools.cli.entry import {name}
{name}()
"""
"""Each tool imports NumPy or xDSL long before it reads its arguments."""


def commands() -> dict[str, str]:
    """The function of each installed command."""
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    return {
        command: target.removeprefix("penstock.tools.cli.entry:")
        for command, target in scripts.items()
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("penstock-import", "penstock-import: error: interrupted\n"),
        ("penstock-opt", ""),
        ("penstock-run", "penstock-run: error: interrupted\n"),
    ],
)
def test_interrupt_while_importing_leaves_no_traceback(command: str, message: str):
    code = INTERRUPT.format(name=commands()[command])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", message)


@pytest.mark.parametrize("command", commands())
def test_warnings_are_a_line_each(command: str):
    code = f"""
import warnings
from penstock.tools.cli.entry import {commands()[command]} as run
try:
    run()
finally:
    warnings.warn("the cache is full", RuntimeWarning)
"""
    words = [sys.executable, "-c", code, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    text = f"{command}: warning: the cache is full\n"
    assert (done.returncode, done.stderr) == (0, text)


def test_entry_points_import_nothing_that_takes_time():
    code = (
        "import gc, sys; before = set(sys.modules); import penstock.tools.cli.entry; "
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300
    ).stdout
    packages = ["penstock", "penstock.tools", "penstock.tools.cli"]
    assert out.split() == [*packages, "penstock.tools.cli.entry"]


@pytest.mark.parametrize("option", ["--version", "--unknown"])
def test_python_looks_for_no_garbage_when_a_command_ends(option: str):
    code = (
        "import atexit, gc; from penstock.tools.cli.entry import opt; "
        "atexit.register(lambda: print(len(gc.get_objects()) < 100)); opt()"
    )
    words = [sys.executable, "-c", code, option]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_without_room_is_an_error():
    code = "from penstock.tools.cli.entry import opt; opt()"
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "--list", "target"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
        )
    text = "cannot write the standard output: no space left on device"
    assert (done.returncode, done.stderr) == (1, f"penstock-opt: error: {text}\n")


@pytest.mark.parametrize("command", ["penstock-opt", "penstock-run"])
def test_a_closed_output_is_no_defect(command: str, tmp_path: Path):
    path = tmp_path / "job.mlir"
    path.write_text(
        "job.job @j placement <cpu, [0:0]> {\n"
        '  %x = job.input "x" : tensor<2xf32>\n'
        '  job.output "y", %x : tensor<2xf32>\n'
        "}\n"
    )
    code = f"from penstock.tools.cli.entry import {commands()[command]} as f; f()"
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(
        [*shell, str(path), "--pipeline", "cpu", "--compile-to", "job"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
