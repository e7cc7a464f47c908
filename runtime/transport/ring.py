"""
Collectives by messages between neighbours, over any transport.

The ranks of a group are a ring, in their order: each sends blocks to the next one while
it gets others of the one before. Sums have the same order on each run, and each block
is added up by one rank, so all ranks have the same bits. No rank sends or gets more
than twice the bytes of a tensor, however many there are.

* `all_reduce`: a block goes around and grows by what each rank adds, until the last has
  the sum; then all sums go around.
* `reduce_scatter`: the first half of that. Blocks that come go to the result
  and the place aside in turn, as the other one is still being sent.
* `all_gather`: the second half.
* `broadcast`: pieces go from the first rank to the last, several on their way at once.
* `all_to_all`: each rank sends each other one its block.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.runtime.loading.arrays import numpy_dtype
from penstock.runtime.program.channels import Bytes, Channel, Collective
from penstock.runtime.transport.protocol import Communicator

PIECE = 1 << 18
"""The bytes of a piece of a `broadcast`."""
Blocks: TypeAlias = Sequence[npt.NDArray[Any]]
Places: TypeAlias = Sequence[Sequence[int]]
"""The addresses of the slots of each register."""


class Ring:
    """A collective of this rank, which messages over a transport make up."""

    most = 1
    """The exchanges that are on their way at once at most."""

    def __init__(
        self, collective: Collective, communicator: Communicator, places: Places
    ):
        self._collective, self._communicator = collective, communicator
        self._places = places
        self._count = len(collective.ranks)
        self._place = collective.ranks.index(communicator.rank)
        is_sum = collective.kind in ("all_reduce", "reduce_scatter")
        # Elements that are not added are bytes.
        self._dtype = numpy_dtype(collective.dtype if is_sum else "uint8")
        self._sends: dict[int, int] = {}
        self._receives: dict[int, int] = {}
        others = range(1, self._count) if collective.kind == "all_to_all" else (1,)
        for distance in others:
            self._sends[distance] = self._open(distance, is_send=True)
            self._receives[distance] = self._open(-distance, is_send=False)
        self._arrays: dict[tuple[int, int], npt.NDArray[Any]] = {}
        self._steps: Iterator[None] = iter(())
        self._pending = 0

    @property
    def handles(self) -> list[int]:
        """The handles of its messages."""
        return [*self._sends.values(), *self._receives.values()]

    def _open(self, distance: int, *, is_send: bool) -> int:
        own = self._collective
        peer = own.ranks[(self._place + distance) % self._count]
        data = Bytes(None, 0, max(x.size for x in (*own.sources, *own.targets)))
        channel = Channel(
            own.actor, own.name, is_send, peer, own.tag, data.size, own.done, data
        )
        return self._communicator.open(channel)

    def begin(self, number: int) -> None:
        """Begin with the exchange of an act."""
        own = self._collective
        found = [
            self._array(places[number % len(places)], each.size)
            for places, each in zip(
                self._places, (*own.sources, *own.targets), strict=True
            )
        ]
        self._steps = self._exchange(found)
        self._go_on()

    def end(self, handle: int) -> bool:
        """Take in that a message has ended; whether the exchange has, too."""
        del handle
        self._pending -= 1
        return not self._pending and not self._go_on()

    def _go_on(self) -> bool:
        """Take the next step with messages, if there is one."""
        return any(self._pending for _ in self._steps)

    def _array(self, address: int, size: int) -> npt.NDArray[Any]:
        """The elements at an address, as one array for all runs."""
        if (known := self._arrays.get((address, size))) is None:
            data = (ctypes.c_char * size).from_address(address)
            known = np.frombuffer(memoryview(data).cast("B"), self._dtype)
            self._arrays[address, size] = known
        return known

    # Steps: messages are begun, and after a `yield` all of them have ended.

    def _exchange(self, arrays: Sequence[npt.NDArray[Any]]) -> Iterator[None]:
        match self._collective.kind:
            case "all_reduce":
                source, target = map(self._blocks, arrays)
                yield from self._add_up(source, target, self._place)
                yield from self._spread(target, self._place + 1)
            case "reduce_scatter":
                first, *places = arrays
                source, count = self._blocks(first), self._count
                # The last sum is to be in the first place.
                kept: list[npt.NDArray[Any]] = [first] * count
                for step in range(count - 1):
                    block = (self._place - 2 - step) % count
                    kept[block] = places[(count - step) % 2]
                yield from self._add_up(source, kept, self._place - 1)
            case "all_gather":
                source, target = arrays[0], self._blocks(arrays[1])
                target[self._place][:] = source
                yield from self._spread(target, self._place)
            case "all_to_all":
                yield from self._swap(*map(self._blocks, arrays))
            case _:
                yield from self._pass_on(arrays[0])

    def _add_up(self, source: Blocks, target: Blocks, first: int) -> Iterator[None]:
        """Send the block `first`, and add to what comes, until a block is complete."""
        for step in range(self._count - 1):
            out, into = (first - step) % self._count, (first - step - 1) % self._count
            self._send(1, (target if step else source)[out])
            self._receive(1, target[into])
            yield
            np.add(target[into], source[into], out=target[into])

    def _spread(self, blocks: Blocks, first: int) -> Iterator[None]:
        """Send the block `first`, and then each that comes, until all are there."""
        for step in range(self._count - 1):
            self._send(1, blocks[(first - step) % self._count])
            self._receive(1, blocks[(first - step - 1) % self._count])
            yield

    def _swap(self, source: Blocks, target: Blocks) -> Iterator[None]:
        target[self._place][:] = source[self._place]
        for distance in range(1, self._count):
            self._send(distance, source[(self._place + distance) % self._count])
            self._receive(distance, target[(self._place - distance) % self._count])
        yield

    def _pass_on(self, whole: npt.NDArray[Any]) -> Iterator[None]:
        pieces = [whole[x : x + PIECE] for x in range(0, len(whole), PIECE)]
        is_first, is_last = self._place == 0, self._place == self._count - 1
        for number in range(len(pieces) + 1):
            if number < len(pieces) and not is_first:
                self._receive(1, pieces[number])
            if number and not is_last:
                self._send(1, pieces[number - 1])
            yield

    def _blocks(self, whole: npt.NDArray[Any]) -> Blocks:
        """A block for each rank, of which the first ones may be shorter by one."""
        size, count = len(whole), self._count
        return [
            whole[i * size // count : (i + 1) * size // count] for i in range(count)
        ]

    def _send(self, distance: int, data: npt.NDArray[Any]) -> None:
        self._start(self._sends[distance], data)

    def _receive(self, distance: int, data: npt.NDArray[Any]) -> None:
        self._start(self._receives[distance], data)

    def _start(self, handle: int, data: npt.NDArray[Any]) -> None:
        """Begin with a message, unless it has no bytes, which both ends know."""
        if data.size:
            self._pending += 1
            self._communicator.start(handle, data.ctypes.data, data.nbytes)
