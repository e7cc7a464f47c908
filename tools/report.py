"""What a compiled model is made of, in a few lines for a person."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Operation

from penstock.dialects.launch import ActorOp, ChunkOp, KernelOp, ProgramOp


def summary(entry: Operation, program: ProgramOp, device: str, threads: int) -> str:
    """
    The ops of a job (or the tasks of a plan, or the parts of a program), what became
    of them, and the memory they take.
    """
    ops = list(program.body.block.ops)
    actors = sum(isinstance(op, ActorOp) for op in ops)
    kernels = sum(isinstance(op, KernelOp) for op in ops)
    given = sum(1 for _ in entry.regions[0].block.ops)
    lines = [
        f"{program.sym_name.data}: {given} ops, {actors} tasks, {kernels} kernels "
        f"on {device}, {threads} thread{'s' * (threads > 1)}"
    ]
    lines += [memory_line(op) for op in ops if isinstance(op, ChunkOp)]
    return "\n".join(lines)


def memory_line(chunk: ChunkOp) -> str:
    """How full a chunk is at most, against what it would take at least."""
    case = f"{chunk.memory_case.kind.data} memory"
    report = chunk.attributes.get("memory")
    if not isinstance(report, DictionaryAttr):
        return f"{case}: {size_text(chunk.size.value.data)}"
    sizes = {
        key: value.value.data
        for key, value in report.data.items()
        if isinstance(value, IntegerAttr)
    }
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
