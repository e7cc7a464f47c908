"""The compiled executor: what it computes, how it fails and what it leaves behind."""

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.core.core import Core
from penstock.runtime.core.entry_points import address_of_entry
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.core.state_layout import (
    FAILED_ACTOR,
    FAILING,
    SLEEPERS,
    STOP,
)
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
)
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.program.deadlock import find_deadlock
from penstock.runtime.program.tables import Actor, Call, Register, Slot, Tables, Words

Until: TypeAlias = Callable[[Callable[[], bool]], None]

Start: TypeAlias = Callable[..., "Future[Any]"]

pytestmark = pytest.mark.usefixtures("both_loops")

Executor = Callable[[Tables, int], None]


def run_core(tables: Tables, acts: int) -> None:
    with Core(tables) as core:
        core.run(acts)


both_executors = pytest.mark.parametrize("run", [run_core, run_sequential])


@dataclass
class Flow:
    """(producer, readers, slots, initial) of a register between numbered actors."""

    producer: int
    readers: list[int]
    slots: int = 1
    initial: int = 0


@dataclass
class Job:
    """
    Actors that write 1 + their number + the act's number + the sum of what they read.
    """

    workers: list[int]
    flows: list[Flow]
    seen: list[list[int]] = field(default_factory=list[list[int]])
    memory: list[Words] = field(default_factory=list[Words])

    def value(self, actor: int, act: int, read: list[int]) -> int:
        return (1 + actor + act + sum(read)) % 1_000_003

    def kernel(self, actor: int, reads: int, writes: int) -> Callback:
        def call(args: int, part: int, parts: int) -> None:
            row = (ctypes.POINTER(ctypes.c_int64) * (reads + writes)).from_address(args)
            read = [row[i][0] for i in range(reads)]
            value = self.value(actor, len(self.seen[actor]), read)
            for i in range(reads, reads + writes):
                row[i][0] = value
            self.seen[actor].append(value)

        return Callback(call)

    def tables(self) -> Tables:
        self.seen[:] = [[] for _ in self.workers]
        registers: list[Register] = []
        for number, flow in enumerate(self.flows):
            buffer = np.zeros(flow.slots, np.int64)
            self.memory.append(buffer)
            place = (buffer.ctypes.data, buffer.itemsize)
            register = Register(
                f"r{number}", flow.producer, flow.slots, flow.initial, *place
            )
            registers.append(register)

        actors: list[Actor] = []
        callbacks: list[Callback] = []
        for actor, worker in enumerate(self.workers):
            flows = list(enumerate(self.flows))
            reads = tuple(i for i, flow in flows if actor in flow.readers)
            writes = tuple(i for i, flow in flows if actor == flow.producer)
            callbacks.append(self.kernel(actor, len(reads), len(writes)))
            args = tuple(Slot(register) for register in reads + writes)
            call = Call(callbacks[-1].address, args)
            actors.append(Actor(f"a{actor}", worker, reads, writes, (call,)))
        return Tables(registers, actors, callbacks=callbacks)

    def expected(self, acts: int) -> list[list[int]]:
        values: list[list[int]] = [[] for _ in self.workers]
        for act in range(acts):
            for actor in range(len(self.workers)):
                flows = [flow for flow in self.flows if actor in flow.readers]
                read = [values[flow.producer][act] for flow in flows]
                values[actor].append(self.value(actor, act, read))
        return values


def control(
    names: list[str], flows: list[Flow], workers: list[int] | None = None
) -> Tables:
    """Actors without kernels and control registers between them, "producer/out"."""
    reads: list[list[int]] = [[] for _ in names]
    writes: list[list[int]] = [[] for _ in names]
    registers: list[Register] = []
    for index, flow in enumerate(flows):
        name = f"{names[flow.producer]}/out"
        registers.append(Register(name, flow.producer, flow.slots, flow.initial))
        writes[flow.producer].append(index)
        for reader in flow.readers:
            reads[reader].append(index)
    actors = [
        Actor(name, workers[i] if workers else 0, tuple(reads[i]), tuple(writes[i]))
        for i, name in enumerate(names)
    ]
    return Tables(registers, actors)


def chain(length: int, workers: int = 1, slots: int = 2) -> Tables:
    flows = [Flow(i, [i + 1], slots) for i in range(length - 1)]
    split = [i * workers // length for i in range(length)]
    return control([f"t{i}" for i in range(length)], flows, split)


def alone(*kernels: Callback) -> Tables:
    """An actor on each worker for each kernel, with nothing between them."""
    actors = [
        Actor(f"t{i}", i, calls=(Call(kernel.address),))
        for i, kernel in enumerate(kernels)
    ]
    return Tables([], actors, callbacks=kernels)


def failing(act: int, code: int = 7) -> Callback:
    """A kernel that returns a code in this act, counted over its life."""
    calls = iter(range(1 << 40))
    return Callback(lambda args, part, parts: code if next(calls) == act else 0)


def threads() -> list[str]:
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith("penstock")]


# Values ------------------------------------------------------------------------------


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Acyclic jobs of up to 12 actors on up to 3 workers."""
    count = draw(st.integers(2, 12))
    workers = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    flows: list[Flow] = []
    for _ in range(draw(st.integers(0, 2 * count))):
        producer = draw(st.integers(0, count - 2))
        readers = st.lists(st.integers(producer + 1, count - 1), unique=True)
        flows.append(Flow(producer, draw(readers), draw(st.integers(1, 3))))
    return Job(workers, flows)


@settings(max_examples=draws(20), deadline=None)
@given(jobs(), st.integers(1, 12))
def test_every_actor_sees_the_values_of_its_own_act(job: Job, acts: int):
    tables = job.tables()
    run_core(tables, acts)
    assert job.seen == job.expected(acts)

    tables = job.tables()
    run_sequential(tables, acts)
    assert job.seen == job.expected(acts)


def test_runs_go_on_where_the_last_one_ended():
    job = Job([0, 1, 0], [Flow(0, [1, 2], 3), Flow(1, [2], 2)])
    with Core(job.tables()) as core:
        for acts in (1, 4, 0, 2):
            core.run(acts)
    assert job.seen == job.expected(7)


def test_reader_and_writer_go_round_the_slots():
    seen: list[tuple[int, int]] = []

    def note(args: int, part: int, parts: int) -> None:
        read, written = (ctypes.c_int64 * 2).from_address(args)
        seen.append((read, written))

    kernel = Callback(note)
    call = Call(kernel.address, (Slot(0), Slot(1)))
    registers = [Register("in", 0, 3, 2, 1000, 10), Register("out", 1, 2, 0, 2000, 5)]
    actors = [Actor("source", 0, (), (0,)), Actor("note", 0, (0,), (1,), (call,))]
    tables = Tables(registers, actors, callbacks=[kernel])
    rounds = [(1000, 2000), (1010, 2005), (1020, 2000), (1000, 2005), (1010, 2000)]

    with Core(tables) as core:
        core.run(2)
        core.run(3)
    assert seen == rounds

    seen.clear()
    run_sequential(tables, 5)
    assert seen == rounds


@both_executors
def test_writer_starts_after_the_slots_that_are_full_at_the_start(run: Executor):
    seen: list[int] = []

    def note(args: int, part: int, parts: int) -> None:
        seen.append(ctypes.c_int64.from_address(args).value)

    kernel = Callback(note)
    actors = [
        Actor("source", 0, (), (0,), (Call(kernel.address, (Slot(0),)),)),
        Actor("sink", 0, (0,)),
    ]
    registers = [Register("x", 0, 3, 2, 1000, 10)]
    run(Tables(registers, actors, callbacks=[kernel]), 3)
    assert seen == [1020, 1000, 1010]


@both_executors
def test_calls_of_an_act_are_made_in_order(run: Executor):
    seen: list[tuple[str, int, int]] = []
    kernels = [
        Callback(lambda args, part, parts, k=name: seen.append((k, part, parts)))
        for name in "abc"
    ]
    calls = tuple(Call(kernel.address) for kernel in kernels)
    run(Tables([], [Actor("t", calls=calls)], callbacks=kernels), 2)
    assert seen == [(name, 0, 1) for name in "abcabc"]


@both_executors
def test_register_without_readers_never_blocks(run: Executor):
    run(control(["a"], [Flow(0, [], slots=1)]), 100)


@both_executors
def test_no_actors_and_no_acts(run: Executor):
    run(Tables([], []), 5)
    run(chain(2), 0)


def test_worker_without_actors():
    run_core(control(["a", "b"], [Flow(0, [1])], workers=[0, 2]), 10)


# Control -----------------------------------------------------------------------------


@both_executors
@pytest.mark.parametrize("workers", [[0, 0, 0], [0, 1, 2]])
def test_ring_with_a_token_runs(run: Executor, workers: list[int]):
    ring = [Flow(0, [1]), Flow(1, [2]), Flow(2, [0], initial=1)]
    tables = control(["a", "b", "c"], ring, workers)
    assert find_deadlock(tables) is None
    run(tables, 50)


@pytest.mark.parametrize("tokens", [1, 2])
def test_tokens_bound_how_far_the_first_gets_ahead_of_the_last(tokens: int):
    ahead = most = 0

    def first(args: int, part: int, parts: int) -> None:
        nonlocal ahead, most
        ahead += 1
        most = max(most, ahead)

    def last(args: int, part: int, parts: int) -> None:
        nonlocal ahead
        ahead -= 1

    kernels = [Callback(first), Callback(last)]
    registers = [Register("x", 0, 5), Register("back", 1, 5, tokens)]
    actors = [
        Actor("first", 0, (1,), (0,), (Call(kernels[0].address),)),
        Actor("last", 0, (0,), (1,), (Call(kernels[1].address),)),
    ]
    run_core(Tables(registers, actors, callbacks=kernels), 40)
    assert most == tokens


# Deadlock ----------------------------------------------------------------------------

CYCLE = [Flow(0, [1]), Flow(1, [2]), Flow(2, [0]), Flow(2, [3])]
CYCLE_REPORT = """\
no actor can act
  'a' at act 0: no piece in register 'c/out' from 'c'
  'b' at act 0: no piece in register 'a/out' from 'a'
  'c' at act 0: no piece in register 'b/out' from 'b'
  'd' at act 0: no piece in register 'c/out' from 'c'"""


@both_executors
@pytest.mark.parametrize("workers", [[0, 0, 0, 0], [0, 1, 0, 1]])
def test_deadlock_names_every_stuck_actor(run: Executor, workers: list[int]):
    tables = control(["a", "b", "c", "d"], CYCLE, workers)
    with pytest.raises(DeadlockError) as caught:
        run(tables, 3)
    assert str(caught.value) == CYCLE_REPORT


@both_executors
def test_deadlock_names_the_holder_of_a_slot(run: Executor):
    flows = [Flow(0, [1], slots=2), Flow(0, [1], slots=1, initial=1), Flow(1, [0])]
    tables = control(["x", "y"], flows)
    with pytest.raises(DeadlockError) as caught:
        run(tables, 3)
    assert str(caught.value) == (
        "no actor can act\n"
        "  'x' at act 0: no piece in register 'y/out' from 'y'"
        "; no free slot in register 'x/out', held by 'y'\n"
        "  'y' at act 0: no piece in register 'x/out' from 'x'"
    )


def test_deadlock_leaves_out_actors_that_are_done():
    flows = [Flow(0, [1]), Flow(1, [2]), Flow(2, [1])]
    with pytest.raises(DeadlockError) as caught:
        run_core(control(["a", "b", "c"], flows), 1)
    assert [line.split(" at ")[0] for line in caught.value.stuck] == ["'b'", "'c'"]


def test_cycle_without_a_token_is_found_before_the_run():
    tables = control(["d", "a", "b", "c"], [Flow(1, [2]), Flow(2, [3]), Flow(3, [1])])
    assert find_deadlock(tables) == ["a", "b", "c"]


# It needs no core.
@pytest.mark.slow
@pytest.mark.parametrize("both_loops", ["static"], indirect=True)
def test_long_chain_has_no_deadlock():
    assert find_deadlock(chain(20_000)) is None


@pytest.mark.slow
@settings(max_examples=draws(30), deadline=None)
@given(st.data())
def test_static_check_agrees_with_the_run(data: st.DataObject):
    count = data.draw(st.integers(1, 7))
    actor = st.integers(0, count - 1)
    flows: list[Flow] = []
    for _ in range(data.draw(st.integers(0, 2 * count))):
        slots = data.draw(st.integers(1, 3))
        initial = data.draw(st.sampled_from([0, 0, 1, slots]))
        readers = data.draw(st.lists(actor, unique=True, max_size=2))
        flows.append(Flow(data.draw(actor), readers, slots, initial))
    workers = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    tables = control([f"t{i}" for i in range(count)], flows, workers)

    dead = find_deadlock(tables) is not None
    for run in (run_core, run_sequential):
        try:
            run(tables, 20)
        except DeadlockError:
            assert dead
        else:
            assert not dead


def test_worker_that_waits_for_a_long_kernel_reports_no_deadlock(until: Until):
    cores: list[Core] = []

    def wait(args: int, part: int, parts: int) -> None:
        # The other thread has found nothing to do.
        until(lambda: int(cores[0].memory.state.control[SLEEPERS]) > 0)

    job = Job([0, 1], [Flow(0, [1])])
    tables = job.tables()
    slow = Callback(wait)
    first = Actor("slow", 0, (), (0,), (Call(slow.address),))
    tables = Tables(tables.registers, [first, Actor("fast", 1, (0,))], [slow])
    with Core(tables) as core:
        cores.append(core)
        core.run(2)


# Errors ------------------------------------------------------------------------------


@both_executors
def test_code_of_a_kernel_ends_the_run(run: Executor):
    with pytest.raises(TaskError) as caught:
        run(alone(failing(act=13)), 100)
    assert str(caught.value) == "task 't0' failed at act 13 with code 7"
    assert (caught.value.task, caught.value.act, caught.value.code) == ("t0", 13, 7)


@both_executors
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "1: out of range"),
        (2, "2: division by zero"),
        # Codes that no message is known for.
        (3, "3"),
        (-1, "-1"),
    ],
)
def test_message_of_a_code(run: Executor, code: int, text: str):
    kernel = failing(act=0, code=code)
    messages = ("out of range", "division by zero")
    actor = Actor("divide", calls=(Call(kernel.address, (), messages),))
    with pytest.raises(TaskError) as caught:
        run(Tables([], [actor], [kernel]), 1)
    assert str(caught.value) == f"task 'divide' failed at act 0 with code {text}"


@both_executors
def test_message_is_that_of_the_call_that_failed(run: Executor):
    # Three calls of one kernel, which fails the second time, after another actor's.
    kernel = failing(act=2, code=1)
    calls = [Call(kernel.address, (), (text,)) for text in ("a", "b", "c")]
    actors = [Actor("one", calls=(calls[0],)), Actor("two", calls=tuple(calls))]
    with pytest.raises(TaskError) as caught:
        run(Tables([], actors, [kernel]), 1)
    assert str(caught.value) == "task 'two' failed at act 0 with code 1: b"


@both_executors
def test_exception_of_a_callback_is_the_cause(run: Executor):
    def look_up(args: int, part: int, parts: int) -> None:
        raise KeyError("missing")

    with pytest.raises(TaskError) as caught:
        run(alone(Callback(look_up)), 1)
    assert caught.value.code == 98
    assert isinstance(caught.value.__cause__, KeyError)
    expected = "task 't0' failed at act 0 with code 98: KeyError: 'missing'"
    assert str(caught.value) == expected


@both_executors
def test_even_an_exit_in_a_callback_is_caught(run: Executor):
    with pytest.raises(TaskError) as caught:
        run(alone(Callback(lambda args, part, parts: sys.exit(5))), 1)
    assert isinstance(caught.value.__cause__, SystemExit)


def test_error_stops_all_workers():
    endless = Callback(lambda args, part, parts: 0)
    with pytest.raises(TaskError, match="task 't1' failed at act 5 with code 7"):
        run_core(alone(endless, failing(act=5), endless), 1 << 40)


def test_an_error_is_read_when_its_thread_has_noted_it(monkeypatch: pytest.MonkeyPatch):
    """The caller may see that a run ends before the other thread says by what."""
    name = "_error"
    error_of: Callable[[Core, int], PenstockError] = getattr(Core, name)

    def error(core: Core, acts: int) -> PenstockError:
        control = core.memory.state.control
        noted = [int(control[at]) for at in (FAILED_ACTOR, STOP)]
        control[FAILED_ACTOR], control[STOP] = 0, FAILING

        def go_on(seconds: float) -> None:
            control[FAILED_ACTOR], control[STOP] = noted

        monkeypatch.setattr("penstock.runtime.core.core.time.sleep", go_on)
        return error_of(core, acts)

    monkeypatch.setattr(Core, name, error)
    good = Callback(lambda args, part, parts: 0)
    with pytest.raises(TaskError, match="task 't1' failed at act 5 with code 7"):
        run_core(alone(good, failing(act=5)), 8)


@pytest.mark.parametrize("workers", [[0, 0, 0], [0, 1, 0]])
def test_core_is_as_new_after_an_error(workers: list[int]):
    job = Job(workers, [Flow(0, [1], 3), Flow(1, [2], 2)])
    tables = job.tables()
    failures = [failing(act=act) for act in (20, 4, 1)]
    actors = [
        Actor(f"a{i}", x.worker, x.reads, x.writes, (Call(kernel.address), *x.calls))
        for i, (x, kernel) in enumerate(zip(tables.actors, failures, strict=True))
    ]
    callbacks = [*tables.callbacks.values(), *failures]
    with Core(Tables(tables.registers, actors, callbacks)) as core:
        for name in ("a2", "a1", "a0"):
            with pytest.raises(TaskError, match=f"task '{name}'"):
                core.run(30)
        job.seen[:] = [[], [], []]
        core.run(6)
    assert job.seen == job.expected(6)


def test_act_of_an_error_is_counted_from_the_start_of_the_run():
    with Core(alone(failing(act=13))) as core:
        core.run(10)
        with pytest.raises(TaskError, match="at act 3 "):
            core.run(10)


def test_number_of_acts_must_not_be_negative():
    with pytest.raises(PenstockError) as caught:
        run_core(chain(2), -1)
    assert str(caught.value) == "the number of acts must not be negative, got -1"


def test_failure_of_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise MemoryError("no ring")

    job = Job([0, 1], [Flow(0, [1], 2)])
    with Core(job.tables()) as core:
        with monkeypatch.context() as patch:
            patch.setattr("penstock.runtime.core.core.attend", fail)
            with pytest.raises(PenstockError) as caught:
                core.run(1)
        expected = "a worker's thread failed: MemoryError('no ring')"
        assert str(caught.value) == expected
        core.run(3)
    assert job.seen == job.expected(3)


# Threads -----------------------------------------------------------------------------


def test_cores_leave_no_thread():
    for _ in range(200):
        run_core(chain(4, workers=2), 3)
    assert threads() == []


def test_threads_start_with_the_first_run_and_stay():
    with Core(chain(4, workers=2)) as core:
        assert threads() == []
        core.run(1)
        started = threading.enumerate()
        core.run(1)
        assert threading.enumerate() == started
        # The caller is the first.
        assert threads() == ["penstock-worker-1"]


def test_callbacks_have_threads_of_their_own():
    job = Job([0, 1], [])
    with Core(job.tables()) as core:
        core.run(1)
        assert sorted(threads()) == ["penstock-worker-0", "penstock-worker-1"]


def test_parked_threads_use_no_processor_time(until_at_rest: Callable[[], None]):
    with Core(chain(4, workers=2)) as core:
        core.run(10)
        until_at_rest()


@pytest.mark.slow
def test_core_that_is_dropped_ends_its_threads():
    core = Core(chain(4, workers=2))
    core.run(1)
    del core
    gc.collect()
    assert threads() == []


def test_closed_core_does_not_run():
    core = Core(chain(2))
    core.close()
    core.close()
    with pytest.raises(PenstockError) as caught:
        core.run(1)
    assert str(caught.value) == "the core is closed"


def test_close_stops_a_run_of_another_thread(start: Start, until: Until):
    core = Core(chain(4, workers=2))
    caught: list[str] = []

    def run() -> None:
        try:
            core.run(1 << 40)
        except PenstockError as error:
            caught.append(str(error))

    runner = start(run)
    until(lambda: core.acts_made() > 0)
    core.close()
    runner.result(300)
    assert caught == ["the core was closed during a run"]
    assert threads() == []


def test_runs_of_two_threads_take_turns(start: Start):
    job = Job([0, 1], [Flow(0, [1], 2)])
    with Core(job.tables()) as core:
        for runner in [start(core.run, 50) for _ in range(4)]:
            runner.result(300)
    assert job.seen == job.expected(200)


@pytest.mark.parametrize("verb", ["run", "close"])
def test_callback_cannot_run_or_close_its_core(verb: str):
    def again(args: int, part: int, parts: int) -> None:
        core.run(1) if verb == "run" else core.close()

    with Core(alone(Callback(again))) as core, pytest.raises(TaskError) as caught:
        core.run(1)
    expected = "a callback cannot run or close the core that calls it"
    assert str(caught.value.__cause__) == expected


# Processes ---------------------------------------------------------------------------


def python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


PROGRAM = """
import os, signal, sys, threading, time
from penstock.runtime.core.core import Core
from penstock.runtime.program.tables import *
registers = [Register(f"r{i}", i, 2) for i in range(5)]
actors = [
    Actor(f"t{i}", i // 3, (i - 1,) if i else (), (i,) if i < 5 else ())
    for i in range(6)
]
core = Core(Tables(registers, actors))
core.run(1)

def interrupt(delay):
    def send():
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send).start()
"""


@pytest.mark.usefixtures("interruptible")
def test_interrupt_stops_the_workers_and_the_core_runs_again():
    run = python(
        PROGRAM
        + """
for delay in (0, 0.001, 0.01, 0.2):
    try:
        interrupt(delay)
        core.run(1 << 60)
    except KeyboardInterrupt:
        print("interrupted")
    core.run(1000)
core.close()
print([thread.name for thread in threading.enumerate()])
"""
    )
    assert run.stderr == ""
    assert run.stdout == "interrupted\n" * 4 + "['MainThread']\n"
    assert run.returncode == 0


@pytest.mark.usefixtures("interruptible")
def test_second_interrupt_does_not_wait_for_a_kernel_and_the_core_runs_again():
    run = python(
        PROGRAM
        + """
from types import SimpleNamespace
from penstock.runtime.core import core as cores
from penstock.runtime.core.io_kernels import Callback

begun, gate, stopping = (threading.Event() for _ in range(3))

def wait(args, part, parts):
    begun.set()
    assert gate.wait(300)

def nap(seconds):
    # The run has been interrupted, and waits for its kernel.
    stopping.set()
    time.sleep(seconds)

cores.time = SimpleNamespace(sleep=nap)

def interrupt_twice():
    for event in (begun, stopping):
        assert event.wait(300)
        os.kill(os.getpid(), signal.SIGINT)

def end_the_kernel():
    if stopping.wait(300):
        gate.set()

kernel = Callback(wait)
actor = Actor("waits", calls=(Call(kernel.address),))
with Core(Tables([], [actor], callbacks=[kernel])) as core:
    try:
        threading.Thread(target=interrupt_twice).start()
        core.run(1 << 60)
    except KeyboardInterrupt:
        print("interrupted")
    assert not gate.is_set()
    stopping.clear()
    threading.Thread(target=end_the_kernel).start()
    core.run(3)
    assert gate.is_set()
"""
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "interrupted\n", "")


@pytest.mark.usefixtures("interruptible")
def test_interrupt_that_nobody_catches_ends_the_process():
    run = python(PROGRAM + "interrupt(0.1)\ncore.run(1 << 60)")
    assert run.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert run.returncode == -2


def test_process_ends_with_a_core_left_open():
    run = python(PROGRAM + "core.run(10)\nprint(core is not None)")
    assert (run.returncode, run.stdout, run.stderr) == (0, "True\n", "")


@pytest.mark.slow
def test_second_process_compiles_nothing():
    entries = "core", "dataflow"
    for entry in entries:
        address_of_entry(entry)
    run = python(
        "import sys\n"
        "from penstock.runtime.core.entry_points import address_of_entry\n"
        "from penstock.runtime.jit.first_start import first_start\n"
        f"assert all(map(address_of_entry, {entries}))\n"
        "print(first_start.functions, 'numba' in sys.modules)\n"
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "0 False\n", "")
