"""What a compiled model is made of, in a few lines for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from penstock.dialects.launch import ChunkOp, ProgramOp
    from penstock.dialects.regst import MemoryCaseAttr


class Report(NamedTuple):
    """A program's name, what it is made of, and a line on each of its memories."""

    name: str
    tasks: int
    kernels: int
    devices: str
    memory: tuple[str, ...]

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
        return "\n".join((head, *self.memory))


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
    How full the chunks of a memory are at most, against what they would take at least.
    `of_device` names the device whose memory it is, `of_rank` its rank.
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
    peak, bound, total = sizes["peak"], sizes["bound"], sizes["sum"]
    ratio = f" ({peak / bound:.3f} x the bound of {size_text(bound)})" if bound else ""
    return (
        f"{case}: activations peak {size_text(peak)}{ratio}, "
        f"{size_text(total)} unshared; weights {size_text(sizes['variables'])}"
    )


def size_text(size: int) -> str:
    """A number of bytes as a person reads it, such as `1.5 MiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
