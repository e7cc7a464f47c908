"""Transports by their names: ours, and those of plug-ins."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.plugins import register
from penstock.runtime.errors import PenstockError
from penstock.runtime.transport import join as joining
from penstock.runtime.transport.join import (
    BUILT_IN,
    MEMBERS,
    RANK,
    SOCKETS,
    TRANSPORT,
    join,
    joined,
    transport_of,
)
from penstock.runtime.transport.protocol import Transport
from penstock.runtime.transport.sockets import SocketTransport

PENSTOCK_INTERFACE = "0.2"


class Alone:
    """A transport of one rank, which has nobody to send to."""

    rank, size = 0, 1

    def abort(self, reason: str) -> None: ...
    def close(self) -> None: ...
    def communicator(self) -> object:
        raise AssertionError("there is nobody")


def alone() -> Alone:
    """No messages."""
    return Alone()


def rubbish() -> object:
    """No transport."""
    return object()


def broken() -> object:
    """A transport that cannot be made."""
    raise ConnectionError("no network")


@pytest.fixture(autouse=True, scope="module")
def transports_of_this_file() -> None:
    """Plug-ins that are forgotten when the tests of this file are done."""
    for function in (alone, rubbish, broken):
        register("transport", function.__name__)(function)


@pytest.fixture(autouse=True)
def alone_in_this_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has joined nothing yet, whose errors end no others."""
    for name in (RANK, SOCKETS, TRANSPORT, *joining.OF_MPI):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.excepthook", None)
    joined.cache_clear()
    yield
    joined.cache_clear()


def test_the_members_are_those_of_the_protocol() -> None:
    assert set(MEMBERS) == {x for x in vars(Transport) if not x.startswith("_")}
    assert all(hasattr(SocketTransport(0, {}), member) for member in MEMBERS)


def test_the_environment_names_a_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RANK, "0")
    monkeypatch.setenv(TRANSPORT, "alone")
    found = join()
    assert isinstance(found, Alone)
    assert join() is found


def test_ranks_that_we_start_have_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = socket.socketpair()
    monkeypatch.setenv(RANK, "1")
    monkeypatch.setenv(SOCKETS, f"0={own.detach()}")
    found = join()
    assert isinstance(found, SocketTransport)
    assert (found.rank, found.size) == (1, 2)
    found.close()
    other.close()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("alon", "no transport 'alon', did you mean 'alone'?"),
        (
            "rubbish",
            "transport 'rubbish' returns no transport: it lacks abort, close, comm",
        ),
        ("broken", "transport 'broken' fails: ConnectionError: no network"),
        ("sockets", "sockets are handed to ranks by penstock-run --ranks N"),
    ],
)
def test_what_is_no_transport_is_told(name: str, message: str) -> None:
    with pytest.raises(PenstockError) as caught:
        transport_of(name)
    assert str(caught.value).startswith(message)


def test_a_process_alone_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRANSPORT, "alone")
    with pytest.raises(PenstockError, match="this process was started alone"):
        join()
    assert set(BUILT_IN) == {"mpi", "sockets"}


def test_processes_that_slurm_started_without_mpi_are_told_how(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    for number in range(2):
        monkeypatch.setenv("SLURM_PROCID", str(number))
        with pytest.raises(
            PenstockError, match="4 processes without MPI: srun --mpi"
        ) as caught:
            join()
        # The first of them tells it.
        assert caught.value.is_told == (number > 0)
    # A step of one process is one that was started alone.
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    with pytest.raises(PenstockError, match="this process was started alone"):
        join()
