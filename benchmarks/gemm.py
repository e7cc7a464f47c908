"""
Matrix products and convolutions, ours and those of peers.

On one thread our kernel is called through its address, as the executor does, and each
peer as it is asked to write to a given array; on more threads ours is a session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.harness import Opener, Run, race
from benchmarks.jax_runs import model_run
from benchmarks.report import Section
from benchmarks.sessions import bound_run, imported_model, penstock_run
from benchmarks.speed import race_section

if TYPE_CHECKING:
    from onnx import ModelProto

    from penstock.dialects.op.tensor_op import TensorOp
    from penstock.runtime.loading.initializers import Array

TEXT = """\
Milliseconds of one op on `f32` (the median and the extremes of all rounds), and the
ratio of a peer's time to ours: above 1, we are faster. A product is named by its rows,
columns and terms, and by `t` where the right matrix is stored transposed; a convolution
by channels in, image, channels out, taps and stride. Weights are constants, which lie
as their reader wants them. On one thread our kernel is called by itself; on more, a
session runs a model of one node. Winograd is less exact (about 1e-5 of the largest
result) and has to be allowed; sessions use it for 8 tiles or more."""

WINOGRAD = "Penstock, Winograd"

PRODUCTS = (
    *("512x512x512", "768x768x768", "1024x1024x1024", "128x768x3072"),
    *("128x3072x768", "64x64x64", "128x10x512", "127x255x129", "1x768x768"),
    *("128x768x768t", "1x768x768t"),
)
CONVOLUTIONS = (
    *("64x56-64-1-1", "64x58-64-3-1", "64x56-256-1-1", "128x58-128-3-2"),
    *("128x30-128-3-1", "512x28-128-1-1", "256x16-256-3-1", "1024x14-256-1-1"),
    *("512x9-512-3-1", "2048x7-512-1-1", "3x230-64-7-2"),
)


@dataclass(frozen=True)
class Case:
    """A product or a convolution, with its operands."""

    name: str
    a: Array
    b: Array
    stride: int = 1

    @property
    def is_transposed(self) -> bool:
        """Whether it is a product whose right matrix is stored transposed."""
        return self.name.endswith("t")

    @property
    def is_convolution(self) -> bool:
        """Whether it is a convolution of `a` with weights `b`."""
        return self.a.ndim > 2


def case_of(name: str) -> Case:
    """The case of a name."""
    import numpy as np

    random = np.random.default_rng(3)

    def normal(*shape: int) -> Array:
        return random.normal(size=shape).astype(np.float32)

    if "-" not in name:
        m, n, k = (int(word) for word in name.rstrip("t").split("x"))
        return Case(name, normal(m, k), normal(*((n, k) if "t" in name else (k, n))))
    image, *rest = name.split("-")
    channels, extent = (int(word) for word in image.split("x"))
    outputs, taps, stride = map(int, rest)
    weights = normal(outputs, channels, taps, taps)
    return Case(name, normal(1, channels, extent, extent), weights, stride)


def op_of(case: Case) -> TensorOp:
    """The op that computes a case."""
    from xdsl.dialects.builtin import TensorType, UnitAttr, f32
    from xdsl.ir import Block

    from penstock.dialects.op.axes import int_list
    from penstock.dialects.op.linear import MatmulOp
    from penstock.dialects.op.windows.convolution import Conv2dOp

    args = Block(arg_types=[TensorType(f32, x.shape) for x in (case.a, case.b)]).args
    if case.is_convolution:
        properties = {"strides": int_list([case.stride] * 2)}
        return Conv2dOp.inferred(args, properties)
    transposed = {"transpose_b": UnitAttr()} if case.is_transposed else {}
    return MatmulOp.inferred(args, transposed)


def compiled_op(op: TensorOp, ins: Sequence[Array], constant: int) -> Step:
    """The kernel of an op on arrays, one of which is constant: it may lie in panels."""
    import numpy as np

    from penstock.dialects.kernel.builder import kernel_body
    from penstock.dialects.launch import KernelOp
    from penstock.dialects.utils.tensors import tensor_type
    from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
    from penstock.lowering.codegen.cpu.vector_width import vector_bytes_here
    from penstock.lowering.codegen.target import kernel_source
    from penstock.runtime.jit.cpu import compile_cpu
    from penstock.runtime.loading.weight_layout import as_stored
    from penstock.tools.session.program_export import panels_of

    kernel = KernelOp("kernel", "cpu", kernel_body(op))
    schedule_kernel(kernel, vector_bytes_here(), constants={constant})
    compiled = compile_cpu(kernel_source(kernel), "kernel")
    out = np.empty(tensor_type(op.results[0]).get_shape(), np.float32)
    orders = [found and panels_of(found) for found in kernel.panels]
    given = [as_stored(x, order) for x, order in zip(ins, orders, strict=False)]
    row = np.array([array.ctypes.data for array in (*given, out)], np.int64)
    call = compiled.bound(row.ctypes.data)
    # The row has to live, and so has what is given.
    return Step(lambda: call(0, 1), (*given, row), out)


@dataclass(frozen=True)
class Step:
    """A kernel with its arguments, and what it writes."""

    run: Callable[[], int]
    alive: Sequence[Array]
    out: Array


def open_penstock(name: str, threads: int) -> Run:
    """The compiled kernel of the op, or a session."""
    case = case_of(name)
    if threads > 1:
        return open_session(case, threads)
    step = compiled_op(op_of(case), (case.a, case.b), 1)

    def run() -> Sequence[Array]:
        step.run()
        return [step.out]

    return run


def open_session(case: Case, threads: int, winograd: bool = False) -> Run:
    """A session on a model of the case."""
    model = imported_model(model_of(case))
    return penstock_run(model, {"a": case.a}, threads, winograd=winograd)


def open_winograd(name: str, threads: int) -> Run:
    """
    The kernels that Winograd's convolution takes, weights transformed before, or a
    session.
    """
    import numpy as np
    from xdsl.dialects.builtin import TensorType, f32
    from xdsl.ir import Block, SSAValue

    from penstock.dialects.op.linear import MatmulOp
    from penstock.dialects.op.padding import PadOp
    from penstock.dialects.op.slicing import SliceOp
    from penstock.dialects.op.windows.winograd import (
        JOIN,
        SPLIT,
        WinogradJoinOp,
        WinogradSplitOp,
    )
    from penstock.runtime.loading.weight_layout import winograd_weights

    case = case_of(name)
    if threads > 1:
        return open_session(case, threads, winograd=True)
    outputs, channels, *_ = case.b.shape
    extent = case.a.shape[-1] - 2
    across = -(-extent // 4)
    missing = 4 * across - extent
    steps: list[Step] = []

    def values(*ins: Array) -> Sequence[SSAValue]:
        return Block(arg_types=[TensorType(f32, array.shape) for array in ins]).args

    def add(op: TensorOp, *ins: Array) -> Array:
        steps.append(compiled_op(op, ins, 0))
        return steps[-1].out

    image = case.a
    if missing:
        pad = PadOp(values(image)[0], [0] * 4, [0, 0, missing, missing])
        image = add(pad, image)
    split, join = np.array(SPLIT, np.float32), np.array(JOIN, np.float32)
    matrix, source = values(split, image)
    tiles = add(WinogradSplitOp(matrix, source, 4), split, image)
    stack = tiles.reshape(36, channels, across**2)
    weights = winograd_weights(case.b)
    product = add(MatmulOp.inferred(values(weights, stack), {}), weights, stack)
    parts = product.reshape(6, 6, outputs, 1, across, across)
    matrix, source = values(join, parts)
    found = add(WinogradJoinOp(matrix, source, None), join, parts)
    if missing:
        ends = [1, outputs, extent, extent]
        slice = SliceOp(values(found)[0], [0] * 4, ends, [1] * 4)
        found = add(slice, found)

    def run() -> Sequence[Array]:
        for step in steps:
            step.run()
        return [found]

    return run


def open_numpy(name: str, threads: int) -> Run:
    """`numpy.matmul`, which is OpenBLAS."""
    import numpy as np

    with suppress(ImportError):
        import_module("threadpoolctl").threadpool_limits(threads)
    case = case_of(name)
    b = case.b.T if case.is_transposed else case.b
    out = np.empty((len(case.a), b.shape[1]), np.float32)

    def run() -> Sequence[Array]:
        return [np.matmul(case.a, b, out=out)]

    return run


def open_torch(name: str, threads: int) -> Run:
    """PyTorch's function."""
    torch = import_module("torch")
    torch.set_num_threads(threads)
    case = case_of(name)
    a, b = torch.from_numpy(case.a), torch.from_numpy(case.b)
    if case.is_convolution:
        convolve = partial(torch.nn.functional.conv2d, a, b, stride=case.stride)
    else:
        b = b.T if case.is_transposed else b
        convolve = partial(torch.mm, a, b, out=torch.empty(len(a), b.shape[1]))

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            return [convolve().numpy()]

    return run


def model_of(case: Case) -> ModelProto:
    """A model of one node, whose right operand is a constant."""
    helper = import_module("onnx.helper")
    to_tensor = import_module("onnx.numpy_helper").from_array
    if case.is_convolution:
        node = helper.make_node("Conv", ["a", "b"], ["o"], strides=[case.stride] * 2)
    else:
        node = helper.make_node("Gemm", ["a", "b"], ["o"], transB=case.is_transposed)
    value = partial(helper.make_tensor_value_info, elem_type=1)
    graph = helper.make_graph(
        [node],
        "case",
        [value("a", shape=case.a.shape)],
        [value("o", shape=None)],
        [to_tensor(case.b, "b")],
    )
    opset = [helper.make_opsetid("", 20)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)


def open_onnxruntime(name: str, threads: int) -> Run:
    """A session of a model of the case."""
    import numpy as np

    from penstock.dialects.utils.tensors import tensor_type

    case = case_of(name)
    shape = tensor_type(op_of(case).results[0]).get_shape()
    out = np.empty(shape, np.float32)
    return bound_run(model_of(case), {"a": case.a}, out, threads)


def open_jax(name: str, threads: int) -> Run:
    """A function that JAX compiles, on arrays that lie where it wants them."""
    case = case_of(name)
    return model_run(model_of(case), {"a": case.a}, threads, fixed=True)


OPENERS: Mapping[str, Callable[[str, int], Run]] = {
    "Penstock": open_penstock,
    WINOGRAD: open_winograd,
    "ONNX Runtime": open_onnxruntime,
    "PyTorch eager": open_torch,
    "JAX": open_jax,
    "NumPy": open_numpy,
}
"""All contenders, ours first."""


def takes(contender: str, name: str) -> bool:
    """Whether a contender takes a case."""
    if contender == "NumPy":
        return "-" not in name
    return contender != WINOGRAD or name.endswith("-3-1")


def gemm(
    threads: Sequence[int],
    rounds: int,
    names: Sequence[str] = (*PRODUCTS, *CONVOLUTIONS),
) -> Section:
    """Time cases with each number of threads."""
    races = {
        (name, count): race(openers(name, count), rounds)
        for count in threads
        for name in names
    }
    flops = {name: op_of(case_of(name)).flops() for name in names}
    return race_section("Products and convolutions", TEXT, "case", races, flops, rounds)


def openers(name: str, threads: int) -> Mapping[str, Opener]:
    """The opener of each contender on a case, ours first."""
    return {
        contender: partial(opener, name, threads)
        for contender, opener in OPENERS.items()
        if takes(contender, name)
    }
