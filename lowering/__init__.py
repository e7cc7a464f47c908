"""The passes of Penstock, by name. Importing this module imports none of them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module

from xdsl.passes import ModulePass

PASSES = (
    "convert-job-to-plan",
    "convert-kernel-to-loops",
    "convert-plan-to-launch",
    "job-accumulate",
    "job-add-gradients",
    "job-add-model-jobs",
    "job-add-push-pull",
    "job-add-sections",
    "job-add-updates",
    "job-cast-amp",
    "job-clean",
    "job-fuse-boxings",
    "job-infer-sbp",
    "job-insert-boxing",
    "job-place",
    "job-recompute",
    "job-shard-states",
    "launch-expand-kinds",
    "launch-form-chains",
    "launch-form-waves",
    "launch-order-commits",
    "launch-schedule-attention",
    "launch-schedule-contractions",
    "launch-schedule-tiles",
    "launch-select-kernels",
    "op-assign-layouts",
    "op-fold-constants",
    "op-fuse-attention",
    "op-fuse-elementwise",
    "op-fuse-epilogues",
    "op-fuse-rows",
    "op-infer-shapes",
    "op-raise-patterns",
    "op-select-branches",
    "op-split-groups",
    "op-split-pads",
    "op-split-taps",
    "op-spread-loops",
    "op-unroll-loops",
    "op-use-winograd",
    "op-widen-sums",
    "plan-add-ticks",
    "plan-assign-streams",
    "plan-create-registers",
    "plan-form-chains",
    "plan-form-waves",
    "plan-link-main",
    "plan-merge-jobs",
    "plan-order-commits",
    "plan-order-tasks",
    "plan-order-updates",
    "plan-reduce-events",
    "plan-select-job",
    "plan-split-ranks",
    "plan-write-times",
    "raise-linalg-to-kernel",
    "regst-alias-registers",
    "regst-choose-slots",
    "regst-mark-interfaces",
    "regst-plan-memory",
    "verify-deadlock",
    "verify-jobs",
    "verify-memory",
    "verify-plan",
    "verify-program",
    "verify-ticks",
)
"""`plan-order-tasks` is the class `PlanOrderTasksPass` of `plan/order_tasks.py`."""


def get_all_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """Map each pass's name to a function that imports and returns it."""
    return {name: partial(pass_of, name) for name in PASSES}


def level_of(name: str) -> str:
    """The level of a pass: the first word in its name; to raise is to convert."""
    level = name.partition("-")[0]
    return "convert" if level == "raise" else level


def home_of(name: str) -> str:
    """The module of the pass of a name, which the name says."""
    level = level_of(name)
    file = name if name.startswith("raise-") else name.removeprefix(f"{level}-")
    return f"penstock.lowering.{level}.{file.replace('-', '_')}"


def pass_of(name: str) -> type[ModulePass]:
    """The class of the pass of a name, from the file that the name says."""
    return getattr(import_module(home_of(name)), f"{name.title().replace('-', '')}Pass")
