"""Threads and buffers of CUDA kernels in Numba's simulator, one Python thread each."""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportMissingImports=false

from __future__ import annotations

from threading import current_thread

import numpy as np

from penstock.runtime.kernels.cuda.emulator.scalars import f32, from_bf16, i32, to_bf16

WIDENED = {np.dtype(np.float16): f32, np.dtype(np.uint16): from_bf16}
"""The functions that extend `f16` and `bf16` to `f32`."""


def thread():
    """The number of a thread in its block."""
    return i32(current_thread().threadIdx.x)


def threads():
    """The threads of a block."""
    return i32(_manager().block_state.size)


def block():
    """The number of a block."""
    return i32(current_thread().blockIdx.x)


def blocks():
    """The blocks of the grid."""
    return i32(np.prod(_manager()._grid_dim))


def _manager():
    """
    The manager of this block's threads, which a thread of Numba's simulator knows.
    """
    return current_thread()._manager


def first_item():
    """The first item of a thread's work."""
    return i32(block() * threads() + thread())


def item_step():
    """From an item of a thread's work to the next."""
    return i32(blocks() * threads())


def _load(count):
    def load(buffer, index):
        """So many elements at once; halves become `float32`."""
        assert index % count == 0, f"{count} elements at {index} are not aligned"
        parts = tuple(buffer[index + k] for k in range(count))
        widen = WIDENED.get(parts[0].dtype)
        return tuple(map(widen, parts)) if widen else parts

    return load


def _store(count):
    def store(buffer, index, values):
        """Store so many elements at once."""
        assert index % count == 0, f"{count} elements at {index} are not aligned"
        is_bf16 = buffer.dtype == np.uint16
        for k, value in enumerate(values):
            buffer[index + k] = to_bf16(value) if is_bf16 else value

    return store


load_2, load_4, load_8, load_16 = map(_load, (2, 4, 8, 16))
shared_2, shared_4 = load_2, load_4
store_2, store_4, store_8, store_16 = map(_store, (2, 4, 8, 16))


def _store_if(store):
    def store_if(condition, buffer, index, values):
        """Store several elements where the condition holds."""
        if condition:
            store(buffer, index, values)

    return store_if


store_2_if, store_4_if = _store_if(store_2), _store_if(store_4)
store_8_if, store_16_if = _store_if(store_8), _store_if(store_16)


take_2, take_4, put_2, put_4 = load_2, load_4, store_2_if, store_4_if


def align_shared():
    """Let all shared memory begin at multiples of 16 bytes."""


def load_if(condition, buffer, index, other):
    """An element of a buffer where the condition holds, else a number of its type."""
    return buffer[index] if condition else other


def store_if(condition, buffer, index, value):
    """Write an element of a buffer where the condition holds."""
    if condition:
        buffer[index] = value


def shuffle_xor(value, mask):
    """
    The value that the lane has whose number differs in the bits of the mask. All
    threads of the block have to come here.
    """
    return shared_by_threads(value)[current_thread().thread_id ^ mask]


def shared_by_threads(value):
    """
    The values of all threads of the block, by thread number. All threads have to call
    it.
    """
    current, slots = current_thread(), _manager().__dict__.setdefault("slots", {})
    slots[current.thread_id] = value
    current.syncthreads()
    found = dict(slots)
    current.syncthreads()
    return found
