"""
`Count`: the constraint on numbers of slots and of acts.

Analyses look at each slot and at each act of a launch, so there is a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import TypeVar
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, IntConstraint, eq
from xdsl.irdl.constraints import VerificationContext
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.repetitions import MOST_ACTS


@dataclass(frozen=True)
class CountConstraint(IntConstraint):
    """Constrain an integer to 1 to `MOST_ACTS`."""

    def verify(self, i: int, constraint_context: VerificationContext) -> None:
        if i < 1:
            raise VerifyException(f"expected integer >= 1, got {i}")
        if i > MOST_ACTS:
            raise VerifyException(f"expected integer <= {MOST_ACTS}, got {i}")

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> IntConstraint:
        return self


Count = IntegerAttr.constr(eq(i64), value=CountConstraint())


def count_of(attribute: Attribute) -> int | None:
    """The number that an attribute says if it is a `Count`, else None."""
    if not isa(attribute, IntegerAttr) or attribute.type != i64:
        return None
    number = attribute.value.data
    return number if 1 <= number <= MOST_ACTS else None
