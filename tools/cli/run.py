"""
The `penstock-run` command: it compiles a model, runs it, and checks its outputs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from penstock.runtime.jit.first_start import first_start
from penstock.runtime.transport.join import (
    TRANSPORT,
    ending_all,
    is_joined,
    join,
    refuse_slurm_alone,
    watch,
)
from penstock.tools.cli.compare import report_errors
from penstock.tools.cli.debugging_options import (
    debugging,
    refuse_looking_at_passes,
    shows_passes,
)
from penstock.tools.cli.exit_codes import exit_code_of
from penstock.tools.cli.rank_output import keep_output
from penstock.tools.cli.results import say, write
from penstock.tools.cli.run_arguments import PROGRAM, arguments, engine_of, options_of
from penstock.tools.cli.run_observers import Watching
from penstock.tools.cli.run_output import RunOutput
from penstock.tools.cli.standard_input import (
    STDIN,
    check_readable,
    is_standard_input,
    with_standard_input,
)
from penstock.tools.cli.start_ranks import start_ranks
from penstock.tools.driver.errors import UsageError, needing_onnx, printable
from penstock.tools.driver.progress import polled_progress
from penstock.tools.session.arrays import (
    check_writable,
    random_arrays,
    read_arrays,
    write_arrays,
)
from penstock.tools.session.finite import check_finite
from penstock.tools.session.loading import open_devices
from penstock.tools.session.messages import check_messages
from penstock.tools.session.model import check_kernels
from penstock.tools.session.options import DEFAULTS, FLAGS, CompileOptions
from penstock.tools.session.rank_programs import agree_on_file
from penstock.tools.session.saved_plan.known import KnownPlans, Request
from penstock.tools.session.saved_plan.plan import is_plan, read_plan
from penstock.tools.session.session import (
    KERNELS,
    Model,
    Session,
    joined,
    opening,
    read_model,
)

if TYPE_CHECKING:
    from onnx import ModelProto
    from xdsl.ir import Operation

    from penstock.runtime.core.watchdog import Watchdog
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.arrays import Shaped
    from penstock.tools.session.ranks import Ranks
    from penstock.tools.session.saved_plan.plan import Plan
    from penstock.tools.session.tuning import Subject


MODULE = "penstock.tools.cli.run"
"""The name of this module, which processes of other ranks run."""
ALIKE = (
    *("bisect", "compile_to", "dump_pipeline", "job", "profile", "random_inputs"),
    *("repeat", "save_plan", "show_origin", "trace"),
)
"""The options by which ranks exchange other things, or run otherwise."""
NO_STANDARD_INPUT = "several ranks read a file, not the standard input"
"""The error of ranks that are to read it."""


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input, a failed run or a failed check, 2 for a bad command
    line, 70 for a defect, 130 when interrupted.
    """
    parser = arguments()
    # Rank 0 tells of a wrong command line.
    parser.raises = is_joined()
    try:
        args = parser.parse_args(argv)
    except UsageError as error:
        return exit_code_of(partial(_refuse, error), PROGRAM, Path(), debug=False)
    name = STDIN if is_standard_input(args.file) else args.file

    def run() -> int:
        if args.ranks is not None and not is_joined():
            if is_standard_input(args.file):
                raise UsageError(NO_STANDARD_INPUT)
            # Else each of its processes would start so many.
            refuse_slurm_alone()
            check_messages(args.file, args.load)
            words = sys.argv[1:] if argv is None else argv
            return start_ranks(MODULE, words, args.ranks, args.watchdog)
        if args.log_ranks is not None and not is_joined():
            raise UsageError("--log-ranks is for --ranks")
        if not is_joined():
            return with_standard_input(args, _run)
        _join(args)
        with ending_all():
            return _run_rank(args)

    return exit_code_of(run, PROGRAM, name, debug=args.debug)


def _refuse(error: UsageError) -> int:
    """Raise an error of the command line of this rank on all."""
    with ending_all(), opening(joined(None)):
        raise error


@dataclass
class Job:
    """The program to run: a compiled model, or a saved plan."""

    session: Session
    oracle: Model | None = None
    """The job as it was read, for `--check`; None for a plan."""
    onnx: ModelProto | None = None
    known: frozenset[str] = frozenset()
    """Inputs that the program is compiled for by value, so that they are not fed."""
    tuned: Sequence[Subject] = ()
    """The kernels that were measured, for `--tune`."""

    @property
    def facts(self) -> dict[str, object]:
        """The summary as values for JSON; sizes are in bytes."""
        session, said = self.session, self.session.report
        image = session.executable.image
        chunks = [
            {"name": x.name, "device": x.device, "size": x.size}
            | {"peak": x.peak, "bound": x.bound}
            for x in image.chunks
        ]
        return {
            "program": said.name,
            "tasks": said.tasks,
            "kernels": said.kernels,
            "devices": said.devices,
            "simulated": session.is_simulated,
            "memory": chunks,
            "given_up": list(said.given_up),
            "plain_loops": list(said.plain_loops),
        }

    @property
    def summary(self) -> str:
        """The summary of the program that is printed when it is ready."""
        session, ops = self.session, None
        if self.oracle is not None:
            from penstock.dialects.job import JobOp

            # A merged program is not made from one job.
            entry = None if self.oracle.is_of_ranks else self.oracle.entry
            if isinstance(entry, JobOp) and len(session.jobs) == 1:
                ops = len(entry.body.block.ops)
        threads = session.executor_of(session.jobs[0]).program.threads
        return session.report.text(threads, ops=ops, simulated=session.is_simulated)


def _run(args: argparse.Namespace, ranks: Ranks | None = None) -> int:
    start, before = time.perf_counter(), first_start.seconds
    with opening(ranks):
        options = options_of(args)
        is_saved = is_plan(args.file)
        if args.show_origin:
            return _show_origin(args)
        _refuse_flags(args)
        # Files that cannot be read or written should not cost a compilation.
        for path in (args.outputs, args.save_plan, args.trace):
            if path is not None:
                check_writable(path)
        given, expected = _given(args), _expected(args)
        report = RunOutput(as_json=args.json)
        if not is_saved and (args.dump_pipeline or args.compile_to is not None):
            is_other = ranks is not None and not ranks.is_first
            return 0 if is_other else _print_lowered(args, options, given)
    if args.bisect:
        code = _bisect(args, options, given, expected, report, ranks)
        report.end()
        return code
    with opening(ranks):
        if is_saved:
            job = _open_plan(args, options, ranks)
        else:
            job = _open_model(args, options, given, ranks)
    with job.session as session:
        loading = time.perf_counter() - start
        first = first_start.seconds - before
        with opening(ranks):
            # Before it runs: variables are saved as they start.
            if args.save_plan is not None:
                session.save(args.save_plan)
            own, executor = session.inputs(args.job), session.executor_of(args.job)
        with opening(ranks):
            ports = own if ranks is None else ranks.ports(own)
            inputs = _inputs(args, ports, given)
            if args.watchdog is not None:
                session.watch(_watchdog(args.watchdog))
            if args.check_finite:
                check_finite(executor)
        with Watching(executor, args.trace, ranks, profile=args.profile) as watching:
            fed = {n: array for n, array in inputs.items() if n not in job.known}
            if ranks is not None and fed.keys() == ports.keys():
                fed = {name: fed[name] for name in own}
            outputs, seconds = _timed(session, fed, args.repeat, args.job)
        if ranks is not None:
            outputs = ranks.union(outputs)
        if job.tuned:
            _report_tuning(job.tuned, report)
        report.say(job.summary, job.facts)
    text = f"{_loading_text(job)} {loading:.2f} s{_first_start_text(first)}"
    times = {"load_seconds": loading, "run_seconds": seconds}
    report.say(f"{text}, run {_time_text(seconds)}", times)
    watching.report(report)
    if args.save_plan is not None:
        _report_plan(args.save_plan, ranks, report)
    is_silent = ranks is not None and not ranks.is_first
    if is_silent:
        return 0
    if args.outputs is not None:
        write_arrays(args.outputs, outputs)
        report.say(f"wrote {args.outputs}", {"wrote": [str(args.outputs)]})
    code = 0
    if args.check is not None:
        if expected is None:
            expected = _reference(args.check, job.oracle, job.onnx, inputs)
        code = report_errors(outputs, expected, args.check, args.tolerance, report)
    report.end()
    return code


def _report_plan(path: Path, ranks: Ranks | None, report: RunOutput) -> None:
    """Report where a plan was saved, of all ranks if there are several."""
    own = [str(path)] if ranks is None else ranks.values(str(ranks.own_path(path)))
    report.say([f"wrote {x}" for x in own], {"wrote": own})


def _join(args: argparse.Namespace) -> None:
    """Let this process be one of those that were started with it."""
    if args.load and TRANSPORT in os.environ:
        from penstock.tools.driver.plugins import load_plugins

        # It may be one of theirs.
        load_plugins(args.load)
    if args.watchdog is not None:
        # Ranks are watched from their start on, and not only in runs.
        watch(_watchdog(args.watchdog))
    transport = join()
    args.ranks = args.ranks or transport.size


def _run_rank(args: argparse.Namespace) -> int:
    """Run as one of several ranks, of which each has a saved plan of its own."""
    ranks = joined(args.ranks)
    with opening(ranks):
        if not ranks.is_first:
            keep_output(ranks.transport.rank, args.log_ranks)
        # Files of ranks may have names of their own.
        said = [getattr(args, name) for name in ALIKE]
        facts = [bool(x) if isinstance(x, Path) else x for x in said]
        ranks.agree_on({"other options": repr(facts)})
        if is_standard_input(args.file):
            raise UsageError(NO_STANDARD_INPUT)
        if is_plan(args.file):
            args.file = ranks.own_path(args.file)
        check_readable(args.file)
    args.data = None
    return _run(args, ranks)


def _refuse_flags(args: argparse.Namespace) -> None:
    """Raise UsageError for flags that do not go together."""
    if args.check_finite and (args.trace is not None or args.profile):
        raise UsageError("--check-finite is for a run without --trace or --profile")
    if args.tune and args.ranks is not None:
        raise UsageError("--tune is for one process: leave it out, or --ranks")


def _watchdog(seconds: float) -> Watchdog:
    from penstock.runtime.core.watchdog import Watchdog

    return Watchdog(seconds)


def _given(args: argparse.Namespace) -> dict[str, Array] | None:
    """The arrays of all `--inputs`, of files and of values; None without any."""
    if not args.inputs:
        return None
    from penstock.tools.session.input_values import is_value, read_value

    found: dict[str, Array] = {}
    for text in args.inputs:
        name_and_array = [read_value(text)] if is_value(text) else None
        for name, array in name_and_array or read_arrays(Path(text)).items():
            if name in found:
                raise UsageError(f"input '{name}' is given twice")
            found[name] = array
    return found


def _bisect(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
    expected: Mapping[str, Array] | None,
    report: RunOutput,
    ranks: Ranks | None,
) -> int:
    """Search the first pass and the first task that are wrong; 1 if there is one."""
    from penstock.runtime.executors.arguments import refuse_names
    from penstock.tools.cli.bisect import Search, jobs_to_run, ports_of
    from penstock.tools.driver.compiler import installed_compiler

    with opening(ranks):
        if is_plan(args.file):
            raise UsageError("a saved plan cannot be bisected: its passes have run")
        if ranks is not None:
            agree_on_file(ranks, args.file, options, args.job)
        front = installed_compiler(options.load)
        model, onnx, known = _read(args, front[0], given, None)
        jobs = jobs_to_run(model, args.job)
        args.check = args.check or "numpy"
        ports = ports_of(model, jobs)
        _check_request(args, onnx, None if jobs else model.entry)
        if not jobs:
            _check_inputs(args, model.entry, given)
        elif given is not None and given.keys() != ports.keys():
            refuse_names(ports, given)
        inputs = _inputs(args, ports, dict(given) if given else None)
        if expected is None:
            expected = _reference(args.check, model, onnx, inputs, jobs)
    fed = {name: array for name, array in inputs.items() if name not in known}
    allowed = args.allow_source
    search = Search(model, fed, expected, args.tolerance, jobs, allowed, ranks)
    with debugging(args, front):
        return search.run(options, front, args.executor, report)


def _first_start_text(seconds: float) -> str:
    """
    The time for compiling functions of this package, which later processes find in the
    cache.
    """
    if not seconds:
        return ""
    return f" ({seconds:.2f} s of it for parts of penstock, once in this environment)"


def _loading_text(job: Job) -> str:
    return "load" if job.oracle is None else "compile and load"


def _open_plan(
    args: argparse.Namespace, options: CompileOptions, ranks: Ranks | None
) -> Job:
    _refuse_onnx_options(args)
    changed = options.changed
    if args.tune or "database" in changed:
        raise UsageError("--tune and --kernels are for what is compiled")
    if args.compile_to or args.dump_pipeline:
        raise UsageError("--compile-to and --dump-pipeline are for what is compiled")
    refuse_looking_at_passes(args)
    if args.check in ("numpy", "onnxruntime"):
        raise UsageError(f"a saved plan cannot be checked against {args.check}")
    for name in changed:
        if name not in ("device", "threads", "load"):
            flag = f"--{options.edits[0].verb}" if name == "edits" else FLAGS[name]
            raise UsageError(f"{flag} is for what is compiled")
    plan = read_plan(args.file, options.device, options.load)
    return _job_of(args, plan, options.threads, ranks)


def _job_of(
    args: argparse.Namespace, plan: Plan, threads: int, ranks: Ranks | None = None
) -> Job:
    engine, allowed = engine_of(args), args.allow_source
    return Job(Session.of(plan, threads, engine, allow_source=allowed, ranks=ranks))


def _open_model(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
    ranks: Ranks | None,
) -> Job:
    """A model as a program, compiled now or found in the cache."""
    request = _request(args, options, given)
    if request is None:
        return _compile(args, options, given, ranks)
    plans = KnownPlans(args.file)
    plan = plans.find(request)
    if plan is None:
        job = _compile(args, options, given, ranks, plans)
        if not job.known:
            plans.keep(request, job.session.executable, job.session.state)
        return job
    open_devices({args.device})
    return _job_of(args, plan, plan.threads)


def _request(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
) -> Request | None:
    """
    The key of a model among compiled plans; None if that depends on too much, or if the
    model itself is needed.
    """
    is_measured = args.tune or options.database or os.environ.get(KERNELS)
    needs_model = args.check in ("numpy", "onnxruntime") or args.job is not None
    is_model = args.file.suffix.lower() == ".onnx"
    # The plan of one process is not that of a rank.
    is_else = is_measured or needs_model or args.ranks is not None
    if not is_model or is_else or shows_passes(args):
        return None
    return _asked(args, options, given)


def _asked(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
) -> Request:
    """The options that a model is compiled with, as an ONNX model has them all."""
    return Request(
        options,
        args.random_weights,
        tuple(args.extra_output),
        tuple(sorted(dict(args.dim).items())),
        tuple(sorted((name, array.shape) for name, array in (given or {}).items())),
        tuple(sorted(dict(args.max).items())),
    )


def _show_origin(args: argparse.Namespace) -> int:
    """Print the origin of a saved plan. Raises UsageError for another file."""
    if not is_plan(args.file):
        raise UsageError(
            "--show-origin is for saved plans; --dump-pipeline prints the passes that "
            "would compile a model"
        )
    origin, report = read_plan(args.file).origin, RunOutput(as_json=args.json)
    report.say(origin.lines(), {"origin": origin.as_json()})
    report.end()
    return 0


def _print_lowered(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
) -> int:
    """
    Print the passes that compile a model, or the model at a level. Raises UsageError
    for flags that ask for files or a check of a run, as there is none.
    """
    for name in ("save_plan", "outputs", "check"):
        if getattr(args, name) is not None:
            flag = "--dump-pipeline" if args.dump_pipeline else "--compile-to"
            raise UsageError(
                f"{flag} runs nothing: leave out --{name.replace('_', '-')}"
            )
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.lowered_text import pipeline_text, text_at

    front = installed_compiler(options.load)
    model, _, _ = _read(args, front[0], given, None)
    if args.dump_pipeline:
        say(pipeline_text(front, model, options, args.compile_to))
        return 0
    with debugging(args, front):
        write(text_at(front, model, options, args.compile_to))
    return 0


def _compile(
    args: argparse.Namespace,
    options: CompileOptions,
    given: Mapping[str, Array] | None,
    ranks: Ranks | None,
    plans: KnownPlans | None = None,
) -> Job:
    """
    A model compiled to a program, which may be kept among its plans. Of several ranks
    the first one reads and compiles it.
    """
    if ranks is not None:
        # The shapes of inputs are those of rank 0.
        asked = _asked(args, DEFAULTS, None), args.job
        agree_on_file(ranks, args.file, options, asked)
        if not ranks.is_first:
            engine, folder = engine_of(args), args.file.parent
            session = Session.of_rank(ranks, folder, engine, show_progress=True)
            return Job(session, known=frozenset(ranks.values([])[0]))
    from penstock.tools.driver.compiler import installed_compiler

    front = installed_compiler(options.load)
    model, onnx, known = _read(args, front[0], given, plans)
    if model.has_several and args.job is None:
        known = ", ".join(op.sym_name.data for op in model.entries)
        raise UsageError(f"the module has several jobs: give --job, one of {known}")
    # Before it is measured.
    if not args.allow_source:
        check_kernels(model)
    oracle = model.only(args.job)
    if model.is_of_ranks and args.check == "numpy":
        raise UsageError("what is of several ranks cannot be checked against NumPy")
    if not model.is_of_ranks:
        _check_request(args, onnx, oracle.entry)
    if given is not None:
        given = {name: array for name, array in given.items() if name not in known}
    # One of several jobs may take results of others.
    if not model.has_several and not model.is_of_ranks:
        _check_inputs(args, oracle.entry, given)
    # A device that is not there should not cost a compilation.
    open_devices({args.device})
    tuned: Sequence[Subject] = ()
    if args.tune:
        options, tuned = _tuned(options, front, model)
    with debugging(args, front):
        session = Session(
            model,
            options,
            engine=engine_of(args),
            compiler=front,
            show_progress=True,
            allow_source=args.allow_source,
            ranks=ranks,
        )
    if ranks is not None:
        # Other ranks are given them, too.
        ranks.values(sorted(known))
    return Job(session, oracle, onnx, known, tuned)


def _warn(text: str) -> None:
    """Print a warning on standard error."""
    print(printable(f"{PROGRAM}: warning: {text}"), file=sys.stderr)


def _tuned(
    options: CompileOptions, front: tuple[Compiler, PassTable], model: Model
) -> tuple[CompileOptions, Sequence[Subject]]:
    """
    The options with the kernel database that has the times of all kernels of a model,
    measured now, and these kernels.
    """
    from penstock.runtime.jit.cache import cache_dir
    from penstock.tools.session.tuning import (
        Tuning,
        problem_lines,
        tune,
        usable,
    )

    named = options.database or os.environ.get(KERNELS)
    path = Path(named) if named else cache_dir() / "kernels.db"
    # A database that a person has named is not put aside.
    if not named and (aside := usable(path)) is not None:
        text = f"{path} was no kernel database that can be used, and is now {aside}"
        _warn(text)
    options = replace(options, database=path)
    subjects = tune(front, model, Tuning(options))
    for line in problem_lines(subjects):
        _warn(line)
    return options, subjects


def _report_tuning(subjects: Sequence[Subject], report: RunOutput) -> None:
    from penstock.tools.session.tuning import tuning_lines

    facts = [
        {"kernel": x.name, "usual_ns": x.usual_ns, "chosen_ns": x.chosen_ns}
        for x in subjects
        if not x.is_part
    ]
    report.say(tuning_lines(subjects), {"tuning": facts})


def _read(
    args: argparse.Namespace,
    compiler: Compiler,
    given: Mapping[str, Array] | None,
    plans: KnownPlans | None,
) -> tuple[Model, ModelProto | None, frozenset[str]]:
    if args.file.suffix.lower() != ".onnx":
        _refuse_onnx_options(args)
        apart: bool = args.separate_weights
        model = read_model(compiler, args.file, args.data, separate_weights=apart)
        return model, None, frozenset()
    with needing_onnx():
        from penstock.tools.frontend.onnx.model import data_files, import_file

    if plans is not None:
        plans.name_files(data_files(args.file))
    imported = import_file(
        args.file,
        random_weights=args.random_weights,
        extra_outputs=args.extra_output,
        dims=dict(args.dim),
        inputs=given,
        separate_weights=args.separate_weights,
        maxima=dict(args.max),
    )
    compiler.verify(imported.module)
    model = Model(imported.module, imported.weights, args.file.parent)
    return model, imported.proto, imported.known


def _refuse_onnx_options(args: argparse.Namespace) -> None:
    if args.random_weights is not None:
        raise UsageError("--random-weights is for ONNX models")
    if args.extra_output:
        raise UsageError("--extra-output is for ONNX models")
    if args.dim:
        raise UsageError("--dim is for ONNX models")
    if args.max:
        raise UsageError("--max is for ONNX models")


def _check_request(
    args: argparse.Namespace, onnx: ModelProto | None, entry: Operation | None
) -> None:
    """
    Raise UsageError for options that do not fit the model, or its entry if it has one.
    """
    from penstock.tools.session.oracle import has_numpy_meaning

    if args.check == "onnxruntime":
        if onnx is None:
            raise UsageError("--check onnxruntime is for ONNX models")
        from penstock.tools.frontend.onnx.model import onnxruntime_module

        onnxruntime_module()
    if args.check != "numpy" or entry is None:
        return
    if not has_numpy_meaning(entry):
        raise UsageError(f"a {entry.name} cannot be checked against NumPy")


def _check_inputs(
    args: argparse.Namespace, entry: Operation, given: Mapping[str, Array] | None
) -> None:
    """
    Raise UsageError if a job lacks inputs, and PenstockError if it cannot take the
    given ones, as far as the job says that before it is compiled.
    """
    from penstock.dialects.job import InputOp, JobOp
    from penstock.dialects.utils.numpy_types import dtype_of
    from penstock.dialects.utils.tensors import tensor_type
    from penstock.lowering.analysis.repetitions import is_rated
    from penstock.runtime.executors.arguments import refuse_names
    from penstock.runtime.loading.loader import fitting

    if not isinstance(entry, JobOp):
        return
    ops = list(entry.body.block.ops)
    inputs = [op for op in ops if isinstance(op, InputOp)]
    ports = {op.port.data: tensor_type(op.result) for op in inputs}
    if given is None:
        if args.random_inputs is None:
            _refuse_no_inputs(ports)
        return
    if ports.keys() != given.keys():
        refuse_names(ports, given)
    # At other rates several pieces are given at once.
    if is_rated(ops):
        return
    for name, type in ports.items():
        dtype = dtype_of(type.element_type)
        fitting(f"input '{name}'", given[name], type.get_shape(), dtype)


# Inputs and outputs


def _refuse_no_inputs(names: Iterable[str]) -> None:
    """Raise UsageError if there are names, which are those of inputs without arrays."""
    if text := ", ".join(names):
        raise UsageError(
            f"the model has inputs {text}: give --inputs IN.npz or --random-inputs SEED"
        )


def _inputs(
    args: argparse.Namespace,
    ports: Mapping[str, Shaped],
    given: dict[str, Array] | None,
) -> dict[str, Array]:
    if given is not None:
        return given
    if args.random_inputs is not None:
        return random_arrays(ports, args.random_inputs)
    _refuse_no_inputs(ports)
    return {}


# Running and checking


def _timed(
    session: Session, inputs: Mapping[str, Array], repeat: int, job: str | None
) -> tuple[dict[str, Array], list[float]]:
    """
    The outputs of the last of `repeat` runs, and the seconds of each run without
    observers.
    """
    outputs: dict[str, Array] = {}
    seconds: list[float] = []
    executor = session.executor_of(job)
    observers = executor.observers
    total = repeat * executor.acts_in_run
    with polled_progress("running tasks", total, executor.acts_made):
        for _ in range(repeat):
            start = time.monotonic_ns() - observers.overhead_ns
            outputs = session.run(inputs, job)
            end = time.monotonic_ns() - observers.overhead_ns
            seconds.append((end - start) / 1e9)
    return outputs, seconds


def _time_text(seconds: Sequence[float]) -> str:
    middle = f"{median(seconds) * 1e3:.3f} ms"
    return middle if len(seconds) == 1 else f"{middle} (median of {len(seconds)})"


def _expected(args: argparse.Namespace) -> dict[str, Array] | None:
    """The arrays of the file that `--check` names, if it names one."""
    if args.check in (None, "numpy", "onnxruntime"):
        return None
    return read_arrays(Path(args.check))


def _reference(
    check: str,
    oracle: Model | None,
    onnx: ModelProto | None,
    inputs: Mapping[str, Array],
    jobs: Sequence[str] = (),
) -> dict[str, Array]:
    if check == "numpy":
        from penstock.tools.session.oracle import evaluate_model

        assert oracle is not None, "checked before the run"
        return evaluate_model(oracle, inputs, jobs)
    assert onnx is not None, "checked before the run"
    from penstock.tools.frontend.onnx.model import run_onnxruntime

    return run_onnxruntime(onnx, inputs)


if __name__ == "__main__":
    from penstock.tools.cli import entry

    entry.run()
