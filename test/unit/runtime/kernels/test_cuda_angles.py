"""Angles of CUDA kernels: the code of devices, run by the processor, against NumPy."""

# llvmlite carries few types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh
from llvmlite import ir

from penstock.runtime.kernels.cuda import trig_f32 as cuda_angles

Floats: TypeAlias = npt.NDArray[np.float32]
FUNCTIONS = {"sin": 1.5, "cos": 1.5, "tan": 3.21}
"""
The functions, and the error in units in the last place that their module documents: no
`float32` has a larger one.
"""
COUNT = 100_000


def module_text() -> str:
    """Functions that compute all elements of an array."""
    module, float_ = ir.Module("angles"), ir.FloatType()
    word = ir.IntType(64)
    kind = ir.FunctionType(
        ir.VoidType(), [float_.as_pointer(), float_.as_pointer(), word]
    )
    for name in FUNCTIONS:
        function = ir.Function(module, kind, name)
        given, found, count = function.args
        entry, loop, end = (function.append_basic_block() for _ in range(3))
        ir.IRBuilder(entry).branch(loop)
        builder = ir.IRBuilder(loop)
        index = builder.phi(word)
        index.add_incoming(word(0), entry)
        x: Any = builder.load(builder.gep(given, [index]))
        builder.store(
            getattr(cuda_angles, name)(builder, x), builder.gep(found, [index])
        )
        following: Any = builder.add(index, word(1))
        index.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, count), loop, end)
        ir.IRBuilder(end).ret_void()
    return str(module)


@pytest.fixture(scope="module")
def compiled() -> Callable[[str, Floats], Floats]:
    """The functions for this processor, by their names."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, features=llvm.get_host_cpu_features().flatten()
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(module_text()), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    def run(name: str, x: Floats) -> Floats:
        found = np.empty_like(x)
        function = kind(engine.get_function_address(name))
        function(x.ctypes.data, found.ctypes.data, x.size)
        return found

    return run


def angles(kind: str) -> Floats:
    """Random angles: of all sizes, up to some turns, or near quarter turns."""
    random = fresh()
    if kind == "all":
        bits = random.integers(0, 0x7F7FFFFF, COUNT, dtype=np.uint32, endpoint=True)
        signs = random.integers(0, 2, COUNT, dtype=np.uint32) << np.uint32(31)
        return (bits | signs).view(np.float32)
    if kind == "turns":
        return random.uniform(-70_000, 70_000, COUNT).astype(np.float32)
    return (random.integers(-50_000, 50_000, COUNT) * (np.pi / 2)).astype(np.float32)


@pytest.mark.parametrize("kind", ["all", "turns", "near quarters"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_angles_of_all_sizes_are_those_of_numpy(
    name: str, kind: str, compiled: Callable[[str, Floats], Floats]
):
    x = angles(kind)
    wanted = getattr(np, name)(x.astype(np.float64))
    unit = np.spacing(np.abs(wanted).astype(np.float32).clip(np.float32(1e-37)))
    errors = np.abs(compiled(name, x) - wanted) / unit
    assert errors.max() <= FUNCTIONS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_zeros_keep_their_signs_and_what_is_infinite_has_no_angle(
    name: str, compiled: Callable[[str, Floats], Floats]
):
    x = np.array([0.0, -0.0, 1e-40, np.inf, -np.inf, np.nan], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64)).astype(np.float32)
    found = compiled(name, x)
    np.testing.assert_array_equal(found, wanted)
    assert np.array_equal(np.signbit(found[:3]), np.signbit(wanted[:3]))
