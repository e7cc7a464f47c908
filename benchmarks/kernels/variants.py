"""The pipelines that a program goes through, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from xdsl.utils.arg_spec import ArgSpec

from penstock.lowering.pipelines import Passes, PipelineOptions, pipeline
from penstock.tools.driver.pass_pipeline import PassTable

OPTIONAL = ("waves", "winograd")
"""Options that change few programs."""


@dataclass(frozen=True)
class Variant:
    """A standard pipeline with options, for a CPU with vectors of so many bytes."""

    target: str = "cpu"
    vector_bytes: int = 64
    threads: int = 1
    panels: bool = True
    waves: bool = False
    winograd: bool = False

    def __str__(self) -> str:
        words = [self.target, str(self.vector_bytes), f"threads={self.threads}"]
        words += ["no-panels"] * (not self.panels)
        words += [x for x in OPTIONAL if getattr(self, x)]
        return ":".join(words)

    def passes(self, available: PassTable) -> Passes:
        """The passes, none of which asks which CPU this is."""
        options = PipelineOptions(
            self.target,
            threads=self.threads,
            panels=self.panels,
            waves=self.waves,
            winograd=self.winograd,
            simulate_ranks=True,
        )
        return with_vectors(pipeline(options), available, self.vector_bytes)


VARIANTS = (
    *(
        Variant("cpu", width, threads, panels)
        for width in (64, 32, 16)
        for threads in (1, 2)
        for panels in (True, False)
    ),
    Variant("cpu", waves=True),
    Variant("cpu", winograd=True),
    Variant("cuda"),
    Variant("cuda", threads=2),
)
"""Later ones are left out where they end as an earlier one."""
PLAIN = (Variant("cpu"), Variant("cpu", 32), Variant("cuda"))
"""The variants of `--quick`."""


def with_vectors(passes: Passes, available: PassTable, width: int) -> Passes:
    """Passes that are told the bytes of vectors, where they would ask this CPU."""
    return tuple(
        replace(spec, parameters={"vector-bytes": (width,), **spec.parameters})
        if _asks_for_vectors(spec.name, available)
        else spec
        for spec in passes
    )


def _asks_for_vectors(name: str, available: PassTable) -> bool:
    if name not in available:
        return False
    return any(option.name == "vector_bytes" for option in fields(available[name]()))


Steps: TypeAlias = tuple[ArgSpec | None, ...]


def aligned(pipelines: Sequence[Passes]) -> list[Steps]:
    """
    The passes of pipelines side by side: the pipelines have the same passes in the same
    order, but for some that not all have, which are None in the others.
    """
    rest = [list(passes) for passes in pipelines]
    columns: list[list[ArgSpec | None]] = [[] for _ in pipelines]
    while any(rest):
        name = _next_name(rest)
        for steps, column in zip(rest, columns, strict=True):
            has = bool(steps) and steps[0].name == name
            column.append(steps.pop(0) if has else None)
    return [tuple(column) for column in columns]


def _next_name(rest: Sequence[Sequence[ArgSpec]]) -> str:
    """The name of a pass at the head of some lists, and further down in none."""
    heads = [steps[0].name for steps in rest if steps]
    for name in heads:
        later = any(
            spec.name == name
            for steps in rest
            if steps and steps[0].name != name
            for spec in steps
        )
        if not later:
            return name
    return heads[0]
