"""A virtual clock for watchdogs, and what they report."""

import threading
from collections.abc import Callable


class Clock:
    """
    A clock for a watchdog: it stands still, but for jumps that are asked for, unless it
    goes on by so much each time that it is asked.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.step = 0.0
        """The seconds that pass each time it is asked."""
        self._changed = threading.Condition()
        self._jump = 0.0
        self._when: Callable[[], bool] = lambda: True
        self._held = 0

    def __call__(self) -> float:
        with self._changed:
            self.asked += 1
            self.now += self.step
            if self._jump:
                self._held = self._held + 1 if self._when() else 0
                # It is asked twice a look: two whole looks see what holds now.
                if self._held == 6:
                    self.now, self._jump = self.now + self._jump, 0.0
            self._changed.notify_all()
            return self.now

    def jump(self, seconds: float, when: Callable[[], bool] = lambda: True) -> None:
        """Go forward once something has held for two looks."""
        with self._changed:
            self._when, self._held, self._jump = when, 0, seconds

    def pass_by(self, seconds: float, when: Callable[[], bool] = lambda: True) -> None:
        """Go forward once something holds, and wait until the watchdog has looked."""
        with self._changed:
            self.jump(seconds, when)
            jumps = self._changed.wait_for(lambda: not self._jump, 300)
            assert jumps, "the watchdog does not look"
            wanted = self.asked + 12
            looks = self._changed.wait_for(lambda: self.asked >= wanted, 300)
            assert looks, "the watchdog does not look"


class Reports:
    """The reports of a watchdog, and an event for the first."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.said = threading.Event()

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        self.said.set()


def without_times(text: str) -> list[str]:
    """The lines of a report without how long each has lasted."""
    return [line.strip().rpartition(", for ")[0] for line in text.split("\n")[1:]]
