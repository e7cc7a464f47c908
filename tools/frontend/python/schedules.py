"""
Schedules: control flow over jobs, on the arrays of a workspace.

    Run(job, writes="loss")     a job, or a function on arrays
    Sequence(a, b)              one after the other
    Parallel(a, b)              at the same time, each in a thread
    Loop(a, count=10)           again and again, a number of times
    Loop(a, until="done")       ... until a flag is true after an iteration
    Every(5, a)                 in each fifth iteration of the loop around it
    Once(a)                     in the first iteration of the loop around it
    Scope(a)                    in a workspace of its own, new each time

A schedule is checked before it runs: each name that a step reads has been fed or
written before, and steps at the same time neither write the same name nor write what
another reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from threading import Event

import numpy as np

from penstock.dialects.job import OutputOp
from penstock.runtime.errors import PenstockError
from penstock.tools.frontend.python.guards import Array, is_array
from penstock.tools.frontend.python.jobs import OUTPUT, Job
from penstock.tools.frontend.python.session import Session, session_of
from penstock.tools.frontend.python.signature import TensorPlaceholder
from penstock.tools.frontend.python.structures import flattened
from penstock.tools.frontend.python.workspace import Workspace

__all__ = [
    "Every",
    "Loop",
    "Once",
    "Parallel",
    "Run",
    "ScheduleError",
    "Scope",
    "Sequence",
    "Step",
]


class ScheduleError(PenstockError):
    """A schedule cannot run, for all the reasons in the text."""


@dataclass(frozen=True)
class Execution:
    """The environment in which steps run. `stopped` is set once a step has failed."""

    session: Session | None
    """Where jobs run; None for the session of each."""
    workspace: Workspace
    stopped: Event
    iteration: int = 0
    """Of the loop around the step, from 0."""
    is_scope: bool = False
    """Whether what is written stays in the workspace."""

    def at(self, iteration: int) -> Execution:
        """The same in an iteration of a loop."""
        return replace(self, iteration=iteration)

    def enter_scope(self, step: Step, workspace: Workspace) -> None:
        """Run a step in another workspace, where what it writes stays."""
        step.execute(replace(self, workspace=workspace, is_scope=True))

    def enter(self, step: Step) -> None:
        """Run a step, unless another one has failed."""
        if not self.stopped.is_set():
            step.execute(self)


@dataclass
class Check:
    """
    The knowledge at one place of a schedule: the names that are there, the findings
    so far, and whether the step is the one that a loop repeats, or a part of it.
    """

    names: set[str]
    findings: list[str]
    in_loop: bool = False

    def inside(self, names: set[str], *, in_loop: bool | None = None) -> Check:
        """The knowledge inside a part, where these names are there."""
        looped = self.in_loop if in_loop is None else in_loop
        return Check(names, self.findings, looped)

    def want_loop(self, what: str) -> None:
        """Complain about a step that runs so, unless a loop repeats it."""
        if not self.in_loop:
            self.findings.append(
                f"a step runs {what} of a loop, but the loop has another condition, or "
                "there is none"
            )


class Step(ABC):
    """A part of a schedule: a job, or steps in some order."""

    @abstractmethod
    def check(self, known: Check) -> None:
        """
        Add findings about the step, and the names that are there after it, to
        `known`.
        """

    @abstractmethod
    def execute(self, execution: Execution) -> None:
        """Run the step in `execution`."""

    @property
    def reads(self) -> set[str]:
        """The names that the step may read of what is there before it."""
        return self.needs(set())

    @abstractmethod
    def needs(self, there: set[str]) -> set[str]:
        """
        The names that the step may read, besides those that are `there`.

        Names that it writes for sure are added to `there`.
        """

    @property
    @abstractmethod
    def writes(self) -> set[str]:
        """The names that the step may write."""

    def run(self, workspace: Workspace, session: Session | None = None) -> None:
        """
        Check the step and run it on the arrays of `workspace`, its jobs in `session`
        (or the one that calls of them run in).

        Raises ScheduleError if it cannot run, and the error of the first step that
        fails.
        """
        self.verify(workspace.names)
        Execution(session, workspace, Event()).enter(self)

    def verify(self, names: list[str]) -> None:
        """
        Check that the step can run where these `names` are there.

        Raises ScheduleError if it cannot.
        """
        known = Check(set(names), [])
        self.check(known)
        if known.findings:
            raise ScheduleError("\n".join(dict.fromkeys(known.findings)))


class Run(Step):
    """
    One run of `action`: a job, or a function on arrays.

    Parameters of a job are read from the names that `reads` says for them, or else from
    their own; the arguments of a function, which must not change them, from all names
    in `reads`. The arrays that are returned, in order, become `writes`.

    Raises ScheduleError if `action` cannot be called, or has no such parameters.

    ```python
    import numpy as np

    from penstock import Workspace
    from penstock import control as c

    arrays = Workspace()
    arrays.feed("n", np.int64(0))
    step = c.Run(lambda n: n + 1, reads="n", writes="n")
    c.Loop(c.Sequence(step, step), count=3).run(arrays)
    assert arrays.fetch("n") == 6
    ```
    """

    def __init__(
        self,
        action: Job | Callable[..., object],
        reads: Mapping[str, str] | str | tuple[str, ...] = (),
        writes: str | tuple[str, ...] = (),
    ):
        if not callable(action):
            raise ScheduleError(f"expected a job or a function, got {action!r}")
        self.action = action
        reads = (reads,) if isinstance(reads, str) else reads
        self._writes = (writes,) if isinstance(writes, str) else tuple(writes)
        if isinstance(action, Job):
            renamed = _renamed(action, reads)
            self._reads = tuple(renamed.get(p, p) for p in action.signature.parameters)
        elif isinstance(reads, Mapping):
            raise ScheduleError(f"{self.name} is no job: its reads are a tuple")
        else:
            self._reads = tuple(reads)

    @property
    def name(self) -> str:
        """The name of the job or function in messages."""
        return getattr(self.action, "__name__", "function")

    def needs(self, there: set[str]) -> set[str]:
        missing = {*self._reads} - there
        there |= self.writes
        return missing

    @property
    def writes(self) -> set[str]:
        return set(self._writes)

    def check(self, known: Check) -> None:
        for name in self._reads:
            if name not in known.names:
                known.findings.append(
                    f"{self.name} reads '{name}', which is not written before"
                )
        known.names |= self.writes
        known.findings += self._miscounts()

    def _miscounts(self) -> Iterator[str]:
        """The finding about the number of arrays that a job of one shape returns."""
        if isinstance(self.action, Job) and self.action.signature.is_static:
            module = self.action.trace().module
            count = sum(isinstance(op, OutputOp) for op in module.walk())
            if count != len(self._writes):
                yield self._miscount("returns", count)

    def _miscount(self, verb: str, count: int) -> str:
        wanted = ", ".join(self._writes) or "none"
        arrays = "1 array" if count == 1 else f"{count} arrays"
        return f"{self.name} {verb} {arrays}, expected {len(self._writes)}: {wanted}"

    def execute(self, execution: Execution) -> None:
        workspace = execution.workspace
        arrays = [workspace.fetch(name, copy=False) for name in self._reads]
        if isinstance(self.action, Job):
            session = execution.session or session_of(self.action)
            result = session.call(self.action, *arrays)
        else:
            result = self.action(*arrays)
        leaves: dict[str, object] = {}
        flattened(result, OUTPUT, leaves)
        if len(leaves) != len(self._writes):
            raise ScheduleError(self._miscount("returned", len(leaves)))
        for name, leaf in zip(self._writes, leaves.values(), strict=True):
            local = execution.is_scope and name not in workspace.forwarded
            workspace.feed(name, self._array(leaf), local=local, copy=False)

    def _array(self, value: object) -> Array:
        if is_array(value) or isinstance(value, bool | int | float):
            return np.asarray(value)
        raise ScheduleError(f"{self.name} returned a {type(value).__name__}")


def _renamed(job: Job, reads: Mapping[str, str] | tuple[str, ...]) -> dict[str, str]:
    """The names that parameters of a job are read from, if not their own."""
    parameters = job.signature.parameters
    for name, placeholder in parameters.items():
        if not isinstance(placeholder, TensorPlaceholder):
            raise ScheduleError(f"{job.name}: '{name}' is no tensor, but of several")
    if not isinstance(reads, Mapping):
        reads = dict(zip(parameters, reads, strict=False))
    renamed = dict(reads)
    for name in renamed:
        if name not in parameters:
            takes = ", ".join(parameters) or "nothing"
            raise ScheduleError(f"{job.name} takes {takes}, got '{name}'")
    return renamed


def _step(value: object) -> Step:
    """A step of a schedule. Raises ScheduleError if it is none."""
    if isinstance(value, Step):
        return value
    hint = ": Run makes one of it" if callable(value) else ""
    raise ScheduleError(f"expected a step, got {value!r}{hint}")


class Group(Step, ABC):
    """A step of several steps."""

    def __init__(self, *steps: Step):
        self.steps = tuple(map(_step, steps))

    @property
    def writes(self) -> set[str]:
        return {name for step in self.steps for name in step.writes}


class Sequence(Group):
    """Steps one after the other: `steps`, in their order."""

    def needs(self, there: set[str]) -> set[str]:
        return {name for step in self.steps for name in step.needs(there)}

    def check(self, known: Check) -> None:
        for step in self.steps:
            step.check(known)

    def execute(self, execution: Execution) -> None:
        for step in self.steps:
            execution.enter(step)


class Parallel(Group):
    """
    Steps at the same time: each of `steps` in a thread.

    If one fails, the others end with the step that they are in, and the first failure
    is raised.
    """

    def needs(self, there: set[str]) -> set[str]:
        before, missing = set(there), set[str]()
        for step in self.steps:
            part = set(before)
            missing |= step.needs(part)
            there |= part
        return missing

    def check(self, known: Check) -> None:
        before = set(known.names)
        for step in self.steps:
            part = known.inside(set(before))
            step.check(part)
            known.names |= part.names
        known.findings += self._conflicts()

    def _conflicts(self) -> Iterator[str]:
        writers: dict[str, Step] = {}
        for step in self.steps:
            for name in sorted(step.writes & writers.keys()):
                yield f"two steps write '{name}' at the same time"
            writers |= dict.fromkeys(step.writes, step)
        for step in self.steps:
            for name in sorted(step.reads & writers.keys()):
                if writers[name] is not step:
                    yield f"'{name}' is read and written at the same time"

    def execute(self, execution: Execution) -> None:
        if not self.steps:
            return
        with ThreadPoolExecutor(len(self.steps)) as pool:
            running = [pool.submit(execution.enter, step) for step in self.steps]
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            failures = [f.exception() for f in running if f in done]
            first = next((error for error in failures if error is not None), None)
            if first is not None:
                execution.stopped.set()
        if first is not None:
            raise first


class Single(Step, ABC):
    """A step that says when another one runs."""

    step: Step

    def needs(self, there: set[str]) -> set[str]:
        return self.step.needs(there)

    @property
    def writes(self) -> set[str]:
        return self.step.writes


class Loop(Single):
    """
    A step again and again: `step` runs `count` times, or until the name `until`, one
    boolean, is true after an iteration.

    Raises ScheduleError unless there is one of the two, and a count is at least 1.
    """

    def __init__(
        self, step: Step, *, count: int | None = None, until: str | None = None
    ):
        if (count is None) == (until is None):
            raise ScheduleError("a loop has either a count or a flag")
        if count is not None and count < 1:
            raise ScheduleError(f"a loop runs at least once, got {count}")
        self.step = _step(step)
        self.count = count
        self.until = until

    def needs(self, there: set[str]) -> set[str]:
        missing = self.step.needs(there)
        return missing | ({self.until} - there if self.until is not None else set())

    def check(self, known: Check) -> None:
        part = known.inside(known.names, in_loop=True)
        self.step.check(part)
        if self.until is not None and self.until not in known.names:
            known.findings.append(f"no step writes the flag '{self.until}' of a loop")

    def execute(self, execution: Execution) -> None:
        iteration = 0
        while not execution.stopped.is_set():
            execution.at(iteration).enter(self.step)
            iteration += 1
            if iteration == self.count or self._is_done(execution.workspace):
                return

    def _is_done(self, workspace: Workspace) -> bool:
        if self.until is None:
            return False
        flag = workspace.fetch(self.until, copy=False)
        if flag.size != 1 or flag.dtype != np.bool_:
            raise ScheduleError(
                f"the flag '{self.until}' should be one boolean, got {flag.dtype} of "
                f"shape {flag.shape}"
            )
        return bool(flag.all())


class Every(Single):
    """
    A step in some iterations of the loop around it: `step` runs in those numbered `n`,
    2n, 3n...

    Raises ScheduleError if `n` is less than 1.
    """

    def __init__(self, n: int, step: Step):
        if n < 1:
            raise ScheduleError(f"a step runs every n iterations, got n = {n}")
        self.n = n
        self.step = _step(step)

    def needs(self, there: set[str]) -> set[str]:
        # The step may not have run yet when later ones read, so its names stay unknown.
        return self.step.needs(set(there))

    def check(self, known: Check) -> None:
        known.want_loop(f"every {self.n} iterations")
        # The step may not have run yet when later ones read, so its names stay unknown.
        self.step.check(known.inside(set(known.names), in_loop=False))

    def execute(self, execution: Execution) -> None:
        if (execution.iteration + 1) % self.n == 0:
            self.step.execute(execution)


class Once(Single):
    """A step, `step`, in the first iteration of the loop around it."""

    def __init__(self, step: Step):
        self.step = _step(step)

    def check(self, known: Check) -> None:
        known.want_loop("once")
        self.step.check(known.inside(known.names, in_loop=False))

    def execute(self, execution: Execution) -> None:
        if execution.iteration == 0:
            self.step.execute(execution)


class Scope(Single):
    """
    A step in a workspace of its own, new each time `step` runs, which sees all names
    around it.

    Names that it writes are gone afterwards, unless they are `forwarded`: that says for
    names inside which names outside they stand for.
    """

    def __init__(self, step: Step, forwarded: Mapping[str, str] | None = None):
        self.step = _step(step)
        self.forwarded = dict(forwarded or {})

    def needs(self, there: set[str]) -> set[str]:
        inside = self._seen(there)
        missing = self.step.needs(inside)
        there |= {out for name, out in self.forwarded.items() if name in inside}
        return {self.forwarded.get(name, name) for name in missing}

    def _seen(self, names: set[str]) -> set[str]:
        """The names inside that stand for what is there outside."""
        named = {n for n, outside in self.forwarded.items() if outside in names}
        return (names - self.forwarded.keys()) | named

    @property
    def writes(self) -> set[str]:
        names = self.step.writes
        return {out for inside, out in self.forwarded.items() if inside in names}

    def check(self, known: Check) -> None:
        part = known.inside(self._seen(known.names))
        self.step.check(part)
        known.names |= self.writes

    def execute(self, execution: Execution) -> None:
        inside = Workspace(execution.workspace, self.forwarded)
        execution.enter_scope(self.step, inside)
