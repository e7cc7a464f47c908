"""`isa` of types with parameters and without says what xDSL's says."""

from __future__ import annotations

from itertools import product
from typing import Any

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    f32,
    i64,
)
from xdsl.utils import hints

from penstock.dialects.utils.hints import isa

VALUES = (
    IntegerAttr(3, i64),
    IntegerAttr(3, IndexType()),
    FloatAttr(3.0, f32),
    TensorType(f32, [4]),
    TensorType(i64, [4]),
    MemRefType(f32, [4]),
    ArrayAttr([StringAttr("x")]),
    ArrayAttr([StringAttr("x"), i64]),
    ArrayAttr([]),
    [MemRefType(f32, [4])],
    [i64],
    (3, "x"),
    "x",
    None,
)
HINTS: tuple[Any, ...] = (
    IntegerAttr,
    MemRefType,
    IntegerAttr[IntegerType],
    IntegerAttr[IndexType],
    TensorType[AnyFloat],
    TensorType[AnyFloat | IntegerType],
    ArrayAttr[StringAttr],
    list[MemRefType],
    tuple[int, str],
    MemRefType | TensorType,
    str | None,
)


def test_values_are_of_the_types_that_xdsl_says() -> None:
    found = {(str(x), str(t)): isa(x, t) for x, t in product(VALUES, HINTS)}
    assert found == {
        (str(x), str(t)): hints.isa(x, t) for x, t in product(VALUES, HINTS)
    }
    assert 10 < sum(found.values()) < len(found) // 2
