"""
Registers that only cross from one rank to another over MPI, beside mpi4py's own `Send`
and `Recv` of as many bytes, in turns.

    python benchmarks/run.py --only messages

starts two processes of this file by `mpiexec`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Section, Table
from penstock.runtime.core.core import Core
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.transport.join import join
from penstock.runtime.transport.progress import MessageThread
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower, programs_of
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

TEXT = """\
Microseconds of a message from one rank to another on one machine, of pieces that follow
each other: `Penstock` is an actor that sends a variable with each act and one that gets
it in a register of two slots, `mpi4py` a loop over `Send` and one over `Recv` with the
same buffers. Both take turns, and each turn ends with a barrier. The table shows the
median of all turns, and the ratio of medians and of best turns."""

CROSS = """
launch.program @cross_0 rank 0 {{
  launch.chunk @c on <0, network> size {size}
  launch.variable @x in @c at 0 init <ones> : memref<{count}xf32>
  launch.actor @out on <0, cpu:0> stream 0 reads [] writes [] {{
    launch.send @x to 1 tag 0
  }}
}}
launch.program @cross_1 rank 1 {{
  launch.chunk @c on <1, network> size {both}
  launch.register @x in @c at 0 slots 2 : memref<{count}xf32>
  launch.actor @into on <1, cpu:0> stream 0 reads [] writes [@x] {{
    launch.receive @x from 0 tag 0
  }}
  launch.actor @use on <1, cpu:0> stream 0 reads [@x] writes [] {{
  }}
}}
"""
SIZES: Mapping[int, tuple[str, int]] = {
    8: ("8 B", 20_000),
    1 << 16: ("64 KiB", 2_000),
    1 << 20: ("1 MiB", 200),
    1 << 24: ("16 MiB", 20),
}
"""Bytes: their name, and the messages of a turn."""


def cross(size: int) -> str:
    """The programs of two ranks, with messages of so many bytes."""
    # Slots begin at lines of the cache.
    return CROSS.format(size=size, both=2 * max(size, 64), count=size // 4)


def timed(work: Callable[[], None], barrier: Callable[[], None]) -> float:
    """The seconds of some work of all ranks."""
    barrier()
    start = time.perf_counter()
    work()
    barrier()
    return time.perf_counter() - start


def turns(size: int, messages: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of a message of each kind, on this rank of two."""
    from mpi4py import MPI

    mpi: Any = MPI
    world, transport = mpi.COMM_WORLD, join()
    front = installed_compiler()
    model = Model(front[0].parse(cross(size).encode(), "cross.mlir"), {}, Path())
    lower(*front, model)
    program = programs_of(model)[transport.rank]
    data = np.ones(size, np.uint8)

    def raw() -> None:
        if transport.rank == 0:
            for _ in range(messages):
                world.Send([data, mpi.BYTE], 1)
        else:
            for _ in range(messages):
                world.Recv([data, mpi.BYTE], 0)

    found: dict[str, list[float]] = {"Penstock": [], "mpi4py": []}
    with Session.of(ExportedProgram(program)) as session:
        own = session.executor.program
        with (
            Core(own.tables, 1, resume=ResumedRun) as core,
            closing(transport.communicator()) as communicator,
            closing(MessageThread(core, own.channels, communicator)) as moved,
        ):
            ways = {"Penstock": lambda: core.run(messages), "mpi4py": raw}
            for number in range(rounds + 1):
                for name, work in ways.items():
                    seconds = timed(work, world.Barrier)
                    # The first turn makes connections.
                    if number:
                        found[name].append(seconds / messages * 1e6)
            assert moved.error is None
    return found


def main(rounds: int) -> None:
    """Be one of two processes; rank 0 prints the times."""
    found = {x: turns(x, count, rounds) for x, (_, count) in SIZES.items()}
    if join().rank == 0:
        print(json.dumps(found))


def messages(rounds: int) -> Section:
    """Compare messages of several sizes, on two ranks."""
    root = Path(__file__).parents[1]
    command = [Path(sys.executable).with_name("mpiexec"), "-n", 2, sys.executable]
    done = subprocess.run(
        [*map(str, command), "-P", __file__, str(rounds)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
    )
    found: dict[str, dict[str, list[float]]] = json.loads(done.stdout)
    rows = [row_of(SIZES[int(size)][0], x) for size, x in found.items()]
    header = "message", "Penstock", "mpi4py", "Penstock / mpi4py", "of best turns"
    return Section("Messages between ranks", TEXT, [Table(header, rows)], found)


def row_of(name: str, found: Mapping[str, Sequence[float]]) -> list[str]:
    """The row of a size."""
    own, raw = (found[x] for x in ("Penstock", "mpi4py"))
    middle = [statistics.median(x) for x in (own, raw)]
    return [
        name,
        *(f"{x:.2f} us" for x in middle),
        f"{middle[0] / middle[1]:.2f}",
        f"{min(own) / min(raw):.2f}",
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]))
