"""
Make a kernel database with times that nobody measured:

    python plant_times.py FILE.mlir OUT.db 'KERNEL: ALTERNATIVE' 12.5 'TASK: task' 700

gives alternatives of kernels, tasks, and ops of jobs as tasks on a CPU, in a file so
many nanoseconds, on this machine, for vectors of 64 bytes. Ops of jobs on the GPU
`device` are those whose names begin with `cuda_`. `--load FILE.py` after OUT.db loads
plug-ins, whose code times are of.
"""

import sys
from pathlib import Path

from penstock.dialects.job import JobOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.lowering.kernel_times.database import KernelDatabase, Time
from penstock.lowering.kernel_times.keys import (
    Key,
    kernel_key,
    key_of_task,
    machine_here,
    machine_of,
    task_key,
)
from penstock.lowering.launch.autotune.registry import alternatives
from penstock.tools.driver.compiler import installed_compiler


def keys_of(path: str, files: list[str]) -> dict[str, Key]:
    """The keys of kernels and tasks in a file, by their names; `files` are loaded."""
    compiler, _ = installed_compiler(files)
    module = compiler.parse(Path(path).read_bytes(), path)
    found: dict[str, Key] = {}
    for op in module.walk():
        if isinstance(op, KernelOp):
            key = kernel_key(op, machine_here(), vector_bytes=64)
            found[op.sym_name.data] = key
        elif isinstance(op, TaskOp):
            found[op.task_name.data] = key_of_task(op, 1)
        elif isinstance(op, TensorOp) and isinstance(op.parent_op(), JobOp):
            name = op.results[0].name_hint or ""
            kind = "cuda" if name.startswith("cuda_") else "cpu"
            machine = machine_of(kind, machine_here(), "device")
            found[name] = task_key(op, kind, machine)
    return found


def main() -> None:
    """Make it."""
    source, target, *planted = sys.argv[1:]
    files: list[str] = []
    if planted[0] == "--load":
        _, file, *planted = planted
        files.append(file)
    keys = keys_of(source, files)
    codes = {found.name: found.code for found in alternatives()}
    Path(target).unlink(missing_ok=True)
    with KernelDatabase(Path(target), write=True) as database:
        for what, time in zip(planted[::2], planted[1::2], strict=True):
            name, _, alternative = what.partition(": ")
            nanoseconds = float(time)
            code = codes.get(alternative.partition(" ")[0], "penstock")
            row = Time(nanoseconds, nanoseconds, 3, "2026-01-01T00:00:00+00:00", code)
            database.record(keys[name], {alternative: row})


if __name__ == "__main__":
    main()
