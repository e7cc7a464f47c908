"""
Compile a module and run it: where the compiler and the executor meet.

    with Session.open("model.mlir") as session:
        outputs = session.run({"x": x})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from penstock.notebook import Displayed
from penstock.runtime.options import ENGINES, Closing, check_name
from penstock.tools.driver.errors import reading
from penstock.tools.session.loading import load
from penstock.tools.session.model import (
    KERNELS,
    Model,
    lower,
    program_of,
    read_model,
)
from penstock.tools.session.options import (
    DEFAULTS,
    CompileOptions,
    Keywords,
    refuse_pipeline,
    with_keywords,
)
from penstock.tools.session.rank_programs import (
    agree_on_file,
    agree_on_model,
    compile_for,
    program_of_rank,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.dialects.launch import ProgramOp
    from penstock.runtime.core.watchdog import Watchdog
    from penstock.runtime.executors.bound import Bound
    from penstock.runtime.executors.executor import Executor
    from penstock.runtime.executors.stream import Stream
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.loader import Port
    from penstock.runtime.loading.shared_variables import SharedVariables
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.executable import Executable
    from penstock.tools.session.ranks import Ranks
    from penstock.tools.session.report import Report
    from penstock.tools.session.state_parts import StateParts

__all__ = [
    "KERNELS",
    "CompileOptions",
    "Model",
    "Session",
    "lower",
    "program_of",
    "read_model",
]


class Session(Closing, Displayed):
    """
    A compiled model, ready to run: one executable, loaded. Close it after use. The
    model's module becomes the launch program. `OnnxSession`, and the session of jobs in
    Python, run several of these.

    `options` has all that the model is compiled for, each of which may be given by
    keyword, too. `device` is the kind of device that jobs run on, if not where they
    say; `threads` is the number of workers and compute streams of the CPU;
    `simulate_ranks` runs what is meant for several processes in this one. `engine` is
    `actors`, `sequential` for the reference executor, or `sim` for a virtual clock;
    `show_progress` shows on a terminal how many kernels are compiled. Several jobs, or
    plans, become one program, in which they share variables, memory, and inputs and
    outputs of one name; each is run by its name, at the same time as others if they
    share nothing, and `strategy` says which of them use the same memory in turn
    (`plan-merge-jobs`). With `model_jobs` the program has jobs that initialise, load
    and save all variables. Raises `Rejected` if the module holds nothing to run, or
    something beside a program, or cannot be compiled, another PenstockError if it
    cannot be loaded, TypeError for an unknown keyword.

    With `allow_winograd` convolutions may be done with fewer products and less exact,
    as `op-use-winograd` says; neither `variables` nor `model_jobs` go with that.
    `variables` has those that are shared with other sessions; while one of these
    assigns to a variable, none that uses it may run. `kernels` is a kernel database
    (`penstock-run --tune` writes one): kernels are computed as was measured to be fast.
    With `plain_loops` kernels are computed as the loops that they mean, without
    schedules and alternatives. `guard` says what the streams of several threads may
    take, see `regst-plan-memory`.
    Variables that start from equal arrays of a file are one, unless `open` is asked to
    let them be several, with `separate_weights`.
    `pipeline` is the text of the pipeline that compiles, `edits` has edits of it, such
    as `skip op-fuse-rows`, and `load` the Python files of plug-ins, unless a `compiler`
    is given that knows them: see [pipelines](pipelines.md). Options that the pipeline
    gives, too, have to agree with it.
    `ranks` is the number of processes that were started together for a model that is
    placed on so many ranks: each has such a session, runs the program of its rank,
    which rank 0 compiles, feeds the inputs and gets the outputs that lie there (see
    [several processes](ranks.md)). Ranks that are joined already have compared what
    they ask for.
    A launch program whose kernels come with Python source of their own, or may reach
    outside of their memory, is refused, unless with `allow_source`, as these can do
    whatever you can.
    """

    def __init__(
        self,
        model: Model,
        options: CompileOptions = DEFAULTS,
        *,
        engine: str = "actors",
        compiler: tuple[Compiler, PassTable] | None = None,
        show_progress: bool = False,
        variables: SharedVariables | None = None,
        allow_source: bool = False,
        ranks: int | Ranks | None = None,
        **keywords: Unpack[Keywords],
    ):
        options = with_keywords(options, keywords)
        check_name("engine", engine, ENGINES)
        if variables is not None:
            # Other sessions assign values in the usual layout: weights stay unpacked.
            options = replace(options, panels=False)
        self._ranks = own = joined(ranks) if isinstance(ranks, int) else ranks
        with opening(own):
            if own is not None and isinstance(ranks, int):
                agree_on_model(own, model, options)
            executable = compile_for(
                own, model, options, compiler, allow_source=allow_source
            )
            if variables is not None:
                _refuse_packed_variables(executable)
            self._load(
                executable,
                executable.threads,
                engine,
                variables,
                show_progress=show_progress,
            )

    def _load(
        self,
        executable: Executable,
        threads: int,
        engine: str,
        shared: SharedVariables | None = None,
        *,
        show_progress: bool = False,
    ) -> None:
        from penstock.tools.session.model_state import has_model_jobs

        ranks = self._ranks
        names = () if ranks is None else ranks.jobs(executable.image.jobs)
        self._jobs = load(
            executable, threads, engine, shared, names, show_progress=show_progress
        )
        if ranks is not None:
            self._jobs.connect(ranks.transport)
        # Else nobody asks for what variables started from.
        is_asked = has_model_jobs(self._jobs)
        self._executable = executable if is_asked else executable.without_weights()

    @classmethod
    def open(
        cls,
        path: str | Path,
        options: CompileOptions = DEFAULTS,
        *,
        engine: str = "actors",
        allow_source: bool = False,
        ranks: int | None = None,
        **keywords: Unpack[Keywords],
    ) -> Self:
        """
        The session of a file of IR, or of a plan that `save` has written, which is not
        compiled again: it runs where, and on as many streams and ranks, and with the
        jobs, that it was compiled for. Errors of the file are raised with its name, and
        with the line if it is known.
        """
        from penstock.tools.session.saved_plan.plan import is_plan, read_plan

        options = with_keywords(options, keywords)
        check_name("engine", engine, ENGINES)
        own, path = None if ranks is None else joined(ranks), Path(path)
        if is_plan(path):
            refuse_pipeline(options)
            path = path if own is None else own.own_path(path)
            with opening(own):
                plan = read_plan(path, options.device, options.load)
                return cls.of(
                    plan,
                    options.threads,
                    engine,
                    allow_source=allow_source,
                    ranks=own,
                )
        with opening(own), reading(path):
            if own is not None:
                agree_on_file(own, path, options)
                if not own.is_first:
                    return cls.of_rank(own, path.parent, engine)
            from penstock.tools.driver.compiler import installed_compiler

            compiler = installed_compiler(options.load)
            return cls(
                read_model(
                    compiler[0], path, separate_weights=options.separate_weights
                ),
                options,
                engine=engine,
                compiler=compiler,
                allow_source=allow_source,
                ranks=own,
            )

    @classmethod
    def lower(
        cls,
        path: str | Path,
        level: str = "launch",
        options: CompileOptions = DEFAULTS,
        **keywords: Unpack[Keywords],
    ) -> str:
        """
        The text of a file of IR at a `level`, without a session: `job`, `plan`,
        `memory`, `launch`, or the `source` of its kernels. IR past a level stays as
        it is. Raises what `open` raises of compiling, and UsageError for an unknown
        level.
        """
        from penstock.tools.driver.compiler import installed_compiler
        from penstock.tools.session.lowered_text import text_at

        options = with_keywords(options, keywords)
        front = installed_compiler(options.load)
        with reading(path):
            apart = options.separate_weights
            model = read_model(front[0], Path(path), separate_weights=apart)
            return text_at(front, model, options, level)

    @classmethod
    def of(
        cls,
        executable: Executable,
        threads: int = 1,
        engine: str = "actors",
        *,
        allow_source: bool = False,
        ranks: Ranks | None = None,
    ) -> Self:
        """
        The session of an executable, such as a saved plan, which is that of this
        process if there are several `ranks`. Raises PenstockError for one whose kernels
        come with Python source of their own, or may reach outside of their memory,
        unless with `allow_source`, and UsageError for the plan of another process.
        """
        if not allow_source:
            executable.check_kernels()
        executable.check_ranks(ranks)
        session = cls.__new__(cls)
        session._ranks = ranks
        with opening(ranks):
            session._load(executable, threads, engine)
        return session

    @classmethod
    def of_rank(
        cls,
        ranks: Ranks,
        folder: Path,
        engine: str = "actors",
        *,
        show_progress: bool = False,
    ) -> Self:
        """
        The session of this rank, which is not the first one, of a model that rank 0
        compiles at the same time. Files of initialisers are looked up in a folder.
        """
        session = cls.__new__(cls)
        session._ranks = ranks
        with opening(ranks):
            executable = program_of_rank(ranks, folder)
            threads = executable.threads
            session._load(executable, threads, engine, show_progress=show_progress)
        return session

    @property
    def executable(self) -> Executable:
        """The executable, without the arrays that variables started from."""
        return self._executable

    @property
    def program(self) -> ProgramOp:
        """The launch program that is run."""
        return self._executable.program

    @property
    def report(self) -> Report:
        """The report about the program."""
        return self._executable.report

    @property
    def is_simulated(self) -> bool:
        """Whether CUDA kernels run in Numba's simulator."""
        devices = self._jobs.program.devices
        return any(device.is_simulated for device in devices.values())

    @property
    def ranks(self) -> Ranks | None:
        """The exchange with the processes of other ranks, if there are any."""
        return self._ranks

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs that can be run."""
        return self._jobs.jobs

    @property
    def executor(self) -> Executor:
        """The executor of the one job. Raises PenstockError if there are several."""
        return self._jobs.executor()

    def executor_of(self, job: str | None) -> Executor:
        """
        The executor of a job, without feeds of its inputs and fetches of its outputs.
        """
        return self._jobs.executor(job)

    def inputs(self, job: str | None = None) -> dict[str, Port]:
        """The inputs of `run`, by name."""
        return self._jobs.inputs(job)

    def run(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> dict[str, Array]:
        """
        The outputs by name, for one array for each input by name. The job may be left
        out if there is but one. Arrays that are contiguous are read where they are, and
        must not change until this returns. So are those of a job that computes element
        by element, with no variable but scalars, if the axes of all lie in one other
        order, as in Fortran: then the axes of its outputs lie so, too.
        """
        return self._jobs.run(inputs, job)

    def bind(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array] | None = None,
        job: str | None = None,
    ) -> Bound:
        """
        A run on arrays that stay the same, for as little time around it as can be:
        each `bound.run()` reads what the arrays of `inputs` hold then, and writes to
        those of `outputs`, by name, or to new ones, and returns these. Change the
        arrays between runs, not in one.

        Raises PenstockError unless all arrays are contiguous and fit, if an array of
        outputs has bytes of another array, and for a job that takes turns with others.
        """
        return self._jobs.bind(inputs, outputs, job)

    def quick(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """
        The outputs of `run` for arrays that can be read as they are, which a quick look
        tells; None, without a run, if it does not.
        """
        return self._jobs.quick(inputs)

    def run_many(
        self, pieces: Sequence[Mapping[str, Array]], job: str | None = None
    ) -> list[dict[str, Array]]:
        """
        The outputs for each piece of inputs; the work on pieces overlaps if the job
        shares nothing with others.
        """
        return self._jobs.run_many(pieces, job)

    def stream(
        self, job: str | None = None, capacity: int = 2, untaken: int | None = None
    ) -> Stream:
        """
        A run of a job whose inputs bring pieces as they come, and in unequal numbers:
        see `penstock.runtime.executors.stream`. `capacity` pieces of an input wait at
        most, and `untaken` pieces of an output (256): then `put` waits until one is
        taken. No other run of the job may be made until it is closed. Raises
        PenstockError for a job that takes turns with others.
        """
        from penstock.runtime.executors.stream import UNTAKEN

        limit = UNTAKEN if untaken is None else untaken
        return self._jobs.stream(job, capacity, limit)

    def watch(self, watchdog: Watchdog) -> None:
        """
        Let a watchdog look at the runs of each job from now on: one without progress
        for its time raises WatchdogError. Another rank whose process does nothing for
        that time ends all of them. Raises PenstockError for the engine `sequential`.
        """
        from penstock.runtime.transport.join import watch

        self._jobs.watch(watchdog)
        if self._ranks is not None:
            watch(watchdog)

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
        way meanwhile. On several ranks all call this, and get the same.
        """
        from penstock.runtime.loading.variables import under_all_names

        return under_all_names(self._jobs.program, self._state())

    def state_parts(self) -> StateParts:
        """
        The state as the parts that lie in this process, for `Checkpoints.save`, which
        is called on all ranks: so none has the whole of it.
        """
        from penstock.runtime.loading.variables import cuts_of, read_parts
        from penstock.tools.session.state_parts import StateParts

        program = self._jobs.program
        with self._jobs.stopped():
            return StateParts(read_parts(program), self._ranks, cuts_of(program))

    def _state(self) -> dict[str, Array]:
        """The state, with each variable under one name."""
        from penstock.runtime.loading.variables import whole_of
        from penstock.tools.session.model_state import has_model_jobs, saved_parts

        if self._ranks is None and has_model_jobs(self._jobs):
            return whole_of(saved_parts(self._jobs))
        parts = self.state_parts().cut()
        return whole_of(parts if self._ranks is None else self._ranks.parts(parts))

    def load_state(self, state: Mapping[str, Array]) -> None:
        """
        Set all variables to what `state` once returned, here or in another session of
        the same model, between two runs, on whatever number of ranks either is: all of
        them call this. Raises PenstockError, and changes none, unless there is an array
        for each that fits, and no other.
        """
        from penstock.runtime.loading.variables import under_one_name
        from penstock.tools.session.model_state import has_model_jobs, load_state

        state = under_one_name(self._jobs.program, state)
        if self._ranks is None and has_model_jobs(self._jobs):
            load_state(self._jobs, state, places=self.variable_places)
            return
        from penstock.runtime.loading.variables import name_of, write_variables

        program, places = self._jobs.program, self.variable_places
        if (ranks := self._ranks) is None:
            with self._jobs.stopped():
                write_variables(program, state, places)
            return
        own = [name_of(variable) for variable in program.variables]
        names = {name for given in ranks.values(own) for name in given}
        with self._jobs.stopped():
            write_variables(program, state, places, names, ranks.agree)

    def variable_places(self) -> dict[str, str]:
        """
        The line of each variable that was written in a file, by its name; none for a
        saved plan, whose lines nobody wrote.
        """
        from penstock.dialects.launch import VariableOp
        from penstock.dialects.utils.diagnostics import place_of
        from penstock.tools.session.saved_plan.plan import Plan

        if isinstance(self._executable, Plan):
            return {}
        found = [op for op in self.program.body.block.ops if isinstance(op, VariableOp)]
        places = {op.port_name: place_of(op) for op in found if op.init is not None}
        return {name: str(place) for name, place in places.items() if place is not None}

    def init_model(self) -> None:
        """
        Set all variables to what they were when the session was opened: what their
        initialisers stand for, the weights of the model, or what the saved plan holds.
        Raises PenstockError if the program has no jobs over the model, or if a file of
        an initialiser is missing or does not fit.
        """
        from penstock.runtime.loading.variables import write_variables
        from penstock.tools.session.model_state import INIT, load_state

        self._need_model_jobs()
        with self._executable.opened_weights() as weights:
            if (ranks := self._ranks) is None:
                load_state(self._jobs, weights, INIT)
                return
            # Each rank has those of its own variables.
            with self._jobs.stopped():
                places = self.variable_places
                write_variables(self._jobs.program, weights, places, agree=ranks.agree)

    def load_model(self, path: str | Path) -> None:
        """
        Set all variables to the arrays of an `.npz` or `.safetensors` file, or of a
        checkpoint. Raises PenstockError, and changes none, if the program has no jobs
        over the model, or unless there is an array for each that fits, and no other;
        UsageError if the file cannot be read.
        """
        from penstock.tools.session.model_files import read_state

        self._need_model_jobs()
        self.load_state(read_state(path))

    def save_model(self, path: str | Path) -> None:
        """
        Write all variables to an `.npz` or `.safetensors` file, as they are between two
        runs. Of several ranks all call this, and the first writes. Raises PenstockError
        if the program has no jobs over the model, UsageError if the file cannot be
        written.
        """
        from penstock.tools.session.model_files import write_model_file

        self._need_model_jobs()
        state = self.state()
        if self._ranks is None or self._ranks.is_first:
            write_model_file(Path(path), state)

    def _need_model_jobs(self) -> None:
        from penstock.runtime.errors import PenstockError
        from penstock.tools.session.model_state import SAVE, has_model_jobs

        if not has_model_jobs(self._jobs):
            raise PenstockError(
                f"the program has no job '{SAVE}': open the session with "
                "model_jobs=True, of a model with variables"
            )

    def save(self, path: str | Path) -> None:
        """
        Write the compiled program, with its variables as they are now, to a file for
        `open`. Of several ranks all call this, and each writes its own, to
        `plan-<rank>.penstock` for `plan.penstock`. Raises PenstockError if it cannot be
        written.
        """
        from penstock.tools.session.saved_plan.plan import save_plan

        path, executable, state = Path(path), self._executable, self._state()
        if self._ranks is not None:
            own = {x.port for x in executable.image.variables}
            state = {name: array for name, array in state.items() if name in own}
            path = self._ranks.own_path(path)
        save_plan(path, executable, state)

    def close(self) -> None:
        """End the threads of the executors."""
        self._jobs.close()


def _refuse_packed_variables(executable: Executable) -> None:
    """Raise PenstockError for variables that another program could not assign to."""
    from penstock.runtime.errors import PenstockError

    found = executable.image.variables
    packed = [x.port for x in found if x.port is not None and x.panels is not None]
    if packed:
        raise PenstockError(
            f"variables that are shared lie as their arrays do, but the pipeline packs "
            f"{', '.join(packed)}: give its launch- passes panels=false"
        )


def opening(ranks: Ranks | None) -> AbstractContextManager[None]:
    """A context in which all ranks, if there are several, open a session together."""
    return nullcontext() if ranks is None else ranks.opening()


def joined(count: int | None) -> Ranks:
    """
    This process as one of so many ranks, or of all that there are. Raises PenstockError
    for a process that was started alone, and UsageError if there are more or fewer.
    """
    from penstock.runtime.transport.join import join
    from penstock.tools.session.ranks import Ranks

    return Ranks(join(), count)
