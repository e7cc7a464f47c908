"""
In-place hints: the results of an op that lie over its operands.

A person writes them on an op of a job, or in the body of a task, as the attribute
`in_place`, a list. The pairs that an op's kernel is capable of are its
`in_place_pairs`; hints choose among these, for the pass `regst-alias-registers`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa

IN_PLACE = "in_place"
"""The attribute of an op that lists its hints."""

MAY, MUST, NEVER = "may", "must", "never"


@irdl_attr_definition
class HintAttr(ParametrizedAttribute):
    """
    Where a result of an op lies, such as `#op.hint<must over 1>` of its first result,
    or `#op.hint<result 1 never over 0>` of its second one:

    * `may over N`: over operand N, or another one that a hint of this result names, if
      nothing keeps it from there; over no other one;
    * `must over N`: over operand N, or it is an error;
    * `never over N`: not over operand N; `never` alone: over none of them.

    "Over" is said of bytes: the one lies inside the other. So it is also said of what
    shows bytes of an operand, and of an operand that is a part of the result.
    """

    name = "op.hint"

    result: IntAttr = param_def(converter=IntAttr.get)
    word: StringAttr = param_def(converter=StringAttr.get)
    operand: IntAttr | NoneAttr

    def __init__(self, word: str, operand: int | None = None, result: int = 0):
        over = NoneAttr() if operand is None else IntAttr(operand)
        super().__init__(IntAttr(result), StringAttr(word), over)

    def verify(self) -> None:
        if self.word.data not in (MAY, MUST, NEVER):
            raise VerifyException(
                f"a hint says may, must or never, got '{self.word.data}'"
            )
        if self.over is None and self.word.data != NEVER:
            raise VerifyException(f"'{self.word.data}' names an operand to lie over")
        for what, number in (("result", self.result.data), ("operand", self.over or 0)):
            if number < 0:
                raise VerifyException(f"{what} must not be negative, got {number}")

    @property
    def over(self) -> int | None:
        """The operand that the hint is about; none if it is about all of them."""
        return None if isinstance(self.operand, NoneAttr) else self.operand.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        result, operand = 0, NoneAttr()
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("result"):
                result = parser.parse_integer(allow_boolean=False)
            word = parser.parse_identifier()
            if parser.parse_optional_keyword("over"):
                operand = IntAttr(parser.parse_integer(allow_boolean=False))
        return IntAttr(result), StringAttr(word), operand

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.text)

    @property
    def text(self) -> str:
        """The text between the brackets."""
        which = f"result {self.result.data} " if self.result.data else ""
        where = "" if self.over is None else f" over {self.over}"
        return f"{which}{self.word.data}{where}"


def hints_of(op: Operation) -> tuple[HintAttr, ...]:
    """The hints of an op; none if its attribute is something else."""
    # Most have none, and are asked often.
    if (attr := op.attributes.get(IN_PLACE)) is None:
        return ()
    return attr.data if isa(attr, ArrayAttr[HintAttr]) else ()


def verify_hints(op: Operation, pairs: Sequence[tuple[int, int]] = ()) -> None:
    """
    Raise `VerifyException` unless an op with the attribute has hints that name results
    and operands that it has, whose elements are of one type or which are among the
    `pairs` of operand and result that its kernel knows, and no two of them contradict
    each other.
    """
    if not isa(attr := op.attributes.get(IN_PLACE), ArrayAttr[HintAttr]):
        raise VerifyException(f"{IN_PLACE} should be a list of #op.hint, got {attr}")
    seen: dict[tuple[int, int | None], HintAttr] = {}
    for hint in hints_of(op):
        _verify_numbers(op, hint, pairs)
        key = (hint.result.data, hint.over)
        if (other := seen.get(key)) is not None:
            raise VerifyException(
                f"two hints for one pair: '{other.text}' and '{hint.text}'"
            )
        seen[key] = hint
    _verify_musts(list(seen.values()))


def _verify_numbers(
    op: Operation, hint: HintAttr, pairs: Sequence[tuple[int, int]]
) -> None:
    result, operand = hint.result.data, hint.over
    about = f"the hint '{hint.text}' is about"
    if result >= (count := len(op.results)):
        raise VerifyException(f"{about} result {result}, but {op.name} has {count}")
    if operand is None or (operand, result) in pairs:
        return
    if operand >= (count := len(op.operands)):
        raise VerifyException(f"{about} operand {operand}, but {op.name} has {count}")
    types = op.results[result].type, op.operands[operand].type
    a, b = (type.element_type if isa(type, TensorType) else type for type in types)
    if a != b:
        raise VerifyException(f"{about} elements of {a} and {b}")


def _verify_musts(hints: Sequence[HintAttr]) -> None:
    for index, hint in enumerate(hints):
        for other in hints[index + 1 :]:
            both = {hint.word.data, other.word.data}
            texts = f"'{hint.text}' and '{other.text}'"
            if hint.result == other.result and (
                both == {MUST} or (None in (hint.over, other.over))
            ):
                raise VerifyException(f"{texts} contradict each other")
