"""Attention on devices, run by the emulator of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import ml_dtypes
import numpy as np
import pytest
from kernel_runs import run_on_copies
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_attention import QueriesAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Kernels: TypeAlias = Callable[[str], list[KernelOp]]
Array: TypeAlias = NDArray[np.generic]
Doubles: TypeAlias = NDArray[np.float64]
Shape: TypeAlias = tuple[int, int, int, int, int]

DTYPES = {
    **{"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)},
    **{"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)},
}
TOLERANCES = {"f16": 2e-3, "bf16": 2e-2, "f32": 3e-6, "f64": 1e-14}
"""Tensor cores take powers that are rounded to 16 bits, and so is the result."""


def attention(
    shape: Shape, type: str, masked: bool, by: str = "", causal: int | None = None
) -> str:
    """Ops that mix values of stacks, scaled, with a mask for all stacks or without."""
    seen = "" if causal is None else f"causal {causal}"
    stacks, rows, keys, terms, depth = shape
    q, k, v, o = (
        f"tensor<{stacks}x{m}x{n}x{type}>"
        for m, n in ((rows, terms), (keys, terms), (keys, depth), (rows, depth))
    )
    if by:
        k = f"tensor<{stacks}x{terms}x{keys}x{type}>"
    mask = f"tensor<{rows}x{keys}x{type}>"
    read = f'%m = job.input "m" : {mask}' if masked else ""
    return f"""
      %q = job.input "q" : {q}
      %k = job.input "k" : {k}
      %v = job.input "v" : {v}
      {read}
      %y = op.attention %q, %k, %v {"mask %m" * masked} {seen} scale 0.125 {by}
        : {q}, {k}, {v} {f"mask {mask}" * masked} -> {o}
      job.output "y", %y : {o}
    """


def mixed(q: Doubles, k: Doubles, v: Doubles, mask: Doubles) -> Doubles:
    """Attention with all scores at once."""
    scores = 0.125 * np.einsum("srt,skt->srk", q, k) + mask
    # Rows without a key are no numbers.
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return (powers / powers.sum(-1, keepdims=True)) @ v


def run(
    kernels: Kernels,
    shape: Shape,
    type: str,
    masked: bool,
    by: str = "",
    schedule: str = "",
    aligned: bool = True,
    causal: int | None = None,
) -> str:
    """Compare a kernel with NumPy; its source."""
    stacks, rows, keys, terms, depth = shape
    rng = np.random.default_rng(terms)
    arrays: list[Array] = [
        rng.standard_normal((stacks, *size)).astype(DTYPES[type])
        for size in ((rows, terms), (keys, terms), (keys, depth))
    ]
    mask = None
    if masked:
        # A row knows the keys up to its own.
        mask = np.where(np.tri(rows, keys, keys - rows) > 0, 0.0, -np.inf)
    exact = [array.astype(np.float64) for array in arrays]
    seen = np.zeros((rows, keys)) if mask is None else mask
    if causal is not None:
        row, key = np.indices((rows, keys))
        seen = np.where(key > row + causal, -np.inf, seen)
    expected = mixed(exact[0], exact[1], exact[2], seen)
    if by:
        arrays[1] = np.ascontiguousarray(arrays[1].swapaxes(1, 2))
    given = [*arrays, *([] if mask is None else [mask.astype(DTYPES[type])])]
    (kernel,) = kernels(attention(shape, type, masked, by, causal))
    stages = [op for op in kernel.body.block.ops if SCHEDULE in op.attributes]
    assert len(stages) == 1
    if schedule:
        form, queries, many = schedule.split()
        stages[0].attributes[SCHEDULE] = QueriesAttr(form, int(queries), int(many))
    source = kernel_source(kernel)
    found = np.full(expected.shape, np.nan, DTYPES[type])
    flat = [array.reshape(-1) for array in (*given, found)]
    assert run_lanes(source, flat, aligned=aligned) == 0
    tolerance = TOLERANCES[type]
    exact = found.astype(np.float64)
    np.testing.assert_allclose(exact, expected, rtol=tolerance, atol=tolerance)
    return source


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((2, 20, 37, 24, 20), "tiles 16 16"),
        ((1, 40, 70, 16, 40), "tiles 32 32"),
        ((1, 70, 45, 64, 64), ""),
    ],
)
def test_blocks_of_queries_go_through_blocks_of_keys(
    device_kernels: Kernels, type: str, masked: bool, shape: Shape, schedule: str
) -> None:
    source = run(device_kernels, shape, type, masked, schedule=schedule)
    assert "slots_2" in source


@pytest.mark.parametrize("type", ["f16", "bf16"])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(
    ("shape", "schedule", "masked"),
    [((2, 20, 75, 24, 40), "warps 16 32", False), ((1, 70, 133, 64, 64), "", True)],
)
def test_floats_of_16_bits_are_mixed_on_tensor_cores(
    device_kernels: Kernels,
    type: str,
    aligned: bool,
    shape: Shape,
    schedule: str,
    masked: bool,
) -> None:
    source = run(
        device_kernels, shape, type, masked, schedule=schedule, aligned=aligned
    )
    assert f"multiply_{type}(" in source
    assert "copy_async" in source


def test_lines_that_are_not_aligned_take_no_tensor_cores(
    device_kernels: Kernels,
) -> None:
    source = run(device_kernels, (1, 20, 33, 20, 18), "bf16", False)
    assert "multiply_bf16(" not in source


def test_keys_that_lie_by_terms(device_kernels: Kernels) -> None:
    run(device_kernels, (1, 17, 33, 8, 16), "f32", False, by="k_by [0, 2, 1]")


@pytest.mark.parametrize("type", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "masked"),
    [
        ((2, 3, 45, 40, 33), True),
        ((3, 1, 100, 64, 64), False),
        ((1, 1, 5, 32, 8), False),
    ],
)
def test_few_queries_have_a_block_each(
    device_kernels: Kernels, type: str, shape: Shape, masked: bool
) -> None:
    source = run(device_kernels, shape, type, masked)
    assert f"Stage(stage_0, {shape[0] * shape[1]}, 256, blockwise=True)" in source


@pytest.mark.parametrize(
    ("shape", "type", "schedule", "causal", "masked"),
    [
        ((2, 40, 40, 24, 20), "f32", "tiles 16 16", 0, False),
        ((1, 37, 59, 8, 16), "f64", "tiles 32 32", 22, True),
        ((1, 40, 75, 24, 40), "bf16", "warps 16 32", 20, False),
        ((1, 33, 20, 8, 16), "f16", "", 0, False),
        ((2, 3, 100, 40, 33), "f32", "", 40, True),
        ((1, 2, 9, 32, 8), "bf16", "", 0, False),
    ],
)
def test_causal_blocks_end_with_the_last_key_that_is_seen(
    device_kernels: Kernels,
    shape: Shape,
    type: str,
    schedule: str,
    causal: int,
    masked: bool,
) -> None:
    source = run(device_kernels, shape, type, masked, schedule=schedule, causal=causal)
    assert "for j in range(steps):" in source


KINDS = (False, None), (True, None), (False, 0)
"""Whether there is a mask, and from which key on the first query sees none."""


@pytest.mark.slow
@pytest.mark.parametrize("type", ["f32", "bf16"])
@pytest.mark.parametrize(("number", "head"), [*enumerate([4, 8, 16, 32, 64])])
def test_no_block_reads_past_its_operands(
    device_kernels: Kernels, number: int, head: int, type: str
) -> None:
    """
    Around the rows of a block there are threads without a piece to bring. Each length
    meets each kind, and each head two kinds of each length.
    """
    first = number + (type == "bf16")
    for place, length in enumerate((32, 64, 31, 33, 65)):
        masked, causal = KINDS[(first + place) % len(KINDS)]
        shape = 1, length, length, head, head
        run(device_kernels, shape, type, masked, causal=causal)


@pytest.mark.parametrize(
    ("shape", "type", "by"),
    [
        ((2, 64, 32, 4, 8), "f32", "k_by [0, 2, 1]"),
        ((2, 32, 64, 8, 4), "f64", "k_by [0, 2, 1]"),
        ((1, 32, 64, 4, 16), "f64", ""),
        ((1, 32, 32, 3, 5), "f32", ""),
        ((1, 1, 32, 4, 4), "f32", ""),
    ],
)
def test_no_block_reads_past_operands_of_unequal_sides(
    device_kernels: Kernels, shape: Shape, type: str, by: str
) -> None:
    run(device_kernels, shape, type, False, by=by)


@pytest.mark.parametrize("rows", [2, 20])
def test_infinite_operands_count_once(device_kernels: Kernels, rows: int) -> None:
    """Neither is the last key among those past the end, nor the first term."""
    (kernel,) = device_kernels(attention((1, rows, 33, 5, 16), "f32", False))
    rng = np.random.default_rng(8)
    shapes = (1, rows, 5), (1, 33, 5), (1, 33, 16)
    q, k, v = (rng.random(shape).astype("f4") for shape in shapes)
    v[0, -1, 3] = np.inf
    k[0, 2, 0] = -np.inf
    *_, found = run_on_copies(kernel, [q, k, v, np.zeros((1, rows, 16), "f4")])
    exact = [x.astype(np.float64) for x in (q, k, v)]
    wanted = mixed(exact[0], exact[1], exact[2], np.zeros((rows, 33)))
    assert np.isposinf(wanted[:, :, 3]).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_queries_without_a_key_are_no_numbers(device_kernels: Kernels) -> None:
    shape = 1, 18, 20, 8, 16
    (kernel,) = device_kernels(attention(shape, "f32", True))
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal(n).astype(np.float32) for n in (18 * 8, 20 * 8, 20 * 16)
    )
    mask = np.zeros((18, 20), np.float32)
    mask[5] = -np.inf
    y = np.zeros((18, 16), np.float32)
    run_lanes(kernel_source(kernel), [q, k, v, mask.reshape(-1), y.reshape(-1)])
    assert np.isnan(y[5]).all()
    assert np.isfinite(np.delete(y, 5, axis=0)).all()


@pytest.mark.parametrize(
    ("depth", "schedule", "message"),
    [
        (
            128,
            QueriesAttr("tiles", 64, 32),
            "#launch.queries<tiles, queries 64, keys 32> does not fit into shared "
            "memory and registers",
        ),
        (
            64,
            QueriesAttr("warps", 64, 64),
            "#launch.queries<warps, queries 64, keys 64> is not for rows of 64 f32 as "
            "they lie",
        ),
    ],
)
def test_schedules_that_do_not_fit_are_refused(
    device_kernels: Kernels, depth: int, schedule: QueriesAttr, message: str
) -> None:
    (kernel,) = device_kernels(attention((1, 20, 20, depth, depth), "f32", False))
    for op in kernel.body.block.ops:
        if SCHEDULE in op.attributes:
            op.attributes[SCHEDULE] = schedule
    with pytest.raises(LocatedPassFailure) as caught:
        kernel_source(kernel)
    assert str(caught.value) == f"kernel @{kernel.sym_name.data}: {message}"
