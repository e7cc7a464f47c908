"""The rules that the steps of an actor keep, those of loops and conditions included."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import IntegerType, MemRefType, SymbolRefAttr, i1, i64
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import Exchange, verify_tag
from penstock.dialects.launch.actors import (
    ON,
    WHEN,
    ActorOp,
    CallOp,
    CollectiveOp,
    CommitOp,
    CopyOp,
    FeedOp,
    FetchOp,
    KernelOp,
    ReceiveOp,
    ReleaseOp,
    SendOp,
)
from penstock.dialects.launch.control_flow import (
    NAMING,
    CarryOp,
    IfOp,
    LoopOp,
    NumberOp,
    SubviewOp,
    local_names,
    loop_around,
    sources_of,
)
from penstock.dialects.launch.memory import (
    ChunkOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
    names_of,
)
from penstock.dialects.launch.packed_layout import PanelsAttr
from penstock.dialects.utils.diagnostics import verifying
from penstock.dialects.utils.signless import signless
from penstock.dialects.utils.tensors import element_bytes

Table: TypeAlias = MutableMapping[str, Operation]
"""Ops by name: those of a program, and the steps that declare local names."""


def verify_steps(block: Block, actor: ActorOp, table: Table) -> None:
    """
    Raise `VerifyException` unless the steps of a block, which is that of an actor, of a
    loop or of a branch, use what is theirs. The steps after one that declares local
    names know these.
    """
    own: dict[str, Operation] = {}
    known = ChainMap(own, table)
    for step in block.ops:
        with verifying(step):
            verify_where(step, actor)
            verify_step(step, actor, known)
        own.update({name: step for name in local_names(step)})


def verify_where(step: Operation, actor: ActorOp) -> None:
    """Raise `VerifyException` for a step that does not stand among such steps."""
    parent = step.parent_op()
    if isinstance(step, CarryOp) and not isinstance(parent, LoopOp):
        raise VerifyException("a value is carried by a loop, but this is in none")
    if isinstance(step, NumberOp) and loop_around(step) is None:
        raise VerifyException("only iterations have a number, but this is in no loop")
    if parent is actor:
        return
    message = SendOp | ReceiveOp | CollectiveOp
    if isinstance(step, CommitOp | FeedOp | FetchOp | ReleaseOp | message):
        raise VerifyException(f"{step.name} is no step of a loop or condition")
    for name in (ON, WHEN):
        if name in step.attributes:
            raise VerifyException(
                f"a step of a loop or condition is done whenever that is, got '{name}'"
            )


def verify_loop(loop: LoopOp, actor: ActorOp, table: Table) -> None:
    """Raise `VerifyException` unless a loop's numbers and condition are such."""
    for name, verb in ((loop.count, "counts by"), (loop.made, "counts in")):
        if name is not None:
            verify_scalar(name, i64, verb, actor, table)
    inner = dict(table)
    for carried in loop.carried:
        inner[carried.before.data] = carried
    if loop.condition is not None:
        verify_condition(loop.condition, "repeats while", actor, inner)
    verify_steps(loop.body.block, actor, table)


def verify_condition(
    reference: SymbolRefAttr, verb: str, actor: ActorOp, table: Table
) -> None:
    """Raise `VerifyException` unless what decides something is one `i1`."""
    verify_scalar(reference, i1, verb, actor, table)


def verify_scalar(
    reference: SymbolRefAttr,
    element: IntegerType,
    verb: str,
    actor: ActorOp,
    table: Table,
) -> None:
    """Raise `VerifyException` unless what a step reads itself is one number."""
    type = argument_type(reference, actor, table)
    if type != MemRefType(element, []):
        raise VerifyException(
            f"@{actor.sym_name.data} {verb} @{reference.string_value()}, which is "
            f"{type}, not memref<{element}>"
        )
    verify_order(reference, None, actor, table)


def verify_subview(subview: SubviewOp, actor: ActorOp, table: Table) -> None:
    """Raise `VerifyException` unless a subview lies in its source in all iterations."""
    loop, step = loop_around(subview), subview.bytes_per_number
    if loop is None and step:
        raise VerifyException(
            f"@{subview.sym_name.data} has a step of {step} bytes, but is in no loop"
        )
    last = max(0, loop.times.value.data - 1) if loop is not None else 0
    start = subview.offset.value.data
    name = subview.sym_name.data
    for number in dict.fromkeys((0, last)):
        at = Place(name, subview.type, subview.source, start + number * step)
        verify_inside(at, number if step else None, actor, table)
    verify_aligned(subview.type, subview.source, (start, step), name)


def verify_carry(carry: CarryOp, actor: ActorOp, table: Table) -> None:
    """Raise `VerifyException` unless the places of a carried value are such."""
    name = carry.before.data
    for place in carry.places:
        offset = place.offset.data
        verify_inside(Place(name, carry.type, place.source, offset), None, actor, table)
        verify_aligned(carry.type, place.source, (offset,), name)


class Place(NamedTuple):
    """The bytes that a local name stands for: those from `at` on of its source."""

    name: str
    type: MemRefType
    source: SymbolRefAttr
    at: int


def verify_inside(
    place: Place, number: int | None, actor: ActorOp, table: Table
) -> None:
    """Raise `VerifyException` unless a local name lies in its source."""
    whole = memref_bytes(argument_type(place.source, actor, table))
    verify_order(place.source, None, actor, table)
    end = place.at + memref_bytes(place.type)
    if place.at < 0 or end > whole:
        when = "" if number is None else f" in iteration {number}"
        raise VerifyException(
            f"@{place.name} lies at bytes {place.at} to {end} of "
            f"@{place.source.string_value()}{when}, which has {whole}"
        )


def verify_aligned(
    type: MemRefType, source: SymbolRefAttr, offsets: Sequence[int], name: str
) -> None:
    """
    Raise `VerifyException` unless bytes start where an element may. Kernels of devices
    that move several at once look where their buffers are.
    """
    alignment = element_bytes(type)
    for offset in offsets:
        if offset % alignment:
            raise VerifyException(
                f"@{name} starts {offset} bytes into @{source.string_value()}, "
                f"which is no multiple of {alignment}"
            )


def roots_of(name: str, table: Table) -> Sequence[str]:
    """The registers and variables whose bytes a name may stand for."""
    op = table[name]
    if not isinstance(op, NAMING):
        return [name]
    found = (root for x in sources_of(op) for root in roots_of(x, table))
    return [*dict.fromkeys(found)]


def verify_step(step: Operation, actor: ActorOp, table: Table) -> None:
    """Raise `VerifyException` unless a step's arguments are the actor's and fit."""
    match step:
        case CallOp():
            verify_call(step, actor, table)
        case CopyOp():
            source = argument_type(step.source, actor, table)
            target = argument_type(step.target, actor, table)
            verify_order(step.source, None, actor, table)
            if source != target and not is_part(step, actor, source, target):
                raise VerifyException(
                    f"@{actor.sym_name.data} copies {source} to {target}"
                )
        case FeedOp():
            argument_type(step.target, actor, table)
            verify_reach("cpu", step.target, actor, table)
        case FetchOp():
            argument_type(step.source, actor, table)
            verify_order(step.source, None, actor, table)
            verify_reach("cpu", step.source, actor, table)
        case SendOp():
            argument_type(step.source, actor, table)
            verify_order(step.source, None, actor, table)
            verify_reach("cpu", step.source, actor, table)
            verify_message(step, actor)
        case ReceiveOp():
            argument_type(step.target, actor, table)
            verify_reach("cpu", step.target, actor, table)
            verify_message(step, actor)
        case CollectiveOp():
            verify_collective(step, actor, table)
        case ReleaseOp():
            verify_release(step, actor, table)
        case IfOp():
            verify_condition(step.condition, "tests", actor, table)
            for region in step.regions:
                verify_steps(region.block, actor, table)
        case LoopOp():
            verify_loop(step, actor, table)
        case SubviewOp():
            verify_subview(step, actor, table)
        case CarryOp():
            verify_carry(step, actor, table)
        case NumberOp():
            verify_scalar(step.target, i64, "numbers iterations in", actor, table)
        case _:
            pass


def verify_message(step: SendOp | ReceiveOp, actor: ActorOp) -> None:
    """
    Raise `VerifyException` unless a message is to or from another rank, and all that
    its actor does.
    """
    name, peer = actor.sym_name.data, step.peer.value.data
    verify_alone(actor)
    if peer < 0 or peer == actor.device.rank.data:
        raise VerifyException(f"@{name} has a message of rank {peer}, not of another")
    verify_tag(step.tag)


def verify_alone(actor: ActorOp) -> None:
    """Raise `VerifyException` if the actor of a message takes several steps."""
    if len(actor.body.block.ops) > 1:
        name = actor.sym_name.data
        raise VerifyException(f"@{name} has a message, so it takes no other step")


def verify_collective(step: CollectiveOp, actor: ActorOp, table: Table) -> None:
    """
    Raise `VerifyException` unless a collective is one that this rank takes part in, of
    registers in the memory of its CPU, and all that its actor does.
    """
    types: list[list[MemRefType]] = [[], []]
    for names, found in zip((step.sources, step.targets), types, strict=True):
        for name in names:
            found.append(argument_type(name, actor, table))
            verify_order(name, None, actor, table)
            verify_reach("cpu", name, actor, table)
    verify_alone(actor)
    verify_tag(step.tag)
    ranks, rank = step.ranks.get_values(), actor.device.rank.data
    Exchange(step.kind.data, step.algorithm.data, ranks, *types).verify()
    if rank not in ranks:
        raise VerifyException(
            f"@{actor.sym_name.data} is of rank {rank}, but its collective of ranks "
            f"{', '.join(map(str, ranks))}"
        )


def is_part(
    step: CopyOp, actor: ActorOp, source: MemRefType, target: MemRefType
) -> bool:
    """Whether a copy is of rows of what lasts for several acts."""
    if source.element_type != target.element_type or not source.get_shape():
        return False
    rows, *row = source.get_shape()
    others, *other = target.get_shape() or (0,)
    whole = step.source if rows > others else step.target
    rounds = actor.rates.get(whole.root_reference.data, 1)
    return row == other and max(rows, others) == rounds * min(rows, others)


def verify_release(release: ReleaseOp, actor: ActorOp, table: Table) -> None:
    """
    Raise `VerifyException` unless a released register is an interface that is read.
    """
    name = release.register.root_reference.data
    register = table.get(name)
    is_interface = isinstance(register, RegisterOp) and register.interface is not None
    if not is_interface or name not in names_of(actor.reads):
        raise VerifyException(
            f"@{actor.sym_name.data} releases @{name}, "
            "which is no interface that it reads"
        )


def verify_call(call: CallOp, actor: ActorOp, table: Table) -> None:
    """Raise `VerifyException` unless a call's arguments are those of its kernel."""
    name, kernel_name = actor.sym_name.data, call.kernel.root_reference.data
    if not isinstance(kernel := table.get(kernel_name), KernelOp):
        raise VerifyException(f"@{name} calls @{kernel_name}, which is no kernel")
    if kernel.target.data != actor.device.kind.data:
        raise VerifyException(
            f"@{name} on {actor.device.kind.data} calls @{kernel_name} "
            f"for {kernel.target.data}"
        )
    given = [argument_type(arg, actor, table) for arg in call.arguments]
    expected = [arg.type for arg in kernel.body.block.args]
    if list(map(signless, given)) != expected:
        raise VerifyException(
            f"@{name} calls @{kernel_name} with ({', '.join(map(str, given))}), "
            f"but it takes ({', '.join(map(str, expected))})"
        )
    for argument, panels in zip(call.arguments, kernel.panels, strict=True):
        verify_order(argument, panels, actor, table)
        verify_reach(kernel.target.data, argument, actor, table)
    viewed = {view.names[0] for view in actor.view_list}
    for argument in call.unchanged:
        if argument not in viewed or argument not in names_of(call.arguments):
            raise VerifyException(
                f"@{name} leaves @{argument} unchanged, which is no argument that it "
                "has a view of"
            )


def verify_order(
    reference: SymbolRefAttr,
    panels: PanelsAttr | None,
    actor: ActorOp,
    table: Table,
) -> None:
    """Raise `VerifyException` unless elements lie in the order that a step takes."""
    op = table[reference.root_reference.data]
    order = op.panels if isinstance(op, VariableOp) else None
    if order != panels:
        usual = "the usual order"
        raise VerifyException(
            f"@{actor.sym_name.data} takes @{reference.root_reference.data} in "
            f"{panels or usual}, but it lies in {order or usual}"
        )


def verify_reach(
    kind: str, reference: SymbolRefAttr, actor: ActorOp, table: Table
) -> None:
    """
    Raise `VerifyException` unless a register or variable lies in the memory that
    devices of a kind work in, on the actor's rank. For the CPU it is all memory of the
    host.
    """
    for root in roots_of(reference.string_value(), table):
        verify_root_reach(kind, root, actor, table)


def verify_root_reach(kind: str, root: str, actor: ActorOp, table: Table) -> None:
    """
    Raise `VerifyException` unless a register or variable itself lies in the memory that
    devices of a kind work in.
    """
    name, op = actor.sym_name.data, table[root]
    assert isinstance(op, RegisterOp | VariableOp), "checked with its type"
    if not isinstance(chunk := table.get(op.chunk.root_reference.data), ChunkOp):
        return
    case = chunk.memory_case
    owner = "cpu" if case.is_host else case.device_kind
    if owner != kind:
        raise VerifyException(
            f"@{name} works on {kind} with @{root}, which lies in the memory of {owner}"
        )
    if case.rank != actor.device.rank:
        raise VerifyException(
            f"@{name} works on rank {actor.device.rank.data} with @{root}, "
            f"which lies on rank {case.rank.data}"
        )


def argument_type(reference: SymbolRefAttr, actor: ActorOp, table: Table) -> MemRefType:
    """
    The type of the operand of a step of an actor. Raises `VerifyException` unless it is
    a variable or one of the actor's registers.
    """
    name = reference.root_reference.data
    op = table.get(name)
    if isinstance(op, VariableOp | NAMING):
        return op.type
    own = (*names_of(actor.reads), *names_of(actor.writes))
    if not isinstance(op, RegisterOp) or name not in own:
        raise VerifyException(
            f"@{actor.sym_name.data} works on @{name}, which is neither a variable "
            "nor a data register it reads or writes"
        )
    return op.type
