"""
Machine code of CUDA kernels on disk, compiled by other processes.

A cache entry is known by a hash of all that it depends on: the source, the compute
capability, and the compiler, but nothing of this machine; so what was compiled without
a device can be taken to one. It consists of `<hash>.<phase>.ptx` and
`<hash>.<phase>.cubin` for each phase, and of `<hash>.json`, written last, which says
what each takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple, TypeAlias

from penstock.runtime.cache import cache_dir
from penstock.runtime.child import child_command
from penstock.runtime.errors import PenstockError
from penstock.runtime.module_texts import digest_below, imported_modules

NEEDS_CUDA = "kernels for CUDA are compiled by packages: pip install 'penstock[cuda]'"
PACKAGES = ("llvmlite", "numba", "numba-cuda", "nvidia-nvjitlink", "nvidia-nvvm")
LEAST_CAPABILITY = (8, 0)

Capability: TypeAlias = tuple[int, int]


class CompiledPhase(NamedTuple):
    """A phase as machine code, and what it takes: in bytes, but for registers."""

    name: str
    """Of the phase, and of its entry in the machine code."""
    items: int
    threads: int
    blockwise: bool
    is_fallback: bool
    """Whether it only computes what the one before it asks aligned buffers for."""
    parameters: tuple[str, ...]
    """The types of the parameters, as in PTX."""
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    """The bytes that the function declares; a launch asks for `dynamic_shared` more."""
    folder: str
    """Where the files of the cache entry are."""
    key: str
    dynamic_shared: int = 0
    cooperative: bool = False
    """Whether all blocks have to run at a time."""

    def path(self, suffix: str) -> Path:
        """The file with this phase as `ptx` or as `cubin`."""
        return Path(self.folder) / f"{self.key}.{self.name}.{suffix}"


def capability_of(architecture: str) -> Capability:
    """
    The compute capability that is called `sm_90` or the like. Raises PenstockError if
    that is none, or too old.
    """
    digits = architecture.removeprefix("sm_")
    if digits == architecture or not digits.isdecimal() or len(digits) < 2:
        raise PenstockError(
            f"an architecture is sm_ and a number, as sm_90, got '{architecture}'"
        )
    capability = int(digits[:-1]), int(digits[-1])
    if capability < LEAST_CAPABILITY:
        raise PenstockError(f"kernels need at least sm_80, got {architecture}")
    return capability


def compile_kernels(
    sources: Mapping[str, str],
    capability: Capability,
    *,
    processes: int | None = None,
    done: Callable[[str], None] = lambda name: None,
) -> dict[str, tuple[CompiledPhase, ...]]:
    """
    The phases of kernels, given the source of each by its name, fallbacks after what
    they stand in for.

    What is not in the cache is compiled by so many processes at once, by default one a
    processor. `done` is told of each kernel that is there. Raises PenstockError that
    names the kernels which cannot be compiled.
    """
    keys = {name: _key(source, capability) for name, source in sources.items()}
    missing = {
        key: sources[name] for name, key in keys.items() if not _manifest(key).exists()
    }
    errors = _compile_all(missing, capability, processes or os.cpu_count() or 1)
    if errors:
        lines = (
            f"kernel @{name}: {errors[key]}"
            for name, key in keys.items()
            if key in errors
        )
        raise PenstockError("\n".join(lines))
    found: dict[str, tuple[CompiledPhase, ...]] = {}
    for name, key in keys.items():
        found[name] = tuple(_read(key))
        done(name)
    return found


def _manifest(key: str) -> Path:
    return cache_dir() / f"{key}.json"


def _read(key: str) -> Iterable[CompiledPhase]:
    for entry in json.loads(_manifest(key).read_text()):
        entry["parameters"] = tuple(entry["parameters"])
        yield CompiledPhase(**entry, folder=str(cache_dir()), key=key)


def _key(source: str, capability: Capability) -> str:
    digest = hashlib.sha256()
    used = imported_modules(source) | {"runtime.cuda_compiler"}
    facts = "{}.{}".format(*capability), digest_below(used), *_versions()
    for part in ("cubins 3", source, *facts):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]


@cache
def _versions() -> tuple[str, ...]:
    """The versions of all that compiles."""
    return tuple(map(_version, PACKAGES))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


# Other processes


def _compile_all(
    sources: Mapping[str, str], capability: Capability, processes: int
) -> dict[str, str]:
    """Compile sources, given by their keys; what is wrong with those that fail."""
    if not sources:
        return {}
    if find_spec("numba_cuda") is None:
        raise PenstockError(NEEDS_CUDA)
    waiting: SimpleQueue[tuple[str, str]] = SimpleQueue()
    # Long ones first, so that none runs alone in the end.
    for item in sorted(sources.items(), key=lambda item: -len(item[1])):
        waiting.put(item)
    errors: dict[str, str] = {}
    count = min(processes, len(sources))
    threads = [
        Thread(target=_feed, args=(waiting, capability, errors)) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def _feed(
    waiting: SimpleQueue[tuple[str, str]],
    capability: Capability,
    errors: dict[str, str],
) -> None:
    """Let one process compile sources until none are left."""
    hidden = {"NUMBA_ENABLE_CUDASIM"}
    with subprocess.Popen(
        child_command("penstock.runtime.cubin_worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        text=True,
    ) as worker:
        assert worker.stdin is not None, "it is a pipe"
        assert worker.stdout is not None, "it is a pipe"
        while True:
            try:
                key, source = waiting.get_nowait()
            except Empty:
                break
            job = Job(key, source, capability, str(cache_dir()))
            try:
                print(json.dumps(job), file=worker.stdin, flush=True)
                answer = worker.stdout.readline()
            except BrokenPipeError:
                answer = ""
            error = (
                json.loads(answer) if answer else "the compiler ended without a word"
            )
            if error is not None:
                errors[key] = error
            if not answer:
                return
        worker.stdin.close()


class Job(NamedTuple):
    """
    What a process is asked to compile, as a line of JSON; it answers None or why it
    could not, as another."""

    key: str
    source: str
    capability: Sequence[int]
    folder: str
