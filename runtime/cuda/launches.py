"""The work of actors on a CUDA device in an act: launches of kernels, and copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.runtime.cuda.driver import (
    CudaError,
    Driver,
    Function,
    Handle,
    Launch,
    Span,
)
from penstock.runtime.program.actors import Actor, Call, Cell, Slot
from penstock.runtime.program.executable import Kernel

ALIGNMENT = 16
"""Bytes that all addresses should be multiples of, or fallbacks are launched."""
WORD = 4
"""The bytes of a status."""


@dataclass(frozen=True)
class Launching:
    """A call of a kernel that has this source."""

    kernel: Kernel
    source: str

    @property
    def label(self) -> str:
        """The name of the work, for errors."""
        work = self.kernel.work
        return f"kernel @{self.kernel.name}" + (f" of {work.op}" if work else "")


@dataclass(frozen=True)
class Copying:
    """A copy of so many bytes, from the first argument to the second."""

    size: int

    @property
    def label(self) -> str:
        """The name of the work, for errors."""
        return f"a copy of {self.size} bytes"


Work: TypeAlias = Launching | Copying
Asking: TypeAlias = Callable[[Sequence[int], Handle, int, int], None]
"""
Asks a stream for something, given the addresses of its arguments and of memory that
nothing else uses meanwhile, and the number of its status.
"""


@dataclass(frozen=True)
class Step:
    """
    A call of an actor: its arguments are the words from `first` to before `last` of all
    that the actor has.
    """

    task: str
    label: str
    when: str
    first: int
    last: int
    messages: tuple[str, ...]
    asking: Asking
    is_capturable: bool = True
    """Whether it may become part of a graph."""
    room: int = 0
    """The bytes that nothing else may use while it is under way."""
    status: int = 0
    """The address of the words that its assertions write to."""
    statuses: int = 1
    """The number of these words: in loops, the calls of an act have one each."""

    @property
    def status_bytes(self) -> int:
        """The bytes of its statuses."""
        return WORD * self.statuses

    def is_made_in(self, act: int, length: int) -> bool:
        """Whether it is done in an act, if a round has this length."""
        return self.when == "always" or (self.when == "first") == (act % length == 0)

    def ask(
        self, words: Sequence[int], stream: Handle, room: int, status: int = 0
    ) -> None:
        """
        Launch it, given the address of its scratch memory, and the number of its
        status. Raises CudaError with its name.
        """
        try:
            self.asking(words[self.first : self.last], stream, room, status)
        except CudaError as error:
            raise CudaError(f"{self.label}: {error}", is_lost=error.is_lost) from error


class Launcher:
    """
    Launches the stages of a kernel one after the other; for each row of addresses the
    parameters are packed once. Assertions write to one of the words from `status` on.
    """

    def __init__(
        self,
        driver: Driver,
        functions: Sequence[Function],
        kernel: Kernel,
        written: Sequence[bool],
        status: int,
    ):
        self._driver, self._functions = driver, functions
        self._sizes = [kind.size for kind in kernel.arguments]
        self._written = written
        self._status = status
        # Only assertions write to it.
        self._asserts = bool(kernel.messages)
        self._bound: dict[tuple[int, ...], list[Launch]] = {}

    def __call__(
        self, words: Sequence[int], stream: Handle, room: int, status: int
    ) -> None:
        """Ask a stream for all stages."""
        key = *words, room, status
        launches = self._bound.get(key) or self._bind(key)
        for launch in launches:
            launch(stream)

    def _bind(self, key: tuple[int, ...]) -> list[Launch]:
        *words, room, number = key
        status = Span(self._status + WORD * number, WORD, self._asserts)
        spans = [*map(Span, words, self._sizes, self._written), status]
        functions = chosen(self._functions, words)
        made = self._bound[key] = launches_of(self._driver, functions, spans, room)
        return made


def launches_of(
    driver: Driver, functions: Sequence[Function], spans: Sequence[Span], room: int
) -> list[Launch]:
    """
    Launches of functions on the arguments and the status at `spans`; at `room` is
    memory for those that need some besides.
    """
    launches: list[Launch] = []
    for function in functions:
        own = [Span(room, function.room, True)] if function.room else []
        given = [*spans, *own]
        words = [span.address for span in given]
        launches.append(driver.bind(function, words, given))
    return launches


def room_of(functions: Sequence[Function]) -> int:
    """The bytes that functions, one after the other, need besides their arguments."""
    return max((function.room for function in functions), default=0)


def chosen(functions: Sequence[Function], words: Sequence[int]) -> list[Function]:
    """The functions to launch on buffers at these addresses."""
    is_aligned = not any(word % ALIGNMENT for word in words)
    found: list[Function] = []
    for function in functions:
        if not function.is_fallback:
            found.append(function)
        elif not is_aligned:
            found[-1] = function
    return found


def check_aligned(name: str, words: Sequence[int]) -> None:
    """
    Raise CudaError unless buffers lie where vectors may, on a device that is played:
    a card ends all of its work there. The last word is that of the status, one number.
    """
    for word in words[:-1]:
        if word % ALIGNMENT:
            raise CudaError(f"{name} moves vectors of a buffer at {word:#x}")


def copier(driver: Driver, size: int) -> Asking:
    """The launcher of copies of so many bytes."""

    def copy(words: Sequence[int], stream: Handle, room: int, status: int) -> None:
        source, target = words
        driver.copy(target, source, size, stream)

    return copy


def steps_of(
    driver: Driver,
    actor: Actor,
    work_of: Callable[[Call], Work],
    status_of: Callable[[Call], tuple[int, int]],
) -> tuple[Step, ...]:
    """
    The steps of an actor. `work_of` gives the work of its calls, `status_of` the
    address of the words that the assertions of each write to, and how many these are.
    """
    steps: list[Step] = []
    first = 0
    for call in actor.calls:
        work, is_capturable, room = work_of(call), True, 0
        status, statuses = status_of(call)
        if isinstance(work, Launching):
            written = [
                isinstance(x, Cell)
                or (isinstance(x, Slot) and x.register in actor.writes)
                or x in actor.updates
                for x in call.args
            ]
            functions = driver.load(work.kernel.name, work.source)
            is_capturable = all(function.is_capturable for function in functions)
            room = room_of(functions)
            asking = Launcher(driver, functions, work.kernel, written, status)
        else:
            asking = copier(driver, work.size)
        last = first + len(call.args)
        what = actor.name, work.label, call.when
        where = first, last, call.messages
        steps.append(Step(*what, *where, asking, is_capturable, room, status, statuses))
        first = last
    return tuple(steps)
