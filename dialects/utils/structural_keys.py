"""Structural keys of ops: equal for ops whose kernels do the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

KernelKey: TypeAlias = tuple[object, ...]


def kernel_key(op: Operation) -> KernelKey:
    """A key that is equal for two ops if their kernels do the same."""
    numbers: dict[SSAValue, int] = {}
    return structure_of(op, numbers)


def structure_of(op: Operation, numbers: dict[SSAValue, int]) -> KernelKey:
    """
    An op and all inside, without names and locations: values are numbered in the order
    of their definitions. Those from outside are known by their types alone.
    """
    operands = [numbers.get(value, value.type) for value in op.operands]
    number(op.results, numbers)
    return (
        op.name,
        *operands,
        None,
        *(result.type for result in op.results),
        *((name, op.properties[name]) for name in sorted(op.properties)),
        *(block_structure(block, numbers) for r in op.regions for block in r.blocks),
    )


def block_structure(block: Block, numbers: dict[SSAValue, int]) -> KernelKey:
    """A block and all inside, without names and locations."""
    number(block.args, numbers)
    types = [arg.type for arg in block.args]
    return (*types, *(structure_of(op, numbers) for op in block.ops))


def number(values: Sequence[SSAValue], numbers: dict[SSAValue, int]) -> None:
    """Give each value the next number."""
    for value in values:
        numbers[value] = len(numbers)
