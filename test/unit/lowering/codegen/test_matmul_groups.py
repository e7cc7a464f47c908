"""Products of bytes and of `bf16`, whatever signs, shapes, tiles and processors."""

# numba carries no types.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportCallIssue=false, reportUnknownParameterType=false

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import result_of
from ml_dtypes import bfloat16
from numba import njit
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit import cpu as jit
from penstock.runtime.kernels.cpu import amx_permission as matrix_unit
from penstock.runtime.kernels.cpu.matmul import amx as matrices
from penstock.runtime.kernels.cpu.matmul import groups
from penstock.runtime.kernels.cpu_features import Processor, processor_here

Array: TypeAlias = NDArray[Any]
Signs: TypeAlias = tuple[bool, bool]
SIGNS = [*product([False, True], repeat=2)]


def bytes_(signed: bool, *shape: int) -> Array:
    """Any bytes, the extreme ones more often than others."""
    random = fresh()
    limits = np.iinfo(np.int8 if signed else np.uint8)
    low, high = limits.min, limits.max
    some = random.integers(low, high, shape, np.int64, endpoint=True)
    ends = random.choice([low, high, 0, low + 1], shape)
    return np.where(random.random(shape) < 0.5, ends, some).astype(limits.dtype)


def factors_of(signs: Signs) -> groups.Factors:
    """The types of bytes that have a sign or none."""
    a, b = ("i8" if signed else "ui8" for signed in signs)
    return a, b


def wide(
    kind: type[TensorOp], arrays: Sequence[Array], **properties: Attribute
) -> TensorOp:
    """An op with wide sums on arrays of bytes."""
    block = Block(
        arg_types=[TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    )
    return kind.inferred(block.args, {"wide": UnitAttr(), **properties})


def run(
    op: TensorOp,
    arrays: Sequence[Array],
    vector_bytes: int = 64,
    constants: Sequence[int] = (),
    parts: int = 1,
    in_matrices: bool = False,
) -> Array:
    """The result of a scheduled kernel, in parts; none may touch memory around it."""
    kernel = KernelOp("k", "cpu", kernel_body(op))
    schedule_kernel(kernel, vector_bytes, parts, constants, in_matrices)
    schedules = [
        stage.attributes.get(SCHEDULE) for stage in stages_of(kernel.body.block)
    ]
    assert isinstance(schedules[-1], ContractionAttr)
    assert schedules[-1].terms_at_once == 4 // arrays[0].itemsize
    assert schedules[-1].matrices == in_matrices
    return result_of(kernel, arrays, parts)


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("constants", [(), (1,)])
def test_products(signs: Signs, constants: Sequence[int]) -> None:
    a, b = bytes_(signs[0], 13, 148), bytes_(signs[1], 148, 83)
    found = run(wide(MatmulOp, [a, b]), [a, b], 64, constants, parts=2)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize(
    ("m", "n", "k", "vector_bytes", "constants"),
    [
        (1, 40, 67, 64, (1,)),
        (33, 9, 1030, 32, ()),
        (70, 100, 1028, 64, (1,)),
        (5, 17, 2, 16, ()),
    ],
)
def test_products_of_other_sizes_and_transposed(
    m: int, n: int, k: int, vector_bytes: int, constants: Sequence[int]
) -> None:
    a, b = bytes_(False, k, m), bytes_(False, n, k)
    flags = {"transpose_a": UnitAttr(), "transpose_b": UnitAttr()}
    op = wide(MatmulOp, [a, b], **flags)
    found = run(op, [a, b], vector_bytes, constants)
    np.testing.assert_array_equal(found, a.astype(np.int64).T @ b.astype(np.int64).T)


@pytest.mark.parametrize("signs", SIGNS)
def test_extreme_sums_are_not_cut(signs: Signs) -> None:
    """Where pairs of products were added in 16 bits, these would be cut."""
    rows = [np.iinfo(np.int8 if signed else np.uint8) for signed in signs]
    for ends in product(*((limits.min, limits.max) for limits in rows)):
        a, b = (
            np.full(shape, end, limits.dtype)
            for shape, end, limits in zip([(2, 36), (36, 20)], ends, rows, strict=True)
        )
        found = run(wide(MatmulOp, [a, b]), [a, b])
        assert (found == 36 * ends[0] * ends[1]).all()


@pytest.mark.parametrize(
    ("image", "weights", "signs", "stride", "groups", "vector_bytes"),
    [
        ((2, 3, 9, 21), (6, 3, 3, 3), (False, True), (1, 1), 1, 64),
        ((1, 5, 12, 43), (8, 5, 3, 2), (True, True), (2, 2), 1, 64),
        ((1, 6, 9, 40), (8, 3, 1, 3), (False, False), (1, 3), 2, 32),
        ((1, 36, 5, 7), (5, 36, 1, 1), (True, False), (1, 1), 1, 64),
    ],
)
def test_convolutions(
    image: tuple[int, ...],
    weights: tuple[int, ...],
    signs: Signs,
    stride: tuple[int, int],
    groups: int,
    vector_bytes: int,
) -> None:
    x, w = bytes_(signs[0], *image), bytes_(signs[1], *weights)
    properties = {
        "strides": int_list(stride),
        "groups": IntegerAttr(groups, i64),
    }
    found = run(wide(Conv2dOp, [x, w], **properties), [x, w], vector_bytes)
    windows = sliding_window_view(x.astype(np.int64), weights[2:], (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1]]
    windows = windows.reshape(len(x), groups, weights[1], *windows.shape[2:])
    own = w.astype(np.int64).reshape(groups, -1, *weights[1:])
    wanted = np.einsum("ngcyxpq,gocpq->ngoyx", windows, own)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("signs", SIGNS)
def test_products_in_registers_of_matrices(signs: Signs) -> None:
    """On a processor that has none, in vectors."""
    a, b = bytes_(signs[0], 51, 128), bytes_(signs[1], 128, 80)
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    op = wide(MatmulOp, [a, b])
    found = run(op, [a, b], 64, (1,), parts=2, in_matrices=True)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 9, 70), (33, 50, 1030)])
def test_products_in_registers_that_are_not_full(m: int, n: int, k: int) -> None:
    a, b = bytes_(True, m, k), bytes_(False, n, k)
    op = wide(MatmulOp, [a, b], transpose_b=UnitAttr())
    found = run(op, [a, b], in_matrices=True)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64).T)


def test_convolutions_in_registers_of_matrices() -> None:
    x, w = bytes_(False, 2, 5, 8, 11), bytes_(True, 20, 5, 3, 3)
    found = run(wide(Conv2dOp, [x, w]), [x, w], in_matrices=True)
    windows = sliding_window_view(x.astype(np.int64), (3, 3), (2, 3))
    wanted = np.einsum("ncyxpq,ocpq->noyx", windows, w.astype(np.int64))
    np.testing.assert_array_equal(found, wanted)


def test_machine_code_with_registers_of_matrices_is_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that may not use them finds none of it, nor the other way round."""
    source = "from penstock.runtime.kernels.cpu.matmul.amx import amx_micro_kernel"
    keys: set[str] = set()
    for may in (True, False):

        def may_use_amx(may: bool = may) -> bool:
            return may

        monkeypatch.setattr(jit, "may_use_amx", may_use_amx)
        keys.add(jit.key_of(source))
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("platform", "facts"),
    [("darwin", "flags : amx_int8"), ("linux", None), ("linux", "flags : amx_tile")],
)
def test_registers_of_matrices_are_asked_for_where_there_are_any(
    platform: str, facts: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if facts is not None:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\n{facts}\n")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(matrix_unit, "FACTS", tmp_path / "cpuinfo")
    assert not matrix_unit.may_use_amx.__wrapped__()


@pytest.mark.parametrize("signs", SIGNS)
def test_matrices_without_registers_of_them(signs: Signs) -> None:
    without = replace(processor_here(), matrices=False)
    rows, pack, strip = (
        matrices.pack_amx(32, 128, a=(70, 1), rest=19),
        groups.pack_group_windows(
            factors_of(signs), 1, 16, (((70, 16),), ((16, 1),)), whole=16
        ),
        matrices.amx_micro_kernel(
            factors_of(signs), 32, 1, 16, b=16, c=16, rest=19, processor=without
        ),
    )

    @njit
    def multiply(a: int, b: int, c: int, copy: int, panel: int) -> None:
        rows(a, copy, 19, 70)
        pack(b, panel, 16, 70, 0, 0)
        strip(copy, panel, c, 19, 16, 18, 1, 1, ())

    a, b = bytes_(signs[0], 19, 70), bytes_(signs[1], 70, 16)
    found, copy, panel = (np.empty(2048, np.int32) for _ in range(3))
    multiply(*(array.ctypes.data for array in (a, b, found, copy, panel)))
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(found[: wanted.size].reshape(wanted.shape), wanted)


KINDS = {
    "vnni": Processor(frozenset({"avx2", "avxvnni"})),
    "pairs": Processor(frozenset({"avx2"})),
    None: Processor(),
}
"""Processors by how they multiply groups of four bytes in eight lanes."""
KINDS_HERE = [
    kind
    for kind in ("vnni", "pairs", None)
    if kind in (processor_here().dot_product(8), "pairs", None)
]
"""Those whose code runs here: `test_processors` looks at the code for all of them."""


@pytest.mark.parametrize("kind", KINDS_HERE)
@pytest.mark.parametrize("signs", SIGNS)
def test_processors(signs: Signs, kind: str | None) -> None:
    """Any way to multiply groups comes to the same, if the processor has it."""
    processor, factors = KINDS[kind], factors_of(signs)
    assert processor.dot_product(8) == kind
    rows, pack, strip = (
        groups.pack_group_rows(factors, 3, 8, a=(11, 1), last=3, processor=processor),
        groups.pack_groups(factors, 1, 8, (8, 1), last=3),
        groups.group_micro_kernel(
            factors, 3, 1, 8, b=8, c=8, rest=0, processor=processor
        ),
    )

    @njit
    def multiply(a: int, b: int, c: int, copy: int, panel: int) -> None:
        rows(a, copy, 3, 11)
        pack(b, panel, 8, 11)
        strip(copy, panel, c, 3, 8, 3, 1, 1, ())

    a, b = bytes_(signs[0], 3, 11), bytes_(signs[1], 11, 8)
    found, copy, panel = (np.empty(32, np.int32) for _ in range(3))
    multiply(*(array.ctypes.data for array in (a, b, found, copy, panel)))
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(found[:24].reshape(3, 8), wanted)


################################################################################
# Pairs                                                                        #
################################################################################


def pairs_(*shape: int) -> Array:
    """Normal numbers of `bf16`."""
    return fresh().standard_normal(shape).astype(bfloat16)


def check(found: Array, a: Array, b: Array, more: float | Array = 0) -> None:
    """
    Compare `f32` sums of products with those in `f64`. Products of `bf16` are exact in
    `f32`, so each of k additions rounds a partial sum once, by 2^-24 of it at most; and
    a partial sum is no larger than the sum of magnitudes, but for roundings before.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    terms, rounding = a.shape[-1] + 1, 2.0**-24
    size = np.abs(a) @ np.abs(b) + np.abs(more)
    bound = terms * rounding / (1 - terms * rounding) * size
    assert found.dtype == np.float32
    assert (np.abs(found - (a @ b + more)) <= bound).all()


@pytest.mark.parametrize(
    ("vector_bytes", "constants"), [(16, ()), (32, (1,)), (64, ())]
)
def test_products_of_pairs(vector_bytes: int, constants: Sequence[int]) -> None:
    a, b = pairs_(13, 530), pairs_(530, 83)
    op = wide(MatmulOp, [a, b])
    one, two = (run(op, [a, b], vector_bytes, constants, n) for n in (1, 2))
    check(one, a, b)
    # Threads share rows and columns, and no sum.
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("m", "n", "k", "flags"),
    [
        (1, 40, 67, "b"),
        (33, 9, 515, "a"),
        (5, 17, 1, ""),
        (17, 1, 33, "ab"),
    ],
)
def test_products_of_pairs_of_other_sizes_and_transposed(
    m: int, n: int, k: int, flags: str
) -> None:
    a, b = pairs_(m, k), pairs_(k, n)
    given = [
        np.ascontiguousarray(x.T) if name in flags else x
        for name, x in zip("ab", (a, b), strict=True)
    ]
    transposed = {f"transpose_{name}": UnitAttr() for name in flags}
    check(run(wide(MatmulOp, given, **transposed), given), a, b)


def test_stacks_of_products_of_pairs() -> None:
    a, b = pairs_(3, 2, 10, 21), pairs_(2, 21, 18)
    check(run(wide(MatmulOp, [a, b]), [a, b], parts=2), a, b)


def test_convolutions_of_single_pixels_of_pairs() -> None:
    """Where they skip pixels, these are windows."""
    x, w = pairs_(2, 23, 9, 11), pairs_(14, 23, 1, 1)
    bias = fresh().standard_normal(14).astype(np.float32)
    op = wide(Conv2dOp, [x, w, bias], strides=int_list([2, 2]))
    found = run(op, [x, w, bias])
    pixels = x[:, :, ::2, ::2].reshape(2, 23, -1)
    check(found.reshape(2, 14, -1), w[:, :, 0, 0], pixels, bias[:, None])


def test_scaled_products_of_pairs() -> None:
    a, b = pairs_(6, 40), pairs_(40, 20)
    c = fresh().standard_normal(20).astype(np.float32)
    scale = {"alpha": FloatAttr(0.5, f64), "beta": FloatAttr(2.0, f64)}
    found = run(wide(GemmOp, [a, b, c], **scale), [a, b, c])
    check(found, (a / 2).astype(bfloat16), b, 2.0 * c)


def test_infinities_and_nan_of_pairs() -> None:
    """Also beside the zeros that fill a last pair."""
    a, b = pairs_(4, 5), pairs_(5, 3)
    a[0, 4], a[1, 4], a[2, 0] = np.inf, -np.inf, np.inf
    b[0] = 0
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float32) @ b.astype(np.float32)
    found = run(wide(MatmulOp, [a, b]), [a, b])
    special = ~np.isfinite(wanted)
    assert special.any(axis=1).tolist() == [True, True, True, False]
    np.testing.assert_array_equal(found[special], wanted[special])
    assert np.isfinite(found[3]).all()


def of_pairs(a: Array, b: Array, processor: Processor) -> Array:
    """Products of 3 rows and 8 columns, as a processor computes them."""
    factors, terms = ("bf16", "bf16"), a.shape[1]
    last = terms % 2
    rows, pack, strip = (
        groups.pack_group_rows(factors, 3, 8, a=(terms, 1), last=last),
        groups.pack_groups(factors, 1, 8, (8, 1), last=last),
        groups.group_micro_kernel(
            factors, 3, 1, 8, b=8, c=8, rest=0, processor=processor
        ),
    )

    @njit
    def multiply(a: int, b: int, c: int, copy: int, panel: int) -> None:
        rows(a, copy, 3, terms)
        pack(b, panel, 8, terms)
        strip(copy, panel, c, 3, 8, (terms + 1) // 2, 1, 1, ())

    found, copy, panel = (np.empty(1024, np.float32) for _ in range(3))
    multiply(*(array.ctypes.data for array in (a, b, found, copy, panel)))
    return found[:24].reshape(3, 8)


@pytest.mark.skipif(
    not processor_here().multiplies_pairs(8), reason="no instruction for pairs of bf16"
)
def test_processors_with_and_without_pairs_add_alike() -> None:
    """All bits are the same, but for subnormal numbers, which the instruction drops."""
    a, b = pairs_(3, 37), pairs_(37, 8)
    few, tiny = pairs_(3, 2), np.full((2, 8), 2.0**-130, bfloat16)
    without = Processor(frozenset({"avx2", "fma"}))
    here = processor_here()
    np.testing.assert_array_equal(of_pairs(a, b, here), of_pairs(a, b, without))
    assert (of_pairs(few, tiny, here) == 0).all()
    assert (of_pairs(few, tiny, without) != 0).any()


def test_terms_of_other_groups_are_refused() -> None:
    a, b = bytes_(True, 4, 8), bytes_(True, 8, 4)
    kernel = KernelOp("k", "cpu", kernel_body(wide(MatmulOp, [a, b])))
    schedule = ContractionAttr("outer", (4, 1, 16), (4, 8), packed=True)
    stages_of(kernel.body.block)[-1].attributes[SCHEDULE] = schedule
    with pytest.raises(LocatedPassFailure) as failure:
        kernel_source(kernel)
    assert "groups of these factors have 4 terms, not 1" in str(failure.value)
