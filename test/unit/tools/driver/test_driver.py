"""`penstock-opt` run in this process: its messages, exit codes and files."""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import FunctionType
from typing import Protocol

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.canonicalize import CanonicalizePass

from penstock import plugins as points
from penstock.dialects.utils.diagnostics import warn
from penstock.tools.cli.opt import run_tool
from penstock.tools.driver import plugins

GOOD = "func.func @f() {\n  func.return\n}\n"
BAD = 'func.func @f() {\n  "arith.addi"() : () -> ()\n  func.return\n}\n'
PRINTED = "builtin.module {\n  func.func @f() {\n    func.return\n  }\n}\n\n"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run of the driver."""

    code: int
    out: str
    err: str


def _exit_code_of(arguments: Sequence[str]) -> int:
    try:
        return run_tool(arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1


class Driver:
    """Runs `penstock-opt` in a temporary folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def file(self, name: str, text: str | bytes) -> str:
        """Write a file of the folder and return its path."""
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def __call__(self, *arguments: str) -> Outcome:
        self._capture.readouterr()
        code = _exit_code_of(arguments)
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)

    def refuses(self, message: str, code: int, *arguments: str) -> None:
        """Check that the driver prints exactly `message` and nothing to stdout."""
        assert self(*arguments) == Outcome(code, "", message + "\n")


@pytest.fixture
def driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Driver:
    """Give the driver, in an empty folder."""
    return Driver(tmp_path, capsys)


def test_prints_the_module(driver: Driver):
    assert driver(driver.file("a.mlir", GOOD)) == Outcome(0, PRINTED, "")


def test_a_text_without_operations_is_an_empty_module(driver: Driver):
    assert (
        driver(driver.file("a.mlir", "// nothing\n")).out == "builtin.module {\n}\n\n"
    )


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_reads_the_standard_input(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    stdin = io.TextIOWrapper(io.BytesIO(BAD.encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    message = "<stdin>:2:3: error: arith.addi: Expected 2 operands, but got 0"
    driver.refuses(message, 1, *arguments)


def test_input_file_is_missing(driver: Driver):
    path = str(driver.folder / "none.mlir")
    message = f"cannot read {path}: no such file or directory"
    driver.refuses(f"penstock-opt: error: {message}", 2, path)


def test_input_file_is_a_directory(driver: Driver):
    path = str(driver.folder)
    driver.refuses(f"penstock-opt: error: cannot read {path}: is a directory", 2, path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# kernel a\n",
            "'#': this is the source of kernels, the last level, and no IR",
        ),
        ("# a note\n", "'#': comments of IR begin with //"),
        ("!\n", "'!'"),
    ],
)
def test_marks_without_a_name(driver: Driver, text: str, message: str):
    path = driver.file("a.mlir", text)
    line = text.rstrip()
    message = f"{path}:1:1: error: expected a name after {message}\n{line}\n^"
    driver.refuses(message, 1, path)


def test_the_source_of_kernels_goes_to_no_command(driver: Driver):
    path = str(Path(__file__).parents[4] / "examples" / "program.mlir")
    source = driver.file("a.mlir", driver(path, "-t", "numba").out)
    outcome = driver(source, "--pipeline", "cpu")
    assert (outcome.code, outcome.out) == (1, "")
    first = outcome.err.partition("\n")[0]
    wanted = "error: expected a name after '#': this is the source of kernels"
    assert wanted in first


def test_file_extension_is_unknown(driver: Driver):
    path = driver.file("a.txt", GOOD)
    driver.refuses(
        f"penstock-opt: error: {path} has the unknown extension 'txt', known are: "
        "mlir; -f names the format",
        2,
        path,
    )
    assert driver(path, "-f", "mlir").out == PRINTED


def test_input_is_not_text(driver: Driver):
    path = driver.file("a.mlir", b"func.func\n\n  \xff\x00")
    driver.refuses(f"{path}:3:1: error: not UTF-8 text: byte 0xff", 1, path)


def test_control_characters_are_escaped(driver: Driver):
    path = driver.file("a.mlir", "\x00\x1b[31m")
    outcome = driver(path)
    assert outcome.err.startswith(f"{path}:1:1: error: Unexpected character: \\x00\n")
    assert "\x1b" not in outcome.err


def test_endless_lines_are_not_quoted(driver: Driver):
    path = driver.file("a.mlir", "?" * 100_000)
    driver.refuses(f"{path}:1:1: error: Could not parse entire input!", 1, path)


def test_string_that_is_never_closed_ends_at_once(driver: Driver):
    path = driver.file("a.mlir", '  "' + "never closed " * 10 + "\n")
    outcome = driver(path)
    message = f"{path}:1:3: error: End of file reached before closing string literal."
    assert outcome.code == 1
    assert outcome.err.startswith(message)


def test_parse_error_quotes_its_line(driver: Driver):
    path = driver.file("a.mlir", "func.func @f() {\n\tfunc.return %x\n}\n")
    driver.refuses(f"{path}:3:1: error: Expected ':'\n}}\n^", 1, path)


def test_parse_error_shows_related_places(driver: Driver):
    block = "^a:\n  func.return\n"
    path = driver.file("a.mlir", f"func.func @f() {{\n{block}{block}}}\n")
    driver.refuses(
        f"{path}:4:1: error: re-declaration of block 'a'\n^a:\n^^\n"
        f"{path}:2:1: note: originally declared here:",
        1,
        path,
    )


def test_blocks_without_a_definition_are_reported_where_they_are_used(driver: Driver):
    path = driver.file("a.mlir", "func.func @f() {\n  cf.br ^a\n^b:\n  cf.br ^c\n}\n")
    driver.refuses(
        f"{path}:2:9: error: block ^a is used, but not defined\n  cf.br ^a\n"
        f"        ^^\n{path}:4:9: error: block ^c is used, but not defined\n"
        "  cf.br ^c\n        ^^",
        1,
        path,
    )


def test_values_without_a_definition_are_reported_where_they_are_used(driver: Driver):
    path = driver.file(
        "a.mlir",
        "func.func @f(%scale: f32) {\n  %b = arith.addf %scale, %skale : f32\n"
        '  "test.op"(%zz, %skale) : (i1, f32) -> ()\n  func.return\n}\n',
    )
    driver.refuses(
        f"{path}:2:27: error: value %skale is used, but not defined, did you mean "
        "'scale'?\n  %b = arith.addf %scale, %skale : f32\n"
        f"                          ^^^^^^\n"
        f"{path}:3:13: error: value %zz is used, but not defined\n"
        '  "test.op"(%zz, %skale) : (i1, f32) -> ()\n            ^^^',
        1,
        path,
    )


def test_constraint_that_fails_in_a_custom_format_has_a_place(driver: Driver):
    path = driver.file(
        "a.mlir", "func.func @f(%a: f32) {\n  %b = arith.addi %a, %a : f32\n}\n"
    )
    outcome = driver(path)
    assert outcome.code == 1
    assert outcome.err.startswith(f"{path}:2:3: error: ")
    assert "Traceback" not in outcome.err


def test_exception_of_an_operations_parser_has_a_place(driver: Driver):
    plugin = driver.file("plugin.py", CRASHING_DIALECT)
    path = driver.file("a.mlir", '"test.op"() : () -> ()\n  crash.parse\n')
    at = 1 + CRASHING_DIALECT.splitlines().index('        return {}["lost"]')
    driver.refuses(
        f"{path}:2:3: error: cannot parse this operation: KeyError: 'lost' "
        f"({plugin}:{at})\n  crash.parse\n  ^^^^^^^^^^^",
        1,
        "--load",
        plugin,
        path,
    )
    assert "Traceback" in driver("--load", plugin, path, "--debug").err


def test_value_that_a_custom_format_refuses_has_a_place(driver: Driver):
    path = driver.file("a.mlir", "func.func @f() {\n  cf.br ^2\n^2:\n}\n")
    outcome = driver(path)
    assert outcome.code == 1
    message = f"{path}:2:3: error: cannot parse this operation: ('Invalid Block name"
    assert outcome.err.startswith(message)


def test_bad_alias_has_a_place(driver: Driver):
    path = driver.file("a.mlir", "!t = vector<-1xf32>\n")
    outcome = driver(path)
    assert outcome.code == 1
    assert outcome.err.startswith(f"{path}:1:")


def test_too_deep_nesting(driver: Driver):
    depth = 2000
    path = driver.file("a.mlir", '"test.op"() ({\n' * depth + "}) : () -> ()\n" * depth)
    message = f"{path}:1:1: error: regions nest too deeply to be parsed"
    driver.refuses(message, 1, path)


def test_lines_of_a_split_file_are_those_of_the_file(driver: Driver):
    path = driver.file("a.mlir", f"{GOOD}// -----\n{BAD}// -----  \n\n  nothing\n")
    outcome = driver(path, "--split-input-file")
    first, second, *_ = outcome.err.splitlines()
    assert first.startswith(f"{path}:6:3: error: arith.addi: ")
    assert second.startswith(f"{path}:11:3: error: ")
    assert (outcome.code, outcome.out) == (1, "")


def test_ruler_comments_do_not_split(driver: Driver):
    path = driver.file("a.mlir", f"// --------\n{GOOD}// -----\n{GOOD}")
    outcome = driver(path, "--split-input-file")
    assert outcome.out == f"{PRINTED}// -----\n{PRINTED}"


def test_disable_verify_accepts_bad_operations(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
):
    from xdsl.ir import Attribute

    monkeypatch.setattr(Attribute, "__post_init__", Attribute.__post_init__)
    path = driver.file("a.mlir", BAD)
    assert driver(path, "--disable-verify", "--print-op-generic").code == 0


def test_output_file_is_written_whole_or_not_at_all(driver: Driver):
    output = driver.folder / "out.mlir"
    good, bad = driver.file("a.mlir", GOOD), driver.file("b.mlir", BAD)
    assert driver(bad, "-o", str(output)).code == 1
    assert not output.exists()
    assert driver(good, "-o", str(output)) == Outcome(0, "", "")
    assert output.read_text() == PRINTED
    assert driver(bad, "-o", str(output)).code == 1
    assert output.read_text() == PRINTED
    assert {path.name for path in driver.folder.iterdir()} == {
        "a.mlir",
        "b.mlir",
        "out.mlir",
    }


def test_output_may_be_the_input_a_link_or_a_device(driver: Driver):
    path = driver.file("a.mlir", GOOD)
    link = driver.folder / "link.mlir"
    link.symlink_to(path)
    assert driver(path, "-o", str(link)).code == 0
    assert link.is_symlink()
    assert Path(path).read_text(encoding="utf-8") == PRINTED
    assert driver(path, "-o", "/dev/null") == Outcome(0, "", "")
    assert driver(path, "-o", "-").out == PRINTED


def test_output_cannot_be_written(driver: Driver):
    path, output = driver.file("a.mlir", GOOD), str(driver.folder / "no/out.mlir")
    message = f"penstock-opt: error: cannot write {output}: no such file or directory"
    driver.refuses(message, 2, path, "-o", output)


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "canonicalise",
            "unknown pass 'canonicalise', did you mean 'canonicalize'? "
            "(penstock-opt --list pass names them)",
        ),
        ("zzz", "unknown pass 'zzz' (penstock-opt --list pass names them)"),
        (
            "lift-arith-to-linalg{depth=1}",
            "pass 'lift-arith-to-linalg' has no option 'depth' (it has no options)",
        ),
        (
            "convert-linalg-to-loops{x}",
            "pass 'convert-linalg-to-loops' has no option 'x' (it has no options)",
        ),
        (
            "apply-pdl{pdl-fil=x}",
            "pass 'apply-pdl' has no option 'pdl-fil', did you mean 'pdl-file'? "
            "(its options: pdl-file)",
        ),
        (
            "plan-assign-streams{streams=x}",
            "pass 'plan-assign-streams': incompatible types: given ('x',), expected "
            "<class 'int'> (its options: streams, policy, machine)",
        ),
        (
            "distribute-stencil",
            "pass 'distribute-stencil': distribute-stencil requires argument \"slices\""
            " (its options: slices, strategy, restrict-domain)",
        ),
        (
            "canonicalize{a=",
            "malformed pass pipeline 'canonicalize{a='\ncanonicalize{a=\n"
            "               ^\n               Unknown argument value, wrap argument "
            "in quotes to pass arbitrary string values",
        ),
        (
            "canonicalize;cse",
            "malformed pass pipeline 'canonicalize;cse'\ncanonicalize;cse\n"
            "            ^\n            Unknown token",
        ),
    ],
)
def test_bad_pipeline(driver: Driver, pipeline: str, message: str):
    path = driver.file("a.mlir", GOOD)
    driver.refuses(f"penstock-opt: error: {message}", 2, path, "-p", pipeline)


@pytest.mark.parametrize("text", ["a{", "a{b", "a{b=1", "{", "a b", "=", "a{1}", ",,"])
def test_malformed_pipelines_never_show_a_traceback(driver: Driver, text: str):
    outcome = driver(driver.file("a.mlir", GOOD), "-p", text)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("penstock-opt: error: malformed pass pipeline")


def test_a_pipeline_runs_before_the_passes(driver: Driver):
    path = driver.file("a.mlir", GOOD)
    outcome = driver(
        path, "--pipeline", "cse,dce", "-p", "mem2reg", "--print-ir-after-all"
    )
    assert outcome.code == 2  # there is no such pass
    arguments = (path, "--pipeline", "cse,dce", "-p", "canonicalize")
    outcome = driver(*arguments, "--print-ir-after-all")
    headers = [line for line in outcome.err.splitlines() if line.startswith("// -----")]
    assert headers == [
        f"// -----// IR Dump After {name} //----- //"
        for name in ("cse", "dce", "canonicalize")
    ]


def test_unknown_pipelines(driver: Driver):
    start = "penstock-opt: error: unknown"
    end = "(penstock-opt --list pipeline names them)"
    message = f"{start} pipeline 'cudda', did you mean 'cuda'? {end}"
    driver.refuses(message, 2, "--pipeline", "cudda")
    message = f"{start} pipeline 'zzz' {end}"
    driver.refuses(message, 2, "--pipeline", "zzz{threads=2}")
    message = f"{start} pass 'zzz' (penstock-opt --list pass names them)"
    driver.refuses(message, 2, "--pipeline", "cpu, zzz")


def test_bad_target(driver: Driver):
    path = driver.file("a.mlir", GOOD)
    outcome = driver(path, "-t", "mlri")
    assert outcome.code == 2
    assert (
        "unknown target 'mlri', did you mean 'mlir'? (penstock-opt --list "
        in outcome.err
    )
    driver.refuses(
        "penstock-opt: error: target 'mlir' has no option 'width' (its options: "
        "print-generic-format, print-properties-as-attributes, print-debuginfo, "
        "syntax-highlight, elide-larger)",
        2,
        path,
        "-t",
        "mlir{width=1}",
    )
    outcome = driver(path, "-t", "mlir{")
    assert outcome.code == 2
    assert outcome.err.startswith("penstock-opt: error: malformed target 'mlir{'\n")


def test_bad_boolean(driver: Driver):
    outcome = driver("--verify-each=maybe")
    assert outcome.code == 2
    assert "expected true or false, got 'maybe'" in outcome.err


PASSES = """
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.dialects.test import TestOp
from xdsl.dialects import arith
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException, ShrinkException
from xdsl.xdsl_opt_main import xDSLOptMain
from penstock.dialects.utils.diagnostics import warn

class Broken(ModulePass):
    name = "break"
    def apply(self, ctx, op):
        for child in op.walk():
            if isinstance(child, TestOp):
                child.parent.add_op(arith.AddiOp.create())

class Repair(ModulePass):
    name = "repair"
    def apply(self, ctx, op):
        for child in list(op.walk()):
            if isinstance(child, arith.AddiOp):
                child.detach()

class Erase(ModulePass):
    name = "erase-definition"
    def apply(self, ctx, op):
        next(iter(op.body.block.ops)).detach()

class EraseUnsafely(ModulePass):
    name = "erase-unsafely"
    def apply(self, ctx, op):
        op.body.block.erase_op(op.body.block.first_op, safe_erase=False)

class Fail(ModulePass):
    name = "fail"
    def apply(self, ctx, op):
        raise PassFailedException("no luck today")

class FailAt(ModulePass):
    name = "fail-at"
    def apply(self, ctx, op):
        op.body.block.last_op.emit_error("pointed at", PassFailedException("no luck"))

class Warn(ModulePass):
    name = "warn"
    def apply(self, ctx, op):
        warn(op.body.block.last_op, "odd")

class Crash(ModulePass):
    name = "crash"
    def apply(self, ctx, op):
        {}["missing"]

class Read(ModulePass):
    name = "read"
    def apply(self, ctx, op):
        open("/nowhere/file")

class Leave(ModulePass):
    name = "leave"
    def apply(self, ctx, op):
        import sys
        sys.exit(3)

class NoContext(ModulePass):
    name = "no-context"
    def apply(self, op):
        pass

class Shrink(ModulePass):
    name = "shrink"
    def apply(self, ctx, op):
        raise ShrinkException()
"""

CRASHING_DIALECT = """
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition

@irdl_op_definition
class ParseOp(IRDLOperation):
    name = "crash.parse"
    @classmethod
    def parse(cls, parser):
        return {}["lost"]

@irdl_op_definition
class VerifyOp(IRDLOperation):
    name = "crash.verify"
    assembly_format = "attr-dict"
    def verify_(self):
        {}["lost"]

Crash = Dialect("crash", [ParseOp, VerifyOp])
"""

CHAIN = '%a = "test.op"() : () -> i32\n"test.op"(%a) : (i32) -> ()\n'


class PassRunner(Protocol):
    """Runs passes of `PASSES` over `CHAIN`, with further flags."""

    def __call__(self, passes: str, *flags: str) -> Outcome: ...


@pytest.fixture
def run_pass(driver: Driver) -> PassRunner:
    """Give a function that runs passes of `PASSES` over `CHAIN`."""
    plugin, path = driver.file("passes.py", PASSES), driver.file("a.mlir", CHAIN)

    def run(passes: str, *flags: str) -> Outcome:
        outcome = driver(path, "--load", plugin, "-p", passes, *flags)
        return Outcome(outcome.code, outcome.out, outcome.err.replace(path, "a.mlir"))

    return run


def test_failures_of_passes(run_pass: PassRunner):
    for passes, code, message in (
        ("cse,fail", 1, "a.mlir: error: fail: no luck today"),
        ("fail-at", 1, "a.mlir:2:1: error: fail-at: no luck"),
        ("read", 1, "a.mlir: error: read: no such file or directory (/nowhere/file)"),
        (
            "erase-definition",
            1,
            "a.mlir:2:1: error: erase-definition left bad IR: test.op: operand #0 (%a) "
            "is defined outside of the module",
        ),
        (
            "erase-unsafely",
            1,
            "a.mlir:2:1: error: erase-unsafely left bad IR: test.op: operand #0 (%a) "
            "has been erased",
        ),
    ):
        assert run_pass(passes) == Outcome(code, "", message + "\n")


def test_a_pass_of_a_plug_in_that_raises_is_named_with_its_line(driver: Driver):
    plugin, path = driver.file("passes.py", PASSES), driver.file("a.mlir", CHAIN)
    lines = [*map(str, PASSES.splitlines())]

    def check(name: str, line: str, text: str) -> None:
        at = 1 + lines.index(line)
        message = f"{plugin}:{at}:1: error: pass {name} fails: {text}"
        driver.refuses(message, 1, path, "--load", plugin, "-p", name)

    check("crash", '        {}["missing"]', "KeyError: 'missing'")
    check("shrink", "        raise ShrinkException()", "ShrinkException: ")
    check("leave", "        sys.exit(3)", "SystemExit: 3")
    text = "TypeError: NoContext.apply() takes 2 positional arguments but 3 were given"
    check("no-context", "class NoContext(ModulePass):", text)


def test_a_defect_of_ours_is_one(driver: Driver, monkeypatch: pytest.MonkeyPatch):
    def lose(*_: object) -> None:
        raise KeyError("lost")

    # As if it were written there.
    ours = FunctionType(lose.__code__, {**globals(), "__name__": "penstock.lowering.x"})
    monkeypatch.setattr("penstock.lowering.job.clean.JobCleanPass.apply", ours)
    driver.refuses(
        "penstock-opt: error: internal error in pass job-clean: KeyError: 'lost'; "
        "please report it (--debug shows the traceback)",
        70,
        *(driver.file("a.mlir", CHAIN), "-p", "job-clean"),
    )


def test_warnings_of_passes_have_a_place(run_pass: PassRunner):
    outcome = run_pass("warn")
    assert (outcome.code, outcome.out != "") == (0, True)
    assert outcome.err == "a.mlir:2:1: warning: warn: odd\n"


def test_warnings_are_expected_like_errors(driver: Driver):
    plugin = driver.file("passes.py", PASSES)
    arguments = ("--load", plugin, "-p", "warn", "--verify-diagnostics")
    path = driver.file("a.mlir", f"// expected-warning@+1 {{{{odd}}}}\n{GOOD}")
    outcome = driver(path, *arguments)
    assert (outcome.code, outcome.err) == (0, "")
    path = driver.file("b.mlir", f"// expected-remark@+1 {{{{odd}}}}\n{GOOD}")
    driver.refuses(
        f'{path}:1:4: error: expected remark "odd" was not produced\n'
        f"{path}:2:1: error: unexpected warning: warn: odd",
        1,
        path,
        *arguments,
    )


def test_warnings_of_passes_are_those_of_python_without_a_driver():
    module = ModuleOp([])
    with pytest.warns(UserWarning, match="^odd$"):
        warn(module, "odd")


def test_debug_shows_the_traceback(run_pass: PassRunner):
    outcome = run_pass("crash", "--debug")
    assert outcome.code == 1
    assert 'in apply\n    {}["missing"]' in outcome.err


def test_shrink_tells_by_its_exit_code_whether_the_exception_came(run_pass: PassRunner):
    assert run_pass("shrink", "--shrink") == Outcome(0, "Success, can shrink\n", "")
    assert run_pass("cse", "--shrink") == Outcome(1, "Failure, can't shrink\n", "")


def test_verify_each_names_the_pass_that_left_bad_ir(run_pass: PassRunner):
    message = (
        "a.mlir:1:1: error: break left bad IR: arith.addi: Expected 2 operands, but "
        "got 0\n"
    )
    assert run_pass("break,repair").err.startswith(message)
    assert run_pass("break,repair", "--verify-each=false").code == 0
    # At the end, it may have been any of them.
    message = message.replace("break left", "the pipeline left")
    outcome = run_pass("repair,break", "--verify-each=false")
    assert (outcome.code, set(outcome.err.splitlines(True))) == (1, {message})


def test_error_without_a_place_is_expected_at_unknown(driver: Driver):
    plugin = driver.file("passes.py", PASSES)
    path = driver.file("a.mlir", f"// expected-error@unknown {{{{no luck}}}}\n{GOOD}")
    arguments = (path, "--load", plugin, "-p", "fail")
    assert driver(*arguments, "--verify-diagnostics") == Outcome(0, "", "")


def test_prose_about_expected_errors_expects_none(driver: Driver):
    text = f"// RUN: penstock-opt expected-error.mlir\n{BAD}"
    outcome = driver(driver.file("a.mlir", text), "--verify-diagnostics")
    assert (outcome.code, outcome.err) == (0, "")
    assert "arith.addi: Expected 2 operands" in outcome.out


def test_crash_of_a_verifier(driver: Driver):
    plugin = driver.file("plugin.py", CRASHING_DIALECT)
    path = driver.file("a.mlir", "crash.verify\n")
    at = 1 + CRASHING_DIALECT.splitlines().index('        {}["lost"]')
    driver.refuses(
        f"{plugin}:{at}:1: error: the verifier of crash.verify fails: KeyError: 'lost'"
        f"\n{path}:1:1: note: this is verified",
        1,
        path,
        "--load",
        plugin,
    )
    path = driver.file("b.mlir", '"arith.addi"() : () -> ()\ncrash.verify\n')
    message = f"{path}:1:1: error: arith.addi: Expected 2 operands, but got 0"
    driver.refuses(message, 1, path, "--load", plugin)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", ":1: SyntaxError: '(' was never closed"),
        ("\nx = y\n", ":2: NameError: name 'y' is not defined"),
        ("import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
        (
            "x = 1\n",
            ": it has no pass, dialect or UNIVERSE, and registers nothing",
        ),
        (
            "UNIVERSE = {}\n",
            ": UNIVERSE is no xdsl.universe.Universe but of type dict",
        ),
    ],
)
def test_bad_plugin_file(
    driver: Driver, text: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    plugin = driver.file("plugin.py", text)
    prefix = f"penstock-opt: error: cannot load {plugin}"
    driver.refuses(prefix + message, 1, "--load", plugin)
    # The line is named wherever a path starts from.
    monkeypatch.chdir(driver.folder)
    driver.refuses(
        f"penstock-opt: error: cannot load plugin.py{message}", 1, "--load", "plugin.py"
    )


def test_plugin_file_is_missing_or_no_python(driver: Driver):
    path = str(driver.folder / "none.py")
    message = f"penstock-opt: error: cannot load {path}: no such file"
    driver.refuses(message, 2, "--load", path)
    path = driver.file("plugin.txt", "")
    message = f"penstock-opt: error: cannot load {path}: its name must end in .py"
    driver.refuses(message, 2, "--load", path)


def test_plugin_names_must_be_new(driver: Driver):
    text = PASSES.replace('"crash"', '"canonicalize"')
    plugin = driver.file("plugin.py", text)
    driver.refuses(
        "penstock-opt: error: pass 'canonicalize' is defined by both xdsl and "
        f"{plugin}",
        2,
        "--load",
        plugin,
    )
    text = CRASHING_DIALECT.replace('Dialect("crash"', 'Dialect("arith"')
    plugin = driver.file("plugin.py", text)
    driver.refuses(
        f"penstock-opt: error: dialect 'arith' is defined by both xdsl and {plugin}",
        2,
        "--load",
        plugin,
    )


def test_plugin_file_with_a_universe(driver: Driver):
    plugin = driver.file(
        "plugin.py",
        PASSES
        + "from xdsl.universe import Universe\n"
        + 'UNIVERSE = Universe(all_passes={"fail": lambda: Fail})\n',
    )
    path = driver.file("a.mlir", GOOD)
    driver.refuses(
        f"{path}: error: fail: no luck today", 1, path, "--load", plugin, "-p", "fail"
    )
    message = "penstock-opt: error: unknown pass 'crash' (penstock-opt --list pass"
    assert driver(path, "--load", plugin, "-p", "crash").err.startswith(message)


def test_pass_that_cannot_be_imported(driver: Driver):
    plugin = driver.file(
        "plugin.py",
        "from xdsl.universe import Universe\n"
        "def load():\n    import no_such_module\n"
        'UNIVERSE = Universe(all_passes={"far": load})\n',
    )
    driver.refuses(
        "penstock-opt: error: pass 'far' cannot be loaded: No module named "
        "'no_such_module'",
        1,
        "--load",
        plugin,
        "-p",
        "far",
    )
    listing = driver("--load", plugin, "--list-passes").out
    assert "  far: cannot be loaded: No module named 'no_such_module'" in listing


def test_options_are_listed_with_their_types_as_they_are_written(driver: Driver):
    lines = driver("--list-passes").out.splitlines()
    assert "    streams: int = 1" in lines
    assert "    device: str | None" in [line.removesuffix(" = none") for line in lines]


@pytest.fixture
def fresh_universes():
    """Forget the broken plug-ins afterwards."""
    yield
    points.look_again()
    plugins.installed_universes.cache_clear()


def _install(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entries = EntryPoints([EntryPoint("other", value, "xdsl.universe")])
    monkeypatch.setattr(points, "entry_points", lambda: entries)
    points.look_again()
    plugins.installed_universes.cache_clear()


@pytest.mark.usefixtures("fresh_universes")
def test_installed_plugin_that_is_broken(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
):
    _install(monkeypatch, "no_such_module:UNIVERSE")
    driver.refuses(
        "penstock-opt: error: the installed plug-in 'other' (no_such_module:UNIVERSE) "
        "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
        1,
    )
    _install(monkeypatch, "sys:argv")
    driver.refuses(
        "penstock-opt: error: the installed plug-in 'other' (sys:argv) is no "
        "xdsl.universe.Universe but of type list",
        1,
    )


def test_interrupt(driver: Driver, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CanonicalizePass, "apply", interrupt)
    path = driver.file("a.mlir", GOOD)
    assert driver(path, "-p", "canonicalize") == Outcome(130, "", "")
