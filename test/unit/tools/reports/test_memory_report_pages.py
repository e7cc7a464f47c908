"""The memory report and its page, against counts made here from the text of plans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from penstock.tools.cli.opt import run_tool

ROOT = Path(__file__).parents[4]
STREAMS = "plan-assign-streams{streams=2}"
TO_PLAN = ",".join(
    (
        "op-infer-shapes",
        "job-clean",
        "job-place",
        "op-fuse-elementwise",
        "job-clean",
        "convert-job-to-plan",
        "plan-order-tasks",
        "plan-assign-streams",
        "plan-create-registers",
        "regst-plan-memory",
    )
)
REGISTER = re.compile(
    r'(%\S+) = regst\.register "([^"]+)" in (%\w+) at (\d+) slots 1 .*'
    r"tensor<([0-9x]+)x(f32|i1)>>"
)
TASK = re.compile(
    r'plan\.task "([^"]+)" .* order (\d+) ins\((.*?)(?: : .*?)?\)'
    r"(?: outs\((.*?) : .*?\))?(?: waits.*)?(?: signals.*)? \{"
)

Json: TypeAlias = "dict[str, Any]"
"""The result of `json.loads` for a report, whose keys the tests name."""


def run(*arguments: str) -> str:
    """The output of penstock-opt."""
    printed = StringIO()
    with redirect_stdout(printed):
        assert run_tool(arguments) == 0
    return printed.getvalue()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of the encoder layer without aliases, in a file."""
    path = tmp_path_factory.mktemp("report") / "plan.mlir"
    path.write_text(run(str(ROOT / "examples" / "encoder.mlir"), "-p", TO_PLAN))
    return path


def report_of(path: Path) -> Json:
    """The report of the one plan in a file."""
    (found,) = json.loads(run(str(path), "-t", "memory-report{format=json}"))["plans"]
    return found


def blocks_of(report: Json) -> Iterator[Json]:
    """All blocks of a plan."""
    for zone in report["zones"]:
        for chunk in zone["chunks"]:
            yield from chunk["blocks"]


# Counting


@dataclass
class Text:
    """The facts in the text of a plan on one stream."""

    text: str

    def __post_init__(self) -> None:
        self.bytes: dict[str, int] = {}
        self.name: dict[str, str] = {}
        self.place: dict[str, tuple[str, int]] = {}
        for value, name, block, at, shape, element in REGISTER.findall(self.text):
            size = 4 if element == "f32" else 1
            for extent in shape.split("x"):
                size *= int(extent)
            self.bytes[name], self.name[value] = size, name
            self.place[name] = block, int(at)
        self.uses: dict[str, list[int]] = {name: [] for name in self.bytes}
        self.tasks: dict[int, str] = {}
        for task, order, ins, outs in TASK.findall(self.text):
            self.tasks[int(order)] = task
            for value in re.findall(r"%[^\s,)]+", f"{ins} {outs}"):
                if value in self.name:
                    self.uses[self.name[value]].append(int(order))

    def alive_at(self, step: int) -> list[str]:
        """The registers that some task needs at a step or both before and after it."""
        return [
            name for name, at in self.uses.items() if at and min(at) <= step <= max(at)
        ]


@pytest.fixture(scope="module")
def text(plan: Path) -> Text:
    return Text(plan.read_text(encoding="utf-8"))


def test_live_bytes_are_those_counted_from_the_text(plan: Path, text: Text) -> None:
    variables = {name for name, (block, _) in text.place.items() if "variab" in block}
    assert len(text.tasks) > 20
    assert variables
    for block in blocks_of(report_of(plan)):
        names = {register["name"] for register in block["registers"]}
        if names & variables:
            assert block["live"] == [block["bound"]] * len(text.tasks)
            continue
        expected = [
            sum(text.bytes[name] for name in text.alive_at(step) if name in names)
            for step in range(len(text.tasks))
        ]
        assert block["live"] == expected
        assert block["bound"] == max(expected)
        assert block["peak_step"] == expected.index(max(expected))


def test_steps_places_and_owners_are_those_of_the_text(plan: Path, text: Text) -> None:
    report = report_of(plan)
    order = [step["task"] for step in report["steps"]]
    assert order == [text.tasks[step] for step in sorted(text.tasks)]
    seen = 0
    for block in blocks_of(report):
        registers = {register["name"]: register for register in block["registers"]}
        for name, register in registers.items():
            seen += 1
            assert register["offset"] == text.place[name][1]
            assert register["bytes"] == text.bytes[name]
            if not register["always"]:
                steps = text.uses[name]
                assert (register["first"], register["last"]) == (min(steps), max(steps))
        if not any(register["always"] for register in registers.values()):
            alive = [n for n in text.alive_at(block["peak_step"]) if n in registers]
            alive.sort(key=lambda name: -text.bytes[name])
            sizes = [text.bytes[name] for name in block["owners"]]
            assert sizes == [text.bytes[name] for name in alive[:10]]
            assert set(block["owners"]) <= set(alive)
    assert seen == len(text.bytes)


def test_registers_that_share_bytes_are_counted_pair_by_pair(plan: Path) -> None:
    for zone in report_of(plan)["zones"]:
        for chunk in zone["chunks"]:
            spans = {
                register["name"]: range(
                    register["address"], register["address"] + register["bytes"]
                )
                for block in chunk["blocks"]
                for register in block["registers"]
            }
            for block in chunk["blocks"]:
                for register in block["registers"]:
                    own = spans[register["name"]]
                    others = (s for n, s in spans.items() if n != register["name"])
                    common = (
                        range(max(own.start, s.start), min(own.stop, s.stop))
                        for s in others
                    )
                    assert register["shares"] == sum(map(bool, common))


def test_rates_and_sums_follow_from_registers(plan: Path) -> None:
    for block in blocks_of(report_of(plan)):
        ends = [r["offset"] + r["bytes"] for r in block["registers"]]
        assert block["size"] == max(ends)
        assert block["ratio"] == pytest.approx(block["size"] / block["bound"], abs=1e-6)
        assert block["sum"] >= sum(r["bytes"] for r in block["registers"])


@pytest.mark.parametrize("guard", ["none", "stream", "all"])
def test_plans_on_streams_are_never_below_the_bound(guard: str, tmp_path: Path) -> None:
    passes = TO_PLAN.replace("plan-assign-streams", STREAMS)
    passes = passes.replace("regst-plan-memory", f"regst-plan-memory{{guard={guard}}}")
    path = tmp_path / "plan.mlir"
    path.write_text(run(str(ROOT / "examples" / "encoder.mlir"), "-p", passes))
    report = report_of(path)
    assert len(report["streams"]) == 2
    for block in blocks_of(report):
        assert max(block["live"]) <= block["bound"] <= block["size"]
        for register in block["registers"]:
            reasons = " ".join(register["reasons"])
            assert ("may be in use with it" in reasons) == (register["unordered"] > 0)
            if register["shares"] == 0:
                assert register["reasons"]


# The page


class Shapes(HTMLParser):
    """The names, the elements and the figures of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.rects: list[dict[str, str]] = []
        self.figures: list[list[dict[str, str]]] = []
        self.captions: list[str] = []
        self.text = ""
        self._in_caption = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value for key, value in attrs if value is not None}
        self.tags.append(tag)
        self.links += [found[key] for key in ("src", "href") if key in found]
        if tag == "figure":
            self.figures.append([])
        if tag == "rect":
            self.figures[-1].append(found)
        if tag == "figcaption":
            self.captions.append("")
            self._in_caption = True

    def handle_endtag(self, tag: str) -> None:
        self._in_caption = self._in_caption and tag != "figcaption"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_caption:
            self.captions[-1] += data


@pytest.fixture(scope="module")
def page(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "map.html"
    run(str(plan), "--memory-map", str(path), "-o", str(folder / "out.mlir"))
    return path


def test_the_page_shows_each_register_and_needs_nothing_else(
    page: Path, text: Text
) -> None:
    shapes = Shapes(page.read_text(encoding="utf-8"))
    assert shapes.tags.count("rect") == len(text.bytes) > 20
    for name in text.bytes:
        assert name in shapes.text
    assert not [link for link in shapes.links if not link.startswith("#")]


def test_the_data_of_the_page_is_the_report(page: Path, plan: Path) -> None:
    found = re.search(
        r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    assert json.loads(found[1])["plans"] == [report_of(plan)]


def test_rectangles_lie_where_the_report_says(page: Path, plan: Path) -> None:
    report = report_of(plan)
    shapes, steps = Shapes(page.read_text(encoding="utf-8")), len(report["steps"])
    blocks = list(blocks_of(report))
    assert len(shapes.figures) == len(shapes.captions) == len(blocks)
    for rects, caption, block in zip(
        shapes.figures, shapes.captions, blocks, strict=True
    ):
        assert f"{block['ratio']:.3f} x the bound" in caption
        assert f"at byte {block['offset']}," in caption
        lowest = max(float(rect["y"]) + float(rect["height"]) for rect in rects)
        assert len(rects) == len(block["registers"])
        for rect in rects:
            register = block["registers"][int(rect["data-i"])]
            x, y, width, height = (
                float(rect[key]) for key in ("x", "y", "width", "height")
            )
            assert x / 1000 * steps == pytest.approx(register["first"], abs=1e-3)
            end = register["last"] + 1
            assert (x + width) / 1000 * steps == pytest.approx(end, abs=1e-3)
            low = (lowest - y - height) / lowest * block["size"]
            assert low == pytest.approx(register["offset"], rel=1e-3, abs=1)
            high = height / lowest * block["size"]
            assert high == pytest.approx(register["bytes"], rel=1e-2, abs=1)


def test_the_page_is_the_same_each_time(page: Path, plan: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.html"
    run(str(plan), "--memory-map", str(again), "-o", str(tmp_path / "out.mlir"))
    assert again.read_bytes() == page.read_bytes()


def test_the_page_of_a_pipeline_is_that_of_its_plan(tmp_path: Path) -> None:
    page = tmp_path / "map.html"
    job = str(ROOT / "examples" / "digits.mlir")
    run(job, "--pipeline", "cpu", "--memory-map", str(page), "-o", f"{page}.mlir")
    assert "<title>Memory of @digits</title>" in page.read_text()
