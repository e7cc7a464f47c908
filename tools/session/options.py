"""
The options of compiling a model as one value: parsed once, passed on whole, and used as
the key of what was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypedDict

from penstock.runtime.options import DEVICES, check_count, check_name


@dataclass(frozen=True)
class CompileOptions:
    """
    The options of compiling a model. Raises PenstockError for an unknown device and for
    no number of threads.
    """

    device: str | None = None
    """The kind of device that jobs run on, if not where they say."""
    threads: int = 1
    """The workers and compute streams of the CPU."""
    simulate_ranks: bool = False
    """Whether what is meant for several processes runs in one."""
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
    guard: str | None = None
    """The memory that the streams of several threads may take (`regst-plan-memory`)."""

    def __post_init__(self) -> None:
        if self.device is not None:
            check_name("device", self.device, DEVICES)
        check_count("threads", self.threads)

    @property
    def changed(self) -> list[str]:
        """The names of the options that are not as they are by default."""
        pairs = ((x.name, x.default) for x in fields(self))
        return [name for name, default in pairs if getattr(self, name) != default]


DEFAULTS = CompileOptions()


class Keywords(TypedDict, total=False):
    """The options of `CompileOptions` by the names that sessions take them by."""

    device: str | None
    threads: int
    simulate_ranks: bool
    model_jobs: bool
    strategy: str
    kernels: Path | None
    allow_winograd: bool
    guard: str | None


_FIELDS = {"kernels": "database", "allow_winograd": "winograd"}


def with_keywords(options: CompileOptions, given: Keywords) -> CompileOptions:
    """
    The options with those that were given by keyword. Raises TypeError for an unknown
    one.
    """
    for name in given:
        if name not in Keywords.__annotations__:
            raise TypeError(f"Session got an unexpected keyword argument '{name}'")
    return replace(options, **{_FIELDS.get(x, x): y for x, y in given.items()})
