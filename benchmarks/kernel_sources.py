"""
Sources of kernels as hashes: the proof that a change of the compiler keeps them.

    python benchmarks/kernel_sources.py --keep OLD          # before the change
    python benchmarks/kernel_sources.py --keep NEW          # after it
    python benchmarks/kernel_sources.py --compare OLD NEW

A line of the list is `<sha256> <case> <kernel>`. A case is a section of a `.mlir` file
of `test` or `examples`, or a model, with the pipeline that took it to a launch program;
a kernel is `<program>.<number>:<name>`. A failure is a line, too: the hash of its
message, and `!failed` for a kernel. With `--keep` list and texts lie in a folder.

Each section goes through the standard pipelines (see `VARIANTS`), and through those of
its RUN lines that are about launch programs. Nothing depends on this CPU.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.kernels.inputs import GROUPS, lines_of_file, lines_of_models
from benchmarks.kernels.lists import LIST, compare, list_at
from benchmarks.kernels.lowering import Line
from benchmarks.kernels.resources import compare_resources, pairs_in
from benchmarks.kernels.variants import PLAIN, VARIANTS

Task: TypeAlias = Callable[[], Iterable[Line]]
ROOT = Path(__file__).parents[1]
QUICK = ("examples", "test/pipeline", "test/target", "test/lowering/launch")
"""The folders of `--quick`."""


def write(lines: Iterable[Line], folder: Path | None) -> None:
    """Print lines, and keep the texts in a folder if there is one."""
    kept: set[str] = set()
    listed: list[str] = []
    for line in lines:
        key = line.key
        text = f"{key} {line.case} {line.kernel}"
        print(text)
        listed.append(text)
        if folder is not None and key not in kept:
            kept.add(key)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{key}.py").write_text(line.text, "utf-8")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LIST).write_text("".join(f"{x}\n" for x in listed), "utf-8")


def shard(text: str) -> tuple[int, int]:
    """The number of a shard, from 1, and how many there are."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


def listed(text: str) -> Path:
    """The path of a list, or of a folder with one."""
    if not list_at(path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"no list {list_at(path)}: --keep writes it")
    return path


def _parser() -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").strip().partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups = ", ".join(GROUPS)
    add = parser.add_argument
    add("files", nargs="*", help="files or folders, instead of test and examples")
    add("--quick", action="store_true", help="fewer folders and pipelines")
    add("--keep", type=Path, metavar="DIR", help="keep the list and the sources here")
    add(
        "--shard",
        type=shard,
        default=(1, 1),
        metavar="I/N",
        help="a share of the files",
    )
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that share the files",
    )
    add(
        "--inputs", type=Path, default=ROOT, metavar="DIR", help="take files from there"
    )
    add("--fixed", action="store_true", help="sources with all numbers in the code")
    add("--models", nargs="+", metavar="NAME", help=f"models, or {groups}, not files")
    add(
        "--compare",
        nargs=2,
        type=listed,
        metavar=("OLD", "NEW"),
        help="compare two lists",
    )
    add("--common", action="store_true", help="compare cases that both lists have")
    add("--resources", action="store_true", help="of CUDA kernels that differ, too")
    add("--diffs", type=int, default=3, metavar="N", help="diffs that --compare shows")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print the list that the command line asks for; 1 if two of them differ."""
    args = _parser().parse_args(argv)
    if args.compare:
        differ = compare(*args.compare, args.diffs, common=args.common)
        if args.resources:
            compare_resources([*pairs_in(*args.compare)])
        return differ
    write(_results(_tasks(args), args.jobs), args.keep)
    return 0


def _tasks(args: argparse.Namespace) -> list[Task]:
    """A task for each file of the shard, or for each job a share of the models."""
    variants = PLAIN if args.quick else VARIANTS
    number, count = args.shard
    if args.models:
        return [
            partial(
                lines_of_models, name, variants, first, count * args.jobs, args.fixed
            )
            for name in args.models
            for first in range(number - 1, count * args.jobs, count)
        ]
    root = args.inputs.resolve()
    names = args.files or (QUICK if args.quick else ("test", "examples"))
    files = _files(root, names)[number - 1 :: count]
    return [partial(lines_of_file, path, root, variants, args.fixed) for path in files]


def _files(root: Path, names: Iterable[str]) -> list[Path]:
    """The files of some names, and those of folders, in order."""
    found: set[Path] = set()
    for path in (root / name for name in names):
        found.update([path] if path.is_file() else path.rglob("*.mlir"))
    return sorted(found)


def _results(tasks: Sequence[Task], jobs: int) -> Iterator[Line]:
    if jobs == 1:
        for task in tasks:
            yield from task()
        return
    with ProcessPoolExecutor(jobs) as pool:
        for lines in pool.map(_call, tasks):
            yield from lines


def _call(task: Task) -> list[Line]:
    return [*task()]


if __name__ == "__main__":
    # Output may go to `head`.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
