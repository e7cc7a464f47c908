"""
Turn each job into a plan with one task for each op, in the same order.

A task is named by the SSA name of its op's result where it has one (`%h = ...` is "h"),
else by the port of an input, variable or output, else by the name of the op without its
dialect; of equal names the later ones get `_1`, `_2`... It reads each tensor once,
however often its op uses it. It runs on the device its op is placed on, inputs and
outputs on the host of that device, on stream `<compute, 0>`. A copy to a device runs on
that device's stream `<copy_h2d, 0>`, one from a device to a host on the stream
`<copy_d2h, 0>` of the former, and one between CPUs on the target's `<compute, 0>`. The
attribute `slots = N : i64` of an op becomes one of its task (of a boxing, of the last
ones); its `placement` and `sbp` have done their work and go.

An op on several devices becomes a task on each, `<name>@<rank>.<kind>.<index>`, that
does its part of the op. A boxing becomes what each device of its target needs: the
slices, copies, sums and concatenations that make its part of the parts of the source,
named `<name>.slice@...` and so on, and the last one `<name>@...`, or just `<name>` if
the target is one device. Devices that work in one memory share what they all need, and
read each other's tensors where they lie. Each tensor is copied to a device at most
once, from device to device by way of the hosts. More than two devices that have to add
the same terms, each in its own memory, first add one part each (`<name>.sum@...`);
`boxing` can have other ways taken, by any layouts in between, of which those that add
nothing end in tasks `<name>.step@...` (`docs/plugins/boxing.md`). If a boxing is what
libraries call a collective, its tasks say so in `collective`, and in `group` which
devices take part. With `collectives` of `ring` or `mpi` such a one on CPUs of different
ranks is a `job.collective` of each, unless it is from or to one rank and no broadcast;
where blocks do not lie one behind the other, a transposition makes them so. Sums that
MPI does not add are those of a ring, or else copies.

A loop or condition becomes one task, on one device, with a plan of each of its bodies:
`in_<n>` are the arguments of a body, `out_<n>` what it yields. Constants of bodies
become values that these read from outside, unless all of their elements are equal.

An input of dynamic shape says in its attribute `max_shape`, a list of i64, how large it
may be. Ops infer from that how large all other values may be, and tasks say it in
`max_shape`. An op is refused that cannot, or that would make more of less. Only ops on
one device may have such values.

A `job.after` has no task. Each task that reads its result waits for each task that
makes one of the others (variables are there all the time), by a control register
`<other> -> <reader>`, unless values or other control registers see to that already. A
copy, or a part of a boxing, that reads the result waits too, and is none that does not
wait. For tasks of another rank it takes a token: a constant `<other>.token` that is
made after them, its copy `<other>.token.copy@<rank>.cpu.0`, which those share that wait
for the same tasks there, and control registers before and behind.

Example: `test/lowering/convert/convert-job-to-plan-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException, VerifyException

from penstock.dialects.job import (
    AfterOp,
    AssignOp,
    BoxingOp,
    CopyOp,
    DeviceAttr,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    StateOp,
    VariableOp,
    placement_of,
    verify_layout,
)
from penstock.dialects.op.body import FlowOp
from penstock.dialects.op.multirate import UnpackOp
from penstock.dialects.op.sbp import (
    Layout,
    Part,
    SbpSignature,
    devices_of,
    part_type,
    whole,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.attributes import ask_for_slots, carry, replace_op
from penstock.dialects.utils.counts import count_of
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.repetitions import MOST_ACTS
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.boxing_policies import (
    TWO_STEPS,
    Policy,
    boxing_policy,
)
from penstock.lowering.analysis.body_jobs import (
    is_spread,
    job_of_body,
    lift_constants,
    runs_bodies,
)
from penstock.lowering.analysis.control_edges import write_control_edges
from penstock.lowering.analysis.largest_shapes import JobMaxima
from penstock.lowering.analysis.op_devices import JobDevices
from penstock.lowering.analysis.op_layouts import (
    OPERANDS,
    RESULTS,
    normal,
    sbps_in,
    target_of,
)
from penstock.lowering.analysis.ordering_tokens import JobWaits, control_of
from penstock.lowering.analysis.repetitions import job_repetitions
from penstock.lowering.analysis.sbp_candidates import candidates_for
from penstock.lowering.analysis.task_builder import TaskBuilder, at
from penstock.lowering.convert.boxing_tasks import BoxingTasks
from penstock.lowering.convert.collective_tasks import CHOICES, COPIES

################################################################################
# Jobs that cannot become plans                                                #
################################################################################


def findings_about(maxima: JobMaxima) -> list[Finding]:
    """
    All that keeps a job from becoming a plan, each with the op it is about. The largest
    shapes of its values are found for that.
    """
    if found := list(maxima.findings()):
        return found
    job = maxima.job
    check = LayoutCheck(JobDevices(job))
    ops = job.body.block.ops
    found = [*op_findings(job), *(c for op in ops for c in check.results_of(op))]
    return found or [c for op in ops for c in check.operands_of(op)]


def op_findings(job: JobOp) -> Iterator[Finding]:
    """The ops of a job that cannot be tasks."""
    for op in job.body.block.ops:
        ports = InputOp | OutputOp | VariableOp | ForeignInputOp | ForeignOutputOp
        known = TensorOp | CopyOp | BoxingOp | AfterOp | AssignOp | StateOp
        if not isinstance(op, known | ports):
            yield op, f"{op.name} cannot be a task: it is no op on tensors"
        slots = op.attributes.get("slots")
        if slots is not None and count_of(slots) is None:
            yield op, f"slots must be an i64 of 1 to {MOST_ACTS}, got {slots}"
    yield from body_findings(job)
    try:
        job_repetitions(job)
    except VerifyException as error:
        yield job, str(error)


def body_findings(job: JobOp) -> Iterator[Finding]:
    """The ops with bodies that run where these cannot be run as such."""
    for op in job.body.block.ops:
        if not isinstance(op, FlowOp):
            continue
        if runs_bodies(op, job):
            yield from slots_in(op)
            continue
        placement, passes = placement_of(op, job), "op-unroll-loops"
        if is_spread(op, job):
            passes = "op-spread-loops"
            text = f"runs on one device, not on {placement}"
            if placement.single_device() is not None:
                text = "has ops on other devices"
        else:
            text = f"runs on a CPU or GPU, not on {placement.single_device()}"
        advice = f"{passes} and op-select-branches come before"
        # They did, and have left it as it is.
        reasons = map(op.attributes.get, ("no_unroll", "no_select"))
        if failing := [x.data for x in reasons if isinstance(x, StringAttr)]:
            advice = f"{failing[0]} where it is not to run"
        yield op, f"{op.name} {text}: {advice}"


def slots_in(op: FlowOp) -> Iterator[Finding]:
    """The ops of bodies that ask for slots, where bodies run as such."""
    for inner in op.walk():
        if inner is not op and "slots" in inner.attributes:
            text = "has one slot, as iterations run one after the other"
            yield inner, f"{inner.name} in a body {text}: {op.name} may ask for slots"


class LayoutCheck:
    """
    The layouts of the values of a job, and findings about ops that do not fit to them.
    """

    def __init__(self, devices: JobDevices) -> None:
        self._devices = devices
        self.layouts: dict[SSAValue, Layout] = {}

    def results_of(self, op: Operation) -> Iterator[Finding]:
        """Note how the results of an op lie; what is wrong with that."""
        place = self._devices.of(op)
        entire = Layout.whole_on(place)
        self.layouts.update((value, entire) for value in op.results)
        if isinstance(op, BoxingOp):
            self.layouts[op.result] = target_of(op, place)
        elif isinstance(op, AfterOp):
            self.layouts[op.result] = self.layouts[op.value]
        elif not entire.is_single and op.results:
            try:
                self._note_sbps(op)
            except VerifyException as error:
                yield op, str(error)

    def _note_sbps(self, op: Operation) -> None:
        place = self._devices.of(op)
        if (sbps := sbps_in(op, RESULTS, place)) is None:
            raise VerifyException(f"{op.name} has no sbp; job-infer-sbp finds it")
        for value, sbp in zip(op.results, sbps, strict=True):
            verify_layout(tensor_type(value), sbp, place)
            self.layouts[value] = Layout(place, sbp)

    def operands_of(self, op: Operation) -> Iterator[Finding]:
        """The operands of an op that lie in another way than they are used."""
        if isinstance(op, AfterOp):
            return
        place = self._devices.used_on(op)
        have = [self.layouts[value] for value in op.operands]
        wanted: Sequence[Layout | None] = [None] * len(have)
        if isinstance(op, BoxingOp):
            wanted = [normal(Layout(place, op.source_sbp))]
        elif isinstance(op, AssignOp):
            wanted = [have[1], None]
        elif OPERANDS in op.attributes and len(devices_of(place)) > 1:
            sbps = sbps_in(op, OPERANDS, place) or ()
            wanted = [Layout(place, sbp) for sbp in sbps]
        found = list(misplaced(op, have, wanted, self._devices))
        if not found and len(devices_of(place)) > 1:
            found = list(self._unknown_signature(op, have))
        for message in found:
            yield op, message

    def _unknown_signature(
        self, op: Operation, have: Sequence[Layout]
    ) -> Iterator[str]:
        if not isinstance(op, TensorOp):
            return
        hierarchy = self._devices.of(op).shape
        candidates = candidates_for(op, prod(hierarchy))
        results = [self.layouts[value].entries for value in op.results]
        for dim in range(len(hierarchy)):
            signature = SbpSignature(
                tuple(layout.entries[dim] for layout in have),
                tuple(entries[dim] for entries in results),
            )
            if signature not in candidates:
                yield f"{op.name} has no SBP signature {signature}"


def misplaced(
    op: Operation,
    have: Sequence[Layout],
    wanted: Sequence[Layout | None],
    devices: JobDevices,
) -> Iterator[str]:
    """The findings about the places of the operands of an op."""
    place = devices.used_on(op)
    for index, (lies, wants) in enumerate(zip(have, wanted, strict=True)):
        if lies.placement == place and wants in (None, lies):
            continue
        a, b = lies.placement.single_device(), place.single_device()
        if isinstance(op, CopyOp) and a is not None:
            continue
        if a is not None and b is not None:
            yield (
                f"operand {index} lies on {a}, but is used on {b}; "
                "job-place inserts copies"
            )
        else:
            use = f"on {place}" if wants is None else f"as {wants}"
            yield (
                f"operand {index} lies as {lies}, but is used {use}; "
                "job-insert-boxing lays it anew"
            )


################################################################################
# Tasks                                                                        #
################################################################################


def base_name_of(op: Operation) -> str:
    """The name of an op's task, but for the number that makes it unique."""
    hints = (result.name_hint for result in op.results)
    if (hint := next(filter(None, hints), None)) is not None:
        return hint
    if isinstance(op, InputOp | OutputOp | VariableOp):
        return op.port.data
    if isinstance(op, ForeignInputOp | ForeignOutputOp):
        return op.buffer.data
    return op.name.split(".", 1)[-1]


class BoxingChoice(NamedTuple):
    """The policy of boxings, and the algorithm of those that are collectives."""

    policy: Policy
    collectives: str


class JobTasks:
    """Makes the tasks of one job, in which all values lie as they are used."""

    def __init__(
        self,
        devices: JobDevices,
        layouts: dict[SSAValue, Layout],
        maxima: JobMaxima,
        boxing: BoxingChoice,
    ) -> None:
        self._devices = devices
        self._maxima = maxima
        self._layouts = layouts
        self._parts: dict[SSAValue, Sequence[SSAValue]] = {}
        """The results of tasks that each value of the job is."""
        self._waits = JobWaits()
        self.builder = TaskBuilder()
        self._choice = boxing
        self._boxing = BoxingTasks(self.builder, *boxing)

    def add(self, op: Operation) -> None:
        """Make the tasks of one op of the job."""
        if isinstance(op, AfterOp):
            self._parts[op.result] = self._parts[op.value]
            self._carry_to_makers(op)
            self._waits.note_after(op, self._parts)
            return
        self.builder.waiting = self._waits.of(op.operands)
        base = self.builder.name(base_name_of(op))
        device, *others = devices_of(self._place_of(op))
        if isinstance(op, BoxingOp):
            self._add_boxing(op, base)
        elif not others:
            results = tuple(op.results)
            op.operands = [
                self._acting(op, self._parts[value][0], base, device)
                for value in op.operands
            ]
            maxima = self._maxima.attributes_of(op)
            plans = self._plans_of(op) if isinstance(op, FlowOp) else []
            task = self.builder.add(op, base, device, maxima)
            if plans:
                task.add_region(Region(Block(plans)))
            for value, outer in zip(results, task.results, strict=True):
                self._parts[value] = (outer,)
        else:
            self._add_parts(op, base)

    def _carry_to_makers(self, op: AfterOp) -> None:
        """An op that becomes waits leaves its attributes to the tasks of its value."""
        for part in self._parts[op.value]:
            if isinstance(task := part.owner, TaskOp):
                carry(op, task.op)

    def _acting(
        self, op: Operation, value: SSAValue, base: str, device: DeviceAttr
    ) -> SSAValue:
        """
        A value that an op reads: rows of a variable are those of a copy, as there are
        no pieces of a variable.
        """
        maker = value.owner
        is_fixed = isinstance(maker, TaskOp) and maker.kind == "variable"
        if not isinstance(op, UnpackOp) or not is_fixed:
            return value
        name = self.builder.name(f"{base}.rows{at(device)}")
        (copy,) = self.builder.add(CopyOp(value, device), name, device).results
        return copy

    def _plans_of(self, op: FlowOp) -> list[PlanOp]:
        """A plan of each body of an op, which has them still: they say what it does."""
        copy = op.clone()
        jobs = [job_of_body(copy, x, self._maxima.job) for x in copy.regions]
        # Values around it are read by the op that becomes a task alone.
        copy.drop_all_references()
        for port in [x for job in jobs for x in job.body.ops if isinstance(x, InputOp)]:
            if not port.result.uses:
                port.detach()
        maxima = [JobMaxima(job) for job in jobs]
        return [plan_of(each, self._choice, is_body=True) for each in maxima]

    def _place_of(self, op: Operation) -> PlacementAttr:
        """Where an op runs, also if the variable that it assigns to has a task."""
        if isinstance(op, AssignOp):
            return self._layouts[op.target].placement
        return self._devices.of(op)

    def _add_boxing(self, op: BoxingOp, base: str) -> None:
        self._parts[op.result] = self._boxing.box(
            self._parts[op.source],
            tensor_type(op.source),
            self._layouts[op.source],
            self._layouts[op.result],
            op,
            base,
        )
        # A value that lies there already has no task of its own that could wait.
        self._waits.note(op.result, self.builder.waiting)

    def _add_parts(self, op: Operation, base: str) -> None:
        """A task for the part of an op on each device."""
        layouts = [self._layouts[value] for value in op.results]
        types = [tensor_type(value) for value in op.results]
        cuts = [
            layout.parts_of(type.get_shape())
            for layout, type in zip(layouts, types, strict=True)
        ]
        made: list[Sequence[SSAValue]] = []
        for number, device in enumerate(devices_of(self._place_of(op))):
            operands = [
                self._acting(op, self._parts[value][number], base, device)
                for value in op.operands
            ]
            part = part_of_op(op, operands, [parts[number] for parts in cuts])
            carry(op, part)
            for value, result in zip(op.results, part.results, strict=True):
                result.name_hint = value.name_hint
            ask_for_slots(op, part)
            name = self.builder.name(f"{base}{at(device)}")
            made.append(self.builder.add(part, name, device).results)
        for value, parts in zip(op.results, zip(*made, strict=True), strict=True):
            self._parts[value] = parts


def part_of_op(
    op: Operation, operands: Sequence[SSAValue], parts: Sequence[Part]
) -> Operation:
    """The op that one device runs."""
    if isinstance(op, TensorOp):
        return op.part(operands, parts)
    if isinstance(op, AssignOp):
        return AssignOp.create(operands=operands, location=op.location)
    (part,) = parts
    if isinstance(op, StateOp):
        type = part_type(tensor_type(op.result), part)
        return StateOp.create(result_types=[type], location=op.location)
    assert isinstance(op, VariableOp), "checked with the layouts"
    properties = {**op.properties}
    if part != whole(op.shape):
        starts = op.place
        offsets = [a + b.start for a, b in zip(part.offsets, starts, strict=True)]
        properties["offsets"] = DenseArrayBase.from_list(i64, offsets)
        properties["whole"] = DenseArrayBase.from_list(i64, op.whole_shape)
    return VariableOp.create(
        properties=properties,
        result_types=[part_type(tensor_type(op.result), part)],
        location=op.location,
    )


def plan_of(
    maxima: JobMaxima, boxing: BoxingChoice, *, is_body: bool = False
) -> PlanOp:
    """
    The plan of a job, or of a body, whose largest shapes are known, whose ops move
    there; boxings are done as is chosen.
    """
    job = maxima.job
    devices = JobDevices(job, is_body=is_body)
    check = LayoutCheck(devices)
    ops = list(job.body.block.ops)
    for op in ops:
        # There is nothing to complain of any more.
        list(check.results_of(op))
    tasks = JobTasks(devices, check.layouts, maxima, boxing)
    for op in ops:
        tasks.add(op)
    tasks.builder.waiting = ()
    edges = control_of(tasks.builder)
    plan = PlanOp.create(
        properties={"sym_name": job.sym_name},
        attributes=job.attributes,
        regions=[Region(Block(tasks.builder.tasks))],
        location=job.location,
    )
    write_control_edges(plan, edges)
    return plan


@dataclass(frozen=True)
class ConvertJobToPlanPass(ModulePass):
    """
    Turn each job into a plan with one task for each op.
    """

    name = "convert-job-to-plan"

    boxing: str = TWO_STEPS
    """`two-steps`, `direct`, or a plug-in's: the way that boxings take."""

    collectives: str = COPIES
    """`copies`, `ring` or `mpi`: how boxings are done that are collectives of ranks."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.collectives not in CHOICES:
            raise PassFailedException(
                f"collectives are done by {', '.join(CHOICES)}, "
                f"got '{self.collectives}'"
            )
        choice = BoxingChoice(boxing_policy(self.boxing), self.collectives)
        jobs = outermost(op, JobOp)
        for job in jobs:
            lift_constants(job)
        maxima = [JobMaxima(job) for job in jobs]
        fail_if_any(found for each in maxima for found in findings_about(each))
        for each in maxima:
            replace_op(each.job, plan_of(each, choice), [])
