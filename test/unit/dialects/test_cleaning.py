"""The canonical form of regions is that of xDSL's own `canonicalize`."""

from __future__ import annotations

import pytest
from draws import fresh
from random_flow import RandomJob
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
from xdsl.traits import EffectInstance, MemoryEffectKind, NoMemoryEffect
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.dead_code_elimination import region_dce

from penstock.dialects.utils import cleaning
from penstock.tools.driver.compiler import installed_compiler


def by_xdsl(ctx: Context, module: ModuleOp) -> None:
    """The pass of xDSL as it is, which asks each op."""
    applier = GreedyRewritePatternApplier(
        [CanonicalizationRewritePattern()], ctx=ctx, folding_enabled=True
    )
    PatternRewriteWalker(applier, post_walk_func=region_dce).rewrite_module(module)


def both(text: bytes) -> tuple[str, str, str]:
    """A module as it is, and canonical by xDSL and by us."""
    compiler, _ = installed_compiler()
    compiler.ctx.allow_unregistered = True
    theirs, ours = (compiler.parse(text, "x.mlir") for _ in range(2))
    before = str(theirs)
    by_xdsl(compiler.ctx, theirs)
    cleaning.canonicalize(compiler.ctx, ours.body)
    return before, str(theirs), str(ours)


def test_random_jobs_with_loops_and_conditions_are_cleaned_as_by_xdsl() -> None:
    text = RandomJob(fresh()).text(depth=3, size=6)
    before, theirs, ours = both(text)
    assert ours == theirs
    assert ours != before


TWO_THAT_READ_EACH_OTHER = b"""
"test.op"() ({
  %0 = arith.addi %1, %1 : i32
  %1 = arith.addi %0, %0 : i32
  "test.termop"() : () -> ()
}) : () -> ()
"""

READ_BY_A_DEAD_REGION = b"""
%c = arith.constant 1 : i1
%x, %y = "test.op"() : () -> (i32, i32)
%kept = arith.addi %x, %y : i32
%z = arith.addi %kept, %x : i32
%dead = scf.if %c -> (i32) {
  %sum = arith.addi %z, %y : i32
  scf.yield %sum : i32
} else {
  scf.yield %z : i32
}
"test.op"(%kept) : (i32) -> ()
"""

BLOCKS = b"""
func.func @f(%x : i32) -> i32 {
  %unused = arith.muli %x, %x : i32
  cf.br ^end(%x : i32)
^unreached:
  %y = arith.addi %x, %x : i32
  cf.br ^end(%y : i32)
^end(%z : i32):
  func.return %z : i32
}
"""

MEMORY = b"""
%i = arith.constant 0 : index
%m = memref.alloc() : memref<4xf32>
%n = memref.alloc() : memref<4xf32>
%unused = memref.load %m[%i] : memref<4xf32>
%v = memref.load %n[%i] : memref<4xf32>
memref.store %v, %m[%i] : memref<4xf32>
%four = arith.addi %i, %i : index
"""

UNKNOWN = b"""
%x = "unknown.op"() : () -> i32
%y = arith.addi %x, %x : i32
"""


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (TWO_THAT_READ_EACH_OTHER, True),
        (READ_BY_A_DEAD_REGION, True),
        (BLOCKS, True),
        (MEMORY, True),
        (UNKNOWN, True),
        (b"", False),
    ],
)
def test_dead_ops_go_as_in_xdsl(text: bytes, changes: bool) -> None:
    before, theirs, ours = both(text)
    assert ours == theirs
    assert (ours != before) is changes


class Quiet(NoMemoryEffect):
    """No effects but those of the ops that are said to be loud."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        is_loud = "loud" in op.attributes
        return {EffectInstance(MemoryEffectKind.WRITE)} if is_loud else set()


@irdl_op_definition
class SaidOp(IRDLOperation):
    name = "said.op"
    traits = traits_def(Quiet())


def test_ops_of_one_class_may_have_different_effects() -> None:
    ops = [SaidOp(attributes={name: UnitAttr()}) for name in ("low", "loud")]
    module = ModuleOp(ops)
    cleaning.canonicalize(Context(), module.body)
    assert [[*op.attributes] for op in module.ops] == [["loud"]]
