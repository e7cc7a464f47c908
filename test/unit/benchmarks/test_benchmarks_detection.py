"""The benchmark of detection: its model, which is compiled once for all images."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import detection
from benchmarks.detection import Detector, detector, image
from penstock.tools.frontend.onnx.model import import_model, run_onnxruntime
from penstock.tools.frontend.onnx.session import OnnxSession

SMALL = Detector(64, 4, 3, best=200)


def test_no_image_has_to_be_known() -> None:
    assert not import_model(detector(SMALL), "small").known


# The kernels of a model.
@pytest.mark.slow
def test_images_with_other_numbers_of_boxes_are_one_compile() -> None:
    model, shapes = detector(SMALL), set[tuple[int, ...]]()
    with OnnxSession(model) as session:
        for number in range(4):
            piece = {"image": image(SMALL, number)}
            wanted, found = run_onnxruntime(model, piece), session.run(piece)
            assert found.keys() == wanted.keys()
            for name, array in wanted.items():
                assert found[name].shape == array.shape
                one, other = (x.astype(np.float64) for x in (found[name], array))
                np.testing.assert_allclose(one, other, 1e-4, 1e-4)
            shapes.add(found["scores"].shape)
        assert session.compiled == 1
    assert len(shapes) > 1


def test_contenders_run_on_images_in_turn() -> None:
    assert [*detection.openers(SMALL, 1)] == ["Penstock", "ONNX Runtime"]
