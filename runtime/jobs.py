"""
Running the jobs of one program, which share memory.

A job is run by an executor of its own. What jobs may not use at the same time are
resources (`sections`): what a group of `exclusive` shares, and each interface. A job
has one section with all of its resources, but for those interfaces that it releases
before it ends, which are sections of their own. So jobs that share nothing run at the
same time, if different threads run them, and others one after the other, in the order
in which they were asked for.

To run a job for a caller means to push its inputs, run it, and pull its outputs: where
there is a job `System-Push-<input>` or `System-Pull-<output>`, these are runs as well,
which are asked for at once, so that nobody else comes between.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from penstock.runtime.errors import PenstockError
from penstock.runtime.executor import Executor, check_inputs
from penstock.runtime.image import ProgramImage
from penstock.runtime.sections import Request, Section, Sections
from penstock.runtime.tables import Words

if TYPE_CHECKING:
    from penstock.runtime.initializers import Array
    from penstock.runtime.loader import LoadedProgram, Port
    from penstock.runtime.watchdog import Watchdog

PUSH = "System-Push-"
"""What the name of a job that brings an input in starts with."""
PULL = "System-Pull-"
"""What the name of a job that takes an output out starts with."""


class JobFacts(NamedTuple):
    """
    The interfaces of a job: those that other jobs make, those that it makes, and those
    of the former that it releases before it ends.
    """

    taken: frozenset[str]
    made: frozenset[str]
    released: frozenset[str]


def facts_of(own: ProgramImage) -> JobFacts:
    """What a job does with interfaces, by its own image."""
    interface = {x.name: x.interface for x in own.queues if x.interface is not None}
    taken: set[str] = set()
    made: set[str] = set()
    released: set[str] = set()
    for actor in own.actors:
        named = {name for step in actor.steps for name in step.arguments}
        for name in (name for name in actor.writes if name in interface):
            (made if name in named else taken).add(interface[name])
        for step in (step for step in actor.steps if step.verb == "release"):
            released.add(interface[step.arguments[0]])
    return JobFacts(frozenset(taken), frozenset(made), frozenset(released))


def sections_of(
    jobs: Mapping[str, JobFacts], exclusive: Sequence[Sequence[str]]
) -> list[Section]:
    """What jobs hold while they run, some of which exclude each other."""
    sections: list[Section] = []
    for job, facts in jobs.items():
        kept = (facts.taken | facts.made) - facts.released
        resources = {f"interface {name}" for name in kept}
        for index, group in enumerate(exclusive):
            if job in group:
                resources.add(f"group {index}")
        sections.append(Section(job, frozenset(resources)))
        for name in sorted(facts.released):
            sections.append(Section(job, frozenset({f"interface {name}"})))
    return sections


class JobPort(NamedTuple):
    """An input or output of a job for the caller, and the job whose port it is."""

    job: str
    port: Port


class JobExecutor:
    """
    Runs the jobs of a program, each from any thread. Close it after use.

    `programs` are what `load_jobs` made of the image, `engine` is that of `Executor`.
    Where a job is to be named, the name may be left out if a person wrote but one.
    """

    def __init__(
        self,
        image: ProgramImage,
        programs: Mapping[str, LoadedProgram],
        engine: str = "actors",
    ):
        self._runners = {
            job: _Runner(Executor(program, engine), facts_of(program.image))
            for job, program in programs.items()
        }
        facts = {job: runner.facts for job, runner in self._runners.items()}
        sections = sections_of(facts, image.exclusive)
        self._sections = Sections(sections)
        for number, section in enumerate(sections):
            self._runners[section.job].add_section(number, section)
        self._made: set[str] = set()
        self._ports = {job: self._ports_of(job) for job in programs}
        names = [job for job in programs if not job.startswith((PUSH, PULL))]
        self.jobs: tuple[str, ...] = tuple(names)
        """The names of the jobs that a person wrote."""

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
    def program(self) -> LoadedProgram:
        """One of the programs: the memory and the devices are those of all."""
        return next(iter(self._runners.values())).executor.program

    def executor(self, job: str | None = None) -> Executor:
        """What runs a job alone: its program, and who observes it."""
        return self._runners[self._name_of(job)].executor

    def inputs(self, job: str | None = None) -> dict[str, Port]:
        """What a caller gives a job, by name."""
        ports, _ = self._ports[self._name_of(job)]
        return {name: of.port for name, of in ports.items()}

    def outputs(self, job: str | None = None) -> dict[str, Port]:
        """What a caller gets of a job, by name."""
        _, ports = self._ports[self._name_of(job)]
        return {name: of.port for name, of in ports.items()}

    def run(
        self, inputs: Mapping[str, Array], job: str | None = None
    ) -> dict[str, Array]:
        """
        Run a job: the outputs for one array for each input, of its shape and dtype.

        Raises PenstockError if there is no such job, if the arrays do not fit, or if
        the job takes what no job has made yet, and what `Executor.run` raises.
        """
        job = self._name_of(job)
        if self._runners[job].is_alone:
            return self._runners[job].executor.run(inputs)
        sources, targets = self._ports[job]
        ports = {name: of.port for name, of in sources.items()}
        given = check_inputs(ports, inputs)
        arrays: dict[str, dict[str, Array]] = {}
        for name, array in given.items():
            of, port = sources[name]
            arrays.setdefault(of, {})[port.name] = array
        pulls = [of for of, _ in targets.values() if of != job]
        pushes = [of for of in arrays if of != job]
        found = self._run_all([*pushes, job, *dict.fromkeys(pulls)], arrays)
        return {name: found[of][port.name] for name, (of, port) in targets.items()}

    def run_many(
        self, pieces: Sequence[Mapping[str, Array]], job: str | None = None
    ) -> list[dict[str, Array]]:
        """
        The outputs for each piece of inputs. Nothing is run unless all fit. The work on
        pieces overlaps if the job has nothing to do with other jobs.
        """
        job = self._name_of(job)
        if self._runners[job].is_alone:
            return self._runners[job].executor.run_many(pieces)
        fed = [check_inputs(self.inputs(job), piece) for piece in pieces]
        return [self.run(piece, job) for piece in fed]

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
        """End the threads of all jobs. What was returned stays valid."""
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
        self, jobs: Sequence[str], arrays: Mapping[str, Mapping[str, Array]]
    ) -> dict[str, dict[str, Array]]:
        """Run jobs one after the other, for which nobody else comes between."""
        found: dict[str, dict[str, Array]] = {}
        requests = self._sections.request(jobs)
        try:
            for job, request in zip(jobs, requests, strict=True):
                self._sections.wait(request)
                found[job] = self._run(job, request, arrays.get(job, {}))
                self._sections.release(request)
        except BaseException:
            for request in requests:
                self._sections.release(request)
            raise
        return found

    def _run(
        self, job: str, request: Request, arrays: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Run a job that may run."""
        runner = self._runners[job]
        taken, made, _ = runner.facts
        if not taken <= self._made:
            missing = ", ".join(sorted(taken - self._made))
            raise PenstockError(
                f"job '{job}' takes {missing}, which no job has made yet"
            )
        # A run that fails leaves what it makes half made.
        self._made -= made
        with runner.lock:
            self._sections.begin(request, runner.early())
            results = runner.executor.run(arrays)
        self._made |= made
        return results


class _Runner:
    """What runs one job, and what it does with interfaces."""

    def __init__(self, executor: Executor, facts: JobFacts):
        self.executor = executor
        self.facts = facts
        self.lock = threading.Lock()
        """It is held while the job runs, so that its flags are those of one run."""
        self.is_alone = True
        """Whether it has nothing that others could use at the same time."""
        self._flags: dict[int, Callable[[], bool]] = {}

    def add_section(self, number: int, section: Section) -> None:
        """Take note of a section of the job, by its number."""
        self.is_alone = self.is_alone and not section.resources
        for name, words in self.executor.program.flags.items():
            if section.resources == frozenset({f"interface {name}"}):
                self._flags[number] = partial(_is_raised, words)

    def early(self) -> dict[int, Callable[[], bool]]:
        """Lower all flags, and say for which section each stands."""
        for words in self.executor.program.flags.values():
            words[0] = 0
        return dict(self._flags)


def _is_raised(words: Words) -> bool:
    return bool(words[0])
