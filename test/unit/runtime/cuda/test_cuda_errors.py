"""Errors on CUDA devices, their messages, and the calls that are possible after one."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from penstock.runtime.cuda import device as cuda
from penstock.runtime.cuda.driver import CudaError, Function, Handle, Launch, Span
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Array: TypeAlias = npt.NDArray[Any]

PICK = """
job.job @pick placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  %i = job.input "i" : tensor<2xi64>
  %v = op.gather %x[%i] axis 0 : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>
  %s = op.softmax %v : tensor<2xf32> -> tensor<2xf32>
  job.output "s", %s : tensor<2xf32>
}
"""
X = np.arange(5, dtype=np.float32)


def opened(
    driver: RecordedDriver, engine: str = "sequential", text: str = PICK
) -> Session:
    """A session whose CUDA devices are driven by a driver."""
    front = installed_compiler()
    module = front[0].parse(text.encode(), "job.mlir")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
        return Session(Model(module, {}, Path()), engine=engine, compiler=front)


def picked(*indices: int) -> dict[str, Array]:
    return {"x": X, "i": np.array(indices)}


def expected(*indices: int) -> Array:
    powers = np.exp(X[list(indices)])
    return powers / powers.sum()


def agree(found: npt.ArrayLike, wanted: Array) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=1e-6)


@pytest.mark.parametrize("captures", [True, False])
@pytest.mark.parametrize("engine", ["sequential", "actors"])
def test_an_assertion_is_the_error_of_its_task_and_act(engine: str, captures: bool):
    driver = RecordedDriver(captures=captures)
    good = [picked(0, 1), picked(-1, 2), picked(3, 4)]
    with opened(driver, engine) as session:
        for bad in (2, 0):
            pieces = [*good[:bad], picked(0, 5), *good]
            with pytest.raises(TaskError) as caught:
                session.run_many(pieces)
            message = "with code 1: gather index out of range"
            assert caught.value.reason == f"task 'v' failed at act {bad} {message}"
            found = session.run_many(good)
            agree(found[1]["s"], expected(-1, 2))


def test_no_memory_is_said_with_those_who_take_most():
    driver = RecordedDriver(memory=1000)
    with pytest.raises(PenstockError) as caught:
        opened(driver)
    text = str(caught.value)
    assert text.startswith("there is no memory for ")
    assert (
        " bytes on CUDA device 0, 1000 are free; most of it is for 'x_cuda/out' 40 "
        in text
    )
    assert "(task 'x_cuda' at job.mlir:3:3), 'i_cuda/out' 32 (task 'i_cuda' at" in text
    assert driver.log[-1].call in ("free", "free_host", "allocate_host", "clear")
    with opened(RecordedDriver()) as session:
        found = session.run(picked(1, 2))
    agree(found["s"], expected(1, 2))


def test_a_device_that_is_not_there():
    text = PICK.replace("[0:0]", "[0:1]")
    with pytest.raises(CudaError) as caught:
        opened(RecordedDriver(devices=1), text=text)
    assert str(caught.value) == "the program needs CUDA device 1, there is one"
    with pytest.raises(CudaError, match="needs CUDA device 9, there are 8"):
        opened(RecordedDriver(), text=PICK.replace("[0:0]", "[0:9]"))


class Failing(RecordedDriver):
    """A device that fails in a call of a kind after so many, and is lost then."""

    def __init__(self, call: str, after: int, *, is_lost: bool = True):
        super().__init__(captures=False)
        self.call, self.left, self._is_lost = call, after, is_lost
        self.lost = False

    def open(self, device: int) -> None:
        """Make the device anew."""
        self.lost = False
        super().open(device)

    def use(self, device: int) -> None:
        """Choose a device that is not lost."""
        if self.lost:
            raise CudaError("CUDA device 0 is lost: open a new session", is_lost=True)
        super().use(device)

    def fail(self, call: str) -> None:
        """Fail if it is time."""
        self.left -= call == self.call
        if self.left == 0 and call == self.call:
            self.lost = self._is_lost
            raise CudaError(f"{call} failed: CUDA_ERROR_X", is_lost=self._is_lost)

    def copy(self, target: int, source: int, size: int, stream: Handle) -> None:
        """Copy bytes some time."""
        self.fail("copy")
        super().copy(target, source, size, stream)

    def synchronize_event(self, event: Handle) -> None:
        """Do what an event stands for."""
        self.fail("synchronize_event")
        super().synchronize_event(event)

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch with addresses as arguments."""
        bound = super().bind(function, words, spans)

        def launch(stream: Handle) -> None:
            self.fail("launch")
            bound(stream)

        return launch


@pytest.mark.parametrize("engine", ["sequential", "actors"])
@pytest.mark.parametrize(
    ("call", "after", "text"),
    [
        (
            "launch",
            1,
            "'v' failed at act 0: kernel @gather_0 of op.gather: launch failed",
        ),
        ("copy", 1, "'x_cuda' failed at act 0: a copy of 20 bytes: copy failed"),
        # Who waits first is open, and each says what it waited for.
        (
            "synchronize_event",
            1,
            ", or what came before: synchronize_event failed",
        ),
    ],
)
def test_a_device_that_is_lost_is_told_and_may_be_opened_again(
    engine: str, call: str, after: int, text: str
):
    driver = Failing(call, after)
    with opened(driver, engine) as session:
        driver.left = after
        with pytest.raises(TaskError) as caught:
            session.run(picked(1, 2))
        # Which input comes first is open where threads bring them.
        if call != "copy" or engine == "sequential":
            assert text in str(caught.value)
        assert "failed: CUDA_ERROR_X" in str(caught.value)
        for _ in range(2):
            with pytest.raises(TaskError) as caught:
                session.run(picked(1, 2))
            assert "CUDA device 0 is lost: open a new session" in str(caught.value)
    with opened(driver, engine) as session:
        found = session.run(picked(1, 2))
        agree(found["s"], expected(1, 2))


def test_what_fails_once_and_leaves_the_device_can_be_tried_again():
    driver = Failing("launch", 1, is_lost=False)
    with opened(driver, "actors") as session:
        with pytest.raises(TaskError, match="launch failed: CUDA_ERROR_X"):
            session.run(picked(1, 2))
        found = session.run(picked(1, 2))
        agree(found["s"], expected(1, 2))


class Uncapturable(RecordedDriver):
    """A driver whose kernels cannot be captured, as it notices in the midst of it."""

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch with addresses as arguments."""
        bound = super().bind(function, words, spans)

        def launch(stream: Handle) -> None:
            if self.log_of("begin_capture") > self.log_of("end_capture"):
                raise CudaError("cuLaunchKernel failed: CUDA_ERROR_STREAM_CAPTURE")
            bound(stream)

        return launch

    def log_of(self, call: str) -> int:
        """The number of times that a call was made."""
        return sum(entry.call == call for entry in self.log)


def test_what_cannot_be_captured_is_launched_plainly():
    driver = Uncapturable()
    with opened(driver) as session:
        found = session.run(picked(1, 2))
        agree(found["s"], expected(1, 2))
    assert driver.log_of("begin_capture") == driver.log_of("end_capture") == 1
    assert driver.log_of("launch_graph") == 0
    assert driver.log_of("launch") > 1


def driver_calls(driver: RecordedDriver, call: str) -> int:
    """The number of times that a call was made."""
    return sum(entry.call == call for entry in driver.log)


@pytest.mark.slow
def test_all_that_was_made_is_given_back():
    driver = RecordedDriver()
    with opened(driver) as session:
        program = session.executor.program
        chunks = [x for x in program.chunks.values() if isinstance(x, cuda.CudaChunk)]
        pinned = sum(chunk.is_pinned for chunk in chunks)
        session.run(picked(1, 2))
    # One a chunk, and the words that assertions write to, here and there.
    assert (pinned, len(chunks) - pinned) == (1, 1)
    assert [driver_calls(driver, x) for x in ("allocate_host", "allocate")] == [2, 2]
    del session, program, chunks
    # Callbacks know themselves.
    gc.collect()
    made = {"create_stream", "create_event", "allocate", "allocate_host"}
    counts = {call: driver_calls(driver, call) for call in made}
    given = {
        "create_stream": "destroy_stream",
        "create_event": "destroy_event",
        "allocate": "free",
        "allocate_host": "free_host",
    }
    for call, other in given.items():
        assert counts[call] == driver_calls(driver, other) > 0, call
