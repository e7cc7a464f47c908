"""Walks over modules."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Operation

OpT = TypeVar("OpT", bound=Operation)


def outermost(root: Operation, kind: type[OpT]) -> list[OpT]:
    """
    The ops of a class under another op, in order, but none inside of each other: their
    regions are not visited, which are most of a module of jobs, plans or programs.
    """
    found: list[OpT] = []
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, kind):
                    found.append(op)
                elif op.regions:
                    found += outermost(op, kind)
    return found
