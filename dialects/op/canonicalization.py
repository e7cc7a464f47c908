"""Bases of ops with canonicalization patterns, which stand beside their op."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import copysign
from typing import ClassVar, Generic, TypeVar, cast

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.utils.attributes import replace_by_value
from penstock.dialects.utils.hints import isa

OpT = TypeVar("OpT", bound=Operation)


class OpPattern(RewritePattern, ABC, Generic[OpT]):
    """
    A canonicalization pattern of one op, which lists it in `PATTERNS`: it is given no
    other.

    It keeps every bit of a value, but for the one that makes a NaN signal.
    """

    @abstractmethod
    def rewrite(self, op: OpT, rewriter: PatternRewriter) -> None:
        """Replace the op where the pattern applies."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        self.rewrite(cast(OpT, op), rewriter)


class CanonicalOp(HasCanonicalizationPatternsInterface, ABC):
    """An op with canonicalization patterns."""

    PATTERNS: ClassVar[tuple[type[RewritePattern], ...]]
    """Those that `canonicalize` applies, in this order."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return tuple(pattern() for pattern in cls.PATTERNS)


def same_static_type(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are tensors of one type without unknown extents."""
    return a.type == b.type and isa(a.type, TensorType) and a.type.has_static_shape()


def has_floats(value: SSAValue) -> bool:
    """Whether a value is a tensor of floats."""
    return isa(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)


def is_filled(value: SSAValue, number: float) -> bool:
    """Whether a value is a constant all of whose elements are this number."""
    if not isinstance(constant := value.owner, ConstantOp):
        return False
    if (splat := constant.splat) is None or splat != number:
        return False
    return copysign(1, splat) == copysign(1, number)


def keep_operand(op: Operation, operand: SSAValue, rewriter: PatternRewriter) -> None:
    """Replace an op by its operand, unless the operand is broadcast."""
    if same_static_type(operand, op.results[0]):
        replace_by_value(op, operand, rewriter)
