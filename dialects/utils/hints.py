"""
The question whether a value is of a type, with its parameters: `isa`.

That of xDSL makes a constraint of a generic type each time that it is asked about one,
and takes twenty times as long as `isinstance` about others. Types of values are asked
for all the time.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast, get_origin

from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, VerificationContext, irdl_to_attr_constraint
from xdsl.utils import hints
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


def isa(value: object, hint: TypeForm[T]) -> TypeGuard[T]:
    """Whether a value is of a type, which may have parameters."""
    if isinstance(hint, type):
        return isinstance(value, hint)
    base, constraint = _constraint_of(hint)
    if constraint is None:
        return hints.isa(value, hint)
    # The constraint would print what is another attribute, for its message.
    if not isinstance(value, base):
        return False
    try:
        constraint.verify(value, VerificationContext())
    except VerifyException:
        return False
    return True


@cache
def _constraint_of(hint: object) -> tuple[type[Attribute], AttrConstraint | None]:
    """The class of attributes with parameters, and the constraint that these meet."""
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Attribute):
        return origin, irdl_to_attr_constraint(cast("type[Attribute]", hint))
    return Attribute, None
