"""A session on several ranks: the processes that run the programs of one model."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.runtime.errors import PeerError, PenstockError
from penstock.runtime.loading.arrays import numpy_dtype
from penstock.runtime.program.variable_part import Part
from penstock.runtime.transport.whole_messages import receive, send
from penstock.tools.driver.errors import FileError, InternalError, UsageError
from penstock.tools.driver.files import path_of_rank

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.loader import Port
    from penstock.runtime.transport.protocol import Transport


CLOCK_ROUNDS = 8
"""The exchanges by which clocks of several hosts are compared."""


KINDS: Sequence[tuple[type[PenstockError], Callable[[str], PenstockError]]] = (
    (FileError, FileError),
    (UsageError, UsageError),
    (InternalError, partial(InternalError, "")),
    (PenstockError, PenstockError),
)
"""
The errors of a rank, and those that others raise then, so that all have one exit code.
"""


def host() -> str:
    """The system that this process runs on, and the start of its clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
    except OSError:
        return f"{platform.node()} {os.getpid()}"


class RemotePort(NamedTuple):
    """The shape and dtype of an input or output, of whichever rank."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


class Share(NamedTuple):
    """
    A program as that of one rank: how many ranks there are, and the digest of what all
    of them run.
    """

    rank: int
    size: int
    digest: str


class Ranks:
    """
    The exchange between the processes of a session, outside of runs: all of them open
    their sessions in the same order, and ask each for the same in the same order.
    """

    def __init__(self, transport: Transport, count: int | None):
        self.transport = transport
        self._communicator = transport.communicator()
        weakref.finalize(self, self._communicator.close)
        self._is_opening = self._has_agreed = False
        if count is not None and count != transport.size:
            error = UsageError(
                f"{count} ranks are asked for, but {_processes(transport.size)}"
            )
            self._tell(error)
            raise error

    def own_path(self, path: Path) -> Path:
        """The file of this rank beside those of others."""
        return path_of_rank(path, self.transport.rank)

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which speaks for all."""
        return self.transport.rank == 0

    def in_order(self, programs: Sequence[ProgramOp]) -> list[ProgramOp]:
        """
        The program of each rank. Raises UsageError unless there is one for each
        process.
        """
        found: dict[int, ProgramOp] = {}
        for program in programs:
            rank = program.rank.value.data
            if (other := found.setdefault(rank, program)) is not program:
                names = f"@{other.sym_name.data} and @{program.sym_name.data}"
                raise UsageError(f"a rank runs one program, but {names} are of {rank}")
        if sorted(found) != list(range(self.transport.size)):
            ranks = f"rank{'s' * (len(found) > 1)} {', '.join(map(str, sorted(found)))}"
            raise UsageError(
                f"the model is placed on {ranks}, but {_processes(self.transport.size)}"
            )
        return [found[rank] for rank in sorted(found)]

    def give(self, packed: Sequence[Callable[[], bytes]]) -> None:
        """
        Give each other rank bytes, which are made when its turn comes, as rank 0, once
        it is sure to have them. The others call `take` at the same time.
        """
        self._exchange([])
        self._has_agreed = True
        with closing(self.transport.communicator()) as messages:
            for rank, make in enumerate(packed, 1):
                send(messages, rank, make())

    def take(self) -> bytearray:
        """The bytes that rank 0 gives this one. Raises the error of rank 0 instead."""
        self._exchange([])
        self._has_agreed = True
        with closing(self.transport.communicator()) as messages:
            return receive(messages, 0)

    def take_share(self, share: Share | None) -> None:
        """
        Run a saved plan, which was saved as this share. Raises UsageError unless it is
        that of this rank, and the others have those that were saved with it.
        """
        size, rank = self.transport.size, self.transport.rank
        if share is None:
            raise UsageError("the plan was saved by one process, not by ranks")
        if share.size != size:
            raise UsageError(
                f"the plan was saved by {share.size} ranks, but {_processes(size)}"
            )
        if share.rank != rank:
            raise UsageError(f"rank {rank} has the plan of rank {share.rank}")
        self.agree_on({"another program": share.digest})

    def agree_on(self, own: Mapping[str, str]) -> None:
        """
        Raise UsageError unless all ranks have the same text for each of some things, by
        the words for a rank that has another one, and the same version.
        """
        from penstock.tools.session.saved_plan.build import build

        # Another version may write the same otherwise.
        own = {"another version of penstock": build(), **own}
        first, *others = self._exchange([*own.values()])
        for rank, other in enumerate(others, 1):
            for what, here, there in zip(own, first, other, strict=False):
                if here != there:
                    raise UsageError(
                        f"rank {rank} has {what} than rank 0: all processes need the "
                        "same model, options and version"
                    )

    @contextmanager
    def opening(self) -> Generator[None]:
        """
        A context in which all ranks open a session, or prepare for it or for a run:
        rank 0 gives each warning once, with the ranks that have it. An error of some
        ranks is one of all, and rank 0 tells that of the first. Within another such
        context it changes nothing.
        """
        if self._is_opening:
            yield
            return
        caught = list[warnings.WarningMessage]()
        self._is_opening, self._has_agreed = True, False
        try:
            with warnings.catch_warnings(record=True) as caught:
                yield
                said = self._exchange([str(x.message) for x in caught])
        except Exception as error:
            give_warnings(str(x.message) for x in caught)
            told = self._tell(error)
            if told is not error:
                raise told from error
            raise
        finally:
            self._is_opening = False
        give_warnings(with_ranks(said) if self.is_first else ())

    def _exchange(self, own: list[str]) -> list[list[str]]:
        """
        The texts of all ranks while these open a session. If one has failed meanwhile,
        raises an error of the same kind, which rank 0 tells.
        """
        found = self.values([None, *own])
        if (error := self._first_error(found)) is not None:
            raise error
        return [texts for _, *texts in found]

    def _first_error(self, said: Sequence[Sequence[Any]]) -> PenstockError | None:
        """The first error that ranks have said, as one of this rank."""
        for rank, (error, *_) in enumerate(said):
            if error is not None:
                kind, text = error
                _, made = KINDS[int(kind)]
                return self._shared(made(f"rank {rank}: {text}"))
        return None

    def _shared(self, error: PenstockError) -> PenstockError:
        error.is_shared, error.is_told = True, not self.is_first
        return error

    def _tell(self, error: Exception) -> Exception:
        """
        Let the ranks that wait for this one know of an error. Returns the one that all
        ranks have then: if some have others, that of the first of them.
        """
        # They know it, or have ended.
        if isinstance(error, PenstockError) and error.is_shared:
            return error
        text = str(error) or type(error).__name__
        if self._has_agreed or not isinstance(error, PenstockError):
            self.transport.abort(text)
            return error
        # In the exchange in which they are to agree.
        kind = next(i for i, (x, _) in enumerate(KINDS) if isinstance(error, x))
        try:
            said = self.values([[kind, text]])
        except PeerError:
            return error
        (first,) = [x for x, *_ in said if x is not None][:1]
        if first == [kind, text]:
            return self._shared(error)
        return self._first_error(said) or error

    def union(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of all ranks by name, where each gives its own."""
        given = [Part(name, (), (), np.asarray(x)) for name, x in arrays.items()]
        return {part.name: part.array for part in self.parts(given)}

    def parts(self, own: Sequence[Part]) -> list[Part]:
        """The parts of variables that all ranks give."""
        said = [
            (x.name, x.offsets, x.whole, x.array.shape, x.array.dtype.name) for x in own
        ]
        head = json.dumps(said).encode()
        arrays = [np.ascontiguousarray(x.array).tobytes() for x in own]
        data = b"".join((len(head).to_bytes(8, "little"), head, *arrays))
        found: list[Part] = []
        for given in self._communicator.exchange(data):
            end = 8 + int.from_bytes(given[:8], "little")
            for name, offsets, whole, shape, dtype in json.loads(given[8:end]):
                kind, start = numpy_dtype(dtype), end
                end += kind.itemsize * prod(shape)
                array = np.frombuffer(given[start:end], kind).reshape(shape)
                found.append(Part(name, tuple(offsets), tuple(whole), array))
        return found

    def values(self, own: Any) -> list[Any]:
        """The values that each rank gives, as JSON gives them back, by rank."""
        given = self._communicator.exchange(json.dumps(own).encode())
        return [json.loads(x) for x in given]

    def agree(self, problems: Sequence[str], what: str = "state") -> None:
        """
        Raise PenstockError on all ranks if one has problems with something, with those
        of the first that has.
        """
        from penstock.runtime.loading.loader import raise_if_any

        for rank, found in enumerate(self.values([*problems])):
            raise_if_any([f"rank {rank}: {problem}" for problem in found], what)

    def clock_offset(self) -> int:
        """
        The nanoseconds to be added to the monotonic clock of this process to get that
        of rank 0: 0 for all that run on one host.
        """
        from penstock.runtime.observe.trace_of_ranks import offset_of

        if len({*self.values(host())}) == 1:
            return 0
        rounds: list[tuple[int, int, int, int]] = []
        for _ in range(CLOCK_ROUNDS):
            sent = self.values(time.monotonic_ns())
            got = time.monotonic_ns()
            got_there = self.values(got)[0]
            rounds.append((sent[self.transport.rank], got, sent[0], got_there))
        return offset_of(rounds)

    def jobs(self, own: Sequence[str]) -> list[str]:
        """
        The names of the jobs of all ranks, in the order of the ranks, once all have a
        program: an error of one of them ends all from then on.
        """
        said = self._exchange([*own])
        self._has_agreed = True
        return list(dict.fromkeys(job for found in said for job in found))

    def ports(self, own: Mapping[str, Port]) -> dict[str, RemotePort]:
        """The ports of all ranks by name, in the order of the ranks."""
        found: dict[str, RemotePort] = {}
        for given in self.values(
            [(x.name, x.shape, x.dtype.name) for x in own.values()]
        ):
            for name, shape, dtype in given:
                found[name] = RemotePort(tuple(shape), numpy_dtype(dtype))
        return found


def with_ranks(said: Sequence[Sequence[str]]) -> list[str]:
    """Each text that some ranks say, once, with those that do."""
    found: dict[str, list[int]] = {}
    for rank, texts in enumerate(said):
        for text in dict.fromkeys(texts):
            found.setdefault(text, []).append(rank)
    return [f"{_names(ranks, len(said))}: {text}" for text, ranks in found.items()]


def _names(ranks: Sequence[int], count: int) -> str:
    if len(ranks) == count:
        return "all ranks"
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def give_warnings(texts: Iterable[str]) -> None:
    """Give warnings about the opening of a session."""
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _processes(count: int) -> str:
    return "there is one process" if count == 1 else f"there are {count} processes"
