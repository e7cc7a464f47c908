"""
IR dumps around passes: whole modules or diffs, on a stream or as a tree of files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from penstock.tools.driver.files import write_whole
from penstock.tools.driver.instrumentation import PassInstrumentation, Step


@dataclass(frozen=True)
class Names:
    """Some passes by their names, or all."""

    names: frozenset[str] = field(default_factory=frozenset[str])
    all: bool = False

    def __contains__(self, name: str) -> bool:
        return self.all or name in self.names

    def __bool__(self) -> bool:
        return self.all or bool(self.names)


ALL = Names(all=True)


@dataclass(frozen=True)
class DumpOptions:
    """The dumps that are wanted, with the rules of `mlir-opt`."""

    before: Names = Names()
    after: Names = Names()
    only_changes: bool = False
    """Whether passes that have changed nothing are left out of `after`."""
    only_failures: bool = False
    """Whether passes that have not failed are left out of `after`."""
    as_diff: bool = False
    """Whether a dump after a pass says only which lines it changed."""

    @property
    def wants_any(self) -> bool:
        """Whether there is anything to dump."""
        return bool(self.before) or bool(self.after)


class Sink(Protocol):
    """The place where dumps go."""

    def write(self, step: Step, moment: str, module: ModuleOp, text: str) -> None:
        """Write the text of a module at a moment, such as `After`."""
        ...


class IRPrinting(PassInstrumentation):
    """Dumps of modules before passes, after them, and after their failure."""

    def __init__(
        self, options: DumpOptions, text_of: Callable[[ModuleOp], str], sink: Sink
    ) -> None:
        self._options = options
        self._text_of = text_of
        self._sink = sink
        self._before = ""
        self._passes: set[str] | None = None
        """The passes of all pipelines; None before the first one."""

    @property
    def absent(self) -> list[tuple[str, str]]:
        """
        The moments and passes that were named for dumps, if no pipeline has that pass.
        """
        if self._passes is None:
            return []
        moments = ("before", self._options.before), ("after", self._options.after)
        return [
            (moment, name)
            for moment, named in moments
            for name in sorted(named.names - self._passes)
        ]

    def before_pipeline(self, passes: Sequence[ModulePass], module: ModuleOp) -> None:
        self._passes = (self._passes or set()) | {each.name for each in passes}

    @property
    def _compares(self) -> bool:
        return self._options.only_changes or self._options.as_diff

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        is_dumped = step.name in self._options.before
        if is_dumped or (self._compares and step.name in self._options.after):
            self._before = self._text_of(module)
        if is_dumped:
            self._sink.write(step, "Before", module, self._before)

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        if not self._options.only_failures:
            self._dump(step, "After", module)

    def after_failure(self, step: Step, module: ModuleOp) -> None:
        self._dump(step, "Failed", module)

    def _dump(self, step: Step, moment: str, module: ModuleOp) -> None:
        if step.name not in self._options.after:
            return
        text = self._text_of(module)
        is_same = self._compares and text == self._before
        if is_same and moment == "After" and self._options.only_changes:
            return
        if self._options.as_diff:
            text = diff_of(self._before, text, step.name)
        self._sink.write(step, moment, module, text)


def diff_of(before: str, after: str, name: str) -> str:
    """The lines that a pass has changed, with three around them, as `diff -u` shows."""
    lines = unified_diff(
        before.splitlines(),
        after.splitlines(),
        f"before {name}",
        f"after {name}",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


class StreamSink:
    """Dumps on a stream, each below the heading that `mlir-opt` gives it."""

    def __init__(self, print_text: Callable[[str], None]) -> None:
        self._print = print_text

    def write(self, step: Step, moment: str, module: ModuleOp, text: str) -> None:
        """Print a dump and an empty line."""
        when = f"After {step.name} Failed" if moment == "Failed" else moment
        title = when if moment == "Failed" else f"{moment} {step.name}"
        self._print(f"// -----// IR Dump {title} //----- //\n{text}\n")


class TreeSink:
    """
    Dumps as files of a folder, one folder a module: `builtin_module_NAME/N_PASS.mlir`
    for the pass at position `N`, with `.before` or `.failed` before the last dot.
    """

    def __init__(self, folder: Path, *, as_diff: bool = False) -> None:
        self._folder = folder
        self._as_diff = as_diff
        self._pipelines: list[ModuleOp] = []

    def write(self, step: Step, moment: str, module: ModuleOp, text: str) -> None:
        """Write a dump; raises `UsageError` if that fails."""
        kind = {"Before": ".before", "Failed": ".failed"}.get(moment, "")
        is_diff = self._as_diff and moment != "Before"
        suffix = ".diff" if is_diff else ".mlir"
        name = f"{step.position}_{step.name}{kind}{suffix}"
        write_whole(str(self._folder_of(module) / name), text)

    def _folder_of(self, module: ModuleOp) -> Path:
        if not any(each is module for each in self._pipelines):
            self._pipelines.append(module)
        number = next(i for i, x in enumerate(self._pipelines) if x is module)
        name = module.sym_name
        label = name.data if isinstance(name, StringAttr) else "no-symbol-name"
        # Sections of one file are modules of one name.
        folder = self._folder / f"builtin_module_{label}{f'_{number}' * (number > 0)}"
        make_folder(folder)
        return folder


def make_folder(folder: Path) -> None:
    """Make a folder and those around it; raises `UsageError` if that fails."""
    from penstock.tools.driver.errors import UsageError, explain_os_error

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"cannot write {folder}: {explain_os_error(error)}"
        raise UsageError(text) from error


def names_in(texts: Iterable[str]) -> Names:
    """The passes of lists with commas between the names."""
    return Names(frozenset(x for text in texts for x in text.split(",") if x))


def unknown_in(texts: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names of such lists that are not known."""
    found = set(known)
    return [x for text in texts for x in text.split(",") if x not in found]
