"""Jobs, and the boxing ops between devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Block,
    Operation,
    Region,
    SSAValue,
    Use,
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
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import (
    ConstantLike,
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.control import AfterOp
from penstock.dialects.job.layouts import SbpAttr, verify_layout
from penstock.dialects.job.placements import DeviceAttr, PlacementAttr
from penstock.dialects.job.ports import (
    AnyTensor,
    AssignOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    StateOp,
    VariableOp,
)
from penstock.dialects.job.sections import SECTIONS, sections_of
from penstock.dialects.utils.assembly import Body
from penstock.dialects.utils.attributes import (
    OF_JOBS,
    OF_VALUES,
    KnownAttributes,
    replace_op,
)
from penstock.dialects.utils.diagnostics import Finding, refuse_if_any
from penstock.dialects.utils.gradients import Differentiable
from penstock.dialects.utils.hints import isa

Needs = dict[SSAValue, int]
"""The values that each value of a job needs, itself included, as a set of bits."""


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
        return (AfterImplied(),)

    def verify_(self) -> None:
        sections_of(self.attributes.get(SECTIONS))
        if self.body.block.args:
            raise VerifyException("the block of a job takes no arguments")
        refuse_if_any(self._findings())

    def _findings(self) -> Iterator[Finding]:
        """The ops of the job that do not suit it, or others before them."""
        seen: dict[tuple[str, str], list[Operation]] = {}
        for op in self.body.block.ops:
            placement = op.attributes.get("placement", self.placement)
            if not isinstance(placement, PlacementAttr):
                yield op, f"the placement should be a #job.placement, got {placement}"
            if (target := finding_about_target(op)) is not None:
                yield op, target
                continue
            for key in names_in_job(op):
                before = seen.setdefault(key, [])
                if not all(are_apart(op, other) for other in before):
                    kind, name = key
                    yield op, DOUBLED[kind].format(name)
                before.append(op)
        yield from wrong_cuts(self.body.block)


def are_apart(one: Operation, other: Operation) -> bool:
    """Whether two ops are parts of one variable that have no element in common."""
    if not isinstance(one, VariableOp) or not isinstance(other, VariableOp):
        return False
    facts = [(op.init, op.whole, op.also, op.cuts) for op in (one, other)]
    pairs = zip(one.place, other.place, strict=False)
    return (
        one.whole is not None
        and facts[0] == facts[1]
        and any(a.stop <= b.start or b.stop <= a.start for a, b in pairs)
    )


DOUBLED = {
    "assigned": "variable '{}' is assigned twice",
    "taken": "two buffers are named '{}'",
    "handed out": "two buffers are named '{}'",
    "input": "two inputs or variables are named '{}'",
    "output": "two outputs are named '{}'",
}
"""The diagnostics of ops of a job that share a name of one kind."""


def wrong_cuts(block: Block) -> Iterator[Finding]:
    """The outputs and variables that are cut by none, or by one that is no number."""
    for kind in (OutputOp, VariableOp):
        own = [op for op in block.ops if isinstance(op, kind)]
        named = {name: op for op in own for _, name in names_in_job(op)}
        what = "output" if kind is OutputOp else "variable"
        for op in own:
            for name in (cut.count.data for cut in op.cuts or ()):
                if (count := named.get(name)) is None:
                    yield op, f"there is no {what} '{name}' to cut it by"
                    continue
                (value,) = count.results or count.operands
                if value.type != TensorType(i64, []) or count.cuts is not None:
                    is_wanted = "should be a tensor<i64> that is not cut"
                    yield op, f"the {what} '{name}' {is_wanted}"


def names_in_job(op: Operation) -> Sequence[tuple[str, str]]:
    """The kinds and the names that no other op of the job may have."""
    match op:
        case AssignOp() if isinstance(variable := op.target.owner, VariableOp):
            return [("assigned", variable.port.data)]
        case ForeignInputOp():
            return [("taken", op.buffer.data)]
        case ForeignOutputOp():
            return [("handed out", op.buffer.data)]
        case InputOp():
            return [("input", op.port.data)]
        case VariableOp():
            return [("input", name) for name in (op.port.data, *op.other_names)]
        case OutputOp():
            return [("output", op.port.data)]
        case _:
            return []


def finding_about_target(op: Operation) -> str | None:
    """The diagnostic of an assignment to what is no variable, or of a second one."""
    if not isinstance(op, AssignOp) or isinstance(op.target.owner, VariableOp):
        return None
    variable = op.target.owner
    if isinstance(variable, StateOp):
        given = (use for use in op.target.uses if is_given(use))
        return None if len([*given]) == 1 else "a state is assigned twice"
    made_by = variable.name if isinstance(variable, Operation) else "a block"
    return f"the target should be the result of a job.variable, got that of {made_by}"


def is_given(use: Use) -> bool:
    """Whether a use of a value is an assignment to it."""
    return isinstance(use.operation, AssignOp) and use.index == 1


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
                new.location = after.location
                replace_op(after, new, rewriter=rewriter)


def needs_of(job: JobOp, bits: dict[SSAValue, int]) -> Iterator[tuple[SSAValue, int]]:
    """The values with a bit that each value of a job needs, or is."""
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
    acting = [value for value in dict.fromkeys(op.others) if not is_there_always(value)]
    implied = needs[op.value]
    for value in acting:
        implied |= needs[value] & ~bits[value]
    return [value for value in acting if not bits[value] & implied]


def is_there_always(value: SSAValue) -> bool:
    """Whether a value is there before anything has run: a variable or a constant."""
    owner = value.owner
    return isinstance(owner, StateOp | VariableOp) or (
        isinstance(owner, Operation) and owner.has_trait(ConstantLike)
    )


MOVED_LATER = "gradients are made before tensors are moved between devices"
"""The reason of ops that passes after `job-add-gradients` make."""


@irdl_op_definition
class CopyOp(IRDLOperation, Differentiable):
    """
    The same tensor in the memory of another device.

    ```mlir
    %d = job.copy %h to <0, cuda:0> : tensor<4xf32>
    ```
    """

    name = "job.copy"
    NO_GRADIENT: ClassVar = MOVED_LATER

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
class BoxingOp(IRDLOperation, Differentiable):
    """
    The same tensor laid in another way, on the same devices or on others.

    ```mlir
    %b = job.boxing %a from <S(0)> on <cpu, [0:0-1]> to <B> on <cuda, [0:0]>
      : tensor<4x8xf32>
    ```
    """

    name = "job.boxing"
    NO_GRADIENT: ClassVar = MOVED_LATER

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
