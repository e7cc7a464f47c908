"""
Give contractions in kernels for `cuda` a schedule: tiles of blocks and threads.

A `kernel.contract` of floats gets tiles (`#launch.tiles`) if its loops can be sorted
into rows, columns and terms (`penstock.lowering.codegen.body.contraction`), as those of
matmuls and convolutions can, and if there are at least 4 rows and columns, 256 sums and
8 terms. Threads share the terms of any other one (`#launch.rows`) that has at least 64
terms and up to 65536 sums, or 32 terms that follow each other in both factors; and so
where up to 16 rows and 512 terms make tiles for less than half of the multiprocessors.
Otherwise `no_schedule` says why there are no tiles. An op with a schedule, which may be
written in the input, or with `no_schedule` keeps it.

* *Tiles*. Of a few sizes, the one with the least modelled time: the turns in which
  `processors` take one tile each, times the size of a tile, over the share of its time
  in which a tile of this size computes.
* *Tensor cores* multiply `f16` and `bf16`: then tiles are of blocks and warps,
  accumulators are `f32` and are rounded when they are stored.
* *Attention* (`op.attention`) gets a `#launch.queries`: blocks of as many queries and
  keys as shared memory holds (`tiles`), or a block for each query if there are up to 4
  (`rows`). Its gradients get a `#launch.gradient_tiles`, of the larger of two sizes of
  blocks that shared memory holds.
* *Rows* (`kernel.row`) of at least 32 contiguous elements have a warp, or a block if
  more than 32 words a thread would have to stay in registers between passes. Rows of 64
  elements or more that lie apart, up to 65536 of them, have a block for several side by
  side.
* *Windows* (`kernel.pool`, and a `kernel.contract` that is a depthwise convolution)
  have a thread for each element of the result (`#launch.window_threads`), with up to 32
  taps in the code, and others in loops.
* *Prologue and epilogue*. As many stages around it as can be computed in registers
  (`penstock.lowering.codegen.body.epilogue`).

Example: `test/lowering/launch/launch-schedule-tiles-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.walk import outermost
from penstock.lowering.codegen.cuda.kernel_schedule import PROCESSORS, schedule_kernel


@dataclass(frozen=True)
class LaunchScheduleTilesPass(ModulePass):
    """Compute contractions in kernels for `cuda` in tiles of blocks and threads."""

    name = "launch-schedule-tiles"

    processors: int = PROCESSORS
    """
    The number of blocks that the GPU computes at once, one on each of its
    multiprocessors.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.processors < 1:
            raise PassFailedException(
                f"processors must be at least 1, got {self.processors}"
            )
        for kernel in outermost(op, KernelOp):
            if kernel.target.data == "cuda":
                schedule_kernel(kernel, self.processors)
