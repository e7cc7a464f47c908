"""A gradient, or the reason why there is none, of every op on tensors."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from central_differences import check_op
from xdsl.ir import Dialect, Operation
from xdsl.universe import Universe

from penstock.dialects.job import Job
from penstock.dialects.op import Op
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.gradients import Differentiable
from penstock.tools.driver.plugins import load_files, unload

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"


def says(op: type[Operation]) -> bool:
    """Whether an op has a gradient, or a reason why it has none."""
    if not issubclass(op, Differentiable):
        return False
    return op.gradient is not Differentiable.gradient or bool(op.NO_GRADIENT)


def silent(dialect: Dialect) -> list[str]:
    """The ops on tensors of a dialect that say neither."""
    ops = (op for op in dialect.operations if issubclass(op, TensorOp))
    return sorted(op.name for op in ops if not says(op))


def test_every_op_of_the_dialect_says_its_gradient() -> None:
    assert not silent(Op)


def test_ops_of_jobs_that_pass_tensors_on_say_theirs() -> None:
    moving = [
        op
        for op in Job.operations
        if op.name in ("job.after", "job.copy", "job.boxing")
    ]
    assert len(moving) == 3
    assert all(map(says, moving))


def test_no_op_has_both() -> None:
    both = [
        op.name
        for op in Op.operations
        if issubclass(op, Differentiable)
        and op.NO_GRADIENT
        and op.gradient is not Differentiable.gradient
    ]
    assert not both


def installed() -> list[Dialect]:
    """The dialects of all packages that are installed as plug-ins, ours among them."""
    found = [each.load() for each in entry_points(group="xdsl.universe")]
    universes = [each for each in found if isinstance(each, Universe)]
    return [make() for each in universes for make in each.all_dialects.values()]


def test_ops_of_installed_packages_say_theirs() -> None:
    dialects = installed()
    assert Op.name in [dialect.name for dialect in dialects]
    assert not [name for dialect in dialects for name in silent(dialect)]


def test_an_op_of_an_installed_package_that_says_none_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_quiet.py").write_text(QUIET, encoding="utf-8")
    package = tmp_path / "acme_quiet-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: acme-quiet\nVersion: 1.0\n", "utf-8")
    points = "[xdsl.universe]\nacme-quiet = acme_quiet:UNIVERSE\n"
    (package / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    quiet = [name for dialect in installed() for name in silent(dialect)]
    assert quiet == ["acme_quiet.same"]


QUIET = """
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def
from xdsl.universe import Universe

from penstock.dialects.op.tensor_op import TensorOp


@irdl_op_definition
class SameOp(TensorOp):
    name = "acme_quiet.same"
    source = operand_def(TensorType)
    result = result_def(TensorType)


def dialect():
    return Dialect("acme_quiet", [SameOp])


UNIVERSE = Universe(all_dialects={"acme_quiet": dialect})
"""


@pytest.mark.parametrize("file", ["dialect.py", "kernel_form.py", "onnx_op.py"])
def test_ops_of_plug_ins_say_theirs(file: str) -> None:
    path = str(EXAMPLES / file)
    try:
        universe = load_files([path], {})[path]
        dialects = [make() for make in universe.all_dialects.values()]
    finally:
        unload()
    found = [op for dialect in dialects for op in dialect.operations]
    ops = [op for op in found if issubclass(op, TensorOp)]
    assert ops
    assert not [name for dialect in dialects for name in silent(dialect)]
    x = np.random.default_rng(0).normal(size=(3, 4))
    for op in ops:
        if not op.NO_GRADIENT:
            check_op(op, x)
