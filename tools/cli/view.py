"""
The `penstock-view` command: it writes a page that shows a program, or its graph for
other tools, and a page of the scalars that a training run has logged.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.exit_codes import CommandParser, add_debug_option
from penstock.tools.cli.pipeline_options import (
    add_device_option,
    add_pipeline_options,
    options_in,
)
from penstock.tools.cli.results import write_to
from penstock.tools.cli.run_arguments import count
from penstock.tools.cli.run_output import tell_written
from penstock.tools.cli.standard_input import exit_code_on_input
from penstock.tools.driver.errors import FileError, UsageError

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp
    from penstock.tools.reports.view.trace_file import TraceFile
    from penstock.tools.session.joined_ranks import JoinedRanks

_PROGRAM = "penstock-view"

SCALARS = ".jsonl"
"""The suffix of logs of scalars."""


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input, 2 for a bad command line, 70 for a defect, 130 when
    interrupted.
    """
    return exit_code_on_input(arguments().parse_args(argv), _run, _PROGRAM)


def arguments() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        _PROGRAM,
        description="Write a page that shows the tasks, the memory and the time line "
        "of a program, or the curves of a log of scalars. It loads nothing, so it can "
        "be looked at anywhere. Of the other outputs, - is standard output.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a program: .mlir of any level, or a plan that penstock-run has saved; - "
        "is the standard input; or a .jsonl log of scalars of penstock.data",
    )
    parser.add_argument("-o", "--output", metavar="OUT.html", help="the page")
    parser.add_argument(
        "--to-dot", metavar="OUT.dot", help="the graph of tasks for Graphviz"
    )
    parser.add_argument(
        "--to-model-explorer",
        metavar="OUT.json",
        help="the graph of tasks for Google's Model Explorer",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="TRACE.json",
        help="a trace of the program that penstock-run has written",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=1,
        metavar="N",
        help="streams of ops of a job (default: %(default)s)",
    )
    add_device_option(parser, "where the ops of a job run that say nothing else")
    parser.add_argument(
        "--simulate-ranks",
        action="store_true",
        help="show what is placed on several ranks (processes) as one program",
    )
    add_pipeline_options(parser, default="by default the standard one", levels=False)
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.file.suffix == SCALARS:
        return _draw_scalars(args)
    from penstock.tools.reports.view.trace_file import read_trace

    if not (args.output or args.to_dot or args.to_model_explorer):
        raise UsageError("nothing to write: give -o, --to-dot or --to-model-explorer")
    if args.trace is not None and not args.output:
        raise UsageError("--trace is for the page, which -o asks for")
    trace = None if args.trace is None else read_trace(args.trace)
    program, names = _program(args)
    if trace is not None:
        if {*trace.programs} - {*names}:
            known, own = ", @".join(trace.programs), ", @".join(names)
            raise FileError(f"{args.trace} is a trace of @{known}, not of @{own}")
        trace = trace.renamed(names)
    outputs = list(_outputs(args, program, trace))
    for path, text in outputs:
        write_to(path, text)
    tell_written([path for path, _ in outputs], as_json=args.json)
    return 0


def _draw_scalars(args: argparse.Namespace) -> int:
    """Write the page of a log of scalars."""
    from penstock.tools.data.scalars import ScalarLog
    from penstock.tools.reports.scalars.curves import page_of

    if args.to_dot or args.to_model_explorer or args.trace is not None:
        raise UsageError(f"{args.file} is a log of scalars: it has a page only, -o")
    if not args.output:
        raise UsageError("nothing to write: give -o")
    write_to(args.output, page_of(ScalarLog(args.file)))
    tell_written([args.output], as_json=args.json)
    return 0


def _program(args: argparse.Namespace) -> JoinedRanks:
    """The program of a file, compiled if need be; those of several ranks as one."""
    from penstock.tools.session.joined_ranks import join_ranks
    from penstock.tools.session.program_file import programs_in

    options = options_in(args, simulate_ranks=args.simulate_ranks)
    return join_ranks(programs_in(args.file, options, args.data))


def _outputs(
    args: argparse.Namespace, program: ProgramOp, trace: TraceFile | None
) -> Iterator[tuple[str, str]]:
    """Each file that is asked for, and its text."""
    if args.output:
        from penstock.tools.reports.view.page import page_of

        yield args.output, page_of(program, trace)
    if args.to_dot:
        from penstock.tools.reports.view.dot import dot_of

        yield args.to_dot, dot_of(program)
    if args.to_model_explorer:
        from penstock.tools.reports.model_explorer.graphs import collection_of

        text = json.dumps(collection_of(program), indent=1)
        yield args.to_model_explorer, f"{text}\n"


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.view()
