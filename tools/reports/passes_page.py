"""
The page of all passes, `docs/passes.md`: grouped by level, each pass with its rule, its
options, and an example from its lit test.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from xdsl.passes import ModulePass

from penstock.lowering import get_all_passes, level_of
from penstock.lowering.pipelines import (
    DEFAULTS,
    ON_TRIAL,
    PIPELINES,
    PipelineOptions,
    pipeline,
)
from penstock.lowering.pipelines import text_of as pipeline_text
from penstock.tools.reports.markdown import HEADING, Lines, table, text_of
from penstock.tools.reports.pass_examples import LEVELS, read_example

_INTRODUCTION = """\
Each pass is run by `penstock-opt -p NAME`. *Standard* passes are in a pipeline that
`penstock-opt --pipeline NAME` runs; *optional* ones run on demand, or are on trial, or
are added by an option of `lowering/pipelines.py`.

Each example is a part of a lit test, which checks it; `...` stands for text or lines
that are not shown. Verifiers write nothing: below their input stand their messages."""

_FEATURES = """\
Some optional features are no passes of their own:

* Rates: registers and actors of several rates
  ([jobs and rates](architecture/jobs-and-rates.md#rates)).
* Optimal packing: `regst-plan-memory{algorithm="branch-and-bound"}` instead of the
  greedy rules.
* Elementary functions of our own (`runtime/kernels/math`) instead of a library's: their
  results have the same bits on every machine."""


def passes_page(root: Path) -> str:
    """
    The page of all passes, with the examples of the lit tests below the project's
    folder.

    Raises `ExampleError` if a pass has no example.
    """
    passes = {name: factory() for name, factory in sorted(get_all_passes().items())}
    lines = [HEADING, "", "# Passes and pipelines", "", _INTRODUCTION, ""]
    for level, title in LEVELS.items():
        chosen = {n: made for n, made in passes.items() if level_of(n) == level}
        lines += [f"## {title}", ""]
        rows = [(f"[`{n}`](#{n})", *_summary(n, made)) for n, made in chosen.items()]
        lines += table(("pass", "", "what it does"), rows)
        for name, made in chosen.items():
            lines += pass_section(root, name, made)
    lines += ["## Optional features", "", _FEATURES, ""]
    lines += ["## Pipelines", "", "Passes of `penstock-opt --pipeline NAME`:", ""]
    for name, steps in PIPELINES.items():
        text = pipeline_text(steps)
        lines += [f"`{name}`:", "", "```", text.replace(",", ",\n"), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _summary(name: str, pass_type: type[ModulePass]) -> tuple[str, str]:
    sentence = " ".join(text_of(pass_type).split("\n\n")[0].split())
    return "standard" if is_standard(name) else "optional", sentence


def pass_section(root: Path, name: str, pass_type: type[ModulePass]) -> Lines:
    """The section of a pass: its pipelines, its rule, its options, its example."""
    yield from (f"### `{name}`", "", status(name), "")
    sentence, rule = map(text_of, (pass_type, sys.modules[pass_type.__module__]))
    if not rule.startswith(sentence.rstrip(".")):
        yield from (sentence, "")
    rows = list(option_rows(pass_type))
    # The last paragraph of the rule names the test of the example.
    rule, _, test = rule.rpartition("\n\n") if "\n\n" in rule else ("", "", rule)
    yield from (rule, "") if rule else ()
    yield from table(("option", "type", "default", "what it is"), rows)
    yield from (test, "")
    yield from example_lines(root, name)


def example_lines(root: Path, name: str) -> Lines:
    """The point of the example of a pass, and its IR before and after."""
    example = read_example(root, name)
    point = f"{example.point} (`-p {example.passes}`)"
    yield from (*textwrap.wrap(point, 88, break_on_hyphens=False), "")
    yield from ("```mlir", *example.before, "```", "")
    language = "" if level_of(name) == "verify" else "mlir"
    yield from (f"```{language}", *example.after, "```", "")


def pipelines_with(name: str) -> list[str]:
    """The standard pipelines that have a pass."""
    return [
        title
        for title, passes in PIPELINES.items()
        if any(spec.name == name for spec in passes)
    ]


def options_that_add(name: str) -> list[str]:
    """The options of pipelines that add a pass."""
    values = {"bool": True, "str | None": "x"}
    return [
        field.name
        for field in dataclasses.fields(PipelineOptions)
        if (value := values.get(str(field.type))) is not None
        and any(
            spec.name == name
            for spec in pipeline(dataclasses.replace(DEFAULTS, **{field.name: value}))
        )
    ]


def feature_of(name: str) -> str | None:
    """The feature on trial that a pass is a part of."""
    return next((f for f, passes in ON_TRIAL.items() if name in passes), None)


def is_standard(name: str) -> bool:
    """Whether a pass is in a standard pipeline, and not on trial."""
    return bool(pipelines_with(name)) and feature_of(name) is None


def status(name: str) -> str:
    """Whether a pass is standard or optional, and in which standard pipelines it is."""
    listed = ", ".join(f"`{title}`" for title in pipelines_with(name))
    if is_standard(name):
        return f"*Standard*: in {listed}."
    if feature := feature_of(name):
        return f"*Optional* ({feature}, on trial): in {listed}."
    added = ", ".join(f"`{option}`" for option in options_that_add(name))
    return (
        f"*Optional*: in no standard pipeline{f'; {added} adds it' if added else ''}."
    )


def option_rows(pass_type: type[ModulePass]) -> Iterator[tuple[str, str, str, str]]:
    """Name, type, default and meaning of each option of a pass."""
    texts = field_texts(pass_type)
    for field in dataclasses.fields(pass_type):
        required = field.default is dataclasses.MISSING
        yield (
            f"`{field.name.replace('_', '-')}`",
            f"`{inspect.formatannotation(field.type).strip(chr(39))}`",
            "required" if required else f"`{str(field.default).lower()}`",
            " ".join(texts.get(field.name, "").split()),
        )


def field_texts(cls: type) -> dict[str, str]:
    """The string literal that follows each field of a class, by the field's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    definition = tree.body[0]
    assert isinstance(definition, ast.ClassDef), "the source of a class"
    texts: dict[str, str] = {}
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = inspect.cleandoc(text)
            case _:
                pass
    return texts
