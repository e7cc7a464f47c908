"""
Programs that rank 0 has compiled, on their way to the ranks that run them: plans, with
all that follows from their text, and with the initialisers of their variables in place
of arrays. So another rank needs neither the compiler nor the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.runtime.loading.initializers import Initializer, Start
from penstock.tools.session.saved_plan.archive import Archive, archive_bytes
from penstock.tools.session.saved_plan.derived import derive, derived_in, members_of
from penstock.tools.session.saved_plan.plan import (
    PROGRAM,
    Plan,
    check_machine,
    origin_in,
    plan_facts,
    share_in,
    weights_in,
)

if TYPE_CHECKING:
    from penstock.tools.session.executable import Executable
    from penstock.tools.session.ranks import Ranks

NAME = Path("the program that rank 0 has compiled")
REMEDY = "let a host whose processor has the fewest features run rank 0"


@dataclass(frozen=True)
class SentProgram(Plan):
    """
    The executable of a program that rank 0 has sent, whose files of initialisers lie in
    a folder of this rank.
    """

    sent_starts: Mapping[str, Start] = field(default_factory=dict[str, Start])
    folder: Path = Path()

    @property
    def starts(self) -> Mapping[str, Start]:
        """The starts of variables by name; given arrays take their place."""
        return self.sent_starts

    @property
    def directory(self) -> Path:
        """The folder in which files of initialisers are looked up."""
        return self.folder

    def check_ranks(self, ranks: Ranks | None) -> None:
        """It is the program of this rank, as rank 0 knows."""


def packed(executable: Executable) -> bytes:
    """
    An executable as bytes, with the arrays that are given for its variables. Raises
    `Rejected` if a kernel of it has no source.
    """
    # Errors name files as on rank 0, with their folders.
    derived = derive(executable)._replace(image=executable.image)
    facts, arrays = plan_facts(executable, derived, executable.given)
    more, others = members_of(derived)
    starts = {"starts": {name: list(x) for name, x in executable.starts.items()}}
    members = {PROGRAM: [executable.text.encode()], **arrays, **others}
    return archive_bytes({**facts, **more, **starts}, members)


def unpacked(data: bytearray, folder: Path) -> SentProgram:
    """
    The executable of bytes that rank 0 has packed. Raises PlanError for kernels that
    were tiled for a processor with more features than this one.
    """
    archive = Archive(NAME, memoryview(data))
    check_machine(archive, remedy=REMEDY)
    derived = derived_in(archive)
    # They may be kept for longer than the arrays that are given, which may be large.
    constants = {name: array.copy() for name, array in derived.constants.items()}
    return SentProgram(
        archive.text(PROGRAM),
        derived._replace(constants=constants),
        weights_in(archive),
        origin_in(archive),
        share_in(archive),
        is_own=True,
        sent_starts=_starts_in(archive),
        folder=folder,
    )


def _starts_in(archive: Archive) -> dict[str, Start]:
    return {
        name: Start(Initializer(*init), tuple(shape), dtype)
        for name, (init, shape, dtype) in archive.manifest["starts"].items()
    }
