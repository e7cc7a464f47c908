"""
The transport of this process to the others that were started with it, which a session
joins when it opens a model of several ranks.

`penstock-run --ranks N` hands each process its rank and its sockets in the environment;
`mpiexec`, and what else starts the processes of MPI, says there which they are. Another
transport than `sockets` and `mpi` is named in `PENSTOCK_TRANSPORT`: a plug-in.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.plugins import PluginError, plugin_of
from penstock.runtime.errors import PenstockError
from penstock.runtime.transport.guard import Guarded, guarded
from penstock.runtime.transport.protocol import LivelyTransport, Transport
from penstock.runtime.transport.pulse import Pulse
from penstock.runtime.transport.record_folder import RECORDS

if TYPE_CHECKING:
    from penstock.runtime.core.watchdog import Watchdog

RANK = "PENSTOCK_RANK"
"""The variable of the environment with the rank of a process that we started."""
SOCKETS = "PENSTOCK_SOCKETS"
"""
The variable with the sockets of such a process: `<rank>=<file descriptor>` of each
other one, with blanks between them.
"""
STARTER = "PENSTOCK_STARTER"
"""The variable with the process that has started such a one."""
TRANSPORT = "PENSTOCK_TRANSPORT"
"""The variable with the name of the transport, if that is another one."""
OF_MPI = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK")
"""The variables that processes have which an MPI has started."""
OF_HOSTS = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
"""The variables with the number of such a process among those of its host."""
OF_SLURM = "SLURM_STEP_NUM_TASKS"
"""The variable with the number of processes of a step that `srun` has started."""


def is_joined() -> bool:
    """Whether this process was started as one of several ranks."""
    return any(name in os.environ for name in (RANK, *OF_MPI))


class Joined(NamedTuple):
    """The transport of this process, and its signs of life, if it gives any."""

    transport: Transport
    pulse: Pulse | None


def join() -> Transport:
    """
    The transport of this process, the same one at each call. Raises PenstockError for a
    process that was started alone, for an unknown transport and one that fails, and
    without mpi4py for a process that MPI has started.
    """
    return joined().transport


def watch(watchdog: Watchdog) -> None:
    """
    Join the others, and miss ranks whose processes do nothing for the time of a
    watchdog, as far as the transport tells that, and while they join: all ranks are
    ended then. Raises what `join` does.
    """
    if is_joined() and RANK not in os.environ and (guarded := own_guard()) is not None:
        guarded.be_patient(watchdog.seconds)
    if (pulse := joined().pulse) is not None:
        pulse.watch(watchdog.seconds, watchdog.clock)


@contextmanager
def ending_all() -> Generator[None]:
    """
    A context whose errors end all ranks, of a process that has joined them: a rank that
    is waited for would else keep the others for ever, in MPI's own end, too. Errors
    that all ranks share end each of them in the usual way.
    """
    try:
        yield
    except BaseException as error:
        is_shared = isinstance(error, PenstockError) and error.is_shared
        if is_joined() and not is_shared:
            abort_over(error, join())
        raise


def abort_over(error: BaseException, transport: Transport) -> None:
    """End all ranks over an error of this one."""
    if not isinstance(error, KeyboardInterrupt):
        transport.abort(str(error) or type(error).__name__)
        return
    if transport.rank > 0:
        # All are interrupted by a terminal, and the first one ends this one.
        time.sleep(INTERRUPT_SECONDS)
    transport.abort("interrupted")


@cache
def joined() -> Joined:
    """This process as one of several ranks. Raises what `join` does."""
    try:
        transport = _started_with()
    except PenstockError as error:
        numbers = (os.environ[name] for name in OF_HOSTS if name in os.environ)
        error.is_told = error.is_told or next(numbers, "0") != "0"
        if error.is_told:
            _end_all_on_error(None)
        raise
    _end_all_on_error(transport)
    if transport.size == 1 or not isinstance(transport, LivelyTransport):
        return Joined(transport, None)
    pulse = Pulse(transport)
    atexit.register(pulse.close)
    return Joined(transport, pulse)


def _started_with() -> Transport:
    """The transport to the processes that were started with this one."""
    if is_joined():
        usual = "sockets" if RANK in os.environ else "mpi"
        return transport_of(os.environ.get(TRANSPORT) or usual)
    refuse_slurm_alone()
    raise PenstockError(
        "this process was started alone: start as many as there are ranks, with "
        "mpiexec -n N, or with penstock-run --ranks N"
    )


def refuse_slurm_alone() -> None:
    """Raise PenstockError if Slurm has started several processes, and no MPI."""
    if not is_joined() and (count := os.environ.get(OF_SLURM, "1")) != "1":
        error = PenstockError(
            f"Slurm has started {count} processes without MPI: srun --mpi=pmix, or "
            "--mpi=pmi2, lets them find each other"
        )
        error.is_told = os.environ.get("SLURM_PROCID", "0") != "0"
        raise error


def transport_of(name: str) -> Transport:
    """A new transport of a kind of ours or of a plug-in. Raises PenstockError."""
    if (own := BUILT_IN.get(name)) is not None:
        return own()
    try:
        plugin = plugin_of("transport", name)
        made = plugin.call()
        if missing := [x for x in MEMBERS if not hasattr(made, x)]:
            plugin.refuse(f"returns no transport: it lacks {', '.join(missing)}")
    except PluginError as error:
        raise PenstockError(str(error)) from error
    return cast("Transport", made)


def mpi() -> Transport:
    """Messages over MPI, between the processes that it has started."""
    # It waits for all of them when it is imported.
    guarded = own_guard()
    from penstock.runtime.transport.mpi import MpiTransport

    return MpiTransport(guarded)


@cache
def own_guard() -> Guarded | None:
    """This process as one that a guard of its host sees, if there can be one."""
    if (found := guarded()) is not None:
        os.environ[RECORDS] = str(found.folder)
    return found


def sockets() -> Transport:
    """Messages over sockets, which each process was started with."""
    from penstock.runtime.transport.sockets import SocketTransport

    if RANK not in os.environ:
        raise PenstockError("sockets are handed to ranks by penstock-run --ranks N")
    _end_with_starter()
    rank, text = int(os.environ[RANK]), os.environ.get(SOCKETS, "")
    pairs = (pair.split("=") for pair in text.split())
    found = {int(peer): socket.socket(fileno=int(number)) for peer, number in pairs}
    return SocketTransport(rank, found)


BUILT_IN: Mapping[str, Callable[[], Transport]] = {"mpi": mpi, "sockets": sockets}
"""Our own transports, by the names that `penstock-opt --list transport` shows."""
INTERRUPT_SECONDS = 1.0
"""The time in which the first rank tells of an interrupt of all."""
END_WITH_PARENT = 1
"""Linux's `PR_SET_PDEATHSIG`."""
MEMBERS = ("abort", "close", "communicator", "rank", "size")
"""The names that each transport has."""


def _end_with_starter() -> None:
    """
    Let this process be killed once the one that has started it has ended, in whatever
    way, where the system can do that.
    """
    if sys.platform != "linux" or (starter := os.environ.get(STARTER)) is None:
        return
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != int(starter):
        raise PenstockError("the process that started all ranks has ended")


def _end_all_on_error(transport: Transport | None) -> None:
    """
    Let an exception that nothing handles end all ranks, as `ending_all` does for that
    of a command, and tell it once where all of them have it.
    """
    usual = sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if isinstance(error, PenstockError) and error.is_told:
            return
        if not isinstance(error, KeyboardInterrupt):
            usual(kind, error, trace)
            sys.stderr.flush()
        if transport is not None:
            abort_over(error, transport)

    sys.excepthook = end_all
