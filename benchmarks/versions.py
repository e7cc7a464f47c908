"""
Two versions side by side: the time of each case in another one and in this checkout.

    python benchmarks/versions.py OLD [--only gemm]... [--cases 512x] [--threads 1,2]
                                  [--rounds N] [--fail]

The other version is a checkout, or a commit of this one. Races of pages (speed, models,
ops, gemm, elementwise, attention) and the time of compiling a model (lowering) are
taken in turns by two processes, as those of peers are. Each runs the compiler and the
benchmark of its own checkout. All other pages are made by `run.py` of both checkouts in
turns, as often as there are rounds, and each figure is compared. A ratio is the old
time over the new one: above 1, this checkout is faster. Errors are found once.

With --fail the exit code is 1 if a case of a race is slower beyond noise: by more than
5 % in the medians and in the best rounds, and so once more in a race of twice as many
rounds; or if an op's error is larger.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Field, Race, Run, only_one
from benchmarks.report import Json, Table

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

ROOT = Path(__file__).parents[1]
OLD, NEW = "old", "new"
OURS = "Penstock"
PACKAGES = ("benchmarks", "penstock")

NOISE = 0.05
"""The share of its time by which a case may be slower in both races."""

Cases: TypeAlias = Mapping[str, tuple[object, ...]]
"""The titles of cases, and what their openers take, but for threads."""


def use(checkout: Path) -> None:
    """Let this process import what a checkout has, and nothing of another one."""
    if str(checkout / ".src") == sys.path[0]:
        return
    for name in [*sys.modules]:
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]
    sys.path[:0] = [str(checkout / ".src"), str(checkout)]


@dataclass(frozen=True)
class Opening:
    """The opener of a case in a checkout."""

    checkout: Path
    page: str
    arguments: tuple[object, ...]
    threads: int

    def __call__(self) -> Run:
        use(self.checkout)
        return OPENERS[self.page](*self.arguments, self.threads)


################################################################################
# Races                                                                        #
################################################################################


def _opener(module: str, name: str = "open_penstock") -> Callable[..., Run]:
    def opened(*arguments: object) -> Run:
        return getattr(import_module(f"benchmarks.{module}"), name)(*arguments)

    return opened


def _open_model(name: str, path: str, threads: int) -> Run:
    whole = import_module("benchmarks.whole")
    return whole.open_penstock(whole.Case(name, Path(path)), threads)


def _open_lowering(path: str, threads: int) -> Run:
    """Runs of the passes that take a model to the sources of its kernels."""
    importer = import_module("penstock.tools.frontend.onnx.model")
    kernels = import_module("penstock.tools.session.kernel_sources")
    compiler = import_module("penstock.tools.driver.compiler")
    pipelines = import_module("penstock.lowering.pipelines")
    session = import_module("penstock.tools.session.session")
    module = importer.import_file(Path(path)).module
    passes = pipelines.pipeline(pipelines.PipelineOptions("cpu", threads=threads))

    def run() -> Sequence[Array]:
        lowered = module.clone()
        compiler.run_pipeline(*compiler.installed_compiler(), lowered, passes)
        model = session.Model(lowered, {}, Path())
        kernels.kernel_sources(session.program_of(model))
        return []

    return run


OPENERS: Mapping[str, Callable[..., Run]] = {
    "gemm": _opener("gemm"),
    "winograd": _opener("gemm", "open_winograd"),
    "elementwise": _opener("elementwise"),
    "attention": _opener("attention"),
    "speed": _opener("contenders"),
    "models": _open_model,
    "ops": _opener("ops"),
    "lowering": _open_lowering,
}
"""The openers of each page, which run where the checkout is in use."""


def cases_of(page: str, folder: Path) -> Cases:
    """The cases of a page; models are written to a folder."""
    if page in ("gemm", "winograd"):
        gemm = import_module("benchmarks.gemm")
        names = [*gemm.PRODUCTS, *gemm.CONVOLUTIONS]
        return {n: (n,) for n in names if page == "gemm" or n.endswith("-3-1")}
    if page == "elementwise":
        found = import_module("benchmarks.elementwise")
        shapes = found.SHAPES.items()
        return {f"{n} {size}": (n, x) for size, x in shapes for n in found.CASES}
    if page == "ops":
        found = import_module("benchmarks.ops")
        return {f"{n}, {size}": (n, size) for n in found.CASES for size in found.SIZES}
    if page == "attention":
        return {n: (n,) for n in import_module("benchmarks.attention").CASES}
    if page == "speed":
        return {n: (n,) for n in import_module("benchmarks.workloads").WORKLOADS}
    whole = import_module("benchmarks.whole")
    paths = {name: str(folder / f"{name}.onnx") for name in whole.case_names()}
    is_model = page == "models"
    return {n: (n, path) if is_model else (path,) for n, path in paths.items()}


Racing: TypeAlias = Callable[[int], Race]
"""A race of so many rounds."""


def races(
    page: str, old: Path, words: Sequence[str], threads: Sequence[int]
) -> Iterator[tuple[str, int, Racing]]:
    """The races of the cases of a page whose titles have one of these words."""
    with TemporaryDirectory() as name, Field() as field:
        for title, arguments in cases_of(page, Path(name)).items():
            if words and not any(word in title for word in words):
                continue
            if page in ("models", "lowering"):
                arguments = _written(title, arguments, Path(name))
            for count in threads:
                openers = {
                    each: Opening(checkout, page, arguments, count)
                    for each, checkout in ((NEW, ROOT), (OLD, old))
                }
                yield title, count, partial(field.race, openers)


def _written(
    title: str, arguments: tuple[object, ...], folder: Path
) -> tuple[object, ...]:
    """The arguments of a model, once its file is there."""
    path = import_module("benchmarks.whole").write_case(title, folder).path
    return (*arguments[:-1], str(path))


def is_slower(found: Race) -> bool:
    """Whether the new version is slower in the medians and in the best rounds."""
    new, old = found.results
    if new.problem is not None or old.problem is not None:
        return False
    best = min(old.seconds) / min(new.seconds)
    return max(old.median / new.median, best) < 1 - NOISE


def race_row(title: str, threads: int, found: Race) -> list[str]:
    """A line of the table: both medians, their ratio, and that of the best rounds."""
    new, old = found.results
    problem = new.problem or old.problem
    if problem is not None:
        return [title, str(threads), problem, "", "", ""]
    best = min(old.seconds) / min(new.seconds)
    times = [f"{each.median * 1e3:.3f}" for each in (old, new)]
    return [
        title,
        str(threads),
        *times,
        f"{old.median / new.median:.3f}",
        f"{best:.3f}",
    ]


def race_rows(
    found: Iterator[tuple[str, int, Racing]], rounds: int
) -> tuple[list[list[str]], list[str]]:
    """
    The lines of a table, and the names of cases that are slower in two races, of which
    the line has the second.
    """
    rows: list[list[str]] = []
    slower: list[str] = []
    for title, threads, run in found:
        result = run(rounds)
        if is_slower(result):
            result = run(2 * rounds)
            if is_slower(result):
                slower.append(f"{title} on {threads} threads")
        rows.append(race_row(title, threads, result))
    return rows, slower


################################################################################
# Other pages                                                                  #
################################################################################


def figures(data: Json, path: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in the data of a page by their places, of lists the medians."""
    if isinstance(data, bool | str) or data is None:
        return
    if isinstance(data, int | float):
        yield path, float(data)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from figures(value, f"{path} {key}".strip())
    elif data and len(
        numbers := [x for x in data if isinstance(x, int | float)]
    ) == len(data):
        yield path, median(numbers)
    else:
        for number, value in enumerate(data):
            yield from figures(value, f"{path} {_label(value, number)}".strip())


def _label(value: Json, number: int) -> str:
    """The words of an entry, or its number."""
    if not isinstance(value, Mapping):
        return str(number)
    return " ".join(x for x in value.values() if isinstance(x, str)) or str(number)


def page_figures(checkout: Path, page: str, threads: str) -> dict[str, float]:
    """The figures of a page that a checkout makes now."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        options = ["--only", page, "--threads", threads, "--rounds", "3"]
        subprocess.run(
            [sys.executable, "benchmarks/run.py", *options, "--json", str(path)],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout / ".src")},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return dict(figures(json.loads(path.read_text("utf-8"))["results"]))


def page_rows(old: Path, page: str, threads: str, rounds: int) -> list[list[str]]:
    """Each figure of a page, as medians of several runs of both checkouts in turns."""
    runs: dict[Path, list[dict[str, float]]] = {old: [], ROOT: []}
    for number in range(rounds):
        for checkout in sorted(runs, reverse=bool(number % 2)):
            runs[checkout].append(page_figures(checkout, page, threads))
    names = [name for name in runs[ROOT][0] if all(name in x for x in runs[old])]
    rows: list[list[str]] = []
    for name in names:
        was, now = (median(x[name] for x in runs[each]) for each in (old, ROOT))
        ratio = f"{was / now:.3f}" if now else ""
        rows.append([name, threads, f"{was:.6g}", f"{now:.6g}", ratio, ""])
    return rows


ACCURACY = "accuracy"
"""The page of errors, which are the same in each run, and must not become larger."""


def less_accurate(rows: Sequence[Sequence[str]]) -> list[str]:
    """The ops whose errors, those of ours, have become larger."""
    return [
        f"{name}, error {now} ulp, not {was}"
        for name, _, was, now, *_ in rows
        if OURS in name and float(now) > float(was)
    ]


################################################################################
# Command line                                                                 #
################################################################################

HEADER = ("case", "threads", "old", "new", "old / new", "best")


def _parser() -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").strip().partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("old", help="the other checkout, or a commit")
    pages = f"{', '.join(OPENERS)}, or another page of run.py; may be repeated"
    add("--only", action="append", metavar="PAGE", help=pages)
    add("--cases", nargs="+", default=[], metavar="WORD", help="those with such a word")
    add("--threads", default="2", metavar="1,2")
    add("--rounds", type=int, default=9, metavar="N")
    add("--fail", action="store_true", help="exit with 1 if a case is worse")
    return parser


@contextmanager
def checkout_of(old: str) -> Generator[Path]:
    """The folder of a checkout, or one that a commit is checked out to meanwhile."""
    if Path(old).is_dir():
        yield Path(old).resolve()
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with TemporaryDirectory() as name:
        folder = Path(name) / "old"
        subprocess.run([*git, "add", "-q", "--detach", str(folder), old], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of each page that the command line names."""
    args = _parser().parse_args(argv)
    threads = [int(word) for word in args.threads.split(",")]
    slower: list[str] = []
    with only_one("penstock-versions.lock"), checkout_of(args.old) as old:
        for page in args.only or OPENERS:
            print(f"\n## {page}\n", flush=True)
            if page == ACCURACY:
                rows = page_rows(old, page, args.threads, 1)
                slower += less_accurate(rows)
            elif page not in OPENERS:
                rows = page_rows(old, page, args.threads, args.rounds)
            else:
                found = races(page, old, args.cases, threads)
                rows, worse = race_rows(found, args.rounds)
                slower += worse
            print(Table(HEADER, [*rows, *means(rows)]).markdown(), flush=True)
    if slower:
        print(f"\nworse than before: {', '.join(slower)}", flush=True)
    return int(args.fail and bool(slower))


def means(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The line of the geometric mean of ratios, if there are several."""
    ratios = [float(row[4]) for row in rows if row[4] and float(row[4]) > 0]
    if len(ratios) < 2:
        return []
    return [["geometric mean", "", "", "", f"{geometric_mean(ratios):.3f}", ""]]


if __name__ == "__main__":
    sys.exit(main())
