"""When launches of linked jobs act on the real clock, and where they share bytes."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from loaded_programs import load_program

from penstock.runtime.core.state_layout import ACTS
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import Stream
from penstock.runtime.executors.stream_core import StreamCore
from penstock.runtime.observe.observers import Event, Observer
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.tools.session.program_export import image_of

sys.path.insert(0, str(Path(__file__).parent))

from test_main_job import (
    ALONE,
    EVAL,
    PUSH,
    TRAIN,
    assert_equal,
    compiled,
    expected,
    launches,
)

NAMES = {TRAIN: "train", EVAL: "eval", ALONE: "alone", PUSH: "System-Push-x"}


Start: TypeAlias = Callable[..., "Future[Any]"]
Until: TypeAlias = Callable[[Callable[[], bool]], None]


class Acts(Observer):
    """When each act of each task that does something began and ended."""

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def stop(self, event: Event) -> None:
        if event.task is not None and event.task.ops:
            self.times[event.task.name].append((event.start, event.end))

    def launches_of(self, job: str) -> list[tuple[int, int]]:
        """When each launch of a job began its first act, and ended its last one."""
        own = [acts for name, acts in self.times.items() if name.startswith(f"{job}/")]
        return [
            (min(start for start, _ in acts), max(end for _, end in acts))
            for acts in zip(*own, strict=True)
        ]


@contextmanager
def watched(threads: int, *delays: KernelFault) -> Generator[tuple[Stream, Acts]]:
    """A stream of the jobs of `test_main_job`, in which some kernels take longer."""
    with Executor(load_program(*compiled(), threads=threads)) as runner:
        acts = Acts()
        runner.observers.attach(acts, levels=["task"])
        with inject(runner, *delays), runner.stream() as stream:
            yield stream, acts


def run(jobs: Sequence[int], threads: int, *delays: KernelFault) -> Acts:
    """Launch jobs one after the other, and compare what comes out with NumPy."""
    inputs = launches(jobs, 1)
    with watched(threads, *delays) as (stream, acts):
        outputs = stream.run(inputs).outputs
    for name, pieces in expected(jobs, inputs).items():
        assert_equal(outputs[name], pieces)
    return acts


def meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two spans of time have more than an end in common."""
    return one[0] < other[1] and other[0] < one[1]


def test_what_several_jobs_have_lies_in_one_place() -> None:
    program = load_program(*compiled())
    image = program.image
    x = {
        (queue.chunk, queue.offset)
        for queue in image.queues
        if queue.interface == "x" and queue.chunk is not None
    }
    assert len([queue for queue in image.queues if queue.interface == "x"]) == 3
    assert len(x) == 1
    # What is pushed is neither copied by who pushes it on, nor by who reads it.
    copies = [s for actor in image.actors for s in actor.steps if s.verb == "copy"]
    assert [copy.arguments[1] for copy in copies] == ["w"]
    assert [variable.name for variable in image.variables] == ["w"]
    (reader,) = (actor for actor in image.actors if actor.name == "eval/e")
    assert "w" in reader.steps[0].arguments


def test_jobs_that_may_meet_are_on_streams_of_their_own() -> None:
    program, _ = compiled()
    streams: dict[str, set[int]] = defaultdict(set)
    for actor in image_of(program).actors:
        if actor.steps and actor.job is not None:
            streams[actor.job].add(actor.stream)
    assert streams["train"] == streams["eval"]
    for one, other in combinations(("train", "alone", "System-Push-x"), 2):
        assert not streams[one] & streams[other]


@pytest.mark.parametrize("threads", [2, 3])
def test_kernels_of_jobs_that_share_nothing_run_at_the_same_time(
    threads: int, start: Start, until: Until
) -> None:
    gates = {"train/d": Gate(), "alone/f": Gate()}

    def open_all() -> None:
        until(lambda: all(gate.is_reached for gate in gates.values()))
        for gate in gates.values():
            gate.open()

    start(open_all)
    faults = [KernelFault(task, 0, gate=gate) for task, gate in gates.items()]
    acts = run([PUSH, TRAIN, ALONE], threads, *faults)
    assert meet(acts.times["train/d"][0], acts.times["alone/f"][0])


def pushes_of(stream: Stream) -> int:
    """The pushes of `x` whose tasks have all acted."""
    core = stream._engine  # pyright: ignore[reportPrivateUsage]
    assert isinstance(core, StreamCore)
    memory, job = core.memory, NAMES[PUSH]
    return min(
        int(memory.state.actors[memory.layout.place[index] + ACTS])
        for index, actor in enumerate(core.tables.actors)
        if actor.calls and actor.name.startswith(f"{job}/")
    )


def test_the_next_push_overlaps_the_current_compute(start: Start, until: Until) -> None:
    jobs, gate = [PUSH, TRAIN, PUSH, TRAIN], Gate()
    # `n` no longer needs what has been pushed.
    with watched(3, KernelFault("train/n", 0, gate=gate)) as (stream, acts):

        def open_after_push() -> None:
            until(lambda: gate.is_reached and pushes_of(stream) == 2)
            gate.open()

        start(open_after_push)
        stream.run(launches(jobs, 1))
    first, second = acts.launches_of("System-Push-x")
    train, again = acts.launches_of("train")
    begun, ended = acts.times["train/n"][0]
    assert first[1] <= train[0]
    assert begun < second[0] < second[1] < ended
    assert second[1] <= again[0]


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_jobs_that_share_never_overlap(seed: int, threads: int) -> None:
    random = np.random.default_rng(seed)
    jobs = [PUSH, *(int(x) for x in random.integers(0, 4, 40))]
    tasks = ("train/d", "train/n", "eval/e", "alone/f")
    delays = [
        KernelFault(task, int(act), seconds=0.002)
        for task in tasks
        for act in random.integers(0, 8, 4)
    ]
    acts = run(jobs, threads, *delays)
    spans = {name: acts.launches_of(name) for name in NAMES.values()}
    assert [len(spans[NAMES[job]]) for job in range(4)] == np.bincount(jobs).tolist()
    for one in spans["train"]:
        assert not any(meet(one, other) for other in spans["eval"])
    # Who reads `x` has given it back before it is pushed again.
    for reader in ("train/d", "eval/e"):
        for span in acts.times[reader]:
            assert not any(meet(span, push) for push in spans["System-Push-x"])
