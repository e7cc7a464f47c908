"""
Jobs, executables, memory maps and traces in notebooks: the pages of `penstock-view` and
of `--memory-map`, each in a frame of its own, which loads nothing.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Unpack

from penstock.notebook import Displayed
from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.chrome_trace import Trace
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.python.jobs import Job, TracedJob
from penstock.tools.reports.memory.planners import DEFAULT, planners_of
from penstock.tools.reports.memory.reports import reports_of
from penstock.tools.reports.memory_map.map import MemoryMap
from penstock.tools.reports.view.page import page_of
from penstock.tools.reports.view.trace_file import trace_of
from penstock.tools.session.executable import Executable
from penstock.tools.session.joined_ranks import join_ranks
from penstock.tools.session.model import (
    Model,
    lower,
    programs_of,
    read_model,
)
from penstock.tools.session.options import (
    DEFAULTS,
    CompileOptions,
    Keywords,
    joined,
    with_keywords,
)
from penstock.tools.session.session import Session

HEIGHT = 560
"""The pixels of a frame."""


def html_of(value: Displayed) -> str:
    """The page of an object in a frame, or else the reason why it has none."""
    try:
        page = page_for(value)
    except PenstockError as error:
        return f"<pre>{escape(repr(value))}\n{escape(str(error))}</pre>"
    # The page may run its script, but has nothing of the notebook.
    return (
        f'<iframe sandbox="allow-scripts" style="width: 100%; height: {HEIGHT}px; '
        f'border: 1px solid #8888" srcdoc="{escape(page)}"></iframe>'
    )


def page_for(value: Displayed) -> str:
    """
    The page of an object.

    Raises PenstockError for a job that cannot be traced or compiled, and for a trace of
    nothing.
    """
    match value:
        case MemoryMap():
            return value.page
        case Trace():
            return trace_page(value)
        case Executable():
            return page_of(value.program)
        case Session():
            return page_of(value.program)
        case Job() | TracedJob():
            options = value.options
            front = installed_compiler(options.load)
            model = model_of(value)
            lower(*front, model, options)
            return page_of(join_ranks(programs_of(model)).program)
        case _:
            raise TypeError(f"no page shows a {type(value).__name__}")


def trace_page(trace: Trace) -> str:
    """The page of a trace. Raises PenstockError if it was attached to no program."""
    if (image := trace.image) is None:
        raise PenstockError("the trace was attached to no program")
    return page_of(image, trace_of(json.loads(trace.to_json())), first="line")


def model_of(source: Job | TracedJob | str | Path) -> Model:
    """
    A job in Python, or a file of IR, to compile.

    Raises PenstockError if it cannot be traced or read.
    """
    if isinstance(source, Job):
        source = source.trace()
    if isinstance(source, TracedJob):
        return source.model()
    return read_model(installed_compiler()[0], Path(source))


def memory_map(
    source: Job | TracedJob | str | Path,
    options: CompileOptions = DEFAULTS,
    *,
    planners: str = ",".join(DEFAULT),
    **keywords: Unpack[Keywords],
) -> MemoryMap:
    """
    The memory map of a job in Python, or of a file of IR, that a notebook shows, and
    that `write` keeps as a page.

    * `source`: a job without open extents, what `Job.trace` returns, or a file.
    * `options`: all that it is compiled for; `keywords` are single ones, as `Session`
      takes them.
    * `planners`: the memory planners that are compared: names with commas between,
      `all`, or `none`.

    Raises PenstockError for what cannot be compiled, and for unknown planners.

    ```python
    from typing import Annotated

    import penstock


    @penstock.job
    def double(x: Annotated[penstock.Tensor, (4, 4), "f32"]):
        return penstock.ops.tanh(x + x)


    found = penstock.memory_map(double, threads=2)
    assert "Memory of @double" in found.page
    ```
    """
    chosen = with_keywords(options, keywords)
    if isinstance(source, (Job, TracedJob)):
        chosen = joined(chosen, source.options)
    front = installed_compiler(chosen.load)
    names = planners_of(planners)
    model = model_of(source)
    lower(*front, model, chosen, "memory")
    return MemoryMap(reports_of(model.module), names)
