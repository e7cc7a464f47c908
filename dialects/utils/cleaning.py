"""
The canonical form of a region, as xDSL's `canonicalize` finds it, in a third of the
time.

Most ops of a module have neither patterns nor a folder, and results that are used. They
are not put on the worklist, and xDSL looks for dead ops only where there are some.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.context import Context
from xdsl.ir import Block, Operation, OpResult, Region
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.traits import (
    HasCanonicalizationPatternsTrait,
    HasFolder,
    MemoryAllocEffect,
    MemoryEffect,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    Pure,
)
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.dead_code_elimination import region_dce, would_be_trivially_dead


def canonicalize(ctx: Context, region: Region) -> None:
    """Fold ops, apply their canonicalization patterns, and drop dead ones."""
    patterns: list[RewritePattern] = [CanonicalizationRewritePattern()]
    applier = GreedyRewritePatternApplier(patterns, ctx=ctx, folding_enabled=True)
    _Walker(applier, post_walk_func=_drop_dead).rewrite_region(region)


class _Kind(NamedTuple):
    """The facts about all ops of a class that cleaning asks for."""

    has_rules: bool
    """Whether they have patterns or a folder."""
    is_needless: bool | None
    """Whether they do nothing where nobody reads their results; None if it depends."""


_kinds: dict[type[Operation], _Kind] = {}
_ALIKE = (
    *(NoMemoryEffect, MemoryReadEffect, MemoryWriteEffect),
    *(MemoryAllocEffect, MemoryFreeEffect, Pure),
)
"""The traits that say the same effects of each op; those derived from them may not."""


def _kind_of(op: Operation) -> _Kind:
    kind = _kinds.get(type(op))
    if kind is None:
        has_rules = op.has_trait(HasFolder) or op.has_trait(
            HasCanonicalizationPatternsTrait
        )
        effects = op.get_traits_of_type(MemoryEffect)
        is_known = all(type(effect) in _ALIKE for effect in effects)
        is_needless = would_be_trivially_dead(op) if is_known else None
        kind = _kinds[type(op)] = _Kind(has_rules, is_needless)
    return kind


class _Walker(PatternRewriteWalker):
    """The walker of xDSL, which begins with the ops that may change."""

    def _populate_worklist(self, op: Operation | Region | Block) -> None:
        assert isinstance(op, Region), "regions are cleaned"
        self._add(op)

    def _add(self, region: Region) -> None:
        """Put ops on the worklist, the first one last, as they are taken from there."""
        for block in reversed(region.blocks):
            op = block.last_op
            while op is not None:
                for inside in reversed(op.regions):
                    self._add(inside)
                kind = _kind_of(op)
                if kind.has_rules or (
                    kind.is_needless is not False
                    and all(result.first_use is None for result in op.results)
                ):
                    self._worklist.push(op)
                op = op.prev_op


def _drop_dead(region: Region, listener: PatternRewriterListener) -> bool:
    """Drop the ops that do nothing and are read by none that stays; whether any are."""
    needless: set[int] = set()
    live: list[Operation] = []
    if not _tell_apart(region, needless, live):
        # Which ops stay depends on which blocks are reached.
        return region_dce(region, listener)
    while live and needless:
        for operand in live.pop().operands:
            if isinstance(operand, OpResult) and id(operand.op) in needless:
                needless.remove(id(operand.op))
                live.append(operand.op)
    return bool(needless) and region_dce(region, listener)


def _tell_apart(region: Region, needless: set[int], live: list[Operation]) -> bool:
    """
    Tell the ops that do nothing but make results from all others; False where a region
    has several blocks.
    """
    block = region.first_block
    if block is None:
        return True
    if block is not region.last_block:
        return False
    op = block.first_op
    while op is not None:
        if not all(_tell_apart(inside, needless, live) for inside in op.regions):
            return False
        known = _kind_of(op).is_needless
        if would_be_trivially_dead(op) if known is None else known:
            needless.add(id(op))
        else:
            live.append(op)
        op = op.next_op
    return True
