"""
Schedules that no rule would choose: those of the rules, changed field by field, and
others of any class, field by field at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.cpu.packed_operands import argument_of, panels_of
from penstock.lowering.codegen.target import kernel_source


def changed(random: Random, value: Any, words: Sequence[str]) -> Any:
    """Another value of a field."""
    match value:
        case bool():
            return not value
        case str():
            return random.choice(words)
        case int():
            some = (
                random.randint(0, 9),
                2 ** random.randint(0, 7),
                2 * value,
                value // 2,
            )
            return random.choice((value, *some))
        case _:
            return tuple(changed(random, number, words) for number in value)


def crafted(random: Random, usual: ScheduleAttr) -> ScheduleAttr:
    """A schedule that the verifier takes, with some fields of another one changed."""
    for _ in range(1000):
        numbers: dict[str, Any] = {}
        for name, field in usual.fields().items():
            if random.random() < 0.4:
                words = ("", *vars(field).get("words", ()))
                numbers[name] = changed(random, getattr(usual, name), words)
        try:
            return replace(usual, **numbers)
        except VerifyException:
            continue
    return usual


def number_of(random: Random, field: Any) -> int:
    """A number that a field takes, most of them small."""
    some = (1, 2, 3, 4, 6, 8, 9, 14, 16, 24, 32, 48, 64, 128, 256, 1024, field.most)
    small = random.choice(some[: random.choice((5, 9, 13, len(some)))])
    found = max(field.least, min(field.most, small))
    return found if field.takes(found) else max(1, field.least)


def value_of(random: Random, field: Any) -> Any:
    """A value of a field of a schedule."""
    match type(field).__name__:
        case "_Word":
            return random.choice(field.words)
        case "_Text":
            return random.choice(("cublas", "cudnn", "nothing"))
        case "_Number":
            return number_of(random, field)
        case "_Numbers":
            count = random.randint(0, 3) if field.count is None else field.count
            return tuple(number_of(random, field.each) for _ in range(count))
        case "_Flag":
            return random.random() < 0.5
        case other:
            raise AssertionError(other)


def any_schedule(random: Random, known: Sequence[type[ScheduleAttr]]) -> ScheduleAttr:
    """A schedule of some class that its own verifier takes."""
    while True:
        chosen = random.choice(known)
        optional = chosen.defaults()
        for _ in range(1000):
            values = {
                name: value_of(random, field)
                for name, field in chosen.fields().items()
                if name not in optional or random.random() < 0.3
            }
            with suppress(VerifyException):
                return chosen(**values)


def schedule_classes() -> list[type[ScheduleAttr]]:
    """All classes of schedules, by their names."""
    found = [ScheduleAttr]
    for each in found:
        found += each.__subclasses__()
    named = (each for each in found if hasattr(each, "name"))
    return sorted(named, key=lambda each: each.name)


def set_any_schedules(random: Random, kernel: KernelOp) -> None:
    """Give the ops of a kernel schedules, most of a class that is for such ops."""
    known = schedule_classes()
    for op in kernel.body.block.ops:
        mine = [each for each in known if isinstance(op, each.ops)]
        if mine:
            some = mine if random.random() < 0.95 else known
            set_schedule(kernel, op, any_schedule(random, some))


def set_schedule(kernel: KernelOp, op: Operation, schedule: ScheduleAttr) -> None:
    """Give an op a schedule, and its kernel the panels that the schedule reads."""
    op.attributes[SCHEDULE] = schedule
    kernel.attributes.pop(PANELS, None)
    if not isinstance(schedule, ContractionAttr) or not schedule.panels:
        return
    found = contraction_of(op)
    if not isinstance(found, Contraction):
        return
    value = op.operands[found.a if schedule.panels == "a" else found.b]
    if (argument := argument_of(value)) is None:
        return
    shape = kernel.arguments[argument.index].get_shape()
    if (lies := panels_of(found, schedule, prod(shape))) is not None:
        panels: list[Attribute] = [UnitAttr()] * len(kernel.arguments)
        panels[argument.index] = lies
        kernel.attributes[PANELS] = ArrayAttr(panels)


def craft(random: Random, kernel: KernelOp) -> None:
    """Change the schedules of a kernel."""
    for op in kernel.body.block.ops:
        if isinstance(usual := op.attributes.get(SCHEDULE), ScheduleAttr):
            set_schedule(kernel, op, crafted(random, usual))


def source_if_any(kernel: KernelOp) -> str | None:
    """The source of a kernel, None if its target refuses it."""
    try:
        return kernel_source(kernel)
    except LocatedPassFailure:
        return None
