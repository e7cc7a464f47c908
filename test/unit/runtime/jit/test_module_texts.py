"""The modules that kept code was made by, found by the lines that import them."""

from __future__ import annotations

import ast
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock import runtime
from penstock.lowering.kernel_times import keys
from penstock.runtime.jit import cpu as jit
from penstock.runtime.jit import source_digest as module_texts
from penstock.runtime.jit.source_digest import imported_modules, modules_below

ROOT = Path(runtime.__file__).parents[1]
GENERATORS = (
    "lowering.codegen.target",
    "lowering.launch.select_kernels",
    "runtime.jit.cpu",
)

LINES = """
from __future__ import annotations
import numpy
import penstock.runtime.kernels.cpu.matmul.tile
from penstock.runtime.kernels.cpu.vector_loop import (
    line_of,
    other,
)
from penstock.runtime.kernels.cpu import simd as lanes
from penstock.runtime.kernels.math import f32 as vectors
from penstock.runtime import nothing
from penstock.dialects.launch import KernelOp

if TYPE_CHECKING:
    from penstock.runtime.core.scheduler import act

    from penstock.runtime.core.state import State

def later():
    from penstock.runtime.kernels.cpu.matmul.packing import panel
"""


def test_imports_are_found_wherever_they_stand() -> None:
    kernels = "cpu", "math", "cpu.simd", "cpu.vector_loop", "math.f32"
    matmuls = "cpu.matmul.packing", "cpu.matmul.tile"
    assert imported_modules(LINES) == {
        *("dialects.launch", "runtime"),
        *(f"runtime.kernels.{name}" for name in (*kernels, *matmuls)),
    }


def test_what_imports_import_is_found_too() -> None:
    found = modules_below(["runtime.kernels.cpu.attention"])
    assert {
        "runtime.kernels.cpu.attention",
        "runtime.kernels.cpu.simd",
        "runtime.kernels.math.f32",
    } <= found
    assert "runtime.core.scheduler" not in found


def _loaded_by(tree: ast.AST) -> set[str]:
    """The modules of ours that the top of a module imports, as Python reads it."""
    found: set[str] = set()
    assert isinstance(tree, ast.Module)
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            names = [f"{statement.module}.{name.name}" for name in statement.names]
            found.update(name for name in (statement.module, *names))
    return {
        name.removeprefix("penstock.")
        for name in found
        if name.startswith("penstock.")
        and (
            ROOT.joinpath(*name.split(".")[1:]).with_suffix(".py").exists()
            or ROOT.joinpath(*name.split(".")[1:], "__init__.py").exists()
        )
    }


@pytest.mark.parametrize("folder", ["runtime", "lowering/codegen"])
def test_no_import_of_ours_is_missed(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        assert _loaded_by(ast.parse(text)) <= imported_modules(text), path.name


def forget() -> None:
    """Let texts be read anew, as a new process would."""
    for function in vars(module_texts).values():
        if (clear := getattr(function, "cache_clear", None)) is not None:
            clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The folder of a package with some modules, in place of ours."""
    folder = tmp_path / "runtime"
    (folder / "jit").mkdir(parents=True)
    for name, text in {
        "jit/cpu": "",
        "first": "from penstock.runtime.second import number\n",
        "second": "number = 1\n",
        "apart": "",
    }.items():
        (folder / f"{name}.py").write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(module_texts, "_ROOT", tmp_path)
        forget()
        yield folder
    forget()


def test_a_kernel_is_compiled_anew_when_what_it_uses_changes(package: Path) -> None:
    users = [
        f"from penstock.runtime.{name} import number\n" for name in ("first", "apart")
    ]
    before = [jit.key_of(user) for user in users]
    (package / "second.py").write_text("number = 2\n")
    forget()
    after = [jit.key_of(user) for user in users]
    assert after[0] != before[0]
    assert after[1] == before[1]
    (package / "jit" / "cpu.py").write_text("# Compiles in another way.\n")
    forget()
    assert jit.key_of(users[1]) != before[1]


def test_what_numba_keeps_is_found_by_all_modules_that_take_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from penstock.runtime.core import object_key
    from penstock.runtime.observe import kernel_timer

    # It may have been imported before the tests had a cache folder of their own.
    kept = cast("Any", kernel_timer.time_calls).stats.cache_path
    found = object_key.folder_of_module(kernel_timer.__name__)
    assert Path(kept).name == found.name
    roots: list[str] = []

    def note(names: frozenset[str]) -> str:
        roots.extend(names)
        return "key"

    monkeypatch.setattr(object_key, "_key", note)
    object_key.folder_of_module(kernel_timer.__name__)
    assert roots[0] == "runtime.observe.kernel_timer"
    modules = {f"runtime.core.{name}" for name in ("atomics", "object_key")}
    assert modules <= modules_below(roots[:1])


def test_machine_code_of_the_core_is_found_by_all_of_its_modules() -> None:
    modules = ("atomics", "dataflow_rules", "scheduler", "work_sharing")
    names = {f"runtime.core.{name}" for name in modules}
    assert names <= modules_below(["runtime.core.entry_module"])


def test_a_measured_time_is_one_of_all_modules_that_make_code() -> None:
    files = {path.resolve() for path in keys.generators()}
    # Old names of modules, and the table of plug-ins, make no code.
    for name in modules_below(GENERATORS) - {"moved", "plugins"}:
        path = ROOT.joinpath(*name.split("."))
        one = {path.with_suffix(".py"), path / "__init__.py"}
        assert {file.resolve() for file in one} & files, name
