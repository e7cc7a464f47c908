"""From the loops and conditions of an actor in IR to plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.runtime.program.executable import ControlStep

if TYPE_CHECKING:
    from xdsl.dialects.builtin import SymbolRefAttr
    from xdsl.ir import Block, Operation

    from penstock.dialects.launch import CarryOp, LoopOp, SubviewOp


def control_of(block: Block, done: Sequence[Operation]) -> Iterator[ControlStep]:
    """The steps of a block of an actor whose calls, copies and the like are `done`."""
    from penstock.dialects.launch import (
        CarryOp,
        IfOp,
        LoopOp,
        NumberOp,
        SubviewOp,
    )

    numbers = {step: number for number, step in enumerate(done)}
    for step in block.ops:
        match step:
            case LoopOp():
                yield _loop(step)
                yield from control_of(step.body.block, done)
                yield ControlStep("end")
            case IfOp():
                yield ControlStep("if", (step.condition.string_value(),))
                yield from control_of(step.then.block, done)
                yield ControlStep("else")
                yield from control_of(step.otherwise.block, done)
                yield ControlStep("end")
            case SubviewOp():
                yield _subview(step)
            case CarryOp():
                yield _carry(step)
            case NumberOp():
                yield ControlStep("number", (step.target.string_value(),))
            case _ if step in numbers:
                yield ControlStep("step", (), (numbers[step],))
            case _:
                pass


def _loop(loop: LoopOp) -> ControlStep:
    names = map(_name, (loop.count, loop.condition, loop.made))
    return ControlStep(
        "loop", tuple(names), (loop.times.value.data, int(loop.backward is not None))
    )


def _name(reference: SymbolRefAttr | None) -> str:
    return "" if reference is None else reference.string_value()


def _subview(subview: SubviewOp) -> ControlStep:
    from penstock.dialects.launch import memref_bytes

    names = subview.sym_name.data, subview.source.string_value()
    offset, step = subview.offset.value.data, subview.bytes_per_number
    return ControlStep("subview", names, (offset, step, memref_bytes(subview.type)))


def _carry(carry: CarryOp) -> ControlStep:
    from penstock.dialects.launch import memref_bytes

    sources = [place.source.string_value() for place in carry.places]
    offsets = [place.offset.data for place in carry.places]
    names = carry.before.data, carry.after.data, *sources
    return ControlStep("carry", names, (memref_bytes(carry.type), *offsets))
