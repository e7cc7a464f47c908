"""Models are made of few forms of kernels, and a list tells of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.forms import counts, forms_of, main


@pytest.mark.slow
@pytest.mark.parametrize(("model", "most"), [("densenet121", 29), ("resnet50", 26)])
def test_few_forms_are_compiled_for_a_model(model: str, most: int) -> None:
    assert 0 < len({*forms_of(model)}) <= most


def test_forms_that_models_share_are_counted() -> None:
    forms = {"a": ["x", "y", "x"], "b": ["y"], "c": ["z"]}
    assert [*counts(forms)] == [("a", 3, 2, 1), ("b", 1, 1, 1), ("c", 1, 1, 0)]


@pytest.mark.slow
def test_a_list_names_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["squeezenet"]) == 0
    head, model, every = capsys.readouterr().out.splitlines()
    assert head.split() == ["model", "kernels", "forms", "shared"]
    assert model.split()[0] == "squeezenet"
    assert every.split() == ["all", *model.split()[1:3]]
