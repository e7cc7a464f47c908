"""
The largest registers and variables of chunks of a program, for the out-of-memory error.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.runtime.program.executable import ProgramImage

OWNERS = 5
"""The number of owners that are named."""


def largest_owners(image: ProgramImage, chunks: Collection[str]) -> list[str]:
    """The registers and variables with most bytes in chunks, each with its task."""
    writer = {name: actor.name for actor in image.actors for name in actor.writes}
    rows: list[tuple[int, str]] = []
    for queue in image.queues:
        if queue.chunk in chunks and queue.kind is not None:
            size = queue.kind.size * queue.slots
            task = f" (task '{writer[queue.name]}')" if queue.name in writer else ""
            rows.append((size, f"'{queue.name}' {size}{task}"))
    for variable in image.variables:
        if variable.chunk in chunks:
            name = variable.name if variable.port is None else variable.port
            size = variable.kind.size
            rows.append((size, f"'{name}' {size} (variable)"))
    # Of equal ones those that are listed first.
    rows.sort(key=lambda row: -row[0])
    return [text for _, text in rows[:OWNERS]]
