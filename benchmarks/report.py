"""The results of benchmarks, as Markdown for people and JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

PACKAGES = ("numba", "llvmlite", "numpy", "xdsl", "onnx", "onnxruntime", "torch", "jax")

Json: TypeAlias = (
    "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
)


@dataclass(frozen=True)
class Table:
    """Cells of text, the first column to the left and all others to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table with columns of equal width."""
        lines = [self.header, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        return "\n".join(
            "| "
            + " | ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            + " |"
            for line in (self.header, rule, *self.rows)
        )


@dataclass(frozen=True)
class Section:
    """One benchmark: its tables, what they mean, and the same figures as data."""

    title: str
    text: str
    tables: Sequence[Table]
    data: Json
    problems: Sequence[str] = field(default=())
    """Problems, such as outputs that differ."""

    def markdown(self) -> str:
        """The section under a heading of the second level."""
        parts = [f"## {self.title}", self.text, *(t.markdown() for t in self.tables)]
        if self.problems:
            parts.append("\n".join(f"* {problem}" for problem in self.problems))
        return "\n\n".join(parts)


def processor_name(path: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the CPU by itself."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """The version of Python and of each package that matters."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def environment(rounds: int) -> dict[str, Json]:
    """Where and when benchmarks ran."""
    return {
        "date": date.today().isoformat(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "rounds": rounds,
        "versions": versions(),
    }


def environment_text(facts: Mapping[str, Json]) -> str:
    """A sentence on where and when benchmarks ran."""
    packages = facts["versions"]
    assert isinstance(packages, Mapping), "as `environment` makes it"
    named = ", ".join(f"{name} {number}" for name, number in packages.items())
    return (
        f"Measured on {facts['date']} with {facts['cores']} cores of "
        f"{facts['processor']}, {facts['rounds']} rounds; {named}."
    )


def as_json(facts: Mapping[str, Json], sections: Mapping[str, Section]) -> str:
    """All figures as JSON."""
    data = {name: section.data for name, section in sections.items()}
    return json.dumps({"environment": facts, "results": data}, indent=2) + "\n"
