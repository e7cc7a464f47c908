"""
Raise formulas of ops to the ops that they are: softmax, log-softmax, layer norm, RMS
norm and GELU written from sums, products and reductions become `op.softmax` and so on,
which passes fuse with what is around them, and which have kernels of their own.

The formulas stand in the table `PATTERNS`; `penstock.lowering.op.formulas` says what
they match: ops that compute the same but for rounding, in any order of terms. From the
last op of a job to the first, the first formula that matches decides. Its ops become
one if nothing else uses what is between them, if they run in the same place, with no
hints, slots or parts of their own; and a softmax has to be along one axis, a
normalization along the last ones, with a scale and a bias of these extents. Else the
last of them says why not: `no_pattern = "softmax: others use what op.exp makes"`. Some
formulas are never raised, since the op has other results: those say so, too.

A layer norm finds its mean first and then the variance about it, in two passes. So a
variance that is the mean of squares less the square of the mean is not raised: it has
large errors, and who wrote it may count on its bits.

Example: `test/lowering/op/op-raise-patterns-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.activation import GeluOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp, DivOp, MulOp, SubOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.normalization import (
    LayerNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import shape_text, tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.in_place_hints import Overwritten
from penstock.lowering.analysis.op_layouts import OPERANDS, RESULTS
from penstock.lowering.op.formulas import Match, matches
from penstock.lowering.op.replacement import replace_by

NO_PATTERN = "no_pattern"
"""Why ops are not raised: an attribute of the last of them."""


class Refused(Exception):
    """Why ops are not raised, though they match."""


Raised: TypeAlias = Sequence[TensorOp]
"""The ops that a formula becomes, the last one with its result."""


def softmax(found: Match) -> Raised:
    """`op.softmax` along the one axis of reductions."""
    return [SoftmaxOp.of(found.values["x"], axis=_axis(found))]


def log_softmax(found: Match) -> Raised:
    """`op.log_softmax` along the one axis of reductions."""
    return [LogSoftmaxOp.of(found.values["x"], axis=_axis(found))]


def _axis(found: Match) -> int:
    axes = found.axes or ()
    if len(axes) != 1:
        raise Refused(f"it is along one axis, got {[*axes]}")
    return axes[0]


def layer_norm(found: Match) -> Raised:
    """`op.layer_norm` from the first axis of reductions on."""
    return _norm(LayerNormOp, found, ("scale", "bias"))


def rms_norm(found: Match) -> Raised:
    """`op.rms_norm` from the first axis of reductions on."""
    return _norm(RmsNormOp, found, ("scale",))


def _norm(kind: type[TensorOp], found: Match, names: Sequence[str]) -> Raised:
    x, axes = found.values["x"], [*(found.axes or ())]
    type = tensor_type(x)
    if axes != [*range(axes[0], type.get_num_dims())]:
        raise Refused(f"axes {axes} are not the last ones")
    columns = type.get_shape()[axes[0] :]
    before: list[TensorOp] = []
    operands = [x]
    for name in names:
        if (value := found.values.get(name)) is not None:
            operands.append(_parameter(name, value, columns, before))
        elif name == "scale":
            before.append(ConstantOp(_ones(type.element_type, columns)))
            operands.append(before[-1].results[0])
    epsilon = found.numbers["epsilon"]
    return [*before, kind.of(*operands, axis=axes[0], epsilon=epsilon)]


def _ones(element: Attribute, shape: Sequence[int]) -> DenseIntOrFPElementsAttr:
    assert isinstance(element, AnyFloat), "checked by the op"
    return DenseIntOrFPElementsAttr.from_list(TensorType(element, shape), [1.0])


def _parameter(
    name: str, value: SSAValue, columns: Sequence[int], before: list[TensorOp]
) -> SSAValue:
    """A scale or bias in the shape of rows."""
    shape = tensor_type(value).get_shape()
    if shape == columns:
        return value
    extra = len(shape) - len(columns)
    if extra < 0 or shape != (1,) * extra + tuple(columns):
        raise Refused(
            f"the {name} has the shape {shape_text(shape)}, not {shape_text(columns)}"
        )
    before.append(ReshapeOp(value, columns))
    return before[-1].results[0]


def gelu(found: Match) -> Raised:
    """`op.gelu` by erf."""
    return [GeluOp(found.values["x"])]


def gelu_by_tanh(found: Match) -> Raised:
    """`op.gelu` by the approximation."""
    return [GeluOp(found.values["x"], "tanh")]


@dataclass(frozen=True)
class Pattern:
    """A formula, and what it becomes, or the reason why it stays as it is."""

    name: str
    formula: str
    becomes: Callable[[Match], Raised] | str


_NORMAL = "(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon)"
_SCALED = "x / sqrt(mean(x ** 2) + epsilon)"
_POWERS = "exp(x - max(x))"
_CUBIC = "0.7978845608028654 * (x + 0.044715 * x ** 3)"
_SLOPE = "0.7978845608028654 * x * (1 + 0.044715 * x ** 2)"

PATTERNS = (
    Pattern("softmax", f"{_POWERS} / sum({_POWERS})", softmax),
    Pattern("log_softmax", f"x - max(x) - log(sum({_POWERS}))", log_softmax),
    Pattern("layer_norm", f"{_NORMAL} * scale + bias", layer_norm),
    Pattern("layer_norm", f"{_NORMAL} * scale", layer_norm),
    Pattern("layer_norm", _NORMAL, layer_norm),
    Pattern("rms_norm", f"{_SCALED} * scale", rms_norm),
    Pattern("rms_norm", _SCALED, rms_norm),
    Pattern("gelu", "0.5 * x * (1 + erf(x / 1.4142135623730951))", gelu),
    Pattern("gelu", f"0.5 * x * (1 + tanh({_CUBIC}))", gelu_by_tanh),
    Pattern("gelu", f"0.5 * x * (1 + tanh({_SLOPE}))", gelu_by_tanh),
    Pattern(
        "softmax",
        "exp(x) / sum(exp(x))",
        "the largest element is not subtracted, so that powers may overflow",
    ),
    Pattern(
        "layer_norm",
        "(x - mean(x)) / sqrt(mean(x ** 2) - mean(x) ** 2 + epsilon)",
        "the variance is a difference of means, not a mean about the mean",
    ),
)
"""Formulas, those with more terms first."""

ROOTS = AddOp | SubOp | MulOp | DivOp
"""The ops that formulas end in."""


def raise_job(job: JobOp) -> None:
    """Raise what matches a formula in a job, and say where that is not done."""
    overwritten = Overwritten(job.body.block.ops)
    for op in reversed(tuple(job.body.block.ops)):
        if not isinstance(op, ROOTS) or op.parent is None or not is_known(op):
            continue
        op.attributes.pop(NO_PATTERN, None)
        for pattern, found in found_in(op):
            try:
                made = raised(pattern, found, op, job, overwritten)
            except Refused as refused:
                reason = StringAttr(f"{pattern.name}: {refused}")
                op.attributes.setdefault(NO_PATTERN, reason)
                continue
            op.attributes.pop(NO_PATTERN, None)
            count("formulas")
            replace_by(made, found.ops, root=made[-1], lead=op)
            break


def is_known(op: Operation) -> bool:
    """Whether an op has a result of a static shape."""
    return tensor_type(op.results[0]).has_static_shape()


def found_in(op: Operation) -> Iterator[tuple[Pattern, Match]]:
    """The formulas whose result is that of an op, each in one way."""
    value = op.results[0]
    for pattern in PATTERNS:
        for found in matches(pattern.formula, value):
            if found.values["x"].type == value.type:
                yield pattern, found
                break


def raised(
    pattern: Pattern, found: Match, op: Operation, job: JobOp, overwritten: Overwritten
) -> Raised:
    """The ops that a formula becomes. Raises `Refused`."""
    if isinstance(pattern.becomes, str):
        raise Refused(pattern.becomes)
    check_free(found, op, job, overwritten)
    try:
        return pattern.becomes(found)
    except VerifyException as error:
        raise Refused(str(error)) from None


def check_free(
    found: Match, last: Operation, job: JobOp, overwritten: Overwritten
) -> None:
    """Raise `Refused` where ops say how they run, or others use what they make."""
    for op in found.ops:
        if placement_of(op, job) != placement_of(last, job):
            raise Refused(f"{op.name} runs in another place")
        if OPERANDS in op.attributes or RESULTS in op.attributes:
            raise Refused(f"{op.name} runs in parts")
        if "slots" in op.attributes and op is not last:
            raise Refused(f"{op.name} asks for slots")
        if IN_PLACE in op.attributes or overwritten.keeps_apart(op, last):
            raise Refused(f"{op.name} has to write over something, or before others")
        users = (use.operation for use in op.results[0].uses)
        if op is not last and any(user not in found.ops for user in users):
            raise Refused(f"others use what {op.name} makes")


@dataclass(frozen=True)
class OpRaisePatternsPass(ModulePass):
    """
    Raise formulas of ops to the ops that they are, such as `op.softmax`.
    """

    name = "op-raise-patterns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_and_bodies(op):
            raise_job(job)
