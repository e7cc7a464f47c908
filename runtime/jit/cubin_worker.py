"""
A process that compiles CUDA kernels: `python -m penstock.runtime.jit.cubin_worker`.

It reads jobs, a line of JSON each, and answers each with the stages, or with an error.
"""

from __future__ import annotations

import gc
import json
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from penstock.runtime.jit.cache_files import keep_text
from penstock.runtime.jit.cubin import Answer, Capability, CompiledStage, Job, packed
from penstock.runtime.jit.numba_settings import ignore_settings_files

if TYPE_CHECKING:
    from penstock.runtime.kernels.cuda.stages import Stage

GC_THRESHOLDS = (100_000, 20, 100)
"""
Thresholds of the garbage collector, as `gc.set_threshold` takes them: by Python's own,
an eighth of the time is spent on looking for garbage, of which there is little.
"""


def main(jobs: IO[str], answers: IO[str]) -> None:
    """Compile until there are no more jobs."""
    for line in jobs:
        try:
            code = packed(compile_job(Job(*json.loads(line))))
            answer = Answer(b64encode(code).decode())
        except Exception as error:
            answer = Answer(None, f"{type(error).__name__}: {error}")
        print(json.dumps(answer), file=answers, flush=True)


def compile_job(job: Job) -> list[CompiledStage]:
    """The stages of a kernel."""
    from penstock.runtime.jit.ptx import machine_of, ptx_of
    from penstock.runtime.kernels.cuda.stages import stages_in

    major, minor = job.capability
    capability: Capability = major, minor
    keep_text(Path(job.path), job.source.encode())
    namespace: dict[str, object] = {"__name__": f"penstock_{job.key}"}
    exec(compile(job.source, job.path, "exec"), namespace)
    dtypes = cast("Sequence[str]", namespace["PARAMETERS"])
    made: list[CompiledStage] = []
    for stage, is_fallback in listed(stages_in(namespace)):
        ptx = ptx_of(stage, dtypes, capability)
        machine = machine_of(ptx, capability)
        if stage.least_blocks > 1 and machine.resources.spill_stores:
            # One block that spills nothing is better than two that do.
            ptx = ptx_of(stage._replace(least_blocks=1), dtypes, capability)
            machine = machine_of(ptx, capability)
        made.append(
            CompiledStage(
                name=stage.function.__name__,
                items=stage.items,
                threads=stage.threads,
                blockwise=stage.blockwise,
                is_fallback=is_fallback,
                dynamic_shared=stage.dynamic_shared,
                cooperative=stage.cooperative,
                parameters=tuple(machine.parameters),
                ptx=ptx,
                cubin=machine.cubin,
                **machine.resources._asdict(),
            )
        )
    return made


def listed(stages: Sequence[Stage]) -> Iterator[tuple[Stage, bool]]:
    """The stages that have work, each before its fallback, and whether it is one."""
    for stage in stages:
        if not stage.items:
            continue
        yield stage, False
        if stage.fallback is not None:
            yield stage.fallback, True


if __name__ == "__main__":
    ignore_settings_files()
    gc.set_threshold(*GC_THRESHOLDS)
    main(sys.stdin, sys.stdout)
