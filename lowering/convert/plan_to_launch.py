"""
Turn each plan into a launch program: tasks become actors, op bodies kernels.

Actors and variables are named like their tasks, chunks `c0`, `c1`..., and registers and
controls keep their names, all made unique by `_1`, `_2`... in this order. A register
lies at the sum of the offsets of its block and in its block, an alias where what it
stands for lies. A task that computes calls a kernel with the operands of its op, then
its results, and of a wave the kernels of all members, one after the other. Tasks whose
ops are the same but for the names of values, on devices of one
kind, call the same kernel; kernels are named `<op>_<n>`, where n counts from 0 for each
op (and passes over names that are taken). A copy, input or output becomes a
`launch.copy`, `feed` or `fetch`, an assignment a `launch.copy` to the variable, and the
point before all assignments a `launch.commit`. A
variable and a constant with different elements is data that is written at load. A task
that reads an alias also reads all that the alias stands for. Where a result lies on an
operand, as a pair of its op says that it may, the actor has a view: the result starts
so many bytes after the operand as the pair says. A result that lies on a variable, to
which it is assigned, becomes a control: the kernel is given the variable, which the
actor `updates`, and the assignment has no step. Where some operands of an
op lie in its result already (the aliases of parts of a concatenation), the attribute
`unchanged` of the call lists them: the kernel writes there what lies there. Streams are
numbered from 0 in the order in which they appear. Where blocks carry a `sum`, the
attribute `memory` of their chunk reports the bytes of blocks that hold variables only,
and the size, `bound` and `sum` of all others.

A plan of several jobs becomes a program of several jobs: actors say theirs, registers
what interface they are, and the program which jobs exclude each other. An input that
another job makes has no step, and neither has an output that another job takes
(`job_interfaces`). If a job goes on after its last use of such an input, an actor
`<input>/release`, for which the readers of the input signal, lets other jobs write it
meanwhile.

A plan on several ranks becomes one program for each rank, named `<plan>_<rank>`, unless
they share registers, which is an error. With `simulate-ranks` it becomes one program
`<plan>` for one process instead, under the least of its ranks: each rank has chunks and
streams of its own there, and a copy between ranks is one between their memories.

Example: `test/lowering/convert/convert-plan-to-launch-example.mlir`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects import launch
from penstock.dialects.job import (
    CollectiveOp,
    DeviceAttr,
    StateOp,
    VariableOp,
)
from penstock.dialects.kernel.builder import as_memref
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.wave import WaveOp
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.dialects.regst import BlockOp, ChunkOp, DataType, RegisterOp, alias_place
from penstock.dialects.utils.attributes import carry, replace_op
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import (
    Holds,
    does_nothing,
    operand_register,
    views_of,
)
from penstock.lowering.analysis.body_plans import bodies_in, lies_outside
from penstock.lowering.analysis.in_place_updates import Update, marked_updates
from penstock.lowering.analysis.job_interfaces import Interfaces
from penstock.lowering.analysis.memory_bound import Liveness
from penstock.lowering.analysis.repetitions import rates_of
from penstock.lowering.convert.boxing_tasks import zeros
from penstock.lowering.convert.chunk_report import memory_report
from penstock.lowering.convert.kernel_bodies import (
    Kernels,
)
from penstock.lowering.convert.main_actors import kind_of, lists_of
from penstock.lowering.convert.task_steps import Symbols, TaskSteps

################################################################################
# Plans that cannot be launched                                                #
################################################################################


def findings_about(plan: PlanOp, simulate_ranks: bool) -> Iterator[Finding]:
    """All that keeps a plan from becoming launch programs, or one for all ranks."""
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
    elif any(needs_place(r) for x in (*bodies_in(plan), plan) for r in x.registers):
        yield plan, "registers have no place yet, run regst-plan-memory first"
    else:
        yield from shape_findings(plan)
        for task in plan.tasks:
            yield from task_findings(task)
        yield from (simulation_findings if simulate_ranks else rank_findings)(plan)


def simulation_findings(plan: PlanOp) -> Iterator[Finding]:
    """The tasks that take part in a collective with other processes."""
    for task in plan.tasks:
        if isinstance(task.op, CollectiveOp):
            yield (
                task,
                f"task '{task.task_name.data}' takes part in a collective of several "
                "processes, and simulate-ranks runs one",
            )


def needs_place(register: RegisterOp) -> bool:
    """Whether a register holds bytes, but lies nowhere."""
    is_data = isinstance(register.register.type, DataType)
    return is_data and not register.operands and not lies_outside(register)


def shape_findings(plan: PlanOp) -> Iterator[Finding]:
    """The registers whose shape is known at run time only."""
    for register in plan.registers:
        type = register.register.type
        if isinstance(type, DataType) and type.is_dynamic:
            yield (
                register,
                f"register '{register.register_name.data}' holds {type.payload}, "
                "but kernels have static shapes",
            )


def task_findings(task: TaskOp) -> Iterator[Finding]:
    """The findings that keep a task from becoming an actor, or a variable."""
    op = task.op
    if task.kind == "compute" and not isinstance(op, TensorOp):
        yield op, f"{op.name} has no kernel: it is no op on tensors"
    elif isinstance(end := op.next_op, YieldOp) and tuple(end.values) != op.results:
        yield end, f"a task hands on all results of its op {op.name}, in order"
    if task.kind == "variable" and (task.waits or task.signals):
        name = task.task_name.data
        yield task, f"variable '{name}' waits or signals, but never acts"


def rank_findings(plan: PlanOp) -> Iterator[Finding]:
    """The registers that tasks of different ranks use, or that lie on another rank."""
    for register in plan.registers:
        ranks = {register.memory_case.rank.data}
        for use in register.register.uses:
            if isinstance(task := use.operation, TaskOp):
                ranks.add(task.device.rank.data)
        if len(ranks) > 1:
            yield (
                register,
                f"register '{register.register_name.data}' is shared by ranks "
                f"{', '.join(map(str, sorted(ranks)))}, which run in one process "
                "with simulate-ranks=true only",
            )


################################################################################
# Programs                                                                     #
################################################################################


class Release(NamedTuple):
    """
    The actor that gives an interface back, the register, and the control register that
    each reader of it writes.
    """

    name: str
    register: str
    signals: dict[TaskOp, str]


class ProgramBuilder:
    """Makes the program of some ranks of a plan."""

    def __init__(self, plan: PlanOp, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._plan = plan
        self._tasks = [task for task in plan.tasks if task.device.rank.data in ranks]
        self._variables = {
            task.outs[0]: task for task in self._tasks if task.kind == "variable"
        }
        self._holds = Holds(plan)
        self._rates = rates_of(plan)
        self._liveness = Liveness(plan)
        self._written = {value for task in self._tasks for value in written_by(task)}
        self._names = UniqueNames()
        self._actors = {
            task: self._names.make(task.task_name.data) for task in self._tasks
        }
        self._chunks = self._name_chunks()
        self._symbols = self._name_registers()
        found = marked_updates(self._tasks)
        self._updates = {x.value: x for x in found if is_in_place(x)}
        """The new values of variables that lie on these."""
        places = {x: self._symbols[u.variable] for x, u in self._updates.items()}
        self._scope = Symbols({**self._symbols, **places})
        self._has_jobs = len(plan.jobs) > 1
        self._interfaces = Interfaces(plan)
        is_linked = any(task.kind == "main" for task in self._tasks)
        # A main job knows from the sinks of sections when inputs are not in use.
        has_releases = self._has_jobs and not is_linked
        self._releases = self._name_releases() if has_releases else {}
        self._signals: dict[TaskOp, dict[str, int]] = {}
        for task, release in self._releases.items():
            for reader, symbol in release.signals.items():
                every, _ = self._acts_between(reader, task)
                self._signals.setdefault(reader, {})[symbol] = every
        self._kernels = Kernels(self._names)
        self._task_steps = TaskSteps(self._kernels, self._names)
        self._streams: dict[tuple[DeviceAttr, StreamAttr], int] = {}

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings of building the program."""
        return self._kernels.findings

    def build(self, name: str) -> launch.ProgramOp:
        """The program, under this name."""
        actors = [self._actor(task) for task in self._tasks if task.kind != "variable"]
        chunks = [self._chunk(chunk, name) for chunk, name in self._chunks.items()]
        memory = [self._memory(register) for register in self._used_registers()]
        kernels = self._kernels.built.values()
        controls = [
            launch.ControlOp(symbol, 1)
            for release in self._releases.values()
            for symbol in release.signals.values()
        ]
        releases = [self._release(task) for task in self._releases]
        block = Block([*chunks, *memory, *controls, *kernels, *actors, *releases])
        exclusive = self._exclusive({actor.job_name for actor in actors})
        program = launch.ProgramOp(name, self._ranks[0], Region(block), exclusive)
        program.attributes = self._plan.attributes.copy()
        program.location = self._plan.location
        return program

    def _exclusive(
        self, jobs: Collection[str | None]
    ) -> ArrayAttr[ArrayAttr[StringAttr]] | None:
        """The groups of these jobs that exclude each other."""
        groups = self._plan.exclusive_jobs
        found = [[job for job in group if job in jobs] for group in groups]
        lists = [ArrayAttr(map(StringAttr, group)) for group in found if len(group) > 1]
        return ArrayAttr(lists) if lists else None

    def _used_registers(self) -> Iterator[RegisterOp]:
        for register in self._plan.registers:
            if register.register in self._symbols:
                yield register

    def _name_chunks(self) -> dict[ChunkOp, str]:
        own = [
            chunk
            for chunk in self._plan.chunks
            if chunk.memory_case.rank.data in self._ranks
        ]
        return {chunk: self._names.make(f"c{i}") for i, chunk in enumerate(own)}

    def _name_registers(self) -> dict[SSAValue, str]:
        used = {value for task in self._tasks for value in task.operands}
        symbols = {
            register: self._actors[task] for register, task in self._variables.items()
        }
        for register in self._plan.registers:
            value = register.register
            if value in used and value not in symbols:
                symbols[value] = self._names.make(register.register_name.data)
        return symbols

    def _name_releases(self) -> dict[TaskOp, Release]:
        """For each input that another job makes who releases it, if anybody has to."""
        actors = [task for task in self._tasks if task.kind != "variable"]
        busy = Counter(task.job for task in actors if not self._is_idle(task))
        readers: dict[str, list[TaskOp]] = {}
        for task in actors:
            for symbol in self._reads(task):
                readers.setdefault(symbol, []).append(task)
        found: dict[TaskOp, Release] = {}
        for task in actors:
            if task.kind != "input" or not self._interfaces.is_handed_on(task):
                continue
            register = self._symbols[task.outs[0]]
            users = readers.get(register, [])
            if sum(not self._is_idle(user) for user in users) == busy[task.job]:
                continue
            name = self._names.make(f"{self._actors[task]}/release")
            signals = {
                user: self._names.make(f"{self._actors[user]} -> {name}")
                for user in users
            }
            found[task] = Release(name, register, signals)
        return found

    # Memory

    def _chunk(self, chunk: ChunkOp, symbol: str) -> launch.ChunkOp:
        made = launch.ChunkOp(symbol, chunk.memory_case, chunk.size.value.data)
        made.location = chunk.location
        carry(chunk, made)
        if (report := memory_report(chunk, self._liveness)) is not None:
            made.attributes["memory"] = report
        return made

    def _memory(self, register: RegisterOp) -> Operation:
        task = self._variables.get(register.register)
        if task is not None:
            made = self._variable(register, task)
            carry(task.op, made)
            carry(task, made)
        elif register.register in self._updates:
            symbol = self._symbols[register.register]
            made = launch.ControlOp(symbol, register.slots.value.data)
        elif isinstance(type := register.register.type, DataType):
            chunk, offset = self._place(register)
            slots = register.slots.value.data
            memref = as_memref(type.payload)
            symbol = self._symbols[register.register]
            interface = register.interface if self._has_jobs else None
            below = register.target if register.frames > 1 else None
            over = None if below is None else self._symbols[below]
            made = launch.RegisterOp(
                symbol, chunk, offset, slots, memref, interface, over
            )
        else:
            initial = 0 if register.initial is None else register.initial.value.data
            symbol = self._symbols[register.register]
            made = launch.ControlOp(symbol, register.slots.value.data, initial)
        made.location = register.location
        carry(register, made)
        return made

    def _variable(self, register: RegisterOp, task: TaskOp) -> launch.VariableOp:
        op, symbol = task.op, self._symbols[register.register]
        chunk, offset = self._place(register)
        memref = as_memref(tensor_type(op.results[0]))
        if isinstance(op, ConstantOp):
            return launch.VariableOp(symbol, chunk, offset, memref, value=op.value)
        if isinstance(op, StateOp):
            first = zeros(tensor_type(op.result)).value
            return launch.VariableOp(symbol, chunk, offset, memref, value=first)
        assert isinstance(op, VariableOp), "the other kind of variable"
        port = None if op.port.data == symbol else op.port.data
        return launch.VariableOp(
            symbol,
            chunk,
            offset,
            memref,
            init=op.init,
            offsets=op.offsets,
            whole=op.whole,
            winograd=op.winograd,
            port=port,
            also=op.also,
            cuts=op.cuts,
        )

    def _place(self, register: RegisterOp) -> tuple[str, int]:
        value, shift = alias_place(register.register)
        root = value.owner
        assert isinstance(root, RegisterOp), "has been checked"
        assert root.block is not None, "has been checked"
        assert root.offset is not None, "comes with the block"
        block = root.block.owner
        assert isinstance(block, BlockOp), "only this op makes blocks"
        chunk = block.chunk.owner
        assert isinstance(chunk, ChunkOp), "only this op makes chunks"
        offset = block.offset.value.data + root.offset.value.data + shift
        return self._chunks[chunk], offset

    # Actors

    def _actor(self, task: TaskOp) -> launch.ActorOp:
        stream = self._streams.setdefault(
            (task.device, task.stream), len(self._streams)
        )
        steps = [] if self._is_idle(task) else self._task_steps.of(task, self._scope)
        rates = {self._symbols[x]: n for x, n in self._rates.every(task).items()}
        signals = self._signals.get(task, {})
        actor = launch.ActorOp(
            self._actors[task],
            task.device,
            stream,
            list(self._reads(task)),
            [
                *(self._symbols[value] for value in (*task.outs, *task.signals)),
                *signals,
            ],
            Region(Block(steps)),
            task.job if self._has_jobs else None,
            kind=kind_of(task.op),
            lists=lists_of(task.op),
            every=without_ones({**rates, **signals}),
            views=list(dict.fromkeys(self._views(task))),
            updates=[
                launch.ViewAttr(self._symbols[update.variable], self._symbols[value])
                for value in task.outs
                if (update := self._updates.get(value)) is not None
            ],
            can_fail=task.can_fail is not None,
        )
        actor.location = task.location
        carry(task, actor)
        if not steps or isinstance(task.op, WaveOp):
            carry(task.op, actor)
        return actor

    def _views(self, task: TaskOp) -> Iterator[launch.ViewAttr]:
        """The views in the registers of a task, by the pairs of its op."""
        for pair in views_of(task):
            if task.outs[pair.result] in self._updates:
                continue
            source = self._symbols[operand_register(task, pair.operand)]
            result = self._symbols[task.outs[pair.result]]
            yield launch.ViewAttr(source, result, pair.offset)

    def _is_idle(self, task: TaskOp) -> bool:
        """Whether all that an actor has to do lies there already."""
        if task.kind in ("tick", "main"):
            return True
        if any(value in self._updates for value in task.ins):
            return True
        return does_nothing(task) or self._interfaces.is_handed_on(task)

    def _release(self, task: TaskOp) -> launch.ActorOp:
        release = self._releases[task]
        actor = launch.ActorOp(
            release.name,
            task.device,
            self._streams[task.device, task.stream],
            [release.register, *release.signals.values()],
            [],
            Region(Block([launch.ReleaseOp(release.register)])),
            task.job,
            every=without_ones(
                {
                    symbol: self._acts_between(reader, task)[1]
                    for reader, symbol in release.signals.items()
                }
            ),
        )
        actor.location = task.location
        return actor

    def _acts_between(self, a: TaskOp, b: TaskOp) -> tuple[int, int]:
        """The acts of two tasks after each of which both have made as much."""
        acts = [self._rates.repetitions[task] for task in (a, b)]
        return acts[0] // gcd(*acts), acts[1] // gcd(*acts)

    def _reads(self, task: TaskOp) -> dict[str, None]:
        """The registers a task reads or holds, each once."""
        read: dict[str, None] = {}
        for value in (*task.ins, *task.waits):
            for held in (value, *self._holds.of(value)):
                if held in self._written:
                    read[self._symbols[held]] = None
        return read


def without_ones(rates: Mapping[str, int]) -> dict[str, int]:
    """The registers of which a piece lasts for several acts, with how many."""
    return {symbol: acts for symbol, acts in rates.items() if acts > 1}


def is_in_place(update: Update) -> bool:
    """Whether the new value of a variable lies on it."""
    return alias_place(update.value) == alias_place(update.variable)


def written_by(task: TaskOp) -> Sequence[SSAValue]:
    """The registers that the actor of a task fills."""
    return () if task.kind == "variable" else (*task.outs, *task.signals)


def builders_for(plan: PlanOp, simulate_ranks: bool) -> dict[str, ProgramBuilder]:
    """The builders of the programs of a plan, by the programs' names."""
    name, ranks = plan.sym_name.data, {task.device.rank.data for task in plan.tasks}
    if simulate_ranks:
        ranks.update(chunk.memory_case.rank.data for chunk in plan.chunks)
    if simulate_ranks or len(ranks) < 2:
        return {name: ProgramBuilder(plan, sorted(ranks) or [0])}
    return {f"{name}_{rank}": ProgramBuilder(plan, [rank]) for rank in sorted(ranks)}


def convert_plans(plans: Sequence[PlanOp], simulate_ranks: bool) -> None:
    """Replace plans by their programs. Raises `LocatedPassFailure` for bad kernels."""
    builders = [builders_for(plan, simulate_ranks) for plan in plans]
    programs = [
        [builder.build(name) for name, builder in of_plan.items()]
        for of_plan in builders
    ]
    fail_if_any(
        found
        for of_plan in builders
        for builder in of_plan.values()
        for found in builder.findings
    )
    for plan, of_plan in zip(plans, programs, strict=True):
        replace_op(plan, of_plan, [])


@dataclass(frozen=True)
class ConvertPlanToLaunchPass(ModulePass):
    """
    Turn each plan into a launch program: tasks become actors, op bodies kernels.
    """

    name = "convert-plan-to-launch"

    simulate_ranks: bool = False
    """Make one program of all ranks of a plan, to run in one process."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = outermost(op, PlanOp)
        simulate = self.simulate_ranks
        fail_if_any(x for plan in plans for x in findings_about(plan, simulate))
        convert_plans(plans, simulate)
