"""Loops up to a maximum: meaning, errors and kernels against loops of Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import fresh_seed

from penstock.runtime.errors import TaskError
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session

MOST = 5

FORMS = ["count(%n)", "count(%n) backward", "while(%go)", "count(%n) while(%go)"]

TEXT = """job.job @sums placement <cpu, [0:0]> {{
  %n = job.input "n" : tensor<i64>
  %go = job.input "go" : tensor<i1>
  %a = job.input "a" : tensor<4xi64>
  %xs = job.input "xs" : tensor<5x4xi64>
  %limit = job.input "limit" : tensor<i64>
  {ends}%b, %ys, %made = op.loop up to 5 {form} carries(%a : tensor<4xi64>)
      slices(%xs : tensor<5x4xi64>) reads(%limit : tensor<i64>) made
      -> {types}tensor<4xi64>, tensor<5x4xi64>, tensor<i64> {{
  ^bb0(%i: tensor<i64>, {given}%c: tensor<4xi64>, %x: tensor<4xi64>, %l: tensor<i64>):
    %p = op.add %c, %x : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
    %q = op.add %p, %i : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
    %m = op.reduce_max %q axes [0] : tensor<4xi64> -> tensor<i64>
    %again = op.less %m, %l : tensor<i64>, tensor<i64> -> tensor<i1>
    op.yield {yields}%q, %p : {types}tensor<4xi64>, tensor<4xi64>
  }}
  job.output "b", %b : tensor<4xi64>
  job.output "ys", %ys : tensor<5x4xi64>
  job.output "made", %made : tensor<i64>
}}"""


def text_of(form: str) -> bytes:
    """The loop of a form, which carries its condition if it has one."""
    has_condition = "while" in form
    parts = {
        "ends": "%end, ",
        "types": "tensor<i1>, ",
        "given": "%g: tensor<i1>, ",
        "yields": "%again, ",
    }
    shown = {key: text * has_condition for key, text in parts.items()}
    return TEXT.format(form=form, **shown).encode()


def expected(form: str, given: dict[str, Array]) -> dict[str, Array]:
    """The outputs, by a loop of Python."""
    count = int(given["n"]) if "count" in form else MOST
    carried, made, going = given["a"], 0, bool(given["go"])
    rows = np.zeros((MOST, 4), np.int64)
    for number in range(count)[:: -1 if "backward" in form else 1]:
        if "while" in form and not going:
            break
        rows[number] = carried + given["xs"][number]
        carried = rows[number] + number
        going, made = carried.max() < given["limit"], made + 1
    return {"b": carried, "ys": rows, "made": np.asarray(made)}


def inputs(random: np.random.Generator) -> dict[str, Array]:
    """Inputs whose condition may hold for some iterations, and at last does not."""
    xs = random.integers(0, 5, (5, 4))
    return {
        "n": np.asarray(random.integers(0, MOST + 1)),
        "go": np.asarray(random.random() < 0.8),
        "a": random.integers(0, 5, 4),
        "xs": xs,
        "limit": np.asarray(random.integers(0, int(xs.sum()) // 2)),
    }


def session_of(form: str) -> Session:
    """A session of the loop of a form."""
    compiler = installed_compiler()
    module = compiler[0].parse(text_of(form), "sums.mlir")
    return Session(Model(module, {}, Path()), compiler=compiler)


@pytest.mark.parametrize("form", FORMS)
def test_iterations_are_made_up_to_a_count_and_while_a_condition_holds(form: str):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    compiler, passes = installed_compiler()
    models: list[Model] = []
    for pipeline in ((), "op-unroll-loops", "op-unroll-loops,job-clean"):
        module = compiler.parse(text_of(form), "sums.mlir")
        run_pipeline(compiler, passes, module, pipeline)
        models.append(Model(module, {}, Path()))
    for _ in range(12):
        given = inputs(random)
        if expected("while", given)["b"].max() < given["limit"]:
            given["limit"] = np.asarray(0)
        wanted = expected(form, given)
        for model in models:
            found = evaluate_model(model, given)
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array, f"seed {seed}")


@pytest.mark.parametrize("form", FORMS[-1:])
def test_kernels_of_a_loop_make_the_same(form: str):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    given = {**inputs(random), "limit": np.asarray(6)}
    with session_of(form) as session:
        found = session.run(given)
    for name, array in expected(form, given).items():
        np.testing.assert_array_equal(found[name], array, f"seed {seed}")


ERRORS = [
    (
        "count(%n)",
        {"n": 6},
        "loop 'b' is to make other than 0 to 5 iterations",
        "task 'b' failed .* a loop of at most 5 iterations was to make 6",
    ),
    (
        "count(%n)",
        {"n": -1},
        "loop 'b' is to make other than 0 to 5 iterations",
        "task 'b' failed .* a loop of at most 5 iterations was to make -1",
    ),
    (
        "while(%go)",
        {"limit": 1000, "go": True},
        "the condition of loop 'end' still holds after iteration 4, the last of its "
        "maximum of 5",
        "task 'end' failed .* the condition of a loop of at most 5 iterations is still "
        "true after iteration 4",
    ),
]


@pytest.mark.parametrize(("form", "changed", "message", "in_a_run"), ERRORS)
def test_a_maximum_that_is_not_enough_is_an_error(
    form: str, changed: dict[str, int], message: str, in_a_run: str
):
    given = inputs(np.random.default_rng(1))
    for name, value in changed.items():
        given[name] = np.asarray(value).astype(given[name].dtype)
    compiler, passes = installed_compiler()
    for pipeline in ((), "op-unroll-loops"):
        module = compiler.parse(text_of(form), "sums.mlir")
        run_pipeline(compiler, passes, module, pipeline)
        with pytest.raises(ValueError, match=message):
            evaluate_model(Model(module, {}, Path()), given)
    with session_of(form) as session, pytest.raises(TaskError, match=in_a_run):
        session.run(given)
