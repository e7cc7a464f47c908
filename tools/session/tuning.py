"""
Measuring the alternatives of a model's kernels: what `penstock-run --tune` does.

A copy of the model is lowered to kernels that nothing has been chosen for. Of each one
for the CPU, or for the GPU if the model runs on one, the first candidates in order of
priority and model are compiled, those for the CPU in parallel processes, and measured
side by side; those of which the kernel database knows the times already are not
measured again. Then it is told the times of tasks: the sum of what the best candidates
of their kernels take.

Fused ops are measured in parts, too, where a part has an alternative that the whole has
not (`tuning_splits`): then `op-split-groups` knows both times.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.utils.arg_spec import ArgSpec

from penstock.lowering.analysis.constant_arguments import called_kernels
from penstock.lowering.codegen.cpu.vector_width import (
    has_matrices_here,
    vector_bytes_here,
)
from penstock.lowering.kernel_times.database import (
    DatabaseError,
    KernelDatabase,
    Time,
)
from penstock.lowering.kernel_times.keys import (
    WHOLE,
    Key,
    key_of_task,
    machine_here,
    machine_of,
)
from penstock.lowering.launch.autotune.alternatives import Request
from penstock.lowering.launch.autotune.choice import Candidate, candidates_for, choose
from penstock.lowering.launch.autotune.contractions import schedule
from penstock.lowering.launch.autotune.registry import alternatives
from penstock.lowering.launch.autotune.selection import (
    SELECTED,
    apply,
    key_of,
    times_now,
)
from penstock.lowering.pipelines import Passes, PipelineOptions, splitting
from penstock.plugins import PluginError
from penstock.runtime.cuda.device import device_name
from penstock.runtime.jit.cache_files import FOR_USER, is_private
from penstock.tools.driver.compiler import run_pipeline
from penstock.tools.driver.diagnostics import FileError, UsageError
from penstock.tools.driver.edited_pipeline import edited_passes
from penstock.tools.driver.progress import Progress
from penstock.tools.session.model import Model, pipeline_options
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.pipeline_choice import chosen
from penstock.tools.session.tuning_splits import split_copies

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from penstock.dialects.launch import KernelOp, ProgramOp
    from penstock.runtime.cuda.driver import Driver
    from penstock.runtime.observe.kernel_timer import Contender
    from penstock.runtime.observe.timing_rounds import Effort, Result
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable

log = logging.getLogger(__name__)

MOST_CANDIDATES = 16
"""The number of candidates of a kernel that are measured, those that come first."""
FINALISTS, FINALS = 3, 4
"""The fastest that are measured once more, and how often that is done at most until the
one that is fastest then is one of them."""


_MEASURED_BEFORE = "plan-order-tasks", "launch-select-kernels"
"""The passes before which tasks, and kernels, are as they are measured."""

_MAKES_TASKS = "convert-job-to-plan"
"""The pass before which fused ops are as they are measured."""


@dataclass(frozen=True)
class Tuning:
    """
    The options of tuning: the model as these options compile it, and the effort of
    measurements.
    """

    options: CompileOptions
    most: int = MOST_CANDIDATES
    effort: Effort | None = None
    driver: Driver | None = None
    """
    The driver of the GPU for kernels of `cuda`, which are not measured without it.
    """

    @property
    def database(self) -> Path:
        """Where measured times go."""
        assert self.options.database is not None, "tuning is given a database"
        return self.options.database

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of kernels that are measured."""
        return ("cpu",) if self.driver is None else ("cpu", "cuda")

    @property
    def gpu(self) -> str:
        """The name of the GPU in the database."""
        return "" if self.driver is None else device_name(self.driver)


@dataclass
class Subject:
    """A kernel, what can compute it, and what was found out about that."""

    request: Request
    key: Key
    candidates: Sequence[Candidate]
    times: dict[str, float]
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """The texts of the candidates that are to be measured."""
    same: dict[str, str] = field(default_factory=dict[str, str])
    """Candidates whose source is that of another one, and this."""
    is_part: bool = False
    """Whether it is one of a model whose fused ops are in parts."""
    is_compared: bool = False
    """Whether its time counts also where there is nothing to choose."""
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why candidates take no part, by name."""
    kernels: dict[str, KernelOp] = field(default_factory=dict[str, "KernelOp"])
    """The candidates' versions of the kernel."""

    @property
    def name(self) -> str:
        """The name of the kernel in the program."""
        return self.request.kernel.sym_name.data

    @property
    def usual_ns(self) -> float | None:
        """The time of the choice without measurements, if it was measured."""
        return self.times.get(self.candidates[0].name)

    @property
    def chosen(self) -> Candidate:
        """The choice by the known times."""
        return choose(self.candidates, self.times)

    @property
    def chosen_ns(self) -> float | None:
        """The time of that choice, if it was measured."""
        return self.times.get(self.chosen.name)


def tune(
    front: tuple[Compiler, PassTable],
    model: Model,
    tuning: Tuning,
) -> list[Subject]:
    """
    Measure what the kernel database does not know of a model's kernels for the CPU, and
    of its tasks; one subject for each kernel.

    Raises FileError if the database or an alternative cannot be used, UsageError for a
    pipeline that cannot, and `Rejected` if the model cannot be lowered.
    """
    way, options = _way(front, model, tuning.options)
    tuning = replace(tuning, options=options)
    if options.device == "cuda" and tuning.driver is None:
        tuning = replace(tuning, driver=driver_here())
    try:
        with KernelDatabase(tuning.database, write=True) as database:
            subjects = _tune(front, model, tuning, database, way)
    except (PluginError, DatabaseError) as error:
        raise FileError(str(error)) from error
    for subject in subjects:
        candidates, best = len(subject.candidates), subject.chosen_ns
        log.debug("%s: %d candidates, best %s ns", subject.name, candidates, best)
    return subjects


@dataclass(frozen=True)
class Way:
    """The passes of a pipeline that is tuned, up to its kernels."""

    to_groups: Passes
    """To jobs with their fused ops; none where there are plans already."""
    to_tasks: Passes
    to_kernels: Passes


def _way(
    front: tuple[Compiler, PassTable], model: Model, options: CompileOptions
) -> tuple[Way, CompileOptions]:
    """
    The passes that leave tasks and kernels to be measured, with the options that their
    pipeline says. Raises UsageError for one without such tasks.
    """
    standard = pipeline_options(options, merge=model.has_several)
    # Nothing is chosen by what was measured before.
    unmeasured = replace(standard, database=None, gpu="")
    choice = chosen(*front, replace(options, database=None), unmeasured)
    left = edited_passes(choice.steps, options.edits, None)
    left = tuple(_as_if_timed(spec, standard.threads) for spec in left)
    parts: list[Passes] = []
    for end in _MEASURED_BEFORE:
        names = [spec.name for spec in left]
        if end not in names:
            raise UsageError(
                f"--tune measures what the pass {end} is given, but the "
                "pipeline has no such pass"
            )
        parts.append(left[: names.index(end)])
        left = left[names.index(end) :]
    to_tasks, to_kernels = parts
    names = [spec.name for spec in to_tasks]
    at = names.index(_MAKES_TASKS) if _MAKES_TASKS in names else 0
    way = Way(to_tasks[:at], to_tasks[at:], to_kernels)
    return way, replace(choice.options, database=options.database)


def _as_if_timed(spec: ArgSpec, threads: int) -> ArgSpec:
    """
    A pass as pipelines have it that know times: the order of tasks on several streams
    decides which results lie over operands, and so which kernels there are.
    """
    is_free = threads > 1 and "policy" not in spec.parameters
    if spec.name != "plan-assign-streams" or not is_free:
        return spec
    return ArgSpec(spec.name, {**spec.parameters, "policy": ("critical-path",)})


def driver_here() -> Driver | None:
    """The driver of the GPU, unless that is only simulated."""
    from penstock.runtime.cuda import device as cuda

    driver = cuda.open_cuda().driver
    return None if driver.is_simulated else driver


def usable(path: Path) -> Path | None:
    """
    Make room for a new kernel database where a file cannot be used as one, as others
    can have written it, too: it gets another name, which is returned. None if there is
    none, for which an empty file of this user alone is made, or if it can be used.

    Raises UsageError if it cannot be renamed.
    """
    if not path.exists():
        path.touch(FOR_USER)
        return None
    try:
        if not is_private(status := path.stat()):
            raise DatabaseError("others can have written it")
        if status.st_size or not path.is_file():
            KernelDatabase(path).close()
    except DatabaseError:
        aside = path.with_name(f"{path.name}.broken")
        try:
            path.replace(aside)
        except OSError as error:
            raise UsageError(f"cannot rename {path}: {error.strerror}") from error
        path.touch(FOR_USER)
        return aside
    return None


def _tune(
    front: tuple[Compiler, PassTable],
    model: Model,
    tuning: Tuning,
    database: KernelDatabase,
    way: Way,
) -> list[Subject]:
    whole = model.module.clone()
    run_pipeline(*front, whole, way.to_groups)
    splits = [*split_copies(whole)]
    found: list[Subject] = []

    def take(module: ModuleOp, *, is_part: bool) -> None:
        copy = Model(module, model.weights, model.directory)
        run_pipeline(*front, module, way.to_tasks)
        tasks = tasks_of(copy, tuning.options.threads, tuning.gpu)
        run_pipeline(*front, module, way.to_kernels)
        subjects = subjects_of(copy, tuning, database)
        for subject in subjects:
            subject.is_part, subject.is_compared = is_part, bool(splits)
        measure_all(subjects, tuning, database)
        record_tasks(copy, tasks, subjects, database)
        found.extend(subjects)

    take(whole.clone(), is_part=False)
    for module in splits:
        take(module, is_part=True)
    if splits:
        # Places, and so kernels, may depend on which groups are split.
        run_pipeline(*front, whole, splitting(tuned_options(tuning)))
        take(whole, is_part=True)
    return found


def tuned_options(tuning: Tuning) -> PipelineOptions:
    """The options of a pipeline that knows the database."""
    database, threads = str(tuning.database), tuning.options.threads
    return PipelineOptions(database=database, gpu=tuning.gpu, threads=threads)


def measure_all(
    subjects: Sequence[Subject], tuning: Tuning, database: KernelDatabase
) -> None:
    """Compile and measure the candidates of kernels, and tell the database."""
    compile_subjects(subjects)
    with Progress("measuring kernels", len(subjects)) as progress:
        for subject in subjects:
            measure(subject, tuning, database)
            progress.advance()


################################################################################
# Kernels                                                                      #
################################################################################


def subjects_of(
    model: Model, tuning: Tuning, database: KernelDatabase
) -> list[Subject]:
    """The kernels that can be measured and that nothing has been chosen for."""
    found: list[Subject] = []
    for kernel, constants in called_kernels(model.module):
        if kernel.target.data in tuning.targets and SELECTED not in kernel.attributes:
            numbers = frozenset(constants if tuning.options.panels else ())
            facts = tuning.options.threads, vector_bytes_here(), has_matrices_here()
            request = Request(kernel, numbers, *facts)
            found.append(subject_of(request, tuning, database))
    return found


def subject_of(request: Request, tuning: Tuning, database: KernelDatabase) -> Subject:
    """A kernel, with the sources of the candidates whose times nobody knows."""
    candidates, _ = candidates_for(request, alternatives())
    machine = machine_of(request.target, machine_here(), tuning.gpu)
    key = key_of(request, machine)
    known = times_now(candidates, database.times(key))
    subject = Subject(request, key, candidates, known)
    wanted = candidates[: tuning.most]
    if all(candidate.name in known for candidate in wanted):
        return subject
    # Times of today are not compared with those of another day.
    for candidate in wanted:
        make_source(subject, candidate)
    return subject


def make_source(subject: Subject, candidate: Candidate) -> None:
    """Note the source of a candidate, or why there is none."""
    from penstock.dialects.utils.diagnostics import LocatedPassFailure
    from penstock.lowering.codegen.target import kernel_source

    kernel = subject.request.kernel.clone()
    apply(candidate, kernel)
    schedule(kernel, subject.request)
    try:
        source = kernel_source(kernel)
    except LocatedPassFailure as failure:
        texts = (text for _, text in failure.findings)
        subject.problems[candidate.name] = "; ".join(texts)
        return
    for other, text in subject.sources.items():
        if text == source and subject.kernels[other].panels == kernel.panels:
            subject.same[candidate.name] = other
            return
    subject.sources[candidate.name] = source
    subject.kernels[candidate.name] = kernel


def compile_subjects(subjects: Sequence[Subject]) -> None:
    """Compile the candidates for the CPU, as far as other processes can."""
    from penstock.runtime.jit.pool import compile_missing

    sources = {
        f"{number} {name}": text
        for number, subject in enumerate(subjects)
        if subject.request.target == "cpu"
        for name, text in subject.sources.items()
    }
    with Progress("compiling candidates", len(sources)) as progress:
        compile_missing(sources, done=lambda name: progress.advance())


def measure(subject: Subject, tuning: Tuning, database: KernelDatabase) -> None:
    """Measure the candidates of a kernel, and tell the database."""
    from penstock.runtime.observe.kernel_timer import profile
    from penstock.tools.session.program_export import kernel_image

    if subject.request.target == "cuda":
        measure_on_device(subject, tuning, database)
        return
    contenders = [*contenders_of(subject)]
    if not contenders:
        return
    kinds = kernel_image(subject.request.kernel).arguments

    def times_of(some: Sequence[Contender], seed: int) -> list[Result]:
        threads, effort = tuning.options.threads, tuning.effort
        return profile(some, kinds, threads=threads, effort=effort, seed=seed)

    results = confirmed(contenders, times_of(contenders, 0), times_of)
    note_problems(subject, results)
    keep_results(subject, results, database)


def measure_on_device(
    subject: Subject, tuning: Tuning, database: KernelDatabase
) -> None:
    """Measure the candidates of a kernel for `cuda`, and tell the database."""
    from penstock.runtime.cuda.kernel_timer import profile_on_device
    from penstock.tools.session.program_export import kernel_image

    assert tuning.driver is not None, "there are no such subjects without it"
    if len(subject.sources) < (1 if subject.is_compared else 2):
        return
    kinds = kernel_image(subject.request.kernel).arguments
    sources, effort = subject.sources, tuning.effort
    results = profile_on_device(tuning.driver, sources, kinds, effort=effort)
    note_problems(subject, results)
    keep_results(subject, results, database)


def note_problems(subject: Subject, results: Sequence[Result]) -> None:
    """Note why contenders take no part."""
    problems = {
        result.name: result.problem for result in results if result.problem is not None
    }
    subject.problems.update(problems)


def confirmed(
    contenders: Sequence[Contender],
    results: Sequence[Result],
    times_of: Callable[[Sequence[Contender], int], list[Result]],
) -> list[Result]:
    """
    Results where those of the fastest come from a second measurement, on other
    arguments, beside the first contender only: the least of many times is too good to
    be true.
    """
    found = {result.name: result for result in results}
    first, seen = contenders[0].name, set[str]()
    for seed in range(1, FINALS + 1):
        sampled = [result for result in found.values() if result.samples]
        by_time = sorted(sampled, key=lambda result: result.median_ns)
        if not by_time or by_time[0].name in seen or by_time[0].name == first:
            break
        names = {first, *(result.name for result in by_time[:FINALISTS])}
        again = times_of([c for c in contenders if c.name in names], seed)
        found.update({result.name: result for result in again})
        seen |= names
    return [found[result.name] for result in results]


def contenders_of(subject: Subject) -> Iterator[Contender]:
    """The candidates in machine code, as far as they can be compiled."""
    from penstock.runtime.jit.cpu import compile_cpu
    from penstock.runtime.observe.kernel_timer import Contender
    from penstock.tools.session.program_export import panels_of

    for name, source in subject.sources.items():
        try:
            compiled = compile_cpu(source, subject.name)
        except Exception as error:
            subject.problems[name] = f"{type(error).__name__}: {error}"
            continue
        panels = subject.kernels[name].panels
        lies = [None if found is None else panels_of(found) for found in panels]
        yield Contender(name, compiled, lies)


def keep_results(
    subject: Subject, results: Sequence[Result], database: KernelDatabase
) -> None:
    """Put what was measured into the database, and into the subject."""
    sources = {c.name: c.alternative.code for c in subject.candidates}
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    times = {
        found.name: Time(
            found.median_ns,
            found.least_ns,
            len(found.samples),
            stamp,
            sources[found.name],
        )
        for found in results
        if found.samples
    }
    for name, other in subject.same.items():
        if other in times:
            times[name] = replace(times[other], source=sources[name])
    request = subject.request
    database.record(subject.key, times, op=request.op, target=request.target)
    subject.times.update({name: time.median_ns for name, time in times.items()})


################################################################################
# Tasks                                                                        #
################################################################################


def tasks_of(model: Model, parts: int, gpu: str = "") -> dict[str, Key]:
    """
    The keys of tasks that compute, by the names that their actors will have; on `cuda`
    those of the GPU of this name.
    """
    from penstock.dialects.plan import PlanOp

    plans = [op for op in model.entries if isinstance(op, PlanOp)]
    found: dict[str, Key] = {}
    for plan in plans:
        prefix = f"{plan.sym_name.data}/" if len(plans) > 1 else ""
        for task in plan.tasks:
            if task.kind == "compute":
                found[prefix + task.task_name.data] = key_of_task(task, parts, gpu)
    return found


def record_tasks(
    model: Model,
    tasks: Mapping[str, Key],
    subjects: Sequence[Subject],
    database: KernelDatabase,
) -> None:
    """Tell the database what tasks take all of whose kernels were measured."""
    from penstock.dialects.launch import ProgramOp

    times = {subject.name: subject.chosen_ns for subject in subjects}
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    for program in model.entries:
        if not isinstance(program, ProgramOp):
            continue
        for name, kernels in calls_of(program):
            taken = [times.get(kernel) for kernel in kernels]
            known = [time for time in taken if time is not None]
            if name in tasks and taken and len(known) == len(taken):
                whole = Time(sum(known), sum(known), 1, stamp)
                database.record(tasks[name], {WHOLE: whole}, op="task")


def calls_of(program: ProgramOp) -> Iterator[tuple[str, list[str]]]:
    """The actors of a program by name, each with the kernels that it calls."""
    from penstock.dialects.launch import CallOp, steps_within

    for actor in program.actors:
        steps = [*steps_within(actor.body.block)]
        calls = [step for step in steps if isinstance(step, CallOp)]
        kernels = [call.kernel.root_reference.data for call in calls]
        yield actor.sym_name.data, kernels


################################################################################
# Reports                                                                      #
################################################################################

HEAD = ("kernel", "op", "rules us", "best us", "gain", "selected")


def tuning_lines(subjects: Sequence[Subject]) -> list[str]:
    """A table of kernels for which there was a choice, and what was gained."""
    parts = sum(subject.is_part for subject in subjects)
    subjects = [subject for subject in subjects if not subject.is_part]
    found = [subject for subject in subjects if len(subject.candidates) > 1]
    rows = [row for subject in found if (row := _row(subject)) is not None]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in ((HEAD, *rows) if rows else ())
    ]
    before = sum(subject.usual_ns or 0.0 for subject in found)
    after = sum(subject.chosen_ns or 0.0 for subject in found)
    problems = sum(len(subject.problems) for subject in subjects)
    left_out = f", {problems} candidates left out" if problems else ""
    lines.append(
        f"tuned {len(rows)} of {len(subjects)} kernels: {before / 1e3:.1f} -> "
        f"{after / 1e3:.1f} us{left_out}"
    )
    if parts:
        lines.append(f"measured {parts} kernels of models with fused ops in parts")
    return [line.rstrip() for line in lines]


def _row(subject: Subject) -> tuple[str, ...] | None:
    usual, best = subject.usual_ns, subject.chosen_ns
    if usual is None or best is None:
        return None
    return (
        subject.name,
        subject.request.op,
        f"{usual / 1e3:.2f}",
        f"{best / 1e3:.2f}",
        f"{usual / best:.2f}",
        subject.chosen.name,
    )


def problem_lines(subjects: Sequence[Subject]) -> list[str]:
    """Why candidates were left out, a line each."""
    return [
        f"kernel @{subject.name}: {name} is left out: {problem}"
        for subject in subjects
        for name, problem in subject.problems.items()
    ]
