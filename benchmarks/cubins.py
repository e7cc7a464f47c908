"""
Kernels of whole models as machine code for devices, which takes no device: what they
take of one, and how long it takes to make them.

    python benchmarks/cubins.py [--only MODEL]... [--arch sm_90]...
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import Json, Section, Table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from xdsl.dialects.builtin import ModuleOp

    from penstock.runtime.jit.cubin import CompiledStage

ARCHITECTURES = ("sm_80", "sm_90")

TEXT = """\
All kernels of the models for `cuda`, each compiled once for all models that have it:
stages with their fallbacks, the most registers of a thread, the most shared memory of a
block, bytes that are spilled, and bytes of stack, which are 0 where all is well. *Cold*
are the seconds with an empty cache, on as many processes as there are processors;
*warm* those to find all again."""

HEADER = (
    *("model", "architecture", "kernels", "stages", "registers", "shared", "spilled"),
    *("stack", "cold s", "warm s"),
)


def sources_of(module: ModuleOp) -> dict[str, str]:
    """The sources of the kernels of a job for `cuda`, by their names."""
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.codegen.target import kernel_source
    from penstock.lowering.pipelines import PipelineOptions, pipeline
    from penstock.tools.driver.compiler import installed_compiler, run_pipeline

    compiler, passes = installed_compiler()
    run_pipeline(compiler, passes, module, pipeline(PipelineOptions("cuda")))
    kernels = (op for op in module.walk() if isinstance(op, KernelOp))
    return {
        kernel.sym_name.data: kernel_source(kernel)
        for kernel in kernels
        if kernel.target.data == "cuda"
    }


@contextmanager
def empty_cache() -> Generator[None]:
    """A cache in which nothing is yet."""
    former = os.environ.get("PENSTOCK_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PENSTOCK_CACHE_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PENSTOCK_CACHE_DIR"]
            if former is not None:
                os.environ["PENSTOCK_CACHE_DIR"] = former


def compiled(
    sources: Mapping[str, str], architecture: str
) -> tuple[list[CompiledStage], float]:
    """The stages of kernels as machine code, and the seconds that took."""
    from penstock.runtime.jit.cubin import capability_of, compile_kernels

    start = perf_counter()
    found = compile_kernels(sources, capability_of(architecture))
    seconds = perf_counter() - start
    return [stage for stages in found.values() for stage in stages], seconds


def figures(sources: Mapping[str, str], architecture: str) -> dict[str, int | float]:
    """The times and sizes of compiling the kernels of a model."""
    stages, cold = compiled(sources, architecture)
    _, warm = compiled(sources, architecture)
    return {
        "kernels": len(sources),
        "stages": len(stages),
        "registers": max(stage.registers for stage in stages),
        "shared": max(stage.shared + stage.dynamic_shared for stage in stages),
        "spilled": sum(stage.spill_stores + stage.spill_loads for stage in stages),
        "stack": sum(stage.stack for stage in stages),
        "cold": cold,
        "warm": warm,
    }


def cubins(
    models: Iterable[tuple[str, Mapping[str, str]]] | None = None,
    architectures: Sequence[str] = ARCHITECTURES,
) -> Section:
    """Compile the kernels of models, given as sources, by default of all we have."""
    rows: list[list[str]] = []
    data: list[Json] = []
    problems: list[str] = []
    with empty_cache():
        for name, sources in all_models() if models is None else models:
            for architecture in architectures:
                found = figures(sources, architecture)
                *counts, cold, warm = found.values()
                cells = [*map(str, counts), f"{cold:.1f}", f"{warm:.2f}"]
                rows.append([name, architecture, *cells])
                data.append({"model": name, "architecture": architecture, **found})
                if found["spilled"] or found["stack"]:
                    problems.append(f"{name} for {architecture} uses local memory")
    return Section("Machine code", TEXT, [Table(HEADER, rows)], data, problems)


def all_models(only: Collection[str] = ()) -> Iterator[tuple[str, dict[str, str]]]:
    """
    The sources of the light models, of those exported from PyTorch, and of steps of
    training; of these names only, if there are some.
    """
    from benchmarks.models import exported_models, light_models
    from benchmarks.trainers import training_steps

    for models in (light_models, exported_models, training_steps):
        for name, module in models(only):
            yield name, sources_of(module)


def main(argv: Sequence[str] | None = None) -> int:
    """Compile the models that the command line names; 1 if one uses local memory."""
    parser = argparse.ArgumentParser(description="Compile kernels of models.")
    parser.add_argument("--only", action="append", metavar="MODEL", help="may repeat")
    parser.add_argument("--arch", action="append", metavar="sm_90", help="may repeat")
    args = parser.parse_args(argv)
    section = cubins(all_models(args.only or ()), args.arch or ARCHITECTURES)
    print(section.markdown())
    return int(bool(section.problems))


if __name__ == "__main__":
    sys.exit(main())
