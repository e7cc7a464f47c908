"""
The `penstock-simulate` command: it predicts how a job runs on a cluster that a file
describes. Nothing is computed, so neither devices nor kernels are needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.exit_codes import CommandParser, add_debug_option
from penstock.tools.cli.pipeline_options import (
    add_collectives_option,
    add_device_option,
    add_pipeline_options,
    options_in,
)
from penstock.tools.cli.results import say, write_to
from penstock.tools.cli.run_arguments import count
from penstock.tools.cli.standard_input import exit_code_on_input
from penstock.tools.driver.errors import FileError, UsageError

_PROGRAM = "penstock-simulate"


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
        description="Predict the time of an iteration, the bytes on links, and the "
        "memory and idle time of devices of a job on a cluster. Nothing is computed.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a job or its plans: .mlir; - is the standard input",
    )
    parser.add_argument(
        "--cluster",
        type=Path,
        metavar="CLUSTER.toml",
        help="the devices, nodes and links; without it those that passes assume",
    )
    parser.add_argument(
        "--iterations",
        type=count,
        default=8,
        metavar="N",
        help="the iterations that follow each other (default: %(default)s)",
    )
    parser.add_argument(
        "--trace",
        metavar="OUT.json",
        help="write a time line of all ranks and links, for Perfetto or Chrome",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=1,
        metavar="N",
        help="streams of ops of a job (default: %(default)s)",
    )
    add_device_option(parser, "where the ops of a job run that say nothing else")
    add_collectives_option(parser)
    add_pipeline_options(parser, default="by default the standard one", levels=False)
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _run(args: argparse.Namespace) -> int:
    from penstock.dialects.plan import PlanOp
    from penstock.lowering.analysis.cluster import Cluster, ClusterError, parse_cluster
    from penstock.lowering.analysis.cluster_run import predict
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.driver.files import explain_os_error
    from penstock.tools.reports.cluster import facts_about, lines_about, trace_of
    from penstock.tools.session.model import lower, read_model

    cluster = Cluster()
    if args.cluster is not None:
        try:
            cluster = parse_cluster(args.cluster.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = (
                explain_os_error(error) if isinstance(error, OSError) else "no text"
            )
            raise UsageError(f"cannot read {args.cluster}: {reason}") from error
        except ClusterError as error:
            raise FileError(f"{args.cluster}: {error}") from error
    front = installed_compiler(tuple(args.load))
    model = read_model(front[0], args.file, args.data)
    options = options_in(args, collectives=args.collectives)
    lower(*front, model, options, "memory")
    plans = [op for op in model.entries if isinstance(op, PlanOp)]
    if len(plans) != len(model.entries) or not plans:
        raise FileError(f"{args.file} is past its plan: a job or plans are predicted")
    found = predict(plans, cluster, args.iterations)
    name = plans[0].sym_name.data.removesuffix("_0")
    if args.trace is not None:
        write_to(args.trace, trace_of(found))
    if args.trace == "-":
        return 0
    if args.json:
        import json

        say(json.dumps(facts_about(name, found), indent=1))
    else:
        for line in lines_about(name, found):
            say(line)
    return 0


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.simulate()
