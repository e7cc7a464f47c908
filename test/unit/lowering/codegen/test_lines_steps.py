"""Lines that load elements some steps apart, at places that are computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]


def stepping(extent: int, step: int, type: str, target: str = "%o") -> str:
    """A kernel that adds elements `step * i` and `step * i + 1` of a vector."""
    elements = step * extent + 2
    return f"""
      launch.kernel @k target "cpu"
        (%a: memref<{elements}x{type}>, %o: memref<{elements}x{type}>) {{
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %extent = arith.constant {extent} : index
        "scf.parallel"(%zero, %one, %one) <{{operandSegmentSizes = \
array<i32: 1, 1, 1, 0>}}> ({{
        ^bb0(%row: index):
          scf.for %i = %zero to %extent step %one {{
            %step = arith.constant {step} : index
            %at = arith.muli %step, %i : index
            %next = arith.addi %at, %one : index
            %x = memref.load %a[%at] : memref<{elements}x{type}>
            %y = memref.load %a[%next] : memref<{elements}x{type}>
            %s = arith.addf %x, %y : {type}
            memref.store %s, {target}[%i] : memref<{elements}x{type}>
          }}
          scf.reduce
        }}) : (index, index, index) -> ()
      }}"""


@pytest.mark.parametrize("extent", [2, 5, 8, 15, 16, 17, 31, 32, 33, 64, 77, 200])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_elements_some_steps_apart(
    extent: int, step: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    for type, dtype in (("f32", np.float32), ("f64", np.float64)):
        made = parse_kernel(stepping(extent, step, type))
        assert "line(" in kernel_source(made)
        a = np.random.default_rng(extent).normal(size=step * extent + 2).astype(dtype)
        out = np.full_like(a, 7)
        wanted = out.copy()
        ends = slice(0, step * extent, step), slice(1, step * extent + 1, step)
        wanted[:extent] = a[ends[0]] + a[ends[1]]
        run_kernel(made, [a, out])
        np.testing.assert_array_equal(out, wanted)


def test_what_other_turns_need_is_not_overwritten(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    made = parse_kernel(stepping(40, 1, "f32", "%a"))
    assert "line(" not in kernel_source(made)
    a = np.random.default_rng(3).normal(size=42).astype(np.float32)
    wanted = a.copy()
    wanted[:40] = a[:40] + a[1:41]
    run_kernel(made, [a, np.zeros_like(a)])
    np.testing.assert_array_equal(a, wanted)


def test_elements_far_apart_are_no_line(parse_kernel: ParseKernel) -> None:
    made = parse_kernel(stepping(40, 5, "f32"))
    assert "line(" not in kernel_source(made)
