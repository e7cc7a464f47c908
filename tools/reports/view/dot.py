"""
The graph of tasks as text for Graphviz: `penstock-view FILE --to-dot OUT.dot`.

A box is a task, with its op. Boxes of a scope of the model stand in a cluster, one in
the other. A line is data, with its type; a dashed one is an order, and a dotted one
leads to the next act. Registers that are only kept from being written over are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.dialects.launch import ProgramOp
from penstock.tools.reports.view.data import Graph
from penstock.tools.reports.view.edges import Purpose
from penstock.tools.reports.view.page import palette_of

Json: TypeAlias = "dict[str, Any]"

STYLES = {
    Purpose.DATA: "",
    Purpose.ORDER: "style=dashed",
    Purpose.FEEDBACK: "style=dotted, constraint=false",
}
"""The edges that are drawn, and how."""


@dataclass
class Cluster:
    """A scope: its tasks by number, and the scopes inside."""

    tasks: list[int] = field(default_factory=list[int])
    inside: dict[str, Cluster] = field(default_factory=dict[str, "Cluster"])


def dot_of(program: ProgramOp) -> str:
    """The graph of a program, in the colours of its page."""
    found = Graph(program)
    graph, palette = found.to_json(), palette_of(found.kinds)
    lines = [
        f"digraph {quoted(graph['program'])} {{",
        '  node [shape=box, style=filled, fillcolor="#d5d8dd", fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
        *cluster_lines(clusters_of(graph["tasks"]), graph, palette, "  ", "cluster"),
        *edge_lines(graph),
        "}",
    ]
    return "\n".join(lines) + "\n"


def clusters_of(tasks: Sequence[Json]) -> Cluster:
    """The tree of scopes."""
    root = Cluster()
    for number, task in enumerate(tasks):
        cluster = root
        for name in task["scope"]:
            cluster = cluster.inside.setdefault(name, Cluster())
        cluster.tasks.append(number)
    return root


def cluster_lines(
    cluster: Cluster, graph: Json, palette: Mapping[str, str], indent: str, name: str
) -> Iterator[str]:
    """The boxes of a scope, and those of the scopes inside."""
    for number in cluster.tasks:
        task = graph["tasks"][number]
        colour = palette.get(task["kind"])
        fill = f", fillcolor={quoted(colour)}" if colour else ""
        label = quoted(f"{task['name']}\n{task['kind']}")
        yield f"{indent}t{number} [label={label}{fill}];"
    for number, (label, inside) in enumerate(cluster.inside.items()):
        yield f"{indent}subgraph {name}_{number} {{"
        yield f"{indent}  label={quoted(label)};"
        path = f"{name}_{number}"
        yield from cluster_lines(inside, graph, palette, f"{indent}  ", path)
        yield f"{indent}}}"


def edge_lines(graph: Json) -> Iterator[str]:
    """The lines between boxes, each once."""
    seen: set[str] = set()
    for start, end, register, purpose in graph["edges"]:
        if purpose not in STYLES:
            continue
        type = graph["registers"][register].get("type")
        parts = [f"label={quoted(type)}"] if type and purpose == Purpose.DATA else []
        parts += [STYLES[purpose]] if STYLES[purpose] else []
        facts = f" [{', '.join(parts)}]" if parts else ""
        line = f"  t{start} -> t{end}{facts};"
        if line not in seen:
            seen.add(line)
            yield line


def quoted(text: str) -> str:
    """A text as Graphviz reads it, whatever is in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", " ") + '"'
