"""Results that are written past the caches, wherever they lie and however many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.cpu import streaming
from penstock.lowering.codegen.target import kernel_source

Floats: TypeAlias = NDArray[np.float32] | NDArray[np.float64]
ParseKernel: TypeAlias = Callable[[str], KernelOp]

ADD = """launch.kernel @k target "cpu" (%a: memref<TYPE>, %b: memref<TYPE>, %o: memref<TYPE>) {
  linalg.generic {indexing_maps = [MAP, MAP, MAP], iterator_types = [KINDS]}
    ins(%a, %b : memref<TYPE>, memref<TYPE>) outs(%o : memref<TYPE>) {
  ^bb0(%x: ELEMENT, %y: ELEMENT, %z: ELEMENT):
    %r = arith.addf %x, %y : ELEMENT
    linalg.yield %r : ELEMENT
  }
}"""  # noqa: E501


def sum_of(parse_kernel: ParseKernel, extent: int, element: str) -> str:
    """The source of a sum of two tensors, whose result is written past the caches."""
    text = ADD.replace("TYPE", f"{extent}xELEMENT").replace("ELEMENT", element)
    text = text.replace("MAP", "affine_map<(i) -> (i)>").replace("KINDS", '"parallel"')
    source = kernel_source(parse_kernel(text))
    assert "streamed=True" in source
    assert "    end_streams()\n    return 0" in source
    return source


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of these tests are as large as need be."""
    monkeypatch.setattr(streaming, "STREAMED_BYTES", 1)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("extent", [128, 4096, 4097, 9999])
def test_each_element_is_written_once(
    extent: int, element: str, parse_kernel: ParseKernel
) -> None:
    source = sum_of(parse_kernel, extent, element)
    dtype = np.float32 if element == "f32" else np.float64
    random = np.random.default_rng(extent)
    a, b = (random.normal(size=extent).astype(dtype) for _ in range(2))
    for offset in (0, 1, 5, 15):
        for parts in (1, 3):
            out = np.full(extent, np.nan, dtype)
            assert run_source(source, [a, b, out], offset=offset, parts=parts) == 0
            np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("offset", [0, 3])
def test_results_may_lie_over_operands(offset: int, parse_kernel: ParseKernel) -> None:
    source = sum_of(parse_kernel, 4200, "f32")
    random = np.random.default_rng(offset)
    a, b = (random.normal(size=4200).astype(np.float32) for _ in range(2))
    wanted = a + b
    assert run_source(source, [a, b, a], offset=offset) == 0
    np.testing.assert_array_equal(a, wanted)
    assert run_source(source, [b, a, a], offset=offset) == 0
    np.testing.assert_array_equal(a, wanted + b)
