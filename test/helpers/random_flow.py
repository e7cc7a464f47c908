"""Random jobs of integers with loops and conditions in each other, as text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.runtime.loading.initializers import Array

ROW, MATRIX, FLAG, NUMBER = "4xi64", "4x4xi64", "i1", "i64"
BINARY = ["add", "sub", "maximum", "minimum", "mul", "bit_xor"]
FORMS = ["", "backward", "count", "count backward", "while", "count while"]


@dataclass
class RandomJob:
    """The text of a job, made of random ops; all of them are exact."""

    random: np.random.Generator
    placement: str = "<cpu, [0:0]>"
    """Where the job is."""
    others: tuple[str, ...] = ()
    """Placements of single ops, of loops and of ops in their bodies alike."""
    lines: list[str] = field(default_factory=list[str])
    names: int = 0

    def text(self, depth: int, size: int) -> bytes:
        """A job of so many ops, and of bodies in each other up to a depth."""
        inputs = {"x": ROW, "xs": f"3x{ROW}", "w": MATRIX, "go": FLAG, "n": NUMBER}
        self.lines = [f"job.job @random placement {self.placement} {{"]
        self.lines += [
            f'%{name} = job.input "{name}" : tensor<{type}>'
            for name, type in inputs.items()
        ]
        rows = self.ops(["%x"], depth, size, ("%xs", "%w", "%go", "%n"))
        for number, row in enumerate(rows[-3:]):
            self.lines.append(f'job.output "y{number}", {row} : tensor<{ROW}>')
        return "\n".join([*self.lines, "}"]).encode()

    def inputs(self) -> dict[str, Array]:
        """Inputs that each such job takes."""
        draw = self.random.integers
        shapes = {"x": (4,), "xs": (3, 4), "w": (4, 4)}
        arrays = {name: draw(-4, 5, shape) for name, shape in shapes.items()}
        go, count = self.random.random() < 0.7, draw(0, 4)
        return {**arrays, "go": np.asarray(go), "n": np.asarray(count)}

    def ops(
        self, rows: list[str], depth: int, size: int, others: tuple[str, ...]
    ) -> list[str]:
        """Add ops on rows that are there, and others; all rows after that."""
        rows = [*rows]
        for _ in range(size):
            kind = self.random.random()
            if depth and kind < 0.3:
                rows += self.loop(rows, depth - 1, others)
            elif depth and kind < 0.5:
                rows += self.condition(rows, depth - 1, others)
            elif kind < 0.65:
                rows.append(self.add(f"op.matmul {self.pick(rows)}, {others[1]} :", 1))
            else:
                op = self.random.choice(BINARY)
                a, b = self.pick(rows), self.pick(rows)
                rows.append(self.add(f"op.{op} {a}, {b} :", 0))
        return rows

    def loop(self, rows: list[str], depth: int, others: tuple[str, ...]) -> list[str]:
        """A loop; what it carries, and a sum of what it stacks."""
        form = FORMS[self.random.integers(len(FORMS))]
        has_condition, count = "while" in form, int(self.random.integers(0, 4))
        xs, w, go, n = others
        most = "up to 3" if form not in ("", "backward") else "3" if count else "1"
        if most == "1":
            xs = self.add(f"op.slice {xs} from [1, 0] to [2, 4] by [1, 1] :", 2)
        head = f"op.loop {most}"
        head += f" count({n})" * ("count" in form)
        head += f" while({go})" * has_condition + " backward" * ("backward" in form)
        a, b, read = (self.pick(rows) for _ in range(3))
        times = 1 if most == "1" else 3
        end, one, two, stack = (self.name() for _ in range(4))
        results = [*[end] * has_condition, one, two, stack]
        flags = "tensor<i1>, " * has_condition
        i, c, d, e, s, r, v, f, m = (self.name() for _ in range(9))
        flag = f"{c}: tensor<i1>, " * has_condition
        self.lines += [
            f"{', '.join(results)} = {head} carries({a}, {b} : {of(ROW)}, {of(ROW)}) "
            f"slices({xs} : {of(f'{times}x{ROW}')}) reads({read}, {w}, {go}, {n}, "
            f"{others[0]} : {of(ROW)}, {of(MATRIX)}, {of(FLAG)}, {of(NUMBER)}, "
            f"{of(f'3x{ROW}')}) -> {flags}{of(ROW)}, {of(ROW)}, "
            f"{of(f'{times}x{ROW}')} {{",
            f"^bb0({i}: {of(NUMBER)}, {flag}{d}: {of(ROW)}, {e}: {of(ROW)}, "
            f"{s}: {of(ROW)}, {r}: {of(ROW)}, {v}: {of(MATRIX)}, {f}: {of(FLAG)}, "
            f"{m}: {of(NUMBER)}, {(ys := self.name())}: {of(f'3x{ROW}')}):",
        ]
        numbered = self.name()
        self.lines.append(
            f"{numbered} = op.add {d}, {i} : {of(ROW)}, {of(NUMBER)} -> {of(ROW)}"
        )
        inner = self.ops([e, s, r, numbered], depth, 2, (ys, v, f, m))
        yields = [self.pick(inner) for _ in range(3)]
        if has_condition:
            # It ends after at most three iterations.
            limit, again = self.name(), self.name()
            last = int(self.random.integers(0, 3))
            self.lines += [
                f"{limit} = op.constant dense<{last}> : {of(NUMBER)}",
                f"{again} = op.less {i}, {limit} : {of(NUMBER)}, {of(NUMBER)} -> "
                f"{of(FLAG)}",
            ]
            yields.insert(0, again)
        self.lines += [
            f"op.yield {', '.join(yields)} : {flags}{of(ROW)}, {of(ROW)}, {of(ROW)}",
            "}",
        ]
        summed = self.name()
        self.lines.append(
            f"{summed} = op.reduce_sum {stack} axes [0] : {of(f'{times}x{ROW}')} -> "
            f"{of(ROW)}"
        )
        return [one, two, summed]

    def condition(
        self, rows: list[str], depth: int, others: tuple[str, ...]
    ) -> list[str]:
        """A condition; its results."""
        one, two, (a, b) = self.name(), self.name(), (self.pick(rows), self.pick(rows))
        types = f"{of(ROW)}, {of(ROW)}, {of(f'3x{ROW}')}, {of(MATRIX)}, {of(FLAG)}, "
        types += of(NUMBER)
        self.lines.append(
            f"{one}, {two} = op.if {others[2]} reads({a}, {b}, {', '.join(others)} : "
            f"{types}) -> {of(ROW)}, {of(ROW)} {{"
        )
        for number in range(2):
            args = [self.name() for _ in range(6)]
            shown = zip(args, types.split(", "), strict=True)
            self.lines.append(f"^bb0({', '.join(f'{x}: {t}' for x, t in shown)}):")
            c, d, xs, w, go, n = args
            inner = self.ops([c, d], depth, 2, (xs, w, go, n))
            yields = self.pick(inner), self.pick(inner)
            self.lines.append(f"op.yield {', '.join(yields)} : {of(ROW)}, {of(ROW)}")
            self.lines.append("}" if number else "} else {")
        return [one, two]

    def add(self, text: str, kind: int) -> str:
        """Add an op of one result; its name."""
        name, row = self.name(), of(ROW)
        text = f"{text.removesuffix(':')}{self.placed()}:"
        types = [
            f"{row}, {row} -> {row}",
            f"{row}, {of(MATRIX)} -> {row}",
            f"{of(f'3x{ROW}')} -> {of(f'1x{ROW}')}",
        ]
        self.lines.append(f"{name} = {text} {types[kind]}")
        return name

    def placed(self) -> str:
        """The attribute of an op that lies elsewhere than its job, for some of them."""
        if not self.others or self.random.random() < 0.7:
            return ""
        other = self.others[int(self.random.integers(len(self.others)))]
        return f"{{placement = #job.placement{other}}} "

    def pick(self, rows: list[str]) -> str:
        """One of the rows, rather a late one."""
        return rows[int(self.random.integers(0, len(rows), 2).max())]

    def name(self) -> str:
        """A new name of a value."""
        self.names += 1
        return f"%v{self.names}"


def of(type: str) -> str:
    """The type of a tensor."""
    return f"tensor<{type}>"
