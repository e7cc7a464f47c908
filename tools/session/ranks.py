"""A session on several ranks: the processes that run the programs of one model."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penstock.tools.driver.errors import UsageError

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.loader import Port
    from penstock.runtime.transport.protocol import Transport


class RemotePort(NamedTuple):
    """The shape and dtype of an input or output, of whichever rank."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


class Ranks:
    """The exchange between the processes of a session, outside of runs."""

    def __init__(self, transport: Transport, count: int | None):
        if count is not None and count != transport.size:
            raise UsageError(
                f"{count} ranks are asked for, but {_processes(transport.size)}"
            )
        self.transport = transport

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which speaks for all."""
        return self.transport.rank == 0

    def own(self, programs: Sequence[ProgramOp]) -> ProgramOp:
        """
        The program of this rank. Raises UsageError unless there is one for each
        process, the same ones in all processes.
        """
        found: dict[int, ProgramOp] = {}
        for program in programs:
            rank = program.rank.value.data
            if (other := found.setdefault(rank, program)) is not program:
                names = f"@{other.sym_name.data} and @{program.sym_name.data}"
                raise UsageError(f"a rank runs one program, but {names} are of {rank}")
        if sorted(found) != list(range(self.transport.size)):
            ranks = ", ".join(map(str, sorted(found)))
            raise UsageError(
                f"the model is placed on ranks {ranks}, but "
                f"{_processes(self.transport.size)}"
            )
        digest = hashlib.sha256("\n".join(map(str, programs)).encode()).digest()
        digests = self.transport.exchange(digest)
        if different := [r for r, x in enumerate(digests) if x != digests[0]]:
            raise UsageError(
                f"rank {different[0]} has another program than rank 0: all processes "
                "need the same model, options and version"
            )
        return found[self.transport.rank]

    def union(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of all ranks by name, where each gives its own."""
        data = io.BytesIO()
        # Names of arrays may be no names of files.
        named = {str(i): array for i, array in enumerate(arrays.values())}
        np.savez(data, allow_pickle=False, names=np.array([*arrays], np.str_), **named)
        found: dict[str, Array] = {}
        for given in self.transport.exchange(data.getvalue()):
            with np.load(io.BytesIO(given), allow_pickle=False) as file:
                names = file["names"].tolist()
                found |= {name: file[str(i)] for i, name in enumerate(names)}
        return found

    def ports(self, own: Mapping[str, Port]) -> dict[str, RemotePort]:
        """The ports of all ranks by name, in the order of the ranks."""
        said = [(x.name, x.shape, x.dtype.name) for x in own.values()]
        found: dict[str, RemotePort] = {}
        for given in self.transport.exchange(json.dumps(said).encode()):
            for name, shape, dtype in json.loads(given):
                found[name] = RemotePort(tuple(shape), np.dtype(dtype))
        return found


def _processes(count: int) -> str:
    return "there is one process" if count == 1 else f"there are {count} processes"
