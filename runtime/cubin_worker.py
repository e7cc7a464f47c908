"""
A process that compiles CUDA kernels: `python -m penstock.runtime.cubin_worker`.

It reads jobs, a line of JSON each, and answers each with `null`, or with what is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from penstock.runtime.cache import write_atomically
from penstock.runtime.cubins import Capability, Job
from penstock.runtime.numba_settings import ignore_settings_files

if TYPE_CHECKING:
    from penstock.runtime.cuda_phases import Phase


def main(jobs: IO[str], answers: IO[str]) -> None:
    """Compile until there are no more jobs."""
    for line in jobs:
        try:
            compile_job(Job(*json.loads(line)))
            answer = None
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)


def compile_job(job: Job) -> None:
    """Write the files of a cache entry."""
    from penstock.runtime.cuda_compiler import machine_of, ptx_of

    folder = Path(job.folder)
    major, minor = job.capability
    capability: Capability = major, minor
    path = folder / f"{job.key}.py"
    write_atomically(path, job.source.encode())
    namespace: dict[str, object] = {"__name__": f"penstock_{job.key}"}
    exec(compile(job.source, str(path), "exec"), namespace)
    dtypes = cast("Sequence[str]", namespace["PARAMETERS"])
    entries: list[dict[str, object]] = []
    for phase, is_fallback in listed(cast("Sequence[Phase]", namespace["PHASES"])):
        name = phase.function.__name__
        ptx = ptx_of(phase, dtypes, capability)
        machine = machine_of(ptx, capability)
        if phase.least_blocks > 1 and machine.resources.spill_stores:
            # One block that spills nothing is better than two that do.
            ptx = ptx_of(phase._replace(least_blocks=1), dtypes, capability)
            machine = machine_of(ptx, capability)
        write_atomically(folder / f"{job.key}.{name}.ptx", ptx.encode())
        write_atomically(folder / f"{job.key}.{name}.cubin", machine.cubin)
        entries.append(
            {
                "name": name,
                "items": phase.items,
                "threads": phase.threads,
                "blockwise": phase.blockwise,
                "is_fallback": is_fallback,
                "dynamic_shared": phase.dynamic_shared,
                "cooperative": phase.cooperative,
                "parameters": machine.parameters,
                **machine.resources._asdict(),
            }
        )
    write_atomically(folder / f"{job.key}.json", json.dumps(entries).encode())


def listed(phases: Sequence[Phase]) -> Iterator[tuple[Phase, bool]]:
    """The phases that have work, each before its fallback, and whether it is one."""
    for phase in phases:
        if not phase.items:
            continue
        yield phase, False
        if phase.fallback is not None:
            yield phase.fallback, True


if __name__ == "__main__":
    ignore_settings_files()
    main(sys.stdin, sys.stdout)
