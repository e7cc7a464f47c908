"""Plans of ONNX models that another process finds again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, TensorProto, helper, numpy_helper

from penstock.tools import onnx_session, run
from penstock.tools.onnx_session import OnnxSession
from penstock.tools.saved_plan import known

Floats = NDArray[np.float32]
RANDOM = np.random.default_rng()
"""Of no seed: nobody has compiled these models before."""


def floats(*shape: int) -> Floats:
    return RANDOM.normal(size=shape).astype(np.float32)


def write(path: Path, weights: Floats, *, beside: str = "") -> None:
    """A model of rows times weights, which may lie in a file beside it."""
    tensor = numpy_helper.from_array(weights, "w")
    if beside:
        path.with_name(beside).write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=beside)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "rows",
        [info("x", TensorProto.FLOAT, ["rows", weights.shape[0]])],
        [info("y", TensorProto.FLOAT, ["rows", weights.shape[1]])],
        [tensor],
    )
    save(path, graph)


def save(path: Path, graph: GraphProto) -> None:
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())


def check(path: Path, weights: Floats, rows: int = 3, threads: int = 1) -> None:
    x = floats(rows, weights.shape[0])
    with OnnxSession(path, threads=threads) as session:
        (y,) = session.run({"x": x}).values()
    got = np.asarray(y, np.float32)
    np.testing.assert_allclose(got, x @ weights, 1e-4, 1e-5)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sessions that are compiled."""
    found: list[object] = []

    class Compiled(onnx_session.Session):
        def __init__(self, *args: object, **options: object) -> None:
            found.append(self)
            super().__init__(*args, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(onnx_session, "Session", Compiled)
    monkeypatch.setattr(run, "Session", Compiled)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.onnx"


def test_a_model_that_is_known_is_neither_read_nor_compiled(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    assert len(compiled) == 1
    monkeypatch.setattr(onnx_session, "_Given", None)
    check(path, weights)
    assert len(compiled) == 1


def test_what_the_plan_depends_on(path: Path, compiled: list[object]) -> None:
    weights = floats(4, 5)
    write(path, weights)
    for facts in ({}, {"rows": 2}, {"threads": 2}, {}, {"rows": 2}, {"threads": 2}):
        check(path, weights, **facts)
    assert len(compiled) == 3


def test_other_contents(path: Path, compiled: list[object]) -> None:
    for weights in (floats(4, 5), floats(4, 5)):
        write(path, weights)
        check(path, weights)
    assert len(compiled) == 2


def test_other_contents_of_a_file_beside_it(path: Path, compiled: list[object]) -> None:
    for weights in (first := floats(4, 5), floats(4, 5), first):
        write(path, weights, beside="w.bin")
        check(path, weights)
        check(path, weights)
    assert len(compiled) == 2


def test_plans_for_other_contents_of_a_file_beside_it_are_not_mixed_up(
    path: Path, compiled: list[object]
) -> None:
    first, second = floats(4, 5), floats(4, 5)
    write(path, first, beside="w.bin")
    check(path, first)
    check(path, first, rows=2)
    write(path, second, beside="w.bin")
    check(path, second)
    # The plan for two rows is of the first contents.
    check(path, second, rows=2)
    assert len(compiled) == 4


def test_other_modules(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    monkeypatch.setattr(known, "digest_of_all", lambda: "other")
    known.compiler_text.cache_clear()
    check(path, weights)
    known.compiler_text.cache_clear()
    assert len(compiled) == 2


def test_a_plan_for_certain_values_is_not_kept(
    path: Path, compiled: list[object]
) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], [f"y{RANDOM.integers(1 << 40)}"])],
        "reshape",
        [info("x", TensorProto.FLOAT, [6]), info("shape", TensorProto.INT64, [2])],
        [],
    )
    graph.output.append(info(graph.node[0].output[0], TensorProto.FLOAT, ["n", "m"]))
    save(path, graph)
    x = floats(6)
    for shape in ([2, 3], [3, 2], [2, 3]):
        with OnnxSession(path) as session:
            (y,) = session.run({"x": x, "shape": np.array(shape)}).values()
        np.testing.assert_array_equal(y, x.reshape(shape), strict=True)
    assert len(compiled) == 3


def test_a_plan_that_is_large_for_the_cache_is_not_kept(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    monkeypatch.setattr(known, "size_limit", lambda: known.SHARE * weights.nbytes - 1)
    check(path, weights)
    check(path, weights)
    assert len(compiled) == 2


def test_a_plan_that_was_cut_off_is_made_anew(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = path.with_name("cache")
    folder.mkdir()
    monkeypatch.setattr(known, "cache_dir", lambda: folder)
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    (plan,) = folder.glob("*/*.penstock")
    plan.write_bytes(plan.read_bytes()[:1000])
    check(path, weights)
    check(path, weights)
    assert len(compiled) == 2


def test_the_tool_finds_plans_again(
    path: Path, compiled: list[object], capfd: pytest.CaptureFixture[str]
) -> None:
    write(path, floats(4, 5))
    inputs = [str(path), "--random-inputs", "1", "--dim", "rows=2"]
    expected = path.with_name("y.npz")
    others = ["--allow-winograd"], ["--random-weights", "1"], ["--threads", "2"]
    for more in (["--outputs", str(expected)], [], *others):
        assert run.run_tool([*inputs, *more]) == 0
    assert len(compiled) == 4
    texts = re.findall("^(load|compile and load)", capfd.readouterr().out, re.M)
    assert texts == ["compile and load", "load", *["compile and load"] * 3]
    # What needs the model, or may be compiled otherwise the next time.
    database = path.with_name("kernels.db")
    for more in (["--check", "onnxruntime"], ["--tune", "--kernels", str(database)]):
        assert run.run_tool([*inputs, *more]) == 0
    assert len(compiled) == 6
    assert run.run_tool([*inputs, "--check", str(expected), "--tolerance", "0"]) == 0
    assert len(compiled) == 6


def test_a_file_that_is_not_there(path: Path) -> None:
    assert not known.KnownPlans(path).is_known
