"""
Measuring CPU kernels that do the same, one against the other.

They are measured in rounds (`penstock.runtime.observe.timing_rounds`), with arguments
at the same addresses, and so many calls at a time as take `LEAST_NS`. Times are CPU
times of the thread, where the system has them, so that other processes do not count.

Where several threads share the work, each part is measured alone. The time is then the
makespan of threads that compute one part after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np
import numpy.typing as npt
from numba import types

from penstock.runtime.core.atomics import Integer, call_kernel, compiled, load_word
from penstock.runtime.core.core import parts_of
from penstock.runtime.jit.cpu import CompiledKernel
from penstock.runtime.jit.source_head import Row, row_of
from penstock.runtime.loading.memory import HostChunk
from penstock.runtime.loading.weight_layout import as_stored
from penstock.runtime.observe.timing_rounds import (
    Array,
    Effort,
    Result,
    calls_for,
    compare,
    measure,
    random_array,
)
from penstock.runtime.program.executable import Panels, TensorKind

LEAST_NS = 50_000
"""The least time of a measurement, for which a kernel may need many calls."""
MOST_CALLS = 10_000


@dataclass(frozen=True)
class Contender:
    """A kernel in machine code, and the panels in which it takes its arguments."""

    name: str
    kernel: CompiledKernel
    panels: Sequence[Panels | None]


_CLOCK = getattr(time, "CLOCK_THREAD_CPUTIME_ID", getattr(time, "CLOCK_MONOTONIC", 1))

_gettime: Callable[[int, Integer], int] = types.ExternalFunction(
    "clock_gettime", types.int32(types.int32, types.int64)
)


@compiled()
def read_clock(words: Integer) -> int:
    """The nanoseconds that this thread has worked; needs memory for two words."""
    _gettime(_CLOCK, words)
    return int(load_word(words)) * 1_000_000_000 + int(load_word(words + 8))


@compiled(inline=False, for_python=True)
def time_calls(
    kernel: Integer,
    row: Integer,
    part: Integer,
    parts: Integer,
    calls: Integer,
    words: Integer,
) -> int:
    """
    The nanoseconds that this thread works on a number of calls; if one fails, its code
    times -1. `words` is the address of two words that it may write.
    """
    start = read_clock(words)
    for _ in range(calls):
        code = int(call_kernel(kernel, row, part, parts))
        if code != 0:
            return -code
    return read_clock(words) - start


################################################################################
# Arguments                                                                    #
################################################################################


class Arguments:
    """Random arguments of kernels, in buffers that contenders share."""

    def __init__(self, kinds: Sequence[TensorKind], seed: int):
        random = np.random.default_rng(seed)
        self._values = [random_array(kind, random) for kind in kinds]
        self._chunks = [HostChunk(max(kind.size, 1)) for kind in kinds]
        self._stored: list[HostChunk] = []
        self._restored: Iterable[int] = range(len(kinds))
        self._changed: set[int] = set()
        self.restore()

    def restore(self) -> None:
        """Restore the arguments that kernels write."""
        for number in self._restored:
            self._chunks[number].write(0, self._values[number])

    def row(
        self, panels: Sequence[Panels | None], row: Row = ()
    ) -> npt.NDArray[np.int64]:
        """
        The words of a call of a contender: addresses of arguments, each in its panels,
        and the numbers of a row.
        """
        addresses = [
            chunk.address if lies is None else self._in_panels(number, lies)
            for number, (chunk, lies) in enumerate(
                zip(self._chunks, panels, strict=True)
            )
        ]
        return np.array(row_of(addresses, row, int), np.int64)

    def _in_panels(self, number: int, panels: Panels) -> int:
        chunk = HostChunk(max(self._values[number].nbytes, 1))
        chunk.write(0, as_stored(self._values[number], panels))
        self._stored.append(chunk)
        return chunk.address

    def results(self) -> dict[int, Array]:
        """The arguments that have changed, by their numbers."""
        found: dict[int, Array] = {}
        for number, value in enumerate(self._values):
            after = self._chunks[number].read(0, value.nbytes)
            if not np.array_equal(after, value.reshape(-1).view(np.uint8)):
                found[number] = after.view(value.dtype).reshape(value.shape)
        self._changed |= found.keys()
        return found

    def keep_unchanged(self) -> None:
        """Restore only those arguments from now on that kernels have changed so far."""
        self._restored = sorted(self._changed)


################################################################################
# Measuring                                                                    #
################################################################################


def makespan(times: Sequence[float], threads: int) -> float:
    """The time of threads that each take the next part when they are done."""
    ends = [0.0] * threads
    heapify(ends)
    for time_of_part in times:
        heapreplace(ends, ends[0] + time_of_part)
    return max(ends)


class TimedKernel:
    """A contender with its arguments."""

    def __init__(self, contender: Contender, arguments: Arguments, threads: int):
        self.result = Result(contender.name)
        self._kernel = contender.kernel
        self._arguments = arguments
        self._row = arguments.row(contender.panels, contender.kernel.row)
        self._words = np.zeros(2, np.int64)
        self._threads = threads
        self._parts = parts_of(contender.kernel.parts, threads)
        self._calls = 1

    def try_out(self) -> dict[int, Array]:
        """The arguments that one call changes; notes a problem if it fails."""
        self.call()
        return {} if self.result.problem is not None else self._arguments.results()

    def call(self) -> float:
        """The nanoseconds of one call; notes a problem if it fails."""
        self._arguments.restore()
        total = 0
        times: list[float] = []
        for part in range(self._parts):
            taken = self._time(part)
            total += taken
            times.append(taken / self._calls)
        self._calls = calls_for(self._calls, total, LEAST_NS, MOST_CALLS)
        return makespan(times, self._threads)

    def _time(self, part: int) -> int:
        taken = time_calls(
            self._kernel.address,
            self._row.ctypes.data,
            part,
            self._parts,
            self._calls,
            self._words.ctypes.data,
        )
        if taken < 0:
            self.result.problem = f"assertion {-taken} of it fails on random arguments"
        return max(taken, 0)


def profile(
    contenders: Sequence[Contender],
    kinds: Sequence[TensorKind],
    *,
    threads: int = 1,
    effort: Effort | None = None,
    seed: int = 0,
) -> list[Result]:
    """
    The times of each contender, in the order given; the first one that works is right
    by definition.
    """
    arguments = Arguments(kinds, seed)
    timed = [TimedKernel(contender, arguments, threads) for contender in contenders]
    compare(timed)
    arguments.keep_unchanged()
    measure(timed, effort or Effort())
    return [each.result for each in timed]
