"""`docs/passes.md`: examples of passes, and which passes are standard."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.lowering import get_all_passes
from penstock.lowering.pipelines import ON_TRIAL, PIPELINES
from penstock.tools.reports import docs
from penstock.tools.reports.pass_examples import (
    LEVELS,
    ExampleError,
    example_path,
    level_of,
    read_example,
)
from penstock.tools.reports.passes_page import is_standard, pipelines_with, status

ROOT = Path(__file__).parents[4]
MOST_LINES = 14
"""The lines of an example that fit on a screen beside its other half."""


@pytest.mark.parametrize("name", get_all_passes())
def test_each_pass_has_a_short_example(name: str) -> None:
    example = read_example(ROOT, name)
    assert 4 <= len(example.before) <= MOST_LINES, example.before
    # A verifier writes one message for each thing that is wrong.
    least = 1 if level_of(name) == "verify" else 4
    assert least <= len(example.after) <= MOST_LINES, example.after
    assert example.before != example.after
    assert len(example.point) > 20


@pytest.mark.parametrize("name", get_all_passes())
def test_a_lit_test_proves_the_example(name: str) -> None:
    example = read_example(ROOT, name)
    text = (ROOT / example.test).read_text(encoding="utf-8")
    checked = "--verify-diagnostics" if level_of(name) == "verify" else "filecheck %s"
    run = next(line for line in text.splitlines() if "RUN: penstock-opt" in line)
    assert checked in run
    assert ("--match-full-lines" in run) == (level_of(name) != "verify")
    assert example.passes.partition("{")[0].split(",")[-1] == name


@pytest.mark.parametrize("name", get_all_passes())
def test_the_docstring_names_the_test(name: str) -> None:
    module = sys.modules[get_all_passes()[name]().__module__]
    last = (module.__doc__ or "").rstrip().rpartition("\n\n")[2]
    assert last == f"Example: `{example_path(name)}`."


def test_each_pass_belongs_to_a_level() -> None:
    assert {level_of(name) for name in get_all_passes()} == set(LEVELS)


# How an example is shown

_TEXT = """\
// RUN: penstock-opt %s -p 'op-test{deep=true}' | filecheck %s --match-full-lines

// Why one
// would.

!t = tensor<4xf32>

// EXAMPLE-BEFORE
plan.plan @p {
// EXAMPLE-SKIP
  %x = plan.task "x" ins() -> !t { %v = job.input "x" : !t }
// EXAMPLE-RESUME
  plan.task "y" ins(%x : !t) { ^bb0(%v: !t): job.output "y", %v : !t }
}
// EXAMPLE-AFTER
// CHECK:      plan.plan @p {
// CHECK:        %[[K:.+]] = regst.register {{.*}} : !regst.control
// CHECK:        plan.task "x" {
// CHECK:        plan.task "y" waits(%[[K]]) {
// CHECK-NEXT:     job.output
// CHECK:      }
// EXAMPLE-END
"""


def written(folder: Path, text: str) -> Path:
    path = folder / example_path("op-test")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return folder


def test_an_example_is_shown_without_what_does_not_matter(tmp_path: Path) -> None:
    example = read_example(written(tmp_path, _TEXT), "op-test")
    assert (example.point, example.passes) == ("Why one would.", "op-test{deep=true}")
    assert example.before == (
        "plan.plan @p {",
        "  ...",
        '  plan.task "y" ins(%x : tensor<4xf32>) { ... }',
        "}",
    )
    assert example.after == (
        "plan.plan @p {",
        "  ...",
        "  %k = regst.register ... : !regst.control",
        "  ...",
        '  plan.task "x" { ... }',
        '  plan.task "y" waits(%k) {',
        "    job.output",
        "    ...",
        "}",
    )


def test_a_verifier_shows_its_messages(tmp_path: Path) -> None:
    text = """\
// RUN: penstock-opt %s -p verify-x --verify-diagnostics

// Bad.

// EXAMPLE-BEFORE
plan.plan @p {
  // expected-error@+1 {{verify-x: no}}
  "test.op"() : () -> ()
}
// EXAMPLE-END
"""
    example = read_example(written(tmp_path, text), "op-test")
    assert example.after == ("line 2: error: verify-x: no",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "no RUN line with -p"),
        (
            "// RUN: penstock-opt %s -p op-test | filecheck %s\n",
            "expected EXAMPLE-BEFORE ... EXAMPLE-END",
        ),
        (_TEXT.replace("// EXAMPLE-END\n", ""), "expected EXAMPLE-BEFORE"),
        (_TEXT.replace("// Why one\n// would.\n", ""), "no comment says the point"),
    ],
)
def test_a_broken_example_is_told(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExampleError, match=message):
        read_example(written(tmp_path, text), "op-test")


def test_docs_tell_of_a_missing_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"error: test/.*mlir: No such file"):
        docs.main([str(tmp_path / "docs")])


# Which passes are standard


def test_passes_of_no_pipeline_are_optional() -> None:
    for name in ("launch-form-chains", "verify-memory"):
        assert status(name) == "*Optional*: in no standard pipeline."
    added = "*Optional*: in no standard pipeline; `{}` adds it."
    assert status("op-use-winograd") == added.format("winograd")
    assert status("plan-form-waves") == added.format("waves")
    assert status("plan-write-times") == added.format("database")


def test_passes_on_trial_are_optional_in_their_pipelines() -> None:
    assert status("plan-link-main") == "*Optional* (main job, on trial): in `main`."
    for name in (name for passes in ON_TRIAL.values() for name in passes):
        assert pipelines_with(name), f"{name} is in no pipeline, and optional anyway"
        assert not is_standard(name)


def test_the_pipelines_of_a_standard_pass_are_listed() -> None:
    assert pipelines_with("op-infer-shapes") == list(PIPELINES)
    assert status("plan-merge-jobs") == "*Standard*: in `jobs`, `main`, `model`."
