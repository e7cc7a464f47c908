"""Jobs of typical shapes, as text: a suite that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from penstock.tools.reports.compare.variants import JobFile

_HEAD = "job.job @{name} placement <cpu, [0:0]> {{"


def _product(value: str, name: str, kind: str, seed: int) -> Iterator[str]:
    """A square product of a value with weights of its own."""
    init = f"<xavier_uniform, seed = {seed}>"
    yield f'  %w_{name} = job.variable "w_{name}" init {init} : {kind}'
    yield f"  %{name} = op.matmul {value}, %w_{name} : {kind}, {kind} -> {kind}"


def chain(size: int, layers: int) -> Iterator[str]:
    """Dense layers one after the other, each with a relu."""
    kind, value = f"tensor<{size}x{size}xf32>", "%x"
    yield f'  %x = job.input "x" : {kind}'
    for i in range(layers):
        yield from _product(value, f"m{i}", kind, i + 1)
        yield f"  %r{i} = op.relu %m{i} : {kind} -> {kind}"
        value = f"%r{i}"
    yield f'  job.output "y", {value} : {kind}'


def branches(size: int, count: int) -> Iterator[str]:
    """Branches of two products from one input, whose results are added up."""
    kind, total = f"tensor<{size}x{size}xf32>", "%x"
    yield f'  %x = job.input "x" : {kind}'
    for i in range(count):
        yield from _product("%x", f"a{i}", kind, 2 * i + 1)
        yield f"  %t{i} = op.tanh %a{i} : {kind} -> {kind}"
        yield from _product(f"%t{i}", f"b{i}", kind, 2 * i + 2)
    for i in range(count):
        yield f"  %s{i} = op.add {total}, %b{i} : {kind}, {kind} -> {kind}"
        total = f"%s{i}"
    yield f'  job.output "y", {total} : {kind}'


def ladder(size: int, depth: int) -> Iterator[str]:
    """Values that come back in reverse order, as in a U-Net: long lifetimes nest."""
    kind, value = f"tensor<{size}x{size}xf32>", "%x"
    yield f'  %x = job.input "x" : {kind}'
    for i in range(depth):
        yield from _product(value, f"d{i}", kind, i + 1)
        value = f"%d{i}"
    for i in reversed(range(depth - 1)):
        yield from _product(value, f"p{i}", kind, depth + i + 1)
        yield f"  %u{i} = op.add %p{i}, %d{i} : {kind}, {kind} -> {kind}"
        value = f"%u{i}"
    yield f'  job.output "y", {value} : {kind}'


JOBS: Mapping[str, Callable[[], Iterator[str]]] = {
    "chain": lambda: chain(128, 12),
    "branches": lambda: branches(128, 8),
    "ladder": lambda: ladder(128, 8),
}
"""The lines of each job, by its name."""


def text_of(name: str) -> str:
    """The text of a job."""
    return "\n".join([_HEAD.format(name=name), *JOBS[name](), "}", ""])


def generated_jobs(folder: Path) -> list[JobFile]:
    """The jobs as files, which are written into a folder."""
    found: list[JobFile] = []
    for name in JOBS:
        path = folder / f"{name}.mlir"
        path.write_text(text_of(name), encoding="utf-8")
        found.append(JobFile(name, path))
    return found
