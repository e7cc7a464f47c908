"""
The page `docs/onnx.md`: which of ONNX's own test cases of single ops pass.

    python -m penstock.tools.reports.onnx_coverage docs/onnx.md

Each case is imported, made to a job, and taken through the passes on jobs; the result
of the job in NumPy is compared with that of the case. Inputs that a shape depends on
are taken as known.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from penstock.dialects.job import InputOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.dialects.utils.hints import isa
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import Rejected, UsageError
from penstock.tools.frontend.onnx.model import ImportedModel, closed, import_for
from penstock.tools.frontend.onnx.ops import Array
from penstock.tools.frontend.onnx.ports import tensor_name
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model

JOB_PASSES = (
    "op-infer-shapes,job-clean,op-fold-constants,op-widen-sums,op-split-pads,"
    "job-clean,op-fuse-elementwise,job-clean"
)
"""The passes on a job before it becomes a plan."""

LAST_PLACE = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
"""
The unit in the last place of 1. For f16 and bf16, ONNX's reference rounds at each of
its steps, and we do once.
"""

NOISE = 2.0**-21
"""
The allowed difference, relative to the largest number of a result: four units in its
last place, as `float32`. Sums that should be zero have that in the cases.
"""

EXPANDED = "_expanded"
"""A part of the names of cases whose op is written out by other ops."""


class Case(Protocol):
    """A test case of ONNX: the parts that are used here."""

    name: str
    model: ModelProto | None
    data_sets: Sequence[tuple[Sequence[object], Sequence[object]]] | None
    rtol: float
    atol: float


class Verdict(StrEnum):
    """The result of a case."""

    PASSED = "passed"
    FOLDED = "folded"
    """Passed, but with nothing left to do at run time."""
    UNSUPPORTED = "unsupported"
    WRONG = "wrong"


@dataclass(frozen=True)
class Outcome:
    """The verdict of a case, and the reason if it did not pass."""

    verdict: Verdict
    reason: str = ""


@cache
def all_cases() -> Sequence[Case]:
    """The cases of single ops that the package `onnx` makes, sorted by name."""
    with warnings.catch_warnings():
        # They are about overflows that the cases mean to have.
        warnings.simplefilter("ignore")
        cases = cast(list[Case], collect_testcases(None))
    return sorted(cases, key=lambda case: case.name)


def op_of(case: Case) -> str:
    """The op that a case is about."""
    return _ops_by_name()[case.name.partition(EXPANDED)[0]]


@cache
def _ops_by_name() -> Mapping[str, str]:
    ops: dict[str, str] = {}
    for case in all_cases():
        assert case.model is not None, "cases of single ops have their model"
        base = case.name.partition(EXPANDED)[0]
        if EXPANDED not in case.name or base not in ops:
            # The op that others prepare operands for is the last one.
            proto = case.model.graph.node[-1]
            ops[base] = f"{proto.domain}.{proto.op_type}".lstrip(".")
    return ops


def run_case(case: Case) -> Outcome:
    """The outcome of a case: its job in NumPy against the outputs that it expects."""
    assert case.model is not None, "cases of single ops have their model"
    assert case.data_sets is not None, "cases of single ops have their data"
    names = [value.name for value in case.model.graph.input]
    outcomes = [
        run_once(case, case.model, dict(zip(names, inputs, strict=False)), wanted)
        for inputs, wanted in case.data_sets
    ]
    return max(outcomes, key=lambda outcome: list(Verdict).index(outcome.verdict))


def run_once(
    case: Case,
    model: ModelProto,
    inputs: Mapping[str, object],
    wanted: Sequence[object],
) -> Outcome:
    """The outcome of a model for some inputs."""
    arrays = arrays_of([*inputs], [*inputs.values()])
    try:
        imported = imported_for(model, case.name, arrays)
    except (Rejected, UsageError) as error:
        return Outcome(Verdict.UNSUPPORTED, reason_of(error))
    try:
        got = evaluated(imported, arrays)
    except (Rejected, LocatedPassFailure, UsageError) as error:
        return Outcome(Verdict.WRONG, f"{type(error).__name__}: {error}")
    names = [value.name for value in imported.proto.graph.output]
    problem = difference(case, got, arrays_of(names, wanted))
    if problem:
        return Outcome(Verdict.WRONG, problem)
    works = any(isinstance(op, InputOp) for op in imported.module.walk())
    return Outcome(Verdict.PASSED if works else Verdict.FOLDED)


def imported_for(
    model: ModelProto, name: str, arrays: Mapping[str, Array]
) -> ImportedModel:
    """A model, which is left as it is, imported for arrays."""
    copy = ModelProto()
    copy.CopyFrom(model)
    return import_for(closed(copy, arrays, {}), name, arrays)


def arrays_of(names: Sequence[str], values: Sequence[object]) -> dict[str, Array]:
    """The tensors of a data set by name, with a name for each one of a sequence."""
    found: dict[str, Array] = {}
    for name, value in zip(names, values, strict=True):
        if isa(value, list[object]):
            found |= {tensor_name(name, i): as_array(x) for i, x in enumerate(value)}
        elif value is not None:
            found[name] = as_array(value)
    return found


def as_array(value: object) -> Array:
    """A tensor of a data set as an array."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def evaluated(imported: ImportedModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a job in NumPy, after the passes on jobs."""
    compiler, passes = installed_compiler()
    compiler.verify(imported.module)
    run_pipeline(compiler, passes, imported.module, JOB_PASSES)
    return evaluate_model(Model(imported.module, imported.weights, Path()), inputs)


def difference(
    case: Case, results: Mapping[str, Array], wanted: Mapping[str, Array]
) -> str:
    """
    The difference of results from those of a case, in words; empty if there is none.
    """
    if results.keys() != wanted.keys():
        return f"{', '.join(wanted)} are expected, got {', '.join(results)}"
    for name, expected in wanted.items():
        array = results[name]
        if array.dtype != expected.dtype:
            return f"expected {expected.dtype}, got {array.dtype}"
        if array.shape != expected.shape:
            return f"expected the shape {expected.shape}, got {array.shape}"
        if not np.allclose(
            array.astype(np.float64),
            expected.astype(np.float64),
            max(case.rtol, 2 * LAST_PLACE.get(expected.dtype.name, 0)),
            max(case.atol, NOISE * largest_of(expected)),
            equal_nan=True,
        ):
            return "the values differ"
    return ""


def largest_of(array: Array) -> float:
    """The largest size of a finite `float32`; 0 without any."""
    if array.dtype.name != "float32":
        return 0.0
    sizes = np.abs(array.astype(np.float64))
    return float(sizes.max(initial=0, where=np.isfinite(sizes)))


def reason_of(error: Rejected | UsageError) -> str:
    """The reason why a model cannot be imported, without the names of nodes."""
    if isinstance(error, UsageError):
        return str(error).partition(": ")[2]
    notes = [note.strip() for each in error.diagnoses for note in each.notes]
    first = notes[0] if notes else str(error)
    if first.startswith("op "):
        return first.partition(":")[0]
    return first.partition("': ")[2] or first


@dataclass
class Tally:
    """The verdicts of the cases of one op, counted."""

    counts: dict[Verdict, int] = field(
        default_factory=lambda: dict.fromkeys(Verdict, 0)
    )
    reasons: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.counts[outcome.verdict] += 1
        if outcome.reason:
            self.reasons[outcome.reason] = self.reasons.get(outcome.reason, 0) + 1


def tallied(outcomes: Mapping[str, Outcome]) -> dict[str, Tally]:
    """Outcomes of cases by name, counted by op; sorted."""
    found: defaultdict[str, Tally] = defaultdict(Tally)
    for case in all_cases():
        found[op_of(case)].add(outcomes[case.name])
    return dict(sorted(found.items()))


HEAD = """# Ops of ONNX

<!-- Made by `python -m penstock.tools.reports.onnx_coverage`; do not edit. -->

The importer reads ONNX from opset 7 on (older models than 13 are brought to 18 first):

* What follows from known values alone, such as arithmetic on static shapes, is
  computed when a model is read. `--dim batch=4` says what a name in a shape stands
  for; extents and shapes that a file leaves open are those of `--inputs`. Inputs that
  a shape depends on are taken as known from there: the job is made for these values.
* In Python `penstock.OnnxSession("model.onnx").run({"x": x})` compiles a model for the
  shapes of the arrays, and the values that a shape depends on, when it is first run
  with them, and keeps the last eight that it has compiled.
* An op without a converter of its own is written out where ONNX defines it by other
  ops.
* Branches whose condition is known are chosen. Others are `op.if`. Results that differ
  in extents have counts. Where they differ in rank or type, or a branch cannot be read,
  the condition is taken as known.
* Recurrent layers, and loops and scans whose number of steps is known, are `op.loop`.
  Loops whose steps differ in shapes, or in what is known, are written out step by step.
* How often a loop runs may follow from data: up to the trip count that it is given, the
  most that a count may be, or the number of `--max NAME=N`, the `maxima` of a session.
  Stacked results have as many rows as iterations were made, and its state may grow.
* `NonZero`, `NonMaxSuppression`, `Unique` and `Compress` of data have room for the most
  elements there can be, and a count: the model is compiled once. What follows goes on
  with the count, up to the outputs, and folds are of what is there; shapes that follow
  from counts may be operands, as the number of `TopK`. Where an op needs more, as a
  `Split` along the axis does, the inputs are taken as known.
* Sequences of a known number of tensors are stacks of these: what a value is split to,
  and what a loop appends. A loop that does more with one is written out step by step.
* An input or output that is a sequence `s` is as many tensors as there are: `s.0`,
  `s.1` and so on. An optional is its element; without one it is not given.
* Scans of opset 8, which run over batches, are loops in a loop.
* What cannot be said is refused, all of it at once, before anything runs.

This page counts the cases that the package `onnx` has for single ops: each is
imported, taken through the passes on jobs, and compared with the outputs that belong
to it, up to the tolerance that the case states, four units in the last place of the
largest number of the result, and two in that of floats of 16 bits, which are computed
in 32 here. *Folded* cases pass, too, but nothing is left of them at run time, as all
they need is known before.

"""


DIFFERENCES = """

## Where others differ

Of some ops ONNX Runtime and the reference of the package `onnx` make different things.
Here the text of the standard counts, and `test_onnx_import_standard.py` compares with
it, and with those who follow it.

| op | what the standard says | ONNX Runtime | the reference |
|---|---|---|---|
"""
EXACT = "`x_original`, in exact numbers"
PEERS = (
    (
        "LSTM with `clip`",
        "the inputs of all activations are clipped",
        "leaves the cell that the last one is of",
        "ignores `clip`",
    ),
    (
        "GRU, RNN with `clip`",
        "the inputs of all activations are clipped",
        "follows",
        "ignores `clip`",
    ),
    (
        "Resize, `tf_crop_and_resize` with `scales`",
        "the extent is `floor(input * (roi_end - roi_start) * scale)`",
        "`floor(input * scale)`",
        "`floor(input * scale)`, and places as if it had not been rounded",
    ),
    (
        "Resize, `tf_crop_and_resize` with `sizes`",
        EXACT,
        "follows",
        "may take a place that is the last element for one outside",
    ),
    (
        "Resize, `pytorch_half_pixel` to one element by `scales`",
        "the first element",
        "follows",
        "only if the extent was 1 before it was rounded",
    ),
    (
        "Resize, `align_corners` by `scales` that leave a fraction",
        "in its cases the extent before it is rounded",
        "the rounded extent",
        "follows",
    ),
    (
        "Resize, extents by `scales`",
        "`floor`, of the number that the file has",
        "of a product in `float32`: 10 by 0.7 is 7",
        "follows",
    ),
    (
        "Resize, `nearest` in the middle of two elements or at one",
        EXACT,
        "rounded to `float32`: some lie beside it",
        "rounded to `float64`: some lie beside it",
    ),
)
"""Implementations that differ from the standard, each tested."""


def page(found: Mapping[str, Tally]) -> str:
    """The text of the page."""
    total = {v: sum(t.counts[v] for t in found.values()) for v in Verdict}
    lines = [
        f"With onnx {onnx.__version__}: {sum(total.values())} cases, "
        f"{total[Verdict.PASSED]} passed, {total[Verdict.FOLDED]} folded, "
        f"{total[Verdict.UNSUPPORTED]} unsupported, {total[Verdict.WRONG]} wrong.\n",
        "| op | passed | folded | unsupported | wrong | why |",
        "|---|---|---|---|---|---|",
    ]
    for op, tally in found.items():
        counts = " | ".join(str(tally.counts[verdict]) for verdict in Verdict)
        lines.append(f"| {op} | {counts} | {_reasons(tally)} |")
    differences = "\n".join(f"| {' | '.join(row)} |" for row in PEERS)
    return HEAD + "\n".join(lines) + DIFFERENCES + differences + "\n"


def _reasons(tally: Tally) -> str:
    ranked = sorted(tally.reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = "; ".join(f"{reason} ({count})" for reason, count in ranked)
    return shown.replace("|", "\\|")


if __name__ == "__main__":
    done = {case.name: run_case(case) for case in all_cases()}
    Path(sys.argv[1]).write_text(page(tallied(done)), encoding="utf-8")
