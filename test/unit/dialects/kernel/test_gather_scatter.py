"""`kernel.gather` and `kernel.scatter`: meaning and loops, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_source
from numpy.typing import NDArray

from penstock.dialects.kernel.indices import OUT_OF_RANGE
from penstock.dialects.kernel.interface import Effect, How, StructuredOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = "Callable[[str], KernelOp]"

DTYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}


@dataclass(frozen=True)
class Sizes:
    """The shapes of a memref and of indices along one of its axes."""

    whole: tuple[int, ...]
    indices: tuple[int, ...]
    axis: int
    type: str = "f32"
    index: str = "i64"

    @property
    def slices(self) -> tuple[int, ...]:
        return (*self.whole[: self.axis], *self.indices, *self.whole[self.axis + 1 :])

    @property
    def types(self) -> tuple[str, str, str]:
        """The memrefs: the whole one, indices, and slices."""
        return (
            memref(self.whole, self.type),
            memref(self.indices, self.index),
            memref(self.slices, self.type),
        )

    @property
    def gather(self) -> str:
        x, i, y = self.types
        return f"""
          launch.kernel @k target "cpu" (%x: {x}, %i: {i}, %y: {y}) {{
            kernel.gather axis {self.axis} ins(%x, %i : {x}, {i}) outs(%y : {y})
          }}"""

    def scatter(self, made: str) -> str:
        """The kernel whose region makes an element by these lines."""
        y, i, u = self.types
        return f"""
          launch.kernel @k target "cpu" (%i: {i}, %u: {u}, %y: {y}) {{
            kernel.scatter axis {self.axis} ins(%i, %u : {i}, {u}) outs(%y : {y}) {{
            ^bb0(%new: {self.type}, %old: {self.type}):
              {made}
            }}
          }}"""

    def places(self, rng: np.random.Generator) -> Array:
        """Indices, some of which count from the end, and some are equal."""
        extent = self.whole[self.axis]
        found = rng.integers(-extent, max(extent, 1 - extent), self.indices)
        return found.astype(DTYPES[self.index])

    def numbers(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        found = rng.integers(-50, 50, shape).astype(DTYPES[self.type])
        if found.dtype.kind == "f":
            found[rng.random(shape) < 0.1] = np.nan
        return found


def memref(shape: tuple[int, ...], type: str) -> str:
    return f"memref<{''.join(f'{extent}x' for extent in shape)}{type}>"


CASES = (
    Sizes((9, 4), (2, 3), 0),
    Sizes((5, 9, 3), (7,), 1, "f64", "i32"),
    Sizes((4, 1), (2, 2), 1, "i32"),
    Sizes((9,), (), 0, "i64"),
    Sizes((9, 4), (), 0),
    Sizes((7, 3), (0,), 0),
    Sizes((7, 0), (2,), 0),
    Sizes((3, 17), (33,), 1),
)


def op_in(kernel: KernelOp) -> StructuredOp:
    (op,) = kernel.body.block.ops
    assert isinstance(op, StructuredOp)
    return op


def check(kernel: KernelOp, arrays: list[Array], wanted: Array) -> None:
    """Compare meaning and loops with a result, and sources of the op and its loops."""
    before = [array.copy() for array in arrays]
    (found,) = op_in(kernel).evaluate(*arrays)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    source = kernel_source(kernel)
    replace_by_loops(op_in(kernel))
    assert kernel_source(kernel) == source
    assert not unproven_accesses(kernel)
    assert run_source(kernel_source(kernel), arrays) == 0
    np.testing.assert_array_equal(arrays[-1], wanted)


@pytest.mark.parametrize("sizes", CASES)
def test_gather_takes_slices(sizes: Sizes, parse_kernel: ParseKernel) -> None:
    rng = fresh()
    data, places = sizes.numbers(rng, sizes.whole), sizes.places(rng)
    wanted = np.empty(sizes.slices, data.dtype)
    before = (slice(None),) * sizes.axis
    for at in np.ndindex(sizes.indices):
        wanted[(*before, *at)] = data[(*before, int(places[at]))]
    arrays = [data, places, np.full_like(wanted, 7)]
    check(parse_kernel(sizes.gather), arrays, wanted)


MADE: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "set": ("kernel.yield %new : T", lambda new, old: new),
    # The order of updates shows.
    "half": (
        "%h = arith.constant 5.0e-01 : T\n%a = arith.mulf %old, %h : T\n"
        "%b = arith.subf %new, %a : T\nkernel.yield %b : T",
        lambda new, old: (new - old * old.dtype.type(0.5)).astype(old.dtype),
    ),
    "mad": (
        "%a = arith.muli %old, %new : T\n%b = arith.addi %a, %new : T\n"
        "kernel.yield %b : T",
        lambda new, old: old * new + new,
    ),
    "nothing": ("kernel.yield %old : T", lambda new, old: old),
}


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        (Sizes((9, 4), (2, 3), 0), "half"),
        (Sizes((5, 9, 3), (7,), 1, "f64", "i32"), "half"),
        (Sizes((4, 1), (2, 2), 1, "i32"), "mad"),
        (Sizes((9,), (), 0, "i64"), "mad"),
        (Sizes((9, 4), (), 0), "nothing"),
        (Sizes((7, 3), (0,), 0), "set"),
        (Sizes((7, 0), (2,), 0), "half"),
        (Sizes((3, 17), (33,), 1), "set"),
    ],
)
def test_scatter_writes_updates_in_order(
    sizes: Sizes, name: str, parse_kernel: ParseKernel
) -> None:
    rng = fresh()
    made, function = MADE[name]
    data, places = sizes.numbers(rng, sizes.whole), sizes.places(rng)
    updates = sizes.numbers(rng, sizes.slices)
    wanted = data.copy()
    before = (slice(None),) * sizes.axis
    with np.errstate(all="ignore"):
        for at in np.ndindex(sizes.indices):
            slot = (*before, int(places[at]))
            wanted[slot] = function(updates[(*before, *at)], wanted[slot])
    text = sizes.scatter(made.replace(": T", f": {sizes.type}"))
    check(parse_kernel(text), [places, updates, data], wanted)


def test_an_index_out_of_range_is_an_error(parse_kernel: ParseKernel) -> None:
    sizes = Sizes((9, 4), (3,), 0)
    texts = (sizes.gather, sizes.scatter("kernel.yield %new : f32"))
    whole, slices = np.zeros((9, 4), "float32"), np.ones((3, 4), "float32")
    places = np.zeros(3, np.int64)
    both = [whole, places, slices], [places, slices, whole]
    for text, arrays in zip(texts, both, strict=True):
        kernel = parse_kernel(text)
        assert kernel.can_fail
        assert [*kernel.failures] == [OUT_OF_RANGE]
        for index in (9, -10, 1 << 40, -(1 << 63)):
            places[1] = index
            with pytest.raises(IndexError, match=OUT_OF_RANGE):
                op_in(kernel).evaluate(*arrays)
            assert run_source(kernel_source(kernel), arrays) == 1
        replace_by_loops(op_in(kernel))
        assert [*kernel.failures] == [OUT_OF_RANGE]


def test_facts(parse_kernel: ParseKernel) -> None:
    sizes = Sizes((5, 9, 3), (2, 7), 1)
    add = "%0 = arith.addf %old, %new : f32\nkernel.yield %0 : f32"
    gather, scatter = (
        op_in(parse_kernel(text)) for text in (sizes.gather, sizes.scatter(add))
    )
    for op in (gather, scatter):
        assert op.loops().extents == (5, 2, 7, 3)
        assert {role: [*loops] for role, loops in op.roles().items()} == {
            "place": [1, 2],
            "element": [0, 3],
        }
        assert op.work() == 5 * 2 * 7 * 3
    assert gather.loops().reductions == (False,) * 4
    assert scatter.loops().reductions == (False, True, True, False)
    x, i, y = gather.operands
    reads = Effect(x, How.READ), Effect(i, How.READ)
    assert [*gather.effects()] == [*reads, Effect(y, How.WRITE, 5 * 2 * 7 * 3)]
    i, u, y = scatter.operands
    reads = Effect(i, How.READ), Effect(u, How.READ), Effect(y, How.READ)
    assert [*scatter.effects()] == [*reads, Effect(y, How.WRITE, 0)]
