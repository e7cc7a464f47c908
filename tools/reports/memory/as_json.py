"""Reports as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

from penstock.tools.reports.memory.model import Block, Report, Zone

VERSION = 2
"""
The version of the form: it changes when a key changes or goes, not when one is added.
"""

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"


def json_of(reports: Sequence[Report]) -> Json:
    """The reports as values that `json.dumps` takes."""
    return {"version": VERSION, "plans": [plan_json(report) for report in reports]}


def plan_json(report: Report) -> Json:
    """A report as dictionaries and lists, with those of bodies in it."""
    bodies: list[Json] = [plan_json(body) for body in report.bodies]
    return {
        "plan": report.plan,
        "body": None if report.body is None else asdict(report.body),
        "jobs": list(report.jobs),
        "exclusive": [list(group) for group in report.exclusive],
        "streams": list(report.streams),
        "steps": [asdict(step) for step in report.steps],
        "zones": [zone_json(zone) for zone in report.zones],
        "unplaced": list(report.unplaced),
        "given_up": list(report.given_up),
        "bodies": bodies,
    }


def zone_json(zone: Zone) -> Json:
    """A kind of memory, with its usage beside its blocks."""
    chunks: list[Json] = [
        {
            "name": chunk.name,
            "size": chunk.size,
            "blocks": [block_json(block) for block in chunk.blocks],
        }
        for chunk in zone.chunks
    ]
    fill: Json = None if zone.fill is None else dict(zone.fill._asdict())
    head: dict[str, Json] = {
        "memory_case": zone.memory_case,
        "rank": zone.rank,
        "fill": fill,
    }
    return {**head, **asdict(zone.usage), "chunks": chunks}


def block_json(block: Block) -> Json:
    """A block, with its usage beside its registers."""
    return {
        "name": block.name,
        "offset": block.offset,
        **asdict(block.usage),
        "registers": [asdict(register) for register in block.registers],
    }


def json_text(value: Json, indent: str = "") -> str:
    """JSON with a line for each object or array that holds no other objects."""
    if not holds_objects(value):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(k)}: {json_text(v, inner)}" for k, v in value.items()]
        start, end = "{}"
    else:
        assert isinstance(value, list), "nothing else holds objects"
        items = [json_text(item, inner) for item in value]
        start, end = "[]"
    lines = ",\n".join(inner + item for item in items)
    return f"{start}\n{lines}\n{indent}{end}"


def holds_objects(value: Json) -> bool:
    """Whether an array has objects, or an object has arrays of objects."""
    match value:
        case list():
            return any(isinstance(item, dict) for item in value)
        case dict():
            return any(isinstance(v, list) and holds_objects(v) for v in value.values())
        case _:
            return False
