"""
The source of attention of few queries for GPUs: the form `rows`.

    for each query:
        each warp, for some of the keys, some at once:
            multiply the query with them, a lane some of the terms
            make exponentials of the scores; rescale the result so far
            add values up, weighted, a lane some of the columns
        the first warp adds up the results of all, divides, and stores
"""

from __future__ import annotations

from penstock.dialects.launch.schedules.cuda_matmul import WARP
from penstock.lowering.codegen.cuda.attention import CudaAttentionPrinter
from penstock.lowering.codegen.cuda.attention_groups import WARPS, CudaAttention
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class AttentionRowPrinter(CudaAttentionPrinter):
    """Prints the form `rows`."""

    threads = WARP * WARPS
    counts = "live"

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer, group)
        self.terms = -(-self.attention.terms // WARP)
        """The terms of a lane."""
        self.columns = -(-self.attention.depth // WARP)
        """The columns of a lane."""

    def print_arrays(self) -> None:
        depth = self.attention.depth
        self.print_shared((WARPS * depth, 2 * WARPS))
        self.print_local((self.columns, self.terms, self.keys))
        self.print_lane()

    def print_block(self) -> None:
        self.line(f"largest = {self.number(float('-inf'))}")
        self.line(f"total = {self.number(0.0)}")
        self.print_filled("kept_0", self.columns, 0.0)
        with self.block(f"for i in range({self.terms}):"):
            self._print_element("term", "i", self.attention.terms)
            value = self._or_zero(self.loaded("q", "first_row", "term"), "terms")
            self.line(f"kept_1[i] = {value}")
        together = WARPS * self.keys
        with self.block(f"for j in range({self.print_steps(together)}):"):
            first = f"j * {together} + warp * {self.keys}"
            self.line(f"first_column = {self.i32(first)}")
            self._print_scores()
            self._print_mixing()
        self._print_end()

    def _print_element(self, name: str, number: str, extent: int) -> None:
        """Print which term or column a lane has, one that there is."""
        self.line(f"{name} = {self.i32(f'{number} * {WARP} + lane')}")
        self.print_edge("inside", name, extent, WARP)

    def _or_zero(self, value: str, what: str) -> str:
        """A number, or zero in lanes that have none."""
        if getattr(self.attention, what) % WARP == 0:
            return value
        return self.call("select", "inside", value, self.number(0.0))

    def _print_key(self) -> bool:
        """Print which key it is, one that there is; whether it may not count."""
        keys = WARPS * self.keys
        return self.print_key("line", "first_column + n", "first_row", keys)

    def _print_scores(self) -> None:
        """Print how the scores of some keys become powers."""
        self.line("score = largest")
        with self.block(f"for n in range({self.keys}):"):
            may_not_count = self._print_key()
            self.line(f"taken = {self.number(0.0)}")
            with self.block(f"for i in range({self.terms}):"):
                self._print_element("term", "i", self.attention.terms)
                value = self.loaded("k", "line", "term")
                # Nothing is 0 times infinity: both are zero where there is no term.
                value = self._or_zero(value, "terms")
                self.line(f"taken = {self.call('fma', 'kept_1[i]', value, 'taken')}")
            self.print_total("taken", WARP)
            query = "first_row"
            score = self.score("taken", query, "line", may_not_count=may_not_count)
            self.line(f"kept_2[n] = {score}")
            self.line(f"score = {self.call('maxnum', 'score', 'kept_2[n]')}")
        self.print_base("taken", "score")
        self.line(f"decay = {self.call('exp', 'largest - taken')}")
        self.line("largest = score")
        self.line("total = total * decay")
        with self.block(f"for n in range({self.keys}):"):
            self.line(f"kept_2[n] = {self.call('exp', 'kept_2[n] - taken')}")
            self.line("total = total + kept_2[n]")

    def _print_mixing(self) -> None:
        """Print how the values of some keys are added up."""
        with self.block(f"for i in range({self.columns}):"):
            self.line("kept_0[i] = kept_0[i] * decay")
        with self.block(f"for n in range({self.keys}):"):
            may_not_count = self._print_key()
            with self.block(f"for i in range({self.columns}):"):
                self._print_element("term", "i", self.attention.depth)
                value = self.loaded("v", "line", "term")
                if may_not_count:
                    zero = self.number(0.0)
                    value = self.call("select", self.counts, value, zero)
                total = self.call("fma", "kept_2[n]", value, "kept_0[i]")
                self.line(f"kept_0[i] = {total}")

    def _print_end(self) -> None:
        """Print how what all warps have is added up and stored."""
        depth = self.attention.depth
        with self.block(f"for i in range({self.columns}):"):
            self._print_element("term", "i", depth)
            condition = "inside" if depth % WARP else "True"
            slot = self.i32(f"warp * {depth} + term")
            self.line(self.call("store_if", condition, "slots_0", slot, "kept_0[i]"))
        for number, name in enumerate(("largest", "total")):
            slot = self.i32(f"warp * 2 + {number}")
            self.line(self.call("store_if", "lane == 0", "slots_1", slot, name))
        self.line("cuda.syncthreads()")
        with self.block(f"for n in range({WARPS}):"):
            slot = self.call("u64", "n * 2")
            largest = self.call("maxnum", "largest", f"slots_1[{slot}]")
            self.line(f"largest = {largest}")
        self.print_base("taken", "largest")
        self.line(f"total = {self.number(0.0)}")
        self.print_filled("kept_0", self.columns, 0.0)
        with self.block(f"for n in range({WARPS}):"):
            largest, total = (self.call("u64", f"n * 2 + {k}") for k in range(2))
            decay = self.call("exp", f"slots_1[{largest}] - taken")
            self.line(f"decay = {decay}")
            self.line(f"total = total + slots_1[{total}] * decay")
            with self.block(f"for i in range({self.columns}):"):
                self._print_element("term", "i", depth)
                slot = self.call("u64", f"n * {depth} + term")
                self.line(f"kept_0[i] = kept_0[i] + slots_0[{slot}] * decay")
        edges = ["(warp == 0)", "(lane == 0)"]
        self.print_logarithm("first_row", "largest", edges)
        self.line(f"total = {self.number(1.0)} / total")
        with self.block(f"for i in range({self.columns}):"):
            self._print_element("term", "i", depth)
            edges = ["(warp == 0)", *["inside"] * bool(depth % WARP)]
            self.printer.store_if(
                " & ".join(edges),
                self.attention.out.memref,
                self.place("o", "first_row", "term"),
                "kept_0[i] * total",
            )
