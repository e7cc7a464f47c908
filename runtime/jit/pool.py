"""
Compiling many kernels at once, in other processes.

Numba compiles one function at a time in a process, so where many kernels are not in the
cache, processes (`penstock.runtime.jit.worker`) take one after the other and leave
their machine code there. An error in one of them is found again, and told, when the
kernel is loaded: the loader compiles kernels that are still missing itself.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

from penstock.runtime.jit.cache import VARIABLE, cache_dir
from penstock.runtime.jit.child import child_command
from penstock.runtime.jit.cpu import compile_unless_leased, is_kept
from penstock.runtime.jit.source_head import split_head
from penstock.runtime.options import processors

LEAST_EACH = 4
"""The kernels for which it pays to start a process, which takes as long as two."""


def compile_missing(
    sources: Mapping[str, str],
    *,
    processes: int | None = None,
    ranks: int = 1,
    done: Callable[[str], None] = lambda name: None,
) -> None:
    """
    Compile the sources of CPU kernels, given by name, that are not in the cache, if
    there are enough of them for several processes (by default, as many as processors).
    Of several `ranks` on a host, which need the same kernels at the same time, each
    compiles what no other one does, and has its share of the processors.

    `done` is told, from any thread, of each kernel that is in the cache then, once. An
    interrupt ends the processes at once.
    """
    missing: dict[str, list[str]] = {}
    for name, source in sources.items():
        if is_kept(source):
            done(name)
        else:
            missing.setdefault(split_head(source).code, []).append(name)
    count = min(processes or processors() // ranks, len(missing) // LEAST_EACH)
    if count < 2:
        if ranks > 1:
            _share(missing, done)
        return
    waiting: SimpleQueue[str] = SimpleQueue()
    # Long ones first, so that none runs alone in the end.
    for source in sorted(missing, key=lambda source: -len(source)):
        waiting.put(source)

    def tell(source: str) -> None:
        for name in missing[source]:
            done(name)

    workers = [_worker() for _ in range(count)]
    threads = [Thread(target=_feed, args=(it, waiting, tell)) for it in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        for worker in workers:
            worker.kill()
        raise


def _share(missing: Mapping[str, list[str]], done: Callable[[str], None]) -> None:
    """
    Compile what no other process is compiling: so ranks of one host share the work, and
    wait for each other only at the end, when kernels are loaded.
    """
    for source, names in missing.items():
        # An error is told when the kernel is loaded.
        with suppress(Exception):
            if compile_unless_leased(source):
                for name in names:
                    done(name)


def _worker() -> subprocess.Popen[str]:
    """
    A process that compiles. Ctrl-C at a terminal does not reach it, which would have
    it tell of that, too.
    """
    return subprocess.Popen(
        child_command("penstock.runtime.jit.worker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, VARIABLE: str(cache_dir())},
        text=True,
        process_group=0,
    )


def _feed(
    worker: subprocess.Popen[str],
    waiting: SimpleQueue[str],
    tell: Callable[[str], None],
) -> None:
    """Let a process compile until nothing is left, or it has ended."""
    # Also when its last job is written at its end.
    with suppress(BrokenPipeError), worker:
        assert worker.stdin is not None, "it is a pipe"
        assert worker.stdout is not None, "it is a pipe"
        while (source := _next(waiting)) is not None:
            print(json.dumps(source), file=worker.stdin, flush=True)
            if not (answer := worker.stdout.readline()):
                return
            if json.loads(answer):
                tell(source)


def _next(waiting: SimpleQueue[str]) -> str | None:
    with suppress(Empty):
        return waiting.get_nowait()
    return None
