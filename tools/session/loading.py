"""From an executable to what runs its jobs: devices, machine code, memory."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from penstock.plugins import PluginError, names_of, plugin_of
from penstock.runtime.errors import KernelError, PenstockError
from penstock.tools.driver.errors import InternalError
from penstock.tools.driver.progress import Progress

if TYPE_CHECKING:
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.loading.devices import Device
    from penstock.runtime.loading.shared_variables import SharedVariables
    from penstock.tools.session.executable import Executable

log = logging.getLogger(__name__)


def load(
    executable: Executable,
    threads: int = 1,
    engine: str = "actors",
    shared: SharedVariables | None = None,
    jobs: Sequence[str] = (),
    *,
    show_progress: bool = False,
) -> JobExecutor:
    """
    Allocate and compile what a program needs, and show the progress on a terminal if
    wanted. Its variables are those of other programs with the same `shared`; `jobs` are
    those of all ranks, if there are several. Raises PenstockError if it cannot run.
    """
    devices = open_devices(executable.devices)
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.jit.pool import compile_missing
    from penstock.runtime.loading.loader import load_jobs
    from penstock.runtime.transport.join import is_joined, join
    from penstock.tools.session.compile_progress import ShownCpu

    image, sources = executable.image, executable.sources
    on_cpu = [kernel.name for kernel in image.kernels if kernel.target == "cpu"]
    log.debug("%s: %d kernels for %s", image.name, len(sources), executable.devices)
    with Progress("compiling kernels", len(sources)) as progress:
        shown = ShownCpu(progress) if show_progress else None
        compile_missing(
            {name: sources[name] for name in on_cpu},
            ranks=join().size if is_joined() else 1,
            done=(lambda name: None) if shown is None else shown.is_there,
        )
        if shown is not None:
            devices["cpu"] = shown
        with blaming(executable):
            loaded = load_jobs(
                image,
                sources,
                executable.values,
                threads=threads,
                devices=devices,
                shared=shared,
                jobs=jobs,
            )
    for chunk in image.chunks:
        log.debug("%s: %s takes %d bytes", image.name, chunk.name, chunk.size)
    return JobExecutor(image, loaded, engine)


@contextmanager
def blaming(executable: Executable) -> Generator[None]:
    """
    Turn what is wrong with the source of a kernel into what its author is told, if it
    brings its own, and else into a defect of ours.
    """
    try:
        yield
    except KernelError as error:
        if error.kernel in executable.own_sources:
            executable.locate(error)
            raise
        raise InternalError(f"kernel @{error.kernel}") from error.__cause__


def open_devices(kinds: Collection[str]) -> dict[str, Device]:
    """
    The devices besides the CPU among these kinds, those of plug-ins too. Raises
    PenstockError if there are none.
    """
    others = sorted({*kinds} - {"cpu", "cuda"})
    found = {kind: _opened(kind) for kind in others if kind in names_of("device")}
    if "cuda" not in kinds:
        return found
    from penstock.runtime.cuda.device import open_cuda

    return {"cuda": open_cuda(), **found}


def _opened(kind: str) -> Device:
    """The device of a plug-in. Raises PenstockError if it opens none."""
    try:
        plugin = plugin_of("device", kind)
        device = plugin.call()
        if missing := [name for name in _METHODS if not hasattr(device, name)]:
            plugin.refuse(f"opens {type(device).__name__}, which has no {missing[0]}")
    except PluginError as error:
        raise PenstockError(str(error)) from error
    return cast("Device", device)


_METHODS = "is_simulated", "allocate", "allocate_pinned", "call", "copy", "wire"
"""All that a device has to have."""
