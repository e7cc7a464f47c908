"""
Measuring kernels for CUDA that do the same, one against the other, on a device.

As `penstock.runtime.observe.kernel_timer` does it: the same random arguments at the
same addresses, results compared with those of the first contender, turns with so many
launches that the wait at their end does not count, and whoever is clearly slower drops
out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from penstock.runtime.cuda.driver import CudaError, Driver, Handle, Launch, Span
from penstock.runtime.cuda.launches import WORD, chosen, launches_of, room_of
from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.kernel_timer import (
    TRIALS,
    Array,
    Effort,
    Result,
    difference,
    random_array,
    worth_it,
)
from penstock.runtime.program.executable import TensorKind

TURN_NS = 2_000_000
"""How long a turn takes at least, the wait at its end included."""
MOST_CALLS = 1000


class DeviceArguments:
    """Random arguments of kernels in memory of a device, and a status."""

    def __init__(self, driver: Driver, kinds: Sequence[TensorKind], seed: int):
        random = np.random.default_rng(seed)
        self._driver = driver
        self._values = [random_array(kind, random) for kind in kinds]
        self.stream: Handle = driver.stream()
        sizes = [*(max(value.nbytes, 1) for value in self._values), WORD]
        self.words: list[int] = []
        self._rooms: list[int] = []
        try:
            for size in sizes:
                self.words.append(driver.allocate(size))
        except BaseException:
            self.close()
            raise
        self.spans = [
            Span(word, size, True) for word, size in zip(self.words, sizes, strict=True)
        ]

    def restore(self) -> None:
        """Make arguments what they were before any kernel, and the status 0."""
        for word, value in zip(self.words, self._values, strict=False):
            self._move(word, value.ctypes.data, value.nbytes)
        self._driver.clear(self.words[-1], WORD, self.stream)
        self.wait()

    def results(self) -> dict[int, Array]:
        """What has changed, by the number of the argument."""
        found: dict[int, Array] = {}
        for number, value in enumerate(self._values):
            after = np.empty_like(value)
            self._move(after.ctypes.data, self.words[number], value.nbytes)
            if not np.array_equal(_bytes(after), _bytes(value)):
                found[number] = after
        return found

    def status(self) -> int:
        """The code of the assertion that failed, or 0."""
        found = np.zeros(1, np.int32)
        self._move(found.ctypes.data, self.words[-1], WORD)
        return int(found[0])

    def _move(self, target: int, source: int, size: int) -> None:
        if size:
            self._driver.copy(target, source, size, self.stream)
            self.wait()

    def wait(self) -> None:
        """Wait for all that was asked for."""
        self._driver.synchronize_stream(self.stream)

    def room(self, size: int) -> int:
        """The address of memory of so many bytes besides, for one contender."""
        if not size:
            return 0
        self._rooms.append(self._driver.allocate(size))
        return self._rooms[-1]

    def close(self) -> None:
        """Give back the memory and the stream."""
        for word in (*self.words, *self._rooms):
            self._driver.free(word)
        self._driver.destroy_stream(self.stream)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class DeviceTurn:
    """A contender and the launches of its turns."""

    def __init__(self, name: str, launches: Sequence[Launch], on: DeviceArguments):
        self.result = Result(name)
        self._launches, self._on = launches, on
        self._calls = 1

    def call(self) -> float:
        """The nanoseconds of one call."""
        start = time.perf_counter_ns()
        for _ in range(self._calls):
            for launch in self._launches:
                launch(self._on.stream)
        self._on.wait()
        taken = time.perf_counter_ns() - start
        mean = taken / self._calls
        wanted = ceil(TURN_NS / max(mean, 1))
        self._calls = max(self._calls, min(wanted, MOST_CALLS))
        return mean


def profile_on_device(
    driver: Driver,
    sources: Mapping[str, str],
    kinds: Sequence[TensorKind],
    *,
    effort: Effort | None = None,
    seed: int = 0,
) -> list[Result]:
    """
    What the kernels of these sources take on the first device, in the order given; the
    first one that works is right by definition.
    """
    effort = effort or Effort()
    driver.use(0)
    on = DeviceArguments(driver, kinds, seed)
    try:
        turns = [_turn(driver, name, text, on) for name, text in sources.items()]
        _check(turns, on)
        running = [turn for turn in turns if turn.result.problem is None]
        deadline = time.monotonic() + effort.seconds
        for number in range(effort.warm_up + effort.rounds):
            counted = number - effort.warm_up
            if not running or (counted > 0 and time.monotonic() > deadline):
                break
            first = number % len(running)
            for turn in (*running[first:], *running[:first]):
                taken = turn.call()
                if counted >= 0:
                    turn.result.samples.append(taken)
            if counted >= TRIALS:
                running = worth_it(running)
        return [turn.result for turn in turns]
    finally:
        on.close()


def _turn(driver: Driver, name: str, source: str, on: DeviceArguments) -> DeviceTurn:
    """A contender, or one with a problem if it cannot be loaded."""
    try:
        functions = chosen(driver.load(name, source), on.words[:-1])
        room = on.room(room_of(functions))
        launches = launches_of(driver, functions, on.spans, room)
    except PenstockError as error:
        turn = DeviceTurn(name, (), on)
        turn.result.problem = str(error)
        return turn
    return DeviceTurn(name, launches, on)


def _check(turns: Sequence[DeviceTurn], on: DeviceArguments) -> None:
    """Note who fails, and whose results are not those of the first one."""
    wanted: dict[int, Array] | None = None
    for turn in turns:
        if turn.result.problem is not None:
            continue
        on.restore()
        try:
            turn.call()
        except CudaError as error:
            if error.is_lost:
                raise
            turn.result.problem = str(error)
            continue
        if code := on.status():
            text = f"assertion {code} of it fails on random arguments"
            turn.result.problem = text
            continue
        found = on.results()
        if wanted is None:
            wanted = found
        turn.result.problem = difference(found, wanted)
