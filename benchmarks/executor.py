"""
What an act costs: nanoseconds of wall time per act with kernels that do nothing.

Run `python benchmarks/executor.py`. The programs take turns, so that what else the
machine does hits them alike; the table shows the median, the best and the worst turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import cast

from numba import cfunc

from penstock.runtime.core import Core
from penstock.runtime.edges import KERNEL, Callback
from penstock.runtime.reference import run_sequential
from penstock.runtime.tables import Actor, Call, Register, Tables

ACTS = 400
TURNS = 9


@cfunc(KERNEL, cache=True)
def nothing(args: int, part: int, parts: int) -> int:
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


PROGRAMS = {
    "chain of 1000, 1 worker": chain([0] * 1000),
    "chain of 1000, 2 workers, halves": chain([0] * 500 + [1] * 500),
    "chain of 1000, 2 workers, alternating": chain([0, 1] * 500),
    "2 chains of 500, 1 worker": independent(500, 1),
    "2 chains of 500, 2 workers": independent(500, 2),
    "fan 1-1000-1, 1 worker": fan([0] * 1002),
    "fan 1-1000-1, 2 workers": fan([0] + [0, 1] * 500 + [0]),
}


def seconds(core: Core, acts: int) -> float:
    start = time.perf_counter()
    core.run(acts)
    return time.perf_counter() - start


def line(name: str, unit: str, values: Sequence[float]) -> str:
    middle = statistics.median(values)
    return f"{name:40} {middle:9.1f} {min(values):9.1f} {max(values):9.1f}  {unit}"


def main() -> None:
    cores = {name: Core(tables) for name, tables in PROGRAMS.items()}
    times: dict[str, list[float]] = {name: [] for name in cores}
    for core in cores.values():
        core.run(10)
    for _ in range(TURNS):
        for name, core in cores.items():
            acts = ACTS * len(core.tables.actors)
            times[name].append(1e9 * seconds(core, ACTS) / acts)

    print(f"{'':40} {'median':>9} {'best':>9} {'worst':>9}")
    for name, values in times.items():
        print(line(name, "ns/act", values))

    callback = Callback(lambda args, part, parts: 0)
    call = Call(callback.address)
    tables = Tables([], [Actor("t", calls=(call,))], callbacks=[callback])
    cores["callback"] = core = Core(tables)
    values = [1e9 * seconds(core, 10_000) / 10_000 for _ in range(TURNS)]
    print(line("Python callback", "ns/act", values))

    cores["one act"] = core = Core(chain([0]))
    values = [1e6 * seconds(core, 1) for _ in range(200)]
    print(line("run of one act, 1 worker", "us/run", values))

    start = time.perf_counter()
    run_sequential(PROGRAMS["chain of 1000, 1 worker"], 20)
    values = [1e9 * (time.perf_counter() - start) / 20_000]
    print(line("reference executor, chain of 1000", "ns/act", values))
    for core in cores.values():
        core.close()


if __name__ == "__main__":
    main()
