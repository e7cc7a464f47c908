"""A pass in a file of its own."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from penstock.dialects.op import ReluOp


@dataclass(frozen=True)
class DropReluPass(ModulePass):
    """
    Replace every `op.relu` by its operand.
    """

    name = "drop-relu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replace them."""
        for relu in list(op.walk()):
            if isinstance(relu, ReluOp):
                Rewriter.replace_op(relu, [], [relu.operand])
