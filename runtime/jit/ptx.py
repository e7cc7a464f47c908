"""
Offline CUDA compiler: source of a kernel to PTX by Numba and NVVM, then to machine code
by nvJitLink.

Worker processes (`penstock.runtime.jit.cubin_worker`) call `ptx_of` and `machine_of`
for each *stage*, a `__global__` function of a kernel. Neither a driver nor a toolkit is
needed, only the packages of the extra `cuda`. No other module knows of numba-cuda's
insides. Numba must not simulate CUDA in the process.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator, MutableMapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from penstock.runtime.errors import PenstockError
from penstock.runtime.jit.cubin import needs_cuda
from penstock.runtime.jit.known_signatures import known_signatures
from penstock.runtime.kernels.cuda.stages import Stage

ENTRY = re.compile(r"\.entry\s+(\w+)\s*\(")
ENVIRONMENT = re.compile(r"^\.common .*_ZN08NumbaEnv.*\n", re.MULTILINE)
PARAMETER = re.compile(r"\.param\s+\.(?:align\s+\d+\s+\.)?(\w+)\s+\S*_param_\d+")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
STACK = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
TOOLKIT = Path("/usr/local/cuda")
"""The folders in which NVVM is looked for, if there is no package of it."""


def complete(numpy: Any, environment: MutableMapping[str, str], toolkit: Path) -> None:
    """
    Prepare the import of numba-cuda: add a function that NumPy has no longer since 2.5,
    and name the folder of the toolkit, unless a package or the user does.
    """
    if not hasattr(numpy, "row_stack"):
        numpy.row_stack = numpy.vstack
    named = {"CUDA_HOME", "CUDA_PATH"} & environment.keys()
    if not named and (toolkit / "nvvm").is_dir() and not _has_nvvm():
        environment["CUDA_HOME"] = str(toolkit)


def _has_nvvm() -> bool:
    """Whether a package has NVVM."""
    try:
        return any(find_spec(f"nvidia.{name}.nvvm") for name in ("cu13", "cuda_nvcc"))
    except ModuleNotFoundError:
        return False


# Before anything imports it.
complete(np, os.environ, TOOLKIT)


class Resources(NamedTuple):
    """The resources of a kernel, in bytes but for the registers of a thread."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


class Machine(NamedTuple):
    """A stage compiled to machine code (a cubin), with its parameters and resources."""

    parameters: tuple[str, ...]
    """The types of the parameters, as in PTX."""
    resources: Resources
    cubin: bytes


PASSES = (
    "CUDATranslateBytecode",
    "FixupArgs",
    "IRProcessing",
    "GenericRewrites",
    "ReconstructSSA",
    "NopythonTypeInference",
    "PreLowerStripPhis",
    "IRLegalization",
    "CreateLibrary",
    "CUDANativeLowering",
    "CUDABackend",
)
"""
The passes of Numba's that run. The others, for closures, `with`, `literal_unroll` and
the like, find nothing to do in kernels.
"""


@cache
def _prepare() -> None:
    """
    Make Numba work without a driver and without NVRTC, and with fewer passes.

    NVRTC is asked only for the names of architectures; it is as large as all that is
    needed together. Uses of variables, which Numba looks for behind five passes, are
    looked for behind the last of these, as only the lowering asks for them.
    """
    cuda_paths, nvrtc = _numba("cuda_paths"), _numba("cudadrv.nvrtc")
    compiler: Any = _numba("compiler").CUDACompiler
    all_pipelines = compiler.define_pipelines

    def define_pipelines(self: Any) -> Any:
        (manager,) = all_pipelines(self)
        manager.passes[:] = [p for p in manager.passes if p[0].__name__ in PASSES]
        manager.finalize()
        return [manager]

    compiler.define_pipelines = define_pipelines
    processor: Any = _numba("core.postproc").PostProcessor
    find_uses, in_order = processor.run, _numba("core.transforms").canonicalize_cfg

    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        if emit_dels:
            find_uses(self, emit_dels, extend_lifetimes)
            return
        function = self.func_ir
        function.blocks, function.generator_info = in_order(function.blocks), None

    processor.run = run
    nvrtc.get_arch_option = _architecture
    unknown = cuda_paths._env_path_tuple("none", "")
    cuda_paths._get_nvrtc_path = lambda: unknown


def _numba(module: str) -> Any:
    """A module of numba-cuda, none of which carries types."""
    try:
        cuda = import_module("numba.cuda")
        found = import_module(f"numba.cuda.{module}")
    except ImportError as error:
        raise needs_cuda() from error
    if "numba_cuda" not in (cuda.__file__ or ""):
        raise needs_cuda()
    return found


def _architecture(major: int, minor: int, arch: str = "") -> str:
    """The name of NVRTC for an architecture."""
    return f"compute_{major}{minor}{arch}"


@contextlib.contextmanager
def _pretended(capability: tuple[int, int]) -> Generator[None]:
    """Let Numba believe that there is a device of a compute capability."""
    dispatcher = _numba("dispatcher")
    device = SimpleNamespace(compute_capability=capability)
    former = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: device
    try:
        yield
    finally:
        dispatcher.get_current_device = former


def ptx_of(stage: Stage, dtypes: Sequence[str], capability: tuple[int, int]) -> str:
    """
    The PTX of a stage for pointers to elements of these types, and one more to the
    status.
    """
    _prepare()
    types, from_dtype = _numba("types"), _numba("np.numpy_support").from_dtype
    elements = [np.dtype(dtype) for dtype in (*dtypes, "int32")]
    pointers = tuple(types.CPointer(from_dtype(dtype)) for dtype in elements)
    with _pretended(capability), known_signatures():
        text, _ = _numba("compiler").compile(
            stage.function,
            pointers,
            cc=capability,
            device=False,
            abi="numba",
            output="ptx",
            launch_bounds=(stage.threads, stage.least_blocks),
        )
    return _with_entry(cast("str", text), stage.function.__name__)


def _with_entry(ptx: str, name: str) -> str:
    """
    PTX with one entry of this name, and without Numba's data for exceptions: both have
    names that depend on what was compiled before.
    """
    entry = ENTRY.search(ptx)
    assert entry is not None, "each stage is an entry"
    return ENVIRONMENT.sub("", ptx).replace(entry[1], name)


def machine_of(ptx: str, capability: tuple[int, int]) -> Machine:
    """The machine code of the PTX of a stage."""
    cubin, log = _linked(ptx.encode() + b"\0", "sm_{}{}".format(*capability))
    parameters = tuple(PARAMETER.findall(ptx))
    return Machine(parameters, _resources(log), cubin)


def _linked(ptx: bytes, architecture: str) -> tuple[bytes, str]:
    """Machine code, and the log of the linker."""
    nvjitlink: Any = import_module("cuda.bindings.nvjitlink")
    handle = nvjitlink.create(2, [f"-arch={architecture}", "-verbose"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "kernel")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
        return bytes(cubin), log.decode(errors="replace")
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        text = log.decode(errors="replace").strip("\0\n ")
        raise PenstockError(f"nvJitLink failed: {text or error}") from error
    finally:
        nvjitlink.destroy(handle)


def _resources(log: str) -> Resources:
    """The resources of a kernel, by the log of the linker."""
    registers, stack, shared = (
        pattern.search(log) for pattern in (REGISTERS, STACK, SHARED)
    )
    assert registers is not None, log
    frame, stores, loads = map(int, stack.groups()) if stack else (0, 0, 0)
    used = int(shared[1]) if shared else 0
    return Resources(int(registers[1]), frame, stores, loads, used)
