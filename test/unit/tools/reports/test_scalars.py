"""The page of a log of scalars: curves, their axes, and gaps."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from draws import fresh

from penstock.tools.cli.view import run_tool
from penstock.tools.data.scalars import ScalarLog
from penstock.tools.reports.scalars.curves import (
    HEIGHT,
    MOST_PARTS,
    WIDTH,
    page_of,
    round_step,
    scale_of,
    thinned,
)


def svg_of(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(x) for x in re.findall(r"<svg.*?</svg>", page, re.S)]


def points_of(line: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in line.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_each_scalar_is_a_curve_over_its_steps(tmp_path: Path) -> None:
    log = ScalarLog(tmp_path / "run.jsonl")
    for step, loss in enumerate((4.0, 2.0, 3.0, 0.0)):
        log.add(10 * step, loss=loss, **{"a<b": 1.0} if step == 2 else {})
    page = page_of(log)
    dot, curve = svg_of(page)
    (line,) = curve.iter("polyline")
    # From the first step to the last, and from the highest value to the lowest.
    third = round(WIDTH / 3, 1)
    assert points_of(line) == [
        (0, 0),
        (third, HEIGHT / 2),
        (round(WIDTH * 2 / 3, 1), HEIGHT / 4),
        (WIDTH, HEIGHT),
    ]
    texts = [text.text for text in curve.iter("text")]
    assert texts == [*"01234", "0", "5", "10", "15", "20", "25", "30"]
    assert "last 0 at step 30, lowest 0 at step 30, highest 4 at step 0" in page
    assert "<h2>a&lt;b</h2>" in page
    assert len([*dot.iter("circle")]) == 1
    assert "http" not in "".join(re.findall(r"(?:src|href)=.{20}", page))


def test_values_that_are_no_numbers_leave_a_gap(tmp_path: Path) -> None:
    log = ScalarLog(tmp_path / "run.jsonl")
    for step, loss in enumerate((1.0, 2.0, float("nan"), float("inf"), 3.0, 4.0)):
        log.add(step, loss=loss, broken=float("nan"))
    page = page_of(log)
    (curve,) = svg_of(page)
    assert [len(points_of(line)) for line in curve.iter("polyline")] == [2, 2]
    assert "2 of 6 values are no finite numbers" in page
    assert "last nan at step 5, 6 of 6 values are no finite numbers" in page


def test_a_long_log_keeps_its_peaks() -> None:
    values = fresh().normal(size=10_007)
    points = [(step, float(value)) for step, value in enumerate(values)]
    found = thinned(points)
    assert len(found) <= 2 * MOST_PARTS
    assert found == sorted(found)
    assert {*found} <= {*points}
    kept = [value for _, value in found]
    assert (max(kept), min(kept)) == (values.max(), values.min())
    for part in range(MOST_PARTS):
        start, end = (len(points) * x // MOST_PARTS for x in (part, part + 1))
        inside = [value for step, value in found if start <= step < end]
        assert max(inside) == values[start:end].max()


def test_ticks_are_round() -> None:
    steps = [round_step(x) for x in (0.011, 0.02, 3, 5, 5.1, 99)]
    assert steps == pytest.approx([0.02, 0.02, 5, 5, 10, 100])
    assert scale_of([0.31, 0.29], 1).ticks(4) == pytest.approx(
        [0.29, 0.295, 0.3, 0.305, 0.31]
    )
    # Equal values lie in the middle.
    for value in (0.0, -3.0, 7.0):
        assert scale_of([value], 10).at(value) == 5


def test_the_command_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, page = ScalarLog(tmp_path / "run.jsonl"), tmp_path / "run.html"
    log.add(1, loss=0.5)
    assert run_tool([str(log.path), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == page_of(log)
    capsys.readouterr()
    for words, message in (
        ([str(log.path)], "nothing to write: give -o"),
        (
            [str(log.path), "--to-dot", "-"],
            f"{log.path} is a log of scalars: it has a page only, -o",
        ),
    ):
        assert run_tool(words) == 2
        assert capsys.readouterr().err == f"penstock-view: error: {message}\n"
    log.path.write_text("{\n")
    assert run_tool([str(log.path), "-o", str(page)]) == 1
    assert f"{log.path}:1 is no JSON" in capsys.readouterr().err
    log.path.write_text("")
    assert "There are no scalars yet." in page_of(log)
