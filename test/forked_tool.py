"""
`penstock-opt` in a forked process, which has imported it before.

The name of this module is for `multiprocessing`'s fork server to preload: what it
imports is paid for once by all commands that a test runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context, parent_process
from pathlib import Path

from penstock.tools.cli import entry

if parent_process() is not None:
    # In the fork server, and nowhere else.
    from fast_format import preload_tools

    preload_tools()


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path
) -> int:
    """The exit code of a command in a folder; both its streams go to a file."""
    server = get_context("forkserver")
    server.set_forkserver_preload([__name__])
    process = server.Process(
        target=_run, args=(list(arguments), folder, dict(environment), output)
    )
    process.start()
    process.join(300)
    assert process.exitcode is not None, f"{arguments} has no end"
    return process.exitcode


def _run(
    arguments: list[str], folder: Path, environment: dict[str, str], output: Path
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    sys.argv = arguments
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8")
    entry.opt()
