"""Plug-in points: registering, finding, interfaces, lists, and the digest of all."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from penstock import plugins
from penstock.plugins import (
    KINDS,
    PluginError,
    forget,
    plugin_of,
    plugins_of,
    register,
    registered,
    stated_interface,
)
from penstock.runtime.jit import package_digest
from penstock.tools.cli.plugin_list import list_text
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.plugin_digest import (
    codes_of_files,
    installed_plugins_text,
)
from penstock.tools.driver.plugins import load_files, universes_of, unload

KIND = "memory-planner"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)
    unload()
    plugins.look_again()
    installed_plugins_text.cache_clear()


def planner(name: str) -> None:
    @register(KIND, name)
    def theirs(problem: object, budget: object) -> list[int]:
        """
        Nothing at all.

        And more of it.
        """
        return []


def file_of(folder: Path, text: str, name: str = "acme.py") -> str:
    path = folder / name
    path.write_text(f"from penstock.plugins import register\n{text}", encoding="utf-8")
    return str(path)


PLANNER = 'register("memory-planner", "{}")(lambda problem, budget: [{}])\n'


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Let a package of this text offer a planner, in a folder that Python looks in."""
    (folder / "acme_site.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "acme_site", raising=False)
    entry = EntryPoint("theirs", "acme_site:plan", KINDS[KIND].group)
    monkeypatch.setattr(plugins, "entry_points", lambda: EntryPoints([entry]))
    plugins.look_again()


# Registering


def test_what_was_registered_is_found_with_its_place() -> None:
    planner("theirs")
    found = plugin_of(KIND, "theirs")
    assert found.call(1, 2) == []
    assert found.place.startswith(f"{__file__}:")
    assert registered(KIND) == [found]
    forget(__name__)
    with pytest.raises(PluginError, match="no memory planner 'theirs'"):
        plugin_of(KIND, "theirs")


def test_a_wrong_signature_is_told_with_its_place(tmp_path: Path) -> None:
    path = file_of(tmp_path, f'@register("{KIND}", "acme")\ndef plan(problem): ...\n')
    load_files([path], {})
    with pytest.raises(PluginError) as raised:
        plugin_of(KIND, "acme").call(1, 2)
    reason = "plan() takes 1 positional argument but 2 were given"
    text = f"memory planner 'acme' fails: TypeError: {reason} ({path}:2)"
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("kind", "name", "thing", "message"),
    [
        ("memory-planer", "a", print, "no kind .*, did you mean 'memory-planner'?"),
        (KIND, "", print, "a memory planner needs a name"),
        (KIND, "best", print, "there already is a memory planner 'best'$"),
        ("importer", ".Abc", print, "without its dot: 'abc', not '.Abc' "),
        (KIND, "a", 5, "memory planner 'a' is no function but of int"),
        ("pass", "a", int, "pass 'a' is no ModulePass but the class int"),
        ("dialect", "a", "x", "dialect 'a' is no Dialect but of str"),
        ("actor-kind", "case", print, "there already is an actor kind 'case'$"),
    ],
)
def test_what_cannot_be_registered(
    kind: str, name: str, thing: object, message: str
) -> None:
    with pytest.raises(PluginError, match=message):
        register(kind, name)(thing)


def test_a_name_is_taken_once_but_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner("theirs")
    with pytest.raises(PluginError, match="there already is a memory planner 'theirs'"):
        planner("theirs")
    monkeypatch.setitem(globals(), "__name__", "__main__")
    for _ in range(2):
        planner("mine")
    forget("__main__")


def test_a_file_that_is_loaded_again_runs_again_only_if_it_has_changed(
    tmp_path: Path,
) -> None:
    path = file_of(tmp_path, PLANNER.format("one", 1))
    os.utime(path, (1e9, 1e9))
    load_files([path], {})
    first = plugin_of(KIND, "one")
    load_files([path], {})
    assert plugin_of(KIND, "one") is first
    file_of(tmp_path, PLANNER.format("two", 2))
    # Of the same length and second, as what Python keeps of a module is known by.
    os.utime(path, (1e9, 1e9))
    load_files([path], {})
    assert [plugin.name for plugin in registered(KIND)] == ["two"]
    assert plugin_of(KIND, "two").call(None, None) == [2]


def test_a_file_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"{PLANNER.format('one', 1)}1 / 0\n")
    with pytest.raises(UsageError, match=r"acme.py:3: ZeroDivisionError"):
        load_files([path], {})
    assert registered(KIND) == []


def test_passes_of_a_program_join_those_of_files() -> None:
    from xdsl.passes import ModulePass

    class Mine(ModulePass):
        name = "mine"

        def apply(self, ctx: object, op: object) -> None: ...

    assert "this program" not in universes_of()
    register("pass", "mine")(Mine)
    assert universes_of()["this program"].all_passes["mine"]() is Mine


def test_a_module_registers_what_its_entry_point_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from penstock.plugins import register\n"
    text += (
        '@register("memory-planner", "theirs")\ndef plan(problem, budget): return []\n'
    )
    install(monkeypatch, tmp_path, text)
    for _ in range(2):
        found = plugin_of(KIND, "theirs")
        assert (found.call(1, 2), found.origin) == ([], "acme_site:plan")
    forget("acme_site")


def test_a_pass_that_a_universe_offers_may_be_registered_too() -> None:
    from xdsl.transforms.canonicalize import CanonicalizePass

    register("pass", "canonicalize")(CanonicalizePass)
    assert "this program" not in universes_of()


# Interfaces


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("x = 1\n", None),
        ("PENSTOCK_INTERFACE = '0.2'\n", "0.2"),
        ("def f():\n    PENSTOCK_INTERFACE = '7'\n", None),
        ("PENSTOCK_INTERFACE = '7'\nx = (\n", None),
        ("PENSTOCK_INTERFACE = 7\n", 7),
    ],
)
def test_the_interface_is_read_from_the_text(text: str, stated: object) -> None:
    assert stated_interface(text) == stated


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_files_of_these_interfaces_are_loaded(version: str, tmp_path: Path) -> None:
    text = f"PENSTOCK_INTERFACE = '{version}'\n{PLANNER.format('one', 1)}"
    load_files([file_of(tmp_path, text)], {})
    assert [plugin.name for plugin in registered(KIND)] == ["one"]


def test_another_interface_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "PENSTOCK_INTERFACE = '9.0'\nraise RuntimeError\n"
    expected = "is written for interface 9.0 of plug-ins; this version has 0.1 and 0.2"
    path = file_of(tmp_path, text)
    with pytest.raises(UsageError, match=f"^cannot load {path}: it {expected}$"):
        load_files([path], {})
    install(monkeypatch, tmp_path, text)
    with pytest.raises(PluginError, match=f"^acme_site:plan {expected}$"):
        plugin_of(KIND, "theirs")


def test_an_interface_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = file_of(tmp_path, "PENSTOCK_INTERFACE = 0.2\n")
    expected = 'it states no interface: PENSTOCK_INTERFACE is a text such as "0.2"'
    with pytest.raises(UsageError, match=expected):
        load_files([path], {})


def test_an_interface_that_no_text_shows_is_seen_by_registering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "PENSTOCK_INTERFACE", "9.0")
    with pytest.raises(PluginError, match=r"is written for interface 9.0"):
        planner("theirs")


# Lists


def test_kinds_are_listed_with_their_pages_and_the_plug_ins_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = file_of(tmp_path, PLANNER.format("one", 1))
    lines = list_text(universes_of([path]), "").splitlines()
    assert all(any(line.startswith(f"{kind} (") for line in lines) for kind in KINDS)
    assert "  one of acme.py:2" in lines
    assert any(line.endswith("; docs/plugins/memory-planner.md") for line in lines)


def test_plug_ins_of_a_kind_are_listed_with_origin_and_sentence() -> None:
    planner("theirs")
    text = list_text({}, KIND)
    assert re.search(r"^best +penstock \S+ +All rules, then branch", text, re.M)
    assert re.search(
        r"^theirs .*test_plugin_points.py:\d+ +Nothing at all.$", text, re.M
    )


def test_the_list_as_json() -> None:
    planner("theirs")
    (row,) = json.loads(list_text({}, KIND, as_json=True))
    assert (row["kind"], row["documented"]) == (KIND, KINDS[KIND].page)
    assert {"theirs", "best"} <= {plugin["name"] for plugin in row["plugins"]}


def test_an_installed_plug_in_is_listed_even_if_it_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "1 / 0\n")
    text = list_text({}, KIND)
    assert re.search(r"theirs +acme_site:plan .*cannot be loaded: ZeroDivision", text)
    with pytest.raises(PluginError, match="cannot be loaded: ZeroDivisionError"):
        plugins_of(KIND)
    install(monkeypatch, tmp_path, "plan = lambda problem, budget: []\n")
    assert plugin_of(KIND, "theirs").call(1, 2) == []
    install(monkeypatch, tmp_path, "plan = 5\n")
    with pytest.raises(PluginError, match="is no function but of int"):
        plugin_of(KIND, "theirs")


# The digest


def test_the_digest_is_of_what_files_say_and_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes_of_files() == ()
    path = file_of(tmp_path, PLANNER.format("one", 1))
    first = codes_of_files([path])
    assert first == codes_of_files([path]) != ()
    load_files([path], {})
    # It is there for all that this process compiles.
    assert codes_of_files() == first
    file_of(tmp_path, PLANNER.format("one", 2))
    assert codes_of_files([path]) != first
    file_of(tmp_path, "import acme_helper\n")
    before = codes_of_files([path])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "acme_helper.py").write_text("x = 1\n")
    for name in ("_digest", "_imports_of", "_places", "code_of"):
        getattr(package_digest, name).cache_clear()
    assert codes_of_files([path]) != before
    with pytest.raises(UsageError, match=r"cannot load .*none.py: no such file"):
        codes_of_files([str(tmp_path / "none.py")])
