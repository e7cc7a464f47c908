"""Checks that the jobs of a session mean the same by one name of a variable."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region

from penstock.dialects.job import JobOp, OutputOp, VariableOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import reject_if_any
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.guards import Array
from penstock.tools.frontend.python.jobs import HOST, Job, TracedJob
from penstock.tools.frontend.python.trace import same_values


class Linker:
    """
    Knows the variables of the jobs so far: each as the first job defined it, and the
    array that it starts from, if any.
    """

    def __init__(self) -> None:
        self._jobs: list[JobOp] = []
        self._known: dict[str, Array | None] = {}

    def link(self, jobs: Sequence[TracedJob]) -> None:
        """
        Take jobs in. Raises `Rejected` if one defines a variable in another way than a
        job before, and then takes none of them.
        """
        definitions = [variables_of(traced) for traced in jobs]
        self._verify(definitions)
        known = dict(self._known)
        findings: list[Finding] = []
        for traced, job in zip(jobs, definitions, strict=True):
            for op in tuple(job.body.block.ops):
                assert isinstance(op, VariableOp), "nothing else was put there"
                name = op.port.data
                array = traced.weights.get(name)
                if name not in known:
                    known[name] = array
                    continue
                if not same_values(known[name], array):
                    text = f"variable '{name}' starts from another array in another job"
                    findings.append((op, text))
        reject_if_any(findings, "")
        self._take(definitions)
        self._known = known

    def _verify(self, definitions: Sequence[JobOp]) -> None:
        jobs = [job.clone() for job in (*self._jobs, *definitions)]
        run_pipeline(*installed_compiler(), ModuleOp(_renamed(jobs)), "verify-jobs")

    def _take(self, definitions: Sequence[JobOp]) -> None:
        """Keep the first definition of each name."""
        seen = set(self._known)
        for job in definitions:
            for op in tuple(job.body.block.ops):
                assert isinstance(op, VariableOp), "nothing else was put there"
                if op.port.data in seen:
                    op.detach()
                seen.add(op.port.data)
            if job.body.block.ops:
                self._jobs.append(job)


EXAMPLES = 2, 3
"""The values of named extents, to find variables that do not depend on them."""


def variables_alone(job: Job, known: Sequence[str]) -> TracedJob | None:
    """
    A job that hands out what a job whose extents have names calls variables, but for
    those that depend on extents and those that are `known`. None if there is none, or
    if that cannot be said before a call.
    """
    if not job.signature.has_known_parts:
        return None
    try:
        traced = [job.trace(*job.signature.example(extent)) for extent in EXAMPLES]
    except TraceError:
        # Its first call says why, or takes other extents.
        return None
    first, other = (
        {
            op.port.data: op
            for op in variables_of(each).body.block.ops
            if isinstance(op, VariableOp)
        }
        for each in traced
    )
    weights = traced[0].weights
    alike = [
        op
        for name, op in first.items()
        if name in other
        and name not in known
        and is_alike(op, other[name])
        and same_values(weights.get(name), traced[1].weights.get(name))
    ]
    if not alike:
        return None
    block = Block()
    for op in alike:
        variable = op.clone()
        block.add_ops([variable, OutputOp(op.port.data, variable.result)])
    module = ModuleOp([JobOp(job.name, HOST, Region(block))])
    names = {op.port.data for op in alike}
    kept = {name: array for name, array in weights.items() if name in names}
    return TracedJob(job.name, module, lambda outputs: None, kept)


def is_alike(op: VariableOp, other: VariableOp) -> bool:
    """Whether two ops define one variable."""
    facts = op.properties, op.attributes, op.result.type
    return facts == (other.properties, other.attributes, other.result.type)


def variables_of(traced: TracedJob) -> JobOp:
    """A job with the variables of another one, and nothing else."""
    variables = [
        op.clone() for op in traced.module.walk() if isinstance(op, VariableOp)
    ]
    return JobOp(traced.name, HOST, Region(Block(variables)))


def _renamed(jobs: list[JobOp]) -> list[JobOp]:
    """The jobs with names that differ: one that is compiled for two shapes is two."""
    taken: dict[str, int] = {}
    for job in jobs:
        name = job.sym_name.data
        count = taken[name] = taken.get(name, -1) + 1
        if count:
            job.properties["sym_name"] = type(job.sym_name)(f"{name}_{count}")
    return jobs
