"""Runs whose arrays stay the same."""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.loading.arrays import Array


class Bound:
    """
    A run of a job on arrays that are bound to its inputs and outputs, as often as it is
    called for. Nothing is allocated, and nothing of the arrays is checked again.
    """

    def __init__(self, run: Callable[[], dict[str, Array]]):
        self.run: Callable[[], dict[str, Array]] = run
        """
        Reads what the arrays of inputs hold now, and writes to those of outputs, which
        it returns by name. Raises what `run` of the session raises.
        """
