"""Programs, and the rules between their ops."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.launch.actor_kinds import NUMBERED
from penstock.dialects.launch.actors import (
    ActorOp,
    CallOp,
    FeedOp,
    FetchOp,
    KernelOp,
)
from penstock.dialects.launch.control_flow import LoopOp, local_names, steps_within
from penstock.dialects.launch.memory import (
    ChunkOp,
    ControlOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
    names_of,
)
from penstock.dialects.launch.step_rules import verify_steps
from penstock.dialects.launch.views import Uses, verify_update, verify_view
from penstock.dialects.regst import part_alignment
from penstock.dialects.regst.ops import Bytes
from penstock.dialects.utils.attributes import OF_PLANS, KnownAttributes
from penstock.dialects.utils.diagnostics import LocatedVerifyException, verifying
from penstock.dialects.utils.python_values import properties_of
from penstock.dialects.utils.repetitions import (
    Flow,
    RateError,
    TimesError,
    TooManyActs,
    repetition_vector,
)
from penstock.dialects.utils.tensors import element_bytes
from penstock.dialects.utils.walk import ops_of


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    Everything that one rank runs. In a program of several jobs each actor says its job.
    Jobs in one list of `exclusive` never run at the same time.

    ```mlir
    launch.program @empty rank 0 {
      launch.chunk @c0 on <0, host> size 64
    }
    ```
    """

    name = "launch.program"

    sym_name = prop_def(SymbolNameConstraint())
    rank = prop_def(Bytes)
    exclusive = opt_prop_def(ArrayAttr[ArrayAttr[StringAttr]])
    body = region_def("single_block")

    traits = traits_def(
        KnownAttributes(*OF_PLANS),
        NoTerminator(),
        IsolatedFromAbove(),
        SymbolOpInterface(),
    )

    assembly_format = (
        "$sym_name `rank` $rank (`exclusive` $exclusive^)? attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        sym_name: str,
        rank: int,
        body: Region,
        exclusive: ArrayAttr[ArrayAttr[StringAttr]] | None = None,
    ):
        super().__init__(
            properties=properties_of(
                ProgramOp, sym_name=sym_name, rank=rank, exclusive=exclusive
            ),
            regions=[body],
        )

    @property
    def actors(self) -> list[ActorOp]:
        """The actors, as they are listed."""
        return ops_of(self.body.block, ActorOp)

    @property
    def jobs(self) -> list[str]:
        """The jobs that actors name, as they are listed."""
        jobs = (actor.job.data for actor in self.actors if actor.job is not None)
        return list(dict.fromkeys(jobs))

    @property
    def exclusive_jobs(self) -> list[list[str]]:
        """The groups of jobs that never run at the same time."""
        groups = () if self.exclusive is None else self.exclusive
        return [[job.data for job in group] for group in groups]

    def symbol_table(self) -> dict[str, Operation]:
        """
        Every op of the program by its name. Raises `VerifyException` if two have one.
        """
        table: dict[str, Operation] = {}
        for op in self.body.block.ops:
            name = op.get_attr_or_prop("sym_name")
            with verifying(op):
                if not isinstance(name, StringAttr):
                    raise VerifyException(f"{op.name} is no op of a program")
                if name.data in table:
                    raise VerifyException(f"two ops are named @{name.data}")
            table[name.data] = op
        return table

    def verify_(self) -> None:
        table = self.symbol_table()
        writers: dict[str, str] = {}
        kernels = ops_of(self.body.block, KernelOp)
        failing = {op.sym_name.data for op in kernels if op.can_fail}
        for op in self.body.block.ops:
            with verifying(op):
                match op:
                    case RegisterOp() | VariableOp():
                        verify_place(op, table)
                    case ActorOp():
                        verify_actor(op, table, writers)
                        verify_failing(op, failing)
                    case _:
                        pass
        for actor in self.actors:
            with verifying(actor):
                verify_fed(actor, table, writers)
        verify_local_names(self, table)
        verify_jobs(self, table, writers)
        verify_ports(self, writers)
        verify_repetitions(self, writers)


def verify_place(op: RegisterOp | VariableOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless a register or variable lies inside its chunk."""
    name = op.sym_name.data
    chunk = table.get(chunk_name := op.chunk.root_reference.data)
    if not isinstance(chunk, ChunkOp):
        raise VerifyException(f"@{name} lies in @{chunk_name}, which is no chunk")
    size = memref_bytes(op.type)
    if isinstance(op, RegisterOp) and op.over is not None:
        verify_over(op, table)
    elif isinstance(op, RegisterOp):
        stride = op.stride(chunk.memory_case.alignment)
        size += stride * (op.slots.value.data - 1)
    end = op.offset.value.data + size
    if end > chunk.size.value.data:
        raise VerifyException(
            f"@{name} ends at byte {end}, past the {chunk.size.value.data} "
            f"of @{chunk_name}"
        )
    alignment = part_alignment(element_bytes(op.type), chunk.memory_case)
    if op.offset.value.data % alignment:
        raise VerifyException(
            f"the memory of @{name} starts at byte {op.offset.value.data}, "
            f"not at a multiple of {alignment}"
        )


def verify_over(op: RegisterOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless a register lies over the slots of another one."""
    assert op.over is not None, "checked by the caller"
    name, below_name = op.sym_name.data, op.over.root_reference.data
    below = table.get(below_name)
    if not isinstance(below, RegisterOp) or below.over is not None:
        raise VerifyException(
            f"@{name} lies over @{below_name}, which is no register with bytes of its "
            "own"
        )
    if (below.chunk, below.offset) != (op.chunk, op.offset):
        raise VerifyException(
            f"@{name} lies over @{below_name}, but not where that starts"
        )
    slots, frames = op.slots.value.data, below.slots.value.data
    if slots % frames:
        raise VerifyException(
            f"@{name} lies over @{below_name} of {frames} slots, but has {slots}, "
            "which is no multiple"
        )
    size, whole = memref_bytes(op.type), memref_bytes(below.type)
    if size != whole and size * (slots // frames) != whole:
        raise VerifyException(
            f"a slot of @{below_name} has {whole} bytes, but {slots // frames} of "
            f"@{name} that lie over it have {size} each"
        )


def verify_actor(
    actor: ActorOp, table: dict[str, Operation], writers: dict[str, str]
) -> None:
    """
    Raise `VerifyException` unless the symbols that an actor refers to exist and fit.
    """
    name = actor.sym_name.data
    for register in (*names_of(actor.reads), *names_of(actor.writes)):
        if not isinstance(table.get(register), RegisterOp | ControlOp):
            raise VerifyException(f"@{name} uses @{register}, which is no register")
    for register in dict.fromkeys(names_of(actor.writes)):
        if (other := writers.get(register)) is not None:
            raise VerifyException(
                f"@{register} is written by both @{other} and @{name}"
            )
        writers[register] = name
    verify_numbers(actor, table)
    uses = Uses(name, names_of(actor.reads), names_of(actor.writes), actor.rates)
    for view in actor.view_list:
        verify_view(uses, view, table)
    for update in actor.update_list:
        verify_update(uses, update, table)
    verify_steps(actor.body.block, actor, table)


def verify_failing(actor: ActorOp, failing: Collection[str]) -> None:
    """Raise `VerifyException` if an actor hides that a kernel it calls can fail."""
    if actor.can_fail is not None:
        return
    for step in steps_within(actor.body.block):
        if isinstance(step, CallOp) and step.kernel.root_reference.data in failing:
            raise VerifyException(
                f"@{actor.sym_name.data} calls @{step.kernel.root_reference.data}, "
                "which can fail, so it has to say can_fail"
            )
        if isinstance(step, LoopOp) and step.is_bounded:
            raise VerifyException(
                f"@{actor.sym_name.data} has a loop with a maximum, which can fail, so "
                "it has to say can_fail"
            )


def verify_local_names(program: ProgramOp, table: Mapping[str, Operation]) -> None:
    """Raise `VerifyException` if something else has the local name of a step."""
    seen = set(table)
    for actor in program.actors:
        for step in steps_within(actor.body.block):
            for name in local_names(step):
                if name in seen:
                    text = f"two ops are named @{name}"
                    raise LocatedVerifyException([(step, text)])
                seen.add(name)


def verify_numbers(actor: ActorOp, table: dict[str, Operation]) -> None:
    """Raise `VerifyException` unless numbers of an actor lie in registers of i64."""
    name, kind = actor.sym_name.data, actor.kind_name
    numbered = NUMBERED.get(kind, ())
    used = {"reads": names_of(actor.reads), "writes": names_of(actor.writes)}
    for register in (register for verb in numbered for register in used[verb]):
        op = table[register]
        if not isinstance(op, RegisterOp) or op.type != MemRefType(i64, []):
            raise VerifyException(
                f"@{name} of kind '{kind}' needs a number in @{register}, which is no "
                "memref<i64>"
            )
    for register in used["writes"] if kind == "case" else ():
        if not isinstance(table[register], ControlOp):
            raise VerifyException(
                f"@{name} of kind 'case' writes @{register}, which is no control"
            )


def verify_fed(
    actor: ActorOp, table: dict[str, Operation], writers: dict[str, str]
) -> None:
    """
    Raise `VerifyException` if an actor reads a register that nobody writes, or writes
    one over a register that it does not read at a rate which suits the slots.
    """
    name = actor.sym_name.data
    for register in names_of(actor.reads):
        if register not in writers:
            raise VerifyException(f"@{name} reads @{register}, which no actor writes")
    for register in names_of(actor.writes):
        verify_frames(actor, register, table)


def verify_frames(
    actor: ActorOp, register: str, table: Mapping[str, Operation]
) -> None:
    """
    Raise `VerifyException` unless an actor which writes a register over another one
    makes as many pieces of each that it reads of that one as slots lie over it.
    Otherwise pieces would come to lie over others than they are made of.
    """
    op = table[register]
    is_shown = any(view.names[1] == register for view in actor.view_list)
    if not isinstance(op, RegisterOp) or op.over is None or is_shown:
        return
    name, rates = actor.sym_name.data, actor.rates
    if actor.is_cyclic:
        raise VerifyException(
            f"@{name} has a cycle, and writes @{register}, which lies over another one"
        )
    what = f"@{name} writes @{register} over @{(below := op.over.root_reference.data)}"
    if below not in names_of(actor.reads):
        raise VerifyException(f"{what}, which it does not read")
    under = table[below]
    assert isinstance(under, RegisterOp), "checked with the register"
    slots = op.slots.value.data // under.slots.value.data
    made, taken = rates.get(register, 1), rates.get(below, 1)
    if made * slots != taken:
        raise VerifyException(
            f"{what}, {slots} in each slot, but the pieces of these last for {made} "
            f"and {taken} acts"
        )


def verify_jobs(
    program: ProgramOp, table: dict[str, Operation], writers: dict[str, str]
) -> None:
    """
    Raise `VerifyException` unless each actor of a program of several jobs says one, and
    uses what only actors of this one write, or signals from and to those that choose.
    """
    jobs = program.jobs
    for actor in program.actors if jobs else ():
        with verifying(actor):
            verify_own_job(actor, table, writers)
    seen: set[str] = set()
    for job in (job for group in program.exclusive_jobs for job in group):
        if job not in jobs:
            raise VerifyException(f"no actor belongs to job '{job}'")
        if job in seen:
            raise VerifyException(f"job '{job}' is in two exclusive groups")
        seen.add(job)


def verify_ports(program: ProgramOp, writers: dict[str, str]) -> None:
    """
    Raise `VerifyException` if two actors of programs that are loaded together are fed,
    or fetched, by one name: of a job, or of all jobs if they hand something on to each
    other.
    """
    jobs = {actor.sym_name.data: actor.job_name for actor in program.actors}
    is_linked = any(
        jobs[writers[register]] != actor.job_name
        for actor in program.actors
        for register in names_of(actor.reads)
    )
    seen: set[tuple[str | None, type[Operation], str]] = set()
    cuts: list[tuple[Operation, tuple[str | None, type[Operation], str]]] = []
    for actor in program.actors:
        job = None if is_linked else actor.job_name
        for step in actor.body.block.ops:
            if not isinstance(step, FeedOp | FetchOp):
                continue
            if (key := (job, type(step), step.port.data)) in seen:
                text = f"two actors serve the port '{step.port.data}'"
                raise LocatedVerifyException([(step, text)])
            seen.add(key)
            if isinstance(step, FetchOp):
                for cut in step.cuts or ():
                    cuts.append((step, (job, FetchOp, cut.count.data)))
    for step, count in cuts:
        if count not in seen:
            text = f"there is no output '{count[2]}' to cut it by"
            raise LocatedVerifyException([(step, text)])
    variables = [op for op in program.body.block.ops if isinstance(op, VariableOp)]
    names = {x for op in variables for x in (op.port_name, *op.other_names)}
    for op in variables:
        for name in (cut.count.data for cut in op.cuts or ()):
            if name not in names:
                text = f"there is no variable '{name}' to cut it by"
                raise LocatedVerifyException([(op, text)])


def verify_own_job(
    actor: ActorOp, table: dict[str, Operation], writers: dict[str, str]
) -> None:
    """Raise `VerifyException` unless an actor says a job, and reads of this one."""
    name, job = actor.sym_name.data, actor.job_name
    if job is None:
        raise VerifyException(f"@{name} belongs to no job, but others do")
    for register in names_of(actor.reads):
        writer = table[writers[register]]
        assert isinstance(writer, ActorOp), "only actors write"
        if writer.kind_name == "case" or actor.kind_name == "esac":
            continue
        if (other := writer.job_name) != job:
            raise VerifyException(
                f"@{name} of job '{job}' reads @{register} of job '{other}'"
            )


def verify_repetitions(program: ProgramOp, writers: dict[str, str]) -> None:
    """
    Raise `VerifyException` if actors hand pieces on at rates that do not suit each
    other.
    """
    repetitions_of(program, writers)


def repetitions_of(
    program: ProgramOp, writers: Mapping[str, str] | None = None
) -> dict[str, int]:
    """
    The acts of each actor in an iteration, by its name. Raises `VerifyException` if
    actors hand pieces on at rates that do not suit each other or a message, or one acts
    too often.
    """
    actors = program.actors
    names = [actor.sym_name.data for actor in actors]
    said = ((i, actor.times) for i, actor in enumerate(actors))
    times = {i: count for i, count in said if count is not None}
    if not times and not any(actor.every or actor.is_cyclic for actor in actors):
        return dict.fromkeys(names, 1)
    number = {name: i for i, name in enumerate(names)}
    if writers is None:
        writers = {x: a.sym_name.data for a in actors for x in names_of(a.writes)}
    flows: list[Flow] = []
    used: list[str] = []
    for reader, actor in enumerate(actors):
        for register in names_of(actor.reads):
            writer = number[writers[register]]
            if {actor.kind_name, actors[writer].kind_name} & set(NUMBERED):
                continue
            made = actors[writer].acts_for(register)
            flows.append(Flow(writer, reader, made, actor.acts_for(register)))
            used.append(register)
    try:
        rounds = [actor.acts_of_cycle for actor in actors]
        found = repetition_vector(flows, rounds, times)
    except TimesError as error:
        text = (
            f"@{names[error.index]} has a message {error.times} times in an iteration, "
            "which does not suit the rates of its program"
        )
        raise LocatedVerifyException([(actors[error.index], text)]) from None
    except RateError as error:
        flow = flows[error.index]
        text = (
            f"@{names[flow.source]} and @{names[flow.target]} hand "
            f"@{used[error.index]} on every {flow.made} and every {flow.taken} acts, "
            f"but act {error.acts} and {error.others} times in an iteration"
        )
        raise LocatedVerifyException([(actors[flow.target], text)]) from None
    except TooManyActs as error:
        text = f"@{names[error.index]} acts in an iteration {error.reason}"
        raise LocatedVerifyException([(actors[error.index], text)]) from None
    return dict(zip(names, found, strict=True))
