"""
CUDA kernels run by NumPy: all threads of a block in step, one element of an array each.

`run_lanes` calls the very functions of a kernel's source, which has to be such that
the threads of a block take the same way through it, as blockwise stages do. Shuffles
and barriers are there, shared memory begins as NaN, and what would be wrong on a device
is an `AssertionError`: an index outside of a buffer, a vector that is not aligned, and
elements of shared memory that one thread writes and another one uses without a barrier
between, or that are used while a copy is on its way to them. Stages whose threads work
alone are run as one thread.
"""

# Generated kernels take arrays of any type, or scalars: nothing to annotate.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from penstock.runtime.kernels.cuda.emulator import scalars
from penstock.runtime.kernels.cuda.emulator.scalars import *  # noqa: F403
from penstock.runtime.kernels.cuda.emulator.scalars import f32, i32
from penstock.runtime.kernels.cuda.emulator.warp import (
    from_bf16,
    matrices_of,
    product_of,
    to_bf16,
)
from penstock.runtime.kernels.cuda.stages import Stage, stages_in
from penstock.runtime.testing.library_double import solve

SUPPORT = "penstock.runtime.kernels.cuda.support"
WARP = 32
NOBODY, SEVERAL = -1, -2
STATIC_BYTES = 48 * 1024
"""The shared memory that a function can declare."""
POISON = 0x7FFF
"""A NaN, as a float of 16 bits of either type."""
ON_ITS_WAY = "what a copy is still on its way to"

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

    def __init__(self, number: int, blocks: int, threads: int, dynamic: int = 0):
        self.place, self.blocks, self.threads = number, blocks, threads
        self.dynamic = dynamic
        """The bytes of shared memory that the launch asks for."""
        self.declared = 0
        """Those that the function has declared so far."""
        self.begun: list[Copy] = []
        """The copies that belong to no group yet."""
        self.groups: list[list[Copy]] = []
        """Those that are on their way, the oldest group first."""
        self.lanes = i32(0) if threads == 1 else np.arange(threads, dtype=np.int32)
        self.active = self.lanes
        """The threads that come to what is done now."""
        self.interval = 0
        """The number of barriers so far."""


class Copy(NamedTuple):
    """Elements on their way to shared memory, and the threads that copy them."""

    slots: Shared
    places: NDArray[np.integer]
    values: NDArray[np.generic]
    lanes: NDArray[np.int32]


class _Running:
    block = Block(0, 1, 1)


def run_lanes(
    source: str, arrays: Sequence[NDArray[np.generic]], *, aligned: bool = True
) -> int:
    """
    Run the kernel of a module text on flat arrays, one an argument, which are written
    in place; booleans are `uint8`. Unless they are taken to be `aligned`, fallbacks run
    where there are some. Calls of libraries are computed by a double. Returns the code
    of the assertion that failed, or 0.
    """
    namespace: dict[str, object] = {
        "__builtins__": {**vars(builtins), "__import__": _import}
    }
    exec(compile(source, "<kernel>", "exec"), namespace)
    status = np.zeros(1, np.int32)
    buffers = [Buffer(array) for array in (*arrays, status)]
    with np.errstate(all="ignore"):
        for step in _steps_in(namespace):
            if isinstance(step, LibraryCall):
                solve(step.kind, step.facts, [arrays[n] for n in step.arguments])
            else:
                run_stage(step if aligned else step.fallback or step, buffers)
    return int(status[0])


class LibraryCall(NamedTuple):
    """A stage that a library computes."""

    name: str
    library: str
    arguments: tuple[int, int, int]
    """The numbers of the factors and of the result among the kernel's arguments."""
    kind: str
    facts: Mapping[str, Any]


def _steps_in(namespace: Mapping[str, object]) -> list[Stage | LibraryCall]:
    """The stages and library calls of a kernel, in the order of their names."""
    stages = stages_in(namespace)
    calls = cast("list[Any]", namespace.get("LIBRARY_CALLS", []))
    named: list[tuple[str, Stage | LibraryCall]] = [
        (cast("Any", stage.function).__name__, stage) for stage in stages
    ]
    named += [(each.name, each) for each in (LibraryCall(*call) for call in calls)]
    return [step for _, step in sorted(named, key=lambda pair: _number_of(pair[0]))]


def _number_of(name: str) -> int:
    """The number of a stage, given the name of its function."""
    return int(name.split("_")[1])


def _import(name, *arguments):
    """Import a module; what kernels are written in is this one."""
    if name == SUPPORT:
        return sys.modules[__name__]
    return builtins.__import__(name, *arguments)


def run_stage(stage: Stage, buffers: Sequence[Buffer]) -> None:
    """
    Run a stage, block after block: half as many as there are items, so that each goes
    through several, as on a device that has room for fewer.
    """
    if not stage.blockwise:
        with _running(Block(0, 1, 1)):
            stage.function(*buffers)
        return
    blocks = -(-stage.blocks // 2)
    for number in range(blocks):
        block = Block(number, blocks, stage.threads, stage.dynamic_shared)
        with _running(block):
            stage.function(*buffers)
        left = [*block.begun, *block.groups]
        assert not left, "copies are still on their way"


@contextmanager
def _running(block: Block):
    former, _Running.block = _Running.block, block
    try:
        yield
    finally:
        _Running.block = former


# Memory


class Buffer:
    """Elements in global memory. Elements that all threads read may be read by one."""

    def __init__(self, array: NDArray[np.generic]):
        is_bf16 = array.dtype.name == "bfloat16"
        self.array = array.view(np.uint16) if is_bf16 else array

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
        block, each = _Running.block, np.dtype(dtype).itemsize
        block.declared += size * each
        assert block.declared <= STATIC_BYTES, "more than 48 KiB of shared memory"
        size = size or block.dynamic // each
        super().__init__(np.full(size, POISON if dtype is u16 else nan, dtype))
        self._interval = -1
        self._writers, self._readers = np.zeros((2, size), np.int64)
        self._awaited = np.zeros(size, np.bool_)
        """The elements that a copy is on its way to."""

    def __getitem__(self, index):
        touched, first, last = self._users(index)
        assert not self._awaited[touched].any(), f"a thread reads {ON_ITS_WAY}"
        self._check(self._writers, touched, first, last, "reads what another wrote")
        known = (self._readers == NOBODY) | (self._readers == first)
        alone = np.where((first == last) & known, first, SEVERAL)
        self._readers[touched] = alone[touched]
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._claim(index)
        super().__setitem__(index, value)

    def begin(self, index, values) -> Copy:
        """Begin to copy elements."""
        self._awaited[self._claim(index)] = True
        index, lanes = np.broadcast_arrays(index, _Running.block.active)
        return Copy(self, index, values, lanes)

    def arrive(self, copy: Copy) -> None:
        """End a copy: now its threads may use the elements."""
        touched, first, _ = self._users(copy.places, copy.lanes)
        self._awaited[touched] = False
        self._writers[touched] = first[touched]
        self.array[copy.places] = copy.values

    def _claim(self, index):
        """Let threads write elements, if they may; which ones these are."""
        touched, first, last = self._users(index)
        assert not self._awaited[touched].any(), f"a thread writes over {ON_ITS_WAY}"
        nobody = np.full_like(self._writers, SEVERAL)
        writers = np.where(first == last, self._writers, nobody)
        self._check(writers, touched, first, last, "writes what another wrote")
        self._check(self._readers, touched, first, last, "writes what another read")
        self._writers[touched] = first[touched]
        return touched

    def _users(self, index, lanes=None):
        """
        The elements that are used, and the first and the last thread that uses each.
        """
        block = _Running.block
        if self._interval != block.interval:
            self._interval = block.interval
            self._writers[:] = self._readers[:] = NOBODY
        active = block.active if lanes is None else lanes
        index, lanes = np.broadcast_arrays(self._checked(index), active)
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
    """The elements that each thread has for itself, and their number."""

    def __init__(self, size: int):
        super().__init__()
        self._size = size

    def __getitem__(self, index):
        return super().__getitem__(self._checked(index))

    def __setitem__(self, index, value):
        super().__setitem__(self._checked(index), value)

    def _checked(self, index):
        assert 0 <= index < self._size, f"{index} is outside of {self._size} elements"
        return index


cuda = SimpleNamespace(
    local=SimpleNamespace(array=lambda size, dtype: _Local(size)),
    shared=SimpleNamespace(array=Shared),
    syncthreads=lambda: _barrier(),
)
"""The part of `numba.cuda` that kernels use."""


def _barrier():
    _Running.block.interval += 1


def align_shared():
    """Let all shared memory begin at multiples of 16 bytes."""


WIDENED = {np.dtype(np.float16): f32, np.dtype(np.uint16): from_bf16}
"""The functions that extend `f16` and `bf16` to `f32`."""


def _load(count):
    def load(buffer, index):
        """So many elements at once; halves become `float32`."""
        assert not np.any(index % count), f"{count} elements are not aligned"
        parts = tuple(buffer[index + k] for k in range(count))
        widen = WIDENED.get(parts[0].dtype)
        return tuple(map(widen, parts)) if widen else parts

    return load


def _store(count):
    def store(buffer, index, values):
        """Store so many elements at once."""
        assert not np.any(index % count), f"{count} elements are not aligned"
        is_bf16 = buffer.array.dtype == u16
        for k, value in enumerate(values):
            buffer[index + k] = to_bf16(value) if is_bf16 else value

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
shared_2, shared_4 = load_2, load_4
store_2, store_4, store_8, store_16 = map(_store, (2, 4, 8, 16))
store_2_if, store_4_if, store_8_if, store_16_if = map(_store_if, (2, 4, 8, 16))


take_2, take_4, put_2, put_4 = load_2, load_4, store_2_if, store_4_if


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


# Tensor cores


def copy_async(slots, place, buffer, index, inside):
    """Begin to copy 16 bytes to shared memory; zeros where they are not `inside`."""
    dtype = slots.array.dtype
    assert dtype.itemsize == buffer.array.itemsize, "elements differ in size"
    count = 16 // dtype.itemsize
    is_off = np.any(place % count) or np.any(index % count)
    assert not is_off, f"{count} elements are not aligned"
    steps = np.arange(count)[:, None]
    values = buffer[index + steps].view(dtype)
    values = np.where(inside, values, dtype.type(0))
    _Running.block.begun.append(slots.begin(place + steps, values))


def copy_async_if(condition, slots, place, buffer, index, inside):
    """The same where a condition holds."""
    place, (index, inside) = _chosen(condition, place, (index, inside))
    with _only(condition):
        copy_async(slots, place, buffer, index, inside)


def commit_copies():
    """Make a group of all copies that were begun since the last one."""
    block = _Running.block
    block.groups.append(block.begun)
    block.begun = []


def await_copies(groups):
    """Wait until so many groups at most are on their way."""
    on_their_way = _Running.block.groups
    while len(on_their_way) > groups:
        for copy in on_their_way.pop(0):
            copy.slots.arrive(copy)


def copy_back(buffer, index, slots, place):
    """Copy 16 bytes of shared memory to a buffer."""
    dtype = buffer.array.dtype
    assert dtype.itemsize == slots.array.itemsize, "elements differ in size"
    count = 16 // dtype.itemsize
    is_off = np.any(place % count) or np.any(index % count)
    assert not is_off, f"{count} elements are not aligned"
    steps = np.arange(count)[:, None]
    buffer[index + steps] = slots[place + steps].view(dtype)


def copy_back_if(condition, buffer, index, slots, place):
    """The same where a condition holds."""
    index, (place,) = _chosen(condition, index, (place,))
    with _only(condition):
        copy_back(buffer, index, slots, place)


def put_word(slots, place, word):
    """Store two elements of shared memory, at an even place, as a word."""
    assert not np.any(place % 2), "2 elements are not aligned"
    word = np.asarray(word)
    slots[place] = word.astype(u16)
    slots[place + 1] = (word >> u32(16)).astype(u16)


def load_matrices(slots, place, turned=False):
    """Four matrices of 8 rows of 8 elements, each row named by a lane."""
    assert not np.any(place % 8), "a row of 8 elements is not aligned"
    rows = slots[np.arange(8)[:, None] + _of_all(place)]
    return tuple(matrices_of(np.ascontiguousarray(rows.T), turned))


def load_matrices_transposed(slots, place):
    """The same, each matrix with its rows as columns."""
    return load_matrices(slots, place, turned=True)


def _of_all(value):
    """The value of each thread of the block."""
    return np.broadcast_to(value, (_Running.block.threads,))


def _multiply(name):
    def multiply(*numbers):
        """Sums and the product of 16 by 16 and 16 by 8 elements."""
        parts = list(map(_of_all, numbers))
        return tuple(product_of(parts[:4], parts[4:8], parts[8:], name))

    return multiply


multiply_f16, multiply_bf16 = _multiply("f16"), _multiply("bf16")


def bits_of(buffer, index):
    """An element of 16 bits as it is in memory."""
    return buffer[index].view(u16)


def bits_if(condition, buffer, index):
    """An element of 16 bits where a condition holds, else a zero."""
    return np.where(condition, bits_of(buffer, np.where(condition, index, 0)), u16(0))


def _pack(bits):
    def pack(low, high):
        """A word of two numbers, the first in its low bits."""
        return bits(low).astype(u32) | (bits(high).astype(u32) << u32(16))

    return pack


pack_f16 = _pack(lambda value: np.asarray(value, np.float16).view(u16))
pack_bf16 = _pack(lambda value: np.asarray(to_bf16(value)))


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
