"""
Vectorized outer loops: *columns* of contiguous elements, for each of which the same
inner loops run.

`columns` makes the function that a kernel calls for a range of them. A vector of
columns does all that its elements do, in their order, before the next one starts, so a
kernel may store where it has loaded before. `f16` and `bf16` are extended when they are
loaded. The last columns, which do not fill a
vector, are loaded and stored under a mask.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportArgumentType=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.runtime.kernels.cpu.simd import (
    Code,
    LlvmValue,
    Vector,
    word,
)
from penstock.runtime.kernels.cpu.vector_loop import (
    AT_ONCE,
    InnerLoopLanes,
    code_for,
)
from penstock.runtime.kernels.cpu_features import Processor, processor_here

Step: TypeAlias = tuple[LlvmValue, int | LlvmValue]
"""Where a loop is, and by how many elements its turns are apart."""

Body: TypeAlias = Callable[..., None]
"""
Does what columns do, given `OuterLoopLanes`, the address of each buffer, and what they
share.
"""


class OuterLoopLanes(InnerLoopLanes):
    """
    The operations of the body of columns: on vectors of an element of each column, with
    a mask of the columns that there are.
    """

    def __init__(self, code: Code, count: int, mask: LlvmValue | None):
        super().__init__(code, count)
        self._mask = mask

    def load(
        self, address: LlvmValue, offset: int, *steps: Step, memory: str = ""
    ) -> Vector:
        """Elements so far from an address, in memory of this type."""
        code = self._code_for(memory)
        place = self._place(address, steps, code)
        return self.made(code.load(place, offset, self._count, self._mask))

    def load_one(
        self, address: LlvmValue, offset: int, *steps: Step, memory: str = ""
    ) -> Vector:
        """One element, so far from an address, for all columns."""
        code = self._code_for(memory)
        one = code.load(self._place(address, steps, code), offset, 1)
        return self.made(code.shuffled(one, one, [0] * self._count))

    def store(
        self,
        value: Vector,
        address: LlvmValue,
        offset: int,
        *steps: Step,
        memory: str = "",
    ) -> None:
        """Write elements so far from an address, in memory of this type."""
        code = self._code_for(memory)
        place = self._place(address, steps, code)
        code.store(value.value, place, offset, self._mask)

    def _code_for(self, memory: str) -> Code:
        """The emitter of accesses to memory of a type, by default that of columns."""
        return code_for(self._code, memory) if memory else self._code

    @staticmethod
    def _place(address: LlvmValue, steps: Sequence[Step], code: Code) -> LlvmValue:
        for turn, stride in steps:
            address = code.advanced(address, turn, stride)
        return address

    def loop(
        self,
        first: int,
        end: int | LlvmValue,
        carried: Sequence[Vector],
        turn: Callable[..., Sequence[Vector]],
    ) -> Sequence[Vector]:
        """
        A loop by ones from `first` up to but without `end`. `turn` is given where it is
        and what is carried, and returns what is carried on; the last is returned.
        """

        def body(at: LlvmValue, values: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            here = self.builder.add(at, word(first)) if first else at
            new = turn(here, *(self.made(value) for value in values))
            return [vector.value for vector in new]

        starts = [vector.value for vector in carried]
        turns = word(end - first) if isinstance(end, int) else end
        if first and not isinstance(end, int):
            turns = self.builder.sub(end, word(first))
        ends = self._code.loop(turns, 1, starts, body)
        return [self.made(value) for value in ends]


@dataclass(frozen=True)
class _Columns:
    element: str
    extent: int
    body: Body
    numbers: int
    """The count of what all columns share, after the addresses of the first one."""
    at_once: int
    memory: Sequence[str]
    """The element type in memory of each buffer; none if that is what is computed."""
    processor: Processor

    def emit(self, code: Code, values: Sequence[LlvmValue]) -> None:
        """Emit what all columns do."""
        most = self.processor.vector_bytes // code.size
        lanes = min(most, 1 << (self.extent - 1).bit_length())
        wide = lanes * min(
            self.at_once, 1 << max(0, (self.extent // lanes).bit_length() - 1)
        )

        def turn(at: LlvmValue, carried: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            self._step(code, values, at, wide, wide)
            return carried

        end = self.extent // wide * wide
        if end:
            code.loop(word(end), wide, (), turn)
        for start in range(end, self.extent, lanes):
            count = min(lanes, self.extent - start)
            self._step(code, values, word(start), lanes, count)

    def _step(
        self,
        code: Code,
        values: Sequence[LlvmValue],
        at: LlvmValue,
        lanes: int,
        count: int,
    ) -> None:
        """Emit what some columns do, fewer than there are lanes or as many."""
        mask = None if count == lanes else code.lanes_below(lanes, word(count))
        first = len(values) - self.numbers
        types = self.memory or [code.element] * first
        places = [
            code_for(code, type).advanced(address, at, 1)
            for type, address in zip(types, values[:first], strict=True)
        ]
        self.body(OuterLoopLanes(code, lanes, mask), *places, *values[first:])


def columns(
    element: str,
    extent: int,
    body: Body,
    processor: Processor | None = None,
    *,
    numbers: int = 0,
    at_once: int = AT_ONCE,
    memory: Sequence[str] = (),
):
    """
    A function of one tuple, the address of the first column in each buffer and what all
    columns share (so many `numbers`, some of them addresses), that has `extent` columns
    do what `body` says, `at_once` vectors of the `processor` at a time, by default of
    the one that compiles. `memory` says what is in each buffer, if it is something else
    in some: `f16` or `bf16`, or `i64`, which are places, and only stored.
    """
    made = _Columns(
        element, extent, body, numbers, at_once, memory, processor or processor_here()
    )

    @intrinsic
    def call(_typing, addresses):
        def generate(context, builder, signature, args):
            made.emit(Code(builder, element), cgutils.unpack_tuple(builder, args[0]))
            return context.get_dummy_value()

        return types.void(addresses), generate

    return call
