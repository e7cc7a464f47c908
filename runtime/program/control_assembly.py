"""
From the loops and conditions of an actor as a program lists them to those that run.

A program lists them by names and in the order of its text; executors number addresses
as cells, and jump.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.runtime.program.control_flow import (
    NONE,
    Begin,
    Branch,
    Carry,
    ControlFlow,
    Do,
    Instruction,
    Jump,
    Loop,
    Next,
    Number,
    Point,
)
from penstock.runtime.program.executable import ActorImage, ControlStep


def assemble(
    actor: ActorImage,
) -> tuple[ControlFlow, tuple[str, ...], dict[str, int]]:
    """
    The loops and conditions of an actor, the registers and variables that its first
    cells are for, and the cell of each local name.
    """
    steps = actor.control
    names = [name for step in steps for name in step.declared]
    used = [name for step in steps for name in step.used if name and name not in names]
    roots = tuple(dict.fromkeys(used))
    cells = {name: number for number, name in enumerate([*roots, *names])}
    maker = _Assembler(cells, len(actor.steps))
    for step in steps:
        maker.add(step)
    return maker.finish(), roots, {name: cells[name] for name in names}


class _Assembler:
    def __init__(self, cells: dict[str, int], calls: int):
        self.cells = cells
        self.level = [NONE] * len(cells)
        """Cell: the loop that it changes with."""
        self.points: dict[int, list[Point]] = {NONE: []}
        self.carried: dict[int, list[Carry]] = {}
        self.loops: list[Loop] = []
        self.code: list[Instruction] = []
        self.open: list[int | Branch | Jump] = []
        """The loops and branches that are not at their end, and where those begin."""
        self.at: list[int] = []
        self.loop_of = [NONE] * calls

    @property
    def loop(self) -> int:
        """The innermost loop that is not at its end."""
        return next((x for x in reversed(self.open) if isinstance(x, int)), NONE)

    def cell(self, name: str) -> int:
        """The cell of a name, if it is one."""
        return self.cells[name] if name else NONE

    def add(self, step: ControlStep) -> None:
        """Take the next step."""
        match step.verb:
            case "step":
                (call,) = step.numbers
                self.loop_of[call] = self.loop
                self.code.append(Do(call))
            case "number":
                self.code.append(Number(self.cell(step.names[0]), self.loop))
            case "subview":
                self.subview(step)
            case "carry":
                self.carry(step)
            case "loop":
                self.begin(step)
            case "if":
                self.branch(Branch(self.cell(step.names[0]), 0))
            case "else":
                self.otherwise()
            case _:
                self.end()

    def subview(self, step: ControlStep) -> None:
        name, source = map(self.cell, step.names)
        offset, by, size = step.numbers
        level = self.loop if by else self.level[source]
        self.level[name] = level
        self.points[level].append(Point(name, source, offset, by, size))

    def carry(self, step: ControlStep) -> None:
        before, after, *sources = map(self.cell, step.names)
        size, *offsets = step.numbers
        self.level[before] = self.level[after] = self.loop
        places = tuple(zip(sources, offsets, strict=True))
        self.carried[self.loop].append(Carry(before, after, places, size))

    def begin(self, step: ControlStep) -> None:
        times, is_backward = step.numbers
        count, condition, made = map(self.cell, step.names)
        number, around = len(self.loops), self.loop
        self.code.append(Begin(number))
        self.loops.append(
            Loop(
                times,
                count,
                condition,
                made,
                bool(is_backward),
                around,
                start=len(self.code),
            )
        )
        self.points[number], self.carried[number] = [], []
        self.open.append(number)
        self.at.append(len(self.code))

    def branch(self, branch: Branch | Jump) -> None:
        self.at.append(len(self.code))
        self.open.append(branch)
        self.code.append(branch)

    def otherwise(self) -> None:
        branch, at = self.open.pop(), self.at.pop()
        assert isinstance(branch, Branch), "checked by the verifier"
        self.branch(Jump(0))
        self.code[at] = branch._replace(otherwise=len(self.code))

    def end(self) -> None:
        opened, at = self.open.pop(), self.at.pop()
        if isinstance(opened, int):
            self.code.append(Next(opened))
            self.loops[opened] = replace(self.loops[opened], end=len(self.code))
        else:
            self.code[at] = Jump(len(self.code))

    def finish(self) -> ControlFlow:
        loops = tuple(
            replace(
                loop,
                carried=tuple(self.carried[number]),
                points=tuple(self.points[number]),
            )
            for number, loop in enumerate(self.loops)
        )
        return ControlFlow(
            len(self.cells),
            tuple(self.points[NONE]),
            loops,
            tuple(self.code),
            tuple(self.loop_of),
        )
