"""`kernel.tile_transform`: its meaning, its loops and its schedule, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr

from penstock.dialects.kernel.interface import NO_FINISH, REFUSAL, SCHEDULE
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel

Array: TypeAlias = NDArray[np.floating]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


FINISH = """finish(%f : {extra}) {{
            ^bb0(%sum: {type}, %factor: {type}):
              %zero = arith.constant 0.0 : {type}
              %0 = arith.mulf %sum, %factor : {type}
              %1 = arith.maximumf %0, %zero : {type}
              kernel.yield %1 : {type}
            }}"""


@dataclass(frozen=True)
class Sizes:
    """The extents of tiles d, of results, and how many there are, in two loops."""

    terms: tuple[int, int]
    results: tuple[int, int]
    tiles: tuple[int, int]
    type: str = "f32"
    start: str = ""
    """The index of what sums start from."""
    is_finished: bool = False
    """Whether sums are multiplied with a number of their row of tiles, and cut at 0."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of p, q, d, of the start, and of the result."""
        (k, l), (i, j), (s, t) = self.terms, self.results, self.tiles  # noqa: E741
        extents = {"s": s, "t": t, "i": i, "j": j}
        start = (
            [tuple(extents[x] for x in self.start.split(", "))] if self.start else []
        )
        extra = [(s,)] if self.is_finished else []
        return [(i, k), (j, l), (k, l, s, t), *start, *extra, (s, i, t, j)]

    @property
    def text(self) -> str:
        """The kernel."""
        types = [
            f"memref<{'x'.join(map(str, shape))}x{self.type}>" for shape in self.shapes
        ]
        p, q, d, *given, out = types
        names = [*["%c"] * bool(self.start), *["%f"] * self.is_finished]
        places = ["i, k", "j, l", "k, l, s, t", "s, i, t, j"]
        places += [self.start] * bool(self.start) + ["s"] * self.is_finished
        maps = ", ".join(f"affine_map<(i, j, s, t, k, l) -> ({x})>" for x in places)
        begin = f"start(%c : {given[0]})" if self.start else ""
        end = FINISH.format(extra=given[-1], type=self.type) if self.is_finished else ""
        arguments = "".join(map("{}: {}, ".format, names, given))
        return f"""
          launch.kernel @k target "cpu" (%p: {p}, %q: {q}, %d: {d},
              {arguments}%o: {out}) {{
            kernel.tile_transform indexing_maps = [{maps}]
              ins(%p, %q, %d : {p}, {q}, {d}) outs(%o : {out}) {begin} {end}
          }}"""

    def arrays(self, rng: np.random.Generator) -> list[Array]:
        """Random operands, and a result that is not yet written."""
        *given, out = self.shapes
        arrays = [rng.standard_normal(shape) for shape in given]
        dtype = DTYPES[self.type]
        return [*(x.astype(dtype) for x in arrays), np.full(out, 7.5, dtype)]


def exact(sizes: Sizes, arrays: list[Array]) -> NDArray[np.float64]:
    """Tiles between matrices, in 64 bits."""
    p, q, d, *others = (array.astype(np.float64) for array in arrays[:-1])
    found = np.einsum("ik,jl,klst->sitj", p, q, d)
    factor = others.pop() if sizes.is_finished else None
    for addend in others:
        letters = sizes.start.replace(", ", "")
        found = found + np.einsum(f"{letters},sitj->sitj", addend, np.ones_like(found))
    if factor is not None:
        found = np.maximum(found * factor[:, None, None, None], 0)
    return found


def transform_in(kernel: KernelOp) -> TileTransformOp:
    (op,) = (x for x in kernel.body.block.ops if isinstance(x, TileTransformOp))
    return op


CASES = (
    Sizes((6, 6), (4, 4), (3, 5), start="s"),
    Sizes((6, 6), (4, 4), (2, 19), start="t"),
    Sizes((3, 5), (2, 1), (1, 7), "f64", "s, i, t, j"),
    Sizes((1, 1), (1, 1), (1, 1)),
    Sizes((4, 4), (2, 2), (0, 3)),
    Sizes((6, 6), (4, 4), (2, 3), "f16"),
    Sizes((6, 6), (4, 4), (3, 5), start="s", is_finished=True),
    Sizes((3, 5), (2, 1), (3, 7), "f64", is_finished=True),
)


@pytest.mark.parametrize("sizes", CASES)
def test_meaning_loops_and_schedule_agree_with_numpy(
    sizes: Sizes, parse_kernel: Callable[[str], KernelOp]
) -> None:
    arrays = sizes.arrays(fresh())
    wanted = exact(sizes, arrays)
    # At most 36 terms of about 1, each rounded a few times.
    tolerance = 400 * float(np.finfo(DTYPES[sizes.type]).eps)
    kernel = parse_kernel(sizes.text)
    before = [array.copy() for array in arrays]
    *given, out = arrays
    (found,) = transform_in(kernel).evaluate(*given[:3], out, *given[3:])
    assert found.dtype == arrays[-1].dtype
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    meant = found.astype(np.float64)
    np.testing.assert_allclose(meant, wanted, rtol=tolerance, atol=tolerance)

    schedule_kernel(kernel, 32)
    if SCHEDULE in transform_in(kernel).attributes:
        lanes = run_on_copies(kernel, arrays, parts=3)[-1]
        np.testing.assert_allclose(lanes, wanted, rtol=tolerance, atol=tolerance)

    replace_by_loops(transform_in(kernel))
    if sizes.type != "f16":
        loops = run_on_copies(kernel, arrays, parts=3)[-1]
        np.testing.assert_allclose(loops, wanted, rtol=tolerance, atol=tolerance)


REFUSED = {
    "elements are f16": Sizes((6, 6), (4, 4), (2, 3), "f16"),
    "there are no elements": Sizes((6, 6), (4, 4), (0, 3)),
    "tiles of 9 elements on an axis are larger than 8": Sizes((6, 9), (4, 4), (2, 3)),
    "neither tiles nor results follow each other": Sizes((6, 6), (4, 3), (2, 3)),
    "the start: it is not read in the order of the result": Sizes(
        (6, 6), (4, 4), (3, 3), start="t, s"
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_no_schedule_says_why(
    why: str, parse_kernel: Callable[[str], KernelOp]
) -> None:
    kernel = parse_kernel(REFUSED[why].text)
    schedule_kernel(kernel, 32)
    assert transform_in(kernel).attributes[REFUSAL] == StringAttr(why)


def test_a_finish_between_other_tiles_is_a_stage_of_its_own(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes((3, 5), (2, 1), (3, 7), "f64", is_finished=True)
    kernel = parse_kernel(sizes.text)
    schedule_kernel(kernel, 32)
    why = "finish: the results of a tile do not follow each other"
    assert transform_in(kernel).attributes[NO_FINISH] == StringAttr(why)
    assert [op.name for op in stages_of(kernel.body.block)][1:] == ["linalg.generic"]


def test_a_finish_with_two_results_is_a_stage_of_its_own(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    sizes = Sizes((6, 6), (4, 4), (3, 5), is_finished=True)
    out, place = "memref<3x4x5x4xf32>", "affine_map<(i, j, s, t, k, l) -> (s, i, t, j)>"
    text = sizes.text.replace(f"outs(%o : {out})", f"outs(%o, %n : {out}, {out})")
    text = text.replace(f"%o: {out}", f"%o: {out}, %n: {out}")
    text = text.replace(place, f"{place}, {place}")
    text = text.replace("kernel.yield %1 : f32", "kernel.yield %1, %0 : f32, f32")
    kernel = parse_kernel(text)
    schedule_kernel(kernel, 32)
    why = "finish: transforms store one result"
    assert transform_in(kernel).attributes[NO_FINISH] == StringAttr(why)
    arrays = sizes.arrays(fresh())
    found = run_on_copies(kernel, [*arrays, np.full_like(arrays[-1], 7.5)], parts=3)
    tolerance = 400 * float(np.finfo(np.float32).eps)
    wanted = exact(sizes, arrays)
    np.testing.assert_allclose(found[-2], wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        np.maximum(found[-1], 0), wanted, rtol=tolerance, atol=tolerance
    )


STEP = """
launch.kernel @k target "cpu" (%b: memref<{n}x{n}xf32>, %x: memref<{n}x50xf32>,
    %v: memref<{n}x{n}x{t}xf32>) {{
  kernel.tile_transform indexing_maps = [
      affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>,
      affine_map<(i, j, t, k, l) -> ({place})>,
      affine_map<(i, j, t, k, l) -> (i, j, t)>]
    ins(%b, %b, %x : memref<{n}x{n}xf32>, memref<{n}x{n}xf32>, memref<{n}x50xf32>)
    outs(%v : memref<{n}x{n}x{t}xf32>)
}}
"""


@pytest.mark.parametrize(
    ("why", "n", "place"),
    [
        ("tiles of 5 elements overlap after 2", 5, "k, t * 2 + l"),
        (
            "the elements of overlapping tiles do not follow each other",
            5,
            "k, t * 2 + l * 3",
        ),
    ],
)
def test_tiles_that_overlap_too_much_say_so(
    why: str, n: int, place: str, parse_kernel: Callable[[str], KernelOp]
) -> None:
    kernel = parse_kernel(STEP.format(n=n, t=10, place=place))
    schedule_kernel(kernel, 32)
    assert transform_in(kernel).attributes[REFUSAL] == StringAttr(why)


def test_work_is_that_of_rows_and_then_of_columns(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    op = transform_in(parse_kernel(Sizes((6, 5), (4, 3), (2, 7)).text))
    assert op.work() == 2 * 14 * (6 * 3 * 5 + 4 * 6 * 3)


def test_effects_are_reads_of_all_and_a_write_of_the_result(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    op = transform_in(parse_kernel(Sizes((6, 6), (4, 4), (2, 3), start="s").text))
    found = [(x.value, x.how.value, x.elements) for x in op.effects()]
    given = [op.p, op.q, op.tiles, op.start]
    reads = [(value, "read", None) for value in given]
    assert found == [*reads, (op.outs[0], "write", 2 * 3 * 4 * 4)]
