"""
The rules of the house: which room may import which, and what a file's place says.

Each rule is a function over the texts of files by their paths, which gives a line for
each place that breaks it. All imports count: those inside functions, too, and those
for type checkers alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias

import pytest

import penstock.notebook
import penstock.plugins
from penstock.lowering import get_all_passes
from penstock.lowering.codegen.body.kernel_functions import (
    cpu_functions,
    cpu_imports,
    cuda_import,
    public_names,
)
from penstock.moved import place_of

ROOT = Path(__file__).parents[2]

FOLDERS = "tools > lowering runtime > dialects > notebook plugins cpu_target"
"""A folder imports itself and those further to the right."""

FLOORS = {
    "dialects": "__init__ > plan > op > launch > kernel regst > job > utils",
    "lowering": "__init__ pipelines"
    " > op job plan regst launch convert verify"
    " > analysis kernel_times > codegen > codegen/cpu codegen/cuda"
    " > codegen/body algorithms",
    "runtime": "__init__ > testing > cuda executors > observe transport > loading"
    " > core > jit > program kernels > options > errors",
    "tools": "__init__ cli exceptions universe > reports > frontend > data > session"
    " > driver",
}
"""
The rooms of each folder: files and folders. A room imports itself and rooms further to
the right, none of those that stand beside it.
"""

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("runtime/program/tables.py", "dialects.utils.repetitions"): (
        "arithmetic without IR, until executables have repetition vectors"
    ),
    ("runtime/jit/source_digest.py", "moved"): "texts of kernels may have old names",
    ("dialects/kernel/__init__.py", "moved"): "a module of 0.1 had this name",
    ("lowering/job/planned_peak.py", "lowering"): (
        "asks the planner of a copy, whose passes it finds by their names"
    ),
    ("tools/reports/api_page.py", ""): "the page of what the package offers",
    ("tools/reports/commands_page.py", "tools.cli.parsers"): "the page of the commands",
    ("tools/reports/commands_page.py", "tools.cli.command_parser"): (
        "the page of the commands"
    ),
    ("tools/session/__init__.py", "moved"): "a module of 0.1 had this name",
}
"""A file, and what it imports in spite of a rule, with the reason."""

PASS_BASES = {"lowering/launch/joined_actors.py": "the base class of two passes"}
"""Files of passes that other files import, with the reason."""

Files: TypeAlias = Mapping[str, str]
Rule: TypeAlias = Callable[[Files], Sequence[str]]


class Import(NamedTuple):
    """An import in a file, of a module or of a package's own names."""

    path: str
    line: int
    module: str

    @property
    def folder(self) -> str:
        """The folder of ours that the module is in; `` for other packages."""
        first, _, rest = self.module.partition(".")
        return rest.partition(".")[0] if first == "penstock" else ""

    @property
    def inner(self) -> str:
        """The module without the name of the package."""
        return self.module.partition(".")[2]


@pytest.fixture(scope="module")
def files() -> Files:
    paths = [x for name in FLOORS for x in sorted((ROOT / name).rglob("*.py"))]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths
    }


# Every rule asks for the same trees.
@cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def imports_of(path: str, text: str, modules: frozenset[str]) -> Sequence[Import]:
    found: list[Import] = []
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.Import):
            found += [Import(path, node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{name.name}" for name in node.names}
            wanted = sorted(inner & modules)
            found += [Import(path, node.lineno, name) for name in wanted]
            if len(wanted) < len(inner):
                found.append(Import(path, node.lineno, node.module))
    return found


def imports_in(files: Files) -> Iterator[Import]:
    """All imports but those that are excepted."""
    modules = frozenset(map(module_of, files))
    for path, text in files.items():
        for one in imports_of(path, text, modules):
            if (path, one.inner) not in EXCEPTIONS:
                yield one


def module_of(path: str) -> str:
    """The name of the module in a file."""
    return f"penstock.{path.removesuffix('.py').replace('/', '.')}".removesuffix(
        ".__init__"
    )


@cache
def floors_of(text: str) -> dict[str, int]:
    """The floor of each room, the top one 0."""
    floors = enumerate(text.split(" > "))
    return {room: floor for floor, rooms in floors for room in rooms.split()}


@cache
def room_of(inner: str) -> str | None:
    """The innermost room of a folder's that a module is in; None if it is in none."""
    folder, _, rest = inner.partition(".")
    parts = rest.split(".") if rest else ["__init__"]
    rooms = floors_of(FLOORS[folder])
    names = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((name for name in names if name in rooms), None)


# The rules ---------------------------------------------------------------------------


def rooms(files: Files) -> list[str]:
    """1: no import goes up a floor, or to a room of the same one."""
    found = [
        f"{path}:1: stands in no room of {path.partition('/')[0]} (rule 1)"
        for path in files
        if room_of(module_of(path).removeprefix("penstock.")) is None
    ]
    for one in imports_in(files):
        if not one.module.startswith("penstock"):
            continue
        here = module_of(one.path).removeprefix("penstock.")
        if not is_below(here, one.inner):
            found.append(
                f"{one.path}:{one.line}: {here} may not import "
                f"{one.inner or 'penstock'} (rule 1)"
            )
    return found


def is_below(here: str, there: str) -> bool:
    """Whether one module may import another one, by the floors of their rooms."""
    folders = floors_of(FOLDERS)
    folder, other = here.partition(".")[0], there.partition(".")[0]
    if other not in folders:
        return False
    if folder != other:
        return folders[folder] < folders[other]
    room, target = room_of(here), room_of(there)
    if room is None or target is None or room == target:
        return room == target
    floors = floors_of(FLOORS[folder])
    return floors[room] < floors[target]


def passes(files: Files) -> list[str]:
    """2: no file that defines a pass is imported, but by the table of passes."""
    of_passes = {
        module_of(path)
        for path, text in files.items()
        if path not in PASS_BASES and any(passes_of(text))
    }
    return [
        f"{one.path}:{one.line}: imports {one.inner}, which defines a pass (rule 2)"
        for one in imports_in(files)
        if one.module in of_passes and one.path != "lowering/__init__.py"
    ]


def passes_of(text: str) -> Iterator[ast.ClassDef]:
    """The classes of passes in a file."""
    for node in tree_of(text).body:
        if isinstance(node, ast.ClassDef):
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            if any(base.endswith("Pass") for base in bases):
                yield node


def free_of_ir(files: Files) -> list[str]:
    """3 and 4: neither `lowering/algorithms` nor `runtime` knows IR."""
    rules = {"lowering/algorithms/": 3, "runtime/": 4}
    return [
        f"{one.path}:{one.line}: imports {one.module} (rule {rule})"
        for one in imports_in(files)
        for start, rule in rules.items()
        if one.path.startswith(start)
        and (one.module.partition(".")[0] == "xdsl" or one.folder == "dialects")
    ]


KERNEL_PACKAGES = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names}


def kernels(files: Files) -> list[str]:
    """5: `runtime/kernels` imports itself, NumPy, Numba, llvmlite and `cpu_target`."""
    return [
        f"{one.path}:{one.line}: imports {one.module} (rule 5)"
        for one in imports_in(files)
        if one.path.startswith("runtime/kernels/")
        and one.module.partition(".")[0] not in KERNEL_PACKAGES
        and not one.inner.startswith(("runtime.kernels.", "cpu_target"))
    ]


def names_of_passes(files: Files) -> list[str]:
    """6: a pass is named after its folder and file, `raise-a-to-b` after its file."""
    found: list[str] = []
    for path, text in files.items():
        expected = "-".join(Path(path).with_suffix("").parts[1:]).replace("_", "-")
        expected = expected.replace("convert-raise-", "raise-")
        for one in passes_of(text) if path not in PASS_BASES else ():
            found += [
                f"{path}:{node.lineno}: pass {name} should be {expected} (rule 6)"
                for node, name in names_in(one)
                if name != expected
            ]
    return found


def names_in(one: ast.ClassDef) -> Iterator[tuple[ast.Assign, str]]:
    """The line of a class that names its pass."""
    for node in one.body:
        match node:
            case ast.Assign([ast.Name("name")], ast.Constant(name)):
                yield node, str(name)
            case _:
                pass


KERNELS = "runtime/kernels/"


def imports_of_sources(sources: Files, files: Files) -> list[str]:
    """7: generated source names only what `runtime/kernels` defines or hands on."""
    return [
        f"{path}:{one.lineno}: {module} has no {name.name} (rule 7)"
        for path, text in sources.items()
        for one in tree_of(text).body
        if isinstance(one, ast.ImportFrom) and (module := one.module or "")
        for name in one.names
        if name.name not in offered(module, files)
    ]


def offered(module: str, files: Files) -> set[str]:
    """The names of a module of `runtime/kernels`, and what it takes from others."""
    path = module.removeprefix("penstock.").replace(".", "/") + ".py"
    if not path.startswith(KERNELS) or path not in files:
        return set()
    found = set(public_names(files[path]))
    for node in ast.walk(tree_of(files[path])):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                star = name.name == "*" and node.module
                found |= offered(str(node.module), files) if star else {name.name}
    return found


def cycles(files: Files) -> list[str]:
    """8: no file imports itself by way of others."""
    lines = {(one.path, one.module): one.line for one in imports_in(files)}
    paths = {module_of(path): path for path in files}
    edges: dict[str, set[str]] = {path: set() for path in files}
    for path, module in lines:
        if module in paths:
            edges[path].add(paths[module])
    # What nothing left imports, or what imports nothing left, is in no cycle.
    while True:
        wanted = {target for targets in edges.values() for target in targets}
        left = {
            path: targets & edges.keys()
            for path, targets in edges.items()
            if path in wanted and targets & edges.keys()
        }
        if left == edges:
            break
        edges = left
    return [
        f"{path}:{lines[path, module_of(target)]}: imports {target}, from which an "
        "import leads back (rule 8)"
        for path, targets in sorted(edges.items())
        for target in sorted(targets)
    ]


RULES: Sequence[Rule] = (rooms, passes, free_of_ir, kernels, names_of_passes, cycles)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_holds(rule: Rule, files: Files):
    assert rule(files) == []


def test_each_exception_is_needed(files: Files):
    modules = frozenset(map(module_of, files)) | {"penstock.moved"}
    found = {
        (one.path, one.inner)
        for path, text in files.items()
        for one in imports_of(path, text, modules)
    }
    assert EXCEPTIONS.keys() - found == set()
    assert all(any(passes_of(files[path])) for path in PASS_BASES)


@pytest.mark.parametrize("module", [penstock.notebook, penstock.plugins])
def test_files_below_all_rooms_import_python_alone(module: ModuleType):
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    names = {one.module for one in imports_of("file.py", text, frozenset[str]())}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_all_passes_are_seen(files: Files):
    seen = {
        name
        for path, text in files.items()
        if path not in PASS_BASES
        for one in passes_of(text)
        for _, name in names_in(one)
    }
    assert seen == get_all_passes().keys()


def test_nothing_of_penstock_imports_an_old_name(files: Files):
    assert [
        one for one in imports_in(files) if place_of(one.module) != one.module
    ] == []


PLANTED: Mapping[str, tuple[Rule, Files, str]] = {
    "up a floor": (
        rooms,
        {"runtime/core/a.py": "\nfrom penstock.runtime.loading import loader\n"},
        "runtime/core/a.py:2: runtime.core.a may not import runtime.loading (rule 1)",
    ),
    "to a neighbour": (
        rooms,
        {
            "lowering/plan/a.py": "def f():\n    import penstock.lowering.regst.b\n",
            "lowering/regst/b.py": "",
        },
        "lowering/plan/a.py:2: lowering.plan.a may not import lowering.regst.b "
        "(rule 1)",
    ),
    "to an inner room's neighbour": (
        rooms,
        {"lowering/codegen/cpu/a.py": "from penstock.lowering.codegen import target"},
        "lowering/codegen/cpu/a.py:1: lowering.codegen.cpu.a may not import "
        "lowering.codegen (rule 1)",
    ),
    "between folders": (
        rooms,
        {"lowering/plan/a.py": "from penstock.runtime.errors import PenstockError\n"},
        "lowering/plan/a.py:1: lowering.plan.a may not import runtime.errors (rule 1)",
    ),
    "of the package itself": (
        rooms,
        {"tools/cli/a.py": "import penstock\n"},
        "tools/cli/a.py:1: tools.cli.a may not import penstock (rule 1)",
    ),
    "in no room": (
        rooms,
        {"runtime/a.py": ""},
        "runtime/a.py:1: stands in no room of runtime (rule 1)",
    ),
    "of a pass": (
        passes,
        {
            "lowering/plan/a.py": "class APass(ModulePass):\n    name = 'plan-a'\n",
            "tools/cli/b.py": "from penstock.lowering.plan.a import f\n",
        },
        "tools/cli/b.py:1: imports lowering.plan.a, which defines a pass (rule 2)",
    ),
    "algorithms of IR": (
        free_of_ir,
        {"lowering/algorithms/a.py": "from xdsl.ir import Operation\n"},
        "lowering/algorithms/a.py:1: imports xdsl.ir (rule 3)",
    ),
    "runtime of IR, for types": (
        free_of_ir,
        {
            "runtime/core/a.py": "if TYPE_CHECKING:\n"
            "    from penstock.dialects.plan import TaskOp\n"
        },
        "runtime/core/a.py:2: imports penstock.dialects.plan (rule 4)",
    ),
    "kernels of the runtime": (
        kernels,
        {"runtime/kernels/cpu/a.py": "import numpy\nimport penstock.runtime.errors\n"},
        "runtime/kernels/cpu/a.py:2: imports penstock.runtime.errors (rule 5)",
    ),
    "kernels of a package": (
        kernels,
        {"runtime/kernels/cpu/a.py": "import scipy\n"},
        "runtime/kernels/cpu/a.py:1: imports scipy (rule 5)",
    ),
    "name of a pass": (
        names_of_passes,
        {"lowering/plan/a_b.py": "class A(ModulePass):\n    name = 'plan-b'\n"},
        "lowering/plan/a_b.py:2: pass plan-b should be plan-a-b (rule 6)",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str):
    rule, planted, line = PLANTED[name]
    assert rule(planted) == [line]


@pytest.mark.slow
def test_the_names_that_source_may_import_are_offered(files: Files):
    sources = {
        "cpu": "\n".join(cpu_imports(cpu_functions().keys())),
        "cuda": cuda_import({"Stage", *WRITTEN}),
    }
    assert imports_of_sources(sources, files) == []


WRITTEN = ("cuda", "first_item", "item_step", "load_4", "multiply_f16", "sqrt")


def test_a_name_that_no_kernel_module_defines_is_refused(files: Files):
    support = "penstock.runtime.kernels.cpu.support"
    planted = {"a": f"from {support} import f32, nothing\nfrom numba import njit\n"}
    assert imports_of_sources(planted, files) == [
        f"a:1: {support} has no nothing (rule 7)",
        "a:2: numba has no njit (rule 7)",
    ]
    for make in (cpu_imports, cuda_import):
        with pytest.raises(KeyError, match="nothing"):
            make({"f32", "nothing"})


def test_a_planted_cycle_is_found():
    planted = {
        "tools/cli/a.py": "from penstock.tools.cli import b\n",
        "tools/cli/b.py": "def f():\n    from penstock.tools.cli.c import g\n",
        "tools/cli/c.py": "if TYPE_CHECKING:\n    from penstock.tools.cli.b import f\n",
    }
    back = "from which an import leads back (rule 8)"
    assert cycles(planted) == [
        f"tools/cli/b.py:2: imports tools/cli/c.py, {back}",
        f"tools/cli/c.py:2: imports tools/cli/b.py, {back}",
    ]
