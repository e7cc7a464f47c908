"""
Lay values anew wherever an op on several devices takes part in them.

A `job.boxing` is inserted where an op needs an operand on other devices, or in other
parts, than it is made: right after the op that makes it, in the order of the first
uses. All uses that need a value in one layout share one boxing, and one that is there
already serves the uses after it. A constant is not boxed: there is one of it for each
layout in which it is used (but for partial sums). A `job.after` needs its operands as
they are. The needs of an op are in its `operand_sbp`, which goes: from then on each
operand lies as it is used. Ops on one device, and outputs, need whole tensors there.

Example: `test/lowering/job/job-insert-boxing-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    AfterOp,
    AssignOp,
    BoxingOp,
    CopyOp,
    JobOp,
    StateOp,
    VariableOp,
    sbp_entry_text,
    verify_layout,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import PARTIAL, Layout
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.op_devices import JobDevices, place_on
from penstock.lowering.analysis.op_layouts import (
    OPERANDS,
    RESULTS,
    normal,
    sbps_in,
    target_of,
)


class BoxingInserter:
    """Inserts the boxings of one job."""

    def __init__(self, job: JobOp) -> None:
        self._job = job
        self._devices = JobDevices(job)
        self._layouts: dict[SSAValue, Layout] = {}
        self._boxed: dict[tuple[SSAValue, Layout], SSAValue] = {}
        self._last: dict[SSAValue, Operation] = {}
        """The boxing of a value after which the next one is inserted."""
        self._constants: dict[ConstantOp, dict[Layout, list[tuple[Operation, int]]]]
        self._constants = {}

    def findings(self) -> Iterator[Finding]:
        """
        The findings that keep the ops of the job from being supplied, each with its op.
        """
        if not self._devices.has_several:
            return
        for op in self._job.body.block.ops:
            try:
                self._read_layouts(op)
            except VerifyException as error:
                yield op, str(error)

    def run(self) -> None:
        """Insert the boxings of a job without findings."""
        if not self._devices.has_several:
            return
        for op in list(self._job.body.block.ops):
            for index, layout in enumerate(self._needs(op)):
                if layout is not None:
                    self._supply(op, index, layout)
            op.attributes.pop(OPERANDS, None)
            if isinstance(op, BoxingOp):
                self._boxed.setdefault((op.source, self._layouts[op.result]), op.result)
        for constant, uses in self._constants.items():
            self._spread(constant, uses)

    def _read_layouts(self, op: Operation) -> None:
        place = self._devices.of(op)
        if isinstance(op, BoxingOp):
            self._layouts[op.result] = target_of(op, place)
            return
        if isinstance(op, AfterOp):
            self._layouts[op.result] = self._layouts[op.value]
            return
        whole = Layout.whole_on(place)
        self._layouts.update((value, whole) for value in op.results)
        if whole.is_single or isinstance(op, AssignOp):
            return
        if not isinstance(op, TensorOp | StateOp | VariableOp):
            raise VerifyException(
                f"{op.name} cannot run on several devices: it is no op on tensors"
            )
        if (sbps := sbps_in(op, RESULTS, place)) is None:
            raise VerifyException(f"{op.name} has no sbp; job-infer-sbp finds it")
        for value, sbp in zip(op.results, sbps, strict=True):
            verify_layout(tensor_type(value), sbp, place)
            self._layouts[value] = Layout(place, sbp)
        operands = sbps_in(op, OPERANDS, place) or ()
        for value, sbp in zip(op.operands, operands, strict=False):
            verify_layout(tensor_type(value), sbp, place)

    def _needs(self, op: Operation) -> Sequence[Layout | None]:
        """
        The layout that an op needs of each of its operands; None for the one it has.
        """
        place = self._devices.used_on(op)
        if isinstance(op, BoxingOp):
            return [normal(Layout(place, op.source_sbp))]
        if isinstance(op, AfterOp):
            return [self._layouts[op.value]]
        whole = Layout.whole_on(place)
        if not whole.is_single:
            sbps = sbps_in(op, OPERANDS, place)
            return [Layout(place, sbp) for sbp in sbps or ()]
        # A copy reads from any device, but only from one.
        return [
            None if isinstance(op, CopyOp) and self._layouts[value].is_single else whole
            for value in op.operands
        ]

    def _supply(self, op: Operation, index: int, layout: Layout) -> None:
        value = op.operands[index]
        have = self._layouts[value]
        is_constant = isinstance(owner := value.owner, ConstantOp)
        if is_constant:
            own = layout if PARTIAL not in layout.entries else have
            uses = self._constants.setdefault(owner, {}).setdefault(own, [])
            if own == layout:
                uses.append((op, index))
                return
        if have != layout and not (have.is_single and layout.is_single):
            op.operands[index] = self._boxing_of(value, have, layout)

    def _boxing_of(self, value: SSAValue, have: Layout, layout: Layout) -> SSAValue:
        if (known := self._boxed.get((value, layout))) is not None:
            return known
        owner = value.owner
        assert isinstance(owner, Operation), "the block of a job takes no arguments"
        boxing = BoxingOp(value, have.sbp, have.placement, layout.sbp, layout.placement)
        boxing.location = owner.location
        if value.name_hint is not None:
            boxing.result.name_hint = f"{value.name_hint}_{suffix_of(layout)}"
        Rewriter.insert_op(boxing, InsertPoint.after(self._last.get(value, owner)))
        self._last[value] = boxing
        self._boxed[value, layout] = boxing.result
        return boxing.result

    def _spread(
        self, constant: ConstantOp, uses: dict[Layout, list[tuple[Operation, int]]]
    ) -> None:
        """Make a constant in each layout it is used in, itself in one of them."""
        own = self._layouts[constant.result]
        home = own if own in uses else next(iter(uses))
        last = constant
        for layout, users in uses.items():
            clone = constant if layout == home else constant.clone()
            place_on(clone, layout.placement, self._devices)
            clone.attributes.pop(RESULTS, None)
            if not layout.is_single:
                clone.attributes[RESULTS] = layout.sbp
            if clone is not constant:
                Rewriter.insert_op(clone, InsertPoint.after(last))
                last = clone
            for op, index in users:
                op.operands[index] = clone.result


def suffix_of(layout: Layout) -> str:
    """The end of the name of a value in this layout: `S0`, `S0_B` or `cpu`."""
    if layout.is_single:
        return layout.placement.kind.data
    texts = (sbp_entry_text(entry) for entry in layout.entries)
    return "_".join(texts).replace("(", "").replace(")", "")


@dataclass(frozen=True)
class JobInsertBoxingPass(ModulePass):
    """
    Insert a `job.boxing` wherever an op needs other parts of a value than there are.
    """

    name = "job-insert-boxing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inserters = [BoxingInserter(job) for job in outermost(op, JobOp)]
        fail_if_any(found for inserter in inserters for found in inserter.findings())
        for inserter in inserters:
            inserter.run()
