"""
The base class of schedule attributes: those of an op of a kernel that say how it is
computed.

A schedule attribute is a frozen dataclass, whose fields say their text and limits
(`penstock.dialects.launch.schedules.fields`), the ops it is for, and a verifier of the
rules between fields. Parsing, printing and documentation follow from the fields:

    @schedule_definition
    class LanesAttr(ScheduleAttr):
        "A schedule: `#acme.lanes<lanes 16, packed>`."

        name = "acme.lanes"
        ops = (LinalgStructuredOperation,)

        lanes: int = number(most=64, power=True)
        packed: bool = flag(default=False)

        def verify(self) -> None:
            refuse(self.packed and self.lanes < 4, "panels have 4 lanes at least")

Fields without a default come first in the text, in their order; others follow in any
order, and are printed where they differ from the default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import AnyAttr, ParamAttrDef, ParamDef
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.runtime_final import runtime_final

from penstock.dialects.launch.schedules.fields import (
    FIELD,
    Field,
    choice,
    flag,
    number,
    numbers,
    text,
    word,
)


class ScheduleAttr(ParametrizedAttribute):
    """A schedule of an op of a kernel: the base class of such attributes."""

    ops: ClassVar[tuple[type[Operation], ...]] = ()
    """The classes of the ops that it is a schedule of."""
    FORMER: ClassVar[Mapping[str, str]] = {}
    """The fields of earlier releases, each with a word on where its facts are now."""

    def loops_in_code(self, count: int) -> Collection[int]:
        """
        The loops of an op with so many of them whose extents and strides are in the
        code: by default all, as blocks and unrolled loops are made of them.
        """
        return range(count)

    @classmethod
    def fields(cls) -> Mapping[str, Field]:
        """The fields by their names, in the order of the text."""
        return _fields_of(cls)

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """The values of fields that the text may leave out."""
        found = {each.name: each.default for each in dataclasses.fields(cls)}
        return {name: value for name, value in found.items() if value is not MISSING}

    @property
    def parameters(self) -> tuple[Attribute, ...]:
        """The values of all fields as attributes, for generic code of xDSL."""
        return tuple(_encoded(getattr(self, name)) for name in self.fields())

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        """The schedule with such parameters."""
        pairs = zip(cls.fields(), params, strict=True)
        return cls(**{name: _decoded(parameter) for name, parameter in pairs})

    @classmethod
    def get_irdl_definition(cls) -> ParamAttrDef:
        """The parameters in xDSL's terms."""
        return ParamAttrDef(cls.name, [(name, _ANY) for name in cls.fields()])

    def _verify(self) -> None:
        defaults = self.defaults()
        for name, field in self.fields().items():
            value = getattr(self, name)
            if name not in defaults or value != defaults[name]:
                field.verify(name, value)
        self.verify()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        fields, values = cls.fields(), {**cls.defaults()}
        required = iter([name for name in fields if name not in values])
        given: set[str] = set()

        def parse_field() -> None:
            name = next(required, None) or _optional_field(cls, parser)
            if name in given:
                parser.raise_error(f"{name} is given twice")
            given.add(name)
            if not fields[name].is_bare and name not in cls.defaults():
                parser.parse_keyword(name)
            values[name] = fields[name].parse(parser, name)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_field)
        if (missing := next(required, None)) is not None:
            parser.raise_error(f"{missing} of #{cls.name} is missing")
        return [_encoded(values[name]) for name in fields]

    def print_parameters(self, printer: Printer) -> None:
        defaults, parts = self.defaults(), list[str]()
        for name, field in self.fields().items():
            value = getattr(self, name)
            if name not in defaults or value != defaults[name]:
                words = "" if field.is_bare else name, field.text(value)
                parts.append(" ".join(filter(None, words)))
        with printer.in_angle_brackets():
            printer.print_string(", ".join(parts))


_ANY = ParamDef(AnyAttr())


def _encoded(value: Any) -> Attribute:
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntAttr(value)
        case str():
            return StringAttr(value)
        case _:
            return ArrayAttr(map(_encoded, value))


def _decoded(attribute: Attribute) -> Any:
    match attribute:
        case IntegerAttr():
            return bool(attribute.value.data)
        case IntAttr() | StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple(_decoded(each) for each in attribute)
        case _:
            raise VerifyException(f"no value of a schedule: {attribute}")


@cache
def _fields_of(cls: type[ScheduleAttr]) -> Mapping[str, Field]:
    return {each.name: each.metadata[FIELD] for each in dataclasses.fields(cls)}


def _optional_field(cls: type[ScheduleAttr], parser: AttrParser) -> str:
    """The name of an optional field, which the text has next."""
    for name, now in cls.FORMER.items():
        if parser.parse_optional_keyword(name) is not None:
            parser.raise_error(f"#{cls.name} has no '{name}' any more: {now}")
    for name in cls.defaults():
        if parser.parse_optional_keyword(name) is not None:
            return name
    if known := ", ".join(cls.defaults()):
        parser.raise_error(f"unknown part of #{cls.name}, expected one of {known}")
    last = [*cls.fields()][-1]
    parser.raise_error(f"nothing follows {last} in #{cls.name}")


Class = TypeVar("Class", bound=type[ScheduleAttr])


@dataclass_transform(
    frozen_default=True, field_specifiers=(choice, flag, number, numbers, text, word)
)
def schedule_definition(cls: Class) -> Class:
    """Make a class with declared fields a schedule attribute."""
    return runtime_final(dataclass(frozen=True)(cls))
