"""Waves of small kernels: that they compute what their members do, in any parts."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.algorithms.byte_ranges import ByteRanges, Range
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.runtime.jit.cpu import compile_cpu
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.report import report_of
from penstock.tools.session.session import Model, Session

WITH_WAVES = pipeline(PipelineOptions("cpu", waves=True))

Array: TypeAlias = NDArray[np.float32]


def job(rows: int, columns: int) -> str:
    """A job with an op for each input: three of four are 2 x + 1, or x x."""
    row = f"tensor<1x{columns}xf32>"
    lines = [
        f"%two = op.constant dense<2.0> : {row}",
        f"%one = op.constant dense<1.0> : {row}",
    ]
    for i in range(rows):
        lines.append(f'%s{i} = job.input "x{i}" : {row}')
        if i % 4 == 1:
            lines.append(f"%y{i} = op.mul %s{i}, %s{i} : {row}, {row} -> {row}")
        else:
            lines.append(f"%t{i} = op.mul %s{i}, %two : {row}, {row} -> {row}")
            lines.append(f"%y{i} = op.add %t{i}, %one : {row}, {row} -> {row}")
        lines.append(f'job.output "y{i}", %y{i} : {row}')
    body = "\n".join(lines)
    return f"job.job @net placement <cpu, [0:0]> {{\n{body}\n}}\n"


def lowered(rows: int, columns: int) -> ModuleOp:
    """The program of the job with its waves, which is verified."""
    compiler, passes = installed_compiler()
    module = compiler.parse(job(rows, columns).encode(), "waves.mlir")
    run_pipeline(compiler, passes, module, WITH_WAVES)
    return module


def wave_in(module: ModuleOp) -> KernelOp:
    """The only kernel of a program."""
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    (kernel,) = (op for op in program.body.block.ops if isinstance(op, KernelOp))
    return kernel


def wanted(x: Array) -> Array:
    """The result of the job."""
    found = 2 * x + 1
    found[1::4] = x[1::4] * x[1::4]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_branches_that_share_nothing_are_one_wave(threads: int) -> None:
    module = lowered(64, 33)
    assert len(wave_in(module).arguments) == 2 * 64 + 16
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    assert len(program.actors) == 64 + 1 + 64
    # All inputs and outputs are in memory together, where those of one, 132 bytes each,
    # would have been enough.
    line, said = report_of(program).memory[0], report_of(program).given_up
    assert "activations peak 23.9 KiB" in line
    assert said == (
        "given up: memory, 64 tasks act together and need 16.5 KiB at once, "
        "264 B apart",
    )
    x = fresh().normal(size=(64, 33)).astype(np.float32)
    with Session(Model(module, {}, Path()), threads=threads) as session:
        for array in (x, -x):
            fed = {f"x{i}": row[None] for i, row in enumerate(array)}
            got = session.run(fed)
            rows = np.concatenate([got[f"y{i}"] for i in range(64)])
            np.testing.assert_allclose(rows.astype("f4"), wanted(array), 3e-7, 3e-7)


@pytest.mark.slow
def test_slices_of_one_input_before_a_wave_are_not_copied() -> None:
    whole, part = "tensor<64x16xf32>", "tensor<1x16xf32>"
    lines = [f'%x = job.input "x" : {whole}']
    for i in range(64):
        ends = f"from [{i}, 0] to [{i + 1}, 16] by [1, 1]"
        lines.append(f"%s{i} = op.slice %x {ends} : {whole} -> {part}")
        lines.append(f"%y{i} = op.exp %s{i} : {part} -> {part}")
        lines.append(f'job.output "y{i}", %y{i} : {part}')
    body = "\n".join(lines)
    text = f"job.job @net placement <cpu, [0:0]> {{\n{body}\n}}\n"
    compiler, passes = installed_compiler()
    module = compiler.parse(text.encode(), "slices.mlir")
    run_pipeline(compiler, passes, module, WITH_WAVES)
    assert len(wave_in(module).arguments) == 2 * 64
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    # All but the input, the wave and the outputs do nothing.
    assert len([x for x in program.actors if x.body.block.ops]) == 1 + 1 + 64
    # The input of 4 KiB and as much of results are in memory together.
    report = report_of(program)
    assert "activations peak 8.0 KiB" in report.memory[0]
    assert "64 tasks act together and need 8.0 KiB at once" in report.given_up[0]
    x = np.random.default_rng(5).normal(size=(64, 16)).astype(np.float32)
    with Session(Model(module, {}, Path())) as session:
        got = session.run({"x": x})
    rows = np.concatenate([got[f"y{i}"] for i in range(64)])
    np.testing.assert_allclose(rows.astype("f4"), np.exp(x), 3e-7)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_any_number_of_parts_does_all_members_once(parts: int) -> None:
    compiled = compile_cpu(kernel_source(wave_in(lowered(10, 16384))), "wave")
    # By their cost they take 22 us together, more than four times 5 us.
    assert compiled.parts == 4
    x = np.random.default_rng(2).normal(size=(10, 16384)).astype(np.float32)
    out = np.zeros_like(x)
    others, squares = [i for i in range(10) if i % 4 != 1], [1, 5, 9]
    pairs = [array[i] for i in others for array in (x, out)]
    triples = [array[i] for i in squares for array in (x, x, out)]
    addresses = [line.ctypes.data for line in (*pairs, *triples)]
    row = np.array(addresses, np.int64)
    for part in reversed(range(parts)):
        before = out.copy()
        assert compiled(row.ctypes.data, part, parts) == 0
        # What was written before is as it was.
        assert (out == before)[before != 0].all()
    np.testing.assert_allclose(out, wanted(x), 3e-7, 3e-7)


def test_members_that_are_alike_are_one_loop() -> None:
    source = kernel_source(wave_in(lowered(10, 33)))
    assert source.count("@member") == 2
    # Seven of the one and three of the other.
    assert "range(0, 7)" in source
    assert "range(7, 10)" in source


def test_a_wave_has_few_kinds_of_kernels() -> None:
    compiler, passes = installed_compiler()
    lines = ["launch.chunk @c0 on <0, host> size 1024"]
    for i in range(10):
        type = f"memref<{i + 1}xf32>"
        lines += [
            f"launch.register @y{i} in @c0 at {64 * i} slots 1 : {type}",
            f'launch.kernel @k{i} target "cpu" (%o: {type}) attributes '
            '{cost = {bytes = 4 : i64, flops = 0 : i64, op = "op.fill"}} {',
            f"%z = arith.constant {i}.0 : f32",
            f"linalg.fill ins(%z : f32) outs(%o : {type}) }}",
        ]
    names = ", ".join(f"@y{i}" for i in range(10))
    lines.append(f"launch.actor @a on <0, cpu:0> stream 0 reads [] writes [{names}] {{")
    lines += [*(f"launch.call @k{i} [@y{i}]" for i in range(10)), "}"]
    body = "\n".join(lines)
    text = f"launch.program @net rank 0 {{\n{body}\n}}"
    module = compiler.parse(text.encode(), "kinds.mlir")
    run_pipeline(compiler, passes, module, "launch-form-waves,verify-program")
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    (actor,) = program.actors
    waves = [op for op in program.body.block.ops if isinstance(op, KernelOp)]
    assert [len(wave.arguments) for wave in waves] == [8, 2]
    assert len(list(actor.body.block.ops)) == 2


def test_ranges_of_bytes_against_sets() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        ranges, known = ByteRanges(), set[tuple[str, int]]()
        for _ in range(12):
            start, size, which = (int(n) for n in random.integers(0, [40, 9, 2]))
            range_ = Range("ab"[which], start, start + size)
            inside = {("ab"[which], byte) for byte in range(start, start + size)}
            if size:
                assert ranges.meets(range_) == bool(inside & known)
            if random.integers(2):
                ranges.add(range_)
                known |= inside
