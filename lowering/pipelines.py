"""
The standard pipelines: the passes that `penstock-opt --pipeline NAME` runs.

Every pass leaves alone what is already past its level, so that the output of any pass
can be given to the whole pipeline again and ends as the same program.
"""

from __future__ import annotations

from collections.abc import Mapping


def pipeline(
    device: str | None = None, streams: int = 1, *, simulate_ranks: bool = False
) -> str:
    """
    The passes that take a job, or anything past it, to a launch program.

    `device` is the kind of device that jobs are placed on, where an op says nothing
    else; without it they stay where they say. `streams` is the number of compute
    streams of each device. `simulate_ranks` makes one program of all ranks, for one
    process.
    """
    launch = "convert-plan-to-launch" + "{simulate-ranks=true}" * simulate_ranks
    return ",".join(
        (
            "op-infer-shapes",
            # Folding sees through reshapes only once they are merged, and leaves
            # constants that nobody uses.
            "job-clean",
            "op-fold-constants",
            "op-split-pads",
            "job-clean",
            "job-place" if device is None else f'job-place{{device="{device}"}}',
            "job-infer-sbp",
            "job-insert-boxing",
            "op-fuse-elementwise",
            "op-fuse-epilogues",
            "job-clean",
            "convert-job-to-plan",
            # Results are written over operands later on.
            "plan-order-tasks{in-place=true}",
            f"plan-assign-streams{{streams={streams}}}",
            "plan-create-registers",
            "regst-alias-registers",
            "regst-plan-memory",
            "plan-reduce-events",
            "verify-plan",
            launch,
            # Programs may be written by hand, too.
            "verify-program",
            # Kernels, which did not exist before.
            "canonicalize,cse",
            "launch-schedule-contractions"
            + (f"{{parts={streams}}}" if streams > 1 else ""),
        )
    )


PIPELINES: Mapping[str, str] = {kind: pipeline(kind) for kind in ("cpu", "cuda")}
"""The text of each standard pipeline by its name."""
