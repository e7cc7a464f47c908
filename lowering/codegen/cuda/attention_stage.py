"""The printer of `kernel.attention` for `cuda`, in each of its forms."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute

from penstock.dialects.kernel.attention import AttentionOp
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.lowering.codegen.cuda.attention import (
    AttentionTilePrinter,
    CudaAttentionPrinter,
)
from penstock.lowering.codegen.cuda.attention_groups import (
    CudaAttention,
    cuda_attention_of,
)
from penstock.lowering.codegen.cuda.attention_rows import AttentionRowPrinter
from penstock.lowering.codegen.cuda.attention_tensor_core import AttentionWarpPrinter
from penstock.lowering.codegen.cuda.stage_printer import CudaStagePrinter
from penstock.lowering.codegen.cuda.statements import DevicePrinter

FORMS: Mapping[str, type[CudaAttentionPrinter]] = {
    "rows": AttentionRowPrinter,
    "tiles": AttentionTilePrinter,
    "warps": AttentionWarpPrinter,
}
"""The printer of each form of `#launch.queries`."""


class AttentionStage(CudaStagePrinter):
    """Prints attention in the form that its schedule names."""

    OP = AttentionOp
    SCHEDULES = (QueriesAttr,)

    def __init__(self, printer: DevicePrinter, op: StructuredOp):
        self.printer, self.op = printer, op

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = _group_of(op, schedule)
        return found if isinstance(found, str) else None

    def print(self) -> None:
        group = _group_of(self.op, self.op.attributes[SCHEDULE])
        assert isinstance(group, CudaAttention), "no misfit"
        form = FORMS[group.schedule.form](self.printer, group)
        self.printer.add_stage(form.print(self.printer.next_stage))


def _group_of(op: StructuredOp, schedule: Attribute) -> CudaAttention | str:
    assert isinstance(op, AttentionOp), "found by its op"
    assert isinstance(schedule, QueriesAttr), "found by its schedule"
    return cuda_attention_of(op, schedule)
