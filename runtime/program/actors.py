"""
A program as the executors see it: registers, and actors that read and write them.

An actor acts when every register it reads has a piece for it and every register it
writes has a free slot, unless it is of a kind that needs less
(`penstock.runtime.program.actor_kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.runtime.program.control_flow import ControlFlow

CALLER = -2
"""The producer of a register that the caller of a stream fills."""

PLAIN = "plain"
"""The kind of an actor that reads and writes all of its registers."""


@dataclass(frozen=True)
class Register:
    """
    A register from one actor to its readers: `slots` buffers that are filled in turn.

    Slot i is at byte `address + i * stride`. The first `initial` slots are full at the
    start. A control register carries no bytes: its address and stride are 0.

    With `parts`, so many slots follow each other in a *frame* at every `step` bytes,
    and `stride` is that from frame to frame. The caller, too, reads a register that
    `is_taken`.
    """

    name: str
    producer: int
    slots: int = 1
    initial: int = 0
    address: int = 0
    stride: int = 0
    parts: int = 1
    step: int = 0
    is_taken: bool = False

    def address_of(self, piece: int) -> int:
        """The address of the piece of this number, counted from 0."""
        frame = piece // self.parts % (self.slots // self.parts)
        return self.address + frame * self.stride + piece % self.parts * self.step


@dataclass(frozen=True)
class Slot:
    """
    A kernel argument: the address of an actor's current slot of a register, or of the
    part of it that is `slice` bytes further with each act of a round.
    """

    register: int
    slice: int = 0


@dataclass(frozen=True)
class Fixed:
    """A kernel argument: the same address, or any other word, in every act."""

    address: int


@dataclass(frozen=True)
class Cell:
    """
    A kernel argument: the address in a cell of the actor's loops and conditions
    (`penstock.runtime.program.control_flow`) when the call is made.
    """

    number: int


Argument: TypeAlias = Slot | Fixed | Cell


@dataclass(frozen=True)
class Call:
    """
    A call of `int32 kernel(int64 args, int64 part, int64 parts)`.

    `kernel` is its address; `args` becomes a row of words whose address it is given. It
    does share `part` of `parts` and returns 0, or a code that ends the run: `messages`
    explain the codes from 1 on. Its work may be shared out in up to `parts`
    parts, which run at once in any order.

    It is made `when` an act is the `first` of a round or one of the `rest`, or
    `always`; and if it is `on` a register, only for a piece of that one.
    """

    kernel: int
    args: tuple[Argument, ...] = ()
    messages: tuple[str, ...] = ()
    parts: int = 1
    when: str = "always"
    on: int | None = None

    def message_of(self, code: int) -> str | None:
        """The message of a code, if it has one."""
        return self.messages[code - 1] if 0 < code <= len(self.messages) else None


@dataclass(frozen=True)
class Actor:
    """
    A task, and the worker that runs it: its calls are made in order in every act.

    `reads` and `writes` are indices of registers, those for control and those that are
    only held included.

    `every` are pairs (register, n): a piece of this register lasts for n acts, it is
    there before the first, or produced after the last of them. A *round* are the acts
    for a piece that is written. `kind` says which of its registers an act needs
    (`penstock.runtime.program.actor_kinds`), `lists` are the lists of some kinds. `job`
    is the one that it is part of, if there are several; `place` is where it was
    written. One that `commits` acts when no task of its iteration can fail any more,
    one that `assigns` writes a variable, and its kernels write over those at the
    addresses of `updates`. With `control` its calls are made as its loops
    and conditions say, the first cells of which are `roots`. One with a message of
    other ranks acts so many `times` in an iteration, if they say it.
    """

    name: str
    worker: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    calls: tuple[Call, ...] = ()
    every: tuple[tuple[int, int], ...] = ()
    kind: str = PLAIN
    lists: tuple[tuple[int, ...], ...] = ()
    job: str | None = None
    place: str | None = None
    commits: bool = False
    assigns: bool = False
    control: ControlFlow | None = None
    roots: tuple[Argument, ...] = ()
    updates: tuple[int, ...] = ()
    times: int | None = None

    @property
    def round(self) -> int:
        """The acts of a round, in which calls write a piece, if any do."""
        written = (n for register, n in self.every if register in self.writes)
        return max(self.rounds or written, default=1)

    @property
    def rounds(self) -> list[int]:
        """The acts for a piece of each register that calls write."""
        args = [arg for call in self.calls for arg in call.args]
        args += self.roots
        used = {arg.register for arg in args if isinstance(arg, Slot)}
        return [self.acts_for(register) for register in self.writes if register in used]

    def is_summed(self, call: int) -> bool:
        """Whether a call has one row in a log for all of its iterations in an act."""
        return self.control is not None and self.control.is_summed(call)

    @property
    def log_rows(self) -> int:
        """
        The rows of an act in a log at most: one for all of it, and those of its calls
        if they are several.
        """
        rows = sum(self.call_rows)
        return 1 + rows if rows > 1 else 1

    @property
    def call_rows(self) -> list[int]:
        """The rows of each call in the log of an act at most, were each to have one."""
        calls = range(len(self.calls))
        return [1 if self.control is None else self.control.rows(x) for x in calls]

    def calls_in(self, act: int) -> list[int]:
        """The calls that a plain actor makes in an act."""
        is_first = act % self.round == 0
        return [
            index
            for index, call in enumerate(self.calls)
            if call.when == "always" or (call.when == "first") == is_first
        ]

    def acts_for(self, register: int) -> int:
        """The number of acts that a piece of a register lasts for."""
        return dict(self.every).get(register, 1)
