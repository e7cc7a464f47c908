"""
The exit codes of all commands: 2 where the command line is wrong, also by files that
cannot be opened or written, and 1 where a file does not hold what it should.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.tools.cli import compare_variants, import_model, opt, reduce, run, view

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %y = op.relu %x : tensor<2xf32> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
"""
TOOLS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare_variants.run_tool,
    "import": import_model.run_tool,
    "opt": opt.run_tool,
    "reduce": reduce.run_tool,
    "run": run.run_tool,
    "view": view.run_tool,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind in ("onnx", "penstock", "mlir", "npz", "csv", "json"):
        Path(f"bad.{kind}").write_text("rubbish", encoding="utf-8")
    Path("bad.py").write_text("1 / 0\n", encoding="utf-8")
    Path("net.mlir").write_text(JOB, encoding="utf-8")
    Path("folder").mkdir()
    return tmp_path


def code_of(line: str) -> int:
    tool, *words = line.split()
    try:
        return TOOLS[tool](words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else -1


@pytest.mark.parametrize(
    "line",
    [
        "compare --planners size-first --on no.csv",
        "import no.onnx",
        "import folder",
        "import no.onnx -o -",
        "opt no.mlir",
        "opt folder",
        "reduce no.mlir -p cse",
        "run no.mlir",
        "run no.onnx",
        "run no.penstock",
        "run folder",
        "run no.penstock --show-origin",
        "view no.mlir -o a.html",
        "view no.penstock -o a.html",
    ],
)
@pytest.mark.usefixtures("here")
def test_an_input_that_cannot_be_opened(line: str, capsys: pytest.CaptureFixture[str]):
    assert code_of(line) == 2
    words = line.split()
    file = next(word for word in words if word.startswith(("no.", "folder")))
    reason = "is a directory" if file == "folder" else "no such file or directory"
    message = f"penstock-{words[0]}: error: cannot read {file}: {reason}\n"
    assert capsys.readouterr() == ("", message)


@pytest.mark.parametrize(
    "line",
    [
        "opt net.mlir --load no.py",
        "opt net.mlir -p no-such-pass",
        "opt net.mlir --no-such-flag",
        "opt net.mlir -o folder",
        "opt bad.onnx",
        "reduce net.mlir",
        "run net.mlir --inputs no.npz",
        "run net.mlir --inputs x=@no.npy",
        "run net.mlir --random-inputs 1 --check no.npz",
        "run net.mlir --random-inputs 1 --trace folder",
        "run net.mlir --device gpu",
        "run net.mlir --pipeline no-such-pipeline",
        "view net.mlir -o a.html --trace no.json",
        "view net.mlir",
        "import net.mlir",
        "compare",
    ],
)
@pytest.mark.usefixtures("here")
def test_a_bad_command_line(line: str, capsys: pytest.CaptureFixture[str]):
    assert code_of(line) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"penstock-{line.split()[0]}: error: ")


@pytest.mark.parametrize(
    "line",
    [
        "compare --planners size-first --on bad.csv",
        "compare --planners size-first --on net.mlir --load bad.py",
        "import bad.onnx",
        "opt bad.mlir",
        "opt net.mlir --load bad.py",
        "reduce bad.mlir -p cse",
        "reduce net.mlir -p cse --load bad.py",
        "run bad.mlir",
        "run bad.onnx",
        "run bad.penstock",
        "run bad.penstock --show-origin",
        "run net.mlir --inputs bad.npz",
        "run net.mlir --inputs x=@bad.npz",
        "run net.mlir --inputs x=2xf32=@bad.npz",
        "run net.mlir --random-inputs 1 --check bad.npz",
        "run net.mlir --random-inputs 1 --load bad.py",
        "view bad.mlir -o a.html",
        "view bad.penstock -o a.html",
        "view net.mlir -o a.html --trace bad.json",
    ],
)
@pytest.mark.usefixtures("here")
def test_a_file_that_does_not_hold_what_it_should(
    line: str, capsys: pytest.CaptureFixture[str]
):
    assert code_of(line) == 1
    err = capsys.readouterr().err
    bad = next(word for word in line.split() if "bad." in word).rpartition("@")[2]
    assert bad in err
    assert "error: " in err
