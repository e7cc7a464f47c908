"""Compiled programs on disk: what is saved, what opens, and what is refused and why."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from forked_tool import ForkedCommands
from xdsl.passes import ModulePass

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.variables import read_variables
from penstock.runtime.program.executable import image_from_json
from penstock.tools.cli.run import run_tool
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.program_export import image_of
from penstock.tools.session.saved_plan import plan as plans
from penstock.tools.session.saved_plan.archive import MANIFEST
from penstock.tools.session.session import Model, Session, program_of

Members: TypeAlias = dict[str, bytes]
Edit: TypeAlias = Callable[[Members], None]


def session_of(text: str, *, simulate_ranks: bool = False) -> Session:
    compiler, passes = installed_compiler()
    module = compiler.parse(text.encode(), "net.mlir")
    compiler.verify(module)
    front = compiler, passes
    model = Model(module, {}, Path())
    return Session(model, simulate_ranks=simulate_ranks, compiler=front)


def inputs(seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {"x": random.standard_normal((4, 8)).astype(np.float32)}


def floats(array: Array) -> npt.NDArray[np.float64]:
    return array.astype(np.float64)


def negated(array: Array) -> Array:
    return (-floats(array)).astype(array.dtype)


def expected_of_net(
    given: Mapping[str, Array], state: Mapping[str, Array], outputs: Mapping[str, Array]
) -> None:
    """Compare outputs with what the job means in NumPy."""
    sums = floats(given["x"]) @ floats(state["w"]) + floats(state["b/../b"])
    scale = np.array([1.0, 2.0, -3.0])
    np.testing.assert_allclose(floats(outputs["y"]), sums * scale, 1e-4, 1e-5)


def same(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    """Whether arrays have the same names, shapes, dtypes and bits."""
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape)
        and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


# Round trips -------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_opened_plan_has_the_results_of_the_session_that_saved_it(
    piece: dict[str, Array],
    threads: int,
    engine: str,
    saved: tuple[Path, dict[str, Array]],
):
    path, expected = saved
    with Session.open(path, threads=threads, engine=engine) as session:
        outputs = session.run(piece)
        state = session.state()
    assert same(outputs, expected)
    expected_of_net(piece, state, outputs)


def test_no_pass_runs_on_a_machine_that_sees_a_plan_for_the_first_time(
    piece: dict[str, Array],
    saved: tuple[Path, dict[str, Array]],
    empty_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(*_: object) -> None:
        raise AssertionError("a pass was looked up or run")

    for sub in ModulePass.__subclasses__():
        monkeypatch.setattr(sub, "apply", refuse)
    monkeypatch.setattr("penstock.tools.driver.pass_pipeline.parse_passes", refuse)
    monkeypatch.setattr("penstock.tools.driver.compiler.parse_passes", refuse)
    with Session.open(saved[0]) as session:
        assert same(session.run(piece), saved[1])
    assert len(list(empty_cache.rglob("plan.zip"))) == 1


def test_names_of_other_scripts_open_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = """
        job.job @"ĝuste" placement <cpu, [0:0]> {
          %x = job.input "είσοδος" : tensor<4x8xf32>
          %w = job.variable "重み" init <zeros> : tensor<8xf32>
          %y = op.add %x, %w : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
          job.output "🚀", %y : tensor<4x8xf32>
        }
    """
    path, x = tmp_path / "שלום.penstock", inputs(1)["x"]
    with session_of(text) as session:
        session.save(path)

    def unknown(_: str) -> None:
        """Nothing is kept of any plan."""

    monkeypatch.setattr(plans, "kept", unknown)
    with Session.open(path) as session:
        np.testing.assert_array_equal(session.run({"είσοδος": x})["🚀"], x)


FRESH = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.session.session import Session
x = np.load(sys.argv[2])["x"]
with Session.open(sys.argv[1]) as session:
    y = session.run({"x": x})["y"]
    assert session.report.tasks > 0
names = "numba", "xdsl", "penstock.lowering", "penstock.dialects"
print([name for name in names if name in sys.modules], y.tobytes().hex())
"""


def test_a_plan_that_was_seen_before_needs_no_compiler_at_all(
    piece: dict[str, Array], saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    path, expected = saved
    np.savez(tmp_path / "in.npz", x=piece["x"])
    command = [sys.executable, "-c", FRESH, str(path), str(tmp_path / "in.npz")]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        for _ in range(2)
    ]
    assert runs[1].stdout == f"[] {expected['y'].tobytes().hex()}\n"


COMMAND = """
import sys
from penstock.tools.cli.run import run_tool
assert run_tool([sys.argv[1], "--inputs", sys.argv[2]]) == 0
print([name for name in ("numba", "xdsl", "penstock.lowering") if name in sys.modules])
"""


def test_the_command_needs_no_compiler_either(
    piece: dict[str, Array], saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    Session.open(saved[0]).close()
    np.savez(tmp_path / "in.npz", x=piece["x"])
    command = [sys.executable, "-c", COMMAND, str(saved[0]), str(tmp_path / "in.npz")]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=300
    )
    assert run.stdout.splitlines()[-1] == "[]"


ON_CUDA = """
import sys
import numpy as np
from pathlib import Path
from penstock.tools.session.session import Session
path, job = Path(sys.argv[1]), Path(sys.argv[2])
x = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)}
if not path.exists():
    with Session.open(job, device="cuda") as session:
        session.save(path)
with Session.open(path, device="cuda") as session:
    print(session.run(x)["y"].tobytes().hex(), session.state()["w"].shape)
"""


@pytest.mark.slow
def test_plans_for_cuda(job: str, tmp_path: Path, forked_cuda: ForkedCommands) -> None:
    (tmp_path / "net.mlir").write_text(job)
    arguments = [str(tmp_path / "net.penstock"), str(tmp_path / "net.mlir")]
    words = ["python", "-c", ON_CUDA, *arguments]
    runs = [forked_cuda.outcome(words, tmp_path) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs
    data, _, shape = runs[0].stdout.strip().partition(" ")
    assert (runs[0].stdout, shape) == (runs[1].stdout, "(8, 3)")
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    with session_of(job) as session:
        expected_of_net(
            {"x": x},
            session.state(),
            {"y": np.frombuffer(bytes.fromhex(data), np.float32).reshape(4, 3)},
        )


EVERYTHING = """
launch.program @all rank 0 {
  launch.chunk @c on <0, host> size 512
  launch.chunk @d on <0, device cuda:0> size 512
  launch.variable @w port "weights" in @c at 64 init <ones>
    part [2, 0] of [4, 8] : memref<2x8xf32>
  launch.variable @t in @c at 0 value dense<[1, 2]> : tensor<2xi64> : memref<2xi64>
  launch.variable @z in @c at 256 init <zeros> : memref<i1>
  launch.register @x in @c at 128 slots 2 : memref<4xf32>
  launch.register @far in @d at 0 slots 1 : memref<4xf32>
  launch.control @turn slots 3 initial 2
  launch.kernel @k target "cpu" (%x: memref<4xf32>) {
    %no = arith.constant false
    cf.assert %no, "never"
  }
  launch.actor @a on <0, cpu:0> stream 1 can_fail reads [@turn] writes [@x] {
    launch.feed "x" to @x
    launch.call @k [@x]
  }
  launch.actor @b on <0, cuda:0> stream 2 reads [@x] writes [@far, @turn] {
    launch.copy @x to @far
  }
  launch.actor @f on <0, cpu:0> stream 0 reads [@x] writes [] {
    launch.fetch "y" from @x
  }
}
"""


def test_image_says_all_that_the_loader_needs_and_survives_as_json():
    compiler, _ = installed_compiler()
    module = compiler.parse(EVERYTHING.encode(), "all.mlir")
    compiler.verify(module)
    image = image_of(program_of(Model(module, {}, Path())))
    assert image_from_json(image.to_json()) == image
    assert [(x.port, x.place, x.whole) for x in image.variables] == [
        ("weights", (slice(2, 4), slice(0, 8)), (4, 8)),
        (None, (slice(0, 2),), (2,)),
        ("z", (), ()),
    ]
    x, far, turn = image.queues
    assert (x.stride, x.slots, x.kind and x.kind.size) == (64, 2, 16)
    assert (far.chunk, far.stride) == ("d", 512)
    assert (turn.chunk, turn.slots, turn.initial, turn.kind) == (None, 3, 2, None)
    assert [memory.device for memory in image.chunks] == ["cpu", "cuda"]
    assert image.kernels[0].messages == ("never",)
    assert [step.verb for actor in image.actors for step in actor.steps] == [
        *("feed", "call", "copy", "fetch")
    ]


def test_one_program_and_state_give_the_same_bytes(
    job: str, saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    path, _ = saved
    with session_of(job) as session:
        session.save(tmp_path / "again.penstock")
    with Session.open(path) as session:
        session.save(tmp_path / "opened.penstock")
        assert session.program.sym_name.data == "net"
    assert (tmp_path / "again.penstock").read_bytes() == path.read_bytes()
    assert (tmp_path / "opened.penstock").read_bytes() == path.read_bytes()
    assert [p.name for p in sorted(tmp_path.iterdir())] == [
        "again.penstock",
        "opened.penstock",
    ]


def test_numpy_and_zip_tools_read_what_is_in_a_plan(
    saved: tuple[Path, dict[str, Array]],
):
    path, _ = saved
    with Session.open(path) as session:
        state = session.state()
    with np.load(path, allow_pickle=False) as arrays:
        assert same(
            {name: arrays[f"weights/{i}"] for i, name in enumerate(state)}, state
        )
    with zipfile.ZipFile(path) as archive:
        facts = json.loads(archive.read(MANIFEST))
        offsets = [info.header_offset for info in archive.infolist()]
        assert archive.testzip() is None
        names = archive.namelist()
        infos = archive.infolist()
    data = path.read_bytes()
    for info, offset in zip(infos, offsets, strict=True):
        sizes = (
            int.from_bytes(data[offset + 26 : offset + 28], "little"),
            (int.from_bytes(data[offset + 28 : offset + 30], "little")),
        )
        assert (offset + 30 + sum(sizes)) % 64 == 0, info.filename
    assert names == [MANIFEST, "program.mlir", "kernels.py", *facts["weights"].values()]
    assert facts["inputs"] == [{"name": "x", "shape": [4, 8], "dtype": "float32"}]
    assert facts["outputs"] == [{"name": "y", "shape": [4, 3], "dtype": "float32"}]


TYPES = """
job.job @types placement <cpu, [0:0]> {
  %a = job.variable "a" init <constant, value = 5> : tensor<i64>
  %b = job.variable "b" init <ones> : tensor<3xi1>
  %c = job.variable "c" init <normal, seed = 1> : tensor<2x0xf64>
  %d = job.variable "d" init <normal, seed = 1> : tensor<5xf16>
  job.output "a", %a : tensor<i64>
  job.output "b", %b : tensor<3xi1>
  job.output "c", %c : tensor<2x0xf64>
  job.output "d", %d : tensor<5xf16>
}
"""


def test_arrays_of_all_kinds_and_ranks_come_back(tmp_path: Path):
    with session_of(TYPES) as session:
        state, outputs = session.state(), session.run({})
        session.save(tmp_path / "types.penstock")
    assert state["a"].shape == ()
    with Session.open(tmp_path / "types.penstock") as session:
        assert same(session.state(), state)
        assert same(session.run({}), outputs)
    assert same(state, outputs)


# State -------------------------------------------------------------------------------


def test_state_that_is_loaded_is_what_runs_use_and_what_is_saved(
    saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    random = np.random.default_rng(7)
    with Session.open(saved[0]) as session:
        state = {
            name: random.standard_normal(array.shape).astype(array.dtype)
            for name, array in session.state().items()
        }
        session.load_state(state)
        assert same(session.state(), state)
        outputs = session.run(inputs(2))
        session.save(tmp_path / "changed.penstock")
    expected_of_net(inputs(2), state, outputs)
    with Session.open(tmp_path / "changed.penstock") as session:
        assert same(session.run(inputs(2)), outputs)


PARTS = """
job.job @parts placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x8xf32>
  %w = job.variable "w" init <normal, seed = 3> {sbp = #job.sbp<S(1)>} : tensor<8x3xf32>
  %m = op.matmul %x, %w : tensor<4x8xf32>, tensor<8x3xf32> -> tensor<4x3xf32>
  job.output "y", %m : tensor<4x3xf32>
}
"""


def test_parts_of_variables_are_one_array_in_the_state(
    piece: dict[str, Array], tmp_path: Path
):
    with session_of(PARTS, simulate_ranks=True) as session:
        parts = session.executor.program.variables
        assert [part.kind.shape for part in parts] == [(8, 2), (8, 1)]
        whole = session.state()["w"]
        outputs = session.run(piece)
        session.save(tmp_path / "parts.penstock")
    expected = floats(piece["x"]) @ floats(whole)
    np.testing.assert_allclose(floats(outputs["y"]), expected, 1e-4, 1e-5)
    with Session.open(tmp_path / "parts.penstock") as session:
        assert same(session.run(piece), outputs)
        other = negated(whole)
        session.load_state({"w": other})
        assert same(session.state(), {"w": other})
        assert same(session.run(piece), {"y": negated(outputs["y"])})


def test_variable_of_which_this_process_has_only_parts(
    saved: tuple[Path, dict[str, Array]],
):
    with Session.open(saved[0]) as session:
        loaded = session.executor.program
        cut = [x._replace(whole=(9, 3)) for x in loaded.variables if x.port == "w"]
        with pytest.raises(PenstockError) as caught:
            read_variables(replace(loaded, variables=tuple(cut)))
    assert str(caught.value) == (
        "variable 'w' lies in several processes, this one has 24 of its 27 elements"
    )


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"w": np.zeros((8, 2), np.float32), "u": np.zeros(1)},
            "3 things are wrong with the state:\n"
            "  the state lacks variables b/../b\n"
            "  the program has no variables u\n"
            "  variable 'w' has shape (8, 3), got an array of shape (8, 2)",
        ),
    ],
)
def test_state_that_does_not_fit_changes_nothing(
    state: dict[str, Array], message: str, saved: tuple[Path, dict[str, Array]]
):
    with Session.open(saved[0]) as session:
        before = session.state()
        with pytest.raises(PenstockError) as caught:
            session.load_state(state)
        assert str(caught.value) == message
        assert same(session.state(), before)


def test_closed_session_has_no_state(saved: tuple[Path, dict[str, Array]]):
    session = Session.open(saved[0])
    session.close()
    with pytest.raises(PenstockError, match=r"^the executor is closed$"):
        session.state()


# The command -------------------------------------------------------------------------


def test_command_saves_and_runs_plans(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "net.mlir").write_text(job)
    np.savez(tmp_path / "in.npz", x=inputs(3)["x"])
    plan, out = str(tmp_path / "net.penstock"), str(tmp_path / "out.npz")
    feed = ["--inputs", str(tmp_path / "in.npz")]
    first = [str(tmp_path / "net.mlir"), *feed, "--save-plan", plan, "--outputs", out]
    assert run_tool(first) == 0
    assert f"wrote {plan}\n" in capsys.readouterr().out
    assert run_tool([plan, *feed, "--check", out, "--tolerance", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("net: ")
    assert " ops" not in lines[0]
    assert lines[2].startswith("load ")
    assert lines[3] == f"check against {out}: y differs by 0.00e+00"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "numpy"], "a saved plan cannot be checked against numpy"),
        (
            ["--check", "onnxruntime"],
            "a saved plan cannot be checked against onnxruntime",
        ),
        (["--simulate-ranks"], "--simulate-ranks is for what is compiled"),
        (["--random-weights", "1"], "--random-weights is for ONNX models"),
        (["--extra-output", "y"], "--extra-output is for ONNX models"),
    ],
)
def test_command_refuses_what_plans_cannot(
    arguments: list[str],
    message: str,
    saved: tuple[Path, dict[str, Array]],
    capsys: pytest.CaptureFixture[str],
):
    assert run_tool([str(saved[0]), "--random-inputs", "1", *arguments]) == 2
    assert capsys.readouterr().err == f"penstock-run: error: {message}\n"


def test_plans_are_known_by_name_or_by_how_they_begin(
    job: str, saved: tuple[Path, dict[str, Array]], tmp_path: Path
):
    (tmp_path / "plan").write_bytes(saved[0].read_bytes())
    (tmp_path / "model.mlir").write_text(job)
    assert plans.is_plan(tmp_path / "plan")
    assert plans.is_plan(tmp_path / "none.penstock")
    assert not plans.is_plan(tmp_path / "model.mlir")
    assert not plans.is_plan(tmp_path / "none")
