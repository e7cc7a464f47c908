"""
Convolutions by cuDNN: the one module that knows it.

The library is looked for in its package, which PyTorch for CUDA installs, too, and
where the system has it, and called through `ctypes` with the addresses that kernels
get. Sums have 32 bits for floats of 16, and no product is cut to fewer bits than its
factors have: TF32 is off. The memory that an algorithm needs besides is the program's,
so that convolutions may become part of graphs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock.runtime.cuda.driver import CudaError, Handle, Launch
from penstock.runtime.cuda.libraries.ctypes_base import (
    INT,
    POINTER,
    CLibrary,
    address_of,
)
from penstock.runtime.cuda.libraries.problems import Convolution, LibraryError, Sum

FILE = "libcudnn.so.9"
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 9}
"""cudnnDataType_t, also of sums."""
NCHW = 0
"""CUDNN_TENSOR_NCHW: filters without gaps."""
CORRELATION = 1
"""CUDNN_CROSS_CORRELATION: filters are not mirrored."""
TENSOR_MATH, FMA_MATH = 1, 3
"""cudnnMathType_t: on tensor cores, and without TF32."""
ALGORITHMS = 8
"""The number of algorithms of a convolution."""
MOST_ROOM = 1 << 28
"""The bytes that an algorithm may need besides its arguments."""
LEAST_DIMENSIONS = 2
"""The least dimensions of images without batch and channels that cuDNN takes."""
INTS = ctypes.POINTER(INT)


class Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t: the expected time and memory of an algorithm."""

    _fields_ = (
        ("algorithm", INT),
        ("status", INT),
        ("milliseconds", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", INT),
        ("math", INT),
        ("reserved", INT * 3),
    )


TENSOR, FILTER, CONVOLUTION = (
    f"cudnnCreate{name}Descriptor" for name in ("Tensor", "Filter", "Convolution")
)
SIGNATURES = {
    "cudnnCreate": (POINTER,),
    "cudnnSetStream": (POINTER, POINTER),
    **dict.fromkeys((TENSOR, FILTER, CONVOLUTION), (POINTER,)),
    "cudnnSetTensorNdDescriptor": (POINTER, INT, INT, INTS, INTS),
    "cudnnSetFilterNdDescriptor": (POINTER, INT, INT, INT, INTS),
    "cudnnSetConvolutionNdDescriptor": (POINTER, INT, INTS, INTS, INTS, INT, INT),
    "cudnnSetConvolutionGroupCount": (POINTER, INT),
    "cudnnSetConvolutionMathType": (POINTER, INT),
    "cudnnGetConvolutionForwardAlgorithm_v7": (
        *(POINTER, POINTER, POINTER, POINTER, POINTER),
        *(INT, INTS, ctypes.POINTER(Performance)),
    ),
    "cudnnGetConvolutionForwardWorkspaceSize": (
        *(POINTER, POINTER, POINTER, POINTER, POINTER),
        *(INT, ctypes.POINTER(ctypes.c_size_t)),
    ),
    "cudnnConvolutionForward": (
        *(POINTER, POINTER, POINTER, POINTER, POINTER, POINTER, POINTER),
        *(INT, POINTER, ctypes.c_size_t, POINTER, POINTER, POINTER),
    ),
}
"""The parameters of the functions that are used, all of which return a status."""


def open_cudnn() -> Cudnn:
    """cuDNN of this machine. Raises LibraryError if it is not there."""
    # It needs cuBLAS, which may be in a package that the system does not search.
    with suppress(Exception):
        finder: Any = import_module("cuda.pathfinder")
        finder.load_nvidia_dynamic_lib("cublasLt")
    for place in places():
        with suppress(OSError, AttributeError):
            return Cudnn(ctypes.CDLL(place))
    raise LibraryError(f"cuDNN is not installed: there is no {FILE}")


def places() -> Iterator[str]:
    """The places of the library: its package, then those of the system."""
    with suppress(ModuleNotFoundError):
        spec = find_spec("nvidia.cudnn")
        folders = spec.submodule_search_locations if spec is not None else None
        yield from (str(Path(x) / "lib" / FILE) for x in folders or ())
    yield FILE


@dataclass(frozen=True)
class Plan:
    """A convolution as cuDNN is told of it, and how it computes it."""

    descriptors: tuple[int, int, int, int]
    """Those of images, filters, the convolution and the result."""
    algorithm: int
    room: int
    """The bytes that the algorithm needs besides."""


class Cudnn(CLibrary):
    """Convolutions by a loaded library."""

    kinds: tuple[type[Sum], ...] = (Convolution,)
    creator = "cudnnCreate"
    signatures = SIGNATURES

    def __init__(self, api: Any):
        super().__init__(api)
        self._plans: dict[tuple[int, Sum], Plan] = {}

    def forget(self, device: int) -> None:
        """
        Forget a device whose context is lost, and the objects that were made for it.
        """
        super().forget(device)
        for key in [key for key in self._plans if key[0] == device]:
            del self._plans[key]

    def room(self, wanted: Sum, device: int) -> int:
        """The bytes that the algorithm needs besides its arguments."""
        return self._plan(wanted, device).room

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        """A launch of a convolution at these addresses."""
        handle, plan = self.handles[device], self._plan(wanted, device)
        images, filters, convolution, result = plan.descriptors
        x, w, o, room = (*words, 0)[:4]
        scalar = ctypes.c_double if wanted.element == "f64" else ctypes.c_float
        one, start = scalar(1.0), scalar(float(wanted.adds))
        arguments = (
            *(ctypes.addressof(one), images, x, filters, w, convolution),
            *(plan.algorithm, room, plan.room, ctypes.addressof(start), result, o),
        )

        # The scalars have to live as long as the function that uses them.
        def launch(stream: Handle, _kept: object = (one, start)) -> None:
            with self.lock:
                self.call("cudnnSetStream", handle, address_of(stream))
                self.call("cudnnConvolutionForward", handle, *arguments)

        return launch

    def _plan(self, wanted: Sum, device: int) -> Plan:
        """The plan of a convolution on a device."""
        assert isinstance(wanted, Convolution), "it is asked for nothing else"
        with self.lock:
            if (device, wanted) not in self._plans:
                try:
                    made = self._made_plan(wanted, self.handles[device])
                except CudaError as error:
                    raise LibraryError(str(error)) from error
                self._plans[device, wanted] = made
            return self._plans[device, wanted]

    def _made_plan(self, wanted: Convolution, handle: int) -> Plan:
        images, result = self.made(TENSOR), self.made(TENSOR)
        filters, convolution = self.made(FILTER), self.made(CONVOLUTION)
        self._describe(images, wanted, wanted.x_extents, wanted.x_steps)
        self._describe(result, wanted, wanted.o_extents, wanted.o_steps)
        kind = TYPES[wanted.element]
        extents = ints(with_dimensions(wanted.w_extents, 2, 1))
        given = kind, NCHW, len(extents), extents
        self.call("cudnnSetFilterNdDescriptor", filters, *given)
        strides = ints(with_dimensions(wanted.strides, 0, 1))
        dilations = ints(with_dimensions(wanted.dilations, 0, 1))
        none = ints([0] * len(strides))
        sums = TYPES["f64" if wanted.element == "f64" else "f32"]
        given = len(strides), none, strides, dilations, CORRELATION, sums
        self.call("cudnnSetConvolutionNdDescriptor", convolution, *given)
        self.call("cudnnSetConvolutionGroupCount", convolution, wanted.groups)
        descriptors = images, filters, convolution, result
        return self._fastest(handle, descriptors, wanted.element in ("f32", "f64"))

    def _describe(
        self,
        descriptor: int,
        wanted: Convolution,
        extents: Sequence[int],
        steps: Sequence[int],
    ) -> None:
        """Tell of images or of a result."""
        counts = with_dimensions(extents, 2, 1)
        apart = with_dimensions(steps, 2, 0)
        given = len(counts), ints(counts), ints(filled(apart, counts))
        self.call(
            "cudnnSetTensorNdDescriptor", descriptor, TYPES[wanted.element], *given
        )

    def _fastest(
        self, handle: int, descriptors: tuple[int, int, int, int], is_wide: bool
    ) -> Plan:
        """
        The algorithm expected to be fastest of those that do not need too much memory.
        Raises CudaError if there is none.
        """
        convolution = descriptors[2]
        math = FMA_MATH if is_wide else TENSOR_MATH
        self.call("cudnnSetConvolutionMathType", convolution, math)
        count, found = INT(), (Performance * ALGORITHMS)()
        expected = "cudnnGetConvolutionForwardAlgorithm_v7"
        self.call(
            expected, handle, *descriptors, ALGORITHMS, ctypes.byref(count), found
        )
        for entry in found[: count.value]:
            if entry.status:
                continue
            if not is_wide:
                self.call("cudnnSetConvolutionMathType", convolution, entry.math)
            size = ctypes.c_size_t()
            given = entry.algorithm, ctypes.byref(size)
            with suppress(CudaError):
                needed = "cudnnGetConvolutionForwardWorkspaceSize"
                self.call(needed, handle, *descriptors, *given)
                if size.value <= MOST_ROOM:
                    return Plan(descriptors, entry.algorithm, size.value)
        raise CudaError("no algorithm of cuDNN computes it")


def ints(values: Sequence[int]) -> ctypes.Array[ctypes.c_int]:
    """Numbers as an array of C."""
    return (ctypes.c_int * len(values))(*values)


def with_dimensions(values: Sequence[int], start: int, value: int) -> list[int]:
    """Numbers of which those from `start` on are of dimensions, which may be added."""
    missing = LEAST_DIMENSIONS - (len(values) - start)
    return [*values[:start], *[value] * missing, *values[start:]]


def filled(steps: Sequence[int], extents: Sequence[int]) -> list[int]:
    """Steps, with some for what there is but one of: behind what lies further in."""
    found: list[int] = []
    behind = 1
    for step, extent in zip(reversed(steps), reversed(extents), strict=True):
        found.append(step or behind)
        behind = max(behind, found[-1] * extent)
    return found[::-1]
