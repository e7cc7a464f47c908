"""
The verdict on mutants of plans and programs: refused, right, or wrong in some order.
"""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CarryOp,
    ProgramOp,
    SubviewOp,
    VariableOp,
    local_names,
    steps_within,
)
from penstock.dialects.launch.actors import DONE
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    RegisterOp,
)
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.numpy_types import array_of as array_of_attribute
from penstock.lowering.analysis.body_plans import bodies_in
from penstock.runtime.loading.arrays import numpy_dtype
from penstock.runtime.loading.initializers import WeightFiles, initial_value
from penstock.runtime.program.executable import ProgramImage, TensorKind
from penstock.tools.session.program_export import image_of, initializer_of, kind_of
from planted_faults.compiling import only, parsed, run_passes
from planted_faults.jobs import (
    with_most_rows,
)
from planted_faults.machine import (
    Array,
    EventRun,
    LinkedRun,
    Machine,
    Outputs,
    Stuck,
    Turn,
    Works,
    same,
)
from planted_faults.plan_faults import data_of
from planted_faults.subjects import Subject
from planted_faults.works import works_by_kernel, works_of


class Verdict(NamedTuple):
    """The verdict on a mutant: `refused`, `late`, `right`, or `wrong`, and why."""

    result: str
    why: str = ""


PLAN_CHECKS = 'verify-plan,verify-memory{limits="host=1T"}'


def broken_op(entry: PlanOp | ProgramOp, kept: Container[int]) -> str | None:
    """
    The error that the verifiers of ops find in a plan or program that was right, if
    any. Those at the numbers `kept` have not changed, but what they lie on may have.
    """
    plans = [entry, *bodies_in(entry)] if isinstance(entry, PlanOp) else [entry]
    if any(map(is_out_of_order, plans)):
        return "used before it is defined, as the driver says"
    try:
        for number, op in enumerate(entry.body.block.ops):
            if number not in kept:
                op.verify(verify_nested_ops=isinstance(op, ActorOp | TaskOp))
            elif isinstance(op, RegisterOp | BlockOp):
                op.verify(verify_nested_ops=False)
        entry.verify(verify_nested_ops=False)
    except VerifyException as error:
        return str(error)
    return None


def is_out_of_order(entry: PlanOp | ProgramOp) -> bool:
    """Whether an op comes before another one whose result it has."""
    known: set[SSAValue] = set()
    for op in entry.body.block.ops:
        if not known.issuperset(op.operands):
            return True
        known.update(op.results)
    return False


def refusal(module: ModuleOp, passes: str) -> str | None:
    """The error that passes find in a module, if any."""
    try:
        run_passes(module, passes)
    except (VerifyException, LocatedPassFailure) as error:
        return str(error)
    return None


def checks_of(subject: Subject) -> str:
    """The verifiers of a subject's level."""
    return PLAN_CHECKS if subject.level == 3 else "verify-program"


class Launched(NamedTuple):
    """A program, what its actors do, and the events that its plan has, if any."""

    program: ProgramOp
    works: Works
    waits: Mapping[str, Sequence[str]] | None = None


def launched(subject: Subject, module: ModuleOp) -> Launched:
    """
    The program that a mutant of a subject is, or becomes. Raises VerifyException or
    LocatedPassFailure.
    """
    if subject.level == 4:
        return Launched(only(module, ProgramOp), subject.works)
    if subject.kind == "headers":
        module = parsed(with_most_rows(str(module)))
    plan = only(module, PlanOp)
    works, waits = works_of(plan), waits_of(plan)
    run_passes(module, "convert-plan-to-launch{simulate-ranks=true}")
    if subject.kind in ("jobs", "main", "rates"):
        waits = None
    program = only(module, ProgramOp)
    return Launched(program, works_by_kernel(program, works), waits)


def judge(subject: Subject, module: ModuleOp, rng: random.Random) -> Verdict:
    """The verdict on a mutant of a subject, which is changed."""
    if (why := refusal(module, checks_of(subject))) is not None:
        return Verdict("refused", why)
    if subject.level == 3 and overwritten_headers(only(module, PlanOp)):
        return Verdict("wrong", "a header shares bytes")
    try:
        program, works, waits = launched(subject, module)
    except (VerifyException, LocatedPassFailure) as error:
        return Verdict("late", str(error))
    for _ in range(4):
        if (why := fault_of(subject, program, works, rng)) is not None:
            return Verdict("wrong", why)
        if waits is None:
            continue
        if (why := fault_by_events(subject, program, works, waits, rng)) is not None:
            return Verdict("wrong", f"{why} by events")
    return Verdict("right")


def overwritten_headers(plan: PlanOp) -> bool:
    """Whether a header has a byte that another register has, too."""
    owned: dict[tuple[SSAValue, int], RegisterOp] = {}
    registers = sorted(data_of(plan), key=lambda r: r.header is None)
    for register in registers:
        if register.block is None or register.offset is None:
            continue
        block = register.block.owner
        assert isinstance(block, BlockOp), "only this op makes blocks"
        start = block.offset.value.data + register.offset.value.data
        for byte in range(start, start + register.size):
            owner = owned.setdefault((block.chunk, byte), register)
            if owner is not register and owner.header is not None:
                return True
    return False


def waits_of(plan: PlanOp) -> dict[str, list[str]] | None:
    """
    The tasks that each task comes after in its stream, or waits for by an event, by
    their names; None for a plan without events.
    """
    tasks = [task for task in plan.tasks if task.kind != "variable"]
    if "events" not in plan.attributes and not any(
        "waits_for" in task.attributes for task in tasks
    ):
        return None
    streams: dict[object, list[TaskOp]] = {}
    for task in tasks:
        streams.setdefault((task.device, task.stream), []).append(task)
    before: dict[str, list[str]] = {}
    for members in streams.values():
        if all(task.order is not None for task in members):
            members.sort(key=lambda x: -1 if x.order is None else x.order.value.data)
        for i, task in enumerate(members):
            events = task.attributes.get("waits_for")
            names = [other.task_name.data for other in members[:i][-1:]]
            if isa(events, ArrayAttr[StringAttr]):
                names += [x.data for x in events]
            before[task.task_name.data] = names
    return before


def fault_by_events(
    subject: Subject,
    program: ProgramOp,
    works: Works,
    waits: Mapping[str, Sequence[str]],
    rng: random.Random,
) -> str | None:
    """
    The fault of one act of all, kept in order by streams and events alone, if any.
    """
    image, run = image_of(program), subject.runs[0]
    machine = machine_of(program, image, works, rng)
    started = EventRun(None, image, 1, run.inputs)
    numbers = {actor.name: i for i, actor in enumerate(image.actors)}
    started.before = [[numbers[x] for x in waits[a.name]] for a in image.actors]
    try:
        list(machine.play([Turn(started)]))
    except Stuck:
        return "stuck"
    wanted = {port: pieces[:1] for port, pieces in run.outputs.items()}
    return None if same(started.outputs, wanted) else "other results"


def fault_of(
    subject: Subject, program: ProgramOp, works: Works, rng: random.Random
) -> str | None:
    """The fault of a machine's results for a program, if there is one."""
    image = image_of(program)
    machine = machine_of(program, image, works, rng)
    if image.is_linked:
        return fault_of_linked(subject, machine)
    turns = turns_of(subject, machine)
    over = 0
    try:
        for begun in machine.play(turns):
            for turn, run in zip(turns[over:begun], subject.runs[over:], strict=False):
                # What another job takes is not fetched.
                ports = fetched_in(turn.run.image)
                wanted = {k: v for k, v in run.outputs.items() if k in ports}
                if not same(turn.run.outputs, wanted):
                    return f"other results of {run.job}"
            over = begun
            for name, wanted in subject.runs[begun - 1].variables.items():
                for variable in image.variables if begun else ():
                    found = machine.value(variable.name)
                    if variable.port == name and not equal(found, wanted):
                        return f"another value of {name}"
            if rng.random() < 0.5:
                machine.spoil()
    except Stuck:
        return "stuck"
    return None


def machine_of(
    program: ProgramOp, image: ProgramImage, works: Works, rng: random.Random
) -> Machine:
    """A machine with the initial values of variables in its memory."""
    values, promises = values_of(program, image), promises_of(program)
    return Machine(image, works, values, promises, kinds_of(program), rng)


def fault_of_linked(subject: Subject, machine: Machine) -> str | None:
    """The same of jobs that a main job launches, by their numbers."""
    jobs = [job for job in machine.image.jobs if job != "System-Main"]
    launched = [jobs.index(run.job or "") for run in subject.runs]
    numbers: list[Array] = [np.asarray(number, np.int64) for number in launched]
    inputs: dict[str, list[Array]] = {"System-Launch": numbers}
    outputs: Outputs = {"System-Finished": []}
    for run in subject.runs:
        for port, pieces in run.inputs.items():
            inputs.setdefault(port, []).extend(pieces)
        for port, pieces in run.outputs.items():
            outputs.setdefault(port, []).extend(pieces)
    started = LinkedRun(None, machine.image, 0, inputs)
    try:
        list(machine.play([Turn(started)]))
    except Stuck:
        return "a number that is none"
    ports = fetched_in(machine.image)
    wanted = {k: v for k, v in outputs.items() if k in ports}
    if len(started.outputs.pop("System-Finished", [])) != len(numbers):
        return "stuck"
    del wanted["System-Finished"]
    if not same(started.outputs, wanted):
        return "other results of linked jobs"
    for variable in machine.image.variables:
        found = subject.runs[-1].variables.get(variable.port or "")
        if found is not None and not equal(machine.value(variable.name), found):
            return f"another value of {variable.name}"
    return None


def equal(one: Array, other: Array) -> bool:
    """Whether two arrays are equal, bit by bit."""
    return one.tobytes() == other.tobytes()


def turns_of(subject: Subject, machine: Machine) -> list[Turn]:
    """The runs of a subject, with what keeps them apart in a program."""
    found: list[Turn] = []
    for run in subject.runs:
        rivals = {
            other
            for group in machine.image.exclusive
            for other in group
            if run.job in group
        }
        started = machine.start(run.job, run.acts, run.inputs)
        reads, writes = subject.names.get(
            run.job or "", (frozenset[str](), frozenset[str]())
        )
        found.append(Turn(started, reads, writes, frozenset(rivals)))
    return found


def fetched_in(image: ProgramImage) -> set[str]:
    """The ports of what a program or job gives its caller."""
    steps = (step for actor in image.actors for step in actor.steps)
    return {step.subject for step in steps if step.verb == "fetch"}


def values_of(program: ProgramOp, image: ProgramImage) -> dict[str, Array]:
    """The initial values of variables, by name."""
    values: dict[str, Array] = {}
    table = program.symbol_table()
    with WeightFiles(Path()) as files:
        for variable in image.variables:
            op = table[variable.name]
            assert isinstance(op, VariableOp), "its image is that of a variable"
            if op.value is not None:
                values[variable.name] = array_of_attribute(op.value)
                continue
            assert op.init is not None, "checked by the verifier"
            dtype, name = numpy_dtype(variable.kind.dtype), op.port_name
            init = initializer_of(op.init)
            whole = initial_value(init, name, variable.whole, dtype, files)
            values[variable.name] = whole[(*variable.place, ...)]
    return values


def promises_of(program: ProgramOp) -> dict[tuple[str, int], frozenset[str]]:
    """The arguments that calls promise to leave unchanged, by actors and steps."""
    found: dict[tuple[str, int], frozenset[str]] = {}
    for actor in program.actors:
        steps = (x for x in steps_within(actor.body.block) if isinstance(x, DONE))
        for number, step in enumerate(steps):
            if isinstance(step, CallOp):
                found[actor.sym_name.data, number] = frozenset(step.unchanged)
    return found


def kinds_of(program: ProgramOp) -> dict[tuple[str, str], TensorKind]:
    """The types of the local names of actors, by both names."""
    return {
        (actor.sym_name.data, name): kind_of(step.type)
        for actor in program.actors
        for step in steps_within(actor.body.block)
        if isinstance(step, CarryOp | SubviewOp)
        for name in local_names(step)
    }
