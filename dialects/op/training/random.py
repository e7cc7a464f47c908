"""
Random numbers by the counter-based generator Philox4x32-10 (Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011), and dropout.

Four words of 32 bits are a function of a key and of a counter of four words. The key is
the seed. The counter is the number of a block of four elements, the number of the op,
and the two halves of the step. A block holds four neighbours on the last axis, and
blocks are numbered row by row in the whole tensor. So the bits of an element depend on
nothing else: neither on threads and devices, nor on the order of ops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64List, int_list, row_major
from penstock.dialects.op.canonicalization import CanonicalOp, OpPattern
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.number import Number
from penstock.dialects.op.sbp import PARTIAL, Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.attributes import replace_by_value
from penstock.dialects.utils.gradients import only
from penstock.dialects.utils.signless import ui32
from penstock.dialects.utils.tensors import shape_text, tensor_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

WORDS = 4
"""The elements of a block."""
WORD = 32
"""The bits of a word."""
MASK = (1 << WORD) - 1
ROUNDS = 10
FACTORS = 0xD2511F53, 0xCD9E8D57
"""The factors of words 0 and 2 in each round."""
STEPS = 0x9E3779B9, 0xBB67AE85
"""The numbers that the words of the key grow by from one round to the next."""

################################################################################
# Philox4x32-10                                                                #
################################################################################


def philox(
    counter: Sequence[NDArray[np.uint64]], key: Sequence[int]
) -> Sequence[NDArray[np.uint64]]:
    """
    The four words of each counter, whose words are four arrays of `u64` below 2**32
    that are broadcast to one shape, under a key of two words.
    """
    import numpy as np

    words, keys = list(counter), [np.uint64(word) for word in key]
    half, mask = np.uint64(WORD), np.uint64(MASK)
    for _ in range(ROUNDS):
        left, right = words[0] * np.uint64(FACTORS[0]), words[2] * np.uint64(FACTORS[1])
        words = [
            (right >> half) ^ words[1] ^ keys[0],
            right & mask,
            (left >> half) ^ words[3] ^ keys[1],
            left & mask,
        ]
        keys = [
            (each + np.uint64(step)) & mask
            for each, step in zip(keys, STEPS, strict=True)
        ]
    return words


def build_philox(
    k: KernelBuilder, counter: Sequence[SSAValue], key: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """
    The same in a kernel, on words that are `i64` from 0 to 2**32 - 1: a loop over the
    rounds, which LLVM unrolls, as compiling took thrice as long with all of them.
    """

    def turn(
        k: KernelBuilder, _: SSAValue, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        words, keys = carried[:WORDS], carried[WORDS:]
        left, right = (
            k.mul(words[place], k.constant(factor, i64))
            for place, factor in zip((0, 2), FACTORS, strict=True)
        )
        grown = (
            _lower(k, k.add(each, k.constant(step, i64)))
            for each, step in zip(keys, STEPS, strict=True)
        )
        return (
            _xor(k, _upper(k, right), words[1], keys[0]),
            _lower(k, right),
            _xor(k, _upper(k, left), words[3], keys[1]),
            _lower(k, left),
            *grown,
        )

    found = k.loop(k.index(0), k.index(ROUNDS), (*counter, *key), turn)
    return found[:WORDS]


def halves_of(k: KernelBuilder, value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The lower and the upper word of an `i64`."""
    return _lower(k, value), _upper(k, value)


def _lower(k: KernelBuilder, value: SSAValue) -> SSAValue:
    return k.insert(arith.AndIOp(value, k.constant(MASK, i64)))


def _upper(k: KernelBuilder, value: SSAValue) -> SSAValue:
    return k.insert(arith.ShRUIOp(value, k.constant(WORD, i64)))


def _xor(k: KernelBuilder, first: SSAValue, *others: SSAValue) -> SSAValue:
    for other in others:
        first = k.insert(arith.XOrIOp(first, other))
    return first


################################################################################
# Blocks                                                                       #
################################################################################


class Axis(NamedTuple):
    """The places of a part on one axis of a tensor."""

    extent: int
    whole: int
    offset: int

    @property
    def is_whole(self) -> bool:
        """Whether the part has all places."""
        return self.extent == self.whole


ONE = Axis(1, 1, 0)
"""The axis of a scalar's columns."""


def in_row(columns: Axis) -> int:
    """The blocks of a row of the whole tensor."""
    return -(-columns.whole // WORDS)


class Blocks(NamedTuple):
    """The blocks of a row that have the same words in a part."""

    first: int
    number: int
    words: range


def merged(part: Sequence[Axis]) -> list[Axis]:
    """
    The axes of a part, the last of which is that of columns, where neighbours that are
    contiguous in the whole tensor are one: columns only if they make whole blocks.
    """
    *rows, columns = part or [ONE]
    found: list[Axis] = []
    for axis in rows:
        if found and axis.is_whole:
            outer = found.pop()
            axis = Axis(*(number * axis.whole for number in outer))
        found.append(axis)
    if columns.is_whole and columns.whole % WORDS == 0 and found:
        return [*found[:-1], Axis(*(number * columns.whole for number in found[-1]))]
    return [*found, columns]


def blocks_of(columns: Axis) -> list[Blocks]:
    """The blocks of a row: one that is cut, those with all words, one that is cut."""
    start, end = columns.offset, columns.offset + columns.extent
    found: list[Blocks] = []
    while start < end:
        block, word = divmod(start, WORDS)
        last = min(WORDS, word + end - start)
        is_full = last - word == WORDS
        number = (end - start) // WORDS if is_full else 1
        found.append(Blocks(block, number, range(word, last)))
        start += number * (last - word)
    return found


def numbers_of(axes: Sequence[Axis]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """The number of the block of each element of a part, and its place in a block."""
    import numpy as np

    *rows, columns = axes
    numbers = np.zeros((), np.uint64)
    for axis in rows:
        own = np.arange(axis.offset, axis.offset + axis.extent, dtype=np.uint64)
        numbers = numbers[..., None] * np.uint64(axis.whole) + own
    at = np.arange(columns.offset, columns.offset + columns.extent, dtype=np.uint64)
    first = numbers[..., None] * np.uint64(in_row(columns))
    return first + at // np.uint64(WORDS), (at % np.uint64(WORDS)).astype(np.intp)


################################################################################
# Ops                                                                          #
################################################################################


class RandomOp(TensorOp, ABC):
    """
    An op each element of whose one result depends on 32 random bits, which are those of
    the seed and the step, its last operands, and the number of the op; and of the
    element's place in the tensor, or in the `whole` of which it is the part from
    `starts` on.
    """

    number = prop_def(IntegerAttr.constr(eq(i64)), default_value=IntegerAttr(0, i64))
    starts = opt_prop_def(I64List)
    whole = opt_prop_def(I64List)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    FLOPS: ClassVar = 30

    @abstractmethod
    def combine(self, bits: Array, *others: Array) -> Array:
        """The result by its random bits, `u32`, in terms of NumPy."""

    @abstractmethod
    def build_element(
        self, k: KernelBuilder, bits: SSAValue, others: Sequence[SSAValue]
    ) -> SSAValue:
        """Build an element by its random bits, an `i64` below 2**32."""

    def verify_random(self, shape: Sequence[int]) -> None:
        """Raise `VerifyException` unless the result may have this shape."""
        for name, value in zip(("seed", "step"), self.operands[-2:], strict=True):
            if value.type != TensorType(i64, []):
                raise VerifyException(
                    f"the {name} should be a tensor<i64>, got {value.type}"
                )
        if not 0 <= self.number.value.data <= MASK:
            raise VerifyException(
                f"the number should be from 0 to {MASK}, got {self.number.value.data}"
            )
        self._verify_part(shape)
        if DYNAMIC_INDEX in shape:
            return
        if (count := _block_count(self.axes_of(shape))) > MASK + 1:
            raise VerifyException(
                f"there are bits for {MASK + 1} blocks of {WORDS} elements, got {count}"
            )

    def _verify_part(self, shape: Sequence[int]) -> None:
        if self.starts is None and self.whole is None:
            return
        if self.starts is None or self.whole is None:
            raise VerifyException("the part and the shape of the whole go together")
        starts, whole = self.starts.get_values(), self.whole.get_values()
        if not len(starts) == len(whole) == len(shape) or any(
            start < 0 or start + max(extent, 0) > most
            for start, extent, most in zip(starts, shape, whole, strict=True)
        ):
            raise VerifyException(
                f"a part of {shape_text(shape)} from {[*starts]} on does not lie in "
                f"{shape_text(whole)}"
            )

    def axes_of(self, shape: Sequence[int]) -> list[Axis]:
        """The places of a result of this shape in the whole tensor."""
        whole = shape if self.whole is None else self.whole.get_values()
        starts = [0] * len(shape) if self.starts is None else self.starts.get_values()
        return [Axis(*axis) for axis in zip(shape, whole, starts, strict=True)]

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> Self:
        shape = tensor_type(self.results[0]).get_shape()
        axes = self.axes_of(shape)
        if parts[0].shape == shape:
            return self.remade(operands, parts, self.properties)
        offsets = zip(parts[0].offsets, axes, strict=True)
        place = {
            "starts": int_list([own + axis.offset for own, axis in offsets]),
            "whole": int_list([axis.whole for axis in axes]),
        }
        return self.remade(operands, parts, self.part_properties(parts[0], place))

    def part_properties(
        self, part: Part, place: Mapping[str, Attribute]
    ) -> Mapping[str, Attribute]:
        """The properties of the op of a part, of which these tell its place."""
        return {**self.properties, **place}

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        *others, seed, step = operands
        shape = others[0].shape if others else tensor_type(self.results[0]).get_shape()
        key, time = (
            [int(number) & MASK, int(number) >> WORD & MASK] for number in (seed, step)
        )
        blocks, places = numbers_of(self.axes_of(shape) or [ONE])
        rest = (np.asarray(n, np.uint64) for n in (self.number.value.data, *time))
        bits = np.choose(places, philox([blocks, *rest], key)).astype(np.uint32)
        return (self.combine(bits.reshape(shape), *others),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        shape = memref_type(outs[0]).get_shape()
        if 0 in shape:
            return
        axes = merged(self.axes_of(shape))
        views = [
            k.view(memref, [axis.extent for axis in axes])
            for memref in (*ins[:-2], outs[0])
        ]
        for blocks in blocks_of(axes[-1]):
            extents = [*(axis.extent for axis in axes[:-1]), blocks.number]

            def build(
                k: KernelBuilder, at: Sequence[SSAValue], blocks: Blocks = blocks
            ) -> None:
                self._build_blocks(k, at, axes, blocks, [*views, *ins[-2:]])

            k.parallel(extents, build)

    def _build_blocks(
        self,
        k: KernelBuilder,
        at: Sequence[SSAValue],
        axes: Sequence[Axis],
        blocks: Blocks,
        memrefs: Sequence[SSAValue],
    ) -> None:
        """The elements of one block at a place of the part's rows."""
        *others, out, seed, step = memrefs
        *rows, place = at
        key, time = (halves_of(k, k.load(number, ())) for number in (seed, step))
        number = k.constant(self.number.value.data, i64)
        words = build_philox(
            k, [_block_number(k, at, axes, blocks), number, *time], key
        )
        start = blocks.first * WORDS - axes[-1].offset
        first = k.mul(place, k.index(WORDS))
        for word in blocks.words:
            column = k.add(first, k.index(start + word))
            read = [k.load(memref, [*rows, column]) for memref in others]
            k.store(self.build_element(k, words[word], read), out, [*rows, column])


def _block_count(axes: Sequence[Axis]) -> int:
    """The blocks of the whole tensor."""
    *rows, columns = axes or [ONE]
    return prod(axis.whole for axis in rows) * in_row(columns)


def _block_number(
    k: KernelBuilder, at: Sequence[SSAValue], axes: Sequence[Axis], blocks: Blocks
) -> SSAValue:
    """The number of a block in the whole tensor, an `i64`."""
    extents = [*(axis.whole for axis in axes[:-1]), in_row(axes[-1])]
    starts = [*(axis.offset for axis in axes[:-1]), blocks.first]
    strides = row_major(extents)
    # Indices of devices have 32 bits.
    total = k.constant(sum(a * b for a, b in zip(starts, strides, strict=True)), i64)
    for index, stride in zip(at, strides, strict=True):
        place = k.insert(arith.IndexCastOp(index, i64))
        total = k.add(total, k.mul(place, k.constant(stride, i64)))
    return total


@irdl_op_definition
class RandomBitsOp(RandomOp):
    """
    32 random bits for each element of a shape: those of Philox4x32-10 whose key is the
    seed, and whose counter is the step, the number of the op and the element's place.

    Ops of one job that are to have different bits have different numbers. The bits are
    the same on all devices, in any number of threads; a part of the tensor has those of
    its places in the whole.

    ```mlir
    %b = op.random_bits %seed, %step number 3 to [4, 8]
      : tensor<i64>, tensor<i64> -> tensor<4x8xui32>
    %c = op.random_bits %seed, %step number 3 to [2, 8] part [2, 0] of [4, 8]
      : tensor<i64>, tensor<i64> -> tensor<2x8xui32>
    ```
    """

    name = "op.random_bits"
    NO_GRADIENT: ClassVar = "its elements are integers"

    seed = operand_def(TensorType)
    step = operand_def(TensorType)
    shape = prop_def(I64List)

    assembly_format = (
        "$seed `,` $step (`number` $number^)? `to` $shape "
        "(`part` $starts^ `of` $whole)? attr-dict "
        "`:` type($seed) `,` type($step) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        shape = self.shape.get_values()
        if min(shape, default=0) < 0:
            raise VerifyException(f"expected extents of no less than 0, got {[*shape]}")
        self.verify_random(shape)
        return (TensorType(ui32, shape),)

    def part_properties(
        self, part: Part, place: Mapping[str, Attribute]
    ) -> Mapping[str, Attribute]:
        return {**self.properties, **place, "shape": int_list(part.shape)}

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = len(self.shape.get_values())
        return [signature([None, None], [axis]) for axis in range(rank)]

    def combine(self, bits: Array, *others: Array) -> Array:
        return bits

    def build_element(
        self, k: KernelBuilder, bits: SSAValue, others: Sequence[SSAValue]
    ) -> SSAValue:
        return k.insert(arith.TruncIOp(bits, ui32))


class DropNothing(OpPattern["DropoutOp"]):
    """
    dropout(x) = x if the ratio is 0.
    """

    def rewrite(self, op: DropoutOp, rewriter: PatternRewriter) -> None:
        if op.ratio.value.data == 0:
            replace_by_value(op, op.operand, rewriter)


@irdl_op_definition
class DropoutOp(RandomOp, CanonicalOp):
    """
    Each element divided by 1 - `ratio`, or 0 with the probability `ratio`.

    An element is dropped if its bits, those that `op.random_bits` of the same seed,
    step and number has, are a number below `ratio` times 2**32, whatever the element
    is. So nothing has to be kept for the gradient, which is the dropout of the result's
    gradient.

    ```mlir
    %y = op.dropout %x, %seed, %step number 3 ratio 0.1
      : tensor<4x8xf32>, tensor<i64>, tensor<i64> -> tensor<4x8xf32>
    ```
    """

    name = "op.dropout"
    PRECISION: ClassVar = "grey"
    PATTERNS: ClassVar = (DropNothing,)
    custom_directives = (Number,)

    operand = operand_def(TensorType)
    seed = operand_def(TensorType)
    step = operand_def(TensorType)
    ratio = prop_def(FloatAttr.constr(eq(f64)))

    assembly_format = (
        "$operand `,` $seed `,` $step (`number` $number^)? "
        "`ratio` custom<Number>($ratio) (`part` $starts^ `of` $whole)? attr-dict "
        "`:` type($operand) `,` type($seed) `,` type($step) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        type = tensor_type(self.operand)
        FLOATS.verify(type)
        if not 0 <= self.ratio.value.data < 1:
            raise VerifyException(
                f"the ratio should be at least 0 and less than 1, got "
                f"{self.ratio.value.data}"
            )
        self.verify_random(type.get_shape())
        return (type,)

    @property
    def threshold(self) -> int:
        """The least bits of an element that is kept."""
        return int(self.ratio.value.data * (MASK + 1))

    @property
    def scale(self) -> float:
        """The factor of elements that are kept."""
        return 1 / (1 - self.ratio.value.data)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return (InPlacePair(0, 0),)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        rank = tensor_type(self.operand).get_num_dims()
        splits = [signature([axis, None, None], [axis]) for axis in range(rank)]
        return (*splits, signature([PARTIAL, None, None], [PARTIAL]))

    def combine(self, bits: Array, *others: Array) -> Array:
        import numpy as np

        (array,) = others
        with np.errstate(all="ignore"):
            scaled = np.multiply(array, np.asarray(self.scale, array.dtype))
        is_kept = np.greater_equal(bits, np.uint32(self.threshold))
        return np.where(is_kept, scaled, np.zeros_like(array))

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        operands = only(grads), *self.operands[1:]
        return [o.one(type(self), *operands, **self.properties), None, None]

    def build_element(
        self, k: KernelBuilder, bits: SSAValue, others: Sequence[SSAValue]
    ) -> SSAValue:
        (value,) = others
        is_kept = k.compare("ge", bits, k.constant(self.threshold, i64))
        scaled = k.mul(value, k.constant(self.scale, value.type))
        return k.select(is_kept, scaled, k.constant(0, value.type))
