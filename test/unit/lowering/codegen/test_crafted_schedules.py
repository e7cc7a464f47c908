"""
Schedule attributes that no rule would choose, on small kernels: each computes the op as
it is defined, or is refused with a message, and touches no byte around its buffers.

A schedule of the rules is changed at random, field by field. Kernels for CPUs run in a
child process, with a page that cannot be touched at one end of each buffer; those for
devices run in the emulator of lanes, which checks each index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pytest
from crafted_schedules import craft, source_if_any
from draws import fresh_seed
from kernel_runs import UNSET, run_source
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import AttentionOp, MaxPool2dOp, WinogradSplitOp
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.numpy_types import dtype_of, element_type_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.codegen.cpu.attention_schedule import schedule_attention
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.runtime.loading.weight_layout import as_stored
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes
from penstock.tools.session.program_export import panels_of as panels_image

Array: TypeAlias = NDArray[Any]
Make: TypeAlias = Callable[[Random], "Case"]
Kernels: TypeAlias = Callable[[str], list[KernelOp]]

EPSILON = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-10}


def source_of(random: Random, kernel: KernelOp) -> str | None:
    """The source of a kernel with its schedule changed, None if it is refused."""
    craft(random, kernel)
    return source_if_any(kernel)


# Cases ------------------------------------------------------------------------------


@dataclass
class Case:
    """A kernel for CPUs with a schedule, its op, and the arrays it is run on."""

    op: TensorOp
    arrays: Sequence[Array]
    constants: Sequence[int] = ()
    """The operands that may lie in panels."""

    def kernel(self) -> KernelOp:
        """The kernel with the schedule of the rules."""
        kernel = KernelOp("k", "cpu", kernel_body(self.op))
        schedule_kernel(kernel, 64, 1, self.constants)
        schedule_attention(kernel, 64)
        return kernel


def floats(random: Random, *shape: int) -> Array:
    """Random numbers about as large as 1."""
    numbers = np.random.default_rng(random.getrandbits(32)).standard_normal(shape)
    return numbers.astype(random.choice((np.float32, np.float64)))


def arguments(*arrays: Array) -> Sequence[Any]:
    """Values with the types of arrays, which nobody owns."""
    types = [TensorType(element_type_of(x.dtype), x.shape) for x in arrays]
    return Block(arg_types=types).args


def product(random: Random) -> Case:
    """A matmul of floats, of which an operand may be constant."""
    m, n, k = (random.choice((1, 3, 8, 17, 33, 48)) for _ in range(3))
    a = floats(random, m, k)
    b = floats(random, k, n).astype(a.dtype)
    constants = random.choice(((), (0,), (1,)))
    return Case(MatmulOp.inferred(arguments(a, b)), (a, b), constants)


def product_of_bytes(random: Random) -> Case:
    """A matmul of bytes."""
    m, n = (random.choice((1, 5, 16, 33)) for _ in range(2))
    k = random.choice((4, 12, 64, 65))
    rng = np.random.default_rng(random.getrandbits(32))
    a, b = (
        rng.integers(-128, 128, shape).astype(random.choice((np.int8, np.uint8)))
        for shape in ((m, k), (k, n))
    )
    op = MatmulOp.inferred(arguments(a, b), {"wide": UnitAttr()})
    return Case(op, (a, b), random.choice(((), (1,))))


def convolution(random: Random, *, depthwise: bool) -> Case:
    """A convolution with a bias."""
    channels, extent = random.randint(1, 6), random.randint(5, 18)
    outputs = channels if depthwise else random.randint(1, 20)
    x = floats(random, 2, channels, extent, extent + 3)
    taps = random.choice((1, 3)), 3
    w = floats(random, outputs, 1 if depthwise else channels, *taps).astype(x.dtype)
    bias = floats(random, outputs).astype(x.dtype)
    properties: dict[str, Attribute] = {
        "groups": IntegerAttr(channels if depthwise else 1, i64),
        "pads": int_list([0, 1, 0, 1]),
        "strides": int_list([random.choice((1, 2))] * 2),
    }
    op = Conv2dOp.inferred(arguments(x, w, bias), properties)
    return Case(op, (x, w, bias), random.choice(((), (1,))))


def pool(random: Random) -> Case:
    """Largest elements of windows."""
    x = floats(random, 1, 3, random.randint(4, 12), random.randint(4, 40))
    kernel = {"kernel": int_list([3, 2]), "pads": int_list([1, 0, 1, 1])}
    return Case(MaxPool2dOp.inferred(arguments(x), kernel), (x,))


def transform(random: Random) -> Case:
    """Images cut into the tiles of Winograd's algorithm."""
    x = floats(random, 2, 3, 6 + 4 * random.randint(0, 4), 6 + 4 * random.randint(0, 4))
    matrix = floats(random, 6, 6).astype(x.dtype)
    first, second = arguments(matrix, x)
    return Case(WinogradSplitOp(first, second, 4), (matrix, x))


def attention(random: Random) -> Case:
    """Attention with or without a mask for all rows."""
    q, k, v = (
        floats(random, 2, *shape).astype(np.float32)
        for shape in ((random.randint(1, 30), 8), (37, 8), (37, 24))
    )
    mask = [floats(random, 1, 37).astype(np.float32)] * random.randint(0, 1)
    scale = {"scale": FloatAttr(0.25, f64)}
    return Case(
        AttentionOp.inferred(arguments(q, k, v, *mask), scale), (q, k, v, *mask)
    )


CASES: dict[str, tuple[Make, int]] = {
    "products": (product, 2),
    "products of bytes": (product_of_bytes, 1),
    "convolutions": (partial(convolution, depthwise=False), 1),
    "depthwise convolutions": (partial(convolution, depthwise=True), 1),
    "pools": (pool, 1),
    "transforms": (transform, 1),
    "attention": (attention, 1),
}
"""Cases, and the number of kernels that are compiled and run."""


# Running ----------------------------------------------------------------------------


def run(source: str, ins: Sequence[Array], out: Array, at_end: bool) -> Array:
    """The result of a kernel in two parts, which a child of this process runs."""
    arrays = [*(np.array(array, order="C") for array in ins), out]
    end = "behind" if at_end else "before"
    assert run_source(source, arrays, parts=2, end=end) == 0
    for array, old in zip(arrays, ins, strict=False):
        np.testing.assert_array_equal(array, old)
    return arrays[-1]


def check(found: Array, wanted: Array) -> None:
    """Compare within what any order of few terms may be wrong by."""
    if found.dtype.kind == "i":
        np.testing.assert_array_equal(found, wanted)
        return
    tolerance = 500 * EPSILON[found.dtype.name] * (1 + float(abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


def printed(make: Make, seeds: Iterator[int]) -> Iterator[tuple[Case, KernelOp, str]]:
    """The cases of seeds whose crafted schedule is not refused."""
    for seed in seeds:
        random = Random(seed)
        case = make(random)
        kernel = case.kernel()
        print(f"seed {seed}")
        if (source := source_of(random, kernel)) is not None:
            yield case, kernel, source


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_refused_computes_the_op(name: str) -> None:
    make, count = CASES[name]
    kernels = printed(make, iter(range(1000)))
    for number, (case, kernel, source) in zip(range(count), kernels, strict=False):
        orders = [panels and panels_image(panels) for panels in kernel.panels]
        ins = [as_stored(x, y) for x, y in zip(case.arrays, orders, strict=False)]
        wide = [x.astype(float) if x.dtype.kind == "f" else x for x in case.arrays]
        (wanted,) = case.op.evaluate(*wide)
        dtype = case.arrays[0].dtype if case.arrays[0].dtype.kind == "f" else np.int32
        shape = tensor_type(case.op.results[0]).get_shape()
        out = np.full(shape, UNSET[np.dtype(dtype).kind], dtype)
        check(run(source, ins, out, at_end=number % 2 == 0), np.asarray(wanted))


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused_has_a_message(name: str) -> None:
    start = fresh_seed()
    seeds = iter(range(start, start + 25))
    for _, kernel, _ in printed(CASES[name][0], seeds):
        kernel.verify()


# Devices ----------------------------------------------------------------------------


def ops_of(op: str, result: str, **types: str) -> str:
    """The ops of a job that is one op on inputs."""
    inputs = [f'%{name} = job.input "{name}" : {type}' for name, type in types.items()]
    names = ", ".join(f"%{name}" for name in types)
    call = f"%y = {op.format(names)} : {', '.join(types.values())} -> {result}"
    return "\n".join((*inputs, call, f'job.output "y", %y : {result}'))


def device_product(type: str) -> str:
    """A matmul that rules compute in tiles."""
    a, b, o = (f"tensor<{shape}x{type}>" for shape in ("70x40", "40x66", "70x66"))
    return ops_of("op.matmul {}", o, a=a, b=b)


def device_attention(type: str) -> str:
    """Attention that rules compute in tiles, or on tensor cores."""
    q, k = f"tensor<2x20x32x{type}>", f"tensor<2x37x32x{type}>"
    return ops_of("op.attention {} scale 0.125", q, q=q, k=k, v=k)


def attended(q: Array, k: Array, v: Array) -> Array:
    """Attention with all scores at once."""
    scores = np.exp(0.125 * q @ k.swapaxes(1, 2))
    return scores / scores.sum(-1, keepdims=True) @ v


DEVICE_CASES: dict[str, tuple[str, Callable[..., Array], float]] = {
    "f32 products": (device_product("f32"), np.matmul, 1e-4),
    "f16 products": (device_product("f16"), np.matmul, 3e-2),
    "f32 attention": (device_attention("f32"), attended, 1e-5),
    "f16 attention": (device_attention("f16"), attended, 1e-2),
}
"""Jobs, their meaning, and a tolerance."""


@pytest.mark.parametrize("name", DEVICE_CASES)
def test_what_is_not_refused_computes_the_op_on_devices(
    device_kernels: Kernels, name: str
) -> None:
    text, meaning, tolerance = DEVICE_CASES[name]
    (usual,) = device_kernels(text)
    rng = np.random.default_rng(5)
    types = [(type.get_shape(), type.element_type) for type in usual.arguments]
    *ins, out = (rng.standard_normal(x).astype(dtype_of(y)) for x, y in types)
    wanted = meaning(*(x.astype(float) for x in ins))
    start, ran = fresh_seed(), 0
    for seed in range(start, start + 25):
        kernel = usual.clone()
        print(f"seed {seed}")
        source = source_of(Random(seed), kernel)
        if source is None or (ran := ran + 1) > 3:
            continue
        found = np.full_like(out, np.nan)
        assert run_lanes(source, [x.reshape(-1) for x in (*ins, found)]) == 0
        exact = found.astype(float)
        np.testing.assert_allclose(exact, wanted, rtol=tolerance, atol=tolerance)
    assert ran, "all schedules are refused"
