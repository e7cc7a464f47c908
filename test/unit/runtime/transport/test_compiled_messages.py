"""Messages that the threads of a core move, by functions of C that stand for MPI's."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from rank_threads import in_threads
from wires import Wires, WireTransport

from penstock.runtime.errors import PeerError, PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.runtime.testing.fault_injection import Gate, KernelFault, inject
from penstock.runtime.transport.mpi import LAST_SECONDS, Departures
from penstock.runtime.transport.protocol import CompiledCommunicator
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower, programs_of
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

JOB = """
!t = tensor<16xf32>

job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %early = op.exp %x : !t -> !t
  %far = op.tanh %early {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %long = op.sin %early : !t -> !t
  job.output "far", %far : !t
  job.output "long", %long : !t
}
"""
PARTS = """
!whole = tensor<8x16xf32>
!part = tensor<1x16xf32>

job.job @parts placement <cpu, [0:0]> {
  %xs = job.input "xs" : !whole
  %x = op.unpack %xs by 8 {slots = 2 : i64} : !whole -> !part
  %far = op.tanh %x {placement = #job.placement<cpu, [1:0]>} : !part -> !part
  %ys = op.pack %far by 8 {placement = #job.placement<cpu, [1:0]>} : !part -> !whole
  job.output "ys", %ys : !whole
}
"""
"""Two parts are on their way at once."""
THERE = 0, 1, 0
"""The message of a part."""


def programs_in(text: str) -> list[ExportedProgram]:
    """The program of each rank."""
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "net.mlir"), {}, Path())
    lower(*front, model)
    return [ExportedProgram(program) for program in programs_of(model)]


@pytest.fixture(scope="module")
def programs() -> list[ExportedProgram]:
    return programs_in(JOB)


@contextmanager
def opened(
    programs: Sequence[ExportedProgram], wires: Wires, *faults: KernelFault
) -> Generator[list[Session]]:
    """A session of each rank, the first one with faults."""
    with ExitStack() as stack:
        made = [stack.enter_context(Session.of(program)) for program in programs]
        if faults:
            stack.enter_context(inject(made[0].executor, *faults))
        for rank, session in enumerate(made):
            session.executor.connect(WireTransport(wires, rank, len(made)))
        yield made


def random_input(*shape: int) -> NDArray[np.float32]:
    return fresh().standard_normal(shape).astype(np.float32)


def test_the_communicator_is_one_for_compiled_code() -> None:
    made = WireTransport(Wires(), 0, 2).communicator()
    assert isinstance(made, CompiledCommunicator)


@pytest.mark.parametrize("late", [(), (THERE,)])
def test_parts_cross_in_order(late: Sequence[tuple[int, int, int]]) -> None:
    """Also where the second message comes before the first."""
    given, found = random_input(3, 8, 16), list[Array]()
    with opened(programs_in(PARTS), Wires(late)) as (first, second):

        def run() -> None:
            found.extend(first.run({"xs": x})["ys"] for x in given)

        in_threads([run, lambda: [second.run({}) for _ in given]])
    expected = np.tanh(given.astype(np.float64))
    assert np.abs(np.asarray(found, np.float64) - expected).max() < 1e-6


def test_messages_move_while_all_threads_compute(
    programs: list[ExportedProgram],
) -> None:
    x, found, gate = random_input(16), list[dict[str, Array]](), Gate()
    held = KernelFault("long", act=0, gate=gate)
    with opened(programs, Wires(), held) as (first, second):
        run = threading.Thread(target=lambda: found.append(first.run({"x": x})))
        run.start()
        # The message has come there, and another one back.
        second.run({})
        assert not found
        gate.open()
        run.join()
    wide = np.exp(x.astype(np.float64))
    # Units in the last place by which `exp` and `tanh` are off; no slope is above one.
    bound = 2.0**-23 * (1.1 * wide + 1.2)
    for name, expected in (("far", np.tanh(wide)), ("long", np.sin(wide))):
        assert (np.abs(found[0][name].astype(np.float64) - expected) <= bound).all()


def test_an_error_of_the_library_ends_a_run(programs: list[ExportedProgram]) -> None:
    with (
        opened(programs, Wires(fails=True)) as (first, _),
        pytest.raises(PenstockError, match="messages between ranks have failed: code"),
    ):
        first.run({"x": random_input(16)})


def test_a_rank_that_has_ended_is_not_waited_for(
    programs: list[ExportedProgram],
) -> None:
    wires = Wires()
    wires.ended.append(1)
    with (
        opened(programs, wires) as (first, _),
        pytest.raises(PeerError, match="rank 1 has ended"),
    ):
        first.run({"x": random_input(16)})


def test_messages_of_a_rank_that_has_ended_may_still_come() -> None:
    now = 0.0
    departures = Departures(lambda: now)
    departures.refuse(range(3))
    departures.add(2)
    departures.refuse(range(3))
    now = 2 * LAST_SECONDS
    departures.refuse(range(2))
    with pytest.raises(PeerError, match="rank 2 has ended"):
        departures.refuse(range(3))


def test_nobody_looks_at_messages_that_are_closed(
    programs: list[ExportedProgram],
) -> None:
    wires, errors = Wires(), list[PenstockError]()
    with opened(programs, wires) as (first, _):

        def run() -> None:
            with pytest.raises(PenstockError) as caught:
                first.run({"x": random_input(16)})
            errors.append(caught.value)

        waiting = threading.Thread(target=run)
        waiting.start()
        assert wires.is_asked.wait(300)
        first.close()
        waiting.join()
    assert [str(x) for x in errors] == ["the core was closed during a run"]
    assert wires.calls_after_close == 0
