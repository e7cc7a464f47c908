"""The time of compiling, pass by pass, on generated jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Section, Table
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.pass_timing import PassTimes
from penstock.tools.session.kernel_sources import kernel_sources
from penstock.tools.session.session import Model, program_of

TEXT = """\
Milliseconds of each step that takes generated jobs (elementwise, matrix, normalising,
moving and reducing ops with branches) from text to the sources of kernels, which are
not compiled. `verify after passes` is what `penstock-opt` does after each pass but the
last, `verify` what sessions do too. The target is below 5,000 ms for 1,000 ops."""

AFTER_PASSES = "verify after passes"
SIZES = 1_000, 10_000
ROWS, COLUMNS = 16, 64
TENSOR = f"tensor<{ROWS}x{COLUMNS}xf32>"
WEIGHTS = 8
UNARY = "relu", "tanh", "sigmoid", "neg", "softmax", "row", "turn", "halves"
BINARY = "add", "sub", "mul", "maximum"
NEARBY = 12
"""The number of latest values that an op may read."""


class StepTimes(PassTimes):
    """The times of all steps, in the order in which they first ran."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[tuple[int, str], float] = {}
        self.latest = 0.0
        """The seconds measured last."""

    @contextmanager
    def measure(self, name: str, position: int = -1) -> Generator[None]:
        """Add the time of the body to a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds.get((position, name), 0.0)
            self.latest = time.perf_counter() - start
            self.seconds[position, name] = spent + self.latest


class JobText:
    """The text of a job with about as many ops as asked for; all results are used."""

    def __init__(self, ops: int, seed: int = 0):
        self._random = random.Random(seed)
        self._lines = [f'%x = job.input "x" : {TENSOR}']
        self._lines += [line for i in range(WEIGHTS) for line in _weight(i)]
        self._values = ["%x"]
        self._unused: list[str] = []
        while len(self._lines) + len(self._unused) < ops:
            self._grow()
        while len(self._unused) > 1:
            self._op("add", self._unused[0], self._unused[1])
        self._lines.append(f'job.output "y", {self._unused[0]} : {TENSOR}')

    def __str__(self) -> str:
        body = "\n".join(f"  {line}" for line in self._lines)
        return f"job.job @generated placement <cpu, [0:0]> {{\n{body}\n}}\n"

    @property
    def count(self) -> int:
        """The number of its ops."""
        return len(self._lines)

    def _grow(self) -> None:
        kind = self._random.choice((*UNARY, *BINARY, "matmul", "norm"))
        self._op(kind, self._source(), self._source())

    def _source(self) -> str:
        """A value from nearby, more often than not one that nobody has read."""
        if self._unused and self._random.random() < 0.6:
            return self._unused[0]
        return self._random.choice(self._values[-NEARBY:])

    def _op(self, kind: str, a: str, b: str) -> None:
        used = {a, b} if kind in BINARY else {a}
        self._unused = [value for value in self._unused if value not in used]
        value = self._emit(kind, a, b)
        self._values.append(value)
        self._unused.append(value)

    def _emit(self, kind: str, a: str, b: str) -> str:
        weight = f"{self._random.randrange(WEIGHTS)}"
        if kind in BINARY:
            return self._add(f"op.{kind} {a}, {b} : {TENSOR}, {TENSOR} -> {TENSOR}")
        match kind:
            case "matmul":
                square = f"tensor<{COLUMNS}x{COLUMNS}xf32>"
                types = f"{TENSOR}, {square} -> {TENSOR}"
                return self._add(f"op.matmul {a}, %w{weight} : {types}")
            case "norm":
                row = f"tensor<{COLUMNS}xf32>"
                text = f"op.layer_norm {a}, %g{weight}, %n{weight} axis 1"
                return self._add(f"{text} : {TENSOR}, {row}, {row} -> {TENSOR}")
            case "softmax":
                return self._add(f"op.softmax {a} axis 1 : {TENSOR} -> {TENSOR}")
            case "row":
                return self._row_mean(a)
            case "turn":
                return self._turn(a)
            case "halves":
                return self._swap_halves(a)
            case _:
                return self._add(f"op.{kind} {a} : {TENSOR} -> {TENSOR}")

    def _row_mean(self, a: str) -> str:
        column = f"tensor<{ROWS}x1xf32>"
        mean = self._add(f"op.reduce_mean {a} axes [1] keepdims : {TENSOR} -> {column}")
        return self._add(f"op.sub {a}, {mean} : {TENSOR}, {column} -> {TENSOR}")

    def _turn(self, a: str) -> str:
        turned = f"tensor<{COLUMNS}x{ROWS}xf32>"
        turn = self._add(f"op.transpose {a} by [1, 0] : {TENSOR} -> {turned}")
        sizes = f"[{ROWS}, {COLUMNS}]"
        return self._add(f"op.reshape {turn} to {sizes} : {turned} -> {TENSOR}")

    def _swap_halves(self, a: str) -> str:
        half = f"tensor<{ROWS}x{COLUMNS // 2}xf32>"
        bounds = (f"[0, {i}] to [{ROWS}, {i + COLUMNS // 2}]" for i in (0, 32))
        left, right = (
            self._add(f"op.slice {a} from {bound} by [1, 1] : {TENSOR} -> {half}")
            for bound in bounds
        )
        text = f"op.concat {right}, {left} axis 1 : {half}, {half} -> {TENSOR}"
        return self._add(text)

    def _add(self, text: str) -> str:
        value = f"%v{len(self._lines)}"
        self._lines.append(f"{value} = {text}")
        return value


def _weight(index: int) -> list[str]:
    square, row = f"tensor<{COLUMNS}x{COLUMNS}xf32>", f"tensor<{COLUMNS}xf32>"
    kinds = ("w", square), ("g", row), ("n", row)
    return [
        f'%{kind}{index} = job.variable "{kind}{index}" '
        f"init <normal, seed = 1, std = 0.1> : {type}"
        for kind, type in kinds
    ]


def step_seconds(ops: int) -> tuple[int, dict[str, float]]:
    """The number of ops of a generated job, and the seconds of each step by name."""
    job = JobText(ops)
    compiler, passes = installed_compiler()
    compiler.times = times = StepTimes()
    compiler.verify_each = True
    with times.measure("parse", -2):
        module = compiler.parse(str(job).encode(), "generated")
    run_pipeline(compiler, passes, module, pipeline(PipelineOptions("cpu")))
    final = times.latest
    with times.measure("kernel sources", len(times.seconds)):
        kernel_sources(program_of(Model(module, {}, Path())))
    found: dict[str, float] = {}
    for (_, name), seconds in sorted(times.seconds.items()):
        found[name] = found.get(name, 0.0) + seconds
    return job.count, {**found, "verify": final, AFTER_PASSES: found["verify"] - final}


def compiling() -> Section:
    """Compile generated jobs, once each."""
    found = [step_seconds(size) for size in SIZES]
    kinds = {
        "**total**": [sum(steps.values()) for _, steps in found],
        "**total of sessions**": [
            sum(steps.values()) - steps[AFTER_PASSES] for _, steps in found
        ],
    }
    rows = [
        [name, *(f"{steps[name] * 1e3:.0f}" for _, steps in found)]
        for name in found[0][1]
    ]
    rows += [
        [name, *(f"**{total * 1e3:.0f}**" for total in totals)]
        for name, totals in kinds.items()
    ]
    header = "step", *(f"{count:,} ops" for count, _ in found)
    data = [{"ops": count, "seconds": steps} for count, steps in found]
    return Section("Compile time", TEXT, [Table(header, rows)], data)
