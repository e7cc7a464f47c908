"""
Give contractions in kernels for `cpu` a schedule: tiles in vector registers.

A `kernel.contract`, which `raise-linalg-to-kernel` makes of ops of `linalg`, is
scheduled if it sums products of two `f32`, `f64`, `i32` or `i64`, of two 8-bit
integers in an `i32`, or of two `bf16` in an `f32`, and its loops can be sorted into
rows, columns and terms (`penstock.lowering.codegen.body.contraction`); so can those of
matmuls and of convolutions. A contraction for which that does not hold gets the
attribute `no_schedule` with the reason. An op with one of both already keeps it. The
attribute `schedule`, a `#launch.contraction`, has all that the source depends on, and
may be written in the input:

* *Form*. `outer` (vectors along columns), unless columns of `b` are not contiguous,
  terms of `a` and of `b` are, and there are few rows: then `inner` (vectors along
  terms), but not of a `b` that may lie in panels, if its columns times the rows are
  eight vectors or more; so too where columns are at most five eighths of a vector,
  terms of `a` are contiguous and are eight vectors or more, and `b` is a constant that
  only this kernel reads: its columns then lie in panels, one after the other. Or
  `upright` (vectors along rows), if columns would have to be packed, rows are whole
  vectors and `a` lies in panels, and if transposing the sums, and reading panels of `a`
  that are not in L1, takes less time than packing.
* *Tile*. Of all tiles that fit into the registers, the one with the least modelled
  time: for each term a tile takes as long as its products, as its loads, or as eight
  products, whichever takes longest; tiles at the edges count like the others. Or one
  that many kernels have, so that few forms are compiled, if it takes 2 % more at most:
  8 rows by 3 vectors or 4 by 4, with 16 registers 6 by 2 or 4 by 3, rather if no
  columns are left. Windows that are read in place have the fastest tile.
* *Panels*, if an operand is a constant that only this kernel reads, in this one place
  (`penstock.lowering.analysis.constant_arguments`): `a`, or a `b` that would be packed,
  or one of more than 256 KiB that one tile of all rows reads once, at the pace of
  memory. The variable then has a packed layout from its loading on.
* *Edge*, if `a` lies in panels, and tiles of whole vectors and one column more take
  less time: 49 columns.
* *Packed*, if columns are not contiguous, or are windows that are not read in place, or
  if at least 64 rows read a
  `b` of more than 256 KiB, or one whose terms do not all begin at the same place of a
  64-byte line, so that vectors lie across lines. The panel has up to 32768 elements;
  where `a` lies in panels, up to 20 KiB, unless all fits into 64. Where nothing is
  packed, blocks of up to 256 terms (or 16384 elements) keep columns in cache. Zeros
  around `b` (`kernel.padded`) are left out when it is packed, so that it always is;
  other factors with zeros around them get no schedule.
* *In place*. Windows that are neighbours without zeros around them are not packed but
  read where they lie, line by line, if the vectors that lines fill in part take less
  time than packing: for few rows or long lines.
* *Reuse*. Where columns take several tiles, and there are at least 16 rows of together
  32768 elements in `a`, which lies in no panels and has no windows: blocks of rows are
  packed, and all columns computed with the copy. Then `b` is packed as well, for at
  least 32 rows, and a block has as many terms as leave 32 KiB to a panel, and as many
  rows as leave 384 KiB to their copy: for each block `b` is packed anew. Several
  `parts` share blocks and groups of panels, one to four times as many as they are, so
  that they end together and little is packed twice.
* *Group*, if factors are narrower than their accumulators: 8-bit integers with `i32`
  are in groups of four terms, `bf16` with `f32` in pairs. Then rows are copied always,
  and columns packed, unless `b` is a constant that only this kernel reads, of whole
  groups of terms: that lies in panels. With `matrices` (AMX), 8-bit integers and 16
  rows or more, tiles are AMX tile registers, if such a `b` fills them.
* *Height*. All rows; for several `parts` as many as give each at least four units of
  work.
* *Start and finish*. They are computed in registers
  (`penstock.lowering.codegen.body.epilogue`); others become stages before or behind
  the op, and `no_finish` says why. Of an op of `linalg` that is not raised, as
  many stages around it as can be are folded.

A `kernel.pool`, and a contraction that is a depthwise convolution, get a
`#launch.windows`, or a `no_schedule`: for a depthwise convolution vectors no longer
than lines, and tiles of up to 8 of them: of lines, if windows have several, else along
lines; the lines of windows of more than 128 taps are a loop (`looped`). For a pool
vectors run on from line to line, and at most 200 are combined in a tile.

Vectors have `vector_bytes`; by default those of the CPU that compiles, so that a plan
made elsewhere should be given this number. The number stands in the schedule: a CPU
with narrower vectors computes the same, if not as fast.

A copy of an image with a number around it (`kernel.padded`) becomes loops over rows.

A `kernel.row` gets a `#launch.vector_loops`: `columns` where rows lie next to each
other, else `lines` where points of a row do; it says why if neither is so.

Example: `test/lowering/launch/launch-schedule-contractions-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch.packed_layout import PANELS
from penstock.lowering.analysis.constant_arguments import called_kernels
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cpu.vector_width import (
    checked_vector_bytes,
    has_matrices_here,
)


@dataclass(frozen=True)
class LaunchScheduleContractionsPass(ModulePass):
    """Compute contractions in kernels for `cpu` in tiles that stay in registers."""

    name = "launch-schedule-contractions"

    vector_bytes: int | None = None
    """The bytes of a vector: 16, 32 or 64. By default those of this CPU."""

    parts: int = 1
    """The number of threads that may share the work of a kernel."""

    matrices: bool | None = None
    """
    Whether AMX tile registers multiply 8-bit integers. By default if this CPU has them,
    and no vectors are given.
    """

    panels: bool = True
    """
    Whether variables may lie in panels: not if others find them by their address.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.parts < 1:
            raise PassFailedException(f"parts must be at least 1, got {self.parts}")
        width, matrices = checked_vector_bytes(self.vector_bytes), self.matrices
        if matrices is None:
            matrices = self.vector_bytes is None and has_matrices_here()
        for kernel, constants in called_kernels(op):
            if kernel.compiled_for != "cpu" or PANELS in kernel.attributes:
                continue
            constants = constants if self.panels else {}
            schedule_kernel(kernel, width, self.parts, constants, matrices)
            for number, variables in constants.items():
                for variable in variables:
                    variable.panels = kernel.panels[number]
