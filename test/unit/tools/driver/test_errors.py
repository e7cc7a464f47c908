"""The family of exceptions: one root, exported and documented; and their texts."""

from __future__ import annotations

import ast
import pickle
import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from xdsl.ir import Block, Region

import penstock
from penstock import errors
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.diagnostics import (
    Place,
    told,
    user_place,
)
from penstock.lowering.algorithms.packing import (
    Lifetime,
    PackingError,
    Problem,
    registry,
)
from penstock.lowering.launch.autotune.alternatives import (
    Alternative,
    Request,
    Variant,
)
from penstock.lowering.launch.autotune.choice import candidates_for
from penstock.plugins import PluginError, forget, register
from penstock.runtime.errors import PenstockError, how_to_install
from penstock.tools.driver.errors import Diagnosis, InternalError, Rejected, UsageError
from penstock.tools.session.session import Session

ROOT = Path(__file__).parents[4]

CAUGHT_INSIDE = {
    *("AlreadyReported", "BadLoop", "CannotFollow", "Declined", "ExampleError"),
    *("FiguresError", "NotPrintedError", "UndefinedNames", "Unsupported"),
    *("VerifierCrash", "_Changed"),
}
"""Those of `runtime` and `tools` that no caller ever sees."""

MODEL = """job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  job.output "y", %x : tensor<2xf32>
}
"""


def exceptions_in(folder: str) -> Iterator[tuple[str, list[str]]]:
    """The names of exception classes in the source of a folder, with their bases."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    yield node.name, bases


def test_every_exception_that_reaches_a_caller_is_exported() -> None:
    found = {*exceptions_in_both()} - CAUGHT_INSIDE
    assert found == {*errors.__all__} - {"Diagnosis"}


def exceptions_in_both() -> Iterator[str]:
    for folder in ("runtime", "tools"):
        yield from (name for name, _ in exceptions_in(folder))


def test_every_exception_has_one_root() -> None:
    for name in {*errors.__all__} - {"Diagnosis"}:
        assert issubclass(getattr(errors, name), PenstockError), name
    assert penstock.PenstockError is PenstockError


def test_every_exception_is_documented() -> None:
    text = (ROOT / "docs" / "failures.md").read_text()
    for name in {*errors.__all__} - {"Diagnosis"}:
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("extra", ["bf16", "cuda", "onnx", "safetensors"])
def test_packages_are_named_by_what_can_be_installed(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"][extra]
    names = [re.split("[<>=]", text)[0] for text in wanted]
    program, verb, *found = shlex.split(how_to_install(extra))
    assert (program, verb) == ("pip", "install")
    assert [re.split("[<>=]", text)[0] for text in found] == names


def test_an_extra_without_metadata_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("penstock.runtime.errors.requires", missing)
    assert how_to_install("onnx") == "the extra 'onnx' of Penstock"


def test_rejected_tells_places_and_notes() -> None:
    error = Rejected(
        [
            Diagnosis(Place("a.mlir", 2, 1), "one", ("  a note", "  another")),
            Diagnosis(None, "two"),
        ]
    )
    assert str(error) == "a.mlir:2:1: one\n  a note\n  another\ntwo"
    error.file = "b.mlir"
    assert str(error).splitlines()[-1] == "b.mlir: two"
    assert str(Rejected([Diagnosis(None, "a\x1b[1m")])) == "a\\x1b[1m"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_defect_tells_where_and_why() -> None:
    error = InternalError("pass cse")
    error.__cause__ = KeyError("x")
    assert str(error) == "internal error in pass cse: KeyError: 'x'; please report it"


def refused(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Rejected) as caught:
        Session.open(path)
    return str(caught.value)


def test_sessions_of_files_tell_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.mlir"
    wrong = MODEL.replace("%x : tensor<2xf32>\n}", "%x : tensor<3xf32>\n}")
    assert refused(path, wrong).startswith(f"{path}:3:")
    one = "the module should hold one job, plan or program, got"
    assert refused(path, "") == f"{path}:1:1: {one} 0"
    program = "launch.program @b rank 0 { ^bb0: }"
    assert refused(path, MODEL + program) == f"{path}:5:1: {one} 2"
    unplaced = MODEL.replace("}\n", "} loc(unknown)\n")
    assert refused(path, unplaced + program) == f"{path}:5:1: {one} 2"


def test_what_has_no_line_has_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*args: object, **options: object) -> None:
        raise Rejected([Diagnosis(None, "nowhere in particular")])

    monkeypatch.setattr("penstock.tools.session.model.lower", reject)
    path = tmp_path / "a.mlir"
    assert refused(path, MODEL) == f"{path}: nowhere in particular"


def test_files_that_are_not_there_are_named() -> None:
    with pytest.raises(UsageError) as caught:
        Session.open("none.mlir")
    assert str(caught.value) == "cannot read none.mlir: no such file or directory"
    assert isinstance(caught.value, PenstockError)


def plugin(tmp_path: Path, body: str) -> Path:
    """A file of a user's, with a function `fail` of this body."""
    path = tmp_path / "acme.py"
    path.write_text(f"def fail(*args, **options):\n    {body}\n", encoding="utf-8")
    return path


def load(path: Path) -> Any:
    spec = spec_from_file_location("acme_plugin", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.fail


def test_a_packer_that_raises_is_named_with_its_line(tmp_path: Path) -> None:
    path = plugin(tmp_path, "return [1][5]")
    register("memory-planner", "acme")(load(path))
    try:
        with pytest.raises(PackingError) as caught:
            registry.pack(Problem([Lifetime(0, 1, 4)] * 2), "acme")
    finally:
        forget(__name__)
    assert str(caught.value) == (
        f"memory planner 'acme' fails: IndexError: list index out of range ({path}:2)"
    )


@pytest.mark.parametrize("what", ["refuse", "variants", "cost"])
def test_an_alternative_that_raises_is_named_with_its_line(
    what: str, tmp_path: Path
) -> None:
    path = plugin(tmp_path, "raise RuntimeError('no')")
    fail = load(path)

    class Acme(Alternative):
        name = "acme"
        priority = 5

        def refuse(self, request: Request) -> str | None:
            return fail() if what == "refuse" else None

        def variants(self, request: Request) -> Iterator[Variant]:
            if what == "variants":
                fail()
            yield from (Variant(lambda kernel: None, n, fail) for n in ("a", "b"))

    kernel = KernelOp("k", "cpu", Region(Block()))
    with pytest.raises(PluginError) as caught:
        candidates_for(Request(kernel), [Acme()])
    text = str(caught.value)
    assert text.startswith("the alternative 'acme' of ")
    assert text.endswith(f" fails: RuntimeError: no ({path}:2)")


def test_the_line_of_a_plug_in_is_the_last_one_that_is_not_ours(tmp_path: Path) -> None:
    path = plugin(tmp_path, "import json; json.loads('{')")
    with pytest.raises(ValueError, match="Expecting property name") as caught:
        load(path)()
    assert told(caught.value).endswith(f" ({path}:2)")
    place = user_place(caught.value)
    assert place == Place(str(path), 2, 1)
