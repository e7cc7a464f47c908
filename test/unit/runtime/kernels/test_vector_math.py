"""Our functions of floats, against the same in higher precision."""

# Numba and llvmlite carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray
from scipy import special

from penstock.runtime.kernels.cpu import support as kernel_support
from penstock.runtime.kernels.cpu.simd import Code, Lanes
from penstock.runtime.kernels.math import f32 as vector_math
from penstock.runtime.kernels.math import f64 as wide_math
from penstock.runtime.kernels.math import hyperbolic_f32 as inverse_math
from penstock.runtime.kernels.math import trig_f32 as circular_math
from penstock.runtime.kernels.math import trig_f64 as wide_angles
from penstock.runtime.kernels.math.f32 import DOUBLE, FLOAT
from penstock.runtime.kernels.math.registry import FUNCTIONS

Floats: TypeAlias = NDArray[np.floating]
Truth: TypeAlias = Callable[..., NDArray[np.longdouble]]


def exact_erf(x: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
    """The error function, as a sum of terms of one sign."""
    size = np.minimum(np.abs(x), 6)
    term = total = size
    for k in range(1, 130):
        term = term * (2 * size * size / (2 * k + 1))
        total = total + term
    root = np.sqrt(np.arctan(np.longdouble(1)))
    return np.copysign(np.exp(-size * size) * total / root, x)


TRUTHS: dict[str, Truth] = {
    "erf": lambda x: special.erf(x.astype(np.float64)).astype(np.longdouble),
    **{
        name: getattr(np, name)
        for name in ("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "tanh")
    },
    **{
        name: getattr(np, name)
        for name in ("cbrt", "cos", "cosh", "sin", "sinh", "tan")
    },
    **{
        f"a{name}": getattr(np, f"arc{name}")
        for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")
    },
}
PAIRS: dict[str, Truth] = {"atan2": np.arctan2, "fmod": np.fmod, "pow": np.power}
ULPS = {
    **{"exp": 1.1, "exp2": 1.0, "expm1": 1.7, "tanh": 1.2, "erf": 1.2, "pow": 0.51},
    **{"log": 0.9, "log2": 1.1, "log10": 1.0, "log1p": 0.51},
    **{"sin": 0.9, "cos": 0.9, "tan": 0.55},
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atan2"), 0.51),
    **dict.fromkeys(("atanh", "cbrt", "cosh", "sinh"), 0.51),
    "fmod": 0,
}
WIDE_ULPS = {
    **{"exp": 1.0, "exp2": 1.0, "expm1": 1.2, "tanh": 1.4, "erf": 1.2},
    **{"log": 0.7, "log2": 0.8, "log10": 0.7, "log1p": 0.7},
    **{"sin": 0.9, "cos": 0.9, "tan": 0.9},
}
"""The error bounds in the documentation of the modules."""

NAMES = [*product(["f32"], ULPS), *product(["f64"], WIDE_ULPS)]

ENDS = np.array(
    [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1.17549435e-38),
        *(88.72283, 88.72284, -87.33655, -103.97, -103.98, 127.99999, 128.0, -149.0),
        *(-149.5, -150.1, 3.4028235e38, -3.4028235e38, 0.625, 0.85, 3.9, 4.1, 9.1, 9.3),
        *(0.70710677, 0.7071068, 1.4142135, 1.4142137, -0.99999994, -17.4, 1e-20),
        *(0.41421357, 2.4142137, 0.5, -0.5, 89.41599, -89.41599, 1.2e-4, 1.8e19),
    ],
    np.float32,
)


def every(step: int) -> Floats:
    """Each `step`-th float in the order of their bits, and numbers near borders."""
    bits = np.arange(step // 3, 2**32, step, dtype=np.uint64).astype(np.uint32)
    near = np.add.outer(ENDS.view(np.uint32), np.arange(-4, 5, dtype=np.int32))
    near = near.astype(np.uint32).reshape(-1)
    payload = np.array([0x7FC00001, 0xFFC12345, 0x7F800001], np.uint32)
    return np.concatenate([bits, near, payload]).view(np.float32)


def wide(count: int) -> Floats:
    """Floats of 64 bits with random bits, of usual sizes, and near borders."""
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64)
    ends = np.array(
        [*ENDS, 709.78, -708.4, -745.13, 1023.999, -1074.2, 0.52, 0.999, 5.95]
    )
    near = np.add.outer(ends.view(np.uint64), np.arange(-4, 5, dtype=np.int64))
    parts = [bits.view(np.float64), near.astype(np.uint64).view(np.float64).reshape(-1)]
    scales = 1e-3, 1.0, 6.0, 300.0
    parts += [rng.normal(0, scale, count) for scale in scales]
    parts += [rng.normal(0, scale, count) for scale in (1e8, 1e9, 1e15)]
    parts += [np.arange(count // 8) * (np.pi / 2), np.ldexp(np.pi, np.arange(1000))]
    parts += [np.exp(rng.uniform(-scale, scale, count)) for scale in scales]
    return np.concatenate(parts)


def applied(function: Callable[..., object], *operands: Floats) -> Floats:
    """A function of numbers in a compiled loop, which vectorises."""
    out = np.empty_like(operands[0])
    loop_of(function, len(operands))(out, *operands)
    return out


@cache
def loop_of(function: Callable[..., object], count: int) -> Callable[..., None]:
    """A function of so many numbers as one of arrays, compiled once for each type."""

    def of_one(out, a):
        for i in range(out.size):
            out[i] = function(a[i])

    def of_two(out, a, b):
        for i in range(out.size):
            out[i] = function(a[i], b[i])

    loop: Callable[..., None] = of_one if count == 1 else of_two
    compiled: Callable[..., None] = njit(error_model="numpy")(loop)
    return compiled


def check(name: str, got: Floats, operands: tuple[Floats, ...]) -> None:
    """Compare results with the truth: numbers by ulps, anything else exactly."""
    truth = (TRUTHS | PAIRS)[name]
    if name == "erf" and got.dtype == np.float64:
        truth = exact_erf
    with np.errstate(all="ignore"):
        wanted = np.asarray(truth(*(x.astype(np.longdouble) for x in operands)))
        rounded = wanted.astype(got.dtype)
        finite = np.isfinite(rounded) & np.isfinite(got)
        np.testing.assert_array_equal(got[~finite], rounded[~finite])
        is_zero = finite & (rounded == 0) & (got == 0)
        np.testing.assert_array_equal(
            np.signbit(got[is_zero]), np.signbit(rounded[is_zero])
        )
        error = np.abs(got - wanted)[finite] / np.spacing(np.abs(rounded[finite]))
    ulps = ULPS if got.dtype == np.float32 else WIDE_ULPS
    assert error.max(initial=0) <= ulps[name]


@pytest.mark.parametrize("name", WIDE_ULPS)
def test_results_of_64_bits_are_as_near_as_documented(name: str) -> None:
    x = wide(5_000)
    check(name, applied(getattr(kernel_support, name), x), (x,))


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDE_ULPS)
def test_many_results_of_64_bits(name: str) -> None:
    x = wide(40_000)
    check(name, applied(getattr(kernel_support, name), x), (x,))


def test_documentation_has_all_functions() -> None:
    texts = {
        FLOAT: f"{vector_math.__doc__}{circular_math.__doc__}{inverse_math.__doc__}",
        DOUBLE: f"{wide_math.__doc__}{wide_angles.__doc__}",
    }
    for type, ulps in ((FLOAT, ULPS), (DOUBLE, WIDE_ULPS)):
        assert FUNCTIONS[type].keys() == ulps.keys()
        assert all(f"`{name}` " in texts[type] for name in ulps)


@pytest.mark.parametrize(("element", "least"), [("f32", -87.0), ("f64", -708.0)])
def test_shares_have_no_numbers_that_are_not_normal(element: str, least: float) -> None:
    module = vector_math if element == "f32" else wide_math

    def generate(context, builder, signature, args):
        return module.share(vector_math.Floats(builder, args[0])).value

    number = types.float32 if element == "f32" else types.float64
    function = intrinsic(lambda _typing, a: (number(a), generate))
    x = every(65_537) if element == "f32" else wide(5_000)
    x = x[~(x > -least)]
    got = applied(function, x)
    assert (np.signbit(got) <= np.isnan(got)).all()
    np.testing.assert_array_equal(got == 0, x < least)
    kept = ~(x < least)
    check("exp", got[kept], (x[kept],))


@pytest.mark.parametrize("name", TRUTHS)
def test_results_are_as_near_as_documented(name: str) -> None:
    x = every(65_537)
    check(name, applied(getattr(kernel_support, name), x), (x,))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTHS)
def test_results_over_the_whole_range(name: str) -> None:
    x = every(4099)
    got = applied(getattr(kernel_support, name), x)
    for start in range(0, x.size, 1 << 20):
        part = slice(start, start + (1 << 20))
        check(name, got[part], (x[part],))


def test_powers_are_as_near_as_documented() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 1 << 17, dtype=np.uint32)
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        size = np.log(np.abs(x.astype(np.float64)) + 1e-300)
    y = (rng.uniform(-90, 90, x.size) / size).astype(np.float32)
    whole = rng.integers(-40, 40, x.size).astype(np.float32)
    for operands in ((np.abs(x), y), (x, whole), (x, y)):
        check("pow", applied(kernel_support.pow, *operands), operands)


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_numbers_at_borders(name: str) -> None:
    numbers = [0.0, 1.0, 2.0, 3.0, 0.5, 2.5, np.inf, 1e-40, 3e38, 16777217, 1e10]
    pairs = np.array([*product([*numbers, *np.negative(numbers), np.nan], repeat=2)])
    x, y = pairs.astype(np.float32).T.copy()
    check(name, applied(getattr(kernel_support, name), x, y), (x, y))


def test_remainders_are_exact() -> None:
    rng = fresh()
    bits = rng.integers(0, 1 << 32, (2, 1 << 16), dtype=np.uint32)
    x, y = bits.view(np.float32)
    near = rng.normal(0, 1, 1 << 16).astype(np.float32)
    # Multiples of a divisor, and their neighbours.
    whole = rng.integers(1, 1 << 20, near.size).astype(np.float32)
    many = (near * whole).astype(np.float32)
    many = np.nextafter(many, rng.choice([-np.inf, 0, np.inf], near.size), dtype="f4")
    for operands in ((x, y), (near, near[::-1].copy()), (many, near)):
        check("fmod", applied(kernel_support.fmod, *operands), operands)


def test_directions_are_as_near_as_documented() -> None:
    rng = fresh()
    bits = rng.integers(0, 1 << 32, (2, 1 << 16), dtype=np.uint32)
    near = rng.normal(0, 1, (2, 1 << 16)).astype(np.float32)
    for y, x in (bits.view(np.float32), near):
        check("atan2", applied(kernel_support.atan2, y, x), (y, x))


def of_vectors(element: str, name: str, count: int, size: int = 8):
    """A function of numbers that computes a vector, and gives one lane of it."""
    type, scalar = {"f32": (types.float32, FLOAT), "f64": (types.float64, DOUBLE)}[
        element
    ]

    def generate(context, builder, signature, args):
        lanes = Lanes(Code(builder, element), size)
        others = ir.Constant(ir.VectorType(scalar, size), [0.25] * size)
        place = ir.Constant(ir.IntType(32), size - 3)
        vectors = (
            lanes.made(builder.insert_element(others, value, place)) for value in args
        )
        result = getattr(lanes, name)(*vectors).value
        return builder.extract_element(result, place)

    if count == 1:
        return intrinsic(lambda _typing, a: (type(a), generate))
    return intrinsic(lambda _typing, a, b: (type(a, b), generate))


@pytest.mark.parametrize(("element", "name"), NAMES)
def test_vectors_are_computed_like_numbers(element: str, name: str) -> None:
    x = every(16_777_213) if element == "f32" else wide(100)
    operands = (x, x[::-1].copy()) if name in PAIRS else (x,)
    np.testing.assert_array_equal(
        applied(of_vectors(element, name, len(operands)), *operands),
        applied(getattr(kernel_support, name), *operands),
    )


@pytest.mark.parametrize(("element", "size"), [("f32", 32), ("f32", 48), ("f64", 24)])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_long_vectors_are_computed_like_short_ones(
    name: str, element: str, size: int
) -> None:
    """Where there is an instruction for it they are scaled by their whole exponents."""
    x = every(655_357) if element == "f32" else wide(5_000)
    np.testing.assert_array_equal(
        applied(of_vectors(element, name, 1, size), x),
        applied(of_vectors(element, name, 1, 4), x),
    )


@pytest.mark.parametrize(
    ("element", "name"), list(product(["f32", "f64"], ["exp", "exp2"]))
)
def test_processors_without_scaling(element: str, name: str) -> None:
    type = FLOAT if element == "f32" else DOUBLE
    ours = partial(FUNCTIONS[type][name], scaling=False)

    def generate(context, builder, signature, args):
        return ours(vector_math.Floats(builder, args[0])).value

    number = types.float32 if element == "f32" else types.float64
    function = intrinsic(lambda _typing, a: (number(a), generate))
    x = every(65_537) if element == "f32" else wide(5_000)
    check(name, applied(function, x), (x,))
