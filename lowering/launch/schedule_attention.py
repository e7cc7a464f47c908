"""
Give attention in the kernels for `cpu`, and its gradients, a schedule: blocks of
queries and keys.

A stage is attention if its loops are those of `op.attention`, as they are or changed
without another meaning; it is left alone where the elements of values, or of rows of
the result, are not contiguous, which the attribute `no_schedule` says then.

* *Form*. `rows` for up to 4 queries, if the terms of queries and of keys are
  contiguous: vectors are along terms, and nothing is copied. Else `columns`.
* *Tile*. Of tiles with 1 to 4 vectors of queries and as many keys as leave registers
  for a line of queries, the one with the least modelled time for all queries, where the
  last block may have fewer vectors.
* *Mix*. Of tiles whose vectors divide a row of the result, the one with the least
  modelled time for the rows of a block of queries.
* *Keys*. Blocks of up to 144 keys, as even as whole tiles allow, so that scores and
  values stay in L1 and L2; up to 2048 in the form `rows`. Where a mask is transposed,
  several blocks have whole vectors of keys, so that none of their elements is copied
  alone.
* *Stack*. Panels of queries, scores and transposed masks take 256 KiB at most: where
  they would take more, blocks have fewer keys, and if less than a tile of them were
  left, fewer vectors of queries.

Gradients of attention go through blocks of about 72 keys and 72 queries, both whole
tiles, in tiles like those of `columns`; they have no schedule where rows of queries,
keys or results are not contiguous.

Vectors have `vector_bytes`; by default those of the CPU that compiles.

Example: `test/lowering/launch/launch-schedule-attention-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.walk import outermost
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.cpu.vector_width import checked_vector_bytes


@dataclass(frozen=True)
class LaunchScheduleAttentionPass(ModulePass):
    """
    Compute attention in kernels for `cpu` in blocks of queries and keys.
    """

    name = "launch-schedule-attention"

    vector_bytes: int | None = None
    """The bytes of a vector: 16, 32 or 64. By default those of this CPU."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        width = checked_vector_bytes(self.vector_bytes)
        for kernel in outermost(op, KernelOp):
            if kernel.compiled_for == "cpu":
                schedule_attention(kernel, width)
