"""The `penstock-run` command: compile a model, run it, and check what comes out."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NoReturn

from penstock.tools.arrays import check_writable, read_arrays, write_arrays
from penstock.tools.dims import add_dim_option
from penstock.tools.errors import InternalError, UsageError, printable
from penstock.tools.progress import polled_progress
from penstock.tools.saved_plan.plan import is_plan, read_plan
from penstock.tools.session import KERNELS, Model, Session, read_model
from penstock.tools.watching import Watching

if TYPE_CHECKING:
    from onnx import ModelProto

    from penstock.runtime.initializers import Array
    from penstock.runtime.loader import Port
    from penstock.tools.compiler import Compiler
    from penstock.tools.pass_pipeline import PassTable

_PROGRAM = "penstock-run"
_NO_FINITE_VALUES = "has no finite values to compare"

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Run `penstock-run` on the arguments of this process."""
    sys.exit(run_tool())


def run_tool(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool on the given arguments (without the program's name) and return its
    exit code: 0, 1 for bad input, a failed run or a failed check, 2 for a bad command
    line, 70 for a defect, 130 when interrupted.
    """
    args = _arguments().parse_args(argv)
    try:
        return _run(args)
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except BrokenPipeError:
        # The reader is gone; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except MemoryError as error:
        return _fail(f"out of memory: {error}".removesuffix(": "), EXIT_FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except InternalError as error:
        cause = error.__cause__ or error
        return _fail(f"internal error in {error.where}: {cause!r}", EXIT_INTERNAL)
    except Exception as error:
        return _fail_to_run(error, args)


def _fail(message: str, code: int) -> int:
    print(printable(f"{_PROGRAM}: error: {message}"), file=sys.stderr)
    return code


def _fail_to_run(error: Exception, args: argparse.Namespace) -> int:
    from penstock.runtime.errors import PenstockError

    if isinstance(error, PenstockError):
        return _fail(str(error), EXIT_FAILED)
    # It imports much that a plan does not need.
    from penstock.tools.diagnostics import Rejected

    if isinstance(error, Rejected):
        for diagnosis in error.diagnoses:
            print(diagnosis.render(str(args.file)), file=sys.stderr)
        return EXIT_FAILED
    if args.debug:
        raise error
    return _fail(
        f"internal error: {type(error).__name__}: {error}; please report it "
        "(--debug shows the traceback)",
        EXIT_INTERNAL,
    )


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        _PROGRAM, description="Compile a model, run it, and check what comes out."
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a model: .onnx, .mlir of any level, or a plan that --save-plan has saved",
    )
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--inputs", type=Path, metavar="IN.npz", help="an array for each input by name"
    )
    inputs.add_argument(
        "--random-inputs",
        type=_seed,
        metavar="SEED",
        help="normal floats, integers from 0 to 9, and booleans",
    )
    parser.add_argument(
        "--job",
        metavar="NAME",
        help="which job to run, of several that are compiled together",
    )
    parser.add_argument(
        "--random-weights",
        type=_seed,
        metavar="SEED",
        help="replace the weights of an ONNX model by random ones (He scaling)",
    )
    parser.add_argument(
        "--extra-output",
        action="append",
        default=[],
        metavar="NAME",
        help="make a value of an ONNX graph an output too; may be given several times",
    )
    add_dim_option(parser)
    parser.add_argument(
        "--outputs", type=Path, metavar="OUT.npz", help="write the outputs by name"
    )
    parser.add_argument(
        "--save-plan",
        type=Path,
        metavar="PLAN.penstock",
        help="write the compiled program, to be run later without compiling",
    )
    parser.add_argument(
        "--check",
        metavar="REF.npz|onnxruntime|numpy",
        help="compare the outputs with those of a file or of another executor",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        default=1e-4,
        metavar="ERROR",
        help="largest error that passes a check, relative to the largest reference "
        "value (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="where the ops of a job run that say nothing else (default: where the job "
        "says); CUDA is simulated on a machine without it",
    )
    parser.add_argument(
        "--threads",
        type=_count,
        default=1,
        metavar="N",
        help="streams of ops, and threads that run them (default: %(default)s)",
    )
    parser.add_argument(
        "--executor",
        choices=("actors", "sequential", "sim"),
        default="actors",
        help="what runs the program, with equal results: compiled actors, one task "
        "after the other in Python, or a virtual clock (default: %(default)s)",
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="measure how each kernel runs fastest, unless the kernel database knows "
        "it, and run it so",
    )
    parser.add_argument(
        "--kernels",
        type=Path,
        metavar="FILE.db",
        help=f"the kernel database to go by (default: that of {KERNELS}; for --tune, "
        "else kernels.db in the cache folder)",
    )
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py",
        help="load passes, dialects and kernels from a Python file; may be repeated",
    )
    parser.add_argument(
        "--simulate-ranks",
        action="store_true",
        help="run what is placed on several ranks (processes) in this process",
    )
    parser.add_argument(
        "--allow-winograd",
        action="store_true",
        help="convolve 3 x 3 weights with fewer products, with errors of about 1e-5 of "
        "the largest result in f32",
    )
    parser.add_argument(
        "--repeat", type=_count, default=1, metavar="N", help="run N times"
    )
    parser.add_argument(
        "--watchdog",
        type=_seconds,
        metavar="SECONDS",
        help="if nothing goes on for so long, report what tasks wait for, and fail",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="TRACE.json",
        help="write a time line of all runs, for penstock-view, Perfetto or Chrome",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="print what each op took, and its rates of computing and moving",
    )
    parser.add_argument(
        "--debug", action="store_true", help="show Python tracebacks of internal errors"
    )
    return parser


def _count(text: str) -> int:
    return _integer(text, 1)


def _seed(text: str) -> int:
    return _integer(text, 0)


def _integer(text: str, least: int) -> int:
    if not text.isdecimal() or (value := int(text)) < least:
        raise argparse.ArgumentTypeError(
            f"expected an integer from {least} on, got '{text}'"
        )
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got '{text}'")
    return value


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # A NaN is not, either.
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, got '{text}'")
    return value


@dataclass
class Job:
    """What is run: a model that was compiled, or a saved plan."""

    session: Session
    oracle: Model | None = None
    """The job as it was read; of a plan there is none."""
    onnx: ModelProto | None = None
    known: frozenset[str] = frozenset()
    """Inputs for whose values it is compiled, so that it is not fed them."""

    @property
    def summary(self) -> str:
        """What the program is made of, and the model."""
        session, ops = self.session, None
        if self.oracle is not None:
            from penstock.dialects.job import JobOp

            entry = self.oracle.entry
            # What was merged with others is not what the program was made from.
            if isinstance(entry, JobOp) and len(session.jobs) == 1:
                ops = len(entry.body.block.ops)
        threads = session.executor_of(session.jobs[0]).program.threads
        return session.report.text(threads, ops=ops, simulated=session.is_simulated)


def _run(args: argparse.Namespace) -> int:
    start = time.perf_counter()
    # Files that cannot be read or written should not cost a compilation.
    for path in (args.outputs, args.save_plan, args.trace):
        if path is not None:
            check_writable(path)
    given = None if args.inputs is None else read_arrays(args.inputs)
    expected = _expected(args)
    job = _open_plan(args) if is_plan(args.file) else _compile(args, given)
    with job.session as session:
        loading = time.perf_counter() - start
        # Before it runs: variables are saved as they start.
        if args.save_plan is not None:
            session.save(args.save_plan)
        inputs = _inputs(args, session.inputs(args.job), given)
        if args.watchdog is not None:
            from penstock.runtime.watchdog import Watchdog

            session.watch(Watchdog(args.watchdog))
        executor = session.executor_of(args.job)
        with Watching(executor, args.trace, profile=args.profile) as watching:
            fed = {n: array for n, array in inputs.items() if n not in job.known}
            outputs, seconds = _timed(session, fed, args.repeat, args.job)
        print(job.summary)
    print(f"{_loading_text(job)} {loading:.2f} s, run {_time_text(seconds)}")
    for line in watching.lines():
        print(line)
    if args.save_plan is not None:
        print(f"wrote {args.save_plan}")
    if args.outputs is not None:
        write_arrays(args.outputs, outputs)
        print(f"wrote {args.outputs}")
    if args.check is None:
        return 0
    reference = _reference(args, job, inputs) if expected is None else expected
    return report_errors(outputs, reference, args.check, args.tolerance)


def _loading_text(job: Job) -> str:
    return "load" if job.oracle is None else "compile and load"


def _open_plan(args: argparse.Namespace) -> Job:
    _refuse_onnx_options(args)
    if args.tune or args.kernels is not None or args.load:
        raise UsageError("--tune, --kernels and --load are for what is compiled")
    if args.check in ("numpy", "onnxruntime"):
        raise UsageError(f"a saved plan cannot be checked against {args.check}")
    if args.simulate_ranks:
        raise UsageError("--simulate-ranks is for what is compiled")
    if args.allow_winograd:
        raise UsageError("--allow-winograd is for what is compiled")
    plan = read_plan(args.file, args.device)
    threads, engine = args.threads, args.executor
    return Job(Session.of_plan(plan, threads=threads, engine=engine))


def _compile(args: argparse.Namespace, given: Mapping[str, Array] | None) -> Job:
    from penstock.tools.compiler import installed_compiler

    front = installed_compiler(args.load)
    model, onnx, known = _read(args, front[0], given)
    if model.has_several and args.job is None:
        known = ", ".join(op.sym_name.data for op in model.entries)
        raise UsageError(f"the module has several jobs: give --job, one of {known}")
    oracle = model.only(args.job)
    _check_request(args, oracle, onnx)
    kernels = _tuned(args, front, model) if args.tune else args.kernels
    session = Session(
        model,
        device=args.device,
        threads=args.threads,
        engine=args.executor,
        simulate_ranks=args.simulate_ranks,
        compiler=front,
        show_progress=True,
        kernels=kernels,
        allow_winograd=args.allow_winograd,
    )
    return Job(session, oracle, onnx, known)


def _tuned(
    args: argparse.Namespace, front: tuple[Compiler, PassTable], model: Model
) -> Path:
    """Measure the kernels of a model; the kernel database that knows them then."""
    from penstock.runtime.cache import cache_dir
    from penstock.tools.tuning import Tuning, problem_lines, tune, tuning_lines, usable

    named = args.kernels or os.environ.get(KERNELS)
    path = Path(named) if named else cache_dir() / "kernels.db"
    # What a person has named is not put aside.
    if not named and (aside := usable(path)) is not None:
        text = f"{path} was no kernel database that can be used, and is now {aside}"
        print(f"{_PROGRAM}: warning: {text}", file=sys.stderr)
    subjects = tune(
        front,
        model,
        Tuning(path, args.threads, winograd=args.allow_winograd),
        device=args.device,
        simulate_ranks=args.simulate_ranks,
    )
    for line in problem_lines(subjects):
        print(f"{_PROGRAM}: warning: {line}", file=sys.stderr)
    for line in tuning_lines(subjects):
        print(line)
    return path


def _read(
    args: argparse.Namespace, compiler: Compiler, given: Mapping[str, Array] | None
) -> tuple[Model, ModelProto | None, frozenset[str]]:
    if args.file.suffix.lower() != ".onnx":
        _refuse_onnx_options(args)
        return read_model(compiler, args.file), None, frozenset()
    try:
        from penstock.tools.onnx_import.model import import_file
    except ImportError as error:
        from penstock.tools.diagnostics import NEEDS_ONNX

        raise UsageError(NEEDS_ONNX.format(error)) from error

    imported = import_file(
        args.file,
        random_weights=args.random_weights,
        extra_outputs=args.extra_output,
        dims=dict(args.dim),
        inputs=given,
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


def _check_request(
    args: argparse.Namespace, oracle: Model, onnx: ModelProto | None
) -> None:
    """Raise UsageError for what this model cannot be asked for."""
    from penstock.tools.oracle import has_numpy_meaning

    if args.check == "onnxruntime" and onnx is None:
        raise UsageError("--check onnxruntime is for ONNX models")
    if args.check == "numpy" and not has_numpy_meaning(oracle.entry):
        raise UsageError(f"a {oracle.entry.name} cannot be checked against NumPy")


# Inputs and outputs


def _inputs(
    args: argparse.Namespace,
    ports: Mapping[str, Port],
    given: dict[str, Array] | None,
) -> dict[str, Array]:
    if given is not None:
        return given
    if args.random_inputs is not None:
        return random_arrays(ports, args.random_inputs)
    if ports:
        raise UsageError(
            f"the model has inputs {', '.join(ports)}: "
            "give --inputs IN.npz or --random-inputs SEED"
        )
    return {}


def random_arrays(ports: Mapping[str, Port], seed: int) -> dict[str, Array]:
    """
    An array for each port: standard normal floats, integers from 0 to 9, or booleans.
    """
    import numpy as np

    generator = np.random.default_rng(seed)

    def array(port: Port) -> Array:
        if port.dtype.kind == "f":
            return generator.standard_normal(port.shape).astype(port.dtype)
        limit = 2 if port.dtype.kind == "b" else 10
        return generator.integers(0, limit, port.shape).astype(port.dtype)

    return {name: array(port) for name, port in sorted(ports.items())}


# Running and checking


def _timed(
    session: Session, inputs: Mapping[str, Array], repeat: int, job: str | None
) -> tuple[dict[str, Array], list[float]]:
    """The outputs of the last of `repeat` runs, and the seconds of each."""
    outputs: dict[str, Array] = {}
    seconds: list[float] = []
    executor = session.executor_of(job)
    total = repeat * executor.acts_in_run
    with polled_progress("running tasks", total, executor.acts_made):
        for _ in range(repeat):
            start = time.perf_counter()
            outputs = session.run(inputs, job)
            seconds.append(time.perf_counter() - start)
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
    args: argparse.Namespace, job: Job, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    if args.check == "numpy":
        from penstock.tools.oracle import evaluate_model

        assert job.oracle is not None, "checked before the run"
        return evaluate_model(job.oracle, inputs)
    assert job.onnx is not None, "checked before the run"
    from penstock.tools.onnx_import.model import run_onnxruntime

    return run_onnxruntime(job.onnx, inputs)


def report_errors(
    outputs: Mapping[str, Array],
    reference: Mapping[str, Array],
    name: str,
    tolerance: float,
) -> int:
    """
    Print the error of each output and return the exit code: 0 if all are within the
    tolerance. The error is the largest difference over the largest reference value. A
    reference that has values, but no finite one, fails: it would prove nothing.
    """
    if missing := sorted(set(outputs) - set(reference)):
        raise UsageError(f"{name} has no outputs {', '.join(missing)}")
    worst = 0.0
    for key, output in outputs.items():
        text, error = _difference(output, reference[key])
        worst = max(worst, error)
        print(f"check against {name}: {key} {text}")
    unproven = [key for key in outputs if proves_nothing(reference[key])]
    if worst > tolerance:
        text = f"the outputs differ by {worst:.2e}, more than {tolerance:.0e}"
        return _fail(text, EXIT_FAILED)
    if unproven:
        return _fail(f"{', '.join(unproven)} {_NO_FINITE_VALUES}", EXIT_FAILED)
    return 0


def _difference(output: Array, reference: Array) -> tuple[str, float]:
    """How an output compares, in words and as a number."""
    if reference.dtype.kind not in "biuf":
        return f"is compared with {reference.dtype.name}", float("inf")
    if output.shape != reference.shape:
        return f"has shape {output.shape}, not {reference.shape}", float("inf")
    error = relative_error(output, reference)
    if error == 0 and proves_nothing(reference):
        return _NO_FINITE_VALUES, error
    return f"differs by {error:.2e}", error


def proves_nothing(reference: Array) -> bool:
    """Whether an array has values, but none that a number could differ from."""
    import numpy as np

    numbers = reference.dtype.kind in "biuf"
    return numbers and reference.size > 0 and not np.isfinite(reference).any()


def relative_error(output: Array, reference: Array) -> float:
    """
    The largest absolute difference over the largest absolute reference value, of arrays
    of one shape; infinite if only one of them is a NaN or infinite somewhere.
    """
    import numpy as np

    if output.size == 0:
        return 0.0
    ours, theirs = output.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    with np.errstate(over="ignore"):
        difference = np.abs(ours[finite] - theirs[finite]).max()
    scale = np.abs(theirs[finite]).max()
    return float(difference / scale) if scale else float(difference)


if __name__ == "__main__":
    main()
