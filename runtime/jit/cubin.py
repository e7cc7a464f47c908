"""
Machine code of CUDA kernels on disk, compiled by other processes.

The key of a cache entry is a hash of all that it depends on: the source, the compute
capability, and the compiler, but nothing of this machine; so code that was compiled
without a device can be taken to one. It is one file, `<hash>/kernel.cubins`: a line of
JSON with the resources of each stage and the lengths of its PTX and machine code, then
these.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

from penstock.runtime.errors import PenstockError, how_to_install
from penstock.runtime.jit.cache import cache_dir
from penstock.runtime.jit.cache_files import keep, read_kept
from penstock.runtime.jit.child import child_command
from penstock.runtime.jit.package_digest import (
    code_of,
    code_of_plugins,
    packages_in,
    version_of,
)
from penstock.runtime.jit.source_digest import digest_below, imported_modules
from penstock.runtime.options import processors

PACKAGES = ("llvmlite", "numba", "numba_cuda")
LIBRARIES = ("nvidia-nvjitlink", "nvidia-nvvm")
LEAST_CAPABILITY = (8, 0)

Capability: TypeAlias = tuple[int, int]


def needs_cuda() -> PenstockError:
    """The error where the packages that compile for CUDA are not installed."""
    command = how_to_install("cuda")
    return PenstockError(f"kernels for CUDA are compiled by packages: {command}")


class CompiledStage(NamedTuple):
    """A stage as machine code, and its resources: in bytes, but for registers."""

    name: str
    """Of the stage, and of its entry in the machine code."""
    items: int
    threads: int
    blockwise: bool
    is_fallback: bool
    """Whether it is the fallback of the one before it for unaligned buffers."""
    parameters: tuple[str, ...]
    """The types of the parameters, as in PTX."""
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    """The bytes that the function declares; a launch asks for `dynamic_shared` more."""
    ptx: str
    """The text that the machine code was made from."""
    cubin: bytes
    """The machine code."""
    dynamic_shared: int = 0
    cooperative: bool = False
    """Whether all blocks have to run at a time."""


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
) -> dict[str, tuple[CompiledStage, ...]]:
    """
    The stages of kernels, given the source of each by its name, fallbacks after the
    stages that they stand in for.

    Kernels that are not in the cache are compiled by so many processes at once, by
    default one a CPU. `done` is told of each kernel that is there. Raises
    PenstockError that names the kernels which cannot be compiled.
    """
    keys = {name: _key(source, capability) for name, source in sources.items()}
    known = {key: _kept(key) for key in keys.values()}
    missing = {key: sources[name] for name, key in keys.items() if known[key] is None}
    made, errors = _compile_all(missing, capability, processes or processors())
    if errors:
        lines = (
            f"kernel @{name}: {errors[key]}"
            for name, key in keys.items()
            if key in errors
        )
        raise PenstockError("\n".join(lines))
    found: dict[str, tuple[CompiledStage, ...]] = {}
    for name, key in keys.items():
        kept = known[key]
        # A kernel without elements has no stages.
        found[name] = made[key] if kept is None else kept
        done(name)
    return found


def _path(key: str) -> Path:
    return cache_dir() / key / "kernel.cubins"


def _kept(key: str) -> tuple[CompiledStage, ...] | None:
    data = read_kept(_path(key))
    return None if data is None else unpacked(data)


def packed(stages: Sequence[CompiledStage]) -> bytes:
    """The bytes that a cache entry with these stages holds."""
    texts = [stage.ptx.encode() for stage in stages]
    facts = [
        {**stage._asdict(), "ptx": len(text), "cubin": len(stage.cubin)}
        for stage, text in zip(stages, texts, strict=True)
    ]
    pairs = zip(texts, (stage.cubin for stage in stages), strict=True)
    codes = [code for pair in pairs for code in pair]
    return b"\n".join([json.dumps(facts).encode(), b"".join(codes)])


def unpacked(data: bytes) -> tuple[CompiledStage, ...]:
    """The stages in the bytes of a cache entry."""
    head, _, codes = data.partition(b"\n")
    file = BytesIO(codes)
    return tuple(_unpacked(facts, file) for facts in json.loads(head))


def _unpacked(facts: dict[str, Any], file: BytesIO) -> CompiledStage:
    ptx, cubin = file.read(facts["ptx"]).decode(), file.read(facts["cubin"])
    stage = CompiledStage(**facts)
    parameters = tuple(stage.parameters)
    return stage._replace(ptx=ptx, cubin=cubin, parameters=parameters)


def _key(source: str, capability: Capability) -> str:
    digest = hashlib.sha256()
    used = imported_modules(source) | {"runtime.jit.ptx"}
    theirs = code_of_plugins(packages_in(source))
    facts = "{}.{}".format(*capability), digest_below(used), *_versions(), *theirs
    for part in ("cubins 4", source, *facts):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]


@cache
def _versions() -> tuple[str, ...]:
    """The versions of all that compiles."""
    libraries = (f"{name} {version_of(name)}" for name in LIBRARIES)
    return (*map(code_of, PACKAGES), *libraries)


# Other processes


def _compile_all(
    sources: Mapping[str, str], capability: Capability, processes: int
) -> tuple[dict[str, tuple[CompiledStage, ...]], dict[str, str]]:
    """
    Compile sources, given by their keys, and cache the results that can be cached; the
    stages, and the errors of those that fail.
    """
    made: dict[str, tuple[CompiledStage, ...]] = {}
    errors: dict[str, str] = {}
    if not sources:
        return made, errors
    if find_spec("numba_cuda") is None:
        raise needs_cuda()
    waiting: SimpleQueue[tuple[str, str]] = SimpleQueue()
    # Long ones first, so that none runs alone in the end.
    for item in sorted(sources.items(), key=lambda item: -len(item[1])):
        waiting.put(item)

    def take(key: str, answer: Answer) -> None:
        if answer.code is None:
            errors[key] = answer.error
            return
        data = b64decode(answer.code)
        keep(_path(key), data)
        made[key] = unpacked(data)

    count = min(processes, len(sources))
    threads = [
        Thread(target=_feed, args=(waiting, capability, take)) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made, errors


def _feed(
    waiting: SimpleQueue[tuple[str, str]],
    capability: Capability,
    take: Callable[[str, Answer], None],
) -> None:
    """Let one process compile sources until none are left."""
    hidden = {"NUMBA_ENABLE_CUDASIM"}
    with subprocess.Popen(
        child_command("penstock.runtime.jit.cubin_worker"),
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
            job = Job(key, source, capability, str(_path(key).with_suffix(".py")))
            try:
                print(json.dumps(job), file=worker.stdin, flush=True)
                answer = worker.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                take(key, Answer(None, "the compiler ended without a word"))
                return
            take(key, Answer(*json.loads(answer)))
        worker.stdin.close()


class Job(NamedTuple):
    """The job of a compiling process, as a line of JSON."""

    key: str
    source: str
    capability: Sequence[int]
    path: str
    """The file that the source is written to for people."""


class Answer(NamedTuple):
    """The answer of a process to a job, as a line of JSON."""

    code: str | None
    """The bytes for the cache entry in base 64; None if it could not be compiled."""
    error: str = ""
    """Why it could not."""
