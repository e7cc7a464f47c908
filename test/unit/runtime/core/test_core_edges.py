"""The kernels at the edges of a program: feeding, fetching, copying, callbacks."""

import ctypes
import pickle

import numpy as np
import pytest

from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import (
    CALLBACK_FAILED,
    Callback,
    KernelFunction,
    copy_kernel,
    feed_kernel,
    fetch_kernel,
)
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.program.tables import (
    Actor,
    Call,
    Fixed,
    Register,
    Slot,
    Tables,
    Words,
)

pytestmark = pytest.mark.usefixtures("both_loops")


def call(kernel: int, *words: int) -> int:
    """The status that a kernel returns for a row of words."""
    row = (ctypes.c_int64 * len(words))(*words)
    return KernelFunction(kernel)(ctypes.addressof(row), 0, 1)


def table(size: int, arrays: list[Words]) -> Words:
    return np.array([0, size, *(array.ctypes.data for array in arrays)], np.int64)


@pytest.mark.parametrize("length", [1, 7, 4096])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("fetcher", [0, 1])
def test_what_is_fed_is_fetched(length: int, slots: int, fetcher: int):
    rng = np.random.default_rng(length)
    acts, size = 9, 8 * length
    fed = [rng.integers(0, 1 << 40, length) for _ in range(acts)]
    fetched = [np.zeros(length, np.int64) for _ in range(acts)]
    feeds, fetches = table(size, fed), table(size, fetched)
    memory = np.zeros(slots * length, np.int64)

    feed = Call(feed_kernel(), (Fixed(feeds.ctypes.data), Slot(0)))
    fetch = Call(fetch_kernel(), (Fixed(fetches.ctypes.data), Slot(0)))
    tables = Tables(
        [Register("x", 0, slots, 0, memory.ctypes.data, size)],
        [
            Actor("feed", 0, (), (0,), (feed,)),
            Actor("fetch", fetcher, (0,), (), (fetch,)),
        ],
    )
    with Core(tables) as core:
        core.run(4)
        core.run(5)

    np.testing.assert_array_equal(fetched, fed)
    assert feeds[0] == fetches[0] == acts


def test_feed_copies_no_more_than_the_size():
    source, slot = np.arange(1, 5), np.zeros(4, np.int64)
    feeds = table(16, [source])
    assert call(feed_kernel(), feeds.ctypes.data, slot.ctypes.data) == 0
    assert slot.tolist() == [1, 2, 0, 0]


def test_copy():
    rng = np.random.default_rng(0)
    source = rng.integers(0, 256, 1001, np.uint8)
    destination = np.zeros(1010, np.uint8)
    size = np.array([source.nbytes], np.int64)
    addresses = (size.ctypes.data, source.ctypes.data, destination.ctypes.data)
    assert call(copy_kernel(), *addresses) == 0
    np.testing.assert_array_equal(destination[:1001], source)
    assert not destination[1001:].any()


def test_callback_gets_the_row_and_the_share():
    seen: list[tuple[int, int, int]] = []
    callback = Callback(lambda args, part, parts: seen.append((args, part, parts)))
    assert KernelFunction(callback.address)(1 << 40, 2, 3) == 0
    assert seen == [(1 << 40, 2, 3)]


def test_callback_returns_a_code():
    assert call(Callback(lambda args, part, parts: 5).address) == 5


@pytest.mark.parametrize("raised", [ValueError("x"), KeyboardInterrupt(), SystemExit()])
def test_whatever_a_callback_raises_is_kept_once(raised: BaseException):
    def fail(args: int, part: int, parts: int) -> None:
        raise raised

    callback = Callback(fail)
    assert call(callback.address) == CALLBACK_FAILED
    assert callback.take_error() is raised
    assert callback.take_error() is None


def test_code_that_is_no_number_is_an_error():
    callback = Callback(lambda args, part, parts: "zero")  # pyright: ignore[reportArgumentType]  # what users may do
    assert call(callback.address) == CALLBACK_FAILED
    assert isinstance(callback.take_error(), TypeError)


@pytest.mark.parametrize(
    "error", [TaskError("t", 3, 7, "why"), DeadlockError(["'a' at act 0: no piece"])]
)
def test_errors_can_be_sent_to_another_process(error: PenstockError):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
