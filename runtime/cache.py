"""
The folder on disk where compiled kernels stay between processes.

It is `PENSTOCK_CACHE_DIR`, else `penstock` in the user's cache folder. Where that
cannot be written, a temporary folder takes its place for this process.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VARIABLE = "PENSTOCK_CACHE_DIR"
_PACKAGES = ("numba", "llvmlite", "numpy", "penstock")
_SUPPORT = (
    *("kernel_support.py", "lanes.py", "lines.py", "panels.py", "tiles.py"),
    "vector_math.py",
)
"""The modules whose functions become part of compiled code."""


def user_cache_dir() -> Path:
    """Where programs of this user keep what they can make again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def cache_dir() -> Path:
    """
    The folder for compiled kernels; it exists and can be written.

    Warns once for each folder that cannot be used.
    """
    wanted = os.environ.get(VARIABLE)
    return _usable(Path(wanted) if wanted else user_cache_dir() / "penstock")


@cache
def _usable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder.absolute()
    except OSError as error:
        warnings.warn(
            f"kernels are compiled anew in each process, as the cache folder "
            f"{folder} cannot be written: {error.strerror}",
            RuntimeWarning,
            stacklevel=3,
        )
    temporary = Path(tempfile.mkdtemp(prefix="penstock-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that others see it whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def content_hash(parts: Iterable[str]) -> str:
    """32 hexadecimal digits that stand for texts, this Python and this machine."""
    digest = hashlib.sha256()
    for part in (*parts, *environment()):
        data = part.encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:32]


@cache
def environment() -> tuple[str, ...]:
    """What compiled code depends on besides its source."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    support = [Path(__file__).with_name(name).read_text() for name in _SUPPORT]
    versions = [f"{package} {_version(package)}" for package in _PACKAGES]
    python = f"{sys.implementation.cache_tag} {platform.machine()}"
    return (*versions, python, binding.get_host_cpu_name(), features, *support)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
