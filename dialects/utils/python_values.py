"""
Attributes from Python values: an op is called with numbers, texts, flags and lists.

The definition of a property says which attribute a value becomes, so passes, importers
and the Python front end call ops in the same words: `GatherOp.of(x, i, axis=1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeGuard

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrSizedSegments,
    IRDLOperation,
    OpDef,
    OptPropertyDef,
    PropertyDef,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.numpy_types import dense_of
from penstock.dialects.utils.splat import SplatAttr


def properties_of(op: type[IRDLOperation], /, **values: object) -> dict[str, Attribute]:
    """
    The properties of an op from Python values; None and False leave one out.

    Raises `VerifyException` for a value that its property cannot be, and `TypeError`,
    as a call does, for a name that is none, and for a property that has to be given.
    """
    known = _classes_of(op)
    found: dict[str, Attribute] = {}
    for name, value in values.items():
        if name not in known:
            raise TypeError(f"{op.name} has no property '{name}'")
        if value is not None and value is not False:
            found[name] = attribute_of(name, value, known[name])
    for name in _required_of(op):
        if name not in found:
            raise TypeError(f"{op.name} has to be given '{name}'")
    return found


def settable_properties(definition: OpDef) -> dict[str, PropertyDef]:
    """The properties of an op but for those that only count its operands."""
    counts = {
        option.attribute_name
        for option in definition.options
        if isinstance(option, AttrSizedSegments)
    }
    return {name: x for name, x in definition.properties.items() if name not in counts}


@cache
def _classes_of(op: type[IRDLOperation]) -> Mapping[str, Sequence[type[Attribute]]]:
    """The classes that each property may have, in the order of their trial."""
    properties = settable_properties(op.get_irdl_definition())
    return {name: classes_of(each) for name, each in properties.items()}


@cache
def _required_of(op: type[IRDLOperation]) -> Sequence[str]:
    properties = settable_properties(op.get_irdl_definition())
    return [
        name
        for name, each in properties.items()
        if not isinstance(each, OptPropertyDef) and each.default_value is None
    ]


def classes_of(property: PropertyDef) -> Sequence[type[Attribute]]:
    """
    The classes of attributes that a property may have, in the order of their trial;
    none if it may be any.
    """
    bases: Collection[type[Attribute]] = property.constr.get_bases() or ()
    return sorted(bases, key=_rank)


def attribute_of(
    name: str, value: object, classes: Sequence[type[Attribute]]
) -> Attribute:
    """
    The attribute of one of some classes that a Python value stands for. Raises
    `VerifyException` if there is none.
    """
    if isinstance(value, Attribute):
        return value
    for base in classes:
        if (attribute := _converted(base, value)) is not None:
            return attribute
    kinds = " or ".join(sorted({_kind(base) for base in classes})) or "an attribute"
    raise VerifyException(f"'{name}' should be {kinds}, got {value!r}")


def python_value(attribute: Attribute) -> object:
    """The Python value of an attribute; the attribute itself if it has none."""
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    return attribute


def _rank(base: type[Attribute]) -> tuple[int, str]:
    """The place of a class in the order of trials: 1 is an integer, then a float."""
    return list(KINDS).index(base) if base in KINDS else len(KINDS), base.name


def _converted(base: type[Attribute], value: object) -> Attribute | None:
    """A value as an attribute of a class, or None if it cannot be one."""
    if base in KINDS:
        return KINDS[base].convert(value)
    return _choices(base).get(str(value)) if _is_enum(base) else None


def _kind(base: type[Attribute]) -> str:
    if _is_enum(base):
        return "one of " + ", ".join(_choices(base))
    return KINDS[base].name if base in KINDS else f"an attribute {base.name}"


def _is_enum(base: type[Attribute]) -> bool:
    enumerations: Any = EnumAttribute
    return issubclass(base, enumerations)


def _choices(base: Any) -> dict[str, Any]:
    """The values of an attribute that is an enumeration, by their text."""
    return {str(item.value): base(item) for item in base.enum_type}


# Classes of attributes


def _is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or NumPy, and no boolean."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def _is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number, or an array that has no axes, and no boolean."""
    if isinstance(value, bool | Real):
        return not isinstance(value, bool)
    import numpy as np

    return isinstance(value, np.ndarray | np.generic) and value.ndim == 0


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _integer(value: object) -> Attribute | None:
    return _integer_attribute(int(value)) if _is_integer(value) else None


@lru_cache(maxsize=1024)
def _integer_attribute(value: int) -> Attribute:
    """The attribute of a number, which takes long to make and is often a small one."""
    return IntegerAttr(value, i64)


def _float(value: object) -> Attribute | None:
    return FloatAttr(float(value), f64) if _is_number(value) else None


def _integers(value: object) -> Attribute | None:
    if not _is_list(value):
        return None
    integers = [int(item) for item in value if _is_integer(item)]
    is_list = len(integers) == len(value)
    return DenseArrayBase.from_list(i64, integers) if is_list else None


def _text(value: object) -> Attribute | None:
    return StringAttr(value) if isinstance(value, str) else None


def _symbol(value: object) -> Attribute | None:
    return symbol(value) if isinstance(value, str) else None


@lru_cache(maxsize=1 << 14)
def symbol(name: str) -> SymbolRefAttr:
    """The reference to a symbol, which most programs name several times."""
    return SymbolRefAttr(name)


def _flag(value: object) -> Attribute | None:
    return UnitAttr() if value is True else None


def _elements(value: Any) -> Attribute | None:
    import numpy as np

    return dense_of(np.asarray(value))


class Kind(NamedTuple):
    """The Python values that stand for a class of attributes."""

    name: str
    """A noun for them, for messages."""
    convert: Callable[[Any], Attribute | None]
    """The attribute of a value, or None if it cannot be one."""


KINDS: Mapping[type[Attribute], Kind] = {
    IntegerAttr: Kind("an integer", _integer),
    FloatAttr: Kind("a number", _float),
    DenseArrayBase: Kind("a list of integers", _integers),
    StringAttr: Kind("a string", _text),
    SymbolRefAttr: Kind("the name of a symbol", _symbol),
    UnitAttr: Kind("True or False", _flag),
    DenseIntOrFPElementsAttr: Kind("an array", _elements),
    SplatAttr: Kind("an array", _elements),
}
"""The kinds of values by the class of attribute, in the order of their trial."""
