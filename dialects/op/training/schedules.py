"""
Schedules: the ways of a rate from step to step, which `job-add-updates` computes in the
job, so that they are the same on each device and after a resumed run.

A schedule is a dataclass, whose fields are the parameters of `#job.schedule`. Plug-ins
of the kind `schedule` are such classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import pi

from xdsl.ir import SSAValue

from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.trigonometry import CosOp
from penstock.dialects.op.unary_math import FloorOp


@dataclass(frozen=True, kw_only=True)
class Schedule(ABC):
    """
    The base class of schedules, each of which may begin with a warm-up.
    """

    base: float
    """The rate at the beginning, or behind the warm-up."""
    warmup: int = 0
    """
    The steps of the warm-up, in which the rate is 1/n, 2/n ... n/n of `base`. The
    schedule counts from its end.
    """

    def __post_init__(self) -> None:
        if self.base < 0:
            raise ValueError(f"base should not be negative, got {self.base:g}")
        if self.warmup < 0:
            raise ValueError(f"warmup should not be negative, got {self.warmup}")

    def at(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        """The rate at a step, which counts from 0: both are f64 scalars."""
        if not self.warmup:
            return self.rate(o, step)
        later = self.rate(o, o.maximum(o.sub(step, self.warmup), 0))
        ramp = o.mul(o.add(step, 1), self.base / self.warmup)
        return o.where(o.greater(self.warmup, step), ramp, later)

    @abstractmethod
    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        """The rate at a step that counts from the end of the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """
    One rate for all steps.
    """

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        return o.filled(self.base, [], step)


@dataclass(frozen=True, kw_only=True)
class Step(Schedule):
    """
    A rate that is multiplied by `gamma` after each `every` steps.
    """

    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_none(every=self.every)

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        times = o.one(FloorOp, o.div(step, self.every))
        return o.mul(o.pow(self.gamma, times), self.base)


@dataclass(frozen=True, kw_only=True)
class MultiStep(Schedule):
    """
    A rate that is multiplied by `gamma` at each of the steps `milestones`.
    """

    milestones: tuple[int, ...]
    """Steps of the job: those of a warm-up count."""
    gamma: float = 0.1

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        rate = o.filled(self.base, [], step)
        for count, milestone in enumerate(sorted(self.milestones), start=1):
            is_past = o.greater_equal(step, milestone - self.warmup)
            rate = o.where(is_past, self.base * self.gamma**count, rate)
        return rate


@dataclass(frozen=True, kw_only=True)
class Exponential(Schedule):
    """
    A rate that is multiplied by `gamma` at each step.
    """

    gamma: float

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        return o.mul(o.pow(self.gamma, step), self.base)


@dataclass(frozen=True, kw_only=True)
class Timed(Schedule, ABC):
    """
    A rate that reaches its end at step `total`, and stays there.
    """

    total: int
    """The steps of the job, those of a warm-up among them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.total <= self.warmup:
            beyond = f"those of the warm-up, {self.warmup}" if self.warmup else "0"
            raise ValueError(f"total should be more than {beyond}, got {self.total}")

    def share(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        """The share of the steps that are over, up to 1."""
        return o.minimum(o.div(step, self.total - self.warmup), 1)


@dataclass(frozen=True, kw_only=True)
class Cosine(Timed):
    """
    A rate that falls to `minimum` along half a period of a cosine.
    """

    minimum: float = 0.0

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        wave = o.one(CosOp, o.mul(self.share(o, step), pi))
        height = (self.base - self.minimum) / 2
        return o.add(o.mul(o.add(wave, 1), height), self.minimum)


@dataclass(frozen=True, kw_only=True)
class Polynomial(Timed):
    """
    A rate that falls to 0 as a power of the share of steps that are left.
    """

    power: float = 1.0

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        left = o.sub(1, self.share(o, step))
        return o.mul(left if self.power == 1 else o.pow(left, self.power), self.base)


@dataclass(frozen=True, kw_only=True)
class Linear(Timed):
    """
    A rate that goes from `start` times the base to `end` times it.
    """

    start: float = 1 / 3
    end: float = 1.0

    def rate(self, o: OpBuilder, step: SSAValue) -> SSAValue:
        factor = o.mul(self.share(o, step), self.end - self.start)
        return o.mul(o.add(factor, self.start), self.base)


def refuse_none(**given: int) -> None:
    """Raise ValueError for a number of steps that is not positive."""
    for name, count in given.items():
        if count < 1:
            raise ValueError(f"{name} should be positive, got {count}")


SCHEDULES: Mapping[str, type[Schedule]] = {
    "constant": Constant,
    "cosine": Cosine,
    "exponential": Exponential,
    "linear": Linear,
    "multistep": MultiStep,
    "polynomial": Polynomial,
    "step": Step,
}
"""Our own, by their names."""
