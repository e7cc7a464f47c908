"""
The `penstock-compare` command: variants of a compilation, measured side by side.

    penstock-compare cpu 'lean: cpu --set regst-plan-memory.algorithm=best' --on a.mlir
    penstock-compare --planners all --suite minimalloc,training
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.plugins import names_of
from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.exit_codes import (
    EXIT_FAILED,
    CommandParser,
    add_debug_option,
    exit_code_of,
)
from penstock.tools.cli.pipeline_options import (
    add_device_option,
    add_edit_flags,
    add_load_option,
    options_in,
)
from penstock.tools.cli.results import say
from penstock.tools.cli.run_arguments import GUARDS, count
from penstock.tools.driver.diagnostics import suggest
from penstock.tools.driver.errors import UsageError
from penstock.tools.reports.compare import exported, lifetimes
from penstock.tools.reports.compare.generated import generated_jobs
from penstock.tools.reports.compare.table import DEFAULT_METRICS, METRICS, Comparison
from penstock.tools.reports.compare.variants import JobFile, Variant, light_models

_PROGRAM = "penstock-compare"

JOB_SUITES = "light", "generated", *exported.SUITES
"""
The suites of jobs: the light models of the package `onnx`, jobs of ours, and exports.
"""

SUITES = (*JOB_SUITES, *lifetimes.SUITES)

_MODELS = ".mlir", ".onnx"
_NAMED = re.compile(r"([\w.+-]+):\s+(.*)", re.DOTALL)


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input or a variant that failed, 2 for a bad command line, 70
    for a defect, 130 when interrupted.
    """
    args = arguments().parse_args(argv)
    return exit_code_of(lambda: _run(args), _PROGRAM, Path(_PROGRAM), debug=args.debug)


def arguments() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        _PROGRAM,
        description="Compile files under several variants, run them in turns, and "
        "print each metric with its ratio to the first variant.",
        epilog="A VARIANT is a pipeline and flags of penstock-run, with a name before "
        "it if you like: cpu, 'cpu{threads=2}', 'mine: cpu --load my.py --set "
        "regst-plan-memory.algorithm=acme'. --load FILE@REVISION loads the file as it "
        "is in that revision of git.",
    )
    parser.add_argument(
        "variants", nargs="*", metavar="VARIANT", help="a way of compiling, see below"
    )
    parser.add_argument(
        "--on",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="what is compiled: .mlir, .onnx, what an importer of --load reads, or a "
        "folder of such files; for planners "
        ".csv files of lifetimes, or folders of these",
    )
    parser.add_argument(
        "--suite",
        type=_names,
        default=[],
        metavar="SUITES",
        help=f"a list of suites of jobs ({', '.join(JOB_SUITES)}) or, with --planners, "
        f"of lifetimes ({', '.join(lifetimes.SUITES)})",
    )
    parser.add_argument(
        "--planners",
        type=_names,
        metavar="PLANNERS",
        help="a list of memory planners, or all: each on lifetimes or, on jobs, as a "
        "variant of the standard pipeline",
    )
    parser.add_argument(
        "--each",
        action="append",
        default=[],
        metavar="PASS.OPTION=A,B",
        help="a variant of the standard pipeline for each value of an option of a pass",
    )
    parser.add_argument(
        "--metric",
        type=_names,
        metavar="METRICS",
        help=f"a list of {', '.join(METRICS)} (default: {','.join(DEFAULT_METRICS)}); "
        "planners on lifetimes have memory and compile-time",
    )
    parser.add_argument(
        "--rounds",
        type=count,
        default=5,
        metavar="N",
        help="turns that each variant has for its runs (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=0.2,
        metavar="S",
        help="the least length of a turn (default: %(default)s)",
    )
    add_load_option(parser)
    parser.add_argument(
        "--page", type=Path, metavar="OUT.html", help="write a page with bars, too"
    )
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        message = f"wants seconds from more than 0 to 3600, got '{text}'"
        raise argparse.ArgumentTypeError(message)
    return value


def _run(args: argparse.Namespace) -> int:
    for name in args.metric or ():
        if name not in METRICS:
            raise UsageError(_unknown("metric", name, list(METRICS)))
    for name in args.suite:
        if name not in SUITES:
            raise UsageError(_unknown("suite", name, SUITES))
    with TemporaryDirectory() as folder:
        _load(args.load, Path(folder))
        found = _compared(args, Path(folder))
    if args.page is not None:
        from penstock.tools.driver.files import write_whole
        from penstock.tools.reports.compare.page import page_of

        write_whole(str(args.page), page_of(found))
    if args.json:
        say(json.dumps(found.as_json(), indent=1))
    else:
        say(found.text())
    for line in found.notes:
        print(f"{_PROGRAM}: warning: {line}", file=sys.stderr)
    for line in found.errors:
        print(f"{_PROGRAM}: error: {line}", file=sys.stderr)
    return EXIT_FAILED if found.errors else 0


def _load(files: Sequence[str], folder: Path) -> None:
    """Load plug-ins of all variants, which may plan memory and import models."""
    if files:
        from penstock.tools.driver.compiler import installed_compiler

        installed_compiler([_at_revision(path, folder) for path in files])


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    return f"unknown {kind} '{name}'{suggest(name, known)} (known: {', '.join(known)})"


def _compared(args: argparse.Namespace, folder: Path) -> Comparison:
    from penstock.tools.reports.compare.running import (
        PLANNER_METRICS,
        compare_jobs,
        compare_planners,
    )

    problems = _problems(args)
    if problems:
        if args.variants or args.each or not args.planners:
            raise UsageError("lifetimes are for --planners alone, which compile no job")
        if _below(args.on, _model_suffixes()) or set(args.suite) & {*JOB_SUITES}:
            raise UsageError("lifetimes and jobs are compared one after the other")
        metrics = args.metric or PLANNER_METRICS
        for name in metrics:
            if name not in PLANNER_METRICS:
                raise UsageError(_unknown("metric of planners", name, PLANNER_METRICS))
        return compare_planners(_planners(args), problems, _tell, metrics)
    files = _files(args, folder)
    if not files:
        raise UsageError("nothing to compile: give --on FILE or --suite NAME")
    variants = _variants(args, folder)
    if len(variants) < 2:
        text = "two variants at least: give their texts, --planners or --each"
        raise UsageError(f"{text}, got {len(variants)}")
    return compare_jobs(
        variants,
        files,
        args.metric or DEFAULT_METRICS,
        rounds=args.rounds,
        seconds=args.seconds,
        tell=_tell,
    )


def _tell(name: str) -> None:
    """Say on a terminal what is measured."""
    if sys.stderr.isatty():
        print(f"{_PROGRAM}: {name}", file=sys.stderr)


# Subjects


def _problems(args: argparse.Namespace) -> list[tuple[str, Path]]:
    """The problems of lifetimes that are asked for, by name."""
    found = [
        item
        for name in args.suite
        if name in lifetimes.SUITES
        for item in lifetimes.suite(name).items()
    ]
    return found + [(path.stem, path) for path in _below(args.on, (".csv",))]


def _files(args: argparse.Namespace, folder: Path) -> list[JobFile]:
    """The files to compile that are asked for."""
    found = [JobFile(path.stem, path) for path in _below(args.on, _model_suffixes())]
    if "light" in args.suite:
        found += light_models()
    if "generated" in args.suite:
        found += generated_jobs(folder)
    for name in exported.SUITES:
        if name in args.suite:
            found += exported.exported_models(name, folder, _tell)
    return found


def _below(paths: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """Those of the files that are of a kind, and all of that kind in the folders."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"cannot read {path}: no such file or directory")
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found += [x for x in inside if x.suffix.lower() in suffixes]
        known = *_model_suffixes(), ".csv"
        if not path.is_dir() and path.suffix.lower() not in known:
            raise UsageError(f"{path} is neither {', '.join(known[:-1])} nor .csv")
    return found


def _model_suffixes() -> tuple[str, ...]:
    """The suffixes of files that are compiled: ours, and those that plug-ins import."""
    return (*_MODELS, *(f".{name}" for name in names_of("importer")))


# Variants


def _planners(args: argparse.Namespace) -> list[str]:
    """The memory planners that are asked for, of those that are known."""
    from penstock.lowering.algorithms.packing.registry import packing_names

    known = packing_names()
    if args.planners == ["all"]:
        return known
    for name in args.planners:
        if name not in known:
            raise UsageError(_unknown("memory planner", name, known))
    return args.planners


def _variants(args: argparse.Namespace, folder: Path) -> list[Variant]:
    texts: list[str] = [*args.variants]
    if args.planners:
        option = "regst-plan-memory.algorithm"
        texts += (f"{x}: --set {option}={x}" for x in _planners(args))
    for each in args.each:
        option, equals, values = each.partition("=")
        if not equals or "." not in option or not _names(values):
            raise UsageError(f"--each wants PASS.OPTION=A,B, got '{each}'")
        texts += (f"{x}: --set {shlex.quote(f'{option}={x}')}" for x in _names(values))
    made = [_variant(text, args.load, folder) for text in texts]
    names = [variant.name for variant in made]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two variants are called {' and '.join(sorted(twice))}")
    return made


def _variant(text: str, loaded: Sequence[str], folder: Path) -> Variant:
    """The variant of a text, with plug-ins that all variants have."""
    named = _NAMED.fullmatch(text.strip())
    name, flags = named.groups() if named else (text.strip(), text)
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"variant '{name}': {error}") from error
    args = _variantarguments().parse_args(words)
    args.load = [_at_revision(path, folder) for path in (*loaded, *args.load)]
    options = options_in(args, guard=args.guard)
    return Variant(name, options)


def _variantarguments() -> argparse.ArgumentParser:
    """The parser of the text of a variant."""
    parser = CommandParser(f"{_PROGRAM}: variant", add_help=False)
    parser.add_argument("pipeline", nargs="?")
    parser.add_argument("--threads", type=count, default=1)
    add_device_option(parser, "where ops run")
    parser.add_argument("--guard", choices=GUARDS)
    add_load_option(parser)
    add_edit_flags(parser)
    return parser


def _at_revision(text: str, folder: Path) -> str:
    """
    The path of a file to load; of `FILE@REVISION` that of a copy as it was. Raises
    UsageError where git has none.
    """
    path, _, revision = text.rpartition("@")
    if not path or Path(text).exists():
        return text
    file = Path(path)
    command = ["git", "-C", str(file.parent), "show", f"{revision}:./{file.name}"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said: bytes = getattr(error, "stderr", None) or str(error).encode()
        reason = said.decode(errors="replace").strip().splitlines()[0]
        raise UsageError(f"--load {text}: {reason}") from error
    copy = folder / f"revision-{len(list(folder.iterdir()))}" / file.name
    copy.parent.mkdir()
    copy.write_bytes(done.stdout)
    return str(copy)


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.compare()
