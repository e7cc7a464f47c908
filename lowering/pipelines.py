"""
The standard pipelines: the passes that `penstock-opt --pipeline NAME` runs.

Every pass leaves alone what is already past its level, so that the output of any pass
can be given to the whole pipeline again and ends as the same program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MODEL_JOBS = ("job-add-model-jobs", "job-place", "job-infer-sbp")
"""What adds jobs over all variables, once the others know where these are and how."""


def pipeline(
    device: str | None = None,
    streams: int = 1,
    *,
    simulate_ranks: bool = False,
    merge: bool = False,
    model_jobs: bool = False,
    main: bool = False,
    strategy: str = "parallelism",
    panels: bool = True,
    database: str | None = None,
    gpu: str = "",
    winograd: bool = False,
    guard: str | None = None,
    waves: bool = False,
) -> str:
    """
    The passes that take a job, or anything past it, to a launch program.

    `device` is the kind of device that jobs are placed on, where an op says nothing
    else; without it they stay where they say. `streams` is the number of compute
    streams of each device. `simulate_ranks` makes one program of all ranks, for one
    process. `merge` makes one program of all jobs, with those that bring in and take
    out what several of them know by one name, and `strategy` says which of them never
    run at the same time. `model_jobs` adds those that initialise, load and save all
    variables, also where there is one job. `main` links all jobs to a main job, which
    launches them by their numbers, and wants `merge`. Without `panels` variables lie as
    their arrays do, so that other programs can share them. `database` is the path of a
    kernel database: what was measured says how kernels are computed, and how long tasks
    take; `gpu` is what that calls the device of kernels for `cuda`. `winograd` allows
    the error of `op-use-winograd`. `guard` is that of `regst-plan-memory`: what streams
    may take. `waves` lets small ops that do not need each other act together.
    """
    return ",".join(
        (
            job_passes(
                device,
                merge=merge,
                model_jobs=model_jobs,
                main=main,
                winograd=winograd,
            ),
            *timing(streams, database),
            plan_passes(
                streams,
                simulate_ranks=simulate_ranks,
                merge=merge,
                main=main,
                strategy=strategy,
                timed=database is not None,
                guard=guard,
                waves=waves,
            ),
            kernel_passes(streams, panels, database, gpu),
            *("launch-form-waves", "verify-program") * waves,
        )
    )


def job_passes(
    device: str | None = None,
    *,
    merge: bool = False,
    model_jobs: bool = False,
    main: bool = False,
    winograd: bool = False,
) -> str:
    """The passes that take a job to a plan whose tasks are in no order yet."""
    moved = [] if device is None else [f'device="{device}"']
    return ",".join(
        (
            *(("job-add-push-pull{shared=true}", "verify-jobs") if merge else ()),
            "op-infer-shapes",
            # Folding sees through reshapes only once they are merged, and leaves
            # constants that nobody uses.
            "job-clean",
            "op-fold-constants",
            *("op-use-winograd",) * winograd,
            with_options("op-widen-sums", moved),
            with_options("op-split-pads", moved),
            "job-clean",
            "job-place" if device is None else f'job-place{{device="{device}"}}',
            "job-infer-sbp",
            # Only now it is known how variables lie on several devices.
            *MODEL_JOBS * model_jobs,
            "job-insert-boxing",
            "op-assign-layouts",
            "op-fuse-attention",
            "op-fuse-elementwise",
            "op-fuse-epilogues",
            "op-fuse-rows",
            "job-clean",
            # What jobs share is what is left of them.
            *("job-add-sections",) * main,
            "convert-job-to-plan",
            "plan-order-updates",
            "plan-order-commits",
        )
    )


def plan_passes(
    streams: int = 1,
    *,
    simulate_ranks: bool = False,
    merge: bool = False,
    main: bool = False,
    strategy: str = "parallelism",
    timed: bool = False,
    guard: str | None = None,
    waves: bool = False,
) -> str:
    """
    The passes that take a plan on values to a launch program; if it is `timed`, tasks
    say how long they take.
    """
    policy = " policy=critical-path" * (timed and streams > 1)
    launch = "convert-plan-to-launch" + "{simulate-ranks=true}" * simulate_ranks
    return ",".join(
        (
            # Results are written over operands later on.
            "plan-order-tasks{in-place=true}",
            *("plan-form-waves",) * waves,
            f"plan-assign-streams{{streams={streams}{policy}}}",
            "plan-create-registers",
            "regst-mark-interfaces",
            *("plan-add-ticks",) * main,
            "regst-alias-registers",
            with_options("regst-plan-memory", [f"guard={guard}"] * (guard is not None)),
            "plan-reduce-events",
            *((merging(strategy, alone=main),) if merge else ()),
            *("plan-link-main", "verify-ticks") * main,
            "verify-plan",
            launch,
            # Programs may be written by hand, too.
            "verify-program",
            # Kernels, which did not exist before.
            "canonicalize,cse",
        )
    )


def kernel_passes(
    streams: int, panels: bool, database: str | None = None, gpu: str = ""
) -> str:
    """The passes that say how the kernels of a program are computed."""
    options = [f"parts={streams}"] * (streams > 1) + ["panels=false"] * (not panels)
    known = [f'database="{database}"'] * (database is not None)
    known += [f'gpu="{gpu}"'] * bool(gpu)
    return ",".join(
        (
            with_options("launch-select-kernels", known + options),
            "launch-order-commits",
            with_options("launch-schedule-contractions", options),
            "launch-schedule-attention",
            "launch-schedule-tiles",
        )
    )


def timing(streams: int, database: str | None) -> tuple[str, ...]:
    """The pass that says how long tasks take, if it is known."""
    if database is None:
        return ()
    options = [f'database="{database}"', *[f"parts={streams}"] * (streams > 1)]
    return (with_options("plan-write-times", options),)


def with_options(name: str, options: Sequence[str]) -> str:
    """The text of a pass."""
    return f"{name}{{{' '.join(options)}}}" if options else name


def merging(strategy: str, *, alone: bool = False) -> str:
    """The pass that makes one plan of several, or of one that is `alone`."""
    options = [f"strategy={strategy}"] * (strategy != "parallelism")
    return with_options("plan-merge-jobs", options + ["alone=true"] * alone)


PIPELINES: Mapping[str, str] = {
    "cpu": pipeline("cpu"),
    "cuda": pipeline("cuda"),
    "jobs": pipeline(merge=True),
    "main": pipeline(merge=True, main=True),
    "model": pipeline(merge=True, model_jobs=True),
}
"""
The text of each standard pipeline by its name: for jobs on one kind of device, and for
several jobs in one program, wherever they are placed: as they are, with a main job that
launches them, and with those that set and save its variables.
"""

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
