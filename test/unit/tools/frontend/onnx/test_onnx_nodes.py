"""
ONNX's own cases of single ops: all of them in NumPy, and one compiled of each op that
several of ours make up; what is one of ours, the audit of ops compiles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.frontend.onnx.converters import CONVERTERS
from penstock.tools.frontend.onnx.expansion import schema_of
from penstock.tools.frontend.onnx.model import ImportedModel
from penstock.tools.frontend.onnx.ops import Array
from penstock.tools.reports.onnx_coverage import (
    Case,
    Outcome,
    Tally,
    Verdict,
    all_cases,
    arrays_of,
    difference,
    imported_for,
    op_of,
    page,
    run_case,
    tallied,
)
from penstock.tools.session.session import Model, Session

PAGE = Path(__file__).parents[5] / "docs" / "onnx.md"

WITHOUT_CASES = {"GlobalLpPool"}
"""Ops of which ONNX has no case; another test has one."""


ONE_OP = "one op of ours"
OVERFLOWS = "the body overflows, or loses small numbers"
CANCELS = "the body's variance is E[x*x] - E[x]*E[x], which cancels"
THROUGH_F32 = "the body of f64 and of integers goes through f32"
NO_OLD_BODY = "older opsets, or packages, have no body"
FOLDS = "a constant input is folded"

WHY_NOT_BY_BODY = {
    "Attention": ONE_OP,
    "CastLike": ONE_OP,
    "Clip": ONE_OP,
    "DepthToSpace": NO_OLD_BODY,
    "DynamicQuantizeLinear": FOLDS,
    "Gelu": ONE_OP,
    "GreaterOrEqual": ONE_OP,
    "GroupNormalization": CANCELS,
    "LayerNormalization": ONE_OP,
    "LeakyRelu": ONE_OP,
    "LessOrEqual": ONE_OP,
    "LogSoftmax": ONE_OP,
    "MeanVarianceNormalization": CANCELS,
    "Mish": OVERFLOWS,
    "PRelu": NO_OLD_BODY,
    "Range": "a loop, whose numbers are known up to the largest count",
    "ReduceL1": NO_OLD_BODY,
    "ReduceL2": THROUGH_F32,
    "ReduceLogSum": NO_OLD_BODY,
    "ReduceLogSumExp": OVERFLOWS,
    "ReduceSumSquare": NO_OLD_BODY,
    "Relu": ONE_OP,
    "Softmax": ONE_OP,
    "Softplus": OVERFLOWS,
    "SpaceToDepth": NO_OLD_BODY,
}
"""The ops with a converter although ONNX defines them by others, and the reason."""

OLDEST = 13
"""The oldest opset that is read as it is."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """The outcome of each case in NumPy."""
    return {case.name: run_case(case) for case in all_cases()}


@pytest.fixture(scope="module")
def tallies(outcomes: dict[str, Outcome]) -> dict[str, Tally]:
    return tallied(outcomes)


@pytest.mark.slow
def test_no_case_is_wrong(outcomes: dict[str, Outcome]) -> None:
    wrong = {n: o.reason for n, o in outcomes.items() if o.verdict == Verdict.WRONG}
    assert wrong == {}


def test_what_is_unsupported_says_why(outcomes: dict[str, Outcome]) -> None:
    for outcome in outcomes.values():
        assert (outcome.verdict == Verdict.UNSUPPORTED) == bool(outcome.reason)


def test_every_converter_passes_a_case(tallies: dict[str, Tally]) -> None:
    passed = {
        op
        for op, tally in tallies.items()
        if tally.counts[Verdict.PASSED] + tally.counts[Verdict.FOLDED]
    }
    assert CONVERTERS.keys() - passed <= WITHOUT_CASES


def bodies_of(op: str) -> list[bool]:
    """Whether ONNX defines an op by others, in each opset that is read and has it."""
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, [], [], domain=domain)
    return [
        schema_of(node, version) is not None
        for version in range(OLDEST, onnx.defs.onnx_opset_version() + 1)
        if onnx.defs.has(name, version, domain)
    ]


def test_converters_of_ops_with_a_body_have_a_reason():
    with_body = {op for op in CONVERTERS if any(bodies_of(op))}
    # Some bodies only come with later packages.
    assert with_body <= WHY_NOT_BY_BODY.keys() <= CONVERTERS.keys()


def test_ops_without_an_old_body_have_none_in_an_opset_that_is_read():
    ops = [op for op, reason in WHY_NOT_BY_BODY.items() if reason == NO_OLD_BODY]
    assert [op for op in ops if all(bodies_of(op))] == []


@pytest.mark.skipif(
    f"With onnx {onnx.__version__}:" not in PAGE.read_text("utf-8"),
    reason="the page counts the cases of another version of onnx",
)
def test_the_page_counts_what_passes(tallies: dict[str, Tally]) -> None:
    command = "python -m penstock.tools.reports.onnx_coverage docs/onnx.md"
    assert PAGE.read_text("utf-8") == page(tallies), f"run {command}"


@pytest.mark.slow
def test_compiled_kernels_pass_a_case_of_each_op_made_of_several(
    outcomes: dict[str, Outcome],
) -> None:
    chosen: dict[str, Case] = {}
    for case in all_cases():
        if outcomes[case.name].verdict == Verdict.PASSED:
            chosen.setdefault(op_of(case), case)
    several = [case for case in chosen.values() if count_of_ops(case) > 1]
    assert len(several) > 70
    problems = {case.name: compiled(case) for case in several}
    assert {n: text for n, text in problems.items() if text} == {}


def imported_case(case: Case) -> tuple[ImportedModel, dict[str, Array]]:
    """The import of a case, and its inputs."""
    assert case.model is not None
    assert case.data_sets is not None
    ((inputs, _), *_) = case.data_sets
    names = [value.name for value in case.model.graph.input]
    arrays = arrays_of(names[: len(inputs)], inputs)
    return imported_for(case.model, case.name, arrays), arrays


def count_of_ops(case: Case) -> int:
    """The number of ops that are left of a case after constant folding."""
    module = imported_case(case)[0].module
    compiler, passes = installed_compiler()
    known = "op-infer-shapes,job-clean,op-fold-constants,job-clean"
    run_pipeline(compiler, passes, module, known)
    ops = (op for op in module.walk() if isinstance(op, TensorOp))
    return sum(not isinstance(op, ConstantOp) for op in ops)


def compiled(case: Case) -> str:
    """
    The difference between the results of compiled kernels and a case; empty if there is
    none.
    """
    assert case.data_sets is not None
    ((_, wanted), *_) = case.data_sets
    imported, arrays = imported_case(case)
    model = Model(imported.module, imported.weights, Path())
    with Session(model) as session, np.errstate(all="ignore"):
        ports = session.executor.program.inputs
        results = session.run({name: arrays[name] for name in ports})
    names = [value.name for value in imported.proto.graph.output]
    return difference(case, results, arrays_of(names, wanted))
