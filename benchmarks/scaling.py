"""
The times of passes on plans and memory for jobs of 1,000 to 10,000 ops, and whether
their output depends on the order of hashes.

    python benchmarks/run.py --only scaling
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.compiling import JobText, StepTimes
from benchmarks.models import passes_between
from benchmarks.report import Section, Table
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

TEXT = """\
Milliseconds of each pass from places of ops to places of bytes, optional ones included,
on generated jobs. `exponent` is that of the growth from the second size to the last: 1
is linear. The target is below 10,000 ms for 10,000 ops."""

SIZES = 1_000, 3_000, 10_000

FIRST, LAST = "job-place", "verify-plan"

OPTIONAL = {
    "regst-alias-registers": "regst-choose-slots",
    "verify-plan": "plan-reduce-events,verify-deadlock",
}
"""Passes that the standard pipeline leaves out, by what they follow."""

SEEDS = "0", "1", "4242"
HASHED_OPS = 1_000


def measured_passes() -> str:
    """All passes that are measured, in order."""
    text = passes_between(FIRST, LAST)
    for name, more in OPTIONAL.items():
        text = text.replace(name, f"{name},{more}")
    return text


def pass_seconds(ops: int) -> tuple[int, dict[str, float]]:
    """The number of ops of a generated job, and the seconds of each pass by name."""
    job = JobText(ops)
    compiler, passes = installed_compiler()
    module = compiler.parse(str(job).encode(), "generated")
    before, _, _ = passes_between(None, FIRST).rpartition(",")
    run_pipeline(compiler, passes, module, before)
    compiler.times = times = StepTimes()
    run_pipeline(compiler, passes, module, measured_passes())
    found: dict[str, float] = {}
    for (_, name), seconds in times.seconds.items():
        if name != "verify":
            found[name] = found.get(name, 0.0) + seconds
    return job.count, found


def digests(ops: int, seeds: Sequence[str] = SEEDS) -> list[str]:
    """A hash of what the passes write of a generated job, for each seed of hashes."""
    before, _, _ = passes_between(None, FIRST).rpartition(",")
    text = f"{before},{measured_passes()}"
    found: list[str] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "job.mlir"
        path.write_text(str(JobText(ops)))
        command = [
            sys.executable,
            "-m",
            "penstock.tools.cli.opt",
            str(path),
            "-p",
            text,
        ]
        for seed in seeds:
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE
            )
            found.append(hashlib.sha256(done.stdout).hexdigest())
    return found


def exponent(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """By which power of the number of ops the last step of a row of times grew."""
    (before, after), (small, large) = list(pairwise(seconds))[-1], counts[-2:]
    return log(after / before) / log(large / small)


def scaling() -> Section:
    """Compile generated jobs up to places, and compare what comes out of seeds."""
    found = [pass_seconds(size) for size in SIZES]
    counts = [count for count, _ in found]
    times = [steps for _, steps in found]
    rows = [scaling_row(counts, times, name) for name in times[0]]
    totals = [sum(steps.values()) for steps in times]
    cells = [f"**{total * 1e3:.0f}**" for total in totals]
    rows.append(["**total**", *cells, f"{exponent(counts, totals):.2f}"])
    header = "pass", *(f"{count:,} ops" for count in counts), "exponent"
    hashes = digests(HASHED_OPS)
    same = len(set(hashes)) == 1
    seeds = ", ".join(SEEDS)
    note = f"Seeds {seeds} of hashes: {'the same bytes' if same else 'not the same'}."
    problems = [] if same else ["what passes write depends on the seed of hashes"]
    data = {
        "jobs": [{"ops": n, "seconds": t} for n, t in found],
        "digests": hashes,
    }
    return Section("Scaling", f"{TEXT} {note}", [Table(header, rows)], data, problems)


def scaling_row(
    counts: Sequence[int], times: Sequence[Mapping[str, float]], name: str
) -> list[str]:
    """The line of one pass."""
    seconds = [steps[name] for steps in times]
    cells = [f"{each * 1e3:.0f}" for each in seconds]
    return [name, *cells, f"{exponent(counts, seconds):.2f}"]
