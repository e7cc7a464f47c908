"""Text that plug-ins print goes to standard error, as results alone go to stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.tools.cli import import_model, opt, run, view
from penstock.tools.driver.plugins import unload

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %y = op.relu %x : tensor<2xf32> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
"""
LOUD = f"""
from dataclasses import dataclass
from xdsl.passes import ModulePass
from penstock.plugins import register

print("loaded")


@dataclass(frozen=True)
class LoudPass(ModulePass):
    '''Say something.'''

    name = "loud"

    def apply(self, ctx, op):
        print("applied")


@register("importer", "loud")
def read(path):
    print("read")
    return '''{JOB}'''
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("net.mlir").write_text(JOB, encoding="utf-8")
    Path("net.loud").write_text("", encoding="utf-8")
    Path("loud.py").write_text(LOUD, encoding="utf-8")
    unload()
    yield
    unload()


@pytest.mark.parametrize("flag", ["--help", "--version", "--completion=bash"])
def test_texts_that_are_asked_for_are_results(
    flag: str, capsys: pytest.CaptureFixture[str]
):
    for tool in (opt.run_tool, run.run_tool, view.run_tool):
        with pytest.raises(SystemExit):
            tool([flag])
        out, err = capsys.readouterr()
        assert len(out) > 20
        assert not err


LOAD = ["--load", "loud.py"]
FIRST = [*LOAD, "--insert-before", "op-infer-shapes=loud"]


@pytest.mark.usefixtures("here")
def test_ir_is_not_spoilt(capsys: pytest.CaptureFixture[str]):
    assert opt.run_tool(["net.mlir", *LOAD, "-p", "loud"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("builtin.module {")
    assert err == "loaded\napplied\n"
    assert opt.run_tool([*LOAD, "-p", "loud", "--dump-pipeline"]) == 0
    assert capsys.readouterr() == ("loud\n", "")


@pytest.mark.usefixtures("here")
def test_reports_are_not_spoilt(capsys: pytest.CaptureFixture[str]):
    assert run.run_tool(["net.mlir", *FIRST, "--random-inputs", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["program"] == "net"
    assert err == "loaded\napplied\n"


@pytest.mark.usefixtures("here")
def test_imported_jobs_are_not_spoilt(capsys: pytest.CaptureFixture[str]):
    assert import_model.run_tool(["net.loud", "-o", "-", *LOAD]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("builtin.module {")
    assert err == "loaded\nread\n"


@pytest.mark.usefixtures("here")
def test_graphs_are_not_spoilt(capsys: pytest.CaptureFixture[str]):
    assert view.run_tool(["net.mlir", "--to-dot", "-", *FIRST]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("digraph ")
    assert err == "loaded\napplied\n"
