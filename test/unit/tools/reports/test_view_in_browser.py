"""The memory and the time line of `penstock-view`: sums, runs and ranks."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from browser import SCREENS, Browser, Pictures, Screen, Tab

from penstock.runtime.observe.trace_of_ranks import (
    RankTrace,
    text_of,
    trace_of_ranks,
)
from penstock.runtime.program.executable import ProgramImage
from penstock.tools.cli.view import run_tool
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.program_export import image_of
from penstock.tools.session.program_file import program_in, programs_in

ENCODER = Path(__file__).parents[4] / "examples" / "encoder.mlir"

RANKS = """
!t = tensor<64x64xf32>
job.job @two placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <xavier_uniform, seed = 1> : !t
  %a = op.matmul %x, %w : !t, !t -> !t
  %b = op.softmax %a axis 1 : !t -> !t
  job.output "y", %b : !t
}
"""

Json: TypeAlias = "dict[str, Any]"

RUNS, GAP = 3, 50.0
"""The runs of the trace, and the microseconds between them."""


class Act(NamedTuple):
    """An act of a task, in microseconds."""

    task: str
    stream: int
    start: float
    duration: float


@cache
def image_in(path: Path, options: CompileOptions) -> ProgramImage:
    """The program of a file."""
    return image_of(program_in(path, options))


def acts_of(image: ProgramImage) -> Iterator[tuple[list[Act], float]]:
    """The acts of each run, one after the other, and the start of the run."""
    now = 0.0
    for run in range(RUNS):
        acts: list[Act] = []
        begin = now
        for index, actor in enumerate(image.actors):
            duration = 1.0 + (index * 7 + run * 3) % 11
            acts.append(Act(actor.name, actor.stream, now, duration))
            now += duration
        yield acts, begin
        now += GAP


def trace_of(image: ProgramImage) -> Json:
    """A trace in which tasks act one after the other, in times that are made up."""
    events: list[Json] = []
    for tid, name in enumerate(["runs", "stream 0 (cpu)", "stream 1 (cpu)"]):
        head: Json = {"ph": "M", "name": "thread_name", "pid": 1, "tid": tid}
        events.append({**head, "args": {"name": name}})
    for run, (acts, begin) in enumerate(acts_of(image)):
        end = acts[-1].start + acts[-1].duration
        whole: Json = {"ph": "X", "name": "run", "cat": "run", "pid": 1, "tid": 0}
        events.append({**whole, "ts": begin, "dur": end - begin, "args": {"run": run}})
        for act in acts:
            slice: Json = {"ph": "X", "name": act.task, "cat": "task", "pid": 1}
            times: Json = {"tid": act.stream + 1, "ts": act.start, "dur": act.duration}
            events.append({**slice, **times, "args": {"act": run, "run": run}})
        first = acts[0]
        idle: Json = {"ph": "X", "name": "waits", "cat": "idle", "pid": 1, "tid": 2}
        args = {"task": first.task, "missing": "piece", "register": "x/out"}
        events.append({**idle, "ts": begin, "dur": first.duration, "args": args})
    other = {"program": image.name, "version": 1}
    return {"otherData": other, "traceEvents": events}


def page_of(folder: Path, model: Path, *arguments: str) -> Path:
    """The page of a model, with a trace of it."""
    options = CompileOptions(threads=2, simulate_ranks="--simulate-ranks" in arguments)
    trace, page = folder / "trace.json", folder / "view.html"
    trace.write_text(json.dumps(trace_of(image_in(model, options))), encoding="utf-8")
    command = [str(model), "--threads", "2", *arguments]
    assert run_tool([*command, "--trace", str(trace), "-o", str(page)]) == 0
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("view"), ENCODER)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    (model := folder / "ranks.mlir").write_text(RANKS, encoding="utf-8")
    return page_of(folder, model, "--simulate-ranks")


# The time line -----------------------------------------------------------------------

ROWS = """all("#side tbody tr").map(row =>
  [row.cells[0].textContent, ...[1, 2].map(i => Number(row.cells[i].dataset.value))])"""


def sums_between(start: float, end: float) -> dict[str, tuple[int, float]]:
    """The acts and the microseconds of each task between two moments."""
    counts: Counter[str] = Counter()
    times: defaultdict[str, float] = defaultdict(float)
    for acts, _ in acts_of(image_in(ENCODER, CompileOptions(threads=2))):
        for act in acts:
            part = min(end, act.start + act.duration) - max(start, act.start)
            if part > 0:
                counts[act.task] += 1
                times[act.task] += part
    return {task: (counts[task], times[task]) for task in counts}


def shown(tab: Tab) -> dict[str, tuple[int, float]]:
    """The sums that the side pane shows."""
    return {task: (acts, total) for task, acts, total in tab.run(ROWS)}


def assert_same(
    found: dict[str, tuple[int, float]], wanted: dict[str, tuple[int, float]]
) -> None:
    assert {t: acts for t, (acts, _) in found.items()} == {
        t: acts for t, (acts, _) in wanted.items()
    }
    for task, (_, total) in wanted.items():
        assert found[task][1] == pytest.approx(total, abs=1e-6)


def choose_run(tab: Tab, run: str) -> None:
    change = 'dispatchEvent(new Event("change"))'
    tab.run(f'find("#run").value = "{run}"; find("#run").{change}')
    tab.rest()


def test_a_run_fills_the_window_and_is_summed(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        tab.click("[data-view=line]")
        assert tab.run('find("#run").length') == RUNS + 1
        choose_run(tab, "1")
        acts, start = list(acts_of(image_in(ENCODER, CompileOptions(threads=2))))[1]
        end = acts[-1].start + acts[-1].duration
        left, right, width = tab.run(
            "[lineView.range[0], lineView.range[1]].map(t => lineView.x + "
            "t * lineView.scale).concat(lineView.canvas.clientWidth)"
        )
        assert tab.run("lineView.range") == [start, end]
        assert 150 <= left < right <= width
        assert right - left > 0.9 * (width - 150)
        inside = {act.task: (1, act.duration) for act in acts}
        assert_same(shown(tab), inside)
        choose_run(tab, "")
        assert tab.text("#side h2") == "All runs"
        assert_same(shown(tab), sums_between(0, 1e9))
        tab.run('all("#side th button")[0].click()')
        names = [row[0] for row in tab.run(ROWS)]
        assert names == sorted(names)
        assert tab.is_quiet()


def test_a_drag_with_shift_selects_a_time(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        tab.click("[data-view=line]")
        before = tab.run("lineView.x")
        drag_over(tab, 400, 700, shift=True)
        start, end = tab.run("lineView.range")
        assert tab.run("lineView.x") == before
        assert tab.run("[400, 700].map(x => (x - lineView.x) / lineView.scale)") == [
            pytest.approx(start),
            pytest.approx(end),
        ]
        assert_same(shown(tab), sums_between(start, end))
        assert "selected" in tab.text("#side h2")
        drag_over(tab, 400, 700)
        assert tab.run("lineView.x") == before + 300
        tab.click("#select")
        drag_over(tab, 300, 500)
        assert tab.run("lineView.range") != [start, end]
        tab.click("#side tbody button")
        assert tab.text("#side h2") in sums_between(0, 1e9)
        assert tab.is_quiet()


def drag_over(tab: Tab, left: float, right: float, *, shift: bool = False) -> None:
    """Drag over the time line, between two places of its canvas."""
    x, y = tab.run(
        "(({ left, top }) => [left, top])(lineView.canvas.getBoundingClientRect())"
    )
    modifiers = 8 if shift else 0
    steps = ("mousePressed", left), ("mouseMoved", right), ("mouseReleased", right)
    for kind, at in steps:
        tab.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x + at,
            y=y + 300,
            button="left",
            buttons=1,
            clickCount=1,
            modifiers=modifiers,
        )
    tab.rest()


LIT = """all("#memory rect.on").map(rectName).sort()"""
OF_TASK = """(([task]) => [...tasks[task].reads, ...tasks[task].writes]
  .map(r => registers[r]).filter(r => r.bytes !== undefined).map(r => r.name).sort())
  ([tasks.findIndex(task => task.name === "s0")])"""


def test_the_registers_of_a_task_light_up(browser: Browser, page: Path) -> None:
    with browser.open(page) as tab:
        tab.type("#search", "s0")
        tab.press("Enter")
        assert tab.text("#side h2") == "s0"
        tab.click("[data-view=memory]")
        found = tab.run(LIT)
        assert found == tab.run(OF_TASK)
        assert len(found) >= 3
        tab.press("Escape")
        assert tab.run(LIT) == []
        assert tab.is_quiet()


# Ranks -------------------------------------------------------------------------------


def test_memory_and_time_of_a_rank_are_shown_alone(
    browser: Browser, ranks: Path
) -> None:
    zones = 'all("#memory section").filter(zone => zone.offsetParent)'
    with browser.open(ranks) as tab:
        assert not tab.run('Boolean(find("#ranks").offsetParent)')
        tab.click("[data-view=memory]")
        found = tab.run(f"{zones}.map(zone => zone.dataset.rank)")
        assert sorted(set(found)) == ["0", "1"]
        tab.click('#ranks [data-rank="1"]')
        assert set(tab.run(f"{zones}.map(zone => zone.dataset.rank)")) == {"1"}
        tab.click("[data-view=line]")
        names = "lineView.tracks.map(track => track.name)"
        of_rank = tab.run(names)
        tab.click('#ranks [data-rank=""]')
        everything = tab.run(names)
        assert set(of_rank) < set(everything)
        assert "runs" in of_rank
        assert tab.is_quiet()


def test_one_time_line_has_the_runs_of_all_ranks(
    browser: Browser, tmp_path: Path
) -> None:
    (model := tmp_path / "ranks.mlir").write_text(RANKS, encoding="utf-8")
    traces = [
        RankTrace(trace_of(image_of(program)), later)
        for program, later in zip(programs_in(model), (0, 2000), strict=True)
    ]
    (trace := tmp_path / "trace.json").write_text(text_of(trace_of_ranks(traces)))
    page = tmp_path / "view.html"
    assert run_tool([str(model), "--trace", str(trace), "-o", str(page)]) == 0
    names = "lineView.tracks.map(track => track.name)"
    with browser.open(page) as tab:
        tab.click("[data-view=line]")
        everything = tab.run(names)
        assert {name.partition(":")[0] for name in everything} == {"rank 0", "rank 1"}
        tab.click('#ranks [data-rank="1"]')
        assert tab.run(names) == [x for x in everything if x.startswith("rank 1")]
        tab.click('#ranks [data-rank=""]')
        assert tab.run('find("#run").length') == RUNS + 1
        choose_run(tab, "0")
        # From the start of the one to the end of the other, 2 us later.
        ends = [
            2.0 * rank
            + max(
                x["ts"] + x["dur"]
                for x in each.trace["traceEvents"]
                if x.get("cat") == "run" and x["args"]["run"] == 0
            )
            for rank, each in enumerate(traces)
        ]
        assert tab.run("lineView.range") == [0, pytest.approx(max(ends))]
        assert tab.is_quiet()


# Pictures ----------------------------------------------------------------------------


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_pictures_of_memory_and_time(
    browser: Browser, pictures: Pictures, page: Path, screen: Screen
) -> None:
    with browser.open(page, screen) as tab:
        assert tab.run("document.documentElement.scrollWidth") == screen.width
        tab.click("[data-view=line]")
        choose_run(tab, "1")
        pictures.compare(tab, "time-line")
        tab.run('find("#search").focus()')
        tab.press("Escape")
        tab.click("[data-view=memory]")
        pictures.compare(tab, "memory")
        assert tab.is_quiet()
