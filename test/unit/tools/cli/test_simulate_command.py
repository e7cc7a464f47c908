"""`penstock-simulate`: its outputs, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.tools.cli.simulate import run_tool

ROOT = Path(__file__).parents[4]
JOB = ROOT / "examples" / "ranks" / "data_parallel.mlir"


def test_a_time_line_goes_to_a_file_and_facts_to_the_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trace = tmp_path / "trace.json"
    assert (
        run_tool([str(JOB), "--iterations", "2", "--json", "--trace", str(trace)]) == 0
    )
    facts = json.loads(capsys.readouterr().out)
    assert (facts["job"], facts["iterations"]) == ("data_parallel", 2)
    assert {device["name"] for device in facts["devices"]} == {
        "rank 0 cpu:0",
        "rank 1 cpu:0",
    }
    sent = {link["name"]: link["bytes"] for link in facts["links"]}
    # Each rank sends what the other one does: parts of the batch aside, gradients.
    assert set(sent) == {"node 0 to node 1", "node 1 to node 0"}
    assert all(size > 0 for size in sent.values())
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}


def test_collectives_take_a_task_of_each_rank(capsys: pytest.CaptureFixture[str]):
    tasks: dict[str, int] = {}
    for how in ("copies", "ring"):
        assert run_tool([str(JOB), "--json", "--collectives", how]) == 0
        facts = json.loads(capsys.readouterr().out)
        tasks[how] = facts["tasks"]
        sent = {link["name"]: link["bytes"] for link in facts["links"]}
        assert set(sent) == {"node 0 to node 1", "node 1 to node 0"}
    assert tasks["ring"] < tasks["copies"]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "[nodes]\nranks = 0",
            1,
            "nodes.ranks should be a whole number above 0, got 0",
        ),
        ("[", 1, "no TOML: "),
        (None, 2, "cannot read "),
    ],
)
def test_a_bad_cluster_is_told_with_its_file(
    text: str | None,
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "cluster.toml"
    if text is not None:
        path.write_text(text)
    assert run_tool([str(JOB), "--cluster", str(path)]) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    place = "" if text is None else f"{path}: "
    assert err.startswith(f"penstock-simulate: error: {place}{message}")


def test_a_program_has_no_plan_to_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "program.mlir"
    path.write_text("launch.program @main rank 0 {\n  launch.control @x slots 1\n}\n")
    assert run_tool([str(path)]) == 1
    message = f"{path} is past its plan: a job or plans are predicted\n"
    assert capsys.readouterr() == ("", f"penstock-simulate: error: {message}")
