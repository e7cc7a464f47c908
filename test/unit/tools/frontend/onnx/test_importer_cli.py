"""The command `penstock-import`, and what it writes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from penstock.tools.cli.import_model import run_tool
from penstock.tools.cli.opt import run_tool as run_opt
from penstock.tools.cli.run import run_tool as run_model
from penstock.tools.driver.diagnostics import UsageError
from penstock.tools.frontend.onnx.session import OnnxSession
from penstock.tools.session.arrays import read_arrays, write_arrays
from penstock.tools.session.session import Session

Array: TypeAlias = NDArray[np.generic]
MakeModel: TypeAlias = Callable[..., ModelProto]
Save: TypeAlias = Callable[..., Path]
Capture: TypeAlias = pytest.CaptureFixture[str]

X = np.random.default_rng(8).standard_normal((4, 8)).astype(np.float32)
W = np.random.default_rng(9).standard_normal((8, 5)).astype(np.float32)

LAYER = [
    helper.make_node("MatMul", ["x", "file"], ["h/0"]),
    helper.make_node("Relu", ["h/0"], ["y"]),
]
"""Its weight has the name of an option of `numpy.savez`."""

RELU = [helper.make_node("Relu", ["x"], ["y"])]
"""Without weights."""


@pytest.fixture
def save(tmp_path: Path, make_model: MakeModel) -> Save:
    """Write a model of nodes whose output is `y` to a file."""

    def write(nodes: list[NodeProto], *, batch: str | None = None) -> Path:
        model = make_model(nodes, {"x": X}, known={"file": W})
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])
        model.graph.output[0].CopyFrom(result)
        if batch is not None:
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = batch
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return write


def test_a_model_is_compiled_to_each_level_when_it_is_imported(
    save: Save, tmp_path: Path, capsys: Capture
):
    model, job = str(save(LAYER)), str(tmp_path / "job.mlir")
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    write_arrays(inputs, {"x": X})
    marks = {"job": "op.yield", "plan": "plan.task", "memory": "regst.chunk"}
    for level, mark in {**marks, "launch": "launch.program"}.items():
        assert run_tool([model, "-o", job, "--compile-to", level]) == 0
        assert mark in Path(job).read_text(encoding="utf-8")
        assert run_model([job, "--inputs", str(inputs), "--outputs", str(outputs)]) == 0
        got = read_arrays(outputs)["y"].astype(np.float64)
        np.testing.assert_allclose(got, np.maximum(X @ W, 0), 1e-5, 1e-5)
    assert run_tool([model, "-o", job, "--pipeline", "cpu{threads=2}"]) == 0
    assert "launch.program" in Path(job).read_text(encoding="utf-8")
    capsys.readouterr()
    asked = [model, "--threads", "2", "--skip", "cse", "--dump-pipeline"]
    assert run_tool(asked) == 0
    printed = capsys.readouterr().out
    assert "plan-assign-streams{streams=2 " in printed
    assert "\ncse" not in printed


def test_a_model_that_cannot_be_compiled_leaves_no_files(
    save: Save, tmp_path: Path, capsys: Capture
):
    model, job = save(LAYER), tmp_path / "job.mlir"
    code, printed = fails(capsys, model, "-o", job, "--skip", "csee")
    assert code == 2
    assert printed.startswith("penstock-import: error: skip csee: the pipeline has no")
    assert list(tmp_path.iterdir()) == [model]


def fails(capsys: Capture, *arguments: object) -> tuple[int, str]:
    """The exit code and what is printed of a run that writes nothing."""
    code = run_tool([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return code, printed.err


def test_what_is_written_runs(save: Save, tmp_path: Path, capsys: Capture):
    model, job = save(LAYER), tmp_path / "job.mlir"
    assert run_tool([str(model), "-o", str(job)]) == 0
    weights = tmp_path / "job.npz"
    assert capsys.readouterr().out == f"wrote {job} and {weights}\n"
    np.testing.assert_array_equal(read_arrays(weights)["file"], W)
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    write_arrays(inputs, {"x": X})
    code = run_model([str(job), "--inputs", str(inputs), "--outputs", str(outputs)])
    assert code == 0
    got = read_arrays(outputs)["y"].astype(np.float64)
    np.testing.assert_allclose(got, np.maximum(X @ W, 0), 1e-5, 1e-5)


def test_what_is_written_reads_back(save: Save, tmp_path: Path):
    job, again = tmp_path / "job.mlir", tmp_path / "again.mlir"
    run_tool([str(save(LAYER)), "-o", str(job)])
    command = [
        sys.executable,
        "-m",
        "penstock.tools.cli.opt",
        str(job),
        "-o",
        str(again),
    ]
    subprocess.run(command, check=True, timeout=300)
    # Only the names of nodes are not printed again.
    written = re.sub(r' loc\(".*"\)$', "", job.read_text(), flags=re.MULTILINE)
    assert again.read_text().strip() == written.strip()


def test_the_job_goes_beside_the_model(save: Save, tmp_path: Path, capsys: Capture):
    assert run_tool([str(save(LAYER))]) == 0
    job, weights = tmp_path / "model.mlir", tmp_path / "model.npz"
    assert capsys.readouterr().out == f"wrote {job} and {weights}\n"
    assert 'init <npz, file = "model.npz">' in job.read_text()


def test_without_weights_there_is_no_file_for_them(
    save: Save, tmp_path: Path, capsys: Capture
):
    assert run_tool([str(save(RELU))]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'model.mlir'}\n"
    assert not (tmp_path / "model.npz").exists()


def test_further_outputs_and_random_weights(save: Save, tmp_path: Path):
    model = str(save(LAYER))
    assert run_tool([model, "--extra-output", "h/0", "--random-weights", "3"]) == 0
    assert 'job.output "h/0"' in (tmp_path / "model.mlir").read_text()
    first = read_arrays(tmp_path / "model.npz")["file"]
    assert not np.array_equal(first, W)
    assert run_tool([model, "--random-weights", "3"]) == 0
    np.testing.assert_array_equal(read_arrays(tmp_path / "model.npz")["file"], first)


def test_names_in_shapes_are_given_extents(save: Save, tmp_path: Path, capsys: Capture):
    model = str(save(LAYER, batch="n"))
    assert run_tool([model, "--dim", "n=4"]) == 0
    assert 'job.input "x" : tensor<4x8xf32>' in (tmp_path / "model.mlir").read_text()
    capsys.readouterr()
    assert fails(capsys, model, "--dim", "m=4") == (
        2,
        "penstock-import: error: no input has a dimension 'm'\n",
    )
    arguments = ["--dim", "n=7", "--random-inputs", "1", "--check", "onnxruntime"]
    assert run_model([model, *arguments]) == 0


def test_a_model_runs_for_the_shapes_it_is_given(
    make_model: MakeModel, tmp_path: Path, capsys: Capture
):
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Reshape", ["h", "shape"], ["y"]),
    ]
    arrays = {"x": X, "shape": np.array([2, -1])}
    path, inputs = tmp_path / "model.onnx", tmp_path / "in.npz"
    model = make_model(nodes, arrays)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])
    model.graph.output[0].CopyFrom(result)
    path.write_bytes(model.SerializeToString())
    write_arrays(inputs, arrays)
    for check in ("onnxruntime", "numpy"):
        command = [str(path), "--inputs", str(inputs), "--check", check]
        assert run_model(command) == 0
    capsys.readouterr()
    assert run_model([str(path), "--random-inputs", "1"]) == 1
    message = "the shape is only known at run time"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["n", "n=", "=3", "n=-1", "n=x"])
def test_extents_that_are_none(text: str, save: Save, capsys: Capture):
    with pytest.raises(SystemExit):
        run_tool([str(save(LAYER)), "--dim", text])
    message = f"argument --dim: expected NAME=N, got '{text}'"
    assert message in capsys.readouterr().err


def test_everything_that_is_wrong_is_one_message(save: Save, capsys: Capture):
    nodes = [
        helper.make_node("Bernoulli", ["x"], ["a"], name="first"),
        helper.make_node("Bernoulli", ["a"], ["y"], name="second"),
    ]
    model = save(nodes, batch="n")
    assert fails(capsys, model, "--extra-output", "no") == (
        1,
        f"{model}: error: the model cannot be imported:\n"
        "  op Bernoulli is not known: 2 nodes (first, second)\n"
        "  input 'x': extents 'n' of its shape are not known (give --dim n=N)\n"
        "  output 'no': there is no such value\n",
    )
    assert not model.with_suffix(".mlir").exists()


@pytest.mark.parametrize("opset", [8, 13, 18])
def test_all_unknown_ops_are_listed_whatever_their_domain(
    opset: int, tmp_path: Path, capsys: Capture
):
    inner = helper.make_graph(
        [helper.make_node("Third", ["a"], ["b"], name="inside")],
        "inner",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])],
    )
    nodes = [
        helper.make_node("NoSuchOp", ["x"], ["a"], name="first"),
        helper.make_node("NoSuchOp", ["a"], ["c"], name="second"),
        helper.make_node("Other", ["c"], ["d"], name="third"),
        helper.make_node("Cast", ["x"], ["t"], to=TensorProto.BOOL),
        helper.make_node("If", ["t"], ["e"], then_branch=inner, else_branch=inner),
        helper.make_node("Own", ["d"], ["f"], domain="acme", name="fourth"),
        # Which ONNX defines, from opset 15 on, but is not read.
        helper.make_node("Bernoulli", ["f"], ["g"], name="fifth"),
        helper.make_node("Add", ["e", "g"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("acme", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=8
    )
    path = tmp_path / "unknown.onnx"
    path.write_bytes(model.SerializeToString())
    code, message = fails(capsys, path)
    first, *lines = message.splitlines()
    assert (code, first) == (1, f"{path}: error: the model cannot be imported:")
    assert "  op NoSuchOp is not known: 2 nodes (first, second)" in lines
    assert "  op Other is not known: 1 node (third)" in lines
    assert "  op Third is not known: 2 nodes (inside, inside)" in lines
    assert "  op acme.Own is not known: 1 node (fourth)" in lines
    assert "  op Bernoulli is not known: 1 node (fifth)" in lines


def test_files_that_cannot_be_read(tmp_path: Path, capsys: Capture):
    gone = tmp_path / "gone.onnx"
    for path, reason in (
        (gone, "no such file or directory"),
        (gone.with_suffix(".mlir"), "no such file or directory"),
        (tmp_path, "is a directory"),
        (Path("."), "is a directory"),
    ):
        text = f"penstock-import: error: cannot read {path}: {reason}\n"
        assert fails(capsys, path) == (2, text)


def test_a_file_that_is_no_model(tmp_path: Path, capsys: Capture):
    path = tmp_path / "text.onnx"
    path.write_text("no model\n")
    code, message = fails(capsys, path)
    assert code == 1
    assert message.startswith(f"penstock-import: error: {path} is no ONNX model: ")
    assert message.count("\n") == 1


def test_places_where_nothing_can_be_written(
    save: Save, tmp_path: Path, capsys: Capture
):
    model, gone = save(LAYER), tmp_path / "gone" / "job.mlir"
    npz = tmp_path / "job.npz"
    for output, message in (
        (tmp_path, f"cannot write {tmp_path}: is a directory"),
        (npz, f"{npz} is where the weights would go: name it .mlir"),
        (model, f"writing {model} would destroy the model"),
        (gone, f"cannot write {gone}: no such file or directory"),
    ):
        text = f"penstock-import: error: {message}\n"
        assert fails(capsys, model, "-o", output) == (2, text)


def test_outputs_are_checked_before_the_model_is_read(tmp_path: Path, capsys: Capture):
    model, gone = tmp_path / "model.onnx", tmp_path / "gone" / "job.mlir"
    model.write_text("no model\n")
    message = f"cannot write {gone}: no such file or directory"
    text = f"penstock-import: error: {message}\n"
    assert fails(capsys, model, "-o", gone) == (2, text)


def test_weights_that_cannot_be_written_leave_no_job(
    save: Save, tmp_path: Path, capsys: Capture
):
    job, weights = tmp_path / "job.mlir", tmp_path / "job.npz"
    weights.mkdir()
    text = f"penstock-import: error: cannot write {weights}: is a directory\n"
    assert fails(capsys, save(LAYER), "-o", job) == (2, text)
    assert not job.exists()
    assert run_tool([str(save(RELU)), "-o", str(job)]) == 0


def test_without_the_package_onnx(
    save: Save, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    model = save(LAYER)
    monkeypatch.setitem(sys.modules, "penstock.tools.frontend.onnx.model", None)
    code, message = fails(capsys, model)
    assert code == 2
    start = "penstock-import: error: ONNX models need a package: pip install onnx ("
    assert message.startswith(start)
    with pytest.raises(UsageError, match="models need a package: pip install onnx "):
        OnnxSession(model)


def test_files_of_other_kinds_are_left_to_those_who_read_them(
    save: Save, tmp_path: Path, capsys: Capture
):
    model, job = save(LAYER), tmp_path / "job.mlir"
    job.write_text("")
    plan = tmp_path / "job.penstock"
    plan.write_bytes(b"")
    texts = {
        job: f"{job} is IR, which penstock-opt, penstock-run and Session.open read",
        model: f"{model} is an ONNX model, which penstock-run, penstock-import and "
        "penstock.OnnxSession read",
        plan: f"{plan} is a saved plan, which penstock-run and Session.open read",
    }
    for path in (job, plan):
        assert fails(capsys, path) == (2, f"penstock-import: error: {texts[path]}\n")
        with pytest.raises(UsageError) as caught:
            OnnxSession(path)
        assert str(caught.value) == texts[path]
    with pytest.raises(UsageError) as caught:
        Session.open(model)
    assert str(caught.value) == texts[model]
    for path in (model, plan):
        assert run_opt([str(path)]) == 2
        assert capsys.readouterr().err == f"penstock-opt: error: {texts[path]}\n"


@pytest.mark.parametrize("text", ["-1", "x", "1.5"])
def test_seeds_are_integers(text: str, capsys: Capture):
    with pytest.raises(SystemExit) as raised:
        run_tool(["model.onnx", f"--random-weights={text}"])
    assert raised.value.code == 2
    message = f"--random-weights: expected an integer from 0 on, got '{text}'\n"
    assert capsys.readouterr().err.endswith(message)


# Arrays in files


def test_arrays_of_any_name_read_back(tmp_path: Path):
    arrays: dict[str, Array] = {
        "file": np.arange(3),
        "allow_pickle": np.zeros((0, 4), np.float16),
        "a/b:0 ä": np.asfortranarray(X),
        "scalar": np.array(True),
    }
    path = tmp_path / "arrays.npz"
    write_arrays(path, arrays)
    got = read_arrays(path)
    assert list(got) == list(arrays)
    for name, array in arrays.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name], array, strict=True)
    assert [each.name for each in tmp_path.iterdir()] == ["arrays.npz"]


def test_no_arrays_read_back(tmp_path: Path):
    write_arrays(tmp_path / "none.npz", {})
    assert read_arrays(tmp_path / "none.npz") == {}


def test_files_without_arrays_are_refused(tmp_path: Path):
    text, single, pickled = (tmp_path / name for name in ("a.npz", "b.npy", "c.npz"))
    text.write_text("no arrays")
    np.save(single, X)
    np.savez(pickled, x=np.array([{}], object))
    for path in (text, single, pickled, tmp_path / "gone.npz"):
        with pytest.raises(UsageError) as raised:
            read_arrays(path)
        assert str(raised.value).startswith(f"cannot read {path}: ")


def test_arrays_that_cannot_be_written_leave_nothing(tmp_path: Path):
    path = tmp_path / "bad.npz"
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(path, {"x": np.array([{}], object)})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match=r"cannot write .*: no such file or directory"):
        write_arrays(tmp_path / "gone" / "x.npz", {})


def test_a_check_without_its_peer_is_refused_before_anything_is_compiled(
    save: Save, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("penstock.tools.cli.run.Session", None)
    words = "--random-inputs", "1", "--check", "onnxruntime"
    assert run_model([str(save(RELU)), *words]) == 2
    text = "ONNX Runtime is not installed: pip install onnxruntime"
    assert capsys.readouterr() == ("", f"penstock-run: error: {text}\n")


def test_a_model_from_the_standard_input_is_printed(
    save: Save, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    data = save(LAYER).read_bytes()
    monkeypatch.chdir(tmp_path)

    def read(content: bytes) -> int:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content), "utf-8"))
        return run_tool(["-", "--json"])

    assert read(data) == 0
    out, err = capsys.readouterr()
    assert out.startswith("builtin.module {\n  job.job @")
    assert 'init <npz, file = "weights.npz">' in out
    assert err == '{"wrote": ["weights.npz"]}\n'
    np.testing.assert_array_equal(read_arrays(tmp_path / "weights.npz")["file"], W)
    assert read(b"no model") == 1
    message = "penstock-import: error: <stdin> is no ONNX model\n"
    assert capsys.readouterr() == ("", message)


def test_passes_are_shown_and_timed(save: Save, tmp_path: Path, capsys: Capture):
    words = "--compile-to", "plan", "--print-ir-after=job-clean", "--timing"
    assert run_tool([str(save(LAYER)), "-o", str(tmp_path / "job.mlir"), *words]) == 0
    err = capsys.readouterr().err
    assert err.startswith("// -----// IR Dump After job-clean //----- //\n")
    assert "... Execution time report ..." in err
    assert "convert-job-to-plan" in err.rpartition("... Execution")[2]
