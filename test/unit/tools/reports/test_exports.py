"""The graph of tasks for other tools: Graphviz and Google's Model Explorer."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import pytest

from penstock.tools.cli.view import run_tool
from penstock.tools.reports.view.data import Graph
from penstock.tools.reports.view.edges import Purpose
from penstock.tools.session.program_file import program_in

Json: TypeAlias = "dict[str, Any]"

ENCODER = str(Path(__file__).parents[4] / "examples" / "encoder.mlir")

NASTY = r'a "quoted" <b>\name'

SCOPES = r"""
job.job @"NAME" placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %a = op.softmax %x axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
    loc("/layers.0/attn/Softmax")
  %b = op.softmax %a axis 0 : tensor<4x4xf32> -> tensor<4x4xf32>
    loc("/layers.0/Softmax_1")
  %c = op.softmax %b axis 1 : tensor<4x4xf32> -> tensor<4x4xf32>
    loc("/layers.1/attn/Softmax")
  job.output "y", %c : tensor<4x4xf32>
}
"""


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job whose ops were nodes of a model with scopes."""
    path = tmp_path_factory.mktemp("scopes") / "scopes.mlir"
    name = NASTY.replace("\\", r"\\").replace('"', r"\"")
    path.write_text(SCOPES.replace("NAME", name), encoding="utf-8")
    return str(path)


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The text that the command writes to standard output."""
    assert run_tool(arguments) == 0
    return capsys.readouterr().out


# Graphviz ----------------------------------------------------------------------------


def test_dot_has_the_tasks_and_the_data_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = written(capsys, ENCODER, "--threads", "2", "--to-dot", "-")
    program = program_in(Path(ENCODER))
    tasks = [actor.sym_name.data for actor in program.actors]
    assert re.findall(r'^  t\d+ \[label="(.*?)\\n', text, re.MULTILINE) == tasks
    lines = re.findall(r"^  t(\d+) -> t(\d+)(?: \[(.*)\])?;$", text, re.MULTILINE)
    pairs = {(int(a), int(b)) for a, b, facts in lines if "style" not in facts}
    graph = Graph(program)
    wanted = {(e.start, e.end) for e in graph.edges() if e.purpose == Purpose.DATA}
    assert pairs == wanted
    assert all(a < b for a, b in pairs)
    assert 't0 -> t1 [label="2x16x32 float32"];' in text


def test_scopes_are_clusters_and_names_are_texts(
    capsys: pytest.CaptureFixture[str], scopes: str
) -> None:
    text = written(capsys, scopes, "--to-dot", "-")
    first, *lines = text.splitlines()
    escaped = NASTY.replace("\\", r"\\").replace('"', r"\"")
    assert first == f'digraph "{escaped}" {{'
    inside: list[str] = []
    clusters: dict[str, list[str]] = {}
    for line in lines:
        if found := re.match(r'\s+label="(.*)";', line):
            inside.append(found[1])
        elif line.strip() == "}" and inside:
            inside.pop()
        elif found := re.match(r"\s+(t\d) \[", line):
            clusters[found[1]] = [*inside]
    assert clusters == {
        "t0": [],
        "t4": [],
        "t2": ["layers.0"],
        "t1": ["layers.0", "attn"],
        "t3": ["layers.1", "attn"],
    }


def test_graphviz_reads_the_text(
    capsys: pytest.CaptureFixture[str], scopes: str
) -> None:
    if (dot := shutil.which("dot")) is None:
        pytest.skip("no dot: Graphviz is not installed")
    text = written(capsys, scopes, "--to-dot", "-")
    done = subprocess.run(
        [dot, "-Tplain"], input=text, check=True, capture_output=True, text=True
    )
    assert (done.stdout.count("\nnode "), done.stdout.count("\nedge ")) == (5, 4)


# Model Explorer ----------------------------------------------------------------------


def test_model_explorer_has_layers_and_edges(
    capsys: pytest.CaptureFixture[str], scopes: str, tmp_path: Path
) -> None:
    path = tmp_path / "graph.json"
    assert run_tool([scopes, "--to-model-explorer", str(path)]) == 0
    assert capsys.readouterr().out == f"wrote {path}\n"
    collection: Json = json.loads(path.read_text(encoding="utf-8"))
    assert collection["label"] == NASTY
    (graph,) = collection["graphs"]
    nodes = graph["nodes"]
    assert [(node["label"], node["namespace"]) for node in nodes] == [
        ("x", ""),
        ("a", "layers.0/attn"),
        ("b", "layers.0"),
        ("c", "layers.1/attn"),
        ("y", ""),
    ]
    for before, node in pairwise(nodes):
        (edge,) = node["incomingEdges"]
        assert edge["sourceNodeId"] == before["id"]
        output = before["outputsMetadata"][int(edge["sourceNodeOutputId"])]
        assert {"key": "shape", "value": "4x4 float32"} in output["attrs"]
    facts = {fact["key"]: fact["value"] for fact in nodes[1]["attrs"]}
    assert facts["op"] == "op.softmax"
    assert facts["nodes"] == "/layers.0/attn/Softmax"
    assert facts["place"].startswith("scopes.mlir:4:")
    assert int(facts["flops"].replace(",", "")) > 0


def test_edges_of_model_explorer_are_the_data_of_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = written(capsys, ENCODER, "--threads", "2", "--to-model-explorer", "-")
    (graph,) = json.loads(text)["graphs"]
    found = Graph(program_in(Path(ENCODER)))
    data = [e for e in found.edges() if e.purpose == Purpose.DATA]
    edges = [
        (int(edge["sourceNodeId"]), int(node["id"]))
        for node in graph["nodes"]
        for edge in node["incomingEdges"]
    ]
    assert sorted(edges) == sorted((e.start, e.end) for e in data)


@dataclass
class ExplorerGraph:
    """The graph of Model Explorer, which turns what adapters return to a dictionary."""

    id: str
    nodes: list[Json] = field(default_factory=list[Json])


def test_the_adapter_converts_files(
    monkeypatch: pytest.MonkeyPatch, scopes: str
) -> None:
    # Model Explorer itself takes 661 MB.
    explorer = ModuleType("model_explorer")
    explorer.__dict__.update(
        Adapter=object,
        AdapterMetadata=SimpleNamespace,
        graph_builder=SimpleNamespace(Graph=ExplorerGraph),
    )
    monkeypatch.setitem(sys.modules, "model_explorer", explorer)
    name = "penstock.tools.reports.model_explorer.main"
    monkeypatch.delitem(sys.modules, name, raising=False)
    from penstock.tools.reports.model_explorer import main

    assert main.PenstockAdapter.metadata.fileExts == ["mlir", "penstock"]
    (graph,) = main.PenstockAdapter().convert(scopes, {})["graphs"]
    assert [node["label"] for node in asdict(graph)["nodes"]] == [
        "x",
        "a",
        "b",
        "c",
        "y",
    ]
    monkeypatch.delitem(sys.modules, name)


# Refusals ----------------------------------------------------------------------------


def test_nothing_to_write_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tool([ENCODER]) == 2
    text = "nothing to write: give -o, --to-dot or --to-model-explorer"
    assert capsys.readouterr() == ("", f"penstock-view: error: {text}\n")
    assert run_tool([ENCODER, "--to-dot", "-", "--trace", "t.json"]) == 2
    text = "--trace is for the page, which -o asks for"
    assert capsys.readouterr() == ("", f"penstock-view: error: {text}\n")


@pytest.mark.parametrize("flag", ["--to-dot", "--to-model-explorer"])
def test_files_that_cannot_be_written_are_refused(
    capsys: pytest.CaptureFixture[str], scopes: str, tmp_path: Path, flag: str
) -> None:
    path = tmp_path / "no" / "out"
    assert run_tool([scopes, flag, str(path)]) == 2
    text = f"cannot write {path}: no such file or directory"
    assert capsys.readouterr() == ("", f"penstock-view: error: {text}\n")
