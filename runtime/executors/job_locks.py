"""
Sections: what jobs hold of shared memory while they run, and who may have it when.

A section is a set of resources, names of memory: what it has to itself, and what it
only reads, as others may at the same time. Two sections of different jobs *intersect*
if one has a resource to itself that the other has or reads. A request asks for some
sections of one job and has a number, later ones have higher numbers. Each section has a
queue of the requests that wait for it; it is granted to the first of these if for every
section that intersects with it, nobody has it, and nobody waits for it or whoever waits
longest has a higher number. A section may be granted several times to requests of its
own job.

So nobody uses a resource while another job has it to itself; a request only ever waits
for requests with lower numbers, and each of them in turn comes first: if all that were
granted are released at last, all are granted.

Runs of one job that may go on begin in the order in which they were asked for.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True)
class Section:
    """Resources that a job uses together: those to itself, and those it reads."""

    job: str
    resources: frozenset[str]
    reads: frozenset[str] = frozenset()

    def intersects(self, other: Section) -> bool:
        """Whether another job must not have the other section at the same time."""
        return not (
            self.resources.isdisjoint(other.resources | other.reads)
            and self.reads.isdisjoint(other.resources)
        )


def is_rival(section: Section, other: Section) -> bool:
    """Whether a section has to wait for another one of another job."""
    return section.job != other.job and section.intersects(other)


class Request:
    """What a run of a job asks for: sections, by their numbers."""

    def __init__(self, job: str, number: int, sections: Sequence[int]):
        self.job = job
        self.number = number
        self.waiting = set(sections)
        """What it has not been granted."""
        self.held: set[int] = set()
        """What it has been granted and has not released."""

    @property
    def is_granted(self) -> bool:
        """Whether the job may run."""
        return not self.waiting


class Locks:
    """The rule alone, for one thread at a time."""

    def __init__(self, sections: Sequence[Section]):
        self.sections = tuple(sections)
        users: dict[str, set[int]] = {}
        for index, section in enumerate(sections):
            for resource in section.resources | section.reads:
                users.setdefault(resource, set()).add(index)
        self.rivals: list[list[int]] = []
        """For each section those of other jobs that intersect with it."""
        for section in sections:
            names = section.resources | section.reads
            others = sorted({i for name in names for i in users[name]})
            self.rivals.append([i for i in others if is_rival(section, sections[i])])
        self._of_job: dict[str, list[int]] = {}
        for index, section in enumerate(sections):
            self._of_job.setdefault(section.job, []).append(index)
        self._queues: list[deque[Request]] = [deque() for _ in sections]
        self._holders = [0] * len(self.sections)
        self._numbers = count()

    def request(self, job: str) -> Request:
        """Ask for all sections of a job, after all that asked before."""
        wanted = self._of_job.get(job, ())
        made = Request(job, next(self._numbers), wanted)
        for section in wanted:
            self._queues[section].append(made)
            self._grant(section)
        return made

    def release(self, request: Request, sections: Collection[int]) -> bool:
        """
        Give sections back, or no longer wait for them. Whether anything was granted to
        somebody else because of that.
        """
        for section in sections:
            if section in request.held:
                request.held.discard(section)
                self._holders[section] -= 1
            elif section in request.waiting:
                request.waiting.discard(section)
                self._queues[section].remove(request)
        granted = False
        for section in sections:
            for candidate in (section, *self.rivals[section]):
                if self._queues[candidate] and self._grant(candidate):
                    granted = True
        return granted

    def _grant(self, section: int) -> bool:
        """Grant a section to as many as may have it now."""
        queue = self._queues[section]
        granted = False
        while queue and self._may_have(queue[0], section):
            request = queue.popleft()
            request.waiting.discard(section)
            request.held.add(section)
            self._holders[section] += 1
            granted = True
        return granted

    def _may_have(self, request: Request, section: int) -> bool:
        for rival in self.rivals[section]:
            if self._holders[rival]:
                return False
            if (queue := self._queues[rival]) and queue[0].number < request.number:
                return False
        return True


POLL_SECONDS = 0.0002
"""How often one who waits looks whether a job has let go of something early."""


class Sections:
    """
    The same rule between threads: each asks for what it is going to run, and runs it in
    that order.
    """

    def __init__(self, sections: Sequence[Section]):
        self._locks = Locks(sections)
        self._changed = threading.Condition(threading.Lock())
        self._early: dict[Request, dict[int, Callable[[], bool]]] = {}
        self._waiters = 0
        self._lines: dict[str, deque[Request]] = defaultdict(deque)
        """The requests of each job that have not been released, oldest first."""

    def request(self, jobs: Sequence[str]) -> list[Request]:
        """Ask for several runs at once, so that nobody else comes between."""
        with self._changed:
            made = [self._locks.request(job) for job in jobs]
            for request in made:
                self._lines[request.job].append(request)
        return made

    def _may_run(self, request: Request) -> bool:
        """Whether a request has all it needs, and nothing before it in its job."""
        return request.is_granted and self._lines[request.job][0] is request

    def wait(self, request: Request) -> None:
        """Return once the job may run."""
        if self._may_run(request):
            return
        with self._changed:
            self._waiters += 1
            try:
                while not self._may_run(request):
                    if not self._let_go():
                        can_let_go = any(list(self._early.values()))
                        self._changed.wait(POLL_SECONDS if can_let_go else None)
            finally:
                self._waiters -= 1

    def begin(self, request: Request, early: dict[int, Callable[[], bool]]) -> None:
        """
        Note that a run begins, which lets go of each of these sections as soon as the
        function says so.
        """
        if not early:
            return
        self._early[request] = early
        # Who begins to wait now sees it.
        if self._waiters:
            with self._changed:
                self._changed.notify_all()

    def release(self, request: Request) -> None:
        """
        End a run, or a request that was never granted; nothing if that has been done.
        """
        with self._changed:
            line = self._lines[request.job]
            if request not in line:
                return
            line.remove(request)
            self._early.pop(request, None)
            sections = (*request.held, *request.waiting)
            granted = self._locks.release(request, sections)
            if (granted or line) and self._waiters:
                self._changed.notify_all()

    def _let_go(self) -> bool:
        """Release what runs have let go of; whether that let anybody go on."""
        granted = False
        for request, early in list(self._early.items()):
            done = [section for section, is_done in early.items() if is_done()]
            for section in done:
                del early[section]
            if done and self._locks.release(request, done):
                granted = True
        if granted:
            self._changed.notify_all()
        return granted
