"""The kit of pages: what a page is made of, and that it needs nothing else."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

from penstock.tools.reports.page.assemble import FOLDER, Page, beside, inert

ROOT = Path(__file__).parents[4]
NASTY = "</script><img src=x onerror=alert(1)> $style ${data} & 'q'"


def page(tmp_path: Path) -> str:
    """A page with a style and a script of its own."""
    (tmp_path / "own.css").write_text("main { color: red; }", encoding="utf-8")
    (tmp_path / "own.js").write_text("find(`${data}`);", encoding="utf-8")
    module = str(tmp_path / "module.py")
    styles, scripts = beside(module, "own.css"), beside(module, "own.js")
    views = ['<div class="view" id="one"></div>', "$kept"]
    return Page(NASTY, "Head", [], views, {"text": NASTY}, styles, scripts).text()


class Seen(HTMLParser):
    """The elements of a page by name, and all that they load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [name for name, _ in attrs if name in ("src", "href", "onerror")]


def test_a_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    text = page(tmp_path)
    seen = Seen(text)
    assert not seen.loads
    assert seen.tags.count("script") == 3
    assert seen.tags.count("style") == 1
    assert "img" not in seen.tags
    assert "default-src 'none'" in text
    urls = re.findall(r"url\(.{0,30}", text)
    assert len(urls) == 2
    assert all(url.startswith('url("data:font/woff2;base64,') for url in urls)
    assert "The Inter Project Authors" in text
    assert "SIL Open Font License, Version 1.1" in text


def test_dollars_in_data_scripts_and_views_are_kept(tmp_path: Path) -> None:
    text = page(tmp_path)
    found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == {"text": NASTY}
    assert "find(`${data}`);" in text
    assert "\n$kept\n" in text


def test_styles_and_scripts_stand_in_the_order_given(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert text.index("--page:") < text.index("main { color: red; }")
    assert text.index("function serveSearch") < text.index("find(`${data}`)")


def test_json_ends_no_script() -> None:
    assert "<" not in inert([NASTY])
    assert json.loads(inert([NASTY])) == [NASTY]


def test_all_files_of_pages_are_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = settings["tool"]["setuptools"]["package-data"]["*"]
    rooms = [x for x in FOLDER.parent.iterdir() if x.is_dir()]
    for room in (x for x in rooms if x.name != "__pycache__"):
        for path in room.rglob("*"):
            parts = path.relative_to(room).parts
            if path.is_dir() or "__pycache__" in parts or path.suffix == ".py":
                continue
            assert any(matches(pattern, parts) for pattern in shipped), path
    assert "tools/reports/page/font/OFL.txt" in settings["project"]["license-files"]
    assert "OFL-1.1" in settings["project"]["license"]


def matches(pattern: str, parts: tuple[str, ...]) -> bool:
    """Whether setuptools takes a file for a pattern, in which * is no folder."""
    words = pattern.split("/")
    return len(words) == len(parts) and all(map(fnmatch, parts, words))
