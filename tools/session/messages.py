"""The check of messages between ranks that are written in a file of IR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ENDS = (
    *(b"job.send", b"job.receive", b"job.collective"),
    *(b"launch.send", b"launch.receive", b"launch.collective"),
)
"""The ops of messages; a job has none, and need not be parsed to know it."""


def check_messages(path: Path, load: Sequence[str] = ()) -> None:
    """
    Raise `Rejected` for a file of IR with plans or programs of ranks that do not fit
    each other, before there are processes that would wait for each other's messages.
    The compiler tells of all other errors.
    """
    if path.suffix.lower() != ".mlir" or not _names_ranks(path):
        return
    from penstock.dialects.launch import ProgramOp
    from penstock.dialects.plan import PlanOp
    from penstock.lowering.verify.plan_rules.ranks import bad_ranks as between_plans
    from penstock.lowering.verify.program_rules.ranks import bad_ranks
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.driver.diagnostics import reject_if_any
    from penstock.tools.session.model import read_model

    entries = read_model(installed_compiler(load)[0], path).entries
    plans = [entry for entry in entries if isinstance(entry, PlanOp)]
    programs = [entry for entry in entries if isinstance(entry, ProgramOp)]
    reject_if_any([*between_plans(plans), *bad_ranks(programs)], "")


def _names_ranks(path: Path) -> bool:
    """Whether a file may hold messages."""
    try:
        text = path.read_bytes()
    except OSError:
        # It is told where it is read.
        return False
    return any(name in text for name in ENDS)
