"""Formulas that are raised compute what they did, in the kernels of named ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf as of_number
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    TensorType,
    UnitAttr,
    f16,
    f32,
    f64,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from penstock.dialects.job import InputOp, JobOp, OutputOp, PlacementAttr
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import (
    AddOp,
    ConstantOp,
    DivOp,
    ErfOp,
    ExpOp,
    LogOp,
    MulOp,
    PowOp,
    ReciprocalOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceSumOp,
    RsqrtOp,
    SqrtOp,
    SubOp,
    TanhOp,
)
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import dense_of, dtype_of
from penstock.lowering.op.raise_patterns import raise_job
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Wide: TypeAlias = NDArray[np.float64]
CPU = PlacementAttr("cpu", [(0, 0)])
TYPES: dict[str, AnyFloat] = {"f16": f16, "f32": f32, "f64": f64}
ERRORS = {"f16": 4e-3, "f32": 2e-6, "f64": 1e-14}
"""Errors of results, relative to the largest: those of a few roundings."""


class Writer:
    """Writes the ops of a job, in one of two ways of each formula."""

    def __init__(self, element: AnyFloat, seed: int) -> None:
        self.block = Block()
        self.element = element
        self.random = np.random.default_rng(seed)

    def add(self, op: Operation) -> SSAValue:
        """The result of an op at the end."""
        self.block.add_op(op)
        return op.results[0]

    def input(self, name: str, shape: Sequence[int]) -> SSAValue:
        """An input of the job."""
        return self.add(InputOp(name, TensorType(self.element, shape)))

    def number(self, value: float) -> SSAValue:
        """A constant of rank 0."""
        return self.add(ConstantOp(dense_of(np.array(value, dtype_of(self.element)))))

    def chance(self) -> bool:
        """A choice between two ways, each as likely."""
        return self.random.random() < 0.5

    def two(self, kind: type[TensorOp], a: SSAValue, b: SSAValue) -> SSAValue:
        """A sum or product in either order."""
        return self.add(kind.inferred([b, a] if self.chance() else [a, b]))

    def reduced(
        self, kind: type[TensorOp], x: SSAValue, axes: Sequence[int]
    ) -> SSAValue:
        """A reduction that keeps its axes."""
        properties = {"axes": int_list(axes), "keepdims": UnitAttr()}
        return self.add(kind.inferred([x], properties))

    def mean(self, x: SSAValue, axes: Sequence[int], terms: int) -> SSAValue:
        """A mean, or a sum that is divided."""
        if self.chance():
            return self.reduced(ReduceMeanOp, x, axes)
        total = self.reduced(ReduceSumOp, x, axes)
        return self.quotient(total, self.number(terms))

    def square(self, x: SSAValue) -> SSAValue:
        """A product, or a power."""
        if self.chance():
            return self.add(MulOp.inferred([x, x]))
        return self.add(PowOp.inferred([x, self.number(2)]))

    def quotient(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """A quotient, or a product with a reciprocal."""
        if self.chance():
            return self.add(DivOp.inferred([a, b]))
        return self.two(MulOp, a, self.add(ReciprocalOp(b)))

    def over_root(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """A quotient by a root, or a product with one over it."""
        if self.chance():
            return self.two(MulOp, a, self.add(RsqrtOp(b)))
        return self.quotient(a, self.add(SqrtOp(b)))


ROWS, COLUMNS = 5, 23


def softmax(w: Writer) -> SSAValue:
    """The powers below the largest element, over their sum."""
    x = w.input("x", (ROWS, COLUMNS))
    below = w.add(SubOp.inferred([x, w.reduced(ReduceMaxOp, x, [1])]))
    powers = w.add(ExpOp(below))
    return w.quotient(powers, w.reduced(ReduceSumOp, powers, [1]))


def log_softmax(w: Writer) -> SSAValue:
    """Differences to the largest element, less the logarithm of the sum of powers."""
    x = w.input("x", (ROWS, COLUMNS))
    below = w.add(SubOp.inferred([x, w.reduced(ReduceMaxOp, x, [1])]))
    total = w.reduced(ReduceSumOp, w.add(ExpOp(below)), [1])
    return w.add(SubOp.inferred([below, w.add(LogOp(total))]))


def layer_norm(w: Writer) -> SSAValue:
    """With a scale and a bias."""
    x = w.input("x", (ROWS, COLUMNS))
    scale, bias = w.input("g", (COLUMNS,)), w.input("b", (COLUMNS,))
    below = w.add(SubOp.inferred([x, w.mean(x, [1], COLUMNS)]))
    variance = w.mean(w.square(below), [1], COLUMNS)
    steady = w.two(AddOp, variance, w.number(1e-3))
    normal = w.over_root(below, steady)
    return w.two(AddOp, w.two(MulOp, normal, scale), bias)


def rms_norm(w: Writer) -> SSAValue:
    """With a scale."""
    x, scale = w.input("x", (ROWS, COLUMNS)), w.input("g", (COLUMNS,))
    steady = w.two(AddOp, w.mean(w.square(x), [1], COLUMNS), w.number(1e-3))
    return w.two(MulOp, w.over_root(x, steady), scale)


def gelu(w: Writer) -> SSAValue:
    """Half of x times one more than erf."""
    x = w.input("x", (ROWS, COLUMNS))
    spread = w.add(ErfOp(w.quotient(x, w.number(np.sqrt(2)))))
    chance = w.two(AddOp, spread, w.number(1))
    if w.chance():
        return w.two(MulOp, w.two(MulOp, x, w.number(0.5)), chance)
    return w.two(MulOp, w.two(MulOp, x, chance), w.number(0.5))


def gelu_by_tanh(w: Writer) -> SSAValue:
    """By the approximation."""
    x = w.input("x", (ROWS, COLUMNS))
    cube = w.add(PowOp.inferred([x, w.number(3)]))
    inner = w.two(AddOp, x, w.two(MulOp, cube, w.number(0.044715)))
    spread = w.add(TanhOp(w.two(MulOp, inner, w.number(np.sqrt(2 / np.pi)))))
    return w.two(
        MulOp, w.two(MulOp, x, w.two(AddOp, spread, w.number(1))), w.number(0.5)
    )


def shares(x: Wide) -> Wide:
    """The softmax of rows."""
    powers = np.exp(x - np.max(x, 1, keepdims=True))
    return powers / np.sum(powers, 1, keepdims=True)


def erf(x: Wide) -> Wide:
    """The error function."""
    return np.array([[of_number(number) for number in row] for row in x.tolist()])


class Formula(NamedTuple):
    """A formula as ops, the op that it becomes, and its meaning in `f64`."""

    write: Callable[[Writer], SSAValue]
    name: str
    wanted: Callable[..., Wide]


def normal(x: Wide, scale: Wide, bias: Wide) -> Wide:
    """The layer norm of rows."""
    below = x - np.mean(x, 1, keepdims=True)
    variance = np.mean(np.square(below), 1, keepdims=True)
    return below / np.sqrt(variance + 1e-3) * scale + bias


def scaled(x: Wide, scale: Wide) -> Wide:
    """The RMS norm of rows."""
    return x / np.sqrt(np.mean(x * x, 1, keepdims=True) + 1e-3) * scale


def log_shares(x: Wide) -> Wide:
    """The logarithm of shares."""
    return np.log(shares(x))


def by_erf(x: Wide) -> Wide:
    """GELU."""
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def by_tanh(x: Wide) -> Wide:
    """The approximation of GELU."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


FORMULAS = {
    "softmax": Formula(softmax, "op.softmax", shares),
    "log_softmax": Formula(log_softmax, "op.log_softmax", log_shares),
    "layer_norm": Formula(layer_norm, "op.layer_norm", normal),
    "rms_norm": Formula(rms_norm, "op.rms_norm", scaled),
    "gelu": Formula(gelu, "op.gelu", by_erf),
    "gelu by tanh": Formula(gelu_by_tanh, "op.gelu", by_tanh),
}


def job_of(formula: Formula, type: str, seed: int) -> ModuleOp:
    """A job of a formula."""
    writer = Writer(TYPES[type], seed)
    value = formula.write(writer)
    writer.block.add_op(OutputOp("y", value))
    return ModuleOp([JobOp("formula", CPU, Region(writer.block))])


def inputs_of(module: ModuleOp, seed: int) -> dict[str, Array]:
    """Random inputs of a job."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for op in module.walk():
        if isinstance(op, InputOp):
            type = op.result.type
            assert isinstance(type, TensorType)
            array = random.normal(size=type.get_shape())
            found[op.port.data] = array.astype(dtype_of(type.element_type))
    return found


def port_of(value: SSAValue) -> str:
    """The input that a value is."""
    assert isinstance(value.owner, InputOp)
    return value.owner.port.data


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_raised_however_they_are_spelled(
    name: str, type: str, seed: int
) -> None:
    print(f"seed {seed}")
    formula = FORMULAS[name]
    module = job_of(formula, type, seed)
    (job,) = (op for op in module.walk() if isinstance(op, JobOp))
    raise_job(job)
    module.verify()
    made = [op for op in job.body.block.ops if op.name == formula.name]
    assert len(made) == 1, str(module)
    others = {"op.constant", "job.input", "job.output", "op.reshape", formula.name}
    assert {op.name for op in job.body.block.ops} <= others
    given = inputs_of(module, seed)
    op = made[0]
    assert isinstance(op, TensorOp)
    (found,) = op.meaning(*(given[port_of(value)] for value in op.operands))
    check(found, formula, given, type)


def check(found: Array, formula: Formula, given: dict[str, Array], type: str) -> None:
    """Compare a result with that of NumPy in `f64`."""
    wanted = formula.wanted(*(array.astype(np.float64) for array in given.values()))
    error = np.abs(found.astype(np.float64) - wanted).max()
    assert error <= ERRORS[type] * np.abs(wanted).max()


@pytest.mark.parametrize("name", FORMULAS)
def test_a_session_runs_the_kernel_of_the_named_op(name: str) -> None:
    formula = FORMULAS[name]
    module = job_of(formula, "f32", 7)
    given = inputs_of(module, 7)
    with Session(Model(module, {}, Path())) as session:
        check(session.run(given)["y"], formula, given, "f32")
        kernels = [op for op in session.program.walk() if isinstance(op, KernelOp)]
    (kernel,) = (op.sym_name.data for op in kernels)
    assert kernel == formula.name.replace("op.", "") + "_0"
