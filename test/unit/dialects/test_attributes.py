"""Discardable attributes: every op of ours declares its own."""

import pytest
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.test import TestOp as AnyOp

from penstock.dialects import get_all_dialects
from penstock.dialects.utils.attributes import KnownAttributes, carry
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.pass_pipeline import parse_passes


@pytest.mark.parametrize("name", ["job", "launch", "op", "plan", "regst"])
def test_every_op_says_which_attributes_it_knows(name: str):
    operations = get_all_dialects()[name]().operations
    assert operations
    unchecked = [
        op.name
        for op in operations
        if not op.has_trait(KnownAttributes, value_if_unregistered=False)
    ]
    assert unchecked == []


IDENTITIES = {
    "add": "op.add %h, %zero {acme.note} : !t, !t -> !t",
    "add, the other way round": "op.add %zero, %h {acme.note} : !t, !t -> !t",
    "after": "job.after %h {acme.note} : !t",
    "cast": "op.cast %h to f32 {acme.note} : !t -> !t",
    "concat": "op.concat %h axis 0 {acme.note} : !t -> !t",
    "div": "op.div %h, %one {acme.note} : !t, !t -> !t",
    "expand": "op.expand %h to [4] {acme.note} : !t -> !t",
    "mul": "op.mul %h, %one {acme.note} : !t, !t -> !t",
    "mul, the other way round": "op.mul %one, %h {acme.note} : !t, !t -> !t",
    "pad": "op.pad %h before [0] after [0] {acme.note} : !t -> !t",
    "reshape": "op.reshape %h to [4] {acme.note} : !t -> !t",
    "slice": "op.slice %h from [0] to [4] by [1] {acme.note} : !t -> !t",
    "split": "op.split %h axis 0 sizes [4] {acme.note} : !t -> !t",
    "sub": "op.sub %h, %none {acme.note} : !t, !t -> !t",
    "transpose": "op.transpose %h by [0] {acme.note} : !t -> !t",
}


@pytest.mark.parametrize("op", IDENTITIES.values(), ids=IDENTITIES)
def test_what_a_value_stands_for_hands_its_attributes_to_the_maker(op: str):
    compiler, table = installed_compiler()
    text = f"""
    !t = tensor<4xf32>
    job.job @j placement <cpu, [0:0]> {{
      %x = job.input "x" : !t
      %zero = op.constant dense<-0.0> : !t
      %none = op.constant dense<0.0> : !t
      %one = op.constant dense<1.0> : !t
      %h = op.exp %x : !t -> !t
      %y = {op}
      job.output "y", %y : !t
    }}
    """
    module = compiler.parse(text.encode(), "job.mlir")
    compiler.apply(module, parse_passes(table, "canonicalize"))
    noted = [op.name for op in module.walk() if "acme.note" in op.attributes]
    assert noted == ["op.exp"]


def test_only_attributes_with_a_prefix_are_carried_and_replace_none():
    source = AnyOp(
        attributes={"acme.a": UnitAttr(), "acme.b": UnitAttr(), "slots": UnitAttr()}
    )
    target = AnyOp(attributes={"acme.b": StringAttr("own")})
    carry(source, target)
    assert target.attributes == {"acme.a": UnitAttr(), "acme.b": StringAttr("own")}
