"""
Targets that print what kernels for `cuda` become, without a device.

    penstock-opt program.mlir -t cuda-ptx
    penstock-opt program.mlir -t 'cuda-sass{arch=sm_80}'
    penstock-opt program.mlir -t cuda-resources

They need the packages of the extra `cuda`, and `cuda-sass` needs a disassembler too:
`pip install nvidia-cuda-nvdisasm`.
"""

from __future__ import annotations

import json
import subprocess
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.errors import PenstockError
from penstock.runtime.jit.cubin import CompiledStage, capability_of, compile_kernels

FORMATS = ("text", "json")
NEEDS_DISASSEMBLER = "there is no disassembler: pip install nvidia-cuda-nvdisasm"


@dataclass(frozen=True)
class _CudaTarget(Target):
    """
    A target that compiles the kernels for `cuda` of a module, and prints a form of
    each.
    """

    arch: str = "sm_90"
    """The architecture to compile for."""

    def __post_init__(self) -> None:
        try:
            capability_of(self.arch)
        except PenstockError as error:
            raise ValueError(str(error)) from error

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        sources = {
            op.sym_name.data: kernel_source(op)
            for op in module.walk()
            if isinstance(op, KernelOp) and op.target.data == "cuda"
        }
        if not sources:
            raise DiagnosticException("there are no kernels for cuda")
        try:
            compiled = compile_kernels(sources, capability_of(self.arch))
        except PenstockError as error:
            raise DiagnosticException(str(error)) from error
        self.print(compiled, output)

    def print(
        self, compiled: Mapping[str, Sequence[CompiledStage]], output: IO[str]
    ) -> None:
        """Print all kernels."""
        for name, stages in compiled.items():
            output.writelines(f"{line}\n" for line in self.lines(name, stages))

    @abstractmethod
    def lines(self, kernel: str, stages: Sequence[CompiledStage]) -> Iterator[str]:
        """The lines that are printed for a kernel."""


@dataclass(frozen=True)
class CudaPtxTarget(_CudaTarget):
    """The target `cuda-ptx`, which prints the PTX of kernels."""

    name: ClassVar[str] = "cuda-ptx"

    def lines(self, kernel: str, stages: Sequence[CompiledStage]) -> Iterator[str]:
        for stage in stages:
            yield f"// kernel {kernel}, {stage.name}"
            yield stage.ptx


@dataclass(frozen=True)
class CudaSassTarget(_CudaTarget):
    """The target `cuda-sass`, which prints the machine code of kernels."""

    name: ClassVar[str] = "cuda-sass"

    def lines(self, kernel: str, stages: Sequence[CompiledStage]) -> Iterator[str]:
        for stage in stages:
            yield f"// kernel {kernel}, {stage.name}"
            yield disassembled(stage.cubin)


@dataclass(frozen=True)
class CudaResourcesTarget(_CudaTarget):
    """
    The target `cuda-resources`, which prints the registers of a thread and the bytes of
    kernels.
    """

    name: ClassVar[str] = "cuda-resources"

    format: str = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(f"unknown format '{self.format}', known are: {known}")

    def print(
        self, compiled: Mapping[str, Sequence[CompiledStage]], output: IO[str]
    ) -> None:
        if self.format != "json":
            super().print(compiled, output)
            return
        kernels = {name: [*map(_facts, stages)] for name, stages in compiled.items()}
        output.write(json.dumps(kernels) + "\n")

    def lines(self, kernel: str, stages: Sequence[CompiledStage]) -> Iterator[str]:
        yield f"kernel {kernel}"
        for stage in stages:
            unit = "blocks" if stage.blockwise else "threads"
            yield (
                f"  {stage.name}: {stage.items} {unit} of work, {stage.threads} "
                f"threads a block, {stage.registers} registers, "
                f"{stage.spill_stores + stage.spill_loads} bytes spilled, "
                f"{stage.stack} bytes stack, {stage.shared} bytes shared"
            )


def _facts(stage: CompiledStage) -> dict[str, object]:
    """The resources of a stage of a kernel as values for JSON, in bytes."""
    return {
        "name": stage.name,
        "work": stage.items,
        "unit": "blocks" if stage.blockwise else "threads",
        "threads": stage.threads,
        "registers": stage.registers,
        "spilled": stage.spill_stores + stage.spill_loads,
        "stack": stage.stack,
        "shared": stage.shared,
    }


def disassembled(cubin: bytes) -> str:
    """The text of machine code. Raises DiagnosticException without a disassembler."""
    try:
        tool = import_module("cuda.pathfinder").find_nvidia_binary_utility("nvdisasm")
    except ImportError:
        tool = None
    if tool is None:
        raise DiagnosticException(NEEDS_DISASSEMBLER)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        words = [str(tool), "-c", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DiagnosticException(f"nvdisasm failed: {done.stderr.strip()}")
    return done.stdout
