"""Files beside a model, which neither a command nor its child processes ever run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.runtime.jit import child
from penstock.runtime.jit.child import child_command

ROOT = Path(__file__).parents[4]
FOLDERS = "dialects", "lowering", "runtime", "tools"

PLANTED = (
    *("json.py", "numpy.py", "numba.py", "llvmlite.py", "sitecustomize.py"),
    *("penstock/__init__.py", "penstock/runtime/__init__.py", "xdsl/__init__.py"),
)

PLANT = """
import os
with open(os.environ["PENSTOCK_TEST_TRACE"], "a") as trace:
    trace.write(__file__ + "\\n")
raise ImportError("this lay beside a model")
"""

RUN = """
from penstock.runtime.jit import pool as compile_pool
compile_pool.processors = lambda: 2
from penstock.tools.cli.entry import run
run()
"""
"""The command, on a machine with two processors."""


def model(count: int) -> str:
    """A job with so many kernels, all of which differ."""
    sums = "\n".join(
        f'  %x{n} = job.input "x{n}" : tensor<{n}xf32>\n'
        f"  %y{n} = op.exp %x{n} : tensor<{n}xf32> -> tensor<{n}xf32>\n"
        f'  job.output "y{n}", %y{n} : tensor<{n}xf32>'
        for n in range(1, count + 1)
    )
    return f"job.job @sums placement <cpu, [0:0]> {{\n{sums}\n}}\n"


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with files that tell when they are run."""
    folder = tmp_path / "model"
    for name in PLANTED:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PLANT)
    return folder


def run(
    words: list[str], folder: Path, **more: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a command in a folder; what it was, and the planted files that it ran."""
    trace = folder / "trace"
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PENSTOCK_TEST_TRACE": str(trace), **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done, trace.read_text().splitlines() if trace.exists() else []


# About 5 s: two processes import Numba and compile 16 kernels.
@pytest.mark.slow
def test_what_lies_beside_a_model_is_not_run(planted: Path, cold_cache: Path) -> None:
    (planted / "model.mlir").write_text(model(16))
    words = [sys.executable, "-P", "-c", RUN, "model.mlir", "--random-inputs", "1"]
    done, ran = run(
        [*words, "--check", "numpy"], planted, PENSTOCK_CACHE_DIR=str(cold_cache)
    )
    assert ran == []
    assert (done.returncode, done.stderr) == (0, "")
    assert len([*cold_cache.glob("*/kernel.o")]) == 16


def test_a_child_has_what_the_environment_names_and_not_the_current_folder(
    planted: Path, tmp_path: Path
) -> None:
    named = tmp_path / "named"
    named.mkdir()
    (named / "theirs.py").write_text("PLACE = 'named by PYTHONPATH'\n")
    (planted / "theirs.py").write_text(PLANT)
    command = child_command("penstock.runtime.jit.worker")
    code = "import sys, theirs; print(theirs.PLACE, '' in sys.path, sys.path)"
    words = [*command[: command.index("-m")], "-c", code]
    done, ran = run(words, planted, PYTHONPATH=str(named))
    assert (ran, done.stderr) == ([], "")
    assert done.stdout.startswith("named by PYTHONPATH False")
    assert str(planted) not in done.stdout


@pytest.mark.parametrize("worker", ["worker", "cubin_worker"])
def test_workers_run_nothing_of_the_current_folder(planted: Path, worker: str) -> None:
    done, ran = run(child_command(f"penstock.runtime.jit.{worker}"), planted)
    assert (ran, done.returncode, done.stderr) == ([], 0, "")


@pytest.mark.parametrize("name", ["import", "opt", "run", "view"])
def test_commands_run_nothing_of_the_current_folder(planted: Path, name: str) -> None:
    tool = Path(sys.executable).with_name(f"penstock-{name}")
    done, ran = run([str(tool), "--help"], planted)
    assert (ran, done.returncode, done.stderr) == ([], 0, "")


@pytest.mark.slow
def test_a_file_that_is_loaded_has_nothing_but_itself_run(planted: Path) -> None:
    code = (
        "import json, sys\n"
        "from xdsl.passes import ModulePass\n"
        "assert not any(path.endswith('model') for path in sys.path)\n"
        "class Named(ModulePass):\n"
        "    name = 'named'\n"
        "    def apply(self, ctx, op): pass\n"
    )
    (planted / "named.py").write_text(code)
    tool = Path(sys.executable).with_name("penstock-opt")
    done, ran = run([str(tool), "--load", "named.py", "--list-passes"], planted)
    assert (ran, done.returncode, done.stderr) == ([], 0, "")
    assert "passes of named.py:\n  named" in done.stdout


def test_a_child_of_an_isolated_process_is_isolated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def flags(isolated: int) -> object:
        return type("Flags", (), {"isolated": isolated})

    for isolated, flag in ((0, "-P"), (1, "-I")):
        monkeypatch.setattr(child.sys, "flags", flags(isolated))
        assert child_command("m") == [sys.executable, flag, "-m", "m"]


def texts() -> Mapping[str, str]:
    """The text of each module of the package, by its path."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def test_one_function_alone_starts_python() -> None:
    starting = re.compile(
        r"sys\.executable|multiprocessing(?!\.connection)|os\.(exec|spawn|posix)"
    )
    found = {path for path, text in texts().items() if starting.search(text)}
    assert found == {"runtime/jit/child.py"}


def test_no_module_changes_where_modules_are_looked_for() -> None:
    found = {path for path, text in texts().items() if "sys.path" in text}
    assert found == {"runtime/jit/child.py"}, "it says so in words"


YAML = """
def safe_load(file):
    return {"opt": "0", "cpu_name": "generic"}
"""
"""Stands for PyYAML, which may be installed: it reads what a file says."""

SETTINGS = """
import sys
from penstock.tools.cli import entry
sys.modules["penstock.tools.cli.opt"] = type(sys)("opt")
def run_tool():
    from numba.core import config
    config.reload_config()
    import yaml
    print(int(config.OPT), config.CPU_NAME, yaml.safe_load is not None)
    return 0
sys.modules["penstock.tools.cli.opt"].run_tool = run_tool
entry.opt()
"""
"""A command that asks Numba for its settings, also after it has read them again."""


def test_settings_of_numba_are_not_those_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / ".numba_config.yaml").write_text("opt: 0\ncpu_name: generic\n")
    library = tmp_path / "library"
    library.mkdir()
    (library / "yaml.py").write_text(YAML)
    words = [sys.executable, "-P", "-c", SETTINGS]
    done, _ = run(words, tmp_path, PYTHONPATH=str(library))
    assert (done.stdout, done.stderr) == ("3 None True\n", "")


def test_every_process_of_ours_ignores_settings_files() -> None:
    found = {
        path for path, text in texts().items() if "ignore_settings_files()" in text
    }
    assert found == {
        "runtime/jit/worker.py",
        "runtime/jit/cubin_worker.py",
        "tools/reports/compare/worker.py",
        "runtime/jit/numba_settings.py",
        "tools/cli/entry.py",
    }
