"""
Sessions: where jobs are compiled, keep their variables, and run.

    OPEN     --first call: all jobs so far are compiled-->  RUNNING  --close-->  CLOSED

A job that comes later is compiled when it is called first; jobs compiled before stay as
they are. A variable that several jobs of a session name is one variable, in one memory
for all of them, which lives as long as the session: they must define it alike.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Generator, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.access_queue import Access, AccessQueue, Use
from penstock.runtime.loading.shared_variables import SharedVariables
from penstock.runtime.loading.variables import read_variables, write_variables
from penstock.runtime.options import ENGINES, check_count, check_name
from penstock.runtime.program.executable import ProgramImage
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.driver.plugins import load_plugins
from penstock.tools.frontend.python.dispatcher import Call, Dispatcher
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.guards import Array
from penstock.tools.frontend.python.jobs import Job, TracedJob
from penstock.tools.frontend.python.linking import Linker, variables_alone
from penstock.tools.frontend.python.signature import Arguments
from penstock.tools.session import session as compiled
from penstock.tools.session.options import (
    DEFAULTS,
    Keywords,
    joined,
    with_keywords,
)

CACHE_SIZE = 16
"""For how many shapes a session keeps a job compiled, unless it is told otherwise."""


IN_FLIGHT = 64
"""The default limit of submitted calls of a job that have not ended."""


class SessionState(Enum):
    """The states of a session."""

    OPEN = "open"
    """Nothing is compiled yet."""
    RUNNING = "running"
    """The jobs that it knows are compiled; more may come."""
    CLOSED = "closed"
    """It has ended its threads, and runs nothing more."""


class Program:
    """
    One compiled job. Threads that run it at once take turns, and also with those who
    assign to its variables.
    """

    def __init__(
        self, traced: TracedJob, session: compiled.Session, accesses: AccessQueue
    ):
        self.name = traced.name
        self._rebuild = traced.rebuild
        self._session = session
        self._accesses = accesses
        self._lock = threading.Lock()
        self._closed = False
        image = session.executor.program.image
        self._use = use_of_variables(image)

    def access(self, *, first: bool = False) -> Access:
        """The access of a call to variables; it is to be run, or else to be ended."""
        return self._accesses.ask(self._use, first=first)

    def run(self, arrays: Mapping[str, Array], access: Access) -> object:
        """Run the job and return its results. Raises PenstockError if it fails."""
        try:
            self._accesses.begin(access)
            with self._lock:
                return self._run(arrays)
        finally:
            self._accesses.end(access)

    def _run(self, arrays: Mapping[str, Array]) -> object:
        if self._closed:
            raise PenstockError(f"{self.name}: the session is closed")
        try:
            return self._rebuild(self._session.run(arrays))
        except TaskError as error:
            self._explain(error)
            raise

    def _explain(self, error: TaskError) -> None:
        """Say which job, and which op of it, the task comes from."""
        ops = ", ".join(ops_of(self._session.executor.program.image, error.task))
        error.add_note(f"in job '{self.name}'{ops and f', by {ops}'}")

    def variable_places(self) -> dict[str, str]:
        """The lines that variables were written in, by their names."""
        return self._session.variable_places()

    def close(self) -> None:
        """Wait for the call that is running, and end the threads."""
        with self._lock:
            self._closed = True
            self._session.close()


Cache: TypeAlias = OrderedDict[Hashable, Program]
"""The programs of a job by what they are for; the one used last is the last."""


class Session:
    """
    The place where jobs are compiled, keep their variables, and run.

    In a `with` statement it is the current session of the process, in all threads: the
    one in which a call of a job runs. Close it after use.

    * `device`: the kind of device that jobs run on, `cpu`, `cuda` or that of a plug-in;
      where they say, if None.
    * `threads`: the number of workers, and of compute streams of the CPU.
    * `engine`: `actors`, or `sequential` for the reference executor.
    * `cache_size`: the number of shapes for which a job is kept compiled; the one that
      was used longest ago is dropped.
    * `in_flight`: the number of submitted calls of a job that may not have ended.
    * `watchdog`: seconds without progress after which calls are reported, and fail.
    * `pipeline`, `edits`, `load`: the pipeline that compiles jobs, as
      `cpu{threads=4 waves=true}`, edits of it, as `skip op-fuse-rows`, and Python files
      with plug-ins: see [pipelines](pipelines.md).

    Raises PenstockError for an option that is not possible.

    ```python
    from typing import Annotated

    import numpy as np

    import penstock
    from penstock import Tensor


    @penstock.job
    def double(x: Annotated[Tensor, (3,), "f32"]):
        return x + x


    with penstock.Session():
        assert double(np.ones(3, np.float32)).tolist() == [2, 2, 2]
    ```
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        threads: int = 1,
        engine: str = "actors",
        cache_size: int = CACHE_SIZE,
        in_flight: int = IN_FLIGHT,
        watchdog: float | None = None,
        pipeline: str | None = None,
        edits: Sequence[str | Edit] = (),
        load: Sequence[str | Path] = (),
    ):
        given: Keywords = {"device": device, "threads": threads, "pipeline": pipeline}
        given |= {"edits": edits, "load": load}
        self._options = with_keywords(DEFAULTS, given)
        check_name("engine", engine, ENGINES)
        check_count("cache_size", cache_size)
        check_count("in_flight", in_flight)
        self._engine = engine
        self._cache_size = cache_size
        self._state = SessionState.OPEN
        self._linker = Linker()
        self._dispatcher = Dispatcher(in_flight)
        self._accesses = AccessQueue()
        self._watchdog = None if watchdog is None else Watchdog(watchdog)
        self.variables = SharedVariables()
        """The memory of all variables that compiled jobs have."""
        self._waiting: dict[str, Job] = {}
        self._uncalled: dict[str, Job] = {}
        """Those that were to be compiled, but whose shapes have names."""
        self._caches: WeakKeyDictionary[Job, Cache] = WeakKeyDictionary()
        # The one is held for a moment, the other while something is compiled.
        self._lock = threading.Lock()
        self._compiling = threading.RLock()

    @property
    def state(self) -> SessionState:
        """The state: `OPEN` until jobs are compiled, `RUNNING`, or `CLOSED`."""
        return self._state

    def __enter__(self) -> Self:
        _current.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _current.remove(self)
        self.close(cancel=error is not None)

    def add(self, job: Job) -> None:
        """
        Compile a job at the first call of any job, if its shapes are known by then.

        A `job` of the same name that waits for it is replaced.
        """
        check_job(job)
        with self._lock:
            if self._state is SessionState.OPEN:
                self._waiting[job.name] = job

    def call(self, job: Job, *args: object, **options: object) -> Any:
        """The result of a run of `job` for `args` and `options`: see `Job.__call__`."""
        check_job(job)
        arguments = job.signature.bind(args, options)
        program = self._program(job, arguments)
        # A callback must not wait for what waits for it to end.
        access = program.access(first=self._dispatcher.is_own_thread)
        return program.run(arguments.arrays, access)

    def submit(self, job: Job, *args: object, **options: object) -> Future[Any]:
        """
        A future of the result of a run of `job` for `args` and `options`: see
        `Job.submit`.

        The call runs after those of the job before it, and after others before it that
        assign to variables of the job, or use those that it assigns to. The arrays are
        copied, and may be changed at once. This waits while too many calls of the job
        are in flight.
        """
        check_job(job)
        arguments = job.signature.bind(args, options)
        program = self._program(job, arguments)
        arrays = {name: np.copy(array) for name, array in arguments.arrays.items()}

        def prepare() -> Call:
            access = program.access()
            return Call(
                lambda: program.run(arrays, access), lambda: self._accesses.end(access)
            )

        future = self._dispatcher.submit(job, prepare)
        if future is None:
            raise _closed()
        return future

    def read_variables(self) -> dict[str, Array]:
        """
        A copy of each variable by its name, between two calls.

        Like a first call it compiles all jobs so far. Variables of a job whose extents
        have names are there before its first call, unless they depend on these, or on
        the length of a list or the keys of a dictionary.
        """
        self._start_waiting()
        with self._all_variables(Use(reads=frozenset(self.variables.names))):
            return read_variables(self.variables)

    def write_variables(self, values: Mapping[str, Array]) -> None:
        """
        Set all variables to `values`, arrays by name, between two calls.

        Like a first call it compiles all jobs so far.

        Raises PenstockError, and changes none, unless there is an array for each that
        fits, and no other.
        """
        self._start_waiting()
        with self._all_variables(Use(writes=frozenset(self.variables.names))):
            write_variables(self.variables, values, self._variable_places)

    def _variable_places(self) -> dict[str, str]:
        """The line of each variable of a compiled job, by its name."""
        with self._lock:
            programs = [x for cache in self._caches.values() for x in cache.values()]
        return {k: v for x in programs for k, v in x.variable_places().items()}

    @contextmanager
    def _all_variables(self, use: Use) -> Generator[None]:
        """A use of variables, once it is its turn."""
        access = self._accesses.ask(use, first=self._dispatcher.is_own_thread)
        try:
            self._accesses.begin(access)
            with self._compiling:
                yield
        finally:
            self._accesses.end(access)

    def close(self, *, cancel: bool = False) -> None:
        """
        Wait for calls that are running or were submitted, and end all threads.

        With `cancel`, calls that have not started are cancelled. Results stay valid.
        """
        with self._lock:
            self._state = SessionState.CLOSED
        self._dispatcher.close(cancel=cancel)
        with self._compiling:
            caches = list(self._caches.values())
            self._caches.clear()
        for cache in caches:
            for program in cache.values():
                program.close()

    def compiled_shapes(self, job: Job) -> list[Hashable]:
        """The shapes that `job` is compiled for, those used last at the end."""
        with self._lock:
            return list(self._caches.get(job, ()))

    # Compiling

    def _program(self, job: Job, arguments: Arguments) -> Program:
        key = tuple(arguments.key)
        return self._known(job, key) or self._compiled(job, key, arguments)

    def _known(self, job: Job, key: Hashable) -> Program | None:
        with self._lock:
            if self._state is SessionState.CLOSED:
                raise _closed()
            cache = self._caches.get(job)
            if cache is None or (program := cache.get(key)) is None:
                return None
            cache.move_to_end(key)
            return program

    def _compiled(self, job: Job, key: Hashable, arguments: Arguments) -> Program:
        with self._compiling:
            if (program := self._known(job, key)) is not None:
                return program
            load_plugins(self._options.load)
            if self._state is SessionState.OPEN:
                self._start(job)
            if (program := self._known(job, key)) is not None:
                return program
            traced = job.traced_for(arguments)
            self._build([(job, key, traced)])
            program = self._known(job, key)
            assert program is not None, "it was used last"
            return program

    def _start_waiting(self) -> None:
        with self._compiling:
            load_plugins(self._options.load)
            if self._state is SessionState.OPEN and self._waiting:
                self._start()
            while self._uncalled:
                _, job = self._uncalled.popitem()
                self._make_variables(job)

    def _make_variables(self, job: Job) -> None:
        """
        Make the variables of a job that has not been called and whose extents have
        names, as far as they do not depend on these.
        """
        traced = variables_alone(job, self.variables.names)
        if traced is not None:
            self._linker.link([traced])
            # They lie in memory of this session.
            self._loaded(traced).close()

    def _start(self, *first: Job) -> None:
        """
        Compile all jobs that wait and have one shape. If something is wrong with one,
        later calls compile just their own.
        """
        with self._lock:
            jobs = {**self._waiting, **{job.name: job for job in first}}
            self._waiting.clear()
        traced: list[tuple[Job, Hashable, TracedJob]] = []
        errors: list[TraceError] = []
        for job in jobs.values():
            if not job.signature.is_static:
                self._uncalled[job.name] = job
                continue
            try:
                traced.append((job, (), job.trace()))
            except TraceError as error:
                errors.append(error)
        if errors:
            raise errors[0] if len(errors) == 1 else _joined(errors)
        self._build(traced)
        with self._lock:
            if self._state is SessionState.OPEN:
                self._state = SessionState.RUNNING

    def _build(self, jobs: Sequence[tuple[Job, Hashable, TracedJob]]) -> None:
        self._linker.link([traced for _, _, traced in jobs])
        for job, key, traced in jobs:
            program = Program(traced, self._loaded(traced), self._accesses)
            self._keep(job, key, program)

    def _loaded(self, traced: TracedJob) -> compiled.Session:
        options = joined(self._options, traced.options)
        with _naming_job(traced):
            session = compiled.Session(
                traced.model(),
                options,
                engine=self._engine,
                compiler=installed_compiler(options.load),
                variables=self.variables,
            )
        if self._watchdog is not None:
            session.watch(self._watchdog)
        return session

    def _keep(self, job: Job, key: Hashable, program: Program) -> None:
        with self._lock:
            cache = self._caches.setdefault(job, OrderedDict())
            cache[key] = program
            if self._uncalled.get(job.name) is job:
                del self._uncalled[job.name]
            # A call may still run it; its threads end when that has ended.
            while len(cache) > self._cache_size:
                cache.popitem(last=False)


def check_job(job: object) -> None:
    """Raise PenstockError for what is no job."""
    if not isinstance(job, Job):
        raise PenstockError(f"expected a job, made by @penstock.job, got {job!r}")


def use_of_variables(image: ProgramImage) -> Use:
    """The variables that a program has, and those of them that it assigns to."""
    ports = {x.name: x.port for x in image.variables if x.port is not None}
    targets = {name for actor in image.actors for name in actor.assigned}
    assigned = {ports[name] for name in targets if name in ports}
    return Use(frozenset(ports.values()), frozenset(assigned))


def ops_of(image: ProgramImage, task: str) -> list[str]:
    """The ops that the kernels of a task are made of, as far as the program tells."""
    works = {kernel.name: kernel.work for kernel in image.kernels}
    steps = [x for actor in image.actors if actor.name == task for x in actor.steps]
    found = [works[step.subject] for step in steps if step.verb == "call"]
    return list(dict.fromkeys(work.op for work in found if work is not None))


@contextmanager
def _naming_job(traced: TracedJob) -> Generator[None]:
    """
    A context in which errors about options of a job itself name it: it may be compiled
    at the first call of another one.
    """
    try:
        yield
    except UsageError as error:
        if traced.options == DEFAULTS:
            raise
        raise type(error)(f"job '{traced.name}': {error}") from error


def _closed() -> PenstockError:
    return PenstockError("the session is closed")


def _joined(errors: Sequence[TraceError]) -> TraceError:
    return TraceError("\n".join(str(error) for error in errors))


_homes: WeakKeyDictionary[Job, ReferenceType[Session]] = WeakKeyDictionary()
"""The session of each job: that which was current when it was made."""
_current: list[Session] = []
_default: list[Session] = []


def current_session() -> Session:
    """
    The session of the `with` statement that was entered last in this process, or else
    the default session, which is made anew when it was closed.
    """
    if _current:
        return _current[-1]
    if not _default or _default[0].state is SessionState.CLOSED:
        _default[:] = [Session()]
    return _default[0]


def adopt(job: Job) -> None:
    """Let the current session be that of a job, and take it up."""
    session = current_session()
    session.add(job)
    _homes[job] = ref(session)


def session_of(job: Job) -> Session:
    """
    The session in which a call of a job runs: the current one where a `with` statement
    says it, else that of the job. Raises PenstockError if this is closed, as the
    variables of the job went with it.
    """
    if _current or (home := _homes.get(job)) is None:
        return current_session()
    session = home()
    if session is None or session.state is SessionState.CLOSED:
        raise PenstockError(f"{job.name}: its session is closed")
    return session
