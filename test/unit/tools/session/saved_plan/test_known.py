"""Plans of ONNX models that another process finds again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from onnx import GraphProto, TensorProto, helper, numpy_helper
from xdsl.ir import Operation

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.kernel_times.database import KernelDatabase
from penstock.runtime.jit import package_digest
from penstock.runtime.jit.cache_files import keep
from penstock.tools.cli import run
from penstock.tools.driver import plugin_digest
from penstock.tools.driver.errors import UsageError
from penstock.tools.driver.plugins import unload
from penstock.tools.frontend.onnx import session as onnx_session
from penstock.tools.frontend.onnx.model import import_file
from penstock.tools.frontend.onnx.session import OnnxSession
from penstock.tools.session import program_export
from penstock.tools.session.saved_plan import derived, known
from penstock.tools.session.saved_plan import plan as plan_module
from penstock.tools.session.saved_plan.archive import PlanError
from penstock.tools.session.saved_plan.plan import read_own_plan
from penstock.tools.session.session import Session

DROP_RELU = Path(__file__).parents[4] / "plugin" / "Inputs" / "drop_relu.py"
Floats = NDArray[np.float32]


def floats(*shape: int) -> Floats:
    """Weights of which nobody has compiled a model before."""
    return fresh().normal(size=shape).astype(np.float32)


def write(
    path: Path, weights: Floats, *, beside: str = "", is_there: bool = True
) -> None:
    """A model of rows times weights, which may lie in a file beside it."""
    tensor = numpy_helper.from_array(weights, "w")
    if beside:
        if is_there:
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


def test_kernels_that_are_not_proven_run_from_plans_of_ones_own_alone(
    path: Path,
    tmp_path: Path,
    compiled: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if a plug-in had made them.
    def object_to(program: ProgramOp) -> list[tuple[Operation, str]]:
        kernels = [op for op in program.body.block.ops if isinstance(op, KernelOp)]
        return [(kernel, "who knows where it writes") for kernel in kernels]

    folder = tmp_path / "cache"
    monkeypatch.setattr(known, "cache_dir", lambda: folder)
    monkeypatch.setattr(program_export, "kernel_objections", object_to)
    weights = floats(4, 5)
    write(path, weights)
    for _ in range(2):
        check(path, weights)
    assert len(compiled) == 1
    (plan,) = folder.glob(PLAN)
    copy = shutil.copy(plan, tmp_path)
    with pytest.raises(PlanError, match="who knows where it writes"):
        Session.open(copy)
    arrays = path.with_name("x.npz")
    np.savez(arrays, x=floats(3, 4))
    assert run.run_tool([str(path), "--inputs", str(arrays)]) == 0
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


@pytest.mark.slow
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
    name = f"y{fresh().integers(1 << 40)}"
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], [name])],
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


@pytest.mark.slow
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


def test_the_plan_of_a_loaded_file_is_not_that_without_it(
    path: Path, compiled: list[object]
) -> None:
    write(path, floats(4, 5))
    inputs = [str(path), "--random-inputs", "1", "--dim", "rows=2"]
    for _ in range(2):
        assert run.run_tool([*inputs, "--load", str(DROP_RELU)]) == 0
    assert len(compiled) == 1
    assert run.run_tool(inputs) == 0
    assert len(compiled) == 2


def write_relu(path: Path) -> Floats:
    """A model of `relu(x) + c`, for a new `c`, which is returned."""
    c = floats(1)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Add", ["r", "c"], ["y"]),
    ]
    inputs, outputs = ([info(x, TensorProto.FLOAT, [4])] for x in "xy")
    tensor = numpy_helper.from_array(c, "c")
    save(path, helper.make_graph(nodes, "relu", inputs, outputs, [tensor]))
    return c


def test_a_line_of_a_loaded_pass_takes_effect(
    path: Path, compiled: list[object]
) -> None:
    c, x = write_relu(path), np.array([-2, -1, 1, 2], np.float32)
    file = path.with_name("drop.py")
    text = DROP_RELU.read_text(encoding="utf-8")
    # Whether a relu is one that is dropped.
    never = text.replace("isinstance(relu, ReluOp)", "False")
    assert never != text
    insert = "insert-before job-place=drop-relu"
    options = ["--load", str(file), "--insert-before", "job-place=drop-relu"]
    np.savez(path.with_name("x.npz"), x=x)
    options += ["--inputs", str(path.with_name("x.npz"))]
    outputs = path.with_name("y.npz")
    for number, source in enumerate((text, never, text), 1):
        file.write_text(source, encoding="utf-8")
        wanted = (np.maximum(x, 0) if source == never else x) + c
        for _ in range(2):
            with OnnxSession(path, edits=[insert], load=[file]) as session:
                np.testing.assert_array_equal(session.run({"x": x})["y"], wanted)
            assert run.run_tool([str(path), *options, "--outputs", str(outputs)]) == 0
            with np.load(outputs) as arrays:
                np.testing.assert_array_equal(arrays["y"], wanted)
        # The command finds the plan of the session, and the first text its own.
        assert len(compiled) == min(number, 2)


PLANNER = '''
"""A planner that puts each buffer behind the one before it."""

from penstock.plugins import register
import acme_gap


@register("memory-planner", "acme-line")
def line(problem, budget):
    """Each buffer behind the one before it."""
    at, offsets = 0, []
    for life in problem.lifetimes:
        offsets.append(at)
        at += -(-life.size // problem.alignment) * problem.alignment + GAP
    return offsets
'''

CHAIN = """
job.job @chain placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x16xf32>
  %a = op.matmul %x, %x : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %b = op.matmul %a, %a : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  %c = op.matmul %b, %b : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
  job.output "y", %c : tensor<16x16xf32>
}
"""
"""Four registers of 1 KiB."""

FRESH = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.frontend.onnx.session import OnnxSession

path, file, edit = sys.argv[1:]
with OnnxSession(path, edits=[edit], load=[file]) as session:
    session.run({"x": np.eye(16, dtype=np.float32)})
names = "numba", "xdsl", "onnx", "penstock.lowering"
print([name for name in names if name in sys.modules])
"""


def write_chain(path: Path) -> None:
    """The model of `CHAIN`, and one more node, whose name nobody has used."""
    name = f"v{fresh().integers(1 << 60)}"
    nodes = [
        helper.make_node("MatMul", [a, a], [b])
        for a, b in zip(("x", "a", "b"), ("a", "b", name), strict=True)
    ]
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    info = helper.make_tensor_value_info
    inputs, outputs = ([info(x, TensorProto.FLOAT, [16, 16])] for x in "xy")
    save(path, helper.make_graph(nodes, "chain", inputs, outputs))


@pytest.fixture
def planner(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a planner, and a package that it imports."""
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    (path.parent / "acme_gap.py").write_text("x = 1\n", encoding="utf-8")
    file = path.with_name("planner.py")
    file.write_text(PLANNER.replace("GAP", "0"), encoding="utf-8")
    yield file
    sys.modules.pop("acme_gap", None)
    unload()


def test_a_line_of_a_loaded_planner_takes_effect(
    path: Path, planner: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_chain(path)
    job = path.with_suffix(".mlir")
    job.write_text(CHAIN, encoding="utf-8")
    edit = "set regst-plan-memory.algorithm=acme-line"
    options = ["--load", str(planner), *f"--{edit}".split()]

    def peaks(*files: Path) -> set[str]:
        for file in files:
            assert run.run_tool([str(file), "--random-inputs", "1", *options]) == 0
        return set(re.findall(r"activations peak (.*?) KiB", capsys.readouterr().out))

    for gap, peak in ((0, "4.0"), (640, "5.9"), (0, "4.0"), (1280, "7.8")):
        text = PLANNER.replace("GAP", str(gap))
        planner.write_text(text, encoding="utf-8")
        assert peaks(path, job, path) == {peak}
        with OnnxSession(path, edits=[edit], load=[planner]) as session:
            session.run({"x": np.eye(16, dtype=np.float32)})
            (compiled,) = session._sessions.values()  # pyright: ignore[reportPrivateUsage]
            assert f"peak {peak} KiB" in compiled.report.memory[0]


def test_a_package_that_a_loaded_file_imports_is_a_part_of_the_key(
    path: Path, planner: Path, compiled: list[object]
) -> None:
    write_chain(path)
    for number, text in enumerate(("x = 1\n", "x = 2\n", "x = 1\n"), 1):
        (path.parent / "acme_gap.py").write_text(text, encoding="utf-8")
        forget_digests()
        with OnnxSession(path, load=[planner]) as session:
            session.run({"x": np.eye(16, dtype=np.float32)})
        assert len(compiled) == min(number, 2)


def test_a_plan_of_a_loaded_file_starts_without_the_compiler(
    path: Path, planner: Path
) -> None:
    write_chain(path)
    edit = "set regst-plan-memory.algorithm=acme-line"
    command = [sys.executable, "-c", FRESH, str(path), str(planner), edit]
    environment = {**os.environ, "PYTHONPATH": str(path.parent)}
    runs = [
        subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
            env=environment,
        )
        for _ in range(2)
    ]
    assert runs[1].stdout == "[]\n"


def test_code_that_is_in_no_file_keeps_no_plan(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_relu(path)
    monkeypatch.setattr(known, "has_code_without_file", lambda: True)
    for number in (1, 2):
        with OnnxSession(path) as session:
            session.run({"x": floats(4)})
        assert len(compiled) == number


def test_pipelines_and_edits_have_plans_of_their_own(
    path: Path, compiled: list[object]
) -> None:
    c, x = write_relu(path), np.array([-2, -1, 1, 2], np.float32)
    every: list[dict[str, Any]] = [
        {},
        {"pipeline": "cpu"},
        {"pipeline": "cpu{threads=2}"},
        {"edits": ["skip op-fuse-elementwise"]},
        {"edits": ["skip op-fuse-elementwise", "skip op-fuse-rows"]},
    ]
    for options in (*every, *every):
        with OnnxSession(path, **options) as session:
            y = session.run({"x": x})["y"]
            np.testing.assert_array_equal(y, np.maximum(x, 0) + c)
    assert len(compiled) == len(every)


def test_a_model_is_lowered_to_each_level(path: Path, compiled: list[object]) -> None:
    write_relu(path)
    for edits, fused in (([], True), (["skip op-fuse-elementwise"], False)):
        with OnnxSession(path, edits=edits) as session:
            text = session.lower({"x": floats(4)}, "job")
            assert ("op.fused" in text, "op.relu" in text) == (fused, True)
            assert "launch.program" in session.lower({"x": floats(4)})
            with pytest.raises(UsageError, match="unknown level 'jobs'"):
                session.lower({"x": floats(4)}, "jobs")
    assert compiled == []


def test_a_kept_plan_runs_on_the_threads_of_its_pipeline(
    path: Path, compiled: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    write_relu(path)
    asked = [str(path), "--random-inputs", "1", "--pipeline", "cpu{threads=2}"]
    for _ in range(2):
        assert run.run_tool(asked) == 0
        assert "2 threads" in capsys.readouterr().out
    assert len(compiled) == 1


def test_a_file_that_changes_while_a_model_is_compiled_keeps_no_plan(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_relu(path)
    file = path.with_name("drop.py")
    file.write_text(DROP_RELU.read_text(encoding="utf-8"), encoding="utf-8")
    kept = known.KnownPlans.keep

    def keep_late(*arguments: Any) -> None:
        file.write_text(file.read_text(encoding="utf-8") + "#", encoding="utf-8")
        kept(*arguments)

    monkeypatch.setattr(known.KnownPlans, "keep", keep_late)
    for number in (1, 2):
        with OnnxSession(path, load=[file]) as session:
            session.run({"x": floats(4)})
        assert len(compiled) == number


def test_a_file_that_is_not_there(path: Path) -> None:
    assert not known.KnownPlans(path).is_known


# What lies in the cache --------------------------------------------------------------


@pytest.fixture
def folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder for plans, with nothing in it."""
    folder = path.with_name("cache")
    folder.mkdir()
    for module in (known, derived):
        monkeypatch.setattr(module, "cache_dir", lambda: folder)
    return folder


PLAN, FILES, DERIVED = "*/*.penstock", "*/files.json", "*/plan.zip"


@pytest.mark.parametrize("pattern", [PLAN, FILES, DERIVED])
def test_a_flipped_bit_is_never_computed_with(
    path: Path,
    folder: Path,
    pattern: str,
    flip_a_bit: Callable[[Path], None],
) -> None:
    weights = floats(40, 50)
    write(path, weights, beside="w.bin")
    check(path, weights)
    (kept,) = folder.glob(pattern)
    whole = kept.read_bytes()
    for _ in range(8):
        kept.write_bytes(whole)
        flip_a_bit(kept)
        check(path, weights)


def test_every_bit_of_a_plan_that_matters_is_looked_at(
    path: Path, folder: Path
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    (kept,) = folder.glob(PLAN)
    whole = kept.read_bytes()
    before = read_own_plan(kept)
    places = {
        *map(int, fresh().integers(len(whole), size=200)),
        *range(len(whole) - 99, len(whole)),
    }
    for place in sorted(places):
        damaged = bytearray(whole)
        bit = int(fresh().integers(8))
        print(f"bit {bit} of byte {place} of {len(whole)}")
        damaged[place] ^= 1 << bit
        kept.write_bytes(damaged)
        try:
            plan = read_own_plan(kept)
        except PlanError:
            continue
        assert plan.text == before.text
        (name,) = plan.weights
        np.testing.assert_array_equal(plan.weights[name], before.weights[name])


@pytest.mark.parametrize("pattern", [PLAN, FILES, DERIVED])
@pytest.mark.parametrize("what", ["5", "others", "folder", "empty"])
def test_what_has_no_business_in_the_cache_counts_as_missing(
    path: Path, folder: Path, compiled: list[object], pattern: str, what: str
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    (kept,) = folder.glob(pattern)
    if what == "others":
        kept.chmod(0o666)
    else:
        kept.unlink()
        kept.mkdir() if what == "folder" else kept.write_text("5" * (what == "5"))
    check(path, weights)
    assert len(compiled) == (2 if pattern == PLAN else 1)
    # Whatever was missing is there again.
    assert kept.is_file()
    compiled.clear()
    check(path, weights)
    assert compiled == []


def test_a_list_of_files_that_is_none_counts_as_missing(
    path: Path, folder: Path, compiled: list[object]
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    (files,) = folder.glob(FILES)
    for text in (b"5", b'"w.bin"', b"[5]", b"{}", b"null"):
        assert keep(files, text)
        check(path, weights)
        compiled.clear()
        check(path, weights)
        assert compiled == []


def test_a_file_in_place_of_the_folder_counts_as_missing(
    path: Path, folder: Path, compiled: list[object]
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    for entry in [*folder.iterdir()]:
        shutil.rmtree(entry)
        entry.write_text("no folder")
    for _ in range(2):
        check(path, weights)
    assert len(compiled) == 2


def test_a_full_disk_is_no_error(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **options: object) -> None:
        raise UsageError("cannot write: no space left on device")

    weights = floats(4, 5)
    write(path, weights)
    for module in (plan_module, derived):
        monkeypatch.setattr(module, "write_archive", full)
    check(path, weights)
    check(path, weights)


@pytest.mark.slow
def test_plans_are_kept_by_the_content_of_plugins(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    site = path.with_name("site")
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    for group in ("penstock.kernels", "penstock.packing", "xdsl.universe"):
        entry = EntryPoint("theirs", "acme_known.passes:UNIVERSE", group)

        def entries(group: str, entry: EntryPoint = entry) -> EntryPoints:
            return EntryPoints([entry] if entry.group == group else [])

        monkeypatch.setattr(plugin_digest, "installed_entries", entries)
        for text in ("x = 1\n", "x = 1\n", "x = 2\n"):
            (site / "acme_known.py").write_text(text)
            forget_digests()
            check(path, weights)
        assert len(compiled) == 2
        compiled.clear()
    forget_digests()


def forget_digests() -> None:
    names = "_digest", "_imports_of", "_places", "code_of"
    caches: list[Any] = [getattr(package_digest, name) for name in names]
    texts = known.compiler_text, plugin_digest.installed_plugins_text
    for function in (*caches, *texts):
        function.cache_clear()


def test_plans_by_measured_times_are_not_kept(
    path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = floats(4, 5)
    write(path, weights)
    check(path, weights)
    database = path.with_name("kernels.db")
    KernelDatabase(database, write=True).close()
    monkeypatch.setenv("PENSTOCK_KERNELS", str(database))
    for _ in range(2):
        check(path, weights)
    assert len(compiled) == 3


@pytest.mark.parametrize(
    "place", ["/dev/zero", "../w.bin", "a/../../w.bin", r"C:\w.bin", r"..\w.bin"]
)
def test_tensors_outside_of_the_folder_of_a_model_are_refused(
    path: Path, place: str
) -> None:
    weights = floats(4, 5)
    write(path, weights, beside=place, is_there=False)
    text = f"^cannot read the weights of {path}: '{re.escape(place)}' lies outside of "
    with pytest.raises(UsageError, match=text):
        OnnxSession(path)
    with pytest.raises(UsageError, match=text):
        import_file(path)


def test_a_pipe_in_place_of_tensors_is_not_waited_for(path: Path) -> None:
    write(path, floats(4, 5), beside="w.bin", is_there=False)
    os.mkfifo(path.with_name("w.bin"))
    with pytest.raises(UsageError, match=r"^cannot read the weights of "):
        OnnxSession(path)
