"""
The gain of a wave of small ops: 64 that need nothing of each other, as one kernel.

All compute 2 x + 1 on their own elements: as one kernel whose members threads share
out, as 64 kernels that the executor calls one by one, and as 64 calls of a function
compiled by Numba, from Python, as they are without a compiler.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from benchmarks.harness import wait_until_idle
from benchmarks.report import Json, Section, Table

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from penstock.runtime.jit.cpu import CompiledKernel
    from penstock.runtime.loading.initializers import Array

TEXT = """\
Microseconds for 64 ops 2 x + 1 that need nothing of each other, on so many elements
each (the median of all rounds; a round is the mean of many runs): as a wave, which
`plan-form-waves` makes of them, as kernels that the executor calls one by one, and as
calls of a function that Numba has compiled. All but the latter are runs of the compiled
core, without what a session adds for inputs and outputs. A ratio is the time of what is
named over that of the wave on as many threads, or on the better number of them where
Python calls."""

OPS = 64
ELEMENTS = (64, 1024, 16384)
THREADS = (1, 2)
TURN_SECONDS = 0.02


def job(elements: int) -> str:
    """A job with as many ops, each of an input and an output of its own."""
    row = f"tensor<1x{elements}xf32>"
    lines = [
        f"%two = op.constant dense<2.0> : {row}",
        f"%one = op.constant dense<1.0> : {row}",
    ]
    for i in range(OPS):
        lines += [
            f'%x{i} = job.input "x{i}" : {row}',
            f"%t{i} = op.mul %x{i}, %two : {row}, {row} -> {row}",
            f"%y{i} = op.add %t{i}, %one : {row}, {row} -> {row}",
            f'job.output "y{i}", %y{i} : {row}',
        ]
    body = "\n".join(lines)
    return f"job.job @net placement <cpu, [0:0]> {{\n{body}\n}}\n"


def lowered(elements: int, is_wave: bool) -> ModuleOp:
    """The program of the job."""
    from penstock.lowering.pipelines import PipelineOptions, pipeline
    from penstock.tools.driver.compiler import installed_compiler, run_pipeline

    compiler, passes = installed_compiler()
    module = compiler.parse(job(elements).encode(), "wave.mlir")
    steps = pipeline(PipelineOptions("cpu", waves=is_wave))
    run_pipeline(compiler, passes, module, steps)
    return module


def kernel_of(elements: int, is_wave: bool) -> CompiledKernel:
    """The only kernel of the program, compiled."""
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.codegen.target import kernel_source
    from penstock.runtime.jit.cpu import compile_cpu

    module = lowered(elements, is_wave)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    return compile_cpu(kernel_source(kernel), "kernel")


def rows_of(array: Array) -> list[int]:
    """The addresses of the rows of an array."""
    return [row.ctypes.data for row in array]


@dataclass(frozen=True)
class Arrays:
    """The operands and results of ops."""

    x: Array
    y: Array

    @classmethod
    def random(cls, elements: int) -> Arrays:
        """Random numbers, and room for results."""
        import numpy as np

        random = np.random.default_rng(4)
        x = random.normal(size=(OPS, elements)).astype(np.float32)
        return cls(x, np.zeros_like(x))

    def check(self) -> None:
        """Raise `ValueError` unless results are right, and forget them."""
        import numpy as np

        wanted = 2 * self.x.astype(np.float64) + 1
        if not np.allclose(self.y.astype(np.float64), wanted, 1e-6, 1e-6):
            raise ValueError("results are wrong")
        self.y.fill(0)


@contextmanager
def core_of(
    arrays: Arrays, elements: int, threads: int, is_wave: bool
) -> Generator[Callable[[int], None]]:
    """A function that makes so many runs of the wave, or of the kernels one by one."""
    from penstock.runtime.core.core import Core
    from penstock.runtime.program.tables import Actor, Call, Fixed, Tables

    kernel = kernel_of(elements, is_wave)
    words = [
        (Fixed(x), Fixed(y))
        for x, y in zip(rows_of(arrays.x), rows_of(arrays.y), strict=True)
    ]
    if is_wave:
        words = [tuple(word for pair in words for word in pair)]
    actors = [
        Actor(f"t{i}", calls=(Call(kernel.address, row, parts=kernel.parts),))
        for i, row in enumerate(words)
    ]
    with Core(Tables([], actors), threads) as core:
        yield core.run


def jitted_calls(arrays: Arrays) -> Callable[[int], None]:
    """A function that makes so many rounds of calls from Python."""
    from numba import njit

    def op(x: Array, y: Array) -> None:
        for i in range(x.size):
            y[i] = x[i] * two + one

    import numpy as np

    two, one = np.float32(2), np.float32(1)
    compiled = cast("Callable[[Array, Array], None]", njit(op))
    pairs = list(zip(arrays.x, arrays.y, strict=True))

    def run(count: int) -> None:
        for _ in range(count):
            for x, y in pairs:
                compiled(x, y)

    return run


def microseconds(run: Callable[[int], None], count: int) -> float:
    """The mean time of runs."""
    start = time.perf_counter()
    run(count)
    return 1e6 * (time.perf_counter() - start) / count


def times_of(elements: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of each contender in each round."""
    arrays = Arrays.random(elements)
    with ExitStack() as stack:
        runs: dict[str, Callable[[int], None]] = {}
        for threads in THREADS:
            for name, is_wave in (("wave", True), ("one by one", False)):
                core = core_of(arrays, elements, threads, is_wave)
                runs[f"{name}, {threads}"] = stack.enter_context(core)
        runs["from Python"] = jitted_calls(arrays)
        for run in runs.values():
            run(1)
            arrays.check()
        counts = {
            name: max(1, round(1e6 * TURN_SECONDS / microseconds(run, 20)))
            for name, run in runs.items()
        }
        found: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            wait_until_idle(1.0)
            for name, run in runs.items():
                found[name].append(microseconds(run, counts[name]))
    return found


def waves(rounds: int) -> Section:
    """Time all sizes."""
    rows: list[list[str]] = []
    data: dict[str, Json] = {}
    for elements in ELEMENTS:
        found = times_of(elements, rounds)
        data[str(elements)] = {name: [*times] for name, times in found.items()}
        middle = {name: statistics.median(times) for name, times in found.items()}
        best = min(middle[f"wave, {threads}"] for threads in THREADS)
        python = middle["from Python"]
        for threads in THREADS:
            wave, single = (middle[f"{n}, {threads}"] for n in ("wave", "one by one"))
            row = [str(elements), str(threads), f"{wave:.1f}", f"{single:.1f}"]
            rows.append([*row, f"{single / wave:.2f}", "", ""])
        rows[-1][-2:] = [f"{python:.1f}", f"{python / best:.2f}"]
    header = ("elements", "threads", "wave", "one by one", "ratio", "from Python")
    return Section("Waves", TEXT, [Table((*header, "ratio"), rows)], data)
