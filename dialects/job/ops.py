"""Jobs, and the boxing ops between devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from xdsl.dialects.builtin import (
    StringAttr,
    SymbolNameConstraint,
    TensorType,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Operation,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.job.layouts import SbpAttr, verify_layout
from penstock.dialects.job.placements import DeviceAttr, PlacementAttr
from penstock.dialects.job.ports import (
    AnyTensor,
    AssignOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    VariableOp,
)
from penstock.dialects.job.sections import SECTIONS, sections_of
from penstock.dialects.utils.assembly import Body
from penstock.dialects.utils.attributes import OF_JOBS, OF_VALUES, KnownAttributes
from penstock.dialects.utils.diagnostics import refuse_if_any


@irdl_op_definition
class JobOp(IRDLOperation, HasCanonicalizationPatternsInterface):
    """
    A computation that is compiled and launched as one.

    ```mlir
    job.job @square placement <cpu, [0:0]> {
      %x = job.input "x" : tensor<4xf32>
      %y = op.mul %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      job.output "y", %y : tensor<4xf32>
    }
    ```
    """

    name = "job.job"

    sym_name = prop_def(SymbolNameConstraint())
    placement = prop_def(PlacementAttr)
    body = region_def("single_block")

    traits = traits_def(
        KnownAttributes(*OF_JOBS),
        NoTerminator(),
        IsolatedFromAbove(),
        SymbolOpInterface(),
    )

    assembly_format = (
        "$sym_name `placement` $placement attr-dict-with-keyword custom<Body>($body)"
    )

    custom_directives = (Body,)

    def __init__(self, sym_name: str, placement: PlacementAttr, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(sym_name), "placement": placement},
            regions=[body],
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from penstock.dialects.job.canonicalization import AfterImplied

        return (AfterImplied(),)

    def verify_(self) -> None:
        sections_of(self.attributes.get(SECTIONS))
        if self.body.block.args:
            raise VerifyException("the block of a job takes no arguments")
        refuse_if_any(self._complaints())

    def _complaints(self) -> Iterator[tuple[Operation, str]]:
        """The ops of the job that do not suit it, or others before them."""
        seen: set[tuple[str, str]] = set()
        for op in self.body.block.ops:
            placement = op.attributes.get("placement", self.placement)
            if not isinstance(placement, PlacementAttr):
                yield op, f"the placement should be a #job.placement, got {placement}"
            if (target := complaint_about_target(op)) is not None:
                yield op, target
            elif (key := name_in_job(op)) in seen:
                kind, name = key
                yield op, DOUBLED[kind].format(name)
            elif key is not None:
                seen.add(key)


DOUBLED = {
    "assigned": "variable '{}' is assigned twice",
    "taken": "two buffers are named '{}'",
    "handed out": "two buffers are named '{}'",
    "input": "two inputs or variables are named '{}'",
    "output": "two outputs are named '{}'",
}
"""The diagnostics of ops of a job that share a name of one kind."""


def name_in_job(op: Operation) -> tuple[str, str] | None:
    """The kind and the name that no other op of the job may have, if there is one."""
    match op:
        case AssignOp():
            variable = op.target.owner
            assert isinstance(variable, VariableOp), "checked before"
            return "assigned", variable.port.data
        case ForeignInputOp():
            return "taken", op.buffer.data
        case ForeignOutputOp():
            return "handed out", op.buffer.data
        case InputOp() | VariableOp():
            return "input", op.port.data
        case OutputOp():
            return "output", op.port.data
        case _:
            return None


def complaint_about_target(op: Operation) -> str | None:
    """The diagnostic of an assignment to a value that is no variable."""
    if not isinstance(op, AssignOp) or isinstance(op.target.owner, VariableOp):
        return None
    variable = op.target.owner
    made_by = variable.name if isinstance(variable, Operation) else "a block"
    return f"the target should be the result of a job.variable, got that of {made_by}"


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    The same tensor in the memory of another device.

    ```mlir
    %d = job.copy %h to <0, cuda:0> : tensor<4xf32>
    ```
    """

    name = "job.copy"

    T: ClassVar = VarConstraint("T", AnyTensor)

    source = operand_def(T)
    device = prop_def(DeviceAttr)
    result = result_def(T)

    traits = traits_def(KnownAttributes(*OF_VALUES, "in_place"), Pure())

    assembly_format = "$source `to` $device attr-dict `:` type($source)"

    def __init__(self, source: SSAValue | Operation, device: DeviceAttr):
        source = SSAValue.get(source)
        super().__init__(
            operands=[source],
            properties={"device": device},
            result_types=[source.type],
        )


@irdl_op_definition
class BoxingOp(IRDLOperation):
    """
    The same tensor laid in another way, on the same devices or on others.

    ```mlir
    %b = job.boxing %a from <S(0)> on <cpu, [0:0-1]> to <B> on <cuda, [0:0]>
      : tensor<4x8xf32>
    ```
    """

    name = "job.boxing"

    T: ClassVar = VarConstraint("T", AnyTensor)

    source = operand_def(T)
    source_sbp = prop_def(SbpAttr)
    source_placement = prop_def(PlacementAttr)
    target_sbp = prop_def(SbpAttr)
    target_placement = prop_def(PlacementAttr)
    result = result_def(T)

    traits = traits_def(KnownAttributes(*OF_VALUES), Pure())

    assembly_format = (
        "$source `from` $source_sbp `on` $source_placement "
        "`to` $target_sbp `on` $target_placement attr-dict `:` type($source)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        source_sbp: SbpAttr,
        source_placement: PlacementAttr,
        target_sbp: SbpAttr,
        target_placement: PlacementAttr,
    ):
        source = SSAValue.get(source)
        super().__init__(
            operands=[source],
            properties={
                "source_sbp": source_sbp,
                "source_placement": source_placement,
                "target_sbp": target_sbp,
                "target_placement": target_placement,
            },
            result_types=[source.type],
        )

    def verify_(self) -> None:
        type = self.source.type
        assert isa(type, TensorType), "checked by the constraint"
        verify_layout(type, self.source_sbp, self.source_placement)
        verify_layout(type, self.target_sbp, self.target_placement)


def placement_of(op: Operation, job: JobOp) -> PlacementAttr:
    """Where an op of a job runs: its own `placement`, else the job's."""
    own = op.attributes.get("placement")
    return own if isinstance(own, PlacementAttr) else job.placement
