"""
Kernels of a program: one for all ops that are the same but for the names of values, on
devices of one kind, and that are given the same bytes twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region
from xdsl.utils.exceptions import VerifyException

from penstock.dialects import launch
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import TaskOp
from penstock.dialects.regst import alias_place
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.structural_keys import KernelKey, kernel_key
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import (
    lies_as_paired,
    operand_register,
    views_in,
)

LARGEST = (1 << 63) - 1
"""The largest number that a program holds; costs may be larger."""


@dataclass
class Kernels:
    """The kernels of a program, each built once, and what goes wrong in building."""

    names: UniqueNames
    built: dict[KernelKey, launch.KernelOp] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def name_for(self, op: TensorOp, target: str, over: Overwritten) -> str:
        """The name of the kernel that does an op on a kind of device."""
        key = (target, *over.items(), kernel_key(op))
        if (kernel := self.built.get(key)) is None:
            kernel = self.built[key] = self._build(op, target, over)
        return kernel.sym_name.data

    def _build(self, op: TensorOp, target: str, over: Overwritten) -> launch.KernelOp:
        try:
            body = in_place(kernel_body(op), over, len(op.operands))
        except VerifyException as error:
            self.findings.append((op, f"{op.name} has no kernel: {error}"))
            body = Region(Block())
        name = self.names.make_numbered(op.kernel_name)
        kernel = launch.KernelOp(name, target, body)
        kernel.location = op.location
        kernel.attributes["cost"] = cost_of(op)
        return kernel


def cost_of(op: TensorOp) -> DictionaryAttr:
    """
    The cost of an op for measurements of its kernel: its name, bytes and scalar
    operations; of a group also the names of the ops that it holds.
    """
    cost = op.cost()
    facts: dict[str, Attribute] = {
        "bytes": IntegerAttr(min(cost.bytes, LARGEST), i64),
        "flops": IntegerAttr(min(cost.flops, LARGEST), i64),
        "op": StringAttr(op.label),
    }
    if [*op.computes] != [op.name]:
        facts["holds"] = ArrayAttr(map(StringAttr, op.computes))
    return DictionaryAttr(facts)


Overwritten: TypeAlias = Mapping[int, int]
"""The operands of an op that lie where a result does, with that result."""


def overwritten_by(task: TaskOp) -> Overwritten:
    """The operands that the results of a task are written over."""
    places = {alias_place(register): i for i, register in enumerate(task.outs)}
    found: dict[int, int] = {}
    for operand in range(len(task.op.operands)):
        register = operand_register(task, operand)
        result = places.get(alias_place(register))
        # One memref of the kernel stands for both.
        if result is not None and register.type == task.outs[result].type:
            found[operand] = result
    return found


def copied_in_place(task: TaskOp) -> set[int]:
    """The operands of an op of which its kernel copies all bytes to where they lie."""
    pairs = views_in(task)
    return {pair.operand for pair in pairs if lies_as_paired(task, pair)}


def in_place(body: Region, over: Overwritten, operands: int) -> Region:
    """The body of a kernel that reads operands where it writes results."""
    args = tuple(body.block.args)
    for operand, result in over.items():
        args[operand].replace_all_uses_with(args[operands + result])
    for operand in over:
        body.block.erase_arg(args[operand])
    return body
