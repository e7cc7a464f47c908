"""
The jobs that run before a job, as they make what it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from penstock.dialects.job import AssignOp, InputOp, JobOp, OutputOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.shared_ports import SYSTEM
from penstock.tools.driver.errors import UsageError

if TYPE_CHECKING:
    from penstock.tools.session.model import Model


@dataclass
class JobPorts:
    """The inputs and outputs of a job, and whether it assigns variables."""

    inputs: dict[str, TensorType[Attribute]] = field(
        default_factory=dict[str, TensorType[Attribute]]
    )
    outputs: set[str] = field(default_factory=set[str])
    assigns: bool = False


def ports_of_jobs(model: Model) -> dict[str, JobPorts]:
    """
    The ports of each job of a model by its name, but for those of jobs of the system.
    Launch programs no longer say them.
    """
    found: dict[str, JobPorts] = {}
    for entry in model.entries:
        if SYSTEM in entry.attributes:
            continue
        for job, op in _ops_by_job(entry):
            ports = found.setdefault(job, JobPorts())
            match op:
                case InputOp():
                    ports.inputs[op.port.data] = tensor_type(op.result)
                case OutputOp():
                    ports.outputs.add(op.port.data)
                case AssignOp():
                    ports.assigns = True
                case _:
                    pass
    return found


def _ops_by_job(entry: Operation) -> Iterator[tuple[str, Operation]]:
    """The ops of an entry, each with the job that it belongs to."""
    match entry:
        case JobOp():
            yield from ((entry.sym_name.data, op) for op in entry.walk())
        case PlanOp():
            named = set(entry.jobs)
            for task in entry.tasks:
                job = _job_of(task) if named else entry.sym_name.data
                if job is not None and not _is_of_system(entry, job):
                    yield from ((job, op) for op in task.walk())
        case _:
            pass


def _job_of(task: TaskOp) -> str | None:
    return None if task.job is None else task.job.data


def _is_of_system(plan: PlanOp, job: str) -> bool:
    """Whether a job of a merged plan is one that brings inputs in or outputs out."""
    from xdsl.dialects.builtin import DictionaryAttr

    jobs = plan.attributes.get("jobs")
    facts = jobs.data.get(job) if isinstance(jobs, DictionaryAttr) else None
    return isinstance(facts, DictionaryAttr) and SYSTEM in facts.data


def chain_of(ports: Mapping[str, JobPorts], job: str) -> list[str]:
    """
    The jobs that make what a job takes, what those take, and so on, in an order in
    which they can run, and the job itself last.

    Raises UsageError if some make what they take themselves, or if one that runs before
    assigns variables, so that those after it see others.
    """
    makers = {
        name: each for each, facts in ports.items() for name in sorted(facts.outputs)
    }
    needs: dict[str, list[str]] = {}
    left = [job]
    while left:
        if (each := left.pop()) in needs:
            continue
        inputs = ports[each].inputs if each in ports else ()
        needs[each] = [makers[name] for name in inputs if name in makers]
        left += needs[each]
    try:
        found = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        names = " -> ".join(reversed(error.args[1]))
        raise UsageError(f"jobs take what they make: {names}") from error
    for each in found[:-1]:
        if ports[each].assigns:
            raise UsageError(
                f"job '{each}', which '{job}' needs, assigns variables: what comes "
                "after it depends on its runs"
            )
    return found


def inputs_of_chain(
    ports: Mapping[str, JobPorts], jobs: Sequence[str]
) -> dict[str, TensorType[Attribute]]:
    """The inputs that jobs take, in this order, and none of them makes."""
    made = {name for job in jobs for name in ports[job].outputs}
    return {
        name: type
        for job in jobs
        for name, type in ports[job].inputs.items()
        if name not in made
    }
