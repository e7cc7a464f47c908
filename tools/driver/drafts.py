"""
Drafts: temporary files beside their target, which get its name when they are complete.

A process that is killed leaves its draft. The next one that writes to the same target
removes it, as no process of that number is alive on this machine.
"""

from __future__ import annotations

import os
import platform
import re
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def drafting(target: Path) -> Generator[Path]:
    """
    A context with a path to write to: the file becomes the target if the block ends
    without an exception, and is removed otherwise.

    Raises OSError if it cannot be written.
    """
    remove_left_drafts(target)
    draft = draft_of(target)
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def draft_of(target: Path) -> Path:
    """The path of the draft of a file that this process writes."""
    return target.with_name(f".{target.name}.{_machine()}.{os.getpid()}.tmp")


def remove_left_drafts(target: Path) -> None:
    """Remove drafts of a file that ended processes have left, as far as possible."""
    known = re.compile(
        rf"\.{re.escape(target.name)}\.{_machine()}\.(\d{{1,9}})\.tmp", re.ASCII
    )
    with suppress(OSError):
        for path in target.parent.iterdir():
            match = known.fullmatch(path.name)
            if match is not None and not _is_alive(int(match[1])):
                with suppress(OSError):
                    path.unlink()


def _machine() -> str:
    """
    The name of this machine in drafts, as other machines may write to the same folder.
    """
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_alive(process: int) -> bool:
    """Whether a process runs, as far as can be known without touching it."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
