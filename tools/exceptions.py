"""
Every exception that Penstock raises: `penstock.errors`.

All derive from `PenstockError`, and the text of each is what a person is told.
docs/failures.md says what each means.
"""

from penstock.runtime.cuda.driver import CaptureError, CudaError
from penstock.runtime.cuda.libraries.problems import LibraryError
from penstock.runtime.errors import (
    DeadlockError,
    KernelError,
    MessageError,
    OutOfMemory,
    PeerError,
    PenstockError,
    TaskError,
    WatchdogError,
)
from penstock.runtime.executors.stream import EndOfData, NoRoom
from penstock.tools.data.errors import DataError
from penstock.tools.driver.errors import (
    Diagnosis,
    FileError,
    InternalError,
    Rejected,
    UsageError,
)
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.schedules import ScheduleError
from penstock.tools.frontend.python.signature import ArgumentError
from penstock.tools.frontend.python.workspace import WorkspaceError
from penstock.tools.session.checkpoint import CheckpointError
from penstock.tools.session.saved_plan.archive import PlanError

__all__ = [
    "ArgumentError",
    "CaptureError",
    "CheckpointError",
    "CudaError",
    "DataError",
    "DeadlockError",
    "Diagnosis",
    "EndOfData",
    "FileError",
    "InternalError",
    "KernelError",
    "LibraryError",
    "MessageError",
    "NoRoom",
    "OutOfMemory",
    "PeerError",
    "PenstockError",
    "PlanError",
    "Rejected",
    "ScheduleError",
    "TaskError",
    "TraceError",
    "UsageError",
    "WatchdogError",
    "WorkspaceError",
]
