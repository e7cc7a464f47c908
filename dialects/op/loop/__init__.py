"""`op.loop`, its form, its simpler forms and its gradient."""

from penstock.dialects.op.loop.form import INDEX
from penstock.dialects.op.loop.op import LoopOp

__all__ = ["INDEX", "LoopOp"]
