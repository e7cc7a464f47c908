"""`docs/api.md`: all public names, each documented, with examples that run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import penstock
from penstock.tools.frontend.python.jobs import Job, TracedJob
from penstock.tools.reports.api_page import members_of, public_members
from penstock.tools.reports.markdown import text_of
from penstock.tools.session.checkpoint import Checkpoint

PAGE = (Path(__file__).parents[4] / "docs" / "api.md").read_text(encoding="utf-8")
MODULES = ("control", "data", "errors", "ops", "optim")
CLASSES = (Checkpoint, Job, TracedJob)


def documented() -> dict[str, object]:
    """Functions and classes of the page by name, but for ops and errors."""
    names = [name for name in penstock.__all__ if name not in MODULES]
    found: dict[str, object] = {name: getattr(penstock, name) for name in names}
    found |= members_of(penstock.control, "control")
    found |= members_of(penstock.data, "data")
    found |= members_of(penstock.optim, "optim")
    return found | {cls.__name__: cls for cls in CLASSES}


def callables() -> dict[str, Callable[..., object]]:
    """Functions, classes and public methods, by names for messages."""
    found: dict[str, Callable[..., object]] = {}
    for name, member in documented().items():
        if isinstance(member, type) and issubclass(member, Exception):
            continue
        found[name] = cast(Callable[..., object], member)
        if isinstance(member, type):
            for method, value in public_members(member):
                if not isinstance(value, property):
                    found[f"{name}.{method}"] = cast(Callable[..., object], value)
    return found


@pytest.mark.parametrize("name", penstock.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert f"`penstock.{name}`" in PAGE or f"`penstock.errors.{name}`" in PAGE


@pytest.mark.parametrize("module", ["control", "data", "errors", "optim"])
def test_each_name_of_a_module_is_there(module: str) -> None:
    for name in getattr(penstock, module).__all__:
        where = "errors" if name.endswith("Error") else module
        assert f"`penstock.{where}.{name}`" in PAGE, name


def test_each_op_is_there() -> None:
    for name in dir(penstock.ops):
        entry = f"[`{name}`](dialects/op.md#op{name})"
        # Those with bodies, and losses, have sections of their own.
        assert entry in PAGE or f"### `penstock.ops.{name}`" in PAGE, name


def test_each_op_is_linked_to_its_heading() -> None:
    dialect = (Path(__file__).parents[4] / "docs/dialects/op.md").read_text()
    anchors = {
        heading.replace(".", "")
        for heading in re.findall(r"^### `(op\.\w+)`$", dialect, re.MULTILINE)
    }
    linked = set(re.findall(r"dialects/op\.md#(\w+)", PAGE))
    assert linked <= anchors


@pytest.mark.parametrize("name", callables())
def test_each_parameter_is_explained(name: str) -> None:
    function = callables()[name]
    text = text_of(function)
    assert text, f"{name} has no docstring"
    for parameter in inspect.signature(function).parameters:
        assert parameter == "self" or f"`{parameter}`" in text, (name, parameter)


@pytest.mark.parametrize("name", callables())
def test_no_sentence_has_a_pronoun_for_its_subject(name: str) -> None:
    prose = re.sub(r"```.*?```", "", text_of(callables()[name]), flags=re.DOTALL)
    assert not re.search(r"(?:^|\. |\n\n)(?:What|Who|Whoever|How many)\b", prose)


@pytest.mark.parametrize(
    "name", ["job", "variable", "assign", "op", "Tensor", "Session", "OnnxSession"]
)
def test_what_users_begin_with_has_an_example(name: str) -> None:
    assert "```python" in text_of(getattr(penstock, name))


EXAMPLES = {
    name: found
    for name, function in callables().items()
    for found in re.findall(r"```python\n(.*?)```", text_of(function), re.DOTALL)
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_a_docstring_runs(name: str, tmp_path: Path) -> None:
    # The function of a job is read from a file.
    path = tmp_path / "example.py"
    path.write_text(EXAMPLES[name])
    names: dict[str, object] = {"__name__": "example"}
    # Jobs of the default session would meet those of other tests.
    with penstock.Session():
        exec(compile(EXAMPLES[name], path, "exec"), names)
