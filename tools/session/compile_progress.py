"""
The CPU with a progress line of the kernels that are compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.loading.devices import Cpu
from penstock.runtime.program.executable import Kernel
from penstock.runtime.program.tables import Argument, Call
from penstock.tools.driver.progress import Progress


class ShownCpu(Cpu):
    """The CPU, which counts each kernel once in a progress line."""

    def __init__(self, progress: Progress):
        super().__init__()
        self._progress = progress
        self._seen: set[str] = set()

    def is_there(self, kernel: str) -> None:
        """Note that a kernel of this name need not be compiled any more."""
        if kernel not in self._seen:
            self._seen.add(kernel)
            self._progress.advance()

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The call of the compiled kernel."""
        made = super().call(kernel, source, args)
        self.is_there(kernel.name)
        return made
