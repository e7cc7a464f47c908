"""
A process that measures one variant: plug-ins of one name, in two versions, cannot be in
one process, and pools of threads that wait would disturb each other.

    python -m penstock.tools.reports.compare.worker REQUESTS ANSWERS

It is given two file descriptors. The first message is the variant's options; each one
after it is the name of a method of `Bench` and its arguments. The answer is the result,
or the `Failure`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from penstock.runtime.errors import PenstockError
from penstock.runtime.jit.child import child_command
from penstock.runtime.jit.numba_settings import ignore_settings_files
from penstock.tools.reports.compare.measuring import Bench, Failure
from penstock.tools.session.options import CompileOptions


class Worker:
    """The process of a variant, from the side of who asks."""

    def __init__(self, options: CompileOptions):
        child_reads, parent_writes = os.pipe()
        parent_reads, child_writes = os.pipe()
        ends = child_reads, child_writes
        command = [*child_command(__name__), *map(str, ends)]
        self._process = subprocess.Popen(command, pass_fds=ends)
        for end in ends:
            os.close(end)
        self._requests = Connection(parent_writes, readable=False)
        self._answers = Connection(parent_reads, writable=False)
        self._requests.send(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._requests.close()
        self._answers.close()
        if kind is not None:
            self._process.terminate()
        self._process.wait()

    def ask(self, method: str, *args: object) -> object:
        """
        The result of a method of the worker's bench, or the `Failure`; also where the
        process has ended.
        """
        try:
            self._requests.send((method, args))
            return self._answers.recv()
        except (EOFError, BrokenPipeError):
            return Failure(f"its process ended with code {self._process.wait()}")


def main(requests: Connection, answers: Connection) -> None:
    """Answer requests until there are no more."""
    options: CompileOptions = requests.recv()
    bench: Bench | None = None
    while True:
        try:
            method, args = requests.recv()
        except EOFError:
            break
        try:
            bench = bench or Bench(options)
            answers.send(getattr(bench, method)(*args))
        except PenstockError as error:
            answers.send(Failure(str(error)))
        except Exception as error:
            answers.send(Failure(f"{type(error).__name__}: {error}"))
    if bench is not None:
        bench.close()


if __name__ == "__main__":
    ignore_settings_files()
    reads, writes = map(int, sys.argv[1:])
    # Passes and plug-ins may print.
    sys.stdout = sys.stderr
    main(Connection(reads, writable=False), Connection(writes, readable=False))
