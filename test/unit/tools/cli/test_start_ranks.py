"""The time that ranks have to end once one of them has, by a virtual clock."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from penstock.tools.cli.exit_codes import EXIT_FAILED, EXIT_INTERNAL, EXIT_PEER
from penstock.tools.cli.start_ranks import GRACE_SECONDS, PEER_SECONDS, start_ranks

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
    monkeypatch.setattr("penstock.tools.cli.start_ranks.subprocess", started)
    monkeypatch.setattr("penstock.tools.cli.start_ranks.time", clock)
    assert start_ranks("none", [], len(ends)) == code
    assert clock.now == pytest.approx(seconds, abs=0.1)
