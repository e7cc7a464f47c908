"""
The benchmark of a machine with a GPU, in one command of at most 8 minutes: its
versions, the tests for CUDA, a memory checker, and times beside peers.

    python benchmarks/gpu.py [--only NAME]... [--minutes 7.5] [--out FOLDER]
                             [--write docs/benchmarks]

It writes `gpu.md` and `gpu.json` into the folder, anew after each section. A section
runs in a process of its own: if it fails, or has no time left, the others go on and the
page says so. With `--write` times are added to the figures of other machines, of which
`make docs` makes a page. The exit code is 0 if nothing failed, 1 if there is no GPU, 2
otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import Section, Table, environment

ROOT = Path(__file__).parents[1]
NEEDED = ("penstock", "xdsl", "numba", "numba-cuda", "cuda-bindings")
NOT_INSTALLED = (
    "not installed: {missing}. Try pip install -e '.[cuda]', or where nothing can be "
    "downloaded: pip install --no-deps --no-build-isolation -e ."
)
NO_GPU = "there is no GPU: this has to be run on a machine that has one"
HEADER = ("case", "who", "us", "figure", "ratio", "note")
INTRO = """\
# On a GPU

Written by `python benchmarks/gpu.py`. Times are those of the device, for Penstock all
that a run launches, again and again: medians of rounds in which contenders take turns.
A *ratio* is a contender's time over that of Penstock, so above 1 Penstock is faster.
`f32` is computed with all its bits by everybody; outputs agree before anything is
timed."""
TIMES = """\
Microseconds of the device, for Penstock all that a run launches, again and again:
medians of rounds in which contenders take turns. `f32` is computed with all its bits by
all of them."""
KILL_SECONDS = 5.0
"""The time that a process has to end after it was told to."""
LEAST_SECONDS = 8.0
"""The time without which a section is not begun."""


@dataclass(frozen=True)
class Part:
    """A section: what it runs, and the seconds that it gets at most."""

    title: str
    command: Sequence[str]
    seconds: float
    is_pytest: bool = False
    needs: str = ""
    """A program without which it is left out."""
    limit: str | None = None
    """The bound of all its cases."""


@dataclass
class Outcome:
    """The outcome of a section: its rows and problems."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    output: str = ""
    """The end of what it printed, if something went wrong."""

    @property
    def has_failed(self) -> bool:
        """Whether something is wrong."""
        return bool(self.problems) or any(row["is_problem"] for row in self.rows)

    def markdown(self) -> str:
        """A section of the page."""
        parts = [f"## {self.title}"]
        if self.rows:
            parts.append(Table(HEADER, [cells(row) for row in self.rows]).markdown())
        parts += [f"* {problem}" for problem in self.problems]
        if self.output:
            parts.append(f"```\n{self.output}\n```")
        return "\n\n".join(parts)


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row as text."""
    time_of, ratio = row["microseconds"], row["ratio"]
    note = ("**wrong** " if row["is_problem"] else "") + row["note"]
    found = [
        row["case"],
        row["who"],
        "" if time_of is None else f"{time_of:.2f}",
        row["figure"],
        "" if ratio is None else f"{ratio:.2f}",
        note,
    ]
    return [cell.replace("|", "/").replace("\n", " ") for cell in found]


################################################################################
# Sections                                                                     #
################################################################################


def section(name: str) -> list[str]:
    """The command of a section of `gpu_sections`; its rows go to the file {rows}."""
    return [sys.executable, __file__, "--section", name, "--rows", "{rows}"]


def tests(*files: str) -> list[str]:
    """The command of tests, on several processes if pytest can do that."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    if find_spec("xdist") is not None:
        command += ["-n", str(min(8, os.cpu_count() or 1))]
    return [*command, *files]


def sanitizer(tool: str) -> list[str]:
    """The command of a checker on kernels of all kinds."""
    path = shutil.which("compute-sanitizer") or "compute-sanitizer"
    return [path, "--tool", tool, "--error-exitcode", "9", *section("check")]


def parts_of_all() -> dict[str, Part]:
    """All sections by name, in their order."""
    files = sorted((ROOT / "test" / "unit").rglob("test_cuda*.py"))
    on_device = [str(path) for path in files if path.stem == "test_cuda_gpu"]
    others = [str(path) for path in files if path.stem != "test_cuda_gpu"]
    checker = "compute-sanitizer"
    return {
        "probe": Part("What there is", section("probe"), 40),
        "check": Part("Kernels against NumPy", section("check"), 90),
        "launches": Part("What it costs to ask", section("launches"), 60),
        "rows": Part(
            "Bound by memory", section("rows"), 90, limit="bandwidth of memory"
        ),
        "products": Part(
            "Products and convolutions", section("products"), 80, limit="arithmetic"
        ),
        "libraries": Part("Libraries in programs", section("libraries"), 60),
        "attention": Part("Attention", section("attention"), 60),
        "layer": Part("A layer of BERT", section("layer"), 80),
        "resnet": Part("ResNet-50", section("resnet"), 120),
        "device tests": Part("Tests on the GPU", tests(*on_device), 100, True),
        "memcheck": Part("Memory", sanitizer("memcheck"), 60, needs=checker),
        "racecheck": Part("Races", sanitizer("racecheck"), 60, needs=checker),
        "tests": Part("Other tests for CUDA", tests(*others), 200, True),
    }


def run_part(part: Part, seconds: float, folder: Path) -> Outcome:
    """Run a section in a process of its own for so many seconds at most."""
    outcome = Outcome(part.title)
    if part.needs and shutil.which(part.needs) is None:
        outcome.rows = [plain_row(part.needs, "not installed")]
        return outcome
    if seconds < LEAST_SECONDS:
        outcome.problems = ["left out: no time was left"]
        return outcome
    rows, log = folder / "rows.jsonl", folder / "log.txt"
    rows.write_text("")
    command = [word.replace("{rows}", str(rows)) for word in part.command]
    start = time.monotonic()
    with log.open("w") as output:
        code = run_limited(command, seconds, output)
    outcome.seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    lines = rows.read_text(encoding="utf-8").splitlines()
    outcome.rows = [json.loads(line) for line in lines if line.endswith("}")]
    if part.is_pytest:
        outcome.rows = test_rows(text)
    if code is None:
        outcome.problems.append(f"stopped after {seconds:.0f} s")
    elif code:
        outcome.problems.append(f"ended with code {code}")
    if outcome.has_failed:
        outcome.output = "\n".join(text.splitlines()[-25:]).replace("```", "'''")
    return outcome


def run_limited(command: Sequence[str], seconds: float, output: Any) -> int | None:
    """The exit code of a command, None if it took too long and was ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        # Those that it started, too.
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(KILL_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        return None


TEST = re.compile(r"\b(PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")


def test_rows(text: str) -> list[dict[str, Any]]:
    """The number of tests by result, and the failed ones, from the output of pytest."""
    results: dict[str, str] = {}
    for line in text.splitlines():
        # `name PASSED [ 10%]`, or from several processes `[gw0] [ 10%] PASSED name`.
        name = re.search(r"\S+\.py::\S.*?(?= (?:PASSED|FAILED|SKIPPED|ERROR)|$)", line)
        found = TEST.search(line)
        if found is not None and name is not None:
            results[name[0].partition(" - ")[0].strip()] = found[1]
    kinds = sorted(set(results.values()))
    counts = [f"{[*results.values()].count(kind)} {kind.lower()}" for kind in kinds]
    bad = [name for name, kind in results.items() if kind in ("FAILED", "ERROR")]
    made = [plain_row("tests", ", ".join(counts) or "none ran")]
    return made + [plain_row(name, "failed", is_problem=True) for name in bad]


def plain_row(case: str, note: str, *, is_problem: bool = False) -> dict[str, Any]:
    """A row without times."""
    found = {"case": case, "who": "", "microseconds": None, "figure": ""}
    return {**found, "ratio": None, "note": note, "is_problem": is_problem}


################################################################################
# All of it                                                                    #
################################################################################


def write(folder: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write the page and the figures."""
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    parts = [f"{INTRO}\n\nEnded {stamp}."]
    parts += [outcome.markdown() for outcome in outcomes.values()]
    (folder / "gpu.md").write_text("\n\n".join(parts) + "\n")
    data = {
        name: {
            "rows": found.rows,
            "problems": found.problems,
            "seconds": round(found.seconds, 1),
        }
        for name, found in outcomes.items()
    }
    text = json.dumps({"ended": stamp, "sections": data}, indent=1)
    (folder / "gpu.json").write_text(text + "\n")


def write_figures(
    folder: Path,
    parts: Mapping[str, Part],
    outcomes: Mapping[str, Outcome],
    commit: str,
) -> None:
    """Add the times of sections to the figures of all machines."""
    # The command starts without packages, and says which of them are missing.
    from benchmarks import figures
    from benchmarks.gpu_sections import Setup, gpu_name

    name, _, details = gpu_name().partition(",")
    facts = {**environment(Setup.rounds), "processor": name}
    for key, found in outcomes.items():
        table = figures.device_table(found.rows, parts[key].limit)
        if table is not None:
            section = Section(f"On a GPU: {found.title}", TIMES, [], None)
            measured = figures.measurement(f"gpu{key}", section, facts, commit)
            notes = [f"{name},{details}."]
            figures.write(folder, replace(measured, tables=[table], notes=notes))


def run_all(
    parts: Mapping[str, Part],
    minutes: float,
    folder: Path,
    figures: Path | None = None,
    measured: str = "",
) -> int:
    """
    Run sections one after the other, and write times to `figures`, of the commit
    `measured`; 2 if something failed.
    """
    end = time.monotonic() + 60 * minutes
    outcomes: dict[str, Outcome] = {}
    for name, part in parts.items():
        left = end - time.monotonic() - 2 * KILL_SECONDS
        outcomes[name] = run_part(part, min(part.seconds, left), folder)
        write(folder, outcomes)
        found = outcomes[name]
        print(f"\n{found.markdown()}\n\n({found.seconds:.0f} s)", flush=True)
    if figures is not None:
        write_figures(figures, parts, outcomes, measured)
    return 2 if any(found.has_failed for found in outcomes.values()) else 0


def run_section(name: str, path: Path) -> int:
    """Be a section, on the GPU of this machine."""
    from benchmarks.gpu_sections import SECTIONS, Setup
    from penstock.runtime.cuda.driver_real import open_driver

    driver = open_driver()
    driver.open(0)
    with path.open("a", encoding="utf-8") as file:
        for row in SECTIONS[name](Setup(driver)):
            print(json.dumps(row.data()), file=file, flush=True)
            print(row, flush=True)
    return 0


def arguments(names: Sequence[str]) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run all that needs a GPU.")
    parser.add_argument("--only", action="append", choices=names, help="may repeat")
    parser.add_argument("--minutes", type=float, default=7.5, metavar="N")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="add figures")
    # For the processes of sections.
    parser.add_argument("--section", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    return parser


def is_installed(package: str) -> bool:
    """Whether a package is there."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    if missing := [package for package in NEEDED if not is_installed(package)]:
        print(NOT_INSTALLED.format(missing=", ".join(missing)), file=sys.stderr)
        return 1
    parts = parts_of_all()
    parser = arguments([*parts])
    args = parser.parse_args(argv)
    if args.section:
        return run_section(args.section, args.rows)
    from penstock.runtime.cuda.simulator import gpu_count

    if not gpu_count():
        print(NO_GPU, file=sys.stderr)
        return 1
    measured = ""
    if args.write:
        from benchmarks.figures import commit

        try:
            measured = commit()
        except (OSError, subprocess.CalledProcessError) as error:
            parser.error(f"--write needs the commit, which git does not say: {error}")
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = {name: parts[name] for name in args.only or parts}
    return run_all(chosen, args.minutes, args.out, args.write, measured)


if __name__ == "__main__":
    sys.exit(main())
