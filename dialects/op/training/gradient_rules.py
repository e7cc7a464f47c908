"""
Rules of gradients: what the gradients of the operands of an op are, by those of its
results.

An op says its own. Rules of plug-ins are asked before, in the order in which they are
named; one that returns None leaves an op to those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from penstock.dialects.utils.gradients import Differentiable, NoGradient
from penstock.dialects.utils.hints import isa
from penstock.plugins import PlugIn, PluginError, plugin_of

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients

KIND = "gradient"
OWN = "own"

Grads: TypeAlias = Sequence[SSAValue | None]
GradientRule: TypeAlias = (
    "Callable[[Operation, GradientBuilder, Grads], Gradients | None]"
)
"""
The gradients of the operands of an op, by those of its results; None of an op that the
rule is not about. Raises NoGradient with the reason where there are none.
"""


def own_gradient(op: Operation, o: GradientBuilder, grads: Grads) -> Gradients:
    """The gradient that an op says itself."""
    return check_own(op).gradient(o, *grads)


def check_own(op: Operation) -> Differentiable:
    """An op that says its gradient. Raises NoGradient for one that never does."""
    if not isinstance(op, Differentiable):
        raise NoGradient("it is none of the ops that say one")
    if type(op).gradient is Differentiable.gradient:
        raise NoGradient(op.NO_GRADIENT or "it says none")
    return op


BUILT_IN: Mapping[str, GradientRule] = {OWN: own_gradient}


def gradient_rule(name: str) -> GradientRule:
    """The rule of a name. Raises `PluginError` if there is none."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)

    def rule(op: Operation, o: GradientBuilder, grads: Grads) -> Gradients | None:
        try:
            found = plugin.call(op, o, grads)
        except PluginError as error:
            if isinstance(error.__cause__, NoGradient):
                raise NoGradient(f"{error.__cause__} ({plugin})") from error
            raise
        return None if found is None else checked(plugin, op, found)

    return rule


def checked(plugin: PlugIn, op: Operation, found: object) -> Gradients:
    """
    The gradients of a plug-in. Raises `PluginError` unless there is one for each
    operand, of its type, or None.
    """
    if not isinstance(found, list | tuple):
        plugin.refuse(f"returns no list of gradients of {op.name} but {found!r}")
    grads = cast("Sequence[object]", found)
    if len(grads) != len(op.operands):
        plugin.refuse(
            f"returns {len(grads)} gradients of {op.name}, which has "
            f"{len(op.operands)} operands"
        )
    for operand, grad in zip(op.operands, grads, strict=True):
        if grad is None:
            continue
        if not isinstance(grad, SSAValue):
            plugin.refuse(f"returns {grad!r} as a gradient of {op.name}, no value")
        found_type = cast("SSAValue", grad).type
        if found_type != operand.type:
            plugin.refuse(
                f"returns a {found_type} as the gradient of {op.name} by a "
                f"{operand.type}"
            )
    return cast("Gradients", grads)


def check_extents(op: Operation) -> None:
    """Raise NoGradient unless all extents of what an op reads and makes are known."""
    for value in (*op.operands, *op.results):
        if isa(value.type, TensorType) and not value.type.has_static_shape():
            raise NoGradient(f"all extents have to be known, got {value.type}")
