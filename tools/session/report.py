"""The report about a compiled model, in a few lines for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xdsl.dialects.builtin import DictionaryAttr
    from xdsl.ir import Operation

    from penstock.dialects.launch import ChunkOp, ProgramOp
    from penstock.dialects.regst import MemoryCaseAttr


class Report(NamedTuple):
    """A program's name, its parts, and a line on each of its memories."""

    name: str
    tasks: int
    kernels: int
    devices: str
    memory: tuple[str, ...]
    given_up: tuple[str, ...] = ()
    """The cost of several streams and waves."""
    plain_loops: tuple[str, ...] = ()
    """Kernels with stages that have no schedule, with the reasons."""

    def text(
        self, threads: int, *, ops: int | None = None, simulated: bool = False
    ) -> str:
        """
        The lines to print. `ops` is the number of ops it was made from, if that is
        known; `simulated` is said of CUDA.
        """
        parts = [counted(self.tasks, "task"), counted(self.kernels, "kernel")]
        if ops is not None:
            parts.insert(0, counted(ops, "op"))
        head = (
            f"{self.name}: {', '.join(parts)} on {self.devices}"
            f"{' (simulated)' * simulated}, " + counted(threads, "thread")
        )
        return "\n".join((head, *self.memory, *self.given_up, *self._plain_lines()))

    def _plain_lines(self) -> Iterator[str]:
        if found := self.plain_loops:
            yield f"{counted(len(found), 'kernel')} as plain loops: {', '.join(found)}"


def report_of(program: ProgramOp) -> Report:
    """The report of a program."""
    from penstock.dialects.launch import ActorOp, ChunkOp, KernelOp

    ops = list(program.body.block.ops)
    chunks = [op for op in ops if isinstance(op, ChunkOp)]
    memories: dict[MemoryCaseAttr, list[ChunkOp]] = {}
    for chunk in chunks:
        memories.setdefault(chunk.memory_case, []).append(chunk)
    kinds = Counter(case.kind.data for case in memories)
    ranks = {case.rank for case in memories}
    lines = tuple(
        memory_line(found, of_device=kinds[case.kind.data] > 1, of_rank=len(ranks) > 1)
        for case, found in memories.items()
    )
    return Report(
        program.sym_name.data,
        sum(isinstance(op, ActorOp) for op in ops),
        sum(isinstance(op, KernelOp) for op in ops),
        devices_of(program),
        lines,
        tuple(given_up_lines(program)),
        tuple(plain_kernels(program)),
    )


def plain_kernels(program: ProgramOp) -> Iterator[str]:
    """The kernels with stages that no schedule was found for, with the reasons."""
    from xdsl.dialects.builtin import ArrayAttr, StringAttr

    from penstock.dialects.launch import KernelOp
    from penstock.dialects.launch.actors import PLAIN_LOOPS
    from penstock.dialects.utils.hints import isa

    for op in program.body.block.ops:
        stages = op.attributes.get(PLAIN_LOOPS)
        if isinstance(op, KernelOp) and isa(stages, ArrayAttr[StringAttr]):
            said = "; ".join(stage.data for stage in stages)
            yield f"{op.sym_name.data} ({said})"


def given_up_lines(op: Operation) -> Iterator[str]:
    """The cost of streams and waves of a plan, of a program, or of each job in it."""
    from xdsl.dialects.builtin import DictionaryAttr

    from penstock.lowering.analysis.plan_reports import GIVEN_UP, WAVES

    jobs = op.attributes.get("jobs")
    of_jobs = dict(jobs.data) if isinstance(jobs, DictionaryAttr) else {}
    for job, said in (("", DictionaryAttr(op.attributes)), *of_jobs.items()):
        for name, text_of in ((GIVEN_UP, given_up_text), (WAVES, waves_text)):
            cost = said.data.get(name) if isinstance(said, DictionaryAttr) else None
            if isinstance(cost, DictionaryAttr):
                yield f"{job and f'{job}: '}given up: {text_of(cost)}"


def numbers_of(attribute: DictionaryAttr) -> dict[str, int]:
    """The integers of a dictionary."""
    from xdsl.dialects.builtin import IntegerAttr

    return {
        name: value.value.data
        for name, value in attribute.data.items()
        if isinstance(value, IntegerAttr)
    }


def waves_text(cost: DictionaryAttr) -> str:
    """The cost of waves, by the attribute `waves` of a plan."""
    said = numbers_of(cost)
    return (
        f"memory, {counted(said['tasks'], 'task')} act together and need "
        f"{size_text(said['live_bytes'])} at once, {size_text(said['apart'])} apart"
    )


def given_up_text(cost: DictionaryAttr) -> str:
    """The cost of streams, by the attribute `given_up` of a plan."""
    from xdsl.dialects.builtin import StringAttr

    numbers = numbers_of(cost)
    what = cost.data["what"]
    assert isinstance(what, StringAttr), "written by regst-plan-memory"
    one, taken, free = (numbers[x] for x in ("one_thread", "taken", "free"))
    beside = f"x the {size_text(one)} of one thread"
    if what.data == "memory":
        return f"memory, {taken / one:.1f} {beside} (--guard bounded)"
    how = "overlap (a run begins after the one before)"
    if (window := numbers.get("window")) is not None:
        ahead = f"more than {counted(window, 'task')} before it"
        how = f"parallelism (a task waits for all that are {ahead})"
    return (
        f"{how}, to take {taken / one:.1f} {beside} in place of "
        f"{free / one:.1f} x (--guard stream)"
    )


def summary(
    entry: Operation, program: ProgramOp, threads: int, *, simulated: bool = False
) -> str:
    """
    The ops of a job, what became of it, and the memory that takes. Of a plan or program
    it is not known what it was made from. `simulated` is said of CUDA.
    """
    from penstock.dialects.job import JobOp

    ops = len(entry.body.block.ops) if isinstance(entry, JobOp) else None
    return report_of(program).text(threads, ops=ops, simulated=simulated)


def devices_of(program: ProgramOp) -> str:
    """The kinds of devices that a program has kernels for, such as `cpu and cuda`."""
    from penstock.dialects.launch import KernelOp

    ops = program.body.block.ops
    kinds = {op.target.data for op in ops if isinstance(op, KernelOp)}
    return " and ".join(sorted(kinds)) or "cpu"


def counted(number: int, what: str) -> str:
    """A number of things, such as `1 task` or `2 tasks`."""
    return f"{number} {what}" + "s" * (number != 1)


def memory_line(
    chunks: Sequence[ChunkOp], of_device: bool = False, of_rank: bool = False
) -> str:
    """
    The peak of the chunks of a memory, against the lower bound. `of_device` names the
    device whose memory it is, `of_rank` its rank.
    """
    from penstock.dialects.job import DeviceAttr

    memory = chunks[0].memory_case
    case = f"{memory.kind.data.replace('_', ' ')} memory"
    if of_device and isinstance(device := memory.device, DeviceAttr):
        case += f" of {device.kind.data}:{device.index.data}"
    if of_rank:
        case += f" of rank {memory.rank.data}"
    sizes: Counter[str] = Counter()
    for chunk in chunks:
        if (report := chunk.memory_report) is None:
            return f"{case}: {size_text(sum(x.size.value.data for x in chunks))}"
        sizes.update(report)
    return f"{case}: {fill_text(**sizes)}"


def fill_text(*, peak: int, bound: int, sum: int, variables: int) -> str:
    """The peak of a memory, against its lower bound, and its size without sharing."""
    ratio = f" ({peak / bound:.3f} x the bound of {size_text(bound)})" if bound else ""
    return (
        f"activations peak {size_text(peak)}{ratio}, "
        f"{size_text(sum)} unshared; weights {size_text(variables)}"
    )


def size_text(size: int) -> str:
    """A number of bytes as a person reads it, such as `1.5 MiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
