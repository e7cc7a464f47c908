"""Collectives over sockets, as threads of one process, and over MPI, against NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh
from rank_threads import communicating, in_threads

from penstock.runtime.program.channels import Bytes, Collective
from penstock.runtime.transport.protocol import CollectiveCommunicator, Communicator
from penstock.runtime.transport.ring import PIECE, Ring

Array = npt.NDArray[Any]

EXCHANGES: Mapping[str, Callable[[Sequence[Array]], list[Array | None]]] = {
    "all_gather": lambda given: [np.concatenate(given) for _ in given],
    "all_reduce": lambda given: [np.sum(given, 0) for _ in given],
    "all_to_all": lambda given: [
        *np.concatenate([np.split(x, len(given)) for x in given], 1)
    ],
    "broadcast": lambda given: [None, *(given[0] for _ in given[1:])],
    "reduce_scatter": lambda given: [*np.split(np.sum(given, 0), len(given))],
}
"""The result of each rank, by the arrays of all."""
ROUNDS = 2


def bytes_of(array: Array) -> Bytes:
    """An array as the bytes of a variable."""
    return Bytes(None, array.ctypes.data, array.nbytes)


def exchange(
    communicator: Communicator,
    kind: str,
    algorithm: str,
    given: Sequence[Array],
    result: Array | None,
    ranks: Sequence[int],
) -> None:
    """Take part in a collective with each of the given arrays, one after the other."""
    own = communicator.rank
    is_root = kind == "broadcast" and own == ranks[0]
    sources = [*given[:1]] if kind != "broadcast" or is_root else []
    targets = [] if result is None else [result]
    if (kind, algorithm) == ("reduce_scatter", "ring"):
        assert result is not None
        targets.append(np.empty_like(result))
    both = [[*map(bytes_of, x)] for x in (sources, targets)]
    collective = Collective(
        0, "task", kind, algorithm, tuple(ranks), 7, given[0].dtype.name, 0, *both
    )
    places = [[x.address] for x in (*both[0], *both[1])]
    if algorithm == "ring":
        ring = Ring(collective, communicator, places)
        for data in given:
            given[0][:] = data
            ring.begin(0)
            while not any([ring.end(x) for x in communicator.poll()]):
                time.sleep(0)
        return
    assert isinstance(communicator, CollectiveCommunicator)
    handle = communicator.open_collective(collective)
    for data in given:
        given[0][:] = data
        communicator.start_collective(handle, [x[0] for x in places])
        while handle not in communicator.poll():
            time.sleep(0)


def arrays(kind: str, count: int, dtype: str, size: int) -> list[list[Array]]:
    """The arrays of each rank, one for each exchange."""
    generator = np.random.default_rng(count * size)
    blocks = count if kind in ("all_to_all", "reduce_scatter") else 1
    shape = count, ROUNDS, size * blocks
    return [[*x] for x in generator.integers(-50, 50, shape).astype(dtype)]


def result_of(kind: str, given: Array, count: int, *, is_root: bool) -> Array | None:
    """Where a rank gets the result, if it does."""
    if kind == "broadcast" and is_root:
        return None
    factor = {"all_gather": count, "reduce_scatter": 1 / count}.get(kind, 1)
    return np.zeros(int(given.size * factor), given.dtype)


@pytest.mark.parametrize("kind", EXCHANGES)
@pytest.mark.parametrize(
    ("count", "dtype", "size"),
    [(2, "float32", 1), (3, "float16", 7), (4, "int64", 2), (3, "float64", PIECE // 3)],
)
def test_a_ring_gives_each_rank_its_part(
    kind: str, count: int, dtype: str, size: int
) -> None:
    # The order of a group is its own: rank 0 may be in the middle.
    ranks = [*range(1, count), 0]
    given = arrays(kind, count, dtype, size)
    results = [
        result_of(kind, x[0], count, is_root=rank == ranks[0])
        for rank, x in enumerate(given)
    ]
    wanted = EXCHANGES[kind]([given[rank][-1].copy() for rank in ranks])
    with communicating(count) as communicators:

        def work(rank: int) -> Callable[[], object]:
            own = communicators[rank]
            return lambda: exchange(
                own, kind, "ring", given[rank], results[rank], ranks
            )

        in_threads([work(rank) for rank in range(count)])
    for rank, array in zip(ranks, wanted, strict=True):
        if array is not None:
            np.testing.assert_array_equal(results[rank], array)


def test_sums_of_a_ring_are_the_same_bits_everywhere() -> None:
    generator = fresh()
    given = [[generator.standard_normal(1001).astype("float32")] for _ in range(4)]
    results = [np.zeros_like(x) for (x,) in given]
    with communicating(4) as communicators:

        def work(rank: int) -> Callable[[], object]:
            own, ranks = communicators[rank], range(4)
            return lambda: exchange(
                own, "all_reduce", "ring", given[rank], results[rank], ranks
            )

        in_threads([work(rank) for rank in range(4)])
    for array in results[1:]:
        np.testing.assert_array_equal(array, results[0])
    whole = np.sum([x for (x,) in given], 0, np.float64)
    np.testing.assert_allclose(results[0], whole, atol=1e-5)


def of_mpi() -> None:
    """Be a process of `mpiexec`: take part in all collectives, and compare."""
    from penstock.runtime.transport.mpi import MpiTransport

    communicator = MpiTransport().communicator()
    count, own = communicator.size, communicator.rank
    ranks = [*range(1, count), 0]
    for kind in EXCHANGES:
        for algorithm in ("mpi", "ring"):
            given = arrays(kind, count, "float64", 5)
            wanted = EXCHANGES[kind]([given[rank][-1].copy() for rank in ranks])
            result = result_of(kind, given[own][0], count, is_root=own == ranks[0])
            exchange(communicator, kind, algorithm, given[own], result, ranks)
            if (array := wanted[ranks.index(own)]) is not None:
                np.testing.assert_array_equal(result, array)
            communicator.exchange(b"")
    print(f"rank {own} has compared all")


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_mpi_gives_each_rank_its_part(count: int) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside this Python: the extra mpi is not installed")
    words = (mpiexec, "-n", count, sys.executable, __file__)
    # It imports what this module does, but does not go by the folder of it.
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [*map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    for rank in range(count):
        assert f"rank {rank} has compared all" in done.stdout


if __name__ == "__main__":
    of_mpi()
