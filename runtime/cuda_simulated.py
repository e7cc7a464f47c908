"""
The threads and buffers of CUDA kernels in Numba's simulator, where each thread is one
of Python.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false
# pyright: reportMissingImports=false

from __future__ import annotations

from threading import current_thread

import numpy as np

from penstock.runtime.cuda_scalars import i32


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
    """What runs the threads of this block: a thread of Numba's simulator knows it."""
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
        if parts[0].dtype == np.float16:
            return tuple(map(np.float32, parts))
        return parts

    return load


def _store(count):
    def store(buffer, index, values):
        """Store so many elements at once."""
        assert index % count == 0, f"{count} elements at {index} are not aligned"
        for k, value in enumerate(values):
            buffer[index + k] = value

    return store


load_2, load_4, load_8, load_16 = map(_load, (2, 4, 8, 16))
shared_4 = load_4
store_2, store_4, store_8, store_16 = map(_store, (2, 4, 8, 16))


def _store_if(store):
    def store_if(condition, buffer, index, values):
        """Store several elements where the condition holds."""
        if condition:
            store(buffer, index, values)

    return store_if


store_2_if, store_4_if = _store_if(store_2), _store_if(store_4)
store_8_if, store_16_if = _store_if(store_8), _store_if(store_16)


def take_4(buffer, index):
    """Four elements from a multiple of four on."""
    return load_4(buffer, index)


def put_4(condition, buffer, index, values):
    """Write four elements where a condition holds."""
    if condition:
        store_4(buffer, index, values)


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
    current, slots = current_thread(), _manager().__dict__.setdefault("slots", {})
    slots[current.thread_id] = value
    current.syncthreads()
    found = slots[current.thread_id ^ mask]
    current.syncthreads()
    return found
