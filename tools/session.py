"""
Compile a module and run it: where the compiler and the executor meet.

    with Session.open("model.mlir") as session:
        outputs = session.run({"x": x})
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.runtime.closing import Closing
from penstock.tools.errors import UsageError, explain_os_error
from penstock.tools.progress import Progress

if TYPE_CHECKING:
    from concurrent.futures import Future

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from penstock.dialects.job import JobOp
    from penstock.dialects.launch import ProgramOp
    from penstock.dialects.plan import PlanOp
    from penstock.runtime.devices import Device
    from penstock.runtime.executor import Executor
    from penstock.runtime.initializers import Array
    from penstock.runtime.jobs import JobExecutor
    from penstock.runtime.loader import Port
    from penstock.runtime.shared_variables import SharedVariables
    from penstock.runtime.stream import Stream
    from penstock.runtime.watchdog import Watchdog
    from penstock.tools.compiler import Compiler
    from penstock.tools.pass_pipeline import PassTable
    from penstock.tools.report import Report
    from penstock.tools.saved_plan.derived import Derived
    from penstock.tools.saved_plan.plan import Plan


KERNELS = "PENSTOCK_KERNELS"
"""The variable of the environment that names a kernel database for all sessions."""


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
    def entries(self) -> list[JobOp | PlanOp | ProgramOp]:
        """The jobs, plans and programs of the module, as they are listed."""
        from penstock.dialects.job import JobOp
        from penstock.dialects.launch import ProgramOp
        from penstock.dialects.plan import PlanOp

        ops = self.module.body.block.ops
        return [op for op in ops if isinstance(op, JobOp | PlanOp | ProgramOp)]

    @property
    def entry(self) -> Operation:
        """
        The one job, plan or program of the module. Raises UsageError if there is none
        or more than one.
        """
        found = self.entries
        if len(found) != 1:
            raise UsageError(
                f"the module should hold one job, plan or program, got {len(found)}"
            )
        return found[0]

    @property
    def has_several(self) -> bool:
        """Whether the module holds several jobs or plans, to be merged."""
        from penstock.dialects.launch import ProgramOp

        found = self.entries
        return len(found) > 1 and not any(isinstance(op, ProgramOp) for op in found)

    def only(self, job: str | None) -> Model:
        """
        A copy with one of several jobs or plans, to be looked at alone. Raises
        UsageError if none, or none of several, has this name.
        """
        copy = Model(self.module.clone(), self.weights, self.directory)
        if job is None or not self.has_several:
            return copy
        for op in copy.entries:
            if op.sym_name.data != job:
                op.detach()
                op.erase()
        if not copy.entries:
            known = ", ".join(op.sym_name.data for op in self.entries)
            raise UsageError(f"there is no job '{job}', the module has {known}")
        return copy


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
    model_jobs: bool = False,
    strategy: str = "parallelism",
    panels: bool = True,
    database: Path | None = None,
    winograd: bool = False,
) -> None:
    """
    Take a model's module, whatever its level, to a launch program, which is one for all
    jobs, and for all ranks if they are to be simulated; `model_jobs`, `strategy`,
    `panels`, `database` and `winograd` are those of the pipeline; where no kernel
    database is given, it is the one that the environment names, if it does. Raises
    UsageError if the module holds nothing to run, or something beside a program, or
    with `winograd` and `model_jobs`, and `Rejected` if what it holds cannot be lowered.
    """
    from penstock.lowering.pipelines import pipeline
    from penstock.tools.compiler import run_pipeline

    if winograd and model_jobs:
        raise UsageError("weights for Winograd are not loaded and saved by jobs")
    if not model.has_several:
        _ = model.entry
    text = pipeline(
        device,
        streams,
        simulate_ranks=simulate_ranks,
        merge=model.has_several or model_jobs,
        model_jobs=model_jobs,
        strategy=strategy,
        panels=panels,
        database=path_for_pass(database or database_of_environment()),
        winograd=winograd,
    )
    run_pipeline(compiler, passes, model.module, text)


def database_of_environment() -> Path | None:
    """
    The kernel database that `PENSTOCK_KERNELS` names, if it does; with a warning
    instead where that cannot be used.
    """
    if not (name := os.environ.get(KERNELS)):
        return None
    from penstock.lowering.selection.database import DatabaseError, KernelDatabase

    try:
        KernelDatabase(Path(name)).close()
    except DatabaseError as error:
        text = f"nothing counts as measured: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None
    return Path(name)


def path_for_pass(path: Path | None) -> str | None:
    """A path as the option of a pass. Raises UsageError if it cannot be one."""
    if path is None:
        return None
    text = str(path)
    if any(character in text for character in '"\\\n'):
        raise UsageError(f"the path of a kernel database has no quotes, got {path}")
    return text


def program_of(model: Model) -> ProgramOp:
    """The launch program of a lowered model. Raises UsageError if it is not one."""
    from penstock.dialects.launch import ProgramOp

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
    from penstock.dialects.diagnostics import LocatedPassFailure
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.numba_target import kernel_source
    from penstock.tools.diagnostics import reject_if_any

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


def cpu_sources(program: ProgramOp, sources: Mapping[str, str]) -> dict[str, str]:
    """Those of the sources that are of kernels for the processor."""
    from penstock.dialects.launch import KernelOp

    return {
        name: sources[name]
        for op in program.body.block.ops
        if isinstance(op, KernelOp) and op.target.data == "cpu"
        if (name := op.sym_name.data) in sources
    }


def load(
    program: ProgramOp,
    model: Model,
    threads: int,
    engine: str,
    *,
    show_progress: bool = False,
    shared: SharedVariables | None = None,
) -> JobExecutor:
    """
    Allocate and compile what a program needs, and show the progress on a terminal if
    wanted. Its variables are those of other programs with the same `shared`. Raises
    PenstockError if it cannot run.
    """
    from penstock.dialects.launch import ChunkOp

    cases = [op.memory_case for op in program.walk() if isinstance(op, ChunkOp)]
    devices = open_devices({case.device_kind for case in cases})
    from penstock.runtime.compile_pool import compile_missing
    from penstock.runtime.image import image_of
    from penstock.runtime.jobs import JobExecutor
    from penstock.runtime.loader import load_program_jobs
    from penstock.tools.compiling import ShownCpu

    sources = kernel_sources(program, ("cpu", *devices))
    with Progress("compiling kernels", len(sources)) as progress:
        shown = ShownCpu(progress) if show_progress else None
        compile_missing(
            cpu_sources(program, sources),
            done=(lambda name: None) if shown is None else shown.is_there,
        )
        if shown is not None:
            devices["cpu"] = shown
        loaded = load_program_jobs(
            program,
            sources,
            weights=model.weights,
            directory=model.directory,
            threads=threads,
            devices=devices,
            shared=shared,
        )
    return JobExecutor(image_of(program), loaded, engine)


def load_plan(plan: Plan, threads: int, engine: str) -> JobExecutor:
    """
    Allocate what a saved plan needs, and find its machine code. Raises PenstockError if
    it cannot run.
    """
    devices = open_devices(plan.devices)
    from penstock.runtime.compile_pool import compile_missing
    from penstock.runtime.jobs import JobExecutor
    from penstock.runtime.loader import load_jobs

    image, sources = plan.image, plan.derived.sources
    named = (kernel.name for kernel in image.kernels if kernel.target == "cpu")
    compile_missing({name: sources[name] for name in named})
    loaded = load_jobs(image, sources, plan.values, threads=threads, devices=devices)
    return JobExecutor(image, loaded, engine)


def open_devices(kinds: Collection[str]) -> dict[str, Device]:
    """
    The devices besides the processor among these kinds.

    It comes before anything that imports Numba, which reads only once whether CUDA is
    simulated.
    """
    if "cuda" not in kinds:
        return {}
    from penstock.runtime.cuda import open_cuda

    return {"cuda": open_cuda()}


class Session(Closing):
    """
    A compiled model, ready to run. Close it after use. The model's module becomes the
    launch program.

    `device` is the kind of device that jobs run on, if not where they say; `threads` is
    the number of workers and compute streams of the processor; `engine` is `actors`,
    `sequential` for the reference executor, or `sim` for a virtual clock.
    `simulate_ranks` runs what is meant for
    several processes in this one; `show_progress` shows on a terminal how many kernels
    are compiled. Several jobs, or plans, become one program, in which they share
    variables, memory, and inputs and outputs of one name; each is run by its name, at
    the same time as others if they share nothing, and `strategy` says which of them use
    the same memory in turn (`plan-merge-jobs`). With `model_jobs` the program has jobs
    that initialise, load and save all variables. Raises UsageError if the module holds
    nothing to run, or something beside a program, `Rejected` if it cannot be compiled,
    PenstockError if it cannot be loaded.

    With `allow_winograd` convolutions may be done with fewer products and less exact,
    as `op-use-winograd` says; neither `variables` nor `model_jobs` go with that.
    `variables` has those that are shared with other sessions; while one of these
    assigns to a variable, none that uses it may run. `kernels` is a kernel database
    (`penstock-run --tune` writes one): kernels are computed as was measured to be fast.
    """

    def __init__(
        self,
        model: Model,
        *,
        device: str | None = None,
        threads: int = 1,
        engine: str = "actors",
        simulate_ranks: bool = False,
        model_jobs: bool = False,
        strategy: str = "parallelism",
        compiler: tuple[Compiler, PassTable] | None = None,
        show_progress: bool = False,
        variables: SharedVariables | None = None,
        kernels: Path | None = None,
        allow_winograd: bool = False,
    ):
        from penstock.tools.compiler import installed_compiler

        front, passes = compiler or installed_compiler()
        lower(
            front,
            passes,
            model,
            device,
            threads,
            simulate_ranks=simulate_ranks,
            model_jobs=model_jobs,
            strategy=strategy,
            # What others assign to a variable is in no order but the usual one.
            panels=variables is None,
            database=kernels,
            winograd=allow_winograd,
        )
        self._program: ProgramOp | None = program_of(model)
        self._plan: Plan | None = None
        self._jobs = load(
            self._program,
            model,
            threads,
            engine,
            show_progress=show_progress,
            shared=variables,
        )
        from penstock.tools.model_state import has_model_jobs

        # Else nobody asks for what variables started from, which may be large.
        self._model = model if has_model_jobs(self._jobs) else None

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        threads: int = 1,
        engine: str = "actors",
        simulate_ranks: bool = False,
        model_jobs: bool = False,
        strategy: str = "parallelism",
    ) -> Self:
        """
        The session of a file of IR, or of a plan that `save` has written, which is not
        compiled again: it runs where, and on as many streams and ranks, and with the
        jobs, that it was compiled for.
        """
        from penstock.tools.saved_plan.plan import is_plan, read_plan

        if is_plan(Path(path)):
            plan = read_plan(Path(path), device)
            return cls.of_plan(plan, threads=threads, engine=engine)
        from penstock.tools.compiler import installed_compiler

        compiler = installed_compiler()
        model = read_model(compiler[0], Path(path))
        return cls(
            model,
            device=device,
            threads=threads,
            engine=engine,
            simulate_ranks=simulate_ranks,
            model_jobs=model_jobs,
            strategy=strategy,
            compiler=compiler,
        )

    @classmethod
    def of_plan(cls, plan: Plan, *, threads: int = 1, engine: str = "actors") -> Self:
        """The session of a saved plan."""
        session = cls.__new__(cls)
        session._program, session._plan, session._model = None, plan, None
        session._jobs = load_plan(plan, threads, engine)
        return session

    @property
    def program(self) -> ProgramOp:
        """The launch program that is run."""
        if self._program is None:
            from penstock.tools.compiler import installed_compiler

            assert self._plan is not None, "a session has a program or a plan"
            compiler, _ = installed_compiler()
            module = compiler.parse(self._plan.text.encode(), "program.mlir")
            self._program = program_of(Model(module, {}, Path()))
        return self._program

    @property
    def report(self) -> Report:
        """What the program is made of."""
        from penstock.tools.report import report_of

        if self._plan is not None:
            return self._plan.derived.report
        return report_of(self.program)

    @property
    def is_simulated(self) -> bool:
        """Whether CUDA kernels run in Numba's simulator."""
        devices = self._jobs.program.devices
        return any(device.is_simulated for device in devices.values())

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs that can be run."""
        return self._jobs.jobs

    @property
    def executor(self) -> Executor:
        """What runs the one job. Raises PenstockError if there are several."""
        return self._jobs.executor()

    def executor_of(self, job: str | None) -> Executor:
        """
        What runs a job, without what brings its inputs in and takes its outputs out.
        """
        return self._jobs.executor(job)

    def inputs(self, job: str | None = None) -> dict[str, Port]:
        """What `run` takes, by name."""
        return self._jobs.inputs(job)

    def run(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> dict[str, Array]:
        """
        The outputs by name, for one array for each input by name. The job may be left
        out if there is but one.
        """
        return self._jobs.run(inputs, job)

    def run_many(
        self, pieces: Sequence[Mapping[str, Array]], job: str | None = None
    ) -> list[dict[str, Array]]:
        """
        The outputs for each piece of inputs; the work on pieces overlaps if the job
        shares nothing with others.
        """
        return self._jobs.run_many(pieces, job)

    def stream(self, job: str | None = None, capacity: int = 2) -> Stream:
        """
        A run of a job whose inputs bring pieces as they come, and in unequal numbers:
        see `penstock.runtime.stream`. `capacity` pieces of an input wait at most. No
        other run of the job may be made until it is closed. Raises PenstockError for a
        job that takes turns with others.
        """
        return self._jobs.stream(job, capacity)

    def watch(self, watchdog: Watchdog) -> None:
        """
        Let a watchdog look at the runs of each job from now on: one without progress
        for its time raises WatchdogError. Raises PenstockError for the engine
        `sequential`.
        """
        self._jobs.watch(watchdog)

    def submit(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> Future[dict[str, Array]]:
        """
        Ask for what `run` does, and return at once: the future has the outputs. Several
        jobs, and several runs of one, may be under way; those of one job begin in the
        order in which they were asked for. The arrays must not change until then.
        """
        return self._jobs.submit(inputs, job)

    def state(self) -> dict[str, Array]:
        """
        A copy of all that runs can change: the whole array of each variable by name, in
        however many parts it lies, as they are between two runs. Where there are jobs
        over the model, one of them does it when its turn comes; else no run is under
        way meanwhile.
        """
        from penstock.tools.model_state import has_model_jobs, save_state

        if has_model_jobs(self._jobs):
            return save_state(self._jobs)
        from penstock.runtime.variables import read_variables

        with self._jobs.stopped():
            return read_variables(self._jobs.program)

    def load_state(self, state: Mapping[str, Array]) -> None:
        """
        Set all variables to what `state` once returned, here or in another session of
        the same model, between two runs. Raises PenstockError, and changes none, unless
        there is an array for each that fits, and no other.
        """
        from penstock.tools.model_state import has_model_jobs, load_state

        if has_model_jobs(self._jobs):
            load_state(self._jobs, state)
            return
        from penstock.runtime.variables import write_variables

        with self._jobs.stopped():
            write_variables(self._jobs.program, state)

    def init_model(self) -> None:
        """
        Set all variables to what they were when the session was opened: what their
        initialisers stand for, the weights of the model, or what the saved plan holds.
        Raises PenstockError if the program has no jobs over the model, or if a file of
        an initialiser is missing or does not fit.
        """
        from penstock.tools.model_state import INIT, initial_state, load_state

        self._need_model_jobs()
        if self._plan is not None:
            values = self._plan.weights
        else:
            assert self._model is not None, "a session has a model or a plan"
            model = self._model
            values = initial_state(self.program, model.weights, model.directory)
        load_state(self._jobs, values, INIT)

    def load_model(self, path: str | Path) -> None:
        """
        Set all variables to the arrays of an `.npz` or `.safetensors` file, or of a
        checkpoint. Raises PenstockError, and changes none, if the program has no jobs
        over the model, or unless there is an array for each that fits, and no other;
        UsageError if the file cannot be read.
        """
        from penstock.tools.checkpoint import Checkpoint
        from penstock.tools.model_files import read_model_file

        self._need_model_jobs()
        found = Path(path)
        is_folder = found.is_dir()
        self.load_state(
            Checkpoint(found, 0).state() if is_folder else read_model_file(found)
        )

    def save_model(self, path: str | Path) -> None:
        """
        Write all variables to an `.npz` or `.safetensors` file, as they are between two
        runs. Raises PenstockError if the program has no jobs over the model, UsageError
        if the file cannot be written.
        """
        from penstock.tools.model_files import write_model_file

        self._need_model_jobs()
        write_model_file(Path(path), self.state())

    def _need_model_jobs(self) -> None:
        from penstock.runtime.errors import PenstockError
        from penstock.tools.model_state import SAVE, has_model_jobs

        if not has_model_jobs(self._jobs):
            raise PenstockError(
                f"the program has no job '{SAVE}': open the session with "
                "model_jobs=True, of a model with variables"
            )

    def save(self, path: str | Path) -> None:
        """
        Write the compiled program, with its variables as they are now, to a file for
        `open`. Raises PenstockError if it cannot be written.
        """
        from penstock.tools.saved_plan.plan import save_plan

        text, derived = self._compiled()
        save_plan(Path(path), text, derived, self.state())

    def _compiled(self) -> tuple[str, Derived]:
        if self._plan is not None:
            return self._plan.text, self._plan.derived
        from penstock.tools.saved_plan.derived import derive
        from penstock.tools.saved_plan.plan import program_text

        program = self.program
        return program_text(program), derive(program, kernel_sources(program))

    def close(self) -> None:
        """End the threads of the executors."""
        self._jobs.close()
