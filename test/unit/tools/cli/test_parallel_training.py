"""The ways to train on several ranks of `examples/ranks`, each in real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session, read_model

EXAMPLES = Path(__file__).parents[4] / "examples" / "ranks"
NAMES = ("data_parallel", "tensor_parallel", "mesh", "pipeline", "zero")
STEPS = 3

RUN = """
import sys
from pathlib import Path
import numpy as np
from penstock.tools.session.session import Session

folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
for path in sorted(folder.glob("*.mlir")):
    with np.load(path.with_suffix(".npz")) as file:
        inputs = dict(file)
    with Session.open(path, ranks=ranks) as session:
        found = []
        for _ in range(int(sys.argv[3])):
            fed = {name: inputs[name] for name in session.inputs()}
            found.append(session.ranks.union(session.run(fed))["loss"])
        if session.ranks.is_first:
            np.save(path.with_suffix(".npy"), found)
"""
"""A program that each rank runs: a few steps of all models in a folder."""

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
        np.savez(path.with_suffix(".npz"), **inputs)
        np.save(path.with_suffix(".npy"), losses)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_training_on_ranks_equals_that_on_one_device(
    folder: Path, tmp_path: Path, ranks: int
) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.mlir").write_text(placed(name, ranks))
        (tmp_path / f"{name}.npz").write_bytes((folder / f"{name}.npz").read_bytes())
    (tmp_path / "train_on_ranks.py").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "-P", "-c", START, tmp_path, str(ranks), str(STEPS)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    for name in NAMES:
        got, wanted = (np.load(x / f"{name}.npy") for x in (tmp_path, folder))
        assert wanted[0] > wanted[1] > wanted[2]
        # Of f32, whose sums are made in another order.
        np.testing.assert_allclose(got, wanted, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x in NAMES if x != "pipeline"])
def test_the_first_loss_is_that_of_numpy(folder: Path, name: str) -> None:
    compiler, _ = installed_compiler()
    model = read_model(compiler, EXAMPLES / f"{name}.mlir")
    with np.load(folder / f"{name}.npz") as file:
        wanted = evaluate_model(model, dict(file))["loss"]
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
