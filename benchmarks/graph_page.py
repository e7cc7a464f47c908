"""
The page of a graph of 5,000 tasks in a browser: opening, unfolding, and frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.report import Section, Table
from penstock.tools.reports.view.page import page_of

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp

HELPERS = Path(__file__).parents[1] / "test" / "helpers"

TEXT = """\
Milliseconds in Chromium without a window, 1280 x 900. *Open* is the time from the start
of the page to its first picture, *a group* the longest time from a click on a group to
the frame that shows it unfolded, *all* the same for all groups at once. Frames are
those while the unfolded graph is moved, the whole of it in sight and in a size that can
be read, and the longest one while groups are unfolded."""

LIMITS = {"open": 2000.0, "group": 1000.0, "frame": 50.0}
"""The most that a figure may be, in milliseconds."""

MEASURE = """
(async () => {
  await graphView.settled;
  const frame = () => new Promise(requestAnimationFrame);
  let longest = 0, isWatching = true;
  const watch = async () => {
    for (let before = await frame(); isWatching;) {
      const now = await frame();
      longest = Math.max(longest, now - before);
      before = now;
    }
  };
  const timed = async act => {
    const start = performance.now();
    await act();
    await frame();
    await frame();
    return performance.now() - start;
  };
  const move = async () => {
    const times = [];
    let before = await frame();
    for (let i = 0; i < 40; i++) {
      graphView.y -= 25;
      graphView.draw();
      const now = await frame();
      times.push(now - before);
      before = now;
    }
    times.sort((a, b) => a - b);
    return { median: times[20], high: times[37] };
  };
  while (!document.documentElement.dataset.drawn) await frame();
  const found = { open: Number(document.documentElement.dataset.drawn) };
  const watching = watch();
  found.group = 0;
  const closed = graphView.picture.groups.map((group, i) => [group, i])
    .filter(([group]) => !group.open).slice(0, 8);
  for (const [, i] of closed) {
    found.group = Math.max(found.group, await timed(() => graphView.toggle(i)));
    await graphView.toggle(i);
  }
  found.all = await timed(
    () => graphView.apply({ what: "all", open: true }, true));
  isWatching = false;
  await watching;
  found.longest = longest;
  found.boxes = graphView.picture.nodes.length;
  found.lines = graphView.picture.hasArrow.length;
  graphView.fit();
  found.whole = await move();
  graphView.scale = 0.8;
  found.near = await move();
  return found;
})()
"""


def graph_page() -> Section:
    """Measure the page of some large programs."""
    sys.path.insert(0, str(HELPERS))
    from large_programs import gpt, inception

    programs: Mapping[str, Callable[[], ProgramOp]] = {
        "GPT, 385 layers": lambda: gpt(385),
        "4 heads each, 210 layers": lambda: gpt(210, 4),
        "620 inception blocks": lambda: inception(620),
    }
    found = {name: measured(make()) for name, make in programs.items()}
    rows = [
        [
            name,
            f"{facts['tasks']:,}",
            *(f"{facts[key]:.0f}" for key in ("open", "group", "all", "longest")),
            *(
                f"{facts[key]['median']:.0f} / {facts[key]['high']:.0f}"
                for key in ("whole", "near")
            ),
        ]
        for name, facts in found.items()
    ]
    header = ["program", "tasks", "open", "a group", "all", "longest frame"]
    header += ["whole, median / 95th", "near, median / 95th"]
    problems = [text for name, facts in found.items() for text in slow(name, facts)]
    return Section(
        "The graph page", TEXT, [Table(header, rows)], found, tuple(problems)
    )


def slow(name: str, facts: Mapping[str, Any]) -> list[str]:
    """The figures of a program that are above their limits."""
    frames = max(facts["longest"], facts["whole"]["high"], facts["near"]["high"])
    seen = {"open": facts["open"], "group": facts["group"], "frame": frames}
    return [
        f"{name}: {key} takes {value:.0f} ms, more than {LIMITS[key]:.0f}"
        for key, value in seen.items()
        if value > LIMITS[key]
    ]


def measured(program: ProgramOp) -> dict[str, Any]:
    """The figures of the page of a program."""
    from browser import Browser, require_browser

    with TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(page_of(program), encoding="utf-8")
        browser = Browser(require_browser(), Path(folder))
        try:
            with browser.open(path) as tab:
                facts = tab.run(MEASURE)
        finally:
            browser.close()
        size = path.stat().st_size
    return {"tasks": len(program.actors), "bytes": size, **facts}
