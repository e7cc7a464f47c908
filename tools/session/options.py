"""
The options of compiling a model as one value: parsed once, passed on whole, and used as
the key of what was compiled.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypedDict, cast

from penstock.plugins import names_of, nearest
from penstock.runtime.options import DEVICES, check_threads
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.pipeline_edits import Edit, edits_of


@dataclass(frozen=True)
class CompileOptions:
    """
    The options of compiling a model. Raises PenstockError for an unknown device, unless
    there are files to load, and for no number of threads.
    """

    device: str | None = None
    """The kind of device that jobs run on, if not where they say."""
    threads: int = 1
    """The workers and compute streams of the CPU."""
    simulate_ranks: bool = False
    """Whether what is meant for several processes runs in one."""
    collectives: str = "copies"
    """The algorithm of collectives of ranks: `copies`, `ring` or `mpi`."""
    model_jobs: bool = False
    """Whether there are jobs that initialise, load and save all variables."""
    strategy: str = "parallelism"
    """The groups of jobs that use the same memory in turn (`plan-merge-jobs`)."""
    panels: bool = True
    """Whether variables may lie as kernels read them: those that are shared may not."""
    database: Path | None = None
    """The kernel database; without one it is that which the environment names."""
    winograd: bool = False
    """Whether convolutions may have the error of `op-use-winograd`."""
    plain_loops: bool = False
    """Whether kernels are computed as the plain loops that they mean."""
    separate_weights: bool = False
    """Whether variables that are equal when a model is read are several."""
    guard: str | None = None
    """The memory that the streams of several threads may take (`regst-plan-memory`)."""
    pipeline: str | None = None
    """The text of the pipeline that compiles, such as `cpu{threads=4}`, if not the
    standard one."""
    edits: tuple[Edit, ...] = ()
    """The edits of the pipeline, in their order."""
    load: tuple[str, ...] = ()
    """The Python files whose plug-ins are known."""

    def __post_init__(self) -> None:
        # Files that are not loaded yet may bring another kind.
        if not self.load:
            check_device(self.device)
        check_threads(self.threads)
        pipeline = cast("object", self.pipeline)
        if not isinstance(pipeline, str | None):
            raise UsageError(f"a pipeline is a text, got {pipeline!r}")

    @property
    def changed(self) -> list[str]:
        """The names of the options that are not as they are by default."""
        pairs = ((x.name, x.default) for x in fields(self))
        return [name for name, default in pairs if getattr(self, name) != default]


def check_device(device: object) -> None:
    """
    Raise UsageError for what is no kind of device, of ours or of a plug-in, nor None.
    """
    if device is None or device in DEVICES:
        return
    known = [*DEVICES, *names_of("device")]
    if device not in known:
        near = nearest(str(device), known)
        hint = "(penstock-opt --list device names them)"
        raise UsageError(f"unknown device '{device}'{near} {hint}")


DEFAULTS = CompileOptions()


class PipelineKeywords(TypedDict, total=False):
    """The options about pipelines, which all that compiles takes by these names."""

    pipeline: str | None
    edits: Sequence[Edit | str]
    load: Sequence[str | Path]


class Keywords(PipelineKeywords, total=False):
    """The options of `CompileOptions` by the names that sessions take them by."""

    device: str | None
    threads: int
    simulate_ranks: bool
    collectives: str
    model_jobs: bool
    strategy: str
    kernels: Path | None
    allow_winograd: bool
    plain_loops: bool
    separate_weights: bool
    guard: str | None


_FIELDS = {"kernels": "database", "allow_winograd": "winograd"}


def with_keywords(options: CompileOptions, given: Keywords) -> CompileOptions:
    """
    The options with those that were given by keyword. Raises TypeError for an unknown
    one, and UsageError for a text that is no edit.
    """
    for name in given:
        if name not in Keywords.__annotations__:
            raise TypeError(f"Session got an unexpected keyword argument '{name}'")
    made = {_FIELDS.get(name, name): value for name, value in given.items()}
    if "edits" in given:
        made["edits"] = edits_of(given["edits"])
    if "load" in given:
        made["load"] = files_of(given["load"])
    return replace(options, **made)


FLAGS = {
    "device": "--device",
    "threads": "--threads",
    "simulate_ranks": "--simulate-ranks",
    "collectives": "--collectives",
    "model_jobs": "model_jobs=True",
    "strategy": "strategy",
    "panels": "panels=False",
    "database": "--kernels",
    "winograd": "--allow-winograd",
    "plain_loops": "--plain-loops",
    "separate_weights": "--separate-weights",
    "guard": "--guard",
    "pipeline": "--pipeline",
    "load": "--load",
}
"""The flag of `penstock-run`, or else the keyword of sessions, for each option."""


def flags_of(options: CompileOptions) -> str:
    """The options that are not as by default, as flags, with files in no folder."""
    flags: list[str] = []
    for name in options.changed:
        value: object = getattr(options, name)
        if name == "edits":
            flags += (edit.flag for edit in options.edits)
        elif name == "load":
            flags += (f"--load {shlex.quote(Path(x).name)}" for x in options.load)
        elif isinstance(value, bool):
            flags.append(FLAGS[name])
        else:
            text = value.name if isinstance(value, Path) else str(value)
            flags.append(f"{FLAGS[name]} {shlex.quote(text)}")
    return " ".join(flags)


def refuse_pipeline(options: CompileOptions) -> None:
    """Raise UsageError for options about the passes of what is not compiled."""
    for edit in options.edits:
        raise UsageError(f"--{edit.verb} is for what is compiled")
    if options.pipeline:
        raise UsageError(f"{FLAGS['pipeline']} is for what is compiled")


def joined(options: CompileOptions, own: CompileOptions) -> CompileOptions:
    """
    The options of a session with those of one job: its own pipeline if it has one, its
    edits after those of the session, and the files of both.
    """
    return replace(
        options,
        pipeline=own.pipeline or options.pipeline,
        edits=(*options.edits, *own.edits),
        load=tuple(dict.fromkeys((*options.load, *own.load))),
    )


def files_of(given: Sequence[str | Path]) -> tuple[str, ...]:
    """The paths of files as texts. Raises UsageError for a text in place of a list."""
    if isinstance(given, str):
        raise UsageError(f"files to load are a list of paths, got '{given}'")
    return tuple(map(str, given))
