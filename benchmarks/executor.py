"""
What an act costs: nanoseconds of wall time per act with kernels that do nothing.

The programs take turns, so that what else the machine does hits them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import cast

from numba import cfunc

from benchmarks.harness import wait_until_idle
from benchmarks.report import Section, Table
from penstock.runtime.core import Core
from penstock.runtime.edges import KERNEL, Callback
from penstock.runtime.reference import run_sequential
from penstock.runtime.tables import Actor, Call, Register, Tables

TEXT = """\
Nanoseconds of wall time per act, with kernels that do nothing; the table shows the
median, the best and the worst turn."""

ACTS = 400
CALLBACK_ACTS = 10_000
SINGLE_RUNS = 100
REFERENCE_ACTS = 5


@cfunc(KERNEL, cache=True)
def nothing(args: int, part: int, parts: int) -> int:
    """A kernel that returns at once."""
    return 0


NOTHING = cast(int, nothing.address)


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
    """What is timed, by the names of the report."""
    return {
        "chain of 1000, 1 worker": chain([0] * 1000),
        "chain of 1000, 2 workers, halves": chain([0] * 500 + [1] * 500),
        "chain of 1000, 2 workers, alternating": chain([0, 1] * 500),
        "2 chains of 500, 1 worker": independent(500, 1),
        "2 chains of 500, 2 workers": independent(500, 2),
        "fan 1-1000-1, 1 worker": fan([0] * 1002),
        "fan 1-1000-1, 2 workers": fan([0] + [0, 1] * 500 + [0]),
    }


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
    """Time all programs, a Python callback, single runs and the reference executor."""
    tables = programs()
    with ExitStack() as stack:

        def core(tables: Tables) -> Core:
            return stack.enter_context(Core(tables))

        found = timed_programs({name: core(t) for name, t in tables.items()}, rounds)
        callback, single = core(callback_tables()), core(chain([0]))
        found["Python callback"] = [
            1e9 * seconds_of(callback.run, CALLBACK_ACTS) / CALLBACK_ACTS
            for _ in range(rounds)
        ]
        found["run of one act, 1 worker"] = [
            1e9 * seconds_of(single.run, 1) for _ in range(SINGLE_RUNS)
        ]
    first = tables["chain of 1000, 1 worker"]
    found["reference executor, chain of 1000"] = [
        1e9
        * seconds_of(lambda acts: run_sequential(first, acts), REFERENCE_ACTS)
        / (REFERENCE_ACTS * len(first.actors))
        for _ in range(rounds)
    ]
    rows = [
        [name, *(f"{pick(values):.1f}" for pick in (statistics.median, min, max))]
        for name, values in found.items()
    ]
    header = "program", "median", "best", "worst"
    return Section("Executor", TEXT, [Table(header, rows)], found)


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
