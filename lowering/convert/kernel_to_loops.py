"""
Convert structured ops of kernels to the loops that they mean.

Each op of the kernel dialect but a view becomes the stages of upstream ops that compute
the same (`StructuredOp.build_loops`): the reference meaning that schedules are compared
with, and how an op runs for which a target has no schedule. With `only-unscheduled` ops
that have a schedule stay. The attribute `plain_loops` of a kernel lists the ops that
became loops for want of a schedule, each with the reason that it gives
(`no_schedule`). The body of a kernel with a source of its own is left as it is.

Example: `test/lowering/convert/convert-kernel-to-loops-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects import get_all_dialects
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.actors import PLAIN_LOOPS
from penstock.dialects.utils.cleaning import canonicalize
from penstock.dialects.utils.walk import outermost
from penstock.plugins import names_of


@dataclass(frozen=True)
class ConvertKernelToLoopsPass(ModulePass):
    """Convert structured ops of kernels to the loops that they mean."""

    name = "convert-kernel-to-loops"

    only: tuple[str, ...] = ()
    """The names of the ops to convert, such as `kernel.row`; by default all."""

    only_unscheduled: bool = False
    """Whether ops that have a schedule stay as they are."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for name in self.only:
            if not _is_structured(name):
                raise PassFailedException(f"{name} is no structured op of a kernel")
        for kernel in outermost(op, KernelOp):
            if kernel.source is None:
                self._convert(ctx, kernel)

    def _convert(self, ctx: Context, kernel: KernelOp) -> None:
        meant = [op for op in kernel.body.block.ops if self._is_meant(op)]
        told: list[str] = []
        for op in meant:
            assert isinstance(op, StructuredOp), "others are not meant"
            if (reason := _reason(op)) is not None:
                told.append(f"{op.name}: {reason}")
            replace_by_loops(op)
        if meant:
            # As `canonicalize` and `cse` leave it.
            canonicalize(ctx, kernel.body)
            cse(kernel.body)
        if told:
            kernel.attributes[PLAIN_LOOPS] = ArrayAttr(map(StringAttr, told))

    def _is_meant(self, op: Operation) -> bool:
        if not isinstance(op, StructuredOp):
            return False
        if self.only_unscheduled and SCHEDULE in op.attributes:
            return False
        return not self.only or op.name in self.only


def _reason(op: StructuredOp) -> str | None:
    """The reason that an op has no schedule, if it has one."""
    given = op.attributes.get(REFUSAL)
    return given.data if isinstance(given, StringAttr) else None


def _is_structured(name: str) -> bool:
    if name in names_of("kernel-form"):
        return True
    dialect, _, _ = name.partition(".")
    if (make := get_all_dialects().get(dialect)) is None:
        return False
    known = (op for op in make().operations if op.name == name)
    return any(issubclass(op, StructuredOp) for op in known)
