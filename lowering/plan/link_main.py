"""
Link the jobs of a merged plan to a main job, which launches them by their numbers.

The plan needs ticks for all of its jobs (`job-add-sections`, `plan-add-ticks` before
`plan-merge-jobs`). Jobs are numbered as they are listed in `jobs` of the plan, sections
`<job>/<section>` job by job. The main job `System-Main` has on CPU 0 of the rank, each
on a stream `<main, n>` of its own,

* `launch`, which takes the number of a job from the buffer `System-Launch`;
* `send`, which produces the numbers of its sections, one after the other;
* `lock`, which grants a section if nobody has one that intersects it, or has asked for
  such a one before ([OF-59](sources.md#of-59));
* `case`, which lets the source of the section that was granted act;
* `esac`, for which the sinks of sections signal, and which gives sections back;
* `finished` and `notify`: the number of a job whose section `total` has come to its
  end, and with it all others, goes to the buffer `System-Finished`.

So the source of a section, which waited for nothing before, is what lets a launch of a
job begin, and nothing else of a job changes. Two sections of different jobs intersect
if one writes what the other one reads or writes, or if both are total ones of jobs in
one group of `exclusive`. The numbers lie in a chunk of their own.

Jobs that may run at the same time are on different compute streams: those of one group
of `exclusive` keep theirs, and each other job gets streams of its own after them.

A plan whose tasks name no job, or that has no ticks or a main job, is left as it is.

Example: `test/lowering/plan/plan-link-main-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import (
    MAIN_JOB,
    SECTIONS,
    CallbackNotifyOp,
    CaseOp,
    DeviceAttr,
    EsacOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    ReentrantLockOp,
    SectionAttr,
    SinkTickOp,
    SourceTickOp,
    WaitAndSendIdsOp,
    sections_of,
)
from penstock.dialects.job.main import NUMBER
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.analysis.control_edges import ControlEdge, write_control_edges
from penstock.lowering.analysis.job_interfaces import Interfaces

LAUNCH, FINISHED = "System-Launch", "System-Finished"
"""The buffers of numbers of jobs: those to be launched, and those at their end."""

NUMBERED = ("launch", "send", "lock", "esac", "finished")
"""The tasks that produce numbers."""

AHEAD = 2
"""The number of numbers that each of them produces ahead of the consumer."""


class Section(NamedTuple):
    """A section of a job, and the job's name."""

    job: str
    attribute: SectionAttr

    @property
    def name(self) -> str:
        """The name of the section in the plan."""
        return f"{self.job}/{self.attribute.section_name.data}"

    @property
    def is_total(self) -> bool:
        """Whether it covers all that the job does."""
        return self.attribute.kind.data == "total"

    def intersects(self, other: Section, group: Mapping[str, int]) -> bool:
        """Whether two sections may not be held at the same time."""
        if self.job == other.job:
            return False
        mine, theirs = set(self.attribute.writes), set(other.attribute.writes)
        is_whole = self.is_total and other.is_total
        return bool(
            (is_whole and group.get(self.job, -1) == group.get(other.job))
            or mine & theirs
            or mine & set(other.attribute.reads)
            or theirs & set(self.attribute.reads)
        )


def sections_in(plan: PlanOp) -> list[Section]:
    """The sections of all jobs of a merged plan. Raises `VerifyException`."""
    said = plan.attributes.get("jobs")
    if not isinstance(said, DictionaryAttr):
        return []
    present = set(plan.jobs)
    return [
        Section(job, section)
        for job, facts in said.data.items()
        if job in present and isinstance(facts, DictionaryAttr)
        for section in sections_of(facts.data.get(SECTIONS))
    ]


def rivals_of(
    sections: Sequence[Section], exclusive: Sequence[Sequence[str]]
) -> list[list[int]]:
    """For each section the numbers of those that it intersects."""
    group = {job: i for i, jobs in enumerate(exclusive) for job in jobs}
    return [
        [j for j, other in enumerate(sections) if section.intersects(other, group)]
        for section in sections
    ]


def needs_main(plan: PlanOp) -> bool:
    """Whether a plan is of jobs with ticks that are not linked yet."""
    kinds = {task.kind for task in plan.tasks}
    return bool(plan.jobs) and "tick" in kinds and "main" not in kinds


def findings_about(plan: PlanOp) -> Iterator[Finding]:
    """The findings that keep a plan from being linked."""
    try:
        listed = {section.name for section in sections_in(plan)}
    except VerifyException as error:
        yield plan, str(error)
        return
    yield from tick_findings(plan, listed)
    ranks = sorted({task.device.rank.data for task in plan.tasks})
    if len(ranks) > 1:
        names = ", ".join(map(str, ranks))
        yield (
            plan,
            f"a main job has one rank, but tasks run on ranks {names}: leave it out, "
            "sessions launch such jobs themselves",
        )
    elif plan.rank is not None:
        yield (
            plan,
            f"a main job has one rank, but this is the plan of rank {ranks[0]}: leave "
            "it out, sessions launch such jobs themselves",
        )
    if MAIN_JOB in plan.jobs:
        yield plan, f"'{MAIN_JOB}' is taken, which is the name of the main job"
    yield from port_findings(plan)


def tick_findings(plan: PlanOp, listed: set[str]) -> Iterator[Finding]:
    """Ticks of no section, sections with a tick missing, and jobs without ticks."""
    ends: dict[str, list[str]] = {}
    ticked: set[str] = set()
    for task in plan.tasks:
        if isinstance(op := task.op, SourceTickOp | SinkTickOp):
            assert task.job is not None, "checked by the verifier"
            ticked.add(task.job.data)
            ends.setdefault(f"{task.job.data}/{op.section.data}", []).append(op.name)
    expected = [SourceTickOp.name, SinkTickOp.name]
    # A plan of several ranks has others, which is said elsewhere.
    for name in sorted(listed | ends.keys()):
        if name not in listed or not set(expected) <= set(ends.get(name, ())):
            yield plan, f"section '{name}' should be listed, and have a source and sink"
    for job in plan.jobs:
        if job not in ticked:
            yield (
                plan,
                f"job '{job}' has no ticks, run job-add-sections and plan-add-ticks",
            )


def port_findings(plan: PlanOp) -> Iterator[Finding]:
    """Ports of one name that the caller of several jobs, or of this one, serves."""
    interfaces = Interfaces(plan)
    seen: dict[str, str] = {}
    for task in plan.tasks:
        match task.op:
            case InputOp() | OutputOp() as op if not interfaces.is_handed_on(task):
                name = op.port.data
            case ForeignInputOp() | ForeignOutputOp() as op:
                name = op.buffer.data
            case _:
                continue
        if name == (LAUNCH if is_fed(task.op) else FINISHED):
            yield task, f"port '{name}' is taken, which is one of the main job"
        assert task.job is not None, "checked by the verifier"
        if (other := seen.setdefault(name, task.job.data)) != task.job.data:
            yield (
                task,
                f"port '{name}' is one of jobs '{other}' and '{task.job.data}', run "
                "job-add-push-pull first",
            )


def is_fed(op: Operation) -> bool:
    """Whether the caller gives what an op takes, rather than takes what it gives."""
    return isinstance(op, InputOp | ForeignInputOp)


class MainJob:
    """Makes the tasks of the main job of one plan."""

    def __init__(self, plan: PlanOp) -> None:
        self._plan = plan
        self._sections = sections_in(plan)
        self._jobs = list(dict.fromkeys(section.job for section in self._sections))
        self._device = DeviceAttr(plan.tasks[0].device.rank.data, "cpu", 0)
        self._registers: dict[str, RegisterOp] = {}
        self._tasks: dict[str, TaskOp] = {}

    def add(self) -> None:
        """Add the main job to the plan."""
        block = self._plan.body.block
        block.insert_ops_before(self._add_memory(), self._plan.tasks[0])
        self._add_tasks()
        block.add_ops(self._tasks.values())
        write_control_edges(self._plan, list(self._edges()))

    def _add_memory(self) -> list[Operation]:
        """A chunk with a register for the numbers that each task produces."""
        case = MemoryCaseAttr.of(self._device)
        type, stride = DataType(NUMBER), case.alignment
        places = [(name, n * AHEAD * stride) for n, name in enumerate(NUMBERED)]
        chunk = ChunkOp(case, len(places) * AHEAD * stride)
        block = BlockOp(chunk, 0, chunk.size.value.data)
        self._registers = {
            name: RegisterOp(
                f"{MAIN_JOB}/{name}/out",
                case,
                type,
                block=block,
                offset=at,
                slots=AHEAD,
            )
            for name, at in places
        }
        return [chunk, block, *self._registers.values()]

    def _add_tasks(self) -> None:
        names = [section.name for section in self._sections]
        numbers = [
            [i for i, section in enumerate(self._sections) if section.job == job]
            for job in self._jobs
        ]
        rivals = rivals_of(self._sections, self._plan.exclusive_jobs)
        self._task("launch", [], lambda _: ForeignInputOp(LAUNCH, NUMBER))
        self._task(
            "send", ["launch"], lambda x: WaitAndSendIdsOp(x[0], self._jobs, numbers)
        )
        self._task(
            "lock",
            ["send", "esac"],
            lambda x: ReentrantLockOp(x[0], x[1], names, rivals),
        )
        self._task("case", ["lock"], lambda x: CaseOp(x[0], names))
        self._task("esac", [], lambda _: EsacOp(names))
        self._task("finished", [], lambda _: EsacOp(self._jobs))
        self._task("notify", ["finished"], lambda x: CallbackNotifyOp(FINISHED, x[0]))

    def _task(
        self,
        name: str,
        reads: Sequence[str],
        make: Callable[[Sequence[SSAValue]], Operation],
    ) -> None:
        block = Block(arg_types=[NUMBER for _ in reads])
        op = make(block.args)
        op.location = self._plan.location
        block.add_ops([op, YieldOp(*op.results)])
        task = TaskOp(
            f"{MAIN_JOB}/{name}",
            self._device,
            StreamAttr("main", len(self._tasks)),
            Region(block),
            order=0,
            ins=[self._registers[read].register for read in reads],
            outs=[self._registers[name].register] if name in self._registers else (),
        )
        task.job = StringAttr(MAIN_JOB)
        task.location = self._plan.location
        self._tasks[name] = task

    def _edges(self) -> Iterator[ControlEdge]:
        """From the case to all sources, and from all sinks to who joins them."""
        sources: dict[str, TaskOp] = {}
        sinks: dict[str, TaskOp] = {}
        for task in self._plan.tasks:
            if isinstance(op := task.op, SourceTickOp | SinkTickOp):
                assert task.job is not None, "has been checked"
                ends = sources if isinstance(op, SourceTickOp) else sinks
                ends[f"{task.job.data}/{op.section.data}"] = task
        for section in self._sections:
            yield ControlEdge(self._tasks["case"], sources[section.name])
        for section in self._sections:
            yield ControlEdge(sinks[section.name], self._tasks["esac"])
        for section in self._sections:
            if section.is_total:
                yield ControlEdge(sinks[section.name], self._tasks["finished"])


def keep_apart(plan: PlanOp) -> None:
    """Let jobs that may run at the same time have different compute streams."""
    group = {job: i for i, jobs in enumerate(plan.exclusive_jobs) for job in jobs}
    numbers: dict[DeviceAttr, dict[tuple[int | str, int], int]] = {}
    for task in plan.tasks:
        if task.job is None or task.stream.kind.data != "compute":
            continue
        job, index = task.job.data, task.stream.index.data
        known = numbers.setdefault(task.device, {})
        number = known.setdefault((group.get(job, job), index), len(known))
        task.stream = StreamAttr("compute", number)


@dataclass(frozen=True)
class PlanLinkMainPass(ModulePass):
    """
    Link the jobs of a merged plan to a main job, which launches them by their numbers.
    """

    name = "plan-link-main"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = outermost(op, PlanOp)
        plans = [plan for plan in plans if needs_main(plan)]
        fail_if_any(found for plan in plans for found in findings_about(plan))
        for plan in plans:
            keep_apart(plan)
            MainJob(plan).add()
