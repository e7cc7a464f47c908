"""
Options that show how passes work, in the spelling of `mlir-opt` and without its
`mlir-`: dumps of IR, reproducers, times and statistics.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.tools.cli.command_parser import CommandParser
from penstock.tools.driver.errors import UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.ir_printing import DumpOptions, IRPrinting
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.driver.pass_statistics import PassStatistics

TREE_OR_LIST = ("tree", "list")
PIPELINE_OR_LIST = ("pipeline", "list")


def spelled(name: str) -> tuple[str, str]:
    """A flag without and with `mlir-`."""
    return f"--{name}", f"--mlir-{name}"


def add_debugging_options(parser: ArgumentParser, passes: Iterable[str] = ()) -> None:
    """Give a command the flags that show how passes work; `passes` are completed."""
    if isinstance(parser, CommandParser):
        parser.complete("--print-ir-before", passes)
        parser.complete("--print-ir-after", passes)
    parser.set_defaults(program=parser.prog)
    group = parser.add_argument_group("looking at passes")
    _add_dumps(group.add_argument)
    _add_reproducers(group.add_argument)
    _add_reports(group.add_argument)


def _add_dumps(add: Callable[..., object]) -> None:
    for moment in ("before", "after"):
        add(
            *spelled(f"print-ir-{moment}"),
            metavar="PASS",
            action="append",
            default=[],
            help=f"print the IR {moment} these passes to stderr, with commas between",
        )
    add(
        *spelled("print-ir-before-all"),
        action="store_true",
        help="print the IR before each pass to stderr",
    )
    add(
        *spelled("print-ir-after-all"),
        action="store_true",
        help="print the IR after each pass to stderr",
    )
    add(
        *spelled("print-ir-after-change"),
        action="store_true",
        help="of the dumps after passes, print those that differ from before "
        "(by itself: of all passes)",
    )
    add(
        *spelled("print-ir-after-failure"),
        action="store_true",
        help="of the dumps after passes, print that of a pass that fails "
        "(by itself: of all passes)",
    )
    add(
        *spelled("print-ir-diff"),
        action="store_true",
        help="print dumps after passes as diffs, of what they have changed "
        "(by itself: of all passes)",
    )
    add(
        *spelled("print-ir-module-scope"),
        action="store_true",
        help="print whole modules, as all dumps are: passes run on modules here",
    )
    add(
        *spelled("print-ir-tree-dir"),
        metavar="DIR",
        type=Path,
        help="write each dump to a file below DIR instead (by itself: after each pass)",
    )
    add(
        *spelled("elide-elementsattrs-if-larger"),
        metavar="N",
        type=_limit,
        help="leave constants of more than N elements out of the IR that is printed",
    )


def _add_reproducers(add: Callable[..., object]) -> None:
    add(
        *spelled("pass-pipeline-crash-reproducer"),
        "--crash-reproducer",
        dest="crash_reproducer",
        metavar="FILE.mlir",
        help="if a pass fails, write the IR before the pipeline, and the pipeline",
    )
    add(
        *spelled("pass-pipeline-local-reproducer"),
        action="store_true",
        help="write the IR before the pass that failed, and that pass alone",
    )
    add(
        *spelled("generate-reproducer"),
        metavar="FILE.mlir",
        help="write the IR before the pipeline, and the pipeline, before it runs",
    )


def _add_reports(add: Callable[..., object]) -> None:
    add(
        *spelled("timing"),
        action="store_true",
        help="print the times of passes, of those inside of them, and of the rest",
    )
    add(
        *spelled("timing-display"),
        choices=TREE_OR_LIST,
        default="tree",
        help="how times are printed: as a tree, or by name, longest first",
    )
    add(
        *spelled("pass-statistics"),
        action="store_true",
        help="print the ops before and after passes, and what passes have counted",
    )
    add(
        *spelled("pass-statistics-display"),
        choices=PIPELINE_OR_LIST,
        default="pipeline",
        help="how statistics are printed: in the order of passes, or by name",
    )
    add(
        "--info-output-file",
        metavar="FILE",
        help="write times and statistics to a file instead of stderr",
    )


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a number of elements, got '{text}'")
    return int(text)


class Debugging:
    """The instrumentations that the options ask for, and their reports."""

    def __init__(self, args: Namespace, available: Iterable[str]) -> None:
        self._args = args
        self._statistics: PassStatistics | None = None
        self._printing: IRPrinting | None = None
        if args.print_ir_before or args.print_ir_after:
            _check_names([*args.print_ir_before, *args.print_ir_after], available)
        if args.pass_pipeline_local_reproducer and not args.crash_reproducer:
            raise UsageError(
                "--pass-pipeline-local-reproducer says how a --crash-reproducer is "
                "written: give that, too"
            )

    def attach(self, compiler: Compiler, text_of: Callable[[ModuleOp], str]) -> None:
        """Let a compiler tell the instrumentations; `text_of` prints modules."""
        args = self._args
        options = _dump_options(args)
        if options.wants_any:
            self._attach_dumps(compiler, options, text_of)
        if args.crash_reproducer:
            local = args.pass_pipeline_local_reproducer
            self._attach_reproducer(compiler, args.crash_reproducer, local=local)
        if args.generate_reproducer:
            self._attach_reproducer(compiler, args.generate_reproducer, always=True)
        if args.pass_statistics:
            from penstock.tools.driver.pass_statistics import PassStatistics

            self._statistics = PassStatistics()
            compiler.instrumentations.append(self._statistics)

    def _attach_dumps(
        self,
        compiler: Compiler,
        options: DumpOptions,
        text_of: Callable[[ModuleOp], str],
    ) -> None:
        from penstock.tools.driver.ir_printing import IRPrinting, StreamSink, TreeSink

        folder: Path | None = self._args.print_ir_tree_dir
        sink = (
            StreamSink(_print_error)
            if folder is None
            else TreeSink(folder, as_diff=options.as_diff)
        )
        self._printing = IRPrinting(options, text_of, sink)
        compiler.instrumentations.append(self._printing)

    def _attach_reproducer(
        self,
        compiler: Compiler,
        path: str,
        *,
        local: bool = False,
        always: bool = False,
    ) -> None:
        from penstock.tools.driver.reproducer import ReproducerWriting
        from penstock.tools.driver.round_trip import text_of

        writing = ReproducerWriting(
            path,
            text_of,
            lambda text: _print_error(f"{text}\n"),
            local=local,
            always=always,
            verify_each=compiler.verify_each,
            load=self._args.load,
        )
        compiler.instrumentations.append(writing)

    def report(self, compiler: Compiler) -> None:
        """Print the reports, or write them to the file that is to have them."""
        self._warn_of_absent_passes()
        if not (text := "\n".join(self._reports(compiler))):
            return
        if self._args.info_output_file is None:
            _print_error(f"{text}\n")
            return
        from penstock.tools.driver.files import write_whole

        write_whole(self._args.info_output_file, f"{text}\n")

    def _warn_of_absent_passes(self) -> None:
        """Tell which passes would be shown, but are not in the pipeline."""
        for moment, name in self._printing.absent if self._printing else ():
            text = f"--print-ir-{moment}: the pipeline has no pass '{name}'"
            hint = "(--dump-pipeline prints its passes)"
            _print_error(f"{self._args.program}: warning: {text} {hint}\n")

    def _reports(self, compiler: Compiler) -> Iterable[str]:
        args, times, statistics = self._args, compiler.times, self._statistics
        if args.json:
            import json

            found: dict[str, object] = {}
            if args.timing or getattr(args, "time_passes", False):
                found["timing"] = times.as_json()
            if statistics is not None:
                as_list = args.pass_statistics_display == "list"
                found["pass-statistics"] = statistics.as_json(as_list=as_list)
            return [json.dumps(found)] if found else []
        texts: list[str] = []
        if statistics is not None:
            as_list = args.pass_statistics_display == "list"
            texts.append(statistics.report(as_list=as_list))
        if args.timing:
            texts.append(times.report(as_list=args.timing_display == "list"))
        return texts


@contextmanager
def debugging(args: Namespace, front: tuple[Compiler, PassTable]) -> Generator[None]:
    """
    A context in which a compiler does as the options ask for; in the end it is reported
    what passes took and counted.
    """
    if not shows_passes(args):
        yield
        return
    compiler, available = front

    def text_of(module: ModuleOp) -> str:
        from penstock.tools.driver.round_trip import text_of

        return text_of(module, elide_larger=args.elide_elementsattrs_if_larger)

    before = list(compiler.instrumentations)
    found = Debugging(args, available)
    found.attach(compiler, text_of)
    try:
        yield
    finally:
        compiler.instrumentations[:] = before
        found.report(compiler)


def shows_passes(args: Namespace) -> bool:
    """Whether the options ask for anything that passes have to run for."""
    wishes = (
        *(args.print_ir_before, args.print_ir_after),
        *(args.print_ir_before_all, args.print_ir_after_all),
        *(args.print_ir_after_change, args.print_ir_after_failure),
        *(args.print_ir_diff, args.print_ir_tree_dir),
        *(args.crash_reproducer, args.pass_pipeline_local_reproducer),
        *(args.generate_reproducer, args.timing, args.pass_statistics),
    )
    return any(wishes)


def refuse_looking_at_passes(args: Namespace) -> None:
    """Raise UsageError for options about passes, as none run."""
    if shows_passes(args):
        raise UsageError("options that look at passes are for what is compiled")


def _print_error(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


def _check_names(texts: list[str], available: Iterable[str]) -> None:
    from penstock.tools.driver.ir_printing import unknown_in
    from penstock.tools.driver.pass_pipeline import unknown_pass

    known = list(available)
    if unknown := unknown_in(texts, known):
        raise unknown_pass(unknown[0], known)


def _dump_options(args: Namespace) -> DumpOptions:
    from penstock.tools.driver.ir_printing import ALL, DumpOptions, names_in

    before = ALL if args.print_ir_before_all else names_in(args.print_ir_before)
    after = ALL if args.print_ir_after_all else names_in(args.print_ir_after)
    rules = args.print_ir_after_change, args.print_ir_after_failure, args.print_ir_diff
    alone = not before and not after and args.print_ir_tree_dir is not None
    if alone or (any(rules) and not after):
        after = ALL
    changes, failures, as_diff = rules
    return DumpOptions(before, after, changes or as_diff, failures, as_diff)
