"""
The source of waves: kernels of members that may run in any order and at once.

Each member is printed like a kernel, as a function that a group makes with all that it
needs; consecutive members that are printed alike are one group, and a loop. The
function `kernel` runs the members of its part. A part is worth it if it takes `PART_NS`
by the cost of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.epilogue import NO_STAGES
from penstock.lowering.codegen.body.kernel_functions import cpu_imports

MEMBERS = "members"
"""The number of arguments of each member of a wave: an attribute of the kernel."""

PART_NS = 5_000
FLOPS_A_NS, BYTES_A_NS = 16, 64


def modelled_ns(kernel: KernelOp) -> float | None:
    """
    The modelled time of a kernel by its cost, in nanoseconds; None without a cost.
    """
    if kernel.cost is None:
        return None
    _, flops, size = kernel.cost
    return max(flops / FLOPS_A_NS, size / BYTES_A_NS)


@dataclass(frozen=True)
class Group:
    """Members that are printed alike."""

    text: str
    first: int
    """The number of the first member."""
    count: int
    words: int
    """The number of arguments before the first member."""
    arguments: int
    """The number of arguments of a member."""


def wave_source(kernel: KernelOp, print_member: Callable[[KernelOp], str]) -> str:
    """
    The module text of a wave, given what prints a kernel.

    Raises `LocatedPassFailure` if its stages are not those of members.
    """
    groups = groups_of(kernel, print_member)
    last = groups[-1]
    count = last.first + last.count
    time = modelled_ns(kernel) or 0
    parts = max(1, min(count, int(time / PART_NS)))
    lines = [*imports_of(groups), "", f"PARTS = {parts}"]
    for number, group in enumerate(groups):
        lines += ["", "", f"def group_{number}():", *inside(group.text)]
        lines += ["    return kernel", "", "", f"member_{number} = group_{number}()"]
    lines += ["", "", "@c_kernel", "def kernel(args, part, parts):"]
    if parts == 1:
        lines += ["    if part != 0:", "        return 0"]
    else:
        lines += [f"    first = {count} * part // parts"]
        lines += [f"    end = {count} * (part + 1) // parts"]
    for number, group in enumerate(groups):
        lines += loop_over(number, group, parts > 1)
    return "\n".join([*lines, "    return 0", ""])


def loop_over(number: int, group: Group, is_split: bool) -> Iterator[str]:
    """The lines that run the members of a group."""
    ends = f"{group.first}, {group.first + group.count}"
    if is_split:
        ends = f"max(first, {group.first}), min(end, {group.first + group.count})"
    size = 8 * group.arguments
    offset = 8 * group.words - size * group.first
    place = f"args + {size} * i" + (f" + {offset}" if offset else "")
    yield f"    for i in range({ends}):"
    yield f"        member_{number}({place}, 0, 1)".replace("+ -", "- ")


def imports_of(groups: Sequence[Group]) -> list[str]:
    """The lines that import what the members and the wave use."""
    used = {"c_kernel", "member"}
    for group in groups:
        for line in group.text.splitlines():
            if line.startswith("from "):
                used.update(line.partition(" import ")[2].split(", "))
    return sorted(cpu_imports(used))


def inside(text: str) -> Iterator[str]:
    """The lines after that of parts in the text of a kernel, for a function."""
    lines = text.rstrip("\n").split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("PARTS = "))
    for line in lines[start + 1 :]:
        if line:
            yield "    " + ("@member" if line == "@c_kernel" else line)


def groups_of(kernel: KernelOp, print_member: Callable[[KernelOp], str]) -> list[Group]:
    """The members of a wave, those together that are printed alike."""
    members = members_of(kernel)
    texts = [print_member(member) for member in members]
    found: list[Group] = []
    first = words = 0
    keys = zip(texts, (len(member.arguments) for member in members), strict=True)
    for (text, arguments), same in groupby(keys):
        count = len(list(same))
        found.append(Group(text, first, count, words, arguments))
        first, words = first + count, words + count * arguments
    return found


def members_of(kernel: KernelOp) -> list[KernelOp]:
    """
    The members of a wave as kernels. Raises `LocatedPassFailure` if its arguments are
    not those of members, or a stage uses those of two.
    """
    counts = member_counts(kernel)
    args = kernel.body.block.args
    owners = [number for number, count in enumerate(counts) for _ in range(count)]
    bodies = [list[Operation]() for _ in counts]
    owned: dict[SSAValue, int] = dict(zip(args, owners, strict=True))
    shared: list[Operation] = []
    for op in kernel.body.block.ops:
        used = {owned[value] for value in values_in(op) if value in owned}
        if not used and isinstance(op, NO_STAGES):
            shared.append(op)
            continue
        if len(used) != 1:
            message = f"{op.name} uses arguments of {len(used)} members of a wave"
            raise LocatedPassFailure([(op, message)])
        (number,) = used
        bodies[number].append(op)
        owned.update(dict.fromkeys(op.results, number))
    taken: list[list[BlockArgument]] = [[] for _ in counts]
    for arg, number in zip(args, owners, strict=True):
        taken[number].append(arg)
    return [
        member(kernel, own, [*shared, *ops])
        for own, ops in zip(taken, bodies, strict=True)
    ]


def member_counts(kernel: KernelOp) -> list[int]:
    """
    The number of arguments of each member. Raises `LocatedPassFailure` if they are not
    all.
    """
    given = kernel.attributes.get(MEMBERS)
    is_list = isinstance(given, DenseArrayBase)
    counts = [int(n) for n in given.iter_values()] if is_list else []
    count = len(kernel.body.block.args)
    if not counts or min(counts) < 1 or sum(counts) != count:
        message = f"members of a wave take its {count} arguments, got {given}"
        raise LocatedPassFailure([(kernel, message)])
    return counts


def values_in(op: Operation) -> Iterator[SSAValue]:
    """The operands of an op and of all ops inside of it."""
    for inner in op.walk():
        yield from inner.operands


def member(
    kernel: KernelOp, args: Sequence[BlockArgument], ops: Sequence[Operation]
) -> KernelOp:
    """A member of a wave as a kernel."""
    block = Block(arg_types=[arg.type for arg in args])
    values: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    block.add_ops(op.clone(values) for op in ops)
    made = KernelOp(kernel.sym_name.data, kernel.target.data, Region(block))
    made.location = kernel.location
    panels = [kernel.panels[arg.index] or UnitAttr() for arg in args]
    made.attributes[PANELS] = ArrayAttr(panels)
    return made
