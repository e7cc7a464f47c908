"""
Run benchmarks and show what they found.

    python benchmarks/run.py [--all | --only NAME]... [--threads 1,2] [--rounds N]
                             [--data FOLDER] [--seconds S]
                             [--cases WORD...] [--size L1]
                             [--json OUT] [--write docs/benchmarks]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.figures import commit, measurement, write
from benchmarks.harness import only_one
from benchmarks.report import Section, as_json, environment, environment_text
from penstock.tools.reports.compare.lifetimes import FOLDER as LIFETIMES


@dataclass(frozen=True)
class Options:
    """The options of benchmarks."""

    threads: Sequence[int]
    rounds: int
    data: Path | None = None
    """A folder of problems for `packing`."""
    seconds: float = 10.0
    """The default budget of a search for a layout."""
    cases: Sequence[str] = ()
    """Words, of which the names of single ops have one; all ops without any."""
    size: str = ""
    """The size of single ops, or empty for all."""


def _speed(options: Options) -> Section:
    from benchmarks.speed import speed

    return speed(options.threads, options.rounds)


def _models(options: Options) -> Section:
    from benchmarks.whole import models

    return models(options.threads, options.rounds)


def _profile(options: Options) -> Section:
    from benchmarks.speed import profile

    return profile(3 * options.rounds)


def _elementwise(options: Options) -> Section:
    from benchmarks.elementwise import elementwise

    return elementwise(options.threads, options.rounds)


def _ops(options: Options) -> Section:
    from benchmarks.ops import ops

    return ops(options.threads, options.rounds, options.cases, options.size)


def _accuracy(options: Options) -> Section:
    from benchmarks.accuracy import accuracy

    return accuracy(options.cases)


def _waves(options: Options) -> Section:
    from benchmarks.waves import waves

    return waves(options.rounds)


def _gemm(options: Options) -> Section:
    from benchmarks.gemm import gemm

    return gemm(options.threads, options.rounds)


def _tuning(options: Options) -> Section:
    from benchmarks.tuning import tuning

    return tuning(options.rounds)


def _attention(options: Options) -> Section:
    from benchmarks.attention import attention

    return attention(options.threads, options.rounds)


def _recurrent(options: Options) -> Section:
    from benchmarks.recurrent import recurrent

    return recurrent(options.threads, options.rounds)


def _detection(options: Options) -> Section:
    from benchmarks.detection import detection

    return detection(options.threads, options.rounds)


def _training(options: Options) -> Section:
    from benchmarks.training import training

    return training(options.threads, options.rounds)


def _recompute(options: Options) -> Section:
    from benchmarks.recompute import recompute

    return recompute()


def _memory(options: Options) -> Section:
    from benchmarks.memory import memory

    return memory()


def _compile(options: Options) -> Section:
    from benchmarks.compiling import compiling

    return compiling()


def _start(options: Options) -> Section:
    from benchmarks.start import starts

    return starts()


def _executor(options: Options) -> Section:
    from benchmarks.executor import executor

    return executor(options.rounds)


def _ordering(options: Options) -> Section:
    from benchmarks.ordering import ordering

    return ordering()


def _packing(options: Options) -> Section:
    from benchmarks.packing import packing

    return packing(options.data or LIFETIMES, options.seconds)


def _scaling(options: Options) -> Section:
    from benchmarks.scaling import scaling

    return scaling()


def _messages(options: Options) -> Section:
    from benchmarks.messages import messages

    return messages(options.rounds)


def _clusters(options: Options) -> Section:
    from benchmarks.clusters import clusters

    return clusters()


def _predictions(options: Options) -> Section:
    from benchmarks.predictions import predictions

    return predictions()


def _graph_page(options: Options) -> Section:
    from benchmarks.graph_page import graph_page

    return graph_page()


BENCHMARKS: Mapping[str, Callable[[Options], Section]] = {
    "speed": _speed,
    "models": _models,
    "profile": _profile,
    "elementwise": _elementwise,
    "ops": _ops,
    "accuracy": _accuracy,
    "waves": _waves,
    "gemm": _gemm,
    "attention": _attention,
    "recurrent": _recurrent,
    "detection": _detection,
    "training": _training,
    "tuning": _tuning,
    "memory": _memory,
    "recompute": _recompute,
    "compile": _compile,
    "start": _start,
    "executor": _executor,
    "ordering": _ordering,
    "packing": _packing,
    "scaling": _scaling,
    "messages": _messages,
    "clusters": _clusters,
    "predictions": _predictions,
    "graph-page": _graph_page,
}
"""All benchmarks by name; each imports what it needs."""

ON_REQUEST = frozenset(
    {
        "accuracy",
        "clusters",
        "detection",
        "graph-page",
        "messages",
        "ops",
        "packing",
        "predictions",
        "recompute",
        "recurrent",
        "scaling",
        "training",
        "tuning",
    }
)
"""
Those that only run with `--all`, or if they are named: they take minutes, or need a
browser.
"""


def thread_counts(text: str) -> tuple[int, ...]:
    """Numbers from a list such as `1,2`. Raises ValueError unless all are positive."""
    counts = tuple(int(word) for word in text.split(","))
    if min(counts) < 1:
        raise ValueError("there must be at least one thread")
    return counts


def positive(text: str) -> int:
    """A number above 0. Raises ValueError if it is none."""
    (count,) = thread_counts(text)
    return count


def seconds(text: str) -> float:
    """A time above 0. Raises ValueError if it is none."""
    if not (time := float(text)) > 0:
        raise ValueError(f"no time {text}")
    return time


def folder(text: str) -> Path:
    """A folder that is there. Raises ValueError if it is not."""
    if not (path := Path(text)).is_dir():
        raise ValueError(f"no folder {text}")
    return path


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run benchmarks.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="run all of them")
    which.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        metavar="NAME",
        help=f"one of {', '.join(BENCHMARKS)}; may be repeated. Without it all run but "
        f"{', '.join(sorted(ON_REQUEST))}",
    )
    parser.add_argument("--threads", type=thread_counts, default=(1, 2), metavar="1,2")
    parser.add_argument("--rounds", type=positive, default=9, metavar="N")
    parser.add_argument(
        "--data",
        type=folder,
        default=LIFETIMES,
        metavar="FOLDER",
        help="other problems for packing than those of penstock-compare",
    )
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=10.0,
        metavar="S",
        help="what a search for a layout has (default: 10)",
    )
    parser.add_argument(
        "--cases",
        nargs="+",
        default=[],
        metavar="WORD",
        help="of single ops, those whose names have such a word",
    )
    parser.add_argument(
        "--size", default="", metavar="L1", help="of single ops, one size"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FOLDER",
        help="add a file of figures for each benchmark, of which `make docs` makes the "
        "page docs/benchmarks.md; other cases of the same commit and day are joined",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 1 if something was wrong with results."""
    parser = arguments()
    args = parser.parse_args(argv)
    measured = ""
    if args.write:
        try:
            measured = commit()
        except (OSError, CalledProcessError) as error:
            parser.error(f"--write needs the commit, which git does not say: {error}")
    options = Options(
        args.threads, args.rounds, args.data, args.seconds, args.cases, args.size
    )
    names = args.only or [n for n in BENCHMARKS if args.all or n not in ON_REQUEST]
    facts = environment(args.rounds)
    sections: dict[str, Section] = {}
    with only_one():
        print(environment_text(facts), flush=True)
        for name in names:
            sections[name] = BENCHMARKS[name](options)
            print(f"\n{sections[name].markdown()}", flush=True)
    if args.json:
        args.json.write_text(as_json(facts, sections))
    if args.write:
        for name, section in sections.items():
            write(args.write, measurement(name, section, facts, measured))
    return int(any(section.problems for section in sections.values()))


if __name__ == "__main__":
    sys.exit(main())
