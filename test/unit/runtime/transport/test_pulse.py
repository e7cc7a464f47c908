"""Signs of life of ranks, and which of them is missed."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest
from rank_threads import connected

from penstock.runtime.errors import PeerError
from penstock.runtime.transport import pulse as pulses
from penstock.runtime.transport.protocol import LivelyTransport, Sign
from penstock.runtime.transport.pulse import (
    GRACE_SECONDS,
    PULSE_SECONDS,
    START_SECONDS,
    Pulse,
    Silence,
)


def heard(transport: LivelyTransport) -> Iterator[Sign]:
    """The signs that a rank gets, one after the other."""
    while True:
        if (sign := transport.pulse()) is not Sign.SILENT:
            yield sign


def test_each_rank_hears_the_one_before() -> None:
    with connected(3) as (first, second, third):
        assert first.pulse() is Sign.SILENT
        assert next(heard(second)) is Sign.ALIVE
        # The first one waits for the last.
        assert first.pulse() is Sign.SILENT
        assert next(heard(third)) is Sign.ALIVE
        assert next(heard(first)) is Sign.ALIVE


def test_a_rank_that_has_left_is_no_error_until_it_is_waited_for() -> None:
    with connected(2) as (first, second):
        second.leave()
        second.close()
        assert next(heard(first)) is Sign.LEFT
        own = first.communicator()
        assert own.poll() == []
        with pytest.raises(PeerError, match="rank 1 has ended"):
            own.exchange(b"lost")


def passing(silence: Silence, seconds: float, *, from_: float = 0.0) -> float:
    """Let time pass without a sign, as a thread sees it that looks now and then."""
    now = from_
    while now < from_ + seconds:
        now += PULSE_SECONDS
        silence.hear(Sign.SILENT, now)
    return now


def test_a_rank_is_missed_once_it_is_silent() -> None:
    silence = Silence()
    silence.hear(Sign.ALIVE, 0.0)
    now = passing(silence, 2 + GRACE_SECONDS)
    assert not silence.is_longer_than(2)
    now = passing(silence, PULSE_SECONDS, from_=now)
    assert silence.is_longer_than(2)
    silence.hear(Sign.ALIVE, now)
    assert not silence.is_longer_than(2)


def test_a_rank_has_time_to_start() -> None:
    silence = Silence()
    silence.hear(Sign.SILENT, 0.0)
    now = passing(silence, 2 + START_SECONDS)
    assert not silence.is_longer_than(2)
    passing(silence, PULSE_SECONDS, from_=now)
    assert silence.is_longer_than(2)


def test_a_rank_that_ends_is_not_missed() -> None:
    silence = Silence()
    silence.hear(Sign.LEFT, 0.0)
    passing(silence, 100)
    assert not silence.is_longer_than(2)


def test_a_process_that_was_stopped_misses_nobody() -> None:
    silence = Silence()
    silence.hear(Sign.ALIVE, 0.0)
    silence.hear(Sign.SILENT, 3600.0)
    assert not silence.is_longer_than(2)


def test_a_frozen_rank_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulses, "PULSE_SECONDS", 1e-3)
    monkeypatch.setattr(pulses, "START_SECONDS", 1e-3)
    texts: list[str] = []
    is_told = threading.Event()

    def report(transport: LivelyTransport, text: str) -> None:
        texts.append(f"{transport.rank}: {text}")
        is_told.set()

    with connected(3) as (_, second, _):
        pulse = Pulse(second, report)
        pulse.watch(0.01, itertools.count().__next__)
        assert is_told.wait(300)
        pulse.close()
    (text,) = texts
    assert text.startswith("1: rank 0 is frozen: its process has given no sign of life")
