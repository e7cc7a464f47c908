"""
Updates of variables and schedules of rates, as people write them in a job.

`job-add-updates` makes ops of them. The rules behind the names are classes, whose
fields are their parameters: plug-ins of the kinds `optimizer` and `schedule`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, dataclass, fields
from math import isfinite
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import AnyFloat, TensorType, f32, f64, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.constraints import InferenceContext, VerificationContext
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.parameters import (
    NO_PARAMETERS,
    KindAttr,
    Parameter,
    Parameters,
)
from penstock.dialects.job.ports import AnyTensor
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.hints import isa
from penstock.plugins import KINDS, PluginError, plugin_of

STEP = TensorType(i64, [])
"""The type of the number of a step, from 0 on."""

FLAG = TensorType(i1, [])
"""The type of a condition."""


def rate_type(type: Attribute) -> TensorType:
    """The type of rates and scales for a variable: f64 for one of f64, else f32."""
    is_wide = isa(type, TensorType) and type.element_type == f64
    return TensorType(f64 if is_wide else f32, [])


@dataclass(frozen=True)
class RateConstraint(AttrConstraint[TensorType]):
    """The type of rates and scales for the variable of a type that goes by a name."""

    variable: str

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        wanted = self.infer(constraint_context)
        if attr != wanted:
            raise VerifyException(f"a rate or scale should be {wanted}, got {attr}")

    def can_infer(self, var_constraint_names: AbstractSet[str]) -> bool:
        return self.variable in var_constraint_names

    def infer(self, context: InferenceContext) -> TensorType:
        type = context.get_variable(self.variable)
        assert type is not None, "operands are verified in order"
        return rate_type(type)

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> RateConstraint:
        return self


################################################################################
# Names and their parameters                                                   #
################################################################################


def class_of(kind: str, name: str) -> type:
    """
    The class of a plug-in of a kind whose plug-ins are dataclasses. Raises
    `VerifyException` if there is none.
    """
    built_in = KINDS[kind].built_in()
    if name in built_in:
        return cast("type", built_in[name])
    try:
        return cast("type", plugin_of(kind, name).thing)
    except PluginError as error:
        raise VerifyException(str(error)) from error


def made_of(kind: str, attr: KindAttr) -> object:
    """
    The object that an attribute names: of the class of that name, with its parameters
    as fields. Raises `VerifyException` for parameters that it does not take.
    """
    name, given = attr.kind.data, attr.values
    made = class_of(kind, name)
    known: dict[str, Field[Any]] = {x.name: x for x in fields(made)}
    if extra := sorted(given.keys() - known.keys()):
        raise VerifyException(f"{kind} '{name}' does not take {', '.join(extra)}")
    needed = [x.name for x in known.values() if x.default is MISSING]
    if missing := [x for x in needed if x not in given]:
        raise VerifyException(f"{kind} '{name}' needs {', '.join(missing)}")
    values = {key: _checked(key, known[key], value) for key, value in given.items()}
    try:
        return made(**values)
    except ValueError as error:
        raise VerifyException(f"{kind} '{name}': {error}") from error


_NOUNS = {
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "str": "a text",
}


def _checked(key: str, field: Field[Any], value: Parameter) -> Parameter:
    """A value, if it has the type of a field; an integer stands for a number, too."""
    wanted = field.type if isinstance(field.type, str) else field.type.__name__
    is_number = wanted == "float" and type(value) in (int, float)
    if not is_number and type(value).__name__ != wanted.partition("[")[0]:
        noun = _NOUNS.get(wanted, "a list of integers")
        raise VerifyException(f"'{key}' must be {noun}, got {value}")
    if isinstance(value, float) and not isfinite(value):
        raise VerifyException(f"'{key}' must be finite, got {value}")
    return float(cast("float", value)) if is_number else value


class RuleAttr(KindAttr, ABC):
    """A name and parameters of a plug-in that is a dataclass."""

    KIND: ClassVar[str]

    def made(self) -> object:
        """The object of the name, with these parameters."""
        return made_of(self.KIND, self)

    def verify(self) -> None:
        self.made()


@irdl_attr_definition
class OptimizerAttr(RuleAttr):
    """
    The rule by which a variable is updated, such as
    `#job.optimizer<adamw, beta1 = 0.9, weight_decay = 0.01>`.
    """

    name = "job.optimizer"
    KIND: ClassVar = "optimizer"

    def __init__(self, kind: str, parameters: Parameters = NO_PARAMETERS):
        super().__init__(kind, parameters)


@irdl_attr_definition
class ScheduleAttr(RuleAttr):
    """
    The way of a rate from step to step, such as
    `#job.schedule<cosine, base = 1.0e-3, total = 10000, warmup = 100>`.
    """

    name = "job.schedule"
    KIND: ClassVar = "schedule"

    def __init__(self, kind: str, parameters: Parameters = NO_PARAMETERS):
        super().__init__(kind, parameters)


################################################################################
# Ops                                                                          #
################################################################################


@irdl_op_definition
class ScheduleOp(IRDLOperation):
    """
    The rate at a step, which counts from 0.

    ```mlir
    %rate = job.schedule <cosine, base = 1.0e-3, total = 10000, warmup = 100> at %step
      : tensor<i64> -> tensor<f32>
    ```
    """

    name = "job.schedule"

    schedule = prop_def(ScheduleAttr)
    step = operand_def(eq(STEP))
    result = result_def(eq(TensorType(f32, [])) | eq(TensorType(f64, [])))

    traits = traits_def(KnownAttributes("placement"), Pure())

    assembly_format = (
        "$schedule `at` $step attr-dict `:` type($step) `->` type($result)"
    )

    def __init__(
        self,
        schedule: ScheduleAttr,
        step: SSAValue | Operation,
        type: TensorType | None = None,
    ):
        super().__init__(
            operands=[step],
            properties={"schedule": schedule},
            result_types=[TensorType(f32, []) if type is None else type],
        )


@irdl_op_definition
class UpdateOp(IRDLOperation):
    """
    From the end of the run on, the variable that made `target` holds what an optimizer
    makes of it and of its gradient, at a `rate`, which is the optimizer's own where
    none is given. The gradient is that of a loss times `scale`. With `skip` the
    variable and the states of its optimizer stay as they are.

    Rates and scales are f64 for variables of f64, else f32. The attribute `sbp` says
    how new states and values lie on several devices, if not as the variable does.

    ```mlir
    job.update %w by %g with <adamw, beta1 = 0.9> rate %rate scale %scale skip %over
      : tensor<784x512xf32>
    ```
    """

    name = "job.update"

    T: ClassVar = VarConstraint("T", AnyTensor)

    optimizer = prop_def(OptimizerAttr)
    target = operand_def(T)
    gradient = operand_def(T)
    rate = opt_operand_def(RateConstraint("T"))
    scale = opt_operand_def(RateConstraint("T"))
    skip = opt_operand_def(eq(FLAG))

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(
        KnownAttributes("placement", "sbp"), MemoryReadEffect(), MemoryWriteEffect()
    )

    assembly_format = (
        "$target `by` $gradient `with` $optimizer (`rate` $rate^)? (`scale` $scale^)? "
        "(`skip` $skip^)? attr-dict `:` type($target)"
    )

    def __init__(
        self,
        target: SSAValue | Operation,
        gradient: SSAValue | Operation,
        optimizer: OptimizerAttr,
        *,
        rate: SSAValue | Operation | None = None,
        scale: SSAValue | Operation | None = None,
        skip: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[target, gradient, rate, scale, skip],
            properties={"optimizer": optimizer},
        )

    def verify_(self) -> None:
        type = self.target.type
        assert isa(type, TensorType), "checked by the constraint"
        if not isinstance(type.element_type, AnyFloat):
            raise VerifyException(
                f"only variables of floats are updated, got {type.element_type}"
            )
        if self.rate is not None and "rate" in self.optimizer.values:
            raise VerifyException("the rate is given twice")
