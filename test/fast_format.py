"""
A lit format that forks instead of starting Python: the imports are paid for once.

RUN lines that hold only our tools, `python FILE.py`, `filecheck`, a few small
programs, `not`, pipes and redirections run in forked processes. A test with any other
line runs as an ordinary `ShTest`.
"""

# lit has no types.
# pyright: basic, reportArgumentType=false, reportReturnType=false

import gc
import os
import re
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from tempfile import TemporaryDirectory, TemporaryFile
from threading import active_count
from typing import IO

import lit.formats
from lit.LitConfig import LitConfig
from lit.ShCommands import Pipeline
from lit.ShUtil import ShParser
from lit.Test import FAIL, PASS, TIMEOUT, Result, ResultCode, Test
from lit.TestRunner import (
    applySubstitutions,
    getDefaultSubstitutions,
    getTempPaths,
    parseIntegratedTestScript,
)

Tool = Callable[[list[str]], int]
"""Runs on the arguments after the tool's name, returns the exit code."""

PROGRAMS = ("cp", "diff", "echo", "grep", "python", "sed")
"""The programs that are started as such, beside tools that are forked."""

_DEBUG_PREFIX = re.compile(r"%dbg\([^)'\"]*\)")
_OPEN_FLAGS: dict[tuple[str | int, ...], int] = {
    ("<",): os.O_RDONLY,
    (">",): os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    (">", 2): os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    (">>",): os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}
_STDERR_TO_STDOUT = ((">&", 2), "1")


@dataclass(frozen=True)
class Step:
    """One command of a pipeline; `negated` means that it has to fail."""

    arguments: list[str]
    redirects: list[tuple[tuple[str | int, ...], str]]
    negated: bool


def preload_tools() -> dict[str, Tool]:
    """Import the tools, our dialects and passes, and what most tests use of xDSL."""
    from filecheck.main import main as filecheck

    from penstock.tools.cli.opt import run_tool
    from penstock.tools.cli.reduce import run_tool as reduce_tool
    from penstock.tools.cli.run import run_tool as execute
    from penstock.tools.driver.plugins import installed_universes
    from penstock.tools.universe import PENSTOCK_UNIVERSE as ours

    known = installed_universes().values()
    common = ("arith", "builtin", "func", "linalg", "math", "memref", "scf", "test")
    factories = [*ours.all_dialects.values(), *ours.all_passes.values()]
    for universe in known:
        factories += [f for n, f in universe.all_dialects.items() if n in common]
        factories += [
            f for n, f in universe.all_passes.items() if n in ("canonicalize", "cse")
        ]
    for factory in factories:
        # A test that needs what cannot be imported will say so.
        with suppress(Exception):
            factory()

    def run_filecheck(arguments: list[str]) -> int:
        filecheck(["filecheck", *arguments])
        return 0

    tools: dict[str, Tool] = {
        "filecheck": run_filecheck,
        "penstock-opt": run_tool,
        "penstock-reduce": reduce_tool,
        "penstock-run": execute,
    }
    _warm_up(tools)
    gc.collect()
    gc.freeze()
    return tools


WARM_UP = """
// CHECK-LABEL: job.job @warm
// CHECK-NEXT:  [[X:%.+]] = job.input "x"
job.job @warm placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %w = job.variable "w" init <ones> : tensor<16x4xf32>
  %y = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %z = op.softmax %y axis 1 : tensor<8x4xf32> -> tensor<8x4xf32>
  job.output "z", %z : tensor<8x4xf32>
}
"""
"""A model whose compilation imports, and derives, most of what others need, too."""

COMMANDS = (
    "penstock-opt {source} --pipeline cpu -t numba -o {output}",
    "penstock-opt {source} --pipeline cuda -t numba -o {output}",
    "penstock-opt {source} --pipeline main -o {output}",
    "penstock-opt {source} --split-input-file --verify-diagnostics",
    "filecheck {source} --input-file {source}",
)


def _warm_up(tools: Mapping[str, Tool]) -> None:
    """
    Run tools here before processes are forked: a command takes a third of its first
    time when it runs again, as what it imports and derives is kept.
    """
    with TemporaryDirectory() as folder:
        source, output = (os.path.join(folder, name) for name in ("in.mlir", "out"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(WARM_UP)
        for command in COMMANDS:
            tool, *words = command.split()
            told = StringIO()
            with redirect_stdout(told), redirect_stderr(told):
                try:
                    code: object = tools[tool](
                        [word.format(source=source, output=output) for word in words]
                    )
                except SystemExit as ending:
                    code = ending.code
            assert not code, f"{command} ends with {code}:\n{told.getvalue()}"
    assert active_count() == 1, "a process with threads must not be forked"


class ForkingShTest(lit.formats.ShTest):
    """Runs the tests of preloaded tools by forking, and all others as `ShTest` does."""

    def __init__(self, tools: dict[str, Tool]) -> None:
        super().__init__(execute_external=False)
        global _tools
        _tools = tools

    def execute(self, test: Test, litConfig: LitConfig) -> Result:
        """Run one test file."""
        if test.config.unsupported or litConfig.noExecute:
            return super().execute(test, litConfig)
        script = parseIntegratedTestScript(test)
        if isinstance(script, Result):
            return script
        lines = _substitute(test, script)
        pipelines = [_read_pipeline(line) for line in lines]
        known = [steps for steps in pipelines if steps is not None]
        if len(known) < len(lines) or test.allowed_retries:
            return super().execute(test, litConfig)
        for line, steps in zip(lines, known, strict=True):
            failure = _run_pipeline(steps, test)
            if failure is not None:
                code, text = failure
                return Result(code, f"RUN: {line}\n{text}")
        return Result(PASS)


_tools: dict[str, Tool] = {}
"""Kept out of the format, which lit pickles."""


def _substitute(test: Test, script: Sequence[str]) -> list[str]:
    directory, base = getTempPaths(test)
    os.makedirs(directory, exist_ok=True)
    lines = applySubstitutions(
        list(script),
        getDefaultSubstitutions(test, directory, base),
        dict.fromkeys(test.config.available_features, True),
        recursion_limit=test.config.recursiveExpansionLimit,
    )
    return [_DEBUG_PREFIX.sub("", line, count=1).strip() for line in lines]


def _read_pipeline(line: str) -> list[Step] | None:
    """Parse a line, or return None if it needs more of a shell than there is here."""
    try:
        pipeline = ShParser(line, False, True).parse()
    except Exception:
        return None
    if not isinstance(pipeline, Pipeline) or pipeline.negate:
        return None
    steps: list[Step] = []
    for command in pipeline.commands:
        arguments = list(command.args)
        negated = arguments[:1] == ["not"]
        step = Step(arguments[negated:], list(command.redirects), negated)
        if not _is_supported(step):
            return None
        steps.append(step)
    return steps


def _is_supported(step: Step) -> bool:
    if not step.arguments or not all(isinstance(a, str) for a in step.arguments):
        return False
    return (step.arguments[0] in _tools or step.arguments[0] in PROGRAMS) and all(
        redirect == _STDERR_TO_STDOUT or redirect[0] in _OPEN_FLAGS
        for redirect in step.redirects
    )


def _run_pipeline(steps: list[Step], test: Test) -> tuple[ResultCode, str] | None:
    """Return None if every step ends as it should, else a result code and a text."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        processes: list[int] = []
        source = os.open(os.devnull, os.O_RDONLY)
        for step in steps:
            is_last = step is steps[-1]
            reader, writer = (source, output.fileno()) if is_last else os.pipe()
            to_close = () if is_last else (reader,)
            streams = (source, writer, errors.fileno())
            processes.append(_fork(step, streams, to_close, test))
            os.close(source)
            if not is_last:
                os.close(writer)
            source = reader
        codes = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in processes]
        if -signal.SIGALRM in codes:
            return TIMEOUT, f"no end after {test.config.maxIndividualTestTime} s"
        if all(_is_good(s, c) for s, c in zip(steps, codes, strict=True)):
            return None
        text = f"exit codes: {codes}\n{_content(errors)}\n{_content(output)}"
        return FAIL, text


def _is_good(step: Step, code: int) -> bool:
    return code > 0 if step.negated else code == 0


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _fork(
    step: Step, streams: tuple[int, int, int], to_close: tuple[int, ...], test: Test
) -> int:
    """Start a step on the given standard streams, and return its process id."""
    if process := os.fork():
        return process
    code = 1
    try:
        # The default action of the signal ends the process.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(test.config.maxIndividualTestTime or 0)
        for descriptor in to_close:
            os.close(descriptor)
        _enter(step, streams, test)
        code = _run(step)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _enter(step: Step, streams: tuple[int, int, int], test: Test) -> None:
    """Make this process look like a freshly started tool."""
    os.environ.clear()
    os.environ.update(test.config.environment)
    os.chdir(os.path.dirname(test.getExecPath()))
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for operator, name in step.redirects:
        _redirect(operator, name)
    sys.argv = step.arguments
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8")


def _redirect(operator: tuple[str | int, ...], name: str) -> None:
    if (operator, name) == _STDERR_TO_STDOUT:
        os.dup2(1, 2)
        return
    descriptor = os.open(name, _OPEN_FLAGS[operator], 0o666)
    target = 0 if operator == ("<",) else 2 if operator == (">", 2) else 1
    os.dup2(descriptor, target)
    os.close(descriptor)


def _run(step: Step) -> int:
    tool, *arguments = step.arguments
    is_file = tool == "python" and arguments[0].endswith(".py")
    if tool in PROGRAMS and not is_file:
        os.execvp(tool, step.arguments)
    try:
        return _run_file(arguments) if is_file else _tools[tool](arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(bool(ending.code))


def _run_file(words: list[str]) -> int:
    """Be Python with a file."""
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")
    return 0
