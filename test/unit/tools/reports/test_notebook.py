"""Objects that notebooks show: what IPython is given for them, and how it looks."""

from __future__ import annotations

import re
from html import unescape
from operator import methodcaller
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from browser import Browser

import penstock
from penstock import Tensor
from penstock.notebook import Displayed
from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.chrome_trace import Trace
from penstock.tools.driver.errors import UsageError
from penstock.tools.reports.memory_map.map import MemoryMap
from penstock.tools.reports.notebook import memory_map, page_for
from penstock.tools.session.session import Session

EXAMPLES = Path(__file__).parents[4] / "examples"
PROGRAM = EXAMPLES / "program.mlir"

shown = methodcaller("_repr_html_")
"""The question of IPython to an object."""


@penstock.job
def squares(x: Annotated[Tensor, (8, 4), "f32"]) -> Any:
    """A job whose shapes are known."""
    return np.tanh(x * x) @ x.T


@penstock.job
def open_job(x: Annotated[Tensor, ("n", 4), "f32"]) -> Any:
    """A job whose shapes differ from call to call."""
    return np.tanh(x)


FRAME = re.compile(
    r'<iframe sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe>'
)


def page_in(html: str) -> str:
    """The page in a frame that may run scripts, and nothing else."""
    found = FRAME.fullmatch(html)
    assert found is not None
    return unescape(found[1])


@pytest.mark.slow
def test_jobs_and_sessions_show_their_programs() -> None:
    job, traced = page_in(shown(squares)), page_in(shown(squares.trace()))
    assert "<title>@squares</title>" in job
    assert job == traced
    with Session.open(PROGRAM) as session:
        page = page_in(shown(session))
        assert "<title>@squares</title>" in page
        assert page_in(shown(session.executable)) == page


def test_traces_show_their_time_line() -> None:
    trace = Trace()
    html = shown(trace)
    assert html.startswith("<pre>")
    assert "the trace was attached to no program" in html
    with Session.open(PROGRAM) as session:
        session.executor.observers.attach(trace)
        inputs = {
            port.name: np.ones(port.shape, port.dtype)
            for port in session.inputs().values()
        }
        session.run(inputs)
    page = page_in(shown(trace))
    assert '"first":"line"' in page
    assert '"tracks":[{"name":"runs"' in page


def test_memory_maps_show_themselves_and_are_written(tmp_path: Path) -> None:
    found = memory_map(squares, threads=2, planners="best, best-fit")
    page = page_in(shown(found))
    assert "<title>Memory of @squares</title>" in page
    assert '<tr data-planner="1"><td>best-fit</td>' in page
    found.write(tmp_path / "map.html")
    assert (tmp_path / "map.html").read_text(encoding="utf-8") == page
    assert len(found.reports[0].streams) == 2
    again = memory_map(EXAMPLES / "digits.mlir", planners="none")
    assert "@digits" in again.page


PLANNED = "set regst-plan-memory.algorithm=first-fit-time"


@penstock.job(edits=[PLANNED])
def edited(x: Annotated[Tensor, (8, 4), "f32"]) -> Any:
    """A job whose planner is another one."""
    return np.tanh(x)


def bytes_of(found: MemoryMap) -> int:
    """The bytes of all memory."""
    return sum(zone.usage.size for report in found.reports for zone in report.zones)


@pytest.mark.slow
def test_memory_maps_are_of_the_pipeline_that_was_asked_for() -> None:
    assert memory_map(edited).page == memory_map(edited.trace()).page
    encoder = EXAMPLES / "encoder.mlir"
    usual = memory_map(encoder, planners="none")
    other = memory_map(encoder, planners="none", edits=[PLANNED])
    assert bytes_of(other) > bytes_of(usual)
    with pytest.raises(UsageError, match="plan-memory"):
        memory_map(squares, edits=["set regst-plan-memoru.algorithm=best"])
    with pytest.raises(PenstockError, match="no memory planner 'bset'"):
        memory_map(squares, edits=["set regst-plan-memory.algorithm=bset"])


def test_jobs_that_cannot_be_shown_say_why() -> None:
    html = shown(open_job)
    assert html.startswith("<pre>&lt;job open_job")
    assert "takes different shapes: trace it with an example" in html
    with pytest.raises(PenstockError, match="trace it with an example"):
        memory_map(open_job)
    with pytest.raises(UsageError, match="no memory planner 'bset'"):
        memory_map(squares, planners="bset")
    with pytest.raises(UsageError, match=r"cannot read nothing\.mlir"):
        memory_map("nothing.mlir")
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'"):
        memory_map(squares, **{"thread": 2})  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="no page shows a Displayed"):
        page_for(Displayed())


def test_pages_run_in_the_frames_of_notebooks(browser: Browser, tmp_path: Path) -> None:
    frames = [shown(memory_map(squares)), shown(squares)]
    # The pages tell the notebook that their scripts came to their end.
    told = "<script>parent.postMessage(find('#side').textContent, '*')</script></body>"
    frames = [f.replace("&lt;/body&gt;", told.replace("<", "&lt;")) for f in frames]
    listen = "<script>var told = []; onmessage = e => told.push(e.data)</script>"
    (page := tmp_path / "notebook.html").write_text(
        f"<!doctype html><body>{listen}{''.join(frames)}</body>", encoding="utf-8"
    )
    with browser.open(page) as tab:
        assert sorted(tab.run("told")) == [
            "Click a register.",
            "Click a task, a register or a slice.",
        ]
        assert tab.is_quiet()
