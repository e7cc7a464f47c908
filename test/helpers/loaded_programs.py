"""Programs in IR, loaded with the sources of some kernels: for executors."""

from collections.abc import Mapping
from pathlib import Path

from penstock.dialects.launch import ProgramOp
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.devices import Device
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import LoadedProgram, load_jobs
from penstock.tools.session.program_export import ExportedProgram


def load_program(
    program: ProgramOp,
    sources: Mapping[str, str],
    *,
    weights: Mapping[str, Array] | None = None,
    directory: Path | None = None,
    threads: int = 1,
    devices: Mapping[str, Device] | None = None,
) -> LoadedProgram:
    """A program of one job, or of jobs that are linked to a main job."""
    executable = ExportedProgram(program, weights, directory)
    image = executable.image
    if image.jobs and not image.is_linked:
        listed = ", ".join(image.jobs)
        raise PenstockError(f"the program has several jobs: {listed}")
    values = executable.values
    jobs = load_jobs(image, sources, values, threads=threads, devices=devices)
    return jobs[image.name]


def load_program_jobs(
    program: ProgramOp, sources: Mapping[str, str]
) -> dict[str, LoadedProgram]:
    """Each job of a program by its name."""
    executable = ExportedProgram(program)
    return load_jobs(executable.image, sources, executable.values)
