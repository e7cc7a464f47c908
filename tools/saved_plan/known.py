"""
Plans of ONNX models that were compiled before on this machine, in the cache folder.

A plan is found again by the contents of the model's file and of those that it keeps
tensors in, by what was asked for, and by all that compiles: the modules of this
package, the packages they need and the plug-ins that are installed. So a second process
compiles nothing, and imports neither the compiler nor the package `onnx`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.runtime.cache import (
    cache_dir,
    content_hash,
    keep_within,
    mark_used,
    size_limit,
    write_atomically,
)
from penstock.runtime.module_texts import digest_of_all
from penstock.tools.saved_plan.archive import PlanError
from penstock.tools.saved_plan.plan import SUFFIX, Plan, read_own_plan

if TYPE_CHECKING:
    from penstock.tools.session import Session

SHARE = 4
"""The cache has room for so many plans: one that needs more room is not kept."""
_FILES = "files.json"
_PACKAGES = ("xdsl", "onnx")
"""What models are read and compiled with, besides what kernels depend on."""


class Request(NamedTuple):
    """What a model is compiled for."""

    device: str | None = None
    threads: int = 1
    simulate_ranks: bool = False
    winograd: bool = False
    random_weights: int | None = None
    extra_outputs: tuple[str, ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of inputs that are known before it is compiled."""


class KnownPlans:
    """What the model in a file was compiled to before."""

    def __init__(self, path: Path):
        self._path = path
        self._folder: Path | None = None
        # Who compiles a file says why it cannot be read.
        with suppress(OSError):
            self._folder = cache_dir() / content_hash(
                [_file_hash(path), compiler_text()]
            )

    @property
    def is_known(self) -> bool:
        """Whether the model has been compiled before, so that it is one."""
        if self._folder is None:
            return False
        with suppress(OSError, ValueError):
            text = (self._folder / _FILES).read_text()
            files = cast("dict[str, str]", json.loads(text))
            return files == self._hashes(files)
        return False

    @property
    def paths(self) -> list[Path]:
        """The files of all plans of the model."""
        return [] if self._folder is None else sorted(self._folder.glob(f"*{SUFFIX}"))

    def find(self, request: Request) -> Plan | None:
        """The plan of the model for a request; None if there is none."""
        if not self.is_known:
            return None
        with suppress(PlanError):
            path = self._plan_path(request)
            plan = read_own_plan(path)
            mark_used(path)
            return plan
        return None

    def keep(self, request: Request, session: Session, files: Sequence[str]) -> None:
        """
        Keep the plan of a session that has not run yet, for a model with tensors in
        these files beside it. What cannot be written, or is large, is not kept.
        """
        if self._folder is None:
            return
        variables = session.executor.program.image.variables
        if SHARE * sum(variable.kind.size for variable in variables) > size_limit():
            return
        with suppress(OSError, PlanError):
            self._folder.mkdir(exist_ok=True)
            session.save(self._plan_path(request))
            text = json.dumps(self._hashes(files))
            write_atomically(self._folder / _FILES, text.encode())
            keep_within(size_limit(), cache_dir())

    def _hashes(self, files: Iterable[str]) -> dict[str, str]:
        folder = self._path.parent
        return {name: _file_hash(folder / name) for name in sorted(files)}

    def _plan_path(self, request: Request) -> Path:
        assert self._folder is not None, "the model can be read"
        name = hashlib.sha256(repr(request).encode()).hexdigest()
        return self._folder / f"{name}{SUFFIX}"


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def compiler_text() -> str:
    """What stands for all that a model is compiled with."""
    plugins = [
        f"{entry.name} {entry.value} {entry.dist and entry.dist.version}"
        for entry in entry_points(group="xdsl.universe")
    ]
    packages = [f"{package} {_version(package)}" for package in _PACKAGES]
    return "\n".join([digest_of_all(), *packages, *sorted(plugins)])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
