"""A module that a pass leaves as it was is not verified again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
    StringAttr,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from penstock.dialects.job import JobOp, OutputOp, VariableOp
from penstock.dialects.op.elementwise import AddOp
from penstock.tools.driver.compiler import Compiler, installed_compiler
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.verifier import facts_of, seen_otherwise

TEXT = """
job.job @sums placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %y = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %z = op.sub %y, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "z", %z : tensor<4xf32>
}
"""

Change = Callable[[ModuleOp], None]


def parsed() -> tuple[Compiler, ModuleOp]:
    compiler, _ = installed_compiler()
    compiler.verify_each = True
    return compiler, compiler.parse(TEXT.encode(), "sums.mlir")


@dataclass(frozen=True)
class Does(ModulePass):
    """Does what it is told."""

    change: Change

    name = "does"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


def only(module: ModuleOp, kind: type[Operation]) -> Operation:
    (found,) = (op for op in module.walk() if isinstance(op, kind))
    return found


def nothing(module: ModuleOp) -> None:
    pass


def other_operand(module: ModuleOp) -> None:
    only(module, AddOp).operands[0] = only(module, VariableOp).results[0]


def other_type(module: ModuleOp) -> None:
    result = only(module, AddOp).results[0]
    Rewriter.replace_value_with_new_type(result, TensorType(f64, [4]))


def other_property(module: ModuleOp) -> None:
    only(module, OutputOp).properties["port"] = StringAttr("other")


def other_attribute(module: ModuleOp) -> None:
    only(module, AddOp).attributes["acme.note"] = StringAttr("other")


def other_order(module: ModuleOp) -> None:
    op = only(module, OutputOp)
    op.detach()
    only(module, JobOp).regions[0].block.insert_op_before(op, only(module, AddOp))


def fewer(module: ModuleOp) -> None:
    Rewriter.erase_op(only(module, OutputOp))


def one_more(module: ModuleOp) -> None:
    module.body.block.add_op(only(module, JobOp).clone())


def other_argument(module: ModuleOp) -> None:
    only(module, JobOp).regions[0].block.insert_arg(TensorType(f32, [4]), 0)


CHANGES = (
    other_operand,
    other_type,
    other_property,
    other_attribute,
    other_order,
    fewer,
    one_more,
    other_argument,
)


@pytest.mark.parametrize("change", CHANGES)
def test_ops_are_seen_otherwise_once_something_has_changed(change: Change) -> None:
    _, module = parsed()
    before = facts_of(module)
    assert not seen_otherwise(before, facts_of(module))
    change(module)
    assert seen_otherwise(before, facts_of(module))


def test_only_passes_that_changed_something_are_followed_by_verifying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler, module = parsed()
    verified: list[str] = []

    def verify(
        module: ModuleOp, prefix: str, position: int, only: object = None
    ) -> None:
        verified.append(prefix)

    monkeypatch.setattr(compiler, "verify", verify)
    changes = nothing, nothing, other_attribute, nothing, other_property
    compiler.apply(module, [Does(change) for change in changes])
    assert verified == ["does left bad IR: "] * 3 + ["the pipeline left bad IR: "]


def test_what_breaks_a_module_that_was_sound_before_is_found() -> None:
    for change, where in ((other_order, r"job\.output: "), (other_type, r"op\.add: ")):
        compiler, module = parsed()
        with pytest.raises(Rejected, match=f"does left bad IR: {where}"):
            compiler.apply(module, [Does(nothing), Does(change)])
