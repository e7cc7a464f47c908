"""A module to run, with its weights, and its way down to a launch program."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from penstock.tools.driver.errors import UsageError, explain_os_error
from penstock.tools.driver.files import refuse_others
from penstock.tools.session.options import DEFAULTS, CompileOptions

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from penstock.dialects.job import JobOp
    from penstock.dialects.launch import ProgramOp
    from penstock.dialects.plan import PlanOp
    from penstock.lowering.pipelines import PipelineOptions
    from penstock.runtime.loading.initializers import Array
    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable
    from penstock.tools.session.pipeline_choice import Lowering
    from penstock.tools.session.program_export import ExportedProgram


KERNELS = "PENSTOCK_KERNELS"
"""The variable of the environment that names a kernel database for all sessions."""


@dataclass
class Model:
    """
    A module to run, the values of variables that it does not say itself, and the
    folder in which the files of its initialisers are looked up.
    """

    module: ModuleOp
    weights: Mapping[str, Array]
    directory: Path

    @property
    def entries(self) -> list[JobOp | PlanOp | ProgramOp]:
        """The jobs, plans and programs of the module, as they are listed."""
        from penstock.dialects.job import JobOp
        from penstock.dialects.launch import ProgramOp
        from penstock.dialects.plan import PlanOp

        ops = self.module.body.block.ops
        return [op for op in ops if isinstance(op, JobOp | PlanOp | ProgramOp)]

    @property
    def entry(self) -> Operation:
        """
        The one job, plan or program of the module. Raises `Rejected` if there is none
        or more than one.
        """
        found = self.entries
        if len(found) != 1:
            text = f"the module should hold one job, plan or program, got {len(found)}"
            _reject_op(found[-1] if found else self.module, text)
        return found[0]

    @property
    def has_several(self) -> bool:
        """Whether the module holds several jobs or plans, to be merged."""
        from penstock.dialects.launch import ProgramOp

        found = self.entries
        is_lowered = any(isinstance(op, ProgramOp) for op in found)
        return len(found) > 1 and not is_lowered and not self.is_of_ranks

    @property
    def is_of_ranks(self) -> bool:
        """Whether the module holds plans or programs of several ranks."""
        from penstock.dialects.job import JobOp

        found = self.entries
        ranks = {None if isinstance(op, JobOp) else op.rank for op in found}
        return len(ranks) > 1 and None not in ranks

    def only(self, job: str | None) -> Model:
        """
        A copy with one of several jobs or plans, to be looked at alone. Raises
        UsageError if none, or none of several, has this name.
        """
        copy = Model(self.module.clone(), self.weights, self.directory)
        if job is None or not self.has_several:
            return copy
        for op in copy.entries:
            if op.sym_name.data != job:
                op.detach()
                op.erase()
        if not copy.entries:
            known = ", ".join(op.sym_name.data for op in self.entries)
            raise UsageError(f"there is no job '{job}', the module has {known}")
        return copy


def read_model(
    compiler: Compiler,
    path: Path,
    data: bytes | None = None,
    *,
    separate_weights: bool = False,
) -> Model:
    """
    Parse and verify a file of IR, or `data` that is called so. Variables that start
    from equal arrays are one, unless with `separate_weights`. Raises UsageError if it
    cannot be read, `Rejected` if it is not accepted.
    """
    model = _read_model(compiler, path, data)
    if not separate_weights:
        from penstock.runtime.loading.initializers import WeightFiles
        from penstock.tools.session.equal_variables import merge_equal

        with WeightFiles(model.directory) as files:
            model.weights = merge_equal(model.module, model.weights, files)
    return model


def _read_model(compiler: Compiler, path: Path, data: bytes | None) -> Model:
    from penstock.tools.driver.importers import import_by_plugin, module_of

    if data is None and (imported := import_by_plugin(path)) is not None:
        module = module_of(compiler, path, imported)
        return Model(module, imported.weights, path.parent)
    try:
        data = path.read_bytes() if data is None else data
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    refuse_others(path, ".mlir")
    module = compiler.parse(data, str(path))
    compiler.verify(module)
    return Model(module, {}, path.parent)


def check_kernels(model: Model) -> None:
    """
    Raise `Rejected` for each kernel of a launch program that is only run if that is
    allowed: it comes with Python source of its own, or may reach outside of its memory.
    """
    from penstock.dialects.launch import ProgramOp
    from penstock.tools.driver.diagnostics import reject_if_any
    from penstock.tools.session.kernel_sources import kernel_objections

    programs = (entry for entry in model.entries if isinstance(entry, ProgramOp))
    reject_if_any((x for each in programs for x in kernel_objections(each)), "")


def lower(
    compiler: Compiler,
    passes: PassTable,
    model: Model,
    options: CompileOptions = DEFAULTS,
    level: str | None = None,
) -> Lowering:
    """
    Take a model's module, whatever its level, to a launch program, which is one for all
    jobs, and for all ranks if they are to be simulated; or to a `level` before it.
    Raises UsageError if the module holds nothing to run, or something beside a program,
    for what is wrong with the pipeline of the options, or for Winograd together with
    jobs over the model, and `Rejected` if what it holds cannot be lowered.
    """
    if not model.has_several and not model.is_of_ranks:
        _ = model.entry
    lowering = lowering_of(compiler, passes, model, options, level)
    if lowering.options.winograd and lowering.options.model_jobs:
        raise UsageError("weights for Winograd are not loaded and saved by jobs")
    compiler.apply(model.module, lowering.passes)
    return lowering


def lowering_of(
    compiler: Compiler,
    passes: PassTable,
    model: Model,
    options: CompileOptions = DEFAULTS,
    level: str | None = None,
) -> Lowering:
    """
    The passes that `lower` runs. Raises UsageError for what is wrong with the pipeline
    of the options.
    """
    from penstock.tools.session.pipeline_choice import chosen_passes

    standard = pipeline_options(options, merge=model.has_several)
    return chosen_passes(compiler, passes, options, standard, level)


def pipeline_options(options: CompileOptions, *, merge: bool) -> PipelineOptions:
    """The options of the pipeline that compiles a model, of jobs to `merge` or one."""
    from penstock.lowering.pipelines import PipelineOptions

    path = path_for_pass(options.database or database_of_environment())
    return PipelineOptions(
        options.device,
        options.threads,
        simulate_ranks=options.simulate_ranks,
        collectives=options.collectives,
        merge=merge or options.model_jobs,
        model_jobs=options.model_jobs,
        strategy=options.strategy,
        panels=options.panels,
        database=path,
        gpu="" if path is None or options.device != "cuda" else gpu_of_cuda(),
        winograd=options.winograd,
        plain_loops=options.plain_loops,
        guard=options.guard,
    )


def compile_model(
    model: Model,
    options: CompileOptions = DEFAULTS,
    compiler: tuple[Compiler, PassTable] | None = None,
    *,
    allow_source: bool = False,
) -> ExportedProgram:
    """
    The executable that a model is compiled to; its module becomes the launch program.
    Raises `Rejected` for kernels of a launch program that are only run if that is
    allowed, unless with `allow_source`, and what `lower` raises.
    """
    if options.simulate_ranks and model.is_of_ranks:
        raise UsageError(
            "plans and programs of ranks are not simulated: start as many processes "
            "(--ranks, or ranks=), or simulate the job that they are made of"
        )
    (executable,) = compile_programs(
        model,
        options,
        compiler,
        lambda lowered: [program_of(lowered)],
        allow_source=allow_source,
    )
    return executable


def compile_programs(
    model: Model,
    options: CompileOptions,
    compiler: tuple[Compiler, PassTable] | None,
    choose: Callable[[Model], Sequence[ProgramOp]],
    *,
    allow_source: bool = False,
) -> list[ExportedProgram]:
    """
    The executables of the programs that are chosen of a lowered model. Raises what
    `compile_model` does.
    """
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.program_export import ExportedProgram

    if not allow_source:
        check_kernels(model)
    front = compiler or installed_compiler(options.load)
    lowering = lower(*front, model, options)
    origin = lowering.origin_with(front[0].loaded)
    return [
        ExportedProgram(
            program,
            model.weights,
            model.directory,
            origin,
            lowering.options.threads,
        )
        for program in choose(model)
    ]


def database_of_environment() -> Path | None:
    """
    The kernel database that `PENSTOCK_KERNELS` names, if it does; with a warning
    instead where that cannot be used.
    """
    if not (name := os.environ.get(KERNELS)):
        return None
    from penstock.lowering.kernel_times.database import DatabaseError, KernelDatabase

    try:
        KernelDatabase(Path(name)).close()
    except DatabaseError as error:
        text = f"nothing counts as measured: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return None
    return Path(name)


def gpu_of_cuda() -> str:
    """The name of the GPU in a kernel database, empty without one."""
    from penstock.runtime.cuda import device as cuda
    from penstock.runtime.errors import PenstockError

    try:
        return cuda.device_name(cuda.open_cuda().driver)
    except PenstockError:
        # It is told when the program is loaded, if at all.
        return ""


def path_for_pass(path: Path | None) -> str | None:
    """A path as the option of a pass. Raises UsageError if it cannot be one."""
    if path is None:
        return None
    text = str(path)
    if any(character in text for character in '"\\\n'):
        raise UsageError(f"the path of a kernel database has no quotes, got {path}")
    return text


def program_of(model: Model) -> ProgramOp:
    """The launch program of a lowered model. Raises `Rejected` if it is not one."""
    from penstock.dialects.launch import ProgramOp

    programs = [op for op in model.entries if isinstance(op, ProgramOp)]
    ranks = sorted({op.rank.value.data for op in programs})
    if len(ranks) > 1:
        from penstock.runtime.transport.join import refuse_slurm_alone

        refuse_slurm_alone()
        raise UsageError(
            f"the model is placed on ranks {', '.join(map(str, ranks))}: start as many "
            "processes (--ranks, or ranks=), or let this one simulate them "
            "(--simulate-ranks, simulate_ranks=True)"
        )
    if not isinstance(entry := model.entry, ProgramOp):
        _reject_op(entry, f"{entry.name} was not lowered to a launch program")
    return entry


def programs_of(model: Model) -> list[ProgramOp]:
    """
    The launch programs of a lowered model, one of each rank. Raises `Rejected` for what
    is none.
    """
    from penstock.dialects.launch import ProgramOp

    found: list[ProgramOp] = []
    for entry in model.entries:
        if not isinstance(entry, ProgramOp):
            _reject_op(entry, f"{entry.name} was not lowered to a launch program")
        found.append(entry)
    return found


def _reject_op(op: Operation, text: str) -> NoReturn:
    from penstock.dialects.utils.diagnostics import place_of
    from penstock.tools.driver.diagnostics import reject

    reject(text, place_of(op))
