"""Alternatives for ops that fusion made members of groups, against NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, i64
from xdsl.dialects.builtin import IntegerAttr as Integer
from xdsl.ir import Attribute, Block, Region
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.launch import KernelOp
from penstock.lowering.launch.autotune import registry
from penstock.lowering.launch.autotune.alternatives import (
    Alternative,
    Request,
    Variant,
)
from penstock.plugins import register
from penstock.runtime.jit.cache import VARIABLE
from penstock.tools.exceptions import PenstockError
from penstock.tools.session.session import Model, Session

JOB = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<6x5xf32>
  %w = job.input "w" : tensor<5x7xf32>
  %b = job.input "b" : tensor<7xf32>
  %m = op.matmul %x, %w : tensor<6x5xf32>, tensor<5x7xf32> -> tensor<6x7xf32>
  %s = op.add %m, %b : tensor<6x7xf32>, tensor<7xf32> -> tensor<6x7xf32>
  %y = op.relu %s : tensor<6x7xf32> -> tensor<6x7xf32>
  %e = op.exp %x : tensor<6x5xf32> -> tensor<6x5xf32>
  %n = op.neg %e : tensor<6x5xf32> -> tensor<6x5xf32>
  job.output "y", %y : tensor<6x7xf32>
  job.output "n", %n : tensor<6x5xf32>
}"""

PRODUCT = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32

@c_kernel
def kernel(args, part, parts):
    x, w = buffer_f32(args, 0, 4), buffer_f32(args, 1, 4)
    b, y = buffer_f32(args, 2, 4), buffer_f32(args, 3, 4)
    for i in range(6):
        for j in range(7):
            total = b[j]
            for k in range(5):
                total += x[i * 5 + k] * w[k * 7 + j]
            y[i * 7 + j] = max(total, f32(0))
    return 0
"""
POWERS = """
import math
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel, f32

@c_kernel
def kernel(args, part, parts):
    x, y = buffer_f32(args, 0, 2), buffer_f32(args, 1, 2)
    for i in range(30):
        y[i] = -f32(math.exp(x[i]))
    return 0
"""


class Sourced(Alternative):
    """Kernels of a source."""

    priority = 10
    text = ""

    def variants(self, request: Request) -> Iterator[Variant]:
        def apply(kernel: KernelOp) -> None:
            kernel.attributes["source"] = StringAttr(self.text)

        yield Variant(apply)


def model() -> Model:
    """The job, of which two groups are made."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Model(Parser(context, JOB).parse_module(), {}, Path())


def offer(name: str, op: str, absorbs: Sequence[str], text: str) -> Sourced:
    """Register an alternative."""
    made = Sourced()
    made.name, made.ops, made.absorbs, made.text = name, (op,), absorbs, text
    return register("kernel", name)(made)


@pytest.fixture(scope="module")
def offered() -> Sourced:
    """Alternatives for members of both groups, of which that of the product."""
    offer("own-powers", "op.exp", ["op.neg"], POWERS)
    return offer("own-product", "op.matmul", ["op.add", "op.relu"], PRODUCT)


def selected(session: Session) -> list[str]:
    """The alternatives of the kernels."""
    notes = [
        kernel.attributes["selected"]
        for kernel in session.program.walk()
        if isinstance(kernel, KernelOp)
    ]
    texts = [note.data for note in notes if isinstance(note, StringAttr)]
    return sorted(text.partition(":")[0] for text in texts)


@pytest.mark.usefixtures("offered")
def test_groups_are_offered_to_alternatives_that_absorb_their_members() -> None:
    random = np.random.default_rng(3)
    shapes = {"x": (6, 5), "w": (5, 7), "b": (7,)}
    given = {k: random.normal(size=v).astype(np.float32) for k, v in shapes.items()}
    with Session(model()) as session:
        assert selected(session) == ["own-powers", "own-product"]
        found = session.run(given)
    x, w, b = (array.astype(np.float64) for array in given.values())
    np.testing.assert_allclose(
        found["y"].astype(np.float64), np.maximum(x @ w + b, 0), 1e-5, 1e-6
    )
    np.testing.assert_allclose(found["n"].astype(np.float64), -np.exp(x), 1e-6)


def line_of(text: str) -> int:
    """The line of this file that begins so."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.startswith(text))


BROKEN = """
from penstock.runtime.kernels.cpu.support import c_kernel

@c_kernel
def kernel(args, part, parts):
    unfinished = 1 +
    return 0
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [(BROKEN, "    unfinished"), (PRODUCT.replace("0", "nowhere"), "class Sourced")],
)
def test_a_failing_source_of_a_group_names_its_alternative_and_line(
    offered: Sourced, monkeypatch: pytest.MonkeyPatch, text: str, line: str
) -> None:
    monkeypatch.setattr(offered, "text", text)
    with pytest.raises(PenstockError) as caught:
        Session(model())
    said = str(caught.value)
    assert "kernel @fused_matmul_0: its source fails: " in said
    place = f"{__file__}:{line_of(line)}"
    assert f", of the alternative 'own-product' ({place})" in said


def request_of(op: str, *holds: str) -> Request:
    """A request for a kernel that computes these ops."""
    kernel = KernelOp("k", "cpu", Region(Block()))
    cost: dict[str, Attribute] = {
        "bytes": Integer(1, i64),
        "flops": Integer(1, i64),
        "op": StringAttr(op),
    }
    if holds:
        cost["holds"] = ArrayAttr(map(StringAttr, holds))
    kernel.attributes["cost"] = DictionaryAttr(cost)
    return Request(kernel)


@pytest.mark.parametrize(
    ("ops", "absorbs", "reason"),
    [
        (["op.matmul"], ["op.add", "op.relu"], None),
        (["op.matmul"], None, None),
        (["op.fused"], [], None),
        (["op.fused(matmul)"], [], None),
        (["op.matmul"], ["op.add"], "does not absorb groups of op.relu"),
        (
            ["op.matmul", "op.relu"],
            [],
            "does not absorb groups of op.matmul, op.relu",
        ),
        (["op.conv2d"], None, "is for op.conv2d"),
    ],
)
def test_what_is_not_absorbed_is_the_reason(
    ops: Sequence[str], absorbs: Sequence[str] | None, reason: str | None
) -> None:
    alternative = Sourced()
    alternative.ops, alternative.absorbs = ops, absorbs
    group = request_of("op.fused(matmul)", "op.matmul", "op.relu")
    assert alternative.refusal(group) == reason


def test_one_op_is_no_group() -> None:
    alternative = Sourced()
    alternative.ops = ["op.matmul"]
    assert alternative.refusal(request_of("op.matmul")) is None
    assert request_of("op.matmul").computes == ("op.matmul",)


IMPORTING = PRODUCT.replace(
    "from penstock", "from helper_of_products import zero\nfrom penstock", 1
).replace("f32(0)", "f32(zero)")


def test_a_saved_plan_names_the_alternative_of_a_source_that_fails_later(
    offered: Sourced,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "helper_of_products.py").write_text("zero = 0\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(offered, "text", IMPORTING)
    plan = tmp_path / "net.penstock"
    with Session(model()) as session:
        session.save(plan)

    def nothing(_: str) -> list[object]:
        """Stand in for plug-ins where the plan goes."""
        return []

    monkeypatch.setattr(registry, "plugins_of", nothing)
    # Nor is there what its source imports.
    monkeypatch.delitem(sys.modules, "helper_of_products", raising=False)
    (tmp_path / "helper_of_products.py").unlink()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("penstock.runtime.jit.cpu._compiled", {})
    with pytest.raises(PenstockError) as caught:
        Session.open(plan, allow_source=True)
    place = f"test_group_alternatives.py:{line_of('class Sourced')}"
    said = str(caught.value)
    assert "kernel @fused_matmul_0: its source fails: ModuleNotFoundError" in said
    assert said.endswith(f", of the alternative 'own-product' ({place})")
