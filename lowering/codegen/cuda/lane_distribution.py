"""
Distribution of the inner loops of an `scf.parallel` over CUDA lanes, for coalescing.

The CUDA kernel printer calls `spread_of`, and lets that many neighbouring threads take
the iterations of each loop in turn, a stride of `threads` apart; otherwise one thread
runs a whole loop, and neighbours access memory a row apart.

Loops directly in the body are distributed if they carry no values and no iteration
depends on another: no buffer is both read and written, and no two stores write one
element. That is proven only for stores in such a loop whose last index is its variable,
plus a constant or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, memref, scf
from xdsl.ir import Block

from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.lowering.codegen.body.vector_loop import number_of

LEAST_TURNS = 6
"""The fewest iterations of the longest loop for which it is distributed."""


def turns_of(op: scf.ForOp) -> range | None:
    """The values of the variable of a loop by ones, if they are known."""
    lower, upper, step = map(number_of, (op.lb, op.ub, op.step))
    if lower is None or upper is None or step != 1:
        return None
    return range(lower, upper)


def spread_of(op: scf.ParallelOp) -> int:
    """
    The threads for the iterations of the loops in a body: a power of 2 up to a warp, 1
    if the loops cannot be distributed.

    Threads are at most 4/3 of the iterations of the longest loop, so at most a quarter
    of them idle there.
    """
    loops = [inner for inner in op.body.block.ops if isinstance(inner, scf.ForOp)]
    turns = [turns_of(loop) for loop in loops if not loop.iter_args]
    known = [indices for indices in turns if indices is not None]
    if not loops or len(known) != len(loops) or not _is_independent(op):
        return 1
    most = max(map(len, known))
    if most < LEAST_TURNS:
        return 1
    threads = WARP
    while threads * 3 > most * 4:
        threads //= 2
    return threads


def _is_independent(op: scf.ParallelOp) -> bool:
    """Whether no turn of a loop needs what another one has written."""
    stores = list(_stores(op.body.block))
    inside = [inner for inner in op.walk() if isinstance(inner, memref.StoreOp)]
    if len(stores) != len(inside):
        return False
    buffers = {store.memref for store, _ in stores}
    loads = (inner for inner in op.walk() if isinstance(inner, memref.LoadOp))
    if any(load.memref in buffers for load in loads):
        return False
    return all(_are_apart(a, b) for n, a in enumerate(stores) for b in stores[:n]) and (
        all(_written(*store) is not None for store in stores)
    )


def _stores(block: Block) -> Iterator[tuple[memref.StoreOp, scf.ForOp | None]]:
    """The stores in a block and in its loops, each with its loop."""
    for op in block.ops:
        if isinstance(op, memref.StoreOp):
            yield op, None
        elif isinstance(op, scf.ForOp):
            for inner in op.body.block.ops:
                if isinstance(inner, memref.StoreOp):
                    yield inner, op


def _are_apart(
    a: tuple[memref.StoreOp, scf.ForOp | None],
    b: tuple[memref.StoreOp, scf.ForOp | None],
) -> bool:
    """Whether two stores never write one element."""
    if a[0].memref is not b[0].memref:
        return True
    lines = [list(store.indices)[:-1] for store, _ in (a, b)]
    if any(x is not y for x, y in zip(*lines, strict=True)):
        return False
    of_a, of_b = _written(*a), _written(*b)
    if of_a is None or of_b is None:
        return False
    return of_a.stop <= of_b.start or of_b.stop <= of_a.start


def _written(store: memref.StoreOp, loop: scf.ForOp | None) -> range | None:
    """The elements of a line that a store writes, a turn of its loop each."""
    if not store.indices:
        return None
    *before, last = store.indices
    if loop is None:
        place = number_of(last)
        return None if place is None else range(place, place + 1)
    variable, turns = loop.body.block.args[0], turns_of(loop)
    owners = [index.owner for index in before]
    if turns is None or variable in before or loop.body.block in owners:
        return None
    if any(not isinstance(o, Block) and o.parent is loop.body.block for o in owners):
        return None
    offset = 0
    if isinstance(op := last.owner, arith.AddiOp):
        numbers = [number_of(value) for value in op.operands]
        offset = next((n for n in numbers if n is not None), None)
        last = next((v for v in op.operands if number_of(v) is None), last)
    if last is not variable or offset is None:
        return None
    return range(turns.start + offset, turns.stop + offset)
