"""Kernels that several threads do in parts: results, errors, and what stops them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
from numba import cfunc

from penstock.runtime.core.atomics import load_word, store_word
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import KERNEL, Callback
from penstock.runtime.core.os_calls import sleep, thread_number
from penstock.runtime.core.state_layout import RUNNING, STOP
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.program.tables import (
    Actor,
    Call,
    Fixed,
    Register,
    Slot,
    Tables,
    Words,
)

Until: TypeAlias = Callable[[Callable[[], bool]], None]

Start: TypeAlias = Callable[..., "Future[Any]"]

pytestmark = pytest.mark.usefixtures("both_loops")

NUMBERS = 997


@cfunc(KERNEL)
def _add_index(args: int, part: int, parts: int) -> int:
    """out[i] = in[i] + i for the part of 997 elements."""
    source, target = load_word(args), load_word(args + 8)
    for i in range(997 * part // parts, 997 * (part + 1) // parts):
        store_word(target + 8 * i, load_word(source + 8 * i) + i)
    return 0


@cfunc(KERNEL)
def _count(args: int, part: int, parts: int) -> int:
    """Add one to the word of this part."""
    place = load_word(args) + 8 * part
    store_word(place, load_word(place) + 1)
    return 0


@cfunc(KERNEL)
def _check(args: int, part: int, parts: int) -> int:
    """Fail with the first code but 0 among those of the elements of this part."""
    codes = load_word(args)
    for i in range(997 * part // parts, 997 * (part + 1) // parts):
        code = load_word(codes + 8 * i)
        if code != 0:
            return code
    return 0


@cfunc(KERNEL)
def _sign(args: int, part: int, parts: int) -> int:
    """Write the number of the thread to the word of this part, after a while."""
    sleep(1_000_000)
    store_word(load_word(args) + 8 * part, thread_number())
    return 0


ADD_INDEX, COUNT, CHECK, SIGN = (
    cast(int, kernel.address) for kernel in (_add_index, _count, _check, _sign)
)


class Adders:
    """A chain of actors that each add to every element of a vector its index."""

    def __init__(self, workers: Sequence[int], parts: int, slots: int = 1):
        self.buffers = [np.zeros((slots, NUMBERS), np.int64) for _ in workers]
        self.start = np.arange(NUMBERS) * 10
        registers: list[Register] = []
        actors: list[Actor] = []
        for i, worker in enumerate(workers):
            place = self.buffers[i].ctypes.data, 8 * NUMBERS
            registers.append(Register(f"r{i}", i, slots, 0, *place))
            source = Slot(i - 1) if i else Fixed(self.start.ctypes.data)
            call = Call(ADD_INDEX, (source, Slot(i)), parts=parts)
            reads = (i - 1,) if i else ()
            actors.append(Actor(f"t{i}", worker, reads, (i,), (call,)))
        self.tables = Tables(registers, actors)

    def check(self) -> None:
        for i, buffer in enumerate(self.buffers):
            expected = self.start + (i + 1) * np.arange(NUMBERS)
            for slot in buffer:
                np.testing.assert_array_equal(slot, expected)
            buffer[:] = 0


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("parts", [1, 2, 5, 1000])
@pytest.mark.parametrize("workers", [[0, 0, 0], [0, 1, 0]])
def test_parts_make_the_whole(threads: int, parts: int, workers: list[int]):
    job = Adders(workers, parts, slots=2)
    with Core(job.tables, threads) as core:
        for acts in (2, 1, 50):
            core.run(acts)
            if acts > 1:
                job.check()
    run_sequential(job.tables, 2)
    job.check()


def counters(parts: int) -> Words:
    return np.zeros(parts, np.int64)


def once(kernel: int, words: Words, parts: int, workers: int = 1) -> Tables:
    """An actor on each worker with this kernel, and a row of words for all."""
    call = Call(kernel, (Fixed(words.ctypes.data),), parts=parts)
    return Tables([], [Actor(f"t{i}", i, calls=(call,)) for i in range(workers)])


@pytest.mark.parametrize(
    ("threads", "parts", "made"),
    [(1, 17, 1), (2, 17, 16), (2, 2, 2), (2, 3, 2), (3, 2, 2), (3, 8, 6), (3, 99, 24)],
)
def test_number_of_parts_follows_from_kernel_and_threads(
    threads: int, parts: int, made: int
):
    counted = counters(parts)
    with Core(once(COUNT, counted, parts), threads) as core:
        core.run(40)
    assert counted.tolist() == [40] * made + [0] * (parts - made)


def test_threads_claim_parts_from_both_ends():
    threads = counters(16)
    with Core(once(SIGN, threads, 16), 2) as core:
        for _ in range(5):
            core.run(1)
            # One thread has the first parts and the other one, if it came, the rest.
            assert np.count_nonzero(np.diff(threads)) <= 1


def test_every_part_of_many_small_kernels_is_done_once():
    counted = [counters(16) for _ in range(300)]
    calls = [Call(COUNT, (Fixed(x.ctypes.data),), parts=16) for x in counted]
    actors = [Actor(f"t{i}", i % 2, calls=(call,)) for i, call in enumerate(calls)]
    with Core(Tables([], actors), 4) as core:
        for acts in (1, 200, 30):
            core.run(acts)
    assert all(x.tolist() == [231] * 16 for x in counted)


def test_two_programs_run_in_parts_at_once(start: Start):
    jobs = [Adders([0, 1, 0, 1], 5), Adders([0, 0, 0], 7)]

    def run(job: Adders) -> None:
        with Core(job.tables, 2) as core:
            for _ in range(100):
                core.run(3)

    for future in [start(run, job) for job in jobs]:
        future.result(300)
    for job in jobs:
        job.check()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_first_part_that_fails_says_the_code(threads: int):
    codes = np.zeros(NUMBERS, np.int64)
    codes[[400, 700, 990]] = 3, 5, -7
    tables = once(CHECK, codes, 8)
    with Core(tables, threads) as core:
        for code, index in ((3, 400), (5, 700), (-7, 990)):
            for _ in range(20):
                with pytest.raises(TaskError) as caught:
                    core.run(4)
                assert (caught.value.code, caught.value.act) == (code, 0)
            codes[index] = 0
        core.run(5)


def test_parts_are_done_by_several_threads():
    seen: set[str] = set()
    met = threading.Barrier(2, timeout=300)

    def meet(args: int, part: int, parts: int) -> None:
        seen.add(threading.current_thread().name)
        met.wait(300)

    # Registered as no callback, as it needs no thread of its own.
    kernel = Callback(meet)
    tables = Tables([], [Actor("t", calls=(Call(kernel.address, parts=2),))])
    with Core(tables, 2) as core:
        core.run(3)
    assert seen == {threading.current_thread().name, "penstock-worker-1"}


def test_error_of_another_worker_stops_parts(until: Until):
    codes = np.ones(NUMBERS, np.int64)
    done: list[int] = []

    def wait(args: int, part: int, parts: int) -> None:
        done.append(part)
        until(lambda: core.memory.state.control[STOP] != RUNNING)

    slow = Callback(wait)
    actors = [
        Actor("slow", 0, calls=(Call(slow.address, parts=100),)),
        Actor("bad", 1, calls=(Call(CHECK, (Fixed(codes.ctypes.data),)),)),
    ]
    core = Core(Tables([], actors), 25)
    with core, pytest.raises(TaskError, match="task 'bad'"):
        core.run(1 << 40)
    assert len(done) < 100


def test_call_needs_a_part():
    with pytest.raises(PenstockError) as caught:
        once(COUNT, counters(1), 0)
    assert str(caught.value) == "a call of actor 't0' has 0 parts"


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell the cores")
def test_threads_are_woken_on_other_cores_than_that_of_the_caller(until: Until):
    allowed = os.sched_getaffinity(0)
    with Core(once(COUNT, counters(8), 8), 3) as core:
        core.run(1)
        helpers = [t for t in threading.enumerate() if "penstock-worker" in t.name]
        numbers = [cast(int, helper.native_id) for helper in helpers]
        assert len(numbers) == 2

        def have_been_woken() -> bool:
            """Whether each has slept before one of the runs."""
            core.run(1)
            cores = [os.sched_getaffinity(number) for number in numbers]
            assert all(some <= allowed for some in cores)
            return all(len(some) == max(1, len(allowed) - 1) for some in cores)

        until(have_been_woken)
    assert os.sched_getaffinity(0) == allowed


def test_process_that_has_one_core_keeps_to_it():
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import copy_kernel
from penstock.runtime.program.tables import Actor, Call, Fixed, Tables
size, data = np.array([8]), np.array([7, 0])
words = size.ctypes.data, data.ctypes.data, data.ctypes.data + 8
call = Call(copy_kernel(), tuple(map(Fixed, words)), parts=8)
with Core(Tables([], [Actor("t", calls=(call,))]), 3) as core:
    for _ in range(50):
        core.run(3)
print(data.tolist(), len(os.sched_getaffinity(0)))
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (run.stdout, run.stderr) == ("[7, 7] 1\n", "")
