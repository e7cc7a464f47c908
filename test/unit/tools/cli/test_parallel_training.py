"""The ways to train on several ranks of `examples/ranks`, each in real processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from forked_tool import ForkedCommands
from numpy.typing import NDArray

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.arrays import write_arrays
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session, read_model

EXAMPLES = Path(__file__).parents[4] / "examples" / "ranks"
NAMES = ("data_parallel", "tensor_parallel", "mesh", "pipeline", "zero")
STEPS = 3
MOMENTUM = ("w1/momentum/buffer", "w2/momentum/buffer")

RUN = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.driver.pipeline_edits import edit_of
from penstock.tools.session.session import Session

folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
for path in sorted(folder.glob("*.mlir")):
    with np.load(path.with_suffix(".npz")) as file:
        inputs = dict(file)
    # A digit in a name is the stage of ZeRO.
    texts = [f"job-shard-states.stage={x}" for x in path.stem if x.isdigit()]
    edits = [edit_of("set", text) for text in ("job-shard-states.least=16", *texts)]
    with Session.open(path, ranks=ranks, edits=tuple(edits)) as session:
        found = []
        for _ in range(int(sys.argv[3])):
            fed = {name: inputs[name] for name in session.inputs()}
            found.append(session.ranks.union(session.run(fed))["loss"])
        parts = {x.name: x.array for x in session.state_parts().parts}
        if session.ranks.is_first:
            np.save(path.with_suffix(".npy"), found)
            np.savez(path.with_suffix(".parts"), **parts)
"""
"""A program that each rank runs: a few steps of all models in a folder."""

GO_ON = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.session.arrays import write_arrays
from penstock.tools.session.checkpoint import Checkpoint, Checkpoints
from penstock.tools.session.session import Session

folder = Path(sys.argv[1])
with np.load(folder / "zero.npz") as file:
    inputs = dict(file)

with Session.open(folder / "zero.mlir", ranks=2) as session:
    fed = {name: inputs[name] for name in session.inputs()}
    steps = lambda: [session.ranks.union(session.run(fed))["loss"] for _ in range(2)]
    steps()
    saved = Checkpoints(folder / "ranks").save(session.state_parts(), 2)
    expected = session.state()
    rest = steps()
    session.load_state(saved.state())
    again = steps()
    session.load_state(Checkpoint(folder / "one" / "step-0000000001", 1).state())
    of_one = session.state()
    if session.ranks.is_first:
        np.savez(folder / "expected.npz", **expected)
        np.savez(folder / "of_one.npz", **of_one)
        np.savez(folder / "losses.npz", rest=rest, again=again)
"""
"""A program that each rank runs: it saves its state, and loads that and another one."""

SAVE = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.session import Session

folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
with np.load(folder / "zero.npz") as file:
    inputs = dict(file)
saved = Checkpoints(folder / "four").latest()
with Session.open(folder / f"zero_{ranks}.mlir", ranks=ranks) as session:
    fed = {name: inputs[name] for name in session.inputs()}
    steps = lambda: [session.ranks.union(session.run(fed))["loss"] for _ in range(2)]
    if saved is None:
        steps()
        Checkpoints(folder / "four").save(session.state_parts(), 2)
    else:
        session.load_state(saved.state())
    state, rest = session.state(), steps()
    if session.ranks.is_first:
        np.savez(folder / f"state_{ranks}.npz", **state)
        np.save(folder / f"rest_{ranks}.npy", rest)
"""
"""A program that each rank runs: it saves a state, or loads it if there is one."""

START = """
import sys
from penstock.tools.cli.start_ranks import start_ranks
sys.exit(start_ranks("train_on_ranks", sys.argv[1:], int(sys.argv[2])))
"""


def devices(count: int) -> str:
    return f"[{', '.join(f'{rank}:0' for rank in range(count))}]"


def placed(name: str, ranks: int) -> str:
    """The text of an example for so many ranks."""
    text = (EXAMPLES / f"{name}.mlir").read_text()
    match name:
        case "pipeline":
            for stage in range(1, 4):
                rank = stage * ranks // 4
                text = text.replace(f"<cpu, [{stage}:0]>", f"<cpu, [{rank}:0]>")
        case "mesh":
            shape = [ranks // 2, 2] if ranks > 1 else [1, 1]
            old = f"{devices(4)}, hierarchy = [2, 2]"
            assert old in text
            text = text.replace(old, f"{devices(ranks)}, hierarchy = {shape}")
        case _:
            assert devices(2) in text
            text = text.replace(devices(2), devices(ranks))
    return text


def inputs_of(session: Session) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(5)
    return {
        name: random.uniform(-1, 1, port.shape).astype(np.float32)
        for name, port in session.inputs().items()
    }


def run_on_ranks(
    folder: Path, program: str, ranks: int, forked: ForkedCommands
) -> None:
    """Run a program in a folder on so many ranks."""
    (folder / "train_on_ranks.py").write_text(program)
    (folder / "start.py").write_text(START)
    words = "python", "start.py", str(folder), str(ranks), str(STEPS)
    output = folder / "output"
    assert forked.run(words, folder, os.environ, output) == 0, output.read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The losses and the inputs of each example on one device."""
    folder = tmp_path_factory.mktemp("one")
    for name in NAMES:
        path = folder / f"{name}.mlir"
        path.write_text(placed(name, 1))
        with Session.open(path) as session:
            inputs = inputs_of(session)
            losses = [session.run(inputs)["loss"] for _ in range(STEPS)]
        write_arrays(path.with_suffix(".npz"), inputs)
        np.save(path.with_suffix(".npy"), losses)
    return folder


def check_losses(
    folder: Path,
    tmp_path: Path,
    ranks: int,
    names: Mapping[str, str],
    forked: ForkedCommands,
) -> None:
    """Train jobs on ranks, and compare their losses with examples on one device."""
    for name, like in names.items():
        (tmp_path / f"{name}.mlir").write_text(placed(like, ranks))
        (tmp_path / f"{name}.npz").write_bytes((folder / f"{like}.npz").read_bytes())
    run_on_ranks(tmp_path, RUN, ranks, forked)
    for name, like in names.items():
        got, wanted = np.load(tmp_path / f"{name}.npy"), np.load(folder / f"{like}.npy")
        assert wanted[0] > wanted[1] > wanted[2]
        # Of f32, whose sums are made in another order.
        np.testing.assert_allclose(got, wanted, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "names"), [(2, NAMES), (4, [x for x in NAMES if x != "zero"])]
)
def test_training_on_ranks_equals_that_on_one_device(
    folder: Path,
    tmp_path: Path,
    ranks: int,
    names: Sequence[str],
    forked: ForkedCommands,
) -> None:
    check_losses(folder, tmp_path, ranks, {name: name for name in names}, forked)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_each_stage_of_zero_on_ranks_equals_one_device(
    folder: Path, tmp_path: Path, ranks: int, forked: ForkedCommands
) -> None:
    names = {stage: f"data_parallel_{stage}" for stage in (1, 2, 3)}
    examples = dict.fromkeys(names.values(), "data_parallel")
    check_losses(folder, tmp_path, ranks, examples, forked)
    for stage, name in names.items():
        with np.load(tmp_path / f"{name}.parts.npz") as file:
            assert file[MOMENTUM[0]].size == 32 * 64 // ranks
            assert file["w1"].size == 32 * 64 // (ranks if stage == 3 else 1)


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_on_any_number_of_ranks(
    folder: Path, tmp_path: Path, forked: ForkedCommands
) -> None:
    (tmp_path / "zero.mlir").write_text(placed("zero", 2))
    (tmp_path / "zero.npz").write_bytes((folder / "zero.npz").read_bytes())
    with Session.open(folder / "zero.mlir") as session:
        inputs = inputs_of(session)
        session.run(inputs)
        of_one = Checkpoints(tmp_path / "one").save(session.state_parts(), 1)
        run_on_ranks(tmp_path, GO_ON, 2, forked)
        saved = Checkpoints(tmp_path / "ranks").latest()
        assert saved is not None
        session.load_state(saved.state())
        loaded = session.state()
        losses = [float(session.run(inputs)["loss"]) for _ in range(2)]
    with np.load(tmp_path / "losses.npz") as file:
        np.testing.assert_array_equal(file["again"], file["rest"])
        np.testing.assert_allclose(losses, file["rest"], rtol=1e-5)
    for name, state in (("expected", loaded), ("of_one", of_one.state())):
        with np.load(tmp_path / f"{name}.npz") as file:
            assert {*file} == {*state} == {"w1", "w2", *MOMENTUM}
            for variable, array in state.items():
                np.testing.assert_array_equal(file[variable], array)


@pytest.mark.slow
def test_two_ranks_go_on_from_a_checkpoint_of_four(
    folder: Path, tmp_path: Path, forked: ForkedCommands
) -> None:
    (tmp_path / "zero.npz").write_bytes((folder / "zero.npz").read_bytes())
    for ranks in (4, 2):
        (tmp_path / f"zero_{ranks}.mlir").write_text(placed("zero", ranks))
        run_on_ranks(tmp_path, SAVE, ranks, forked)
    assert len([*(tmp_path / "four").glob("*/state-*")]) == 4
    with (
        np.load(tmp_path / "state_4.npz") as written,
        np.load(tmp_path / "state_2.npz") as read,
    ):
        assert {*written} == {*read} == {"w1", "w2", *MOMENTUM}
        for name in written:
            np.testing.assert_array_equal(read[name], written[name])
    rest = [np.load(tmp_path / f"rest_{ranks}.npy") for ranks in (4, 2)]
    np.testing.assert_allclose(rest[1], rest[0], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x in NAMES if x != "pipeline"])
def test_the_first_loss_is_that_of_numpy(folder: Path, name: str) -> None:
    compiler, _ = installed_compiler()
    model = read_model(compiler, EXAMPLES / f"{name}.mlir")
    with np.load(folder / f"{name}.npz") as file:
        wanted = float(evaluate_model(model, dict(file))["loss"])
    got = np.load(folder / f"{name}.npy")[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.slow
def test_a_pipeline_trains_as_its_layers_do_in_numpy(folder: Path) -> None:
    path = folder / "pipeline.mlir"
    with np.load(path.with_suffix(".npz")) as file:
        x, t = (file[name].astype(np.float64) for name in ("x", "t"))
    with Session.open(path) as session:
        weights = [session.state()[f"w{i}"].astype(np.float64) for i in range(4)]
    found: list[float] = []
    for _ in range(STEPS):
        made = [x]
        for i, w in enumerate(weights):
            made.append(made[-1] @ w if i == 3 else np.tanh(made[-1] @ w))
        # The sum of the means of four micro-batches.
        found.append(((made[-1] - t) ** 2).mean() * 4)
        gradient = 8 * (made[-1] - t) / t.size
        for i in reversed(range(4)):
            if i < 3:
                gradient = gradient * (1 - made[i + 1] ** 2)
            before = gradient @ weights[i].T
            weights[i] = weights[i] - 0.1 * made[i].T @ gradient
            gradient = before
    got = np.load(path.with_suffix(".npy"))
    np.testing.assert_allclose(got, found, rtol=1e-5)
