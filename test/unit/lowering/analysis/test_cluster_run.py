"""Predicted runs of plans on a cluster, against sums made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from penstock.dialects.plan import PlanOp
from penstock.lowering.analysis.cluster import parse_cluster
from penstock.lowering.analysis.cluster_run import Prediction, predict
from penstock.lowering.analysis.task_times import MEASURED
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.reports.cluster import facts_about, lines_about, trace_of

CLUSTER = """
[devices.cpu]
task_ns = 0
memory = "16K"
[links.between]
gbytes = 1
latency_ns = 50
"""

JOB = """
job.job @two placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1000xf32>
  %a = op.relu %x {slots = SLOTS : i64} : tensor<1000xf32> -> tensor<1000xf32>
  %b = op.exp %a {placement = #job.placement<cpu, [1:0]>}
    : tensor<1000xf32> -> tensor<1000xf32>
  job.output "b", %b {placement = #job.placement<cpu, [1:0]>} : tensor<1000xf32>
}
"""


def plans_of(text: str, collectives: str, times: Mapping[str, int]) -> list[PlanOp]:
    """The plans of a job's ranks, whose ops take some times and others none."""
    compiler, passes = installed_compiler()
    module = compiler.parse(text.encode(), "job.mlir")
    run_pipeline(
        compiler,
        passes,
        module,
        "job-place,job-infer-sbp,job-insert-boxing,"
        f"convert-job-to-plan{{collectives={collectives}}},plan-order-tasks,"
        "plan-split-ranks,plan-assign-streams,plan-create-registers,regst-plan-memory",
    )
    plans = [op for op in module.ops if isinstance(op, PlanOp)]
    for plan in plans:
        for task in plan.tasks:
            task.attributes[MEASURED] = IntegerAttr(times.get(task.op.name, 0), i64)
    return plans


def predicted(slots: int, iterations: int) -> Prediction:
    """The job on two ranks: ops take 100 ns, a message 4,000 and 50, others nothing."""
    text = JOB.replace("SLOTS", str(slots))
    plans = plans_of(text, "copies", {"op.relu": 100, "op.exp": 100})
    return predict(plans, parse_cluster(CLUSTER), iterations)


@pytest.mark.parametrize(("slots", "period"), [(1, 4150), (2, 4000)])
def test_iterations_overlap_as_far_as_slots_allow(slots: int, period: int):
    found = predicted(slots, 9)
    assert found.first == 100 + 4000 + 50 + 100
    assert found.iteration == period
    (link,) = found.links
    assert (link.link.name, link.bytes) == ("node 0 to node 1", 4000)
    assert link.busy == pytest.approx(4000 / period)
    assert [device.busy for device in found.devices] == pytest.approx(
        2 * [100 / period]
    )
    assert found.bubble == pytest.approx(1 - 100 / period)
    assert [device.flops for device in found.devices] == [1000, 1000]


def test_a_single_iteration_is_its_own_period():
    assert predicted(1, 1).iteration == predicted(1, 1).first == 4250


def test_reports_have_what_was_predicted():
    found = predicted(1, 3)
    lines = list(lines_about("two", found))
    assert lines[:2] == [
        "two: 2 devices, 5 tasks",
        "iteration 4.15 us, the first alone 4.25 us; compute waits 97.6% of the time",
    ]
    assert lines[2] == "482 MFLOP/s of all devices together"
    # Two arrays of 4,000 bytes, of which the second begins at a multiple of 64.
    assert "rank 0 cpu:0  2.4%      7.8 KiB   16.0 KiB" in lines
    facts = json.loads(json.dumps(facts_about("two", found)))
    assert facts["first_ns"] == 4250
    assert facts["links"][0] == {
        "kind": "between",
        "name": "node 0 to node 1",
        "bytes": 4000,
        "busy": pytest.approx(4000 / 4150),
    }
    events = json.loads(trace_of(found))["traceEvents"]
    acts = [event for event in events if event["name"] == "b"]
    assert [act["pid"] for act in acts] == [1, 1, 1]
    assert [act["ts"] for act in acts] == pytest.approx([4.15, 8.3, 12.45])


SUM = """
job.job @sum placement <cpu, [0:0, 1:0, 2:0, 3:0]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : tensor<4x1000xf32>
  %y = op.reduce_sum %x axes [0] : tensor<4x1000xf32> -> tensor<1000xf32>
  %z = op.relu %y {sbp = #job.sbp<B>} : tensor<1000xf32> -> tensor<1000xf32>
  job.output "z", %z : tensor<1000xf32>
}
"""


def test_a_collective_keeps_the_links_of_its_ring_until_all_ranks_have_the_sums():
    found = predict(plans_of(SUM, "ring", {}), parse_cluster(CLUSTER), 1)
    # Three messages of rows, then six steps with a quarter of 4,000 bytes each, of
    # which three are added up, at 10 bytes a nanosecond.
    assert {x.link.name: x.bytes for x in found.links} == {
        "node 0 to node 1": 4000 + 6000,
        "node 0 to node 2": 4000,
        "node 0 to node 3": 4000,
        "node 1 to node 2": 6000,
        "node 2 to node 3": 6000,
        "node 3 to node 0": 6000,
    }
    assert found.first == 4000 + 50 + 6000 + 6 * 50 + 3 * 3 * 1000 / 10
    # All parts are one act: four ranks each read, add up and lay anew.
    names = [span.name for span in found.spans if span.line.startswith("node 0 to")]
    assert len(names) == 4
