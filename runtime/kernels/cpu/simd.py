"""
The emitter of SIMD code: loads, stores and arithmetic on vectors, as LLVM IR.

`Code` emits loads, stores and products at addresses; epilogues are functions on
`Lanes`.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownLambdaType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportReturnType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from llvmlite import ir
from numba.core import cgutils

from penstock.runtime.kernels.math.f32 import Floats
from penstock.runtime.kernels.math.registry import own_function

ELEMENTS = {
    "f32": (ir.FloatType(), 4),
    "f64": (ir.DoubleType(), 8),
    "i8": (ir.IntType(8), 1),
    "i16": (ir.IntType(16), 2),
    "i32": (ir.IntType(32), 4),
    "i64": (ir.IntType(64), 8),
}
"""The type of an element in LLVM code, and its bytes."""


class BrainFloatType(ir.Type):
    """The type of `bf16` in LLVM, of which llvmlite has none."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrainFloatType)

    def __hash__(self) -> int:
        return hash(BrainFloatType)


BRAIN_FLOAT = BrainFloatType()

WORD, BIT, BYTE = ir.IntType(64), ir.IntType(1), ir.IntType(8)
INDEX = ir.IntType(32)

LlvmValue: TypeAlias = ir.Value


def word(value: int) -> ir.Constant:
    """A constant of 64 bits."""
    return ir.Constant(WORD, value)


################################################################################
# Numbers                                                                      #
################################################################################


@dataclass(frozen=True)
class Argument:
    """
    A number that each call of a function gives, the one at this place among its
    numbers: in the facts that the function is made with, where others are in the code.
    """

    place: int


class Number:
    """A number that is known at run time; sums and products are emitted as code."""

    def __init__(self, builder: ir.IRBuilder, value: LlvmValue):
        self._builder, self.value = builder, value

    def __add__(self, other: Amount) -> Number:
        return self._made(self._builder.add, other) if other != 0 else self

    def __sub__(self, other: Amount) -> Number:
        return self._made(self._builder.sub, other) if other != 0 else self

    def __mul__(self, other: Amount) -> Amount:
        if other == 0:
            return 0
        return self._made(self._builder.mul, other) if other != 1 else self

    __radd__, __rmul__ = __add__, __mul__

    def _made(self, emit: Callable[..., LlvmValue], other: Amount) -> Number:
        return Number(self._builder, emit(self.value, as_word(other)))


Amount: TypeAlias = int | Number
"""A number in the code, or one that is known at run time."""

Facts = TypeVar("Facts")


def arguments_in(facts: object) -> int:
    """The count of numbers that calls give to a function made with these facts."""
    if isinstance(facts, Argument):
        return facts.place + 1
    return max((arguments_in(each) for each in _parts_of(facts)), default=0)


def given(facts: Facts, builder: ir.IRBuilder, numbers: Sequence[LlvmValue]) -> Facts:
    """Facts with the numbers of a call in place of arguments."""
    made: Any = facts
    if isinstance(facts, Argument):
        made = Number(builder, numbers[facts.place])
    elif isinstance(facts, tuple | list):
        made = type(facts)(given(each, builder, numbers) for each in facts)
    elif is_dataclass(facts) and not isinstance(facts, type):
        made = replace(
            facts,
            **{
                field.name: given(getattr(facts, field.name), builder, numbers)
                for field in fields(facts)
            },
        )
    return made


def _parts_of(facts: object) -> Sequence[object]:
    if isinstance(facts, tuple | list):
        return facts
    if is_dataclass(facts) and not isinstance(facts, type):
        return [getattr(facts, field.name) for field in fields(facts)]
    return ()


@lru_cache(maxsize=4096)
def integers(type: ir.IntType, numbers: tuple[int, ...]) -> ir.Constant:
    """
    A vector of integers. The same ones, as masks of shuffles are, stand in most
    kernels, and to write their text took a tenth of the time of lowering one.
    """
    return ir.Constant(ir.VectorType(type, len(numbers)), [*numbers])


def as_word(value: Amount | LlvmValue) -> LlvmValue:
    """A number as 64 bits."""
    if isinstance(value, Number):
        return value.value
    return word(value) if isinstance(value, int) else value


def down_to(builder: ir.IRBuilder, count: LlvmValue, step: int) -> LlvmValue:
    """A number from 0 on, rounded down to a multiple of a power of two."""
    return builder.and_(count, word(-step))


def internal_function(
    module: ir.Module, name: str, words: int
) -> tuple[ir.Function, ir.IRBuilder]:
    """
    A new function of so many words that only this module calls, not inlined so that its
    registers are its own, and what emits its code.
    """
    type = ir.FunctionType(ir.VoidType(), [WORD] * words)
    function = ir.Function(module, type, module.get_unique_name(name))
    return function, begun(function)


def begun(function: ir.Function) -> ir.IRBuilder:
    """The IR builder at the entry of a function, which becomes internal."""
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return ir.IRBuilder(function.append_basic_block("entry"))


class Code:
    """Emits loads, stores and products of vectors of one element type."""

    def __init__(self, builder: ir.IRBuilder, element: str):
        self.builder, self.element = builder, element
        self.scalar, self.size = ELEMENTS[element]
        self.is_integer = isinstance(self.scalar, ir.IntType)

    def vector(self, lanes: int) -> ir.VectorType:
        """The type of a vector of this many lanes."""
        return ir.VectorType(self.scalar, lanes)

    def place(self, address: LlvmValue, offset: Amount) -> LlvmValue:
        """An address some elements further on."""
        if offset == 0:
            return address
        return self.builder.add(address, as_word(offset * self.size))

    def opaque(self, value: LlvmValue) -> LlvmValue:
        """
        A word of which compilers know nothing, so that it stays in a register: that of
        an address which follows from another one would be added up in each turn.
        """
        type = ir.FunctionType(WORD, [WORD])
        return self.builder.asm(type, "", "=r,0", [value], False)

    def advanced(
        self, address: LlvmValue, count: LlvmValue, stride: Amount | LlvmValue
    ) -> LlvmValue:
        """An address `count` steps of `stride` elements further on."""
        if isinstance(stride, int | Number):
            step = self.builder.mul(count, as_word(stride * self.size))
        else:
            elements = self.builder.mul(count, stride)
            step = self.builder.mul(elements, word(self.size))
        return self.builder.add(address, step)

    def _pointer(self, address: LlvmValue, offset: Amount, type: ir.Type) -> LlvmValue:
        return self.builder.inttoptr(self.place(address, offset), type.as_pointer())

    def load_scalar(self, address: LlvmValue, offset: Amount) -> LlvmValue:
        """The element at an offset from an address."""
        return self.builder.load(
            self._pointer(address, offset, self.scalar), align=self.size
        )

    def load(
        self,
        address: LlvmValue,
        offset: Amount,
        lanes: int,
        mask: LlvmValue | None = None,
    ) -> LlvmValue:
        """Elements that follow each other; 0 where a mask is not set."""
        type = self.vector(lanes)
        pointer = self._pointer(address, offset, type)
        if mask is None:
            return self.builder.load(pointer, align=self.size)
        parts = [type.as_pointer(), INDEX, mask.type, type]
        function = self._function(f"masked.load.{self._suffix(lanes)}.p0", type, parts)
        align = ir.Constant(INDEX, self.size)
        return self.builder.call(function, [pointer, align, mask, self.zero(lanes)])

    def gather(
        self,
        address: LlvmValue,
        offset: Amount,
        lanes: int,
        step: Amount,
        mask: LlvmValue,
    ) -> LlvmValue:
        """Elements that are `step` apart; 0 where a mask is not set."""
        builder, type = self.builder, self.vector(lanes)
        numbers = integers(WORD, (*range(lanes),))
        words = builder.mul(numbers, self.splat(as_word(step * self.size), lanes))
        places = builder.add(self.splat(self.place(address, offset), lanes), words)
        pointers = ir.VectorType(self.scalar.as_pointer(), lanes)
        places = builder.inttoptr(places, pointers)
        parts = [pointers, INDEX, mask.type, type]
        name = f"masked.gather.{self._suffix(lanes)}.v{lanes}p0"
        align = ir.Constant(INDEX, self.size)
        arguments = [places, align, mask, self.zero(lanes)]
        return builder.call(self._function(name, type, parts), arguments)

    def store(
        self,
        value: LlvmValue,
        address: LlvmValue,
        offset: Amount,
        mask: LlvmValue | None = None,
    ) -> None:
        """Write elements that follow each other, those whose bit in a mask is set."""
        type = value.type
        pointer = self._pointer(address, offset, type)
        if mask is None:
            self.builder.store(value, pointer, align=self.size)
            return
        parts = [type, type.as_pointer(), INDEX, mask.type]
        suffix = self._suffix(type.count)
        function = self._function(f"masked.store.{suffix}.p0", ir.VoidType(), parts)
        align = ir.Constant(INDEX, self.size)
        self.builder.call(function, [value, pointer, align, mask])

    def stream(self, value: LlvmValue, address: LlvmValue, alignment: int) -> None:
        """Write elements to memory, past the caches, from an aligned address on."""
        pointer = self._pointer(address, 0, value.type)
        store = self.builder.store(value, pointer, align=alignment)
        one = ir.Constant(INDEX, 1)
        store.set_metadata("nontemporal", self.builder.module.add_metadata([one]))

    def store_scalar(
        self, value: LlvmValue, address: LlvmValue, offset: Amount
    ) -> None:
        """Write the element at an offset from an address."""
        pointer = self._pointer(address, offset, self.scalar)
        self.builder.store(value, pointer, align=self.size)

    def lanes_below(self, lanes: int, count: LlvmValue) -> LlvmValue:
        """The mask of the first lanes, whose number is known at run time."""
        numbers = integers(WORD, (*range(lanes),))
        return self.builder.icmp_signed("<", numbers, self.splat(count, lanes))

    def zero(self, lanes: int) -> LlvmValue:
        """A vector of zeros."""
        return ir.Constant(self.vector(lanes), None)

    def splat(self, scalar: LlvmValue, lanes: int) -> LlvmValue:
        """A vector with one scalar in every lane."""
        nothing = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
        one = self.builder.insert_element(nothing, scalar, ir.Constant(INDEX, 0))
        return self.shuffled(one, nothing, [0] * lanes)

    def shuffled(self, a: LlvmValue, b: LlvmValue, lanes: Sequence[int]) -> LlvmValue:
        """A vector of lanes of two vectors, those of the second counted on."""
        return self.builder.shuffle_vector(a, b, integers(INDEX, tuple(lanes)))

    def multiply_add(self, a: LlvmValue, b: LlvmValue, total: LlvmValue) -> LlvmValue:
        """`a * b + total`, rounded once where the processor can; integers are cut."""
        if self.is_integer:
            return self.builder.add(self.builder.mul(a, b), total)
        return self.call("fmuladd", a, b, total)

    def added(self, a: LlvmValue, b: LlvmValue) -> LlvmValue:
        """The sum of two vectors."""
        return self.builder.add(a, b) if self.is_integer else self.builder.fadd(a, b)

    def vector_of(self, scalars: Sequence[LlvmValue]) -> LlvmValue:
        """A vector of these scalars."""
        vector: LlvmValue = ir.Constant(self.vector(len(scalars)), ir.Undefined)
        for lane, scalar in enumerate(scalars):
            place = ir.Constant(INDEX, lane)
            vector = self.builder.insert_element(vector, scalar, place)
        return vector

    def prefetch(self, address: LlvmValue, offset: Amount, near: int = 3) -> None:
        """Fetch the line of an element into the nearest cache (3), or the next (2)."""
        type = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), *[INDEX] * 3])
        name = "llvm.prefetch.p0"
        function = cgutils.get_or_insert_function(self.builder.module, type, name)
        facts = [ir.Constant(INDEX, fact) for fact in (0, near, 1)]
        self.builder.call(function, [self._pointer(address, offset, BYTE), *facts])

    def loop(
        self,
        end: LlvmValue,
        step: int,
        state: Sequence[LlvmValue],
        body: Callable[[LlvmValue, Sequence[LlvmValue]], Sequence[LlvmValue]],
    ) -> Sequence[LlvmValue]:
        """
        Emit a loop from 0 by steps while it is below an end. `body` is given where it
        is and the values carried so far, and returns the next ones; the last ones are
        returned.
        """
        builder = self.builder
        before = builder.block
        inside, after = (builder.append_basic_block(n) for n in ("loop", "after"))
        starts = [word(0), *state]
        builder.cbranch(builder.icmp_signed("<", word(0), end), inside, after)
        builder.position_at_end(inside)
        values = [builder.phi(value.type) for value in starts]
        new = body(values[0], values[1:])
        ends = [builder.add(values[0], word(step)), *new]
        last = builder.block
        builder.cbranch(builder.icmp_signed("<", ends[0], end), inside, after)
        builder.position_at_end(after)
        results = [builder.phi(value.type) for value in starts]
        for value, result, first, next in zip(
            values, results, starts, ends, strict=True
        ):
            for phi in (value, result):
                phi.add_incoming(first, before)
                phi.add_incoming(next, last)
        return results[1:]

    def sum(self, value: LlvmValue) -> LlvmValue:
        """The sum of all lanes, in any order."""
        type = value.type
        suffix = self._suffix(type.count)
        if self.is_integer:
            name = f"vector.reduce.add.{suffix}"
            return self.builder.call(self._function(name, self.scalar, [type]), [value])
        parts = [self.scalar, type]
        function = self._function(f"vector.reduce.fadd.{suffix}", self.scalar, parts)
        start = ir.Constant(self.scalar, -0.0)
        return self.builder.call(function, [start, value], fastmath=("reassoc",))

    def call(self, name: str, *values: LlvmValue) -> LlvmValue:
        """LLVM's function of this name on vectors of one type."""
        type = values[0].type
        parts = [type] * len(values)
        function = self._function(f"{name}.{self._suffix(type.count)}", type, parts)
        return self.builder.call(function, values)

    def _suffix(self, lanes: int) -> str:
        return f"v{lanes}{self.element}"

    def _function(
        self, name: str, result: ir.Type, parts: Sequence[ir.Type]
    ) -> LlvmValue:
        type = ir.FunctionType(result, parts)
        return cgutils.get_or_insert_function(self.builder.module, type, f"llvm.{name}")


class Vector:
    """Numbers, or what comparing them gives, one a lane."""

    def __init__(self, lanes: Lanes, value: LlvmValue):
        self._lanes, self.value = lanes, value

    def __add__(self, other: Vector) -> Vector:
        builder = self._lanes.builder
        return self._computed(builder.add, builder.fadd, other)

    def __sub__(self, other: Vector) -> Vector:
        builder = self._lanes.builder
        return self._computed(builder.sub, builder.fsub, other)

    def __mul__(self, other: Vector) -> Vector:
        builder = self._lanes.builder
        return self._computed(builder.mul, builder.fmul, other)

    def _computed(
        self,
        of_integers: Callable[[LlvmValue, LlvmValue], LlvmValue],
        of_floats: Callable[[LlvmValue, LlvmValue], LlvmValue],
        other: Vector,
    ) -> Vector:
        emit = of_integers if self._is_integer else of_floats
        return self._lanes.made(emit(self.value, other.value))

    @property
    def _is_integer(self) -> bool:
        return isinstance(self.value.type.element, ir.IntType)

    def __truediv__(self, other: Vector) -> Vector:
        return self._lanes.made(self._lanes.builder.fdiv(self.value, other.value))

    def __neg__(self) -> Vector:
        return self._lanes.made(self._lanes.builder.fneg(self.value))

    def __lt__(self, other: Vector) -> Vector:
        return self._compared("<", other)

    def __le__(self, other: Vector) -> Vector:
        return self._compared("<=", other)

    def __gt__(self, other: Vector) -> Vector:
        return self._compared(">", other)

    def __ge__(self, other: Vector) -> Vector:
        return self._compared(">=", other)

    def _compared(self, relation: str, other: Vector) -> Vector:
        builder = self._lanes.builder
        compare = builder.icmp_signed if self._is_integer else builder.fcmp_ordered
        return self._lanes.made(compare(relation, self.value, other.value))


def _llvm(name: str) -> Callable[..., Vector]:
    """The function `llvm.<name>` on vectors."""

    def function(self: Lanes, *values: Vector) -> Vector:
        return self.call(name, *values)

    function.__doc__ = f"`llvm.{name}` of each lane."
    return function


def _own(name: str) -> Callable[..., Vector]:
    """Our function for types we have one for, else the C library's, lane by lane."""

    def function(self: Lanes, *values: Vector) -> Vector:
        ours = own_function(name, values[0].value.type)
        if ours is None:
            return self.each(name, *values)
        return self.made(ours(*(Floats(self.builder, v.value) for v in values)).value)

    function.__doc__ = f"`{name}` of each lane."
    return function


class Lanes:
    """
    The operations of an epilogue: on vectors of `count` elements.

    Its methods have the names and meanings of the functions in
    `penstock.runtime.kernels.cpu.support`.
    """

    def __init__(self, code: Code, count: int):
        self._code, self._count = code, count
        self.builder = code.builder

    def made(self, value: LlvmValue) -> Vector:
        """A vector of a value in LLVM code."""
        return Vector(self, value)

    def number(self, value: float) -> Vector:
        """One number in every lane."""
        type = self._code.vector(self._count)
        return self.made(ir.Constant(type, [float(value)] * self._count))

    f32 = number
    f64 = number

    def _integer(self, value: Vector | int, bits: int) -> Vector:
        """An integer in every lane; vectors are as they are."""
        if isinstance(value, Vector):
            return value
        type = ir.VectorType(ir.IntType(bits), self._count)
        return self.made(ir.Constant(type, [value] * self._count))

    def i8(self, value: Vector | int) -> Vector:
        """An integer of 8 bits."""
        return self._integer(value, 8)

    def i16(self, value: Vector | int) -> Vector:
        """An integer of 16 bits."""
        return self._integer(value, 16)

    def i32(self, value: Vector | int) -> Vector:
        """An integer of 32 bits."""
        return self._integer(value, 32)

    def i64(self, value: Vector | int | LlvmValue) -> Vector:
        """An integer of 64 bits, which may be known at run time only."""
        if isinstance(value, Vector | int):
            return self._integer(value, 64)
        return self.made(self._code.splat(value, self._count))

    def cast(self, name: str, value: Vector, to: str) -> Vector:
        """Numbers of another type, by the op of this name in LLVM."""
        type = ir.VectorType(ELEMENTS[to][0], self._count)
        return self.made(getattr(self.builder, name)(value.value, type))

    def select(self, condition: Vector, a: Vector, b: Vector) -> Vector:
        """`a` where the condition holds, else `b`."""
        return self.made(self.builder.select(condition.value, a.value, b.value))

    maximum, minimum = _llvm("maximum"), _llvm("minimum")
    maxnum, minnum = _llvm("maxnum"), _llvm("minnum")
    fabs, copysign = _llvm("fabs"), _llvm("copysign")
    floor, ceil, trunc = _llvm("floor"), _llvm("ceil"), _llvm("trunc")
    round_even, round_away = _llvm("roundeven"), _llvm("round")
    sqrt, fma = _llvm("sqrt"), _llvm("fma")

    exp, exp2, expm1 = _own("exp"), _own("exp2"), _own("expm1")
    log, log2 = _own("log"), _own("log2")
    log10, log1p = _own("log10"), _own("log1p")
    sin, cos, tan = _own("sin"), _own("cos"), _own("tan")
    asin, acos, atan = _own("asin"), _own("acos"), _own("atan")
    sinh, cosh, tanh = _own("sinh"), _own("cosh"), _own("tanh")
    asinh, acosh, atanh = _own("asinh"), _own("acosh"), _own("atanh")
    erf, cbrt = _own("erf"), _own("cbrt")
    pow, atan2, fmod = _own("pow"), _own("atan2"), _own("fmod")

    def call(self, name: str, *values: Vector) -> Vector:
        """LLVM's function of this name."""
        return self.made(self._code.call(name, *(value.value for value in values)))

    def each(self, name: str, *values: Vector) -> Vector:
        """A function of the C library, called for one lane after the other."""
        type = self._code.vector(self._count)
        full = f"penstock.{name}.v{self._count}{self._code.element}"
        signature = ir.FunctionType(type, [type] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, signature, full)
        if function.is_declaration:
            self._define(function, name)
        return self.made(self.builder.call(function, [value.value for value in values]))

    def _define(self, function: ir.Function, name: str) -> None:
        """Give a function of vectors a loop over their lanes."""
        builder = begun(function)
        code = Code(builder, self._code.element)
        suffix = "f" if code.element == "f32" else ""
        parts = [code.scalar] * len(function.args)
        scalar = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(code.scalar, parts), name + suffix
        )

        def lane(at: LlvmValue, so_far: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
            arguments = [builder.extract_element(arg, at) for arg in function.args]
            result = builder.call(scalar, arguments)
            return [builder.insert_element(so_far[0], result, at)]

        (result,) = code.loop(word(self._count), 1, [code.zero(self._count)], lane)
        builder.ret(result)
