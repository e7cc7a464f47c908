"""
CUDA kernels run by NumPy: all threads of a block in step, one element of an array each.

`run_lanes` calls the very functions of a kernel's source, which has to be such that
the threads of a block take the same way through it, as blockwise phases do. Shuffles
and barriers are there, shared memory begins as NaN, and what would be wrong on a device
is an `AssertionError`: an index outside of a buffer, a vector that is not aligned, and
elements of shared memory that one thread writes and another one uses without a barrier
between. Phases whose threads work alone are run as one thread.
"""

# What kernels are made of is arrays of any type, or scalars.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from penstock.runtime import cuda_scalars as scalars
from penstock.runtime.cuda_phases import Phase
from penstock.runtime.cuda_scalars import *  # noqa: F403
from penstock.runtime.cuda_scalars import f32, i32

SUPPORT = "penstock.runtime.cuda_support"
WARP = 32
NOBODY, SEVERAL = -1, -2

inf, nan = math.inf, math.nan
i8, i16, u8, u16, u32, u64 = (
    np.int8,
    np.int16,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
)


class Block:
    """The block that runs: where it is in the grid, and what its threads share."""

    def __init__(self, number: int, blocks: int, threads: int):
        self.place, self.blocks, self.threads = number, blocks, threads
        self.lanes = i32(0) if threads == 1 else np.arange(threads, dtype=np.int32)
        self.active = self.lanes
        """The threads that come to what is done now."""
        self.interval = 0
        """The number of barriers so far."""


class _Running:
    block = Block(0, 1, 1)


def run_lanes(
    source: str, arrays: Sequence[NDArray[np.generic]], *, aligned: bool = True
) -> int:
    """
    Run the kernel of a module text on flat arrays, one an argument, which are written
    in place; booleans are `uint8`. Unless they are taken to be `aligned`, fallbacks run
    where there are some. Returns the code of the assertion that failed, or 0.
    """
    namespace: dict[str, object] = {
        "__builtins__": {**vars(builtins), "__import__": _import}
    }
    exec(compile(source, "<kernel>", "exec"), namespace)
    status = np.zeros(1, np.int32)
    buffers = [Buffer(array) for array in (*arrays, status)]
    with np.errstate(all="ignore"):
        for phase in cast("list[Phase]", namespace["PHASES"]):
            run_phase(phase if aligned else phase.fallback or phase, buffers)
    return int(status[0])


def _import(name, *arguments):
    """Import a module; what kernels are written in is this one."""
    if name == SUPPORT:
        return sys.modules[__name__]
    return builtins.__import__(name, *arguments)


def run_phase(phase: Phase, buffers: Sequence[Buffer]) -> None:
    """Run a phase, block after block."""
    if not phase.blockwise:
        with _running(Block(0, 1, 1)):
            phase.function(*buffers)
        return
    for number in range(phase.blocks):
        with _running(Block(number, phase.blocks, phase.threads)):
            phase.function(*buffers)


@contextmanager
def _running(block: Block):
    former, _Running.block = _Running.block, block
    try:
        yield
    finally:
        _Running.block = former


# Memory


class Buffer:
    """Elements in global memory. What all threads read may be read by one."""

    def __init__(self, array: NDArray[np.generic]):
        self.array = array

    def __getitem__(self, index):
        return self.array[self._checked(index)]

    def __setitem__(self, index, value):
        self.array[self._checked(index)] = value

    def _checked(self, index):
        inside = (np.asarray(index) >= 0) & (np.asarray(index) < self.array.size)
        assert inside.all(), f"an index is outside of {self.array.size} elements"
        return index


class Shared(Buffer):
    """Elements that the threads of a block share, and who used them since a barrier."""

    def __init__(self, size: int, dtype: type[np.generic]):
        super().__init__(np.full(size, nan, dtype))
        self._interval = -1
        self._writers, self._readers = np.zeros((2, size), np.int64)

    def __getitem__(self, index):
        touched, first, last = self._users(index)
        self._check(self._writers, touched, first, last, "reads what another wrote")
        known = (self._readers == NOBODY) | (self._readers == first)
        alone = np.where((first == last) & known, first, SEVERAL)
        self._readers[touched] = alone[touched]
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        touched, first, last = self._users(index)
        nobody = np.full_like(self._writers, SEVERAL)
        writers = np.where(first == last, self._writers, nobody)
        self._check(writers, touched, first, last, "writes what another wrote")
        self._check(self._readers, touched, first, last, "writes what another read")
        self._writers[touched] = first[touched]
        super().__setitem__(index, value)

    def _users(self, index):
        """Which elements are used, and by which threads: the first and the last one."""
        block = _Running.block
        if self._interval != block.interval:
            self._interval = block.interval
            self._writers[:] = self._readers[:] = NOBODY
        index, lanes = np.broadcast_arrays(self._checked(index), block.active)
        first = np.full(self.array.size, block.threads, np.int64)
        last = np.full(self.array.size, NOBODY, np.int64)
        np.minimum.at(first, index, lanes)
        np.maximum.at(last, index, lanes)
        return last >= 0, first, last

    @staticmethod
    def _check(users, touched, first, last, what):
        fine = (users == NOBODY) | ((users == first) & (first == last))
        assert fine[touched].all(), f"a thread {what}, without a barrier between"


class _Local(dict[int, object]):
    """The elements that each thread has for itself."""


cuda = SimpleNamespace(
    local=SimpleNamespace(array=lambda size, dtype: _Local()),
    shared=SimpleNamespace(array=Shared),
    syncthreads=lambda: _barrier(),
)
"""What kernels use of `numba.cuda`."""


def _barrier():
    _Running.block.interval += 1


def align_shared():
    """Let all shared memory begin at multiples of 16 bytes."""


def _load(count):
    def load(buffer, index):
        """So many elements at once; halves become `float32`."""
        assert not np.any(index % count), f"{count} elements are not aligned"
        parts = tuple(buffer[index + k] for k in range(count))
        is_half = parts[0].dtype == np.float16
        return tuple(map(f32, parts)) if is_half else parts

    return load


def _store(count):
    def store(buffer, index, values):
        """Store so many elements at once."""
        assert not np.any(index % count), f"{count} elements are not aligned"
        for k, value in enumerate(values):
            buffer[index + k] = value

    return store


def _store_if(count):
    store = _store(count)

    def store_if(condition, buffer, index, values):
        """Store so many elements at once where the condition holds."""
        index, values = _chosen(condition, index, values)
        with _only(condition):
            store(buffer, index, values)

    return store_if


load_2, load_4, load_8, load_16 = map(_load, (2, 4, 8, 16))
shared_4 = load_4
store_2, store_4, store_8, store_16 = map(_store, (2, 4, 8, 16))
store_2_if, store_4_if, store_8_if, store_16_if = map(_store_if, (2, 4, 8, 16))


take_4, put_4 = load_4, store_4_if


def store_if(condition, buffer, index, value):
    """Write an element of a buffer where the condition holds."""
    index, (value,) = _chosen(condition, index, (value,))
    with _only(condition):
        buffer[index] = value


def _chosen(condition, index, values):
    """Indices and values of the threads for which a condition holds."""
    lanes = _Running.block.lanes
    wanted, index, _ = np.broadcast_arrays(condition, index, lanes)
    return index[wanted], [np.broadcast_to(v, wanted.shape)[wanted] for v in values]


@contextmanager
def _only(condition):
    """Let only those threads be there for which a condition holds."""
    block = _Running.block
    wanted, lanes = np.broadcast_arrays(condition, block.lanes)
    block.active = lanes[wanted]
    try:
        yield
    finally:
        block.active = block.lanes


# Threads


def thread():
    """The number of a thread in its block."""
    return _Running.block.lanes


def threads():
    """The threads of a block."""
    return i32(_Running.block.threads)


def block():
    """The number of a block."""
    return i32(_Running.block.place)


def blocks():
    """The blocks of the grid."""
    return i32(_Running.block.blocks)


def first_item():
    """The first item of a thread's work."""
    return block() * threads() + thread()


def item_step():
    """From an item of a thread's work to the next."""
    return blocks() * threads()


def shuffle_xor(value, mask):
    """The value that the lane has whose number differs in the bits of the mask."""
    lanes = np.broadcast_to(value, (_Running.block.threads,)).reshape(-1, WARP)
    return lanes[:, np.arange(WARP) ^ mask].reshape(-1)


# Scalars


def select(condition, a, b):
    """`a` where the condition holds, else `b`; both are of one type."""
    return np.where(condition, a, b)[()]


def round_f16(value):
    """The nearest 16-bit float, as a `float32`."""
    return f32(np.float16(value))


def _lane_by_lane(function):
    """A function of scalars on what all threads have."""

    def of_lanes(*values):
        if not any(isinstance(value, np.ndarray) for value in values):
            return function(*values)
        results = [function(*one) for one in zip(*np.broadcast_arrays(*values))]  # noqa: B905
        return np.array(results)

    return of_lanes


erf, div_trunc, div_floor = map(
    _lane_by_lane, (scalars.erf, scalars.div_trunc, scalars.div_floor)
)
div_ceil, rem_trunc = map(_lane_by_lane, (scalars.div_ceil, scalars.rem_trunc))
shl, shr = map(_lane_by_lane, (scalars.shl, scalars.shr))
