"""The folder of the records of ranks, which their starter or their guard removes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

RECORDS = "PENSTOCK_RECORDS"
"""The variable of the environment with the folder."""
MEMORY = Path("/dev/shm")
"""The folder whose files lie in memory, where there is one that can be written."""


def folder_for_records() -> Path:
    """The folder in which those of records are made."""
    return MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
