"""Traced functions: what they compute is what NumPy computes of the same function."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from scipy.special import erf, expit
from xdsl.dialects.builtin import FloatAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    result_def,
    var_operand_def,
)

import penstock
from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.op import Op
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.plugins import unload
from penstock.tools.frontend.python.dtypes import short_name
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.frontend.python.ops import COMPOSED
from penstock.tools.frontend.python.structures import flattened
from penstock.tools.session.oracle import evaluate_model

Function: TypeAlias = Callable[..., Any]
One: TypeAlias = Callable[[Any], Any]
Two: TypeAlias = Callable[[Any, Any], Any]
Random: TypeAlias = np.random.Generator

TOLERANCE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


def job_of(function: One | Two, *arrays: Array) -> Job:
    """A job for arguments like these."""
    names = [f"x{index}" for index in range(len(arrays))]

    def traced(*values: Any) -> Any:
        plain: Function = function
        return plain(*values)

    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, plain) for name in names]
    traced.__dict__["__signature__"] = inspect.Signature(parameters)
    traced.__annotations__ = {
        name: Annotated[penstock.Tensor, array.shape, array.dtype.name]
        for name, array in zip(names, arrays, strict=True)
    }
    return Job(traced)


def meaning(function: One | Two, *arrays: Array) -> list[Array]:
    """The results of the trace of a function in NumPy, op by op."""
    job = job_of(function, *arrays)
    traced = job.trace()
    traced.module.verify()
    inputs = dict(zip(job.signature.parameters, arrays, strict=True))
    outputs = evaluate_model(traced.model(), inputs)
    return [outputs[name] for name in outputs]


def leaves_of(value: object) -> list[Array]:
    leaves: dict[str, object] = {}
    flattened(value, "out", leaves)
    return [np.asarray(leaf) for leaf in leaves.values()]


def assert_same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        bound = TOLERANCE.get(a.dtype.name, 0)
        a, b = a.astype(np.float64), b.astype(np.float64)
        scale = float(np.max(np.abs(b), initial=1e-30, where=np.isfinite(b)))
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * scale)


def check(function: One | Two, *arrays: Array) -> None:
    """The trace means what the function does with arrays."""
    with np.errstate(all="ignore"):
        plain: Function = function
        expected = leaves_of(plain(*arrays))
    assert_same(meaning(function, *arrays), expected)


def floats(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*shape: int, seed: int = 2) -> Any:
    return np.random.default_rng(seed).integers(-5, 6, shape, dtype=np.int32)


where: Any = np.where


# Operators and functions of NumPy -------------------------------------------------

UNARY: list[One] = [
    lambda x: -x,
    lambda x: +x,
    abs,
    np.exp,
    np.tanh,
    np.floor,
    np.ceil,
    np.square,
    np.fabs,
    np.sin,
    np.arctan,
    np.rint,
    np.reciprocal,
    lambda x: np.sqrt(np.abs(x)),
    lambda x: np.log(np.abs(x) + 1),
]
BINARY: list[Two] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (abs(y) + 1),
    lambda x, y: np.fmod(x, y),
    lambda x, y: x < y,
    lambda x, y: x >= y,
    lambda x, y: x == y,
    lambda x, y: x != y,
    lambda x, y: (x > 0) & (y > 0),
    lambda x, y: (x > 0) | (y > 0),
    lambda x, y: (x > 0) ^ (y > 0),
    lambda x, y: ~(x > y),
    lambda x, y: (x > 0) + (y > 0),
    lambda x, y: (x > 0) * (y > 0),
    lambda x, y: np.maximum(x > 0, y > 0),
    np.maximum,
    np.minimum,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    lambda x, y: np.logical_not(x),
    lambda x, y: (x > y) ^ True,
    lambda x, y: (abs(x) * 9).astype(np.int64) & (abs(y) * 9).astype(np.int16),
    lambda x, y: (abs(x) + 1) ** (y / 2),
    lambda x, y: x.T @ y,
    lambda x, y: x @ y[0],
    lambda x, y: where(x > y, x, y),
    lambda x, y: np.where(x, 1, y),
    lambda x, y: np.concatenate([x, y]),
    lambda x, y: np.concatenate([x, y[:, :2]], axis=1),
    lambda x, y: np.concatenate([x, y], axis=None),
    lambda x, y: np.stack([x, y], axis=1),
]
NUMBERS: list[One] = [
    lambda x: x + 1,
    lambda x: 1 - x,
    lambda x: x * 2.5,
    lambda x: 2.5 / (abs(x) + 1),
    lambda x: x / 2,
    lambda x: x + np.float64(0.1),
    lambda x: x + np.array([1, 2, 3, 4], np.int64),
    lambda x: np.arange(4) - x,
    lambda x: x > 0.5,
    lambda x: x + True,
    lambda x: np.ones((3, 3)) @ x,
]
MOVES: list[One] = [
    lambda x: x.T,
    lambda x: x.reshape(2, -1),
    lambda x: x.reshape((4, 3)),
    lambda x: np.reshape(x, 12),
    lambda x: np.reshape(x, (6, 2)),
    lambda x: x.transpose(1, 0),
    lambda x: x.transpose((1, 0)),
    lambda x: np.transpose(x, (0, 1)),
    lambda x: np.transpose(x),
    lambda x: x.ravel(),
    lambda x: x.flatten(),
    np.ravel,
    lambda x: np.expand_dims(x, 1),
    lambda x: np.expand_dims(x, (0, -1)),
    lambda x: np.squeeze(x[:1]),
    lambda x: x[:1].squeeze(0),
    lambda x: np.swapaxes(x[None], 0, -1),
    lambda x: np.moveaxis(x[None], 0, 2),
    lambda x: np.moveaxis(x[None], (0, 1), (1, 2)),
    lambda x: np.broadcast_to(x, (2, 3, 4)),
    lambda x: np.broadcast_to(x, (3, 4)),
    lambda x: np.split(x, 2, axis=1),
    lambda x: np.split(x, [1, 3], axis=1),
    lambda x: np.split(x, 3),
    lambda x: np.take(x, [2, 0, -1], axis=1),
    lambda x: np.take(x, np.array([[5, 1]])),
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=3),
    lambda x: np.pad(x, 1, mode="reflect"),
    lambda x: np.pad(x, (1, 2), "edge"),
    lambda x: np.clip(x, -1, 2),
    lambda x: np.clip(x, None, 0),
    lambda x: np.clip(x, np.float64(-0.5), 1),
    lambda x: np.clip(x, -1, 1 << 20),
    lambda x: np.clip(x, 0.5, None),
    lambda x: x + np.zeros_like(x) + np.ones_like(x) * np.full_like(x, 3),
    lambda x: x.astype("float16"),
    lambda x: x.astype(np.int64),
    lambda x: np.astype(x, bool),
    lambda x: [row * 2 for row in x],
    lambda x: x * x.size + x.ndim + len(x) + np.size(x) + np.ndim(x),
    lambda x: x * np.shape(x)[0],
]
REDUCTIONS: list[One] = [
    lambda x: x.sum(),
    lambda x: x.sum(axis=1),
    lambda x: x.sum(0, keepdims=True),
    lambda x: np.sum(x, axis=(0, -1)),
    lambda x: np.sum(x, axis=()),
    lambda x: np.sum(x, dtype=np.float64),
    lambda x: (x > 0).sum(axis=0),
    lambda x: x.prod(axis=1),
    lambda x: np.prod(x, keepdims=True),
    lambda x: x.mean(),
    lambda x: np.mean(x, axis=-1, keepdims=True),
    lambda x: x.max(axis=0),
    lambda x: np.max(x),
    lambda x: x.min(axis=1),
    lambda x: np.min(x, keepdims=True),
    lambda x: np.var(x, axis=0),
    lambda x: np.argmax(x, axis=1),
    lambda x: np.argmin(x, keepdims=True),
    lambda x: np.argmax(x, 0, keepdims=True) + np.argmin(x),
    lambda x: np.cumsum(x, axis=1),
    np.cumprod,
    lambda x: np.std(x, axis=1, keepdims=True),
]
INDICES: list[One] = [
    lambda x: x[0],
    lambda x: x[-1, 2],
    lambda x: x[1:],
    lambda x: x[::-1],
    lambda x: x[::2, 1:-1],
    lambda x: x[2:0:-1, ::-2],
    lambda x: x[5:, :2],
    lambda x: x[2:1],
    lambda x: x[...],
    lambda x: x[..., 1],
    lambda x: x[..., None],
    lambda x: x[None, 1, :, None],
    lambda x: x[:, None, ...],
    lambda x: x[np.int64(1)],
    lambda x: x[np.array([2, 0, 0, -1])],
    lambda x: x[[1, 1]],
    lambda x: x[:, [3, 0]],
    lambda x: x[1:, np.array([[0, 1], [3, 2]])],
    lambda x: x[()],
]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("function", [*UNARY, *NUMBERS, *MOVES, *REDUCTIONS, *INDICES])
def test_functions_of_one_tensor(function: Function, dtype: str):
    if function is np.reciprocal and dtype == "int32":
        function = np.positive  # there is no op for rounded reciprocals
    check(function, (floats(3, 4) * 3).astype(dtype))


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize("other", ["float32", "int32", "float64"])
def test_functions_of_two_tensors_of_any_dtypes(function: Function, other: str):
    check(function, floats(3, 4), (floats(3, 4, seed=5) * 3).astype(other))


def test_floats_are_clipped_by_one_op():
    """Its gradient keeps the operand, that of a maximum and a minimum another one."""

    clip: Any = np.clip

    def net(
        x: Annotated[penstock.Tensor, (2, 3), "float32"],
        y: Annotated[penstock.Tensor, (2,), "int64"],
    ) -> Any:
        return clip(x, -0.5, 6), clip(y, 0, 6)

    text = str(penstock.job(net).trace().model().module)
    assert re.findall(r"op\.(clip|maximum|minimum)", text) == [
        "clip",
        "maximum",
        "minimum",
    ]


@pytest.mark.parametrize("a", ["bool", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("b", ["bool", "int8", "int64", "float16", "float64"])
def test_dtypes_are_those_of_numpy(a: str, b: str):
    x, y = ints(4).astype(a), ints(4, seed=7).astype(b)
    check(lambda x, y: [x + y, x * y, np.maximum(x, y), x < y, np.exp(x)], x, y)
    check(lambda x, y: [np.where(x > 0, x, y), x.sum(), y.mean() + x.prod()], x, y)


def test_tensors_of_integers_are_places():
    x, i = floats(5, 3), np.array([[4, -1], [0, 2]])
    check(lambda x, i: [x[i], x.T[:, i], np.take(x, i, axis=0)], x, i)


# Random functions -----------------------------------------------------------------

Step: TypeAlias = tuple[Function, tuple[int, ...]]


def random_steps(random: Random, values: list[Array], length: int) -> list[Step]:
    """Steps that NumPy can do, each on some of the values so far."""
    steps: list[Step] = []
    while len(steps) < length:
        one: list[Function] = [*UNARY, *NUMBERS, *MOVES[:18], *REDUCTIONS, *INDICES]
        pool, count = (one, 1) if random.random() < 0.6 else ([*BINARY], 2)
        function = pool[int(random.integers(len(pool)))]
        used = tuple(int(random.integers(len(values))) for _ in range(count))
        try:
            result = np.asarray(function(*(values[place] for place in used)))
        except (ValueError, TypeError, IndexError, AttributeError):
            continue
        finite = np.all(np.abs(result.astype(np.float64)) < 1e4)
        if result.dtype.kind == "c" or result.size > 4096 or not finite:
            continue
        booleans = all(values[place].dtype == np.bool_ for place in used)
        scalars = any(values[place].ndim == 0 for place in used)
        if scalars and function in REDUCTIONS:
            continue  # NumPy lets scalars have an axis
        if function is np.reciprocal or result.size == 0 or booleans:
            continue
        values.append(result)
        steps.append((function, used))
    return steps


def replay(steps: Sequence[Step], count: int) -> Function:
    """A function that does these steps with its arguments, and returns all values."""

    def function(*values: Any) -> Any:
        found = list(values)
        for step, used in steps:
            found.append(step(*(found[place] for place in used)))
        return found[count:]

    return function


def random_function(seed: int, length: int) -> tuple[Function, list[Array]]:
    random = np.random.default_rng(seed)
    inputs = [floats(3, 4, seed=seed), ints(3, 4, seed=seed), floats(4, seed=seed + 1)]
    with np.errstate(all="ignore"):
        steps = random_steps(random, list(inputs), length)
    return replay(steps, len(inputs)), inputs


@pytest.mark.parametrize("seed", range(draws(20)))
def test_random_functions_mean_what_they_do_in_numpy(seed: int):
    function, inputs = random_function(seed, 12)
    check(function, *inputs)


@pytest.mark.parametrize("seed", [100, 101])
def test_random_functions_compiled(seed: int):
    function, inputs = random_function(seed, 8)
    with np.errstate(all="ignore"):
        expected = leaves_of(function(*inputs))
    with penstock.Session(threads=2):
        actual = job_of(function, *inputs)(*inputs)
    assert_same(leaves_of(actual), expected)


# Ops as functions -----------------------------------------------------------------


def call(name: str, *args: Any, **options: Any) -> Any:
    return getattr(penstock.ops, name)(*args, **options)


def test_every_op_on_tensors_is_a_function():
    tensor_ops = [op for op in Op.operations if issubclass(op, TensorOp)]
    names = {op.name.removeprefix("op.") for op in tensor_ops}
    # Those that hold other ops are made by passes.
    held = {op.name for op in tensor_ops if op.get_irdl_definition().regions}
    functions = set(dir(penstock.ops))
    assert {f"op.{name}" for name in names - functions} == held - {"op.loop"}
    known = {*names, *COMPOSED, "cond", "while_loop"}
    assert {"softmax", "conv2d", "reduce_sum"} <= functions <= known


def test_functions_have_the_signatures_and_texts_of_their_ops():
    assert str(inspect.signature(penstock.ops.softmax)) == "(input, axis=-1)"
    assert str(inspect.signature(penstock.ops.gather)) == "(data, indices, axis)"
    text = str(inspect.signature(penstock.ops.conv2d))
    assert text.startswith("(input, weights, bias=None, strides=(1, 1), ")
    assert str(inspect.signature(penstock.ops.leaky_relu)) == "(operand, alpha=0.01)"
    assert (inspect.getdoc(penstock.ops.erf) or "").startswith("The error function")
    assert repr(penstock.ops.relu) == "<function of op.relu(operand)>"


def test_functions_of_ops_against_scipy():
    x = floats(3, 4)

    def function(x: Any) -> Any:
        yield_ = [call("softmax", x, axis=0), call("log_softmax", x), call("erf", x)]
        return [*yield_, call("sigmoid", x), call("relu", x)]

    powers = np.exp(x)
    logs = x - np.log(powers.sum(1, keepdims=True))
    expected = [powers / powers.sum(0), logs, erf(x), expit(x), np.maximum(x, 0)]
    actual = meaning(function, x)
    assert_same(actual, [np.asarray(each).astype(np.float32) for each in expected])


def test_properties_are_plain_values():
    x = floats(2, 3, 5, 5)

    def function(x: Any) -> Any:
        parts = call("split", x, 1, [1, 2])
        assert isinstance(parts, tuple)
        return {
            "first": call("reduce_sum", x, axes=(2, 3), keepdims=True),
            "pad": call("pad", x, [0, 0, 1, 0], [0, 0, 0, 2], mode="edge"),
            "leaky": call("leaky_relu", x, 0.5),
            "whole": call("leaky_relu", x, alpha=1),
            "cast": call("cast", x, to="f64"),
            "concat": call("concat", parts, axis=1),
            "conv": call("conv2d", x, np.ones((2, 3, 1, 1), np.float32), groups=1),
            "where": call("where", x > 0, x, 0),
            "gelu": call("gelu", x, approximate="tanh"),
            "mean": call("reduce_mean", x, [-1], keepdims=False),
        }

    expected: list[Any] = [
        x.sum((2, 3), keepdims=True),
        np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)), "edge"),
        np.where(x < 0, x / 2, x),
        x,
        x.astype(np.float64),
        x,
        np.repeat(x.sum(1, keepdims=True), 2, 1),
        np.maximum(x, 0),
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        x.mean(-1),
    ]
    dtypes = [np.float64 if place == 4 else np.float32 for place in range(10)]
    expected = [e.astype(t) for e, t in zip(expected, dtypes, strict=True)]
    assert_same(meaning(function, x), expected)


def test_ops_with_several_results_give_all_of_them():
    x = floats(3, 7)

    def function(x: Any) -> Any:
        return call("top_k", x, 2, axis=1, smallest=True)

    places = np.argsort(x, axis=1)[:, :2]
    assert_same(meaning(function, x), [np.take_along_axis(x, places, 1), places])


def test_a_result_that_a_property_asks_for_makes_a_tuple():
    x = floats(3, 4)
    scores = x @ x.T
    sums = np.logaddexp.reduce(scores, axis=1)
    mixed = np.exp(scores - sums[:, None]) @ x
    assert_same(meaning(lambda x: call("attention", x, x, x), x), [mixed])
    both = meaning(lambda x: call("attention", x, x, x, with_lse=True), x)
    assert_same(both, [mixed, sums])


def test_ops_are_called_by_name_or_class():
    relu = next(op for op in Op.operations if op.name == "op.relu")
    assert issubclass(relu, TensorOp)
    x = floats(3)
    actual = meaning(lambda x: [penstock.op("op.relu", x), penstock.op(relu, x)], x)
    assert_same(actual, [np.maximum(x, 0)] * 2)


FILE = """
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from penstock.dialects.op.tensor_op import ElementwiseOp
from penstock.dialects.utils.tensors import tensor_type


@irdl_op_definition
class CubeOp(ElementwiseOp):
    name = "mine.cube"
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def infer_types(self):
        return (tensor_type(self.operand),)

    def evaluate(self, x):
        return (x * x * x,)

    def scalar(self, k, operands):
        (x,) = operands
        return k.mul(k.mul(x, x), x)


Mine = Dialect("mine", [CubeOp])
"""


@pytest.mark.parametrize("of_job", [True, False])
def test_ops_of_loaded_files_are_called_by_name(tmp_path: Path, of_job: bool):
    file = tmp_path / f"mine_{of_job}.py"
    file.write_text(FILE.replace("mine", f"mine{of_job}".lower()), encoding="utf-8")
    name = f"mine{of_job}.cube".lower()
    x = floats(3, 5)

    def cube(x: Annotated[penstock.Tensor, (3, 5), "f32"]) -> Any:
        return penstock.op(name, x) + 1

    with pytest.raises(penstock.PenstockError, match=r"there is no dialect '.*' \("):
        penstock.job(cube).trace()
    files = [str(file)]
    with penstock.Session(load=() if of_job else files):
        job = penstock.job(load=files)(cube) if of_job else penstock.job(cube)
        np.testing.assert_allclose(job(x), x.astype(np.float64) ** 3 + 1, rtol=1e-5)
    unload()


@irdl_op_definition
class BalanceOp(TensorOp):
    """The sum of some tensors less that of others, times a number."""

    name = "test.balance"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    some = var_operand_def(TensorType)
    others = var_operand_def(TensorType)
    factor = prop_def(FloatAttr)
    result = result_def(TensorType)

    def infer_types(self) -> Sequence[TensorType]:
        return [tensor_type(self.some[0])]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        count = len(self.some)
        whole = np.sum(operands[:count], 0) - np.sum(operands[count:], 0)
        return [(whole * self.factor.value.data).astype(operands[0].dtype)]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None: ...


def test_ops_of_several_lists_of_tensors():
    a, b = floats(3), floats(3)
    actual = meaning(
        lambda a, b: penstock.op(BalanceOp, [a, a], others=[b], factor=2), a, b
    )
    assert_same(actual, [(a + a - b) * np.float32(2)])


def test_there_is_an_attribute_for_ops_only():
    with pytest.raises(AttributeError) as caught:
        _ = penstock.ops.einsum
    assert str(caught.value) == "the op dialect has no op 'einsum' on tensors"
    with pytest.raises(AttributeError) as caught:
        _ = getattr(penstock, "nothing")  # noqa: B009 -- type checkers know it is not there
    assert str(caught.value) == "module 'penstock' has no attribute 'nothing'"


def test_short_names_are_those_of_the_ir():
    assert short_name(np.dtype("int8")) == "i8"


@pytest.mark.slow
def test_ops_of_an_installed_package(tmp_path: Path):
    plugin = Path(__file__).parents[4] / "plugin"
    install = [plugin / "install.py", tmp_path, "install", plugin / "acme"]
    subprocess.run([sys.executable, *install], check=True, timeout=300)
    script = tmp_path / "script.py"
    script.write_text(
        "from typing import Annotated\n"
        "import numpy as np, penstock\n"
        "@penstock.job\n"
        "def swish(x: Annotated[penstock.Tensor, (2,), 'f32']):\n"
        "    return penstock.op('acme.swish', x)\n"
        "x = np.array([1, -2], np.float32)\n"
        "print(np.abs(swish(x) - x / (1 + np.exp(-x))).max() < 1e-6)\n"
    )
    paths = str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_tracing_takes_linear_time():
    def chain(count: int) -> Callable[[], object]:
        def function(x: Any) -> Any:
            for _ in range(count):
                x = np.exp(x + 1)
            return x

        return job_of(function, floats(4)).trace

    assert growth_of(chain, 20) < LINEAR
