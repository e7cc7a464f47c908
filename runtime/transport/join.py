"""
The transport of this process to the others that were started with it, which a session
joins when it opens a model of several ranks.

`penstock-run --ranks N` hands each process its rank and its sockets in the environment;
`mpiexec`, and what else starts the processes of MPI, says there which they are.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from types import TracebackType

from penstock.runtime.errors import PenstockError
from penstock.runtime.transport.protocol import Transport

RANK = "PENSTOCK_RANK"
"""The variable of the environment with the rank of a process that we started."""
SOCKETS = "PENSTOCK_SOCKETS"
"""
The variable with the sockets of such a process: `<rank>=<file descriptor>` of each
other one, with blanks between them.
"""
OF_MPI = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK")
"""The variables that processes have which an MPI has started."""


def is_joined() -> bool:
    """Whether this process was started as one of several ranks."""
    return any(name in os.environ for name in (RANK, *OF_MPI))


@cache
def join() -> Transport:
    """
    The transport of this process, the same one at each call. Raises PenstockError for a
    process that was started alone, and without mpi4py for one that MPI has started.
    """
    if RANK in os.environ:
        return _join_by_sockets(int(os.environ[RANK]), os.environ.get(SOCKETS, ""))
    if any(name in os.environ for name in OF_MPI):
        from penstock.runtime.transport.mpi import MpiTransport

        transport = MpiTransport()
        _end_all_on_error(transport)
        return transport
    raise PenstockError(
        "this process was started alone: start as many as there are ranks, with "
        "mpiexec -n N, or with penstock-run --ranks N"
    )


def _join_by_sockets(rank: int, text: str) -> Transport:
    from penstock.runtime.transport.sockets import SocketTransport

    pairs = (pair.split("=") for pair in text.split())
    sockets = {int(peer): socket.socket(fileno=int(number)) for peer, number in pairs}
    transport = SocketTransport(rank, sockets)
    _end_all_on_error(transport)
    return transport


def _end_all_on_error(transport: Transport) -> None:
    """
    Let an exception that nothing handles end all ranks: a rank that is waited for would
    else keep the others for ever, in MPI's own end, too.
    """
    usual = sys.excepthook

    def end_all(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        usual(kind, error, trace)
        sys.stderr.flush()
        transport.abort(str(error) or kind.__name__)

    sys.excepthook = end_all
