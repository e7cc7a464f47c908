"""Checkpoints: what is saved comes back, and a kill at any moment loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.runtime.loading.initializers import Array
from penstock.tools.data import Loader, arrays
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session import checkpoint
from penstock.tools.session.checkpoint import (
    MANIFEST,
    Checkpoint,
    CheckpointError,
    Checkpoints,
)
from penstock.tools.session.program_export import ExportedProgram
from penstock.tools.session.saved_plan.derived import derive
from penstock.tools.session.saved_plan.plan import Plan
from penstock.tools.session.session import Model, Session, program_of

COUNTER = """
launch.program @counter rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : memref<4xf32>
  launch.register @x in @c at 64 slots 1 : memref<4xf32>
  launch.register @y in @c at 128 slots 1 : memref<4xf32>
  launch.kernel @update target "cpu"
    (%x: memref<4xf32>, %w: memref<4xf32>, %y: memref<4xf32>) {
    linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]
    } ins(%x : memref<4xf32>) outs(%w : memref<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %k = arith.constant 0.9 : f32
      %d = arith.mulf %b, %k : f32
      %c = arith.addf %a, %d : f32
      linalg.yield %c : f32
    }
    "memref.copy"(%w, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  }
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @update0 on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @update [@x, @w, @y]
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}
"""
"""Every run changes the variable: `w = 0.9 w + x`. No pass makes such programs yet."""


def counter() -> Session:
    """A session whose runs change its state."""
    compiler, _ = installed_compiler()
    module = compiler.parse(COUNTER.encode(), "counter.mlir")
    compiler.verify(module)
    executable = ExportedProgram(program_of(Model(module, {}, Path())))
    derived = derive(executable)
    weights = {"w": np.ones(4, np.float32)}
    return Session.of(Plan(executable.text, derived, weights))


def piece(step: int) -> dict[str, Array]:
    random = np.random.default_rng(step)
    return {"x": random.standard_normal(4).astype(np.float32)}


def state_of(seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        "w": random.standard_normal((3, 4)).astype(np.float32),
        "a/../b": random.integers(0, 9, 5),
        "half": random.standard_normal(3).astype(np.float16),
        "mask": random.standard_normal(7) > 0,
        "scalar": np.array(random.standard_normal()),
        "none": np.zeros((0, 2)),
    }


def same(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    """Whether arrays have the same names, shapes, dtypes and bits."""
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape) == (b[name].dtype, b[name].shape)
        and a[name].tobytes() == b[name].tobytes()
        for name in a
    )


def without_safetensors(name: str) -> object:
    return None if name == "safetensors" else find_spec(name)


# Saving and reading ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_arrays_and_notes_come_back(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if kind == "npz":
        monkeypatch.setattr(checkpoint, "find_spec", without_safetensors)
    checkpoints = Checkpoints(tmp_path / "new" / "folder")
    assert checkpoints.latest() is None
    saved = checkpoints.save(state_of(1), 12, {"epoch": 3, "position": [1, 2]})
    found = checkpoints.latest()
    assert found is not None
    assert found == saved == Checkpoint(tmp_path / "new/folder/step-0000000012", 12)
    assert same(found.state(), state_of(1))
    assert found.note() == {"epoch": 3, "position": [1, 2]}
    names = sorted(path.name for path in found.path.iterdir())
    assert names == [MANIFEST, f"state.{kind}"]


def test_resumed_run_has_the_bits_of_one_that_did_not_stop(tmp_path: Path):
    with counter() as session:
        outputs = [session.run(piece(step))["y"] for step in range(9)]
        state = session.state()
    w = np.ones(4)
    for step in range(9):
        w = piece(step)["x"].astype(np.float64) + 0.9 * w
        np.testing.assert_allclose(outputs[step].astype(np.float64), w, 1e-4, 1e-6)

    checkpoints = Checkpoints(tmp_path)
    with counter() as session:
        for step in range(4):
            session.run(piece(step))
        checkpoints.save(session.state(), 4)
    with counter() as session:
        last = checkpoints.latest()
        assert last is not None
        session.load_state(last.state())
        again = [session.run(piece(step))["y"] for step in range(last.step, 9)]
        assert [y.tobytes() for y in again] == [y.tobytes() for y in outputs[4:]]
        assert same(session.state(), state)


@pytest.mark.parametrize(
    ("keep", "left"), [(1, [5]), (2, [3, 5]), (9, [0, 1, 3, 5]), (None, [0, 1, 3, 5])]
)
def test_the_last_ones_are_kept(keep: int | None, left: list[int], tmp_path: Path):
    checkpoints = Checkpoints(tmp_path, keep)
    for step in (0, 1, 3, 5):
        checkpoints.save(state_of(step), step)
    assert [found.step for found in checkpoints.all()] == left
    assert all(same(found.state(), state_of(found.step)) for found in checkpoints.all())
    assert len(list(tmp_path.iterdir())) == len(left)


def test_what_is_no_checkpoint_is_left_alone(tmp_path: Path):
    for name in ("step-1", "other", ".step-0000000009.tmp"):
        (tmp_path / name).mkdir()
    checkpoints = Checkpoints(tmp_path, 1)
    assert checkpoints.all() == []
    checkpoints.save(state_of(1), 1)
    checkpoints.save(state_of(2), 2)
    names = sorted(path.name for path in tmp_path.iterdir())
    # The draft is that of a process that was killed.
    assert names == ["other", "step-0000000002", "step-1"]


# Refusals ----------------------------------------------------------------------------


def refusal(folder: Path, state: Mapping[str, Array], step: int, note: Any = None):
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(folder).save(state, step, note)
    return str(caught.value)


def test_steps_only_grow(tmp_path: Path):
    Checkpoints(tmp_path).save(state_of(1), 7)
    for step in (7, 3):
        assert refusal(tmp_path, state_of(2), step) == (
            f"{tmp_path}/step-0000000007 is of step 7, so there can be none of step "
            f"{step} after it in this folder"
        )
    assert refusal(tmp_path, {}, -1) == "the step must not be negative, got -1"


def test_what_cannot_be_written_leaves_the_others(tmp_path: Path):
    first = Checkpoints(tmp_path).save(state_of(1), 1)
    message = refusal(tmp_path, state_of(2), 2, {"when": object()})
    assert (
        message == "the note is no JSON: Object of type object is not JSON serializable"
    )
    assert list(tmp_path.iterdir()) == [first.path]
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file" / "x", {}, 1) == (
        f"cannot write {tmp_path}/file/x/step-0000000001: not a directory"
    )


def test_at_least_one_is_kept(tmp_path: Path):
    with pytest.raises(CheckpointError) as caught:
        Checkpoints(tmp_path, 0)
    assert str(caught.value) == "at least one checkpoint must be kept, got 0"


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "cannot be read: no such file or directory"),
        (b"{", "has a manifest that is no JSON: Expecting property name"),
        (b"[]", "is no penstock checkpoint"),
        (b'{"format": "cake"}', "is no penstock checkpoint"),
        (
            b'{"format": "penstock checkpoint", "version": 8}',
            "has version 8 of the format, but this penstock reads versions 1 and 2",
        ),
        (
            b'{"format": "penstock checkpoint", "version": 1, "arrays": "npz"}',
            "lacks state.npz: no such file or directory",
        ),
    ],
)
def test_manifests_that_cannot_be(manifest: bytes | None, message: str, tmp_path: Path):
    if manifest is not None:
        (tmp_path / MANIFEST).write_bytes(manifest)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(tmp_path, 1).state()
    assert str(caught.value).startswith(f"checkpoint {tmp_path} {message}")


def test_manifest_without_a_note(tmp_path: Path):
    text = b'{"format": "penstock checkpoint", "version": 1}'
    (tmp_path / MANIFEST).write_bytes(text)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint(tmp_path, 1).note()
    assert str(caught.value) == f"checkpoint {tmp_path} has no note in its manifest"


def test_the_place_in_the_data_and_seeds_are_kept_beside_the_variables(
    tmp_path: Path,
) -> None:
    """Training that is killed after any checkpoint goes on bit by bit the same."""

    def loader() -> Loader:
        source = arrays(x=np.arange(40, dtype=np.float32).reshape(10, 4))
        return Loader(source, 1, shuffle=True, seed=5, prefetch=2)

    def train(session: Session, loader: Loader, save: Callable[[], object]) -> Array:
        for batch in loader.epochs(2):
            session.run({"x": batch["x"][0]})
            save()
        return session.state()["w"]

    seeds = {"dropout": 7, "data": 5}
    with counter() as session, loader() as data:
        checkpoints = Checkpoints(tmp_path, keep=None)
        steps = iter(range(99))
        expected = train(
            session,
            data,
            lambda: checkpoints.save(
                session.state(), next(steps), data=data.state(), seeds=seeds
            ),
        )
    for saved in (x for x in checkpoints.all() if x.step in (0, 9, 13, 19)):
        assert saved.seeds() == seeds
        with counter() as session, loader() as data:
            session.load_state(saved.state())
            data.restore(saved.data())
            np.testing.assert_array_equal(train(session, data, lambda: None), expected)


def test_a_checkpoint_without_data_says_so(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    saved = checkpoints.save({"w": np.ones(3)}, 1)
    for name, ask in (("data", saved.data), ("seeds", saved.seeds)):
        with pytest.raises(CheckpointError) as caught:
            ask()
        expected = f"checkpoint {saved.path} has no {name} in its manifest"
        assert str(caught.value) == expected
    with pytest.raises(CheckpointError) as caught:
        checkpoints.save({}, 2, data={"x": np.ones(1)})
    assert str(caught.value) == (
        "the data is no JSON: Object of type ndarray is not JSON serializable"
    )
    assert checkpoints.latest() == saved


def test_damaged_arrays(tmp_path: Path):
    saved = Checkpoints(tmp_path).save(state_of(1), 1)
    (path,) = saved.path.glob("state.*")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        saved.state()
    assert str(caught.value) == (
        f"checkpoint {saved.path} is damaged: the checksum of {path.name} is not that "
        "of its manifest"
    )


def test_safetensors_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkpoint, "find_spec", without_safetensors)
    saved = Checkpoints(tmp_path).save({}, 1)
    facts = json.loads((saved.path / MANIFEST).read_bytes())
    (saved.path / "state.safetensors").write_bytes(b"x")
    facts |= {"arrays": "safetensors", "sha256": sha256(b"x").hexdigest()}
    (saved.path / MANIFEST).write_text(json.dumps(facts))
    with pytest.raises(CheckpointError) as caught:
        saved.state()
    assert str(caught.value) == (
        f"checkpoint {saved.path} holds state.safetensors: reading it needs a "
        "package: pip install safetensors"
    )


# Kills -------------------------------------------------------------------------------

SAVING = """
import os, signal, sys
import numpy as np
from penstock.tools.session.checkpoint import Checkpoints

folder, kill_at = sys.argv[1], int(sys.argv[2])
checkpoints = Checkpoints(folder, keep=2)
for step in (1, 2):
    checkpoints.save({"w": np.full(1000, step, np.float64)}, step)
count = 0


def audit(event, arguments):
    global count
    watched = "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"
    if event in watched and folder in str(arguments[0]):
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(audit)
checkpoints.save({"w": np.full(1000, 3, np.float64)}, 3)
print(count, flush=True)
"""


def start(folder: Path, kill_at: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SAVING, str(folder), str(kill_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_what_is_left(folder: Path) -> int:
    """The step of the last checkpoint, which like all others is whole."""
    for found in Checkpoints(folder).all():
        expected = {"w": np.full(1000, found.step, np.float64)}
        assert same(found.state(), expected)
    last = Checkpoints(folder).latest()
    assert last is not None
    # Work goes on.
    Checkpoints(folder, keep=1).save({"w": np.zeros(2)}, 9)
    assert [path.name for path in folder.iterdir()] == ["step-0000000009"]
    return last.step


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_kill_at_each_change_of_the_folder_leaves_the_last_checkpoint(tmp_path: Path):
    whole = start(tmp_path / "whole", 0)
    events = int(whole.communicate(timeout=300)[0])
    assert events >= 6
    steps: list[int] = []
    for kill_at in range(1, events + 1):
        folder = tmp_path / str(kill_at)
        child = start(folder, kill_at)
        child.communicate(timeout=300)
        assert child.returncode == -signal.SIGKILL
        steps.append(check_what_is_left(folder))
    assert steps == sorted(steps)
    assert set(steps) == {2, 3}


ENDLESS = """
import sys
import numpy as np
from penstock.tools.session.checkpoint import Checkpoints

checkpoints = Checkpoints(sys.argv[1], keep=2)
for step in range(10**9):
    checkpoints.save({"w": np.full(1000, step, np.float64)}, step)
    if step == 2:
        print("ready", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_kill_at_any_time_leaves_the_last_checkpoint(tmp_path: Path):
    random = np.random.default_rng(5)
    for turn in range(4):
        folder = tmp_path / str(turn)
        command = [sys.executable, "-c", ENDLESS, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(float(random.uniform(0, 0.05)))
            os.kill(child.pid, signal.SIGKILL)
        found = Checkpoints(folder).all()
        assert len(found) >= 2
        for one in found:
            assert same(one.state(), {"w": np.full(1000, one.step, np.float64)})
