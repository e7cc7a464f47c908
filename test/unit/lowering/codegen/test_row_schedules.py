"""Schedules of rows are those of all their loops, most of which are not built."""

from __future__ import annotations

import numpy as np
from draws import fresh

from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.row import RowOp
from penstock.lowering.codegen.cpu.row_schedule import rows_schedule, schedule_of_loops
from penstock.lowering.pipelines import PIPELINES
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

FOLDS = ("reduce_sum", "reduce_max", "reduce_min")
OF_FLOATS = ("reduce_mean", "softmax", "log_softmax")


def random_rows(random: np.random.Generator) -> str:
    """A job of rows along some axes of tensors of some types and extents."""
    lines: list[str] = []
    for number in range(24):
        type = str(random.choice(["f32", "f32", "f16", "f64", "i32"]))
        shape = [int(n) for n in random.choice([1, 2, 5, 8, 32], size=3)]
        axes = sorted({*map(int, random.integers(3, size=2))})
        kept = [1 if n in axes else extent for n, extent in enumerate(shape)]
        x, m, r = (f"%{name}{number}" for name in "xmr")
        whole, less = (f"tensor<{'x'.join(map(str, n))}x{type}>" for n in (shape, kept))
        lines.append(f'{x} = job.input "x{number}" : {whole}')
        name = str(random.choice(FOLDS if type == "i32" else FOLDS + OF_FLOATS))
        if name.startswith("reduce"):
            fold = f"op.{name} {x} axes {axes} keepdims : {whole} -> {less}"
            minus = f"op.sub {x}, {m} : {whole}, {less} -> {whole}"
            lines += [f"{m} = {fold}", f"{r} = {minus}"]
        else:
            lines.append(f"{r} = op.{name} {x} axis {axes[0]} : {whole} -> {whole}")
        lines.append(f'job.output "r{number}", {r} : {whole}')
    return "\n".join(("job.job @rows placement <cpu, [0:0]> {", *lines, "}"))


def test_schedules_of_rows_are_those_of_all_their_loops() -> None:
    compiler, passes = installed_compiler()
    text = random_rows(fresh())
    module = compiler.parse(text.encode(), "rows.mlir")
    specs = PIPELINES["cpu"]
    names = [spec.name for spec in specs]
    specs = specs[: names.index("launch-schedule-contractions")]
    run_pipeline(compiler, passes, module, specs)
    rows = [op for op in module.walk() if isinstance(op, RowOp)]
    found = [str(rows_schedule(row)) for row in rows]
    assert found == [str(schedule_of_loops(loops_of(row))) for row in rows]
    assert len({*found}) > 1
