"""
Raise ops of `linalg` in kernels to the structured ops that they are.

An op of `linalg`, generic or named, that adds a product of two numbers to its result is
a `kernel.contract`. Stages around it on the same result become parts of it:

* before it, a `linalg.fill`, or elementwise ops that write all of the result and do not
  read it: the `start`, or terms of the `finish` where numbers are computed;
* after it, elementwise ops that change each element of the result: the `finish`. Their
  maps are composed with those of the contraction, also where a view has other
  dimensions.

Terms of a sum may be added in any order, sums of halves are `f32` until they are
finished. An op that is not raised stays as it is; its attribute `no_raise` says why.
Ops with `no_schedule` stay as well, and so do kernels with a source of their own, or
with ops that became loops for want of a schedule (`plain_loops`).

An op with a schedule, as of `#launch.contraction`, keeps it. It leaves stages to the
ops around it that the schedule cannot compute with the sums; `no_finish` says why.

Example: `test/lowering/convert/raise-linalg-to-kernel-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import AnyFloat, MemRefType, ModuleOp, StringAttr, f32
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, element_of, shape_of
from penstock.dialects.kernel.loops import Access, Nest, row_major
from penstock.dialects.kernel.views import PaddedOp, root_of
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.actors import PLAIN_LOOPS
from penstock.dialects.launch.schedules.contraction import ContractionSchedule
from penstock.dialects.launch.stages import NO_RAISE
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.walk import outermost
from penstock.lowering.codegen.body.contraction import EXTENSIONS, nest_of
from penstock.lowering.codegen.body.epilogue import (
    NO_STAGES,
    is_zero,
    stages_of,
)
from penstock.lowering.codegen.printers import printers_for
from penstock.plugins import PluginError

LEFT_ALONE = (SCHEDULE, REFUSAL)

Operand: TypeAlias = tuple[SSAValue, AffineMap]
"""A memref, and its index as a function of the loops of a contraction."""


@dataclass(frozen=True)
class RaiseLinalgToKernelPass(ModulePass):
    """Raise ops of linalg in kernels to the structured ops that they are."""

    name = "raise-linalg-to-kernel"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in outermost(op, KernelOp):
            if may_be_raised(kernel):
                try:
                    raise_kernel(kernel)
                except PluginError as error:
                    raise LocatedPassFailure([(kernel, str(error))]) from error


def may_be_raised(kernel: KernelOp) -> bool:
    """Whether a kernel is made of its body, and none of its ops became loops."""
    return kernel.source is None and PLAIN_LOOPS not in kernel.attributes


def raise_kernel(kernel: KernelOp) -> None:
    """Raise the ops of `linalg` of a kernel. Raises `PluginError`."""
    printers = printers_for(kernel.compiled_for)
    for op in stages_of(kernel.body.block):
        if not isinstance(op, LinalgStructuredOperation) or REFUSAL in op.attributes:
            continue
        schedule = op.attributes.get(SCHEDULE)
        if schedule is None and _factors_of(op) is None:
            continue
        if schedule is not None and not isinstance(schedule, ContractionSchedule):
            continue
        refusal = _refusal(op)
        if refusal is not None:
            op.attributes[NO_RAISE] = StringAttr(refusal)
            continue
        made = _raise_contraction(op, stages_of(kernel.body.block))
        if schedule is not None:
            made.attributes[SCHEDULE] = schedule
        if schedule is not None and printers is not None:
            printers.fitted(made)


def _refusal(op: LinalgStructuredOperation) -> str | None:
    """Why an op is no `kernel.contract`, if so."""
    if _factors_of(op) is None:
        return "it is no sum of products"
    if len(op.outputs) != 1 or op.res:
        return "it has no memref as its one result"
    if not all(isa(value.type, MemRefType) for value in op.operands):
        return "a factor is a number"
    if root_of(op.outputs[0]) in map(root_of, op.inputs):
        return "the result is one of the factors"
    nest = nest_of(op)
    if isinstance(nest, str):
        return nest
    a, b, out = (map.data.used_dims() for map in op.get_indexing_maps())
    for loop, extent in enumerate(nest.extents):
        if extent != 1 and [loop in used for used in (a, b, out)].count(True) < 2:
            return f"loop {loop} is of one operand only"
        if nest.reductions[loop] and loop in out:
            return f"loop {loop} is a reduction, and of the result"
    if not (a & b) - out:
        return "there is no loop of terms"
    sums = prod(nest.extents[loop] for loop in out)
    if sums != prod(shape_of(op.outputs[0])):
        return "some elements of the result are no sums"
    return None


@dataclass
class _Finish:
    """The start and the region of a contraction, as ops are taken into them."""

    op: LinalgStructuredOperation
    nest: Nest
    block: Block
    total: SSAValue
    start: Operand | None = None
    """Of all terms, or zero without one."""
    operands: list[Operand] = field(default_factory=list[Operand])
    taken: list[Operation] = field(default_factory=list[Operation])

    @property
    def written(self) -> Access:
        """The access of the contraction to its result."""
        return self.nest.accesses[-1]

    def take_start(self, stage: Operation) -> bool:
        """Start the sums as a stage before them does, if that can be said."""
        root = root_of(self.op.outputs[0])
        if not isinstance(stage, LinalgStructuredOperation) or not _writes(stage, root):
            return False
        block = stage.body.block
        if isinstance(stage, linalg.ops.FillOp):
            value = stage.inputs[0]
            if not _is_constant_zero(value):
                self.start = value, AffineMap(len(self.nest.extents), 0, ())
            self.taken.append(stage)
            return True
        if block.args[-1].uses or any(root_of(x) is root for x in stage.inputs):
            return False
        operands = self._operands_of(stage, root)
        if operands is None:
            return False
        yielded = _last(block).operands[0]
        if yielded in block.args and len(block.args) == 2 and operands[0] is not None:
            self.start = operands[0]
        elif _is_constant_zero(number := _given(stage, yielded)):
            pass
        elif isinstance(number.owner, arith.ConstantOp) and (
            number.owner.parent is stage.parent
        ):
            self.start = number, AffineMap(len(self.nest.extents), 0, ())
        elif (value := self._value_of(stage, operands)) is not None:
            self._add(value)
        else:
            return False
        self.taken.append(stage)
        return True

    def _add(self, value: SSAValue) -> None:
        """Begin the region with the sum of a value and the terms."""
        kind = arith.AddfOp if isinstance(value.type, AnyFloat) else arith.AddiOp
        added = kind(value, self.total)
        self.block.add_op(added)
        self.total = added.result

    def take_after(self, stage: Operation) -> bool:
        """Finish the sums as a stage after them does, if that can be said."""
        root = root_of(self.op.outputs[0])
        if not isinstance(stage, LinalgStructuredOperation) or not _writes(stage, root):
            return False
        if isinstance(stage, linalg.ops.FillOp) or _factors_of(stage) is not None:
            return False
        operands = self._operands_of(stage, root)
        if operands is None:
            return False
        value = self._value_of(stage, operands)
        if value is None:
            return False
        self.total = value
        self.taken.append(stage)
        return True

    def _operands_of(
        self, stage: LinalgStructuredOperation, root: SSAValue
    ) -> list[Operand | None] | None:
        """
        The operands of a stage by the loops of the contraction; None for a number or
        the element of the result so far. None at all if one is indexed otherwise.
        """
        nest = nest_of(stage)
        if isinstance(nest, str):
            return None
        exprs = _composed(nest, self.nest)
        found: list[Operand | None] = []
        maps = [each.data for each in stage.get_indexing_maps()]
        accesses = nest.accesses
        for value, map, access in zip(stage.inputs, maps, accesses, strict=False):
            if not isa(value.type, MemRefType):
                if not isinstance(value.owner, arith.ConstantOp):
                    return None
                found.append(None)
            elif root_of(value) is root:
                if access != accesses[-1]:
                    return None
                found.append(None)
            elif isinstance(value.owner, PaddedOp):
                return None
            else:
                used = map.used_dims()
                if any(exprs[loop] is None for loop in used):
                    return None
                known = [expr or AffineExpr.constant(0) for expr in exprs]
                count = len(self.nest.extents)
                found.append((value, map.replace_dims_and_symbols(known, [], count, 0)))
        return found

    def _argument(self, operand: Operand) -> SSAValue:
        """The argument of the region that is an element of an operand."""
        if operand not in self.operands:
            self.operands.append(operand)
            self.block.insert_arg(element_of(operand[0]), len(self.block.args))
        return self.block.args[1 + self.operands.index(operand)]

    def _value_of(
        self, stage: LinalgStructuredOperation, operands: Sequence[Operand | None]
    ) -> SSAValue | None:
        """
        The number that a stage writes, by ops that are added to the region; None if its
        body has others than scalar ops, or computes in half precision.
        """
        block = stage.body.block
        if not all(_is_scalar(op, block) for op in block.ops if op is not _last(block)):
            return None
        if any(_is_cut(arg) for arg in block.args) or _is_cut_number(_last(block)):
            return None
        known: dict[SSAValue, SSAValue] = {block.args[-1]: self.total}
        for arg, value, operand in zip(
            block.args, stage.inputs, operands, strict=False
        ):
            if operand is not None:
                known[arg] = self._argument(operand)
            elif isa(value.type, MemRefType):
                known[arg] = self.total
            else:
                known[arg] = self._number(value)
        rounding = _last(block).operands[0].owner
        for op in block.ops:
            for value in op.operands:
                if value not in known:
                    known[value] = self._number(value)
            if op is _last(block):
                return self._widened(known[op.operands[0]])
            is_wide = isinstance(op, arith.ExtFOp) and (
                known[op.input].type == op.result.type
            )
            if is_wide or (op is rounding and is_half(op.results[0].type)):
                known[op.results[0]] = known[op.operands[0]]
                continue
            self.block.add_op(op.clone(known))
        raise AssertionError("a linalg body ends in linalg.yield")

    def _widened(self, value: SSAValue) -> SSAValue:
        """A number in the type of the sums."""
        if not is_half(value.type):
            return value
        extended = arith.ExtFOp(value, self.block.args[0].type)
        self.block.add_op(extended)
        return extended.result

    def _number(self, value: SSAValue) -> SSAValue:
        """The copy of a constant in the region."""
        assert isinstance(value.owner, arith.ConstantOp), "has been looked at"
        copy = value.owner.clone()
        self.block.add_op(copy)
        return copy.result

    def region(self) -> Region | None:
        """The region, or none where sums are stored as they are."""
        if self.total is self.block.args[0]:
            return None
        element = element_of(self.op.outputs[0])
        value = self.total
        if is_half(element):
            rounded = arith.TruncFOp(value, element)
            self.block.add_op(rounded)
            value = rounded.result
        self.block.add_op(YieldOp(value))
        return Region(self.block)


def _raise_contraction(
    op: LinalgStructuredOperation, stages: Sequence[Operation]
) -> ContractOp:
    """The contraction in place of an op and of the stages that are part of it."""
    nest = nest_of(op)
    assert isinstance(nest, Nest), "has been looked at"
    out = op.outputs[0]
    element = element_of(out)
    block = Block(arg_types=[f32 if is_half(element) else element])
    finish = _Finish(op, nest, block, block.args[0])
    position = stages.index(op)
    is_whole = _writes_all(nest, out)
    last: Operation = op
    is_started = is_whole and position > 0 and finish.take_start(stages[position - 1])
    for stage in stages[position + 1 :] if is_whole else ():
        if not finish.take_after(stage):
            break
        last = stage
    maps = [each.data for each in op.get_indexing_maps()]
    start: Operand | None = (out, maps[-1])
    if is_started:
        start = finish.start
    signed = _signs_of(op)
    made = ContractOp(
        (op.inputs[0], op.inputs[1]),
        [out],
        [
            *maps,
            *([] if start is None else [start[1]]),
            *(map for _, map in finish.operands),
        ],
        start=None if start is None else start[0],
        extra=[value for value, _ in finish.operands],
        finish=finish.region(),
        unsigned=(not signed[0], not signed[1]),
    )
    made.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(last))
    for stage in (*finish.taken, op):
        _erase(stage)
    return made


def _factors_of(op: LinalgStructuredOperation) -> tuple[SSAValue, SSAValue] | None:
    """
    The two block arguments whose product a body adds to its output, if it does. `f16`,
    `bf16` and 8-bit integers are extended first, and the sum of floats is rounded last.
    """
    block = op.body.block
    if block.last_op is None or len(block.args) != 3:
        return None
    total = _rounded(block.last_op.operands[0]).owner
    if not isinstance(total, arith.AddfOp | arith.AddiOp):
        return None
    output, addends = block.args[-1], [*map(_extended, total.operands)]
    product = next((v.owner for v in addends if v is not output), None)
    if output not in addends or not isinstance(product, arith.MulfOp | arith.MuliOp):
        return None
    ops = {product, total, block.last_op}
    others = (
        op for op in block.ops if not isinstance(op, (*EXTENSIONS, arith.TruncFOp))
    )
    factors = [*map(_extended, product.operands)]
    is_all = set(others) == ops and set(factors) == set(block.args[:-1])
    return (factors[0], factors[1]) if is_all else None


def _extended(value: SSAValue) -> SSAValue:
    """The argument that a number is extended from, or the number itself."""
    owner = value.owner
    if isinstance(owner, EXTENSIONS) and isinstance(owner.input, BlockArgument):
        return owner.input
    return value


def _rounded(value: SSAValue) -> SSAValue:
    """The operand of a rounding, or the number itself."""
    return value.owner.input if isinstance(value.owner, arith.TruncFOp) else value


def _signs_of(op: LinalgStructuredOperation) -> tuple[bool, bool]:
    """Whether each of the factors that a body extends has a sign."""
    unsigned = [
        inner.input for inner in op.body.block.ops if isinstance(inner, arith.ExtUIOp)
    ]
    a, b, _ = op.body.block.args
    return a not in unsigned, b not in unsigned


def _erase(stage: Operation) -> None:
    """Erase a stage, with the numbers and views that only it reads."""
    block = stage.parent
    read = [value.owner for inner in stage.walk() for value in inner.operands]
    stage.detach()
    stage.erase()
    for owner in dict.fromkeys(read):
        if not isinstance(owner, Operation) or owner.parent is not block:
            continue
        if isinstance(owner, NO_STAGES) and not any(x.uses for x in owner.results):
            owner.detach()
            owner.erase()


def _last(block: Block) -> Operation:
    assert block.last_op is not None, "a linalg body ends in linalg.yield"
    return block.last_op


def _writes(stage: LinalgStructuredOperation, root: SSAValue) -> bool:
    """Whether a stage writes each element of a memref once, and nothing else."""
    if len(stage.outputs) != 1 or stage.res or root_of(stage.outputs[0]) is not root:
        return False
    if any(name in stage.attributes for name in LEFT_ALONE):
        return False
    nest = nest_of(stage)
    return not isinstance(nest, str) and _writes_once(nest, root)


def _writes_once(nest: Nest, result: SSAValue) -> bool:
    """Whether a stage without reductions writes each element of the result once."""
    assert isa(result.type, MemRefType), "kernels work on memrefs"
    written = nest.accesses[-1]
    kept = [loop for loop, extent in enumerate(nest.extents) if extent != 1]
    ordered = sorted(kept, key=lambda loop: -written.strides[loop])
    extents = [nest.extents[loop] for loop in ordered]
    strides = tuple(written.strides[loop] for loop in ordered)
    return (
        not any(nest.reductions)
        and written.offset == 0
        and strides == row_major(extents)
        and prod(extents) == result.type.element_count()
    )


def _writes_all(nest: Nest, out: SSAValue) -> bool:
    """Whether the loops of a sum of products walk all of its result."""
    kept = [n for n, is_term in enumerate(nest.reductions) if not is_term]
    written = nest.accesses[-1]
    alone = Nest(
        tuple(nest.extents[n] for n in kept),
        (False,) * len(kept),
        (Access(tuple(written.strides[n] for n in kept), written.offset),),
    )
    return _writes_once(alone, root_of(out))


def _composed(stage: Nest, sums: Nest) -> list[AffineExpr | None]:
    """
    Each loop of a stage as a sum of multiples of the loops of a contraction on the same
    result; None for one that it is not.
    """
    steps = stage.accesses[-1].strides
    pairs = zip(stage.extents, steps, strict=True)
    return [_multiples(sums, extent, step) for extent, step in pairs]


def _multiples(sums: Nest, extent: int, step: int) -> AffineExpr | None:
    """A loop of so many steps of a result by the loops of a contraction."""
    strides = sums.accesses[-1].strides
    inside = [
        (loop, stride, turns)
        for loop, (stride, turns) in enumerate(zip(strides, sums.extents, strict=True))
        if turns != 1 and step <= stride < step * extent
    ]
    reached = 1 + sum(stride // step * (turns - 1) for _, stride, turns in inside)
    # A loop that goes on where the next dimension begins is of both.
    if reached != extent or any(stride % step for _, stride, _ in inside):
        return None
    found = AffineExpr.constant(0)
    for loop, stride, _ in inside:
        dimension = AffineExpr.dimension(loop)
        term = dimension if stride == step else dimension * (stride // step)
        found = term if loop == inside[0][0] else found + term
    return found


def _is_scalar(op: Operation, block: Block) -> bool:
    """Whether an op of a body computes numbers of it, or of constants."""
    known = all(
        isinstance(value.owner, arith.ConstantOp)
        or value.owner is block
        or (isinstance(value.owner, Operation) and value.owner.parent is block)
        for value in op.operands
    )
    is_index = isinstance(op, linalg.ops.IndexOp)
    return known and op.has_trait(Pure) and not op.regions and not is_index


def _is_cut(arg: SSAValue) -> bool:
    """Whether a body computes with an argument in half precision."""
    return is_half(arg.type) and any(
        not isinstance(use.operation, arith.ExtFOp | linalg.ops.YieldOp)
        for use in arg.uses
    )


def _is_cut_number(last: Operation) -> bool:
    """Whether a body yields a number of half precision that it has not just rounded."""
    value = last.operands[0]
    fits = isinstance(value, BlockArgument) or isinstance(
        value.owner, arith.TruncFOp | arith.ConstantOp
    )
    return is_half(value.type) and not fits


def _given(stage: LinalgStructuredOperation, value: SSAValue) -> SSAValue:
    """The operand that an argument of the body of a stage is, or the value itself."""
    args = stage.body.block.args
    if isinstance(value, BlockArgument) and value in args:
        return stage.operands[value.index]
    return value


def _is_constant_zero(value: SSAValue) -> bool:
    return isinstance(value.owner, arith.ConstantOp) and is_zero(value.owner)
