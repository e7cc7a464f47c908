"""State dicts and files of states: names, dtypes and bits come back as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from draws import fresh, fresh_seed
from ml_dtypes import bfloat16

import penstock
from penstock import Tensor, data
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.initializers import Array
from penstock.tools.session import session as compiled


class Torch:
    """A tensor with as much of PyTorch's interface as reading one takes."""

    def __init__(self, array: Array, steps: Sequence[str] = ()):
        self._array = array
        self.steps = steps
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype.name}"

    def _after(self, step: str) -> Torch:
        return Torch(self._array, (*self.steps, step))

    def detach(self) -> Torch:
        return self._after("detach")

    def cpu(self) -> Torch:
        return self._after("cpu")

    def float(self) -> Torch:
        return Torch(self._array.astype(np.float32), self.steps)

    def numpy(self) -> Array:
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        if tuple(self.steps) != ("detach", "cpu"):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self._array


def random_state() -> dict[str, Array]:
    random = fresh()
    return {
        "fc.weight": random.normal(size=(4, 3)).astype(np.float32),
        "fc.bias": random.normal(size=4).astype(np.float16),
        "scale": random.normal(size=()).astype(bfloat16),
        "table": random.integers(0, 1 << 16, (5, 2)).astype(np.uint16).view(bfloat16),
        "steps": np.array(1 << 40, np.int64),
        "mask": random.integers(0, 2, 7).astype(np.bool_),
    }


def equal_bits(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    def bits(state: Mapping[str, Array]) -> dict[str, object]:
        return {
            name: (array.dtype.name, array.shape, array.tobytes())
            for name, array in sorted(state.items())
        }

    return bits(one) == bits(other)


@pytest.mark.parametrize("wrap", [Torch, np.asarray])
def test_a_state_dict_comes_and_goes_bit_by_bit(
    wrap: Callable[[Array], object],
) -> None:
    theirs = random_state()
    zeros = {name: np.zeros_like(array) for name, array in theirs.items()}
    given = {name: wrap(array) for name, array in theirs.items()}
    found = penstock.from_state_dict(given, zeros)
    assert equal_bits(found, theirs)
    assert equal_bits(penstock.to_state_dict(found), theirs)


def test_names_prefix_and_transposed_weights_go_both_ways() -> None:
    theirs = {f"model.{name}": array for name, array in random_state().items()}
    theirs["model.bn.num_batches_tracked"] = np.array(3)
    ours: dict[str, Array] = {
        "w": np.zeros((3, 4), np.float32),
        "b": np.zeros(4, np.float16),
        "w/adamw/m": np.ones((3, 4), np.float32),
    }
    names = {"w": "fc.weight", "b": "fc.bias"}
    ignore = ["*/adamw/*", "*.num_batches_tracked", "*.s*", "*.table", "*.mask"]
    found = penstock.from_state_dict(
        theirs, ours, names, prefix="model.", transposed=["w"], ignore=ignore
    )
    assert list(found) == list(ours)
    np.testing.assert_array_equal(found["w"], theirs["model.fc.weight"].T)
    np.testing.assert_array_equal(found["w/adamw/m"], ours["w/adamw/m"])
    back = penstock.to_state_dict(
        found, names.__getitem__, prefix="model.", transposed=["w"], ignore=ignore
    )
    expected = {x: theirs[x] for x in ("model.fc.weight", "model.fc.bias")}
    assert equal_bits(back, expected)
    assert all(array.flags.c_contiguous for array in back.values())


OURS: dict[str, Array] = {
    "w": np.zeros((2, 3), np.float32),
    "b": np.zeros(3, np.float32),
}
SAME = {name: array.copy() for name, array in OURS.items()}
REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: penstock.from_state_dict({"w": OURS["w"], "x": 1, "y": 2}, OURS),
        "2 things are wrong with the state dict:\n"
        "  the state dict lacks b\n"
        "  no variable takes x, y",
    ),
    (
        lambda: penstock.from_state_dict(
            {"m.w": np.zeros((3, 2), np.float32), "m.b": np.zeros(3)}, OURS, prefix="m."
        ),
        "2 things are wrong with the state dict:\n"
        "  variable 'w', which 'm.w' is for, has shape (2, 3), got an array of shape "
        "(3, 2)\n"
        "  variable 'b', which 'm.b' is for, has dtype float32, got an array of dtype "
        "float64",
    ),
    (
        lambda: penstock.from_state_dict(SAME, OURS, transposed=["b"]),
        "variable 'b' of shape (3,) is no matrix to transpose",
    ),
    (
        lambda: penstock.to_state_dict(OURS, {"w": "b"}),
        "two variables are 'b' in the state dict",
    ),
    (
        lambda: penstock.to_state_dict(OURS, {"v": "b"}),
        "there are no variables v to give other names, only w, b",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSED)
def test_all_that_has_no_partner_is_told_at_once(
    use: Callable[[], object], message: str
) -> None:
    with pytest.raises(PenstockError) as caught:
        use()
    assert str(caught.value) == message


# Files -------------------------------------------------------------------------------

Pair = Annotated[Tensor, (2,), "f32"]


def momentum(gradient: Pair) -> Any:
    """A step with the state of an optimizer, under the name that it is given."""
    w = penstock.variable("w", (2,), init="ones")
    m = penstock.variable("w/momentum/m", (2,), init="zeros")
    new = np.float32(0.5) * m + gradient
    penstock.assign(m, new)
    penstock.assign(w, w - np.float32(0.25) * new)
    return new


@pytest.mark.parametrize("kind", ["npz", "safetensors", "checkpoint"])
def test_training_goes_on_from_a_file_with_the_states_of_optimizers(
    kind: str, tmp_path: Path
) -> None:
    gradients = [np.array([n, 1 / (n + 1)], np.float32) for n in range(6)]
    with penstock.Session() as session:
        job = penstock.job(momentum)
        for gradient in gradients[:3]:
            session.call(job, gradient)
        state = session.read_variables()
        assert sorted(state) == ["w", "w/momentum/m"]
        path = tmp_path / f"state.{kind}"
        if kind == "checkpoint":
            path = penstock.Checkpoints(tmp_path).save(state, 3).path
        else:
            penstock.write_state(path, state)
        for gradient in gradients[3:]:
            session.call(job, gradient)
        expected = session.read_variables()
    with penstock.Session() as session:
        job = penstock.job(momentum)
        session.write_variables(penstock.read_state(path))
        for gradient in gradients[3:]:
            session.call(job, gradient)
        assert equal_bits(session.read_variables(), expected)
        with pytest.raises(PenstockError) as caught:
            session.write_variables({**state, "w": np.ones((2, 1), np.float32)})
    place, _, message = str(caught.value).partition(": ")
    assert message == "variable 'w' has shape (2,), got an array of shape (2, 1)"
    file, line, _ = place.rsplit(":", 2)
    assert file.endswith("test_state_dict.py")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert 'penstock.variable("w"' in text


JOB = """
job.job @scale placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %w = job.variable "w" init <ones> : tensor<2xf32>
  %y = op.mul %x, %w : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
"""


@pytest.mark.parametrize("model_jobs", [False, True])
def test_a_state_of_another_shape_names_the_line_of_the_job(
    model_jobs: bool, tmp_path: Path
) -> None:
    (path := tmp_path / "scale.mlir").write_text(JOB.lstrip())
    checkpoint = penstock.Checkpoints(tmp_path).save({"w": np.ones(3, np.float32)}, 1)
    with compiled.Session.open(path, model_jobs=model_jobs) as session:
        with pytest.raises(PenstockError) as caught:
            session.load_state(checkpoint.state())
        assert str(caught.value) == (
            f"{path}:3:3: variable 'w' has shape (2,), got an array of shape (3,)"
        )


ADAMW = """
job.job @train placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %g = job.input "g" : tensor<4xf32>
  job.update %w by %g with <adamw, rate = 0.01> : tensor<4xf32>
}
"""


def test_a_run_with_adamw_goes_on_from_a_checkpoint_bit_by_bit(tmp_path: Path) -> None:
    (path := tmp_path / "train.mlir").write_text(ADAMW)
    seed = fresh_seed()
    rows = np.random.default_rng(seed).normal(size=(11, 4)).astype(np.float32)

    def loader() -> data.Loader:
        source = data.arrays(g=rows)
        return data.Loader(source, 1, shuffle=True, seed=seed, prefetch=2)

    def train(session: compiled.Session, batches: Iterable[dict[str, Array]]) -> None:
        for batch in batches:
            session.run({"g": batch["g"][0]})

    checkpoints = penstock.Checkpoints(tmp_path / "run")
    with compiled.Session.open(path) as session, loader() as batches:
        train(session, islice(batches.epochs(3), 17))
        state = session.state()
        assert sorted(state) == ["train/step", "w", "w/adamw/m", "w/adamw/v"]
        assert state["train/step"] == 17
        checkpoints.save(state, 17, data=batches.state(), seeds={"data": seed})
        train(session, batches.epochs(3))
        expected = session.state()
    last = checkpoints.latest()
    assert last is not None
    assert equal_bits(penstock.read_state(last.path), state)
    with compiled.Session.open(path) as session, loader() as batches:
        session.load_state(last.state())
        batches.restore(last.data())
        train(session, batches.epochs(3))
        assert equal_bits(session.state(), expected)
