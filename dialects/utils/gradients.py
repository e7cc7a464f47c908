"""The interface of ops that say their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from xdsl.dialects.builtin import f32

from penstock.dialects.utils.half_precision import is_half

if TYPE_CHECKING:
    from xdsl.ir import Operation, SSAValue

    from penstock.dialects.utils.op_functions import OpFunctions


GradientBuilder: TypeAlias = "OpFunctions[SSAValue]"
"""The functions that make the ops of gradients."""

Gradients: TypeAlias = "Sequence[SSAValue | None]"
"""The gradients of operands; None for one that has none, or that is zero everywhere."""


NO_FLOATS = "its results are no floats"
"""The reason of ops whose results are integers and booleans."""

NO_SECOND = "there are no second derivatives"
"""Why an op that computes gradients has none."""


class NoGradient(Exception):
    """An op has no gradient; the message is the reason."""


class Differentiable:
    """
    An op that says its gradients in terms of ops of level 1, or why it has none.

    Elements that are not floats have no gradient, and need no reason: nothing asks for
    it.
    """

    NO_GRADIENT: ClassVar[str] = ""
    """The reason why an op has no gradient, such as "there are no second derivatives";
    a class has this or overrides `gradient`."""

    def with_kept(self) -> Operation | None:
        """
        The op to be put in the place of this one where its gradient is asked for, as it
        keeps more results for it, behind the same ones; None if this one will do.
        """
        return None

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """
        The gradients of the operands by those of the results, which have their types:
        None for a result that the loss does not depend on; None for an operand that has
        no gradient, or a zero one. All shapes are static.

        Raises NoGradient with the reason where there are none.
        """
        raise NoGradient(self.NO_GRADIENT or "it says none")


def only(grads: Sequence[SSAValue | None]) -> SSAValue:
    """The gradient of the only result of an op, which is there if it is asked for."""
    (grad,) = grads
    assert grad is not None, "no gradient reaches the op"
    return grad


def in_f32(o: GradientBuilder, value: SSAValue) -> SSAValue:
    """The floats that a gradient of several ops computes in: no halves."""
    return o.cast(value, f32) if is_half(o.element(value)) else value
