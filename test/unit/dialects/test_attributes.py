"""Discardable attributes: every op of ours declares its own."""

import pytest
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.test import TestOp as AnyOp

from penstock.dialects import get_all_dialects
from penstock.dialects.utils.attributes import KnownAttributes, carry


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


def test_only_attributes_with_a_prefix_are_carried_and_replace_none():
    source = AnyOp(
        attributes={"acme.a": UnitAttr(), "acme.b": UnitAttr(), "slots": UnitAttr()}
    )
    target = AnyOp(attributes={"acme.b": StringAttr("own")})
    carry(source, target)
    assert target.attributes == {"acme.a": UnitAttr(), "acme.b": StringAttr("own")}
