"""
The CUDA launches of a run, made again without the host.

A driver is watched while a session runs once. The kernels and graphs that it launched
can then be launched again in the same order on one stream, as often as wanted: so the
time of the device is measured without copies from and to the host, and without the
executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from penstock.runtime.cuda.driver import Driver, Function, Handle, Launch, Span
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.session import Model, Session


class WatchedDriver:
    """
    A driver that notes what is launched, in the order in which it is asked for; all
    else is the driver's own.
    """

    def __init__(self, driver: Driver):
        self.driver = driver
        self.launched: list[Launch] = []
        """The launches since this was cleared."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.driver, name)

    def bind(
        self, function: Function, words: Sequence[int], spans: Sequence[Span]
    ) -> Launch:
        """A launch that is noted when it is made."""
        launch = self.driver.bind(function, words, spans)

        def noted(stream: Handle) -> None:
            self.launched.append(launch)
            launch(stream)

        return noted

    def launch_graph(self, graph: Handle, stream: Handle) -> None:
        """Launch a graph, and note it."""
        self.launched.append(lambda other: self.driver.launch_graph(graph, other))
        self.driver.launch_graph(graph, stream)


@dataclass
class Replay:
    """A session that has run once, and what that launched; a runner of `harness`."""

    session: Session
    driver: Driver
    launched: Sequence[Launch]
    outputs: Mapping[str, Array]
    name: str = "Penstock"
    stream: Handle = field(init=False)

    def __post_init__(self) -> None:
        self.driver.use(0)
        self.stream = self.driver.stream()

    def turn(self, calls: int) -> float:
        """Mean seconds of this many runs of the device."""
        return mean_seconds(self.launch, self.wait, calls)

    def settle(self) -> None:
        """Nothing runs after a turn, which waits for the device."""

    def launch(self) -> None:
        """Ask for all that a run launches."""
        for launch in self.launched:
            launch(self.stream)

    def wait(self) -> None:
        """Wait for the device."""
        self.driver.synchronize_stream(self.stream)

    def close(self) -> None:
        """Give back the stream, and close the session."""
        self.wait()
        self.driver.destroy_stream(self.stream)
        self.session.close()


def mean_seconds(
    run: Callable[[], object], wait: Callable[[], object], calls: int
) -> float:
    """The mean time of asking for something so often, and of waiting once for it."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls


@contextmanager
def replayed(
    model: str | Model, inputs: Mapping[str, Array], driver: Driver
) -> Generator[Replay]:
    """A model, or the text of a job, compiled for a driver's device and run once."""
    watched = WatchedDriver(driver)
    session = opened(model, watched)
    # What graphs were captured from was launched, too.
    watched.launched.clear()
    outputs = session.run(inputs)
    replay = Replay(session, driver, [*watched.launched], outputs)
    try:
        yield replay
    finally:
        replay.close()


def opened(model: str | Model, driver: object) -> Session:
    """A session whose devices for `cuda` a driver drives."""
    from penstock.runtime.cuda import device as cuda
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.session import Model, Session

    front = installed_compiler()
    if isinstance(model, str):
        model = Model(front[0].parse(model.encode(), "job.mlir"), {}, Path())
    with patch.object(cuda, "open_cuda", lambda: cuda.Cuda(driver)):
        return Session(model, device="cuda", compiler=front)
