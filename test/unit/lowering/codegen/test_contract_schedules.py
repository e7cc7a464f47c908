"""Contractions that are raised from linalg, in tiles, against NumPy and their loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import NO_FINISH, SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
SEED = 20261123


def numbers(shapes: Sequence[Sequence[int]]) -> list[Array]:
    """Small whole numbers, of which sums are exact."""
    random = np.random.default_rng(SEED)
    return [random.integers(-3, 4, shape).astype("float32") for shape in shapes]


def contraction_of(kernel: KernelOp) -> ContractOp:
    (op,) = (op for op in kernel.walk() if isinstance(op, ContractOp))
    return op


CASES: Sequence[tuple[type[TensorOp], Sequence[Sequence[int]], dict[str, object]]] = [
    (MatmulOp, [(3, 9, 20), (20, 17)], {}),
    (GemmOp, [(9, 20), (20, 33), (33,)], {}),
    (GemmOp, [(9, 20), (20, 33), (33,)], {"beta": 0.5}),
    (GemmOp, [(9, 20), (20, 33), (9, 33)], {"alpha": 2.0, "beta": 0.5}),
    (Conv2dOp, [(2, 6, 8, 9), (8, 3, 3, 3), (8,)], {"groups": 2, "pads": [1, 1, 1, 1]}),
    (Conv2dOp, [(1, 8, 8, 9), (16, 8, 1, 1)], {}),
]


@pytest.mark.parametrize(("kind", "shapes", "properties"), CASES)
@pytest.mark.parametrize("is_scheduled", [True, False])
def test_ops(
    kind: type[TensorOp],
    shapes: Sequence[Sequence[int]],
    properties: dict[str, object],
    is_scheduled: bool,
) -> None:
    block = Block(arg_types=[TensorType(f32, shape) for shape in shapes])
    op = kind.of(*block.args, **properties)
    kernel = KernelOp("k", "cpu", kernel_body(op))
    raise_kernel(kernel)
    kernel.verify()
    assert [type(op) for op in stages_of(kernel.body.block)] == [ContractOp]
    if is_scheduled:
        schedule_kernel(kernel, 32)
        assert SCHEDULE in contraction_of(kernel).attributes
    arrays = numbers(shapes)
    (wanted,) = op.evaluate(*arrays)
    found = run_on_copies(kernel, [*arrays, np.zeros_like(wanted)])[-1]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("index", "number"),
    [("(n, m)", "%e"), ("(m, n)", "%whole")],
    ids=["transposed", "no vectors"],
)
def test_a_finish_that_does_not_fit_stands_behind(
    parse_kernel: ParseKernel, index: str, number: str
) -> None:
    cut = (
        ""
        if number == "%e"
        else """
    %i = arith.fptosi %e : f32 to i32
    %whole = arith.sitofp %i : i32 to f32"""
    )
    text = f"""
launch.kernel @k target "cpu" (%a: memref<16x8xf32>, %b: memref<8x16xf32>,
    %c: memref<16x16xf32>, %s: memref<16xf32>, %y: memref<16x16xf32>) {{
  kernel.contract indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (n)>,
      affine_map<(m, n, k) -> {index}>]
      ins(%a, %b : memref<16x8xf32>, memref<8x16xf32>)
      outs(%y : memref<16x16xf32>) start(%s : memref<16xf32>)
      finish(%c : memref<16x16xf32>) {{
  ^bb0(%sum: f32, %e: f32):{cut}
    %0 = arith.addf %sum, {number} : f32
    kernel.yield %0 : f32
  }}
}}"""
    arrays = numbers([(16, 8), (8, 16), (16, 16), (16,), (16, 16)])
    plain, kernel = parse_kernel(text), parse_kernel(text)
    schedule_kernel(kernel, 32)
    kernel.verify()
    assert NO_FINISH in contraction_of(kernel).attributes
    assert contraction_of(kernel).finish is None
    found = run_on_copies(kernel, arrays)[-1]
    np.testing.assert_array_equal(found, run_on_copies(plain, arrays)[-1])
