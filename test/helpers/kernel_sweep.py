"""
Random kernels with all kinds of schedules, against what their ops mean.

A kernel is computed by NumPy (`evaluate`, in `f64` where sums have no order of their
own), by the loops of its op, and with schedules: those that passes choose, and others,
field by field at random. A schedule that a target refuses has to be told so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from random import Random
from typing import TypeAlias, TypedDict

import numpy as np
from crafted_schedules import craft, set_any_schedules
from kernel_cases import Array, Case, case_of
from kernel_runs import End, run_source
from numpy.typing import NDArray
from xdsl.dialects import linalg
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.evaluation import evaluate_block, view_over_loops
from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.library import LibraryAttr
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.sums_split import split_sums
from penstock.lowering.codegen.cpu import kernel_schedule as cpu
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.cuda import kernel_schedule as cuda
from penstock.lowering.codegen.cuda.library_calls import unfit_of_libraries
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit.cpu import compile_cpu
from penstock.runtime.jit.source_head import split_head
from penstock.runtime.loading.weight_layout import as_stored
from penstock.tools.session.program_export import panels_of

Parse: TypeAlias = Callable[[str], KernelOp]
Evaluate: TypeAlias = Callable[..., Sequence[Array]]
"""The results of a structured op on arrays."""
Pair: TypeAlias = tuple[str, str, str]
"""An op, a schedule with its form, and a target."""

PLAIN = "plain loops"
TARGETS = ("cpu", "cuda")


class Place(TypedDict, total=False):
    """How a kernel is run: where its buffers lie, and in how many parts."""

    parts: int
    offset: int
    end: End


PLACES: Mapping[str, Sequence[Place]] = {
    "cpu": (
        {"parts": 1, "end": "behind"},
        {"parts": 2, "offset": 1, "end": "before"},
        {"parts": 3, "end": "behind"},
    ),
    "cuda": ({}, {"offset": 1}),
}
MOST_TURNS = {
    PLAIN: 5000,
    "launch.queries rows": 5000,
    "launch.library": 1 << 60,
    "launch.tiles": 1 << 60,
    "launch.rows block": 100_000,
}
"""
The most turns of loops that the emulator computes, by schedules: it takes an element at
a time without one, a query with blocks of one, and a row of threads with most.
"""
MOST = 20_000
USUAL, LONGER = "vectors 32", 64
"""A way, and the turns that long loops of a longer kernel have more."""


def is_quick(case: Case, pairs: Sequence[Pair]) -> bool:
    """Whether a kernel takes no longer than a few seconds."""
    most = min(MOST_TURNS.get(form, MOST) for _, form, _ in pairs)
    return case.turns <= most or any(target == "cpu" for *_, target in pairs)


@dataclass(frozen=True)
class Meaning:
    """All arguments of a kernel after it."""

    arrays: Sequence[Array]
    with_zeros: Sequence[Array] | None
    """The same with the products that may be left out, if there are any."""

    @classmethod
    def of(cls, case: Case, parse: Parse) -> Meaning:
        others = meaning_with_zeros(case, parse) if "padded" in case.text else None
        return cls(meaning_of(case, parse), others)

    def of_results(self, found: Sequence[Array]) -> Sequence[Array]:
        """The right arguments: where products with zeros are NaN, one may be, too."""
        if self.with_zeros is None:
            return self.arrays
        triples = zip(found, self.arrays, self.with_zeros, strict=True)
        return [
            np.where(are_nan(x) & are_nan(other), other, right)
            if x.shape == right.shape
            else right
            for x, right, other in triples
        ]


def are_nan(array: Array) -> NDArray[np.bool_]:
    return np.isnan(array.astype(np.float64))


@dataclass
class Sweep:
    """Cases that are run, and what was found."""

    parse: Parse
    ran: Counter[Pair] = field(default_factory=Counter)
    refused: Counter[Pair] = field(default_factory=Counter)
    runs: int = 0
    failures: list[str] = field(default_factory=list)

    def check(
        self,
        kind: str,
        seed: int,
        target: str,
        ways: Sequence[str],
        data: Sequence[int] = (0,),
    ) -> None:
        """Compare a kernel, computed in some ways, with its meaning on some data."""
        cases = [case_of(kind, seed, number) for number in data]
        wanted = [Meaning.of(case, self.parse) for case in cases]
        seen: set[str] = set()
        for way in ways:
            kernel = self.kernel_of(kind, seed, target, way)
            try:
                self._compare(kernel, cases, wanted, seen)
            except Exception as error:
                told = f"{kind} {seed} {target} {way}, data {[*data]}"
                self.failures.append(f"{told}: {error!r}\n{kernel}")

    def source_of(self, kernel: KernelOp) -> str | None:
        """The source of a kernel; None if it is refused, which takes a line."""
        try:
            kernel.verify()
            return kernel_source(kernel)
        except VerifyException as error:
            told = [str(error.args[0])]
        except LocatedPassFailure as failure:
            told = [text for _, text in failure.findings]
        if any(not text or "\n" in text for text in told):
            raise AssertionError(f"refused by {told}")
        self.refused.update(pairs_in(kernel))
        return None

    def check_any(self, kind: str, seed: int, target: str, count: int) -> None:
        """
        Compare a kernel under some schedules of any class, of those that are not
        refused the first, with its meaning.
        """
        usual = self.kernel_of(kind, seed, target, "plain")
        case = case_of(kind, seed)
        for number in range(count):
            random = Random(f"{kind} {seed} {number}")
            set_any_schedules(random, kernel := usual.clone())
            try:
                if self.source_of(kernel) is not None:
                    meaning = Meaning.of(case, self.parse)
                    self._compare(kernel, [case], [meaning], set())
                    return
            except Exception as error:
                self.failures.append(f"{kind} {seed} {number}: {error!r}\n{kernel}")

    def check_other_extents(self, kind: str, seed: int, data: int) -> bool:
        """
        Compare a kernel and a longer one, which runs on its machine code, with their
        meaning. Whether there are such kernels of a seed.
        """
        kernels = [self.kernel_of(kind, seed, "cpu", USUAL, n) for n in (0, LONGER)]
        sources = [*map(kernel_source, kernels)]
        usual, longer = map(split_head, sources)
        if usual.code != longer.code or usual.row == longer.row:
            return False
        for kernel, n in zip(kernels, (0, LONGER), strict=True):
            case = case_of(kind, seed, data, longer=n)
            meaning = Meaning.of(case, self.parse)
            try:
                self._compare(kernel, [case], [meaning], set())
            except Exception as error:
                told = f"{kind} {seed}, longer by {n}, data {data}"
                self.failures.append(f"{told}: {error!r}\n{kernel}")
        places = {compile_cpu(source, "kernel").address for source in sources}
        assert len(places) == 1, "they share their machine code"
        return True

    def kernel_of(
        self, kind: str, seed: int, target: str, way: str, longer: int = 0
    ) -> KernelOp:
        """A kernel with a schedule."""
        kernel = plain_kernel(self.parse, kind, seed, target, longer).clone()
        WAYS[target][way](kernel, Random(f"{way} {seed}"))
        return kernel

    def _compare(
        self,
        kernel: KernelOp,
        cases: Sequence[Case],
        wanted: Sequence[Meaning],
        seen: set[str],
    ) -> None:
        pairs = pairs_in(kernel)
        if (source := self.source_of(kernel)) is None:
            return
        if source in seen or not is_quick(cases[0], pairs):
            return
        seen.add(source)
        for case, right in zip(cases, wanted, strict=True):
            for place in PLACES[kernel.compiled_for]:
                self._run(kernel, source, case, right, place)
        self.ran.update(pairs)

    def _run(
        self,
        kernel: KernelOp,
        source: str,
        case: Case,
        wanted: Meaning,
        place: Place,
    ) -> None:
        orders = [panels and panels_of(panels) for panels in kernel.panels]
        pairs = zip(case.arrays, orders, strict=True)
        given = [np.array(as_stored(x, order), order="C") for x, order in pairs]
        code = run_source(source, given, target=kernel.compiled_for, **place)
        self.runs += 1
        try:
            assert code == 0, f"the kernel ends with {code}"
            rights = wanted.of_results(given)
            results = zip(given, rights, orders, case.arrays, strict=True)
            for found, right, order, before in results:
                if order is None:
                    close(case, found, right)
                else:
                    np.testing.assert_array_equal(found, as_stored(before, order))
        except AssertionError as error:
            raise AssertionError(f"run with {place}: {error}") from error


@lru_cache(1)
def plain_kernel(
    parse: Parse, kind: str, seed: int, target: str, longer: int
) -> KernelOp:
    """A kernel without a schedule, which is asked for once for each way."""
    text = case_of(kind, seed, longer=longer).text
    return parse(text.replace('"cpu"', f'"{target}"'))


def pairs_in(kernel: KernelOp) -> list[Pair]:
    """The ops of a kernel with their schedules."""
    found: list[Pair] = []
    for op in kernel.body.block.ops:
        if isinstance(op, StructuredOp | linalg.ops.GenericOp):
            schedule = op.attributes.get(SCHEDULE)
            found.append((op.name, form_of(schedule), kernel.compiled_for))
    return found


def form_of(schedule: Attribute | None) -> str:
    """The class of a schedule, and its form."""
    if not isinstance(schedule, ScheduleAttr):
        return PLAIN
    return " ".join((schedule.name, *words_of(schedule)))


def words_of(schedule: ScheduleAttr) -> list[str]:
    return [getattr(schedule, name) for name in schedule.fields() if name == "form"]


# Meaning ----------------------------------------------------------------------------


def meaning_of(case: Case, parse: Parse) -> list[Array]:
    """All arguments of a kernel after it, as its ops are defined."""
    return arguments_after(case, parse, evaluate_op)


def meaning_with_zeros(case: Case, parse: Parse) -> list[Array]:
    """The same with products with zeros around a factor, which may be left out."""
    return arguments_after(case, parse, evaluate_with_zeros)


def arguments_after(case: Case, parse: Parse, evaluate: Evaluate) -> list[Array]:
    given = case.wide or case
    kernel, arrays = parse(given.text), [x.copy() for x in given.arrays]
    with np.errstate(all="ignore"):
        for op in kernel.body.block.ops:
            if isinstance(op, StructuredOp):
                operands = [array_of(value, arrays) for value in op.operands]
                results = zip(op.written(), evaluate(op, *operands), strict=True)
            elif isinstance(op, linalg.ops.GenericOp):
                results = zip(op.outputs, evaluate_map(op, arrays), strict=True)
            else:
                continue
            for value, result in results:
                assert isinstance(value, BlockArgument)
                arrays[value.index] = result
    return arrays


def evaluate_op(op: StructuredOp, *operands: Array) -> Sequence[Array]:
    return op.evaluate(*operands)


def evaluate_with_zeros(op: StructuredOp, *operands: Array) -> Sequence[Array]:
    """The results of an op to which the zeros around factors are elements as others."""
    op = op.clone()
    for number, value in enumerate(op.operands):
        if isinstance(value.owner, PaddedOp):
            op.operands[number] = Block(arg_types=[value.type]).args[0]
    return op.evaluate(*operands)


def array_of(value: SSAValue, arrays: Sequence[Array]) -> Array:
    """The elements of an operand, given those of the kernel's arguments."""
    if isinstance(value, BlockArgument):
        return arrays[value.index]
    owner = value.owner
    assert isinstance(owner, PaddedOp)
    return np.pad(array_of(owner.source, arrays), owner.pads)


def evaluate_map(op: linalg.ops.GenericOp, arrays: Sequence[Array]) -> list[Array]:
    """The results of a map without reductions."""
    operands = [array_of(value, arrays) for value in op.operands]
    maps = [attribute.data for attribute in op.indexing_maps]
    extents = op.get_static_loop_ranges()
    views = [
        view_over_loops(np.array(x, order="C"), map, extents)
        for x, map in zip(operands, maps, strict=True)
    ]
    values = evaluate_block(op.body.block, views)
    first = len(op.inputs)
    results = [np.array(x, order="C") for x in operands[first:]]
    for value, result, map in zip(values, results, maps[first:], strict=True):
        view_over_loops(result, map, extents, writeable=True)[...] = value
    return results


def close(case: Case, found: Array, wanted: Array) -> None:
    """Fail where two arrays differ by more than the case allows."""
    if case.is_exact or found.dtype.kind in "iub":
        a, b = (
            x.astype(float) if x.dtype.name == "bfloat16" else x
            for x in (found, wanted)
        )
        np.testing.assert_array_equal(a, b)
        return
    right = wanted.astype(np.float64)
    finite = np.abs(right[np.isfinite(right)])
    limit = case.tolerance * max(1.0, float(finite.max(initial=0)))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=0, atol=limit)


# Schedules --------------------------------------------------------------------------


def plain(kernel: KernelOp, random: Random) -> None:
    """Leave an op to its loops."""


def on_cpu(
    kernel: KernelOp, random: Random, vector_bytes: int = 0, matrices: bool = False
) -> None:
    """The schedules of the passes for processors, some with registers of matrices."""
    width = vector_bytes or random.choice((16, 32, 64))
    constants = random.choice(((), (), (0,), (1,), (0, 1)))
    cpu.schedule_kernel(kernel, width, random.choice((1, 4)), constants, matrices)
    schedule_attention(kernel, width)


def on_cuda(kernel: KernelOp, random: Random) -> None:
    """The schedules of the pass for devices."""
    cuda.schedule_kernel(kernel, random.choice((1, 8, 132, 1000)))


def by_library(kernel: KernelOp, random: Random) -> None:
    """Contractions by a library, which leaves their start and finish to others."""
    for op in [*kernel.body.block.ops]:
        if not isinstance(op, ContractOp):
            continue
        if op.held is not None:
            op = split_sums(op, unfit_of_libraries(op))
        op.attributes[SCHEDULE] = LibraryAttr(random.choice(("cublas", "cudnn")))


def crafted_on_cpu(kernel: KernelOp, random: Random) -> None:
    on_cpu(kernel, random)
    craft(random, kernel)


def crafted_on_cuda(kernel: KernelOp, random: Random) -> None:
    on_cuda(kernel, random)
    craft(random, kernel)


Way: TypeAlias = Callable[[KernelOp, Random], None]
WAYS: Mapping[str, Mapping[str, Way]] = {
    "cpu": {
        "plain": plain,
        **{f"vectors {n}": partial(on_cpu, vector_bytes=n) for n in (16, 32, 64)},
        "matrices": partial(on_cpu, vector_bytes=64, matrices=True),
        **{f"crafted {n}": crafted_on_cpu for n in range(3)},
    },
    "cuda": {
        "plain": plain,
        "usual": on_cuda,
        "library": by_library,
        **{f"crafted {n}": crafted_on_cuda for n in range(3)},
    },
}
"""How a kernel gets a schedule, by targets."""
