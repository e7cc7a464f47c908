"""
Random kernels of each op, with each schedule of both targets, against their meaning.

A kernel is one op, or a chain of them, on random maps, extents (0, 1, odd, more than a
tile) and types; some operands are every second element of an argument, or a part. It
runs as loops, with the schedules that passes choose, and with others, whose fields are
changed at random; in 1 to 3 parts, with buffers at odd places and at the ends of pages.
Some elements are NaN, infinite, or too small to be normal. Kernels of one form run on
machine code that was compiled for other extents. A double in NumPy takes the place of
cuBLAS and cuDNN.

Whole numbers, of which sums are exact in any order, have to come out as they are. Of
other numbers an error of `64 + 8 n` units in the last place of the largest result is
allowed, for `n` numbers that are summed, against the same kernel of `f64`: sums of
products and folds differ in their order, exponentials in the last bits, and rows of
attention in halves are rounded in the result with each key. `kernel.gather`, and the
order of updates of `kernel.scatter`, are always exact.

`PENSTOCK_SWEEP_SEED=n pytest -k kernel_sweep` repeats the random part of a test, which
tells `n`; `PENSTOCK_SWEEP_CASES=n` says how many kernels of each kind the slow test
takes: one by default, as each run has another, and 50 for thousands of runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from crafted_schedules import schedule_classes, set_any_schedules
from draws import draws, fresh_seed
from kernel_cases import MAKERS
from kernel_runs import parse_kernel
from kernel_sweep import PLAIN, TARGETS, USUAL, WAYS, Pair, Sweep, pairs_in
from xdsl.ir import Operation

from penstock.dialects.kernel import Kernel
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.launch import schedules
from penstock.dialects.launch.schedules.schedule import ScheduleAttr
from penstock.lowering.codegen.cpu.stage_printer import printers as cpu_printers
from penstock.lowering.codegen.cuda.stage_printer import printers as cuda_printers
from penstock.runtime.kernels.cpu.amx_permission import may_use_amx

assert schedules

CASES = draws(1)
"""The kernels of each kind, target and way that the slow test compiles."""
MOST_TRIED = 200
"""The seeds of each kind among which the quick tests look for kernels."""
ANY = 40
"""The random schedules of a kernel, until one is not refused."""


def schedules_of(target: str) -> Iterator[tuple[type[Operation], type]]:
    """The ops and classes of schedules that a target has printers for."""
    table = cpu_printers() if target == "cpu" else cuda_printers()
    for printer in table.printers:
        for schedule in printer.SCHEDULES:
            yield printer.OP, schedule


def forms_of(schedule: type) -> list[str]:
    """The words for a class of schedules, one for each form."""
    assert issubclass(schedule, ScheduleAttr)
    form = schedule.fields().get("form")
    words: tuple[str, ...] = getattr(form, "words", ())
    return [f"{schedule.name} {word}" for word in words] or [schedule.name]


UNUSED = {("kernel.contract", "launch.rows block", "cuda")}
"""The forms of schedules that fit no op of a class."""


def pairs_of(op: str, target: str) -> set[Pair]:
    """The ways in which a target can compute an op."""
    printed = {*schedules_of("cpu"), *schedules_of("cuda")}
    # Schedules without a printer are those of the loops of an op.
    of_loops: set[tuple[type[Operation], type]] = {
        (each, schedule)
        for schedule in schedule_classes()
        for each in schedule.ops
        if issubclass(each, StructuredOp) and (each, schedule) not in printed
    }
    mine = {*schedules_of(target), *(of_loops if target == "cpu" else ())}
    found = {
        (op, form, target)
        for each, schedule in mine
        if each.name == op
        for form in forms_of(schedule)
    }
    return {*found, (op, PLAIN, target)} - UNUSED


def kinds_of(op: str) -> list[str]:
    return [kind for kind, (own, _, _) in MAKERS.items() if own == op]


def report(sweep: Sweep) -> None:
    """Print the kernels that ran, and fail if one was wrong."""
    print(f"{sum(sweep.ran.values())} kernels in {sweep.runs} runs")
    for pair, count in sorted(sweep.ran.items()):
        print(*pair, count, "refused", sweep.refused[pair], sep=" | ")
    assert not sweep.failures, "\n\n".join(sweep.failures[:5])


OPS = sorted({op for op, _, _ in MAKERS.values()})


def test_there_are_cases_of_all_ops() -> None:
    ops = {op.name for op in Kernel.operations if issubclass(op, StructuredOp)}
    assert ops <= {*OPS}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_each_schedule_computes_what_the_op_means(op: str, target: str) -> None:
    start = fresh_seed()
    sweep = Sweep(parse_kernel)
    missing = pairs_of(op, target)
    for seed in range(MOST_TRIED):
        for kind in kinds_of(op):
            for way in WAYS[target]:
                pairs = {*pairs_in(sweep.kernel_of(kind, seed, target, way))}
                if pairs & missing or (not seed and way == "plain"):
                    sweep.check(kind, seed, target, [way], [start])
                    missing -= {*sweep.ran}
        if not missing:
            break
    report(sweep)
    assert not missing, "no case ran"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MAKERS)
def test_each_op_has_a_schedule_or_says_why_not(kind: str, target: str) -> None:
    start = fresh_seed()
    sweep, way = Sweep(parse_kernel), USUAL if target == "cpu" else "usual"
    for seed in range(start, start + 5):
        kernel = sweep.kernel_of(kind, seed, target, way)
        for op in kernel.body.block.ops:
            if isinstance(op, StructuredOp):
                told = SCHEDULE in op.attributes or REFUSAL in op.attributes
                assert told, f"{kind} {seed}\n{op}"


@pytest.mark.parametrize("target", TARGETS)
def test_chains_compute_what_their_ops_mean(target: str) -> None:
    start = fresh_seed()
    sweep = Sweep(parse_kernel)
    for seed in range(2):
        sweep.check("chains", seed, target, [[*WAYS[target]][1]], [start])
    report(sweep)


@pytest.mark.parametrize("target", TARGETS)
def test_schedules_of_any_class_are_refused_in_a_line(target: str) -> None:
    start = fresh_seed()
    sweep = Sweep(parse_kernel)
    for kind in MAKERS:
        usual = sweep.kernel_of(kind, start, target, "plain")
        for number in range(8):
            set_any_schedules(Random(f"{start} {number}"), kernel := usual.clone())
            print(kernel)
            sweep.source_of(kernel)
    assert sweep.refused


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MAKERS)
def test_schedules_of_any_class_compute_what_ops_mean(kind: str, target: str) -> None:
    start = fresh_seed()
    sweep = Sweep(parse_kernel)
    for seed in range(start, start + CASES):
        sweep.check_any(kind, seed, target, ANY)
    report(sweep)


@pytest.mark.parametrize("kind", ["maps", "rows", "products"])
def test_kernels_run_on_code_that_was_compiled_for_other_extents(kind: str) -> None:
    start = fresh_seed()
    sweep = Sweep(parse_kernel)
    seeds = range(MOST_TRIED)
    assert any(sweep.check_other_extents(kind, seed, start) for seed in seeds)
    report(sweep)


def test_bytes_are_multiplied_in_tile_registers() -> None:
    start = fresh_seed()
    sweep, kind = Sweep(parse_kernel), "products of bytes"
    kernels = ((n, sweep.kernel_of(kind, n, "cpu", "matrices")) for n in range(99))
    for seed, kernel in kernels:
        if "matrices" in str(kernel):
            sweep.check(kind, seed, "cpu", ["matrices"], [start])
        if sum(sweep.ran.values()) == 2:
            break
    report(sweep)
    assert sweep.ran, "no case ran"
    if not may_use_amx():
        pytest.skip("this processor has no AMX: the tiles were computed in vectors")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", MAKERS)
def test_random_kernels_compute_what_their_ops_mean(kind: str, target: str) -> None:
    start = fresh_seed()
    sweep, data = Sweep(parse_kernel), range(start, start + draws(2))
    for seed in range(start, start + CASES):
        ways = [*WAYS[target]]
        random = Random(seed)
        some = [random.choice(ways[:-3]), random.choice(ways[-3:])]
        sweep.check(kind, seed, target, some, data)
        if target == "cpu":
            sweep.check_other_extents(kind, seed, start)
    report(sweep)
