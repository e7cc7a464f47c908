"""Sums of products on tensor cores of devices, run by the emulator of lanes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import ml_dtypes
import numpy as np
import pytest
from forked_tool import ForkedCommands
from numpy.typing import NDArray
from scipy import signal

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.cuda.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Kernels: TypeAlias = Callable[[str], list[KernelOp]]
Array: TypeAlias = NDArray[np.generic]
Doubles: TypeAlias = NDArray[np.float64]

DTYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
TOLERANCES = {"f16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place: sums in 32 bits are rounded once."""

MAPS = {
    "matmul": "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>",
    "of columns": "affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>",
    "of rows": "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>",
}


def product(
    shape: tuple[int, int, int],
    form: str,
    type: str,
    tiles: str = "",
    start: bool = True,
) -> str:
    """A kernel that adds a product to its result, which is 0 before if it `start`s."""
    rows, columns, terms = shape
    a = (terms, rows) if form == "of columns" else (rows, terms)
    b = (columns, terms) if form == "of rows" else (terms, columns)
    a, b, o = (f"memref<{m}x{n}x{type}>" for m, n in (a, b, (rows, columns)))
    fill = f"linalg.fill ins(%z : {type}) outs(%o : {o})" * start
    schedule = f"attrs = {{schedule = #launch.tiles<{tiles}>}}" if tiles else ""
    return f"""
      launch.kernel @k target "cuda" (%a: {a}, %b: {b}, %o: {o}) {{
        %z = arith.constant 0.0 : {type}
        {fill}
        linalg.generic {{
          indexing_maps = [{MAPS[form]}, affine_map<(m, n, k) -> (m, n)>],
          iterator_types = ["parallel", "parallel", "reduction"]
        }} ins(%a, %b : {a}, {b}) outs(%o : {o}) {schedule} {{
        ^bb0(%x: {type}, %y: {type}, %s: {type}):
          %u = arith.extf %x : {type} to f32
          %v = arith.extf %y : {type} to f32
          %w = arith.extf %s : {type} to f32
          %p = arith.mulf %u, %v : f32
          %t = arith.addf %w, %p : f32
          %r = arith.truncf %t : f32 to {type}
          linalg.yield %r : {type}
        }}
      }}"""


def run(
    kernels: Kernels,
    text: str,
    *arrays: Array,
    aligned: bool = True,
    is_scheduled: bool = True,
) -> str:
    """
    Run the only kernel of a text, with its own schedules or those of the pass, on
    arrays in place; its source.
    """
    (kernel,) = kernels(text)
    if not is_scheduled:
        schedule_kernel(kernel, 132)
    source = kernel_source(kernel)
    flat = [array.reshape(-1) for array in arrays]
    assert run_lanes(source, flat, aligned=aligned) == 0
    return source


def numbers(rng: np.random.Generator, shape: tuple[int, ...], type: str) -> Array:
    """Numbers of a type about as large as 1."""
    return rng.standard_normal(shape).astype(DTYPES[type])


def assert_close(found: Array, expected: Doubles, type: str) -> None:
    """Equal but for how each element is rounded, and sums in 32 bits."""
    tolerance = 1.01 * TOLERANCES[type]
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=tolerance, atol=tolerance / 50
    )


SHAPES = [(40, 72, 48), (33, 27, 21)]
"""Lines that begin at multiples of 16 bytes, with edges; and lines that do not."""


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("form", MAPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("aligned", [True, False])
def test_products_on_tensor_cores(
    device_kernels: Kernels,
    type: str,
    form: str,
    shape: tuple[int, int, int],
    aligned: bool,
) -> None:
    rows, columns, terms = shape
    rng = np.random.default_rng(rows)
    a, b = numbers(rng, (rows, terms), type), numbers(rng, (terms, columns), type)
    o = np.full((rows, columns), np.nan, DTYPES[type])
    given_a = np.ascontiguousarray(a.T) if form == "of columns" else a
    given_b = np.ascontiguousarray(b.T) if form == "of rows" else b
    tiles = "block [32, 64, 16], warp [16, 32], stages 4"
    text = product(shape, form, type, tiles)
    source = run(device_kernels, text, given_a, given_b, o, aligned=aligned)
    assert ("copy_async(" in source) == (shape == SHAPES[0])
    assert ("copy_back_if(" in source) == (shape == SHAPES[0])
    assert f"multiply_{type}(" in source
    assert_close(o, a.astype(np.float64) @ b.astype(np.float64), type)


@pytest.mark.parametrize(
    "tiles",
    [
        "block [128, 128, 32], warp [64, 32], stages 4",
        "block [16, 64, 32], warp [16, 16], stages 2",
        # Results do not fit into the shared memory of so few stages.
        "block [128, 64, 16], warp [32, 32], stages 2",
    ],
)
def test_products_are_added_to_what_is_there(
    device_kernels: Kernels, tiles: str
) -> None:
    # More steps than stages, and more tiles than one.
    shape = rows, columns, terms = 136, 136, 168
    rng = np.random.default_rng(3)
    a, b = numbers(rng, (rows, terms), "f16"), numbers(rng, (terms, columns), "f16")
    o = numbers(rng, (rows, columns), "f16")
    expected = o.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    text = product(shape, "matmul", "f16", tiles, start=False)
    source = run(device_kernels, text, a, b, o)
    assert ("dynamic_shared=" in source) == ("stages 4" in tiles)
    assert ("copy_back" in source) == ("[128, 64, 16]" not in tiles)
    assert_close(o, expected, "f16")


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("shape", [(3, 40, 33), (1, 24, 64)])
@pytest.mark.parametrize("form", ["matmul", "of rows"])
def test_small_products_are_added_in_32_bits_too(
    device_kernels: Kernels, type: str, shape: tuple[int, int, int], form: str
) -> None:
    rows, columns, terms = shape
    rng = np.random.default_rng(terms)
    a, b = numbers(rng, (rows, terms), type), numbers(rng, (terms, columns), type)
    o = np.full((rows, columns), np.nan, DTYPES[type])
    given_b = np.ascontiguousarray(b.T) if form == "of rows" else b
    text = product(shape, form, type)
    source = run(device_kernels, text, a, given_b, o, is_scheduled=False)
    assert ("shuffle_xor" in source) == (form == "of rows")
    assert_close(o, a.astype(np.float64) @ b.astype(np.float64), type)


KEPT_IN_16_BITS = """
  launch.kernel @k target "cuda" (%a: memref<2x3xf16>, %b: memref<3x2xf16>,
      %o: memref<2x2xf16>) {
    linalg.matmul {no_schedule = "not raised"}
      ins(%a, %b : memref<2x3xf16>, memref<3x2xf16>) outs(%o : memref<2x2xf16>)
  }"""


def test_sums_that_a_text_keeps_in_16_bits_are_rounded_term_by_term(
    device_kernels: Kernels,
) -> None:
    a = np.array([[2048, 1, 1], [1, 1, 1]], np.float16)
    b, o = np.ones((3, 2), np.float16), np.zeros((2, 2), np.float16)
    run(device_kernels, KEPT_IN_16_BITS, a, b, o)
    # In 16 bits 2048 + 1 is 2048.
    np.testing.assert_array_equal(o, [[2048, 2048], [3, 3]])


correlate = cast("Callable[..., Doubles]", signal.correlate)


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("window", [1, 3])
def test_convolutions_with_epilogues(
    device_kernels: Kernels, type: str, window: int
) -> None:
    channels, size, features = 16, 12, 24
    end = size - window + 1
    x_type, w_type, y_type, b_type = (
        f"tensor<{shape}x{type}>"
        for shape in (
            f"2x{channels}x{size}x{size}",
            f"{features}x{channels}x{window}x{window}",
            f"2x{features}x{end}x{end}",
            f"{features}x1x1",
        )
    )
    body = f"""
      %x = job.input "x" : {x_type}
      %w = job.input "w" : {w_type}
      %b = job.input "b" : {b_type}
      %c = op.conv2d %x, %w : {x_type}, {w_type} -> {y_type}
      %s = op.add %c, %b : {y_type}, {b_type} -> {y_type}
      %y = op.relu %s : {y_type} -> {y_type}
      job.output "y", %y : {y_type}
    """
    rng = np.random.default_rng(window)
    x = numbers(rng, (2, channels, size, size), type)
    w = numbers(rng, (features, channels, window, window), type)
    b = numbers(rng, (features, 1, 1), type)
    y = np.full((2, features, end, end), np.nan, DTYPES[type])
    source = run(device_kernels, body, x, w, b, y)
    assert source.count("def finish_0(") == 1
    assert "copy_async" in source
    exact = w.astype(np.float64)
    sums = [
        [correlate(image, kernel, mode="valid")[0] for kernel in exact]
        for image in x.astype(np.float64)
    ]
    assert_close(y, np.maximum(np.array(sums) + b.astype(np.float64), 0), type)


COPYING = """
from penstock.runtime.kernels.cuda.support import (
    Stage, await_copies, commit_copies, copy_async, cuda, thread, u16
)


def stage_0(a, o, status):
    slots_0 = cuda.shared.array(512, u16)
    copy_async(slots_0, thread() * {step}, a, thread() * 8, True)
    {commit}
    commit_copies()
    {wait}
    {barrier}
    for k in range(8):
        o[thread() * 8 + k] = slots_0[511 - thread() * 8 - k]
    {after}


STAGES = [Stage(stage_0, 1, 64, blockwise=True)]
"""


def copying(**text: str) -> str:
    """The source of a kernel that turns 512 elements round, with changes."""
    lines = {
        **{"commit": "commit_copies()", "wait": "await_copies(0)", "after": "pass"},
        **{"barrier": "cuda.syncthreads()", "step": "8"},
    }
    return COPYING.format(**{**lines, **text})


def test_copies_arrive_when_they_are_awaited() -> None:
    a, o = np.arange(512, dtype=np.uint16), np.zeros(512, np.uint16)
    # One group of two may be on its way: the one that has copied nothing.
    for wait in ("0", "1"):
        run_lanes(
            copying(wait=f"await_copies({wait})", after="await_copies(0)"), [a, o]
        )
        assert (o == a[::-1]).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"wait": "pass"}, "a thread reads what a copy is still on its way to"),
        (
            {"wait": "await_copies(1)", "commit": "pass"},
            "a thread reads what a copy is still on its way to",
        ),
        (
            {"barrier": "slots_0[thread()] = 0", "wait": "pass"},
            "a thread writes over what a copy is still on its way to",
        ),
        (
            {"barrier": "pass"},
            "a thread reads what another wrote, without a barrier between",
        ),
        (
            {"after": "copy_async(slots_0, thread() * 8, a, thread() * 8, True)"},
            "a thread writes what another read, without a barrier between",
        ),
        (
            {
                "after": "cuda.syncthreads(); "
                "copy_async(slots_0, thread() * 8, a, thread() * 8, True)"
            },
            "copies are still on their way",
        ),
        ({"step": "4"}, "8 elements are not aligned"),
    ],
)
def test_copies_that_go_wrong_are_found(text: dict[str, str], message: str) -> None:
    a, o = np.arange(512, dtype=np.uint16), np.zeros(512, np.uint16)
    with pytest.raises(AssertionError) as caught:
        run_lanes(copying(**text), [a, o])
    assert str(caught.value) == message


SIMULATED = """
import numpy as np
from penstock.runtime.cuda.simulator import simulate, simulated_stages

a, b = np.load("a.npy"), np.load("b.npy")
o, status = np.zeros(16 * 24, np.uint16), np.zeros(1, np.int32)
(stage,) = simulated_stages(open("kernel.py").read())
simulate(stage, (a.reshape(-1), b.reshape(-1), o, status))
np.save("o.npy", o)
"""


@pytest.mark.slow
def test_simulator_has_tensor_cores(
    device_kernels: Kernels, tmp_path: Path, forked_simulator: ForkedCommands
) -> None:
    rng = np.random.default_rng(5)
    a, b = numbers(rng, (16, 40), "bf16"), numbers(rng, (40, 24), "bf16")
    tiles = "block [16, 32, 32], warp [16, 32], stages 2"
    (kernel,) = device_kernels(product((16, 24, 40), "matmul", "bf16", tiles))
    (tmp_path / "kernel.py").write_text(kernel_source(kernel))
    for name, array in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", array.view(np.uint16))
    done = forked_simulator.outcome(["python", "-c", SIMULATED], tmp_path)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "o.npy").view(ml_dtypes.bfloat16).reshape(16, 24)
    assert_close(found, a.astype(np.float64) @ b.astype(np.float64), "bf16")
