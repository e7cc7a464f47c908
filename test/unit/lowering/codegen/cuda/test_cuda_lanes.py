"""CUDA kernels whose threads work together, run by the emulator of lanes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias, cast

import ml_dtypes
import numpy as np
import pytest
from forked_tool import ForkedCommands, run_tests_for
from numpy.typing import NDArray
from scipy import special

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.kernels.cuda.emulator import scalars as cuda_scalars
from penstock.runtime.kernels.cuda.emulator.warp import from_bf16, to_bf16
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Array: TypeAlias = NDArray[np.generic]
Floats: TypeAlias = NDArray[np.float64]
Kernels: TypeAlias = Callable[[str], list[KernelOp]]


@pytest.mark.slow
def test_kernels_agree_with_numpy_in_the_emulator(forked: ForkedCommands) -> None:
    names = [
        *("numba_target", "numba_target_scalars", "ops_halves", "rows"),
        *("windows_kernels", "row_gradients", "cross_entropy", "random"),
    ]
    run_tests_for("lanes", names, forked)


fma = cast("Callable[..., Floats]", cuda_scalars.fma)
softmax = cast("Callable[..., Floats]", special.softmax)


def run(kernels: Kernels, body: str, *arrays: Array) -> str:
    """Run the only kernel of a job on arrays in place; its source."""
    (kernel,) = kernels(body)
    source = kernel_source(kernel)
    assert run_lanes(source, [array.reshape(-1) for array in arrays]) == 0
    return source


SHAPES = [
    (61, 1000, np.float32, "threads of a warp, some warps without a row"),
    (64, 128, np.float32, "one vector a thread"),
    (9, 33, np.float32, "single elements, some threads without any"),
    (3, 4096, np.float32, "the threads of a block"),
    (2, 32768, np.float32, "the largest block"),
    (2, 40001, np.float32, "rows that are not kept"),
    (5, 1025, np.float16, "halves, one by one"),
    (8, 512, np.float16, "vectors of halves"),
    (4, 254, np.float64, "vectors of two"),
]


@pytest.mark.parametrize(
    ("rows", "extent", "dtype"), [s[:3] for s in SHAPES], ids=[s[3] for s in SHAPES]
)
def test_softmax_is_shared_by_threads(
    device_kernels: Kernels, rows: int, extent: int, dtype: type[np.floating]
) -> None:
    name = f"f{np.dtype(dtype).itemsize * 8}"
    type = f"tensor<{rows}x{extent}x{name}>"
    body = f"""
      %x = job.input "x" : {type}
      %y = op.softmax %x axis 1 : {type} -> {type}
      job.output "y", %y : {type}
    """
    rng = np.random.default_rng(extent)
    array = (4 * rng.standard_normal((rows, extent))).astype(dtype)
    expected = softmax(array.astype(np.float64), axis=1)
    source = run(device_kernels, body, array)
    assert "blockwise=True" in source
    tolerance = {"f16": 2e-3, "f32": 1e-5, "f64": 1e-13}[name]
    found = array.astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize(("rows", "extent"), [(50, 768), (7, 100), (3, 2000)])
def test_normalized_sums_of_rows(
    device_kernels: Kernels, rows: int, extent: int
) -> None:
    type, line = f"tensor<{rows}x{extent}xf32>", f"tensor<{extent}xf32>"
    body = f"""
      %x = job.input "x" : {type}
      %r = job.input "r" : {type}
      %g = job.input "g" : {line}
      %b = job.input "b" : {line}
      %s = op.add %x, %r : {type}, {type} -> {type}
      %n = op.layer_norm %s, %g, %b : {type}, {line}, {line} -> {type}
      %y = op.relu %n : {type} -> {type}
      job.output "y", %y : {type}
    """
    rng = np.random.default_rng(rows)
    x, r = rng.standard_normal((2, rows, extent)).astype(np.float32)
    g, b = rng.standard_normal((2, extent)).astype(np.float32)
    centred = x.astype(np.float64) + r
    centred -= centred.mean(1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    expected = np.maximum(centred / deviation * g + b, 0)
    # The result lies over an operand, which comes last.
    source = run(device_kernels, body, r, g, b, x)
    assert "blockwise=True" in source
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("reduce_mean", np.mean),
        ("reduce_sum", np.sum),
        ("reduce_max", np.max),
        ("reduce_min", np.min),
        ("reduce_prod", np.prod),
    ],
)
@pytest.mark.parametrize(("rows", "extent"), [(20, 49), (3, 5000)])
def test_reductions_are_shared_by_threads(
    device_kernels: Kernels,
    op: str,
    function: Callable[..., Floats],
    rows: int,
    extent: int,
) -> None:
    body = f"""
      %x = job.input "x" : tensor<{rows}x{extent}xf32>
      %y = op.{op} %x axes [1] : tensor<{rows}x{extent}xf32> -> tensor<{rows}xf32>
      job.output "y", %y : tensor<{rows}xf32>
    """
    rng = np.random.default_rng(rows)
    array = rng.uniform(0.9, 1.1, (rows, extent)).astype(np.float32)
    result = np.full(rows, np.nan, np.float32)
    source = run(device_kernels, body, array, result)
    assert "shuffle_xor" in source
    expected = function(array.astype(np.float64), axis=1)
    np.testing.assert_allclose(result, expected, rtol=2e-5)


EXCHANGE = """
from penstock.runtime.kernels.cuda.support import Stage, cuda, f32, load_4, thread


def stage_0(a, o, status):
    slots_0 = cuda.shared.array(64, f32)
    slots_0[thread()] = a[thread()]
    {barrier}
    o[thread()] = slots_0[63 - thread()]
    {again}
    slots_0[{target}] = a[thread()]


def stage_1(a, o, status):
    load_4(a, thread() * {step})


STAGES = [Stage(stage_0, 1, 64, blockwise=True), Stage(stage_1, 1, 16, blockwise=True)]
"""


def exchange(**text: str) -> str:
    """The source of a kernel that turns 64 elements round, with changes."""
    lines = {"barrier": "cuda.syncthreads()", "again": "cuda.syncthreads()"}
    return EXCHANGE.format(**{**lines, "target": "thread()", "step": "4", **text})


def test_threads_exchange_elements_between_barriers() -> None:
    a, o = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    run_lanes(exchange(), [a, o])
    assert (o == a[::-1]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            {"barrier": "pass"},
            "a thread reads what another wrote, without a barrier between",
        ),
        (
            {"again": "pass"},
            "a thread writes what another read, without a barrier between",
        ),
        (
            {"target": "thread() // 2"},
            "a thread writes what another wrote, without a barrier between",
        ),
        ({"target": "thread() + 1"}, "an index is outside of 64 elements"),
        ({"target": "thread() - 1"}, "an index is outside of 64 elements"),
        ({"step": "2"}, "4 elements are not aligned"),
        (
            {"barrier": "cuda.shared.array(12225, f32)"},
            "more than 48 KiB of shared memory",
        ),
    ],
)
def test_what_goes_wrong_on_a_device_is_found(
    text: dict[str, str], message: str
) -> None:
    arrays = [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]
    with pytest.raises(AssertionError) as caught:
        run_lanes(exchange(**text), arrays)
    assert str(caught.value) == message


def nearest(exact: Fraction, dtype: type[np.floating]) -> float:
    """The float of a type that is nearest to a number, the even one of two."""
    value = dtype(exact.numerator / exact.denominator)
    around = [value, *(np.nextafter(value, dtype(end)) for end in (-np.inf, np.inf))]
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def distance(number: np.floating) -> tuple[Fraction, int]:
        return abs(Fraction(float(number)) - exact), int(number.view(word)) & 1

    return float(min(around, key=distance))


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 24), (np.float64, 53)])
def test_products_are_added_with_one_rounding(
    dtype: type[np.floating], digits: int
) -> None:
    rng = np.random.default_rng(digits)
    for number in range(500):
        a, b = rng.standard_normal(2).astype(dtype)
        # Far smaller than the product, or so that almost nothing is left.
        c = dtype(rng.standard_normal() * 10.0 ** int(rng.integers(-25, 3)))
        if number % 2:
            c = dtype(-a * b * (1 + int(rng.integers(-2, 3)) * 2.0 ** (1 - digits)))
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert float(fma(a, b, c)) == nearest(exact, dtype)


@pytest.mark.parametrize("values", [(np.inf, 0.0, 1.0), (1e308, 10.0, 1.0)])
def test_products_that_are_no_numbers(values: tuple[float, float, float]) -> None:
    a, b, c = map(np.float64, values)
    with np.errstate(all="ignore"):
        np.testing.assert_equal(fma(a, b, c), a * b + c)


def test_bf16_is_rounded_once() -> None:
    rng = np.random.default_rng(16)
    numbers = rng.standard_normal(2000) * 10.0 ** rng.integers(-20, 20, 2000)
    # Just beside what lies in the middle of two, nearer than a float of 32 bits.
    middle = 1 + 2.0**-8
    some = [middle, middle + 2.0**-40, middle - 2.0**-40, np.nan, np.inf, -0.0, 3.4e38]
    for values in (numbers, np.array(some), numbers.astype(np.float32)):
        wanted = values.astype(ml_dtypes.bfloat16).astype(np.float32)
        if values.dtype == np.float64:
            exact = [nearest_bf16(value) for value in values]
            wanted = np.array(exact, np.float32)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(from_bf16(to_bf16(values)), wanted)


def nearest_bf16(value: float) -> float:
    """The nearest number that has 8 digits, the even one of two."""
    if not np.isfinite(value) or value == 0:
        return value
    scale = 2.0 ** (np.floor(np.log2(abs(value))) - 7)
    rounded = float(round(Fraction(value) / Fraction(scale)) * Fraction(scale))
    return rounded if abs(rounded) < 2.0**128 else np.copysign(np.inf, value)
