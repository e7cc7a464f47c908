"""
Optimizers: the rules by which `job-add-updates` updates variables.

An optimizer is a dataclass, whose fields are the parameters of `#job.optimizer` with
PyTorch's names and defaults. Its rule is written in ops on elements, which become one
`op.fused` of several results: a kernel that reads a variable, its gradient and its
states once, and writes over them. Plug-ins of the kind `optimizer` are such classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import f64
from xdsl.ir import SSAValue

from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.training.update_builder import UpdateBuilder

Values: TypeAlias = Sequence[SSAValue]


def refuse_outside(low: float, high: float, **given: float) -> None:
    """Raise ValueError for a number that is not in [low, high)."""
    for name, number in given.items():
        if not low <= number < high:
            range = f"from {low:g} on" if high == INF else f"in [{low:g}, {high:g})"
            raise ValueError(f"{name} should be {range}, got {number:g}")


INF = float("inf")


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """
    The base class of optimizers, with the parameters that all of them have.
    """

    rate: float = 1.0e-3
    """The learning rate of updates that are given none."""
    weight_decay: float = 0.0
    """The share of the variable that is added to its gradient."""
    clip_norm: float = 0.0
    """
    The largest norm of the gradients of all updates of the job with this `clip_norm`
    and `clip_group`, together; 0 for any norm. Larger ones are scaled down to it.
    """
    clip_group: str = ""
    """The updates whose gradients have one norm."""
    clip_value: float = 0.0
    """The largest magnitude of an element of a gradient; 0 for any."""

    def __post_init__(self) -> None:
        refuse_outside(
            0,
            INF,
            rate=self.rate,
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            clip_value=self.clip_value,
        )

    @property
    def counts(self) -> bool:
        """Whether it has to know the number of the step."""
        return False

    @property
    def gradients(self) -> Literal["dense", "any", "sparse"]:
        """
        The gradients that it takes: `dense` ones, a number for each element of the
        variable; `sparse` ones, rows by indices, so that other rows and their states
        stay as they are; or `any` of both, as a row stays that has a zero gradient.
        """
        return "dense"

    def states(self) -> Mapping[str, float]:
        """
        The names of the tensors of the variable's type that it keeps from step to step,
        with the number that all their elements begin with.
        """
        return {}

    def scalars(self, o: OpBuilder, rate: SSAValue, step: SSAValue | None) -> Values:
        """
        The scalars that its rule needs, made of f64 scalars: the rate, and the number
        of the step from 1 on, if it `counts`. They are made once for all variables that
        are updated with the same parameters and rate.
        """
        return [rate]

    @abstractmethod
    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        """
        The new values of the variable and of each state, in ops on elements, by the
        variable, its gradient, its states and the scalars, all of one element type.
        """

    def update(
        self,
        u: UpdateBuilder,
        w: SSAValue,
        g: SSAValue,
        states: Values,
        scalars: Values,
    ) -> Values:
        """The new values of the variable and of each state, as one group of ops."""
        rule = _split(self.rule, len(states))
        return u.group(rule, [w, g, *states, *scalars], [w, *states])

    def decayed(self, o: OpBuilder, w: SSAValue, g: SSAValue) -> SSAValue:
        """The gradient with the share of the variable."""
        return o.add(g, o.mul(w, self.weight_decay)) if self.weight_decay else g


Rule: TypeAlias = Callable[[OpBuilder, SSAValue, SSAValue, Values, Values], Values]


def _split(rule: Rule, states: int) -> Callable[[OpBuilder, Values], Values]:
    """A rule as a function of all its operands in one list."""

    def on_all(o: OpBuilder, operands: Values) -> Values:
        w, g, *rest = operands
        return rule(o, w, g, rest[:states], rest[states:])

    return on_all


def mixed(o: OpBuilder, old: SSAValue, new: SSAValue, share: float) -> SSAValue:
    """share * old + (1 - share) * new."""
    return o.add(o.mul(old, share), o.mul(new, 1 - share))


################################################################################
# Gradient descent                                                             #
################################################################################


@dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer):
    """
    Stochastic gradient descent.
    """

    @property
    def gradients(self) -> Literal["dense", "any", "sparse"]:
        return "dense" if self.weight_decay else "any"

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        return [o.sub(w, o.mul(self.decayed(o, w, g), scalars[0]))]


@dataclass(frozen=True, kw_only=True)
class Momentum(Optimizer):
    """
    Stochastic gradient descent with momentum, or Nesterov's.
    """

    momentum: float = 0.9
    dampening: float = 0.0
    """The share of a gradient that does not go into the momentum, but for the first."""
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(0, INF, momentum=self.momentum)
        if self.nesterov and (not self.momentum or self.dampening):
            raise ValueError("nesterov needs a momentum and no dampening")

    @property
    def counts(self) -> bool:
        return self.dampening != 0

    def states(self) -> Mapping[str, float]:
        return {"buffer": 0.0}

    def scalars(self, o: OpBuilder, rate: SSAValue, step: SSAValue | None) -> Values:
        if not self.dampening:
            return [rate]
        assert step is not None, "it counts"
        # The first momentum is the whole gradient.
        return [rate, o.where(o.equal(step, 1), step, 1 - self.dampening)]

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        return self.moved(o, w, self.decayed(o, w, g), states, scalars)

    def moved(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        """The variable and its momentum after a step."""
        rate, *share = scalars
        added = o.mul(g, share[0]) if share else g
        momentum = o.add(o.mul(states[0], self.momentum), added)
        way = o.add(g, o.mul(momentum, self.momentum)) if self.nesterov else momentum
        return [o.sub(w, o.mul(way, rate)), momentum]


################################################################################
# Adam                                                                         #
################################################################################


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """
    Adam, with weight decay added to the gradient.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1.0e-8
    amsgrad: bool = False
    """Whether the largest second moment of all steps is taken."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(0, 1, beta1=self.beta1, beta2=self.beta2)
        refuse_outside(0, INF, eps=self.eps)

    @property
    def counts(self) -> bool:
        return True

    def states(self) -> Mapping[str, float]:
        return {"m": 0.0, "v": 0.0, **({"v_max": 0.0} if self.amsgrad else {})}

    def scalars(self, o: OpBuilder, rate: SSAValue, step: SSAValue | None) -> Values:
        assert step is not None, "it counts"
        first, second = (o.sub(1, o.pow(b, step)) for b in (self.beta1, self.beta2))
        return [rate, o.div(1, first), o.div(1, o.sqrt(second))]

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        return self.moved(o, w, self.decayed(o, w, g), states, scalars)

    def moved(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        """The variable and the states after a step of Adam."""
        step, *new = self.step(o, g, states, scalars)
        return [o.sub(w, o.mul(step, scalars[0])), *new]

    def step(
        self, o: OpBuilder, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        """The step of the variable at rate 1, and the new states."""
        _, growth, scale = scalars
        m, v, *largest = states
        m = mixed(o, m, g, self.beta1)
        v = mixed(o, v, o.mul(g, g), self.beta2)
        largest = [o.maximum(x, v) for x in largest]
        size = o.mul(o.sqrt(largest[0] if largest else v), scale)
        step = o.div(o.mul(m, growth), o.add(size, self.eps))
        return [step, m, v, *largest]


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """
    Adam, with weight decay apart from the gradient.
    """

    weight_decay: float = 1.0e-2
    """The share of the variable that it loses in a step, times the rate."""

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        if self.weight_decay:
            w = o.sub(w, o.mul(w, o.mul(scalars[0], self.weight_decay)))
        return self.moved(o, w, g, states, scalars)


@dataclass(frozen=True, kw_only=True)
class SparseAdam(Optimizer):
    """
    Adam of the rows that a step has gradients of: the moments of others stay as they
    are, too.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1.0e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(0, 1, beta1=self.beta1, beta2=self.beta2)
        refuse_outside(0, INF, eps=self.eps)
        if self.weight_decay:
            raise ValueError("weights without gradients do not decay")

    @property
    def gradients(self) -> Literal["dense", "any", "sparse"]:
        return "sparse"

    @property
    def counts(self) -> bool:
        return True

    def states(self) -> Mapping[str, float]:
        return {"m": 0.0, "v": 0.0}

    def scalars(self, o: OpBuilder, rate: SSAValue, step: SSAValue | None) -> Values:
        assert step is not None, "it counts"
        first, second = (o.sub(1, o.pow(b, step)) for b in (self.beta1, self.beta2))
        return [o.mul(rate, o.div(o.sqrt(second), first))]

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        m = mixed(o, states[0], g, self.beta1)
        v = mixed(o, states[1], o.mul(g, g), self.beta2)
        way = o.div(m, o.add(o.sqrt(v), self.eps))
        return [o.sub(w, o.mul(way, scalars[0])), m, v]


################################################################################
# Rates by element                                                             #
################################################################################


@dataclass(frozen=True, kw_only=True)
class RmsProp(Optimizer):
    """
    Steps divided by the root of the running mean of squares.
    """

    rate: float = 1.0e-2
    alpha: float = 0.99
    eps: float = 1.0e-8
    momentum: float = 0.0
    centered: bool = False
    """Whether the mean of gradients is taken off, which makes it a variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(0, INF, alpha=self.alpha, eps=self.eps, momentum=self.momentum)

    def states(self) -> Mapping[str, float]:
        names = ["v"]
        names += ["mean"] if self.centered else []
        names += ["buffer"] if self.momentum else []
        return dict.fromkeys(names, 0.0)

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        g = self.decayed(o, w, g)
        new = dict(zip(self.states(), states, strict=True))
        new["v"] = size = mixed(o, new["v"], o.mul(g, g), self.alpha)
        if self.centered:
            new["mean"] = mixed(o, new["mean"], g, self.alpha)
            size = o.sub(size, o.mul(new["mean"], new["mean"]))
        way = o.div(g, o.add(o.sqrt(size), self.eps))
        if self.momentum:
            new["buffer"] = way = o.add(o.mul(new["buffer"], self.momentum), way)
        return [o.sub(w, o.mul(way, scalars[0])), *new.values()]


@dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """
    Steps divided by the root of the sum of squares.
    """

    rate: float = 1.0e-2
    rate_decay: float = 0.0
    """The share of the rate by which its divisor grows in each step."""
    initial: float = 0.0
    """The number that sums begin with."""
    eps: float = 1.0e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(
            0, INF, rate_decay=self.rate_decay, initial=self.initial, eps=self.eps
        )

    @property
    def gradients(self) -> Literal["dense", "any", "sparse"]:
        return "dense" if self.weight_decay else "any"

    @property
    def counts(self) -> bool:
        return self.rate_decay != 0

    def states(self) -> Mapping[str, float]:
        return {"sum": self.initial}

    def scalars(self, o: OpBuilder, rate: SSAValue, step: SSAValue | None) -> Values:
        if step is None or not self.rate_decay:
            return [rate]
        slower = o.mul(o.sub(step, 1), self.rate_decay)
        return [o.div(rate, o.add(slower, 1))]

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        g = self.decayed(o, w, g)
        total = o.add(states[0], o.mul(g, g))
        way = o.div(g, o.add(o.sqrt(total), self.eps))
        return [o.sub(w, o.mul(way, scalars[0])), total]


################################################################################
# Rates by tensor                                                              #
################################################################################


def unless_zero(u: UpdateBuilder, ratio: SSAValue, *norms: SSAValue) -> SSAValue:
    """A ratio of norms, f64 scalars; 1 where one of them is 0."""
    are_some = reduce(u.both, [u.greater(norm, 0) for norm in norms])
    return u.where(are_some, ratio, 1)


@dataclass(frozen=True, kw_only=True)
class Lamb(Adam):
    """
    Adam at a rate for each tensor, by the norms of the tensor and of its step.
    """

    eps: float = 1.0e-6
    weight_decay: float = 1.0e-2

    def way(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        """The new states, and the step of the variable at rate 1."""
        step, *new = self.step(o, g, states, scalars)
        return [*new, self.decayed(o, w, step)]

    def update(
        self,
        u: UpdateBuilder,
        w: SSAValue,
        g: SSAValue,
        states: Values,
        scalars: Values,
    ) -> Values:
        way = _split(self.way, len(states))
        *new, step = u.group(way, [w, g, *states, *scalars], states)
        size, length = u.norm(w), u.norm(step)
        ratio = unless_zero(u, u.div(size, length), size, length)
        rate = u.mul(ratio, u.cast(scalars[0], f64))
        rate = u.cast(rate, u.element(scalars[0]))

        def applied(o: OpBuilder, operands: Values) -> Values:
            w, step, rate = operands
            return [o.sub(w, o.mul(step, rate))]

        return [*u.group(applied, [w, step, rate], [w]), *new]


@dataclass(frozen=True, kw_only=True)
class Lars(Momentum):
    """
    Momentum of gradients that are scaled for each tensor, by the norms of both.
    """

    trust: float = 1.0e-3
    """The share of the norm of the variable that a step has at rate 1."""
    eps: float = 1.0e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_outside(0, INF, trust=self.trust, eps=self.eps)

    def rule(
        self, o: OpBuilder, w: SSAValue, g: SSAValue, states: Values, scalars: Values
    ) -> Values:
        *scalars, rate = scalars
        g = self.decayed(o, w, g)
        return self.moved(o, w, o.mul(g, rate), states, scalars)

    def update(
        self,
        u: UpdateBuilder,
        w: SSAValue,
        g: SSAValue,
        states: Values,
        scalars: Values,
    ) -> Values:
        size, slope = u.norm(w), u.norm(g)
        divisor = u.add(u.add(slope, u.mul(size, self.weight_decay)), self.eps)
        ratio = u.div(u.mul(size, self.trust), divisor)
        ratio = u.cast(unless_zero(u, ratio, size, slope), u.element(scalars[0]))
        return super().update(u, w, g, states, [*scalars, ratio])


OPTIMIZERS: Mapping[str, type[Optimizer]] = {
    "adagrad": Adagrad,
    "adam": Adam,
    "adamw": AdamW,
    "lamb": Lamb,
    "lars": Lars,
    "momentum": Momentum,
    "rmsprop": RmsProp,
    "sgd": Sgd,
    "sparse_adam": SparseAdam,
}
"""Our own, by their names."""
