"""The launch programs of a file of any level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.dialects.launch import ProgramOp
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.files import path_of_rank
from penstock.tools.session.joined_ranks import join_ranks
from penstock.tools.session.options import DEFAULTS, CompileOptions, refuse_pipeline

if TYPE_CHECKING:
    from penstock.tools.session.saved_plan.plan import Plan


def program_in(
    path: Path, options: CompileOptions = DEFAULTS, data: bytes | None = None
) -> ProgramOp:
    """The launch program of a file, those of several ranks as one (`programs_in`)."""
    return join_ranks(programs_in(path, options, data)).program


def programs_in(
    path: Path, options: CompileOptions = DEFAULTS, data: bytes | None = None
) -> list[ProgramOp]:
    """
    The launch program of each rank of a saved plan, or of a file of IR or its `data`,
    which is compiled. They are not run: kernels may come with sources of their own.

    Raises UsageError if the file cannot be read or is no program, and `Rejected` if it
    cannot be compiled.
    """
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.model import lower, programs_of, read_model
    from penstock.tools.session.saved_plan.plan import is_plan

    if is_plan(path):
        refuse_pipeline(options)
        return [plan.program for plan in _plans_in(path, options)]
    if path.suffix.lower() == ".onnx":
        raise UsageError(f"{path} is no program: penstock-import makes one of it")
    front = installed_compiler(options.load)
    apart = options.separate_weights
    model = read_model(front[0], path, data, separate_weights=apart)
    lower(*front, model, options)
    return programs_of(model)


def _plans_in(path: Path, options: CompileOptions) -> list[Plan]:
    """The plan of a path, or of each rank, which lie beside it."""
    from penstock.tools.session.saved_plan.plan import read_plan

    def read(path: Path) -> Plan:
        return read_plan(path, options.device, options.load)

    first = path_of_rank(path, 0)
    share = None if path.exists() or not first.exists() else read(first).share
    if share is None:
        return [read(path)]
    plans = [read(path_of_rank(path, rank)) for rank in range(share.size)]
    for rank, plan in enumerate(plans):
        if plan.share != share._replace(rank=rank):
            raise UsageError(
                f"{path_of_rank(path, rank)} was not saved together with {first}"
            )
    return plans
