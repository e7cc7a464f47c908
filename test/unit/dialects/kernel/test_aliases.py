"""Operands and results that may be one memref, against those that are not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from draws import fresh_seed
from kernel_cases import Array, case_of
from kernel_runs import parse_kernel, run_on_copies
from kernel_sweep import USUAL, WAYS, close
from xdsl.ir import BlockArgument

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.launch import KernelOp

MOST_TRIED, WANTED = 60, 2


def op_in(kernel: KernelOp) -> StructuredOp | None:
    """The op of a kernel, if it is one alone."""
    ops = [op for op in kernel.body.block.ops if isinstance(op, StructuredOp)]
    return ops[0] if len(ops) == 1 else None


def joined(kernel: KernelOp) -> Iterator[tuple[KernelOp, int, int]]:
    """
    The kernel with an operand in the place of a result, for each pair that its op says
    may be one memref, and the numbers of both arguments.
    """
    op = op_in(kernel)
    for alias in () if op is None else op.aliases():
        assert op is not None
        value, out = op.accessed()[alias.operand], op.written()[alias.out]
        if not isinstance(value, BlockArgument) or not isinstance(out, BlockArgument):
            continue
        if value is out or value.type != out.type or len([*value.uses]) != 1:
            continue
        copy = kernel.clone()
        own = op_in(copy)
        assert own is not None
        args = copy.body.block.args
        places = [n for n, x in enumerate(op.operands) if x is value]
        own.operands[places[0]] = args[out.index]
        yield copy, value.index, out.index


def results(kernel: KernelOp, arrays: list[Array], way: str) -> list[Array]:
    """The arguments after a kernel."""
    WAYS["cpu"][way](kernel, Random(0))
    kernel.verify()
    return run_on_copies(kernel, arrays)


@pytest.mark.parametrize("way", ["plain", USUAL])
@pytest.mark.parametrize("kind", ["rows", "products"])
def test_what_may_be_one_memref_may(kind: str, way: str) -> None:
    start, found = fresh_seed(), 0
    for seed in range(start, start + MOST_TRIED):
        case = case_of(kind, seed)
        for kernel, operand, out in joined(parse_kernel(case.text)):
            apart = results(parse_kernel(case.text), [*case.arrays], way)
            arrays = [x.copy() for x in case.arrays]
            arrays[out][...] = arrays[operand]
            together = results(kernel, arrays, way)
            for number, (one, other) in enumerate(zip(apart, together, strict=True)):
                if number != operand:
                    print(f"{kind} {seed}, {operand} in {out}\n{kernel}")
                    # Loops over one memref may sum in an order of their own.
                    close(case, other, one)
            found += 1
        if found >= WANTED:
            break
    assert found >= WANTED, "no case ran"
