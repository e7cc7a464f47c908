"""The `penstock-opt` driver: read IR, run passes over it, print it."""

import argparse
import gc
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import ArgSpec, parse_spec
from xdsl.utils.diagnostic import Diagnostic
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    ShrinkException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from penstock.dialects.utils.diagnostics import Place
from penstock.dialects.utils.exact_printer import ExactPrinter
from penstock.runtime.errors import PenstockError
from penstock.tools.cli.command_parser import CommandParser
from penstock.tools.cli.common_options import add_common_options
from penstock.tools.cli.debugging_options import Debugging, add_debugging_options
from penstock.tools.cli.exit_codes import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    fail,
    fail_inside,
    unexpected,
    usage_code,
)
from penstock.tools.cli.pipeline_options import (
    add_load_option,
    add_pipeline_options,
    edits_in,
)
from penstock.tools.cli.results import reserved_output, say, write
from penstock.tools.driver import expected_diagnostics as expected
from penstock.tools.driver import plugins
from penstock.tools.driver.compiler import Compiler, rare_collections
from penstock.tools.driver.diagnostics import (
    Diagnosis,
    InternalError,
    Rejected,
    UsageError,
    reject,
)
from penstock.tools.driver.files import explain_os_error, refuse_others, write_whole
from penstock.tools.driver.instrumentation import PassInstrumentation, Step
from penstock.tools.driver.pass_pipeline import (
    import_item,
    instantiate,
    make_passes,
    malformed_target,
    parse_passes,
    unknown_target,
)
from penstock.tools.driver.pass_timing import PassTimes
from penstock.tools.driver.pipeline_edits import Edit
from penstock.tools.driver.reproducer import (
    KEY,
    Resources,
    not_loaded,
    reproducer_in,
)
from penstock.tools.driver.unused_passes import UnusedPasses

if TYPE_CHECKING:
    from penstock.lowering.pipelines import Passes
    from penstock.tools.reports.memory_map.map import LastPlans

EXIT_REJECTED = EXIT_FAILED

_PROGRAM = "penstock-opt"
_TARGETS_OF_JSON = ("cuda-resources", "memory-report", "op-stats")
"""Targets with a format `json`."""
_SPLIT_LINE = re.compile(rb"^// -----[ \t\r]*$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """
    A piece of the input file that is processed by itself, `line_offset` lines down.
    """

    data: bytes
    line_offset: int

    @property
    def text(self) -> str:
        """The section as text, for its comments."""
        return self.data.decode("utf-8", "replace")


class PenstockOptMain(xDSLOptMain):
    """
    The driver of xDSL with source locations, a dominance check, expected errors,
    standard pipelines, and plug-ins from single files.

    The constructor reads the command line and raises `UsageError` for a bad one; `run`
    processes the input and raises `SystemExit` unless all went well.
    """

    def __init__(
        self,
        description: str = "Run passes of Penstock, xDSL and plug-ins over IR.",
        args: Sequence[str] | None = None,
    ) -> None:
        self.universes = plugins.universes_of(_files_to_load(args))
        self.times = PassTimes()
        self._read_arguments(description, args)
        self.compiler = Compiler(
            self.ctx,
            self.times,
            verify_each=self.args.verify_each,
            disable_verify=self.args.disable_verify,
            instrumentations=[_PassesOfDriver(self)],
            on_warning=self._warn,
            shrinking=self.args.shrink,
        )
        self._debugging = Debugging(self.args, self.available_passes)
        self._debugging.attach(self.compiler, self._text_of)
        self._resources: Resources = {}
        """The external resources of the section that is processed."""
        self._warnings: list[Diagnosis] = []
        """The warnings about the section that is processed."""
        self._unused: UnusedPasses | None = None
        """The passes of `-p` for the section that is processed."""
        self._memory_map = _memory_map(self.args.memory_map, self.args.planners)
        self._check_target()

    def _read_arguments(self, description: str, args: Sequence[str] | None) -> None:
        """Make all that the constructor of xDSL makes, with our parser."""
        self.available_frontends = {}
        self.available_passes = {}
        self.available_targets = {}
        self.ctx = Context()
        self.register_all_dialects()
        self.register_all_frontends()
        self.register_all_passes()
        self.register_all_targets()
        self.parser = parser = CommandParser(
            # Some flags of xDSL do otherwise here.
            _PROGRAM,
            description=description,
            conflict_handler="resolve",
        )
        self.register_all_arguments(parser)
        self.args = parser.parse_args(args)
        self.args.print_op_generic |= self.args.mlir_print_op_generic
        self.args.print_debuginfo |= self.args.mlir_print_debuginfo
        self.ctx.allow_unregistered = self.args.allow_unregistered_dialect
        if self.args.disable_verify:
            Attribute.__post_init__ = _verify_nothing
        if self.args.syntax_highlight:
            Diagnostic.colored = True
        with self.times.measure("load passes"):
            self.setup_pipeline()

    def register_all_dialects(self) -> None:
        """Register the dialects of every universe."""
        dialects = plugins.merge(self.universes, lambda u: u.all_dialects, "dialect")
        for name, factory in dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        """Register the passes of every universe."""
        passes = plugins.merge(self.universes, lambda u: u.all_passes, "pass")
        self.available_passes.update(passes)

    def register_all_targets(self) -> None:
        """Register the output formats of every universe, and our form of `mlir`."""
        from penstock.tools.driver.mlir_target import ExactMLIRTarget

        self._targets = plugins.merge(self.universes, lambda u: u.all_targets, "target")
        self._targets["mlir"] = lambda: ExactMLIRTarget
        self.available_targets.update(self._targets)

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """Add the flags of `xdsl-opt` and our own."""
        from penstock.tools.cli.listing import summary_of

        super().register_all_arguments(arg_parser)
        arg_parser.usage = f"{_PROGRAM} [options] [input_file]"
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
        arg_parser.epilog = "\n\n".join(summary_of(self.universes))
        _add_own_arguments(arg_parser)
        add_debugging_options(arg_parser, self.available_passes)
        add_common_options(arg_parser, ("-v", "--version"))
        for name in ("print-op-generic", "print-debuginfo"):
            text = f"the same as --{name}"
            arg_parser.add_argument(f"--mlir-{name}", action="store_true", help=text)
        if isinstance(arg_parser, CommandParser):
            verify = arg_parser.flags()["--disable-verify"]
            verify.help = "verify neither the input nor what passes leave"
            arg_parser.complete("--passes", self.available_passes)
            arg_parser.complete("--pipeline", plugins.known_pipelines())
            arg_parser.complete("--skip", self.available_passes)
            arg_parser.complete("--target", self.available_targets)

    def setup_pipeline(self) -> None:
        """Make the passes of `--pipeline` and then those of `--passes`."""
        first = make_passes(self.available_passes, self._asked_pipeline())
        named = parse_passes(self.available_passes, self.args.passes or "")
        self.pipeline = PassPipeline((*first, *named))
        self._first_named = len(first)

    def _asked_pipeline(self) -> "Passes":
        """The passes of `--pipeline`, edited, up to a level."""
        args, edits = self.args, edits_in(self.args)
        if args.compile_to == "source" and args.target == "mlir":
            args.target = "numba"
        if args.pipeline is None:
            _refuse_without_pipeline(edits, args.compile_to)
            return ()
        from penstock.tools.driver.edited_pipeline import passes_of

        known = plugins.known_pipelines(), self.available_passes
        return passes_of(args.pipeline, edits, args.compile_to, *known)

    def _check_target(self) -> None:
        if self.args.print_op_stats:
            self.args.target = "op-stats"
        try:
            spec = parse_spec(self.args.target)
        except ArgSpecParseError as error:
            raise malformed_target(self.args.target, error) from error
        if spec.name not in self._targets:
            raise unknown_target(spec.name, self._targets)
        if self.args.json and spec.name in _TARGETS_OF_JSON:
            spec = ArgSpec(spec.name, {**spec.parameters, "format": ("json",)})
            self.args.target = str(spec)
        factory = self._targets[spec.name]
        instantiate("target", import_item("target", spec.name, factory), spec)

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """Open the input file; none or `-` is the standard input."""
        if self.args.input_file in (None, "-"):
            return sys.stdin.buffer, "mlir"
        return super().get_input_stream()

    def get_input_name(self) -> str:
        """The file name for messages."""
        return (
            "<stdin>" if self.args.input_file in (None, "-") else self.args.input_file
        )

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        """Parse a part of the file that starts `start_offset` lines down."""
        data, name = chunk.read(), self.get_input_name()
        if file_extension == "mlir":
            implicit = not self.args.no_implicit_module
            module, self._resources = self.compiler.parse_all(
                data, name, start_offset, implicit=implicit
            )
            return module
        with self.compiler.diagnosing(data, name, start_offset):
            return super().parse_chunk(BytesIO(data), file_extension, start_offset)

    def run(self) -> None:
        """Process the input; raises `SystemExit` with the exit code of a failure."""
        if self.args.list is not None:
            from penstock.tools.cli.plugin_list import list_text

            say(list_text(self.universes, self.args.list, as_json=self.args.json))
            return
        if self.args.list_passes or self.args.show_dialects:
            self._list()
            return
        if self.args.dump_pipeline:
            from penstock.tools.driver.edited_pipeline import dump

            say(dump(self.pipeline.passes))
            return
        try:
            pieces, wrong = self._process_input()
        except ShrinkException:
            say("Success, can shrink")
            return
        finally:
            if self.args.time_passes and not self.args.json:
                print(self.times.table(), file=sys.stderr)
            self._debugging.report(self.compiler)
        for diagnosis in wrong:
            print(diagnosis.render(self.get_input_name()), file=sys.stderr)
        if self.args.shrink:
            say("Failure, can't shrink")
        if wrong or self.args.shrink:
            raise SystemExit(EXIT_REJECTED)
        if self._memory_map is not None:
            self._memory_map.write()
        self._write("// -----\n".join(pieces))

    def _list(self) -> None:
        from penstock.tools.cli.listing import dialects_of, json_of, passes_of

        if self.args.json:
            passes, dialects = self.args.list_passes, self.args.show_dialects
            say(json_of(self.universes, passes=passes, dialects=dialects))
            return
        if self.args.list_passes:
            say(passes_of(self.universes))
        if self.args.show_dialects:
            say(dialects_of(self.universes))

    def _process_input(self) -> tuple[list[str], list[Diagnosis]]:
        """The output of each section, and the diagnostics about the file."""
        try:
            sections, extension = self._read_sections()
        except Rejected as rejected:
            return [], list(rejected.diagnoses)
        expecting = self.args.verify_diagnostics and any(
            expected.mentions_expectations(section.text) for section in sections
        )
        pieces: list[str] = []
        wrong: list[Diagnosis] = []
        for section in sections:
            output, errors = self._process_section(section, extension, expecting)
            if output is not None:
                pieces.append(output)
            wrong += errors
        return pieces, wrong

    def _process_section(
        self, section: Section, extension: str, expecting: bool
    ) -> tuple[str | None, Sequence[Diagnosis]]:
        output, errors, while_parsing = None, (), False
        self._warnings.clear()
        try:
            output = self._compile(section, extension)
        except Rejected as rejected:
            errors, while_parsing = rejected.diagnoses, rejected.while_parsing
            if self.args.debug and (cause := rejected.__cause__) is not None:
                traceback.print_exception(cause)
        name = self.get_input_name()
        if expecting:
            found = [*self._warnings, *errors]
            offset = section.line_offset
            return output, expected.compare(section.text, name, offset, found)
        for warning in self._warnings:
            print(warning.render(name), file=sys.stderr)
        if errors and self._is_only_shown(while_parsing):
            return "".join(f"{error.render(name)}\n" for error in errors), ()
        return output, errors

    def _is_only_shown(self, while_parsing: bool) -> bool:
        if while_parsing:
            return self.args.parsing_diagnostics
        return self.args.verify_diagnostics

    def _read_sections(self) -> tuple[list[Section], str]:
        try:
            stream, extension = self.get_input_stream()
            with stream:
                data = stream.read()
        except OSError as error:
            text = f"cannot read {self.get_input_name()}: {explain_os_error(error)}"
            raise UsageError(text) from error
        if self.args.frontend is None:
            refuse_others(Path(self.get_input_name()), ".mlir")
        extension = self.args.frontend or extension
        if extension not in self.available_frontends:
            from penstock.tools.driver.importers import import_by_plugin

            imported = import_by_plugin(Path(self.get_input_name()))
            if imported is not None:
                return list(self._split(imported.text.encode())), "mlir"
            known = ", ".join(self.available_frontends)
            raise UsageError(
                f"{self.get_input_name()} has the unknown extension '{extension}', "
                f"known are: {known}; -f names the format"
            )
        return list(self._split(data)), extension

    def _split(self, data: bytes) -> Iterator[Section]:
        if not self.args.split_input_file:
            yield Section(data, 0)
            return
        line_offset = 0
        for piece in _SPLIT_LINE.split(data):
            yield Section(piece, line_offset)
            line_offset += piece.count(b"\n")

    def _compile(self, section: Section, extension: str) -> str:
        compiler = self.compiler
        with self.times.measure("parse"):
            module = self._parse(section, extension)
        if module is None:
            return ""
        compiler.verify(module)
        if self.args.verify_roundtrip:
            from penstock.tools.driver.round_trip import check_round_trip

            check_round_trip(module, compiler.parse)
        if self._memory_map is not None:
            self._memory_map.see(module)
        # A comment between two rulers is no input of its own.
        is_empty = self.args.split_input_file and module.body.block.is_empty
        passes = self._passes_for(section)
        is_reproduced = passes is not self.pipeline.passes
        self._unused = None if is_empty or is_reproduced else UnusedPasses()
        compiler.apply(module, passes)
        if self._unused is not None:
            self._tell_of_unused(self._unused.at_end(module))
        if self._memory_map is not None:
            self._memory_map.finish_module()
        with (
            self.times.measure("print"),
            compiler.blaming("target", self.args.target),
        ):
            return self.output_resulting_program(module)

    def _passes_for(self, section: Section) -> Sequence[ModulePass]:
        """
        The passes of the command line, or without any those of a reproducer.
        """
        given = self.pipeline.passes
        if given and not self.args.run_reproducer:
            return given
        found = reproducer_in(self._resources)
        if found is None:
            if self.args.run_reproducer:
                place = Place(self.get_input_name(), section.line_offset + 1, 1)
                reject(f"--run-reproducer: the file has no {KEY}", place)
            return given
        if given:
            raise UsageError("--run-reproducer runs no other passes: leave out -p")
        if (text := not_loaded(found, self.args.load)) is not None:
            self._warn(Diagnosis(None, text, severity="warning"))
        self.compiler.verify_each = found.verify_each
        return parse_passes(self.available_passes, found.pipeline)

    def _parse(self, section: Section, extension: str) -> ModuleOp | None:
        return self.parse_chunk(BytesIO(section.data), extension, section.line_offset)

    def _warn(self, warning: Diagnosis) -> None:
        self._warnings.append(warning)

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        """Reject a pass of `-p` that finds nothing to check."""
        if self._unused is not None and step.position >= self._first_named:
            self._tell_of_unused(self._unused.before(step.name, module))

    def _tell_of_unused(self, found: Iterable[Diagnosis]) -> None:
        """
        Reject passes that find nothing, or warn of them if `--allow-unused-passes` is
        given.
        """
        errors = list(found)
        if self.args.allow_unused_passes:
            self._warnings += [replace(each, severity="warning") for each in errors]
        elif errors:
            hint = " (--allow-unused-passes allows it)"
            raise Rejected([replace(x, message=x.message + hint) for x in errors])

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        """Print or draw the module that a pass has left, if that is asked for."""
        if self.args.print_between_passes and not step.is_last:
            say(f"IR after {step.name}:")
            say(f"{self._text_of(module)}\n\n")
        if self._memory_map is not None:
            self.compiler.verify(module, f"{step.name} left bad IR: ")
            self._memory_map.see(module)

    def _text_of(self, module: ModuleOp) -> str:
        stream = StringIO()
        printer = ExactPrinter(
            stream,
            print_generic_format=self.args.print_op_generic,
            print_debuginfo=self.args.print_debuginfo,
            elide_larger=self.args.elide_elementsattrs_if_larger,
        )
        printer.print_op(module)
        return stream.getvalue() + "\n"

    def output_resulting_program(self, prog: ModuleOp) -> str:
        """The text of a module in the format of the target."""
        spec, limit = (
            parse_spec(self.args.target),
            self.args.elide_elementsattrs_if_larger,
        )
        if spec.name == "mlir" and limit is not None:
            # The flags of xDSL are added to what the target says itself.
            self.args.target = str(
                ArgSpec("mlir", {**spec.parameters, "elide-larger": (limit,)})
            )
        return super().output_resulting_program(prog)

    def _write(self, text: str) -> None:
        if self.args.output_file in (None, "-"):
            write(text)
        else:
            write_whole(self.args.output_file, text)


def _files_to_load(args: Sequence[str] | None) -> list[str]:
    """
    The files of the `--load` options, which decide the names that other options may
    use.
    """
    parser = argparse.ArgumentParser(
        _PROGRAM, f"{_PROGRAM} [options] [input_file]", add_help=False
    )
    add_load_option(parser)
    return parser.parse_known_args(args)[0].load


def _add_own_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline_options(parser, default="run before the passes of -p")
    parser.add_argument(
        "--list",
        metavar="KIND",
        nargs="?",
        const="",
        help="name all plug-ins, or all of a kind, and exit",
    )
    parser.add_argument(
        "--memory-map",
        metavar="OUT.html",
        help="draw the memory of the last plans whose registers have places",
    )
    parser.add_argument(
        "--planners",
        metavar="NAMES",
        help="packing algorithms that the memory map compares: names with commas "
        "between, all, or none (default: those that load no compiled code)",
    )
    parser.add_argument(
        "--verify-each",
        type=_read_bool,
        default=True,
        metavar="{true,false}",
        help="verify after each pass, not only after the last one (default: true)",
    )
    for flag, text in (
        ("--allow-unused-passes", "only warn of passes of -p that find nothing to do"),
        ("--print-op-stats", "print how many ops of each kind there are, not the IR"),
        ("--verify-roundtrip", "check that the IR is read back from its text the same"),
        ("--run-reproducer", "run the pipeline in the file, and fail without one"),
        ("--list-passes", "describe all passes and their options, and exit"),
        ("--show-dialects", "name all dialects, and exit"),
        ("--debug", "show Python tracebacks of internal errors"),
    ):
        parser.add_argument(flag, action="store_true", help=text)


class _PassesOfDriver(PassInstrumentation):
    """The instrumentation that the driver itself is."""

    def __init__(self, driver: PenstockOptMain) -> None:
        self._driver = driver

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        self._driver.before_pass(step, module)

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        self._driver.after_pass(step, module)


def _verify_nothing(self: Attribute) -> None:
    """The stand-in for the verifiers of attributes."""


def _read_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, got '{text}'")
    return text == "true"


def _memory_map(path: str | None, planners: str | None) -> "LastPlans | None":
    if path is None:
        if planners is not None:
            raise UsageError("--planners is for a --memory-map, which is not given")
        return None
    from penstock.tools.reports.memory.planners import DEFAULT, planners_of
    from penstock.tools.reports.memory_map.map import LastPlans

    return LastPlans(path, DEFAULT if planners is None else planners_of(planners))


def _refuse_without_pipeline(edits: Sequence[Edit], level: str | None) -> None:
    """Raise UsageError for what is about a pipeline, as there is none."""
    for edit in edits:
        raise UsageError(
            f"--{edit} is for the passes of --pipeline, which is not given"
        )
    if level is not None:
        raise UsageError("--compile-to is for a --pipeline, which is not given")


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the driver on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input, 2 for a bad command line, 70 for a defect.
    """
    debug = "--debug" in (sys.argv[1:] if argv is None else argv)
    try:
        with reserved_output():
            tool = PenstockOptMain(args=argv)
            gc.freeze()
            with rare_collections():
                tool.run()
    except UsageError as error:
        if debug:
            traceback.print_exception(error)
        return fail(_PROGRAM, str(error), usage_code(error))
    except BrokenPipeError:
        # The reader is gone; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_REJECTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except InternalError as error:
        return fail_inside(_PROGRAM, error, debug=debug)
    except PenstockError as error:
        return fail(_PROGRAM, str(error), EXIT_FAILED)
    except Exception as error:
        return fail_inside(_PROGRAM, unexpected(_PROGRAM, error), debug=debug)
    return 0


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.opt()
