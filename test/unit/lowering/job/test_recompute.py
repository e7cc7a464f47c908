"""Values that are made again for the backward pass: results, peaks, and budgets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import fresh
from training_steps import SMALL, perceptron
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, f64
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import AssignOp, InputOp, JobOp, OutputOp
from penstock.dialects.utils.pass_events import counting
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering import pass_of
from penstock.lowering.job.planned_peak import PLANNING, planned_peak
from penstock.lowering.pipelines import job_passes
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session

BEFORE = ("op-infer-shapes", "job-add-gradients", "job-clean", "op-fold-constants")


def prepared(module: ModuleOp) -> ModuleOp:
    """A training step as `job-recompute` gets it."""
    for name in BEFORE:
        pass_of(name)().apply(Context(), module)
    return module


def recomputed(module: ModuleOp, **options: object) -> tuple[ModuleOp, dict[str, int]]:
    """A copy of a job, with values made again, and what the pass counted."""
    made, counts = module.clone(), dict[str, int]()
    with counting(lambda name, number: counts.update({name: number})):
        pass_of("job-recompute")(**options).apply(Context(), made)
    made.verify()
    return made, counts


def peak_of(module: ModuleOp) -> int:
    job = next(op for op in module.ops if isinstance(op, JobOp))
    return planned_peak(job, Context(), None)


def inputs_of(module: ModuleOp) -> dict[str, Any]:
    rng = fresh()
    ports = [op for op in module.walk() if isinstance(op, InputOp)]
    return {
        op.port.data: rng.normal(size=tensor_type(op.result).get_shape()).astype(
            "float64" if tensor_type(op.result).element_type == f64 else "float32"
        )
        for op in ports
    }


def loss_of(module: ModuleOp, inputs: dict[str, Any], pipeline: str) -> Any:
    """The loss of the second step: the first one's updates are in it."""
    with Session(Model(module, {}, Path()), pipeline=pipeline) as session:
        session.run(inputs)
        return session.run(inputs)["loss"]


def test_the_planning_passes_are_those_of_pipelines():
    names = [spec.name for spec in job_passes()] + ["plan-order-tasks"]
    behind = names[names.index("job-recompute") + 1 :]
    assert [x for x in behind if x in PLANNING] == list(PLANNING)
    assert all(x in PLANNING for x in behind)


@pytest.mark.parametrize("name", SMALL)
def test_min_cut_needs_less_and_means_the_same(name: str):
    module = prepared(SMALL[name](element=f64))
    made, counts = recomputed(module, policy="min-cut")
    assert counts["ops recomputed"] > 0
    assert peak_of(made) < peak_of(module)
    means_the_same(made, module)


def means_the_same(made: ModuleOp, module: ModuleOp) -> None:
    """Compare what two jobs put out and what they assign in NumPy."""
    inputs = inputs_of(module)
    found, wanted = (values_of(each, inputs) for each in (made, module))
    assert len(wanted) > 1
    for key, array in wanted.items():
        error = np.abs(found[key] - array).max()
        assert error <= 1e-12 * max(np.abs(array).max(), 1e-3), key


def values_of(module: ModuleOp, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs of a job, and the values that it assigns."""
    copy = module.clone()
    for number, op in enumerate(
        x for x in list(copy.walk()) if isinstance(x, AssignOp)
    ):
        block = op.parent
        assert block is not None
        block.add_op(OutputOp(f"assigned {number}", op.value))
    return {**evaluate_model(Model(copy, {}, Path()), inputs)}


# Each budget asks for ten plans; the one that none meets, for all.
@pytest.mark.slow
def test_budgets_are_met_at_a_cost_that_grows():
    module = prepared(SMALL["gated"](element=f64))
    peak, least = peak_of(module), least_of(module)
    made, costs = module, list[int]()
    for budget in np.linspace(peak, least, 4, dtype=np.int64).tolist():
        made, counts = recomputed(module, policy="budget", budget=budget)
        assert peak_of(made) <= budget
        costs.append(counts.get("flops recomputed", 0))
    assert costs == sorted(costs)
    assert costs[0] == 0 < costs[-1]
    means_the_same(made, module)


def least_of(module: ModuleOp) -> int:
    """The least peak, which the pass names."""
    with pytest.raises(PassFailedException, match="within the budget of 1 bytes") as e:
        recomputed(module, policy="budget", budget=1)
    found = re.search(r"the least that was found needs (\d+)$", str(e.value))
    assert found
    return int(found[1])


def test_segments_keep_what_goes_between_them():
    module = prepared(perceptron(depth=6, width=16, batch=64, element=f64))
    for i, op in enumerate(forward_ops(module)):
        op.attributes["segment"] = StringAttr(f"block{i // 12}")
    made, counts = recomputed(module)
    assert counts["ops recomputed"] > 0
    assert peak_of(made) < peak_of(module)
    assert [op for op in made.walk() if op.name == "job.after"]
    means_the_same(made, module)


def forward_ops(module: ModuleOp) -> list[Any]:
    return [
        op
        for op in module.walk()
        if op.name.startswith("op.") and "pass" not in op.attributes
    ]


def test_a_job_without_segments_stays_as_it_is():
    module = prepared(SMALL["gated"]())
    made, counts = recomputed(module)
    assert str(made) == str(module)
    assert not counts


@pytest.mark.slow
def test_a_plan_is_within_the_budget_in_the_whole_pipeline():
    module = SMALL["autoencoder"]()
    least = least_of(prepared(module.clone()))
    inputs = inputs_of(module)
    wanted = loss_of(module.clone(), inputs, "cpu")
    found = loss_of(module, inputs, f"cpu{{recompute=budget budget={least}}}")
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
