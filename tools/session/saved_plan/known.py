"""
Plans of ONNX models that were compiled before on this machine, in the cache folder.

A plan is found again by the contents of the model's file and of those that it keeps
tensors in, by what was asked for, and by all that compiles: the modules of this
package, the packages they need, and the plug-ins, installed or loaded. So a second
process compiles nothing, and imports neither the compiler nor the package `onnx`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.runtime.jit.cache import (
    cache_dir,
    content_hash,
    make_room,
    size_limit,
)
from penstock.runtime.jit.cache_files import FOR_USER, clear, keep, mark_used, read_kept
from penstock.runtime.jit.package_digest import code_of
from penstock.runtime.jit.source_digest import digest_of_all
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.files import sha256_of
from penstock.tools.driver.plugin_digest import (
    codes_of_files,
    has_code_without_file,
    installed_code,
    installed_plugins_text,
)
from penstock.tools.session.model import KERNELS
from penstock.tools.session.options import DEFAULTS, CompileOptions
from penstock.tools.session.saved_plan.plan import (
    SUFFIX,
    Plan,
    read_own_plan,
    save_plan,
)

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.executable import Executable

log = logging.getLogger(__name__)

SHARE = 4
"""The cache has room for so many plans: one that needs more room is not kept."""
_FILES = "files.json"
_PACKAGES = ("xdsl", "onnx")
"""
The packages that models are read and compiled with, besides those that kernels depend
on.
"""


class Request(NamedTuple):
    """The options that an ONNX model is compiled with."""

    options: CompileOptions = DEFAULTS
    random_weights: int | None = None
    extra_outputs: tuple[str, ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Of inputs that are known before it is compiled."""
    maxima: tuple[tuple[str, int], ...] = ()


class KnownPlans:
    """The plans that the model in a file was compiled to before."""

    def __init__(self, path: Path):
        self.path = path
        self._folder: Path | None = None
        self._files: Sequence[str] = ()
        self._is_listed = False
        """Whether the names of these files are in the cache."""
        self._contents: str | None = None
        """A digest of the files beside the model, as far as they are known."""
        if os.environ.get(KERNELS):
            # Plans by measured times are of these, too, which no request names.
            return
        # Compiling the file tells why it cannot be read.
        with suppress(OSError, ValueError):
            parts = [sha256_of(path), compiler_text()]
            self._folder = cache_dir() / content_hash(parts)
            if (found := read_kept(self._folder / _FILES)) is not None:
                self.name_files(_names(found))
                self._is_listed = True

    def name_files(self, files: Sequence[str]) -> None:
        """
        Say in which files beside the model its tensors lie, before these are read:
        plans are kept for what the files hold now.
        """
        self._files, self._contents = files, None
        with suppress(OSError):
            paths = [self.path.parent / name for name in files]
            # A pipe or a device may have no end.
            if not all(path.is_file() for path in paths):
                return
            hashes = [sha256_of(path) for path in paths]
            self._contents = hashlib.sha256("".join(hashes).encode()).hexdigest()

    @property
    def is_known(self) -> bool:
        """Whether the model has been compiled before, so that it is one."""
        if self._folder is None or self._contents is None:
            return False
        return any(self._folder.glob(f"{self._contents}-*{SUFFIX}"))

    def find(self, request: Request) -> Plan | None:
        """The plan of the model for a request; None if there is none."""
        path = self._plan_path(request)
        if path is None:
            return None
        with suppress(UsageError):
            plan = read_own_plan(path)
            mark_used(path)
            self._list_files(path)
            log.debug("found the plan of %s in %s", self.path, path)
            return plan
        log.debug("no plan of %s is in %s", self.path, path)
        return None

    def keep(
        self,
        request: Request,
        executable: Executable,
        state: Callable[[], Mapping[str, Array]],
    ) -> None:
        """
        Keep an executable, whose variables have the arrays of `state`, once it is
        said where tensors of its model lie. One that is large, or cannot be written, is
        not kept.
        """
        path = self._plan_path(request)
        if not _is_of(request, executable):
            return
        size = sum(variable.kind.size for variable in executable.image.variables)
        if path is None or SHARE * size > size_limit():
            return
        with suppress(OSError, UsageError):
            clear(path)
            save_plan(path, executable, state())
            path.chmod(FOR_USER)
            self._list_files(path)
            make_room(path.stat().st_size)
            log.debug("kept the plan of %s in %s", self.path, path)

    def _list_files(self, path: Path) -> None:
        """Keep the names of files beside the plan in a file, unless they are there."""
        if not self._is_listed:
            data = json.dumps(self._files).encode()
            self._is_listed = keep(path.with_name(_FILES), data)

    def _plan_path(self, request: Request) -> Path | None:
        if self._folder is None or self._contents is None:
            return None
        if has_code_without_file():
            return None
        try:
            loaded = codes_of_files(request.options.load)
        except UsageError:
            # Compiling tells why it cannot be read.
            return None
        name = hashlib.sha256(repr((request, loaded)).encode()).hexdigest()
        return self._folder / f"{self._contents}-{name}{SUFFIX}"


def _is_of(request: Request, executable: Executable) -> bool:
    """Whether the plug-ins that an executable was made with are as they were then."""
    with suppress(UsageError):
        now = *installed_code(), *codes_of_files(request.options.load)
        return executable.origin.plugins == now
    return False


def _names(data: bytes) -> list[str]:
    """A list of names as JSON. Raises ValueError if it is none."""
    names: object = json.loads(data)
    if isinstance(names, list):
        texts = cast("list[object]", names)
        if all(isinstance(text, str) for text in texts):
            return cast("list[str]", texts)
    raise ValueError("no list of names")


@cache
def compiler_text() -> str:
    """The digests of all code that a model is compiled with, as a text."""
    packages = map(code_of, _PACKAGES)
    return "\n".join([digest_of_all(), *packages, installed_plugins_text()])
