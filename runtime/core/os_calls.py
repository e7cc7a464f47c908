"""
The clock, sleep and wake-up of compiled code, by calls of the C library.

Where there is no futex, as outside of Linux, a thread that sleeps looks again after 50
microseconds instead of being woken.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.core.atomics import WORD, Integer, compiled

MICROSECOND = 1_000

_X86 = platform.machine() in ("x86_64", "AMD64")
_FUTEX, _GETTID, _YIELD = {"x86_64": (202, 186, 24), "aarch64": (98, 178, 124)}.get(
    platform.machine(), (0, 0, 0)
)
_HAS_FUTEX = sys.platform == "linux" and _FUTEX != 0
_WAIT, _WAKE = 128, 129
_ALL = 1 << 30
_CLOCK = getattr(time, "CLOCK_MONOTONIC", 1)

_syscall: Callable[..., int] = types.ExternalFunction(
    "syscall", types.int64(*[types.int64] * 7)
)
_usleep: Callable[[Integer], int] = types.ExternalFunction(
    "usleep", types.int32(types.uint32)
)
_getcpu: Callable[[], int] = types.ExternalFunction("sched_getcpu", types.int32())
_setaffinity: Callable[[Integer, Integer, Integer], int] = types.ExternalFunction(
    "sched_setaffinity", types.int32(types.int32, types.int64, types.int64)
)


@intrinsic
def _now(_typing):
    def generate(context, builder, signature, args):
        time = cgutils.alloca_once(builder, WORD, 2)
        number = ir.IntType(32)
        kind = ir.FunctionType(number, [number, WORD.as_pointer()])
        read = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(read, [number(_CLOCK), time])
        seconds = builder.load(time)
        nanoseconds = builder.load(builder.gep(time, [WORD(1)]))
        return builder.add(builder.mul(seconds, WORD(1_000_000_000)), nanoseconds)

    return types.int64(), generate


@intrinsic
def _pause(_typing):
    def generate(context, builder, signature, args):
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), generate


now = cast("Callable[[], int]", _now)
"""Nanoseconds of a clock that only goes forward."""

pause = cast("Callable[[], None]", _pause)
"""Tell the processor that this thread waits for another one in a loop."""


@compiled(inline=False)
def sleep_on(word: Integer, seen: Integer, limit: Integer) -> None:
    """
    Sleep until `wake_all` is called for the word at an address, unless the lower half
    of it differs from `seen`, or a signal comes, or two words at the address `limit`,
    seconds and nanoseconds, have passed; 0 is no limit.
    """
    if _HAS_FUTEX:
        _syscall(_FUTEX, word, _WAIT, seen & 0xFFFFFFFF, limit, 0, 0)
    else:
        _usleep(50)


@compiled(inline=False)
def sleep(nanoseconds: Integer) -> None:
    """Sleep for about so long, less than a second."""
    _usleep(nanoseconds // MICROSECOND)


@compiled(inline=False)
def give_way() -> None:
    """Let another thread that waits for this core run first, if there is one."""
    if _HAS_FUTEX:
        _syscall(_YIELD, 0, 0, 0, 0, 0, 0)


@compiled(inline=False)
def wake_all(word: Integer) -> None:
    """Wake all threads of this process that sleep on the word at an address."""
    if _HAS_FUTEX:
        _syscall(_FUTEX, word, _WAKE, _ALL, 0, 0, 0)


@compiled(inline=False)
def core_number() -> int:
    """The number of the core that runs this thread, or -1 where that is unknown."""
    return _getcpu() if _HAS_FUTEX else -1


@compiled(inline=False)
def thread_number() -> int:
    """The number of this thread in the system, or 0 where that is unknown."""
    return _syscall(_GETTID, 0, 0, 0, 0, 0, 0) if _HAS_FUTEX else 0


@compiled(inline=False)
def allow_cores(thread: Integer, cores: Integer) -> None:
    """
    Keep a thread to some cores, given its number in the system and the address of a
    word with a bit for each of the first 64 cores.
    """
    if _HAS_FUTEX:
        _setaffinity(thread, 8, cores)
