"""
Variables that several programs share: one copy of each, in memory of its own.

Programs that are compiled one by one, each with memory of its own, may share variables
by name. Loaded with the same `SharedVariables`, they get the same addresses: each reads
the values that another one assigns, and nothing is copied. The first program that is
loaded sets the values. The caller lets none write a variable while another one uses it.

A variable that programs keep in different orders (`panels`) has a copy in each order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.devices import Chunk, Device
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.memory import PAGE
from penstock.runtime.program.executable import ProgramImage, Queue, Variable

Key: TypeAlias = tuple[Variable, tuple[str, int]]
"""A variable without its name and its place in a program; its device."""


class Adopted(NamedTuple):
    """
    An image in which variables lie in chunks of their own, the chunks, and the names of
    those variables that have values.
    """

    image: ProgramImage
    chunks: dict[str, Chunk]
    valued: frozenset[str]


class SharedVariables:
    """
    The variables of all programs that were loaded with this, for as long as it lives.
    Programs are loaded one at a time.
    """

    def __init__(self) -> None:
        self._homes: dict[Key, Variable] = {}
        self.chunks: dict[str, Chunk] = {}
        """The memory of each variable, or of each part that a device has of it."""
        self.originals: dict[str, Array] = {}
        """Nothing: no variable is made of another one."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All of them, in chunks of their own."""
        return tuple(self._homes.values())

    @property
    def names(self) -> list[str]:
        """The names of the variables, in order."""
        return sorted({x.port for x in self.variables if x.port is not None})

    def addresses(self, name: str) -> list[int]:
        """
        The addresses of a variable, in as many parts and orders as programs have of it.
        Raises PenstockError if there is none.
        """
        places = [
            self.chunks[x.chunk].address for x in self.variables if x.port == name
        ]
        if not places:
            known = ", ".join(self.names) or "none"
            raise PenstockError(f"there is no variable '{name}', only {known}")
        return places

    @contextmanager
    def adopting(
        self, image: ProgramImage, devices: Mapping[str, Device]
    ) -> Generator[Adopted]:
        """
        Around the loading of a program, up to when its variables have values. If that
        fails, nothing was adopted.
        """
        if made := sorted({x.port for x in image.variables if x.winograd and x.port}):
            listed = ", ".join(made)
            raise PenstockError(f"variables for Winograd are not shared: {listed}")
        kinds = {memory.name: memory for memory in image.chunks}
        known, chunks = dict(self._homes), dict(self.chunks)
        homes: dict[str, Variable] = {}
        for variable in image.variables:
            if variable.port is None:
                continue
            memory = kinds[variable.chunk]
            where = memory.device, memory.number
            key = variable._replace(name="", chunk="", offset=0), where
            if key not in known:
                name = f"variable {len(known)}"
                known[key] = variable._replace(chunk=name, offset=0)
                size = max(variable.kind.size, 1)
                chunks[name] = devices[memory.device].allocate(size, memory.number)
            homes[variable.name] = known[key]
        valued = [name for name, home in homes.items() if home.chunk in self.chunks]
        used = {home.chunk: chunks[home.chunk] for home in homes.values()}
        yield Adopted(moved(image, homes), used, frozenset(valued))
        self._homes, self.chunks = known, chunks


def moved(image: ProgramImage, homes: Mapping[str, Variable]) -> ProgramImage:
    """
    An image in which some variables, and all that is a view of them, lie elsewhere: at
    the start of chunks of their own. The rest of a chunk begins at its first page in
    use.
    """
    places = _Places(image, homes)
    memories = {memory.name: memory for memory in image.chunks}
    own = {
        home.chunk: memories[variable.chunk]._replace(
            name=home.chunk, size=max(home.kind.size, 1)
        )
        for variable in image.variables
        if (home := homes.get(variable.name)) is not None
    }
    left = [
        memory._replace(size=memory.size - places.unused[memory.name])
        for memory in image.chunks
        if memory.name in places.unused
    ]
    return image._replace(
        chunks=(*left, *own.values()),
        queues=tuple(map(places.of_queue, image.queues)),
        variables=tuple(map(places.of_variable, image.variables)),
    )


class _Places:
    """The places of registers and variables after some variables have moved."""

    def __init__(self, image: ProgramImage, homes: Mapping[str, Variable]):
        self._homes = homes
        self._moved: dict[str, list[tuple[int, int, str]]] = {}
        """Chunk: where variables that move start and end, and their new chunks."""
        for variable in image.variables:
            if (home := homes.get(variable.name)) is not None:
                end = variable.offset + variable.kind.size
                moved = self._moved.setdefault(variable.chunk, [])
                moved.append((variable.offset, end, home.chunk))
        for ranges in self._moved.values():
            ranges.sort()
        first: dict[str, int] = {}
        staying = [x for x in image.variables if x.name not in homes]
        views = [x for x in image.queues if x.chunk and self._home(x) is None]
        for x in (*staying, *views):
            assert x.chunk is not None, "what has no place was left out"
            first[x.chunk] = min(first.get(x.chunk, x.offset), x.offset)
        self.unused = {chunk: start - start % PAGE for chunk, start in first.items()}
        """Chunk: whole pages at its start that nothing uses, in bytes."""

    def of_variable(self, variable: Variable) -> Variable:
        """A variable at its new place."""
        if (home := self._homes.get(variable.name)) is not None:
            return variable._replace(chunk=home.chunk, offset=0)
        unused = self.unused[variable.chunk]
        return variable._replace(offset=variable.offset - unused)

    def of_queue(self, queue: Queue) -> Queue:
        """A register at its new place."""
        if queue.chunk is None:
            return queue
        if (home := self._home(queue)) is not None:
            chunk, start = home
            return queue._replace(chunk=chunk, offset=queue.offset - start)
        return queue._replace(offset=queue.offset - self.unused[queue.chunk])

    def _home(self, queue: Queue) -> tuple[str, int] | None:
        """The new chunk of a view of a variable that moves, and where that started."""
        ranges = self._moved.get(queue.chunk or "", [])
        index = bisect_right(ranges, queue.offset, key=lambda place: place[0]) - 1
        if index < 0 or queue.kind is None or queue.kind.size == 0:
            return None
        start, end, chunk = ranges[index]
        # Nothing is moved into a variable, so a view of it lies in it as a whole.
        return (chunk, start) if queue.offset < end else None
