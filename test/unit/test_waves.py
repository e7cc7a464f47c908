"""Waves of small kernels: that they compute what their members do, in any parts."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.byte_ranges import ByteRanges, Range
from penstock.lowering.numba_target import kernel_source
from penstock.lowering.pipelines import pipeline
from penstock.runtime.jit import compile_cpu
from penstock.tools.compiler import installed_compiler, run_pipeline
from penstock.tools.session import Model, Session

Array: TypeAlias = NDArray[np.float32]


def job(rows: int, columns: int) -> str:
    """A job with an op for each row of its input: three of four are 2 x + 1, or x x."""
    whole, row = f"tensor<{rows}x{columns}xf32>", f"tensor<1x{columns}xf32>"
    lines = [
        f'%x = job.input "x" : {whole}',
        f"%two = op.constant dense<2.0> : {row}",
        f"%one = op.constant dense<1.0> : {row}",
    ]
    for i in range(rows):
        ends = f"from [{i}, 0] to [{i + 1}, {columns}] by [1, 1]"
        lines.append(f"%s{i} = op.slice %x {ends} : {whole} -> {row}")
    for i in range(rows):
        if i % 4 == 1:
            lines.append(f"%y{i} = op.mul %s{i}, %s{i} : {row}, {row} -> {row}")
            continue
        lines.append(f"%t{i} = op.mul %s{i}, %two : {row}, {row} -> {row}")
        lines.append(f"%y{i} = op.add %t{i}, %one : {row}, {row} -> {row}")
    names = ", ".join(f"%y{i}" for i in range(rows))
    types = ", ".join([row] * rows)
    lines.append(f"%o = op.concat {names} axis 0 : {types} -> {whole}")
    lines.append(f'job.output "o", %o : {whole}')
    body = "\n".join(lines)
    return f"job.job @net placement <cpu, [0:0]> {{\n{body}\n}}\n"


def lowered(rows: int, columns: int) -> ModuleOp:
    """The program of the job with its waves, which is verified."""
    compiler, passes = installed_compiler()
    module = compiler.parse(job(rows, columns).encode(), "waves.mlir")
    text = f"{pipeline('cpu')},launch-form-waves,verify-program"
    run_pipeline(compiler, passes, module, text)
    return module


def wave_in(module: ModuleOp) -> KernelOp:
    """The only kernel of a program."""
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    (kernel,) = (op for op in program.body.block.ops if isinstance(op, KernelOp))
    return kernel


def wanted(x: Array) -> Array:
    """What the job computes."""
    found = 2 * x + 1
    found[1::4] = x[1::4] * x[1::4]
    return found


@pytest.mark.parametrize("threads", [1, 2])
def test_a_program_with_a_wave(threads: int) -> None:
    module = lowered(10, 33)
    assert "members" in wave_in(module).attributes
    x = np.random.default_rng(1).normal(size=(10, 33)).astype(np.float32)
    with Session(Model(module, {}, Path()), threads=threads) as session:
        for array in (x, -x):
            got = session.run({"x": array})["o"]
            np.testing.assert_allclose(got.astype("f4"), wanted(array), 3e-7, 3e-7)


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
            f"launch.actor @a{i} on <0, cpu:0> stream 0 reads [] writes [@y{i}] {{",
            f"launch.call @k{i} [@y{i}] }}",
        ]
    body = "\n".join(lines)
    text = f"launch.program @net rank 0 {{\n{body}\n}}"
    module = compiler.parse(text.encode(), "kinds.mlir")
    run_pipeline(compiler, passes, module, "launch-form-waves,verify-program")
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    assert [a.sym_name.data for a in program.actors] == ["a0..a7", "a8..a9"]


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
