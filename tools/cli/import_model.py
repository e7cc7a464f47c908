"""The `penstock-import` command: an ONNX model as a job in IR, beside its weights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

from penstock.dialects.utils.exact_printer import ExactPrinter
from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.debugging_options import (
    add_debugging_options,
    debugging,
    refuse_looking_at_passes,
)
from penstock.tools.cli.exit_codes import CommandParser, add_debug_option
from penstock.tools.cli.import_options import (
    add_dim_option,
    add_max_option,
    add_separate_option,
)
from penstock.tools.cli.pipeline_options import (
    add_device_option,
    add_pipeline_options,
    options_in,
)
from penstock.tools.cli.results import say, write
from penstock.tools.cli.run_arguments import count, seed
from penstock.tools.cli.run_output import tell_written
from penstock.tools.cli.standard_input import exit_code_on_input, is_standard_input
from penstock.tools.driver.compiler import Compiler, installed_compiler
from penstock.tools.driver.errors import FileError, UsageError, needing_onnx
from penstock.tools.driver.files import refuse_others, write_whole
from penstock.tools.driver.importers import (
    import_by_plugin,
    module_of,
    set_initialisers,
)
from penstock.tools.session.arrays import check_writable, write_arrays
from penstock.tools.session.lowered_text import pipeline_text, text_at
from penstock.tools.session.model import Model
from penstock.tools.session.options import DEFAULTS

_PROGRAM = "penstock-import"

WEIGHTS = "weights.npz"
"""The file of the weights of a job that is printed."""


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for a model that cannot be imported, 2 for a bad command line, 70
    for a defect, 130 when interrupted.
    """
    args = arguments().parse_args(argv)
    if is_standard_input(args.file):
        args.output = args.output or Path("-")
    return exit_code_on_input(args, _import, _PROGRAM)


def arguments() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        _PROGRAM,
        description="Turn an ONNX model, or a file that a plug-in reads, into a job in "
        "IR and its weights.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the model; - is the standard input",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.mlir",
        help="the job (default: beside the model; - is stdout); its weights go into "
        f"FILE.npz, those of a job that is printed into {WEIGHTS}",
    )
    parser.add_argument(
        "--random-weights",
        type=seed,
        metavar="SEED",
        help="replace the weights by random ones (He scaling)",
    )
    parser.add_argument(
        "--extra-output",
        action="append",
        default=[],
        metavar="NAME",
        help="make a value of the graph an output too; may be given several times",
    )
    add_dim_option(parser)
    add_max_option(parser)
    add_separate_option(parser)
    add_device_option(parser, "the kind of device that --pipeline compiles for")
    parser.add_argument(
        "--threads",
        type=count,
        default=1,
        metavar="N",
        help="the streams that --pipeline compiles for (default: %(default)s)",
    )
    add_pipeline_options(
        parser, default="without one, edits or a level the job is written as it is"
    )
    add_debugging_options(parser)
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _import(args: argparse.Namespace) -> int:
    if args.data is not None:
        raise FileError(f"{args.file} is no ONNX model")
    # No plug-in imports files of these kinds.
    refuse_others(args.file, ".onnx")
    options = options_in(args)
    front = installed_compiler(options.load)
    output: Path = args.output or args.file.with_suffix(".mlir")
    is_printed = is_standard_input(output)
    weights = Path(WEIGHTS) if is_printed else weights_path(output, args.file)
    # Models may be large. Whether there are weights to write is not known before.
    if not is_printed:
        check_writable(output)
    model, printer = _read(args, front[0], weights.name)
    if args.dump_pipeline:
        say(pipeline_text(front, model, options, args.compile_to))
        return 0
    if replace(options, load=()) == DEFAULTS and args.compile_to is None:
        refuse_looking_at_passes(args)
        stream = StringIO()
        printer(stream).print_op(model.module)
        text = stream.getvalue() + "\n"
    else:
        level = args.compile_to or "launch"
        with debugging(args, front):
            text = text_at(front, model, options, level, printer)
    # A model that cannot be compiled leaves no files.
    if model.weights:
        write_arrays(weights, model.weights)
    if is_printed:
        write(text)
    else:
        write_whole(str(output), text)
    written = [output, weights] if model.weights else [output]
    tell_written(map(str, written), as_json=args.json)
    return 0


def _read(
    args: argparse.Namespace, compiler: Compiler, weights: str
) -> tuple[Model, type[ExactPrinter]]:
    """
    The model of a file, whose variables start from a file of this name, and the printer
    of its text.
    """
    if (found := import_by_plugin(args.file)) is not None:
        if (
            args.random_weights is not None
            or args.extra_output
            or args.dim
            or args.max
            or args.separate_weights
        ):
            raise UsageError(
                "--random-weights, --extra-output, --dim, --max and --separate-weights "
                "are for ONNX models"
            )
        module = module_of(compiler, args.file, found)
        set_initialisers(module, found, weights)
        return Model(module, found.weights, Path()), ExactPrinter
    with needing_onnx():
        from penstock.tools.frontend.onnx.model import import_file
        from penstock.tools.frontend.onnx.printing import NodePrinter
    imported = import_file(
        args.file,
        random_weights=args.random_weights,
        weights_file=weights,
        extra_outputs=args.extra_output,
        dims=dict(args.dim),
        separate_weights=args.separate_weights,
        maxima=dict(args.max),
    )
    compiler.verify(imported.module)
    return Model(imported.module, imported.weights, Path()), NodePrinter


def weights_path(output: Path, model: Path) -> Path:
    """
    The path of the weights of a job that is written to `output`.

    Raises UsageError if writing either file would overwrite another one.
    """
    if output.is_dir():
        raise UsageError(f"cannot write {output}: is a directory")
    weights = output.with_suffix(".npz")
    if weights == output:
        raise UsageError(f"{output} is where the weights would go: name it .mlir")
    for path in (output, weights):
        if path.resolve() == model.resolve():
            raise UsageError(f"writing {path} would destroy the model")
    return weights


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.importer()
