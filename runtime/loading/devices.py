"""The protocol of a kind of device, and the CPU as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.runtime.core.io_kernels import Callback, copy_kernel
from penstock.runtime.jit.cpu import CompiledKernel, compile_cpu
from penstock.runtime.jit.source_head import row_of
from penstock.runtime.loading.kernel_failures import compiling
from penstock.runtime.loading.memory import HostChunk
from penstock.runtime.program.executable import Kernel
from penstock.runtime.program.tables import Actor, Argument, Call, Fixed, Register

BUILT_IN: Mapping[str, str] = {
    "cpu": "The processor, and the memory of the host.",
    "cuda": "GPUs, or their simulator.",
}
"""The kinds of devices that need no plug-in."""


class Place(NamedTuple):
    """
    The stream and device of an actor, and whether it copies between that and the host.
    """

    stream: int
    device: int
    is_transfer: bool


class Wired(NamedTuple):
    """Registers and actors for tables; those given before keep their numbers."""

    registers: Sequence[Register]
    actors: Sequence[Actor]
    callbacks: Sequence[Callback] = ()


class Chunk(Protocol):
    """Memory at a fixed address of some device."""

    @property
    def address(self) -> int:
        """The address for kernels of the device; never 0."""
        ...

    def write(self, offset: int, array: npt.NDArray[np.generic]) -> None:
        """Copy an array of the host to the bytes from `offset` on."""
        ...

    def read(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of `size` bytes in the memory of the host."""
        ...


class Device(Protocol):
    """
    A kind of device. It lives as long as the programs that use it.
    """

    is_simulated: bool
    """Whether kernels are run by something that only stands in for the device."""

    def allocate(self, size: int, number: int = 0) -> Chunk:
        """Memory for `size` bytes on the device of this number, all zero."""
        ...

    def allocate_pinned(self, size: int, number: int = 0) -> Chunk:
        """Memory of the host, all zero, that is copied to and from this device."""
        ...

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The call that runs a kernel, compiled from its source, on arguments."""
        ...

    def copy(self, size: int, source: Argument, target: Argument) -> Call:
        """The call that copies bytes between the host and this device or within it."""
        ...

    def wire(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        places: Sequence[Place | None],
        worker: int,
    ) -> Wired:
        """
        A program in which actors that have a place work on this device. Actors that
        need a thread of their own are on this worker and those after it.
        """
        ...


class Cpu:
    """The processor: kernels are C functions on addresses of the host's memory."""

    is_simulated = False

    def __init__(self) -> None:
        self._kernels: list[CompiledKernel] = []
        self._sizes: list[npt.NDArray[np.int64]] = []

    def allocate(self, size: int, number: int = 0) -> HostChunk:
        """Memory for `size` bytes, all zero, from a page boundary on."""
        return HostChunk(size)

    allocate_pinned = allocate

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The call of the compiled kernel."""
        with compiling(kernel.name):
            compiled = compile_cpu(source, kernel.name)
        self._kernels.append(compiled)
        words = row_of(args, compiled.row, Fixed)
        return Call(compiled.address, tuple(words), parts=compiled.parts)

    def call_at(self, address: int, args: Sequence[Argument]) -> Call:
        """
        The call of a C function `int32(int64 args, int64 part, int64 parts)` at an
        address, where `args` points to the words of the arguments; 0 is success.
        """
        return Call(address, tuple(args))

    def copy(self, size: int, source: Argument, target: Argument) -> Call:
        """The call that copies bytes within the memory of the host."""
        self._sizes.append(np.array([size], np.int64))
        return Call(copy_kernel(), (Fixed(self._sizes[-1].ctypes.data), source, target))

    def wire(
        self,
        registers: Sequence[Register],
        actors: Sequence[Actor],
        places: Sequence[Place | None],
        worker: int,
    ) -> Wired:
        """The program as it is: the processor is driven by workers themselves."""
        return Wired(registers, actors)
