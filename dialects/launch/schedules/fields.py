"""
Fields of schedule attributes: words, numbers, lists of numbers, and flags.

A field knows its text, its limits, and how it is documented. Functions in lower case
declare one in the body of a class (`penstock.dialects.launch.schedules.schedule`):

    form: str = choice("rows", "tiles")            rows
    tile: tuple[int, int] = numbers(2)             tile [6, 4]
    lanes: int = number(most=64, power=True)       lanes 16
    prefetch: int = number(least=0, default=0)     prefetch 2, or nothing
    panels: str = word("a", "b", default="")       panels a, or nothing
    packed: bool = flag(default=False)             packed, or nothing

A default is the value of a field that the text leaves out. It may be out of limits.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

FIELD = "schedule field"
"""The metadata of a field of a dataclass with its `Field`."""

MOST = (1 << 31) - 1
"""The largest number of a field that states no other one."""


def refuse(when: bool, why: str) -> None:
    """Raise a `VerifyException` with a reason, if a condition holds."""
    if when:
        raise VerifyException(why)


@dataclass(frozen=True)
class Field(ABC):
    """A field of a schedule attribute."""

    is_bare: bool
    """Whether the text has the value alone, without the name of the field."""

    @abstractmethod
    def parse(self, parser: AttrParser, name: str) -> Any:
        """The value that the text states, after the name of the field."""

    def text(self, value: Any) -> str:
        """The text of a value, after the name of the field."""
        return str(value)

    @abstractmethod
    def verify(self, name: str, value: Any) -> None:
        """Raise `VerifyException` for a value that the field cannot have."""

    @abstractmethod
    def describe(self) -> str:
        """The values in words, for the reference page."""


@dataclass(frozen=True)
class _Word(Field):
    """One word of several."""

    words: tuple[str, ...]

    def parse(self, parser: AttrParser, name: str) -> str:
        return parser.parse_identifier()

    def verify(self, name: str, value: Any) -> None:
        known = ", ".join(self.words)
        refuse(
            value not in self.words,
            f"unknown {name} '{value}', expected one of {known}",
        )

    def describe(self) -> str:
        return f"one of {', '.join(f'`{word}`' for word in self.words)}"


@dataclass(frozen=True)
class _Text(Field):
    """A string in quotation marks."""

    def parse(self, parser: AttrParser, name: str) -> str:
        return parser.parse_str_literal()

    def text(self, value: str) -> str:
        return str(StringAttr(value))

    def verify(self, name: str, value: Any) -> None:
        refuse(not isinstance(value, str) or not value, f"a {name} has a name")

    def describe(self) -> str:
        return "string"


@dataclass(frozen=True)
class _Number(Field):
    """An integer between limits."""

    least: int
    most: int
    power: bool

    def parse(self, parser: AttrParser, name: str) -> int:
        return parser.parse_integer()

    def verify(self, name: str, value: Any) -> None:
        refuse(
            not self.takes(value), f"{name} should be {self.describe()}, got {value}"
        )

    def takes(self, value: Any) -> bool:
        """Whether it is an integer, and the limits hold."""
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        is_between = self.least <= value <= self.most
        return is_between and not (self.power and value & (value - 1))

    def describe(self) -> str:
        noun = "a power of 2" if self.power else "an integer"
        end = f" to {self.most}" if self.most < MOST else ""
        return f"{noun} from {self.least}{end}"


@dataclass(frozen=True)
class _Numbers(Field):
    """A list of integers between limits."""

    count: int | None
    """None for any number of integers."""
    each: _Number

    def parse(self, parser: AttrParser, name: str) -> tuple[int, ...]:
        place = parser.pos
        found = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        if self.count not in (None, len(found)):
            parser.raise_error(self._bad_count(name, len(found)), place)
        return tuple(found)

    def text(self, value: tuple[int, ...]) -> str:
        return str([*value])

    def verify(self, name: str, value: Any) -> None:
        refuse(not isinstance(value, tuple), f"{name} is a tuple, got {value!r}")
        is_bad = self.count not in (None, len(value))
        refuse(is_bad, self._bad_count(name, len(value)))
        refuse(
            not all(map(self.each.takes, value)),
            f"each number of {name} should be {self.each.describe()}, got {[*value]}",
        )

    def describe(self) -> str:
        count = "any count of" if self.count is None else self.count
        return f"{count} numbers, each {self.each.describe()}"

    def _bad_count(self, name: str, count: int) -> str:
        return f"{name} takes {self.count} numbers, got {count}"


@dataclass(frozen=True)
class _Flag(Field):
    """The name of the field, which is there or not."""

    def parse(self, parser: AttrParser, name: str) -> bool:
        return True

    def text(self, value: bool) -> str:
        return ""

    def verify(self, name: str, value: Any) -> None:
        refuse(not isinstance(value, bool), f"{name} is a flag, got {value!r}")

    def describe(self) -> str:
        return "flag"


def choice(*words: str) -> Any:
    """A word of some, without the name of the field; it is always there."""
    return _declared(_Word(True, words), MISSING)


def word(*words: str, default: str) -> Any:
    """A word of some, after the name of the field."""
    return _declared(_Word(False, words), default)


def text() -> Any:
    """A string in quotation marks that is not empty, without the name of the field."""
    return _declared(_Text(True), MISSING)


def number(
    *, least: int = 1, most: int = MOST, power: bool = False, default: Any = MISSING
) -> Any:
    """An integer between limits, and a power of 2 if need be."""
    return _declared(_Number(False, least, most, power), default)


def numbers(
    count: int | None,
    *,
    least: int = 1,
    power: bool = False,
    default: Any = MISSING,
) -> Any:
    """So many integers, or any, each from a limit on, and a power of 2 if need be."""
    each = _Number(False, least, MOST, power)
    return _declared(_Numbers(False, count, each), default)


def flag(*, default: bool) -> Any:
    """A word that is there or not."""
    return _declared(_Flag(False), default)


def _declared(field: Field, default: object) -> Any:
    return dataclasses.field(default=default, metadata={FIELD: field})
