"""`kernel.pool`: its meaning, its loops and its schedule, against NumPy written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import draws, fresh
from kernel_runs import result_of
from xdsl.dialects.builtin import StringAttr

from penstock.dialects.kernel.interface import (
    REFUSAL,
    SCHEDULE,
    Effect,
    How,
    StructuredOp,
    element_of,
)
from penstock.dialects.kernel.pool import PoolOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.kernel.windows import MAX_UNROLLED
from penstock.dialects.launch import KernelOp, WindowThreadsAttr
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cuda.kernel_schedule import (
    schedule_kernel as schedule_for_cuda,
)
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = Any
Parse: TypeAlias = Callable[[str], KernelOp]

EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22, "f64": 2.0**-51}
FLOATS = tuple(EPSILON)


@dataclass(frozen=True)
class Case:
    """A pool: lists have a number for each of `dims`."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    more: tuple[bool, ...] = ()
    """Whether the last windows may end behind the pads."""
    kind: str = "max"
    type: str = "f32"

    @property
    def facts(self) -> Iterator[tuple[int, int, int, int, int, int, bool]]:
        """Of each of `dims`: itself, taps, stride, dilation, pads, `more`."""
        count = len(self.dims)
        ones, pads = (1,) * count, self.pads or (0,) * 2 * count
        lists = self.strides or ones, self.dilations or ones, pads[:count], pads[count:]
        more = self.more or (False,) * count
        return zip(self.dims, self.window, *lists, more, strict=True)

    @property
    def places(self) -> list[list[list[int]]]:
        """Where the taps of each window lie, along each dimension."""
        found = [[[at] for at in range(extent)] for extent in self.shape]
        for dim, taps, stride, dilation, before, after, more in self.facts:
            extent, own = self.shape[dim], list[list[int]]()
            span, start = dilation * (taps - 1) + 1, -before
            while start + span <= extent + after:
                own.append([start + dilation * tap for tap in range(taps)])
                start += stride
            # One more has room for a tap that is none of the pads behind it.
            if more and start - stride + span < extent + after and start < extent:
                own.append([start + dilation * tap for tap in range(taps)])
            found[dim] = own
        return found

    @property
    def result(self) -> tuple[int, ...]:
        return tuple(len(windows) for windows in self.places)

    @property
    def text(self) -> str:
        x, y = (
            f"memref<{''.join(f'{n}x' for n in shape)}{self.type.lstrip('u')}>"
            for shape in (self.shape, self.result)
        )
        lists = {name: getattr(self, name) for name in ("strides", "dilations", "pads")}
        words = [
            *(self.kind.split()[0], f"window {[*self.window]}"),
            *(f"{name} {[*numbers]}" for name, numbers in lists.items() if numbers),
            *self.kind.split()[1:],
            *(["unsigned"] if self.type.startswith("u") else []),
            f"dims {[*self.dims]}",
        ]
        return f"""
          launch.kernel @k target "cpu" (%x: {x}, %y: {y}) {{
            kernel.pool {" ".join(words)} ins(%x : {x}) outs(%y : {y})
          }}"""

    def numbers(self, rng: np.random.Generator, dtype: Any) -> Array:
        if self.type == "i1":
            return rng.random(self.shape) < 0.2
        if self.type not in FLOATS:
            return rng.integers(-120, 120, self.shape).astype(dtype)
        found = rng.normal(size=self.shape).astype(dtype)
        if self.kind == "max":
            found[rng.random(self.shape) < 0.05] = np.nan
            found[rng.random(self.shape) < 0.05] = -np.inf
        return found

    def wanted(self, x: Array) -> Array:
        """The result, window by window; means in 64 bits."""
        is_max = self.kind == "max"
        wide = x.astype(float) if self.type in FLOATS else x
        if self.type[0] == "u":
            wide = x.view(x.dtype.str.replace("i", "u"))
        lowest: Any = False if self.type == "i1" else -np.inf
        if self.type not in ("i1", *FLOATS):
            lowest = np.iinfo(wide.dtype).min
        found = np.empty(self.result, wide.dtype if is_max else np.float64)
        ends = {dim: self.shape[dim] for dim in range(len(self.shape))}
        starts = dict.fromkeys(ends, 0)
        if "counted" in self.kind:
            for dim, _, _, _, before, after, _ in self.facts:
                starts[dim], ends[dim] = -before, self.shape[dim] + after
        for at in np.ndindex(self.result):
            taps: list[list[int]] = [
                windows[n] for windows, n in zip(self.places, at, strict=True)
            ]
            inside = [
                wide[place]
                for place in product(*taps)
                if all(0 <= p < n for p, n in zip(place, self.shape, strict=True))
            ]
            if is_max:
                found[at] = np.max(np.array([lowest, *inside], wide.dtype))
                continue
            count = prod(
                sum(starts[dim] <= p < ends[dim] for p in own)
                for dim, own in enumerate(taps)
            )
            total = sum(float(element) for element in inside)
            found[at] = total / count if count else np.nan
        return found.view(x.dtype) if found.itemsize == x.itemsize else found

    def check(self, found: Array, wanted: Array) -> None:
        if self.kind == "max":
            wide = found.astype(float) if self.type in FLOATS else found
            np.testing.assert_array_equal(wide, wanted)
            return
        error = 20 * EPSILON[self.type]
        np.testing.assert_allclose(found.astype(float), wanted, error, error)


IMAGES = Case((2, 3, 9, 13), (2, 3), (3, 3), (2, 2), pads=(1, 1, 1, 1))
CASES = {
    "lines": IMAGES,
    "means of lines": replace(IMAGES, kind="mean", type="f64"),
    "means that count pads": replace(IMAGES, kind="mean counted", more=(True,) * 2),
    "means of halves": replace(IMAGES, kind="mean", type="bf16"),
    "largest of halves": replace(IMAGES, type="f16"),
    "bytes": replace(IMAGES, type="i8"),
    "unsigned bytes": replace(IMAGES, type="ui8", strides=(1, 3)),
    "booleans": replace(IMAGES, type="i1", strides=()),
    "along one dimension": Case((4, 9, 5), (1,), (3,), (2,), (2,), (1, 2), (True,)),
    "channels last": Case((1, 6, 7, 5), (1, 2), (2, 3), (2, 1), kind="mean"),
    "three dimensions": Case(
        (5, 6, 4, 3), (0, 1, 2), (2, 3, 2), pads=(1, 2, 0, 0, 1, 1)
    ),
    "pads alone": Case((1, 5), (0, 1), (2, 1), (), (2, 1), (1, 0, 1, 0)),
    "no channels": Case((2, 0, 5, 5), (2, 3), (2, 2)),
    "no rows": Case((2, 0, 5), (1, 2), (2, 2), pads=(1, 0, 1, 0)),
    "one element": Case((1,), (0,), (1,), kind="mean counted"),
    "means of taps apart": Case(
        (7, 9), (0, 1), (3, 2), (2, 2), (2, 3), (2, 1, 2, 1), kind="mean"
    ),
    "means of pads alone": Case(
        (0, 9), (0, 1), (4, 4), (2, 3), (1, 1), (2, 1, 2, 1), (True, False), "mean"
    ),
}


def op_in(kernel: KernelOp) -> PoolOp:
    (op,) = kernel.body.block.ops
    assert isinstance(op, PoolOp)
    return op


def operands(op: PoolOp, case: Case, rng: np.random.Generator) -> tuple[Array, Array]:
    """The input, and a result that is not yet written."""
    dtype = dtype_of(element_of(op.input))
    return case.numbers(rng, dtype), np.full(case.result, 7, dtype)


@pytest.mark.parametrize("name", CASES)
def test_meaning_and_loops(name: str, parse_kernel: Parse) -> None:
    case, rng = CASES[name], fresh()
    kernel = parse_kernel(case.text)
    op = op_in(kernel)
    x, y = operands(op, case, rng)
    before, wanted = x.copy(), case.wanted(x)
    (found,) = op.evaluate(x, y)
    assert (found.shape, found.dtype) == (y.shape, x.dtype)
    assert x.tobytes() == before.tobytes()
    case.check(found, wanted)
    source = kernel_source(kernel)
    replace_by_loops(op)
    assert kernel_source(kernel) == source
    assert not unproven_accesses(kernel)
    case.check(result_of(kernel, [x]), wanted)


SCHEDULED = (
    "lines",
    "means of lines",
    "means that count pads",
    "means of taps apart",
    "means of pads alone",
)


@pytest.mark.parametrize("name", SCHEDULED)
@pytest.mark.parametrize("vector_bytes", [16, 64])
def test_the_schedule_of_cpus(
    name: str, vector_bytes: int, parse_kernel: Parse
) -> None:
    check_schedule(parse_kernel, CASES[name], vector_bytes, fresh())


def check_schedule(
    parse_kernel: Parse, case: Case, vector_bytes: int, rng: np.random.Generator
) -> bool:
    """Compare the micro-kernel with the meaning; False if there is none."""
    kernel = parse_kernel(case.text)
    op = op_in(kernel)
    schedule_kernel(kernel, vector_bytes)
    if SCHEDULE not in op.attributes:
        return False
    assert "pooling_micro_kernel" in kernel_source(kernel)
    x, _ = operands(op, case, rng)
    case.check(result_of(kernel, [x], parts=3), case.wanted(x))
    return True


@pytest.mark.parametrize("name", CASES)
def test_threads_of_devices(name: str, parse_kernel: Parse) -> None:
    check_threads(parse_kernel, CASES[name], fresh())


def check_threads(parse_kernel: Parse, case: Case, rng: np.random.Generator) -> None:
    """Compare a thread an element, in all forms, with the meaning."""
    kernel = parse_kernel(case.text.replace('"cpu"', '"cuda"'))
    op = op_in(kernel)
    schedule_for_cuda(kernel, 132)
    if 0 in case.result:
        assert op.attributes[REFUSAL] == StringAttr("there are no windows")
        return
    x, _ = operands(op, case, rng)
    is_near = 0 not in case.shape and set(case.dilations) <= {1}
    is_small = prod(case.window) <= MAX_UNROLLED
    usual = WindowThreadsAttr("taps" if is_near and is_small else "loops")
    assert op.attributes[SCHEDULE] == usual
    for schedule in {usual, WindowThreadsAttr("loops")}:
        op.attributes[SCHEDULE] = schedule
        case.check(result_of(kernel, [x]), case.wanted(x))


def test_what_has_no_schedule_says_why(parse_kernel: Parse) -> None:
    reasons = {
        "bytes": "windows of i8 are not computed in vectors",
        "channels last": "windows do not move along the last two dimensions",
        "along one dimension": "windows do not move along the last two dimensions",
        "no channels": "there are no windows",
    }
    for name, why in reasons.items():
        kernel = parse_kernel(CASES[name].text)
        schedule_kernel(kernel, 64)
        assert op_in(kernel).attributes[REFUSAL] == StringAttr(why)


def test_facts(parse_kernel: Parse) -> None:
    op = op_in(parse_kernel(replace(IMAGES, kind="mean").text))
    assert op.roles() == {"window": (2, 3), "plane": [0, 1]}
    assert op.loops() == ((2, 3, 5, 7), (False,) * 4)
    # Of 15 and 21 taps down and across all but the two at each end are inside.
    assert op.work() == 6 * 13 * 19 + 6 * 35
    x, y = op.operands
    assert [*op.effects()] == [Effect(x, How.READ), Effect(y, How.WRITE, 210)]
    assert not op.aliases()
    assert isinstance(op, StructuredOp)


def some_case(rng: np.random.Generator) -> Case:
    """A pool of a few elements that the verifier takes."""

    def some(count: int, *choices: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.choice(choices, count))

    while True:
        rank = int(rng.integers(1, 5))
        count = int(rng.integers(1, min(rank, 3) + 1))
        dims = sorted(rng.choice(rank, count, replace=False))
        if rng.random() < 0.6 and rank > 1:
            dims, count = [rank - 2, rank - 1], 2
        kinds = "max", "max", "mean", "mean counted"
        case = Case(
            some(rank, 0, 1, 2, 3, 5, 9, 17)
            if rank < 3
            else some(rank, 1, 2, 3, 7, 11),
            tuple(map(int, dims)),
            some(count, 1, 2, 3, 4),
            some(count, 1, 1, 2, 3),
            some(count, 1, 1, 1, 2, 3),
            some(2 * count, 0, 1, 2),
            tuple(bool(x) for x in some(count, 0, 1)),
            str(rng.choice(kinds)),
            str(rng.choice(["f32", "f32", "f64", "f16"])),
        )
        windows = case.window * 2
        is_valid = all(p < w for p, w in zip(case.pads, windows, strict=True))
        if is_valid and all(case.places) and prod(case.shape) < 2000:
            return case


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(draws(1)))
def test_any_pool(seed: int, parse_kernel: Parse) -> None:
    rng, scheduled = fresh(), 0
    for _ in range(12):
        case = some_case(rng)
        print(case)
        kernel = parse_kernel(case.text)
        op = op_in(kernel)
        x, y = operands(op, case, rng)
        wanted = case.wanted(x)
        case.check(op.evaluate(x, y)[0], wanted)
        scheduled += check_schedule(parse_kernel, case, 32, rng)
        replace_by_loops(op)
        case.check(result_of(kernel, [x]), wanted)
        check_threads(parse_kernel, case, rng)


def test_any_meaning(parse_kernel: Parse) -> None:
    rng = fresh()
    for _ in range(60):
        case = some_case(rng)
        print(case)
        op = op_in(parse_kernel(case.text))
        x, y = operands(op, case, rng)
        case.check(op.evaluate(x, y)[0], case.wanted(x))
