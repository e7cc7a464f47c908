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

from penstock.dialects.launch.schedules.cuda_attention import SIDE
from penstock.dialects.launch.schedules.cuda_matmul import NARROW_PADDING
from penstock.lowering.codegen.body.statements import sum_of
from penstock.lowering.codegen.cuda.attention import (
    AttentionTilePrinter,
    CudaAttentionPrinter,
)
from penstock.lowering.codegen.cuda.attention_groups import (
    CHUNK,
    STATIC_BYTES,
    CudaAttention,
    padded,
    tiles_of,
    warp_bytes,
)
from penstock.lowering.codegen.cuda.statements import DevicePrinter

WARP = 32


class AttentionWarpPrinter(CudaAttentionPrinter):
    """Prints the form `warps`."""

    def __init__(self, printer: DevicePrinter, group: CudaAttention):
        super().__init__(printer, group)
        self.queries, self.keys = self.schedule.queries, self.schedule.keys
        self.threads = self.queries // SIDE * WARP
        self.terms = padded(self.attention.terms)
        self.depth = padded(self.attention.depth)
        self.lines = {"q": self.terms, "k": self.terms, "v": self.depth}
        """The elements of a row in shared memory."""
        self.bytes = warp_bytes(self.attention, self.queries, self.keys)

    def print(self, name: str) -> str:
        """Print the functions of the phase; how it is listed."""
        tiles = tiles_of(self.group)
        assert tiles is not None, "what fits into warps fits into tiles"
        fallback = AttentionTilePrinter(self.printer, tiles).print(f"{name}_plain")
        entry = super().print(name)[:-1]
        if self.bytes > STATIC_BYTES:
            entry += f", dynamic_shared={self.bytes}"
        return f"{entry}, fallback={fallback})"

    # Shared memory

    def _width(self, name: str) -> int:
        return self.lines[name] + NARROW_PADDING

    def _start(self, name: str) -> int:
        """Where an operand is in shared memory, keys and values in their stage."""
        return self.keys * self._width("k") if name == "v" else 0

    @property
    def _queries_end(self) -> int:
        return self.queries * self._width("q")

    @property
    def _stage(self) -> int:
        """The elements of a stage of keys and values."""
        return self.keys * (self._width("k") + self._width("v"))

    def _in_stage(self, step: str) -> str:
        return f"{self._queries_end} + ({step} & 1) * {self._stage}"

    def print_arrays(self) -> None:
        cuda, u16 = map(self.printer.support, ("cuda", "u16"))
        elements = 0 if self.bytes > STATIC_BYTES else self.bytes // 2
        self.line(f"slots_0 = {cuda}.shared.array({elements}, {u16})")
        self.line(self.call("align_shared"))
        self.print_local((self.depth // 2, self.keys // 2, 2, 2))
        u32 = self.printer.support("u32")
        self.line(f"kept_4 = {cuda}.local.array(4, {u32})")
        self.line(f"at = {self.call('thread')}")
        self.line(f"lane = {self.i32(f'at & {WARP - 1}')}")
        self.line(f"warp = {self.i32('at >> 5')}")
        eighth, far, low = "((lane >> 3) & 1) * 8", "(lane >> 4) * 8", "(lane & 7)"
        # Matrices of queries and of values go down rows first, those of keys along.
        for name, line, term in (
            ("q", f"warp * {SIDE} + {eighth} + {low}", far),
            ("k", f"{far} + {low}", eighth),
            ("v", f"{eighth} + {low}", far),
        ):
            text = f"({line}) * {self._width(name)} + {term} + {self._start(name)}"
            self.line(f"own_{name} = {self.i32(text)}")

    def _print_copies(self, name: str, size: int, extent: int, first: str) -> None:
        """Print that rows of an operand begin to be copied to `place` and after."""
        length = self.attention.depth if name == "v" else self.attention.terms
        chunks = self.lines[name] // CHUNK
        pieces = size * chunks
        with self.block(f"for i in range({-(-pieces // self.threads)}):"):
            self.line(f"slot = {self.i32(f'at + i * {self.threads}')}")
            self.line(f"line = {self.call('quotient', 'slot', str(chunks))}")
            rest = self.call("remainder", "slot", str(chunks))
            self.line(f"term = {self.i32(f'{rest} * {CHUNK}')}")
            slot = sum_of([("line", self._width(name)), ("term", 1)])
            text = f"place + {slot} + {self._start(name)}"
            self.line(f"taken = {self.i32(text)}")
            self.line(f"line = {self.i32(f'{first} + line')}")
            inside = "True"
            if extent % size or length != self.lines[name]:
                inside = "inside"
                self.line(f"inside = (line < {extent}) & (term < {length})")
                self.chosen("line", "inside", "0")
                self.chosen("term", "inside", "0")
            row, key = ("line", "0") if name == "q" else ("0", "line")
            buffer = self.printer.name(self.operands[name].memref)
            place = self.place(name, row, key, "term")
            arguments = "slots_0", "taken", buffer, place, inside
            if pieces % self.threads:
                condition = f"slot < {pieces}"
                self.line(self.call("copy_async_if", condition, *arguments))
            else:
                self.line(self.call("copy_async", *arguments))

    def _print_stage(self, step: str) -> None:
        """Print that the keys and values of a step begin to be copied."""
        self.line(f"place = {self.i32(self._in_stage(step))}")
        self.line(f"first_column = {self.i32(f'{step} * {self.keys}')}")
        for name in ("k", "v"):
            self._print_copies(name, self.keys, self.attention.keys, "first_column")
        self.line(self.call("commit_copies"))

    # Steps

    def print_block(self) -> None:
        for name, size, value in (
            ("kept_0", self.depth // 2, 0.0),
            ("kept_2", 2, float("-inf")),
            ("kept_3", 2, 0.0),
        ):
            with self.block(f"for i in range({size}):"):
                self.line(f"{name}[i] = {self.number(value)}")
        self.line("place = 0")
        self._print_copies("q", self.queries, self.attention.rows, "first_row")
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
        steps = [(line, SIDE * self._width(name)), (term, SIDE)]
        text = " + ".join(
            part for part in (start, f"own_{name}", sum_of(steps)) if part
        )
        function = "load_matrices_transposed" if name == "v" else "load_matrices"
        self.line(f"taken = {self.call(function, 'slots_0', self.i32(text))}")

    def _print_products(self, sums: str) -> None:
        """Print that a warp adds products with the two matrices that are loaded."""
        function = f"multiply_{self.group.kept}"
        for number in range(2):
            names = [f"{sums}[(n * 2 + {number}) * 4 + {part}]" for part in range(4)]
            a = [f"kept_4[{part}]" for part in range(4)]
            b = [f"taken[{number * 2 + part}]" for part in range(2)]
            self.line(f"part = {self.call(function, *names, *a, *b)}")
            for part, name in enumerate(names):
                self.line(f"{name} = part[{part}]")

    def _print_scores(self) -> None:
        with self.block(f"for i in range({self.keys // 2}):"):
            self.line(f"kept_1[i] = {self.number(0.0)}")
        with self.block(f"for k in range({self.terms // SIDE}):"):
            self._print_loaded("q", "", "0", "k")
            for part in range(4):
                self.line(f"kept_4[{part}] = taken[{part}]")
            with self.block(f"for n in range({self.keys // SIDE}):"):
                self._print_loaded("k", "place", "n", "k")
                self._print_products("kept_1")

    def _print_row(self) -> None:
        """Print which query it is, one that there is."""
        text = f"first_row + warp * {SIDE} + i * 8 + (lane >> 2)"
        self.line(f"line = {self.i32(text)}")
        if self.attention.rows % self.queries:
            self.line(f"live = line < {self.attention.rows}")
            self.chosen("line", "live", str(self.attention.rows - 1))

    def _print_powers(self) -> None:
        """Print how scores become powers of them: two rows a thread, `i`."""
        edge = self.edge(self.keys)
        score = "kept_1[n * 4 + i * 2 + k]"
        with self.block("for i in range(2):"):
            self._print_row()
            self.line("largest = kept_2[i]")
            with (
                self.block(f"for n in range({self.keys // 8}):"),
                self.block("for k in range(2):"),
            ):
                text = "first_column + n * 8 + (lane & 3) * 2 + k"
                self.line(f"term = {self.i32(text)}")
                if edge:
                    self.line(f"inside = {edge}")
                    self.chosen("term", "inside", str(self.attention.keys - 1))
                value = self.score(score, "line", "term")
                if edge:
                    lowest = self.number(float("-inf"))
                    value = self.call("select", "inside", value, lowest)
                self.line(f"{score} = {value}")
                self.line(f"largest = {self.call('maxnum', 'largest', score)}")
            self.print_folded("largest", "maxnum", 4)
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
        depth = self.attention.depth
        with self.block("for i in range(2):"):
            self._print_row()
            self.line("total = kept_3[i]")
            self.print_folded("total", "+", 4)
            self.line(f"total = {self.number(1.0)} / total")
            with self.block(f"for n in range({self.depth // 8}):"):
                self.line(f"term = {self.i32('n * 8 + (lane & 3) * 2')}")
                edges = ["live"] if self.attention.rows % self.queries else []
                if self.depth != depth:
                    self.line(f"inside = term < {depth}")
                    self.chosen("term", "inside", "0")
                    edges.append("inside")
                buffer = self.printer.name(self.attention.out.memref)
                sums = (f"kept_0[n * 4 + i * 2 + {k}] * total" for k in range(2))
                place = self.place("o", "line", "0", "term")
                arguments = buffer, place, f"({', '.join(sums)})"
                if edges:
                    condition = " & ".join(edges)
                    self.line(self.call("store_2_if", condition, *arguments))
                else:
                    self.line(self.call("store_2", *arguments))
