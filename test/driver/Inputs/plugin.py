"""A plug-in in one file: a pass, a failing pass, and a dialect."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.arith import Arith as Arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass as CanonicalizePass

from penstock.dialects.utils.diagnostics import LocatedPassFailure


@irdl_op_definition
class HelloOp(IRDLOperation):
    """Greets."""

    name = "greet.hello"
    assembly_format = "attr-dict"


Greet = Dialect("greet", [HelloOp])


@dataclass(frozen=True)
class GreetPass(ModulePass):
    """Write a word on every greeting."""

    name = "greet-all"

    word: str = "hello"
    times: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Write the word."""
        for child in op.walk():
            if isinstance(child, HelloOp):
                child.attributes["word"] = StringAttr(self.word * self.times)


class RefusePass(ModulePass):
    """Refuse every greeting."""

    name = "refuse-all"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Complain about every greeting at once."""
        greetings = [child for child in op.walk() if isinstance(child, HelloOp)]
        raise LocatedPassFailure((hello, "no greetings here") for hello in greetings)
