"""
The key of a measured time: an injective text of all that the time depends on.

A key is a JSON text of the computation (the generic text of the kernel, without its
name, without the names of values and without notes of passes; arguments that may be
packed), the number of parts, the vector width in bytes, and the machine. A machine is
the model and the features of its CPU, the versions of what compiles, and a digest of
our own modules, so that a time is that of the code that would be generated now.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, Region

from penstock.cpu_target import flat_features
from penstock.dialects.utils.attributes import OF_VALUES, own_attributes
from penstock.dialects.utils.exact_printer import ExactPrinter

if TYPE_CHECKING:
    from penstock.dialects.launch import KernelOp
    from penstock.dialects.plan import TaskOp

ABI = 1
"""The number of the interface of kernels: the arguments of their C functions."""

WHOLE = "task"
"""The name of the one time that a task has in the kernel database."""

NOTES = ("author", "cost", "refused", "selected")
"""The attributes that passes note on kernels, which do not change their results."""

NOT_FUSED = "not_fused"
"""The reason of an op that is no part of a group, for which it was measured."""

_PACKAGES = ("numba", "llvmlite", "penstock")
_GENERATORS = "dialects", "lowering", "runtime"
"""
The folders of all modules on which the machine code of a kernel depends, and others: to
measure once more costs less than to believe what is no longer true.
"""


@dataclass(frozen=True)
class Key:
    """The text of all that a time depends on."""

    text: str

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits by which a text is looked up."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def kernel_key(
    kernel: KernelOp,
    machine: str,
    *,
    constants: Collection[int] = (),
    parts: int = 1,
    vector_bytes: int,
) -> Key:
    """The key of the times of a kernel's alternatives."""
    facts = {
        "kind": "kernel",
        "target": kernel.target.data,
        "text": kernel_text(kernel),
        "constants": sorted(constants),
        "parts": parts,
        "vector bytes": vector_bytes,
    }
    return _key(facts, machine)


def task_key(op: Operation, device: str, machine: str, *, parts: int = 1) -> Key:
    """The key of the time of a task that computes an op on a kind of device."""
    facts = {"kind": "task", "device": device, "text": op_text(op), "parts": parts}
    return _key(facts, machine)


def key_of_task(task: TaskOp, parts: int, gpu: str = "") -> Key:
    """The key of the time that a task takes; on `cuda` on the GPU of a name."""
    kind = task.device.kind.data
    return task_key(task.op, kind, machine_of(kind, machine_here(), gpu), parts=parts)


def _key(facts: Mapping[str, object], machine: str) -> Key:
    return Key(json.dumps({**facts, "machine": machine}, sort_keys=True))


################################################################################
# Text of IR                                                                   #
################################################################################


def kernel_text(kernel: KernelOp) -> str:
    """The text of a kernel's computation, the same under any names and notes."""
    copy = kernel.clone()
    copy.properties.pop("sym_name", None)
    for note in NOTES:
        copy.attributes.pop(note, None)
    return _text_of(copy)


def op_text(op: Operation) -> str:
    """
    The text of an op's computation, the same under any names of its operands, as an op
    of a job and of a task.
    """
    distinct = list(dict.fromkeys(op.operands))
    block = Block(arg_types=[value.type for value in distinct])
    block.add_op(op.clone(dict(zip(distinct, block.args, strict=True))))
    text = StringIO()
    region = Region(block)
    for inner in block.walk():
        _forget_names(inner)
        for note in (*OF_VALUES, NOT_FUSED):
            inner.attributes.pop(note, None)
    ExactPrinter(text, print_generic_format=True).print_region(region)
    return text.getvalue()


def _text_of(op: Operation) -> str:
    for inner in op.walk():
        _forget_names(inner)
    text = StringIO()
    ExactPrinter(text, print_generic_format=True).print_op(op)
    return text.getvalue()


def _forget_names(op: Operation) -> None:
    """Drop the names of values and notes, and list attributes in one order."""
    op.attributes = dict(sorted(own_attributes(op).items()))
    op.properties = dict(sorted(op.properties.items()))
    for result in op.results:
        result.name_hint = None
    for region in op.regions:
        for block in region.blocks:
            for arg in block.args:
                arg.name_hint = None


################################################################################
# The machine                                                                  #
################################################################################


def machine_of(target: str, machine: str, gpu: str) -> str:
    """The text of the machine that kernels of a target run on."""
    return f"{machine} {gpu}" if target == "cuda" and gpu else machine


@cache
def machine_here() -> str:
    """The text that stands for this machine, and for what makes code for it."""
    from llvmlite import binding

    name = binding.get_host_cpu_name()
    facts = {
        "abi": ABI,
        "processor": f"{platform.machine()} {name} {_model()}",
        "features": flat_features(),
        "versions": [f"{package} {_version(package)}" for package in _PACKAGES],
        "generators": _digest(generators()),
    }
    return json.dumps(facts, sort_keys=True)


def _model() -> str:
    """The model name of the CPU as the system tells it; empty if it does not."""
    path = Path("/proc/cpuinfo")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(names, "").strip()


def generators() -> Iterable[Path]:
    """The files of our modules on which a time depends."""
    root = Path(__file__).parents[2]
    yield root / "cpu_target.py"
    for folder in _GENERATORS:
        yield from sorted((root / folder).rglob("*.py"))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        data = path.read_bytes()
        digest.update(f"{path.name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
