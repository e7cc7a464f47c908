"""Fixtures that compile and run the kernels of ops."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import cf

from penstock.dialects.interfaces import TensorOp, tensor_type
from penstock.dialects.kernel import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.numpy_types import dtype_of
from penstock.lowering.numba_target import kernel_source

Array: TypeAlias = NDArray[np.generic]
RunOp: TypeAlias = Callable[..., list[Array]]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

GUARD_BYTES = 64
GUARD = 0xA5


@pytest.fixture(scope="session", autouse=True)
def _cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compile into a folder of this session, unless the environment names one."""
    given = os.environ.get("PENSTOCK_CACHE_DIR")
    folder = Path(given) if given else tmp_path_factory.mktemp("kernels")
    os.environ["PENSTOCK_CACHE_DIR"] = str(folder)
    yield folder
    if given is None:
        del os.environ["PENSTOCK_CACHE_DIR"]


class Guarded:
    """A copy of an array at a multiple of 64 bytes, with guard bytes around it."""

    def __init__(self, array: Array):
        size = array.nbytes
        self._bytes = np.full(size + 3 * GUARD_BYTES, GUARD, np.uint8)
        start = GUARD_BYTES + -(self._bytes.ctypes.data) % GUARD_BYTES
        self._inside = slice(start, start + size)
        inside = self._bytes[self._inside]
        inside[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.array = inside.view(array.dtype).reshape(array.shape)

    @property
    def is_overrun(self) -> bool:
        """Whether something was written outside of the array."""
        outside = np.delete(self._bytes, self._inside)
        return bool((outside != GUARD).any())


@pytest.fixture
def run_kernel() -> RunKernel:
    """
    Run a kernel on arrays, one an argument, which are written in place.

    Raises `RuntimeError` with the text of a failed `cf.assert`, and `AssertionError`
    if anything outside of the arrays was written.
    """
    return _run_kernel


@pytest.fixture
def run_op() -> RunOp:
    """
    Run an op on arrays, one an operand, as a kernel on `cpu`; returns its results.

    Raises what `run_kernel` does.
    """

    def run(op: TensorOp, *arrays: Array) -> list[Array]:
        types = [tensor_type(value) for value in op.operands]
        for type, array in zip(types, arrays, strict=True):
            wanted = type.get_shape(), dtype_of(type.element_type)
            assert wanted == (array.shape, array.dtype), f"{type} is not {array.dtype}"
        results = [
            np.full(
                tensor_type(value).get_shape(),
                113,
                dtype_of(tensor_type(value).element_type),
            )
            for value in op.results
        ]
        _run_kernel(KernelOp("kernel", "cpu", kernel_body(op)), [*arrays, *results])
        return results

    return run


def _run_kernel(kernel: KernelOp, arrays: Sequence[Array]) -> None:
    from penstock.runtime.jit import compile_cpu

    kernel.verify()
    compiled = compile_cpu(kernel_source(kernel), kernel.sym_name.data)
    copies = [Guarded(array) for array in arrays]
    args = np.array([copy.array.ctypes.data for copy in copies], np.int64)
    status = compiled(args.ctypes.data)
    assert not any(copy.is_overrun for copy in copies), "written outside of a buffer"
    for copy, array in zip(copies, arrays, strict=True):
        array[...] = copy.array
    if status:
        asserts = [op for op in kernel.body.walk() if isinstance(op, cf.AssertOp)]
        raise RuntimeError(asserts[status - 1].msg.data)
