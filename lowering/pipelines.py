"""
The standard pipelines: the passes that `penstock-opt --pipeline NAME` runs.

A `Pipeline` makes passes with their options, `ArgSpec`s of xDSL, of which
`tools/driver/pass_pipeline.py` makes the passes; `text_of` is what `-p` would be told.
Every pass leaves alone what is already past its level, so that the output of any pass
can be given to the whole pipeline again and ends as the same program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, ParameterType

Passes: TypeAlias = tuple[ArgSpec, ...]


@dataclass(frozen=True)
class Pipeline(ArgSpecConvertible, ABC):
    """
    A pipeline by its `name`: a frozen dataclass whose fields are its options, as those
    of a pass are.
    """

    name: ClassVar[str]

    @abstractmethod
    def passes(self) -> Passes:
        """Its passes, with their options, in order."""


@dataclass(frozen=True)
class PipelineOptions:
    """All that decides which passes a pipeline has, and with which options."""

    device: str | None = None
    """The kind of device that jobs are placed on, where an op says nothing else;
    without it they stay where they say."""
    threads: int = 1
    """The compute streams of each device."""
    simulate_ranks: bool = False
    """Whether to make one program of all ranks, for one process."""
    collectives: str = "copies"
    """The algorithm of collectives of ranks (`convert-job-to-plan`)."""
    bucket: int | None = None
    """The bytes of small tensors that are summed over devices as one at most
    (`job-fuse-boxings`), if any are."""
    merge: bool = False
    """Whether to make one program of all jobs, with those that bring in and take out
    what several of them know by one name."""
    model_jobs: bool = False
    """Whether to add jobs that initialise, load and save all variables, also where
    there is one job."""
    main: bool = False
    """Whether to link all jobs to a main job, which launches them by their numbers, and
    which only a merged program has."""
    strategy: str = "parallelism"
    """
    The strategy for merged jobs that never run at the same time (`plan-merge-jobs`).
    """
    panels: bool = True
    """Without it variables lie as their arrays do, so that other programs can share
    them."""
    database: str | None = None
    """
    The path of a kernel database: its measured times select kernels, and are those of
    tasks.
    """
    gpu: str = ""
    """The name of the GPU in the database."""
    winograd: bool = False
    """Whether the error of `op-use-winograd` is allowed."""
    guard: str | None = None
    """The memory that streams may take, as in `regst-plan-memory`."""
    plain_loops: bool = False
    """Whether all kernels are computed as the plain loops that they mean."""
    amp: str = "none"
    """The type of 16 bits for ops that gain by it, `bf16` or `f16` (`job-cast-amp`)."""
    accumulate: int = 1
    """The micro-batches of one update (`job-accumulate`)."""
    shard_states: int = 0
    """The stage of splitting over devices what each would have (`job-shard-states`)."""
    recompute: str | None = None
    """The policy of `job-recompute`, if another than `auto`."""
    budget: int | None = None
    """The bytes that may be alive at once, for the policy `budget`."""
    waves: bool = False
    """Whether small ops that do not need each other act together."""


DEFAULTS = PipelineOptions()

MOST_UNROLLED = 2
"""The iterations of a loop that may as well be ops, which fuse with others."""
MOST_SELECTED = 4096
"""
The scalar operations of both bodies of a condition that take no longer than a step of
an actor does, so that both may be computed, and fuse with other ops.
"""


def pipeline(options: PipelineOptions = DEFAULTS) -> Passes:
    """The passes that take a job, or anything past it, to a launch program."""
    if (options.main or options.model_jobs) and not options.merge:
        # Both are about all jobs of a program.
        options = replace(options, merge=True)
    waves = call("launch-form-waves"), call("verify-program")
    return (
        *job_passes(options),
        *timing(options),
        *plan_passes(options),
        *kernel_passes(options),
        *waves * options.waves,
    )


def job_passes(options: PipelineOptions = DEFAULTS) -> Passes:
    """The passes that take a job to a plan whose tasks are in no order yet."""
    device = options.device
    shared = call("job-add-push-pull", shared=True), call("verify-jobs")
    # They are added once the other jobs know where variables are, and how.
    model_jobs = call("job-add-model-jobs"), call("job-place"), call("job-infer-sbp")
    return (
        *shared * options.merge,
        *training_passes(options),
        call("op-unroll-loops", up_to=MOST_UNROLLED, device=device),
        call("op-select-branches", up_to=MOST_SELECTED, device=device),
        # Folding sees through reshapes only once they are merged, and leaves
        # constants that nobody uses.
        call("job-clean"),
        call("op-fold-constants"),
        # Ops of constants alone have no rate.
        call("op-spread-loops"),
        recomputing(options),
        call("op-raise-patterns"),
        *(call("op-use-winograd"),) * options.winograd,
        *splitting_taps(options),
        call("op-widen-sums", device=device),
        call("op-split-pads", device=device),
        call("job-clean"),
        call("job-place", device=device),
        call("job-infer-sbp"),
        # Only now it is known how variables lie on several devices.
        *model_jobs * options.model_jobs,
        call("job-insert-boxing"),
        *bucketing(options),
        call("op-assign-layouts"),
        call("op-fuse-attention"),
        call("op-fuse-elementwise"),
        call("op-fuse-epilogues"),
        call("op-fuse-rows"),
        call("job-clean"),
        # Sections depend on what jobs share, which cleaning makes less.
        *splitting(options),
        *(call("job-add-sections"),) * options.main,
        boxing(options),
        call("plan-order-updates"),
        call("plan-order-commits"),
    )


def splitting_taps(options: PipelineOptions) -> Passes:
    """The split of weights by taps, unless other programs or jobs know them whole."""
    is_shared = options.model_jobs or options.merge or not options.panels
    return (call("op-split-taps", device=options.device),) * (not is_shared)


def training_passes(options: PipelineOptions = DEFAULTS) -> Passes:
    """The passes that make ops of what jobs say of training."""
    many, stage = options.accumulate, options.shard_states
    return (
        call("op-infer-shapes"),
        call("job-cast-amp", type=None if options.amp == "none" else options.amp),
        # The gradients of its steps would have the matrix of scores.
        call("op-fuse-attention", trained=True, device=options.device),
        call("job-add-gradients"),
        call("job-shard-states", stage=stage or None),
        call("job-accumulate", count=None if many == 1 else many),
        call("job-add-updates"),
    )


def plan_passes(options: PipelineOptions = DEFAULTS) -> Passes:
    """
    The passes that take a plan on values to a launch program; with a database tasks say
    how long they take.
    """
    streams, main = options.threads, options.main
    is_timed = options.database is not None and streams > 1
    policy = "critical-path" if is_timed else None
    return (
        # Results are written over operands later on.
        call("plan-order-tasks", in_place=True),
        *(call("plan-form-waves"),) * options.waves,
        *(call("plan-split-ranks"),) * (not options.simulate_ranks),
        call("plan-assign-streams", streams=streams, policy=policy),
        call("plan-create-registers"),
        call("regst-mark-interfaces"),
        *(call("plan-add-ticks"),) * main,
        call("regst-alias-registers"),
        call("regst-plan-memory", guard=options.guard),
        call("plan-reduce-events"),
        *(merging(options),) * options.merge,
        *(call("plan-link-main"), call("verify-ticks")) * main,
        call("verify-plan"),
        call("convert-plan-to-launch", simulate_ranks=options.simulate_ranks or None),
        # Programs may be written by hand, too, with kinds of actors of plug-ins.
        call("launch-expand-kinds"),
        call("verify-program"),
        # Kernels, which did not exist before. Values that become one may fold anew.
        call("canonicalize"),
        call("cse"),
        call("canonicalize"),
    )


def kernel_passes(options: PipelineOptions = DEFAULTS) -> Passes:
    """The passes that say how the kernels of a program are computed."""
    if options.plain_loops:
        return call("launch-order-commits"), call("convert-kernel-to-loops")
    parts, panels = _parts(options), None if options.panels else False
    return (
        call("raise-linalg-to-kernel"),
        call(
            "launch-select-kernels",
            database=options.database,
            gpu=options.gpu or None,
            parts=parts,
            panels=panels,
        ),
        call("launch-order-commits"),
        call("launch-schedule-contractions", parts=parts, panels=panels),
        call("launch-schedule-attention"),
        call("launch-schedule-tiles"),
        # A stage that no schedule was found for is computed as plain loops.
        call("convert-kernel-to-loops", only_unscheduled=True),
    )


def recomputing(options: PipelineOptions) -> ArgSpec:
    """The pass that makes values of the forward pass again."""
    device = options.device if options.budget is not None else None
    return call(
        "job-recompute",
        policy=options.recompute,
        budget=options.budget,
        device=device,
    )


def bucketing(options: PipelineOptions) -> Passes:
    """The pass that sums small tensors together, if that is asked for."""
    if options.bucket is None:
        return ()
    return (call("job-fuse-boxings", bytes=options.bucket),)


def boxing(options: PipelineOptions) -> ArgSpec:
    """The pass that makes plans, with how ranks do collectives."""
    is_usual = options.simulate_ranks or options.collectives == DEFAULTS.collectives
    how = None if is_usual else options.collectives
    return call("convert-job-to-plan", collectives=how)


def splitting(options: PipelineOptions) -> Passes:
    """The pass that splits groups whose parts were measured to take less."""
    database, gpu = options.database, options.gpu or None
    if database is None:
        return ()
    return (call("op-split-groups", database=database, gpu=gpu, parts=_parts(options)),)


def timing(options: PipelineOptions) -> Passes:
    """The pass that says how long tasks take, if it is known."""
    database = options.database
    if database is None:
        return ()
    return (call("plan-write-times", database=database, parts=_parts(options)),)


def merging(options: PipelineOptions) -> ArgSpec:
    """The pass that makes one plan of several, or of one that is linked alone."""
    strategy = None if options.strategy == DEFAULTS.strategy else options.strategy
    return call("plan-merge-jobs", strategy=strategy, alone=options.main or None)


def _parts(options: PipelineOptions) -> int | None:
    """Into how many parts kernels may be split, if into several."""
    return options.threads if options.threads > 1 else None


def call(name: str, **options: ParameterType | None) -> ArgSpec:
    """A pass with those of these options that are not None."""
    given = ((key.replace("_", "-"), x) for key, x in options.items() if x is not None)
    return ArgSpec(name, {key: (value,) for key, value in given})


def text_of(passes: Iterable[ArgSpec], separator: str = ",") -> str:
    """The text of passes, as `penstock-opt -p` reads it."""
    return separator.join(map(_text_of_pass, passes))


def _text_of_pass(spec: ArgSpec) -> str:
    options = " ".join(
        f"{name}={','.join(map(text_of_value, values))}" if values else name
        for name, values in spec.parameters.items()
    )
    return f"{spec.name}{{{options}}}" if options else spec.name


def text_of_value(value: ParameterType) -> str:
    """The text of a value of an option, which is read back as the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text.translate(_ESCAPES)}"'
    text = repr(value)
    # Without a point it would be read as an integer, or as a name.
    mantissa, exponent, rest = text.partition("e")
    return f"{mantissa}.0{exponent}{rest}" if exponent and "." not in text else text


_ESCAPES = str.maketrans({"\n": "\\n", "\t": "\\t"})


@dataclass(frozen=True)
class CpuPipeline(PipelineOptions, Pipeline):
    """Jobs on CPUs, where an op says nothing else."""

    name = "cpu"

    device: str | None = field(default="cpu", init=False)

    def passes(self) -> Passes:
        return pipeline(self)


@dataclass(frozen=True)
class CudaPipeline(PipelineOptions, Pipeline):
    """Jobs on GPUs, where an op says nothing else."""

    name = "cuda"

    device: str | None = field(default="cuda", init=False)

    def passes(self) -> Passes:
        return pipeline(self)


@dataclass(frozen=True)
class JobsPipeline(PipelineOptions, Pipeline):
    """Several jobs in one program, wherever they are placed."""

    name = "jobs"

    merge: bool = field(default=True, init=False)

    def passes(self) -> Passes:
        return pipeline(self)


@dataclass(frozen=True)
class MainPipeline(PipelineOptions, Pipeline):
    """Several jobs in one program, with a main job that launches them."""

    name = "main"

    merge: bool = field(default=True, init=False)
    main: bool = field(default=True, init=False)

    def passes(self) -> Passes:
        return pipeline(self)


@dataclass(frozen=True)
class ModelPipeline(PipelineOptions, Pipeline):
    """Several jobs in one program, with those that set and save its variables."""

    name = "model"

    merge: bool = field(default=True, init=False)
    model_jobs: bool = field(default=True, init=False)

    def passes(self) -> Passes:
        return pipeline(self)


@dataclass(frozen=True)
class TrainPipeline(Pipeline):
    """The passes that make ops of what jobs say of training, and no others."""

    name = "train"

    def passes(self) -> Passes:
        return training_passes()


STANDARD: Mapping[str, type[Pipeline]] = {
    made.name: made
    for made in (
        CpuPipeline,
        CudaPipeline,
        JobsPipeline,
        MainPipeline,
        ModelPipeline,
        TrainPipeline,
    )
}
"""Each standard pipeline by its name."""

PIPELINES: Mapping[str, Passes] = {
    name: made().passes() for name, made in STANDARD.items()
}
"""The passes of each standard pipeline with its options as they are by default."""

LEVELS: Mapping[str, str | None] = {
    "job": "convert-job-to-plan",
    "plan": "plan-create-registers",
    "memory": "convert-plan-to-launch",
    "launch": None,
    "source": None,
}
"""
Each level of IR, and the source of kernels, by its name, with the pass that takes it to
the next one.
"""


def get_all_pipelines() -> dict[str, Callable[[], type[Pipeline]]]:
    """Map each standard pipeline's name to a function that returns its class."""

    def always(made: type[Pipeline]) -> Callable[[], type[Pipeline]]:
        return lambda: made

    return {name: always(made) for name, made in STANDARD.items()}


ON_TRIAL: Mapping[str, Sequence[str]] = {
    "main job": (
        "job-add-sections",
        "plan-add-ticks",
        "plan-link-main",
        "verify-ticks",
    ),
    "image layouts": ("op-assign-layouts",),
}
"""
Features whose passes are in standard pipelines and yet optional: they gain little, or
for few programs. Figures will decide whether they stay.
"""
