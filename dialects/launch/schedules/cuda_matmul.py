"""Schedules of contractions on GPUs: tiles of thread blocks, threads and warps."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

WARP = 32
MAX_THREADS = 1024
MAX_SUMS = 64
MAX_SHARED_ELEMENTS = 12288
"""The `f32` elements in 48 KiB of shared memory."""
PADDING = 4
"""The elements after each line of a tile that keep lines in different banks."""
MAX_WARP_SUMS = 128
"""The sums of a thread on tensor cores: registers hold little else."""
NARROW_PADDING = 8
"""The same for `f16` and `bf16`, whose lines begin at multiples of 16 bytes."""
STAGES = (2, 4)
MAX_SHARED_BYTES = 160 * 1024
"""
The shared memory, in bytes, that a block may ask of any GPU with tensor cores for
`bf16`.
"""
MATRIX = 16
"""The rows, columns and terms that a warp multiplies at once, or half as many."""


@irdl_attr_definition
class TilesAttr(ParametrizedAttribute):
    """
    The GPU schedule of a contraction `o[m, n] += a[m, k] * b[k, n]`, by thread blocks:
    each takes a tile of the result, and the threads of the block a smaller tile each.

    `block [M, N, K]` is a tile of M rows and N columns, for which K terms at once are
    brought to shared memory, twice, so that the next ones are on their way meanwhile.
    `thread [R, C]` are the rows and columns of a thread, whose sums are in registers.
    `warp [R, C]` in its place says that a warp computes so many rows and columns on
    tensor cores, for `f16` and `bf16`: accumulators are `f32`, and rounded when they
    are stored. There K terms are brought `stages` times, all but one of them on their
    way. `folds [B, A]` says that the B stages before (that start the sum) and the A
    stages after (elementwise, on the same result) are computed in registers with it.

    ```mlir
    #launch.tiles<block [128, 128, 8], thread [8, 8], folds [1, 0]>
    #launch.tiles<block [128, 128, 32], warp [64, 32], stages 4, folds [1, 0]>
    ```
    """

    name = "launch.tiles"

    rows: IntAttr = param_def(converter=IntAttr.get)
    columns: IntAttr = param_def(converter=IntAttr.get)
    terms: IntAttr = param_def(converter=IntAttr.get)
    thread_rows: IntAttr = param_def(converter=IntAttr.get)
    thread_columns: IntAttr = param_def(converter=IntAttr.get)
    staged: IntAttr = param_def(converter=IntAttr.get)
    before: IntAttr = param_def(converter=IntAttr.get)
    after: IntAttr = param_def(converter=IntAttr.get)

    def __init__(
        self,
        block: Sequence[int],
        thread: Sequence[int],
        folds: Sequence[int] = (0, 0),
        stages: int = 0,
    ):
        super().__init__(*map(IntAttr, (*block, *thread, stages, *folds)))

    @property
    def block(self) -> tuple[int, int, int]:
        """The rows and columns of a block, and the terms it adds at once."""
        return self.rows.data, self.columns.data, self.terms.data

    @property
    def thread(self) -> tuple[int, int]:
        """The rows and columns of a thread, or of a warp on tensor cores."""
        return self.thread_rows.data, self.thread_columns.data

    @property
    def stages(self) -> int:
        """
        The stages of the pipeline to shared memory on tensor cores, or 0 if threads
        multiply.
        """
        return self.staged.data

    @property
    def folds(self) -> tuple[int, int]:
        """The stages before and after that are fused: prologue and epilogue."""
        return self.before.data, self.after.data

    @property
    def threads(self) -> int:
        """The threads of a block."""
        rows, columns, _ = self.block
        tiles = (rows // self.thread[0]) * (columns // self.thread[1])
        return tiles * WARP if self.stages else tiles

    @property
    def shared_elements(self) -> int:
        """The elements in shared memory."""
        rows, columns, terms = self.block
        return 2 * terms * (rows + columns + 2 * PADDING)

    @property
    def shared_bytes(self) -> int:
        """The most that tensor cores need of shared memory."""
        rows, columns, terms = self.block
        lines = terms * (rows + NARROW_PADDING) + terms * (columns + NARROW_PADDING)
        turned = (rows + columns) * (terms + NARROW_PADDING)
        return 2 * self.stages * max(lines, turned)

    def verify(self) -> None:
        if min(*self.block, *self.thread) < 1:
            raise VerifyException(
                f"tiles have at least one element a side, got block {[*self.block]} "
                f"and thread {[*self.thread]}"
            )
        if any(size & (size - 1) for size in (*self.block, *self.thread)):
            raise VerifyException(
                f"sizes of tiles should be powers of 2, got block {[*self.block]} "
                f"and thread {[*self.thread]}"
            )
        rows, columns, terms = self.block
        if self.thread[0] > rows or self.thread[1] > columns:
            raise VerifyException(
                f"a thread's tile {[*self.thread]} is larger than that of its block, "
                f"{[rows, columns]}"
            )
        if not WARP <= self.threads <= MAX_THREADS:
            raise VerifyException(
                f"a block has {WARP} to {MAX_THREADS} threads, got {self.threads}"
            )
        if self.stages:
            self._verify_tensor_cores()
        else:
            self._verify_threads()
        if min(rows, columns) * terms < self.threads:
            raise VerifyException(
                f"{self.threads} threads bring more than {terms} terms of {rows} rows "
                f"and {columns} columns"
            )
        if min(self.folds) < 0:
            raise VerifyException(
                f"counts of stages must not be negative, got {[*self.folds]}"
            )

    def _verify_threads(self) -> None:
        if self.thread[0] * self.thread[1] > MAX_SUMS:
            raise VerifyException(
                f"{self.thread[0]} x {self.thread[1]} sums do not fit into the "
                f"registers of a thread"
            )
        if self.shared_elements > MAX_SHARED_ELEMENTS:
            raise VerifyException(
                f"{self.shared_elements} elements do not fit into shared memory, "
                f"which has room for {MAX_SHARED_ELEMENTS}"
            )

    def _verify_tensor_cores(self) -> None:
        sides = *self.thread, self.block[2]
        if any(side % MATRIX for side in sides):
            raise VerifyException(
                f"tensor cores multiply {MATRIX} rows, columns and terms, got warps of "
                f"{[*self.thread]} and {self.block[2]} terms"
            )
        if self.stages not in STAGES:
            known = ", ".join(map(str, STAGES))
            raise VerifyException(f"terms have {known} stages, got {self.stages}")
        if self.thread[0] * self.thread[1] > MAX_WARP_SUMS * WARP:
            raise VerifyException(
                f"{self.thread[0]} x {self.thread[1]} sums do not fit into the "
                f"registers of a warp"
            )
        if self.shared_bytes > MAX_SHARED_BYTES:
            raise VerifyException(
                f"{self.shared_bytes} bytes do not fit into shared memory, which has "
                f"room for {MAX_SHARED_BYTES}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def numbers(keyword: str, count: int) -> list[int]:
            place = parser.pos
            found = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(found) != count:
                parser.raise_error(
                    f"{keyword} takes {count} numbers, got {len(found)}", place
                )
            return found

        with parser.in_angle_brackets():
            parser.parse_keyword("block")
            values = numbers("block", 3)
            parser.parse_punctuation(",")
            stages = 0
            if parser.parse_optional_keyword("warp") is not None:
                values += numbers("warp", 2)
                parser.parse_punctuation(",")
                parser.parse_keyword("stages")
                stages = parser.parse_integer()
            else:
                parser.parse_keyword("thread")
                values += numbers("thread", 2)
            values.append(stages)
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("folds")
                values += numbers("folds", 2)
            else:
                values += [0, 0]
        return [*map(IntAttr, values)]

    def print_parameters(self, printer: Printer) -> None:
        parts = [f"block {[*self.block]}"]
        if self.stages:
            parts += [f"warp {[*self.thread]}", f"stages {self.stages}"]
        else:
            parts.append(f"thread {[*self.thread]}")
        if any(self.folds):
            parts.append(f"folds {[*self.folds]}")
        with printer.in_angle_brackets():
            printer.print_string(", ".join(parts))
