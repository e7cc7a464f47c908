"""
The splits of fused ops that tuning measures: those around an op that an alternative is
for by name, where it does not absorb what is fused with that op.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from penstock.dialects.job import JobOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.utils.walk import outermost
from penstock.lowering.launch.autotune.registry import alternatives
from penstock.lowering.op.group_parts import Split, kind_of, splits_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from penstock.lowering.launch.autotune.alternatives import Alternative


def split_copies(module: ModuleOp) -> Iterator[ModuleOp]:
    """
    Copies of a module of jobs with its groups in parts: in the first one each group has
    the first of its splits, and so on, as long as there are any.
    """
    offered = alternatives()
    for turn in count():
        copy = module.clone()
        if not split_all(copy, turn, offered):
            return
        yield copy


def split_all(module: ModuleOp, turn: int, offered: Iterable[Alternative]) -> bool:
    """Put in the split of this number of each group, and say if there is any."""
    found = False
    for job in outermost(module, JobOp):
        for group in [op for op in job.body.block.ops if isinstance(op, FusedOp)]:
            if (kind := kind_of(group, job)) is None:
                continue
            for number, split in enumerate(wanted_splits(group, kind, offered)):
                if number == turn:
                    split.put_in()
                    found = True
                    break
                split.drop()
    return found


def wanted_splits(
    group: FusedOp, kind: str, offered: Iterable[Alternative]
) -> Iterator[Split]:
    """The splits of a group that have an alternative more than the group has."""
    left = [x for x in offered if kind in x.targets]
    left = [x for x in left if x.other_ops(group.label, group.computes) is not None]
    for split in splits_of(group, kind) if left else ():
        alone = split.alone
        if any(x.other_ops(alone.label, alone.computes) is None for x in left):
            yield split
        else:
            split.drop()
