"""Attributes with a dialect's prefix stay through passes, as those of MLIR do."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from penstock.lowering import PASSES
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.pass_pipeline import make_passes, parse_passes

ROOT = Path(__file__).parents[3]
DIALECTS = ("job", "launch", "op", "plan", "regst")

ENDS = {
    "convert-plan-to-launch": {"regst.block"},
    "plan-merge-jobs": {"regst.block", "regst.chunk"},
    "plan-reduce-events": {"regst.register"},
    "plan-select-job": {"plan.task", "regst.register", "job.input", "job.output"},
}
"""
The ops that end with a pass, and their attributes with them: blocks and chunks, whose
bytes are placed anew, control registers that others imply, and all of other jobs.
"""

TRAINED = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %w = job.variable "w" init <normal, seed = 7, std = 0.1> : tensor<4x3xf32>
  %y = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x3xf32> -> tensor<8x3xf32>
  %t = op.tanh %y : tensor<8x3xf32> -> tensor<8x3xf32>
  %s = op.stop_gradient %t : tensor<8x3xf32> -> tensor<8x3xf32>
  %d = op.sub %y, %s : tensor<8x3xf32>, tensor<8x3xf32> -> tensor<8x3xf32>
  %q = op.mul %d, %d : tensor<8x3xf32>, tensor<8x3xf32> -> tensor<8x3xf32>
  %l = op.reduce_sum %q axes [0, 1] : tensor<8x3xf32> -> tensor<f32>
  job.output "loss", %l : tensor<f32>
  %rate = op.constant dense<0.1> : tensor<f32>
  %g = job.gradients of %l by %w : tensor<f32>, tensor<4x3xf32>
  job.update %w by %g with <momentum> rate %rate : tensor<4x3xf32>
}
"""

LOOPED = """
job.job @looped placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64x64xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.loop 5 carries(%x : tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%i: tensor<i64>, %a: tensor<64x64xf32>):
    %e = op.exp %a : tensor<64x64xf32> -> tensor<64x64xf32>
    %r = op.relu %e : tensor<64x64xf32> -> tensor<64x64xf32>
    op.yield %r : tensor<64x64xf32>
  }
  %z = op.if %c reads(%y : tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%b: tensor<64x64xf32>):
    %m = op.softmax %b axis 1 : tensor<64x64xf32> -> tensor<64x64xf32>
    op.yield %m : tensor<64x64xf32>
  } else {
  ^bb0(%b: tensor<64x64xf32>):
    op.yield %b : tensor<64x64xf32>
  }
  job.output "z", %z : tensor<64x64xf32>
}
"""


def parsed(text: str) -> ModuleOp:
    return installed_compiler()[0].parse(text.encode(), "tagged.mlir")


def tag(module: ModuleOp) -> None:
    """Give each op of ours an attribute of its own, which says the op's name."""
    for number, op in enumerate(module.walk()):
        if op.name.partition(".")[0] in DIALECTS and not op.has_trait(IsTerminator):
            op.attributes[f"acme.{op.name}.{number}"] = UnitAttr()


def tags_in(ops: Iterable[Operation]) -> set[str]:
    """The tags of ops, and those that a merged plan keeps of the plan of each job."""
    found = {name for op in ops for name in tags_of(op.attributes)}
    return {name for name in found if name.startswith("acme.")}


def tags_of(attributes: Mapping[str, Attribute]) -> Iterator[str]:
    yield from attributes
    for of_job in as_dictionary(attributes.get("jobs")).values():
        yield from as_dictionary(of_job)


def as_dictionary(value: Attribute | None) -> Mapping[str, Attribute]:
    return value.data if isinstance(value, DictionaryAttr) else {}


def dead_in(module: ModuleOp) -> Iterator[Operation]:
    """The ops whose results lead to nothing but results that nobody uses."""
    dead: set[Operation] = set()
    for op in module.walk(reverse=True):
        uses = [use.operation for value in op.results for use in value.uses]
        if op.results and dead.issuperset(uses):
            dead.add(op)
            yield from op.walk()


def lost_by(one: ModulePass, module: ModuleOp) -> set[str]:
    """Run a pass; the attributes that are gone of ops that are not dead before it."""
    before, unused = tags_in(module.walk()), tags_in(dead_in(module))
    installed_compiler()[0].apply(module, [one])
    gone = before - tags_in(module.walk())
    if one.name in ("canonicalize", "cse", "job-clean", "job-add-gradients"):
        gone -= unused
    kinds = ENDS.get(one.name, set())
    return {name for name in gone if name[5:].rpartition(".")[0] not in kinds}


@pytest.mark.parametrize("name", [x for x in PASSES if not x.startswith("verify-")])
def test_a_pass_keeps_them_in_its_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (path,) = (ROOT / "test" / "lowering").glob(f"*/{name}-example.mlir")
    text = path.read_text(encoding="utf-8")
    runs = "".join(re.findall(r"// RUN: (.*\n)", text))
    for place, known in ("%S", path.parent), ("%s", path), ("%t", tmp_path / "t"):
        runs = runs.replace(place, str(known))
    # The database of measured times that some passes ask.
    for planting in re.findall(r"python (.*)", runs):
        monkeypatch.setattr(sys, "argv", shlex.split(planting))
        runpy.run_path(sys.argv[0], run_name="__main__")
    command = re.search(r"-p '?([^'|]*?)'?(?: --|\s*\|)", runs)
    assert command
    compiler, table = installed_compiler(re.findall(r"--load (\S+)", runs))
    module = compiler.parse(text.encode(), "tagged.mlir")
    tag(module)
    for one in parse_passes(table, command[1]):
        assert lost_by(one, module) == set(), one.name


def test_ops_are_replaced_by_one_function():
    """So that no pass or pattern can forget attributes of others."""
    direct = re.compile(r"\bRewriter\.replace_op\(|\brewriter\.replace(_op)?\(")
    files = [*(ROOT / "dialects").rglob("*.py"), *(ROOT / "lowering").rglob("*.py")]
    files.remove(ROOT / "dialects" / "utils" / "attributes.py")
    assert [x for x in files if direct.search(x.read_text(encoding="utf-8"))] == []


WHOLE = PipelineOptions("cpu", winograd=True, waves=True)
SECTIONS = (ROOT / "test" / "pipeline" / "attributes.mlir").read_text(encoding="utf-8")
JOBS = {
    **{f"section {i}": text for i, text in enumerate(SECTIONS.split("// -----"))},
    "encoder": (ROOT / "examples" / "encoder.mlir").read_text(encoding="utf-8"),
    "trained": TRAINED,
    "looped": LOOPED,
}


def check_whole(text: str, options: PipelineOptions) -> ModuleOp:
    module = parsed(text)
    tag(module)
    for one in make_passes(installed_compiler()[1], pipeline(options)):
        assert lost_by(one, module) == set(), one.name
    return module


@pytest.mark.slow
@pytest.mark.parametrize("text", JOBS.values(), ids=JOBS)
def test_they_end_at_the_actors_and_calls_of_a_program(text: str):
    module = check_whole(text, WHOLE)
    kept = [tags_in([op]) for op in module.walk() if op.name.startswith("launch.")]
    assert {*map(len, kept)} > {0}


@pytest.mark.slow
def test_linked_jobs_keep_them():
    text = (ROOT / "test" / "pipeline" / "main.mlir").read_text(encoding="utf-8")
    check_whole(text, PipelineOptions(main=True))
