"""
The source of `f16`/`bf16` attention for tensor cores: the form `warps`.

    for each block of queries:
        begin to copy the queries, and the first keys and values, to shared memory
        for all keys, some at once:
            begin to copy the next ones; wait for these
            multiply the 16 queries of each warp with them
            make exponentials of the scores; rescale the result so far
            multiply these, which stay in registers, with values, and add that up
        divide the result by the total, and store it

Buffers at any address are read by the form `tiles` in its place.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.dialects.launch.schedules.cuda_attention import SIDE
from penstock.dialects.launch.schedules.cuda_matmul import NARROW_PADDING, WARP
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.attention import (
    AttentionTilePrinter,
    CudaAttentionPrinter,
)
from penstock.lowering.codegen.cuda.attention_groups import (
    CudaAttention,
    padded,
    tiles_of,
    warp_bytes,
)
from penstock.lowering.codegen.cuda.device_limits import CHUNK
from penstock.lowering.codegen.cuda.staging import EIGHTH, FAR, LOW, Tile
from penstock.lowering.codegen.cuda.statements import DevicePrinter


class AttentionWarpPrinter(CudaAttentionPrinter):
    """Prints the form `warps`."""

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer, group)
        self.threads = self.queries // SIDE * WARP
        self.terms = padded(self.attention.terms)
        self.bytes = warp_bytes(self.attention, self.queries, self.keys)
        q, k, v = map(self._tile, "qkv")
        # Keys and values are in one stage.
        self.tiles = {"q": q, "k": k, "v": replace(v, start=k.elements)}

    def _tile(self, name: str) -> Tile:
        """The queries, keys or values of a block, as they are in shared memory."""
        tile = self.tile(name, self.depth if name == "v" else self.terms)
        return replace(tile, pad=NARROW_PADDING, together=CHUNK, is_copied=True)

    def print(self, name: str) -> str:
        """Print the functions of the stage; how it is listed."""
        tiles = tiles_of(self.group)
        assert tiles is not None, "what fits into warps fits into tiles"
        fallback = AttentionTilePrinter(self.printer, tiles).print(f"{name}_plain")
        entry = super().print(name)[:-1] + self.dynamic_shared(self.bytes)
        return f"{entry}, fallback={fallback})"

    # Shared memory

    def _in_stage(self, step: str) -> str:
        stage = self.tiles["k"].elements + self.tiles["v"].elements
        return f"{self.tiles['q'].elements} + ({step} & 1) * {stage}"

    def print_arrays(self) -> None:
        self.print_slots(self.bytes)
        self.print_local((self.depth // 2, self.keys // 2, 2, 2))
        self.printer.print_local_array("kept_4", 4, "u32")
        self.print_lane()
        # Matrices of queries and of values go down rows first, those of keys along.
        for name, line, term in (
            ("q", f"warp * {SIDE} + {EIGHTH} + {LOW}", FAR),
            ("k", f"{FAR} + {LOW}", EIGHTH),
            ("v", f"{EIGHTH} + {LOW}", FAR),
        ):
            tile = self.tiles[name]
            text = f"({line}) * {tile.width} + {term} + {tile.start}"
            self.line(f"own_{name} = {self.i32(text)}")

    def _print_copies(self, name: str) -> None:
        """Print that rows of an operand begin to be copied to `place` and after."""
        tile, length = self.tiles[name], self.length(name)
        with self.pieces(tile, "slot"):
            text = f"place + {tile.slot('line', 'term')} + {tile.start}"
            self.line(f"taken = {self.i32(text)}")
            self.line(f"line = {self.i32(f'{tile.first} + line')}")
            conditions = [f"line < {tile.extent}", f"term < {length}"]
            has_edge = tile.extent % tile.size or tile.terms != length
            inside = self.print_inside(conditions if has_edge else [])
            self.print_copy(tile, "slot", "taken", inside)

    def _print_stage(self, step: str) -> None:
        """Print that the keys and values of a step begin to be copied."""
        self.line(f"place = {self.i32(self._in_stage(step))}")
        self.line(f"first_column = {self.i32(f'{step} * {self.keys}')}")
        self._print_copies("k")
        self._print_copies("v")
        self.line(self.call("commit_copies"))

    # Steps

    def print_block(self) -> None:
        self.print_filled("kept_0", self.depth // 2, 0.0)
        self.print_filled("kept_2", 2, float("-inf"))
        self.print_filled("kept_3", 2, 0.0)
        self.line("place = 0")
        self._print_copies("q")
        self._print_stage("0")
        steps = self.print_steps(self.keys)
        with self.block(f"for j in range({steps}):"):
            with self.block(f"if j + 1 < {steps}:"):
                self._print_stage("(j + 1)")
                self.line(self.call("await_copies", "1"))
            with self.block("else:"):
                self.line(self.call("await_copies", "0"))
            self.line("cuda.syncthreads()")
            self.line(f"first_column = {self.i32(f'j * {self.keys}')}")
            self.line(f"place = {self.i32(self._in_stage('j'))}")
            self._print_scores()
            self._print_powers()
            self._print_mixing()
            self.line("cuda.syncthreads()")
        self._print_results()

    def _print_loaded(self, name: str, start: str, line: str, term: str) -> None:
        """Print that a warp loads matrices of an operand."""
        steps = sum_of([(line, SIDE * self.tiles[name].width), (term, SIDE)])
        place = " + ".join(part for part in (start, f"own_{name}", steps) if part)
        self.print_matrices(place, transposed=name == "v")

    def _print_products(self, sums: str) -> None:
        """Print that a warp adds products with the two matrices that are loaded."""
        a = [f"kept_4[{part}]" for part in range(4)]
        for number in range(2):
            names = [f"{sums}[(n * 2 + {number}) * 4 + {part}]" for part in range(4)]
            b = [f"taken[{number * 2 + part}]" for part in range(2)]
            self.print_matrix_product("part", self.group.kept, names, [*a, *b])

    def _print_scores(self) -> None:
        self.print_filled("kept_1", self.keys // 2, 0.0)
        with self.block(f"for k in range({self.terms // SIDE}):"):
            self._print_loaded("q", "", "0", "k")
            for part in range(4):
                self.line(f"kept_4[{part}] = taken[{part}]")
            with self.block(f"for n in range({self.keys // SIDE}):"):
                self._print_loaded("k", "place", "n", "k")
                self._print_products("kept_1")

    def _print_query(self) -> list[str]:
        """Print which query it is, one that there is; the condition that it is that."""
        return self.print_query(f"first_row + warp * {SIDE} + i * 8 + (lane >> 2)")

    def _print_powers(self) -> None:
        """Print how scores become powers of them: two rows a thread, `i`."""
        score = "kept_1[n * 4 + i * 2 + k]"
        with self.block("for i in range(2):"):
            self._print_query()
            self.line("largest = kept_2[i]")
            with (
                self.block(f"for n in range({self.keys // 8}):"),
                self.block("for k in range(2):"),
            ):
                self.print_score(score, "first_column + n * 8 + (lane & 3) * 2 + k")
            self.print_largest(4)
            self.print_base("score", "largest")
            self.line(f"decay = {self.call('exp', 'kept_2[i] - score')}")
            self.line("kept_2[i] = largest")
            self.line("total = kept_3[i] * decay")
            with (
                self.block(f"for n in range({self.keys // 8}):"),
                self.block("for k in range(2):"),
            ):
                self.line(f"{score} = {self.call('exp', f'{score} - score')}")
                self.line(f"total = total + {score}")
            self.line("kept_3[i] = total")
            with (
                self.block(f"for n in range({self.depth // 8}):"),
                self.block("for k in range(2):"),
            ):
                sum = "kept_0[n * 4 + i * 2 + k]"
                self.line(f"{sum} = {sum} * decay")

    def _print_mixing(self) -> None:
        """Print how values are added up: the powers lie as matrices of queries do."""
        pack = f"pack_{self.group.kept}"
        with self.block(f"for k in range({self.keys // SIDE}):"):
            for part in range(4):
                first = f"k * 8 + {part * 2}"
                pair = f"kept_1[{first}]", f"kept_1[{first} + 1]"
                self.line(f"kept_4[{part}] = {self.call(pack, *pair)}")
            with self.block(f"for n in range({self.depth // SIDE}):"):
                self._print_loaded("v", "place", "k", "n")
                self._print_products("kept_0")

    def _print_results(self) -> None:
        with self.block("for i in range(2):"):
            edges = self._print_query()
            self.print_weight("kept_3[i]", "kept_2[i]", 4, "(lane & 3)", edges)
            with self.block(f"for n in range({self.depth // 8}):"):
                condition = self.print_column("n * 8 + (lane & 3) * 2", edges)
                sums = [f"kept_0[n * 4 + i * 2 + {k}] * total" for k in range(2)]
                place, out = self.place("o", "line", "term"), self.attention.out
                self.printer.print_vector_store(condition, out.memref, place, sums)
