"""Each structured op of a kernel has a schedule of its target, or says why not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE, StructuredOp
from penstock.dialects.launch import KernelOp
from penstock.lowering.pipelines import Passes, PipelineOptions, kernel_passes, pipeline
from penstock.tools.driver.compiler import Compiler, installed_compiler
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.pass_pipeline import make_passes

TESTS = Path(__file__).parents[3]
FILES = (*TESTS.glob("target/*.mlir"), *TESTS.glob("dialects/kernel/*.mlir"))
SECTIONS = re.compile(rb"^// -----[ \t\r]*$", re.MULTILINE)


def sections(compiler: Compiler) -> Iterator[tuple[str, ModuleOp]]:
    """The sections of files that can be read, with their names."""
    for path in sorted(FILES):
        for number, data in enumerate(SECTIONS.split(path.read_bytes())):
            name = f"{path.name}#{number}"
            try:
                module = compiler.parse(data, name)
                compiler.verify(module)
            except (DiagnosticException, Rejected, VerifyException):
                continue
            yield name, module


def kernels_in(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def retargeted(module: ModuleOp, target: str) -> bool:
    """Let the kernels of a module be for a target; whether there are any."""
    for kernel in (kernels := kernels_in(module)):
        kernel.properties["target"] = StringAttr(target)
    return bool(kernels)


def before_loops(passes: Passes) -> Passes:
    """Passes up to the one that makes loops of what has no schedule."""
    names = [spec.name for spec in passes]
    return passes[: names.index("convert-kernel-to-loops")]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_no_op_is_without_a_schedule_and_a_reason(target: str) -> None:
    compiler, available = installed_compiler()
    options = PipelineOptions(target, simulate_ranks=True)
    whole, last = (
        make_passes(available, before_loops(passes))
        for passes in (pipeline(options), kernel_passes(options))
    )
    found, silent = Counter[str](), list[str]()
    for name, module in sections(compiler):
        passes = last if retargeted(module, target) else whole
        try:
            for each in passes:
                each.apply(compiler.ctx, module)
        except (DiagnosticException, Rejected, VerifyException):
            continue
        for kernel in kernels_in(module):
            ops = kernel.walk() if kernel.source is None else ()
            for op in (op for op in ops if isinstance(op, StructuredOp)):
                found[op.name] += 1
                if SCHEDULE not in op.attributes and REFUSAL not in op.attributes:
                    silent.append(f"{name}: {op}")
    assert not silent, "\n".join(silent)
    assert {"kernel.contract", "kernel.pool", "kernel.row", "kernel.gather"} <= {*found}
