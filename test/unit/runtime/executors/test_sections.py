"""Sections: which runs of jobs may go on at the same time, and that all do at last."""

import random
import threading
import time
from itertools import combinations

import pytest

from penstock.runtime.executors.job_locks import Locks, Request, Section, Sections

Names = tuple[str, ...]
"""Resources; those that are only read end in `?`."""


def sections_of(jobs: dict[str, list[Names]]) -> list[Section]:
    return [section_of(job, names) for job, parts in jobs.items() for names in parts]


def section_of(job: str, names: Names) -> Section:
    read = {name[:-1] for name in names if name.endswith("?")}
    own = {name for name in names if not name.endswith("?")}
    return Section(job, frozenset(own), frozenset(read))


def random_jobs(rng: random.Random) -> dict[str, list[Names]]:
    names = [f"r{i}" for i in range(rng.randrange(1, 5))]

    def part() -> Names:
        found = rng.sample(names, rng.randrange(0, len(names) + 1))
        return tuple(name + rng.choice(["", "?"]) for name in found)

    return {
        f"job {i}": [part() for _ in range(rng.randrange(1, 3))]
        for i in range(rng.randrange(1, 6))
    }


def collide(some: set[str], others: set[str]) -> bool:
    """Whether one side has to itself what the other one uses."""
    return any(
        a.rstrip("?") == b.rstrip("?") and not (a.endswith("?") and b.endswith("?"))
        for a in some
        for b in others
    )


def needs(jobs: dict[str, list[Names]], job: str) -> set[str]:
    return {name for part in jobs[job] for name in part}


# The rule ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(200))
def test_a_run_waits_for_the_older_ones_that_it_shares_something_with(seed: int):
    """
    Where each job has one section, a request is granted if and only if no older one
    that has not been released is of another job and has to itself what it uses, or
    uses what it has to itself.
    """
    rng = random.Random(seed)
    jobs = {job: parts[:1] for job, parts in random_jobs(rng).items()}
    locks = Locks(sections_of(jobs))
    alive: list[Request] = []
    for _ in range(60):
        if alive and rng.random() < 0.5:
            # Those that wait may give up, too.
            gone = alive.pop(rng.randrange(len(alive)))
            locks.release(gone, [*gone.held, *gone.waiting])
        else:
            alive.append(locks.request(rng.choice(list(jobs))))
        for position, request in enumerate(alive):
            rivals = [
                older
                for older in alive[:position]
                if older.job != request.job
                and collide(needs(jobs, older.job), needs(jobs, request.job))
            ]
            assert request.is_granted == (not rivals)


@pytest.mark.parametrize("seed", range(200))
def test_runs_never_share_a_resource_and_all_are_granted_at_last(seed: int):
    """Sections are given back one by one, in any order, by those that have them all."""
    rng = random.Random(seed)
    jobs = random_jobs(rng)
    sections = sections_of(jobs)
    parts = [set(names) for own in jobs.values() for names in own]
    locks = Locks(sections)
    alive: list[Request] = []
    left = 40
    while left or alive:
        granted = [request for request in alive if request.is_granted]
        if left and (not granted or rng.random() < 0.5):
            alive.append(locks.request(rng.choice(list(jobs))))
            left -= 1
        else:
            assert granted, "the oldest request waits for nobody"
            request = rng.choice(granted)
            if request.held:
                locks.release(request, [rng.choice(list(request.held))])
            if not request.held:
                alive.remove(request)
        for one, other in combinations(alive, 2):
            if one.job != other.job:
                mine = {x for i in one.held for x in parts[i]}
                theirs = {x for i in other.held for x in parts[i]}
                assert not collide(mine, theirs)


def test_a_run_does_not_wait_for_one_of_its_own_job():
    locks = Locks(sections_of({"train": [("x",)], "eval": [("x",)]}))
    first, second = locks.request("train"), locks.request("train")
    other, third = locks.request("eval"), locks.request("train")
    assert first.is_granted
    assert second.is_granted
    # Or a job that is run all the time would keep others waiting.
    assert not third.is_granted
    locks.release(second, second.held.copy())
    assert not other.is_granted
    locks.release(first, first.held.copy())
    assert other.is_granted


def test_those_who_read_only_go_on_together_and_wait_for_who_writes():
    locks = Locks(sections_of({"a": [("x?",)], "b": [("x?",)], "w": [("x",)]}))
    first, second, writer, late = (locks.request(job) for job in "abwb")
    assert (first.is_granted, second.is_granted) == (True, True)
    # Who reads after somebody has asked to write waits for that.
    assert (writer.is_granted, late.is_granted) == (False, False)
    locks.release(first, first.held.copy())
    assert not writer.is_granted
    locks.release(second, second.held.copy())
    assert writer.is_granted
    locks.release(writer, writer.held.copy())
    assert late.is_granted


def test_who_gives_up_lets_others_pass():
    locks = Locks(sections_of({"a": [("x",)], "b": [("x", "y")], "c": [("y",)]}))
    first, second, third = (locks.request(job) for job in "abc")
    assert (second.is_granted, third.is_granted) == (False, False)
    assert locks.release(second, second.waiting.copy())
    assert third.is_granted
    assert first.is_granted


# Threads -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_threads_take_turns_and_end(seed: int):
    """
    Several threads ask for several runs at once. The times of runs that share something
    or are of one job do not overlap, and are in the order in which they were asked for.
    """
    rng = random.Random(seed)
    jobs = random_jobs(rng)
    sections = Sections(sections_of(jobs))
    spans: list[tuple[int, str, float, float]] = []

    def work(plans: list[list[str]]) -> None:
        for plan in plans:
            requests = sections.request(plan)
            for request in requests:
                sections.wait(request)
                sections.begin(request, {})
                start = time.perf_counter()
                time.sleep(0.0002)
                spans.append((request.number, request.job, start, time.perf_counter()))
                sections.release(request)

    threads = [
        threading.Thread(
            target=work,
            args=([rng.choices(list(jobs), k=rng.randrange(1, 4)) for _ in range(20)],),
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    for (_, job, _, end), (_, other, start, _) in combinations(sorted(spans), 2):
        if job == other or collide(needs(jobs, job), needs(jobs, other)):
            assert end <= start


def test_runs_that_share_nothing_meet():
    sections = Sections(sections_of({"a": [("x",)], "b": [("y",)]}))
    both = threading.Barrier(2)

    def work(job: str) -> None:
        (request,) = sections.request([job])
        sections.wait(request)
        both.wait(300)
        sections.release(request)

    thread = threading.Thread(target=work, args=("a",))
    thread.start()
    work("b")
    thread.join(300)


def test_who_waits_goes_on_when_a_run_has_let_go():
    sections = Sections(sections_of({"train": [("group",), ("x",)], "push": [("x",)]}))
    run, push = sections.request(["train", "push"])
    flag = [False]
    waits, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        waits.set()
        sections.wait(push)
        goes_on.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert waits.wait(300)
    sections.begin(run, {1: lambda: flag[0]})
    assert not goes_on.wait(0.02)
    flag[0] = True
    assert goes_on.wait(300)
    assert run.held == {0}
    sections.release(run)
    sections.release(push)
    thread.join(300)
    assert sections.request(["train"])[0].is_granted


def test_what_a_run_has_not_let_go_of_it_gives_back_at_its_end():
    sections = Sections(sections_of({"train": [("x",)], "push": [("x",)]}))
    run, push = sections.request(["train", "push"])
    sections.begin(run, {0: lambda: False})
    sections.release(run)
    assert push.is_granted
