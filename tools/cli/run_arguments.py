"""
The command line of `penstock-run`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.runtime.options import ENGINES
from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.debugging_options import add_debugging_options
from penstock.tools.cli.exit_codes import CommandParser, add_debug_option
from penstock.tools.cli.import_options import (
    add_dim_option,
    add_max_option,
    add_separate_option,
)
from penstock.tools.cli.pipeline_options import (
    add_collectives_option,
    add_device_option,
    add_pipeline_options,
    options_in,
)
from penstock.tools.session.model import KERNELS
from penstock.tools.session.options import CompileOptions

PROGRAM = "penstock-run"

GUARDS = ("all", "bounded", "none", "stream")
"""The guards of `regst-plan-memory`, which a start from the cache does not import."""


def options_of(args: argparse.Namespace) -> CompileOptions:
    """The options that a model is compiled with."""
    return options_in(
        args,
        simulate_ranks=args.simulate_ranks,
        collectives=args.collectives,
        database=args.kernels,
        winograd=args.allow_winograd,
        plain_loops=args.plain_loops,
        separate_weights=args.separate_weights,
        guard=args.guard,
    )


def engine_of(args: argparse.Namespace) -> str:
    """The engine that runs the program."""
    return "sequential" if args.check_finite else args.executor


def arguments() -> CommandParser:
    """The parser of the command line of `penstock-run`."""
    parser = CommandParser(
        PROGRAM, description="Compile a model, run it, and check what comes out."
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a model: .onnx, .mlir of any level, or a plan that --save-plan has "
        "saved; - is the standard input",
    )
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="IN.npz|NAME=2x3xf32=1,2,3",
        help="an array for each input by name, of a file or as values; may be repeated",
    )
    inputs.add_argument(
        "--random-inputs",
        type=seed,
        metavar="SEED",
        help="normal floats, integers from 0 to 9, and booleans",
    )
    parser.add_argument(
        "--job",
        metavar="NAME",
        help="which job to run, of several that are compiled together",
    )
    parser.add_argument(
        "--random-weights",
        type=seed,
        metavar="SEED",
        help="replace the weights of an ONNX model by random ones (He scaling)",
    )
    parser.add_argument(
        "--extra-output",
        action="append",
        default=[],
        metavar="NAME",
        help="make a value of an ONNX graph an output too; may be given several times",
    )
    add_dim_option(parser)
    add_max_option(parser)
    add_separate_option(parser)
    parser.add_argument(
        "--outputs", type=Path, metavar="OUT.npz", help="write the outputs by name"
    )
    parser.add_argument(
        "--save-plan",
        type=Path,
        metavar="PLAN.penstock",
        help="write the compiled program, to be run later without compiling",
    )
    parser.add_argument(
        "--check",
        metavar="REF.npz|onnxruntime|numpy",
        help="compare the outputs with those of a file or of another executor",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        default=1e-4,
        metavar="ERROR",
        help="largest error that passes a check, relative to the largest reference "
        "value (default: %(default)s)",
    )
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="name the first pass after which the IR runs wrong, and the first task, "
        "against --check (default: numpy)",
    )
    add_device_option(
        parser,
        "where the ops of a job run that say nothing else (default: where the job "
        "says; NUMBA_ENABLE_CUDASIM=1 simulates CUDA on a machine without it)",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=1,
        metavar="N",
        help="streams of ops, and threads that run them (default: %(default)s)",
    )
    parser.add_argument(
        "--guard",
        choices=GUARDS,
        help="what several threads may take: 1.5 times what one takes, by doing less "
        "at once if need be (bounded, the default), or what they need to do all they "
        "can, in one run after the other (all) or in several (stream, none)",
    )
    parser.add_argument(
        "--executor",
        choices=ENGINES,
        default="actors",
        help="what runs the program, with equal results: compiled actors, one task "
        "after the other in Python, or a virtual clock (default: %(default)s)",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="measure how each kernel runs fastest, unless the kernel database knows "
        "it, and run it so",
    )
    parser.add_argument(
        "--kernels",
        type=Path,
        metavar="FILE.db",
        help=f"the kernel database to go by (default: that of {KERNELS}; for --tune, "
        "else kernels.db in the cache folder)",
    )
    add_pipeline_options(parser, default="by default the standard one")
    parser.add_argument(
        "--show-origin",
        action="store_true",
        help="print with which passes, options and plug-ins a saved plan was compiled, "
        "and exit",
    )
    parser.add_argument(
        "--simulate-ranks",
        action="store_true",
        help="run what is placed on several ranks (processes) in this process",
    )
    parser.add_argument(
        "--ranks",
        type=count,
        metavar="N",
        help="run what is placed on N ranks in N processes: started here, or this is "
        "one of those that mpiexec -n N has started",
    )
    add_collectives_option(parser)
    parser.add_argument(
        "--log-ranks",
        type=Path,
        metavar="DIR",
        help="keep what each rank but 0 prints in a file of its own there",
    )
    parser.add_argument(
        "--allow-winograd",
        action="store_true",
        help="convolve 3 x 3 weights with fewer products, with errors of about 1e-5 of "
        "the largest result in f32",
    )
    parser.add_argument(
        "--plain-loops",
        action="store_true",
        help="compute all kernels as the plain loops that they mean, in place of "
        "schedules and alternatives: slow, and the reference of both",
    )
    parser.add_argument(
        "--allow-source",
        action="store_true",
        help="run kernels of a launch program or a plan that come with Python source "
        "of their own, or may reach outside of their memory: they can do whatever you "
        "can",
    )
    parser.add_argument(
        "--repeat", type=count, default=1, metavar="N", help="run N times"
    )
    parser.add_argument(
        "--watchdog",
        type=_seconds,
        metavar="SECONDS",
        help="if nothing goes on for so long, report what tasks wait for, and fail",
    )
    parser.add_argument(
        "--check-finite",
        action="store_true",
        help="run one task after the other, and fail at the first one that makes a NaN "
        "or an infinity of numbers that are finite",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="TRACE.json",
        help="write a time line of all runs, for penstock-view, Perfetto or Chrome",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="print what each op took, and its rates of computing and moving",
    )
    add_debugging_options(parser)
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def count(text: str) -> int:
    """
    The number in a text.

    Raises ArgumentTypeError if it is below 1.
    """
    return _integer(text, 1)


def seed(text: str) -> int:
    """
    The seed in a text.

    Raises ArgumentTypeError if it is none.
    """
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not text.isdecimal() or (value := int(text)) < least:
        raise argparse.ArgumentTypeError(
            f"expected an integer from {least} on, got '{text}'"
        )
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got '{text}'")
    return value


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # A NaN is not, either.
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, got '{text}'")
    return value
