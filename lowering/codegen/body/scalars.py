"""
The printer of scalar ops as Python expressions.

An expression has exactly the type of its op: `f32` and `f64` are computed in their own
type, integers of less than 64 bits are cut after each operation, `index` is a 64-bit
integer, `i1` a boolean, and `f16` and `bf16` are `f32` that is rounded to 16 bits after
each operation. Names that are not Python's come from the support module of the target.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation

INTEGERS = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}
FLOATS = {bf16: "bf16", f16: "f16", f32: "f32", f64: "f64"}
HALVES = ("bf16", "f16")

Expression: TypeAlias = Callable[["Scalars", Operation, Sequence[str]], "str | None"]
"""Prints an op given its operands; None if there is no such expression."""


def type_name(type: Attribute) -> str | None:
    """The short name of a scalar type, or None if kernels cannot compute with it."""
    match type:
        case IndexType():
            return "index"
        case IntegerType():
            return "i1" if type.width.data == 1 else INTEGERS.get(type.width.data)
        case _:
            return next((name for f, name in FLOATS.items() if f == type), None)


class Scalars:
    """Prints scalar ops, and notes which names of the support module they use."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def call(self, function: str, *arguments: str) -> str:
        """A call of a function of the support module."""
        self.names.add(function)
        return f"{function}({', '.join(arguments)})"

    def expression(self, op: Operation, operands: Sequence[str]) -> str | None:
        """The op as an expression of its operands, or None if there is none."""
        types = [value.type for value in (*op.operands, *op.results)]
        if len(op.results) != 1 or any(type_name(type) is None for type in types):
            return None
        if isinstance(op, arith.ConstantOp):
            return self.constant(op.value)
        build = EXPRESSIONS.get(op.name)
        return None if build is None else build(self, op, operands)

    def constant(self, value: Attribute) -> str | None:
        """A number of a type that kernels compute with."""
        match value:
            case FloatAttr():
                name = type_name(value.type)
                return self.float_constant(value.value.data, name) if name else None
            case IntegerAttr():
                return self.integer_constant(value.value.data, value.type)
            case _:
                return None

    def float_constant(self, value: float, type: str) -> str:
        """A number of a type of floats."""
        if value != value:
            self.names.add("nan")
            text = "nan"
        elif value in (float("inf"), float("-inf")):
            self.names.add("inf")
            text = "inf" if value > 0 else "-inf"
        else:
            text = repr(value) if type == "f64" else shortest_f32(value)
        return self.call("f64" if type == "f64" else "f32", text)

    def integer_constant(self, value: int, type: Attribute) -> str | None:
        """An integer of a type that kernels compute with."""
        match type_name(type):
            case None | "bf16" | "f16" | "f32" | "f64":
                return None
            case "index":
                return str(value)
            case "i1":
                return str(value != 0)
            case name:
                bits = int(name[1:])
                return self.call(
                    name, str((value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
                )

    def unsigned(self, value: str, type: str | None) -> str:
        """An integer taken as an unsigned one of its size."""
        assert type is not None, "checked before"
        return self.call("u64" if type == "index" else f"u{type[1:]}", value)

    def wrapped(self, type: Attribute, text: str) -> str:
        """An operation's result, cut or rounded to what its type can hold."""
        match type_name(type):
            case "bf16" | "f16" as name:
                return self.call(f"round_{name}", text)
            case "i8" | "i16" | "i32" as name:
                return self.call(name, text)
            case _:
                return text


def shortest_f32(value: float) -> str:
    """The shortest decimal number that is `value` when rounded to 32 bits."""
    exact = struct.pack("f", value)
    for digits in range(1, 10):
        text = repr(float(f"{value:.{digits}g}"))
        try:
            if struct.pack("f", float(text)) == exact:
                return text
        except OverflowError:
            continue
    return repr(value)


def _operator(symbol: str) -> Expression:
    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        text = f"{operands[0]} {symbol} {operands[1]}"
        return scalars.wrapped(op.results[0].type, text)

    return build


def _integer_operator(symbol: str, of_booleans: str) -> Expression:
    """
    A sum, difference or product, which wraps. Numba lets LLVM assume that signed
    integers of 64 bits do not overflow, so these are computed as unsigned ones; an
    `index` never overflows.
    """

    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        type = op.results[0].type
        if type_name(type) == "i64":
            a, b = (scalars.call("u64", value) for value in operands)
            return scalars.call("i64", f"{a} {symbol} {b}")
        used = of_booleans if type_name(type) == "i1" else symbol
        return scalars.wrapped(type, f"{operands[0]} {used} {operands[1]}")

    return build


def _function(name: str) -> Expression:
    """A function, for `f16` and `bf16` computed in `f32` and rounded."""

    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        text = scalars.call(name, *operands)
        type = op.results[0].type
        return scalars.wrapped(type, text) if type_name(type) in HALVES else text

    return build


def _exact_function(name: str) -> Expression:
    """A function whose result always fits into its type."""

    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        return scalars.call(name, *operands)

    return build


def _unsigned_function(name: str) -> Expression:
    """A function of integers that are taken as unsigned."""

    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        type = type_name(op.results[0].type)
        if type == "i1":
            return None
        values = (scalars.unsigned(value, type) for value in operands)
        back = "i64" if type == "index" else type or ""
        return scalars.call(back, scalars.call(name, *values))

    return build


def _signed_function(name: str) -> Expression:
    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        if type_name(op.results[0].type) == "i1":
            return None
        return scalars.call(name, *operands)

    return build


def _choice(relation: str, unsigned: bool) -> Expression:
    """The operand that stands in the relation to the other one."""

    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        a, b = operands
        type = type_name(op.results[0].type)
        if type == "i1":
            return f"{a} | {b}" if (relation == ">") == unsigned else f"{a} & {b}"
        compared = [scalars.unsigned(v, type) if unsigned else v for v in operands]
        return scalars.call("select", f" {relation} ".join(compared), a, b)

    return build


def _negated(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
    return f"-{operands[0]}"


def _reciprocal_root(
    scalars: Scalars, op: Operation, operands: Sequence[str]
) -> str | None:
    type = op.results[0].type
    one = scalars.float_constant(1.0, type_name(type) or "")
    root = scalars.call("sqrt", operands[0])
    return scalars.wrapped(type, f"{one} / {root}")


def _absolute(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
    value, type = operands[0], op.results[0].type
    if type_name(type) == "i1":
        return value
    return scalars.call(
        "select", f"{value} < 0", scalars.wrapped(type, f"-{value}"), value
    )


INTEGER_RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
FIRST_UNSIGNED = 6
ORDERED_RELATIONS = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<="}
UNORDERED_RELATIONS = {9: "<=", 10: "<", 11: ">=", 12: ">", 13: "!="}
"""The relation whose contrary holds with a NaN, except for `!=` itself."""


def _compared_integers(
    scalars: Scalars, op: Operation, operands: Sequence[str]
) -> str | None:
    assert isinstance(op, arith.CmpiOp), "looked up by its name"
    predicate, type = op.predicate.value.data, type_name(op.lhs.type)
    values = list(operands)
    if type == "i1" and predicate > 1:
        values = [scalars.call("u8", value) for value in operands]
        if predicate < FIRST_UNSIGNED:
            values.reverse()
    elif predicate >= FIRST_UNSIGNED:
        values = [scalars.unsigned(value, type) for value in operands]
    return f" {INTEGER_RELATIONS[predicate]} ".join(values)


def _compared_floats(
    scalars: Scalars, op: Operation, operands: Sequence[str]
) -> str | None:
    assert isinstance(op, arith.CmpfOp), "looked up by its name"
    a, b = operands
    predicate = op.predicate.value.data
    if predicate in ORDERED_RELATIONS:
        return f"{a} {ORDERED_RELATIONS[predicate]} {b}"
    if predicate in UNORDERED_RELATIONS:
        relation = UNORDERED_RELATIONS[predicate]
        text = f"{a} {relation} {b}"
        return text if relation == "!=" else f"not ({text})"
    return {
        0: "False",
        6: f"({a} < {b}) | ({a} > {b})",
        7: f"({a} == {a}) & ({b} == {b})",
        8: f"not (({a} < {b}) | ({a} > {b}))",
        14: f"({a} != {a}) | ({b} != {b})",
        15: "True",
    }.get(predicate)


def _cast_integer(
    scalars: Scalars, op: Operation, operands: Sequence[str]
) -> str | None:
    """A cast between integers that keeps the sign, or cuts bits off."""
    source, target = (type_name(v.type) for v in (op.operands[0], op.results[0]))
    value = operands[0]
    if target == "i1":
        return f"({value} & 1) != 0"
    target = "i64" if target == "index" else target
    assert target is not None, "checked before"
    if source == "i1":
        return scalars.call(target, "-" + scalars.call("i64", value))
    return scalars.call(target, value)


def _extended_unsigned(
    scalars: Scalars, op: Operation, operands: Sequence[str]
) -> str | None:
    source, target = (type_name(v.type) for v in (op.operands[0], op.results[0]))
    assert source is not None, "checked before"
    assert target is not None, "checked before"
    if source == "i1":
        return scalars.call(target, operands[0])
    return scalars.call(target, scalars.unsigned(operands[0], source))


def _float_of(unsigned: bool) -> Expression:
    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        source, target = (type_name(v.type) for v in (op.operands[0], op.results[0]))
        value = operands[0]
        if source == "i1" and not unsigned:
            value = "-" + scalars.call("i64", value)
        elif source != "i1" and unsigned:
            assert source is not None, "checked before"
            value = scalars.call(
                "u64" if source == "index" else f"u{source[1:]}", value
            )
        if target in HALVES:
            return scalars.call(f"round_{target}", scalars.call("f64", value))
        return scalars.call(target or "", value)

    return build


def _integer_of(unsigned: bool) -> Expression:
    def build(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
        target = type_name(op.results[0].type)
        if target is None or target in ("i1", "index"):
            return None
        if unsigned:
            value = scalars.call(f"u{target[1:]}", operands[0])
            return scalars.call(target, value)
        return scalars.call(target, operands[0])

    return build


def _cast_float(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
    target = type_name(op.results[0].type)
    rounds = f"round_{target}" if target in HALVES else target or ""
    return scalars.call(rounds, operands[0])


def _bitcast(scalars: Scalars, op: Operation, operands: Sequence[str]) -> str | None:
    source, target = (type_name(v.type) for v in (op.operands[0], op.results[0]))
    if source == target:
        return operands[0]
    if source not in ("f32", "f64", "i32", "i64") or target is None:
        return None
    scalars.names.add(target)
    return f"{scalars.call(source, operands[0])}.view({target})"


EXPRESSIONS: dict[str, Expression] = {
    **{
        f"arith.{name}": _operator(symbol)
        for name, symbol in {
            "addf": "+",
            "subf": "-",
            "mulf": "*",
            "divf": "/",
            "andi": "&",
            "ori": "|",
            "xori": "^",
        }.items()
    },
    "arith.addi": _integer_operator("+", "^"),
    "arith.subi": _integer_operator("-", "^"),
    "arith.muli": _integer_operator("*", "&"),
    "arith.divsi": _signed_function("div_trunc"),
    "arith.floordivsi": _signed_function("div_floor"),
    "arith.ceildivsi": _signed_function("div_ceil"),
    "arith.remsi": _signed_function("rem_trunc"),
    "arith.shli": _signed_function("shl"),
    "arith.shrsi": _signed_function("shr"),
    "arith.divui": _unsigned_function("div_trunc"),
    "arith.ceildivui": _unsigned_function("div_ceil"),
    "arith.remui": _unsigned_function("rem_trunc"),
    "arith.shrui": _unsigned_function("shr"),
    "arith.maxsi": _choice(">", unsigned=False),
    "arith.minsi": _choice("<", unsigned=False),
    "arith.maxui": _choice(">", unsigned=True),
    "arith.minui": _choice("<", unsigned=True),
    "arith.maximumf": _exact_function("maximum"),
    "arith.minimumf": _exact_function("minimum"),
    "arith.maxnumf": _exact_function("maxnum"),
    "arith.minnumf": _exact_function("minnum"),
    "arith.select": _exact_function("select"),
    "arith.negf": _negated,
    "arith.cmpi": _compared_integers,
    "arith.cmpf": _compared_floats,
    "arith.index_cast": _cast_integer,
    "arith.extsi": _cast_integer,
    "arith.trunci": _cast_integer,
    "arith.extui": _extended_unsigned,
    "arith.sitofp": _float_of(unsigned=False),
    "arith.uitofp": _float_of(unsigned=True),
    "arith.fptosi": _integer_of(unsigned=False),
    "arith.fptoui": _integer_of(unsigned=True),
    "arith.extf": _cast_float,
    "arith.truncf": _cast_float,
    "arith.bitcast": _bitcast,
    **{
        f"math.{name}": _exact_function(function)
        for name, function in {
            "absf": "fabs",
            "ceil": "ceil",
            "copysign": "copysign",
            "floor": "floor",
            "round": "round_away",
            "roundeven": "round_even",
            "trunc": "trunc",
        }.items()
    },
    **{
        f"math.{name}": _function("pow" if name == "powf" else name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt"),
            *("cos", "cosh", "erf", "exp", "exp2", "expm1", "fma", "log", "log10"),
            *("log1p", "log2", "powf", "sin", "sinh", "sqrt", "tan", "tanh"),
        )
    },
    "llvm.frem": _exact_function("fmod"),
    "math.rsqrt": _reciprocal_root,
    "math.absi": _absolute,
}
