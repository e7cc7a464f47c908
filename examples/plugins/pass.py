"""A pass: two `op.neg`s in a row go."""

from dataclasses import dataclass

from xdsl.passes import ModulePass

from penstock.dialects.op import NegOp
from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("pass", "my-drop-negs")
@dataclass(frozen=True)
class MyDropNegsPass(ModulePass):
    """Replace the negation of a negation by its operand."""

    name = "my-drop-negs"

    def apply(self, ctx, op):
        for outer in list(op.walk()):
            if isinstance(outer, NegOp) and isinstance(outer.operand.owner, NegOp):
                outer.result.replace_all_uses_with(outer.operand.owner.operand)
                outer.detach()
                outer.erase()
