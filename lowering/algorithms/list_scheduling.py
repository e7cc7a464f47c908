"""
List scheduling: jobs on lanes, and their times. Plain functions over numbers, no IR.

Jobs are listed such that each comes after all it waits for. A lane runs its jobs one
after the other. A job begins once its lane is free and all jobs it waits for have
ended; where one of those ran on another lane, `switch` later than that. All times are
integers of one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple


class Job(NamedTuple):
    """
    Work that takes `time` after other jobs; `lanes`, ascending, are those that may run
    it.
    """

    time: int
    after: Sequence[int]
    lanes: Sequence[int]
    switch: int = 0


@dataclass
class Schedule:
    """Jobs on lanes, as they are added; each begins as early as it can."""

    jobs: Sequence[Job]
    lane: dict[int, int] = field(default_factory=dict[int, int])
    """The lane of each job."""
    start: dict[int, int] = field(default_factory=dict[int, int])
    end: dict[int, int] = field(default_factory=dict[int, int])
    free: dict[int, int] = field(default_factory=dict[int, int])
    """When each lane with a job is free again."""

    @property
    def makespan(self) -> int:
        """When the last job has ended."""
        return max(self.end.values(), default=0)

    @property
    def order(self) -> list[int]:
        """The jobs as they were added: as they follow each other on each lane."""
        return list(self.lane)

    def start_on(self, job: int, lane: int) -> int:
        """When a job could begin on a lane, after what runs there already."""
        start = self.free.get(lane, 0)
        for other in self.jobs[job].after:
            switch = 0 if self.lane[other] == lane else self.jobs[job].switch
            start = max(start, self.end[other] + switch)
        return start

    def best_lane(self, job: int) -> int:
        """Where a job would begin first, of equal lanes the lowest one."""
        return min(self.jobs[job].lanes, key=lambda lane: self.start_on(job, lane))

    def add(self, job: int, lane: int) -> None:
        """Let a job be the next one on a lane."""
        self.start[job] = self.start_on(job, lane)
        self.end[job] = self.start[job] + self.jobs[job].time
        self.lane[job] = lane
        self.free[lane] = self.end[job]


def scheduled_on(jobs: Sequence[Job], lanes: Sequence[int]) -> Schedule:
    """The jobs in the order of the list, each on the lane that is given for it."""
    schedule = Schedule(jobs)
    for job, lane in enumerate(lanes):
        schedule.add(job, lane)
    return schedule


def in_order(jobs: Sequence[Job], order: Iterable[int]) -> Schedule:
    """The jobs in an order, each where it begins first."""
    schedule = Schedule(jobs)
    for job in order:
        schedule.add(job, schedule.best_lane(job))
    return schedule


def bottom_levels(jobs: Sequence[Job]) -> list[int]:
    """For each job the time from its start to the end of all, on lanes without end."""
    levels = [job.time for job in jobs]
    for index in range(len(jobs) - 1, -1, -1):
        for other in jobs[index].after:
            levels[other] = max(levels[other], jobs[other].time + levels[index])
    return levels


def by_level(jobs: Sequence[Job]) -> list[int]:
    """The jobs that the most time depends on first, but none before one it follows."""
    levels = bottom_levels(jobs)
    return sorted(range(len(jobs)), key=lambda job: (-levels[job], job))


class Dispatch:
    """
    List scheduling: whenever a lane is free, it takes, of the jobs that may run there
    and that wait for nothing any more, the one that the most time depends on, or that
    with the highest of `levels`. Where a job could begin on several lanes, it leaves
    those where only others are to follow.
    """

    def __init__(
        self, jobs: Sequence[Job], levels: Sequence[int] | None = None
    ) -> None:
        self.schedule = Schedule(jobs)
        self._jobs = jobs
        self._levels = bottom_levels(jobs) if levels is None else levels
        self._waiting = [len(set(job.after)) for job in jobs]
        self._followers: list[list[int]] = [[] for _ in jobs]
        self._to_follow: list[int] = []
        """The number of followers of each job that have not begun."""
        self._last: dict[int, int] = {}
        """The last job of each lane."""
        self._coming: list[tuple[int, int]] = []
        """When a job waits for nothing any more, and the job."""
        self._ready: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        """By the lanes they may run on: the negative level of a job, and the job."""
        for index, job in enumerate(jobs):
            for other in set(job.after):
                self._followers[other].append(index)
            if not job.after:
                heappush(self._coming, (0, index))
        self._to_follow = [len(followers) for followers in self._followers]

    def run(self) -> Schedule:
        """Schedule all jobs."""
        now = 0
        while len(self.schedule.lane) < len(self._jobs):
            self._admit(now)
            while (job := self._take(now)) is not None:
                self._begin(job)
                self._admit(now)
            now = self._next_event(now)
        return self.schedule

    def _admit(self, now: int) -> None:
        while self._coming and self._coming[0][0] <= now:
            _, job = heappop(self._coming)
            ready = self._ready.setdefault(tuple(self._jobs[job].lanes), [])
            heappush(ready, (-self._levels[job], job))

    def _take(self, now: int) -> int | None:
        """The most urgent ready job with a free lane."""
        free = self.schedule.free
        able = [
            ready
            for lanes, ready in self._ready.items()
            if ready and any(free.get(lane, 0) <= now for lane in lanes)
        ]
        return heappop(min(able, key=lambda ready: ready[0]))[1] if able else None

    def _begin(self, job: int) -> None:
        schedule = self.schedule
        for other in set(self._jobs[job].after):
            self._to_follow[other] -= 1
        lane = min(self._jobs[job].lanes, key=lambda lane: self._claim(job, lane))
        schedule.add(job, lane)
        self._last[lane] = job
        for follower in self._followers[job]:
            self._waiting[follower] -= 1
            if not self._waiting[follower]:
                ends = (schedule.end[other] for other in self._jobs[follower].after)
                heappush(self._coming, (max(ends), follower))

    def _claim(self, job: int, lane: int) -> tuple[int, int, int]:
        last = self._last.get(lane)
        wanted = 0
        if last is not None and last not in self._jobs[job].after:
            wanted = self._to_follow[last]
        return self.schedule.start_on(job, lane), wanted, lane

    def _next_event(self, now: int) -> int:
        """The next time at which a job is ready or a lane is free."""
        times = [time for time in self.schedule.free.values() if time > now]
        if self._coming:
            times.append(self._coming[0][0])
        return min(times, default=now)


def best_of(candidates: Iterable[Schedule]) -> Schedule:
    """The schedule that ends first, of equal ones the first."""
    return min(candidates, key=lambda schedule: schedule.makespan)


def lower_limit(jobs: Sequence[Job]) -> int:
    """
    A time that no schedule is shorter than: that of the longest path, or of all that
    must run on the same lanes, shared out evenly.
    """
    limit = max(bottom_levels(jobs), default=0)
    groups = {tuple(job.lanes) for job in jobs}
    for lanes in groups:
        inside = [job.time for job in jobs if set(job.lanes) <= set(lanes)]
        limit = max(limit, -(-sum(inside) // len(lanes)))
    return limit
