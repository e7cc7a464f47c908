"""
The numbers of a model under one variant: facts of its program, and times of its runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.errors import needing_onnx
from penstock.tools.reports.compare.variants import JobFile
from penstock.tools.session.model import Model, compile_model, read_model

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.program.executable import ProgramImage
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.executable import Executable
    from penstock.tools.session.options import CompileOptions
    from penstock.tools.session.session import Session

_SMALL = b"""
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %y = op.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "y", %y : tensor<4x4xf32>
}
"""
SEED = 1
"""Of random weights; inputs take the next one."""


class Failure(NamedTuple):
    """The text of an error of a variant."""

    text: str


class Bench:
    """One variant's side of a comparison: it has at most one model compiled."""

    def __init__(self, options: CompileOptions):
        from penstock.tools.driver.compiler import installed_compiler

        self._options = options
        self._front: tuple[Compiler, PassTable] = installed_compiler(options.load)
        self._executable: Executable | None = None
        self._session: Session | None = None
        self._inputs: dict[str, Array] = {}
        # Else the first file would pay for what all passes import.
        with suppress(PenstockError):
            self._compiled(Model(self._front[0].parse(_SMALL, "small"), {}, Path()))

    def compile(self, file: JobFile) -> dict[str, float]:
        """
        Compile a file; the metrics of its program, by name. Raises PenstockError where
        that cannot be.
        """
        self.close()
        model = _read(self._front[0], file)
        start = time.perf_counter()
        self._executable = self._compiled(model)
        seconds = time.perf_counter() - start
        return {**metrics_of(self._executable), "compile-time": seconds}

    def _compiled(self, model: Model) -> Executable:
        return compile_model(model, self._options, self._front)

    def load(self) -> None:
        """Load the compiled model, with random inputs for it, and run it once."""
        from penstock.tools.session.arrays import random_arrays
        from penstock.tools.session.session import Session

        assert self._executable is not None, "it was compiled"
        made = self._executable
        self._session = Session.of(made, made.threads, allow_source=True)
        ports = self._session.inputs(None)
        self._inputs = random_arrays(ports, SEED + 1)
        self.outputs()

    def outputs(self) -> dict[str, Array]:
        """The outputs of a run."""
        assert self._session is not None, "it was loaded"
        return self._session.run(self._inputs)

    def run(self, seconds: float) -> list[float]:
        """The seconds of each run of a turn that lasts about so long."""
        assert self._session is not None, "it was loaded"
        found: list[float] = []
        end = time.perf_counter() + seconds
        while not found or time.perf_counter() < end:
            start = time.perf_counter()
            self._session.run(self._inputs)
            found.append(time.perf_counter() - start)
        return found

    def close(self) -> None:
        """Let go of the model."""
        if self._session is not None:
            self._session.close()
        self._session = self._executable = None


def _read(compiler: Compiler, file: JobFile) -> Model:
    if file.path.suffix.lower() != ".onnx":
        return read_model(compiler, file.path)
    with needing_onnx():
        from penstock.tools.frontend.onnx.model import import_file

    seed = SEED if file.has_random_weights else None
    imported = import_file(file.path, random_weights=seed)
    compiler.verify(imported.module)
    return Model(imported.module, imported.weights, file.path.parent)


def metrics_of(executable: Executable) -> dict[str, float]:
    """The metrics of a program that need no run, by name."""
    from penstock.dialects.launch import ActorOp, ChunkOp, KernelOp

    ops = list(executable.program.body.block.ops)
    sizes: Counter[str] = Counter()
    for op in ops:
        if isinstance(op, ChunkOp):
            sizes.update(op.memory_report or {"peak": op.size.value.data})
    found: dict[str, float] = {
        "memory": sizes["peak"],
        "weights": sizes["variables"],
        "tasks": sum(isinstance(op, ActorOp) for op in ops),
        "kernels": sum(isinstance(op, KernelOp) for op in ops),
        "bytes-moved": bytes_moved(executable.image),
    }
    return found | ({"bound": sizes["bound"]} if sizes["bound"] else {})


def bytes_moved(image: ProgramImage) -> int:
    """
    The bytes that kernels and copies read and write in an iteration, as far as kernels
    tell.
    """
    from penstock.runtime.observe.program_info import ops_by_actor

    of_actors = zip(image.actors, ops_by_actor(image), strict=True)
    return sum(
        actor.repetitions * (op.bytes or 0) for actor, ops in of_actors for op in ops
    )


def difference(outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """
    The largest difference of outputs over the largest value expected of that output;
    infinite if they are not of one shape.
    """
    import numpy as np

    worst = 0.0
    for name, wanted in expected.items():
        found = outputs.get(name)
        if found is None or found.shape != wanted.shape:
            return float("inf")
        if wanted.size:
            wide = np.asarray(wanted, np.float64)
            error = np.abs(np.asarray(found, np.float64) - wide).max()
            worst = max(worst, float(error / max(np.abs(wide).max(), 1e-30)))
    return worst
