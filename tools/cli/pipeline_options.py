"""
The options about pipelines: one to choose, edits of it in the order of their flags, and
a level to end at. All commands that compile have them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

from penstock.runtime.options import DEVICES
from penstock.tools.cli.command_parser import CommandParser
from penstock.tools.driver.pipeline_edits import VERBS, Edit, edit_of
from penstock.tools.session.options import CompileOptions

LEVELS = ("job", "plan", "memory", "launch", "source")
"""
The levels of `lowering/pipelines.py`, which a start from the cache does not import.
"""


class _Options(Protocol):
    """A parser, or a group of its options."""

    def add_argument(
        self,
        name: str,
        /,
        *,
        metavar: str | None = None,
        action: str | type[argparse.Action] = "store",
        default: object = None,
        dest: str = ...,
        choices: Sequence[str] | None = None,
        help: str,
    ) -> argparse.Action: ...


COLLECTIVES = ("copies", "ring", "mpi")
"""The ways of `convert-job-to-plan`, which a start from the cache does not import."""


class Others(TypedDict, total=False):
    """The options of compiling that only some commands have."""

    simulate_ranks: bool
    collectives: str
    database: Path | None
    winograd: bool
    plain_loops: bool
    separate_weights: bool
    guard: str | None


class _AddEdit(argparse.Action):
    """Adds the verb of a flag and its text to the edits of a command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        verb = self.option_strings[0].removeprefix("--")
        namespace.edits = [*namespace.edits, (verb, values)]


def add_pipeline_options(
    parser: argparse.ArgumentParser, *, default: str, levels: bool = True
) -> None:
    """
    Add the options to a parser, with `levels` also those that print IR or passes;
    `default` is the end of a sentence about the pipeline that is run where none is
    named.
    """
    group = parser.add_argument_group(
        "pipelines",
        "PASS stands for all of its occurrences in the pipeline, PASS#2 for the second "
        "one; PASSES is a list as in -p; edits apply in the order of their flags.",
    )
    group.add_argument(
        "--pipeline",
        metavar="NAME{OPTIONS}",
        help="the pipeline, such as cpu, or 'cpu{threads=4 winograd=true}', or a list "
        f"of pipelines and passes ({default})",
    )
    add_edit_flags(group)
    add_load_option(group)
    if not levels:
        return
    group.add_argument(
        "--compile-to",
        choices=LEVELS,
        metavar="LEVEL",
        help=f"stop at a level: {', '.join(LEVELS)}; what is printed then can be given "
        "to any command to go on, but for source",
    )
    group.add_argument(
        "--dump-pipeline",
        "--dump-pass-pipeline",
        action="store_true",
        help="print the passes with all their options, as -p and --pipeline take them, "
        "and exit",
    )


def add_edit_flags(parser: _Options) -> None:
    """Add the flags of edits to a parser, or to a group of its options."""
    for verb, (form, text) in VERBS.items():
        parser.add_argument(
            f"--{verb}",
            metavar=form,
            action=_AddEdit,
            default=[],
            dest="edits",
            help=f"{text}; may be repeated",
        )


def add_load_option(parser: _Options) -> None:
    """Add the flag of files with plug-ins to a parser, or to a group of its options."""
    parser.add_argument(
        "--load",
        metavar="FILE.py",
        action="append",
        default=[],
        help="load plug-ins from a Python file; may be repeated",
    )


def add_device_option(parser: _Options, text: str) -> None:
    """Add the flag of a kind of device, with a text that says what it is for."""
    if isinstance(parser, CommandParser):
        parser.complete("--device", DEVICES)
    parser.add_argument(
        "--device", metavar="KIND", help=f"{text}: cpu, cuda or that of a plug-in"
    )


def add_collectives_option(parser: _Options) -> None:
    """Add the flag of the algorithm of collectives of ranks."""
    parser.add_argument(
        "--collectives",
        choices=COLLECTIVES,
        default=COLLECTIVES[0],
        help="how ranks exchange parts of tensors: by copies, whose sums are those of "
        "one process, by a ring of messages, or by MPI (default: %(default)s)",
    )


def options_in(args: argparse.Namespace, **others: Unpack[Others]) -> CompileOptions:
    """
    The options of a command line about pipelines, its device and threads, with others.

    Raises UsageError for what is wrong with them.
    """
    return CompileOptions(
        args.device,
        args.threads,
        pipeline=args.pipeline,
        edits=edits_in(args),
        load=tuple(args.load),
        **others,
    )


def edits_in(args: argparse.Namespace) -> tuple[Edit, ...]:
    """The edits of a command line. Raises UsageError for one that is none."""
    return tuple(edit_of(verb, text) for verb, text in args.edits)
