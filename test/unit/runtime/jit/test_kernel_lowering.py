"""
Printed kernels lowered without Numba's front end: compared with Python, which runs the
same text, and with NumPy.
"""

from __future__ import annotations

import ast
import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[4]))

from benchmarks.kernels.inputs import lines_of_file
from benchmarks.kernels.variants import Variant
from penstock.runtime.jit.c_function import compile_c_function
from penstock.runtime.jit.kernel_lowering import lowered
from penstock.runtime.jit.object_file import load_object

ROOT = Path(__file__).parents[4]
HEAD = "from penstock.runtime.kernels.cpu.support import *\n"
_made: list[object] = []


def executed(text: str) -> tuple[Callable[..., int], ast.Module]:
    """The function `kernel` of a text, and the text as it was parsed."""
    tree = ast.parse(text)
    names: dict[str, Any] = {}
    exec(compile(tree, f"printed_{len(_made)}.py", "exec"), names)
    _made.append(names)
    return names["kernel"], tree


def is_printed(text: str) -> bool:
    """Whether a text is of the part that is lowered here."""
    function, tree = executed(text)
    words = function.__code__.co_argcount
    return lowered(function, tree, "kernel", words, 64) is not None


def machine(text: str) -> Callable[..., int]:
    """The function `kernel` of a text in machine code."""
    function, tree = executed(text)
    words = function.__code__.co_argcount
    assert lowered(function, tree, "kernel", words, 64) is not None
    symbol = f"printed_{len(_made)}"
    code = compile_c_function(function, symbol, words, 64, text=tree)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * words)
    return cast("Callable[..., int]", kind(load_object(code) or 0))


def draw(seed: int, count: int, least: int = -40, most: int = 40) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return rng.integers(least, most, (count, 3)).tolist()


WORDS = """
def inner(a, b):
    if a < b:
        return 2
    return a - b

def kernel(a, b, c):
    "Words."
    largest, least = max(a, b, c), min(b, c, 5)
    total = largest * 3 - least
    for i in range(a % 7):
        last = i
        for j in range(i, 12, 5):
            if i < j and j != b % 11 or not a < b:
                total = total + i * j - c
            else:
                total += 1 if 0 <= i < 3 else j + last
    for i in range(a, b, -3):
        total = total ^ (i & 21 | b)
        if total == 12345:
            return 7
    for k in range(b, a, c):
        total = total + inner(k, b) + a // c - a % c
    if c == 3:
        pass
    if a > 0:
        if b > 0:
            return total
        return -total
    return -(total + 1)
"""


def test_words_are_computed_as_python_does() -> None:
    run, (python, _) = machine(WORDS), executed(WORDS)
    for words in draw(1, 400):
        if words[2]:
            assert run(*words) == python(*words)


DIVISIONS = """
def kernel(a, b, c):
    return a // b if c == 0 else a % b
"""


def test_divisions_have_a_result_for_each_divisor() -> None:
    """By zero they give zero, and nothing stops the process."""
    run = machine(DIVISIONS)
    least, most = -(1 << 63), (1 << 63) - 1
    for a in (-7, 0, 7, least + 1, most, least):
        for b in (0, -1, 1, 2, -3, least, most):
            wanted = divmod(a, b) if b else (0, 0)
            found = run(a, b, 0), run(a, b, 1)
            # One quotient does not fit into a word.
            assert found[1] == wanted[1]
            assert found[0] == wanted[0] or wanted[0] == -least


NUMBERS = """
def kernel(args, count, which):
    x, y = buffer_f32(args, 0, 6), buffer_f32(args, 1, 6)
    wide, small = buffer_f64(args, 2, 6), buffer_i8(args, 3, 6)
    half, flags = buffer_bf16(args, 4, 6), buffer_u8(args, 5, 6)
    for i in range(count):
        v0 = x[i]
        v1 = y[i] if i >= which else f32(-inf)
        v2 = maximum(v0, v1) - v0 / f32(3.0)
        v3 = small[i]
        small[i] = i8(v3 * v3 + i8(100))
        v4 = u8(v3) < u8(7)
        v5 = -v2 if v4 else v2
        flags[i] = u8(not v4 & (v0 != v0 + f32(1.0)))
        wide[i] = f64(v5) * f64(i) + wide[i]
        half[i] = round_bf16(f32(v3))
        y[i] = f32(i32(x[i].view(i32) ^ i32(1)).view(f32))
    return i64(u64(18) * u64(1))
"""


@pytest.mark.parametrize("which", [0, 5])
def test_numbers_are_of_exact_types(which: int) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 9)).astype(np.float32)
    wide, small = rng.normal(size=9), rng.integers(-128, 128, 9).astype(np.int8)
    half, flags = np.zeros(9, np.uint16), np.full(9, 3, np.uint8)
    arrays = x.copy(), y.copy(), wide.copy(), small.copy(), half, flags
    row = np.array([each.ctypes.data for each in arrays])
    assert machine(HEAD + NUMBERS)(row.ctypes.data, 9, which) == 18
    i = np.arange(9)
    v1 = np.where(i >= which, y, np.float32(-np.inf))
    v2 = np.maximum(x, v1) - x / np.float32(3)
    is_small = small.view(np.uint8) < 7
    signs = np.where(is_small, -1.0, 1.0)
    np.testing.assert_array_equal(arrays[2], signs * v2 * i + wide)
    np.testing.assert_array_equal(arrays[3], small * small + np.int8(100))
    np.testing.assert_array_equal(flags, ~is_small)
    kept = half.astype(np.uint32) << 16
    np.testing.assert_array_equal(kept.view(np.float32), small)
    np.testing.assert_array_equal(arrays[1].view(np.int32), x.view(np.int32) ^ 1)


@pytest.mark.parametrize(
    "body",
    [
        "while a < 9:\n        a = a + 1\n    return a",
        "b = a\n    for i in range(a):\n        b = f32(1.0)\n    return 0",
        "for i in range(a):\n        b = i\n    return b",
        "for i in range(a):\n        pass\n    return i",
        "if a < 3:\n        b = 1\n    return b",
        "return 1 if a < 3 else f32(1.0)",
        "return a / 2",
        "return a << 2",
        "return unknown(a)",
        "return sum((a, 1))",
        "return fma(a)",
        "return abs(a)",
        "b = [a]\n    return 0",
        "return u64(a) + a",
        "x = buffer_f32(a, 0, 1)\n    return 0 < a < x[a]",
        "b = f32(a) + f64(a)\n    return 0",
        "b = 9223372036854775808 + a\n    return 0",
        "a = 3\n    return a",
        "a",
    ],
)
def test_other_text_is_left_to_numba(body: str) -> None:
    assert not is_printed(f"{HEAD}\ndef kernel(a):\n    {body}\n")
    assert is_printed(f"{HEAD}\ndef kernel(a):\n    return a\n")


def test_no_printed_kernel_is_left_to_numba() -> None:
    variants = [Variant("cpu", waves=True)]
    path = ROOT / "examples" / "encoder.mlir"
    texts = {line.text for line in lines_of_file(path, ROOT, variants)}
    assert len(texts) > 4
    assert any("@member" in text for text in texts)
    for text in texts:
        assert is_printed(text)


def test_micro_kernels_are_a_module_apart() -> None:
    function, tree = executed(
        f"{HEAD}from penstock.runtime.kernels.cpu.matmul.tile import *\n"
        'tile = outer_micro_kernel("f32", 2, 1, 16, a=(8, 1), b=16, c=16, rest=0)\n'
        "def kernel(a, b, c):\n"
        "    tile(a, b, c, 2, 16, 8, 1, 1, ())\n"
        "    return 0\n"
    )
    made = lowered(function, tree, "made", 3, 64)
    assert made is not None
    assert "define" not in made.loops.replace('define i64 @"made"', "")
    assert made.micro_kernels.count("define") == 1
    assert "fmuladd" in made.micro_kernels
