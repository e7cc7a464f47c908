"""Random bits and dropout: Philox4x32-10, the same for every part and target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.sbp import Part
from penstock.dialects.op.training.random import (
    DropoutOp,
    RandomBitsOp,
    RandomOp,
    philox,
)
from penstock.dialects.utils.numpy_types import element_type_of

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]

ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)

# `kat_vectors` of Random123 (D. E. Shaw Research), philox4x32 10: counter, key, words.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (*PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def scalar(number: int) -> Array:
    """An `i64` with the bits of an unsigned number."""
    return np.array(number, np.uint64).view(np.int64)


def wide(words: Sequence[int]) -> Array:
    """Two words as one number, the lower one first."""
    return scalar(words[0] | words[1] << 32)


def number() -> SSAValue:
    return create_ssa_value(TensorType(i64, []))


def bits_of(shape: Sequence[int], place: int = 0) -> RandomBitsOp:
    return RandomBitsOp.of(number(), number(), shape=list(shape), number=place)


def dropout_of(array: Array, ratio: float, place: int = 0) -> DropoutOp:
    x = create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))
    return DropoutOp.of(x, number(), number(), ratio=ratio, number=place)


def part_of(op: RandomOp, part: Part) -> RandomOp:
    """The op of a part of its result, of the part of an operand that has its shape."""
    shape = op.results[0].type
    operands = [
        create_ssa_value(TensorType(f32, part.shape)) if value.type == shape else value
        for value in op.operands
    ]
    return op.part(operands, [part])


def reference(op: RandomOp, *operands: Array) -> Array:
    """The result in NumPy, where halves are computed as kernels do."""
    return op.meaning(*operands)[0]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_words_are_those_that_the_authors_publish(
    counter: Sequence[int], key: Sequence[int], words: Sequence[int]
) -> None:
    found = philox([np.array([word], np.uint64) for word in counter], key)
    assert [int(word[0]) for word in found] == list(words)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_kernels_make_the_published_words(
    run_op: RunOp, counter: Sequence[int], key: Sequence[int], words: Sequence[int]
) -> None:
    """A part that is one block, at the place that the counter says."""
    block, place, *step = counter
    op = bits_of([4], place)
    whole = part_of(bits_of([ONES + 1, 4], place), Part((block, 0), (1, 4)))
    operands = wide(key), wide(step)
    (found,) = run_op(whole, *operands)
    assert found.tolist() == [list(words)]
    assert reference(whole, *operands).tolist() == [list(words)]
    if block == 0:
        assert run_op(op, *operands)[0].tolist() == list(words)


SHAPES: list[Sequence[int]] = [
    *((), (1,), (5,), (8,), (3, 4), (3, 7), (2, 3, 8), (2, 3, 5), (4, 0), (0, 4))
]


@pytest.mark.parametrize("shape", SHAPES)
def test_kernels_make_the_bits_of_the_reference(
    run_op: RunOp, shape: Sequence[int]
) -> None:
    random = fresh()
    operands = [np.array(each) for each in random.integers(-(2**63), 2**63 - 1, 2)]
    # One of 32 bits, and the same each time: it is in the kernel.
    op = bits_of(shape, ONES - 3**15 * SHAPES.index(shape))
    (found,), wanted = run_op(op, *operands), reference(op, *operands)
    assert found.dtype == wanted.dtype == np.uint32
    np.testing.assert_array_equal(found, wanted)


PARTS = [
    ((5, 6, 8), (2, 0, 0), (3, 6, 8)),
    ((5, 6, 8), (0, 1, 0), (5, 4, 8)),
    ((5, 6, 8), (1, 2, 4), (3, 3, 4)),
    ((5, 6, 7), (2, 0, 0), (2, 6, 7)),
    ((4, 13), (1, 3), (2, 1)),
    ((4, 13), (0, 1), (4, 2)),
    ((4, 13), (0, 3), (4, 10)),
    ((4, 13), (3, 7), (1, 6)),
    ((21,), (2,), (18,)),
]


@pytest.mark.parametrize(("whole", "starts", "shape"), PARTS)
def test_a_part_has_the_bits_of_its_places(
    run_op: RunOp, whole: Sequence[int], starts: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    random = fresh()
    operands = [np.array(random.integers(2**62)) for _ in range(2)]
    box = tuple(slice(a, a + b) for a, b in zip(starts, shape, strict=True))
    all_bits = reference(bits_of(whole, 5), *operands)[box]
    part = part_of(bits_of(whole, 5), Part(starts, shape))
    np.testing.assert_array_equal(reference(part, *operands), all_bits)
    np.testing.assert_array_equal(run_op(part, *operands)[0], all_bits)
    x = random.normal(size=whole).astype(np.float32)
    dropped = reference(dropout_of(x, 0.3, 5), x, *operands)[box]
    part = part_of(dropout_of(x, 0.3, 5), Part(starts, shape))
    np.testing.assert_array_equal(run_op(part, x[box].copy(), *operands)[0], dropped)


def test_a_part_of_a_part_is_a_part_of_the_whole() -> None:
    outer = part_of(bits_of([8, 12]), Part((2, 4), (5, 8)))
    inner = part_of(outer, Part((1, 3), (2, 4)))
    wanted = part_of(bits_of([8, 12]), Part((3, 7), (2, 4)))
    assert inner.properties == wanted.properties


def test_seed_step_and_number_change_all_bits() -> None:
    zero, one = np.array(0), np.array(1)
    drawn = [
        reference(bits_of([64], place), seed, step)
        for place in (0, 1)
        for seed in (zero, one, np.array(1 << 32))
        for step in (zero, one, np.array(1 << 32))
    ]
    assert len(np.unique(drawn)) == 18 * 64


EPSILONS: dict[Any, float] = {
    np.float32: 2**-23,
    np.float64: 2**-52,
    np.float16: 2**-10,
    ml_dtypes.bfloat16: 2**-7,
}


@pytest.mark.parametrize("dtype", EPSILONS)
@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1 - 2**-40])
def test_dropout_keeps_elements_by_their_bits(
    run_op: RunOp, dtype: Any, ratio: float
) -> None:
    random = fresh()
    x = random.normal(size=(6, 19)).astype(dtype)
    seed, step = (np.array(random.integers(2**62)) for _ in range(2))
    (found,) = run_op(dropout_of(x, ratio, 9), x, seed, step)
    wanted = reference(dropout_of(x, ratio, 9), x, seed, step)
    np.testing.assert_array_equal(found, wanted)
    bits = reference(bits_of(x.shape, 9), seed, step)
    is_kept = bits / 2.0**32 >= ratio
    kept = found.astype(np.float64)
    assert not kept[~is_kept].any()
    scaled = x.astype(np.float64)[is_kept] / (1 - ratio)
    if dtype is not np.float16 or ratio < 0.9:
        tolerance = 2 * EPSILONS[dtype]
        # Subnormals round by half their fixed distance, not by a part of their value.
        subnormal = float(np.nextafter(dtype(0), dtype(1))) / 2
        np.testing.assert_allclose(
            kept[is_kept], scaled, rtol=tolerance, atol=subnormal
        )


def test_what_is_dropped_is_zero_whatever_it_was(run_op: RunOp) -> None:
    x = np.full((4, 32), np.nan, np.float32)
    seed, step = np.array(3), np.array(4)
    (found,) = run_op(dropout_of(x, 0.5), x, seed, step)
    bits = reference(bits_of(x.shape), seed, step)
    np.testing.assert_array_equal(np.isnan(found), bits >= 2**31)
    assert not found[bits < 2**31].any()


def test_bits_are_distributed_as_random_ones_are() -> None:
    bits = reference(bits_of([4, 4096]), np.array(1), np.array(2))
    ones = np.unpackbits(bits.view(np.uint8)).mean()
    # 5 standard deviations of a mean of 2**19 fair bits.
    assert abs(ones - 0.5) < 5 * 0.5 / 2**9.5
    assert abs((bits < 2**32 * 0.1).mean() - 0.1) < 5 * (0.09**0.5) / 2**7


def test_the_gradient_of_dropout_makes_the_bits_again() -> None:
    random = fresh()
    x, g = random.normal(size=(2, 3, 10))
    seed, step = np.array(5), np.array(6)
    op = dropout_of(x, 0.3, 8)
    made: list[Operation] = []
    grad = create_ssa_value(op.results[0].type)
    by_x, by_seed, by_step = op.gradient(OpBuilder(made.append), grad)
    (back,) = made
    assert by_x is back.results[0]
    assert by_seed is by_step is None
    assert isinstance(back, DropoutOp)
    found = reference(back, g, seed, step)

    def loss(x: Array) -> float:
        return float((reference(op, x, seed, step) * g).sum())

    for place in np.ndindex(*x.shape):
        change = np.zeros_like(x)
        change[place] = 1e-3
        wanted = (loss(x + change) - loss(x - change)) / 2e-3
        assert abs(found[place] - wanted) < 1e-9
