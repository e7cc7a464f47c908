"""Gradients that ops say, against central differences of their meaning in 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.job import (
    GradientsOp,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
)
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.job.add_gradients import JobAddGradientsPass
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model

Array: TypeAlias = npt.NDArray[Any]
Build: TypeAlias = Callable[[OpBuilder, Sequence[SSAValue]], Sequence[SSAValue]]

STEP = 6e-6
"""The cube root of the epsilon of f64, where errors of rounding and of steps meet."""
TOLERANCE = 1e-6


def gradient_job(
    build: Build, operands: Sequence[Array], by: Sequence[int]
) -> ModuleOp:
    """
    A job with inputs `x0`, `x1`, ... and the gradients `g<i>` by some of them of a
    loss, the sum of all results of `build`, each times an input `r0`, `r1`, ... of its
    shape. Results that are no floats do not count.
    """
    block = Block()
    o = OpBuilder(block.add_op)

    def port(name: str, type: TensorType) -> SSAValue:
        block.add_op(op := InputOp(name, type))
        return op.result

    ins = [
        port(f"x{i}", TensorType(element_type_of(x.dtype), x.shape))
        for i, x in enumerate(operands)
    ]
    results = [x for x in build(o, ins) if str(o.element(x)).startswith(("f", "bf"))]
    loss = None
    for i, result in enumerate(results):
        type = tensor_type(result)
        terms = o.mul(result, port(f"r{i}", type))
        term = o.sum(terms, range(type.get_num_dims()))
        loss = term if loss is None else o.add(loss, term)
    assert loss is not None, "there is a result of floats"
    block.add_op(OutputOp("loss", loss))
    block.add_op(gradients := GradientsOp(loss, [ins[i] for i in by]))
    for i, gradient in zip(by, gradients.gradients, strict=True):
        block.add_op(OutputOp(f"g{i}", gradient))
    job = JobOp("train", PlacementAttr("cpu", [(0, 0)]), Region(block))
    module = ModuleOp([job])
    module.verify()
    return module


def outputs_of(module: ModuleOp, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The outputs of a job by the meanings of its ops."""
    return evaluate_model(Model(module, {}, Path()), inputs)


def shape_of(module: ModuleOp, name: str) -> tuple[int, ...]:
    """The shape of an input."""
    for op in module.walk():
        if isinstance(op, InputOp) and op.port.data == name:
            return tensor_type(op.result).get_shape()
    raise LookupError(name)


def check_gradients(
    build: Build,
    operands: Sequence[Array],
    by: Sequence[int] | None = None,
    tolerance: float = TOLERANCE,
    rules: Sequence[str] = (),
) -> None:
    """
    Compare the gradients by all operands in f64, or `by` some, with central
    differences, relative to the largest of each operand. `rules` are asked first.
    """
    # NumPy makes scalars of arrays without axes.
    operands = [np.asarray(x) for x in operands]
    if by is None:
        by = [i for i, x in enumerate(operands) if x.dtype == np.float64]
    module = gradient_job(build, operands, by)
    forward = module.clone()
    drop_gradients(forward)
    JobAddGradientsPass(rules=tuple(rules)).apply(Context(), module)
    module.verify()
    rng = np.random.default_rng(len(operands))
    inputs = {f"x{i}": x for i, x in enumerate(operands)}
    for name in names_in(module):
        if name.startswith("r"):
            inputs[name] = rng.normal(size=shape_of(module, name))
    found = outputs_of(module, inputs)
    for i in by:
        wanted = differences(forward, inputs, f"x{i}")
        scale = max(1e-3, float(np.abs(wanted).max(initial=0)))
        error = float(np.abs(found[f"g{i}"] - wanted).max(initial=0)) / scale
        assert error <= tolerance, f"operand {i}: {error}\n{found[f'g{i}']}\n{wanted}"


def differences(module: ModuleOp, inputs: Mapping[str, Array], name: str) -> Array:
    """The central differences of the loss by one input."""
    x = inputs[name]
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = STEP * max(1.0, abs(float(x[at])))
        ends: list[float] = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            ends.append(float(outputs_of(module, {**inputs, name: moved})["loss"]))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def names_in(module: ModuleOp) -> list[str]:
    """The names of the inputs of a job."""
    return [op.port.data for op in module.walk() if isinstance(op, InputOp)]


def drop_gradients(module: ModuleOp) -> None:
    """Leave of a job its loss."""
    for op in reversed(list(module.walk())):
        is_gradient = isinstance(op, OutputOp) and op.port.data != "loss"
        if is_gradient or isinstance(op, GradientsOp):
            op.detach()
            op.erase()


def check_op(op: type[TensorOp], *operands: Array, **properties: object) -> None:
    """Compare the gradients of one op with central differences."""
    check_gradients(lambda o, ins: o.results(op, *ins, **properties), operands)
