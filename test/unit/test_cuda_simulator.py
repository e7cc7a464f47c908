"""CUDA kernels without a GPU: in Numba's simulator, and compiled as far as PTX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.runtime.cuda_kernels import SIMULATOR, gpu_count

HERE = Path(__file__).parent


def run_python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process, where nothing has been imported."""
    kept = {name: value for name, value in os.environ.items() if name != SIMULATOR}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("file", ["numba_target", "numba_target_scalars"])
def test_kernels_agree_with_numpy_in_the_simulator(file: str) -> None:
    variables = {**os.environ, SIMULATOR: "1", "PENSTOCK_TEST_TARGET": "cuda"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, str(HERE / f"test_{file}.py")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


needs_no_gpu = pytest.mark.skipif(gpu_count() > 0, reason="this machine has a GPU")

CHOOSE = "from penstock.runtime.cuda_kernels import *; "


@needs_no_gpu
def test_simulator_stands_in_for_a_missing_gpu() -> None:
    code = "print(use_simulator_if_no_gpu()); import numba.cuda; print(_is_simulated())"
    code = CHOOSE + "from penstock.runtime.cuda_kernels import _is_simulated; " + code
    assert run_python(code).stdout == "True\nTrue\n"


@needs_no_gpu
def test_simulator_may_be_asked_for_before() -> None:
    code = CHOOSE + "import numba; print(use_simulator_if_no_gpu())"
    assert run_python(code, **{SIMULATOR: "1"}).stdout == "True\n"


@needs_no_gpu
def test_simulator_cannot_be_chosen_after_numba_is_imported() -> None:
    errors = run_python(CHOOSE + "import numba; use_simulator_if_no_gpu()").stderr
    assert errors.endswith(
        "there is no CUDA device, and Numba is imported already: "
        "set NUMBA_ENABLE_CUDASIM=1 before it is\n"
    )


PHASES = """
from penstock.runtime.cuda_kernels import *
use_simulator_if_no_gpu()
import numpy as np
source = '''
from numba import cuda


@cuda.jit
def phase_0(a, b, status):
    for i in range(cuda.grid(1), 70, cuda.gridsize(1)):
        b[i] = a[i] + a[i]


@cuda.jit
def phase_1(a, b, status):
    for i in range(cuda.grid(1), 70, cuda.gridsize(1)):
        if b[i] > 100:
            status[0] = 3
            return
        a[i] = b[69 - i]


@cuda.jit
def phase_2(a, b, status):
    for i in range(cuda.grid(1), 0, cuda.gridsize(1)):
        a[i] = 0


PHASES = [(phase_0, 70), (phase_1, 70), (phase_2, 0)]
'''
kernel = compile_cuda(source, "kernel", [np.float32, np.float32])
chunk = allocate(1024)
a, b = view(chunk, 256, 70, np.float32), view(chunk, 640, 70, np.float32)
numbers = np.arange(70, dtype=np.float32) / 2
a.copy_to_device(numbers)
launch(kernel, [a, b])
"""


def test_phases_run_in_order_on_views_of_a_chunk() -> None:
    code = PHASES + (
        "assert failure_of(kernel) == 0\n"
        "assert (a.copy_to_host() == 2 * numbers[::-1]).all()\n"
        "host = chunk.copy_to_host()\n"
        "assert (host[256:536].view(np.float32) == a.copy_to_host()).all()\n"
        "assert not host[:256].any() and not host[536:640].any()\n"
        "assert view(chunk, 0, 3, np.bool_).copy_to_host().dtype == np.uint8\n"
    )
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_failure_is_reported_once() -> None:
    code = PHASES + (
        "b.copy_to_device(numbers)\n"
        "a.copy_to_device(numbers + 1000)\n"
        "launch(kernel, [a, b])\n"
        "print(failure_of(kernel), failure_of(kernel))\n"
    )
    assert run_python(code).stdout == "3 0\n"


OFFLINE = """
import sys, types
from xdsl.context import Context
from xdsl.dialects import get_all_dialects as upstream
from xdsl.parser import Parser
from numba import cuda
from numba.core import types as nb
from numba.cuda import dispatcher
from penstock.dialects import get_all_dialects
from penstock.dialects.launch import KernelOp
from penstock.lowering.numba_target import kernel_source

try:
    cuda.compile_ptx(lambda: None, (), cc=(9, 0))
except Exception as error:
    print("no compiler:", str(error).split(chr(10))[0])
    sys.exit(77)
device = types.SimpleNamespace(compute_capability=(9, 0))
dispatcher.get_current_device = lambda: device
context = Context()
for name, factory in {**upstream(), **get_all_dialects()}.items():
    context.register_dialect(name, factory)
module = Parser(context, sys.stdin.read()).parse_module()
names = {"f16": nb.float16, "f32": nb.float32, "f64": nb.float64, "i1": nb.uint8}
names |= {f"i{bits}": getattr(nb, f"int{bits}") for bits in (8, 16, 32, 64)}
for kernel in module.walk():
    if isinstance(kernel, KernelOp):
        arguments = [names[str(type.element_type)] for type in kernel.arguments]
        pointers = tuple(nb.CPointer(type) for type in (*arguments, nb.int32))
        namespace = {}
        exec(kernel_source(kernel), namespace)
        for phase, _ in namespace["PHASES"]:
            ptx, _ = cuda.compile_ptx(phase.py_func, pointers, cc=(9, 0))
            assert "st.global" in ptx or "ret;" in ptx
"""

ONE_OPERAND = {
    "f32": [
        *("absf", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil"),
        *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10"),
        *("log1p", "log2", "round", "roundeven", "rsqrt", "sin", "sinh", "sqrt"),
        *("tan", "tanh", "trunc"),
    ],
    "i32": ["absi"],
}
TWO_OPERANDS = {
    "f32": [
        *("addf", "divf", "maximumf", "maxnumf", "minimumf", "minnumf", "mulf", "subf"),
        *("math.atan2", "math.copysign", "math.powf"),
    ],
    "i32": [
        *("addi", "andi", "ceildivsi", "ceildivui", "divsi", "divui", "floordivsi"),
        *("maxsi", "maxui", "minsi", "minui", "muli", "ori", "remsi", "remui", "shli"),
        *("shrsi", "shrui", "subi", "xori"),
    ],
}


def all_scalars(type: str) -> str:
    """A kernel that stores what each op makes of the elements of its arguments."""
    lines: list[str] = []
    for dialect, names, operands in (
        ("math", ONE_OPERAND, "%x"),
        ("arith", TWO_OPERANDS, "%x, %y"),
    ):
        for name in names[type]:
            name = name if "." in name else f"{dialect}.{name}"
            lines.append(f"%r{len(lines)} = {name} {operands} : {type}")
            lines.append(f"memref.store %r{len(lines) - 1}, %o[%i] : memref<64x{type}>")
    body = "\n".join(lines)
    return f"""
    launch.kernel @k_{type} target "cuda" (
        %a: memref<64x{type}>, %b: memref<64x{type}>, %o: memref<64x{type}>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      "scf.parallel"(%c0, %c64, %c1)
        <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%i: index):
        %x = memref.load %a[%i] : memref<64x{type}>
        %y = memref.load %b[%i] : memref<64x{type}>
        {body}
        scf.reduce
      }}) : (index, index, index) -> ()
    }}"""


def test_source_compiles_for_devices_with_pointers() -> None:
    text = "\n".join(
        [
            all_scalars("f32"),
            all_scalars("i32"),
            (HERE.parent / "target" / "numba-cuda.mlir").read_text(),
        ]
    )
    kept = {name: value for name, value in os.environ.items() if name != SIMULATOR}
    result = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        env=kept,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if result.returncode == 77:
        pytest.skip(f"Numba cannot compile for CUDA here: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr[-3000:]
