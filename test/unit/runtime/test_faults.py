"""Faults on purpose: each ends in an error that says what is wrong, never in a hang."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pytest
from draws import draws
from numba import cfunc
from watched_runs import Clock, Reports

from penstock.runtime.core.atomics import load_word, store_word
from penstock.runtime.core.io_kernels import KERNEL, Callback
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import (
    DeadlockError,
    MessageError,
    PenstockError,
    TaskError,
    WatchdogError,
)
from penstock.runtime.executors.reference import run_sequential
from penstock.runtime.observe.metrics import CountObserver
from penstock.runtime.program.tables import Actor, Call, Fixed, Register, Tables
from penstock.runtime.testing.fault_injection import (
    Fault,
    FaultyCore,
    Gate,
    KernelFault,
    MessageFault,
    inject,
)
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Start: TypeAlias = Callable[..., "Future[Any]"]
Until: TypeAlias = Callable[[Callable[[], bool]], None]


@cfunc(KERNEL)
def _count(args: int, part: int, parts: int) -> int:
    """Count the calls at the address in the first word of the row."""
    place = load_word(args)
    store_word(place, load_word(place) + 1)
    return 0


COUNT = cast(int, _count.address)


class Line:
    """Actors a -> b -> c on workers, each of which counts its calls."""

    def __init__(self, workers: tuple[int, int, int] = (0, 1, 0), slots: int = 2):
        self.counts = np.zeros(3, np.int64)
        address = self.counts.ctypes.data
        self.tables = Tables(
            [Register("x", 0, slots), Register("y", 1, slots)],
            [
                Actor(
                    name,
                    workers[i],
                    (i - 1,) if i > 0 else (),
                    (i,) if i < 2 else (),
                    (Call(COUNT, (Fixed(address + 8 * i),), ("too bad",), parts=1),),
                )
                for i, name in enumerate("abc")
            ],
        )

    def core(self, *faults: Fault, threads: int = 1) -> FaultyCore:
        return FaultyCore(self.tables, faults, threads)


places = pytest.mark.parametrize("workers", [(0, 0, 0), (0, 1, 0), (0, 1, 2)])


# Kernels -----------------------------------------------------------------------------


@places
def test_kernel_fails_at_its_act_and_the_core_runs_again(workers: tuple[int, int, int]):
    line = Line(workers)
    with line.core(KernelFault("b", act=3, code=1)) as core:
        core.run(2)
        with pytest.raises(TaskError) as caught:
            core.run(5)
        assert caught.value.reason == "task 'b' failed at act 1 with code 1: too bad"
        assert line.counts[1] == 3
        # Acts are counted anew.
        line.counts[:] = 0
        core.run(3)
        assert line.counts.tolist() == [3, 3, 3]


def test_kernel_with_a_delay_takes_longer_and_does_its_work():
    line = Line()
    with line.core(KernelFault("b", act=2, seconds=0.2)) as core:
        core.run(2)
        start = time.perf_counter()
        core.run(3)
        assert time.perf_counter() - start >= 0.2
    assert line.counts.tolist() == [5, 5, 5]
    # It would take half an hour at any other act.
    with line.core(KernelFault("b", act=2, seconds=1800)) as core:
        core.run(2)
    assert line.counts.tolist() == [7, 7, 7]


def test_delay_ends_when_the_run_does():
    line = Line()
    faults = KernelFault("b", act=0, seconds=600), KernelFault("a", act=1, code=2)
    with line.core(*faults, threads=2) as core, pytest.raises(TaskError):
        core.run(3)


def test_kernel_waits_at_a_gate(start: Start, until: Until):
    line, gate = Line(), Gate()
    with line.core(KernelFault("b", act=1, gate=gate), threads=2) as core:
        running = start(core.run, 5)
        until(lambda: gate.is_reached)
        # Its piece and another one fill both slots.
        until(lambda: line.counts.tolist() == [3, 1, 1])
        assert not running.done()
        gate.open()
        running.result(300)
    assert line.counts.tolist() == [5, 5, 5]


def test_gate_that_stays_closed_is_left_when_the_run_ends():
    gate = Gate()
    faults = KernelFault("b", act=0, gate=gate), KernelFault("a", act=1, code=2)
    with Line().core(*faults, threads=2) as core, pytest.raises(TaskError):
        core.run(3)
    reports, clock, gate = Reports(), Clock(), Gate()
    with Line().core(KernelFault("b", act=0, gate=gate)) as core:
        core.watch(Watchdog(0.01, reports, clock=clock))
        clock.jump(0.01, lambda: gate.is_reached and core.acts_made() == 2)
        with pytest.raises(WatchdogError):
            core.run(3)
    assert "'b' at act 0: is in its kernel, for " in reports.texts[0]


def test_only_the_call_of_a_fault_fails():
    counts = np.zeros(2, np.int64)
    calls = tuple(Call(COUNT, (Fixed(counts[i:].ctypes.data),)) for i in (0, 1))
    tables = Tables([], [Actor("t", calls=calls)])
    with FaultyCore(tables, [KernelFault("t", 1, code=9, call=1)]) as core:
        with pytest.raises(TaskError) as caught:
            core.run(4)
        assert caught.value.reason == "task 't' failed at act 1 with code 9"
    assert counts.tolist() == [2, 1]


def test_kernel_in_parts_fails_once():
    counts = np.zeros(1, np.int64)
    call = Call(COUNT, (Fixed(counts.ctypes.data),), parts=8)
    tables = Tables([], [Actor("t", calls=(call,))])
    with FaultyCore(tables, [KernelFault("t", 2, code=5)], threads=3) as core:
        with pytest.raises(TaskError) as caught:
            core.run(4)
        assert (caught.value.act, caught.value.code) == (2, 5)


def test_fault_around_a_callback_keeps_its_exceptions():
    def kernel(args: int, part: int, parts: int) -> None:
        raise KeyError("missing")

    callback = Callback(kernel)
    tables = Tables([], [Actor("t", calls=(Call(callback.address),))], [callback])
    with FaultyCore(tables, [KernelFault("t", 0, seconds=0.001)]) as core:
        with pytest.raises(TaskError) as caught:
            core.run(1)
        assert isinstance(caught.value.__cause__, KeyError)
        assert core.tables.bound == {0}


def test_tables_of_faults_have_none_without_their_core():
    line = Line()
    core = line.core(KernelFault("b", 0, code=1), MessageFault("x", 0, "drop"))
    core.close()
    tables = FaultyCore(line.tables, ()).tables
    run_sequential(tables, 3)
    assert line.counts.tolist() == [3, 3, 3]


# Messages ----------------------------------------------------------------------------


@places
def test_lost_piece_is_a_deadlock_that_names_it(workers: tuple[int, int, int]):
    with Line(workers).core(MessageFault("x", 3, "drop")) as core:
        core.run(2)
        with pytest.raises(DeadlockError) as caught:
            core.run(8)
        assert caught.value.stuck == [
            "'b' at act 7: no piece in register 'x' from 'a'",
            "'c' at act 7: no piece in register 'y' from 'b'",
            "'a' filled 10 slots of register 'x', but told of 9",
        ]
        core.run(3)


@places
def test_lost_free_slots_are_a_deadlock_that_names_them(workers: tuple[int, int, int]):
    faults = [MessageFault("y", act, "drop", reader="c") for act in (1, 4)]
    with Line(workers).core(*faults) as core, pytest.raises(DeadlockError) as caught:
        core.run(20)
    assert caught.value.stuck == [
        "'a' at act 7: no free slot in register 'x', held by 'b'",
        "'b' at act 5: no free slot in register 'y', held by 'c'",
        "'c' at act 5: no piece in register 'y' from 'b'",
        "'c' read 5 slots of register 'y', but told of 3",
    ]


@places
def test_lost_free_slot_that_nobody_missed_is_found_after_the_run(
    workers: tuple[int, int, int],
):
    line = Line(workers)
    with line.core(MessageFault("y", 4, "drop", reader="c")) as core:
        with pytest.raises(MessageError) as caught:
            core.run(5)
        assert str(caught.value) == (
            "messages were lost or made up\n"
            "  'c' read 5 slots of register 'y', but told of 4"
        )
        core.run(4)


@places
def test_message_that_is_told_twice_is_found(workers: tuple[int, int, int]):
    with Line(workers).core(MessageFault("x", 2, "duplicate")) as core:
        with pytest.raises(MessageError) as caught:
            core.run(5)
        assert caught.value.lines == [
            "'a' filled 5 slots of register 'x', but told of 6"
        ]
        core.run(2)


@places
def test_late_message_changes_nothing_in_the_end(workers: tuple[int, int, int]):
    line = Line(workers, slots=4)
    faults = [
        MessageFault("x", 2, "late", by=2),
        MessageFault("y", 3, "late", reader="c"),
    ]
    with line.core(*faults) as core:
        core.run(10)
    assert line.counts.tolist() == [10, 10, 10]


def test_message_that_waits_for_an_act_that_waits_for_it_is_a_deadlock():
    with Line(slots=1).core(MessageFault("x", 2, "late", by=7)) as core:
        with pytest.raises(DeadlockError) as caught:
            core.run(20)
        assert "'a' filled" in caught.value.stuck[-1]


def test_message_of_an_actor_without_kernels():
    registers = [Register("x", 0)]
    tables = Tables(registers, [Actor("a", 0, (), (0,)), Actor("b", 1, (0,))])
    with FaultyCore(tables, [MessageFault("x", 5, "drop")]) as core:
        core.run(5)
        with pytest.raises(DeadlockError):
            core.run(5)


@pytest.mark.parametrize("seed", range(draws(50)))
def test_any_fault_ends_in_an_error_or_in_nothing(seed: int):
    rng = random.Random(seed)
    line = Line((rng.randrange(2), rng.randrange(2), rng.randrange(3)), 3)
    acts = rng.randrange(1, 12)
    faults = [random_fault(rng) for _ in range(rng.randrange(1, 4))]
    reports: list[str] = []
    with line.core(*faults, threads=rng.randrange(1, 4)) as core:
        # It is not needed: no fault lets a run wait for ever.
        core.watch(Watchdog(100, reports.append))
        try:
            core.run(acts)
        except (TaskError, DeadlockError, MessageError):
            pass
        else:
            assert line.counts.tolist() == [acts] * 3
        line.counts[:] = 0
        assert reports == []


def random_fault(rng: random.Random) -> Fault:
    act = rng.randrange(12)
    if rng.random() < 0.4:
        task = rng.choice("abc")
        return KernelFault(task, act, rng.choice([0, 1, -3]), rng.random() * 0.003)
    kinds: list[Literal["drop", "duplicate", "late"]] = ["drop", "duplicate", "late"]
    register, reader = rng.choice([("x", "b"), ("y", "c")])
    reader = rng.choice([None, reader])
    return MessageFault(register, act, rng.choice(kinds), reader, rng.randrange(1, 4))


# Refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (KernelFault("d", 0, 1), "there is no task 'd'"),
        (KernelFault("a", -1, 1), "there is no act -1 for a fault"),
        (KernelFault("a", 0, 1, call=1), "there is no call 1 of task 'a', it has 1"),
        (KernelFault("a", 0, seconds=-2), "a fault cannot take -2 seconds"),
        (MessageFault("z", 0, "drop"), "there is no register 'z'"),
        (MessageFault("x", 0, "drop", "d"), "there is no task 'd'"),
        (
            MessageFault("x", 0, "drop", "c"),
            "task 'c' does not read register 'x'",
        ),
        (
            MessageFault("x", 0, "late", by=0),
            "a message cannot be late by 0 acts",
        ),
    ],
)
def test_faults_on_what_there_is_not(fault: Fault, message: str):
    with pytest.raises(PenstockError) as caught:
        Line().core(fault)
    assert str(caught.value) == message


def test_special_actors_have_faults_of_kernels():
    counts = np.zeros(1, np.int64)
    call = Call(COUNT, (Fixed(counts.ctypes.data),))
    registers = [Register("x", 0, 4, parts=2)]
    actors = [Actor("a", 0, (), (0,), (call,)), Actor("b", 1, (0,))]
    tables = Tables(registers, actors)
    assert tables.needs_dataflow
    with FaultyCore(tables, [KernelFault("a", 4, code=2)]) as core:
        core.run(1)
        with pytest.raises(TaskError) as failed:
            core.run(5)
    assert (failed.value.task, counts[0]) == ("a", 4)


# Sessions ----------------------------------------------------------------------------

JOB = b"""
job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x8xf32>
  %m = op.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = op.softmax %m axis 1 : tensor<8x8xf32> -> tensor<8x8xf32>
  job.output "y", %y : tensor<8x8xf32>
}
"""


def session(engine: str = "actors") -> Session:
    front = installed_compiler()
    model = Model(front[0].parse(JOB, "two.mlir"), {}, Path())
    return Session(model, engine=engine, compiler=front)


def test_faults_in_a_session_are_gone_after_the_block():
    x = {"x": np.eye(8, dtype=np.float32)}
    with session() as running:
        expected = running.run(x)["y"]
        counts = running.executor.observers.attach(CountObserver())
        with inject(running.executor, KernelFault("m", act=1, code=1)):
            assert (running.run(x)["y"] == expected).all()
            with pytest.raises(TaskError) as caught:
                running.run(x)
            assert caught.value.task == "m"
        assert (running.run(x)["y"] == expected).all()
    assert (counts.stopped["run", "two"], counts.failed["run", "two"]) == (2, 1)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("penstock")]


def test_session_with_a_delay_is_watched():
    x = {"x": np.eye(8, dtype=np.float32)}
    reports, clock, gate = Reports(), Clock(), Gate()
    with session() as running:
        running.watch(Watchdog(0.01, reports, clock=clock))
        clock.jump(0.01, lambda: gate.is_reached)
        with (
            inject(running.executor, KernelFault("m", act=0, gate=gate)),
            pytest.raises(WatchdogError),
        ):
            running.run(x)
        running.run(x)
    assert "'m' at act 0: is in kernel matmul_0, for" in reports.texts[0]


def test_reference_executor_has_no_faults():
    with session("sequential") as running:
        with pytest.raises(PenstockError) as caught, inject(running.executor):
            pass
        assert str(caught.value) == "the sequential engine runs on no core"
