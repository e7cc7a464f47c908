"""
The time from nothing to a first result, in processes of their own.

Run as a module, it is such a process: `python -m benchmarks.start CONTENDER WORKLOAD`
prints its times as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.harness import NOT_INSTALLED
from benchmarks.report import Json, Section, Table

if TYPE_CHECKING:
    from penstock import OnnxSession
    from penstock.tools.session.session import Session

TEXT = """\
Seconds that a Python process takes to compute one output of SqueezeNet with one thread,
imports included. A cold start has an empty cache of machine code, that of the executor
too, a warm one what the cold one left. A plan is a compiled program in one file; a
model is known if its plan is in the cache."""

ROOT = Path(__file__).parents[1]
WARM_STARTS = 3

Start = dict[str, float]
"""Seconds of steps, and counts of kernels by where they came from."""


def penstock_start(workload: str) -> Start:
    """Compile, load and run a workload; what each took, and where kernels came from."""
    begin = time.perf_counter()
    from benchmarks.sessions import imported_model
    from benchmarks.workloads import WORKLOADS
    from penstock.runtime.jit.cpu import compile_cpu
    from penstock.tools.session.loading import load
    from penstock.tools.session.model import compile_model

    start = time.perf_counter()
    made = WORKLOADS[workload]()
    model = imported_model(made.model)
    imported = time.perf_counter()
    executable = compile_model(model)
    compiled = time.perf_counter()
    executor = load(executable)
    loaded = time.perf_counter()
    executor.run(made.inputs)
    end = time.perf_counter()
    # Within a process this only tells again what loading found.
    kernels = [compile_cpu(text, name) for name, text in executable.sources.items()]
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


def save_plan(workload: str) -> Start:
    """Save the plan of a workload, and make its model known, with its inputs."""
    import numpy as np

    from benchmarks.sessions import imported_model
    from benchmarks.workloads import WORKLOADS
    from penstock import OnnxSession
    from penstock.tools.session.session import Session

    made, path = WORKLOADS[workload](), plan_path(workload)
    with Session(imported_model(made.model)) as session:
        session.save(path)
    np.savez(path.with_suffix(".npz"), allow_pickle=False, **made.inputs)
    path.with_suffix(".onnx").write_bytes(made.model.SerializeToString())
    with OnnxSession(path.with_suffix(".onnx")) as session:
        session.run(made.inputs)
    return {}


def plan_start(workload: str) -> Start:
    """Open the plan of a workload and run it; what each took."""
    begin = time.perf_counter()
    from penstock.tools.session.session import Session

    return first_result(begin, Session.open, plan_path(workload))


def known_start(workload: str) -> Start:
    """Open the model of a workload, which is known, and run it; what each took."""
    begin = time.perf_counter()
    from penstock import OnnxSession

    return first_result(begin, OnnxSession, plan_path(workload).with_suffix(".onnx"))


def first_result(
    begin: float, open: Callable[[Path], Session | OnnxSession], path: Path
) -> Start:
    """The times of importing, opening a file and a run of it."""
    import numpy as np

    imported = time.perf_counter()
    with open(path) as session:
        loaded = time.perf_counter()
        with np.load(path.with_suffix(".npz")) as inputs:
            session.run(inputs)
        end = time.perf_counter()
    return {
        "import packages": imported - begin,
        "load": loaded - imported,
        "first run": end - loaded,
    }


def plan_path(workload: str) -> Path:
    """The plan of a workload, in the cache folder of the measured processes."""
    return Path(os.environ["PENSTOCK_CACHE_DIR"]) / f"{workload}.penstock"


OWN_STARTS: Mapping[str, Callable[[str], Start]] = {
    "Penstock": penstock_start,
    "Penstock, plan": plan_start,
    "Penstock, known model": known_start,
    "Penstock, saving": save_plan,
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
        if (own := OWN_STARTS.get(contender)) is not None:
            found = own(workload)
        else:
            found = peer_start(contender, workload)
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
            **plan_starts(workload, cache),
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


def plan_starts(workload: str, cache: Path) -> dict[str, list[dict[str, float | str]]]:
    """Starts from a plan that another process has saved, or keeps in the cache."""
    saving = measured("Penstock, saving", workload, cache)
    return {
        name: [saving] if "problem" in saving else several(name, workload, cache)
        for name in ("Penstock, plan", "Penstock, known model")
    }


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
