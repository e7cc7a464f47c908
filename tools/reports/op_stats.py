"""The target `op-stats`: how many ops of each kind a module has."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

FORMATS = ("text", "json")


@dataclass(frozen=True)
class OpStatsTarget(Target):
    """
    The target `op-stats`: the number of ops by dialect and name, as the pass
    `print-op-stats` of `mlir-opt` prints it.
    """

    name: ClassVar[str] = "op-stats"

    format: str = "text"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            known = ", ".join(FORMATS)
            raise ValueError(f"unknown format '{self.format}', known are: {known}")

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        counts = op_counts(module)
        text = json.dumps(counts) if self.format == "json" else table_of(counts)
        output.write(text + "\n")


def op_counts(module: ModuleOp) -> dict[str, int]:
    """The number of ops by name, in the order of names, the module included."""
    return dict(sorted(Counter(op.name for op in module.walk()).items()))


def table_of(counts: dict[str, int]) -> str:
    """A line for each name, with the dialect and the name apart."""
    rows = [(*name.partition(".")[::2], number) for name, number in counts.items()]
    left = max(len(dialect) for dialect, _, _ in rows)
    right = max(len(op) for _, op, _ in rows)
    lines = (
        f"  {dialect:>{left}}.{op:<{right}} , {number}" for dialect, op, number in rows
    )
    return "\n".join(("Operations encountered:", "-" * 23, *lines))
