"""The kit of pages in a browser: the theme, tables, words, and the side pane."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import DESKTOP, SCREENS, Browser, Pictures, Screen

from penstock.tools.reports.page.assemble import Page, beside

BODY = """
<table class="sortable"><thead><tr><th>name</th><th class="number">bytes</th></tr>
</thead><tbody>
<tr><td>b</td><td class="number" data-value="2048">2.0 KiB</td></tr>
<tr><td>c</td><td class="number" data-value="300">300 B</td></tr>
<tr><td>a</td><td class="number" data-value="10">10 B</td></tr>
</tbody></table>
"""

SEARCH = '<input id="search" type="search"><output id="found"></output>'

SCRIPT = """
serveSearch(text => ["one", "two", "three"].filter(word => word.includes(text)),
  found => showSide(element("p", found.join())), word => showSide(element("b", word)));
showSide(...links("things", [["first", "note", () => showSide(element("i", "went"))]]));
let looks = 0;
onLook(() => looks++);
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "own.js").write_text(SCRIPT, encoding="utf-8")
    scripts = beside(str(tmp_path / "module.py"), "own.js")
    made = Page("A page", "A page", [SEARCH], [BODY], {"key": [1]}, [], scripts)
    (path := tmp_path / "page.html").write_text(made.text(), encoding="utf-8")
    return path


COLOUR = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(251, 251, 250)", "rgb(22, 24, 28)"


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_pages_fit_and_are_quiet(browser: Browser, page: Path, screen: Screen) -> None:
    with browser.open(page, screen) as tab:
        assert tab.run(COLOUR) == (DARK if screen.is_dark else LIGHT)
        assert tab.run("document.documentElement.scrollWidth") == screen.width
        assert tab.run('document.fonts.check(`600 12px "Penstock Sans"`)')
        assert tab.run("data.key[0]") == 1
        assert tab.is_quiet()


def test_the_theme_is_switched(browser: Browser, page: Path) -> None:
    with browser.open(page, DESKTOP) as tab:
        seen = [(tab.text("#theme"), tab.run(COLOUR))]
        for _ in range(3):
            tab.click("#theme")
            seen.append((tab.text("#theme"), tab.run(COLOUR)))
        assert seen == [
            ("Theme: auto", LIGHT),
            ("Theme: light", LIGHT),
            ("Theme: dark", DARK),
            ("Theme: auto", LIGHT),
        ]
        assert tab.run('colourOf("--page")') == LIGHT
        before = tab.run("looks")
        tab.look(DESKTOP._replace(is_dark=True))
        tab.rest()
        assert tab.run(COLOUR) == tab.run('colourOf("--page")') == DARK
        assert tab.run("looks") > before
        assert tab.is_quiet()


NAMES = 'all("tbody tr").map(row => row.cells[0].textContent).join("")'


def test_tables_sort_by_what_is_clicked(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        seen = [tab.run(NAMES)]
        for column in (1, 1, 2, 2):
            tab.click(f"th:nth-child({column}) button")
            order = f'find("th:nth-child({column})").ariaSort'
            seen.append(f"{tab.run(NAMES)} {tab.run(order)}")
        assert seen == [
            "bca",
            "abc ascending",
            "cba descending",
            "bca descending",
            "acb ascending",
        ]
        assert tab.run('all("th[aria-sort]").length') == 1
        made = (
            'sortable(["a", ["b", "number"]], [["x", ["1 B", 1]], ["y", ["2 B", 2]]])'
        )
        tab.run(f"document.body.append({made})")
        tab.run('all("table")[1].querySelectorAll("button")[1].click()')
        assert tab.run('all("table")[1].tBodies[0].textContent') == "y2 Bx1 B"


def test_search_goes_from_one_to_the_next(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        tab.type("#search", "T")
        seen = [(tab.text("#found"), tab.text("#side"))]
        for shift in (False, False, False, True):
            tab.press("Enter", shift=shift)
            seen.append((tab.text("#found"), tab.text("#side")))
        assert seen == [
            ("2 found", "two,three"),
            ("1 of 2", "two"),
            ("2 of 2", "three"),
            ("1 of 2", "two"),
            ("2 of 2", "three"),
        ]
        tab.type("#search", "")
        assert tab.text("#found") == ""


def test_links_of_the_side_pane_act(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        assert tab.text("#side") == "thingsfirstnote"
        tab.click("#side li button")
        assert tab.text("#side") == "went"


WORDS = """[bytes(0), bytes(1023), bytes(1536), bytes(5 * 2 ** 40), exactBytes(10),
  exactBytes(1536), time(0.5), time(1500), time(2.5e6), shortTime(1500)]"""


def test_sizes_and_times_have_units(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        assert tab.run(WORDS) == [
            "0 B",
            "1023 B",
            "1.5 KiB",
            "5.0 TiB",
            "10 B",
            "1.5 KiB (1,536)",
            "0.500 \u00b5s",
            "1.500 ms",
            "2.500 s",
            "1.5 ms",
        ]


MEASURED = """(() => {
  const context = new OffscreenCanvas(9, 9).getContext("2d");
  context.font = `2048px ${FONT}`;
  const texts = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i));
  const isOff = text =>
    Math.abs(context.measureText(text).width - textWidth(text, 2048)) > 1;
  return [...texts, "AVATo"].filter(isOff);
})()"""


def test_widths_of_the_table_are_those_of_the_font(
    browser: Browser, page: Path
) -> None:
    with browser.open(page) as tab:
        assert tab.run(MEASURED) == []
        assert tab.run('cut("abcdef", 12, 1000)') == "abcdef"
        short = tab.run('cut("abcdefghij", 12, 40)')
        assert short.endswith("\u2026")
        assert tab.run(f"textWidth({short[:-1]!r}, 12)") <= 40 - 1770 * 12 / 2048
        assert tab.run('cut("abcdef", 12, 5)') == ""


SPOT = """element("b", "", { style:
  "background: red; position: fixed; left: 8px; top: 99px; width: 32px; height: 32px" })
"""


def test_pictures_that_differ_are_told(
    browser: Browser, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept := tmp_path / "kept").mkdir()
    pictures = Pictures(browser, kept, tmp_path)
    monkeypatch.delenv("RENEW_PICTURES", raising=False)
    with browser.open(page, Screen(300, 300)) as tab:
        with pytest.raises(FileNotFoundError):
            pictures.compare(tab, "kit")
        monkeypatch.setenv("RENEW_PICTURES", "1")
        pictures.compare(tab, "kit")
        monkeypatch.delenv("RENEW_PICTURES")
        pictures.compare(tab, "kit")
        tab.run(f"document.body.append({SPOT})")
        with pytest.raises(AssertionError, match=r"kit-phone-light\.png is not like"):
            pictures.compare(tab, "kit")
        assert (tmp_path / "kit-phone-light.png").exists()
