"""Walks over modules."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation

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


def ops_of(block: Block, kind: type[OpT]) -> list[OpT]:
    """The ops of a block that are of a class, and of none derived from it, in order."""
    found: list[OpT] = []
    op = block.first_op
    while op is not None:
        # Not `isinstance`, which xDSL makes slow, as plans are listed often.
        if type(op) is kind:
            found.append(op)
        op = op._next_op  # pyright: ignore[reportPrivateUsage]
    return found
