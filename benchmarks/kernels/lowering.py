"""Programs taken to the sources of their kernels, once for all pipelines."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from benchmarks.kernels.variants import OPTIONAL, Steps, aligned
from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import Passes
from penstock.tools.driver.compiler import (
    Compiler,
    installed_compiler,
    rare_collections,
)
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.pass_pipeline import make_passes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Read: TypeAlias = "Callable[[Compiler], ModuleOp]"
"""A function that makes a module."""
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

    def __init__(self, fixed: bool = False) -> None:
        self.fixed = fixed
        """Whether sources have all numbers in them."""
        self.compiler, self.available = installed_compiler()

    def lines(
        self,
        read: Read,
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
        texts = [
            (label_of(op, n), source_of(op, self.fixed)) for n, op in enumerate(kernels)
        ]
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


def source_of(kernel: KernelOp, fixed: bool = False) -> str:
    """The source of a kernel, or a line for each reason why it has none."""
    try:
        # Sources of before there were arguments for numbers are listed, too.
        return kernel_source(kernel, is_fixed=True) if fixed else kernel_source(kernel)
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
