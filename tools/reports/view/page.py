"""
The page that `penstock-view` writes: it loads nothing, and all names in it are text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from penstock.dialects.launch import ProgramOp
from penstock.runtime.program.executable import ProgramImage
from penstock.tools.reports.memory import Block, Report, Usage, plan_title
from penstock.tools.reports.memory.as_json import plan_json
from penstock.tools.reports.memory_map.map import (
    HATCH,
    OTHER,
    PICTURE_SCRIPT,
    PICTURE_STYLE,
    VARIABLE,
    Picture,
    frame_lines,
    rank_lines,
)
from penstock.tools.reports.page.assemble import Page, beside
from penstock.tools.reports.view.bodies import memory_of_body
from penstock.tools.reports.view.data import Graph, trace_json
from penstock.tools.reports.view.memory import memory_of
from penstock.tools.reports.view.trace_file import TraceFile
from penstock.tools.session.report import counted, size_text

COLOURS = (
    "#6ba3d6",
    "#f2a65a",
    "#77bf7f",
    "#e5827f",
    "#b799d2",
    "#5fc2c0",
    "#dcc24a",
    "#d995bd",
)
"""The colours of the ops that most tasks have."""

SCRIPTS = (
    "facts.js",
    "panel.js",
    "canvas.js",
    "layout_service.js",
    "graph.js",
    "time_line.js",
    "memory.js",
    "main.js",
)
"""The scripts of the page, each of which may use those before it."""


ENGINE = (
    "vendor/dagre.min.js.LEGAL.txt",
    "vendor/dagre.min.js",
    "graph_data.js",
    "groups.js",
    "layout.js",
)
"""The scripts that lay out a graph, with the notice of those that are not ours."""

GROUPS = {
    "scope": "scope",
    "block": "block",
    "chain": "chain",
    "stream": "stream",
    "device": "device",
    "none": "nothing",
}
"""The ways to group tasks, and their names on the page."""

COLOURINGS = ("kind", "device", "time", "bytes")
"""The facts that a task's colour may tell."""


def palette_of(kinds: Sequence[str]) -> dict[str, str]:
    """The colour of each kind of task that has one of its own."""
    counts = Counter(kinds)
    ranked = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return dict(zip(ranked, COLOURS, strict=False))


def page_of(
    program: ProgramOp | ProgramImage,
    trace: TraceFile | None = None,
    first: str = "graph",
) -> str:
    """
    The whole page for a program, and for a trace of it if there is one; `first` is the
    view that is open at first: `graph`, `memory` or `line`.
    """
    graph = Graph(program)
    image = graph.image
    found = [memory_of_body(body) for body in graph.bodies.values()]
    bodies = [report for report in found if report is not None]
    memory = memory_of(image, graph.kinds, graph.ranks, bodies)
    palette = palette_of(graph.kinds)
    tasks = {actor.name: index for index, actor in enumerate(image.actors)}
    data = {
        "graph": graph.to_json(),
        "memory": plan_json(memory),
        "trace": None if trace is None else trace_json(trace, tasks),
        "palette": palette,
        "colours": COLOURS,
        "first": first,
    }
    streams = {actor.stream for actor in image.actors}
    title = f"@{image.name}"
    facts = (
        f"{counted(len(image.actors), 'task')}, {counted(len(image.kernels), 'kernel')}"
        f", {counted(len(streams), 'stream')}"
    )
    return Page(
        title=title,
        heading=f"{escape(title)} <small>{facts}</small>",
        header=[
            *controls(memory, has_trace=trace is not None),
            *graph_options(),
            *legend(palette),
        ],
        views=[
            HATCH,
            *canvas_view("graph", "The graph of tasks"),
            '<div class="view" id="memory" hidden>',
            *memory_lines(memory, palette),
            "</div>",
            *canvas_view("line", "The time line"),
        ],
        data=data,
        styles=[PICTURE_STYLE, *beside(__file__, "view.css")],
        scripts=[PICTURE_SCRIPT, *beside(__file__, *SCRIPTS)],
        engine=beside(__file__, *ENGINE),
    ).text()


def controls(memory: Report, *, has_trace: bool) -> list[str]:
    """The buttons of the views and of ranks, if there are several, and the search."""
    disabled = "" if has_trace else ' disabled title="give --trace to see one"'
    return [
        '<div class="controls"><nav role="tablist">',
        '<button role="tab" data-view="graph">Tasks</button>',
        '<button role="tab" data-view="memory">Memory</button>',
        f'<button role="tab" data-view="line"{disabled}>Time line</button>',
        "</nav>",
        *rank_lines(memory.zones),
        '<input id="search" type="search" placeholder="Search tasks and ops"'
        ' aria-label="Search tasks and ops" autocomplete="off">',
        '<output id="found" for="search"></output>',
        "</div>",
    ]


def graph_options() -> list[str]:
    """The choices of how the graph is grouped and coloured, and what it shows."""
    groups = (f'<option value="{key}">{name}</option>' for key, name in GROUPS.items())
    colours = (f"<option>{name}</option>" for name in COLOURINGS)
    return [
        '<div class="controls" id="graph-options">',
        f'<label>Groups <select id="by">{"".join(groups)}</select></label>',
        f'<label>Colours <select id="colour">{"".join(colours)}</select></label>',
        '<label><input type="checkbox" value="1"> Orders</label>',
        '<label><input type="checkbox" value="2"> Memory guards</label>',
        '<nav><button id="unfold">Unfold all</button>',
        '<button id="fold">Fold all</button></nav>',
        "</div>",
        '<div class="controls" id="line-options" hidden></div>',
    ]


def legend(palette: Mapping[str, str]) -> list[str]:
    """The legend of the colours."""
    items = [
        f'<li><i style="background:{colour}"></i>{escape(kind)}</li>'
        for kind, colour in palette.items()
    ]
    return ['<ul class="legend">', *items, "</ul>"]


def canvas_view(name: str, label: str) -> list[str]:
    """A view that the script draws, and that can be moved and zoomed."""
    return [
        f'<div class="view" id="{name}" hidden>',
        f'<canvas tabindex="0" role="img" aria-label="{label}"></canvas>',
        '<div class="tools">',
        '<button data-zoom="1.5" aria-label="Zoom in">+</button>',
        '<button data-zoom="0.667" aria-label="Zoom out">&minus;</button>',
        '<button data-zoom="0">Fit</button>',
        "</div></div>",
    ]


def memory_lines(report: Report, palette: Mapping[str, str]) -> list[str]:
    """The pictures of all chunks, and below them those of the memory of bodies."""
    lines = zone_lines(0, report, palette)
    for number, body in enumerate(report.bodies, start=1):
        lines += ['<details class="body"><summary>', escape(plan_title(body))]
        lines += ["</summary>", *zone_lines(number, body, palette), "</details>"]
    lines.append(
        "<p>Steps are tasks in the order in which the program lists them, in a body "
        "the steps of an iteration. Grey is a variable, hatched is what lies on the "
        "bytes of something else, and the line is how many bytes are alive.</p>"
    )
    return lines


def zone_lines(number: int, report: Report, palette: Mapping[str, str]) -> list[str]:
    """The pictures of the chunks of a report; `number` is its place in the data."""
    lines: list[str] = []
    for z, zone in enumerate(report.zones):
        lines.append(f'<section data-rank="{zone.rank}">')
        lines.append(f"<h3>Memory {escape(zone.memory_case)}</h3>")
        for c, chunk in enumerate(zone.chunks):
            for b, block in enumerate(chunk.blocks):
                lines += figure_lines(f"{number}.{z}.{c}.{b}", report, block, palette)
        lines.append("</section>")
    return lines


def figure_lines(
    key: str, report: Report, block: Block, palette: Mapping[str, str]
) -> list[str]:
    """The picture of a block; `key` is that of its data for the script."""
    picture, usage = Picture.of(report, block), block.usage
    classes = {kind: f"c{rank}" for rank, kind in enumerate(palette)}
    kinds = {register.op for register in block.registers if register.op is not None}
    colours = {OTHER: VARIABLE, **{kind: classes.get(kind, OTHER) for kind in kinds}}
    # Without the bound, which one order of steps is not enough to know.
    label = "Memory over steps"
    return [
        f'<figure class="block" data-key="{key}">',
        f"<figcaption>{size_text(usage.size)}, {peak_text(report, usage)}</figcaption>",
        *frame_lines(report, block, picture, colours, label, has_bound=False),
        "</figure>",
    ]


def peak_text(report: Report, usage: Usage) -> str:
    """The ratio of activations to their bound, or the peak of live bytes."""
    text = f"at most {size_text(usage.bound)} alive"
    if usage.ratio is not None:
        bound = size_text(usage.bound)
        peak = size_text(round(usage.ratio * usage.bound))
        text = f"activations {peak} ({usage.ratio:.3f} x the bound of {bound})"
    if usage.peak_step is None or not report.steps:
        return text
    task = report.steps[usage.peak_step].task
    return f"{text}, fullest at step {usage.peak_step}, {escape(task)}"
