"""
Measuring kernels for CUDA that do the same, one against the other, on a device.

They are measured in rounds (`penstock.runtime.observe.timing_rounds`), with arguments
at the same addresses, and so many launches at a time that the wait at their end does
not count.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.runtime.cuda.driver import CudaError, Driver, Handle, Launch, Span
from penstock.runtime.cuda.launches import WORD, chosen, launches_of, room_of
from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.timing_rounds import (
    Array,
    Effort,
    Result,
    calls_for,
    compare,
    measure,
    random_array,
)
from penstock.runtime.program.executable import TensorKind

LEAST_NS = 2_000_000
"""The least time of a measurement, the wait at its end included."""
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
        """Restore the arguments to their first values, and the status to 0."""
        for word, value in zip(self.words, self._values, strict=False):
            self._move(word, value.ctypes.data, value.nbytes)
        self._driver.clear(self.words[-1], WORD, self.stream)
        self.wait()

    def results(self) -> dict[int, Array]:
        """The arguments that have changed, by their numbers."""
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
        """Wait for all work of the stream."""
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


class TimedLaunches:
    """A contender, by its launches, with its arguments."""

    def __init__(self, name: str, launches: Sequence[Launch], on: DeviceArguments):
        self.result = Result(name)
        self._launches, self._on = launches, on
        self._calls = 1

    def try_out(self) -> dict[int, Array]:
        """
        The arguments that one call changes; notes a problem if it fails. Raises
        CudaError if the device is lost.
        """
        self._on.restore()
        try:
            self.call()
        except CudaError as error:
            if error.is_lost:
                raise
            self.result.problem = str(error)
            return {}
        if code := self._on.status():
            self.result.problem = f"assertion {code} of it fails on random arguments"
            return {}
        return self._on.results()

    def call(self) -> float:
        """The nanoseconds of one call."""
        start = time.perf_counter_ns()
        for _ in range(self._calls):
            for launch in self._launches:
                launch(self._on.stream)
        self._on.wait()
        taken = time.perf_counter_ns() - start
        mean = taken / self._calls
        self._calls = calls_for(self._calls, taken, LEAST_NS, MOST_CALLS)
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
    The times of the kernels of these sources on the first device, in the order given;
    the first one that works is right by definition.
    """
    driver.use(0)
    on = DeviceArguments(driver, kinds, seed)
    try:
        timed = [_timed(driver, name, text, on) for name, text in sources.items()]
        compare(timed)
        measure(timed, effort or Effort())
        return [each.result for each in timed]
    finally:
        on.close()


def _timed(
    driver: Driver, name: str, source: str, on: DeviceArguments
) -> TimedLaunches:
    """A contender, or one with a problem if it cannot be loaded."""
    try:
        functions = chosen(driver.load(name, source), on.words[:-1])
        room = on.room(room_of(functions))
        launches = launches_of(driver, functions, on.spans, room)
    except PenstockError as error:
        timed = TimedLaunches(name, (), on)
        timed.result.problem = str(error)
        return timed
    return TimedLaunches(name, launches, on)
