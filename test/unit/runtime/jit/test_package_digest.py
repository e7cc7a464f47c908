"""Keys cover the code of other packages: by version, or by content if it can change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.runtime.jit import package_digest
from penstock.runtime.jit.cpu import key_of
from penstock.runtime.jit.package_digest import code_of, code_of_plugins, packages_in

TOOLS = "llvmlite", "numba", "numpy", "onnx", "xdsl"


def forget() -> None:
    """Look at packages again, as a new process does."""
    for name in ("_digest", "_imports_of", "_places", "code_of"):
        getattr(package_digest, name).cache_clear()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python searches, with packages that can be edited."""
    site = tmp_path / "source"
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    write(site / "acme_plugin/__init__.py", "from acme_plugin.passes import a\n")
    write(site / "acme_plugin/passes.py", "    import acme_tools, json, numpy\n")
    write(site / "acme_tools.py", "from acme_deep.inside import x\n")
    write(site / "acme_deep/inside.py", "x = 1\n")
    forget()
    yield site
    forget()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_imports_of_a_text() -> None:
    text = (
        "import os, sys\nfrom acme.deep import x\n  import other as o\nimport numpy\n"
    )
    assert packages_in(text) == {"acme", "other"}
    assert packages_in("from .near import x\n# import nothing\n") == set()


@pytest.mark.parametrize("package", TOOLS)
def test_an_installed_package_is_known_by_its_version(package: str) -> None:
    assert code_of(package) == f"{package} {package_digest.version_of(package)}"


@pytest.mark.parametrize(
    "file",
    ["acme_plugin/passes.py", "acme_tools.py", "acme_deep/inside.py"],
)
def test_what_a_plugin_is_made_of_is_known_by_content(site: Path, file: str) -> None:
    before = code_of_plugins(["acme_plugin"])
    assert [text.split()[0] for text in before] == [
        *("acme_deep", "acme_plugin", "acme_tools"),
    ]
    forget()
    assert code_of_plugins(["acme_plugin"]) == before
    with (site / file).open("a") as text:
        text.write("# changed\n")
    forget()
    assert code_of_plugins(["acme_plugin"]) != before


def test_an_installed_plugin_is_known_by_content_and_what_it_needs_by_version(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = site.parent / "site-packages"
    site.rename(installed)
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    before = code_of_plugins(["acme_plugin"])
    assert [text for text in before if text.split()[1] == "unknown"] == [
        "acme_tools unknown"
    ]
    write(installed / "acme_plugin/passes.py", "import acme_tools\n")
    forget()
    assert code_of_plugins(["acme_plugin"]) != before


def test_a_package_that_is_not_there_is_no_error(site: Path) -> None:
    assert code_of_plugins(["acme_nowhere"])[0].startswith("acme_nowhere ")


def test_kernels_are_kept_by_the_content_of_what_they_import(site: Path) -> None:
    text = (
        "from acme_tools import helper\n"
        "from penstock.runtime.kernels.cpu.matmul.tile import x\n"
    )
    before = key_of(text)
    forget()
    assert key_of(text) == before
    write(site / "acme_deep/inside.py", "x = 2\n")
    forget()
    assert key_of(text) != before
