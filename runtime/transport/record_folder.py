"""The folder of the records of ranks, which their starter or their guard removes."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

RECORDS = "PENSTOCK_RECORDS"
"""The variable of the environment with the folder."""
MEMORY = Path("/dev/shm")
"""The folder whose files lie in memory, where there is one that can be written."""


PARENT, START = 1, 19
"""The fields of `/proc/<pid>/stat` behind the state: the parent and the start."""


def facts_of(pid: int) -> list[str]:
    """The state of a process, and the fields behind it. Raises OSError without one."""
    text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    # Behind the name, which may hold anything.
    return text.rpartition(")")[2].split()


def folder_for_records() -> Path:
    """The folder in which those of records are made."""
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())


def folder_name(pid: int) -> str:
    """
    The name of a folder that is of use as long as this process is there, which no other
    process has, nor one of another container. Raises OSError without the process, or
    where systems do not tell.
    """
    return f"{_stem()}{pid}-{facts_of(pid)[START]}"


def _stem() -> str:
    return f"penstock-{os.getuid()}-{Path('/proc/self/ns/pid').stat().st_ino}-"


def new_folder() -> Path:
    """A new folder, which this process removes. Raises OSError."""
    remove_unused()
    name = "penstock"
    # Other systems have no such numbers of users or processes.
    with suppress(OSError, AttributeError):
        name = folder_name(os.getpid())
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder_for_records()))


def remove_unused() -> None:
    """Remove folders of processes that were killed, where systems tell of them."""
    with suppress(OSError, AttributeError):
        for path in folder_for_records().glob(f"{_stem()}*"):
            if not _is_of_use(path.name):
                shutil.rmtree(path, ignore_errors=True)


def _is_of_use(name: str) -> bool:
    pid = name.removeprefix(_stem()).split("-")[0]
    try:
        return f"{name}-".startswith(f"{folder_name(int(pid))}-")
    except OSError:
        return False
