"""After a pass, verifiers are asked that may see anything else than before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, UnitAttr, f32, f64
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from penstock.tools.driver.compiler import Compiler
from penstock.tools.driver.errors import Rejected
from penstock.tools.driver.verifier import facts_of, seen_otherwise


class Chain:
    """
    Ops each of which reads the one before, the fourth within the third, which has an
    argument that the fourth reads, too; and one beside them.
    """

    def __init__(self) -> None:
        self.a = test.TestOp(result_types=[f32])
        self.b = test.TestOp([self.a.results[0]], result_types=[f32])
        block = Block(arg_types=[f32])
        self.d = test.TestOp([self.b.results[0], block.args[0]], result_types=[f32])
        self.deep = test.TestOp([block.args[0]])
        self.around = test.TestOp(regions=[Region(Block([self.deep]))])
        block.add_ops([self.d, self.around])
        self.c = test.TestOp(
            [self.b.results[0]], result_types=[f32], regions=[Region(block)]
        )
        self.beside = test.TestOp()
        self.e = test.TestOp([self.c.results[0]])
        self.module = ModuleOp([self.a, self.b, self.c, self.e, self.beside])

    def seen(self, change: Callable[[], object]) -> set[Operation]:
        """The ops whose verifiers see a change."""
        before = facts_of(self.module)
        change()
        return seen_otherwise(before, facts_of(self.module))


def mark(op: Operation) -> None:
    op.attributes["mark"] = UnitAttr()


def test_a_change_is_seen_around_it_and_one_step_beyond() -> None:
    x = Chain()
    assert x.seen(lambda: None) == set()
    assert x.seen(lambda: mark(x.b)) == {x.module, x.a, x.b, x.c, x.d}
    assert x.seen(lambda: mark(x.d)) == {x.module, x.b, x.c, x.d}
    # A change in an op is none of those beside it.
    assert x.seen(lambda: mark(x.deep)) == {x.module, x.c, x.around, x.deep}
    assert x.seen(lambda: mark(x.c)) == {
        *(x.module, x.b, x.c, x.d, x.around),
        *(x.e,),
    }


def test_types_of_arguments_are_seen_however_deep_they_are_read() -> None:
    x = Chain()
    argument = x.d.operands[1]
    found = x.seen(lambda: Rewriter.replace_value_with_new_type(argument, f64))
    assert {x.c, x.d, x.deep} <= found
    assert x.beside not in found


def test_removed_ops_and_new_operands_are_seen_by_the_ops_that_they_read() -> None:
    x = Chain()
    assert x.seen(lambda: Rewriter.erase_op(x.e)) == {x.module, x.c}

    def read_another() -> None:
        x.d.operands[0] = x.a.results[0]

    assert x.seen(read_another) == {x.module, x.a, x.b, x.c, x.d}


class FarSighted(test.TestOp):
    """An op that must read no op that reads a marked one."""

    def verify_(self) -> None:
        (near,) = (value.owner for value in self.operands)
        assert isinstance(near, Operation)
        (far,) = (value.owner for value in near.operands)
        if isinstance(far, Operation) and "mark" in far.attributes:
            raise VerifyException("two steps on there is a mark")


@dataclass(frozen=True)
class Mark(ModulePass):
    """Marks the first op, if it is to."""

    name = "mark-first"

    does: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        first = op.body.block.first_op
        if self.does and first is not None:
            mark(first)


def test_all_is_verified_after_the_last_pass() -> None:
    far = test.TestOp(result_types=[f32])
    near = test.TestOp([far.results[0]], result_types=[f32])
    module = ModuleOp([far, near, FarSighted([near.results[0]])])
    passes = [Mark(False), Mark(), Mark(False)]
    with pytest.raises(Rejected) as raised:
        Compiler(Context()).apply(module, passes)
    message = "the pipeline left bad IR: test.op: two steps on there is a mark"
    assert str(raised.value) == message
