"""
The command line of a child process that runs a module of this package.

`python -m` alone puts the current folder first on `sys.path`, where a `json.py` that
lies beside a model would be run. The child searches the folders of the environment,
`PYTHONPATH` included, and not even these where this process does not.
"""

from __future__ import annotations

import sys


def child_command(module: str) -> list[str]:
    """The words of a command that runs a module of the package `penstock`."""
    isolation = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, isolation, "-m", module]
