"""
Optimizers and schedules of rates in traced functions: `penstock.optim`.

They are descriptions: `job.update` and `job.schedule` in the job, of which the passes
make ops. Parameters have PyTorch's names and defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from penstock.dialects.job import (
    STEP,
    InitAttr,
    OptimizerAttr,
    ScheduleAttr,
    ScheduleOp,
    UpdateOp,
)
from penstock.dialects.job.parameters import Parameter
from penstock.dialects.job.training import rate_type
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.plugins import KINDS
from penstock.tools.driver.diagnostics import suggest
from penstock.tools.frontend.python.calls import as_tensor
from penstock.tools.frontend.python.dtypes import (
    DType,
    dtype_named,
    short_name,
    tensor_of,
)
from penstock.tools.frontend.python.errors import refuse, refusing
from penstock.tools.frontend.python.functions import cast
from penstock.tools.frontend.python.guards import is_number
from penstock.tools.frontend.python.structures import flattened
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import Trace, current_trace

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lamb",
    "Lars",
    "Momentum",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "SparseAdam",
    "constant",
    "cosine",
    "exponential",
    "linear",
    "multistep",
    "polynomial",
    "step",
    "step_decay",
]


################################################################################
# Schedules                                                                    #
################################################################################


def step() -> Tensor:
    """
    The number of updates before this run of a job: its variable `<job>/step`, an `i64`
    that counts from 0. A job that updates variables adds 1 to it.

    Raises TraceError outside a function that is traced.
    """
    trace = current_trace("the number of a step")
    return trace.variable(f"{trace.job}/step", STEP, InitAttr("zeros"), None)


class Schedule:
    """
    The way of a rate from step to step, by a rule of this `kind`, our own or that of a
    plug-in, with its `parameters`.

    Raises TraceError for a rule or parameters that are not known; for a plug-in's, when
    it is used.

    ```python
    import penstock
    from penstock import optim


    @penstock.job
    def rate():
        return optim.Schedule("cosine", base=1e-3, total=100, warmup=10).at()


    assert "job.schedule" in rate.ir
    ```
    """

    def __init__(self, kind: str, **parameters: Parameter):
        self.kind = kind
        """The name of the rule."""
        self.parameters: Mapping[str, Parameter] = parameters
        """The parameters that are given."""
        if kind in KINDS["schedule"].built_in():
            _ = self._attr()

    def at(self, step: Tensor | None = None, dtype: object = "f32") -> Tensor:
        """
        The rate at a `step`, one `i64`, which is that of the job if None; of `dtype`
        `f32` or `f64`.

        Raises TraceError outside a function that is traced, and for other types.
        """
        trace = current_trace("a rate")
        number = _number() if step is None else step
        if number.value.type != STEP:
            raise refuse(f"the number of a step should be one i64, got {number.text}")
        if (named := dtype_named(dtype)).name not in ("float32", "float64"):
            raise refuse(f"a rate is f32 or f64, got {short_name(named)}")
        type = tensor_of((), named)
        op = ScheduleOp(self._attr(), trace.value_of(number), type)
        trace.insert_whole(op)
        return Tensor(op.result, trace)

    def _attr(self) -> ScheduleAttr:
        with refusing("a schedule"):
            return ScheduleAttr(self.kind, self.parameters)


_number = step


def constant(base: float, *, warmup: int = 0) -> Schedule:
    """
    A rate that stays `base`, after `warmup` steps in which it rises to that.
    """
    return Schedule("constant", base=base, warmup=warmup)


def cosine(
    base: float, *, total: int, warmup: int = 0, minimum: float = 0.0
) -> Schedule:
    """
    A rate that falls from `base` to `minimum` by half a wave of the cosine, until step
    `total`; the first `warmup` steps of these rise to `base`.
    """
    return Schedule("cosine", base=base, total=total, warmup=warmup, minimum=minimum)


def exponential(base: float, *, gamma: float, warmup: int = 0) -> Schedule:
    """
    A rate that is multiplied by `gamma` at each step, after `warmup` steps in which it
    rises to `base`.
    """
    return Schedule("exponential", base=base, gamma=gamma, warmup=warmup)


def linear(
    base: float,
    *,
    total: int,
    start: float = 1 / 3,
    end: float = 1.0,
    warmup: int = 0,
) -> Schedule:
    """
    A rate that goes in a line from `start` times `base` to `end` times it, until step
    `total`; the first `warmup` steps of these rise to `base`.
    """
    return Schedule(
        "linear", base=base, total=total, start=start, end=end, warmup=warmup
    )


def multistep(
    base: float, *, milestones: list[int], gamma: float = 0.1, warmup: int = 0
) -> Schedule:
    """
    A rate, `base`, that is multiplied by `gamma` at each of the steps `milestones`; it
    rises to `base` in the first `warmup` steps.
    """
    return Schedule(
        "multistep", base=base, milestones=milestones, gamma=gamma, warmup=warmup
    )


def polynomial(
    base: float, *, total: int, power: float = 1.0, warmup: int = 0
) -> Schedule:
    """
    A rate that falls from `base` to 0 as this `power` of the steps that are left until
    step `total`; the first `warmup` steps of these rise to `base`.
    """
    return Schedule("polynomial", base=base, total=total, power=power, warmup=warmup)


def step_decay(
    base: float, *, every: int, gamma: float = 0.1, warmup: int = 0
) -> Schedule:
    """
    A rate, `base`, that is multiplied by `gamma` after each `every` steps; it rises to
    `base` in the first `warmup` steps.
    """
    return Schedule("step", base=base, every=every, gamma=gamma, warmup=warmup)


################################################################################
# Optimizers                                                                   #
################################################################################

Rate: TypeAlias = "float | Schedule | Tensor"
"""A rate: a number, a schedule at the step of the job, or one element of floats."""

Group: TypeAlias = "Mapping[str, Parameter | Schedule | Tensor]"
"""Parameters of some of the variables, the rate among them."""

NO_PARAMETERS: Group = {}
NO_GROUPS: Mapping[str, Group] = {}


class Optimizer:
    """
    A rule by which a job updates variables: one of this `kind`, our own or that of a
    plug-in.

    * `rate`: a number, a schedule at the step of the job, or a scalar tensor; that of
      the rule if None.
    * `groups`: other parameters, `rate` among them, for variables with names of a
      pattern: `{"*bias": {"weight_decay": 0}}`. Of several patterns the last counts.
    * `parameters`: those of the rule, which all have `weight_decay`, `clip_norm`,
      `clip_group` and `clip_value`: see [optimizers](plugins/optimizer.md).

    States are variables, such as `w/adamw/m` for a variable `w`.

    Raises TraceError for a rule or parameters that are not known; for a plug-in's, when
    it is used.

    ```python
    import penstock
    from penstock import optim


    @penstock.job
    def descend():
        def loss_of():
            w = penstock.variable("w", (3,), init="ones")
            return (w * w).sum()

        loss, gradients = penstock.value_and_grad(loss_of)()
        optim.Optimizer("sgd", rate=0.25).update(gradients)
        return loss


    assert [float(descend()) for _ in range(3)] == [3, 0.75, 0.1875]
    ```
    """

    def __init__(
        self,
        kind: str,
        rate: Rate | None = None,
        *,
        groups: Mapping[str, Group] = NO_GROUPS,
        **parameters: Parameter,
    ):
        self.kind = kind
        """The name of the rule."""
        self.groups = groups
        """The parameters of variables by patterns of their names."""
        self.parameters: Group = (
            parameters if rate is None else {"rate": rate, **parameters}
        )
        """The parameters of all other variables, the rate among them."""
        if kind in KINDS["optimizer"].built_in():
            for group in (NO_PARAMETERS, *groups.values()):
                _ = self._attr({**self.parameters, **group})

    def update(
        self,
        gradients: object,
        variables: object = None,
        *,
        skip: Tensor | None = None,
        scale: Tensor | float | None = None,
    ) -> None:
        """
        Let variables hold, when the run has ended, what the rule makes of them and of
        their `gradients`.

        * `gradients`: tensors in a dictionary by names of variables, as `penstock.grad`
          returns them; or in the structure of `variables`.
        * `variables`: variables of the job, alone or in lists and dictionaries.
        * `skip`: one `i1`; where it is true, variables and states stay as they are.
        * `scale`: a factor that the loss had, by which gradients are divided.

        Raises TraceError outside a function that is traced; for gradients of other
        shapes or dtypes, for what is no variable or is assigned to already, and for a
        pattern of a group that no variable has.
        """
        trace = current_trace("an update of variables")
        pairs = list(_pairs(trace, gradients, variables))
        names = [name for name, _, _ in pairs]
        for pattern in self.groups:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise refuse(f"no variable that is updated has a name '{pattern}'")
        _ = _number()
        scalars = _Scalars(trace)
        for name, target, gradient in pairs:
            group = self._group_of(name)
            rule = self._attr(group)
            dtype = dtype_of(rate_type(target.value.type).element_type)
            rate = group.get("rate")
            op = UpdateOp(
                trace.value_of(target),
                trace.value_of(gradient),
                rule,
                rate=None if is_number(rate) else scalars.of("rate", rate, dtype),
                scale=scalars.of("scale", scale, dtype),
                skip=scalars.of("skip", skip, np.dtype(np.bool_)),
            )
            trace.write(name, op)

    def _group_of(self, name: str) -> Group:
        """The parameters of the variable of a name."""
        found = dict(self.parameters)
        for pattern, group in self.groups.items():
            if fnmatchcase(name, pattern):
                found |= group
        return found

    def _attr(self, group: Group) -> OptimizerAttr:
        """The rule with the parameters of a group, but for a rate that is computed."""
        kept: dict[str, Parameter] = {}
        for key, value in group.items():
            if not isinstance(value, Schedule | Tensor):
                kept[key] = value
            elif key != "rate":
                raise refuse(f"an optimizer: '{key}' should be known, not computed")
        with refusing("an optimizer"):
            return OptimizerAttr(self.kind, kept)


class _Scalars:
    """The scalars that the updates of a call have in common, each made once."""

    def __init__(self, trace: Trace):
        self._trace = trace
        self._made: dict[tuple[int, DType], SSAValue] = {}

    def of(self, what: str, given: object, dtype: DType) -> SSAValue | None:
        """A number, schedule or tensor as a scalar of a dtype; None for None."""
        if given is None:
            return None
        key = id(given), dtype
        if key not in self._made:
            self._made[key] = self._trace.value_of(self._tensor(what, given, dtype))
        return self._made[key]

    def _tensor(self, what: str, given: object, dtype: DType) -> Tensor:
        if isinstance(given, Schedule):
            return given.at(dtype=dtype)
        found = as_tensor(self._trace, given, dtype, f"a {what}")
        if found.shape or (found.dtype.kind == "b") != (dtype.kind == "b"):
            noun = "i1" if dtype.kind == "b" else "number"
            raise refuse(f"a {what} should be one {noun}, got {found.text}")
        return cast(found, dtype)


def _pairs(
    trace: Trace, gradients: object, variables: object
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The names of variables, these, and their gradients, which fit them."""
    found, targets = dict[str, object](), dict[str, object]()
    _ = flattened(gradients, "", found)
    if variables is None:
        targets = {f".{name}": x for name, x in trace.variables.items()}
    else:
        _ = flattened(variables, "", targets)
        if found.keys() != targets.keys():
            raise refuse(
                "gradients should be in the structure of the variables, got "
                f"{_keys(found)} for {_keys(targets)}"
            )
    for key, gradient in found.items():
        name = key.removeprefix(".")
        if not isinstance(gradient, Tensor):
            raise refuse(f"a gradient should be a tensor, got a {_noun(gradient)}")
        if key not in targets:
            hint = suggest(name, list(trace.variables))
            raise refuse(f"there is no variable '{name}'{hint}")
        target = targets[key]
        if not isinstance(target, Tensor):
            raise refuse(f"only variables are updated, got a {_noun(target)}")
        yield trace.target(target, gradient), target, gradient


def _keys(leaves: Mapping[str, object]) -> str:
    return ", ".join(f"'{x.removeprefix('.')}'" for x in leaves) or "none"


def _noun(value: object) -> str:
    return type(value).__name__


class _Named(Optimizer):
    """An optimizer of our own."""

    KIND: ClassVar[str]

    def __init__(
        self,
        rate: Rate | None = None,
        *,
        groups: Mapping[str, Group] = NO_GROUPS,
        **parameters: Parameter,
    ):
        super().__init__(self.KIND, rate, groups=groups, **parameters)


class SGD(_Named):
    """
    Stochastic gradient descent. See `Optimizer` for `rate`, `groups` and `parameters`.
    """

    KIND = "sgd"


class Momentum(_Named):
    """
    Gradient descent along a decaying sum of gradients. See `Optimizer` for `rate` and
    `groups`; `parameters` are also `momentum`, `dampening` and `nesterov`.
    """

    KIND = "momentum"


class Adam(_Named):
    """
    Adam: steps along a mean of gradients, divided by the root of a mean of squares. See
    `Optimizer` for `rate` and `groups`; `parameters` are also `beta1`, `beta2`, `eps`
    and `amsgrad`.
    """

    KIND = "adam"


class AdamW(_Named):
    """
    Adam whose `weight_decay` is of the weights, not added to gradients. See `Optimizer`
    for `rate` and `groups`; `parameters` are also `beta1`, `beta2`, `eps` and
    `amsgrad`.
    """

    KIND = "adamw"


class Lamb(_Named):
    """
    Adam whose steps have the norm of the weights. See `Optimizer` for `rate` and
    `groups`; `parameters` are also `beta1`, `beta2`, `eps` and `amsgrad`.
    """

    KIND = "lamb"


class Lars(_Named):
    """
    Gradient descent whose steps have a share, `trust`, of the norm of the weights. See
    `Optimizer` for `rate` and `groups`; `parameters` are also `momentum`, `dampening`,
    `nesterov` and `eps`.
    """

    KIND = "lars"


class SparseAdam(_Named):
    """
    Adam of the rows of tables that a step reads by `ops.gather`: others and their
    moments stay as they are, so it costs by the rows. See `Optimizer` for `rate` and
    `groups`; `parameters` are also `beta1`, `beta2` and `eps`.
    """

    KIND = "sparse_adam"


class RMSprop(_Named):
    """
    Steps along gradients, divided by the root of a mean of squares. See `Optimizer` for
    `rate` and `groups`; `parameters` are also `alpha`, `eps`, `momentum` and
    `centered`.
    """

    KIND = "rmsprop"


class Adagrad(_Named):
    """
    Steps along gradients, divided by the root of the sum of all squares. See
    `Optimizer` for `rate` and `groups`; `parameters` are also `rate_decay`, `initial`
    and `eps`.
    """

    KIND = "adagrad"
