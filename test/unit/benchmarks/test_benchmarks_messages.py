"""The benchmark of messages between ranks: its programs, and its rows."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.runtime.program.channels import Channel
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model, lower, programs_of
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.session import Session

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.messages import SIZES, cross, row_of


def test_a_register_only_crosses() -> None:
    front = installed_compiler()
    for size in [*SIZES][:2]:
        model = Model(front[0].parse(cross(size).encode(), "cross.mlir"), {}, Path())
        lower(*front, model)
        for rank, program in enumerate(programs_of(model)):
            with Session.of(ExportedProgram(program)) as session:
                (channel,) = session.executor.program.channels
            assert isinstance(channel, Channel)
            assert (channel.size, channel.is_send) == (size, rank == 0)


def test_a_row_has_ratios_of_medians_and_of_best_turns() -> None:
    found = {"Penstock": [4.0, 3.0, 2.0], "mpi4py": [4.0, 2.0, 1.0]}
    row = row_of("8 B", found)
    assert row == ["8 B", "3.00 us", "2.00 us", "1.50", "2.00"]
