"""Groups of rows around reductions, against NumPy in float64, on both targets."""

# Meanings work on arrays of all shapes.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.job import InputOp, JobOp, OutputOp
from penstock.dialects.kernel.body_ops import KeepOp
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import REFUSAL
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import FusedOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.codegen.cpu import kernel_schedule as cpu
from penstock.lowering.codegen.cuda import kernel_schedule as cuda
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.op.fuse_elementwise import OpFuseElementwisePass
from penstock.lowering.op.fuse_rows import OpFuseRowsPass
from penstock.runtime.jit.cpu import compile_cpu
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Array: TypeAlias = NDArray[np.generic]
Wide: TypeAlias = NDArray[np.float64]

SEED = 20


@dataclass(frozen=True)
class Case:
    """A job that is one group, with what NumPy makes of its inputs."""

    shapes: Sequence[tuple[int, ...]]
    text: str
    meaning: Callable[..., Sequence[Wide]]
    ulps: float = 16


def _variance(x: Wide, axes: tuple[int, ...]) -> tuple[Wide, Wide]:
    mean = np.mean(x, axes, keepdims=True)
    return x - mean, np.mean(np.square(x - mean), axes, keepdims=True)


def _softmax(x: Wide) -> Sequence[Wide]:
    powers = np.exp(x - np.max(x, -1, keepdims=True))
    return [powers / np.sum(powers, -1, keepdims=True)]


def _softmax_twice(x: Wide) -> Sequence[Wide]:
    (once,) = _softmax(x)
    (twice,) = _softmax(once * once)
    return [twice - once]


def _normalized(x: Wide, g: Wide) -> Sequence[Wide]:
    centered, variance = _variance(x, (-1,))
    return [centered / np.sqrt(variance + 1e-5) * g, np.sqrt(variance + 1e-5)]


def _batch_norm(x: Wide, g: Wide) -> Sequence[Wide]:
    centered, variance = _variance(x, (0, 2, 3))
    return [centered / np.sqrt(variance + 1e-5) * g]


def _gradients(t: Wide, x: Wide) -> Sequence[Wide]:
    return [np.sum(t, -1), np.sum(t * x, -1)]


ROWS = (17, 45)
IMAGE = (3, 16, 5, 7)
CASES: Mapping[str, Case] = {
    "softmax": Case(
        [ROWS],
        """
  %m = op.reduce_max %0 axes [1] keepdims : tensor<17x45xT> -> tensor<17x1xT>
  %d = op.sub %0, %m : tensor<17x45xT>, tensor<17x1xT> -> tensor<17x45xT>
  %e = op.exp %d : tensor<17x45xT> -> tensor<17x45xT>
  %s = op.reduce_sum %e axes [1] keepdims : tensor<17x45xT> -> tensor<17x1xT>
  %y = op.div %e, %s : tensor<17x45xT>, tensor<17x1xT> -> tensor<17x45xT>
  job.output "y", %y : tensor<17x45xT>""",
        lambda x: _softmax(x),
    ),
    "softmax of a softmax, with room for the powers of one": Case(
        [ROWS],
        """
  %s = op.softmax %0 axis 1 : tensor<17x45xT> -> tensor<17x45xT>
  %q = op.mul %s, %s : tensor<17x45xT>, tensor<17x45xT> -> tensor<17x45xT>
  %t = op.softmax %q axis 1 : tensor<17x45xT> -> tensor<17x45xT>
  %y = op.sub %t, %s : tensor<17x45xT>, tensor<17x45xT> -> tensor<17x45xT>
  job.output "y", %y : tensor<17x45xT>""",
        lambda x: _softmax_twice(x),
    ),
    "norm and its deviation": Case(
        [ROWS, (45,)],
        """
  %c = op.constant dense<1.0e-05> : tensor<T>
  %m = op.reduce_mean %0 axes [1] keepdims : tensor<17x45xT> -> tensor<17x1xT>
  %d = op.sub %0, %m : tensor<17x45xT>, tensor<17x1xT> -> tensor<17x45xT>
  %q = op.mul %d, %d : tensor<17x45xT>, tensor<17x45xT> -> tensor<17x45xT>
  %v = op.reduce_mean %q axes [1] keepdims : tensor<17x45xT> -> tensor<17x1xT>
  %a = op.add %v, %c : tensor<17x1xT>, tensor<T> -> tensor<17x1xT>
  %r = op.sqrt %a : tensor<17x1xT> -> tensor<17x1xT>
  %n = op.div %d, %r : tensor<17x45xT>, tensor<17x1xT> -> tensor<17x45xT>
  %y = op.mul %n, %1 : tensor<17x45xT>, tensor<45xT> -> tensor<17x45xT>
  job.output "y", %y : tensor<17x45xT>
  job.output "r", %r : tensor<17x1xT>""",
        _normalized,
    ),
    "scaled by a part of the axes": Case(
        [(2, 9, 4, 8), (4, 1)],
        """
  %m = op.reduce_max %0 axes [2, 3] keepdims : tensor<2x9x4x8xT> -> tensor<2x9x1x1xT>
  %d = op.sub %0, %m : tensor<2x9x4x8xT>, tensor<2x9x1x1xT> -> tensor<2x9x4x8xT>
  %p = op.mul %d, %1 : tensor<2x9x4x8xT>, tensor<4x1xT> -> tensor<2x9x4x8xT>
  %s = op.reduce_sum %p axes [2, 3] : tensor<2x9x4x8xT> -> tensor<2x9xT>
  job.output "p", %p : tensor<2x9x4x8xT>
  job.output "s", %s : tensor<2x9xT>""",
        lambda x, g: [
            (x - np.max(x, (2, 3), keepdims=True)) * g,
            np.sum((x - np.max(x, (2, 3), keepdims=True)) * g, (2, 3)),
        ],
    ),
    "L2 norms": Case(
        [ROWS],
        """
  %q = op.mul %0, %0 : tensor<17x45xT>, tensor<17x45xT> -> tensor<17x45xT>
  %s = op.reduce_sum %q axes [1] : tensor<17x45xT> -> tensor<17xT>
  %r = op.sqrt %s : tensor<17xT> -> tensor<17xT>
  job.output "r", %r : tensor<17xT>""",
        lambda x: [np.linalg.norm(x, axis=-1)],
    ),
    "independent folds": Case(
        [ROWS, ROWS],
        """
  %a = op.reduce_sum %0 axes [1] : tensor<17x45xT> -> tensor<17xT>
  %p = op.mul %0, %1 : tensor<17x45xT>, tensor<17x45xT> -> tensor<17x45xT>
  %b = op.reduce_sum %p axes [1] : tensor<17x45xT> -> tensor<17xT>
  job.output "a", %a : tensor<17xT>
  job.output "b", %b : tensor<17xT>""",
        _gradients,
        64,
    ),
    "rows that others use": Case(
        [ROWS],
        """
  %e = op.exp %0 : tensor<17x45xT> -> tensor<17x45xT>
  %s = op.reduce_sum %e axes [1] keepdims : tensor<17x45xT> -> tensor<17x1xT>
  %y = op.div %e, %s : tensor<17x45xT>, tensor<17x1xT> -> tensor<17x45xT>
  %z = op.log %y : tensor<17x45xT> -> tensor<17x45xT>
  job.output "e", %e : tensor<17x45xT>
  job.output "y", %y : tensor<17x45xT>
  job.output "z", %z : tensor<17x45xT>""",
        lambda x: [
            np.exp(x),
            np.exp(x) / np.sum(np.exp(x), -1, keepdims=True),
            x - np.log(np.sum(np.exp(x), -1, keepdims=True)),
        ],
    ),
    "a bias gradient": Case(
        [(70, 40), (70, 40)],
        """
  %p = op.mul %0, %1 : tensor<70x40xT>, tensor<70x40xT> -> tensor<70x40xT>
  %s = op.reduce_sum %p axes [0] : tensor<70x40xT> -> tensor<40xT>
  %y = op.neg %s : tensor<40xT> -> tensor<40xT>
  job.output "y", %y : tensor<40xT>""",
        lambda a, b: [-np.sum(a * b, 0)],
        64,
    ),
    "the variance of a batch": Case(
        [IMAGE, (1, 16, 1, 1)],
        """
  %d = op.sub %0, %1 : tensor<3x16x5x7xT>, tensor<1x16x1x1xT> -> tensor<3x16x5x7xT>
  %q = op.mul %d, %d : tensor<3x16x5x7xT>, tensor<3x16x5x7xT> -> tensor<3x16x5x7xT>
  %v = op.reduce_mean %q axes [0, 2, 3] keepdims
    : tensor<3x16x5x7xT> -> tensor<1x16x1x1xT>
  %r = op.sqrt %v : tensor<1x16x1x1xT> -> tensor<1x16x1x1xT>
  %y = op.mul %r, %1 : tensor<1x16x1x1xT>, tensor<1x16x1x1xT> -> tensor<1x16x1x1xT>
  job.output "y", %y : tensor<1x16x1x1xT>""",
        lambda x, m: [np.sqrt(np.mean(np.square(x - m), (0, 2, 3), keepdims=True)) * m],
    ),
}
ON_CPUS: Mapping[str, Case] = {
    "batch norm": Case(
        [IMAGE, (16, 1, 1)],
        """
  %c = op.constant dense<1.0e-05> : tensor<T>
  %m = op.reduce_mean %0 axes [0, 2, 3] keepdims
    : tensor<3x16x5x7xT> -> tensor<1x16x1x1xT>
  %d = op.sub %0, %m : tensor<3x16x5x7xT>, tensor<1x16x1x1xT> -> tensor<3x16x5x7xT>
  %q = op.mul %d, %d : tensor<3x16x5x7xT>, tensor<3x16x5x7xT> -> tensor<3x16x5x7xT>
  %v = op.reduce_mean %q axes [0, 2, 3] keepdims
    : tensor<3x16x5x7xT> -> tensor<1x16x1x1xT>
  %a = op.add %v, %c : tensor<1x16x1x1xT>, tensor<T> -> tensor<1x16x1x1xT>
  %r = op.sqrt %a : tensor<1x16x1x1xT> -> tensor<1x16x1x1xT>
  %n = op.div %d, %r : tensor<3x16x5x7xT>, tensor<1x16x1x1xT> -> tensor<3x16x5x7xT>
  %y = op.mul %n, %1 : tensor<3x16x5x7xT>, tensor<16x1x1xT> -> tensor<3x16x5x7xT>
  job.output "y", %y : tensor<3x16x5x7xT>""",
        _batch_norm,
    ),
    "columns": Case(
        [(9, 33)],
        """
  %m = op.reduce_max %0 axes [0] : tensor<9x33xT> -> tensor<33xT>
  %d = op.sub %0, %m : tensor<9x33xT>, tensor<33xT> -> tensor<9x33xT>
  %e = op.exp %d : tensor<9x33xT> -> tensor<9x33xT>
  %s = op.reduce_sum %e axes [0] : tensor<9x33xT> -> tensor<33xT>
  %y = op.div %e, %s : tensor<9x33xT>, tensor<33xT> -> tensor<9x33xT>
  job.output "y", %y : tensor<9x33xT>""",
        lambda x: [_softmax(x.T)[0].T],
    ),
}
EPSILON = {"f16": 2.0**-10, "f32": 2.0**-23, "f64": 2.0**-52}
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def group_of(case: Case, type: str, device: str) -> FusedOp:
    """The group of a case, which has all of its ops."""
    inputs = "".join(
        f'  %{n} = job.input "{n}" : tensor<{"x".join(map(str, shape))}xT>\n'
        for n, shape in enumerate(case.shapes)
    )
    text = f"job.job @net placement <{device}, [0:0]> {{\n{inputs}{case.text}\n}}"
    text = text.replace("xT>", f"x{type}>").replace("<T>", f"<{type}>")
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, text).parse_module()
    OpFuseElementwisePass().apply(context, module)
    OpFuseRowsPass().apply(context, module)
    module.verify()
    (job,) = (op for op in module.walk() if isinstance(op, JobOp))
    found = [op for op in job.body.block.ops if isinstance(op, TensorOp)]
    (group,) = found
    assert isinstance(group, FusedOp)
    return group


def arrays_of(case: Case, type: str) -> list[Array]:
    """Random inputs of a case."""
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    return [random.normal(size=each).astype(DTYPES[type]) for each in case.shapes]


def name_of(value: SSAValue) -> str:
    """The name of an input of a job."""
    assert isinstance(value.owner, InputOp)
    return value.owner.port.data


def outputs_of(group: FusedOp) -> list[str]:
    """The names of the outputs that results are."""
    users = [[use.operation for use in value.uses] for value in group.outs]
    outputs = [next(op for op in ops if isinstance(op, OutputOp)) for ops in users]
    return [op.port.data for op in outputs]


def exact_results(case: Case, group: FusedOp, arrays: Sequence[Array]) -> list[Wide]:
    """The results of a group in float64."""
    wanted = case.meaning(*(array.astype(np.float64) for array in arrays))
    names = re.findall(r'job.output "(\w+)"', case.text)
    named = dict(zip(names, wanted, strict=True))
    return [named[name] for name in outputs_of(group)]


def check(
    case: Case, type: str, results: Sequence[Array], wanted: Sequence[Wide]
) -> None:
    """Compare results with exact ones."""
    for result, exact in zip(results, wanted, strict=True):
        error = np.abs(result.astype(np.float64) - exact)
        assert result.shape == exact.shape
        assert (error <= case.ulps * EPSILON[type] * np.maximum(np.abs(exact), 1)).all()


def run_scheduled(
    group: FusedOp, operands: Sequence[Array], device: str
) -> list[Array]:
    """The results of the kernel of a group as it is scheduled for a device."""
    types = map(tensor_type, group.results)
    results = [
        np.full(type.get_shape(), 113, dtype_of(type.element_type)) for type in types
    ]
    kernel = KernelOp("kernel", device, kernel_body(group))
    if device == "cpu":
        cpu.schedule_kernel(kernel, 32)
    else:
        cuda.schedule_kernel(kernel, 132)
    assert not any(REFUSAL in op.attributes for op in kernel.body.block.ops)
    source = kernel_source(kernel)
    arrays = [array.copy() for array in (*operands, *results)]
    if device == "cpu":
        words = np.array([array.ctypes.data for array in arrays], np.int64)
        assert compile_cpu(source, "kernel")(words.ctypes.data) == 0
    else:
        assert run_lanes(source, [array.reshape(-1) for array in arrays]) == 0
    return arrays[len(operands) :]


def agree(name: str, type: str, device: str) -> None:
    """Compare the kernel of a case, and what NumPy makes of its ops, with NumPy."""
    case = {**CASES, **ON_CPUS}[name]
    group, arrays = group_of(case, type, device), arrays_of(case, type)
    operands = [arrays[int(name_of(value))] for value in group.ins]
    wanted = exact_results(case, group, arrays)
    results = run_scheduled(group, operands, device)
    check(case, type, results, wanted)
    if type == "f64":
        check(case, type, list(group.evaluate(*operands)), wanted)


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("name", [*CASES, *ON_CPUS])
def test_groups_on_a_cpu(name: str, type: str) -> None:
    agree(name, type, "cpu")


@pytest.mark.parametrize("type", ["f32", "f16"])
@pytest.mark.parametrize("name", CASES)
def test_groups_on_a_gpu(name: str, type: str) -> None:
    agree(name, type, "cuda")


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("norm and its deviation", "cpu"),
        ("norm and its deviation", "cuda"),
        ("batch norm", "cpu"),
    ],
)
def test_variances_are_about_their_mean(name: str, device: str) -> None:
    case, far = {**CASES, **ON_CPUS}[name], 4096
    group, arrays = group_of(case, "f32", device), arrays_of(case, "f32")
    arrays[0] = (arrays[0].astype(np.float64) + far).astype(np.float32)
    operands = [arrays[int(name_of(value))] for value in group.ins]
    results = run_scheduled(group, operands, device)
    # Differences of squares would have no digit left, as these are 2 ** 24.
    for result, exact in zip(results, exact_results(case, group, arrays), strict=True):
        error = np.abs(result.astype(np.float64) - exact).max()
        assert error <= 8 * EPSILON["f32"] * far


@pytest.mark.parametrize("name", [*CASES, *ON_CPUS])
def test_results_may_lie_over_operands(name: str) -> None:
    case = {**CASES, **ON_CPUS}[name]
    group, arrays = group_of(case, "f64", "cpu"), arrays_of(case, "f64")
    kernel = KernelOp("kernel", "cpu", kernel_body(group))
    cpu.schedule_kernel(kernel, 32)
    compiled = compile_cpu(kernel_source(kernel), "kernel")
    for pair in group.in_place_pairs():
        operands = [arrays[int(name_of(value))].copy() for value in group.ins]
        shapes = [tensor_type(value).get_shape() for value in group.outs]
        results: list[Array] = [np.zeros(shape) for shape in shapes]
        results[pair.result] = operands[pair.operand]
        words = np.array([x.ctypes.data for x in (*operands, *results)], np.int64)
        assert compiled(words.ctypes.data) == 0
        check(case, "f64", results, exact_results(case, group, arrays))


def test_values_are_kept_where_that_costs_less_than_computing_them_anew() -> None:
    def ops(name: str) -> list[str]:
        body = kernel_body(group_of({**CASES, **ON_CPUS}[name], "f32", "cpu"))
        (row,) = (op for op in body.block.ops if isinstance(op, RowOp))
        kept = [op.value.owner for op in row.walk() if isinstance(op, KeepOp)]
        return [op.name for op in kept if isinstance(op, Operation)]

    # Powers, not the differences of which they and the quotients are made.
    assert ops("softmax") == ["math.exp"]
    # A difference is as cheap as a load, and one is needed in any case.
    assert ops("norm and its deviation") == []
    # Kept values that are results lie there, though quotients have a row as well.
    assert ops("rows that others use") == ["math.exp"]
