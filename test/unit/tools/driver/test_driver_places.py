"""Places of operations, and failures that name operations."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, UnknownLoc
from xdsl.dialects.test import Test
from xdsl.ir import Operation
from xdsl.parser import Parser

from penstock.dialects.utils.diagnostics import (
    LocatedPassFailure,
    fail_if_any,
    place_of,
)
from penstock.tools.driver.locating_parser import LocatingParser


def parse(text: str) -> ModuleOp:
    """Parse with xDSL's parser, which leaves locations unknown."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Test)
    return Parser(context, text, "x.mlir").parse_module()


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ('loc("a.py":3:4)', "a.py:3:4"),
        ('loc("name"("a.py":3:4))', "a.py:3:4"),
        ('loc(callsite("callee.py":3:4 at "caller.py":5:6))', "callee.py:3:4"),
        ('loc(fused[unknown, "a.py":3:4])', "a.py:3:4"),
        ("loc(unknown)", "None"),
        ('loc("name")', "None"),
        ("loc(fused[unknown])", "None"),
    ],
)
def test_place_of_each_kind_of_location(location: str, place: str):
    op = parse(f'"test.op"() : () -> () {location}').body.block.first_op
    assert op is not None
    assert str(place_of(op)) == place


def test_operation_without_a_place_takes_that_of_its_parent():
    module = parse('"test.op"() ({ "test.termop"() : () -> () }) : () -> ()')
    outer, inner = [op for op in module.walk() if op is not module]
    assert place_of(inner) is None
    context = Context()
    context.load_dialect(Builtin)
    located = LocatingParser(context, "\n builtin.module {}", "y.mlir").parse_module()
    outer.location = located.location
    assert isinstance(inner.location, UnknownLoc)
    assert str(place_of(inner)) == "y.mlir:2:2"


def findings() -> list[tuple[Operation, str]]:
    """Complain twice about a module."""
    module = ModuleOp([])
    return [(module, "too big"), (module, "too slow")]


def test_failure_holds_all_findings():
    with pytest.raises(LocatedPassFailure, match="too big\ntoo slow") as caught:
        fail_if_any(iter(findings()))
    assert [message for _, message in caught.value.findings] == [
        "too big",
        "too slow",
    ]


def test_no_finding_is_no_failure():
    fail_if_any([])
    with pytest.raises(ValueError, match="needs at least one finding"):
        LocatedPassFailure([])


TYPES = """
"test.op"() : () -> (tensor<4x?xf32>, tensor<4x?xf32>, memref<2xi8>, memref<2xi8>)
#layout = strided<[2]>
"test.op"() : () -> (tensor<4xf32, "a>b">, tensor<4xf32, "a>c">, memref<2xi8, #layout>)
"test.op"() : () -> (tensor< // one>
  4xf32>, tensor< // one>
  4xi32>, vector<4xf32>, tensor<vector<4xf32>>, tensor<4xf32>)
"test.op"() : () -> (tensor<4x() -> i32>, tensor<4x() -> i32>, tensor<4x() -> i64>)
"""


def test_types_of_one_text_are_read_once() -> None:
    context = Context()
    for dialect in (Builtin, Test):
        context.load_dialect(dialect)
    module = LocatingParser(context, TYPES, "x.mlir").parse_module()
    assert str(module) == str(parse(TYPES))
    first = [value.type for value in next(iter(module.ops)).results]
    assert first[0] is first[1]
    assert first[2] is first[3]
