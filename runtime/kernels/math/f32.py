"""
Elementary functions of `f32` as straight LLVM code: no calls, no tables, and no
branches but of sines, cosines and remainders, so that loops around them vectorise. Each
takes numbers of type `float`, or vectors of them, and works alike on both.

The largest errors, in units in the last place (ulp) of the result, over all floats
whose result is one, denormal ones included:

| function | ulp | function | ulp | function | ulp |
|---|---|---|---|---|---|
| `exp` | 1.1 | `log` | 0.9 | `tanh` | 1.2 |
| `exp2` | 1.0 | `log2` | 1.1 | `erf` | 1.2 |
| `expm1` | 1.7 | `log10` | 1.0 | `pow` | 0.51 |
| `cbrt` | 0.51 | `log1p` | 0.51 | `fmod` | 0 |

Infinities, zeros of both signs and NaN give what the C library gives.
"""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false, reportReturnType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import pack, unpack
from typing import TypeAlias

from llvmlite import ir
from numba.core import cgutils

from penstock.runtime.kernels.cpu_features import processor_here

LlvmValue: TypeAlias = ir.Value

FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()

MAGIC = 12582912.0
"""1.5 * 2**23: a float near it has steps of 1, and the whole number in its low bits."""
LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723e-06
"""ln 2 in two parts; the first has so few bits that its multiples are exact."""

EXP = (
    0.0013814597623422742,
    0.008368716575205326,
    0.04166838899254799,
    0.1666652113199234,
    0.4999999403953552,
)
EXP2 = (
    0.00015353340131696314,
    0.0013398900628089905,
    0.009618437848985195,
    0.055503323674201965,
    0.24022647738456726,
    0.6931471824645996,
)
EXPM1 = (
    0.0013882520142942667,
    0.008366520516574383,
    0.04166720062494278,
    0.1666654348373413,
    0.4999999701976776,
)
LOG = (
    -0.07634460180997849,
    0.12761563062667847,
    -0.13160189986228943,
    0.14201760292053223,
    -0.16623356938362122,
    0.20001226663589478,
    -0.2500081956386566,
    0.3333333134651184,
)
TANH = (
    -0.00498987339842594,
    0.019926933300165428,
    -0.053496470127210344,
    0.13328194407601934,
    -0.33333148839281135,
)
ERF_NEAR = (
    8.83625543792732e-05,
    -0.0008244290947914124,
    0.005209298804402351,
    -0.026862481608986855,
    0.11283747106790543,
    -0.37612637877464294,
    0.12837916612625122,
)
ERF_FAR = (
    -1.895149216579739e-05,
    0.0004103203536942601,
    -0.004057416692376137,
    0.024829450994729996,
    -0.107846699655056,
    -0.6337265968322754,
    -1.1293342113494873,
    0.00013861677143722773,
)
WIDE_LOG = (
    0.08410913577463061,
    0.0906174141058742,
    0.11111688189529433,
    0.14285708533873323,
    0.20000000026313575,
    0.3333333333329328,
)
WIDE_EXP2 = (
    1.0148328279322334e-07,
    1.325835256052319e-06,
    1.5252990223139819e-05,
    0.0001540344081278739,
    0.0013333557624840013,
    0.00961812918125228,
    0.05550410866842154,
    0.2402265069572252,
    0.693147180559885,
)
"""Polynomials, the highest power first, fitted to the least relative error."""


def has_scaling() -> bool:
    """Whether the processor that compiles scales by powers of two at once."""
    return processor_here().has_scaling


################################################################################
# Numbers                                                                      #
################################################################################


class Floats:
    """A number or vector of 32 or 64 bits in LLVM code, with its arithmetic."""

    def __init__(self, builder: ir.IRBuilder, value: LlvmValue):
        self.builder, self.value = builder, value

    def made(self, value: LlvmValue) -> Floats:
        """A value made by the same builder."""
        return Floats(self.builder, value)

    def number(self, value: float) -> Floats:
        """A number of this type, the same one in all lanes."""
        return self.made(splat_constant(self.value.type, value))

    def _of(self, other: Floats | float) -> LlvmValue:
        return (other if isinstance(other, Floats) else self.number(other)).value

    def __add__(self, other: Floats | float) -> Floats:
        return self.made(self.builder.fadd(self.value, self._of(other)))

    def __sub__(self, other: Floats | float) -> Floats:
        return self.made(self.builder.fsub(self.value, self._of(other)))

    def __mul__(self, other: Floats | float) -> Floats:
        return self.made(self.builder.fmul(self.value, self._of(other)))

    def __truediv__(self, other: Floats | float) -> Floats:
        return self.made(self.builder.fdiv(self.value, self._of(other)))

    def __neg__(self) -> Floats:
        return self.made(self.builder.fneg(self.value))

    def compared(self, relation: str, other: Floats | float) -> LlvmValue:
        """Whether a relation holds, which no NaN stands in."""
        return self.builder.fcmp_ordered(relation, self.value, self._of(other))

    def at_least(self, least: float) -> Floats:
        """The larger of it and a number; NaN stays."""
        return self.where(self.compared("<", least), least)

    def at_most(self, most: float) -> Floats:
        """The smaller of it and a number; NaN stays."""
        return self.where(self.compared(">", most), most)

    def where(self, condition: LlvmValue, other: Floats | float) -> Floats:
        """Another number where a condition holds."""
        return self.made(self.builder.select(condition, self._of(other), self.value))

    def times_plus(self, factor: Floats | float, addend: Floats | float) -> Floats:
        """`self * factor + addend`, rounded once."""
        return self._call("fma", self._of(factor), self._of(addend))

    def size(self) -> Floats:
        """Without its sign."""
        return self._call("fabs")

    def with_sign_of(self, other: Floats) -> Floats:
        """Its size with another's sign."""
        return self._call("copysign", other.value)

    def root(self) -> Floats:
        """Its square root."""
        return self._call("sqrt")

    def cut(self) -> Floats:
        """The whole number next to it on the way to zero."""
        return self._call("trunc")

    def whole(self) -> Floats:
        """The nearest whole number, the even one if there are two."""
        return self._call("rint")

    def wide(self) -> Floats:
        """The same number with 64 bits."""
        return self.made(self.builder.fpext(self.value, like(self.value.type, DOUBLE)))

    def narrow(self) -> Floats:
        """The nearest number of 32 bits."""
        return self.made(self.builder.fptrunc(self.value, like(self.value.type, FLOAT)))

    def bits(self) -> LlvmValue:
        """Its bits, as an integer of its size."""
        return self.builder.bitcast(self.value, self._integer())

    def from_bits(self, bits: LlvmValue) -> Floats:
        """The number of this type that has these bits."""
        return self.made(self.builder.bitcast(bits, self.value.type))

    def whole_number(self, value: int) -> LlvmValue:
        """An integer of its size."""
        return splat_constant(self._integer(), value)

    def _integer(self) -> ir.Type:
        is_wide = scalar_of(self.value.type) == DOUBLE
        return like(self.value.type, ir.IntType(64 if is_wide else 32))

    def _call(self, name: str, *others: LlvmValue) -> Floats:
        values = (self.value, *others)
        return self.made(llvm_call(self.builder, name, self.value.type, values))


def all_or_any(
    condition: LlvmValue,
    x: Floats,
    usual: Callable[[], Floats],
    other: Callable[[], Floats],
) -> Floats:
    """
    A value like `x`: the usual one if a condition holds, of a vector for all lanes, or
    else another one, which is computed then only.
    """
    builder = x.builder
    if isinstance(condition.type, ir.VectorType):
        bits = ir.IntType(condition.type.count)
        every = ir.Constant(bits, -1)
        condition = builder.icmp_unsigned("==", builder.bitcast(condition, bits), every)
    found: list[tuple[Floats, ir.Block]] = []
    with builder.if_else(condition, likely=True) as branches:
        for branch, function in zip(branches, (usual, other), strict=True):
            with branch:
                found.append((function(), builder.block))
    result = builder.phi(x.value.type)
    for value, block in found:
        result.add_incoming(value.value, block)
    return x.made(result)


def scalar_of(type: ir.Type) -> ir.Type:
    """The type of a number or of a lane."""
    return type.element if isinstance(type, ir.VectorType) else type


def like(type: ir.Type, scalar: ir.Type) -> ir.Type:
    """As many of a type of numbers as another type has."""
    return (
        ir.VectorType(scalar, type.count) if isinstance(type, ir.VectorType) else scalar
    )


def splat_constant(type: ir.Type, value: float) -> ir.Constant:
    """A number of a type, the same one in all lanes."""
    if scalar_of(type) == FLOAT and math.isfinite(value):
        (value,) = unpack("f", pack("f", value))
    # A zero is equal to one of the other sign.
    return _same(type, value, math.copysign(1, value))


@lru_cache(maxsize=4096)
def _same(type: ir.Type, value: float, _sign: float) -> ir.Constant:
    """The constant, whose text is written once for all kernels that have it."""
    if isinstance(type, ir.VectorType):
        return ir.Constant(type, [value] * type.count)
    return ir.Constant(type, value)


def llvm_call(
    builder: ir.IRBuilder, name: str, result: ir.Type, values: Sequence[LlvmValue]
) -> LlvmValue:
    """A call of LLVM's function `name` whose first operand has the type it is for."""
    kind = {FLOAT: "f32", DOUBLE: "f64"}[scalar_of(result)]
    lanes = f"v{result.count}" if isinstance(result, ir.VectorType) else ""
    suffixes = [f"{lanes}{kind}"]
    if name == "ldexp":
        suffixes.append(f"{lanes}i32")
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(result, [value.type for value in values]),
        ".".join(("llvm", name, *suffixes)),
    )
    return builder.call(function, values)


def polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    """A polynomial, the highest power first."""
    total = x.number(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total.times_plus(x, coefficient)
    return total


def whole_part(x: Floats, factor: float) -> tuple[Floats, LlvmValue]:
    """The whole number nearest to `x * factor`, below 2**22, as float and integer."""
    shifted = x.times_plus(factor, MAGIC)
    integer = x.builder.sub(shifted.bits(), x.number(MAGIC).bits())
    return shifted - MAGIC, integer


def scaled(x: Floats, whole: Floats, integer: LlvmValue) -> Floats:
    """
    `x * 2**n`, rounded once, of a processor that has an instruction for it; `n` is
    given as a float and as an integer.
    """
    builder, type = x.builder, x.value.type
    is_wide = scalar_of(type) == DOUBLE
    lanes, name = (8, "pd") if is_wide else (16, "ps")
    count = type.count if isinstance(type, ir.VectorType) else 1
    if count % lanes:
        return x.made(llvm_call(builder, "ldexp", type, (x.value, integer)))
    # LLVM cuts no calls of instructions, and would convert the integer again.
    vector = ir.VectorType(type.element, lanes)
    word, mask = ir.IntType(32), ir.IntType(lanes)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector, vector, vector, mask, word]),
        f"llvm.x86.avx512.mask.scalef.{name}.512",
    )
    nothing = ir.Constant(vector, ir.Undefined)
    all_lanes, rounding = ir.Constant(mask, -1), ir.Constant(word, 4)
    result = ir.Constant(type, ir.Undefined)
    for start in range(0, count, lanes):
        part, power = (
            _lanes_of(builder, value, range(start, start + lanes))
            for value in (x.value, whole.value)
        )
        done = builder.call(function, [part, power, nothing, all_lanes, rounding])
        wide = _lanes_of(builder, done, [n % lanes for n in range(count)])
        places = [n + count * (start <= n < start + lanes) for n in range(count)]
        result = builder.shuffle_vector(
            result, wide, ir.Constant(ir.VectorType(word, count), places)
        )
    return x.made(result)


def _lanes_of(
    builder: ir.IRBuilder, value: LlvmValue, lanes: Sequence[int]
) -> LlvmValue:
    """A vector of lanes of a vector."""
    numbers = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
    return builder.shuffle_vector(value, value, numbers)


def _times_power(x: Floats, exponent: LlvmValue) -> Floats:
    """`x * 2**exponent`, rounded once; x is near 1, and the exponent in -160...129."""
    builder = x.builder
    half = builder.ashr(exponent, x.whole_number(1))
    for part in (half, builder.sub(exponent, half)):
        x = x * _power(x, part)
    return x


def _power(x: Floats, exponent: LlvmValue) -> Floats:
    """2 to the power of an integer from -126 to 127."""
    builder = x.builder
    biased = builder.add(exponent, x.whole_number(127))
    return x.from_bits(builder.shl(biased, x.whole_number(23)))


################################################################################
# Exponentials                                                                 #
################################################################################


def _exp_parts(x: Floats) -> tuple[Floats, Floats, LlvmValue]:
    """
    `p` and `n` such that e**x is `p * 2**n`, where p is near 1, and `n` as an integer,
    too.
    """
    n, integer = whole_part(x, LOG2_E)
    rest = n.times_plus(-LN2_LOW, n.times_plus(-LN2_HIGH, x))
    q = polynomial(rest, EXP)
    return (q * rest).times_plus(rest, rest) + 1.0, n, integer


def exp(x: Floats, scaling: bool | None = None) -> Floats:
    """e to the power of x."""
    if has_scaling() if scaling is None else scaling:
        return scaled(*_exp_parts(x.at_least(-104.0).at_most(89.0)))
    # A product that rounds to 0 takes many times as long as others.
    is_zero = x.compared("<", -104.0)
    p, _, n = _exp_parts(x.where(is_zero, 0.0).at_most(89.0))
    return _times_power(p, n).where(is_zero, 0.0)


def share(x: Floats) -> Floats:
    """
    e to the power of x up to 88, but 0 for x below -87: numbers that are not normal, as
    where a mask adds -inf, take many times as long.
    """
    p, _, n = _exp_parts(x)
    return (p * _power(x, n)).where(x.compared("<", -87.0), 0.0)


def _exp_near(x: Floats) -> Floats:
    """e to the power of x from -87 to 88."""
    p, _, n = _exp_parts(x)
    return _near_power(p, n)


def _near_power(p: Floats, exponent: LlvmValue) -> Floats:
    """`p * 2**exponent`, where both and the result are numbers that are normal."""
    shifted = p.builder.shl(exponent, p.whole_number(23))
    return p.from_bits(p.builder.add(p.bits(), shifted))


def exp2(x: Floats, scaling: bool | None = None) -> Floats:
    """2 to the power of x."""
    x = x.at_least(-151.0).at_most(129.0)
    n, integer = whole_part(x, 1.0)
    rest = x - n
    p = polynomial(rest, EXP2).times_plus(rest, 1.0)
    if has_scaling() if scaling is None else scaling:
        return scaled(p, n, integer)
    return _times_power(p, integer)


def expm1(x: Floats) -> Floats:
    """e to the power of x, less 1."""
    inside = x.at_least(-18.0).at_most(89.0)
    n, integer = whole_part(inside, LOG2_E)
    rest = n.times_plus(-LN2_LOW, n.times_plus(-LN2_HIGH, inside))
    p = (polynomial(rest, EXPM1) * rest).times_plus(rest, rest)
    builder = x.builder
    half = _power(x, builder.sub(integer, x.whole_number(1)))
    # Half of the power is a float where the power is not.
    result = half.times_plus(p, half - 0.5) * 2.0
    # Its own sign for a zero, and no step in what is too small for one.
    return result.where(x.size().compared("<", 2.0**-26), x)


################################################################################
# Logarithms                                                                   #
################################################################################


def _log_parts(x: Floats) -> tuple[Floats, Floats]:
    """`m - 1` and `n` such that x is `m * 2**n`, with m from sqrt(1/2) to sqrt(2)."""
    builder = x.builder
    is_small = x.compared("<", 2.0**-126)
    scaled = x.where(is_small, x * 2.0**23)
    root = x.whole_number(0x3F3504F3)
    distance = builder.sub(scaled.bits(), root)
    exponent = builder.ashr(distance, x.whole_number(23))
    fraction = builder.and_(distance, x.whole_number(0x7FFFFF))
    m = x.from_bits(builder.add(fraction, root))
    n = x.made(builder.sitofp(exponent, x.value.type))
    return m - 1.0, n.where(is_small, n - 23.0)


def log_ends(x: Floats, result: Floats) -> Floats:
    """The logarithm of x, where it is known for positive finite x."""
    result = result.where(x.compared("==", math.inf), math.inf)
    result = result.where(below(x, 0.0), math.nan)
    return result.where(x.compared("==", 0.0), -math.inf)


def _log_of_fraction(f: Floats) -> tuple[Floats, Floats]:
    """The logarithm of 1 + f in two parts, of which the second is smaller."""
    square = f * f
    p = polynomial(f, LOG) * (square * f)
    return f, square.times_plus(-0.5, p)


def log(x: Floats) -> Floats:
    """The natural logarithm of x."""
    f, n = _log_parts(x)
    high, low = _log_of_fraction(f)
    result = n.times_plus(LN2_HIGH, n.times_plus(LN2_LOW, low) + high)
    return log_ends(x, result)


def log2(x: Floats) -> Floats:
    """The logarithm of x to the base 2."""
    f, n = _log_parts(x)
    high, low = _log_of_fraction(f)
    rest = high.times_plus(LOG2_E_LOW, (low * LOG2_E))
    result = high.times_plus(LOG2_E_HIGH, rest)
    return log_ends(x, n + result)


def log10(x: Floats) -> Floats:
    """The logarithm of x to the base 10."""
    f, n = _log_parts(x)
    high, low = _log_of_fraction(f)
    rest = high.times_plus(LOG10_E_LOW, (low * LOG10_E))
    rest = n.times_plus(LOG10_2_LOW, rest)
    result = n.times_plus(LOG10_2_HIGH, high.times_plus(LOG10_E_HIGH, rest))
    return log_ends(x, result)


def _split(value: float) -> tuple[float, float]:
    """A number as a float of few bits, and the rest."""
    (bits,) = unpack("I", pack("f", value))
    (high,) = unpack("f", pack("I", bits & 0xFFFFF000))
    return high, value - high


LOG10_E, LOG10_2 = math.log10(math.e), math.log10(2.0)
LOG2_E_HIGH, LOG2_E_LOW = _split(LOG2_E)
LOG10_E_HIGH, LOG10_E_LOW = _split(LOG10_E)
LOG10_2_HIGH, LOG10_2_LOW = _split(LOG10_2)


def _wide_log_parts(x: Floats) -> tuple[Floats, Floats]:
    """As `_log_parts`, of 64 bits."""
    builder = x.builder
    root = x.whole_number(0x3FE6A09E667F3BCD)
    distance = builder.sub(x.bits(), root)
    exponent = builder.ashr(distance, x.whole_number(52))
    fraction = builder.and_(distance, x.whole_number((1 << 52) - 1))
    m = x.from_bits(builder.add(fraction, root))
    # Only AVX-512 converts 64-bit integers, and the exponent fits into 32 bits.
    narrow = builder.trunc(exponent, like(x.value.type, ir.IntType(32)))
    return m - 1.0, x.made(builder.sitofp(narrow, x.value.type))


def wide_log(f: Floats) -> Floats:
    """The logarithm of 1 + f, of 64 bits."""
    s = f / (f + 2.0)
    square = s * s
    return (s + s).times_plus(polynomial(square, WIDE_LOG) * square, s + s)


def wide_log1p(x: Floats) -> Floats:
    """The logarithm of 1 + x for finite positive 1 + x, of 64 bits."""
    f, n = _wide_log_parts(x + 1.0)
    # The sum has lost what the least of x are.
    f = f.where(n.compared("==", 0.0), x)
    return n.times_plus(math.log(2.0), wide_log(f))


def log1p(x: Floats) -> Floats:
    """The natural logarithm of 1 + x."""
    result = wide_log1p(x.wide()).narrow()
    result = result.where(x.compared("==", math.inf), math.inf)
    result = result.where(below(x, -1.0), math.nan)
    result = result.where(x.compared("==", -1.0), -math.inf)
    return result.where(x.size().compared("<", 2.0**-26), x)


################################################################################
# Remainders                                                                   #
################################################################################


def fmod(x: Floats, y: Floats) -> Floats:
    """The rest of x by y, with a quotient that is rounded toward zero: exact."""
    size, divisor = x.size().wide(), y.size().wide()
    # The quotient of what is not finite is no number, and so is the rest.
    is_short = x.builder.not_((size / divisor).compared(">=", 2.0**MOST_BITS))
    rest = all_or_any(
        is_short,
        size,
        lambda: _rest(size, divisor),
        lambda: _long_rest(size, divisor),
    )
    rest = rest.where(divisor.compared("==", math.inf), size)
    no_number = x.builder.fcmp_unordered("uno", x.value, y.value)
    no_number = x.builder.or_(no_number, size.compared("==", math.inf))
    return rest.where(no_number, math.nan).narrow().with_sign_of(x)


MOST_BITS, MOST_POWER = 48, 240
"""
The bits of a quotient whose rest is found at once, and those of the largest quotient of
two floats, less these.
"""


def _rest(x: Floats, y: Floats) -> Floats:
    """
    The rest of x by y, of 64 bits that hold 32: both are multiples of the last place of
    one of them, and so is the rest, which has no more bits than they.
    """
    whole = (x / y).cut()
    rest = (-whole).times_plus(y, x)
    # The quotient may have been rounded to the next whole number.
    rest = rest.where(rest.compared("<", 0.0), rest + y)
    return rest.where(rest.compared(">=", y), rest - y)


def _long_rest(x: Floats, y: Floats) -> Floats:
    """The rest of x by y: by multiples of y, each of which is one of the next."""
    for power in range(MOST_POWER, -1, -MOST_BITS):
        x = _rest(x, y * 2.0**power)
    return x


################################################################################
# Powers                                                                       #
################################################################################


def pow(x: Floats, y: Floats) -> Floats:
    """x to the power of y."""
    builder = x.builder
    size = x.size()
    f, n = _wide_log_parts(size.wide())
    logarithm = wide_log(f).times_plus(LOG2_E, n)
    is_zero, is_infinite = size.compared("==", 0.0), size.compared("==", math.inf)
    logarithm = logarithm.where(is_zero, -math.inf).where(is_infinite, math.inf)
    exponent = (logarithm * y.wide()).at_least(-200.0).at_most(200.0)
    result = wide_exp2(exponent).narrow()
    is_whole = y.whole().compared("==", y)
    half = y * 0.5
    is_odd = builder.and_(is_whole, half.whole().compared("!=", half))
    is_negative = x.number(1.0).with_sign_of(x).compared("<", 0.0)
    result = result.where(builder.and_(is_negative, is_odd), -result)
    finite_negative = builder.and_(x.compared("<", 0.0), size.compared("<", math.inf))
    has_root = builder.or_(is_whole, y.size().compared("==", math.inf))
    no_number = builder.and_(finite_negative, builder.not_(has_root))
    any_nan = builder.fcmp_unordered("uno", x.value, y.value)
    result = result.where(builder.or_(no_number, any_nan), math.nan)
    minus_one = builder.and_(x.compared("==", -1.0), y.size().compared("==", math.inf))
    is_one = builder.or_(x.compared("==", 1.0), y.compared("==", 0.0))
    return result.where(builder.or_(is_one, minus_one), 1.0)


def cbrt(x: Floats) -> Floats:
    """The cube root of x."""
    size = x.size()
    f, n = _wide_log_parts(size.wide())
    result = wide_exp2(wide_log(f).times_plus(LOG2_E, n) * (1 / 3)).narrow()
    # Nothing, what is infinite and what is no number are their own roots.
    finite = x.builder.and_(size.compared(">", 0.0), size.compared("<", math.inf))
    return size.where(finite, result).with_sign_of(x)


def wide_exp2(x: Floats) -> Floats:
    """2 to the power of x from -200 to 200, of 64 bits."""
    magic = 1.5 * 2.0**52
    shifted = x + magic
    rest = x - (shifted - magic)
    p = polynomial(rest, WIDE_EXP2).times_plus(rest, 1.0)
    builder = x.builder
    power = builder.shl(shifted.bits(), x.whole_number(52))
    return p.from_bits(builder.add(p.bits(), power))


################################################################################
# Hyperbolic tangent and error function                                        #
################################################################################


def tanh(x: Floats) -> Floats:
    """The hyperbolic tangent of x."""
    size = x.size().at_most(9.2)
    square = size * size
    near = (polynomial(square, TANH) * square).times_plus(size, size)
    # The error of a power counts less and less from here on, so one rest is enough.
    n, integer = whole_part(size, 2 * LOG2_E)
    p = polynomial(rest := size.times_plus(2 * LOG2_E, -n), EXP2)
    power = _near_power(p.times_plus(rest, 1.0), integer)
    far = x.number(1.0) - x.number(2.0) / (power + 1.0)
    return far.where(below(size, 0.72), near).with_sign_of(x)


def erf(x: Floats) -> Floats:
    """The error function of x."""
    size = x.size().at_most(4.0)
    near = polynomial(size * size, ERF_NEAR).times_plus(size, size)
    far = x.number(1.0) - _exp_near(polynomial(size, ERF_FAR))
    return far.where(below(size, 0.85), near).with_sign_of(x)


def below(x: Floats, bound: float) -> LlvmValue:
    """Whether x is less than a bound, or NaN."""
    return x.builder.fcmp_unordered("<", x.value, x.number(bound).value)


FUNCTIONS: Mapping[str, Callable[..., Floats]] = {
    function.__name__: function
    for function in (
        cbrt,
        erf,
        exp,
        exp2,
        expm1,
        fmod,
        log,
        log10,
        log1p,
        log2,
        pow,
        tanh,
    )
}
"""All functions by their name."""
