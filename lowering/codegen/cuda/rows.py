"""
The analysis of row stages: rows that the threads of a warp, or of a block, compute
together.

The rows of an `scf.parallel` are found if its body is made of scalar ops and of loops
over the same elements `[..., 0]` to `[..., n - 1]` of buffers: loops that fold them to
one value by an op which may be applied in any order, that write them, or both. Sums of
rows, softmax and normalizations are such. Between the loops, elements stay in the
registers of the thread that has read or written them first, so that each is read and
written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.launch.schedules.cuda_matmul import WARP
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

Place: TypeAlias = tuple[SSAValue, tuple[SSAValue, ...]]
"""Elements of a row: the buffer, and the indices before that of the element."""


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


@dataclass(frozen=True)
class RowLoop:
    """A loop over the elements of a row."""

    op: scf.ForOp
    folds: Sequence[Fold]
    loads: Sequence[Place]
    """The elements that are read, each once."""
    stores: Sequence[Place]


@dataclass
class Rows:
    """The rows of an `scf.parallel`."""

    extent: int
    loops: list[RowLoop] = field(default_factory=list[RowLoop])

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
    def width(self) -> int:
        """The elements that are moved at once."""
        types = [place[0].type for place in self.places]
        memrefs = [type for type in types if isa(type, MemRefType)]
        width = width_of(*(type.element_type for type in memrefs))
        lines = (type.get_shape()[-1] for type in memrefs)
        if any(line % width for line in (*lines, self.extent)):
            return 1
        return width

    @property
    def kept_words(self) -> int:
        """The registers for each element of a row that stays between loops."""
        kept = [place for place in self.places if len(self.users(place)) > 1]
        return sum(words_of(buffer) for buffer, _ in kept)

    @property
    def threads(self) -> int:
        """The threads that have a row."""
        words = self.extent * max(1, self.kept_words)
        if words <= WARP * MOST_KEPT:
            return WARP
        threads = BLOCK_THREADS
        while threads < MOST_THREADS and words > threads * GOOD_KEPT:
            threads *= 2
        return threads

    @property
    def turns(self) -> int:
        """The number of vectors of its row that a thread takes."""
        return -(-self.extent // (self.threads * self.width))

    @property
    def are_kept(self) -> bool:
        """Whether the elements of a row stay in registers between loops."""
        most = MOST_KEPT_OF_MANY if self.threads == MOST_THREADS else MOST_KEPT
        return self.turns * self.width * self.kept_words <= most


def rows_of(op: scf.ParallelOp) -> Rows | None:
    """The rows of a phase, or None if it has none that threads can share."""
    rows = Rows(0)
    stored: set[SSAValue] = set()
    for inner in op.body.block.ops:
        match inner:
            case scf.ForOp():
                loop = _row_loop(inner)
                if loop is None or rows.extent not in (0, _extent(inner)):
                    return None
                rows.extent = _extent(inner)
                rows.loops.append(loop)
            case memref.StoreOp():
                stored.add(inner.memref)
            case memref.LoadOp() | scf.ReduceOp():
                pass
            case _:
                if not _is_scalar(inner):
                    return None
    if rows.extent < WARP or not _is_safe(rows, stored, op.body.block):
        return None
    return rows


def _is_safe(rows: Rows, stored: set[SSAValue], block: Block) -> bool:
    """Whether each buffer that is written is only used at the elements written."""
    written = [place for loop in rows.loops for place in loop.stores]
    buffers = {buffer for buffer, _ in written}
    if stored & {buffer for buffer, _ in rows.places}:
        return False
    if len(buffers) != len(set(written)):
        return False
    if any(place not in written for place in rows.places if place[0] in buffers):
        return False
    loads = (op.memref for op in block.ops if isinstance(op, memref.LoadOp))
    return not any(buffer in buffers | stored for buffer in loads)


def _extent(op: scf.ForOp) -> int:
    """The trip count of a loop from 0 with step 1; 0 for any other."""
    bounds: list[int] = []
    for value in (op.lb, op.ub, op.step):
        owner = value.owner
        if not isinstance(owner, arith.ConstantOp):
            return 0
        assert isinstance(owner.value, IntegerAttr), "bounds are indices"
        bounds.append(owner.value.value.data)
    lower, upper, step = bounds
    return upper if (lower, step) == (0, 1) else 0


def _row_loop(op: scf.ForOp) -> RowLoop | None:
    variable, *carried = op.body.block.args
    loads: list[Place] = []
    stores: list[Place] = []
    for inner in op.body.block.ops:
        match inner:
            case memref.LoadOp() | memref.StoreOp():
                place = _place(inner.memref, inner.indices, variable)
                if place is None:
                    return None
                (loads if isinstance(inner, memref.LoadOp) else stores).append(place)
            case scf.YieldOp():
                pass
            case _:
                if not _is_scalar(inner):
                    return None
    folds = _folds(op, carried)
    if folds is None:
        return None
    return RowLoop(op, folds, list(dict.fromkeys(loads)), stores)


def _place(
    buffer: SSAValue, indices: Sequence[SSAValue], variable: SSAValue
) -> Place | None:
    """The place of a loop's load or store in a buffer, if that is a row of numbers."""
    assert isa(buffer.type, MemRefType), "checked by the verifier"
    *before, last = indices or [variable]
    if last is not variable or variable in before or not indices:
        return None
    if type_name(buffer.type.element_type) in (None, "i1"):
        return None
    return buffer, tuple(before)


def _folds(op: scf.ForOp, carried: Sequence[BlockArgument]) -> list[Fold] | None:
    last = op.body.block.last_op
    assert last is not None, "a loop ends in scf.yield"
    folds: list[Fold] = []
    for number, (value, yielded) in enumerate(zip(carried, last.operands, strict=True)):
        made = yielded.owner
        if not isinstance(made, Operation) or not _folds_in_any_order(made):
            return None
        if list(made.operands).count(value) != 1:
            return None
        if len(list(value.uses)) != 1 or len(list(yielded.uses)) != 1:
            return None
        folds.append(Fold(made, value, op.iter_args[number], op.results[number]))
    return folds


def _folds_in_any_order(op: Operation) -> bool:
    if isinstance(op, arith.AddfOp | arith.MulfOp):
        return FastMathFlag.REASSOC in op.fastmath.data
    return type(op) in NEUTRAL


def _is_scalar(op: Operation) -> bool:
    """Whether an op computes scalars, and nothing else."""
    return isinstance(op, arith.ConstantOp) or op.name in EXPRESSIONS


def is_neutral(fold: Fold) -> bool:
    """Whether a fold begins with what changes nothing."""
    owner = fold.initial.owner
    if not isinstance(owner, arith.ConstantOp):
        return False
    value = owner.value
    return isinstance(value, FloatAttr) and value.value.data == fold.neutral


def words_of(buffer: SSAValue) -> int:
    """The registers that an element of a buffer takes."""
    assert isa(buffer.type, MemRefType), "checked by the verifier"
    return 2 if dtype_of(buffer.type.element_type) in ("f64", "i64") else 1


def dtype_of(type: Attribute) -> str:
    """The type that a kernel computes in with elements of a type."""
    name = type_name(type)
    assert name is not None, "only numbers are in rows"
    return "f32" if name in HALVES else name
