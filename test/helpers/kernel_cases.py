"""
Random kernels of one op: a text, and arrays to run it on, from a seed.

The same seed with another type of elements gives the same kernel of that type, so that
a kernel of `f64` says what one of few bits should compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Make: TypeAlias = "Callable[[Draft], None]"

FLOATS = {
    "f16": np.dtype("float16"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
}
INTEGERS = {name: np.dtype(f"int{name[1:]}") for name in ("i8", "i16", "i32", "i64")}
DTYPES = {**FLOATS, **INTEGERS, "i1": np.dtype("bool")}
HALVES = ("f16", "bf16")
EXTENTS = (2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 64, 65, 67)
BUDGET = 400_000
"""The most turns of all loops of a kernel together."""
LONG = (100, 129, 257, 300, 515, 1040)
UNSET = 77
"""The elements of results before they are written."""


def limits_of(type: str) -> Any:
    """The limits of a type of floats."""
    find: Any = ml_dtypes.finfo
    return find(DTYPES[type])


@dataclass
class Case:
    """A kernel of one op, the arrays of its arguments, and how exact it has to be."""

    op: str
    type: str
    text: str
    arrays: list[Array]
    is_exact: bool
    """Whether sums in any order have the same bits."""
    terms: int
    """The most numbers that are summed, or rounded one after the other."""
    turns: int = 0
    """The turns of all its loops."""
    wide: Case | None = None
    """The same in `f64`, where sums have errors."""

    @property
    def tolerance(self) -> float:
        """The error that is allowed, as a share of the largest result or 1."""
        if self.is_exact:
            return 0
        return float(limits_of(self.type).eps) * (64 + 8 * self.terms)


@dataclass
class Draft:
    """A kernel that is being written."""

    random: Random
    type: str
    budget: int
    """The most turns of all loops together."""
    data: int = 0
    """The seed of the elements, beside that of the kernel."""
    longer: int = 0
    """The turns that long loops have more than those of the seed."""
    is_exact: bool = False
    is_tiny: bool = False
    """
    Whether some elements may be too small to be normal, or else infinite: of two that
    are too small the product is 0 in some types only, and 0 times infinity is NaN.
    """
    arguments: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    linking: set[str] = field(default_factory=set[str])
    """The results that another op reads."""
    terms: int = 0
    turns: int = 0

    @property
    def wide(self) -> str:
        """The type that elements are computed in."""
        return "f32" if self.type in HALVES else self.type

    @property
    def is_float(self) -> bool:
        return self.type in FLOATS

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def numbers_of(self) -> np.random.Generator:
        """Random elements of one operand."""
        return np.random.default_rng([self.random.getrandbits(32), self.data])

    def loops(self, names: Sequence[str], most: Mapping[str, int] | None = None):
        """Random extents of loops, of which there are few turns in all."""
        found = {name: self._extent((most or {}).get(name, 99)) for name in names}
        while prod(max(1, n) for n in found.values()) > self.budget:
            largest = max(found, key=lambda name: found[name])
            found[largest] //= 2
        return found

    def _extent(self, most: int) -> int:
        found = self._usual_extent(most)
        return found + self.longer if found >= 16 else found

    def _usual_extent(self, most: int) -> int:
        if self.chance(0.02):
            return 0
        if self.chance(0.1):
            return 1
        if self.chance(0.1) and most >= 99:
            return self.random.choice(LONG)
        return self.random.choice([n for n in EXTENTS if n <= most] or [most])

    def numbers(self, shape: Sequence[int], type: str, span: int = 4) -> Array:
        """Elements of an operand; some are no numbers, or too small to be normal."""
        rng = self.numbers_of()
        dtype = DTYPES[type]
        if type == "i1":
            return rng.random(shape) < 0.5
        if dtype.kind == "i":
            span = min(2 ** (8 * dtype.itemsize - 1) - 1, 1000)
            return rng.integers(-span - 1, span + 1, shape).astype(dtype)
        if self.is_exact:
            found = rng.integers(-span, span + 1, shape).astype(dtype)
            strange = (np.nan, np.inf, -np.inf)
        else:
            found = rng.standard_normal(shape).astype(dtype)
            tiny = float(limits_of(type).smallest_subnormal)
            small, large = (tiny, -3 * tiny, -0.0), (np.inf, -np.inf)
            strange = (np.nan, *(small if self.is_tiny else large))
        if found.size and rng.random() < 0.3:
            for _ in range(rng.integers(1, 4)):
                found.reshape(-1)[rng.integers(found.size)] = rng.choice(strange)
        return found

    def argument(self, shape: Sequence[int], type: str = "", span: int = 4) -> str:
        """A new argument of the kernel that is read."""
        type = type or self.type
        array = self.numbers(shape, type, span)
        return self._add(shape, type, array)

    def result(self, shape: Sequence[int], type: str = "") -> str:
        """A new argument of the kernel that is written."""
        type = type or self.type
        return self._add(shape, type, np.full(shape, UNSET).astype(DTYPES[type]))

    def _add(self, shape: Sequence[int], type: str, array: Array) -> str:
        name = f"%x{len(self.arguments)}"
        self.arguments.append((name, tuple(shape), type))
        self.arrays.append(array)
        return name

    def text(self) -> str:
        arguments = ", ".join(f"{n}: {memref(s, t)}" for n, s, t in self.arguments)
        lines = "\n".join(self.lines)
        return f'launch.kernel @k target "cpu" ({arguments}) {{\n{lines}\n}}'

    def op(
        self,
        head: str,
        loops: Mapping[str, int],
        groups: Sequence[tuple[str, Sequence[Operand]]],
        region: str,
    ) -> None:
        """Write the op, with the maps of its operands in order; some are strided."""
        self.turns += prod(loops.values())
        groups = self._strided(head, loops, groups)
        names = ", ".join(loops)
        maps = ", ".join(
            f"affine_map<({names}) -> ({', '.join(operand.places)})>"
            for _, operands in groups
            for operand in operands
        )
        listed = " ".join(
            f"{word}({', '.join(x.name for x in operands)} : "
            f"{', '.join(x.memref for x in operands)})"
            for word, operands in groups
            if operands
        )
        self.lines.append(f"{head} indexing_maps = [{maps}] {listed} {region}")

    def _strided(
        self,
        head: str,
        loops: Mapping[str, int],
        groups: Sequence[tuple[str, Sequence[Operand]]],
    ) -> Sequence[tuple[str, Sequence[Operand]]]:
        """
        The same operands, some of which become every second or third element of a
        larger argument, from some place on. One of each loop says how often it runs.
        """
        # Upstream ops want places of loops that never run.
        is_empty = head.startswith("linalg") and 0 in loops.values()
        if not self.chance(0.3) or is_empty:
            return groups
        every = [operand for _, operands in groups for operand in operands]
        names = Counter(operand.name for operand in every)
        alone = Counter(place for operand in every for place in operand.places)
        # Sums are in all elements of a result.
        is_sum = head.startswith(("kernel.contract", "kernel.tile_transform"))
        found: dict[str, Operand] = {}
        for word, operands in groups:
            for operand in () if is_sum and word == "outs" else operands:
                if self._is_new(operand) and names[operand.name] == 1:
                    found[operand.name] = self._spread(operand, loops, alone)
        return [(w, [found.get(x.name, x) for x in some]) for w, some in groups]

    def _spread(
        self, operand: Operand, loops: Mapping[str, int], alone: Counter[str]
    ) -> Operand:
        places, steps = [*operand.places], [1] * len(operand.places)
        starts, ends = [0] * len(places), [0] * len(places)
        for dim, place in enumerate(operand.places):
            if place in loops and alone[place] > 1 and self.chance(0.4):
                alone[place] -= 1
                step = self.random.choice(((1, 1, 0), (1, 5, 3), (2, 0, 1), (3, 2, 0)))
                steps[dim], starts[dim], ends[dim] = step
                places[dim] = f"{place} * {steps[dim]} + {starts[dim]}"
        at = next(n for n, x in enumerate(self.arguments) if x[0] == operand.name)
        old = self.arrays[at]
        spread = map(str.__ne__, places, operand.places)
        sides = zip(old.shape, steps, starts, ends, spread, strict=True)
        shape = tuple(
            max(0, n - 1) * d + 1 + a + b if is_spread else n
            for n, d, a, b, is_spread in sides
        )
        new = np.full(shape, UNSET).astype(old.dtype)
        picks = zip(old.shape, steps, starts, strict=True)
        new[tuple(slice(a, a + n * d, d) for n, d, a in picks)] = old
        self.arrays[at] = new
        self.arguments[at] = operand.name, shape, operand.type
        return Operand(operand.name, shape, operand.type, tuple(places))

    def _is_new(self, operand: Operand) -> bool:
        """Whether an operand is an argument that no later op has."""
        arguments = [(name, shape) for name, shape, _ in self.arguments]
        is_used = any(
            f"{operand.name}," in x or f"{operand.name} " in x for x in self.lines
        )
        is_argument = (operand.name, operand.shape) in arguments
        return is_argument and not is_used and operand.name not in self.linking


@dataclass(frozen=True)
class Operand:
    """An operand of the op, and the index of each of its dimensions."""

    name: str
    shape: tuple[int, ...]
    type: str
    places: tuple[str, ...]

    @property
    def memref(self) -> str:
        return memref(self.shape, self.type)


def memref(shape: Sequence[int], type: str) -> str:
    return f"memref<{''.join(f'{n}x' for n in shape)}{type}>"


def keep_finite(array: Array) -> None:
    """Put ones for elements that are infinite or no numbers."""
    array[~np.isfinite(array.astype(float))] = 1


def operand(
    draft: Draft,
    loops: Mapping[str, int],
    places: Sequence[str],
    type: str = "",
    *,
    is_result: bool = False,
    span: int = 4,
) -> Operand:
    """An argument that is indexed by loops alone, or by 0."""
    shape = tuple(loops.get(place, 1) for place in places)
    make = draft.result if is_result else draft.argument
    name = make(shape, type) if is_result else draft.argument(shape, type, span)
    return Operand(name, shape, type or draft.type, tuple(places))


class Lines:
    """The lines of a region."""

    def __init__(self, draft: Draft):
        self.draft, self.lines = draft, list[str]()
        self.arguments: list[str] = []

    def argument(self, type: str) -> str:
        """An argument, as a number of the type that is computed in."""
        name = f"%p{len(self.arguments)}"
        self.arguments.append(f"{name}: {type}")
        return self.op("arith.extf", name, f"{type} to f32") if type in HALVES else name

    def op(self, op: str, operands: str, type: str = "") -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {op} {operands} : {type or self.draft.wide}")
        return name

    def constant(self, number: float) -> str:
        value = f"{number:e}" if self.draft.is_float else f"{int(number)}"
        return self.op("arith.constant", value)

    def two(self, op: str, a: str, b: str) -> str:
        """An op of two numbers, by its name without the kind of numbers."""
        names = {"maximum": ("maximumf", "maxsi"), "maxnum": ("maxnumf", "maxsi")}
        names["minimum"] = "minimumf", "minsi"
        of_floats, of_integers = names.get(op, (f"{op}f", f"{op}i"))
        return self.op(
            f"arith.{of_floats if self.draft.is_float else of_integers}", f"{a}, {b}"
        )

    def index(self, loop: int) -> str:
        """The turn of a loop, as a number of the type that is computed in."""
        turn = self.op("kernel.index", str(loop), "index")
        number = self.op("arith.index_cast", turn, "index to i32")
        if self.draft.is_float:
            return self.op("arith.sitofp", number, f"i32 to {self.draft.wide}")
        if self.draft.wide == "i64":
            return self.op("arith.extsi", number, "i32 to i64")
        return number

    def narrow(self, value: str) -> str:
        """A number as an element."""
        if self.draft.type not in HALVES:
            return value
        return self.op("arith.truncf", value, f"f32 to {self.draft.type}")

    def region(self, values: Sequence[str], types: Sequence[str], end: str) -> str:
        lines = "\n".join(self.lines)
        listed = f"{', '.join(values)} : {', '.join(types)}"
        return f"{{\n^bb0({', '.join(self.arguments)}):\n{lines}\n{end} {listed}\n}}"


# Contractions -----------------------------------------------------------------------


def some_of(random: Random, names: Sequence[str]) -> list[str]:
    """Some of the names, in some order."""
    found = [name for name in names if random.random() < 0.6]
    random.shuffle(found)
    return found


def ends_of(draft: Draft, out: Operand, loops: Mapping[str, int], kept: Sequence[str]):
    """The start, the finish and the results of a contraction."""
    random, lines = draft.random, None
    starts: list[Operand] = []
    if draft.chance(0.5):
        kind = random.choice(("own", "some", "all"))
        if kind == "own":
            draft.arrays[-1] = draft.numbers(out.shape, out.type)
            starts = [out]
        else:
            places = some_of(random, kept) if kind == "some" else out.places
            if all(place in loops for place in places):
                starts = [operand(draft, loops, places)]
    extras: list[Operand] = []
    outs, values = [out], list[str]()
    if draft.chance(0.6):
        lines = Lines(draft)
        lines.arguments.append(f"%sum: {draft.wide}")
        value = "%sum"
        for _ in range(random.randint(0, 2)):
            extras.append(operand(draft, loops, some_of(random, kept)))
            other = lines.argument(draft.type)
            value = lines.two(random.choice(("add", "sub", "maximum")), value, other)
        if draft.chance(0.3):
            value = lines.two("maximum", value, lines.constant(0))
        if draft.is_float and draft.chance(0.2):
            value = lines.two("mul", value, lines.constant(2))
        if draft.is_float and not draft.is_exact and draft.chance(0.2):
            value = lines.op("math.tanh", value)
        if kept and draft.chance(0.1):
            place = [*loops].index(random.choice([*kept]))
            value = lines.two("maximum", value, lines.index(place))
        values = [lines.narrow(value)]
        if draft.chance(0.15) and out.places == tuple(kept):
            outs.append(operand(draft, loops, kept, is_result=True))
            values.append(lines.narrow("%sum"))
    region = ""
    if lines is not None:
        region = lines.region(values, [draft.type] * len(values), "kernel.yield")
    return starts, extras, outs, region


def contraction(draft: Draft) -> None:
    """Products with batches, in any layout."""
    random = draft.random
    batch = ["g", "h"][: random.choice((0, 0, 1, 2))]
    rows = ["m", "p"][: random.choice((0, 1, 1, 1, 2))]
    columns = ["n", "q"][: random.choice((0, 1, 1, 1, 2))]
    terms = ["k", "l"][: random.choice((1, 1, 1, 2))]
    small = {"g": 3, "h": 3, "p": 5, "q": 5, "l": 7}
    loops = draft.loops([*batch, *rows, *columns, *terms], small)
    draft.terms = prod(loops[name] for name in terms)
    span = 1 if draft.type in HALVES else 4

    def layout(*groups: Sequence[str]) -> list[str]:
        names = [name for group in groups for name in group]
        if draft.chance(0.4):
            names = [*groups[0], *(x for group in groups[:0:-1] for x in group)]
        if draft.chance(0.15):
            random.shuffle(names)
        return names

    a = operand(draft, loops, layout(batch, rows, terms), span=span)
    b = operand(draft, loops, layout(batch, terms, columns), span=span)
    kept = layout(batch, rows, columns)
    kept = kept if draft.chance(0.2) else [*batch, *rows, *columns]
    write_contraction(draft, loops, (a, b), kept)


def write_contraction(
    draft: Draft,
    loops: Mapping[str, int],
    factors: tuple[Operand, Operand],
    kept: Sequence[str],
) -> None:
    out = operand(draft, loops, kept, is_result=True)
    starts, extras, outs, region = ends_of(draft, out, loops, kept)
    # The maps stand in the order of operands: results come before a start.
    groups = [("ins", factors), ("outs", outs), ("start", starts), ("finish", extras)]
    draft.op("kernel.contract", loops, groups, region)


def bytes_contraction(draft: Draft) -> None:
    """Products of bytes, with sums of 32 bits, which a finish may make floats."""
    random = draft.random
    loops = draft.loops(["m", "n", "k"])
    draft.terms = loops["k"]
    a_by, b_by = ["m", "k"], ["k", "n"]
    if draft.chance(0.3):
        a_by.reverse()
    if draft.chance(0.5):
        b_by.reverse()
    a, b = operand(draft, loops, a_by, "i8"), operand(draft, loops, b_by, "i8")
    words = " ".join(w for w in ("unsigned_a", "unsigned_b") if random.random() < 0.5)
    region, extras, type = "", list[Operand](), "i32"
    if draft.chance(0.5):
        type = "f32"
        extras = [operand(draft, loops, ["n"], "f32")]
        region = (
            "{\n^bb0(%s: i32, %e: f32):\n%0 = arith.sitofp %s : i32 to f32\n"
            "%1 = arith.mulf %0, %e : f32\nkernel.yield %1 : f32\n}"
        )
    out = operand(draft, loops, ["m", "n"], type, is_result=True)
    draft.op(
        "kernel.contract",
        loops,
        [("ins", (a, b)), ("outs", [out]), ("finish", extras)],
        region,
    )
    # Words of the text stand between the maps and the operands.
    accumulate = f"] accumulate i32 {words} ins("
    draft.lines[-1] = draft.lines[-1].replace("] ins(", accumulate)


def image(
    draft: Draft, loops: Mapping[str, int], outer: Sequence[str], span: int
) -> Operand:
    """Windows along `y` and `x` on an image, with zeros around it or without."""
    random = draft.random
    shape, places = [loops[name] for name in outer], [*outer]
    low, high = [0] * len(outer), [0] * len(outer)
    for place, tap in (("y", "i"), ("x", "j")):
        stride, apart = random.choice((1, 1, 2, 3)), random.choice((1, 1, 2))
        reach = max(0, loops[place] - 1) * stride + max(0, loops[tap] - 1) * apart + 1
        before, behind = random.choice(((0, 0), (1, 1), (0, 1), (2, 0)))
        before, behind = min(before, reach // 2), min(behind, reach - 1 - reach // 2)
        spare = random.choice((0, 0, 1))
        shape.append(reach - before - behind + spare)
        places.append(f"{place} * {stride} + {tap} * {apart}")
        low.append(before)
        high.append(behind)
    found = Operand(draft.argument(shape, span=span), tuple(shape), draft.type, ())
    whole = tuple(map(sum, zip(low, shape, high, strict=True)))
    name = found.name
    if any((*low, *high)):
        name = "%padded"
        draft.lines.append(
            f"{name} = kernel.padded {found.name} low {low} high {high} : "
            f"{found.memref} to {memref(whole, draft.type)}"
        )
    return Operand(name, whole, draft.type, tuple(places))


def lines_of_windows(draft: Draft) -> None:
    """The same for images that vectors are worth it for."""
    depthwise(draft, {"c": (2, 3, 7), "x": (7, 16, 17, 33, 65), "j": (1, 3, 5)})


def depthwise(
    draft: Draft, wanted: Mapping[str, Sequence[int]] = MappingProxyType({})
) -> None:
    """Convolutions of each channel on its own, with a bias or without."""
    span = 1 if draft.type in HALVES else 4
    small = {"n": 2, "c": 9, "y": 17, "i": 3, "j": 5}
    loops = draft.loops(["n", "c", "y", "x", "i", "j"], small)
    loops |= {name: draft.random.choice(some) for name, some in wanted.items()}
    draft.terms = loops["i"] * loops["j"]
    factors = (
        image(draft, loops, ["n", "c"], span),
        operand(draft, loops, ["c", "i", "j"], span=span),
    )
    if draft.chance(0.2 if wanted else 0.5):
        write_contraction(draft, loops, factors, ["n", "c", "y", "x"])
        return
    starts = [operand(draft, loops, ["c"])] if draft.chance(0.5) else []
    out = operand(draft, loops, ["n", "c", "y", "x"], is_result=True)
    groups = [("ins", factors), ("outs", [out]), ("start", starts)]
    draft.op("kernel.contract", loops, groups, "")


def convolution(draft: Draft) -> None:
    """Convolutions over images with zeros around them, in groups, and of channels."""
    span = 1 if draft.type in HALVES else 4
    is_plane, is_depthwise = draft.chance(0.6), draft.chance(0.25)
    names = ["n", "g", "f", "y", "x", "c", "i", "j"]
    small = {"n": 2, "g": 2, "f": 17, "y": 9, "c": 8, "i": 3, "j": 3}
    if is_depthwise:
        small |= {"g": 9, "f": 1, "c": 1}
    if not is_plane:
        small |= {"y": 1, "i": 1}
    loops = draft.loops(names, small)
    for name in ("f", "c") if is_depthwise else ():
        loops[name] = 1
    draft.terms = loops["c"] * loops["i"] * loops["j"]
    padded = image(draft, loops, ["n", "g", "c"], span)
    if draft.chance(0.15) and not is_depthwise:
        # The gradient of the filters: the places are terms.
        grown = operand(draft, loops, ["n", "g", "f", "y", "x"], span=span)
        draft.terms = loops["n"] * loops["y"] * loops["x"]
        write_contraction(draft, loops, (grown, padded), ["g", "f", "c", "i", "j"])
        return
    taps = operand(draft, loops, ["g", "f", "c", "i", "j"], span=span)
    factors = (padded, taps) if draft.chance(0.3) else (taps, padded)
    write_contraction(draft, loops, factors, ["n", "g", "f", "y", "x"])


def pool_of_images(draft: Draft) -> None:
    pool(draft, is_image=True)


def pool(draft: Draft, is_image: bool = False) -> None:
    """Largest elements and means of windows along some dimensions."""
    random = draft.random
    rank = random.randint(2 if is_image else 1, 4)
    count = 2 if is_image else random.randint(1, min(rank, 3))
    dims = sorted(random.sample(range(rank), count))
    if is_image or draft.chance(0.5):
        dims = list(range(rank - count, rank))
    taps = [random.choice((1, 2, 3, 3, 5)) for _ in dims]
    strides = [random.choice((1, 1, 2, 3)) for _ in dims]
    apart = [random.choice((1, 1, 1, 2)) for _ in dims]
    low = [
        random.randint(0, (n - 1) * d // 2) for n, d in zip(taps, apart, strict=True)
    ]
    high = [
        random.randint(0, (n - 1) * d // 2) for n, d in zip(taps, apart, strict=True)
    ]
    shape = [random.choice((1, 2, 3, 5)) for _ in range(rank)]
    result = list(shape)
    for at, dim in enumerate(dims):
        windows = random.choice(
            (1, 2, 5, 8, 17, 33) if dim == rank - 1 else (1, 2, 4, 7)
        )
        reach = (windows - 1) * strides[at] + (taps[at] - 1) * apart[at] + 1
        shape[dim] = max(1, reach - low[at] - high[at] + random.choice((0, 0, 1)))
        room = shape[dim] + low[at] + high[at] - (taps[at] - 1) * apart[at] - 1
        result[dim] = room // strides[at] + 1
    draft.terms, draft.turns = prod(taps), prod(result) * prod(taps)
    kind = random.choice(("max", "mean")) if draft.is_float else "max"
    if kind == "mean":
        draft.is_exact = False
    words = f"{kind} window {taps} strides {strides} dilations {apart}"
    words += f" pads {[*low, *high]}" + " counted" * (
        kind == "mean" and draft.chance(0.5)
    )
    if not draft.is_float and draft.chance(0.5):
        words += " unsigned"
    x, y = draft.argument(shape), draft.result(result)
    draft.lines.append(
        f"kernel.pool {words} dims {dims} ins({x} : {memref(shape, draft.type)}) "
        f"outs({y} : {memref(result, draft.type)})"
    )


# Rows -------------------------------------------------------------------------------


def long_rows(draft: Draft) -> None:
    """Few rows that are too long for the registers of a warp."""
    row(draft, is_long=True)


def row(draft: Draft, is_long: bool = False) -> None:
    """Folds of rows, and points that are computed of them."""
    random = draft.random
    if not is_long and draft.chance(0.15):
        columns(draft)
        return
    names = ["r", "s", "e", "d"][: random.choice((2, 3, 4))]
    random.shuffle(names)
    count = random.choice((1, 1, 1, 2))
    along = sorted(random.sample(range(len(names)), min(count, len(names) - 1)))
    if draft.chance(0.5):
        along = [len(names) - 1]
    points = [names[n] for n in along]
    rows = [name for name in names if name not in points]
    small = {name: 300 for name in points[-1:]}
    loops = draft.loops(names, {"s": 5, "d": 5} | small)
    if draft.chance(0.3):
        loops[points[-1]] = random.choice((100, 128, 257, 300))
    if is_long or draft.chance(0.15):
        loops = {name: 1 for name in names}
        loops[rows[0]] = random.choice((1, 2, 3))
        loops[points[-1]] = random.choice((1100, 2049, 4096))
    draft.terms = prod(loops[name] for name in points)
    layout = list(names)
    if draft.chance(0.2):
        random.shuffle(layout)
    span = 1 if draft.type in HALVES else 4
    ins = [operand(draft, loops, layout, span=span)]
    lines = Lines(draft)
    value = lines.argument(draft.type)
    if draft.chance(0.4):
        ins.append(operand(draft, loops, some_of(random, names), span=span))
        value = lines.two("add", value, lines.argument(draft.type))
    form = random.choice(FORMS if draft.is_float and not draft.is_exact else EXACT)
    uniform, point = form(draft, lines, value)
    outs, values = list[Operand](), list[str]()
    if point is not None:
        if draft.chance(0.3):
            ins.append(operand(draft, loops, some_of(random, names), span=span))
            point = lines.two("sub", point, lines.argument(draft.type))
        outs.append(operand(draft, loops, layout, is_result=True))
        values.append(lines.narrow(point))
    if point is None or draft.chance(0.2):
        outs.append(operand(draft, loops, rows, is_result=True))
        values.append(lines.narrow(uniform))
    region = lines.region(values, [draft.type] * len(values), "kernel.yield")
    head = f"kernel.row along {along}"
    draft.op(head, loops, [("ins", ins), ("outs", outs)], region)


def columns(draft: Draft) -> None:
    """A fold of few, long columns."""
    count = draft.random.choice((64, 67, 130, 300)), draft.random.choice((1, 3, 8, 33))
    loops = dict(zip("er", count, strict=True))
    draft.terms = loops["e"]
    span = 1 if draft.type in HALVES else 4
    ins = [operand(draft, loops, ["e", "r"], span=span)]
    lines = Lines(draft)
    found = fold(
        lines, draft.random.choice(kinds_of(draft)), lines.argument(draft.type)
    )
    outs = [operand(draft, loops, ["r"], is_result=True)]
    region = lines.region([lines.narrow(found)], [draft.type], "kernel.yield")
    draft.op("kernel.row along [0]", loops, [("ins", ins), ("outs", outs)], region)


def kinds_of(draft: Draft) -> Sequence[str]:
    """The folds of numbers of a type whose results are of that type."""
    if draft.is_float:
        return "add", "maxnumf", "minnumf", "maximumf", "minimumf"
    return "add", "mul", "maxsi", "minsi", "maxui", "minui", "andi", "ori"


def fold(lines: Lines, kind: str, value: str) -> str:
    return lines.op(f"kernel.all_reduce {kind}", value)


def plain_fold(draft: Draft, lines: Lines, value: str) -> tuple[str, str | None]:
    """A fold alone, or with what it is subtracted from."""
    found = fold(lines, draft.random.choice(kinds_of(draft)), value)
    if draft.chance(0.5):
        return found, None
    return found, lines.two("sub", value, found)


def two_folds(draft: Draft, lines: Lines, value: str) -> tuple[str, str | None]:
    """Folds that need each other."""
    largest = "maxnumf" if draft.is_float else "maxsi"
    top = fold(lines, largest, value)
    rest = lines.two("sub", value, top)
    kept = lines.op("kernel.keep", rest) if draft.chance(0.5) else rest
    total = fold(lines, "add", kept)
    return lines.two("add", top, total), lines.two("maximum", kept, total)


def softmax(draft: Draft, lines: Lines, value: str) -> tuple[str, str | None]:
    top = fold(lines, "maxnumf", value)
    power = lines.op("math.exp", lines.two("sub", value, top))
    kept = lines.op("kernel.keep", power)
    total = fold(lines, "add", kept)
    if draft.chance(0.5):
        share = lines.two("div", lines.constant(1), total)
        return total, lines.two("mul", kept, share)
    return total, lines.two("div", kept, total)


def log_sum(draft: Draft, lines: Lines, value: str) -> tuple[str, str | None]:
    top = fold(lines, "maxnumf", value)
    power = lines.op("math.exp", lines.two("sub", value, top))
    total = lines.op("math.log", fold(lines, "add", power))
    whole = lines.two("add", top, total)
    return whole, lines.two("sub", value, whole)


def normal(draft: Draft, lines: Lines, value: str) -> tuple[str, str | None]:
    count = lines.constant(max(1, draft.terms))
    mean = lines.two("div", fold(lines, "add", value), count)
    off = lines.two("sub", value, mean)
    squares = fold(lines, "add", lines.two("mul", off, off))
    spread = lines.two("add", lines.two("div", squares, count), lines.constant(0.5))
    root = lines.op("math.rsqrt", spread)
    return mean, lines.two("mul", off, root)


EXACT = (plain_fold, two_folds)
FORMS = (plain_fold, two_folds, softmax, log_sum, normal)


# Attention --------------------------------------------------------------------------


def attention_of_halves(draft: Draft) -> None:
    """Attention whose heads are as long as tensor cores take them."""
    attention(draft, [16, 32, 64])


def attention(draft: Draft, heads: Sequence[int] = ()) -> None:
    """Attention in random layouts, with masks, and rows that see some of the keys."""
    random = draft.random
    stack = ["s", "g"][: random.choice((0, 1, 1, 2))]
    small = {"s": 3, "g": 3, "t": 65, "c": 65}
    loops = draft.loops([*stack, "r", "k", "t", "c"], small)
    loops["k"] = max(1, loops["k"])
    if heads:
        loops |= {"t": random.choice(heads), "c": random.choice(heads)}
    draft.terms = loops["k"] + loops["t"]
    shared = stack[1:] if draft.chance(0.3) else stack

    def layout(names: Sequence[str]) -> list[str]:
        names = list(names)
        if draft.chance(0.25):
            # As from a product: heads within rows.
            names[-3:-1] = names[-3:-1][::-1]
        if draft.chance(0.1):
            random.shuffle(names)
        return names

    q = operand(draft, loops, layout([*stack, "r", "t"]))
    k = operand(draft, loops, layout([*shared, "k", "t"]))
    v = operand(draft, loops, layout([*shared, "k", "c"]))
    lines = Lines(draft)
    lines.arguments.append(f"%sum: {draft.wide}")
    value = lines.two("mul", "%sum", lines.constant(0.25))
    inputs: list[Operand] = []
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        inputs.append(operand(draft, loops, some_of(random, [*stack, "r", "k"])))
        mask = draft.arrays[-1]
        if draft.chance(0.5):
            rng = draft.numbers_of()
            mask[rng.random(mask.shape) < 0.3] = -np.inf
        value = lines.two("add", value, lines.argument(draft.type))
    if draft.chance(0.15):
        value = lines.op("math.tanh", value)
    is_far = False
    if draft.chance(0.1):
        name = random.choice([*stack, "r", "k"])
        is_far = name == "k"
        value = lines.two("maxnum", value, lines.index([*loops].index(name)))
    out = operand(draft, loops, layout([*stack, "r", "c"]), is_result=True)
    sums: list[Operand] = []
    if draft.chance(0.4):
        places = layout([*stack, "r"])
        sums.append(operand(draft, loops, places, is_result=True, type=draft.wide))
    causal = ""
    if draft.chance(0.4):
        causal = f"causal {random.choice([0, 1, 5, loops['k'] - 1])}"
        if int(causal.split()[1]) >= loops["k"]:
            causal = ""
    if causal or is_far:
        # A value that a row does not see is multiplied with 0, or not at all, and the
        # share of one whose score is far below others is 0 in some types only.
        keep_finite(draft.arrays[2])
    region = lines.region([value], [draft.wide], "kernel.yield")
    groups = [("ins", (q, k, v)), ("score", inputs), ("outs", [out]), ("lse", sums)]
    draft.op(f"kernel.attention {causal}", loops, groups, region)
    if heads:
        # Scores, and then values, are summed in tiles.
        scores = prod(n for name, n in loops.items() if name not in "tc")
        draft.turns = scores * (loops["t"] + loops["c"]) // 2


def attention_gradient(draft: Draft) -> None:
    """Gradients of attention in random layouts, with masks, and for groups of heads."""
    random = draft.random
    stack = ["s", "g"][: random.choice((0, 1, 1, 2))]
    small = {"s": 3, "g": 3, "r": 67, "k": 67, "t": 33, "c": 33}
    loops = draft.loops([*stack, "r", "k", "t", "c"], small)
    loops["k"] = max(1, loops["k"])
    draft.terms = loops["k"] * loops["r"] + loops["t"] + loops["c"]
    shared = stack[1:] if draft.chance(0.3) else stack
    of_queries = stack[1:] if draft.chance(0.1) else stack

    def layout(names: Sequence[str]) -> list[str]:
        names = list(names)
        if draft.chance(0.25):
            # As from a product: heads within rows.
            names[-3:-1] = names[-3:-1][::-1]
        if draft.chance(0.05):
            random.shuffle(names)
        return names

    places = [*of_queries, "r", "t"], [*shared, "k", "t"], [*shared, "k", "c"]
    ins = [operand(draft, loops, layout(names)) for names in places]
    ins.append(operand(draft, loops, layout([*stack, "r", "c"])))
    rows = [operand(draft, loops, [*stack, "r"], draft.wide) for _ in range(2)]
    for array in draft.arrays:
        # Each factor counts for many results: one that is no number leaves nothing.
        keep_finite(array)
    # The logarithm of a sum of exponentials is not less than one of its scores.
    lse = draft.arrays[4]
    lse[...] = np.abs(lse) + (4 if draft.type in HALVES else 8)
    lines = Lines(draft)
    lines.arguments.append(f"%sum: {draft.wide}")
    slope = lines.constant(0.125)
    value = lines.two("mul", "%sum", slope)
    inputs: list[Operand] = []
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        inputs.append(operand(draft, loops, some_of(random, [*stack, "r", "k"])))
        mask = draft.arrays[-1]
        values = mask.astype(float)
        mask[~np.isfinite(values) | (values > 1)] = 1
        if draft.chance(0.5):
            rng = draft.numbers_of()
            mask[rng.random(mask.shape) < 0.3] = -np.inf
        value = lines.two("add", value, lines.argument(draft.type))
    if draft.chance(0.15):
        # The derivative of a score that is kept between bounds.
        value = lines.op("math.tanh", value)
        square = lines.two("mul", value, value)
        left = lines.two("sub", lines.constant(1.0), square)
        slope = lines.two("mul", slope, left)
    outs = [
        operand(draft, loops, layout(x), draft.wide, is_result=True) for x in places
    ]
    causal = ""
    if draft.chance(0.4):
        offset = random.choice([0, 1, 5])
        causal = f"causal {offset}" if offset < loops["k"] else ""
    region = lines.region([value, slope], [draft.wide] * 2, "kernel.yield")
    groups = [("ins", ins), ("rows", rows), ("score", inputs), ("outs", outs)]
    draft.op(f"kernel.attention_gradient {causal}", loops, groups, region)


# Transforms, indices, maps ----------------------------------------------------------


def tile_transform(draft: Draft) -> None:
    """Transforms of tiles that lie apart or overlap, in random layouts."""
    random, span = draft.random, 1 if draft.type in HALVES else 2
    small = {"i": 6, "j": 6, "k": 8, "l": 8, "s": 9}
    loops = draft.loops(["i", "j", "s", "t", "k", "l"], small)
    if draft.chance(0.5):
        k, i = random.choice(((6, 4), (4, 2), (4, 4), (6, 6), (8, 6)))
        loops |= {"k": k, "l": k, "i": i, "j": i}
    draft.terms = loops["k"] * loops["l"]
    p = operand(draft, loops, ["i", "k"], span=span)
    q = operand(draft, loops, ["j", "l"], span=span)
    for matrix in draft.arrays:
        # Of two factors of an infinity, sums of either one may be taken first.
        keep_finite(matrix)
    places = list(random.choice((["k", "l", "s", "t"], ["s", "t", "k", "l"])))
    if draft.chance(0.4):
        step = random.choice((2, 4))
        reach = max(0, loops["t"] - 1) * step + max(1, loops["l"])
        places = ["s", "k", f"t * {step} + l"]
        shape = loops["s"], loops["k"], reach
        d = Operand(draft.argument(shape, span=span), shape, draft.type, tuple(places))
    else:
        d = operand(draft, loops, places, span=span)
    kept = ["i", "j", "s", "t"]
    if draft.chance(0.4):
        kept = random.choice((["s", "i", "t", "j"], ["s", "t", "i", "j"]))
    starts = []
    if draft.chance(0.5):
        starts = [operand(draft, loops, some_of(random, kept))]
    out = operand(draft, loops, kept, is_result=True)
    groups = [("ins", (p, q, d)), ("outs", [out]), ("start", starts)]
    draft.op("kernel.tile_transform", loops, groups, "")


def places_of(draft: Draft, shape: Sequence[int], extent: int, type: str) -> str:
    """Indices in range, some from the end."""
    name = draft.argument(shape, type)
    array = draft.arrays[-1]
    rng = draft.numbers_of()
    array[...] = rng.integers(-extent, max(extent, 1 - extent), shape)
    return name


def by_indices(draft: Draft) -> tuple[int, tuple[Any, ...]]:
    """An axis, and the shapes of the whole, of indices and of slices."""
    random = draft.random
    whole = [
        random.choice((1, 2, 3, 7, 9, 17, 33)) for _ in range(random.randint(1, 3))
    ]
    axis = random.randrange(len(whole))
    indices = [random.choice((0, 1, 2, 5, 9)) for _ in range(random.randint(0, 2))]
    slices = [*whole[:axis], *indices, *whole[axis + 1 :]]
    return axis, (whole, indices, slices, random.choice(("i32", "i64")))


def gather(draft: Draft) -> None:
    axis, (whole, indices, slices, index) = by_indices(draft)
    x = draft.argument(whole)
    i = places_of(draft, indices, whole[axis], index)
    y = draft.result(slices)
    types = memref(whole, draft.type), memref(indices, index)
    draft.lines.append(
        f"kernel.gather axis {axis} ins({x}, {i} : {', '.join(types)}) "
        f"outs({y} : {memref(slices, draft.type)})"
    )


def scatter(draft: Draft) -> None:
    axis, (whole, indices, slices, index) = by_indices(draft)
    i = places_of(draft, indices, whole[axis], index)
    u = draft.argument(slices, span=1)
    y = draft.argument(whole, span=1)
    lines = Lines(draft)
    new, old = lines.argument(draft.type), lines.argument(draft.type)
    made = draft.random.choice(("add", "sub", "maximum", "new", "old"))
    value = {"new": new, "old": old}.get(made) or lines.two(made, old, new)
    region = lines.region([lines.narrow(value)], [draft.type], "kernel.yield")
    draft.terms = prod(indices)
    types = memref(indices, index), memref(slices, draft.type)
    draft.lines.append(
        f"kernel.scatter axis {axis} ins({i}, {u} : {', '.join(types)}) "
        f"outs({y} : {memref(whole, draft.type)}) {region}"
    )


def elementwise(draft: Draft) -> None:
    """A map with broadcast and transposed operands, and several results."""
    random = draft.random
    names = ["a", "b", "c"][: random.randint(1, 3)]
    loops = draft.loops(names, {"a": 9} if len(names) > 1 else {"a": 300})
    lines, ins = Lines(draft), list[Operand]()
    value = ""
    for number in range(random.randint(1, 3)):
        places = some_of(random, names) if number else list(names)
        if not number and draft.chance(0.2):
            random.shuffle(places)
        ins.append(operand(draft, loops, places))
        new = lines.argument(draft.type)
        op = random.choice(("add", "sub", "maximum", "minimum", "mul"))
        value = lines.two(op, value, new) if value else new
    outs = [operand(draft, loops, names, is_result=True)]
    values = [lines.narrow(value)]
    for _ in range(random.choice((0, 0, 1))):
        outs.append(operand(draft, loops, names, is_result=True))
        values.append(lines.narrow(lines.two("add", value, value)))
    write_map(draft, loops, lines, ins, outs, values)


def write_map(
    draft: Draft,
    loops: Mapping[str, int],
    lines: Lines,
    ins: Sequence[Operand],
    outs: Sequence[Operand],
    values: Sequence[str],
) -> None:
    lines.arguments += [f"%o{n}: {x.type}" for n, x in enumerate(outs)]
    region = lines.region(values, [draft.type] * len(values), "linalg.yield")
    draft.op("linalg.generic", loops, [("ins", ins), ("outs", outs)], region)
    parallel = ", ".join(['"parallel"'] * len(loops))
    text = draft.lines[-1].replace("linalg.generic ", "linalg.generic {")
    draft.lines[-1] = text.replace(
        "] ins(", f"], iterator_types = [{parallel}]}} ins(", 1
    )


# Chains -----------------------------------------------------------------------------


def chain(draft: Draft) -> None:
    """Two or three ops, each of which reads the result of the one before."""
    draft.budget //= 3
    last = CHAINED[draft.random.choice((0, 0, 1, 2))](draft, None)
    for _ in range(draft.random.choice((1, 2, 2))):
        last = draft.random.choice(CHAINED)(draft, last)


def chained_loops(
    draft: Draft, last: Operand | None, names: Sequence[str]
) -> dict[str, int]:
    """Loops of an op of a chain, of which the first two are those of its operand."""
    if last is None:
        return draft.loops(names)
    rows, columns = last.shape
    other = min(max(1, draft.budget // max(1, rows * columns)), 70)
    rest = {name: min(other, draft.loops([name])[name]) for name in names[2:]}
    return {names[0]: rows, names[1]: columns, **rest}


def chained_operand(
    draft: Draft, loops: Mapping[str, int], last: Operand | None, names: Sequence[str]
) -> Operand:
    """The operand of an op of a chain that is a result, or a new argument."""
    if last is None:
        return operand(draft, loops, names, span=1)
    return Operand(last.name, last.shape, last.type, tuple(names))


def linking(draft: Draft, loops: Mapping[str, int], names: Sequence[str]) -> Operand:
    """The result of an op of a chain."""
    found = operand(draft, loops, names, is_result=True)
    draft.linking.add(found.name)
    return found


def chained_product(draft: Draft, last: Operand | None) -> Operand:
    loops = chained_loops(draft, last, ["m", "k", "n"])
    draft.terms += loops["k"]
    a = chained_operand(draft, loops, last, ["m", "k"])
    b = operand(draft, loops, ["k", "n"], span=1)
    if last is not None and not draft.is_exact:
        # Shares of a softmax of products may be 0 in some types only.
        keep_finite(draft.arrays[-1])
    factors = (a, b) if draft.chance(0.7) else (b, a)
    out = linking(draft, loops, ["m", "n"])
    starts, extras, outs, region = ends_of(draft, out, loops, ["m", "n"])
    groups = [("ins", factors), ("outs", outs), ("start", starts), ("finish", extras)]
    draft.op("kernel.contract", loops, groups, region)
    return out


def chained_row(draft: Draft, last: Operand | None) -> Operand:
    loops = chained_loops(draft, last, ["r", "e"])
    draft.terms += loops["e"]
    lines = Lines(draft)
    value = lines.argument(draft.type)
    is_exact = draft.is_exact or not draft.is_float
    form = draft.random.choice(EXACT if is_exact else FORMS)
    uniform, point = form(draft, lines, value)
    point = point or lines.two("sub", value, uniform)
    ins = [chained_operand(draft, loops, last, ["r", "e"])]
    outs = [linking(draft, loops, ["r", "e"])]
    region = lines.region([lines.narrow(point)], [draft.type], "kernel.yield")
    along = "kernel.row along [1]"
    draft.op(along, loops, [("ins", ins), ("outs", outs)], region)
    return outs[0]


def chained_map(draft: Draft, last: Operand | None) -> Operand:
    loops = chained_loops(draft, last, ["a", "b"])
    draft.terms += 1
    lines = Lines(draft)
    op = draft.random.choice(("add", "sub", "maximum"))
    ins = [operand(draft, loops, some_of(draft.random, ["a", "b"]))]
    if last is not None and draft.chance(0.3):
        value = lines.two(op, "%o0", lines.argument(draft.type))
        own = chained_operand(draft, loops, last, ["a", "b"])
        write_map(draft, loops, lines, ins, [own], [lines.narrow(value)])
        return last
    ins.append(chained_operand(draft, loops, last, ["a", "b"]))
    value = lines.two(op, *(lines.argument(draft.type) for _ in ins))
    names = ["b", "a"] if draft.chance(0.3) else ["a", "b"]
    outs = [linking(draft, loops, names)]
    write_map(draft, loops, lines, ins, outs, [lines.narrow(value)])
    return outs[0]


CHAINED = (chained_product, chained_row, chained_map)
"""The ops of a chain, each of rows and columns to rows and columns."""


ALL = (*FLOATS, "i32", "i64")
MAKERS: Mapping[str, tuple[str, Make, Sequence[str]]] = {
    "products": ("kernel.contract", contraction, (*ALL, "f32", "f32")),
    "products of bytes": ("kernel.contract", bytes_contraction, ("i8",)),
    "convolutions": ("kernel.contract", convolution, (*FLOATS, "f32", "i32")),
    "depthwise convolutions": ("kernel.contract", depthwise, (*FLOATS, "f32", "f32")),
    "lines of windows": ("kernel.contract", lines_of_windows, ("f32", "f64", "f16")),
    "rows": ("kernel.row", row, (*ALL, "f32", "f32", "i8", "i16")),
    "long rows": ("kernel.row", long_rows, (*ALL, "f32")),
    "pools": ("kernel.pool", pool, (*ALL, "f32", "i8")),
    "pools of images": ("kernel.pool", pool_of_images, ("f32", "f64", "i32")),
    "attention": ("kernel.attention", attention, (*FLOATS, "f32")),
    "attention of halves": ("kernel.attention", attention_of_halves, HALVES),
    "gradients of attention": (
        "kernel.attention_gradient",
        attention_gradient,
        (*FLOATS, "f32"),
    ),
    "transforms": ("kernel.tile_transform", tile_transform, tuple(FLOATS)),
    "gathers": ("kernel.gather", gather, (*ALL, "i8", "i1")),
    "scatters": ("kernel.scatter", scatter, (*ALL, "i8")),
    "maps": ("linalg.generic", elementwise, (*ALL, "i8")),
    "chains": ("kernel.contract", chain, ("f32", "f64", "i32", "i64")),
}
"""Kinds of cases: the op, the function that writes one, and the types of elements."""


def case_of(
    kind: str, seed: int, data: int = 0, type: str = "", longer: int = 0
) -> Case:
    """
    The kernel of a kind that a seed gives, with elements by another one; of a type of
    elements if one is asked, and with other extents: long loops have more turns.
    """
    op, make, types = MAKERS[kind]
    random = Random(f"{kind} {seed}")
    own = random.choice(types)
    is_exact = random.random() < 0.5 and "kernel.attention" not in op
    is_exact = is_exact or own not in FLOATS
    is_tiny = Random(f"{kind} {seed} {data}").random() < 0.5
    draft = Draft(random, type or own, BUDGET, data, longer, is_exact, is_tiny)
    make(draft)
    text, arrays = draft.text(), draft.arrays
    is_exact = draft.is_exact or op == "kernel.gather"
    if op == "kernel.contract" and draft.type in HALVES:
        # Sums of as many products of 1 as this have all their bits.
        is_exact &= draft.terms * float(limits_of(draft.type).eps) <= 1
    case = Case(op, draft.type, text, arrays, is_exact, draft.terms, draft.turns)
    if not is_exact and not type:
        case.wide = case_of(kind, seed, data, "f64", longer)
        pairs = zip(arrays, case.wide.arrays, strict=True)
        case.wide.arrays = [x.astype(wide.dtype) for x, wide in pairs]
    return case
