"""
A process that compiles CPU kernels: `python -m penstock.runtime.jit.worker`.

It reads sources, a line of JSON each, leaves their machine code in the cache, and
answers each with whether it is there. One that another process is compiling it leaves
to that.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import IO

from penstock.runtime.jit.cpu import compile_unless_leased
from penstock.runtime.jit.numba_settings import ignore_settings_files


def main(sources: IO[str], answers: IO[str]) -> None:
    """Compile until there are no more sources."""
    for line in sources:
        try:
            # On a full disk it is not kept.
            is_compiled = compile_unless_leased(json.loads(line))
        except Exception:
            # The process that needs the kernel compiles it again, and tells the error.
            is_compiled = False
        print(json.dumps(is_compiled), file=answers, flush=True)


if __name__ == "__main__":
    ignore_settings_files()
    with suppress(BrokenPipeError):
        main(sys.stdin, sys.stdout)
