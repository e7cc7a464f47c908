"""
Times of the driver's steps: parsing, each pass, and verification.
"""

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter


class PassTimes:
    """The seconds spent in each step, in the order in which the steps first ran."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, str], float] = {}

    @contextmanager
    def measure(self, name: str, position: int = -1) -> Generator[None]:
        """
        A context whose time is added to the step `name` at `position` of a pipeline.
        """
        start = perf_counter()
        try:
            yield
        finally:
            spent = self._seconds.get((position, name), 0.0)
            self._seconds[position, name] = spent + perf_counter() - start

    def table(self) -> str:
        """One line a step with its milliseconds and share, then the total."""
        total = sum(self._seconds.values())
        lines = [f"{'ms':>10} {'share':>6}  step"]
        for (_, name), seconds in self._seconds.items():
            share = seconds / total if total else 0.0
            lines.append(f"{seconds * 1e3:10.2f} {share:6.1%}  {name}")
        return "\n".join((*lines, f"{total * 1e3:10.2f} {1:6.1%}  total"))
