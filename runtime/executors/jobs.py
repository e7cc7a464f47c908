"""
The executor of all jobs of one program, which share memory.

A job is run by an executor of its own. Jobs share named resources: each group of
`exclusive`, each interface, and each variable that some job writes. A job has to itself
what it writes; several may read one thing at the same time. An `AccessQueue` orders
their runs: jobs that share nothing run at the same time, if different threads run them,
and others one after the other, in the order in which they were asked for. A job can
release an interface that it reads before it ends.

To run a job for a caller means to push its inputs, run it, and pull its outputs: where
there is a job `System-Push-<input>` or `System-Pull-<output>`, these are runs as well,
which are asked for at once, so that no other run comes between. So the next run of a
job writes an output only when the last one has been pulled.

`submit` asks for the same, and returns at once: the runs are made in threads of the
executor, in the order in which they were asked for as far as they share anything, and
those of one job always.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.access_queue import Access, AccessQueue, Use
from penstock.runtime.executors.arguments import check_inputs
from penstock.runtime.executors.bound import Bound
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import UNTAKEN, Stream
from penstock.runtime.options import Closing, check_pieces
from penstock.runtime.program.executable import ProgramImage
from penstock.runtime.program.tables import Words

if TYPE_CHECKING:
    from penstock.runtime.core.watchdog import Watchdog
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.loader import LoadedProgram, Port
    from penstock.runtime.transport.protocol import Transport

PUSH = "System-Push-"
"""The prefix of the names of jobs that bring an input in."""
PULL = "System-Pull-"
"""The prefix of the names of jobs that take an output out."""
MODEL = "System-Model"
"""The prefix of the names of jobs that set or return all variables."""

RUNNERS = 8
"""The most submitted runs that are under way at the same time, or wait."""


class JobFacts(NamedTuple):
    """
    The interfaces of a job: those that other jobs make, those that it makes, and those
    of the former that it releases before it ends. And the variables that it uses, and
    those of them that it writes.
    """

    taken: frozenset[str]
    made: frozenset[str]
    released: frozenset[str]
    used: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


def facts_of(own: ProgramImage) -> JobFacts:
    """The interfaces and variables that a job uses, by its own image."""
    interface = {x.name: x.interface for x in own.queues if x.interface is not None}
    taken: set[str] = set()
    made: set[str] = set()
    released: set[str] = set()
    for actor in own.actors:
        named = actor.names
        for name in (name for name in actor.writes if name in interface):
            (made if name in named else taken).add(interface[name])
        for step in (step for step in actor.steps if step.verb == "release"):
            released.add(interface[step.arguments[0]])
    names = frozenset(taken), frozenset(made), frozenset(released)
    return JobFacts(*names, *variables_in(own))


def variables_in(own: ProgramImage) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that a job uses, under any name, and those that it writes."""
    variables = {variable.name for variable in own.variables}
    used = {name for actor in own.actors for name in actor.names if name in variables}
    used |= set(viewed(own))
    assigned = {name for actor in own.actors for name in actor.assigned}
    return frozenset(used), frozenset(assigned & variables)


def viewed(own: ProgramImage) -> Iterator[str]:
    """The variables whose bytes some register of a job has."""
    places: dict[str, list[tuple[int, int, str]]] = {}
    for x in own.variables:
        row = x.offset, x.offset + x.kind.size, x.name
        places.setdefault(x.chunk, []).append(row)
    for rows in places.values():
        rows.sort()
    for queue in own.queues:
        if queue.chunk is None or queue.kind is None:
            continue
        rows = places.get(queue.chunk, [])
        end = queue.offset + queue.kind.size
        # Variables share no bytes: those before the first one end before it starts.
        first = bisect_right(rows, queue.offset, key=lambda row: row[1])
        for start, _, name in rows[first:]:
            if start >= end:
                break
            yield name


def uses_of(
    jobs: Mapping[str, JobFacts], exclusive: Sequence[Sequence[str]]
) -> dict[str, Use]:
    """
    The resources that each job uses, some of which exclude each other. Its own name is
    one of them, as runs of one job never overlap.
    """
    uses: dict[str, Use] = {}
    changing = frozenset(name for facts in jobs.values() for name in facts.written)
    for job, facts in jobs.items():
        own = {own_name(job)}
        own |= {f"interface {name}" for name in facts.made}
        own |= {f"variable {name}" for name in facts.written}
        own |= {f"group {i}" for i, group in enumerate(exclusive) if job in group}
        read = {f"interface {name}" for name in facts.taken}
        read |= {f"variable {name}" for name in facts.used & changing}
        uses[job] = Use(frozenset(read - own), frozenset(own))
    return uses


def own_name(job: str) -> str:
    """The resource that only runs of a job use."""
    return f"job {job}"


class JobPort(NamedTuple):
    """An input or output of a job for the caller, and the job whose port it is."""

    job: str
    port: Port


class JobExecutor(Closing):
    """
    Runs the jobs of a program, each from any thread. Close it after use.

    `programs` are those that `load_jobs` made of the image, `engine` is that of
    `Executor`. Where a job is to be named, the name may be left out if a person wrote
    but one.
    """

    def __init__(
        self,
        image: ProgramImage,
        programs: Mapping[str, LoadedProgram],
        engine: str = "actors",
    ):
        facts = {job: facts_of(program.image) for job, program in programs.items()}
        uses = uses_of(facts, image.exclusive)
        users = Counter(name for use in uses.values() for name in use.names)
        self._runners = {
            job: _Runner(
                Executor(program, engine),
                facts[job],
                uses[job],
                is_alone=all(users[name] == 1 for name in uses[job].names),
            )
            for job, program in programs.items()
        }
        self._accesses = AccessQueue()
        self._made: set[str] = set()
        self._ports = {job: self._ports_of(job) for job in programs}
        names = [job for job in programs if not job.startswith((PUSH, PULL, MODEL))]
        self.jobs: tuple[str, ...] = tuple(names)
        """The names of the jobs that a person wrote."""
        is_one = len(self._runners) == len(names) == 1
        only = next(iter(self._runners.values())) if is_one else None
        self._only = only if only is not None and only.is_alone else None
        """The runner of the only job, if there is but one and it shares nothing."""
        self._asking = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._is_closed = False

    @property
    def program(self) -> LoadedProgram:
        """One of the programs: the memory and the devices are those of all."""
        return next(iter(self._runners.values())).executor.program

    def connect(self, transport: Transport) -> None:
        """Let the jobs exchange messages with other ranks: see `Executor.connect`."""
        for runner in self._runners.values():
            runner.executor.connect(transport)

    def has(self, job: str) -> bool:
        """Whether there is a job of this name, of the system or not."""
        return job in self._runners

    def executor(self, job: str | None = None) -> Executor:
        """The executor of a job, with its program and its observers."""
        return self._runners[self._name_of(job)].executor

    def inputs(self, job: str | None = None) -> dict[str, Port]:
        """The inputs that a caller gives a job, by name."""
        ports, _ = self._ports[self._name_of(job)]
        return {name: of.port for name, of in ports.items()}

    def outputs(self, job: str | None = None) -> dict[str, Port]:
        """The outputs that a caller gets of a job, by name."""
        _, ports = self._ports[self._name_of(job)]
        return {name: of.port for name, of in ports.items()}

    def run(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> dict[str, Array]:
        """
        Run a job: the outputs for one array for each input, of its shape and dtype.

        Raises PenstockError if there is no such job, if the arrays do not fit, or if
        the job reads an interface that no job has made yet, and the errors of
        `Executor.run`.
        """
        # The way of most runs, in as few steps as it takes.
        if job is None and (only := self._only) is not None and not only.submitted:
            return only.executor.run(inputs)
        job = self._name_of(job)
        runner = self._runners[job]
        if runner.is_alone and not runner.submitted:
            return runner.executor.run(inputs)
        call = self._call(job, inputs)
        return self._finish(call, self._ask(call.jobs))

    def quick(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """
        The outputs of `run`; None, without a run, unless there is but one job, which is
        free, and a quick look tells that the arrays can be read as they are.
        """
        only = self._only
        return None if only is None or only.submitted else only.executor.quick(inputs)

    def bind(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array] | None = None,
        job: str | None = None,
    ) -> Bound:
        """
        A run of a job whose arrays stay the same, see `Executor.bind`. Raises
        PenstockError for a job that takes turns with others.
        """
        job = self._name_of(job)
        runner = self._runners[job]
        if not runner.is_alone:
            raise PenstockError(
                f"job '{job}' takes turns with others, so no arrays can be bound to it"
            )
        return runner.executor.bind(inputs, outputs)

    def submit(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> Future[dict[str, Array]]:
        """
        Ask for a run of a job, and return at once: the future has the outputs, or the
        error that `run` would raise. Until then the arrays must not change. A future
        that has not begun can be cancelled.

        Raises PenstockError if there is no such job, if the arrays do not fit, or if
        the executor is closed.
        """
        job = self._name_of(job)
        call, runner = self._call(job, inputs), self._runners[job]
        # Runs that share something begin in the order in which they are asked for.
        with self._asking:
            if self._is_closed:
                raise PenstockError("the executor is closed")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(RUNNERS, "penstock-job")
            accesses = self._ask(call.jobs)
            runner.submitted += 1
            future = self._threads.submit(self._finish, call, accesses)
        # A future that is kept does not keep the executor.
        future.add_done_callback(partial(_forget, ref(self), job, accesses))
        return future

    def forget(self, job: str, accesses: Sequence[Access], *, begun: bool) -> None:
        """Note that a run that was submitted is over, or never begins."""
        if not begun:
            self._give_up(accesses)
        with self._asking:
            self._runners[job].submitted -= 1

    def _call(self, job: str, inputs: Mapping[str, Array]) -> _Call:
        """The runs that these inputs take. Raises PenstockError if they do not fit."""
        sources, targets = self._ports[job]
        ports = {name: of.port for name, of in sources.items()}
        given = check_inputs(ports, inputs)
        arrays: dict[str, dict[str, Array]] = {}
        for name, array in given.items():
            of, port = sources[name]
            arrays.setdefault(of, {})[port.name] = array
        pulls = [of for of, _ in targets.values() if of != job]
        pushes = [of for of in arrays if of != job]
        return _Call(job, [*pushes, job, *dict.fromkeys(pulls)], arrays)

    def _ask(self, jobs: Sequence[str]) -> list[Access]:
        """The accesses of runs of these jobs, between which no other one comes."""
        return self._accesses.ask_all([self._runners[job].use for job in jobs])

    def _finish(self, call: _Call, accesses: Sequence[Access]) -> dict[str, Array]:
        """Make the runs that were asked for, and put together their outputs."""
        found = self._run_all(call, accesses)
        _, targets = self._ports[call.job]
        return {name: found[of][port.name] for name, (of, port) in targets.items()}

    def run_many(
        self, pieces: Sequence[Mapping[str, Array]], job: str | None = None
    ) -> list[dict[str, Array]]:
        """
        The outputs for each piece of inputs. Nothing is run unless all fit. The work on
        pieces overlaps if the job has nothing to do with other jobs.
        """
        check_pieces(pieces)
        job = self._name_of(job)
        runner = self._runners[job]
        if runner.is_alone and not runner.submitted:
            return runner.executor.run_many(pieces)
        fed = [check_inputs(self.inputs(job), piece) for piece in pieces]
        results: list[dict[str, Array]] = []
        for number, piece in enumerate(fed):
            try:
                results.append(self.run(piece, job))
            except TaskError as error:
                error.act += number
                raise
        return results

    def stream(
        self, job: str | None = None, capacity: int = 2, untaken: int = UNTAKEN
    ) -> Stream:
        """
        A run of a job that ends when there are no more pieces, see `Executor.stream`.
        Raises PenstockError for a job that shares something with others. Jobs that are
        linked to a main job are one here.
        """
        job = self._name_of(job)
        runner = self._runners[job]
        if len(self._runners) > 1 and not runner.is_alone:
            raise PenstockError(f"job '{job}' takes turns with others, piece by piece")
        return runner.executor.stream(capacity, untaken)

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Let no run be under way meanwhile. Raises PenstockError if closed."""
        with ExitStack() as stack:
            for runner in self._runners.values():
                stack.enter_context(runner.executor.stopped())
            yield

    def watch(self, watchdog: Watchdog) -> None:
        """Let a watchdog look at the runs of each job, see `Executor.watch`."""
        for runner in self._runners.values():
            runner.executor.watch(watchdog)

    def close(self) -> None:
        """
        End the threads of all jobs, once the runs that have begun are over; those that
        have not are cancelled. Arrays that were returned stay valid.
        """
        with self._asking:
            self._is_closed, threads = True, self._threads
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        for runner in self._runners.values():
            runner.executor.close()

    def _name_of(self, job: str | None) -> str:
        """The name of a job that there is. Raises PenstockError if that is unknown."""
        if job in self._runners:
            return job
        known = ", ".join(self.jobs)
        if job is not None:
            raise PenstockError(f"there is no job '{job}', the program has {known}")
        if len(self.jobs) != 1:
            raise PenstockError(f"the program has several jobs, name one of {known}")
        return self.jobs[0]

    def _ports_of(self, job: str) -> tuple[dict[str, JobPort], dict[str, JobPort]]:
        """The inputs and the outputs of a job, its own and those of system jobs."""
        runner = self._runners[job]
        own = runner.executor.program
        inputs = {name: JobPort(job, port) for name, port in own.inputs.items()}
        outputs = {name: JobPort(job, port) for name, port in own.outputs.items()}
        for name in sorted(runner.facts.taken):
            if (other := self._runners.get(PUSH + name)) is not None:
                (port,) = other.executor.program.inputs.values()
                inputs[name] = JobPort(PUSH + name, port)
        for name in sorted(runner.facts.made):
            if (other := self._runners.get(PULL + name)) is not None:
                (port,) = other.executor.program.outputs.values()
                outputs[name] = JobPort(PULL + name, port)
        return inputs, outputs

    def _run_all(
        self, call: _Call, accesses: Sequence[Access]
    ) -> dict[str, dict[str, Array]]:
        """Make runs one after the other, between which no other one comes."""
        found: dict[str, dict[str, Array]] = {}
        try:
            for job, access in zip(call.jobs, accesses, strict=True):
                self._accesses.begin(access)
                found[job] = self._run(job, access, call.arrays.get(job, {}))
                self._accesses.end(access)
        except BaseException:
            self._give_up(accesses)
            raise
        return found

    def _give_up(self, accesses: Sequence[Access]) -> None:
        for access in accesses:
            self._accesses.end(access)

    def _run(
        self, job: str, access: Access, arrays: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a job whose turn it is."""
        runner = self._runners[job]
        taken, made = runner.facts.taken, runner.facts.made
        if not taken <= self._made:
            missing = ", ".join(sorted(taken - self._made))
            raise PenstockError(
                f"job '{job}' takes {missing}, which no job has made yet"
            )
        # A run that fails leaves its interfaces half made.
        self._made -= made
        self._accesses.release_when(access, runner.early())
        results = runner.executor.run(arrays)
        self._made |= made
        return results


class _Call(NamedTuple):
    """A run of a job for a caller: all jobs to run, and the inputs of each."""

    job: str
    jobs: Sequence[str]
    arrays: Mapping[str, Mapping[str, Array]]


class _Runner:
    """The executor of one job, and the resources that the job uses."""

    def __init__(
        self, executor: Executor, facts: JobFacts, use: Use, *, is_alone: bool
    ):
        self.executor = executor
        self.facts = facts
        self.use = use
        self.is_alone = is_alone and not facts.taken
        """Whether it has nothing that other jobs use or make."""
        self.submitted = 0
        """The runs that were submitted and are not over."""
        self._early: dict[str, Callable[[], bool]] = {
            f"interface {name}": partial(_is_raised, words)
            for name, words in executor.program.flags.items()
            if name in facts.released - facts.made
        }

    def early(self) -> Mapping[str, Callable[[], bool]]:
        """Lower all flags, and say for which resource each stands."""
        for words in self.executor.program.flags.values():
            words[0] = 0
        return self._early


def _forget(
    executor: ref[JobExecutor],
    job: str,
    accesses: Sequence[Access],
    future: Future[dict[str, Array]],
) -> None:
    if (alive := executor()) is not None:
        alive.forget(job, accesses, begun=not future.cancelled())


def _is_raised(words: Words) -> bool:
    return bool(words[0])
