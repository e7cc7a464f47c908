"""
Merge all plans of a module, or all of each rank, into one, whose jobs share memory.

A task of job `train` is named `train/<task>` and says `job "train"`, a register is
named `train/<register>`; tasks that have the place of another one in their stream
follow it, job by job, and chains are numbered on. Names that jobs share stand for one
thing ([OF-8](sources.md#of-8), [OF-30](sources.md#of-30), [OF-67](sources.md#of-67)):

* a variable of several jobs is one register, written by one task that belongs to no job
  and keeps its name;
* inputs and outputs of one name share one block, which is the only one they lie in
  (`regst-mark-interfaces` comes before places are given). All of it lies in memory
  that serves as that of each job: pinned or registered for transfers, if one needs it.

Of each memory case there is one chunk for what lasts: variables and headers, then
interfaces, in the order in which they are listed. Everything else of a job lies in the
chunk of the group of jobs that never run at the same time as it does. Such a chunk is
as large as the largest of its jobs needs; in it each job's blocks lie side by side from
0 on, and registers keep their offsets in blocks, but for what sinks where others were
taken out.

Groups are made in the order of the jobs: a job joins the first one that contains no job
it may run in parallel with. By `strategy`, jobs exclude each other
* `parallelism`: if they have a variable, an input or an output of one name;
* `writers`: if one of them assigns to, or puts out, what the other has by that name, so
  that those that only read one thing may run in parallel, on memory of their own;
* `memory`: always;
* `custom`: like `parallelism`, and if one of `groups` has both, as in
  `groups="train,eval;a,b"`. A job with the attribute `system` is in no group, unless it
  assigns to variables. The groups of several jobs stand in `exclusive` of the plan, and
  what the plans said of themselves in its attribute `jobs`.

Of plans of several ranks, `<job>_<rank>`, those of a rank become `<plan-name>_<rank>`,
in which the jobs have the same names on all ranks.

A job that is alone is left as it is, unless `alone` is set.

Example: `test/lowering/plan/plan-merge-jobs-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import DeviceAttr, OutputOp
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp
from penstock.dialects.regst import (
    DataType,
    RegisterOp,
)
from penstock.dialects.utils.attributes import carry
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.hints import isa
from penstock.lowering.algorithms.exclusion_groups import (
    STRATEGIES,
    exclusion_groups,
    exclusive_by_name,
    exclusive_by_writing,
    parse_groups,
)
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import aliases_of, joined_case
from penstock.lowering.analysis.memory_bound import write_bounds
from penstock.lowering.analysis.plan_waits import WAITS_FOR
from penstock.lowering.analysis.shared_ports import (
    SYSTEM,
    Port,
    SharedPorts,
    findings_about,
    job_of,
    plans_by_rank,
    ports_of,
    shared_ports,
)
from penstock.lowering.analysis.variable_uses import target_of
from penstock.lowering.plan.merged_memory import Memory

################################################################################
# Plans that cannot be merged                                                  #
################################################################################


def findings_in(
    module: ModuleOp, plans: Sequence[PlanOp], shared: SharedPorts, name: str
) -> Iterator[Finding]:
    """All that keeps plans from being merged into one of this name."""
    yield from name_findings(module, plans, name)
    early = [found for plan in plans for found in stage_findings(plan)]
    yield from early
    if not early:
        found = list(findings_about(shared))
        yield from found
        if not found:
            yield from interface_findings(shared)
            yield from memory_findings(shared)


def name_findings(
    module: ModuleOp, plans: Sequence[PlanOp], name: str
) -> Iterator[Finding]:
    """The findings about ops that stay and have the name of the merged plan."""
    for op in module.body.block.ops:
        if op not in plans and op.get_attr_or_prop("sym_name") == StringAttr(name):
            yield op, f"@{name} is taken, so the plan needs another name"


def stage_findings(plan: PlanOp) -> Iterator[Finding]:
    """Why it is too early, or too late, to merge a plan with others."""
    if plan.jobs:
        yield plan, f"the tasks of @{plan.sym_name.data} belong to several jobs already"
    if any(task.results_ for task in plan.tasks):
        yield plan, "tasks hand on values, run plan-create-registers first"
    elif any(needs_place(register) for register in plan.registers):
        yield plan, "registers have no place yet, run regst-plan-memory first"


def needs_place(register: RegisterOp) -> bool:
    """Whether a register holds bytes, but lies nowhere."""
    is_data = isinstance(register.register.type, DataType)
    return is_data and register.block is None and register.target is None


def interface_findings(shared: SharedPorts) -> Iterator[Finding]:
    """The inputs and outputs of several jobs that are no interfaces."""
    for name, jobs in shared.items():
        for port in (port for ports in jobs for port in ports if not port.is_variable):
            if register_of(port.value).interface != StringAttr(name):
                yield (
                    port.where,
                    f"'{name}' is {port.kind} of job '{port.job}' and has the name of "
                    "another job's, but its register is no interface; "
                    "regst-mark-interfaces makes it one before memory is planned",
                )


def memory_findings(shared: SharedPorts) -> Iterator[Finding]:
    """
    The findings about ports that several jobs share, and that cannot lie in one place.
    """
    for first, *others in same_things(shared):
        case = register_of(first.value).memory_case
        for port in others:
            other = register_of(port.value).memory_case
            if joined_case([case, other]) is None:
                what = "variable" if port.is_variable else "interface"
                yield (
                    port.where,
                    f"{what} '{port.name}' lies in {case} in job '{first.job}', "
                    f"but in {other} in job '{port.job}'",
                )


def task_of(port: Port) -> TaskOp:
    """The task of an input, output or variable of a plan."""
    assert isinstance(port.where, TaskOp), "a plan has a task for each"
    return port.where


def register_of(value: SSAValue) -> RegisterOp:
    """The op that makes a register."""
    register = value.owner
    assert isinstance(register, RegisterOp), "tasks without results have registers"
    return register


################################################################################
# Jobs that exclude each other                                                 #
################################################################################


def written_by(plan: PlanOp) -> set[str]:
    """The outputs of a plan, and the variables that it assigns to, by name."""
    ports = list(ports_of(plan))
    variables = {port.value: port.name for port in ports if port.is_variable}
    written = {port.name for port in ports if isinstance(port.op, OutputOp)}
    for task in plan.tasks:
        target = target_of(task)
        if target is not None and target in variables:
            written.add(variables[target])
    return written


def takes_turns(plan: PlanOp) -> bool:
    """Whether a plan is of a job that a person wrote, or that assigns to variables."""
    is_user = SYSTEM not in plan.attributes
    return is_user or any(target_of(task) is not None for task in plan.tasks)


def groups_of(
    plans: Sequence[PlanOp], strategy: str, custom: Sequence[Sequence[str]]
) -> list[list[PlanOp]]:
    """The plans that share memory, in groups; every plan is in one."""
    users = [plan for plan in plans if takes_turns(plan)]
    number = {plan.sym_name.data: i for i, plan in enumerate(users)}
    everyone = set(range(len(users)))
    if strategy == "memory":
        exclusive = [everyone - {job} for job in everyone]
    else:
        names = [{port.name for port in ports_of(plan)} for plan in users]
        written = [written_by(plan) for plan in users]
        exclusive = (
            exclusive_by_writing(names, written)
            if strategy == "writers"
            else exclusive_by_name(names)
        )
    for group in custom:
        members = {number[job] for job in group if job in number}
        for job in members:
            exclusive[job] |= members - {job}
    found = [[users[i] for i in group] for group in exclusion_groups(exclusive)]
    return found + [[plan] for plan in plans if plan not in users]


################################################################################
# Names                                                                        #
################################################################################


def join_memories(plans: Sequence[PlanOp], shared: SharedPorts) -> None:
    """Let what several jobs share lie in memory that serves as that of each job."""
    headers = {
        (plan.sym_name.data, register.header.data): register
        for plan in plans
        for register in plan.registers
        if register.header is not None
    }
    for ports in same_things(shared):
        registers = [register_of(port.value) for port in ports]
        case = joined_case([register.memory_case for register in registers])
        assert case is not None, "has been checked"
        for port, register in zip(ports, registers, strict=True):
            for each in (register, *aliases_of(register)):
                each.memory_case = case
            name = register.register_name.data
            if (header := headers.get((port.job, name))) is not None:
                header.memory_case = case.of_header


def same_things(shared: SharedPorts) -> Iterator[list[Port]]:
    """
    The ports that are one thing in several jobs, given that all of them define it
    alike.
    """
    for jobs in shared.values():
        things: dict[str, list[Port]] = {}
        for port in (port for ports in jobs for port in ports):
            things.setdefault(port.definition, []).append(port)
        yield from things.values()


def share_variables(shared: SharedPorts) -> set[Operation]:
    """
    Let all jobs that have a variable of one name read the register of the first. Return
    the tasks that stay.
    """
    kept: set[Operation] = set()
    for first, *others in shared.values():
        if not first[0].is_variable:
            continue
        values = {port.definition: port.value for port in first}
        tasks = {port.definition: task_of(port) for port in first}
        kept.update(port.where for port in first)
        for port in (port for ports in others for port in ports):
            register, value = register_of(port.value), values[port.definition]
            carry(register, register_of(value))
            carry(port.where, tasks[port.definition])
            carry(port.op, tasks[port.definition].op)
            port.where.detach()
            port.where.erase()
            register.register.replace_all_uses_with(value)
            register.detach()
            register.erase()
    return kept


class Renamer:
    """Gives the tasks and registers of jobs names and places of their own."""

    def __init__(self, common: set[Operation]) -> None:
        self._common = common
        """The variables that several jobs read."""
        self._tasks = UniqueNames()
        self._registers = UniqueNames()
        self._orders: dict[tuple[DeviceAttr, StreamAttr], int] = {}
        self._chains = 0

    def rename(self, plan: PlanOp) -> None:
        """Name the tasks and registers of a plan, and number its tasks."""
        job, tasks = plan.sym_name.data, plan.tasks
        common = {value for t in tasks if t in self._common for value in t.outs}
        registers: dict[str, str] = {}
        for register in plan.registers:
            old = register.register_name.data
            name = old if register.register in common else f"{job}/{old}"
            registers[old] = self._registers.make(name)
            register.register_name = StringAttr(registers[old])
        for register in plan.registers:
            if register.header is not None:
                register.header = StringAttr(registers[register.header.data])
        names: dict[str, str] = {}
        for task in tasks:
            old = task.task_name.data
            name = old if task in self._common else f"{job}/{old}"
            names[old] = self._tasks.make(name)
            task.task_name = StringAttr(names[old])
            task.job = None if task in self._common else plan.sym_name
        for task in tasks:
            rename_events(task, names)
        self._number(tasks)

    def _number(self, tasks: Sequence[TaskOp]) -> None:
        orders, chains = dict(self._orders), self._chains
        for task in tasks:
            stream = task.device, task.stream
            if task.order is not None:
                order = task.order.value.data + self._orders.get(stream, 0)
                task.order = IntegerAttr(order, i64)
                orders[stream] = max(orders.get(stream, 0), order + 1)
            if task.chain is not None:
                chain = task.chain.value.data + self._chains
                task.chain = IntegerAttr(chain, i64)
                chains = max(chains, chain + 1)
        self._orders, self._chains = orders, chains


def rename_events(task: TaskOp, names: Mapping[str, str]) -> None:
    """Rename the tasks that a task waits for."""
    waited = task.attributes.get(WAITS_FOR)
    if isa(waited, ArrayAttr[StringAttr]):
        renamed = [StringAttr(names.get(x.data, x.data)) for x in waited]
        task.attributes[WAITS_FOR] = ArrayAttr[StringAttr](renamed)


################################################################################
# One plan                                                                     #
################################################################################


def merge_plans(
    plans: Sequence[PlanOp],
    groups: Sequence[Sequence[PlanOp]],
    shared: SharedPorts,
    name: str,
) -> PlanOp:
    """The plan of this name that replaces plans."""
    join_memories(plans, shared)
    renamer = Renamer(share_variables(shared))
    memory = Memory()
    for plan in plans:
        renamer.rename(plan)
        memory.add(plan)
    tasks = [task for plan in plans for task in plan.tasks]
    registers = [register for plan in plans for register in plan.registers]
    ops = [*memory.chunks(groups), *registers, *tasks]
    with_tasks = [[x.sym_name.data for x in group if x.tasks] for group in groups]
    exclusive = [jobs for jobs in with_tasks if len(jobs) > 1]
    jobs: dict[str, Attribute] = {
        plan.sym_name.data: DictionaryAttr(plan.attributes) for plan in plans
    }
    for op in (*registers, *tasks):
        op.detach()
    merged = PlanOp(name, Region(Block(ops)), exclusive)
    merged.attributes["jobs"] = DictionaryAttr(jobs)
    merged.location = plans[0].location
    parent = plans[0].parent_block()
    assert parent is not None, "a plan is in a module"
    parent.insert_op_before(merged, plans[0])
    for plan in plans:
        plan.detach()
        plan.erase()
    write_bounds(merged)
    return merged


@dataclass(frozen=True)
class PlanMergeJobsPass(ModulePass):
    """
    Merge all plans of a module, or all of each rank, into one, whose jobs share memory.
    """

    name = "plan-merge-jobs"

    plan_name: str = "main"
    """The name of the plan that is made."""

    strategy: str = "parallelism"
    """
    The strategy for jobs that never run at the same time: `custom`, `memory`,
    `parallelism` or `writers`.
    """

    groups: str = ""
    """With `custom`, jobs that never do either, as in `"train,eval;a,b"`."""

    alone: bool = False
    """Whether a job without others becomes a plan with one job."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ranks = plans_by_rank(op)
        plans = [plan for found in ranks.values() for plan in found]
        jobs = {job_of(plan) for plan in plans}
        custom = self._custom(jobs)
        is_done = len(jobs) == 1 and (not self.alone or plans[0].is_merged)
        if not plans or is_done:
            return
        for rank, found in ranks.items():
            name = self.plan_name if rank is None else f"{self.plan_name}_{rank}"
            shared = shared_ports(found)
            fail_if_any(findings_in(op, found, shared, name))
            for plan in found:
                plan.sym_name = StringAttr(job_of(plan))
            groups = groups_of(found, self.strategy, custom)
            merged = merge_plans(found, groups, shared, name)
            merged.rank = None if rank is None else IntegerAttr(rank, i64)

    def _custom(self, jobs: set[str]) -> list[list[str]]:
        """The groups that are asked for, of these jobs."""
        if self.strategy not in STRATEGIES:
            raise PassFailedException(
                f"unknown strategy '{self.strategy}', "
                f"expected one of {', '.join(STRATEGIES)}"
            )
        if bool(self.groups) != (self.strategy == "custom"):
            raise PassFailedException(
                "strategy custom needs groups, and no other takes them, "
                f"got '{self.strategy}' and \"{self.groups}\""
            )
        groups = parse_groups(self.groups)
        for job in (job for group in groups for job in group):
            if job not in jobs:
                raise PassFailedException(f"groups name '{job}', which is no job")
        return groups
