"""
Radix sort of a line of places in a kernel, by keys of a few bytes: a pass for each
byte that is not the same in all keys, whatever their order. It is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    f32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.op.cast import bits, to_float, to_integer
from penstock.dialects.op.counted.heap_sort import PlaceLine
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.signless import is_unsigned

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder

Key: TypeAlias = "Callable[[KernelBuilder, SSAValue], SSAValue]"
"""Builds the key of a place, of `i64`, whose low bytes are a number without a sign."""

DIGITS = 256
"""The values of a byte."""


def key_bytes(type: Attribute) -> int:
    """The bytes of the keys of elements of a type."""
    assert isinstance(type, FixedBitwidthType), "elements have a width"
    return f32.size if is_half(type) else type.size


def key_of(k: KernelBuilder, value: SSAValue) -> SSAValue:
    """The key of an element; zeros have the same, and so have NaN, the largest one."""
    if isinstance(value.type, AnyFloat):
        return _key_of_float(k, value)
    key = value
    if value.type != i64:
        key = k.insert(to_integer(value, i64))
    if is_unsigned(value.type):
        return key
    return k.insert(arith.XOrIOp(key, _sign(k, bits(value.type))))


def _key_of_float(k: KernelBuilder, value: SSAValue) -> SSAValue:
    if is_half(value.type):
        value = k.insert(to_float(value, f32))
    width, zero = bits(value.type), k.constant(0, value.type)
    positive = k.select(k.compare("eq", value, zero), zero, value)
    key = k.insert(arith.BitcastOp(positive, IntegerType(width)))
    if key.type != i64:
        key = k.insert(arith.ExtSIOp(key, i64))
    is_negative = k.compare("lt", key, k.constant(0, i64))
    last = k.constant(-1, i64)
    key = k.insert(arith.XOrIOp(key, k.select(is_negative, last, _sign(k, width))))
    return k.select(k.compare("eq", value, value), key, last)


def _sign(k: KernelBuilder, width: int) -> SSAValue:
    """The bit of the sign of a number, and those above it."""
    return k.constant(-1 << (width - 1), i64)


class RadixSort(NamedTuple):
    """The memory of a sort: the places, as many others, and `DIGITS` or more counts."""

    places: PlaceLine
    spare: PlaceLine
    counts: PlaceLine

    def build(self, k: KernelBuilder, key: Key, size: int) -> None:
        """Sort the places by keys of some bytes; equal ones stay as they are."""
        length = k.index(self.places.line.extent)

        def join(
            k: KernelBuilder, place: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            own = key(k, place)
            kinds = arith.AndIOp, arith.OrIOp
            return [k.insert(op(x, own)) for op, x in zip(kinds, carried, strict=True)]

        start = [k.constant(-1, i64), k.constant(0, i64)]
        both, either = k.loop(k.index(0), length, start, join)
        differing = k.insert(arith.XOrIOp(both, either))

        def sort_by(k: KernelBuilder, number: SSAValue) -> None:
            shift = k.insert(arith.IndexCastOp(k.mul(number, k.index(8)), i64))
            is_mixed = k.compare("gt", _digit(k, differing, shift), k.index(0))
            k.when(
                is_mixed,
                lambda k: self._pass(k, lambda k, x: _digit(k, key(k, x), shift)),
            )

        k.each(size, sort_by)

    def _pass(self, k: KernelBuilder, digit: Key) -> None:
        """Sort the places by one digit."""
        length, digits = k.index(self.places.line.extent), k.index(DIGITS)
        zero, one = k.index(0), k.index(1)
        counts = self.counts

        def count(k: KernelBuilder, place: SSAValue) -> None:
            own = digit(k, place)
            counts.store(k, k.add(counts.load(k, own), one), own)

        def begin(
            k: KernelBuilder, own: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            after = k.add(carried[0], counts.load(k, own))
            counts.store(k, carried[0], own)
            return [after]

        def move(k: KernelBuilder, rank: SSAValue) -> None:
            place = self.places.load(k, rank)
            own = digit(k, place)
            target = counts.load(k, own)
            self.spare.store(k, place, target)
            counts.store(k, k.add(target, one), own)

        def move_back(k: KernelBuilder, rank: SSAValue) -> None:
            self.places.store(k, self.spare.load(k, rank), rank)

        k.each(digits, lambda k, own: counts.store(k, zero, own))
        k.each(length, count)
        k.loop(zero, digits, [zero], begin)
        k.each(length, move)
        k.each(length, move_back)


def _digit(k: KernelBuilder, key: SSAValue, shift: SSAValue) -> SSAValue:
    """A byte of a key, as an index."""
    low = k.insert(arith.ShRUIOp(key, shift))
    byte = k.insert(arith.AndIOp(low, k.constant(DIGITS - 1, i64)))
    return k.insert(arith.IndexCastOp(byte, IndexType()))
