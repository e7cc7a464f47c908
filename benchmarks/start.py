"""
How long it takes from nothing to a first result, in processes of their own.

Run as a module, it is such a process: `python -m benchmarks.start CONTENDER WORKLOAD`
prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from benchmarks.harness import NOT_INSTALLED
from benchmarks.report import Json, Section, Table

TEXT = """\
Seconds that a Python process takes to compute one output of SqueezeNet with one thread,
imports included. A cold start has an empty cache of kernels, a warm one what the cold
one left there. The executor itself is compiled before, once an installation."""

ROOT = Path(__file__).parents[1]
WARM_STARTS = 3

Start = dict[str, float]
"""Seconds of steps, and counts of kernels by where they came from."""


def penstock_start(workload: str) -> Start:
    """Compile, load and run a workload; what each took, and where kernels came from."""
    begin = time.perf_counter()
    from benchmarks.contenders import penstock_model
    from benchmarks.workloads import WORKLOADS
    from penstock.runtime.jit import compile_cpu
    from penstock.tools.compiler import installed_compiler
    from penstock.tools.session import kernel_sources, load, lower, program_of

    start = time.perf_counter()
    made = WORKLOADS[workload]()
    model = penstock_model(made)
    imported = time.perf_counter()
    lower(*installed_compiler(), model)
    compiled = time.perf_counter()
    program = program_of(model)
    executor = load(program, model, 1, "actors")
    loaded = time.perf_counter()
    executor.run(made.inputs)
    end = time.perf_counter()
    # Within a process this only tells again what loading found.
    kernels = [
        compile_cpu(text, name) for name, text in kernel_sources(program).items()
    ]
    from_cache = sum(kernel.from_cache for kernel in kernels)
    executor.close()
    return {
        "import packages": start - begin,
        "import model": imported - start,
        "compile": compiled - imported,
        "load": loaded - compiled,
        "first run": end - loaded,
        "kernels compiled": len(kernels) - from_cache,
        "kernels from cache": from_cache,
    }


def peer_start(contender: str, workload: str) -> Start:
    """Open a peer on a workload and run it once."""
    from benchmarks.contenders import CONTENDERS

    CONTENDERS[contender](workload, 1)()
    return {}


def main() -> None:
    """Be the process that is measured."""
    contender, workload = sys.argv[1:]
    try:
        found = (
            penstock_start(workload)
            if contender == "Penstock"
            else peer_start(contender, workload)
        )
    except ImportError as error:
        print(json.dumps({"problem": f"{NOT_INSTALLED}: {error.name}"}))
        return
    print(json.dumps(found))


def measured(contender: str, workload: str, cache: Path) -> dict[str, float | str]:
    """Start a process and return its seconds in all and what it printed."""
    command = [sys.executable, "-m", "benchmarks.start", contender, workload]
    environment = {**os.environ, "PENSTOCK_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    total = time.perf_counter() - start
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"problem": f"failed: {lines[-1] if lines else done.returncode}"}
    answer = cast("dict[str, float | str]", json.loads(done.stdout.splitlines()[-1]))
    return {"total": total, **answer}


def starts(workload: str = "squeezenet") -> Section:
    """A cold start and warm starts of ours, and starts of peers."""
    with tempfile.TemporaryDirectory(prefix="penstock-start-") as folder:
        cache = Path(folder)
        found = {
            "Penstock, cold": [measured("Penstock", workload, cache)],
            "Penstock, warm": several("Penstock", workload, cache),
            "ONNX Runtime": several("ONNX Runtime", workload, cache),
            "PyTorch eager": several("PyTorch eager", workload, cache),
        }
    rows = [start_row(name, all_starts) for name, all_starts in found.items()]
    problems = [
        f"start of {name}: {problem}"
        for name, all_starts in found.items()
        for problem in [all_starts[0].get("problem")]
        if problem is not None and not str(problem).startswith(NOT_INSTALLED)
    ]
    data: Json = {name: all_starts for name, all_starts in found.items()}
    return Section("Start", TEXT, [Table(("start", *COLUMNS), rows)], data, problems)


COLUMNS = (
    "total",
    "import packages",
    "import model",
    "compile",
    "load",
    "first run",
    "kernels compiled",
    "kernels from cache",
)


def several(contender: str, workload: str, cache: Path) -> list[dict[str, float | str]]:
    """The same start a few times."""
    return [measured(contender, workload, cache) for _ in range(WARM_STARTS)]


def start_row(name: str, found: Sequence[Mapping[str, float | str]]) -> list[str]:
    """The medians of some starts as a line."""
    if (problem := found[0].get("problem")) is not None:
        absent = str(problem).startswith(NOT_INSTALLED)
        what = NOT_INSTALLED if absent else "no result"
        return [name, what, *[""] * (len(COLUMNS) - 1)]
    return [name, *(cell(column, found) for column in COLUMNS)]


def cell(column: str, found: Sequence[Mapping[str, float | str]]) -> str:
    """The median of a column; nothing where a contender does not tell."""
    values = [float(start[column]) for start in found if column in start]
    if not values:
        return ""
    middle = statistics.median(values)
    return f"{middle:.0f}" if column.startswith("kernels") else f"{middle:.2f}"


if __name__ == "__main__":
    main()
