"""
Measuring kernels that do the same, one against the other.

All contenders get the same random arguments at the same addresses: standard normal
floats, booleans, and zeros for integers, which are in range wherever they stand for a
place. What the first one computes is what the others are checked against. Then they
take turns, so that whatever else the machine does hits all of them alike: rounds to
warm up, and rounds that count, each with as many calls as take `TURN_NS`. Who is
clearly slower after a few rounds drops out. Times are those that the thread has worked,
where the system tells, so that it does not count when others are given the processor.

Where several threads share the work, each part is measured alone, and the time is that
of parts which threads take one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from math import ceil
from statistics import median
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from numba import types

from penstock.runtime.core.atomics import Integer, call_kernel, compiled, load_word
from penstock.runtime.core.core import CHUNKS
from penstock.runtime.jit.cpu import CompiledKernel
from penstock.runtime.loading.arrays import numpy_dtype
from penstock.runtime.loading.memory import HostChunk
from penstock.runtime.loading.weight_layout import as_stored
from penstock.runtime.program.executable import Panels, TensorKind

Array = npt.NDArray[np.generic]

TURN_NS = 50_000
"""How long a turn takes at least, of which a kernel may need many calls."""
MOST_CALLS = 10_000
TRIALS = 5
"""The rounds after which a contender may drop out."""
HOPELESS = 1.3
"""How many times the least median a contender may take to stay."""
TOLERANCE: Mapping[str, float] = {
    "bfloat16": 5e-2,
    "float16": 2e-2,
    "float32": 1e-3,
    "float64": 1e-9,
}
"""By how much of the largest value contenders may differ, by dtype."""


@dataclass(frozen=True)
class Contender:
    """A kernel in machine code, and the panels in which it takes its arguments."""

    name: str
    kernel: CompiledKernel
    panels: Sequence[Panels | None]


@dataclass(frozen=True)
class Effort:
    """How much is done to measure: rounds, and seconds after which no round begins."""

    warm_up: int = 5
    rounds: int = 100
    seconds: float = 1.0


@dataclass
class Result:
    """What was found out about a contender."""

    name: str
    samples: list[float] = field(default_factory=list[float])
    """Nanoseconds of a call, in the order in which they were measured."""
    problem: str | None = None
    """Why it takes no part, if so."""

    @property
    def median_ns(self) -> float:
        """The median of the samples."""
        return median(self.samples)

    @property
    def least_ns(self) -> float:
        """The least of the samples."""
        return min(self.samples)


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
        self._written = range(len(kinds))
        self.restore()

    def restore(self) -> None:
        """Make what kernels write what it was before."""
        for number in self._written:
            self._chunks[number].write(0, self._values[number])

    def row(self, panels: Sequence[Panels | None]) -> npt.NDArray[np.int64]:
        """The addresses of the arguments of a contender, each in its panels."""
        return np.array(
            [
                chunk.address if lies is None else self._in_panels(number, lies)
                for number, (chunk, lies) in enumerate(
                    zip(self._chunks, panels, strict=True)
                )
            ],
            np.int64,
        )

    def _in_panels(self, number: int, panels: Panels) -> int:
        chunk = HostChunk(max(self._values[number].nbytes, 1))
        chunk.write(0, as_stored(self._values[number], panels))
        self._stored.append(chunk)
        return chunk.address

    def results(self) -> dict[int, Array]:
        """What has changed, by the number of the argument."""
        found: dict[int, Array] = {}
        for number, value in enumerate(self._values):
            after = self._chunks[number].read(0, value.nbytes)
            if not np.array_equal(after, value.reshape(-1).view(np.uint8)):
                found[number] = after.view(value.dtype).reshape(value.shape)
        return found

    def watch(self, written: Sequence[int]) -> None:
        """Restore only these arguments from now on."""
        self._written = written


def random_array(kind: TensorKind, random: np.random.Generator) -> Array:
    """An array of a kind: normal floats, booleans, and zeros for integers."""
    dtype = numpy_dtype(kind.dtype)
    if dtype.name in TOLERANCE:
        return random.standard_normal(kind.shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, kind.shape).astype(dtype)
    return np.zeros(kind.shape, dtype)


def difference(found: Mapping[int, Array], wanted: Mapping[int, Array]) -> str | None:
    """How results differ by more than rounding, in words; None if they do not."""
    if found.keys() != wanted.keys():
        return f"it writes arguments {[*found]}, not {[*wanted]}"
    for number, array in wanted.items():
        error = relative_error(found[number], array)
        if error > TOLERANCE.get(array.dtype.name, 0.0):
            return f"argument {number} differs by {error:.1e}"
    return None


def relative_error(found: Array, wanted: Array) -> float:
    """The largest difference over the largest value, infinite where only one is NaN."""
    if wanted.dtype.name not in TOLERANCE:
        return float(not np.array_equal(found, wanted))
    ours, theirs = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    largest = float(np.abs(theirs[finite]).max(initial=0.0))
    error = float(np.abs(ours[finite] - theirs[finite]).max(initial=0.0))
    return error / largest if largest else error


################################################################################
# Measuring                                                                    #
################################################################################


def makespan(times: Sequence[float], threads: int) -> float:
    """How long threads take that each take the next part when they are done."""
    ends = [0.0] * threads
    heapify(ends)
    for time_of_part in times:
        heapreplace(ends, ends[0] + time_of_part)
    return max(ends)


class Turn:
    """A contender and the calls of its turns."""

    def __init__(self, contender: Contender, arguments: Arguments, threads: int):
        self.result = Result(contender.name)
        self._kernel = contender.kernel
        self._row = arguments.row(contender.panels)
        self._words = np.zeros(2, np.int64)
        self._threads = threads
        useful = min(contender.kernel.parts, CHUNKS * threads)
        self._parts = useful if threads > 1 else 1
        self._calls = 1

    def call(self) -> float:
        """The nanoseconds of one call; notes a problem if it fails."""
        total = 0
        times: list[float] = []
        for part in range(self._parts):
            taken = self._time(part)
            total += taken
            times.append(taken / self._calls)
        self._calls = self._calls_for(total)
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

    def _calls_for(self, total: int) -> int:
        """The calls of the next turns, if these took so many nanoseconds."""
        wanted = ceil(self._calls * TURN_NS / max(total, 1))
        return max(1, self._calls, min(wanted, MOST_CALLS))


def profile(
    contenders: Sequence[Contender],
    kinds: Sequence[TensorKind],
    *,
    threads: int = 1,
    effort: Effort | None = None,
    seed: int = 0,
) -> list[Result]:
    """
    What each contender takes, in the order given; the first one is right by definition.
    """
    effort = effort or Effort()
    arguments = Arguments(kinds, seed)
    turns = [Turn(contender, arguments, threads) for contender in contenders]
    check(turns, arguments)
    deadline = time.monotonic() + effort.seconds
    running = still_running(turns)
    for number in range(effort.warm_up + effort.rounds):
        counted = number - effort.warm_up
        if not running or (counted > 0 and time.monotonic() > deadline):
            break
        take_turns(running, number, arguments, counts=counted >= 0)
        running = still_running(running)
        if counted >= TRIALS:
            running = worth_it(running)
    return [turn.result for turn in turns]


def check(turns: Sequence[Turn], arguments: Arguments) -> None:
    """Note who fails, and whose results are not those of the first one."""
    wanted: dict[int, Array] | None = None
    written: set[int] = set()
    for turn in turns:
        arguments.restore()
        turn.call()
        if turn.result.problem is not None:
            continue
        found = arguments.results()
        written |= found.keys()
        if wanted is None:
            wanted = found
        turn.result.problem = difference(found, wanted)
    arguments.watch(sorted(written))


def take_turns(
    turns: Sequence[Turn], number: int, arguments: Arguments, *, counts: bool
) -> None:
    """One round: each contender once, another one first each time."""
    first = number % len(turns)
    for turn in (*turns[first:], *turns[:first]):
        arguments.restore()
        taken = turn.call()
        if counts:
            turn.result.samples.append(taken)


def still_running(turns: Sequence[Turn]) -> list[Turn]:
    """Those without a problem."""
    return [turn for turn in turns if turn.result.problem is None]


class Measured(Protocol):
    """What takes turns."""

    @property
    def result(self) -> Result:
        """What was found out about it."""
        ...


AnyTurn = TypeVar("AnyTurn", bound=Measured)


def worth_it(turns: Sequence[AnyTurn]) -> list[AnyTurn]:
    """Those that are not clearly slower than the fastest."""
    least = min(turn.result.median_ns for turn in turns)
    return [turn for turn in turns if turn.result.median_ns <= HOPELESS * least]
