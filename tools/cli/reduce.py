"""
The `penstock-reduce` command: it shrinks a file of IR that shows a failure.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from penstock.runtime.errors import PenstockError
from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.exit_codes import (
    EXIT_FAILED,
    CommandParser,
    add_debug_option,
    exit_code_of,
    fail,
)
from penstock.tools.cli.pipeline_options import add_load_option
from penstock.tools.cli.results import write
from penstock.tools.driver.errors import (
    Rejected,
    UsageError,
    explain_os_error,
    printable,
)

if TYPE_CHECKING:
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.driver.reduction import Case
    from penstock.tools.driver.reproducer import Resources

_PROGRAM = "penstock-reduce"
_CHANGING = re.compile(r"[0-9]+|'[^']*'|[%@]\"?[\w.$/-]+\"?")
"""The parts of a message that may change while the IR does: numbers and names."""


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input or one that is not interesting, 2 for a bad command
    line, 70 for a defect, 130 when interrupted.
    """
    args = arguments().parse_args(argv)
    file = Path("<stdin>") if str(args.file) == "-" else args.file
    return exit_code_of(lambda: _reduce(args), _PROGRAM, file, debug=args.debug)


def arguments() -> CommandParser:
    """The parser of the command line."""
    parser = CommandParser(
        _PROGRAM,
        description="Leave out passes, ops, contents of regions and attributes of a "
        "file of IR, as long as a test script finds the rest interesting or the passes "
        "fail with the same message.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.mlir",
        help="the IR, with its pipeline if it is a reproducer; - is stdin",
    )
    parser.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="OUT.mlir",
        help="where the rest goes (default: stdout)",
    )
    parser.add_argument(
        "--test",
        type=Path,
        metavar="SCRIPT",
        help="a program that gets the path of a file, and says by its exit code "
        "whether that is interesting",
    )
    parser.add_argument(
        "--test-arg",
        action="append",
        default=[],
        metavar="TEXT",
        help="an argument of the script before the file; may be repeated",
    )
    parser.add_argument(
        "--interesting",
        choices=("nonzero", "zero"),
        default="nonzero",
        help="the exit codes of interesting files: not 0, as for mlir-reduce, or 0, as "
        "for llvm-reduce (default: %(default)s)",
    )
    parser.add_argument(
        "-p",
        "--passes",
        metavar="PASSES",
        help="the passes that fail (default: those of a reproducer)",
    )
    parser.add_argument(
        "--message",
        metavar="TEXT",
        help="a part of the message that passes have to fail with (default: all of "
        "that of the whole file, but for numbers and names)",
    )
    add_load_option(parser)
    add_debug_option(parser)
    add_common_options(parser)
    return parser


def _reduce(args: argparse.Namespace) -> int:
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.driver.reduction import Reduction

    if args.test is not None and args.message is not None:
        raise UsageError("--message is for passes: the script of --test decides alone")
    front = installed_compiler(args.load)
    case = _read(args, front[0])
    with TemporaryDirectory() as folder:
        test = _test_of(args, front, case, Path(folder))
        if not test(case):
            return fail(_PROGRAM, _not_interesting(args), EXIT_FAILED)
        reduction = Reduction(case, test)
        rest = reduction.run()
    _write(args.output, _text_of(rest, args.load))
    _report(args, case, rest, reduction.tests)
    return 0


def _not_interesting(args: argparse.Namespace) -> str:
    if args.test is not None:
        return f"{args.test} does not find the file interesting"
    how = "" if args.message is None else f" with '{args.message}'"
    return f"the passes do not fail{how}"


def _read(args: argparse.Namespace, compiler: Compiler) -> Case:
    from penstock.tools.driver.reduction import Case

    try:
        is_stdin = str(args.file) == "-"
        data = sys.stdin.buffer.read() if is_stdin else args.file.read_bytes()
    except OSError as error:
        text = f"cannot read {args.file}: {explain_os_error(error)}"
        raise UsageError(text) from error
    module, resources = compiler.parse_all(data, str(args.file))
    passes = _passes_of(args, resources)
    if args.test is None and not passes:
        raise UsageError("nothing can fail: give --test SCRIPT or -p PASSES")
    return Case(module, passes)


def _passes_of(args: argparse.Namespace, resources: Resources) -> tuple[str, ...]:
    from penstock.tools.driver.pass_pipeline import parse_specs
    from penstock.tools.driver.reproducer import not_loaded, reproducer_in

    text = args.passes
    if text is None and (found := reproducer_in(resources)) is not None:
        text = found.pipeline
        if (warning := not_loaded(found, args.load)) is not None:
            print(printable(f"{_PROGRAM}: warning: {warning}"), file=sys.stderr)
    return tuple(map(str, parse_specs(text))) if text else ()


def _test_of(
    args: argparse.Namespace,
    front: tuple[Compiler, PassTable],
    case: Case,
    folder: Path,
) -> Callable[[Case], bool]:
    if args.test is not None:
        return lambda case: _is_interesting_to(args, case, folder)
    if args.message is not None:
        return lambda case: args.message in (_failure_of(case, front) or "")
    wanted = _general(_failure_of(case, front))
    return lambda case: (
        wanted is not None and wanted == _general(_failure_of(case, front))
    )


def _is_interesting_to(args: argparse.Namespace, case: Case, folder: Path) -> bool:
    """Whether the script finds a case interesting."""
    path = folder / "case.mlir"
    path.write_text(_text_of(case, args.load), encoding="utf-8")
    command = [str(args.test.absolute()), *args.test_arg, str(path)]
    try:
        # Output of the script is no part of ours.
        code = subprocess.run(command, capture_output=True, check=False).returncode
    except OSError as error:
        text = f"cannot run {args.test}: {explain_os_error(error)}"
        raise UsageError(text) from error
    return (code == 0) == (args.interesting == "zero")


def _failure_of(case: Case, front: tuple[Compiler, PassTable]) -> str | None:
    """The first message of the failure of passes, without its place."""
    from penstock.tools.driver.pass_pipeline import parse_passes

    compiler, table = front
    compiler.verify_each = True
    module = case.module.clone()
    try:
        compiler.verify(module)
        compiler.apply(module, parse_passes(table, ",".join(case.passes)))
    except Rejected as rejected:
        return rejected.diagnoses[0].message
    except UsageError:
        raise
    except PenstockError as error:
        return str(error)
    return None


def _general(message: str | None) -> str | None:
    """A message without what may change while the IR does."""
    return None if message is None else _CHANGING.sub("_", message)


def _text_of(case: Case, load: Sequence[str] = ()) -> str:
    from penstock.dialects.utils.exact_printer import ExactPrinter
    from penstock.tools.driver.reduction import verifies
    from penstock.tools.driver.reproducer import Reproducer

    stream = StringIO()
    # An op that does not verify may fail to print in its custom form.
    is_generic = not verifies(case.module)
    ExactPrinter(stream, print_generic_format=is_generic).print_op(case.module)
    text = stream.getvalue() + "\n"
    if not case.passes:
        return text
    return f"{text}\n{Reproducer(','.join(case.passes), load=tuple(load)).text()}"


def _write(output: str, text: str) -> None:
    if output == "-":
        write(text)
        return
    from penstock.tools.driver.files import write_whole

    write_whole(output, text)


def _report(args: argparse.Namespace, case: Case, rest: Case, tests: int) -> None:
    facts = {
        "ops": [case.ops, rest.ops],
        "passes": [len(case.passes), len(rest.passes)],
        "tests": tests,
    }
    passes = f"{len(case.passes)} -> {len(rest.passes)} passes, " if case.passes else ""
    text = f"{case.ops} -> {rest.ops} ops, {passes}{tests} tests"
    if args.json:
        import json

        text = json.dumps(facts)
    print(text, file=sys.stderr)


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.reduce()
