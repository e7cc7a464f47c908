"""From a launch program, or a saved plan, to executors that can run."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.runtime.errors import KernelError
from penstock.tools.driver.errors import InternalError
from penstock.tools.driver.progress import Progress

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from penstock.dialects.launch import KernelOp, ProgramOp
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.loading.devices import Device
    from penstock.runtime.loading.shared_variables import SharedVariables
    from penstock.tools.session.model import Model
    from penstock.tools.session.saved_plan.plan import Plan

_ONLY_IF_ALLOWED = (
    "which is only run if that is allowed (--allow-source, allow_source=True)"
)


def kernel_sources(
    program: ProgramOp, targets: Collection[str] = ("cpu", "cuda")
) -> dict[str, str]:
    """
    The source text of each kernel for one of these kinds of devices by its name.
    Raises `Rejected` with all in the kernels that has no source.
    """
    from penstock.dialects.launch import KernelOp
    from penstock.dialects.utils.diagnostics import LocatedPassFailure
    from penstock.lowering.codegen.target import kernel_source
    from penstock.tools.driver.diagnostics import reject_if_any

    sources: dict[str, str] = {}
    complaints: list[tuple[Operation, str]] = []
    for op in program.body.block.ops:
        if not isinstance(op, KernelOp) or op.target.data not in targets:
            continue
        try:
            sources[op.sym_name.data] = kernel_source(op)
        except LocatedPassFailure as failure:
            complaints += failure.complaints
    reject_if_any(complaints, "")
    return sources


def own_sources(program: ProgramOp) -> list[KernelOp]:
    """The kernels of a program with a source of their own, beside their body."""
    from penstock.dialects.launch import KernelOp

    ops = program.body.block.ops
    return [op for op in ops if isinstance(op, KernelOp) and op.source is not None]


def kernel_objections(program: ProgramOp) -> list[tuple[Operation, str]]:
    """
    Why kernels of a program that comes from elsewhere are not run, one reason a kernel:
    a source of its own, or an op that is not proven to stay inside of its memory.
    """
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.analysis.access_bounds import unproven_accesses

    objections: list[tuple[Operation, str]] = []
    for kernel in program.body.block.ops:
        if not isinstance(kernel, KernelOp):
            continue
        start = f"kernel '{kernel.sym_name.data}'"
        if kernel.source is not None:
            text = f"{start} brings Python source of its own, {_ONLY_IF_ALLOWED}"
            objections.append((kernel, text))
            continue
        for op in unproven_accesses(kernel)[:1]:
            text = f"{start} may reach outside of its memory by {op.name}"
            objections.append((op, f"{text}, {_ONLY_IF_ALLOWED}"))
    return objections


def cpu_sources(program: ProgramOp, sources: Mapping[str, str]) -> dict[str, str]:
    """Those of the sources that are of kernels for the processor."""
    from penstock.dialects.launch import KernelOp

    return {
        name: sources[name]
        for op in program.body.block.ops
        if isinstance(op, KernelOp) and op.target.data == "cpu"
        if (name := op.sym_name.data) in sources
    }


def load(
    program: ProgramOp,
    model: Model,
    threads: int,
    engine: str,
    *,
    show_progress: bool = False,
    shared: SharedVariables | None = None,
) -> JobExecutor:
    """
    Allocate and compile what a program needs, and show the progress on a terminal if
    wanted. Its variables are those of other programs with the same `shared`. Raises
    PenstockError if it cannot run.
    """
    from penstock.dialects.launch import ChunkOp

    cases = [op.memory_case for op in program.walk() if isinstance(op, ChunkOp)]
    devices = open_devices({case.device_kind for case in cases})
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.jit.pool import compile_missing
    from penstock.runtime.loading.loader import load_program_jobs
    from penstock.runtime.program.executable import image_of
    from penstock.tools.driver.progress_compiling import ShownCpu

    sources = kernel_sources(program, ("cpu", *devices))
    with Progress("compiling kernels", len(sources)) as progress:
        shown = ShownCpu(progress) if show_progress else None
        compile_missing(
            cpu_sources(program, sources),
            done=(lambda name: None) if shown is None else shown.is_there,
        )
        if shown is not None:
            devices["cpu"] = shown
        with blaming_authors(own_sources(program)):
            loaded = load_program_jobs(
                program,
                sources,
                weights=model.weights,
                directory=model.directory,
                threads=threads,
                devices=devices,
                shared=shared,
            )
    return JobExecutor(image_of(program), loaded, engine)


def load_plan(plan: Plan, threads: int, engine: str) -> JobExecutor:
    """
    Allocate what a saved plan needs, and find its machine code. Raises PenstockError if
    it cannot run.
    """
    devices = open_devices(plan.devices)
    from penstock.runtime.executors.jobs import JobExecutor
    from penstock.runtime.jit.pool import compile_missing
    from penstock.runtime.loading.loader import load_jobs

    image, sources = plan.image, plan.derived.sources
    named = (kernel.name for kernel in image.kernels if kernel.target == "cpu")
    compile_missing({name: sources[name] for name in named})
    with blaming_us(plan.derived.own_sources):
        values = plan.values
        loaded = load_jobs(image, sources, values, threads=threads, devices=devices)
    return JobExecutor(image, loaded, engine)


@contextmanager
def blaming_authors(kernels: Sequence[KernelOp]) -> Generator[None]:
    """
    Turn what is wrong with the source of a kernel into `Rejected` at one of these,
    which bring theirs, and else into a defect of ours.
    """
    from penstock.dialects.utils.diagnostics import place_of
    from penstock.tools.driver.diagnostics import reject

    own = {kernel.sym_name.data: kernel for kernel in kernels}
    try:
        with blaming_us(own):
            yield
    except KernelError as error:
        reject(str(error), place_of(own[error.kernel]))


@contextmanager
def blaming_us(own: Collection[str]) -> Generator[None]:
    """
    Raise what is wrong with the source of a kernel as a defect of ours, unless it is
    one of these kernels.
    """
    try:
        yield
    except KernelError as error:
        if error.kernel in own:
            raise
        raise InternalError(f"kernel @{error.kernel}") from error.__cause__


def open_devices(kinds: Collection[str]) -> dict[str, Device]:
    """
    The devices besides the processor among these kinds. Raises PenstockError if there
    are none.
    """
    if "cuda" not in kinds:
        return {}
    from penstock.runtime.cuda.device import open_cuda

    return {"cuda": open_cuda()}
