"""
Automatic mixed precision: compute ops of `f32` that gain by it in `bf16` or `f16`.

Each op stands in one of four lists (`TensorOp.PRECISION`), as in OneFlow
([OF-70](sources.md#of-70)): contractions and attention in the white one; softmax,
norms, powers, reductions and losses in the black one; ops on elements in the grey one;
ops that only move or choose elements in the clear one. Ops with bodies and ops that are
not wholly on `f32` keep their types, like those in the black list.

The same is done in bodies of loops and conditions, each for itself: their arguments and
what they yield stay `f32`, so that states and sums over iterations lose no digits.
Values that bodies read, or take slices of, are cast before the op.

1. Grey and clear ops become black behind a black op, with none but grey and clear ops
   between, if a black or grey one follows or they are grey.
2. Grey and clear ops that are not black become white between white ones.
3. Clear ops that are not black become white next to white ones, before and behind.

White ops are computed in 16 bits then. Where a value of `f32` reaches a white op
stands one `op.cast` for all its readers, and one back for all others. Variables stay
`f32`, so that gradients and updates are.

Gradients in `f16` would often be 0. So where a job updates variables, they are those of
the loss times a scale, the variable `"<job>/loss_scale"`: updates divide by it, before
gradients are clipped, and so does all else that reads a gradient. Where a gradient that
an update reads is not finite (`op.all_finite`), all updates of the job are skipped, and
the scale is multiplied by `backoff`; after `interval` steps in a row without that, by
`growth`, unless it would be infinite. The variable `"<job>/good_steps"` counts these.
The rule is that of PyTorch's `GradScaler`, but that no scale falls below 2^-126. If the
job has one of the two variables already, its `init` counts.

Example: `test/lowering/job/job-cast-amp-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, bf16, f16, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.flow_edits import may_change
from penstock.dialects.op.loop import LoopOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.job.loss_scale import LossScaler, ScaleRule

TYPES = {"bf16": bf16, "f16": f16}
"""The types of 16 bits by their names."""

################################################################################
# Lists                                                                        #
################################################################################


def white_among(
    colours: Sequence[str], readers: Sequence[Sequence[int]]
) -> Sequence[bool]:
    """
    Whether each op is computed in 16 bits, by its list ("" for an op in none) and by
    the ops that read its results, which come after it.
    """
    count = len(colours)
    makers: list[list[int]] = [[] for _ in range(count)]
    for op, after in enumerate(readers):
        for reader in after:
            makers[reader].append(op)
    bears = [colour in ("grey", "clear") for colour in colours]

    def leads(targets: Sequence[bool], through: Sequence[bool]) -> list[bool]:
        """Whether an op is a target, or one is reached through some ops behind it."""
        found = list(targets)
        for op in reversed(range(count)):
            found[op] |= through[op] and any(found[reader] for reader in readers[op])
        return found

    def follows(start: Sequence[bool], through: Sequence[bool]) -> list[bool]:
        """Whether an op is one of the first, or behind one with some ops between."""
        found = list(start)
        for op in range(count):
            found[op] |= through[op] and any(found[maker] for maker in makers[op])
        return found

    before_black = leads([colour in ("black", "grey") for colour in colours], bears)
    grows = [a and b for a, b in zip(before_black, bears, strict=True)]
    black = follows([colour == "black" for colour in colours], grows)
    free = [a and not b for a, b in zip(bears, black, strict=True)]
    white = [colour == "white" for colour in colours]
    between = [a and b for a, b in zip(leads(white, free), free, strict=True)]
    white = follows(white, between)
    moves = [a and colour == "clear" for a, colour in zip(free, colours, strict=True)]
    return leads(follows(white, moves), moves)


def colour_of(op: Operation) -> str:
    """The list that an op stands in; "" if it makes no floats, or of none."""
    if not isinstance(op, TensorOp):
        return ""
    made = floats_of(op.results)
    if not made or not op.operands:
        return ""
    is_plain = all(type == f32 for type in (*made, *floats_of(op.operands)))
    return op.PRECISION if is_plain and not op.regions else "black"


def floats_of(values: Iterable[SSAValue]) -> list[AnyFloat]:
    """The element types of those values that are floats."""
    types = [tensor_type(value).element_type for value in values]
    return [type for type in types if isinstance(type, AnyFloat)]


def white_ops(block: Block) -> set[Operation]:
    """The ops of a job or of a body that are computed in 16 bits."""
    ops = list(block.ops)
    place = {op: index for index, op in enumerate(ops)}
    colours = [colour_of(op) for op in ops]
    readers = [
        [
            place[use.operation]
            for result in op.results
            for use in result.uses
            if use.operation in place
        ]
        for op in ops
    ]
    chosen = white_among(colours, readers)
    return {op for op, is_white in zip(ops, chosen, strict=True) if is_white}


################################################################################
# Rewriting                                                                    #
################################################################################


class Caster:
    """Computes ops of a block in a type of 16 bits, with one cast for each value."""

    def __init__(self, block: Block, element: AnyFloat):
        self._block, self._element = block, element
        self._narrow: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Compute in 16 bits what gains by it, also in bodies."""
        chosen = white_ops(self._block)
        for op in list(self._block.ops):
            if isinstance(op, FlowOp):
                self._cast_bodies(op)
            elif isinstance(op, TensorOp) and op in chosen:
                self.rewrite(op)
        for op in list(self._block.ops):
            # Casts back that nothing of f32 reads.
            if isinstance(op, CastOp) and not op.result.uses:
                Rewriter.erase_op(op)

    def _cast_bodies(self, op: FlowOp) -> None:
        """Compute ops of bodies in 16 bits, on what is cast before where it can be."""
        for region in op.regions:
            Caster(region.block, self._element).run()
        if not may_change(op):
            return
        columns = [region.block.args for region in op.regions]
        found: dict[SSAValue, None] = {}
        for number, value in enumerate(op.read_values, -len(op.read_values)):
            for cast in self._casts_of([args[number] for args in columns]):
                narrow = self.narrowed(op, value)
                replace_op(cast, [], [narrow])
                found[narrow] = None
        op.read_also([*found])
        if not isinstance(op, LoopOp):
            return
        for tensor, arg in zip(op.slices, op.slice_args, strict=True):
            for cast in self._casts_of([arg]):
                row = op.slice_also(self.narrowed(op, tensor))
                row.name_hint = cast.result.name_hint
                replace_op(cast, [], [row])

    def _casts_of(self, args: Iterable[SSAValue]) -> list[CastOp]:
        """The casts of arguments of bodies to 16 bits."""
        readers = [use.operation for arg in args for use in arg.uses]
        return [
            reader
            for reader in readers
            if isinstance(reader, CastOp)
            and tensor_type(reader.result).element_type == self._element
        ]

    def narrowed(self, op: Operation, value: SSAValue) -> SSAValue:
        """A value of floats in 16 bits, cast before `op` unless it was before."""
        if not floats_of([value]):
            return value
        if value not in self._narrow:
            cast = CastOp(value, self._element)
            cast.location = op.location
            copy_placement(op, cast)
            if hint := value.name_hint:
                cast.result.name_hint = f"{hint}_{self._element.name}"
            Rewriter.insert_op(cast, InsertPoint.before(op))
            self._narrow[value] = cast.result
        return self._narrow[value]

    def rewrite(self, op: TensorOp) -> None:
        """Compute an op in 16 bits, and cast what it makes back."""
        operands = [self.narrowed(op, value) for value in op.operands]
        new = type(op).inferred(operands, op.properties)
        new.attributes |= op.attributes
        new.location = op.location
        made: list[Operation] = [new]
        kept: list[SSAValue] = []
        for old, result in zip(op.results, new.results, strict=True):
            if hint := old.name_hint:
                result.name_hint = f"{hint}_{self._element.name}"
            kept.append(self._back(op, result, made))
        replace_op(op, made, kept)

    def _back(self, op: TensorOp, result: SSAValue, made: list[Operation]) -> SSAValue:
        if not floats_of([result]):
            return result
        cast = CastOp(result, f32)
        cast.location = op.location
        copy_placement(op, cast)
        self._narrow[cast.result] = result
        made.append(cast)
        return cast.result


def copy_placement(op: Operation, cast: CastOp) -> None:
    """Let a cast run where an op does."""
    if (placement := op.attributes.get("placement")) is not None:
        cast.attributes["placement"] = placement


@dataclass(frozen=True)
class JobCastAmpPass(ModulePass):
    """
    Compute ops that gain by it in `bf16` or `f16`: automatic mixed precision.
    """

    name = "job-cast-amp"

    type: str = "none"
    """The type to compute in: `bf16` or `f16`; `none` leaves jobs as they are."""
    loss_scale: int | float = 65536.0
    """The scale of losses to begin with, for `f16`."""
    growth: int | float = 2.0
    """The factor of the scale after `interval` steps with finite gradients."""
    backoff: int | float = 0.5
    """The factor of the scale after a step with others."""
    interval: int = 2000
    """The steps in a row after which the scale grows."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.type == "none":
            return
        if self.type not in TYPES:
            raise PassFailedException(
                f"the type should be none, bf16 or f16, got '{self.type}'"
            )
        rule = ScaleRule(
            float(self.loss_scale), self.growth, self.backoff, self.interval
        )
        for finding in rule.findings():
            raise PassFailedException(finding)
        for job in outermost(op, JobOp):
            Caster(job.body.block, TYPES[self.type]).run()
            if self.type == "f16":
                LossScaler(job, rule).run()
