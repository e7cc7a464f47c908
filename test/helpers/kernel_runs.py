"""
Kernels on arrays: compiled as the runtime compiles them, in parts, or in the emulator.

A kernel works on copies of arrays, each with guards around it: bytes that are NaN as
floats, so that reads outside of an array show in results, and that have to stay as they
are. In a child of this process there is also a page that cannot be touched at one end.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import get_all_dialects as upstream_dialects
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit.cpu import compile_cpu
from penstock.runtime.loading.weight_layout import as_stored
from penstock.tools.session.program_export import panels_of

Array: TypeAlias = NDArray[Any]
End: TypeAlias = Literal["before", "behind"]

GUARD = 0xFF
GUARD_BYTES = 256
ALIGNMENT = 64
UNSET = {"f": np.nan, "V": np.nan, "i": -99, "u": 99, "b": True}
"""An element of a result before it is written, by the kind of its dtype."""


def parse_kernel(text: str) -> KernelOp:
    """Read one `launch.kernel` from its text."""
    context = Context()
    for name, factory in {**upstream_dialects(), **get_all_dialects()}.items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    module.verify()
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    kernel.detach()
    return kernel


class Guarded:
    """
    A copy of an array, so many elements behind a multiple of 64 bytes, with guards
    around it; or in memory that children share, at an end of pages that they must not
    leave.
    """

    def __init__(self, array: Array, offset: int = 0, end: End | None = None):
        size, skipped = array.nbytes, offset * array.itemsize
        if end is None:
            self._all = np.full(size + 3 * GUARD_BYTES, GUARD, np.uint8)
            start = GUARD_BYTES + -self._all.ctypes.data % ALIGNMENT + skipped
        else:
            self._all = pages_between_guards(size + offset * array.itemsize)
            start = (
                self._all.size - size if end == "behind" else offset * array.itemsize
            )
        self._rest = self._all[:start], self._all[start + size :]
        self.address = self._all.ctypes.data + start
        inside = self._all[start : start + size]
        self.array = inside.view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def is_overrun(self) -> bool:
        """Whether something was written outside of the array."""
        return any(bool((rest != GUARD).any()) for rest in self._rest)


def pages_between_guards(size: int) -> NDArray[np.uint8]:
    """Guard bytes in whole pages, with one before and behind that nobody may touch."""
    page = mmap.PAGESIZE
    whole = max(1, -(-size // page)) * page
    memory = mmap.mmap(-1, whole + 2 * page)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    for place in (first, first + page + whole):
        assert protect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0) == 0
    found = np.frombuffer(memory, np.uint8, whole, page)
    found[:] = GUARD
    return found


def flat(array: Array) -> Array:
    """A view of an array as devices have it: booleans are bytes."""
    line = array.reshape(-1)
    return line.view(np.uint8) if array.dtype == np.bool_ else line


def run_source(
    source: str,
    arrays: Sequence[Array],
    *,
    target: str = "cpu",
    parts: int = 1,
    offset: int = 0,
    end: End | None = None,
) -> int:
    """
    Run a kernel in parts, the last one first, on arrays, which are written in place.
    The code of the assertion that failed, or 0. With `end` it runs in a child of this
    process, with a page there that cannot be touched; for `cuda` in the emulator. With
    `offset` the first buffer lies so many elements behind a multiple of 64 bytes, and
    each other one that much farther.

    An array that is given twice is one buffer. Raises `AssertionError` if anything
    outside of the arrays was written, or the child has crashed.
    """
    if target == "cuda":
        # Whether Numba simulates CUDA is settled when this is imported.
        from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

        return run_lanes(source, [*map(flat, arrays)], aligned=offset == 0)
    copies = {
        id(array): Guarded(array, offset * (1 + number), end)
        for number, array in enumerate(arrays)
    }
    row = np.array([copies[id(array)].address for array in arrays], np.int64)
    compiled = compile_cpu(source, "kernel")

    def run() -> int:
        codes = [compiled(row.ctypes.data, n, parts) for n in reversed(range(parts))]
        return max(codes)

    code = run() if end is None else in_child(run)
    assert not any(x.is_overrun for x in copies.values()), "written out of a buffer"
    for array in arrays:
        array[...] = copies[id(array)].array
    return code


def in_child(run: Any) -> int:
    """The small number that a function returns in a child of this process."""
    if (child := os.fork()) == 0:
        code = 255
        with suppress(BaseException):
            code = int(run())
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status), f"the kernel ends its process with {status}"
    return os.WEXITSTATUS(status)


def run_on_copies(
    kernel: KernelOp | str, arrays: Sequence[Array], *, parts: int = 1
) -> list[Array]:
    """
    The arguments of a kernel, or of its source, after it has run on copies of these
    arrays without an error, as `run_source` does.
    """
    copies = {id(array): np.array(array, order="C") for array in arrays}
    found = [copies[id(array)] for array in arrays]
    target = "cpu" if isinstance(kernel, str) else kernel.compiled_for
    source = kernel if isinstance(kernel, str) else kernel_source(kernel)
    code = run_source(source, found, target=target, parts=parts)
    assert code == 0, f"the kernel ends with {code}"
    return found


def result_of(kernel: KernelOp, ins: Sequence[Array], parts: int = 1) -> Array:
    """
    The result of a kernel on operands, which it has to leave as they are, and which lie
    in panels where the kernel says so.
    """
    orders = [panels and panels_of(panels) for panels in kernel.panels]
    given = [as_stored(x, order) for x, order in zip(ins, orders, strict=False)]
    type = kernel.arguments[-1]
    dtype = dtype_of(type.element_type)
    unset = np.full(type.get_shape(), UNSET[dtype.kind], dtype)
    *after, out = run_on_copies(kernel, [*given, unset], parts=parts)
    for array, old in zip(after, given, strict=True):
        np.testing.assert_array_equal(array, old)
    return out
