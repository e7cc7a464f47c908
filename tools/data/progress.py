"""Progress of a training loop: steps, scalars as the loss, and samples a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from penstock.tools.data.loader import Loader
from penstock.tools.data.scalars import ScalarLog, as_numbers
from penstock.tools.data.types import Batch
from penstock.tools.driver.progress import Progress

EVERY = 10.0
"""Seconds between plain lines where there is no terminal."""


class Shown(Iterable[Batch]):
    """Batches that show how far their loop is; `penstock.data.progress` makes them."""

    def __init__(
        self,
        batches: Iterator[Batch],
        line: Callable[[Callable[[], str]], Progress],
        first: int,
        log: ScalarLog | None,
        clock: Callable[[], float],
    ):
        self._batches = batches
        self._line = line
        self._log = log
        self._clock = clock
        self._step = first
        self._scalars: dict[str, float] = {}
        self._samples = 0
        self._began: float | None = None
        """When the first step had ended, which may have compiled its job."""
        self._is_told = False

    def __iter__(self) -> Iterator[Batch]:
        with self._line(self._note) as line:
            for batch in self._batches:
                self._step += 1
                self._is_told = False
                try:
                    yield batch
                except GeneratorExit:
                    # The loop was left: in the middle of a step, or behind it.
                    if self._is_told:
                        self._end_step(batch, line)
                    raise
                self._end_step(batch, line)

    @property
    def step(self) -> int:
        """The number of the step that is under way, from 1."""
        return self._step

    def show(self, **scalars: Any) -> None:
        """
        Show the `scalars` of this step by name, numbers or arrays of one element, and
        write them to the log if there is one.

        **Raises** DataError for what is no number, and if the log cannot be written.
        """
        self._scalars |= as_numbers(scalars)
        self._is_told = True
        if self._log is not None:
            self._log.add(self._step, **scalars)

    def _end_step(self, batch: Batch, line: Progress) -> None:
        if self._began is None:
            self._began = self._clock()
        else:
            self._samples += max((len(x) for x in batch.values()), default=0)
        line.advance()

    def _note(self) -> str:
        texts = [f"{name} {value:.4g}" for name, value in self._scalars.items()]
        passed = 0.0 if self._began is None else self._clock() - self._began
        if self._samples and passed > 0:
            texts.append(f"{self._samples / passed:.0f} samples/s")
        return ", ".join(texts)


def progress(
    loader: Loader,
    epochs: int | None = None,
    *,
    what: str = "train",
    every: float = EVERY,
    log: str | Path | None = None,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Shown:
    """
    The batches of a `loader`, with a line that tells how far the loop is. Its `show`
    takes the scalars of a step by name, its `step` is the number of the step, from 1.

    ```python
    import numpy as np

    from penstock import data

    loader = data.Loader(data.arrays(x=np.arange(6.0)), 2)
    steps = data.progress(loader, epochs=2)
    for batch in steps:
        steps.show(loss=batch["x"].mean())
    assert steps.step == 6
    ```

    The line is `train 30/120 [######..................] loss 0.31, 2048 samples/s` on a
    terminal, drawn over itself. Elsewhere there is a plain line each `every` seconds. A
    last one stays. Samples are counted from the end of the first step, as that may
    compile.

    * `epochs`: the batches until there were so many epochs in all, as of
      `Loader.epochs`; those that are left of this epoch if it is None.
    * `what`: the first word.
    * `log`: a file of scalars to add to, as `penstock.data.ScalarLog` writes it.
    * `stream`: the file that gets the lines, in place of the standard output.
    * `clock`: a function that tells seconds.
    """
    until = loader.epoch + 1 if epochs is None else epochs
    each = loader.batches_of_epoch()
    # Without a number of batches steps count from where this process began.
    first = 0 if each is None else each * loader.epoch + loader.batches_taken()
    total = None if each is None else each * until

    def line(note: Callable[[], str]) -> Progress:
        out = sys.stdout if stream is None else stream
        return Progress(
            what, total, out, done=first, every=every, note=note, clock=clock
        )

    written = None if log is None else ScalarLog(log)
    return Shown(loader.epochs(until), line, first, written, clock)
