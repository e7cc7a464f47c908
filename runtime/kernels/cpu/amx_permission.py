"""
The permission of this process to use AMX tile registers, which Linux gives on request.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

FACTS = Path("/proc/cpuinfo")
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18
"""The call of Linux on x86-64, `ARCH_REQ_XCOMP_PERM`, and what it asks for."""


@cache
def may_use_amx() -> bool:
    """
    Whether the processor multiplies matrices of bytes, and this process is allowed to,
    with all of its threads. The first call asks for it.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        facts = FACTS.read_text(encoding="utf-8")
    except OSError:
        return False
    flags = next((line for line in facts.splitlines() if line.startswith("flags")), "")
    if "amx_int8" not in flags.split():
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0
