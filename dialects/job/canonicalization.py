"""
Canonicalization patterns of the job dialect.
"""

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from penstock.dialects.job import AfterOp, JobOp, VariableOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.utils.attributes import replace_by_value

Needs = dict[SSAValue, int]
"""The values that each value of a job needs, itself included, as a set of bits."""


class AfterNothing(RewritePattern):
    """
    after(x) = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AfterOp, rewriter: PatternRewriter) -> None:
        if not op.others:
            replace_by_value(op, op.value, rewriter)


class AfterImplied(RewritePattern):
    """
    after(x, a, b) = after(x, b) if x or b needs a, or if a is there all the time: a
    variable or a constant.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: JobOp, rewriter: PatternRewriter) -> None:
        ops = [x for x in op.body.block.ops if isinstance(x, AfterOp)]
        if not ops:
            return
        others = dict.fromkeys(value for after in ops for value in after.others)
        bits = {value: 1 << i for i, value in enumerate(others)}
        needs = dict(needs_of(op, bits))
        found = [(after, waits_of(after, bits, needs)) for after in ops]
        # From the last one on, so that what is kept is there.
        for after, kept in reversed(found):
            if len(kept) < len(after.others):
                new = AfterOp(after.value, kept)
                new.attributes.update(after.attributes)
                rewriter.replace(after, new)


def needs_of(job: JobOp, bits: dict[SSAValue, int]) -> Iterator[tuple[SSAValue, int]]:
    """Which of the values with a bit each value of a job needs, or is."""
    needs: Needs = {}
    for op in job.body.block.ops:
        needed = 0
        for value in op.operands:
            needed |= needs[value]
        for value in op.results:
            needs[value] = needed | bits.get(value, 0)
    yield from needs.items()


def waits_of(
    op: AfterOp, bits: dict[SSAValue, int], needs: Needs
) -> Sequence[SSAValue]:
    """The values that a `job.after` waits for on its own account, each once."""
    acting = [
        value
        for value in dict.fromkeys(op.others)
        if not isinstance(value.owner, VariableOp | ConstantOp)
    ]
    implied = needs[op.value]
    for value in acting:
        implied |= needs[value] & ~bits[value]
    return [value for value in acting if not bits[value] & implied]
