"""Selection of an alternative for each kernel of a program: by time, or by rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from os.path import basename

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ControlOp,
    KernelOp,
    ProgramOp,
    steps_within,
)
from penstock.dialects.launch import names_of as names_of_registers
from penstock.dialects.launch.actors import AUTHOR
from penstock.dialects.launch.memory import VariableOp
from penstock.dialects.utils.diagnostics import Finding, definition_of
from penstock.lowering.kernel_times.database import KernelDatabase, Time
from penstock.lowering.kernel_times.keys import Key, kernel_key, machine_of
from penstock.lowering.launch.autotune.alternatives import (
    Alternative,
    Request,
)
from penstock.lowering.launch.autotune.choice import (
    NOT_MEASURED,
    Candidate,
    Choice,
    candidates_for,
    choose_measured,
    choose_unmeasured,
    guarded,
    variants_of,
)
from penstock.plugins import PluginError, names_of

SELECTED, REFUSED = "selected", "refused"
"""The attributes of a kernel: what was chosen and why, and what was not."""

MAY_FAIL = "may fail when variables have been written over"
"""The reason of what has a source of its own, for a kernel that cannot fail."""


@dataclass
class Selector:
    """Chooses the alternatives of kernels, one after the other."""

    offered: Sequence[Alternative]
    vector_bytes: int
    parts: int = 1
    machine: str = ""
    database: KernelDatabase | None = None
    show_refusals: bool = False
    gpu: str = ""
    """The name of the GPU in the kernel database."""
    matrices: bool = False
    """Whether the CPU has AMX tile registers for 8-bit integers."""
    findings: list[Finding] = field(default_factory=list[Finding])
    refused: set[str] = field(default_factory=set[str])
    """The kinds of devices that were complained about."""

    def request(self, kernel: KernelOp, constants: Sequence[int]) -> Request:
        """The request for alternatives of a kernel."""
        facts = self.parts, self.vector_bytes, self.matrices
        return Request(kernel, frozenset(constants), *facts)

    def times(self, request: Request) -> dict[str, Time]:
        """The measured times of a kernel by candidate."""
        if self.database is None:
            return {}
        if request.target == "cuda" and not self.gpu:
            return {}
        machine = machine_of(request.target, self.machine, self.gpu)
        return self.database.times(key_of(request, machine))

    def choice(
        self, request: Request, offered: Sequence[Alternative]
    ) -> tuple[Choice | None, dict[str, str]]:
        """
        The choice for a kernel with its reason, and the reasons of those that refuse
        it.
        """
        if not (measured := self.times(request)):
            return choose_unmeasured(request, offered)
        candidates, refusals = candidates_for(request, offered)
        if not (times := times_now(candidates, measured)):
            return choose_unmeasured(request, offered)
        refusals |= {
            candidate.alternative.name: NOT_MEASURED
            for candidate in candidates
            if candidate.alternative.has_to_be_measured and candidate.name not in times
        }
        return choose_measured(candidates, times), refusals

    @cached_property
    def targets(self) -> frozenset[str]:
        """The kinds of devices that there are alternatives for."""
        listed = (guarded(x, lambda x=x: [*x.targets]) for x in self.offered)
        return frozenset(chain(*listed))

    def _offered_for(self, request: Request) -> list[Alternative]:
        """
        The alternatives for a kernel that cannot fail: none whose variants can, as a
        source of their own may return an error.
        """
        return [x for x in self.offered if not self._may_fail(x, request)]

    def _may_fail(self, alternative: Alternative, request: Request) -> bool:
        if alternative.is_applied_later:
            return False
        if guarded(alternative, lambda: alternative.refusal(request)) is not None:
            return False
        copies = [
            (candidate, request.kernel.clone())
            for candidate in variants_of(alternative, request)
        ]
        for candidate, kernel in copies:
            apply(candidate, kernel)
        return any(kernel.can_fail for _, kernel in copies)

    def _refuse(self, request: Request) -> None:
        """Complain about a kind of device that nothing is for, at its first kernel."""
        if request.target not in self.refused:
            known = ", ".join(sorted(self.targets))
            text = f"there are no kernels for '{request.target}', only for {known}"
            self.findings.append((request.kernel, text))
            self.refused.add(request.target)

    def try_to_select(
        self,
        kernel: KernelOp,
        constants: Mapping[int, Sequence[VariableOp]],
        *,
        is_certain: bool = False,
    ) -> None:
        """
        Select as `select` does, or note a finding about the alternative that fails.
        """
        try:
            self.select(kernel, constants, is_certain=is_certain)
        except PluginError as error:
            self.findings.append((kernel, str(error)))

    def select(
        self,
        kernel: KernelOp,
        constants: Mapping[int, Sequence[VariableOp]],
        *,
        is_certain: bool = False,
    ) -> None:
        """
        Change a kernel to what is chosen for it, and its constants with it. One for a
        device with a code generator of its own stays as it is where nothing is. One
        that is certain gets nothing that can fail.
        """
        request = self.request(kernel, [*constants])
        offered = self._offered_for(request) if is_certain else self.offered
        is_generated = request.target in names_of("code-generator")
        if request.target not in self.targets:
            if not is_generated:
                self._refuse(request)
            return
        choice, refusals = self.choice(request, offered)
        refusals |= {x.name: MAY_FAIL for x in self.offered if x not in offered}
        if choice is None and is_generated:
            return
        if choice is None:
            why = "; ".join(f"{name} {text}" for name, text in refusals.items())
            self.findings.append((kernel, f"{request}: nothing computes it: {why}"))
            return
        if not choice.candidate.alternative.is_applied_later:
            apply(choice.candidate, kernel)
            note_author(choice.candidate.alternative, kernel)
            for number, variables in constants.items():
                for variable in variables:
                    variable.panels = kernel.panels[number]
        kernel.attributes[SELECTED] = StringAttr(str(choice))
        if self.show_refusals and refusals:
            texts = [StringAttr(f"{name}: {why}") for name, why in refusals.items()]
            kernel.attributes[REFUSED] = ArrayAttr(texts)


def apply(candidate: Candidate, kernel: KernelOp) -> None:
    """
    Change a kernel as a candidate does. Raises `PluginError` if that fails, or
    changes its arguments.
    """
    before = [*kernel.body.block.arg_types]
    guarded(candidate.alternative, lambda: candidate.variant.apply(kernel))
    if [*kernel.body.block.arg_types] != before:
        raise PluginError(
            f"the alternative '{candidate.name}' changes the arguments of "
            f"@{kernel.sym_name.data}"
        )


def note_author(alternative: Alternative, kernel: KernelOp) -> None:
    """
    Let a kernel with a source say whose it is, for those who load a plan of it without
    the alternative: by the name of that, its file without a folder, and its line.
    """
    if kernel.source is None:
        return
    place = definition_of(type(alternative))
    where = f" ({basename(place.file)}:{place.line})" if place else ""
    kernel.attributes[AUTHOR] = StringAttr(f"'{alternative.name}'{where}")


def certain_kernels(program: ProgramOp) -> set[str]:
    """
    The kernels of actors that write over variables, and of those that come after one:
    when these act, nothing may fail.
    """
    readers: dict[str, list[ActorOp]] = {}
    full = {
        op.sym_name.data
        for op in program.body.block.ops
        if isinstance(op, ControlOp) and op.initial_slots
    }
    for actor in program.actors:
        for name in names_of_registers(actor.reads):
            if name not in full:
                readers.setdefault(name, []).append(actor)
    pending = [actor for actor in program.actors if actor.update_list]
    found = set(pending)
    while pending:
        for name in names_of_registers(pending.pop().writes):
            new = [actor for actor in readers.get(name, ()) if actor not in found]
            found.update(new)
            pending += new
    return {
        step.kernel.root_reference.data
        for actor in found
        for step in steps_within(actor.body.block)
        if isinstance(step, CallOp)
    }


def note_failing(program: ProgramOp) -> None:
    """Let actors say that they can fail which call kernels that can."""
    kernels = (op for op in program.body.block.ops if isinstance(op, KernelOp))
    failing = {kernel.sym_name.data for kernel in kernels if kernel.can_fail}
    for actor in program.actors if failing else ():
        calls = (x for x in steps_within(actor.body.block) if isinstance(x, CallOp))
        if any(call.kernel.root_reference.data in failing for call in calls):
            actor.can_fail = UnitAttr()


def times_now(
    candidates: Iterable[Candidate], measured: Mapping[str, Time]
) -> dict[str, float]:
    """The nanoseconds of candidates by name, as far as their code was measured."""
    return {
        candidate.name: time.median_ns
        for candidate in candidates
        if (time := measured.get(candidate.name)) is not None
        and time.source == candidate.alternative.code
    }


def key_of(request: Request, machine: str) -> Key:
    """The key of what was measured of a kernel."""
    return kernel_key(
        request.kernel,
        machine,
        constants=request.constants,
        parts=request.parts,
        vector_bytes=request.vector_bytes,
    )
