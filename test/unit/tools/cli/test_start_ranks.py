"""The time that ranks have once one of them has ended or is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from penstock.runtime.transport import stops as stop_times
from penstock.runtime.transport.stops import STOPPED_SECONDS, Stops
from penstock.tools.cli.exit_codes import EXIT_FAILED, EXIT_INTERNAL, EXIT_PEER
from penstock.tools.cli.start_ranks import (
    GRACE_SECONDS,
    PEER_SECONDS,
    start_ranks,
)

MODULE = "penstock.tools.cli.start_ranks"
NEVER = float("inf")


class Clock:
    """A clock that goes while one sleeps."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self) -> float:
        """The seconds since its start."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let it go."""
        self.now += seconds


class Process:
    """A rank that ends with an exit code at a time, if it is not killed before."""

    def __init__(self, clock: Clock, code: int, end: float):
        self._clock, self._code, self._end = clock, code, end
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self.returncode is None and self._clock.now >= self._end:
            self.returncode = self._code
        return self.returncode

    def kill(self) -> None:
        """End it."""
        self.returncode = -9

    def wait(self) -> int | None:
        """The exit code of a process that has ended."""
        assert self.returncode is not None
        return self.returncode


@pytest.mark.parametrize(
    ("ends", "code", "seconds"),
    [
        ([(EXIT_PEER, 0), (EXIT_INTERNAL, 30)], EXIT_INTERNAL, 30),
        ([(EXIT_PEER, 0), (EXIT_INTERNAL, NEVER)], EXIT_FAILED, PEER_SECONDS),
        ([(EXIT_INTERNAL, 1), (0, NEVER)], EXIT_INTERNAL, 1 + GRACE_SECONDS),
        ([(EXIT_PEER, 0), (2, 30), (0, NEVER)], 2, 30 + GRACE_SECONDS),
    ],
    ids=["told late", "never told", "told", "told late, a third goes on"],
)
def test_a_rank_has_time_to_tell_why_others_have_ended(
    ends: list[tuple[int, float]],
    code: int,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    ranks = iter([Process(clock, *end) for end in ends])

    def start(*_: object, **__: object) -> Process:
        return next(ranks)

    started = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(f"{MODULE}.subprocess", started)
    monkeypatch.setattr(f"{MODULE}.time", clock)
    assert start_ranks("none", [], len(ends)) == code
    assert clock.now == pytest.approx(seconds, abs=0.1)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="systems without waitid")
def test_a_rank_that_is_stopped_before_it_joins_is_missed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_second = """
import os, signal
if os.environ["PENSTOCK_RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
"""

    def child_command(module: str) -> list[str]:
        return [sys.executable, "-S", "-c", stop_second]

    monkeypatch.setattr(f"{MODULE}.child_command", child_command)
    monkeypatch.setattr(stop_times, "STOPPED_SECONDS", 0.0)
    assert start_ranks("none", [], 2, patience=0.0) == EXIT_FAILED
    line = "penstock-run: error: rank 1 is frozen: its process has been stopped for 0."
    assert capfd.readouterr().err.startswith(line)


def test_a_rank_that_goes_on_again_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, looks = Clock(), iter([True, True, False, True, True, False])
    monkeypatch.setattr(stop_times, "time", clock)
    stops = Stops(lambda _: next(looks))
    long = STOPPED_SECONDS / 2
    for _ in range(6):
        clock.sleep(long)
        assert stops.look([0], 0.0, long / 10) is None


def test_time_in_which_the_starter_is_stopped_itself_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(stop_times, "time", clock)
    stops = Stops(lambda _: True)
    clock.sleep(1000.0)
    assert stops.look([0], 0.0, 0.01) is None
