"""
Peers side by side, fairly.

Each contender lives in a process of its own and is set up and checked before anything
is timed. Then they take turns in rounds: whatever else the machine does hits all of
them alike. A turn begins when the threads of the one before have come to rest: those of
ONNX Runtime look for work for 0.1 s after a run, and take a core from who comes next. A
round begins once the machine is idle, and rounds that begin without are counted.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, cast

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

Run: TypeAlias = "Callable[[], Sequence[Array]]"
"""Computes a workload once and returns its outputs."""

Opener: TypeAlias = Callable[[], Run]
"""Sets a contender up in its process. It must be picklable."""

TOLERANCE = 1e-4
"""The tolerance of outputs, relative to the largest value of the first contender."""

NOT_INSTALLED = "not installed"
"""The start of the problem of a contender that is not installed."""

REST_SECONDS = 0.5
"""The longest wait of a turn for the threads of the one before."""

TURN_SECONDS = 0.1
"""The least time of a turn, if a single run takes less."""

################################################################################
# The machine                                                                  #
################################################################################


def processor_ticks(path: Path = Path("/proc/stat")) -> tuple[int, int] | None:
    """
    The time that all CPUs were busy and the time that they existed, in ticks; None
    where the system does not say.
    """
    try:
        line = path.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal; guests are counted in user.
    ticks = [int(word) for word in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def busy_share(window: float = 0.1) -> float:
    """The busy share of all processors over some seconds; 0 where it is not known."""
    before = processor_ticks()
    time.sleep(window)
    after = processor_ticks()
    if before is None or after is None or after[1] == before[1]:
        return 0.0
    return (after[0] - before[0]) / (after[1] - before[1])


def wait_until_idle(
    limit: float, threshold: float = 0.15, share: Callable[[], float] = busy_share
) -> bool:
    """Wait up to `limit` seconds for an idle machine; returns whether it is idle."""
    end = time.monotonic() + limit
    while share() > threshold:
        if time.monotonic() >= end:
            return False
    return True


def processor_seconds(process: int) -> float:
    """The time that the threads of a process have run; 0 where it is not known."""
    total = 0
    for path in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with suppress(OSError):  # A thread that has ended meanwhile.
            total += int(path.read_text(encoding="utf-8").split()[0])
    return total * 1e-9


def wait_until_at_rest(
    limit: float,
    window: float = 0.01,
    *,
    spent: Callable[[], float],
) -> bool:
    """
    Wait up to `limit` seconds until a process, of which `spent` tells the seconds that
    it has run, does so for less than a tenth of a window; returns whether it does.
    """
    end, before = time.monotonic() + limit, spent()
    while True:
        time.sleep(window)
        after = spent()
        if after - before < 0.1 * window:
            return True
        if time.monotonic() >= end:
            return False
        before = after


@contextmanager
def only_one(name: str = "penstock-benchmarks.lock") -> Generator[None]:
    """Wait until no other process of this machine is inside, and keep others out."""
    import fcntl

    with (Path(tempfile.gettempdir()) / name).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another benchmark is running: waiting for its end", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def variables(environment: Mapping[str, str]) -> Generator[None]:
    """Let variables of the environment have other values inside."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


################################################################################
# Contenders                                                                   #
################################################################################


def mean_seconds(run: Run, calls: int) -> float:
    """The mean time of a number of runs."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def serve(pipe: Connection) -> None:
    """Be a contender: take an opener after the other, until there is None."""
    while (opener := cast("Opener | None", pipe.recv())) is not None:
        take_turns(pipe, opener)


def take_turns(pipe: Connection, opener: Opener) -> None:
    """
    Send the outputs of one run, or say what is wrong; then answer each number of calls
    with their mean time, until the number is 0.
    """
    try:
        run = opener()
        pipe.send([*run()])
    except ImportError as error:
        pipe.send(f"{NOT_INSTALLED}: {error.name}")
        return
    except Exception as error:
        pipe.send(f"failed: {type(error).__name__}: {error}")
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    while calls := cast("int", pipe.recv()):
        pipe.send(mean_seconds(run, calls))
    gc.enable()
    gc.unfreeze()


class Contender:
    """A process that sets workloads up, one by one, and runs them when told to."""

    def __init__(self, name: str, environment: Mapping[str, str] | None = None):
        self.name = name
        self.outputs: list[Array] = []
        self.problem: str | None = None
        """Why it takes no part."""
        self._is_open = False
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        with variables(environment or {}):
            self._process.start()
        theirs.close()

    @property
    def has_ended(self) -> bool:
        """Whether its process can set no other workload up."""
        return not self._process.is_alive()

    def open(self, opener: Opener) -> None:
        """Begin to set a workload up."""
        self.outputs, self.problem = [], None
        self._pipe.send(opener)

    def wait(self) -> None:
        """Wait until it is set up and has run once."""
        try:
            answer = cast("list[Array] | str", self._pipe.recv())
        except EOFError:
            answer = "failed: its process ended"
            self._process.join()
        if isinstance(answer, str):
            self.problem = answer
        else:
            self.outputs, self._is_open = answer, True

    def compare(self, reference: Sequence[Array], tolerance: float = TOLERANCE) -> None:
        """Take no further part if the outputs differ from others."""
        if self.problem is not None:
            return
        if len(self.outputs) != len(reference):
            self.problem = f"{len(self.outputs)} outputs, not {len(reference)}"
            return
        # Not for the processes of contenders, which need only what they run.
        from penstock.tools.session.differences import relative_error

        pairs = zip(self.outputs, reference, strict=True)
        error = max((relative_error(a, b) for a, b in pairs), default=0.0)
        if not error <= tolerance:
            self.problem = f"outputs differ by {error:.1e}"

    def turn(self, calls: int) -> float:
        """Mean seconds of this many runs."""
        self._pipe.send(calls)
        return cast("float", self._pipe.recv())

    def settle(self) -> None:
        """Wait until its threads have come to rest."""
        if (process := self._process.pid) is not None:
            wait_until_at_rest(REST_SECONDS, spent=lambda: processor_seconds(process))

    def leave(self) -> None:
        """Give the workload up, so that another one can be set up."""
        if self._is_open:
            self._pipe.send(0)
        self._is_open = False

    def close(self) -> None:
        """End its process."""
        with suppress(OSError):  # It may have ended before.
            self.leave()
            self._pipe.send(None)
        self._process.join(5)
        self._process.kill()
        self._pipe.close()


################################################################################
# Rounds                                                                       #
################################################################################


@dataclass(frozen=True)
class Result:
    """
    The times of a contender in each round, in seconds a run, or the reason why it did
    not run.
    """

    name: str
    seconds: tuple[float, ...] = ()
    problem: str | None = None

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Race:
    """The results of all contenders, ours first, and how many rounds were disturbed."""

    results: tuple[Result, ...]
    disturbed: int

    def ratio(self, result: Result) -> float | None:
        """A contender's time over that of the first one; None if either did not run."""
        ours = self.results[0]
        if ours.problem is not None or result.problem is not None:
            return None
        return result.median / ours.median

    def best_ratio(self) -> float | None:
        """The time of the best peer over ours; other ways of ours are no peers."""
        own = self.results[0].name
        peers = (result for result in self.results if not result.name.startswith(own))
        ratios = (self.ratio(peer) for peer in peers)
        return min((ratio for ratio in ratios if ratio is not None), default=None)


def race(
    openers: Mapping[str, Opener],
    rounds: int,
    *,
    idle: Callable[[], bool] = lambda: wait_until_idle(1.0),
    turn_seconds: float = TURN_SECONDS,
) -> Race:
    """Set up all contenders, compare their outputs, and time them in turns."""
    with Field() as field:
        return field.race(openers, rounds, Manner(idle=idle, turn_seconds=turn_seconds))


@dataclass(frozen=True)
class Manner:
    """The length of turns, the wait before rounds, and the tolerance of outputs."""

    idle: Callable[[], bool] = lambda: wait_until_idle(1.0)
    turn_seconds: float = TURN_SECONDS
    tolerance: float = TOLERANCE


class Field:
    """
    Contenders whose processes stay for several races, so that none pays for the start
    of another's. One whose process ended gets a new one.
    """

    def __init__(self, environments: Mapping[str, Mapping[str, str]] | None = None):
        self._environments = environments or {}
        """Variables of the environment by the names of contenders."""
        self._contenders: dict[str, Contender] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for contender in self._contenders.values():
            contender.close()

    def race(
        self, openers: Mapping[str, Opener], rounds: int, manner: Manner | None = None
    ) -> Race:
        """Set up all contenders, compare their outputs, and time them in turns."""
        manner = manner or Manner()
        contenders = self.open(openers)
        if contenders[0].problem is None:
            for contender in contenders[1:]:
                contender.compare(contenders[0].outputs, manner.tolerance)
        runners = [c for c in contenders if c.problem is None]
        seconds, disturbed = timed(runners, rounds, manner.idle, manner.turn_seconds)
        for contender in contenders:
            contender.leave()
        return Race(
            tuple(
                Result(c.name, tuple(seconds.get(c.name, ())), c.problem)
                for c in contenders
            ),
            disturbed,
        )

    def open(self, openers: Mapping[str, Opener]) -> list[Contender]:
        """The contenders, each with a workload that has run once, until they leave."""
        contenders = [self._opened(name, opener) for name, opener in openers.items()]
        for contender in contenders:
            contender.wait()
        return contenders

    def _opened(self, name: str, opener: Opener) -> Contender:
        """The contender of a name, which begins to set a workload up."""
        found = self._contenders.get(name)
        if found is not None and found.has_ended:
            found.close()
            found = None
        if found is None:
            found = Contender(name, self._environments.get(name))
            self._contenders[name] = found
        found.open(opener)
        return found


class Runner(Protocol):
    """A contender that takes turns."""

    name: str

    def turn(self, calls: int) -> float:
        """Mean seconds of this many runs."""
        ...

    def settle(self) -> None:
        """Wait until nothing of it runs."""
        ...


def timed(
    runners: Sequence[Runner],
    rounds: int,
    idle: Callable[[], bool],
    turn_seconds: float,
) -> tuple[dict[str, list[float]], int]:
    """The seconds of each round by name, and the number of disturbed rounds."""
    calls = {runner.name: calls_in(turn_seconds, runner) for runner in runners}
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    disturbed = 0
    for number in range(rounds):
        disturbed += not idle()
        # The one that goes first changes, so that none always follows the same other.
        first = number % max(1, len(runners))
        for runner in (*runners[first:], *runners[:first]):
            runner.turn(1)
            seconds[runner.name].append(runner.turn(calls[runner.name]))
            runner.settle()
    return seconds, disturbed


def calls_in(turn_seconds: float, runner: Runner) -> int:
    """The number of runs that fill a turn; finding it warms the contender up."""
    calls = 1
    while (spent := runner.turn(calls) * calls) < turn_seconds / 4:
        calls *= 2
    return max(1, round(calls * turn_seconds / spent))
