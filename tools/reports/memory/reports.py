"""Reports of plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from penstock.dialects.op.loop import LoopOp
from penstock.dialects.plan import PlanOp, TaskOp, name_of
from penstock.dialects.regst import BlockOp, ChunkOp, MemoryCaseAttr, alias_place
from penstock.dialects.utils.walk import outermost
from penstock.lowering.convert.chunk_report import fill_of, together
from penstock.tools.reports.memory.counting import Counting, Tree, chunk_of
from penstock.tools.reports.memory.model import Block, Body, Chunk, Report, Step, Zone
from penstock.tools.reports.memory.planners import packing_of
from penstock.tools.reports.memory.registers import registers_of
from penstock.tools.reports.memory.steps import (
    case_text,
    device_text,
    queue_text,
    stream_text,
)
from penstock.tools.reports.memory.usage import usage_of
from penstock.tools.session.report import given_up_lines

NO_PLACES = "no register has a place, run regst-plan-memory first"


def reports_of(module: Operation) -> list[Report]:
    """
    A report of each plan in a module whose registers have places, with those of the
    bodies in it.
    """
    plans = outermost(module, PlanOp)
    return [report_of(plan) for plan in plans if has_places(plan)]


def has_places(plan: PlanOp) -> bool:
    """Whether some register of a plan has a place."""
    return any(register.block is not None for register in plan.registers)


def report_of(plan: PlanOp, body: Body | None = None) -> Report:
    """The memory of a plan, which may be of a body."""
    counting = Counting(plan)
    cases: dict[MemoryCaseAttr, list[ChunkOp]] = {}
    for op in plan.body.block.ops:
        if isinstance(op, ChunkOp):
            cases.setdefault(op.memory_case, []).append(op)
    return Report(
        plan.sym_name.data,
        plan.jobs,
        plan.exclusive_jobs,
        [stream_text(stream) for stream in counting.streams],
        [step_of(counting, task) for task in counting.tasks],
        [zone_of(counting, case, chunks) for case, chunks in cases.items()],
        [
            register.register_name.data
            for register in counting.data
            if alias_place(register.register).root not in counting.trees
        ],
        list(given_up_lines(plan)),
        body,
        list(bodies_of(counting, body)),
    )


def bodies_of(counting: Counting, around: Body | None) -> Iterator[Report]:
    """The reports of the bodies of tasks, in the order in which these act."""
    for task in counting.tasks:
        for number, plan in enumerate(task.bodies):
            path = "" if around is None else f"{around.task}/"
            register = name_of(task.outs[-1]) if task.outs else None
            form = form_of(task.op, number)
            yield report_of(plan, Body(path + task.task_name.data, form, register))


def form_of(op: Operation, number: int) -> str:
    """The form of a loop, or of the branch of a condition with this number."""
    if not isinstance(op, LoopOp):
        return f"{op.name}, {('then', 'else')[number]}"
    most = "up to " if op.is_bounded else ""
    return f"{op.name} {most}{op.count}"


def step_of(counting: Counting, task: TaskOp) -> Step:
    """The report of a task that acts."""
    return Step(
        task.task_name.data,
        task.op.name,
        device_text(task.device),
        queue_text(task.stream),
        counting.in_stream[task],
        None if task.job is None else task.job.data,
    )


def zone_of(
    counting: Counting, case: MemoryCaseAttr, chunks: Sequence[ChunkOp]
) -> Zone:
    """All that lies in these chunks of one kind of memory."""
    values = {chunk.chunk for chunk in chunks}
    trees = [t for t in counting.trees.values() if chunk_of(t) in values]
    size = sum(chunk.size.value.data for chunk in chunks)
    names = unique_names([chunk.chunk for chunk in chunks], "chunk")
    return Zone(
        case_text(case),
        usage_of(counting, trees, size, case.alignment),
        [
            Chunk(name, chunk.size.value.data, list(blocks_of(counting, chunk)))
            for name, chunk in zip(names, chunks, strict=True)
        ],
        together(fill_of(chunk, counting.liveness) for chunk in chunks),
        case.rank.data,
    )


def blocks_of(counting: Counting, chunk: ChunkOp) -> Iterator[Block]:
    """The blocks of a chunk, as they are listed."""
    blocks = [
        op
        for op in counting.plan.body.block.ops
        if isinstance(op, BlockOp) and op.chunk == chunk.chunk
    ]
    held: dict[SSAValue, list[Tree]] = defaultdict(list)
    for tree in counting.trees.values():
        if tree.root.block is not None:
            held[tree.root.block].append(tree)
    names = unique_names([block.block for block in blocks], "block")
    for name, block in zip(names, blocks, strict=True):
        trees = held[block.block]
        alignment = chunk.memory_case.alignment
        usage = usage_of(counting, trees, block.size.value.data, alignment)
        registers = list(registers_of(counting, trees, usage.peak_step))
        packing = packing_of(counting, trees, alignment)
        yield Block(name, block.offset.value.data, usage, registers, packing)


def unique_names(values: Sequence[SSAValue], fallback: str) -> list[str]:
    """The names of values as they are hinted at, with numbers where two are equal."""
    names: list[str] = []
    for value in values:
        name = base = value.name_hint or fallback
        count = 0
        while name in names:
            count += 1
            name = f"{base}_{count}"
        names.append(name)
    return names
