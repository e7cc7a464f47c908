"""The launch program of a file of any level."""

from __future__ import annotations

from pathlib import Path

from penstock.dialects.launch import ProgramOp
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.options import DEFAULTS, CompileOptions, refuse_pipeline


def program_in(
    path: Path, options: CompileOptions = DEFAULTS, data: bytes | None = None
) -> ProgramOp:
    """
    The launch program of a saved plan, or of a file of IR or its `data`, which is
    compiled. It is not run: kernels may come with sources of their own.

    Raises UsageError if the file cannot be read or is no program, and `Rejected` if it
    cannot be compiled.
    """
    from penstock.tools.driver.compiler import installed_compiler
    from penstock.tools.session.model import compile_model, read_model
    from penstock.tools.session.saved_plan.plan import is_plan, read_plan

    if is_plan(path):
        refuse_pipeline(options)
        return read_plan(path, options.device, options.load).program
    if path.suffix.lower() == ".onnx":
        raise UsageError(f"{path} is no program: penstock-import makes one of it")
    front = installed_compiler(options.load)
    apart = options.separate_weights
    model = read_model(front[0], path, data, separate_weights=apart)
    return compile_model(model, options, front, allow_source=True).program
