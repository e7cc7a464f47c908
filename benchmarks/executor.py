"""
The overhead of the executor: the time of an act, of the launch of a run, and the gain
of a second thread.

The programs take turns, so that other load of the machine hits them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import cast

import numpy as np
from numba import cfunc

from benchmarks.harness import wait_until_idle
from benchmarks.report import Section, Table
from penstock.runtime.core.atomics import load_word
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import KERNEL, Callback
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.loading.initializers import Array
from penstock.runtime.program.control_flow import (
    Begin,
    ControlFlow,
    Do,
    Loop,
    Next,
    Point,
)
from penstock.runtime.program.tables import (
    Actor,
    Call,
    Cell,
    Fixed,
    Register,
    Tables,
)
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

TEXT = """\
Nanoseconds of wall time per act, and per iteration of a loop in an act, with kernels
that do nothing; microseconds from the call to the return of a run, one after the other
and each after 5 ms of sleep; microseconds of 20 kernels on one thread and on two. After
a sleep caches are cold: the floor is a function that checks its input, takes a lock and
adds with NumPy to a new array. The tables show the median, the best and the worst turn,
and for two threads the ratio of medians and of best turns."""

ACTS = 400
CALLBACK_ACTS = 10_000
FLOOR = "floor: one float in and out with NumPy"
LAUNCHES = 1000
SLEEPS = 50
KERNELS = 20
REFERENCE_ACTS = 5
ITERATIONS = 100_000

ONE_FLOAT = """
job.job @double placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<f32>
  %y = op.add %x, %x : tensor<f32>, tensor<f32> -> tensor<f32>
  job.output "y", %y : tensor<f32>
}
"""


@cfunc(KERNEL, cache=True)
def nothing(args: int, part: int, parts: int) -> int:
    """A kernel that returns at once."""
    return 0


@cfunc(KERNEL, cache=True)
def grind(args: int, part: int, parts: int) -> int:
    """Steps of a random number generator, as many as the row says, shared out."""
    number = 88_172_645_463_325_252 + part
    for _ in range(load_word(args) // parts):
        number ^= number << 13
        number ^= number >> 7
        number ^= number << 17
    return int(number == 0)


NOTHING = cast(int, nothing.address)
GRIND = cast(int, grind.address)


def program(
    workers: Sequence[int], flows: Sequence[tuple[int, Sequence[int]]]
) -> Tables:
    """Actors on these workers; flows are the producer and readers of two slots."""
    reads: list[list[int]] = [[] for _ in workers]
    writes: list[list[int]] = [[] for _ in workers]
    for register, (producer, readers) in enumerate(flows):
        writes[producer].append(register)
        for reader in readers:
            reads[reader].append(register)
    call = Call(NOTHING)
    return Tables(
        [Register(f"r{i}", producer, 2) for i, (producer, _) in enumerate(flows)],
        [
            Actor(f"t{i}", worker, tuple(reads[i]), tuple(writes[i]), (call,))
            for i, worker in enumerate(workers)
        ],
    )


def chain(workers: Sequence[int]) -> Tables:
    """Each actor reads what the one before it writes."""
    return program(workers, [(i, [i + 1]) for i in range(len(workers) - 1)])


def fan(workers: Sequence[int]) -> Tables:
    """The first actor feeds all between, and the last reads from all of them."""
    last = len(workers) - 1
    middle = range(1, last)
    return program(workers, [(0, middle), *((i, [last]) for i in middle)])


def independent(length: int, workers: int) -> Tables:
    """Two chains that share nothing."""
    flows = [(i, [i + 1]) for i in range(2 * length - 1) if i != length - 1]
    return program([i // length % workers for i in range(2 * length)], flows)


def programs() -> dict[str, Tables]:
    """The timed programs, by the names of the report."""
    return {
        "chain of 1000, 1 worker": chain([0] * 1000),
        "chain of 1000, 2 workers, halves": chain([0] * 500 + [1] * 500),
        "chain of 1000, 2 workers, alternating": chain([0, 1] * 500),
        "2 chains of 500, 1 worker": independent(500, 1),
        "2 chains of 500, 2 workers": independent(500, 2),
        "fan 1-1000-1, 1 worker": fan([0] * 1002),
        "fan 1-1000-1, 2 workers": fan([0] + [0, 1] * 500 + [0]),
    }


def grinders(workers: Sequence[int], steps: int, parts: int) -> Tables:
    """Actors on these workers that share 20 kernels, with nothing between them."""
    call = Call(GRIND, (Fixed(steps),), parts=parts)
    count = KERNELS // len(workers)
    return Tables(
        [], [Actor(f"t{i}", w, calls=(call,) * count) for i, w in enumerate(workers)]
    )


def seconds_of(run: Callable[[int], None], acts: int) -> float:
    """The time of a run of some acts."""
    start = time.perf_counter()
    run(acts)
    return time.perf_counter() - start


def callback_tables() -> Tables:
    """One actor whose kernel is a Python function."""
    callback = Callback(lambda args, part, parts: 0)
    call = Call(callback.address)
    return Tables([], [Actor("t", calls=(call,))], callbacks=[callback])


def executor(rounds: int) -> Section:
    """Time acts, a Python callback, the reference executor, launches and threads."""
    tables = programs()
    with ExitStack() as stack:

        def core(tables: Tables) -> Core:
            return stack.enter_context(Core(tables))

        found = timed_programs({name: core(t) for name, t in tables.items()}, rounds)
        callback = core(callback_tables())
        found["Python callback"] = [
            1e9 * seconds_of(callback.run, CALLBACK_ACTS) / CALLBACK_ACTS
            for _ in range(rounds)
        ]
    first = tables["chain of 1000, 1 worker"]
    found["reference executor, chain of 1000"] = [
        1e9
        * seconds_of(lambda acts: run_sequential(first, acts), REFERENCE_ACTS)
        / (REFERENCE_ACTS * len(first.actors))
        for _ in range(rounds)
    ]
    loops = loop_times(rounds)
    launches, threads = launch_times(), thread_times(rounds)
    sections = [
        Table(("ns per act", *PICKED), rows_of(found)),
        Table(("ns per iteration of a loop", *PICKED), rows_of(loops)),
        Table(("us per run", *PICKED), rows_of(launches)),
        thread_table(threads),
    ]
    data = {"acts": found, "loops": loops, "launches": launches, "threads": threads}
    return Section("Executor", TEXT, sections, data)


def loop(calls: int) -> Tables:
    """An actor with a loop of so many kernels, whose argument moves on with it."""
    word = np.zeros(1, np.int64)
    control = ControlFlow(
        cells=2,
        points=(),
        loops=(Loop(ITERATIONS, points=(Point(1, 0, 0, 8),), start=1, end=calls + 2),),
        code=(Begin(0), *map(Do, range(calls)), Next(0)),
        loop_of=(0,) * calls,
    )
    made = (Call(NOTHING, (Cell(1),)),) * calls
    roots = (Fixed(word.ctypes.data),)
    return Tables([], [Actor("t", calls=made, control=control, roots=roots)])


def loop_times(rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of an iteration of loops in each round."""
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        cores = {
            f"{calls} kernel{'s' * (calls > 1)}": stack.enter_context(Core(loop(calls)))
            for calls in (1, 2, 11)
        }
        for _ in range(rounds):
            for name, core in cores.items():
                core.run(1)
                taken = 1e9 * seconds_of(core.run, 1) / ITERATIONS
                found.setdefault(name, []).append(taken)
    return found


PICKED = "median", "best", "worst"


def rows_of(found: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """A name, the median and the extremes in each line."""
    return [
        [name, *(f"{pick(values):.1f}" for pick in (statistics.median, min, max))]
        for name, values in found.items()
    ]


def launch_times() -> dict[str, list[float]]:
    """Microseconds of runs that do next to nothing, and of the floor."""
    front = installed_compiler()
    x = {"x": np.array(1.5, np.float32)}
    runs: dict[str, Callable[[], object]] = {FLOOR: partial(floor, x, Lock())}
    with ExitStack() as stack:
        for threads in (1, 2):
            module = front[0].parse(ONE_FLOAT.encode(), "one_float.mlir")
            model = Model(module, {}, Path())
            session = Session(model, threads=threads, compiler=front)
            name = f"one float in and out, threads = {threads}"
            runs[name] = partial(stack.enter_context(session).run, x)
        for name, tables in (("1 actor", chain([0])), ("2 workers", chain([0, 1]))):
            runs[f"core, {name}"] = partial(stack.enter_context(Core(tables)).run, 1)
        return times_of(runs)


def floor(inputs: Mapping[str, Array], lock: Lock) -> dict[str, Array]:
    """`ONE_FLOAT` in NumPy, checked and locked as a run is."""
    x = inputs["x"]
    if type(x) is not np.ndarray or x.shape != () or x.dtype != np.float32:
        raise ValueError(f"expected one float, got {x}")
    with lock:
        y = np.empty((), np.float32)
        np.add(x, x, out=y)
    return {"y": y}


def times_of(runs: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Microseconds of runs one after the other, and of runs after a sleep, in turn."""
    found: dict[str, list[float]] = {}
    for name, run in runs.items():
        run()
        found[name] = [microseconds_of(run) for _ in range(LAUNCHES)]
        found[f"{name}, after a sleep"] = []
    for _ in range(SLEEPS):
        for name, run in runs.items():
            found[f"{name}, after a sleep"].append(microseconds_of(run, 0.005))
    return found


def microseconds_of(run: Callable[[], object], sleep: float = 0) -> float:
    """The time of a call after so many seconds of sleep."""
    if sleep:
        time.sleep(sleep)
    start = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - start)


def thread_times(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Microseconds on one and on two threads in each round."""
    cases = {
        f"kernels of {length}, in 8 parts": (grinders([0], steps, 8),) * 2
        for length, steps in (("1 ms", 500_000), ("100 us", 50_000), ("10 us", 5_000))
    }
    cases["2 workers, kernels of 1 ms"] = (
        grinders([0, 0], 500_000, 1),
        grinders([0, 1], 500_000, 1),
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for name, (alone, shared) in cases.items():
        with Core(alone) as one, Core(shared, 2) as two:
            one.run(1)
            two.run(1)
            found[name] = [
                (
                    microseconds_of(lambda run=one.run: run(1)),
                    microseconds_of(lambda run=two.run: run(1)),
                )
                for _ in range(rounds)
            ]
    return found


def thread_table(found: Mapping[str, Sequence[tuple[float, float]]]) -> Table:
    """Medians on one and two threads, and how many times faster two are."""
    rows: list[list[str]] = []
    for name, pairs in found.items():
        ones, twos = zip(*pairs, strict=True)
        one, two = statistics.median(ones), statistics.median(twos)
        numbers = f"{one:.0f}", f"{two:.0f}", f"{one / two:.2f}"
        rows.append([name, *numbers, f"{min(ones) / min(twos):.2f}"])
    header = "20 kernels, us", "1 thread", "2 threads", "ratio", "of best"
    return Table(header, rows)


def timed_programs(cores: Mapping[str, Core], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds an act of each core in each round, after a warm-up."""
    found: dict[str, list[float]] = {name: [] for name in cores}
    for core in cores.values():
        core.run(10)
    for _ in range(rounds):
        wait_until_idle(1.0)
        for name, core in cores.items():
            acts = ACTS * len(core.tables.actors)
            found[name].append(1e9 * seconds_of(core.run, ACTS) / acts)
    return found
