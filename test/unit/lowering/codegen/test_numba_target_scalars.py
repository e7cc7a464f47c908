"""Every scalar op that kernels may hold, against NumPy, also at its borders."""

# Meanings work on arrays of all types, which NumPy's types cannot say.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]
Meaning: TypeAlias = Callable[..., Array]

COUNT = 37
DTYPES = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
ULPS = {"f16": 1, "f32": 2, "f64": 2}


def unsigned(array: Array) -> Array:
    """The elements taken as unsigned integers."""
    return array.view(f"u{array.dtype.itemsize}")


def samples(type: str, seed: int) -> Array:
    """Numbers of a type, among them those at its borders."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[type])
    if type == "i1":
        return rng.integers(0, 2, COUNT).astype(np.bool_)
    if dtype.kind == "i":
        info = np.iinfo(dtype.name)
        small = rng.integers(-9, 9, COUNT - 13)
        wide = rng.integers(info.min, info.max, 8, dtype=dtype)
        edges = [info.min, info.max, 0, -1, 1]
        return rng.permutation(np.array([*small, *wide, *edges], dtype))
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 3.5, -2.5]
    plain = rng.normal(size=COUNT - len(edges)) * 3
    return rng.permutation(np.array([*plain, *edges])).astype(dtype)


def kernel_text(operands: Sequence[str], *ops: tuple[str, str]) -> str:
    """
    A kernel that applies ops, each written with `%0`, `%1`... and with the type of its
    result, to each element of the same operands.
    """
    names = [f"%{chr(ord('a') + index)}" for index in range(len(operands))]
    types = [f"memref<{COUNT}x{type}>" for type in operands]
    outs = [
        (f"%o{at}", f"memref<{COUNT}x{result}>") for at, (_, result) in enumerate(ops)
    ]
    arguments = [f"{n}: {t}" for n, t in [*zip(names, types, strict=True), *outs]]
    scalars = [f"{n}x: {t}" for n, t in zip(names, operands, strict=True)]
    maps = ", ".join(["affine_map<(i) -> (i)>"] * (len(operands) + 1))
    loops: list[str] = []
    for (op, result), (out, out_type) in zip(ops, outs, strict=True):
        for index, name in enumerate(names):
            op = op.replace(f"%{index}", f"{name}x")
        loops.append(f"""
      linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
        ins({", ".join(names)} : {", ".join(types)}) outs({out} : {out_type}) {{
      ^bb0({", ".join(scalars)}, %ox: {result}):
        %r = {op}
        linalg.yield %r : {result}
      }}""")
    return f"""
    launch.kernel @k target "cpu" ({", ".join(arguments)}) {{{"".join(loops)}
    }}"""


def exact(
    op: str, operands: str, result: str, meaning: Meaning
) -> tuple[str, str, str, Meaning, int]:
    return op, operands, result, meaning, 0


def divided(round: Callable[[int, int], int]) -> Meaning:
    """A division on Python's integers, 0 for a divisor of 0, wrapped to the type."""

    def divide(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        numbers = [round(int(x), int(y)) if y else 0 for x, y in pairs]
        wrapped = [
            (n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for n in numbers
        ]
        return np.array(wrapped, a.dtype.str.replace("u", "i"))

    return divide


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifted(direction: str) -> Meaning:
    """A shift on Python's integers, wrapped to the type."""

    def shift(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        numbers: list[int] = []
        for x, y in zip(a.tolist(), unsigned(b).tolist(), strict=True):
            amount = min(int(y), bits)
            n = int(x) << amount if direction == "left" else int(x) >> amount
            numbers.append((n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
        return np.array(numbers, a.dtype.str.replace("u", "i"))

    return shift


def as_unsigned(meaning: Meaning) -> Meaning:
    return lambda *arrays: meaning(*(unsigned(array) for array in arrays))


def signed_order(meaning: Meaning) -> Meaning:
    """The meaning on booleans where true is -1."""
    return lambda *arrays: meaning(*(-array.astype(np.int8) for array in arrays))


FLOAT_RELATIONS: dict[str, Meaning] = {
    "false": lambda a, b: np.zeros_like(a, np.bool_),
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
    "true": lambda a, b: np.ones_like(a, np.bool_),
}
INTEGER_RELATIONS: dict[str, Meaning] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": as_unsigned(np.less),
    "ule": as_unsigned(np.less_equal),
    "ugt": as_unsigned(np.greater),
    "uge": as_unsigned(np.greater_equal),
}
BINARY_FLOATS: dict[str, Meaning] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}
BINARY_INTEGERS: dict[str, Meaning] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": as_unsigned(np.maximum),
    "minui": as_unsigned(np.minimum),
    "divsi": divided(toward_zero),
    "remsi": divided(lambda a, b: a - b * toward_zero(a, b)),
    "floordivsi": divided(lambda a, b: a // b),
    "ceildivsi": divided(lambda a, b: -(-a // b)),
    "divui": as_unsigned(divided(lambda a, b: a // b)),
    "remui": as_unsigned(divided(lambda a, b: a % b)),
    "ceildivui": as_unsigned(divided(lambda a, b: -(-a // b))),
    "shli": shifted("left"),
    "shrsi": shifted("right"),
    "shrui": as_unsigned(shifted("right")),
}
ON_BOOLEANS: dict[str, Meaning] = {
    "addi": np.logical_xor,
    "subi": np.logical_xor,
    "muli": np.logical_and,
    "andi": np.logical_and,
    "ori": np.logical_or,
    "xori": np.logical_xor,
    "maxsi": signed_order(np.maximum),
    "minsi": signed_order(np.minimum),
    "maxui": np.logical_or,
    "minui": np.logical_and,
}
EXACT_MATH: dict[str, Meaning] = {
    "absf": np.fabs,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "round": lambda a: np.copysign(np.floor(np.fabs(a.astype("f8")) + 0.5), a),
    "sqrt": lambda a: np.sqrt(a),
}
MATH: dict[str, Meaning] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "erf": np.vectorize(math.erf),
    "rsqrt": lambda a: 1 / np.sqrt(a),
}

CASES: list[tuple[str, str, str, Meaning, int]] = [
    *(
        exact(f"llvm.frem %0, %1 : {type}", f"{type} {type}", type, np.fmod)
        for type in ("f16", "f32", "f64")
    ),
    *(
        exact(f"arith.{name} %0, %1 : {type}", f"{type} {type}", type, meaning)
        for name, meaning in BINARY_FLOATS.items()
        for type in ("f16", "f32", "f64")
    ),
    *(
        exact(f"arith.{name} %0, %1 : {type}", f"{type} {type}", type, meaning)
        for name, meaning in BINARY_INTEGERS.items()
        for type in ("i8", "i16", "i32", "i64")
    ),
    *(
        exact(f"arith.{name} %0, %1 : i1", "i1 i1", "i1", meaning)
        for name, meaning in ON_BOOLEANS.items()
    ),
    *(
        exact(f"arith.cmpf {name}, %0, %1 : {type}", f"{type} {type}", "i1", meaning)
        for name, meaning in FLOAT_RELATIONS.items()
        for type in ("f32", "f64")
    ),
    *(
        exact(f"arith.cmpi {name}, %0, %1 : {type}", f"{type} {type}", "i1", meaning)
        for name, meaning in INTEGER_RELATIONS.items()
        for type in ("i8", "i32", "i64")
    ),
    *(
        exact(
            f"arith.cmpi {name}, %0, %1 : i1",
            "i1 i1",
            "i1",
            signed_order(meaning) if name.startswith("s") else meaning,
        )
        for name, meaning in INTEGER_RELATIONS.items()
    ),
    *(
        exact(f"math.{name} %0 : {type}", type, type, meaning)
        for name, meaning in EXACT_MATH.items()
        for type in ("f16", "f32", "f64")
    ),
    *(
        (f"math.{name} %0 : {type}", type, type, meaning, ULPS[type])
        for name, meaning in MATH.items()
        for type in ("f16", "f32", "f64")
    ),
    *(
        (f"math.{name} %0, %1 : {type}", f"{type} {type}", type, meaning, ULPS[type])
        for name, meaning in {"powf": np.power, "atan2": np.arctan2}.items()
        for type in ("f16", "f32", "f64")
    ),
    exact("math.copysign %0, %1 : f32", "f32 f32", "f32", np.copysign),
    exact("math.absi %0 : i32", "i32", "i32", np.abs),
    exact("arith.negf %0 : f32", "f32", "f32", np.negative),
    (
        "math.fma %0, %1, %2 : f32",
        "f32 f32 f32",
        "f32",
        lambda a, b, c: a.astype("f8") * b + c,
        1,
    ),
    exact("arith.select %0, %1, %2 : f32", "i1 f32 f32", "f32", np.where),
    exact("arith.select %0, %1, %2 : i1", "i1 i1 i1", "i1", np.where),
    exact("arith.extf %0 : f16 to f32", "f16", "f32", lambda a: a.astype("f4")),
    exact("arith.extf %0 : f32 to f64", "f32", "f64", lambda a: a.astype("f8")),
    exact("arith.truncf %0 : f64 to f32", "f64", "f32", lambda a: a.astype("f4")),
    exact("arith.truncf %0 : f64 to f16", "f64", "f16", lambda a: a.astype("f2")),
    exact("arith.sitofp %0 : i64 to f16", "i64", "f16", lambda a: a.astype("f2")),
    exact("arith.truncf %0 : f32 to f16", "f32", "f16", lambda a: a.astype("f2")),
    exact("arith.extsi %0 : i8 to i32", "i8", "i32", lambda a: a.astype("i4")),
    exact("arith.extsi %0 : i1 to i32", "i1", "i32", lambda a: -a.astype("i4")),
    exact(
        "arith.extui %0 : i8 to i32", "i8", "i32", lambda a: unsigned(a).astype("i4")
    ),
    exact("arith.extui %0 : i1 to i64", "i1", "i64", lambda a: a.astype("i8")),
    exact("arith.trunci %0 : i64 to i16", "i64", "i16", lambda a: a.astype("i2")),
    exact("arith.trunci %0 : i32 to i1", "i32", "i1", lambda a: a & 1 != 0),
    exact("arith.sitofp %0 : i64 to f32", "i64", "f32", lambda a: a.astype("f4")),
    exact("arith.sitofp %0 : i32 to f16", "i32", "f16", lambda a: a.astype("f2")),
    exact("arith.sitofp %0 : i1 to f32", "i1", "f32", lambda a: -a.astype("f4")),
    exact("arith.uitofp %0 : i1 to f32", "i1", "f32", lambda a: a.astype("f4")),
    exact(
        "arith.uitofp %0 : i32 to f64", "i32", "f64", lambda a: unsigned(a).astype("f8")
    ),
    exact("arith.bitcast %0 : f32 to i32", "f32", "i32", lambda a: a.view("i4")),
    exact("arith.bitcast %0 : i64 to f64", "i64", "f64", lambda a: a.view("f8")),
]


@pytest.fixture(scope="module")
def results(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> Callable[[str], dict[str, Array]]:
    """The results of the cases with given operands, by op: one kernel computes all."""

    @cache
    def compute(operands: str) -> dict[str, Array]:
        types = operands.split()
        ops = [(op, result) for op, given, result, *_ in CASES if given == operands]
        arrays = [samples(type, seed) for seed, type in enumerate(types)]
        outs: dict[str, Array] = {
            op: np.zeros(COUNT, DTYPES[result]) for op, result in ops
        }
        kernel = parse_kernel(kernel_text(types, *ops))
        run_kernel(kernel, [*arrays, *outs.values()])
        return outs

    return compute


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "operands", "meaning", "ulps"),
    [(op, operands, meaning, ulps) for op, operands, _, meaning, ulps in CASES],
    ids=[case[0].replace(" ", "_") for case in CASES],
)
def test_scalar_op_agrees_with_numpy(
    op: str,
    operands: str,
    meaning: Meaning,
    ulps: int,
    results: Callable[[str], dict[str, Array]],
) -> None:
    out = results(operands)[op]
    arrays = [samples(type, seed) for seed, type in enumerate(operands.split())]
    with np.errstate(all="ignore"):
        wide = [a.astype("f8") if ulps and a.dtype.kind == "f" else a for a in arrays]
        expected = np.asarray(meaning(*wide)).astype(out.dtype)
    if ulps and out.dtype.kind == "f":
        assert_within(out, expected, ulps)
    else:
        np.testing.assert_array_equal(out, expected)


def assert_within(actual: Array, expected: Array, ulps: int) -> None:
    """Assert that floats differ by no more than some units in the last place."""
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    for a, b in zip(actual[finite], expected[finite], strict=True):
        spacing = np.spacing(np.abs(np.asarray(b, out_type(expected))))
        assert abs(float(a) - float(b)) <= ulps * spacing, f"got {a}, expected {b}"


def out_type(array: Array) -> str:
    """The name of a dtype."""
    return array.dtype.name


def test_no_loop_is_named_like_a_type(parse_kernel: ParseKernel) -> None:
    ops = [("arith.extsi %0 : i8 to i32", "i32")] * 10
    source = kernel_source(parse_kernel(kernel_text(["i8"], *ops)))
    assert "for i7 in" in source
    assert "for i9 in" in source
    assert "for i8 in" not in source


@pytest.mark.parametrize("type", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer_cuts_off_fractions(
    source: str, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    values = np.linspace(-120.9, 120.9, COUNT).astype(DTYPES[source])
    out = np.zeros(COUNT, DTYPES[type])
    text = kernel_text([source], (f"arith.fptosi %0 : {source} to {type}", type))
    run_kernel(parse_kernel(text), [values, out])
    np.testing.assert_array_equal(out, np.trunc(values).astype(out.dtype))


def test_float_to_unsigned_integer_uses_all_bits(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    values = np.linspace(0, 255, COUNT).astype(np.float32)
    out = np.zeros(COUNT, np.int8)
    text = kernel_text(["f32"], ("arith.fptoui %0 : f32 to i8", "i8"))
    run_kernel(parse_kernel(text), [values, out])
    np.testing.assert_array_equal(unsigned(out), np.trunc(values).astype(np.uint8))


def test_doubles_round_to_half_precision_at_once(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    # Just above and below the middle of two neighbours, by less than 32 bits can tell.
    middle = 1 + 2.0**-11
    near = [middle * (1 + sign * 2.0**-40) for sign in (-1, 0, 1)]
    tiny = [2.0**-25, 2.0**-25 * (1 + 2.0**-40), 2.0**-24 * 1.5, 65519.99999, 65520.0]
    values = np.array([*near, *tiny, 1e300, np.nan, -np.inf, -0.0])
    values = np.resize([*values, *-values], COUNT)
    out = np.zeros(COUNT, np.float16)
    text = kernel_text(["f64"], ("arith.truncf %0 : f64 to f16", "f16"))
    run_kernel(parse_kernel(text), [values, out])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, values.astype(np.float16))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(values))


@pytest.mark.parametrize(
    ("constant", "type", "expected"),
    [
        ("0.1 : f32", "f32", np.float32(0.1)),
        ("0.1 : f64", "f64", 0.1),
        ("0.1 : f16", "f16", np.float16(0.1)),
        ("1.0e-45 : f32", "f32", np.float32(1e-45)),
        ("3.40282347e+38 : f32", "f32", np.finfo(np.float32).max),
        ("0x7F800000 : f32", "f32", np.inf),
        ("0xFF800000 : f32", "f32", -np.inf),
        ("0x7FC00000 : f32", "f32", np.nan),
        ("-0.0 : f32", "f32", -0.0),
        ("-128 : i8", "i8", -128),
        ("-9223372036854775808 : i64", "i64", -(2**63)),
        ("true", "i1", True),
        ("false", "i1", False),
    ],
)
def test_constants_are_exact(
    constant: str,
    type: str,
    expected: float,
    parse_kernel: ParseKernel,
    run_kernel: RunKernel,
) -> None:
    out = np.zeros(COUNT, DTYPES[type])
    text = kernel_text([type], (f"arith.constant {constant}", type))
    run_kernel(parse_kernel(text), [samples(type, 0), out])
    np.testing.assert_array_equal(out, np.full(COUNT, expected, out.dtype))
    if out.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.signbit(out), np.signbit(out.dtype.type(expected))
        )
