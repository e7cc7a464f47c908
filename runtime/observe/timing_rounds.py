"""
Rounds of measurements of kernels that do the same, one against the other.

All contenders get the same random arguments: standard normal floats, booleans, and
zeros for integers, which are in range wherever they stand for a place. The results of
the first one are what the others are checked against. Then each is called once a round,
so that other work of the machine hits all of them alike: in rounds to warm up, and
rounds that count. A contender that is clearly slower after a few rounds drops out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from penstock.runtime.loading.arrays import numpy_dtype
from penstock.runtime.program.executable import TensorKind

Array = npt.NDArray[np.generic]

TRIALS = 5
"""The rounds after which a contender may drop out."""
HOPELESS = 1.3
"""The multiple of the least median up to which a contender stays."""
TOLERANCE: Mapping[str, float] = {
    "bfloat16": 5e-2,
    "float16": 2e-2,
    "float32": 1e-3,
    "float64": 1e-9,
}
"""By how much of the largest value contenders may differ, by dtype."""


@dataclass(frozen=True)
class Effort:
    """The extent of a measurement: rounds, and seconds after which none begins."""

    warm_up: int = 5
    rounds: int = 100
    seconds: float = 1.0


@dataclass
class Result:
    """The times of a contender, or the reason why it has none."""

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


class Timed(Protocol):
    """A kernel with its arguments, which can be called and timed."""

    @property
    def result(self) -> Result:
        """Its times so far, and its problem if it has one."""
        ...

    def try_out(self) -> Mapping[int, Array]:
        """
        Call it once on arguments as they were at first: the arguments that it has
        changed, by their numbers. Notes a problem if it fails.
        """
        ...

    def call(self) -> float:
        """The nanoseconds of a call. Notes a problem if it fails."""
        ...


AnyTimed = TypeVar("AnyTimed", bound=Timed)


################################################################################
# Arguments and results                                                        #
################################################################################


def random_array(kind: TensorKind, random: np.random.Generator) -> Array:
    """An array of a kind: normal floats, booleans, and zeros for integers."""
    dtype = numpy_dtype(kind.dtype)
    if dtype.name in TOLERANCE:
        return random.standard_normal(kind.shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, kind.shape).astype(dtype)
    return np.zeros(kind.shape, dtype)


def difference(found: Mapping[int, Array], wanted: Mapping[int, Array]) -> str | None:
    """The first difference of results beyond rounding, in words; None if equal."""
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
# Rounds                                                                       #
################################################################################


def compare(contenders: Sequence[Timed]) -> None:
    """
    Note the problems of those that fail or whose results are not those of the first one
    that works, which is right by definition.
    """
    wanted: Mapping[int, Array] | None = None
    for contender in still_running(contenders):
        found = contender.try_out()
        if contender.result.problem is not None:
            continue
        if wanted is None:
            wanted = found
        contender.result.problem = difference(found, wanted)


def measure(contenders: Sequence[Timed], effort: Effort) -> None:
    """Call contenders without a problem in rounds, and note their times."""
    deadline = time.monotonic() + effort.seconds
    running: Sequence[Timed] = still_running(contenders)
    for number in range(effort.warm_up + effort.rounds):
        counted = number - effort.warm_up
        if not running or (counted > 0 and time.monotonic() > deadline):
            break
        take_round(running, number, counts=counted >= 0)
        running = still_running(running)
        if counted >= TRIALS:
            running = worth_it(running)


def take_round(contenders: Sequence[Timed], number: int, *, counts: bool) -> None:
    """Call each contender once, another one first each round."""
    first = number % len(contenders)
    for contender in (*contenders[first:], *contenders[:first]):
        taken = contender.call()
        if counts:
            contender.result.samples.append(taken)


def calls_for(calls: int, taken: float, wanted: int, most: int) -> int:
    """
    The calls of the next measurement, if so many took so many nanoseconds: as many as
    take the time that is wanted, never fewer than before.
    """
    return max(1, calls, min(ceil(calls * wanted / max(taken, 1)), most))


def still_running(contenders: Sequence[AnyTimed]) -> list[AnyTimed]:
    """The contenders without a problem."""
    return [each for each in contenders if each.result.problem is None]


def worth_it(contenders: Sequence[AnyTimed]) -> list[AnyTimed]:
    """The contenders that are not clearly slower than the fastest."""
    least = min(each.result.median_ns for each in contenders)
    return [each for each in contenders if each.result.median_ns <= HOPELESS * least]
