"""The queue of accesses: which runs may go on together, and that all do at last."""

import random
import threading
from itertools import combinations

import pytest
from draws import draws

from penstock.runtime.executors.access_queue import Access, AccessQueue, Use

Names = tuple[str, ...]
"""Names that are used; those that are only read end in `?`."""


def use_of(names: Names) -> Use:
    read = {name[:-1] for name in names if name.endswith("?")}
    return Use(frozenset(read), frozenset(names) - {f"{name}?" for name in read})


def random_uses(rng: random.Random) -> list[Names]:
    names = [f"r{i}" for i in range(rng.randrange(1, 5))]

    def names_of_one() -> Names:
        found = rng.sample(names, rng.randrange(0, len(names) + 1))
        return tuple(name + rng.choice(["", "?"]) for name in found)

    return [names_of_one() for _ in range(rng.randrange(1, 6))]


def collide(some: set[str], others: set[str]) -> bool:
    """Whether one side writes what the other one uses."""
    return any(
        a.rstrip("?") == b.rstrip("?") and not (a.endswith("?") and b.endswith("?"))
        for a in some
        for b in others
    )


def asked(queue: AccessQueue, *wanted: Names) -> list[Access]:
    return queue.ask_all([use_of(names) for names in wanted])


def may_go_on(*accesses: Access) -> list[bool]:
    return [not access.waits_for for access in accesses]


# The rule ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(draws(66)))
def test_an_access_waits_for_the_older_ones_that_it_collides_with(seed: int):
    """
    An access may go on if and only if no older one that has not ended writes what it
    uses, or uses what it writes, not counting names that are released.
    """
    rng = random.Random(seed)
    uses = random_uses(rng)
    queue = AccessQueue()
    alive: list[tuple[Access, set[str]]] = []
    for _ in range(60):
        if alive and rng.random() < 0.5:
            # Those that wait may give up, too.
            place = rng.randrange(len(alive))
            access, has = alive[place]
            if has and not access.waits_for and rng.random() < 0.5:
                queue.begin(access)
                name = rng.choice(sorted(has))
                queue.release(access, [name.rstrip("?")])
                has.remove(name)
            else:
                queue.end(access)
                del alive[place]
        else:
            names = rng.choice(uses)
            alive.append((queue.ask(use_of(names)), set(names)))
        for place, (access, has) in enumerate(alive):
            rivals = [None for _, older in alive[:place] if collide(older, has)]
            assert may_go_on(access) == [not rivals]


@pytest.mark.parametrize("seed", range(draws(33)))
def test_those_that_go_first_wait_for_those_only_that_have_begun(seed: int):
    rng = random.Random(seed)
    uses = random_uses(rng)
    queue = AccessQueue()
    order: list[tuple[Access, set[str]]] = []
    """The accesses in the order in which they may go on."""
    for _ in range(40):
        ready = [access for access, _ in order if not access.waits_for]
        choice = rng.random()
        if ready and choice < 0.3:
            queue.begin(rng.choice(ready))
        elif ready and choice < 0.5:
            gone = rng.choice(ready)
            queue.end(gone)
            order = [entry for entry in order if entry[0] is not gone]
        else:
            names, first = rng.choice(uses), choice < 0.7
            entry = queue.ask(use_of(names), first=first), set(names)
            begun = [other for other in order if other[0].has_begun]
            waiting = [other for other in order if not other[0].has_begun]
            order = [*begun, entry, *waiting] if first else [*order, entry]
        for place, (access, has) in enumerate(order):
            if not access.has_begun:
                rivals = [None for _, older in order[:place] if collide(older, has)]
                assert may_go_on(access) == [not rivals]


def test_those_who_read_only_go_on_together_and_wait_for_who_writes():
    queue = AccessQueue()
    first, second, writer, late = asked(queue, ("x?",), ("x?",), ("x",), ("x?",))
    # Who reads after somebody has asked to write waits for that.
    assert may_go_on(first, second, writer, late) == [True, True, False, False]
    queue.end(first)
    assert may_go_on(writer) == [False]
    queue.end(second)
    assert may_go_on(writer, late) == [True, False]
    queue.end(writer)
    assert may_go_on(late) == [True]


def test_who_gives_up_lets_others_pass():
    queue = AccessQueue()
    first, second, third = asked(queue, ("x",), ("x", "y"), ("y",))
    assert may_go_on(first, second, third) == [True, False, False]
    queue.end(second)
    assert may_go_on(first, third) == [True, True]
    # Once more is nothing.
    queue.end(second)
    queue.end(first)
    assert may_go_on(*asked(queue, ("x",))) == [True]


# Threads -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_threads_take_turns_and_end(seed: int):
    """
    Several threads ask for several runs at once. Runs that collide are never under way
    together, and begin in the order in which they were asked for.
    """
    rng = random.Random(seed)
    uses = random_uses(rng)
    queue, lock = AccessQueue(), threading.Lock()
    asked_so_far: list[Access] = []
    names_of: dict[Access, set[str]] = {}
    under_way: set[Access] = set()
    begun: list[Access] = []

    def work(plans: list[list[Names]]) -> None:
        for plan in plans:
            with lock:
                accesses = asked(queue, *plan)
                asked_so_far.extend(accesses)
                names_of.update(zip(accesses, map(set, plan), strict=True))
            for access in accesses:
                queue.begin(access)
                with lock:
                    mine = names_of[access]
                    assert not any(collide(mine, names_of[x]) for x in under_way)
                    under_way.add(access)
                    begun.append(access)
                with lock:
                    under_way.remove(access)
                queue.end(access)

    plans = [
        [rng.choices(uses, k=rng.randrange(1, 4)) for _ in range(20)] for _ in range(4)
    ]
    threads = [threading.Thread(target=work, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert len(begun) == len(asked_so_far)
    number = {access: i for i, access in enumerate(asked_so_far)}
    for one, other in combinations(begun, 2):
        if collide(names_of[one], names_of[other]):
            assert number[one] < number[other]


def test_runs_that_share_nothing_meet():
    queue = AccessQueue()
    both = threading.Barrier(2)

    def work(name: str) -> None:
        access = queue.ask(use_of((name,)))
        queue.begin(access)
        both.wait(300)
        queue.end(access)

    thread = threading.Thread(target=work, args=("a",))
    thread.start()
    work("b")
    thread.join(300)


def test_who_waits_goes_on_when_a_run_has_released_what_both_use():
    queue = AccessQueue()
    run, push = asked(queue, ("group", "x?"), ("x",))
    queue.begin(run)
    flag = [False]
    looked, waits, goes_on = (threading.Event() for _ in range(3))

    def is_raised() -> bool:
        looked.set()
        return flag[0]

    def work() -> None:
        waits.set()
        queue.begin(push)
        goes_on.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert waits.wait(300)
    queue.release_when(run, {"x": is_raised})
    assert looked.wait(300)
    assert not goes_on.is_set()
    flag[0] = True
    assert goes_on.wait(300)
    assert run.use == use_of(("group",))
    queue.end(run)
    queue.end(push)
    thread.join(300)
    assert may_go_on(*asked(queue, ("group", "x"))) == [True]


def test_what_a_run_has_not_released_it_gives_back_at_its_end():
    queue = AccessQueue()
    run, push = asked(queue, ("x?",), ("x",))
    queue.begin(run)
    queue.release_when(run, {"x": lambda: False})
    queue.end(run)
    assert may_go_on(push) == [True]
