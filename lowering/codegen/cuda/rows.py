"""
The rows that the threads of a warp, or of a block, compute together (`kernel.row`).

Threads share the points of a row; they move vectors of them if these are contiguous in
all operands that have an element for each of them. Where they lie apart, neighbouring
threads have neighbouring rows instead. Between passes over the row, elements may stay
in the registers of the thread that has read or written them first, so that each is read
and written once.

A row of several loops is divided by the number of each point, of which the indices of
the loops are found. Points that follow each other in the innermost loop are contiguous,
and a vector lies in one turn of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from penstock.dialects.kernel.body_ops import AllReduceOp, IndexOp, KeepOp, YieldOp
from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_passes import RowPasses, passes_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.body.scalars import EXPRESSIONS, HALVES, type_name
from penstock.lowering.codegen.cuda.vector_access import width_of

BLOCK_THREADS = 256
MOST_THREADS = 1024
MOST_KEPT = 32
"""The registers in which a thread keeps elements of its row at most."""
MOST_KEPT_OF_MANY = 24
"""The same in the largest blocks, whose threads have the fewest registers."""
GOOD_KEPT = 16
"""The registers for that in blocks that have room for more threads."""

JOINED = frozenset(("f32", "f64", "i32", "i64"))
"""The types of values that lanes pass to each other."""

APART = "the elements of a row are not contiguous"
"""The reason that no warp and no block has such rows one by one."""

INF = float("inf")
NEUTRAL: Mapping[type[Operation], float] = {
    arith.AddfOp: 0.0,
    arith.MulfOp: 1.0,
    arith.MaximumfOp: -INF,
    arith.MaxnumfOp: -INF,
    arith.MinimumfOp: INF,
    arith.MinnumfOp: INF,
}
"""The ops that fold, and what changes nothing."""

Place: TypeAlias = tuple[SSAValue, tuple[SSAValue | int, ...]]
"""
Elements of a row: the buffer, and its indices. A number stands for the variable of a
loop of the row, which each pass over it has anew.
"""


class Fold(NamedTuple):
    """A value that a loop carries: each turn makes one of it and of an element."""

    op: Operation
    value: BlockArgument
    initial: SSAValue
    result: SSAValue

    @property
    def neutral(self) -> float:
        """The neutral element of the fold."""
        return NEUTRAL[type(self.op)]


class RegionFold(NamedTuple):
    """Values that a loop carries together: a region makes one set of two."""

    values: Sequence[BlockArgument]
    initials: Sequence[SSAValue]
    results: Sequence[SSAValue]
    combine: Block


@dataclass(frozen=True)
class RowLoop:
    """A pass over the elements of a row."""

    ops: Sequence[scf.ForOp]
    """Its loops, the outermost first."""
    folds: Sequence[Fold | RegionFold]
    loads: Sequence[Place]
    """The elements that are read, each once."""
    stores: Sequence[Place]

    @property
    def op(self) -> scf.ForOp:
        """The outermost loop."""
        return self.ops[0]

    @property
    def block(self) -> Block:
        """The ops at each point."""
        return self.ops[-1].body.block

    @property
    def variables(self) -> list[BlockArgument]:
        """The variables of its loops."""
        return _variables(self.ops)


@dataclass(frozen=True)
class Rows:
    """The rows of a stage, and how threads share them."""

    extents: Sequence[int]
    """The trip counts of the loops of a row."""
    schedule: RowsAttr
    loops: Sequence[RowLoop]

    @property
    def extent(self) -> int:
        """The number of points of a row."""
        return prod(self.extents)

    def is_along(self, place: Place) -> bool:
        """Whether elements follow each other in the innermost loop."""
        return len(self.extents) - 1 in place[1]

    @property
    def places(self) -> list[Place]:
        """All elements that loops read or write."""
        found = (p for loop in self.loops for p in (*loop.loads, *loop.stores))
        return list(dict.fromkeys(found))

    def users(self, place: Place) -> list[int]:
        """The numbers of the loops that read or write elements."""
        return [
            number
            for number, loop in enumerate(self.loops)
            if place in loop.loads or place in loop.stores
        ]

    @property
    def beside(self) -> int:
        """The neighbouring threads that have a row each."""
        return self.schedule.width if self.schedule.form == "grid" else 1

    @property
    def width(self) -> int:
        """The elements that are moved at once."""
        return 1 if self.schedule.form == "grid" else self.schedule.width

    @property
    def threads(self) -> int:
        """The threads that have a row."""
        return self.schedule.threads // self.beside

    @property
    def warps(self) -> int:
        """The warps whose threads have a row."""
        return self.schedule.threads // WARP

    @property
    def turns(self) -> int:
        """The number of vectors of its row that a thread takes."""
        return -(-self.extent // (self.threads * self.width))

    @property
    def are_kept(self) -> bool:
        """Whether the elements of a row stay in registers between loops."""
        return self.schedule.kept


def rows_schedule(row: RowOp) -> RowsAttr | str:
    """The schedule of rows of contiguous points, or why threads cannot share them."""
    if (reason := unshared(row)) is not None:
        return reason
    extent = points_of(row)
    if extent < WARP:
        return f"rows of fewer than {WARP} elements have a thread each"
    words, width = kept_words(row), widest(row)
    threads = WARP if has_regions(row) else _threads(extent * max(1, words))
    turns = -(-extent // (threads * width))
    form = "warp" if threads == WARP else "block"
    is_kept = words > 0 and turns * width * words <= most_kept(threads)
    return RowsAttr(form, threads, width, is_kept)


def most_kept(threads: int) -> int:
    """The registers in which each of so many threads keeps elements at most."""
    return MOST_KEPT_OF_MANY if threads == MOST_THREADS else MOST_KEPT


def _threads(words: int) -> int:
    """The threads of a row that has so many words in registers."""
    if words <= WARP * MOST_KEPT:
        return WARP
    threads = BLOCK_THREADS
    while threads < MOST_THREADS and words > threads * GOOD_KEPT:
        threads *= 2
    return threads


def unshared(row: RowOp) -> str | None:
    """The reason that threads cannot share the points of a row, if they cannot."""
    if 0 in row.loops().extents:
        return "it has no elements"
    for value, map in zip(row.accessed(), row.maps(), strict=True):
        if isinstance(value.owner, PaddedOp):
            return "padded operands have no vectors"
        if not all(
            isinstance(x, AffineDimExpr | AffineConstantExpr) for x in map.results
        ):
            return "indices of rows are computed"
        if type_name(element_of(value)) in (None, "i1"):
            return f"rows of {element_of(value)} have a thread each"
    for op in row.body.block.ops:
        reason = _unjoined(op) if isinstance(op, AllReduceOp) else None
        if reason is not None:
            return reason
        if not _is_scalar(op):
            return f"{op.name} has no source on a device"
    return None


def _unjoined(fold: AllReduceOp) -> str | None:
    """The reason that the threads of a row cannot join what each has folded."""
    types = [value.type for value in fold.results]
    if fold.combine is None:
        is_float = all(isinstance(type, AnyFloat) for type in types)
        return None if is_float else "integers are folded by a thread"
    for type in types:
        if type_name(type) not in JOINED:
            return f"values of {type} are folded by a thread"
    for op in fold.combine.block.ops:
        if not _is_scalar(op):
            return f"{op.name} has no source on a device"
    return None


def has_regions(row: RowOp) -> bool:
    """Whether folds of a row are by regions, which the threads of a warp join."""
    ops = row.body.block.ops
    return any(isinstance(op, AllReduceOp) and op.combine is not None for op in ops)


def lie_apart(row: RowOp) -> bool:
    """Whether the points of a row are not contiguous in some operand."""
    along = row.along_loops[-1]
    maps = (map for map in row.maps() if along in map.used_dims())
    return not all(_is_contiguous(map, along) for map in maps)


def _is_contiguous(map: AffineMap, along: int) -> bool:
    """Whether a loop is the last index of an operand, and no other one."""
    *before, last = map.results
    is_last = isinstance(last, AffineDimExpr) and last.position == along
    return is_last and not any(along in expr.used_dims() for expr in before)


def _is_scalar(op: Operation) -> bool:
    """Whether an op has a source that computes a scalar, or needs none."""
    known = (AllReduceOp, IndexOp, KeepOp, YieldOp, arith.ConstantOp)
    return isinstance(op, known) or op.name in EXPRESSIONS


def widest(row: RowOp) -> int:
    """The elements of a row that a thread can move at once."""
    along = row.along_loops[-1]
    pairs = zip(row.accessed(), row.maps(), strict=True)
    values = [value for value, map in pairs if along in map.used_dims()]
    width = width_of(*map(element_of, values))
    extent = row.loops().extents[along]
    lines = (memref_type(value).get_shape()[-1] for value in values)
    return 1 if any(line % width for line in (*lines, extent)) else width


def kept_words(row: RowOp) -> int:
    """The registers for each element of a row that stays between passes."""
    derived = passes_of(row)
    users: dict[tuple[SSAValue, AffineMap], set[int]] = {}
    types: dict[tuple[SSAValue, AffineMap], Attribute] = {}
    operands = [*zip(row.accessed(), row.maps(), strict=True)]
    for number, each in enumerate(derived.passes):
        read = [operands[_operand_of(row, derived, value)] for value in each.loads]
        written = [operands[len(row.ins) + store.result] for store in each.stores]
        for value, map in (*read, *written):
            users.setdefault((value, map), set()).add(number)
            types[value, map] = element_of(value)
    return sum(words_of(types[place]) for place, by in users.items() if len(by) > 1)


def _operand_of(row: RowOp, derived: RowPasses, value: SSAValue) -> int:
    """The number of the operand in which a value of the body lies."""
    if isinstance(value.owner, KeepOp):
        return len(row.ins) + derived.homes[value.owner]
    return row.body.block.args.index(value)


def rows_of(row: RowOp, loops: scf.ParallelOp, schedule: RowsAttr) -> Rows:
    """The rows of an op as it is scheduled, given the loops that it stands for."""
    extents = _extents_along(row)
    passes = (op for op in loops.body.block.ops if isinstance(op, scf.ForOp))
    pairs = zip(passes, passes_of(row).passes, strict=True)
    found = [_row_loop(_nest(op, len(extents)), each.folds) for op, each in pairs]
    return Rows(extents, schedule, found)


def points_of(row: RowOp) -> int:
    """The number of points of a row."""
    return prod(_extents_along(row))


def _extents_along(row: RowOp) -> list[int]:
    """The trip counts of the loops of a row."""
    extents = row.loops().extents
    return [extents[loop] for loop in row.along_loops]


def _nest(op: scf.ForOp, depth: int) -> list[scf.ForOp]:
    """A loop with those in it, down to a depth."""
    if depth == 1:
        return [op]
    (inner,) = (each for each in op.body.block.ops if isinstance(each, scf.ForOp))
    return [op, *_nest(inner, depth - 1)]


def _row_loop(nest: Sequence[scf.ForOp], folded: Sequence[AllReduceOp]) -> RowLoop:
    """A pass over a row, given the loops that it is, and its folds."""
    variables, ops = _variables(nest), [*nest[-1].body.block.ops]
    loads = [
        place_of(x.memref, x.indices, variables)
        for x in ops
        if isinstance(x, memref.LoadOp)
    ]
    stores = [
        place_of(x.memref, x.indices, variables)
        for x in ops
        if isinstance(x, memref.StoreOp)
    ]
    return RowLoop(nest, _folds(nest, folded), list(dict.fromkeys(loads)), stores)


def _variables(nest: Sequence[scf.ForOp]) -> list[BlockArgument]:
    return [op.body.block.args[0] for op in nest]


def place_of(
    buffer: SSAValue, indices: Sequence[SSAValue], variables: Sequence[SSAValue]
) -> Place:
    """The elements that an access in loops of these variables goes through."""
    found = (variables.index(x) if x in variables else x for x in indices)
    return buffer, tuple(found)


def _folds(
    nest: Sequence[scf.ForOp], folded: Sequence[AllReduceOp]
) -> list[Fold | RegionFold]:
    op, inner = nest[0], nest[-1].body.block
    _, *carried = inner.args
    last = inner.last_op
    assert last is not None, "a loop ends in scf.yield"
    folds: list[Fold | RegionFold] = []
    first = 0
    for each in folded:
        own = slice(first, first + len(each.outs))
        initials, results = op.iter_args[own], op.results[own]
        made = last.operands[first].owner
        if each.combine is not None:
            block = each.combine.block
            folds.append(RegionFold(carried[own], initials, results, block))
        else:
            assert isinstance(made, Operation), "an op folds"
            folds.append(Fold(made, carried[first], initials[0], results[0]))
        first = own.stop
    return folds


def is_neutral(fold: Fold) -> bool:
    """Whether a fold begins with what changes nothing."""
    owner = fold.initial.owner
    if not isinstance(owner, arith.ConstantOp):
        return False
    value = owner.value
    return isinstance(value, FloatAttr) and value.value.data == fold.neutral


def words_of(type: Attribute) -> int:
    """The registers that an element of a type takes."""
    return 2 if dtype_of(type) in ("f64", "i64") else 1


def dtype_of(type: Attribute) -> str:
    """The type that a kernel computes in with elements of a type."""
    name = type_name(type)
    assert name is not None, "only numbers are in rows"
    return "f32" if name in HALVES else name
