"""
Split groups that were measured to take longer than their parts.

An `op.fused` of the job is compared with its splits around each of its ops: the ops
that this one needs, the op alone, and all others. A kernel of one op may have an
alternative that does not absorb what is fused with it, such as that of a plug-in.
Times are those of tasks in the kernel database, for the same ops, kind of device,
threads and machine; each part after the first one takes in addition what any task does
(`task_ns` of `plan-assign-streams`). The group is replaced by the fastest split if it
takes 2 % less at least, the first of equal ones; parts say why in `not_fused`, and no
pass fuses them again.

A group of which nothing was measured stays, and so does one that says how it lies
(`in_place`, `slots`), or that runs on several devices. `penstock-run --tune` measures
the splits around ops that alternatives are for by name.

Example: `test/lowering/op/op-split-groups-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.dialects.utils.pass_events import count
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.task_times import Machine
from penstock.lowering.kernel_times.database import DatabaseError, KernelDatabase
from penstock.lowering.kernel_times.keys import (
    NOT_FUSED,
    WHOLE,
    machine_here,
    machine_of,
    task_key,
)
from penstock.lowering.op.group_parts import Split, kind_of, splits_of

WORTH = 0.98
"""The share of a group's time that its parts take at most where it is split."""


@dataclass(frozen=True)
class Times:
    """The times of ops in a kernel database, as tasks on one kind of device."""

    database: KernelDatabase
    kind: str
    gpu: str
    parts: int

    def of(self, op: Operation) -> float | None:
        """The nanoseconds that an op takes, None if it was not measured."""
        machine = machine_of(self.kind, machine_here(), self.gpu)
        key = task_key(op, self.kind, machine, parts=self.parts)
        time = self.database.times(key).get(WHOLE)
        return None if time is None else time.median_ns

    def of_all(self, ops: Sequence[Operation]) -> float | None:
        """The nanoseconds that ops take one after the other."""
        known = [time for time in map(self.of, ops) if time is not None]
        if len(known) < len(ops):
            return None
        return sum(known) + (len(ops) - 1) * Machine().of(self.kind).task_ns


def split_group(group: FusedOp, times: Times) -> None:
    """Replace a group by its parts where these take less."""
    if (whole := times.of(group)) is None:
        return
    best: Split | None = None
    least = whole * WORTH
    for split in splits_of(group, times.kind):
        taken = times.of_all(split.parts)
        if taken is None or taken >= least:
            split.drop()
            continue
        if best is not None:
            best.drop()
        best, least = split, taken
    if best is None:
        return
    count("groups split")
    text = f"measured: {len(best.parts)} parts take {least:.0f} ns, one {whole:.0f}"
    for part in best.parts:
        part.attributes[NOT_FUSED] = StringAttr(text)
    best.put_in()


@dataclass(frozen=True)
class OpSplitGroupsPass(ModulePass):
    """Split groups that were measured to take longer than their parts."""

    name = "op-split-groups"

    database: str
    """The kernel database to read."""

    gpu: str = ""
    """The device of groups on `cuda`, as the kernel database calls it."""

    parts: int = 1
    """The number of threads that may share the work of a task."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.parts < 1:
            raise PassFailedException(f"parts must be at least 1, got {self.parts}")
        try:
            with KernelDatabase(Path(self.database)) as database:
                for job in jobs_and_bodies(op):
                    self._split(job, database)
        except DatabaseError as error:
            raise PassFailedException(str(error)) from error

    def _split(self, job: JobOp, database: KernelDatabase) -> None:
        for group in [op for op in job.body.block.ops if isinstance(op, FusedOp)]:
            if (kind := kind_of(group, job)) is not None:
                split_group(group, Times(database, kind, self.gpu, self.parts))
