"""The processor, where a person sees how many of the kernels are compiled."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.runtime.devices import Cpu
from penstock.runtime.image import Kernel
from penstock.runtime.tables import Argument, Call
from penstock.tools.progress import Progress


class ShownCpu(Cpu):
    """The processor, which shows its progress in compiling each kernel once."""

    def __init__(self, progress: Progress):
        super().__init__()
        self._progress = progress
        self._seen: set[str] = set()

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The call of the compiled kernel."""
        made = super().call(kernel, source, args)
        if kernel.name not in self._seen:
            self._seen.add(kernel.name)
            self._progress.advance()
        return made
