"""
The variables of a session, set and handed out by jobs of its program.

The jobs `System-ModelInit`, `System-ModelLoad` and `System-ModelSave`
(`job-add-model-jobs`) run like all others: after those that were asked for before and
use a variable that they write, or write one that they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.jobs import MODEL
from penstock.runtime.program.variable_part import Part

if TYPE_CHECKING:
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.variables import Places

INIT, LOAD, SAVE = f"{MODEL}Init", f"{MODEL}Load", f"{MODEL}Save"


def has_model_jobs(jobs: JobExecutor) -> bool:
    """Whether a program has the jobs that this module runs."""
    return jobs.has(SAVE)


def saved_parts(jobs: JobExecutor) -> list[Part]:
    """Each whole variable, cut to counts, as they are between two runs."""
    from penstock.runtime.loading.variables import cuts_of
    from penstock.tools.session.state_parts import StateParts

    prefix = f"ForeignOutput-{SAVE}-"
    parts = [
        Part(name.removeprefix(prefix), (0,) * array.ndim, array.shape, array)
        for name, array in sorted(jobs.run({}, SAVE).items())
    ]
    return StateParts(parts, cuts=cuts_of(jobs.program)).cut()


def load_state(
    jobs: JobExecutor,
    state: Mapping[str, Array],
    job: str = LOAD,
    places: Places = dict,
) -> None:
    """
    Set all variables. Raises PenstockError, and changes none, unless there is an array
    for each that fits, and no other.
    """
    # It may import Numba, which has to know before whether CUDA is simulated.
    from penstock.runtime.loading.loader import fitting, raise_if_any
    from penstock.runtime.loading.variables import with_place

    prefix = f"ForeignInput-{job}-"
    ports = {name.removeprefix(prefix): x for name, x in jobs.inputs(job).items()}
    problems: list[str] = []
    if missing := sorted(set(ports) - set(state)):
        problems.append(f"the state lacks variables {', '.join(missing)}")
    if unknown := sorted(set(state) - set(ports)):
        problems.append(f"the program has no variables {', '.join(unknown)}")
    arrays: dict[str, Array] = {}
    for name, port in ports.items():
        if (given := state.get(name)) is None:
            continue
        try:
            fit = fitting(f"variable '{name}'", given, port.shape, port.dtype)
        except PenstockError as error:
            problems.append(with_place(str(error), name, places()))
        else:
            arrays[prefix + name] = fit
    raise_if_any(problems, "state")
    jobs.run(arrays, job)
