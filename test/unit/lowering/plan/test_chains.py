"""Chains of random tasks against what is true of them by definition."""

from __future__ import annotations

import random
from collections.abc import Callable
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np
import pytest
from counted_work import LINEAR, growth_of

from penstock.lowering.plan.form_chains import Node, chains_of, levels_of

SEEDS = range(60)


def random_nodes(seed: int, count: int = 24, streams: int = 3) -> list[Node]:
    """Tasks that read from others before them; a fifth of them cannot be chained."""
    rng = random.Random(f"{seed} {count}")
    density = rng.choice((0.05, 0.1, 0.3))
    return [
        Node(
            None if rng.random() < 0.2 else rng.randrange(streams),
            [source for source in range(task) if rng.random() < density],
        )
        for task in range(count)
    ]


def paths_to(nodes: list[Node], task: int) -> list[list[int]]:
    """All paths to a task, from any task on."""
    longer = [[*p, task] for s in nodes[task].sources for p in paths_to(nodes, s)]
    return [[task], *longer]


def hand_overs(nodes: list[Node], path: list[int]) -> int:
    """
    The number of times that a path changes the stream, or goes to or from a task that
    has none.
    """
    streams = [nodes[task].stream for task in path]
    return sum(a is None or a != b for a, b in pairwise(streams))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_level_counts_the_hand_overs_on_the_longest_path(seed: int):
    nodes = random_nodes(seed, count=11)
    expected = [
        max(
            (
                hand_overs(nodes, path)
                for path in paths_to(nodes, task)
                if nodes[path[0]].stream is not None
            ),
            default=-1,
        )
        for task in range(len(nodes))
    ]
    assert levels_of(nodes) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_chains_are_the_connected_tasks_of_one_stream_and_level(seed: int):
    nodes = random_nodes(seed)
    levels = levels_of(nodes)
    connected = np.eye(len(nodes), dtype=np.int64)
    for task, (stream, sources) in enumerate(nodes):
        for source in sources:
            same = stream is not None and stream == nodes[source].stream
            if same and levels[source] == levels[task]:
                connected[source, task] = connected[task, source] = 1
    for _ in range(5):
        # Each square reaches twice as far.
        connected = np.minimum(connected @ connected, 1)
    chains = np.array(chains_of(nodes))
    np.testing.assert_array_equal(connected > 0, chains[:, None] == chains)


@pytest.mark.parametrize("seed", SEEDS)
def test_whole_chains_can_run_one_after_the_other(seed: int):
    nodes = random_nodes(seed)
    chains = chains_of(nodes)
    assert list(dict.fromkeys(chains)) == list(range(max(chains) + 1))
    waits: dict[int, set[int]] = {chain: set() for chain in chains}
    for task, node in enumerate(nodes):
        waits[chains[task]].update(chains[s] for s in node.sources)
    for chain, others in waits.items():
        others.discard(chain)
    # Raises CycleError if chains wait for each other.
    order = list(TopologicalSorter(waits).static_order())
    assert sorted(order) == sorted(waits)


def test_tasks_of_one_stream_without_others_in_between_are_one_chain():
    nodes = [Node(None, []), Node(0, [0]), Node(0, [1]), Node(0, [0, 1]), Node(0, [])]
    assert chains_of(nodes) == [0, 1, 1, 1, 2]


def test_branches_that_wait_for_each_others_beginnings_are_cut():
    # 0 -> 2 and 1 -> 3 are between streams. Without levels {0, 3, 4} and {1, 2, 5}
    # would wait for each other, though no path leads out of one of them and back.
    nodes = [
        *(Node("a", []), Node("b", []), Node("b", [0]), Node("a", [1])),
        *(Node("a", [0, 3]), Node("b", [1, 2])),
    ]
    assert chains_of(nodes) == [0, 1, 2, 3, 3, 2]


def test_many_tasks_take_linear_time():
    rng = random.Random(1)

    def problem(size: int) -> Callable[[], object]:
        nodes = [
            Node(task % 8, [rng.randrange(max(0, task - 40), task)] if task else [])
            for task in range(size)
        ]
        return lambda: chains_of(nodes)

    assert growth_of(problem, 1_000) < LINEAR
