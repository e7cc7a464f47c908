"""
Choose for each op on several devices how its operands and results lie on them.

Ops are visited in order, and the dimensions of a hierarchy one after the other. The
candidates for an op are the SBP signatures that it lists, in its order, and that every
device does all of it (all `B`). A candidate falls if a tensor does not fit: an axis
that is cut needs an element for each device, also where dimensions before have cut it;
or if the op asks for something else: what the attributes `sbp` (of the results) and
`operand_sbp` of an op say before this pass is what it must come to. Of the others the
first with the least pair (order, cost):

* order: -10 for each operand that lies on this placement just as it is wanted;
* cost: the bytes that have to go from device to device. Of n devices and a tensor of t
  bytes: none from `B` to `S`; t - t/n from `S` to another `S`; (n - 1) t from `S` to
  `B` and from `P` to `S`; twice as many from `P` to `B`; from other devices t to `S`
  and n t to `B`. Nothing is ever brought to `P` where there is another choice.

Plug-ins can select and order candidates, and add what it costs to compute by one
(`docs/plugins/sbp-candidates.md`), and say what a way costs
(`docs/plugins/sbp-cost.md`).

A constant has neither order nor cost: it is made as it is wanted, but not in `P`. So is
a state, by the first op that reads it. A variable is the first that fits of `B`,
`S(0)`, `S(1)`...; its values are those of the whole one. An input comes whole from the
host; its consumers may expect the first that fits of `S(0)`, `B`, `S(1)`, `S(2)`...
`sbp` then says how the results of an op lie, `operand_sbp` how its operands are wanted.
An op that has both stays as it is. On one device there is nothing to choose, and what
ops ask for goes. The result of a `job.after` lies like the first operand; the others
may lie in any way.

Example: `test/lowering/job/job-infer-sbp-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    AfterOp,
    AssignOp,
    BoxingOp,
    Entry,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    SbpAttr,
    StateOp,
    VariableOp,
    misfit,
    placement_of,
    sbp_entry_text,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import (
    BROADCAST,
    PARTIAL,
    Layout,
    SbpSignature,
    entries_text,
    sbp_of,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import byte_count, tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.sbp_policies import (
    CandidatePolicy,
    CostPolicy,
    SbpRequest,
    Signature,
    Transfer,
    bytes_moved,
    candidate_policy,
    cost_policy,
)
from penstock.lowering.analysis.op_devices import JobDevices
from penstock.lowering.analysis.op_layouts import (
    OPERANDS,
    RESULTS,
    as_attribute,
    sbps_in,
    target_of,
)
from penstock.lowering.analysis.sbp_candidates import candidates_for

################################################################################
# Candidates                                                                   #
################################################################################


def transfer_bytes(
    source: Layout | None, entry: Entry, target: PlacementAttr, dim: int, size: int
) -> float:
    """
    The bytes that go from device to device if a tensor of `size` bytes is brought to
    `entry` on one dimension of a placement. No source costs nothing.
    """
    if source is None:
        return 0
    return bytes_moved(transfer_of(source, entry, target, dim, size))


def transfer_of(
    source: Layout, entry: Entry, target: PlacementAttr, dim: int, size: int
) -> Transfer:
    """The way of a tensor to where an op wants it, as policies are told of it."""
    is_elsewhere = source.placement != target
    have = "" if is_elsewhere else sbp_entry_text(source.entries[dim])
    want = sbp_entry_text(entry)
    return Transfer(have, want, target.shape[dim], size, is_elsewhere)


def signature_of(candidate: SbpSignature) -> Signature:
    """A signature, as policies are told of it."""
    operands, results = (tuple(map(sbp_entry_text, x)) for x in candidate)
    return Signature(operands, results)


class Policies(NamedTuple):
    """The policies that decide about signatures."""

    candidates: CandidatePolicy
    cost: CostPolicy


################################################################################
# One op                                                                       #
################################################################################


@dataclass
class Choice:
    """The entries of the operands and results of one op, dimension by dimension."""

    op: Operation
    placement: PlacementAttr
    sources: Sequence[Layout | None]
    """The layout of each operand, None if it can be made in any."""
    wanted: tuple[Sequence[SbpAttr] | None, Sequence[SbpAttr] | None]
    """The SBPs that the operands and the results have to have."""
    policies: Policies
    types: Sequence[TensorType] = field(init=False)
    sizes: Sequence[int] = field(init=False)
    """The bytes of each operand; 0 if they are not known."""
    entries: list[tuple[Entry, ...]] = field(init=False)
    """Those of the operands, then those of the results."""

    def __post_init__(self) -> None:
        operands = [tensor_type(value) for value in self.op.operands]
        self.types = [*operands, *map(tensor_type, self.op.results)]
        self.sizes = [
            byte_count(type) if type.has_static_shape() else 0 for type in operands
        ]
        self.entries = [() for _ in self.types]

    def make(self) -> None:
        """Choose on all dimensions. Raises `VerifyException` if nothing fits."""
        candidates = self._candidates()
        for dim in range(len(self.placement.shape)):
            left: list[tuple[SbpSignature, float]] = []
            fallen: list[str] = []
            for candidate, own in candidates:
                if (reason := self._objection(candidate, dim)) is None:
                    left.append((candidate, own))
                else:
                    fallen.append(f"{candidate} because {reason}")
            if not left:
                raise VerifyException(self._finding(dim, fallen))
            best, _ = min(left, key=lambda pair: self._score(*pair, dim))
            for index, entry in enumerate((*best.operands, *best.results)):
                self.entries[index] += (entry,)

    def _candidates(self) -> list[tuple[SbpSignature, float]]:
        """
        The signatures of the op that the policy wants, those liked best first, each
        with what it costs to compute by it.
        """
        devices = prod(self.placement.shape)
        found = candidates_for(self.op, devices)
        shapes = [type.get_shape() for type in self.types]
        operands = len(self.op.operands)
        request = SbpRequest(
            self.op.name,
            shapes[:operands],
            shapes[operands:],
            devices,
            [signature_of(candidate) for candidate in found],
        )
        chosen = self.policies.candidates(request)
        return [(found[number], own) for number, own in chosen]

    def _finding(self, dim: int, fallen: Sequence[str]) -> str:
        where = f" on dimension {dim}" if len(self.placement.shape) > 1 else ""
        return (
            f"no SBP of {self.op.name} fits {self.placement}{where}: not "
            + "; not ".join(fallen)
        )

    def _objection(self, candidate: SbpSignature, dim: int) -> str | None:
        """Why a candidate falls, if it does."""
        for what, sbps, entries in zip(
            ("operands", "results"), self.wanted, candidate, strict=True
        ):
            wanted = tuple(sbp.dims.data[dim] for sbp in sbps or ())
            if sbps is not None and wanted != entries:
                return f"{what} {entries_text(wanted)} are asked for"
        hierarchy = self.placement.shape
        for index, entry in enumerate((*candidate.operands, *candidate.results)):
            if entry == BROADCAST:
                continue
            entries = (*self.entries[index], entry)
            if (reason := misfit(self.types[index], entries, hierarchy)) is not None:
                return f"{self._name(index)} does not fit: {reason}"
        return None

    def _name(self, index: int) -> str:
        operands = len(self.op.operands)
        if index < operands:
            return f"operand {index}"
        return f"result {index - operands}"

    def _score(
        self, candidate: SbpSignature, own: float, dim: int
    ) -> tuple[bool, int, float]:
        """The score of a candidate, with what it costs to compute by it."""
        order, cost = 0, own
        for source, entry, size in zip(
            self.sources, candidate.operands, self.sizes, strict=True
        ):
            if source is None:
                if entry == PARTIAL:
                    cost = inf
                continue
            if source.placement == self.placement and source.entries[dim] == entry:
                order -= 10
            transfer = transfer_of(source, entry, self.placement, dim, size)
            cost += self.policies.cost(transfer)
        return cost == inf, order, cost

    def sbps(self) -> tuple[tuple[SbpAttr, ...], tuple[SbpAttr, ...]]:
        """The SBPs of the operands and of the results."""
        all_sbps = tuple(sbp_of(*entries) for entries in self.entries)
        operands = len(self.op.operands)
        return all_sbps[:operands], all_sbps[operands:]


################################################################################
# Jobs                                                                         #
################################################################################


class Inference:
    """Chooses for the ops of one job, in order."""

    def __init__(self, job: JobOp, policies: Policies) -> None:
        self._job = job
        self._policies = policies
        self._devices = JobDevices(job)
        self._layouts: dict[SSAValue, Layout | None] = {}
        """The layout of each value, None if it can be made in any."""

    def run(self) -> Iterator[Finding]:
        """Choose for all ops; what keeps ops from being split, each with its op."""
        several = self._devices.has_several
        for op in self._job.body.block.ops:
            if not several:
                forget_wishes(op)
                continue
            try:
                self._visit(op)
            except VerifyException as error:
                yield op, str(error)

    def _visit(self, op: Operation) -> None:
        place = self._devices.of(op)
        if isinstance(op, BoxingOp):
            self._layouts[op.result] = target_of(op, place)
            return
        if isinstance(op, AfterOp):
            self._settle(op.value, None)
            self._layouts[op.result] = self._layout_of(op.value, place)
            return
        # The layout that consumers of an input may expect is not where it is made.
        lies_on = placement_of(op, self._job) if isinstance(op, InputOp) else place
        whole = Layout.whole_on(lies_on)
        self._layouts.update((value, whole) for value in op.results)
        if whole.is_single:
            forget_wishes(op)
        elif isinstance(op, AssignOp):
            self._settle(op.target, None)
            layout = self._layouts[op.target]
            assert layout is not None, "it is that of a variable"
            op.attributes[OPERANDS] = ArrayAttr([layout.sbp] * 2)
        elif not isinstance(op, OutputOp):
            self._split(op, lies_on)
        if isinstance(op, ConstantOp):
            self._layouts[op.result] = None

    def _settle(self, value: SSAValue, wanted: Layout | None) -> None:
        """Let a state lie as its first reader wants it, or else as variables do."""
        state = value.owner
        if not isinstance(state, StateOp) or self._layouts[value] is not None:
            return
        place = self._devices.of(state)
        fits = wanted is not None and wanted.placement == place
        if fits and wanted is not None and PARTIAL not in wanted.entries:
            state.attributes[RESULTS] = wanted.sbp
            self._layouts[value] = wanted
        else:
            self._split(state, place, is_settled=True)

    def _layout_of(self, value: SSAValue, placement: PlacementAttr) -> Layout:
        """The layout of a value that is on a placement; a constant's own."""
        if (known := self._layouts[value]) is not None:
            return known
        constant = value.owner
        assert isinstance(constant, ConstantOp), "all else lies somewhere"
        sbps = sbps_in(constant, RESULTS, placement)
        return Layout.whole_on(placement) if sbps is None else Layout(placement, *sbps)

    def _split(
        self, op: Operation, placement: PlacementAttr, *, is_settled: bool = False
    ) -> None:
        if not isinstance(op, TensorOp | InputOp | StateOp | VariableOp):
            raise VerifyException(
                f"{op.name} cannot run on several devices: it is no op on tensors"
            )
        results = sbps_in(op, RESULTS, placement)
        operands = sbps_in(op, OPERANDS, placement)
        if isinstance(op, StateOp) and results is None and not is_settled:
            self._layouts[op.result] = None
            return
        for value in op.operands:
            state = value.owner
            if isinstance(state, StateOp) and self._devices.of(state) != placement:
                self._settle(value, None)
        if results is None or operands is None:
            sources = [self._layouts[value] for value in op.operands]
            wanted = operands, results
            choice = Choice(op, placement, sources, wanted, self._policies)
            choice.make()
            operands, results = choice.sbps()
            op.attributes[RESULTS] = as_attribute(results)
            if operands:
                op.attributes[OPERANDS] = ArrayAttr(operands)
        for value, sbp in zip(op.operands, operands, strict=True):
            self._settle(value, Layout(placement, sbp))
        for value, sbp in zip(op.results, results, strict=True):
            self._layouts[value] = Layout(placement, sbp)


def forget_wishes(op: Operation) -> None:
    """Let an op on one device ask for nothing."""
    for key in (RESULTS, OPERANDS):
        op.attributes.pop(key, None)


@dataclass(frozen=True)
class JobInferSbpPass(ModulePass):
    """
    Choose for each op on several devices how its operands and results lie on them.
    """

    name = "job-infer-sbp"

    candidates: str = "all"
    """`all`, or a plug-in's: the signatures that may be taken."""

    cost: str = "bytes"
    """`bytes`, or a plug-in's: what the way of a tensor costs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        policies = Policies(candidate_policy(self.candidates), cost_policy(self.cost))
        jobs = outermost(op, JobOp)
        fail_if_any(found for job in jobs for found in Inference(job, policies).run())
