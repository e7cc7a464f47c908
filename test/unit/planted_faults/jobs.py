"""Random jobs: on rows of four numbers, at several rates, of any number of rows."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass


def tensor(rows: int) -> str:
    """The type of some rows of four."""
    return f"tensor<{rows}x4xf32>"


@dataclass
class JobText:
    """A random job on rows of four numbers, line by line."""

    name: str
    rng: random.Random
    inputs: list[tuple[str, int]]
    """The names of its inputs, and their rows."""
    device: str | None = None
    """Where some of its ops run, if not with the others."""
    slots: bool = False
    updates: bool = False
    keep: Sequence[str] = ()
    """The names of outputs that other jobs may take."""

    def __post_init__(self) -> None:
        self.lines: list[str] = []
        self.rows: list[int] = []
        self.used: set[int] = set()
        self.outputs: dict[str, int] = {}
        """The values that are outputs, by their names."""
        for name, rows in self.inputs:
            self._add(f'job.input "{name}" :', rows)
        self._add('job.variable "w" init <normal, seed = 2, std = 0.5> :', 4)
        self._add('job.variable "v" init <ones> :', 1)
        self.first = len(self.rows)

    def _add(self, text: str, rows: int) -> int:
        self.lines.append(f"%v{len(self.rows)} = {text} {tensor(rows)}")
        self.rows.append(rows)
        return len(self.rows) - 1

    def _attributes(self) -> str:
        found: list[str] = []
        if self.slots and self.rng.random() < 0.3:
            found.append(f"slots = {self.rng.choice((2, 3))} : i64")
        if self.device is not None and self.rng.random() < 0.3:
            found.append(f"placement = #job.placement<{self.device}>")
        return f" {{{', '.join(found)}}}" if found else ""

    def _recent(self, rows: int | None = None) -> int:
        among = [i for i, r in enumerate(self.rows) if rows in (None, r)]
        found = self.rng.choice(among[-4:])
        self.used.add(found)
        return found

    def grow(self, length: int) -> None:
        """Add ops, until there are so many values."""
        while len(self.rows) < length:
            self._grow_once()

    def _grow_once(self) -> None:
        rng, a, more = self.rng, self._recent(), self._attributes()
        rows = self.rows[a]
        kind = rng.choice(
            ("relu", "tanh", "add", "add", "slice", "split", "concat", "matmul", "mix")
        )
        one = tensor(rows)
        if kind in ("slice", "split") and rows % 2:
            kind = "relu"
        if kind == "concat" and rows > 4:
            kind = "slice" if rows % 2 == 0 else "relu"
        match kind:
            case "add":
                b = self._recent(rows)
                self._add(f"op.add %v{a}, %v{b}{more} : {one}, {one} ->", rows)
            case "concat":
                b = self._recent(rows)
                ins = f"%v{a}, %v{b} axis 0{more} : {one}, {one}"
                self._add(f"op.concat {ins} ->", 2 * rows)
            case "slice":
                start = rng.choice((0, rows // 2))
                ends = f"from [{start}, 0] to [{start + rows // 2}, 4] by [1, 1]"
                self._add(f"op.slice %v{a} {ends}{more} : {one} ->", rows // 2)
            case "split":
                n, half = len(self.rows), tensor(rows // 2)
                sizes = f"axis 0 sizes [{rows // 2}, {rows // 2}]"
                self.lines.append(
                    f"%v{n}, %v{n + 1} = op.split %v{a} {sizes}{more} : {one} -> "
                    f"{half}, {half}"
                )
                self.rows += [rows // 2, rows // 2]
            case "matmul":
                w = len(self.inputs)
                ins = f"%v{a}, %v{w}{more} : {one}, {tensor(4)}"
                b = self._add(f"op.matmul {ins} ->", rows)
                self._add(f"op.tanh %v{b} : {one} ->", rows)
            case "mix":
                ends = f"from [0, 0] to [{rows}, 2] by [1, 1]"
                narrow = f"tensor<{rows}x2xf32>"
                n = len(self.rows)
                self.lines.append(
                    f"%s{n} = op.slice %v{a} {ends} : {one} -> {narrow}\n"
                    f"%t{n} = op.relu %s{n} : {narrow} -> {narrow}"
                )
                ins = f"%t{n}, %s{n} axis 1{more} : {narrow}, {narrow}"
                self._add(f"op.concat {ins} ->", rows)
            case _:
                self._add(f"op.{kind} %v{a}{more} : {one} ->", rows)

    def finish(self) -> str:
        """The text, with outputs of all that nobody uses."""
        if 4 not in self.rows[self.first :]:
            w = len(self.inputs)
            self._add(f"op.tanh %v{w} : {tensor(4)} ->", 4)
        made = range(self.first, len(self.rows))
        free = [i for i in made if i not in self.used or self.rng.random() < 0.05]
        for number, i in enumerate(free):
            self.outputs[f"{self.name}_y{number}"] = i
        for name in self.keep:
            self.outputs[name] = self.rng.choice([i for i in made if self.rows[i] == 4])
        if self.updates:
            w = len(self.inputs)
            fits = [i for i in made if self.rows[i] == 4]
            new = self.rng.choice(fits)
            if self.rng.random() < 0.6:
                # Nothing else reads it, so it may be written over the variable.
                word = self.rng.choice(("add", "mul"))
                types = f"{tensor(4)}, {tensor(4)}"
                new = self._add(f"op.{word} %v{new}, %v{w} : {types} ->", 4)
            else:
                self.outputs[f"{self.name}_new"] = new
            self.lines.append(f"job.assign %v{new} to %v{w} : {tensor(4)}")
        for name, i in self.outputs.items():
            self.lines.append(f'job.output "{name}", %v{i} : {tensor(self.rows[i])}')
        body = "\n".join(self.lines)
        return f"job.job @{self.name} placement <cpu, [0:0]> {{\n{body}\n}}\n"


def rated_job(rng: random.Random, length: int) -> str:
    """A job whose ops act at different rates."""
    lines = [f'%v0 = job.input "x" : {tensor(4)}']
    known = [("%v0", 4, 4)]
    used: set[str] = set()
    first = ("acc", "pack", "unpack", "repeat")
    for index in range(1, length):
        source, rows, pieces = rng.choice(known[-3:])
        one, n = tensor(rows), 2
        others = [x for x, r, p in known[-6:] if (r, p) == (rows, pieces)]
        kind = rng.choice(("add", "relu", "tanh", *first)) if index > 1 else "acc"
        text, made = f"op.relu {source} :", (rows, pieces)
        match kind:
            case "acc" if pieces % n == 0:
                text, made = f"op.acc {source} every {n} :", (rows, pieces // n)
            case "repeat" if pieces * n <= 4:
                text, made = f"op.repeat {source} times {n} :", (rows, pieces * n)
            case "pack" if pieces % n == 0 and rows * n <= 8:
                text, made = f"op.pack {source} by {n} :", (rows * n, pieces // n)
            case "unpack" if rows % n == 0 and pieces * n <= 4:
                text, made = f"op.unpack {source} by {n} :", (rows // n, pieces * n)
            case "add":
                other = rng.choice(others)
                used.add(other)
                text = f"op.add {source}, {other} : {one},"
            case _:
                pass
        used.add(source)
        lines.append(f"%v{index} = {text} {one} -> {tensor(made[0])}")
        known.append((f"%v{index}", *made))
    lines += [
        f'job.output "y{name[2:]}", {name} : {tensor(rows)}'
        for name, rows, _ in known
        if name not in used
    ]
    body = "\n".join(lines)
    return f"job.job @j placement <cpu, [0:0]> {{\n{body}\n}}\n"


MOST_ROWS = " {max_shape = array<i64: 8, 4>}"
"""The attribute of an input with any number of rows."""


def dynamic_job(rng: random.Random, length: int) -> str:
    """A job on tensors whose rows are known at run time only."""
    any_rows = "tensor<?x4xf32>"
    lines = [f'%v0 = job.input "x"{MOST_ROWS} : {any_rows}']
    used: set[int] = set()
    for index in range(1, length):
        a, b = (rng.randrange(max(0, index - 3), index) for _ in "ab")
        slots = f" {{slots = {rng.choice((2, 3))} : i64}}" * (rng.random() < 0.2)
        kind = rng.choice(("relu", "tanh", "add"))
        read = [a, b] if kind == "add" else [a]
        used.update(read)
        names = ", ".join(f"%v{x}" for x in read)
        types = ", ".join([any_rows] * len(read))
        lines.append(f"%v{index} = op.{kind} {names}{slots} : {types} -> {any_rows}")
    lines += [
        f'job.output "y{i}", %v{i} : {any_rows}' for i in range(length) if i not in used
    ]
    body = "\n".join(lines)
    return f"job.job @j placement <cpu, [0:0]> {{\n{body}\n}}\n"


def with_most_rows(text: str) -> str:
    """The text of a job or plan whose dynamic tensors all have their largest shape."""
    text = re.sub(r"(tensor<)\?(x4xf32>), max \[8, 4\]", r"\g<1>8\2", text)
    text = re.sub(r' header "[^"]*"', "", text).replace("?x4xf32", "8x4xf32")
    return text.replace(f'"x"{MOST_ROWS}', '"x"')


def several_jobs(rng: random.Random) -> dict[str, str]:
    """Jobs that share variables, and what earlier ones make."""
    made: list[str] = []
    texts: dict[str, str] = {}
    for number in range(rng.randrange(2, 4)):
        taken = [(name, 4) for name in made if rng.random() < 0.7]
        job = JobText(f"job{number}", rng, [(f"x{number}", 4), *taken])
        job.updates = rng.random() < 0.3
        job.grow(rng.randrange(6, 10))
        if rng.random() < 0.7:
            job.keep = [f"h{number}"]
            made.append(f"h{number}")
        texts[job.name] = job.finish()
    return texts
