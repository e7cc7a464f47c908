"""
The search for the first pass whose output runs wrong, and the first task.

After each pass that has changed the IR, the IR is run and its outputs are compared with
those of a reference. Jobs and plans are evaluated by NumPy, plans with memory on its
bytes, and launch programs run one task after the other. So an error is found at the
pass that makes it, not at the end of the pipeline.

The tasks of the final program are compared with the values that the last IR which ran
right has under their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import ActorOp, CallOp, KernelOp, ProgramOp
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.plan import PlanOp
from penstock.dialects.utils.exact_printer import ExactPrinter
from penstock.runtime.errors import PenstockError
from penstock.tools.driver.instrumentation import PassInstrumentation, Step
from penstock.tools.session.differences import difference, relative_error
from penstock.tools.session.model import Model, program_of, programs_of
from penstock.tools.session.oracle import Evaluation, with_steps
from penstock.tools.session.placed_oracle import PlacedEvaluation, has_places

if TYPE_CHECKING:
    from penstock.runtime.executors.watched import Look, LookInside, Seen
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.session.body_bisection import Flows, WrongCall
    from penstock.tools.session.program_export import ExportedProgram
    from penstock.tools.session.ranks import Ranks
    from penstock.tools.session.session import Session


@dataclass(frozen=True)
class Wrong:
    """A pass, and the output that is wrong after it."""

    position: int
    pass_name: str
    output: str
    text: str
    """The difference of the output, such as `differs by 1.00e+00`."""


@dataclass(frozen=True)
class WrongTask:
    """A task whose result differs from the reference, or what it read."""

    task: str
    place: str | None
    register: str
    text: str
    read: bool = False
    """Whether the register was right when it was written, and wrong when read."""
    schedules: tuple[str, ...] = ()
    """The schedules of its kernels, if it is right without them: as plain loops."""
    inside: WrongCall | None = None
    """The first value that is wrong in its bodies, if that was found."""


@dataclass
class Findings:
    """The result of a search."""

    checked: list[str] = field(default_factory=list[str])
    """The passes whose output was run, in the order of the pipeline."""
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """The passes whose output could not be run, and why."""
    wrong: Wrong | None = None
    task: WrongTask | None = None
    engine: str | None = None
    """The difference of the outputs of the engine that was asked for, if all else is
    right."""


class Bisection(PassInstrumentation):
    """
    An instrumentation that runs the IR after each pass that has changed it, until one
    has wrong outputs. Of several `jobs`, which run in this order, the last one's are
    compared. Each of several `ranks` evaluates all of them, and runs its own program.
    """

    def __init__(
        self,
        model: Model,
        inputs: Mapping[str, Array],
        reference: Mapping[str, Array],
        tolerance: float,
        jobs: Sequence[str] = (),
        *,
        allow_source: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        self._allow_source = allow_source
        self._ranks = ranks
        self._model = model
        self._inputs = inputs
        self._reference = reference
        self._tolerance = tolerance
        self._jobs = tuple(jobs)
        self._text = ""
        self.found = Findings()
        self.values: Mapping[str, Array] = {}
        """The values of the last IR that ran right, by the names of registers."""
        self.order: Sequence[str] = ()
        """The tasks of the last plans, of all ranks, in an order of their data."""
        self.flows: Flows = {}
        """Its loops and conditions, by the registers of their results."""

    def check_start(self) -> None:
        """Run the model as it is. Raises PenstockError if that differs already."""
        self._text = _text_of(self._model.module)
        if (wrong := self._first_wrong(self._model.module)) is not None:
            output, text = wrong
            raise PenstockError(
                f"the model differs from the reference before any pass: {output} {text}"
            )

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        if self._ranks is not None:
            self._note_order(replace(self._model, module=module))
        if self.found.wrong is not None or (text := _text_of(module)) == self._text:
            return
        self._text = text
        try:
            wrong = self._first_wrong(module)
        except PenstockError as error:
            self.found.skipped[step.name] = str(error)
            return
        self.found.checked.append(step.name)
        if wrong is not None:
            self.found.wrong = Wrong(step.position, step.name, *wrong)

    def _note_order(self, model: Model) -> None:
        """Keep the order of tasks, which programs alone do not tell."""
        plans = [entry for entry in model.entries if isinstance(entry, PlanOp)]
        if plans:
            tasks = Evaluation(model, {}).tasks_of(plans)
            self.order = [task.task_name.data for task in tasks]

    def _first_wrong(self, module: ModuleOp) -> tuple[str, str] | None:
        """The first output that is wrong, and how."""
        outputs, values, flows = self._run(replace(self._model, module=module))
        wrong = first_wrong_output(outputs, self._reference, self._tolerance)
        if wrong is None:
            self.values = {**self.values, **values}
            self.flows = {**self.flows, **flows}
        return wrong

    def _run(self, model: Model) -> tuple[dict[str, Array], dict[str, Array], Flows]:
        """
        The outputs of a model, and its values, loops and conditions by the names of
        registers.
        """
        import numpy as np

        if any(isinstance(entry, ProgramOp) for entry in model.entries):
            return self._run_program(model), {}, {}
        model = with_steps(model)
        entries = model.entries
        plans = [entry for entry in entries if isinstance(entry, PlanOp)]
        kind = PlacedEvaluation if any(map(has_places, plans)) else Evaluation
        evaluation = kind(model, self._inputs)
        with np.errstate(all="ignore"):
            if self._jobs:
                evaluation.run_jobs(entries, self._jobs)
            elif model.is_of_ranks:
                evaluation.run_plans(plans)
            else:
                evaluation.run_entry(model.entry)
        return evaluation.results, evaluation.named(), evaluation.flows()

    def _run_program(self, model: Model) -> dict[str, Array]:
        from penstock.tools.session.session import Session

        program = own_program(model, self._ranks)
        executable = executable_of(program, model, self._ranks)
        allowed, ranks = self._allow_source, self._ranks
        with Session.of(
            executable, 1, "sequential", allow_source=allowed, ranks=ranks
        ) as session:
            return run_in(session, self._inputs, self._jobs)


def run_in(
    session: Session, inputs: Mapping[str, Array], jobs: Sequence[str]
) -> dict[str, Array]:
    """
    The outputs of the last of some jobs that run one after the other, each on those of
    the inputs that it takes. A session of one job needs no name.
    """
    outputs: dict[str, Array] = {}
    for job in jobs_in(session, jobs):
        known = session.inputs(job)
        fed = {name: array for name, array in inputs.items() if name in known}
        outputs = session.run(fed, job)
        if session.ranks is not None:
            outputs = session.ranks.union(outputs)
    return outputs


def own_program(model: Model, ranks: Ranks | None) -> ProgramOp:
    """The program of this process, which is one of several ranks if there are any."""
    if ranks is None:
        return program_of(model)
    return ranks.in_order(programs_of(model))[ranks.transport.rank]


def executable_of(
    program: ProgramOp, model: Model, ranks: Ranks | None, threads: int = 1
) -> ExportedProgram:
    """The program of this process that a model was lowered to, with its weights."""
    from penstock.tools.session.program_export import ExportedProgram

    weights, folder = model.weights, model.directory
    made = ExportedProgram(program, weights, folder, threads=threads)
    return made if ranks is None else made.with_own_weights()


def jobs_in(session: Session, jobs: Sequence[str]) -> Sequence[str | None]:
    """The jobs as a session is asked for them: one that is alone needs no name."""
    return jobs if len(session.jobs) > 1 and jobs else (None,)


def first_wrong_output(
    outputs: Mapping[str, Array], reference: Mapping[str, Array], tolerance: float
) -> tuple[str, str] | None:
    """The first output by name that is not as the reference says, and how."""
    for name in sorted(outputs):
        if name not in reference:
            return name, "is no output of the reference"
        text, error = difference(outputs[name], reference[name])
        if error > tolerance:
            return name, text
    return None


def _text_of(module: ModuleOp) -> str:
    from io import StringIO

    stream = StringIO()
    ExactPrinter(stream).print_op(module)
    return stream.getvalue()


def first_wrong_task(
    session: Session,
    inputs: Mapping[str, Array],
    values: Mapping[str, Array],
    tolerance: float,
    jobs: Sequence[str] = (),
    flows: Flows | None = None,
) -> WrongTask | None:
    """
    The first task, in the order of a run of the reference executor, that writes other
    than the values say, or reads other than was written; of several jobs, which run one
    after the other, or of the only one. The engine of the session has to be
    `sequential`. Of a loop or condition it is looked for in its bodies, too. Of several
    ranks each looks at its own tasks.
    """
    from penstock.runtime.executors.watched import WatchedRun
    from penstock.tools.session.body_bisection import body_search

    image = session.executable.image
    places = {actor.name: actor.place for actor in image.actors}
    found: list[WrongTask] = []
    written: dict[str, Array] = {}

    def look(moment: str, seen: Seen) -> None:
        if found:
            return
        expected = written.get(seen.register) if moment == "read" else None
        if moment == "written":
            written[seen.register] = seen.array
            expected = values.get(seen.register)
        text = _unlike(seen.array, expected, 0.0 if moment == "read" else tolerance)
        if text is not None:
            is_read, place = moment == "read", places.get(seen.actor)
            found.append(WrongTask(seen.actor, place, seen.register, text, is_read))

    def run(look: Look, look_inside: LookInside | None = None) -> None:
        for job in jobs_in(session, jobs):
            executor = session.executor_of(job)
            executor.reference = lambda tables, acts, image=executor.program.image: (
                WatchedRun(tables, acts, image, look, look_inside)
            )
        run_in(session, inputs, jobs)

    run(look)
    wrong = found[0] if found else None
    search = None
    if wrong is not None and not wrong.read:
        search = body_search(
            session.program, wrong.task, flows or {}, wrong.register, tolerance
        )
    if any_rank(session.ranks, is_so=search is not None):
        run(lambda moment, seen: None, None if search is None else search.look)
    if wrong is not None and search is not None:
        wrong = replace(wrong, inside=search.found)
    return wrong


def any_rank(ranks: Ranks | None, *, is_so: bool) -> bool:
    """Whether something is so here or on another rank, all of which ask this."""
    return is_so if ranks is None else any(ranks.values(is_so))


def of_all_ranks(
    ranks: Ranks | None, own: WrongTask | None, order: Sequence[str]
) -> WrongTask | None:
    """
    The first wrong task of all ranks, of which this one has found its own first, by the
    order in which tasks read from each other.
    """
    if ranks is None:
        return own
    found = [_task_of(x) for x in ranks.values(_facts(own)) if x is not None]
    places = {task: place for place, task in enumerate(order)}
    return min(found, key=lambda x: places.get(x.task, len(places)), default=None)


def _facts(task: WrongTask | None) -> dict[str, object] | None:
    return None if task is None else asdict(task)


def _task_of(facts: dict[str, Any]) -> WrongTask:
    """A wrong task of another rank, by the values that it has given."""
    from penstock.tools.session.body_bisection import WrongCall

    inside, schedules = facts.pop("inside"), tuple(facts.pop("schedules"))
    if inside is not None:
        inside["iterations"] = tuple(inside["iterations"])
        inside = WrongCall(**inside)
    return WrongTask(**facts, inside=inside, schedules=schedules)


def schedules_of(program: ProgramOp, task: str) -> tuple[str, ...]:
    """The schedules of the kernels that a task calls, with their kernels and stages."""
    return tuple(
        f"{kernel.sym_name.data}: {stage.name} by {stage.attributes[SCHEDULE]}"
        for kernel in kernels_of(program, task)
        for stage in kernel.body.block.ops
        if SCHEDULE in stage.attributes
    )


def as_plain_loops(program: ProgramOp, task: str) -> ProgramOp:
    """
    A copy of a program in which the kernels that a task calls have no schedules. Raises
    `PenstockError` if an argument of these lies in panels, which only schedules read.
    """
    copy = program.clone()
    for kernel in kernels_of(copy, task):
        if PANELS in kernel.attributes:
            raise PenstockError(f"operands of {kernel.sym_name.data} lie in panels")
        for stage in kernel.body.block.ops:
            stage.attributes.pop(SCHEDULE, None)
    return copy


def kernels_of(program: ProgramOp, task: str) -> list[KernelOp]:
    """The kernels that a task calls, in the order of the program."""
    called = {
        call.kernel.root_reference.data
        for actor in program.body.block.ops
        if isinstance(actor, ActorOp) and actor.sym_name.data == task
        for call in actor.walk()
        if isinstance(call, CallOp)
    }
    kernels = (op for op in program.body.block.ops if isinstance(op, KernelOp))
    return [kernel for kernel in kernels if kernel.sym_name.data in called]


def _unlike(array: Array, expected: Array | None, tolerance: float) -> str | None:
    """The difference of an array from another one of its shape, if there is one."""
    if expected is None or array.shape != expected.shape:
        return None
    if relative_error(array, expected) <= tolerance:
        return None
    return difference(array, expected)[0]
