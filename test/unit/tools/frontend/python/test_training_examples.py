"""The examples that train, as people run them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

import penstock
from penstock import Tensor

EXAMPLES = Path(__file__).parents[5] / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


@pytest.mark.slow
def test_a_convolutional_network_reads_digits() -> None:
    assert example("train_digits_cnn")["main"]() >= 0.985


@pytest.mark.slow
def test_an_autoencoder_learns_by_two_optimizers() -> None:
    with np.load(EXAMPLES / "digits.npz") as arrays:
        images = arrays["image"].reshape(-1, 64) / 16
    centred = images - images.mean(axis=0)
    # Two numbers of a linear code are the least error that eight should beat.
    values = np.linalg.svd(centred, compute_uv=False)
    assert example("autoencoder")["main"]() < (values[2:] ** 2).sum() / images.size


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("train_gpt", 40), ("train_lstm", 100)])
def test_a_model_learns_to_write(name: str, steps: int) -> None:
    found = example(name)
    # A character of these pages costs 3.46 for those that know its frequency alone.
    assert found["main"](steps) < 3.3 < np.log(len(found["CHARACTERS"]))


@pytest.mark.slow
def test_an_onnx_model_is_fine_tuned(tmp_path: Path) -> None:
    found = example("finetune_onnx")["main"](str(tmp_path / "digits.onnx"))
    (last, kept), (all_, changed) = found["last layer"], found["all layers"]
    # By chance it is a fifth.
    assert 0.75 < last < all_ > 0.93
    model = ModelProto.FromString((tmp_path / "digits.onnx").read_bytes())
    for each in model.graph.initializer:
        written = numpy_helper.to_array(each)
        is_last = each.name.startswith("out")
        assert np.array_equal(written, kept[each.name]) == (not is_last)
        assert not np.array_equal(written, changed[each.name])


def test_each_half_of_the_autoencoder_has_its_optimizer() -> None:
    found = example("autoencoder")
    with penstock.Session():
        ir = found["step"].trace().ir
    names = dict(re.findall(r'(%\w+) = job.variable "(\w+)/', ir))
    updates = re.findall(r"job.update (%\w+) by .* with <(\w+)", ir)
    rules = [(names[target], rule) for target, rule in updates]
    assert rules == [("encoder", "adamw")] * 4 + [("decoder", "rmsprop")] * 4


def test_the_network_is_derived_by_all_its_variables() -> None:
    found = example("train_digits_cnn")

    @penstock.job
    def gradients(x: Annotated[Tensor, (4, 1, 8, 8), "f32"]) -> Any:
        return penstock.grad(lambda: found["scores"](x).sum())()

    made = gradients.trace().ir
    assert made.count("job.output") == 8
