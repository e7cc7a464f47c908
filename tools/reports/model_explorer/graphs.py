"""
Programs as graphs of Model Explorer: tasks in layers by the scopes of their model.

The form is that of its JSON files: a collection with a label, and graphs of nodes that
name their incoming edges. Lines are data; the tasks that one only waits for are links
of its attribute `after`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

from penstock.dialects.launch import ProgramOp
from penstock.tools.reports.view.data import Graph
from penstock.tools.reports.view.edges import Purpose
from penstock.tools.session.report import size_text

Json: TypeAlias = "dict[str, Any]"


def collection_of(program: ProgramOp) -> Json:
    """A program as a file for Model Explorer."""
    return {"label": program.sym_name.data, "graphs": [graph_of(program)]}


def graph_of(program: ProgramOp) -> Json:
    """A program as a graph, whose nodes are known by their numbers."""
    found = Graph(program)
    graph = found.to_json()
    tasks: list[Json] = graph["tasks"]
    incoming: defaultdict[int, list[Json]] = defaultdict(list)
    after: defaultdict[int, list[str]] = defaultdict(list)
    for start, end, register, purpose in found.edges():
        if purpose == Purpose.DATA:
            writes: list[int] = tasks[start]["writes"]
            # A message is in no register that its sender writes.
            output = writes.index(register) if register in writes else 0
            incoming[end].append(
                {
                    "sourceNodeId": str(start),
                    "sourceNodeOutputId": str(output),
                    "targetNodeInputId": str(len(incoming[end])),
                }
            )
        elif purpose == Purpose.ORDER:
            after[end].append(str(start))
    nodes = [
        {
            "id": str(number),
            "label": task["name"],
            "namespace": "/".join(name.replace("/", "_") for name in task["scope"]),
            "attrs": [*attributes(task, after[number])],
            "incomingEdges": incoming[number],
            "outputsMetadata": [*outputs(task, graph)],
        }
        for number, task in enumerate(tasks)
    ]
    return {"id": graph["program"], "nodes": nodes}


def attributes(task: Json, after: list[str]) -> Iterator[Json]:
    """The facts of a task for the side panel."""
    yield attribute("op", task["kind"])
    yield attribute("on", f"{task['device']}, stream {task['stream']}")
    for key in ("flops", "bytes"):
        if amounts := [op[key] for op in task["ops"] if key in op]:
            yield attribute(key, f"{sum(amounts):,}")
    if task["nodes"]:
        yield attribute("nodes", ", ".join(task["nodes"]))
    if task["place"]:
        yield attribute("place", task["place"])
    if after:
        yield {"key": "after", "value": {"type": "node_ids", "nodeIds": after}}


def outputs(task: Json, graph: Json) -> Iterator[Json]:
    """The registers that a task writes."""
    for number, index in enumerate(task["writes"]):
        register = graph["registers"][index]
        attrs = [attribute("register", register["name"])]
        if "type" in register:
            attrs.append(attribute("shape", register["type"]))
            attrs.append(attribute("bytes", size_text(register["bytes"])))
        yield {"id": str(number), "attrs": attrs}


def attribute(key: str, value: str) -> Json:
    """A fact."""
    return {"key": key, "value": value}
