"""`KindAttr`: attributes that are a name and parameters, `<cosine, total = 100>`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from penstock.dialects.utils.hints import isa

Parameter: TypeAlias = "bool | int | float | str | Sequence[int]"
"""The value of a parameter in Python."""

Parameters: TypeAlias = "Mapping[str, Parameter | Attribute]"
"""The parameters of an attribute by their names."""

NO_PARAMETERS: Parameters = {}


# Only fields of dataclasses count where attributes are compared.
@dataclass(frozen=True, init=False)
class KindAttr(ParametrizedAttribute, ABC):
    """
    A name with parameters: numbers, booleans, texts and lists of integers.
    """

    kind: StringAttr
    options: DictionaryAttr

    def __init__(self, kind: str, parameters: Parameters = NO_PARAMETERS):
        attrs = {key: parameter_attr(value) for key, value in parameters.items()}
        super().__init__(StringAttr(kind), DictionaryAttr(attrs))

    @property
    def values(self) -> dict[str, Parameter]:
        """The values of the parameters that are given, in Python."""
        return {key: parameter_of(attr) for key, attr in self.options.data.items()}

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parameters: dict[str, Attribute] = {}
            while parser.parse_optional_punctuation(","):
                key = parser.parse_identifier()
                parser.parse_punctuation("=")
                if key in parameters:
                    parser.raise_error(f"'{key}' is given twice")
                parameters[key] = _parse_parameter(parser)
        return StringAttr(kind), DictionaryAttr(parameters)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.kind.data)
            for key, value in self.options.data.items():
                printer.print_string(f", {key} = {parameter_text(value)}")


def parameter_attr(value: Parameter | Attribute) -> Attribute:
    """The attribute that stands for a value of Python."""
    match value:
        case Attribute():
            return value
        case bool():
            return IntegerAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i64)
        case float():
            return FloatAttr(value, f64)
        case str():
            return StringAttr(value)
        case _:
            return DenseArrayBase.from_list(i64, list(value))


def parameter_of(attr: Attribute) -> Parameter:
    """The value of Python that an attribute stands for."""
    match attr:
        case IntegerAttr():
            return bool(attr.value.data) if attr.type == i1 else attr.value.data
        case FloatAttr():
            return attr.value.data
        case StringAttr():
            return attr.data
        case _ if isa(attr, DenseArrayBase[IntegerType]):
            return attr.get_values()
        case _:
            return str(attr)


def parameter_text(attr: Attribute) -> str:
    """The text of a parameter, which is read back as the same."""
    match value := parameter_of(attr):
        case bool():
            return str(value).lower()
        case float():
            return float_text(value)
        case int() | str():
            return str(attr) if isinstance(value, str) else str(value)
        case _:
            return f"[{', '.join(map(str, value))}]"


def float_text(value: float) -> str:
    """The shortest text that is read as just this finite number, and as a float."""
    mantissa, e, exponent = repr(value).partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + e + exponent


def _parse_parameter(parser: AttrParser) -> Attribute:
    if (text := parser.parse_optional_str_literal()) is not None:
        return StringAttr(text)
    if (flag := parser.parse_optional_boolean()) is not None:
        return parameter_attr(flag)
    listed = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    if listed is not None:
        return parameter_attr(listed)
    return parameter_attr(parser.parse_number(allow_boolean=False))
