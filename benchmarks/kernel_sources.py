"""
Sources of kernels as hashes: the proof that a change of the compiler keeps them.

    python benchmarks/kernel_sources.py --keep OLD          # before the change
    python benchmarks/kernel_sources.py --keep NEW          # after it
    python benchmarks/kernel_sources.py --compare OLD NEW

A line of the list is `<sha256> <case> <kernel>`. A case is a section of a `.mlir` file
of `test` or `examples`, or a model, with the pipeline that took it to a launch program;
a kernel is `<program>.<number>:<name>`. A failure is a line, too: the hash of its
message, and `!failed` for a kernel. With `--keep` the list and all texts lie in a folder.

Each section goes through the standard pipelines (see `VARIANTS`), and through those of
its RUN lines that are about launch programs. Nothing depends on this CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[1]))

from xdsl.utils.arg_spec import ArgSpec

from benchmarks.kernel_lists import LIST, compare
from benchmarks.kernel_resources import compare_resources, pairs_in
from penstock.dialects.job import JobOp
from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import Passes, PipelineOptions, pipeline
from penstock.tools.driver.compiler import (
    Compiler,
    installed_compiler,
    rare_collections,
)
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.edited_pipeline import expanded
from penstock.tools.driver.pass_pipeline import PassTable, make_passes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

ROOT = Path(__file__).parents[1]
QUICK = ("examples", "test/pipeline", "test/target", "test/lowering/launch")
"""The folders of `--quick`."""
SECONDS = 10
"""The CPU time that a pass may take; few need one of them."""
FAILED = "!failed"


class Line(NamedTuple):
    """A kernel of a case, and its source; or the message of what failed."""

    case: str
    kernel: str
    text: str

    @property
    def key(self) -> str:
        """The hash of the source."""
        return hashlib.sha256(self.text.encode()).hexdigest()


################################################################################
# Pipelines                                                                    #
################################################################################


OPTIONAL = ("waves", "winograd")
"""Options that change few programs."""


@dataclass(frozen=True)
class Variant:
    """A standard pipeline with options, for a CPU with vectors of so many bytes."""

    target: str = "cpu"
    vector_bytes: int = 64
    threads: int = 1
    panels: bool = True
    waves: bool = False
    winograd: bool = False

    def __str__(self) -> str:
        words = [self.target, str(self.vector_bytes), f"threads={self.threads}"]
        words += ["no-panels"] * (not self.panels)
        words += [x for x in OPTIONAL if getattr(self, x)]
        return ":".join(words)

    def passes(self, available: PassTable) -> Passes:
        """The passes, none of which asks which CPU this is."""
        options = PipelineOptions(
            self.target,
            threads=self.threads,
            panels=self.panels,
            waves=self.waves,
            winograd=self.winograd,
            simulate_ranks=True,
        )
        return with_vectors(pipeline(options), available, self.vector_bytes)


VARIANTS = (
    *(
        Variant("cpu", width, threads, panels)
        for width in (64, 32, 16)
        for threads in (1, 2)
        for panels in (True, False)
    ),
    Variant("cpu", waves=True),
    Variant("cpu", winograd=True),
    Variant("cuda"),
    Variant("cuda", threads=2),
)
"""Later ones are left out where they end as an earlier one."""
PLAIN = (Variant("cpu"), Variant("cpu", 32), Variant("cuda"))
"""The variants of `--quick`."""


def with_vectors(passes: Passes, available: PassTable, width: int) -> Passes:
    """Passes that are told the bytes of vectors, where they would ask this CPU."""
    return tuple(
        replace(spec, parameters={"vector-bytes": (width,), **spec.parameters})
        if _asks_for_vectors(spec.name, available)
        else spec
        for spec in passes
    )


def _asks_for_vectors(name: str, available: PassTable) -> bool:
    if name not in available:
        return False
    return any(option.name == "vector_bytes" for option in fields(available[name]()))


Steps = tuple[ArgSpec | None, ...]


def aligned(pipelines: Sequence[Passes]) -> list[Steps]:
    """
    The passes of pipelines side by side: the pipelines have the same passes in the same
    order, but for some that not all have, which are None in the others.
    """
    rest = [list(passes) for passes in pipelines]
    columns: list[list[ArgSpec | None]] = [[] for _ in pipelines]
    while any(rest):
        name = _next_name(rest)
        for steps, column in zip(rest, columns, strict=True):
            has = bool(steps) and steps[0].name == name
            column.append(steps.pop(0) if has else None)
    return [tuple(column) for column in columns]


def _next_name(rest: Sequence[Sequence[ArgSpec]]) -> str:
    """The name of a pass at the head of some lists, and further down in none."""
    heads = [steps[0].name for steps in rest if steps]
    for name in heads:
        later = any(
            spec.name == name
            for steps in rest
            if steps and steps[0].name != name
            for spec in steps
        )
        if not later:
            return name
    return heads[0]


################################################################################
# Lowering                                                                     #
################################################################################


@dataclass
class Branch:
    """A module and the cases that have had the same passes so far, or as good."""

    module: ModuleOp
    cases: Mapping[str, Steps]
    """The passes of each case, of which all have as many."""


class TooSlow(BaseException):
    """A section that takes more than its time."""


@contextmanager
def limited() -> Generator[None]:
    """A context that raises `TooSlow` after some seconds of processor time."""

    def stop(*_: object) -> None:
        raise TooSlow

    former = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)


class Lowering:
    """The compiler, which takes modules to the sources of their kernels."""

    def __init__(self) -> None:
        self.compiler, self.available = installed_compiler()

    def lines(
        self,
        read: Callable[[Compiler], ModuleOp],
        name: str,
        cases: Mapping[str, Passes],
    ) -> Iterator[Line]:
        """The kernels of a module, by the passes of each case."""
        try:
            with limited():
                module = read(self.compiler)
                self.compiler.verify(module)
        except TooSlow:
            yield Line(name, FAILED, "takes too long")
            return
        except Exception as error:
            yield Line(name, FAILED, message_of(error))
            return
        steps = dict(zip(cases, aligned([*cases.values()]), strict=True))
        with rare_collections():
            yield from self._after_all(Branch(module, steps), name)

    def _after_all(self, start: Branch, name: str) -> Iterator[Line]:
        """The kernels behind a branch, once all of its passes have been run."""
        count = max(map(len, start.cases.values()))
        branches = [start]
        for position in range(count):
            found: list[Branch] = []
            for branch in branches:
                for part in split(branch, position):
                    failure = self._failure(part, position)
                    if failure is not None:
                        label = next(iter(part.cases))
                        yield Line(f"{name}:{label}", FAILED, failure)
                    if failure is None or _is_check(part, position):
                        _add(found, part)
            branches = found
        for branch in branches:
            yield from self._sources(branch, name)

    def _failure(self, branch: Branch, position: int) -> str | None:
        """Run a pass; the message of its failure, if it fails."""
        spec = next(iter(branch.cases.values()))[position]
        if spec is None:
            return None
        try:
            with limited(), self.compiler.blaming("pass", spec.name):
                (made,) = make_passes(self.available, [spec])
                made.apply(self.compiler.ctx, branch.module)
        except TooSlow:
            return f"{spec.name}: takes too long"
        except Exception as error:
            return message_of(error)
        return None

    def _sources(self, branch: Branch, name: str) -> Iterator[Line]:
        try:
            self.compiler.verify(branch.module)
        except Exception as error:
            yield Line(f"{name}:{next(iter(branch.cases))}", FAILED, message_of(error))
            return
        kernels = [op for op in branch.module.walk() if isinstance(op, KernelOp)]
        texts = [(label_of(op, n), source_of(op)) for n, op in enumerate(kernels)]
        for label in _shown(branch.cases):
            for kernel, text in texts:
                yield Line(f"{name}:{label}", kernel, text)


def _is_check(branch: Branch, position: int) -> bool:
    """Whether a pass only checks: the kernels of a bad program have sources, too."""
    spec = next(iter(branch.cases.values()))[position]
    return spec is not None and spec.name.startswith("verify-")


def _shown(labels: Iterable[str]) -> list[str]:
    """The labels of cases that ended alike, but for other devices and options."""
    found = [*labels]
    alike = found[0].startswith("cpu"), found[0].endswith(OPTIONAL)
    return [x for x in found if (x.startswith("cpu"), x.endswith(OPTIONAL)) == alike]


def split(branch: Branch, position: int) -> Iterator[Branch]:
    """A branch by the pass that its cases have next; copies but for the last."""
    groups: dict[str, dict[str, Steps]] = {}
    for case, steps in branch.cases.items():
        groups.setdefault(str(steps[position]), {})[case] = steps
    *others, last = groups.values()
    yield from (Branch(branch.module.clone(), cases) for cases in others)
    yield Branch(branch.module, last)


def _add(branches: list[Branch], new: Branch) -> None:
    """Add a branch to others, or its cases to the one that has the same module."""
    for other in branches:
        if other.module.is_structurally_equivalent(new.module):
            other.cases = {**other.cases, **new.cases}
            return
    branches.append(new)


def label_of(kernel: KernelOp, number: int) -> str:
    """The program of a kernel, its number in the module, and its name, as one line."""
    parent = kernel.parent_op()
    program = parent.sym_name.data if isinstance(parent, ProgramOp) else ""
    text = f"{program}.{number}:{kernel.sym_name.data}"
    return json.dumps(text, ensure_ascii=False)[1:-1]


def source_of(kernel: KernelOp) -> str:
    """The source of a kernel, or a line for each reason why it has none."""
    try:
        return kernel_source(kernel)
    except LocatedPassFailure as failure:
        return "".join(f"no source: {text}\n" for _, text in failure.findings)
    except Exception as error:
        return f"no source: {message_of(error)}\n"


def message_of(error: Exception) -> str:
    """The message of an error without places, which move with each line of a test."""
    if isinstance(error, Rejected):
        return "\n".join(each.message for each in error.diagnoses)
    cause = error.__cause__
    text = f"{type(error).__name__}: {error}"
    return text if cause is None else f"{text}: {type(cause).__name__}: {cause}"


################################################################################
# Inputs                                                                       #
################################################################################

_SPLIT = re.compile(rb"^// -----[ \t\r]*$", re.MULTILINE)
_RUN = re.compile(r"^// *RUN: *(.*)$", re.MULTILINE)
_LEVEL = ("launch-", "convert-plan-to-launch")


def lines_of_file(path: Path, root: Path, variants: Sequence[Variant]) -> list[Line]:
    """The kernels of all sections of a file."""
    data = path.read_bytes()
    name = path.relative_to(root).as_posix()
    lowering = _lowering()
    standard = {str(v): v.passes(lowering.available) for v in variants}
    runs = run_lines(data.decode(), lowering)
    found: list[Line] = []
    for number, section in enumerate(_SPLIT.split(data)):
        read = partial(_read, section, name)
        case = f"{name}#{number}"
        found += _of_section(lowering, read, case, standard)
        for label, passes in runs.items():
            found += lowering.lines(read, case, {label: passes})
    return found


def _of_section(
    lowering: Lowering,
    read: Callable[[Compiler], ModuleOp],
    case: str,
    cases: Mapping[str, Passes],
) -> Iterator[Line]:
    """The kernels of a section; of each job alone, if they do not fit together."""
    found = [*lowering.lines(read, case, cases)]
    yield from found
    if any(line.kernel != FAILED for line in found):
        return
    with suppress(Exception):
        ops = read(lowering.compiler).ops
        jobs = [op.sym_name.data for op in ops if isinstance(op, JobOp)]
        for name in jobs if len(jobs) > 1 else ():
            alone = partial(_only, read, name)
            yield from lowering.lines(alone, f"{case}@{name}", cases)


def _only(
    read: Callable[[Compiler], ModuleOp], name: str, compiler: Compiler
) -> ModuleOp:
    """The module that is read, without other jobs."""
    module = read(compiler)
    for op in [*module.ops]:
        if isinstance(op, JobOp) and op.sym_name.data != name:
            op.detach()
    return module


def _read(data: bytes, name: str, compiler: Compiler) -> ModuleOp:
    return compiler.parse(data, name)


@cache
def _lowering() -> Lowering:
    return Lowering()


def run_lines(text: str, lowering: Lowering) -> dict[str, Passes]:
    """The passes of RUN lines that end in launch programs, by the numbers of lines."""
    lines = enumerate(_RUN.findall(text))
    found = ((f"run{n}", _passes_of(line, lowering)) for n, line in lines)
    plain = Variant().passes(lowering.available)
    wanted = {label: passes for label, passes in found if passes not in (None, plain)}
    return {label: passes or () for label, passes in wanted.items()}


def _passes_of(line: str, lowering: Lowering) -> Passes | None:
    """The passes of a RUN line, or None if it does not make kernels of its file."""
    try:
        words = shlex.split(line.split("|")[0])
    except ValueError:
        return None
    words = words[words[:1] == ["not"] :]
    if words[:2] != ["penstock-opt", "%s"]:
        return None
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    parser.add_argument("--pipeline", default="")
    parser.add_argument("-p", "--passes", default="")
    parser.add_argument("-t", default="")
    given = parser.parse_known_args(words[2:])[0]
    if "%" in given.pipeline + given.passes:
        return None
    table = lowering.compiler.pipelines, lowering.available
    try:
        passes = tuple(
            spec
            for text in (given.pipeline, given.passes)
            if text
            for spec in expanded(text, *table)
        )
    except Exception:
        return None
    is_of_kernels = given.t.startswith(("numba", "cuda"))
    if not is_of_kernels and not any(x.name.startswith(_LEVEL) for x in passes):
        return None
    return with_vectors(passes, lowering.available, 64)


def _given(module: ModuleOp, _: Compiler) -> ModuleOp:
    return module


def lines_of_model(name: str, variants: Sequence[Variant]) -> list[Line]:
    """The kernels of a light model, or of one of PyTorch."""
    from benchmarks.models import exported_models, light_models

    lowering = _lowering()
    cases = {str(v): v.passes(lowering.available) for v in variants}
    for _, module in chain(light_models([name]), exported_models([name])):
        return [*lowering.lines(partial(_given, module), name, cases)]
    raise SystemExit(f"no model '{name}'")


################################################################################
# Command line                                                                 #
################################################################################


def write(lines: Iterable[Line], folder: Path | None) -> None:
    """Print lines, and keep the texts in a folder if there is one."""
    kept: set[str] = set()
    listed: list[str] = []
    for line in lines:
        key = line.key
        text = f"{key} {line.case} {line.kernel}"
        print(text)
        listed.append(text)
        if folder is not None and key not in kept:
            kept.add(key)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{key}.py").write_text(line.text, "utf-8")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LIST).write_text("".join(f"{x}\n" for x in listed), "utf-8")


def shard(text: str) -> tuple[int, int]:
    """The number of a shard, from 1, and how many there are."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError
    return number, count


def _parser() -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").strip().partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("files", nargs="*", help="files or folders, instead of test and examples")
    add("--quick", action="store_true", help="fewer folders and pipelines")
    add("--keep", type=Path, metavar="DIR", help="keep the list and the sources here")
    add(
        "--shard",
        type=shard,
        default=(1, 1),
        metavar="I/N",
        help="a share of the files",
    )
    add(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes that share the files",
    )
    add(
        "--inputs", type=Path, default=ROOT, metavar="DIR", help="take files from there"
    )
    add("--models", action="append", metavar="NAME", help="a model instead of files")
    add(
        "--compare",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="compare two lists",
    )
    add("--common", action="store_true", help="compare cases that both lists have")
    add("--resources", action="store_true", help="of CUDA kernels that differ, too")
    add("--diffs", type=int, default=3, metavar="N", help="diffs that --compare shows")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Print the list that the command line asks for; 1 if two of them differ."""
    args = _parser().parse_args(argv)
    if args.compare:
        differ = compare(*args.compare, args.diffs, common=args.common)
        if args.resources:
            compare_resources([*pairs_in(*args.compare)])
        return differ
    variants = PLAIN if args.quick else VARIANTS
    if args.models:
        tasks = [partial(lines_of_model, name, variants) for name in args.models]
    else:
        root = args.inputs.resolve()
        folders = args.files or (QUICK if args.quick else ("test", "examples"))
        files = _files(root, folders)
        tasks = [partial(lines_of_file, path, root, variants) for path in files]
    number, count = args.shard
    write(_results(tasks[number - 1 :: count], args.jobs), args.keep)
    return 0


def _files(root: Path, names: Iterable[str]) -> list[Path]:
    """The files of some names, and those of folders, in order."""
    found: set[Path] = set()
    for path in (root / name for name in names):
        found.update([path] if path.is_file() else path.rglob("*.mlir"))
    return sorted(found)


def _results(tasks: Sequence[Callable[[], list[Line]]], jobs: int) -> Iterator[Line]:
    if jobs == 1:
        for task in tasks:
            yield from task()
        return
    with ProcessPoolExecutor(jobs) as pool:
        for lines in pool.map(_call, tasks, chunksize=4):
            yield from lines


def _call(task: Callable[[], list[Line]]) -> list[Line]:
    return task()


if __name__ == "__main__":
    # Output may go to `head`.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
