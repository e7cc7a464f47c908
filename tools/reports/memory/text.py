"""Reports as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from penstock.tools.reports.memory.model import (
    Block,
    Chunk,
    Register,
    Report,
    Usage,
    Zone,
)
from penstock.tools.session.report import counted, fill_text, size_text

Row: TypeAlias = Sequence[str]


def text_of(report: Report, top: int) -> str:
    """Tables of a plan's memory, of `top` registers a kind of memory."""
    steps, streams = len(report.steps), len(report.streams)
    head = f"{counted(steps, 'step')} on {counted(streams, 'stream')}"
    parts = [f"{plan_title(report)}: {head}{jobs_text(report)}\n"]
    parts += [zone_text(report, zone, top) for zone in report.zones]
    parts += [f"{line}\n" for line in report.given_up]
    if report.unplaced:
        parts.append(f"{unplaced_text(report)}\n")
    parts += [text_of(body, top) for body in report.bodies]
    return "\n".join(parts)


def plan_title(report: Report) -> str:
    """The name of a plan, or the body that it is of."""
    return f"plan @{report.plan}" if report.body is None else report.body.title


def unplaced_text(report: Report) -> str:
    """The registers without a place, which those of a body have outside of it."""
    start = "without a place" if report.body is None else "outside of its memory"
    return f"{start}: {', '.join(report.unplaced)}"


def jobs_text(report: Report) -> str:
    """
    The jobs of a plan, if tasks say them, and groups of them that never run together.
    """
    if not report.jobs:
        return ""
    text = f", jobs {', '.join(report.jobs)}"
    for group in report.exclusive:
        text += f"; never together: {', '.join(group)}"
    return text


def zone_text(report: Report, zone: Zone, top: int) -> str:
    """Tables of one kind of memory."""
    usage = zone.usage
    where = [(c, b, r) for c in zone.chunks for b in c.blocks for r in b.registers]
    where.sort(key=lambda place: (place[2].alias_of is not None, -place[2].bytes))
    owners = [r for name in usage.owners for *_, r in where if r.name == name]
    lines = [
        f"memory {zone.memory_case}: {zone_head(zone)}",
        *table(BLOCKS, [block_row(c, b) for c in zone.chunks for b in c.blocks]),
        "",
        f"  largest at the peak{peak_text(report, usage)}",
        *table(OWNER, [owner_row(r, usage.bound) for r in owners[:top]]),
        "",
        "  largest registers",
        *table(REGISTERS, [register_row(b, r) for _, b, r in where[:top]]),
    ]
    if len(where) > top:
        lines.append(f"    and {len(where) - top} more")
    return "\n".join(lines) + "\n"


def zone_head(zone: Zone) -> str:
    """The use of a kind of memory."""
    if zone.fill is None:
        return f"{size_text(zone.usage.size)}, {bound_text(zone.usage)}"
    return fill_text(**zone.fill._asdict())


def bound_text(usage: Usage) -> str:
    """The ratio of a size to its bound, if that has bytes."""
    if usage.ratio is None:
        return f"the bound is {size_text(usage.bound)}"
    return f"{usage.ratio:.3f} x the bound of {size_text(usage.bound)}"


def ratio_text(usage: Usage) -> str:
    """The ratio of a size to the least one."""
    return "-" if usage.ratio is None else f"{usage.ratio:.3f}"


def peak_text(report: Report, usage: Usage) -> str:
    """The step at which most bytes are alive."""
    if usage.peak_step is None:
        return ""
    return f", step {usage.peak_step}: {report.steps[usage.peak_step].task}"


BLOCKS = ("<block", ">at", ">bytes", ">bound", ">ratio", ">unshared", ">registers")
OWNER = (">bytes", ">share", "<register", "<written by", "<steps")
REGISTERS = (
    "<register",
    "<block",
    ">at",
    ">bytes",
    ">slots",
    "<steps",
    "<written by",
    "<read by",
    "<why not reused",
)
MOST_READERS = 3


def block_row(chunk: Chunk, block: Block) -> Row:
    """The row of a block."""
    usage = block.usage
    count = sum(register.alias_of is None for register in block.registers)
    return (
        f"{chunk.name}/{block.name}",
        str(block.offset),
        str(usage.size),
        str(usage.bound),
        ratio_text(usage),
        str(usage.sum),
        str(count),
    )


def owner_row(register: Register, bound: int) -> Row:
    """The row of one of the largest registers at a peak."""
    share = f"{register.bytes / bound:.1%}" if bound else "-"
    producer, steps = register.producer or "-", steps_text(register)
    return str(register.bytes), share, register.name, producer, steps


def register_row(block: Block, register: Register) -> Row:
    """The row of a register."""
    readers = ", ".join(register.readers[:MOST_READERS]) or "-"
    if (more := len(register.readers) - MOST_READERS) > 0:
        readers += f" and {more} more"
    return (
        register.name,
        block.name,
        str(register.offset),
        str(register.bytes),
        str(register.slots),
        steps_text(register),
        register.producer or "-",
        readers,
        "; ".join(register.reasons),
    )


def steps_text(register: Register) -> str:
    """The steps at which a register is alive."""
    return "always" if register.always else f"{register.first}-{register.last}"


def table(columns: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Lines of aligned cells; the first character of a column's name gives its side."""
    cells = [[column[1:] for column in columns], *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        parts = [
            f"{cell:{column[0]}{width}}"
            for cell, column, width in zip(row, columns, widths, strict=True)
        ]
        yield "    " + "  ".join(parts).rstrip()
