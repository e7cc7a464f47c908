"""
Compile a module and run it: where the compiler and the executor meet.

    with Session.open("model.mlir") as session:
        outputs = session.run({"x": x})
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from penstock.dialects.diagnostics import LocatedPassFailure
from penstock.dialects.job import JobOp
from penstock.dialects.launch import ChunkOp, KernelOp, ProgramOp
from penstock.dialects.plan import PlanOp
from penstock.tools.compiler import Compiler, installed_compiler, run_pipeline
from penstock.tools.diagnostics import UsageError, reject_if_any
from penstock.tools.files import explain_os_error
from penstock.tools.pass_pipeline import PassTable

if TYPE_CHECKING:
    from penstock.runtime.devices import Device
    from penstock.runtime.executor import Executor
    from penstock.runtime.initializers import Array

LEVELS = (JobOp, PlanOp, ProgramOp)
"""What can be run, from the highest level to the lowest."""


@dataclass
class Model:
    """
    A module to run, the values of variables that it does not say itself, and the
    folder in which the files of its initialisers are looked up.
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    directory: Path

    @property
    def entry(self) -> Operation:
        """
        The one job, plan or program of the module. Raises UsageError if there is none
        or more than one.
        """
        found = [op for op in self.module.body.block.ops if isinstance(op, LEVELS)]
        if len(found) != 1:
            raise UsageError(
                f"the module should hold one job, plan or program, got {len(found)}"
            )
        return found[0]


def read_model(compiler: Compiler, path: Path) -> Model:
    """Parse and verify a file of IR. Raises UsageError if it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    module = compiler.parse(data, str(path))
    compiler.verify(module)
    return Model(module, {}, path.parent)


def lower(
    compiler: Compiler,
    passes: PassTable,
    model: Model,
    device: str | None = None,
    streams: int = 1,
    *,
    simulate_ranks: bool = False,
) -> None:
    """
    Take a model's module, whatever its level, to a launch program, which is one for all
    ranks if they are to be simulated. Raises UsageError unless the module holds one
    thing to run, and `Rejected` if that cannot be lowered.
    """
    from penstock.lowering.pipelines import pipeline

    _ = model.entry
    text = pipeline(device, streams, simulate_ranks=simulate_ranks)
    run_pipeline(compiler, passes, model.module, text)


def program_of(model: Model) -> ProgramOp:
    """The launch program of a lowered model. Raises UsageError if it is not one."""
    if not isinstance(entry := model.entry, ProgramOp):
        raise UsageError(f"{entry.name} was not lowered to a launch program")
    return entry


def kernel_sources(
    program: ProgramOp, targets: Collection[str] = ("cpu", "cuda")
) -> dict[str, str]:
    """
    The source text of each kernel for one of these kinds of devices by its name.
    Raises `Rejected` with all in the kernels that has no source.
    """
    from penstock.lowering.numba_target import kernel_source

    sources: dict[str, str] = {}
    complaints: list[tuple[Operation, str]] = []
    for op in program.body.block.ops:
        if not isinstance(op, KernelOp) or op.target.data not in targets:
            continue
        try:
            sources[op.sym_name.data] = kernel_source(op)
        except LocatedPassFailure as failure:
            complaints += failure.complaints
    reject_if_any(complaints, "")
    return sources


def load(program: ProgramOp, model: Model, threads: int, engine: str) -> Executor:
    """
    Allocate and compile what a program needs. Raises PenstockError if it cannot run.
    """
    devices = open_devices(program)
    from penstock.runtime.executor import Executor
    from penstock.runtime.loader import load_program

    loaded = load_program(
        program,
        kernel_sources(program, ("cpu", *devices)),
        weights=model.weights,
        directory=model.directory,
        threads=threads,
        devices=devices,
    )
    return Executor(loaded, engine)


def open_devices(program: ProgramOp) -> dict[str, Device]:
    """
    The devices that a program needs besides the processor, by kind.

    It comes before anything that imports Numba, which reads only once whether CUDA is
    simulated.
    """
    kinds = {
        op.memory_case.device_kind for op in program.walk() if isinstance(op, ChunkOp)
    }
    if "cuda" not in kinds:
        return {}
    from penstock.runtime.cuda import open_cuda

    return {"cuda": open_cuda()}


class Session:
    """
    A compiled model, ready to run. Close it after use. The model's module becomes the
    launch program.

    `device` is the kind of device that jobs run on, if not where they say; `threads` is
    the number of workers and compute streams of the processor; `engine` is `actors`, or
    `sequential` for the reference executor. `simulate_ranks` runs what is meant for
    several processes in this one. Raises UsageError if the module does not hold one
    job, plan or program, `Rejected` if it cannot be compiled, PenstockError if
    it cannot be loaded.
    """

    def __init__(
        self,
        model: Model,
        *,
        device: str | None = None,
        threads: int = 1,
        engine: str = "actors",
        simulate_ranks: bool = False,
        compiler: tuple[Compiler, PassTable] | None = None,
    ):
        front, passes = compiler or installed_compiler()
        lower(front, passes, model, device, threads, simulate_ranks=simulate_ranks)
        self.program = program_of(model)
        self._executor = load(self.program, model, threads, engine)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        threads: int = 1,
        engine: str = "actors",
        simulate_ranks: bool = False,
    ) -> Self:
        """The session of a file of IR."""
        compiler = installed_compiler()
        model = read_model(compiler[0], Path(path))
        return cls(
            model,
            device=device,
            threads=threads,
            engine=engine,
            simulate_ranks=simulate_ranks,
            compiler=compiler,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_simulated(self) -> bool:
        """Whether CUDA kernels run in Numba's simulator."""
        devices = self._executor.program.devices
        return any(device.is_simulated for device in devices.values())

    @property
    def executor(self) -> Executor:
        """What runs the program."""
        return self._executor

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, for one array for each input by name."""
        return self._executor.run(inputs)

    def run_many(self, pieces: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """The outputs for each piece of inputs; the work on pieces overlaps."""
        return self._executor.run_many(pieces)

    def close(self) -> None:
        """End the threads of the executor."""
        self._executor.close()
