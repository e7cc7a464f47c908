"""
Plug-ins that return rubbish: each is refused in one line that names it and its place.

Passes run on a job whose tasks are `x`, `a` and `b`, which read `x`, `c` which reads
both, and `y`; those about SBP on one of two devices. Where a plug-in is sound, the
verifier of the level is content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.plugins import KINDS, forget, register
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.errors import Rejected

JOB = """
job.job @diamond placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %a = op.relu %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %b = op.neg %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %c = op.add %a, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "y", %c : tensor<4x4xf32>
}
"""

SPLIT = """
job.job @two placement <cpu, [0:0-1]> {
  %x = job.input "x" {sbp = #job.sbp<S(1)>} : tensor<8x16xf32>
  %w = job.variable "w" init <ones> : tensor<16x8xf32>
  %h = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %y = op.relu %h {operand_sbp = [#job.sbp<B>]} : tensor<8x8xf32> -> tensor<8x8xf32>
  job.output "y", %y : tensor<8x8xf32>
}
"""
"""A job on two devices that add terms of a sum, and both need all of it."""

STEP = """
job.job @step placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %p = op.mul %w, %v : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %p axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
"""

ACTORS = """
launch.program @p rank 0 {
  launch.control @x slots 1
  launch.control @y slots 1
  launch.actor @source on <0, cpu:0> stream 0 reads [] writes [@x] {
  }
  launch.actor @a kind "acme" on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
  launch.actor @sink on <0, cpu:0> stream 0 reads [@y] writes [] {
  }
}
"""

PLAN = "convert-job-to-plan"
REGISTERS = f"{PLAN},plan-assign-streams,plan-create-registers"
VERIFIED = "regst-plan-memory,plan-reduce-events,verify-plan"

PIPELINES = {
    "memory-planner": f"{REGISTERS},regst-plan-memory{{algorithm=acme}},verify-plan",
    "task-order": f"{PLAN},plan-order-tasks{{policy=acme}},plan-assign-streams,"
    f"plan-create-registers,{VERIFIED}",
    "stream-policy": f"{PLAN},plan-assign-streams{{streams=2 policy=acme}},"
    f"plan-create-registers,{VERIFIED}",
    "slot-choice": f"{REGISTERS},regst-choose-slots{{policy=acme "
    f"memory-limit=1000}},{VERIFIED}",
    "alias-policy": f"{REGISTERS},regst-alias-registers{{policy=acme}},{VERIFIED}",
    "sbp-candidates": f"job-infer-sbp{{candidates=acme}},job-insert-boxing,{PLAN}",
    "sbp-cost": f"job-infer-sbp{{cost=acme}},job-insert-boxing,{PLAN}",
    "boxing": f"job-infer-sbp,job-insert-boxing,{PLAN}{{boxing=acme}},"
    f"plan-assign-streams,plan-create-registers,{VERIFIED}",
    "gradient": "job-add-gradients{rules=acme}",
    "actor-kind": "launch-expand-kinds,verify-program",
}
TEXTS: dict[str, str] = {
    "sbp-candidates": SPLIT,
    "sbp-cost": SPLIT,
    "boxing": SPLIT,
    "gradient": STEP,
    "actor-kind": ACTORS,
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)


def run(kind: str, thing: Callable[..., object]) -> str:
    """The plan that is made with a plug-in."""
    register(kind, "acme")(thing)
    compiler, passes = installed_compiler()
    text = TEXTS.get(kind, JOB)
    module = compiler.parse(text.encode(), "job.mlir")
    run_pipeline(compiler, passes, module, PIPELINES[kind])
    return str(module)


def fail(*_: object) -> object:
    raise ValueError("no luck")


RUBBISH: list[tuple[str, object, str]] = [
    ("actor-kind", 7, "returns no list of acts but 7"),
    ("actor-kind", "xy", "returns no list of acts but 'xy'"),
    ("actor-kind", [], "uses register 'x' in no act"),
    ("actor-kind", [["x"]], "uses register 'y' in no act"),
    ("actor-kind", [["x", "y"], []], "uses no register in act 1"),
    ("actor-kind", [["x", "y"], 3], "returns 3 for act 1, no list of registers"),
    ("actor-kind", [["x", "z"]], "uses 'z' in act 0, which is no register of it"),
    ("actor-kind", [["x", "x", "y"]], "uses 'x' twice in act 0"),
    ("gradient", 7, "returns no list of gradients of op.reduce_sum but 7"),
    ("gradient", [], "returns 0 gradients of op.reduce_sum, which has 1 operands"),
    ("gradient", [0.5], "returns 0.5 as a gradient of op.reduce_sum, no value"),
    ("memory-planner", [0], "returns 1 offsets for 4 buffers"),
    ("memory-planner", [0, 0, 0, 0], "puts buffers 0 and 1 on common bytes"),
    ("memory-planner", [0, 7, 64, 128], "puts buffer 1 at 7, no multiple of 64"),
    ("memory-planner", None, "returns no list of integers: 'NoneType'"),
    ("task-order", [0, 1, 2, 3], "does not list task 4 ('y')"),
    ("task-order", [0, 1, 2, 3, 4, 4], "lists task 4 ('y') twice"),
    ("task-order", [0, 1, 2, 3, 9, 4], "lists task 9, but there are 5 tasks"),
    ("task-order", [0, 3, 1, 2, 4], "lists 'c' before 'a', which it needs"),
    ("task-order", [0.5], "returns no list of integers: 'float'"),
    ("task-order", 7, "returns no list of integers: 'int'"),
    ("stream-policy", [0, 1], "returns 0, no pair of a task and its lane"),
    ("stream-policy", [(0, 0)], "does not list task 1 ('a')"),
    ("stream-policy", [(0, 0), (0, 0)], "lists task 0 ('x') twice"),
    ("stream-policy", [(0, 5)], "puts 'x' on lane 5, not one of 0"),
    ("stream-policy", [(3, 0)], "lists 'c' before 'a', which it waits for"),
    ("stream-policy", [(9, 0)], "lists task 9, but there are 5 tasks"),
    ("stream-policy", [(0, 0, 0)], "returns (0, 0, 0), no pair of a task and its lane"),
    ("stream-policy", 3, "returns no list of pairs: 'int'"),
    ("slot-choice", [1], "returns 1 numbers for 4 registers"),
    ("slot-choice", [1, 1, 0, 1], "gives register 'b/out' 0 slots"),
    ("slot-choice", [1, 1, 1, 1 << 40], "gives register 'c/out' 1099511627776 slots"),
    (
        "slot-choice",
        [9, 9, 9, 9],
        "takes 2304 bytes of memory 0, but the limit is 1000",
    ),
    ("alias-policy", [5], "takes candidate 5 of 'a', which has 1"),
    ("alias-policy", [0, 0], "takes a candidate of task 'a' twice"),
    ("alias-policy", [-1], "takes candidate -1 of 'a', which has 1"),
    ("sbp-candidates", [99], "takes signature 99 of job.input, of 3"),
    ("sbp-candidates", [1, 1], "takes a signature of job.input twice"),
    ("sbp-candidates", [], "takes no signature of job.input"),
    ("sbp-candidates", [(0, -1)], "returns the cost -1, no finite number from 0 on"),
    ("sbp-candidates", [(0, float("inf"))], "returns the cost inf, no finite number"),
    ("sbp-candidates", [(0, "much")], "returns the cost 'much', no finite number"),
    ("sbp-candidates", [(0, 1, 2)], "returns (0, 1, 2), no pair of a number and a "),
    ("sbp-cost", -1, "returns -1 for S(1) to S(0), no number from 0 on"),
    ("sbp-cost", float("nan"), "returns nan for S(1) to S(0), no number from 0 on"),
    ("sbp-cost", "much", "returns 'much' for S(1) to S(0), no number from 0 on"),
    ("boxing", 5, "returns no list of layouts but 5"),
    ("boxing", ["B"], "returns 'B', no layout such as ('S(0)',)"),
    ("boxing", [("B", "B")], "returns a layout of 2 dimensions of devices, not 1"),
    ("boxing", [("Q",)], "goes through (Q): 'Q' is none of B, P and S(axis)"),
    ("boxing", [("S(9)",)], "goes through (S(9)): "),
    ("boxing", [("S(0)",)] * 2, "goes through (S(0)): it has lain so before"),
    ("boxing", [("S(0)",), ("P",)], "goes through (P): there are no terms of a sum"),
]


@pytest.mark.parametrize(("kind", "answer", "message"), RUBBISH)
def test_rubbish_is_refused(kind: str, answer: object, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        run(kind, lambda *_: answer)
    text = str(caught.value)
    assert f"{KINDS[kind].noun} 'acme' {message}" in text
    assert re.search(r"\(\S*test_bad_plugins.py:\d+\)$", text)
    assert "\n" not in text


@pytest.mark.parametrize("kind", PIPELINES)
def test_one_that_raises_is_named_with_its_line(kind: str) -> None:
    with pytest.raises(Rejected) as caught:
        run(kind, fail)
    line = fail.__code__.co_firstlineno + 1
    expected = (
        f"{KINDS[kind].noun} 'acme' fails: ValueError: no luck ({__file__}:{line})"
    )
    assert str(caught.value).endswith(expected)


def negated_product(op: Any, *others: Any) -> object:
    """A gradient of products that no op would say."""
    o, grads = others
    return [o.neg(grads[0]), None] if op.name == "op.mul" else None


SOUND: dict[str, Callable[[Any], object]] = {
    "task-order": lambda request: [0, 2, 1, 3, 4],
    "stream-policy": lambda request: [
        (task, job.lanes[-1]) for task, job in enumerate(request.jobs)
    ],
    "slot-choice": lambda request: [1, 2, 1, 1],
    "alias-policy": lambda candidates: [],
    "sbp-candidates": lambda request: range(len(request.signatures)),
    "sbp-cost": lambda transfer: 0.5 if transfer.want == "B" else float("inf"),
    "boxing": lambda request: [("S(1)",)] * (request.have == ("P",)),
    "gradient": negated_product,
    "actor-kind": lambda request: [request.reads, [*request.reads, *request.writes]],
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_one_has_its_way(kind: str) -> None:
    text = run(kind, SOUND[kind])
    shows = {
        "task-order": r'"b" on .*order 1 .*(\n.*)*"a" on .*order 2 ',
        "stream-policy": r'"c" on <0, cpu:0> stream <compute, 1>',
        "slot-choice": r'"a/out" in .* slots 2 ',
        "alias-policy": r'no_alias = "policy: it keeps them apart',
        "sbp-candidates": r'"h@0.cpu.1"',
        "sbp-cost": r'"h@0.cpu.1"',
        "boxing": r'"h_B.sum@0.cpu.1"',
        "actor-kind": r'@a kind "cyclic" lists .array<i64: 0>, array<i64: 0, 1>. on',
        "gradient": r"%w_grad = op.neg %p_grad .*(\n.*)*output \"g\", %w_grad",
    }
    assert re.search(shows[kind], text), text


@pytest.mark.parametrize(("cheap", "sbp"), [(0, "B"), (1, r"S\(0\)"), (2, r"S\(1\)")])
def test_costs_of_candidates_decide(cheap: int, sbp: str) -> None:
    def costed(request: Any) -> object:
        numbers = range(len(request.signatures))
        return [(i, 0 if i == cheap else 1.5) for i in numbers]

    register("sbp-candidates", "acme")(costed)
    compiler, passes = installed_compiler()
    module = compiler.parse(SPLIT.encode(), "job.mlir")
    run_pipeline(compiler, passes, module, "job-infer-sbp{candidates=acme}")
    assert re.search(rf'"w" init <ones> {{sbp = #job.sbp<{sbp}>}}', str(module))
