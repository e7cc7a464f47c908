"""Packing: problems, rules, budgets, plug-ins, and layouts of all algorithms."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from itertools import count as counting
from itertools import permutations
from types import SimpleNamespace
from typing import cast

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import plugins
from penstock.lowering.algorithms.packing import (
    Budget,
    Lifetime,
    PackingError,
    Problem,
    budget,
    pack,
    packing_names,
    register_packing,
    registry,
)
from penstock.lowering.algorithms.packing.greedy import (
    ORDERS,
    RULES,
    by_fullest_step,
    by_size,
    conflict_counts,
    place_in_order,
)
from penstock.lowering.algorithms.packing.problem import align

GREEDY = (*RULES, "mutual-exclusion-first", "compact-insert")
SEARCHES = ("best", "branch-and-bound", "local-search")
FEW_STEPS = 2_000_000

################################################################################
# Oracles                                                                      #
################################################################################


def overlaps(lives: Sequence[Lifetime], offsets: Sequence[int]) -> bool:
    """
    Whether two that are needed together share bytes, in O(n log n): what is alive is
    kept in the order of offsets, and only neighbours there can be the first to overlap.
    """
    events = [(life.first, 1, i) for i, life in enumerate(lives) if life.size]
    events += [(life.last + 1, 0, i) for i, life in enumerate(lives) if life.size]
    alive: list[tuple[int, int]] = []
    for _, begins, i in sorted(events):
        row = offsets[i], offsets[i] + lives[i].size
        at = bisect_left(alive, row)
        if not begins:
            assert alive.pop(at) == row
            continue
        if at > 0 and alive[at - 1][1] > row[0]:
            return True
        if at < len(alive) and alive[at][0] < row[1]:
            return True
        insort(alive, row)
    return False


def assert_sound(problem: Problem, offsets: Sequence[int]) -> None:
    """Check a layout."""
    assert len(offsets) == len(problem.lifetimes)
    assert all(o >= 0 and o % problem.alignment == 0 for o in offsets)
    assert not overlaps(problem.lifetimes, offsets)
    for i, j in problem.further_conflicts:
        a, b = offsets[i], offsets[j]
        assert a + problem.sizes[i] <= b or b + problem.sizes[j] <= a
    assert problem.peak(offsets) >= problem.bound


def least_peak(sizes: Sequence[int], conflicts: Sequence[int], alignment: int) -> int:
    """
    The least end of all layouts: one of them has each buffer on the highest of those
    before it that it conflicts with, in one of all orders.
    """
    best = sum(align(size, alignment) for size in sizes)
    for order in permutations(range(len(sizes))):
        ends = [0] * len(sizes)
        peak = 0
        for place, i in enumerate(order):
            below = (ends[j] for j in order[:place] if conflicts[i] >> j & 1)
            start = align(max(below, default=0), alignment)
            ends[i] = start + sizes[i]
            peak = max(peak, ends[i])
        best = min(best, peak)
    return best


def conflicts_of(problem: Problem) -> list[int]:
    """The set of those that each buffer conflicts with."""
    lives = problem.lifetimes
    sets = [
        sum(
            1 << j
            for j, b in enumerate(lives)
            if j != i and a.first <= b.last and b.first <= a.last
        )
        for i, a in enumerate(lives)
    ]
    for i, j in problem.further_conflicts:
        sets[i] |= 1 << j
        sets[j] |= 1 << i
    return sets


################################################################################
# Problems                                                                     #
################################################################################


def random_problem(seed: int, most: int = 40, *, further: bool = False) -> Problem:
    """A problem with sizes that are often equal, a few of them 0."""
    rng = random.Random(seed)
    count, steps = rng.randrange(1, most), rng.randrange(1, most)
    sizes = [rng.randrange(300) for _ in range(6)]
    firsts = [rng.randrange(steps) for _ in range(count)]
    lives = [
        Lifetime(first, first + rng.randrange(9), rng.choice(sizes)) for first in firsts
    ]
    pairs = {
        (i, j)
        for i in range(count)
        for j in range(i)
        if further and rng.random() < 0.1 and lives[i].last < lives[j].first
    }
    return Problem(lives, rng.choice([1, 8, 64]), sorted(pairs))


def tiling(seed: int, count: int, width: int, height: int) -> Problem:
    """
    A box that is cut into pieces, again and again: the bound is its height, and they
    fit into it. The list does not tell how.
    """
    rng = random.Random(seed)
    pieces = [(0, width, 0, height)]
    while len(pieces) < count:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        left, right, low, high = pieces.pop()
        if right - left > 1 and (rng.random() < 0.5 or high - low < 2):
            cut = rng.randrange(left + 1, right)
            pieces += [(left, cut, low, high), (cut, right, low, high)]
        else:
            cut = rng.randrange(low + 1, high)
            pieces += [(left, right, low, cut), (left, right, cut, high)]
    rng.shuffle(pieces)
    return Problem([Lifetime(a, b - 1, d - c) for a, b, c, d in pieces])


def test_the_bound_counts_the_fullest_step():
    lives = [Lifetime(0, 2, 5), Lifetime(2, 3, 7), Lifetime(3, 4, 6)]
    assert Problem(lives).bound == 13
    # All but one are filled up to 8, best the one that gains most: 8 + 6.
    assert Problem(lives, 8).bound == 14
    assert Problem([]).bound == 0


@pytest.mark.parametrize("seed", range(draws(33)))
def test_bounds_hold_for_each_step(seed: int):
    problem = random_problem(seed)
    lives, strides = problem.lifetimes, problem.strides
    least = 0
    for step in range(max(life.last for life in lives) + 1):
        alive = [i for i, x in enumerate(lives) if x.first <= step <= x.last]
        lost = [strides[i] - lives[i].size for i in alive]
        least = max(least, sum(strides[i] for i in alive) - max(lost, default=0))
    assert problem.bound == least
    if problem.alignment == 1:
        assert max(sum(problem.sizes[i] for i in s) for s in problem.sections or [[]])


def test_sections_are_the_largest_sets_that_are_needed_at_one_step():
    lives = [Lifetime(0, 1, 1), Lifetime(1, 2, 1), Lifetime(2, 5, 1), Lifetime(4, 4, 0)]
    assert Problem(lives).sections == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Problem([], 0), "alignment must be at least 1, got 0"),
        (
            lambda: Problem([Lifetime(3, 2, 1)]),
            "buffer 0 is needed from 3 to 2 and has 1 bytes",
        ),
        (
            lambda: Problem([Lifetime(3, 3, -1)]),
            "buffer 0 is needed from 3 to 3 and has -1 bytes",
        ),
        (
            lambda: Problem([Lifetime(0, 0, 1)], 1, [(0, 1)]),
            "no two of 1 buffers: 0 and 1",
        ),
        (
            lambda: Problem([Lifetime(0, 0, 1)], 1, [(0, 0)]),
            "no two of 1 buffers: 0 and 0",
        ),
        (lambda: Budget(seconds=-1), "seconds must not be negative, got -1"),
        (lambda: Budget(steps=-2), "steps must not be negative, got -2"),
        (lambda: Budget(capacity=-3), "capacity must not be negative, got -3"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()


@pytest.mark.parametrize("seed", range(draws(20)))
def test_conflicts_become_lifetimes_and_further_conflicts(seed: int):
    rng = random.Random(seed)
    count = rng.randrange(1, 12)
    sizes = [rng.randrange(1, 20) for _ in range(count)]
    conflicts = [0] * count
    for i in range(count):
        for j in range(i):
            if rng.random() < 0.5:
                conflicts[i] |= 1 << j
                conflicts[j] |= 1 << i
    problem = Problem.of_conflicts(sizes, conflicts, alignment=4)
    assert problem.sizes == sizes
    assert conflicts_of(problem) == conflicts


def test_conflicts_that_are_those_of_lifetimes_need_no_further_ones():
    lives = [Lifetime(0, 2, 4), Lifetime(1, 1, 9), Lifetime(2, 4, 8), Lifetime(4, 5, 7)]
    wanted = Problem(lives)
    found = Problem.of_conflicts(wanted.sizes, conflicts_of(wanted))
    assert not found.further_conflicts
    assert found.bound == wanted.bound == 15


################################################################################
# Rules                                                                        #
################################################################################


def test_first_fit_in_order_of_time():
    """
    NN-100 of docs/sources.md: A 100, B 64, C 1; free A; D 65; free B; E 200; F 10;
    alignment 64.
    """
    a, b, c = Lifetime(0, 2, 100), Lifetime(1, 3, 64), Lifetime(2, 5, 1)
    d, e, f = Lifetime(3, 5, 65), Lifetime(4, 5, 200), Lifetime(5, 5, 10)
    problem = Problem([a, b, c, d, e, f], 64)
    assert pack(problem, "first-fit-time") == [0, 128, 192, 0, 256, 128]


def test_best_fit_takes_the_smallest_gap():
    # Gaps of 30 and 10 bytes, and 10 are needed.
    lives = [
        Lifetime(0, 0, 30),
        Lifetime(0, 1, 5),
        Lifetime(0, 0, 10),
        Lifetime(0, 1, 5),
        Lifetime(1, 1, 10),
    ]
    assert pack(Problem(lives), "first-fit-time")[4] == 0
    assert pack(Problem(lives), "time-line")[4] == 35


def test_orders_of_time_differ_in_what_begins_together():
    lives = [Lifetime(0, 5, 8), Lifetime(0, 1, 4), Lifetime(2, 3, 4)]
    assert pack(Problem(lives), "time-line") == [0, 8, 8]
    assert pack(Problem(lives), "best-fit") == [4, 0, 0]


def test_what_is_needed_longest_is_placed_first():
    lives = [Lifetime(0, 1, 9), Lifetime(0, 2, 3), Lifetime(0, 2, 5)]
    assert pack(Problem(lives), "lifetime-first") == [8, 5, 0]


def test_bytes_times_steps():
    lives = [Lifetime(0, 1, 9), Lifetime(0, 4, 4)]
    assert pack(Problem(lives), "volume-first") == [4, 0]


def test_conflicts_are_counted():
    lives = [Lifetime(0, 1, 1), Lifetime(1, 4, 1), Lifetime(3, 5, 1), Lifetime(9, 9, 1)]
    nothing = Lifetime(0, 9, 0)
    pairs = [(3, 0), (3, 4)]
    assert conflict_counts(Problem([*lives, nothing], 1, pairs)) == [2, 2, 1, 1, 5]


def test_the_fullest_step_comes_first():
    lives = [
        Lifetime(0, 1, 9),
        Lifetime(1, 2, 2),
        Lifetime(2, 3, 10),
        Lifetime(4, 4, 1),
    ]
    assert by_fullest_step(Problem(lives)) == [2, 1, 0, 3]


def test_either_order_of_conflicts_may_be_lower():
    """`mutual-exclusion-first` is as good as the better one of both."""
    from penstock.lowering.algorithms.packing.greedy import (
        by_fewest_conflicts,
        by_most_conflicts,
    )

    won = {"fewest": 0, "most": 0}
    for seed in range(60):
        problem = random_problem(seed)
        fewest, most = (
            problem.peak(place_in_order(problem, order(problem), "first"))
            for order in (by_fewest_conflicts, by_most_conflicts)
        )
        won["fewest"] += fewest < most
        won["most"] += most < fewest
        found = pack(problem, "mutual-exclusion-first")
        assert problem.peak(found) == min(fewest, most)
    assert min(won.values()) > 0


@pytest.mark.slow
def test_further_conflicts_keep_apart():
    lives = [Lifetime(0, 0, 8), Lifetime(1, 1, 8), Lifetime(2, 2, 8)]
    problem = Problem(lives, 1, [(0, 2)])
    assert problem.bound == 8
    for name in packing_names():
        found = pack(problem, name, Budget(steps=FEW_STEPS))
        assert problem.peak(found) == 16, name


################################################################################
# All algorithms                                                               #
################################################################################


@pytest.mark.parametrize("name", [*GREEDY, *SEARCHES])
def test_layouts_are_sound(name: str):
    for seed in range(40):
        problem = random_problem(seed, further=bool(seed % 2))
        assert_sound(problem, pack(problem, name, Budget(steps=FEW_STEPS)))


@pytest.mark.parametrize("name", [*GREEDY, *SEARCHES])
def test_nothing_and_no_bytes(name: str):
    assert pack(Problem([]), name) == []
    assert pack(Problem([Lifetime(0, 0, 0), Lifetime(0, 3, 0)], 64), name) == [0, 0]
    lives = [Lifetime(0, 1, 0), Lifetime(0, 1, 8), Lifetime(0, 1, 0)]
    assert Problem(lives).peak(pack(Problem(lives), name)) == 8


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Up to six buffers, most of which conflict."""
    count = draw(st.integers(1, 6))
    firsts = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    spans = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    sizes = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    rows = zip(firsts, spans, sizes, strict=True)
    lives = [Lifetime(first, first + span, size) for first, span, size in rows]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    further = draw(st.lists(pairs.filter(lambda pair: pair[0] < pair[1]), max_size=3))
    return Problem(lives, draw(st.sampled_from([1, 4])), further if count > 1 else ())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_exact_search_finds_the_least_peak(problem: Problem):
    found = pack(problem, "branch-and-bound", Budget())
    assert_sound(problem, found)
    least = least_peak(problem.sizes, conflicts_of(problem), problem.alignment)
    assert problem.peak(found) == least


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 40))
def test_a_capacity_is_met_if_and_only_if_it_can_be(problem: Problem, capacity: int):
    found = pack(problem, "branch-and-bound", Budget(capacity=capacity))
    least = least_peak(problem.sizes, conflicts_of(problem), problem.alignment)
    assert (problem.peak(found) <= capacity) == (least <= capacity)


@pytest.mark.parametrize("seed", range(draws(8)))
def test_best_is_never_worse_than_a_rule(seed: int):
    problem = random_problem(seed, 120, further=bool(seed % 3))
    best = problem.peak(pack(problem, "best", Budget(steps=0)))
    assert best <= min(problem.peak(pack(problem, name)) for name in GREEDY)
    more = problem.peak(pack(problem, "best", Budget(steps=FEW_STEPS)))
    assert more <= best


@pytest.mark.parametrize("seed", range(6))
def test_boxes_that_were_cut_are_put_together(seed: int):
    problem = tiling(seed, 60, width=1000, height=5000)
    assert problem.bound == 5000
    assert problem.peak(pack(problem, "size-first")) > 5000
    found = pack(problem)
    assert_sound(problem, found)
    assert problem.peak(found) == 5000


def test_parts_are_improved_where_they_are_highest():
    """Two boxes one after the other, of which the first is much lower."""
    low, high = tiling(1, 40, 500, 300), tiling(2, 40, 500, 3000)
    later = [Lifetime(a + 500, b + 500, size) for a, b, size in high.lifetimes]
    problem = Problem([*low.lifetimes, *later])
    found = pack(problem)
    assert_sound(problem, found)
    assert problem.peak(found) == 3000


@pytest.fixture(params=["Python", "machine code"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way in which the functions of searches run; Python compiles nothing."""
    from penstock.lowering.algorithms.packing import compiled, portfolio

    compiled.use_machine_code()
    if request.param == "Python":
        monkeypatch.delattr(portfolio, "compile_functions")
        for each in compiled._functions:  # pyright: ignore[reportPrivateUsage]
            monkeypatch.setattr(each, "machine_code", None)
    return request.param


@pytest.mark.parametrize("seed", range(5))
def test_rules_on_tables_place_like_the_others(seed: int, way: str):
    from penstock.lowering.algorithms.packing.portfolio import laid_out_by_rules
    from penstock.lowering.algorithms.packing.tables import Tables

    problem = random_problem(seed, 60, further=True)
    layouts = laid_out_by_rules(Tables(problem))
    for order in ORDERS:
        for fit in ("first", "best"):
            placed = place_in_order(problem, order(problem), fit)
            found = next(layouts)
            pairs = zip(found, placed, problem.sizes, strict=True)
            assert all(a == b for a, b, size in pairs if size)


def test_short_searches_are_the_same_in_python(way: str):
    """A box, by some hundred steps on rows that are objects or those of arrays."""
    problem = tiling(3, 12, 60, 300)
    found = pack(problem, "branch-and-bound")
    assert_sound(problem, found)
    assert problem.peak(found) == problem.bound == 300


@pytest.mark.slow
def test_local_search_lowers_what_it_starts_from():
    lower = 0
    for seed in range(8):
        problem = tiling(seed, 80, width=300, height=4000)
        start = problem.peak(pack(problem, "compact-insert"))
        found = pack(problem, "local-search", Budget(steps=10 * FEW_STEPS))
        assert_sound(problem, found)
        assert problem.peak(found) <= start
        lower += problem.peak(found) < start
    assert lower >= 4


################################################################################
# Budgets                                                                      #
################################################################################

HARD = tiling(5, 700, width=2000, height=100_000)
"""A problem whose bound no search here reaches."""


@pytest.mark.parametrize("name", SEARCHES)
def test_time_is_kept(name: str, monkeypatch: pytest.MonkeyPatch):
    """A search looks at the clock again and again, and ends when its time is over."""
    asked = counting()
    # A second passes each time that anybody looks at it.
    clock = SimpleNamespace(perf_counter=lambda: next(asked))
    monkeypatch.setattr(budget, "time", clock)
    found = pack(HARD, name, Budget(seconds=4))
    assert 4 <= next(asked) < 16
    assert_sound(HARD, found)
    assert HARD.peak(found) > HARD.bound


@pytest.mark.parametrize("name", SEARCHES)
def test_steps_alone_decide_what_is_found(name: str):
    first, second = (pack(HARD, name, Budget(steps=FEW_STEPS)) for _ in range(2))
    assert first == second
    more = pack(HARD, name, Budget(steps=10 * FEW_STEPS))
    assert HARD.peak(more) <= HARD.peak(first)


def test_a_budget_is_spent_by_all_together():
    budget = Budget(steps=FEW_STEPS)
    pack(HARD, "branch-and-bound", budget)
    assert budget.is_spent
    assert pack(HARD, "branch-and-bound", budget) == pack(HARD, "size-first")


def test_a_capacity_ends_the_search():
    rule = HARD.peak(pack(HARD, "best", Budget(steps=0)))
    capacity = int(0.98 * rule)
    budget = Budget(steps=500 * FEW_STEPS, capacity=capacity)
    assert HARD.bound < HARD.peak(pack(HARD, "best", budget)) <= capacity
    assert not budget.is_spent


def test_what_is_as_low_as_can_be_needs_no_compiled_code():
    code = """
import sys
from penstock.lowering.algorithms.packing import Lifetime, Problem, pack
problem = Problem([Lifetime(i, i + 1, 64) for i in range(100)], 64)
assert problem.peak(pack(problem)) == 128
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_too_many_conflicts_leave_the_rules(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "MAX_CONFLICTS", 3)
    assert pack(HARD, "compact-insert") == pack(HARD, "size-first")
    assert pack(HARD, "local-search") == pack(HARD, "size-first")
    orders = by_size(HARD), by_fullest_step(HARD)
    peaks = [HARD.peak(place_in_order(HARD, order, "first")) for order in orders]
    assert HARD.peak(pack(HARD)) == min(peaks)


################################################################################
# Plug-ins                                                                     #
################################################################################


@pytest.fixture(autouse=True)
def own_names() -> Iterator[None]:
    """The names that a test registers, and packages that it installs, are forgotten."""
    yield
    plugins.forget(__name__)
    plugins.look_again()


def install(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Let an entry point be there."""
    entries = EntryPoints([EntryPoint(name, value, "penstock.packing")])
    monkeypatch.setattr(plugins, "entry_points", lambda: entries)
    plugins.look_again()


def test_registered_functions_are_algorithms():
    seen: list[Budget] = []

    def stacked(problem: Problem, budget: Budget) -> list[int]:
        seen.append(budget)
        return [i * 8 for i in range(len(problem.sizes))]

    register_packing("stacked", stacked)
    assert "stacked" in packing_names()
    budget = Budget(steps=7)
    problem = Problem([Lifetime(0, 0, 8), Lifetime(0, 0, 8)], 8)
    assert pack(problem, "stacked", budget) == [0, 8]
    assert seen == [budget]


def test_names_are_taken_once():
    with pytest.raises(PackingError, match="there already is a memory planner 'best'"):
        register_packing("best", registry.best)


def test_unknown_names_are_answered_with_the_nearest():
    expected = "no memory planner 'bst', did you mean 'best'?"
    with pytest.raises(PackingError, match=re.escape(expected)):
        pack(Problem([]), "bst")


def test_installed_packages_bring_algorithms(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, "theirs", "penstock.lowering.algorithms.packing.registry:best")
    assert "theirs" in packing_names()
    assert pack(Problem([Lifetime(0, 0, 8)]), "theirs") == [0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "penstock.lowering.algorithms.packing.registry:nothing",
            "memory planner 'theirs' of .* cannot be loaded: AttributeError: ",
        ),
        (
            "penstock.lowering.algorithms.packing.registry:DEFAULT_STEPS",
            "memory planner 'theirs' of .* is no function but of int",
        ),
    ],
)
def test_broken_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
):
    install(monkeypatch, "theirs", value)
    with pytest.raises(PackingError, match=message):
        pack(Problem([]), "theirs")


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 64], "returns 2 offsets for 3 buffers"),
        ([0, 64, 100], "puts buffer 2 at 100, no multiple of 64 from 0 on"),
        ([0, 64, -64], "puts buffer 2 at -64, no multiple of 64 from 0 on"),
        ([0, 64, 2**62], f"puts buffer 2 at {2**62}, past the largest chunk"),
        (None, "returns no list of integers: 'NoneType' object is not iterable"),
        (
            ["x", 0, 64],
            "returns no list of integers: 'str' object cannot be interpreted as an "
            "integer",
        ),
        ([64, 0, 128], "puts buffers 0 and 1 on common bytes"),
        ([0, 128, 64], "puts buffers 0 and 2 on common bytes"),
    ],
)
def test_bad_layouts_are_refused(offsets: object, message: str):
    register_packing("bad", lambda problem, budget: cast("list[int]", offsets))
    lives = [Lifetime(0, 0, 80), Lifetime(0, 0, 80), Lifetime(1, 1, 10)]
    problem = Problem(lives, 64, [(0, 2)])
    with pytest.raises(PackingError, match=f"^memory planner 'bad' {message} "):
        pack(problem, "bad")


def test_rules_are_tried_before_a_search_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        sys.modules, "penstock.lowering.algorithms.packing.portfolio", None
    )
    problem = Problem(
        [
            Lifetime(first, last, size)
            for first, last, size in ((2, 5, 2), (1, 3, 2), (3, 6, 2), (1, 1, 3))
        ]
    )
    assert problem.peak(pack(problem, "size-first")) > problem.bound
    assert problem.peak(pack(problem, "best")) == problem.bound
