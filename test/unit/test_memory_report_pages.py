"""The memory report and its page, against counts made here from the text of plans."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    r'regst\.register "([^"]+)" in %(\w+) at (\d+) slots 1 .*'
    r"tensor<([0-9x]+)x(f32|i1)>>"
)
TASK = re.compile(
    r"plan\.task .* order (\d+) ins\((.*?)(?: : .*?)?\)(?: outs\((.*?) : .*?\))?"
    r"(?: waits.*)?(?: signals.*)? \{"
)


def run(*arguments: str) -> str:
    """What penstock-opt prints."""
    command = [sys.executable, "-m", "penstock.tools.opt", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plan of the encoder layer without aliases, in a file."""
    path = tmp_path_factory.mktemp("report") / "plan.mlir"
    path.write_text(run(str(ROOT / "examples" / "encoder.mlir"), "-p", TO_PLAN))
    return path


def live_bytes(text: str) -> list[int]:
    """The bytes alive at each step in the shared block, from the text alone."""
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        if found := REGISTER.search(line):
            extents = [int(extent) for extent in found[4].split("x")]
            size = 4 if found[5] == "f32" else 1
            for extent in extents:
                size *= extent
            if found[2] != "variables":
                sizes[line.split("=")[0].strip()] = size
    uses: dict[str, list[int]] = {name: [] for name in sizes}
    steps = 0
    for order, ins, outs in TASK.findall(text):
        steps = max(steps, int(order) + 1)
        for name in re.findall(r"%\w+", f"{ins} {outs}"):
            if name in uses:
                uses[name].append(int(order))
    return [
        sum(sizes[n] for n, at in uses.items() if at and min(at) <= step <= max(at))
        for step in range(steps)
    ]


def test_live_bytes_are_those_counted_from_the_text(plan: Path) -> None:
    report = json.loads(run(str(plan), "-t", "memory-report{format=json}"))
    (zone,) = report["plans"][0]["zones"]
    blocks = {b["name"]: b for chunk in zone["chunks"] for b in chunk["blocks"]}
    shared = next(b for name, b in blocks.items() if "variables" not in name)
    expected = live_bytes(plan.read_text())
    assert len(expected) > 20
    assert shared["live"] == expected
    assert shared["bound"] == max(expected)
    assert expected[shared["peak_step"]] == max(expected)


class Shapes(HTMLParser):
    """The names and the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v for key, v in attrs if key in ("src", "href") and v]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_each_register_and_needs_nothing_else(
    plan: Path, tmp_path: Path
) -> None:
    page = tmp_path / "map.html"
    run(str(plan), "--memory-map", str(page), "-o", str(tmp_path / "out.mlir"))
    shapes = Shapes()
    shapes.feed(page.read_text())
    names = REGISTER.findall(plan.read_text())
    assert shapes.tags.count("rect") >= len(names) > 20
    for name, *_ in names:
        assert name in shapes.text
    assert not [link for link in shapes.links if not link.startswith("#")]


def test_the_page_is_the_same_each_time(plan: Path, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        run(str(plan), "--memory-map", str(page), "-o", str(tmp_path / "out.mlir"))
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_the_page_of_a_pipeline_is_that_of_its_plan(tmp_path: Path) -> None:
    page = tmp_path / "map.html"
    job = str(ROOT / "examples" / "digits.mlir")
    run(job, "--pipeline", "cpu", "--memory-map", str(page), "-o", f"{page}.mlir")
    assert "<title>Memory of @digits</title>" in page.read_text()
