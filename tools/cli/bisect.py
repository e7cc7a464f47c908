"""The search of `penstock-run --bisect`, and its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.dialects.launch import ProgramOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.runtime.errors import PenstockError
from penstock.tools.cli.exit_codes import EXIT_FAILED
from penstock.tools.cli.run_output import RunOutput
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.bisection import (
    Bisection,
    Findings,
    Wrong,
    WrongTask,
    any_rank,
    as_plain_loops,
    executable_of,
    first_wrong_output,
    first_wrong_task,
    of_all_ranks,
    own_program,
    run_in,
    schedules_of,
)
from penstock.tools.session.job_chain import (
    chain_of,
    inputs_of_chain,
    ports_of_jobs,
)
from penstock.tools.session.model import check_kernels
from penstock.tools.session.session import Model, Session, joined, lower, opening

if TYPE_CHECKING:
    import numpy as np

    from penstock.runtime.loading.initializers import Array
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.options import CompileOptions
    from penstock.tools.session.ranks import Ranks


class InputPort(NamedTuple):
    """An input of a job that is not compiled."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


def jobs_to_run(model: Model, job: str | None) -> list[str]:
    """
    The jobs that run for one of them: it comes last, behind those that make what it
    takes. None if the model is a single job, or a launch program.

    Raises UsageError if no job, or none of several, has this name.
    """
    ports = ports_of_jobs(model)
    if len(ports) < 2:
        return []
    known = ", ".join(ports)
    if job is None:
        raise UsageError(f"the module has several jobs: give --job, one of {known}")
    if job not in ports:
        raise UsageError(f"there is no job '{job}', the module has {known}")
    return chain_of(ports, job)


def ports_of(model: Model, jobs: Sequence[str]) -> dict[str, InputPort]:
    """The inputs that jobs are given, by name; without any, those of the only one."""
    ports = ports_of_jobs(model)
    return {
        name: InputPort(type.get_shape(), dtype_of(type.element_type))
        for name, type in inputs_of_chain(ports, jobs or list(ports)).items()
    }


@dataclass
class Search:
    """A search in the pipeline that a model is compiled by."""

    model: Model
    inputs: Mapping[str, Array]
    reference: Mapping[str, Array]
    tolerance: float
    jobs: Sequence[str] = ()
    """Those that run, in this order; the outputs of the last one are compared."""
    allow_source: bool = False
    ranks: Ranks | None = None
    """The processes that search together, if there are several."""

    def run(
        self,
        options: CompileOptions,
        front: tuple[Compiler, PassTable],
        engine: str,
        report: RunOutput,
    ) -> int:
        """Search, report, and return the exit code: 1 if something is wrong."""
        bisection = Bisection(
            self.model,
            self.inputs,
            self.reference,
            self.tolerance,
            self.jobs,
            allow_source=self.allow_source,
            ranks=self.ranks,
        )
        bisection.check_start()
        front[0].instrumentations.append(bisection)
        found, failure = bisection.found, None
        try:
            with self._compiled(options, front) as session:
                task = first_wrong_task(
                    session,
                    self.inputs,
                    bisection.values,
                    self.tolerance,
                    self.jobs,
                    bisection.flows,
                )
            task = self._with_schedules(task, bisection.values)
            found.task = of_all_ranks(self.ranks, task, bisection.order)
            if engine != "sequential" and not (found.wrong or found.task):
                found.engine = self._wrong_on(engine, options)
        except PenstockError as error:
            # A later pass or a check may refuse what an earlier one has done.
            if found.wrong is None:
                raise
            failure = error
        finally:
            front[0].instrumentations.remove(bisection)
        report.say(lines_of(found, engine, failure), facts_of(found))
        return EXIT_FAILED if found.wrong or found.task or found.engine else 0

    def _compiled(
        self, options: CompileOptions, front: tuple[Compiler, PassTable]
    ) -> Session:
        """A session of the model, which each of several ranks compiles."""
        ranks = None if self.ranks is None else joined(self.ranks.transport.size)
        with opening(ranks):
            if not self.allow_source:
                check_kernels(self.model)
            lowering = lower(*front, self.model, options)
            program = own_program(self.model, ranks)
            threads = lowering.options.threads
            exported = executable_of(program, self.model, ranks, threads)
            # Kernels that were read are checked above.
            return Session.of(
                exported,
                exported.threads,
                "sequential",
                allow_source=True,
                ranks=ranks,
            )

    def _with_schedules(
        self, task: WrongTask | None, values: Mapping[str, Array]
    ) -> WrongTask | None:
        """A wrong task, with its schedules if plain loops in their place are right."""
        program = own_program(self.model, self.ranks)
        loops, found = None, ()
        if task is not None and not task.read:
            found = schedules_of(program, task.task)
        if task is not None and found:
            with suppress(PenstockError):
                loops = as_plain_loops(program, task.task)
        # Other ranks need this one for what they try.
        if not any_rank(self.ranks, is_so=loops is not None):
            return task
        with self._session_of(loops or program, 1, "sequential") as session:
            facts = self.tolerance, self.jobs
            wrong = first_wrong_task(session, self.inputs, values, *facts)
        if task is None or loops is None:
            return task
        is_right = wrong is None or wrong.task != task.task
        return replace(task, schedules=found) if is_right else task

    def _wrong_on(self, engine: str, options: CompileOptions) -> str | None:
        """The difference of outputs on another engine than the reference executor."""
        program = own_program(self.model, self.ranks)
        with self._session_of(program, options.threads, engine) as session:
            outputs = run_in(session, self.inputs, self.jobs)
        wrong = first_wrong_output(outputs, self.reference, self.tolerance)
        return None if wrong is None else " ".join(wrong)

    def _session_of(self, program: ProgramOp, threads: int, engine: str) -> Session:
        """A session of a program that the model was compiled to, with its weights."""
        allowed, ranks = self.allow_source, self.ranks
        exported = executable_of(program, self.model, ranks)
        return Session.of(exported, threads, engine, allow_source=allowed, ranks=ranks)


def lines_of(
    found: Findings, engine: str, failure: PenstockError | None = None
) -> Iterator[str]:
    """
    The lines of a finding, for a person; a failure kept tasks from being compared.
    """
    checked = f"ran the IR after {len(found.checked)} passes that change it"
    yield checked + (f", not after {len(found.skipped)}" if found.skipped else "")
    for name, reason in found.skipped.items():
        yield f"  not after {name}: {reason}"
    yield _pass_line(found.wrong)
    if failure is None:
        yield _task_line(found.task)
    else:
        yield f"tasks were not compared: {failure}"
    if found.engine is not None:
        yield f"the executor '{engine}' gives wrong outputs: {found.engine}"


def _pass_line(wrong: Wrong | None) -> str:
    if wrong is None:
        return "no pass makes the outputs wrong"
    name = f"{wrong.pass_name} (number {wrong.position + 1} of the pipeline)"
    return f"first pass whose output runs wrong: {name}: {wrong.output} {wrong.text}"


def _task_line(task: WrongTask | None) -> str:
    if task is None:
        return "no task differs from the reference"
    place = f" at {task.place}" if task.place else ""
    how = "reads" if task.read else "writes"
    since = " since it was written" if task.read else ""
    what = f"{how} {task.register}, which {task.text}{since}"
    line = f"first task that differs from the reference: {task.task}{place}: {what}"
    if (inside := task.inside) is not None:
        iterations = ", ".join(map(str, inside.iterations))
        where = f" in iteration {iterations}" if iterations else ""
        line += f"\n  in its body{where}, {inside.value} {inside.text} first"
    if task.schedules:
        line += f"\n  it is right as plain loops, not as {'; '.join(task.schedules)}"
    return line


def facts_of(found: Findings) -> dict[str, object]:
    """A finding as values for JSON."""
    return {"bisect": asdict(found)}
