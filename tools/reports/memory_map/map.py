"""
A page that draws the memory of plans over time: `penstock-opt --memory-map OUT.html`.

Each block is a picture: steps go from left to right, bytes from the bottom to the top,
and a register is a rectangle, with its aliases hatched on top of it. Lines are the live
bytes, their bound, and the bytes that other packing algorithms need. Bodies of loops
and conditions unfold below their plan, each with the memory that it has of its own. The
page loads nothing; it is readable without its script, which adds zoom, search, and the
layouts of the other algorithms.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from penstock.notebook import Displayed
from penstock.tools.driver.diagnostics import UsageError
from penstock.tools.driver.files import write_whole
from penstock.tools.reports.memory import (
    NO_PLACES,
    Block,
    Chunk,
    Json,
    Register,
    Report,
    Usage,
    Zone,
    bound_text,
    jobs_text,
    plan_title,
    reports_of,
    unplaced_text,
    zone_head,
)
from penstock.tools.reports.memory.as_json import plan_json
from penstock.tools.reports.memory.planners import PlannerLayout, layouts_of
from penstock.tools.reports.page.assemble import Page, beside
from penstock.tools.session.report import counted, size_text

WIDTH = 1000.0
"""The units of a picture from the first step to the end of the last one."""

TALL, LOW = 420.0, 130.0
"""Units of a picture from the first byte to the last; low where nothing changes."""

COLOURS = 8
"""The most kinds of ops with a colour of their own."""

X_TICKS, Y_TICKS = 12, 6

PICTURE_STYLE, PICTURE_SCRIPT = beside(__file__, "picture.css", "picture.js")
"""The style and the script of pictures of memory, for all pages that have some."""

Lines: TypeAlias = Iterator[str]


class MemoryMap(Displayed):
    """The page of the memory of plans, with the layouts of some planners."""

    def __init__(self, reports: Sequence[Report], planners: Sequence[str]) -> None:
        self.reports = reports
        self.planners = planners

    @cached_property
    def page(self) -> str:
        """The page as text. Raises `FileError` if a planner fails."""
        return page_of(self.reports, self.planners)

    def write(self, path: str | Path) -> None:
        """Write the page. Raises `UsageError` if it cannot be written."""
        write_whole(str(path), self.page)


class LastPlans:
    """
    The last plans with places that were seen as modules go through passes, to be drawn.
    """

    def __init__(self, path: str, planners: Sequence[str]) -> None:
        self._path = path
        self._planners = planners
        self._finished: list[Report] = []
        self._last: list[Report] = []

    def see(self, module: ModuleOp) -> None:
        """Remember the plans of a module, if their registers have places."""
        self._last = reports_of(module) or self._last

    def finish_module(self) -> None:
        """Let the next plans seen be those of another module."""
        self._finished += self._last
        self._last = []

    def write(self) -> None:
        """
        Write the page.

        Raises `UsageError` if nothing was seen, if it cannot be written, or if a
        planner fails.
        """
        if not self._finished:
            raise UsageError(f"--memory-map: {NO_PLACES}")
        MemoryMap(self._finished, self._planners).write(self._path)


def page_of(reports: Sequence[Report], planners: Sequence[str] = ()) -> str:
    """The whole page for some plans, and for the layouts of packing algorithms."""
    title = "Memory of " + ", ".join(f"@{report.plan}" for report in reports)
    outer, reports = reports, [x for report in reports for x in report.with_bodies()]
    colours = colours_of(reports)
    drawn = Drawn(colours, layouts_by_key(reports, planners))
    numbers = itertools.count()
    plans = [line for r in outer for line in plan_lines(numbers, r, drawn)]
    zones = [zone for report in reports for zone in report.zones]
    return Page(
        title=title,
        heading=escape(title),
        header=[
            *control_lines(zones),
            *legend_lines(colours, has_planners=bool(drawn.layouts)),
        ],
        views=[HATCH, *plans],
        data=map_data(reports, drawn.layouts),
        styles=[PICTURE_STYLE, *beside(__file__, "memory_map.css")],
        scripts=[PICTURE_SCRIPT, *beside(__file__, "memory_map.js")],
    ).text()


class Drawn(NamedTuple):
    """The classes of ops, and the layouts of algorithms by the keys of blocks."""

    colours: Mapping[str, str]
    layouts: Mapping[str, Sequence[PlannerLayout]]


def layouts_by_key(
    reports: Sequence[Report], planners: Sequence[str]
) -> dict[str, list[PlannerLayout]]:
    """
    The layouts of all blocks that have several.

    Raises `UsageError` if a packing algorithm fails.
    """
    return {
        key: layouts_of(block.packing, planners)
        for key, block in blocks_of(reports)
        if block.packing is not None and planners
    }


def blocks_of(reports: Sequence[Report]) -> Iterator[tuple[str, Block]]:
    """All blocks, each with the key that the script knows it by."""
    for r, report in enumerate(reports):
        for z, zone in enumerate(report.zones):
            for c, chunk in enumerate(zone.chunks):
                for b, block in enumerate(chunk.blocks):
                    yield f"{r}.{z}.{c}.{b}", block


def map_data(
    reports: Sequence[Report], layouts: Mapping[str, Sequence[PlannerLayout]]
) -> Json:
    """The data of the script, with a plan for each report."""
    blocks = dict(blocks_of(reports))
    planners: dict[str, Json] = {
        key: [layout_json(layout, blocks[key]) for layout in found]
        for key, found in layouts.items()
    }
    return {"plans": [plan_json(report) for report in reports], "planners": planners}


def layout_json(layout: PlannerLayout, block: Block) -> Json:
    """A layout: the offset of each register of a block."""
    offsets: list[Json] = [
        layout.offsets.get(r.alias_of or r.name, r.offset - r.alias_offset)
        + r.alias_offset
        for r in block.registers
    ]
    return {"name": layout.planner, "size": layout.size, "offsets": offsets}


def control_lines(zones: Sequence[Zone]) -> Lines:
    """The search, and the choice of a rank if there are several."""
    yield '<div class="controls">'
    yield from rank_lines(zones)
    yield (
        '<input id="search" type="search" placeholder="Search registers and tasks"'
        ' aria-label="Search registers and tasks" autocomplete="off">'
    )
    yield '<output id="found" for="search"></output>'
    yield "</div>"


def rank_lines(zones: Sequence[Zone]) -> Lines:
    """The buttons that show a rank, or all of them, if there are several."""
    if len(ranks := sorted({zone.rank for zone in zones})) < 2:
        return
    yield '<nav id="ranks" aria-label="Ranks">'
    yield '<button data-rank="" aria-pressed="true">All ranks</button>'
    for rank in ranks:
        yield f'<button data-rank="{rank}" aria-pressed="false">{rank}</button>'
    yield "</nav>"


HATCH = """\
<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse">
<path d="M-1,1 l2,-2 M0,7 l7,-7 M6,8 l2,-2" class="hatching"/>
</pattern></defs></svg>"""


def number(value: float) -> str:
    """A length in a picture."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


################################################################################
# Colours                                                                      #
################################################################################

VARIABLE, OTHER = "variable", "other"


def colours_of(reports: Sequence[Report]) -> Mapping[str, str]:
    """The class of each op that makes registers: the largest have colours."""
    total: Counter[str] = Counter()
    variables: set[str] = set()
    for register in registers_of(reports):
        op = register.op or OTHER
        if "variable" in register.reasons:
            variables.add(op)
        else:
            total[op] += register.bytes
    kinds = sorted(total.keys() - variables, key=lambda op: (-total[op], op))
    colours = {op: VARIABLE for op in sorted(variables)}
    for rank, op in enumerate(kinds):
        colours[op] = f"c{rank}" if rank < COLOURS else OTHER
    return colours


def registers_of(reports: Sequence[Report]) -> Iterator[Register]:
    """All registers with a place."""
    for report in reports:
        for zone in report.zones:
            for chunk in zone.chunks:
                for block in chunk.blocks:
                    yield from block.registers


def legend_lines(colours: Mapping[str, str], *, has_planners: bool) -> Lines:
    """The legend of the colours."""
    yield '<ul class="legend">'
    for op, colour in colours.items():
        if colour != OTHER:
            yield f'<li><i class="{colour}"></i>{escape(op)}</li>'
    if OTHER in colours.values():
        yield f'<li><i class="{OTHER}"></i>other ops</li>'
    yield '<li><i class="alias-key"></i>alias</li>'
    yield '<li><i class="live-key"></i>live bytes</li>'
    yield '<li><i class="bound-key"></i>bound</li>'
    if has_planners:
        yield '<li><i class="planner-key"></i>other planners</li>'
    yield "</ul>"


################################################################################
# Plans and blocks                                                             #
################################################################################


def plan_lines(numbers: Iterator[int], report: Report, drawn: Drawn) -> Lines:
    """The section of a plan, which gets the next number, and those of its bodies."""
    steps, streams = len(report.steps), len(report.streams)
    yield '<section class="plan">'
    yield (
        f"<h2>@{escape(report.plan)} <small>{counted(steps, 'step')} on "
        f"{counted(streams, 'stream')}{escape(jobs_text(report))}</small></h2>"
    )
    yield from inner_lines(numbers, report, drawn)
    yield "</section>"


def body_lines(numbers: Iterator[int], report: Report, drawn: Drawn) -> Lines:
    """The part of a body, which is closed at first."""
    steps = counted(len(report.steps), "step")
    yield '<details class="body"><summary>'
    yield f"{escape(plan_title(report))}, {steps}</summary>"
    yield from inner_lines(numbers, report, drawn)
    yield "</details>"


def inner_lines(numbers: Iterator[int], report: Report, drawn: Drawn) -> Lines:
    """The pictures of a plan, and its bodies below them."""
    index = next(numbers)
    yield from zone_table(report)
    for z, zone in enumerate(report.zones):
        yield f'<section data-rank="{zone.rank}">'
        yield f"<h3>Memory {escape(zone.memory_case)}</h3>"
        yield f"<p>{escape(zone_summary(report, zone))}</p>"
        for c, chunk in enumerate(zone.chunks):
            for b, block in enumerate(chunk.blocks):
                key = f"{index}.{z}.{c}.{b}"
                yield from block_lines(key, report, chunk, block, drawn)
        yield "</section>"
    if report.unplaced:
        yield f"<p>{escape(unplaced_text(report))}</p>"
    for body in report.bodies:
        yield from body_lines(numbers, body, drawn)


def zone_table(report: Report) -> Lines:
    """The kinds of memory of a plan, if there are several."""
    if len(report.zones) < 2:
        return
    yield '<table class="sortable"><thead><tr><th class="number">rank</th>'
    yield "<th>memory</th>"
    for head in "bytes", "bound", "times the bound", "fullest at step":
        yield f'<th class="number">{head}</th>'
    yield "</tr></thead><tbody>"
    for zone in report.zones:
        usage = zone.usage
        ratio = "-" if usage.ratio is None else f"{usage.ratio:.3f}"
        yield (
            f'<tr data-rank="{zone.rank}">{number_cell(zone.rank)}'
            f"<td>{escape(zone.memory_case)}</td>{bytes_cell(usage.size)}"
            f"{bytes_cell(usage.bound)}{number_cell(usage.ratio or 0, ratio)}"
            f"{number_cell(usage.peak_step or 0)}</tr>"
        )
    yield "</tbody></table>"


def number_cell(value: float, text: str | None = None) -> str:
    """A cell that sorts as a number."""
    shown = str(value) if text is None else text
    return f'<td class="number" data-value="{number(value)}">{shown}</td>'


def bytes_cell(size: int) -> str:
    """A cell with a size."""
    return number_cell(size, size_text(size))


def zone_summary(report: Report, zone: Zone) -> str:
    """The use of a kind of memory, and its fullest step."""
    text, step = zone_head(zone), zone.usage.peak_step
    if step is None:
        return text
    return f"{text}; fullest at step {step}, {report.steps[step].task}"


def block_lines(
    key: str, report: Report, chunk: Chunk, block: Block, drawn: Drawn
) -> Lines:
    """The picture of a block; `key` is that of its data for the script."""
    layouts = drawn.layouts.get(key, [])
    picture = Picture.of(report, block, [layout.size for layout in layouts])
    usage = block.usage
    label = f"{chunk.name}/{block.name}"
    yield f'<figure class="block" data-key="{key}">'
    yield (
        f"<figcaption><b>{escape(label)}</b> {size_text(usage.size)} at byte "
        f"{block.offset}, {bound_text(usage)}, "
        f"{counted(len(block.registers), 'register')}</figcaption>"
    )
    yield from frame_lines(report, block, picture, drawn.colours, label)
    yield from planner_lines(block, layouts)
    yield from owner_lines(report, block)
    yield '<details class="registers"><summary>All registers</summary></details>'
    yield "</figure>"


def frame_lines(
    report: Report,
    block: Block,
    picture: Picture,
    colours: Mapping[str, str],
    label: str,
    *,
    has_bound: bool = True,
) -> Lines:
    """A picture with its axes."""
    yield f'<div class="frame" style="--high:{number(picture.height)}px">'
    yield from y_axis(picture.top)
    yield '<div class="plot">'
    yield (
        f'<svg viewBox="0 {number(picture.y(picture.top))} {number(WIDTH)} '
        f'{number(picture.height - picture.y(picture.top))}" role="img" '
        f'preserveAspectRatio="none" tabindex="0" aria-label="{escape(label)}">'
    )
    yield from rectangles(block, picture, colours)
    yield from curves(block.usage, picture, has_bound=has_bound)
    yield "</svg>"
    yield from x_axis(len(report.steps))
    yield "</div></div>"


def planner_lines(block: Block, layouts: Sequence[PlannerLayout]) -> Lines:
    """The sizes of a block by packing algorithms."""
    if not layouts:
        return
    usage = block.usage
    yield "<details><summary>What each planner gives</summary>"
    yield '<table class="sortable planners"><thead><tr><th>planner</th>'
    yield '<th class="number">bytes</th><th class="number">times the bound</th>'
    yield "</tr></thead><tbody>"
    rows = [("this plan", "", usage.size)]
    rows += [(layout.planner, str(i), layout.size) for i, layout in enumerate(layouts)]
    for name, index, size in rows:
        ratio = size / usage.bound if usage.bound else 0
        yield (
            f'<tr data-planner="{index}"><td>{escape(name)}</td>{bytes_cell(size)}'
            f"{number_cell(ratio, f'{ratio:.3f}')}</tr>"
        )
    yield "</tbody></table></details>"


class Picture(NamedTuple):
    """The scale of a picture: units for steps and bytes."""

    steps: int
    size: int
    height: float
    top: int
    """The byte at the upper border."""

    @classmethod
    def of(cls, report: Report, block: Block, others: Sequence[int] = ()) -> Picture:
        """The scale of the picture of a block, in which other sizes have room, too."""
        changes = any(not register.always for register in block.registers)
        height = TALL if changes else LOW
        size = max(1, block.usage.size)
        return cls(max(1, len(report.steps)), size, height, max(size, *others, 1))

    def x(self, step: int) -> float:
        """The left end of a step."""
        return WIDTH * step / self.steps

    def y(self, byte: int) -> float:
        """The place of a byte of the block, from the top."""
        return self.height * (1 - byte / self.size)


def rectangles(block: Block, picture: Picture, colours: Mapping[str, str]) -> Lines:
    """The registers of a block, its aliases last, so that they lie on top."""
    order = sorted(
        range(len(block.registers)),
        key=lambda i: block.registers[i].alias_of is not None,
    )
    for index in order:
        register = block.registers[index]
        colour = "alias" if register.alias_of else colours[register.op or OTHER]
        left, right = picture.x(register.first), picture.x(register.last + 1)
        top = picture.y(register.offset + register.bytes)
        bottom = picture.y(register.offset)
        yield (
            f'<rect class="{colour}" data-i="{index}" x="{number(left)}" '
            f'y="{number(top)}" width="{number(right - left)}" '
            f'height="{number(bottom - top)}"/>'
        )


def curves(usage: Usage, picture: Picture, *, has_bound: bool) -> Lines:
    """The live bytes at each step, and the bound."""
    bound = number(picture.y(usage.bound))
    path = [f"M0,{number(picture.y(usage.live[0]))}"]
    for step, (before, live) in enumerate(
        zip(usage.live, usage.live[1:], strict=False), start=1
    ):
        if live != before:
            path.append(f"H{number(picture.x(step))}V{number(picture.y(live))}")
    path.append(f"H{number(WIDTH)}")
    yield f'<path class="halo" d="{"".join(path)}"/>'
    yield f'<path class="live" d="{"".join(path)}"/>'
    if has_bound:
        yield f'<path class="bound" d="M0,{bound}H{number(WIDTH)}"/>'


def y_axis(size: int) -> Lines:
    """Bytes from the bottom to the top, a power of two from one number to the next."""
    yield '<div class="y-axis" aria-hidden="true">'
    distance = 1 << max(0, -(-size // Y_TICKS) - 1).bit_length()
    for at in range(0, size + 1, distance):
        text = size_text(at).replace(".0 ", " ")
        yield f'<span style="bottom:{number(100 * at / max(size, 1))}%">{text}</span>'
    yield "</div>"


def x_axis(steps: int) -> Lines:
    """Numbers of steps, each at the left end of its step."""
    yield '<div class="x-axis" aria-hidden="true">'
    for step in range(0, steps, tick_distance(steps)):
        yield f'<span style="left:{number(100 * step / steps)}%">{step}</span>'
    yield "</div>"


def tick_distance(steps: int) -> int:
    """The steps from one number on the axis to the next: 1, 2 or 5 of some power."""
    distance, factors = 1, (2, 2.5, 2)
    for turn in range(64):
        if steps <= distance * X_TICKS:
            break
        distance = int(distance * factors[turn % len(factors)])
    return distance


def owner_lines(report: Report, block: Block) -> Lines:
    """The largest registers at the fullest step of a block."""
    usage = block.usage
    if usage.peak_step is None or not usage.owners:
        return
    index = {register.name: i for i, register in enumerate(block.registers)}
    task = report.steps[usage.peak_step].task
    yield "<details><summary>Largest at the peak, "
    yield f"step {usage.peak_step}, {escape(task)}</summary>"
    yield '<table class="sortable"><thead><tr><th>register</th>'
    yield '<th class="number">bytes</th><th class="number">of the bound</th></tr>'
    yield "</thead><tbody>"
    for name in usage.owners:
        register = block.registers[index[name]]
        share = register.bytes / usage.bound if usage.bound else None
        text = "-" if share is None else f"{share:.1%}"
        yield (
            f'<tr data-i="{index[name]}"><td>{escape(name)}</td>'
            f"{bytes_cell(register.bytes)}{number_cell(share or 0, text)}</tr>"
        )
    yield "</tbody></table></details>"
