"""
A predicted run on a cluster as lines for a person, as JSON, and as a time line in the
format of Chrome's tracing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.lowering.analysis.cluster_run import Carried, Device, Prediction
from penstock.tools.session.report import size_text

Row = TypeVar("Row")

MOST_ROWS = 8
"""Of more devices or links the fullest are listed."""


def lines_about(name: str, found: Prediction) -> Iterator[str]:
    """A prediction for a person."""
    yield f"{name}: {len(found.devices)} devices, {found.tasks} tasks"
    yield (
        f"iteration {time_text(found.iteration)}, the first alone "
        f"{time_text(found.first)}; compute waits {found.bubble:.1%} of the time"
    )
    flops = sum(device.flops for device in found.devices)
    yield f"{rate_text(flops / max(found.iteration, 1))} of all devices together"
    yield from _table(
        ["device", "computes", "memory", "of"],
        found.devices,
        lambda x: (x.taken / x.memory if x.memory else 0, x.busy),
        lambda x: [
            x.name,
            f"{x.busy:.1%}",
            size_text(x.taken),
            "" if x.memory is None else size_text(x.memory) + too_small(x),
        ],
    )
    yield from _table(
        ["link", "used", "bytes an iteration"],
        found.links,
        lambda x: (x.busy, x.bytes),
        lambda x: [link_text(x), f"{x.busy:.1%}", size_text(x.bytes)],
    )


def too_small(device: Device) -> str:
    """The word for a memory that is too small."""
    too_little = device.memory is not None and device.taken > device.memory
    return ", too small" if too_little else ""


def link_text(carried: Carried) -> str:
    """A link with its kind."""
    return f"{carried.link.name} ({carried.link.kind})"


def _table(
    header: list[str],
    rows: Sequence[Row],
    weight: Callable[[Row], tuple[float, float]],
    cells: Callable[[Row], list[str]],
) -> Iterator[str]:
    """Some rows in columns: those with the largest weights of many."""
    if not rows:
        return
    shown = list(rows)
    if len(shown) > MOST_ROWS:
        shown = sorted(shown, key=weight, reverse=True)[:MOST_ROWS]
        header = [f"{header[0]} (the fullest of {len(rows)})", *header[1:]]
    texts = [header, *map(cells, shown)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    yield ""
    for row in texts:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def time_text(nanoseconds: float) -> str:
    """A time as a person reads it, such as `1.5 ms`."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.0f} ns"


def rate_text(gflops: float) -> str:
    """A speed as a person reads it, such as `1.5 TFLOP/s`."""
    for unit, size in (("P", 1e6), ("T", 1e3), ("G", 1.0)):
        if gflops >= size:
            return f"{gflops / size:.3g} {unit}FLOP/s"
    return f"{gflops * 1e3:.3g} MFLOP/s"


def facts_about(name: str, found: Prediction) -> dict[str, object]:
    """A prediction for JSON; times are nanoseconds."""
    return {
        "job": name,
        "tasks": found.tasks,
        "iterations": found.iterations,
        "first_ns": found.first,
        "iteration_ns": found.iteration,
        "bubble": found.bubble,
        "devices": [device._asdict() for device in found.devices],
        "links": [
            {**x.link._asdict(), "bytes": x.bytes, "busy": x.busy} for x in found.links
        ],
    }


def trace_of(found: Prediction) -> str:
    """The tasks and messages of a prediction, a process for each rank."""
    lines: dict[tuple[int, str], int] = {}
    events: list[dict[str, object]] = []
    for span in found.spans:
        key = span.rank, span.line
        if key not in lines:
            lines[key] = len(lines) + 1
            for kind, name in ("thread", span.line), ("process", f"rank {span.rank}"):
                events.append(
                    {
                        "ph": "M",
                        "name": f"{kind}_name",
                        "pid": span.rank,
                        "tid": lines[key],
                        "args": {"name": name},
                    }
                )
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "pid": span.rank,
                "tid": lines[key],
                "ts": span.start / 1e3,
                "dur": (span.end - span.start) / 1e3,
            }
        )
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"
