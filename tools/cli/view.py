"""
The `penstock-view` command: it writes a page that shows a program.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.exit_codes import CommandParser, add_debug_option, exit_code_of
from penstock.tools.cli.run_arguments import count
from penstock.tools.driver.errors import UsageError

if TYPE_CHECKING:
    from penstock.dialects.launch import ProgramOp

_PROGRAM = "penstock-view"


def main() -> NoReturn:
    """Run `penstock-view` on the arguments of this process."""
    sys.exit(run_tool())


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input, 2 for a bad command line, 70 for a defect, 130 when
    interrupted.
    """
    args = _arguments().parse_args(argv)
    return exit_code_of(lambda: _run(args), _PROGRAM, args.file, debug=args.debug)


def _arguments() -> argparse.ArgumentParser:
    parser = CommandParser(
        _PROGRAM,
        description="Write a page that shows the tasks, the memory and the time line "
        "of a program. It loads nothing, so it can be looked at anywhere.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a program: .mlir of any level, or a plan that penstock-run has saved",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT.html", required=True, help="the page"
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
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="where the ops of a job run that say nothing else",
    )
    parser.add_argument(
        "--simulate-ranks",
        action="store_true",
        help="show what is placed on several ranks (processes) as one program",
    )
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from penstock.tools.driver.files import write_whole
    from penstock.tools.reports.view.page import page_of
    from penstock.tools.reports.view.trace_file import read_trace

    trace = None if args.trace is None else read_trace(args.trace)
    program = _program(args)
    name = program.sym_name.data
    if trace is not None and trace.program != name:
        raise UsageError(f"{args.trace} is a trace of @{trace.program}, not of @{name}")
    write_whole(str(args.output), page_of(program, trace))
    print(f"wrote {args.output}")
    return 0


def _program(args: argparse.Namespace) -> ProgramOp:
    """The program of a file, compiled if need be."""
    from penstock.tools.session.saved_plan.plan import is_plan, read_plan

    if is_plan(args.file):
        return read_plan(args.file, args.device).program
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.model import compile_model, read_model
    from penstock.tools.session.options import CompileOptions

    if args.file.suffix.lower() == ".onnx":
        raise UsageError(f"{args.file} is no program: penstock-import makes one of it")
    front = installed_compiler()
    model = read_model(front[0], args.file)
    options = CompileOptions(
        args.device, args.threads, simulate_ranks=args.simulate_ranks
    )
    # It is not run.
    return compile_model(model, options, front, allow_source=True).program


if __name__ == "__main__":
    main()
