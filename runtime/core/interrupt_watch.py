"""
Ends runs in the main thread at an interrupt while compiled code is in a long loop.

Python handles a signal between two of its instructions, and a loop of an actor has
none of these. The signal itself is noted at once, by a byte in a pipe
(`signal.set_wakeup_fd`): a thread reads it, and ends the run. The main thread comes
back to Python then, which raises KeyboardInterrupt. Bytes are handed on to the pipe
that was set before, as event loops have one. Where the program handles interrupts in a
way of its own, runs go on.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress


class InterruptWatch:
    """
    The thread that ends the runs of this process at interrupts, and its pipe. There is
    one of each from the first run with a loop on, until the process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._read_end = self._write_end = -1
        self._before = -1
        """The pipe that was set before the outermost run."""
        self._runs: list[Callable[[], None]] = []

    def begin(self, stop: Callable[[], None]) -> None:
        """A run of the main thread begins, which a function ends."""
        if self._process != os.getpid():
            self._start()
        if not self._runs:
            self._before = signal.set_wakeup_fd(
                self._write_end, warn_on_full_buffer=False
            )
        with self._lock:
            # Python has seen these, as it runs this.
            self._taken()
            self._runs.append(stop)

    def end(self, stop: Callable[[], None]) -> None:
        """A run has ended, unless it has before; it is not stopped from now on."""
        if stop not in self._runs:
            return
        with self._lock:
            self._runs.remove(stop)
        if not self._runs:
            signal.set_wakeup_fd(self._before)

    def _start(self) -> None:
        """Begin to read signals in this process, which may be a fork of another one."""
        self._read_end, self._write_end = os.pipe()
        for end in self._read_end, self._write_end:
            os.set_blocking(end, False)
        self._lock, self._runs = threading.Lock(), []
        # Not by the name of threads of executors, which end with these.
        name = "interrupts-of-penstock"
        threading.Thread(target=self._read, name=name, daemon=True).start()
        self._process = os.getpid()

    def _read(self) -> None:
        while True:
            select.select([self._read_end], [], [])
            with self._lock:
                signals = self._taken()
                handler = signal.getsignal(signal.SIGINT)
                is_default = handler is signal.default_int_handler
                if signal.SIGINT in signals and is_default:
                    for stop in self._runs:
                        stop()

    def _taken(self) -> bytes:
        """The signals that came, which the pipe that was set before gets, too."""
        signals = b""
        with suppress(BlockingIOError):
            signals = os.read(self._read_end, 64)
        if signals and self._before >= 0:
            with suppress(OSError):
                os.write(self._before, signals)
        return signals


interrupts = InterruptWatch()
"""The one of this process, as a signal has one pipe."""
