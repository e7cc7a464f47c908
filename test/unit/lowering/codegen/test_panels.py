"""Constants that lie in panels: how they are stored, and what kernels make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from draws import draws
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kernel_runs import result_of
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp, PanelsAttr
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr, panel_bytes
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.loading.weight_layout import as_stored, as_usual
from penstock.runtime.program.executable import Panels

Array: TypeAlias = NDArray[np.floating]
TYPES = {"f32": (f32, np.float32, 2.0**-24), "f64": (f64, np.float64, 2.0**-53)}


def brute_force(array: NDArray[np.generic], panels: Panels) -> list[object]:
    """The elements in the order that `#launch.panels` tells, one by one."""
    found: list[object] = []
    for matrix in array.reshape(panels.shape):
        lines = matrix.T if panels.axis == 1 else matrix
        terms, extent = lines.shape
        for block in range(0, terms, panels.depth):
            for panel in range(0, extent, panels.width):
                step = panels.group
                for term in range(block, min(terms, block + panels.depth), step):
                    group = lines[term : term + step, panel : panel + panels.width]
                    found += list(group.T.reshape(-1))
    return found


@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    axis=st.sampled_from([1, 2]),
    size=st.sampled_from([1, 2, 4]),
    data=st.data(),
)
def test_elements_are_stored_panel_by_panel(
    shape: tuple[int, int, int], axis: int, size: int, data: st.DataObject
) -> None:
    width = data.draw(st.integers(1, shape[axis]))
    depth = data.draw(st.integers(1, shape[3 - axis])) * size
    matrices, *extents = shape
    extents[2 - axis] *= size
    shape = matrices, extents[0], extents[1]
    panels = Panels(shape, axis, width, depth, size)
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    stored = as_stored(array, panels)
    assert stored.reshape(-1).tolist() == brute_force(array, panels)
    np.testing.assert_array_equal(as_usual(stored.reshape(-1), panels), array.ravel())


def kernel_of(op: TensorOp) -> KernelOp:
    """The kernel of an op, for the processor."""
    return KernelOp("k", "cpu", kernel_body(op))


def operands(type: str, *shapes: tuple[int, ...]) -> tuple[Block, list[Array]]:
    """Arguments of a type and random arrays for them."""
    element, dtype, _ = TYPES[type]
    random = np.random.default_rng([1, *(n for shape in shapes for n in shape)])
    arrays: list[Array] = [random.normal(size=shape).astype(dtype) for shape in shapes]
    return Block(arg_types=[TensorType(element, shape) for shape in shapes]), arrays


def check(found: Array, exact: Array, size: Array, terms: int, type: str) -> None:
    """Compare sums within what any order of their terms may be wrong by."""
    bound = 2 * (terms + 2) * TYPES[type][2] * size
    assert (abs(found - exact) <= bound).all()


@pytest.mark.slow
@settings(max_examples=draws(12), deadline=None)
@given(
    m=st.sampled_from([2, 5, 8, 33, 97, 130]),
    n=st.sampled_from([1, 3, 10, 16, 49, 64, 97, 98, 130]),
    k=st.sampled_from([1, 7, 64, 700]),
    transposed=st.tuples(st.booleans(), st.booleans()),
    constant=st.sampled_from([0, 1]),
    type=st.sampled_from(["f32", "f64"]),
    vector_bytes=st.sampled_from([16, 32, 64]),
    parts=st.integers(1, 3),
)
@example(130, 10, 700, (False, False), 1, "f32", 64, 2)
@example(9, 3, 700, (False, False), 1, "f64", 32, 3)
@example(5, 2, 64, (False, False), 1, "f32", 16, 1)
def test_products_with_a_constant(
    m: int,
    n: int,
    k: int,
    transposed: tuple[bool, bool],
    constant: int,
    type: str,
    vector_bytes: int,
    parts: int,
) -> None:
    left, right = transposed
    shapes = (k, m) if left else (m, k), (n, k) if right else (k, n)
    block, (a, b) = operands(type, *shapes)
    names = ("transpose_a", "transpose_b")
    flags = zip(names, transposed, strict=True)
    op = MatmulOp.inferred(block.args, {name: UnitAttr() for name, on in flags if on})
    kernel = kernel_of(op)
    schedule_kernel(kernel, vector_bytes, constants={constant})
    found = result_of(kernel, [a, b], parts)
    wide = np.float64 if type == "f32" else np.longdouble
    x, y = (a.T if left else a).astype(wide), (b.T if right else b).astype(wide)
    check(found, x @ y, abs(x) @ abs(y), k, type)


def convolved(x: Array, w: Array, stride: int, groups: int) -> Array:
    """The convolution in 64 bits, without pads."""
    windows = sliding_window_view(np.asarray(x, np.float64), w.shape[2:], (2, 3))
    parts = [
        np.einsum("nchwij,ocij->nohw", images, taps, optimize=True)
        for images, taps in zip(
            np.split(windows[:, :, ::stride, ::stride], groups, 1),
            np.split(np.asarray(w, np.float64), groups),
            strict=True,
        )
    ]
    return np.concatenate(parts, 1)


@pytest.mark.parametrize(
    ("channels", "extent", "outputs", "taps", "stride", "groups"),
    [
        (40, 7, 24, 1, 1, 1),  # 49 columns: three vectors and an edge
        (30, 9, 19, 3, 1, 1),  # the same, of windows, with rows left over
        (6, 16, 8, 3, 1, 1),  # four times 49 columns
        (8, 12, 12, 3, 1, 2),  # groups
        (3, 23, 10, 5, 2, 1),
    ],
)
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_convolutions_with_constant_weights(
    channels: int,
    extent: int,
    outputs: int,
    taps: int,
    stride: int,
    groups: int,
    type: str,
) -> None:
    shapes = (2, channels, extent, extent), (outputs, channels // groups, taps, taps)
    block, (x, w) = operands(type, *shapes)
    properties = {
        "strides": int_list([stride] * 2),
        "groups": IntegerAttr(groups, i64),
    }
    op = Conv2dOp.inferred(block.args, properties)
    kernel = kernel_of(op)
    schedule_kernel(kernel, 64, constants={1})
    assert kernel.panels[1] is not None
    found = result_of(kernel, [x, w], parts=2)
    exact, size = (
        convolved(a, b, stride, groups) for a, b in ((x, w), (abs(x), abs(w)))
    )
    check(found, exact, size, channels * taps**2 + 30, type)


EDGED = """
launch.kernel @k target "cpu" (%a: memref<20x8xf32>, %b: memref<8x98xf32>,
    %row: memref<20xf32>, %column: memref<98xf32>, %both: memref<20x98xf32>,
    %o: memref<20x98xf32>) {{
  linalg.generic {{indexing_maps = [{row}, {both}],
                   iterator_types = ["parallel", "parallel"]}}
    ins(%row : memref<20xf32>) outs(%o : memref<20x98xf32>) {{
  ^bb0(%x: f32, %s: f32):
    linalg.yield %x : f32
  }}
  linalg.matmul ins(%a, %b : memref<20x8xf32>, memref<8x98xf32>)
    outs(%o : memref<20x98xf32>)
  linalg.generic {{indexing_maps = [{column}, {both}, {both}],
                   iterator_types = ["parallel", "parallel"]}}
    ins(%column, %both : memref<98xf32>, memref<20x98xf32>)
    outs(%o : memref<20x98xf32>) {{
  ^bb0(%x: f32, %y: f32, %s: f32):
    %t = arith.mulf %s, %x : f32
    %u = arith.subf %t, %y : f32
    linalg.yield %u : f32
  }}
}}"""


def test_edges_take_what_follows_the_sums(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    # What is added changes along rows, along columns, or along both.
    maps = {
        name: f"affine_map<(i, j) -> ({dims})>"
        for name, dims in (("row", "i"), ("column", "j"), ("both", "i, j"))
    }
    kernel = parse_raised(EDGED.format(**maps))
    schedule_kernel(kernel, 64, constants={0})
    (schedule,) = (
        op.attributes[SCHEDULE] for op in kernel.walk() if SCHEDULE in op.attributes
    )
    assert isinstance(schedule, ContractionAttr)
    assert schedule.edge == 1
    assert "def finish_0(x, s, p0, p1, p2):" in kernel_source(kernel)
    shapes = (20, 8), (8, 98), (20,), (98,), (20, 98)
    _, ins = operands("f32", *shapes)
    a, b, row, column, both = ins
    assert kernel.panels[0] is not None
    out = result_of(kernel, ins)
    wide = [x.astype(np.float64) for x in (a, b)]
    exact = (wide[0] @ wide[1] + row[:, None]) * column - both
    np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-4)


@given(
    vectors=st.integers(1, 4),
    lanes=st.sampled_from([1, 4, 16]),
    edge=st.integers(0, 16),
    columns=st.integers(1, 300),
)
@example(4, 8, 2, 33)
def test_panels_have_room_for_the_vectors_of_the_last_columns(
    vectors: int, lanes: int, edge: int, columns: int
) -> None:
    schedule = ContractionAttr(
        "outer", (4, vectors, lanes), (4, 3), packed=True, edge=edge, panels="a"
    )
    last = columns % schedule.columns
    room = panel_bytes(schedule, 1) // 3
    assert -(-last // lanes) * lanes <= room
    assert room - schedule.columns < lanes


def test_edges_of_several_columns_are_computed() -> None:
    block, (a, b) = operands("f64", (48, 17), (17, 33))
    op = MatmulOp.inferred(block.args, {})
    kernel = kernel_of(op)
    schedule_kernel(kernel, 64, constants={0})
    (stage,) = (each for each in kernel.walk() if SCHEDULE in each.attributes)
    stage.attributes[SCHEDULE] = ContractionAttr(
        "outer", (6, 4, 8), (96, 8), packed=True, edge=2, panels="a"
    )
    lies = PanelsAttr((1, 48, 17), 1, 6, 8)
    kernel.attributes[PANELS] = ArrayAttr([lies, UnitAttr(), UnitAttr()])
    found = result_of(kernel, [a, b])
    x, y = a.astype(np.longdouble), b.astype(np.longdouble)
    check(found, x @ y, abs(x) @ abs(y), 17, "f64")


KERNEL = """
launch.kernel @k target "cpu" (%a: memref<8x8xf32>, %b: memref<8x49xf32>,
    %o: memref<8x49xf32>) {panels} {{
  linalg.matmul {{schedule = {schedule}}}
    ins(%a, %b : memref<8x8xf32>, memref<8x49xf32>) outs(%o : memref<8x49xf32>)
}}
"""
LIES = "#launch.panels<[1, 8, 8], axis 1, width 4, depth 8>"
READS = "#launch.contraction<outer, tile [4, 3, 16], block [8, 8], packed, panels a>"


@pytest.mark.parametrize(
    ("panels", "schedule", "message"),
    [
        (
            "[unit, unit, unit]",
            READS,
            f"a lies in the usual order, and is read in {LIES}",
        ),
        (
            f"[{LIES}, unit, unit]",
            READS.replace(", panels a", ""),
            f"a lies in {LIES}, and is read in the usual order",
        ),
        (
            f"[{LIES}, unit, unit]",
            READS.replace("4, 3", "8, 3"),
            f"a lies in {LIES}, and is read in {LIES.replace('width 4', 'width 8')}",
        ),
    ],
)
def test_what_lies_otherwise_than_it_is_read_is_refused(
    panels: str,
    schedule: str,
    message: str,
    parse_raised: Callable[[str], KernelOp],
) -> None:
    text = KERNEL.format(panels=f"attributes {{panels = {panels}}}", schedule=schedule)
    with pytest.raises(LocatedPassFailure, match="does not fit") as info:
        kernel_source(parse_raised(text))
    assert message in str(info.value)


def test_what_is_read_outside_of_tiles_may_not_lie_in_panels(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    kernel = parse_raised("""
    launch.kernel @k target "cpu" (%a: memref<8x8xf32>, %o: memref<8x8xf32>) attributes
        {panels = [#launch.panels<[1, 8, 8], axis 1, width 4, depth 8>, unit]} {
      "memref.copy"(%a, %o) : (memref<8x8xf32>, memref<8x8xf32>) -> ()
    }""")
    with pytest.raises(LocatedPassFailure, match="which only tiles read"):
        kernel_source(kernel)
    assert PANELS in kernel.attributes


def test_a_kernel_reads_in_tiles_alone_what_lies_in_panels(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    """Tiles read the sums of others, which lie as these have written them."""
    kernel = parse_kernel("""launch.kernel @kernel target "cpu" (%x: memref<8x8xf32>,
        %a: memref<8x8xf32>, %o: memref<8x8xf32>) attributes
        {panels = [unit, #launch.panels<[1, 8, 8], axis 1, width 4, depth 8>, unit]} {
      kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
          affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
          ins(%x, %x : memref<8x8xf32>, memref<8x8xf32>) outs(%a : memref<8x8xf32>)
          attributes {schedule = #launch.contraction<outer, tile [4, 1, 8],
              block [8, 8]>}
      kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
          affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
          ins(%a, %x : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)
          attributes {schedule = #launch.contraction<outer, tile [4, 1, 8],
              block [8, 8], panels a>}
    }""")
    with pytest.raises(LocatedPassFailure, match="which only tiles read") as failure:
        kernel_source(kernel)
    (finding,) = failure.value.findings
    assert finding[0] is kernel.body.block.first_op
