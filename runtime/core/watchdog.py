"""
The watchdog, which reports and ends runs without progress.

A thread looks at the counters of a core from time to time, so runs are no slower. If
for a set time no actor has ended an act, or a part of a shared kernel, it makes a
report: which actor runs which kernels and since when, and which waits for a register,
from or held by which other actor. Then it ends the run with `WatchdogError`, unless it
is only to report. A kernel cannot be cut short without harm, so a run ends when the
running kernels return; the report is out before. A stream that waits for its caller
makes no progress either, and is not reported.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.entry_points import halt
from penstock.runtime.core.loops_under_way import is_acting, iterations_text
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.stuck_report import waits_in
from penstock.runtime.errors import PenstockError, printable
from penstock.runtime.options import is_real
from penstock.runtime.program.executable import ProgramImage, Step
from penstock.runtime.program.tables import Layout, Tables, Words

STALLED = 6
"""A value of `control[STOP]`, beside those that compiled code knows."""
LOOKS = 8
"""The number of looks in the time after which a run counts as stalled."""
SHORTEST, LONGEST = 0.002, 0.5
"""Seconds between two looks."""


def print_report(text: str) -> None:
    """Write a report to standard error."""
    print(printable(f"penstock: {text}"), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Watchdog:
    """
    The handling of a run without progress for some `seconds`: `report` is called with
    the text of the report, from another thread, and the run ends if `fails`. `clock`
    tells the time in seconds. Raises PenstockError unless the time is more than 0.
    """

    seconds: float
    report: Callable[[str], object] = print_report
    fails: bool = True
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        seconds: object = self.seconds
        if not is_real(seconds) or not seconds > 0:
            raise PenstockError(
                f"a watchdog waits for more than 0 seconds, got {seconds!r}"
            )


class Look(NamedTuple):
    """
    The state at one moment: the acts of each actor, progress of shared kernels and of
    loops.
    """

    acts: Words
    shared: Words
    target: int


class CoreMemory(Protocol):
    """The words that the threads of a core share; `address` is that of their table."""

    layout: Layout
    state: State
    address: int


class Watcher:
    """
    Watches the runs of one core in a thread of its own, from the first one to `close`.

    `kernels` names the kernels of each actor. It leads to the memory of the core, not
    to the core, which may be collected meanwhile.
    """

    def __init__(
        self,
        watchdog: Watchdog,
        tables: Tables,
        memory: CoreMemory,
        kernels: Callable[[], Sequence[str]] | None = None,
    ):
        unnamed = [_calls(len(actor.calls)) for actor in tables.actors]
        self.watchdog = watchdog
        self._tables = tables
        self._memory = memory
        self._layout, self._state = memory.layout, memory.state
        self._kernels = kernels or (lambda: unnamed)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._acts: int | None = None
        """The acts of the run that is under way."""
        self._run = 0
        self.is_idle: Callable[[], bool] | None = None
        """Whether the run waits for its caller, which a stream may do."""
        self.stuck: Sequence[str] = ()
        """The lines of the report about the run that it has ended."""

    def begin(self, acts: int) -> None:
        """A run of so many acts begins."""
        if self._thread is None:
            # A daemon, as else Python would wait for it before anything can close it.
            self._thread = threading.Thread(
                target=self._watch, name="penstock-watchdog", daemon=True
            )
            self._thread.start()
        with self._lock:
            self._run += 1
            self._acts = acts

    def end(self) -> None:
        """The run has ended; nothing is done to it from now on."""
        with self._lock:
            self._acts = None

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        pause = min(max(self.watchdog.seconds / LOOKS, SHORTEST), LONGEST)
        clock = self.watchdog.clock
        vigil = _Vigil(-1, self._look(), clock())
        while not self._ended.wait(pause):
            control = self._state.control
            if (
                self._acts is None
                or control[w.OPEN] == 0
                or control[w.STOP] != w.RUNNING
            ):
                continue
            # A look that takes long sees some moment between its start and its end.
            before, look, after = clock(), self._look(), clock()
            if vigil.run != self._run:
                vigil = _Vigil(self._run, look, after)
                continue
            if vigil.sees_progress(look, after) or self._rests(vigil, after):
                continue
            lasts = before - vigil.since >= self.watchdog.seconds
            if lasts and not vigil.is_reported:
                vigil.is_reported = True
                self._stop(vigil, before)

    def _rests(self, vigil: _Vigil, now: float) -> bool:
        """Whether the run waits for its caller, or has done so at the last look."""
        if self.is_idle is None:
            return False
        was_idle, vigil.is_idle = vigil.is_idle, self.is_idle()
        if was_idle or vigil.is_idle:
            # The next state of the run has lasted no time yet.
            vigil.begin_anew(now)
        return was_idle or vigil.is_idle

    def _look(self) -> Look:
        state = self._state
        workers = state.workers.reshape(-1, w.WORKER_WORDS)
        return Look(
            state.actors[self._layout.place + w.ACTS],
            workers[:, (w.CLAIMS, w.DONE, w.TURNS)],
            int(state.control[w.TARGET]),
        )

    def _stop(self, vigil: _Vigil, now: float) -> None:
        """Report, and end the run if that is wanted and it has not ended."""
        with self._lock:
            if self._acts is None or self._run != vigil.run:
                return
            self.stuck = self._lines(vigil, now, self._acts)
            if self.watchdog.fails and self._state.control[w.STOP] == w.RUNNING:
                halt(self._memory.address, STALLED)
        head = f"no progress for {now - vigil.since:.1f} s"
        try:
            self.watchdog.report("\n  ".join([head, *self.stuck]))
        except Exception as error:
            print_report(f"the report of a watchdog failed: {error!r}")

    def _lines(self, vigil: _Vigil, now: float, acts: int) -> list[str]:
        """
        A line for each actor that has acts left: the kernel it runs or the register it
        waits for.
        """
        state, layout, tables = self._state, self._layout, self._tables
        # A copy, as actors may act meanwhile.
        actors, counters = state.actors.copy(), state.counters.copy()
        phases = actors[layout.place + w.PHASE].tolist()
        waits = waits_in(tables, counters, phases)
        before = vigil.look.target - acts
        names = self._kernels()
        lines: list[str] = []
        for index, actor in enumerate(tables.actors):
            place = int(layout.place[index])
            done = int(actors[place + w.ACTS]) - before * tables.repetitions[index]
            if done >= acts * tables.repetitions[index] or phases[index] == w.ENDED:
                continue
            if is_acting(tables, state, index, actors):
                # A device may have added actors of its own.
                known = names[index] if index < len(names) else "a wait for a device"
                at = iterations_text(tables, state, index)
                what = f"is in {known}{at and f', {at}'}"
            elif reasons := waits.get(index):
                what = "; ".join(reasons)
            else:
                what = f"is ready, but worker {actor.worker} does something else"
            seconds = now - vigil.acted[index]
            lines.append(f"{tables.at_act(index, done)}: {what}, for {seconds:.1f} s")
        return lines


class _Vigil:
    """The progress of one run that a watchdog has seen, of all and of each actor."""

    def __init__(self, run: int, look: Look, now: float):
        self.run = run
        self.look = look
        self.since = now
        self.acted = np.full(len(look.acts), now)
        self.is_reported = False
        self.is_idle = False

    def begin_anew(self, now: float) -> None:
        """Forget for how long nothing has gone on."""
        self.since = now
        self.acted[:] = now
        self.is_reported = False

    def sees_progress(self, look: Look, now: float) -> bool:
        """Note the changes since the last look; False if there are none."""
        before = self.look
        if (look.acts == before.acts).all() and (look.shared == before.shared).all():
            return False
        self.acted[look.acts != before.acts] = now
        self.look, self.since, self.is_reported = look, now, False
        return True


def kernel_names(image: ProgramImage) -> list[str]:
    """A text for the steps of each actor, for a report."""
    return [", ".join(map(_step_text, actor.steps)) for actor in image.actors]


def _step_text(step: Step) -> str:
    if step.verb == "call":
        return f"kernel {step.subject}"
    return f"{step.verb} {step.subject or ' to '.join(step.arguments)}"


def _calls(count: int) -> str:
    return "its kernel" if count == 1 else f"one of its {count} kernels"
